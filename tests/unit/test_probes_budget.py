# SPDX-License-Identifier: GPL-2.0
"""Tests of Skylight on drives that give no valid numbers, that take too long, or that --reset
empties. Each test must end with "cannot tell" and a reason. The tests need no drive and take no
time."""

import ast
import contextlib
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from experiments.probe_drives import Drive
from skylight import clock as clock_of
from skylight import cli, cliff, device, explain, guard, quick, report, t01_translation, t11_band_size, t14_zones, tclean_band_time, verdict
from skylight.load import Trace, as_ops
from skylight.band_members import Moved
from skylight.session import DONE, SKIPPED, Finding, Result, Session
from programs import TOP

PROBES = TOP / "scripts/src/skylight"
STATISTICS = {"mean", "median", "quantile", "percentile", "average", "std", "var", "nanmean",
              "nanmedian", "ptp"}
# Modules that measure nothing: their denominators are text or constants.
TEXT = {"__init__", "cli", "compare", "device", "load", "guard", "plots", "report", "drive_properties",
        "scratch", "session", "ground_truth", "report_text"}


class Clock:
    """A monotonic clock that advances on request, and by @step with each reading."""

    def __init__(self, step=0.0):
        self.now, self.step = 1000.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def instant(lat_us=0.0):
    """A drive that takes @lat_us for each request."""
    drive = Drive(4096)

    def replay(_, ops, *__):
        write, offset, size = as_ops(ops)
        lat = np.full(len(offset), lat_us)
        return Trace(np.cumsum(lat) - lat, lat, offset, size, write)
    drive.replay = replay
    return drive


def session(drive, out, **more):
    return Session(drive, out, load=drive, say=lambda *_: None, **more)


# --- numbers that are not finite -----------------------------------------------------


@pytest.mark.parametrize("over,under", [(1, 0), (0, 0), (1, np.nan), (np.nan, 1), (np.inf, 1),
                                        (1, np.inf), ([1, 2], [1, 0])])
def test_quotient_without_a_finite_result_is_a_reason(over, under):
    """A division without a finite result raises an exception, and its text becomes the reason
    for "cannot tell". NaN would make each comparison False and give wrong answers."""
    with pytest.raises(guard.NoNumber, match="^cost of two bands: .* is no number$"):
        guard.ratio(np.asarray(over), np.asarray(under), "cost of two bands")
    assert guard.ratio(6, 3, "cost") == 2


@pytest.mark.parametrize("name", ["mean", "median", "deviation", "variance", "span"])
@pytest.mark.parametrize("values", [[], [np.nan, 1.0], [np.inf, -np.inf]])
def test_statistic_of_no_values_is_a_reason(name, values):
    with pytest.raises(guard.NoNumber, match="^reads: "):
        getattr(guard, name)(values, "reads")
    with pytest.raises(guard.NoNumber, match="^reads: "):
        guard.quantile(values, 0.9, "reads")
    assert guard.mean([1, 2, 3], "reads") == 2 and guard.quantile([1, 2, 3], 0.5, "reads") == 2


def divisions(tree):
    """Yield (line, denominator) of each division that may be one by zero, because the denominator
    is neither a number, nor a constant of the module, nor max(a number, ...)."""
    def sound(of):
        if isinstance(of, ast.Constant):
            return of.value != 0
        if isinstance(of, ast.Name):
            return of.id.isupper()
        if isinstance(of, ast.BinOp):
            return sound(of.left) and sound(of.right)
        return isinstance(of, ast.Call) and ast.unparse(of.func) in ("max", "np.maximum") and \
            any(isinstance(a, ast.Constant) and a.value > 0 for a in of.args) or \
            isinstance(of, ast.JoinedStr)
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not sound(node.right):
            yield node.lineno, ast.unparse(node.right)


def statistics(tree):
    """Yield (line, name) of each call that returns NaN for an empty array."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and \
                node.func.attr in STATISTICS and ast.unparse(node.func.value) != "guard":
            yield node.lineno, ast.unparse(node.func)


@pytest.mark.parametrize("path", sorted(PROBES.glob("*.py")), ids=lambda p: p.stem)
def test_every_quotient_and_mean_is_guarded(path):
    """No module computes a mean or a quotient that may be NaN, except through guard."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if path.stem != "guard":
        assert not list(statistics(tree)), path.name
    if path.stem not in TEXT:
        assert not list(divisions(tree)), path.name


def test_unguarded_divisions_are_found():
    tree = ast.parse("a = np.mean(x) / b\nc = d / max(e, 1)\nf = g / MIB\nh = i / max(j, k)\n"
                     "guard.mean(x)\nlat.mean()")
    assert list(divisions(tree)) == [(1, "b"), (4, "max(j, k)")]
    assert [name for _, name in sorted(statistics(tree))] == ["np.mean", "lat.mean"]


class Costs:
    """Stands for band_members.BandMembers: cleanings have the given costs and are counted."""

    def __init__(self, *costs):
        self.costs, self.count = list(costs), 0

    def force(self, _, others, **__):
        """See BandMembers.force()."""
        self.count += 1
        cost = self.costs[self.count % len(self.costs)]
        return Moved([True] * len(others), rewrites_us=np.array([100.0, 100.0, 100.0 + cost]))


@pytest.mark.parametrize("costs", [(0.0,), (0.0, 500.0), (500.0, 0.0)])
def test_band_without_cost_ends_the_search(tmp_path, costs):
    """With dm-raid 1 over dm-integrity a mean cost of 0 made the ratio NaN, and each comparison
    took MOST_COSTS cleanings."""
    prober = t11_band_size.Prober(session(instant(), tmp_path),
                        SimpleNamespace(), np.random.default_rng(1))
    prober.members, prober.how = Costs(*costs), "force"
    assert prober.one_band(7, [9]) is None
    assert prober.members.count <= 2 * t11_band_size.COSTS and "no number" in prober.unclear


def test_answer_of_test_11_has_the_reason():
    prober = SimpleNamespace(how="force", widest=None, unclear="cost: 0 / 0 is no number",
                             one_band=lambda *_: None)
    edges = SimpleNamespace(low=3, high=9, at=5, doubtful="")
    assert t11_band_size.ends_of(prober, edges, [])[2].endswith("(cost: 0 / 0 is no number)")


class OneWrite(Costs):
    """A cleaning for which no write was measured."""

    def force(self, _, others, **__):
        return Moved([True] * len(others))


def test_cleaning_without_writes_is_a_reason(tmp_path):
    prober = t11_band_size.Prober(session(instant(), tmp_path), SimpleNamespace(), np.random.default_rng(1))
    prober.members, prober.how = OneWrite(), "force"
    assert prober.one_band(7, [9]) is None and prober.unclear
    with pytest.raises(guard.NoNumber):
        tclean_band_time._longest(prober, 7, [])


@pytest.mark.parametrize("test,names", [(t14_zones, {"zone_profile", "serpentine", "track_bytes"})])
def test_drive_without_latency_cannot_be_told(tmp_path, test, names):
    """Under a virtual clock a request may take no time."""
    s = session(instant(), tmp_path)
    result = s.run(test)
    assert result.status == "cannot tell" and "is no number" in result.why
    assert names <= set(result.findings)
    assert all(f.value is None and f.says == result.why for f in result.findings.values())


def test_chunk_without_writes_is_a_reason():
    none = Trace(*(np.zeros(0),) * 5)
    with pytest.raises(guard.NoNumber):
        cliff.gaps(none)
    one = Trace(*(np.ones(1),) * 5)
    with np.errstate(all="raise"):
        assert cliff.gaps(one).tolist() == [1.0]


# --- a budget of time ----------------------------------------------------------------


class Slow:
    """A test with number @ID that reads for ever, or ends if @ends is set."""
    TITLE, AFTER = "slow", ()

    def __init__(self, ident="11", expected=10.0, ends=False):
        self.ID, self.expected, self.ends = ident, expected, ends

    def estimate(self, _):
        """Return seconds."""
        return self.expected

    def run(self, s):
        """Read until the budget is used up."""
        while not self.ends:
            s.trace("read", (False, 0, 4096))
        return Result(DONE, findings={"band_bytes": Finding(4096, "bytes", confidence=0.9)})


class Pausing(Slow):
    """Slow, with pauses."""

    def run(self, s):
        while True:
            s.pause(3600, "to see")


class Working(Slow):
    """Slow, without requests."""

    def run(self, s):
        while True:
            s.progress(None, None)


@pytest.mark.parametrize("kind", [Slow, Pausing, Working])
def test_a_test_ends_when_its_budget_is_used_up(tmp_path, kind):
    s = session(instant(), tmp_path, budget=50, clock=Clock(step=1.0))
    result = s.run(kind())
    assert (result.status, result.why) == ("cannot tell", "time budget of 50 s is used up")
    assert result.budget_s == 50 and result.out_of_time and result.seconds <= 60
    assert result.findings["band_bytes"].says == result.why
    stored = json.loads((tmp_path / "t11.json").read_text(encoding="utf-8"))
    assert stored["why"] == result.why and stored["budget_s"] == 50
    assert verdict.answers(s.results)["band_bytes"].says == result.why
    # The next test has its own budget.
    assert s.run(Slow("12", ends=True)).status == DONE


@pytest.mark.parametrize("expected,budget", [(1, 3600), (10, 3600), (900, 4500)])
def test_budget_is_a_multiple_of_the_expected_time(tmp_path, expected, budget):
    s = session(instant(), tmp_path, clock=Clock(step=1.0))
    assert s.budget_of(Slow(expected=expected)) == budget
    result = s.run(Slow(expected=expected))
    assert result.why == f"time budget of {budget} s is used up" and result.seconds >= budget / 2


def test_fio_is_ended_when_the_budget_is_used_up(tmp_path):
    """A single list of requests may take days, so the code that watches fio checks the clock."""
    drive = instant()
    looks = []

    def replay(_, __, ___, watch):
        for passed in range(1000):
            looks.append(passed)
            watch(passed)
    drive.replay = replay
    result = session(drive, tmp_path, budget=20, clock=Clock(step=1.0)).run(Slow())
    assert result.out_of_time and len(looks) < 30


def test_earlier_findings_survive_a_timeout(tmp_path):
    """A test that runs out of time does not hide the finding of an earlier test."""
    s = session(instant(), tmp_path, budget=50, clock=Clock(step=1.0))
    s.run(Slow("1", ends=True))
    s.run(Slow("11"))
    assert s.value("band_bytes") == 4096


def page_of(folder):
    page, plain = report.write(folder)
    return page.read_text(encoding="utf-8"), json.loads(plain.read_text(encoding="utf-8"))


def test_report_and_json_state_the_budget(tmp_path):
    s = session(instant(), tmp_path, budget=50, clock=Clock(step=1.0))
    result = s.run(Slow())
    page, plain = page_of(tmp_path)
    assert "Cannot tell: Time budget of 50 s is used up." in page and "1 test cannot tell" in \
        page.replace("\u00a0", " ")
    assert plain["tests"]["11"]["status"] == "cannot tell"
    assert plain["tests"]["11"]["budget_s"] == 50
    assert "time budget of 50 s is used up" in plain["answers"]["band_bytes"]["says"]
    assert next(cli.told(result)) == "cannot tell: time budget of 50 s is used up"


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "long"])
@pytest.mark.parametrize("command", ["run", "quick"])
def test_zero_budget_is_refused(capsys, command, text):
    with pytest.raises(SystemExit) as end:
        cli.main([command, "/dev/null", "--budget", text])
    assert end.value.code == 2 and "budget" in capsys.readouterr().err


@pytest.fixture(name="command")
def a_run(tmp_path, monkeypatch):
    """Run `skylight run` with Tests 11 and 12 on a drive without time. Return the status and the
    tests that have run."""
    ran = []

    def run(*words, slow=True):
        drive = instant()
        drive.reset = lambda: False
        drive.label, drive.by_hand, drive.restore_from = "x", lambda: "", lambda _: []
        drive.identity = lambda: {"bytes": drive.bytes, "label": "x", "serial": ""}
        drive.close = lambda: None
        known = {"11": Slow("11", ends=not slow), "12": Slow("12", ends=True)}
        for test in known.values():
            inner = test.run
            test.run = lambda s, t=test, inner=inner: (ran.append(t.ID), inner(s))[1]
        monkeypatch.setattr(cli.skylight, "tests", lambda: known)
        monkeypatch.setattr(cli, "Device", lambda *_: drive)
        monkeypatch.setattr(cli.load, "Fio", lambda *_: SimpleNamespace(require=lambda: None))
        whole = cli.session.Session

        def made(*args, **more):
            return whole(*args, load=drive, clock=Clock(step=1.0), **more)
        monkeypatch.setattr(cli.session, "Session", made)
        ran.clear()
        status = cli.main(["run", "model", "--out", str(tmp_path), *words])
        monkeypatch.setattr(cli.session, "Session", whole)
        return status, list(ran)
    return run


def test_run_continues_after_a_test_out_of_time(command, tmp_path):
    assert command("--budget", "30") == (0, ["11", "12"])
    assert Result.load(tmp_path, "t11").why == "time budget of 30 s is used up"
    had = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert had["budget"] == 30
    # The same budget would end the test again, so it is not repeated; with a larger budget it is.
    assert command("--resume") == (0, [])
    assert command("--resume", "--budget", "60", slow=False) == (0, ["11"])


def test_quick_reports_a_used_up_budget(tmp_path):
    """If a single test of quick uses up its budget, the answer says that."""
    drive = instant(100.0)
    drive.start, drive.written, drive.whole = 0, False, False
    whole = clock_of.Clock(300, Clock(step=1.0))
    s = quick.session(drive, tmp_path, drive, whole, budget=20)
    result = quick.run(s, t01_translation, "drive_type")
    assert result.why == "time budget of 20 s is used up" and result.status == "cannot tell"
    found = quick.answer(None, s.results)
    assert found.value is None and "time budget of 20 s is used up" in found.sentence()


class Ticking:
    """Counters of an unused drive; each reading takes a second."""

    def __init__(self):
        self.clock = Clock(step=1.0)

    def look(self):
        """Return a Sample."""
        return explain.Sample(self.clock(), *(0,) * 8)


def test_explain_reports_a_used_up_budget():
    watch = explain.watch_it(Ticking(), SimpleNamespace(queued=lambda: []), 20, print,
                             sleep=lambda _: None)
    assert "time budget of 20 s is used up" in " ".join(explain.summary(watch))
    said = explain.as_json(watch, "/dev/x", {})
    assert said["budget_s"] == 20 and "time budget of 20 s is used up" in said["says"]
    watch = explain.watch_it(Gone(), SimpleNamespace(queued=lambda: []), 20, lambda _: None,
                             sleep=lambda _: None)
    assert "budget" not in explain.as_json(watch, "/dev/x", {})["says"]


class Gone(Ticking):
    """A drive that disappears after two readings."""
    looks = 0

    def look(self):
        self.looks += 1
        if self.looks > 2:
            raise device.Refused("it is gone")
        return super().look()


# --- a drive that --reset empties ---------------------------------------------------


def emptied(drive, why, seeks=True):
    """Put a drive into the state after --reset."""
    drive.discarded, drive.unmapped = False, lambda: why
    drive.holds_zeros = lambda _: not seeks

    def reset():
        drive.discarded = True
        return True
    drive.reset = reset
    return drive


@pytest.mark.parametrize("why", ["it is a loop device, and a discard punches a hole into its "
                                 "file", "it is a thin volume"])
def test_test_11_is_not_run_where_a_reset_unmaps(tmp_path, why):
    """After such a reset, reads do not reach the medium and show no bands. Test 11 is skipped with
    that reason, in the report, the JSON and the answer."""
    s = session(emptied(instant(9000.0), why), tmp_path, allow_reset=True)
    result = s.run(t11_band_size)
    assert result.status == SKIPPED and result.operations == 0
    assert result.why.startswith(f"Test 11 was not run: --reset discards, and {why}")
    assert s.results["11"].findings["band_bytes"].says == result.why
    page, plain = page_of(tmp_path)
    assert "Test 11 was not run" in page and why in page
    assert plain["tests"]["11"]["why"] == result.why
    assert "Test 11 was not run" in plain["answers"]["band_bytes"]["says"]
    assert next(cli.told(result)).startswith("skipped: Test 11 was not run")


@pytest.mark.parametrize("lat_us,zeros,runs", [(90.0, True, False), (90.0, False, True),
                                               (9000.0, True, True)])
def test_test_11_is_not_run_where_zeros_are_read_without_cost(tmp_path, lat_us, zeros, runs):
    """Any drive on which reads after a reset return zeroes too quickly for a head is treated in the
    same way."""
    s = session(emptied(instant(lat_us), "", not zeros), tmp_path, allow_reset=True)
    result = s.run(t11_band_size)
    assert ("Test 11 was not run" in result.why) == (not runs)


def test_without_reset_test_11_is_run(tmp_path):
    s = session(emptied(instant(9000.0), "it is a loop device"), tmp_path)
    assert "was not run" not in s.run(t11_band_size).why


@pytest.mark.parametrize("table,loop,words", [
    ("0 2048 thin 253:1 3\n", False, "thin volume"), ("0 2048 linear 8:0 0\n", False, ""),
    (None, True, "loop device"), (None, False, "")])
def test_devices_that_discards_unmap(tmp_path, monkeypatch, table, loop, words):
    """A discard unmaps if the device itself or a device below it does."""
    dev = device.Device.__new__(device.Device)
    dev.sys, dev._fd = tmp_path / "top", -1
    (dev.sys / "slaves").mkdir(parents=True)
    below = tmp_path / "below"
    below.mkdir()
    (dev.sys / "slaves/below").symlink_to(below)
    if loop:
        (below / "loop").mkdir()
    if table:
        (below / "dm").mkdir()
        (below / "dm/name").write_text("vol\n", encoding="ascii")
    monkeypatch.setattr(device, "tool", lambda *_: (0, table or ""))
    why = dev.unmapped()
    assert words in why if words else why == ""


def test_zeros_are_detected(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(bytes(8192) + b"x" + bytes(8191))
    dev = device.Device.__new__(device.Device)
    dev.path = str(path)
    fd = os.open(path, os.O_RDONLY)
    dev._fd, dev.held = fd, lambda: fd
    try:
        assert dev.holds_zeros([0, 4096]) and not dev.holds_zeros([0, 8192])
    finally:
        os.close(fd)


# --- documents -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Documentation/skylight.rst", "scripts/src/skylight/skylight.8"])
def test_documents_describe_budget_and_skipped_test_11(name):
    text = " ".join((TOP / name).read_text(encoding="utf-8").replace("\\-", "-").split())
    assert "--budget" in text and "time budget of" in text
    assert "Test 11 is not run" in text
    assert f"{Session.LEAST_BUDGET_S} s" in text and f"{Session.BUDGET_TIMES} times" in text


def test_help_names_the_budget(capsys):
    for command in ("run", "quick", "explain"):
        with contextlib.suppress(SystemExit):
            cli.main([command, "--help"])
        assert "--budget" in capsys.readouterr().out, command
