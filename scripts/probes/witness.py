# SPDX-License-Identifier: GPL-2.0
"""Blocks that are written before all others of Tests 6 to 10, and looked for when writes
have stalled: if many of them are no longer where the cache had them, they have gone
home, and the drive cleans.  A cache of few sets need not be filled again and again
until its stalls are seen to be regular; one of many sets has none of these blocks in
the first that it cleans, and stalls have to tell (cliff.py).

Of a lazy drive only: another one cleans in any pause, full or not.

Blocks seem to have gone for other reasons, too: they, or the anchor that they are read
behind, were written again by chance (that is known from the number of writes), or
the angle was read wrongly (as often as of a block that was read twice at once).  More
have gone than that explains at RISK: that is cleaning."""

import numpy as np

from . import guard, stats
from .load import chain
from .places import Places
from .session import BLOCK

BLOCKS, FEWEST = 128, 16
PART = 400              # of a drive, one block: caches have 1 % and more
ANCHOR = 0.93           # of the drive
RISK = 1e-6             # of one look; each stall may bring one
ODD = 0.005             # of the places that are read twice are wrong, at least
EQUAL_LOOKS = 3         # after stalls of about the same height
TALLER = 1.5


class Witness:
    """Asks one lazy drive.  gaps_us: from write to write of the blocks; of() says
    whether there is such a witness."""

    def __init__(self, s, rng):
        self.s, self.odd, self.tallest_us, self.looks = s, ODD, 0.0, 0
        self.places = Places(s, int(s.dev.bytes * ANCHOR))
        blocks = s.dev.bytes // BLOCK
        self.at = np.sort(rng.choice(blocks, min(BLOCKS, blocks // PART), replace=False)).astype(
            np.uint64) * BLOCK
        self.cached, self.gaps_us = None, np.zeros(0)

    def write(self):
        """Writes the blocks; False if nothing can be told from their places."""
        count = len(self.at)
        if count < FEWEST or not self.places.calibrate(self.at[:32]):
            return False
        home = self.places.read("watched", self.at)
        order = self.s.rng("witness").permutation(self.at)
        trace = self.s.trace("watched", chain((True, order, BLOCK), self.places.ops(self.at)))
        self.gaps_us = trace.lat_us[:len(order)]
        self.cached = self.places.times(trace[len(order):])
        self.places.learn_flash(self.cached)
        # Of those nothing will be known that are cached at the angle of their home.
        went = ~self.places.same(home, self.cached)
        self.at, self.cached = self.at[went], self.cached[went]
        again = self.places.read("watched", self.at)
        self.odd = max(ODD, 2 * guard.mean(~self.places.same(self.cached, again),
                                           "blocks read twice")) if len(self.at) else 1.0
        return len(self.at) >= count // 2

    def worth(self, stall_us):
        """Whether a stall may be cleaning: one as high as others that were none, some
        times already, is none either."""
        return stall_us > self.tallest_us * (0.5 if self.looks < EQUAL_LOOKS else TALLER)

    def cleaned(self, written_bytes, stall_us):
        """After so much was written, and the last writes have stalled: have more of the
        blocks left the cache than chance explains?"""
        self.looks = 1 if stall_us > TALLER * self.tallest_us else self.looks + 1
        self.tallest_us = max(self.tallest_us, stall_us)
        gone = np.ones(len(self.at), bool)
        for _ in range(2):
            gone &= ~self.places.same(self.cached, self.places.read("watched", self.at))
        share = self.odd + guard.ratio(2 * written_bytes, self.s.dev.bytes, "share written")
        return stats.upper_tail(int(gone.sum()), len(gone), min(1.0, share)) < RISK


def of(s):
    """(a Witness that has written its blocks, or None; whether blocks were written)"""
    kind = s.finding("drive_type")
    if s.value("cleaning_type") != "lazy" or (kind and kind.value == "conventional"):
        return None, False
    witness = Witness(s, s.rng("watched"))
    return witness if witness.write() else None, len(witness.gaps_us) > 0
