# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments layers without guests: its cases, its table of results, and its messages
about options."""

import json
from types import SimpleNamespace

import pytest
from experiments import layers as show
from load_results import load_result


def test_cases(tmp_path):
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
    """Return a result of 200 requests."""
    return ("load", "rsrch_0", 60, name, ""), load_result(
        name, layer={"host_write_blocks": host, "map_bytes": 2048}, all={"mean_ms": 13.0},
        medium={"media_blocks_written": written, "seeks": 100})


def test_printed_table(tmp_path):
    groups = show.rows([result("plain", 200, 200), result("stl-set", 200, 500)])
    row = groups["rsrch_0"]["stl-set"]
    assert row["medium_amplification"] == 2.5 and row["seeks_each"] == .5
    assert row["ram_kib"] == 2 and row["unturned_ms"] == pytest.approx(3.0)
    table, = show.tables(groups, SimpleNamespace(scale=64, dense=60))
    assert "1/64" in table.title
    assert dict(zip(table.columns, table.rows[1]))["written"] == "2.50"
    pytest.importorskip("matplotlib")
    show.picture(groups, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
