# SPDX-License-Identifier: GPL-2.0
"""The guest's part of idle, with the virtual clock: cleaning in pauses.

  idle.py ROUNDS SEED

tests/guest/idle.py has the measurements and the rules for judging them.
"""

import random
import sys
import time

from guest import bench, blk, dm, idle, media
from guest.blk import BLOCK

SECTORS = 9767541168        # the 5 TB drive; no store, only its time is emulated
MIB = 256                   # blocks
REGION = 2048 * MIB         # the part that is written and read
READS = 40                  # in a round
# A staged band takes two steps, so the set-associative drive begins earlier.
KINDS = (("stl-set", 40, 500, ("--cache-size", "37G")),
         ("stl-full", 20, 1000, ()))


def message(text):
    return dm.Device.found("shingled").message(text)


def cached():
    return media.numbers(message("stats"))["cached_blocks"]


def create(target, band, idle_ms, options):
    """Create a layer over a new drive; write the region and clean it."""
    platter = dm.Device("platter", [
        (0, SECTORS, "platter",
         "none 0 st5000as0011 0 4 surfaces 4 swath_tracks 0")])
    bench.run("dd", "if=/dev/zero", "of=/dev/ram0", "bs=1M", "count=1")
    bench.run("shingle", "create", target, "--no-udev", "--force", "--meta",
              "/dev/ram0", "--band", f"{band}M", *options, "--set",
              "cleaning=aggressive", "--set", f"idle_ms={idle_ms}",
              platter.path, "shingled")
    dm.made("shingled")
    dev = blk.Blk("/dev/mapper/shingled")
    for at in range(0, REGION, MIB):
        dev.write(at, bytes(MIB * BLOCK))
    dev.flush()
    message("clean")
    dev.blocks = REGION
    return platter, dev


def pause(dev, band, rng):
    """Dirty one band, then pause for three seconds; return whether it was cleaned in that time."""
    with idle.Steps() as steps:
        idle.scatter(dev, rng, 64, 3 * band * MIB, 4 * band * MIB)
        quiet, dirty = time.monotonic(), cached()
        time.sleep(3)
        left = cached()
    begin, end = steps.done[0][0] - quiet, steps.done[-1][1] - quiet
    print(f"  one dirty band of {band} MiB, {dirty} blocks cached, 3 s pause: "
          f"cleaning from {begin:.3f} s to {end:.3f} s in {len(steps.done)} "
          f"steps, {left} blocks left")
    return not left and end <= 3


def line(what, seconds):
    ms = sorted(1000 * s for s in seconds)
    cells = [ms[min(len(ms) - 1, len(ms) * p // 100)] for p in (50, 90, 99)]
    print(f"  {what:32}{len(ms):7}" +
          "".join(f"{x:10.2f}" for x in (ms[0], *cells, ms[-1])))


def gives_way(dev, idle_ms, rng, rounds):
    """Read while cleaning goes on; return whether cleaning gave way in time."""
    message("idle_ms 0")
    rest = idle.read_now_and_then(dev, rng, 500, 0.05)
    message(f"idle_ms {idle_ms}")
    reads, hit, taken, early, slow = [], [], [], [], []
    for _ in range(rounds):
        with idle.Steps() as steps:
            idle.scatter(dev, rng, 200, 0, REGION)
            quiet = time.monotonic()
            fresh = idle.read_now_and_then(dev, rng, READS, 4)
        early += idle.too_early([(quiet, quiet), *fresh], steps.done,
                                idle_ms / 1000)
        slow += idle.too_slow(fresh, steps.done)
        reads += fresh
        taken += steps.done
        hit += idle.during(fresh, steps.done)
    print(f"  {'milliseconds':32}{'':7}" + "".join(
        f"{x:>10}" for x in ("min", "median", "p90", "p99", "max")))
    line("reads, nothing to clean", [e - b for b, e in rest])
    line("reads that met cleaning", [e - b for b, e in hit])
    line("cleaning steps", [e - b for b, e, _ in taken])
    worst = max(e - b for b, e in reads)
    longest = max(e - b for b, e, _ in taken)
    good = len(hit) >= rounds and worst <= longest
    print(f"  longest read {1000 * worst:.2f} ms "
          f"{'<=' if worst <= longest else '> (NOT SO)'} longest step "
          f"{1000 * longest:.2f} ms; reads longer than the step they met: "
          f"{len(slow)}\n  steps begun while the host was not quiet "
          f"for {idle_ms} ms: {len(early)}")
    return good and not early and not slow


def main():
    rounds, seed = map(int, sys.argv[1:])
    bench.modprobe("brd", "rd_nr=1", "rd_size=1048576")
    for module in ("dm-shingle", "dm-stl", "dm-platter"):
        bench.modprobe(module)
    good = True
    for target, band, idle_ms, options in KINDS:
        rng = random.Random(seed)
        print(f"{target}, cleaning aggressive, idle_ms {idle_ms}")
        platter, dev = create(target, band, idle_ms, options)
        good &= pause(dev, band, rng)
        good &= gives_way(dev, idle_ms, rng, rounds)
        dev.close()
        late = media.numbers(platter.message("stats"))["late"]
        if late:
            print(f"  the host was late {late} times: no exact clock")
            good = False
        dm.Device.found("shingled").remove()
        platter.remove()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
