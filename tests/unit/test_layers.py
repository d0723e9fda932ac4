# SPDX-License-Identifier: GPL-2.0
"""Check the layers of core: each includes and calls only layers below it.

Check too that the files of a directory call each other one way only."""

import re
import shutil
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# From the topmost to the lowest.
LAYERS = ("target", "clean", "io", "map", "log", "medium", "base", "lib")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|TRACE_EVENT\(\w+')
INCLUDE = re.compile(r'^#include ([<"])([^>"]+)[>"]', re.M)
# Functions that other files can call: at the left margin, not static, with a body.
DEFINED = re.compile(r"^(?!static\b|typedef\b|struct\b[^(]*\{)[a-z][\w *]*?\b(\w+)\([^;{]*\)\n\{",
                     re.M)
# The work items that wake a worker, and the layer of each worker. Upper layers' workers are woken
# through base/wake.h.
WORKS = {"worker.work": "io", "wcache.work": "io", "order.work": "medium",
         "log.commit_work": "log", "log.ckpt_work": "log", "log.sb_work": "log",
         "pager.work": "log", "cleaner.work": "clean", "cleaner.idle_work": "clean"}
# The permitted upward references. The last one marks the superblock when the mode goes down.
UP = {("base/wake.h", "worker.work"), ("base/wake.h", "cleaner.work"),
      ("base/wake.h", "cleaner.idle_work"), ("base/wake.h", "log.commit_work"),
      ("base/mode.c", "log.sb_work")}
# The files of each of these directories call each other one way only.
ROOMS = ("core/lib/engine", "core/lib/extents", "core/lib/format", "core/lib/geometry",
         "core/lib/pages", "core/lib/reads", "dm-platter", "dm-stl/set", "dm-stl/full",
         "dm-stl/log", "dm-imr", "dm-tiler", "dm-dualbuffer/dual", "dm-dualbuffer/rmwf")


def sources(core):
    return {str(path.relative_to(core)): path.read_text(encoding="utf-8")
            for layer in LAYERS for path in sorted((core / layer).rglob("*.[ch]"))}


def rank(name):
    return LAYERS.index(name.split("/")[0])


def faults(core):
    """Return the upward references, one line each."""
    texts, found, owner = sources(core), [], {}
    code = {name: COMMENT.sub("", text) for name, text in texts.items()}
    for name, text in code.items():
        if name.endswith(".c"):
            owner.update((function, name) for function in DEFINED.findall(text))
    for name, text in code.items():
        for kind, what in INCLUDE.findall(text):
            if kind == "<":
                if name.startswith("lib/") and name != "lib/pure.h" and \
                        what != "stdarg.h":
                    found.append(f"{name} includes <{what}>")
                continue
            local = what if what in texts else str(Path(name).parent / what)
            if local not in texts:
                local = f"lib/{what}"
            if local not in texts:
                found.append(f"{name} includes {what}, which is in no layer")
            elif rank(local) < rank(name):
                found.append(f"{name} includes {local}")
        # base/shingle.h declares functions for targets, in whichever layer they are.
        if name.startswith("base/shingle.h"):
            continue
        bare = STRING.sub("", text)
        for called in sorted(set(re.findall(r"\b\w+\b", bare)) & owner.keys()):
            if rank(owner[called]) < rank(name):
                found.append(f"{name} calls {called}() of {owner[called]}")
        for work in re.findall(r"&d->([\w.]*work)\b", bare):
            if (name, work) not in UP and LAYERS.index(WORKS[work]) < rank(name):
                found.append(f"{name} queues {work} by itself, not by base/wake.h")
    return found


def test_no_upward_reference():
    assert not faults(TOP / "core")


def test_layers_list_is_complete():
    """LAYERS has all directories of core, and each has sources. Otherwise the test above could pass
    without reading them."""
    texts = sources(TOP / "core")
    assert {name.split("/")[0] for name in texts} == set(LAYERS)
    folders = {path.name for path in (TOP / "core").iterdir() if path.is_dir()}
    assert folders == set(LAYERS)
    assert not list((TOP / "core").glob("*.[ch]"))


@pytest.mark.parametrize("name, line, sentence", [
    ("log/journal.c", '#include "io/io.h"', "log/journal.c includes io/io.h"),
    ("map/place.c", "static void up(void) { shingle_wcache_written(NULL, NULL, 0); }",
     "map/place.c calls shingle_wcache_written() of io/wcache.c"),
    ("io/destage.c", "static void up(void) { shingle_step_allowed(NULL, NULL); }",
     "io/destage.c calls shingle_step_allowed() of clean/copy.c"),
    ("medium/rw.c", "static void up(void) { shingle_commit(NULL, 0); }",
     "medium/rw.c calls shingle_commit() of log/journal.c"),
    ("base/wake.h", "static inline void up(void) { shingle_message(0, 0, 0, 0, 0); }",
     "base/wake.h calls shingle_message() of target/message.c"),
    ("log/journal.c", "static void up(void) { queue_work(d->worker.wq, &d->worker.work); }",
     "log/journal.c queues worker.work by itself, not by base/wake.h"),
    ("io/bio.c", "static void up(void) { mod_delayed_work(d->cleaner.wq, &d->cleaner.work, 0); }",
     "io/bio.c queues cleaner.work by itself, not by base/wake.h"),
    ("lib/format/codec.c", "#include <linux/bio.h>", "lib/format/codec.c includes <linux/bio.h>"),
    ("lib/format/layout.h", '#include "base/device.h"', "lib/format/layout.h includes base/device.h"),
])
def test_upward_reference_is_detected(tmp_path, name, line, sentence):
    """An upward reference that was inserted by hand is detected."""
    shutil.copytree(TOP / "core", tmp_path / "core")
    path = tmp_path / "core" / name
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    assert faults(tmp_path / "core") == [sentence]


def references(room):
    """Map each file of a directory to the files that define the functions it names."""
    code = {path.name: COMMENT.sub("", path.read_text(encoding="utf-8"))
            for path in sorted(room.glob("*.c"))}
    owner = {function: name for name, text in code.items() for function in DEFINED.findall(text)}
    # A struct, and a member of one, may have the name of a function.
    return {name: {owner[word] for word in re.findall(r"(?<![.>\w])(?<!struct )\w+\b",
                                                      STRING.sub("", text))
                   if owner.get(word, name) != name}
            for name, text in code.items()}


def circles(room):
    """Return the groups of files that reach each other."""
    below = references(room)
    for middle in below:
        for reached in below.values():
            if middle in reached:
                reached |= below[middle]
    return sorted({tuple(sorted(other for other in below[name] if name in below[other]))
                   for name in below if name in below[name]})


@pytest.mark.parametrize("room", ROOMS)
def test_no_circle(room):
    """No file of the directory calls, through others, a file that calls it."""
    assert not circles(TOP / room)


def test_circle_is_detected(tmp_path):
    """A circle of three files that was inserted by hand is detected."""
    shutil.copytree(TOP / "core/lib/format", tmp_path / "format")
    assert len(references(tmp_path / "format")["recover.c"]) == 3
    path = tmp_path / "format/replay.c"
    path.write_text(path.read_text(encoding="utf-8") +
                    "static void up(void) { shingle_recover(0, 0, 0, 0, 0); }\n",
                    encoding="utf-8")
    assert circles(tmp_path / "format") == [("journal-scan.c", "recover.c", "replay.c")]
