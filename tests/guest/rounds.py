# SPDX-License-Identifier: GPL-2.0
"""The blocks that Dual-buffer keeps, round by round, through the target and over a medium that
destroys (rule D6 of papers/ma.rst).

 N % are new     N percent of the writes go to blocks that were never written before,
                 the others to recently written ones: over 50 rounds the part of the cache
                 for new blocks stays above its floor in each
 a hot set that moves
                 1 % of the addresses get 80 % of the writes, and then another 1 %: two
                 rounds later that is in the cache, and most of the old one is not

tests/unit/test_check.py tests both with the engine alone, too.
"""

import random
import re
import struct

from guest import blk
from guest import media
from guest import ondisk
from guest.bench import expect
from guest.targets import Geometry

TRACKS, COLUMNS, FLOOR = 27, 100, 25        # of the cache; FLOOR in percent
GEO = Geometry("rounds", band=1000, data=40, cache=1, cache_band=TRACKS * COLUMNS,
               track=COLUMNS, head=3, skew=7, meta="separate", journal=64, ckpt=64,
               options=(("commit_ms", 0),))
ROUNDS = 50
HOT = GEO.logical // 100
LINE = re.compile(r"^round (\d+) .* fb_blocks (\d+) ", re.M)
GO_BY = 500         # writes between two reads of the number of rounds


class Load:
    """Writes of single blocks, and the expected contents."""

    def __init__(self, made, seed):
        self.made, self.random = made, random.Random(seed)
        self.held, self.version = {}, 0

    def write(self, lblk):
        self.version += 1
        self.held[lblk] = self.version
        self.blk.write(lblk, struct.pack("<QQ", lblk, self.version) * (blk.BLOCK // 16))

    def until(self, rounds, draw):
        """Go on until @rounds rounds have ended."""
        with self.made.blk() as self.blk:
            while media.stats(self.made.device)["rounds"] < rounds:
                for _ in range(GO_BY):
                    self.write(draw())

    def judge(self):
        """Expect that all data are there, and that no destroyed block was read."""
        with self.made.blk() as dev:
            for lblk, version in self.held.items():
                expect(dev.read(lblk)[:16] == struct.pack("<QQ", lblk, version),
                       f"block {lblk} does not hold write {version}")
        self.made.verify()
        return media.judge(self.made)


def opened(ctx, seed):
    made = media.stack(ctx, GEO, "smr")
    made.open()
    return made, Load(made, seed)


def room_for_new(ctx, percent):
    made, load = opened(ctx, percent)
    last, fresh = [], [0]

    def draw():
        if not last or load.random.randrange(100) < percent:
            lblk = fresh[0] % GEO.logical
            fresh[0] += 1
        else:
            lblk = last[load.random.randrange(len(last))]
        # As many as the cache has room for.
        if len(last) == TRACKS * COLUMNS:
            last[load.random.randrange(len(last))] = lblk
        else:
            last.append(lblk)
        return lblk

    load.until(ROUNDS, draw)
    told = LINE.findall(made.device.message("rounds"))
    expect([int(number) for number, _ in told][:ROUNDS] == list(range(1, ROUNDS + 1)),
           f"it tells of rounds {[number for number, _ in told]}")
    kept = [0] + [int(blocks) / TRACKS for _, blocks in told]
    new = [COLUMNS - one - two for one, two in zip(kept, kept[1:])]
    expect(min(new) >= FLOOR, f"of a round {min(new):.0f} % of the columns are new")
    expect(min(new[10:]) > new[9] / 2, f"it shrinks: {new}")
    numbers = load.judge()
    made.close()
    return {**numbers, "least_new_percent": min(new), "writes": load.version}


def kept_of(made):
    """Return the shares of the old and the new hot set that lie in the cache."""
    made.close()
    with blk.opened(made.paths["meta"]) as dev:
        groups = ondisk.read_super(dev.read(0))["groups"]
    start = next(start for start, *_, role, _, _ in groups if role == ondisk.CACHE)
    cached = {lblk for lblk, (_, block) in made.target.lies(made.paths, GEO).items()
              if start <= block < start + TRACKS * COLUMNS}
    made.open()
    return [100 * len(cached.intersection(range(at, at + HOT))) / HOT
            for at in (0, GEO.logical // 2)]


def moves(ctx):
    made, load = opened(ctx, 1)
    at = 0

    def draw():
        lblk = load.random.randrange(HOT) if load.random.randrange(100) < 80 else \
            HOT + load.random.randrange(GEO.logical - HOT)
        return (at + lblk) % GEO.logical

    load.until(12, draw)
    before = kept_of(made)
    at = GEO.logical // 2
    # Activation starts the count of rounds again; in the first round both are written.
    load.until(3, draw)
    behind = kept_of(made)
    load.until(2, draw)
    later = kept_of(made)
    expect(before[0] > 80 > 20 > before[1], f"before it moves {before} % are kept")
    expect(behind[1] > 80 > 40 > behind[0], f"two rounds behind that {behind} % are kept")
    expect(later[1] > 85 > 10 > later[0], f"and later {later} %")
    numbers = load.judge()
    made.close()
    return {**numbers, "old_percent": behind[0], "new_percent": behind[1]}


def cases(_target, _options):
    return [*((f"{percent} % are new", lambda ctx, p=percent: room_for_new(ctx, p))
              for percent in (5, 10, 15, 20, 25)),
            ("a hot set that moves", moves)]
