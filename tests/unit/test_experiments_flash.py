# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments flash without guests: its cases and its evaluation of results."""

import json
from types import SimpleNamespace

import pytest
from experiments import flash as show
from load_results import load_result

GB = 10 ** 9


def options(**more):
    return SimpleNamespace(**{"scale": 64, "loads": None, "dense": 60, "requests": None,
                              "without": None, **more})


def test_cases(tmp_path):
    """The drive is the thesis's, at a smaller scale: 16 surfaces, 8 TB with guards, 20 GiB of
    flash. The ten loads of its Table 5.1 are in the middle of it."""
    cases = show.cases(options(), lambda *of: tmp_path / "-".join(str(w) for w in of))
    assert len(cases) == 10 * len(show.layers(64)) == len({name for name, *_ in cases})
    for _, words, _ in cases:
        json.dumps(words)
        medium = words["medium"]
        assert medium["keys"]["surfaces"] == 16 and medium["head"] == 3
        tracks = medium["tracks"]
        assert tracks % 16 == 0 and tracks * 512 * 4096 * 64 == pytest.approx(10240 * GB, rel=.01)
        assert words["offset"] * 4096 * 64 == pytest.approx(4096 * GB, rel=.01)
        assert words["layer"]["flash_mib"] > (20 << 10) // 64
    without = show.cases(options(without=[show.BY_BLOCK], loads=("web_0",)),
                         lambda *of: tmp_path / "x")
    assert [what[3] for *_, what in without] == ["SMR-2, band", "RMW-F", "RMW-F, pool",
                                                 "RMW-F, pointer"]


def result(name, written, ms, cleanings):
    """Return a result of 200 requests that wrote 200 blocks."""
    return ("load", "rsrch_0", 60, name, ""), load_result(
        name, layer={"host_write_blocks": 200,
                     **({"direct_blocks": 50} if name.startswith("RMW-F") else {})},
        all={"mean_ms": ms}, cleanings={"number": cleanings, "seeks": 10 * cleanings},
        medium={"media_blocks_written": written})


def test_printed_table(tmp_path):
    groups = show.rows([result("SMR-2, band", 900, 16.0, 2), result("RMW-F", 300, 8.0, 1),
                        result("SMR-2, block", 9000, 80.0, 0)])
    assert groups["rsrch_0"]["RMW-F"]["direct"] == .25
    assert groups["rsrch_0"]["SMR-2, band"]["direct"] is None
    assert show.normalised(groups, "SMR-2, band", "medium_amplification") == {"rsrch_0": 3.0}
    assert show.normalised(groups, "SMR-2, band", "cleaning_moves") == {"rsrch_0": 2.0}
    # A layer that has not cleaned has no cleaning times to compare.
    assert show.normalised(groups, "SMR-2, block", "cleaning_s") == {"rsrch_0": None}
    tables = show.tables(groups)
    assert tables[-1].title.startswith("Figure 5.11")
    assert tables[1].rows[1] == ["SMR-2, block", "10.00", "10.00"]
    pytest.importorskip("matplotlib")
    show.picture(groups, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
