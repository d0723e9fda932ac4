# SPDX-License-Identifier: GPL-2.0
"""Tests of the comparison with the truth, and of the tolerance of cache sizes against a simulation.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from skylight import ground_truth
from skylight.session import Finding
from programs import TOP

MIB = 1 << 20


def thrown(rng, shares, slots):
    """Return the number of the first write that finds its bin full."""
    chances = np.repeat([s for _, s in shares], [n for n, _ in shares])
    first = None
    which = rng.choice(len(chances), p=chances / chances.sum(),
                       size=int(1.3 * slots * len(chances)))
    for b in range(len(chances)):
        hits = np.flatnonzero(which == b)
        if len(hits) > slots and (first is None or hits[slots] < first):
            first = hits[slots]
    return first + 1


@pytest.mark.parametrize("shares, slots", [
    ([(9, 1 / 9)], 1024), ([(64, 1 / 64)], 256), ([(3, 1 / 3)], 512),
    ([(5, 10 / 95), (5, 9 / 95)], 400)])
def test_balls_into_bins(shares, slots):
    """Simulated runs lie within the interval, which is no wider than necessary."""
    rng = np.random.default_rng(1)
    seen = np.sort([thrown(rng, shares, slots) for _ in range(400)])
    low, middle, high = (ground_truth.first_overflow(shares, slots, c)
                         for c in (0.005, 0.5, 0.995))
    assert (seen < low).mean() < 0.02 and (seen > high).mean() < 0.02
    assert abs(np.median(seen) / middle - 1) < 0.01
    assert high - low < 1.8 * (seen[-1] - seen[0])


@pytest.mark.parametrize("cells, slots", [(952, 10240), (409, 6400), (64, 1024), (32, 512),
                                          (64, 256)])
def test_fill_fractions_of_the_specification(cells, slots):
    """The specification's formula, m + sqrt(2 m ln n) = slots, overestimates the largest bin, the
    more so the fewer bins there are."""
    root = (-np.sqrt(2 * np.log(cells)) + np.sqrt(2 * np.log(cells) + 4 * slots)) / 2
    got = ground_truth.first_overflow([(cells, 1 / cells)], slots, 0.5) / (cells * slots)
    assert 0 <= got - root ** 2 / slots < 0.04


def test_overflow_of_a_single_bin():
    assert ground_truth.first_overflow([(1, 1.0)], 100, 0.5) == 101


def test_bins_of_a_set_associative_layout():
    layout = {"band_blocks": 10, "logical_blocks": 70, "params": {"set-shift": 0},
              "bands": {"data": 7, "cache": 3},
              "groups": [{"role": "data", "band_blocks": 10},
                         {"role": "cache", "band_blocks": 4}]}
    assert sorted(ground_truth.bins(layout)[0]) == [(1, 3 / 7), (2, 2 / 7)]
    assert ground_truth.bins(layout)[1] == 4
    layout["params"]["set-shift"] = 2       # bands 0-3, 4-6, none
    assert sorted(ground_truth.bins(layout)[0]) == [(1, 3 / 7), (1, 4 / 7)]


def test_bins_of_zones():
    """Each zone is a bin: its share is its part of the logical blocks, its slots are those of its
    log bands."""
    layout = {"band_blocks": 10, "logical_blocks": (8 + 8 + 3) * 10,
              "bands": {"data": 25, "cache": 0},
              "params": {"zone-bands": 10, "provision": 2, "log-bands": 2}}
    shares, slots = ground_truth.bins(layout)
    assert slots == 20 and sorted(shares) == [(1, 3 / 19), (2, 8 / 19)]


class Targets:
    """The answers of dmsetup and shingle."""

    def __init__(self, monkeypatch, tables, layout, geometry=""):
        def tool(*argv):
            if argv[:2] == ("dmsetup", "table"):
                return tables.get(argv[2], "")
            if argv[0] == "shingle":
                return json.dumps(layout)
            return geometry if argv[-1] == "geometry" else ""
        monkeypatch.setattr(ground_truth, "_tool", tool)
        monkeypatch.setattr(ground_truth, "_name", lambda path: Path(path).name)
        monkeypatch.setattr(ground_truth, "_path", lambda word: f"/dev/mapper/{word}")
        monkeypatch.setattr(ground_truth, "_numbers", lambda path: (253, 0))


GEOMETRY = """platter 1
blocks 9767541
media cmr
surfaces 2
rotation_ns 10169491
zone 0 0 100000 100 500 2 100 200
zone 1 100000 100000 100 250 2 50 100
"""
SET = {"band_blocks": 10240, "logical_blocks": 880 * 10240, "params": {"set-shift": 0},
       "bands": {"data": 880, "cache": 9, "staging": 1},
       "groups": [{"role": "data", "start": 0, "band_blocks": 10240, "stride": 10240,
                   "bands": 880},
                  {"role": "cache", "start": 99999, "band_blocks": 10240, "stride": 10240,
                   "bands": 9}]}


def test_set_associative_cache(monkeypatch):
    """The truth about an stl-set comes from its table, layout and platter. Findings are marked as
    right, wrong, untold or not judged, and only sure ones count as confidently wrong."""
    Targets(monkeypatch, {"x": "0 8 stl-set data - meta 0 2 cleaning lazy",
                          "data": "0 9 platter none 0 st4000nc001"}, SET, GEOMETRY)
    is_so = ground_truth.of("/dev/mapper/x")
    assert {k: is_so[k].value for k in ("drive_type", "cache_medium", "cache_layout",
                                       "cleaning_type", "mapping", "band_bytes")} == {
        "drive_type": "shingled", "cache_medium": "disk", "cache_layout": "single-id",
        "cleaning_type": "lazy", "mapping": "static", "band_bytes": 40 * MIB}
    assert [is_so["drive_type"].judge(Finding(k, confidence=0.999)) for k in (
        "shingled", "translated", "conventional")] == ["right", "cannot tell", "wrong"]
    low, high, slots = ground_truth.cliff(SET)
    assert 0.94 * slots < low < high <= slots + 1 == 92161
    said = {"band_bytes": Finding(40 * MIB, confidence=0.99),
            "raw_bytes": Finding(high * 4096, confidence=0.95),
            "map_entries": Finding(low - 1, confidence=0.95),
            "cleaning_type": Finding("aggressive", confidence=0.6),
            "mapping": Finding.unknown("no"), "rotation_ms": Finding(10.19, confidence=1.0),
            "clean_band_ms": Finding(100.0, confidence=1.0)}
    marks = ground_truth.marks(is_so, said)
    assert {k: v["mark"] for k, v in marks.items()
            if k in said} == {
        "band_bytes": "right", "raw_bytes": "right", "map_entries": "wrong",
        "cleaning_type": "wrong", "mapping": "cannot tell", "rotation_ms": "right",
        "clean_band_ms": "not judged"}
    assert ground_truth.confidently_wrong(marks) == ["map_entries"]


def test_flash_cache_and_outer_cache(monkeypatch):
    """A cache on a device without timing is flash and has no place on the platters. A cache before
    the data is at the outer diameter."""
    tables = {"x": "0 8 stl-set data ssd meta 0 2 cleaning lazy",
              "data": "0 9 platter none 0 st4000nc001",
              "ssd": "0 9 platter none 0 generic 0 2 timing none"}
    Targets(monkeypatch, tables, SET, GEOMETRY)
    is_so = ground_truth.of("/dev/mapper/x")
    assert is_so["cache_medium"].value == "flash" and "cache_layout" not in is_so
    tables["x"] = "0 8 stl-set data - meta 0 4 cleaning aggressive idle_ms 500"
    outer = {**SET, "groups": [{"role": "data", "start": 9, "band_blocks": 9, "stride": 9,
                                "bands": 1},
                               {"role": "cache", "start": 1, "band_blocks": 8, "stride": 8,
                                "bands": 1}]}
    Targets(monkeypatch, tables, outer, GEOMETRY)
    is_so = ground_truth.of("/dev/mapper/x")
    assert is_so["cache_layout"].value == "single-od"
    assert is_so["cleaning_type"].value == "aggressive"
    assert is_so["streaming_bytes"].judge(Finding(57344, confidence=1.0)) == "wrong"
    assert is_so["clean_idle_ms"].judge(Finding(540.0, confidence=1.0)) == "right"


def test_conventional_devices(monkeypatch):
    Targets(monkeypatch, {"x": "0 9 platter none 0 st4000nc001", "t": "0 8 thin 1:2 0"}, {},
            GEOMETRY)
    is_so = ground_truth.of("/dev/mapper/x")
    assert is_so["drive_type"].value == "conventional"
    assert is_so["zone_profile"].value.startswith("2 zones")
    rates = [ground_truth.rate(ground_truth.geometry("x"), z) for z in ground_truth.geometry("x")["zones"]]
    assert is_so["zone_profile"].accept([[0, rates[0] * 1.02], [9, rates[1]]])
    assert not is_so["zone_profile"].accept([[0, rates[0]]])
    assert not is_so["zone_profile"].accept([[0, rates[0]], [9, rates[0]]])
    assert ground_truth.of("/dev/mapper/t")["drive_type"].value == "conventional"


def test_layers_that_are_not_shingled(monkeypatch):
    """A cache may be called translated or not, depending on its behaviour, but not shingled."""
    Targets(monkeypatch, {"x": "0 9 cache 1:0 1:1 1:2 512 1 writeback smq 0"}, {}, GEOMETRY)
    assert [ground_truth.of("/dev/mapper/x")["drive_type"].judge(Finding(k, confidence=0.999)) for k in (
        "shingled", "translated", "conventional")] == ["wrong", "right", "right"]


def test_unreachable_zones_are_not_expected(monkeypatch):
    """A zone of the platter that the device does not reach must not be reported; one that it
    reaches by a few blocks may be."""
    Targets(monkeypatch, {"x": "0 9 platter none 0 st4000nc001"}, {}, GEOMETRY)
    shape = ground_truth.geometry("x")
    both = [[0, ground_truth.rate(shape, z)] for z in shape["zones"]]
    for end, one, two in ((200000, False, True), (100500, True, True), (99999, True, False)):
        known = ground_truth.profile(shape, end * 4096)
        assert (known.accept(both[:1]), known.accept(both)) == (one, two)


def test_tests_do_not_use_the_ground_truth():
    """Tests and their helpers must not use the truth."""
    for path in (TOP / "scripts/src/skylight").glob("*.py"):
        if path.name not in ("ground_truth.py", "cli.py"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"import.*\bground_truth|\bground_truth import", text), path
            assert '"stats"' not in text and "'stats'" not in text, path
