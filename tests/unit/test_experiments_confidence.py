# SPDX-License-Identifier: GPL-2.0
"""Tests of scripts/experiments confidence: which answers it marks right and wrong, when a test
states more confidence than it has earned, and that no test does so on a few drives."""

import argparse
import re
import sys

import pytest
from skylight import stats
from skylight.session import Finding
from skylight.ground_truth import Plateaus
from experiments import confidence as show
from programs import TOP


ZONES = Plateaus([(0, 20), (100, 15.1), (200, 15), (300, 10)], 3)


@pytest.mark.parametrize("finding,truth,mark", [
    (None, "lazy", "cannot tell"), (Finding.unknown("no"), "lazy", "cannot tell"),
    (Finding("lazy"), "lazy", "right"), (Finding("lazy"), "aggressive", "wrong"),
    (Finding(100, "bytes", 90, 110), 108, "right"), (Finding(100, "bytes", 90, 110), 111, "wrong"),
    (Finding(100, "bytes", 100, 100), "none", "wrong"),
    # The plateau of 15.05 MB/s covers two plateaus of the drive.
    (Finding([[0, 20], [102, 15.05], [300, 10]]), ZONES, "right"),
    (Finding([[0, 20], [100, 15.1], [200, 15], [300, 10]]), ZONES, "right"),
    (Finding([[0, 20], [300, 10]]), ZONES, "wrong"),
    (Finding([[0, 20], [100, 15.1], [200, 15], [250, 12], [300, 10]]), ZONES, "wrong"),
    # The same number of plateaus at other places, and at other speeds.
    (Finding([[0, 20], [104, 15.05], [300, 10]]), ZONES, "wrong"),
    (Finding([[0, 20], [100, 15.05], [300, 10.2]]), ZONES, "wrong"),
    (Finding([[0, 20], [100, 15.05], [101, 15.05]]), ZONES, "wrong"),
    (Finding([[100, 15.1], [200, 15], [300, 10]]), ZONES, "wrong")])
def test_marks_of_findings(finding, truth, mark):
    assert show.mark(finding, truth, 1) == mark


@pytest.mark.parametrize("wrong,stated,good", [(0, 0.999, True), (1, 0.97, True),
                                               (5, 0.97, False), (2, 0.999, False)])
def test_overconfident_tests_are_found(capsys, wrong, stated, good):
    """A test is too sure if more answers are wrong than its stated confidence allows. Here
    @wrong of forty answers are wrong; missing answers do not count."""
    marks = [("wrong", stated)] * wrong + [("right", stated)] * (40 - wrong) + \
        [("cannot tell", 0.0)] * 60
    assert show.show({"mapping": marks}, argparse.Namespace(json=None)) is good
    out = capsys.readouterr().out
    assert ("STATED TOO SURELY" in out) is not good
    assert f"MEASURED = {{'mapping': ({wrong}, 40)}}" in out


def test_all_measured_answers_occur_and_none_is_overconfident():
    """A dozen drives of each kind give all kinds of answers that stats.MEASURED has. More than a
    quarter of the answers of each kind are right, and the wrong ones are within the stated
    confidence.

    The answers must also be those from which stats.MEASURED was derived; otherwise
    `scripts/experiments confidence` has to be run again."""
    seen = show.drawn(*show.FEW)
    assert set(seen) == set(stats.MEASURED)
    assert show.fingerprint(seen) == stats.MEASURED_OF, "run scripts/experiments confidence again"
    other = {**seen, "serpentine": [("wrong", 0.9), *seen["serpentine"][1:]]}
    assert show.fingerprint(other) != stats.MEASURED_OF
    for name, marks in seen.items():
        count, _, too_sure = show.row(marks)
        assert count["right"] > len(marks) / 4 and not too_sure, (name, count)


SKYLIGHT = "\n".join((TOP / f"Documentation/{page}.rst").read_text(encoding="utf-8")
                     for page in ("skylight", "skylight-tests", "reports/skylight"))


def test_supported_confidence_computed_by_hand():
    """The confidence that counts support, computed by hand: without any answer the odds are
    even; after 98 answers of which two are wrong, the next one is wrong with probability 3 in
    100."""
    assert stats.borne_out(0, 0) == 0.5 and stats.borne_out(2, 98) == pytest.approx(0.97)
    assert stats.borne_out(0, 254) == pytest.approx(255 / 256)
    assert stats.borne_out(27, 101) == pytest.approx(75 / 103)


def test_table_has_the_measured_counts():
    """*Stated* in each row follows from stats.MEASURED, unless an answer is less sure for reasons
    of its own. *Borne out* and the line below follow from the counts of the row, and the second
    line is stats.MEASURED."""
    table = SKYLIGHT.partition("\nHow sure\n")[2].partition("MEASURED = ")[0]
    rows = {row[0]: row[1:] for row in re.findall(
        r"(?m)^  (\w+) +(\d+) +(\d+) +(\d+) +(\d+) +([\d.]+) % +([\d.]+) %$", table)}
    assert set(rows) == set(stats.MEASURED)
    line, measured = (
        {name: (int(wrong), int(answers)) for name, wrong, answers in
         re.findall(r"'(\w+)': \((\d+), (\d+)\)", found)}
        for found in re.findall(r"(?m)^  MEASURED = (.*)$", SKYLIGHT))
    assert measured == stats.MEASURED
    for name, row in rows.items():
        drives, right, wrong, silent = map(int, row[:4])
        assert drives == right + wrong + silent and line[name] == (wrong, right + wrong)
        assert row[5] == f"{100 * stats.borne_out(wrong, right + wrong):.1f}", name
        at_most = f"{100 * stats.measured(name):.1f}"
        assert row[4] == at_most if name != "serpentine" else float(row[4]) < float(at_most), name


def test_text_has_the_measured_counts():
    """The counts in the text of the pages are those of stats.MEASURED."""
    for name, words in (
            ("zone_profile", r"of (?P<of>\d+) answers on randomly\s+generated\s+drives\s+"
             r"(?P<right>\d+)\s+were"),
            ("filled_all", r"Of 400, (?P<of>\d+) were filled and called conventional, all of them"),
            ("filled_part", r"(?P<of>\d+) others, (?P<wrong>\d+) of them wrongly")):
        [found] = re.finditer(words, SKYLIGHT)
        said, answers = found.groupdict(), int(found["of"])
        wrong = answers - int(said["right"]) if "right" in said else int(said.get("wrong", 0))
        assert stats.MEASURED[name] == (wrong, answers)


@pytest.mark.soak
def test_measured_counts_are_reproduced():
    """stats.MEASURED comes from 400 drives of each kind. Drawing them again takes minutes."""
    assert {name: (sum(m == "wrong" for m, _ in marks), sum(m != "cannot tell" for m, _ in marks))
            for name, marks in show.drawn(400, 2).items()} == stats.MEASURED


def test_sure_and_wrong_test_is_reported(monkeypatch):
    """A test that is sure and often wrong is reported as too sure. Test 14 becomes such a test
    without its comparison of halves."""
    from skylight import t14_zones
    monkeypatch.setattr(t14_zones, "borne_out", lambda offset, rate, seen: (len(seen), True))
    monkeypatch.setattr(show, "STREAMS", ())
    assert show.row(show.drawn(16, 1)["zone_profile"])[2]


def test_each_full_size_drive_has_a_result(monkeypatch):
    """Each drive of full size has a result. To save time only the outermost GiB of two drives is
    read, where they have one zone. A stretch of 8 MiB crosses three or four tracks of the second
    drive, alternately, which Test 14 takes for plateaus: a known error."""
    from experiments.probe_drives import FullSize
    monkeypatch.setattr(FullSize, "SECTORS", {"st4000nc001": 1 << 21, "st5000as0011": 1 << 21})
    told = list(show.full_size())
    assert [profile for profile, _, _ in told] == ["st4000nc001", "st5000as0011"]
    assert all("plateaus of throughput" in says for _, _, says in told)
    assert [sign for _, sign, _ in told] == ["right", "wrong"]


@pytest.mark.parametrize("signs, status", [(("right", "cannot tell"), 0), (("wrong", "right"), 1)])
def test_wrong_answer_on_a_full_size_drive_fails(monkeypatch, capsys, signs, status):
    """A wrong answer about a drive of full size makes the exit status 1. A missing answer does
    not."""
    monkeypatch.setattr(show, "full_size", lambda: [(f"d{i}", s, "x") for i, s in enumerate(signs)])
    monkeypatch.setattr(sys, "argv", ["confidence", "--full-size"])
    assert show.main() == status
    assert f"d0: {signs[0]}: x" in capsys.readouterr().out
