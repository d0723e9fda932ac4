# SPDX-License-Identifier: GPL-2.0
"""Measure a load from its requests alone, whatever its origin."""

import math

import numpy as np

from .requests import BLOCK, TICKS

PIECE = 1 << 20         # blocks processed at a time


class Seen:
    """The set of blocks written so far: a bit for each, memory up to the highest."""

    def __init__(self):
        self.bits = np.zeros(1 << 16, np.uint8)

    def __call__(self, blocks):
        """Return which of @blocks (distinct) were in the set, and add all of them."""
        top = int(blocks.max()) >> 3
        if top >= len(self.bits):
            more = np.zeros(max(top + 1, 2 * len(self.bits)), np.uint8)
            more[:len(self.bits)] = self.bits
            self.bits = more
        byte, bit = blocks >> 3, (1 << (blocks & 7)).astype(np.uint8)
        was = (self.bits[byte] & bit) != 0
        np.bitwise_or.at(self.bits, byte, bit)
        return was


class Measure:
    """Measure a load that comes in stretches, for a cache of @cache_blocks.

    The ideal point is the first block allocated in an empty log of that length at which the valid
    blocks in it would no longer fit into the rest.  An update is a write to blocks that were all
    written before.
    """

    def __init__(self, cache_blocks):
        self.cache = int(cache_blocks)
        self.requests = self.writes = self.updates = self.partly = 0
        self.written = self.read = self.distinct = self.end = 0     # blocks
        self.reads_of_written = 0
        self.ideal = self.valid = None
        self.first_tick = self.last_tick = None
        self._seen = Seen()

    def add(self, load):
        """Add the next stretch."""
        if not len(load):
            return
        self.requests += len(load)
        self.end = max(self.end, int((load.first + load.blocks).max()))
        low, high = int(load.tick.min()), int(load.tick.max())
        self.first_tick = low if self.first_tick is None else min(low, self.first_tick)
        self.last_tick = high if self.last_tick is None else max(high, self.last_tick)
        self.read += int(load.blocks[~load.write].sum())
        writes = load[load.write]
        self.writes += len(writes)
        ends, begin = np.cumsum(writes.blocks), 0
        while begin < len(writes):
            base = ends[begin - 1] if begin else 0
            stop = max(begin + 1, int(np.searchsorted(ends, base + PIECE, "right")))
            self._add_writes(writes.first[begin:stop], writes.blocks[begin:stop])
            begin = stop

    def _add_writes(self, first, blocks):
        starts = np.cumsum(blocks) - blocks
        where = np.repeat(first - starts, blocks) + np.arange(int(blocks.sum()))
        distinct, at = np.unique(where, return_index=True)
        new = np.zeros(len(where), np.int64)
        new[at[~self._seen(distinct)]] = 1
        fresh = np.add.reduceat(new, starts)
        self.updates += int((fresh == 0).sum())
        self.partly += int(((fresh > 0) & (fresh < blocks)).sum())
        if self.ideal is None and 2 * (self.written + len(where)) >= self.cache:
            allocated = self.written + 1 + np.arange(len(where))
            valid = self.distinct + np.cumsum(new)
            met = np.flatnonzero(allocated + valid >= self.cache)
            if len(met):
                self.ideal, self.valid = int(allocated[met[0]]), int(valid[met[0]])
        self.written += len(where)
        self.distinct += int(new.sum())

    def result(self):
        """Return {name: number, or None if undefined}."""
        reads = self.requests - self.writes
        span = (self.last_tick - self.first_tick) / TICKS if self.requests else 0

        def share(a, b, times=1.0):
            return times * a / b if b else None
        return {
            "requests": self.requests, "writes": self.writes, "reads": reads,
            "write_percent": share(self.writes, self.requests, 100),
            "update_percent": share(self.updates, self.writes, 100),
            "partly_update_percent": share(self.partly, self.writes, 100),
            "kb_per_write": share(self.written * BLOCK, self.writes, 1e-3),
            "kb_per_read": share(self.read * BLOCK, reads, 1e-3),
            "written_bytes": self.written * BLOCK, "read_bytes": self.read * BLOCK,
            "cache_bytes": self.cache * BLOCK,
            "fills": share(self.written, self.cache),
            "distinct_blocks": self.distinct,
            "ideal_percent": None if self.ideal is None else 100 * self.ideal / self.cache,
            "rho": None if self.ideal is None else self.valid / self.ideal,
            "end_bytes": self.end * BLOCK, "seconds": span,
        }


def measure(stretches, cache_blocks):
    """Return the result for a whole load."""
    counting = Measure(cache_blocks)
    for stretch in stretches:
        counting.add(stretch)
    return counting.result()


# Name in result() and thesis.Row; label; format.
TABLE = (
    ("write_percent", "writes, % of requests", "{:.2f}"),
    ("update_percent", "updates, % of writes", "{:.2f}"),
    ("rho", "rho, distinct of written at the ideal point", "{:.3f}"),
    ("ideal_percent", "ideal point, % of the cache", "{:.2f}"),
    ("fills", "written, caches", "{:.2f}"),
    ("kb_per_write", "KB a write", "{:.1f}"),
    ("kb_per_read", "KB a read", "{:.1f}"),
)
ALONE = (
    ("requests", "requests", "{:,}"), ("written_bytes", "written, bytes", "{:,}"),
    ("read_bytes", "read, bytes", "{:,}"),
    ("distinct_blocks", "blocks written, distinct", "{:,}"),
    ("partly_update_percent", "partly updates, % of writes", "{:.2f}"),
    ("end_bytes", "ends at byte", "{:,}"), ("seconds", "lasts, s", "{:.1f}"),
)


def table(result, row=None):
    """Yield lines: measured values, beside the row of the thesis if there is one."""
    def cell(value, form):
        return "-" if value is None or not math.isfinite(value) else form.format(value)

    head = f"{'':44}{'thesis':>10}{'measured':>16}" if row else f"{'':44}{'measured':>16}"
    yield head
    for name, label, form in TABLE:
        theirs = f"{cell(getattr(row, name), form):>10}" if row else ""
        yield f"{label:44}{theirs}{cell(result[name], form):>16}"
    for name, label, form in ALONE:
        yield f"{label:44}{'':>{10 if row else 0}}{cell(result[name], form):>16}"
