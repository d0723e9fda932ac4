# SPDX-License-Identifier: GPL-2.0
"""Tiler's claims, on the target of that name, under the virtual clock.

C. Ma, "Read-Modify-Write Optimization for Shingled Magnetic Recording Storage Systems" (thesis,
2019), chapter 3.  The shows:

  3  regions with less than a third of their blocks valid are never cleaned; write
     amplification by the share of valid blocks; full regions remain usable
  4  against the thesis's baseline and stl-set: responses, amplification, head movements,
     cleaning; S = 1, 2, 4, 8 (Figures 3.1, 3.11 to 3.19, Table 3.2); and the cost of a fixed
     angle, which the thesis does not have
  5  S from 1 to a whole track

The surface is the thesis's (512 GB, 5,900 rpm, tracks of 2 MiB, a head of three tracks), but
capacity, cache, rows of a region and length of a load are divided by --scale.  The number of
regions, and of regions in the cache, is that of the thesis.  --scale 1 is its own size.  The medium
has no store; its time and the destruction of tracks are emulated.  Metadata are in RAM.  Loads are
those of scripts/loads, one request at a time, on a volume of which they write --dense per cent.
"""

from experiments import runner, stacks
from experiments.stacks import (
    BLOCK,
    ROWS,
    TRACK,
    figures,
    load_case,
    medium,
    opponents,
    over,
    ratios,
    surface,
    tiler,
)
from experiments.tables import Table, cell

OUT = runner.outputs("regions")
TURN_S = 60 / 5900
SPACE = ("rsrch_0", "src1_2", "src2_2", "web_0", "proj_2", "web_2")
# With rmw=block these take a day of the drive's time; the other loads show the effect.
NOT_BY_BLOCK = ("src2_2", "proj_2")
NARROW = (1, 2, 4, 8)
WIDE = tuple(1 << i for i in range(10))
# Longest cleaning with S = 1, 2, 4, 8, Table 3.2; 0: no cleaning.
LONGEST = {"rsrch_0": (3.44, 6.32, 11.62, 30.25), "src1_2": (2.39, 4.28, 8.44, 15.76),
           "src2_0": (3.27, 6.26, 13.04, 33.55), "src2_2": (2.86, 6.51, 20.01, 0),
           "stg_0": (3.68, 6.87, 12.88, 34.57), "stg_1": (4.89, 9.40, 20.86, 43.91),
           "ts_0": (3.60, 4.87, 13.14, 20.74), "usr_0": (6.88, 13.37, 21.55, 37.16),
           "web_0": (4.16, 7.33, 14.31, 34.18), "web_2": (.95, 1.10, 0, 0)}
TIMES = ("longest_s", "largest_blocks")
# Write amplification, M = 64, S = 4, by share in use: k = 3, k = 2, no lazy writes, 10 % of the
# blocks taking 90 %.  None: never cleaned.  From a small simulation of the same rules.
MODEL = {.33: (None, None, 1.49, None), .4: (None, None, 1.66, None),
         .5: (1.08, None, 2.00, 1.10), .6: (2.00, None, 2.47, 1.24),
         .7: (2.99, 2.00, 3.29, 1.43), .8: (4.65, 3.75, 4.83, 1.70),
         .9: (9.43, 8.60, 9.49, 2.43)}
COLUMNS: tuple = (("k = 3", 3, {}, {}), ("k = 2", 2, {}, {}), ("no lazy", 3, {"lazy": "off"}, {}),
           ("k = 3, hot", 3, {}, {"hot": 10, "beside": True}),
           ("hot, scattered", 3, {}, {"hot": 10}), ("k = 2, meanwhile", 2, {}, {"whole": False}))


# --- parameters of guests --------------------------------------------------------------


def bound(rows, columns, head):
    """Return the number of valid blocks below which a region never needs cleaning."""
    return columns * -(-rows // head)


def little(rows, head, combs, slots, track=8, store=False, timing="none"):
    """Return a medium for @slots regions."""
    zones = 1 + -(-slots // combs)
    return medium(zones * (rows + head - 1) + head, head, track, store, timing=timing)


# --- show 3 ---------------------------------------------------------------------------


def show3(options):
    """[(name, words, what)]"""
    out = []
    shapes = ((64, 4, 3), (64, 1, 3), (64, 4, 2), (60, 8, 4), (1024, 8, 3), (4096, 1, 3),
              (4096, 8, 3))
    for rows, columns, head in shapes[:2] if options.quick else shapes:
        regions, track = 2 if rows * columns > 4096 else 4, max(8, columns)
        out.append((f"bound-{rows}-{columns}-{head}", {
            "what": "valid", "regions": regions, "live": bound(rows, columns, head) - 1,
            "writes": (4 if options.quick else 8) * rows * columns, "hot": None, "each": False,
            "seed": options.seed, "layer": tiler(columns, rows),
            "medium": little(rows, head, track // columns, regions + 1)},
            ("bound", rows, columns, head)))
    for share in (.5, .8) if options.quick else MODEL:
        for i, (_, head, keys, more) in enumerate(COLUMNS):
            regions = 1 if options.quick else 4
            out.append((f"table-{round(100 * share)}-{i}", {
                "what": "valid", "regions": regions, "live": round(share * 256),
                "writes": 8000, "hot": None, "each": True, "whole": True,
                "seed": options.seed, **more, "layer": tiler(4, 64, **keys),
                "medium": little(64, head, 2, regions + 1)}, ("table", share, i)))
    for rows, columns in ((64, 4),) if options.quick else ((64, 1), (64, 4), (32, 8)):
        regions, track = 4, max(8, columns)
        out.append((f"full-{rows}-{columns}", {
            "what": "full", "writes": (4 if options.quick else 8) * rows * columns,
            "seed": options.seed, "layer": tiler(columns, rows),
            "medium": little(rows, 3, track // columns, regions + 1, track, True, "model")},
            ("full", rows, columns)))
    return out


def tables3(results):
    """Return (tables of show 3, a sentence for each claim that does not hold)."""
    below = Table("Show 3: regions by how much of them is valid",
                  ["M", "S", "k", "valid", "regions", "writes", "lazily, %",
                   "waited for a commit", "cleaned"])
    model = Table("amplification, M = 64, S = 4, each write durable at once; beside it that of the "
                  "model.  Hot blocks are a region's first, or scattered over it.  In the last "
                  "column the host writes while its region is moved: that need not be copied",
                  ["in use", *(name for name, *_ in COLUMNS)])
    full = Table("full regions", ["M", "S", "blocks", "writes", "cleaned", "moved",
                                  "amplification", "wrong at the end"])
    wrong = []
    for what, of in results:
        layer = of["layer"]
        if what[0] == "bound":
            below.add(*map(str, what[1:]), str(of["words"]["live"]), str(of["words"]["regions"]),
                      f"{of['writes']:,}", f"{100 * layer['tiler_lazy_blocks'] / of['writes']:.1f}",
                      f"{layer['tiler_commit_waits']:,}", str(layer["tiler_cleans"]))
            if layer["tiler_cleans"]:
                wrong.append(f"{what[1:]}: {layer['tiler_cleans']} cleanings below the bound")
            if not layer["tiler_lazy_blocks"]:
                wrong.append(f"{what[1:]}: nothing was written lazily")
        elif what[0] == "full":
            full.add(*map(str, what[1:]), f"{of['blocks']:,}", f"{of['writes']:,}",
                     f"{layer['tiler_cleans']:,}", f"{layer['tiler_moved_blocks']:,}",
                     f"{1 + layer['tiler_moved_blocks'] / of['writes']:.2f}", str(of["wrong"]))
            if of["wrong"]:
                wrong.append(f"{what[1:]}: {of['wrong']} stretches are not what was written")
    rows = {what[1:]: of["layer"] for what, of in results if what[0] == "table"}
    for share in sorted({key[0] for key in rows}):
        cells = []
        for i, (name, *_) in enumerate(COLUMNS):
            layer = rows.get((share, i))
            got = 1 + layer["tiler_moved_blocks"] / layer["host_write_blocks"] \
                if layer and layer["tiler_cleans"] else None
            cells.append(cell(got, ".2f"))
            if layer is None or i >= len(MODEL[share]):
                continue
            wanted = MODEL[share][i]
            cells[-1] += f" ({cell(wanted, '.2f')})"
            if (got is None) != (wanted is None) or (got and abs(got / wanted - 1) > .1):
                wrong.append(f"{name}, {share:.2f} in use: amplification {cell(got, '.2f')}, the "
                             f"model's is {cell(wanted, '.2f')}")
        model.add(f"{share:.2f}", *cells)
    return [table for table in (below, model, full) if table.rows], wrong


# --- shows 4 and 5 ----------------------------------------------------------------------


def show4(options, loads):
    rows, out = max(1, ROWS // options.scale), []
    foes = opponents(options.scale)
    names = options.loads or (("rsrch_0",) if options.quick else SPACE)
    for load in names:
        for columns in NARROW + (TRACK,):
            if rows * columns < 65536:
                out.append(load_case(options, loads, load, options.dense, tiler(columns, rows),
                                  f"S={columns}"))
        for name, layer in foes.items():
            if layer["set"].get("rmw") != "block" or load not in NOT_BY_BLOCK:
                out.append(load_case(options, loads, load, options.dense, layer, name))
    if options.quick or options.scale != 64:
        return out
    first = names[0]
    for columns in NARROW:
        out.append(load_case(options, loads, first, options.dense, tiler(columns, rows),
                          f"S={columns}", rpm=60000, label="-rpm"))
    for name in ("baseline", "baseline, block"):
        out.append(load_case(options, loads, first, options.dense, foes[name], name, rpm=60000,
                          label="-rpm"))
    for dense in (30, 90, 0):
        for columns in (1, 8):
            out.append(load_case(options, loads, first, dense, tiler(columns, rows),
                              f"S={columns}"))
        for name in ("baseline", "baseline, block"):
            out.append(load_case(options, loads, first, dense, foes[name], name))
    return out


def streams(options):
    out = []
    for columns in (1, 8, TRACK) if options.quick else WIDE:
        for cache in ("off", "on"):
            out.append((f"stream-{columns}-{cache}", {
                "what": "stream", "mib": 4 if options.quick else 16,
                "layer": tiler(columns, 64, 100), "medium": surface(
                    64, wcache=cache, lookahead=cache)}, ("stream", columns, cache)))
    return out


def show5(options, loads):
    rows, out = max(1, ROWS // options.scale), []
    for load in ("uniform",) if options.quick else ("uniform", "rsrch_0"):
        for columns in (1, 8, TRACK) if options.quick else WIDE:
            if rows * columns < 65536:
                out.append(load_case(options, loads, load, options.dense, tiler(columns, rows),
                                  f"S={columns}"))
    if not options.quick and options.scale == 64:
        # Regions as large as those with S of a whole track.
        for columns in (8, 32, 128):
            out.append(load_case(options, loads, "uniform", options.dense,
                              tiler(columns, rows * TRACK // columns), f"S={columns}",
                              label="-large"))
    return out


ROWS_4 = (("response, ms", "response_ms", ".2f"), ("... without rotation", "unturned_ms", ".2f"),
          ("longest, s", "worst_s", ".2f"), ("amplification", "amplification", ".3f"),
          ("blocks copied", "copies", ",d"), ("seeks", "seeks", ",d"),
          ("... tracks", "distance", ",d"), ("... with cleaning", "cleaning_seeks", ".1%"),
          ("cleanings", "cleanings", ",d"), ("... mean, s", "cleaning_s", ".3f"),
          ("... longest, s", "longest_s", ".3f"), ("... blocks, most", "largest_blocks", ",.0f"),
          ("written lazily", "lazy", ".1%"))


def grouped(results):
    """{(load, dense, label): {layer: figures}} of loads."""
    out = {}
    for what, of in results:
        if what[0] == "load":
            _, load, dense, name, label = what
            out.setdefault((load, dense, label), {})[name] = figures(of)
    return out


def titled(load, dense, label, scale):
    size = f", of a surface of 1/{scale}" if scale > 1 else ", the whole surface"
    where = f"on a volume of which it writes {dense} %" if dense else "spread over the surface"
    more = {"-rpm": "; 60,000 rpm: next to no rotation", "-large": "; M * S = 32,768"}.get(
        label, f"; M = {label[2:]}" if label else "")
    return f"{load} {where}{size}{more}"


def tables4(results, options):
    groups = grouped(results)
    print(f"\nShow 4: k = 3, 5,900 rpm, M = {max(1, ROWS // options.scale)}, one request at "
          "a time, metadata in RAM")
    narrow = {key: got for key, got in groups.items() if not key[2] and key[1] == options.dense}
    return [*(Table.of_columns(titled(*key, options.scale), ROWS_4, got)
              for key, got in groups.items()), compared(narrow), *swept(narrow)]


def compared(groups):
    """Compare S = 1 with the baselines, as Figures 3.11 to 3.14."""
    out = Table("S = 1 against the baseline: of its response with rotation and without, of its "
                "amplification (copies alone); how many times fewer seeks, how many times shorter "
                "a cleaning", ["", "rmw", "response", "unturned", "copies", "seeks", "cleaning"],
                [["thesis", "-", ".51 - 1", ".66 mean", ".0069", "51, 81", "10, 25"]])
    for (load, *_), got in groups.items():
        for foe, rmw in (("baseline", "band"), ("baseline, block", "block")):
            if "S=1" not in got or foe not in got:
                continue
            a, b = got["S=1"], got[foe]
            out.add(load, rmw, *(cell(over(a[n], b[n]), form) for n, form in (
                ("response_ms", ".2f"), ("unturned_ms", ".2f"), ("cleaning_blocks", ".4f"))),
                cell(over(b["seeks"], a["seeks"]), ".2f"),
                cell(over(b["cleaning_s"], a["cleaning_s"]), ".1f"))
    return out


def swept(groups):
    """Compare S with S = 1, as Figures 3.16 to 3.19 and Table 3.2."""
    names = [f"S={s}" for s in NARROW]
    for label, name in (("response", "response_ms"), ("response without rotation",
                        "unturned_ms"), ("seeks", "seeks"), ("cleanings", "cleanings"),
                        ("blocks copied", "copies"), ("longest cleaning", "longest_s"),
                        ("blocks of the largest", "largest_blocks")):
        thesis = [f"{n}, Table 3.2" for n in names] if name in TIMES else []
        out = Table(label, ["", *names, *thesis])
        for (load, *_), got in groups.items():
            if any(n not in got for n in names):
                continue
            theirs = LONGEST.get(load) if thesis else None
            out.add(load, *(cell(r, ".2f") for r in ratios([got[n] for n in names], name)), *(
                cell(over(v, theirs[0]), ".2f") if theirs else "" for v in
                (theirs or thesis)))
        yield out


STREAM_COLUMNS = (("alone: write", "alone", "off", "write"), ("read", "alone", "off", "read"),
                  ("stream: write", "together", "off", "write"),
                  ("read", "together", "off", "read"),
                  ("cached: write", "together", "on", "write"),
                  ("read", "together", "on", "read"))


def table_streams(results):
    rows = {what[1:]: of for what, of in results if what[0] == "stream"}
    out = Table("Sequentially, M = 64, MB/s: a region at a time, and in requests of 1 MiB, four under "
                "way; written into fresh regions, read when all have been cleaned; and with the "
                "drive's caches on", ["S", "S blocks a turn", *(c[0] for c in STREAM_COLUMNS)])
    for columns in sorted({key[0] for key in rows}):
        of = (rows.get((columns, cache), {}).get(how, {}).get(what)
              for _, how, cache, what in STREAM_COLUMNS)
        out.add(columns, f"{columns * BLOCK / TURN_S / 1e6:.2f}",
                *(cell(v and v / 1e6, ".2f") for v in of))
    return [out] if rows else []


COLUMNS_5 = (("response, ms", "response_ms", ".2f"), ("unturned", "unturned_ms", ".2f"),
             ("longest, s", "worst_s", ".2f"), ("ampl.", "amplification", ".3f"),
             ("seeks", "seeks", ",d"), ("cleanings", "cleanings", ",d"), ("copied", "copies", ",d"),
             ("cleaning, s", "cleaning_s", ".3f"), ("longest", "longest_s", ".3f"),
             ("lazily", "lazy", ".1%"))


def tables5(results, options):
    return [Table.of_rows(f"Show 5: {titled(*key, options.scale)}", COLUMNS_5, dict(sorted(
        (int(n[2:]), f) for n, f in got.items()))) for key, got in grouped(results).items()]


# --- pictures -------------------------------------------------------------------------


def picture4(results, options):
    """Draw a bar for each layer and load, relative to S = 1."""
    groups = {key[0]: got for key, got in grouped(results).items()
              if not key[2] and key[1] == options.dense}

    def draw(figure):
        from skylight import plots
        layers = [f"S={s}" for s in NARROW] + [f"S={TRACK}", *opponents(options.scale)]
        for axes, (title, name) in zip(plots.panels(figure, 3), (
                ("response over S = 1", "response_ms"),
                ("... without rotation", "unturned_ms"), ("seeks over S = 1", "seeks"))):
            stacks.bars(axes, groups, layers, lambda layer, load, name=name: over(
                groups[load].get(layer, {}).get(name, 0),
                groups[load].get("S=1", {}).get(name)) or 0, rotation=60)
            axes.set_yscale("log")
            axes.axhline(1, color="black", linewidth=.8, linestyle=":")
            axes.set_title(title)
        figure.axes[0].legend(fontsize=6)
    return draw


def picture5(results, options):
    """Draw the figures that fall and those that rise with S."""
    groups = grouped(results)
    rows = {what[1]: of for what, of in results if what[0] == "stream" and what[2] == "off"}

    def draw(figure):
        from skylight import plots
        panels = plots.panels(figure, 3)
        key = next(iter(groups))
        sizes = sorted(int(n[2:]) for n in groups[key])
        got = [groups[key][f"S={size}"] for size in sizes]
        for label, name in (("response", "response_ms"), ("... without rotation",
                            "unturned_ms"), ("seeks", "seeks"), ("cleanings", "cleanings"),
                            ("blocks copied", "copies")):
            panels[0].plot(sizes, [r or float("nan") for r in ratios(got, name)], marker="o",
                           label=label)
        panels[0].set_title(f"falls: {key[0]}, over S = 1")
        panels[1].plot(sizes, [f["longest_s"] or float("nan") for f in got], marker="o",
                       label="longest cleaning")
        panels[1].plot(sizes, [f["cleaning_s"] or float("nan") for f in got], marker="o",
                       label="mean cleaning")
        panels[1].plot(sizes, [f["worst_s"] for f in got], marker="o",
                       label="longest response")
        panels[1].set_title("rises: seconds")
        for name, label in (("alone", "a region at a time"), ("together", "a stream")):
            for what in ("write", "read"):
                panels[2].plot(sorted(rows), [rows[s][name][what] / 1e6 for s in sorted(rows)],
                               marker="o", label=f"{what}, {label}",
                               linestyle="-" if what == "write" else "--")
        panels[2].plot(sorted(rows), [s * BLOCK / TURN_S / 1e6 for s in sorted(rows)],
                       color="black", linestyle=":", label="S blocks a turn")
        panels[2].set_title("sequential, MB/s")
        for axes in panels:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xlabel("S, blocks")
            axes.legend(fontsize=6)
    return draw


def pictures(results, shows, options):
    from skylight import plots
    for show, draw in ((4, picture4), (5, picture5)):
        if show in shows and grouped(results[show]):
            path = OUT / f"show{show}.png"
            plots.png(draw(results[show], options), path, (11, 4.2))
            runner.show_picture(path)


# --- the command ----------------------------------------------------------------------


def parser():
    p = stacks.parser("regions", __doc__, SPACE)
    p.add_argument("show", nargs="*", type=int, metavar="3|4|5", help="which; else all")
    p.add_argument("--quick", action="store_true", help="a few cases of each, in a few minutes")
    return p


def main():
    options = parser().parse_args()
    if not set(options.show) <= {3, 4, 5}:
        runner.refuse("regions", "shows are 3, 4 and 5")
    stacks.sensible("regions", options)
    shows = sorted(set(options.show)) or [3, 4, 5]
    runner.prepare("regions", "shingle")
    loads = stacks.Loads("regions", options)
    cases = {}
    for show in shows:
        cases[show] = {3: lambda: show3(options),
                       4: lambda: show4(options, loads) + streams(options),
                       5: lambda: show5(options, loads) + streams(options)}[show]()
    results, wrong = stacks.measured("regions", options, cases, "regions")
    if 3 in shows:
        tables, more = tables3(results[3])
        runner.show(options, *tables)
        wrong += more
    for show, tables in ((4, tables4), (5, tables5)):
        if show in shows:
            runner.show(options, *tables(results[show], options))
    if {4, 5} & set(shows):
        runner.show(options, *table_streams(results[4 if 4 in shows else 5]))
    pictures(results, shows, options)
    return runner.status(wrong, stacks.EXACT + (
        "; below the bound nothing was cleaned, amplification is within 10 % of the model's, and "
        "full regions go on" if 3 in shows else ""))
