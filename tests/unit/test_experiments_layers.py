# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments layers without guests: its cases, its table of results, and its messages
about options."""

import json
import subprocess
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(name="show", scope="module")
def the_show():
    return import_module("experiments.layers")


@pytest.mark.parametrize("args,sentence", (
    (("--scale", "3"), "--scale 3 does not divide 4096 rows"),
    (("--loads", "best"), "load 'best' is none of rsrch_0, "),
))
def test_invalid_options(args, sentence):
    done = subprocess.run([TOP / "scripts/experiments", "layers", *args], text=True,
                          capture_output=True, check=False, timeout=600)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("layers: ")
    assert sentence in done.stderr


def test_cases(show, tmp_path):
    """Each layer is measured with each load. The media are equal except for their kind:
    conventional, shingled or interlaced."""
    options = SimpleNamespace(scale=64, loads=("rsrch_0", "web_2"), dense=60, requests=None)
    cases = show.cases(options, lambda *of: tmp_path / "-".join(str(w) for w in of))
    names = [name for name, *_ in cases]
    assert len(set(names)) == len(names) == 2 * len(show.layers(64))
    media = {}
    for _, words, (_, load, _, name, _) in cases:
        json.dumps(words)
        media[name] = words["medium"].pop("keys").get("media", "smr")
        assert words["medium"] == cases[0][1]["medium"]
        assert load in words["load"]
    assert media.pop("plain") == "cmr" and media.pop("imr") == "imr"
    assert set(media.values()) == {"smr"}


def result(name, host, written):
    """Return a result of 100 requests."""
    return ("load", "rsrch_0", 60, name, ""), {
        "words": {"layer": {"target": name}}, "seconds": 1.0,
        "layer": {"host_write_blocks": host, "clean_write_blocks": 0, "journal_blocks": 0,
                  "checkpoint_blocks": 0, "superblock_blocks": 0, "map_bytes": 2048},
        "all": {"requests": 100, "mean_ms": 8.0, "worst_ms": 1500.0, "p99_ms": 20.0},
        "reads": {"mean_ms": 6.0}, "writes": {"mean_ms": 9.0},
        "cleanings": {"number": 0, "seconds": 0.0, "longest": .0, "largest": 0, "seeks": None},
        "medium": {"rotation_us": 500_000, "seeks": 50, "seek_tracks": 9,
                   "media_blocks_written": written, "destroyed_reads": 0, "late": 0}}


def test_printed_table(show, capsys, tmp_path):
    groups = show.rows([result("plain", 200, 200), result("stl-set", 200, 500)])
    row = groups["rsrch_0"]["stl-set"]
    assert row["medium_amplification"] == 2.5 and row["seeks_each"] == .5
    assert row["ram_kib"] == 2 and row["unturned_ms"] == pytest.approx(3.0)
    show.told(groups, SimpleNamespace(scale=64, dense=60))
    said = capsys.readouterr().out
    assert "2.50" in said and "1/64" in said
    pytest.importorskip("matplotlib")
    show.picture(groups, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
