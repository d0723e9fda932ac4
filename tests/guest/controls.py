# SPDX-License-Identifier: GPL-2.0
"""Layers of Linux over platter that scripts/skylight might take for shingled drives.  None may be
called shingled, and each must be named as far as it can be recognised.  For the virtual clock.

drives.py lists them.  A platter stores nothing.  Where a layer has its metadata on the
drive, that part is in RAM.
"""

import json
import os
import struct
import tempfile
import zlib
from pathlib import Path

from guest import bench
from guest import dm
from guest import skylight
from guest.bench import expect
from guest.drives import CONTROLS, GIB, drive_of, not_asked

FRONT, CACHE = 16 << 11, 128 << 11      # sectors for metadata on a drive, and of a cache
META, RAM = "/dev/ram0", "/dev/ram1"
ZONE, RANDOM, SPARE = 64 << 11, 8, 4     # sectors of a zone, random zones, spare zones for cleaning
MASK = (1 << 32) - 1


def module(name):
    """Load a module, or fail with a sentence."""
    expect(bench.modprobe(name), f"no {name} in this kernel")


def put(path, text):
    """Write to a file of sysfs."""
    with open(path, "w", encoding="ascii") as handle:
        handle.write(f"{text}\n")


class Control(skylight.Drive):
    """A drive of any kind; self.undo: functions to call before its devices are removed."""

    def __init__(self, spec):
        self.undo, self.used = [], 0
        super().__init__(spec)

    def _over(self, target, words):
        return self.mapped(self.name, self.spec["sectors"], target, words)[0]

    def _ram(self, name, sectors, *more):
        """Return a device with @sectors sectors of RAM, followed by @more; its begin is zeroed, so
        that no layer finds old metadata."""
        self.made.append(dm.Device(name, [(0, sectors, "linear", f"{RAM} {self.used}"), *more]))
        self.used += sectors
        bench.run("dd", "if=/dev/zero", f"of={skylight.node(name)}", "bs=64k", "count=32",
                  "oflag=direct")
        return skylight.node(name)

    def _kept(self, name):
        """Return a platter that stores its first blocks."""
        path, _ = self.platter(f"{name}-platter", self.spec["sectors"])
        return self._ram(name, FRONT, (FRONT, self.spec["sectors"] // 8 * 8 - FRONT, "linear",
                                       f"{path} {FRONT}"))

    def linear(self):
        return self._over("linear", f"{self._medium('medium')} 0")

    def crypt(self):
        module("dm-crypt")
        return self._over("crypt", f"aes-xts-plain64 {'5a' * 64} 0 {self._medium('medium')} 0")

    def snapshot(self):
        module("dm-snapshot")
        cow, _ = self.platter("exceptions", self.spec["sectors"])
        return self._over("snapshot", f"{self._medium('medium')} {cow} N 128")

    def cache(self):
        module("dm-cache")
        module("dm-cache-smq")
        fast, _ = self.platter("fast", self.spec["sectors"] // 50 // 512 * 512, "generic",
                               ("timing", "none"))
        return self._over("cache", f"{META} {fast} {self._medium('medium')} 512 1 "
                          "writeback smq 0")

    def writecache(self):
        module("dm-writecache")
        return self._over("writecache", f"s {self._medium('medium')} "
                          f"{self._ram('fast', CACHE)} 4096 0")

    def raid1(self):
        return self._array("raid1", ["--build", "/dev/md0", "--level=1", "--raid-devices=2",
                                     self.platter("left", self.spec["sectors"])[0],
                                     self.platter("right", self.spec["sectors"])[0]])

    def raid5(self):
        return self._array("raid456", [
            "--create", "/dev/md0", "--run", "--level=5", "--raid-devices=3", "--metadata=1.2",
            "--bitmap=none", f"--data-offset={FRONT // 2}K", *map(self._kept, "abc")])

    def _array(self, level, words):
        module(level)
        bench.run("mdadm", *words, "--assume-clean", env={**os.environ, "MDADM_NO_UDEV": "1"})
        self.undo.append(lambda: bench.run("mdadm", "--stop", "/dev/md0"))
        return "/dev/md0"

    def bcache(self):
        module("bcache")
        drive, fast = self._kept("backing"), self._ram("fast", CACHE)
        bench.run("make-bcache", "--wipe-bcache", "--block", "4k", "--bucket", "128k",
                  "--writeback", "-B", drive, "-C", fast)
        for device in (fast, drive):
            put("/sys/fs/bcache/register", device)
        own = Path(bench.until(lambda: next(iter(Path("/sys/block").glob("bcache*")), None),
                               "bcache has taken its devices"))

        def stop():
            for group in Path("/sys/fs/bcache").glob("*-*"):
                put(group / "unregister", 1)
            put(own / "bcache/stop", 1)
            # bcache releases them some time after it has gone from /sys.
            bench.until(lambda: bench.run("dmsetup", "info", "-c", "--noheadings", "-o", "open",
                                          "fast", "backing")[1].split() == ["0", "0"],
                        "bcache has let go of its devices")
        self.undo.append(stop)
        put(own / "bcache/sequential_cutoff", 0)
        return f"/dev/{own.name}"

    def zoned(self):
        """Format as dmzadm does: a superblock, a map in which no chunk has a zone, and for each
        zone a bitmap of valid blocks, in the first zone and in the second."""
        module("dm-zoned")
        zones = self.spec["sectors"] // ZONE
        path = bench.Pool._null(zones * ZONE >> 11, "zones",
                                zoned=1, zone_size=ZONE >> 11, zone_nr_conv=RANDOM)
        chunks = zones - 2 - SPARE
        maps = -(-chunks // 512)
        with open(path, "r+b", buffering=0) as drive:
            for zone in (0, 1):
                at = zone * ZONE // 8
                head = bytearray(struct.pack("<4sIQQ6I", b"DBZD", 1, 1, at, 1 + maps + zones, SPARE,
                                             chunks, maps, zones, 0).ljust(4096, b"\0"))
                head[44:48] = struct.pack("<I", ~zlib.crc32(head, ~1 & MASK) & MASK)
                drive.seek(at * 4096)
                drive.write(head + b"\xff" * 4096 * maps + bytes(4096 * zones))
        return self.mapped(self.name, chunks * ZONE, "zoned", path)[0]

    def close(self):
        while self.undo:
            self.undo.pop()()
        super().close()


def control(ctx, name):
    """Skylight's answer for it must be one of the allowed ones."""
    drive, allowed = Control(drive_of(name, sectors=GIB, tests="1,11")), CONTROLS[name][1]
    try:
        with tempfile.TemporaryDirectory() as folder:
            status = drive.look_at_all(Path(folder))
            said = json.loads(Path(folder, "report.json").read_text("utf-8"))
            late, too_often = drive.late()
    finally:
        drive.close()
    answer = said["answers"]["drive_type"]
    ctx.note(f"{answer['value']}, {100 * answer['confidence']:.1f} %: {answer['says']}")
    why = not_asked(said["tests"])
    if why:
        ctx.note(f"whether it is shingled was not asked: {why}")
    expect(status == 0, f"scripts/skylight ended with {status}")
    expect(answer["value"] != "shingled", f"{name} is called shingled: {answer['says']}")
    expect(answer["value"] in allowed, f"{name} is called {answer['value']}: {answer['says']}")
    if late:
        ctx.note(late)
    expect(not too_often, late)


def cases(_target, options):
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [(f"not shingled: {name}", lambda ctx, n=name: control(ctx, n))
            for name in CONTROLS]
