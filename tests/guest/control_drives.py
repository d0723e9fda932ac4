# SPDX-License-Identifier: GPL-2.0
"""Drives that are not shingled, and what scripts/skylight may call them; for controls.py in
a guest, and scripts/shows/skylight.

What they are, by @kind of the dictionary, beside those of skylight.py:

    linear, crypt       dm-linear, dm-crypt
    raid1, raid5        md of two and three platters
    snapshot            dm-snapshot, exceptions on another platter, chunks of 64 KiB
    cache, writecache, bcache
                        dm-cache (chunks of 256 KiB), dm-writecache and bcache, written back; the
                        cache in RAM that takes no time
    zoned               dm-zoned over zones in RAM (null_blk), as no disk of ours has zones; by
                        Test 1 alone, as its reclaim, which a pause begins, stood still under the
                        virtual clock

log-flash is stl-full over a platter that takes no time, a log-structured layer in flash."""

GIB = 1 << 21               # sectors
PLACES = ("conventional",)
MOVES = ("translated", None)
# Of each what it is made of, and what it may be called.
CONTROLS = {
    "plain": ({}, PLACES), "linear": ({}, PLACES), "crypt": ({}, PLACES),
    "raid1": ({}, PLACES), "raid5": ({}, PLACES), "thin": ({}, PLACES),
    "snapshot": ({}, (*PLACES, *MOVES)), "cache": ({}, MOVES), "writecache": ({}, MOVES),
    "bcache": ({}, MOVES), "zoned": ({"tests": "1"}, MOVES),
    "log-flash": ({"kind": "shingled", "profile": "generic", "keys": ["timing", "none"],
                   "create": ["stl-full", "--band", "1M", "--geometry", "pack", "--bands",
                              "700", "--zone-bands", "150", "--provision", "8",
                              "--log-bands", "3"]}, MOVES),
}


def not_asked(tests):
    """Why this drive could not have been called shingled, whatever it is, of its {test: result}; an
    empty text if it could: Test 11 has looked whether what is written moves."""
    bands = tests.get("11")
    if not bands:
        return "Test 11 was not made"
    if bands["status"] != "done":
        return bands.get("why") or bands["status"]
    if "moved_by_write" in bands["numbers"]:
        return ""
    return bands["findings"].get("band_bytes", {}).get("says") or "Test 11 does not say why"


def drive_of(name, **more):
    """The dictionary of a control."""
    return {"kind": name, "name": name, "sectors": 4 * GIB, **more, **CONTROLS[name][0]}
