# SPDX-License-Identifier: GPL-2.0
"""Tests of shingle-levels: its model of interlaced disks, against vectors computed by hand
and relations that hold for every load, and its store on a plain file. Tests with names in v and a
number check the vectors, those with e and a number the relations.
Events: R read a top, K write its copy, r write it back, W write, S sync."""

import json
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from programs import TOP, make, platter_sim

CLEAN, LOST, FAILED, USAGE = 0, 4, 8, 16
POLICIES = ("seq", "3phase", "zigzag", "compaction")
MIB = 1 << 20


@pytest.fixture(scope="session", name="tool")
def build_tool():
    """Build the program with sanitizers: the results are the same, and errors in memory are
    detected."""
    if os.environ.get("SHINGLE_LEVELS"):
        return os.environ["SHINGLE_LEVELS"]
    make("userspace/levels", "SANITIZE=address,undefined")
    return str(TOP / "build/userspace/shingle-levels-address-undefined")


def run(tool, *args, rc=CLEAN, text=None):
    done = subprocess.run([tool, *map(str, args)], text=True, input=text,
                          capture_output=True, check=False, timeout=1800)
    assert done.returncode == rc, \
        f"{args}: {done.returncode}, not {rc}\n{done.stdout}{done.stderr}"
    return done.stdout if rc == CLEAN else done.stdout + done.stderr


class File:
    """One line of the output of --trace."""

    def __init__(self, line):
        found = re.fullmatch(r"(\d+) tracks ([\d,]+) events (.*) "
                             r"rewrites (\d+) syncs (\d+)", line)
        assert found, line
        self.tracks = [int(t) for t in found[2].split(",")]
        self.events = found[3]
        self.rewrites, self.syncs = int(found[4]), int(found[5])

    def count(self, op):
        return sum(e[0] == op for e in self.events.split())


def model(tool, what, lines, tracks=8):
    """Run a trace through the model and return its files. @lines are in the format of --trace."""
    out = run(tool, "--model", what, "--tracks", tracks, "--trace", "-",
              text="\n".join(lines) + "\n")
    return [File(line) for line in out.splitlines()]


def writes(sizes, levels=None):
    return [f"write {i} {levels[i] if levels else 0} {n}"
            for i, n in enumerate(sizes)]


def flat(files):
    return [t for f in files for t in f.tracks]


# --- vectors -------------------------------------------------------------------

@pytest.mark.parametrize("policy,level,order", (
    ("seq", 0, [0, 1, 2, 3, 4, 5, 6, 7]),
    ("3phase", 0, [0, 2, 4, 6, 1, 5, 3, 7]),
    ("zigzag", 0, [0, 2, 4, 6, 5, 1, 3, 7]),
    ("compaction", 1, [0, 2, 4, 6, 1, 3, 5, 7]),
    ("compaction", 0, [1, 3, 5, 7, 0, 2, 4, 6]),
))
@pytest.mark.parametrize("fit", ("first", "next"))
def test_v1_order_on_an_empty_disk(tool, policy, level, order, fit):
    """The order in which each policy takes the tracks, by files of one track and by one large
    file."""
    files = model(tool, f"{policy},naive,{fit},largest=1",
                  writes([1] * 8, [level] * 8))
    assert flat(files) == order
    one = model(tool, f"{policy},merged,{fit},largest=1",
                writes([8], [level]))
    assert one[0].tracks == order


def test_v2_two_tiers(tool):
    """Files of the largest level take bottoms and the others take tops. Only a bottom with valid
    tops beside it costs rewrites."""
    levels = [0, 0, 1, 1, 1, 0, 1]
    for rmw, syncs in (("naive", [1, 1, 1, 4, 4, 1, 4]),
                       ("merged", [1, 1, 1, 3, 3, 1, 3])):
        files = model(tool, f"compaction,{rmw},largest=1",
                      writes([1] * 7, levels))
        assert flat(files) == [1, 3, 6, 4, 2, 5, 0]
        assert [f.rewrites for f in files] == [0, 0, 0, 1, 2, 0, 1]
        assert [f.syncs for f in files] == syncs


@pytest.mark.parametrize("before,freed,order", (
    ([], [0, 2, 4], [4, 2, 0]),
    ([2], [0, 4, 6], [4, 6, 0]),
))
def test_v3_nearest_bottom(tool, before, freed, order):
    """A file takes the free bottom that is nearest to the last one taken. That one is 6 if all are
    taken in order, or 2 if 2 is taken once more."""
    lines = [f"write {t} 0 1" for t in (1, 3, 5, 7)]
    # With all tops taken, the bottoms are taken in the order 0, 2, 4, 6.
    lines += [f"write {t} 1 1" for t in (0, 2, 4, 6)]
    if before:
        # Only 2 is free, so it is the last bottom taken.
        lines += ["delete 2", "write 12 1 1"]
    lines += [f"delete {t}" for t in freed]
    lines += [f"write {20 + i} 1 1" for i in range(3)]
    files = model(tool, "compaction,naive,largest=1", lines)
    assert flat(files)[4:8] == [0, 2, 4, 6]
    assert flat(files)[8:] == before + order


V4 = (
    ("seq", None, [(0, 1), (2, 3), (4, 5), (6, 7)],
     [(0, 2), (1, 4), (1, 4), (1, 4)], [(0, 2), (1, 4), (1, 4), (1, 4)], 17),
    ("3phase", None, [(0, 2), (4, 6), (1, 5), (3, 7)],
     [(0, 1)] * 4, [(0, 1)] * 4, 8),
    ("compaction", [0, 1, 1, 0], [(1, 3), (6, 4), (2, 0), (5, 7)],
     [(0, 1), (1, 4), (3, 7), (0, 1)], [(0, 1), (1, 4), (2, 3), (0, 1)], 14),
)


@pytest.mark.parametrize("policy,levels,tracks,naive,merged,literal", V4)
def test_v4_files_of_two_tracks(tool, policy, levels, tracks, naive, merged, literal):
    """The tracks, rewrites and syncs of four files of two tracks, and all syncs with
    syncs=literal."""
    lines = writes([2] * 4, levels)
    files = model(tool, f"{policy},naive,largest=1", lines)
    assert [tuple(f.tracks) for f in files] == tracks
    assert [(f.rewrites, f.syncs) for f in files] == naive
    files = model(tool, f"{policy},merged,largest=1", lines)
    assert [tuple(f.tracks) for f in files] == tracks
    if policy == "seq":
        # Bottoms come first, so the file's own tops, which they would destroy, are not written yet.
        merged = [(0, 2), (1, 4), (1, 4), (1, 4)]
    assert [(f.rewrites, f.syncs) for f in files] == merged
    files = model(tool, f"{policy},merged,syncs=literal,largest=1", lines)
    assert sum(f.syncs for f in files) == literal


@pytest.mark.parametrize("m", (1, 2, 5, 16))
def test_v5_steady_state_of_seq(tool, m):
    """In the steady state of seq, a file of 2m tracks costs m rewrites and 4m syncs. With merging
    it costs one rewrite and at most five syncs, however long it is."""
    lines = writes([2 * m] * 4)
    files = model(tool, "seq,naive", lines, tracks=8 * m)
    assert [(f.rewrites, f.syncs) for f in files] == \
        [(m - 1, 4 * m - 2)] + [(m, 4 * m)] * 3
    files = model(tool, "seq,merged", lines, tracks=8 * m)
    assert [(f.rewrites, f.syncs) for f in files] == \
        [(0, 2)] + [(1, 4 if m == 1 else 5)] * 3


def events_of(tool, what, bottoms):
    """Write a file to @bottoms of 8 tracks with all tops valid."""
    lines = [f"write {t} 0 1" for t in (1, 3, 5, 7)]
    lines += [f"write {t} 1 1" for t in (0, 2, 4, 6)]
    lines += [f"delete {t}" for t in bottoms]
    lines += [f"write 99 1 {len(bottoms)}"]
    last = model(tool, f"compaction,{what},first,largest=1", lines)[-1]
    assert sorted(last.tracks) == sorted(bottoms)
    return last


def test_v6_order_of_operations(tool):
    """Every operation, in order, for two bottoms with a common top: naive RMW saves that top twice,
    merged RMW once."""
    # The last bottom is 6. The nearer one of 2 and 4 is 4: the list is 4, 2.
    naive = events_of(tool, "naive", (2, 4))
    assert naive.tracks == [4, 2]
    assert naive.events == ("R3 K3 R5 K5 S W4 S r3 r5 S "
                            "R1 K1 R3 K3 S W2 S r1 r3 S S")
    assert (naive.rewrites, naive.syncs) == (4, 7)
    merged = events_of(tool, "merged", (2, 4))
    assert merged.events == "R3 K3 R5 K5 R1 K1 S W4 W2 S r3 r5 r1 S"
    assert (merged.rewrites, merged.syncs) == (3, 3)
    literal = events_of(tool, "merged,syncs=literal", (2, 4))
    assert (literal.rewrites, literal.syncs) == (3, 5)


def test_v6_in_the_order_of_the_paper(tool):
    # 3phase takes 2 before 4; seq takes 0 to 3.
    lines = [f"write {t} 0 1" for t in (0, 2, 4, 6, 1, 5, 3, 7)] + \
        ["delete 2", "delete 4", "write 99 0 2"]
    naive = model(tool, "3phase,naive", lines)[-1]
    assert naive.events == ("R1 K1 R3 K3 S W2 S r1 r3 S "
                            "R3 K3 R5 K5 S W4 S r3 r5 S S")
    assert (naive.rewrites, naive.syncs) == (4, 7)
    merged = model(tool, "3phase,merged", lines)[-1]
    assert merged.events == "R1 K1 R3 K3 R5 K5 S W2 W4 S r1 r3 r5 S"
    assert (merged.rewrites, merged.syncs) == (3, 3)
    literal = model(tool, "3phase,merged,syncs=literal", lines)[-1]
    assert literal.events == merged.events + " S S"


@pytest.mark.parametrize("what,events,syncs", (
    ("naive", "W0 S W1 S R1 K1 S W2 S r1 S W3 S", 6),
    ("naive,adjsync=needed", "W0 S W1 R1 K1 S W2 S r1 S W3 S", 5),
    ("merged", "W0 W2 S W1 W3 S", 2),
))
def test_v6_seq_on_an_empty_disk(tool, what, events, syncs):
    only, = model(tool, f"seq,{what}", writes([4]))
    assert (only.events, only.syncs) == (events, syncs)


@pytest.mark.parametrize("bottoms,naive,merged", (
    ((2,), (2, 4), (2, 3)),
    ((0, 2), (3, 7), (2, 3)),
    ((2, 6), (4, 7), (4, 3)),
    ((0, 2, 4, 6), (7, 13), (4, 3)),
))
def test_v7_syncs_of_merging(tool, bottoms, naive, merged):
    """With merging each top is saved once, and three syncs suffice for any number."""
    got = events_of(tool, "naive", bottoms)
    assert (got.rewrites, got.syncs) == naive
    got = events_of(tool, "merged", bottoms)
    assert (got.rewrites, got.syncs) == merged


def test_v8_at_most_five_syncs(tool):
    """The largest number of syncs, five: the file gets a bottom that destroys a top (2 beside 1), a
    harmless bottom (6) and tops (5, 7)."""
    lines = writes([1] * 8)                         # 0 2 4 6 1 5 3 7
    lines += ["delete 6", "write 8 0 1"]            # 3 was the last track taken
    lines += [f"delete {i}" for i in (1, 3, 8, 5, 7)] + ["write 99 0 4"]
    for rmw in ("naive", "merged"):
        last = model(tool, f"3phase,{rmw},next", lines)[-1]
        assert last.tracks == [2, 6, 5, 7]
        assert last.events == "R1 K1 S W2 S r1 S W6 S W5 W7 S"
        assert (last.rewrites, last.syncs) == (1, 5)


@pytest.mark.parametrize("fit", ("first", "next"))
def test_v9_freed_tracks(tool, fit):
    lines = writes([1] * 6) + ["delete 1", "write 9 0 1", "delete 4",
                               "delete 2", "write 10 0 2"]
    files = model(tool, f"3phase,naive,{fit}", lines)
    assert flat(files)[:6] == [0, 2, 4, 6, 1, 5]
    assert files[6].tracks == [2]
    assert files[6].events == "R1 K1 S W2 S r1 S S"
    # 1 and 4 are free. The bottom is taken first; its only valid top is 5.
    assert files[7].tracks == [4, 1]
    assert files[7].rewrites == 1 and "r5" in files[7].events


# --- relations -----------------------------------------------------------------

class Disk:
    """The effect of the events on the medium, computed independently in Python."""

    def __init__(self, tracks):
        self.tracks = tracks
        self.owner = {}
        self.sound = set()
        self.files = {}

    def tops_of(self, bottom):
        return [t for t in (bottom - 1, bottom + 1) if 0 <= t < self.tracks]

    def valid_tops(self, tracks):
        return {t for b in tracks if b % 2 == 0 for t in self.tops_of(b)
                if t in self.owner}

    def play(self, ident, got):
        """Apply a file's events. Return the greatest number of backup tracks in use."""
        backed, peak, in_epoch = set(), 0, set()
        for event in got.events.split():
            op, track = event[0], int(event[1:] or -1)
            if op == "S":
                continue
            if op == "K":
                assert track in self.sound, f"{event} copies what is gone"
                backed.add(track)
                peak = max(peak, len(backed))
            elif op == "W":
                assert track not in self.owner, f"{event}: it is taken"
                in_epoch.add(track)
                self.sound.add(track)
                if track % 2 == 0:
                    for top in self.tops_of(track):
                        if top in self.sound:
                            assert top in backed, f"{event} destroys {top}"
                            self.sound.discard(top)
            elif op == "r":
                assert track in backed, f"{event}: there is no copy"
                backed.discard(track)
                self.sound.add(track)
        assert not backed, "a copy was not written back"
        assert in_epoch == set(got.tracks)
        self.files[ident] = got.tracks
        self.owner.update((t, ident) for t in got.tracks)
        assert self.sound == set(self.owner), "something valid is gone"
        return peak

    def drop(self, ident):
        for track in self.files.pop(ident):
            del self.owner[track]
            self.sound.discard(track)


def any_load(seed, tracks, fill, most):
    """Return a random trace that keeps a part @fill of the disk full, with levels 0 to 3."""
    rng = random.Random(seed)
    lines, alive, used = [], {}, 0
    for ident in range(120):
        while alive and used > fill * tracks - most:
            gone = rng.choice(sorted(alive))
            used -= alive.pop(gone)
            lines.append(f"delete {gone}")
        size = rng.randint(1, most)
        alive[ident] = size
        used += size
        lines.append(f"write {ident} {rng.choice((0, 1, 2, 2, 3, 3, 3))} {size}")
        if rng.random() < 0.1:
            lines.append(f"relevel {rng.choice(sorted(alive))} 3")
    return lines


def played(tool, what, lines, tracks):
    """Yield each file with the disk as it was before the file."""
    files = iter(model(tool, what, lines, tracks))
    disk = Disk(tracks)
    for line in lines:
        word, ident, *rest = line.split()
        if word == "delete":
            disk.drop(ident)
        elif word == "write":
            yield disk, ident, int(rest[0]), next(files)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from(POLICIES),
       st.sampled_from(("first", "next")), st.sampled_from((0.3, 0.6, 0.9, 1)),
       st.integers(24, 65))
def test_no_load_loses_data(tool, seed, policy, fit, fill, tracks):
    """No write destroys a valid top that has no copy. E1: each saved top is written back, and with
    merging each top beside a written bottom is saved just once. E4: the number of syncs with
    merging. E5: the number of backup tracks in use."""
    lines = any_load(seed, tracks, fill, 8)
    for rmw in ("naive", "merged", "naive,adjsync=needed",
                "merged,syncs=literal"):
        for disk, ident, _, got in played(tool, f"{policy},{rmw},{fit}", lines,
                                          tracks):
            union = disk.valid_tops(got.tracks)
            bottoms = {t for t in got.tracks if t % 2 == 0}
            harmful = {b for b in bottoms
                       if any(t in disk.owner for t in disk.tops_of(b))}
            peak = disk.play(ident, got)
            assert got.count("K") == got.count("r") == got.rewrites     # E1
            assert got.count("S") == got.syncs
            if rmw.startswith("merged"):
                assert got.rewrites == len(union)                       # E1
                assert peak == len(union) <= 2 * len(harmful)           # E5
                free, tops = len(bottoms - harmful), len(got.tracks) - \
                    len(bottoms)
                expected = 3 * bool(harmful) + (
                    2 if rmw.endswith("literal") else
                    bool(free and tops) + bool(free + tops))
                assert got.syncs == expected                            # E4
                assert 1 <= got.syncs <= 5
            else:
                assert peak <= 2                                        # E5
                assert got.rewrites >= len(union)


def runs(tracks):
    """Return the lengths of runs of neighbouring bottoms."""
    out, last = [], None
    for t in sorted(tracks):
        if last is not None and t == last + 2:
            out[-1] += 1
        else:
            out.append(1)
        last = t
    return out


@pytest.mark.parametrize("k", (1, 2, 3, 16))
@pytest.mark.parametrize("edge", (False, True))
def test_e2_neighbouring_bottoms(tool, k, edge):
    """k adjacent bottoms with valid tops cost 2k rewrites and 3k + 1 syncs. With merging they cost
    k + 1 rewrites and three syncs. A bottom at the edge of the disk has one top less."""
    tracks = 2 * k + 6
    # 3phase with a full disk, one track in each file, in its order.
    lines = [f"write {i} 0 1" for i in range(tracks)]
    full = flat(model(tool, "3phase,naive", lines, tracks))
    start = 0 if edge else 2
    wanted = [start + 2 * i for i in range(k)]
    lines += [f"delete {full.index(t)}" for t in wanted]
    lines += [f"write 999 0 {k}"]
    naive = model(tool, "3phase,naive,first", lines, tracks)[-1]
    merged = model(tool, "3phase,merged,first", lines, tracks)[-1]
    literal = model(tool, "3phase,merged,syncs=literal,first", lines, tracks)[-1]
    assert naive.tracks == merged.tracks == wanted
    assert naive.rewrites == 2 * k - edge
    assert naive.syncs == 3 * k + 1
    assert merged.rewrites == k + 1 - edge
    assert (merged.syncs, literal.syncs) == (3, 5)


def test_e3_isolated_bottoms_save_syncs_only(tool):
    """If no two bottoms of a file have a common top, merging saves syncs but no rewrites."""
    compared, fewer = 0, 0

    @settings(max_examples=15, deadline=None)
    @given(st.integers(0, 1 << 30), st.integers(24, 65),
           st.sampled_from((0.5, 0.8, 1)))
    @example(22, 64, 1)         # has ten of them, independent of the random examples
    def of_any_load(seed, tracks, fill):
        nonlocal compared, fewer
        lines = any_load(seed, tracks, fill, 6)
        naive = model(tool, "compaction,naive", lines, tracks)
        merged = model(tool, "compaction,merged", lines, tracks)
        for a, b in zip(naive, merged, strict=True):
            assert a.tracks == b.tracks
            if all(t % 2 == 0 for t in a.tracks) and set(runs(a.tracks)) == {1}:
                assert a.rewrites == b.rewrites
                assert b.syncs <= a.syncs
                # A single bottom proves little; of several, each had its own RMW.
                compared += len(a.tracks) > 1 and a.rewrites > 0
                fewer += b.syncs < a.syncs

    of_any_load()
    assert compared >= 10 and fewer >= 10


def test_largest_most_gives_bottoms_to_the_largest_level(tool):
    """With largest=most, the level with the most tracks takes the bottoms. Then the first file of a
    new, higher level does not swap the tiers, as it does by default."""
    lines = ["write 1 3 3", "relevel 1 3", "write 2 4 1", "write 3 3 1",
             "write 4 2 1", "write 5 4 4", "write 6 3 1"]
    files = model(tool, "compaction,naive,largest=most", lines, tracks=40)
    tier = [{t % 2 for t in f.tracks} for f in files]
    # File 6 is written when level 4 has 5 tracks and level 3 has 4.
    assert tier == [{0}, {0}, {0}, {1}, {0}, {1}]
    files = model(tool, "compaction,naive", lines, tracks=40)
    tier = [{t % 2 for t in f.tracks} for f in files]
    assert tier == [{0}, {0}, {1}, {1}, {0}, {1}]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from((0.4, 0.7, 0.9, 1)),
       st.integers(24, 65), st.sampled_from(("first", "next")))
def test_e6_levels_keep_their_tiers(tool, seed, fill, tracks, fit):
    """Check from outside: no bottom that needs RMW is taken while a harmless one is free, and no
    level gets the other tier while its own has room."""
    lines = any_load(seed, tracks, fill, 8)
    level_of, files = {}, iter(model(tool, f"compaction,naive,{fit}", lines, tracks))
    tracks_of, taken = {}, {}
    for line in lines:
        word, ident, *rest = line.split()
        if word == "delete":
            del level_of[ident]
            for t in tracks_of.pop(ident):
                del taken[t]
            continue
        level_of[ident] = int(rest[0])
        if word == "relevel":
            continue
        largest = max(level_of.values())
        tracks_of[ident] = next(files).tracks
        for t in tracks_of[ident]:
            free = [x for x in range(tracks) if x not in taken]
            bottoms = [x for x in free if x % 2 == 0]
            harmless = [x for x in bottoms
                        if x - 1 not in taken and x + 1 not in taken]
            tops = [x for x in free if x % 2]
            if level_of[ident] == largest:
                assert t in harmless or (t in bottoms and not harmless) or \
                    not bottoms
            else:
                assert t in tops or not tops
            taken[t] = ident
    assert sum(map(len, tracks_of.values())) == len(taken)


@pytest.mark.parametrize("tracks", (16, 40, 64, 400))
@pytest.mark.parametrize("policy", ("3phase", "zigzag"))
def test_e7_rewrites_by_phase(tool, tracks, policy):
    """A track costs no rewrite in the first half of the disk, at most one in the next quarter, and
    at most two in the last."""
    files = model(tool, f"{policy},naive", writes([1] * tracks), tracks)
    for i, got in enumerate(files):
        bound = 0 if 2 * i <= tracks else 1 if 4 * i <= 3 * tracks else 2
        assert got.rewrites <= bound
    # Each bottom freed after phase 2 has at most one valid top, and after phase 3 two, except the
    # first one.
    order = flat(files)
    for used, bound in ((tracks * 3 // 4, 1), (tracks, 2)):
        for bottom in (0, tracks // 2 // 2 * 2):
            lines = writes([1] * used) + [f"delete {order.index(bottom)}",
                                          "write 9999 0 1"]
            got = model(tool, f"{policy},naive,first", lines, tracks)[-1]
            assert got.tracks == [bottom]
            assert got.rewrites == (1 if bottom == 0 else bound)


SCHEMES = ("seq,naive", "seq,merged", "3phase,naive", "3phase,merged",
           "compaction,naive", "compaction,merged")


@pytest.fixture(scope="session", name="paper")
def paper_load(tool):
    """The load of the paper at its scale, in records of 1 MiB."""
    words = [w for scheme in SCHEMES for w in ("--model", scheme)]
    return {moves: json.loads(run(tool, "--record", "1M", "--load", "76800M",
                                  "--moves", moves, *words, "--json"))
            for moves in ("keep", "rewrite", "silent")}


def test_e8_order_of_policies(paper):
    """seq costs more than 3phase, 3phase more than compaction, and that more than compaction with
    merging, both if a move rewrites the file and if the drive does not learn of moves."""
    for moves in ("rewrite", "silent"):
        got = {m["name"]: m for m in paper[moves]["models"]}
        for what in ("rewrites", "syncs"):
            assert got["seq,naive"][what] > got["3phase,naive"][what] > \
                got["compaction,naive"][what] > got["compaction,merged"][what]


def test_e8_gap_of_merging_grows_with_fill(paper):
    """An eighth of the load fills 9.6 % of the disk. Below half of the disk nothing is rewritten,
    so nothing is saved; above it the saving of each file grows. With two tiers and moves that the
    drive does not learn of, the saving falls again at the end."""
    for moves, of in paper.items():
        points = [of["points"][round(i * len(of["points"]) / 8) - 1]
                  for i in range(1, 9)]
        files = np.diff([0] + [p["files"] for p in points])
        for what in ("rewrites", "syncs"):
            for policy in ("3phase", "compaction"):
                saved = [p[what][SCHEMES.index(f"{policy},naive")] -
                         p[what][SCHEMES.index(f"{policy},merged")]
                         for p in points]
                gap = np.diff([0] + saved) / files
                where = (moves, what, policy, gap)
                assert not any(gap[:5]) and gap[7] > 0, where
                if (moves, policy) != ("silent", "compaction"):
                    assert all(np.diff(gap[5:]) >= 0) and gap[7] > gap[5], where


@pytest.mark.parametrize("moves", ("rewrite", "silent"))
def test_e8_mixes_gain_with_the_share_of_writes(tool, paper, moves):
    """The saving by two tiers and by merging, for the same number of operations after the load,
    grows with the share of writes."""
    names = ("seq,naive", "3phase,naive", "compaction,naive", "compaction,merged")
    words = [w for name in names for w in ("--model", name)]
    spared = []
    for mix in ("R90", "R50", "R10"):
        of = json.loads(run(tool, "--record", "1M", "--load", "76800M", "--moves",
                            moves, "--mix", mix, *words, "--json"))
        assert of["load"] == paper[moves]["load"]
        before = {m["name"]: m for m in paper[moves]["models"]}
        cost = {(m["name"], what): m[what] - before[m["name"]][what]
                for m in of["models"] for what in ("rewrites", "syncs")}
        spared.append([cost[worse, what] - cost[better, what]
                       for what in ("rewrites", "syncs")
                       for worse in names[:2] for better in names[2:]])
    for r90, r50, r10 in zip(*spared, strict=True):
        assert 0 < r90 < r50 < r10, spared


def test_paper_load(paper):
    """Check the number of files of the paper's load, and 16 rewrites and 64 syncs of each file in
    the steady state of seq."""
    for moves, of in paper.items():
        assert 15000 < of["load"]["files"] < 17500
        assert of["load"]["inserted"] == 76800
        assert sum(level["records"] for level in of["levels"]) == 76800
        assert bool(of["load"]["moved"]) == (moves != "rewrite")
        seq = of["models"][0]
        assert abs(seq["rewrites"] / seq["files"] - 16) < 0.01
        assert abs(seq["syncs"] / seq["files"] - 64) < 0.1
        # 3phase has no RMW before half of the tracks are written.
        half = [p for p in of["points"] if p["inserted"] < 40000]
        assert half[-1]["rewrites"][2] == 0
        assert of["models"][2]["rewrites"] > 0


def test_trace_of_a_load_gives_the_same_statistics(tool, tmp_path):
    """A load that is replayed from its trace has the same rewrites and syncs, and no data are lost
    on the medium."""
    trace = tmp_path / "trace"
    for moves in ("keep", "rewrite"):
        for scheme in ("3phase,merged", "compaction,naive", "compaction,merged"):
            args = ("--scale", 32, "--tracks", 1500, "--file", "16M", "--level1",
                    "32M", "--moves", moves)
            of = json.loads(run(tool, *args, "--model", scheme, "--json",
                                "--record-trace", trace))
            lines = trace.read_text().splitlines()
            rewrites = syncs = 0
            for disk, ident, _, got in played(tool, scheme, lines, 1500):
                disk.play(ident, got)
                rewrites += got.rewrites
                syncs += got.syncs
            assert rewrites == of["models"][0]["rewrites"] > 0
            assert syncs == of["models"][0]["syncs"]


def test_pending_frees_after_the_next_file(tool):
    """With `pending`, the tracks of a deleted file are free only after the next file is written."""
    lines = ["write 1 0 2", "delete 1", "write 2 0 2", "write 3 0 2"]
    at_once = model(tool, "seq,naive,first", lines)
    pending = model(tool, "seq,naive,first,pending", lines)
    assert [f.tracks for f in at_once] == [[0, 1], [0, 1], [2, 3]]
    assert [f.tracks for f in pending] == [[0, 1], [2, 3], [0, 1]]
    # Tops of deleted files are not saved when the bottom beside them is written.
    assert [f.rewrites for f in pending] == [0, 0, 0]


def test_target_and_model_choose_the_same_tracks():
    """The policies of the target and of the model come from one specification and must agree."""
    make("tests", "check")
    done = subprocess.run([TOP / "build/tests/levels-check", "200"], text=True,
                          capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    agreed = re.findall(r"policy (\d), (first|next): (\d+) tracks agree", done.stdout)
    assert len(agreed) == 8 and all(int(n) > 100000 for *_, n in agreed)


# --- the store on a device -----------------------------------------------------

@pytest.fixture(name="ram")
def in_memory(tmp_path):
    """A directory in RAM, where a flush takes no time."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="levels.", dir="/dev/shm") as name:
        yield Path(name)


def disk_file(path, mib=64):
    with open(path, "wb") as f:
        f.truncate(mib * MIB)
    return path


SMALL = ("--scale", 32, "--file", "8M", "--level1", "16M")


@pytest.mark.parametrize("extra", (
    (), ("--moves", "rewrite"), ("--pick", "overlap"), ("--keys", "zipfian"),
    ("--place", "3phase"), ("--place", "compaction,first"),
    ("--record", "4K", "--readahead", "256K"), ("--mix", "R50"),
    ("--mix", "R10", "--ops", 50000)))
def test_store_reads_back_what_it_wrote(tool, tmp_path, ram, extra):
    """The store finds all its data after a load with compactions, and its counters of requests
    agree with its files. A later --check finds the data by the manifest alone."""
    disk = disk_file(ram / "disk")
    of = json.loads(run(tool, *SMALL, *extra, "--verify", "--json",
                        "--manifest", tmp_path / "manifest", disk))
    store, device = of["store"], of["device"]
    assert device["bad_blocks"] == 0
    assert store["compactions"] > 5 and store["deleted"] > 20
    assert device["all"]["flushes"] == store["files"]
    assert device["all"]["written_bytes"] >= store["written_bytes"]
    # The reads of compactions and gets, and one read of all files at the end.
    assert device["verified_blocks"] * 4096 == device["all"]["read_bytes"]
    alive = store["files"] - store["deleted"]
    assert sum(level["files"] for level in of["levels"]) == alive
    if "zipfian" not in extra and "--mix" not in extra:
        assert sum(level["records"] for level in of["levels"]) == \
            store["inserted"]
    if "--mix" in extra:
        assert store["gets"] > 0 and store["inserted"] > of["load"]["inserted"]
    out = run(tool, *SMALL, "--check", tmp_path / "manifest", disk)
    assert re.fullmatch(r"\d+ blocks verified, 0 lost\n", out)


def counted(of):
    """Return the device's counters without times."""
    return {k: v for k, v in of["device"]["all"].items() if not k.endswith("_s")}


@pytest.mark.parametrize("moves", ("keep", "rewrite", "silent"))
@pytest.mark.parametrize("place", (
    "seq,naive", "3phase,merged", "zigzag,naive", "compaction,naive",
    "compaction,merged,first"))
def test_program_makes_the_operations_of_the_model(tool, ram, place, moves):
    """The store protects its data on a bare interlaced disk with exactly the operations that the
    model counts, and all data exist at the end. scripts/experiments imr --verify uses a destructive
    medium."""
    disk = disk_file(ram / "disk", 80)
    of = json.loads(run(tool, *SMALL, "--moves", moves, "--place", place, "--model",
                        place, "--verify", "--json", disk))
    done, said = of["done"], of["models"][0]
    assert {**done, "name": place} == said
    assert said["rewrites"] > 0
    device = of["device"]["all"]
    assert device["flushes"] == said["syncs"]
    # Copies and rewritten tops are at most whole tracks.
    extra = device["written_bytes"] - of["store"]["written_bytes"]
    assert 0 < extra <= 2 * said["rewrites"] * of["track_bytes"] + \
        4096 * said["files"]
    again = json.loads(run(tool, *SMALL, "--moves", moves, "--place", place, "--reread",
                           "--verify", "--json", disk))
    assert again["done"] == done
    # These are whole tracks, except for the last one of a file.
    more = again["device"]["load"]["read_bytes"] - of["device"]["load"]["read_bytes"]
    assert 0 < more <= done["backups"] * of["track_bytes"]
    each = json.loads(run(tool, *SMALL, "--moves", moves, "--place", place, "--copy-each",
                          "--verify", "--json", disk))
    assert each["done"] == done
    assert counted(each) == counted(again)
    steps = device["step_s"]
    assert all((steps[name] > 0) == (n > 0) for name, n in said["sync"].items())


DRIVE = ("--drive", "st500dm002")


def on_drive(tool, *args):
    return json.loads(run(tool, "--json", *DRIVE, *args))


@pytest.fixture(scope="session", name="sim")
def build_sim():
    return platter_sim()


@pytest.mark.parametrize("mib", (8, 64))
def test_drive_option_takes_as_long_as_platter(tool, sim, mib):
    """--drive takes as long as platter's own simulator for the same requests. One file is one batch
    of requests of 1 MiB with at most 32 in flight; a new one is queued whenever one ends, so the
    result is the same as if all arrived at once."""
    of = on_drive(tool, "--place", "seq", "--load", f"{mib}M", "--file", "64M")
    assert of["device"]["all"]["writes"] == mib
    done = subprocess.run(
        [sim, "-p", "st500dm002", "-l", "0", "-o"], text=True, capture_output=True,
        check=True, input="".join(f"0 w {256 * i} 256\n" for i in range(mib)))
    last_us = float(done.stdout.splitlines()[-1].split()[1])
    assert of["device"]["load_s"] == pytest.approx(last_us / 1e6, abs=1e-4)
    assert of["device"]["load"]["persist_s"] == of["device"]["load_s"]
    # One track in each rotation, plus a switch to the next one, is 141.6 MB/s at the outer
    # diameter.
    assert 100e6 < of["device"]["load_bytes_per_s"] < 141.6e6


@pytest.mark.parametrize("us", (0, 8333, 25000))
def test_flush_us_adds_to_each_sync(tool, us):
    """The load has one file and so one sync: --flush-us makes it longer by just that time."""
    one = ("--place", "seq", "--load", "8M")
    free, dear = on_drive(tool, *one), on_drive(tool, *one, "--flush-us", us)
    assert free["device"]["all"]["flushes"] == dear["device"]["all"]["flushes"] == 1
    assert dear["device"]["load_s"] - free["device"]["load_s"] == \
        pytest.approx(us / 1e6, abs=1.1e-4)
    assert dear["device"]["flush_us"] == us


@pytest.mark.parametrize("place", ("seq,naive", "3phase,merged", "compaction,merged",
                                   "3phase"))
def test_drive_option_gets_the_same_requests(tool, ram, place):
    """--drive gets the same requests as a file on a device, and two runs give the same result."""
    disk = disk_file(ram / "disk", 80)
    words = (*SMALL, "--tracks", 1000, "--place", place)
    file = json.loads(run(tool, *words, "--no-contents", "--json", disk))
    first, again = (on_drive(tool, *words) for _ in range(2))
    assert first == again
    assert counted(first) == counted(file)
    assert first["store"] == file["store"] and first.get("done") == file.get("done")
    device = first["device"]
    # Only the drive's time passes, and all of it is reported.
    assert device["load_s"] == pytest.approx(
        device["load"]["persist_s"] + device["load"]["read_s"], abs=2e-4)


@pytest.mark.parametrize("place", ("seq,naive", "3phase"))
def test_compactions_and_memtables_count_apart(tool, place):
    """The figures of compactions leave out what the files of memtables cost. A load that never
    compacts has only that cost."""
    # Level 0 can hold all 72 memtables.
    words = (*SMALL, "--tracks", 1000, "--load", "18M", "--moves", "silent", "--place", place)
    of, flushes = on_drive(tool, *words), on_drive(tool, *words, "--trigger", 100)
    device, load = of["device"], of["device"]["load"]
    # Only compactions read. Their time consists of reading and persisting.
    assert 0 < device["load_compact_persist_s"] == pytest.approx(
        device["load_compact_s"] - load["read_s"], abs=2e-4)
    # The files of memtables take as long, and rewrite as much, if there are no other files.
    only = flushes["device"]
    assert flushes["load"]["files"] == flushes["load"]["flushed"] == of["load"]["flushed"]
    assert only["load_compact_persist_s"] == only["load_compact_rewrites"] == 0
    assert load["persist_s"] - device["load_compact_persist_s"] == pytest.approx(
        only["load"]["persist_s"], rel=0.1)
    if "done" in of:
        assert of["done"]["rewrites"] - device["load_compact_rewrites"] == \
            flushes["done"]["rewrites"] > 0
        rewriting = [d["load"]["step_s"]["backup"] + d["load"]["step_s"]["restore"]
                     for d in (device, only)]
        assert rewriting[0] - device["load_compact_rewriting_s"] == pytest.approx(
            rewriting[1], rel=0.1)
    else:
        assert device["load_compact_rewrites"] == device["load_compact_rewriting_s"] == 0


def test_points_have_the_counts_of_the_device(tool):
    """Each point has the rewrites and syncs on the device, and they equal those of the model."""
    words = (*SMALL, "--tracks", 1000, "--moves", "silent")
    of = on_drive(tool, *words, "--place", "3phase,naive", "--model", "3phase,naive")
    assert of["done"]["rewrites"] > 0
    assert [(p["done_rewrites"], p["done_syncs"]) for p in of["points"]] == \
        [(p["rewrites"][0], p["syncs"][0]) for p in of["points"]]
    assert of["points"][-1]["done_rewrites"] == of["done"]["rewrites"]
    assert "done_rewrites" not in on_drive(tool, *words, "--place", "3phase")["points"][0]


@pytest.mark.parametrize("place,batch_gains", (
    ("seq,naive", 1), ("3phase,merged", 1.15), ("compaction,merged", 1.15)))
def test_separate_copies_of_tops_take_longer(tool, place, batch_gains):
    """With --reread, copies take as long to read as they took to write, not half of it. With
    --copy-each, no top of a file is saved or restored together with another one."""
    words = ("--record", "1M", "--tracks", 47684, "--file", "65M", "--load", "75000M",
             "--moves", "silent", "--pick", "overlap", "--place", place)
    memory, batch, each = (on_drive(tool, *words, *more)
                           for more in ((), ("--reread",), ("--copy-each",)))
    assert memory["done"] == batch["done"] == each["done"]
    assert each["done"]["rewrites"] > 10000
    assert counted(batch) == counted(each)
    memory, batch, each = (of["device"]["load"]["step_s"] for of in (memory, batch, each))
    assert batch["restore"] > 1.5 * memory["restore"]
    assert each["restore"] > 1.5 * memory["restore"]
    for step in ("backup", "restore"):
        assert each[step] >= batch_gains * batch[step], step


@pytest.mark.parametrize("place", ("seq,naive", "compaction,merged", "3phase"))
def test_no_contents_sends_the_same_requests(tool, ram, place):
    """--no-contents sends the same requests and changes only what the blocks contain: zeroes."""
    said = []
    for more in ((), ("--no-contents",)):
        disk = disk_file(ram / "disk", 80)
        of = json.loads(run(tool, *SMALL, "--place", place, *more, "--json", disk))
        said.append((of["store"], of.get("done"), counted(of)))
        assert any(disk.read_bytes()) == (not more)
    assert said[0] == said[1]
    assert "cannot be combined with --verify" in run(tool, *SMALL, "--no-contents", "--verify", disk,
                                      rc=USAGE)


def test_same_seed_same_load(tool, tmp_path):
    text = []
    for seed in (1, 1, 2):
        run(tool, *SMALL, "--tracks", 1024, "--seed", seed, "--model",
            "seq,naive", "--record-trace", tmp_path / "trace")
        text.append((tmp_path / "trace").read_text())
    assert text[0] == text[1] != text[2]


def test_points_end_with_the_load(tool):
    """No point lies behind the end of the load, also if the load has fewer memtables than points
    and if a mix inserts more records later."""
    of = json.loads(run(tool, *SMALL, "--tracks", 1024, "--model", "seq,naive", "--load",
                        "10M", "--mix", "R10", "--ops", 20000, "--points", 1000, "--json"))
    assert of["store"]["inserted"] > of["load"]["inserted"]
    assert of["points"]
    assert max(p["inserted"] for p in of["points"]) <= of["load"]["inserted"]
    assert max(p["files"] for p in of["points"]) <= of["load"]["files"]


def test_damage_is_found_and_named(tool, tmp_path):
    """--check names each damaged block and what it found there: zeroes, a block that is partly
    right, or a block of another file."""
    disk, manifest = disk_file(tmp_path / "disk"), tmp_path / "manifest"
    run(tool, *SMALL, "--manifest", manifest, disk)
    alive = {}
    for line in manifest.read_text().splitlines():
        sign, ident, *rest = line.split()
        if sign == "+":
            alive[ident] = int(rest[2].split("+")[0])
        else:
            del alive[ident]
    (one, at), (two, other) = sorted(alive.items())[:2]
    data = bytearray(disk.read_bytes())
    track = 65536
    data[at * track:at * track + 4096] = bytes(4096)
    data[at * track + 4096 + 100] ^= 1
    data[other * track:other * track + 4096] = \
        data[at * track + 8192:at * track + 12288]
    disk.write_bytes(data)
    out = run(tool, *SMALL, "--check", manifest, disk, rc=LOST)
    assert f"block 0 of file {one}, at track {at}, is lost: there is zeroes" in out
    assert f"block 1 of file {one}, at track {at}, is lost: there is parts of " \
        f"block 1 of file {one}" in out
    assert f"block 0 of file {two}, at track {other}, is lost: there is block 2 " \
        f"of file {one}" in out
    assert ", 3 lost" in out


def test_manifest_with_an_incomplete_last_line(tool, tmp_path):
    """--check accepts such a manifest: a power cut may leave an incomplete last line."""
    disk, manifest = disk_file(tmp_path / "disk"), tmp_path / "manifest"
    run(tool, *SMALL, "--manifest", manifest, disk)
    text = manifest.read_text()
    manifest.write_text(text[:text.rindex("+ ") + 9])
    assert ", 0 lost" in run(tool, *SMALL, "--check", manifest, disk)


def test_failed_allocation_for_a_manifest_is_reported(tmp_path):
    """If reading ends for lack of memory, the list of files may be incomplete, and the check must
    report the error."""
    make("userspace/levels")
    tool = TOP / "build/userspace/shingle-levels"
    disk, manifest = disk_file(tmp_path / "disk"), tmp_path / "manifest"
    run(tool, *SMALL, "--manifest", manifest, disk)
    with open(manifest, "r+b") as f:
        f.seek(600 * MIB)
        f.write(b"\n+ a file that was forgotten\n")
    out = run("sh", "-c", 'ulimit -v 400000; exec "$0" "$@"', tool, *SMALL, "--check",
              manifest, disk, rc=FAILED)
    assert "Cannot allocate memory" in out


@pytest.mark.parametrize("where", ("--manifest", "--record-trace"))
def test_unwritable_log_is_reported(tool, tmp_path, where):
    disk = disk_file(tmp_path / "disk")
    out = run(tool, *SMALL, "--load", "12M", where, "/dev/full", disk, rc=FAILED)
    assert "cannot be written: No space left on device" in out
    assert out.count("cannot be written") == 1


@pytest.mark.parametrize("args", (
    ("--load", "12M", "--json"), ("--load", "12M"), ("--trace", "-"), ("--help",)))
def test_unwritable_output_is_reported(tool, args):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([tool, *map(str, SMALL), "--model", "seq,naive", *args],
                              text=True, input="write 1 0 1\n", stdout=full, stderr=subprocess.PIPE,
                              check=False, timeout=600)
    assert done.returncode == FAILED
    assert done.stderr == "shingle: output cannot be written: No space left on device\n"


SYNCED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int fdatasync(int fd)
{
	int (*real)(int fd) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	char link[64], path[512] = "";
	FILE *f = fopen(getenv("SYNCED"), "a");

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (!f || readlink(link, path, sizeof(path) - 1) < 0)
		abort();
	fprintf(f, "%s\n", path);
	fclose(f);
	return real(fd);
}
"""


def test_manifest_is_ordered_with_the_data(tmp_path):
    """A file is flushed before its line is written to the manifest; the line about a deletion is
    written before the file is discarded."""
    make("userspace/levels")
    (tmp_path / "synced.c").write_text(SYNCED, encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "synced.so",
                    tmp_path / "synced.c", "-ldl"], check=True)
    disk, manifest = disk_file(tmp_path / "disk"), tmp_path / "manifest"
    log = tmp_path / "log"
    subprocess.run([TOP / "build/userspace/shingle-levels", *map(str, SMALL), "--manifest",
                    manifest, disk], check=True, stdout=subprocess.DEVNULL, timeout=600,
                   env={**os.environ, "LD_PRELOAD": str(tmp_path / "synced.so"),
                        "SYNCED": str(log)})
    wanted = []
    for line in manifest.read_text().splitlines():
        wanted += [disk] if line[0] == "+" else []
        wanted.append(manifest)
    assert wanted.count(manifest) > wanted.count(disk) > 20
    assert log.read_text().splitlines() == list(map(str, wanted))


def test_manifest_may_be_a_pipe(tool, tmp_path):
    disk, pipe = disk_file(tmp_path / "disk"), tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as cat:
        run(tool, *SMALL, "--load", "12M", "--manifest", pipe, disk)
        assert cat.communicate(timeout=600)[0].startswith("+ 1 0 ")


@pytest.mark.parametrize("more", (
    ("--manifest",), ("--record-trace",), ("--mix", "R50"), ("--model", "seq,naive")))
def test_check_writes_nothing(tool, tmp_path, more):
    """--check must not write, least of all to the manifest if it is named twice."""
    disk, manifest = disk_file(tmp_path / "disk"), tmp_path / "manifest"
    run(tool, *SMALL, "--load", "12M", "--manifest", manifest, disk)
    text = manifest.read_text()
    out = run(tool, *SMALL, "--check", manifest, *more,
              *((manifest,) if len(more) == 1 else ()), disk, rc=USAGE)
    assert "--check only reads back" in out
    assert manifest.read_text() == text != ""


@pytest.mark.parametrize("cut", (("--theta", "--thet", 0.5), ("--no-contents", "--no-cont")))
def test_abbreviated_options_are_refused(tool, cut):
    whole, short, *value = cut
    run(tool, *SMALL, "--load", "12M", "--tracks", 1024, "--model", "seq,naive", whole, *value)
    assert "an option is not known" in run(tool, *SMALL, "--load", "12M", "--tracks", 1024,
                                           "--model", "seq,naive", short, *value, rc=USAGE)


def test_check_of_an_empty_manifest(tool, tmp_path):
    disk, manifest = disk_file(tmp_path / "disk"), tmp_path / "manifest"
    manifest.write_text("")
    assert "lists no file: nothing to check" in \
        run(tool, *SMALL, "--check", manifest, disk)
    assert "cannot be read: Is a directory" in \
        run(tool, *SMALL, "--check", tmp_path, disk, rc=FAILED)


@pytest.mark.parametrize("args,rc,sentence", (
    ((), USAGE, "DEVICE, --drive or --model is missing"),
    (("--drive", "st500dm002", "/nowhere"), USAGE, "--drive cannot be combined with a DEVICE"),
    (("--drive", "st500dm00"), FAILED, "--drive 'st500dm00' is not a profile of platter"),
    (("--drive", "generic"), FAILED, "--drive 'generic' is not a profile of platter"),
    (("--drive", "st500dm002", "--verify"), USAGE, "require a DEVICE"),
    (("--drive", "st500dm002", "--tracks", "300000"), FAILED,
     "drive st500dm002 has 238470 tracks of 2 MiB, not 300000"),
    (("--drive", "st500dm002", "--flush-us", "1000001"), USAGE, "--flush-us"),
    (("--flush-us", "8333", "/nowhere"), USAGE, "--flush-us requires --drive"),
    (("--copy-each", "--place", "seq", "/nowhere"), USAGE,
     "--reread and --copy-each require --place with naive or merged"),
    (("--model", "best,naive"), USAGE, "the policy is one of seq, 3phase"),
    (("--model", "seq"), USAGE, "behind the policy comes naive, merged or none"),
    (("--model", "seq,naive,fast"), USAGE, "options are first, next"),
    (("--model", "seq,naive,largest=16"), USAGE, "options are first, next"),
    (("--model", "seq,naive", "--hints"), USAGE, "require a DEVICE"),
    (("--model", "seq,naive", "--track", "3K"), USAGE, "not a multiple of 4K"),
    (("--model", "seq,naive", "--file", "100B"), USAGE, "whole number of records"),
    (("--model", "seq,naive", "--level1", "1B"), USAGE, "no room for a record"),
    (("--place", "seq,merged", "--hints", "/nowhere"), USAGE, "protects tops"),
    (("--place", "seq,quickly", "/nowhere"), USAGE, "--place 'seq,quickly': "),
    (("--model", "seq,naive", "--moves", "some"), USAGE, "none of keep, rewrite"),
    (("--model", "seq,naive", "--mix", "50"), USAGE, "R and a percentage"),
    (("--model", "seq,naive", "--theta", "1"), USAGE, "above 0 and below 1"),
    (("--model", "seq,naive", "--record", "1M", "--load", "90000M", "--tracks",
      "40000"), FAILED, "is full: its 40000 tracks have no room"),
    (("--model", "seq,naive", "--load", "0B"), USAGE, "--load 0B is not valid"),
    (("--model", "seq,naive", "--readahead", "0B"), USAGE, "--readahead 0B is not valid"),
    (("--model", "seq,naive", "--ops", "10"), USAGE, "--ops requires --mix"),
    (("--trace", "-"), USAGE, "--trace requires one --model"),
    (("/nowhere",), FAILED, "No such file"),
))
def test_invalid_options(tool, args, rc, sentence):
    assert sentence in run(tool, *args, rc=rc)


@pytest.mark.parametrize("line", ("write 1 0 0", "write 1 16 1", "delete 7",
                                  "relevel 7 1", "copy 1"))
def test_invalid_trace(tool, line):
    out = run(tool, "--model", "seq,naive", "--trace", "-", rc=FAILED,
              text=f"write 5 0 1\n{line}\n")
    assert f"line 2, '{line}'" in out


def test_existing_content_is_not_overwritten(tool, tmp_path):
    """A partition table is not overwritten; the store's own files are read back without a special
    option."""
    disk = disk_file(tmp_path / "disk")
    with open(disk, "r+b") as f:
        f.seek(446)
        f.write(struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\0\4\0", 1, 2000))
        f.seek(510)
        f.write(b"\x55\xaa")
    before = disk.read_bytes()
    out = run(tool, *SMALL, "--load", "12M", disk, rc=FAILED)
    assert "holds a partition table of type dos" in out and "--force" in out
    assert disk.read_bytes() == before
    manifest = tmp_path / "manifest"
    run(tool, *SMALL, "--load", "12M", "--force", "--manifest", manifest, disk)
    assert disk.read_bytes() != before
    run(tool, *SMALL, "--check", manifest, disk)


def test_device_too_small(tool, tmp_path):
    disk = disk_file(tmp_path / "disk", 8)
    out = run(tool, *SMALL, "--tracks", 1000, disk, rc=FAILED)
    assert "has 128 tracks of 64 KiB, not 1000" in out
    out = run(tool, *SMALL, "--load", "20M", disk, rc=FAILED)
    assert "the device is full" in out
    out = run(tool, *SMALL, "--hints", disk, rc=FAILED)
    assert "takes no levels" in out


@pytest.mark.parametrize("compiler,standards", (
    ("cc", ("c99", "c11", "c17", "gnu17")), ("g++", ("c++11", "c++20"))))
def test_header_for_stores_compiles_alone(tmp_path, compiler, standards):
    """The header compiles as the first include of a store, in strict C and in C++."""
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler}")
    source = tmp_path / ("store.c" if compiler == "cc" else "store.cc")
    source.write_text("""#include <shingle-imr.h>
int store(int fd);
int store(int fd)
{
	struct shingle_imr disk;
	int err = shingle_imr_open(&disk, fd);

	if (!err)
		err = shingle_imr_level(&disk, 0, disk.track_bytes, 1);
	if (!err)
		err = shingle_imr_relevel(&disk, 0, disk.track_bytes, 2);
	if (!err)
		err = shingle_imr_discard(&disk, 0, disk.track_bytes);
	shingle_imr_close(&disk);
	return err;
}
""", encoding="ascii")
    for standard in standards:
        done = subprocess.run(
            [compiler, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror",
             f"-I{TOP}/userspace/include", "-fsyntax-only", source],
            text=True, capture_output=True, check=False, timeout=600)
        assert done.returncode == 0, f"{standard}:\n{done.stderr}"
