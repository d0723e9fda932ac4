# SPDX-License-Identifier: GPL-2.0
"""shingle-replay: vectors that were computed by hand from Figures 6 and 9 of Hajkazemi, Abdi and
Desnoyers, "Minimizing Read Seek for SMR Disk"; random loads against a model that has an entry for each
sector; and relations that hold for every load."""

import json
import os
import random
import re
import struct
import subprocess
from collections import OrderedDict

import pytest
from programs import TOP

READ, WRITE, DISCARD = range(3)
LIMIT = "64M"


@pytest.fixture(scope="session", name="tool")
def build_tool():
    """Build the program with sanitizers."""
    if os.environ.get("SHINGLE_REPLAY"):
        return os.environ["SHINGLE_REPLAY"]
    subprocess.run(["make", "-s", "-C", str(TOP / "userspace/replay"),
                    "SANITIZE=address,undefined"], check=True, stdout=subprocess.DEVNULL)
    return str(TOP / "build/userspace/shingle-replay-address-undefined")


def encode(requests):
    return b"SHGLREQ1" + b"".join(struct.pack("<QII", first, n, kind)
                                  for kind, first, n in requests)


def replay(tool, requests, *options, rc=0):
    done = subprocess.run([tool, "--json", *map(str, options)], input=encode(requests),
                          capture_output=True, check=False, timeout=600)
    assert done.returncode == rc, done.stderr.decode()
    return json.loads(done.stdout) if not rc else done.stderr.decode()


def seeks(of, stream="ls"):
    return of["streams"][stream]["seeks"]


def w(first, n=1):
    return WRITE, first, n


def r(first, n=1):
    return READ, first, n


# LBA 1 is sector 0. A first write puts LBAs 1 to 6 at P1 to P6; it is the first operation, no seek.
FIGURE_6 = [w(0, 6), w(2), w(4), r(1, 4), r(1, 4), r(0, 2)]
FIGURE_6_SWAPPED = [w(0, 6), w(4), w(2), r(1, 4), r(1, 4), r(0, 2)]
FIGURE_9 = [w(0, 6), w(2), w(1), w(3), r(0, 5), r(0, 5)]
BACKWARDS = [w(0, 8), *(w(i) for i in reversed(range(8))), *(r(i) for i in range(8))]
BACKWARDS_ONCE = [*BACKWARDS[:9], r(0, 8)]


def defrag(frags, hits=1):
    return ("--defrag-frags", frags, "--defrag-hits", hits)


def around(sectors, regions, *more):
    return ("--behind", f"{sectors}s", "--ahead", f"{sectors}s", "--regions", regions, *more)


VECTORS = [
    # Figure 6.
    (FIGURE_6, (), 5, 9), (FIGURE_6, defrag(2), 5, 8), (FIGURE_6, defrag(4), 5, 7),
    (FIGURE_6, defrag(5), 5, 9), (FIGURE_6, defrag(2, 2), 5, 10), (FIGURE_6, defrag(4, 2), 5, 10),
    (FIGURE_6, defrag(5, 2), 5, 9), (FIGURE_6_SWAPPED, defrag(4), 5, 8),
    (FIGURE_6, ("--cache", "0B"), 5, 9), (FIGURE_6, ("--cache", "1s"), 5, 9),
    (FIGURE_6, ("--cache", LIMIT), 5, 5), (FIGURE_6, ("--cache", LIMIT, "--exact"), 5, 5),
    (FIGURE_6, around(0, 32), 5, 9), (FIGURE_6, around(1, 32, "--per-read"), 5, 7),
    (FIGURE_6, around(1, 32), 5, 4), (FIGURE_6, around(1, 1), 5, 9),
    # Everything is within eight sectors of the first fragment.
    (FIGURE_6, around(8, 1), 5, 2),
    # Figure 9. The read has five fragments.
    (FIGURE_9, (), 5, 10), (FIGURE_9, defrag(2), 5, 7), (FIGURE_9, defrag(4), 5, 7),
    (FIGURE_9, defrag(5), 5, 7), (FIGURE_9, defrag(6), 5, 10), (FIGURE_9, defrag(2, 2), 5, 11),
    (FIGURE_9, defrag(4, 2), 5, 11), (FIGURE_9, defrag(5, 2), 5, 11),
    (FIGURE_9, ("--cache", "0B"), 5, 10), (FIGURE_9, ("--cache", "1s"), 5, 10),
    (FIGURE_9, ("--cache", LIMIT), 5, 5), (FIGURE_9, around(0, 1), 5, 10),
    (FIGURE_9, around(1, 32, "--per-read"), 5, 6), (FIGURE_9, around(1, 1), 5, 6),
    (FIGURE_9, around(1, 32), 5, 3), (FIGURE_9, around(8, 32), 5, 1),
    # A range written from its end. NoLS has a seek for each write and one for the reads.
    (BACKWARDS_ONCE, (), 9, 8), (BACKWARDS_ONCE, around(3, 32), 9, 2),
    (BACKWARDS_ONCE, around(8, 32), 9, 1),
    # Reads of one sector are not fragmented, so no remedy concerns them.
    (BACKWARDS, (), 9, 8), (BACKWARDS, around(8, 32), 9, 8), (BACKWARDS, ("--cache", LIMIT), 9, 8),
]


@pytest.mark.parametrize("requests, options, nols, ls", VECTORS)
def test_vectors(tool, requests, options, nols, ls):
    of = replay(tool, requests, "--frontier", 0, *options)
    assert (seeks(of, "nols"), seeks(of)) == (nols, ls)


def test_figure_6_step_by_step(tool):
    """Seeks and static fragments after each step of Figure 6."""
    steps = [seeks(replay(tool, FIGURE_6[:i], "--frontier", 0)) for i in range(1, 7)]
    assert [b - a for a, b in zip(steps, steps[1:])] == [0, 0, 4, 4, 1]
    steps = [seeks(replay(tool, FIGURE_6[:i], "--frontier", 0, *defrag(4))) for i in range(1, 7)]
    assert [b - a for a, b in zip(steps, steps[1:])] == [0, 0, 4, 1, 2]
    assert replay(tool, FIGURE_6, "--frontier", 0)["static_fragments"] == 5
    assert replay(tool, FIGURE_6, "--frontier", 0, *defrag(4))["static_fragments"] == 3


@pytest.mark.parametrize("order, number", [((256, 128, 0), 2), ((0, 128, 256), 0)])
def test_misordered_writes(tool, order, number):
    assert replay(tool, [w(at, 128) for at in order])["misordered_writes"] == number


# --- a model ---------------------------------------------------------------------------


class Model:
    """A log with an entry for each sector. It counts seeks as the paper does."""

    def __init__(self, base, frags=0, hits=1, most=1 << 30, behind=0, ahead=0, regions=1, cache=0,
                 exact=False):
        self.map, self.base, self.frontier = {}, base, base
        self.frags, self.hits, self.most = frags, hits, most
        self.behind, self.ahead, self.regions = behind, ahead, regions
        self.cache, self.exact = cache, exact
        self.kept, self.lru, self.counts = [], OrderedDict(), {}
        self.heads = {"nols": None, "ls": None, "plain": None}
        self.seeks = {(s, k): 0 for s in self.heads for k in ("read", "write", "rewrite")}
        self.rewrites = 0

    def go(self, stream, kind, start, n):
        if self.heads[stream] not in (None, start):
            self.seeks[stream, kind] += 1
        self.heads[stream] = start + n

    def fragments(self, first, n):
        out = []
        for lba in range(first, first + n):
            place = self.map.get(lba, lba)
            if out and sum(out[-1]) == place:
                out[-1] = (out[-1][0], out[-1][1] + 1)
            else:
                out.append((place, 1))
        return out

    def append(self, kind, first, n):
        for stream in ("ls", "plain"):
            self.go(stream, kind, self.frontier, n)
        self.map.update((first + i, self.frontier + i) for i in range(n))
        self.frontier += n

    def keys(self, place, n):
        return [(place, n)] if self.exact else [(place + i, 1) for i in range(n)]

    def in_cache(self, place, n):
        return all(key in self.lru for key in self.keys(place, n))

    def use_cache(self, place, n):
        for key in self.keys(place, n):
            self.lru.pop(key, None)
            if key[1] <= self.cache:
                self.lru[key] = None
            while sum(size for _, size in self.lru) > self.cache:
                self.lru.popitem(last=False)

    def read_fragment(self, place, n):
        start, end = place, place + n
        if self.cache and self.in_cache(place, n):
            self.use_cache(place, n)
            return
        if self.behind or self.ahead:
            if not any(a <= place and place + n <= b for a, b in self.kept):
                start = max(0, place - self.behind)
                if self.heads["ls"] is not None and start < self.heads["ls"] <= place:
                    start = self.heads["ls"]
                end = max(end, min(self.frontier, end + self.ahead))
                self.go("ls", "read", start, end - start)
                self.kept = [*self.kept, (start, end)][-self.regions:]
        else:
            self.go("ls", "read", place, n)
        if self.cache:
            self.use_cache(place, n)

    def read(self, first, n):
        self.go("nols", "read", first, n)
        frags = self.fragments(first, n)
        for place, size in frags:
            self.go("plain", "read", place, size)
            if len(frags) == 1:
                self.go("ls", "read", place, size)
            else:
                self.read_fragment(place, size)
        if self.frags and len(frags) >= max(2, self.frags) and n <= self.most:
            part = first >> 11
            self.counts[part] = self.counts.get(part, 0) + 1
            if self.counts[part] >= self.hits:
                self.counts[part] = 0
                self.rewrites += 1
                self.append("rewrite", first, n)
        return len(frags)

    def do(self, requests):
        for kind, first, n in requests:
            if kind == READ:
                self.read(first, n)
            elif kind == WRITE:
                self.go("nols", "write", first, n)
                self.append("write", first, n)
            else:
                for lba in range(first, first + n):
                    self.map.pop(lba, None)
        return self


def load(seed, span=300, number=250, discards=True):
    """Small random requests, and scans."""
    rng, out, at = random.Random(seed), [], 0
    for _ in range(number):
        n = rng.randint(1, rng.choice((4, 40)))
        first = rng.choice((rng.randint(0, span - n), min(at, span - n)))
        kind = rng.choice((READ, READ, WRITE, WRITE, WRITE if not discards else
                           rng.choice((WRITE, DISCARD))))
        out.append((kind, first, n))
        at = first + n
    return out


SETTINGS = [
    {}, {"frags": 2}, {"frags": 3, "hits": 2}, {"frags": 4, "most": 20}, {"behind": 5, "ahead": 9},
    {"behind": 20, "regions": 3}, {"ahead": 12, "regions": 32}, {"cache": 40},
    {"cache": 7}, {"cache": 60, "exact": True}, {"cache": 30, "behind": 8, "ahead": 8, "regions": 4},
    {"frags": 2, "cache": 50, "behind": 4, "ahead": 4, "regions": 2},
]


def options_of(setting):
    words = []
    for name, value in setting.items():
        option = {"frags": "--defrag-frags", "hits": "--defrag-hits", "most": "--defrag-max"}.get(
            name, f"--{name}")
        if value is True:
            words.append(option)
        else:
            words += [option, value if name in ("frags", "hits", "regions") else f"{value}s"]
    return words


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: "-".join(s) or "none")
def test_against_the_model(tool, setting):
    used = 0
    for seed in range(6):
        requests = load(seed)
        model = Model(max(first + n for _, first, n in requests), **setting).do(requests)
        of = replay(tool, requests, *options_of(setting))
        found = {(stream, kind): of["streams"][stream][kind]["seeks"]
                 for stream in model.heads for kind in ("read", "write", "rewrite")}
        assert found == model.seeks, seed
        assert of["defrag"]["rewrites"] == model.rewrites
        assert of["log_units"] == model.frontier - model.base
        end = max(first + n for _, first, n in requests)
        assert of["static_fragments"] == len(model.fragments(0, end))
        used += of["fragmented_reads"]
    assert used > 100


# --- relations -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_relations(tool, seed):
    requests = load(seed, discards=False)
    plain = replay(tool, requests)
    switches = sum(a[0] != b[0] for a, b in zip(requests, requests[1:]) if b[0] == WRITE)
    # R1: without remedies a write seeks only after a read.
    assert plain["streams"]["ls"]["write"]["seeks"] <= switches
    writes = [one for one in requests if one[0] == WRITE]
    assert not seeks(replay(tool, writes))
    # R2: a read of f fragments costs f or f - 1 seeks.
    assert plain["read_fragments"] - plain["reads"] <= plain["streams"]["ls"]["read"]["seeks"] <= \
        plain["read_fragments"]
    # R3: caches change no place, and selective caching never costs a seek.
    last = plain["streams"]["ls"]["read"]["seeks"]
    hits = -1
    for size in (0, 1, 5, 20, 60, 200, 1000):
        cached = replay(tool, requests, "--cache", f"{size}s")
        assert cached["static_fragments"] == plain["static_fragments"]
        assert cached["streams"]["plain"] == plain["streams"]["ls"]
        # R7: a larger cache has no fewer hits.
        assert cached["cache"]["hits"] >= hits
        hits = cached["cache"]["hits"]
        assert seeks(cached) <= seeks(plain)
        last = min(last, cached["streams"]["ls"]["read"]["seeks"])
    assert hits > 0 and last < plain["streams"]["ls"]["read"]["seeks"]
    ahead = replay(tool, requests, *around(16, 8))
    assert ahead["static_fragments"] == plain["static_fragments"]
    assert 16 < ahead["around"]["largest_region_units"] <= 40 + 32
    assert ahead["streams"]["plain"] == plain["streams"]["ls"]
    # R4: each rewrite has at most one seek, and takes as much of the log as was read.
    rewritten = replay(tool, requests, *defrag(2))
    assert 0 < rewritten["streams"]["ls"]["rewrite"]["seeks"] <= rewritten["defrag"]["rewrites"]
    assert rewritten["log_units"] == plain["log_units"] + rewritten["defrag"]["units"]
    # R7: a remedy without effect is LS.
    for options in (defrag(1 << 30), around(0, 32), ("--cache", "0B")):
        assert replay(tool, requests, *options)["streams"] == plain["streams"]


@pytest.mark.parametrize("seed", range(3))
def test_a_sequential_pass_reads_the_static_fragments(tool, seed):
    """R5: one huge read has as many fragments as the whole range."""
    requests = load(seed)
    end = max(first + n for _, first, n in requests)
    whole = replay(tool, [*requests, r(0, end)])
    before = replay(tool, requests)
    assert whole["read_fragments"] - before["read_fragments"] == before["static_fragments"]
    # R4: the rewritten range is one fragment.
    assert replay(tool, [*requests, r(0, end)], *defrag(2, 1))["static_fragments"] <= 1 or \
        before["static_fragments"] == 1


def test_passes_after_random_writes(tool):
    """R6: seeks of a log grow with each pass, those with defragmentation or a cache do not. Random
    writes leave f fragments; N passes cost LS fN seeks, OD f + N, SC f and NoLS f - 1 + N."""
    order = list(range(64))
    random.Random(1).shuffle(order)
    writes = [w(at) for at in order]
    frags = replay(tool, writes, "--frontier", 64)["static_fragments"]
    for passes in (1, 4):
        requests = [*writes, *[r(0, 64)] * passes]
        model = Model(64).do(writes)
        jumps = model.seeks["nols", "write"]
        first = model.fragments(0, 1)[0][0] != model.frontier
        base = replay(tool, requests)
        assert seeks(base, "nols") == jumps + passes - (order[-1] == 63)
        assert seeks(base) == frags * passes - (not first)
        ends = model.fragments(0, 64)[-1]
        assert seeks(replay(tool, requests, *defrag(2))) == \
            frags + passes - (sum(ends) == model.frontier)
        assert seeks(replay(tool, requests, "--cache", LIMIT)) == frags


def test_far_addresses(tool):
    """Addresses beyond 32 bits: the same seeks as for addresses below, with a gap that nobody
    touches."""
    part, far = 2048, 1 << 36
    requests = load(1, span=2 * part, number=600)
    # The second MiB of the range is far away; requests across the border stay within their MiB.
    near = [(k, f, min(n, part - f) if f < part else n) for k, f, n in requests]
    moved = [(k, f + far * (f >= part), n) for k, f, n in near]
    base = ("--frontier", 3 * far)
    a, b = replay(tool, near, *base), replay(tool, moved, *base)
    assert [a["streams"][s]["seeks"] for s in ("nols", "ls")] == \
        [b["streams"][s]["seeks"] for s in ("nols", "ls")]
    assert a["read_fragments"] == b["read_fragments"] and a["extents"] == b["extents"]
    assert b["static_fragments"] - a["static_fragments"] in (0, 1)
    # Two writes that follow each other in the log, and not on the volume.
    apart = [w(part - 8, 8), w(far, 8)]
    assert replay(tool, apart, *base)["static_fragments"] == 4


def test_a_place_behind_another_continues_its_fragment(tool):
    """An address that was never written, and the first place of the log behind it."""
    of = replay(tool, [w(10), r(9, 2)], "--frontier", 10)
    assert of["read_fragments"] == 1 and not of["fragmented_reads"]


def test_blocks(tool):
    """With --unit 4K, aligned requests give the same counts as in sectors."""
    requests = [(k, 8 * f, 8 * n) for k, f, n in load(2)]
    sectors, blocks = replay(tool, requests), replay(tool, requests, "--unit", "4K")
    for stream in ("nols", "ls", "plain"):
        for kind in ("read", "write"):
            assert {**sectors["streams"][stream][kind], "units": 0} == \
                {**blocks["streams"][stream][kind], "units": 0}
    assert sectors["misordered_writes"] == blocks["misordered_writes"]
    # One sector is extended to its block.
    assert replay(tool, [w(9, 8), w(100)], "--unit", "4K")["log_units"] == 3


def test_series_and_popular_fragments(tool):
    requests = [w(0, 4096), *(w(f) for f in (100, 2000)), *[r(90, 20)] * 3, r(1990, 20), r(0, 4)]
    of = replay(tool, requests, "--interval", 3, "--popular")
    series = of["series"]
    assert series["ops"] == 3 and len(series["ls_long_seeks"]) == 3
    assert sum(series["ls_long_seeks"]) == of["streams"]["ls"]["long_seeks"]
    assert sum(series["nols_long_seeks"]) == of["streams"]["nols"]["long_seeks"] > 0
    # Three fragments of two reads, those of the first one read three times.
    assert [p[:3] for p in of["popular"]] == [[1, 3, 3], [2, 3, 6], [3, 3, 9], [4, 1, 10],
                                              [5, 1, 11], [6, 1, 12]]
    assert of["popular"][-1][3] == 40
    assert of["frags_of"] == [[1, 1], [3, 4]]


# --- its words -------------------------------------------------------------------------


@pytest.mark.parametrize("options, sentence", [
    (("--unit", "1K"), "--unit is 512B or 4K"), (("--exact",), "--exact requires --cache"),
    (("--defrag-frags", "1"), "--defrag-frags 1 is out of bounds"),
    (("--regions", "33"), "--regions 33 is out of bounds"),
    (("--cache", "64"), "--cache 64 has no unit"), (("--nonsense",), "an option is not known"),
    (("--cache", "1K", "--unit", "4K"), "--cache is not a multiple of --unit"),
    (("one", "two"), "more than one FILE"),
])
def test_bad_words(tool, options, sentence):
    assert sentence in replay(tool, [w(0)], *options, rc=16)


@pytest.mark.parametrize("data, sentence", [
    (b"", "does not begin with SHGLREQ1"), (b"SHGLREQ1abc", "ends within a request"),
    (b"SHGLREQ1" + struct.pack("<QII", 0, 0, 1), "request 1 is invalid"),
    (b"SHGLREQ1" + struct.pack("<QII", 0, 1, 3), "request 1 is invalid"),
    (b"SHGLREQ1" + struct.pack("<QII", (1 << 64) - 1, 8, 0), "request 1 is invalid"),
    (b"SHGLREQ1" + struct.pack("<QII", (1 << 54) - 7, 8, 0), "request 1 is invalid"),
])
def test_bad_files(tool, tmp_path, data, sentence):
    (tmp_path / "requests").write_bytes(data)
    done = subprocess.run([tool, tmp_path / "requests"], capture_output=True, text=True, check=False)
    assert done.returncode == 8 and sentence in done.stderr and done.stderr.count("\n") == 1


def test_a_full_map(tool):
    said = replay(tool, [w(2 * i) for i in range(20)], "--extents", 10, rc=8)
    # A write may add two extents.
    assert "request 10: out of memory, or more than 10 extents" in said


def test_its_text(tool):
    """Without --json it prints the same figures."""
    done = subprocess.run([tool, "--frontier", "0", "--cache", LIMIT], input=encode(FIGURE_6),
                          capture_output=True, check=True)
    text = done.stdout.decode()
    assert re.search(r"^total +5 +5 +1\.000$", text, re.M)
    assert "cache: 4 of 8 fragments found" in text
