# SPDX-License-Identifier: GPL-2.0
"""The results that --resume of the experiments reuses, and those that it does not."""

import json

import pytest
from experiments import imr, regions, resume
from programs import TOP

NAMES = ("core", "dm-imr", "scripts/src/experiments/in_guest/imr.py")


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
    seen = {resume.sources(NAMES, tmp_path)}
    assert resume.sources(NAMES, tmp_path) in seen
    for name in ("core/log/journal.c", "dm-imr/Kbuild", "scripts/src/experiments/in_guest/imr.py", "core/run.h"):
        (tmp_path / name).write_text("d")
        seen.add(resume.sources(NAMES, tmp_path))
    assert len(seen) == 5
    for name in ("core/log/journal.o", "scripts/src/experiments/other.py"):
        (tmp_path / name).write_text("e")
        assert resume.sources(NAMES, tmp_path) in seen


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
