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
    engines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in engines] == ["stl-set", "stl-full"]
    # A load that never cut the power or never cleaned would prove nothing.
    for line in engines:
        cuts = int(re.search(r"(\d+) power cuts", line)[1])
        steps = int(re.search(r"(\d+) steps", line)[1])
        emptied = int(re.search(r"(\d+) times emptied", line)[1])
        assert cuts > 1000 and steps > 10000 and emptied > 100, line
