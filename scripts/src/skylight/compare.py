# SPDX-License-Identifier: GPL-2.0
"""Several reports side by side: a table of answers, pictures on top of each other."""

from pathlib import Path

from . import plots, report, report_text

SAME = 0.02             # numbers that differ by less are the same


def names(runs):
    """A name for each run: its folder, with as many parents as distinguish them."""
    parts = [run.folder.resolve().parts for run in runs]
    own = [run.info.get("name") for run in runs]
    if all(own) and len(set(own)) == len(own):
        return own
    depth = 1
    while depth < max(map(len, parts)) and len({p[-depth:] for p in parts}) < len(parts):
        depth += 1
    return ["/".join(p[-depth:]) for p in parts]


def differ(findings):
    """Whether the known values differ."""
    values = [f["value"] for f in findings if report.known(f)]
    if len(values) < 2:
        return False
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return max(values) - min(values) > SAME * max(map(abs, values))
    return any(v != values[0] for v in values)


def table(runs, labels):
    """Answers, with a column for each run; rows that differ are marked."""
    rows = []
    for name in report.order({n for run in runs for n in report.asked(run)}):
        group, question, _ = report.asks(name)
        findings = [run.answers.get(name) for run in runs]
        cells = []
        for label, finding in zip(labels, findings):
            known = report.known(finding)
            cells.append({
                "label": label, "known": known,
                "value": "not asked" if finding is None else report.value(
                    finding["value"], finding.get("unit", ""), name),
                "extra": ", ".join(x for x in (
                    known and report.interval(finding, name),
                    known and report.sure(finding.get("confidence"))[0]) if x)})
        rows.append({"group": group, "question": question, "differs": differ(findings),
                     "cells": cells})
    return report.grouped_rows(rows)


def picture(runs, labels, ident):
    """One test of all runs that have it."""
    draws = []
    for run, label in zip(runs, labels):
        if run.tests.get(ident, {}).get("status") != "done":
            continue
        draws.append((label, _one(run, ident)))
    return report.drawn(lambda figure: plots.overlay(figure, draws),
                        f"c{report.plainly(ident)}") if draws else None


def _one(run, ident):
    draw, stored = report.drawing(ident), report.as_result(run, ident)
    return lambda figure: draw(figure, stored, stored.arrays)


def section(runs, labels, ident):
    results = [(label, run.tests[ident]) for run, label in zip(runs, labels)
               if ident in run.tests]
    missing = [f"{label}: {r['status']}" + (f", {r['why']}" if r.get("why") else "")
               for label, r in results if r["status"] != "done"]
    missing += [f"{label}: not run" for run, label in zip(runs, labels)
                if ident not in run.tests]
    question, _, read = report.about(ident)
    return {"test": ident, "question": question, "read": read, "missing": missing,
            "title": next((r["title"] for _, r in results if r.get("title")), ""),
            "picture": picture(runs, labels, ident)}


def html_of(runs):
    labels = names(runs)
    tests = sorted({i for run in runs for i in run.tests}, key=report.rank)
    return report.PAGES.get_template("compare.html").render(
        labels=labels, runs=[(label, report.facts(run)) for run, label in zip(runs, labels)],
        answers=table(runs, labels), tests=[section(runs, labels, ident) for ident in tests])


def text_of(runs):
    """The table for a terminal."""
    labels = names(runs)
    rows = [["", *labels]]
    for name in report.order({n for run in runs for n in report.asked(run)}):
        findings = [run.answers.get(name) for run in runs]
        rows.append([report_text.ANSWERS.get(name, ("", name))[1], *(
            "-" if f is None else report.value(f["value"], f.get("unit", ""), name)
            for f in findings)])
    wide = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, wide)).rstrip()
                     for row in rows)


def write(folders, path="compare.html"):
    """Writes the page; returns (path, the table as text)."""
    runs = [report.load(folder) for folder in folders]
    with report.sound(*folders):
        page, text = html_of(runs), text_of(runs)
    return report.store(Path(path), page), text
