# SPDX-License-Identifier: GPL-2.0
"""Part "blocks" of scripts/experiments kv: the arrivals of part "offload" as block writes, on
targets that clean at times of their own, with flash beside them and without."""

import subprocess

from lab.cache import TOP

from experiments import runner, stacks
from experiments.stacks import BLOCK, MIB, over
from experiments.tables import Table

KVBENCH = TOP / "build/userspace/kvbench"
SCALE = 64              # of the surface of stacks.py, and of its cache of 1 %
TARGETS = {"stl-set": "stl-set", "stl-full": "stl-full", "tiler": "tiler, S = 8",
           "dualbuffer": "dualbuffer"}
IDLE_MS, THREADS = 200, 64
# Sizes of the disk, which is overwritten again and again, and of flash.
SPAN_MIB, FLASH_MIB = 1024, 128
WAYS = ("fio", "threads", "diverted")


def layer(name):
    """Return the layer of scripts/experiments layers, but with cleaning also when the host is idle."""
    of = stacks.layers(SCALE)[TARGETS[name]]
    policy = {"cleaning": "aggressive"} if name.startswith("stl-") else {}
    return {**of, "set": {**of.get("set", {}), **policy, "idle_ms": IDLE_MS}}


def asked(options, words):
    """Return the words for kvbench: writes of a block each as they arrive."""
    return ["arrivals", *words, "--seconds", str(60 * options.block_minutes), "--size",
            f"{SPAN_MIB}M", "--block", "4K", "--requests", "zipfian", "--seed",
            str(options.seed), "--format", "iolog3"]


def load(options, name, words):
    """Have kvbench write the load to a file; return its path."""
    out = runner.outputs("kv") / (f"arrivals-{name}-{options.iops}-{options.block_minutes}-"
                                  f"{options.seed}.iolog")
    subprocess.run([KVBENCH, *words, "--out", out], check=True)
    return out


def cases(options, arrivals):
    """[(file, words, (arrivals, target))]; @arrivals: {name: words of kvbench}"""
    out = []
    for name, rate in arrivals.items():
        words = asked(options, rate)
        path = load(options, name, words)
        for target in TARGETS:
            out.append((f"blocks-{name}-{target}-{options.iops}-{options.block_minutes}-"
                        f"{options.seed}", {
                            "layer": layer(target), "medium": stacks.surface(SCALE),
                            "load": str(path), "asked": words,
                            "span_blocks": SPAN_MIB * MIB // BLOCK,
                            "flash_blocks": FLASH_MIB * MIB // BLOCK, "threads": THREADS,
                            "quiet_s": IDLE_MS / 1000, "ways": list(WAYS)}, (name, target)))
    return out


# --- evaluation -----------------------------------------------------------------------


def wrong_of(name, of):
    """Yield sentences about what must never occur."""
    for how, one in of["ways"].items():
        yield from stacks.lost_of(f"{name}, {how}", one)
        if one["medium"]["late_max_us"] > stacks.ROTATION_US:
            yield (f"{name}, {how}: a request was {one['medium']['late_max_us']} us late: no "
                   "exact clock")


def figures(of):
    """Return the figures of each way to send the requests."""
    return {how: {
        **{name: one[name] for name in ("mean_ms", "p99_ms", "p99_9_ms", "max_ms")},
        "steps": one["layer"]["steps"], "diverted": over(100 * one.get("diverted", 0),
                                                         one["requests"]),
        "left": over(100 * one.get("left", 0), one.get("diverted", 0)),
        "home_s": one.get("home_s")} for how, one in of["ways"].items()}


COLUMNS = (("mean, ms", "mean_ms", ".2f"), ("99 %", "p99_ms", ",.1f"),
           ("99.9 %", "p99_9_ms", ",.1f"), ("longest", "max_ms", ",.1f"),
           ("steps", "steps", ",d"), ("to flash, %", "diverted", ".1f"),
           ("left, %", "left", ".1f"), ("home in, s", "home_s", ".1f"))


def table(results):
    return Table.of_rows("writes of 4 KiB as they arrive, on targets that clean when the host is quiet",
                         COLUMNS, {f"{name}, {target}, {how}": f for (name, target), of in results
                                   for how, f in figures(of).items()})


def relations(results):
    """[(sentence, whether it holds here)]"""
    out = []
    for (name, target), of in results:
        f = figures(of)
        one, other = f["threads"], f["diverted"]
        out += [(f"{target}, {name}: with flash 99.9 % take less",
                 other["p99_9_ms"] < one["p99_9_ms"]),
                (f"{target}, {name}: and the longest does", other["max_ms"] < one["max_ms"])]
    return out


def picture(results, path):
    """Draw a panel for each arrival process: the 99.9th percentile of each target with and without
    flash."""
    from skylight import plots
    by = {}
    for (name, target), of in results:
        by.setdefault(name, {})[target] = figures(of)

    def draw(figure):
        for axes, (name, got) in zip(plots.panels(figure, len(by), share_y=True), by.items()):
            for i, (how, label) in enumerate((("threads", "without flash"),
                                              ("diverted", "with flash"))):
                for key, fill in (("max_ms", .35), ("p99_9_ms", 1)):
                    axes.bar([j + i * .4 - .2 for j in range(len(got))],
                             [of[how][key] for of in got.values()], .38, alpha=fill,
                             color=plots.CYCLE[i], label=label if fill == 1 else None)
            plots.logarithmic(axes)
            axes.set_title(f"{name}: 99.9 % and the longest, ms")
            axes.set_xticks(range(len(got)), list(got), rotation=20)
        figure.axes[0].legend()
    plots.png(draw, path, (11, 4.2))


def show(results, options):
    runner.show(options, table(results))
    runner.show_relations(relations(results))
    path = runner.outputs("kv") / "blocks.png"
    picture(results, path)
    runner.show_picture(path)
