# SPDX-License-Identifier: GPL-2.0
"""A budget of time."""

import time

from .load import LoadError

LAST = .01                  # of the budget is for the end of what is under way


class OutOfTime(LoadError):
    """The budget is used up."""


class Clock:
    """A budget of @seconds, which begins now.  @now is a monotonic clock.

    A load that is under way when the budget ends must come to its own end; the last LAST of the
    budget is left for that."""

    def __init__(self, seconds, now=time.monotonic):
        self.seconds, self.now, self.over = seconds, now, False
        self.begin = now()

    def left(self):
        """Seconds."""
        return (1 - LAST) * self.seconds - self.spent()

    def spent(self):
        """Seconds."""
        return self.now() - self.begin

    def check(self, more=0.0):
        """Raises OutOfTime unless more than @more seconds are left."""
        if self.left() <= more:
            self.over = True
            raise OutOfTime(f"time budget of {self.seconds:g} s is used up")
