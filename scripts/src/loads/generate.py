# SPDX-License-Identifier: GPL-2.0
"""Generate loads: with the parameters of a trace of the thesis, stationary, or with a given share
of each region of a device valid.  A seed always gives the same load."""

import math
import zlib
from dataclasses import dataclass, replace

import numpy as np

from . import thesis
from .requests import BLOCK, TICKS, Refused, Requests, join

MOST = 256              # blocks of a request at most
SPREADS = np.arange(2.0, 8.01, 0.5)
HALVINGS = 14
EXACT = 1e-3            # relative error in the size of writes at which iteration stops
ENOUGH = 5e-3           # a relative error that needs no longer runs
LEAST_WRITES = 50


@dataclass(frozen=True)
class Parameters:
    """Parameters of a load like that of a trace.

    rho, fills: see thesis.Row; rho None sets no target.  skew: exponent of the Zipf law by which
    extents are rewritten and read.  by: "popularity" (older extents are more popular) or "age"
    (younger ones are).  sequential: least share of new extents that directly follow the one before.
    cold_percent: share of reads that go to blocks that are never written.
    """
    write_percent: float
    update_percent: float
    kb_per_write: float
    kb_per_read: float
    fills: float
    rho: float | None = None
    skew: float = 1.0
    by: str = "popularity"
    sequential: float = 0.5
    cold_percent: float = 50.0

    def checked(self):
        """Return self, or raise Refused if a parameter is out of range."""
        for name, low, high in (("write_percent", 0.01, 100), ("update_percent", 0, 99.99),
                                ("cold_percent", 0, 100), ("skew", 0, 4),
                                ("sequential", 0, 0.999), ("fills", 1e-6, 1e6)):
            if not low <= getattr(self, name) <= high:
                raise Refused(f"{name} is {getattr(self, name):g}, and goes from {low:g} to "
                              f"{high:g}")
        for name in ("kb_per_write", "kb_per_read"):
            if not BLOCK / 1000 <= getattr(self, name) <= MOST * BLOCK / 4000:
                raise Refused(f"{name} is {getattr(self, name):g}, and goes from "
                              f"{BLOCK / 1000:g}, one block, to {MOST * BLOCK / 4000:g}")
        if self.rho is not None and not 0 < self.rho <= 1:
            raise Refused(f"rho is {self.rho:g}, and goes up to 1")
        if self.by not in ("popularity", "age"):
            raise Refused(f"extents are chosen by popularity or by age, not by '{self.by}'")
        return self


PRESETS = {name: Parameters(row.write_percent, row.update_percent, row.kb_per_write,
                            row.kb_per_read, row.fills, row.rho)
           for name, row in thesis.ROWS.items()}


def rng_of(seed, name):
    """Return the random number generator of a load."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def spread_evenly(rng, n):
    """Return @n numbers in (0, 1) in random order, one in each n-th part."""
    return (rng.permutation(n) + rng.random(n)) / max(n, 1)


def sizes(lots, mean):
    """Return sizes in blocks, geometrically distributed with that mean."""
    if mean <= 1:
        return np.ones(len(lots), np.int64)
    n = 1 + np.floor(np.log1p(-lots) / math.log1p(-1 / mean))
    return np.clip(n, 1, MOST).astype(np.int64)


class Ranks:
    """Zipf-distributed ranks below k, with a k for each draw."""

    def __init__(self, most, exponent):
        self.sums = np.cumsum(np.arange(1, max(most, 1) + 1, dtype=float) ** -exponent)

    def __call__(self, lots, k):
        """Return ranks from 0, below @k, which is at least 1."""
        return np.minimum(np.searchsorted(self.sums, lots * self.sums[k - 1]), k - 1)


@dataclass(frozen=True)
class Plan:
    """The free parameters of the solver. fresh, update: mean blocks of a write to new, or to
    written blocks; early: share of writes to new blocks among the first @turn of all writes."""
    fresh: float
    update: float
    early: float
    turn: float
    sequential: float
    staged: bool


def natural(parameters, cache_blocks):
    """Return (writes, requests) that write parameters.fills caches."""
    writes = round(parameters.fills * cache_blocks * BLOCK / (1000 * parameters.kb_per_write))
    return writes, round(writes * 100 / parameters.write_percent)


class Maker:
    """Generate one load like that of a trace.  All random numbers are drawn once in the
    constructor, so that two tries differ only by their plan."""


    def __init__(self, name, parameters, cache_blocks, seed, requests=None):
        self.p, self.cache = parameters.checked(), cache_blocks
        self.mean = self.p.kb_per_write * 1000 / BLOCK
        self.writes, self.requests = natural(self.p, cache_blocks)
        if requests is not None:
            self.requests = requests
            self.writes = round(requests * self.p.write_percent / 100)
        if self.writes < LEAST_WRITES:
            raise Refused(f"that makes {self.writes} writes, {LEAST_WRITES} are the least: "
                          "take a larger --cache-size, or more --requests")
        # The first write always goes to new blocks.
        self.fresh = max(1, self.writes - round(self.writes * self.p.update_percent / 100))
        self.rng = rng_of(seed, name)
        rng = self.rng
        self.is_write = np.zeros(self.requests, bool)
        self.is_write[rng.permutation(self.requests)[:self.writes]] = True
        self.score = spread_evenly(rng, self.writes)
        self.score[0] = -1
        updates = self.writes - self.fresh
        self.lots = {"fresh": spread_evenly(rng, self.fresh), "run": rng.random(self.fresh),
                     "update": spread_evenly(rng, updates), "rank": rng.random(updates)}
        self.ranks = Ranks(self.fresh, self.p.skew)
        self._kept = {}

    def kept(self, name, key, make):
        """Return the result of make(), cached by @key, because most tries differ in few parts."""
        if self._kept.get(name, (None,))[0] != key:
            self._kept[name] = key, make()
        return self._kept[name][1]

    # --- a try ----------------------------------------------------------------

    def kinds(self, plan):
        """Return which writes go to new blocks; and for each of the others the number of extents
        before it and the extent that it updates."""
        turn = min(self.writes, max(1, round(plan.turn * self.writes)))
        early = min(self.fresh, turn, max(1, round(plan.early * turn)))
        early = max(early, self.fresh - (self.writes - turn))
        return self.kept("kinds", (turn, early), lambda: self._kinds(turn, early))

    def _kinds(self, turn, early):
        out = np.zeros(self.writes, bool)
        out[np.argsort(self.score[:turn], kind="stable")[:early]] = True
        out[turn + np.argsort(self.score[turn:], kind="stable")[:self.fresh - early]] = True
        known = np.cumsum(out)[~out]
        return out, known, self.chosen(self.lots["rank"], known)

    def extents(self, plan):
        """Return (blocks, begin of each extent if all lay in a row, run of each extent)."""
        return self.kept("extents", (plan.fresh, plan.sequential), lambda: self._extents(plan))

    def _extents(self, plan):
        blocks = sizes(self.lots["fresh"], plan.fresh)
        begins = self.lots["run"] >= plan.sequential
        begins[0] = True
        return blocks, np.cumsum(blocks) - blocks, np.cumsum(begins) - 1

    def chosen(self, lots, known):
        """Choose one of the first @known extents."""
        rank = self.ranks(lots, known)
        return rank if self.p.by == "popularity" else known - 1 - rank

    def layout(self, plan):
        """Return (new or update, place in the row, blocks) of each write, and the extents."""
        is_fresh, k, which = self.kinds(plan)
        blocks, at, run = self.extents(plan)
        first, size = np.empty(self.writes, np.int64), np.empty(self.writes, np.int64)
        first[is_fresh], size[is_fresh] = at, blocks
        want = sizes(self.lots["update"], plan.update)
        # An update takes what its run holds by now; it begins earlier in the run if that gives
        # more.
        head = np.flatnonzero(np.diff(run, prepend=-1))
        tail = np.append(head[1:], len(run)) - 1
        last = np.minimum(tail[run[which]], k - 1)
        end, low = at[last] + blocks[last], at[head[run[which]]]
        begin = np.maximum(low, np.minimum(at[which], end - want))
        first[~is_fresh], size[~is_fresh] = begin, np.minimum(want, end - begin)
        return is_fresh, first, size, (blocks, at, run)

    def figures(self, plan):
        """Return (mean blocks of a write, rho at the ideal point or None)."""
        is_fresh, _, size, _ = self.layout(plan)
        allocated, valid = np.cumsum(size), np.cumsum(size * is_fresh)
        met = np.flatnonzero(allocated + valid >= self.cache)
        rho = None
        if len(met):
            i = met[0]
            x, v = allocated[i] - size[i], valid[i] - size[i] * is_fresh[i]
            n = -(-(self.cache - x - v) // (2 if is_fresh[i] else 1))
            rho = (v + n * is_fresh[i]) / (x + n)
        return size.mean(), rho

    # --- the solver -------------------------------------------------------------

    def first_plan(self):
        """Return the plan that would fit if no draw were random.

        The sizes of new and updating writes may differ from the mean by @spread at most.  The
        remaining difference in rho is made up by the time of new writes, early or late.
        """
        p, w = self.p, self.mean
        share = self.fresh / self.writes
        plain = Plan(w, w, share, 1.0, p.sequential, False)
        if p.rho is None or share == p.rho == 1:
            return plain
        ideal = 1 / (1 + p.rho)
        for spread in SPREADS if share < 1 else ():
            low, high = max(1.0, w / spread), w * spread
            fresh = min(max(p.rho * w / share, low), high)
            fresh = min(max(fresh, (w - (1 - share) * high) / share),
                        (w - (1 - share) * low) / share)
            if not low - 1e-9 <= fresh <= high + 1e-9:
                continue
            update = (w - share * fresh) / (1 - share)
            if abs(share * fresh / w - p.rho) <= 1e-9:
                return replace(plain, fresh=fresh, update=update)
            early = p.rho * update / (fresh * (1 - p.rho) + p.rho * update)
            turn = ideal * self.cache / (early * fresh + (1 - early) * update) / self.writes
            if turn >= 1:
                continue
            late = (share - turn * early) / (1 - turn)
            if 0 <= late <= 1:
                return Plan(fresh, update, early, turn, p.sequential, True)
        raise Refused(f"no sizes give rho {p.rho:.3f} with {p.update_percent:g} % updates and "
                      f"{self.writes * w / self.cache:.3f} caches written")

    def sized(self, plan):
        """Adjust the size of updates until the mean is right; return the plan, mean and rho."""
        for _ in range(6):
            mean, rho = self.figures(plan)
            if abs(mean / self.mean - 1) < EXACT or self.fresh == self.writes:
                break
            update = plan.update + (self.mean - mean) * self.writes / (self.writes - self.fresh)
            plan = replace(plan, update=min(max(update, 1.0), 2.0 * MOST))
        mean, rho = self.figures(plan)
        return plan, mean, rho

    def turned(self, plan, by):
        """Return the plan with @by times as much new data before the ideal point."""
        if plan.staged:
            return replace(plan, early=min(1.0, plan.early * by))
        share = self.fresh / self.writes
        fresh = max(1.0, plan.fresh * by)
        return replace(plan, fresh=fresh,
                       update=max(1.0, (self.mean - share * fresh) / (1 - share)))

    def matched(self, plan):
        """Bisect until rho is right; return the nearest plan, its error in rho, and its error in
        the size of writes."""
        low, high, best = 0.4, 2.5, None
        for _ in range(HALVINGS):
            by = math.sqrt(low * high)
            tried, mean, rho = self.sized(self.turned(plan, by))
            off = 1.0 if rho is None else abs(rho / self.p.rho - 1)
            if best is None or off < best[1]:
                best = tried, off, abs(mean / self.mean - 1)
            if rho is not None and rho > self.p.rho:
                high = by
            else:
                low = by
        return best

    def attempt(self, plan):
        """Return (plan, error in the size of writes) with all other parameters met."""
        if self.p.rho is None or self.fresh == self.writes:
            plan, mean, _ = self.sized(plan)
            return plan, abs(mean / self.mean - 1)
        plan, _, off = self.matched(plan)
        return plan, off

    def solve(self, show=None):
        """Return the plan.  An update is no longer than its run, so if updates are too small, runs
        become longer, by no more than is needed."""
        show = show or (lambda done, total: None)
        start = self.first_plan()
        plan, off = self.attempt(start)
        show(1, 8)
        if off <= ENOUGH:
            return plan
        low, high, best = start.sequential, 0.99, plan
        for i in range(6):
            middle = 1 - math.sqrt((1 - low) * (1 - high))
            plan, now = self.attempt(replace(start, sequential=middle))
            show(2 + i, 8)
            if now <= ENOUGH:
                high, best = middle, plan
            else:
                low = middle
                if now < off and best.sequential < middle:
                    best, off = plan, now
        return best

    # --- the load ----------------------------------------------------------------

    def make(self, plan, size_blocks, rate):
        """Return the requests on a device of @size_blocks; the last quarter of it is never
        written."""
        is_fresh, first, size, (blocks, at, run) = self.layout(plan)
        cold = size_blocks // 4
        free = size_blocks - cold - int(blocks.sum())
        if free < 0 or cold < MOST:
            least = max(4 * MOST, -(-4 * int(blocks.sum()) // 3) + 1)
            raise Refused(f"a device of {size_blocks * BLOCK} bytes is too small for what is "
                          f"written, {least * BLOCK} would do")
        head = np.flatnonzero(np.diff(run, prepend=-1))
        length = np.add.reduceat(blocks, head)
        # Runs in random order, with random gaps.
        order = self.rng.permutation(len(head))
        gaps = np.sort(self.rng.integers(0, free + 1, len(head)))
        base = np.empty(len(head), np.int64)
        base[order] = gaps + np.cumsum(length[order]) - length[order]
        shift = base - at[head]
        # The place of a write in the row gives its extent, and so its run.
        move = shift[run[np.searchsorted(at, first, "right") - 1]]
        reads = self.requests - self.writes
        out = Requests(self.times(rate), self.is_write, np.zeros(self.requests, np.int64),
                       np.zeros(self.requests, np.int64))
        out.first[self.is_write], out.blocks[self.is_write] = first + move, size
        known = np.cumsum(self.is_write)[~self.is_write]
        known = np.concatenate(([0], np.cumsum(is_fresh)))[known]
        self.reads(out, reads, known, at + shift[run], size_blocks, cold)
        return out

    def reads(self, out, count, known, places, size_blocks, cold):
        """Fill in the reads: of blocks written before, and of blocks that are never written."""
        rng, blocks = self.rng, sizes(spread_evenly(self.rng, count),
                                      self.p.kb_per_read * 1000 / BLOCK)
        warm = np.ones(count, bool)
        warm[rng.permutation(count)[:round(count * self.p.cold_percent / 100)]] = False
        warm &= known > 0
        first = size_blocks - cold + np.floor(
            rng.random(count) * (cold - blocks + 1)).astype(np.int64)
        lots = rng.random(count)
        first[warm] = places[self.chosen(lots[warm], known[warm])]
        out.first[~out.write] = np.minimum(first, size_blocks - blocks)
        out.blocks[~out.write] = blocks

    def times(self, rate):
        """Return Poisson arrivals, @rate a second."""
        return np.cumsum(self.rng.exponential(TICKS / rate, self.requests)).astype(np.int64)


def stationary(kind, cache_blocks, seed, rate, fills=3.0, over_percent=None, exponent=1.0,
               hot_percent=10.0, taking_percent=90.0, requests=None):
    """Generate writes of one block each into a range of @over_percent of the cache, with the same
    distribution from beginning to end: uniform, zipf, or hot."""
    over = {"uniform": 30.0}.get(kind, 50.0) if over_percent is None else over_percent
    for name, value, low, high in (
            ("range", over, 1e-4, 1e5), ("exponent", exponent, 0, 4), ("share of hot blocks",
            hot_percent, 0, 100), ("share of their writes", taking_percent, 0, 100)):
        if not low <= value <= high:
            raise Refused(f"the {name} is {value:g}, and goes from {low:g} to {high:g}")
    span = max(1, round(cache_blocks * over / 100))
    n = requests or round(fills * cache_blocks)
    if n < 1:
        raise Refused("that makes no writes")
    rng = rng_of(seed, kind)
    if kind == "uniform":
        first = rng.integers(0, span, n)
    elif kind == "zipf":
        place = rng.permutation(span)
        first = place[Ranks(span, exponent)(rng.random(n), np.full(n, span))]
    else:
        first = _hot(rng, n, span, hot_percent, taking_percent)[0]
        first = rng.permutation(span)[first]
    return _writes(rng, first, rate)


def _hot(rng, n, span, hot_percent, taking_percent):
    """Return (index below @span for each of @n writes, the number of hot blocks, which come
    first)."""
    hot = min(span, max(1, round(span * hot_percent / 100)))
    to_hot = rng.random(n) * 100 < (taking_percent if hot < span else 100)
    return np.where(to_hot, rng.integers(0, hot, n),
                    rng.integers(min(hot, span - 1), span, n)), hot


def _writes(rng, first, rate):
    tick = np.cumsum(rng.exponential(TICKS / rate, len(first))).astype(np.int64)
    return Requests(tick, np.ones(len(first), bool), first.astype(np.int64),
                    np.ones(len(first), np.int64))


def regions(size_blocks, region_blocks, live_blocks, seed, rate, turns=16.0,
            hot_percent=None, taking_percent=90.0, filled=False):
    """Keep @live_blocks of each whole region of the device valid and rewrite them, @turns blocks
    for each block of the regions: uniformly, or mostly to @hot_percent of each region's valid
    blocks.  First each valid block is written once, unless @filled."""
    if not 0 < live_blocks <= region_blocks:
        raise Refused(f"a region of {region_blocks} blocks does not keep {live_blocks} valid")
    count = size_blocks // region_blocks
    if not count:
        raise Refused("the device is smaller than a region")
    rng = rng_of(seed, "regions")
    live = np.stack([np.sort(rng.permutation(region_blocks)[:live_blocks])
                     for _ in range(count)]) + region_blocks * np.arange(count)[:, None]
    parts = [] if filled else [live.reshape(-1)]
    n = round(turns * count * region_blocks)
    # Hot blocks are spread over the region at random.
    order = rng.permuted(live, axis=1)
    which = rng.integers(0, live_blocks, n) if hot_percent is None else \
        _hot(rng, n, live_blocks, hot_percent, taking_percent)[0]
    parts.append(order[rng.integers(0, count, n), which])
    first = np.concatenate(parts)
    if not len(first):
        raise Refused("that makes no writes")
    return _writes(rng, first, rate)


def like(name, parameters, cache_blocks, size_blocks, seed, rate, requests=None, show=None):
    """Generate a load like that of a trace; return (Requests, Plan).  With fewer requests than the
    trace has, return its first ones; with more, the load goes on in the same way."""
    if requests is not None and requests < natural(parameters.checked(), cache_blocks)[1]:
        load, plan = like(name, parameters, cache_blocks, size_blocks, seed, rate, show=show)
        return load[:requests], plan
    maker = Maker(name, parameters, cache_blocks, seed, requests)
    plan = maker.solve(show)
    return join([maker.make(plan, size_blocks, rate)]), plan
