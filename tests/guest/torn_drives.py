# SPDX-License-Identifier: GPL-2.0
"""Drives for power cuts, and whether a cut damages older data; for skylight.py in a guest, and
scripts/experiments skylight."""

HEAD = ["media", "smr", "head_tracks", "2", "track_sectors"]


def streams(*feature):
    """A drive with metadata on its medium.  If they were on another one that loses power first, the
    layer would stop before it tears anything."""
    return {"kind": "shingled", "sectors": 1 << 20, "tests": "13", "powercut": True, "store": True,
            "joined": True, "keys": [*HEAD, "512"],
            "create": ["stl-set", "--band", "8M", "--bands", "25", "--cache-size", "8b",
                       "--set", "bypass_blocks=64", *feature]}


DRIVES = {
    "no staging": ({"kind": "shingled", "sectors": 1 << 21, "tests": "13", "powercut": True,
                    "keys": [*HEAD, "512"],
                    "create": ["stl-set", "--band", "1M", "--bands", "400", "--cache-size", "8b",
                               "--feature", "inplace"]}, True),
    "streams over what is there": (streams("--feature", "unsafe_bypass"), True),
    "streams with a copy": (streams(), False),
}
