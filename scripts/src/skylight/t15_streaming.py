# SPDX-License-Identifier: GPL-2.0
"""Test 15: the length from which on a sequential write goes past the cache.

A drive can only begin to stream at the border of a band, unless it rewrites the part in front
of it.  So a write begins at a distance in front of a border that Test 11 has found, and
continues behind it.  The test asks whether the part behind the border went home.

With a static map, that part is then where it was before anything was written.  The drive
cleans nothing in between, as the part is read immediately.  A stretch that is cached keeps
its order and may be at the old angle as a whole.  So "home" must be seen at three places,
where different numbers of writes to another block of the band have taken slots of its log
before.  A log that becomes full in the middle of the write is cleaned, and the last blocks
are cached again; therefore the last blocks must be home, too.

Otherwise, on a drive that cleans when left alone, the part does not move in a long pause,
while a control block, written alone, does.  There the write begins at the border, and the
test seeks the length from which on nothing moves.

The least length is found by doubling and halving, exact to a block.  Each try uses a fresh
place; up to 12 blocks decide, and three quarters of them must agree."""

import numpy as np

from . import guard, stats, t11_band_size
from .load import chain
from .session import BLOCK, DONE, MIB, Finding, Result
from .t06_raw_size import skipped

ID, TITLE, AFTER = "15", "shortest write that streams", ("3", "11", "12")
REQUEST = 64                # blocks
TAIL = 128                  # blocks behind the border
ASKED = 12
LONGEST = 64 * MIB // BLOCK
CLEAR = 0.75
AGREE = 3


def estimate(s):
    """Seconds of the drive's clock."""
    return 200 if s.value("cleaning_type") == "lazy" else 900


def requests(begin, end, border):
    """Writes from block @begin to block @end, one of which begins at @border."""
    cuts = [*range(border, begin, -REQUEST)][::-1]
    cuts = sorted({begin, *cuts, *range(border, end, REQUEST), end})
    cuts = np.asarray([c for c in cuts if begin <= c <= end])
    return True, cuts[:-1].astype(np.uint64) * BLOCK, np.diff(cuts) * BLOCK


class Streams:
    """Tries on one drive, each at a fresh place."""

    def __init__(self, s, places, band, low):
        self.s, self.places, self.band = s, places, band
        self.first = low % band
        self.end = int(s.dev.bytes * 0.9) // BLOCK
        self.at = self.first + band
        self.tail = max(1, min(TAIL, band // 4))
        self.tries, self.rng = [], s.rng(ID)

    def border(self, before, behind):
        """The next border with @before untouched blocks in front of it and @behind behind it."""
        # Irregular distances: at regular ones, cache and home might be at equal angles.
        skip = -(-before // self.band) + 1 + int(self.rng.integers(8))
        border = self.at + skip * self.band
        if border + behind + self.band > self.end:
            if not self.s.fresh():
                self.s.pause(30, "the drive cleans what earlier tries have written")
            border = self.first + self.band + skip * self.band
        self.at = border + (-(-behind // self.band) + 1) * self.band
        return None if border + behind + self.band > self.end else border

    def home(self, before):
        """Whether the part behind the border is where it was: True, False or None."""
        return self._thrice(lambda: self._home(before, "stream"))

    @staticmethod
    def _thrice(ask):
        """Asks until the answer is clear.  One no is a no, as chance only makes a yes; parts
        that differ are no answer."""
        yes = 0
        for _ in range(2 * AGREE):
            answer = ask()
            if answer is False:
                return False
            yes += bool(answer)
            if yes == AGREE:
                return True
        return None

    def _home(self, before, name):
        border = self.border(before, self.tail)
        if border is None:
            return None
        asked = self._asked(border, self.tail)
        self.s.fresh()
        was = self.places.read(name, asked)
        writes = requests(border - before, border + self.tail, border)
        strays = np.full(int(self.rng.integers(1, 8)), (border + self.band - 1) * BLOCK)
        trace = self.s.trace(name, chain((True, strays, BLOCK), writes, self.places.ops(asked)))
        now = self.places.times(trace[len(strays) + len(writes[1]):])
        same = self.places.same(was, now)
        share = guard.mean(same, "blocks at home")
        self.tries.append((before, share))
        if share >= CLEAR and same[-2:].all():
            return True
        return False if share <= 1 - CLEAR or not same[-2:].any() else None

    @staticmethod
    def _asked(border, count):
        steps = np.unique(np.linspace(0, count - 1, min(ASKED, count)).astype(int))
        return ((border + steps) * BLOCK).astype(np.uint64)

    def stays(self, length, pause):
        """Whether @length blocks from a border on do not move in a pause, while a control block
        does."""
        return self._thrice(lambda: self._stays(length, pause, "stay"))

    def _stays(self, length, pause, name):
        border = self.border(0, length + 2 * self.band)
        if border is None:
            return None
        control = border + (-(-length // self.band) + 1) * self.band + self.band // 3
        asked = np.append(self._asked(border, length), np.uint64(control * BLOCK))
        writes = requests(border, border + length, border)
        trace = self.s.trace(name, chain((True, [control * BLOCK], BLOCK), writes,
                                         self.places.ops(asked)))
        wrote = self.places.times(trace[1 + len(writes[1]):])
        self.s.pause(pause, "what is in the cache is cleaned")
        stayed = self.places.same(wrote, self.places.read(name, asked))
        if stayed[-1]:
            return None
        share = guard.mean(stayed[:-1], "blocks that stayed")
        self.tries.append((length, share))
        return True if share >= CLEAR else False if share <= 1 - CLEAR else None


def least(ask, longest):
    """The least number of 1 to @longest for which ask() is True, None if there is none; and
    whether all answers were clear."""
    no, probe = 0, 1
    while True:
        answer = ask(probe)
        if answer is None:
            return None, False
        if answer:
            break
        no = probe
        if probe >= longest:
            return None, True
        probe = min(longest, probe * 2)
    yes = probe
    while no + 1 < yes:
        middle = (no + yes) // 2
        answer = ask(middle)
        if answer is None:
            return None, False
        no, yes = (no, middle) if answer else (middle, yes)
    return yes, True


def run(s):
    """Decides by place, or by rest."""
    out = Result(DONE)
    with s.settings():
        s.fresh()
        prober, why = t11_band_size.ready(s)
        if not prober:
            return skipped(why)
        places = prober.places
        kind = s.finding("drive_type")
        if kind and kind.value == "conventional":
            return skipped("a conventional drive has no cache that could be passed by")
        eleven = s.results.get("11")
        low = next((v[0] for k, v in sorted(eleven.numbers.items()) if k.startswith("band")),
                   None) if eleven else None
        if low is None or not s.value("band_bytes"):
            return skipped("it takes the borders of bands (Test 11)")
        streams = Streams(s, places, s.value("band_bytes") // BLOCK, low)
        longest = int(min(LONGEST, streams.end // 8))
        value, clear = least(streams.home, longest)
        how = "home"
        if value is None and s.value("cleaning_type") == "aggressive":
            how = "rest"
            pause = max(20.0, 4 * s.scale.pause_s)
            value, clear = least(lambda n: streams.stays(n, pause), longest)
    out.numbers |= {"way": how, "longest_bytes": longest * BLOCK}
    tries = np.asarray(streams.tries, float).reshape(-1, 2)
    out.arrays = {"tries_blocks": tries[:, 0], "share": tries[:, 1]}
    # For each length that does not stream, AGREE coincidences make it seem to.
    risk = len({length for length, _ in streams.tries}) * places.coincidence ** AGREE
    out.findings["streaming_bytes"] = finding(s, value, clear, how, longest, risk)
    return out


def finding(s, value, clear, how, longest, risk):
    """The Finding; @risk: that a length seems to stream by chance."""
    sure = stats.measured("streaming_bytes")
    if not clear:
        return Finding.unknown("parts of one write went different ways", "bytes")
    if value is None and how == "home" and s.value("mapping") != "static" and \
            s.value("cleaning_type") != "lazy":
        return Finding.unknown("nothing went home, and the map may be dynamic", "bytes")
    if value is None and s.value("mapping") == "dynamic":
        return Finding.unknown("where a dynamic map puts a write says nothing, and the drive "
                               "cleans nothing when left alone", "bytes")
    if value is None:
        return Finding("none", confidence=sure, says="no sequential write of up to "
                       f"{longest * BLOCK / MIB:g} MiB in front of a band went past the cache")
    if how == "home":
        said = f"behind {value} blocks of a sequential write the next band is written at home"
    else:
        said = (f"{value} blocks from the beginning of a band on, written in order, are not "
                "cleaned any more; fewer are")
    return Finding(value * BLOCK, "bytes", value * BLOCK, value * BLOCK,
                   max(0.0, min(sure, 1 - risk)), said)


def draw(figure, result, arrays):
    """Share of blocks at home, by length."""
    from . import plots
    axes = plots.panels(figure, 1)[0]
    plots.dots(axes, 100 * arrays["share"], "mark", np.maximum(
        arrays["tries_blocks"], 1) * BLOCK / 1024, marker="o")
    axes.set_xscale("log", base=2)
    axes.set_ylim(-5, 105)
    axes.set_xlabel("KiB written in order")
    axes.set_ylabel("% past the cache")
