# SPDX-License-Identifier: GPL-2.0
"""Checks whether a write takes long because of the data beside it.

The tracks of an interlaced drive overlap: every other track is written over the edges of its
neighbours, whose data must be saved and written again.  Without data in them nothing of this
shows, and places do not show it either, as blocks stay in place.  So the test first writes in
order: the whole drive if there is time, else a stretch at each of three places.  Then it
writes blocks again, one at a time.  On a conventional drive such a write takes a seek and a
rotation or two.

A drive that assigns a place at the first write can keep tracks apart until it is full.  If
such a drive was not filled as a whole, the answer is "cannot tell"."""

import numpy as np

from . import guard, stats
from .places import LEAST_ROTATION_US, MOST_ROTATION_US
from .session import BLOCK, MIB, Finding, Result
from .t01_translation import SPOTS

ID, TITLE, AFTER = "filled", "writing beside what is there", ("1",)

FILL_S = 150            # seconds for writing in order; the rest is for slow writes after that
DEPTH = 8               # in flight while it is filled, so that no rotation is missed
REGION = 64 * MIB       # blocks are written again within this
BESIDE = 16 * MIB       # bytes written at both ends of the region: several tracks
WRITES = 40             # at each place
# A block that stays in place and is written alone takes a seek and a rotation or two.
TURNS, FEW = 4, 0.05


def estimate(s):
    """Seconds."""
    return min(FILL_S, s.dev.bytes / 100e6) + 3 * WRITES * 0.02


def run(s):
    """Runs the test; it also uses the writes of Test 1."""
    one, result = s.results["1"], Result()
    turn = max((spot["rotation_us"] for spot in one.numbers["spots"].values()
                if spot["rotation_us"]), default=0) or rotation(s)
    result.numbers = {"rotation_us": turn, "filled": "nothing"}
    before = [lat for name, lat in one.arrays.items()
              if name.startswith("write_") and name.endswith("_us")]
    many, says = slow(np.concatenate([np.zeros(0), *before]), turn)
    how = "nothing"
    if not many:
        with s.settings(write_cache=True):
            result.numbers["filled"] = how = fill(s)
        with s.settings():
            again = {name: rewrite(s, name) for name in SPOTS}
        result.arrays = {f"{name}_us": lat.astype(np.float32) for name, lat in again.items()}
        many, says = slow(np.concatenate(list(again.values())), turn)
        if not many and how != "all" and gives_places(one):
            many, says = True, ("it gives a block its place when that is first written, and there "
                                "was no time to fill it: what lies beside a block is not known")
    result.findings["drive_type"] = Finding.unknown(says, against="conventional") if many else \
        Finding("conventional", confidence=stats.measured(
            "filled_all" if how == "all" else "filled_part"),
                says=f"{s.finding('drive_type').says}; {says}")
    return result


def rotation(s):
    """Rotation in microseconds, approximately, or the longest one there is."""
    lat = s.trace("rotation", (False, np.full(25, s.dev.bytes // 2 // BLOCK * BLOCK),
                               BLOCK)).lat_us[1:]
    middle = guard.median(lat, "reads of one block")
    return middle if LEAST_ROTATION_US < middle < MOST_ROTATION_US and \
        guard.mean(abs(lat - middle) < 0.1 * middle, "reads of one block") > 0.8 \
        else MOST_ROTATION_US


def slow(lat, turn):
    """(whether significantly more writes than usual were so slow that other blocks must have
    been rewritten, a sentence)."""
    count = int((lat > TURNS * turn).sum())
    if len(lat) and stats.upper_tail(count, len(lat), FEW) < stats.ALPHA:
        return True, (f"blocks stay where they are, but {count} of {len(lat)} writes took longer "
                      f"than {TURNS} rotations, as if others were rewritten with them")
    return False, (f"{count} of {len(lat)} writes beside what was there took longer than {TURNS} "
                   "rotations")


def gives_places(one):
    """Whether most blocks at any place were read without a platter before they were written."""
    return any(spot["telling"] and not spot["told_before"] and
               spot["fast_before"] > spot["blocks"] / 2 for spot in one.numbers["spots"].values())


def region(s, name):
    """(first byte, bytes) that are written again at a place."""
    size = max(MIB, min(REGION, s.dev.bytes // 16 // MIB * MIB))
    return int(s.dev.bytes * SPOTS[name]) // MIB * MIB, size


def stretch(s, name):
    """The region with what is beside it."""
    first, size = region(s, name)
    begin = max(0, first - BESIDE)
    return begin, min(s.dev.bytes // MIB * MIB, first + size + BESIDE) - begin


def fill(s):
    """Writes in order: "all" of the drive, all of a "part" or "stretches" of it; "file" if that
    was done before."""
    if s.dev.written:
        return "file"
    clock, all_ = s.load.clock, s.dev.bytes // MIB * MIB
    begin, time = clock.spent(), min(FILL_S, clock.left() / 2)
    for name in SPOTS:
        first, size = stretch(s, name)
        s.fio(f"fill-{name}", rw="write", bs=MIB, iodepth=DEPTH, offset=first, size=size,
              number_ios=size // MIB, log=False)
    rate = sum(stretch(s, name)[1] for name in SPOTS) / max(clock.spent() - begin, 1e-3)
    if guard.ratio(all_, rate, "time to fill the drive") > time:
        return "stretches"
    trace = s.fio("fill", rw="write", bs=MIB, iodepth=DEPTH, size=all_,
                  number_ios=all_ // MIB, runtime=max(1, int(time)))
    if len(trace) < all_ // MIB:
        return "stretches"
    return "all" if s.dev.whole else "part"


def rewrite(s, name):
    """Latencies of blocks that are written again at a place, in microseconds."""
    first, size = region(s, name)
    blocks = s.rng(f"{ID}-{name}").choice(size // BLOCK, WRITES, replace=False)
    return s.trace(name, (True, first + blocks.astype(np.uint64) * BLOCK, BLOCK)).lat_us


def draw(figure, result, arrays):
    """Each write, place by place."""
    from . import plots
    axes, = plots.panels(figure, 1)
    begin = 0
    for i, name in enumerate(n for n in SPOTS if f"{n}_us" in arrays):
        lat = arrays[f"{name}_us"] / 1000
        plots.dots(axes, lat, x=begin + np.arange(len(lat)), color=plots.CYCLE[i],
                   label=f"{name} LBAs")
        begin += len(lat)
    plots.level(axes, TURNS * result.numbers["rotation_us"] / 1000, f"{TURNS} rotations")
    axes.set(title="blocks written again, one at a time", xlabel="write", ylabel="latency, ms")
    plots.logarithmic(axes)
    axes.set_ylim(top=5 * axes.get_ylim()[1])           # room for the legend
    axes.legend(loc="upper right", markerscale=3, ncols=1 if plots.is_narrow(figure) else 3)
