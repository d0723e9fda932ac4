# SPDX-License-Identifier: GPL-2.0
"""Skylight's tests, one module each, in the order in which they run.

A module has ID, TITLE, AFTER (tests whose findings it can use), estimate(session) in seconds,
run(session) and draw(figure, result, arrays)."""

import importlib
import importlib.util

MODULES = ("t01", "t01_write_units", "t02", "t03", "t04", "t05", "t06", "t07", "t08", "t09",
           "t10", "t11", "tclean", "t12", "t13", "t14", "t15")


def tests():
    """The modules by their ID, in order."""
    modules = (importlib.import_module(f"{__name__}.{name}") for name in MODULES
               if importlib.util.find_spec(f"{__name__}.{name}"))
    return {module.ID: module for module in modules}


def choose(text, known):
    """The IDs in a list like ``1,2,6-8,clean``, in the order of @known.

    1a, 1b and 1c are one test, 1abc.  Raises ValueError with a sentence."""
    known, chosen = list(known), set()
    alias = {name: "1abc" for name in ("1a", "1b", "1c", "1a-1c")}
    for word in (w.strip().lower() for w in text.split(",")):
        word = alias.get(word, word)
        first, dash, last = word.partition("-")
        if word in known:
            chosen.add(word)
        elif dash and first.isdigit() and last.isdigit() and int(first) <= int(last):
            numbers = range(int(first), int(last) + 1)
            found = [k for k in known if k.isdigit() and int(k) in numbers]
            if len(found) != len(numbers):
                raise ValueError(f"not all of the tests {word} exist; there are "
                                 f"{', '.join(known)}")
            chosen.update(found)
        else:
            raise ValueError(f"there is no test '{word}'; there are {', '.join(known)}")
    return [k for k in known if k in chosen]
