# SPDX-License-Identifier: GPL-2.0
"""Restart programs that need numpy in a Python that has it."""

import glob
import importlib.util
import os
import sys
from collections.abc import Iterable

MARK = "SHINGLE_PYTHON_TRIED"


def other_pythons() -> list[str]:
    """Return the distribution's Python, and those that scripts/lab/setup made, the newest first."""
    cache = (os.environ.get("SHINGLE_CACHE") or
             os.path.join(os.environ.get("XDG_CACHE_HOME") or
                          os.path.expanduser("~/.cache"), "dm-shingle"))
    made = sorted(glob.glob(os.path.join(glob.escape(cache), "venv*/bin/python")),
                  key=lambda p: os.lstat(p).st_mtime, reverse=True)
    return [p for p in ("/usr/bin/python3", *made) if os.access(p, os.X_OK)]


def missing(names: Iterable[str]) -> list[str]:
    """Return those of the libraries @names that this Python does not have."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def have(module: str, *names: str) -> None:
    """Restart `python3 -m @module` in a Python that has the libraries @names, or say how to get
    them."""
    lacking = missing(names)
    if not lacking:
        os.environ.pop(MARK, None)
        return
    tried = int(os.environ.get(MARK, "0"))
    others = other_pythons()
    if tried < len(others):
        os.environ[MARK] = str(tried + 1)
        os.execv(others[tried], [others[tried], "-BP", "-m", module, *sys.argv[1:]])
    packages = " ".join(f"python3-{name}" for name in names)
    raise SystemExit(f"{module}: no Python here has {' and '.join(lacking)}: "
                     f"apt install {packages}, or run scripts/lab/setup")
