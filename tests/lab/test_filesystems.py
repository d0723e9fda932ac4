# SPDX-License-Identifier: GPL-2.0
"""See tests/guest/filesystems.py."""

import pytest
from conftest import cases


@pytest.mark.parametrize("case", cases("filesystems"))
def test_filesystems(case, guests):
    guests.check(case)
