# SPDX-License-Identifier: GPL-2.0
"""RMW-F against emulated-SMR-2, under the virtual clock.

C. Ma, "Read-Modify-Write Optimization for Shingled Magnetic Recording Storage Systems" (thesis,
2019), chapter 5, Figures 5.8 to 5.11: a drive of 8 TB, 16 surfaces, 5,900 rpm, a head of three
tracks, 20 GiB of flash, the ten loads of its Table 5.1.  Capacity, flash and length of the loads
are divided by --scale; bands are not.  Flash takes no time, because the thesis gives none.

  SMR-2, band     `ma-smr-2`: flash first, sets; a full set is written to its native places, and
                  each band is rewritten once for all of its blocks
  SMR-2, block    the same, a read-modify-write for each block: the rest of its band
  RMW-F           `ma-rmwf`
  ..., pool       the same with pages that any band may use
  ..., pointer    the same by the thesis's rule

Figures are normalised as in the thesis: SMR-2 over RMW-F.  Head movements are those during
cleaning; "written" is what the shingled surfaces wrote for each block of the host; a cleaning of
SMR-2 is the work that one request waited for, a cleaning of RMW-F is a collection.
"""

import statistics

from experiments import runner, stacks
from experiments.stacks import figures, load_case, over
from experiments.tables import Table, cell

LOADS = ("rsrch_0", "src1_2", "src2_0", "src2_2", "stg_0", "stg_1", "ts_0", "usr_0", "web_0",
         "web_2")
SURFACES, FLASH_MIB, BAND_MIB = 16, 20 << 10, 30
# Bands of 25 MiB have two guard tracks and leave half a track unused.
MORE = 1.25
OURS = "RMW-F"
# Rewriting a band for each single block takes days for loads with mostly new blocks.
BY_BLOCK = "SMR-2, block"
FIGURES = (("5.8", "mean response", "response_ms", "4.8 and more"),
           ("5.9", "head movements, cleaning", "cleaning_moves", "16 (mean), 41 (most)"),
           ("5.10", "written, each block", "medium_amplification", "62 to 132"),
           ("5.11", "mean cleaning", "cleaning_s", "15.6 (mean)"))
COLUMNS = (("response, ms", "response_ms", ".2f"), ("99 %", "p99_ms", ".1f"),
           ("longest, s", "worst_s", ".2f"), ("cleanings", "cleanings", ",d"),
           ("... each, s", "cleaning_s", ".3f"), ("... moves", "cleaning_moves", ",d"),
           ("written", "medium_amplification", ".2f"), ("direct", "direct", ".1%"))


def layers(scale):
    """Return {name: layer for stack.py}."""
    def of(preset, target, **keys):
        return {"target": target, "set": keys,
                # Room for staging, headers and rounding, besides the cache.
                "flash_mib": FLASH_MIB // scale + 4 * BAND_MIB, "create": [
                    "--preset", preset, *(("--scale", scale) if scale > 1 else ())]}
    return {
        "SMR-2, band": of("ma-smr-2", "stl-set", rmw="band"),
        BY_BLOCK: of("ma-smr-2", "stl-set", rmw="block"),
        OURS: of("ma-rmwf", "rmwf"),
        f"{OURS}, pool": of("ma-rmwf", "rmwf", alloc="pool"),
        f"{OURS}, pointer": of("ma-rmwf", "rmwf", rule="pointer"),
    }


def cases(options, loads):
    """[(name, words, what)]"""
    return [load_case(options, loads, load, options.dense, layer, name, surfaces=SURFACES,
                   more=MORE)
            for load in options.loads or LOADS
            for name, layer in layers(options.scale).items()
            if name not in (options.without or ())]


def rows(results):
    """{load: {layer: figures}}"""
    out = {}
    for (_, load, _, name, _), of in results:
        f, layer = figures(of), of["layer"]
        f["cleaning_moves"] = of["cleanings"]["seeks"]
        direct = layer.get("direct_blocks")
        f["direct"] = None if direct is None else over(direct, layer["host_write_blocks"])
        out.setdefault(load, {})[name] = f
    return out


def normalised(groups, foe, key):
    """Return {load: foe over RMW-F}, None where either figure is missing or 0."""
    return {load: over(got[foe][key], got[OURS][key])
            if {foe, OURS} <= set(got) and got[foe][key] and got[OURS][key] else None
            for load, got in groups.items()}


def foes(groups):
    return [name for name in next(iter(groups.values())) if not name.startswith(OURS)]


def tables(groups):
    """Return a table for each load, and one for each figure of the thesis."""
    out = [Table.of_rows(load, COLUMNS, got) for load, got in groups.items()]
    for number, title, key, thesis in FIGURES:
        out.append(Table(f"Figure {number}, {title}, over {OURS}'s (thesis: {thesis})",
                         ["", *groups, "mean"]))
        for foe in foes(groups):
            of = normalised(groups, foe, key)
            known = [v for v in of.values() if v is not None]
            out[-1].add(foe, *(cell(v, ".2f") for v in of.values()),
                        cell(statistics.mean(known) if known else None, ".2f"))
    return out


def picture(groups, path):
    from skylight import plots

    def draw(figure):
        names = foes(groups)
        for axes, (number, title, key, thesis) in zip(plots.panels(figure, 4), FIGURES):
            stacks.bars(axes, groups, names, lambda foe, load, key=key: normalised(
                groups, foe, key)[load] or 0, rotation=60)
            axes.axhline(1, color="grey", linewidth=.8)
            axes.set_yscale("log")
            axes.set_title(f"Figure {number}: {title}\n(thesis {thesis})", fontsize=9)
        figure.axes[0].legend(fontsize=6, title=f"over {OURS}'s", title_fontsize=6)
    plots.png(draw, path, (14, 4.4))


def main():
    p = stacks.parser("flash", __doc__, LOADS)
    p.add_argument("--without", action="append", choices=list(layers(64)), metavar="LAYER",
                   help="leave one out; may be given again")
    options = p.parse_args()
    stacks.sensible("flash", options)
    if OURS in (options.without or ()):
        runner.refuse("flash", f"all others are compared with {OURS}: it cannot be left out")
    runner.prepare("flash", "shingle")
    loads = stacks.Loads("flash", options)
    results, wrong = stacks.measured("flash", options, {"all": cases(options, loads)},
                                     "stack")
    print(f"{8e12 / options.scale / 1e9:.1f} GB, flash of {FLASH_MIB // options.scale} MiB, one "
          "request at a time, metadata in RAM")
    groups = rows(results["all"])
    if groups:
        runner.show(options, *tables(groups))
        path = runner.outputs("flash") / "flash.png"
        picture(groups, path)
        runner.show_picture(path)
    return runner.status(wrong, stacks.EXACT)
