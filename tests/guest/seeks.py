# SPDX-License-Identifier: GPL-2.0
"""Compare what the target stl-log counts for a load with what shingle-replay counts for it.

Both count seeks, fragments, and hits of the caches, with each remedy for the seeks of reads and with
all of them.  The target maps, splits, reads and rewrites with its own code; shingle-replay has
another model of that, and shares only the extent map and core/lib/reads.  The requests are sent one
at a time, and after a read the test waits until the target has rewritten it if it does.  So nothing
depends on time, and every counter must agree.

The target's counters are also compared with the blocks that the device below has read and written.
That device stores nothing, so that the addresses of a trace of terabytes fit: the option trace=FILE
replays a file of requests of shingle-replay.
"""

import functools
import json
import os
import random
import struct
import subprocess
import tempfile
from dataclasses import dataclass

from guest import counters
from guest import dm
from guest.bench import TOP, expect, until
from guest.blk import SECTORS
from guest.media import stats
from guest.targets import Geometry, Stack

REPLAY = os.path.join(TOP, "build/userspace/shingle-replay")
LOADS = os.path.join(TOP, "scripts/loads/run")
MAGIC = b"SHGLREQ1"
READ, WRITE, DISCARD = range(3)
PATTERNS = ("descending", "shuffled", "interleaved")
BAND, TRACK, HEAD = 256, 16, 3      # blocks, blocks, tracks; the guard of a band is HEAD - 1 tracks
MOST = 256                          # blocks: Linux may split a larger request
END = 16384                         # blocks of a load of the patterns
REQUESTS = 1500                     # of the random load


@dataclass(frozen=True)
class Remedies:
    """Settings of both; sizes in blocks, 0: off."""
    frags: int = 0
    hits: int = 1
    most: int = 200
    behind: int = 0
    ahead: int = 0
    regions: int = 1
    cache: int = 0

    def keys(self):
        """Return the keys of the target."""
        return (("defrag_frags", self.frags), ("defrag_hits", self.hits),
                ("defrag_blocks", self.most), ("look_behind", self.behind),
                ("look_ahead", self.ahead), ("look_regions", self.regions),
                ("selective", "on" if self.cache else "off"), ("read_cache_kb", 4 * self.cache))

    def words(self):
        """Return the options of shingle-replay."""
        out = ["--behind", f"{4 * self.behind}K", "--ahead", f"{4 * self.ahead}K",
               "--regions", self.regions, "--cache", f"{4 * self.cache}K"]
        if self.frags:
            out += ["--defrag-frags", self.frags, "--defrag-hits", self.hits,
                    "--defrag-max", f"{4 * self.most}K", "--reread"]
        return out


# The cache holds the largest read, and a small part of what is read.
SETTINGS = {
    "no remedy": Remedies(),
    "defragmentation N 2": Remedies(frags=2),
    "defragmentation N 4 k 2": Remedies(frags=4, hits=2),
    "look-ahead-behind of 1 region": Remedies(behind=16, ahead=16),
    "look-ahead-behind of 8 regions": Remedies(behind=128, ahead=60, regions=8),
    "selective caching": Remedies(cache=320),
    "all remedies": Remedies(frags=6, hits=2, behind=8, ahead=12, regions=4, cache=280),
}


# --- loads -------------------------------------------------------------------------


@functools.cache
def pattern(name):
    """Return a load of Figure 7 of the paper: [(kind, block, blocks)]."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "load.csv")
        subprocess.run([LOADS, "generate", name, "--out", path], check=True,
                       stdout=subprocess.DEVNULL)
        with open(path, encoding="ascii") as handle:
            rows = [line.split(",") for line in handle]
    return [(WRITE if row[3] == "Write" else READ, int(row[4]) // 4096, int(row[5]) // 4096)
            for row in rows]


def anything(seed, end):
    """Return random requests within @end blocks: updates and scans of some ranges, discards."""
    rng, out = random.Random(seed), []
    ranges = [rng.randrange(end - 2 * MOST) for _ in range(12)]
    for _ in range(REQUESTS):
        kind = rng.choices((READ, WRITE, DISCARD), (10, 12, .4))[0]
        n = rng.choices((rng.randint(1, 6), rng.randint(1, 60), rng.randint(1, MOST)),
                        (20, 6, 2 if kind == READ else .2))[0]
        at = rng.choices((rng.choice(ranges) + rng.randrange(MOST), rng.randrange(end - n)),
                         (9, 1))[0]
        out.append((kind, at, n))
    return out


def combs(end):
    """Return writes of every other block of some ranges, and reads with more fragments than the target
    looks up at once, and than it rewrites in one step."""
    out = []
    # Nothing of these was ever written, but a guard makes fragments of them.
    out += [(READ, at - 8, 16) for at in range(END + BAND, END + 8 * BAND, BAND)]
    for at in range(7, end - MOST, end // 6):
        out += [(WRITE, at + i, 1) for i in range(0, 180, 2)]
        out += [(READ, at + first, n) for first, n in ((0, 180), (3, 64), (3, 65), (3, 66), (0, 180))]
    return out


def recorded(path):
    """Return the requests of a file of shingle-replay, extended to blocks."""
    with open(path, "rb") as handle:
        content = handle.read()
    expect(content.startswith(MAGIC), f"{path} is no file of requests of shingle-replay")
    out = []
    for sector, sectors, kind in struct.iter_unpack("<QII", content[len(MAGIC):]):
        at, end = sector // SECTORS, -(-(sector + sectors) // SECTORS)
        out += [(kind, first, min(MOST, end - first)) for first in range(at, end, MOST)]
    return out


# --- the two ------------------------------------------------------------------------


def replayed(requests, home, remedies):
    """Return the results of shingle-replay."""
    content = MAGIC + b"".join(struct.pack("<QII", SECTORS * at, SECTORS * n, kind)
                               for kind, at, n in requests)
    words = ["--json", "--unit", "4K", "--frontier", home * BAND, "--segment", f"{4 * BAND}K",
             "--guard", f"{4 * TRACK * (HEAD - 1)}K", *remedies.words()]
    done = subprocess.run([REPLAY, *map(str, words)], input=content, capture_output=True,
                          check=False)
    expect(not done.returncode, f"shingle-replay: {done.stderr.decode()}")
    return json.loads(done.stdout)


def stack_of(ctx, geo):
    """Return a formatted stack over a data device that stores nothing."""
    under, paths = [], {}
    for which, blocks in ctx.target.sizes(geo).items():
        if not blocks:
            continue
        if which == "data":
            under.append(dm.Device("under-data", [(0, SECTORS * blocks, "zero", "")]))
        else:
            under.append(ctx.pool.slice(blocks, f"under-{which}"))
        paths[which] = under[-1].path
    made = Stack(ctx.target, geo, paths, under)
    made.format()
    return made


def expected(of):
    """Return {counter of the target: its value} from the results of shingle-replay."""
    out = {name: of[name] for name in (
        "log_reads", "fragmented_reads", "read_fragments", "fragmented_read_fragments",
        "misordered_writes", "extents")}
    none = {"seeks": 0, "long_seeks": 0, "units": 0}
    for stream, kinds in of["streams"].items():
        classes = ("read", "write") if stream == "nols" else (
            "read", "write", "rewrite", "clean_read", "clean_write")
        for name in classes:
            for what in ("seeks", "long_seeks"):
                out[f"{stream}_{name}_{what}"] = kinds.get(name, none)[what]
    host, log = of["streams"]["nols"], of["streams"]["ls"]
    out |= {
        "host_read_blocks": host["read"]["units"], "host_write_blocks": host["write"]["units"],
        "placed_blocks": log["write"]["units"],
        "clean_read_blocks": log.get("clean_read", none)["units"],
        "clean_write_blocks": log["rewrite"]["units"],
        "rewritten_blocks": of["defrag"]["units"], "dropped_rewrites": of["defrag"]["dropped"],
        "cache_hits": of["cache"]["hits"], "cache_misses": of["cache"]["misses"],
        "region_hits": of["around"]["hits"], "region_misses": of["around"]["misses"],
        "moved_blocks": 0, "waiting_rewrites": 0,
    }
    return out


def run(ctx, requests, remedies):
    """Send the requests to the target and to shingle-replay, and compare all counters."""
    home = -(-max(at + n for _, at, n in requests) // BAND)
    # A rewrite may leave the rest of a segment unused.
    most = sum(n if kind == WRITE else 2 * n for kind, _, n in requests
               if kind == WRITE or remedies.frags)
    geo = Geometry("seeks", band=BAND, data=home, cache=max(3, most // BAND + 3), track=TRACK,
                   head=HEAD, home=True, meta="separate", journal=64, ckpt=16,
                   extents=2 * most // 3 + 4 * len(requests),
                   options=(("clean", "off"), *remedies.keys()))
    made = stack_of(ctx, geo)
    device = made.open()
    before = counters.cleared(made)
    with made.blk() as dev:
        call = {READ: dev.read, DISCARD: dev.discard,
                WRITE: lambda at, n: dev.write(at, bytes(4096 * n))}
        for kind, at, n in requests:
            call[kind](at, n)
            if kind == READ and remedies.frags:
                until(lambda: not stats(device)["waiting_rewrites"], "a rewrite does not end")
    target, now = stats(device), counters.below(made)["data"]
    of = replayed(requests, home, remedies)
    made.verify()
    made.close()
    made.check()
    want = expected(of)
    missing = [name for name in target if name.split("_")[0] in ("nols", "ls", "plain")
               and name not in want]
    expect(not missing, f"counters that are not compared: {missing}")
    wrong = [f"{name} {target[name]}, of shingle-replay {value}"
             for name, value in want.items() if target[name] != value]
    expect(not wrong, "; ".join(wrong))
    log = of["streams"]["ls"]
    moved = tuple(sum(log[name]["units"] for name in names if name in log)
                  for names in (("read", "clean_read"), ("write", "rewrite")))
    seen = tuple(new - old for new, old in zip(now, before["data"]))
    expect(seen == moved, f"blocks read and written below {seen}, counted {moved}")
    return {"requests": len(requests), "ls_seeks": log["seeks"],
            **{name: target[name] for name in (
                "fragmented_reads", "rewritten_blocks", "dropped_rewrites", "cache_hits",
                "region_hits", "nols_read_seeks", "ls_read_seeks", "ls_clean_read_seeks")}}


def load_of(name):
    if name not in PATTERNS:
        return recorded(name)
    return [*pattern(name), *combs(END), *anything(name, END)]


def agree(ctx, names, remedies):
    requests = [one for name in names for one in load_of(name)]
    of = run(ctx, requests, remedies)
    # Otherwise the load has not tested what it is for.
    if names == PATTERNS:
        expect(of["fragmented_reads"] > 500, "few reads are fragmented")
        for on, name in ((remedies.frags, "rewritten_blocks"), (remedies.cache, "cache_hits"),
                         (remedies.behind, "region_hits"),
                         (remedies.frags, "dropped_rewrites")):
            expect(bool(of[name]) == bool(on), f"{name} is {of[name]}")
    return of


def cases(_target, options):
    if "trace" in options:
        return [(f"{os.path.basename(path)}, {label}",
                 lambda ctx, p=path, r=remedies: agree(ctx, (p,), r))
                for path in options["trace"].split(",")
                for label, remedies in SETTINGS.items()]
    return [(f"patterns, {label}", lambda ctx, r=remedies: agree(ctx, PATTERNS, r))
            for label, remedies in SETTINGS.items()]
