# SPDX-License-Identifier: GPL-2.0
"""Reuse of results by --resume: results with the same parameters and the same sources."""

import json

from lab.cache import TOP, digest, read


def sources(names, top=TOP):
    """Return a digest that changes whenever one of these files and directories does."""
    facts = []
    for name in names:
        where = top / name
        for path in sorted(where.rglob("*")) if where.is_dir() else (where,):
            if path == where or path.suffix in (".c", ".h", ".py", ".sh") or \
                    path.name in ("Kbuild", "Makefile"):
                facts += [path.relative_to(top), read(path)]
    return digest(*facts)


def earlier(out, words):
    """Return an earlier result with the same parameters and sources, or None."""
    try:
        of = json.loads(out.read_text())
        return of if of["words"] == words else None
    except (OSError, ValueError, TypeError, KeyError):
        return None
