# SPDX-License-Identifier: GPL-2.0
"""Load the programs in scripts/ that have no .py suffix as modules, and build platter-sim."""

import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def module(name, path):
    """Load the program at @path as module @name."""
    loader = SourceFileLoader(name, str(path))
    made = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(made)
    return made


def platter_sim():
    """Build platter-sim with sanitizers and return its path.

    Its results do not depend on the sanitizers. The program keeps its name, so it is built in a
    directory of its own, which all tests share."""
    out = TOP / "build/userspace/sanitized"
    subprocess.run(["make", "-s", "-C", str(TOP / "userspace/platter-sim"), f"OUT={out}",
                    "SANITIZE=address,undefined", str(out / "platter-sim")], check=True)
    return str(out / "platter-sim")
