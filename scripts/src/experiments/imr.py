# SPDX-License-Identifier: GPL-2.0
"""Run the load of the KVIMR paper on interlaced disks, under the virtual clock.

A RocksDB-like store with files of 64 MB loads 76.8 % of 50,000 tracks of 2 MB in records of 1 MB.
The disk turns at 7,200 rpm; it has no store, only its time is emulated. shingle-levels allocates
the tracks and protects tops on the bare disk, as the paper's middleware does (--through
middleware), or the imr target does both (--through target).

The plain disk is not interlaced and gets its tracks in the order of 3phase, as the paper's does; a
second run, which the paper does not have, uses them in sequence.

By default (--set-up fast) sizes are divided by 32: tracks of 64 KiB, with the paper's number of
tracks and files.  A track is still one rotation, and a seek over a number of tracks takes the same
time, so all ratios stay.  Speeds are printed times 32, that is, for the full size.  Two things do
not shrink: a block, the least that is read or written, and the time of a command, which comes once
a track instead of twice.  --scale 1 is the paper's own size.  A scheme takes half a minute with the
default, two minutes at full size, and ten through the target at full size.

--set-up paper is that of scripts/experiments kvimr, also through the target: tracks of 2 MiB on the
paper's own drive, which is not interlaced, as in the paper, with nothing divided.
"""

import json
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from lab.cache import TOP

from experiments import runner
from experiments.resume import earlier, sources
from experiments.evaluation import last_speed, spread
from experiments.kvimr_paper import GROWTH, LESS, OF_PLAIN, OPERATIONS, RATIOS, SET_UP, with_index
from experiments.tables import Table, cell

OUT = runner.outputs("imr")
MIB = 1 << 20
TRACK, FILE = 2 * MIB, 64 * MIB
# The largest size of the target's buffer.
BUFFER = 1024 * MIB
SCHEMES = {
    "plain": ("plain", "3phase", "none"), "plain-seq": ("plain", "seq", "none"),
    "seq": ("imr", "seq", "naive"), "seq-merged": ("imr", "seq", "merged"),
    "3phase": ("imr", "3phase", "naive"),
    "3phase-merged": ("imr", "3phase", "merged"),
    "compaction": ("imr", "compaction", "naive"),
    "compaction-merged": ("imr", "compaction", "merged"),
}
# Defaults of the options.  A drive without a length is as long as its tracks.
SET_UPS = {
    "fast": {"drive": "kvimr", "drive_sectors": None, "flush_us": 0, "tracks": 50000,
             "load": None, "record": 1024, "pick": "overlap", "moves": "silent",
             "copies": None, "indexed": False, "scale": 32},
    "paper": {**SET_UP, "indexed": True, "scale": 1},
}
# The sources that a result depends on, besides the case's own parameters.
SOURCES = ("core", "dm-imr", "dm-platter", "userspace/include", "userspace/levels",
           "userspace/shingle", "scripts/src/experiments/in_guest/imr.py",
           *(f"tests/guest/{name}.py" for name in ("bench", "blk", "dm", "media", "targets")))
# Student's t for 95 %, by the number of samples.
STUDENT = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306,
           10: 2.262}


def words_of(scheme, moves, size, through, seed, options):
    """Return the words for the guest."""
    kind, policy, rmw = SCHEMES[scheme]
    layer = "plain" if kind == "plain" else through
    size = with_index(size) if options.indexed else size
    file_tracks = -(-size // TRACK)
    args = ["--scale", options.scale, "--tracks", options.tracks, "--file",
            f"{size}B", "--record",
            f"{(options.record << 10) // options.scale}B", "--moves", moves, "--pick",
            options.pick, "--seed", seed, "--points", 75]
    args.append("--verify" if options.verify else "--no-contents")
    if options.load:
        args += ["--load", f"{options.load * MIB // options.scale}B"]
    if options.mix:
        args += ["--mix", options.mix]
        args += ["--ops", options.ops] if options.ops else []
    if layer == "target":
        args += ["--hints", "--model", f"{policy},{rmw},pending",
                 "--model", f"{policy},{rmw}"]
    else:
        args += ["--place", policy if kind == "plain" else f"{policy},{rmw}"]
        args += [options.copies] if options.copies and kind != "plain" else []
    return {
        "layer": layer, "policy": policy, "rmw": rmw, "tracks": options.tracks,
        "file_tracks": file_tracks, "track_bytes": TRACK // options.scale,
        # A whole file is gathered, and a second one if the target's buffer has room for it.
        "buffer_tracks": min(2 * file_tracks, BUFFER * options.scale // TRACK),
        # The backup region: two tops for each track of a file, beside bottoms that stay empty.
        # Every disk has them, and also the tracks that the target reserves: a guard, and at both
        # ends a track with a header and the one beside it.  So seek distances are the same on all
        # disks.
        "spare": 4 * file_tracks + 6, "wcache": options.wcache,
        "drive": options.drive, "drive_sectors": options.drive_sectors,
        "medium": {**({"timing": "none"} if options.verify else {}),
                   **({"flush_us": options.flush_us} if options.flush_us else {})},
        "store": options.verify,
        "keys": dict(k.split("=", 1) for k in options.set) if layer == "target" else {},
        "args": [str(a) for a in args],
    }


def measure(run, options):
    scheme, moves, size, through, seed = run
    words = {**words_of(*run, options), "sources": sources(SOURCES)}
    usual = SET_UPS[options.set_up]
    other = [f"{name}{getattr(options, name)}"
             for name in ("flush_us", "copies", "tracks", "load", "ops")
             if getattr(options, name) != usual.get(name)]
    name = "-".join(map(str, [options.set_up, scheme, moves, size // MIB, through,
                              options.scale, options.record, options.pick, options.wcache,
                              options.mix or "load", seed, *options.set, *other]))
    out = OUT / f"{name}.json"
    of = earlier(out, words) if options.resume else None
    if of:
        return of
    out.unlink(missing_ok=True)
    began = time.monotonic()
    rc = subprocess.run(
        runner.in_guest("imr", json.dumps(words), out, timeout=options.timeout, rw=OUT),
        cwd=TOP, check=False).returncode
    if rc:
        raise SystemExit(f"imr: the guest for {name} ended with status {rc}")
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return json.loads(out.read_text())


def figures(of):
    """Return the figures under the same names for both layers.  Rewrites and syncs are counted over
    load and mix together, so with a mix there is no count for the load alone and none per file."""
    device, load = of["device"], of["device"]["load"]
    got = {
        "files": of["load"]["files"],
        "tracks": of["load"]["written_bytes"] / of["track_bytes"], "compactions": of["load"]["compactions"],
        "seconds": device["load_s"], "persist": load["persist_s"],
        "compact": device["load_compact_s"],
        # For tracks of 2 MB.
        "speed": device["load_bytes_per_s"] * TRACK / of["track_bytes"],
        "last": last_speed(of, 1 / 75) * TRACK / of["track_bytes"],
        "tenth": last_speed(of, 1 / 10) * TRACK / of["track_bytes"], "late": of["medium"]["late"],
        "destroyed": of["medium"]["destroyed_reads"],
        "rewriting": None,
        "mix": device["mix_ops_per_s"],
        "verified": device["verified_blocks"], "lost": device["bad_blocks"],
        "over": of["medium"]["destroyed_blocks"],
    }
    if "done" in of:
        total = of["done"]["rewrites"], of["done"]["syncs"]
        step = load["step_s"]
        # The reads of the next backup include writes of the file since the last sync, so this is
        # somewhat more than rewriting (see levels.rst).
        got["rewriting"] = step["backup"] + step["restore"]
    elif of.get("target", {}).get("type") == "imr":
        target = of["target"]
        total = target["imr_rewrites"], target["imr_sync_adjacent"] + sum(
            target[f"imr_sync_{i}"] for i in range(1, 6))
        if not device["mix_s"]:
            got["rewriting"] = (target["step_backup_us"] + target["step_restore_us"]) / 1e6
        got["map"] = target["imr_sync_map"]
        got["models"] = of["models"]
    else:
        total = 0, device["all"]["flushes"]
    got["total"] = total
    got["rewrites"], got["syncs"] = (None, None) if device["mix_s"] else total
    return got


def mean(values):
    """Return the mean, or None if a value is missing."""
    return None if None in values else statistics.mean(values)


def every(many, what, of="files"):
    """Return @what divided by @of for each seed; None where @what is unknown."""
    return [None if g[what] is None else g[what] / g[of] for g in many]


def over(one, other, what):
    """Return, for each seed, the ratio of two results' figures."""
    return [a[what] / b[what] for a, b in zip(one, other)]


def table(title, got, options):
    """Print a table of @got, {scheme: [figures for each seed]}."""
    first = next(iter(got.values()))
    seeds = len(first)
    print(f"\n{title}: {statistics.mean(g['files'] for g in first):,.0f} files, "
          f"{statistics.mean(g['compactions'] for g in first):,.0f} compactions"
          f"{f', means of {seeds} seeds' if seeds > 1 else ''}")
    out = Table("", ["", "MB/s", "of plain", "paper", "compact", "paper", "persist", "paper",
                     "rewriting, %", "paper", "rewrites", "syncs", "rw/file", "sy/file",
                     "last MB/s"])
    plain = got.get("plain")
    for name, many in got.items():
        paper = OF_PLAIN.get(name, (None,) * 4)
        speed, rel = "-", [None] * 2
        if plain:
            speed = spread(over(many, plain, "speed"), ".3f")
            rel = [mean(over(many, plain, what)) for what in ("compact", "persist")]
        part = mean(every(many, "rewriting", "persist"))
        out.add(name, f"{mean([g['speed'] for g in many]) / 1e6:.2f}", speed, *(
            cell(v, form) for v, form in (
                (paper[0], ".3f"), (rel[0], ".2f"), (paper[1], ".2f"), (rel[1], ".2f"),
                (paper[2], ".2f"), (part and 100 * part, ".1f"), (paper[3] and 100 * paper[3], ".1f"),
                (mean([g["rewrites"] for g in many]), ",.0f"),
                (mean([g["syncs"] for g in many]), ",.0f"),
                (mean(every(many, "rewrites")), ".3f"), (mean(every(many, "syncs")), ".3f"),
                (mean([g["last"] for g in many]) / 1e6, ".2f"))))
    runner.show(options, out)
    for one, other, whole, last in RATIOS:
        if one in got and other in got:
            print(f"  {one} over {other}: {spread(over(got[one], got[other], 'speed'), '.3f')}"
                  f"{f' (paper {whole})' if whole else ''}; the last 1/75 "
                  f"{spread(over(got[one], got[other], 'last'), '.3f')}"
                  f"{f' (paper {last})' if last else ''}, the last tenth "
                  f"{spread(over(got[one], got[other], 'tenth'), '.3f')}")
    for one, other, *paper in LESS:
        if one in got and other in got and all(g["rewrites"] for g in got[other]):
            less = [spread([100 * (1 - r) for r in over(got[one], got[other], what)], ".2f")
                    for what in ("rewrites", "syncs")]
            print(f"  {one} below {other}: rewrites {less[0]} % (paper {paper[0]} %), "
                  f"syncs {less[1]} % (paper {paper[1]} %)")
    mixed = {name: [g["mix"] for g in many] for name, many in got.items() if many[0]["mix"]}
    if mixed:
        print("  operations/s of the mix: " + ", ".join(
            f"{name} {spread(mix, '.1f')}" for name, mix in mixed.items()))
    for name, many in got.items():
        for nr, g in enumerate(many):
            if "models" in g:
                print(f"  {name}{f', seed {nr + 1} of {seeds}' if seeds > 1 else ''}: the target "
                      f"{g['total'][0]:,} rewrites, {g['total'][1]:,} syncs and {g['map']:,} of "
                      "the map; the model " + ", ".join(
                          f"{m['rewrites']:,} and {m['syncs']:,} ({what})" for m, what in
                          zip(g["models"], ("freed tracks wait for the next file",
                                            "they do not wait"))))


def growth(sizes, seeds, results, moves, through):
    """Print the advantage of merging by file size, over all seeds."""
    print(f"\ncompaction-merged over compaction by file size, moves {moves}, "
          f"{through}; seeds {', '.join(map(str, seeds))}")
    for size in sizes:
        pairs = [[results[s, moves, size, through, seed]
                  for s in ("compaction-merged", "compaction")] for seed in seeds
                 if ("compaction", moves, size, through, seed) in results and
                 ("compaction-merged", moves, size, through, seed) in results]
        if not pairs:
            continue
        more = [100 * (a["speed"] / b["speed"] - 1) for a, b in pairs]
        mean = statistics.mean(more)
        within = STUDENT[len(more)] * statistics.stdev(more) / len(more) ** 0.5 \
            if len(more) in STUDENT else None
        saved = None if pairs[0][0]["rewrites"] is None else statistics.mean(
            1000 * (b["rewrites"] - a["rewrites"]) / b["tracks"] for a, b in pairs)
        paper = GROWTH.get(size // MIB)
        print(f"  {size // MIB:4} MB: {mean:+.1f} %"
              f"{'' if within is None else f' +- {within:.1f} (95 %)'}"
              f"{f' (paper {paper:+} %)' if paper else ''}, {min(more):+.1f} to "
              f"{max(more):+.1f}; rewrites saved in 1,000 tracks written "
              f"{cell(saved, '.1f')}; MB/s "
              f"{statistics.mean(b['speed'] for _, b in pairs) / 1e6:.2f} and "
              f"{statistics.mean(a['speed'] for a, _ in pairs) / 1e6:.2f}")


def verified(results):
    print("blocks of 4 KiB that compactions read and that were there at the end")
    for run, g in results.items():
        print(f"  {'-'.join(map(str, run)):40}{g['verified']:>12,} verified, "
              f"{g['lost']} lost; the head passed over {g['over']:,} sound ones; "
              f"{g['total'][0]:,} rewrites, {g['total'][1]:,} syncs")


def verdict(results):
    for run, g in results.items():
        if g["late"]:
            yield f"{'-'.join(map(str, run))}: late {g['late']} times: no exact clock"
        if g["lost"]:
            yield f"{'-'.join(map(str, run))}: {g['lost']} blocks were lost"
        if g["destroyed"]:
            yield f"{'-'.join(map(str, run))}: {g['destroyed']} destroyed blocks were read"


def all_well(options, schemes):
    """Return the closing sentence for a run without a verdict.  A drive that is not interlaced
    cannot destroy anything, so it claims less there."""
    interlaced = not options.drive_sectors and any(SCHEMES[s][0] == "imr" for s in schemes)
    return ("nothing destroyed was read" if interlaced else
            "no drive was interlaced, so nothing could be destroyed") + \
        ("" if options.verify else ", and the clock was exact")


def sensible(options, sizes):
    """Refuse option values with which a guest would fail, before one is started."""
    if options.set_up == "paper" and options.scale != 1:
        runner.refuse("imr", "the paper's drive cannot be divided: --scale and --verify go "
                         "with --set-up fast")
    if options.ops and not options.mix:
        runner.refuse("imr", "--ops are those of a --mix")
    if options.flush_us > 1000000:
        runner.refuse("imr", f"--flush-us {options.flush_us} is more than a second")
    record = options.record << 10
    if TRACK % (options.scale << 12):
        runner.refuse("imr", f"tracks of 2 MiB cannot be divided by {options.scale} into "
                         "blocks of 4 KiB: --scale is a power of 2 up to 512")
    if options.tracks % 2:
        runner.refuse("imr", f"{options.tracks} tracks: an even number is needed before the "
                         "backup region")
    for size in sizes:
        if (with_index(size) if options.indexed else size) % record:
            runner.refuse("imr", f"files of {size // MIB} MB do not hold a whole number of "
                             f"records of {options.record} KiB")
    for word in options.set:
        if not re.fullmatch(r"\w+=\w+", word):
            runner.refuse("imr", f"--set '{word}' is no KEY=VALUE, as commit_ms=0")


def main():
    p = runner.Parser("imr", __doc__, "seeds", "jobs", "timeout", "resume")
    p.add_argument("--set-up", default="fast", choices=SET_UPS,
                   help="what is not given is as there: fast, or as the paper ran it (fast)")
    p.add_argument("--schemes", default=",".join(SCHEMES))
    p.add_argument("--moves",
                   help="what a move to the next level does (see imr-model): "
                        "silent,keep,rewrite (silent)")
    p.add_argument("--through", default="middleware,target")
    p.add_argument("--sizes", default="64",
                   help="of files, in MB: 64,128,256,512 is the paper's Fig. 8")
    p.add_argument("--scale", type=int, help="sizes are divided by it (32; paper: 1)")
    p.add_argument("--tracks", type=int, help="(50000; paper: 47684)")
    p.add_argument("--load", type=int, metavar="MB",
                   help="before scaling (76.8 %% of the tracks; paper: 75000)")
    p.add_argument("--record", type=int, metavar="KiB", help="before scaling (1024)")
    p.add_argument("--pick", choices=("round", "overlap"), help="(overlap)")
    p.add_argument("--wcache", default="off", choices=("on", "off"))
    p.add_argument("--flush-us", type=int, metavar="N",
                   help="what a sync takes on the disk by itself: 8333 is a turn (0; paper: "
                        "8333)")
    p.add_argument("--reread", action="store_const", const="--reread", dest="copies",
                   help="the middleware reads from the backup region what it writes "
                        "back to tops (paper: one by one)")
    p.add_argument("--mix", choices=("R90", "R50", "R10"))
    p.add_argument("--ops", type=int, metavar="N",
                   help="operations of the mix (a tenth of the records); with --set-up paper "
                        f"--record 1 the paper's Fig. 7 has {OPERATIONS}")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                   help="of the target, as commit_ms=0")
    p.add_argument("--verify", action="store_true",
                   help="no times: the disk keeps and destroys contents, in RAM, "
                        "and all is read back; as --scale 128")
    options = p.parse_args()
    if options.verify:
        options.scale = 128
    for name, value in SET_UPS[options.set_up].items():
        if getattr(options, name, None) is None:
            setattr(options, name, value)
    try:
        schemes = runner.name_list(options.schemes, SCHEMES, "scheme")
        moves = runner.name_list(options.moves, ("silent", "keep", "rewrite"), "move")
        through = runner.name_list(options.through, ("middleware", "target"), "layer")
        sizes = [size * MIB for size in runner.number_list(options.sizes, 1, "--sizes:")]
        seeds = runner.number_list(options.seeds, 0, "--seeds:")
    except ValueError as error:
        runner.refuse("imr", f"{error}")
    p.at_least(options, scale=1, tracks=4, load=1, record=1, flush_us=0, ops=1)
    sensible(options, sizes)
    runner.prepare("imr", "levels", "shingle")
    runs = [(s, m, size, t, seed) for t in through for seed in seeds for size in sizes
            for m in moves for s in schemes
            if SCHEMES[s][0] != "plain" or t == through[0]]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(runs, pool.map(lambda r: measure(r, options), runs)))
    runner.keep(options, {"-".join(map(str, r)): of for r, of in results.items()})
    results = {run: figures(of) for run, of in results.items()}
    if options.verify:
        verified(results)
    for t in () if options.verify else through:
        for size in sizes:
            for m in moves:
                # The plain disk is run once for all layers.
                got = {s: [results.get((s, m, size, t, seed)) or
                           results[s, m, size, through[0], seed] for seed in seeds]
                       for s in schemes}
                table(f"{t}, files of {size // MIB} MB, moves {m}", got, options)
        if len(sizes) > 1:
            for m in moves:
                growth(sizes, seeds, results, m, t)
    wrong = list(verdict(results))
    print()
    print("\n".join(wrong) if wrong else all_well(options, schemes))
    return 1 if wrong else 0
