# SPDX-License-Identifier: GPL-2.0
"""Test 8: how many bytes, in large writes, until the drive must clean.

If the map has an entry for each block, this repeats Test 6.  If writes share an entry, it is
the size of the cache in bytes of data."""

from . import cliff, t06_raw_size, t07_map_entries
from .session import BLOCK, DONE, Finding, Result

ID, TITLE, AFTER = "8", "size of the persistent cache", ("1", "6", "7", "11")


def estimate(s):
    """Seconds of the drive's clock."""
    return t06_raw_size.estimate(s)


def run(s):
    """Large random writes, 31 in flight."""
    if missing := t07_map_entries.never(s):
        return t06_raw_size.skipped(missing)
    size = t07_map_entries.large(s)
    with s.settings():
        found, doubt = t06_raw_size.measure(s, "writes", size=size, iodepth=t07_map_entries.DEPTH, seed=8)
    out = Result(DONE, numbers=t06_raw_size.numbers(found, doubt) | {"write_bytes": size},
                 arrays=found.picture)
    seen = {k: s.results[k].numbers["writes_until_cleaning"] * BLOCK for k in ("6", "7")
            if k in s.results and "writes_until_cleaning" in s.results[k].numbers}
    if found.at is not None:
        seen["8"] = found.at * size
    out.numbers["bytes_until_cleaning"] = seen
    if doubt:
        out.findings["cache_bytes"] = Finding.unknown(doubt, "bytes")
    elif not seen:
        out.findings["cache_bytes"] = Finding.unknown(found.why, "bytes")
    else:
        band = s.value("band_bytes")
        out.findings["cache_bytes"] = together(seen, band // BLOCK if band else 0)
    return out


def together(seen, band_blocks):
    """The size of the cache, from the bytes until cleaning of the tests.

    Each test wrote as much as fitted, so the largest is closest.  Large writes fill the parts
    less evenly, as there are fewer of them."""
    best = max(seen, key=seen.get)
    value = seen[best]
    low, high = t06_raw_size.cache(value // BLOCK, band_blocks if best == "6" else 0)
    said = ", ".join(f"{v / 2 ** 20:,.1f} MiB in Test {k}" for k, v in seen.items())
    return Finding(value, "bytes", low * BLOCK, high * BLOCK, 1 - 10 * cliff.RISK,
                   f"until cleaning: {said}; the most that was held is the nearest")


def draw(figure, result, arrays):
    """Time from completion to completion."""
    cliff.draw(figure, result, arrays)
