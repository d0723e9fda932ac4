# SPDX-License-Identifier: GPL-2.0
"""scripts/experiments read-seek and its loads: formats of traces, the patterns of Hajkazemi's Figure 7,
synthetic loads with the counts of Table I, and the figures, statements and pictures of a run."""

import bz2
import contextlib
import gzip
import json
import os
import re
import struct
import subprocess
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from loads import generate, hajkazemi, sectors
from loads.requests import Refused
from programs import TOP

READ, WRITE, DISCARD = range(3)
# Each file has a read of sectors 63 to 70 and a write of sectors 71 and 72.
EXPECTED = [(63, 8, READ), (71, 2, WRITE)]
FILES = {
    "MSR Cambridge": (b"128166372003061629,hm,1,Read,32256,4096,100\n"
                      b"128166372003061630,hm,1,Write,36352,1024,100\n", "hm_1"),
    "MSR with a header": (b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n"
                          b"1,hm,1,Read,32256,4096,100\n2,hm,1,Write,36352,1024,100\n", "hm_1"),
    "a part of a sector": (b"1,hm,1,Read,32500,3800,1\n2,hm,1,Write,36863,2,1\n", "hm_1"),
    "SYSTOR": (b"Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,R,3,32256,4096\n"
               b"1.6,,,3,0,0\n1.7,0.1,W,3,36352,1024\n", "lun_3"),
    "Alibaba": (b"7,R,32256,4096,1577808000\n7,W,36352,1024,1577808001\n", "disk_7"),
    "Tencent": (b"1538323200,63,8,0,1058\n1538323199,71,2,1,1058\n", "volume_1058"),
    "CloudPhysics": (b"2,100,28,4096,63\n2,101,12,0,5\n2,101,2a,1024,71\n", "disk"),
    "CloudPhysics, decimal": (b"2 100 40 4096 63\n2 101 138 1024 71\n", "disk"),
    "DiskSim": (b"938513000 4 63 8 1\n938828000 4 71 2 0\n", "disk_4"),
    "blkparse": (b"  8,0    3        1     0.000000000   697  Q   R 63 + 8 [fio]\n"
                 b"  8,0    3        2     0.000001829   697  G   R 63 + 8 [fio]\n"
                 b"  8,0    3        3     0.000001829   697  Q  FN [fio]\n"
                 b"  8,0    3        4     0.000002829   697  Q  WS 71 + 2 [fio]\n"
                 b"CPU3 (sda):\n Reads Queued:           1,        4KiB\n", "8_0"),
    "fio 2": (b"fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 32256 4096\n"
              b"/dev/sda sync\n/dev/sda write 36352 1024\n/dev/sda close\n", "/dev/sda"),
    "fio 3": (b"fio version 3 iolog\n1 /dev/sda add\n2 /dev/sda open\n9 /dev/sda read 32256 4096\n"
              b"11 /dev/sda write 36352 1024\n12 /dev/sda close\n", "/dev/sda"),
    "vscsi 1": (b"".join(struct.pack("<IIIHHQQ", i, size, 1, command, 1 << 8, sector, i)
                         for i, (size, command, sector) in enumerate(
                             ((4096, 0x28, 63), (1024, 0x2a, 71), (0, 0x12, 0)))), "disk"),
    "vscsi 2": (b"".join(struct.pack("<HHIIIQQQ", command, 2 << 8, i, size, 1, sector, i, 0)
                         for i, (size, command, sector) in enumerate(
                             ((4096, 0x88, 63), (1024, 0x8a, 71)))), "disk"),
}


@pytest.mark.parametrize("name", FILES)
def test_formats(tmp_path, name):
    data, volume = FILES[name]
    path = tmp_path / "trace"
    path.write_bytes(data)
    requests, found = sectors.read(path)
    assert [tuple(r) for r in requests.tolist()] == EXPECTED and found == volume
    if name.startswith("vscsi"):
        return
    for pack in (gzip.compress, bz2.compress):
        path.write_bytes(pack(data))
        assert [tuple(r) for r in sectors.read(path)[0].tolist()] == EXPECTED


def test_a_discard(tmp_path):
    (tmp_path / "log").write_bytes(b"fio version 2 iolog\nx trim 4096 8192\n")
    assert sectors.read(tmp_path / "log")[0].tolist() == [(8, 16, DISCARD)]


def test_volumes(tmp_path):
    """Of several volumes the one with the most requests is read, or a chosen one."""
    path = tmp_path / "trace.csv"
    path.write_text("1,hm,0,Read,0,512,1\n" + "2,hm,1,Write,512,512,1\n" * 3)
    assert len(sectors.read(path)[0]) == 3 and sectors.read(path)[1] == "hm_1"
    assert sectors.read(path, "hm_0")[0].tolist() == [(0, 1, READ)]
    assert len(sectors.read(path, limit=2)[0]) == 2
    with pytest.raises(Refused, match="has no requests of hm_9"):
        sectors.read(path, "hm_9")


@pytest.mark.parametrize("data, sentence", [
    (b"hello\nworld\n", "its format is none of MSR Cambridge"),
    (b"1,hm,0,Read,0,512,1\n1,hm,0,Read,zero,512,1\n", "line 2 has no request"),
    (b"1,hm,0,Read,0,512,1\n1,hm,0,Read,0,0,1\n", "line 2: its 0 sectors"),
    (b"\0\1\2\3" * 40, "no text"), (b"", "no text"),
    (gzip.compress(b"1,hm,0,Read,0,512,1\n" * 9000)[:-20], "is damaged"),
])
def test_bad_traces(tmp_path, data, sentence):
    (tmp_path / "trace").write_bytes(data)
    with pytest.raises(Refused, match=re.escape(sentence)):
        sectors.read(tmp_path / "trace")


def test_progress_of_a_conversion(tmp_path):
    path, seen = tmp_path / "trace.csv", []
    path.write_text("1,hm,0,Read,0,512,1\n" * 200000)
    requests, _ = sectors.read(path, show=lambda done, size: seen.append((done, size)))
    assert len(requests) == 200000 and len(seen) == 3
    assert {size for _, size in seen} == {path.stat().st_size}
    assert 0 < seen[0][0] < seen[1][0] < seen[2][0] <= path.stat().st_size


def test_converted_traces_are_kept(tmp_path, monkeypatch):
    path = tmp_path / "trace.csv"
    path.write_text("1,hm,0,Read,0,512,1\n")
    made, volume = sectors.cached(path, tmp_path)
    assert volume == "hm_0" and sectors.load(made).tolist() == [(0, 1, READ)]
    with monkeypatch.context() as patch:
        patch.setattr(sectors, "read", None)
        assert sectors.cached(path, tmp_path) == (made, volume)
    # Another content, or another choice, is another file.
    path.write_text("1,hm,0,Read,0,512,1\n1,hm,0,Write,512,512,1\n")
    again, _ = sectors.cached(path, tmp_path)
    assert again != made and len(sectors.load(again)) == 2
    assert len(sectors.load(sectors.cached(path, tmp_path, limit=1)[0])) == 1


# --- loads -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", hajkazemi.PATTERNS)
def test_patterns(kind):
    """All of a range is written once, out of order, and then read in order."""
    load = hajkazemi.pattern(kind, 1, 100, bursts=5, passes=3)
    written = load[load.write].first.reshape(5, -1)
    read = load[~load.write].first.reshape(3, -1)
    assert (load[load.write].blocks == hajkazemi.PIECE).all() and not load.write[5 * 32:].any()
    for burst in written:
        steps = np.diff(burst)
        assert (np.diff(np.sort(burst)) == hajkazemi.PIECE).all() and (steps != 16).any()
        if kind == "descending":
            assert (steps == -16).all()
        elif kind == "shuffled":
            chunk = (burst - burst.min()) // (16 * hajkazemi.CHUNK)
            assert (np.diff(chunk) >= 0).all()
        else:
            streams = burst.reshape(-1, hajkazemi.STREAMS)
            assert (np.diff(streams, axis=0) == 16).all()
    for one in read:
        assert (np.diff(one) > 0).all() and set(one) == set(np.sort(written.reshape(-1))[::2])
    assert np.array_equal(load.first, hajkazemi.pattern(kind, 1, 100, 5, 3).first)


@pytest.mark.parametrize("name", ["w91", "usr_0", "w36", "hm_1"])
def test_synthetic_loads(name):
    """Shares and mean sizes are those of Table I."""
    row, load = hajkazemi.TABLE[name], hajkazemi.synthetic(name, 1, 100, 20000)
    assert len(load) == 20000
    assert load.write.mean() == pytest.approx(row.writes / (row.reads + row.writes), rel=0.01)
    assert 4 * load.blocks[load.write].mean() == pytest.approx(row.write_kib, rel=0.1)
    if row.read_kib:
        assert 4 * load.blocks[~load.write].mean() == pytest.approx(row.read_kib, rel=0.1)


def test_the_table_of_the_paper():
    assert len(hajkazemi.TABLE) == 21
    assert sum(row.set == "MSR Cambridge" for row in hajkazemi.TABLE.values()) == 9
    # Mean sizes of reads follow from volumes, except where the volume is that of another row.
    assert {name for name, row in hajkazemi.TABLE.items() if row.read_kib is None} == \
        {"w76", "w36", "w89", "w106"}
    with pytest.raises(Refused, match="Table I has no trace 'w1'"):
        hajkazemi.synthetic("w1", 1, 100)


def test_updates():
    """Half of the requests write; reads scan whole ranges; a tenth of the ranges gets most of both."""
    load = hajkazemi.updates(1, 100, 20004)
    assert len(load) == 20004 and load.write.mean() == pytest.approx(0.5, abs=0.02)
    assert set(load.blocks[load.write]) == {4} and set(load.blocks[~load.write]) == {32}
    assert not (load.first[load.write] % 4).any()
    scans = load.first[~load.write][:8 * 1000].reshape(-1, 8)
    assert (np.diff(scans, axis=1) == 32).all() and not (scans[:, 0] % 256).any()
    for kind in (load.write, ~load.write):
        hot = (load.first[kind] // 256 % 10 == 0).mean()
        # Of the rest, a tenth is hot by chance.
        assert hot == pytest.approx(0.9 + 0.1 * 26 / 256, abs=0.03)
    assert load.first.max() < 1 << 16
    assert np.array_equal(load.first, hajkazemi.updates(1, 100, 20004).first)


@pytest.mark.parametrize("load", ["descending", "interleaved", "updates", "seek-usr_0"])
def test_as_a_load(tmp_path, load):
    out = tmp_path / "load.csv"
    done = subprocess.run([TOP / "scripts/loads/run", "generate", load, "--requests", "900", "--out",
                           out], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    requests, volume = sectors.read(out)
    assert len(requests) == 900 and volume == f"{load.replace('_', '-')}_0"
    assert load not in generate.PRESETS


# --- the experiment --------------------------------------------------------------------


@pytest.fixture(name="show", scope="module")
def _show():
    return import_module("experiments.read_seek")


@pytest.fixture(name="measured", scope="module")
def _measured(show, tmp_path_factory):
    """Results of the patterns, all configurations."""
    folder = tmp_path_factory.mktemp("read-seek")
    subprocess.run(["make", "-s", "-C", TOP / "userspace", "replay"], check=True,
                   stdout=subprocess.DEVNULL)
    traces = []
    for kind in hajkazemi.PATTERNS:
        path = folder / kind
        sectors.save(sectors.of_load(hajkazemi.pattern(kind, 1, 100)), path)
        traces.append((kind, path, "a pattern"))
    options = SimpleNamespace(jobs=2, configurations=list(show.CONFIGURATIONS), resume=False,
                              segment="4M", age=3)
    patch = pytest.MonkeyPatch()
    patch.setattr(show, "OUT", folder)
    yield show.measure(traces, options)
    patch.undo()


def test_the_remedies_of_the_patterns(show, measured):
    """Look-ahead-behind suits all three patterns; defragmentation and the cache remove about half of
    the seeks, as each range is read twice."""
    for name, of in measured.items():
        plain = of["LS"]["figures"]["read"]
        assert of["LS"]["fragmented_reads"] >= 0.8 * of["LS"]["reads"], name
        assert of["LAB"]["figures"]["read"] < plain / 4, name
        assert plain * 0.45 < of["SC"]["figures"]["read"] < plain * 0.6, name
        assert of["OD"]["figures"]["read"] < plain * 0.6, name
        assert of["OD"]["figures"]["write"] > of["LS"]["figures"]["write"]
        assert show.fewest(of) == "LAB"
        # 32 regions of 256 KiB on each side of a piece of 64 KiB, and a cache of 64 MiB.
        assert of["LAB"]["figures"]["ram_kib"] - of["LS"]["figures"]["ram_kib"] <= 32 * (512 + 128)
        assert of["LAB"]["figures"]["ram_kib"] - of["LS"]["figures"]["ram_kib"] >= 32 * 512
        assert of["SC"]["figures"]["ram_kib"] - of["LS"]["figures"]["ram_kib"] >= 64 << 10


def test_tables_and_pictures(show, measured, tmp_path):
    text = "".join(table.text() for table in show.tables(measured, dict.fromkeys(measured, "here")))
    for label in show.CONFIGURATIONS:
        assert text.count(f"\n{label} ") >= 3, label
    assert "descending (here): 512 reads, 512 writes" in text
    assert "seek amplification factor, all seeks" in text
    json.dumps(measured)
    pytest.importorskip("matplotlib")
    files = show.pictures(measured, tmp_path)
    assert [p.name for p in files] == [f"figure-{n}.png" for n in (2, 3, 4, 5, 8, 10, 11)]
    assert all(p.stat().st_size > 5000 for p in files)


def test_ram_for_each_saved_seek(show, measured):
    for name, of in measured.items():
        plain = of["LS"]
        for label, one in of.items():
            saved = plain["streams"]["ls"]["seeks"] - one["streams"]["ls"]["seeks"]
            kib = one["figures"]["kib_a_saved_seek"]
            assert (kib is None) == (saved <= 0), (name, label)
            if saved > 0:
                more = one["figures"]["ram_kib"] - plain["figures"]["ram_kib"]
                assert kib * saved == pytest.approx(more)
        assert of["OD N=2 k=2"]["figures"]["kib_a_saved_seek"] is None
    text = show.tables(measured, dict.fromkeys(measured, "here"))[-1].text()
    assert text.startswith("KiB of RAM for each saved seek\n") and "OD N" not in text


@pytest.fixture(name="finite", scope="module")
def _finite(show, tmp_path_factory):
    """Results of "updates" on finite disks."""
    folder = tmp_path_factory.mktemp("finite")
    subprocess.run(["make", "-s", "-C", TOP / "userspace", "replay"], check=True,
                   stdout=subprocess.DEVNULL)
    sectors.save(sectors.of_load(hajkazemi.updates(1, 100, 4000)), folder / "updates")
    options = SimpleNamespace(jobs=2, configurations=["LS", *show.FINITE], resume=False,
                              segment="4M", age=2)
    patch = pytest.MonkeyPatch()
    patch.setattr(show, "OUT", folder)
    yield show.measure([("updates", folder / "updates", "synthetic")], options)
    patch.undo()


def test_finite_disks(show, finite, tmp_path):
    """More is copied on a fuller disk, and by defragmentation; caches change nothing of that."""
    of = finite["updates"]
    for policy in show.POLICIES:
        written = []
        for full in show.FULL:
            plain = of[f"LS+{full}% {policy}"]
            assert (plain["disk"]["full"], plain["disk"]["clean"]) == (full, policy)
            figures = plain["figures"]
            assert figures["read"] + figures["write"] + figures["clean"] == \
                plain["streams"]["ls"]["seeks"]
            written.append(figures["amplification"])
            for remedy in ("LAB", "SC", "LAB+SC"):
                cached = of[f"{remedy}+{full}% {policy}"]["figures"]
                assert cached["amplification"] == figures["amplification"]
                assert cached["saf"] < figures["saf"]
            assert of[f"OD+{full}% {policy}"]["figures"]["amplification"] > figures["amplification"]
        assert 1 <= written[0] <= written[1] < written[2]
    *each, best = show.disk_tables(finite)
    assert [len(table.rows) for table in each] == [len(show.REMEDIES)] * 2 and len(best.rows) == 6
    assert re.fullmatch(r"updates on finite disks, greedy: 1\d\d MiB in use, segments of 4 MiB", each[0].title)
    assert each[0].rows[0][0] == "LS" and each[0].columns[1:4] == [
        "50 %: SAF", "50 %: of cleaning", "50 %: written"]
    for row in best.rows:
        full, policy = re.fullmatch(r"updates, (\d+) %, (.*)", row[0]).groups()
        assert float(row[3]) == pytest.approx(
            min(of[f"{remedy}+{full}% {policy}"]["figures"]["saf"] for remedy in show.REMEDIES), abs=1e-3)
        assert row[2] in show.REMEDIES
    pytest.importorskip("matplotlib")
    assert show.picture_of_disks(finite, tmp_path).stat().st_size > 5000


def test_the_sweep():
    """The workflow replays all configurations, and once for the same words."""
    command = [TOP / "scripts/experiments", "read-seek", "--sweep", "descending", "shuffled",
               "--requests", "900", "--jobs", "2"]
    done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (TOP / "build/out/read-seek/sweep.csv").read_text(encoding="utf-8").splitlines()
    # LS, 24 of OD, 21 of LAB and 10 of SC for each trace.
    assert len(rows) == 1 + 2 * 56 and rows[0].startswith("trace,configuration,read_seeks,")
    assert len(set(row.rsplit(",", 5)[0] for row in rows)) == len(rows)
    assert done.stdout.count("\ndescending ") == done.stdout.count("\nshuffled ") == 4
    plain = dict(re.findall(r"^(descending|shuffled) +LS +([\d,]+)", done.stdout, re.M))
    for name, seeks in plain.items():
        alone = subprocess.run([*command[:2], name, "--requests", "900", "--configurations", "LS"],
                               text=True, capture_output=True, check=True, timeout=600)
        assert re.search(rf"^LS +{seeks} +0 ", alone.stdout, re.M)


def test_statements(show, measured):
    """A trace with the name of one of the paper's gets the statements about it."""
    said = show.statements({"w91": measured["descending"], "other": measured["shuffled"]})
    assert {trace for trace, *_ in said} == {"w91", "CloudPhysics"}
    found = {sentence: holds for _, _, sentence, holds in said}
    assert found["write seeks fall sharply"] and found["LAB improves much, by up to 3.7 times"] is False
    assert found["read seeks rise hugely, with a large net amplification"]
    assert found["SC has the lowest SAF"] is False
    named = {name for _, traces, *_ in show.STATEMENTS for name in traces}
    assert named == set(hajkazemi.TABLE)
    # The figures of the paper's that this program draws and that name traces.
    assert {figure for figure, *_ in show.STATEMENTS} == {"2", "4", "5", "8", "10", "11"}


def test_shares(show):
    of = {"LS": {"frags_of": [[1, 90], [2, 8], [10, 2]], "misordered_writes": 1, "writes": 25,
                 "unit_bytes": 512, "popular": [[1, 9, 9, 4096], [2, 1, 10, 8192]],
                 "streams": {"ls": {"seeks": 4, "ahead": [0] * 20 + [3] + [0] * 27,
                                    "back": [0] * 21 + [1] + [0] * 26}}}}
    # Half of 36 fragments: 18 of the 20 in the two reads with ten.
    assert show.half_of_fragments(of) == pytest.approx(0.18)
    assert show.misordered(of) == 0.04
    assert show.popular_mib(of) == 2
    # Below 2^21 sectors; distances from 2^21 sectors on are above 1 GiB.
    assert show.near_share(of, "ls") == 0.75


def test_configurations(show):
    assert show.arguments("LS") == () and show.arguments("SC") == ("--cache", "64M")
    assert show.arguments("OD N=4 k=2") == ("--defrag-frags", "4", "--defrag-hits", "2")
    assert show.arguments("LAB 64x1+SC 16M exact") == (
        "--behind", "64K", "--ahead", "64K", "--regions", "1", "--cache", "16M", "--exact")
    assert show.arguments("OD+LAB") == (*show.arguments("OD N=2 k=1"), *show.arguments("LAB 256x32"))
    assert len({show.arguments(name) for name in show.CONFIGURATIONS}) == \
        len(show.CONFIGURATIONS) == 21
    assert show.arguments("LS+70% greedy") == ("--unit", "4K", "--full", "70", "--clean", "greedy")
    assert show.without_remedy("OD+LAB+70% greedy") == "LS+70% greedy"
    assert show.without_remedy("OD+LAB") == "LS" and len(set(show.FINITE)) == 48
    p = show.parser()
    assert show.chosen(p, "SC+90% greedy") == ["LS", "LS+90% greedy", "SC+90% greedy"]
    for name in ("", "OD N=2", "SC 16", "LS+XY", "LAB 64x", "LS+70% lazy"):
        with pytest.raises(ValueError):
            show.arguments(name)


def test_names_of_traces(show):
    assert [show.name_of(p) for p in ("/x/hm_1.csv.gz", "w91_vscsi1.vscsitrace", "src2_2.csv")] == \
        ["hm_1", "w91", "src2_2"]
    assert show.expanded(["descending", "synthetic"])[:3] == \
        ["descending", "synthetic:w84", "synthetic:w95"]


def test_progress_on_a_terminal(tmp_path):
    """Conversion and replays show how much is done, and how long the rest will take."""
    (tmp_path / "t.csv").write_text("".join(
        f"1,hm,0,{'Write' if i % 3 else 'Read'},{i * 7919 % 100000 * 4096},8192,1\n"
        for i in range(300000)))
    master, slave = os.openpty()
    with subprocess.Popen([TOP / "scripts/experiments", "read-seek", tmp_path / "t.csv",
                           "--configurations", "LS"], stderr=slave, stdout=subprocess.DEVNULL) as run:
        os.close(slave)
        seen = b""
        # The terminal ends with an error when the program has closed it.
        with contextlib.suppress(OSError):
            while more := os.read(master, 65536):
                seen += more
    os.close(master)
    assert run.returncode == 0
    assert re.search(rb"converting \S*/t\.csv *\d+ %, [^\r]* left", seen), seen
    assert re.search(rb"replaying +100 %, [^\r]* left", seen), seen


@pytest.mark.parametrize("args, sentence", [
    (("--configurations", "LS,XY"), "configuration 'XY' is none of LS, OD"),
    (("--jobs", "0"), "--jobs 0 is less than 1"),
    (("/nowhere",), "/nowhere: No such file or directory"),
    (("synthetic:w1",), "Table I has no trace 'w1'"),
    (("descending", "descending"), "two traces have the same name"),
])
def test_bad_words(args, sentence):
    done = subprocess.run([TOP / "scripts/experiments", "read-seek", *args], text=True,
                          capture_output=True, check=False, timeout=600)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("read-seek: ")
    assert sentence in done.stderr
