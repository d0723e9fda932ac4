# SPDX-License-Identifier: GPL-2.0
"""Media below a target: plain RAM, or dm-platter, which has a write head that destroys what it
passes over and counts reads of destroyed blocks."""

from guest import dm
from guest import targets
from guest.bench import Skip, expect
from guest.blk import SECTORS


def platter(name, under, geo, media="smr", **more):
    """Return a medium of that device's size, with the geometry's tracks; on an interlaced medium a
    track has the length of a band.  @more: keys of its table line."""
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
    """Return a new closed stack over that medium; @more as in platter()."""
    made = targets.stack(ctx.pool, ctx.target, geo, medium == "ram")
    if medium != "ram":
        made.platter = platter("medium", made.under[0], geo, medium, **more)
        made.paths["data"] = made.platter.path
        made.format()
    return made


def standing(path, sectors):
    """Return a table that holds writes; loading it again, or another table, releases those held so
    far.  Reads and flushes pass."""
    return [(0, sectors, "delay", " ".join(f"{path} 0 {ms}" for ms in (0, 3600000, 0)))]


def stands(device):
    """Return whether a device with that table holds a write."""
    return device.status(noflush=True).split()[1] != "0"


def numbers(text):
    """Return {name: value} of a stats message."""
    out = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            out[name] = int(value)
    return out


def stats(device):
    """Return {name: value} of the statistics of a mapped device."""
    return numbers(device.message("stats"))


def judge(made):
    """Return the medium's counters; expect that no destroyed block was read."""
    if not hasattr(made, "platter"):
        return {}
    stats = numbers(made.platter.message("stats"))
    expect(stats["destroyed_reads"] == 0,
           f"{stats['destroyed_reads']} reads of destroyed blocks")
    expect(stats["destroyed_blocks"] > 0, "the head never destroyed anything")
    return {k: stats[k] for k in ("destroyed_blocks", "destroyed_reads",
                                  "blocks_written", "blocks_read")}
