# SPDX-License-Identifier: GPL-2.0
"""Tests of scripts/loads: the same seed gives the same load, loads stay in their bounds and have
the parameters for which they are named, and traces survive writing and reading."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loads import cli, generate, measure, thesis, trace
from loads import replay as replays
from loads.requests import BLOCK, Refused, Requests, join, parts
from programs import TOP

MIB = (1 << 20) // BLOCK
CACHE = 32 * MIB
# The tolerance of a load against its row, from that size of the cache on: in points for
# percentages, as a part of the value for the others.
POINTS = {"write_percent": 0.02, "update_percent": 0.1, "ideal_percent": 0.3}
PARTS = {"rho": 0.02, "kb_per_write": 0.01, "kb_per_read": 0.01, "fills": 0.01}


def like(name, seed=1, cache=CACHE, size=None, **changes):
    return generate.like(name, generate.replace(generate.PRESETS[name], **changes), cache,
                         size or 100 * cache, seed, 100)[0]


def same(a, b):
    return all(np.array_equal(getattr(a, n), getattr(b, n))
               for n in ("tick", "write", "first", "blocks"))


def off(result, row):
    """Return the values of a result that are outside their tolerance."""
    return {n: (result[n], getattr(row, n)) for n in {**POINTS, **PARTS}
            if getattr(row, n) is not None and abs(result[n] - getattr(row, n)) >
            POINTS.get(n, PARTS.get(n, 0) * getattr(row, n))}


@pytest.mark.parametrize("name", generate.PRESETS)
def test_presets_match_the_thesis(name):
    """A generated load has the properties in the thesis's row of that name."""
    result = measure.measure(parts(like(name)), CACHE)
    assert not off(result, thesis.ROWS[name])
    assert (result["rho"] is None) == (thesis.ROWS[name].rho is None)


def test_other_seeds_match_the_thesis():
    for name in ("src2_2", "web_0"):
        result = measure.measure(parts(like(name, seed=99)), CACHE)
        assert not off(result, thesis.ROWS[name])


def test_fresh_writes_of_web_0_come_early():
    """web_0 has few fresh writes in all, but most of the first writes are fresh."""
    load = like("web_0")
    writes = load[load.write]
    tenth = len(writes) // 8
    early = measure.measure(parts(writes[:tenth]), CACHE)
    assert early["update_percent"] < 60
    assert measure.measure(parts(writes), CACHE)["update_percent"] > 93


def test_parameters_override_the_preset():
    """Parameters of the command line replace those of a preset, and the load has them."""
    load = like("rsrch_0", update_percent=80, rho=0.3, write_percent=50, kb_per_write=16,
                kb_per_read=64, fills=2)
    row = generate.Parameters(50, 80, 16, 64, 2, 0.3)
    result = measure.measure(parts(load), CACHE)
    wrong = {n: (result[n], getattr(row, n)) for n in PARTS
             if abs(result[n] / getattr(row, n) - 1) > PARTS[n]}
    assert not wrong


def test_number_of_requests():
    """A smaller number of requests gives a prefix of the load; a larger one continues it with the
    same parameters."""
    all_of_them = like("web_0")
    few = generate.like("web_0", generate.PRESETS["web_0"], CACHE, 100 * CACHE, 1, 100, 999)[0]
    assert same(few, all_of_them[:999])
    more = generate.like("rsrch_0", generate.PRESETS["rsrch_0"], CACHE, 100 * CACHE, 1, 100,
                         20000)[0]
    result = measure.measure(parts(more), CACHE)
    assert result["requests"] == 20000 and result["fills"] > 4
    assert off(result, thesis.ROWS["rsrch_0"]).keys() == {"fills"}


def test_writes_or_reads_only():
    load = like("rsrch_0", write_percent=100)
    assert load.write.all()
    load = like("rsrch_0", update_percent=0, rho=1)
    assert measure.measure(parts(load), CACHE)["ideal_percent"] == 50


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(sorted(generate.PRESETS)), st.integers(0, 1 << 40),
       st.sampled_from(("age", "popularity")), st.integers(20, 40))
def test_same_seed_same_load(name, seed, by, caches):
    """The same seed gives the same load, its requests are within bounds, and the parameters that
    the generator computes are those measured in the load."""
    cache = 8 * MIB
    size, few = caches * cache, 6100 if name == "proj_2" else 2700
    make = [generate.like(name, generate.replace(generate.PRESETS[name], by=by), cache, size,
                          seed, 100, few) for _ in range(2)]
    (load, plan), (again, _) = make
    assert same(load, again)
    assert len(load) == few
    assert load.first.min() >= 0 and (load.first + load.blocks).max() <= size
    assert load.blocks.min() >= 1 and load.blocks.max() <= generate.MOST
    assert (np.diff(load.tick) >= 0).all()
    # The last quarter is never written.
    writes = load[load.write]
    assert (writes.first + writes.blocks).max() <= size - size // 4
    # The solver's figures equal those counted in the load.
    maker = generate.Maker(name, generate.replace(generate.PRESETS[name], by=by), cache, seed,
                           few)
    mean, rho = maker.figures(plan)
    result = measure.measure(parts(load), cache)
    assert result["kb_per_write"] == pytest.approx(mean * BLOCK / 1000)
    assert result["rho"] == (None if rho is None else pytest.approx(rho))
    assert result["partly_update_percent"] == 0


def test_seeds_give_different_loads():
    assert not same(like("mds_0"), like("mds_0", seed=2))


@pytest.mark.parametrize("kind, over, exponent, ideal", [
    # Results of the specification's simulation with a cache of 120,000 blocks.
    ("uniform", 5, 1, 95.0), ("uniform", 30, 1, 72.7), ("uniform", 200, 1, 53.2),
    ("zipf", 50, 1.0, 82.7), ("zipf", 50, 1.2, 91.0), ("hot", 50, 1, 87.1)])
def test_stationary_loads(kind, over, exponent, ideal):
    load = generate.stationary(kind, 120_000, 3, 100, 1.5, over, exponent)
    assert load.first.max() < 120_000 * over / 100
    result = measure.measure(parts(load), 120_000)
    assert abs(result["ideal_percent"] - ideal) < 0.5
    assert same(load, generate.stationary(kind, 120_000, 3, 100, 1.5, over, exponent))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.floats(0.05, 1), st.integers(0, 1 << 30),
       st.booleans())
def test_regions_of_a_load(count, blocks, part, seed, hot):
    live = max(1, int(part * blocks))
    size = count * blocks + blocks // 2
    load = generate.regions(size, blocks, live, seed, 100, 3, 10 if hot else None)
    fill = count * live
    region = load.first // blocks
    assert region.max() < count
    # Each block is written once before others are repeated, and no other blocks are written.
    valid = set(load.first[:fill].tolist())
    assert len(valid) == fill and set(load.first.tolist()) == valid
    assert (np.bincount(region[:fill], minlength=count) == live).all()
    rest = generate.regions(size, blocks, live, seed, 100, 3, 10 if hot else None, filled=True)
    assert len(rest) == len(load) - fill == 3 * count * blocks


def test_a_tenth_of_a_region_gets_90_percent():
    load = generate.regions(4000, 1000, 500, 1, 100, 20, 10, 90, filled=True)
    for region in range(4):
        hits = np.bincount(load.first[load.first // 1000 == region] - 1000 * region,
                           minlength=1000)
        assert 0.88 < np.sort(hits)[-50:].sum() / hits.sum() < 0.92


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 9)), min_size=1,
                max_size=80), st.integers(1, 100), st.integers(1, 80))
def test_measure_agrees_with_a_set(requests, cache, cut):
    """measure() gives the same figures as a simple count with a set of blocks, however the load is
    cut into parts."""
    load = Requests.of([(i, *r) for i, r in enumerate(requests)])
    seen, allocated, ideal, updates, partly = set(), 0, None, 0, 0
    for write, first, blocks in requests:
        new = 0
        for block in range(first, first + blocks) if write else ():
            allocated += 1
            new += block not in seen
            seen.add(block)
            if ideal is None and allocated + len(seen) >= cache:
                ideal = allocated, len(seen)
        updates += write and not new
        partly += write and 0 < new < blocks
    result = measure.measure(parts(load, cut), cache)
    writes = sum(w for w, _, _ in requests)
    assert result["distinct_blocks"] == len(seen)
    assert result["written_bytes"] == allocated * BLOCK
    assert result["update_percent"] == (100 * updates / writes if writes else None)
    assert result["partly_update_percent"] == (100 * partly / writes if writes else None)
    assert result["rho"] == (ideal[1] / ideal[0] if ideal else None)
    assert result["ideal_percent"] == (100 * ideal[0] / cache if ideal else None)


def test_measure_of_high_addresses():
    load = Requests.of([(0, True, (1 << 32) + 5, 3), (1, True, (1 << 32) + 6, 1)])
    assert measure.measure([load], 10)["update_percent"] == 50


# --- files ----------------------------------------------------------------------------


def written(load, kind="csv", name="load.csv", **more):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        out = trace.Writer(path, kind, **more)
        for part in parts(load, 100):
            out.add(part)
        out.close()
        assert [p.name for p in Path(folder).iterdir()] == [name]
        return path.read_bytes()


def read(text, name="trace.csv", **more):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return join(trace.Reader(path, **more))


REQUESTS = st.lists(st.tuples(st.integers(0, 1 << 62), st.booleans(), st.integers(0, 1 << 30),
                              st.integers(1, 1 << 18)), min_size=1, max_size=250)


@settings(max_examples=40, deadline=None)
@given(REQUESTS)
def test_csv_round_trip(rows):
    load = Requests.of(rows)
    text = written(load)
    assert same(read(text), load)
    assert written(read(text)) == text
    packed = written(load, name="load.csv.gz")
    assert gzip.decompress(packed) == text
    assert same(read(packed, "trace.csv.gz"), load)


LINE = "128166372003061629,hm,0,Read,383496192,32768,413\n"


def test_lines_in_various_forms():
    """The input has a header, DOS line ends, blanks, any case, parts of blocks and an empty line at
    the end."""
    load = read("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n" + LINE +
                "128166372003061630, hm , 0 , WRITE , 4095 , 2 , 1\r\n"
                "128166372003061620,hm,0,write,8192,512,\n\n")
    assert load.tick.tolist() == [128166372003061629, 128166372003061630, 128166372003061620]
    assert load.write.tolist() == [False, True, True]
    assert load.first.tolist() == [383496192 // 4096, 0, 2]
    assert load.blocks.tolist() == [8, 2, 1]


@pytest.mark.parametrize("line, says", [
    ("1,hm,0,Read,0,4096\n", "line 2: it has 6 columns, not 7"),
    ("1,hm,0,Read,0,4096,1,2\n", "line 2: it has 8 columns, not 7"),
    ("what is this\n", "line 2: it has 1 columns, not 7"),
    ("1,hm,0,Trim,0,4096,1\n", "line 2: its Type 'Trim' is neither Read nor Write"),
    ("1,hm,0,Read,-1,4096,1\n", "line 2: its Offset '-1' is no whole number"),
    ("1,hm,0,Read,0,0,1\n", "line 2: its Size 0 is not from 1 to 1073741824"),
    ("1,hm,0,Read,0,9999999999,1\n", "line 2: its Size 9999999999 is not from 1"),
    ("1,hm,0,Read,1e9,4096,1\n", "line 2: its Offset '1e9' is no whole number"),
    ("1,hm,0,Read," + "9" * 5000 + ",4096,1\n", "line 2: its Offset 9999"),
    ("x,hm,0,Read,0,4096,1\n", "line 2: its Timestamp 'x' is no whole number"),
    ("\xff,\xff,\xff,\xff,\xff,\xff,\xff\n", "line 2: it is of "),
    ("1,hm,1,Read,0,4096,1\n", "line 2: it is of hm_1, those before are of hm_0: choose one "
                               "by --volume"),
])
def test_broken_lines_are_refused(line, says):
    with pytest.raises(Refused) as refused:
        read((LINE + line).encode("latin-1"))
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_files_without_requests_are_refused():
    with pytest.raises(Refused, match="has no requests$"):
        read("")
    with pytest.raises(Refused, match="has no requests of hm_9"):
        read(LINE, volume="hm_9")
    with pytest.raises(Refused, match="No such file"):
        join(trace.Reader("/nowhere/at/all.csv"))
    whole = gzip.compress((LINE * 5000).encode())
    with pytest.raises(Refused, match="is damaged behind line "):
        read(whole[:len(whole) // 2], "trace.csv.gz")
    # The content of a file determines its format, not its name.
    assert len(read(LINE, "trace.csv.gz")) == len(read(gzip.compress(LINE.encode()), "t.csv")) == 1


HEADER = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n"


@pytest.mark.parametrize("content", [
    ("\ufeff" + HEADER + LINE * 3).encode(),
    (HEADER + LINE * 3).replace("\n", "\r\n").encode(),
    (HEADER + LINE * 3).replace("\n", "\r").encode(),
    (LINE * 3 + "\x1a").encode(),
    (LINE * 2 + LINE.rstrip() + "\x1a\r\n\r\n").encode(),
    (HEADER + LINE + HEADER + LINE + "\ufeff" + HEADER + LINE).encode(),
    ("\ufeff" + LINE * 3).encode("utf-16-le"), ("\ufeff" + LINE * 3).encode("utf-16-be"),
    (HEADER + LINE * 3).replace(",", ";").encode(),
    (HEADER + LINE * 3).replace(",", "\t").encode(),
    "\n".join(",".join(f'"{f}"' for f in line.split(","))
              for line in (HEADER + LINE * 3).splitlines()).encode(),
    bz2.compress((LINE * 3).encode()), lzma.compress((LINE * 3).encode()),
    gzip.compress(LINE.encode()) + gzip.compress((LINE * 2).encode()),
    (LINE * 3).rstrip().encode()])
@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz", "trace"])
def test_files_in_various_encodings(content, name):
    """Byte order marks, other line ends, separators, encodings and compressions, and files joined
    together give the same requests, whatever the name of the file is."""
    assert same(read(content, name), read(LINE * 3))


@pytest.mark.parametrize("content, says", [
    (b"PK\x03\x04rest", "a ZIP archive"), (b"7z\xbc\xaf", "a 7z archive"),
    (b"\x28\xb5\x2f\xfdrest", "zstd"), ((LINE + "\x1a\n" + LINE).encode(), "line .* 0x1a")])
def test_packed_formats_are_refused_by_name(content, says):
    """Formats that loads does not unpack are refused by name, and so is an end-of-file mark in the
    middle."""
    with pytest.raises(Refused, match=says) as refused:
        read(content, "trace.csv")
    assert "\n" not in str(refused.value)


def test_volumes_and_limits():
    text = "".join(f"{i},hm,{i % 2},Write,{4096 * i},4096,0\n" for i in range(10))
    assert read(text, volume="hm_1").first.tolist() == [1, 3, 5, 7, 9]
    assert read(text, volume="hm_1", limit=2).first.tolist() == [1, 3]


@settings(max_examples=60, deadline=None)
@given(REQUESTS, st.integers(1 << 18, 1 << 31))
def test_fold_maps_addresses_modulo_the_size(rows, size):
    """fold maps addresses modulo the size; a request that would cross the end moves before it."""
    fit = trace.Fit("fold", size)
    for _, _, first, blocks in rows:
        (at, n), = fit(first, blocks)
        assert n == blocks and 0 <= at <= size - n
        assert at == first % size or at == size - n


def test_fold_refuses_a_device_smaller_than_a_request():
    with pytest.raises(Refused, match="line 1: its request is larger than the device"):
        read(LINE, fit=trace.Fit("fold", 7))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(1, 700)), min_size=1,
                max_size=40))
def test_pack_gives_each_block_a_place(rows):
    """pack gives each block one place, which no other block has, and the places fill the device
    from its start."""
    fit, place = trace.Fit("pack", 1 << 20), {}
    for first, blocks in rows:
        pieces = fit(first, blocks)
        at = [b for begin, n in pieces for b in range(begin, begin + n)]
        assert len(at) == blocks
        for block, where in zip(range(first, first + blocks), at):
            assert place.setdefault(block, where) == where
    assert len(set(place.values())) == len(place)
    touched = len({b // trace.PACKED for b in place})
    assert max(place.values()) < touched * trace.PACKED


def test_pack_refuses_more_blocks_than_the_device_has():
    text = "".join(f"1,hm,0,Write,{i << 20},4096,0\n" for i in (7, 3, 7, 9))
    with pytest.raises(Refused, match="line 4: .* more than the 2 MiB"):
        read(text, fit=trace.Fit("pack", 512))
    assert read(text, fit=trace.Fit("pack", 768)).first.tolist() == [0, 256, 0, 512]


def test_iologs():
    load = Requests.of([(1000, True, 3, 2), (1500, False, 0, 1), (1400, True, 9, 1),
                        (6000, False, 5, 1)])
    assert written(load, "iolog2", "x.iolog", device="sdx").decode() == (
        "fio version 2 iolog\nsdx add\nsdx open\nsdx write 12288 8192\nsdx read 0 4096\n"
        "sdx write 36864 4096\nsdx read 20480 4096\nsdx close\n")
    assert written(load, "iolog3", "x.iolog", speed=2).decode() == (
        "fio version 3 iolog\n1 device add\n1 device open\n1 device write 12288 8192\n"
        "26 device read 0 4096\n26 device write 36864 4096\n251 device read 20480 4096\n"
        "251 device close\n")


def test_names_are_escaped_in_lines():
    load = Requests.of([(0, True, 0, 1)])
    assert written(load, volume="a,b\n\xe4_c_0") == b"0,a-b---c,0,Write,0,4096,0\n"
    for name in ("", "a b", "a:b", "\xe4", "x" * 257, "a\n"):
        with pytest.raises(Refused, match="takes no device by the name"):
            written(load, "iolog2", device=name)


@settings(max_examples=30, deadline=None)
@given(REQUESTS, st.floats(0.01, 100))
def test_times_never_decrease(rows, speed):
    """Times in an iolog and in a replay never decrease, even if those of the trace do."""
    load = Requests.of([(t % (1 << 50), *rest) for t, *rest in rows])
    lines = written(load, "iolog3", "x.iolog", speed=speed).decode().splitlines()[1:]
    times = [int(line.split()[0]) for line in lines]
    assert times == sorted(times) and times[0] == 1
    due = replays.due_us(load, speed)
    assert due[0] == 0 and (np.diff(due) >= 0).all()
    assert [t - 1 for t in times[2:-1]] == pytest.approx(due.tolist(), abs=1, rel=1e-9)


# --- the command ----------------------------------------------------------------------


def run(*argv):
    return subprocess.run([TOP / "scripts/loads/run", *map(str, argv)],
                          text=True, capture_output=True, check=False)


def test_command_from_end_to_end(tmp_path):
    """A load that was generated as compressed CSV and converted to an iolog has the same measured
    parameters."""
    made = run("generate", "web_0", "--cache-size", "16M", "--size", "400M", "--out",
               tmp_path / "web.csv.gz", "--json")
    assert made.returncode == 0 and made.stderr == ""
    told = json.loads(made.stdout)
    assert told["thesis"]["rho"] == pytest.approx(thesis.ROWS["web_0"].rho)
    again = run("convert", tmp_path / "web.csv.gz", "--cache-size", "16M", "--out",
                tmp_path / "web.iolog", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["measured"] == told["measured"]
    log = (tmp_path / "web.iolog").read_text()
    assert log.startswith("fio version 2 iolog\n")
    assert len(log.splitlines()) == told["measured"]["requests"] + 4
    page = run("convert", tmp_path / "web.csv.gz", "--cache-size", "16M", "--stats")
    assert "measured" in page.stdout and page.stderr == ""
    assert json.loads(run("presets", "--json").stdout).keys() == thesis.ROWS.keys()


@pytest.mark.parametrize("argv, says", [
    (("generate", "rsrch_0"), "nothing to do: --out FILE writes the load"),
    (("generate", "web_2", "--stats", "--cache-size", "8M"),
     "that makes 32 writes, 50 are the least"),
    (("generate", "rsrch_0", "--stats", "--update-percent", "0"),
     "no sizes give rho 0.043 with 0 % updates and 1.526 caches written"),
    (("generate", "rsrch_0", "--stats", "--rho", "0.9"), "no sizes give rho 0.900"),
    (("generate", "rsrch_0", "--stats", "--size", "3M"), "is too small for what is written"),
    (("generate", "src1_2", "--stats", "--kb-write", "1"), "kb_per_write is 1, and goes from"),
    (("generate", "uniform", "--stats", "--size", "1M"), "the load ends at byte"),
    (("generate", "regions", "--stats"), "regions want --region SIZE and --live SHARE"),
    (("generate", "regions", "--stats", "--region", "1M", "--live", "257b"),
     "a region of 256 blocks does not keep 257 valid"),
    (("generate", "uniform", "--out", "x.iolog.gz"), "fio reads no compressed iologs"),
    (("generate", "uniform", "--out", "x.csv", "--device", "a b"),
     "fio takes no device by the name"),
    (("generate", "uniform", "--out", "/nowhere/x.csv"), "No such file"),
    (("convert", "/nowhere/x.csv", "--stats"), "No such file"),
])
def test_refused_with_one_line(argv, says, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "end_in_order", lambda: None)
    assert cli.main(list(argv)) == cli.USAGE
    told = capsys.readouterr()
    assert told.out == "" and says in told.err
    assert told.err.startswith("loads: ") and told.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("argv", [
    ("generate", "nothing"), ("generate", "uniform", "--size", "12x"),
    ("generate", "uniform", "--rate", "nan"), ("generate", "regions", "--live", "50"),
    ("generate", "uniform", "--requests", "0"), ("replay", "x", "y", "--depth", "0")])
def test_invalid_arguments_are_usage_errors(argv, capsys):
    with pytest.raises(SystemExit):
        cli.main(list(argv))
    assert "Traceback" not in capsys.readouterr().err


def test_a_broken_trace_leaves_no_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cli, "end_in_order", lambda: None)
    (tmp_path / "in.csv").write_text(LINE * 70000 + "broken\n")
    assert cli.main(["convert", str(tmp_path / "in.csv"), "--out",
                     str(tmp_path / "out.csv")]) == cli.USAGE
    assert "line 70001: it has 1 columns" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["in.csv"]


def test_progress_only_on_a_terminal(monkeypatch):
    """There is no progress on a pipe."""
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, wanted in ((Terminal(), True), (io.StringIO(), False)):
        screen = cli.Screen(stream)
        screen.test("loads: x", 5, 0)
        screen.show(1, 8)
        screen.clear()
        assert bool(stream.getvalue()) == wanted


def test_response_times_of_a_replay():
    lat = np.arange(1, 1001, dtype=float) * 1000
    write = np.arange(1000) % 4 == 0
    told = replays.responses(replays.fio.Trace(lat, lat, lat, lat, write))
    assert told["all"] == {"requests": 1000, "mean_ms": 500.5, "p50_ms": 500.5,
                           "p99_ms": pytest.approx(990.01), "worst_ms": 1000}
    assert told["writes"]["requests"] == 250 and told["reads"]["worst_ms"] == 1000
    assert "reads" not in replays.responses(replays.fio.Trace(
        lat, lat, lat, lat, np.ones(1000, bool)))
