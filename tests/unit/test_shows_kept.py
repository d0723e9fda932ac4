# SPDX-License-Identifier: GPL-2.0
"""Tests of the results that --resume of the shows takes up, and of those it does not."""

import json
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "scripts/lab"), str(TOP / "scripts/shows")]

import kept     # noqa: E402  pylint: disable=wrong-import-position
from programs import module     # noqa: E402  pylint: disable=wrong-import-position

NAMES = ("core", "dm-imr", "scripts/shows/imr.py")


@pytest.mark.parametrize("show", ("imr", "regions"))
def test_all_sources_are_there(show):
    of = module(f"shows_{show}", TOP / "scripts/shows" / show)
    for name in getattr(of, "stacks", of).SOURCES:
        assert (TOP / name).exists(), name


def test_sources_are_those_of_the_tree(tmp_path):
    for name in ("core/log/journal.c", "dm-imr/Kbuild", "scripts/shows/imr.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    seen = {kept.sources(NAMES, tmp_path)}
    assert kept.sources(NAMES, tmp_path) in seen
    for name in ("core/log/journal.c", "dm-imr/Kbuild", "scripts/shows/imr.py", "core/run.h"):
        (tmp_path / name).write_text("d")
        seen.add(kept.sources(NAMES, tmp_path))
    assert len(seen) == 5
    for name in ("core/log/journal.o", "scripts/shows/other.py"):
        (tmp_path / name).write_text("e")
        assert kept.sources(NAMES, tmp_path) in seen


def test_only_results_of_the_same_words_and_sources_are_taken_up(tmp_path):
    out, words = tmp_path / "out", {"args": ["--seed", "1"], "sources": "12ab"}
    assert kept.earlier(out, words) is None
    for text in ("", "{", "[]", "7", '[{"words": 1}]', "{}",
                 json.dumps({"words": {**words, "sources": "34cd"}}),
                 json.dumps({"words": {"args": words["args"]}})):
        out.write_text(text)
        assert kept.earlier(out, words) is None
    out.write_text(json.dumps({"words": words, "device": {}}))
    assert kept.earlier(out, words) == {"words": words, "device": {}}
