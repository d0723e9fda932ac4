# SPDX-License-Identifier: GPL-2.0
"""Skylight's tests, one module each, in the order in which they run.

A module has ID, TITLE, AFTER (tests whose findings it can use), estimate(session) in seconds,
run(session) and draw(figure, result, arrays)."""

import importlib
import importlib.util

MODULES = ("t01_translation", "t01_write_units", "t02_cache_location", "t03_idle_cleaning",
           "t04_cleaning_progress", "t05_cleaning_order", "t06_raw_size", "t07_map_entries",
           "t08_cache_size", "t09_log_in_order", "t10_log_at_random", "t11_band_size",
           "tclean_band_time", "t12_mapping", "t13_torn_writes", "t14_zones", "t15_streaming")


# `skylight quick` alone runs this one.
QUICK = ("tfilled_neighbours",)


def _modules(names):
    """The modules of these names by their ID, without those that are not installed."""
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names
               if importlib.util.find_spec(f"{__name__}.{name}"))
    return {module.ID: module for module in modules}


def tests():
    """The modules of ``skylight run`` by their ID, in order."""
    return _modules(MODULES)


def module(test_id):
    """The module of a test; ImportError if there is none."""
    try:
        return _modules(MODULES + QUICK)[test_id]
    except KeyError:
        raise ImportError(f"there is no test '{test_id}'") from None


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
