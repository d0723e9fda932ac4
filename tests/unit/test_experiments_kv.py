# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments kv without guests: its cases and its evaluation of results."""

import json

import pytest
from experiments import kv as show


def test_all_stores_get_the_same_requests():
    """For a drive and a size all stores have the same sessions and differ in their own options
    only: each has the same memtable and an equally large cache, or the page cache."""
    options = show.options_of(["--scale", "40"])
    cases = show.rivals(options)
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
    monkeypatch.setattr(show.runner, "outputs", lambda _: tmp_path)
    monkeypatch.setattr(show.stacks.Runner, "__call__", lambda self, name, words: {"of": words})
    options = show.options_of(["--json", str(tmp_path / "json")])
    for part in "rivals", "blocks":
        show.stacks.measured("kv", options, {part: [(f"{part}-1", {"a": part}, None)]},
                             tmp_path, lambda *_: [])
    show.stacks.keep(options, {"native-1": {"phases": {}}})
    assert json.loads((tmp_path / "json").read_text())["results"] == {
        "rivals-1": {"of": {"a": "rivals"}}, "blocks-1": {"of": {"a": "blocks"}},
        "native-1": {"phases": {}}}


def test_scale():
    """Records are 8 GiB over the scale, and a tenth of them are the operations."""
    for scale in (8, 40, 160):
        options = show.options_of(["--scale", str(scale), "--drive-mib", "4000"])
        n = show.records(options, 4096)
        assert n == pytest.approx(8 * 2 ** 30 / scale / 4116, abs=1)
        phases = dict(phase for sitting in show.sittings(options, 4096) for phase in sitting)
        assert list(phases) == ["fillseq", "scan in order", "fillrandom", "scan at random",
                                "readrandom", "load", "a", "b", "c", "f", "d", "e"]
        ops = {name: int(words[words.index("-n") + 1]) for name, words in phases.items()}
        assert ops["load"] == ops["fillseq"] == ops["fillrandom"] == n
        assert ops["a"] == ops["readrandom"] == n // 10 and ops["e"] == n // 100
        assert ops["scan in order"] == n // 1000
        # As in the thesis: YCSB's writes are synced, db_bench's are not.
        assert {name for name, words in phases.items() if "--sync" in words} == {
            "load", *show.YCSB}
        assert show.band(options) == f"{80 * 1024 // scale // 4 * 4}K"


def test_part_inside_compares_three_stores():
    """The part `inside` compares LevelDB with loc and soc on a conventional drive, for four
    values of the trigger of level 0."""
    cases = show.inside(show.options_of([]))
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
    assert show.rate(phase(100, 3, 1)) == 25
    assert show.rate(phase(4, 2, kind="scan")) == 2000
    of = phase(10, 2, kind="scan")
    of["ops"]["insert"] = phase(1, 1)["ops"]["update"]
    of["operations"] = 11
    assert show.rate(of) == 5.5         # operations, as for YCSB's e
    assert show.rate(phase(10, 0)) is None


def test_lead_in_percent():
    """ahead() is the lead of the first rate over the second in percent, and None if either is
    missing."""
    assert show.ahead(3, 2) == pytest.approx(50)
    assert show.ahead(1, 2) == pytest.approx(-50)
    assert show.ahead(1, 0) is None and show.ahead(None, 2) is None
    assert show.signed(8.84) == "+8.8 %" and show.signed(None) == "-"


def test_written_bytes_per_payload():
    assert show.written(phase(1, 1, wrote=500)) == 3
    assert show.written(phase(1, 1)) is None


def test_compacted():
    """The compaction traffic of kv comes from its counters, that of LevelDB from the rows of its
    text."""
    mib = 1 << 20
    of = {"store_stats": {"compact_read_bytes": 5 * mib, "compact_written_bytes": 4 * mib,
                          "flush_bytes": 3 * mib, "flush_us": 500_000, "compact_us": 2_000_000}}
    assert show.compacted(of) == (5, 7, 2.5)
    text = """                               Compactions
Level  Files Size(MB) Time(sec) Read(MB) Write(MB)
--------------------------------------------------
  0        2        4         3        0       45
  1        5       10         9      120      118
"""
    assert show.compacted({"store_stats": {"stats": text}}) == (120, 163, 12)


def test_different_counts_of_stores_are_reported():
    """Stores that got the same requests must report the same counts: a difference means that a
    store lost something, or was sent something else."""
    def of(name, **phases):
        return ("conventional", 1024, name), phases
    same = [of("kv", a=phase(10, 1)), of("leveldb", a=phase(10, 9))]
    assert not list(show.differ(same))
    for change in ({"missing": 1}, {"service": {"count": 9}}, {"records": 5}):
        other = phase(10, 1)
        other["ops"]["update"].update(change)
        sentence, = show.differ([*same, of("rocksdb", a=other)])
        assert sentence.startswith("conventional, 1024 bytes, a: rocksdb gave")
    # Results of another drive or size have no effect.
    other = phase(9, 1)
    assert not list(show.differ([*same, (("stl-set", 1024, "kv"), {"a": other})]))


@pytest.mark.parametrize("more,sentence", (
    ({}, None),
    ({"late_us": 10_169}, None),
    ({"late_us": 10_170}, "10170 us late"),
    ({"medium": {"destroyed_reads": 3}}, "3 destroyed blocks were read"),
    ({"layer": {"r0_violations": 1}}, "1 writes would have destroyed data in use"),
))
def test_faults_are_reported(more, sentence):
    """Reads of destroyed blocks, writes that would have destroyed data, a late clock and failed
    operations are reported."""
    of = {"late_us": 0, "medium": {"destroyed_reads": 0}, "layer": {"r0_violations": 0},
          "phases": {"a": phase(1, 1)}, **more}
    wrong = list(show.wrong_of("x", of))
    assert len(wrong) == bool(sentence) and all(sentence in w for w in wrong)
    of["phases"]["a"]["ops"]["update"]["failed"] = 1
    assert "x: a: an operation failed" in list(show.wrong_of("x", of))[-1]


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
    assert all(holds for _, holds in show.relations(inside_of(rates, moved, scans)))
    for change, what in (
            (({**rates, "loc": 101}, moved, scans), {0}),
            (({**rates, "loc": 60}, moved, scans), {0}),
            (({**rates, "soc": 99}, moved, scans), {1}),
            ((rates, {**moved, "soc": 8.5}, scans), {2}),
            ((rates, moved, {**scans, "soc": 2}), {3}),
            ((rates, moved, {**scans, "leveldb": 2}), {4}),
            (({**rates, ("soc", 16): 149}, moved, scans), {5}),
            (({**rates, ("loc", 32): 50}, moved, scans), {6})):
        found = show.relations(inside_of(*change))
        assert {i for i, (_, holds) in enumerate(found) if not holds} == what


def test_store_without_a_result_is_left_out():
    """A store without a result is compared with nothing. The columns that compare it are left
    out, and no other store takes its place."""
    assert not show.relations(inside_of({}, {}, {})[1:])
    results = [(("conventional", 1024, name), {"load": phase(n, 1, disk={"written_bytes": 1},
                                                             written_bytes=1)})
               for name, n in (("leveldb", 100), ("rocksdb", 50))]
    said = show.table_rivals(results, "conventional", 1024).text()
    assert "100.0" in said and "over" not in said and "+100" not in said
    kv = (("conventional", 1024, "kv"), results[0][1])
    said = show.table_rivals([kv, results[1]], "conventional", 1024).text()
    assert "over rocksdb" in said and "+100.0 %" in said and "over leveldb" not in said


def test_columns_are_wide_enough():
    """The columns of the table are wide enough for rates of tens of millions."""
    results = [(("tmpfs", 1024, name), {"load": phase(n, 1)})
               for name, n in (("kv", 18_014_065), ("leveldb", 32_031_255))]
    head, row = show.table_rivals(results, "tmpfs", 1024, disks=False).text().splitlines()[-2:]
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
    assert show.run_phases([(name, ["-w", name]) for name in results], send) == results
    assert [words[:2] for words in sent.values()] == [
        ["-p", f"insertstart={there}"] for there in (0, 0, 7, 7)]


def test_median_of_rounds():
    """The median of rounds is taken separately for each phase."""
    runs = [{"a": phase(n, 1), "b": phase(9 - n, 1)} for n in (3, 1, 2)]
    found = show.middle(runs)
    assert (found["a"]["operations"], found["b"]["operations"]) == (2, 7)


def test_printed_tables():
    """The rows of the printed tables, with the ratios and the written bytes."""
    results = [(("stl-set", 1024, name), {"load": phase(n, 2, wrote=10, kind="insert"),
                                          "c": phase(n, 1, kind="read")})
               for name, n in (("kv", 300), ("leveldb", 200), ("rocksdb", 400))]
    load, c = show.table_rivals(results, "stl-set", 1024).rows
    assert load == ["load", "150.0", "100.0", "200.0", "+50.0 %", "-25.0 %", "+8.8 to +123.6 %",
                    "3.00", "3.00", "3.00"]
    assert c == ["c", "300.0", "200.0", "400.0", "+50.0 %", "-25.0 %", "", "-", "-", "-"]
    rows = show.table_inside(inside_of({"leveldb": 100}, {"loc": 2 << 20}, {})).rows
    assert rows[0][:4] == ["leveldb", "4", "100.0", "0"] and rows[1][:4] == [
        "loc", "4", "1,004.0", "2"]


def test_offload():
    """Each kind of arrivals is measured with and without the offload device. All other settings
    are equal."""
    cases = show.offload(show.options_of(["--rate", "500", "--minutes", "3"]))
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
    got = show.offloaded(offload_of(5000, 4, 30, offloaded=600))
    assert got["offloaded"] == 60 and got["unsorted"] == 40 and got["merged"] == 2.5
    assert got["p99_9_us"] == 5 and got["max_us"] == 9 and got["scans"] == 15
    # Back to back there is no response time; the service time takes its place.
    of = offload_of(5000, 4, 30)
    (op,) = of["phases"]["load"]["ops"].values()
    op["service"] = {**op.pop("response"), "p50_us": 7000}
    assert show.offloaded(of)["p50_us"] == 7
    better, worse = offload_of(10, 2, 50, 201), offload_of(20, 4, 30)
    names = ("back to back", "poisson")
    results = [((n, there), better if there else worse) for n in names for there in (False, True)]
    assert all(holds for _, holds in show.relations_offload(results))
    assert len(show.relations_offload(results)) == 7
    # A missing partner; then a load that is too short to make any table.
    assert not show.relations_offload(results[:1])
    few = offload_of(5000, 4, 30)
    few["phases"]["load"]["store_stats"].update(unsorted_bands=0, level_bands=[0, 0])
    assert dict(show.relations_offload([(("poisson", there), few) for there in (False, True)])) \
        ["poisson: less is left unsorted"] is False
    results = [((n, there), worse if there else better) for n in names for there in (False, True)]
    assert not any(holds for _, holds in show.relations_offload(results))


def test_worst_writes(tmp_path):
    """The log of kvbench is sorted by the begin of each put, and gives the worst time of each
    stretch."""
    worst = show.kv_worst
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
          for i, name in enumerate(show.kv_worst.STORES)}
    options = show.options_of(["--puts", "3000"])
    show.kv_worst.picture(of, options, tmp_path / "worst.svg")
    text = (tmp_path / "worst.svg").read_text()
    assert all(f"{name}: {20 + i}.0 ms" in text for i, name in enumerate(of))
