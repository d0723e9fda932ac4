# SPDX-License-Identifier: GPL-2.0
"""Tests of kv: the library on a simulated disk with power cuts, errors and lost writes
(tests/kv-check), and the command on a plain file."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import random
import re
import struct
import subprocess
import tempfile
import time
import uuid

import pytest
from guest.ondisk import crc32c
from programs import TOP, make

DAMAGED, FAILED, USAGE = 4, 8, 16
KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(scope="session", name="tool")
def build_tool():
    make("userspace/kv", "SANITIZE=address,undefined")
    return str(TOP / "build/userspace/kv-address-undefined")


@pytest.fixture(scope="session", name="check")
def build_check():
    make("tests/kv-check")
    return str(TOP / "build/tests/kv-check")


@pytest.fixture(name="device")
def make_device(tmp_path):
    path = tmp_path / "device"
    with open(path, "wb") as f:
        f.truncate(8 * MIB)
    return path


def run(tool, *args, rc=0, text=None):
    done = subprocess.run([tool, *map(str, args)], input=text, check=False,
                          capture_output=True, timeout=600)
    assert done.returncode == rc, f"{args}: {done.returncode}, not {rc}\n" \
        f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return (done.stdout if rc == 0 else done.stdout + done.stderr).decode()


# --- the library -----------------------------------------------------------------

# Seeds of the test `cut`: odd ones write values that fill memtables, even ones many chunks. From 50
# on, a small store merges nothing before it is full; from 100 on, merges have a thread of their
# own. With even seeds the cache has room for read-ahead.
@pytest.mark.parametrize("organisation", ("soc", "loc"))
@pytest.mark.parametrize("test,seed,count", (
    ("vectors", 1, 1), ("model", 1, 3000), ("model", 2, 3000), ("model", 51, 3000),
    ("model", 52, 3000), ("cut", 1, 300), ("cut", 2, 400), ("cut", 51, 450),
    ("cut", 101, 200), ("fail", 1, 150), ("fail", 2, 150), ("memory", 1, 120),
    ("memory", 2, 120), ("full", 1, 1), ("damage", 1, 600), ("log", 1, 40), ("craft", 1, 280),
    ("threads", 1, 1000), ("threads", 2, 1000), ("transient", 1, 250), ("again", 1, 1),
    ("stress", 1, 3000), ("stress", 102, 3000), ("spent", 1, 1), ("group", 1, 1),
    ("queue", 1, 1), ("slow", 1, 1),
    ("between", 1, 40), ("levels", 1, 800), ("forge", 1, 1), ("forge", 2, 1),
    ("forge", 3, 1), ("forge", 4, 1),
))
def test_library(check, organisation, test, seed, count):
    print(run(check, test, organisation, seed, count))


@pytest.mark.parametrize("test,seed,count", (
    ("vectors", 1, 1), ("model", 1, 3000), ("model", 2, 3000), ("model", 51, 3000),
    ("cut", 1, 300), ("cut", 2, 400), ("cut", 51, 450), ("cut", 101, 200), ("fail", 1, 150),
    ("memory", 1, 120), ("full", 1, 1),
    ("damage", 1, 600), ("log", 1, 40), ("craft", 1, 280), ("threads", 1, 1000),
    ("transient", 1, 250), ("again", 1, 1), ("stress", 1, 3000), ("stress", 102, 3000),
    ("spent", 1, 1), ("between", 1, 40), ("levels", 1, 800),
))
def test_library_unsorted(check, test, seed, count):
    """The organisation buffered, in which a full log becomes an unsorted table. Tests with
    hand-made content exist for sorted tables only; kv-fuzz covers the unsorted ones."""
    print(run(check, test, "buffered", seed, count))


@pytest.mark.parametrize("organisation", ("soc-stream", "loc-stream", "buffered-stream"))
@pytest.mark.parametrize("test,seed,count", (
    ("vectors", 1, 1), ("model", 1, 3000), ("cut", 1, 300), ("cut", 2, 400), ("cut", 101, 200),
    ("fail", 1, 150), ("memory", 1, 120), ("full", 1, 1), ("damage", 1, 600), ("log", 1, 40),
    ("threads", 1, 1000), ("between", 1, 40), ("levels", 1, 800), ("stress", 1, 3000),
))
def test_library_in_streams(check, organisation, test, seed, count):
    """With KV_STREAM a store writes each band to its end. The simulated disk refuses to begin a
    band before the previous one has ended."""
    print(run(check, test, organisation, seed, count))


def test_estimate_of_sequential_bands(check):
    """The estimate of how sequential a band is agrees with the band's keys, at both ends of a
    range and within one bucket of the histogram."""
    print(run(check, "estimate", "soc"))


def test_structs_of_other_headers(check):
    """The library accepts structs of programs that were built with an older or a newer header,
    and refuses those without a valid size."""
    run(check, "sizes", "soc")


@pytest.mark.parametrize("organisation", ("soc", "loc", "soc-stream", "buffered-offload"))
def test_checkpoint(check, organisation):
    """Checkpoints of a store that is being written to, with power cuts during the checkpoint."""
    print(run(check, "checkpoint", organisation, 1, 150))


@pytest.mark.parametrize("organisation", ("soc", "loc", "soc-stream", "buffered-offload"))
def test_repair(check, organisation):
    """Each chunk of a log is damaged in turn. A repair keeps all other chunks, also after power
    cuts."""
    print(run(check, "repair", organisation, 1, 30))


@pytest.mark.parametrize("organisation", ("soc", "loc", "buffered-offload", "soc-stream"))
def test_ranges(check, organisation):
    """Deletions of ranges, with power cuts; compaction of ranges; estimates of their size."""
    print(run(check, "ranges", organisation, 1, 250))


def test_comparisons_to_choose_a_merge(check):
    """A merge is chosen quickly in a store with many tables: with 37,500 tables the choice
    compares some thousand keys. No key is in more than 16 tables."""
    print(run(check, "picks", "soc"))


@pytest.mark.parametrize("organisation", ("soc", "loc", "buffered"))
def test_number_of_disk_reads(check, organisation):
    """The number and the size of reads from the disk: opening a table takes one read, and so
    does finding a key. A check reads everything from the disk and trusts no cache."""
    print(run(check, "reads", organisation))


def figures(text):
    """Return the output of `layers` by the first word of each line."""
    return {line.split(":")[0]: {k: int(v) for k, v in re.findall(r"([\w-]+) (\d+)", line)}
            for line in text.splitlines() if ":" in line}


@pytest.mark.parametrize("organisation", ("soc", "loc"))
def test_cleaning_caused_in_the_layers(check, organisation):
    """Without KV_STREAM, stl-set and stl-full clean many bands for the store, since tables end
    before their bands do. With KV_STREAM they clean none of its logs and tables; only the region
    that the store writes at random may be cleaned."""
    usual = run(check, "layers", organisation, 1, 12000)
    streams = run(check, "layers", f"{organisation}-stream", 1, 12000)
    print(usual + streams)
    was, now = figures(usual), figures(streams)
    for kind in "log", "table":
        assert was[kind]["begun"] > 50 and was[kind]["behind"] == 0, f"{kind}s"
        assert now[kind]["behind"] == now[kind]["begun"] > 50, f"{kind}s"
        assert was[kind]["left"] >= was[kind]["begun"] - 1
        assert now[kind]["left"] == 0
    assert was["stl-set"]["table"] > 200 and was["stl-set"]["bypassed_blocks"] == 0
    assert was["stl-full"]["table"] > 80 and was["stl-full"]["streams_broken"] > 50
    for layer in "stl-set", "stl-full":
        assert now[layer]["log"] == now[layer]["table"] == 0, layer
        assert now[layer]["streams_broken"] == 0, layer
    assert now["stl-full"]["bands_cleaned"] == 0
    assert now["stl-set"]["bands_cleaned"] <= 24, "of the region, and lead-ins"
    for told in was["told"], now["told"]:
        assert told["blocks"] == told["written"] and told["pad"] == told["zeroes"]
    assert was["told"]["pad"] == 0 and now["told"]["pad"] > 1000
    led = now["log"]["led"] + now["table"]["led"]
    assert 0 < led < 8 and now["stl-set"]["lead-in"] <= led

    def blocks(text):
        return int(re.search(r", (\d+) blocks", text)[1])
    assert blocks(usual) < blocks(streams) < 1.25 * blocks(usual), "what it costs"
    # With KV_STREAM stl-set writes over 90 % of the blocks past its cache, and stl-full turns logs
    # into home bands for over 90 % of them. The rest is in the region at the front.
    assert was["stl-full"]["bands_switched"] == 0
    assert now["stl-set"]["bypassed_blocks"] > .9 * blocks(streams)
    assert now["stl-full"]["bands_switched"] * 64 > .9 * blocks(streams)


@pytest.mark.parametrize("test,seed,count", (
    ("vectors", 1, 1), ("model", 1, 3000), ("cut", 1, 300), ("cut", 2, 300), ("cut", 101, 200),
    ("fail", 1, 150), ("memory", 1, 80), ("full", 1, 1), ("damage", 1, 600), ("craft", 1, 240),
    ("threads", 1, 1000), ("between", 1, 10), ("again", 1, 1), ("stress", 1, 3000),
    ("stress", 102, 3000),
))
def test_library_with_an_offload_device(check, test, seed, count):
    """A store with an offload device. The two devices share one order of requests, and a power
    cut may lose writes of one device and keep those of the other."""
    print(run(check, test, "buffered-offload", seed, count))


@pytest.mark.soak
@pytest.mark.parametrize("organisation", ("soc", "loc", "buffered", "soc-stream", "loc-stream",
                                          "buffered-stream", "buffered-offload"))
@pytest.mark.parametrize("test,count", (
    ("model", 20000), ("cut", 1500), ("fail", 400), ("memory", 400), ("craft", 7000),
    ("threads", 10000),
))
@pytest.mark.parametrize("seed", range(10, 20))
def test_library_long_runs(check, organisation, test, count, seed):
    run(check, test, organisation, seed, count)


@pytest.mark.soak
@pytest.mark.parametrize("organisation", ("soc", "loc", "buffered", "buffered-offload",
                                          "soc-stream"))
def test_thread_sanitizer_finds_no_race(organisation):
    """ThreadSanitizer finds no race in the test `threads`. The build takes minutes."""
    out = TOP / "build/userspace/thread"
    make("tests/kv-check", "SANITIZE=thread", f"OUT={out}")
    run(str(out / "kv-check"), "threads", organisation, 1, 300)


# --- the command -----------------------------------------------------------------

def text_of(data):
    return "".join(chr(b) if 0x20 <= b < 0x7f and b != 0x5c else f"\\x{b:02x}"
                   for b in data)


def some_lines(seed, count):
    """Return lines with random keys and values, in the format and order of `scan`."""
    rng = random.Random(seed)
    pairs = {rng.randbytes(rng.randint(1, 40)): rng.randbytes(rng.randint(0, 900))
             for _ in range(count)}
    return [f"{text_of(k)}\t{text_of(pairs[k])}\n" for k in sorted(pairs)]


@pytest.mark.parametrize("organisation", ("soc", "loc", "buffered"))
def test_loaded_records_are_scanned(tool, device, organisation):
    run(tool, "format", "--band", "64K", "--organisation", organisation, device)
    lines = some_lines(1, 3000)
    shuffled = random.Random(2).sample(lines, len(lines))
    run(tool, "load", "--batch", 7, device, text="".join(shuffled).encode())
    assert run(tool, "scan", device) == "".join(lines)
    assert run(tool, "check", device) == "clean\n"
    run(tool, "compact", device)
    assert run(tool, "scan", device) == "".join(lines)
    key = lines[100].split("\t")[0]
    assert run(tool, "scan", "--limit", 2, "--keys", device, key) == \
        "".join(line.split("\t")[0] + "\n" for line in lines[100:102])
    end = lines[105].split("\t")[0]
    assert run(tool, "scan", device, key, end) == "".join(lines[100:105])
    shown = json.loads(run(tool, "scan", "--json", device, key, end))
    assert [f"{e['key']}\t{e['value']}\n" for e in shown] == lines[100:105]
    dump = json.loads(run(tool, "dump", "--json", device))
    assert dump["organisation"] == organisation and dump["band_bytes"] == 64 * KIB
    tables = [b for b in dump["used"] if b["kind"] == "table"]
    assert sum(b["entries"] for b in tables) == len(lines)
    assert len({b["band"] for b in dump["used"]}) == len(dump["used"])
    stats = json.loads(run(tool, "stats", "--json", device))
    assert sum(level["bands"] for level in stats["levels"]) == len(tables)


def test_put_get_delete(tool, device):
    run(tool, "format", "--band", "64K", device)
    run(tool, "put", "--sync", device, "a key", "a value")
    run(tool, "put", device, "b\\x00", text=bytes(range(256)))
    assert run(tool, "get", device, "a key") == "a value"
    raw = subprocess.run([tool, "get", device, "b\\x00"], check=True, capture_output=True)
    assert raw.stdout == bytes(range(256))
    run(tool, "delete", device, "a key")
    assert "no such key" in run(tool, "get", device, "a key", rc=FAILED)
    run(tool, "delete", "--sync", device, "never there")
    assert run(tool, "scan", "--keys", device) == "b\\x00\n"


def forbid_io_uring(number):
    """Forbid io_uring to this process with error @number, by a seccomp filter like those of
    container engines."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = struct.pack("HBBIHBBIHBBIHBBI",
                       0x20, 0, 0, 0,                      # load the number of the call
                       0x15, 0, 1, 425,                    # io_uring_setup?
                       0x06, 0, 0, 0x00050000 | number,    # it fails
                       0x06, 0, 0, 0x7fff0000)             # all other calls are allowed
    where = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(where))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@pytest.mark.parametrize("number", (errno.EPERM, errno.ENOSYS, errno.ENOMEM))
@pytest.mark.parametrize("organisation", ("soc", "buffered"))
def test_without_io_uring(tool, device, organisation, number):
    """Without io_uring all commands work, with one request at a time, and `stats` reports the
    error with which the kernel refused it."""
    def without(*args, text=None):
        return subprocess.run([tool, *map(str, args)], input=text, check=True,
                              capture_output=True, timeout=600,
                              preexec_fn=lambda: forbid_io_uring(number)).stdout.decode()
    without("format", "--band", "64K", "--organisation", organisation, device)
    lines = some_lines(6, 3000)
    without("load", "--batch", 7, device, text="".join(lines).encode())
    without("compact", device)
    assert without("scan", device) == "".join(lines)
    assert without("check", device) == "clean\n"
    assert f"no io_uring ({os.strerror(number)})" in without("stats", device)
    assert json.loads(without("stats", "--json", device))["ring_error"] == number
    assert "io_uring" not in run(tool, "stats", device)
    assert run(tool, "check", device) == "clean\n"


@pytest.mark.parametrize("how", ((), ("--stream",)))
@pytest.mark.parametrize("organisation,trigger", (("soc", 4), ("loc", 4), ("buffered", 10)))
def test_one_write_for_each_open(tool, device, organisation, trigger, how):
    """A program that opens the store for each write does not let tables pile up: each open makes
    a table of the log of the previous run, and does the merge that is then due."""
    run(tool, "format", "--band", "64K", "--organisation", organisation, device)
    kept = set(range(40))
    for i in range(40):
        run(tool, "put", *how, device, f"{i:02d}", f"value {i}")
        if i % 5 == 4:
            run(tool, "delete", *how, device, f"{i - 2:02d}")
            kept.remove(i - 2)
        stats = json.loads(run(tool, "stats", "--json", device))
        assert stats["levels"][0]["bands"] < trigger, f"write {i}"
    assert run(tool, "scan", device) == "".join(f"{i:02d}\tvalue {i}\n" for i in sorted(kept))
    assert run(tool, "check", device) == "clean\n"


def test_missing_device_is_named(tool, device):
    """A missing device, or a missing offload device, is reported with its name, so it cannot be
    mistaken for a missing key."""
    run(tool, "format", "--band", "64K", device)
    for args in (("get", "nowhere", "k"), ("put", "nowhere", "k", "v"), ("scan", "nowhere"),
                 ("get", "--offload", "nowhere", device, "k")):
        assert "nowhere: No such file" in run(tool, *args, rc=FAILED)


def test_damaged_log_chunk_is_reported(tool, device):
    """A log with a damaged chunk: the rest can be read, each command reports the damage once,
    and writes are refused, until `repair` gives the chunk up."""
    run(tool, "format", "--band", "64K", device)
    run(tool, "load", "--sync", device, text=b"a\t1\nb\t2\nc\t3\n")
    log, = json.loads(run(tool, "dump", "--json", device))["used"]
    spoilt = bytearray(device.read_bytes())
    spoilt[log["offset"] + 4096 + 60] ^= 1
    device.write_bytes(spoilt)
    whole = device.read_bytes()
    for args, words in ((("scan",), "a\t1\nkv: log band"), (("get", "a"), "1"), (("dump",), "log"),
                        (("get", "c"), "no such key"), (("stats",), "bands"),
                        (("check",), "log band"), (("put", "d", "4"), "can only be read")):
        told = run(tool, args[0], device, *args[1:], rc=DAMAGED)
        assert words in told and told.count("damaged at byte 4096") == 1
    assert device.read_bytes() == whole
    told = run(tool, "repair", device, rc=1)
    assert f"log band {log['band']} (log {log['id']}): bytes 4096 to 8191 are given up" in told
    assert run(tool, "scan", device) == "a\t1\nc\t3\n"
    assert run(tool, "check", device) == "clean\n"
    run(tool, "put", device, "d", "4")
    assert run(tool, "repair", device) == "no damage was found\n"
    assert run(tool, "scan", device) == "a\t1\nc\t3\nd\t4\n"


@pytest.mark.parametrize("words", ((), ("--stream",)))
def test_damage_to_a_closed_log_is_detected(tool, device, words):
    """All data are in the last chunk of the log. A close records the length of the log, so
    damage to that chunk is detected, and not taken for a write that a power cut tore."""
    run(tool, "format", "--band", "64K", device)
    run(tool, "load", *words, "--batch", 46, device,
        text="".join(f"key {i}\tvalue {i}\n" for i in range(46)).encode())
    log, = json.loads(run(tool, "dump", "--json", device))["used"]
    assert log["bytes"] == 4096
    spoilt = bytearray(device.read_bytes())
    spoilt[log["offset"] + 700] ^= 0x20
    device.write_bytes(spoilt)
    told = run(tool, "check", device, rc=DAMAGED)
    assert f"log band {log['band']}" in told and "damaged at byte 0" in told
    assert "can only be read" in run(tool, "put", device, "d", "4", rc=DAMAGED)


@contextlib.contextmanager
def in_use(tool, device, lines, *words):
    """Run a program that has loaded @lines and keeps the store open."""
    with subprocess.Popen([tool, "load", *words, str(device)], stdin=subprocess.PIPE) as loads:
        loads.stdin.write("".join(lines).encode())
        loads.stdin.flush()
        while True:
            done = subprocess.run([tool, "stats", "--json", str(device)], check=False,
                                  capture_output=True)
            if done.returncode == 0 and \
                    json.loads(done.stdout).get("since_open", {}).get("puts") == len(lines):
                break
            time.sleep(0.01)
        yield loads
    assert loads.returncode == 0


@pytest.mark.parametrize("organisation,words", (("soc", ()), ("buffered", ("--stream",))))
def test_commands_on_an_open_store(tool, device, tmp_path, organisation, words):
    """`stats` and `checkpoint` of a store in use are answered by the program that has it open.
    When no program has it open, `checkpoint` copies the store itself, and `stats` has no figures
    of a running program."""
    run(tool, "format", "--band", "64K", "--organisation", organisation, device)
    lines = some_lines(7, 2000)
    copy = tmp_path / "copy"
    with in_use(tool, device, lines[:1500], *words) as loads:
        told = run(tool, "stats", device)
        assert "values put: 1500\n" in told and "keys looked up: 0\n" in told
        assert "in use by another store" in run(tool, "get", device, "k", rc=FAILED)
        run(tool, "checkpoint", device, copy)
        assert run(tool, "scan", copy) == "".join(lines[:1500])
        assert "was not changed" in run(tool, "checkpoint", device, copy, rc=FAILED)
        assert "no-such-folder" in run(tool, "checkpoint", device, "/no-such-folder/copy",
                                       rc=FAILED)
        loads.stdin.write("".join(lines[1500:]).encode())
        run(tool, "checkpoint", "--force", device, copy)
        loads.stdin.close()
    taken = run(tool, "scan", copy)
    assert "".join(lines).startswith(taken) and taken.count("\n") >= 1500
    assert "since_open" not in json.loads(run(tool, "stats", "--json", device))
    # The command itself copies a store that no program has open.
    (tmp_path / "folder").mkdir()
    run(tool, "checkpoint", device, tmp_path / "folder")
    named, = (tmp_path / "folder").iterdir()
    dump = json.loads(run(tool, "dump", "--json", device))
    assert named.name == dump["uuid"] + ".kv"
    assert run(tool, "scan", named) == run(tool, "scan", device) == "".join(lines)
    other = json.loads(run(tool, "dump", "--json", named))
    assert other["uuid"] != dump["uuid"] and other["band_bytes"] == dump["band_bytes"]
    assert other["organisation"] == organisation
    assert run(tool, "check", named) == "clean\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
def test_stats_of_another_users_store_are_refused(tool):
    """Only root and the user of the program that has a store open may ask that program for
    `stats`."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as device:
        os.truncate(device.name, 8 * MIB)
        os.chmod(device.name, 0o644)
        run(tool, "format", "--band", "64K", device.name)
        with in_use(tool, device.name, ["a\t1\n"]) as loads:
            done = subprocess.run([tool, "stats", device.name], check=False, text=True,
                                  capture_output=True, user=65534, group=65534, extra_groups=[])
            assert done.returncode == FAILED and "only root and the user" in done.stderr
            loads.stdin.close()


def test_store_written_with_stream(tool, device):
    """A store that is written with and without --stream holds the same data. A lead-in of more
    than half a band is refused."""
    run(tool, "format", "--band", "64K", device)
    lines = some_lines(4, 2000)
    run(tool, "load", "--stream", "--batch", 7, device, text="".join(lines).encode())
    run(tool, "delete", "--stream=16K", device, lines[7].split("\t")[0])
    run(tool, "put", device, lines[7].split("\t")[0], text=b"usual")
    run(tool, "delete", "--stream", "--sync", device, lines[7].split("\t")[0])
    del lines[7]
    assert run(tool, "scan", device) == "".join(lines)
    run(tool, "compact", "--stream=4K", device)
    assert run(tool, "check", device) == "clean\n"
    assert run(tool, "scan", device) == "".join(lines)
    assert "a lead-in of 36864 bytes" in run(tool, "put", "--stream=36K", device, "k", "v",
                                             rc=USAGE)


def test_zero_byte_in_a_line_is_an_error(tool, device):
    """A zero byte in a line is an error that names the line; the lines before it are kept."""
    run(tool, "format", "--band", "64K", device)
    assert "line 2: write a zero byte" in \
        run(tool, "load", device, text=b"a\tb\nk\tv\0w\n", rc=FAILED)
    assert run(tool, "scan", device) == "a\tb\n"


def starved(*args, kbytes=0, stdin=subprocess.DEVNULL):
    """Run kv with at most @kbytes of memory, built without sanitizers, which need more than any
    limit."""
    make("userspace/kv")
    kv = TOP / "build/userspace/kv"
    limit = f"ulimit -v {kbytes}; " if kbytes else ""
    done = subprocess.run(["sh", "-c", limit + 'exec "$0" "$@"', str(kv), *map(str, args)],
                          stdin=stdin, capture_output=True, check=False, timeout=600)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("band,kbytes,words", (
    ("1G", 200000, ": out of memory"),
    ("64K", 0, " is longer than the longest key with its value")))
def test_refused_line_is_not_the_end_of_input(tool, device, tmp_path, band, kbytes, words):
    """A line that does not fit in memory, and a line that no store accepts, are errors that name
    the line. Neither is taken for the end of the input."""
    os.truncate(device, 20 << 30 if band == "1G" else 8 * MIB)
    run(tool, "format", "--band", band, device)
    lines = tmp_path / "lines"
    with open(lines, "wb") as f:
        f.write(b"a\t1\nb\t2\n")
        for _ in range(300):
            f.write(b"x" * MIB)
        f.write(b"\nc\t3\n")
    rc, told = starved("load", device, lines, kbytes=kbytes)
    assert rc == FAILED and f"line 3{words}" in told, f"{rc}: {told}"


def test_longest_line_is_accepted(tool, device):
    """The longest key and value are accepted with each byte written as four characters; one byte
    more is refused."""
    run(tool, "format", "--band", "64K", device)
    line = "\\x00" * 1024 + "\t" + "\\x00" * 8192
    assert "line 1 is longer" in \
        run(tool, "load", device, text=f"{line}\\x00\n".encode(), rc=FAILED)
    run(tool, "load", device, text=line.encode())
    assert run(tool, "scan", device) == f"{line}\n"


def test_endless_input_is_bounded(tool, device):
    """Endless input does not use up the memory: the size of a value and of a batch is limited by
    what a store can hold."""
    run(tool, "format", "--band", "64K", device)
    with open("/dev/zero", "rb") as zero:
        rc, told = starved("put", device, "k", kbytes=400000, stdin=zero)
    assert rc == USAGE and "larger than 128 MiB" in told, f"{rc}: {told}"
    text = "".join(f"{i:09d}\t{'v' * 1000}\n" for i in range(100000)).encode()
    told = run(tool, "load", "--batch", 1000000, device, text=text, rc=FAILED)
    assert re.search(r"line 17: a batch of \d+ bytes: 16384 at most", told), told
    assert run(tool, "scan", device) == ""


@pytest.mark.parametrize("args,words", (
    (("put", "DEVICE", "\\q"), "backslash"), (("put", "DEVICE", "\\x-1"), "backslash"),
    (("get", "DEVICE"), "KEY is missing"),
    (("put", "DEVICE", "k" * 1025, "v"), "1025 bytes"), (("frob", "DEVICE"), "not known"),
    (("put", "DEVICE", "k", "v" * 9000), "9000 bytes"),
    (("load", "--stream=2G", "DEVICE"), "half a band"), (("scan",), "DEVICE"),
    (("compact", "--stream=0K", "DEVICE"), "--stream=0K: 4K at least"),
    (("format", "--band", "5K", "DEVICE"), "64 KiB"), (("get", "-x", "DEVICE"), "-x"),
    (("format", "--organisation", "b-tree", "DEVICE"), "choose soc, loc or buffered"),
    (("load", "--syn", "DEVICE"), "option --syn is not known"),
    (("scan", "--lim=1", "DEVICE"), "option --lim=1 is not known"),
    (("format", "--forc", "DEVICE"), "option --forc is not known"),
    (("scan", "--keys", "-xy", "DEVICE"), "option -xy is not known"),
))
def test_wrong_usage(tool, device, args, words):
    run(tool, "format", "--band", "64K", device)
    args = [device if a == "DEVICE" else a for a in args]
    assert words in run(tool, *args, rc=USAGE)


def test_format_refuses_foreign_devices(tool, device):
    """Without --force `format` does not overwrite a store or a filesystem, and even with it not
    a device in use. A format that is refused changes nothing."""
    assert "not a key-value store" in run(tool, "scan", device, rc=FAILED)
    run(tool, "format", "--band", "64K", device)
    run(tool, "put", device, "k", "v")
    assert "contains a key-value store" in run(tool, "format", device, rc=FAILED)
    assert run(tool, "get", device, "k") == "v"
    with open(device, "r+b") as f:
        f.truncate(0)
        f.truncate(8 * MIB)
        f.seek(1080)
        f.write(b"\x53\xef")                     # the magic of ext2 alone is not enough
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    before = device.read_bytes()
    assert "ext4" in run(tool, "format", "--band", "64K", device, rc=FAILED)
    assert device.read_bytes() == before
    # A refused format must not wipe the device.
    assert "16 are needed" in run(tool, "format", "--force", device, rc=USAGE)
    with open(device, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_SH)
        assert "in use" in run(tool, "format", "--band", "64K", "--force", device, rc=FAILED)
    assert device.read_bytes() == before
    run(tool, "format", "--band", "64K", "--force", device)
    assert run(tool, "scan", device) == ""
    assert "16 are needed" in run(tool, "format", "--force", device, rc=USAGE)


def zeroed(path, begin, end):
    with open(path, "r+b") as f:
        f.seek(begin)
        f.write(bytes(end - begin))


@pytest.mark.parametrize("band", (64 * KIB, 256 * KIB))
def test_store_without_its_first_blocks_is_recognized(tool, device, band):
    """A store without its first block is still recognized, so it is not overwritten: by the band
    table behind the header, and without that by the header's copy."""
    run(tool, "format", "--band", f"{band >> 10}K", device)
    run(tool, "load", device, text="".join(some_lines(7, 200)).encode())
    copy, = struct.unpack_from("<Q", device.read_bytes(), 80)
    for end in 4096, copy:
        zeroed(device, 0, end)
        before = device.read_bytes()
        for args in ("format", "--band", "64K"), ("offload", "--size", "1M", "nothing"):
            assert "contains a key-value store without its first block" in \
                run(tool, *args, device, rc=FAILED)
        assert device.read_bytes() == before
    # Another known format is on the device.
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "nodiscard", device], check=True)
    assert "ext4" in run(tool, "format", device, rc=FAILED)
    zeroed(device, 0, copy + 4096)
    run(tool, "format", "--band", "64K", device)


def test_offload_device_without_its_first_block(tool, device, spare):
    run(tool, "format", "--band", "64K", "--organisation", "buffered", device)
    run(tool, "offload", device, spare)
    zeroed(spare, 0, 4096)
    assert "contains the offload device of a key-value store without its first block" in \
        run(tool, "offload", device, spare, rc=FAILED)
    zeroed(spare, 60 * KIB, 64 * KIB)
    run(tool, "offload", device, spare)


@pytest.mark.parametrize("second, at", ((False, 0), (False, 8), (False, 80), (False, 4095),
                                        (True, 0)))
def test_damaged_copy_of_the_header(tool, device, second, at):
    """Either copy of the header is enough to read the store. A check reports a damaged copy, and
    the next write repairs it."""
    run(tool, "format", "--band", "64K", device)
    run(tool, "put", device, "a", "1")
    raw = bytearray(device.read_bytes())
    raw[at + (struct.unpack_from("<Q", raw, 80)[0] if second else 0)] ^= 16
    device.write_bytes(raw)
    assert run(tool, "scan", device) == "a\t1\n"
    name = "2 of 2" if second else "1 of 2"
    assert f"header: copy {name} is damaged" in run(tool, "check", device, rc=DAMAGED)
    assert "contains a key-value store" in run(tool, "format", "--band", "64K", device, rc=FAILED)
    assert device.read_bytes() == raw
    run(tool, "put", device, "b", "2")
    run(tool, "check", device)
    assert run(tool, "scan", device) == "a\t1\nb\t2\n"


def test_damaged_copy_of_an_offload_header(tool, device, spare):
    """The same for the header of an offload device."""
    run(tool, "format", "--band", "64K", "--organisation", "buffered", device)
    run(tool, "offload", device, spare)
    raw = bytearray(spare.read_bytes())
    raw[0] ^= 16
    spare.write_bytes(raw)
    assert "header: copy 1 of 2 is damaged" in \
        run(tool, "check", "--offload", spare, device, rc=DAMAGED)
    assert "contains the offload device of a key-value store" in \
        run(tool, "offload", device, spare, rc=FAILED)
    run(tool, "put", "--offload", spare, device, "a", "b")
    run(tool, "check", "--offload", spare, device)


def test_shingle_format_refuses_a_store(tool, device):
    """`shingle format` does not overwrite a store."""
    make("userspace/shingle")
    run(tool, "format", "--band", "64K", device)
    shingle = TOP / "build/userspace/shingle"
    text = run(shingle, "format", "stl-set", device, rc=FAILED)
    assert "contains a key-value store" in text


def test_damaged_band_and_table_are_named(tool, device):
    """A check and a compaction name the damaged band and table. The store still accepts writes."""
    run(tool, "format", "--band", "64K", device)
    run(tool, "load", device, text="".join(some_lines(3, 600)).encode())
    run(tool, "compact", device)
    table = next(b for b in json.loads(run(tool, "dump", "--json", device))["used"]
                 if b["kind"] == "table")
    with open(device, "r+b") as f:
        f.seek(table["offset"] + 5000)
        byte = f.read(1)[0]
        f.seek(table["offset"] + 5000)
        f.write(bytes([byte ^ 1]))
    text = run(tool, "check", device, rc=DAMAGED)
    assert re.search(rf"^band {table['band']} \(table {table['id']}\): wrong checksum",
                     text, re.M)
    found = subprocess.run([tool, "check", "--json", device], capture_output=True,
                           check=False, text=True)
    assert f"band {table['band']} " in json.loads(found.stdout)["findings"][0]
    run(tool, "put", device, "\\x00", "")
    run(tool, "put", device, "\\xff", "")
    assert f"band {table['band']} " in run(tool, "compact", device, rc=DAMAGED)
    run(tool, "put", device, "k", "v")
    assert run(tool, "get", device, "k") == "v"


class OnDisk:
    """A store with one synced write, interpreted only by the description in kv-format.rst. The
    other tests use the library's own checksums, so they would not detect an error in them."""

    def __init__(self, tool, device, closed=True):
        run(tool, "format", "--band", "64K", device)
        if closed:
            run(tool, "put", "--sync", device, "a key", "a value")
        else:
            with subprocess.Popen([tool, "load", "--sync", str(device)],
                                  stdin=subprocess.PIPE) as loads:
                loads.stdin.write(b"a key\ta value\n")
                loads.stdin.flush()
                while b"a keya value" not in device.read_bytes():
                    time.sleep(0.01)
                loads.kill()
        dump = json.loads(run(tool, "dump", "--json", device))
        log, = dump["used"]
        self.path, self.uuid = device, uuid.UUID(dump["uuid"]).bytes
        self.generation, self.log = dump["generation"], log["offset"]
        raw = device.read_bytes()
        self.slots, self.slot_bytes = struct.unpack_from("<QQ", raw, 56)

    def bytes(self, offset, count):
        with open(self.path, "rb") as f:
            f.seek(offset)
            return bytearray(f.read(count))

    def put(self, offset, block):
        with open(self.path, "r+b") as f:
            f.seek(offset)
            f.write(block)

    def heads(self):
        """Return the places of the four copies of the band table."""
        return [self.slots + i * self.slot_bytes for i in range(4)]

    def chunk(self):
        """Return the first chunk of the log with its batches, without the zeroes behind it."""
        count = struct.unpack("<I", self.bytes(self.log + 12, 4))[0]
        return self.bytes(self.log, 48 + count)


def checksum(begin, data, at):
    """Return the checksum of @data, with the checksum's own place @at as 0."""
    return crc32c(crc32c(0xffffffff, begin),
                  bytes(data[:at]) + bytes(4) + bytes(data[at + 4:]))


def test_checksum_of_a_known_text():
    """The check value in every description of crc32c, which inverts the result."""
    assert crc32c(crc32c(0xffffffff, b"1234"), b"56789") == 0xe3069283 ^ 0xffffffff


def test_checksums_begin_with_the_uuid(tool, device):
    """The checksums of the band table's heads and of the log begin with the store's UUID, as
    kv-format.rst says."""
    disk = OnDisk(tool, device)
    found = []
    for i, at in enumerate(disk.heads()):
        head = disk.bytes(at, 4096)
        assert head[:8] == b"KVBANDS\0" and head[16:32] == disk.uuid
        generation, = struct.unpack_from("<Q", head, 32)
        assert generation % 2 == i // 2
        found.append(generation)
        assert struct.unpack_from("<I", head, 12)[0] == checksum(disk.uuid, head, 12)
        # The checksum of the entries does not begin with the UUID.
        count, body = struct.unpack_from("<II", head, 68)
        assert body == crc32c(0xffffffff, bytes(disk.bytes(at + 4096, count)))
    assert sorted(found) == sorted([disk.generation, disk.generation - 1] * 2)
    chunk = disk.chunk()
    assert chunk[:8] == b"KVLOG\0\0\0" and b"a keya value" in chunk
    assert struct.unpack_from("<I", chunk, 8)[0] == checksum(disk.uuid, chunk, 8)


@pytest.mark.parametrize("logged", (False, True))
@pytest.mark.parametrize("what,torn", (
    ("older", True), ("its head is older", True), ("torn", True), ("no head", False),
    ("a flipped bit of its head", False), ("its head is newer", False),
    ("its head is too old", False), ("its head is of the other slot", False)))
def test_damaged_copy_of_the_band_table(tool, device, what, torn, logged):
    """One copy of the band table is changed. A state that an interrupted commit can leave is not
    reported as damage, unless the store was not closed: then its log shows that the commit was
    complete. Every other state is reported."""
    disk = OnDisk(tool, device, closed=not logged)
    if not logged:
        run(tool, "compact", device)
        disk.generation = json.loads(run(tool, "dump", "--json", device))["generation"]
    at = disk.heads()[disk.generation % 2 * 2 + 1]
    head, body = disk.bytes(at, 4096), disk.bytes(at + 4096, 4096)
    steps = {"older": -2, "its head is older": -2, "its head is too old": -4,
             "its head is newer": 2, "its head is of the other slot": -1}
    if what in steps:
        head[32:40] = struct.pack("<q", disk.generation + steps[what])
        struct.pack_into("<I", head, 12, checksum(disk.uuid, head, 12))
    elif what == "no head":
        head = bytes(4096)
    elif what != "torn":
        head[80] ^= 1
    if what != "older":
        body[30] ^= 0xff
    disk.put(at, head + body)
    before = device.read_bytes()
    told = run(tool, "check", device, rc=0 if torn and not logged else DAMAGED)
    if torn and not logged:
        note, end = told.splitlines()
        assert "copy 2 of 2" in note and "interrupted commit" in note and end == "clean"
        found = json.loads(run(tool, "check", "--json", device))["findings"]
        assert found == [note]
    else:
        assert told == "band table: copy 2 of 2 is damaged\n"
    assert device.read_bytes() == before
    run(tool, "put", device, "another", "one")
    assert run(tool, "check", device) == "clean\n"


@pytest.mark.parametrize("begin", ("ours", "another", "none"))
def test_content_of_another_store_is_refused(tool, device, begin):
    """A chunk or a table head of another store is not accepted: its checksum fits its content,
    but begins with another store's UUID or with none. This guards against the leftovers of a
    store that was on the device before."""
    disk = OnDisk(tool, device)
    seal = {"ours": disk.uuid, "another": bytes([disk.uuid[0] ^ 1]) + disk.uuid[1:],
            "none": b""}[begin]
    chunk = disk.chunk()
    chunk[chunk.index(b"a value")] = ord("b")
    struct.pack_into("<I", chunk, 8, checksum(seal, chunk, 8))
    disk.put(disk.log, chunk)
    if begin == "ours":
        assert run(tool, "get", device, "a key") == "b value"
    else:
        # The log was closed, so the store must not take this for a torn write.
        told = run(tool, "get", device, "a key", rc=DAMAGED)
        assert "no such key" in told and "damaged at byte 0" in told
    for at in disk.heads():
        head = disk.bytes(at, 4096)
        head[40:48] = struct.pack("<Q", struct.unpack_from("<Q", head, 40)[0] + 1000)
        struct.pack_into("<I", head, 12, checksum(seal, head, 12))
        disk.put(at, head)
    if begin == "ours":
        # The store numbers the next log by the changed field of the band table.
        run(tool, "put", device, "another", "one")
        assert min(b["id"] for b in json.loads(run(tool, "dump", "--json", device))["used"]
                   ) > 1000
    else:
        assert "band table" in run(tool, "get", device, "a key", rc=DAMAGED)


def test_format_of_an_unsorted_table(tool, device):
    """The format of an unsorted table, as described in kv-format.rst."""
    run(tool, "format", "--band", "64K", "--organisation", "buffered", device)
    lines = [f"{i * 7919 % 1000:03d}\t{'v' * (i % 300)}\n" for i in range(600)]
    run(tool, "load", "--batch", 3, device, text="".join(lines).encode())
    dump = json.loads(run(tool, "dump", "--json", device))
    assert dump["organisation"] == "buffered"
    table = next(b for b in dump["used"] if b.get("unsorted"))
    assert table["level"] == 0
    raw = device.read_bytes()
    assert struct.unpack_from("<I", raw, 32)[0] == 2
    band = raw[table["offset"]:table["offset"] + table["bytes"]]
    foot = band[-4096:]
    assert foot[:8] == b"KVTABLE\0"
    writes, deletions = struct.unpack_from("<QQ", foot, 40)
    log, index, bloom, blocks = struct.unpack_from("<IIII", foot, 64)
    assert (writes, deletions, blocks) == (table["entries"], 0, table["entries"])
    seal = crc32c(crc32c(0xffffffff, uuid.UUID(dump["uuid"]).bytes),
                  struct.pack("<Q", table["id"]))

    def piece(offset, count):
        return crc32c(crc32c(seal, struct.pack("<I", offset)), band[offset:offset + count])
    for at, count in (log, index), (log + index + 4, bloom):
        assert struct.unpack_from("<I", band, at + count)[0] == piece(at, count)
    places = struct.unpack_from(f"<{blocks}I", band, log + index - 4 * blocks)
    found = []
    for place in places:
        offset, count, key_bytes, crc = struct.unpack_from("<IIHI", band, log + place)
        key = band[log + place + 14:log + place + 14 + key_bytes]
        assert crc == piece(offset, count) and offset + count <= log
        key_bytes, value_bytes, word = struct.unpack_from("<HIQ", band, offset)
        assert band[offset + 14:offset + 14 + key_bytes] == key
        assert count == 14 + key_bytes + value_bytes and word & 255 == 1
        found.append((key, word >> 8, offset))
    assert [f[:2] for f in found] == sorted((f[:2] for f in found), key=lambda f: (f[0], -f[1]))
    # The entries are in the order of their arrival, and none is missing from the first on.
    by_place = sorted(found, key=lambda f: f[2])
    assert [f[0].decode() for f in by_place] == [line[:3] for line in lines[:writes]]
    assert [f[1] for f in by_place] == list(range(1, writes + 1))
    assert band[:8] == b"KVLOG\0\0\0" and band[12:16] != bytes(4)
    assert run(tool, "check", device) == "clean\n"
    stats = json.loads(run(tool, "stats", "--json", device))
    assert stats["unsorted_bands"] >= 1 and stats["unsorted_bytes"] >= table["bytes"]


def test_damage_of_an_unsorted_table(tool, device):
    """Damage to a value is reported by `get` and by `check`, with the band. Damage to a part
    that only a check reads is found by `check`, and `get` still works."""
    run(tool, "format", "--band", "64K", "--organisation", "buffered", device)
    lines = [f"{i:03d}\t{'v' * 200}\n" for i in range(600)]
    run(tool, "load", "--batch", 50, device, text="".join(lines).encode())
    table = next(b for b in json.loads(run(tool, "dump", "--json", device))["used"]
                 if b.get("unsorted"))
    whole = device.read_bytes()
    # The number of the chunk, and the value of the first key.
    for at, key, rc in (24, "000", 0), (48 + 8 + 14 + 3 + 5, "000", DAMAGED):
        spoilt = bytearray(whole)
        spoilt[table["offset"] + at] ^= 1
        device.write_bytes(spoilt)
        assert f"band {table['band']} " in run(tool, "check", device, rc=DAMAGED)
        run(tool, "get", device, key, rc=rc)
        run(tool, "get", device, "001")


@pytest.fixture(name="spare")
def make_spare(tmp_path):
    path = tmp_path / "spare"
    with open(path, "wb") as f:
        f.truncate(MIB)
    return path


def test_format_of_an_offload_device(tool, device, spare):
    """The header of an offload device, as described in kv-format.rst."""
    run(tool, "format", "--band", "64K", "--organisation", "buffered", device)
    run(tool, "offload", "--size", "512K", device, spare)
    store = device.read_bytes()
    raw = spare.read_bytes()
    for at in 0, 64 * KIB - 4096:
        head = raw[at:at + 4096]
        assert head[:8] == b"KVOFFLD\0" and head[16:32] == store[16:32]
        assert struct.unpack_from("<I", head, 12)[0] == checksum(b"", head, 12)
        assert struct.unpack_from("<IIII", head, 32) == (2, 64 * KIB, 7, 0)
        assert struct.unpack_from("<QQQQQ", head, 48) == \
            (512 * KIB, 4096, 0, 64 * KIB, 64 * KIB - 4096)
        assert head[88:104] not in (bytes(16), head[16:32]) and not any(head[104:])
    # The store does not refer to the offload device before its first use.
    assert store == device.read_bytes()
    assert json.loads(run(tool, "stats", "--json", "--offload", spare, device)
                      )["offload_bands_free"] == 7
    run(tool, "put", "--offload", spare, device, "k", "v")
    slots, slot_bytes = struct.unpack_from("<QQ", device.read_bytes(), 56)
    newest = max((device.read_bytes()[slots + i * slot_bytes:][:4096] for i in range(4)),
                 key=lambda h: struct.unpack_from("<Q", h, 32)[0])
    assert newest[80:96] == raw[88:104]
    run(tool, "put", device, "l", "v")
    assert run(tool, "scan", "--keys", device) == "k\nl\n"


def test_offload_device_of_another_store_is_refused(tool, device, spare, tmp_path):
    """An offload device belongs to one store. It is refused to other stores, and neither
    `format` nor `offload` overwrites it, or a filesystem, without --force."""
    other = tmp_path / "other"
    other.write_bytes(device.read_bytes())
    for store in device, other:
        run(tool, "format", "--band", "64K", "--organisation", "buffered", store)
    run(tool, "offload", device, spare)
    before = spare.read_bytes()
    assert "contains the offload device of a key-value store" in \
        run(tool, "offload", other, spare, rc=FAILED)
    assert "of another store" in run(tool, "put", "--offload", spare, other, "k", "v", rc=FAILED)
    assert "not an offload device" in run(tool, "scan", "--offload", other, device, rc=FAILED)
    assert "not a key-value store" in run(tool, "scan", spare, rc=FAILED)
    assert "in use" in run(tool, "put", "--offload", device, device, "k", "v", rc=FAILED)
    assert "contains the offload device" in run(tool, "format", "--band", "64K", spare, rc=FAILED)
    assert spare.read_bytes() == before
    run(tool, "offload", "--force", other, spare)
    assert "of another store" in run(tool, "scan", "--offload", spare, device, rc=FAILED)
    run(tool, "put", "--offload", spare, other, "k", "v")
    subprocess.run(["mkfs.ext4", "-q", "-F", spare], check=True)
    assert "ext4" in run(tool, "offload", other, spare, rc=FAILED)
    sorts = tmp_path / "sorts"
    sorts.write_bytes(bytes(8 * MIB))
    run(tool, "format", "--band", "64K", sorts)
    assert "only a store of the organisation buffered" in \
        run(tool, "offload", "--force", sorts, spare, rc=USAGE)
    assert "room for two bands" in \
        run(tool, "offload", "--size", "128K", "--force", device, spare, rc=USAGE)


def test_records_loaded_during_merges(tool, device, spare):
    """All that was loaded with an offload device can be read. The speed of the merges determines
    whether some data are left on that device; if so, the store is refused without it. After
    `compact` the store does not need it."""
    run(tool, "format", "--band", "64K", "--organisation", "buffered", device)
    run(tool, "offload", device, spare)
    lines = some_lines(5, 4000)
    shuffled = random.Random(6).sample(lines, len(lines))
    run(tool, "load", "--batch", 7, "--offload", spare, device, text="".join(shuffled).encode())
    assert run(tool, "scan", "--offload", spare, device) == "".join(lines)
    assert run(tool, "check", "--offload", spare, device) == "clean\n"
    dump = json.loads(run(tool, "dump", "--json", "--offload", spare, device))
    if any(b["offloaded"] for b in dump["used"]):
        print("some was left there")
        assert "give that device, too" in run(tool, "scan", device, rc=FAILED)
        assert "give that device, too" in run(tool, "offload", "--force", device, spare, rc=FAILED)
    run(tool, "compact", "--offload", spare, device)
    assert run(tool, "scan", device) == "".join(lines)


def test_open_store_is_refused_to_others(tool, device):
    """A store that a program has open is refused to another one."""
    run(tool, "format", "--band", "64K", device)
    with subprocess.Popen([tool, "load", device], stdin=subprocess.PIPE) as loading:
        # The program reads from the pipe only after it has opened the store.
        loading.stdin.write(b"k\tv\n" * 100000)
        loading.stdin.flush()
        assert "in use" in run(tool, "put", device, "a", "b", rc=FAILED)
        loading.stdin.close()
        assert loading.wait() == 0
    assert run(tool, "scan", device) == "k\tv\n"


def test_open_waits_for_a_lock_being_released(tool, device):
    """After a program was killed, the kernel takes some time to release its lock; kv waits up to
    about a second for that."""
    run(tool, "format", "--band", "64K", device)
    with open(device, "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        with subprocess.Popen([tool, "put", device, "a", "b"], stderr=subprocess.PIPE) as waits:
            time.sleep(.4)
            assert waits.poll() is None, waits.stderr.read()
            fcntl.flock(f, fcntl.LOCK_UN)
            assert waits.wait(timeout=60) == 0, waits.stderr.read()
        fcntl.flock(f, fcntl.LOCK_EX)
        began = time.monotonic()
        assert "in use" in run(tool, "get", device, "a", rc=FAILED)
        assert .9 < time.monotonic() - began < 30
    assert run(tool, "get", device, "a") == "b"


def test_file_behind_a_loop_device_is_refused(tool, device):
    """A file that is behind a loop device is refused; the store is used through the loop device."""
    run(tool, "format", "--band", "64K", device)
    done = subprocess.run(["losetup", "--find", "--show", device], check=False,
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no loop devices here")
    loop = done.stdout.strip()
    try:
        assert loop in run(tool, "put", device, "k", "v", rc=FAILED)
        run(tool, "put", loop, "k", "v")
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)
    assert run(tool, "get", device, "k") == "v"


@pytest.mark.parametrize("seed,organisation", ((0, "soc"), (1, "soc"), (2, "soc"), (3, "buffered")))
def test_killed_load_keeps_a_prefix(tool, device, spare, seed, organisation):
    """Loads that are killed: the store holds the first lines of the input without a gap. The
    number of missing lines is limited by what the pipe and the program's buffer hold."""
    run(tool, "format", "--band", "64K", "--organisation", organisation, device)
    offload = ["--offload", spare] if organisation == "buffered" else []
    if offload:
        run(tool, "offload", device, spare)
    lines = [f"{i:06d}\t{'v' * (i % 300)}\n" for i in range(1000000)]
    with subprocess.Popen([tool, "load", "--sync", *offload, device],
                          stdin=subprocess.PIPE) as loading:
        sent = 0
        try:
            for sent in range(3000 + 500 * seed):
                loading.stdin.write(lines[sent].encode())
            loading.stdin.flush()
        finally:
            loading.kill()
            loading.wait()
    got = run(tool, "scan", *offload, device).splitlines(keepends=True)
    assert got == lines[:len(got)] and len(got) <= sent + 1
    # The other lines were in the pipe and in the program's buffer.
    assert sent - len(got) < (64 + 8) * KIB
    *copies, end = run(tool, "check", *offload, device).splitlines()
    assert end == "clean" and all("interrupted commit" in line for line in copies)


# --- programs of users -----------------------------------------------------------

def program(name):
    """Return the C program of a document: its literal block that begins with #include."""
    text = (TOP / "Documentation" / name).read_text(encoding="utf-8")
    block = re.search(r"::\n\n((?:  #include.*\n)(?:(?:  .*|\s*)\n)*)", text)[1]
    return re.sub(r"^  ", "", block, flags=re.M)


@pytest.mark.parametrize("how", ((), ("--static",)))
def test_program_of_the_document_builds(tmp_path, device, how):
    """The C program in kv.rst builds with the installed files, linked to the shared and to the
    static library, without a warning, and prints what the document says."""
    make("userspace/kv")
    make("userspace/kv", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr")
    for name in ("lib/libshingle-kv.a", "lib/libshingle-kv.so.1", "include/shingle-kv.h",
                 "bin/kv", "share/man/man1/kv.1"):
        assert (tmp_path / "usr" / name).exists()
    source = tmp_path / "colours.c"
    source.write_text(program("kv.rst"), encoding="utf-8")
    assert 40 <= len(source.read_text(encoding="utf-8").splitlines()) <= 60
    env = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=str(tmp_path),
               PKG_CONFIG_PATH=str(tmp_path / "usr/lib/pkgconfig"))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", *how, "shingle-kv"],
                           env=env, check=True, capture_output=True, text=True).stdout.split()
    # Only a static program must name the libraries that shingle-kv uses itself.
    assert ("-luring" in flags) == bool(how)
    if how:
        flags = [str(tmp_path / "usr/lib/libshingle-kv.a") if f == "-lshingle-kv" else f
                 for f in flags]
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o",
                    tmp_path / "colours", source, *flags], check=True)
    needed = subprocess.run(["readelf", "-d", tmp_path / "colours"], check=True,
                            capture_output=True, text=True).stdout
    assert ("Shared library: [libshingle-kv.so.1]" in needed) == (not how)
    env = dict(os.environ, LD_LIBRARY_PATH=str(tmp_path / "usr/lib"))
    os.truncate(device, 64 * MIB)
    done = subprocess.run([tmp_path / "colours", device], check=True, env=env,
                          capture_output=True, text=True)
    assert done.stdout == "the sky is blue\ngrass\nsky\nsnow\n"
    # A missing device is an error, not the end of a scan.
    done = subprocess.run([tmp_path / "colours", tmp_path / "nofile"], check=False, env=env,
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.endswith("nofile: No such file or directory\n")


def declared():
    """Return the names of the functions that the header declares."""
    header = (TOP / "userspace/include/shingle-kv.h").read_text(encoding="utf-8")
    return set(re.findall(r"^[\w ]+\W\*?(kv_\w+)\(", header, re.M))


def test_shared_library_exports_the_header():
    """The shared library exports exactly the functions of the header, each with the version of
    its node: in the object, in the map and in Debian's symbols file."""
    make("userspace/kv")
    shared = TOP / "build/userspace/libshingle-kv.so.1"
    seen = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", shared],
                          check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r" T (\S+)$", seen, re.M)) == \
        {f"{name}@@SHINGLE_KV_1" for name in declared()}
    listed = (TOP / "userspace/kv/shingle-kv.map").read_text(encoding="ascii")
    assert set(re.findall(r"^\t(kv_\w+);$", listed, re.M)) == declared()
    debian = (TOP / "debian/libshingle-kv1.symbols").read_text(encoding="ascii")
    assert set(re.findall(r"^ (kv_\w+)@SHINGLE_KV_1 1\.0\.0$", debian, re.M)) == declared()
    assert debian.startswith("libshingle-kv.so.1 libshingle-kv1 ")
    dynamic = subprocess.run(["readelf", "-d", shared], check=True, capture_output=True,
                             text=True).stdout
    assert "Library soname: [libshingle-kv.so.1]" in dynamic


def test_each_function_is_documented():
    """Each function is in kv.rst and has a comment in the header."""
    text = (TOP / "Documentation/kv.rst").read_text(encoding="utf-8")
    header = (TOP / "userspace/include/shingle-kv.h").read_text(encoding="utf-8")
    assert not [f for f in declared() if f"``{f}()``" not in text]
    assert not [f for f in declared() if f" * {f}() - " not in header]


def test_static_library_exports_only_the_header():
    """The static library exports no other symbols, which could clash with those of a program."""
    make("userspace/kv")
    archive = TOP / "build/userspace/libshingle-kv.a"
    seen = subprocess.run(["nm", "--defined-only", "--extern-only", archive], check=True,
                          capture_output=True, text=True).stdout
    names = set(re.findall(r" [A-Z] (\w+)$", seen, re.M))
    assert names == declared()
