# SPDX-License-Identifier: GPL-2.0
"""Test 11: the size of a band.

The thesis (Aghayev 2020) writes a block at the head of each piece of a range, lets the drive
clean some of it and looks for stretches that are read in constant time.  Here the test asks
about single blocks, so that the answer is exact to a block: which blocks are cleaned together
with a block L? band_members.py makes the drive clean L's band, places.py determines what has moved.
Blocks at distances of 1, 2, 4 ... around L give each end within a factor of two; rounds
between them narrow it down.  The last round asks about every block; it is repeated until the
blocks at both ends have three answers more for their side than for the other.

Several neighbouring bands that are cleaned at once (they share a cache band, or are sets of
neighbours) would look like one large band.  So if the drive was forced to clean, the test
compares the time of cleaning with L alone written, and with the first and the last block of
the range written as well.  More bands take more time.

A drive that is left alone cleans one band after another; decoys make sure that the next ones
are far away.

rewrite.py checks the result against other causes that look like bands.

First of all, some blocks are written twice.  If they are still in place after each write,
there is no cache that takes random writes, and no band can be seen."""

import numpy as np

from . import guard, rewrite, t14_zones
from .load import chain
from .band_members import Crowded, Edges, BandMembers, NotMoved
from .places import FLASH_US, Places
from .session import BLOCK, DONE, MIB, SKIPPED, Finding, Result

ID, TITLE, AFTER = "11", "band size", ("1", "3", "6")
PAIRS = 32
AGREE, PLACES = 2, 5        # bands of one size that must agree; places that are tried
REACH = 256 * MIB // BLOCK
MOST_WRITES = 400_000       # writes to one block, to fill its set
# of the blocks that moved along; a smaller band means that these were two bands at least
APART = 0.6
TWICE = 1.5                 # between the time of one band and that of two
COSTS, MOST_COSTS = 3, 18   # cleanings that are compared, at first and at most
SURE = 3.5                  # standard errors
LEAST_BLOCKS = 12           # a track has more; fewer blocks that go home together are no band


def estimate(s):
    """Seconds of the drive's clock."""
    return 900 if s.dev.bytes < 1 << 36 else 2400


def moved_by_writing(s, places, rng):
    """Shares of blocks that the first and the second write have moved, and whether the blocks
    are in flash now."""
    at = rng.choice(s.dev.bytes // BLOCK // 2, PAIRS, replace=False).astype(
        np.uint64) * BLOCK
    reads = places.ops(at)
    before = places.read("stay", at)
    trace = s.trace("stay", chain((True, at, BLOCK), reads, (True, at, BLOCK), reads))
    once = places.times(trace[PAIRS:3 * PAIRS])
    twice = places.times(trace[4 * PAIRS:])
    moved = [guard.mean(~places.same(a, b), "blocks that moved")
             for a, b in ((before, once), (once, twice))]
    return *moved, bool(moved[0] > 0.6 and places.learn_flash(twice))


class Prober:
    """Finds one band after another on a drive."""

    def __init__(self, s, places, rng):
        self.s, self.places, self.rng = s, places, rng
        self.blocks = s.dev.bytes // BLOCK
        self.reach = int(min(REACH, self.blocks // 8))
        six = s.results.get("6")
        full = six.numbers.get("writes_until_cleaning") if six else None
        most = min(MOST_WRITES, int(1.1 * full) + 64 if full else s.scale.max_ops)
        self.members = BandMembers(s, places, rng, most_writes=most)
        self.how = None
        self.why, self.alone, self.widest = [], {}, None
        self.unclear = ""               # why the last comparison of costs has no answer
        self.numbers = {}               # of rewrite.py

    def ways(self):
        """The ways of band_members.py that are tried, in this order."""
        kind = self.s.value("cleaning_type")
        return ("force", "age") if kind == "lazy" else ("pause", "force", "age")

    def clean(self, at, others, width=0, again=2):
        """For Edges: takes block numbers, returns for each whether it moved."""
        try:
            moved = getattr(self.members, self.how)(
                at * BLOCK, np.asarray(others, np.uint64) * BLOCK, width).moved
            unknown = [i for i, m in enumerate(moved) if m is None]
            if again and unknown:
                answers = self.clean(at, [others[i] for i in unknown], width, again - 1)
                for i, answer in zip(unknown, answers):
                    moved[i] = answer
            return moved
        except Crowded as crowded:
            if len(others) < 2:
                raise NotMoved("even a few blocks at once make the drive clean") from crowded
        out = [None] * len(others)
        for part in (slice(0, None, 2), slice(1, None, 2)):
            out[part] = self.clean(at, others[part], width)
        return out

    def choose(self, at):
        """Tries the ways on L alone; True if one of them works."""
        for way in self.ways():
            self.how = way
            try:
                self.clean(at, [at + 3], self.reach // 8)
                return True
            except NotMoved as no:
                self.why.append(str(no))
        return False

    def band(self, at):
        """Edges around block @at."""
        edges = Edges(at, self.reach, self.blocks, self.clean)
        edges.search()
        return edges

    def cost(self, at, others):
        """Time in microseconds that cleaning takes with @others dirty, and for each of them
        whether it stayed in place."""
        done = getattr(self.members, self.how)(
            at * BLOCK, np.asarray(others, np.uint64) * BLOCK, name="cost")
        return (guard.peak(done.rewrites_us, "writes until a cleaning"),
                [m is False for m in done.moved])

    def one_band(self, at, others):
        """Whether @others are cleaned together with the block, and in the same time as the block
        alone: True, False, or None if that is unclear; unclear says why."""
        self.unclear = ""
        try:
            return self._one_band(at, others)
        except guard.NoNumber as none:
            self.unclear = str(none)
            return None

    def _one_band(self, at, others):
        alone, both, stayed = self.alone.setdefault(at, []), [], []
        while len(both) < MOST_COSTS:
            for _ in range(COSTS):
                spent, left = self.cost(at, others)
                both.append(spent)
                stayed.append(left)
                if len(alone) < len(both):
                    alone.append(self.cost(at, [])[0])
            if others and guard.mean(stayed, "blocks that stayed", axis=0).max() > 0.5:
                return False
            ratio = guard.ratio(guard.mean(both, "cost of cleaning"),
                                guard.mean(alone, "cost of cleaning"), "cost of cleaning")
            # Error of the quotient of two means, but no less than the 2 % that equal bands may
            # differ by.
            error = ratio * max(0.02, np.hypot(scatter(both), scatter(alone)))
            if abs(ratio - TWICE) > SURE * error:
                return bool(ratio < TWICE)
        return None

    def by_cost(self, at, low, high):
        """Ends of L's band within [low, high), by the time of cleaning alone."""
        ends = []
        for direction, limit in ((-1, low), (1, high - 1)):
            inside, outside, step = 0, abs(limit - at) + 1, 1
            while inside + 1 < outside:
                # Double the distance first: a band may be a small part of the range.
                probe = inside + step if step and inside + step < outside else \
                    (inside + outside) // 2
                same = self.one_band(at, [at + direction * probe])
                if same is None:
                    return None
                inside, outside, step = (probe, outside, step * 2) if same else (inside, probe, 0)
            ends.append(at + direction * inside)
        return ends[0], ends[1] + 1


def scatter(costs):
    """Standard error of the mean of @costs, as a share of that mean."""
    return guard.ratio(guard.deviation(costs, "cost of cleaning"),
                       guard.mean(costs, "cost of cleaning") * len(costs) ** 0.5,
                       "scatter of the cost of cleaning")


def emptied(s, places, spread):
    """Why a reset has left nothing on this device to find bands in, or an empty text; @spread:
    blocks all over the device."""
    if not getattr(s.dev, "discarded", False):
        return ""
    why = s.dev.unmapped()
    if not why and s.dev.holds_zeros(spread) and \
            guard.quantile(places.read("discarded", spread), 0.9, "reads") < FLASH_US:
        why = "discarded blocks are read as zeros, without a seek"
    return why and (f"Test 11 was not run: --reset discards, and {why}; reads from nowhere show no "
                    "bands.  Write the whole device and run Test 11 without --reset")


def run(s):
    """Finds bands at two places or more."""
    rng = s.rng(ID)
    out = Result(DONE)
    with s.settings():
        s.fresh()
        blocks = s.dev.bytes // BLOCK
        # No test writes near the anchors.
        places = Places(s, int(blocks * 0.93) * BLOCK)
        spread = (rng.choice(blocks // 2, PAIRS, replace=False) * BLOCK).astype(np.uint64)
        if why := emptied(s, places, spread):
            return Result(SKIPPED, why, {"band_bytes": Finding.unknown(why, "bytes")})
        telling = places.calibrate(spread)
        out.numbers |= {"rotation_us": places.rotation_us,
                        "tolerance_us": places.tolerance_us,
                        "coincidence": places.coincidence}
        if not telling:
            out.findings["band_bytes"] = Finding.unknown(places.why, "bytes")
            return out
        t14_zones.track(s, places, out)
        first, second, flash = moved_by_writing(s, places, rng)
        out.numbers |= {"moved_by_write": first, "moved_by_second_write": second,
                        "flash": flash}
        if first < 0.15 and second < 0.15:
            out.findings["drive_type"] = Finding(
                "conventional", confidence=0.999,
                says=f"{PAIRS} blocks were written twice and stayed where they were")
            out.findings["band_bytes"] = Finding.unknown(
                "written blocks stay where they are: nothing is cleaned", "bytes", none=True)
            return out
        if not s.fresh():
            s.pause(min(60, s.scale.long_pause_s), "the drive may clean what was written")
        if first > 0.6 and second > 0.6:
            out.findings["drive_type"] = Finding(
                "translated", confidence=0.99,
                says=f"blocks go elsewhere each time they are written ({second:.0%} of {PAIRS})")
        return measure(s, places, rng, out)


def measure(s, places, rng, out):
    """Measures bands at one place after another, until AGREE of them agree."""
    prober = Prober(s, places, rng)
    blocks, found, arrays, ats = prober.blocks, [], {}, {}
    for i in range(PLACES):
        at = int(blocks * (0.15 + 0.45 * i % 0.6) + rng.integers(blocks // 64))
        if i == 0 and not prober.choose(at):
            out.findings["band_bytes"] = Finding.unknown("; ".join(prober.why), "bytes")
            return out
        sizes = [b[1] - b[0] for b, _ in found if b]
        try:
            edges = prober.band(at)
            band, why = decide(prober, edges, sizes)
        except NotMoved as no:
            band, why, edges = by_age(prober, at, sizes), str(no), None
        found.append((band, why))
        if band:
            ats[band] = at
        if edges is not None:
            asked = [b for r in edges.rounds for b in r[0]]
            moved = [-1 if m is None else int(m) for r in edges.rounds for m in r[1]]
            arrays |= {f"asked{i}": np.asarray(asked, np.int64),
                       f"moved{i}": np.asarray(moved, np.int8)}
            out.numbers[f"at{i}"] = at
            out.numbers[f"rounds{i}"] = [len(r[0]) for r in edges.rounds]
        if band:
            out.numbers[f"band{i}"] = list(band)
        s.progress(i + 1, PLACES)
        sizes = [b[1] - b[0] for b, _ in found if b]
        if band and sizes.count(band[1] - band[0]) == AGREE:
            break
    out.arrays = arrays
    out.numbers |= {"way": prober.how, "writes": prober.members.writes}
    finding = answer(found, places.coincidence)
    if finding.value is not None:
        size = finding.value // BLOCK
        band = next(b for b in reversed(ats) if b[1] - b[0] == size)
        why = rewrite.doubt(prober, ats[band], band, s.value("track_bytes") or
                            out.findings.get("track_bytes", finding.unknown("")).value)
        finding = Finding.unknown(why, "bytes") if why else finding
        out.numbers |= prober.numbers
    out.findings["band_bytes"] = finding
    return out


def decide(prober, edges, sizes):
    """((low, high), "") in blocks, or (None, why).  A range as large as a band in @sizes, found
    earlier, needs no further proof that it is one band."""
    found, one, why = ends_of(prober, edges, sizes)
    if not one:
        # These may be several bands: a drive with logs cleans everything in its oldest log.
        prober.widest = found and found[1] - found[0]
        other = by_age(prober, edges.at, sizes)
        if other:
            return other, ""
    if one:
        return found, ""
    if found is None or one is None:
        return None, why
    ends = prober.by_cost(edges.at, *found)
    return (ends, "") if ends else (None, prober.unclear or
                                    "cleaning takes too different times to compare")


def ends_of(prober, edges, sizes):
    """((low, high) or None; whether that is one band, or None; why that is not known)."""
    if edges.low is None:
        if edges.doubtful or prober.how == "pause":
            return None, None, edges.doubtful or (
                f"everything within {prober.reach * BLOCK / MIB:.0f} MiB is cleaned at once")
        return (edges.limits[0] + 1, edges.limits[1]), False, ""
    low, high = edges.low, edges.high
    # If more was cleaned along when it was written at the same time as the block, this range is one
    # band: sets of neighbours do not depend on the time of writing.
    apart = prober.how == "age" and prober.widest and high - low < APART * prober.widest
    one = prober.how == "pause" or apart or high - low in sizes or prober.one_band(
        edges.at, [b for b in (low, high - 1) if abs(b - edges.at) > 2])
    return (low, high), one, "" if one is not None else (
        "whether one band is cleaned or several does not show in the time that it takes" +
        (f" ({prober.unclear})" if prober.unclear else ""))


def by_age(prober, at, sizes):
    """(low, high) of a band on a drive with logs, or None.  If there is one, the prober keeps
    using that way."""
    if prober.how != "force":
        return None
    prober.how = "age"
    try:
        found, one, _ = ends_of(prober, prober.band(at), sizes)
    except NotMoved:
        found, one = None, None
    if one:
        return found
    prober.how = "force"
    return None


def answer(found, coincidence):
    """The Finding, from ((low, high), why) of each place."""
    bands = [b for b, _ in found if b]
    sizes = [b[1] - b[0] for b in bands]
    reasons = list(dict.fromkeys(why for b, why in found if not b and why))
    if not sizes:
        return Finding.unknown("; ".join(reasons) or "no band was seen", "bytes")
    size = max(sizes, key=sizes.count)
    if size < LEAST_BLOCKS:
        # A write cache that is emptied also moves blocks together, with ends as sharp.
        return Finding.unknown(f"{size} block{'s' * (size != 1)} at a time went home, and none "
                               "beside: less than a track, and no band", "bytes")
    where = " and ".join(f"from {b[0] * BLOCK / MIB:.3f} MiB on" for b in bands
                         if b[1] - b[0] == size)
    if sizes.count(size) < AGREE:
        return Finding.unknown("no two places gave the same size: " + ", ".join(
            f"{n} blocks" for n in sizes) + "".join(f"; {r}" for r in reasons), "bytes")
    # An end is wrong by one if the block there seemed to be in place three times by chance, and the
    # same happened at the other place.
    risk = min(0.5, 4 * coincidence ** 3) + (0.001 if len(found) == AGREE else 0.02)
    value = size * BLOCK
    return Finding(value, "bytes", value, value, 1 - risk,
                   f"{sizes.count(size)} bands of {value / MIB:g} MiB ({size} blocks), {where}; "
                   "to the block" + (f" ({len(found) - sizes.count(size)} other tries failed)"
                                     if len(found) > AGREE else ""))


def draw(figure, result, arrays):
    """The blocks that moved with L, by distance; a panel for each place (cf. Figure 2.17)."""
    from . import plots
    which = [i for i in range(PLACES) if f"band{i}" in result.numbers][:2] or \
        [i for i in range(PLACES) if f"asked{i}" in arrays][:2]
    if not which:
        return
    for axes, i in zip(plots.panels(figure, len(which)), which):
        asked, moved = arrays[f"asked{i}"], arrays[f"moved{i}"]
        away = (asked - result.numbers[f"at{i}"]) * BLOCK / MIB
        band = result.numbers.get(f"band{i}")
        near = np.abs(away) <= 2.2 * (band[1] - band[0]) * BLOCK / MIB if band else away == away
        for value, colour in ((1, plots.GREEN), (0, plots.ORANGE), (-1, plots.GREY)):
            pick = near & (moved == value)
            plots.dots(axes, value + 0.12 * np.sin(np.arange(pick.sum())), None, away[pick],
                       color=colour)
        if band:
            ends = [(b - result.numbers[f"at{i}"]) * BLOCK / MIB for b in band]
            plots.span(axes, *ends, f"{(band[1] - band[0]) * BLOCK / MIB:g} MiB")
        axes.set_yticks([-1, 0, 1], ["unknown", "stayed", "moved"])
        axes.set_xlabel(f"MiB from block {result.numbers[f'at{i}']:,}")


def ready(s):
    """A Prober for the tests after this one, and an empty text; or None and the reason."""
    rng = s.rng("ready")
    blocks = s.dev.bytes // BLOCK
    places = Places(s, int(blocks * 0.93) * BLOCK)
    spread = (rng.choice(blocks // 2, PAIRS, replace=False) * BLOCK).astype(np.uint64)
    if not places.calibrate(spread):
        return None, places.why
    eleven = s.results.get("11")
    if eleven and eleven.numbers.get("flash"):
        places.flash_us = FLASH_US
    return Prober(s, places, rng), ""


