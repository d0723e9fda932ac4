# SPDX-License-Identifier: GPL-2.0
"""The guest's part of rebuild, with the virtual clock: a RAID-5 of emulated drives,
one of which is replaced.

  rebuild.py WORDS OUT    WORDS is a file with a JSON object, see there

Three times are measured separately: the rebuild, each drive's commands meanwhile, and the host's
own writes.
"""

import contextlib
import errno
import os
import random
import sys
import threading
import time
from pathlib import Path

from guest import bench, blk, dm, media
from guest.blk import BLOCK, SECTORS

from experiments.in_guest import stack

MIB = 256                           # blocks
MEMBERS, SPARE = 4, 4               # drives 0 to 3 are the array, drive 4 replaces the first
META_MIB = 64
WCACHE_KIB = 16 << 10
PIECES, PIECE = 96, 16              # blocks of a piece read from the array, and of a write
WRITERS = 16                        # the load's writes in flight at most
LOOK_S = .05
MD = "/dev/md0"
SYS = Path("/sys/block/md0/md")
# Steps of 5 %, from a tenth of a millisecond to twenty minutes.
BOUNDS_NS = [round(100_000 * 1.05 ** i) for i in range(335)]


class Drive:
    """An emulated drive: a layer on a medium, or the medium alone."""

    def __init__(self, number, words):
        of, blocks = words["layer"], words["drive_mib"] * MIB
        keys = {"media": of["media"], "wcache": "on", "wcache_kib": WCACHE_KIB,
                "lookahead": "on", **of["keys"]}
        self.medium = dm.Device(f"medium{number}", [(
            0, blocks * SECTORS, "platter", f"/dev/ram{number} 0 {of['profile']} 0 "
            f"{2 * len(keys)} " + " ".join(f"{k} {v}" for k, v in keys.items()))])
        self.layer, self.name = None, self.medium.name
        if of["create"]:
            self.name = f"drive{number}"
            bench.run("shingle", "create", *of["create"], "--no-udev", "--force", "--meta",
                      f"/dev/ram{MEMBERS + 1 + number}", self.medium.path, self.name)
            self.layer = dm.made(self.name)
        else:
            dm.made(self.name)
        self.path = f"/dev/mapper/{self.name}"
        self.top = self.layer or self.medium

    def fill(self):
        """Fill the drive, so that it is like one in use: every block written, no block cached."""
        with blk.opened(self.path) as dev:
            size = blk.size(self.path)
            for at in range(0, size, MIB):
                dev.write(at, bytes(min(MIB, size - at) * BLOCK))
            dev.flush()
        if self.layer:
            # Not every layer has this message.
            with contextlib.suppress(OSError):
                self.layer.message("clean")

    def remove(self):
        if self.layer:
            self.layer.remove()
        self.medium.remove()

    def watch(self):
        """Begin to count commands by how long they take."""
        self.top.message("@stats_create - /1 2 precise_timestamps histogram:"
                         + ",".join(map(str, BOUNDS_NS)))

    def watched(self):
        """Return [number of commands in each step]."""
        line = self.top.message("@stats_print 0").split()
        return [int(n) for n in line[-1].split(":")]


class Load:
    """Random writes of 4 KiB, @per_s a second, sent whether or not earlier ones are done."""

    def __init__(self, per_s, blocks, seed):
        self.per_s, self.blocks, self.random = per_s, blocks, random.Random(seed)
        self.lock, self.end = threading.Lock(), threading.Event()
        self.sent, self.took, self.wrote, self.failed = 0, [], {}, []
        # Blocks with a write in flight.  A block with a failed write stays: its contents are
        # unknown.
        self.busy = set()
        self.threads = [threading.Thread(target=self._writer) for _ in range(WRITERS)]

    def __enter__(self):
        self.begin = stack.now()
        for thread in self.threads if self.per_s else ():
            thread.start()
        return self

    def __exit__(self, *exc):
        self.end.set()
        for thread in self.threads if self.per_s else ():
            thread.join()

    def _next(self):
        """Return the next write's number, block and due time; a block has one write in flight at
        most."""
        with self.lock:
            number = self.sent
            self.sent += 1
            while True:
                at = self.random.randrange(self.blocks)
                if at not in self.busy:
                    break
            self.busy.add(at)
        return number, at, self.begin + number / self.per_s

    def _writer(self):
        with blk.opened(MD) as dev:
            while True:
                number, at, due = self._next()
                if self.end.wait(max(0, due - stack.now())):
                    with self.lock:
                        self.busy.remove(at)
                    return
                try:
                    dev.write(at, text(at, number + 1))
                except OSError as error:
                    self.failed.append(os.strerror(error.errno or errno.EIO))
                    return
                with self.lock:
                    self.wrote[at] = number + 1
                    self.busy.remove(at)
                    self.took.append(stack.now() - due)


def text(block, number):
    """Return the contents that the @number-th write puts into @block."""
    return (block.to_bytes(8, "little") + number.to_bytes(8, "little")) * (BLOCK // 16)


def attribute(name, value=None):
    if value is None:
        return (SYS / name).read_text().strip()
    (SYS / name).write_text(f"{value}\n")
    return None


def wait_idle(limit_s):
    """Wait until md is idle, at most @limit_s.  Return [[seconds, sectors of a member done]]
    sampled meanwhile, and whether md became idle."""
    begin, seen = stack.now(), []
    while attribute("sync_action") != "idle":
        done, _, of = attribute("sync_completed").partition(" / ")
        if of:
            seen.append([stack.now() - begin, int(done)])
        if stack.now() - begin > limit_s:
            return seen, False
        time.sleep(LOOK_S)
    seen.append([stack.now() - begin, SECTORS * member_blocks()])
    return seen, True


def member_blocks():
    """Return the blocks that the array uses on each member."""
    return int(attribute("component_size")) * 1024 // BLOCK


def mdadm(*words):
    bench.run("mdadm", *words, env={**os.environ, "MDADM_NO_UDEV": "1"})


def sums(drives):
    """Return {name: value} summed over all layers, and summed over all media."""
    def of(devices):
        out = {}
        for device in devices:
            for name, value in media.stats(device).items():
                out[name] = out.get(name, 0) + value
        return out
    return {"r0_violations": 0, **of(d.layer for d in drives if d.layer)}, \
        of(d.medium for d in drives)


def rebuild(words):
    """Build an array and rebuild it once."""
    bench.modprobe("brd", f"rd_nr={2 * (MEMBERS + 1)}",
                   f"rd_size={max(words['drive_mib'], META_MIB) << 10}")
    bench.modprobe("raid456")
    drives = [Drive(i, words) for i in range(MEMBERS + 1)]
    for i, drive in enumerate(drives):
        if i != SPARE or words["used"]:
            drive.fill()
    array = drives[:MEMBERS]
    # Zeroes are their own parity, so no resynchronisation is needed.
    mdadm("--create", MD, "--level=5", f"--raid-devices={MEMBERS}", "--assume-clean",
          "--bitmap=none", "--metadata=1.2", "--run", *(d.path for d in array))
    attribute("sync_speed_max", 10_000_000)
    if words["min_kib_s"]:
        attribute("sync_speed_min", words["min_kib_s"])
    blocks = blk.size(MD)
    holds = {}
    with blk.opened(MD) as dev:
        for i in range(PIECES):
            at = i * (blocks - PIECE) // (PIECES - 1)
            dev.write(at, b"".join(text(b, 0) for b in range(at, at + PIECE)))
            holds.update(dict.fromkeys(range(at, at + PIECE), 0))
        dev.flush()
    for drive in array:
        if drive.layer:
            with contextlib.suppress(OSError):
                drive.layer.message("clean")
    mdadm(MD, "--fail", array[0].path)
    mdadm(MD, "--remove", array[0].path)
    used = [*array[1:], drives[SPARE]]
    for drive in used:
        drive.watch()
        drive.medium.message("stats_clear")
    with Load(words["per_s"], blocks, words["seed"]) as load:
        mdadm(MD, "--add", drives[SPARE].path)
        # A kernel thread starts the rebuild some time later.
        while attribute("sync_action") == "idle" and attribute("degraded") != "0":
            time.sleep(LOOK_S)
        seen, ended = wait_idle(words["limit_s"])
    steps = [drive.watched() for drive in used]
    late_us = max(media.stats(drive.medium)["late_max_us"] for drive in used)
    out = {"seen": seen, "ended": ended, "degraded": int(attribute("degraded")),
           "latencies": load.took, "sent": len(load.took), "failed": load.failed,
           "survivors": [sum(n) for n in zip(*steps[:-1])], "new": steps[-1],
           "late_us": late_us, "wrong_blocks": None, "mismatches": None}
    holds = {at: n for at, n in {**holds, **load.wrote}.items() if at not in load.busy}
    if ended:
        attribute("sync_action", "check")
        wait_idle(float("inf"))
        out["mismatches"] = int(attribute("mismatch_cnt"))
        with blk.opened(MD) as dev:
            out["wrong_blocks"] = sum(dev.read(at) != text(at, number)
                                      for at, number in sorted(holds.items()))
    out["layer"], out["medium"] = sums(drives)
    mdadm("--stop", MD)
    for drive in drives:
        drive.remove()
    return out


if __name__ == "__main__":
    sys.exit(stack.answered(rebuild))
