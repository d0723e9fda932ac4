# SPDX-License-Identifier: GPL-2.0
"""Test 5: which blocks the drive cleans first.

The thesis (Aghayev 2020) writes blocks of one small region, then blocks all over the drive,
then other blocks of the region.  If the oldest block decides, and its whole band is cleaned
with it, the first and the third step are home before the second.  That would also happen if
the band with the most blocks were first.  A fourth step, blocks of another small region,
separates the two: it is the youngest, and its bands are the fullest."""

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK, MIB, SKIPPED, Finding, Result
from .t01_translation import headroom, tells
from .t04_cleaning_progress import gone

ID, TITLE, AFTER = "5", "order of cleaning", ("1", "3", "4")

REGION = 256 * MIB      # as in the thesis
A_AT, B_AT, ANCHOR = 0.31, 0.66, 0.04
FROM, TO = 0.10, 0.95
STEPS = ("region A", "all over", "region A again", "region B")
PART = (0.15, 0.85)     # share of blocks cleaned, between which the order shows


def estimate(s):
    """Seconds."""
    if s.value("cleaning_type") == "lazy":
        return 1
    return 6 * s.scale.few * (0.013 + 0.03 * 8) + 60


def run(s):
    """Runs the test."""
    if s.value("drive_type") == "conventional":
        return Result(SKIPPED, "the drive is conventional: there is nothing to clean")
    if s.value("cleaning_type") == "lazy":
        return Result(SKIPPED, "the drive does not clean when it is left alone")
    rng, blocks = s.rng(ID), s.dev.bytes // BLOCK
    region = int(min(REGION, s.scale.region_bytes)) // BLOCK
    few = int(min(s.scale.few, region // 4))
    a = int(blocks * A_AT) + rng.choice(region, 2 * few, replace=False)
    # More blocks than region A has in all, so that these bands are the fullest.
    b = int(blocks * B_AT) + rng.choice(region, 3 * few, replace=False)
    over = int(blocks * FROM) + rng.choice(int(blocks * (TO - FROM)), few, replace=False)
    asked = (np.concatenate([a[:few], over, a[few:], b]) * BLOCK).astype(np.uint64)
    step = np.repeat(np.arange(4), [few, few, few, 3 * few])
    fresh = s.fresh()
    with s.settings() as missing:
        places = Places(s, int(s.dev.bytes * ANCHOR))
        telling = tells(places, asked[::max(1, len(asked) // 48)])
        before = places.read("before", asked)
        if not fresh:
            s.pause(s.scale.long_pause_s, "until what is older is cleaned")
        trace = s.trace("write", chain((True, asked, BLOCK), places.ops(asked)))
        cached = places.times(trace[len(asked):])
        rounds, pauses, pause = [], [], s.scale.pause_s / 4
        while sum(pauses) < 4 * s.scale.long_pause_s:
            s.pause(pause, "until part of it is cleaned")
            pauses.append(pause)
            rounds.append(places.read(f"round{len(rounds)}", asked))
            share = gone(places, cached, rounds[-1])
            if share > 0.95 - places.coincidence:
                break
            # Grow slowly while part of the blocks has moved.
            pause *= 2 if share < 0.05 else 1.2
    went = ~places.same(before, cached)
    moved = [~places.same(cached, r) & went for r in rounds]
    result = Result(numbers={
        "not_offered": list(missing), "telling": telling, "why": places.why,
        "coincidence": places.coincidence, "pauses_s": pauses,
        "cached": [int(went[step == i].sum()) for i in range(4)],
        "moved": [[int(m[step == i].sum()) for i in range(4)] for m in moved]})
    result.arrays = {"cached_us": cached, "step": step,
                     **{f"round{i}_us": r for i, r in enumerate(rounds)},
                     **{f"moved{i}": m for i, m in enumerate(moved)}}
    result.findings = {"cleaning_order": decide(result.numbers)}
    return result


def decide(numbers):
    """Whether the oldest blocks are first."""
    if not numbers["telling"]:
        return Finding.unknown(numbers["why"])
    cached = np.array(numbers["cached"])
    if min(cached) < 16:
        return Finding.unknown("too few blocks were elsewhere after writing")
    # The round that shows the most.
    some = [np.array(m) for m in numbers["moved"]
            if PART[0] < guard.ratio(sum(m), cached.sum(), "blocks cleaned") < PART[1]]
    if not some:
        return Finding.unknown("there was no pause after which some blocks were cleaned "
                               "and others not")
    def shares(moved):
        return guard.ratio(moved, cached, "blocks cleaned of a step")

    seen = max(some, key=lambda m: abs(shares(m)[0] - shares(m)[1]) +
               abs(shares(m)[0] - shares(m)[3]))
    share = shares(seen)
    told = ", ".join(f"{name} {100 * x:.0f} %" for name, x in zip(STEPS, share))

    def chance(i, j):
        """Chance that step @i is ahead of step @j by accident, over all rounds that could have
        been taken; 1 if it is not ahead."""
        if share[i] <= share[j]:
            return 1.0
        return min(1.0, len(some) * stats.fisher(int(seen[i]), int(cached[i]),
                                                 int(seen[j]), int(cached[j])))
    most = stats.measured("cleaning_order")
    # The second writing of region A goes with the first, as both are of the same bands.  All of the
    # comparisons must hold; by chance that is no likelier than the likeliest of them.
    risk = max(chance(0, 3), chance(2, 3), chance(0, 1), chance(2, 1))
    if risk < stats.ALPHA <= chance(3, 1):
        return Finding("fifo", confidence=most, says=f"cleaned by then: {told}")
    # That B is ahead of "all over" proves nothing: it may share a log with the oldest blocks.
    risk = 2 * min(chance(3, 0), chance(1, 0))
    if risk < stats.ALPHA:
        return Finding("other", confidence=most, says=f"cleaned by then: {told}")
    return Finding.unknown(f"cleaned by then: {told}")


def draw(figure, result, arrays):
    """As Figure 2.12 of the thesis, and how far each step was after each pause."""
    from . import plots
    left, right = plots.panels(figure, 2, ratios=(3, 2))
    moved = np.array(result.numbers["moved"], float)
    total = moved.sum(axis=1) / max(1, sum(result.numbers["cached"]))
    shown = int(np.argmin(abs(total - 0.5)))
    mask = arrays[f"moved{shown}"]
    lat, at = arrays[f"round{shown}_us"] / 1000, np.arange(len(mask))
    plots.dots(left, lat[~mask], x=at[~mask], color=plots.BLUE, label="in the cache")
    plots.dots(left, lat[mask], x=at[mask], color=plots.ORANGE, label="cleaned")
    for border in np.flatnonzero(np.diff(arrays["step"])):
        left.axvline(border + 0.5, color="black", linewidth=0.5, linestyle=":")
    left.set(title=f"after {sum(result.numbers['pauses_s'][:shown + 1]):.1f} s",
             xlabel="block, in the order of writing", ylabel="latency, ms")
    headroom(left)
    time = np.cumsum(result.numbers["pauses_s"])
    for i, name in enumerate(STEPS):
        right.plot(time, 100 * moved[:, i] / max(1, result.numbers["cached"][i]),
                   marker=".", color=plots.CYCLE[i], label=name)
    right.set(title="cleaned", xlabel="pauses, s", ylabel="%", ylim=(0, 105))
    right.legend(loc="lower right")
