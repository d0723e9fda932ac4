# SPDX-License-Identifier: GPL-2.0
"""The layers of core: each includes and calls only the layers below it."""

import re
import shutil
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# From the caller to the called layer.
LAYERS = ("face", "clean", "front", "map", "log", "medium", "base", "pure")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|TRACE_EVENT\(\w+')
INCLUDE = re.compile(r'^#include ([<"])([^>"]+)[>"]', re.M)
# At the left margin, not static, and followed by a body: the functions that others can call.
DEFINED = re.compile(r"^(?!static\b|typedef\b|struct\b[^(]*\{)[a-z][\w *]*?\b(\w+)\([^;{]*\)\n\{",
                     re.M)
# The work items of the layers' workers, beside base/wake.h.
WORKS = {"work": "front", "order_work": "medium", "commit_work": "log", "ckpt_work": "log",
         "sb_work": "log", "clean_work": "clean", "idle_work": "clean"}
# The permitted calls upwards; the last one marks the superblock when the mode is lowered.
UP = {("base/wake.h", "work"), ("base/wake.h", "clean_work"), ("base/wake.h", "idle_work"),
      ("base/wake.h", "commit_work"), ("base/mode.c", "sb_work")}


def sources(core):
    return {f"{layer}/{path.name}": path.read_text(encoding="utf-8")
            for layer in LAYERS for path in sorted((core / layer).glob("*.[ch]"))}


def rank(name):
    return LAYERS.index(name.split("/")[0])


def faults(core):
    """The forbidden includes and calls, one per line."""
    texts, found, owner = sources(core), [], {}
    code = {name: COMMENT.sub("", text) for name, text in texts.items()}
    for name, text in code.items():
        if name.endswith(".c"):
            owner.update((function, name) for function in DEFINED.findall(text))
    for name, text in code.items():
        for kind, what in INCLUDE.findall(text):
            if kind == "<":
                if name.startswith("pure/") and name != "pure/pure.h" and \
                        what != "stdarg.h":
                    found.append(f"{name} includes <{what}>")
                continue
            local = what if "/" in what else f"{name.split('/')[0]}/{what}"
            if local not in texts:
                local = f"pure/{what}"
            if local not in texts:
                found.append(f"{name} includes {what}, which is in no layer")
            elif rank(local) < rank(name):
                found.append(f"{name} includes {local}")
        if name.startswith("base/shingle.h"):  # targets call it from any layer
            continue
        bare = STRING.sub("", text)
        for called in sorted(set(re.findall(r"\b\w+\b", bare)) & owner.keys()):
            if rank(owner[called]) < rank(name):
                found.append(f"{name} calls {called}() of {owner[called]}")
        for work in re.findall(r"&d->(\w*work)\b", bare):
            if work in WORKS and (name, work) not in UP and \
                    LAYERS.index(WORKS[work]) < rank(name):
                found.append(f"{name} queues {work} by itself, not by base/wake.h")
    return found


def test_nothing_goes_up():
    assert not faults(TOP / "core")


def test_every_layer_is_there():
    """Without the layers the test above would check nothing."""
    texts = sources(TOP / "core")
    assert {name.split("/")[0] for name in texts} == set(LAYERS)
    folders = {path.name for path in (TOP / "core").iterdir() if path.is_dir()}
    assert folders == set(LAYERS)
    assert not list((TOP / "core").glob("*.[ch]"))


@pytest.mark.parametrize("name, line, sentence", [
    ("log/journal.c", '#include "front/front.h"', "log/journal.c includes front/front.h"),
    ("map/place.c", "static void up(void) { shingle_wcache_written(NULL, NULL, 0); }",
     "map/place.c calls shingle_wcache_written() of front/wcache.c"),
    ("front/destage.c", "static void up(void) { shingle_step_allowed(NULL, NULL); }",
     "front/destage.c calls shingle_step_allowed() of clean/copy.c"),
    ("medium/rw.c", "static void up(void) { shingle_commit(NULL, 0); }",
     "medium/rw.c calls shingle_commit() of log/journal.c"),
    ("base/wake.h", "static inline void up(void) { shingle_message(0, 0, 0, 0, 0); }",
     "base/wake.h calls shingle_message() of face/message.c"),
    ("log/journal.c", "static void up(void) { queue_work(d->wq, &d->work); }",
     "log/journal.c queues work by itself, not by base/wake.h"),
    ("pure/codec.c", "#include <linux/bio.h>", "pure/codec.c includes <linux/bio.h>"),
    ("pure/layout.h", '#include "base/device.h"', "pure/layout.h includes base/device.h"),
])
def test_it_is_seen(tmp_path, name, line, sentence):
    """A step upwards that the test inserts is reported."""
    shutil.copytree(TOP / "core", tmp_path / "core")
    path = tmp_path / "core" / name
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    assert faults(tmp_path / "core") == [sentence]
