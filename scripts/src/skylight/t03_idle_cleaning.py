# SPDX-License-Identifier: GPL-2.0
"""Test 3: whether the drive cleans when it is left alone.

As in the thesis (Aghayev 2020), every other block of a range within a band is written, the
drive is left alone, and the range is read.  The decision depends on where the written blocks
are: before, right after writing, and after pauses that become longer, since the drive may
clean older blocks first.  The first read after a pause then waits for the step in progress,
and the test makes further pauses."""

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK, Finding, Result
from .t01_translation import headroom, tells
from .t02_cache_location import holes

ID, TITLE, AFTER = "3", "does it clean when idle", ("1",)

ASKED = 64
AT, ANCHOR = 0.61, 0.25
LONGER = (1, 3, 9)      # in units of pause_s
PATIENT = (9, 18, 36)   # further pauses, if the drive is busy in the pauses
FEW = 0.05              # share of wrong readings on a lazy drive, at most
STALL = 12              # rotations; a write that takes longer waits for cleaning
STRANGE = 3             # rotations beyond the usual; a slower read has waited


def estimate(s):
    """Seconds."""
    return sum(LONGER) * s.scale.pause_s + 0.02 * (ASKED * 14 + 6 * holes(s)) + 2


def run(s):
    """Runs the test."""
    rng, n = s.rng(ID), 4 * holes(s)
    first = int(s.dev.bytes * AT) // BLOCK
    whole = (first + np.arange(2 * n)) * BLOCK
    written = whole[::2]
    asked = np.sort(rng.choice(written, min(ASKED, n), replace=False)).astype(np.uint64)
    s.fresh()
    with s.settings() as missing:
        places = Places(s, int(s.dev.bytes * ANCHOR))
        telling = tells(places, asked)
        before = places.read("before", asked)
        # Not in order: then the angle between the two places of a block is random.
        trace = s.trace("write", chain((True, rng.permutation(written), BLOCK),
                                       places.ops(asked)))
        cached = places.times(trace[n:])
        rounds, reads, pauses, waits = [], [], [], Waits(s, places)
        for longer in (*LONGER, *PATIENT):
            if len(pauses) >= len(LONGER) and not waits.lately(2):
                break
            s.pause(longer * s.scale.pause_s, "does the drive clean?")
            pauses.append(longer * s.scale.pause_s)
            waits.look()
            rounds.append(places.read(f"after-{longer}", asked))
            reads.append(s.trace(f"range-{longer}", (False, whole, BLOCK)).lat_us)
            left = ~places.same(cached, rounds[-1])
            if guard.mean(left, "blocks that moved") > 0.9:
                break
    went = ~places.same(before, cached)
    result = Result(numbers={
        "not_offered": list(missing), "telling": bool(telling), "why": places.why,
        "coincidence": places.coincidence, "blocks": len(asked), "cached": int(went.sum()),
        "slowest_write_us": float(trace.lat_us[:n].max()), "rotation_us": places.rotation_us,
        "pauses_s": pauses, "waited": waits.seen,
        # How often a read is slow without a pause before it.
        "reads": int(sum(len(r) for r in rounds)),
        "slow_reads": int(sum((r > waits.limit).sum() for r in rounds)),
        "moved": [int((~places.same(cached, r) & went).sum()) for r in rounds],
        "home": [int((places.same(before, r) & went).sum()) for r in rounds]})
    result.arrays = {"before_us": before, "cached_us": cached, "write_us": trace.lat_us[:n],
                     **{f"after{i}_us": r for i, r in enumerate(rounds)},
                     **{f"range{i}_us": r for i, r in enumerate(reads)}}
    result.findings = {"cleaning_type": decide(result.numbers)}
    return result


class Waits:
    """Checks whether the first read after a pause has to wait."""

    def __init__(self, s, places):
        self.s, self.at = s, int(places.anchor)
        usual = s.trace("usual", (False, np.full(16, self.at), BLOCK)).lat_us[1:]
        self.limit = float(usual.max() + STRANGE * (places.rotation_us or usual.max()))
        self.seen = []

    def look(self):
        """Reads once."""
        lat = float(self.s.trace("first", (False, [self.at], BLOCK)).lat_us[0])
        self.seen.append(lat > self.limit)

    def lately(self, count):
        """Whether each of the last @count reads has waited."""
        return len(self.seen) >= count and all(self.seen[-count:])


def decide(numbers):
    """Lazy or aggressive."""
    if not numbers["telling"]:
        return Finding.unknown(numbers["why"])
    cached, blocks = numbers["cached"], numbers["blocks"]
    cache, _ = stats.most(cached, blocks, 1 - stats.SLACK - numbers["coincidence"])
    if cache is not True:
        return Finding.unknown(f"of {blocks} blocks {cached} were elsewhere after writing: "
                               "there is nothing to clean", none=cache is False)
    moved, pause = numbers["moved"][-1], sum(numbers["pauses_s"])
    says, _ = stats.most(moved, cached, 1 - stats.SLACK - numbers["coincidence"], FEW)
    most = stats.measured("cleaning_type")
    if says:
        return Finding("aggressive", confidence=most, says=f"{moved} of {cached} "
                       f"blocks left the cache within pauses of {pause:g} s")
    waited = sum(numbers["waited"])
    if says is False and waited:
        by_itself = guard.ratio(numbers["slow_reads"] + 1, numbers["reads"] + 2, "slow reads")
        risk = stats.upper_tail(waited, len(numbers["waited"]), by_itself)
        if waited < 3 or risk >= stats.ALPHA:
            return Finding.unknown(f"no block left the cache, but after {waited} pauses the "
                                   "first read waited for something")
        return Finding("aggressive", confidence=most, says=f"after {waited} of "
                       f"{len(numbers['waited'])} pauses the first read waited for something, "
                       "though the blocks of this test have not left the cache")
    if says is False and numbers["slowest_write_us"] > STALL * (numbers["rotation_us"] or 1e4):
        return Finding.unknown(
            f"a write took {numbers['slowest_write_us'] / 1000:.0f} ms: the drive had to clean "
            "while it was written to, and nothing may have been left for the pauses")
    if says is False:
        return Finding("lazy", confidence=most, says=f"{cached - moved} of {cached} "
                       f"blocks were where they had been written after pauses of {pause:g} s")
    if stats.upper_tail(moved, cached, stats.SLACK) < stats.ALPHA:
        # Some blocks moved: the drive is cleaning and has not finished.
        return Finding("aggressive", confidence=most, says=f"{moved} of {cached} "
                       f"blocks left the cache within pauses of {pause:g} s, the rest not yet")
    return Finding.unknown(f"{moved} of {cached} blocks left the cache within {pause:g} s")


def draw(figure, result, arrays):
    """As Figure 2.8 of the thesis, and where the blocks were."""
    from . import plots
    left, right = plots.panels(figure, 2, ratios=(3, 2))
    last = len(result.numbers["pauses_s"]) - 1
    for i in sorted({0, last}):
        pause = sum(result.numbers["pauses_s"][:i + 1])
        plots.dots(left, arrays[f"range{i}_us"] / 1000, color=plots.CYCLE[i],
                   label=f"after {pause:g} s")
    left.set(title="reading a range of which every other block was written",
             xlabel="block", ylabel="latency, ms")
    headroom(left)
    plots.dots(right, arrays[f"after{last}_us"] / 1000, x=arrays["cached_us"] / 1000,
               label="after the pause")
    most = float(max(arrays["cached_us"].max(), arrays[f"after{last}_us"].max())) / 1000
    right.plot([0, most], [0, most], color="black", linewidth=0.8, linestyle=":")
    right.set(title="where written blocks are", xlabel="right after writing, ms",
              ylabel="after the pauses, ms")
