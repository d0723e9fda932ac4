# SPDX-License-Identifier: GPL-2.0
"""Test 10: a circular log, second part.

The number of writes is that of Test 9, each to a block drawn from the same set.  If cached
blocks were overwritten in place, this would never fill the cache either."""

from . import cliff, t06_raw_size, t09_log_in_order

ID, TITLE, AFTER = "10", "circular log, random order", ("6", "9")
THIN = 0.1      # e^-2.28: share of live blocks when 22,800 draws from 10,000 return to the begin


def estimate(s):
    """Seconds of the drive's clock."""
    return t09_log_in_order.estimate(s)


def run(s):
    """Draws as many blocks as Test 9 wrote, or more: at the end of a log that skips stale blocks
    one in ten is live, and the drive cleans only for these."""
    count, why = t09_log_in_order.setting(s)
    if why:
        return t06_raw_size.skipped(why)
    six = s.results["6"].numbers
    times = t09_log_in_order.rounds(six, count, THIN)
    chosen = t09_log_in_order.blocks(s, s.rng("9"), count)
    picks = s.rng(ID).integers(0, count, times * count)
    with s.settings():
        if doubt := t06_raw_size.begin(s):
            return t06_raw_size.skipped(doubt)
        out = t09_log_in_order.follow(s, chosen[picks], THIN)
    out.numbers |= {"blocks": count, "rounds": times}
    nine = s.results.get("9")
    if nine and "cleaned" in nine.numbers:
        out.findings["log_structure"] = t09_log_in_order.structure(
            nine.numbers["cleaned"], out.numbers["cleaned"], six["writes_until_cleaning"])
    return out


def draw(figure, result, arrays):
    """Time from write to write."""
    cliff.draw(figure, result, arrays)
