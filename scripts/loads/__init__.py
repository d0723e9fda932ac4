# SPDX-License-Identifier: GPL-2.0
"""Loads: lists of reads and writes with times, made, converted, measured, replayed."""

from dataclasses import dataclass

import numpy as np

BLOCK = 4096            # bytes
TICKS = 10_000_000      # in a second: those of a Windows file time, as traces have them


class Refused(Exception):
    """What was asked for cannot be had, in a sentence."""


@dataclass
class Requests:
    """A stretch of a load, one entry each, in order.

    tick: when, in units of 100 ns, from anywhere; write; first: of its 4 KiB blocks;
    blocks: how many."""
    tick: np.ndarray
    write: np.ndarray
    first: np.ndarray
    blocks: np.ndarray

    def __len__(self):
        return len(self.tick)

    def __getitem__(self, key):
        """A part of it: a slice, a mask or indices."""
        return Requests(self.tick[key], self.write[key], self.first[key], self.blocks[key])

    @classmethod
    def of(cls, rows):
        """Of a list of tuples (tick, write, first, blocks)."""
        tick, write, first, blocks = zip(*rows) if rows else ((),) * 4
        return cls(np.array(tick, np.int64), np.array(write, bool),
                   np.array(first, np.int64), np.array(blocks, np.int64))


def join(parts):
    """One stretch of several that follow each other."""
    parts = list(parts) or [Requests.of([])]
    return Requests(*(np.concatenate([getattr(p, name) for p in parts])
                      for name in ("tick", "write", "first", "blocks")))


def parts(load, most=1 << 16):
    """A stretch in pieces of @most requests."""
    return (load[i:i + most] for i in range(0, len(load), most))
