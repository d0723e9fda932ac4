# SPDX-License-Identifier: GPL-2.0
"""The results that --resume of the experiments reuses, and those that it does not."""

import json
from importlib import import_module
from pathlib import Path

import pytest
from experiments import kept

TOP = Path(__file__).resolve().parents[2]
NAMES = ("core", "dm-imr", "scripts/src/experiments/in_guest/imr.py")


@pytest.mark.parametrize("show", ("imr", "regions"))
def test_listed_sources_exist(show):
    """Each source that an experiment lists for its stored results exists."""
    of = import_module(f"experiments.{show}")
    for name in getattr(of, "stacks", of).SOURCES:
        assert (TOP / name).exists(), name


def test_checksum_covers_all_sources(tmp_path):
    """The checksum of the sources changes with each source, and with a new one, but not with
    objects and other files."""
    for name in ("core/log/journal.c", "dm-imr/Kbuild", "scripts/src/experiments/in_guest/imr.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    seen = {kept.sources(NAMES, tmp_path)}
    assert kept.sources(NAMES, tmp_path) in seen
    for name in ("core/log/journal.c", "dm-imr/Kbuild", "scripts/src/experiments/in_guest/imr.py", "core/run.h"):
        (tmp_path / name).write_text("d")
        seen.add(kept.sources(NAMES, tmp_path))
    assert len(seen) == 5
    for name in ("core/log/journal.o", "scripts/src/experiments/other.py"):
        (tmp_path / name).write_text("e")
        assert kept.sources(NAMES, tmp_path) in seen


def test_results_of_other_options_or_sources_are_not_used(tmp_path):
    """A stored result is used only if it is whole and has the same options and sources."""
    out, words = tmp_path / "out", {"args": ["--seed", "1"], "sources": "12ab"}
    assert kept.earlier(out, words) is None
    for text in ("", "{", "[]", "7", '[{"words": 1}]', "{}",
                 json.dumps({"words": {**words, "sources": "34cd"}}),
                 json.dumps({"words": {"args": words["args"]}})):
        out.write_text(text)
        assert kept.earlier(out, words) is None
    out.write_text(json.dumps({"words": words, "device": {}}))
    assert kept.earlier(out, words) == {"words": words, "device": {}}
