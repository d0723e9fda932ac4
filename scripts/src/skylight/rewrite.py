# SPDX-License-Identifier: GPL-2.0
"""Looks for two signs that blocks which go home together are no band.

Neighbours move along: in a shingled band, blocks are rewritten when the drive cleans, and
stay in place until then.  A cache of whole chunks copies a chunk when one of its blocks is
written: other blocks, which were not written, are elsewhere afterwards, as long as the chunk
is cached.  So the test writes some blocks in bands that no test has touched, one block first
and more then, and reads others.  A drive that moves bands may have cleaned one at that
moment; therefore two bands of three must show it.

Too quick: to clean a band, everything from its first dirty block on must pass under the
head.  The time for that follows from a track, the outermost one if it can be measured, as no
other is faster.  A cache of single blocks that goes home in ranges of addresses needs less:
it cleans one dirty block in less time than the head would need for the band.  A cleaning that
takes as long proves nothing."""

import numpy as np

from . import guard, stats, t14_zones
from .load import chain
from .band_members import NotMoved
from .session import BLOCK, Finding

BANDS, FAR = 3, 400         # bands that are tested; distance in bands that is searched
WATCHED, FEWEST = 24, 4     # blocks that are not written
QUICK = 0.8                 # of the time that a rewrite takes
COSTS = 3
MANY = 64                   # bands made dirty for the pauses
LEAST, MOST = 0.15, 0.75    # share of them that a useful pause cleans
TRIES = 5


def untouched(prober, low, size):
    """First blocks of up to BANDS bands, near the one that begins at @low, in which no block was
    written."""
    touched, found = np.sort(np.fromiter(prober.members.touched, np.int64)) // BLOCK, []
    for k in range(2, FAR):
        for first in (low + k * size, low - k * size):
            inside = first >= 0 and first + size < 0.9 * prober.blocks
            if inside and np.diff(np.searchsorted(touched, [first - 1, first + size + 1])) == 0:
                found.append(first)
    return found[:BANDS]


def went_along(prober, first, size):
    """Whether blocks of the band that begins at @first are elsewhere after others of it were
    written; None if that is not clear."""
    s, places = prober.s, prober.places
    row = first + np.unique(np.linspace(0, size - 1, 2 * min(WATCHED, size // 4) + 1).astype(int))
    # Leave blocks between them: a read-ahead buffer shows no place.
    still, written = (row[i::2].astype(np.uint64) * BLOCK for i in (1, 0))
    before = places.read("still", still)
    known = places.same(before, places.read("still", still))
    prober.members.touched.update(written.tolist())
    for some in (written[len(written) // 2:][:1], written):
        trace = s.trace("still", chain((True, some, BLOCK), places.ops(still)))
        moved = known & ~places.same(before, places.times(trace[len(some):]))
        # By chance some blocks that moved seem to be in place.
        answer, _ = stats.most(int(moved.sum()), int(known.sum()),
                               1 - stats.SLACK - places.coincidence) \
            if known.sum() >= FEWEST else (None, 0)
        if answer is not False:
            return answer
    return False


def beside(prober, low, size):
    """A sentence if blocks move along when others are written, else an empty text."""
    seen = [went_along(prober, first, size) for first in untouched(prober, low, size)]
    prober.numbers["went_along"] = seen
    return ("blocks that nobody had written went along when others were: a cache of whole "
            f"chunks, of {size} blocks, does so") if seen.count(True) >= 2 else ""


def forced_us(prober, at):
    """The time, beyond the usual, that writes to block @at took in all until its band was clean:
    the largest of COSTS."""
    spent = []
    for _ in range(COSTS):
        lat = getattr(prober.members, prober.how)(
            at * BLOCK, np.zeros(0, np.uint64), name="quick").rewrites_us
        usual = guard.median(lat, "writes until a cleaning")
        spent.append(float(np.maximum(0, lat - usual).sum()))
    return max(spent)


def bands_by_pause(prober, size):
    """[(pause in seconds, bands that it cleaned)] of the pauses that cleaned part of the bands."""
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
        prober.members.drain("look", asked, cached)
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
    """Time per band, from the slope of pauses over bands cleaned, with its error."""
    pauses, bands = np.asarray(seen).T if len(seen) else (np.zeros(0), np.zeros(0))
    if len(pauses) < 4 or guard.span(bands, "bands cleaned") < 4:
        return Finding.unknown("no two pauses cleaned clearly different numbers of bands", "ms")
    # Fit seconds as a line over bands: bands are counts, pauses are exact.
    (slope, _), cov = np.polyfit(bands, pauses, 1, cov="unscaled")
    rest = pauses - np.polyval(np.polyfit(bands, pauses, 1), bands)
    # A count is exact to one band, whatever the scatter.
    sigma = max(guard.ratio((rest ** 2).sum(), len(pauses) - 2, "scatter of pauses") ** 0.5,
                abs(slope) * 0.6)
    error = 2.5 * sigma * float(np.sqrt(cov[0, 0]))
    if slope <= 0 or error > 0.5 * slope:
        return Finding.unknown("the number of bands cleaned does not follow the pause", "ms")
    return Finding(1000 * float(slope), "ms", 1000 * (slope - error), 1000 * (slope + error), 0.95,
                   f"one more band for each so much more of a pause, over {len(pauses)} pauses")


def block_us(prober, band, track):
    """Time in which a block passes under the head, in microseconds, or None; @track: bytes on
    the outermost track, or None to measure one near the band."""
    turn, low, size = prober.places.rotation_us, band[0], band[1] - band[0]
    if not turn:
        return None
    for first in () if track else untouched(prober, low, size):
        track = track or t14_zones.track_bytes(prober.s, prober.places, first * BLOCK)
    return guard.ratio(turn * BLOCK, track, "time of a block") if track else None


def quick(prober, at, band, track):
    """A sentence if the drive cleans the band (low, high) of block @at in less time than writing
    it takes; else an empty text."""
    low, high = band
    each = block_us(prober, band, track)
    if not each:
        return ""
    try:
        if prober.how != "pause":
            spent, blocks = forced_us(prober, at), high - at
        else:
            # The block is in the middle of each band, or anywhere if bands begin elsewhere.
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
    """Why blocks from within (low, high) that go home together with @at may be no band, or an
    empty text."""
    low, high = band
    return beside(prober, low, high - low) or quick(prober, at, band, track)
