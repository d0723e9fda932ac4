# SPDX-License-Identifier: GPL-2.0
"""The guest's part of ledgers, with the virtual clock: compare the statistics of the
layer with those of the platter.

  ledgers.py MIB
"""

import random
import sys
import time

from guest import bench, blk, dm, media
from guest.blk import BLOCK

CHUNK = 256             # blocks of a sequential write
OVERHEAD_US = 100       # of a command, by the drive's profile
BAND, CACHE_BANDS = "8M", 10
OPTIONS = {"stl-set": ("--cache-size", f"{CACHE_BANDS}b"),
           "stl-full": ("--provision", "16", "--log-bands", CACHE_BANDS)}
KINDS = [(target, apart) for target in OPTIONS for apart in (True, False)]
META = ("journal_blocks", "checkpoint_blocks", "superblock_blocks")


class Disk:
    """A layer over a platter, and the statistics of both."""

    def __init__(self, target, apart, mib):
        self.apart = apart
        self.platter = dm.Device("platter", [
            (0, mib << 11, "platter", "/dev/ram0 0 st5000as0011 0 2 damage "
                                      "poison")])
        argv = ["shingle", "create", target, "--no-udev", "--force", "--band",
                BAND, *OPTIONS[target]]
        if apart:
            bench.run("dd", "if=/dev/zero", "of=/dev/ram1", "bs=1M", "count=1")
            argv += ["--meta", "/dev/ram1"]
        bench.run(*argv, self.platter.path, "shingled")
        self.layer = dm.made("shingled")
        self.path = "/dev/mapper/shingled"
        self.blocks = blk.size(self.path)
        # used/capacity ...
        self.cache = int(self.layer.status().split()[0].split("/")[1])

    def message(self, text):
        return self.layer.message(text)

    def account(self, work):
        """Run @work; return its seconds and both statistics."""
        self.platter.message("stats_clear")
        self.message("stats_clear")
        begin = time.monotonic()
        work()
        seconds = time.monotonic() - begin
        said = media.numbers(self.message("stats"))
        seen = media.numbers(self.platter.message("stats"))
        said["meta_blocks"] = sum(said[name] for name in META)
        said["data_blocks"] = said["host_write_blocks"] + \
            said["clean_write_blocks"]
        said["writes"] = said["data_blocks"] + \
            (0 if self.apart else said["meta_blocks"])
        said["reads"] = said["host_read_blocks"] + said["clean_read_blocks"]
        seen["busy_us"] = seen["seek_us"] + seen["rotation_us"] + \
            seen["transfer_us"]
        return seconds, said, seen

    def fill(self):
        text = b"\1" * CHUNK * BLOCK
        with blk.opened(self.path) as dev:
            for at in range(0, self.blocks, CHUNK):
                dev.write(at, text[:(self.blocks - at) * BLOCK])
            dev.flush()

    def overwrite(self):
        rng, text = random.Random(1), b"\2" * BLOCK
        with blk.opened(self.path) as dev:
            for _ in range(3 * self.cache):
                dev.write(rng.randrange(self.blocks), text)
            dev.flush()

    def clean(self):
        self.message("clean")

    def remove(self):
        self.layer.remove()
        self.platter.remove()


def ratio(a, b):
    return f"{a / b:.4f}" if b else "-"


# Rows of a phase: label and cell; None is an empty line.
ROWS = (
    ("host wrote, blocks", lambda s, a, b: f"{a['host_write_blocks']:,}"),
    ("cleaning wrote", lambda s, a, b: f"{a['clean_write_blocks']:,}"),
    ("journal, checkpoints, superblock", lambda s, a, b: f"{a['meta_blocks']:,}"),
    ("written, says the layer", lambda s, a, b: f"{a['writes']:,}"),
    ("written, counts the platter", lambda s, a, b: f"{b['blocks_written']:,}"),
    ("read, says the layer", lambda s, a, b: f"{a['reads']:,}"),
    ("read, counts the platter", lambda s, a, b: f"{b['blocks_read']:,}"),
    ("amplification, data", lambda s, a, b: ratio(
        a["data_blocks"], a["host_write_blocks"])),
    ("amplification, with metadata", lambda s, a, b: ratio(
        a["data_blocks"] + a["meta_blocks"], a["host_write_blocks"])),
    ("bands rewritten (RMW)", lambda s, a, b: f"{a['bands_cleaned']:,}"),
    ("cleaning steps", lambda s, a, b: f"{a['steps']:,}"),
    ("cleaning, says the layer, s", lambda s, a, b: f"{a['clean_us'] / 1e6:.3f}"),
    ("seek, rotation, transfer, s", lambda s, a, b: f"{b['busy_us'] / 1e6:.3f}"),
    ("time, s", lambda s, a, b: f"{s:.3f}"),
)


def judge(phase, kind, account):
    """Return a sentence for each condition that does not hold."""
    seconds, said, seen = account
    target = kind[0]
    wrong = []

    def must(condition, text):
        if not condition:
            wrong.append(f"{phase}, {target}: {text}")

    must(said["writes"] == seen["blocks_written"], "writes differ")
    must(said["reads"] == seen["blocks_read"], "reads differ")
    must(not said["r0_violations"], "R0 was violated")
    must(not seen["destroyed_reads"], "destroyed blocks were read")
    must(not seen["late"], "the host was late: no exact clock")
    must(said["clean_us"] <= seconds * 1e6, "more time cleaning than there was")
    if phase == "fill" and target == "stl-full":
        must(not said["steps"] and
             said["data_blocks"] == said["host_write_blocks"],
             "a sequential fill was cleaned")
    if phase == "clean" and kind[1]:
        # Only cleaning moves the head here; each command takes time while the head rests.
        extra = said["clean_us"] - seen["busy_us"]
        commands = seen["reads"] + seen["writes"] + seen["flushes"]
        must(0 <= extra <= OVERHEAD_US * commands,
             f"cleaning took {extra} us more than the head for {commands} "
             "commands")
    return wrong


def main():
    mib = int(sys.argv[1])
    bench.modprobe("brd", "rd_nr=2", f"rd_size={mib * 1024}")
    accounts, wrong = {}, []
    for kind in KINDS:
        disk = Disk(*kind, mib)
        for phase in ("fill", "overwrite", "clean"):
            accounts[phase, kind] = disk.account(getattr(disk, phase))
            wrong += judge(phase, kind, accounts[phase, kind])
        sizes = (disk.blocks, disk.cache)
        accounts["size", kind] = sizes
        disk.remove()

    def line(label, cells):
        print(f"{label:34}" + "".join(f"{c:>14}" for c in cells))

    line("", [target for target, _ in KINDS])
    line("metadata", ["apart" if apart else "same device"
                      for _, apart in KINDS])
    line("device, blocks", [f"{accounts['size', k][0]:,}" for k in KINDS])
    line("cache, blocks", [f"{accounts['size', k][1]:,}" for k in KINDS])
    for phase, title in (("fill", "sequential fill"), (
            "overwrite", "uniform random 4 KiB writes, three times the cache"),
                         ("clean", "cleaning of all that is left")):
        print(f"\n{title}")
        for label, cell in ROWS:
            line("  " + label, [cell(*accounts[phase, k]) for k in KINDS])
    print()
    for sentence in wrong:
        print(f"NOT SO: {sentence}")
    if not wrong:
        print("the ledgers agree to the block")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
