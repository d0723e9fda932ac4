# SPDX-License-Identifier: GPL-2.0
"""The parts of tests/guest that need no guest: the table of bad blocks, system calls, and the
verdicts of the replay of power cuts."""

import ctypes
import errno
import random
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from guest import badblock, blk, replay
from guest.bench import Failure
from guest.targets import TARGETS

TOP = Path(__file__).resolve().parents[2]


def table():
    """Return the table of the document: the header and {area: cells}."""
    text = (TOP / "Documentation/design.rst").read_text(encoding="utf-8")
    lines = text.split("Cost of one unwritable block\n")[1].splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("=== ") or "= =" in line][:3]
    edges = [0, *(i + 1 for i, c in enumerate(lines[rules[0]]) if c == " "), None]
    found = [[line[a:b].strip() for a, b in pairwise(edges)]
             for line in lines[rules[0] + 1:rules[2]] if not line.startswith("=")]
    return found[0], {row[0]: row[1:] for row in found[1:]}


def test_document():
    header, rows = table()
    assert header[1:] == list(badblock.LAYERS)
    assert rows == {row.name: [row.cells[name].text for name in badblock.LAYERS]
                    for row in badblock.TABLE}


def test_each_cell_is_a_case():
    """Each cell of the table is tested by a case of the suite."""
    for name in badblock.LAYERS:
        wanted = {f"{row.name}: {row.cells[name].text}" for row in badblock.TABLE
                  if row.cells[name] is not badblock.NONE}
        assert wanted <= {case for case, _ in badblock.cases(TARGETS[name], {})}


def test_each_outcome_is_explained():
    """Each word in the table has an entry in the page's list of outcomes."""
    text = (TOP / "Documentation/design.rst").read_text(encoding="utf-8")
    for row in badblock.TABLE:
        for outcome in row.cells.values():
            word = outcome.text.rstrip("*")
            assert word == "-" or f"\n{word}\n    " in text, word


def answers(monkeypatch, *errors):
    """Let the next system calls fail with @errors, and later ones succeed."""
    left = list(errors)

    def syscall(*_):
        ctypes.set_errno(left[0] if left else 0)
        return -1 if left and left.pop(0) else 7
    monkeypatch.setattr(blk, "_libc", SimpleNamespace(syscall=syscall))


def test_interrupted_call_is_repeated(monkeypatch):
    """A system call that a signal interrupts is repeated."""
    answers(monkeypatch, errno.EINTR, errno.EINTR)
    assert blk._sys(1) == 7


def test_other_errors_raise_oserror(monkeypatch):
    """Any other error raises OSError."""
    answers(monkeypatch, errno.EINTR, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        blk._sys(1)


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
