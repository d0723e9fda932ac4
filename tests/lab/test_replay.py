# SPDX-License-Identifier: GPL-2.0
"""See tests/guest/replay.py."""

import pytest
from conftest import cases


@pytest.mark.parametrize("case", cases("replay"))
def test_replay(case, guests):
    guests.check(case)
