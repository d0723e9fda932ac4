# SPDX-License-Identifier: GPL-2.0
"""The blocks that core and the planner expect a write to destroy, against those that dm-platter's
head destroys, on random media without a guest."""

import re
import subprocess

import pytest
from programs import TOP, make


@pytest.fixture(scope="module", autouse=True)
def built():
    make("tests", "check")


def check(*args):
    done = subprocess.run([TOP / "build/tests/windows-check", *map(str, args)],
                          capture_output=True, text=True, timeout=1800)
    media, layouts, _, writes, exact, pairs, guards, destroyed, wrong = map(
        int, re.findall(r"\d+", done.stdout.splitlines()[-1]))
    assert done.returncode == (wrong != 0), done.stdout + done.stderr
    # Media that are all refused, or that destroy nothing, would prove nothing.
    assert layouts > media / 2 and writes > 50 * layouts
    assert destroyed > writes and min(exact, pairs) > writes / 5 and guards > layouts / 2
    return wrong, done.stdout


def test_windows_equal_the_destroyed_blocks():
    """A write destroys no block outside its window, and, where the medium has described itself,
    every block in it. The same holds for two writes that may meet."""
    wrong, text = check(1, 1500)
    assert wrong == 0, text


def test_too_narrow_windows_are_detected():
    """If core assumes a head that is too narrow, the check must find blocks destroyed outside the
    window. Otherwise it would compare nothing."""
    assert check(1, 100, "narrow")[0] > 1000
