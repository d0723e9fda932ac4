# SPDX-License-Identifier: GPL-2.0
"""Cleaning while the host is idle: its duration, and how it gives way.

For the virtual clock and a platter with its mechanics, so that every duration is the drive's own
and the same in every run.

 pause       nothing is cleaned before the host was idle for idle_ms; one
             dirty band is clean within a pause of three seconds
 gives way   random reads at random moments while cleaning goes on: none takes
             longer than the cleaning step that it meets, no step begins while a read is in
             flight or sooner than idle_ms after it

Steps are those of the tracepoints shingle_step_start and _end.
"""

import random
import time

from guest import media
from guest.bench import expect
from guest.events import Ring

TICK = 0.02     # two jiffies: the tolerance of a kernel timer


class Steps:
    """Records the cleaning steps during a with block: done = [(begin, end, blocks)]."""

    def __init__(self):
        self.done = []
        self.ring = Ring("shingle/shingle_step_start", "shingle/shingle_step_end")

    def __enter__(self):
        self.ring.__enter__()
        return self

    def __exit__(self, *exc):
        begin = None
        for event in self.ring.stop():
            if event.name == "shingle_step_start":
                begin = event.at
                continue
            expect(event["error"] == "none", f"a cleaning step failed: {event}")
            if begin:
                self.done.append((begin, event.at, event["n"]))
        self.ring.__exit__(*exc)

    def longest(self):
        return max(end - begin for begin, end, _ in self.done)


def read_now_and_then(dev, rng, count, longest_gap):
    """Read @count single blocks, at most @longest_gap seconds apart; return [(begin, end)]."""
    out, blocks = [], dev.blocks
    for _ in range(count):
        time.sleep(rng.uniform(0, longest_gap))
        begin = time.monotonic()
        dev.read(rng.randrange(blocks))
        out.append((begin, time.monotonic()))
    return out


def during(reads, steps):
    """Return the reads that were in flight while a step ran."""
    return [r for r in reads
            if any(begin < r[1] and r[0] < end for begin, end, _ in steps)]


def too_slow(reads, steps):
    """Return a sentence for each read that took longer than the longest step beside it: a read may
    wait for one step, not for several."""
    out = []
    for first, last in during(reads, steps):
        met = max(end - begin for begin, end, _ in steps
                  if begin < last and first < end)
        if last - first > met:
            out.append(f"a read took {1000 * (last - first):.2f} ms, the step "
                       f"that it met {1000 * met:.2f} ms")
    return out


def too_early(reads, steps, idle):
    """Return a sentence for each step that began during a read, or less than @idle seconds after
    it."""
    out = []
    for begin, _, _ in steps:
        for first, last in reads:
            if first < begin < last + idle - TICK:
                out.append(f"a step begins {1000 * (begin - last):.1f} ms after "
                           "the end of a read")
    return out


def scatter(dev, rng, blocks, lowest, highest):
    """Write @blocks random blocks in that range."""
    for b in rng.sample(range(lowest, highest), blocks):
        dev.write(b, bytes(4088) + b.to_bytes(8, "little"))
    dev.flush()


def disk(ctx, geo, idle_ms):
    """Return an open stack over a platter with timing: all blocks written, none cached."""
    made = media.stack(ctx, geo.but(options=(
        ("cleaning", "aggressive"), ("idle_ms", idle_ms))), "smr",
        timing="model")
    made.open()
    with made.blk() as dev:
        for at in range(0, geo.logical, geo.band):
            dev.write(at, bytes(4096 * geo.band))
        dev.flush()
    made.device.message("clean")
    made.device.message("stats_clear")
    return made


def cached(made):
    return media.numbers(made.device.message("stats"))["cached_blocks"]


def pause(ctx, geo):
    """Idle cleaning begins one second after the last write (idle_ms), not earlier, and is done
    after three."""
    made = disk(ctx, geo, 1000)
    with made.blk() as dev, Steps() as steps:
        scatter(dev, random.Random(1), 8, 3 * geo.band, 4 * geo.band)
        quiet = time.monotonic()
        expect(cached(made) == 8, "the blocks are not cached")
        time.sleep(3)
        expect(not cached(made), f"{cached(made)} blocks are still away from "
                                 "home after 3 s")
    begin, end = steps.done[0][0] - quiet, steps.done[-1][1] - quiet
    expect(1 - TICK <= begin, f"cleaning began after {begin:.3f} s")
    expect(end <= 3, f"cleaning ended after {end:.3f} s")
    made.verify()
    media.judge(made)
    made.close()
    ctx.note(f"cleaning from {begin:.3f} s to {end:.3f} s, "
             f"{len(steps.done)} steps")
    return {"begin": begin, "end": end}


def gives_way(ctx, geo):
    """Reads come while the target cleans: no step begins while the host is not idle, and a read
    waits for one step at most."""
    idle = 0.2
    made, rng = disk(ctx, geo, int(1000 * idle)), random.Random(2)
    reads, hit, taken = [], [], []
    for _ in range(12):
        with made.blk() as dev, Steps() as steps:
            dev.blocks = geo.logical
            scatter(dev, rng, geo.band, 0, geo.logical)
            quiet = time.monotonic()
            fresh = read_now_and_then(dev, rng, 20, 4 * idle)
        early = too_early([(quiet, quiet), *fresh], steps.done, idle)
        slow = too_slow(fresh, steps.done)
        expect(not early, f"{len(early)} times, {early[:3]}")
        expect(not slow, f"{len(slow)} times, {slow[:3]}")
        reads += fresh
        taken += steps.done
        hit += during(fresh, steps.done)
    longest = max(end - begin for begin, end, _ in taken)
    worst = max(end - begin for begin, end in reads)
    ctx.note(f"{len(reads)} reads, {len(hit)} while cleaning: at most "
             f"{1000 * worst:.2f} ms; {len(taken)} steps: at most "
             f"{1000 * longest:.2f} ms")
    expect(len(hit) > 10, f"only {len(hit)} reads met cleaning")
    expect(worst <= longest, f"a read took {1000 * worst:.2f} ms, no step more "
                             f"than {1000 * longest:.2f} ms")
    made.verify()
    media.judge(made)
    made.close()
    return {"reads": len(reads), "hit": len(hit), "worst_ms": 1000 * worst,
            "step_ms": 1000 * longest}


def cases(target, _options):
    return [(" ".join((f"{what.__name__.replace('_', ' ')}: {geo.name}",
                       *features)),
             lambda ctx, w=what, g=geo.but(features=features): w(ctx, g))
            for geo in target.geometry("idle")
            for features in ((), *((f,) for f in target.unsafe))
            for what in (pause, gives_way)]
