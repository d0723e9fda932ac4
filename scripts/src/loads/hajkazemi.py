# SPDX-License-Identifier: GPL-2.0
"""Loads after Hajkazemi, Abdi and Desnoyers, "Minimizing Read Seek for SMR Disk": the three patterns
of writes of its Figure 7, synthetic loads with the counts of its Table I, and a load for a finite disk,
which the paper does not have."""

from dataclasses import dataclass

import numpy as np

from . import generate
from .requests import BLOCK, TICKS, Refused, Requests

PIECE = 16              # blocks of a write of a pattern: 64 KiB
PIECES = 32             # pieces of a burst, which are one range of addresses
CHUNK = 8               # pieces that "shuffled" writes in random order
STREAMS = 4             # of "interleaved"
READ = 32               # blocks of a read of a pattern
PATTERNS = ("descending", "shuffled", "interleaved")
UPDATES = "updates"
RANGE = 256             # blocks of a range of "updates": 1 MiB
RANGES = 256
HOT = 10                # one range in HOT is hot
UPDATE = 4              # blocks of a write of it


@dataclass(frozen=True)
class Trace:
    """A row of Table I; sizes in KiB.  read_kib is None where the volume that was read contradicts
    another column: w76, w36, w89 and w106 have the volumes of other rows."""
    reads: int
    writes: int
    write_kib: float
    read_kib: float | None

    @property
    def set(self):
        """The collection: MSR traces have names of a host and a disk."""
        return "MSR Cambridge" if self in _MSR else "CloudPhysics"


TABLE = {
    "w84": Trace(655397, 4158838, 31.2, 21.9), "w95": Trace(1264721, 2672520, 10.8, 25.1),
    "w64": Trace(6434453, 1023814, 37.8, 65.1), "w93": Trace(2928984, 422470, 28.3, 41.4),
    "w20": Trace(19652684, 10189634, 34.25, 125.5), "w91": Trace(3147384, 1169222, 17.1, 17.6),
    "w76": Trace(258852, 5817421, 35.7, None), "w36": Trace(113090, 18802536, 141.8, None),
    "w89": Trace(1536898, 2089042, 31.7, None), "w106": Trace(576666, 2699254, 21.2, None),
    "w55": Trace(7797622, 1057909, 18.2, 4.8), "w33": Trace(7603814, 8013607, 31.6, 32.8),
    "usr_0": Trace(904483, 1333406, 10.2, 40.9), "src2_2": Trace(350930, 805955, 51.1, 67.8),
    "hm_1": Trace(580896, 28415, 19.9, 14.8), "web_0": Trace(606487, 1423458, 8.5, 29.9),
    "usr_1": Trace(41426266, 3857714, 15.2, 52.6), "wdev_0": Trace(229529, 913732, 8.2, 12.3),
    "mds_0": Trace(143973, 1067061, 7.2, 23.3), "rsrch_0": Trace(133625, 1300030, 8.7, 10.2),
    "ts_0": Trace(316692, 1485042, 8.0, 13.6),
}
_MSR = tuple(row for name, row in TABLE.items() if "_" in name)
SYNTHETIC = 50_000          # requests of a synthetic load, if no number is given
ASSUMED_READ_KIB = 32.0


def order(kind, rng):
    """Return the order in which the pieces of a burst are written."""
    pieces = np.arange(PIECES)
    if kind == "descending":
        return pieces[::-1]
    if kind == "shuffled":
        return rng.permuted(pieces.reshape(-1, CHUNK), axis=1).reshape(-1)
    return pieces.reshape(STREAMS, -1).T.reshape(-1)


def pattern(kind, seed, rate, bursts=16, passes=2):
    """Write @bursts ranges, each with its pieces in an order of the paper's Figure 7, then read all
    ranges in sequence @passes times.  "interleaved" ranges are those of several streams."""
    if kind not in PATTERNS:
        raise Refused(f"there is no pattern '{kind}'; there are {', '.join(PATTERNS)}")
    rng = generate.rng_of(seed, kind)
    length = PIECE * PIECES
    base = rng.permutation(bursts) * 2 * length
    writes = np.concatenate([at + PIECE * order(kind, rng) for at in base])
    reads = np.tile((np.sort(base)[:, None] + np.arange(0, length, READ)).reshape(-1), passes)
    first = np.concatenate([writes, reads])
    write = np.arange(len(first)) < len(writes)
    tick = np.cumsum(rng.exponential(TICKS / rate, len(first))).astype(np.int64)
    return Requests(tick, write, first, np.where(write, PIECE, READ))


def synthetic(name, seed, rate, requests=None):
    """Return a load with the share of writes and the mean sizes of a trace of Table I.  The paper says
    nothing about addresses: half of the writes are updates, and half of the reads go to what is
    never written, as generate.Parameters assumes."""
    if name not in TABLE:
        raise Refused(f"Table I has no trace '{name}'; it has {', '.join(TABLE)}")
    row, n = TABLE[name], requests or SYNTHETIC
    share = row.writes / (row.reads + row.writes)
    write_kb = row.write_kib * 1.024
    written = round(n * share * write_kb * 1000 / BLOCK)
    cache = max(1, written // 4)
    load, _ = generate.like(name, generate.Parameters(
        100 * share, 50.0, write_kb, (row.read_kib or ASSUMED_READ_KIB) * 1.024,
        written / cache), cache, 16 * written + 40 * n, seed, rate, n)
    return load


def updates(seed, rate, requests=None):
    """Return a load that rewrites its own data: half of the requests are writes of 16 KiB, half are
    reads that scan ranges of 1 MiB.  A tenth of the ranges gets nine tenths of both (the
    "hot-and-cold" pattern of Rosenblum and Ousterhout 1992, section 3.5)."""
    n = -(-(requests or SYNTHETIC) // (RANGE // READ))
    rng = generate.rng_of(seed, UPDATES)

    def ranges(size):
        hot = HOT * rng.integers(0, RANGES // HOT, size)
        return np.where(rng.random(size) < 0.9, hot, rng.integers(0, RANGES, size))
    # A part is one scan, or as many writes as a scan has reads.
    each = RANGE // READ
    write = np.repeat(rng.random(n) < 0.5, each)
    scan = np.repeat(RANGE * ranges(n), each) + np.tile(READ * np.arange(each), n)
    update = RANGE * ranges(n * each) + UPDATE * rng.integers(0, RANGE // UPDATE, n * each)
    tick = np.cumsum(rng.exponential(TICKS / rate, n * each)).astype(np.int64)
    return Requests(tick, write, np.where(write, update, scan),
                    np.where(write, UPDATE, READ))[:requests or SYNTHETIC]
