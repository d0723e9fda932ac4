# SPDX-License-Identifier: GPL-2.0
"""Finds out which blocks the drive cleans together.

A block L is written, and other blocks around it; then the drive is made to clean L's band.  The
blocks that moved with L belong to its band.  There are three ways to make the drive clean:

force   L is written again and again.  If each write takes a new place in the log (Test 9),
        L's set, or the log, is full at some point, and the drive cleans it.
age     As force, but the other blocks are written late, when the log that holds L is the oldest.
        A drive with several logs that cleans all of its oldest log moves everything that was
        written together with L.  It moves later writes only if they are in the bands that it
        cleans.  L must stay where it is, so a block beside it, the
        *filler*, is written again and again.  This way needs to know when a log begins (right
        after a cleaning) and how many writes follow until the drive cleans that log.
pause   Nothing is sent until L has moved; each pause is a little longer than the one before.
        L is written first, and *decoys* far from it next: a drive that continues after L's band
        continues with theirs.  Between two rounds the drive cleans everything.

places.py determines where a block is."""

from dataclasses import dataclass, field

import numpy as np

from . import guard
from .load import chain
from .session import BLOCK

DECOYS = 24
LATE, ROOM = 0.87, 0.1      # as shares of the writes from the begin of a log to its cleaning
MANY = 0.2                  # shares of the writes from the begin of a log to its cleaning
FIRST_CHUNK, GROWTH, SMALL_GROWTH = 24, 1.5, 0.125
LONGEST_PAUSE_S = 90
BUDGET = 500_000            # writes in all; they take an hour and a half on a drive
SURE = 3
MISFIT = 0.1                # of all answers may contradict the ends of the band
SIDE, MOST_SIDE = 31, 255   # blocks on each side in one round


@dataclass
class Moved:
    """The result of one cleaning.

    moved: for each block True, False, or None if its reads did not agree; writes: writes to L
    until the drive cleaned (force); pause_s: the pause that sufficed (pause)."""
    moved: list
    writes: int = 0
    pause_s: float = 0.0
    before: np.ndarray | None = None
    cached: np.ndarray | None = None
    after: np.ndarray | None = None
    rewrites_us: np.ndarray = field(default_factory=lambda: np.zeros(0))


class NotMoved(Exception):
    """The drive could not be made to clean; the text says why."""


class Crowded(NotMoved):
    """The blocks of one round fill the cache, so that the drive cleans by itself."""


class BandMembers:
    """Asks one drive.  @rng draws the order of writes."""

    def __init__(self, s, places, rng, *, most_writes):
        self.s, self.places, self.rng = s, places, rng
        self.most_writes = most_writes
        self.pause_s, self.growth = 0.05, 1.25
        self.writes = 0
        self.touched = set()            # offsets that were written
        self.home = {}
        self.most_decoys = DECOYS
        self.full, self.since = {}, {}
        self.turn, self.phase = {}, {}

    def _settled(self, name, offsets):
        """Reads until two passes agree; returns the times, and for each block whether they
        agree."""
        before = self.places.read(name, offsets)
        for _ in range(4):
            after = self.places.read(name, offsets)
            agree = self.places.same(before, after)
            if agree.all():
                break
            before = after
        return after, agree

    def _written(self, asked, before, cached):
        """For each block, whether the cache holds what was written.

        Each block is compared with its place before the first write, not with its last place: that
        may be the slot beside the new one.  A drive that moves bands has no first place; there the
        comparison is no worse than any other."""
        home = [self.home.setdefault(int(b), float(t)) for b, t in zip(asked, before)]
        return ~self.places.same(np.asarray(home), cached) | self.places.in_flash(cached)

    def _verdict(self, asked, before, cached, after, agree):
        """True, False or None for each block: whether it moved.  None also where the write left the
        block in its place: it may have gone home at once."""
        moved = ~self.places.same(cached, after)
        known = agree & self._written(asked, before, cached)
        return [bool(m) if k else None for m, k in zip(moved, known)]

    def force(self, at, others, width=0, name="force"):
        """Writes @at again and again until a block next to it has moved."""
        return self._until_known(self._force, at, others, name,
                                 "so few blocks at once make the drive clean that none can "
                                 "be followed")

    def _until_known(self, once, at, others, name, why):
        """Calls once(@at, @others, @name) until it knows whether most of the blocks moved, and
        returns that; raises Crowded with the reason @why if it never does."""
        others = np.asarray(others, np.uint64)
        for _ in range(8):
            if self.writes > BUDGET:
                raise NotMoved(f"{BUDGET:,} writes were not enough to find out")
            done = once(at, others, name)
            if done and (len(others) < 3 or
                         guard.mean([m is None for m in done.moved], "blocks unknown") < 0.3):
                return done
        raise Crowded(why)

    def _force(self, at, others, name):
        """One round of force(); None if no block can be seen to move."""
        near = self._neighbours(at)
        asked = np.concatenate([near, others])
        self.touched.update([int(at)], asked.tolist())
        before = self.places.read(name, asked)
        # How full the set already is, is unknown: each round begins with another number of writes.
        first, n = np.full(self.rng.integers(16), at), len(near)
        first = np.concatenate([first, self.rng.permutation(others)])
        # The blocks are not written next to each other in the log, so that not all of them can come
        # to lie at their old angles.
        for i, block in enumerate(near):
            first = np.concatenate([first, [block], np.full(i % 2, at)])
        first = first.astype(np.uint64)
        trace = self.s.trace(name, chain((True, first, BLOCK), self.places.ops(asked)))
        cached = self.places.times(trace[len(first):])
        writes, chunk, seen = len(first), self._first_chunk(at, len(first)), \
            [trace.lat_us[:len(first)]]
        watched = self._written(near, before[:n], cached[:n])
        if watched.sum() <= n // 2:
            return None
        taken = self._until_moved(name, at, near, cached[:n], watched, chunk, writes,
                                  self.full.get(at))
        seen.append(taken)
        writes += len(taken)
        self.writes += writes
        # Remember how many writes fill the set, and how many it has had since.
        stall = int(np.argmax(np.concatenate(seen)))
        if at in self.since:
            self.full[at] = self.since[at] + stall
        self.since[at] = writes - stall
        after, agree = self._settled(name, asked)
        moved = self._verdict(asked, before, cached, after, agree)
        return Moved(moved[n:], writes, 0, before[n:], cached[n:], after[n:],
                     np.concatenate(seen))

    def _until_moved(self, name, at, near, cached, watched, chunk, done, full,
                     growth=GROWTH - 1, limit=None):
        """Writes @at, @chunk times first and in small steps then, until one of @near that is
        @watched is no longer where it was @cached.  Returns the latencies of these writes."""
        seen, writes = [], 0
        while True:
            trace = self.s.trace(name, chain((True, np.full(int(chunk), at), BLOCK),
                                             self.places.ops(near)))
            seen.append(trace.lat_us[:int(chunk)])
            writes += int(chunk)
            now = self.places.times(trace[int(chunk):])
            if (watched & ~self.places.same(cached, now)).any():
                again = self.places.read(name, near)
                if (watched & ~self.places.same(cached, again)).any():
                    return np.concatenate(seen)
            if done + writes >= (limit or self.most_writes):
                raise NotMoved(f"{done + writes} writes to one block have not made the drive "
                               "clean its band")
            chunk = min(max(FIRST_CHUNK, full // 16 if full else (done + writes) * growth),
                        50_000)
            self.s.progress(None, None)

    def age(self, at, others, width=0, name="age"):
        """Writes @others when the drive is about to clean the log that holds @at."""
        return self._until_known(self._age, at, others, name,
                                 "when the drive will clean can't be foreseen")

    def _age(self, at, others, name):
        """One round of age(); None if the round served to find out when logs begin.

        phase: writes since a log began; turn: writes from there to its cleaning."""
        # Blocks in @others are written later.
        near = np.setdiff1d(self._neighbours(at), others)
        if len(near) < 2:
            near = np.setdiff1d(self._neighbours(at, (-6, -5, -4, -3, 3, 4, 5, 6)), others)
        filler, turn, n = self._filler(at, others, near), self.turn.get(at), len(near)
        if turn and len(others) > ROOM * turn:
            raise Crowded("the newest log has too little room")
        asked = np.concatenate([near, others])
        self.touched.update([int(at), filler], asked.tolist())
        before = self.places.read(name, asked)
        if turn and self.phase[at] > turn // 8:
            # Continue to where a log begins.
            self._fill(name, filler, turn - self.phase[at])
            self.phase[at] = 0
        # See _force(): not next to each other in the log.
        first = np.concatenate([[at], *([block, filler] for block in near)]).astype(np.uint64)
        now = np.array(before)
        trace = self.s.trace(name, chain((True, first, BLOCK), self.places.ops(near)))
        now[:n] = self.places.times(trace[len(first):])
        done = self.phase.get(at, 0) + len(first)
        self.writes += len(first)
        watched = self._written(near, before[:n], now[:n])
        if watched.sum() <= n // 2:
            self.phase[at] = done
            return None
        if turn:
            late = max(0, int(LATE * turn) - done)
            self._fill(name, filler, late)
            order = self.rng.permutation(others)
            trace = self.s.trace(name, chain((True, order, BLOCK), self.places.ops(asked)))
            seen = self.places.times(trace[len(order):])
            done += late + len(order)
            if (watched & ~self.places.same(now[:n], seen[:n])).any():
                # The drive has cleaned already: no log began where phase has it.
                del self.turn[at], self.phase[at]
                return None
            now = seen
        took = self._until_moved(name, filler, near, now[:n], watched,
                                 max(FIRST_CHUNK, turn - done) if turn else FIRST_CHUNK,
                                 # Other writes to the logs may have made Test 6 end sooner.
                                 done, turn, SMALL_GROWTH, 2 * self.most_writes)
        self.writes += len(took)
        # The next log begins at the cleaning.
        stall = int(np.argmax(took))
        if at in self.phase:
            self.turn[at] = done + stall
        self.phase[at] = len(took) - stall
        if not turn:
            return None
        after, agree = self._settled(name, asked)
        moved = self._verdict(asked, before, now, after, agree)
        return Moved(moved[n:], len(took), 0, before[n:], now[n:], after[n:], took)

    def _filler(self, at, others, near):
        """A block near @at that is in neither @others nor @near."""
        taken = {at, *others.tolist(), *near.tolist()}
        step = BLOCK if at < self.s.dev.bytes // 2 else -BLOCK
        return next(o for o in range(int(at) + 3 * step, int(at) + 10_000 * step, step)
                    if o not in taken)

    def _fill(self, name, filler, count):
        """Writes @filler @count times."""
        while count > 0:
            self.s.trace(name, (True, np.full(min(count, 50_000), filler), BLOCK))
            self.writes += min(count, 50_000)
            count -= 50_000

    def _first_chunk(self, at, done):
        """Nearly as many writes as the set still takes, if that is known."""
        if at not in self.full:
            return FIRST_CHUNK
        return max(FIRST_CHUNK, self.full[at] - self.since[at] - done)

    def _neighbours(self, at, away=(-2, -1, 1, 2)):
        """Blocks on both sides of @at: those on one side may be in the next band."""
        last = self.s.dev.bytes // BLOCK * BLOCK - BLOCK
        return np.asarray([o for o in (at + i * BLOCK for i in away)
                           if 0 <= o <= last], np.uint64)

    def decoys(self, at, width):
        """Blocks at twice @width from @at and further, on both sides, within the drive."""
        last = self.s.dev.bytes * 9 // 10 // BLOCK
        away = np.outer([1, -1], width * (2 + 0.75 * np.arange(self.most_decoys // 2)))
        return (np.mod(at // BLOCK + away.ravel().astype(np.int64), last) *
                BLOCK).astype(np.uint64)

    def pause(self, at, others, width=0, name="pause"):
        """Leaves the drive alone until @at has moved, and little longer.  If decoys, which are
        written later, have moved as well, it repeats the round with a shorter pause.  @width:
        blocks around @at that the caller asks about."""
        others = np.asarray(others, np.uint64)
        for attempt in range(8):
            decoys = np.setdiff1d(self.decoys(at, width or 4096), others)
            try:
                done, also = self._pause(at, others, self.rng.permutation(decoys), name)
            except Crowded:
                if attempt >= 3 and len(others) > 1:
                    raise
                continue
            known = [m for m in also if m is not None]
            if not known or guard.mean(known, "decoys that moved") <= MANY:
                return done
            self.pause_s, self.growth = max(0.02, 0.85 * self.pause_s), 1.02
        raise NotMoved("an idle drive cleans too many bands at once to tell single "
                       "bands apart")

    def _pause(self, at, others, decoys, name):
        watched = np.concatenate([[at], self._neighbours(at)]).astype(np.uint64)
        n = len(watched)
        asked = np.concatenate([watched, decoys, others]).astype(np.uint64)
        self.touched.update(asked.tolist())
        before = self.places.read(name, asked)
        # See _force(): not next to each other in the log.
        first = np.concatenate([[at], decoys[:3], watched[1:3], decoys[3:10], watched[3:],
                                decoys[10:], self.rng.permutation(others)])
        trace = self.s.trace(name, chain((True, first.astype(np.uint64), BLOCK),
                                         self.places.ops(asked)))
        cached = self.places.times(trace[len(first):])
        self.writes += len(first)
        if self._written(watched, before[:n], cached[:n]).sum() <= n // 2:
            # The set was full before all blocks were written; the drive has cleaned it.
            self.most_decoys = max(4, self.most_decoys // 2)
            raise Crowded("what was written was cleaned before it could be read")
        wait = self.pause_s
        while True:
            self.s.pause(wait, "until the drive has cleaned a block")
            if self._gone(name, watched, cached[:n]) and self._gone(name, watched, cached[:n]):
                break
            if wait > LONGEST_PAUSE_S:
                raise NotMoved(f"a block that was written is where it was after a pause "
                               f"of {wait:.0f} s")
            wait *= self.growth
        # Begin the next round with a little less, and approach the border slowly.
        shorter = guard.ratio(wait, self.growth ** 1.5, "pause")
        self.pause_s, self.growth = max(0.02, shorter), 1.04
        after, agree = self._settled(name, asked)
        moved = self._verdict(asked, before, cached, after, agree)
        self.drain(name, asked, cached)
        d = n + len(decoys)
        return (Moved(moved[d:], 0, wait, before[d:], cached[d:], after[d:]), moved[n:d])

    def _gone(self, name, watched, cached):
        return (~self.places.same(cached, self.places.read(name, watched))).any()

    def drain(self, name, asked, cached):
        """Pauses until nearly all of @asked has moved: on a drive that cleans the oldest blocks
        first, the next round must find nothing older in the cache."""
        first, left = 2 * self.s.scale.pause_s, 1.0
        pause = first
        while pause < 32 * first:
            self.s.pause(pause, "until the drive has cleaned the rest")
            now = guard.mean(self.places.same(cached, self.places.read(name, asked)),
                             "blocks that stayed")
            if now <= 0.05 + 2 * self.places.coincidence or (now == left and pause > first):
                return
            left, pause = now, pause * 2


def split(moved):
    """How many blocks at the begin of a row have moved.

    The border is where two consecutive blocks have not moved.  Blocks behind it may have moved as
    part of another band of the same set.  None is skipped."""
    known = [(i, m) for i, m in enumerate(moved) if m is not None]
    for (i, here), (_, there) in zip(known, [*known[1:], (0, False)]):
        if not here and not there:
            return i
    return len(moved)


def spread(inside, outside, most):
    """Up to @most whole numbers strictly between the two, evenly spaced, from @inside on."""
    n = abs(outside - inside) - 1
    if n <= 0:
        return []
    step = 1 if outside > inside else -1
    if n <= most:
        return [inside + step * (i + 1) for i in range(n)]
    return [inside + step * round(guard.ratio((i + 1) * (n + 1), most + 1, "step"))
            for i in range(most)]


class Edges:
    """Searches both ends of the band that holds block number @at.

    clean(at, others, width) makes the drive clean and answers for each block whether it moved;
    width: the largest distance of the ends.  After search(), low and high are the first block of
    the band and the first one behind it, or None if there is no end within @reach blocks."""

    def __init__(self, at, reach, blocks, clean, side=SIDE):
        self.at, self.clean, self.side, self.blocks = at, clean, side, blocks
        self.limits = (max(-1, at - reach), min(blocks, at + reach))
        self.width = max(2, reach // 8)
        self.rounds = []
        self.low = self.high = None
        self.doubtful = ""

    def _ask(self, rows):
        """Asks about the rows below and above @at, each ordered from @at outwards."""
        flat = [n for row in rows for n in row]
        moved = self.clean(self.at, flat, self.width) if flat else []
        self.rounds.append((flat, moved))
        return moved[:len(rows[0])], moved[len(rows[0]):]

    def _doubling(self, direction, limit):
        out, step = [], 1
        while step < (limit - self.at) * direction:
            out.append(self.at + direction * step)
            step *= 2
        return out

    def search(self):
        """Runs the rounds; True if both ends were found."""
        for _ in range(3):
            brackets = self._brackets()
            if brackets is None:
                return False
            if self._settle(brackets):
                self.doubtful = ""
                return True
        return False

    def _brackets(self):
        rows = [self._doubling(-1, self.limits[0]), self._doubling(1, self.limits[1])]
        # One block of the next band may move, too: a block that stayed twice counts as stayed.
        twice = [self._ask(rows) for _ in range(2)]
        brackets = []
        for i in (0, 1):
            stayed = [False in pair and True not in pair
                      for pair in zip(twice[0][i], twice[1][i])]
            k = stayed.index(True) if True in stayed else len(stayed)
            brackets.append(self._bracket(rows[i], k, self.limits[i]))
        if None in brackets:
            return None
        for _ in range(12):
            # A decoy must not be in a neighbouring band.
            self.width = max(2, brackets[1][1] - brackets[0][1])
            if all(abs(b[1] - b[0]) <= self.side + 1 for b in brackets):
                break
            rows = [spread(*b, self._side(b)) for b in brackets]
            answers = self._ask(rows)
            brackets = [self._narrow(brackets[i], rows[i], answers[i]) for i in (0, 1)]
        return brackets

    def _side(self, bracket):
        """More blocks in a round around a large band, which has as many slots."""
        return int(min(MOST_SIDE, max(self.side, abs(bracket[0] - self.at) // 8)))

    def _bracket(self, row, k, limit):
        """(inside, outside) around an end, if the first @k blocks of the row have moved."""
        if k == len(row):
            end_of_drive = limit in (-1, self.blocks)
            return (row[k - 1] if k else self.at, limit) if end_of_drive else None
        return row[k - 2] if k >= 2 else self.at, row[k]

    def _narrow(self, bracket, row, moved):
        if len(row) <= 3 or abs(bracket[1] - bracket[0]) <= self.side + 1:
            return bracket
        k = split(moved)
        return (row[k - 2] if k >= 2 else bracket[0],
                row[k + 1] if k + 1 < len(row) else bracket[1])

    def _settle(self, brackets):
        """Asks about every block within the brackets until the two blocks at each end have SURE
        more answers for their side than for the other."""
        # The row includes the first block outside, if there is one.
        rows = [spread(*b, self.side) + ([b[1]] if 0 <= b[1] < self.blocks else [])
                for b in brackets]
        votes = [np.zeros(len(r), int) for r in rows]
        for _ in range(SURE + 4):
            for vote, answers in zip(votes, self._ask(rows)):
                vote += np.asarray([0 if m is None else 1 if m else -1 for m in answers], int)
            ends = [self._end(brackets[i], rows[i], votes[i]) for i in (0, 1)]
            if None not in ends and self._fits(*ends):
                self.low, self.high = ends[0], ends[1] + 1
                return True
        self.doubtful = f"{SURE + 4} cleanings did not agree on the ends of a band"
        return False

    def _end(self, bracket, row, vote):
        """The last block inside, or None if the votes are not clear."""
        inside, outside = bracket
        k = split([None if v == 0 else v > 0 for v in vote])
        if (k == 0 and inside != self.at) or (
                k == len(row) and outside not in (-1, self.blocks)):
            return None
        if (k and vote[k - 1] < SURE) or (k < len(row) and vote[k] > -SURE):
            return None
        return row[k - 1] if k else inside

    def _fits(self, first, last):
        """Whether at most a share of MISFIT of all answers so far contradicts these ends."""
        known = [(first <= b <= last) == m for asked, moved in self.rounds
                 for b, m in zip(asked, moved) if m is not None]
        return bool(known) and guard.mean(known, "answers that fit") >= 1 - MISFIT
