# SPDX-License-Identifier: GPL-2.0
"""See tests/guest/exact.py."""

import pytest
from conftest import cases


@pytest.mark.parametrize("case", cases("exact"))
def test_exact(case, guests):
    guests.check(case)
