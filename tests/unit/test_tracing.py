# SPDX-License-Identifier: GPL-2.0
"""Tracepoints without a kernel: the document against the headers, and each recipe on lines as a
kernel prints them. tests/guest/tracing.py tests their values."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from test_documents import DOCUMENTS, TOP

HEADERS = {"shingle": "core/base/trace.h", "platter": "dm-platter/events.h"}
FOLDER = TOP / "scripts/trace"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.awk") if path.stem != "lib")
# busybox may lack the mathematical functions that the recipes need.
AWKS = [awk for awk in ("mawk", "gawk", "busybox") if shutil.which(awk) and not subprocess.run(
    [awk, *(["awk"] if awk == "busybox" else []), "BEGIN { exit sqrt(4) != 2 }"],
    check=False, capture_output=True).returncode]


def events():
    """Return {name: text} of all events."""
    found = {}
    for system, header in HEADERS.items():
        for text in re.split(r"^TRACE_EVENT\(", (TOP / header).read_text(encoding="utf-8"),
                             flags=re.M)[1:]:
            name = text.split(",")[0]
            assert name.startswith(f"{system}_")
            found[name] = text.split("\n);\n")[0]
    return found


def symbols():
    """Return {macro: names}, as {shingle_show_why: ...}."""
    text = "".join((TOP / header).read_text(encoding="utf-8") for header in HEADERS.values())
    return {name: re.findall(r'\{ -?\w+, "([\w-]+)" \}', body) for name, body in
            re.findall(r"^#define (\w+_show_\w+)\(.*?\)\t+\\\n(.*?\) *)$", text, re.M | re.S)}


def fields(text):
    return set(re.findall(r"__(?:field\(\w+|array\(char), (\w+)", text))


def page():
    """Return {event: (words of the first column of its table, text of its section)}."""
    tree, found = publish_doctree((DOCUMENTS / "tracing.rst").read_text(encoding="utf-8")), {}
    for section in tree.findall(nodes.section):
        for table in section.children:
            if not isinstance(table, nodes.table):
                continue
            column = [row.next_node(nodes.entry).astext() for row in table.findall(nodes.row)]
            if column[0] == "field":
                found[section.next_node(nodes.title).astext()] = (
                    set(re.findall(r"\w+", " ".join(column[1:]))), section.astext())
    return found


def test_the_page_has_every_event_and_field():
    described = page()
    assert described.keys() == events().keys()
    for name, text in events().items():
        assert described[name][0] == fields(text) - {"dev"}, name


def test_each_event_prints_all_its_fields():
    for name, text in events().items():
        said = text.split("TP_printk(")[1]
        assert set(re.findall(r"__entry->(\w+)", said)) == fields(text), name
        words = re.search(r'"%s ([^"]*)"', said)[1]
        assert all(re.fullmatch(r"\w+=%(s|u|ll[ud])", word) for word in words.split()), words
        assert {word.split("=")[0] for word in words.split()} == fields(text) - {"dev"}


def test_page_has_every_symbol():
    described, names = page(), symbols()
    assert len(names) == 7
    whole = (DOCUMENTS / "tracing.rst").read_text(encoding="utf-8")
    for name, text in events().items():
        for show in set(re.findall(r"\w+_show_\w+", text)) - {"shingle_show_error"}:
            for word in names[show]:
                assert re.search(rf"\b{word}\b", described[name][1]) or \
                    show in ("shingle_show_on", "shingle_show_role", "shingle_show_why") and \
                    re.search(rf"\b{word}\b", whole), (name, word)


def test_symbols_are_exported_to_programs():
    """A program can translate an enum in a format only if the header defines it."""
    for header in HEADERS.values():
        text = (TOP / header).read_text(encoding="utf-8")
        used = set(re.findall(r"\{ ((?:SHINGLE|PLATTER)_\w+), ", text))
        assert used and used == set(re.findall(r"TRACE_DEFINE_ENUM\((\w+)\)", text))


def test_names_of_step_kinds_fit():
    """The events copy the name of a step's kind into an array, which must have room for the longest
    one."""
    room = int(re.search(r"#define SHINGLE_TRACE_KIND\s+(\d+)",
                         (TOP / HEADERS["shingle"]).read_text(encoding="utf-8"))[1])
    kinds = [kind for path in TOP.glob("dm-*/**/*.c") for table in
             re.findall(r"\.step_kinds = \{(.*?)\}", path.read_text(encoding="utf-8"), re.S)
             for kind in re.findall(r'"(\w+)"', table)]
    assert len(kinds) > 15 and max(map(len, kinds)) < room


HEAD = """# device 252:0 medium
# device 252:1 smr
# tracer: nop
#
# entries-in-buffer/entries-written: 8/8   #P:2
#
"""


def line(at, event, dev, words):
    return f"   kworker/u4:1 x-1234    [000] .....   {at}: {event}: {dev} {words}\n"


def media(at, op, distance, seek, rotation):
    return line(at, "platter_media", "252:0", f"op={op} block=1 n=1 cyl=0 head=0 sector=1 distance="
                f"{distance} seek_us={seek} rotation_us={rotation} transfer_us=9 total_us=1")


def step(kind, why, n, took, error="none", dev="252:1"):
    return line("5.25", "shingle_step_end", dev,
                f"kind={kind} why={why} n={n} lblk=-1 took_us={took} error={error}")


TRACES = {
    "destroyed": (
        line("10.000001", "platter_destroy", "252:0",
             "block=0 n=2 first=963 count=12 cyl=1 head=0 sector=3") +
        line("10.000002", "platter_destroy", "252:0",
             "block=0 n=2 first=1500 count=1 cyl=2 head=0 sector=3") +
        line("11.5", "platter_destroy", "252:7",
             "block=9 n=1 first=70 count=1 cyl=2 head=0 sector=3") +
        line("12.0", "platter_destroyed_read", "252:0",
             "block=960 n=20 first=973 count=2 cyl=1 head=0 sector=4") +
        line("13.0", "platter_destroyed_read", "252:7",
             "block=964 n=1 first=964 count=1 cyl=1 head=0 sector=4"),
        [r"10\.000001 +medium +0\+2 +963\+12 1500\+1$", r"11\.500000 +252:7 +9\+1 +70\+1$",
         r"12\.000000 +medium +960\+20 +973, destroyed by 0\+2 at 10\.000001$",
         r"13\.000000 +252:7 +964\+1 +964, destroyed by a write before$",
         r"^2 writes destroyed 14 blocks; 2 reads met 3$"]),
    "steps": (
        step("stage", "idle", 10, 2000) + step("stage", "idle", 30, 500) +
        step("stage", "pressure", 5, 100) + step("retire", "idle", 0, 7, "EIO") +
        step("stage", "idle", 1, 1000, dev="252:9"),
        [r"^smr +stage +idle +2 +40 +2\.5 +2\.0 +0 *$", r"^smr +stage +pressure +1 +5 +0\.1 ",
         r"^smr +retire +idle +1 +0 +0\.0 +0\.0 +1 EIO$", r"^252:9 +stage +idle +1 +1 +1\.0 "]),
    "seeks": (
        media("1.0", "read", 0, 0, 4000) + media("1.1", "read", 0, 0, 2000) +
        media("1.2", "write", 1, 700, 0) + media("1.3", "destage", 3, 1000, 1000) +
        media("1.4", "read", 20, 1500, 0) + media("1.5", "cache-read", 0, 0, 0) +
        media("1.6", "lookahead", 0, 0, 0) + media("1.7", "lookahead", 0, 0, 0),
        [r"^5 accesses of the medium; from memory: 0 cache-write, 1 cache-read, 2 lookahead$",
         r"^0 +2 +2 +0 +0 +0\.000 +3\.000$", r"^1 +1 +0 +1 +0 +0\.700 +0\.000$",
         r"^2-3 +1 +0 +0 +1 +1\.000 +1\.000$", r"^16-31 +1 +1 +0 +0 +1\.500 +0\.000$"]),
}


def test_each_recipe_has_a_test():
    assert TRACES.keys() == set(RECIPES)


@pytest.mark.parametrize("awk", AWKS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_output(tmp_path, awk, recipe):
    text, expected = TRACES[recipe]
    (tmp_path / "trace").write_text(HEAD + text, encoding="ascii")
    command = [awk, *(["awk"] if awk == "busybox" else []), "-f", FOLDER / "lib.awk",
               "-f", FOLDER / f"{recipe}.awk"]
    said = subprocess.run([*command, tmp_path / "trace"], check=True, text=True,
                          capture_output=True)
    assert not said.stderr
    for regex in expected:
        assert re.search(regex, said.stdout, re.M), (regex, said.stdout)
    # An empty trace is no error.
    (tmp_path / "trace").write_text(HEAD, encoding="ascii")
    nothing = subprocess.run([*command, tmp_path / "trace"], check=True, text=True,
                             capture_output=True)
    assert nothing.stdout and not nothing.stderr


def test_repeated_destruction_counts_again(tmp_path):
    """A write that destroys the same blocks at a later time counts again. Between the two the
    blocks were written by a write that destroyed nothing and left no event."""
    again = [line(at, "platter_destroy", "252:0", f"block=0 n=1 first={first} count=1 cyl=1 head=0 "
                  "sector=3") for at, first in (("1.0", 928), ("1.0", 930), ("2.0", 928))]
    (tmp_path / "trace").write_text(HEAD + "".join(again), encoding="ascii")
    said = subprocess.run(["awk", "-f", FOLDER / "lib.awk", "-f", FOLDER / "destroyed.awk",
                           tmp_path / "trace"], check=True, text=True, capture_output=True).stdout
    assert "2 writes destroyed 3 blocks" in said
    assert re.search(r"0\+1 +928\+1 930\+1$", said, re.M) and re.search(r"2\.0+ .*928\+1$", said, re.M)


@pytest.fixture(name="shingle_trace")
def a_shingle_trace(tmp_path):
    """Return a function that starts the script on directories that stand for the kernel's, and the
    path of what it left in the ring."""
    for i, name in enumerate(("a.b", "aXb", "my smr")):
        dm = tmp_path / f"block/dm-{i}"
        (dm / "dm").mkdir(parents=True)
        (dm / "dm/name").write_text(name + "\n", encoding="utf-8")
        (dm / "dev").write_text(f"254:{i}\n", encoding="ascii")
    ring = tmp_path / "ring/events/platter"
    ring.mkdir(parents=True)
    (ring / "filter").write_text("none\n", encoding="ascii")
    (tmp_path / "ring/trace").write_text(HEAD, encoding="ascii")
    for folder in ("bin", "tracing/events", "tracing/instances"):
        (tmp_path / folder).mkdir(parents=True)
    for tool, does in (("mkdir", f'cp -r {tmp_path}/ring "$1"'),
                       ("rmdir", f'mv "$1" {tmp_path}/gone')):
        (tmp_path / "bin" / tool).write_text(f"#!/bin/sh\n{does}\n", encoding="ascii")
        (tmp_path / "bin" / tool).chmod(0o755)
    script = (FOLDER / "shingle-trace").read_text(encoding="utf-8")
    for kernels, ours in (("/sys/block", "block"), ("/sys/kernel/tracing", "tracing")):
        assert kernels in script
        script = script.replace(kernels, str(tmp_path / ours))
    (tmp_path / "shingle-trace").write_text(script, encoding="utf-8")

    def start(*words):
        # Without env, a test that runs in the background would ignore SIGINT.
        return subprocess.Popen(["env", "--default-signal", "sh", tmp_path / "shingle-trace",
                                 *words], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True, env={
                                    **os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    return start, tmp_path / "gone"


@pytest.mark.parametrize("name, number", [("a.b", 0), ("aXb", 1), ("my smr", 2), ("smr", None),
                                          ("a*", None), (r"a\.b", None)])
def test_device_name_is_matched_literally(shingle_trace, name, number):
    """-d takes the name literally: dots, stars and blanks in it match only themselves."""
    start, gone = shingle_trace
    with start("-d", name, "events", "true") as traced:
        _, said = traced.communicate(timeout=20)
    if number is None:
        assert traced.returncode == 1 and f"no device {name}" in said
        return
    assert traced.returncode == 0, said
    assert (gone / "events/platter/filter").read_text() == f'dev == "254:{number}"\n'


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_trace_instance_is_removed_on_any_signal(shingle_trace, how):
    """A signal ends shingle-trace with its trace instance switched off and removed."""
    start, gone = shingle_trace
    with start("events") as traced:
        assert "until ^C" in traced.stderr.readline()
        time.sleep(0.3)
        os.killpg(traced.pid, how)
        try:
            traced.communicate(timeout=20)
        finally:
            if traced.poll() is None:
                os.killpg(traced.pid, signal.SIGKILL)
    assert (gone / "tracing_on").read_text() == "0\n"


@pytest.mark.parametrize("place", ["none", "/dev/full"])
def test_lost_events_fail_the_script(shingle_trace, tmp_path, place):
    """With too little room the script fails: it must not report some events as if they were all."""
    start, gone = shingle_trace
    mktemp = "exit 1" if place == "none" else f"ln -s {place} {tmp_path}/out; echo {tmp_path}/out"
    (tmp_path / "bin/mktemp").write_text(f"#!/bin/sh\n{mktemp}\n", encoding="ascii")
    (tmp_path / "bin/mktemp").chmod(0o755)
    with start("events", "touch", f"{tmp_path}/begun") as traced:
        try:
            told, said = traced.communicate(timeout=20)
        finally:
            if traced.poll() is None:
                os.killpg(traced.pid, signal.SIGKILL)
    assert traced.returncode == 1 and "shingle-trace: no room" in said and not told
    # Without a place for the output the script starts nothing.
    assert (tmp_path / "begun").exists() == gone.exists() == (place != "none")
    assert not list((tmp_path / "tracing/instances").iterdir())


def test_recipes_name_existing_events():
    for recipe in RECIPES:
        text = (FOLDER / f"{recipe}.awk").read_text(encoding="utf-8")
        asked = re.search(r"^# events: (.*)$", text, re.M)[1].split()
        assert set(asked) == {f"{name.split('_')[0]}/{name}" for name in
                              re.findall(r'event == "(\w+)"', text)}
        assert {name.split("/")[1] for name in asked} <= events().keys()
        used = set(re.findall(r'f\["(\w+)"\]', text))
        assert used <= set().union(*(fields(events()[name.split("/")[1]]) for name in asked))


def test_shellcheck_reports_nothing():
    assert os.access(FOLDER / "shingle-trace", os.X_OK)
    subprocess.run(["shellcheck", FOLDER / "shingle-trace"], check=True)


def test_page_has_the_tested_triggers():
    """Every histogram trigger in tracing.rst is one that the guest test runs, and vice versa."""
    suite = (TOP / "tests/guest/tracing.py").read_text(encoding="utf-8")
    tried = dict(re.findall(r'"((?:shingle|platter)/\w+)": "(hist:[^"]+)"', suite))
    text = (DOCUMENTS / "tracing.rst").read_text(encoding="utf-8").replace("\\\n     ", "")
    assert tried == {event: trigger for trigger, event in
                     re.findall(r"echo '(hist:[^']+)' *> events/([\w/]+)/trigger", text)}
