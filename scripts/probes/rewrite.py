# SPDX-License-Identifier: GPL-2.0
"""Is what goes home together a band?  Two signs of another thing.

Beside: what overlaps is rewritten when it is cleaned, and lies still until then.  A cache
of whole chunks brings them over with a write: blocks that nobody wrote are elsewhere
afterwards, as long as others of their chunk are there.  So in bands that no test has
touched some blocks are written, one and then more, and others are read.  A drive that moves
bands may have cleaned one at that very moment; so two bands of three must show it.

Too quick: whatever was dirty of a band, all of it passes under the head, from the first
dirty block on at least.  How fast, a track says, the outermost if it can be measured, as none
is faster.  A cache
of single blocks that goes home in pieces of addresses has less to do: cleaning with one
dirty block takes less time than the head would need.  What takes as long may be a
rewrite, and may not: only the first is a finding."""

import numpy as np

from . import guard, stats, t14
from .load import chain
from .mates import NotMoved
from .session import BLOCK, Finding

BANDS, FAR = 3, 400         # looked at, and so many bands away at most
WATCHED, FEWEST = 24, 4     # blocks that nobody writes
QUICK = 0.8                 # of the time that a rewrite takes
COSTS = 3
MANY = 64                   # bands dirtied for pauses
LEAST, MOST = 0.15, 0.75    # of them cleaned in a pause that tells something
TRIES = 5


def untouched(prober, low, size):
    """First blocks of up to BANDS bands none of whose blocks was written, beside the one
    that begins at @low."""
    touched, found = np.sort(np.fromiter(prober.mates.touched, np.int64)) // BLOCK, []
    for k in range(2, FAR):
        for first in (low + k * size, low - k * size):
            inside = first >= 0 and first + size < 0.9 * prober.blocks
            if inside and np.diff(np.searchsorted(touched, [first - 1, first + size + 1])) == 0:
                found.append(first)
    return found[:BANDS]


def went_along(prober, first, size):
    """Whether blocks of that band which nobody wrote are elsewhere after others of it were
    written; None if that is not clear."""
    s, places = prober.s, prober.places
    row = first + np.unique(np.linspace(0, size - 1, 2 * min(WATCHED, size // 4) + 1).astype(int))
    # Not beside each other: what a drive reads ahead is nobody's place.
    still, written = (row[i::2].astype(np.uint64) * BLOCK for i in (1, 0))
    before = places.read("still", still)
    known = places.same(before, places.read("still", still))
    prober.mates.touched.update(written.tolist())
    for some in (written[len(written) // 2:][:1], written):
        trace = s.trace("still", chain((True, some, BLOCK), places.ops(still)))
        moved = known & ~places.same(before, places.times(trace[len(some):]))
        # Some did not go along by chance, maybe.
        answer, _ = stats.most(int(moved.sum()), int(known.sum()),
                               1 - stats.SLACK - places.coincidence) \
            if known.sum() >= FEWEST else (None, 0)
        if answer is not False:
            return answer
    return False


def beside(prober, low, size):
    """A sentence if blocks go along with the write of others, else an empty text."""
    seen = [went_along(prober, first, size) for first in untouched(prober, low, size)]
    prober.numbers["went_along"] = seen
    return ("blocks that nobody had written went along when others were: a cache of whole "
            f"chunks, of {size} blocks, does so") if seen.count(True) >= 2 else ""


def forced_us(prober, at):
    """By how much writes to block @at took longer than usual, all in all, until its band was
    clean: the largest of some."""
    spent = []
    for _ in range(COSTS):
        lat = getattr(prober.mates, prober.how)(
            at * BLOCK, np.zeros(0, np.uint64), name="quick").rewrites_us
        usual = guard.median(lat, "writes until a cleaning")
        spent.append(float(np.maximum(0, lat - usual).sum()))
    return max(spent)


def bands_by_pause(prober, size):
    """[(pause in seconds, bands cleaned in it)], as far as these tell something."""
    s, places, rng = prober.s, prober.places, prober.rng
    count = int(min(MANY, prober.blocks * 0.8 // size // 2))
    if count < 8:
        return []
    pause, seen = 1.0, []
    asked = rng.choice(int(prober.blocks * 0.8) // size // 2, count, replace=False)
    asked = ((2 * asked * size + size // 2) * BLOCK).astype(np.uint64)
    for _ in range(24):
        trace = s.trace("dirty", chain((True, rng.permutation(asked), BLOCK),
                                       places.ops(asked)))
        cached = places.times(trace[count:])
        s.pause(pause, "the drive cleans some of the bands")
        share = guard.mean(~places.same(cached, places.read("look", asked)), "bands cleaned")
        prober.mates.drain("look", asked, cached)
        if share < LEAST:
            pause *= 1.4 if share else 1.7
        elif share > MOST:
            pause *= 0.8
        else:
            seen.append((pause, share * count))
            if len(seen) == TRIES + 1:
                break
            pause *= 1.15 if share < 0.5 else 0.8
        if pause > 300:
            break
    return seen


def rate(seen):
    """The slope of bands cleaned by length of pause, with its error."""
    pauses, bands = np.asarray(seen).T if len(seen) else (np.zeros(0), np.zeros(0))
    if len(pauses) < 4 or guard.span(bands, "bands cleaned") < 4:
        return Finding.unknown("no two pauses cleaned clearly different numbers of bands", "ms")
    # Seconds as a straight line of bands: counts are whole, pauses are exact.
    (slope, _), cov = np.polyfit(bands, pauses, 1, cov="unscaled")
    rest = pauses - np.polyval(np.polyfit(bands, pauses, 1), bands)
    # A count is right to a band, whatever the scatter.
    sigma = max(guard.ratio((rest ** 2).sum(), len(pauses) - 2, "scatter of pauses") ** 0.5,
                abs(slope) * 0.6)
    error = 2.5 * sigma * float(np.sqrt(cov[0, 0]))
    if slope <= 0 or error > 0.5 * slope:
        return Finding.unknown("the number of bands cleaned does not follow the pause", "ms")
    return Finding(1000 * float(slope), "ms", 1000 * (slope - error), 1000 * (slope + error), 0.95,
                   f"one more band for each so much more of a pause, over {len(pauses)} pauses")


def block_us(prober, band, track):
    """How long a block takes to pass under the head, microseconds, or None; @track: bytes on
    the outermost track, or None for one near the band."""
    turn, low, size = prober.places.rotation_us, band[0], band[1] - band[0]
    if not turn:
        return None
    for first in () if track else untouched(prober, low, size):
        track = track or t14.track_bytes(prober.s, prober.places, first * BLOCK)
    return guard.ratio(turn * BLOCK, track, "time of a block") if track else None


def quick(prober, at, band, track):
    """A sentence if cleaning the band (low, high) of block @at takes less time than it takes
    to write it; else an empty text."""
    low, high = band
    each = block_us(prober, band, track)
    if not each:
        return ""
    try:
        if prober.how != "pause":
            spent, blocks = forced_us(prober, at), high - at
        else:
            # In the middle of each band, or anywhere, if bands begin elsewhere.
            slope = rate(bands_by_pause(prober, high - low))
            if slope.value is None:
                return ""
            spent, blocks = 1000 * slope.high, (high - low) // 2
    except NotMoved:
        return ""
    prober.numbers |= {"clean_us": spent, "least_us": blocks * each}
    if spent >= QUICK * blocks * each:
        return ""
    return (f"what goes home together does so in {spent / 1000:.1f} ms, too quick for a band: "
            f"{blocks} blocks take {blocks * each / 1000:.1f} ms to pass under the head")


def doubt(prober, at, band, track):
    """Why what goes home together from within (low, high) with block @at need not be a band,
    or an empty text."""
    low, high = band
    return beside(prober, low, high - low) or quick(prober, at, band, track)
