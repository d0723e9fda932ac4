# SPDX-License-Identifier: GPL-2.0
"""The parts that all experiments share: the catalogue, options, tables, the reuse of results, and
the evaluation of a course."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from experiments import all as everything
from experiments import catalogue, imr, regions, report, resume, runner
from experiments.__main__ import NAMES
from experiments.catalogue import RESULTS, Result
from experiments.evaluation import last_speed
from experiments.tables import Table, of_json
from lab import runner as lab_runner
from test_documents import DOCUMENTS, TOP, read, source_of

SHOWS = TOP / "scripts/src/experiments"
RESULTS_RST = DOCUMENTS / "results.rst"
BY_COMMAND = {r.command: r for r in RESULTS}


# --- documents ---------------------------------------------------------------------------


def rows():
    """Yield (section, what, command, day) for every row of the tables that have a column for
    commands. A row without a command has that of the row above."""
    tree = publish_doctree(RESULTS_RST.read_text(encoding="utf-8"))
    command = ""
    for table in tree.findall(nodes.table):
        head, *body = [[entry.astext() for entry in row.findall(nodes.entry)]
                       for row in table.findall(nodes.row)]
        if head[2:] != ["command", "2026"]:
            continue
        title = table.parent.next_node(nodes.title).astext()
        for row, node in zip(body, list(table.findall(nodes.row))[1:]):
            cell = list(node.findall(nodes.entry))[2]
            command = " && ".join(" ".join(code.astext().split())
                                  for code in cell.findall(nodes.literal)) or command
            yield title, row[0], command, f"2026-{row[3]}"


def test_the_page_has_the_catalogue():
    """results.rst contains the table that the catalogue generates."""
    assert catalogue.table() in RESULTS_RST.read_text(encoding="utf-8"), \
        "scripts/experiments all --table prints what belongs there"


def test_rows_have_commands_of_the_catalogue():
    """Each measured row has a command of the catalogue, which is not older than the row and
    names the row's section."""
    found = list(rows())
    assert len(found) > 15
    for title, what, command, day in found:
        assert command in BY_COMMAND, f"{what}: '{command}' is not in the catalogue"
        assert day <= BY_COMMAND[command].measured, f"{what} is younger than the catalogue says"
        if BY_COMMAND[command].page == "results.rst":
            sections = {t for t, _, c, _ in found if c == command}
            assert BY_COMMAND[command].section in sections, (title, what)


def test_commands_of_the_catalogue_have_rows():
    """Each entry of the catalogue has a row, and its date is that of its newest row."""
    days = {}
    for title, _, command, day in rows():
        days.setdefault((command, title), []).append(day)
    everywhere = {c: max(d for (of, _), all_ in days.items() for d in all_ if of == c)
                  for c, _ in days}
    for r in RESULTS:
        if r.page == "results.rst":
            assert (r.command, r.section) in days, f"{r.name} has no row in {r.section}"
            assert everywhere[r.command] == r.measured, r.name
    assert "``make bench``" in RESULTS_RST.read_text(encoding="utf-8")


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: r.name)
def test_entry_names_existing_files(result):
    """The page, section, sources, command and JSON file that an entry names exist."""
    page = read(DOCUMENTS / result.page if result.page.endswith(".rst") else TOP / result.page)
    assert result.section in page.titles
    for code in result.sources:
        assert (TOP / code).exists(), code
    whole = " ".join(page.text.split())
    first = result.command.rsplit(" && ", maxsplit=1)[-1].split()[0]
    assert result.needs or result.command in whole or first in whole or \
        all(part in whole for part in result.command.split(" && ")), result.command
    # The source contains the name of the JSON file.
    if result.json == "--json":
        assert result.command.startswith("scripts/experiments ")
    elif result.json:
        folder, name = result.json.rsplit("/", 1)
        source = source_of(*result.command.split()[:2])
        assert f'"{folder}"' in source and f'"{name}"' in source


def test_names_and_commands_are_unique():
    assert len({r.name for r in RESULTS}) == len(BY_COMMAND) == len(RESULTS)


def test_every_experiment_is_in_the_catalogue():
    others = {"all", "report", "bench", "demo"}     # `make bench` and `make demo`
    assert set(NAMES) - others == {found for r in RESULTS for found in re.findall(
        r"scripts/experiments ([\w-]+)", r.command)}


def test_readme_names_commands_of_the_catalogue():
    text = (TOP / "README.md").read_text(encoding="utf-8")
    table = re.search(r"^\| what \| measured \| command \|\n.*?\n\n", text, re.M | re.S)[0]
    told = [line.split("|")[3].strip() for line in table.splitlines()[2:] if line]
    assert len(told) == 5
    for cell in filter(None, told):
        page = re.fullmatch(r"\[([\w/-]+\.rst)\]\(Documentation/\1\)", cell)
        assert cell.strip("`") in BY_COMMAND or page and page[1] in {r.page for r in RESULTS}
    for r in RESULTS:
        assert r.page != "README.md" or f"`{r.command}`" in told, r.name


# --- running -----------------------------------------------------------------------------


class Silent:
    """A screen that stores its output instead of printing it."""

    def __init__(self):
        self.said, self.heads = [], []

    def test(self, head, expected, later):
        self.heads.append((head, expected, later))

    def show(self, done, total):
        pass

    def clear(self):
        pass

    def say(self, text):
        self.said.append(text)


def result(name, command, **more):
    return Result(name, command, "results.rst", "None", "2026-01-02",
                  more.pop("code", ("scripts/src/experiments/all.py",)), **more)


@pytest.fixture(name="run")
def a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(everything, "versions", lambda: {"fio": "none"})
    out = tmp_path / "out"
    out.mkdir()

    def make():
        of = everything.Run(out, Silent())
        of.load()
        return of
    return make


def kept(run):
    return json.loads(run.file.read_text(encoding="utf-8"))


def test_run_stores_results_and_reports_failures(run, tmp_path):
    """A run stores the figures or the output of each command, reports failures, and passes over
    what needs a variable that is not set. --resume runs only what failed."""
    of, count = run(), tmp_path / "count"
    script = tmp_path / "figures"
    script.write_text(f'#!/bin/sh\necho x >>{count}\necho "{{\\"results\\": {{\\"mean\\": 6.5}}}}" >"$2"\n')
    script.chmod(0o755)
    results = [result("figures", str(script), json="--json", minutes=2),
               result("words", "echo so many; echo no >&2"), result("fails", "echo why; exit 3"),
               result("needy", "false", needs="SHINGLE_NOBODY_SETS_THIS")]
    assert of.all(results, resume=False) == 1
    found = kept(of)["results"]
    assert found["figures"]["figures"] == {"mean": 6.5} and "output" not in found["figures"]
    assert found["words"]["output"] == "so many\nno\n" and found["words"]["figures"] is None
    assert found["fails"]["status"] == 3 and found["fails"]["output"] == "why\n"
    assert "needy" not in found
    assert found["words"]["versions"] == {"fio": "none"} and len(kept(of)["date"]) == 10
    assert [head.split()[0] for head, *_ in of.screen.heads] == ["figures", "words", "fails"]
    # One command has a recorded duration of two minutes; the others have none and count as five.
    assert [(e, later) for _, e, later in of.screen.heads] == [(120, 600), (300, 300), (300, 0)]
    said = "\n".join(of.screen.said)
    assert "needy: passed over: SHINGLE_NOBODY_SETS_THIS is not set" in said
    assert "fails: ended with status 3" in said
    assert re.search(r"words: .*writes no JSON", said)
    assert not re.search(r"figures: .*writes no JSON", said)
    # --resume does not repeat what succeeded.
    again = run()
    assert again.all(results, resume=True) == 1
    assert count.read_text() == "x\n"
    assert [head.split()[0] for head, *_ in again.screen.heads] == ["fails"]
    assert set(kept(again)["results"]) == {"figures", "words", "fails"}
    third = run()
    assert third.all(results[:1], resume=False) == 0 and count.read_text() == "x\nx\n"
    # The expected time is that of the last run, not the catalogue's.
    assert third.screen.heads == [("figures (1 of 1)", found["figures"]["seconds"], 0)]


def test_resume_repeats_runs_of_other_sources(run, monkeypatch):
    """A stored result is not used if the sources of the experiment have changed."""
    results = [result("one", "true")]
    assert run().all(results, resume=False) == 0
    monkeypatch.setattr(everything.resume, "sources", lambda names: f"other {names}")
    again = run()
    assert again.all(results, resume=True) == 0 and len(again.screen.heads) == 1


def test_old_json_file_is_not_taken_for_a_new_result(run, monkeypatch, tmp_path):
    """A JSON file from an earlier run is not taken for the result of a command that writes none."""
    monkeypatch.setattr(everything, "TOP", tmp_path)
    of = run()
    for name in (of.out / "fails.json", tmp_path / "own.json"):
        name.write_text('{"mean": 1}')
    of.all([result("fails", "false", json="--json"), result("own", "false", json="own.json"),
            result("writes", "echo '{\"results\": 7}' >new.json", json="new.json")], resume=False)
    assert [kept(of)["results"][name]["figures"] for name in ("fails", "own", "writes")] == \
        [None, None, 7]


def test_directory_is_the_value_of_the_variable(run, monkeypatch):
    """DIRECTORY in a command stands for the value of the variable that the command needs."""
    monkeypatch.setenv("SHINGLE_SOMEWHERE", "a place")
    of = run()
    assert of.all([result("needy", "echo DIRECTORY", needs="SHINGLE_SOMEWHERE")], False) == 0
    assert kept(of)["results"]["needy"]["output"] == "a place\n"


def test_interrupt_ends_the_running_command(tmp_path, run):
    """An interrupt ends the running command with its children. Otherwise a guest would go on."""
    of, pids = run(), tmp_path / "pids"
    of.screen.show = lambda *_: pids.exists() and pids.read_text().count("\n") == 2 and \
        (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        of.all([result("long", f"echo $$ >>{pids}; (echo 0 >>{pids}; exec sleep 600)")], False)
    child = int(pids.read_text().split()[0])
    for _ in range(600):
        try:
            os.killpg(child, 0)
        except ProcessLookupError:
            break
        time.sleep(.1)
    else:
        os.killpg(child, signal.SIGKILL)
        pytest.fail("still there")


# --- older than the code? ------------------------------------------------------------------


def git(top, *words, day="2026-01-01"):
    when = f"{day}T12:00:00+0000"
    subprocess.run(["git", "-C", top, "-c", "user.name=n", "-c", "user.email=e", *words],
                   check=True, capture_output=True,
                   env=dict(os.environ, GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when))


@pytest.mark.skipif(not shutil.which("git"), reason="no git")
@pytest.mark.parametrize("day, stale, word", [
    ("2026-01-01", 0, ""), ("2026-01-02", 0, "the same day"), ("2026-01-03", 1, "one more")])
def test_check_reports_outdated_results(tmp_path, capsys, day, stale, word):
    """--check reports results that are older than the last commit to their sources. A commit of
    the same day does not count, nor one to other files."""
    git(tmp_path, "init", "-q")
    for name in ("core", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("1")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    (tmp_path / "core/file").write_text("2")
    git(tmp_path, "commit", "-qam", "one more", day=day)
    (tmp_path / "other/file").write_text("3")
    git(tmp_path, "commit", "-qam", "elsewhere", day="2026-02-01")
    results = [result("core", "true", code=("core",)), result("none", "true", code=("not",))]
    assert everything.check(results, tmp_path) == stale
    out = capsys.readouterr().out
    assert word in out and "elsewhere" not in out
    assert f"{stale} of 2 are older" in out and "nothing that git knows of" in out


def test_check_without_git(tmp_path, capsys, monkeypatch):
    """Without git, or without a history, --check prints the dates and reports nothing as old."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert everything.check([result("a", "true")], tmp_path) == 0
    assert "No git history here" in capsys.readouterr().out
    monkeypatch.setenv("PATH", str(tmp_path))
    assert everything.check([result("a", "true")], tmp_path) == 0
    assert "2026-01-02" in capsys.readouterr().out


def asked(*args):
    return subprocess.run([TOP / "scripts/experiments", "all", *args], text=True,
                          capture_output=True, check=False, timeout=600)


def test_command_line():
    done = asked("--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[::2]] == \
        [r.name for r in RESULTS]
    done = asked("--only", "torn", "--only", "tron")
    assert done.returncode == 2 and "'tron' is none of demo, check" in done.stderr
    assert asked("--check", "--only", "torn").returncode in (0, 1)


def test_guests_end_with_their_experiment():
    """Experiments start guests through runner.in_guest(), which passes their own process as
    --caller. So the guests end when an experiment is killed."""
    argv = lab_runner("--kernel", "uml")
    assert argv[argv.index("--caller") + 1] == str(os.getpid()) and argv[-1] == "uml"
    texts = {str(f): f.read_text() for f in SHOWS.rglob("*.py")}
    assert sum("runner.in_guest(" in text for text in texts.values()) > 4
    assert not [name for name, text in texts.items() if '"scripts/lab/run"' in text]


REFUSED = {
    "confidence": (
        (("--drives", "0"), "--drives"),
        (("--drives=-3",), "--drives"),
        (("--seed=-1",), "--seed"),
    ),
    "flash": (
        (("--scale", "3"), "--scale 3 does not divide 4096 rows"),
        (("--without", "RMW-F"), "all others are compared with RMW-F"),
    ),
    "imr": (
        (("--set", "foo"), "--set 'foo' is no KEY=VALUE"),
        (("--scale", "0"), "--scale 0 is less than 1"),
        (("--scale", "3", "--record", "3072"), "--scale is a power of 2 up to 512"),
        (("--scale", "3"), "--scale is a power of 2 up to 512"),
        (("--scale", "1024"), "--scale is a power of 2 up to 512"),
        (("--record", "0"), "--record 0 is less than 1"),
        (("--record", "96"), "files of 64 MB do not hold a whole number of records of 96 KiB"),
        (("--sizes", "x"), "--sizes: 'x' is no number from 1 on"),
        (("--sizes", "64,0"), "--sizes: '0' is no number from 1 on"),
        (("--seeds", ","), "--seeds: '' is no number from 0 on"),
        (("--seeds=-1",), "--seeds: '-1' is no number from 0 on"),
        (("--jobs", "0"), "--jobs 0 is less than 1"),
        (("--timeout", "0"), "--timeout 0 is less than 1"),
        (("--flush-us=-1",), "--flush-us -1 is less than 0"),
        (("--flush-us", "1000001"), "--flush-us 1000001 is more than a second"),
        (("--load", "0"), "--load 0 is less than 1"),
        (("--ops", "0", "--mix", "R50"), "--ops 0 is less than 1"),
        (("--ops", "5"), "--ops are those of a --mix"),
        (("--tracks", "2"), "--tracks 2 is less than 4"),
        (("--tracks", "5001"), "an even number is needed"),
        (("--schemes", "best"), "scheme 'best' is none of"),
        (("--set-up", "paper", "--scale", "32"), "the paper's drive cannot be divided"),
        (("--set-up", "paper", "--verify"), "the paper's drive cannot be divided"),
        (("--set-up", "paper", "--sizes", "32", "--record", "1024"),
         "files of 32 MB do not hold a whole number of records of 1024 KiB"),
    ),
    "kv": (
        (("--parts", "rivals,outside"),
         "--parts 'outside' is none of rivals, native, worst, inside, offload"),
        (("--drives", "imr"), "--drives 'imr' is none of conventional, stl-set, stl-full"),
        (("--scale", "7"), "--scale 7 is not from 8 to 160"),
        (("--scale", "161"), "--scale 161 is not from 8 to 160"),
        (("--drive-mib", "100"), "--drive-mib 100 is less than three times the records"),
        (("--cache", "7"), "--cache 7 is less than 8"),
        (("--rounds", "0"), "--rounds 0 is less than 1"),
        (("--puts", "999"), "--puts 999 is less than 1000"),
        (("--seed", "-1"), "--seed -1 is less than 0"),
    ),
    "kvimr": (
        (("--parts", "load,all"), "part 'all' is none of load, ways, sizes, mixes"),
        (("--seeds", "1,x"), "--seeds: 'x' is no number from 0 on"),
        (("--seeds", ","), "--seeds: '' is no number from 0 on"),
        (("--jobs", "0"), "--jobs 0 is less than 1"),
    ),
    "layers": (
        (("--scale", "3"), "--scale 3 does not divide 4096 rows"),
        (("--loads", "best"), "load 'best' is none of rsrch_0, "),
        (("--layers", "nonsense"), "invalid choice: 'nonsense'"),
    ),
    "read-time": (
        (("--scale", "0"), "--scale 0 is less than 1"),
        (("--loads", "shuffled,best"), "load 'best' is none of descending, "),
        (("--requests", "0"), "--requests 0 is less than 1"),
    ),
    "rebuild": (
        (("--drive-mib", "127"), "--drive-mib 127 is not from 128 to 768"),
        (("--drive-mib", "769"), "--drive-mib 769 is not from 128 to 768"),
        (("--per-s", "0"), "--per-s 0 is less than 1"),
        (("--limit", "0"), "--limit 0 is less than 1"),
        (("--seed", "-1"), "--seed -1 is less than 0"),
        (("--layers", "nonsense"), "invalid choice: 'nonsense'"),
        (("--loads", "heavy"), "invalid choice: 'heavy'"),
    ),
    "regions": (
        (("2",), "shows are 3, 4 and 5"),
        (("--scale", "0"), "--scale 0 does not divide 4096 rows"),
        (("--scale", "3"), "--scale 3 does not divide 4096 rows"),
        (("--dense", "0"), "--dense 0 is not from 1 to 100"),
        (("--dense", "101"), "--dense 101 is not from 1 to 100"),
        (("--requests", "0"), "--requests 0 is less than 1"),
        (("--timeout", "0"), "--timeout 0 is less than 1"),
        (("--seed=-1",), "--seed -1 is less than 0"),
        (("--loads", "rsrch_0,best"), "load 'best' is none of rsrch_0, "),
    ),
}


@pytest.mark.parametrize("name,args,sentence", [
    (name, *row) for name, rows in REFUSED.items() for row in rows])
def test_wrong_options_are_refused(name, args, sentence):
    done = subprocess.run([TOP / "scripts/experiments", name, *args], text=True,
                          capture_output=True, check=False, timeout=600)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"{name}: ")
    assert sentence in done.stderr


def test_what_is_said_twice_is_measured_once():
    """Values that an option repeats count once. Otherwise two guests would write the same file
    at a time, and one run would count as several in the statistics over seeds."""
    assert runner.number_list("3,1,3,03", 0, "--seeds:") == [3, 1]
    assert runner.name_list("seq,plain,seq", ("plain", "seq", "3phase"), "scheme") == ["seq", "plain"]


@pytest.mark.parametrize("text,sentence", (
    ("seq,best", "scheme 'best' is none of plain, seq"), ("", "scheme '' is none of plain, seq"),
    ("seq,", "scheme '' is none of plain, seq")))
def test_unknown_names(text, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        runner.name_list(text, ("plain", "seq"), "scheme")


@pytest.mark.parametrize("text,word", (("1,x", "x"), ("3,0", "0"), ("", ""), ("-1", "-1"), ("1,2.5", "2.5")))
def test_no_numbers(text, word):
    with pytest.raises(ValueError, match=f"^--sizes: '{word}' is no number from 1 on$"):
        runner.number_list(text, 1, "--sizes:")


def test_no_more_than_a_program_takes():
    """The largest number is that of 64 bits, which the programs accept."""
    assert runner.number_list(f"{2 ** 64 - 1}", 0, "--seeds:") == [2 ** 64 - 1]
    with pytest.raises(ValueError, match=f"^--seeds: '{2 ** 64}' is more than {2 ** 64 - 1}$"):
        runner.number_list(f"1,{2 ** 64}", 0, "--seeds:")


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


STORED = ("core", "dm-imr", "scripts/src/experiments/in_guest/imr.py")


@pytest.mark.parametrize("sources", (imr.SOURCES, regions.stacks.SOURCES))
def test_listed_sources_exist(sources):
    """Each source that an experiment lists for its stored results exists."""
    for name in sources:
        assert (TOP / name).exists(), name


def test_checksum_covers_all_sources(tmp_path):
    """The checksum of the sources changes with each source, and with a new one, but not with
    objects and other files."""
    for name in ("core/log/journal.c", "dm-imr/Kbuild", "scripts/src/experiments/in_guest/imr.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    seen = {resume.sources(STORED, tmp_path)}
    assert resume.sources(STORED, tmp_path) in seen
    for name in ("core/log/journal.c", "dm-imr/Kbuild", "scripts/src/experiments/in_guest/imr.py", "core/run.h"):
        (tmp_path / name).write_text("d")
        seen.add(resume.sources(STORED, tmp_path))
    assert len(seen) == 5
    for name in ("core/log/journal.o", "scripts/src/experiments/other.py"):
        (tmp_path / name).write_text("e")
        assert resume.sources(STORED, tmp_path) in seen


def test_results_of_other_options_or_sources_are_not_used(tmp_path):
    """A stored result is used only if it is whole and has the same options and sources."""
    out, words = tmp_path / "out", {"args": ["--seed", "1"], "sources": "12ab"}
    assert resume.earlier(out, words) is None
    for text in ("", "{", "[]", "7", '[{"words": 1}]', "{}",
                 json.dumps({"words": {**words, "sources": "34cd"}}),
                 json.dumps({"words": {"args": words["args"]}})):
        out.write_text(text)
        assert resume.earlier(out, words) is None
    out.write_text(json.dumps({"words": words, "device": {}}))
    assert resume.earlier(out, words) == {"words": words, "device": {}}


def course(records, memtable, parts, seconds):
    """Return a course as shingle-levels reports it: the point of a part is where the memtable is
    full after that part."""
    ends = [*range(memtable, records, memtable), records]
    due = [next(end for end in ends if end * parts >= nr * records)
           for nr in range(1, parts + 1)]
    return {"record_bytes": 1 << 20,
            "points": [{"inserted": end, "seconds": seconds(end)} for end in due]}


def test_speed_of_the_last_75th_is_interpolated():
    """Points do not lie where the last 75th begins, so the speed is interpolated between two of
    them. With 75,000 records in memtables of 65, this is the paper's last million of 75."""
    def seconds(inserted):
        return inserted if inserted <= 73060 else 73060 + 2 * (inserted - 73060)
    of = course(75000, 65, 75, seconds)
    beside = [p["inserted"] for p in of["points"][-3:]]
    assert beside == [73060, 74035, 75000]
    # The records from 73,060 to 75,000 take 2 s each, those before 1 s.
    assert last_speed(of, 1 / 75) == pytest.approx((1 << 20) / 2)
    # The share of 1,000 records begins between two points: 35 take 2 s each, 965 take 4 s.
    of["points"][-2]["seconds"] = of["points"][-1]["seconds"] - 965 * 4
    of["points"][-3]["seconds"] = of["points"][-2]["seconds"] - 975 * 2
    assert last_speed(of, 1 / 75) == pytest.approx(1000 * (1 << 20) / (965 * 4 + 35 * 2))


def test_point_at_the_begin_of_a_share_is_not_interpolated():
    """With 76,800 records in memtables of 64, a point lies where the last 75th begins, and
    nothing is interpolated."""
    of = course(76800, 64, 75, lambda inserted: inserted + 3 * max(0, inserted - 75776))
    assert [p["inserted"] for p in of["points"][-2:]] == [75776, 76800]
    assert last_speed(of, 1 / 75) == pytest.approx((1 << 20) / 4)


def test_speed_of_the_whole_load():
    """The speed of the whole load, and of a share that begins before the second point."""
    of = course(1000, 65, 5, lambda inserted: 3 * inserted)
    assert last_speed(of, 1) == pytest.approx((1 << 20) / 3)
    assert last_speed(of, 0.9) == pytest.approx((1 << 20) / 3)
