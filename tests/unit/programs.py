# SPDX-License-Identifier: GPL-2.0
"""Build programs that several tests run."""

import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def platter_sim():
    """Build platter-sim with sanitizers and return its path.

    Its results do not depend on the sanitizers. The program keeps its name, so it is built in a
    directory of its own, which all tests share."""
    out = TOP / "build/userspace/sanitized"
    subprocess.run(["make", "-s", "-C", str(TOP / "userspace/platter-sim"), f"OUT={out}",
                    "SANITIZE=address,undefined", str(out / "platter-sim")], check=True)
    return str(out / "platter-sim")
