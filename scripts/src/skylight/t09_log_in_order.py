# SPDX-License-Identifier: GPL-2.0
"""Test 9: a circular log, first part.

A set of random blocks, smaller than the cache, is written again and again in the same order:
three rounds as in the thesis (30,000 writes of 10,000 blocks; 22,800 fill the cache), or more
where three rounds are too few to decide.  When a log returns to its beginning, everything
that lies there has been written again.  A drive that notices continues; another one must
clean.

Test 6 has measured what a stall is, how frequent stalls are before cleaning, and how frequent
they are when the cache is full.  The number of stalls met is compared with both rates.  The
drive cleans if that number or more would come with a probability below RISK without cleaning;
it does not if that number or fewer would come with a probability below RISK with cleaning."""

import math

import numpy as np
from scipy.stats import poisson

from . import cliff, guard, t06_raw_size, t07_map_entries
from .session import BLOCK, DONE, Finding, Result

ID, TITLE, AFTER = "9", "circular log, same order", ("6",)
SHARE = 10_000 / 22_800     # blocks of the set, in writes until cleaning
ROUNDS, MOST_ROUNDS = 3, 40
RISK = 1e-3
LARGEST = 1 << 22           # writes of one round, at most


def estimate(s):
    """Seconds of the drive's clock."""
    full = _full(s)
    return 0.011 * ROUNDS * SHARE * full if full else 60


def _full(s):
    six = s.results.get("6")
    return six.numbers.get("writes_until_cleaning") if six else None


def blocks(s, rng, count):
    """@count different blocks from all over the drive, in random order."""
    return rng.choice(s.dev.bytes // BLOCK, count, replace=False).astype(np.uint64) * BLOCK


def setting(s):
    """(blocks of the set, reason if there is none)."""
    if missing := t07_map_entries.never(s):
        return 0, missing
    full = _full(s)
    if not full:
        return 0, "it takes Test 6 to know how many writes fill the cache"
    if "stall_rate" not in s.results["6"].numbers:
        return 0, "the result of Test 6 says nothing of stalls"
    count = int(SHARE * full)
    if count < 32:
        return 0, f"a cache that is full after {full} writes is too small for this"
    if count > LARGEST:
        return 0, (f"three rounds of {count:,} writes are too many for one request list; "
                   "a scaled drive will do")
    return count, ""


def tail(count, mean):
    """Probabilities of @count or fewer and of @count or more events, if @mean are expected
    (Poisson)."""
    return float(poisson.cdf(count, mean)), float(poisson.sf(count - 1, mean))


def rounds(six, count, thin=1.0):
    """How often the set is written so that cleaning would show, if a share of @thin of the
    stalls of Test 6 came."""
    enough = -math.log(RISK) * 1.5 / max(1e-12, six["stall_rate"] * thin)
    wanted = guard.ratio(six["writes_until_cleaning"] * 1.1 + enough, count, "rounds")
    return int(min(MOST_ROUNDS, max(ROUNDS, math.ceil(wanted))))


def cleaned(six, gap, thin=1.0, looks=1):
    """True, False or None: whether these times include cleaning; @looks: what cliff.spent()
    returns, if called repeatedly."""
    full, tall = six["writes_until_cleaning"], 1000 * six["stall_from_ms"]
    # Writes before the cache can be full prove nothing.
    gap = gap[full // 2:]
    met = int((gap > tall).sum())
    calm = guard.ratio(len(gap) * (six["stalls_before"] + 1), full, "stalls expected")
    busy = max(0, len(gap) - (full - full // 2) * 1.1) * six["stall_rate"] * thin
    few, _ = tail(met, busy)
    _, many = tail(met, calm)
    if many * looks < RISK and (few > RISK or met > busy / 4):
        return True
    return False if few < RISK <= many * looks else None


def follow(s, order, thin=1.0):
    """Writes @order, which are offsets; returns (Result, numbers).  Ends early among stalls."""
    six, gaps = s.results["6"].numbers, []

    def write(_, first, count):
        return s.trace("writes", (True, order[first:first + count], BLOCK))

    def stop(gap):
        gaps.append(gap)
        return cleaned(six, np.concatenate(gaps), thin, cliff.spent(len(gaps))) is True
    found = cliff.run(s, "writes", write, most_ops=len(order), most_s=s.scale.max_s, stop=stop)
    gap = np.concatenate(gaps) if gaps else np.zeros(0)
    known = True if found.at is not None else cleaned(six, gap, thin,
                                                      cliff.spent(max(1, len(gaps))))
    tall = np.flatnonzero(gap > 1000 * six["stall_from_ms"])
    out = Result(DONE, numbers=t06_raw_size.numbers(found, "") | {"cleaned": known, "stalls": len(tall)},
                 arrays=found.picture)
    if known and len(tall):
        out.numbers["first_stall"] = int(tall[0])
    return out


def run(s):
    """Writes the rounds in one order."""
    count, why = setting(s)
    if why:
        return t06_raw_size.skipped(why)
    times = rounds(s.results["6"].numbers, count)
    chosen = blocks(s, s.rng(ID), count)
    with s.settings():
        if doubt := t06_raw_size.begin(s):
            return t06_raw_size.skipped(doubt)
        out = follow(s, np.tile(chosen, times))
    out.numbers |= {"blocks": count, "rounds": times}
    return out


def structure(nine, ten, full):
    """log_structure, from whether Tests 9 and 10 met cleaning; None: that is not known."""
    if nine is None or ten is None:
        return Finding.unknown("too few or too many stalls to tell whether they are cleaning")
    risk = 2 * RISK
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
    from . import plots
    axes = plots.panels(figure, 1)[0]
    plots.dots(axes, arrays["high_us"] / 1000, "write", arrays["x"])
    for i in range(1, result.numbers.get("rounds", 1)):
        if i * result.numbers["blocks"] < result.numbers["writes"]:
            axes.axvline(i * result.numbers["blocks"], color=plots.GREY, linewidth=0.8)
    cliff_at = result.numbers.get("first_stall")
    if cliff_at is not None:
        axes.axvline(cliff_at, color=plots.MARK, linewidth=0.8)
    plots.logarithmic(axes)
    axes.set_xlabel("writes")
    axes.set_ylabel("from one to the next, ms")
