# SPDX-License-Identifier: GPL-2.0
"""Test 1: whether blocks are translated, and whether the cache is on disk or in flash.

The thesis (Aghayev 2020) writes a small region in random order and checks whether all writes
take the same time.  A drive with many logs (stl-set with one set per band) does not show
that.  So this test asks directly where a block is after it was written.  A conventional drive
writes it in place.  A shingled drive puts each write elsewhere, also the second write to the
same block.  Other devices do so, too; verdict.py states what else a shingled drive needs.  If
the block is then read from flash, the cache is in flash.  The thesis's writes are made as
well, in regions from 1 GiB down."""

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK, MIB, Finding, Result

ID, TITLE, AFTER = "1", "drive type and medium of the cache", ()

BLOCKS = 40             # blocks at each place
SPOTS = {"low": 0.02, "mid": 0.47, "high": 0.92}
AWAY = {"low": 0.7, "mid": 0.2, "high": 0.3}    # where the anchors of a spot are
MOST_COINCIDENCE = 0.3      # chance that a moved block seems to be in place
FAST_US = 1000          # no platter turns in less
AGAIN = (3, 9)          # least and most writes to a block in the last step
EVICT = 512 * MIB       # bytes read elsewhere to evict buffers
SMALLEST_REGION = MIB


def regions(s):
    """Sizes of the regions of the thesis's random writes, the largest first."""
    out = [s.scale.region_bytes]
    while out[-1] // 16 >= SMALLEST_REGION:
        out.append(out[-1] // 16)
    return out


def estimate(s):
    """Seconds."""
    return 0.015 * (2 * s.scale.writes * len(regions(s)) + 3 * 16 * BLOCKS) + 5


def run(s):
    """Runs the test."""
    s.fresh()
    with s.settings() as missing:
        spots = {name: _spot(s, name) for name in SPOTS}
        series = _random_writes(s)
        rewrite = s.trace("same-block", (True, np.zeros(33), BLOCK)).lat_us[1:]
        kept = _same_block_kept(s, rewrite)
    result = Result()
    result.numbers = {"not_offered": list(missing),
                      "same_block_us": guard.median(rewrite, "writes of one block"),
                      "same_block_kept_us": kept,
                      "spots": {k: v["numbers"] for k, v in spots.items()},
                      "flat": _flatness(series)}
    for name, trace in series.items():
        result.arrays[f"write_{name.replace(' ', '')}_us"] = trace.lat_us.astype(np.float32)
        result.arrays[f"write_{name.replace(' ', '')}_offset"] = trace.offset
    for name, spot in spots.items():
        for step in ("before", "once", "twice"):
            result.arrays[f"{name}_{step}_us"] = spot[step].astype(np.float32)
    result.findings = decide(spots, result.numbers["flat"], rewrite, missing, kept)
    return result


# --- where is a block after it was written? ----------------------------------------


def tells(places, offsets):
    """Whether many blocks together show where they are; single ones may not."""
    places.calibrate(offsets)
    return places.coincidence <= MOST_COINCIDENCE


def together(places, shifts):
    """How many blocks are turned by the same angle as several others: blocks of a band that has
    moved, or of a few bands."""
    near = places.apart(shifts[:, None], shifts[None, :]) <= 2 * places.tolerance_us
    left, count = np.ones(len(shifts), bool), 0
    while left.any():
        most = (near & left).sum(axis=1).argmax()
        group = near[most] & left
        if group.sum() < max(4, len(shifts) // 8):
            break
        count += int(group.sum())
        left &= ~group
    return count


def window(s, share, rng, count):
    """Random blocks of a region around that share of the drive."""
    room = min(s.scale.region_bytes, s.dev.bytes // 64) // BLOCK
    first = int(s.dev.bytes * share) // BLOCK
    return (first + rng.choice(room, min(count, room // 2), replace=False)).astype(
        np.uint64) * BLOCK


def _spot(s, name):
    rng = s.rng(f"{ID}-{name}")
    offsets = window(s, SPOTS[name], rng, BLOCKS)
    places = Places(s, int(s.dev.bytes * AWAY[name]))
    telling = tells(places, offsets)
    before = places.read(f"{name}-before", offsets)
    once, writes = _write_and_read(s, f"{name}-once", places, offsets, rng)
    told_before = telling
    if not telling:
        # Under thin provisioning the blocks had no place before the first write.
        places = Places(s, int(s.dev.bytes * AWAY[name]))
        telling = tells(places, offsets)
        once = places.read(f"{name}-again", offsets)
    # In a log per set, a block that is written once more moves by at most one block.  So blocks are
    # written several times, and not equally often.
    twice, more = _write_and_read(s, f"{name}-twice", places, offsets, rng,
                                  np.repeat(offsets, rng.integers(*AGAIN, len(offsets))))
    kept = None
    if too_many(int((twice < FAST_US).sum()), len(twice)):
        _evict(s, name)
        kept = places.read(f"{name}-kept", offsets)
    spot = {"before": before, "once": once, "twice": twice,
            "write": np.concatenate([writes, more])}
    spot["numbers"] = _numbers(spot, places, telling, kept)
    spot["numbers"]["told_before"] = bool(told_before)
    return spot


def _evict(s, name):
    """Reads elsewhere until no buffer holds what was read before."""
    room = max(1, min(EVICT, s.dev.bytes // 8) // MIB)
    s.fio(f"{name}-evict", rw="read", bs=MIB, offset=int(s.dev.bytes * 0.6) // MIB * MIB,
          number_ios=room, size=room * MIB, log=False)


def _same_block_kept(s, rewrite):
    """How long the read of a block takes that was written repeatedly, in microseconds, or None
    if a write to it waited for a platter.  A buffer has evicted the block; a cache that keeps
    frequently used blocks has not."""
    if guard.median(rewrite, "writes of one block") >= FAST_US:
        return None
    _evict(s, "same-block")
    return float(s.trace("same-block-kept", (False, np.zeros(1), BLOCK)).lat_us[0])


def too_many(k, n):
    """Whether @k of @n are more than the share that may behave differently for other reasons."""
    return stats.upper_tail(k, n, stats.SLACK) < stats.ALPHA


def _write_and_read(s, name, places, offsets, rng, written=None):
    """Latencies of the reads in the order of @offsets, and of the writes."""
    written = rng.permutation(offsets if written is None else written)
    trace = s.trace(name, chain((True, written, BLOCK), places.ops(offsets)))
    return places.times(trace[len(written):]), trace.lat_us[:len(written)]


def _numbers(spot, places, telling, kept):
    n = len(spot["before"])
    moved = ~places.same(spot["once"], spot["twice"])
    first = ~places.same(spot["before"], spot["once"])
    return {"blocks": n, "telling": bool(telling), "why": places.why,
            "rotation_us": places.rotation_us, "tolerance_us": places.tolerance_us,
            "coincidence": places.coincidence,
            "moved_by_first_write": int(first.sum()), "moved_by_second_write": int(moved.sum()),
            "fast_before": int((spot["before"] < FAST_US).sum()),
            "fast_after": int((spot["twice"] < FAST_US).sum()),
            "fast_kept": None if kept is None else int((kept < FAST_US).sum()),
            "home_again": None if kept is None else
            int(places.same(spot["before"], kept).sum()),
            "write_us": guard.median(spot["write"], "writes"),
            "fast_writes": guard.mean(spot["write"] < FAST_US, "writes")}


# --- the thesis's writes --------------------------------------------------------------


def _random_writes(s):
    rng, out = s.rng(ID), {}
    for size in regions(s):
        blocks = size // BLOCK
        count = min(s.scale.writes, blocks)
        some = rng.choice(blocks, count, replace=False)
        again = rng.choice(some, count)
        name = f"{size // MIB} MiB"
        out[name] = s.trace(f"random-{size // MIB}", (True, np.concatenate([some, again]) * BLOCK,
                                               BLOCK))
    return out


def _flatness(series):
    """Looks at the second half of the writes, which writes blocks again: in the first half a
    drive may still assign places to blocks."""
    out = {}
    for name, trace in series.items():
        lat = trace.lat_us[len(trace) // 2:]
        verdict, confidence, middle = stats.flat(lat)
        out[name] = {"verdict": verdict, "confidence": confidence, "median_us": middle,
                     "within_10_percent": guard.mean(abs(lat - middle) <= 0.1 * middle, "writes")}
    return out


# --- decision ------------------------------------------------------------------------


def _kind(spot):
    """(moves, stays or None, confidence, sentence) of one spot."""
    half = spot["blocks"] / 2
    if _off_the_platter(spot) and (spot["fast_before"] >= half or not spot["telling"]):
        return None, 0.0, (f"{spot['fast_kept']} of {spot['blocks']} blocks are read without a "
                           "rotation, also after much else was read, and "
                           f"{spot['fast_before']} were before they were written")
    if not spot["telling"]:
        return None, 0.0, "reading tells no places apart here"
    # A block that was in a buffer before the write may be there after it as well.
    if spot["fast_after"] > half > spot["fast_before"] or _off_the_platter(spot):
        return _flash_kind(spot)
    n, first, second = (spot[k] for k in ("blocks", "moved_by_first_write",
                                          "moved_by_second_write"))
    moves, sure = stats.most(second, n, 1 - stats.SLACK - spot["coincidence"])
    told = f"{second} of {n} when written again"
    if spot["told_before"]:
        # The blocks had a place before the writes, too.
        before, more = stats.most(first, n, 1 - stats.SLACK - spot["coincidence"])
        told = f"{first} of {n} blocks went elsewhere when written, {told}"
        moves, sure = (moves, min(sure, more)) if moves == before else (None, 0.0)
    else:
        told = f"once they had a place, blocks that went elsewhere were {told}"
    return {True: "moves", False: "stays", None: None}[moves], sure, told


def _flash_kind(spot):
    """Decides, for fast reads after writing, between flash and a buffer."""
    n = spot["blocks"]
    kept, sure = stats.most(spot["fast_kept"], n)
    if kept and spot["fast_writes"] > 0.8:
        return "flash", sure, (f"{spot['fast_kept']} of {n} blocks that were written are read "
                               f"without a rotation, also after much else was read")
    if spot["home_again"] and stats.most(spot["home_again"], n)[0]:
        return "stays", stats.most(spot["home_again"], n)[1], (
            f"{spot['home_again']} of {n} blocks are read from where they were, once a "
            "buffer does not hold them any more")
    return None, 0.0, (f"{spot['fast_kept']} of {n} blocks that were written are read without a "
                       "rotation, also after much else was read, others not")


def _off_the_platter(spot):
    """Whether too many blocks are read without a platter, although they were not read just
    before."""
    return spot["fast_kept"] is not None and too_many(spot["fast_kept"], spot["blocks"])


def _by_place(sentences):
    """The sentence, or one for each place if the places differ."""
    places = {}
    for name, text in sentences:
        places.setdefault(text, []).append(name)
    if len(places) == 1:
        return next(iter(places))
    return "; ".join(f"{' and '.join(names)} LBAs: {text}" for text, names in places.items())


def decide(spots, flatness, rewrite, missing=(), kept=None):
    """Findings of all measurements; @missing: settings that could not be changed; @kept: what
    _same_block_kept() returned."""
    numbers = [spot["numbers"] for spot in spots.values()]
    kinds = [_kind(spot) for spot in numbers]
    found = {kind for kind, _, _ in kinds if kind}
    says = _by_place(zip(spots, (text for _, _, text in kinds)))
    sure = min((c for k, c, _ in kinds if k), default=0.0)
    flat = [f for f in flatness.values() if f["verdict"]]
    out = {}
    off = [_off_the_platter(spot) for spot in numbers]
    partly = found != {"flash"} and any(off)
    if found == {"stays"} and not partly and kept is not None and kept < FAST_US:
        partly = True
        says += (f"; a block that was written {len(rewrite)} times is read without a rotation, "
                 "also after much else was read")
    if len(found) != 1 or len([k for k, _, _ in kinds if k]) < 2 or partly:
        if not found:
            says = next((spot["why"] for spot in numbers if not spot["telling"]), says)
        alike = len(found) < 2 and (not partly or all(off))
        why = says if alike else f"it is not the same everywhere: {says}"
        # Some blocks have moved, wherever others stay.
        out["drive_type"] = Finding.unknown(why, against="conventional" if partly else None)
        out["cache_medium"] = Finding.unknown(why)
    elif found == {"stays"}:
        if any(f["median_us"] >= FAST_US for f in flat):
            why = f"{says}, but random writes all take the same"
            out["drive_type"] = Finding.unknown(why)
            out["cache_medium"] = Finding.unknown(why)
        else:
            out["drive_type"] = Finding("conventional", confidence=sure, says=says)
            out["cache_medium"] = Finding("none", confidence=sure,
                                          says="each write goes to its own place")
    elif found == {"flash"} and "write_cache" in missing:
        # The buffer may be larger than what was read to evict it.
        why = (f"{says}: that may be a persistent cache in flash, or the drive's write cache, "
               "which can't be switched off")
        out["drive_type"] = Finding.unknown(why)
        out["cache_medium"] = Finding.unknown(why)
    else:
        out["drive_type"] = Finding("translated", confidence=sure, says=says)
        out["cache_medium"] = _medium(found, numbers, sure, says)
    if "drive_type" in out and out["drive_type"].value == "translated" and flat:
        first = flat[0]
        out["drive_type"].says += (
            f"; random writes in a small region take {first['median_us'] / 1000:.2f} ms, "
            f"{100 * first['within_10_percent']:.0f} % of them within a tenth of that")
    out["rotation_ms"] = _rotation(numbers, rewrite)
    return out


def _medium(found, numbers, sure, says):
    if found == {"flash"}:
        return Finding("flash", confidence=sure, says=says)
    slow = all(n["fast_after"] < 0.2 * n["blocks"] for n in numbers)
    writes = all(n["fast_writes"] < 0.2 for n in numbers)
    if slow and writes:
        return Finding("disk", confidence=sure, says="writes and reads of what was written "
                       "both wait for the platter")
    return Finding.unknown("some writes wait for the platter, and some do not")


def _rotation(numbers, rewrite):
    turns = [n["rotation_us"] for n in numbers if n["rotation_us"]]
    if len(turns) < 2 or max(turns) > 1.02 * min(turns):
        return Finding.unknown("reading one block again and again does not take the same "
                               "time each time", "ms")
    middle = guard.median(turns, "rotations") / 1000
    return Finding(middle, "ms", min(turns) / 1000 * 0.998, max(turns) / 1000 * 1.002, 0.99,
                   f"reading one block again and again takes {middle:.3f} ms; writing one, "
                   f"{guard.median(rewrite, 'writes of one block') / 1000:.3f} ms")


# --- picture --------------------------------------------------------------------------


def draw(figure, result, arrays):
    """As Figure 2.4 of the thesis, and beside it where blocks went."""
    from . import plots
    left, right = plots.panels(figure, 2, ratios=(3, 2))
    names = list(result.numbers["flat"])
    for name in names[:1] + names[-1:]:
        lat = arrays[f"write_{name.replace(' ', '')}_us"] / 1000
        plots.dots(left, lat, color=plots.CYCLE[names.index(name) % len(plots.CYCLE)],
                   label=f"within {name}")
    turn = result.findings["rotation_ms"].value
    if turn:
        plots.level(left, turn, "one rotation")
    left.set(title="random writes, one at a time", xlabel="write", ylabel="latency, ms")
    headroom(left)
    for i, name in enumerate(SPOTS):
        plots.dots(right, arrays[f"{name}_twice_us"] / 1000,
                   x=arrays[f"{name}_once_us"] / 1000, color=plots.CYCLE[i], label=name)
    right.set(title="reading a block, twice written", xlabel="after the first write, ms",
              ylabel="after the second, ms")
    right.legend(loc="upper left", markerscale=3)


def headroom(axes):
    """From zero on, with the legend above the data."""
    axes.set_ylim(0, 1.25 * axes.get_ylim()[1])
    axes.legend(loc="upper right", markerscale=3, ncols=2)
