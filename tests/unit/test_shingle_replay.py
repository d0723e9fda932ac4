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
from pathlib import Path

import pytest
from loads import hajkazemi, sectors
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
                 exact=False, segment=0, guard=0, reread=False, range_shift=11):
        self.range_shift = range_shift
        self.segment, self.guard, self.reread = segment, guard, reread
        if segment:
            base = -(-base // segment) * segment
        self.map, self.base, self.frontier = {}, base, base
        self.frags, self.hits, self.most = frags, hits, most
        self.behind, self.ahead, self.regions = behind, ahead, regions
        self.cache, self.exact = cache, exact
        self.kept, self.lru, self.counts = [], OrderedDict(), {}
        self.heads = {"nols": None, "ls": None, "plain": None}
        self.seeks = {(s, k): 0 for s in self.heads
                      for k in ("read", "write", "rewrite", "clean_read")}
        self.rewrites = self.dropped = 0
        self.ends = {}      # of segments of the log, by number

    def at(self, lba):
        """Place of an address of the log or below it: a guard follows each segment."""
        return lba + lba // self.segment * self.guard if self.segment else lba

    def room(self):
        return self.segment - self.frontier % self.segment if self.segment else 1 << 60

    def bounds(self, place):
        """The places that may be read together with this one."""
        if not self.segment:
            return 0, self.frontier
        number = place // (self.segment + self.guard)
        first = number * (self.segment + self.guard)
        home = number * self.segment < self.base
        return first, first + self.segment if home else self.ends[number]

    def go(self, stream, kind, start, n):
        if self.heads[stream] not in (None, start):
            self.seeks[stream, kind] += 1
        self.heads[stream] = start + n

    def fragments(self, first, n):
        out = []
        for lba in range(first, first + n):
            place = self.at(self.map.get(lba, lba))
            if out and sum(out[-1]) == place:
                out[-1] = (out[-1][0], out[-1][1] + 1)
            else:
                out.append((place, 1))
        return out

    def move(self, kind, place, n):
        for stream in ("ls", "plain"):
            self.go(stream, kind, place, n)

    def append(self, kind, first, n):
        while n:
            part = min(n, self.room())
            self.move(kind, self.at(self.frontier), part)
            self.map.update((first + i, self.frontier + i) for i in range(part))
            if self.segment:
                self.ends[self.frontier // self.segment] = self.at(self.frontier) + part
            self.frontier += part
            first, n = first + part, n - part

    def rewrite(self, first, n, frags):
        if self.reread:
            log = self.at(self.base)
            # What was never written is split by guards only.
            extents = sum(place >= log or not i or frags[i - 1][0] >= log
                          for i, (place, _) in enumerate(frags))
            old = sorted(frag for frag in frags if frag[0] >= log)
            if not old or extents > 64 or self.segment and n > self.segment:
                self.dropped += 1
                return
            for place, size in old:
                self.move("clean_read", place, size)
            if self.room() < n:
                self.frontier += self.room()
        self.rewrites += 1
        self.append("rewrite", first, n)

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
                lo, hi = self.bounds(place)
                start = max(lo, place - self.behind)
                if self.heads["ls"] is not None and start < self.heads["ls"] <= place:
                    start = self.heads["ls"]
                end = max(end, min(hi, end + self.ahead))
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
            part = first >> self.range_shift
            self.counts[part] = self.counts.get(part, 0) + 1
            if self.counts[part] >= self.hits:
                self.counts[part] = 0
                self.rewrite(first, n, frags)
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


def options_of(setting, sectors_of_unit=1):
    words = []
    for name, value in setting.items():
        option = {"frags": "--defrag-frags", "hits": "--defrag-hits", "most": "--defrag-max"}.get(
            name, f"--{name}")
        if value is True:
            words.append(option)
        else:
            words += [option, value if name in ("frags", "hits", "regions") else
                      f"{sectors_of_unit * value}s"]
    return words


SEGMENTED = [
    {}, {"frags": 2}, {"frags": 2, "reread": True}, {"frags": 3, "hits": 2, "reread": True},
    {"behind": 9, "ahead": 20, "regions": 3}, {"ahead": 200, "behind": 200, "regions": 8},
    {"frags": 2, "reread": True, "cache": 300, "behind": 9, "ahead": 9, "regions": 4},
]


@pytest.mark.parametrize("guard", [0, 24])
@pytest.mark.parametrize("setting", SEGMENTED, ids=lambda s: "-".join(s) or "none")
def test_segments_against_the_model(tool, setting, guard):
    """In blocks of 4 KiB, so that a segment has few of them."""
    setting = {**setting, "segment": 256, "guard": guard}
    used = wasted = dropped = 0
    for seed in range(3):
        # The last reads have more fragments than a step takes.
        requests = [r(250, 20), *load(seed), *(w(i) for i in range(0, 200, 2)), r(0, 200), r(0, 60), r(0, 200)]
        model = Model(300, range_shift=8, **setting).do(requests)
        of = replay(tool, [(kind, 8 * first, 8 * n) for kind, first, n in requests],
                    "--unit", "4K", "--frontier", 512, *options_of(setting, 8))
        found = {(stream, kind): of["streams"][stream].get(kind, {"seeks": 0})["seeks"]
                 for stream, kind in model.seeks}
        assert found == model.seeks, seed
        assert (of["defrag"]["rewrites"], of["defrag"]["dropped"]) == \
            (model.rewrites, model.dropped)
        assert of["log_units"] == model.frontier - model.base
        end = max(first + n for _, first, n in requests)
        assert of["static_fragments"] == len(model.fragments(0, end))
        used += of["fragmented_reads"]
        wasted += of["log_units"] - sum(of["streams"]["ls"][kind]["units"]
                                        for kind in ("write", "rewrite"))
        dropped += model.dropped
    assert used > 100
    assert bool(wasted) == bool(dropped) == ("reread" in setting)


def test_rewrite_of_what_was_never_written(tool):
    """A step of stl-log leaves it; the paper's rewrite does not."""
    requests = [r(8 * 250, 8 * 20)]
    words = ("--unit", "4K", "--segment", "1M", "--guard", "8K", *defrag(2))
    assert replay(tool, requests, *words)["defrag"]["rewrites"] == 1
    of = replay(tool, requests, *words, "--reread")
    assert (of["defrag"]["rewrites"], of["defrag"]["dropped"]) == (0, 1)


def test_static_fragments_of_segments(tool):
    """Addresses that nobody touches are fragments, too, which end where a segment does."""
    requests = [w(8 * 10), w(8 * 5000), r(8 * 5000)]
    for guard, number in ((0, 4), (8, 4 + 5000 // 256)):
        of = replay(tool, requests, "--unit", "4K", "--segment", "1M", "--guard", f"{4 * guard}K")
        assert of["static_fragments"] == number


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: "-".join(s) or "none")
def test_against_the_model(tool, setting):
    used = 0
    for seed in range(6):
        requests = load(seed)
        model = Model(max(first + n for _, first, n in requests), **setting).do(requests)
        of = replay(tool, requests, *options_of(setting))
        found = {(stream, kind): of["streams"][stream][kind]["seeks"]
                 for stream in model.heads for kind in ("read", "write", "rewrite")}
        assert found == {key: value for key, value in model.seeks.items() if key in found}, seed
        assert of["defrag"]["rewrites"] == model.rewrites
        assert of["log_units"] == model.frontier - model.base
        end = max(first + n for _, first, n in requests)
        assert of["static_fragments"] == len(model.fragments(0, end))
        used += of["fragmented_reads"]
    assert used > 100


# --- relations -------------------------------------------------------------------------


def check_relations(tool, requests, sizes, cached_by, behind):
    """R1 to R4 and R7 for requests without discards.  Returns the results of LS, and of LS with each
    remedy.  @sizes are those of caches, ascending; @cached_by is a word of --cache with a size."""
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
    hits = -1
    for size in sizes:
        cached = replay(tool, requests, "--cache", cached_by.format(size))
        assert cached["static_fragments"] == plain["static_fragments"]
        assert cached["streams"]["plain"] == plain["streams"]["ls"]
        # R7: a larger cache has no fewer hits.
        assert cached["cache"]["hits"] >= hits
        hits = cached["cache"]["hits"]
        assert seeks(cached) <= seeks(plain)
    ahead = replay(tool, requests, *around(behind, 8))
    assert ahead["static_fragments"] == plain["static_fragments"]
    assert ahead["streams"]["plain"] == plain["streams"]["ls"]
    # R4: each rewrite has at most one seek, and takes as much of the log as was read.
    rewritten = replay(tool, requests, *defrag(2))
    assert rewritten["streams"]["ls"]["rewrite"]["seeks"] <= rewritten["defrag"]["rewrites"]
    assert rewritten["log_units"] == plain["log_units"] + rewritten["defrag"]["units"]
    # R7: a remedy without effect is LS.
    for options in (defrag(1 << 30), around(0, 32), ("--cache", "0B")):
        assert replay(tool, requests, *options)["streams"] == plain["streams"]
    return {"LS": plain, "OD": rewritten, "LAB": ahead, "SC": cached}


@pytest.mark.parametrize("seed", range(4))
def test_relations(tool, seed):
    of = check_relations(tool, load(seed, discards=False), (0, 1, 5, 20, 60, 200, 1000), "{}s", 16)
    assert of["SC"]["cache"]["hits"] > 0
    assert of["SC"]["streams"]["ls"]["read"]["seeks"] < of["LS"]["streams"]["ls"]["read"]["seeks"]
    assert 16 < of["LAB"]["around"]["largest_region_units"] <= 40 + 32
    assert of["OD"]["streams"]["ls"]["rewrite"]["seeks"] > 0


def traces():
    """Synthetic loads, and the traces in the directory that SHINGLE_TRACES names."""
    folder = os.environ.get("SHINGLE_TRACES")
    files = sorted(map(str, Path(folder).iterdir())) if folder else []
    return ["descending", "synthetic:w91", "synthetic:src2_2", *files]


@pytest.mark.parametrize("trace", traces())
def test_relations_of_traces(tool, trace, tmp_path):
    """R1 to R5 and R7 for whole traces."""
    if trace in hajkazemi.PATTERNS or trace.startswith("synthetic:"):
        made = hajkazemi.pattern(trace, 1, 100) if trace in hajkazemi.PATTERNS else \
            hajkazemi.synthetic(trace.removeprefix("synthetic:"), 1, 100, 2000)
        path = tmp_path / "requests"
        sectors.save(sectors.of_load(made), path)
    else:
        path, _ = sectors.cached(trace, tmp_path, None, None)
    data = path.read_bytes()[len(sectors.MAGIC):]
    requests = [(kind, first, n) for first, n, kind in struct.iter_unpack("<QII", data)
                if kind != DISCARD]
    of = check_relations(tool, requests, (0, 1, 16, 64, 256), "{}M", 512)
    # R5: one huge read has as many fragments as the whole range.
    whole = replay(tool, [*requests, r(0, max(first + n for _, first, n in requests))])["read_fragments"] \
        if max(first + n for _, first, n in requests) < 1 << 32 else None
    assert whole in (None, of["LS"]["read_fragments"] + of["LS"]["static_fragments"])
    print(trace, len(requests), {name: seeks(one) for name, one in of.items()},
          "untranslated", seeks(of["LS"], "nols"))


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


def test_the_highest_address(tool):
    """The memory is for the addresses that a trace touches: a volume may have 2^63 bytes."""
    top = (1 << 54) - 8
    out = replay(tool, [w(top, 8), w(0, 8), r(top, 8), r(0, 8)])
    assert seeks(out, "nols") == 3 and seeks(out) == 1


def test_no_requests(tool):
    assert replay(tool, [], "--popular")["popular"] == []


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


# --- a finite disk ---------------------------------------------------------------------

BLOCK, BAND = 8, 256        # sectors in a block; blocks in a segment of 1 MiB


def blocks(requests):
    return [(kind, BLOCK * first, BLOCK * n) for kind, first, n in requests]


def finite(tool, requests, full, *options, clean="greedy"):
    """Replay requests in blocks on a disk with segments of 1 MiB, and check what can be added up."""
    requests = blocks(requests)
    of = replay(tool, requests, "--unit", "4K", "--full", full, "--segment", "1M", "--clean", clean,
                "--check", *options)
    ls, disk = of["streams"]["ls"], of["disk"]
    assert disk["wrong"] == 0
    # Every block of the host was written once, and what cleaning has read was written.
    assert ls["write"]["units"] == sum(n for kind, _, n in requests if kind == WRITE) // BLOCK
    assert ls["clean_read"]["units"] == ls["clean_write"]["units"] == disk["moved_units"]
    assert ls["rewrite"]["units"] == of["defrag"]["units"]
    assert ls["seeks"] == sum(ls[kind]["seeks"] for kind in
                              ("read", "write", "rewrite", "clean_read", "clean_write"))
    written = sum(ls[kind]["units"] for kind in ("write", "rewrite", "clean_write"))
    assert disk["write_amplification"] == pytest.approx(written / max(1, ls["write"]["units"]),
                                                        abs=1e-3)
    # The share of what the disk presents, to a segment.
    present = (disk["segments"] - disk["reserve"]) * BAND
    assert disk["reserve"] == max(3, -(-disk["segments"] * 7 // 100))
    assert disk["used_units"] * 100 <= full * present
    assert (disk["used_units"]) * 100 > full * (present - 2 * BAND)
    infinite = replay(tool, requests, "--unit", "4K")
    assert of["streams"]["nols"] == infinite["streams"]["nols"]
    return of


def every_other(segment, more=0):
    """Write the even blocks of a segment, and @more odd ones."""
    return [*(w(BAND * segment + at) for at in range(0, BAND, 2)),
            *(w(BAND * segment + 2 * i + 1) for i in range(more))]


@pytest.mark.parametrize("clean, shift, moved, reads", [
    # Segments 0 to 3 are full, 4 and 5 take 512 blocks, 6 is the cleaner's.  Block 513 needs two
    # free ones.  All of 0 to 3 are half full: 0 and 1 are copied, 64 single blocks in a step.
    ("greedy", 0, 256, 256), ("cost-benefit", 0, 256, 256),
    # Segment 3 has one block less in use, and 2 one more: greedy takes 3 and 0, cost-benefit still
    # the oldest ones.
    ("greedy", 1, 255, 255), ("cost-benefit", 1, 256, 256),
])
def test_a_cleaned_segment(tool, clean, shift, moved, reads):
    requests = [*every_other(0), *every_other(1), *every_other(2)[shift:], *every_other(3, shift), w(1)]
    of = finite(tool, requests, 100, clean=clean)
    ls, disk = of["streams"]["ls"], of["disk"]
    assert (disk["segments"], disk["reserve"], disk["bands_cleaned"], disk["steps"]) == (7, 3, 2, 4)
    assert disk["moved_units"] == moved
    # No two blocks of a segment in use follow each other, so each is a seek; each step writes once.
    assert (ls["clean_read"]["ops"], ls["clean_read"]["seeks"]) == (reads, reads)
    assert (ls["clean_write"]["ops"], ls["clean_write"]["seeks"]) == (4, 4)
    # The host jumps to segment 5, and after the cleaning to a free one.
    assert (ls["write"]["ops"], ls["write"]["seeks"]) == (513, 2)
    assert disk["write_amplification"] == pytest.approx((513 + moved) / 513, abs=1e-3)


@pytest.mark.parametrize("clean", ["greedy", "cost-benefit"])
@pytest.mark.parametrize("full", [50, 70, 90, 100])
def test_sequential_writes_need_no_copies(tool, full, clean):
    """Each segment is empty when it is needed.  The only seeks are those over the guards."""
    requests = [w(at, 64) for _ in range(4) for at in range(0, 8 * BAND, 64)]
    of = finite(tool, requests, full, clean=clean)
    assert of["disk"]["write_amplification"] == 1 and not of["disk"]["moved_units"]
    assert seeks(of) == of["streams"]["ls"]["write"]["seeks"] == 4 * 8 - 1


def busy(seed, number=700, discards=False):
    """Small writes of a few MiB, and larger reads."""
    rng, out = random.Random(seed), []
    for _ in range(number):
        kind = rng.choice((READ, WRITE, WRITE, DISCARD if discards else WRITE))
        n = rng.randint(1, 40 if kind == READ else 12)
        # Most writes go to a quarter of the disk.
        end = 6 * BAND if kind == READ or rng.random() < 0.2 else 2 * BAND
        out.append((kind, rng.randrange(end - n), n))
    return [w(0, 6 * BAND), *out]


REMEDIES = {"LS": (), "OD": defrag(2), "OD k=2": defrag(2, 2),
            "LAB": ("--behind", "64K", "--ahead", "64K", "--regions", 8), "SC": ("--cache", "512K")}
REMEDIES["all"] = (*REMEDIES["OD"], *REMEDIES["LAB"], *REMEDIES["SC"])


@pytest.mark.parametrize("clean", ["greedy", "cost-benefit"])
@pytest.mark.parametrize("full", [50, 90])
def test_no_block_is_lost_by_cleaning(tool, full, clean):
    cleaned = rewrites = 0
    for seed in range(3):
        requests = busy(seed, discards=seed == 2)
        of = {name: finite(tool, requests, full, *options, clean=clean)
              for name, options in REMEDIES.items()}
        plain = of["LS"]["streams"]["ls"]
        for name in ("LAB", "SC"):
            # Caches change no place: cleaning is the same.
            assert of[name]["disk"] == of["LS"]["disk"]
            assert of[name]["streams"]["plain"] == plain
        assert seeks(of["SC"]) <= seeks(of["LS"])
        assert of["SC"]["cache"]["hits"] and of["LAB"]["around"]["hits"]
        cleaned += of["LS"]["disk"]["bands_cleaned"]
        rewrites += of["OD"]["defrag"]["rewrites"]
    assert rewrites > 100 and (cleaned > 5 or full < 90)


def test_a_fuller_disk_copies_more(tool):
    requests = [one for one in busy(5, 3000) if one[0] == WRITE]
    copies = [finite(tool, requests, full)["disk"]["moved_units"] for full in (50, 70, 90, 100)]
    assert copies == sorted(copies) and copies[0] < copies[-1]


def test_a_rewrite_on_a_finite_disk(tool):
    """A second read of what was rewritten has one fragment, and a place that is overwritten leaves
    the caches."""
    requests = [w(0, BAND), w(10), w(12), r(0, 64), r(0, 64)]
    of = finite(tool, requests, 50, *defrag(2))
    assert (of["fragmented_reads"], of["defrag"]["rewrites"], of["defrag"]["units"]) == (1, 1, 64)
    assert of["disk"]["write_amplification"] == pytest.approx((BAND + 2 + 64) / (BAND + 2), abs=1e-3)
    # A rewrite that is larger than a segment is left out.
    large = [w(0, 2 * BAND), w(10), r(0, BAND + 1), r(0, BAND + 1)]
    of = finite(tool, large, 50, *defrag(2))
    assert of["disk"]["dropped_rewrites"] == 2 and not of["defrag"]["rewrites"]


def test_an_aged_disk(tool):
    """Only the trace itself is counted, and it begins on a disk that is cleaned all the time."""
    requests = busy(3)
    new, aged, again = (finite(tool, requests, 90, "--age", n) for n in (0, 3, 3))
    assert {**aged, "cpu_s": 0} == {**again, "cpu_s": 0}
    assert aged["static_fragments"] > new["static_fragments"]
    assert aged["disk"]["bands_cleaned"] > new["disk"]["bands_cleaned"] > 0
    for key in ("reads", "writes", "log_reads", "misordered_writes"):
        assert aged[key] == new[key]
    # All writes are the same, so their order means nothing: three times the disk, 28 times this one.
    requests = [w(0, BAND)] * 28
    new, aged = (finite(tool, requests, 90, "--age", n) for n in (0, 9))
    assert seeks(new) == seeks(aged) and aged["disk"]["bands_opened"] == new["disk"]["bands_opened"]
    assert not aged["disk"]["moved_units"]


def test_an_aged_disk_was_written_in_random_order(tool):
    """In the order of the trace, each segment would be empty when its turn comes."""
    requests = [w(at, 16) for at in range(0, 8 * BAND, 16)]
    new, aged = (finite(tool, requests * 3, 90, "--age", n)["disk"]["moved_units"] for n in (0, 3))
    assert not new and aged


def test_a_finite_disk_has_no_gaps(tool):
    """The addresses between two MiB that the trace touches are not on the disk: the two lie side by
    side, in one segment."""
    requests = blocks([r(0), r(100 * BAND)])
    options = ("--unit", "4K", "--full", 50, "--segment", "2M")
    of = replay(tool, requests, *options)
    assert (of["static_fragments"], of["extents"], of["disk"]["used_units"]) == (1, 1, 2 * BAND)
    assert seeks(replay(tool, blocks([r(BAND - 1), r(100 * BAND)]), *options)) == 0
    assert seeks(of) == 1


def test_overwritten_places_leave_the_caches(tool):
    """Each MiB is written from offset 1 of a segment on, so its last block is in the next segment,
    and its last six blocks are two fragments.  All segments are used again and again."""
    requests = [w(10)]
    for i in range(40):
        requests += [w(i % 4 * BAND, BAND), r(i % 4 * BAND + BAND - 6, 6)]
    of = finite(tool, requests, 100, "--cache", LIMIT)
    assert (of["fragmented_reads"], of["cache"]["misses"], of["cache"]["hits"]) == (40, 80, 0)
    of = finite(tool, requests, 100, "--behind", "64K", "--ahead", "64K", "--regions", 32)
    # Up to the segment's end: 16 blocks and 5; and the block at the frontier alone.
    assert of["around"]["read_units"] == 40 * (16 + 5 + 1)
    assert (of["around"]["misses"], of["around"]["hits"]) == (80, 0)


def test_joined_extents(tool):
    """When the map is full, the cleaner copies extents in logical order.  Those that were written
    backwards lie side by side in reverse, and one operation reads them."""
    requests = [w(at) for at in reversed(range(BAND - 80, BAND))]
    of = finite(tool, requests, 50, "--extents", 10)
    ls, disk = of["streams"]["ls"], of["disk"]
    assert disk["joined_extents"] > 64 and ls["clean_write"]["ops"] == disk["steps"]
    assert ls["clean_read"]["ops"] < disk["joined_extents"] / 2


def test_reads_of_discarded_blocks_cost_nothing(tool):
    of = finite(tool, [w(0, 64), (DISCARD, 0, 64), r(0, 64), r(64, 1)], 50)
    assert of["reads"] == 2 and of["log_reads"] == 1
    assert of["streams"]["ls"]["read"]["ops"] == 1


# --- its words -------------------------------------------------------------------------


@pytest.mark.parametrize("options, sentence", [
    (("--unit", "1K"), "--unit is 512B or 4K"), (("--exact",), "--exact requires --cache"),
    (("--defrag-frags", "1"), "--defrag-frags 1 is out of bounds"),
    (("--regions", "33"), "--regions 33 is out of bounds"),
    (("--cache", "64"), "--cache 64 has no unit"), (("--nonsense",), "an option is not known"),
    (("--cache", "1K", "--unit", "4K"), "--cache is not a multiple of --unit"),
    (("one", "two"), "more than one FILE"),
    (("--full", "50"), "--full requires --unit 4K"), (("--check",), "--check require --full"),
    (("--age", "1"), "--check require --full"), (("--clean", "greedy"), "--check require --full"),
    (("--guard", "1M"), "--guard requires --segment"), (("--segment", "512K"), "is at least 1M"),
    (("--reread",), "--reread requires --defrag-frags"),
    (("--segment", "1M", "--frontier", "2049"), "not at the beginning of a segment"),
    (("--segment", "1025K", "--unit", "4K"), "--segment is not a multiple of --unit"),
    (("--full", "101", "--unit", "4K"), "--full 101 is out of bounds"),
    (("--full", "50", "--unit", "4K", "--segment", "512K"), "--segment is at least 1M"),
    (("--full", "50", "--unit", "4K", "--clean", "off"), "--clean is greedy or cost-benefit"),
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
    # The cleaner of a finite disk cannot join isolated blocks.
    said = replay(tool, blocks([*((DISCARD, 2 * i + 1, 1) for i in range(BAND // 2)), w(0)]), "--full",
                  90, "--unit", "4K", "--segment", "1M", "--extents", 10, rc=8)
    assert "no cleaning makes room on the disk, or in its extent map" in said


def test_its_text(tool):
    """Without --json it prints the same figures."""
    done = subprocess.run([tool, "--frontier", "0", "--cache", LIMIT], input=encode(FIGURE_6),
                          capture_output=True, check=True)
    text = done.stdout.decode()
    assert re.search(r"^total +5 +5 +1\.000$", text, re.M)
    assert "cache: 4 of 8 fragments found" in text
