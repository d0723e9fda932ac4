# SPDX-License-Identifier: GPL-2.0
"""Dual-buffer against the baseline of its thesis, under the virtual clock.

C. Ma, "Read-Modify-Write Optimization for Shingled Magnetic Recording Storage Systems" (thesis,
2019), chapter 4.  Both have the surface, the cache and the bands of the thesis.  Surface and cache
are divided by --scale, bands are not.  The baseline rewrites bands in place, as in the thesis;
Dual-buffer stages them.  The shows:

  3  response, read-modify-writes, head movements, predicted against ideal M, RAM, beside
     Tables 4.2 to 4.4
  4  static M of 20, 40, 60 and 80 % against the predicted one, as Figure 4.10

The thesis does not define one read-modify-write.  The tables show bands that are rewritten, and
blocks that are moved from the cache to their native places.  "literal" is Dual-buffer exactly as in
the thesis, with counts that begin at zero in each round: a block that has room stays in the cache
for ever.  Each of the first eight rounds of a load has a line.

"at most" is what any cache of this size could save: all blocks written, except those for which the
cache has no room at the end, stay in the cache.
"""

import statistics
from pathlib import Path

from lab.cache import TOP

from experiments import runner, stacks
from experiments.stacks import cell, figures, loaded, over

LOADS = ("rsrch_0", "src1_2", "src2_2", "web_0", "proj_2", "web_2")
STATIC = (20, 40, 60, 80)
DYNAMIC, LITERAL, BASELINE = "predicted", "literal", "baseline"
# Tables 4.2 and 4.3: ideal M, predicted M and the reduction of read-modify-writes, in percent.
THESIS = {"rsrch_0": (95.89, 94.83, 98.98), "src1_2": (95.95, 87.85, 98.17),
          "src2_0": (90.80, 96.02, 98.40), "src2_2": (79.05, 89.83, 99.40),
          "stg_0": (95.77, 97.41, 98.85), "stg_1": (92.93, 92.63, 99.23),
          "ts_0": (94.40, 92.05, 98.36), "usr_0": (88.80, 95.64, 97.53),
          "web_0": (57.24, 57.40, 99.93), "mds_0": (94.55, 96.18, 98.33),
          "proj_0": (81.89, 93.19, 92.83), "proj_2": (60.12, 65.79, 93.00)}
ROUNDS = 8              # lines shown for a load
LEAF_BYTES = 16         # in the thesis's tree


# --- parameters of guests --------------------------------------------------------------


def dualbuffer(scale, *more, **keys):
    return {"target": "dualbuffer", "set": keys, "tell": "rounds", "create": [
        "--preset", "ma-dualbuffer", *(("--scale", scale) if scale > 1 else ()), *more]}


def cases(options, loads, show):
    """[(name, words, what)]"""
    layers = {DYNAMIC: dualbuffer(options.scale)}
    if show == 3:
        layers[LITERAL] = dualbuffer(options.scale, ageing="off")
        layers[BASELINE] = stacks.opponents(options.scale)["baseline"]
    else:
        layers |= {f"{m} %": dualbuffer(options.scale, "--m-percent", m) for m in STATIC}
    return [loaded(options, loads, load, options.dense, layer, name)
            for load in options.loads or LOADS for name, layer in layers.items()]


# --- evaluation -----------------------------------------------------------------------


def rounds(text):
    """Return the lines of the message ``rounds``, with shares in percent."""
    out = []
    for line in text.splitlines():
        words = line.split()
        row = {k: int(v) for k, v in zip(words[::2], words[1::2])}
        for name in ("predicted", "allocated", "ideal", "fb_use"):
            row[name] /= 10
        out.append(row)
    return out


def grouped(results, scale):
    """{load: {layer: figures}}"""
    out = {}
    for (_, load, _, name, _), of in results:
        f = figures(of)
        f["rmw"] = of["layer"]["bands_cleaned"]
        f["home"] = of["layer"]["merged_blocks"]
        f["rewritten"] = of["layer"]["rmw_home_blocks"]
        f["staged"] = of["layer"]["rmw_staged_blocks"]
        # The baseline has no counter for the maximum, and its map is not a tree.
        f["leaves"] = of["layer"].get("most_cached_blocks")
        f["rounds"] = rounds(of.get("told", ""))
        f["least"] = least(of, scale) if name == DYNAMIC else None
        out.setdefault(load, {})[name] = f
    return out


def least(of, scale):
    """Return the number of blocks that any cache of this size must move to their native places."""
    import numpy
    from loads import trace
    from loads.requests import join
    words = of["words"]
    load = join(trace.Reader(Path(words["load"]), limit=words["requests"]))
    first, n = load.first[load.write], load.blocks[load.write]
    distinct = numpy.unique(numpy.concatenate(
        [numpy.arange(f, f + k) for f, k in zip(first, n)])) if len(first) else first
    return max(0, len(distinct) - stacks.CACHE // scale // stacks.BLOCK)


def gaps(got):
    """Return predicted minus ideal M, in points, for each round that has both."""
    return [r["predicted"] - r["ideal"] for r in got[DYNAMIC]["rounds"] if r["ideal"]]


ROWS = (("response, ms", "response_ms", ".2f"), ("... without rotation", "unturned_ms", ".2f"),
        ("99 of 100 within, ms", "p99_ms", ".1f"), ("longest, s", "worst_s", ".2f"),
        ("rounds, cleanings", "times", ",d"), ("blocks brought home", "home", ",d"),
        ("blocks kept", "kept", ",d"), ("bands rewritten", "rmw", ",d"),
        ("... blocks, home", "rewritten", ",d"), ("... blocks, staging", "staged", ",d"),
        ("written, each block", "medium_amplification", ".3f"),
        ("seeks", "seeks", ",d"), ("... tracks", "distance", ",d"),
        ("... with cleaning", "cleaning_seeks", ".1%"),
        ("RAM, KiB", "ram_kib", ",.0f"), ("most leaves, KiB", "leaves_kib", ",.1f"))


def told3(results, options):
    print(f"\nShow 3: {stacks.GB * 512 // options.scale / 1e9:.1f} GB, cache of "
          f"{stacks.CACHE / options.scale / 1e6:.1f} MB, one request at a time, metadata in RAM")
    groups = grouped(results, options.scale)
    for load, got in groups.items():
        if {DYNAMIC, LITERAL, BASELINE} - set(got):
            continue
        print(f"\n{load:26}{BASELINE:>12}{LITERAL:>12}{'ratio':>9}{DYNAMIC:>12}{'ratio':>9}")
        for f in got.values():
            f["ram_kib"], f["leaves_kib"] = f["ram_bytes"] / 1024, None
            if f["leaves"] is not None:
                f["leaves_kib"] = f["leaves"] * LEAF_BYTES / 1024
            f["kept"] = sum(r["hot"] for r in f["rounds"])
            f["times"] = f["rounds"][-1]["round"] if f["rounds"] else f["cleanings"]
        for label, key, form in ROWS:
            a = got[BASELINE][key]
            line = f"{label:26}{cell(a, form, 12)}"
            for name in (LITERAL, DYNAMIC):
                b = got[name][key]
                line += cell(b, form, 12)
                line += cell(over(b, a) if a is not None and b is not None else None, ".3f")
            print(line)
        print("  round  predicted   filled    ideal   FB used       hot      cold   bands")
        for r in got[DYNAMIC]["rounds"][:ROUNDS]:
            print(f"{r['round']:7}{r['predicted']:11.1f}{r['allocated']:9.1f}{r['ideal']:9.1f}"
                  f"{r['fb_use']:10.1f}{r['hot']:10,}{r['cold']:10,}{r['bands']:8,}")
    print(f"\n{'blocks brought home, cut by':28}{LITERAL:>11}{DYNAMIC:>11}{'at most':>11}{'thesis':>9}"
          f"{'worst |gap|, points':>21}{'thesis':>9}")
    cuts = {LITERAL: [], DYNAMIC: []}
    for load, got in groups.items():
        line = f"  {load:26}"
        for name, of in cuts.items():
            left = over(got[name]["home"], got[BASELINE]["home"])
            of += [] if left is None else [1 - left]
            line += cell(None if left is None else 1 - left, ".2%", 11)
        most = over(got[DYNAMIC]["least"], got[BASELINE]["home"])
        line += cell(None if most is None else 1 - most, ".2%", 11)
        of, gap = THESIS.get(load), max(map(abs, gaps(got)), default=None)
        print(f"{line}{cell(of and of[2] / 100, '.2%')}{cell(gap, '.1f', 21)}"
              f"{cell(of and of[1] - of[0], '.1f')}")
    if cuts[DYNAMIC]:
        print(f"  {'mean':26}" + "".join(f"{statistics.mean(of):11.2%}" for of in cuts.values()))


def told4(results, options):
    groups = grouped(results, options.scale)
    names = [f"{m} %" for m in STATIC] + [DYNAMIC]
    for label, key, form in (("response, ms", "response_ms", ".2f"),
                             ("longest, s", "worst_s", ".2f"),
                             ("blocks written home", "home", ",d"),
                             ("written, each block", "medium_amplification", ".3f")):
        print(f"\nShow 4: {label:22}" + "".join(f"{n:>12}" for n in names) + f"{'best':>12}")
        for load, got in groups.items():
            best = min((n for n in names if n in got), key=lambda n, of=got: of[n][key])
            print(f"  {load:28}" + "".join(cell(got[n][key] if n in got else None, form, 12)
                                           for n in names) + f"{best:>12}")


def picture(results, path, options):
    """Draw predicted and ideal M round by round for each load, and its response time."""
    from skylight import plots
    groups = grouped(results, options.scale)

    def draw(figure):
        left, right = plots.panels(figure, 2)
        for load, got in groups.items():
            lines = got[DYNAMIC]["rounds"]
            if lines:
                drawn, = left.plot([r["round"] for r in lines], [r["predicted"] for r in lines],
                                   marker="o", label=load)
                known = [r for r in lines if r["ideal"]]
                left.plot([r["round"] for r in known], [r["ideal"] for r in known], marker="x",
                          linestyle=":", color=drawn.get_color())
        left.set_title("M predicted (o) and ideal (x), % of the cache")
        left.set_xlabel("round")
        left.legend(fontsize=6)
        names = list(dict.fromkeys(n for got in groups.values() for n in got))
        for i, name in enumerate(names):
            x = [j + (i - len(names) / 2) / (len(names) + 1) for j in range(len(groups))]
            right.bar(x, [got[name]["response_ms"] if name in got else 0
                          for got in groups.values()], 1 / (len(names) + 1), label=name)
        right.set_title("mean response, ms")
        right.set_xticks(range(len(groups)), list(groups), rotation=30)
        right.legend(fontsize=6)
    plots.png(draw, path, (11, 4.2))


# --- the command ----------------------------------------------------------------------


def main():
    p = stacks.parser("buffers", __doc__, LOADS)
    p.add_argument("show", nargs="*", type=int, metavar="3|4", help="which; else both")
    options = p.parse_args()
    if not set(options.show) <= {3, 4}:
        runner.refuse("buffers", "shows are 3 and 4")
    stacks.sensible("buffers", options)
    shows = sorted(set(options.show)) or [3, 4]
    runner.prepare("buffers", "shingle")
    loads = stacks.Loads("buffers", options)
    results, wrong = stacks.measured(
        "buffers", options, {show: cases(options, loads, show) for show in shows},
        "stack")
    if 3 in shows:
        told3(results[3], options)
    if 4 in shows:
        told4(results[4], options)
    for show in shows:
        path = runner.outputs("buffers") / f"show{show}.png"
        picture(results[show], path, options)
        print(f"\n{path.relative_to(TOP)}")
    print()
    print("\n".join(wrong) if wrong else
          "nothing destroyed was read, and the clock was exact")
    return 1 if wrong else 0
