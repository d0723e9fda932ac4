# SPDX-License-Identifier: GPL-2.0
"""Determines from outside where a block is.

A read that follows the read of another block takes a time that depends on the angle between
the two.  So each block is read behind an *anchor*, a block that no test writes.  Two such
times of one block, taken at different moments, are equal modulo a rotation if the block is in
its place.  They differ if it was moved, except with the probability that a random angle is
within the tolerance of the old one (``Places.coincidence``)."""

import numpy as np

from . import guard
from .session import BLOCK

ANCHORS = 61                # several, as drives keep what they have read
ANCHOR_STEP = 37            # blocks
ROOM = 0.05                 # of the drive, for anchors
MOST_COINCIDENCE = 0.08
FLASH_US = 700.0            # no head moves anywhere in less
LEAST_ROTATION_US = 3000    # 20,000 rpm
MOST_ROTATION_US = 34000    # 1,800 rpm


class Places:
    """Reads by pairs on one drive.

    calibrate() measures rotation_us and tolerance_us, and returns whether latencies show
    places."""

    def __init__(self, s, anchor):
        self.s = s
        self.anchor = anchor // BLOCK * BLOCK
        room = int(s.dev.bytes * ROOM) // BLOCK
        self.anchors = max(1, min(ANCHORS, room))
        self.step = max(1, min(ANCHOR_STEP, room // ANCHORS)) * BLOCK
        self.rotation_us = None
        self.tolerance_us = None
        self.flash_us = None
        self.coincidence = 1.0
        self.why = ""

    def ops(self, offsets):
        """Requests that read each of @offsets behind an anchor."""
        offsets = np.asarray(offsets, np.uint64)
        both = np.empty(2 * len(offsets), np.uint64)
        # Each block always has the same anchor, so that its times can be compared.
        which = (offsets // np.uint64(BLOCK) * np.uint64(7919)) % np.uint64(self.anchors)
        both[0::2] = np.uint64(self.anchor) + which * np.uint64(self.step)
        both[1::2] = offsets
        return False, both, BLOCK

    def times(self, trace):
        """Latencies of the blocks themselves, of a trace that ends with ops()."""
        return trace.lat_us[1::2]

    def read(self, name, offsets):
        """Latency of each block behind its anchor, in microseconds."""
        return self.times(self.s.trace(name, self.ops(offsets)))

    def calibrate(self, offsets):
        """Measures rotation and tolerance; True if it can distinguish places.

        @offsets: about 32 blocks all over the drive that are not moving."""
        again = self.s.trace("rotation", (False, np.full(25, offsets[0]), BLOCK)).lat_us[1:]
        middle = guard.median(again, "reads of one block")
        rotating = (LEAST_ROTATION_US < middle < MOST_ROTATION_US and
                    guard.mean(abs(again - middle) < 0.02 * middle, "reads of one block") > 0.8)
        if rotating:
            self.rotation_us = middle
        first, second = (self.read("repeat", offsets) for _ in range(2))
        if not rotating:
            # The block came from a buffer, or there is no platter.  Without the period, only equal
            # times are equal places.
            self.rotation_us = None
        noise = self.apart(first, second)
        # One or two of 32 reads may have been disturbed.
        self.tolerance_us = max(25.0, 2.5 * guard.quantile(noise, 0.9, "reads that are repeated"))
        width = self.rotation_us or (guard.quantile(first, 0.95, "reads") -
                                     guard.quantile(first, 0.05, "reads"))
        self.coincidence = min(1.0, 2 * self.tolerance_us / max(width, 1e-9))
        if self.coincidence > MOST_COINCIDENCE:
            self.why = ("reading tells no places apart here: times of different blocks "
                        f"differ by {width:.0f} us, those of the same by "
                        f"{self.tolerance_us:.0f}")
            if guard.quantile(first, 0.9, "reads") < FLASH_US:
                usual = guard.median(first, "reads")
                self.why = ("blocks all over the drive are read too quickly for a head, in "
                            f"{usual:.0f} us: they come from memory or flash, and what is below "
                            "does not show")
        return not self.why

    def learn_flash(self, times):
        """Learns from blocks that were just written: if nearly all were read without a seek,
        they are in flash or memory."""
        if guard.quantile(times, 0.9, "reads of what was written") < FLASH_US:
            self.flash_us = FLASH_US
        return self.flash_us is not None

    def in_flash(self, times):
        """For each block, whether it was in flash."""
        times = np.asarray(times)
        return times < self.flash_us if self.flash_us else np.zeros(len(times), bool)

    def apart(self, one, other):
        """Difference of times, in microseconds, modulo a rotation."""
        gap = np.abs(np.asarray(one, float) - np.asarray(other, float))
        if self.rotation_us:
            gap = np.mod(gap, self.rotation_us)
            gap = np.minimum(gap, self.rotation_us - gap)
        return gap

    def same(self, one, other):
        """For each block, whether it was at the same place at both times."""
        return np.where(self.in_flash(one) | self.in_flash(other),
                        self.in_flash(one) == self.in_flash(other),
                        self.apart(one, other) <= self.tolerance_us)
