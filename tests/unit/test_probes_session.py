# SPDX-License-Identifier: GPL-2.0
"""Tests of Skylight's load, sessions, verdicts and command line, without a drive."""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import skylight
from skylight import cli, device, load, verdict
from skylight.session import DONE, FAILED, Finding, Result, Session, scale_for, stem
from skylight import module as module_of
from programs import TOP

MIB = 1 << 20
needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")


@pytest.fixture(name="fio")
def a_file(tmp_path):
    """fio on a file of 4 MiB, which is all that the load needs of a device."""
    with open(tmp_path / "disk", "wb") as handle:
        handle.write(bytes(4 * MIB))
    return load.Fio(str(tmp_path / "disk"), tmp_path / "jobs")


# --- load -------------------------------------------------------------------------


def test_measuring_imports_only_numpy():
    """scripts/loads and the shows use skylight.cli and skylight.device and install only numpy, so
    these modules must not import jinja2, matplotlib or scipy."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import skylight.cli, skylight.device, sys; print(*sys.modules)"],
        cwd=TOP / "scripts/src", check=True, text=True, capture_output=True).stdout.split()
    assert "numpy" in loaded and not {"jinja2", "matplotlib", "scipy"} & set(loaded)


@needs_fio
@pytest.mark.parametrize("depth", [1, 8])
def test_replay_keeps_the_order_of_requests(fio, depth):
    """fio logs requests when they end; the trace has them in the order in which they were given,
    also with several in flight."""
    rng = np.random.default_rng(1)
    ops = (rng.random(200) < 0.5, rng.integers(0, 60, 200) * 65536,
           rng.choice([4096, 65536], 200))
    trace = fio.replay("some", ops, depth)
    assert np.array_equal(trace.write, ops[0])
    assert np.array_equal(trace.offset, ops[1])
    assert (trace.lat_us > 0).all() and (np.diff(trace.at_us) >= 0).all() or depth > 1
    if depth == 1:
        assert np.array_equal(trace.bytes, ops[2])
    assert not list(fio.folder.glob("*.log"))


@needs_fio
def test_stored_job_can_be_run_by_hand(fio):
    """The job and its iolog are kept, and plain fio can run them."""
    fio.replay("some", (True, np.arange(8) * 4096, 4096))
    done = subprocess.run(["fio", "some.fio"], cwd=fio.folder, check=True, text=True,
                          capture_output=True)
    assert "err= 0" in done.stdout
    text = (fio.folder / "some.iolog").read_text(encoding="ascii")
    assert text.count(" write ") == 8


@needs_fio
def test_job_with_fio_options(fio):
    trace = fio.job("rand", {"rw": "randwrite", "bs": "4k", "size": "1m", "number_ios": 50})
    assert len(trace) == 50 and trace.write.all() and (trace.bytes == 4096).all()
    assert fio.job("quiet", {"rw": "read", "bs": "4k", "number_ios": 5, "log": False}) is None


@needs_fio
def test_pauses_between_reads(fio):
    gaps, trace = fio.spaced("spaced", 8192, 0.25, 4, (False, [0, 4096, 12288], 4096))
    # A busy host lengthens gaps and shortens none.
    assert len(gaps) >= 4 and (gaps[-4:] > 0.2).all()
    assert trace.offset.tolist() == [0, 4096, 12288] and np.diff(trace.at_us).min() < 200000


@needs_fio
def test_errors_of_fio_give_one_line(fio):
    with pytest.raises(load.LoadError, match="far.fio failed"):
        fio.replay("far", (False, [1 << 40], 4096))


def test_missing_fio_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(load.LoadError, match="apt install fio"):
        load.Fio("/dev/null", tmp_path).require()


def at_work_in(folder):
    """Return the names of the other processes that run in this directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.name != str(os.getpid()) and os.path.samefile(process / "cwd", folder):
                found.append((process / "comm").read_text(encoding="ascii").strip())
    return found


# Stands for an fio that has forked and does not handle signals yet.
EARLY = "#!/bin/sh\nsleep 3600 &\nexec sleep 3600\n"


@needs_fio
@pytest.mark.parametrize("early", [False, True])
def test_interrupt_ends_the_load(fio, request, tmp_path, early):
    """After Ctrl-C no process of the load is left that could still write to the drive."""
    busy = []
    if early:
        fio.program = str(tmp_path / "early")
        Path(fio.program).write_text(EARLY, encoding="ascii")
        Path(fio.program).chmod(0o755)

    def interrupt():
        end = time.monotonic() + 120
        while len(busy) < 1 + early and time.monotonic() < end:
            time.sleep(0.1)
            busy[:] = at_work_in(fio.folder)
        os.kill(os.getpid(), signal.SIGINT)

    # A background process of a shell without job control ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    threading.Thread(target=interrupt).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fio.job("long", {"rw": "randread", "bs": "4k", "runtime": 3600, "time_based": None,
                         "rate_iops": 10})
    assert time.monotonic() - begin < 600
    assert set(busy) == {"sleep" if early else "fio"}
    end = time.monotonic() + 60
    while at_work_in(fio.folder) and time.monotonic() < end:
        time.sleep(0.1)     # a killed process needs some time to disappear
    assert not at_work_in(fio.folder)


@needs_fio
def test_interrupt_during_start_ends_the_load(fio, request, monkeypatch):
    """The signal comes before Popen() has returned, so there is no object yet by which to end the
    process."""
    begin = subprocess.Popen._execute_child

    def slowly(self, *words):
        begin(self, *words)
        os.kill(os.getpid(), signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    monkeypatch.setattr(subprocess.Popen, "_execute_child", slowly)
    with pytest.raises(KeyboardInterrupt):
        fio.job("long", {"rw": "randread", "bs": "4k", "runtime": 3600, "time_based": None,
                         "rate_iops": 10})
    end = time.monotonic() + 60
    while at_work_in(fio.folder) and time.monotonic() < end:
        time.sleep(0.1)
    assert not at_work_in(fio.folder)


def test_times_of_issue_follow_from_latencies():
    """fio logs when requests end, in whole milliseconds. Here they end at 10.4, 20.8, 31.2 and,
    after a pause, 52.0 ms; the computed times of issue are right to a millisecond."""
    lat = np.array([10400.0] * 3 + [10400.0])
    at = load.issued(np.array([10, 20, 31, 52]), lat, True)
    assert np.allclose(at[:3], [0, 10400, 20800], atol=1000)
    assert abs(at[3] - 41600) <= 1000


def test_truncated_log_is_reported(tmp_path):
    """A full disk truncates the log, and fio reports no error."""
    log = tmp_path / "x_clat.1.log"
    log.write_text("12, 3000, 1, 4096, 0, 0\n13, 30", encoding="ascii")
    with pytest.raises(load.LoadError, match="x_clat.1.log is cut short"):
        load.read_log(log)
    log.write_text("12, 3000, 1, 4096, 0, 0\n13, 3000, 0, 4096, 8192, 0\n", encoding="ascii")
    assert load.read_log(log)[0].tolist() == [12, 13]


def test_unlogged_request_ended_last():
    """fio logs no line for the second of three writes, which ran for 900 ms."""
    ops = load.as_ops((True, [0, 4096, 4096], 4096))
    lines = (np.array([10, 30, 31]), np.array([10000.0, 5000, 1000]),
             np.array([True, True, False]), np.array([0, 4096, 0]).astype(np.uint64))
    trace = load.in_order(ops, lines, 900)
    assert trace.lat_us.tolist() == [10000, 5000, 875000]
    assert trace.at_us.tolist() == [0, 25000, 25000]
    with pytest.raises(load.LoadError):
        load.in_order(load.as_ops((True, 8192, 4096)), lines, 900)


def test_scalars_and_chains_of_requests():
    write, offset, size = load.chain((True, [0, 8192], 4096), (False, 4096, 8192))
    assert write.tolist() == [True, True, False]
    assert offset.tolist() == [0, 8192, 4096] and size.tolist() == [4096, 4096, 8192]


# --- sessions -----------------------------------------------------------------------


class Still:
    """A drive on which each request takes a millisecond; the time is only counted."""

    def __init__(self):
        self.slept = 0

    def sleep(self, seconds):
        self.slept += seconds

    def replay(self, _name, ops, _iodepth, _watch):
        write, offset, size = load.as_ops(ops)
        lat = np.full(len(write), 1000.0)
        return load.Trace(np.cumsum(lat), lat, offset, size, write)


class NoDrive:
    """A size and nothing else."""
    path, bytes, block, label = "/dev/none", 400 * MIB, 4096, "none"

    def __init__(self, size=400 * MIB):
        self.bytes = size

    @staticmethod
    def reset():
        return True


def session(tmp_path, **more):
    return Session(NoDrive(), tmp_path / "out", load=Still(), say=lambda text: None, **more)


def module(run, name="3"):
    return SimpleNamespace(ID=name, TITLE="something", AFTER=(), run=run,
                           estimate=lambda s: 1.0)


def test_results_are_stored_and_loaded(tmp_path):
    s = session(tmp_path)

    def run(s):
        trace = s.trace("write", (True, np.arange(5) * 4096, 4096))
        return Result(findings={"rotation_ms": Finding(np.float64(10.2), "ms", 10, 11, 0.999,
                                                       "so")},
                      numbers={"n": np.int64(3)}, arrays=trace.arrays("w_"))
    s.run(module(run))
    again = session(tmp_path).stored("3")
    assert again.status == DONE and again.operations == 5 and again.title == "something"
    assert again.findings["rotation_ms"] == Finding(10.2, "ms", 10, 11, 0.999, "so")
    assert again.arrays["w_offset"].tolist() == [0, 4096, 8192, 12288, 16384]
    assert again.numbers == {"n": 3} and again.jobs == ["jobs/t03-write.fio"]


def test_failure_of_fio_fails_the_test(tmp_path):
    def run(_):
        raise load.LoadError("no such disk")
    result = session(tmp_path).run(module(run))
    assert result.status == FAILED and result.why == "no such disk"


@pytest.mark.parametrize("number", [float("nan"), np.float64("inf")])
def test_non_finite_number_fails_the_test(tmp_path, number):
    """A result with a number that is not finite fails its own test, and does not end the run: NaN
    and infinity cannot be stored."""
    s = session(tmp_path)
    for run in (lambda _: Result(numbers={"stall_ms": number}),
                lambda _: Result(findings={"raw_bytes": Finding(1, low=number)})):
        result = s.run(module(run))
        assert result.status == FAILED and "Test 3" in result.why
        assert session(tmp_path).stored("3").why == result.why


def test_exception_in_a_test_fails_it(tmp_path):
    result = session(tmp_path).run(module(lambda _: Result(numbers={"n": int(float("nan"))})))
    assert result.status == FAILED and "Test 3" in result.why and "NaN" in result.why


def test_interrupted_test_stores_no_result(tmp_path):
    """An interrupted test stores no result, not even an incomplete one."""
    s = session(tmp_path)

    def run(_):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        s.run(module(run))
    assert session(tmp_path).stored("3") is None


@pytest.mark.parametrize("name, text, why", [
    ("t03.json", b'{"status": "do', "Expecting|Unterminated"),
    ("t03.json", b'{"status": "done", "findings": {"x": {"value": 1, "odds": 2}}}', "odds"),
    ("t03.json", b'{"status": "done", "colour": "red", "findings": {}}', "colour"),
    ("t03.json", b"[]", ""), ("t03.npz", b"PK\3\4", ""), ("t03.npz", b"", "")])
def test_unreadable_result_is_reported(tmp_path, name, text, why):
    """For a truncated result, or one of another version, the error names the file to remove.
    Nothing is measured again without a request."""
    s = session(tmp_path)
    s.run(module(lambda s: Result(arrays={"a": np.arange(3)})))
    (s.out / name).write_bytes(text)
    with pytest.raises(device.Refused, match=f"{s.out / 't03'}.*({why})"):
        session(tmp_path).stored("3")


def test_result_gets_no_arrays_of_an_earlier_one(tmp_path):
    """A result without arrays does not get those of an earlier one."""
    s = session(tmp_path)
    s.run(module(lambda s: Result(arrays={"a": np.arange(3)})))
    s.run(module(lambda s: Result(FAILED, "no such disk")))
    assert session(tmp_path).stored("3").arrays == {}


def without_room(monkeypatch, fits=0):
    """From now on only @fits bytes can be written to files."""
    def write(path, text, **_):
        path.write_bytes(text.encode()[:fits])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(Path, "write_text", write)


def test_full_disk_keeps_earlier_results(tmp_path, monkeypatch):
    """A full disk destroys neither an earlier result of this test nor its arrays."""
    s = session(tmp_path)
    s.run(module(lambda s: Result(numbers={"n": 1}, arrays={"a": np.arange(3)})))

    def cut(file, **_):
        file = open(file, "wb") if isinstance(file, (str, Path)) else file
        file.write(b"PK")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as full:
        full.setattr(np, "savez_compressed", cut)
        with pytest.raises(OSError, match="No space left.*t03.json"):
            s.run(module(lambda s: Result(arrays={"a": np.arange(4)})))
    with monkeypatch.context() as full:
        without_room(full)
        with pytest.raises(OSError, match="No space left.*t03.json"):
            s.run(module(lambda s: Result(numbers={"n": 2})))
    had = session(tmp_path).stored("3")
    assert had.numbers == {"n": 1} and had.arrays["a"].tolist() == [0, 1, 2]
    assert sorted(p.name for p in s.out.iterdir()) == ["t03.json", "t03.npz"]


def test_the_most_confident_finding_counts(tmp_path):
    s = session(tmp_path)
    s.results = {"1": Result(findings={"x": Finding("a", confidence=0.9)}),
                 "2": Result(findings={"x": Finding("b", confidence=0.99)}),
                 "3": Result(findings={"x": Finding.unknown("noise")})}
    assert s.finding("x").value == "b" and s.finding("y") is None
    assert s.value("y", 7) == 7


def test_reset_needs_permission(tmp_path):
    """A session resets the drive only with permission (--reset), because that erases it."""
    assert not session(tmp_path).fresh()
    assert session(tmp_path / "b", allow_reset=True).fresh()


def test_random_numbers_are_reproducible(tmp_path):
    a, b = (session(tmp_path / n).rng("6").integers(1 << 30) for n in "ab")
    assert a == b != session(tmp_path / "c").rng("7").integers(1 << 30)


@pytest.mark.parametrize("size", [36 * MIB, 400 * MIB, 39 * 10**9, 39 * 10**11, 8 * 10**12])
@pytest.mark.parametrize("name", ["auto", "paper"])
def test_scale_fits_the_drive(name, size):
    scale = scale_for(name, size)
    if name == "auto":
        assert MIB <= scale.region_bytes <= size // 32
        assert 100 * scale.band_guess_bytes < size
        assert scale.grain_bytes % 4096 == 0 and scale.grain_bytes < scale.band_guess_bytes
    else:
        assert scale.region_bytes == 1 << 30 and scale.many == 4096


@pytest.mark.parametrize("test,name", [("6", "t06"), ("1abc", "t01abc"), ("clean", "tclean"),
                                       ("15", "t15")])
def test_file_names_of_results(test, name):
    assert stem(test) == name


# --- the choice of tests -----------------------------------------------------------

KNOWN = ["1", "1abc", "2", "3", "6", "7", "8", "11", "clean", "12"]


@pytest.mark.parametrize("text,chosen", [
    ("1", ["1"]), ("12,1", ["1", "12"]), ("6-8,clean", ["6", "7", "8", "clean"]),
    ("1a-1c", ["1abc"]), ("1a", ["1abc"])])
def test_lists_of_tests_are_parsed(text, chosen):
    assert skylight.choose(text, KNOWN) == chosen


@pytest.mark.parametrize("text", ["99", "", "1,,2", "8-6", "1-4", "x"])
def test_invalid_lists_of_tests_are_refused(text):
    with pytest.raises(ValueError, match="there are 1, 1abc"):
        skylight.choose(text, KNOWN)


def test_every_test_has_the_common_interface():
    tests = skylight.tests()
    for name, test in tests.items():
        assert test.ID == name and test.TITLE and module_of(name) is test
        assert callable(test.run) and callable(test.draw) and callable(test.estimate)
        assert isinstance(test.AFTER, tuple)


# --- verdict -------------------------------------------------------------------------


def verdict_of(*findings):
    results = {str(i): Result(findings={"x": f}) for i, f in enumerate(findings)}
    return verdict.answers(results)["x"]


def test_agreeing_tests_raise_confidence():
    found = verdict_of(Finding("disk", confidence=0.9, says="a"),
                       Finding("disk", confidence=0.99, says="b"))
    assert (found.value, found.confidence, found.says) == ("disk", 0.99, "b")


def test_contradicting_tests_give_no_answer():
    """If two sure tests disagree there is no answer, and the report quotes both."""
    found = verdict_of(Finding("disk", confidence=0.99), Finding("flash", confidence=0.99))
    assert found.value is None and "Test 0 says disk" in found.says \
        and "Test 1 says flash" in found.says


def test_weak_contradiction_lowers_confidence():
    found = verdict_of(Finding("disk", confidence=0.999), Finding("flash", confidence=0.6))
    assert found.value == "disk" and 0.95 < found.confidence < 0.999


def test_overlapping_intervals_agree():
    found = verdict_of(Finding(100, "bytes", 90, 110, 0.99), Finding(108, "bytes", 105, 112, 0.9))
    assert found.value == 100
    assert verdict_of(Finding(100, "bytes", 99, 101, 0.99),
                      Finding(108, "bytes", 105, 112, 0.99)).value is None


def test_refuted_value_is_no_answer():
    """A value that one test has refuted is no answer, however sure another test is of it. Other
    values count as usual."""
    doubt = Finding.unknown("some moved", against="conventional")
    found = verdict_of(doubt, Finding("conventional", confidence=0.999, says="all stayed"))
    assert found.value is None and "some moved" in found.says and "all stayed" in found.says
    found = verdict_of(Finding("conventional", confidence=0.999), doubt,
                       Finding("translated", confidence=0.99))
    assert (found.value, found.confidence) == ("translated", 0.99)
    assert verdict_of(doubt, Finding("translated", confidence=0.3)).value is None


def test_low_confidence_is_no_answer():
    assert verdict_of(Finding("disk", confidence=0.3)).value is None


def test_a_conventional_drive_has_no_bands():
    found = verdict.answers({
        "1": Result(findings={"drive_type": Finding("conventional", confidence=0.999)}),
        "11": Result(findings={"band_bytes": Finding(MIB, "bytes", confidence=0.99)})})
    assert found["band_bytes"].value is None and "conventional" in found["band_bytes"].says
    assert found["band_bytes"].none


def test_none_differs_from_unknown():
    """"There is none" is a finding; noise is not. One test that finds it suffices, if no test
    contradicts it."""
    seen, noise = Finding.unknown("nothing is cleaned", none=True), Finding.unknown("noise")
    assert verdict_of(seen, noise).none and verdict_of(noise, seen).none
    assert not verdict_of(noise).none and not verdict_of(noise, noise).none
    assert not verdict_of(seen, Finding("lazy", confidence=0.99)).none


MOVES = Finding("translated", confidence=0.999, says="40 of 40 blocks went elsewhere")
BANDS = Finding(MIB, "bytes", MIB, MIB, 0.99, "2 bands of 1 MiB")
CLIFF = Finding(9000, "", 9000, 9000, 0.999, "cleaning began after 9,000 writes")
EMPTIED = Finding("aggressive", confidence=0.997, says="all left the cache")


@pytest.mark.parametrize("moves, others, value, words", [
    (MOVES, {}, "translated", "was not asked (Test 11)"),
    (MOVES, {"band_bytes": Finding.unknown("nothing is cleaned", "bytes")}, "translated",
     "no bands were seen (nothing is cleaned)"),
    # A write cache fills, and is emptied when the host is idle.
    (MOVES, {"writes_until_cleaning": CLIFF}, "translated", "it fills, as a write cache does"),
    (MOVES, {"cleaning_type": EMPTIED}, "translated", "; it is emptied when the host does not write, as a write cache"),
    (MOVES, {"writes_until_cleaning": CLIFF, "cleaning_type": EMPTIED,
             "cache_medium": Finding("disk", confidence=0.999)}, "translated",
     "it fills and it is emptied when the host does not write, as"),
    (MOVES, {"cleaning_type": Finding("lazy", confidence=0.997)}, "translated", "(Test 11)"),
    (MOVES, {"mapping": Finding("dynamic", confidence=0.99)}, "translated", "(Test 11)"),
    (MOVES, {"band_bytes": replace(BANDS, confidence=0.9)}, "translated", "not sure enough"),
    # Each finding is sure enough, but not both together.
    (replace(MOVES, confidence=0.96), {"band_bytes": replace(BANDS, confidence=0.96)},
     "translated", "not sure enough"),
    (MOVES, {"band_bytes": BANDS}, "shingled", "2 bands of 1 MiB"),
    (MOVES, {"band_bytes": BANDS, "writes_until_cleaning": CLIFF}, "shingled", "as a whole"),
    # The values that older versions of Tests 1, 2 and 11 stored.
    (replace(MOVES, value="shingled"), {}, "translated", "a translation"),
    (replace(MOVES, value="shingled"), {"band_bytes": BANDS}, "shingled", "as a whole"),
    (replace(MOVES, value="conventional"), {"band_bytes": BANDS}, "conventional", "40 of 40"),
    (Finding.unknown("no rotation"), {"band_bytes": BANDS}, None, "no rotation")])
def test_shingled_needs_bands(moves, others, value, words):
    """A drive that moves blocks is called shingled only if bands were found too, and both findings
    together are sure enough. Otherwise it is "translated": a write cache also moves blocks, fills
    and is emptied when the host is idle."""
    found = verdict.answers({"1": Result(findings={"drive_type": moves}),
                             "6": Result(findings=others)})
    kind = found["drive_type"]
    assert kind.value == value and words in kind.says, kind
    also = CLIFF in others.values() or EMPTIED in others.values()
    assert ("as a write cache" in kind.says) == (also and value == "translated"), kind
    assert verdict.kind_of(kind, {k: f for k, f in found.items() if k in others}).value == value
    if value == "shingled":
        assert 0.95 <= kind.confidence <= moves.confidence + BANDS.confidence - 1


def test_bands_do_not_decide_whether_blocks_move():
    """If Tests 1 and 2 contradict each other on whether blocks move, the type of the drive stays
    open, also if Test 11 finds bands."""
    found = verdict.answers({
        "1": Result(findings={"drive_type": MOVES}),
        "2": Result(findings={"drive_type": replace(MOVES, value="conventional")}),
        "11": Result(findings={"band_bytes": BANDS})})
    assert found["drive_type"].value is None


# --- command line -----------------------------------------------------------------


def run_cli(*argv):
    done = subprocess.run([TOP / "scripts/skylight", *map(str, argv)],
                          text=True, capture_output=True, check=False)
    return done.returncode, done.stderr


@needs_fio
@pytest.mark.parametrize("path,why", [
    ("/dev/null", "is not a block device"), ("/nix/nothing", "No such file"),
    (__file__, "is not a block device")])
def test_unusable_devices_are_refused(path, why):
    status, said = run_cli("run", path)
    assert status == 2 and why in said and said.count("\n") == 1


def test_unknown_test_is_refused():
    status, said = run_cli("run", "/dev/null", "--tests", "99")
    assert status == 2 and "no test '99'" in said


def test_results_of_another_drive_are_refused(tmp_path):
    args = cli.parser().parse_args(["run", "/dev/none"])
    one = SimpleNamespace(path="/dev/a", label="a", identity=lambda: {
        "bytes": 1, "label": "a", "serial": "1"})
    other = SimpleNamespace(path="/dev/b", label="a", identity=lambda: {
        "bytes": 1, "label": "a", "serial": "2"})
    scale = scale_for("auto", 1 << 30)
    cli.remember(tmp_path, one, args, scale)
    cli.remember(tmp_path, one, args, scale)
    assert json.loads((tmp_path / "run.json").read_text())["versions"] == [cli.versions()]
    with pytest.raises(device.Refused, match="another drive"):
        cli.remember(tmp_path, other, args, scale)
    args.seed = 2
    with pytest.raises(device.Refused, match="seed"):
        cli.remember(tmp_path, one, args, scale)


def asked(tmp_path, *more):
    return cli.parser().parse_args(["run", "/dev/none", "--out", str(tmp_path), *more])


def test_resume_takes_the_options_of_the_run(tmp_path):
    """--resume takes the options from the first call, except those that are given again."""
    dev = SimpleNamespace(path="/dev/a", label="a", identity=lambda: {"bytes": 1, "label": "a"})
    cli.remember(tmp_path, dev, asked(tmp_path, "--tests", "1,2", "--seed", "7", "--reset",
                                      "--scale", "paper", "--max-hours", "2", "--budget", "90"),
                 scale_for("paper", 1 << 30))
    args = asked(tmp_path, "--resume")
    cli.recall(args)
    assert (args.tests, args.seed, args.reset, args.scale, args.max_hours, args.budget) == (
        "1,2", 7, True, "paper", 2, 90)
    args = asked(tmp_path, "--resume", "--tests", "3")
    cli.recall(args)
    assert (args.tests, args.seed) == ("3", 7)


@pytest.mark.parametrize("there", [None, '{"quick": true, "scale": "auto"}'])
def test_resume_needs_a_run(tmp_path, there):
    if there:
        (tmp_path / "run.json").write_text(there)
    with pytest.raises(device.Refused, match=f"{tmp_path} has no run to go on with"):
        cli.recall(asked(tmp_path, "--resume"))
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"] * bool(there)


def test_unreadable_run_is_not_resumed(tmp_path):
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(device.Refused, match="is not of skylight"):
        cli.recall(asked(tmp_path, "--resume"))


@pytest.mark.parametrize("name, value", [
    ("tests", 5), ("scale", "huge"), ("scale", None), ("seed", "7"), ("seed", -1), ("seed", True),
    ("reset", "no"), ("max_hours", "2"), ("max_hours", -1), ("max_hours", True),
    ("budget", "9"), ("budget", 0), ("budget", True), ("versions", 3), ("versions", ["6.1"])])
def test_impossible_stored_options_are_refused(tmp_path, name, value):
    """In particular, "no" as a string must not be taken for --reset, which erases."""
    (tmp_path / "run.json").write_text(json.dumps({
        "device": {}, "tests": None, "scale": "auto", "seed": 1, "reset": False,
        "max_hours": None, "versions": [], name: value}))
    with pytest.raises(device.Refused, match="run.json is damaged or of another version: " + name):
        cli.recall(asked(tmp_path, "--resume"))


def test_invalid_seeds_are_refused(capsys):
    for command in ("run", "quick"):
        with pytest.raises(SystemExit) as ended:
            cli.parser().parse_args([command, "/dev/none", "--seed", "-1"])
        assert ended.value.code == cli.USAGE and "--seed: -1" in capsys.readouterr().err


@pytest.mark.parametrize("text", ['{"scale": "auto", "seed": 1}', '{"device": "/dev/a"}',
                                  '{"device": {"bytes": 1, "label": "a", "serial": "1"}}',
                                  '{"bytes": 1, "device": null}', '7'])
def test_run_of_another_version_is_refused(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    dev = SimpleNamespace(path="/dev/a", label="a", identity=lambda: {
        "bytes": 1, "label": "a", "serial": "1"})
    with pytest.raises(device.Refused, match="another|not of skylight"):
        cli.remember(tmp_path, dev, asked(tmp_path), scale_for("auto", 1 << 30))
    assert (tmp_path / "run.json").read_text() == text


@pytest.mark.parametrize("fits", [0, 40])
def test_run_can_be_resumed_after_a_full_disk(tmp_path, monkeypatch, fits):
    dev = SimpleNamespace(path="/dev/a", label="a", identity=lambda: {
        "bytes": 1, "label": "a", "serial": "1"})
    cli.remember(tmp_path, dev, asked(tmp_path, "--seed", "7"), scale_for("auto", 1 << 30))
    args = asked(tmp_path, "--resume")
    with monkeypatch.context() as full:
        without_room(full, fits)
        cli.recall(args)
        with pytest.raises(device.Refused, match="run.json: No space left"):
            cli.remember(tmp_path, dev, args, scale_for("auto", 1 << 30))
    args = asked(tmp_path, "--resume")
    cli.recall(args)
    assert args.seed == 7 and [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_full_disk_gives_one_line(tmp_path, monkeypatch, capsys):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "t03.json.part"))
    monkeypatch.setattr(cli, "command_run", full)
    monkeypatch.setattr(cli, "end_in_order", lambda: None)
    assert cli.main(["run", "/dev/none"]) == cli.FAILED
    assert capsys.readouterr().err == \
        f"skylight: {tmp_path / 't03.json.part'}: No space left on device\n"


@pytest.mark.parametrize("hours", ["0", "-1", "nan"])
def test_invalid_max_hours_is_refused(hours):
    status, said = run_cli("run", "/dev/null", f"--max-hours={hours}")
    assert status == 2 and said.count("\n") == 1 and "--max-hours" in said


def test_all_versions_of_a_run_are_recorded(tmp_path, monkeypatch):
    args = cli.parser().parse_args(["run", "/dev/none"])
    dev = SimpleNamespace(path="/dev/a", label="a", identity=lambda: {
        "bytes": 1, "label": "a", "serial": "1"})
    told = cli.versions()
    assert re.fullmatch(r"[\d.]+", told["skylight"]) and told["kernel"] == os.uname().release
    assert told["fio"] is None or told["fio"].startswith("fio-")
    for which in ("1", "2", "2", "1"):
        monkeypatch.setattr(cli, "versions", lambda which=which: {"skylight": which})
        cli.remember(tmp_path, dev, args, scale_for("auto", 1 << 30))
    info = json.loads((tmp_path / "run.json").read_text())
    assert info["versions"] == [{"skylight": "2"}, {"skylight": "1"}]


def test_unknown_versions(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cli, "OWN", tmp_path / "none")
    assert cli.versions() == {"skylight": None, "kernel": os.uname().release, "fio": None}


@pytest.mark.parametrize("name, finding, line", [
    ("drive_type", Finding("shingled", confidence=0.9991, says="bands of 65536 blocks"),
     "Shingled or conventional? shingled (SMR) (99.9 %): bands of 65,536 blocks"),
    ("band_bytes", Finding(40 * MIB, "bytes", 40 * MIB, 40 * MIB, 0.995),
     "Band size: 40 MiB (exactly, 99.5 %)"),
    ("raw_bytes", Finding(36 << 30, "bytes", 35 << 30, 37 << 30, 0.95),
     "Raw size: 36 GiB (35 GiB to 37 GiB, 95 %)"),
    ("clean_idle_ms", Finding.unknown("never seen"),
     "Idle time before it begins: cannot tell: never seen"),
    ("new_thing", Finding(3, "", confidence=0.9), "new thing: 3 (90 %)")])
def test_terminal_uses_the_text_of_the_report(name, finding, line):
    assert list(cli.told(Result(findings={name: finding}))) == [line]


@pytest.mark.parametrize("first, most_s", [
    (None, 100_000 * .012),
    (Result(numbers={"flat": {"2 MiB": {"median_us": 5000.}, "1 GiB": {"median_us": 7000.}}}),
     700.),
    (Result(numbers={"flat": {"1 GiB": {"median_us": 7000.}}}, findings={
        "drive_type": Finding("conventional", confidence=.99)}), 140.),
    (Result(numbers={"flat": {"1 GiB": {"median_us": 7e6}}}), 3600.)])
def test_expected_time_of_test_6(first, most_s):
    """The estimate is the largest number of writes times the latency that Test 1 measured. It is
    shorter for a conventional drive and never longer than the limit of the scale."""
    results = {"1": first} if first else {}
    s = SimpleNamespace(scale=SimpleNamespace(max_ops=100_000, max_s=3600), results=results,
                        finding=lambda name: first and first.findings.get(name))
    assert skylight.tests()["6"].estimate(s) == pytest.approx(most_s)


class Countable:
    """A test that counts its runs."""
    TITLE, AFTER = "something", ()

    def __init__(self, test_id, fails=0):
        self.ID, self.runs, self.fails = test_id, 0, fails

    @staticmethod
    def estimate(_):
        return 1.0

    def run(self, _):
        self.runs += 1
        if self.runs <= self.fails:
            raise KeyboardInterrupt
        return Result()


def test_interrupted_run_continues(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "Fio", lambda *_: Still())
    dev = NoDrive()
    dev.identity = lambda: {"bytes": dev.bytes, "label": "none", "serial": ""}
    dev.restore_from = lambda note: []
    args = cli.parser().parse_args(["run", "/dev/none", "--out", str(tmp_path)])
    tests = [Countable("1"), Countable("2", fails=1), Countable("3")]
    known = {t.ID: t for t in tests}
    with pytest.raises(KeyboardInterrupt):
        cli.run_on(dev, args, tests, known)
    assert cli.run_on(dev, args, tests, known) == 0
    assert [t.runs for t in tests] == [1, 2, 1]
    args.again = True
    assert cli.run_on(dev, args, tests[:1], known) == 0
    assert [t.runs for t in tests] == [2, 2, 1]


def test_time_left_is_shown_on_a_terminal_only():
    """On a terminal, progress shows the time left for the test and for all tests. Elsewhere it
    writes nothing."""
    class Terminal(list):
        def __init__(self, tty):
            super().__init__()
            self.isatty, self.write, self.flush = (lambda: tty), self.append, lambda: None
    for tty in (True, False):
        stream = Terminal(tty)
        screen = cli.Screen(stream)
        screen.test("Test 1", 100, 3600)
        screen.begin -= 50
        screen.show(1, 4)
        assert bool(stream) == tty
    stream = Terminal(True)
    screen = cli.Screen(stream)
    screen.test("Test 1", 100, 3600)
    screen.begin -= 50
    screen.show(1, 4)
    assert "25 %, 50 s so far, about 3 min left (63 min for all)" in stream[0]


# --- settings ----------------------------------------------------------------------


class Switch:
    """A setting that records the values it was set to."""

    def __init__(self, now):
        self.now, self.told = now, []

    def get(self):
        return self.now

    @staticmethod
    def value(wanted):
        return wanted

    def set(self, value):
        self.now = value
        self.told.append(value)


class Stubborn(Switch):
    """A setting that accepts only some values."""

    def __init__(self, now, takes):
        super().__init__(now)
        self.takes = takes

    def set(self, value):
        self.told.append(value)
        if value not in self.takes:
            return
        self.now = value

    @staticmethod
    def by_hand(value):
        return f"turn it {'on' if value else 'off'}"


@pytest.fixture(name="drive")
def switches():
    dev = device.Device.__new__(device.Device)
    dev._fd, dev.unrestored, dev.path, dev.bytes = -1, {}, "/dev/none", 400 * MIB
    dev._switches = {"write_cache": Switch(True), "read_ahead": Switch(False)}
    return dev


def test_settings_are_restored_after_an_exception(drive, tmp_path):
    note = tmp_path / "restore.json"
    with pytest.raises(KeyboardInterrupt):
        with drive.settings(note, write_cache=False, read_ahead=False,
                            look_ahead=False) as missing:
            assert missing == ["look_ahead"]
            assert json.loads(note.read_text(encoding="utf-8")) == {"write_cache": True}
            raise KeyboardInterrupt
    assert drive._switches["write_cache"].told == [False, True]
    assert not drive._switches["read_ahead"].told       # it had this value already
    assert not note.exists()


def test_settings_of_a_killed_run_are_restored(drive, tmp_path):
    note = tmp_path / "restore.json"
    note.write_text('{"write_cache": false}', encoding="utf-8")
    assert drive.restore_from(note) == ["write_cache"]
    assert drive._switches["write_cache"].now is False and not note.exists()
    assert drive.restore_from(note) == []


def test_a_reset_by_discard_is_remembered(monkeypatch, tmp_path, drive):
    """The device remembers whether its last reset was a discard. A reset by a message to device
    mapper is none, nor is one that failed."""
    answers = {"blkdiscard": (0, ""), "dmsetup message drive 0 reset": (0, "")}
    Tools(monkeypatch, answers)
    monkeypatch.setattr(drive, "held", lambda: 3, raising=False)
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue/discard_max_bytes").write_text("4096\n", encoding="ascii")
    drive.sys = tmp_path
    assert not drive.discarded and drive.reset() and drive.discarded
    (tmp_path / "dm").mkdir()
    (tmp_path / "dm/name").write_text("drive\n", encoding="ascii")
    assert drive.reset() and not drive.discarded
    answers["blkdiscard"] = answers["dmsetup message drive 0 reset"] = (1, "")
    assert not drive.reset() and not drive.discarded


# --- a drive that disappears and returns --------------------------------------------


@pytest.fixture(name="coming")
def one_that_comes_back(tmp_path, monkeypatch):
    """Return (a Device on a file, the properties that it will have after its return)."""
    found = {"bytes": 400 * MIB, "label": "disk", "serial": "1"}
    dev = device.Device.__new__(device.Device)
    dev.path, dev.unrestored = str(tmp_path / "dev"), {}
    dev._switches = {"read_ahead": device.ReadAhead(dev)}
    Path(dev.path).write_bytes(b"")
    monkeypatch.setattr(dev, "_size", lambda: dev.held() and found["bytes"])
    monkeypatch.setattr(dev, "_label", lambda: found["label"])
    monkeypatch.setattr(device, "read", lambda path: {
        "serial": found["serial"], "discard_max_bytes": "4096"}.get(Path(path).name, ""))
    # The file stands for a block device.
    dev._fd = os.open(dev.path, os.O_RDONLY)
    dev.sys, dev.bytes, dev.label = tmp_path, found["bytes"], found["label"]
    yield dev, found
    dev.close()


def test_returning_drive_is_opened_again(coming):
    dev, _ = coming
    with dev.released():
        with pytest.raises(OSError, match="not there any more"):
            dev.held()
    assert dev.held() >= 0


@pytest.mark.parametrize("what,other", [("serial", "2"), ("bytes", 401 * MIB),
                                        ("label", "stick")])
def test_drive_in_the_place_of_another_is_not_used(coming, monkeypatch, tmp_path, what, other):
    """Nothing is written to it, discarded or set, and the tests that follow do not use it either.
    """
    dev, found = coming
    tools = Tools(monkeypatch, {"blkdiscard": (0, "")})
    assert dev.reset() and tools.told
    tools.told.clear()
    cache = dev._switches["write_cache"] = Switch(False)
    with pytest.raises(OSError, match="another drive.*it was disk 1 with"):
        with dev.settings(tmp_path / "restore.json", write_cache=True), dev.released():
            found[what] = other
    assert cache.told == [True] and dev.unrestored == {"write_cache": False}
    for attempt in (dev.reset, dev.read_ahead_sectors, lambda: dev.read_ahead_sectors(0)):
        with pytest.raises(OSError, match="left alone"):
            attempt()
    with pytest.raises(OSError, match="left alone"):
        with dev.settings(tmp_path / "restore.json", read_ahead=False):
            pass
    assert dev.identity()["bytes"] == 400 * MIB and not tools.told


def test_missing_drive_fails_later_tests(coming, tmp_path):
    """The test that cut the power fails with a sentence, and so do all later tests."""
    dev, _ = coming
    s = Session(dev, tmp_path / "out", load=Still(), say=lambda text: None, allow_reset=True)

    def cut(_):
        with dev.released():
            os.unlink(dev.path)
    result = s.run(module(cut))
    assert result.status == FAILED and "did not come back" in result.why

    def settings(s):
        with s.settings():
            return Result()
    for run in (settings, lambda s: s.fresh() and Result()):
        result = s.run(module(run, "14"))
        assert result.status == FAILED and "not there any more" in result.why


def test_name_of_another_drive_is_not_used(coming, tmp_path):
    """The name is a link, as in /dev/disk/by-path, and another disk takes the place. The open file
    is still the first disk, but fio opens the name, so the name is checked before each load."""
    dev, _ = coming
    os.close(dev._fd)
    os.unlink(dev.path)
    os.symlink("/dev/null", dev.path)
    dev._fd = os.open(dev.path, os.O_RDONLY)
    s = Session(dev, tmp_path / "out", say=lambda text: None)
    sent = tmp_path / "sent"
    s.load.program = str(tmp_path / "fio")
    Path(s.load.program).write_text(f"#!/bin/sh\necho $* >> {sent}\n", encoding="ascii")
    Path(s.load.program).chmod(0o755)
    sends = (lambda s: s.trace("x", (True, np.arange(5) * 4096, 4096)),
             lambda s: s.fio("x", rw="read"), lambda s: s.spaced("x", 0, 1, 1, (True, 0, 4096)))
    for send in sends:
        assert "wrote no log" in s.run(module(send)).why and sent.read_text()
        sent.unlink()
    cache = Stubborn(True, takes=[True, False])
    dev._switches = {"write_cache": cache}
    with s.settings():
        os.unlink(dev.path)
        os.symlink("/dev/zero", dev.path)
    assert cache.told == [False] and dev.unrestored == {"write_cache": True}
    for send in sends:
        result = s.run(module(send))
        assert result.status == FAILED and "is another drive" in result.why
    os.unlink(dev.path)
    assert "not there any more" in s.run(module(sends[0])).why and not sent.exists()


def noted(note):
    return json.loads(note.read_text(encoding="utf-8"))


def test_refused_setting_is_reported(drive, tmp_path):
    """A write cache that can't be switched off is reported; there is nothing to restore."""
    note = tmp_path / "restore.json"
    drive._switches["write_cache"] = Stubborn(True, takes=[True])
    with drive.settings(note, write_cache=False, look_ahead=False) as missing:
        assert missing == ["write_cache", "look_ahead"]
    assert not note.exists() and not drive.unrestored


def test_unknown_setting_is_not_changed(drive, tmp_path):
    drive._switches["write_cache"] = Switch(None)
    with drive.settings(tmp_path / "restore.json", write_cache=False) as missing:
        assert missing == ["write_cache"]
    assert not drive._switches["write_cache"].told


def test_failed_restore_is_retried_later(drive, tmp_path):
    """hdparm -W1 fails. The next block of settings restores the value when the drive accepts it,
    whatever settings the block has itself."""
    note = tmp_path / "restore.json"
    cache = drive._switches["write_cache"] = Stubborn(True, takes=[False])
    ahead = drive._switches["read_ahead"]
    with drive.settings(note, write_cache=False, read_ahead=True) as missing:
        assert missing == []
    assert noted(note) == drive.unrestored == {"write_cache": True}
    assert ahead.now is False                   # all other settings are restored
    with drive.settings(note):                  # the block has no settings of its own
        assert noted(note) == {"write_cache": True}
    with drive.settings(note, write_cache=False, read_ahead=True):
        assert noted(note) == {"write_cache": True, "read_ahead": False}
    assert noted(note) == {"write_cache": True}
    cache.takes = [False, True]
    with drive.settings(note):
        assert cache.now is True and not note.exists()
    assert not drive.unrestored and not note.exists()


def test_settings_of_a_killed_run_that_cannot_be_restored(drive, tmp_path):
    note = tmp_path / "restore.json"
    note.write_text('{"write_cache": true, "other": 1, "read_ahead": true}', encoding="utf-8")
    drive._switches["write_cache"] = Stubborn(False, takes=[])
    assert drive.restore_from(note) == ["read_ahead"]
    assert noted(note) == drive.unrestored == {"write_cache": True, "other": 1}
    assert drive.by_hand() == "turn it on; other back to 1"


def test_failed_restore_is_reported_once(drive, tmp_path):
    drive._switches["write_cache"] = Stubborn(True, takes=[False])
    said = []
    s = Session(drive, tmp_path, load=Still(), say=said.append)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            with s.settings():
                raise KeyboardInterrupt
    assert len(said) == 1 and "write_cache" in said[0] and "turn it on" in said[0] \
        and "restore.json" in said[0]
    drive._switches["write_cache"].takes = [True, False]
    with s.settings():
        pass
    assert len(said) == 1 and not (tmp_path / "restore.json").exists()


def test_failed_restore_does_not_stop_the_others(drive, tmp_path):
    """The device has gone: the note keeps the settings that were not restored."""
    note = tmp_path / "restore.json"
    ahead = drive._switches["read_ahead"]
    with drive.settings(note, read_ahead=True, write_cache=False):
        def gone(_):
            raise OSError(19, "no such device")
        ahead.set = gone
    assert noted(note) == {"read_ahead": False}
    assert drive._switches["write_cache"].now is True


class Tools:
    """The answers of hdparm and dmsetup, and a record of their calls."""

    def __init__(self, monkeypatch, answers):
        self.answers, self.told = answers, []
        self.then = {}          # answers of other commands after one, by its beginning
        monkeypatch.setattr(device, "tool", self)

    def __call__(self, *command):
        self.told.append(" ".join(map(str, command)))
        self.answers.update([c for start, c in self.then.items()
                             if self.told[-1].startswith(start)])
        return next((a for start, a in self.answers.items()
                     if self.told[-1].startswith(start)), (None, ""))


def test_write_cache_by_hdparm(monkeypatch, tmp_path, drive):
    """A drive with a write cache that is on, and without switchable look-ahead."""
    caching = "\n/dev/sdx:\n write-caching =  {} (o{})\n".format
    answers = {
        "hdparm -W": (0, caching(1, "n")),
        "hdparm -A": (0, "\n/dev/sdx:\n look-ahead    = not supported\n")}
    tools = Tools(monkeypatch, answers)
    drive.path, drive.sys = "/dev/sdx", tmp_path
    found = device._drive_switches(drive)
    assert list(found) == ["write_cache"]
    drive._switches = found
    answers["hdparm -W "] = answers.pop("hdparm -W")
    tools.then = {"hdparm -W0": ("hdparm -W ", (0, caching(0, "ff"))),
                  "hdparm -W1": ("hdparm -W ", (0, caching(1, "n")))}
    with drive.settings(tmp_path / "note", write_cache=False, look_ahead=False) as missing:
        assert missing == ["look_ahead"]
    assert [t for t in tools.told if t.startswith("hdparm -W") and "-W " not in t] == [
        "hdparm -W0 /dev/sdx", "hdparm -W1 /dev/sdx"]
    assert not drive.unrestored
    tools.then = {}                             # the drive reports success and does nothing
    with drive.settings(tmp_path / "note", write_cache=False) as missing:
        assert missing == ["write_cache"]
    assert not drive.unrestored
    tools.then = {"hdparm -W0": ("hdparm -W ", (0, caching(0, "ff")))}
    with drive.settings(tmp_path / "note", write_cache=False) as missing:
        assert missing == []
    assert drive.by_hand() == "hdparm -W1 /dev/sdx"


def test_write_cache_by_mode_page(monkeypatch, tmp_path, drive):
    """sd accepts one of two words and reads the setting back from the drive."""
    Tools(monkeypatch, {})
    folder = tmp_path / "device/scsi_disk/0:0:0:0"
    folder.mkdir(parents=True)
    page, note = folder / "cache_type", tmp_path / "note"
    page.write_text("write back\n", encoding="ascii")
    drive.path, drive.sys = "/dev/sdx", tmp_path
    drive._switches = device._drive_switches(drive)
    with drive.settings(note, write_cache=False) as missing:
        assert not missing and page.read_text(encoding="ascii") == "write through"
    assert page.read_text(encoding="ascii") == "write back"
    with monkeypatch.context() as refusing:
        refusing.setattr(Path, "write_text", lambda self, *_, write=Path.write_text, **more:
                         None if self == page else write(self, *_, **more))
        with drive.settings(note, write_cache=False) as missing:
            assert missing == ["write_cache"]
    page.write_text("write through\n", encoding="ascii")
    with drive.settings(note, write_cache=False) as missing:
        assert not missing
    assert not drive.unrestored and not note.exists()


def test_write_cache_by_device_mapper_message(monkeypatch, tmp_path, drive):
    tools = Tools(monkeypatch, {
        "dmsetup table": (0, "0 80 stl-set 7:0 - - 0 4 wcache_blocks 64 commit_ms 0"),
        "dmsetup message drive 0 wcache": (0, ""), "dmsetup message": (1, "no such message")})
    (tmp_path / "dm").mkdir()
    (tmp_path / "dm/name").write_text("drive\n", encoding="ascii")
    drive.sys = tmp_path
    found = device._drive_switches(drive)
    assert list(found) == ["write_cache"] and found["write_cache"].get() is True
    drive._switches = found
    with drive.settings(tmp_path / "note", write_cache=False):
        assert tools.told[-1] == "dmsetup message drive 0 wcache off"
    assert tools.told[-1] == "dmsetup message drive 0 wcache on"


@pytest.mark.parametrize("table, on, known, stands", [
    ("0 80 stl-set 7:0 - - 1 unsafe_bypass 2 bypass_blocks 64", 0, ["write_cache"], True),
    ("0 80 stl-set 7:0 - - 0 2 bypass_blocks 64", 1, ["write_cache"], False),
    ("0 80 platter 7:0 0 generic 0 0", 0, ["write_cache"], False),
    ("0 80 stl-set 7:0 - - 0 4 wcache_blocks 64 wcache off", 0, ["write_cache"], False),
    ("0 80 linear 7:0 0", 1, [], None)])
def test_write_cache_missing_in_the_table(monkeypatch, tmp_path, drive, table, on, known, stands):
    """A layer that gathers writes has a write cache, which is on. A write cache that is off or
    missing is not switched on to find out."""
    tools = Tools(monkeypatch, {
        "dmsetup table": (0, table), "dmsetup message drive 0 wcache on": (on, ""),
        "dmsetup message drive 0 wcache off": (0 if known else 1, ""),
        "dmsetup message": (1, "no such message")})
    (tmp_path / "dm").mkdir()
    (tmp_path / "dm/name").write_text("drive\n", encoding="ascii")
    drive.sys = tmp_path
    found = device._drive_switches(drive)
    assert list(found) == known
    if known:
        assert found["write_cache"].get() is stands
    if stands is False:
        assert on or not any("wcache on" in told for told in tools.told)
    else:
        assert not any("wcache off" in told for told in tools.told) or not known
