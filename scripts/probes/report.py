# SPDX-License-Identifier: GPL-2.0
"""The report: one HTML file that needs nothing else, and the same as JSON.

Made from what a run stored; any subset of tests, failed and skipped ones, and
answers that are "cannot tell" are part of it.
"""

import html
import importlib
import json
import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from . import plots, words

BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
SHOWN_JOB = 4000            # characters of a job file
NEAR_MS = 15_000            # of the 30 s that Linux gives a command
SHOWN_JOBS = 300_000        # of all of them: a page stays below 2 MB
CLIFFS = ("6", "7", "8")    # tests that write until the drive must clean
SHOWN_ITEMS = 12            # of a list among the numbers
MARKS = {"right": ("&#10003; right", "good"), "wrong": ("&#10007; wrong", "bad"),
         "cannot tell": ("cannot tell", "none"), "not judged": ("not judged", "none")}


# --- what a run left behind ---------------------------------------------------


@dataclass
class Run:
    """A folder of results.  Findings and results are plain dictionaries."""
    folder: Path
    info: dict = field(default_factory=dict)
    tests: dict = field(default_factory=dict)       # ID: result
    answers: dict = field(default_factory=dict)     # name: finding
    truth: dict = field(default_factory=dict)       # name: {mark, truth, ...}

    @property
    def name(self):
        return self.info.get("name") or self.folder.resolve().name


def rank(ident):
    """Sort key of tests: 1, 1abc, 2, ... 11, clean, 12, ..."""
    digits = "".join(c for c in ident if c.isdigit())
    return (float(digits) if digits else 11.5, ident)


def _json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def load(folder):
    """The Run of a folder; ValueError in a sentence if there is none."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a directory of results")
    run = Run(folder, _json(folder / "run.json") or {})
    for path in sorted(folder.glob("t*.json")):
        result = _json(path)
        if isinstance(result, dict) and "status" in result:
            ident = result.get("test") or path.stem[1:].lstrip("0")
            run.tests[ident] = {**result, "file": path}
    if not run.tests:
        raise ValueError(f"{folder} holds no result of any test")
    run.tests = dict(sorted(run.tests.items(), key=lambda item: rank(item[0])))
    run.answers = answers(run)
    run.truth = _json(folder / "truth.json") or {}
    return run


def answers(run):
    """The verdict over all tests, as plain dictionaries."""
    from . import session, verdict      # pylint: disable=C0415
    results = {ident: session.Result.load(run.folder, session.stem(ident))
               for ident in run.tests}
    return {name: vars(finding) for name, finding in verdict.answers(results).items()}


# --- values for people ----------------------------------------------------------


def number(x, digits=4):
    """As everywhere in the suite: 9,175,056, 10.17, and 1.2 x 10^-5 for what is small."""
    if isinstance(x, float) and not math.isfinite(x):
        return str(x)
    if (float(x) == int(x) or abs(x) >= 10 ** (digits - 1)) and abs(x) < 1e15:
        return f"{round(x):,}"
    text, power = f"{x:.{digits}g}", ""
    if "e" in text:
        text, _, power = text.partition("e")
        power = f"\u00a0\u00d7\u00a010{str(int(power)).translate(RAISED)}"
    return text + power


RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077"
                       "\u2078\u2079")


def grouped(text):
    """A sentence of a test with its numbers as all others."""
    text = re.sub(r"(?<=\d)%", " %", text)
    text = re.sub(r"(?<![\w.,-])\d{4,15}(?![\w,-]|\.\d)", lambda m: number(int(m[0])), text)
    return re.sub(r"(?<![\w.,-])\d+(?:\.\d+)?e[+-]?\d+\b", lambda m: number(float(m[0])), text)


def size(x):
    for unit, name in BINARY:
        if abs(x) >= unit:
            return f"{number(x / unit)} {name}"
    return f"{number(x)} bytes"


def value(x, unit="", name=""):
    """A value of a finding in words."""
    if x is None:
        return "cannot tell"
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, str):
        return words.VALUES.get(x, x)
    if isinstance(x, (list, tuple)):
        if name == "zone_profile" and x and isinstance(x[0], (list, tuple, dict)):
            return f"{len(x)} zone{'s' * (len(x) != 1)}, {_rates(x)}"
        return ", ".join(value(v, unit) for v in x[:SHOWN_ITEMS]) + (
            f" ... ({len(x)})" if len(x) > SHOWN_ITEMS else "")
    if isinstance(x, dict):
        return ", ".join(f"{k} {value(v)}" for k, v in x.items())
    if unit in ("bytes", "B") or (not unit and name.endswith("_bytes")):
        return size(x)
    if not unit and name.endswith("_ms"):
        unit = "ms"
    if unit == "ms" and abs(x) >= 10000:
        return f"{number(x / 1000)} s"
    return f"{number(x)} {unit}".strip()


def _rates(plateaus):
    last = [p.get("mb_s", p.get("rate", 0)) if isinstance(p, dict) else p[-1]
            for p in plateaus]
    high, low = number(max(last), 3), number(min(last), 3)
    return f"{high} MB/s" if high == low else f"{high} to {low} MB/s"


def interval(finding, name=""):
    low, high = finding.get("low"), finding.get("high")
    if finding.get("value") is None or (low is None and high is None):
        return ""
    unit = finding.get("unit", "")
    if low == high:
        return "exactly"
    if isinstance(finding["value"], bool) and high is not None:
        # Of what happens now and then, how often.
        return f"at most {100 * high:.2g} %"
    if low is None:
        return f"at most {value(high, unit, name)}"
    if high is None:
        return f"at least {value(low, unit, name)}"
    low, high = value(low, unit, name), value(high, unit, name)
    return low if low == high else f"{low} to {high}"


def sure(confidence):
    """(percent, word)"""
    confidence = confidence or 0
    word = next(w for least, w in ((0.99, "sure"), (0.9, "confident"), (0.7, "likely"),
                                   (0, "weak")) if confidence >= least)
    percent = math.floor(1000 * confidence) / 10
    return f"{percent:g} %", word


def esc(text):
    return html.escape(str(text), quote=True)


def sentence(text):
    """With a capital, a full stop, and numbers as everywhere."""
    text = grouped((text or "").strip())
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def tied(text):
    """No line ends between a number and its unit."""
    return re.sub(r"(?<=\d) (?=\S)", "\u00a0", text)


# --- parts of the page ------------------------------------------------------------


STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfa; --ink: #1d2125; --soft: #5c6570;
  --line: #d9dcdf; --card: #f1f2ee; --good: #2c7a46; --bad: #b3293c; --accent: #1f6fb2; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e4e6e8;
  --soft: #9aa4ae; --line: #333a41; --card: #1d2226; --good: #63c282; --bad: #ff7c88;
  --accent: #6db3ee; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 72rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .6rem; line-height: 1.3; }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; }
p { margin: .5rem 0; } a { color: var(--accent); }
.soft, .why { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); }
.lead { font-size: 1.12rem; padding: .9rem 1.1rem; background: var(--card);
  border-left: 4px solid var(--accent); border-radius: 3px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .7rem .4rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; } thead th { color: var(--soft); font-size: .85rem; }
th.group { padding-top: 1.1rem; color: var(--accent); font-size: .85rem; }
tbody th { min-width: 9rem; }
td.value { font-weight: 600; min-width: 7rem; } td.value.none { font-weight: 400; color: var(--soft); }
td.value .soft { font-weight: 400; }
td.says { width: 40%; min-width: 18rem; }
section.test > p, section.test > ul, body > p, dl { max-width: 62rem; }
nav { margin: 1.4rem 0; padding: .7rem 1.1rem; background: var(--card); border-radius: 3px; }
nav ol { columns: 3 15rem; list-style: none; margin: .3rem 0 0; padding: 0; }
nav li { break-inside: avoid; padding: .05rem 0; }
.bar { display: inline-block; width: 3.6rem; height: .5rem; border-radius: 3px;
  background: var(--line); vertical-align: middle; overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--accent); }
.nowrap { white-space: nowrap; }
section.test { border-top: 1px solid var(--line); margin-top: 2.4rem; }
.tag { font-size: .78rem; padding: .1rem .5rem; border-radius: 1rem; border: 1px solid var(--line);
  color: var(--soft); margin-left: .5rem; font-weight: 400; white-space: nowrap; }
.tag.bad { color: var(--bad); border-color: var(--bad); }
figure { margin: .8rem 0; } figure svg { display: block; width: 100%; height: auto; }
figure svg text { font-family: "DejaVu Sans", system-ui, sans-serif; }
.narrow { display: none; }
pre, .scroll { overflow-x: auto; } pre { background: var(--card); padding: .7rem .9rem;
  border-radius: 4px; font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; margin: .5rem 0; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .88em; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--accent); }
ul.found { padding-left: 1.2rem; margin: .4rem 0; } dt { font-weight: 600; } dd { margin: 0 0 .4rem 0; }
.numbers td { font-variant-numeric: tabular-nums; font-size: .9rem; }
.numbers td:first-child { color: var(--soft); white-space: nowrap; width: 1%; }
@media (max-width: 640px) {
  .wide { display: none; } .narrow { display: block; }
  h1 { font-size: 1.4rem; } .lead { font-size: 1.05rem; }
}
@media (max-width: 860px) {
  table.answers thead { display: none; }
  table.answers tr { display: block; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  table.answers th, table.answers td { display: block; border: 0; padding: .05rem 0;
    min-width: 0; width: auto; }
  table.answers td:empty { display: none; }
  table.answers tr.group { border: 0; padding: .8rem 0 0; }
  td.truth:not(:empty)::before { content: "truth: "; color: var(--soft); }
}
@media print { .wide { display: block; } .narrow { display: none; } }
"""


def page(title, body):
    return ('<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{esc(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f"{body}\n</body>\n</html>\n")


def known(finding):
    return bool(finding) and finding.get("value") is not None


def lead(run):
    """What was found, in a few words."""
    parts = []
    for name, text in words.SENTENCES:
        finding = run.answers.get(name)
        if not known(finding):
            if name == "drive_type":
                parts.append("<b>What kind of drive this is could not be told</b>")
            continue
        if isinstance(text, dict):
            text = text.get(finding["value"])
        if text:
            parts.append(text.format(esc(value(finding["value"], finding.get("unit", ""),
                                               name))))
        if name == "drive_type" and finding["value"] in ("conventional", "translated"):
            break
    text = parts[0] + (": " + "; ".join(parts[1:]) if parts[1:] else "") + "."
    return f'<p class="lead">{text}</p>'


def portrait(run):
    """A drive from its first LBA to its last, with the cache where it was found."""
    layout = run.answers.get("cache_layout", {}).get("value")
    places = {"single-od": (0,), "single-middle": (46,), "single-id": (92,),
              "multiple": tuple(range(4, 100, 12))}.get(layout)
    if not places or run.answers.get("drive_type", {}).get("value") == "conventional":
        return ""
    wide = 8 if len(places) == 1 else 2
    marks = "".join(f'<rect x="{p}%" y="16" width="{wide}%" height="26" '
                    f'fill="{plots.ORANGE}"/>' for p in places)
    return ('<figure><svg style="width:100%;height:64px" role="img" aria-label="the place of '
            'the cache between the first and the last LBA" fill="currentColor">'
            '<rect x="0" y="16" width="100%" height="26" fill="var(--line)"/>' + marks +
            '<text x="0" y="11" font-size="12">first LBA, outer diameter</text>'
            '<text x="100%" y="60" font-size="12" text-anchor="end">last LBA, inner diameter'
            f'</text><text x="0" y="60" font-size="12" fill="{plots.ORANGE}">'
            'persistent cache (not to scale)</text></svg></figure>')


def confidence_cell(finding):
    if not known(finding):
        return ""
    percent, word = sure(finding.get("confidence"))
    width = 100 * min(1, max(0, finding.get("confidence") or 0))
    return (f'<span class="nowrap"><span class="bar"><i style="width:{width:.0f}%"></i></span> '
            f'{percent}</span> <span class="soft">{word}</span>')


def mark_cell(entry, name=""):
    if not entry:
        return ""
    text, look = MARKS.get(entry.get("mark"), (esc(entry.get("mark")), "none"))
    truth = entry.get("truth")
    if isinstance(truth, (int, float)):
        truth = tied(value(truth, "", name))
    return f'<span class="{look}">{text}</span>' + (
        f'<br><span class="soft">{esc(truth)}</span>' if truth not in (None, "") else "")


def order(names):
    """Names of answers in the order of words.ANSWERS, then all others."""
    listed = [n for n in words.ANSWERS if n in names]
    return listed + sorted(n for n in names if n not in words.ANSWERS)


def asked(run):
    """Names of answers that this run has, or would have if it could tell."""
    names = set(run.answers)
    for result in run.tests.values():
        names |= set(result.get("findings") or {})
    return order(names)


def summary(run):
    marks = "<th>truth</th>" if run.truth else ""
    rows, group = [], None
    columns = 5 + bool(run.truth)
    for name in asked(run):
        title, question, tests = words.ANSWERS.get(name, ("Other", name.replace("_", " "), ""))
        if title != group:
            group = title
            rows.append(f'<tr class="group"><th class="group" colspan="{columns}">{esc(title)}'
                        "</th></tr>")
        finding = run.answers.get(name) or {"value": None, "says": ""}
        says = esc(sentence(finding.get("says")))
        where = " ".join(f'<a href="#t{esc(t)}">{esc(t)}</a>' for t in tests.split()
                         if t in run.tests)
        if where:
            says += f' <span class="soft nowrap">test {where}</span>'
        none = "" if known(finding) else " none"
        rows.append(
            f'<tr><th scope="row">{esc(question)}</th>'
            f'<td class="value{none}">'
            f'{esc(tied(value(finding.get("value"), finding.get("unit", ""), name)))}</td>'
            f"<td>{esc(tied(interval(finding, name)))}</td><td>{confidence_cell(finding)}</td>"
            f'<td class="says">{says}</td>' +
            (f'<td class="truth">{mark_cell(run.truth.get(name), name)}</td>' if run.truth else "")
            + "</tr>")
    return ('<table class="answers"><thead><tr><th>question</th><th>answer</th><th>interval'
            f"</th><th>confidence</th><th>why</th>{marks}</tr></thead><tbody>"
            + "".join(rows) + "</tbody></table>")


def picture(run, ident):
    """The test's own drawing, wide and narrow; a sentence if it cannot be drawn."""
    result = run.tests[ident]
    if result["status"] != "done":
        return ""
    try:
        draw = drawing(ident)
        stored = as_result(run, ident)
        safe = "".join(c for c in ident if c.isalnum())
        both = [plots.svg(lambda figure: draw(figure, stored, stored.arrays),
                          f"t{safe}{kind}", size)
                for kind, size in (("w", plots.WIDE), ("n", plots.NARROW))]
    except Exception as error:          # pylint: disable=broad-exception-caught
        return ('<p class="why">There is no picture: '
                f"{esc(type(error).__name__)}: {esc(error)}</p>")
    return (f'<figure><div class="wide">{both[0]}</div><div class="narrow">{both[1]}</div>'
            "</figure>")


def cliff_of(run):
    """The test whose picture is the cliff; None without one."""
    return next((t for t in CLIFFS if t in run.tests and run.tests[t]["status"] == "done" and
                 (run.tests[t].get("numbers") or {}).get("writes_until_cleaning")), None)


def cliff(run):
    """What people know shingled disks for: above all else."""
    ident = cliff_of(run)
    if not ident:
        return ""
    of = run.tests[ident]["numbers"]
    usual, stall = of.get("usual_ms"), of.get("stall_ms")
    text = f"After {number(of['writes_until_cleaning'])} random writes the drive had to clean"
    if usual and stall:
        text += (f": until then a write took {value(usual, 'ms')} as a rule, and the first that "
                 f"had to wait {value(stall, 'ms')}")
    longest = of.get("longest_ms")
    if longest:
        text += f".  The longest took {value(longest, 'ms')}; Linux gives a command 30 s"
        if longest > NEAR_MS:
            text += ", and then resets the drive: a RAID or a file system over it may lose it"
    return (f'<section id="cliff"><h2>The cliff</h2><p>{esc(tied(text))}.  '
            f'<a href="#t{esc(ident)}">Test {esc(ident)}</a> says how that was told.</p>'
            f"{picture(run, ident)}</section>")


def contents(run):
    """Where everything is."""
    rows = [("cliff", "The cliff", "")] if cliff_of(run) else []
    rows += [("answers", "Answers", ""), ("words", "What the words mean", "")]
    for ident, result in run.tests.items():
        rows.append((f"t{ident}", f"Test {ident}: {result.get('title') or ''}",
                     "" if result["status"] == "done" else result["status"]))
    return ("<nav><b>Contents</b><ol>" + "".join(
        f'<li><a href="#{esc(to)}">{esc(text)}</a>'
        f'{f" <span class=soft>({esc(note)})</span>" if note else ""}</li>'
        for to, text, note in rows) + "</ol></nav>")


def drawing(ident):
    """A test's draw(figure, result, arrays)."""
    from . import session               # pylint: disable=C0415
    return importlib.import_module(f"{__package__}.{session.stem(ident)}").draw


def as_result(run, ident):
    from . import session               # pylint: disable=C0415
    return session.Result.load(run.folder, session.stem(ident))


def about(ident):
    """(question, done, read): the module's own words if it has some."""
    from . import session               # pylint: disable=C0415
    try:
        module = importlib.import_module(f"{__package__}.{session.stem(ident)}")
    except ImportError:
        return words.test(ident)
    own = getattr(module, "ABOUT", None)
    return tuple(own.get(k, "") for k in ("question", "did", "read")) if own else \
        words.test(ident)


def room(run):
    """{job file: characters of it that are shown}: of each the beginning, and no more of all
    than SHOWN_JOBS."""
    names = list(dict.fromkeys(n for result in run.tests.values()
                               for n in result.get("jobs") or () if n))
    each = min(SHOWN_JOB, SHOWN_JOBS // max(1, len(names)))
    return dict.fromkeys(names, each)


def jobs(run, result):
    """How to do it again by hand, and the job files as they are: folded, for few read them."""
    names = [n for n in result.get("jobs") or () if n]
    if not names:
        return ""
    parts, lines, shown_of = [], [], room(run)
    for name in names:
        path = run.folder / name
        lines.append(f"fio {esc(Path(name).name)}")
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        cut = len(text) > shown_of[name]
        parts.append(f"<details><summary><code>{esc(name)}</code></summary><pre>"
                     f"{esc(text[:shown_of[name]])}{' ...' if cut else ''}</pre></details>")
    folder = esc(run.info.get("folder") or run.folder.name)
    shown = lines
    if len(lines) > 12:
        shown = lines[:10] + [f"... ({len(lines)} in all)"] + lines[-1:]
    return ("<details><summary>Do it again with plain fio</summary><p class=\"soft\">In the "
            "directory of the results; this writes to the drive, as the test did.</p><pre>"
            f"cd {folder}/{esc(Path(names[0]).parent)}\n" + "\n".join(shown) + "</pre>" +
            "".join(parts) + "</details>")


def numbers(result):
    rows = []
    for name, x in (result.get("numbers") or {}).items():
        unit = next((u for u in ("bytes", "ms", "us", "s") if name.endswith(f"_{u}")), "")
        rows.append(f"<tr><td>{esc(name.replace('_', ' '))}</td>"
                    f"<td>{esc(value(x, unit, name))}</td></tr>")
    if not rows:
        return ""
    return ('<details><summary>numbers</summary><div class="scroll"><table class="numbers">'
            + "".join(rows) + "</table></div></details>")


def found(result):
    rows = []
    for name in order(result.get("findings") or {}):
        finding = result["findings"][name]
        question = words.ANSWERS.get(name, ("", name.replace("_", " "), ""))[1]
        what = value(finding.get("value"), finding.get("unit", ""), name)
        extra = ", ".join(x for x in (
            interval(finding, name),
            known(finding) and f"confidence {sure(finding.get('confidence'))[0]}") if x)
        rows.append(f"<li>{esc(question)} <b>{esc(tied(what))}</b>"
                    f"{f' ({esc(extra)})' if extra else ''}. "
                    f"{esc(sentence(finding.get('says')))}</li>")
    return f'<ul class="found">{"".join(rows)}</ul>' if rows else ""


def duration(seconds):
    # What takes no time was not done.
    if not seconds or seconds < 1e-3:
        return ""
    if seconds < 120:
        return f"{number(seconds, 3)} s"
    return (f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h")


def section(run, ident):
    result = run.tests[ident]
    question, done, read = about(ident)
    status = result["status"]
    tag = "" if status == "done" else \
        f'<span class="tag{" bad" if status == "failed" else ""}">{esc(status)}</span>'
    cost = ", ".join(x for x in (
        result.get("operations") and f"{number(result['operations'])} requests",
        duration(result.get("seconds"))) if x)
    parts = [f'<section class="test" id="t{esc(ident)}">'
             f"<h2>Test {esc(ident)}: {esc(result.get('title') or '')}{tag}</h2>"]
    if question:
        parts.append(f"<p><b>{esc(question)}</b></p>")
    if status != "done":
        parts.append(f'<p class="why">{"It failed" if status == "failed" else "Skipped"}: '
                     f"{esc(sentence(result.get('why') or 'no reason was given'))}</p>")
    parts.append(found(result))
    if ident == cliff_of(run):
        parts.append('<p>The picture is <a href="#cliff">at the top of the page</a>.</p>')
    else:
        parts.append(picture(run, ident))
    if read and status == "done":
        parts.append(f"<p>{esc(read)}</p>")
    if done:
        parts.append(f"<h3>What was done</h3><p>{esc(done)}"
                     f"{f' <span class=soft>({esc(cost)})</span>' if cost else ''}</p>")
    parts += [numbers(result), jobs(run, result), "</section>"]
    return "\n".join(p for p in parts if p)


def by(info):
    """With what it was measured, by the last that worked on it."""
    of = (info.get("versions") or [{}])[-1]
    return ", ".join(x for x in (of.get("skylight") and f"Skylight {of['skylight']}",
                                 of.get("fio"), of.get("kernel") and f"Linux {of['kernel']}")
                     if x)


def facts(run):
    info = run.info
    device = info.get("device") if isinstance(info.get("device"), dict) else {}
    path = device.get("path") or (info.get("device") if isinstance(info.get("device"), str)
                                  else "")
    length = device.get("bytes") or info.get("bytes")
    count = {s: sum(r["status"] == s for r in run.tests.values())
             for s in ("done", "skipped", "failed")}
    bits = [esc(path), esc(device.get("model") or info.get("model") or ""),
            length and f"{length / 1e12:.3f} TB" if (length or 0) >= 1e12 else
            length and f"{length / 1e9:.1f} GB",
            f"scale {esc(info['scale'])}" if isinstance(info.get("scale"), (str, int)) else "",
            esc(info.get("begun") or info.get("date") or ""), esc(by(info)),
            ", ".join(f"{n} test{'s' * (n != 1)} {s}" for s, n in count.items() if n)]
    return " &middot; ".join(str(b) for b in bits if b)


def judged(run):
    """A sentence on right and wrong answers, for --truth."""
    if not run.truth:
        return ""
    count = {}
    for entry in run.truth.values():
        count[entry.get("mark")] = count.get(entry.get("mark"), 0) + 1
    return ("<p>Beside the truth, which the tests never saw: " +
            ", ".join(f"{count[m]} {m}" for m in MARKS if m in count) + ".</p>")


def html_of(run):
    terms = "".join(f"<dt>{esc(t)}</dt><dd>{esc(x)}</dd>" for t, x in words.TERMS)
    return page(f"Skylight: {run.name}", "\n".join([
        f"<header><h1>{esc(run.name)}</h1><p class=\"soft\">{facts(run)}</p></header>",
        lead(run), cliff(run), portrait(run), f'<p class="soft">{words.INTRODUCTION}</p>',
        contents(run), judged(run), '<h2 id="answers">Answers</h2>',
        "<p>Everything here was told from what the drive did and how long it took; nothing "
        "was asked of it.  <i>Cannot tell</i> means that the measurements do not support an "
        "answer.</p>", summary(run),
        f'<details id="words"><summary>What the words mean</summary><dl>{terms}</dl></details>',
        *(section(run, ident) for ident in run.tests),
        '<p class="soft">Written by <code>scripts/skylight</code> of dm-shingle, after the '
        "tests of A. Aghayev and P. Desnoyers, Skylight (FAST 2015).</p>"]))


def plain(run):
    """For machines."""
    return {"name": run.name, "run": run.info, "answers": run.answers,
            "tests": {i: {k: v for k, v in r.items() if k != "file"}
                      for i, r in run.tests.items()},
            **({"truth": run.truth} if run.truth else {})}


def store(path, text):
    """Whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
    return path


def write(folder):
    """Writes report.html and report.json; returns both paths."""
    run = load(folder)
    return (store(run.folder / "report.html", html_of(run)),
            store(run.folder / "report.json", json.dumps(plain(run), indent=1, default=str)
                   + "\n"))
