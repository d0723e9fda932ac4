# SPDX-License-Identifier: GPL-2.0
"""Drives for scripts/experiments skylight and for its suites in a guest.

TORN are drives whose power is cut (skylight.py), and whether a cut damages older data.  CONTROLS are
drives that are not shingled (controls.py), and the names that scripts/skylight may give them.

By @kind of the dictionary, besides the kinds of skylight.py:
 linear, crypt       dm-linear, dm-crypt
 raid1, raid5        md of two and three platters
 snapshot            dm-snapshot, exceptions on another platter, chunks of 64 KiB
 cache, writecache, bcache
                     dm-cache (chunks of 256 KiB), dm-writecache and bcache, in write-back
                     mode; the cache is in RAM and takes no time
 zoned               dm-zoned over zones in RAM (null_blk), because no platter has zones; with
                     Test 1 alone, because its reclaim, which begins in a pause, hung under the
                     virtual clock
log-flash is stl-full over a platter that takes no time, a log-structured layer in flash.
"""

GIB = 1 << 21               # sectors
PLACES = ("conventional",)
MOVES = ("translated", None)
# The properties of each, and the allowed names.
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
    """Return why a drive could not have been called shingled with these tests, {test: result}; an
    empty text if it could have: Test 11 has looked whether written data move."""
    bands = tests.get("11")
    if not bands:
        return "Test 11 was not made"
    if bands["status"] != "done":
        return bands.get("why") or bands["status"]
    if "moved_by_write" in bands["numbers"]:
        return ""
    return bands["findings"].get("band_bytes", {}).get("says") or "Test 11 does not say why"


def drive_of(name, **more):
    """Return the dictionary of a control."""
    return {"kind": name, "name": name, "sectors": 4 * GIB, **more, **CONTROLS[name][0]}


HEAD = ["media", "smr", "head_tracks", "2", "track_sectors"]


def streams(*feature):
    """Return a drive with metadata on its medium.  If they were on another one that loses power first, the
    layer would stop before it tears anything."""
    return {"kind": "shingled", "sectors": 1 << 20, "tests": "13", "powercut": True, "store": True,
            "joined": True, "keys": [*HEAD, "512"],
            "create": ["stl-set", "--band", "8M", "--bands", "25", "--cache-size", "8b",
                       "--set", "bypass_blocks=64", *feature]}


TORN = {
    "no staging": ({"kind": "shingled", "sectors": 1 << 21, "tests": "13", "powercut": True,
                    "keys": [*HEAD, "512"],
                    "create": ["stl-set", "--band", "1M", "--bands", "400", "--cache-size", "8b",
                               "--feature", "inplace"]}, True),
    "streams over what is there": (streams("--feature", "unsafe_bypass"), True),
    "streams with a copy": (streams(), False),
}
