# SPDX-License-Identifier: GPL-2.0
"""Tests of the replay of power cuts: what it reports as a violation, and what as an error of its
own."""

import errno
import random
from types import SimpleNamespace

import pytest
from guest import replay
from guest.bench import Failure


class Player:
    """Each crash point ends with an error."""

    def __init__(self, error):
        self.error, self.stack = error, self

    def load(self, image):
        pass

    def check(self):
        raise self.error

    def close(self):
        pass


def try_one(error):
    tally = replay.Tally(5)
    replay.try_raw(Player(error), SimpleNamespace(), b"", 0, random.Random(1), tally, "here")
    return tally.lost


@pytest.mark.parametrize("error", [
    Failure("block 3 holds 2"), OSError(errno.EIO, "read"), OSError(errno.EUCLEAN, "load"),
    OSError(errno.ENODATA, "resume"), OSError(errno.EROFS, "clean")])
def test_expected_errors_are_verdicts(error):
    assert try_one(error) == 1


@pytest.mark.parametrize("error", [
    OSError(errno.EBUSY, "remove"), FileNotFoundError(errno.ENOENT, "/dev/dm-3"),
    OSError(errno.ENOMEM, "load"), OSError("cannot be removed: a b")])
def test_other_errors_prove_nothing(error):
    """In particular, such an error does not prove that a lying device was detected."""
    with pytest.raises(OSError):
        try_one(error)
