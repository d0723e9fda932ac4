# SPDX-License-Identifier: GPL-2.0
"""Writes the report: one HTML file that needs nothing else, and the same as JSON.

It contains what a run has stored: any subset of tests, also failed and skipped ones, and
answers that are "cannot tell"."""

import contextlib
import itertools
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
from markupsafe import Markup

from common import output

from . import plots, report_text

BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
SHOWN_JOB = 4000            # characters of a job file
NEAR_MS = 15_000            # of the 30 s that Linux allows a command
SHOWN_JOBS = 300_000        # characters of all job files; a page stays below 2 MB
CLIFFS = ("6", "7", "8")    # tests that write until the drive must clean
SHOWN_ITEMS = 12            # of a list among the numbers
MARKS = {"right": ("\u2713 right", "good"), "wrong": ("\u2717 wrong", "bad"),
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
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _dictionary(path):
    """The contents of an optional file."""
    found = _json(path)
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"{path} is not of skylight")
    return found or {}


@contextlib.contextmanager
def sound(*folders):
    """Turns errors in files that were edited, or written by another version, into a sentence."""
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{' and '.join(map(str, folders))} has results that are damaged or of "
                         f"another version ({error})") from error


def _ident(result, path):
    """The test that a file belongs to."""
    from . import session
    ident = result.get("test")
    if isinstance(ident, str) and session.stem(ident) == path.stem:
        return ident
    return path.stem[1:].lstrip("0")


def load(folder):
    """The Run of a folder; ValueError in a sentence if there is none."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a directory of results")
    run = Run(folder, _dictionary(folder / "run.json"))
    for path in sorted(folder.glob("t*.json")):
        result = _json(path)
        if isinstance(result, dict) and "status" in result:
            run.tests[_ident(result, path)] = {**result, "file": path}
    if not run.tests:
        raise ValueError(f"{folder} holds no result of any test")
    run.tests = dict(sorted(run.tests.items(), key=lambda item: rank(item[0])))
    with sound(folder):
        run.answers = answers(run)
    run.truth = _dictionary(folder / "truth.json")
    return run


def answers(run):
    """The verdict over all tests, as plain dictionaries."""
    from . import session, verdict
    results = {ident: session.Result.load(run.folder, session.stem(ident))
               for ident in run.tests}
    return {name: vars(finding) for name, finding in verdict.answers(results).items()}


# --- values for people ----------------------------------------------------------


def number(x, digits=4):
    """A number as in the rest of the suite: 9,175,056, 10.17, and 1.2 x 10^-5 for a small one."""
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
    """A sentence of a test with its numbers written as number() does."""
    text = re.sub(r"(?<=\d)%", " %", text)
    text = re.sub(r"(?<![\w.,-])\d{4,15}(?![\w,-]|\.\d)", lambda m: number(int(m[0])), text)
    return re.sub(r"(?<![\w.,-])\d+(?:\.\d+)?e[+-]?\d+\b", lambda m: number(float(m[0])), text)


def size(x):
    for unit, name in BINARY:
        if abs(x) >= unit:
            return f"{number(x / unit)} {name}"
    return f"{number(x)} bytes"


def value(x, unit="", name=""):
    """The value of a finding in words."""
    if x is None:
        return "cannot tell"
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, str):
        return report_text.VALUES.get(x, x)
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
        # The share of cases in which it happens.
        return f"at most {100 * high:.2g} %"
    if low is None:
        return f"at most {value(high, unit, name)}"
    if high is None:
        return f"at least {value(low, unit, name)}"
    low, high = value(low, unit, name), value(high, unit, name)
    return low if low == high else f"{low} to {high}"


def sure(confidence):
    """(percent, word)."""
    confidence = confidence or 0
    word = next(w for least, w in ((0.99, "sure"), (0.9, "confident"), (0.7, "likely"),
                                   (0, "weak")) if confidence >= least)
    percent = math.floor(1000 * confidence) / 10
    return f"{percent:g} %", word


def sentence(text):
    """The text with a capital, a full stop, and numbers as number() writes them."""
    text = grouped((text or "").strip())
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def tied(text):
    """Keeps a number and its unit on one line."""
    return re.sub(r"(?<=\d) (?=\S)", "\u00a0", text)


# --- parts of the page ------------------------------------------------------------


PAGES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
    undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def known(finding):
    return bool(finding) and finding.get("value") is not None


def lead(run):
    """The result in a few words."""
    parts = []
    for name, text in report_text.SENTENCES:
        finding = run.answers.get(name)
        if not known(finding):
            if name == "drive_type":
                parts.append(Markup("<b>What kind of drive this is could not be told</b>"))
            continue
        if isinstance(text, dict):
            text = text.get(finding["value"])
        if text:
            parts.append(Markup(text).format(value(finding["value"], finding.get("unit", ""),
                                                   name)))
        if name == "drive_type" and finding["value"] in ("conventional", "translated"):
            break
    return parts[0] + (": " + Markup("; ").join(parts[1:]) if parts[1:] else "") + "."


def portrait(run):
    """A drive from its first LBA to its last, with the cache where it was found."""
    layout = run.answers.get("cache_layout", {}).get("value")
    places = {"single-od": (0,), "single-middle": (46,), "single-id": (92,),
              "multiple": tuple(range(4, 100, 12))}.get(layout)
    if not places or run.answers.get("drive_type", {}).get("value") == "conventional":
        return None
    return {"places": places, "wide": 8 if len(places) == 1 else 2, "color": plots.ORANGE}


def mark_of(entry, name=""):
    """The mark, right or wrong, and the truth."""
    if not entry:
        return None
    text, look = MARKS.get(entry.get("mark"), (entry.get("mark"), "none"))
    truth = entry.get("truth")
    if isinstance(truth, (int, float)):
        truth = tied(value(truth, "", name))
    return {"text": text, "look": look, "truth": "" if truth is None else truth}


def order(names):
    """Names of answers in the order of report_text.ANSWERS, then all others."""
    listed = [n for n in report_text.ANSWERS if n in names]
    return listed + sorted(n for n in names if n not in report_text.ANSWERS)


def asked(run):
    """Names of answers that this run has, or would have if the tests could tell."""
    names = set(run.answers)
    for result in run.tests.values():
        names |= set(result.get("findings") or {})
    return order(names)


def asks(name):
    """(group, question, tests) of an answer."""
    return report_text.ANSWERS.get(name, ("Other", name.replace("_", " "), ""))


def grouped_rows(rows):
    """The rows of each group, in their order."""
    return [(group, list(some)) for group, some in
            itertools.groupby(rows, key=lambda row: row["group"])]


def summary(run):
    rows = []
    for name in asked(run):
        group, question, tests = asks(name)
        finding = run.answers.get(name) or {"value": None}
        confidence = finding.get("confidence") or 0
        percent, word = sure(confidence)
        rows.append({
            "group": group, "question": question, "known": known(finding),
            "value": tied(value(finding.get("value"), finding.get("unit", ""), name)),
            "interval": tied(interval(finding, name)), "percent": percent, "sure": word,
            "width": round(100 * min(1, max(0, confidence))),
            "says": sentence(finding.get("says")),
            "tests": [t for t in tests.split() if t in run.tests],
            "mark": mark_of(run.truth.get(name), name)})
    return grouped_rows(rows)


def drawn(draw, name):
    """A drawing, wide and narrow; or the reason why there is none."""
    try:
        return {kind: Markup(plots.svg(draw, f"{name}{kind[0]}", size))
                for kind, size in (("wide", plots.WIDE), ("narrow", plots.NARROW))}
    except Exception as error:
        return {"why": f"{type(error).__name__}: {error}"}


def plainly(ident):
    """The name of a test as part of an id."""
    return "".join(c for c in ident if c.isalnum())


def picture(run, ident):
    """The test's own drawing."""
    if run.tests[ident]["status"] != "done":
        return None

    def draw(figure):
        stored = as_result(run, ident)
        drawing(ident)(figure, stored, stored.arrays)
    return drawn(draw, f"t{plainly(ident)}")


def cliff_of(run):
    """The test with the picture of the cliff, or None."""
    return next((t for t in CLIFFS if t in run.tests and run.tests[t]["status"] == "done" and
                 (run.tests[t].get("numbers") or {}).get("writes_until_cleaning")), None)


def cliff(run):
    """The cliff at the top of the page; it is what users know of shingled disks."""
    ident = cliff_of(run)
    if not ident:
        return None
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
    return {"text": tied(text), "test": ident, "picture": picture(run, ident)}


def drawing(ident):
    """A test's draw(figure, result, arrays)."""
    from . import module
    return module(ident).draw


def as_result(run, ident):
    from . import session
    return session.Result.load(run.folder, session.stem(ident))


def about(ident):
    """(question, done, read): the module's own words if it has some."""
    from . import module
    try:
        own = getattr(module(ident), "ABOUT", None)
    except ImportError:
        return report_text.test(ident)
    return tuple(own.get(k, "") for k in ("question", "did", "read")) if own else \
        report_text.test(ident)


def room(run):
    """{job file: characters of it that are shown}: the beginning of each, at most SHOWN_JOBS in
    all."""
    names = list(dict.fromkeys(n for result in run.tests.values()
                               for n in result.get("jobs") or () if n))
    each = min(SHOWN_JOB, SHOWN_JOBS // max(1, len(names)))
    return dict.fromkeys(names, each)


def jobs(run, result):
    """Commands that repeat the test by hand, and the job files."""
    names = [n for n in result.get("jobs") or () if n]
    if not names:
        return None
    files, lines, shown_of = [], [], room(run)
    for name in names:
        lines.append(f"fio {Path(name).name}")
        # The folder may come from another person, and must not select other files of this machine.
        file = (run.folder / name).resolve()
        if not file.is_relative_to(run.folder.resolve()):
            continue
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        cut = len(text) > shown_of[name]
        files.append((name, text[:shown_of[name]] + (" ..." if cut else "")))
    if len(lines) > 12:
        lines = lines[:10] + [f"... ({len(lines)} in all)"] + lines[-1:]
    folder = run.info.get("folder") or run.folder.name
    return {"commands": [f"cd {folder}/{Path(names[0]).parent}", *lines], "files": files}


def numbers(result):
    rows = []
    for name, x in (result.get("numbers") or {}).items():
        unit = next((u for u in ("bytes", "ms", "us", "s") if name.endswith(f"_{u}")), "")
        rows.append((name.replace("_", " "), value(x, unit, name)))
    return rows


def found(result):
    rows = []
    for name in order(result.get("findings") or {}):
        finding = result["findings"][name]
        rows.append({
            "question": asks(name)[1], "says": sentence(finding.get("says")),
            "value": tied(value(finding.get("value"), finding.get("unit", ""), name)),
            "extra": ", ".join(x for x in (
                interval(finding, name),
                known(finding) and f"confidence {sure(finding.get('confidence'))[0]}") if x)})
    return rows


def duration(seconds):
    # A test that took no time was not run.
    if not seconds or seconds < 1e-3:
        return ""
    if seconds < 120:
        return f"{number(seconds, 3)} s"
    return (f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h")


def section(run, ident):
    result = run.tests[ident]
    question, did, read = about(ident)
    return {
        "test": ident, "title": result.get("title") or "", "status": result["status"],
        "question": question, "did": did, "read": read,
        "why": sentence(result.get("why") or "no reason was given"),
        "found": found(result), "numbers": numbers(result), "jobs": jobs(run, result),
        "picture": None if ident == cliff_of(run) else picture(run, ident),
        "cost": ", ".join(x for x in (
            result.get("operations") and f"{number(result['operations'])} requests",
            duration(result.get("seconds"))) if x)}


def by(info):
    """The versions that measured it, by the latest run."""
    of = (info.get("versions") or [{}])[-1]
    return ", ".join(x for x in (of.get("skylight") and f"Skylight {of['skylight']}",
                                 of.get("fio"), of.get("kernel") and f"Linux {of['kernel']}")
                     if x)


def facts(run):
    """The device that was measured, and the versions of the programs."""
    info = run.info
    device = info.get("device") if isinstance(info.get("device"), dict) else {}
    path = device.get("path") or (info.get("device") if isinstance(info.get("device"), str)
                                  else "")
    length = device.get("bytes") or info.get("bytes")
    count = {s: sum(r["status"] == s for r in run.tests.values())
             for s in ("done", "skipped", "cannot tell", "failed")}
    bits = [path, device.get("model") or info.get("model"),
            length and f"{length / 1e12:.3f} TB" if (length or 0) >= 1e12 else
            length and f"{length / 1e9:.1f} GB",
            f"scale {info['scale']}" if isinstance(info.get("scale"), (str, int)) else "",
            info.get("begun") or info.get("date"), by(info),
            ", ".join(f"{n} test{'s' * (n != 1)} {s}" for s, n in count.items() if n)]
    return [b for b in bits if b]


def judged(run):
    """How many answers are right and wrong, for --truth."""
    count = Counter(entry.get("mark") for entry in run.truth.values())
    return [f"{count[m]} {m}" for m in MARKS if m in count]


def html_of(run):
    return PAGES.get_template("report.html").render(
        name=run.name, facts=facts(run), lead=lead(run), cliff=cliff(run),
        portrait=portrait(run), introduction=report_text.INTRODUCTION, truth=bool(run.truth),
        judged=judged(run), answers=summary(run), terms=report_text.TERMS,
        tests=[section(run, ident) for ident in run.tests])


def plain(run):
    """The report for machines."""
    return {"name": run.name, "run": run.info, "answers": run.answers,
            "tests": {i: {k: v for k, v in r.items() if k != "file"}
                      for i, r in run.tests.items()},
            **({"truth": run.truth} if run.truth else {})}


def store(path, text):
    """Writes a file atomically; bytes of a name that are not UTF-8 become question marks."""
    return output.store(path, text, errors="replace")


def write(folder):
    """Writes report.html and report.json; returns both paths."""
    run = load(folder)
    with sound(folder):
        page = html_of(run)
    return (store(run.folder / "report.html", page),
            store(run.folder / "report.json", json.dumps(plain(run), indent=1, default=str)
                   + "\n"))
