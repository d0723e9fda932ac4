# SPDX-License-Identifier: GPL-2.0
"""Every suite of tests/guest, over the rows of tests/plan.py."""

import pytest
from conftest import cases


@pytest.mark.parametrize("case", cases("exact"))
def test_exact(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("replay"))
def test_replay(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("faults"))
def test_faults(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("bitflip"))
def test_bitflip(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("badtable"))
def test_badtable(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("fio_verify"))
def test_fio_verify(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("filesystems"))
def test_filesystems(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("ledger"))
def test_ledger(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("torn"))
def test_torn(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("reset"))
def test_reset(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("wcache"))
def test_wcache(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("idle"))
def test_idle(case, guests):
    guests.check(case)


@pytest.mark.parametrize("case", cases("skylight"))
def test_skylight(case, guests):
    guests.check(case)
