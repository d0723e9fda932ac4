# SPDX-License-Identifier: GPL-2.0
"""Tests of the shingle tool without a kernel: plain files stand in for the devices.

ondisk.py is a second description of the format: it reads what the tool writes, and writes what
the tool reads."""

import bisect
import contextlib
import ctypes
import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import zlib
from pathlib import Path
from uuid import UUID

import pytest
from guest.ondisk import (BLOCK, CHUNK, GROUP, HEADER, JOURNAL, PART, SB, VERSION, crc32c, footer,
                    member, read_super, seal, sound)
from programs import TOP, make

CLEAN, CORRECTED, ERRORS, FAILED, USAGE = 0, 1, 4, 8, 16
RECORD = struct.Struct("<HHIQQ")
# dm-stl/set/engine.h
MAP, STAGED, CLEANED, RESET, DISCARD, DROP = range(0x100, 0x106)
BAD, GOOD = 1, 2


@pytest.fixture(scope="session", name="tool")
def build_tool():
    """The tool that SHINGLE names, or a fresh build."""
    if os.environ.get("SHINGLE"):
        return os.environ["SHINGLE"]
    make("userspace", "shingle")
    return str(TOP / "build/userspace/shingle")


@pytest.fixture(name="run")
def runner(tool, tmp_path):
    def run(*args, rc=CLEAN, answer=None):
        done = subprocess.run([tool, *map(str, args)], cwd=tmp_path, text=True,
                              input=answer, capture_output=True, check=False)
        assert rc in (None, done.returncode), \
            f"{args}: {done.returncode}, not {rc}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr
    run.dir = tmp_path
    run.tool = tool
    return run


def blank(path, blocks):
    with open(path, "wb") as f:
        f.truncate(blocks * BLOCK)
    return path


class Image:
    """A formatted device, with its metadata on a device of its own or not."""

    def __init__(self, run, *options, blocks=100, meta=64,
                 target=("stl-set", "--band", "12K")):
        self.run = run
        self.data = blank(run.dir / "data", blocks)
        self.meta = blank(run.dir / "meta", meta) if meta else None
        self.args = [self.data, *(["--meta", self.meta] if meta else [])]
        run("format", *target, *options, *self.args)
        self.file = self.meta or self.data
        self.sb = read_super(self.read(0))
        self.last = (self.file.stat().st_size // BLOCK) - 1
        self.seq, self.pos, self.prev = 1, 0, 0

    def read(self, at):
        with open(self.file, "rb") as f:
            f.seek(at * BLOCK)
            return f.read(BLOCK)

    def write(self, at, data):
        assert len(data) == BLOCK
        with open(self.file, "r+b") as f:
            f.seek(at * BLOCK)
            f.write(data)

    def flip(self, at, bit):
        data = bytearray(self.read(at))
        data[bit // 8] ^= 1 << bit % 8
        self.write(at, bytes(data))

    def commit(self, *blocks, skip=()):
        """Writes a transaction of blocks of records; returns the place of each block."""
        where, (start, ring) = [], self.sb["journal"]
        for index, records in enumerate(blocks):
            raw = bytearray(BLOCK)
            struct.pack_into("<IHHII", raw, 40, self.prev, index, len(blocks),
                             len(records), 0)
            for i, r in enumerate(records):
                RECORD.pack_into(raw, 56 + i * RECORD.size, *r)
            at = start + self.pos
            raw = seal(raw, JOURNAL, self.sb["uuid"], at, self.seq)
            self.prev = struct.unpack_from("<I", raw, 4)[0]
            if index not in skip:
                self.write(at, raw)
            where.append(at)
            self.pos = (self.pos + 1) % ring
        self.seq += 1
        return where

    def checkpoint(self, slot, number, chunks, with_footer=True):
        """Writes a checkpoint of @chunks, {index: payload}; returns the places of the chunks and
        the footer."""
        start = self.sb["ckpt"][slot][0]
        crc, where = 0, []
        for at, (index, payload) in enumerate(chunks.items(), start):
            raw = bytearray(BLOCK)
            struct.pack_into("<QII", raw, 40, index, len(payload), 0)
            raw[56:56 + len(payload)] = payload
            raw = seal(raw, CHUNK, self.sb["uuid"], at, number)
            crc = crc32c(crc, raw[4:8])
            self.write(at, raw)
            where.append(at)
        where.append(start + len(chunks))
        if with_footer:
            self.write(where[-1], footer(self.sb["uuid"], number, where[-1], self.seq,
                                         self.pos, self.prev, len(chunks), crc))
        return where

    def check(self, rc=CLEAN):
        text = self.run("check", "--json", *self.args, rc=rc)
        # A command that refuses the devices also prints a sentence.
        out = json.JSONDecoder().raw_decode(text)[0]
        assert out["clean"] == (rc == CLEAN)
        return out

    def dump(self, *more, rc=CLEAN):
        return json.loads(self.run("dump", "--json", *more, *self.args, rc=rc))

    def map(self):
        return [(m["lblk"], m["blocks"], m["kind"], m["role"], m["block"])
                for m in self.dump("--map")["map"]]

    def bits(self, often=64, count=120):
        """Every bit of the header and its neighbours, and a sample of the rest."""
        rng = random.Random(4711)
        return [*range(often * 8), *(rng.randrange(often * 8, BLOCK * 8) for _ in range(count))]


@pytest.fixture(name="image")
def small_image(run):
    return Image(run, "--cache-size", "5b", blocks=100)


@pytest.fixture(name="busy")
def busy_image(image):
    """Checkpoint 2 in slot 1, one chunk for each kind of state, and a journal."""
    image.commit([(MAP, 2, 0, 0, 0), (CLEANED, 0, 0, 1, 0), (CLEANED, 0, 0, 2, 0)])
    image.commit([(MAP, 1, 0, 3, 3), (MAP, 1, 0, 4, 4)])
    image.chunks = image.checkpoint(1, 2, {1: b"\x06",
                                           2: struct.pack("<3I", 2, 0 + 2, 1 + 2),
                                           3: struct.pack("<3I", 2, 3 + 2, 4 + 2)})
    image.journal = [*image.commit([(MAP, 1, 0, 6, 6)]),
                     *image.commit([(MAP, 1, 0, 7, 7)], [(DROP, 1, 0, 0, 0)], [(BAD, 0, 0, 9, 0)]),
                     *image.commit([(MAP, 1, 0, 8, 8)])]
    return image


# --------------------------------------------------------------------------
# Format, geometry and the table line


def content(path, at):
    """Block @at of the file, counted from the end if negative."""
    with open(path, "rb") as f:
        f.seek(at * BLOCK, os.SEEK_SET if at >= 0 else os.SEEK_END)
        return f.read(BLOCK)


def test_format_writes_headers_and_is_clean(image):
    """Format writes two superblocks, the footer of an empty checkpoint, and a header at both ends
    of DATA; it changes no other byte."""
    written = [i for i in range(image.last + 1) if any(image.read(i))]
    start = image.sb["ckpt"][0][0]
    assert written == [0, start, image.last]
    assert sound(image.read(0), SB) and sound(image.read(image.last), SB)
    assert image.read(start) == footer(image.sb["uuid"], 1, start, journal_seq=1)
    for at in (0, 99):
        block = content(image.data, at)
        ctime = PART.unpack_from(block, 40)[-1]
        assert block == member(image.sb["uuid"], at, engine="stl-set", dev=0, blocks=100,
                               ctime=ctime)
    assert ctime == image.dump()["ctime"]
    with open(image.data, "rb") as f:
        assert not any(f.read()[BLOCK:-BLOCK])
    out = image.check()
    assert out["checkpoint"] == 1 and out["transactions"] == 0


def test_tiny_geometry(run):
    """The smallest layout: 18 blocks and a header at both ends, in bands of 3: three data bands,
    one staging band and two cache bands."""
    image = Image(run, "--cache-size", "2b", blocks=20)
    groups = [(g[4], g[5], g[0], g[1], g[2]) for g in image.sb["groups"]]
    assert groups == [(0, 0, 1, 3, 3), (2, 0, 10, 3, 1), (1, 0, 13, 3, 2)]
    assert image.sb["logical"] == 9
    image.check()
    line = run("open", *image.args, "tiny", "--dry-run", "--feature", "inplace",
               "--set", "commit_ms=100").strip()
    assert line == (f"dmsetup create tiny --table '0 72 stl-set {image.data} - {image.meta} "
                    "1 inplace 2 commit_ms 100'")


def test_dmsetup_line_is_quoted_for_a_shell(run):
    """A shell splits the printed line into the intended words, even if names contain quotes or
    `$(...)`: users paste the line."""
    data = blank(run.dir / "anna's-$(disk)", 400)
    run("format", "stl-set", "--band", "12K", data)
    line = run("open", data, "it's", "--dry-run").strip()
    words = subprocess.run(["sh", "-c", f"printf '%s\\n' {line}"], check=False, text=True,
                           capture_output=True).stdout.splitlines()
    assert words[:4] == ["dmsetup", "create", "it's", "--table"]
    assert re.fullmatch(rf"0 \d+ stl-set {re.escape(str(data))} - -", words[4]) and len(words) == 5


@pytest.mark.parametrize("where", [[], ["--cache-location", "od"]])
@pytest.mark.parametrize("blocks, size, cache", [(40, "1b", 1), (1, "30%", 89), (40, "400K", 3),
                                                 (7, "5%", 2)])
def test_cache_bands_of_their_own_length(run, where, blocks, size, cache):
    """The data takes what the cache leaves; the cache is counted in its own bands."""
    image = Image(run, "--cache-band", f"{4 * blocks}K", "--cache-size", size, *where,
                  blocks=300, meta=600)
    out = image.dump()
    assert out["band_blocks"] == 3 and out["bands"]["cache"] == cache
    assert {g["role"]: g["band_blocks"] for g in out["groups"]} == {
        "data": 3, "staging": 3, "cache": blocks}
    assert out["bands"]["data"] == (298 - 3 - cache * blocks) // 3
    assert out["logical_blocks"] == 3 * out["bands"]["data"]
    assert f"of cache {blocks} blocks" in run("dump", *image.args)
    image.check()


def test_format_makes_the_requested_cache_bands(run):
    """The device has exactly the requested number of data and cache bands, each followed by its
    guards, or format refuses with one sentence. Without --cache-size, a CACHE device takes as many
    cache bands as fit."""
    asked = ["--bands", "20", "--cache-size", "2b", "--cache-band", "20K", "--track", "8K",
             "--head-tracks", "2"]
    image = Image(run, *asked, blocks=280)
    out = image.dump()
    assert out["bands"] == {"data": 20, "staging": 1, "cache": 2}
    assert {g["role"]: g["stride"] for g in out["groups"]} == {
        "data": 6, "staging": 6, "cache": 8}
    said = run("format", "stl-set", "--band", "12K", "--force", *asked, "--bands", "200",
               *image.args, rc=FAILED)
    assert "no room for 2 cache bands of 5 blocks beside 200 of data and 1 of staging" in said
    data, cache = blank(run.dir / "d", 400), blank(run.dir / "c", 62)
    run("format", "stl-set", "--band", "40K", "--cache-band", "16K", "--cache", cache, data)
    out = json.loads(run("dump", "--json", data, "--cache", cache))
    assert out["bands"]["staging"] == 1 and out["bands"]["cache"] == 12
    said = run("format", "stl-set", "--band", "40K", "--cache-band", "400K", "--force",
               "--cache", cache, data, rc=FAILED)
    assert "staging of 10 blocks and one of the cache of 100" in said
    said = run("format", "stl-full", "--band", "40K", "--cache-band", "16K", data, "--force",
               rc=USAGE)
    assert "--cache-band does not apply to stl-full" in said


def regroup(image, change):
    """Rewrites the group table of both superblocks, with valid checksums: @change edits it as
    lists."""
    raw = bytearray(image.read(0))
    groups = [list(g) for g in image.sb["groups"]]
    change({g[4]: g for g in groups}, groups)
    struct.pack_into("<I", raw, 188, len(groups))
    for i, g in enumerate(groups):
        GROUP.pack_into(raw, 512 + i * GROUP.size, *g)
    for at in (0, image.last):
        image.write(at, seal(raw, SB, at=at))


def cut(role, groups):
    """Moves the last data band into a group of its own, where it is a block shorter."""
    start, stride, bands, track, _, dev, band = role[0]
    role[0][2] = bands - 1
    groups.append([start + (bands - 1) * stride, stride, 1, track, 0, dev, band - 1])


def each(which, length):
    """A change for regroup(): the bands of role @which get this length."""
    return lambda role, _: role[which].__setitem__(6, length)


@pytest.mark.parametrize("change, what", [
    (each(0, 0), "does not say how long"), (each(1, 0), "does not say how long"),
    (each(2, 0), "does not say how long"), (cut, "one role have bands of different lengths"),
    (each(0, 4), "bands overlap"), (each(1, (1 << 32) - 1), "bands overlap"),
    (each(2, 2), "staging band that is no shorter than its data bands"),
])
def test_impossible_band_lengths_are_refused(run, change, what):
    """dump and check refuse a superblock with valid checksums and impossible band lengths."""
    image = Image(run, "--cache-size", "2b", blocks=20)
    regroup(image, change)
    assert what in run("dump", "--map", *image.args, rc=None)
    assert what in run("check", *image.args, rc=None)


def test_long_bands_do_not_wrap(run):
    """A length or guard near 2^32 must not wrap to a short one."""
    image = Image(run, "--track", "8K", "--head-tracks", "2", "--cache-size", "2b", blocks=60,
                  target=("stl-set", "--band", "16K"))
    regroup(image, lambda role, _: (each(1, (1 << 32) - 1)(role, _),
                                    role[1].__setitem__(1, (1 << 32) - 1),
                                    role[1].__setitem__(3, 2)))
    assert "guard as wide" in run("check", *image.args, rc=None)


def test_cache_on_its_own_device(run):
    """With --cache, the staging and cache bands lie on CACHE, and open refuses the device without
    it."""
    data, cache = blank(run.dir / "data", 4000), blank(run.dir / "cache", 62)
    run("format", "stl-set", "--band", "40K", "--cache", cache, data)
    out = json.loads(run("dump", "--json", data, "--cache", cache))
    assert {g["role"]: g["device"] for g in out["groups"]} == {
        "data": "DATA", "staging": "CACHE", "cache": "CACHE"}
    assert out["bands"] == {"data": out["bands"]["data"], "staging": 1, "cache": 5}
    assert run("open", data, "x", "--cache", cache, "--dry-run").strip().endswith(
        f"stl-set {data} {cache} -'")
    assert "name it with --cache" in run("open", data, "x", "--dry-run", rc=FAILED)


def test_create_dry_run_changes_nothing(run):
    """A dry run prints the table line and writes nothing. Nor does a create that fails because
    DATA is a file and no block device."""
    data = blank(run.dir / "data", 5000)
    out = run("create", "stl-set", "--dry-run", "--band", "40K", "--set-shift", "2", data, "x")
    assert f"stl-set {data} - -'" in out and "set-shift 2" in out
    assert not any(data.read_bytes())
    assert "losetup" in run("create", "stl-set", "--band", "40K", data, "x", rc=FAILED)
    assert not any(data.read_bytes())


@pytest.mark.parametrize("target, options, what", [
    ("stl-set", ["idel_ms=1"], "no key 'idel_ms'"), ("stl-set", ["threshold=1"], "no key"),
    ("stl-set", ["x" * 80 + "=1"], "no key"), ("stl-set", ["inplace=1"], "no key 'inplace'"),
    ("stl-set", ["cleaning=lzay"], "cleaning must be lazy or aggressive"),
    ("stl-set", ["order=fifo", "bypass_blocks=-1"], "bypass_blocks must be"),
    ("stl-full", ["threshold=99"], "threshold must be"),
    ("imr", ["policy=random"], "policy must be"),
    ("imr", ["buffer_tracks=0"], "buffer_tracks must be"),
    ("stl-set", ["commit_ms=600001"], "commit_ms must be"),
    ("stl-set", ["commit_ms=soon"], "commit_ms must be"),
    ("stl-set", ["idle_ms=-1"], "idle_ms must be"), ("stl-full", ["idle_ms="], "idle_ms must be"),
    ("stl-set", ["destage_ms=1.5"], "destage_ms must be"),
    ("imr", ["wcache_blocks=65537"], "wcache_blocks must be"),
    ("stl-set", ["wcache_blocks=8", "wcache=half"], "on or off"),
    ("stl-full", ["rotational=1"], "rotational must be on or off"),
    ("stl-set", ["wcache=on"], "give wcache_blocks"),
    ("stl-set", ["wcache=on", "wcache_blocks=0"], "give wcache_blocks"),
])
@pytest.mark.parametrize("more", [["--dry-run"], ["--force"]])
def test_create_refuses_unknown_keys(run, target, options, what, more):
    """The tool refuses keys and values that the kernel would refuse, before it writes anything and
    also with --force."""
    data = blank(run.dir / "data", 5000)
    said = run("create", target, *more, "--track", "80K", data, "x",
               *(["--band", "80K"] if target != "imr" else []),
               *(word for o in options for word in ("--set", o)), rc=USAGE)
    assert said.startswith("shingle: ") and what in said
    assert not any(data.read_bytes())


@pytest.mark.parametrize("target, options", [
    ("stl-set", ["commit_ms=0", "idle_ms=600000", "wcache_blocks=65536", "wcache=on",
                 "destage_ms=7", "cleaning=aggressive", "order=greedy", "bypass_blocks=64"]),
    ("stl-full", ["threshold=1", "wcache=off", "cleaning=lazy", "rotational=off"]),
    ("stl-set", ["wcache=on", "wcache_blocks=8"]), ("imr", ["wcache=on"]),
    ("imr", ["policy=zigzag", "level=hint", "largest=most", "buffer_tracks=2"]),
])
def test_create_accepts_keys(run, target, options):
    data = blank(run.dir / "data", 5000)
    said = run("create", target, "--dry-run", "--track", "80K", data, "x",
               *(["--band", "80K"] if target != "imr" else []),
               *(word for o in options for word in ("--set", o)))
    assert f" 0 {2 * len(options)} " + " ".join(options).replace("=", " ") + "'" in said


def test_open_refuses_invalid_values(image):
    said = image.run("open", *image.args, "x", "--dry-run", "--set", "cleaning=lzay", rc=USAGE)
    assert "cleaning must be" in said


def test_create_points_to_open(image):
    out = image.run("create", "stl-set", "--band", "12K", *image.args, "x", rc=FAILED)
    assert "shingle open" in out


def test_set_shift_and_label_are_kept(run):
    image = Image(run, "--set-shift", "3", "--label", 'a "b" \\')
    out = image.dump()
    assert out["params"] == {"set-shift": 3} and out["label"] == 'a "b" \\'


@pytest.mark.parametrize("label, printed", [
    ("K\u00fcche \u2603 \U0001f4be".encode(), "K\u00fcche \u2603 \U0001f4be"),
    (b'"\\/\t\x01', '"\\/\t\x01'), (b"\\xfc", "\\xfc"),
    (b"K\xfcche", "K\\xfcche"), (b"a\xed\xa0\x80b", "a\\xed\\xa0\\x80b"),
    (b"\xc0\x80", "\\xc0\\x80"), (b"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"),
    (b"\xe2\x98", "\\xe2\\x98"), (b"\xc2\x9b1m", "\\xc2\\x9b1m")])
def test_labels_are_printed_escaped(run, label, printed):
    """dump escapes the bytes of a label that are not UTF-8 or that control a terminal, and its
    JSON output stays valid."""
    image = Image(run, "--label", os.fsdecode(label))
    done = subprocess.run([run.tool, "dump", "--json", *image.args], check=True,
                          stdout=subprocess.PIPE)
    assert json.loads(done.stdout.decode("utf-8", "strict"))["label"] == printed


def test_uuid_is_random_and_printed_in_the_usual_form(run):
    first, image = Image(run).sb["uuid"], Image(run)
    text = str(UUID(bytes=image.sb["uuid"]))
    assert image.dump()["uuid"] == text and f"ID_FS_UUID={text}\n" in run("probe", image.data)
    assert UUID(text).version == 4 and first != image.sb["uuid"]


def test_stl_full_zones_provision_and_logs(run):
    data = blank(run.dir / "data", 20000)
    out = json.loads(run("format", "stl-full", "--dry-run", "--json", "--band", "40K", data))
    bands, params = out["groups"][0]["bands"], out["params"]
    # One zone, 5 % of it not addressable; logs take a fifth of that.
    assert params == {"zone-bands": bands, "provision": -(-bands * 5 // 100),
                      "log-bands": -(-bands * 5 // 100) // 5}
    assert out["logical_blocks"] == 10 * (bands - params["provision"])
    run("format", "stl-full", "--band", "40K", "--zone-bands", "100", "--provision", "4",
        "--log-bands", "2", data)
    out = run("check", data)
    assert "stl-full" in run("dump", data)


@pytest.mark.parametrize("options, what", [
    (["--provision", "1"], "at least 2"), (["--zone-bands", "3"], "more bands than"),
    (["--provision", "9", "--zone-bands", "9"], "more bands than"),
    (["--provision", "4", "--log-bands", "4"], "less than the provision"),
    (["--zone-bands", "100", "--log-bands", "5"], "less than the provision"),
    (["--set-shift", "1"], "does not apply"), (["--cache-size", "5%"], "no cache bands"),
])
def test_stl_full_refuses_invalid_options(run, options, what):
    data = blank(run.dir / "d", 3000)
    assert what in run("format", "stl-full", "--band", "40K", data, *options, rc=USAGE)
    assert not any(data.read_bytes())


def test_stl_full_accepts_minimal_options(run):
    data = blank(run.dir / "d", 3000)
    for options in (["--provision", "2"], ["--zone-bands", "4"], ["--zone-bands", "100",
                    "--log-bands", "4"], ["--provision", "9", "--zone-bands", "10"]):
        run("format", "stl-full", "--dry-run", "--band", "40K", data, *options)
    # The device and the requested logs decide whether there is a zone and how much of it is a
    # provision; the message gives both.
    said = run("format", "stl-full", "--dry-run", "--band", "40K", data, "--log-bands", "999",
               rc=FAILED)
    found = re.search(r"provision \(zone-bands (\d+), provision (\d+), log-bands 999\)$", said)
    assert found, said
    zone, provision = map(int, found.groups())
    assert provision < 999 and provision == zone // 20 + (zone % 20 > 0), said


PARAMS = {"stl-set": ["set-shift"], "stl-full": ["zone-bands", "provision", "log-bands"],
          "imr": ["spare-tracks"],
          "tiler": ["rows", "columns", "over-permille", "spare-regions"],
          "dualbuffer": ["m-percent", "sample-percent", "sample-tracks", "min-new-percent",
                         "min-fb-percent", "cache-track"],
          "rmwf": ["page-blocks", "group-columns"]}
CACHES = {"cache-size": "5%", "cache-band": "40K", "cache-location": "od"}
NONSENSE = {"band": "5000B", "bands": "0", "cache-size": "91%", "cache-band": "0K",
            "cache-location": "middle", "journal": "60K", "track": "257M", "head-tracks": "65",
            "label": "x" * 33, "backup-tracks": "2049"}


def wrong_words():
    """Pairs of a target and options that the tool refuses without looking at a device."""
    for target in PARAMS:
        cached = target in ("stl-set", "dualbuffer", "rmwf")
        for name, value in NONSENSE.items():
            yield target, [f"--{name}", value]
        for other, names in PARAMS.items():
            for name in names:
                yield target, [f"--{name}", "1" if other != target else str(1 << 32)]
                if other == target:
                    yield target, [f"--{name}", "many"]
        for name, value in {} if cached else CACHES.items():
            yield target, [f"--{name}", value]
        if not cached:
            yield target, ["--cache", "absent2"]
        if target != "imr":
            yield target, ["--backup-tracks", "2"]
        yield target, ["--track", "80K", "--head-tracks", "3", "--journal", "300K"] \
            if target != "imr" else ["--journal", "1M"]
    for words in (["--band", "64K"], ["--backup-tracks", "1"], ["--track", "60K"]):
        yield "imr", words
    for words in (["--provision", "1"], ["--zone-bands", "3"],
                  ["--provision", "4", "--log-bands", "4"]):
        yield "stl-full", words
    for words in (["--rows", "256", "--columns", "256"], ["--over-permille", "1000"]):
        yield "tiler", words
    for target in ("dualbuffer", "rmwf"):
        yield target, ["--cache-size", "16T"]


def test_usage_errors_need_no_device(run):
    """Words that are wrong on any device exit with status 16 (usage), even if there is no
    device."""
    tried = 0
    for target, words in wrong_words():
        for command, rest in (["format", ["absent"]], ["create", ["absent", "x"]]):
            out = run(command, target, *words, *rest, rc=USAGE)
            assert "absent:" not in out and out.startswith("shingle: ")
            tried += 1
    assert tried > 300


@pytest.mark.parametrize("words", [
    ["--set", "nonsense=1"], ["--set", "commit_ms=soon"], ["--set", "commit_ms=600001"],
    ["--feature", "nonsense"], ["--feature", "commit_ms"], ["--set", "wcache=half"],
])
@pytest.mark.parametrize("target", PARAMS)
def test_invalid_settings_need_no_device(run, target, words):
    """The tool refuses wrong settings before it opens the device, which does not exist here."""
    out = run("create", target, *words, "absent", "x", rc=USAGE)
    assert "absent" not in out
    run("create", target, "--set", "commit_ms=1", "absent", "x", rc=FAILED)


def test_options_that_depend_on_the_device(run):
    """These words are not wrong until the tool has looked at a device."""
    for target, words in (("imr", ["--track", "60K", "--meta", "e"]),
                          ("imr", ["--journal", "1M", "--meta", "e"]),
                          ("imr", ["--backup-tracks", "2048"]), ("imr", ["--track", "64K"]),
                          ("stl-set", ["--track", "80K", "--head-tracks", "1", "--journal",
                                       "64K"]),
                          ("stl-set", ["--track", "80K", "--journal", "64K", "--meta", "e"]),
                          ("tiler", ["--rows", "255", "--columns", "257"]),
                          ("stl-set", ["--track", "256M"]), ("imr", ["--set", "level=hint"]),
                          ("dualbuffer", ["--cache-size", "15T"])):
        assert "absent:" in run("create", target, *words, "absent", "x", rc=FAILED)


def layout_of(run, blocks, *options, rc=CLEAN):
    out = run("format", "stl-set", "--dry-run", "--json", *options,
              blank(run.dir / "d", blocks), rc=rc)
    return json.loads(out) if rc == CLEAN else out


class Tracks:
    """Runs of (tracks, blocks per track); the device may end inside a track."""

    def __init__(self, runs, blocks):
        self.start = []
        at = 0
        for tracks, length in runs:
            for _ in range(tracks):
                if at < blocks:
                    self.start.append(at)
                at += length
        self.blocks = blocks

    def of(self, block):
        return max(i for i, s in enumerate(self.start) if s <= block)

    def reach(self, first, last, head):
        """The blocks behind first..last that writing those can destroy."""
        end = self.of(last) + head
        begin = self.of(first) + 1
        if begin == self.of(last) + 1:
            lo = self.start[begin] if begin < len(self.start) else self.blocks
        else:
            lo = last + 1
        return lo, self.start[end] if end < len(self.start) else self.blocks


def assert_harmless(out, tracks, head, meta_apart=False):
    """No write to a band or an area destroys blocks of another one, and each of them begins at
    the start of a track."""
    parts = []
    for g in out["groups"]:
        for b in range(g["bands"]):
            first = g["start"] + b * g["stride"]
            parts.append((first, first + out["band_blocks"] - 1, "band"))
            assert first in tracks.start
            assert tracks.start[tracks.of(first) + 1:tracks.of(first) + 2] in (
                [], [first + g["track_blocks"]])
    last = out["devices"]["DATA"] - 1
    parts += [(0, 0, "header"), (last, last, "header")]
    if not meta_apart:
        parts += [(a["start"], a["start"] + a["blocks"] - 1, "area")
                  for a in (*out["checkpoints"], out["journal"])]
        for a in (*out["checkpoints"], out["journal"]):
            assert a["start"] in tracks.start
    for first, last, _ in parts:
        lo, hi = tracks.reach(first, last, head)
        for other_first, other_last, kind in parts:
            if other_first != first:
                assert last < other_first or other_last < first, "parts overlap"
                assert hi <= other_first or other_last < lo, f"a {kind} is destroyed"


@pytest.mark.parametrize("seed", range(60))
def test_layouts_on_random_uniform_tracks(run, seed):
    """On random shingled media with tracks of one length, no write of one part destroys another
    part, every block is accounted for, and no room for a further band is left."""
    rng = random.Random(seed)
    track, head = rng.randint(1, 12), rng.randint(1, 4)
    band, apart = rng.randint(1, 30), rng.random() < 0.5
    blocks = rng.randint(1500, 4000)
    options = ["--track", f"{track * 4}K", "--head-tracks", head, "--band", f"{band * 4}K"]
    if rng.random() < 0.5:
        options += ["--cache-location", "od"]
    if apart:
        options += ["--meta", blank(run.dir / "m", 4000)]
    out = layout_of(run, blocks, *options)
    tracks = Tracks([(blocks // track, track), (1, track)], blocks)
    assert_harmless(out, tracks, head, apart)
    assert_uses(out, tracks, head)
    assert out["logical_blocks"] == out["bands"]["data"] * band
    assert out["journal_gap_blocks"] == (0 if head == 1 or apart else head * track)
    # The layout has as many bands as there is room for.
    width = -(-band // track)
    total = sum(out["bands"].values())
    if apart:
        assert total == ((blocks - 1) // track - head) // (width + head - 1)
    else:
        after = max(g["start"] + g["bands"] * g["stride"] for g in out["groups"])
        left = tracks.start[tracks.of(blocks - 1)] - after
        # One more band may need one more cache band, and its chunk would lengthen both slots.
        assert left < (width + head - 1 + 2) * track


@pytest.mark.parametrize("seed", range(40))
def test_layouts_on_random_zones(run, seed):
    """Zones of random lengths, as a platter with zones describes itself."""
    rng = random.Random(1000 + seed)
    head = rng.randint(1, 4)
    runs = [(rng.randint(1, 60), rng.randint(2, 40)) for _ in range(rng.randint(1, 8))]
    runs.append((200, 10))
    at, lines = 0, [f"platter 1\nmedia smr\nhead_tracks {head}.000\nwindow_tracks {head - 1}"]
    for tracks, length in runs:
        lines.append(f"run {at} {tracks} {length} 0 0 0 in smr")
        at += tracks * length
    geometry = run.dir / "geometry"
    geometry.write_text("\n".join(lines) + "\n")
    blocks = at - rng.randint(0, 5)
    options = ["--geometry", geometry, "--band", f"{rng.randint(1, 60) * 4}K"]
    if rng.random() < 0.5:
        options += ["--cache-location", "od"]
    if rng.random() < 0.5:
        options += ["--meta", blank(run.dir / "m", 4000)]
    out = layout_of(run, blocks, *options)
    assert out["head_tracks"] == head
    assert_harmless(out, Tracks(runs, blocks), head, "--meta" in options)
    assert_uses(out, Tracks(runs, blocks), head)


def test_checkpoint_slots_grow_with_bands(run):
    """A checkpoint slot is twice as long as a full checkpoint: the chunks of all bands, the chunk
    of core and a footer."""
    out = layout_of(run, 300000, "--band", "12K")
    bands = out["bands"]
    chunks = (1 + -(-bands["data"] // 32256) + bands["cache"] +
              -(-bands["data"] // 1000))
    assert out["checkpoints"][0]["blocks"] == 2 * (chunks + 2)
    left = 300000 - 1 - max(g["start"] + g["bands"] * 3 for g in out["groups"])
    assert left < 6


USES = ("presented", "kept_free", "cache", "staging", "guards", "rounding_to_tracks",
        "metadata", "left_over")


def extents_of(out, dev):
    """Everything that is written on a device: first block, last block and use."""
    end = out["devices"][dev] - 1
    yield 0, 0, "metadata"
    yield end, end, "metadata"
    if dev == out["metadata_device"]:
        for area in (*out["checkpoints"], out["journal"], out.get("pages")):
            if area:
                yield area["start"], area["start"] + area["blocks"] - 1, "metadata"
    for g in out["groups"]:
        if g["device"] == dev:
            for b in range(g["bands"]):
                first = g["start"] + b * g["stride"]
                yield first, first + g["band_blocks"] - 1, g["role"]


def uses_of(out, dev, tracks, head):
    """The use of each block of a device, derived from the rest of the output."""
    of = [None] * out["devices"][dev]

    def take(first, end, what):
        for at in range(first, end):
            assert of[at] is None, (at, of[at], what)
            of[at] = what

    parts = sorted(extents_of(out, dev))
    for first, last, what in parts:
        take(first, last + 1, what)
    if out["interlaced"] and dev == "DATA":
        # No block before the data is free; the rest of the header's track is rounding.
        data = min(g["start"] for g in out["groups"] if g["role"] == "data")
        take(1, tracks.start[1], "rounding_to_tracks")
        of[:data] = [what or "guards" for what in of[:data]]
    elif tracks:
        for _, last, _ in parts[:-1]:
            at = tracks.of(last)
            bounds = [tracks.start[i] if i < len(tracks.start) else tracks.blocks
                      for i in (at + 1, at + head)]
            take(last + 1, bounds[0], "rounding_to_tracks")
            take(*bounds, "guards")
    return {what: of.count(what) for what in ("data", *USES[2:-1], None)}


def assert_uses(out, tracks, head):
    """Every block has exactly one use, and a guard is as long as the head needs."""
    for dev, blocks in out["devices"].items():
        told = out["capacity_blocks"][dev]
        counted = uses_of(out, dev, tracks if dev == "DATA" else None, head)
        assert tuple(told) == USES and sum(told.values()) == blocks
        assert told["presented"] + told["kept_free"] == counted["data"]
        assert told["left_over"] == counted[None]
        for what in USES[2:-1]:
            assert told[what] == counted[what], (dev, what)


@pytest.mark.parametrize("options", [
    ["stl-set", "--band", "40K"], ["stl-set", "--band", "40K", "--track", "16K"],
    ["stl-set", "--band", "40K", "--track", "16K", "--head-tracks", "3", "--meta"],
    ["stl-set", "--band", "40K", "--track", "16K", "--head-tracks", "1"],
    ["stl-set", "--band", "40K", "--cache", "--cache-size", "20b"],
    ["stl-set", "--band", "40K", "--cache-band", "28K", "--track", "28K", "--bands", "50"],
    ["stl-full", "--band", "40K", "--provision", "9", "--track", "8K"],
    ["tiler", "--band", "64K"], ["tiler", "--band", "64K", "--meta", "--track", "16K"],
    ["imr", "--track", "64K"], ["imr", "--track", "40K", "--spare-tracks", "3", "--meta"],
    ["rmwf", "--band", "64K", "--cache-size", "4M"],
])
def test_capacity_table_adds_up(run, options):
    """The capacity table agrees with a count block by block; the text for people has the same
    figures."""
    words = []
    for word in options:
        words.append(word)
        if word in ("--meta", "--cache"):
            words.append(blank(run.dir / word[2:], 3001))
    data = blank(run.dir / "d", 5003)
    out = json.loads(run("format", *words, "--json", data))
    tracks, head = None, 1
    if "--track" in options:
        track = int(options[options.index("--track") + 1][:-1]) // 4
        tracks = Tracks([(5003 // track + 1, track)], 5003)
        head = int(options[options.index("--head-tracks") + 1]) if "--head-tracks" in options \
            else 2
    assert_uses(out, tracks, head)
    assert out["capacity_blocks"]["DATA"]["presented"] == out["logical_blocks"]
    if head == 1:
        assert not out["capacity_blocks"]["DATA"]["guards"]
    said = run("format", *words, "--force", data)
    for dev, told in out["capacity_blocks"].items():
        part = re.search(rf"^  {dev} .*\n((?:    .*\n)*)", said, re.M)[1]
        assert {re.match(r" +(\w+(?: free| over| to tracks)?) +(\d+) blocks", line).groups()
                for line in part.splitlines()} == \
            {(use.replace("_", " "), str(n)) for use, n in told.items() if n}


# A file, BIG, that looks like a block device with logical blocks of 16 KiB, which kernels support
# since 6.15.
BIG = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int stat(const char *path, struct stat *st)
{
	int (*real)(const char *, struct stat *) = dlsym(RTLD_NEXT, "stat");
	int r = real(path, st);

	if (!r && !strcmp(path, getenv("BIG"))) {
		st->st_mode = S_IFBLK | 0600;
		st->st_rdev = 0xf007;
	}
	return r;
}
int stat64(const char *path, struct stat64 *st)
{
	return stat(path, (struct stat *)st);
}

int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int, unsigned long, void *) = dlsym(RTLD_NEXT, "ioctl");
	struct stat st;
	va_list list;
	void *to;

	va_start(list, request);
	to = va_arg(list, void *);
	va_end(list);
	if (request == BLKSSZGET && !fstat(fd, &st))
		*(int *)to = 16384;
	else if (request == BLKGETSIZE64 && !fstat(fd, &st))
		*(unsigned long long *)to = st.st_size;
	else
		return real(fd, request, to);
	return 0;
}
"""


@pytest.mark.parametrize("big", ["data", "meta", "cache"])
@pytest.mark.parametrize("command", ["format", "check"])
def test_blocks_of_more_than_4096_bytes_are_refused(run, monkeypatch, command, big):
    """The tool refuses a device with longer logical blocks, as the targets do. It does so for DATA,
    META and CACHE, and also with --force."""
    (run.dir / "big.c").write_text(BIG)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", run.dir / "big.so", run.dir / "big.c", "-ldl"],
                   check=True)
    path = {w: blank(run.dir / w, 3000) for w in ("data", "meta", "cache")}
    monkeypatch.setenv("BIG", str(path[big]))
    monkeypatch.setenv("LD_PRELOAD", str(run.dir / "big.so"))
    more = ["stl-set", "--band", "40K", "--force"] if command == "format" else []
    said = run(command, *more, path["data"], "--meta", path["meta"], "--cache", path["cache"],
               rc=None)
    assert said == (f"shingle: {big.upper()} {path[big]} has logical blocks of 16384 bytes: "
                    "at most 4096 are supported\n")
    assert not any(p.read_bytes().strip(b"\0") for p in path.values())


SINK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of the file that SINK names writes come to nothing. */
ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
	ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
	struct stat a, b;

	if (!fstat(fd, &a) && !stat(getenv("SINK"), &b) && a.st_ino == b.st_ino)
		return (ssize_t)n;
	return real(fd, buf, n, at);
}
"""


@pytest.mark.parametrize("sink", ["data", "meta"])
@pytest.mark.parametrize("more", [[], ["--force"]])
def test_metadata_need_a_device_that_stores(run, monkeypatch, sink, more):
    """Format reads back what it writes, and puts no metadata on a device that does not store it,
    such as a platter over 'none': the target could not open such a device. DATA may be such a
    device if META holds the metadata."""
    (run.dir / "sink.c").write_text(SINK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", run.dir / "sink.so", run.dir / "sink.c",
                    "-ldl"], check=True)
    path = {w: blank(run.dir / w, 3000) for w in ("data", "meta", "cache")}
    make_swap(path["cache"])
    before = path["cache"].read_bytes()
    args = ["format", "stl-set", "--band", "40K", *more, path["data"]]
    monkeypatch.setenv("SINK", str(path[sink]))
    monkeypatch.setenv("LD_PRELOAD", str(run.dir / "sink.so"))
    if sink == "meta":
        args += ["--meta", path["meta"]]
    if more:  # the refusal comes before CACHE is wiped
        args += ["--cache", path["cache"]]
    said = run(*args, rc=FAILED)
    assert said.startswith(f"shingle: {sink.upper()} ") and said.count("\n") == 1
    assert "does not store what is written" in said and ("give a device for them with --meta" in said) == \
        (sink == "data")
    assert path["cache"].read_bytes() == before
    assert not any(path["data"].read_bytes() + path["meta"].read_bytes())
    if sink == "data":  # with --meta, the device is formatted
        said = run(*args, "--meta", path["meta"])
        assert "does not store what is written: it gets no header" in said
    else:
        assert "formatted" in run(*args[:args.index("--meta")], *args[args.index("--meta") + 2:])


def test_default_layout_of_large_drives(run):
    """With the default options, drives of 4 TB and 8 TB (sparse files here) present more than
    85 % of their capacity."""
    for size in (4000787030016, 8001563222016):
        out = layout_of(run, size // BLOCK, "--track", "2M")
        assert out["band_blocks"] == 7680 and out["head_tracks"] == 2
        assert out["logical_blocks"] * BLOCK > 0.85 * size


@pytest.mark.parametrize("engine", ["stl-set", "imr"])
@pytest.mark.parametrize("tib, track, what", [
    (1, "257M", "at most 256 MiB"), (1, "512M", "at most 256 MiB"), (8, "4K", "at most 2^30")])
def test_indescribable_tracks_are_refused(run, engine, tib, track, what):
    """If the superblock cannot describe the tracks, format refuses; it does not ignore them."""
    disk = blank(run.dir / "d", tib * 2**40 // BLOCK)
    blank(run.dir / "e", 9000)
    said = run("format", engine, "--dry-run", "--track", track, disk,
               *(["--meta", "e"] if engine == "imr" else []),
               rc=FAILED if tib == 8 else USAGE)
    assert re.search(rf"--track (of )?{track[:-1]}", said) and what in said
    made = json.loads(run("format", "stl-set", "--dry-run", "--json", "--track", "256M", disk))
    assert made["groups"][0]["track_blocks"] == 65536


@pytest.fixture(scope="session", name="drive")
def build_drives():
    """A function that writes the geometry of a named drive, at full size, in the form in which a
    platter reports it, and returns its path and the number of blocks."""
    if not os.environ.get("SHINGLE"):
        make("tests", "check")

    def drive(name, path):
        text = subprocess.run([TOP / "build/tests/windows-check", "describe", name],
                              check=True, capture_output=True, text=True).stdout
        path.write_text(text)
        return path, int(text.split("\nblocks ")[1].split()[0])
    return drive


@pytest.mark.parametrize("name", ["st5000as0011", "st8000as0002"])
@pytest.mark.parametrize("engine", ["stl-set", "stl-full"])
def test_named_drives_at_full_size(run, drive, name, engine):
    """Heads and zones differ: a drive has hundreds of track lengths. The superblock keeps the
    rule that makes them, not the list."""
    geometry, blocks = drive(name, run.dir / "g")
    runs = [line.split() for line in geometry.read_text().splitlines()
            if line.startswith("run ")]
    disk = blank(run.dir / "d", blocks)
    made = json.loads(run("format", engine, "--geometry", geometry, "--json", disk))
    assert made["devices"]["DATA"] == blocks and made["head_tracks"] == 2
    assert made["logical_blocks"] > 0.85 * blocks
    assert len(read_super(content(disk, 0))["groups"]) < 5
    # The superblock gives the same layout, and it fits the real tracks.
    again = json.loads(run("dump", "--json", disk))
    assert again["groups"] == made["groups"] and len(made["groups"]) > 300
    lengths = {int(r[1]): int(r[3]) for r in runs}
    starts = sorted(lengths)
    for g in made["groups"]:
        run_start = starts[bisect.bisect(starts, g["start"]) - 1]
        assert lengths[run_start] == g["track_blocks"]
        assert (g["start"] - run_start) % g["track_blocks"] == 0
        band = -(-made["band_blocks"] // g["track_blocks"])
        assert g["stride"] == (band + 1) * g["track_blocks"]
    assert "clean" in run("check", disk)


@pytest.mark.parametrize("tracks, tops", [(2000, 1), (6000, 2), (8000, 3), (60000, 16)])
def test_checkpoint_on_tops(run, tracks, tops):
    """Slots begin and end with a top track; the bottom tracks between them are not used."""
    track = 16
    disk = blank(run.dir / "d", tracks * track)
    made = json.loads(run("format", "imr", "--json", "--track", f"{4 * track}K", disk))
    areas = [made["checkpoints"][0], made["checkpoints"][1], made["journal"]]
    end = 3 * track  # nothing before that, and no bottom track is adjacent
    for area, n in zip(areas, (tops, tops, 1)):
        assert (area["start"], area["blocks"]) == (end, (2 * n - 1) * track)
        end += 2 * n * track
    assert made["logical_blocks"] > (tracks - 300 - 4 * tops) * track
    sb = disk.read_bytes()[:BLOCK]
    assert sb[464:468] == struct.pack("<I", track if tops > 1 else 0)
    assert "clean" in run("check", disk)


def test_interlaced_data_and_shingled_metadata(run):
    """With --meta and --head-tracks, the superblock still describes DATA as interlaced, and no
    wide head is recorded for it."""
    disk, meta = blank(run.dir / "d", 2000), blank(run.dir / "m", 2000)
    made = json.loads(run("format", "imr", "--json", "--track", "64K", "--head-tracks", "2",
                          "--meta", meta, disk))
    assert made["head_tracks"] == 1
    kind = struct.unpack_from("<H", content(meta, 0), 1152 + 8)
    assert kind == (2,), "not of interlaced tracks"
    assert "clean" in run("check", "--meta", meta, disk)


def test_default_journal(run):
    assert layout_of(run, 1 << 24)["journal"]["blocks"] == 16384
    assert layout_of(run, 1 << 18)["journal"]["blocks"] == 4096


@pytest.mark.parametrize("text, what", [
    ("", "empty"), ("media imr\nwindow_tracks 1\nrun 0 10 10\n", "interlaced"),
    ("window_tracks 1\n", "lacks"), ("run 0 10 10\n", "lacks"),
    ("window_tracks 1\nrun 5 10 10\n", "follow"),
    ("window_tracks 1\n" + "".join(f"run {i * (i + 1) // 2} 1 {i + 1}\n" for i in range(100)),
     "64"),
    ("media imr\nwindow_tracks 1\nrun 0 5 64 0 0 0 in imr\nrun 320 5 64 0 1 4 out imr\n",
     "a bottom follows a bottom"),
    ("media imr\nwindow_tracks 1\nrun 0 5 64 0 0 0 in conventional\n"
     "run 320 6 64 0 0 5 in imr\nrun 704 5 64 0 1 9 out imr\n", "a bottom follows a bottom"),
])
def test_invalid_geometry_files_are_refused(run, text, what):
    """Format refuses a geometry file that is incomplete, contradictory or too complicated."""
    (run.dir / "g").write_text(text)
    assert what in layout_of(run, 6000, "--geometry", run.dir / "g", "--band", "4K", rc=FAILED)


@pytest.mark.parametrize("said, mtracks", [
    ("1.500", 1500), ("1.5", 1500), ("1.05", 1050), ("2", 2000), ("2.0", 2000),
    ("1.0005", None), ("1.", None), ("1.x", None), ("x", None), ("65", None),
    ("4294968", None), ("1,5", None)])
def test_head_width_in_thousandths(run, said, mtracks):
    """head_tracks of a geometry file has at most three decimals, and zeroes at the end may be
    omitted. The superblock stores it in thousandths of a track."""
    (run.dir / "g").write_text(
        f"platter 1\nblocks 6000\nmedia smr\nhead_tracks {said}\nwindow_tracks 1\nsurfaces 1\n"
        "density 1000\nzone 0 0 6000 600 10 600 0 8000\nrun 0 600 10 0 0 0 in smr\n")
    disk = blank(run.dir / "d", 6000)
    out = run("format", "stl-set", "--geometry", run.dir / "g", "--band", "40K", disk,
              rc=CLEAN if mtracks else FAILED)
    if mtracks:
        assert struct.unpack_from("<I", content(disk, 0), 1152 + 20) == (mtracks,)
    else:
        assert "its zones or its head are not valid" in out


@pytest.mark.parametrize("lines, known", [("head_tracks 2.000\n", 1), ("", 0)])
def test_columns_need_a_head(run, lines, known):
    """Columns tell which blocks lie side by side. Without the width of the head they do not tell
    which blocks a write destroys."""
    (run.dir / "g").write_text(
        f"platter 1\nblocks 6000\nmedia smr\n{lines}window_tracks 1\nsurfaces 1\n"
        "density 1000\nzone 0 0 6000 600 10 600 0 8000\nrun 0 600 10 0 0 0 in smr\n")
    disk = blank(run.dir / "d", 6000)
    run("format", "stl-set", "--geometry", run.dir / "g", "--band", "40K", disk)
    assert struct.unpack_from("<H", content(disk, 0), 1152 + 10) == (known,)
    assert json.loads(run("dump", "--json", disk))["head_tracks"] == 2


# --------------------------------------------------------------------------
# Bad input


def sparse(path, size):
    with open(path, "wb") as handle:
        handle.truncate(size)
    return path


@pytest.mark.parametrize("line, least, most", [
    ("stl-set --band 256K --cache-size {}b", 8388607, 8388608),
    ("stl-full --band 1G --zone-bands 9999 --provision 3000 --log-bands {}", 2047, 2048),
])
def test_largest_cache(run, line, least, most):
    """A larger cache needs an array that is longer than the kernel allocates, so the tool refuses
    it. One band less is accepted."""
    disk = sparse(run.dir / "d", 9 << 40)
    for size, rc in (least, 0), (most, FAILED):
        out = run("format", *line.format(size).split(), "--dry-run", disk, rc=rc)
        assert ("can cache at most 2 TiB less 256 KiB" in out) == bool(rc)


@pytest.mark.parametrize("engine", ["dualbuffer", "rmwf"])
@pytest.mark.parametrize("size", ["16T", "16388G", "2147483648b"])
def test_cache_length_does_not_wrap(run, engine, size):
    """The whole cache is one band: a length of more than 32 bits must not wrap to a short one."""
    data = sparse(run.dir / "data", 4 << 30)
    assert "--cache-size" in run("format", engine, "--dry-run", "--cache-size", size, data,
                                 rc=FAILED if size[-1] == "b" else USAGE)


@pytest.mark.parametrize("options, what", [
    (["--band", "3K"], "multiple of 4K"), (["--band", "30"], "no unit"),
    (["--band", "-4K"], "not a size"), (["--band", "99999999999999T"], "not a size"),
    (["--band", "0K"], "at least"), (["--band", "4KB"], "not a size"),
    # 16T less a block, which must not be printed as 16.00 TiB
    (["--band", "16T"], "at most 17179869180K"),
    (["--head-tracks", "65"], "at most 64"), (["--head-tracks", "0"], "at least 1"),
    (["--head-tracks", "two"], "digits only"), (["--cache-size", "91%"], "at most 90"),
    (["--cache-size", "0b"], "at least 1"), (["--journal", "12K"], "at least 64 KiB"),
    (["--cache-location", "middle"], "id or od"), (["--label", "x" * 33], "at most 32"),
    (["--set-shift", "32"], "at most 31"), (["--bogus"], "not known"), (["--band"], "needs a"),
])
def test_invalid_options_are_refused(run, options, what):
    data = blank(run.dir / "d", 3000)
    out = run("format", "stl-set", data, *options, rc=USAGE)
    assert what in out and not any(data.read_bytes())


@pytest.mark.parametrize("args, what, rc", [
    ([], "Commands:", USAGE), (["frob"], "not known", USAGE),
    (["format", "stl-set"], "DATA is missing", USAGE),
    (["format", "stl-set", "a", "b"], "one argument too many", USAGE),
    (["format", "stl-nope", "d"], "stl-set", USAGE),
    (["format", "stl-set", "absent"], "No such file", FAILED),
    (["format", "stl-set", "/dev/null"], "neither a block device nor a file", FAILED),
    (["format", "stl-set", "d", "--meta", "d"], "different devices", FAILED),
    (["format", "stl-set", "d"], "larger device", FAILED),
    (["format", "stl-set", "d", "--track", "1M"], "longer than DATA", FAILED),
    (["format", "stl-set", "d", "--band", "12K", "--meta", "e"], "need at least", FAILED),
    (["open", "d", "x"], "no dm-shingle superblock", FAILED),
    (["check", "d"], "no dm-shingle superblock", FAILED),
    (["check", "d", "--meta", "e"], "no dm-shingle superblock", FAILED),
    (["repair", "d", "--yes"], "no dm-shingle superblock", FAILED),
    (["dump", "d"], "no dm-shingle superblock", FAILED),
    (["remove"], "NAME is missing", USAGE),
    (["reset"], "NAME is missing", USAGE), (["reset", "x", "--yes"], "--yes", USAGE),
    (["stats", "x", "--watch", "0"], "at least 1", USAGE),
    (["open", "d", "x", "--set", "commit_ms"], "KEY=VALUE", USAGE),
    (["open", "d", "x", "--feature", "a b"], "blanks", USAGE),
])
def test_invalid_command_lines_are_refused(run, args, what, rc):
    blank(run.dir / "d", 19)
    blank(run.dir / "e", 8)
    assert what in run(*args, rc=rc)
    assert not any((run.dir / "d").read_bytes() + (run.dir / "e").read_bytes())


@pytest.mark.parametrize("target, which", [
    *itertools.product(["imr", "stl-set", "stl-full", "tiler", "dualbuffer", "rmwf"], ["DATA", "META"]),
    ("stl-set", "CACHE"), ("dualbuffer", "CACHE"), ("rmwf", "CACHE")])
@pytest.mark.parametrize("size", [0, BLOCK - 1])
def test_device_smaller_than_a_block_is_refused(run, target, which, size):
    """Format refuses a device that is smaller than a block. It once treated such a device as
    present in one place and absent in another: it put the metadata on DATA."""
    large, small = blank(run.dir / "large", 60000), run.dir / "small"
    small.write_bytes(bytes(size))
    devices = [small] if which == "DATA" else [large, f"--{which.lower()}", small]
    for more in (["--dry-run"], []):
        said = run("format", target, *more, *devices, rc=FAILED)
        assert said == f"shingle: {which} {small} is smaller than a block, which has 4096 bytes\n"
    assert not any(large.read_bytes() + small.read_bytes())


@pytest.mark.parametrize("command", ["format", "create", "presets", "open", "remove", "list",
                                     "status", "stats", "check", "repair", "dump", "reset"])
def test_help_of_the_tool(run, command):
    assert run(command, "--help").startswith(f"Usage: shingle {command} ")


def test_help_lists_options(run):
    """The help lists the options of the targets, from the targets' own tables."""
    said = run("create", "--help")
    for line in ("--set-shift N         2^N", "commit_ms=N ", "wcache=off|on ", "inplace ",
                 "order=fifo|greedy ", "policy=seq|3phase|zigzag|compaction\n", "unsafe_reuse "):
        assert f"\n  {line}" in said, line
    assert "\n  --zone-bands " in run("format", "--help")
    assert "\n  threshold=N " in run("open", "--help")


ALL_TARGETS = {"stl-set", "stl-full", "imr", "tiler", "dualbuffer", "rmwf", "platter"}


@pytest.mark.parametrize("command", ["create", "format"])
@pytest.mark.parametrize("target", sorted(ALL_TARGETS - {"platter"}))
def test_help_of_a_target_lists_its_own_options(run, command, target):
    said = run(command, target, "--help")
    assert said.startswith(f"Usage: shingle {command} {target} [options] DATA")
    assert re.findall(r"^Features and keys of (\S+) ", said, re.M) == [target]
    options = set(re.findall(r"^  --([a-z-]+)", said, re.M))
    cached, interlaced = target in ("stl-set", "dualbuffer", "rmwf"), target == "imr"
    assert ("cache-size" in options) == cached and ("backup-tracks" in options) == interlaced
    assert ("band" in options) != interlaced and "preset" not in options
    assert ("volatile" in options) == (command == "create")
    parameters = {"set-shift": "stl-set", "zone-bands": "stl-full", "spare-tracks": "imr",
                  "columns": "tiler", "sample-tracks": "dualbuffer", "page-blocks": "rmwf"}
    assert {of for name, of in parameters.items() if name in options} == {target}
    # The target may also follow the option.
    assert run(command, "--help", target) == said


@pytest.mark.parametrize("words", [["create"], ["format"], ["open"],
                                   *(["create", t] for t in sorted(ALL_TARGETS))])
def test_help_is_aligned(run, words):
    """Every explanation begins in column 24, or 20 where the text is fixed, and no line is longer
    than 90 characters."""
    said = run(*words, "--help")
    for line in said.splitlines():
        assert len(line) <= 90, line
        if re.match(r"  (--)?[a-z]\S*", line):
            at = re.match(r"  (?:--[a-z-]+(?: \S+)?|\S+)(?:  +|$)", line)
            assert at and (at.end() in (20, 24) or at.end() == len(line)), line


def test_status_without_open_devices(run):
    """Without a device mapper nothing is open: status reports that and succeeds. It fails only if
    it is given a name."""
    if Path("/sys/class/misc/device-mapper").exists():
        pytest.skip("this kernel has a device mapper, and may have devices")
    assert json.loads(run("status", "--json")) == []
    assert "no dm-shingle device is open" in run("status")
    assert "no device mapper" in run("status", "x", rc=FAILED)


def test_manual_page_has_the_exit_codes(run):
    """The manual page, the general help and the help of each command list the same exit codes."""
    page = (TOP / "userspace/shingle/shingle.8").read_text(encoding="utf-8")
    part = page.split(".SH EXIT STATUS")[1].split(".SH")[0]
    codes = {CLEAN, CORRECTED, ERRORS, FAILED, USAGE}
    assert {int(c) for c in re.findall(r"^\.B (\d+)$", part, re.M)} == codes
    said = run("--help").split("Exit codes:")[1]
    assert {int(c) for c in re.findall(r"\b(\d+) ", said)} == codes
    for command in ("check", "repair", "probe"):
        said = run(command, "--help").split("Exit codes:")[1]
        assert {int(c) for c in re.findall(r"\b(\d+) ", said)} <= codes, command


@pytest.mark.parametrize("command", ["format", "create", "presets", "open", "remove", "list",
                                     "status", "stats", "check", "repair", "dump", "reset",
                                     "probe", "set"])
def test_manual_page_has_the_options(run, command):
    """The manual page has each command with all options of its help."""
    page = (TOP / "userspace/shingle/shingle.8").read_text(encoding="utf-8").replace("\\-", "-")
    assert f"\\fBshingle {command}\\fR" in page or f"|\\fB{command}\\fR" in page
    said = run(command, "--help")
    if command == "create":
        said += run("create", "platter", "--help")
    for option in re.findall(r"^  (--[a-z-]+)", said, re.M):
        assert re.search(rf"{option}(?![a-z-])", page), option


def test_help_of_a_command(run):
    assert run("help", "create") == run("create", "--help")
    assert run("help") == run("--help")
    assert "'frob' is not known" in run("help", "frob", rc=USAGE)
    assert "'format' is one argument too many" in run("help", "create", "format", rc=USAGE)


@pytest.mark.parametrize("args", [
    ["format", "stl-set", "d", "--cache-l", "od"], ["format", "stl-set", "d", "--cache-l=od"],
    ["format", "stl-set", "d", "--cache-l"], ["format", "--dry", "stl-set", "d"],
    ["create", "--dry", "stl-set", "d", "x"], ["open", "--dry", "d", "x"],
    ["presets", "--js"], ["remove", "x", "--no-u"], ["reset", "x", "--forc"],
    ["status", "--js"], ["stats", "x", "--watc", "1"], ["check", "d", "--js"],
    ["repair", "d", "--ye"], ["dump", "d", "--journa"], ["probe", "d", "--hel"],
    ["set", "./d", "--volat"],
])
def test_abbreviated_options_are_refused(run, args):
    """Abbreviated options are refused: an abbreviation that is unique today may be ambiguous in
    the next version."""
    blank(run.dir / "d", 3000)
    said = run(*args, rc=USAGE)
    word = next(a for a in args if a.startswith("--")).split("=", maxsplit=1)[0]
    assert f"option {word}" in said and "is not known" in said, said
    assert not any((run.dir / "d").read_bytes())


@pytest.mark.parametrize("args, word", [
    (("check", "-xy", "d"), "-xy"), (("check", "d", "-xy"), "-xy"),
    (("check", "--json", "-xyz", "d"), "-xyz"), (("check", "-x", "-xy"), "-x"),
    (("check", "d", "-x"), "-x"), (("check", "--meta", "-m", "-xx", "d"), "-xx"),
    (("check", "--json=1", "-jx", "d"), "--json=1"), (("check", "d", "--frob", "-xy"), "--frob"),
])
def test_unknown_options_are_quoted(run, args, word):
    """The message names a group of short options as one word, and not the word before it."""
    blank(run.dir / "d", 8)
    said = run(*args, rc=USAGE)
    assert f"option {word} is not known" in said, said


def test_option_values_with_and_without_a_blank(run):
    """A value that looks like an abbreviated option is taken as a value, after a blank and after
    an equals sign."""
    blank(run.dir / "d", 3000)
    for label in (["--label", "--labe"], ["--label=--labe"]):
        out = json.loads(run("format", "stl-set", "d", "--band", "40K", "--dry-run", "--json",
                             *label))
        assert out["label"] == "--labe"


@pytest.mark.parametrize("args", [
    ["create", "stl-set", "--dry-run", "d", "a/b"], ["create", "stl-set", "d", "/dev/mapper/b"],
    ["open", "d", "a/b", "--dry-run"], ["open", "d", "a/b"], ["remove", "a/b"], ["remove", ""],
    ["reset", "/dev/mapper/b", "--force"], ["status", "/dev/mapper/b"], ["stats", "a/b"],
    ["stats", "a/b", "--clear"], ["stats", "x" * 128], ["open", "d", "control"],
    ["create", "stl-set", "d", "control"], ["open", "d", ".."], ["remove", "."],
])
def test_names_with_a_slash_are_refused(run, args):
    """The tool refuses names with a slash: libdevmapper would take the part behind the last slash
    for the name, and the command would change another device."""
    blank(run.dir / "d", 3000)
    assert "is not valid: 1 to 127 characters without '/'" in run(*args, rc=USAGE)
    assert not any((run.dir / "d").read_bytes())


@pytest.mark.parametrize("text, blocks", [("1m", 256), ("1M", 256), ("1mib", 256), ("512k", 128),
                                          ("1024s", 128), ("4096B", 1)])
def test_units_in_small_letters(run, text, blocks):
    out = json.loads(run("format", "stl-set", "--dry-run", "--json", "--cache-size", "1b",
                         "--band", text, blank(run.dir / "d", 3000)))
    assert out["band_blocks"] == blocks


@pytest.mark.parametrize("text", ["1024S", "4096b", "1mb", "1 m"])
def test_unknown_units_are_refused(run, text):
    assert "is not a size" in run("format", "stl-set", "--band", text,
                                  blank(run.dir / "d", 3000), rc=USAGE)


def test_version(run):
    assert f"on-disk format {VERSION}" in run("--version")


def put(path, at, data):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(data)


def make_ext4(path):
    if not shutil.which("mkfs.ext4"):
        pytest.skip("mkfs.ext4 is not here")
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "precious", path], check=True)


def make_swap(path):
    put(path, 1024, struct.pack("<III", 1, 2999, 0) + bytes(range(16)))
    put(path, 4086, b"SWAPSPACE2")


def make_mbr(path):
    put(path, 446, struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\0\4\0", 1, 2000))
    put(path, 510, b"\x55\xaa")


def make_btrfs(path):
    """A signature 64 KiB from the start; real btrfs has copies at 64 MiB and 256 GiB."""
    sb = bytearray(BLOCK)
    struct.pack_into("<16sQQ8s", sb, 32, b"btrfs fs".ljust(16, b"!"), 65536, 1, b"_BHRfS_M")
    struct.pack_into("<QQQQII", sb, 0x70, 3000 * BLOCK, BLOCK, 6, 1, BLOCK, 4 * BLOCK)
    struct.pack_into("<I", sb, 0, crc32c(0xffffffff, bytes(sb[32:])) ^ 0xffffffff)
    put(path, 65536, sb)


def make_md(path):
    """Version 1.0: the superblock is 8 KiB before the end."""
    at = (path.stat().st_size // 512 - 16) & ~7
    sb = bytearray(512)
    struct.pack_into("<IIII16s32s", sb, 0, 0xa92b4efc, 1, 0, 0, b"array".ljust(16, b"!"), b"md0")
    struct.pack_into("<QIIQ", sb, 64, 0, 1, 0, at)
    struct.pack_into("<QQQ", sb, 128, 0, at, at)
    struct.pack_into("<I", sb, 216, 0)
    total = sum(struct.unpack_from("<64I", sb))
    struct.pack_into("<I", sb, 216, (total & 0xffffffff) + (total >> 32))
    put(path, at * 512, sb)


def make_gpt(path):
    """A protective MBR, with header and entries at both ends."""
    last = path.stat().st_size // 512 - 1
    entries = struct.pack("<16s16sQQ", b"a type".ljust(16, b"!"), b"a partition".ljust(16, b"!"),
                          2048, 4095).ljust(128 * 128, b"\0")
    put(path, 446, struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xee, b"\xff\xff\xff", 1, last))
    put(path, 510, b"\x55\xaa")
    for here, there, at in ((1, last, 2), (last, 1, last - 32)):
        head = bytearray(struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0, here,
                                     there, 34, last - 33, b"the disk".ljust(16, b"!"), at, 128,
                                     128, zlib.crc32(entries)))
        struct.pack_into("<I", head, 16, zlib.crc32(head))
        put(path, here * 512, head)
        put(path, at * 512, entries)


def signatures(path):
    """The signatures that util-linux finds."""
    tool = shutil.which("wipefs", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not tool:
        pytest.skip("wipefs is not here")
    return subprocess.run([tool, "-n", path], check=True, text=True, capture_output=True).stdout


@pytest.mark.parametrize("make, what", [(make_ext4, "ext4 labelled 'precious'"),
                                        (make_swap, "type swap"), (make_btrfs, "type btrfs"),
                                        (make_md, "type linux_raid_member"),
                                        (make_gpt, "partition table of type gpt"),
                                        (make_mbr, "partition table of type dos")])
@pytest.mark.parametrize("which", ["data", "meta", "cache"])
def test_existing_content_is_not_overwritten(run, make, what, which):
    """Format refuses a device that holds a signature. With --force it removes the signature, and
    on a device that gets only headers it changes little else."""
    path = {n: blank(run.dir / n, 3000) for n in ("data", "meta", "cache")}
    make(path[which])
    before = {n: p.read_bytes() for n, p in path.items()}
    args = ["format", "stl-set", "--band", "40K", path["data"], "--meta", path["meta"],
            "--cache", path["cache"]]
    assert what in run(*args, rc=FAILED)
    assert signatures(path[which])
    run(*args, "--force", "--dry-run")
    assert {n: p.read_bytes() for n, p in path.items()} == before
    assert "overwritten" in run(*args, "--force")
    assert not signatures(path[which])
    if which != "meta":  # where format writes only headers
        changed = [(a, b) for a, b in zip(before[which][BLOCK:-BLOCK],
                                          path[which].read_bytes()[BLOCK:-BLOCK]) if a != b]
        assert len(changed) < 64 and not any(b for _, b in changed)


def test_force_wipes_all_signatures(run):
    """--force wipes two signatures at once, one of which has a wrong checksum that other tools
    may ignore."""
    data, meta = blank(run.dir / "data", 3000), blank(run.dir / "meta", 900)
    make_btrfs(data)
    put(data, 65536, b"none")
    make_md(data)
    found = signatures(data)
    assert "btrfs" in found and "linux_raid_member" in found
    args = ["format", "stl-set", "--band", "40K", data, "--meta", meta]
    run(*args, rc=FAILED)
    run(*args, "--force")
    assert not signatures(data)


def test_format_refuses_an_existing_device(image):
    """Format without --force refuses a dm-shingle device, also if both superblocks are damaged."""
    before = image.read(0)
    assert "labelled" not in image.run("format", "stl-set", *image.args, rc=FAILED)
    image.flip(0, 5000)
    image.flip(image.last, 5000)
    assert "superblock" in image.run("format", "stl-set", image.meta, rc=FAILED)
    image.flip(0, 5000)
    assert image.read(0) == before


def test_force_forgets_stale_superblocks(run):
    """An old superblock on DATA must not be found once META holds the current one."""
    data = blank(run.dir / "data", 3000)
    run("format", "stl-set", "--band", "40K", data)
    run("format", "stl-set", "--band", "40K", "--force", data, "--meta",
        blank(run.dir / "meta", 900))
    assert "--meta" in run("open", data, "x", "--dry-run", rc=FAILED)


def test_second_format_uses_nothing_of_the_first(busy):
    """A new format does not use anything that an earlier format left."""
    for _ in range(3):
        busy.run("format", "stl-set", "--band", "12K", "--force", *busy.args)
        out = busy.check()
        assert not out["findings"] and not out["transactions"]
        busy.sb = read_super(busy.read(0))
        busy.seq, busy.pos, busy.prev = 1, 0, 0
        busy.commit([(MAP, 1, 0, 0, 0)], [(MAP, 1, 0, 1, 1)])
        busy.checkpoint(1, 2, {1: b"\3"})
        assert busy.check()["checkpoint"] == 2


def test_devices_of_other_sizes_are_refused(image):
    run = image.run
    other = blank(run.dir / "other", 50)
    assert "shortened" in run("check", other, "--meta", image.meta, rc=FAILED)
    assert "omit --cache" in run("check", *image.args, "--cache", other, rc=FAILED)
    assert "has a metadata device" in run("check", image.meta, rc=FAILED)


def test_unknown_engine_and_version(image):
    """All commands refuse a superblock with an engine or a format version that the tool does not
    know. The message tells whether the version is newer or older."""
    raw = bytearray(image.read(0))
    raw[48:64] = b"stl-next".ljust(16, b"\0")
    for at in (0, image.last):
        image.write(at, seal(raw, SB, at=at))
    assert "does not know" in image.run("check", *image.args, rc=FAILED)
    for version, what in ((VERSION + 1, "newer than this build"),
                          (VERSION - 1, "older dm-shingle"), (1, "older dm-shingle")):
        raw[40] = version
        for at in (0, image.last):
            image.write(at, seal(raw, SB, at=at))
        assert what in image.run("check", *image.args, rc=ERRORS)
        assert what in image.run("repair", "--yes", *image.args, rc=ERRORS)
        for command in ("open", "dump"):
            more = ["x", "--dry-run"] if command == "open" else []
            assert what in image.run(command, *image.args, *more, rc=FAILED)


# --------------------------------------------------------------------------
# Devices of another set

DEVICES = ("data", "cache", "meta")


class Set:
    """A set of three devices, or of some of them, by name."""

    def __init__(self, run, name, *options, which=DEVICES, target="stl-set"):
        self.run, self.path = run, {w: blank(run.dir / f"{name}-{w}", 600) for w in which}
        self.before = {}
        run("format", target, *(["--band", "40K"] if target != "imr" else ["--track", "80K"]),
            *options, *self.args())
        self.keep()

    def keep(self):
        self.before = {w: p.read_bytes() for w, p in self.path.items()}

    def args(self, **other):
        path = {**self.path, **other}
        out = [path["data"]]
        for which in DEVICES[1:]:
            if path.get(which):
                out += [f"--{which}", path[which]]
        return out

    def refused(self, *words, **other):
        """Every command that reads the set refuses it in one line and changes nothing."""
        for command, more in (("open", ["x", "--dry-run"]), ("check", []), ("dump", []),
                              ("repair", ["--yes"])):
            said = self.run(command, *self.args(**other), *more, rc=FAILED)
            assert said.count("\n") == 1 and all(w in said for w in words), f"{command}: {said}"
        assert {w: p.read_bytes() for w, p in self.path.items()} == self.before


def uuid_of(path):
    raw = HEADER.unpack_from(content(path, 0))[2].hex()
    return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))


@pytest.mark.parametrize("target, which", [
    ("stl-set", DEVICES), ("stl-set", ("data", "cache")), ("stl-set", ("data", "meta")),
    ("stl-full", ("data", "meta")), ("imr", ("data", "meta"))])
def test_devices_of_another_set_are_refused(run, target, which):
    """A device of another set, of equal size and kind, is refused in every place."""
    one, two = (Set(run, name, which=which, target=target) for name in "ab")
    own = "meta" if "meta" in which else "data"
    ours, theirs = uuid_of(one.path[own]), uuid_of(two.path[own])
    run("check", *one.args())
    run("open", *one.args(), "x", "--dry-run")
    for other in which:
        swapped = {other: two.path[other]}
        if other == own:  # now all the others are from another set
            ours, theirs = theirs, ours
        one.refused("not the one that was formatted", f"device of {theirs};", f"device of {ours}",
                    **swapped)
        if other == own:
            ours, theirs = theirs, ours
    empty = blank(run.dir / "empty", 600)
    for other in set(which) - {own}:
        one.refused("not the one that was formatted", "no dm-shingle header", f"of {ours}",
                    **{other: empty})


@pytest.mark.parametrize("at", ["first", "last"])
def test_overwritten_device_is_refused(run, at):
    """mkswap overwrites the start and leaves the end; repair must not overwrite the swap
    signature."""
    one = Set(run, "a")
    data = one.path["data"]
    with open(data, "r+b") as disk:
        disk.seek(0 if at == "first" else data.stat().st_size - BLOCK)
        disk.write(b"\0" * (BLOCK - 10) + b"SWAPSPACE2")
    one.keep()
    one.refused("not the one that was formatted", "no dm-shingle header")


def test_exchanged_devices_are_refused(run):
    one = Set(run, "a")
    uuid = uuid_of(one.path["meta"])
    one.refused(f"found the cache device of {uuid}", f"wanted the data device of {uuid}",
                data=one.path["cache"], cache=one.path["data"])
    one.refused("no dm-shingle superblock", f"it is the data device of {uuid}",
                data=one.path["meta"], meta=one.path["data"])


def test_single_device_set_is_refused_as_a_member(run):
    one, two = Set(run, "a"), Set(run, "b", which=("data",))
    one.refused(f"found the superblock of {uuid_of(two.path['data'])}", data=two.path["data"])


def test_missing_meta_option_is_explained(run):
    """If the user omits --meta, the message tells where the metadata are and does not suggest
    format."""
    one = Set(run, "a")
    for command, more in (("open", ["x", "--dry-run"]), ("check", []), ("dump", []),
                          ("repair", ["--yes"])):
        said = run(command, one.path["data"], *more, rc=FAILED)
        assert f"it is the data device of {uuid_of(one.path['data'])}" in said
        assert "--meta" in said and "format" not in said


@pytest.mark.parametrize("which", DEVICES)
def test_format_refuses_each_member_of_a_set(run, which):
    one = Set(run, "a")
    said = run("format", "stl-set", "--band", "40K", one.path[which], rc=FAILED)
    assert "was not changed" in said and "dm-shingle device" in said
    assert one.path[which].read_bytes() == one.before[which]
    run("format", "stl-set", "--band", "40K", "--force", one.path[which])
    run("check", one.path[which])


STOP_AFTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
static void count(void)
{
	static int written;

	if (written++ == atoi(getenv("WRITES")))
		_exit(99);
}
ssize_t write(int fd, const void *buf, size_t n)
{
	ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");

	if (fd > 2)
		count();
	return real(fd, buf, n);
}
ssize_t pwrite64(int fd, const void *buf, size_t n, off_t at)
{
	ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite64");

	count();
	return real(fd, buf, n, at);
}
ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
	return pwrite64(fd, buf, n, at);
}
"""


@pytest.fixture(scope="session", name="stop_after")
def build_stop_after(tmp_path_factory):
    """A library that ends a program at its nth write."""
    where = tmp_path_factory.mktemp("stop")
    (where / "stop.c").write_text(STOP_AFTER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", where / "stop.so", where / "stop.c", "-ldl"],
                   check=True)
    return where / "stop.so"


@pytest.mark.parametrize("which", [("data",), ("data", "meta"), DEVICES])
def test_power_cut_while_formatting(run, stop_after, which):
    """Format over an older format: after each write the device is refused or complete."""
    one = Set(run, "a", which=which)
    old, own = uuid_of(one.path["meta" if "meta" in which else "data"]), one.args()
    refused = 0
    for writes in range(100):
        for path, raw in zip(one.path.values(), one.before.values()):
            path.write_bytes(raw)
        done = subprocess.run(
            [run.tool, "format", "stl-set", "--force", "--band", "40K", *own], check=False,
            env={**os.environ, "LD_PRELOAD": str(stop_after), "WRITES": str(writes)},
            stdout=subprocess.DEVNULL)
        if not done.returncode:
            break
        assert done.returncode == 99
        said = subprocess.run([run.tool, "open", *own, "x", "--dry-run"], check=False, text=True,
                              capture_output=True)
        if said.returncode == CLEAN:
            found = json.loads(run("dump", "--json", *own))
            assert bool(found["findings"]) == (writes > 0)
            assert found["recovery"]["checkpoint"] == 1
            # The old format before any write, or the new format with one copy missing.
            assert (found["uuid"] == old) == (writes < 2)
            if found["uuid"] == old:
                run("repair", "--yes", *own, rc=CORRECTED if writes else CLEAN)
        else:
            assert said.returncode == FAILED and said.stderr.count("\n") == 1
            refused += 1
    # The second of the old superblocks is gone, and none of the new ones is written yet.
    assert refused == writes - 3 >= 1
    run("check", *own)


@pytest.mark.parametrize("target", ["stl-set", "dualbuffer", "rmwf"])
@pytest.mark.parametrize("which", [("data",), ("data", "cache"), DEVICES])
@pytest.mark.parametrize("apart", [False, True])
def test_power_cut_while_wiping(run, stop_after, target, which, apart):
    """As long as the old device opens, a signature in it is data and stays."""
    one = Set(run, "a", which=which, target=target)
    for path in one.path.values():
        make_btrfs(path)
    one.keep()
    old, own = uuid_of(one.path["meta" if "meta" in which else "data"]), one.args()
    more = ["--meta", blank(run.dir / "other", 600)] if apart and "meta" not in which else []
    opened = 0
    for writes in range(100):
        for path, raw in zip(one.path.values(), one.before.values()):
            path.write_bytes(raw)
        done = subprocess.run(
            [run.tool, "format", target, "--force", "--band", "40K", *own, *more], check=False,
            env={**os.environ, "LD_PRELOAD": str(stop_after), "WRITES": str(writes)},
            stdout=subprocess.DEVNULL)
        if not done.returncode:
            break
        said = subprocess.run([run.tool, "dump", "--json", *own], check=False, text=True,
                              capture_output=True)
        if said.returncode == FAILED or json.loads(said.stdout)["uuid"] != old:
            continue
        opened += 1
        for path, raw in zip(one.path.values(), one.before.values()):
            assert path.read_bytes()[BLOCK:-BLOCK] == raw[BLOCK:-BLOCK]
    assert opened and not any(signatures(p) for p in one.path.values())


@pytest.mark.parametrize("which", ["data", "cache"])
def test_flipped_bits_in_headers(run, which):
    """One flipped bit: check tells where it is, the device still opens, and repair corrects
    it."""
    one = Set(run, "a")
    path, rng = one.path[which], random.Random(17)
    whole = path.read_bytes()
    bits = [*range(0, 120 * 8, 7), *(rng.randrange(120 * 8, BLOCK * 8) for _ in range(20))]
    for at in (0, 599):
        for n, bit in enumerate(bits):
            raw = bytearray(whole)
            raw[at * BLOCK + bit // 8] ^= 1 << bit % 8
            path.write_bytes(raw)
            assert f"header of {which.upper()}, in its block {at}" in run(
                "check", *one.args(), rc=ERRORS)
            run("open", *one.args(), "x", "--dry-run")
            if n % 16 == 0:
                said = run("repair", "--yes", *one.args(), rc=CORRECTED)
                assert "Nothing will be lost" in said and f"in its block {at}\n" in said
                assert path.read_bytes() == whole
    one.keep()
    path.write_bytes(whole)
    one.keep()
    run("check", *one.args())


def test_device_with_both_headers_damaged(run):
    """The device is refused. Repair restores damaged headers that can still be recognized, but
    not headers that are gone."""
    one = Set(run, "a")
    path = one.path["data"]
    whole = path.read_bytes()
    for at in (200, (600 - 1) * BLOCK + 200):
        put(path, at, b"?")
    assert "'shingle repair' may correct it" in run("open", *one.args(), "x", "--dry-run", rc=FAILED)
    assert run("check", *one.args(), rc=ERRORS).count("header of DATA") == 2
    run("repair", "--yes", *one.args(), rc=CORRECTED)
    assert path.read_bytes() == whole
    put(path, 0, bytes(BLOCK))
    put(path, 599 * BLOCK, bytes(BLOCK))
    one.keep()
    one.refused("no dm-shingle header")


def test_header_of_another_set(run):
    """The first header is of another set, the last one is its own: the device is refused, because
    part of it may be overwritten."""
    one, two = Set(run, "a"), Set(run, "b")
    put(one.path["cache"], 0, content(two.path["cache"], 0))
    one.keep()
    one.refused("not the one that was formatted", uuid_of(two.path["meta"]))


@pytest.mark.parametrize("change, what", [
    ({"version": VERSION - 1}, f"a header of format version {VERSION - 1}"),
    ({"version": VERSION + 1}, f"a header of format version {VERSION + 1}"),
    ({"dev": 2}, "found the metadata device"),
    ({"dev": 77}, "found the unknown device"), ({"blocks": 599}, "one of 599 blocks, not 600")])
def test_crafted_headers(run, change, what):
    one = Set(run, "a")
    uuid = HEADER.unpack_from(content(one.path["meta"], 0))[2]
    for at in (0, 599):
        put(one.path["data"], at * BLOCK, member(
            uuid, at, **{"engine": "stl-set", "dev": 0, "blocks": 600, **change}))
    one.keep()
    one.refused(what)


# --------------------------------------------------------------------------
# Check finds what is injected


def assert_every_flip_is_found(image, at, **sample):
    whole = image.read(at)
    for bit in image.bits(**sample):
        image.flip(at, bit)
        out = image.run("check", *image.args, rc=ERRORS)
        assert "error: " in out
        image.write(at, whole)
    image.check()


@pytest.mark.parametrize("copy", ["first", "second"])
def test_flipped_bits_in_superblocks(image, copy):
    assert_every_flip_is_found(image, 0 if copy == "first" else image.last)


def test_flipped_bits_in_checkpoint(busy):
    out = busy.check()
    assert out["checkpoint"] == 2 and out["checkpoint_chunks"] == 3
    for at in busy.chunks:
        assert_every_flip_is_found(busy, at, count=60)


def test_flipped_bits_in_older_checkpoint(busy):
    """Damage to the older checkpoint is reported too: it is the reserve if the newest one
    fails."""
    assert_every_flip_is_found(busy, busy.sb["ckpt"][0][0], count=30)


def test_flipped_bits_in_journal(busy):
    assert busy.check()["transactions"] == 3
    for at in busy.journal:
        assert_every_flip_is_found(busy, at, count=60)


def test_flipped_bits_in_wrapped_journal(image):
    """Transactions that cross the end of the ring, over blocks of older rounds."""
    ring = image.sb["journal"][1]
    for i in range(2 * ring - 2):
        image.commit([(MAP, 1, 0, i % 3, 0)])
    image.checkpoint(1, 2, {})
    where = image.commit(*[[(MAP, 1, 0, i % 3, 0)] for i in range(5)])
    assert where[0] > where[-1]
    assert image.check()["transactions"] == 1
    for at in where:
        assert_every_flip_is_found(image, at, often=50, count=10)


def test_random_damage_to_blocks(busy):
    """Damage larger than a bit: whole blocks lost, swapped, or from another device."""
    rng = random.Random(7)
    state = busy.map()
    for at in (0, busy.last, *busy.chunks, *busy.journal[:-1]):
        whole = busy.read(at)
        for damage in (bytes(BLOCK), rng.randbytes(BLOCK), busy.read(busy.journal[-1]),
                       seal(whole, uuid=bytes(16))):
            busy.write(at, damage)
            if at != busy.chunks[-1]:
                busy.check(rc=ERRORS)
                continue
            # The result is as if the power had failed before the footer: the older checkpoint and
            # the whole journal give the same state.
            busy.check(rc=ERRORS if damage[:4] == JOURNAL else CLEAN)
            assert busy.map() == state
        busy.write(at, whole)
    busy.check()


@pytest.mark.parametrize("record", [
    (MAP, 1, 0, 10 ** 9, 0), (MAP, 1, 0, 0, 10 ** 9), (MAP, 0, 0, 0, 0), (MAP, 1, 0, 3, 0),
    (STAGED, 0, 0, 10 ** 9, 0), (CLEANED, 0, 0, 0, 99), (RESET, 0, 0, 10 ** 6, 0),
    (DISCARD, 0, 0, 0, 10 ** 9), (DROP, 1, 0, 10 ** 9, 0), (0x1ff, 0, 0, 0, 0), (3, 0, 0, 0, 0),
    (BAD, 0, 0, 10 ** 9, 0),
])
def test_invalid_records_with_valid_checksum(image, record):
    image.commit([record])
    assert "no sense" in image.check(rc=ERRORS)["findings"][0]["text"]
    assert "cannot be repaired" in image.run("repair", "--yes", *image.args, rc=ERRORS)


@pytest.mark.parametrize("number", [2**64 - 1, 2**64 - 2, 2**63, 2**62 + 1])
def test_impossible_sequence_numbers_are_refused(image, number):
    """Transactions and checkpoints are numbered upwards, so impossibly high numbers are refused:
    the successor of the highest one would be 0."""
    for i in range(3):
        image.commit([(MAP, 1, 0, i, i)])
    state, at = image.map(), image.pos
    # The number in a transaction behind a hole of the journal, where repair would continue.
    image.seq, image.pos = number, at + 1
    image.commit([(MAP, 1, 0, 7, 7)])
    image.seq, image.pos = 4, at
    assert image.check()["transactions"] == 3
    # The number as the start of a checkpoint's journal.
    image.seq = number
    image.checkpoint(1, 2, {})
    image.seq = 4
    assert "newest checkpoint" in image.check(rc=ERRORS)["findings"][0]["text"]
    # The number of the newest checkpoint.
    image.checkpoint(1, number, {})
    assert_repaired(image, "Nothing will be lost")
    assert image.check()["checkpoint"] < 2**62 and image.map() == state


@pytest.mark.parametrize("copies", [1, 2])
def test_impossible_generation_is_refused(image, copies):
    for at in (0, image.last)[:copies]:
        image.write(at, seal(image.read(at), SB, seq=2**64 - 1))
    out = image.run("check", *image.args, rc=ERRORS)
    assert "has a number that cannot be" in out
    if copies == 1:
        assert_repaired(image, "Nothing will be lost")


def test_full_list_of_unreadable_blocks(run):
    """The list of unreadable blocks has a fixed length. Replay may find a full list in the
    checkpoint and records of an earlier state in the journal, so the length counts only at the
    end; but the list must not grow without limit on the way."""
    image = Image(run, "--cache-size", "5b", blocks=2000)
    full = 4032 // 8
    image.checkpoint(1, 2, {1 << 63: struct.pack(f"<{full}Q", *range(1, full + 1))})
    image.commit([(BAD, 0, 0, 0, 0)])
    image.commit([(GOOD, 0, 0, 0, 1)])
    assert image.check()["bad_blocks"] == full
    image.commit([(BAD, 0, 0, 0, 0)])
    assert "more unreadable blocks" in image.check(rc=ERRORS)["findings"][0]["text"]
    image.commit([(GOOD, 0, 0, 0, 1)])
    assert image.check()["bad_blocks"] == full
    for first in range(full + 1, 2 * full + 2, 64):
        image.commit([(BAD, 0, 0, b, 0) for b in range(first, first + 64)])
    assert "no sense" in image.check(rc=ERRORS)["findings"][0]["text"]


def test_contradictory_state_is_an_error(image):
    """A checkpoint with valid checksums and a contradictory state is an error. Here it has a set
    with a block that belongs to another set."""
    image.checkpoint(1, 2, {2: struct.pack("<3I", 3, 0 + 2, 0)})
    image.checkpoint(1, 2, {2: struct.pack("<3I", 2, 4 + 2, 1)})    # block of another set
    assert image.check(rc=ERRORS)["errors"]


def test_dump_of_damage(busy):
    busy.flip(busy.journal[0], 999)
    out = busy.dump("--journal", "--map", rc=ERRORS)
    assert out["findings"] and "map" not in out
    assert len(out["journal_blocks"]) == 6


def test_long_dumps_are_streamed(run):
    """Long dumps are printed while they are read, in less memory than their tree would need;
    numbers have 64 bits."""
    image = Image(run, meta=3000, target=("stl-set", "--band", "12K", "--journal", "3M"))
    record = (0x7fff, 2 ** 16 - 1, 2 ** 32 - 1, 2 ** 64 - 1, 2 ** 53 + 1)
    for _ in range(300):
        image.commit([record] * 168)
    done = subprocess.run(["prlimit", f"--as={32 << 20}", run.tool, "dump", "--json",
                           "--journal", "--map", *image.args], stdout=subprocess.PIPE,
                          check=False)
    out = json.loads(done.stdout)
    assert list(out)[-2:] == ["findings_left_out", "journal_blocks"]
    assert [r for b in out["journal_blocks"] for r in b["records"]] == 300 * 168 * [
        dict(zip(("record", "type", "a", "n", "b", "c"),
                 ("unknown", record[0], record[3], record[1], record[4], record[2])))]


def test_dump_of_records(run):
    """Records appear under the names of the engine's own table."""
    image = Image(run, blocks=300, target=("imr", "--track", "12K"))
    image.commit([(0x100, 2, 5, 3, 7), (0x102, 0, 0, 3, 1), (0x103, 0, 0, 3, 1),
                  (0x104, 0, 6, 2, 4), (0x101, 0, 0, 2, 3), (BAD, 0, 0, 9, 0)])
    blocks = image.dump("--journal")["journal_blocks"]
    assert [r for b in blocks for r in b["records"]] == [
        {"record": "MAP", "track": 3, "valid": 2, "place": 7, "level": 5},
        {"record": "BACKUP", "track": 3, "slot": 1}, {"record": "RESTORED", "track": 3, "slot": 1},
        {"record": "LEVEL", "track": 2, "tracks": 4, "level": 6},
        {"record": "UNMAP", "track": 2, "tracks": 3}, {"record": "BAD", "lblk": 9}]
    said = run("dump", "--journal", *image.args)
    assert "\n    MAP track=3 valid=2 place=7 level=5\n" in said
    assert "\n    LEVEL track=2 tracks=4 level=6\n" in said


# --------------------------------------------------------------------------
# Traces of a power cut are not damage


@pytest.mark.parametrize("skip", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_unfinished_transaction(busy, skip):
    """A transaction with missing blocks at the end of the journal counts as never written."""
    before = busy.map()
    busy.commit(*[[(MAP, 1, 0, 30 + i, 3 * i)] for i in range(3)], skip=skip)
    assert busy.check()["transactions"] == 3
    assert busy.map() == before


def test_next_activation_overwrites_an_abandoned_transaction(busy):
    """The next activation overwrites the unfinished transaction of the last one."""
    seq, pos, prev = busy.seq, busy.pos, busy.prev
    busy.commit(*[[(MAP, 1, 0, 3 * i + 1, 3)] for i in range(3)], skip=(1,))
    busy.seq, busy.pos, busy.prev = seq, pos, prev
    busy.commit([(DROP, 1, 0, 1, 0)])
    assert busy.check()["transactions"] == 4


@pytest.mark.parametrize("chunks", range(3))
def test_checkpoint_being_written(busy, chunks):
    """Slot 0 is being rewritten; its old footer is still there."""
    busy.checkpoint(0, 3, {i + 1: b"\1" for i in range(chunks)}, with_footer=False)
    out = busy.check()
    assert out["checkpoint"] == 2 and not out["errors"]


def test_older_checkpoint_with_chunks_being_overwritten(busy):
    busy.checkpoint(0, 3, {1: b"\7", 2: struct.pack("<2I", 1, 2)})
    busy.checkpoint(1, 4, {1: b"\1"}, with_footer=False)
    out = busy.check()
    assert out["checkpoint"] == 3
    assert [f["severity"] for f in out["findings"]] == ["note"]


def test_damaged_block_behind_the_newest_footer(image):
    """A damaged block behind the newest footer is no error: the next checkpoint will overwrite
    it."""
    image.checkpoint(1, 2, {1: b"\3", 2: struct.pack("<2I", 1, 2), 3: b"\1"})
    image.checkpoint(0, 3, {1: b"\3"})
    for behind in image.checkpoint(1, 4, {1: b"\3"})[-1] + 1, image.last:
        if behind == image.last:  # now its footer
            behind = image.checkpoint(1, 6, {1: b"\3", 2: struct.pack("<2I", 1, 2)})[-1] + 1
        whole = image.read(behind)
        assert sound(whole, CHUNK) or sound(whole, b"SHFT")
        # Each of its bits except those of its number.
        for bit in (0, 40, 64, 191, 200, 320, 500, 32767):
            image.flip(behind, bit)
            assert not image.check()["findings"], bit
            image.write(behind, whole)
    assert image.check()["checkpoint"] == 6


def test_one_superblock_newer(image):
    """Copies of different generations come from a power cut between two writes: a note tells of
    the older copy, and there is no error."""
    image.write(0, seal(image.read(0), SB, seq=2))
    out = image.check()
    assert [f["severity"] for f in out["findings"]] == ["note"]
    image.write(image.last, seal(image.read(image.last), SB, seq=3))
    assert image.check()["findings"][0]["block"] == 0


@pytest.fixture(name="shingled")
def shingled_image(run):
    return Image(run, "--track", "16K", "--head-tracks", "2", "--cache-size", "5b",
                 blocks=600, meta=0)


def test_wide_head_destroys_blocks_behind_the_journal_end(shingled):
    """A wide head leaves noise, zeroes or copies of neighbours behind the last transaction. Check
    must not report them, and must still find every flipped bit before them."""
    image = shingled
    for i in range(3):
        image.commit([(MAP, 1, 0, i, i)])
    ahead = image.sb["journal"][0] + image.pos
    for junk in (random.Random(1).randbytes(BLOCK), bytes(BLOCK), image.read(ahead - 1),
                 seal(image.read(ahead - 1), seq=1)):
        for i in range(8):
            image.write(ahead + i, junk)
        assert image.check()["transactions"] == 3
    for at in range(ahead - 3, ahead):
        assert_every_flip_is_found(image, at, count=20)


def test_head_destroys_a_checkpoint_slot(shingled):
    image = shingled
    image.checkpoint(1, 2, {1: b"\3", 2: struct.pack("<2I", 1, 2)})
    start, blocks = image.sb["ckpt"][0]
    for i in range(blocks):
        image.write(start + i, image.read(image.sb["ckpt"][1][0]))
    assert not image.check()["errors"]


LOSES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
static off_t lost(const char *name)
{
	return atol(getenv(name)) * 4096;
}
ssize_t pread64(int fd, void *buf, size_t n, off_t at)
{
	ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread64");

	if (at < lost("LOST_END") && at + (off_t)n > lost("LOST")) {
		errno = ENODATA;
		return -1;
	}
	return real(fd, buf, n, at);
}
ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	return pread64(fd, buf, n, at);
}
"""


@pytest.mark.parametrize("lost", [20, 64, 65, 100, 127])
def test_journal_end_behind_many_unreadable_blocks(run, tmp_path, lost):
    """Each block of the ring is judged by its content, however many blocks before it are
    unreadable: where the kernel refuses the device, check finds damage."""
    (tmp_path / "loses.c").write_text(LOSES)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "loses.so", tmp_path / "loses.c",
                    "-ldl"], check=True)
    image = Image(run, "--track", "512K", "--head-tracks", "2", "--band", "1M", "--journal", "2M",
                  "--cache-size", "2b", blocks=6000, meta=0)
    start, ring = image.sb["journal"]
    assert ring > 200
    for i in range(3):
        image.commit([(MAP, 1, 0, i, i)])
    end = image.pos
    image.seq, image.pos = 9, end + lost
    env = {**os.environ, "LD_PRELOAD": str(tmp_path / "loses.so"),
           "LOST": str(start + end), "LOST_END": str(start + end + lost)}

    def check():
        done = subprocess.run([run.tool, "check", "--json", *image.args], env=env, check=False,
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    assert check()["clean"], "that is what a head leaves"
    image.commit([(MAP, 1, 0, 7, 7)])
    found = check()["findings"]
    assert any("transaction 4 is damaged or missing, but later ones up to 9" in f["text"]
               for f in found), found


# --------------------------------------------------------------------------
# Repair


def assert_repaired(image, told, yes=True):
    image.check(rc=ERRORS)
    before = image.file.read_bytes()
    out = image.run("repair", *image.args, rc=ERRORS, answer="n\n")
    assert "unchanged" in out and image.file.read_bytes() == before
    if yes:
        out = image.run("repair", "--yes", *image.args, rc=CORRECTED)
    else:
        out = image.run("repair", *image.args, rc=CORRECTED, answer="y\n")
    assert told in out and "repaired and clean" in out
    image.check()
    assert "nothing to repair" in image.run("repair", *image.args)


@pytest.mark.parametrize("which", [0, 1])
def test_repair_superblock(busy, which):
    state = busy.map()
    at = busy.last if which else 0
    busy.flip(at, 3000)
    assert_repaired(busy, "Nothing will be lost", yes=False)
    assert sound(busy.read(0), SB) and sound(busy.read(busy.last), SB)
    assert busy.map() == state


def test_repair_clears_needs_check(busy):
    state = busy.map()
    raw = bytearray(busy.read(0))
    raw[44] |= 1
    for at in (0, busy.last):
        busy.write(at, seal(raw, SB, at=at, seq=2))
    assert "needs_check" in busy.run("open", *busy.args, "x", "--dry-run")
    assert_repaired(busy, "clear the mark")
    assert busy.map() == state and not busy.dump()["needs_check"]


def test_both_superblocks_gone(image):
    image.flip(0, 3000)
    image.flip(image.last, 3000)
    assert "neither" in image.run("check", *image.args, rc=ERRORS)
    assert "cannot be repaired" in image.run("repair", "--yes", *image.args, rc=ERRORS)


@pytest.mark.parametrize("which", range(4))
def test_repair_newest_checkpoint(busy, which):
    """The older checkpoint and the journal give the same state."""
    state = busy.map()
    busy.flip(busy.chunks[which], 600)
    assert_repaired(busy, "Nothing will be lost")
    assert busy.map() == state


def test_repair_when_journal_does_not_reach(image):
    """The older checkpoint alone would give an older state; repair does not offer it."""
    ring = image.sb["journal"][1]
    for i in range(ring):
        image.commit([(MAP, 1, 0, i % 3, 0)])
    chunks = image.checkpoint(1, 2, {1: b"\1"})
    image.commit([(MAP, 1, 0, 1, 1)])
    for at in chunks:
        whole = image.read(at)
        image.flip(at, 777)
        before = image.file.read_bytes()
        assert "cannot be repaired" in image.run("repair", "--yes", *image.args, rc=ERRORS)
        assert image.file.read_bytes() == before
        image.write(at, whole)


def test_repair_of_a_gap_in_the_journal(busy):
    """Repair goes back to the transaction before the damaged one and tells what is lost."""
    first = busy.map()
    busy.flip(busy.journal[2], 600)
    out = busy.run("repair", *busy.args, rc=ERRORS, answer="\n")
    assert "transactions 4 to 5" in out and "2 records" not in out.split("lost")[0]
    assert_repaired(busy, "This will be lost")
    assert busy.map() != first
    dump = busy.dump("--journal")
    highest = max(b["seq"] for b in dump["journal_blocks"])
    assert dump["recovery"]["next_seq"] > highest
    # The journal continues there.
    prev = next(s["journal_prev_crc"] for s in dump["slots"] if s["counts"])
    busy.seq, busy.pos, busy.prev = dump["recovery"]["next_seq"], 0, prev
    busy.commit([(MAP, 1, 0, 0, 2)])
    assert busy.check()["transactions"] == 1


@pytest.mark.parametrize("gap", [2**64 - 1, 2**64 - 4, 2**63])
def test_journal_gap_does_not_wrap(image, gap):
    """A journal gap near 2^64 in the superblock must not wrap, so that the journal seems to be
    long enough for it."""
    for at in (0, image.last):
        raw = bytearray(image.read(at))
        struct.pack_into("<Q", raw, 176, gap)
        image.write(at, seal(raw))
    found = image.check(rc=ERRORS)["findings"]
    assert any("too short for its gap" in f["text"] for f in found), found


def test_repair_of_a_damaged_last_transaction(busy):
    """If the last transaction is damaged, repair cannot know whether it was ever complete, and its
    list of losses says that."""
    busy.flip(busy.journal[-1], 600)
    assert_repaired(busy, "if it was complete")


def test_repair_keeps_the_state(busy):
    """Repair writes the same state that it has read."""
    state, bad = busy.map(), busy.check()["bad_blocks"]
    busy.flip(busy.sb["ckpt"][0][0], 600)
    assert_repaired(busy, "Nothing will be lost")
    assert busy.map() == state
    out = busy.check()
    assert out["bad_blocks"] == bad == 1 and out["checkpoint"] == 3 and not out["transactions"]


def test_progress_only_on_a_terminal(busy):
    assert "\r" not in busy.run("check", *busy.args)


def bytes_of(image):
    return [p.read_bytes() for p in (image.data, image.meta) if p]


def test_repair_dry_run_and_json(busy):
    """Repair does what its dry run announces, in text and in JSON, and does nothing without
    confirmation."""
    def repair(*more, rc):
        return json.loads(busy.run("repair", *busy.args, "--json", *more, rc=rc))

    out = repair("--dry-run", rc=CLEAN)
    assert (out["result"], out["errors"]) == ("clean", 0)
    busy.flip(busy.last, 5000)
    before = bytes_of(busy)
    said = busy.run("repair", *busy.args, "--dry-run", rc=ERRORS)
    plan = f"- rewrite the superblock in block {busy.last} from the other"
    assert plan in said and "because of --dry-run" in said and "[y/N]" not in said
    out = repair("--dry-run", rc=ERRORS)
    assert out["result"] == "can be repaired" and out["errors"] == 1
    assert plan in out["report"] and "Nothing will be lost." in out["report"]
    assert [f["severity"] for f in out["findings"]].count("error") == 1
    # This also holds with --yes; and with --json alone there is no terminal for the question.
    assert repair("--dry-run", "--yes", rc=ERRORS)["result"] == "can be repaired"
    assert "cannot ask" in busy.run("repair", *busy.args, "--json", rc=USAGE)
    assert bytes_of(busy) == before
    out = repair("--yes", rc=CORRECTED)
    assert out["result"] == "repaired" and plan in out["report"]
    assert out["report"][-1].endswith(": repaired and clean")
    assert repair("--yes", rc=CLEAN)["result"] == "clean"


def test_repair_json_of_an_irreparable_device(image):
    for at in (0, image.last):
        image.flip(at, 5000)
    before = bytes_of(image)
    out = json.loads(image.run("repair", *image.args, "--json", "--yes", rc=ERRORS))
    assert out["result"] == "cannot be repaired" and out["errors"] >= 2
    assert out["report"][-1].endswith("it cannot be repaired")
    assert bytes_of(image) == before


class Closings:
    """Watches with inotify whether files that are closed had been opened for writing."""
    WRITE, NOWRITE = 8, 16

    def __init__(self, *paths):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self.fd >= 0, os.strerror(ctypes.get_errno())
        for path in paths:
            watch = self.libc.inotify_add_watch(self.fd, os.fsencode(path),
                                                self.WRITE | self.NOWRITE)
            assert watch >= 0, os.strerror(ctypes.get_errno())

    def take(self):
        """The events {(file, WRITE or NOWRITE)} since the last call."""
        try:
            raw = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return set()
        # The watches are on files and not on directories, so no name follows an event.
        return {(watch, mask) for watch, mask, _, _ in struct.iter_unpack("<iIII", raw)}

    def close(self):
        os.close(self.fd)


def test_repair_dry_run_opens_read_only(busy):
    """A dry run opens both devices read-only. The test also sees a real repair open them for
    writing."""
    busy.flip(busy.last, 5000)
    seen = Closings(busy.data, busy.meta)
    busy.run("repair", *busy.args, "--dry-run", rc=ERRORS)
    assert seen.take() == {(1, seen.NOWRITE), (2, seen.NOWRITE)}
    busy.run("repair", *busy.args, "--yes", rc=CORRECTED)
    assert (2, seen.WRITE) in seen.take()
    seen.close()


# --------------------------------------------------------------------------
# Settings that a device keeps

SETTINGS = 3888  # offset of the settings in a superblock


def table_of(run, *args):
    """The words behind the devices in the table line that would be loaded."""
    out = run("open", *args, "x", "--dry-run")
    words = out.splitlines()[-1].split(" stl-set ")[1].rstrip("'").split(" ")
    return " ".join(words[3:])


def kept_in(raw):
    """The settings in a superblock's bytes: their words, or bytes that are not a valid record."""
    version, size = struct.unpack_from("<HH", raw, SETTINGS)
    words, rest = raw[SETTINGS + 4:][:size], raw[SETTINGS + 4 + size:]
    assert (version, size) == (0, 0) or (version == 1 and 0 < size <= 204)
    assert not any(rest)
    return words.decode()


@pytest.fixture(name="kept")
def image_that_keeps(run):
    return Image(run, "--cache-size", "5b", "--feature", "inplace", "--set", "commit_ms=5000")


def test_settings_are_stored_on_the_device(kept):
    """A device is opened with the settings it was created with."""
    run = kept.run
    for at in (0, kept.last):
        assert kept_in(kept.read(at)) == "inplace commit_ms=5000"
    assert table_of(run, *kept.args) == "1 inplace 2 commit_ms 5000"
    assert "  settings inplace commit_ms=5000\n" in run("dump", *kept.args)
    assert kept.dump()["settings"] == "inplace commit_ms=5000"
    assert not kept.check()["findings"]
    # An option given to open counts for that time only.
    assert table_of(run, *kept.args, "--set", "commit_ms=7") == "1 inplace 2 commit_ms 7"
    assert table_of(run, *kept.args, "--no-feature", "inplace") == "0 2 commit_ms 5000"
    assert table_of(run, *kept.args, "--no-settings") == ""
    assert table_of(run, *kept.args) == "1 inplace 2 commit_ms 5000"
    assert "does not store" in run("open", *kept.args, "x", "--dry-run", "--no-feature",
                                  "unsafe_sync1", rc=USAGE)


def test_errors_name_the_option_of_the_command_line(kept):
    """An error in an option of the command line names that option, and not the settings of the
    device."""
    out = kept.run("open", *kept.args, "x", "--dry-run", "--set", "wcache=on", rc=USAGE)
    assert "no write cache to be switched on" in out and "not valid" not in out


def test_superblock_without_settings_has_zeroes(image):
    """A superblock without settings has zeroes there, as one from before settings existed."""
    for at in (0, image.last):
        assert not any(image.read(at)[SETTINGS:])
    assert table_of(image.run, *image.args) == ""
    assert image.dump()["settings"] == ""
    assert "settings" not in image.run("dump", *image.args)
    assert ": none\n" in image.run("set", *image.args)


def test_volatile_create_stores_no_settings(run):
    """create stores the settings, or only uses them if --volatile is given; the dry run shows
    which."""
    data = blank(run.dir / "d", 17000)
    make = ["create", "stl-set", "--band", "48K", "--dry-run", "--set", "idle_ms=7", data, "x"]
    assert "  settings idle_ms=7\n" in run(*make)
    out = run(*make, "--volatile")
    assert "settings" not in out and out.endswith(" 0 2 idle_ms 7'\n")
    assert "only to 'shingle create'" in run("format", "stl-set", "--volatile", data, rc=USAGE)


def test_set_of_a_closed_device(kept):
    """set on a closed device writes both superblocks with a new generation, and no other block of
    META. The next open uses the settings."""
    run = kept.run

    def now():
        raw = [kept.read(at) for at in (0, kept.last)]
        assert kept_in(raw[0]) == kept_in(raw[1])
        assert all(sound(block, SB) for block in raw)
        kept.check()
        return kept_in(raw[0])

    rest = [kept.read(at) for at in range(1, kept.last)]
    assert f"settings stored on {kept.data}: inplace commit_ms=5000\n" == run("set", *kept.args)
    assert read_super(kept.read(0))["seq"] == 1
    said = run("set", *kept.args, "commit_ms=7", "wcache_blocks=9")
    assert said == f"settings stored on {kept.data}: inplace commit_ms=7 wcache_blocks=9\n"
    assert now() == "inplace commit_ms=7 wcache_blocks=9"
    assert [read_super(kept.read(at))["seq"] for at in (0, kept.last)] == [2, 2]
    run("set", *kept.args, "commit_ms=3", "commit_ms=7")  # the last one counts
    assert now() == "inplace commit_ms=7 wcache_blocks=9"
    run("set", *kept.args, *["--feature", "inplace"] * 3)  # a repeated feature is kept once
    assert now() == "inplace commit_ms=7 wcache_blocks=9"
    run("set", *kept.args, "wcache=on", "--no-feature", "inplace")
    assert set(now().split()) == {"wcache=on", "commit_ms=7", "wcache_blocks=9"}
    run("set", *kept.args, "--default", "commit_ms", "--default", "wcache", "--feature", "inplace")
    assert now() == "inplace wcache_blocks=9"
    assert table_of(run, *kept.args) == "1 inplace 2 wcache_blocks 9"
    assert ": none\n" in run("set", *kept.args, "--default", "wcache_blocks", "--no-feature",
                             "inplace")
    assert now() == "" and not any(kept.read(0)[SETTINGS:])
    # Nothing else has changed on the metadata device.
    assert rest == [kept.read(at) for at in range(1, kept.last)]


@pytest.mark.parametrize("words, what, rc", [
    (["commit_ms=soon"], "commit_ms must be", USAGE), (["nonsense=1"], "no key 'nonsense'", USAGE),
    (["--feature", "nonsense"], "no feature 'nonsense'", USAGE),
    (["wcache=on"], "no write cache to be switched on", USAGE),
    (["--no-feature", "unsafe_sync1"], "does not store", USAGE),
    (["--default", "idle_ms"], "stores no such key", USAGE),
    (["--default", "commit"], "stores no such key", USAGE),
    (["commit_ms"], "has no value", USAGE), (["inplace"], "use --feature", USAGE), (["commit_ms="], "commit_ms must be", USAGE),
    (["--volatile", "commit_ms=1"], "is closed", FAILED),
    (["--volatile"], "KEY=VALUE is missing", USAGE),
    ([f"commit_ms={7:0>200}"], "longer than a superblock has room for", USAGE),
])
def test_invalid_settings_are_not_stored(kept, words, what, rc):
    """Invalid settings give one sentence and change nothing; the tool keeps no settings that
    would not open."""
    before = bytes_of(kept)
    out = kept.run("set", *kept.args, *words, rc=rc)
    assert what in out and bytes_of(kept) == before


def craft(image, record):
    for at in (0, image.last):
        raw = bytearray(image.read(at))
        raw[SETTINGS:] = record.ljust(208, b"\0")
        image.write(at, seal(raw))


@pytest.mark.parametrize("record", [
    b"\0\0\7\0inplace", b"\0\0\0\0x", b"\1\0\0\0", b"\1\0\6\0inplace", b"\1\0\x08\0inplace",
    b"\1\0\xcd\0" + b"x" * 204, b"\1\0\x0a\0inplace\nxx", b"\1\0\x0a\0inplace  x",
    b"\1\0\x08\0inplace ", b"\1\0\x08\0 inplace", b"\1\0\7\0inpl\xe4ce", b"\1\0\7\0in\\lace",
])
def test_damaged_settings_are_reported_and_repaired(image, record):
    """Invalid settings with a valid checksum are reported and not used, and repair removes
    them."""
    craft(image, record)
    found = image.check(rc=ERRORS)["findings"]
    assert [f["text"] for f in found] == ["settings: they are no words of a table line"]
    assert "cannot be used" in image.run("open", *image.args, "x", "--dry-run", rc=FAILED)
    assert table_of(image.run, *image.args, "--no-settings") == ""
    assert image.dump()["settings"] == ""
    said = image.run("set", *image.args, "commit_ms=1", rc=FAILED)
    # open offers --no-set in this case; set has no such option.
    assert "cannot be used" in said and "'shingle check'" in said and "--no-set" not in said
    assert_repaired(image, "delete the settings")
    assert table_of(image.run, *image.args) == "" and not any(image.read(0)[SETTINGS:])


def test_settings_of_a_newer_version_are_kept(image):
    """The tool leaves them unchanged and does not interpret them."""
    craft(image, b"\2\0\3\0abc\xff")
    found = image.check()["findings"]
    assert [f["severity"] for f in found] == ["note"] and "newer version" in found[0]["text"]
    assert "newer version" in image.run("open", *image.args, "x", "--dry-run", rc=FAILED)
    assert table_of(image.run, *image.args, "--no-settings") == ""
    image.flip(image.last, 5000)
    assert_repaired(image, "rewrite the superblock")
    for at in (0, image.last):
        assert image.read(at)[SETTINGS:] == b"\2\0\3\0abc\xff".ljust(208, b"\0")


def test_settings_unknown_to_the_target(image):
    """Settings of a later version of the target: the tool reports them and names a way to open
    the device."""
    craft(image, struct.pack("<HH", 1, 12) + b"later=1 soon")
    out = image.run("open", *image.args, "x", "--dry-run", rc=FAILED)
    assert "no feature 'soon'" in out and "are not valid: later=1 soon" in out
    assert "not valid" in image.run("open", *image.args, "x", "--dry-run", "--set",
                                             "idle_ms=1", rc=FAILED)
    assert table_of(image.run, *image.args, "--no-settings") == ""
    image.run("set", *image.args, "--no-feature", "soon", "--default", "later", "idle_ms=3")
    assert table_of(image.run, *image.args) == "0 2 idle_ms 3"


def test_different_settings_in_superblock_copies(kept):
    """Different settings in copies of one generation are damage; of two generations the newer one
    counts."""
    raw = bytearray(kept.read(kept.last))
    raw[SETTINGS:] = bytes(208)
    kept.write(kept.last, seal(raw))
    found = kept.check(rc=ERRORS)["findings"]
    assert any("superblock differs" in f["text"] for f in found)
    kept.write(kept.last, seal(raw, seq=2))
    assert table_of(kept.run, *kept.args) == ""
    kept.run("set", *kept.args, "commit_ms=9")
    assert [read_super(kept.read(at))["seq"] for at in (0, kept.last)] == [3, 3]


def test_set_refuses_a_damaged_device(kept):
    """set refuses a device with a damaged superblock or the mark needs_check, and changes nothing.
    A repair keeps the settings."""
    for at in (0, kept.last):
        whole = kept.read(at)
        kept.flip(at, 5000)
        before = bytes_of(kept)
        assert "'shingle check'" in kept.run("set", *kept.args, "commit_ms=1", rc=FAILED)
        assert bytes_of(kept) == before
        kept.write(at, whole)
    whole = kept.read(kept.last)
    kept.write(kept.last, seal(whole, uuid=bytes(16)))
    before = bytes_of(kept)
    assert "another device" in kept.run("set", *kept.args, "commit_ms=1", rc=FAILED)
    assert bytes_of(kept) == before
    kept.write(kept.last, whole)
    raw = bytearray(kept.read(0))
    raw[44] |= 1
    for at in (0, kept.last):
        kept.write(at, seal(raw, SB, at=at, seq=2))
    before = bytes_of(kept)
    assert "needs_check" in kept.run("set", *kept.args, "commit_ms=1", rc=FAILED)
    assert bytes_of(kept) == before
    # A repair keeps the settings.
    kept.run("repair", "--yes", *kept.args, rc=CORRECTED)
    assert table_of(kept.run, *kept.args) == "1 inplace 2 commit_ms 5000"


@pytest.mark.parametrize("older", [None, 0, 1])
def test_power_cut_while_setting(kept, stop_after, older):
    """The device has the old settings or the new ones after each write, and the last good copy is
    never at risk."""
    run = kept.run
    if older is not None:
        newer = kept.last if older == 0 else 0
        kept.write(newer, seal(kept.read(newer), seq=2))
    before = bytes_of(kept)
    seen = []
    for writes in range(10):
        for path, raw in zip((kept.data, kept.meta), before):
            path.write_bytes(raw)
        done = subprocess.run(
            [run.tool, "set", *kept.args, "commit_ms=7"], check=False, stdout=subprocess.DEVNULL,
            env={**os.environ, "LD_PRELOAD": str(stop_after), "WRITES": str(writes)})
        seen.append(table_of(run, *kept.args))
        run("check", *kept.args)
        copies = [read_super(kept.read(at))["seq"] for at in (0, kept.last)]
        if older is not None and writes == 1:
            assert copies[1 - older] == 2 and copies[older] == 3
        if not done.returncode:
            break
        assert done.returncode == 99
    old, new = "1 inplace 2 commit_ms 5000", "1 inplace 2 commit_ms 7"
    assert seen == [old, new, new]


# --------------------------------------------------------------------------
# Completion


@pytest.fixture(name="complete")
def completer(run):
    """The completions that bash offers for the last of some words, split as bash does."""
    (run.dir / "bin").mkdir()
    (run.dir / "bin/shingle").symlink_to(run.tool)
    (run.dir / "here").mkdir()
    blank(run.dir / "here/a-file", 1)

    def complete(line, breaks=" =:"):
        words = re.findall(r"=|[^ =]+" if "=" in breaks else r"[^ ]+", line)
        if line.endswith(" "):
            words.append("")
        script = (f'. {TOP}/userspace/shingle/shingle.bash; COMP_WORDBREAKS="{breaks}"\n'
                  f'COMP_WORDS=("$@"); COMP_CWORD={len(words) - 1}\n'
                  '_shingle; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(
            ["bash", "-c", script, "bash", *words], cwd=run.dir / "here", text=True,
            capture_output=True, check=True,
            env={**os.environ, "PATH": f"{run.dir}/bin:{os.environ['PATH']}"})
        assert not done.stderr, done.stderr
        return done.stdout.split()
    return complete


@pytest.mark.parametrize("line, offered", [
    ("shingle open d x --feature ", {"inplace", "unsafe_sync1"}),
    ("shingle create stl-set d x --feature ", ["inplace", "unsafe_bypass"]),
    ("shingle create stl-set d x --feature=", ["inplace", "unsafe_bypass"]),
    ("shingle create stl-set d x --feature in", ["inplace"]),
    ("shingle create --preset emulated-smr-1 d x --no-feature in", ["inplace"]),
    ("shingle open d x --set wc", ["wcache=", "wcache_blocks="]),
    ("shingle open d x --set=wc", ["wcache=", "wcache_blocks="]),
    ("shingle open d x --set wcache=", ["off", "on"]),
    ("shingle open d x --set wcache=of", ["off"]),
    ("shingle open d x --set=wcache=of", ["off"]),
    ("shingle create stl-set d x --set order=", ["fifo", "greedy"]),
    ("shingle open d x --set commit_ms=", []),
    ("shingle create stl-full d x --set ", {"threshold=", "commit_ms=", "order="}),
    ("shingle create stl-set --band ", []), ("shingle format stl-set --label ", []),
    ("shingle create stl-set --cache ", ["a-file"]), ("shingle check ", ["a-file"]),
    ("shingle create imr --cache-location ", ["id", "od"]),
    ("shingle create ti", ["tiler"]), ("shingle help cre", ["create"]),
    ("shingle repair d --dr", ["--dry-run"]), ("shingle remove ", []),
    ("shingle set x wcache=", ["off", "on"]), ("shingle set x --default wc",
                                               ["wcache", "wcache_blocks"]),
    ("shingle set x wc", ["wcache=", "wcache_blocks="]),
    ("shingle create plat", ["platter"]), ("shingle presets ma-t", ["ma-tiler"]),
    ("shingle create platter d x --set time_", ["time_scale="]),
    ("shingle create platter d x --set timing=", ["model", "none"]),
    ("shingle create platter --profile st5", ["st5000as0011", "st500dm002"]),
    ("shingle create platter d x --si", ["--size"]), ("shingle create imr d x --cache", []),
    ("shingle create imr d x --backup", ["--backup-tracks"]),
])
def test_completion(complete, line, offered):
    """Completion offers options and values of the named target, and file names only where a
    device is expected."""
    got = complete(line)
    if isinstance(offered, set):
        assert offered <= set(got) and "a-file" not in got
    else:
        assert got == offered


def test_completion_offers_keys_of_the_target_only(complete):
    of_set = complete("shingle create stl-set d x --set ")
    assert "bypass_blocks=" in of_set and "threshold=" not in of_set and "policy=" not in of_set
    assert "inplace" not in of_set


def test_completion_where_equals_is_part_of_a_word(complete):
    assert complete("shingle open d x --set wcache=o", breaks=" ") == ["wcache=off", "wcache=on"]
    assert complete("shingle open d x --set=wcache=o", breaks=" ") == \
        ["--set=wcache=off", "--set=wcache=on"]


# --------------------------------------------------------------------------
# Open devices, with a device mapper made of files


@pytest.fixture(scope="session", name="fake_dm")
def build_fake_dm(tmp_path_factory):
    so = tmp_path_factory.mktemp("fake") / "fake-dm.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", so, TOP / "tests/fake-dm.c"],
                   check=True)
    return so


class Mapper:
    """A fake device mapper: devices by name, with their answers."""

    def __init__(self, run):
        self.run, self.dir, self.log = run, run.dir / "dm", run.dir / "dm.log"
        self.dir.mkdir()

    def add(self, name, target, sectors=800, users=0, **answers):
        (self.dir / name).mkdir()
        for file, text in {"target": target, "sectors": sectors, "users": users,
                           "status": "1/2 3/4 5 idle - rw", **answers}.items():
            (self.dir / name / file.replace("next_", "")).with_suffix(
                ".next" if file.startswith("next_") else "").write_text(str(text))

    def changes(self):
        """The requests since the last call, without "stats"; clears the list."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [x for x in lines if not x.endswith(" stats")]


@pytest.fixture(name="dm")
def mapper(run, fake_dm, monkeypatch):
    monkeypatch.setenv("FAKE_DM", str(run.dir / "dm"))
    monkeypatch.setenv("LD_PRELOAD", str(fake_dm))
    return Mapper(run)


LAYER = ("mode rw\ncached_blocks 3\nmap_bytes 77\nhost_write_blocks 10\nclean_write_blocks 5\n"
         "journal_blocks 2\nclean_us 1500000\nlongest_rmw_us 7\nsteps 4\nimr_pending_tracks 6\n")


@pytest.fixture(name="two")
def two_devices(dm):
    dm.add("disk", "stl-set", stats=LAYER, stats_clear="")
    dm.add("medium", "platter", stats="seek_us 2\nreads 1\nwcache_dirty_blocks 9\n"
           "blocks_read 3\nmedia_blocks_written 4\nlate_max_us 1500\n")
    dm.add("other", "linear")
    return dm


def test_stats_of_one_and_of_all(two):
    one = json.loads(two.run("stats", "disk", "--json"))
    assert one["name"] == "disk" and one["stats"]["mode"] == "rw" and one["stats"]["steps"] == 4
    assert one["write_amplification"] == 1.7
    both = {d["name"]: d for d in json.loads(two.run("stats", "--json"))}
    assert set(both) == {"disk", "medium"} and both["disk"] == one
    assert "write_amplification" not in both["medium"]
    said = two.run("stats")
    assert "disk: stl-set\n" in said and "medium: platter\n" in said and "other" not in said
    assert re.search(r"^cached_blocks +3 +12 KiB$", said, re.M)
    assert "disk: " not in two.run("stats", "disk")
    assert "type 'linear'" in two.run("stats", "other", rc=FAILED)
    assert "status of nobody: " in two.run("stats", "nobody", rc=FAILED)


def test_metrics_are_valid_utf8(two):
    """Prometheus accepts only UTF-8, so bytes of a device name that are not UTF-8 are escaped."""
    name = os.fsdecode(b'a"\xff\\\xc3\xa9')
    two.add(name, "stl-set", stats=LAYER)
    for words in ([], [name]):
        done = subprocess.run([two.run.tool, "stats", "--prometheus", *words], check=True,
                              stdout=subprocess.PIPE)
        lines = done.stdout.decode("utf-8").splitlines()
        assert r'shingle_steps_total{device="a\"\\xff\\x5cé",target="stl-set"} 4' in lines
    assert name not in two.run("stats", "disk", "--prometheus")


@pytest.mark.parametrize("name", ["my disk", "it's", "$(reboot)", "a;b", "B\u00fccher"])
def test_printed_line_for_dmsetup_is_shell_quoted(kept, name):
    line = kept.run("open", "--dry-run", *kept.args, "--", name).splitlines()[-1]
    words = shlex.split(line)
    assert words[:4] == ["dmsetup", "create", name, "--table"]
    done = subprocess.run(["sh", "-c", f"dmsetup() {{ echo \"$@\"; }}; {line}"], text=True,
                          stdout=subprocess.PIPE, check=True)
    assert done.stdout.count("\n") == 1 and name in done.stdout


def test_missing_root_rights_are_reported(two, tmp_path):
    """Without root rights the message names them as the cause and does not report a missing
    device."""
    (tmp_path / "dm.denied").touch()
    for words in (["status", "disk"], ["stats", "disk"], ["set", "disk"],
                  ["set", "disk", "commit_ms=5"], ["remove", "disk"], ["reset", "--force", "disk"],
                  ["stats", "disk", "--clear"], ["stats", "disk", "--latency", "1"]):
        said = two.run(*words, rc=FAILED)
        assert "only root may do this" in said and "no such device" not in said, words


def test_unwritable_output_is_reported(two):
    """If the disk is full, the metrics are incomplete and the exit code must report it."""
    many = "".join(f"counter_{i} {i}\n" for i in range(200))
    (two.dir / "disk/stats").write_text(many)
    for words in (["stats", "--prometheus"], ["stats"], ["stats", "disk"], ["stats", "--json"],
                  ["stats", "--fields", "counter_1"], ["presets"], ["--help"], ["--version"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([two.run.tool, *words], stdout=full, stderr=subprocess.PIPE,
                                  text=True, check=False)
        assert done.returncode == FAILED and re.fullmatch(
            "shingle: output cannot be written: (No space left on device|it was cut short)\n",
            done.stderr), words


def test_watch_ends_on_a_broken_pipe(two):
    """watch ends also where a broken pipe raises no signal, as under a service manager."""
    for out in ("/dev/full", "| head -n 1 > /dev/null"):
        out = out if out[0] == "|" else f"> {out}"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"trap '' PIPE; {two.run.tool} stats --watch 1 {out}"],
            stderr=subprocess.PIPE, text=True, timeout=20, check=False)
        assert done.returncode == FAILED and "output cannot be written" in done.stderr


@pytest.fixture(name="at_work")
def open_device(dm, kept):
    dm.add("disk", "stl-set", settings="inplace commit_ms=5000\n", keep="", commit_ms="",
           table=f"{kept.data} - {kept.meta} 1 inplace 2 commit_ms 5000")
    dm.before = bytes_of(kept)
    dm.image = kept
    return dm


def test_set_of_an_open_device(at_work):
    """Set sends a message to the open device, takes effect at once where the target supports it,
    and keeps the setting."""
    assert at_work.run("set", "disk") == "settings stored on disk: inplace commit_ms=5000\n"
    assert at_work.changes() == ["message disk settings"]
    said = at_work.run("set", "disk", "commit_ms=7", "wcache_blocks=9", "--no-feature", "inplace")
    assert said.startswith("settings stored on disk: commit_ms=7 wcache_blocks=9\n") and "opened again" in said
    assert at_work.changes() == ["message disk settings", "message disk commit_ms 7",
                                 "message disk keep commit_ms=7 wcache_blocks=9"]
    said = at_work.run("set", "disk", "commit_ms=8")
    assert said == "settings stored on disk: inplace commit_ms=8\n"
    at_work.changes()
    assert "opened again" in at_work.run("set", "disk", "--default", "commit_ms")
    assert at_work.changes()[1:] == ["message disk keep inplace"]
    at_work.run("set", "disk", "--default", "commit_ms", "--no-feature", "inplace")
    assert at_work.changes()[1:] == ["message disk keep"]
    # The kernel writes to an open device; the tool does not.
    assert bytes_of(at_work.image) == at_work.before


def test_set_volatile_stores_nothing(at_work):
    """set --volatile sends the new value to the open device and stores nothing. It refuses what
    would take effect only when the device is opened again."""
    at_work.run("set", "disk", "commit_ms=7", "--volatile")
    assert at_work.changes() == ["message disk commit_ms 7"]
    for words, what in ((["wcache_blocks=9"], "can be set only when the device is opened"),
                        (["--feature", "inplace"], "changes only keys"),
                        (["commit_ms=1", "--default", "commit_ms"], "changes only keys")):
        assert what in at_work.run("set", "disk", "--volatile", *words, rc=USAGE)
    assert not at_work.changes()


@pytest.mark.parametrize("words, what, rc", [
    (["commit_ms=soon"], "commit_ms must be", USAGE), (["nonsense=1"], "no key", USAGE),
    (["wcache=on"], "no write cache to be switched on", USAGE),
    (["idle_ms=1"], "message to disk", FAILED), (["--meta", "m", "commit_ms=1"], "closed", USAGE),
])
def test_refused_set_stores_nothing(at_work, words, what, rc):
    """A setting that the tool or the kernel refuses is not kept; the kernel here has no answer
    for idle_ms."""
    assert what in at_work.run("set", "disk", *words, rc=rc)
    assert not [x for x in at_work.changes() if "keep" in x]


@pytest.mark.parametrize("copy", [0, 1])
def test_set_refuses_an_open_device_with_one_superblock(at_work, copy):
    """The kernel writes both superblocks. With only one left, a power cut during that write would
    lose the device, so set refuses."""
    image = at_work.image
    image.flip(image.last if copy else 0, 5000)
    assert "'shingle check'" in at_work.run("set", "disk", "commit_ms=7", rc=FAILED)
    assert at_work.changes() == ["message disk settings"]


def test_set_volatile_sends_the_whole_value(at_work):
    at_work.run("set", "disk", f"commit_ms={7:0>300}", "--volatile")
    assert at_work.changes() == [f"message disk commit_ms {7:0>300}"]


def test_set_of_targets_without_settings(two):
    assert "type 'platter'" in two.run("set", "medium", "commit_ms=1", rc=FAILED)
    assert "status of nobody: " in two.run("set", "nobody", "commit_ms=1", rc=FAILED)
    assert not two.changes()


def test_stats_without_open_devices(dm):
    assert "no dm-shingle device is open" in dm.run("stats")
    assert json.loads(dm.run("stats", "--json")) == []
    assert dm.run("stats", "--prometheus") == ""


def test_stats_skip_a_device_that_does_not_answer(two):
    """A device that does not answer costs only its own statistics; the exit status reports it."""
    two.add("gone", "stl-full")
    said = two.run("stats", "--json", rc=FAILED)
    assert {d["name"] for d in json.loads(said[:said.rindex("]") + 1])} == {"disk", "medium"}
    assert "shingle: message to gone: " in said


def test_stats_fields(two):
    got = json.loads(two.run("stats", "disk", "--json", "--fields", "steps,mode"))
    assert got == {"name": "disk", "target": "stl-set", "stats": {"mode": "rw", "steps": 4}}
    assert two.run("stats", "disk", "--fields", "write_amplification").split() == \
        ["write_amplification", "1.700"]
    both = json.loads(two.run("stats", "--json", "--fields", "seek_us,steps"))
    assert {d["name"]: d["stats"] for d in both} == {"disk": {"steps": 4},
                                                     "medium": {"seek_us": 2}}
    assert two.run("stats", "--prometheus", "--fields", "steps").count("\n") == 3
    said = two.run("stats", "disk", "--fields", "steps,seek_us", rc=USAGE)
    assert said == ("shingle: --fields: the device has no counter 'seek_us'; 'shingle stats' "
                    "lists all\n")
    assert "no device has counter 'step'" in two.run("stats", "--fields", "step", rc=USAGE)


@pytest.mark.parametrize("args, what", [
    (["--prometheus", "--json"], "cannot be combined with --json"),
    (["--prometheus", "--watch", "1"], "cannot be combined with --json"), (["--clear"], "NAME is missing"),
    (["disk", "--clear", "--json"], "--clear prints nothing"),
    (["disk", "--clear", "--fields", "steps"], "--clear prints nothing"),
    (["disk", "--fields", "steps,"], "separated by commas"), (["disk", "--fields", ""], "commas"),
    (["--latency", "1"], "NAME is missing"), (["disk", "--latency", "0"], "at least 1"),
    (["disk", "--latency", "1", "--watch", "1"], "only with --json"),
    (["disk", "--latency", "1", "--prometheus"], "only with --json"),
    (["disk", "--latency", "1", "--clear"], "omit the other options"),
    (["disk", "medium"], "one argument too many"), (["--watch", "1s"], "digits only"),
])
def test_invalid_stats_options_are_refused(two, args, what):
    assert what in two.run("stats", *args, rc=USAGE)
    assert not two.changes()


def test_stats_clear_of_one_device(two):
    two.run("stats", "disk", "--clear")
    assert two.changes() == ["message disk stats_clear"]


def watched(two, *args):
    """The output of the first two rounds."""
    with subprocess.Popen([two.run.tool, "stats", "--watch", "1", *args], text=True,
                          stdout=subprocess.PIPE) as p:
        rounds, text = [], []
        while len(rounds) < 2:
            line = p.stdout.readline()
            assert line
            text.append(line)
            if line == "\n":
                rounds.append("".join(text))
                text = []
        p.kill()
    return rounds


def test_stats_watch_prints_rates(two):
    (two.dir / "disk/stats.next").write_text(LAYER.replace("steps 4", "steps 11"))
    first, second = watched(two, "disk", "--fields", "steps")
    assert re.fullmatch(r"steps +4\n\n", first)
    assert re.fullmatch(r"steps +11 +7\.0/s\n\n", second)


def test_stats_watch_continues_without_a_device(two):
    """A device that disappears may come back, so watch continues. A field that no device has at
    the start is an error."""
    here, away = two.dir / "disk", two.run.dir / "closed"
    with subprocess.Popen([two.run.tool, "stats", "--watch", "1", "--fields", "steps"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
        def until(begin):
            line = p.stdout.readline()
            while not line.startswith(begin):
                assert line, "it has ended"
                line = p.stdout.readline()

        until("steps")
        here.rename(away)
        # One round may already have been in progress.
        for _ in range(3):
            until("medium: ")
        away.rename(here)
        until("steps")
        p.kill()
    assert "no device has counter 'step'" in two.run("stats", "--watch", "1", "--fields", "step",
                                             rc=USAGE)


def test_prometheus_format(two):
    """The output is in Prometheus' text format, version 0.0.4."""
    two.add('a"b\\c\nd', "stl-set", stats="mode ro\nhost_write_blocks 1\n")
    said = two.run("stats", "--prometheus")
    family, kinds, samples = None, {}, {}
    for line in said.splitlines():
        if line.startswith("# HELP "):
            family, words = line.split(" ", 3)[2:]
            assert words and family not in kinds
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == family
            kinds[family] = line.split(" ")[3]
        else:
            name, labels, value = re.fullmatch(r"([a-z_:][a-z0-9_:]*)\{(.*)\} ([0-9.]+)",
                                               line).groups()
            assert name == family, "samples of one metric do not lie together"
            pairs = re.findall(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)', labels)
            assert ",".join(f'{k}="{v}"' for k, v in pairs) == labels
            pairs = dict(pairs)
            assert (name, pairs["device"]) not in samples
            samples[name, pairs["device"]] = value, pairs
            assert (kinds[name] == "counter") == name.endswith("_total")
    value = {k: v[0] for k, v in samples.items()}
    assert value["shingle_host_write_bytes_total", "disk"] == "40960"
    assert value["shingle_cached_bytes", "disk"] == "12288"
    assert value["shingle_map_bytes", "disk"] == "77"
    assert value["shingle_clean_seconds_total", "disk"] == "1.500000"
    assert value["shingle_longest_rmw_seconds", "disk"] == "0.000007"
    assert value["shingle_steps_total", "disk"] == "4"
    assert value["shingle_imr_pending_tracks", "disk"] == "6"
    assert value["shingle_seek_seconds_total", "medium"] == "0.000002"
    assert value["shingle_wcache_dirty_bytes", "medium"] == "36864"
    assert value["shingle_read_bytes_total", "medium"] == "12288"
    assert value["shingle_media_written_bytes_total", "medium"] == "16384"
    assert value["shingle_late_max_seconds", "medium"] == "0.001500"
    assert ("# HELP shingle_media_written_bytes_total media written in bytes, since the device was "
            "opened or cleared; media_blocks_written of 'shingle stats'.\n") in said
    assert ("# HELP shingle_late_max_seconds late max in seconds, maximum since the device was "
            "opened or cleared; late_max_us of 'shingle stats'.\n") in said
    assert value["shingle_write_amplification_ratio", "disk"] == "1.700000"
    assert ("shingle_write_amplification_ratio", "medium") not in value
    odd = 'a\\"b\\\\c\\nd'
    assert value["shingle_host_write_bytes_total", odd] == "4096"
    assert samples["shingle_mode", odd] == ("1", {"device": odd, "target": "stl-set",
                                                  "mode": "ro"})
    assert samples["shingle_mode", "disk"][1]["mode"] == "rw"


def counted_by(source, table):
    """The names in a list of X(name)."""
    text = (TOP / source).read_text(encoding="utf-8").split(f"#define {table}(")[1]
    return re.findall(r"X\((\w+)\)", text.split("\n\n")[0])


def test_prometheus_has_all_counters(dm):
    """Every statistic of the targets' lists is exported. Those in blocks or time have a unit;
    maxima are no counters."""
    names = counted_by("dm-platter/platter.h", "PLATTER_COUNTERS") + \
        counted_by("core/lib/engine/counters.h", "SHINGLE_CPU_COUNTERS") + \
        counted_by("core/lib/engine/counters.h", "SHINGLE_COUNTERS")
    assert len(names) > 50
    dm.add("medium", "platter", stats="".join(f"{n} 1\n" for n in dict.fromkeys(names)))
    said = dm.run("stats", "--prometheus")
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", said, re.M))
    assert len(kinds) == len(set(names)), "two keys have one name"
    assert not [m for m in kinds if re.search(r"blocks|_us(_|$)", m)]
    assert [m for m, kind in kinds.items() if kind == "gauge"] == \
        [m for m in kinds if "max" in m] == ["shingle_late_max_seconds"]
    assert sum("_seconds" in m for m in kinds) == sum(n.endswith("_us") for n in set(names))
    assert sum("_bytes" in m for m in kinds) == sum("blocks" in n for n in set(names))


def test_page_documents_all_metrics():
    """The page documents all metrics: the naming rule and its exceptions."""
    page = (TOP / "userspace/shingle/shingle.8").read_text(encoding="utf-8").replace("\\-", "-")
    page = page.split(".SH METRICS")[1].split(".SH")[0]
    for name in ("shingle_mode", "shingle_host_write_bytes_total", "shingle_cached_bytes",
                 "shingle_clean_seconds_total", "shingle_write_amplification_ratio",
                 "shingle_read_bytes_total", "shingle_media_written_bytes_total",
                 "shingle_late_max_seconds"):
        assert name in page, name


def test_dry_runs_on_open_devices(two):
    """The dry runs of remove and reset change nothing, and refuse what the real commands would
    refuse."""
    assert "disk would be closed" in two.run("remove", "disk", "--dry-run")
    assert "all contents of disk, 400 KiB, would be erased" in \
        two.run("reset", "disk", "--dry-run", "--force")
    assert "type 'linear'" in two.run("remove", "other", "--dry-run", rc=FAILED)
    assert "cannot be reset" in two.run("reset", "medium", "--dry-run", rc=FAILED)
    two.add("busy", "imr", users=1, reset="")
    for command in ("remove", "reset"):
        assert "busy is in use" in two.run(command, "busy", "--dry-run", rc=FAILED)
    assert not two.changes()
    two.run("remove", "disk")
    two.run("reset", "busy", "--force", rc=FAILED)
    assert two.changes() == ["remove disk"]


def test_remove_retries_a_busy_device(two):
    """udev or another reader may hold the device for a moment after its last user has closed it.
    remove tries again 25 times and then reports that the device is in use."""
    (two.dir / "disk/busy").write_text("25")
    two.run("remove", "disk")
    assert two.changes() == ["remove disk"]
    (two.dir / "medium/busy").write_text("26")
    assert "removing medium: the device, or the name, is in use" in two.run("remove", "medium", rc=FAILED)
    assert not two.changes()


@pytest.mark.parametrize("target, counter", [("stl-set", "unsaved_blocks"),
                                             ("platter", "unreported_blocks")])
def test_remove_reports_lost_writes(two, target, counter):
    """remove closes a device that has lost acknowledged writes, but reports the loss and exits
    with status 4, as check does for damage."""
    two.add("broken", target, stats=f"mode ro\n{counter} 3\n")
    said = two.run("remove", "broken", rc=4)
    assert "3 acknowledged blocks could not be made durable and are lost" in said
    assert [line for line in two.changes() if "remove" in line] == ["remove broken"]
    two.add("sound", target, stats=f"mode rw\n{counter} 0\n")
    assert "lost" not in two.run("remove", "sound")


class Disk:
    """A formatted block device of the fake, with the arguments that open it."""

    def __init__(self, dm, *options, blocks=4096, target=("stl-set", "--band", "64K")):
        self.dm, self.run, self.path = dm, dm.run, blank(dm.run.dir / "disk.blk", blocks)
        self.run("format", *target, *options, self.path)

    def open(self, rc=CLEAN):
        return self.run("open", self.path, "new", "--no-udev", rc=rc)


def test_tool_frees_its_map_before_the_kernel_loads(dm):
    """The map of a dualbuffer over 8 TiB takes 1.2 GB; tool and kernel must not both hold one."""
    disk = Disk(dm, blocks=1 << 26, target=("dualbuffer",))
    for words in (["open", disk.path, "new"],
                  ["create", "dualbuffer", "--force", disk.path, "new"]):
        dm.run(*words, "--no-udev")
        created, loaded = dm.changes()
        assert created == "create new"
        assert int(loaded.split()[2]) < 1024, loaded
        dm.run("remove", "new")
        dm.changes()


def grow(path, sectors):
    """Makes the file larger, as dd onto a larger disk or an extended LV does."""
    with open(path, "r+b") as f:
        f.truncate(os.stat(path).st_size + 512 * sectors)


@pytest.mark.parametrize("sectors", [1, 8, 8 * 300 + 3])
@pytest.mark.parametrize("which", ["data", "cache", "meta"])
def test_grown_device_opens_at_its_old_size(dm, which, sectors):
    """The device opens at its old size, and the tool reports the difference."""
    disks = {name: blank(dm.run.dir / f"{name}.blk", blocks)
             for name, blocks in (("data", 4096), ("cache", 600), ("meta", 600))}
    args = [disks["data"], "--cache", disks["cache"], "--meta", disks["meta"]]
    dm.run("format", "stl-set", "--band", "64K", *args)
    dm.run("open", *args, "new", "--no-udev")
    sectors_before = (dm.dir / "new/sectors").read_text()
    dm.run("remove", "new")
    grow(disks[which], sectors)
    blocks = os.stat(disks[which]).st_size // BLOCK
    note = f"{which.upper()} has {blocks} blocks of 4 KiB, more than the "
    said = dm.run("open", *args, "new", "--no-udev")
    assert (note in said) == (sectors >= 8)
    assert (dm.dir / "new/sectors").read_text() == sectors_before
    assert (note in dm.run("check", *args)) == (sectors >= 8)
    assert "nothing to repair" in dm.run("repair", *args)
    dm.run("dump", *args)


@pytest.mark.parametrize("meta", [64, 0])
def test_second_superblock_of_a_grown_device(run, meta):
    """The second superblock stays where the device ended at format. A superblock at the present
    end belongs to an earlier format and is not used, even if its generation is higher."""
    image = Image(run, meta=meta, blocks=300)
    raw = bytearray(image.read(image.last))
    words = b"commit_ms=7"
    struct.pack_into("<HH", raw, SETTINGS, 1, len(words))
    raw[SETTINGS + 4:SETTINGS + 4 + len(words)] = words
    image.write(image.last, seal(raw, SB, seq=image.sb["seq"] + 1))
    grow(image.file, 8 * 50)
    # A superblock of an earlier format, which used the whole larger device.
    image.write(image.last + 50, seal(image.read(0), SB, uuid=bytes(16), at=image.last + 50,
                                      seq=image.sb["seq"] + 9))
    assert " 0 2 commit_ms 7'\n" in run("open", "--dry-run", *image.args, "x")
    assert run("set", *image.args) == f"settings stored on {image.data}: commit_ms=7\n"


def raid_superblock(sectors):
    """The superblock of md, version 1.0, and its place near the end."""
    at = (sectors - 16) & ~7
    raw = bytearray(256)
    struct.pack_into("<II", raw, 0, 0xa92b4efc, 1)
    raw[16:32] = b"0123456789abcdef"
    struct.pack_into("<iQI", raw, 72, 1, sectors - 32, 0)
    struct.pack_into("<QQ", raw, 128, 0, sectors - 32)
    struct.pack_into("<Q", raw, 144, at)
    total = sum(struct.unpack("<64I", raw))
    struct.pack_into("<I", raw, 216, ((total & 0xffffffff) + (total >> 32)) & 0xffffffff)
    return at, raw


@pytest.mark.parametrize("command", [["check"], ["repair", "--yes"], ["open", "--no-udev"]])
def test_half_of_a_mirror_is_refused(dm, command):
    """The md superblock lies behind the formatted part. If one half were opened alone, the halves
    would differ."""
    disk = Disk(dm)
    grow(disk.path, 8 * 100)
    at, raw = raid_superblock(8 * 4196)
    with open(disk.path, "r+b") as f:
        f.seek(512 * at)
        f.write(raw)
    assert "of type linux_raid_member" in \
        dm.run(*command, disk.path, *(["new"] if command[0] == "open" else []), rc=FAILED)


@pytest.mark.parametrize("which", ["data", "cache", "meta"])
def test_shrunk_device_is_refused_with_advice(dm, which):
    disks = {name: blank(dm.run.dir / f"{name}.blk", 4096) for name in ("data", "cache", "meta")}
    args = [disks["data"], "--cache", disks["cache"], "--meta", disks["meta"]]
    dm.run("format", "stl-set", "--band", "64K", *args)
    os.truncate(disks[which], 4095 * BLOCK + 512)
    said = {dm.run(*command, *args, *name, rc=FAILED)
            for command, name in ((["check"], []), (["repair"], []), (["dump"], []),
                                  (["open", "--no-udev"], ["new"]))}
    assert len(said) == 1 and "restore its size of 4096 blocks" in said.pop()


@pytest.mark.parametrize("mode, why", [
    ("ro", "its device is read-only: data"), ("ro", "cleaning can make no progress"),
    ("fail", "the map contradicts itself")])
def test_status_quotes_the_cause_of_a_failure(dm, mode, why):
    """status and its JSON output quote the cause that the target gives. Without one, status points
    to the kernel log."""
    dm.add("disk", "stl-set", mode=f"{mode} {why}\n")
    (dm.dir / "disk/status").write_text(f"1/2 3/4 5 idle - {mode}")
    name = {"ro": "read-only", "fail": "failed"}[mode]
    assert f"  mode     {name}: {why}\n" in dm.run("status", "disk")
    assert json.loads(dm.run("status", "disk", "--json"))["mode_why"] == why
    # Modules that do not know the message give no cause.
    (dm.dir / "disk/mode").unlink()
    assert f"  mode     {name}; see the kernel log\n" in dm.run("status", "disk")
    assert "mode_why" not in json.loads(dm.run("status", "disk", "--json"))


def test_status_sends_no_message_to_a_healthy_device(two):
    """status sends no message to a device that is read-write."""
    assert "mode_why" not in json.loads(two.run("status", "disk", "--json"))
    assert "  mode     read-write\n" in two.run("status")
    assert not two.changes()


REFUSED = [
    # stage, errno, lines of the kernel log, the tool's text about the cause
    ("reload", 22, ["3,1,1,-;device-mapper: table: 253:6: stl-set: another device (-EINVAL)",
                    "4,2,1,-;device-mapper: table: 253:7: a remark",
                    "3,3,1,-;device-mapper: table: 253:7: stl-set: The cache is missing (-EINVAL)",
                    "3,4,1,-;device-mapper: ioctl: error adding target to table"],
     "the kernel refuses it: The cache is missing\n"),
    ("reload", 22, ["4,1,1,-;device-mapper: table: 253:7: adding target device x: misaligned",
                    "6,2,1,-;device-mapper: table: 253:7: just so"],
     "the kernel refuses it: adding target device x: misaligned\n"),
    ("resume", 5, ["6,1,1,-;device-mapper: shingle: 253:7: replayed 3 transactions",
                   "3,2,1,-;device-mapper: shingle: 253:7: cannot activate: it is torn (-117)",
                   "3,3,1,-;device-mapper: table: 253:7: stl-set: preresume failed, error = -117"],
     "the kernel refuses it: cannot activate: it is torn\n"),
    ("reload", 12, [], "the kernel has not enough free memory"),
    ("reload", 22, [], "Invalid argument; see the kernel log"),
    ("create", 1, [], "only root may do this"),
]


@pytest.mark.parametrize("stage, err, log, said", REFUSED)
def test_kernel_refusal_is_explained(dm, stage, err, log, said):
    """The tool quotes the kernel log and leaves nothing behind."""
    disk = Disk(dm)
    (dm.run.dir / "dm.kmsg").touch()
    (dm.run.dir / f"dm.{stage}").write_text("".join(f"{x}\n" for x in [err, *log]))
    assert f"opening new: {said}" in disk.open(rc=FAILED)
    assert not (dm.dir / "new").exists()


@pytest.mark.parametrize("version, said", [
    ("0.9.1", True), ("1.0.0", False), (None, False)])
def test_refused_table_names_module_version(dm, version, said):
    """If the kernel refuses a table and its modules have another version than the tool, the
    message names both: such modules may know another format, or fewer options."""
    release = re.search(r'PACKAGE_VERSION="(.*)"', (TOP / "dkms.conf").read_text())[1]
    disk = Disk(dm)
    (dm.run.dir / "dm.reload").write_text("22\n")
    if version:
        (dm.run.dir / "dm.version").write_text((release if version == "1.0.0" else version) + "\n")
    text = f"; the modules have version 0.9.1 and this tool {release}: load the matching modules"
    assert (text in disk.open(rc=FAILED)) == said


def test_long_logical_blocks_are_refused_before_any_write(dm):
    """Such a device cannot write one block of 4096 bytes, the unit of all metadata. A first format
    must be refused as well as the use of an earlier one."""
    path = blank(dm.run.dir / "long.blk", 4096)
    for size in (512, 4096):
        Path(f"{path}.ssz").write_text(str(size))
        dm.run("format", "stl-set", "--band", "64K", "--force", path)
    Path(f"{path}.ssz").write_text("16384")
    before = path.read_bytes()
    for words in (["format", "stl-set", "--force", path], ["check", path], ["repair", path],
                  ["open", path, "new"]):
        assert "has logical blocks of 16384 bytes: at most 4096 are supported" in \
            dm.run(*words, rc=FAILED)
    assert path.read_bytes() == before and not dm.changes()


def test_unreadable_kernel_log_is_mentioned(dm):
    disk = Disk(dm)
    (dm.run.dir / "dm.reload").write_text(f"22\n{REFUSED[0][2][2]}\n")
    assert "Invalid argument; see the kernel log (dmesg)" in disk.open(rc=FAILED)


def test_refused_message_is_explained(at_work):
    (at_work.run.dir / "dm.kmsg").touch()
    (at_work.run.dir / "dm.message").write_text(
        "22\n3,1,1,-;device-mapper: shingle: 253:7: idle_ms: it is too long\n")
    assert "message to disk: the kernel refuses it: idle_ms: it is too long\n" in \
        at_work.run("set", "disk", "idle_ms=1", rc=FAILED)


def test_copy_of_an_open_device_is_refused(dm):
    """A copy made by dd has the same UUID, and device mapper accepts each UUID once."""
    disk = Disk(dm)
    disk.open()
    copy = shutil.copy(disk.path, dm.run.dir / "copy.blk")
    (dm.run.dir / "dm.create").write_text("16\n")
    said = dm.run("open", copy, "second", "--no-udev", rc=FAILED)
    assert "opening second: the open device new has the same UUID" in said
    (dm.dir / "new/uuid").unlink()
    assert "the device, or the name, is in use" in dm.run("open", copy, "second", "--no-udev", rc=FAILED)


def test_read_only_disk_is_opened_read_only(dm):
    disk = Disk(dm)
    Path(f"{disk.path}.ro").write_text("1")
    assert " --readonly --table " in dm.run("open", disk.path, "new", "--dry-run")
    disk.open()
    assert dm.changes()[1].startswith("reload new ro ")


def region(bins, reads=(3, 6000), writes=(2, 9000)):
    """The answer of a region: sectors, 13 numbers and the histogram."""
    return (f"0+800 {reads[0]} 0 24 {reads[1]} {writes[0]} 0 16 {writes[1]} 0 1 2 3 4 "
            + ":".join(map(str, bins)) + "\n")


CREATE = "message disk @stats_create - /1 2 precise_timestamps histogram:" + \
    ",".join(str(1000 << i) for i in range(3, 26)) + " shingle"


def test_latency_of_a_device(two):
    """The tool measures the whole device in one region and deletes that region at the end."""
    two.dir.joinpath("disk/@stats_create").write_text("7")
    two.dir.joinpath("disk/@stats_print").write_text(region([4] + 22 * [0] + [1]))
    two.dir.joinpath("disk/@stats_delete").write_text("")
    got = json.loads(two.run("stats", "disk", "--latency", "1", "--json"))
    assert two.changes() == [CREATE, "message disk @stats_print 7", "message disk @stats_delete 7"]
    assert len(CREATE.split(":")[1].split(",")) == 23
    assert [b["below_us"] for b in got["histogram"]] == [*(1 << i for i in range(3, 26)), None]
    assert [b["requests"] for b in got["histogram"]] == [4] + 22 * [0] + [1]
    assert (got["reads"], got["read_mean_us"], got["writes"], got["write_mean_us"]) == \
        (3, 2.0, 2, 4.5)
    said = two.run("stats", "disk", "--latency", "1").splitlines()
    assert said[0].split() == ["reads", "3", "mean", "2.0", "us"]
    assert said[2].split() == ["below", "8", "us", "4"]
    assert said[-1].split() == ["from", str(1 << 25), "us", "1"] and len(said) == 26


def test_latency_of_no_request(two):
    two.dir.joinpath("disk/@stats_create").write_text("0")
    two.dir.joinpath("disk/@stats_print").write_text(region(24 * [0], (0, 0), (0, 0)))
    two.dir.joinpath("disk/@stats_delete").write_text("")
    assert len(two.run("stats", "disk", "--latency", "1").splitlines()) == 2


@pytest.mark.parametrize("answer", ["", "0+800 1 2 3\n", region(23 * [1]),
                                    region(24 * [1]).replace(":", ",")])
def test_unknown_latency_answer_is_reported(two, answer):
    """The tool reports an answer of an unknown form, and deletes the region even so."""
    two.dir.joinpath("disk/@stats_create").write_text("7")
    two.dir.joinpath("disk/@stats_print").write_text(answer)
    two.dir.joinpath("disk/@stats_delete").write_text("")
    assert "has an unknown form" in two.run("stats", "disk", "--latency", "1", rc=FAILED)
    assert two.changes()[-1] == "message disk @stats_delete 7"


@contextlib.contextmanager
def counting(two, signals):
    """The tool while it counts latencies for a day; signals are set up with env(1)."""
    two.dir.joinpath("disk/@stats_create").write_text("7")
    two.dir.joinpath("disk/@stats_print").write_text(region([4] + 23 * [0]))
    two.dir.joinpath("disk/@stats_delete").write_text("")
    with subprocess.Popen(["env", signals, two.run.tool, "stats", "disk",
                           "--latency", "86400"], text=True, stdout=subprocess.PIPE) as p:
        while not (two.log.exists() and "@stats_create" in two.log.read_text()):
            assert p.poll() is None
        yield p


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                                   signal.SIGQUIT])
def test_latency_ends_on_a_signal(two, signo):
    """The tool prints the counts so far and deletes the region."""
    # Under nohup the test would inherit an ignored SIGHUP.
    with counting(two, "--default-signal") as p:
        p.send_signal(signo)
        try:
            out = p.communicate(timeout=60)[0]
        finally:
            p.kill()
        assert p.returncode == CLEAN and "reads" in out
    assert two.changes()[-1] == "message disk @stats_delete 7"


def test_latency_continues_under_nohup(two):
    """A SIGHUP that is ignored at the start, as under nohup, stays ignored, so that the measurement
    lasts for the given time."""
    with counting(two, "--ignore-signal=HUP") as p:
        ignored = int(re.search(r"^SigIgn:\s*(\w+)$", Path(f"/proc/{p.pid}/status").read_text(
            encoding="ascii"), re.M)[1], 16)
        p.terminate()
        p.communicate(timeout=60)
    assert ignored >> (signal.SIGHUP - 1) & 1


def test_latency_without_kernel_support(two):
    assert "shingle: message to disk: " in two.run("stats", "disk", "--latency", "1", rc=FAILED)
    assert two.changes() == [CREATE]
