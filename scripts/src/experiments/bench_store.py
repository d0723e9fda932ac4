# SPDX-License-Identifier: GPL-2.0
"""Compare the key-value store with LevelDB and RocksDB on one file system, for scripts/bench/run.

kvbench sends each store the same operations from the same seeds.  Rounds are interleaved: within a
round the stores take turns row by row, so other load on the machine affects all of them. The result
is the median of the ratios of each round.

kv does all I/O past the page cache, so it gets --cache for what it reads.  LevelDB and RocksDB have
8 MiB of their own and the whole page cache, which holds all that they have written here.  Rows
"opened again" begin with nothing cached: the kernel drops the pages of their files, too. Memtables,
Bloom filters and values are alike, and nothing is compressed.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from lab.cache import TOP

from experiments.tables import Table, cell

BUILT = TOP / "build/userspace"
STORES = ("kv", "leveldb", "rocksdb")
OTHERS = STORES[1:]
# Values of 100 bytes with KEYS as in db_bench, of 1000 bytes with RECORDS as in YCSB.
KEYS, RECORDS, MEMTABLE_MIB, BAND_MIB = 600_000, 100_000, 4, 8
FILE_MIB, CACHE_MIB, OTHERS_CACHE_MIB = 2048, 256, 8
AGAIN = "opened again"
# A sitting begins with an empty store; a row is one run of kvbench: (name, words).
DB = ("-r", KEYS)
YCSB = ("-r", RECORDS)
SITTINGS = (
    (("fillseq", ("-w", "fillseq", "-n", KEYS)),
     (f"readseq, {AGAIN}", ("-w", "readseq", *DB, "-n", KEYS // 1000))),
    # With --load kvbench loads the records before it measures, and the store stays open.
    (("readseq", ("-w", "readseq", *DB, "-n", 4 * KEYS // 1000, "--load")),),
    (("fillrandom", ("-w", "fillrandom", *DB, "-n", KEYS)),
     (f"readrandom, {AGAIN}", ("-w", "readrandom", *DB, "-n", KEYS // 2)),
     ("overwrite", ("-w", "overwrite", *DB, "-n", KEYS))),
    (("load", ("-w", "load", "-n", RECORDS)),
     (f"c, {AGAIN}", ("-w", "c", *YCSB, "-n", RECORDS))),
    *(((name, ("-w", name, *YCSB, "-n", RECORDS // 10 if name == "e" else RECORDS, "--load")),)
      for name in "abcdef"),
    tuple((f"synced, {n} threads" if n > 1 else "synced, 1 thread",
           ("-w", "overwrite", *DB, "-n", 1000 * n, "-t", n, "--sync"))
          for n in (1, 4, 16, 32)),
    (("queue", ("-w", "queue", "-r", KEYS // 10, "-n", KEYS, "--load")),),
)
ROWS = tuple(name for sitting in SITTINGS for name, _ in sitting)
WRITES = ("update", "insert", "readmodifywrite", "delete")


class Store:
    """An empty store in a directory."""

    def __init__(self, name, folder):
        self.name, self.path = name, folder / name
        cache = CACHE_MIB if name == "kv" else OTHERS_CACHE_MIB
        self.words = ["--cache", f"{cache}M", "--memtable", f"{MEMTABLE_MIB}M"]
        if name == "kv":
            with open(self.path, "wb") as f:
                f.truncate(FILE_MIB << 20)
            subprocess.run([BUILT / "kv", "format", "--band", f"{BAND_MIB}M", self.path],
                           check=True, stdout=subprocess.DEVNULL)

    def row(self, words, seed):
        done = subprocess.run(
            [BUILT / "kvbench", "run", "--json", "-s", self.name, "-d", self.path, *self.words,
             "--seed", str(seed), *map(str, words)], check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    def forget(self):
        """Drop the store's files from the page cache."""
        for path in [self.path] if self.path.is_file() else self.path.iterdir():
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)

    def remove(self):
        (shutil.rmtree if self.path.is_dir() else Path.unlink)(self.path)


def figures(of):
    """Return operations (for scans: records) a second including the final sync, and the worst
    write in ms."""
    ops = of["ops"]
    done = ops["scan"]["records"] if list(ops) == ["scan"] else of["operations"]
    worst = [ops[kind]["service"]["max_us"] / 1000 for kind in WRITES if kind in ops]
    return {"rate": done / (of["seconds"] + of["sync_s"]), "worst_ms": max(worst, default=None)}


def measure(rounds, stores=STORES, where="/var/tmp", rows=ROWS):
    """{row: {store: [figures of a round]}}"""
    out = {name: {store: [] for store in stores} for name in rows}
    for seed in range(1, rounds + 1):
        for sitting in SITTINGS:
            if not any(name in rows for name, _ in sitting):
                continue
            with tempfile.TemporaryDirectory(dir=where, prefix="shingle-bench.") as folder:
                there = [Store(name, Path(folder)) for name in stores]
                for name, words in sitting:
                    # Rotate, so that each store comes first equally often.
                    turn = seed % len(there)
                    for store in there[turn:] + there[:turn]:
                        if AGAIN in name:
                            store.forget()
                        of = figures(store.row(words, seed))
                        if name in out:
                            out[name][store.name].append(of)
                for store in there:
                    store.remove()
    return out


def ratio(row, other, what):
    """Return the median over rounds of kv's figure over another's; None if there are no writes."""
    pairs = [(mine[what], its[what]) for mine, its in zip(row["kv"], row[other])]
    return statistics.median(a / b for a, b in pairs) if pairs[0][0] is not None else None


def table(found):
    stores = list(next(iter(found.values())))
    others = [name for name in stores if name != "kv"]
    out = Table("operations a second, longest writes in ms, and the ratios to the others", [
        "", *stores, *(f"/ {name}" for name in others), *(f"{name}, ms" for name in stores),
        *(f"/ {name}" for name in others), ""])
    for name, row in found.items():
        middle = {what: {store: None if of[0][what] is None else
                         statistics.median(f[what] for f in of) for store, of in row.items()}
                  for what in ("rate", "worst_ms")}
        rates, worst = ({other: ratio(row, other, what) for other in others}
                        for what in ("rate", "worst_ms"))
        late = "leveldb" in others and (rates["leveldb"] < 1 or (worst["leveldb"] or 0) > 1)
        out.add(name, *(cell(v, ",.0f") for v in middle["rate"].values()),
                *(cell(v, ",.2f") for v in rates.values()),
                *(cell(v, ",.1f") for v in middle["worst_ms"].values()),
                *(cell(v, ",.2f") for v in worst.values()), "MISSED" if late else "")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stores", default=",".join(STORES), help="some of them (all)")
    parser.add_argument("--row", action="append", metavar="NAME", choices=ROWS,
                        help="only this one, which may be repeated")
    parser.add_argument("--where", default="/var/tmp", help="a folder on the file system")
    options = parser.parse_args()
    print(table(measure(options.rounds, options.stores.split(","), options.where,
                        options.row or ROWS)).text())
