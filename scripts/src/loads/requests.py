# SPDX-License-Identifier: GPL-2.0
"""A load in memory: requests as arrays."""

from dataclasses import dataclass

import numpy as np

BLOCK = 4096            # bytes
TICKS = 10_000_000      # in a second, as in the Windows file times of traces


class Refused(Exception):
    """A request that cannot be fulfilled; the message is one sentence."""


@dataclass
class Requests:
    """Consecutive requests of a load, one entry of each array for a request.

    tick: the time in units of 100 ns from any origin; write: whether it writes; first: its first 4
    KiB block; blocks: its length in blocks.
    """
    tick: np.ndarray
    write: np.ndarray
    first: np.ndarray
    blocks: np.ndarray

    def __len__(self):
        return len(self.tick)

    def __getitem__(self, key):
        """A part: a slice, a mask or indices."""
        return Requests(self.tick[key], self.write[key], self.first[key], self.blocks[key])

    @classmethod
    def of(cls, rows):
        """Build requests from a list of tuples (tick, write, first, blocks)."""
        tick, write, first, blocks = zip(*rows) if rows else ((),) * 4
        return cls(np.array(tick, np.int64), np.array(write, bool),
                   np.array(first, np.int64), np.array(blocks, np.int64))


def join(parts):
    """Concatenate several stretches."""
    parts = list(parts) or [Requests.of([])]
    return Requests(*(np.concatenate([getattr(p, name) for p in parts])
                      for name in ("tick", "write", "first", "blocks")))


def parts(load, most=1 << 16):
    """Split a stretch into pieces of @most requests."""
    return (load[i:i + most] for i in range(0, len(load), most))
