# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments skylight without guests: the acceptance table judges answers correctly, and
random drives depend on the seed only."""

import argparse
import json
import random
import sys
from pathlib import Path

import pytest
from skylight.report import Run
from experiments import skylight as show

MIB = 1 << 20
CLIFF = [86800, 90500, 92160]


def finding(value, confidence=0.99):
    return {"value": value, "confidence": confidence, "unit": "", "says": ""}


# Answers that a conventional drive does not have, by its tests or by the verdict.
NONE = ("write_unit_bytes", "cache_layout", "cleaning_type", "band_bytes", "mapping")


def drive(kind, **changed):
    """A run with correct answers, except for those in changed."""
    said = {"drive_type": "conventional", "cache_medium": "none", "zone_profile": [[0, 1]]}
    if kind in ("cmr", "e3"):
        said["torn_writes"] = False
    if kind != "cmr":
        said |= {"drive_type": "shingled", "cache_medium": "flash" if kind == "e2" else "disk",
                 "cleaning_type": "aggressive" if kind == "e3" else "lazy",
                 "mapping": "dynamic" if kind == "e3" else "static", "band_bytes": 40 * MIB,
                 "map_entries": 90000, "cache_bytes": 90000 * 4096}
        if kind != "e2":
            said["cache_layout"] = "multiple" if kind == "e3" else "single-id"
    at = changed.pop("at", None if kind == "cmr" else 88000)
    status = changed.pop("status", "done")
    said |= changed
    answers = {k: finding(v) for k, v in said.items()}
    for name in NONE if kind == "cmr" else ["cache_layout"] if kind == "e2" else ():
        answers.setdefault(name, {**finding(None), "none": True})
    numbers = {"writes_until_cleaning": at} if at is not None else {}
    tests = {t: {"status": status, "findings": answers, "numbers": numbers if t == "6" else {}}
             for t in ("1", "1abc", "2", "3", "4", "6", "7", "8", "11", "12", "13", "14")}
    truth = {k: {"mark": "right", "truth": "", "value": v, "confidence": 0.99}
             for k, v in said.items()}
    truth.setdefault("raw_bytes", {"mark": "right", "value": 1, "confidence": 1})
    truth["raw_bytes"]["cliff"] = CLIFF if kind != "cmr" else None
    return Run(Path(kind), {}, tests, answers, truth)


def all_right():
    return {kind: drive(kind) for kind in ("cmr", "e1", "e2", "e3")}


def test_right_answers_are_counted(capsys):
    count = show.table(all_right())
    assert count["wrong"] == count["cannot tell"] == 0 and count["right"] == 45
    out = capsys.readouterr().out
    assert "WRONG 0" in out and "+ 88,000 (95.5 %)" in out
    # Only this project ran Test 7 on these drives; the table says that first.
    assert out.index("Ours") < out.index("\ntest") and "+*90,000" in out
    assert out.count("+*") == 1 + 1 + 2 + 1 + 4 + 4 + 1 + 1 + 2 + 3
    assert max(map(len, out.splitlines())) < 140


@pytest.mark.parametrize("kind, changed", [
    ("cmr", {"drive_type": "shingled"}), ("cmr", {"drive_type": "translated"}),
    ("cmr", {"cache_layout": "single-od"}),
    ("cmr", {"at": 5000}), ("e1", {"drive_type": "conventional"}),
    ("e1", {"cache_layout": "single-od"}), ("e1", {"cleaning_type": "aggressive"}),
    ("e1", {"at": CLIFF[0] - 2}), ("e1", {"at": CLIFF[1] + 1}), ("e2", {"cache_medium": "disk"}),
    ("e2", {"cache_layout": "single-id"}), ("e3", {"mapping": "static"}),
    ("e3", {"cache_layout": "single-od"})])
def test_wrong_answers_are_counted(kind, changed):
    """Each wrong answer is counted as wrong, so the table cannot hide one."""
    runs = all_right()
    runs[kind] = drive(kind, **changed)
    assert show.table(runs)["wrong"] >= 1


def test_missing_answer_is_neither_right_nor_wrong():
    """A missing answer, or a test that failed, counts neither as right nor as wrong."""
    runs = all_right()
    for name in ("drive_type", "cleaning_type", "band_bytes", "mapping"):
        runs["e1"] = drive("e1", **{name: None})
        count = show.table(runs)
        assert count["cannot tell"] in (1, 2) and not count["wrong"]
    runs["e1"] = drive("e1", drive_type="translated")
    count = show.table(runs)
    assert count["cannot tell"] == 1 and not count["wrong"]
    runs["e1"] = drive("e1", at=None)
    assert show.table(runs)["cannot tell"] == 1
    runs["cmr"] = drive("cmr", status="failed")
    assert show.table(runs)["cannot tell"] > 5


@pytest.mark.parametrize("kind, name", [*(("cmr", name) for name in NONE),
                                        ("cmr", "torn_writes"), ("e3", "torn_writes"),
                                        ("e2", "cache_layout")])
def test_test_without_a_result_is_not_the_answer_none(kind, name):
    """A test without a result must not count as the answer "none". It has no result if there
    were too few power cuts, or if no read revealed a place."""
    runs = all_right()
    runs[kind].answers[name] = finding(None)
    count = show.table(runs)
    assert (count["right"], count["cannot tell"], count["wrong"]) == (44, 1, 0)
    # A missing answer does not count as one either.
    del runs[kind].answers[name]
    assert show.table(runs)["cannot tell"] == 1


def test_conventional_drive_needs_the_answer_no_torn_writes():
    """For a conventional drive Test 13 has to answer False: no torn writes. The answer "none"
    counts as no answer, and True is wrong."""
    runs = all_right()
    runs["cmr"].answers["torn_writes"] = {**finding(None), "none": True}
    assert show.table(runs)["cannot tell"] == 1
    runs["cmr"] = drive("cmr", torn_writes=True)
    assert show.table(runs)["wrong"] == 1


def test_confident_wrong_answer_fails_the_experiment(capsys):
    """The experiment fails if a test is wrong and was confident; a wrong answer of low
    confidence is allowed."""
    runs = all_right()
    assert not show.confident(runs)
    runs["e3"].truth["mapping"] = {"mark": "wrong", "truth": "dynamic", "value": "static",
                                   "confidence": 0.5}
    assert not show.confident(runs)
    runs["e3"].truth["mapping"]["confidence"] = 0.95
    assert show.confident(runs)
    assert "CONFIDENT" in capsys.readouterr().out


def test_random_drives_depend_on_the_seed():
    """Random drives depend on the seed only, and cover both layers and their options."""
    one, same, other = ([show.drawn(random.Random(seed))[0] for _ in range(1)]
                        for seed in (3, 3, 4))
    assert one == same != other
    rng = random.Random(1)
    many = [show.drawn(rng) for _ in range(200)]
    words = [" ".join(spec["create"]) for spec, _ in many]
    assert {w.split()[0] for w in words} == {"stl-set", "stl-full"}
    assert any("cleaning=lazy" in w for w in words) and any("aggressive" in w for w in words)
    assert any("--cache-location od" in w for w in words)
    assert any("flash_sectors" in spec for spec, _ in many)


LOOKED = {"11": {"status": "done", "numbers": {"moved_by_write": 0.0}, "findings": {}}}
TOO_QUICK = {"11": {"status": "done", "numbers": {"coincidence": 1.0}, "findings": {
    "band_bytes": {**finding(None), "says": "all is read too quickly for a head"}}}}
NOT_SETTLED = {"11": {"status": "failed", "why": "fio is gone", "numbers": {}, "findings": {}}}


@pytest.mark.parametrize("tests, why", [
    (LOOKED, ""), (TOO_QUICK, "all is read too quickly for a head"), (NOT_SETTLED, "fio is gone"),
    ({}, "Test 11 was not made"), ({"1": LOOKED["11"]}, "Test 11 was not made")])
def test_control_without_test_11_is_not_counted(monkeypatch, tmp_path, capsys, tests, why):
    """A control on which Test 11 was not made, or stopped early, could not have been called
    shingled. It is reported with the reason, and is not counted among those that could have
    been."""
    monkeypatch.setattr(show, "OUT", tmp_path)
    (tmp_path / "controls").mkdir()
    runs = {"linear": Run(Path("linear"), {}, LOOKED, {"drive_type": finding("conventional")}, {}),
            "bcache": Run(Path("bcache"), {}, tests, {"drive_type": finding(None)}, {})}
    options = argparse.Namespace(what="controls")
    assert show.show_controls(dict.fromkeys(runs, {}), runs, options) is True
    out = capsys.readouterr().out
    assert (f"not asked: {why}" in out) is bool(why)
    assert ("none of 2 that could have been is called shingled" in out) is (not why)
    assert ("none of 1 that could have been is called shingled; not asked: bcache" in out) is \
        bool(why)
    told = json.loads((tmp_path / "controls/controls.json").read_text())
    assert told["linear"] == {"called": "conventional", "right": True, "confidence": 0.99,
                              "not_asked": None, "says": ""}
    assert told["bcache"]["not_asked"] == (why or None)


@pytest.mark.parametrize("name,said,good", [
    ("cache", "translated", True), ("cache", None, True), ("cache", "conventional", False),
    ("cache", "shingled", False), ("linear", "conventional", True), ("linear", None, False),
    ("plain-7200", "conventional", True), ("plain-7200", "translated", False),
    ("ram", None, True), ("ram", "conventional", False)])
def test_controls_have_accepted_answers(capsys, name, said, good):
    """Each kind of control has answers that are accepted. Any other answer, or a missing
    control, fails the experiment."""
    runs = {name: Run(Path(name), {}, {}, {"drive_type": finding(said)}, {})}
    assert show.show_controls({name: {}}, runs, None) is good
    out = capsys.readouterr().out
    assert ("NOT SO" in out) is ("WRONG" in out) is not good
    assert not show.show_controls({name: {}, "bcache": {}}, runs, None)


def test_controls_have_a_name_and_a_kind():
    """Every control has its own name and a kind."""
    drives = show.controls(argparse.Namespace(scale=100, tests=None))
    assert {"plain", "linear", "crypt", "raid1", "raid5", "thin", "snapshot", "cache",
            "writecache", "bcache", "zoned", "log-flash"} <= set(drives)
    assert all(spec["name"] == name and spec["kind"] for name, spec in drives.items())


@pytest.mark.parametrize("name, value, good", [
    ("streams-over-what-is-there", True, True), ("streams-over-what-is-there", None, False),
    ("streams-over-what-is-there", False, False), ("streams-with-a-copy", False, True),
    ("streams-with-a-copy", True, False), ("streams-with-a-copy", None, False)])
def test_table_of_torn_streams(capsys, name, value, good):
    """The table has the figures of Test 13. A wrong or missing answer, or a missing run, fails
    the experiment."""
    drives = show.torn(None)
    assert all(spec["tests"] == "13" and spec["powercut"] for spec in drives.values())
    numbers = {"cuts": 50, "cuts_met": 49, "cuts_with_errors": 4, "unreadable_blocks": 181,
               "blocks_being_written": 17, "healed_blocks": 198, "cuts_with_errors_in_order": 3}
    run = Run(Path(name), {}, {"13": {"status": "done", "numbers": numbers}},
              {"torn_writes": finding(value)}, {})
    assert show.show_torn({name: drives[name]}, {name: run}, None) is good
    out = capsys.readouterr().out
    assert "50   49     4         3           181             17     198" in out
    assert ("NOT SO" in out) is not good
    # The run has no result.
    assert not show.show_torn(drives, {name: run}, None)


def test_json_has_what_was_found(monkeypatch, tmp_path, capsys):
    """--json has the answers and their marks, the times and the table, which are also printed."""
    options = argparse.Namespace(what="paper", json=tmp_path / "json", experiment="skylight",
                                 table=False, guests=2)
    monkeypatch.setattr(show, "OUT", tmp_path)
    monkeypatch.setattr(show, "results", lambda *_: {"e1": drive("e1")})
    show.conclude({"e1": {"tests": "1,6"}}, {"e1": (12.0, 3)}, options, 60)
    got = json.loads((tmp_path / "json").read_text())["results"]
    assert got["good"] is False
    assert got["drives"]["e1"]["answers"]["band_bytes"]["value"] == 40 * MIB
    assert got["drives"]["e1"]["truth"]["band_bytes"]["mark"] == "right"
    assert got["seconds"] == {"e1": 12.0} and got["status"] == {"e1": 3}
    assert "e1: the guest ended with status 3" in got["output"]
    assert "\n".join(got["output"]) in capsys.readouterr().out


# --- quick and explain ----------------------------------------------------------------


@pytest.mark.parametrize("answer, what, mark", [
    ("shingled", "shingled", "right"), ("conventional", "conventional", "right"),
    ("translated", "translated", "right"), ("conventional", "shingled", "wrong"),
    ("shingled", "translated", "wrong"), ("shingled", "conventional", "wrong"),
    ("conventional", "translated", "wrong"), ("conventional", "interlaced", "wrong"),
    # "translated" leaves the kind open, but is wrong for a drive that leaves blocks in place.
    ("translated", "shingled", "silent"), ("translated", "interlaced", "silent"),
    ("translated", "conventional", "wrong"),
    (None, "shingled", "silent"), (None, "conventional", "silent")])
def test_answers_of_quick(answer, what, mark):
    """The mark of each answer of `skylight quick` for each kind of drive."""
    assert show.mark(answer, what) == mark


def test_drives_for_quick():
    options = argparse.Namespace(scale=100)
    drives = show.quick(options)
    assert len(drives) >= 12 and all(spec["quick"] for spec in drives.values())
    assert {"shingled", "conventional", "translated", "interlaced"} <= {
        spec["what"] for spec in drives.values()}
    at_work = show.explain(options)
    assert {"stl-set", "stl-full", "imr", "plain", "linear", "thin"} <= set(at_work) < set(drives)
    assert all(spec["seconds"] and not spec.get("filesystem") for spec in at_work.values())


def said_of(tmp_path, monkeypatch, name, **files):
    monkeypatch.setattr(show, "OUT", tmp_path)
    for file, content in files.items():
        folder = tmp_path / "what" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{file}.json").write_text(json.dumps(content))
    return argparse.Namespace(what="what")


@pytest.mark.parametrize("answer, good", [("conventional", False), ("translated", True),
                                          ("shingled", True)])
def test_wrong_answer_of_quick_fails_the_experiment(tmp_path, monkeypatch, capsys, answer, good):
    """A wrong or missing answer of `skylight quick` fails the experiment; an answer that leaves
    the kind open does not."""
    options = said_of(tmp_path, monkeypatch, "x", answer={
        "answer": answer, "confidence": 0.99, "seconds": 31.2, "sentence": "Why."})
    assert show.show_quick({"x": {"what": "shingled"}}, {}, options) is good
    assert "99 %" in capsys.readouterr().out.replace("99.0", "99")
    assert show.show_quick({"other": {"what": "shingled"}}, {}, options) is False


INSIDE = [[t, 1_000_000 * min(max(t - 10, 0), 4)] for t in range(0, 30)]   # cleans at 10 to 14 s


@pytest.mark.parametrize("at_s, seconds, kind, right, wrong", [
    (10.2, 3.5, "full", 1, 0), (11, 1, "idle", 1, 0), (20.1, 3, "full", 0, 1),
    (13.1, 9, "full", 0, 1), (20.1, 3, "flush", 0, 0), (20.1, 3, "other", 0, 0)])
def test_stalls_are_compared_with_the_layer(at_s, seconds, kind, right, wrong):
    """A stall that `skylight explain` calls cleaning is right if the layer was cleaning at that
    time. Stalls of other kinds do not count."""
    said = {"cleaning": True, "stalls": [{"at_s": at_s, "seconds": seconds, "kind": kind}]}
    assert show.judged(said, INSIDE) == (right, wrong)
    assert show.judged({**said, "cleaning": None}, INSIDE) == (0, 0)
    # On a drive without cleaning, every stall that is called cleaning is wrong.
    assert show.judged(said, []) == (0, right + wrong)


def test_stall_wrongly_called_cleaning_fails(tmp_path, monkeypatch, capsys):
    """A stall that is wrongly called cleaning fails the experiment."""
    said = {"cleaning": True, "confidence": 0.99, "seconds": 30, "says": "so",
            "stalls": [{"at_s": 10.2, "seconds": 3.5, "kind": "full"}]}
    drives = {"x": {"what": "shingled"}}
    options = said_of(tmp_path, monkeypatch, "x", explain=said, inside=INSIDE)
    assert show.show_explain(drives, {}, options) is True
    said_of(tmp_path, monkeypatch, "x", inside=[])
    assert show.show_explain(drives, {}, options) is False
    assert "NOT SO" in capsys.readouterr().out


@pytest.mark.parametrize("names,word", (("stl", "stl"), ("plain,e9", "e9"), ("plain,", "")))
def test_unknown_drives_are_refused(monkeypatch, capsys, names, word):
    monkeypatch.setattr(sys, "argv", ["skylight", "--quick", "--table", "--only", names])
    monkeypatch.setattr(show.runner, "prepare", lambda *_: None)
    with pytest.raises(SystemExit):
        show.main()
    assert capsys.readouterr().err.startswith(f"skylight: drive '{word}' is none of plain, ")
