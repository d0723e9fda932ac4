# SPDX-License-Identifier: GPL-2.0
"""Every suite of tests/guest that has a row in tests/plan.py, as test_SUITE."""

import pytest
from conftest import cases
from plan import SUITES


def over(suite):
    @pytest.mark.parametrize("case", cases(suite))
    def test(case, guests):
        guests.check(case)
    return test


globals().update((f"test_{suite}", over(suite)) for suite in SUITES)
