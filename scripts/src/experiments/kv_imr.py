# SPDX-License-Identifier: GPL-2.0
"""Part "imr" of scripts/experiments kv: the load of the KVIMR paper (Liang, Yang, Yang, ATC 2021)
by the store itself, beside shingle-levels with the same shape and the paper's figures.

A track is 1/32 of the paper's, a file has 33 tracks as in the paper, and the disk has a --fraction
of its tracks. A track is still one rotation, so ratios stay (see scripts/experiments imr). A record
of 1 KiB in a track of 64 KiB corresponds to one of 32 KiB in 2 MiB, so shingle-levels gets records
of 32 KiB. It then writes the same levels: of ten files, a hundred, ..., compacted in turn, and it
reports moves."""

import json
import subprocess

from lab.cache import TOP

from experiments.evaluation import last_speed
from experiments.kvimr_paper import A_FILE, LESS, MIXES, OF_PLAIN, RATIOS, SET_UP, with_index
from experiments import runner
from experiments.stacks import over
from experiments.tables import Table, cell

LEVELS = TOP / "build/userspace/shingle-levels"
# Sizes of the paper: tracks, MiB of records, KiB of a track, tracks of a file.
TRACKS, LOAD_MIB, TRACK_KIB = SET_UP["tracks"], SET_UP["load"], 2048
FILE_TRACKS = -(-with_index(64) * 1024 // TRACK_KIB)
SCALE, LEVEL1_FILES = 32, 10
# Bytes of a value, of a kvbench key, and of kv's header of an entry.
VALUE, KEY, ENTRY = 1024, 20, 14
SCHEMES = {
    "plain": None,
    "seq": ("seq", "naive"), "3phase": ("3phase", "naive"),
    "compaction": ("compaction", "naive"), "compaction-merged": ("compaction", "merged"),
    # Better for stores that report moves, see dm-imr.rst.
    "most": ("compaction", "naive", "largest=most"),
    "most-merged": ("compaction", "merged", "largest=most"),
}
SYNCS = ("imr_sync_adjacent", *(f"imr_sync_{i}" for i in range(1, 6)))
STEPS = ("step_backup_us", "step_write_us", "step_restore_us", "step_sync_us")
LAST = 10               # 1/LAST of the load is a phase of its own, for Figure 6


def tracks(options):
    """Return an even number of tracks, because each bottom has a top."""
    return TRACKS // options.fraction // 2 * 2


def spare():
    """Backup slots, two for each track of a file, beside bottoms that stay empty; and a guard."""
    return 4 * FILE_TRACKS + 2


def records(options):
    share = LOAD_MIB * 1024 / (TRACKS * TRACK_KIB)
    return int(share * tracks(options) * TRACK_KIB * 1024 / SCALE / (VALUE + KEY + ENTRY))


def layer(scheme):
    """The disk without write cache, as in the paper; metadata are on another device."""
    keys = {"track_sectors": 2 * TRACK_KIB // SCALE, "wcache": "off", "lookahead": "off"}
    if not SCHEMES[scheme]:
        return {"media": "cmr", "profile": "kvimr", "keys": keys, "create": []}
    policy, rmw, *more = SCHEMES[scheme]
    return {"media": "imr", "profile": "kvimr", "keys": keys, "create": [
        "imr", "--backup-tracks", str(2 * FILE_TRACKS), *(w for option in (
            f"policy={policy}", f"rmw={rmw}", f"buffer_tracks={2 * FILE_TRACKS}", *more)
            for w in ("--set", option))]}


def cases(options):
    """[(file, words, scheme)]"""
    n, size = records(options), f"{FILE_TRACKS * TRACK_KIB // SCALE}K"
    last = n // LAST
    common = ["--value", f"{VALUE}B", "--seed", str(options.seed)]
    load = ["-w", "load", *common, "-n"]
    sitting = [["load", [*load, str(n - last)]],
               ["last", [*load, str(last), "-p", f"insertstart={n - last}"]]]
    for mix in MIXES:
        reads = int(mix[1:]) / 100
        sitting.append([mix, ["-w", "a", *common, "-r", str(n), "-n", str(n // 10), "-p",
                              f"readproportion={reads:g}", "-p",
                              f"updateproportion={1 - reads:g}"]])
    return [(f"imr-{scheme}-{options.fraction}-{options.seed}", {
        "layer": layer(scheme), "band": size, "store": "kv", "organisation": "loc",
        "drive_mib": -(-(tracks(options) + spare()) * TRACK_KIB // SCALE // 1024),
        # No log, because the paper's log is elsewhere; one thread; hardly any cache.
        "options": ["--no-log", "--no-thread", "--memtable", size, "--cache",
                    f"{options.imr_cache}M", "--around", "4K"],
        "memory_mib": None, "sittings": [sitting], "large": True}, scheme)
        for scheme in SCHEMES]


def middleware(options, scheme, mix, run=subprocess.run):
    """Run shingle-levels with the same files on the same disk at its full size."""
    policy, rmw, *more = SCHEMES[scheme] or ("seq", None)
    place = ",".join([policy, *([rmw] if rmw else []), "next", *more])
    file_kib = FILE_TRACKS * TRACK_KIB
    words = ["--json", "--drive", "kvimr", "--place", place, "--tracks", tracks(options),
             "--load", f"{LOAD_MIB * tracks(options) // TRACKS}M", "--record",
             f"{VALUE * SCALE}B", "--file", f"{file_kib}K", "--level1",
             f"{LEVEL1_FILES * file_kib}K", "--pick", "round", "--moves", "keep", "--mix", mix,
             "--seed", options.seed]
    done = run([LEVELS, *map(str, words)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


# --- evaluation -----------------------------------------------------------------------


def figures(of):
    """Return the figures of the store, by the names that print_tables() uses."""
    phases = of["phases"]
    load = [phases[name] for name in ("load", "last")]
    stats, disk = ({name: sum(phase[part][name] for phase in load)
                    for name in load[0][part] if isinstance(load[0][part][name], (int, float))}
                   for part in ("store_stats", "disk"))
    # Each table fills a band.
    files = (stats["flush_bytes"] + stats["compact_written_bytes"]) / (
        load[0]["store_stats"]["band_bytes"])
    steps = sum(disk[name] for name in STEPS)

    def rate(*some):
        return over(sum(p["operations"] for p in some),
                    sum(p["seconds"] + p["sync_s"] for p in some))
    return {
        "speed": rate(*load), "last": rate(load[1]), "compact": stats["compact_us"] / 1e6,
        "files": files, "rewrites": disk["imr_rewrites"] / files,
        "syncs": sum(disk[name] for name in SYNCS) / files,
        "rewriting": over(disk["step_backup_us"] + disk["step_restore_us"], steps),
        **{mix: rate(phases[mix]) for mix in MIXES},
    }


def figures_of_levels(by_mix):
    """Return the figures of shingle-levels, by the same names."""
    of = next(iter(by_mix.values()))
    device, n = of["device"], of["load"]["files"]
    done = of.get("done", {"rewrites": 0, "syncs": 0})
    step = device["load"]["step_s"]
    return {
        "speed": device["load_bytes_per_s"], "last": last_speed(of, 1 / LAST),
        "compact": device["load_compact_s"], "files": n,
        "rewrites": done["rewrites"] / n, "syncs": done["syncs"] / n,
        "rewriting": over(step["backup"] + step["restore"], device["load"]["persist_s"]),
        **{mix: got["device"]["mix_ops_per_s"] for mix, got in by_mix.items()},
    }


def least_gain(got, mix, ours=("compaction", "compaction-merged")):
    """Return by how many per cent the slower of the paper's two schemes, or of @ours, exceeds the
    faster of the others."""
    return 100 * (over(min(got[s][mix] for s in ours if s in got),
                       max(got[s][mix] for s in ("seq", "3phase"))) - 1)


# --- printing -------------------------------------------------------------------------


def print_tables(store, levels, options):
    """Print @store and @levels, {scheme: figures}."""
    plain = store["plain"]
    print(f"\nkv on imr: {tracks(options):,} tracks of {TRACK_KIB // SCALE} KiB, "
          f"{records(options):,} records of 1 KiB, {plain['files']:,.0f} tables; the plain disk "
          f"inserts {plain['speed']:,.1f} a second (Figures 5 to 7)")
    heads = ("throughput of plain", "compaction time", "rewriting, %", "rewrites a file",
             "syncs a file")
    table = Table("", ["", *(f"{name}: {of}" for name in heads for of in ("kv", "levels", "paper")),
                       "last tenth: kv", "last tenth: levels"])
    for scheme, of in store.items():
        other = levels[scheme]
        paper, file = OF_PLAIN.get(scheme, (None,) * 4), A_FILE.get(scheme, (None,) * 2)

        def ratio(name, of=of, other=other):
            return [over(of[name], plain[name]), over(other[name], levels["plain"][name])]

        def both(name, of=of, other=other, by=1):
            return [None if f[name] is None else by * f[name] for f in (of, other)]
        rows = [(*ratio("speed"), paper[0], ".3f"), (*ratio("compact"), paper[1], ".2f"),
                (*both("rewriting", by=100), paper[3] and 100 * paper[3], ".1f"),
                (*both("rewrites"), file[0], ".3f"), (*both("syncs"), file[1], ".3f"),
                (*ratio("last"), ".3f")]
        table.add(scheme, *(cell(v, form) for *values, form in rows for v in values))
    runner.show(options, table)
    for one, other, whole, _ in (*RATIOS, ("most-merged", "seq", None, None),
                                 ("most-merged", "3phase", None, None)):
        ours = [over(of[one]["speed"], of[other]["speed"]) for of in (store, levels)]
        print(f"  {one} over {other}: {ours[0]:.3f}, levels {ours[1]:.3f}"
              f"{f' (paper {whole})' if whole else ''}")
    for one, other, *paper in LESS:
        cut = [[100 * (1 - of[one][what] / of[other][what]) for of in (store, levels)]
               for what in ("rewrites", "syncs")]
        print(f"  {one} below {other}: " + "; ".join(
            f"{what} {a:.1f} %, levels {b:.1f} % (paper {p} %)"
            for what, (a, b), p in zip(("rewrites", "syncs"), cut, paper)))
    table = Table("operations a second behind it",
                  ["mix", *store, "least gain, %", "paper", "least gain of most, %"])
    for mix, paper in MIXES.items():
        for name, of in (("kv", store), ("levels", levels)):
            table.add(f"{mix} {name}", *(f"{f[mix]:,.1f}" for f in of.values()),
                      f"{least_gain(of, mix):+.1f}", f"{paper:+}",
                      f"{least_gain(of, mix, ('most', 'most-merged')):+.1f}")
    runner.show(options, table)


def show(results, options):
    """Print @results, [(scheme, the guest's result)]."""
    store = {scheme: figures(of) for scheme, of in results}
    if set(store) != set(SCHEMES):
        print("\nkv on imr: one scheme did not end, so there is nothing to hold the others "
              "against")
        return
    levels = {scheme: figures_of_levels({mix: middleware(options, scheme, mix)
                                         for mix in MIXES}) for scheme in store}
    print_tables(store, levels, options)
