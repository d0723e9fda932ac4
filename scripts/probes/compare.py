# SPDX-License-Identifier: GPL-2.0
"""Several reports side by side: a table of answers, pictures on top of each other."""

from pathlib import Path

from . import plots, report, words
from .report import esc

SAME = 0.02             # numbers that differ by less are the same


def names(runs):
    """What each run is called: its folder, with as many parents as tell them apart."""
    parts = [run.folder.resolve().parts for run in runs]
    own = [run.info.get("name") for run in runs]
    if all(own) and len(set(own)) == len(own):
        return own
    depth = 1
    while depth < max(map(len, parts)) and len({p[-depth:] for p in parts}) < len(parts):
        depth += 1
    return ["/".join(p[-depth:]) for p in parts]


def differ(findings):
    """Whether the known values are not all the same."""
    values = [f["value"] for f in findings if report.known(f)]
    if len(values) < 2:
        return False
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
        return max(values) - min(values) > SAME * max(map(abs, values))
    return any(v != values[0] for v in values)


def table(runs, labels):
    """Answers, a column for each run; what differs is marked."""
    wanted = report.order({n for run in runs for n in report.asked(run)})
    rows, group = [], None
    for name in wanted:
        title, question, _ = words.ANSWERS.get(name, ("Other", name.replace("_", " "), ""))
        if title != group:
            group = title
            rows.append(f'<tr class="group"><th class="group" colspan="{len(runs) + 1}">'
                        f"{esc(title)}</th></tr>")
        findings = [run.answers.get(name) for run in runs]
        mark = "" if not differ(findings) else ' class="differs"'
        cells = []
        for label, finding in zip(labels, findings):
            known = report.known(finding)
            text = "not asked" if finding is None else report.value(
                finding["value"], finding.get("unit", ""), name)
            extra = ", ".join(x for x in (
                known and report.interval(finding, name),
                known and report.sure(finding.get("confidence"))[0]) if x)
            cells.append(
                f'<td class="value{"" if known else " none"}"><span class="label soft">'
                f"{esc(label)}: </span>{esc(text)}"
                f'{f"<br><span class=soft>{esc(extra)}</span>" if extra else ""}</td>')
        rows.append(f'<tr{mark}><th scope="row">{esc(question)}</th>{"".join(cells)}</tr>')
    head = "".join(f"<th>{esc(label)}</th>" for label in labels)
    return ('<div class="scroll"><table class="answers compare"><thead><tr><th>question</th>'
            f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>")


def picture(runs, labels, ident):
    """One test of all runs that have it."""
    draws = []
    for run, label in zip(runs, labels):
        if run.tests.get(ident, {}).get("status") != "done":
            continue
        draws.append((label, _one(run, ident)))
    if not draws:
        return ""
    safe = "".join(c for c in ident if c.isalnum())
    try:
        wide, narrow = (plots.svg(lambda figure: plots.overlay(figure, draws),
                                  f"c{safe}{kind}", size)
                        for kind, size in (("w", plots.WIDE), ("n", plots.NARROW)))
    except Exception as error:          # pylint: disable=broad-exception-caught
        return ('<p class="why">There is no picture: '
                f"{esc(type(error).__name__)}: {esc(error)}</p>")
    return (f'<figure><div class="wide">{wide}</div><div class="narrow">{narrow}</div>'
            "</figure>")


def _one(run, ident):
    draw, stored = report.drawing(ident), report.as_result(run, ident)
    return lambda figure: draw(figure, stored, stored.arrays)


def section(runs, labels, ident):
    results = [(label, run.tests[ident]) for run, label in zip(runs, labels)
               if ident in run.tests]
    title = next((r["title"] for _, r in results if r.get("title")), "")
    missing = [f"{label}: {r['status']}" + (f", {r['why']}" if r.get("why") else "")
               for label, r in results if r["status"] != "done"]
    missing += [f"{label}: not run" for run, label in zip(runs, labels)
                if ident not in run.tests]
    question, _, read = report.about(ident)
    return "\n".join(x for x in (
        f'<section class="test" id="t{esc(ident)}"><h2>Test {esc(ident)}: {esc(title)}</h2>',
        f"<p><b>{esc(question)}</b></p>" if question else "",
        picture(runs, labels, ident),
        f'<p class="why">{esc("; ".join(missing))}</p>' if missing else "",
        f"<p>{esc(read)}</p>" if read else "", "</section>") if x)


LOOK = """
.compare .label { display: none; } .compare td { min-width: 9rem; padding-right: 1rem; }
.compare tr.differs th { border-left: 3px solid var(--accent); padding-left: .5rem; }
@media (max-width: 640px) { .compare .label { display: inline; }
  .compare tr.differs th { border-left: 0; padding-left: 0; } }
"""


def html_of(runs):
    labels = names(runs)
    tests = sorted({i for run in runs for i in run.tests}, key=report.rank)
    facts = "".join(f"<li><b>{esc(label)}</b> <span class=soft>{report.facts(run)}</span></li>"
                    for run, label in zip(runs, labels))
    return report.page("Skylight: " + ", ".join(labels), "\n".join([
        f"<style>{LOOK}</style><header><h1>{esc(' beside '.join(labels))}</h1></header>",
        f'<ul class="found">{facts}</ul>', "<h2>Answers</h2>",
        '<p class="soft">A bar in front of a question: the answers differ.</p>',
        table(runs, labels), *(section(runs, labels, ident) for ident in tests)]))


def text_of(runs):
    """The table for a terminal."""
    labels = names(runs)
    rows = [["", *labels]]
    for name in report.order({n for run in runs for n in report.asked(run)}):
        findings = [run.answers.get(name) for run in runs]
        rows.append([words.ANSWERS.get(name, ("", name))[1], *(
            "-" if f is None else report.value(f["value"], f.get("unit", ""), name)
            for f in findings)])
    wide = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, wide)).rstrip()
                     for row in rows)


def write(folders, path="compare.html"):
    """Writes the page; returns (path, the table as text)."""
    runs = [report.load(folder) for folder in folders]
    page = report.store(Path(path), html_of(runs))
    return page, text_of(runs)
