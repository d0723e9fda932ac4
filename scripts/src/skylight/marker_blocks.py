# SPDX-License-Identifier: GPL-2.0
"""Blocks that are written before all others of Tests 6 to 10, and read when writes have stalled.

If many of them have left their places in the cache, they have gone home, and the drive
cleans.  With these blocks, a cache of few sets need not be filled repeatedly until its stalls
are known to be regular.  If there are many sets, the first one that is cleaned holds none of
the blocks, and stalls must decide (cliff.py).

This works on a lazy drive only: another one cleans in any pause, full or not.

Blocks also seem to have moved if they, or the anchor in front of them, were written again
(the probability follows from the number of writes), or if the angle was read wrongly (as
often as for a block that is read twice in a row).  If more blocks have moved than that
explains at RISK, the drive cleans."""

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK

BLOCKS, FEWEST = 128, 16
PART = 400              # one block in this many of the drive; caches have 1 % and more
ANCHOR = 0.93           # place on the drive
RISK = 1e-6             # of one look; each stall may bring one
ODD = 0.005             # share of the places read wrongly, at least
EQUAL_LOOKS = 3         # looks after stalls of about the same height
TALLER = 1.5


class MarkerBlocks:
    """Asks one lazy drive.

    gaps_us: time from write to write of the blocks.  of() returns a witness if one is
    possible."""

    def __init__(self, s, rng):
        self.s, self.odd, self.tallest_us, self.looks = s, ODD, 0.0, 0
        self.places = Places(s, int(s.dev.bytes * ANCHOR))
        blocks = s.dev.bytes // BLOCK
        self.at = np.sort(rng.choice(blocks, min(BLOCKS, blocks // PART), replace=False)).astype(
            np.uint64) * BLOCK
        self.cached, self.gaps_us = None, np.zeros(0)

    def write(self):
        """Writes the blocks; False if their places stay unknown."""
        count = len(self.at)
        if count < FEWEST or not self.places.calibrate(self.at[:32]):
            return False
        home = self.places.read("watched", self.at)
        order = self.s.rng("witness").permutation(self.at)
        trace = self.s.trace("watched", chain((True, order, BLOCK), self.places.ops(self.at)))
        self.gaps_us = trace.lat_us[:len(order)]
        self.cached = self.places.times(trace[len(order):])
        self.places.learn_flash(self.cached)
        # Leave out blocks that are cached at the angle of their home: nothing is known about them.
        went = ~self.places.same(home, self.cached)
        self.at, self.cached = self.at[went], self.cached[went]
        again = self.places.read("watched", self.at)
        self.odd = max(ODD, 2 * guard.mean(~self.places.same(self.cached, again),
                                           "blocks read twice")) if len(self.at) else 1.0
        return len(self.at) >= count // 2

    def worth(self, stall_us):
        """Whether a stall may be cleaning.  It is not if several stalls of that height were
        none."""
        return stall_us > self.tallest_us * (0.5 if self.looks < EQUAL_LOOKS else TALLER)

    def cleaned(self, written_bytes, stall_us):
        """Whether more blocks have left the cache than chance explains, after @written_bytes and
        a stall of @stall_us."""
        self.looks = 1 if stall_us > TALLER * self.tallest_us else self.looks + 1
        self.tallest_us = max(self.tallest_us, stall_us)
        gone = np.ones(len(self.at), bool)
        for _ in range(2):
            gone &= ~self.places.same(self.cached, self.places.read("watched", self.at))
        share = self.odd + guard.ratio(2 * written_bytes, self.s.dev.bytes, "share written")
        return stats.upper_tail(int(gone.sum()), len(gone), min(1.0, share)) < RISK


def of(s):
    """(a MarkerBlocks that has written its blocks, or None; whether blocks were written)."""
    kind = s.finding("drive_type")
    if s.value("cleaning_type") != "lazy" or (kind and kind.value == "conventional"):
        return None, False
    witness = MarkerBlocks(s, s.rng("watched"))
    return witness if witness.write() else None, len(witness.gaps_us) > 0
