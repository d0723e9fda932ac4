# SPDX-License-Identifier: GPL-2.0
"""Test 7: how many small writes, many at a time, until the drive must clean.

Writes in flight together may share one internal write, as on the drive of Aghayev et al.;
then the entries of the map run out, not the room.  Whether bytes or entries are exhausted
shows only in comparison with Test 6."""

from . import cliff, t06_raw_size
from .session import BLOCK, DONE, Finding, Result

ID, TITLE, AFTER = "7", "entries of the map of the cache", ("1", "6")
DEPTH = 31


def estimate(s):
    """Seconds of the drive's clock."""
    return t06_raw_size.estimate(s)


def run(s):
    """Test 6 with 31 writes in flight."""
    if missing := never(s):
        return t06_raw_size.skipped(missing)
    with s.settings():
        found, doubt = t06_raw_size.measure(s, "writes", iodepth=DEPTH, seed=7)
    out = Result(DONE, numbers=t06_raw_size.numbers(found, doubt), arrays=found.picture)
    if found.at is None:
        out.findings["map_entries"] = Finding.unknown(
            f"{found.why}: the map holds that many at least")
    elif doubt:
        out.findings["map_entries"] = Finding.unknown(f"{found.at:,} writes; but {doubt}")
    else:
        one = s.results["6"].numbers.get("writes_until_cleaning") if "6" in s.results \
            else None
        out.findings["map_entries"] = entries(found.at, one)
    return out


def never(s):
    """Why this test cannot show anything if Test 6 has shown nothing, or an empty text."""
    six = s.results.get("6")
    if six and six.status == DONE and "writes_until_cleaning" not in six.numbers:
        return "Test 6 saw no cleaning"
    return ""


def entries(many, one):
    """Entries of the map, from the writes until cleaning with 31 and with one at a time."""
    low, high = t06_raw_size.cache(many, 0)
    if one is None:
        return Finding(many, "", low, None, 0.7, f"cleaning began after {many:,} writes; "
                       "without Test 6 that may be the room as well as the map")
    if many > 1.5 * one:
        return Finding(many, "", low, high, 1 - cliff.RISK,
                       f"cleaning began after {many:,} writes, 31 at a time, and after "
                       f"{one:,} one at a time: they share internal writes, and then the map "
                       "is full")
    return Finding(many, "", low, high, 1 - 10 * cliff.RISK,
                   f"cleaning began after {many:,} writes, as many as one at a time "
                   f"({one:,}): an entry for each block, and as many entries as places")


def draw(figure, result, arrays):
    """Time from completion to completion."""
    cliff.draw(figure, result, arrays)


def large(s):
    """The size of the writes of Test 8: 256 KiB, but at most a quarter of a band, as a few such
    writes would fill the sets and zones of a small drive."""
    size, band = 256 * 1024, int(s.value("band_bytes", 0))
    small = band // 4 if band else s.dev.bytes // 4096
    while size > max(small, 2 * BLOCK):
        size //= 2
    return size
