# SPDX-License-Identifier: GPL-2.0
"""Check that no struct of the modules and of userspace has more than 25 members of its own.

Larger ones group what changes together, so that the comment of each group can name its lock."""

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
MOST = 25
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRUCT = re.compile(r"^(?:typedef )?struct (\w+) \{\n(.*?)^\}", re.M | re.S)
# Structs that are still too large, with the number of their members.
LARGE = {}

# The public statistics of a store: one counter a row, and their order is the library's ABI.
LARGE["kv_stats"] = 39


def members(body):
    """Return the number of members of a struct; a nested struct is one."""
    for brackets in (r"\{[^{}]*\}", r"\([^()]*\)", r"\[[^][]*\]"):
        count = 1
        while count:
            body, count = re.subn(brackets, "", body)
    return sum(one.count(",") + 1 for one in body.split(";") if one.strip())


def structs():
    found = {}
    for room in ("core", "dm-platter", "dm-stl", "dm-imr", "dm-tiler", "dm-dualbuffer",
                 "userspace"):
        for path in sorted((TOP / room).rglob("*.[ch]")):
            text = COMMENT.sub("", path.read_text(encoding="utf-8"))
            found.update({name: members(body) for name, body in STRUCT.findall(text)})
    return found


def test_members_are_counted():
    assert members("\tint a, *b;\n\tu8 c[2][3];\n\tvoid (*d)(int x, int y);\n"
                   "\tstruct e *f;\n\tstruct {\n\t\tbool g : 1;\n\t\tint h;\n\t} i;\n") == 6
    assert len(structs()) > 100


def test_no_struct_is_too_large():
    assert {name: nr for name, nr in structs().items() if nr > MOST} == LARGE
