# SPDX-License-Identifier: GPL-2.0
"""The load of the KVIMR paper at its scale, calculated without a device: track rewrites and syncs
of each scheme, beside those that the paper published.

There are three settings.  The first has 50,000 tracks of 2 MB, a RocksDB-like store with files of
64 MB, 76,800 MB of records, and compactions that take files in turn.  In the second compactions
take the file with least overlap, as RocksDB does.  The third is probably the paper's prototype: 100
GB in tracks of 2 MiB, 75 million records of 1 KiB with their keys, and files a little longer than
64 MiB, so that they take 33 tracks.

The result depends on how a store treats a file that overlaps nothing on the next level.  The paper
does not say what its stores did:

  keep      the file keeps its tracks and the allocator learns of its new level
  silent    the file keeps its tracks and the allocator learns nothing: the paper's own
            interface has no call for it
  rewrite   the file is rewritten

"most" is not the paper's: bottoms are for the level with most tracks instead of the highest, so
that the first files of a new level do not exchange the tiers.

There is no device and no guest; each setting takes a second.
"""

import json
import subprocess

from lab.cache import TOP

from experiments import runner
from experiments.kvimr_paper import A_FILE, LESS
from experiments.tables import Table, cell

MOVES = ("keep", "silent", "rewrite")
SCHEMES = (
    ("Seq", "seq,naive"), ("Seq-M", "seq,merged"),
    ("3Phase", "3phase,naive"), ("3Phase-M", "3phase,merged"),
    ("KVIMR-N", "compaction,naive"), ("KVIMR-M", "compaction,merged"),
    ("most, N", "compaction,naive,largest=most"),
    ("most, M", "compaction,merged,largest=most"),
)
# The published schemes, by the names that the paper gives them.
NAMES = {"seq": "Seq", "3phase": "3Phase", "compaction": "KVIMR-N",
         "compaction-merged": "KVIMR-M"}
PAPER = {NAMES[scheme]: figures for scheme, figures in A_FILE.items()}
# Results of a separate model with next fit.
SPEC = {
    "keep": (254005, 16439, 49545, 24792, 144316, 74726),
    "rewrite": (268401, 17669, 37369, 18713, 2029, 1089),
}


SETTINGS = (("50000", "76800M", "64M", "round"), ("50000", "76800M", "64M", "overlap"),
            ("47684", "75000M", "65M", "overlap"))


def load(moves, setting, options):
    tracks, size, file, pick = setting
    words = [w for _, scheme in SCHEMES for fit in ("next", "first")
             for w in ("--model", f"{scheme},{fit}")]
    done = subprocess.run(
        [TOP / "build/userspace/shingle-levels", "--json", "--moves", moves,
         "--tracks", tracks, "--load", size, "--record", options.record,
         "--file", file, "--pick", pick, "--seed", str(options.seed), *words],
        stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(f"imr-model: shingle-levels ended with "
                         f"{done.returncode}")
    return json.loads(done.stdout)


def show(moves, of, standard, options):
    store = of["store"]
    got = {m["name"]: m for m in of["models"]}
    files = store["files"]
    print(f"\nmoves {moves}: {files:,} files, {store['written_bytes'] / 1e12:.3f} "
          f"TB, {store['compactions']:,} compactions, "
          f"{store['moved'] + store['rewritten']:,} moves; levels "
          f"{', '.join(str(v['files']) for v in of['levels'] if v['files'])}")
    table = Table("", ["", "rewrites", "spec 13", "first fit", "syncs", "rewrites a file", "paper",
                       "syncs a file", "paper", "files with RMW, %", "tracks of the other tier"])
    for i, (name, scheme) in enumerate(SCHEMES):
        m, first = got[f"{scheme},next"], got[f"{scheme},first"]
        spec = SPEC[moves][i] if standard and i < len(SPEC.get(moves, ())) else None
        paper = PAPER.get(name, (None, None))
        table.add(name, *(cell(v, form) for v, form in (
            (m["rewrites"], ",d"), (spec, ",d"), (first["rewrites"], ",d"), (m["syncs"], ",d"),
            (m["rewrites"] / files, ".3f"), (paper[0], ""), (m["syncs"] / files, ".3f"),
            (paper[1], ""), (100 * m["rmw_files"] / files, ".1f"),
            (m["tier_miss"] + m["surplus"], ",d"))))
    runner.show(options, table)
    for one, other, rewrites, syncs in LESS:
        one, other = NAMES[one], NAMES[other]
        a, b = (got[f"{dict(SCHEMES)[x]},next"] for x in (one, other))

        def less(what, a=a, b=b):
            return 100 * (1 - a[what] / b[what]) if b[what] else 0
        print(f"  {one} below {other}: rewrites {less('rewrites'):6.2f} % (paper "
              f"{rewrites} %), syncs {less('syncs'):6.2f} % (paper {syncs} %)")
    return distance({name: got[f"{scheme},next"] for name, scheme in SCHEMES},
                    files)


def distance(got, files):
    """Return the mean factor between these figures and the paper's, each for one file."""
    factor = 1
    for name, (rewrites, syncs) in PAPER.items():
        for mine, paper in ((got[name]["rewrites"], rewrites),
                            (got[name]["syncs"], syncs)):
            ratio = mine / files / paper
            factor *= max(ratio, 1 / ratio) if ratio else 1e9
    return factor ** (1 / (2 * len(PAPER)))


def main():
    p = runner.Parser("imr-model", __doc__, "seed")
    p.add_argument("--record", default="1M",
                   help="1K is the paper's: ten minutes and 2 GB of memory")
    p.add_argument("--setting", metavar="TRACKS,LOAD,FILE,PICK",
                   help="another one, as 50000,76800M,64M,round")
    options = p.parse_args()
    settings = SETTINGS
    if options.setting:
        settings = [tuple(options.setting.split(","))]
        if len(settings[0]) != 4:
            p.error("a setting has four words")
    runner.prepare("imr-model", "levels")
    found = {}
    for setting in settings:
        tracks, size, file, pick = setting
        print(f"\n=== {tracks} tracks, load {size}, files of {file}, compactions "
              f"take {'files in turn' if pick == 'round' else 'least overlap'}")
        near = {moves: show(moves, load(moves, setting, options),
                            setting in SETTINGS[:2], options) for moves in MOVES}
        found[",".join(setting)] = near
        print("\nmean factor between these figures a file and the paper's: " +
              ", ".join(f"{moves} {near[moves]:.2f}" for moves in MOVES) +
              f"; nearest: {min(near, key=near.get)}")
    runner.keep(options, found)
    return 0
