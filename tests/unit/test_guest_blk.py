# SPDX-License-Identifier: GPL-2.0
"""Tests of the parts of tests/guest/blk.py that need no device."""

import ctypes
import errno
from types import SimpleNamespace

import pytest


from guest import blk


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
