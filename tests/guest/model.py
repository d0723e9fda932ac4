# SPDX-License-Identifier: GPL-2.0
"""A model of a block device: what it has promised, and what it may hold after a power cut.

The contract of every target: a block is never torn; once a FLUSH completes, every write
acknowledged before the FLUSH was sent survives; once a FUA write completes, it survives.  Data that
are not promised may be there or not, block by block, but a block holds only what was written there:
after a cut the last promised version or any later one.  A discard may turn a block into zeroes, or
leave it.

Versions are increasing numbers.  Every 4 KiB block carries its own address and version in all of
its 256 sixteen-byte units, so that a torn, misplaced or foreign block is recognised by its contents
alone.  Version 0 is zeroes.
"""

import struct
from dataclasses import dataclass

from guest.blk import BLOCK

UNIT = struct.Struct("<4sIQ")
MAGIC = b"STMP"
ZERO = bytes(BLOCK)


def stamp(block, version):
    if not version:
        return ZERO
    return UNIT.pack(MAGIC, version, block) * (BLOCK // UNIT.size)


def read_stamp(data, block):
    """Return (the version that a block holds, ""); (None, a sentence) if it is not valid."""
    unit = data[:UNIT.size]
    if data != unit * (BLOCK // UNIT.size):
        return None, "torn: its parts differ"
    if unit == ZERO[:UNIT.size]:
        return 0, ""
    magic, version, where = UNIT.unpack(unit)
    if magic != MAGIC:
        return None, f"nothing that was ever written: {unit.hex()}"
    if where != block:
        return None, f"the content of block {where}, version {version}"
    return version, ""


@dataclass
class Op:
    block: int
    n: int
    version: int
    soft: bool = False      # a discard, which may have no effect
    acked: int = 0          # time, 0 while in flight
    promised: int = 0       # mark of its own completion (FUA)


class Model:
    """The versions that each block of a device has had, and which of them were promised.  The
    caller never has two writes to one block in flight."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.history = [[] for _ in range(blocks)]
        self.flushes = [(0, 0)]     # (mark, time when the flush was sent)
        self.now = 0
        self.marks = 0
        self.versions = 0

    def tick(self):
        self.now += 1
        return self.now

    def submit(self, block, n, zero=False, soft=False):
        self.versions += 1
        op = Op(block, n, 0 if zero or soft else self.versions, soft)
        for b in range(block, block + n):
            self.history[b].append(op)
        return op

    def data(self, op):
        return b"".join(stamp(b, op.version)
                        for b in range(op.block, op.block + op.n))

    def ack(self, op):
        op.acked = self.tick()

    def promise(self, op):
        """A FUA write has completed; return its mark."""
        self.marks += 1
        op.promised = self.marks
        return self.marks

    def flushed(self, sent):
        """A flush, sent at that time, has completed; return its mark."""
        self.marks += 1
        self.flushes.append((self.marks, sent))
        return self.marks

    def current(self, block):
        """Return the versions that a read may return now, if the power was never cut."""
        return self._from(block, lambda op: op.acked)

    def after_cut(self, block, mark, sent):
        """Return the versions that a block may hold after a cut, if @mark is the last mark in the
        log and @sent the time at which the last flush before it was sent."""
        return self._from(block, lambda op: 0 < op.acked <= sent or
                          0 < op.promised <= mark)

    def _from(self, block, settled):
        found = set()
        for op in reversed(self.history[block]):
            found.add(op.version)
            if not op.soft and settled(op):
                return found
        return found | {0}

    def sent_by(self, mark):
        """Return when the latest flush that counts at this mark was sent."""
        return max(sent for m, sent in self.flushes if m <= mark)

    def compare(self, data, mark=None):
        """Return a sentence for each block with contents that are not allowed: now, or after a cut
        that followed @mark."""
        wrong = []
        sent = None if mark is None else self.sent_by(mark)
        for b in range(self.blocks):
            version, why = read_stamp(data[b * BLOCK:(b + 1) * BLOCK], b)
            may = self.current(b) if mark is None \
                else self.after_cut(b, mark, sent)
            if version is None:
                wrong.append(f"block {b} holds {why}")
            elif version not in may:
                wrong.append(f"block {b} holds version {version}, "
                             f"promised: {sorted(may)}")
        return wrong
