# SPDX-License-Identifier: GPL-2.0
"""Check the citations in comments: each cited file is in this tree, and each cited rule is defined
on a page of papers/."""

import re
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PAPERS = TOP / "Documentation/papers"
ROOMS = ("core", "dm-platter", "dm-stl", "dm-imr", "dm-tiler", "dm-dualbuffer", "userspace")
# A citation of a rule is in brackets, or follows "rule" or "hole": T4, D10, F2, R0, CE-D1.
RULE = r"(?:R[0-7]|[TDF][1-9]\d?|CE-[TDF][1-9]\d?)"
CITED = re.compile(rf"(?:\((?:rule )?|\b(?:rule|rules|hole|holes) )({RULE}(?:(?:, | and |; ){RULE})*)\b")


@cache
def rules():
    """Return the rules that head a definition or a row of a table."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAPERS.glob("*.rst"))
    return set(re.findall(rf"^({RULE})(?=[: ]|$)", text, re.M))


def comments():
    """Yield (file, its comments) for the sources of modules and programs."""
    for room in ROOMS:
        for path in sorted((TOP / room).rglob("*.[ch]")):
            text = path.read_text(encoding="utf-8")
            yield path, "\n".join(re.findall(r"/\*.*?\*/|//[^\n]*", text, re.S))


def test_rules_are_defined():
    assert {"R0", "R7", "T1", "T8", "D1", "D10", "F1", "F8", "CE-T1", "CE-F5"} <= rules()


def test_cited_rules_exist():
    cited = {(path.name, rule) for path, text in comments()
             for found in CITED.findall(text) for rule in re.findall(RULE, found)}
    assert cited, "no comment cites a rule: the pattern is wrong"
    assert not {(name, rule) for name, rule in cited if rule not in rules()}


def test_cited_documents_exist():
    there = {path.name for path in TOP.rglob("*.rst")} | {path.name for path in TOP.rglob("*.md")}
    cited = {(path.name, document) for path, text in comments()
             for document in re.findall(r"[\w-]+\.(?:rst|md)\b", text)}
    assert cited, "no comment cites a document: the pattern is wrong"
    assert not {(name, document) for name, document in cited if document not in there}


def test_papers_are_cited_by_section():
    """Line numbers are useless because the text is not in the tree."""
    lines = [path.name for path, text in comments()
             if re.search(r"\bseed lines?\b|\bspec(?:ification)? \d", text, re.I)]
    assert not lines
