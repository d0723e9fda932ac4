# SPDX-License-Identifier: GPL-2.0
"""Tests of Skylight's Tests 6 to 15 on small models of drives: right answers, and "cannot tell"
where there is none. No guest; see probe_drives.py."""

import contextlib
import os
import shutil
import threading
import time

import numpy as np
import pytest

pytest.importorskip("numpy")


from experiments.probe_drives import (BLOCK, Circular, Drive, FullSize, FullyAssociative, Memory,
                          SetAssociative, Thin)
from programs import platter_sim
from skylight import cliff, band_members, stats, t06_raw_size, t07_map_entries, t08_cache_size, t09_log_in_order, t10_log_at_random, t11_band_size, t13_torn_writes, t14_zones, t15_streaming, tclean_band_time
from skylight.load import Fio, Trace
from skylight.places import Places
from skylight.session import Finding, Result, Session


def session(drive, folder, **known):
    """A Session on a model; @known are findings of earlier tests."""
    s = Session(drive, folder, load=drive, allow_reset=True, say=lambda *_: None)
    if known:
        s.results["3"] = Result(findings={k: Finding(v, confidence=0.99)
                                          for k, v in known.items()})
    return s


def found(s, test, name):
    return s.run(test).findings[name]


# --- the cliff -----------------------------------------------------------------------

LOOKS = cliff.spent(40)

def no_cliff(gap):
    """Return whether neither method finds a cliff at its first evaluation."""
    return cliff.find(gap) is None and cliff.find_regular(gap)[0] is None


def writes(rng, n, usual=10_000.0):
    """Return latencies of a plain disk."""
    return usual * rng.uniform(0.3, 1.7, n)


@pytest.mark.parametrize("seed", range(20))
def test_no_cliff_in_noise(seed):
    """Seeks, a commit at each hundredth write and an occasional long delay are no cliff."""
    rng = np.random.default_rng(seed)
    gap = writes(rng, 20_000)
    gap[99::100] += 50_000
    gap[239::240] += 300_000
    gap[rng.integers(0, 20_000, 6)] += 2e6
    assert no_cliff(gap)


@pytest.mark.parametrize("seed", range(10))
def test_cliff_behind_map_merges(seed):
    """325 ms at each 240th write is no cliff; 500 ms for most writes from 1,500 on is one."""
    rng = np.random.default_rng(seed)
    gap = np.full(1800, 25_000.0)
    gap[239::240] += 300_000
    stalls = rng.uniform(size=300) < 0.8
    gap[1500:][stalls] += 475_000
    first = 1500 + int(np.argmax(stalls))
    at, risk, _ = cliff.find(gap, LOOKS)
    assert abs(at - first) <= 1 and risk < cliff.RISK


@pytest.mark.parametrize("seed", range(20))
def test_cliff_of_the_first_full_bin(seed):
    """952 bins of 10,240 places: the first one is full long before stalls are frequent."""
    rng, usual = np.random.default_rng(seed), 20_000
    full = np.sort(rng.gamma(10_240, usual / 10_240, 952)).astype(int)
    gap = writes(rng, int(1.03 * usual))
    stalls = full[full < len(gap)]
    gap[stalls] = 2e8 * rng.uniform(0.95, 1.05, len(stalls))
    follow = cliff.Follower()
    for at in range(0, len(gap), 200):
        if follow.add(gap[at:at + 200]):
            break
    assert follow.cliff[0] == full[0]


@pytest.mark.parametrize("seed", range(10))
def test_cliff_behind_stalls_that_become_rare(seed):
    """Each chunk begins with a stall, and chunks become longer."""
    rng = np.random.default_rng(seed)
    gap, first = writes(rng, 94_000, 6_000), 90_000
    begins = np.unique((300 * 1.125 ** np.arange(49)).astype(int))
    gap[begins[begins < first]] = 2e5
    stalls = first + np.flatnonzero(rng.uniform(size=4000) < 0.06)
    gap[stalls] = 2e5
    at, risk, _ = cliff.find(gap, LOOKS)
    assert at == stalls[0] and risk < cliff.RISK


def seen(gap, folder):
    """Run cliff.run() with these times as they arrive."""
    def write(_, first, count):
        lat = gap[first:first + count]
        return Trace(np.cumsum(lat) - lat, lat, np.zeros(count), np.zeros(count),
                     np.ones(count, bool))
    return cliff.run(session(Drive(1000), folder), "x", write, most_ops=len(gap), most_s=1e9)


@pytest.mark.parametrize("seed", range(10))
def test_cache_with_regular_cleaning(seed):
    """Six sets become full at about the same time, again and again; the second time comes a little
    sooner than twice the first."""
    rng = np.random.default_rng(seed)
    gap = np.full(150_000, 0.5)
    crowds = 24_300 * np.arange(1, 7)[:, None] + rng.integers(0, 1500, (6, 6))
    crowds[0] += 300
    gap[crowds[crowds < len(gap)]] = 2.8e7
    (at, risk, _), _ = cliff.find_regular(gap, cliff.spent(2))
    assert at == crowds[0].min() and risk < cliff.RISK_REGULAR


def test_repeated_evaluation_keeps_the_risk(tmp_path, monkeypatch):
    """Random stalls at a constant rate are evaluated 300 times. The rate of false alarms is at most
    the risk, and hardly any alarm is late."""
    risk, drives = 0.3, 40
    for name, value in {"RISK": risk, "RISK_REGULAR": risk, "CHUNK": 10, "LARGEST": 10}.items():
        monkeypatch.setattr(cliff, name, value)
    alarms = []
    for seed in range(drives):
        rng = np.random.default_rng(seed)
        gap = writes(rng, 3000)
        stalls = rng.uniform(size=3000) < 0.05
        gap[stalls] += rng.uniform(6e4, 6e6, stalls.sum())
        out = seen(gap, tmp_path)
        alarms += [out.looks] if out.at is not None else []
        assert out.at is not None or 250 < out.looks <= 300
    assert stats.upper_tail(len(alarms), drives, risk) > 1e-3
    # Evaluations after the 60th have 1 / 61 of the risk.
    late = sum(look > 60 for look in alarms)
    assert stats.upper_tail(late, drives, risk / 61) > 1e-3, alarms


def test_cliff_after_many_evaluations_is_found(tmp_path, monkeypatch):
    """The cliff is found at the right write in spite of many earlier evaluations."""
    monkeypatch.setattr(cliff, "LARGEST", cliff.CHUNK)
    rng = np.random.default_rng(1)
    gap = writes(rng, 110_000)
    gap[239::240] += 300_000
    stalls = 100_000 + np.flatnonzero(rng.uniform(size=10_000) < 0.5)
    gap[stalls] = 8e5
    out = seen(gap, tmp_path)
    assert out.looks > 300 and abs(out.at - stalls[0]) <= 1 and out.risk < cliff.RISK
    assert out.writes < 103_000


def test_repeated_evaluation_needs_more_stalls():
    """Seven stalls in 500 writes where one is expected prove cleaning at a single evaluation, but
    not at the twentieth."""
    six = {"writes_until_cleaning": 1000, "stall_from_ms": 45.0, "stalls_before": 1,
           "stall_rate": 0.02}
    gap = np.full(1000, 1e4)
    gap[550:1000:65] = 1e6
    assert t09_log_in_order.cleaned(six, gap) is True
    assert t09_log_in_order.cleaned(six, gap, looks=cliff.spent(20)) is None


def steady(first, usual, stalls, n=2000):
    """Return writes of equal length, in which the first and some others are slow."""
    gap = np.full(n, usual)
    gap[0] = first
    gap[stalls] = 4e5
    return gap


@pytest.mark.parametrize("gap,at,usual", [
    (steady(5000, 5000, [900, 1400]), 900, 5000),
    (steady(4e5, 5000, [900, 1400]), 900, 5000),
    (steady(9e6, 5000, [900, 1400]), 900, 5000),
    (steady(4e5, 5000, [1, 2]), 1, 5000),
    (steady(4e5, 5000, [900]), 900, 5000),
    (np.full(600, 3e5), 1, 3e5)],
    ids=["usual", "alike", "wakes up", "at once", "twice", "all slow"])
def test_cliff_at_the_first_writes_proven_by_a_moved_block(tmp_path, monkeypatch, gap, at, usual):
    """With nothing before the cliff all numbers are finite. The very first write is no cliff,
    because there was nothing to clean before it."""
    follow = cliff.Follower()
    follow.add(gap)
    follow.proven(0)
    assert follow.cliff[0] == at and follow.gap[at] > follow.cliff[2]
    out = proven_by(gap, tmp_path, monkeypatch)
    assert (out.at, out.usual_us, out.risk) == (at, usual, cliff.PROVEN)
    assert out.behind >= 1 and out.stall_us > 1e5
    assert out.slower == pytest.approx(
        gap[at:].mean() / (usual if at == 1 else gap[:at].mean()), rel=1e-5)
    for value in t06_raw_size.numbers(out, "").values():
        assert np.isfinite(value)


def test_cliff_without_slow_writes():
    """The drive cleans from write 1,000 on, but its writes took as long before."""
    gap = np.where(np.arange(2000) < 1000, 2e5, 1e5)
    gap[1500] = 3e5
    follow = cliff.Follower()
    follow.add(gap)
    follow.proven(1000)
    assert follow.cliff[0] == 1500 and follow.cliff[2] < 3e5
    assert follow.known(2000 + 3 * 1500)


class Proof:
    """A witness that has written nothing, and reports that the drive cleans."""
    gaps_us = np.zeros(0)

    @staticmethod
    def worth(_):
        return True

    cleaned = staticmethod(lambda *_: True)


def proven_by(gap, folder, monkeypatch):
    """Run cliff.run() with these times, with a witness at the first stall."""
    monkeypatch.setattr(cliff, "find", lambda *_: None)
    monkeypatch.setattr(cliff, "CHUNK", len(gap))

    def write(_, first, count):
        lat = gap[first:first + count]
        return Trace(np.cumsum(lat) - lat, lat, np.zeros(count), np.zeros(count),
                     np.ones(count, bool))
    monkeypatch.setattr(cliff, "_stalled", lambda gap: True)
    return cliff.run(session(Drive(1000), folder), "x", write, most_ops=len(gap), most_s=1e9,
                     witness=Proof())


def test_slow_rise_is_no_cliff():
    """A thin device with chunks at growing distances."""
    rng = np.random.default_rng(1)
    gap = np.linspace(3000, 26_000, 5000) + rng.uniform(0, 10_000, 5000)
    assert no_cliff(gap)


@pytest.mark.parametrize("places", [64, 256, 10240])
def test_filled_by_balls_and_bins(places):
    """Compare the formula with a simulation of balls in bins."""
    rng, parts = np.random.default_rng(places), 64
    runs = []
    for _ in range(15 if places < 1000 else 2):
        count = np.zeros(parts, int)
        n = 0
        for part in rng.integers(0, parts, parts * places):
            count[part] += 1
            if count[part] > places:
                break
            n += 1
        runs.append(n)
    assert np.mean(runs) / parts / places == pytest.approx(t06_raw_size.filled(parts, places), abs=0.05)


# --- whole tests on models -------------------------------------------------------------


SHAPES = {
    "set": (lambda: SetAssociative(96, 400, 8), "lazy", 96, "append"),
    "set, 15 us of noise": (lambda: SetAssociative(96, 400, 8, jitter=15.), "lazy", 96,
                            "append"),
    "set of bands of 48 KiB": (lambda: SetAssociative(12, 700, 7), "lazy", 12, None),
    "flash": (lambda: SetAssociative(500, 200, 5, flash=True), "lazy", 500, "append"),
    "sets of 32 neighbours": (lambda: SetAssociative(96, 400, 4, shift=5), "lazy", 96, None),
    "one set": (lambda: SetAssociative(96, 97, 1), "lazy", 96, "append"),
    "set, cleans when idle": (lambda: SetAssociative(96, 400, 8, idle_us=1e6), "aggressive",
                              96, "append"),
    "zones": (lambda: FullyAssociative(100, 4, 60, 10, 5), "aggressive", 100, None),
    "ring": (lambda: Circular(150, 300, 1500), "aggressive", 150, "circular"),
    "zones, lazy, two logs": (lambda: FullyAssociative(256, 4, 60, 8, 2, idle_us=None), "lazy",
                              256, None),
    "zones, lazy, three logs": (lambda: FullyAssociative(200, 3, 60, 10, 3, idle_us=None),
                                "lazy", 200, None),
    "zones, lazy, seven logs": (lambda: FullyAssociative(150, 2, 100, 16, 7, idle_us=None),
                                "lazy", 150, None),
}


@pytest.mark.parametrize("name", SHAPES)
def test_band_to_the_block(name, tmp_path):
    drive, cleaning, band, _ = SHAPES[name]
    finding = found(session(drive(), tmp_path, cleaning_type=cleaning), t11_band_size, "band_bytes")
    assert finding.value == band * BLOCK, finding.says
    assert finding.confidence > 0.9


@pytest.mark.parametrize("name", [n for n, s in SHAPES.items() if s[3]])
def test_log_structure(name, tmp_path):
    drive, cleaning, _, structure = SHAPES[name]
    s = session(drive(), tmp_path, cleaning_type=cleaning)
    for test in (t06_raw_size, t09_log_in_order, t10_log_at_random):
        result = s.run(test)
    assert result.findings["log_structure"].value == structure


def test_sizes_of_a_ring(tmp_path):
    """The result is exactly the number of entries."""
    s = session(Circular(150, 300, 1500), tmp_path, cleaning_type="aggressive",
                write_unit_bytes=5 * BLOCK)
    assert found(s, t06_raw_size, "raw_bytes").value == 1500 * 5 * BLOCK
    assert found(s, t07_map_entries, "map_entries").value == 1500


@pytest.mark.parametrize("seed", range(4))
def test_sizes_of_sets(seed, tmp_path):
    """8 sets of 96 places: the interval contains the true size."""
    drive = SetAssociative(96, 400, 8)
    s = session(drive, tmp_path, cleaning_type="lazy", write_unit_bytes=BLOCK)
    s.seed = seed
    raw = found(s, t06_raw_size, "raw_bytes")
    assert raw.low <= 8 * 96 * BLOCK <= raw.high
    s.run(t07_map_entries)
    cache = found(s, t08_cache_size, "cache_bytes")
    assert cache.low <= 8 * 96 * BLOCK <= cache.high


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("caches", [1, 2, 4, 9])
@pytest.mark.parametrize("flash", [False, True])
def test_few_sets_are_filled_once(seed, caches, flash, tmp_path):
    """Blocks that have moved home prove cleaning, so regular stalls are not needed."""
    drive = SetAssociative(512, 100 * caches, caches, flash=flash)
    s = session(drive, tmp_path, cleaning_type="lazy", write_unit_bytes=BLOCK)
    s.seed = seed
    raw = found(s, t06_raw_size, "raw_bytes")
    numbers = s.results["6"].numbers
    assert raw.low <= caches * 512 * BLOCK <= raw.high
    assert numbers["writes"] < 1.5 * numbers["writes_until_cleaning"] + 2 * cliff.CHUNK
    assert numbers["writes_until_cleaning"] > 0.7 * 512 * caches


def test_first_of_many_in_flight_is_no_stall():
    """With 31 requests in flight the first completion includes the wait for the queue."""
    end = 310_000.0 + 10_000.0 * np.arange(256)
    at = np.concatenate([np.zeros(31), end[:-31]])
    gap = cliff.gaps(Trace(at, end - at, *[np.zeros(256)] * 3))
    assert gap.max() < 50_000


@pytest.mark.parametrize("caches", [2, 4, 9])
def test_large_writes_into_few_sets(caches, tmp_path):
    """The writes of a witness are counted in bytes, and the stalls of few sets that fill at once
    have no rate."""
    drive = SetAssociative(512, 100 * caches, caches, flash=True)
    s = session(drive, tmp_path, cleaning_type="lazy")
    for test in (t06_raw_size, t07_map_entries, t08_cache_size, t09_log_in_order, t10_log_at_random):
        s.run(test)
    seen = s.results["8"].numbers["bytes_until_cleaning"]
    assert 0.35 < seen["8"] / (512 * caches * BLOCK) <= 1.05
    assert s.value("log_structure") in ("append", None)


@pytest.mark.parametrize("seed", range(3))
def test_stalls_without_cleaning_are_no_cliff(seed, tmp_path):
    """A lazy drive that stalls sometimes, long before its cache is full."""
    drive = SetAssociative(512, 900, 9, commit_us=2e6)
    plain = drive.write
    stalls = np.random.default_rng(seed)

    def write(block, count):
        if stalls.uniform() < 0.002:
            drive.disk.now += stalls.uniform(0.2e6, 3e6)
        plain(block, count)
    drive.write = write
    s = session(drive, tmp_path, cleaning_type="lazy")
    s.allow_reset = True
    drive.reset = lambda: True
    found(s, t06_raw_size, "raw_bytes")
    assert s.results["6"].numbers["writes_until_cleaning"] > 0.7 * 512 * 9


@pytest.mark.parametrize("drive", [lambda: Drive(40000), lambda: Memory(40000),
                                   lambda: Thin(40000)])
def test_drives_without_cache_give_no_sizes(drive, tmp_path):
    """A plain disk, RAM and a thin device have no sizes, no bands and no time of cleaning."""
    s = session(drive(), tmp_path)
    for test in (t06_raw_size, t07_map_entries, t08_cache_size, t09_log_in_order, t10_log_at_random, t11_band_size, tclean_band_time, t15_streaming):
        for name, finding in s.run(test).findings.items():
            assert name in ("drive_type", "track_bytes") or finding.value is None, (
                name, finding)
    kind = s.finding("drive_type")
    assert kind is None or kind.value == "conventional"


def test_lower_bound_without_reset(tmp_path):
    """Without a reset a lazy drive's cache may hold older blocks, so Test 6 cannot tell its size.
    It still gives a lower bound."""
    s = session(SetAssociative(96, 400, 8), tmp_path, cleaning_type="lazy")
    s.allow_reset = False
    for name in ("raw_bytes", "writes_until_cleaning"):
        finding = found(s, t06_raw_size, name)
        assert finding.value is None and "reset" in finding.says
    assert s.results["6"].findings["raw_bytes"].low > 0


@pytest.mark.parametrize("unit,sure", [(None, 0), (Finding(5 * BLOCK, "bytes", 4 * BLOCK,
                                                            6 * BLOCK, 0.97), 0.969)])
def test_bytes_need_a_known_write_unit(unit, sure, tmp_path):
    """If Tests 1a to 1c are undecided, the count is known, and the bytes only as a lower bound. If
    they are decided, the bytes are as sure and exact as those tests at most."""
    s = session(Drive(1000), tmp_path)
    s.results["1abc"] = Result(findings={"write_unit_bytes": unit or Finding.unknown("no row")})
    made = t06_raw_size.sizes(s, cliff.Cliff(at=10_000, risk=cliff.RISK), "")
    count, raw = made["writes_until_cleaning"], made["raw_bytes"]
    assert count.value == 10_000 and count.confidence == pytest.approx(0.999)
    assert raw.confidence == pytest.approx(sure)
    least, most = t06_raw_size.cache(10_000, 0)
    if unit:
        assert raw.value == 10_000 * 5 * BLOCK
        assert (raw.low, raw.high) == pytest.approx((least * 4 * BLOCK, most * 6 * BLOCK))
    else:
        assert raw.value is None and "10,000" in raw.says and "1a to 1c" in raw.says
        assert raw.low == pytest.approx(least * BLOCK)


@pytest.mark.parametrize("name", ["set", "flash", "zones", "ring"])
def test_cleaning_time(name, tmp_path):
    """The interval contains the model's own time."""
    drive, cleaning, band, _ = SHAPES[name]
    drive = drive()
    s = session(drive, tmp_path, cleaning_type=cleaning, band_bytes=band * BLOCK)
    s.run(t11_band_size)
    finding = found(s, tclean_band_time, "clean_band_ms")
    spent = []
    for at in range(5):
        drive.reset()
        block = (10 + 7 * at) * band + band // 2
        drive.write(block, 1)
        begin = drive.disk.now
        if cleaning == "lazy":
            drive.clean(drive._set(block))
        else:
            drive.idle_step()
        spent.append((drive.disk.now - begin) / 1000)
    assert finding.value == pytest.approx(np.median(spent), rel=0.3)


@pytest.mark.parametrize("drive,answer,known", [
    (lambda: SetAssociative(96, 400, 8), "none", {"cleaning_type": "lazy", "mapping": "static"}),
    (lambda: SetAssociative(96, 400, 8, bypass=300), 300 * BLOCK,
     {"cleaning_type": "lazy", "mapping": "static"}),
    (lambda: SetAssociative(96, 400, 8, bypass=57, flash=True), 57 * BLOCK,
     {"cleaning_type": "lazy", "mapping": "static"}),
    (lambda: SetAssociative(96, 400, 8, bypass=57, idle_us=1e6), 57 * BLOCK,
     {"cleaning_type": "aggressive", "mapping": "static"}),
    (lambda: FullyAssociative(100, 4, 60, 10, 5), 100 * BLOCK,
     {"cleaning_type": "aggressive", "mapping": "dynamic"})])
def test_streaming_threshold(drive, answer, known, tmp_path):
    """Test 15 finds, to the block, how long a sequential write must be to bypass the cache, or that
    no length does."""
    s = session(drive(), tmp_path, **known)
    s.run(t11_band_size)
    assert found(s, t15_streaming, "streaming_bytes").value == answer


@pytest.mark.parametrize("risk,sure", [(0, None), (0.3, 0.7), (2, 0)])
def test_risk_of_chance_lowers_confidence_of_a_length(risk, sure, tmp_path):
    """The risk that the length came about by chance is taken off the confidence."""
    s = session(Drive(1000), tmp_path, mapping="static", cleaning_type="lazy")
    made = t15_streaming.finding(s, 57, True, "home", 1000, risk)
    assert made.value == 57 * BLOCK
    assert made.confidence == pytest.approx(stats.measured("streaming_bytes")
                                            if sure is None else sure)


# --- parts --------------------------------------------------------------------------


def test_split_at_the_first_border():
    assert band_members.split([True, True, False, False]) == 2
    assert band_members.split([True, False, True, True, False, False, True, True, True]) == 4
    assert band_members.split([True, True, None, False]) == 3
    assert band_members.split([True, True]) == 2
    assert band_members.split([]) == 0


@pytest.mark.parametrize("seed", range(20))
def test_ends_despite_wrong_answers(seed):
    """With one wrong answer in fifty the ends are right, or there is none."""
    rng = np.random.default_rng(seed)

    def clean(_, others, __):
        return [bool((1000 <= b < 1777) ^ (rng.uniform() < 0.02)) for b in others]
    edges = band_members.Edges(1300, 20_000, 100_000, clean)
    if edges.search():
        assert (edges.low, edges.high) == (1000, 1777)


@pytest.mark.parametrize("seed", range(5))
def test_no_ends_in_noise(seed):
    rng = np.random.default_rng(seed)
    edges = band_members.Edges(1300, 20_000, 100_000, lambda _, others, __: [
        bool(rng.integers(2)) for _ in others])
    edges.search()
    assert edges.low is None


def test_one_band_is_not_enough():
    """Test 11 gives a band size only if bands at two places have the same length."""
    assert t11_band_size.answer([((0, 96), ""), (None, "no")], 0.005).value is None
    assert t11_band_size.answer([((0, 96), ""), ((960, 1100), "")], 0.005).value is None
    assert t11_band_size.answer([((0, 96), ""), ((960, 1056), "")], 0.005).value == 96 * BLOCK


def test_places_need_a_platter(tmp_path):
    s = session(Memory(4000), tmp_path)
    places = Places(s, 0)
    assert not places.calibrate(np.arange(32, dtype=np.uint64) * 99 * BLOCK)
    assert "too quickly for a head" in places.why


@pytest.mark.parametrize("seed", range(20))
def test_no_plateaus_in_noise(seed):
    y = np.random.default_rng(seed).normal(100, 1, 640)
    assert t14_zones.partition(y) == [0]
    assert len(t14_zones.plateaus(np.arange(640), y)) == 1


def test_plateaus_of_zones():
    """16 zones of 4 % each, at the right places to within one stretch."""
    rng = np.random.default_rng(1)
    y = np.concatenate([np.full(40, 150 - 4.0 * i) for i in range(16)])
    cuts = t14_zones.partition(y + rng.normal(0, 0.7, len(y)))
    assert len(cuts) == 16
    assert max(abs(c - 40 * i) for i, c in enumerate(cuts)) <= 1
    seen = t14_zones.plateaus(np.arange(640), y)
    assert [r for _, r in seen] == pytest.approx([150 - 4.0 * i for i in range(16)], rel=0.005)


@pytest.fixture(name="sim", scope="module")
def build_sim():
    return platter_sim()


def test_zones_at_full_size(sim, tmp_path):
    """4 TB with 16 zones: one pass of 640 places is enough."""
    result = session(FullSize(sim, "st4000nc001"), tmp_path).run(t14_zones)
    zones, run = (result.findings[n] for n in ("zone_profile", "serpentine"))
    assert len(zones.value) == 16 and result.numbers["stretches"] == t14_zones.STRETCHES
    assert run.value == "narrow" and zones.confidence < 0.99


def test_too_many_plateaus_for_the_places(sim, tmp_path):
    """5 TB: sixteen zones with three swaths each, and eight heads, all different, except that the
    head at a turn serves both swaths. The test reports no wrong number, and it recognizes that
    surfaces are filled over long distances."""
    result = session(FullSize(sim, "st5000as0011"), tmp_path).run(t14_zones)
    zones, run = (result.findings[n] for n in ("zone_profile", "serpentine"))
    assert zones.value is None and "at least" in zones.says and "GiB" in zones.says
    assert t14_zones.MOST / 2 < result.numbers["stretches"] <= t14_zones.MOST
    least = result.numbers["plateaus_at_least"]
    assert 100 < least <= 16 * 3 * 8 - 47 and f"{least} plateaus" in zones.says
    assert run.value == "wide"


def alternating(n, step, length=5, noise=0.2):
    """Return a throughput that alternates by @step every @length places."""
    rng = np.random.default_rng(1)
    return np.arange(n) * t14_zones.MIB, 100 + step * (np.arange(n) // length % 2) + \
        rng.normal(0, noise, n)


@pytest.mark.parametrize("length,step,told", [(40, 5, True), (7, 5, False), (40, 1.3, False)],
                         ids=["long", "short", "low"])
def test_plateaus_not_seen_by_half_the_places_are_not_reported(length, step, told):
    """Long plateaus are reported. Plateaus of seven places, which half of the places would not
    show, are not, and neither are those that can hardly be distinguished."""
    offset, rate = alternating(640, step, length)
    seen = t14_zones.plateaus(offset, rate)
    assert len(seen) == pytest.approx(640 / length, rel=0.2)
    least, all_of_them = t14_zones.borne_out(offset, rate, seen)
    assert all_of_them is told and least <= len(seen)
    finding = t14_zones.profile(offset, [[o, r / 1e6] for o, r in seen], least, all_of_them)
    assert (finding.value is not None) is told
    assert str(least if not told else len(seen)) in finding.says


@pytest.mark.parametrize("more", [[], [(300, 3e8)]])
def test_halves_have_the_plateaus_of_the_whole(more, monkeypatch):
    """Both halves must have the plateaus of the whole; in the other case one half has an additional
    one."""
    seen, offset = [(0, 1e8), (100, 2e8)], np.arange(0, 640, 10)
    monkeypatch.setattr(t14_zones, "halves", lambda *_: [seen, seen + more])
    assert t14_zones.borne_out(offset, np.ones(64), seen) == (2, not more)


def test_confidence_of_surface_order_is_bounded():
    """Four falling plateaus prove as little as three coins; one rise in noise does not make
    surfaces long."""
    offset = np.arange(80) * t14_zones.MIB
    rng = np.random.default_rng(2)

    def asked(levels, noise):
        rate = np.repeat(levels, 80 // len(levels)) * 1e6 + rng.normal(0, noise, 80) * 1e6
        return t14_zones.serpentine({}, offset, rate, list(zip(offset[::80 // len(levels)].tolist(),
                                                         [v * 1e6 for v in levels])))
    assert asked((100, 90, 80, 70), 0.1).confidence == pytest.approx(1 - 0.5 ** 3)
    assert asked((100, 90, 95, 70), 0.1).confidence == stats.measured("serpentine")
    assert asked((100, 90, 95, 70), 20).confidence < 0.9


@pytest.mark.parametrize("seed", range(10))
def test_dips_are_no_plateaus(seed):
    """At the end of a layer's zone a seek slows one or two stretches."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.full(40, 150 - 4.0 * i) for i in range(16)])
    for at in rng.choice(320, 5, replace=False):
        y[2 * at:2 * at + rng.integers(1, 3)] *= 0.97
    assert len(t14_zones.plateaus(np.arange(640), y + rng.normal(0, 0.2, 640))) == 16


def test_track_length(tmp_path):
    """The track has 120 blocks of 4 KiB."""
    assert found(session(Drive(40000), tmp_path), t14_zones, "track_bytes").value == 120 * BLOCK


class Discarded(Drive):
    """A drive that is reset by discard; blocks unwritten since then are read without access to the
    disk."""

    discarded = False

    def reset(self):
        self.discarded = True
        return True

    def read(self, block, count):
        if self.discarded:
            self.disk.now += 10.0 + 10.0 * count
        else:
            super().read(block, count)


def test_discarded_drive_has_no_zones(tmp_path):
    """After a discard there is nothing to measure; without one the test measures as usual."""
    drive = Discarded(40000)
    result = session(drive, tmp_path / "a").run(t14_zones)
    assert drive.discarded and result.status == "done"
    for name in ("zone_profile", "track_bytes"):
        assert result.findings[name].value is None and "discard" in result.findings[name].says
    assert "serpentine" not in result.findings
    s = session(Discarded(40000), tmp_path / "b")
    s.allow_reset = False
    result = s.run(t14_zones)
    assert result.findings["zone_profile"].value and \
        result.findings["track_bytes"].value == 120 * BLOCK


def test_torn_needs_a_command(tmp_path):
    result = session(Drive(40000), tmp_path).run(t13_torn_writes)
    assert result.status == "skipped" and "--powercut" in result.why


def test_drive_that_fails_writes_proves_nothing(tmp_path):
    """Fifty cuts of a drive that fails all writes after the first prove nothing."""
    s = session(Drive(40000), tmp_path)
    s.dev.path = str(tmp_path / "gone")
    with pytest.raises(OSError, match="takes no writes"):
        t13_torn_writes.trial(s, "true", np.random.default_rng(1), 0, 1 << 20, 0)


def test_torn_verdicts():
    """No torn write in 50 cuts gives a bound; errors that remain after a write give no answer."""
    none = t13_torn_writes.finding([0] * 50, 0, 50)
    assert none.value is False and none.high == pytest.approx(0.058, abs=0.001)
    assert t13_torn_writes.finding([0] * 5, 0, 5).value is None
    assert t13_torn_writes.finding([3, 0, 4], 7, 0).value is True
    assert t13_torn_writes.finding([3, 0, 4], 2, 3).value is None


def test_torn_verdicts_on_older_data():
    """Blocks that were being written count separately. The head is on one of them; several damaged
    ones show that it is no plain disk, but say nothing about older data."""
    one = t13_torn_writes.finding([0] * 50, 2, 50, [1, 1] + [0] * 48)
    assert one.value is False and "2 blocks that were being written" in one.says
    several = t13_torn_writes.finding([0] * 50, 4, 50, [1, 3] + [0] * 48)
    assert several.value is None and "in 1 of 50" in several.says
    assert t13_torn_writes.finding([0] * 50, 1, 50, [1, 1] + [0] * 48).value is None
    old = t13_torn_writes.finding([2] + [0] * 49, 3, 50, [1] + [0] * 49)
    assert old.value is True and "1 block that was being written" in old.says


def test_only_cuts_during_a_write_count():
    """Only a power cut that interrupts a write can tear one, so only such cuts count for the bound;
    below ten or so there is no answer."""
    some = t13_torn_writes.finding([0] * 50, 0, 25)
    assert some.value is False and some.high == pytest.approx(0.113, abs=0.001)
    assert "25 power cuts that a write has met, of 50" in some.says
    few, none = (t13_torn_writes.finding([0] * 50, 0, met) for met in (9, 0))
    assert few.value is None and "too few" in few.says
    assert none.value is None and "--powercut has cut nothing" in none.says


@pytest.mark.parametrize("cuts", ["nothing", "writes fail", "a write waits", "failed before"])
def test_ineffective_cut_is_detected(tmp_path, monkeypatch, cuts):
    """A command that has no effect proves nothing. A command that removes the power for a moment,
    or for as long as the kernel retries, counts."""
    pwrite, met = os.pwrite, threading.Event()
    state = {"off": cuts == "failed before", "wait": False}

    def write(fd, data, at):
        if threading.current_thread() is not threading.main_thread():
            if state["off"]:
                met.set()
                raise OSError(5, "no power")
            if state["wait"]:
                state["wait"] = False
                met.set()
                time.sleep(0.3)
        return pwrite(fd, data, at)

    def cut(*_):
        state["off"] |= cuts == "writes fail"
        state["wait"] = cuts == "a write waits"
        assert met.wait(30)
        met.clear()
    monkeypatch.setattr(t13_torn_writes.os, "pwrite", write)
    monkeypatch.setattr(t13_torn_writes, "LONGEST_S", 0.06)
    # Only where a write waits is a cut recognized by time; elsewhere a busy host would look like
    # one.
    monkeypatch.setattr(t13_torn_writes, "NOTICED_S", 0.2 if cuts == "a write waits" else 100, raising=False)
    monkeypatch.setattr(t13_torn_writes, "CUTS", 12)
    if cuts != "nothing":
        monkeypatch.setattr(t13_torn_writes, "cut", cut)
    drive = Drive((8 << 20) // BLOCK)
    s = session(drive, tmp_path)
    s.powercut, s.fio, drive.path = "true", lambda *_, **__: None, str(tmp_path / "disk")
    drive.released = contextlib.nullcontext
    with open(drive.path, "wb") as handle:
        handle.write(bytes(8 << 20))

    scattered = []

    def trial(*args, run=t13_torn_writes.trial):
        state["off"] = cuts == "failed before"
        scattered.append(args[-1])
        return run(*args)
    monkeypatch.setattr(t13_torn_writes, "trial", trial)
    result = s.run(t13_torn_writes)
    said = result.findings["torn_writes"]
    # Random writes fill a cache, and a stream would wait for its cleaning.
    assert scattered == [False] * 6 + [True] * 6
    if cuts != "failed before":
        assert (result.arrays["writes"][:6] >= t13_torn_writes.FLOWS).all()
    if cuts in ("nothing", "failed before"):
        assert said.value is None and "--powercut has cut nothing" in said.says
    else:
        assert said.value is False and said.confidence == 0.95 and \
            result.numbers["cuts_met"] == 12


@pytest.mark.parametrize("tears, value, blocks", [
    # Any drive may damage a request in flight, or one that its write cache has accepted.
    (lambda at, last: [at], False, (0, 12)), (lambda at, last: [last], False, (0, 12)),
    # Only the request in flight is damaged, in several blocks: no plain disk, but no older data.
    (lambda at, last: [at, at + 1], None, (0, 24)),
    # Older data are damaged.
    (lambda at, last: [at, at + 300, at + 301], True, (24, 12))],
    ids=["under way", "cached", "several under way", "older"])
def test_blocks_in_flight_are_counted_apart(tmp_path, monkeypatch, tears, value, blocks):
    """Only damage to blocks that were not being written is a torn write. Any drive may damage the
    request in flight; such blocks are counted apart."""
    pwrite, preadv, met = os.pwrite, os.preadv, threading.Event()
    torn, last, off, low, high = set(), [0], threading.Event(), 3072, 5120

    def write(fd, data, at):
        block, count = at // BLOCK, len(data) // BLOCK
        if threading.current_thread() is not threading.main_thread() and off.is_set():
            torn.update(low + (b - low) % (high - low) for b in tears(block, last[0]))
            off.clear()
            met.set()
            raise OSError(5, "no power")
        torn.difference_update(range(block, block + count))
        last[0] = block
        return pwrite(fd, data, at)

    def read(fd, parts, at):
        blocks = range(at // BLOCK, at // BLOCK + sum(map(len, parts)) // BLOCK)
        if torn.intersection(blocks):
            raise OSError(5, "torn")
        return preadv(fd, parts, at)

    def cut(*_):
        off.set()
        assert met.wait(30)
        met.clear()
    monkeypatch.setattr(t13_torn_writes.os, "pwrite", write)
    monkeypatch.setattr(t13_torn_writes.os, "preadv", read)
    monkeypatch.setattr(t13_torn_writes, "LONGEST_S", 0.06)
    monkeypatch.setattr(t13_torn_writes, "NOTICED_S", 100)
    monkeypatch.setattr(t13_torn_writes, "CUTS", 12)
    monkeypatch.setattr(t13_torn_writes, "cut", cut)
    drive = Drive(8192)         # a quarter is used, from block 3072 on
    s = session(drive, tmp_path)
    s.powercut, s.fio, drive.path = "true", lambda *_, **__: None, str(tmp_path / "disk")
    drive.released = contextlib.nullcontext
    with open(drive.path, "wb") as handle:
        handle.truncate(drive.bytes)
    result = s.run(t13_torn_writes)
    said = result.findings["torn_writes"]
    assert said.value is value, said
    assert (result.numbers["unreadable_blocks"], result.numbers["blocks_being_written"]) == blocks
    assert result.numbers["healed_blocks"] == sum(blocks)
    assert f"{blocks[1]} " in said.says and "being written" in said.says


def test_random_writes_are_random(tmp_path):
    """Chunks of fio's random writes do not repeat the same places, and hit twelve sets evenly."""
    if not shutil.which("fio"):
        pytest.skip("fio is not here")

    class Null:
        """A device of 6 GB that receives no writes."""
        bytes = 6 << 30

    class Load:
        """Passes options to fio, except for the device."""
        dev = Null()

        def fio(self, name, **options):
            load = Fio("/dev/null", tmp_path)
            return load.job(name, {**options, "ioengine": "null"})
    write = cliff.random_writes(Load(), "w", seed=3)
    places = np.concatenate([write(i, 0, 500).offset for i in range(6)]) // BLOCK
    assert len(np.unique(places)) > 0.99 * len(places)
    count = np.bincount(places.astype(int) // 1024 % 12, minlength=12)
    # 0.999 quantile of chi-squared with 11 degrees of freedom.
    assert ((count - count.mean()) ** 2).sum() / count.mean() < 31.3
