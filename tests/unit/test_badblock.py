# SPDX-License-Identifier: GPL-2.0
"""The table of bad blocks in Documentation/design.rst is that of the suite `badblock`."""

from itertools import pairwise
from pathlib import Path

from guest import badblock
from guest.targets import TARGETS

TOP = Path(__file__).resolve().parents[2]


def table():
    """Return the table of the document: the header and {area: cells}."""
    text = (TOP / "Documentation/design.rst").read_text(encoding="utf-8")
    lines = text.split("Cost of one unwritable block\n")[1].splitlines()
    rules = [i for i, line in enumerate(lines) if line.startswith("=== ") or "= =" in line][:3]
    edges = [0, *(i + 1 for i, c in enumerate(lines[rules[0]]) if c == " "), None]
    found = [[line[a:b].strip() for a, b in pairwise(edges)]
             for line in lines[rules[0] + 1:rules[2]] if not line.startswith("=")]
    return found[0], {row[0]: row[1:] for row in found[1:]}


def test_document():
    header, rows = table()
    assert header[1:] == list(badblock.LAYERS)
    assert rows == {row.name: [row.cells[name].text for name in badblock.LAYERS]
                    for row in badblock.TABLE}


def test_each_cell_is_a_case():
    """Each cell of the table is tested by a case of the suite."""
    for name in badblock.LAYERS:
        wanted = {f"{row.name}: {row.cells[name].text}" for row in badblock.TABLE
                  if row.cells[name] is not badblock.NONE}
        assert wanted <= {case for case, _ in badblock.cases(TARGETS[name], {})}


def test_each_outcome_is_explained():
    """Each word in the table has an entry in the page's list of outcomes."""
    text = (TOP / "Documentation/design.rst").read_text(encoding="utf-8")
    for row in badblock.TABLE:
        for outcome in row.cells.values():
            word = outcome.text.rstrip("*")
            assert word == "-" or f"\n{word}\n    " in text, word
