# SPDX-License-Identifier: GPL-2.0
"""The cliff of Tests 6 to 10: writes go on until the drive must clean.

What is followed is the time from one completion to the next, which with one
request at a time is its latency.  A drive has its slow writes anyway: commits,
map merges (Skylight's drive: one in 240), seeks.  So a *stall*, longer than any
seek and several times the usual, is not enough.  The cliff is where stalls become
more frequent: of all places to cut the series in two that with the largest ratio of
likelihoods of two rates of stalls against one.  That ratio exceeds e^x by chance with
a probability of about e^-x at each place; with the places, the heights of stall that
are tried and the looks that are taken that is the risk, and it must be below RISK.  And
behind the cliff writes must be slower on the whole.

Each chunk is a look as soon as there are stalls enough to call anything a cliff, and a
run may take hundreds.  The k-th may spend 1 / k (k + 1) of the risk: these make one in
all, however many there will be, and what comes late is not believed more easily.

It must also go on: a burst that is over is none.

With few sets a cache cleans as regularly as it begins, and stalls are not more frequent
than once at the first.  Then two things count: that there was none for so long, which
random stalls of that rate would do with a probability of e^-(expected), and that in
stretches as long there are as many each time, more evenly than random ones would
(chi-squared, lower tail).  Their product k makes k (1 - ln k), which must be below
RISK_REGULAR, over the looks as above, which are fewer here, as each waits for half as
many writes again; and they must take most of the time.  What a drive does so regularly for
most of its time, and not before so much was written, is cleaning."""

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import chi2

from . import guard
from .session import BLOCK

RISK = 1e-3                 # of calling a cliff what is none
HEIGHTS = (3.0, 6.0, 12.0, 25.0, 50.0, 100.0, 400.0)   # stalls, in usual gaps
SHORTEST_US = 45_000        # a seek over all, a rotation, and as much again
STALLS = 4                  # behind the cliff, at least
DENSER = 4.0                # stalls behind the cliff, as a rate
SLOWER = 2.0                # behind the cliff on the whole than before, at least
MOSTLY, STRETCHES, RISK_REGULAR = 2.0, 5, 5e-3
AGAIN = 1.5                 # so many times the writes until it is looked at again
PROVEN = 1e-3               # a witness's, over all of its looks
KNOWN = 4                   # stalls from which on their rate is known
ALIKE = 0.1                 # stalls of one kind differ by less, as a share
NEAR = 0.9                  # of the writes before the crowd, where one of them may be
CHUNK, LARGEST = 256, 1 << 15    # a chunk that meets the cliff may last hours


@dataclass
class Cliff:
    """at: writes before the first stall, or None; usual_us, stall_us: the time
    between completions before, and of the stalls; tall_us: what counts as one;
    before, behind: how many there were; looks: that were taken; rate: of those behind, per
    write; risk: of a false alarm;
    writes, bytes, seconds: all that was done (seconds of the drive's clock)."""
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

    With many under way the first to end has waited for all that began with it, at the
    beginning of each chunk: that is no stall."""
    if not len(trace):
        raise guard.NoNumber("time from write to write: fio has logged no write")
    end = np.sort(trace.at_us + trace.lat_us)
    gap = np.diff(end, prepend=min(trace.at_us[0], end[0]))
    if len(trace) > 1 and guard.mean(trace.at_us[1:] < end[:-1] - 1, "writes under way") > 0.5:
        gap[0] = min(gap[0], guard.median(gap, "time from write to write"))
    return gap


def likelihood(stalls, n):
    """For each stall, of n writes, by how much two rates of stalls, one before it and
    one from it on, explain them better than one; natural logarithm."""
    m = len(stalls)
    before, behind = np.arange(m, dtype=float), m - np.arange(m, dtype=float)
    left, right = stalls.astype(float), n - stalls.astype(float)

    def poisson(count, length):
        rate = np.divide(count, length, out=np.zeros_like(length), where=length > 0)
        return count * np.log(np.where(count > 0, rate, 1.0)) - count
    return poisson(before, left) + poisson(behind, right) - poisson(
        np.array([float(m)]), np.array([float(n)]))


def regular(stalls, n):
    """Probability that random stalls leave out as much in front, and are as even
    behind.

    What cleans together does so around the first stall, twice as late, and so on: stretches
    that began there would cut it in two, and so they begin half of one before.  Of random
    stalls the first stretch has fewer then, which makes them less even."""
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
    """By how much the risk of that look, counted from 1, weighs, so that all together
    have that of one."""
    return look * (look + 1)


def enough(gap):
    """Stalls, and writes, to call anything a cliff: else it is no look."""
    return len(gap) >= STALLS + 8 and int((gap > SHORTEST_US).sum()) > STALLS


def find(gap, looks=1):
    """(index of the cliff, risk, height in us) in a series of times, or None; @looks is what
    spent() says."""
    if not enough(gap):
        return None
    best = None
    for tall, stalls in heights(gap):
        gain = likelihood(stalls, len(gap))
        gain[len(stalls) - STALLS:] = -np.inf
        cut = int(np.argmax(gain))
        p, d = int(stalls[cut]), len(gap) - int(stalls[cut])
        # Without any before, there is but one place to cut.
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
    """How many times as long writes take from @p on as before, on average."""
    behind, before = (guard.mean(part, "time from write to write") for part in (gap[p:], gap[:p]))
    # Writes before it that take no time at all are exceeded by any.
    return behind / max(before, 1e-3)


def heights(gap):
    """(height, which are as high) for each kind of stall of which there are enough; what
    is the same stalls again is not another kind."""
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
    """As long as the first without a stall, how many there are from its half on."""
    p = int(stalls[0])
    return (n - p // 2) // p if p >= 8 else 0


def find_regular(gap, looks=1):
    """As find(), of a cache that cleans as regularly as it begins; and whether there
    was anything to look at."""
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

    Of many parts of a cache some are full before the others, and stalls become more
    frequent more than once: as long as those in front are crowded towards the end, by
    chance with less than RISK, it is the first of the crowd.  And one by itself shortly
    before belongs to them if it took as long as they do, where they are all alike and
    nothing else ever took that long."""
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
    """Which of these took about as long as @usual."""
    return np.abs(guard.ratio(stalls, usual, "stalls against their median") - 1) < ALIKE


class Follower:
    """Takes chunks as they come; keeps a picture of all and the tail in full."""

    KEEP = 1 << 21          # gaps in memory: the beginning is thinned out, not lost

    def __init__(self):
        self.gap = np.zeros(0, np.float32)
        self.folded = 0         # writes in front of self.gap whose largest are kept
        self.high = np.zeros(0, np.float32)
        self.mean, self.count = 0.0, 0
        self.cliff = None
        self.looks = self.regular_looks = 0
        self.again = 0          # writes at the next look whether stalls are regular

    def add(self, gap):
        """True as soon as the cliff is certain."""
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
        """The drive is known to have cleaned since write @since, for the first time: the
        cliff is the first of the stalls that are as high as the highest, give or take.

        It is not the first write of all, for which nothing could be cleaned: a drive may
        wake up then.  And if none stands out, as all of them are slow, it is the highest."""
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
        """Whether the rate of stalls can be stated, or so much was written that it is
        low."""
        at, _, tall = self.cliff
        return int((self.gap[at:] > tall).sum()) >= KNOWN or done > 1.5 * at + CHUNK

    def thin(self, most=2000):
        """x (writes), mean and largest gap of bins, for a picture."""
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
    """Times before the cliff @at; where there is none but stalls, those that are none
    wherever they are, and of stalls only, all."""
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

    write(chunk number, first, count) sends count writes and returns their Trace.
    stop(gaps of a chunk), if given, may end it for another reason; @witness has
    written its blocks and says whether they were cleaned.  Chunks grow with
    what was written, and less so among stalls, where one write may take minutes."""
    follow, took, done, number = Follower(), 0.0, 0, 0
    chunk, calm = CHUNK, 0
    if witness:
        # Its writes are small: so many of this size.
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
        # What comes next tells whether stalls are more frequent now: in small steps,
        # as each may take minutes.
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
    # Few sets are full at about the same time, and then none is for long.
    out.rate = out.behind / max(1, done if out.risk == PROVEN else done - at)
    zoom = slice(max(0, at - 200), at + 200)
    out.picture |= {"zoom_x": np.arange(zoom.start, min(zoom.stop, len(follow.gap))),
                    "zoom_us": follow.gap[zoom]}
    return out


def random_writes(s, name, *, size=BLOCK, iodepth=1, span=None, seed=1):
    """A writer for run(): fio's own random writes over the whole drive.

    Without fio's map of what it has written: a block drawn again is one that an earlier
    chunk might have drawn as well, and a map of a large drive takes longer to make
    than a chunk to write."""
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
    """Time from completion to completion, all of it and around the cliff."""
    from . import plots                 # pylint: disable=C0415
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
    # From the stall on, so that those of several drives lie on top of each other.
    plots.dots(axes[1], arrays["zoom_us"] / 1000, "write", arrays["zoom_x"] - cliff)
    plots.logarithmic(axes[1])
    axes[1].axvline(0, color=plots.MARK, linewidth=0.8)
    axes[1].set_xlabel(f"{what}, from the first stall on")
