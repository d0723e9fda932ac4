# SPDX-License-Identifier: GPL-2.0
"""See tests/guest/fio_verify.py."""

import pytest
from conftest import cases


@pytest.mark.parametrize("case", cases("fio_verify"))
def test_fio_verify(case, guests):
    guests.check(case)
