# SPDX-License-Identifier: GPL-2.0
"""Tests of kvbench: arrivals have the right number and burstiness, keys and mixes follow YCSB's
definitions, and the executor reports late operations."""

import json
import math
import os
import shutil
import subprocess
from collections import Counter

import lab
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TOP, make

CLEAN, WRONG, FAILED, USAGE = 0, 4, 8, 16
PROCESSES = ("constant", "poisson", "self-similar", "diurnal")
S, MS = 10 ** 9, 10 ** 6


@pytest.fixture(scope="session", name="tool")
def build_tool():
    """Build kvbench with sanitizers: the results are the same, and errors in memory are detected.
    """
    if os.environ.get("SHINGLE_KVBENCH"):
        return os.environ["SHINGLE_KVBENCH"]
    make("userspace/kvbench", "SANITIZE=address,undefined")
    return str(TOP / "build/userspace/kvbench-address-undefined")


def run(tool, *args, rc=CLEAN):
    done = subprocess.run([tool, *map(str, args)], text=True, capture_output=True, check=False,
                          timeout=60)
    assert done.returncode == rc, f"{args}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if rc == CLEAN else done.stderr


def due(tool, process, *args):
    text = run(tool, "arrivals", "--arrivals", process, *args)
    return np.array(text.split(), np.int64)


def measured(tool, *args):
    return json.loads(run(tool, "run", "--json", *args))


def near(chance, n, sigmas=5):
    """Return how far a binomial count of @n may be from its mean."""
    return sigmas * math.sqrt(n * chance * (1 - chance)) + 1


def fits(counts, chances):
    """Compare counts with probabilities by Pearson's chi-square, at five standard deviations."""
    counts, chances = np.asarray(counts, float), np.asarray(chances, float)
    n = counts.sum()
    assert abs(chances.sum() - 1) < 1e-9 and (chances * n > 5).all()
    chi = ((counts - n * chances) ** 2 / (n * chances)).sum()
    df = len(counts) - 1
    return chi < df + 5 * math.sqrt(2 * df)


# --- arrivals -------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(process=st.sampled_from(PROCESSES), ops=st.integers(1, 3000),
       rate=st.sampled_from((0.5, 3, 777, 100_000, 50_000_000)), seed=st.integers(0, 2 ** 59))
def test_count_is_exact_and_order_kept(tool, process, ops, rate, seed):
    args = ("--ops", ops, "--target", rate, "--seed", seed)
    at = due(tool, process, *args)
    assert len(at) == ops and (np.diff(at) >= 0).all() and at[0] >= 0
    assert np.array_equal(at, due(tool, process, *args))


@pytest.mark.parametrize("process", PROCESSES[1:])
def test_seeds_give_different_arrivals(tool, process):
    one, other = (due(tool, process, "--ops", 1000, "--target", 1000, "--seed", seed)
                  for seed in (1, 2))
    assert not np.array_equal(one, other)
    # The other sequence is not the same one with another start.
    if process == "poisson":
        assert not set(np.diff(one)) & set(np.diff(other)) - set(range(1000))


def test_constant_arrivals(tool):
    for rate in (3, 1000, 10_000_000):
        at = due(tool, "constant", "--ops", 1000, "--target", rate)
        assert np.array_equal(at, [i * S // rate for i in range(1000)])


def test_poisson_gaps_are_exponential(tool):
    gaps = np.diff(due(tool, "poisson", "--ops", 100_001, "--target", 1000))
    edges = -np.log(1 - np.arange(20) / 20) * MS        # of twenty intervals of equal probability
    assert fits(np.histogram(gaps, np.append(edges, 1e18))[0], np.full(20, 0.05))
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 5 / math.sqrt(len(gaps))


def test_poisson_has_the_requested_rate(tool):
    for rate, seconds in ((1000, 60), (2_000_000, 1)):
        n = len(due(tool, "poisson", "--seconds", seconds, "--target", rate))
        assert abs(n - rate * seconds) < 5 * math.sqrt(rate * seconds)


def test_self_similar_without_bias_is_uniform(tool):
    at = due(tool, "self-similar", "--seconds", 4, "--target", 8192, "-p", "ss.bias=0.5")
    assert len(at) == 4 * 8192
    counts = np.bincount(at // (S // 1024), minlength=4096)
    assert (counts == 8).all()


@pytest.mark.parametrize("bias", (0.5, 0.65, 0.75, 0.9))
def test_self_similar_has_the_bias_at_each_level(tool, bias):
    """At each level one half has its share, at random the first or the second; the entropy of the
    counts is that of the b-model."""
    n = 1 << 17
    at = due(tool, "self-similar", "--ops", n, "--target", n / 8, "-p", f"ss.bias={bias}")
    assert len(at) == n and at[-1] < 8 * S
    first = []
    for depth in range(5):
        counts = np.histogram(at, 2 << depth, (0, 8 * S))[0].reshape(-1, 2)
        more = counts.max(1)
        assert (abs(more - bias * counts.sum(1)) <= 1).all()
        first += list(counts[:, 0] > counts[:, 1])
    if bias > 0.5:
        assert 3 < sum(first) < len(first) - 3          # of 31 random choices
    counts = np.histogram(at, 1 << 8, (0, 8 * S))[0]
    shares = counts[counts > 0] / n
    entropy = -(shares * np.log2(shares)).sum() / 8
    assert entropy == pytest.approx(
        -bias * math.log2(bias) - (1 - bias) * math.log2(1 - bias), abs=0.01)


def test_diurnal_follows_its_envelope(tool):
    """The counts equal the integral of the envelope to less than one, for each shape."""
    for shape, gaps in ((1.1, "pareto"), (1.5, "pareto"), (1.9, "exponential")):
        at = due(tool, "diurnal", "--seconds", 60, "--target", 50.3, "-p",
                 "diurnal.modulation=45", "-p", "diurnal.cyclelength=0.5", "-p",
                 f"diurnal.distribution.shape={shape}", "-p", f"diurnal.distribution={gaps}")
        second = np.arange(61)
        turn = 2 * np.pi / 30
        sums = 50.3 * second + 45 / turn * (1 - np.cos(turn * second))
        found = np.searchsorted(at, second * S)
        assert (abs(found - sums) < 1).all()
        assert len(at) == int(sums[-1])


def test_diurnal_gaps_are_pareto(tool):
    """With a nearly constant envelope the tail of the gaps falls as the shape determines."""
    for shape in (1.1, 1.9):
        at = due(tool, "diurnal", "--seconds", 20, "--target", 5000, "-p",
                 "diurnal.modulation=0", "-p", f"diurnal.distribution.shape={shape}")
        gaps = np.sort(np.diff(at))[::-1]
        # Hill's estimator over the largest tenth.
        k = len(gaps) // 10
        hill = 1 / np.mean(np.log(gaps[:k] / gaps[k]))
        assert hill == pytest.approx(shape, rel=0.15)


def test_diurnal_uncorrected_misses_the_rate(tool):
    """As in the thesis: with shape 1.1 the mean of Pareto gaps converges very slowly."""
    args = ("--seconds", 30, "--target", 1000, "-p", "diurnal.modulation=0", "-p",
            "diurnal.distribution.shape=1.1")
    assert len(due(tool, "diurnal", *args)) == 30_000
    drawn = [len(due(tool, "diurnal", *args, "--as-drawn", "--seed", s)) for s in range(5)]
    assert all(abs(n - 30_000) > 300 for n in drawn)


def test_formats_describe_the_same_arrivals(tool, tmp_path):
    """All formats describe the same arrivals, rounded to the units of each, and csv and iolog3
    have the same requests."""
    args = ("arrivals", "--arrivals", "self similar", "--ops", 5000, "--target", 1000)
    at = np.array(run(tool, *args).split(), np.int64)
    assert json.loads(run(tool, *args, "--format", "json"))["due_ns"] == at.tolist()
    counts = np.array(run(tool, *args, "--format", "counts").split(), np.int64)
    assert np.array_equal(counts, np.bincount(at // S))
    place = ("--size", "16M", "--reads", 30)
    csv = [line.split(",") for line in run(tool, *args, *place, "--format", "csv").split()]
    assert [int(row[0]) for row in csv] == (at // 100).tolist()
    run(tool, *args, *place, "--format", "iolog3", "--out", tmp_path / "x.iolog")
    lines = [line.split() for line in (tmp_path / "x.iolog").read_text().splitlines()]
    assert [" ".join(x) for x in lines[:3]] == ["fio version 3 iolog", "1 device add",
                                                "1 device open"]
    assert [int(x[0]) for x in lines[3:-1]] == (1 + at // 1000).tolist()
    assert [(x[2].capitalize(), x[3], x[4]) for x in lines[3:-1]] == \
        [(row[3], row[4], row[5]) for row in csv]
    assert lines[-1] == [lines[-2][0], "device", "close"]
    offsets = np.array([int(x[3]) for x in lines[3:-1]])
    assert (offsets % 4096 == 0).all() and offsets.max() < 16 << 20
    reads = sum(x[2] == "read" for x in lines[3:-1])
    assert abs(reads - 1500) < near(0.3, 5000)


@pytest.mark.parametrize("args", ((), ("--target", 5, "--format", "iolog3"),
                                  ("--target", 5, "--format", "frob")))
def test_refused_command_keeps_the_file(tool, tmp_path, args):
    out = tmp_path / "x.iolog"
    out.write_text("an older one")
    done = subprocess.run([tool, "arrivals", "-n", "5", "-o", out, *map(str, args)],
                          check=False, capture_output=True)
    assert done.returncode in (FAILED, USAGE) and out.read_text() == "an older one"


def test_device_nodes_are_not_removed(tool, tmp_path):
    """An incomplete log is removed if it is a regular file; a device is not."""
    out = tmp_path / "full"
    out.symlink_to("/dev/full")
    done = subprocess.run([tool, "arrivals", "-n", "5", "--target", "5", "-o", out],
                          check=False, capture_output=True, text=True)
    assert done.returncode == FAILED and "No space left" in done.stderr and out.is_symlink()


def test_seconds_without_arrivals_are_counted(tool):
    text = run(tool, "arrivals", "--target", 0.25, "--seconds", 10, "--format", "counts")
    assert text.split() == list("1000100010")


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not here")
def test_fio_sends_arrivals_in_time(tool, tmp_path):
    """fio accepts the iolog, sends all requests, and takes at least as long as the arrivals do."""
    with open(tmp_path / "disk", "wb") as f:
        f.truncate(16 << 20)
    args = ("arrivals", "--arrivals", "poisson", "--ops", 500, "--target", 500)
    run(tool, *args, "--size", "16M", "--reads", 50, "--format", "iolog3", "--out",
        tmp_path / "x.iolog")
    at = np.array(run(tool, *args).split(), np.int64)
    done = subprocess.run(
        ["fio", "--name=x", f"--read_iolog={tmp_path}/x.iolog", "--output-format=json",
         f"--replay_redirect={tmp_path}/disk"],
        text=True, capture_output=True, check=True, cwd=tmp_path, timeout=60)
    job = json.loads(done.stdout)["jobs"][0]
    assert job["read"]["total_ios"] + job["write"]["total_ios"] == 500
    assert job["read"]["io_bytes"] + job["write"]["io_bytes"] == 500 * 4096
    took_ms = max(job["read"]["runtime"], job["write"]["runtime"])
    assert took_ms >= at[-1] / MS - 5


def test_loads_reads_the_csv(tool, tmp_path):
    run(tool, "arrivals", "--arrivals", "poisson", "--ops", 3000, "--target", 1000, "--size",
        "4M", "--format", "csv", "--out", tmp_path / "x.csv")
    done = subprocess.run([TOP / "scripts/loads/run", "convert", tmp_path / "x.csv", "--json"],
                          text=True, capture_output=True, check=True)
    assert json.loads(done.stdout)["measured"]["requests"] == 3000


# --- keys and mixes -------------------------------------------------------------------


def fnv64(value):
    """Utils.fnvhash64 of YCSB."""
    h = 0xCBF29CE484222325
    for byte in value.to_bytes(8, "little"):
        h = (h ^ byte) * 1099511628211 % 2 ** 64
    return h if h < 2 ** 63 else 2 ** 64 - h


def ops(tool, *args):
    """Return [(kind, key, records)]."""
    lines = (line.split() for line in run(tool, "run", "--dry-run", *args).splitlines())
    return [(x[0], x[1], int(x[2]) if x[2:] else 1) for x in lines]


def records(tool, *args):
    """Return the numbers of the records that reads request."""
    found = ops(tool, "-w", "c", "-p", "insertorder=ordered", *args)
    return np.array([int(key.removeprefix("user")) for _, key, _ in found])


MIXES = {
    "load": {"insert": 1}, "a": {"read": .5, "update": .5}, "b": {"read": .95, "update": .05},
    "c": {"read": 1}, "d": {"read": .95, "insert": .05}, "e": {"scan": .95, "insert": .05},
    "f": {"read": .5, "readmodifywrite": .5}, "fillseq": {"insert": 1},
    "fillrandom": {"update": 1}, "overwrite": {"update": 1}, "readrandom": {"read": 1},
    "readseq": {"scan": 1}, "deleterandom": {"delete": 1},
    "queue": {"insert": .4, "delete": .4, "scan": .2},
}


@pytest.mark.parametrize("name", MIXES)
def test_mixes_of_operations(tool, name):
    n = 10_000
    found = Counter(kind for kind, _, _ in ops(tool, "-w", name, "-n", n, "-r", n))
    assert set(found) == set(MIXES[name])
    for kind, share in MIXES[name].items():
        assert abs(found[kind] - share * n) < near(share, n)


def test_keys_equal_those_of_ycsb(tool):
    assert [key for _, key, _ in ops(tool, "-w", "load", "-r", 50)] == \
        [f"user{fnv64(i)}" for i in range(50)]
    assert [key for _, key, _ in ops(tool, "-w", "load", "-r", 3, "-p", "insertorder=ordered",
                                     "-p", "zeropadding=6", "-p", "insertstart=8")] == \
        ["user000008", "user000009", "user000010"]
    assert [key for _, key, _ in ops(tool, "-w", "fillseq", "-r", 2)] == \
        ["0000000000000000", "0000000000000001"]


def test_queue_deletes_the_oldest(tool):
    """Each record is deleted once, in order; a read returns the oldest record that is left."""
    head, tail = 0, 300
    for kind, key, many in ops(tool, "-w", "queue", "-n", 5000, "-r", tail):
        assert many == 1
        if kind == "insert":
            assert int(key) == tail
            tail += 1
        else:
            assert int(key) == min(head, tail - 1)
            head += kind == "delete" and head < tail
    assert head > 1900 and tail > 2200
    got = measured(tool, "-s", "memory", "--load", "-w", "queue", "-n", 5000, "-r", tail, "-t", 4)
    kept = tail + got["ops"]["insert"]["service"]["count"] \
        - got["ops"]["delete"]["service"]["count"]
    assert got["store_stats"]["records"] == kept


def gray(n, theta, zeta):
    """Return the probabilities of the ranks 0, 1, ... by the method of Gray and others, in closed
    form."""
    eta = (1 - (2 / n) ** (1 - theta)) / (1 - (1 + 0.5 ** theta) / zeta)

    def below(rank):
        """Return the probability of a lower rank than @rank, for ranks from 2 on."""
        return max((1 + 0.5 ** theta) / zeta, ((rank / n) ** (1 - theta) - 1 + eta) / eta)
    return 1 / zeta, (1 + 0.5 ** theta) / zeta, below


@pytest.mark.parametrize("theta", (0.5, 0.9))
def test_zipfian_ranks(tool, theta):
    """The newest record has rank 0. The counts of ranks are compared with their probabilities."""
    n = 1000
    zeta = sum(i ** -theta for i in range(1, n + 1))
    first, second, below = gray(n, theta, zeta)
    rank = n - 1 - records(tool, "--requests", "latest", "-n", 200_000, "-r", n, "-p",
                           f"zipfian.constant={theta}")
    edges = [0, 1, 2, 3, 4, 5, 7, 10, 20, 50, 100, 200, 400, 600, 800, n]
    chance = [0, first, second, *(below(e) for e in edges[3:])]
    assert chance[-1] == pytest.approx(1)
    assert fits(np.histogram(rank, edges)[0], np.diff(chance))
    # These differ from Zipf's probabilities by a few percent only.
    for low, high, part in zip(edges[3:], edges[4:], np.diff(chance)[3:]):
        assert part == pytest.approx(
            sum((i + 1) ** -theta for i in range(low, high)) / zeta, rel=0.15)


def test_scattered_zipfian(tool):
    """Ranks of 10^10 items are scattered by FNV; the most popular ones have the right places."""
    n, count = 1000, 200_000
    zeta = 26.46902820178302
    got = Counter(records(tool, "--requests", "zipfian", "-n", count, "-r", n).tolist())
    _, second, below = gray(10 ** 10, 0.99, zeta)
    chance = np.zeros(n)
    known = 200_000
    edges = np.concatenate([[0, 1 / zeta, second], [below(i) for i in range(3, known + 1)]])
    np.add.at(chance, [fnv64(i) % n for i in range(known)], np.diff(edges))
    chance += (1 - edges[-1]) / n           # rarer ranks are spread over all places
    assert fits([got[i] for i in range(n)], chance)
    assert max(got, key=got.get) == fnv64(0) % n


def test_uniform_and_hotspot(tool):
    n = 100
    got = np.bincount(records(tool, "--requests", "uniform", "-n", 50_000, "-r", n))
    assert fits(got, np.full(n, 1 / n))
    got = np.bincount(records(tool, "--requests", "hotspot", "-n", 50_000, "-r", n, "-p",
                              "hotspotdatafraction=0.1", "-p", "hotspotopnfraction=0.7"))
    assert fits(got, [0.07] * 10 + [0.3 / 90] * 90)


def test_zipfian_requests_existing_records(tool):
    """Ranks are scattered over the final number of records; an operation never requests one that
    does not exist yet."""
    there = 200
    for kind, key, _ in ops(tool, "-w", "e", "-n", 5000, "-r", there, "-p",
                            "insertorder=ordered"):
        record = int(key.removeprefix("user"))
        assert record == there if kind == "insert" else record < there
        there += kind == "insert"


def test_latest_follows_inserts(tool):
    """Operations request only existing records, and mostly the newest ones."""
    there, ages = 1000, []
    for kind, key, _ in ops(tool, "-w", "d", "-n", 40_000, "-r", there, "-p",
                            "insertorder=ordered", "-p", "zipfian.constant=0.9"):
        record = int(key.removeprefix("user"))
        if kind == "insert":
            assert record == there
            there += 1
        else:
            assert record < there
            ages.append(there - 1 - record)
    # zeta is updated incrementally; the result equals that for the number of records in the middle.
    middle = sum(i ** -0.9 for i in range(1, 2001))
    assert ages.count(0) / len(ages) == pytest.approx(1 / middle, rel=0.05)


def test_lengths_of_scans(tool):
    found = [n for kind, _, n in ops(tool, "-w", "e", "-n", 20_000) if kind == "scan"]
    assert fits(np.bincount(found, minlength=101)[1:], np.full(100, 0.01))
    found = [n for _, _, n in ops(tool, "-w", "e", "-n", 5000, "-p",
                                  "scanlengthdistribution=zipfian")]
    assert found.count(1) > found.count(2) > found.count(10)
    assert [int(key) for _, key, _ in ops(tool, "-w", "readseq", "-r", 3500, "-n", 5)] == \
        [0, 1000, 2000, 3000, 500]


# --- the executor ---------------------------------------------------------------------


def test_loaded_records_are_found(tool):
    for threads in (1, 7):
        for name in "abcdef":
            got = measured(tool, "-s", "memory", "--load", "--verify", "-w", name, "-n", 4000,
                           "-r", 700, "-t", threads, "--value", "100B")
            assert got["operations"] == 4000
            assert sum(op["service"]["count"] for op in got["ops"].values()) == 4000
            for op in got["ops"].values():
                assert op["missing"] == op["wrong"] == op["failed"] == 0
            inserts = got["ops"].get("insert", {"service": {"count": 0}})["service"]["count"]
            assert got["store_stats"]["records"] == 700 + inserts
    got = measured(tool, "-s", "memory", "--load", "-w", "deleterandom", "-n", 5000, "-r", 10)
    assert got["store_stats"]["records"] == 0


def test_missing_and_wrong_records_are_reported(tool):
    """Reads of absent records are counted. Wrong values, which --verify detects, give exit
    status 4."""
    got = measured(tool, "-s", "memory", "-w", "c", "-n", 100)
    assert got["ops"]["read"]["missing"] == 100
    # The null store pretends to have every record, and has none.
    out = run(tool, "run", "-s", "null", "-w", "c", "--verify", "-n", 100, rc=WRONG)
    assert out == ""


def test_scans_return_records(tool):
    got = measured(tool, "-s", "memory", "--load", "-w", "readseq", "-r", 3000, "-n", 3)
    assert got["ops"]["scan"]["records"] == 3000


def test_response_time_includes_lateness(tool):
    """One thread that can do 100 operations a second gets 1000 a second. The waiting time counts
    as lateness and in the response time, but not in the service time."""
    got = measured(tool, "--delay", 10_000, "--target", 1000, "-n", 60, "-t", 1, "-w", "c",
                   "--late", 5000)
    times, late = got["ops"]["read"], got["arrivals"]
    assert late["due_s"] == pytest.approx(0.059, abs=1e-3)
    assert got["seconds"] > 0.6
    assert late["late"] >= 59 and late["queued"] >= 59
    # The last operation is due at 59 ms; 59 others of 10 ms each come before it.
    assert late["lateness"]["max_us"] > 500_000
    assert times["service"]["p50_us"] < 0.2 * times["response"]["p50_us"]
    assert times["response"]["max_us"] >= late["lateness"]["max_us"]


def test_log_has_due_times(tool, tmp_path):
    args = ("--arrivals", "poisson", "--target", 2000, "-n", 400, "--seed", 5)
    run(tool, "run", *args, "-t", 4, "-w", "c", "--log", tmp_path / "log")
    rows = sorted(line.split() for line in (tmp_path / "log").read_text().splitlines())
    rows.sort(key=lambda r: int(r[0]))
    assert [int(r[2]) for r in rows] == due(tool, "poisson", *args[2:]).tolist()
    assert all(r[1] == "read" and int(r[2]) <= int(r[3]) <= int(r[4]) for r in rows)


def boot_virtual():
    """Run under a virtual clock. Its times are exact, and it moves only while all threads sleep."""
    make("userspace/kvbench")
    program = f"{TOP}/build/userspace/kvbench run --json -w c"
    return lab.run("\necho ---\n".join(f"{program} {args}" for args in (
        "--delay 10000 --target 400 -n 400 -t 16",
        "--delay 10000 --target 1000 -n 60 -t 1",
        "--delay 1000 --seconds 1 -t 2",
        "--arrivals poisson --target 1000 -n 5000 -t 4")),
                   kernel="uml", clock="virtual", timeout=600)


@pytest.mark.boots(run=boot_virtual, kernel=lambda: "uml")
def test_open_loop_under_a_virtual_clock(guest):
    """Under a virtual clock, lateness, response times and service times have their computed values:
    operations start when they are due, however slow the earlier ones are."""
    assert guest.ok, str(guest)
    enough, slow, timed, poisson = map(json.loads, guest.out.split("---"))
    # Each operation takes 10 ms and 400 arrive each second: with 16 threads no operation waits.
    assert enough["arrivals"]["queued"] == enough["arrivals"]["late"] == 0
    assert enough["seconds"] == pytest.approx(399 / 400 + 0.01, abs=1e-3)
    assert enough["ops"]["read"]["response"]["max_us"] == pytest.approx(10_000, rel=0.01)
    # One thread that can do 100 operations a second gets 1000 a second. The last one is due at 59
    # ms and waits for 59 others; its service time does not include that.
    assert slow["arrivals"]["due_s"] == pytest.approx(0.059)
    assert slow["arrivals"]["queued"] == 59 and slow["arrivals"]["late"] == 59
    assert slow["arrivals"]["lateness"]["max_us"] == pytest.approx(590_000 - 59_000, rel=0.01)
    assert slow["ops"]["read"]["response"]["max_us"] == pytest.approx(541_000, rel=0.01)
    assert slow["ops"]["read"]["service"]["max_us"] == pytest.approx(10_000, rel=0.01)
    # Operations follow each other without a pause until the time is up.
    assert timed["operations"] == pytest.approx(2000, abs=4)
    assert timed["seconds"] == pytest.approx(1, abs=0.002)
    assert poisson["arrivals"]["late"] == 0
    assert poisson["arrivals"]["lateness"]["p99_us"] < 100


def test_ends_after_its_seconds(tool):
    got = measured(tool, "--seconds", 1, "-w", "c", "--delay", 1000, "-t", 2)
    assert got["seconds"] >= 1 and 0 < got["operations"] <= 2000


def test_progress_only_on_a_terminal(tool):
    done = subprocess.run([tool, "run", "-n", "1200", "--delay", "1000", "-w", "c"], text=True,
                          capture_output=True, check=True)
    assert done.stderr == ""
    done = subprocess.run(["script", "-qec", f"{tool} run -n 1200 --delay 1000 -w c",
                           "/dev/null"], text=True, capture_output=True, check=True)
    assert " s left" in done.stdout


@pytest.mark.parametrize("argv, says", [
    (("run", "-w", "g"), "there is no workload 'g'"),
    (("run", "-p", "ss.bais=0.7"), "there is no property 'ss.bais'"),
    (("run", "-p", "ss.bias=1"), "ss.bias '1' is not a number from 0.5 to 0.999999"),
    (("run", "-p", "ss.bias"), "'ss.bias' is not KEY=VALUE"),
    (("run", "-P", "/nowhere"), "/nowhere: No such file"),
    (("run",), "give --ops or --seconds"),
    (("run", "--arrivals", "poisson", "-n", 1), "--arrivals requires a rate: --target"),
    (("run", "--arrivals", "pareto"), "arrivalgenerator 'pareto' is not known"),
    (("run", "--store", "memory", "-p", "fieldlengthdistribution=zipfian"),
     "fieldlengthdistribution 'zipfian' is not known: there is constant"),
    (("run", "--store", "memory", "-p", "requestdistribution=exponential"),
     "requestdistribution 'exponential' is not known: there are uniform, zipfian, latest, "),
    (("run", "--store", "memory", "-p", "scanlengthdistribution=constant"),
     "scanlengthdistribution 'constant' is not known: there are uniform, zipfian"),
    (("run", "-p", "readproportion=0.9", "-n", 1), "do not add up to 1"),
    (("run", "-r", 0, "--seconds", 1, "-p", "insertproportion=0.9995", "-p",
      "readproportion=0.0005", "-p", "updateproportion=0"), "there are no records"),
    (("run", "-s", "redis"), "there is no store 'redis'"),
    (("run", "-s", "memory", "-d", "x", "-n", 1), "--store memory uses no device"),
    (("run", "-d", "x", "-n", 1, "--stream=1"), "--stream 1 has no unit"),
    (("run", "-t", 0), "threadcount 0 is out of bounds"),
    (("run", "--value", "10"), "--value 10 has no unit"),
    (("arrivals", "--target", 10), "give a number of operations or of seconds"),
    (("arrivals", "-n", 1), "the rate must be from"),
    (("arrivals", "-n", 1, "--target", 1, "--format", "iolog3"), "--size must be given"),
    (("arrivals", "-n", 1, "--target", 1, "--format", "csv", "--size", "1M", "--requests",
      "latest"), "--requests latest does not apply to a device"),
    (("arrivals", "-n", 1, "--target", 1, "--format", "iolog3", "--size", "1M", "--device",
      "a b"), "fio does not accept the name 'a b'"),
    (("arrivals", "--arrivals", "diurnal", "-n", 1, "--target", 10, "-p",
      "diurnal.modulation=11"), "the modulation must be at least 0 and at most the rate"),
    (("arrivals", "x"), "'x' is one argument too many"),
    (("fly",), "COMMAND 'fly' is not known"),
])
def test_refused_with_one_line(tool, argv, says):
    done = subprocess.run([tool, *map(str, argv)], text=True, capture_output=True, check=False)
    assert done.returncode in (FAILED, USAGE) and done.stdout == ""
    assert says in done.stderr and done.stderr.startswith("kvbench")
    assert done.stderr.count("\n") == 1


def test_properties_from_a_file(tool, tmp_path):
    """A workload file of YCSB itself, followed by keys of the thesis."""
    (tmp_path / "w").write_text("""# Yahoo! Cloud System Benchmark
recordcount=500
operationcount = 300
workload=site.ycsb.workloads.CoreWorkload

readallfields=true
readproportion=0.25
updateproportion: 0.75
requestdistribution=zipfian
arrivalgenerator=self similar
ss.bias=0.65
target=1000
""")
    got = measured(tool, "-P", tmp_path / "w")
    assert got["records"] == 500 and got["operations"] == 300
    assert got["requests"] == "zipfian"
    assert got["arrivals"]["process"] == "self-similar" and got["arrivals"]["ss.bias"] == 0.65
    assert abs(got["ops"]["read"]["service"]["count"] - 75) < near(0.25, 300)


def test_ends_with_few_existing_records(tool):
    """Ranks are scattered over the final number of records, of which few exist yet and most never
    will."""
    got = measured(tool, "-w", "e", "-r", 10, "-n", 10 ** 15, "--seconds", 1)
    assert got["operations"] > 10


def test_empty_values(tool):
    for workload in "load", "fillseq":
        got = measured(tool, "-s", "memory", "-w", workload, "-n", 10, "--value", "0B")
        assert got["value_bytes"] == 0


def test_signal_stops_with_a_report(tool):
    with subprocess.Popen([tool, "run", "--target", "1", "-n", "1000", "-w", "c", "--json"],
                          text=True, stdout=subprocess.PIPE) as child:
        try:
            child.wait(0.5)
        except subprocess.TimeoutExpired:
            child.terminate()
        out, _ = child.communicate(timeout=60)
    assert child.returncode == CLEAN and json.loads(out)["stopped"]


# --- the store ------------------------------------------------------------------------

with_store = pytest.mark.skipif(not (TOP / "userspace/kv/Makefile").exists(),
                                reason="the store is not here")


@pytest.fixture(name="disk")
def make_disk(tmp_path):
    """Make a file with a store by 'kv format'."""
    make("userspace/kv")
    path = tmp_path / "disk"
    with open(path, "wb") as f:
        f.truncate(256 << 20)
    kv("format", "--band", "1M", path)
    return path


def kv(*args):
    return subprocess.run([TOP / "build/userspace/kv", *map(str, args)], text=True,
                          capture_output=True, check=True).stdout


@with_store
def test_store_keeps_loaded_records(tool, disk):
    size = ("-d", disk, "-r", 3000, "--value", "700B")
    run(tool, "load", *size, "-t", 3)
    there = 3000
    for name in "abcdef":
        got = measured(tool, *size, "-w", name, "-n", 3000, "-t", 3, "--verify", "-p",
                       f"insertstart={there - 3000}", "--seed", there)
        for op in got["ops"].values():
            assert op["missing"] == op["wrong"] == op["failed"] == 0
        there += got["ops"].get("insert", {"service": {"count": 0}})["service"]["count"]
        gets = sum(got["ops"].get(k, {"service": {"count": 0}})["service"]["count"]
                   for k in ("read", "readmodifywrite"))
        assert got["store_stats"]["gets"] == gets
    assert kv("scan", disk).count("user") >= there > 3000
    kv("check", disk)


@with_store
def test_store_lacks_deleted_records(tool, disk):
    size = ("-d", disk, "-r", 500, "-w")
    deletes = ("deleterandom", "-n", 300, "--seed", 3)
    gone = {key for _, key, _ in ops(tool, "-r", 500, "-w", *deletes)}
    run(tool, "load", *size, "fillseq")
    run(tool, "run", *size, *deletes)
    got = measured(tool, *size, "readrandom", "--requests", "sequential", "-n", 500, "--verify")
    assert got["ops"]["read"]["missing"] == len(gone) > 200
    assert got["ops"]["read"]["wrong"] == 0


@with_store
def test_store_under_arrivals(tool, disk):
    got = measured(tool, "-d", disk, "-w", "load", "-n", 1000, "--target", 4000, "--arrivals",
                   "self-similar", "-t", 8, "--sync")
    assert got["ops"]["insert"]["response"]["count"] == 1000
    assert got["store_stats"]["puts"] == 1000 and got["store_stats"]["syncs"] > 0
    assert got["arrivals"]["lateness"]["count"] == 1000


@with_store
def test_store_with_an_offload_device(tool, disk, tmp_path):
    (tmp_path / "spare").write_bytes(bytes(8 << 20))
    kv("format", "--force", "--band", "1M", "--organisation", "buffered", disk)
    kv("offload", disk, tmp_path / "spare")
    got = measured(tool, "-d", disk, "--offload", tmp_path / "spare", "-w", "load", "-n", 3000,
                   "-t", 3, "--l0-trigger", 1)["store_stats"]
    assert got["puts"] == 3000 and got["unsorted_bands"] + got["compactions"] > 0
    assert got["offload_bands"] == 7 >= got["offload_bands_free"]
    assert got["offloaded_bytes"] <= got["user_bytes"] and got["offloaded_writes"] <= got["puts"]
    assert kv("scan", "--keys", "--offload", tmp_path / "spare", disk).count("user") == 3000


@with_store
def test_device_without_a_store_is_refused(tool, tmp_path):
    (tmp_path / "x").write_bytes(bytes(1 << 24))
    said = run(tool, "run", "-d", tmp_path / "x", "-n", 1, rc=FAILED)
    assert said.startswith("kvbench: ") and said.count("\n") == 1
    assert "--store kv needs --device" in run(tool, "run", "-s", "kv", "-n", 1, rc=USAGE)


@with_store
def test_around_determines_read_size(tool, disk):
    """--around determines how much a get reads around its block: with 1 MiB the store reads more
    bytes than with 4 KiB."""
    measured(tool, "-d", disk, "-w", "fillrandom", "-r", 3000, "-n", 3000, "--value", "1K")

    def read(*words):
        got = measured(tool, "-d", disk, "-w", "readrandom", "-r", 3000, "-n", 60, "--value",
                       "1K", "--verify", *words)
        assert got["ops"]["read"]["wrong"] == 0
        return got["store_stats"]["read_bytes"]
    assert read("--around", "4K") < read("--around", "1M")
    assert "around a block" in run(tool, "run", "-d", disk, "-n", 1, "--around", "4097B",
                                   rc=FAILED)


@with_store
def test_stream_writes_padding(tool, disk):
    """With --stream the store writes padding, and without it none. The records are right in both
    cases."""
    def got_of(name, *words):
        return measured(tool, "-d", disk, "-w", name, "-r", 3000, "-n", 3000, "--value", "1K",
                        "--verify", *words)
    assert got_of("fillseq")["store_stats"]["pad_bytes"] == 0
    assert got_of("overwrite", "--stream=32K")["store_stats"]["pad_bytes"] > 0
    got = got_of("readrandom", "--stream")
    assert got["ops"]["read"]["missing"] == got["ops"]["read"]["wrong"] == 0
    assert "lead" in run(tool, "run", "-d", disk, "-n", 1, "--stream=4097B", rc=FAILED)


@with_store
def test_store_without_a_log_is_durable_at_the_end(tool, disk):
    """Without a log, all data are in a table at the end of the run, so they are durable."""
    got = measured(tool, "-d", disk, "-w", "load", "-n", 300, "--value", "1K", "--no-log")
    assert got["store_stats"]["log_bytes"] == 0 and sum(got["store_stats"]["level_bands"]) == 1
    assert kv("scan", "--keys", disk).count("user") == 300


@with_store
def test_store_without_a_thread_merges_in_writes(tool, disk):
    """Without a thread, the write that makes a merge due carries it out itself: none is left at
    the end, and two runs are identical."""
    def got():
        kv("format", "--force", "--band", "1M", disk)
        of = measured(tool, "-d", disk, "-w", "load", "-n", 6000, "--value", "1K",
                      "--no-thread", "--memtable", "256K")["store_stats"]
        return {name: value for name, value in of.items() if not name.endswith("_us")}
    once = got()
    assert once["level_bands"][0] < 4 and once["compactions"] > 3
    assert got() == once


def have(tool, name):
    """Return whether kvbench was built with store @name. Without a path no store is opened."""
    return "there is no store" not in run(tool, "run", "-s", name, "-n", 1, rc=USAGE)


@pytest.fixture(name="store", params=("kv", "leveldb", "rocksdb"))
def each_store(request, tool, tmp_path):
    """Options for an empty store of each kind, with memtables so small that tables are written."""
    name = request.param
    if not have(tool, name):
        pytest.skip(f"kvbench was built without {name}")
    path = tmp_path / "directory"
    if name == "kv":
        path = request.getfixturevalue("disk")
    return ("-s", name, "-d", path, "--memtable", "256K", "--cache", "1M")


def held(tool, model, *words):
    """Apply the operations of @words to a dict-like model, and return its counts."""
    missing = found = 0
    for kind, key, number in ops(tool, *words):
        if kind == "delete":
            model.discard(key)
        elif kind in ("insert", "update"):
            model.add(key)
        elif kind == "read":
            missing += key not in model
        else:
            found += min(number, sum(k >= key for k in model))
    return {"missing": missing, "records": found}


def test_each_store_agrees_with_a_model(tool, store):
    """Keys are written, deleted and written again. Each read returns the last written value, and
    each scan the number of records that exist from its key on."""
    size = ("-r", 1500, "--value", "600B")
    model = set()
    for words in (("fillrandom", "-n", 3000), ("deleterandom", "-n", 800, "--seed", 2),
                  ("overwrite", "-n", 500, "--seed", 3)):
        measured(tool, *store, "-w", *words, *size)
        held(tool, model, "-w", *words, *size)
    assert 800 < len(model) < 1400
    scan = ("readseq", "--requests", "uniform", "-p", "minscanlength=1", "-n", 60)
    for words in (("readrandom", "--requests", "sequential", "-n", 1500), scan,
                  (*scan, "--seed", 2)):
        got, = measured(tool, *store, "-w", *words, *size, "-t", 3, "--verify")["ops"].values()
        expected = held(tool, model, "-w", *words, *size)
        assert got["wrong"] == got["failed"] == 0
        assert got["missing"] == expected["missing"]
        assert got.get("records", 0) == expected["records"]
    assert expected["records"] > 2000


def test_each_store_reports_syncs_and_tables(tool, store):
    """Each store syncs as requested and writes tables of its data."""
    # Three memtables: even a store that writes them in the background has a table before the third
    # one is written.
    n = 800
    got = measured(tool, *store, "-w", "load", "-n", n, "--value", "1K", "--sync")
    assert got["store"] == store[1] and got["ops"]["insert"]["service"]["count"] == n
    stats = got["store_stats"]
    assert sum(stats["level_bands" if store[1] == "kv" else "level_files"]) > 0
    # Open the existing store instead of a new one.
    got = measured(tool, *store, "-r", n, "-w", "c", "-n", 500, "--value", "1K", "--verify")
    assert got["ops"]["read"]["missing"] == got["ops"]["read"]["wrong"] == 0


@pytest.mark.parametrize("name,words,says", (
    ("leveldb", ("--no-log",), "LevelDB has"), ("leveldb", ("--l0-trigger", 8), "LevelDB has"),
    ("leveldb", ("--stream",), "LevelDB has"), ("rocksdb", ("--stream",), "RocksDB has n"),
    ("leveldb", ("--no-thread",), "LevelDB has"),
    ("rocksdb", ("--no-thread",), "RocksDB has n"),
    ("leveldb", ("--around", "64K"), "LevelDB has"),
    ("rocksdb", ("--around", "64K"), "RocksDB has n"),
    ("leveldb", (), "file"), ("rocksdb", (), "file"),
))
def test_each_store_refuses_unsupported_options(tool, tmp_path, name, words, says):
    if not have(tool, name):
        pytest.skip(f"kvbench was built without {name}")
    (tmp_path / "file").write_text("is no directory")
    said = run(tool, "run", "-s", name, "-d", tmp_path / "file", "-n", 1, *words, rc=FAILED)
    assert says in said and said.startswith("kvbench: ") and said.count("\n") == 1


@pytest.mark.parametrize("args", (("run", "-n", 1, "--thread", 1),
                                  ("arrivals", "--forma=csv", "-n", 1)))
def test_abbreviated_options_are_refused(tool, args):
    word = next(str(a) for a in args if str(a).startswith("--"))
    assert f"option {word} is not known" in run(tool, *args, rc=USAGE)


def keys_of(tool, *args):
    return {line.split()[1] for line in
            run(tool, *args, "--records", 50, "--dry-run").splitlines()}


@pytest.mark.parametrize("name", ("overwrite", "readrandom", "deleterandom"))
def test_workloads_use_their_own_records(tool, name):
    """As in kvbench.rst: a workload uses the records of a fill, or of a load of the same workload,
    and no others."""
    asked = keys_of(tool, "run", "-w", name, "-n", 500)
    assert asked == keys_of(tool, "run", "-w", "fillseq", "-n", 50) == \
        keys_of(tool, "load", "-w", name)
    assert not asked & keys_of(tool, "load")


DIURNAL = ("--target", 5, "-n", 3, "--arrivals", "diurnal", "-p", "diurnal.modulation=6")


@pytest.mark.parametrize("words,args", (
    ("--size must be given", ("arrivals", "--format", "csv", "--target", 5, "-n", 3)),
    ("the rate must be", ("arrivals", "-n", 3)), ("the rate must be", ("arrivals", "--target", 0)),
    ("give a number of operations", ("arrivals", "--target", 5)),
    ("at most the rate", ("arrivals", *DIURNAL)), ("at most the rate", ("run", *DIURNAL)),
    ("fio does not accept", ("arrivals", "--format", "iolog3", "--target", 5, "-n", 3,
                             "--size", "1M", "--device", "a:b")),
    ("latest does not apply", ("arrivals", "--format", "csv", "--target", 5, "-n", 3, "--size", "1M",
                           "--requests", "latest")),
    *(("a multiple of 512", ("arrivals", "--format", form, "--target", 5, "-n", 3, "--size", "1M",
                             "--block", block))
      for form in ("csv", "iolog3") for block in ("3000B", "1B", "4097B")),
))
def test_contradicting_options_are_refused(tool, words, args):
    """Options that contradict each other or are missing give exit status 16, as kvbench.1 says,
    and no output."""
    done = subprocess.run([tool, *map(str, args)], text=True, capture_output=True, check=False)
    assert done.returncode == USAGE and words in done.stderr and not done.stdout, done


# The properties in YCSB's own template; each belongs to one binding, or to the reports of YCSB.
TEMPLATE = """\ufeff# Yahoo! Cloud System Benchmark\r
workload=site.ycsb.workloads.CoreWorkload\r
recordcount=10\r
maxscanrate=0\r
discardscannedrecord=false\r
mongodb.url=mongodb://localhost\r
measurementtype=hdrhistogram\r
\x1a"""


def test_workload_file_of_ycsb(tool, tmp_path):
    """The file has properties of other stores, and the byte order mark and line ends of other
    systems."""
    (tmp_path / "workload").write_text(TEMPLATE, encoding="utf-8", newline="")
    words = (tool, "run", "--store", "memory", "--load", "-P", tmp_path / "workload",
             "-p", "operationcount=5")
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True, check=True)
    assert done.stderr == ("kvbench: ignored properties of other stores: maxscanrate, "
                           "discardscannedrecord, mongodb.url, measurementtype\n")
    (tmp_path / "wide").write_text(TEMPLATE, encoding="utf-16", newline="")
    said = run(tool, "run", "--store", "memory", "-P", tmp_path / "wide", rc=USAGE)
    assert "is in UTF-16" in said


@pytest.mark.parametrize("name", ["maxscanrat", "diurnal.modulaton", "zipfian.constnt", "recordcont"])
def test_misspelt_property_is_an_error(tool, name):
    """A misspelt property is an error, although kvbench ignores the properties of other stores."""
    assert f"there is no property '{name}'" in run(tool, "run", "-p", f"{name}=1", rc=USAGE)
