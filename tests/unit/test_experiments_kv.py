# SPDX-License-Identifier: GPL-2.0
"""Experiments with the key-value store, without guests: its layers, its rivals, writes of each
block, and the store on an interlaced disk."""

import argparse
import json
import re
import shutil
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from experiments import imr, kv, kv_blocks, kv_imr, kvimr, kvimr_paper
from experiments.in_guest import blocks as guest
from programs import TOP, make


def test_all_stores_get_the_same_requests():
    """For a drive and a size all stores have the same sessions and differ in their own options
    only: each has the same memtable and an equally large cache, or the page cache."""
    options = kv.options_of(["--scale", "40"])
    cases = kv.rivals(options)
    assert len(cases) == 18 == len({name for name, *_ in cases})
    groups = {}
    for _, words, (drive, value, name) in cases:
        json.dumps(words)
        assert name == words["store"]
        groups.setdefault((drive, value), {})[name] = words
    for (drive, value), by in groups.items():
        assert set(by) == {"kv", "leveldb", "rocksdb"}
        for words in by.values():
            for same in ("sittings", "layer", "drive_mib"):
                assert words[same] == by["kv"][same]
            own = "51M" if words["store"] == "kv" else "8M"
            shared = [w for w in words["options"] if w != "--stream"]
            assert shared == ["--cache", own, "--memtable", "2048K"]
            # 4 MiB for two memtables, and 12 MiB for the process.
            assert words["memory_mib"] == (None if own == "51M" else 51 + 4 + 12)
        assert ("--stream" in by["kv"]["options"]) == (drive != "conventional")
        assert by["kv"]["layer"]["media"] == ("cmr" if drive == "conventional" else "smr")
        assert "BAND" not in by["kv"]["layer"]["create"]
        if drive != "conventional":
            assert by["kv"]["band"] in by["kv"]["layer"]["create"]
        for _, words in (phase for sitting in by["kv"]["sittings"] for phase in sitting):
            # The modes of db_bench have a default size of values, so each phase names the size.
            assert words[words.index("--value") + 1] == f"{value}B" and words[0] == "-w"


def test_json_has_all_parts(monkeypatch, tmp_path):
    """Several measurements of one run add their results to the JSON file; none replaces those of
    another."""
    monkeypatch.setattr(kv.runner, "outputs", lambda _: tmp_path)
    monkeypatch.setattr(kv.stacks.Runner, "__call__", lambda self, name, words: {"of": words})
    options = kv.options_of(["--json", str(tmp_path / "json")])
    for part in "rivals", "blocks":
        kv.stacks.measured("kv", options, {part: [(f"{part}-1", {"a": part}, None)]},
                             tmp_path, lambda *_: [])
    kv.stacks.keep(options, {"native-1": {"phases": {}}})
    assert json.loads((tmp_path / "json").read_text())["results"] == {
        "rivals-1": {"of": {"a": "rivals"}}, "blocks-1": {"of": {"a": "blocks"}},
        "native-1": {"phases": {}}}


def test_scale():
    """Records are 8 GiB over the scale, and a tenth of them are the operations."""
    for scale in (8, 40, 160):
        options = kv.options_of(["--scale", str(scale), "--drive-mib", "4000"])
        n = kv.records(options, 4096)
        assert n == pytest.approx(8 * 2 ** 30 / scale / 4116, abs=1)
        phases = dict(phase for sitting in kv.sittings(options, 4096) for phase in sitting)
        assert list(phases) == ["fillseq", "scan in order", "fillrandom", "scan at random",
                                "readrandom", "load", "a", "b", "c", "f", "d", "e"]
        ops = {name: int(words[words.index("-n") + 1]) for name, words in phases.items()}
        assert ops["load"] == ops["fillseq"] == ops["fillrandom"] == n
        assert ops["a"] == ops["readrandom"] == n // 10 and ops["e"] == n // 100
        assert ops["scan in order"] == n // 1000
        # As in the thesis: YCSB's writes are synced, db_bench's are not.
        assert {name for name, words in phases.items() if "--sync" in words} == {
            "load", *kv.YCSB}
        assert kv.band(options) == f"{80 * 1024 // scale // 4 * 4}K"


def test_part_inside_compares_three_stores():
    """The part `inside` compares LevelDB with loc and soc on a conventional drive, for four
    values of the trigger of level 0."""
    cases = kv.inside(kv.options_of([]))
    assert [what for *_, what in cases] == [
        ("leveldb", None), *(("loc", t) for t in (4, 8, 16, 32)),
        *(("soc", t) for t in (4, 8, 16, 32))]
    for _, words, (label, trigger) in cases:
        assert words["layer"]["media"] == "cmr"
        assert words["organisation"] == (None if label == "leveldb" else label)
        (fill, scan), = words["sittings"]
        assert (fill[0], scan[0]) == ("fillrandom", "scan at random")
        if trigger:
            assert words["options"][-4:] == ["--l0-trigger", str(trigger), "--l0-slowdown",
                                             str(2 * trigger)]
        else:
            assert "--l0-trigger" not in words["options"]


def phase(ops, seconds, sync_s=0.0, kind="update", wrote=0, **more):
    """A result of kvbench with what the guest has added."""
    return {"operations": ops, "seconds": seconds, "sync_s": sync_s,
            "written_bytes": wrote, "disk": {"written_bytes": 3 * wrote},
            "ops": {kind: {"service": {"count": ops}, "missing": 0, "wrong": 0, "failed": 0,
                           **({"records": 1000 * ops} if kind == "scan" else {})}}, **more}


def test_rate():
    """A rate includes the time of the final sync. For a scan of the whole store it counts
    records, for all other loads operations."""
    assert kv.rate(phase(100, 3, 1)) == 25
    assert kv.rate(phase(4, 2, kind="scan")) == 2000
    of = phase(10, 2, kind="scan")
    of["ops"]["insert"] = phase(1, 1)["ops"]["update"]
    of["operations"] = 11
    assert kv.rate(of) == 5.5         # operations, as for YCSB's e
    assert kv.rate(phase(10, 0)) is None


def test_lead_in_percent():
    """ahead() is the lead of the first rate over the second in percent, and None if either is
    missing."""
    assert kv.ahead(3, 2) == pytest.approx(50)
    assert kv.ahead(1, 2) == pytest.approx(-50)
    assert kv.ahead(1, 0) is None and kv.ahead(None, 2) is None
    assert kv.signed(8.84) == "+8.8 %" and kv.signed(None) == "-"


def test_written_bytes_per_payload():
    assert kv.written(phase(1, 1, wrote=500)) == 3
    assert kv.written(phase(1, 1)) is None


def test_compacted():
    """The compaction traffic of kv comes from its counters, that of LevelDB from the rows of its
    text."""
    mib = 1 << 20
    of = {"store_stats": {"compact_read_bytes": 5 * mib, "compact_written_bytes": 4 * mib,
                          "flush_bytes": 3 * mib, "flush_us": 500_000, "compact_us": 2_000_000}}
    assert kv.compacted(of) == (5, 7, 2.5)
    text = """                               Compactions
Level  Files Size(MB) Time(sec) Read(MB) Write(MB)
--------------------------------------------------
  0        2        4         3        0       45
  1        5       10         9      120      118
"""
    assert kv.compacted({"store_stats": {"stats": text}}) == (120, 163, 12)


def test_different_counts_of_stores_are_reported():
    """Stores that got the same requests must report the same counts: a difference means that a
    store lost something, or was sent something else."""
    def of(name, **phases):
        return ("conventional", 1024, name), phases
    same = [of("kv", a=phase(10, 1)), of("leveldb", a=phase(10, 9))]
    assert not list(kv.differ(same))
    for change in ({"missing": 1}, {"service": {"count": 9}}, {"records": 5}):
        other = phase(10, 1)
        other["ops"]["update"].update(change)
        sentence, = kv.differ([*same, of("rocksdb", a=other)])
        assert sentence.startswith("conventional, 1024 bytes, a: rocksdb gave")
    # Results of another drive or size have no effect.
    other = phase(9, 1)
    assert not list(kv.differ([*same, (("stl-set", 1024, "kv"), {"a": other})]))


@pytest.mark.parametrize("more,sentence", (
    ({}, None),
    ({"late_us": 10_169}, None),
    ({"late_us": 10_170}, "10170 us late"),
    ({"medium": {"destroyed_reads": 3}}, "3 destroyed blocks were read"),
    ({"layer": {"r0_violations": 1}}, "1 writes would have destroyed data in use"),
))
def test_faults_of_kv_are_reported(more, sentence):
    """Reads of destroyed blocks, writes that would have destroyed data, a late clock and failed
    operations are reported."""
    of = {"late_us": 0, "medium": {"destroyed_reads": 0}, "layer": {"r0_violations": 0},
          "phases": {"a": phase(1, 1)}, **more}
    wrong = list(kv.wrong_of("x", of))
    assert len(wrong) == bool(sentence) and all(sentence in w for w in wrong)
    of["phases"]["a"]["ops"]["update"]["failed"] = 1
    assert "x: a: an operation failed" in list(kv.wrong_of("x", of))[-1]


def inside_of(rates, moved, scans):
    """Results of LevelDB, then loc and soc by trigger."""
    out = []
    for label, trigger in (("leveldb", None), *((o, t) for o in ("loc", "soc")
                                                for t in (4, 8, 16, 32))):
        key = label if trigger in (None, 4) else (label, trigger)
        stats = {"compact_read_bytes": moved.get(label, 0), "compact_written_bytes": 0,
                 "flush_bytes": 0, "flush_us": 0, "compact_us": 0}
        out.append(((label, trigger), {"phases": {
            "fillrandom": phase(rates.get(key, 1000 + (trigger or 0)), 1, store_stats=stats),
            "scan at random": phase(scans.get(label, 1), 1, kind="scan")}}))
    return out


def test_relations():
    """Each relation of the thesis holds for matching results. A change of one figure breaks only
    the relation that is about it."""
    rates = {"leveldb": 100, "loc": 90, "soc": 150}
    moved, scans = {"leveldb": 9, "loc": 8, "soc": 3}, {"leveldb": 1, "loc": 2, "soc": 3}
    assert all(holds for _, holds in kv.relations(inside_of(rates, moved, scans)))
    for change, what in (
            (({**rates, "loc": 101}, moved, scans), {0}),
            (({**rates, "loc": 60}, moved, scans), {0}),
            (({**rates, "soc": 99}, moved, scans), {1}),
            ((rates, {**moved, "soc": 8.5}, scans), {2}),
            ((rates, moved, {**scans, "soc": 2}), {3}),
            ((rates, moved, {**scans, "leveldb": 2}), {4}),
            (({**rates, ("soc", 16): 149}, moved, scans), {5}),
            (({**rates, ("loc", 32): 50}, moved, scans), {6})):
        found = kv.relations(inside_of(*change))
        assert {i for i, (_, holds) in enumerate(found) if not holds} == what


def test_store_without_a_result_is_left_out():
    """A store without a result is compared with nothing. The columns that compare it are left
    out, and no other store takes its place."""
    assert not kv.relations(inside_of({}, {}, {})[1:])
    results = [(("conventional", 1024, name), {"load": phase(n, 1, disk={"written_bytes": 1},
                                                             written_bytes=1)})
               for name, n in (("leveldb", 100), ("rocksdb", 50))]
    said = kv.table_rivals(results, "conventional", 1024).text()
    assert "100.0" in said and "over" not in said and "+100" not in said
    store = (("conventional", 1024, "kv"), results[0][1])
    said = kv.table_rivals([store, results[1]], "conventional", 1024).text()
    assert "over rocksdb" in said and "+100.0 %" in said and "over leveldb" not in said


def test_columns_are_wide_enough():
    """The columns of the table are wide enough for rates of tens of millions."""
    results = [(("tmpfs", 1024, name), {"load": phase(n, 1)})
               for name, n in (("kv", 18_014_065), ("leveldb", 32_031_255))]
    head, row = kv.table_rivals(results, "tmpfs", 1024, disks=False).text().splitlines()[-2:]
    assert row.split()[1:3] == ["18,014,065.0", "32,031,255.0"]
    assert row.index("32,031,255.0") + len("32,031,255.0") == head.index("leveldb") + len("leveldb")


def test_insertstart_counts_earlier_runs():
    """`insertstart` is the number of records that earlier runs inserted beyond the load, so that
    no run inserts the keys of another."""
    results = {"load": phase(50, 1, kind="insert", records=0),
               "d": phase(7, 1, kind="insert", records=50),
               "c": phase(9, 1, kind="read", records=50), "e": phase(3, 1, kind="insert",
                                                                     records=50)}
    sent = {}

    def send(words):
        sent[words[-1]] = words
        return results[words[-1]]
    assert kv.run_phases([(name, ["-w", name]) for name in results], send) == results
    assert [words[:2] for words in sent.values()] == [
        ["-p", f"insertstart={there}"] for there in (0, 0, 7, 7)]


def test_median_of_rounds():
    """The median of rounds is taken separately for each phase."""
    runs = [{"a": phase(n, 1), "b": phase(9 - n, 1)} for n in (3, 1, 2)]
    found = kv.middle(runs)
    assert (found["a"]["operations"], found["b"]["operations"]) == (2, 7)


def test_printed_tables():
    """The rows of the printed tables, with the ratios and the written bytes."""
    results = [(("stl-set", 1024, name), {"load": phase(n, 2, wrote=10, kind="insert"),
                                          "c": phase(n, 1, kind="read")})
               for name, n in (("kv", 300), ("leveldb", 200), ("rocksdb", 400))]
    load, c = kv.table_rivals(results, "stl-set", 1024).rows
    assert load == ["load", "150.0", "100.0", "200.0", "+50.0 %", "-25.0 %", "+8.8 to +123.6 %",
                    "3.00", "3.00", "3.00"]
    assert c == ["c", "300.0", "200.0", "400.0", "+50.0 %", "-25.0 %", "", "-", "-", "-"]
    rows = kv.table_inside(inside_of({"leveldb": 100}, {"loc": 2 << 20}, {})).rows
    assert rows[0][:4] == ["leveldb", "4", "100.0", "0"] and rows[1][:4] == [
        "loc", "4", "1,004.0", "2"]


def test_offload():
    """Each kind of arrivals is measured with and without the offload device. All other settings
    are equal."""
    cases = kv.offload(kv.options_of(["--rate", "500", "--minutes", "3"]))
    assert [what for *_, what in cases] == [
        (name, there) for name in ("back to back", "poisson", "self-similar", "diurnal")
        for there in (False, True)]
    assert len({name for name, *_ in cases}) == 8
    for (_, one, _), (_, other, _) in zip(cases[::2], cases[1::2]):
        assert {**one, "offload": None} == {**other, "offload": None}
        assert (one["offload"], other["offload"]) == (False, True)
        assert one["organisation"] == "buffered" and one["band"] == "1636K"
        ((_, load), (_, scan)), = one["sittings"]
        assert load[load.index("-n") + 1] == scan[scan.index("-r") + 1] == str(500 * 180)
        assert "--sync" not in load
    diurnal = cases[-1][1]["sittings"][0][0][1]
    assert {"diurnal.modulation=475", "diurnal.cyclelength=0.75"} < set(diurnal)


def offload_of(p99_9, unsorted, scans, rate=100, offloaded=0):
    took = {"p50_us": 1, "p99_us": 2, "p99_9_us": p99_9, "max_us": 9000}
    load = phase(rate, 1, kind="insert", store_stats={
        "offloaded_bytes": offloaded, "user_bytes": 1000, "unsorted_bands": unsorted,
        "level_bands": [unsorted, 10 - unsorted], "compact_written_bytes": 2500})
    load["ops"]["insert"] = {"response": took, "service": None}
    return {"phases": {"load": load, "scan": phase(scans, 2, kind="scan")}}


def test_offload_relations():
    """The relations between results with and without an offload device hold if the device makes
    things better, and fail if it makes them worse. Incomplete results give no relation."""
    got = kv.offloaded(offload_of(5000, 4, 30, offloaded=600))
    assert got["offloaded"] == 60 and got["unsorted"] == 40 and got["merged"] == 2.5
    assert got["p99_9_us"] == 5 and got["max_us"] == 9 and got["scans"] == 15
    # Back to back there is no response time; the service time takes its place.
    of = offload_of(5000, 4, 30)
    (op,) = of["phases"]["load"]["ops"].values()
    op["service"] = {**op.pop("response"), "p50_us": 7000}
    assert kv.offloaded(of)["p50_us"] == 7
    better, worse = offload_of(10, 2, 50, 201), offload_of(20, 4, 30)
    names = ("back to back", "poisson")
    results = [((n, there), better if there else worse) for n in names for there in (False, True)]
    assert all(holds for _, holds in kv.relations_offload(results))
    assert len(kv.relations_offload(results)) == 7
    # A missing partner; then a load that is too short to make any table.
    assert not kv.relations_offload(results[:1])
    few = offload_of(5000, 4, 30)
    few["phases"]["load"]["store_stats"].update(unsorted_bands=0, level_bands=[0, 0])
    assert dict(kv.relations_offload([(("poisson", there), few) for there in (False, True)])) \
        ["poisson: less is left unsorted"] is False
    results = [((n, there), worse if there else better) for n in names for there in (False, True)]
    assert not any(holds for _, holds in kv.relations_offload(results))


def test_worst_writes(tmp_path):
    """The log of kvbench is sorted by the begin of each put, and gives the worst time of each
    stretch."""
    worst = kv.kv_worst
    log = tmp_path / "log"
    log.write_text("number kind due begin end\n" + "".join(
        f"{i} update -1 {begin} {begin + took}\n" for i, (begin, took) in enumerate(
            [(3000, 7_000_000), (1000, 1_000_000), (2000, 2_000_000), (4000, 4_000_000)])))
    times = worst.took(log)
    assert times == [1_000_000, 2_000_000, 7_000_000, 4_000_000]
    assert worst.windows(times, 2) == [2, 7] and worst.windows(times, 9) == [1, 2, 7, 4]
    assert worst.windows(list(range(5)), 2) == [2e-6, 4e-6]
    of = worst.figures(times)
    assert of["max_ms"] == 7 and of["p50_us"] == 4000
    runs = [{"max_ms": n} for n in (9, 1, 5)]
    assert worst.middle(runs) == {"max_ms": 5}
    stores = {name: {"max_ms": 2, "puts_per_s": 5} for name in worst.STORES}
    assert all(holds for _, holds in worst.relations(stores))
    stores["LevelDB"] = {"max_ms": 1, "puts_per_s": 6}
    assert not any(holds for _, holds in worst.relations(stores))


def test_picture_of_worst_writes(tmp_path):
    pytest.importorskip("matplotlib")
    of = {name: {"windows_ms": [1, 20 + i, 3], "max_ms": 20 + i, "puts_per_s": 1000}
          for i, name in enumerate(kv.kv_worst.STORES)}
    options = kv.options_of(["--puts", "3000"])
    kv.kv_worst.picture(of, options, tmp_path / "worst.svg")
    text = (tmp_path / "worst.svg").read_text()
    assert all(f"{name}: {20 + i}.0 ms" in text for i, name in enumerate(of))


class Disk(dict):
    """Blocks in memory. @before is called before each write."""

    before = staticmethod(lambda block: None)

    def read(self, block):
        return self.get(block)

    def write(self, block, data):
        self.before(block)
        self[block] = data


class Cleaning:
    """The target's answer to the question whether it is cleaning."""

    now = False

    def __call__(self):
        return self.now


def made(slots=4):
    cleaning = Cleaning()
    return guest.Diverter(Disk(), Disk(), slots, cleaning, 1000), cleaning


def test_writes_go_to_flash_only_during_cleaning():
    """Writes go to the flash only while the target cleans. A block that is on the flash is read
    from there, and a later write to it frees its slot or uses it again."""
    way, cleaning = made()
    way.write(7, "a")
    assert way.target == {7: "a"} and not way.flash
    cleaning.now = True
    way.write(7, "b")
    way.write(8, "c")
    assert way.target == {7: "a"} and len(way.flash) == 2
    assert (way.read(7), way.read(8), way.diverted) == ("b", "c", 2)
    # A second write to a block on the flash stays there.
    way.write(7, "d")
    assert way.read(7) == "d" and len(way.free) == 2
    cleaning.now = False
    way.write(8, "e")
    assert way.target[8] == "e" == way.read(8) and len(way.free) == 3
    assert way.read(9) is None


def test_full_flash():
    """When the flash is full, writes go to the target. A slot is free again as soon as its block
    has been brought home."""
    way, cleaning = made(slots=1)
    cleaning.now = True
    for block in (1, 2, 1):
        way.write(block, block)
    assert way.target == {2: 2} and way.diverted == 2
    assert way.bring_one() and way.target == {1: 1, 2: 2}
    way.write(3, 3)
    assert way.read(3) == 3 and 3 not in way.target


def test_blocks_are_moved_home_in_address_order():
    """Blocks are brought home in the order of their numbers, which is the disk's, not in that of
    the writes."""
    way, cleaning = made()
    cleaning.now, order = True, []
    for block in (9, 3, 6):
        way.write(block, block)
    way.target.before = order.append
    while way.bring_one():
        pass
    assert order == [3, 6, 9] and way.target == {3: 3, 6: 6, 9: 9} and way.returned == 3
    assert not way.away and sorted(way.free) == [0, 1, 2, 3]


def test_newer_write_waits_for_the_move_home():
    """A write to a block that is being brought home waits. Otherwise the old content could
    overwrite the new one."""
    way, cleaning = made()
    cleaning.now = True
    way.write(5, "old")
    cleaning.now = False
    seen = []

    def meanwhile(block):
        del way.target.before
        writer = threading.Thread(target=way.write, args=(block, "new"))
        seen.append(writer)
        writer.start()
        writer.join(.2)
        assert writer.is_alive()
    way.target.before = meanwhile
    assert way.bring_one()
    seen[0].join()
    assert way.target == {5: "new"} and not way.away


def test_blocks_are_moved_home_when_idle(monkeypatch):
    """Blocks are brought home only while the target does not clean, and only after the host has
    been idle for a while."""
    way, cleaning = made()
    cleaning.now = True
    way.write(1, 1)
    way.write(2, 2)
    clock, end, looks = [way.last], threading.Event(), []
    monkeypatch.setattr(guest.stack, "now", lambda: clock[0])

    def look(_):
        looks.append(way.returned)
        if len(looks) == 2:
            clock[0] += way.quiet_s
        if len(looks) == 4:
            cleaning.now = False
        if len(looks) == 6:
            end.set()
    monkeypatch.setattr(guest.time, "sleep", look)
    way.bring(end)
    assert looks == [0, 0, 0, 0, 2, 2]
    cleaning.now = True
    way.write(3, 3)
    cleaning.now = False
    end.clear()
    looks[:] = [0] * 4
    way.bring(end)
    assert way.returned == 2


def test_response_time_starts_when_the_write_is_due(monkeypatch):
    """A response time begins when the write was due, even if it had to wait for a thread."""
    clock = [100.0]
    monkeypatch.setattr(guest.stack, "now", lambda: clock[0])

    def sleep(seconds):
        clock[0] += seconds
    monkeypatch.setattr(guest.time, "sleep", sleep)
    places = []

    def write(block, data):
        assert len(data) == 4096
        places.append(block)
        clock[0] += .5
    took = guest.sent([0, .1, 3], [7, 8, 9], 1, write)
    assert took == pytest.approx([.5, .9, .5]) and places == [7, 8, 9]


def test_percentiles_of_a_run():
    """The percentiles of a run, computed by hand."""
    of = guest.told([.001] * 990 + [.002] * 9 + [1.0])
    assert of["p50_ms"] == 1 and of["p99_ms"] == 2 and of["max_ms"] == 1000
    assert of["requests"] == 1000 and of["p99_9_ms"] == 1000
    assert of["mean_ms"] == pytest.approx(2.008)


def test_cases_of_kv_blocks(monkeypatch, tmp_path):
    """Each kind of arrivals is sent to each target, with the same writes. All targets clean when
    idle."""
    monkeypatch.setattr(kv_blocks.runner, "outputs", lambda _: tmp_path)
    options = kv.options_of(["--iops", "50", "--block-minutes", "1"])
    make("userspace/kvbench")
    cases = kv_blocks.cases(options, kv.arrivals(50, 1))
    assert [what for *_, what in cases] == [
        (name, target) for name in ("poisson", "self-similar", "diurnal")
        for target in ("stl-set", "stl-full", "tiler", "dualbuffer")]
    loads = {}
    for _, words, (name, target) in cases:
        assert json.loads(json.dumps(words)) == words      # so --resume finds it
        assert loads.setdefault(name, words["load"]) == words["load"]
        assert words["layer"]["set"]["idle_ms"] == 200
        assert ("cleaning" in words["layer"]["set"]) == target.startswith("stl-")
        medium = words["medium"]
        assert words["span_blocks"] < medium["tracks"] * medium["track"] // 4
    assert len(set(loads.values())) == 3
    for path in loads.values():
        rows = [line.split() for line in guest.requests(path)[1]]
        assert 1800 < len(rows) < 4200 and {r[2] for r in rows} == {"write"}
        assert max(int(r[3]) for r in rows) < 1 << 30 and int(rows[-1][0]) < 60 * 10 ** 6


def test_resume_distinguishes_arrivals(monkeypatch, tmp_path):
    """--resume must not reuse measurements of another run."""
    monkeypatch.setattr(kv_blocks.runner, "outputs", lambda _: tmp_path)
    monkeypatch.setattr(kv_blocks.subprocess, "run", lambda *_, **__: None)
    options = kv.options_of([])
    words = kv.arrivals(60, 4)
    one = kv_blocks.cases(options, words)
    words["self-similar"][-1] = "ss.bias=0.9"
    changed = [a[0] for a, b in zip(one, kv_blocks.cases(options, words)) if a[1] != b[1]]
    assert len(changed) == 4 and all("self-similar" in name for name in changed)
    monkeypatch.setattr(kv_blocks, "SPAN_MIB", 512)
    assert all(a[1] != b[1] for a, b in zip(one, kv_blocks.cases(options, words)))


def test_each_request_is_in_one_log(tmp_path):
    """Each request is in exactly one of the logs, at the time at which it was due."""
    head = ["fio version 3 iolog", "1 device add", "1 device open"]
    body = [f"{n} device write {4096 * n} 4096" for n in range(1, 11)]
    (tmp_path / "whole").write_text("\n".join([*head, *body, "10 device close"]) + "\n")
    parts = [path.read_text().splitlines() for path in guest.split(tmp_path / "whole", tmp_path, 4)]
    assert all(part[:3] == head and part[-1] == "10 device close" for part in parts)
    assert [part[3:-1] for part in parts] == [body[n::4] for n in range(4)]
    assert len(guest.split(tmp_path / "whole", tmp_path, 99)) == 10


def test_fio_accepts_the_log(tmp_path):
    """fio accepts the generated log and reports a result for each request."""
    if not shutil.which("fio"):
        pytest.skip("fio is not here")
    (tmp_path / "disk").write_bytes(bytes(1 << 20))
    make("userspace/kvbench")
    subprocess.run([TOP / "build/userspace/kvbench", "arrivals", "--arrivals", "poisson",
                    "--target", "200", "-n", "100", "--size", "1M", "--format", "iolog3", "--out",
                    tmp_path / "log"], check=True)
    of = guest.by_fio(tmp_path / "disk", tmp_path / "log", 4)
    assert of["requests"] == 100
    assert 0 < of["p50_ms"] <= of["p99_ms"] <= of["p99_9_ms"] <= 1.05 * of["max_ms"]
    assert any((tmp_path / "disk").read_bytes())


def result_of_kv_blocks(p99_9, longest, diverted=0, **more):
    return {"requests": 1000, "mean_ms": 1.0, "p99_ms": 2.0, "p99_9_ms": p99_9,
            "max_ms": longest, "diverted": diverted, "left": diverted // 4, "home_s": 3.0,
            "layer": {"steps": 12, "r0_violations": 0},
            "medium": {"late_max_us": 10_169, "destroyed_reads": 0}, **more}


def results_of(better):
    ways = {"fio": result_of_kv_blocks(50, 900), "threads": result_of_kv_blocks(50, 900),
            "diverted": result_of_kv_blocks(*((5, 90, 400) if better else (50, 900, 400)))}
    return [(("poisson", "stl-set"), {"ways": ways})]


def test_printed_figures(tmp_path):
    got = kv_blocks.figures(results_of(True)[0][1])
    assert got["diverted"]["diverted"] == 40 and got["diverted"]["left"] == 25
    assert got["threads"]["left"] is None and got["fio"]["steps"] == 12
    assert all(holds for _, holds in kv_blocks.relations(results_of(True)))
    assert not any(holds for _, holds in kv_blocks.relations(results_of(False)))
    assert kv_blocks.table(results_of(True)).rows[-1] == [
        "poisson, stl-set, diverted", "1.00", "2.0", "5.0", "90.0", "12", "40.0", "25.0", "3.0"]
    pytest.importorskip("matplotlib")
    kv_blocks.picture(results_of(True), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


@pytest.mark.parametrize("part,name,sentence", (
    ("medium", "late_max_us", "poisson, threads: a request was 10172 us late"),
    ("medium", "destroyed_reads", "poisson, threads: 3 destroyed blocks were read"),
    ("layer", "r0_violations", "poisson, threads: 3 writes would have destroyed"),
))
def test_faults_of_kv_blocks_are_reported(part, name, sentence):
    (_, of), = results_of(True)
    assert not list(kv_blocks.wrong_of("poisson", of))
    of["ways"]["threads"][part][name] += 3
    wrong, = kv_blocks.wrong_of("poisson", of)
    assert wrong.startswith(sentence)


def test_cases_of_kv_imr():
    """All schemes get the same load on the same disk. The records fill as large a part of it as
    in the paper."""
    options = kv.options_of(["--fraction", "8"])
    cases = kv_imr.cases(options)
    assert [scheme for *_, scheme in cases] == list(kv_imr.SCHEMES)
    n, tracks = kv_imr.records(options), kv_imr.tracks(options)
    assert tracks == 5960
    assert n * 1058 / (tracks * 65536) == pytest.approx(75_000 / (47_684 * 2), rel=1e-4)
    for _, words, scheme in cases:
        assert json.loads(json.dumps(words)) == words      # so --resume finds it
        for same in ("sittings", "drive_mib", "band", "options", "organisation"):
            assert words[same] == cases[0][1][same]
        assert words["drive_mib"] * 16 >= tracks + kv_imr.spare()
        # The drive has no cache, and a track takes one rotation.
        assert words["layer"]["keys"] == {"track_sectors": 128, "wcache": "off",
                                          "lookahead": "off"}
        create = words["layer"]["create"]
        assert words["layer"]["media"] == ("imr" if create else "cmr")
        assert bool(create) == (scheme != "plain")
        if create:
            assert (f"policy={scheme.partition('-')[0].replace('most', 'compaction')}"
                    in create)
            assert ("rmw=merged" in create) == scheme.endswith("-merged")
            assert ("largest=most" in create) == scheme.startswith("most")
    assert cases[0][1]["band"] == "2112K"


def test_sessions_of_the_paper():
    """The last tenth of the load continues where the load ended, and the mixes use all records."""
    options = kv.options_of(["--fraction", "16"])
    n = kv_imr.records(options)
    (sitting,) = kv_imr.cases(options)[0][1]["sittings"]
    words = dict(sitting)
    assert list(words) == ["load", "last", "R90", "R50", "R10"]
    first = int(words["load"][words["load"].index("-n") + 1])
    assert first + n // 10 == n and f"insertstart={first}" in words["last"]
    for mix, share in (("R90", .9), ("R50", .5), ("R10", .1)):
        assert f"readproportion={share:g}" in words[mix]
        assert f"updateproportion={1 - share:g}" in words[mix]
        assert words[mix][words[mix].index("-r") + 1] == str(n)
        assert words[mix][words[mix].index("-n") + 1] == str(n // 10)


def test_shingle_levels_gets_the_same_files():
    """shingle-levels gets the same files and schemes as the guest, with records and tracks 32
    times as large, and a level 1 of ten files."""
    options = kv.options_of(["--fraction", "16"])
    told = []

    def run(words, **_):
        told.append(words)
        return SimpleNamespace(stdout="{}")
    for scheme in kv_imr.SCHEMES:
        kv_imr.middleware(options, scheme, "R50", run)
    places = [words[words.index("--place") + 1] for words in told]
    assert places == ["seq,next", "seq,naive,next", "3phase,naive,next",
                      "compaction,naive,next", "compaction,merged,next",
                      "compaction,naive,next,largest=most", "compaction,merged,next,largest=most"]
    words = dict(zip(told[0][1::1], told[0][2::1]))
    assert words["--file"] == "67584K" and words["--level1"] == "675840K"
    assert words["--record"] == "32768B" and words["--moves"] == "keep"
    assert int(words["--load"][:-1]) == pytest.approx(
        int(words["--tracks"]) * 2 * 75_000 / (47_684 * 2), rel=1e-3)


def test_shingle_levels_accepts_the_options():
    """shingle-levels accepts the options, and its answer has all the figures that the experiment
    needs."""
    make("userspace/levels")
    options = kv.options_of(["--fraction", "12"])
    got = {scheme: kv_imr.figures_of_levels({mix: kv_imr.middleware(options, scheme, mix)
                                           for mix in ("R90", "R50", "R10")})
           for scheme in ("plain", "seq", "compaction-merged")}
    assert got["plain"]["rewrites"] == 0 < got["seq"]["rewrites"]
    assert got["seq"]["speed"] < got["compaction-merged"]["speed"] < 1.2 * got["plain"]["speed"]
    assert got["seq"]["rewriting"] > .3 and got["plain"]["last"] > 0


def result_of_kv_imr(seconds, rewrites=0, mix_s=10):
    disk = {"imr_rewrites": rewrites, "imr_sync_adjacent": 1, "imr_sync_map": 99,
            **{f"imr_sync_{i}": rewrites for i in range(1, 6)},
            "step_backup_us": 10 * rewrites, "step_write_us": 60 * rewrites,
            "step_restore_us": 20 * rewrites, "step_sync_us": 10 * rewrites}

    def phase(ops, took):
        return {"operations": ops, "seconds": took - 1, "sync_s": 1, "disk": disk,
                "store_stats": {"flush_bytes": 40, "compact_written_bytes": 160,
                                "band_bytes": 50, "compact_us": 2_000_000,
                                "level_bands": [1, 2]}}
    return {"phases": {"load": phase(900, .75 * seconds), "last": phase(100, .25 * seconds),
                       **{mix: phase(50, mix_s) for mix in ("R90", "R50", "R10")}}}


def test_figures_of_kv_imr():
    of = kv_imr.figures(result_of_kv_imr(100, 30))
    assert of["speed"] == 10 and of["last"] == 4 and of["compact"] == 4 and of["files"] == 8
    # The figures cover both parts of the load; the syncs of the map do not count in the paper.
    assert of["rewrites"] == 60 / 8 and of["syncs"] == 302 / 8
    assert of["rewriting"] == pytest.approx(.3) and of["R50"] == 5
    assert kv_imr.figures(result_of_kv_imr(100))["rewriting"] is None


def test_least_gain():
    """The least gain is that of the slowest compaction scheme over the better of seq and 3phase."""
    got = {name: {"R50": n} for name, n in
           (("seq", 50), ("3phase", 80), ("compaction", 100), ("compaction-merged", 90))}
    assert kv_imr.least_gain(got, "R50") == pytest.approx(12.5)
    got["most"] = {"R50": 60}
    assert kv_imr.least_gain(got, "R50", ("most",)) == pytest.approx(-25)


def test_printed_table(capsys):
    options = kv.options_of([])
    took = dict(zip(kv_imr.SCHEMES, (100, 250, 125, 115, 105, 110, 100)))
    got = {scheme: kv_imr.figures(result_of_kv_imr(s, 0 if scheme == "plain" else s))
           for scheme, s in took.items()}
    kv_imr.print_tables(got, got, options)
    said = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.strip()}
    assert rows["seq"][:3] == ["0.400", "0.400", "0.399"]
    assert rows["plain"][6:9] == ["-", "-", "0.0"]
    assert rows["seq"][6:9] == ["30.0", "30.0", "76.1"]
    assert "compaction over 3phase: 1.087, levels 1.087 (paper 1.44)" in said
    assert "compaction below seq: rewrites 54.0 %, levels 54.0 % (paper 91.11 %)" in said
    assert said.count("+28.93") == 2


OPTIONS = argparse.Namespace(json=None)


def option(args, name):
    return args[args.index(name) + 1] if name in args else None


def test_set_up_of_the_paper():
    """The options are those of the paper: order of tracks, drive, size, load, and a flush that
    takes one rotation."""
    args = kvimr.arguments("compaction-merged", 3)
    assert option(args, "--place") == "compaction,merged,next"
    assert option(args, "--drive") == "st500dm002"
    assert option(args, "--tracks") == "47684"
    assert -(-int(option(args, "--file")[:-1]) // 2) == 33
    # One rotation at 7,200 rpm.
    assert int(option(args, "--flush-us")) == 60000000 // 7200
    assert option(args, "--seed") == "3" and "--copy-each" in args
    assert option(args, "--load") == "75000M" and option(args, "--record") == "1024K"
    plain = kvimr.arguments("plain", 3)
    # As in the paper, the plain disk fills its tracks in the order of 3phase.
    assert "--copy-each" not in plain and option(plain, "--place") == "3phase,next"


def test_records_of_the_paper():
    """The paper's 75 million records of 1 KiB are loaded in two sizes: as they are, and with a
    64th more."""
    for way, kib in (("74,387 MiB", 75e6 * 65 / 64), ("73,242 MiB", 75e6)):
        load = option(kvimr.arguments("seq", 1, kvimr.WAYS[way]), "--load")
        assert int(load[:-1]) == round(kib / 1024) == int(way.split()[0].replace(",", ""))


def test_fast_disk_is_the_same_as_in_imr():
    """The fast disk of kvimr and of imr is the same, so that their results can be compared."""
    fast, args = imr.SET_UPS["fast"], kvimr.arguments("seq", 1, kvimr.WAYS["fast disk"])
    assert option(args, "--tracks") == str(fast["tracks"])
    assert option(args, "--drive") == fast["drive"]
    assert int(option(args, "--flush-us")) == fast["flush_us"]
    assert int(option(args, "--load")[:-1]) == fast["tracks"] * 2 * 768 / 1000


def test_runs_have_different_options():
    """Each run has options of its own, unless two parts need the same run, which is then made
    once."""
    runs = kvimr.wanted(["load", "ways", "sizes", "mixes"], [1, 2])
    of = {way: tuple(map(tuple, got.values())) for way, got in runs["ways"].items()}
    assert len(set(of.values())) == len(kvimr.WAYS)
    # Equal runs are shared, and runs with different seeds are not.
    assert runs["ways"]["the paper's"]["seq", 2] == runs["load"][""]["seq", 2] == \
        runs["sizes"][64]["seq", 2]
    assert runs["load"][""]["seq", 1] != runs["load"][""]["seq", 2]
    sizes = [option(got["seq", 1], "--file") for got in runs["sizes"].values()]
    assert sizes == ["65M", "130M", "260M", "520M"]
    for mix, got in runs["mixes"].items():
        assert option(got["seq", 1], "--mix") == mix
        assert option(got["seq", 1], "--record") == "1K"
        assert option(got["seq", 1], "--ops") == "7500000"
        # A mix follows the same load as in the part `load`.
        assert option(got["seq", 1], "--load") == option(runs["load"][""]["seq", 1], "--load")


def answer(speed, rewrites, mix=0.):
    """Return an answer of shingle-levels about a load of 10 files. Persisting takes 400 s, of
    which 160 s rewrite top tracks; within compactions it is 135 s of 300 s."""
    of = {
        "record_bytes": 1 << 20, "load": {"files": 10},
        "points": [{"inserted": 10 * i, "seconds": 5. * i + (i == 75)}
                   for i in range(1, 76)],
        "device": {"load_s": 750., "load_compact_s": 3e9 / speed, "mix_ops_per_s": mix,
                   "load_compact_persist_s": 300., "load_compact_rewriting_s": 135.,
                   "load_compact_rewrites": rewrites * 3 // 4,
                   "load_bytes_per_s": speed,
                   "load": {"persist_s": 400., "flushes": 10,
                            "step_s": {"backup": 100., "restore": 60., "last": 9.}}},
    }
    if rewrites:
        of["done"] = {"rewrites": rewrites, "syncs": 4 * rewrites}
    return of


def test_figures_of_kvimr():
    """Times cover compactions only, as in the paper; counts cover the whole load."""
    got = kvimr.figures(answer(1e6, 160))
    assert got["rewrites"] == 16 and got["syncs"] == 64
    assert got["persist"] == 300 and got["persist_all"] == 400
    assert got["rewriting"] == 0.45 and got["rewrite_ms"] == 1125
    assert got["last"] == pytest.approx(10 * (1 << 20) / 6)
    plain = kvimr.figures(answer(1e6, 0))
    assert plain["syncs"] == 1 and plain["rewrites"] == 0 and plain["rewrite_ms"] is None


def two_seeds(mix=0.):
    """Return figures of two seeds: with the second one all schemes except the plain disk are
    faster by 1 %."""
    speeds = {"plain": 1e6, "plain-seq": 1.1e6, "seq": .4e6, "seq-merged": .9e6,
              "3phase": .6e6, "3phase-merged": .8e6, "compaction": .9e6,
              "compaction-merged": .95e6}
    return {(s, seed): kvimr.figures(answer(
        v * (1.01 if seed == 2 and s != "plain" else 1),
        0 if s.startswith("plain") else 160, mix * v)) for s, v in speeds.items()
        for seed in (1, 2)}


def test_tables_have_the_figures_of_the_paper(capsys):
    """The tables have means and ranges over seeds, with the paper's figures beside them."""
    got = two_seeds()
    kvimr.show_load(got, kvimr.SCHEMES, OPTIONS)
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()
            if line.startswith(tuple(kvimr.SCHEMES))}
    assert rows["3phase"][1:4] == ["0.603", "(0.600-0.606)", "0.610"]
    # Columns: compaction time, persisting time, share and price of rewriting, rewrites, syncs; most
    # with the paper's figure.
    assert rows["3phase"][4:] == ["1.66", "1.68", "1.00", "2.24", "1.00", "45.0", "57.7",
                                  "1125.0", "16.000", "4.460", "64.000", "14.100"]
    assert rows["seq-merged"][3] == rows["seq-merged"][5] == "-"
    # With the second seed the plain disk is a fifth faster, and compaction rewrites less.
    other = dict(got)
    other["plain", 2] = {**got["plain", 2], "speed": 1.2e6}
    for seed in (1, 2):
        other["compaction", seed] = {**got["compaction", seed], "rewrites": 4, "syncs": 16,
                                     "last": 3 * got["seq", seed]["last"]}
    kvimr.show_load(other, kvimr.SCHEMES, OPTIONS)
    out = capsys.readouterr().out
    assert "the plain disk writes 10 files at 1.10 MB/s" in out
    assert "compaction over seq: 2.250 (2.250-2.250) (paper 2.21); the last 1/75 3.000" in out
    assert "compaction below seq: rewrites 75.00 % (paper 91.11 %), syncs 75.00 % (paper " \
        "94.99 %)" in out
    kvimr.show_ways({"the paper's": got, "free syncs": got}, OPTIONS)
    out = capsys.readouterr().out.splitlines()
    assert out[3].split()[1:5] == ["0.399", "0.610", "0.880", "0.945"]
    assert out[4].split()[2:6] == ["0.402", "0.603", "0.905", "0.955"]
    assert out[5].split()[:2] == ["free", "syncs"]
    kvimr.show_sizes({64: got, 128: got}, OPTIONS)
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("64"))
    assert row.split()[1:] == ["+5.6", "(+5.6-+5.6)", "+7.0", "0.40", "0.60", "0.90", "0.95"]


def course(*parts):
    """Return a course from (seconds, rewrites) of each 1,000 records."""
    out = [(0, 0., 0)]
    for seconds, rewrites in parts:
        out.append((out[-1][0] + 1000, out[-1][1] + seconds, out[-1][2] + rewrites))
    return out


def test_the_course_of_the_load(capsys):
    """The course of a load, as in the paper's Figure 6: where a scheme begins to rewrite, and
    from where on it stays ahead of all others."""
    three = course((1, 0), (1, 0), (4, 5), (4, 0))
    seq = course((2, 1), (5, 4), (5, 4), (5, 4))
    ours = course((3, 0), (1, 0), (2, 1), (3, 1))
    other = course((3, 0), (1, 0), (1, 1), (4, 1))
    late = course((1, 0), (1, 0), (3.5, 5), (4.5, 0))
    assert kvimr.rewrites_from(three) == 3000 and kvimr.rewrites_from(seq) == 1000
    assert kvimr.rewrites_from(course((1, 0))) is None
    # Both take a second for the second 1,000 records, so neither is ahead there.
    assert kvimr.ahead_from(ours, [seq, three]) == 2000
    assert kvimr.ahead_from(ours, [seq, three, other]) == 3000
    assert kvimr.ahead_from(three, [ours]) is None
    assert kvimr.ahead_from(ours, [ours]) is None
    assert kvimr.ahead_from(course((1, 0), (1, 0)), [course((1, 0), (2, 0))]) == 1000
    kvimr.show_course({(s, seed): {"course": c} for seed in (1, 2) for s, c in
                      zip(kvimr.FOUR, (seq, three, other, ours if seed == 1 else late))})
    out = capsys.readouterr().out
    assert "3phase: rewrites by 3.0, 3.0 (paper: from about 50)" in out
    assert "seq: rewrites by 1.0, 1.0\n" in out
    # With the first seed and in the means it is ahead from 3.0 on; with the second it ends behind.
    assert "compaction-merged is ahead of all from 3.0 on by the means of the seeds (paper: from " \
        "about 60), by seed from 3.0, never" in out


def test_least_gain_is_over_the_better_of_two(capsys):
    """The least gain is that of the slower compaction scheme over the better of seq and 3phase."""
    got = two_seeds(mix=1e-3)
    assert kvimr.least_gain(got) == pytest.approx(50)
    kvimr.show_mixes({"R90": got}, OPTIONS)
    row = capsys.readouterr().out.splitlines()[-1]
    # The mix is the same by seed.
    assert row.split()[5:7] == ["600.0", "(600.0-600.0)"] and row.split()[-2:] == ["+50.0", "+2.28"]


def test_stored_answer_is_used_only_with_resume(tmp_path):
    """A stored answer is used only with --resume, and only if it is whole and of the same
    options."""
    make("userspace/levels")
    # A disk so small that level 1 and all bottom tracks are full.
    args = kvimr.arguments("3phase", 1, {"--tracks": "1600", "--load": "1400M"})
    out = tmp_path / "of.json"
    of = kvimr.measure(args, True, out)
    assert of["device"]["flush_us"] == 8333 and kvimr.figures(of)["rewrites"] > 0
    assert json.loads(out.read_text()) == of
    before = {"words": of["words"], "of": "before"}
    out.write_text(json.dumps(before))
    assert kvimr.measure(args, True, out) == before
    assert kvimr.measure(args, False, out) == of
    # A damaged answer, or one of another run, is measured again.
    for text in ("", "{", "{}", "[1, 2]", json.dumps({**of, "words": {"args": []}})):
        out.write_text(text)
        assert kvimr.measure(args, True, out) == of
    assert json.loads(out.read_text()) == of


def test_results_directory_that_cannot_be_made(tmp_path, monkeypatch):
    """If the directory for results cannot be made, the reason is reported before any run."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(kvimr.runner, "outputs", lambda _: tmp_path / "file")
    monkeypatch.setattr(sys, "argv", ["kvimr"])
    with pytest.raises(SystemExit, match="^kvimr: results go to .*: File exists$"):
        kvimr.main()


def test_published_figures_are_written_once():
    """Experiments import the published figures from kvimr_paper.py, and have no copies of them.
    The published ratios agree with each other."""
    for name in ("imr", "imr_model", "kvimr"):
        text = (TOP / f"scripts/src/experiments/{name}.py").read_text()
        assert re.search(r"^from experiments.kvimr_paper import", text, re.M), name
        assert not re.search(r"(?<![\d.])(0\.399|91\.11|28\.93|0\.889|16\.8)(?!\d)", text), name
    whole = {pair[:2]: pair[2] for pair in kvimr_paper.RATIOS if pair[2]}
    for (one, other), ratio in whole.items():
        speeds = [kvimr_paper.OF_PLAIN[s][0] for s in (one, other)]
        assert speeds[0] / speeds[1] == pytest.approx(ratio, rel=0.02)


def test_published_figures_are_consistent():
    """The paper's text gives some results twice, in other units: compaction times in relation to
    each other, and the seconds spent on rewriting top tracks. They must agree with the figures
    in kvimr_paper.py, which guards against misprints there."""
    for one, other, less in (("compaction", "seq", 55.61), ("compaction", "3phase", 31.69),
                             ("compaction-merged", "compaction", 7.67)):
        took = [kvimr_paper.OF_PLAIN[s][1] for s in (one, other)]
        assert 100 * (1 - took[0] / took[1]) == pytest.approx(less, abs=.25)
    persist = {"seq": 25145.76, "3phase": 9681.21}
    for s, seconds in persist.items():
        persist[s] = seconds / kvimr_paper.OF_PLAIN[s][3] / kvimr_paper.OF_PLAIN[s][2]
    assert persist["seq"] == pytest.approx(persist["3phase"], rel=.003)
    for one, other, *less in kvimr_paper.LESS:
        for nr, per_cent in enumerate(less):
            files = [kvimr_paper.A_FILE[s][nr] for s in (one, other)]
            assert 100 * (1 - files[0] / files[1]) == pytest.approx(per_cent, abs=.25)
    # Figures that follow from no others in the paper are in the document as well.
    rows = (TOP / "Documentation/reports/kvimr.rst").read_text().splitlines()
    for size, per_cent in kvimr_paper.GROWTH.items():
        assert any(row.startswith(f"{size} MB ") and f" {per_cent:+} " in row for row in rows)
    for mix, per_cent in kvimr_paper.MIXES.items():
        assert any(row.startswith(f"{mix} ") and row.endswith(f" {per_cent:+}") for row in rows)
    for _, other, _, last in kvimr_paper.RATIOS:
        assert not last or any(
            row.startswith(("last 75th, ", "... over ")) and f" over {other} " in row and
            row.endswith(f" {last:.4g}") for row in rows)
