# SPDX-License-Identifier: GPL-2.0
"""Read and replay the log of dm-log-writes.

Sector 0 holds the superblock; from the next on, a sector of entry header and then its data,
repeatedly (sectors of the size that the superblock names):
 superblock   magic, version, number of entries  le64, sector size  le32
 entry        first sector, sectors (512 bytes), flags, length of a mark
              le64 each; a mark's text follows in the same sector
 data         as written; none for flushes without data, discards, marks

Order: a write is logged when it has completed *and* a flush was sent after that; a FUA write when
it has completed.  So every entry before a FLUSH entry was durable when that flush completed, and an
entry after it need not be.
"""

import struct
from dataclasses import dataclass

from guest import blk
from guest.bench import expect
from guest.blk import BLOCK

FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
SUPER = struct.Struct("<QQQI")
RUIN = b"\xde\xad" * (BLOCK // 2)      # contents of a block that a head destroyed
ENTRY = struct.Struct("<QQQQ")
MAGIC = 0x6a736677736872


@dataclass
class Entry:
    block: int          # of the device
    n: int              # blocks
    flags: int
    at: int = 0         # of the data, in bytes of the log
    mark: str = ""

    def show(self):
        names = [n for bit, n in ((FLUSH, "flush"), (FUA, "fua"),
                                  (DISCARD, "discard")) if self.flags & bit]
        return f"{self.block}+{self.n} {' '.join(names)}".strip()


class Log:
    """All entries, and the data behind them."""

    def __init__(self, path):
        self.dev = blk.Blk(path)
        magic, version, entries, self.sector = SUPER.unpack_from(
            self.dev.read(0))
        expect(magic == MAGIC and version == 1, f"{path} holds no write log")
        self.entries = []
        at = self.sector
        for _ in range(entries):
            entry, at = self._entry(at)
            self.entries.append(entry)

    def bytes(self, at, length):
        first = at // BLOCK
        data = self.dev.read(first, -(-(at + length) // BLOCK) - first)
        return data[at - first * BLOCK:][:length]

    def _entry(self, at):
        head = self.bytes(at, self.sector)
        sector, sectors, flags, length = ENTRY.unpack_from(head)
        after = at + self.sector
        expect(sector % blk.SECTORS == 0 and sectors % blk.SECTORS == 0,
               f"logged write off the 4 KiB grid: {sector}+{sectors}")
        entry = Entry(sector // blk.SECTORS, sectors // blk.SECTORS, flags,
                      after)
        if flags & MARK:
            entry.mark = head[ENTRY.size:ENTRY.size + length].decode()
        elif not flags & DISCARD:
            after += entry.n * BLOCK
        return entry, after

    def data(self, entry):
        return bytes(entry.n * BLOCK) if entry.flags & DISCARD \
            else self.bytes(entry.at, entry.n * BLOCK)

    def close(self):
        self.dev.close()


class Disk:
    """The possible contents of a disk with a volatile cache, entry by entry.

    solid: surely on the medium.  pending: [(block, its data)] in the cache, of which a power cut
    may take any, block by block.  @destroys returns for a block the extents that writing it
    destroys; with @rng the cache reaches the medium in random order, else in that of the writes.
    """

    def __init__(self, log, blocks, destroys=None, rng=None):
        self.log = log
        self.destroys, self.rng = destroys, rng
        self.solid = bytearray(blocks * BLOCK)
        self.pending = []
        self.mark = 0       # the last promise so far

    def apply(self, entry):
        """Process an entry; return True at a FLUSH or FUA boundary."""
        if entry.flags & MARK:
            if entry.mark.isdigit():    # the last mark is log-writes' own
                self.mark = int(entry.mark)
            return False
        if entry.flags & FLUSH:
            for block, data in self._any_order(self.pending):
                self._put(self.solid, block, data)
            self.pending = []
        if entry.n:
            data = self.log.data(entry)
            split = [(entry.block + i, data[i * BLOCK:(i + 1) * BLOCK])
                     for i in range(entry.n)]
            if entry.flags & FUA:
                # Older writes to the same place are superseded in the cache.
                self.pending = [p for p in self.pending if not entry.block
                                <= p[0] < entry.block + entry.n]
                for block, piece in split:
                    self._put(self.solid, block, piece)
            else:
                self.pending += split
        return bool(entry.flags & (FLUSH | FUA))

    def _put(self, image, block, data):
        image[block * BLOCK:(block + 1) * BLOCK] = data
        for first, n in self.destroys(block) if self.destroys else ():
            image[first * BLOCK:(first + n) * BLOCK] = RUIN * n

    def _any_order(self, pending):
        """Shuffle writes, but keep the last one to each block."""
        if not self.rng:
            return pending
        order = list(range(len(pending)))
        self.rng.shuffle(order)
        last = {}
        for i, (block, _) in enumerate(pending):
            last[block] = i
        return [pending[i] for i in order if last[pending[i][0]] == i]

    def image(self, keep):
        """Return the medium if only the pending blocks selected by @keep survive."""
        image = bytearray(self.solid)
        kept = [p for i, p in enumerate(self.pending) if keep(i)]
        for block, data in self._any_order(kept):
            self._put(image, block, data)
        return image
