# SPDX-License-Identifier: GPL-2.0
"""Finds the cliff of Tests 6 to 10: the write from which on the drive must clean.

The series is the time from one completion to the next; with one request at a time that is the
latency.  A drive also has slow writes that are no cleaning: commits, map merges (one write in 240
on the drive of Aghayev et al.) and seeks.  A *stall* is a time longer than any seek and several
times the usual; one stall proves nothing.  The cliff is where stalls become more frequent.

The series is cut in two where two rates of stalls explain it best against one rate (likelihood
ratio).  By chance that ratio exceeds e^x with a probability of about e^-x at each place.  This,
times the places, the heights of stall that are tried and the looks that are taken, is the risk; it
must be below RISK.  Behind the cliff, writes must also be slower on average, and the stalls must
continue: a burst that ends is no cliff.

Each chunk of writes is a look, once there are enough stalls, and a run may take hundreds of looks.
The k-th look may use 1 / k (k + 1) of the risk; these shares add up to one, however many looks
there are.

A cache of few sets cleans at the same rate from the first stall on, so stalls do not become more
frequent after it.  Two things count then.  There was no stall for a long time; random stalls of
that rate do that with a probability of e^-(expected).  And stretches of that length have the same
number of stalls, more evenly than random ones (chi-squared, lower tail).  With k the product of
both, k (1 - ln k) must be below RISK_REGULAR, over the looks as above; there are fewer of these
looks, as each waits for half as many writes again.  Writes with stalls must also take most of the
time."""

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import chi2

from . import guard
from .session import BLOCK

RISK = 1e-3                 # of a false cliff
HEIGHTS = (3.0, 6.0, 12.0, 25.0, 50.0, 100.0, 400.0)   # of a stall, in usual times
SHORTEST_US = 45_000        # twice a seek over the whole drive and a rotation
STALLS = 4                  # at least, behind the cliff
DENSER = 4.0                # times the rate of stalls before the cliff, at least
SLOWER = 2.0                # times the average time before the cliff, at least
MOSTLY, STRETCHES, RISK_REGULAR = 2.0, 5, 5e-3
AGAIN = 1.5                 # times the writes at the last look, until the next one
PROVEN = 1e-3               # risk of a witness, over all of its looks
KNOWN = 4                   # stalls from which on their rate is known
ALIKE = 0.1                 # share by which stalls of one kind differ, at most
NEAR = 0.9  # share of the writes before the crowd, behind which a single stall may belong to it
CHUNK, LARGEST = 256, 1 << 15    # a chunk that meets the cliff may last hours


@dataclass
class Cliff:
    """A cliff, and what was done to find it.

    at: writes before the first stall, or None; usual_us: median time between completions before it;
    stall_us: median of the stalls; tall_us: height from which a time counts as a stall; before,
    behind: stalls before and behind the cliff; looks: looks that were taken; rate: stalls per write
    behind the cliff; slower: average time behind the cliff in times of that before it; risk: of a
    false alarm; writes, bytes, seconds: all that was written (seconds of the drive's clock)."""
    at: int | None = None
    usual_us: float = 0.0
    stall_us: float = 0.0
    tall_us: float = 0.0
    before: int = 0
    behind: int = 0
    looks: int = 0
    rate: float = 0.0
    slower: float = 0.0
    risk: float = 1.0
    writes: int = 0
    bytes: int = 0
    seconds: float = 0.0
    why: str = ""
    picture: dict = field(default_factory=dict)


def gaps(trace):
    """Time from each completion to the next, in order of completion.

    With several requests in flight, the first completion of a chunk includes the wait of all that
    were sent with it; this is no stall."""
    if not len(trace):
        raise guard.NoNumber("time from write to write: fio has logged no write")
    end = np.sort(trace.at_us + trace.lat_us)
    gap = np.diff(end, prepend=min(trace.at_us[0], end[0]))
    if len(trace) > 1 and guard.mean(trace.at_us[1:] < end[:-1] - 1, "writes under way") > 0.5:
        gap[0] = min(gap[0], guard.median(gap, "time from write to write"))
    return gap


def likelihood(stalls, n):
    """For each stall among @n writes: by how much two rates of stalls, one before it and one from
    it on, explain the series better than one rate (natural logarithm)."""
    m = len(stalls)
    before, behind = np.arange(m, dtype=float), m - np.arange(m, dtype=float)
    left, right = stalls.astype(float), n - stalls.astype(float)

    def poisson(count, length):
        rate = np.divide(count, length, out=np.zeros_like(length), where=length > 0)
        return count * np.log(np.where(count > 0, rate, 1.0)) - count
    return poisson(before, left) + poisson(behind, right) - poisson(
        np.array([float(m)]), np.array([float(n)]))


def regular(stalls, n):
    """Probability that random stalls leave out as many writes in front and are as even behind.

    Sets that are cleaned together stall around the first stall, around twice its place, and so on.
    Stretches begin half a length before these places, so as not to cut a group in two."""
    p, whole = int(stalls[0]), stretches(stalls, n)
    if whole < STRETCHES:
        return 1.0
    count = np.bincount((stalls - p // 2) // p, minlength=whole)[:whole]
    mean = guard.mean(count, "stalls in a stretch")
    if mean == 0:
        return 1.0
    k = math.exp(-guard.ratio(p * len(stalls), n - p, "stalls expected")) * float(
        chi2.cdf(guard.ratio(((count - mean) ** 2).sum(), mean, "scatter of stalls"), whole - 1))
    return k * (1 - math.log(max(k, 1e-300)))


def spent(look):
    """Divisor of the risk of a look, counted from 1: the quotients of all looks add up to one."""
    return look * (look + 1)


def enough(gap):
    """Whether there are enough stalls and writes for a look."""
    return len(gap) >= STALLS + 8 and int((gap > SHORTEST_US).sum()) > STALLS


def find(gap, looks=1):
    """(index of the cliff, risk, height in us) in a series of times, or None; @looks is what
    spent() returns."""
    if not enough(gap):
        return None
    best = None
    for tall, stalls in heights(gap):
        gain = likelihood(stalls, len(gap))
        gain[len(stalls) - STALLS:] = -np.inf
        cut = int(np.argmax(gain))
        p, d = int(stalls[cut]), len(gap) - int(stalls[cut])
        # Without a stall before the cut there is only one place to cut.
        risk = np.exp(-gain[cut]) * (len(stalls) if cut else 1) * len(HEIGHTS) * looks
        denser = guard.ratio(len(stalls) - cut, d, "rate of stalls") > DENSER * cut / max(p, 1)
        lasts = d > 32 + p / 50 and stalls[-1] > p + 2 * d / 3
        if risk < RISK and denser and lasts and p >= 8 and slower(gap, p) > SLOWER:
            if best is None or risk < best[1]:
                best = (p, float(risk), float(tall))
    if best is None:
        return None
    p, risk, tall = best
    return first_of(gap, p, tall, looks), risk, tall


def slower(gap, p):
    """Average time of writes from @p on, in times of that before @p."""
    behind, before = (guard.mean(part, "time from write to write") for part in (gap[p:], gap[:p]))
    # The floor is for writes that take no time at all.
    return behind / max(before, 1e-3)


def heights(gap):
    """(height, stalls of that height) for each kind of stall that is frequent enough.  A height
    that gives the same stalls as the one before is no other kind."""
    slow, last = np.flatnonzero(gap > SHORTEST_US), None
    usual = guard.median(gap[:max(8, len(gap) // 2)], "time from write to write")
    for height in HEIGHTS:
        tall = max(height * usual, SHORTEST_US)
        stalls = slow[gap[slow] > tall]
        if len(stalls) <= STALLS:
            return
        if len(stalls) != last:
            yield tall, stalls
        last = len(stalls)


def stretches(stalls, n):
    """How many stretches as long as the first one without a stall there are, from its middle on."""
    p = int(stalls[0])
    return (n - p // 2) // p if p >= 8 else 0


def find_regular(gap, looks=1):
    """(what find() returns, for a cache that cleans at an even rate; whether there was enough to
    look at)."""
    kinds = [(tall, stalls) for tall, stalls in heights(gap)
             if stretches(stalls, len(gap)) >= STRETCHES] if enough(gap) else []
    for tall, stalls in kinds:
        p = int(stalls[0])
        risk = regular(stalls, len(gap)) * looks * len(kinds)
        if risk < RISK_REGULAR and slower(gap, p) > MOSTLY:
            return (first_of(gap, p, tall, looks), risk, float(tall)), True
    return None, bool(kinds)


def first_of(gap, p, tall, looks):
    """Where the change that is known at @p began.

    Some parts of a cache are full before the others, so stalls become more frequent more than
    once.  The cliff is the first stall of a crowd at the end of those before @p, as long as chance
    explains the crowd with less than RISK.  A single stall shortly before the crowd belongs to it
    if all of them take about the same time, and no other write took that long."""
    while True:
        stalls = np.flatnonzero(gap[:p] > tall)
        if not len(stalls):
            return p
        front = np.arange(len(stalls))
        gain = likelihood(stalls, p)
        gain[(len(stalls) - front) * stalls <= DENSER * front * (p - stalls)] = -np.inf
        cut = int(np.argmax(gain))
        if stalls[cut] < 8 or \
                np.exp(-gain[cut]) * len(stalls) * len(HEIGHTS) * looks >= RISK:
            break
        p = int(stalls[cut])
    behind = gap[p:][gap[p:] > tall]
    usual = guard.median(behind, "stalls")
    if guard.mean(alike(behind, usual), "stalls that are alike") > 0.5:
        same = stalls[alike(gap[stalls], usual)]
        p = int(same[0]) if len(same) and same[0] > NEAR * p else p
    return p


def alike(stalls, usual):
    """For each stall, whether it took about as long as @usual."""
    return np.abs(guard.ratio(stalls, usual, "stalls against their median") - 1) < ALIKE


class Follower:
    """Takes chunks as they come; keeps the recent times in full and the older ones thinned out."""

    KEEP = 1 << 21          # times in memory; the beginning is thinned out, not lost

    def __init__(self):
        self.gap = np.zeros(0, np.float32)
        self.folded = 0         # writes before self.gap; only their largest times are kept
        self.high = np.zeros(0, np.float32)
        self.mean, self.count = 0.0, 0
        self.cliff = None
        self.looks = self.regular_looks = 0
        self.again = 0          # number of writes at the next look for an even rate

    def add(self, gap):
        """Adds the times of a chunk; True as soon as the cliff is certain."""
        self.gap = np.concatenate([self.gap, gap.astype(np.float32)])
        if enough(self.gap):
            self.looks += 1
            self.cliff = find(self.gap, spent(self.looks))
        if self.cliff is None and len(self.gap) >= self.again:
            self.cliff, looked = find_regular(self.gap, spent(self.regular_looks + 1))
            if looked:
                self.regular_looks += 1
                self.again = int(AGAIN * len(self.gap))
        return self.cliff is not None

    def proven(self, since):
        """Sets the cliff where the drive is known to have cleaned for the first time since write
        @since: at the first stall that is about as high as the highest.

        The very first write is no cliff, since the cache is empty then; a drive may be waking up.
        If all writes are slow and none stands out, the cliff is the highest."""
        gap = self.gap[since:]
        usual = guard.median(self.gap[:since] if since else gap, "time from write to write")
        tall = _tall(gap, usual)
        if not since and len(gap) > 1 and (gap[0] > tall or not (gap > tall).any()):
            since, gap = 1, gap[1:]
            tall = _tall(gap, usual)
        if not (gap > tall).any():
            tall = float(gap.max()) * (1 - ALIKE)
        self.cliff = since + int(np.argmax(gap > tall)), PROVEN, tall

    def known(self, done):
        """Whether the rate of stalls is known, or so low that 1.5 times the writes have not shown
        it."""
        at, _, tall = self.cliff
        return int((self.gap[at:] > tall).sum()) >= KNOWN or done > 1.5 * at + CHUNK

    def thin(self, most=2000):
        """First write, mean and largest time of bins, for a picture."""
        n = len(self.gap)
        if n <= most:
            return {"x": np.arange(n), "mean_us": self.gap, "high_us": self.gap}
        edges = np.linspace(0, n, most + 1).astype(int)
        return {"x": edges[:-1],
                "mean_us": guard.ratio(np.add.reduceat(self.gap, edges[:-1]), np.diff(edges),
                                       "mean of a bin"),
                "high_us": np.maximum.reduceat(self.gap, edges[:-1])}


def _tall(gap, usual):
    return max(HEIGHTS[0] * usual, SHORTEST_US, float(gap.max()) / 4)


def ahead_of(gap, at, tall):
    """Times before the cliff @at.  If all of these are stalls: the times anywhere that are none; if
    there are none, all times."""
    before = gap[:at]
    if (before <= tall).any():
        return before
    rest = gap[gap <= tall]
    return rest if len(rest) else gap


def _stalled(gap):
    usual = guard.median(gap, "time from write to write")
    return gap.max() > max(SHORTEST_US, HEIGHTS[0] * usual)


def run(s, name, write, *, most_ops, most_s, size=BLOCK, stop=None, witness=None):
    """Writes in chunks until the cliff is certain.

    write(chunk number, first, count) sends @count writes and returns their Trace.  stop(times of a
    chunk), if given, may end the run for another reason.  @witness, if given, has written its
    blocks and knows whether they were cleaned.  Chunks grow with what was written, but stay small
    among stalls, where one write may take minutes."""
    follow, took, done, number = Follower(), 0.0, 0, 0
    chunk, calm = CHUNK, 0
    if witness:
        # The witness writes single blocks: convert to writes of this size.
        count = len(witness.gaps_us) * BLOCK // size
        follow.gap = witness.gaps_us[:count].astype(np.float32)
        done, took = count, float(witness.gaps_us.sum())
    while done < most_ops and took < most_s * 1e6:
        count = int(min(chunk, most_ops - done))
        trace = write(number, done, count)
        gap = gaps(trace)
        took += float(gap.sum())
        done += len(gap)
        number += 1
        s.progress(done, most_ops)
        if calm is not None and follow.add(gap):
            break
        if calm is None:
            follow.gap = np.concatenate([follow.gap, gap.astype(np.float32)])
        elif witness and _stalled(gap) and witness.worth(float(gap.max())):
            if witness.cleaned(done * size, float(gap.max())):
                follow.proven(calm)
                calm = None
            else:
                calm = done
        if calm is None and follow.known(done):
            break
        if stop and stop(gap):
            break
        chunk = min(LARGEST, max(CHUNK, done // 8))
        # The next writes show whether stalls are more frequent now: small steps, as each may take
        # minutes.
        usual = guard.median(gap, "time from write to write")
        late = np.flatnonzero(follow.gap > max(SHORTEST_US, 25 * usual))
        if len(late):
            chunk = min(chunk, max(CHUNK, (done - int(late[0])) // 4))
    out = Cliff(writes=done, bytes=done * size, seconds=took / 1e6, looks=follow.looks,
                picture=follow.thin())
    if follow.cliff is None:
        out.usual_us = guard.median(follow.gap, "time from write to write") if done else 0.0
        out.why = f"no cleaning within {done:,} writes" + (
            "" if done >= most_ops else f" and {took / 1e6:.0f} s")
        return out
    out.at, out.risk, out.tall_us = follow.cliff
    at = out.at
    before = ahead_of(follow.gap, at, out.tall_us)
    out.usual_us = guard.median(before, "time from write to write")
    tall = follow.gap > out.tall_us
    out.before, out.behind = int(tall[:at].sum()), int(tall[at:].sum())
    out.stall_us = guard.median(follow.gap[at:][tall[at:]], "stalls")
    out.slower = guard.mean(follow.gap[at:], "time from write to write") / \
        max(guard.mean(before, "time from write to write"), 1e-3)
    # Sets that fill at the same time leave long stretches without a stall.
    out.rate = out.behind / max(1, done if out.risk == PROVEN else done - at)
    zoom = slice(max(0, at - 200), at + 200)
    out.picture |= {"zoom_x": np.arange(zoom.start, min(zoom.stop, len(follow.gap))),
                    "zoom_us": follow.gap[zoom]}
    return out


def random_writes(s, name, *, size=BLOCK, iodepth=1, span=None, seed=1):
    """A writer for run(): fio's own random writes over the whole drive.

    fio keeps no map of what it has written: chunks repeat blocks of earlier chunks anyway, and for
    a large drive making the map takes longer than writing a chunk."""
    span = (span or s.dev.bytes) // size * size

    def write(number, _, count):
        options = {"rw": "randwrite", "bs": size, "size": span, "number_ios": count,
                   "io_size": count * size, "norandommap": None, "randrepeat": 0,
                   "randseed": seed * 100_003 + number}
        if iodepth > 1:
            options["iodepth"] = iodepth
        return s.fio(name, **options)
    return write


def draw(figure, result, arrays, what="writes"):
    """Time from completion to completion: the whole series, and around the cliff."""
    from . import plots
    zoomed = "zoom_x" in arrays
    axes = plots.panels(figure, 2 if zoomed else 1)
    plots.dots(axes[0], arrays["high_us"] / 1000, "write", arrays["x"])
    plots.logarithmic(axes[0])
    axes[0].set_xlabel(what)
    axes[0].set_ylabel("slowest in a row, ms" if len(arrays["x"]) == 2000 else
                       "from one to the next, ms")
    cliff = result.numbers.get("writes_until_cleaning")
    if not zoomed or cliff is None:
        return
    axes[0].axvline(cliff, color=plots.MARK, linewidth=0.8)
    # Counted from the first stall, so that pictures of several drives can be laid on each other.
    plots.dots(axes[1], arrays["zoom_us"] / 1000, "write", arrays["zoom_x"] - cliff)
    plots.logarithmic(axes[1])
    axes[1].axvline(0, color=plots.MARK, linewidth=0.8)
    axes[1].set_xlabel(f"{what}, from the first stall on")
