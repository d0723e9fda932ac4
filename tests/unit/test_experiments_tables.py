# SPDX-License-Identifier: GPL-2.0
"""Tables of experiments, as text and in the pages of Documentation, which have them from
Documentation/reports/data."""

import json

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from experiments import report, runner
from experiments.__main__ import NAMES
from experiments.tables import Table, of_json

TABLE = Table.of_rows("three disks", (("MB/s", "speed", ".1f"), ("moves", "n", ",d")), {
    "plain": {"speed": 1234.56, "n": None}, "": {"speed": 2, "n": 4000}})


def cells(text):
    """Return the cells of the only table in a text, as docutils reads them."""
    table, = publish_doctree(text).findall(nodes.table)
    return [[entry.astext() for entry in row.findall(nodes.entry)]
            for row in table.findall(nodes.row)]


def test_text_and_rst_have_the_same_cells():
    assert TABLE.text().splitlines() == [
        "three disks", "         MB/s  moves", "plain  1234.6      -", "          2.0  4,000"]
    assert cells(TABLE.rst()) == [["", "MB/s", "moves"], ["plain", "1234.6", "-"],
                                  ["", "2.0", "4,000"]]


def test_columns_of_figures():
    table = Table.of_columns("", (("response", "ms", ".2f"),), {"a": {"ms": 1}, "b": {"ms": None}})
    assert (table.columns, table.rows) == (["", "a", "b"], [["response", "1.00", "-"]])


def test_json_has_the_tables_that_were_shown(tmp_path, capsys):
    """The JSON of an experiment has its results and all tables that it has printed."""
    options = runner.Parser("demo", None).parse_args(["--json", str(tmp_path / "json")])
    runner.keep(options, {"n": 1})
    runner.show(options, TABLE)
    runner.show(options, Table("another", ["x"], [["1"]]))
    got = json.loads((tmp_path / "json").read_text())
    assert got["experiment"] == "demo" and got["results"] == {"n": 1} and got["options"] == {}
    first, second = of_json(got)
    assert first.data() == TABLE.data() and second.title == "another"
    assert TABLE.text() in capsys.readouterr().out
    assert json.loads(report.text_of(got)) == got


def test_a_page_gets_the_tables_of_its_data(tmp_path):
    """Only the tables that a comment names are written again."""
    (tmp_path / "a.json").write_text(json.dumps({"tables": [TABLE.data()]}))
    old = "=== ===\n\\   a\n=== ===\n1   2\n=== ===\n"
    text = f"Page\n\n.. table a.json: three disks\n\n{old}\nEnd.\n\n{old}"
    new = report.updated(text, tmp_path)
    assert new == f"Page\n\n.. table a.json: three disks\n\n{TABLE.rst()}\nEnd.\n\n{old}"
    assert report.updated(new, tmp_path) == new
    with pytest.raises(SystemExit, match="a.json has 0 tables with the title 'two disks'"):
        report.updated(text.replace("three", "two"), tmp_path)


def test_pages_have_the_tables_of_the_data():
    """Each comment is followed by the table that the data have, and each table of the data is in
    a page."""
    used = set()
    for path, text in report.pages().items():
        assert report.updated(text) == text, f"{path}: scripts/experiments report --update"
        places = [(m["file"], m["title"]) for m in report.PLACE.finditer(text)]
        assert len(places) == sum(line.startswith(".. table ") for line in text.splitlines()), path
        used |= set(places)
    known = {(path.name, table.title) for path in report.DATA.glob("*.json")
             for table in report.of_file(path)}
    assert used == known and known


@pytest.mark.parametrize("path", sorted(report.DATA.glob("*.json")), ids=lambda path: path.stem)
def test_data_name_their_measurement(path):
    """Each file of data names the experiment, the day and the commit."""
    of = json.loads(path.read_text(encoding="utf-8"))
    assert of["experiment"] in NAMES and of["commit"] and len(of["measured"]) == 10
    assert path.read_text(encoding="utf-8") == report.text_of(of)
