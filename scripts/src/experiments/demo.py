# SPDX-License-Identifier: GPL-2.0
"""The demo: make a shingled disk, format and fill it, cut its power in the middle of writing, and
check that it is whole; then draw its latency beside that of a plain disk.  In the last act a
key-value store on such a disk, and one on an interlaced disk, lose power in the middle of their
load.  See README.md.

Needs only a Debian machine: the lab installs what is missing.
"""

import hashlib
import random
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from lab import kernels, modules, packages
from lab.cache import TOP, LabError

from experiments import promises, runner

WORK = TOP / "build/demo"
STORES = WORK / "stores"
PICTURE = TOP / "build/out/demo-latency.png"
PROFILE = "st5000as0011"
CUT = 137
LATENCIES = ("plain disk", "stl-set, one log")
# Layers below the stores, and the range of blocks, counted from the beginning of the last round, in
# which the power cut comes; the store is open by then.
LAYERS = ("stl-full", "imr")
CUT_BLOCKS = (1500, 3000)
# The part of a kernel source that is unpacked: more than 500 MiB, and few enough files for an
# emulated processor.
PARTS = ("drivers/gpu", "fs", "include", "kernel", "mm", "net", "sound")
# The directories that the second write-out copies one at a time.
CHUNKED = ("fs", "net", "sound")


class Demo:
    """The demo's steps, with their times and the facts for the summary."""

    def __init__(self, options):
        self.options = options
        self.begin = time.monotonic()
        self.facts = {}
        self.marks = []
        self.times = []
        self.dice = random.Random(options.seed)

    def say(self, text):
        s = int(time.monotonic() - self.begin)
        print(f"[{s // 60:2}:{s % 60:02}] {text}", flush=True)

    def timed(self, what, do, *arguments):
        self.say(what)
        t = time.monotonic()
        result = do(*arguments)
        self.times.append((what, time.monotonic() - t))
        return result

    # --- before the first boot --------------------------------------------

    def prepare(self):
        packages.setup()
        modules.build(kernels.get("stock"))
        subprocess.run(["make", "-s", "-C", TOP, "userspace"], check=True,
                       stdout=subprocess.DEVNULL)

    def make_tree(self):
        """Make the archive as a disk image, a list of checksums, and two empty disks."""
        source = kernels.source_tree()
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        need = 5 << 30
        if shutil.disk_usage(WORK).free < need:
            raise LabError(f"the demo needs {need >> 30} GiB free in {WORK}")
        files, size, sums = 0, 0, []
        with tarfile.open(WORK / "tree.tar", "w",
                          format=tarfile.GNU_FORMAT) as tar:
            for part in PARTS:
                for path in sorted(Path(source, part).rglob("*")):
                    if path.is_symlink() or not path.is_file():
                        continue
                    inside = str(path.relative_to(source))
                    data = path.read_bytes()
                    sums.append((hashlib.md5(data).hexdigest(), inside))
                    tar.add(path, inside, filter=plain)
                    files += 1
                    size += len(data)
        if files < 50000 and size < 500 << 20:
            raise LabError(f"{source} is too small to show anything")
        self.sums = sums
        (WORK / "first.md5").write_text(listing(sums), encoding="utf-8")
        chunks = sorted({"/".join(name.split("/")[:2]) for _, name in sums
                         if name.startswith(tuple(f"{c}/" for c in CHUNKED))
                         and name.count("/") > 1})
        self.dice.shuffle(chunks)
        (WORK / "chunks").write_text("".join(f"{c}\n" for c in chunks),
                                     encoding="utf-8")
        for name, length in (("disk.img", 4 << 30), ("state.img", 1 << 20)):
            with open(WORK / name, "wb") as image:
                image.truncate(length)
        with open(WORK / "tree.tar", "ab") as image:    # pad to whole blocks
            image.truncate(-(-image.tell() // 4096) * 4096)
        self.facts |= {"files": files, "mib": size >> 20,
                       "source": source.name}

    # --- guests -----------------------------------------------------------

    def guest(self, phase, *more):
        """Boot a guest and print its lines with the time."""
        command = runner.in_guest("demo.sh", phase, PROFILE, kernel="stock", clock="real",
                                  timeout=900, more=more)
        with subprocess.Popen([str(c) for c in command], cwd=TOP, text=True,
                              stdout=subprocess.PIPE) as process:
            for line in process.stdout:
                self.hear(line.rstrip())
        return process.returncode

    def hear(self, line):
        word, _, rest = line.partition(" ")
        if word == "FACT":
            name, _, value = rest.partition(" ")
            self.facts[name] = value
        elif word == "STEP":
            self.say(f"  {rest}")
        elif word == "MARK":
            self.marks.append(rest)
            self.say(f"  synced: second/{rest}")
        elif line:
            print(f"          {line}", flush=True)

    def disk_guest(self, phase, *more):
        """Boot a guest with the disk and the tree."""
        files = [w for name in ("disk.img", "state.img", "tree.tar")
                 for w in ("--disk-file", WORK / name)]
        return self.guest(phase, *files, *more)

    def write(self):
        chunk = self.dice.randint(10, 20)
        delay = self.dice.uniform(0, 3)
        rc = self.disk_guest("write", "--cut-on", "POWER CUT NOW",
                             "--env", f"DEMO_CUT_CHUNK={chunk}",
                             "--env", f"DEMO_CUT_DELAY={delay:.3f}")
        if rc != CUT:
            raise LabError(f"the first boot ended with status {rc}")
        self.say("  the guest was killed (SIGKILL): power is gone")
        names = tuple(f"{m}/" for m in self.marks)
        synced = [s for s in self.sums if s[1].startswith(names)]
        (WORK / "synced.md5").write_text(listing(synced), encoding="utf-8")
        self.facts["synced_files"] = len(synced)

    def find(self):
        rc = self.disk_guest("find")
        if rc:
            raise LabError(f"after the power cut something was amiss: {rc}")

    def latency(self):
        command = [TOP / "scripts/experiments", "latency", "--kernel", "stock",
                   "--picture", PICTURE]
        done = subprocess.run([str(c) for c in command], cwd=TOP, text=True,
                              stdout=subprocess.PIPE, check=False)
        for line in done.stdout.splitlines():
            print(f"          {line}", flush=True)
        if done.returncode:
            raise LabError("the latency measurement failed")
        for line in done.stdout.splitlines():
            for name in LATENCIES:
                if line.startswith(name + "  "):
                    self.facts[name] = line[len(name):].split()

    def latency_row(self, name):
        low, _, median, mean, _, high = self.facts[name][1:7]
        return f"{low} to {high} ms, median {median}, mean {mean}"

    def stores(self):
        """The last act: compare what each store acknowledged with its contents after the power
        cut."""
        shutil.rmtree(STORES, ignore_errors=True)
        STORES.mkdir(parents=True)
        promised = promises.Promises(TOP / "build/userspace/kvbench", self.options.seed)
        *loads, last = [" ".join(load.words) for load in promised.loads]
        (STORES / "loads").write_text("".join(f"{w}\n" for w in loads), encoding="utf-8")
        (STORES / "last").write_text(last, encoding="utf-8")
        for layer in LAYERS:
            (STORES / f"cut.{layer}").write_text(
                str(self.dice.randint(*CUT_BLOCKS)), encoding="utf-8")
        rc = self.guest("stores", "--disk", "256M", "--disk", "256M", "--rw", STORES)
        if rc:
            raise LabError(f"in the last act something was amiss: {rc}")
        for layer in LAYERS:
            self.facts[f"store_{layer}"] = verdict = promised.judge(
                (STORES / f"log.{layer}").read_text(encoding="utf-8"),
                (STORES / f"scan.{layer}").read_bytes())
            for sentence in verdict.wrong[:20]:
                print(f"          {layer}: {sentence}", flush=True)
            if verdict.wrong:
                raise LabError(f"of the store on {layer} {len(verdict.wrong)} keys are wrong")
            self.say(f"  {layer}: {verdict}")

    def store_rows(self, layer):
        verdict = self.facts[f"store_{layer}"]
        return [
            (f"a store on {layer}", f"{promises.RECORDS} records, then {verdict.puts} puts and "
             f"{verdict.deletes} deletions, each synced"),
            ("  the power cut", f"under way: {verdict.under_way}; the drive's cache "
             f"lost {self.facts[f'cache_lost_{layer}']} blocks"),
            ("  found", f"all {verdict.keys} keys with their last values; of {verdict.gone} "
             "deleted ones none"),
        ]

    # --- the end ----------------------------------------------------------

    def summary(self):
        f = self.facts
        amplification = int(f["clean_write_blocks_write"]) / \
            int(f["host_write_blocks_write"]) + 1
        rows = [
            ("kernel", f"Debian's own, {f['kernel']}"),
            ("medium", f"platter {PROFILE}, 4 GiB, head 2 tracks wide, "
             "destroys what it covers"),
            ("layer, file system", f"stl-set, {f['size_mib']} MiB; ext4"),
            ("tree", f"{f['source']}: {f['files']} files, {f['mib']} MiB of"),
            ("", ", ".join(PARTS)),
            ("unpacked", f"in {f['unpack_s']} s; {f['bands_cleaned_write']} "
             f"bands cleaned, write amplification {amplification:.2f}"),
            ("read back", f"{f['files']} files right, by checksum"),
            ("power cut", f"SIGKILL while writing, after {len(self.marks)} "
             "syncs"),
            ("shingle check", f"{f['shingle_check']}; opened in "
             f"{f['open_s']} s"),
            ("e2fsck", f["e2fsck"]),
            ("tree after the cut", f"all {f['files']} files right"),
            ("second, what was synced", f"all {f['synced_files']} files "
             "right"),
            ("blocks destroyed", f"{f['destroyed_blocks_write']} times before "
             f"the cut; {f['damaged_at_boot']} still were, next boot"),
            ("and read", f"{f['destroyed_reads_write']} before the cut, "
             f"{f['destroyed_reads_find']} after"),
            ("", f"(besides {f['scan_reads']} in the search for the journal's "
             "end)"),
            ("write latency, plain", self.latency_row("plain disk")),
            ("  shingled", self.latency_row("stl-set, one log")),
            ("  picture", str(PICTURE.relative_to(TOP))),
            *(row for layer in LAYERS for row in self.store_rows(layer)),
        ]
        rows += [(f"time: {what}", f"{s:.0f} s") for what, s in self.times]
        rows.append(("time: total", f"{time.monotonic() - self.begin:.0f} s"))
        width = max(len(name) for name, _ in rows)
        runner.keep(self.options, {"figures": f, "seconds": dict(self.times)})
        print("\n" + "=" * 78)
        for name, value in rows:
            print(f"{name:{width}}  {value}")
        print("=" * 78)
        print("A killed guest loses what it had not handed to its disk, and "
              "what the disk\nhad been handed stays; under the stores the "
              "disk's cache was lost, too, and such\ncuts are replayed by make check "
              "by the thousand.")
        bad = {n: f[n] for n in f if n.startswith(("destroyed_reads_",
                                                   "r0_violations_"))
               and f[n] != "0"}
        if bad:
            raise LabError(f"the medium caught errors: {bad}")

    def run(self):
        self.say("a shingled disk, end to end")
        self.timed("set-up: packages, kernel, modules, tools", self.prepare)
        self.timed("a source tree as an archive, with checksums",
                   self.make_tree)
        self.timed("first boot: fill the disk, cut the power", self.write)
        self.timed("second boot: find everything", self.find)
        self.timed("latency under the virtual clock", self.latency)
        self.timed("key-value stores on a shingled and an interlaced disk, and a power cut",
                   self.stores)
        self.summary()
        if not self.options.keep:
            shutil.rmtree(WORK)


def plain(member):
    """Remove owner and group, so that the archive is the same for every user."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def listing(sums):
    return "".join(f"{digest}  {name}\n" for digest, name in sums)


def main():
    p = runner.Parser("demo", __doc__, "seed", seed=int(time.time()))
    p.add_argument("--keep", action="store_true",
                   help="leave the disk images in build/demo")
    demo = Demo(p.parse_args())
    try:
        demo.run()
    except LabError as error:
        demo.say(f"FAILED: {error}")
        return 1
    except subprocess.CalledProcessError as error:
        demo.say(f"FAILED: {error}")
        return 1
    return 0
