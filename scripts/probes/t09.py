# SPDX-License-Identifier: GPL-2.0
"""Test 9: a circular log, first part.

A set of random blocks, smaller than the cache, is written three times over in
the same order: 1.3 times as many writes as fill the cache, as the thesis has it
(30,000 of 10,000 blocks where 22,800 fill it).  When a log comes round to its
beginning, all that lies there was written again meanwhile.  A drive that sees
that goes on; one that does not must clean."""

import numpy as np

from . import cliff, t06, t07
from .session import BLOCK, DONE, Finding, Result

ID, TITLE, AFTER = "9", "circular log, same order", ("6",)
SHARE = 10_000 / 22_800     # blocks of the set, of those until cleaning
ROUNDS = 3
LARGEST = 1 << 22           # writes of one round


def estimate(s):
    """Seconds of the drive's clock."""
    full = _full(s)
    return 0.011 * ROUNDS * SHARE * full if full else 60


def _full(s):
    six = s.results.get("6")
    return six.numbers.get("writes_until_cleaning") if six else None


def blocks(s, rng, count):
    """So many different blocks from all over the drive, in random order."""
    return rng.choice(s.dev.bytes // BLOCK, count, replace=False).astype(np.uint64) * BLOCK


def setting(s):
    """(blocks of the set, why not)."""
    if missing := t07.never(s):
        return 0, missing
    full = _full(s)
    if not full:
        return 0, "it takes Test 6 to know how many writes fill the cache"
    count = int(SHARE * full)
    if count < 32:
        return 0, f"a cache that is full after {full} writes is too small for this"
    if count > LARGEST:
        return 0, (f"three rounds of {count:,} writes are too many for one request list; "
                   "a scaled drive will do")
    return count, ""


def follow(s, order):
    """Writes @order, offsets, until the cliff or the end."""
    def write(_, first, count):
        return s.trace("writes", (True, order[first:first + count], BLOCK))
    return cliff.run(s, "writes", write, most_ops=len(order), most_s=s.scale.max_s)


def run(s):
    """Three rounds in one order."""
    count, why = setting(s)
    if why:
        return t06.skipped(why)
    chosen = blocks(s, s.rng(ID), count)
    with s.settings():
        doubt = t06.begin(s)
        if doubt:
            return t06.skipped(doubt)
        found = follow(s, np.tile(chosen, ROUNDS))
    out = Result(DONE, numbers=t06.numbers(found, "") | {"blocks": count, "rounds": ROUNDS},
                 arrays=found.picture)
    out.numbers["cleaned"] = found.at is not None
    return out


def structure(nine, ten, full):
    """log_structure from whether Tests 9 and 10 met cleaning.

    Their error rates are those of the cliff; that nothing was met counts as far as
    1.3 times the writes of Test 6 were done."""
    risk = 20 * cliff.RISK
    if nine and ten:
        return Finding("append", confidence=1 - risk, says="rewritten blocks take new room "
                       f"each time: cleaning began although only {SHARE:.0%} of the "
                       f"{full:,} blocks that the cache holds were in it")
    if not nine and ten:
        return Finding("circular", confidence=1 - risk, says="a circular log that skips what "
                       "is stale: the same blocks in the same order never made it clean, in "
                       "random order they did")
    if not nine and not ten:
        return Finding("in-place", confidence=1 - risk, says="blocks that are cached are "
                       "overwritten in their place: writing them again never filled the cache")
    return Finding.unknown("writing in the same order made it clean and in random order did "
                           "not, which no kind of log explains")


def draw(figure, result, arrays):
    """Time from write to write, with the rounds marked."""
    from . import plots                 # pylint: disable=C0415
    axes = plots.panels(figure, 1)[0]
    plots.dots(axes, arrays["high_us"] / 1000, "write", arrays["x"])
    for i in range(1, result.numbers.get("rounds", 1)):
        axes.axvline(i * result.numbers["blocks"], color=plots.GREY, linewidth=0.8)
    cliff_at = result.numbers.get("writes_until_cleaning")
    if cliff_at is not None:
        axes.axvline(cliff_at, color=plots.MARK, linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xlabel("writes")
    axes.set_ylabel("from one to the next, ms")
