# SPDX-License-Identifier: GPL-2.0
"""Test 10: a circular log, second part.

As many writes as in Test 9, each to a block drawn from the same set.  If cached
blocks were overwritten in their place, this would never fill the cache either."""

from . import cliff, t06, t09
from .session import DONE, Result

ID, TITLE, AFTER = "10", "circular log, random order", ("6", "9")


def estimate(s):
    """Seconds of the drive's clock."""
    return t09.estimate(s)


def run(s):
    """Three times as many draws as there are blocks."""
    count, why = t09.setting(s)
    if why:
        return t06.skipped(why)
    chosen = t09.blocks(s, s.rng("9"), count)
    picks = s.rng(ID).integers(0, count, t09.ROUNDS * count)
    with s.settings():
        doubt = t06.begin(s)
        if doubt:
            return t06.skipped(doubt)
        found = t09.follow(s, chosen[picks])
    out = Result(DONE, numbers=t06.numbers(found, "") | {"blocks": count},
                 arrays=found.picture)
    out.numbers["cleaned"] = found.at is not None
    nine = s.results.get("9")
    if nine and "cleaned" in nine.numbers:
        out.findings["log_structure"] = t09.structure(
            nine.numbers["cleaned"], out.numbers["cleaned"],
            s.results["6"].numbers["writes_until_cleaning"])
    return out


def draw(figure, result, arrays):
    """Time from write to write."""
    cliff.draw(figure, result, arrays)
