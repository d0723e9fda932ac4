# SPDX-License-Identifier: GPL-2.0
"""Tests of skylight explain on recorded series of drives with known properties."""

import json
import os
import re
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from experiments import probe_drives
from skylight import cli, device, explain
from skylight.explain import FLUSH, FULL, IDLE, OTHER, Sample, Watch


BLOCK, STEP = 4096, explain.STEP_S


# --- series ---------------------------------------------------------------------------


def requests_of(drive, ops, think_s=0.0):
    """Return [(begin, end, write)] in seconds, for one request at a time with pauses of @think_s
    (one number, or one for each request)."""
    out, think = [], np.broadcast_to(think_s, len(ops))
    for (write, block), pause in zip(ops, think):
        begin = drive.disk.now
        trace = drive.replay("load", (write, block * BLOCK, BLOCK))
        # A delay in a latency of the model is not in the model's clock.
        drive.disk.now = begin + float(trace.lat_us[0])
        out.append((begin / 1e6, drive.disk.now / 1e6, write))
        if pause:
            drive.sleep(float(pause))
    return out


def looks(requests, step=STEP, jitter=0.0, seed=1):
    """Return the samples that the counters would have shown during the recorded requests."""
    begin, end = (np.array([r[i] for r in requests]) for i in (0, 1))
    write = np.array([r[2] for r in requests], bool)
    at = np.arange(begin[0], end[-1] + 2 * step, step)
    at = np.sort(at + np.random.default_rng(seed).exponential(jitter, len(at))) if jitter else at

    def count(times, which):
        return np.searchsorted(np.sort(times[which]), at, "right")
    begun, done = ({w: count(t, write == w) for w in (False, True)} for t in (begin, end))
    return [Sample(float(t), int(done[False][i]), 8 * int(done[False][i]), int(done[True][i]),
                   8 * int(done[True][i]), 0, int(begun[False][i] - done[False][i]),
                   int(begun[True][i] - done[True][i])) for i, t in enumerate(at)]


def watched(samples):
    watch = Watch()
    for sample in samples:
        watch.take(sample)
    return watch


def longest(requests, least=explain.LEAST_S + 2 * STEP):
    """Return the requests that take so long that they are stalls at any time of sampling."""
    return [(b, e) for b, e, _ in requests if e - b >= least]


def mixed(drive, count, rng, share=0.5):
    """Return random writes, alternating with times of reading alone."""
    out = []
    while len(out) < count:
        out += [(True, int(b)) for b in rng.integers(0, drive.blocks, 600)]
        out += [(False, int(b)) for b in rng.integers(0, drive.blocks, int(1200 * share))]
    return out


def shingled(seed=1, **more):
    return probe_drives.SetAssociative(256, 400, 6, seed=seed, jitter=30.0, **more)


def test_cleaning_of_a_shingled_drive_is_reported():
    """On a shingled drive, explain finds every stall, with its time and length to one sample, and
    says that the drive was cleaning."""
    drive, rng = shingled(), np.random.default_rng(1)
    requests = requests_of(drive, mixed(drive, 24_000, rng))
    truth = longest(requests)
    assert len(truth) >= 5 and len(drive.cleaned) > 100
    watch = watched(looks(requests))
    is_it, sure, why = watch.answer()
    assert is_it and sure >= 0.99 and "reading alone" in why
    assert {s.kind for s in watch.stalls} == {FULL}
    # Each of them is found and no other, with its length to one sample.
    assert len(watch.stalls) >= len(truth)
    for begin, end in truth:
        stall = min(watch.stalls, key=lambda s, b=begin: abs(s.at_s - b))
        assert abs(stall.at_s - begin) <= STEP
        assert abs(stall.at_s + stall.seconds - end) <= STEP
    slow = [e - b for b, e, _ in requests if e - b >= explain.LEAST_S]
    assert len(watch.stalls) <= len(slow)
    text = "\n".join(explain.summary(watch))
    assert text.startswith(f"It was cleaning {len(watch.stalls)} times")


def test_stalls_are_reported_with_preceding_writes():
    """Each stall is reported with the number of writes since the last one."""
    drive, rng = shingled(), np.random.default_rng(2)
    requests = requests_of(drive, mixed(drive, 12_000, rng))
    watch = watched(looks(requests))
    # Some stalls follow each other immediately.
    a, b = next(pair for pair in zip(watch.stalls, watch.stalls[1:]) if pair[1].before.reads)
    writes = sum(w and a.at_s + a.seconds < e <= b.at_s for _, e, w in requests)
    assert abs(b.before.writes - writes) <= 3
    assert b.before.write_bytes == b.before.writes * BLOCK
    assert f"{b.before.writes:,} writes" in explain.told(b)


@pytest.mark.parametrize("made", [
    lambda: probe_drives.Drive(200_000, jitter=80.0), lambda: probe_drives.Memory(60_000),
    lambda: probe_drives.Thin(120_000), lambda: probe_drives.Drive(200_000, commit_us=5e6)])
@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_no_report_on_drives_without_cleaning(made, jitter):
    """On drives that do not clean, explain reports no stall, however irregular the samples are."""
    drive, rng = made(), np.random.default_rng(3)
    ops = mixed(drive, 5000, rng)
    requests = requests_of(drive, ops, rng.choice([0, 0, 0, 0.5], len(ops)))
    watch = watched(looks(requests, jitter=jitter))
    assert not watch.stalls and watch.answer()[0] is None
    assert "no stall" in "\n".join(explain.summary(watch))


def interleaved(drive, count, rng, share):
    """Return random reads and writes; @share is the share of writes."""
    return [(bool(w), int(b)) for w, b in zip(rng.random(count) < share,
                                              rng.integers(0, drive.blocks, count))]


@pytest.mark.parametrize("ops", [
    mixed, lambda *a: interleaved(*a, 0.1), lambda *a: interleaved(*a, 0.5),
    lambda *a: interleaved(*a, 0.9), lambda *a: interleaved(*a, 1),
    lambda *a: interleaved(*a, 0.9) + interleaved(*a, 0)[:300]],
    ids=["phases", "0.1", "0.5", "0.9", "writes", "hardly any reading"])
@pytest.mark.parametrize("seed", range(6))
def test_no_report_on_a_stalling_conventional_drive(ops, seed):
    """The drive has enough stalls, of the same kinds as those of cleaning, but they occur with all
    requests alike."""
    drive, rng = probe_drives.Troubled(200_000, seed=seed), np.random.default_rng(seed)
    watch = watched(looks(requests_of(drive, ops(drive, 2400, rng))))
    assert len(watch.of(FULL)) > 4
    assert watch.answer()[0] is None
    assert "known to be cleaning" in "\n".join(explain.summary(watch))


@pytest.mark.parametrize("seed", [8, 15, 18, 22, 23, 24, 27, 29])
def test_one_burst_of_stalls_is_not_cleaning(seed):
    """One spell of trouble lasts 15 s and may cause any number of stalls, but it is one event and
    proves nothing. In three minutes the drive is written, read and idle in turn, 20 s each."""
    assert spell(seed)[0] is None


def spell(seed, spells=1, rounds=3):
    """Return explain's answer."""
    rng = np.random.default_rng(seed)
    bad = rng.uniform(0, 60 * rounds - 15, spells)
    at, requests = 0.0, []
    while at < 60 * rounds:
        phase = int(at % 60 // 20)
        if phase == 2:
            at += 20 - at % 20
            continue
        trouble = bool(((bad <= at) & (at < bad + 15)).any()) and not rng.integers(8)
        end = at + rng.uniform(0.004, 0.02) + trouble * rng.uniform(0.3, 0.8)
        requests.append((at, end, phase == 0))
        at = end
    return watched(looks(requests)).answer()


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_cleaning_is_reported_under_a_mixed_load(share):
    """With a mixed load there are no times of reading alone to compare with. That only writes wait,
    and no reads, is enough evidence."""
    drive, rng = shingled(), np.random.default_rng(5)
    watch = watched(looks(requests_of(drive, interleaved(drive, int(9000 / share), rng, share))))
    is_it, sure, why = watch.answer()
    assert is_it and sure > 0.99 and "met writes alone" in why
    assert not watch.of(OTHER) and "of 0 of reading alone" not in why


def test_late_samples_cause_no_false_stall():
    """A time that may have been two requests is not reported as one stall."""
    drive, rng = shingled(), np.random.default_rng(1)
    requests = requests_of(drive, mixed(drive, 12_000, rng))
    for stall in watched(looks(requests, jitter=0.3)).stalls:
        assert any(b <= stall.at_s and e - b >= explain.LEAST_S and e > stall.at_s
                   for b, e, _ in requests)


def test_cleaning_when_idle_delays_the_next_request():
    """A drive that cleans when idle makes the first request after a pause wait, and explain
    recognizes cleaning by that."""
    drive = probe_drives.SetAssociative(2048, 100, 4, idle_us=4e5)
    rng, ops, think = np.random.default_rng(4), [], []
    for i in range(40):
        ops += [(True, int(b)) for b in rng.integers(0, drive.blocks, 20)]
        think += [0.0] * 19 + [float(rng.uniform(0.9, 1.6))]
        # Times of reading alone, as far from writes as cleaning is.
        alone = 200 * (i % 2)
        ops += [(False, int(b)) for b in rng.integers(0, drive.blocks, alone)]
        think += [0.0] * alone
    watch = watched(looks(requests_of(drive, ops, think)))
    assert len(watch.of(IDLE)) >= 5 and not watch.of(OTHER)
    assert watch.answer()[0] and "first request after a pause" in watch.answer()[2]


# --- series by hand -------------------------------------------------------------------


def by_hand(parts):
    """Return samples of [(seconds, activity)]: read, write, mix, quiet, stall (a write waits),
    stuck (a read waits), both, flush."""
    out, t, c = [], 0.0, dict(reads=0, writes=0, flushes=0)
    for seconds, what in parts:
        for _ in range(round(seconds / STEP)):
            c["reads"] += 5 * (what in ("read", "mix"))
            c["writes"] += 5 * (what in ("write", "mix"))
            out.append(Sample(t, c["reads"], 8 * c["reads"], c["writes"], 8 * c["writes"],
                              c["flushes"], int(what in ("read", "mix", "stuck", "both")),
                              int(what in ("write", "mix", "stall", "both", "flush"))))
            t += STEP
        c["flushes"] += what == "flush"
    return out


READ_ALONE = [(90, "read"), (1.5, "quiet")]
# Seven such phases between others suffice for an answer, if the drive stalls in all of them.
CLEANS = [(5, "write"), (1, "stall"), (1, "write"), (8, "read")]


@pytest.mark.parametrize("parts, kinds, cleaning, sure", [
    (CLEANS * 7, [FULL] * 7, True, True),
    (CLEANS * 5, [FULL] * 5, None, False),
    # The trouble ends before the drive is read, or there is one stall in each of too few phases.
    ([(5, "write"), (1, "stall")] * 6 + READ_ALONE, [FULL] * 6, None, False),
    ([(9, "write"), (9, "read")] * 9 + [(1, "write"), (1, "stall")] * 20 + [(1, "write")],
     [FULL] * 20, None, False),
    # Too few of the phases of reading were long enough.
    ([(25, "write"), (1, "stall"), (1, "write"), (1.5, "read")] * 7, [FULL] * 7, None, False),
    # There is nothing for comparison.
    ([(5, "write"), (1, "stall")] * 6 + [(1, "write")], [FULL] * 6, None, False),
    ([(5, "write"), (1, "stall")] * 3 + READ_ALONE, [FULL] * 3, None, False),
    ([(5, "write"), (1, "flush")] * 9 + READ_ALONE, [FLUSH] * 9, None, False),
    # A drive with trouble in reading.
    ([(5, "read"), (1, "stuck")] * 9 + [(2, "read")], [OTHER] * 9, None, False),
    ([(2, "write"), (1, "stall"), (2, "write"), (3, "read"), (1, "stuck")] * 6 + [(1, "read")],
     [FULL, OTHER] * 6, None, False),
    # Too little reading alone.
    ([(9, "write"), (1, "stall")] * 9 + [(12, "read")], [FULL] * 9, None, False),
    # One stall was not of cleaning, and by its share that is possible.
    ([(9, "write"), (1, "stall")] * 20 + [(3, "read"), (1, "stuck"), (9, "read")],
     [FULL] * 20 + [OTHER], None, False),
    ([(2, "write"), (1, "quiet"), (1, "stuck"), (2, "read")] * 9, [IDLE] * 9, True, True),
    # Only the first time.
    ([(2, "write"), (3, "read"), *[(1, "quiet"), (1, "stuck"), (2, "read")] * 9], [IDLE] * 9, None,
     False),
    # Five of nine phases of writing had stalls of flushes only.
    ([(5, "write"), (1, "flush"), (1, "write"), (8, "read")] * 5 + CLEANS * 4,
     [FLUSH] * 5 + [FULL] * 4, None, False),
    # There were no writes: the drive spins up.
    ([(2, "read"), (1, "quiet"), (1, "stuck"), (2, "read")] * 6, [OTHER] * 6, None, False),
    # Reads wait behind a write that has completed.
    ([(5, "write"), (0.5, "read"), (1, "stuck"), (8, "read")] * 8, [FULL] * 8, True, True),
    # With many requests in flight both are in flight at any time.
    ([(5, "mix"), (1, "both")] * 12 + [(1, "mix")], [FULL] * 12, None, False),
    ([(5, "mix"), (0.1, "read"), (0.1, "write"), (1, "stall")] * 12 + [(1, "mix")], [FULL] * 12,
     True, True),
    # All stalls are in one phase of writing; the drive was read as much before and after it.
    ([(5, "write"), (5, "read")] * 2 + [(5, "write"), *[(0.3, "write"), (1, "stall")] * 8,
                                        (5, "read")], [FULL] * 8, None, False),
    ([(5, "write"), (0.1, "stall")] * 9 + READ_ALONE, [], None, False)])
def test_kinds_of_stalls(parts, kinds, cleaning, sure):
    """The kind of each stall, and whether all of them together prove cleaning."""
    watch = watched(by_hand(parts))
    is_it, confidence, _ = watch.answer()
    assert [s.kind for s in watch.stalls] == kinds
    assert is_it is cleaning and bool(confidence) == sure
    assert all(abs(s.seconds - 1) <= 2 * STEP for s in watch.stalls)


def test_flushes_that_only_tracing_shows():
    """A mapped device counts flushes as empty writes, or not at all."""
    for traced, kind in (([], FULL), ([(b"FWS", 0, 0)], FLUSH), ([(b"WFS", 0, 8)], FULL)):
        watch, seen = Watch(), False
        for sample in by_hand([(2, "write"), (1, "stall"), (2, "write")]):
            stuck = sample.writing and watch.last and sample.done == watch.last.done
            watch.take(sample, traced if stuck and not seen else ())
            seen |= bool(stuck)
        assert [s.kind for s in watch.stalls] == [kind]


def test_empty_writes_are_flushes():
    samples = by_hand([(2, "write"), (1, "stall"), (2, "quiet")])
    end = samples[-1]
    samples.append(Sample(end.at_s + STEP, end.reads, end.read_sectors, end.writes + 1,
                          end.write_sectors, 0, 0, 0))
    stuck = [s for s in samples if s.writing]
    stuck.append(samples[-1])
    stuck[-1].at_s = stuck[-2].at_s + STEP
    assert [s.kind for s in watched(stuck).stalls] == [FLUSH]


def test_order_of_writes():
    order = explain.Order()
    order.take([(b"WS", 0, 8), (b"W", 8, 8), (b"R", 99, 8), (b"W", 16, 8), (b"W", 80, 8),
                (b"FF", 0, 0)])
    assert order.share() == 0.5 and explain.Order().share() is None


# --- watching a drive -----------------------------------------------------------------


class Series:
    """A series of recorded counters, with ^C at its end."""

    def __init__(self, samples):
        self.samples = iter(samples)

    def look(self):
        try:
            return next(self.samples)
        except StopIteration:
            raise KeyboardInterrupt from None


NOTHING_TRACED = SimpleNamespace(queued=lambda: [])


def test_stalls_are_printed_once_significant():
    """The first stalls are printed only when there are enough of them, then all at once."""
    said = []
    watch = explain.watch_it(Series(by_hand(CLEANS * 9)), NOTHING_TRACED, 0, said.append,
                             lambda _: None)
    assert len(said) == len(watch.stalls) == 9
    assert said[0].strip().startswith("4.9 s  cleaning, 1.0 s: it was being written to; before")
    watch = explain.watch_it(Series(by_hand(CLEANS * 3)), NOTHING_TRACED, 0, said.append,
                             lambda _: None)
    assert len(said) == 9 and len(watch.stalls) == 3


def test_repeated_evaluation_causes_no_false_alarm():
    """The evidence is evaluated after each stall, so it may seem significant once by chance, and
    later samples refute it. No line may be printed for such a moment."""
    said, others = [], [(6, "write"), (4, "read"), (1, "stuck"), (4, "read")] * 4
    assert watched(by_hand(CLEANS * 7)).answer()[0]
    watch = explain.watch_it(Series(by_hand(CLEANS * 7 + others)), NOTHING_TRACED, 0, said.append,
                             lambda _: None)
    assert len(watch.of(FULL)) == 7 and watch.answer()[0] is None
    assert not said


def test_vanished_drive_still_gets_an_answer():
    """If the drive disappears, explain still gives its answer from the samples so far. It is an
    error only if there are none."""
    said, series = [], Series(by_hand(CLEANS * 9))
    series.look, looks_ = lambda: gone(), series.look

    def gone():
        try:
            return looks_()
        except KeyboardInterrupt:
            raise device.Refused("sdx is not there any more") from None
    watch = explain.watch_it(series, NOTHING_TRACED, 0, said.append, lambda _: None)
    assert watch.answer()[0] and "sdx is not there any more" in said and len(said) == 10
    with pytest.raises(device.Refused):
        explain.watch_it(series, NOTHING_TRACED, 0, said.append, lambda _: None)


def test_reset_counters_end_the_watch():
    """If the counters go back, another drive has the name. Watching ends, because differences from
    the counters of the first drive mean nothing."""
    said, first = [], by_hand(CLEANS * 9)
    watch = explain.watch_it(Series(first + by_hand([(9, "write")])), NOTHING_TRACED, 0,
                             said.append, lambda _: None)
    assert watch.last == first[-1] and watch.answer()[0] and any("counters went back" in s for s in said)


def test_watch_ends_after_its_time():
    watch = explain.watch_it(Series(by_hand([(100, "write")])), NOTHING_TRACED, 7, print,
                             lambda _: None)
    assert 7 <= watch.last.at_s < 7.2


@pytest.fixture(name="disk")
def a_disk(tmp_path, monkeypatch):
    """/dev/model and its sysfs directory, which tests modify."""
    sys_, real = tmp_path / "sys", os.stat
    (sys_ / "part").mkdir(parents=True)
    for name, text in (("dev", "8:16"), ("stat", "1 0 8 9 2 0 16 9 1 9 9 3 0 24 9 4 9"),
                       ("inflight", "  5   6"), ("part/partition", "1")):
        (sys_ / name).write_text(text + "\n", encoding="ascii")
    monkeypatch.setattr(explain.os, "stat", lambda path, **more: SimpleNamespace(
        st_mode=stat.S_IFBLK, st_rdev=0) if path == "/dev/model" else real(path, **more))
    monkeypatch.setattr(explain.drive_properties, "disk_of", lambda _: sys_)
    return sys_


def test_counters_of_a_disk(disk):
    counters = explain.Counters("/dev/model", lambda: 7.0)
    assert counters.look() == Sample(7.0, 1, 8, 2, 16, 4, 5, 6, 3)
    assert counters.number == 8 << 20 | 16
    (disk / "stat").write_text("1 0 8 9 2 0 16 9 1 9 9\n")      # before Linux 4.18
    assert counters.look() == Sample(7.0, 1, 8, 2, 16, 0, 5, 6, 0)
    (disk / "stat").unlink()
    with pytest.raises(device.Refused, match="is not there any more"):
        counters.look()


def test_disk_without_iostats_is_refused(disk):
    """With queue/iostats 0 the kernel counts no requests, and explain would never see a stall."""
    (disk / "queue").mkdir()
    (disk / "queue/iostats").write_text("1\n")
    assert explain.Counters("/dev/model").sys == disk
    (disk / "queue/iostats").write_text("0\n")
    with pytest.raises(device.Refused, match="sys counts nothing"):
        explain.Counters("/dev/model")


@pytest.mark.parametrize("number", ["", "8", "x:y", None])
def test_stale_device_node_is_refused(disk, number):
    """A device node may outlive its drive, in a directory that udev does not manage."""
    (disk / "dev").unlink()
    if number is not None:
        (disk / "dev").write_text(number)
    with pytest.raises(device.Refused, match="/dev/model: there is no drive of the number 0:0"):
        explain.Counters("/dev/model")


def test_partition_is_watched_through_its_disk(tmp_path):
    (tmp_path / "sdx/sdx1").mkdir(parents=True)
    (tmp_path / "sdx/sdx1/partition").write_text("1")
    (tmp_path / "8:17").symlink_to(tmp_path / "sdx/sdx1")
    assert explain.drive_properties.disk_of(tmp_path / "8:17") == tmp_path / "sdx"
    assert explain.drive_properties.disk_of(tmp_path / "sdx") == tmp_path / "sdx"


@pytest.mark.parametrize("path, why", [("/dev/null", "is not a block device"),
                                       ("/nix/nothing", "No such file")])
def test_refusals_of_explain(path, why, capsys):
    assert cli.main(["explain", path]) == cli.USAGE
    assert why in capsys.readouterr().err
    assert cli.main(["explain", path, "--seconds", "-1"]) == cli.USAGE


def test_trace_lines_of_the_kernel_are_parsed(tmp_path, monkeypatch):
    """The tracer switches on one event for one device, and reads whole lines of it. It keeps an
    incomplete line for the next read."""
    monkeypatch.setattr(explain, "TRACING", (tmp_path / "none", tmp_path))
    def mkdir(self):
        event = self / "events/block/block_bio_queue"
        if not self.parent.is_dir():
            raise FileNotFoundError
        os.makedirs(event)
        (self / "trace_pipe").write_bytes(
            b"  fio-7  [000] ..... 1.5: block_bio_queue: 252,0 WS 2048 + 8 [fio]\n"
            b"  fio-7  [000] ..... 1.6: block_bio_queue: 252,0 FF 0 + 0 [fio]\n"
            b"  fio-7  [000] ..... 1.7: block_bio_qu")
    (tmp_path / "instances").mkdir()
    monkeypatch.setattr(Path, "mkdir", mkdir)
    tracer = explain.Tracer(77)
    event = tracer.folder / "events/block/block_bio_queue"
    assert (event / "filter").read_text() == "dev == 77" and (event / "enable").read_text() == "1"
    assert tracer.queued() == [(b"WS", 2048, 8), (b"FF", 0, 0)] and tracer.rest.endswith(b"bio_qu")
    (tracer.folder / "trace_pipe").write_bytes(b"")
    tracer.close()


def test_watch_works_without_tracing(tmp_path, monkeypatch):
    monkeypatch.setattr(explain, "TRACING", (tmp_path / "none",))
    tracer = explain.Tracer(77)
    assert tracer.queued() == [] and tracer.folder is None
    tracer.close()


def test_json_of_explain(disk, monkeypatch, capsys):
    series = Series(by_hand(CLEANS * 9))
    monkeypatch.setattr(explain.Counters, "look", lambda self: series.look())
    monkeypatch.setattr(explain, "Tracer", lambda number: SimpleNamespace(
        queued=lambda: [], close=lambda: None))
    monkeypatch.setattr(explain.time, "sleep", lambda _: None)
    made = cli.Screen
    monkeypatch.setattr(cli, "Screen", lambda: made(sys.stderr))
    assert cli.main(["explain", "/dev/model", "--json"]) == 0
    out = capsys.readouterr()
    said = json.loads(out.out)
    assert said["cleaning"] is True and said["confidence"] > 0.9 and len(said["stalls"]) == 9
    assert said["stalls"][1]["before"]["writes"] and said["versions"] == cli.versions()
    assert out.err.count("cleaning, ") == 9



@pytest.mark.parametrize("command, line", [
    ("command_run", ["run", "sdx", "--destroy-data"]), ("command_quick", ["quick", "sdx"]),
    ("command_explain", ["explain", "sdx"]), ("command_report", ["report", "out"]),
    ("command_compare", ["compare", "out"])])
def test_advice_after_interrupt_has_valid_options(monkeypatch, capsys, command, line):
    """After ^C only `run` advises how to continue, and only with options that the command has."""
    def interrupted(_):
        raise KeyboardInterrupt
    monkeypatch.setattr(cli, command, interrupted)
    monkeypatch.setattr(cli, "end_in_order", lambda: None)
    assert cli.main(line) == cli.INTERRUPTED
    said = capsys.readouterr().err
    assert said.startswith("\nskylight: interrupted")
    commands = next(a.choices for a in cli.parser()._actions if a.choices)
    has = {o for a in commands[line[0]]._actions for o in a.option_strings}
    advised = set(re.findall(r"--[a-z-]+", said))
    assert advised <= has
    assert bool(advised) == (line[0] == "run")
