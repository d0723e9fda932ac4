# SPDX-License-Identifier: GPL-2.0
"""Tests of the report and the comparison over made-up results: any subset of tests, skipped and
failed ones, and answers that cannot tell. The pages need no other files."""

import html
import json
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from skylight import cli, compare, plots, report, session, report_text
from skylight.session import Finding, Result
from programs import TOP

MIB = 1 << 20
VOID = {"meta", "br", "rect", "path", "use", "image", "img", "link", "input", "hr"}


class Tree(HTMLParser):
    """Check that tags are closed in order; collect ids, links and outside addresses."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.outside = [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "xlink:href") and value.startswith("#"):
                self.links.append(value[1:])
            elif name in ("src", "href", "xlink:href") and not value.startswith("data:"):
                self.outside.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open and self.open.pop() == tag, tag


def draw_dots(figure, result, arrays):
    left, right = plots.panels(figure, 2)
    plots.dots(left, arrays["lat_us"] / 1000, "write")
    plots.level(left, 10.17, "one rotation")
    left.set(xlabel="write", ylabel="latency, ms", title=result.title)
    right.hist(arrays["lat_us"] / 1000, bins=30)


def drive(folder, tests=("1", "2", "6", "12"), band=40 * MIB, n=3000, **more):
    """Make a directory like that of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    made = {
        "1": Result(findings={
            "drive_type": Finding("shingled", confidence=0.999,
                                  says="All writes take a rotation."),
            "cache_medium": Finding("disk", confidence=0.98, says="A rotation each.")},
            numbers={"rotation_ms": 10.17, "writes": n, "list": list(range(40))},
            arrays={"lat_us": rng.normal(10170, 30, n)}, jobs=["jobs/t01-a.fio"],
            operations=n, seconds=31.0, title="drive type"),
        "2": Result(findings={"cache_layout": Finding.unknown("Too few reads to say.")},
                    arrays={"lat_us": rng.normal(5000, 900, n)}, title="cache location"),
        "6": Result(findings={"raw_bytes": Finding(
            36e9, "bytes", 35e9, 37e9, 0.95, "Cleaning began at write 9,459,560.")},
            arrays={"lat_us": rng.normal(7000, 10, n)}, title="raw size"),
        "11": Result(findings={"band_bytes": Finding(band, "bytes", band, band, 0.995,
                                                     "Forty stretches.")},
                     arrays={"lat_us": rng.normal(7000, 10, n)}, title="band size"),
        "12": Result(status="skipped", why="The drive would not clean <within> 5 s & more.",
                     title="mapping"),
        "13": Result(status="failed", why="fio: error=Input/output error", title="torn writes"),
    }
    (folder / "jobs").mkdir(exist_ok=True)
    (folder / "jobs/t01-a.fio").write_text("[t01]\nfilename=/dev/x\nrw=<randwrite>\n")
    for ident in tests:
        made[ident].test = ident
        made[ident].save(folder, session.stem(ident))
    for name, content in more.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(autouse=True)
def drawings(monkeypatch):
    monkeypatch.setattr(report, "drawing", lambda ident: draw_dots)


def whole(text):
    """Check that tags are closed, ids are unique, links have targets, and nothing comes from
    elsewhere."""
    tree = Tree(text)
    assert not tree.outside, tree.outside
    assert len(tree.ids) == len(set(tree.ids))
    assert set(tree.links) <= set(tree.ids)
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    assert "@import" not in style and "url(" not in style
    assert "prefers-color-scheme: dark" in style
    return tree


@pytest.mark.parametrize("tests", [("1",), ("13",), ("12", "13"), ("2",), ("1", "2", "6"),
                                   ("1", "2", "6", "11", "12", "13")])
def test_report_of_any_subset_of_tests(tmp_path, tests):
    """The report of any subset of tests is a valid page with a section for each, and says why a
    test was skipped, has failed or cannot tell."""
    page, machine = report.write(drive(tmp_path, tests))
    text = page.read_text(encoding="utf-8")
    whole(text)
    plain = json.loads(machine.read_text())
    assert set(plain["tests"]) == set(tests)
    for ident in tests:
        assert f'id="t{ident}"' in text
        assert report_text.test(ident)[0] in text
    if "12" in tests:
        assert "&lt;within&gt; 5 s &amp; more" in text and "skipped" in text
    if "13" in tests:
        assert "It failed: Fio: error" in text
    if "2" in tests:
        assert "cannot tell" in text and "Too few reads to say." in text
    if "1" in tests:
        assert "rw=&lt;randwrite&gt;" in text and re.search(r"cd .*/jobs\nfio t01-a.fio", text)


def test_pictures_embed_bitmaps_of_many_points(tmp_path):
    """Thousands of points become a bitmap inside the SVG, which keeps the page small, and no colour
    is fixed that would be unreadable on a dark page."""
    text = report.html_of(report.load(drive(tmp_path, ("1",))))
    assert text.count("<svg") == 2      # wide and narrow
    assert text.count("data:image/png;base64") == 2
    assert "#000000" not in text and "#ffffff" not in text
    assert len(text) < 600_000


@pytest.mark.parametrize("said, text", [
    ("cleaning began after 9459560 writes", "Cleaning began after 9,459,560 writes."),
    ("after 9,459,560 of 65536 bytes, 2026-11-25", "After 9,459,560 of 65,536 bytes, 2026-11-25."),
    ("only 44% of 415", "Only 44 % of 415."),
    ("by chance with 1e-06", "By chance with 1\u00a0×\u00a010⁻⁶."),
    ("0.12345 of 1234.5 by st5000as0011", "0.12345 of 1234.5 by st5000as0011.")])
def test_numbers_have_one_format(said, text):
    """Numbers have one format, in sentences of tests and in tables."""
    assert report.sentence(said) == text


def test_ticks_have_equal_digits():
    def draw(figure):
        axes, = plots.panels(figure, 1)
        axes.plot([0, 1], [0, 1])
        axes.set_yticks([0.0012, 1], ["0.0012", "1"])
    text = plots.svg(draw, "x")
    assert ">0.0012<" in text and not re.search(r' [xyd]="[^"]*\.\d{3}', text)


def test_numbers_on_axes_have_the_common_format():
    def draw(figure):
        left, right = plots.panels(figure, 2)
        left.plot([0, 80000], [0, 0.4])
        right.plot([0, 1], [0, 0.00045])
    text = plots.svg(draw, "x")
    assert ">80,000<" in text and ">80000<" not in text and ">0.0004<" in text


STYLE = (TOP / "scripts/src/skylight/page.html").read_text(encoding="utf-8")
CLIFF = {"writes_until_cleaning": 9459560, "usual_ms": 10.2, "stall_ms": 1234.5}


def with_cliff(folder, ident="6", numbers=None, tests=("1", "2", "6", "11", "12", "13")):
    """Return a report in which Test 6 has found the cliff."""
    drive(folder, tests)
    path = folder / f"{session.stem(ident)}.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**result, "numbers": CLIFF if numbers is None else numbers}))
    return report.html_of(report.load(folder))


def test_cliff_is_first_on_the_page(tmp_path):
    """The write at which the drive had to begin cleaning (the cliff) is the first thing on the
    page."""
    text = with_cliff(tmp_path)
    whole(text)
    at = [text.index(f'id="{ident}"') for ident in ("cliff", "answers", "t1", "t6")]
    assert at == sorted(at)
    cliff = text[at[0]:text.index("</section>", at[0])]
    assert "After 9,459,560\u00a0random writes the drive had to clean" in cliff
    assert "10.2\u00a0ms" in cliff and '<div class="wide"><svg' in cliff
    # The picture is included once, because it is the heaviest part of the page.
    section = text[at[3]:text.index("</section>", at[3])]
    assert "<svg" not in section and 'href="#cliff"' in section
    assert text.count('<div class="wide"><svg') == 4


@pytest.mark.parametrize("longest, words_, warned", [
    (2744.0, "The longest took 2,744\u00a0ms", False),
    (24000.0, "The longest took 24\u00a0s", True)])
def test_longest_stall_is_reported(tmp_path, longest, words_, warned):
    text = with_cliff(tmp_path, numbers={**CLIFF, "longest_ms": longest}, tests=("6",))
    assert words_ in text and "Linux gives a command 30\u00a0s" in text
    assert ("resets the drive" in text) == warned


def test_versions_are_on_the_page(tmp_path):
    """The versions of the programs are on the page and in the JSON."""
    made = {"skylight": "1.2.3", "kernel": "7.3.4", "fio": "fio-3.33"}
    folder = drive(tmp_path, ("1",), run={"versions": [{"fio": "fio-3.0"}, made]})
    page, machine = report.write(folder)
    assert "Skylight 1.2.3, fio-3.33, Linux 7.3.4" in page.read_text(encoding="utf-8")
    assert json.loads(machine.read_text(encoding="utf-8"))["run"]["versions"][1] == made


@pytest.mark.parametrize("tests, numbers", [(("1", "2"), None), (("6",), {"writes": 20000})])
def test_page_without_a_cliff(tmp_path, tests, numbers):
    text = with_cliff(tmp_path, numbers=numbers, tests=tests) if numbers else \
        report.html_of(report.load(drive(tmp_path, tests)))
    whole(text)
    assert 'id="cliff"' not in text and "#cliff" not in text
    assert text.count('<div class="wide"><svg') == len(tests)


def test_table_of_contents(tmp_path):
    text = with_cliff(tmp_path)
    nav = re.search(r"<nav>(.*?)</nav>", text, re.S)[1]
    assert re.findall(r'href="#(\w+)"', nav) == ["cliff", "answers", "words", "t1", "t2", "t6",
                                                 "t11", "t12", "t13"]
    assert 'Test 12: mapping</a> <span class="soft">(skipped)' in nav
    assert text.index("<nav>") < text.index('id="answers"')


def test_column_of_reasons_is_wide_enough():
    """The column with the reasons is wide enough to read, and narrow screens stack the cells."""
    assert re.search(r"td\.says \{[^}]*width: 40%;[^}]*min-width: 18rem", STYLE)
    # Cells that are stacked on narrow screens have no minimum width.
    small = STYLE[STYLE.index("@media (max-width: 860px)"):]
    assert re.search(r"table\.answers td \{ display: block;[^}]*min-width: 0;[^}]*width: auto",
                     small)


def test_job_files_are_folded_and_limited(tmp_path, monkeypatch):
    """The page hides fio's job files until the reader opens them, and includes only some of
    thousands."""
    monkeypatch.setattr(report, "drawing", lambda ident: lambda *_: None)
    folder = drive(tmp_path, ("1",))
    path = folder / "t01.json"
    names = [f"jobs/t01-{i}.fio" for i in range(2000)]
    for name in names:
        (folder / name).write_text("[job]\n" + "# a line of many words\n" * 200)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "jobs": names}))
    text = report.html_of(report.load(folder))
    tree = whole(text)
    assert tree and len(text.encode()) < 1_000_000
    section = text[text.index('id="t1"'):]
    first = section.index("rw=") if "rw=" in section else section.index("[job]")
    before = section[:first]
    assert before.count("<details") - before.count("</details") == 2     # one inside the other
    assert section.index("<details><summary>Do it again") < section.index("fio t01-0.fio")


def test_failed_picture_gives_one_line(tmp_path, monkeypatch):
    def broken(*_):
        raise KeyError("lat_us")
    monkeypatch.setattr(report, "drawing", lambda ident: broken)
    text = report.html_of(report.load(drive(tmp_path, ("1", "2"))))
    whole(text)
    assert text.count("There is no picture: KeyError") == 2


def test_missing_results_give_one_line(tmp_path):
    with pytest.raises(ValueError, match="holds no result"):
        report.load(tmp_path)
    with pytest.raises(ValueError, match="is not a directory"):
        report.load(tmp_path / "none")


def damaged(folder, ident="01", **more):
    """A directory with a result that was changed by hand."""
    path = drive(folder) / f"t{ident}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    return folder


@pytest.mark.parametrize("name, text", [
    ("run", "[1]"), ("run", '"x"'), ("run", "{"), ("truth", "[1]"), ("truth", '{"drive_type": 1}'),
    ("run", '{"device": {"bytes": "many"}}'), ("run", '{"versions": ["6.1"]}'), ("t02", "{")])
def test_damaged_files_give_one_line(tmp_path, name, text, capsys):
    (drive(tmp_path) / f"{name}.json").write_text(text)
    for command in (["report", str(tmp_path)],
                    ["compare", str(tmp_path), "--out", str(tmp_path / "c.html")]):
        if command[0] == "compare" and name == "truth":
            continue
        assert cli.main(command) == cli.USAGE
        said = capsys.readouterr().err
        assert str(tmp_path) in said and said.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("more", [
    {"numbers": [1]}, {"jobs": 5}, {"jobs": [5]},
    {"findings": {"drive_type": {"value": "shingled", "confidence": "x"}}}])
def test_damaged_results_give_one_line(tmp_path, more):
    with pytest.raises(ValueError, match=f"{tmp_path} .*damaged or of another version"):
        report.write(damaged(tmp_path, **more))


@pytest.mark.parametrize("ident", [1, "2", "1<x>", "../../x"])
def test_file_name_tells_the_test_of_a_result(tmp_path, ident):
    """The name of a file, not a field in it, tells which test a result belongs to."""
    assert "1" in report.load(damaged(tmp_path, test=ident)).tests


@pytest.mark.parametrize("link", [False, True])
def test_report_includes_no_files_from_elsewhere(tmp_path, link):
    """A report includes job files only from below its own directory: directories of runs are
    exchanged, and a crafted one must not bring private files of the reader into the page."""
    (tmp_path / "secret").write_text("not for anybody")
    folder, name = tmp_path / "run", "../secret"
    if link:
        name = "jobs/a.fio"
        (drive(folder) / name).symlink_to(tmp_path / "secret")
    page, _ = report.write(damaged(folder, jobs=[name, "jobs/t01-a.fio", str(tmp_path / "secret")]))
    assert "not for anybody" not in page.read_text() and "rw=&lt;randwrite&gt;" in page.read_text()


@pytest.mark.parametrize("tests, sentence, cell", [
    (("1", "2"), "This drive is <b>translated</b>, and whether it is shingled", ""),
    (("1", "11"), "This drive is <b>shingled</b>", "shingled (SMR)")])
def test_drive_that_only_moves_blocks_is_called_translated(tmp_path, tests, sentence, cell):
    """Without Test 11 a drive that moves blocks is called translated, on the page and in the
    JSON."""
    folder = drive(tmp_path, tests)
    page, machine = report.write(folder)
    text = page.read_text(encoding="utf-8")
    whole(text)
    lead = re.search(r'<p class="lead">(.*?)</p>', text)[1]
    assert lead.startswith(sentence), lead
    assert ("persistent cache" in lead) == bool(cell)
    answer = json.loads(machine.read_text(encoding="utf-8"))["answers"]["drive_type"]
    summary = re.search(r'<table class="answers">.*?</table>', text, re.S)[0]
    if cell:
        assert answer["value"] == "shingled" and cell in summary
    else:
        assert answer["value"] == "translated" and "Test 11" in answer["says"]
        assert "translated, cannot tell whether shingled" in summary
        assert "Test 11" in summary and "shingled (SMR)" not in summary


def test_ground_truth_is_a_column(tmp_path):
    folder = drive(tmp_path, ("1", "11"), truth={
        "drive_type": {"mark": "right", "truth": "shingled"},
        "band_bytes": {"mark": "wrong", "truth": "36 MiB"}})
    text = report.html_of(report.load(folder))
    whole(text)
    assert "<th>truth</th>" in text and "1 right, 1 wrong" in text


def test_names_are_escaped_on_the_page(tmp_path):
    """Tags in the name of a drive, a run or a file are escaped."""
    evil = "\"'></td></p><script x=1>&"
    runs = []
    for name in "ab":
        folder = drive(tmp_path / name, ("1", "6", "12"), run={
            "name": name + evil, "device": {"path": evil, "model": evil}, "begun": evil,
            "scale": evil, "folder": evil, "versions": [{"skylight": evil, "kernel": evil}]},
            truth={"drive_type": {"mark": evil, "truth": evil}})
        (folder / "jobs/t01-a.fio").write_text(evil)
        for path in folder.glob("t*[0-9].json"):
            result = json.loads(path.read_text(encoding="utf-8"))
            for finding in result["findings"].values():
                finding.update(says=evil, unit=evil)
            result.update(title=evil, why=evil, numbers={**result["numbers"], evil: evil})
            path.write_text(json.dumps(result), encoding="utf-8")
        runs.append(report.load(folder))
    for text in (report.html_of(runs[0]), compare.html_of(runs)):
        whole(text)
        assert "script x=1&gt;" in text and "<script" not in text
        for tag in ("title", "h1"):
            assert evil in html.unescape(re.search(rf"<{tag}>(.*?)</{tag}>", text)[1])


@pytest.mark.parametrize("x, unit, name, text", [
    (None, "", "", "cannot tell"), (40 * MIB, "bytes", "", "40 MiB"),
    (41943041, "", "band_bytes", "40 MiB"), (10.169, "ms", "", "10.17 ms"),
    (9459560, "", "", "9,459,560"), (0.000012, "", "", "1.2 × 10⁻⁵"),
    (23456.7, "", "", "23,457"), (1497.3, "", "", "1,497"), ("static", "", "", report_text.VALUES["static"]),
    (True, "", "", "yes"), (0, "bytes", "", "0 bytes"), (45000.0, "ms", "", "45 s"),
    ([1, 2, 3], "", "", "1, 2, 3"), ("a new word", "", "", "a new word"),
    ([[0, 180.0], [9, 90.0]], "", "zone_profile", "2 zones, 180 to 90 MB/s"),
    (float("nan"), "", "", "nan")])
def test_formats_of_values(x, unit, name, text):
    assert report.value(x, unit, name).replace("\u00a0", " ") == text


@pytest.mark.parametrize("low, high, text", [
    (None, None, ""), (40 * MIB, 40 * MIB, "exactly"), (None, 50 * MIB, "at most 50 MiB"),
    (30 * MIB, None, "at least 30 MiB"), (30 * MIB, 50 * MIB, "30 MiB to 50 MiB")])
def test_formats_of_intervals(low, high, text):
    found = {"value": 40 * MIB, "unit": "bytes", "low": low, "high": high}
    assert report.interval(found, "band_bytes") == text


def test_confidence_is_never_rounded_up():
    assert report.sure(0.99996) == ("99.9 %", "sure")
    assert report.sure(0.8999)[1] == "likely"
    assert report.sure(None) == ("0 %", "weak")


def test_comparison_page(tmp_path):
    folders = [drive(tmp_path / "a" / "out", ("1", "2", "11")),
               drive(tmp_path / "b" / "out", ("1", "11", "13"), band=20 * MIB)]
    page, text = compare.write(folders, tmp_path / "c.html")
    got = page.read_text(encoding="utf-8")
    whole(got)
    assert "a/out" in got and "b/out" in got
    assert "40 MiB" in text and "20 MiB" in text
    band = re.search(r"<tr([^>]*)><th scope=\"row\">Band size", got)[1]
    same = re.search(r"<tr([^>]*)><th scope=\"row\">Shingled", got)[1]
    assert "differs" in band and not same
    assert "b/out: failed, fio: error" in got and "a/out: not run" in got


def test_overlay_keeps_every_series():
    """A picture of the comparison has the data of all drives, without marks, and bars become
    lines."""
    def one(shift):
        def draw(figure):
            left, right = plots.panels(figure, 2)
            plots.dots(left, np.arange(10) + shift)
            left.axhline(3)
            right.bar([1, 2, 3], [4, 5, 6 + shift])
            right.set_xlabel("x")
        return draw
    figure = plots.drawn(lambda f: plots.overlay(f, [("a", one(0)), ("b", one(100))]))
    left, right = figure.axes
    assert [line.get_ydata()[0] for line in left.lines] == [0, 100]
    assert right.get_xlabel() == "x"
    assert [max(line.get_ydata()) for line in right.lines] == [6, 106]


def test_formats_of_intervals_of_counts():
    entries = {"value": 90979, "low": 90979, "high": 201613.4}
    assert report.interval(entries, "map_entries") == "90,979 to 201,613"
    torn = {"value": False, "low": 0.0, "high": 0.05816}
    assert report.interval(torn, "torn_writes") == "at most 5.8 %"


def test_formats_of_durations():
    assert [report.duration(s) for s in (None, 2.56e-7, 0.25, 130, 9000)] == [
        "", "", "0.25 s", "2 min", "2.5 h"]


def test_overlay_keeps_named_ticks():
    def draw(figure):
        across, up = plots.panels(figure, 2)
        across.plot([0, 1, 2], [3, 4, 5])
        across.set(xticks=[0, 1, 2])
        across.set_xticklabels(["low", "mid", "high"])
        up.plot([0, 1], [0, 1])
        up.set_yticks([0, 1], ["stayed", "moved"])
    figure = plots.drawn(lambda f: plots.overlay(f, [("a", draw), ("b", draw)]))
    across, up = figure.axes
    assert [t.get_text() for t in across.get_xticklabels()] == ["low", "mid", "high"]
    assert [t.get_text() for t in up.get_yticklabels()] == ["stayed", "moved"]


def test_every_test_and_answer_has_text():
    for ident in ("1", "1abc", *map(str, range(2, 16)), "clean", "filled"):
        assert all(report_text.test(ident)), ident
    for _, question, tests in report_text.ANSWERS.values():
        assert question
        assert all(t in report_text.TESTS for t in tests.split())


def test_names_that_are_not_utf8(tmp_path):
    """A bad name of a directory or a drive must not cost the page of hours of tests."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/drive\xff"))
    folder.mkdir()
    Result(test="1", title="x", jobs=["jobs/a.fio"]).save(folder, "t01")
    (folder / "run.json").write_text(json.dumps({"name": "D\udcff<b>"}))
    page, _ = report.write(folder)
    assert "<h1>D?&lt;b&gt;</h1>" in page.read_text(encoding="utf-8")
    done = subprocess.run([TOP / "scripts/skylight", "report", folder], check=False,
                          capture_output=True, env={**os.environ, "PYTHONUTF8": "1"})
    assert done.returncode == 0 and rb"drive\udcff/report.html" in done.stdout, done.stderr
