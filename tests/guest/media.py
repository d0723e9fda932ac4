# SPDX-License-Identifier: GPL-2.0
"""What a target lies on: plain RAM, or dm-platter, whose write head destroys
what it passes over and whose ledger says whether anybody asked for that."""

import dm
import targets
from bench import Skip, expect
from blk import SECTORS


def platter(name, under, geo, media="smr", **more):
    """A medium of that device's size, tracks as in the geometry, of an
    interlaced one as long as a band; @more keys of its table line."""
    track = geo.band if media == "imr" else geo.track
    tracks, rest = divmod(under.blocks, track)
    expect(not rest, "the device is no whole number of tracks")
    keys = {"media": media, "surfaces": 1,
            "head_tracks": 1 if media == "imr" else geo.head,
            "zones": f"{tracks}x{track * SECTORS}", "damage": "poison",
            "timing": "none", **({"track_skew": geo.skew * SECTORS} if geo.skew else {}), **more}
    words = " ".join(f"{k} {v}" for k, v in keys.items())
    try:
        return dm.Device(name, [(0, under.blocks * SECTORS, "platter",
                                 f"{under.path} 0 generic 0 {2 * len(keys)} "
                                 f"{words}")])
    except OSError as error:
        raise Skip(f"no platter: {error}") from error


def stack(ctx, geo, medium, **more):
    """A fresh stack over that medium, closed; @more as platter()."""
    made = targets.stack(ctx.pool, ctx.target, geo, medium == "ram")
    if medium != "ram":
        made.platter = platter("medium", made.under[0], geo, medium, **more)
        made.paths["data"] = made.platter.path
        made.format()
    return made


def standing(path, sectors):
    """A table over a device: writes stand still there until it is loaded again, which
    lets go those that have come, or another one is; reads and flushes do not."""
    return [(0, sectors, "delay", " ".join(f"{path} 0 {ms}" for ms in (0, 3600000, 0)))]


def stands(device):
    """Does a write stand still on a device with that table?"""
    return device.status(noflush=True).split()[1] != "0"


def numbers(text):
    """{name: value} of a stats message."""
    out = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            out[name] = int(value)
    return out


def stats(device):
    """{name: value} of what a mapped device counts."""
    return numbers(device.message("stats"))


def judge(made):
    """The medium's verdict, as numbers; destroyed blocks must not be asked
    for."""
    if not hasattr(made, "platter"):
        return {}
    stats = numbers(made.platter.message("stats"))
    expect(stats["destroyed_reads"] == 0,
           f"{stats['destroyed_reads']} reads of destroyed blocks")
    expect(stats["destroyed_blocks"] > 0, "the head never destroyed anything")
    return {k: stats[k] for k in ("destroyed_blocks", "destroyed_reads",
                                  "blocks_written", "blocks_read")}
