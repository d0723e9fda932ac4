# SPDX-License-Identifier: GPL-2.0
"""The lab's own arithmetic; what it boots is tested by booting."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts/lab"))

# pylint: disable=wrong-import-position,import-error
from labkit import guest


@pytest.fixture(autouse=True)
def own_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "CACHE", tmp_path / "cache")


def test_each_guest_has_a_processor_while_there_are_enough():
    one, first = guest.one_core({4, 2})
    other, second = guest.one_core({4, 2})
    assert (one, other) == ({2}, {4}) and first and second
    shared, third = guest.one_core({4, 2})
    assert shared in ({2}, {4}) and third is None
    first.close()
    again, fourth = guest.one_core({4, 2})
    assert again == {2}
    second.close()
    fourth.close()
