# SPDX-License-Identifier: GPL-2.0
"""Tables of results.  An experiment prints them as text and keeps them in its JSON; `scripts/experiments
report` prints them as reStructuredText for Documentation/reports."""

from collections.abc import Iterable, Mapping
from typing import Any

# (label, key of the figure, format)
Column = tuple[str, str, str]


def cell(value: Any, form: str, width: int = 0) -> str:
    """Return the formatted value, "-" for None, at least @width wide."""
    return f"{'-' if value is None else format(value, form):>{width}}"


class Table:
    """A table with a title.  The first column names the row; all cells are text."""

    def __init__(self, title: str, columns: Iterable[str], rows: Iterable[Iterable[str]] = ()):
        self.title, self.columns = title, list(columns)
        self.rows = [list(row) for row in rows]

    @classmethod
    def of_rows(cls, title: str, columns: Iterable[Column],
                figures: Mapping[Any, Mapping[str, Any]], first: str = "") -> "Table":
        """A row for each of @figures, {name: {key: value}}, with a column for each key."""
        columns = list(columns)
        return cls(title, [first, *(label for label, *_ in columns)], [
            [str(name), *(cell(of[key], form) for _, key, form in columns)]
            for name, of in figures.items()])

    @classmethod
    def of_columns(cls, title: str, rows: Iterable[Column],
                   figures: Mapping[Any, Mapping[str, Any]]) -> "Table":
        """A column for each of @figures, with a row for each key."""
        return cls(title, ["", *map(str, figures)], [
            [label, *(cell(of[key], form) for of in figures.values())] for label, key, form in rows])

    def add(self, name: object, *cells: str) -> None:
        self.rows.append([str(name), *cells])

    def widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(self.columns, *self.rows)]

    def text(self) -> str:
        """Return the table for a terminal: numbers end in line."""
        first, *others = self.widths()
        lines = [self.title] if self.title else []
        for name, *cells in (self.columns, *self.rows):
            lines.append((f"{name:{first}}" + "".join(
                f"  {text:>{width}}" for text, width in zip(cells, others))).rstrip())
        return "\n".join(lines) + "\n"

    def rst(self) -> str:
        """Return a simple table of reStructuredText, without the title."""
        # An empty first cell would continue the row above, and a dash would begin a list.
        columns, *rows = [[".." if i == 0 and not text else "\\-" if text == "-" else text
                           for i, text in enumerate(row)] for row in (self.columns, *self.rows)]
        # A shorter rule would be read as the line over a title.
        widths = [max(4, *map(len, column)) for column in zip(columns, *rows)]
        rule = " ".join("=" * width for width in widths)

        def line(row: list[str]) -> str:
            return " ".join(f"{text:{width}}" for text, width in zip(row, widths)).rstrip()
        return "\n".join([rule, line(columns), rule, *map(line, rows), rule]) + "\n"

    def data(self) -> dict[str, Any]:
        """Return the table as JSON has it."""
        return {"title": self.title, "columns": self.columns, "rows": self.rows}


def of_json(results: Mapping[str, Any]) -> list[Table]:
    """Return the tables of a file that an experiment has written."""
    return [Table(**table) for table in results.get("tables", ())]
