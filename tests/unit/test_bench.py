# SPDX-License-Identifier: GPL-2.0
"""Unit tests of scripts/bench, without guests: its bars, and its messages about figures beyond
them."""

import json
import random
import subprocess
from types import SimpleNamespace

import pytest
from experiments import bench
from experiments import bench_store as store
from experiments.in_guest import bench as guest
from programs import TOP


def test_each_operation_has_a_bar():
    """Each pair of a target and an operation has a bar, so none is measured without a verdict."""
    assert set(bench.INSTRUCTIONS) == {(t, op) for t in guest.OURS for op in guest.OPERATIONS}
    assert set(bench.BARS) == set(guest.OURS)


def test_places_of_operations():
    """Random places are aligned and spread; one pass of a sequential operation fits in the span and
    repeats no place."""
    places = guest.places("write", random.Random(1), 500)
    span = guest.SPAN_MIB // guest.PART * guest.MIB
    assert len(places) == 500 and len(set(places)) > 400 and max(places) > span * 3 // 4
    assert not any(at % 4096 or at >= span for at in places)
    mib = guest.OPERATIONS["write 1M"][1]
    in_sequence = guest.places("write 1M", random.Random(1), guest.PASS)
    assert mib == guest.MIB and in_sequence == [k * mib for k in range(guest.PASS)]
    assert span - mib * 4 <= in_sequence[-1] < span


def figures(beyond):
    """Return instruction counts in the guest's format, all of them @beyond their bars."""
    counted = {}
    for (target, op), bar in bench.INSTRUCTIONS.items():
        row = counted.setdefault(op, {"bare": 50000.0, "linear": 60000.0, "writecache": 62000.0})
        row[target] = 60000.0 + bar + beyond
    return counted


@pytest.mark.parametrize("beyond,missed", ((0, 0), (-1, 0), (1, 1)))
def test_verdict_of_instruction_counts(capsys, beyond, missed):
    """MISSED appears only beside our targets, and only beyond the bar. Without a bar the table
    has no verdict."""
    bench.show_instructions(figures(beyond))
    head, *rows = capsys.readouterr().out.rstrip().splitlines()
    assert head.split("bar")[2].split() == ["write", "1M"]
    for row in rows:
        target = row.split()[0]
        of_ours = target in bench.BARS
        assert row.count("MISSED") == missed * of_ours * 3, row
    linear = next(row for row in rows if row.startswith("linear"))
    assert linear.split()[1:] == ["10000", "-"] * 3


def test_a_disturbed_pass_is_ignored():
    """The instruction count is a median over passes, so a pass that an interrupt disturbed has
    no effect."""
    even = [(100, 10)] * 8
    assert guest.middle(even) == 10000
    assert guest.middle(even[:6] + [(100, 1000), (100, 5)]) == 10000
    assert guest.middle([(100, 10), (100, 30)]) == 5000
    assert guest.middle([(100, 0)]) == 100000


@pytest.mark.parametrize("err", ("", "lab: no huge pages for the guest's memory: why\n"))
def test_missing_huge_pages_are_reported(monkeypatch, capsys, err):
    """A warning about missing huge pages reaches the user: figures differ without them, and
    nothing else would show the reason."""
    told = SimpleNamespace(ok=True, out='x\n{"a": 1}\n', err=f"touching RAM\n{err}round 1 of 1\n")
    monkeypatch.setattr(bench, "run", lambda *_, **__: told)
    assert bench.part("speed", 1, 0, "uml") == {"a": 1}
    assert capsys.readouterr().err == err


@pytest.mark.parametrize("what", ("rounds", "boots"))
@pytest.mark.parametrize("n", ("0", "-1"))
def test_fewer_than_one_round_or_boot_is_refused(what, n):
    """A number of rounds or boots below 1 is refused."""
    done = subprocess.run([TOP / "scripts/bench/run", f"--{what}={n}"],
                          text=True, capture_output=True, check=False)
    assert done.returncode == 2 and f"--{what} {n}" in done.stderr


@pytest.mark.parametrize("rounds,boots,each", ((9, 3, [3, 3, 3]), (5, 3, [2, 2, 1]), (2, 3, [1, 1]),
                                               (1, 1, [1]), (9, 1, [9])))
def test_rounds_are_spread_over_boots(rounds, boots, each):
    """Rounds are distributed evenly over boots, and no boot is without a round."""
    assert bench.spread(rounds, boots) == each


def test_boots_are_joined():
    """The result contains the rounds of all boots and the sum of their cleaning."""
    boots = [{"rates": {"read": {"imr": [1.0, 2.0]}}, "cleaned": {"imr": 3}},
             {"rates": {"read": {"imr": [4.0]}}, "cleaned": {"imr": 0}}]
    assert bench.joined(boots[:1]) == boots[0]
    assert bench.joined(boots) == {"rates": {"read": {"imr": [1.0, 2.0, 4.0]}},
                                   "cleaned": {"imr": 3}}
    assert boots[0]["rates"]["read"]["imr"] == [1.0, 2.0]


def test_each_boot_has_its_rounds(monkeypatch, tmp_path):
    """Figures that depend on the placement of memory need several boots; instruction counts need
    one."""
    asked = []

    def ran(name, rounds, boot, kernel, *_, **__):
        asked.append((name, rounds, boot, kernel))
        return {"rates": [1.0] * rounds}

    monkeypatch.setattr(bench, "part", ran)
    monkeypatch.setattr(bench.store, "measure", lambda _: ran("store"))
    monkeypatch.setattr(bench.runner, "prepare", lambda *_: None)
    monkeypatch.setattr(bench.sys, "argv", ["run", "--json", str(tmp_path / "all"), "--rounds", "4",
                                            "--boots", "3", "--part", "speed", "--part",
                                            "instructions"])
    for what in ("speed", "instructions"):
        monkeypatch.setattr(bench, f"show_{what}", lambda _: None)
    bench.main()
    assert asked == [("instructions", 1, 0, "stock"), ("speed", 2, 0, "uml"),
                     ("speed", 1, 1, "uml"), ("speed", 1, 2, "uml")]
    assert json.loads((tmp_path / "all").read_text())["results"]["speed"] == {"rates": [1.0] * 4}


def test_compared_with_dm_linear_in_the_same_place(capsys):
    """A target is compared with the dm-linear in the same place of memory. The one in a place of
    its own may be twice as fast for that reason alone."""
    rates = {w: dict.fromkeys(("linear", *bench.BARS, "writecache", "thin", "zoned"), [1.0] * 4)
             for w in bench.SHINGLED}
    for row in rates.values():
        row["linear"] = [2.0] * 4
    there = {w: dict.fromkeys(bench.BARS, [1.0] * 4) for w in rates}
    control = {w: dict.fromkeys(bench.BARS, [1.25] * 4) if "seq" in w else {} for w in rates}
    bench.show_speed({"bytes_per_second": rates, "linear_bytes_per_second": there,
                      "control_bytes_per_second": control,
                      "cleaning_steps_while_measuring": {}})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {row[3]: (row[4], row[-1]) for row in rows if len(row) > 5 and row[0] == "sequential"
             and row[3] in ("linear", "control")}
    assert found == {"linear": ("1.00", "met"), "control": ("0.80", "MISSED")}
    assert ["random", "read", "4K", "rmwf", "0.50"] in rows
    assert ["sequential", "read", "1M", "rmwf", "0.50", "1.25"] in rows


@pytest.mark.parametrize("lag,missed", ((9, 0), (11, 1)))
def test_second_job_is_compared_with_linear_in_the_same_place(capsys, lag, missed):
    """The gain of a second job is compared with that of the dm-linear in the target's place; one
    in another place uses other memory."""
    def row(percent):
        return {"alone": [100.0] * 3, "one": [100.0 + percent] * 3, "own": [200.0] * 3}

    rates = {"linear": row(120), "imr": row(100 - lag)}
    bench.show_processors({
        "bytes_per_second": {"randread": rates, "randwrite": rates},
        "linear_bytes_per_second": {"randread": {"imr": row(100)}}})
    head, linear, imr = capsys.readouterr().out.rstrip().splitlines()
    assert "linear there" in head and head.count("linear there") == 1
    assert [int(n) for n in linear.split()[1:]] == [120] * 4 and "MISSED" not in linear
    assert [int(n) for n in imr.split()[1:6]] == [100 - lag, 100, *[100 - lag] * 3]
    assert imr.count("MISSED") == missed


def test_target_of_a_device_name():
    """The name of a device determines its target, since some parts have several devices for a
    target."""
    assert [guest.kind_of(name) for name in ("stl-set", "stl-set" + guest.TWIN, "stl-full",
                                             "dualbuffer-80-512", "writecache", "other")] == \
        ["stl-set", "stl-set", "stl-full", "dualbuffer", "writecache", "other"]


def test_targets_change_places_from_boot_to_boot():
    """Targets change places from boot to boot: in as many boots as there are targets, each
    target is once in each place."""
    boots = [guest.turned(guest.TARGETS, boot) for boot in range(len(guest.TARGETS))]
    assert boots[0] == list(guest.TARGETS) == guest.turned(guest.TARGETS, len(boots))
    for place in zip(*boots):
        assert sorted(place) == sorted(guest.TARGETS)


def test_pieces_are_medians_of_rounds(capsys):
    """One table is by shape, over all places; the other is by place, over all shapes."""
    names = ["-".join(("dualbuffer", *map(str, shape))) for shape in guest.SHAPES]
    found = {name: [[(boot + i) % 2, 0.5 + 0.5 * boot, 8.0 + i + boot, 10.0, 16.0]
                    for boot in range(2)] for i, name in enumerate(names)}
    bench.show_pieces(found)
    rows = [line.split() for line in capsys.readouterr().out.rstrip().splitlines()[1:]]
    shapes, places = rows[:-2], rows[-2:]
    assert sorted((row[1], row[5]) for row in shapes) == \
        sorted((str(m), str(track * 4)) for m, track in guest.SHAPES)
    by = {(row[1], row[5]): row[7:] for row in shapes}
    assert by["80", "2048"] == ["1.75", "0.850", "0.800", "to", "0.900", "0.531", "1.600"]
    assert [row[:3] for row in places] == [["place", "0", "1.75"], ["place", "1", "1.75"]]
    assert [row[3] for row in places] == ["1.000", "1.000"]


def test_pieces_are_measured_on_request_only(monkeypatch):
    """The part `pieces` explains a single figure of speed and takes long, so it runs on request
    only."""
    asked = []

    def ran(name, *_, **__):
        asked.append(name)
        raise bench.Missing(name)

    monkeypatch.setattr(bench, "part", ran)
    monkeypatch.setattr(bench.store, "measure", lambda _: ran("store"))
    monkeypatch.setattr(bench.runner, "prepare", lambda *_: None)
    for argv, there in (([], False), (["--part", "pieces"], True)):
        monkeypatch.setattr(bench.sys, "argv", ["run", *argv])
        with pytest.raises(SystemExit, match="no figures of"):
            bench.main()
        assert ("pieces" in asked) == there
        assert ("speed" in asked) == ("store" in asked) != there
        asked.clear()


# --- the key-value store ----------------------------------------------------------


def round_of(rate, worst):
    return {"rate": rate, "worst_ms": worst}


def test_store_row_is_missed_by_speed_or_by_worst_write():
    """A row is missed if kv is slower, or has a longer worst write, than LevelDB. The verdict
    uses the median of the ratios within a round, not the ratio of the medians."""
    found = {
        "faster": {"kv": [round_of(3, 1), round_of(30, 1), round_of(9, 9)],
                   "leveldb": [round_of(2, 2), round_of(20, 2), round_of(10, 2)]},
        "slower": {"kv": [round_of(1, 1)], "leveldb": [round_of(2, 2)]},
        "later": {"kv": [round_of(2, 3)], "leveldb": [round_of(1, 2)]},
        "reads": {"kv": [round_of(2, None)], "leveldb": [round_of(1, None)]},
    }
    rows = {name: cells for name, *cells in store.table(found).rows}
    assert rows["faster"][2] == "1.50" and rows["faster"][5] == "0.50"
    assert [name for name in found if "MISSED" in rows[name]] == ["slower", "later"]


def test_rows_of_the_store(tmp_path):
    """Each row is sent to each store with the same seed, and starts with the preparation that it
    requires."""
    assert len(set(store.ROWS)) == len(store.ROWS)
    assert {"load", *"abcdef", "fillrandom", "overwrite", "queue"} <= set(store.ROWS)
    sent = []

    class Fake:
        def __init__(self, name, folder):
            assert folder.parent == tmp_path
            self.name = name

        def row(self, words, seed):
            sent.append((self.name, words, seed))
            return {"ops": {"update": {"service": {"max_us": 5000}}}, "operations": 10,
                    "seconds": 1.5, "sync_s": .5}

        def forget(self):
            sent.append((self.name, "forgets"))

        def remove(self):
            sent.append((self.name, "goes"))
    store.Store, real = Fake, store.Store
    found = store.measure(2, ("kv", "leveldb"), tmp_path, ("overwrite",))
    store.Store = real
    assert found == {"overwrite": {name: [round_of(5, 5)] * 2 for name in ("kv", "leveldb")}}
    rows = [(name, words[1], seed) for name, words, seed in (s for s in sent if len(s) == 3)]
    assert sorted(rows) == sorted((name, words, seed) for name in ("kv", "leveldb")
                                  for words in ("fillrandom", "readrandom", "overwrite")
                                  for seed in (1, 2))
    assert sum(s[1] == "forgets" for s in sent) == 4 == sum(s[1] == "goes" for s in sent)
    assert [row[0] for row in rows[:2]] != [row[0] for row in rows[6:8]], "who begins"
