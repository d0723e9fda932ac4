# SPDX-License-Identifier: GPL-2.0
"""scripts/skylight examines small drives with known parameters, and must name them.  For the
virtual clock, and a platter with its mechanics.

The medium has no store unless the drive needs one: only its time is emulated, because no test looks
at contents.  Metadata are in RAM.

A drive is a dictionary:
 kind            shingled, plain, ram, thin
 name            of the mapped device
 sectors         of the medium
 profile, keys   of the platter
 create          arguments of shingle create (shingled)
 flash_sectors   of a cache device that takes no time (shingled)
 chunk           sectors (thin)
 powercut        Test 13 may cut the medium's power
 joined          metadata are on the medium, which then has a store
 store           the medium keeps what is written, in RAM
 filesystem      to be made on the drive for skylight quick, which then uses a scratch file
 tests, scale, seed   of scripts/skylight
"""

import json
import os
import random
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from guest import bench
from guest import blk
from guest import dm
from guest import drives as special
from guest.bench import expect

SKYLIGHT = Path(bench.TOP) / "scripts/skylight"
PROFILE = "st4000nc001"     # the drive below the emulated drives of the thesis
META_KIB = 262144
LATE = 1000
LOOK_S = 0.05
LEAST_S = 0.01              # least time of a few requests
WORK_S = (20, 20, 5)        # writing, reading, idle
LAST = "14"                 # needs the drive's look-ahead, which a layer does not pass on


# --- drives -----------------------------------------------------------------------


def node(name):
    bench.run("dmsetup", "mknodes", name)
    return f"/dev/mapper/{name}"


def quick_fio():
    """Preload fioclock.c, with which fio starts in a tenth of a second under the virtual clock."""
    made = "/tmp/fioclock.so"
    if not os.path.exists(made):
        bench.run("cc", "-O2", "-shared", "-fPIC", "-o", made,
                  Path(__file__).with_name("fioclock.c"))
    os.environ["LD_PRELOAD"] = made


class Drive:
    """A drive made from a dictionary; has path and close()."""

    def __init__(self, spec):
        self.spec, self.medium, self.meta, self.made = spec, None, None, []
        self.name = spec.get("name", "drive")
        if os.environ.get("SHINGLE_CLOCK") == "virtual":
            quick_fio()
        # brd allocates memory as it is written.
        kib = max(META_KIB, spec["sectors"] // 2) if spec.get("store") else META_KIB
        bench.modprobe("brd", "rd_nr=2", f"rd_size={kib}")
        bench.run("dd", "if=/dev/zero", "of=/dev/ram0", "bs=64k", "count=1")
        try:
            self.path = getattr(self, spec["kind"])()
        except BaseException:
            self.close()
            raise

    def mapped(self, name, length, target, words):
        made = dm.Device(name, [(0, int(length) // 8 * 8, target, words)])
        self.made.append(made)
        return node(name), made

    def platter(self, name, sectors, profile=PROFILE, keys=()):
        store = "/dev/ram1 0" if self.spec.get("store") else "none 0"
        return self.mapped(name, sectors, "platter", " ".join(
            [store, profile, "0", str(len(keys)), *map(str, keys)]))

    def _medium(self, name):
        path, self.medium = self.platter(name, self.spec["sectors"], self.spec.get(
            "profile", PROFILE), self.spec.get("keys", ()))
        return path

    def plain(self):
        return self._medium(self.name)

    def shingled(self):
        data, more = self._medium("medium"), []
        if self.spec.get("flash_sectors"):
            flash, _ = self.platter("flash", self.spec["flash_sectors"], "generic",
                                    ("timing", "none"))
            more = ["--cache", flash]
        if not self.spec.get("joined"):
            meta = "/dev/ram0"
            if self.spec.get("powercut"):
                # Both lose power together.
                meta, self.meta = self.mapped("meta", 2 * META_KIB, "platter",
                                              "/dev/ram0 0 generic 0 2 timing none")
            more += ["--meta", meta]
        bench.run("shingle", "create", *self.spec["create"], "--no-udev", "--force", *more,
                  data, self.name)
        return node(self.name)

    def ram(self):
        return "/dev/ram1"

    def thin(self):
        """Thin provisioning over a platter; a pool allocates chunks in the order of first writes.
        """
        data, sectors = self._medium("medium"), self.spec["sectors"]
        bench.modprobe("dm-thin-pool")
        path, pool = self.mapped("pool", sectors // 4096 * 4096, "thin-pool",
                                 f"/dev/ram0 {data} {self.spec.get('chunk', 128)} 0 1 "
                                 "skip_block_zeroing")
        pool.message("create_thin 0")
        return self.mapped(self.name, sectors // 2, "thin", f"{path} 0")[0]

    def look(self, out, tests, truth=False):
        """Run scripts/skylight; return its exit status."""
        words = [SKYLIGHT, "run", self.path, "--out", out, "--reset",
                 "--destroy-data", "--scale", self.spec.get("scale", "auto"), "--seed",
                 self.spec.get("seed", 1), "--tests", ",".join(tests)]
        words += ["--truth"] if truth else []
        words += ["--powercut", self.cutter()] if self.spec.get("powercut") else []
        return subprocess.run([str(w) for w in words], stdin=subprocess.DEVNULL,
                              check=False).returncode

    def look_at_all(self, out):
        """Run the tests in the dictionary; return the exit status."""
        tests = self.spec["tests"].split(",")
        first, status = [t for t in tests if t != LAST], 0
        if first:
            status = self.look(out, first, truth=LAST not in tests)
        if LAST in tests:
            # Stands for the user's hdparm -A1 on the drive, which a layer does not pass on.
            if self.medium:
                self.medium.message("lookahead on")
            status |= self.look(out, [LAST], truth=True)
        return status

    def look_quickly(self, out):
        """Run skylight quick, which may write to the whole drive, or to a file in its file system;
        write its answer to answer.json.  Return the exit status."""
        kind, words = self.spec.get("filesystem"), [self.path, "--write"]
        if kind:
            words = ["/tmp/mounted"]
            os.mkdir(*words)
            bench.modprobe(kind)
            bench.run(f"mkfs.{kind}", self.path)
            bench.run("mount", "-t", kind, self.path, *words)
        words = [SKYLIGHT, "quick", *words, "--json", "--out", out]
        try:
            with open(out / "answer.json", "w", encoding="utf-8") as answer:
                return subprocess.run([str(w) for w in words], stdin=subprocess.DEVNULL,
                                      stdout=answer, check=False).returncode
        finally:
            if kind:
                left = os.listdir("/tmp/mounted")
                bench.run("umount", self.path)
                expect(left in (["lost+found"], []), f"it has left {left}")

    def explained(self, out, seconds):
        """Run skylight explain while the drive is under load; write its answer to explain.json,
        and to inside.json the time spent cleaning, in us, at each moment.  Return the exit status.
        """
        inside, over = [], threading.Event()
        # A RAM disk has no statistics until they are turned on.
        number = os.stat(self.path).st_rdev
        stats = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue/iostats")
        if stats.read_text(encoding="ascii") == "0\n":
            stats.write_text("1\n", encoding="ascii")
        layer = dm.Device.found(self.name) if self.spec["kind"] == "shingled" else None

        def ask():
            while layer and not over.is_set():
                said = dict(line.split() for line in layer.message("stats").splitlines()
                            if len(line.split()) == 2)
                inside.append((time.monotonic(), int(said["clean_us"])))
                time.sleep(LOOK_S)
        asker = threading.Thread(target=ask)
        with open(out / "explain.json", "w", encoding="utf-8") as answer, subprocess.Popen(
                [str(SKYLIGHT), "explain", self.path, "--json", "--seconds",
                 str(seconds)], stdin=subprocess.DEVNULL, stdout=answer) as watcher:
            asker.start()
            try:
                at_work(self.path, watcher, random.Random(1))
            finally:
                over.set()
                asker.join()
        (out / "inside.json").write_text(json.dumps(inside), encoding="utf-8")
        return watcher.returncode

    def cutter(self):
        """Return a command that cuts the medium's power and brings the drive back.

        The cut comes in the middle of a write, if there is one, after a number of blocks that
        differs each time; an immediate cut would let writes in flight complete.
        """
        count = "/tmp/cutter.count"
        Path(count).write_text("0", encoding="ascii")
        on = "dmsetup message {} 0 powercut {}".format
        lines = ["set -eu", f"i=$(cat {count})", f"echo $((i + 1)) > {count}",
                 on(self.medium.name, "$((i * 131 % 509 + 1))"), "sleep 0.2",
                 on(self.medium.name, 0), on(self.medium.name, "off")]
        if self.medium.name != self.name:
            # Metadata first, so that the layer cannot record that its medium has failed.
            apart = [self.meta.name] if self.meta else []
            lines[3:3] = [on(name, 0) for name in apart]
            # The drive is the same afterwards, with the same UUID.
            lines[-1:] = [f"table=$(dmsetup table {self.name})",
                          f"uuid=$(dmsetup info -c --noheadings -o uuid {self.name})",
                          f"dmsetup remove --retry --noudevsync {self.name}",
                          *(on(name, "off") for name in (*apart, self.medium.name)),
                          f'dmsetup create --noudevsync {self.name} --uuid "$uuid" '
                          '--table "$table"',
                          f"dmsetup mknodes {self.name}",
                          # After a power cut a drive reports no loss.
                          f"sync /dev/mapper/{self.name} || true"]
        path = Path("/tmp/cutter.sh")
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        return f"sh {path}"

    def late(self):
        """Return a sentence on how often the host was too slow for the medium's clock, and whether
        that is more than the tests tolerate: once in LATE requests."""
        if not self.medium:
            return "", False
        pairs = (line.split() for line in self.medium.message("stats").splitlines())
        said = {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}
        all_of_them = said["reads"] + said["writes"]
        text = (f"the host was late {said['late']} times in {all_of_them} requests, "
                f"{said['late_max_us']} us at most")
        return text if said["late"] else "", said["late"] * LATE > all_of_them

    def close(self):
        if self.spec["kind"] == "shingled":
            bench.run("dmsetup", "remove", "--noudevsync", self.name, ok=None)
        while self.made:
            self.made.pop().remove()


def at_work(path, until, rng):
    """Write at random for a while, then read, then idle, and repeat, until the process @until has
    ended."""
    with blk.opened(path) as drive:
        blocks, data = blk.size(path), bytes(blk.BLOCK)
        while True:
            for length, work in zip(WORK_S, (lambda at: drive.write(at, data), drive.read,
                                             lambda _: time.sleep(LOOK_S))):
                end = time.monotonic() + length
                while (now := time.monotonic()) < end:
                    if until.poll() is not None:
                        return
                    for _ in range(8):
                        work(rng.randrange(blocks))
                    if time.monotonic() - now < LEAST_S:
                        # A loop that takes no time would never end under the virtual clock.
                        time.sleep(LEAST_S)


# --- the suite ----------------------------------------------------------------------


# Bands of 1 MiB, and the fewest of each kind that show its properties.
SMALL = {
    "linear": {"plain": ({"kind": "plain", "sectors": 4 << 21, "tests": "1,2,3"},
                         {"drive_type": "conventional"})},
    "stl-set": {
        "disk": ({"kind": "shingled", "sectors": 4 << 21, "tests": "1,2,3,6,11",
                  "create": ["stl-set", "--band", "1M", "--geometry", "pack", "--bands",
                             "1500", "--cache-size", "12b"]},
                 {"drive_type": "shingled", "cache_medium": "disk",
                  "cache_layout": "single-id", "cleaning_type": "lazy",
                  "band_bytes": 1 << 20}),
        "flash": ({"kind": "shingled", "sectors": 4 << 21, "flash_sectors": 20 << 11,
                   "tests": "1,2,3,6",
                   "create": ["stl-set", "--band", "1M", "--geometry", "pack", "--bands",
                              "1500", "--cache-size", "12b"]},
                  # No test that looks for bands is run.
                  {"drive_type": "translated", "cache_medium": "flash",
                  "cleaning_type": "lazy"}),
        **{name: (spec, {"torn_writes": tears})
           for name, (spec, tears) in special.TORN.items()}},
    "stl-full": {
        "disk": ({"kind": "shingled", "sectors": 4 << 21, "tests": "1,2,3,6,12",
                  "create": ["stl-full", "--band", "1M", "--geometry", "pack", "--bands",
                             "1500", "--zone-bands", "150", "--provision", "8",
                             "--log-bands", "3"]},
                 {"drive_type": "translated", "cache_medium": "disk",
                  "cache_layout": "multiple", "cleaning_type": "aggressive",
                  "mapping": "dynamic"})},
}


def named(ctx, spec, wanted):
    """The drive is named, and no wrong answer is confident."""
    drive = Drive(spec)
    try:
        with tempfile.TemporaryDirectory() as folder:
            status = drive.look_at_all(folder)
            marks = json.loads(Path(folder, "truth.json").read_text("utf-8"))
            page = Path(folder, "report.html").stat().st_size
            late, too_often = drive.late()
    finally:
        drive.close()
    ctx.note("; ".join(f"{k} {e['value']} {e['mark']}" for k, e in marks.items()
                       if e["mark"] in ("right", "wrong")))
    expect(status == 0, f"scripts/skylight ended with {status}")
    wrong = {k: e["value"] for k, e in marks.items()
             if e["mark"] == "wrong" and e["confidence"] >= 0.9}
    expect(not wrong, f"confident and wrong: {wrong}")
    for name, value in wanted.items():
        entry = marks.get(name, {})
        mark = "cannot tell" if value == "translated" else "right"
        expect(entry.get("mark") == mark and entry["value"] == value,
               f"{name} is {value}, and the answer is {entry.get('value')}")
    expect(page > 10000, f"the report has {page} bytes")
    if late:
        ctx.note(late)
    expect(not too_often, late)
    return {"right": sum(e["mark"] == "right" for e in marks.values())}


def cases(target, _options):
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [(f"names a drive: {name}", lambda ctx, s=spec, w=wanted: named(ctx, s, w))
            for name, (spec, wanted) in SMALL.get(target.name, {}).items()]
