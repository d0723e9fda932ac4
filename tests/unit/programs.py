# SPDX-License-Identifier: GPL-2.0
"""Loads programs of scripts/ without .py as modules, and builds platter-sim."""

import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def module(name, path):
    """The module in @path, under the name @name."""
    loader = SourceFileLoader(name, str(path))
    made = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(made)
    return made


def platter_sim():
    """With sanitizers: the numbers are the same, and a slip is not missed.  Its name is the
    same as without, and so it has a folder, where all tests find what the first has built."""
    out = TOP / "build/userspace/sanitized"
    subprocess.run(["make", "-s", "-C", str(TOP / "userspace/platter-sim"), f"OUT={out}",
                    "SANITIZE=address,undefined", str(out / "platter-sim")], check=True)
    return str(out / "platter-sim")
