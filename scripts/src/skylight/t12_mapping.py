# SPDX-License-Identifier: GPL-2.0
"""Test 12: whether a band returns to its place.

The thesis (Aghayev 2020) reads two tracks of a band in turn with the band before it,
overwrites them, has them cleaned, reads again and compares.  Here blocks of two such tracks
are read behind anchors.  They are overwritten and brought home twice, and their places after
the first time are compared with those after the second, so that their state before the test
does not matter.  If the layer moved a band, all its blocks are turned by the same angle;
blocks that changed in another way decide nothing."""

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK, MIB, SKIPPED, Finding, Result
from .t01_translation import tells, together

ID, TITLE, AFTER = "12", "static or dynamic mapping", ("1", "3", "11")

TRACKS = 4 * MIB        # two tracks in the thesis
LEAST = 48 * BLOCK      # on a small drive, this may be several bands
SOME = 48               # blocks that are read
AT = (0.345, 0.725)
ANCHOR = 0.15
WATCHED = 12            # of these blocks, while the cache is being filled
CYCLES = 2
LONGEST_S = 300         # of pauses for one cleaning
FIRST, GROWTH = 64, 1.4     # writes between two looks
MOST_LEFT = 0.6         # share of the blocks that must leave the cache; some seem to stay by chance


class NotCleaned(Exception):
    """The drive could not be made to clean; the text says why."""


def extent(s):
    """Bytes that are overwritten from the first block on: two tracks, or half a band."""
    band = s.value("band_bytes", s.scale.band_guess_bytes)
    return int(min(TRACKS, max(LEAST, band // 2))) // BLOCK * BLOCK


def most_writes(s):
    """Writes after which the test gives up."""
    six = s.results.get("6")
    full = six.numbers.get("writes_until_cleaning") if six else None
    return min(s.scale.max_ops, int(1.2 * full) + 1000) if full else s.scale.max_ops


def estimate(s):
    """Seconds."""
    if s.value("cleaning_type") == "aggressive":
        return len(AT) * CYCLES * (4 * s.scale.pause_s + 0.03 * SOME * 6)
    return len(AT) * CYCLES * min(most_writes(s), 15_000) * 0.012


def run(s):
    """Runs the test."""
    if s.value("drive_type") == "conventional":
        return Result(SKIPPED, "the drive is conventional: blocks stay where they are")
    fresh = s.fresh()
    with s.settings() as missing:
        places = Places(s, int(s.dev.bytes * ANCHOR))
        tracks = [_Tracks(s, places, i) for i in range(len(AT))]
        telling = tells(places, np.concatenate([t.asked[:16] for t in tracks]))
        why = places.why
        if telling:
            try:
                for track in tracks:
                    track.look(fresh)
            except NotCleaned as not_cleaned:
                why = str(not_cleaned)
    result = Result(numbers={
        "not_offered": list(missing), "fresh": fresh, "telling": telling, "why": why,
        "rotation_us": places.rotation_us, "tolerance_us": places.tolerance_us,
        "coincidence": places.coincidence,
        "comparisons": [c for t in tracks for c in t.comparisons(places)],
        "writes": [t.writes for t in tracks], "pauses_s": [t.paused for t in tracks]})
    for i, track in enumerate(tracks):
        for name, lat in track.seen.items():
            result.arrays[f"band{i}_{name}_us"] = lat
        result.arrays[f"band{i}_offset"] = track.asked
    result.findings = {"mapping": decide(result.numbers)}
    return result


class _Tracks:
    """Two tracks of one band."""

    def __init__(self, s, places, number):
        self.s, self.places, self.number = s, places, number
        self.rng = s.rng(f"{ID}-{number}")
        band = s.value("band_bytes")
        first = int(s.dev.bytes * AT[number]) // BLOCK
        if band:
            # Bands need not begin at multiples of their size, but often do.
            first = first * BLOCK // int(band) * int(band) // BLOCK
        count = extent(s) // BLOCK
        blocks = first + self.rng.permutation(count)
        some = min(SOME, count // 2)
        self.asked = (np.sort(blocks[:some]) * BLOCK).astype(np.uint64)
        self.others = (blocks[some:] * BLOCK).astype(np.uint64)
        self.seen, self.cached, self.homes, self.went = {}, [], [], None
        self.writes, self.paused = [], []

    def look(self, fresh):
        """Overwrites and cleans; fills in homes."""
        before = self.places.read(f"band{self.number}-before", self.asked)
        self.seen["before"] = before
        if fresh:
            self.homes.append(before)
            self.cached.append(None)
        for cycle in range(CYCLES):
            self._cycle(cycle)

    def _cycle(self, cycle):
        name = f"band{self.number}-cycle{cycle}"
        written = self.rng.permutation(self.asked)
        trace = self.s.trace(name, chain((True, written, BLOCK), self.places.ops(self.asked)))
        cached = self.places.times(trace[len(written):])
        self.writes.append(0)
        self.paused.append(0.0)
        # Small bands may be cleaned while the rest of them is written.
        here = self.homes[-1] if self.homes else self.seen["before"]
        self.went = np.flatnonzero(~self.places.same(here, cached))
        if len(self.went) < max(2, len(self.asked) // 8):
            raise NotCleaned("what is written stays where it was: nothing to clean")
        if self.s.value("cleaning_type") == "lazy":
            self._fill(name, cached)
        elif not self._wait(name, cached):
            self._fill(name, cached)
        home = self.places.read(f"{name}-home", self.asked)
        self.seen[f"cached{cycle}"], self.seen[f"home{cycle}"] = cached, home
        self.cached.append(cached)
        self.homes.append(home)

    def _left(self, name, cached, some):
        """Share of blocks that are not where they were cached."""
        now = self.places.read(name, self.asked[some])
        return 1 - guard.mean(self.places.same(cached[some], now), "blocks that stayed")

    def _wait(self, name, cached):
        """Leaves the drive alone until the blocks have gone home; False if the drive is lazy."""
        pause = self.s.scale.pause_s
        while self.paused[-1] < LONGEST_S:
            self.s.pause(pause, "until what was overwritten is cleaned")
            self.paused[-1] += pause
            left = self._left(f"{name}-wait", cached, self.went)
            if left > 0.8 - self.places.coincidence:
                return True
            if left < 0.1 and self.paused[-1] >= 8 * self.s.scale.pause_s and \
                    self.s.value("cleaning_type") is None:
                return False
            pause *= 1.5
        raise NotCleaned(f"what was overwritten is not home after pauses of "
                         f"{self.paused[-1]:.0f} s")

    def _fill(self, name, cached):
        """Writes other blocks of the same tracks until these are cleaned."""
        limit, chunk = most_writes(self.s), FIRST
        some = self.went[np.linspace(0, len(self.went) - 1, WATCHED).astype(int)]
        while True:
            ops = (True, self.rng.choice(self.others, chunk), BLOCK)
            self.s.trace(f"{name}-fill", ops)
            self.writes[-1] += chunk
            self.s.progress(self.writes[-1], limit)
            if self._left(f"{name}-look", cached, some) > MOST_LEFT:
                if self._left(f"{name}-look", cached, self.went) > MOST_LEFT:
                    return
            if self.writes[-1] >= limit:
                raise NotCleaned(f"{limit} writes to the same two tracks have not made the "
                                 "drive clean them")
            chunk = int(min(chunk * GROWTH, 50_000, limit - self.writes[-1] + 1))

    def comparisons(self, places):
        """Compares each home with the next: how many blocks are at the same place, and how many
        of the others are turned by the same angle."""
        out = []
        for i in range(1, len(self.homes)):
            one, two = self.homes[i - 1], self.homes[i]
            left = np.ones(len(one), bool)
            for cached, home in ((self.cached[i - 1], one), (self.cached[i], two)):
                if cached is not None:
                    left &= ~places.same(cached, home)
            same = places.same(one, two)[left]
            out.append({"blocks": int(left.sum()), "same": int(same.sum()),
                        "together": together(places, (two - one)[left][~same])})
        return out


def decide(numbers):
    """Static or dynamic."""
    if not numbers["telling"]:
        return Finding.unknown(numbers["why"])
    verdicts = []
    for c in numbers["comparisons"]:
        n, same = c["blocks"], c["same"]
        is_same, sure = stats.most(same, n, 1 - stats.SLACK,
                                   stats.SLACK + numbers["coincidence"])
        if is_same is False and stats.most(c["together"], n - same)[0] is not True:
            is_same, sure = None, 0.0
        verdicts.append((is_same, sure))
    known = [v for v, _ in verdicts if v is not None]
    told = ", ".join(f"{c['same']} of {c['blocks']}" for c in numbers["comparisons"])
    if False in known:
        sure = max(c for v, c in verdicts if v is False)
        return Finding("dynamic", confidence=sure, says="after cleaning, bands were "
                       f"elsewhere as a whole (blocks at the same place: {told})")
    if len(known) < 2:
        return Finding.unknown(numbers["why"] or
                               f"after cleaning, {told} blocks were where they had been")
    # A band that moves may by chance come to the same angle as a whole.
    chance = numbers["coincidence"] ** len(known)
    sure = min(min(c for v, c in verdicts if v is not None), 1 - chance)
    return Finding("static", confidence=sure, says="after cleaning, bands were where they "
                   f"had been before ({told} blocks)")


def draw(figure, result, arrays):
    """As Figure 2.19 of the thesis: the pattern before and after."""
    from . import plots
    turn = (result.numbers["rotation_us"] or 0) / 1000
    axes = plots.panels(figure, len(AT), share_y=True)
    for i, one in enumerate(axes):
        offset = arrays.get(f"band{i}_offset", np.zeros(0)).astype(float)
        for k, (name, label) in enumerate((("before", "before"), ("cached1", "in the cache"),
                                           ("home0", "cleaned"), ("home1", "cleaned again"))):
            lat = arrays.get(f"band{i}_{name}_us")
            if lat is None:
                continue
            lat = lat / 1000
            plots.dots(one, lat % turn if turn else lat, x=(offset - offset[0]) / MIB,
                       color=plots.CYCLE[k], label=label,
                       marker=("o", "x", "+", ".")[k], fillstyle="none")
        one.set(title=f"two tracks at {100 * AT[i]:.0f} % of the drive", xlabel="MiB",
                ylabel="angle behind the anchor, ms" if turn else "latency, ms")
    if axes[0].lines:
        axes[0].legend(loc="upper right")
