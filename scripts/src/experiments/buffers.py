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

from experiments import runner, stacks
from experiments.stacks import figures, load_case, over
from experiments.tables import Table, cell

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
    return [load_case(options, loads, load, options.dense, layer, name)
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


ROUND_COLUMNS = (("predicted", "predicted", ".1f"), ("filled", "allocated", ".1f"),
                 ("ideal", "ideal", ".1f"), ("FB used", "fb_use", ".1f"), ("hot", "hot", ",d"),
                 ("cold", "cold", ",d"), ("bands", "bands", ",d"))


def tables3(results, options):
    print(f"\nShow 3: {stacks.GB * 512 // options.scale / 1e9:.1f} GB, cache of "
          f"{stacks.CACHE / options.scale / 1e6:.1f} MB, one request at a time, metadata in RAM")
    out, groups = [], grouped(results, options.scale)
    for load, got in groups.items():
        if {DYNAMIC, LITERAL, BASELINE} - set(got):
            continue
        for f in got.values():
            f["ram_kib"], f["leaves_kib"] = f["ram_bytes"] / 1024, None
            if f["leaves"] is not None:
                f["leaves_kib"] = f["leaves"] * LEAF_BYTES / 1024
            f["kept"] = sum(r["hot"] for r in f["rounds"])
            f["times"] = f["rounds"][-1]["round"] if f["rounds"] else f["cleanings"]
        out.append(Table(load, ["", BASELINE, LITERAL, "ratio", DYNAMIC, "ratio"]))
        for label, key, form in ROWS:
            base, *others = (got[name][key] for name in (BASELINE, LITERAL, DYNAMIC))
            out[-1].add(label, cell(base, form), *(text for value in others for text in (
                cell(value, form),
                cell(over(value, base) if None not in (value, base) else None, ".3f"))))
        out.append(Table.of_rows("Rounds", ROUND_COLUMNS, {
            r["round"]: r for r in got[DYNAMIC]["rounds"][:ROUNDS]}))
    out.append(Table("Blocks brought home, cut by; worst |gap| of predicted and ideal M, in points",
                     ["", LITERAL, DYNAMIC, "at most", "thesis", "gap", "thesis's gap"]))
    cuts = {LITERAL: [], DYNAMIC: []}

    def less(left):
        return None if left is None else 1 - left
    for load, got in groups.items():
        cells = []
        for name, of in cuts.items():
            left = less(over(got[name]["home"], got[BASELINE]["home"]))
            of += [] if left is None else [left]
            cells.append(cell(left, ".2%"))
        most = less(over(got[DYNAMIC]["least"], got[BASELINE]["home"]))
        of, gap = THESIS.get(load), max(map(abs, gaps(got)), default=None)
        out[-1].add(load, *cells, cell(most, ".2%"), cell(of and of[2] / 100, ".2%"),
                    cell(gap, ".1f"), cell(of and of[1] - of[0], ".1f"))
    if cuts[DYNAMIC]:
        out[-1].add("mean", *(f"{statistics.mean(of):.2%}" for of in cuts.values()), *[""] * 4)
    return out


def tables4(results, options):
    groups, out = grouped(results, options.scale), []
    names = [f"{m} %" for m in STATIC] + [DYNAMIC]
    for label, key, form in (("response, ms", "response_ms", ".2f"),
                             ("longest, s", "worst_s", ".2f"),
                             ("blocks written home", "home", ",d"),
                             ("written, each block", "medium_amplification", ".3f")):
        out.append(Table(f"Show 4: {label}", ["", *names, "best"]))
        for load, got in groups.items():
            best = min((n for n in names if n in got), key=lambda n, of=got: of[n][key])
            out[-1].add(load, *(cell(got[n][key] if n in got else None, form) for n in names),
                        best)
    return out


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
        stacks.bars(right, groups, names, lambda name, load: groups[load][name]["response_ms"]
                    if name in groups[load] else 0, rotation=30)
        right.set_title("mean response, ms")
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
    for show, tables in ((3, tables3), (4, tables4)):
        if show in shows:
            runner.show(options, *tables(results[show], options))
    for show in shows:
        path = runner.outputs("buffers") / f"show{show}.png"
        picture(results[show], path, options)
        runner.show_picture(path)
    return runner.status(wrong, stacks.EXACT)
