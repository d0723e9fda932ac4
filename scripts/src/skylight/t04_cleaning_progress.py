# SPDX-License-Identifier: GPL-2.0
"""Test 4: how fast the drive cleans while it is left alone.

Random blocks of the whole drive are written, read in the order of writing, and read again
after pauses.  The thesis (Aghayev 2020) recognises cleaned blocks by the seek of their read.
Here each read follows an anchor, and a block that is not where it was right after writing has
been cleaned.  The idle time before cleaning begins is the shortest pause between reads in
which blocks leave the cache."""

import math

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK, SKIPPED, Finding, Result
from .t01_translation import headroom, tells
from .t03_idle_cleaning import Waits

ID, TITLE, AFTER = "4", "progress of cleaning", ("1", "3")

MOST = 1024             # blocks that are read; the 4,096 of the thesis are written
ANCHOR = 0.08
FROM, TO = 0.15, 0.95   # as shares of the drive: where blocks are written
DIRTY = 24              # blocks written so that there is something to clean
GAPS, LASTING_S = 5, 8  # pauses of one length; seconds of all of them, as a step takes time
FIRST_GAP_S, LAST_GAP_S, GROWTH, FINE = 0.05, 60, 1.25, 1.02


def estimate(s):
    """Seconds."""
    if s.value("cleaning_type") == "lazy":
        return 0.013 * s.scale.many + 0.03 * MOST * 3 + s.scale.long_pause_s
    return 0.013 * s.scale.many + 0.03 * MOST * 7 + 2 * s.scale.long_pause_s


def run(s):
    """Runs the test."""
    if s.value("drive_type") == "conventional":
        return Result(SKIPPED, "the drive is conventional: there is nothing to clean")
    rng = s.rng(ID)
    blocks = s.dev.bytes // BLOCK
    first, last = int(blocks * FROM), int(blocks * TO)
    written = (first + rng.choice(last - first, min(s.scale.many, (last - first) // 4),
                                  replace=False)) * BLOCK
    asked = written[np.sort(rng.choice(len(written), min(MOST, len(written)), replace=False))]
    s.fresh()
    with s.settings() as missing:
        places = Places(s, int(s.dev.bytes * ANCHOR))
        telling = tells(places, asked[:48].astype(np.uint64))
        before = places.read("before", asked)
        trace = s.trace("write", chain((True, written, BLOCK), places.ops(asked),
                                       places.ops(asked)))
        n = len(written)
        cached = places.times(trace[n:n + 2 * len(asked)])
        again = places.times(trace[n + 2 * len(asked):])
        rounds, pauses, waits = [], [], Waits(s, places)
        for pause in _pauses(s):
            s.pause(pause, "how much is cleaned meanwhile?")
            pauses.append(pause)
            waits.look()
            rounds.append(places.read(f"round{len(rounds)}", asked))
            if gone(places, cached, rounds[-1]) > 0.95 - places.coincidence:
                break
        idle = _idle(s, places, rng) if telling and rounds and \
            gone(places, cached, rounds[-1]) > 0.1 else {}
    went = ~places.same(before, cached)
    noise = ~places.same(cached, again)
    result = Result(numbers={
        "not_offered": list(missing), "telling": telling, "why": places.why,
        "coincidence": places.coincidence, "written": n, "blocks": len(asked),
        "cached": int(went.sum()), "noise": int((noise & went).sum()),
        "pauses_s": pauses, "waited": waits.seen, "idle": idle,
        "moved": [int((~places.same(cached, r) & went & ~noise).sum()) for r in rounds]})
    result.arrays = {"cached_us": cached, "before_us": before, "went": went & ~noise,
                     **{f"round{i}_us": r for i, r in enumerate(rounds)},
                     **{f"moved{i}": ~places.same(cached, r) for i, r in enumerate(rounds)}}
    result.findings = {**decide(result.numbers), **idle_time(idle)}
    return result


def gone(places, cached, now):
    """Share of blocks that are not where they were cached."""
    return guard.mean(~places.same(cached, now), "blocks that moved")


def _idle(s, places, rng):
    """Reads one block with growing pauses; finds the shortest pause after which written blocks
    leave the cache, and the longest after which none does.

    Older blocks could be cleaned first.  So the drive is reset, or must clean what it holds."""
    s.fresh()
    blocks = s.dev.bytes // BLOCK
    quiet, gap, growth, seen, last = 0.0, FIRST_GAP_S, GROWTH, [], None

    def dirty():
        some = (int(blocks * FROM) + rng.integers(int(blocks * (TO - FROM)), size=DIRTY)) * BLOCK
        trace = s.trace("idle-write", chain((True, some, BLOCK), places.ops(some)))
        return some, places.times(trace[DIRTY:])

    def left(some, cached):
        return int((~places.same(cached, places.read("idle-read", some))).sum())

    def drained(some, cached):
        pause, total = s.scale.pause_s, 0.0
        while total < s.scale.long_pause_s:
            s.pause(pause, "until the few blocks that were written are cleaned")
            total += pause
            if left(some, cached) > (0.9 - places.coincidence) * DIRTY:
                return True
        return False
    some, cached = dirty()
    while gap < LAST_GAP_S:
        if last is True:
            # Make sure that the cache holds only what is written last.
            if not drained(some, cached):
                return {"seen": seen, "why": "it did not clean a few blocks in "
                        f"{s.scale.long_pause_s:g} s"}
            some, cached = dirty()
        gaps, trace = s.spaced("idle", places.anchor, gap,
                               max(GAPS, math.ceil(guard.ratio(LASTING_S, gap, "pauses"))),
                               places.ops(some))
        moved = int((~places.same(cached, places.times(trace))).sum())
        gap = float(gaps.max())
        seen.append([gap, moved])
        # One block may have been read wrong.
        last = moved > 1
        if not last:
            quiet, gap = gap, gap * growth
        elif growth > FINE and quiet:
            growth, gap = FINE, quiet * FINE
        elif len(seen) == 1 or growth > FINE:
            break
        else:
            return {"quiet_s": quiet, "cleans_s": gap, "seen": seen}
    return {"seen": seen}


def idle_time(idle):
    """The Finding of how long the host must be idle."""
    if not idle:
        return {}
    if not idle.get("quiet_s"):
        return {"clean_idle_ms": Finding.unknown(idle.get("why") or (
            "no pause was so short that it did not clean in it"
            if idle["seen"][-1][1] > 1 else "in no pause between reads did it clean"), "ms")}
    low, high = 1000 * idle["quiet_s"], 1000 * idle["cleans_s"]
    # The drive may check its clock at intervals.
    return {"clean_idle_ms": Finding((low + high) / 2, "ms", 0.95 * low, high, 0.99,
            f"in pauses of {low:.0f} ms no block left the cache, in those of "
            f"{high:.0f} ms some did")}


def _pauses(s):
    """Seconds of each pause, doubling; their sum is the pause of the thesis."""
    out, left = [], s.scale.long_pause_s
    pause = 2 * s.scale.pause_s
    while left > 0:
        out.append(min(pause, left))
        left -= out[-1]
        pause *= 2
    return out


def decide(numbers):
    """A second decision about the type of cleaning."""
    if not numbers["telling"]:
        return {"cleaning_type": Finding.unknown(numbers["why"])}
    cached = numbers["cached"] - numbers["noise"]
    if cached < numbers["blocks"] // 2:
        return {"cleaning_type": Finding.unknown(
            f"only {cached} of {numbers['blocks']} blocks were elsewhere after writing")}
    moved, pause = numbers["moved"][-1], sum(numbers["pauses_s"])
    # A few blocks may have been read wrong, but no more.
    if stats.upper_tail(moved, cached, 0.05) < stats.ALPHA:
        return {"cleaning_type": Finding("aggressive", confidence=stats.SURE, says=
                f"{moved} of {cached} blocks left the cache within pauses of {pause:g} s")}
    if stats.lower_tail(moved, cached, 0.1) < stats.ALPHA and not any(numbers["waited"]):
        return {"cleaning_type": Finding("lazy", confidence=stats.SURE, says=
                f"{cached - moved} of {cached} blocks were still where they had been "
                f"written after pauses of {pause:g} s")}
    return {"cleaning_type": Finding.unknown(
        f"{moved} of {cached} blocks left the cache within {pause:g} s")}


def draw(figure, result, arrays):
    """As Figure 2.10 of the thesis: what is still in the cache, and what is not."""
    from . import plots
    rounds = len(result.numbers["pauses_s"])
    shown = sorted({0, rounds // 2, rounds - 1})
    axes = plots.panels(figure, len(shown), share_y=True)
    for one, i in zip(axes, shown):
        moved = arrays[f"moved{i}"] & arrays["went"]
        lat, at = arrays[f"round{i}_us"] / 1000, np.arange(len(moved))
        plots.dots(one, lat[~moved], x=at[~moved], color=plots.BLUE, label="in the cache")
        plots.dots(one, lat[moved], x=at[moved], color=plots.ORANGE, label="cleaned")
        one.set(title=f"after {sum(result.numbers['pauses_s'][:i + 1]):g} s",
                xlabel="block, in the order of writing")
    axes[0].set_ylabel("latency behind an anchor, ms")
    headroom(axes[-1])
