# SPDX-License-Identifier: GPL-2.0
"""The guest's part of checkpoint, with the virtual clock: checkpoints of devices of
4 TB, with metadata on a small drive of the same mechanics."""

import json
import mmap
import os
import random
import sys
import time

from guest import bench, dm, media

SECTORS = 7814037168    # of the 4 TB drive
META_MIB = 1024
PROFILE = "st4000nc001"
BLOCK, MIB = 4096, 1 << 20
PIECE = 32 << 10        # bytes of a write to a cache
FULL = .95              # share of the cache, so that no set or zone overflows before the others
PERCENT = (1, 10, 100)
TARGETS = {
    "stl-set": ("--preset", "emulated-smr-1", "--no-feature", "inplace"),
    "stl-full": ("--preset", "emulated-smr-3"),
}
# Suppress cleaning and commits that the target would start by itself.
QUIET = ("--set", "commit_ms=0", "--set", "idle_ms=0")


class Device:
    """A target over a drive without a store; its metadata lie on another drive."""

    def __init__(self, target):
        bench.run("dd", "if=/dev/zero", "of=/dev/ram0", "bs=1M", "count=256")
        self.under = [self.drive("data", "none", SECTORS),
                      self.drive("meta", "/dev/ram0", META_MIB * 2048)]
        data, meta = (device.path for device in self.under)
        argv = (*TARGETS[target], "--meta", meta, *QUIET, data, "shingled")
        self.layout = json.loads(bench.run("shingle", "create", "--dry-run", "--json", "--force",
                                           *argv)[1])
        bench.run("shingle", "create", "--no-udev", "--force", *argv)
        self.layer = dm.made("shingled")
        self.fd = os.open("/dev/mapper/shingled", os.O_RDWR | os.O_DIRECT)
        self.text = mmap.mmap(-1, 16 * MIB)

    @staticmethod
    def drive(name, store, sectors):
        return dm.Device(name, [(0, sectors, "platter", f"{store} 0 {PROFILE} 0 0")])

    def message(self, text):
        return self.layer.message(text)

    def write(self, at, n):
        if os.pwrite(self.fd, memoryview(self.text)[:n], at) != n:
            sys.exit(f"a write at {at} was short")

    def checkpoint(self):
        """Make a checkpoint; return (MiB written, seconds)."""
        self.message("commit")
        before = media.numbers(self.message("stats"))
        begin = time.monotonic()
        self.message("checkpoint")
        took = time.monotonic() - begin
        after = media.numbers(self.message("stats"))
        return (after["checkpoint_blocks"] - before["checkpoint_blocks"]) * BLOCK / MIB, took

    def close(self):
        os.close(self.fd)
        self.layer.remove()
        for device in self.under:
            device.remove()


def pieces(layout, capacity, anywhere, rng):
    """Return positions and lengths of writes that nearly fill the cache.  They go to its parts
    (sets of stl-set, zones of stl-full) in turn if @anywhere, else to one part after another."""
    band, params = layout["band_blocks"] * BLOCK, layout["params"]
    bands = layout["logical_blocks"] * BLOCK // band
    zone = params["zone-bands"] - params["provision"] if "provision" in params else 0
    parts = bands // zone if zone else layout["bands"]["cache"]
    count, out = int(capacity * FULL) * BLOCK // PIECE, []
    for i in range(count):
        part = i % parts if anywhere else i * parts // count
        at = part * zone + rng.randrange(zone) if zone else \
            part + rng.randrange(bands // parts) * parts
        out.append((at * band + rng.randrange(band // PIECE) * PIECE, PIECE))
    return out


def measure(target, percent, anywhere):
    device, rng = Device(target), random.Random(1)
    # used/capacity ...
    capacity = device.layer.status().split()[0].split("/")[1]
    todo = pieces(device.layout, int(capacity), anywhere, rng)
    last = len(todo) - len(todo) * percent // 100
    for i, (at, n) in enumerate(todo):
        if i == last:
            device.checkpoint()
        device.write(at, n)
    found = device.checkpoint()
    moved = media.numbers(device.message("stats"))["steps"]
    if moved:
        sys.exit(f"{target} has cleaned {moved} times meanwhile")
    device.close()
    return found


def main():
    for module in ("dm-shingle", "dm-stl", "dm-platter"):
        bench.modprobe(module)
    bench.run("modprobe", "brd", "rd_nr=1", f"rd_size={META_MIB << 10}")
    print(f"{'':10}{'written since':>14}{'in order':>22}{'all over':>22}")
    for target in TARGETS:
        for percent in PERCENT:
            row = ""
            for anywhere in (False, True):
                mib, seconds = measure(target, percent, anywhere)
                row += f"{mib:10.1f} MiB{seconds:6.2f} s"
            print(f"{target:10}{percent:12} %{row}", flush=True)


if __name__ == "__main__":
    main()
