# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments all without guests, and its catalogue against the documents that have the
figures."""

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
from test_documents import DOCUMENTS, TOP, read, source_of
from experiments import catalogue
from experiments.__main__ import NAMES
from experiments.catalogue import RESULTS, Result
from lab import runner
from experiments import all as show

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
    monkeypatch.setattr(show, "versions", lambda: {"fio": "none"})
    out = tmp_path / "out"
    out.mkdir()

    def make():
        of = show.Run(out, Silent())
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
    monkeypatch.setattr(show.resume, "sources", lambda names: f"other {names}")
    again = run()
    assert again.all(results, resume=True) == 0 and len(again.screen.heads) == 1


def test_old_json_file_is_not_taken_for_a_new_result(run, monkeypatch, tmp_path):
    """A JSON file from an earlier run is not taken for the result of a command that writes none."""
    monkeypatch.setattr(show, "TOP", tmp_path)
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
    assert show.check(results, tmp_path) == stale
    out = capsys.readouterr().out
    assert word in out and "elsewhere" not in out
    assert f"{stale} of 2 are older" in out and "nothing that git knows of" in out


def test_check_without_git(tmp_path, capsys, monkeypatch):
    """Without git, or without a history, --check prints the dates and reports nothing as old."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert show.check([result("a", "true")], tmp_path) == 0
    assert "No git history here" in capsys.readouterr().out
    monkeypatch.setenv("PATH", str(tmp_path))
    assert show.check([result("a", "true")], tmp_path) == 0
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
    argv = runner("--kernel", "uml")
    assert argv[argv.index("--caller") + 1] == str(os.getpid()) and argv[-1] == "uml"
    texts = {str(f): f.read_text() for f in SHOWS.rglob("*.py")}
    assert sum("runner.in_guest(" in text for text in texts.values()) > 4
    assert not [name for name, text in texts.items() if '"scripts/lab/run"' in text]
