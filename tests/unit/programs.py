# SPDX-License-Identifier: GPL-2.0
"""Build programs that several tests run."""

import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def make(folder, *words):
    """Run make in a directory of the tree, without output unless it fails."""
    subprocess.run(["make", "-s", "-C", TOP / folder, *words], check=True,
                   stdout=subprocess.DEVNULL)


def platter_sim():
    """Build platter-sim with sanitizers and return its path.

    Its results do not depend on the sanitizers. The program keeps its name, so it is built in a
    directory of its own, which all tests share."""
    out = TOP / "build/userspace/sanitized"
    make("userspace/platter-sim", f"OUT={out}", "SANITIZE=address,undefined",
         str(out / "platter-sim"))
    return str(out / "platter-sim")
