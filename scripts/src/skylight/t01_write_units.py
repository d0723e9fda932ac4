# SPDX-License-Identifier: GPL-2.0
"""Tests 1a to 1c: the units in which the cache writes.

1a  Blocks are written one at a time and immediately read in the same order.  If all reads take
    the same time, the blocks lie at constant distances.  The fraction of a rotation that a read
    takes gives the distance, up to whole tracks.  If blocks lie close together, pairs of blocks
    are written, too: if these are twice as far apart, a block takes the room of a block, however
    many blocks the tracks of the cache have.
1b  The same, written with 31 requests in flight: does the drive pack blocks together?
1c  Writes of growing size with 31 in flight: where their time rises in a step, the drive needed
    one more unit."""

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK, MIB, SKIPPED, Finding, Result
from .t01_translation import headroom, tells
from .t14_zones import track_bytes

ID, TITLE, AFTER = "1abc", "units in which the cache writes", ("1",)

BLOCKS, DEPTH = 128, 31
SIZES_KIB = (4, *range(8, 136, 8))
BURSTS = 3              # of DEPTH writes, for each size
STEP = 0.25             # of a rotation; a larger rise is a step
NEAR_BLOCKS = 8         # a block this close, measured by outer tracks, is the next one
AT = 0.0
FRESH, ANCHOR = 0.12, 0.5   # places where the test writes nothing, to measure a track


def estimate(s):
    """Seconds."""
    return 0.011 * (4 * BLOCKS + BURSTS * DEPTH * len(SIZES_KIB)) + 5


def region(s):
    """Blocks of the region in which, by Test 1, writes take a constant time."""
    one = s.results.get("1")
    flat = one.numbers.get("flat", {}) if one else {}
    good = [int(name.split()[0]) for name, f in flat.items() if f["verdict"]]
    return max(good, default=1) * MIB // BLOCK


def run(s):
    """Runs the test."""
    if s.value("drive_type") == "conventional":
        return Result(SKIPPED, "the drive is conventional: it has no cache to write to")
    rng, turn = s.rng(ID), s.value("rotation_ms")
    first, room = int(s.dev.bytes * AT) // BLOCK, region(s)
    count = min(BLOCKS, room // 2)
    one, many = ((first + rng.choice(room, count, replace=False)) * BLOCK for _ in range(2))
    with s.settings() as missing:
        track = _track(s) if turn else None
        trace = s.trace("1a", chain((True, one, BLOCK), (False, one, BLOCK)))
        pair = first + 2 * rng.choice(room // 2, count // 2, replace=False)
        double = s.trace("1a-pairs", chain((True, pair * BLOCK, 2 * BLOCK),
                                           (False, pair * BLOCK, BLOCK))).lat_us[count // 2:]
        burst = s.trace("1b-write", (True, many, BLOCK), iodepth=DEPTH)
        back = s.trace("1b-read", (False, many, BLOCK))
        sizes = _sizes(s, rng, first, room)
    write, read = trace.lat_us[:count], trace.lat_us[count:]
    result = Result(numbers={
        "not_offered": list(missing), "rotation_ms": turn, "track_bytes": track,
        "1a_write": _flat(write), "1a_read": _flat(read[1:]),
        "1a_pairs": _flat(double[1:]), "1b_read": _flat(back.lat_us[1:]),
        "1b_write_us": guard.median(burst.lat_us, "writes"),
        "1b_seconds": float((burst.at_us + burst.lat_us).max() / 1e6),
        "1c_us": {str(k): guard.median(v, f"writes of {k} KiB") for k, v in sizes.items()},
        "1c_steps_kib": steps(sizes, turn)})
    result.arrays = {"write_us": write, "read_us": read, "burst_us": burst.lat_us,
                     "back_us": back.lat_us,
                     **{f"size{k}_us": v for k, v in sizes.items()}}
    result.findings = {"write_unit_bytes": decide(result.numbers)}
    return result


def _flat(lat):
    verdict, sure, middle = stats.flat(lat, width=0.05)
    return {"verdict": verdict, "confidence": sure, "median_us": middle}


def _track(s):
    """Bytes on a track, or None."""
    places = Places(s, int(s.dev.bytes * ANCHOR))
    at = int(s.dev.bytes * FRESH) // BLOCK
    if not tells(places, ((at + 7 * np.arange(32)) * BLOCK).astype(np.uint64)) or \
            not places.rotation_us:
        return None
    return track_bytes(s, places, at * BLOCK)


def _sizes(s, rng, first, room):
    """Latencies of bursts of each size in KiB."""
    out = {}
    for size in SIZES_KIB:
        if size * 1024 % s.dev.block:
            continue
        blocks = size * 1024 // BLOCK
        slots = max(1, room // blocks)
        at = first + rng.integers(0, slots, BURSTS * DEPTH) * blocks
        out[size] = s.trace(f"1c-{size}", (True, at * BLOCK, size * 1024),
                            iodepth=DEPTH).lat_us
    return out


def steps(sizes, turn_ms):
    """Sizes in KiB before and behind each step, and its height in ms."""
    if not turn_ms:
        return []
    names = list(sizes)
    middle = np.array([guard.median(sizes[k], f"writes of {k} KiB") for k in names]) / 1000
    # Subtract the usual rise.  The last size is left out, as no size follows it.
    slope = guard.median(np.diff(middle), "steps of size")
    out = []
    for i in range(1, len(names) - 1):
        rise = middle[i:i + 2].min() - middle[max(0, i - 2):i].max()
        if rise > STEP * turn_ms + 2 * slope:
            out.append([names[i - 1], names[i], float(rise)])
    return out


def decide(numbers):
    """The smallest internal write."""
    turn, track = numbers["rotation_ms"], numbers["track_bytes"]
    read, write = numbers["1a_read"], numbers["1a_write"]
    if not turn:
        return Finding.unknown("no rotation was found", "bytes")
    if not track:
        return Finding.unknown("how much is on a track was not found", "bytes")
    if not (read["verdict"] and write["verdict"]) or read["median_us"] < 1000:
        return Finding.unknown("blocks read in the order in which they were written do not "
                               "take a constant time: they are not in one row", "bytes")
    part = guard.ratio(read["median_us"] / 1000, turn, "rotations of a read") % 1
    sure = min(read["confidence"], write["confidence"], 0.99)
    if part * track / BLOCK < NEAR_BLOCKS:
        pairs = numbers["1a_pairs"]
        passed = guard.ratio(pairs["median_us"] / 1000, turn, "rotations of a read") % 1
        ratio = guard.ratio(passed, part, "distance of pairs") if pairs["verdict"] and part else 0
        told = (f"blocks written one after the other are read in {read['median_us'] / 1000:.2f} "
                "ms each, a rotation and a little: they lie side by side")
        if not 1.6 < ratio < 2.4:
            return Finding.unknown(f"{told}, but pairs of blocks are {ratio:.1f} times as far "
                                   "apart", "bytes")
        return Finding(BLOCK, "bytes", BLOCK, BLOCK, min(sure, pairs["confidence"]),
                       f"{told}, and pairs of blocks twice as far apart")
    passes = guard.ratio(write["median_us"] / 1000, turn, "rotations of a write")
    tracks = part + max(0, round(passes - part))
    if abs(tracks - passes) > 0.3:
        return Finding.unknown(f"blocks lie {part:.2f} tracks apart, or whole tracks more, "
                               f"but a write takes {passes:.2f} rotations", "bytes")
    return Finding(int(tracks * track), "bytes", (tracks - 0.1) * track, (tracks + 0.1) * track,
                   sure, f"each block is {tracks:.2f} tracks behind the one before, and "
                   f"writing it takes {passes:.2f} rotations")


def draw(figure, result, arrays):
    """As Figure 2.6 of the thesis: reading back, and the sweep of sizes."""
    from . import plots
    left, right = plots.panels(figure, 2)
    plots.dots(left, arrays["read_us"] / 1000, color=plots.BLUE, label="written one at a time")
    plots.dots(left, arrays["back_us"] / 1000, color=plots.ORANGE, label="31 at a time")
    left.set(title="reading in the order of writing", xlabel="block",
             ylabel="latency, ms")
    headroom(left)
    sizes = [int(k) for k in result.numbers["1c_us"]]
    right.plot(sizes, [v / 1000 for v in result.numbers["1c_us"].values()], marker=".")
    for _, behind, _ in result.numbers["1c_steps_kib"]:
        right.axvline(behind, color="black", linewidth=0.8, linestyle=":")
    right.set(title="writes, 31 at a time", xlabel="size, KiB", ylabel="median latency, ms",
              ylim=(0, None))
