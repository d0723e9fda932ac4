# SPDX-License-Identifier: GPL-2.0
"""Engines in userspace, under AddressSanitizer: no guest, thousands of cuts."""

import re
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SEED = 1


def test_engines_survive_power_cuts():
    subprocess.run(["make", "-s", "-C", TOP / "userspace", "exercise"], check=True)
    done = subprocess.run([TOP / "build/userspace/shingle-exercise", str(SEED), "400"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    # A load that never cut the power or never cleaned would prove nothing.
    cuts = int(re.search(r"(\d+) power cuts", done.stdout)[1])
    steps = int(re.search(r"(\d+) steps", done.stdout)[1])
    assert cuts > 1000 and steps > 10000, done.stdout
