# SPDX-License-Identifier: GPL-2.0
"""All translation layers on the same loads over the same medium, under the virtual clock: one
table, one picture.

The surface is that of C. Ma's thesis (512 GB, 5,900 rpm, tracks of 2 MiB, a head of three tracks, a
cache of 1 %), divided by --scale.  `imr` has it with interlaced tracks, `plain` with tracks that
are far enough from each other.  The cache of `rmwf` is flash, which takes no time.  Every layer
stages what it rewrites.  `stl-log` has no cache; *SC+LAB* are two remedies for its read seeks.
Metadata are in RAM, so the medium's writes are data.  Loads are those of scripts/loads, one request
at a time, on a volume in the middle of the surface; they write --dense per cent of the volume.

  response      mean, 99th percentile, longest
  no rotation   mean, without the time spent waiting for the angle
  written       by the medium for each block of the host
  seeks         of the medium, for each request
  RAM           of the map, at the end, without caches
"""

from experiments import runner, stacks
from experiments.stacks import figures, layers, load_case
from experiments.tables import Table

LOADS = ("rsrch_0", "src1_2", "web_0", "proj_2")
COLUMNS = (("mean, ms", "response_ms", ".2f"), ("99 %", "p99_ms", ".1f"),
           ("longest, s", "worst_s", ".2f"), ("no rotation", "unturned_ms", ".2f"),
           ("read", "read_ms", ".2f"), ("write", "write_ms", ".2f"),
           ("written", "medium_amplification", ".2f"), ("seeks", "seeks_each", ".2f"),
           ("RAM, KiB", "ram_kib", ",.0f"))


def cases(options, loads):
    out = []
    for load in options.loads or LOADS:
        for name, layer in layers(options.scale).items():
            if options.layers and name not in ("plain", *options.layers):
                continue
            keys = {"media": layer["media"]} if "media" in layer else {}
            layer = {"set": {}, **{k: v for k, v in layer.items() if k != "media"}}
            out.append(load_case(options, loads, load, options.dense, layer, name, **keys))
    return out


def rows(results):
    """{load: {layer: figures}}"""
    out = {}
    for (_, load, _, name, _), of in results:
        f = figures(of)
        f["seeks_each"] = f["seeks"] / of["all"]["requests"]
        f["ram_kib"] = f["ram_bytes"] / 1024
        out.setdefault(load, {})[name] = f
    return out


def tables(groups, options):
    return [Table.of_rows(f"{load}, a surface of 1/{options.scale}, a volume of which it writes "
                          f"{options.dense} %", COLUMNS, got, load) for load, got in groups.items()]


def picture(groups, path):
    from skylight import plots

    def draw(figure):
        names = list(next(iter(groups.values())))
        for axes, (title, key) in zip(plots.panels(figure, 3), (
                ("mean response over plain", "response_ms"),
                ("longest response, s", "worst_s"),
                ("written by the medium, for each block", "medium_amplification"))):
            def height(name, load, key=key):
                of = groups[load].get(name)
                return of[key] / (groups[load]["plain"][key] if key == "response_ms" else 1) \
                    if of else 0
            stacks.bars(axes, groups, names, height, rotation=30)
            axes.set_yscale("log")
            axes.set_title(title)
        figure.axes[0].legend(fontsize=6)
    plots.png(draw, path, (12, 4.2))


def main():
    p = stacks.parser("layers", __doc__, LOADS)
    p.add_argument("--layers", action="append", metavar="NAME", choices=tuple(layers(1)),
                   help="only plain and this one of " + "; ".join(layers(1)) +
                        "; can be given again")
    options = p.parse_args()
    stacks.sensible("layers", options)
    runner.prepare("layers", "shingle")
    loads = stacks.Loads("layers", options)
    results, wrong = stacks.measured("layers", options, {"all": cases(options, loads)},
                                     "stack")
    groups = rows(results["all"])
    runner.show(options, *tables(groups, options))
    path = runner.outputs("layers") / "layers.png"
    picture(groups, path)
    runner.show_picture(path)
    return runner.status(wrong, stacks.EXACT)
