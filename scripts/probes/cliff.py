# SPDX-License-Identifier: GPL-2.0
"""The cliff of Tests 6 to 10: writes go on until the drive must clean.

What is followed is the time from one completion to the next, which with one
request at a time is its latency.  A drive has its slow writes anyway: commits,
map merges (Skylight's drive: one in 240), seeks.  So a *stall* is not enough.
The cliff is the first of many: stalls that come one after another at the end
and never before.

If stalls came at random, or regularly, from the beginning on, the first at
write p and k more within d writes behind it would all lie in the last d + 1 of
p + d writes with a probability of at most ((d + 1) / (p + d)) ^ k.  Several heights of
stall are tried, and every chunk is another look; the bound is divided by both
(``RISK`` in all).

With very few sets a cache cleans as regularly as it begins.  Then it is the
amount that counts: stalls that take most of the drive's time, three of them at
least and far from the beginning, are what "IOPS fall to near zero" means."""

from dataclasses import dataclass, field

import numpy as np

from .load import Trace
from .session import BLOCK

RISK = 1e-4                 # of calling a cliff what is none
HEIGHTS = (3.0, 6.0, 12.0, 25.0, 50.0, 100.0, 400.0)   # stalls, in usual gaps
STALLS = 4                  # behind the first, at least
SLOWER = 2.0                # behind the cliff on the whole than before, at least
TALL, MOSTLY = 25.0, 4.0    # stalls that take most of the time
LOOKS = 64                  # chunks, at most about so many
CHUNK, LARGEST = 256, 1 << 18


@dataclass
class Cliff:
    """at: writes before the first stall, or None; usual_us, stall_us: the time
    between completions before, and of the stalls; risk: of a false alarm;
    writes, bytes, seconds: all that was done (seconds of the drive's clock)."""
    at: int | None = None
    usual_us: float = 0.0
    stall_us: float = 0.0
    slower: float = 0.0
    risk: float = 1.0
    writes: int = 0
    bytes: int = 0
    seconds: float = 0.0
    why: str = ""
    picture: dict = field(default_factory=dict)


def gaps(trace):
    """Time from each completion to the next, in order of completion."""
    end = np.sort(trace.at_us + trace.lat_us)
    return np.diff(end, prepend=min(trace.at_us[0], end[0]))


def find(gap, looks=1):
    """(index of the cliff, risk, height) in a series of times, or None."""
    if len(gap) < STALLS + 8:
        return None
    usual = float(np.median(gap[:max(8, len(gap) // 2)]))
    # Where all is the same, a stall is still what a person would notice.
    usual = max(usual, 50.0)
    best = None
    for height in HEIGHTS:
        stalls = np.flatnonzero(gap > height * usual)
        if len(stalls) <= STALLS or stalls[0] < 8:
            continue
        p, d = int(stalls[0]), len(gap) - 1 - int(stalls[0])
        k = len(stalls) - 1
        risk = ((d + 1) / (p + d)) ** k * len(HEIGHTS) * looks
        before, behind = gap[:p].mean(), gap[p:].mean()
        if risk >= RISK and k >= 3 and height >= TALL and d >= p // 2 and \
                behind > MOSTLY * before:
            risk = 0.9 * RISK
        if risk < RISK and behind > SLOWER * before and (best is None or risk < best[1]):
            best = (p, float(risk), height)
    return best


class Follower:
    """Takes chunks as they come; keeps a picture of all and the tail in full."""

    KEEP = 1 << 21          # gaps in memory: the beginning is thinned out, not lost

    def __init__(self):
        self.gap = np.zeros(0, np.float32)
        self.folded = 0         # writes in front of self.gap whose largest are kept
        self.high = np.zeros(0, np.float32)
        self.mean, self.count = 0.0, 0
        self.cliff = None
        self.looks = 0

    def add(self, gap):
        """True as soon as the cliff is certain."""
        self.gap = np.concatenate([self.gap, gap.astype(np.float32)])
        self.looks += 1
        self.cliff = find(self.gap, LOOKS)
        return self.cliff is not None

    def thin(self, most=2000):
        """x (writes), mean and largest gap of bins, for a picture."""
        n = len(self.gap)
        if n <= most:
            return {"x": np.arange(n), "mean_us": self.gap, "high_us": self.gap}
        edges = np.linspace(0, n, most + 1).astype(int)
        return {"x": edges[:-1],
                "mean_us": np.add.reduceat(self.gap, edges[:-1]) / np.diff(edges),
                "high_us": np.maximum.reduceat(self.gap, edges[:-1])}


def run(s, name, write, *, most_ops, most_s, size=BLOCK):
    """Writes in chunks until the cliff is certain.

    write(chunk number, first, count) sends count writes and returns their Trace.
    Chunks grow with what was written, so that what comes after the cliff, where
    one write may take minutes, is not much."""
    follow, spent, done, number = Follower(), 0.0, 0, 0
    chunk = CHUNK
    while done < most_ops and spent < most_s * 1e6:
        count = int(min(chunk, most_ops - done))
        trace = write(number, done, count)
        gap = gaps(trace)
        spent += float(gap.sum())
        done += len(gap)
        number += 1
        s.progress(done, most_ops)
        if follow.add(gap):
            break
        chunk = min(LARGEST, max(CHUNK, done // 4))
        # Among stalls every write costs: go on in small steps.
        if len(gap) and gap.max() > 1e6:
            chunk = CHUNK
    out = Cliff(writes=done, bytes=done * size, seconds=spent / 1e6, picture=follow.thin())
    if follow.cliff is None:
        out.usual_us = float(np.median(follow.gap)) if done else 0.0
        out.why = f"no cleaning within {done:,} writes" + (
            "" if done >= most_ops else f" and {spent / 1e6:.0f} s")
        return out
    at, out.risk, height = follow.cliff
    out.at = at
    out.usual_us = float(np.median(follow.gap[:at]))
    tall = follow.gap[at:][follow.gap[at:] > height * max(out.usual_us, 50.0)]
    out.stall_us = float(np.median(tall))
    out.slower = float(follow.gap[at:].mean() / max(follow.gap[:at].mean(), 1e-3))
    zoom = slice(max(0, at - 200), at + 200)
    out.picture |= {"zoom_x": np.arange(zoom.start, min(zoom.stop, len(follow.gap))),
                    "zoom_us": follow.gap[zoom]}
    return out


def random_writes(s, name, *, size=BLOCK, iodepth=1, span=None, seed=1):
    """A writer for run(): fio's own random writes over the whole drive, none
    twice within a chunk."""
    span = (span or s.dev.bytes) // size * size

    def write(number, _, count):
        options = {"rw": "randwrite", "bs": size, "size": span, "number_ios": count,
                   "io_size": count * size, "randrepeat": 1,
                   "randseed": seed * 100_003 + number}
        if count * size > span:
            options["norandommap"] = None
        if iodepth > 1:
            options["iodepth"] = iodepth
        return s.fio(name, **options)
    return write


def draw(figure, result, arrays, what="writes"):
    """Time from completion to completion, all of it and around the cliff."""
    from . import plots                 # pylint: disable=C0415
    zoomed = "zoom_x" in arrays
    axes = plots.panels(figure, 2 if zoomed else 1)
    plots.dots(axes[0], arrays["high_us"] / 1000, "write", arrays["x"])
    axes[0].set_yscale("log")
    axes[0].set_xlabel(what)
    axes[0].set_ylabel("slowest in a row, ms" if len(arrays["x"]) == 2000 else
                       "from one to the next, ms")
    cliff = result.numbers.get("writes_until_cleaning")
    if not zoomed or cliff is None:
        return
    axes[0].axvline(cliff, color=plots.MARK, linewidth=0.8)
    plots.dots(axes[1], arrays["zoom_us"] / 1000, "write", arrays["zoom_x"])
    axes[1].set_yscale("log")
    axes[1].axvline(cliff, color=plots.MARK, linewidth=0.8)
    axes[1].set_xlabel(f"{what}, around the first stall ({cliff:,})")
