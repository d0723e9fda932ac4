# SPDX-License-Identifier: GPL-2.0
"""Print the tables of results as reStructuredText.  FILE is what an experiment has written to --json, or
a file in Documentation/reports/data, which has the tables alone.

  scripts/experiments report FILE                 all of its tables
  scripts/experiments report FILE --only WORD     those with WORD in their title
  scripts/experiments report FILE --json OUT      write them to OUT without the other results
  scripts/experiments report --update             write the tables of the pages again

A page of Documentation names each of its tables in a comment, and the table follows:

  .. table layers.json: rsrch_0

Data of a table that is older than --json's tables were copied from the page; their commit is the one
that brought the figures into the page.
"""

import json
import re
from pathlib import Path

from common.output import store
from lab.cache import TOP

from experiments import runner, tables

DATA = TOP / "Documentation/reports/data"
# The comment, and the simple table that follows it.
PLACE = re.compile(r"^\.\. table (?P<file>[\w.-]+\.json): (?P<title>.+)\n\n"
                   r"(?P<table>=[= ]*\n(?:[^=\n].*\n)+=[= ]*\n(?:[^=\n].*\n)+=[= ]*\n)", re.M)


def pages():
    """Return {path: text} of the pages with tables."""
    texts = {path: path.read_text(encoding="utf-8")
             for path in sorted((TOP / "Documentation").rglob("*.rst"))}
    return {path: text for path, text in texts.items() if re.search(r"^\.\. table ", text, re.M)}


def of_file(path):
    return tables.of_json(json.loads(Path(path).read_text(encoding="utf-8")))


def text_of(results):
    """Return the text of a file in Documentation/reports/data: a row of a table is a line."""
    def row(found):
        return "[" + ", ".join(json.dumps(text) for text in json.loads(found[0])) + "]"
    return re.sub(r'\[\s*"[^][]*"\s*\]', row, json.dumps(results, indent=1)) + "\n"


def updated(text, data=DATA):
    """Return the text of a page with its tables as the data have them."""
    def table(place):
        found = [t for t in of_file(data / place["file"]) if t.title == place["title"]]
        if len(found) != 1:
            raise SystemExit(f"report: {place['file']} has {len(found)} tables with the title "
                             f"'{place['title']}'")
        return f".. table {place['file']}: {place['title']}\n\n{found[0].rst()}"
    return PLACE.sub(table, text)


def main():
    p = runner.Parser("report", __doc__)
    p.add_argument("file", nargs="?", type=Path, metavar="FILE")
    p.add_argument("--only", default="", metavar="WORD", help="tables with this word in their title")
    p.add_argument("--update", action="store_true", help="write the tables of the pages again")
    options = p.parse_args()
    if options.update:
        for path, text in pages().items():
            if updated(text) != text:
                store(path, updated(text))
                print(path.relative_to(TOP))
        return 0
    if not options.file:
        p.error("a FILE or --update is needed")
    try:
        results = json.loads(options.file.read_text(encoding="utf-8"))
        found = [t for t in tables.of_json(results) if options.only in t.title]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        p.error(f"{options.file} is no file with results: {error}")
    if options.json:
        results["tables"] = [table.data() for table in found]
        results.pop("results", None)
        store(options.json, text_of(results))
    for table in found:
        print(f".. {table.title}\n\n{table.rst()}")
    return 0
