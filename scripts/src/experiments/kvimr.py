# SPDX-License-Identifier: GPL-2.0
"""The load of the KVIMR paper in the paper's own set-up: calculated times, beside the published
ones.

A store with levels loads 75,000 MiB into 47,684 tracks of 2 MiB, which are 100 GB of platter's
st500dm002 (the drive that the paper emulated its disk on).  Files of 65 MiB, 64 and an index, take
33 tracks; the inputs of compactions are read a track at a time; a move changes no file and is not
reported.  Tops are copied to the backup region and restored from there one by one.  A sync takes a
rotation of the platter, 8.33 ms, beside the writes that it waits for.  The plain disk also pays for
its one sync a file.

shingle-levels calculates all of it (--drive): its load, its model, platter's mechanics, no guest
and no device.  A load takes a second or two.

Parts (--parts):
  load     all schemes, means over the seeds
  ways     the same for other set-ups, each with one thing changed, except the last
           two: what brings 3phase to the paper's figure, and the "fast disk" of
           scripts/experiments imr
  sizes    merging by the size of files, Figure 8
  mixes    Figure 7: the same load in records of 1 KiB, 76.8 million of them, then 7.5
           million operations.  Half a minute of CPU and 0.65 GB of memory for each of
           15 runs a seed.
"""

import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from common.output import store
from lab.cache import TOP, digest

from experiments import runner
from experiments.resume import earlier
from experiments.evaluation import last_speed, spread
from experiments.kvimr_paper import (
    A_FILE,
    COURSE,
    GROWTH,
    LESS,
    MIXES,
    OF_PLAIN,
    OPERATIONS,
    RATIOS,
    SET_UP,
    with_index,
)
from experiments.tables import Table, cell

OUT = runner.outputs("kvimr")
TOOL = TOP / "build/userspace/shingle-levels"
SCHEMES = {
    "plain": "3phase", "plain-seq": "seq",
    "seq": "seq,naive", "seq-merged": "seq,merged",
    "3phase": "3phase,naive", "3phase-merged": "3phase,merged",
    "compaction": "compaction,naive", "compaction-merged": "compaction,merged",
}
FOUR = ("seq", "3phase", "compaction", "compaction-merged")
PARTS = ("load", "ways", "sizes", "mixes")
PAPER = {
    "--drive": SET_UP["drive"], "--flush-us": str(SET_UP["flush_us"]),
    "--tracks": str(SET_UP["tracks"]), "--load": f"{SET_UP['load']}M",
    "--record": f"{SET_UP['record']}K", "--file": f"{with_index(64)}M",
    "--pick": SET_UP["pick"], "--moves": SET_UP["moves"], "copies": SET_UP["copies"],
    "fit": "next",
}
# The changes of each set-up; fit and copies become words of --place and of no option.
WAYS = {
    "the paper's": {},
    "copied together": {"copies": "--reread"},
    "copies in memory": {"copies": None},
    "free syncs": {"--flush-us": "0"},
    "32 tracks a file": {"--file": "64M"},
    "files in turn": {"--pick": "round"},
    # 75 million records of 1 KiB, with and without a 64th more for indexes.
    "74,387 MiB": {"--load": "74387M"},
    "73,242 MiB": {"--load": "73242M"},
    "first fit": {"fit": "first"},
    "moves are told": {"--moves": "keep"},
    "moves rewrite": {"--moves": "rewrite"},
    "kvimr's medium": {"--drive": "kvimr"},
    "medium, in turn": {"--drive": "kvimr", "--pick": "round"},
    "fast disk": {"--drive": "kvimr", "--flush-us": "0", "--tracks": "50000",
                  "--load": "76800M", "--file": "64M", "copies": None},
}
MIXED = {"--record": "1K", "--ops": str(OPERATIONS)}


def arguments(scheme, seed, *changes):
    """Return the arguments of one run."""
    words = {**PAPER, "--seed": str(seed)}
    for change in changes:
        words.update(change)
    copies, fit = words.pop("copies"), words.pop("fit")
    args = [w for pair in words.items() for w in pair]
    # The plain disk has nothing to copy.
    if copies and not scheme.startswith("plain"):
        args.append(copies)
    return ["--json", "--place", f"{SCHEMES[scheme]},{fit}", *args]


def measure(args, resume, out=None):
    """Run shingle-levels, or with @resume return an earlier result of the same program."""
    words = {"args": list(args), "program": digest(TOOL.read_bytes())}
    out = out or OUT / f"{digest(words['program'], *args)}.json"
    of = earlier(out, words) if resume else None
    if of:
        return of
    done = subprocess.run([TOOL, *args], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(f"kvimr: shingle-levels ended with {done.returncode}")
    of = {**json.loads(done.stdout), "words": words}
    store(out, json.dumps(of))
    return of


def figures(of):
    device, load = of["device"], of["device"]["load"]
    # Without tops to protect, a sync is a flush.  A mix counts, too.
    done = of.get("done", {"rewrites": 0, "syncs": load["flushes"]})
    # The paper's time of persisting is that of compactions, without flushes of the memtable.
    persist, rewriting, rewrites = (device[f"load_compact_{what}"] for what in
                                    ("persist_s", "rewriting_s", "rewrites"))
    return {
        "files": of["load"]["files"], "speed": device["load_bytes_per_s"],
        "last": last_speed(of, 1 / 75), "compact": device["load_compact_s"],
        "persist": persist, "persist_all": load["persist_s"],
        "rewriting": rewriting / persist,
        "rewrites": done["rewrites"] / of["load"]["files"],
        "syncs": done["syncs"] / of["load"]["files"],
        # The time of rewriting divided by the tops rewritten.
        "rewrite_ms": 1000 * rewriting / rewrites if rewrites else None,
        "mix": device["mix_ops_per_s"],
        "course": [(0, 0., 0), *((p["inserted"], p["seconds"], p.get("done_rewrites", 0))
                                 for p in of["points"])],
    }


def of_plain(got, scheme, what):
    """Return for each seed the scheme's figure divided by the plain disk's."""
    return [got[scheme, seed][what] / got["plain", seed][what]
            for seed in sorted({seed for _, seed in got})]


def over(got, one, other, what):
    return [got[one, seed][what] / got[other, seed][what]
            for seed in sorted({seed for _, seed in got})]


def rewrites_from(course):
    """Return the number of records at which the first top is rewritten; None if none ever is."""
    return next((inserted for inserted, _, rewrites in course if rewrites), None)


def ahead_from(course, others):
    """Return the number of records from which each part of the load is faster than in all of
    @others, which have the same parts.  None if the last part is not."""
    parts = [[b[1] - a[1] for a, b in zip(c, c[1:])] for c in (course, *others)]
    at = None
    for nr, ours in reversed(list(enumerate(parts[0]))):
        if any(theirs[nr] <= ours for theirs in parts[1:]):
            break
        at = course[nr][0]
    return at


def mean_course(got, scheme):
    """Return the mean over the seeds; their points lie at the same numbers of records."""
    return [(at[0], statistics.mean(seconds), statistics.mean(rewrites)) for at, seconds, rewrites
            in (zip(*same) for same in zip(*(of["course"] for (s, _), of in sorted(got.items())
                                             if s == scheme)))]


def show_load(got, schemes, options):
    seeds = sorted({seed for _, seed in got})
    mean = {what: statistics.mean(got["plain", seed][what] for seed in seeds)
            for what in ("files", "speed", "persist", "persist_all")}
    print(f"\nload, {len(seeds)} seeds: the plain disk writes {mean['files']:,.0f} files at "
          f"{mean['speed'] / 1e6:.2f} MB/s, persisting {mean['persist_all']:,.0f} s, "
          f"{mean['persist']:,.0f} s of them in compactions")
    print("(persist, rewriting and ms: in compactions, as the paper's; all: with what the "
          "memtable writes)")
    table = Table("", ["of plain", "throughput", "paper", "compact", "paper", "persist", "paper", "all",
                       "rewriting, %", "paper", "ms", "rw/file", "paper", "sy/file", "paper"])
    for s in schemes:
        paper, file = OF_PLAIN.get(s, (None,) * 4), A_FILE.get(s, (None,) * 2)
        here = {what: statistics.mean(got[s, seed][what] for seed in seeds)
                for what in ("rewriting", "rewrites", "syncs")}
        ratio = {what: statistics.mean(of_plain(got, s, what))
                 for what in ("compact", "persist", "persist_all")}
        ms = [got[s, seed]["rewrite_ms"] for seed in seeds]
        table.add(s, spread(of_plain(got, s, "speed"), ".3f"), *(cell(v, form) for v, form in (
            (paper[0], ".3f"), (ratio["compact"], ".2f"), (paper[1], ".2f"),
            (ratio["persist"], ".2f"), (paper[2], ".2f"), (ratio["persist_all"], ".2f"),
            (100 * here["rewriting"], ".1f"), (paper[3] and 100 * paper[3], ".1f"),
            (None if None in ms else statistics.mean(ms), ".1f"), (here["rewrites"], ".3f"),
            (file[0], ".3f"), (here["syncs"], ".3f"), (file[1], ".3f"))))
    runner.show(options, table)
    for one, other, whole, last in RATIOS:
        print(f"  {one} over {other}: {spread(over(got, one, other, 'speed'), '.3f')}"
              f"{f' (paper {whole})' if whole else ''}; the last 1/75 "
              f"{spread(over(got, one, other, 'last'), '.3f')}"
              f"{f' (paper {last})' if last else ''}")
    for one, other, rewrites, syncs in LESS:
        less = [100 * (1 - statistics.mean(over(got, one, other, what)))
                for what in ("rewrites", "syncs")]
        print(f"  {one} below {other}: rewrites {less[0]:.2f} % (paper {rewrites} %), "
              f"syncs {less[1]:.2f} % (paper {syncs} %)")


def show_course(got):
    """Print Figure 6."""
    seeds = sorted({seed for _, seed in got})
    print("Figure 6: thousands of records (the paper's millions)")

    def told(values):
        # List all seeds, because a mean over a missing value is undefined.
        return ", ".join("never" if v is None else f"{v / 1000:.1f}" for v in values)
    for s in FOUR:
        begin = told(rewrites_from(got[s, seed]["course"]) for seed in seeds)
        paper = COURSE.get(s, {}).get("rewrites")
        print(f"  {s}: rewrites by {begin}{f' (paper: from {paper})' if paper else ''}")
    ahead = [ahead_from(got[FOUR[-1], seed]["course"],
                        [got[s, seed]["course"] for s in FOUR[:-1]]) for seed in seeds]
    mean = ahead_from(mean_course(got, FOUR[-1]), [mean_course(got, s) for s in FOUR[:-1]])
    print(f"  {FOUR[-1]} is ahead of all from {told([mean])} on by the means of the seeds "
          f"(paper: from {COURSE[FOUR[-1]]['ahead']}), by seed from {told(ahead)}")


def show_ways(got, options):
    """Print @got by set-up: throughput relative to plain, and figures of 3phase and seq for one
    file."""
    table = Table("throughput of plain, each with one thing changed; and 3phase a file",
                  ["", *FOUR, "rewrites", "syncs", "ms each", "seq, ms"],
                  [["published", *(f"{OF_PLAIN[s][0]:.3f}" for s in FOUR),
                    f"{A_FILE['3phase'][0]:.2f}", f"{A_FILE['3phase'][1]:.1f}", "", ""]])
    for way, of in got.items():
        seeds = sorted({seed for _, seed in of})
        three = {what: statistics.mean(of["3phase", seed][what] for seed in seeds)
                 for what in ("rewrites", "syncs", "rewrite_ms")}
        seq = statistics.mean(of["seq", seed]["rewrite_ms"] for seed in seeds)
        table.add(way, *(f"{statistics.mean(of_plain(of, s, 'speed')):.3f}" for s in FOUR),
                  f"{three['rewrites']:.2f}", f"{three['syncs']:.1f}",
                  f"{three['rewrite_ms']:.1f}", f"{seq:.1f}")
    runner.show(options, table)


def show_sizes(got, options):
    table = Table("Figure 8: compaction-merged over compaction, by the size of files; and MB/s",
                  ["MB", "more, %", "paper", *FOUR])
    for size, of in got.items():
        more = [100 * (r - 1) for r in
                over(of, "compaction-merged", "compaction", "speed")]
        table.add(size, spread(more, "+.1f"), f"+{GROWTH[size]}", *(
            f"{statistics.mean(of[s, seed]['speed'] / 1e6 for s_, seed in of if s_ == s):.2f}"
            for s in FOUR))
    runner.show(options, table)


def least_gain(of):
    """Return by how many per cent at least both of KVIMR's schemes exceed both others."""
    seeds = sorted({seed for _, seed in of})
    mean = {s: statistics.mean(of[s, seed]["mix"] for seed in seeds) for s in FOUR}
    return 100 * (min(mean[s] for s in FOUR[2:]) / max(mean[s] for s in FOUR[:2]) - 1)


def show_mixes(got, options):
    table = Table("Figure 7: operations per second after the load",
                  ["", "plain", *FOUR, "least gain, %", "paper"])
    for mix, of in got.items():
        table.add(mix, *(spread([of[t, seed]["mix"] for t, seed in sorted(of) if t == s], ".1f")
                         for s in ("plain", *FOUR)),
                  f"{least_gain(of):+.1f}", f"{MIXES[mix]:+}")
    runner.show(options, table)


def wanted(parts, seeds):
    """Return all runs by part, by row of the part, by scheme and seed."""
    five = ("plain", *FOUR)
    rows = {
        "load": {"": (SCHEMES, ())},
        "ways": {way: (five, (change,)) for way, change in WAYS.items()},
        "sizes": {size: (FOUR, ({"--file": f"{with_index(size)}M"},)) for size in GROWTH},
        "mixes": {mix: (five, (MIXED, {"--mix": mix})) for mix in MIXES},
    }
    return {part: {row: {(s, seed): arguments(s, seed, *changes)
                         for seed in seeds for s in schemes}
                   for row, (schemes, changes) in rows[part].items()}
            for part in parts}


def main():
    p = runner.Parser("kvimr", __doc__, "seeds", "jobs", "resume", seeds="1,2,3,4,5")
    p.add_argument("--parts", default="load,ways,sizes",
                   help=f"some of {','.join(PARTS)} (load,ways,sizes)")
    options = p.parse_args()
    try:
        parts = runner.name_list(options.parts, PARTS, "part")
        seeds = runner.number_list(options.seeds, 0, "--seeds:")
    except ValueError as error:
        runner.refuse("kvimr", f"{error}")
    runner.prepare("kvimr", "levels")
    want = wanted(parts, seeds)
    # Parts share runs.  Each run is made once and in order, so that an interrupted experiment
    # leaves results that belong together.
    runs = list(dict.fromkeys(tuple(args) for rows in want.values() for row in rows.values()
                              for args in row.values()))
    began = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        done = dict(zip(runs, pool.map(lambda r: figures(measure(r, options.resume)), runs)))
    runner.keep(options, {" ".join(run): of for run, of in done.items()})
    print(f"{len(runs)} runs, {time.monotonic() - began:.0f} s", file=sys.stderr)
    for part, rows in want.items():
        got = {row: {of: done[tuple(args)] for of, args in runs.items()}
               for row, runs in rows.items()}
        if part == "load":
            show_load(got[""], SCHEMES, options)
            show_course(got[""])
        else:
            {"ways": show_ways, "sizes": show_sizes, "mixes": show_mixes}[part](got, options)
    return 0
