# SPDX-License-Identifier: GPL-2.0
"""Test 6: how many small writes, one at a time, until the drive must clean.

The test writes random blocks of 4 KiB over all addresses.  Each takes one smallest internal
write (Tests 1a to 1c), and raw size = writes x that.  A cache in parts (sets of stl-set,
zones of stl-full) is full when its first part is, and parts fill unevenly: if the mean of n
parts with B places each is m, the fullest has m + sqrt(2 m ln n) blocks.  So the cache has
more room than was written; the interval states how much more."""

import math

from . import cliff, guard, marker_blocks
from .session import BLOCK, DONE, SKIPPED, Finding, Result

ID, TITLE, AFTER = "6", "raw size of the persistent cache", ("1", "2", "3")
MOST_PARTS, LEAST_PART = 2000, 12
STALE_S = 60        # seconds that an aggressive drive is left alone if it is not reset


USUAL_S = 0.012     # of a write, if Test 1 has not measured it


def usual(s):
    """Median seconds of a write within the widest region of Test 1."""
    first = s.results.get("1")
    flat = first and first.numbers.get("flat")
    return list(flat.values())[-1]["median_us"] / 1e6 if flat else USUAL_S


def estimate(s):
    """Seconds of the drive's clock, at most: the cliff may come at any time."""
    return min(limit(s) * usual(s), s.scale.max_s)


def filled(parts, places):
    """Expected share of all places that are taken when the first of @parts is full."""
    # m + sqrt(2 m ln n) = B, solved for m.
    c = math.sqrt(2 * math.log(max(parts, 1)))
    root = (-c + math.sqrt(c * c + 4 * places)) / 2
    return guard.ratio(root * root, places, "places taken")


def limit(s):
    """Writes after which the answer is that the drive does not clean; a conventional drive needs
    fewer."""
    kind = s.finding("drive_type")
    if kind and kind.value == "conventional" and kind.confidence >= 0.9:
        return min(s.scale.max_ops, 20_000)
    return s.scale.max_ops


def begin(s):
    """Empties the cache if possible; returns a sentence if that is uncertain, else an empty
    text."""
    if s.fresh():
        return ""
    if s.value("cleaning_type") == "aggressive":
        s.pause(max(STALE_S, s.scale.long_pause_s), "the drive empties its cache")
        return ""
    return "the cache may have held something already: --reset was not given"


def cache(at, band_blocks):
    """(low, high) of the number of places, from the writes until cleaning.

    A part has at least a band of places, if the band size is known; else there are at most
    MOST_PARTS parts of at least LEAST_PART places.  The fullest part is ahead of the mean by
    filled(), and three standard deviations more."""
    places = band_blocks or max(LEAST_PART, at / MOST_PARTS)
    parts = max(1.0, guard.ratio(at, places, "parts of the cache"))
    share = filled(parts, places) - guard.ratio(
        3, math.sqrt(places * 2 * math.log(max(parts, 3))), "scatter of the places taken")
    return at, at / max(0.3, min(1, share))


def numbers(found, doubt):
    """Numbers of a cliff for the result."""
    out = {"writes": found.writes, "looks": found.looks, "drive_seconds": round(found.seconds, 3),
           "usual_ms": round(found.usual_us / 1000, 4)}
    if len(found.picture.get("high_us", ())):
        out["longest_ms"] = round(float(found.picture["high_us"].max()) / 1000, 3)
    if found.at is not None:
        out |= {"writes_until_cleaning": found.at, "stall_ms": round(found.stall_us / 1000, 3),
                "slower_after": round(found.slower, 1), "risk": found.risk,
                "stall_from_ms": found.tall_us / 1000, "stalls_before": found.before,
                "stalls_after": found.behind, "stall_rate": found.rate}
    if doubt:
        out["doubt"] = doubt
    return out


def measure(s, name, *, size=BLOCK, iodepth=1, seed=6):
    """(Cliff, doubt) of random writes from an empty cache on."""
    doubt = begin(s)
    seen, written = marker_blocks.of(s)
    if written and not seen:
        doubt = begin(s)
    found = cliff.run(s, name, cliff.random_writes(s, name, size=size, iodepth=iodepth,
                                                   seed=s.seed * 31 + seed),
                      most_ops=max(256, limit(s) * BLOCK // size), most_s=s.scale.max_s,
                      size=size, witness=seen)
    return found, doubt


def run(s):
    """Writes until the cliff, or the limit."""
    with s.settings():
        found, doubt = measure(s, "writes")
    out = Result(DONE, numbers=numbers(found, doubt), arrays=found.picture)
    out.numbers["thesis"] = {"E1": 9_175_056, "E2": 2_464_153, "E3": 9_175_056}
    if found.at is None:
        out.findings = {"writes_until_cleaning": Finding.unknown(found.why),
                        "raw_bytes": Finding.unknown(found.why, "bytes")}
        return out
    out.findings |= sizes(s, found, doubt)
    return out


def sizes(s, found, doubt):
    """The count, and the bytes if it is known how many a write takes."""
    said = (f"cleaning began after {found.at:,} random writes of 4 KiB, "
            f"{found.at * BLOCK / 2 ** 30:.3f} GiB")
    band, unit = s.value("band_bytes"), s.finding("write_unit_bytes")
    low, high = cache(found.at, band // BLOCK if band else 0)
    known = unit is not None and unit.value is not None
    # A write of a block takes at least a block.
    least = low * ((unit.low or unit.value) if known else BLOCK)
    risk = max(found.risk, cliff.RISK)
    if doubt:
        said = f"{said}; but {doubt}"
        out = {"writes_until_cleaning": Finding.unknown(said),
               "raw_bytes": Finding.unknown(said, "bytes")}
    else:
        out = {"writes_until_cleaning": Finding(found.at, "", found.at, found.at, 1 - risk, said),
               "raw_bytes": Finding.unknown(
                   f"{said}; how many bytes each of them took is not known (Tests 1a to 1c)",
                   "bytes")}
    if known and not doubt:
        out["raw_bytes"] = Finding(
            int(found.at * unit.value), "bytes", least, high * (unit.high or unit.value),
            max(0.0, unit.confidence - risk),
            f"{said}, each of which took {int(unit.value)} bytes; the interval allows for "
            "parts of the cache that are not filled evenly")
    out["raw_bytes"].low = least
    return out


def draw(figure, result, arrays):
    """Figure 2.16: time from write to write."""
    cliff.draw(figure, result, arrays)


def skipped(why):
    """A skipped Result with the reason @why."""
    return Result(SKIPPED, why=why)
