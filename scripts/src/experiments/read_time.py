# SPDX-License-Identifier: GPL-2.0
"""Seconds of a log-structured disk with each remedy for its read seeks, beside its seeks, under the
virtual clock.

Hajkazemi, Abdi and Desnoyers count seeks only.  Here the same loads go to the target `stl-log` over
`platter`, one request at a time: the patterns of their Figure 7 (descending, shuffled, interleaved),
or other loads of scripts/loads.  The disk is that of `layers`, with `clean=off` and a log of all its
bands.  A line for each load compares the order of the logs by seconds with that by seeks.

  plain  no translation
  LS     the log
  OD     opportunistic defragmentation of each fragmented read
  LAB    look-ahead-behind, 256 KiB on each side, the last 32 reads
  SC     selective caching, 64 MiB

  read, write   mean response in ms
  all           seconds of the load
  seeks         of reads of the host, of writes of the host and of defragmentation, and of what
                defragmentation reads, as the target counts them (plain: of the untranslated trace)
  moves         seeks of the medium's arm for each request; there is none within a track
"""

from loads import hajkazemi
from loads.cli import SYNTHETIC

from experiments import runner, stacks
from experiments.tables import Table

SETTINGS = {
    "LS": {}, "OD": {"defrag_frags": 2},
    "LAB": {"look_behind": 64, "look_ahead": 64, "look_regions": 32},
    "SC": {"selective": "on", "read_cache_kb": 65536},
}
REMEDIES = ("LS", "OD", "LAB", "SC", "OD+LAB", "OD+SC", "LAB+SC", "OD+LAB+SC")
LOADS = (*hajkazemi.PATTERNS, hajkazemi.UPDATES, *SYNTHETIC)
COLUMNS = (("read, ms", "read_ms", ".2f"), ("write, ms", "write_ms", ".2f"),
           ("all, s", "seconds", ".2f"), ("read seeks", "read_seeks", ",.0f"),
           ("write seeks", "write_seeks", ",.0f"), ("defrag reads", "again_seeks", ",.0f"),
           ("moves", "moves", ".2f"))


def layer(name):
    """Return the layer for stack.py: plain, or a log with remedies joined by +."""
    if name == "plain":
        return {**stacks.plain(), "set": {}}
    keys = {}
    for part in name.split("+"):
        keys.update(SETTINGS[part])
    return stacks.log_structured(clean="off", **keys)


def load_file(name, options):
    """Generate a load and return its path."""
    out = runner.outputs("read-time") / f"{name}-{options.seed}.csv"
    stacks.Loads("read-time", options).run(["generate", name, "--seed", options.seed, "--out", out])
    return out


def cases(options):
    out = []
    for load in options.loads or hajkazemi.PATTERNS:
        path = load_file(load, options)
        for name in ("plain", *REMEDIES):
            of = layer(name)
            keys = {"media": of.pop("media")} if "media" in of else {}
            out.append((f"{load}-{name}-{options.scale}", {
                "what": "load", "layer": of, "medium": stacks.surface(options.scale, **keys),
                "load": str(path), "requests": options.requests, "offset": 0, "large": False},
                (load, name)))
    return out


def figures(of):
    counts = of["layer"]
    if of["words"]["layer"]["target"] == "plain":
        reads = writes = again = 0
    else:
        reads, again = counts["ls_read_seeks"], counts["ls_clean_read_seeks"]
        writes = counts["ls_write_seeks"] + counts["ls_rewrite_seeks"]
    return {"read_ms": of["reads"]["mean_ms"], "write_ms": of["writes"]["mean_ms"],
            "seconds": of["seconds"], "read_seeks": reads, "write_seeks": writes,
            "again_seeks": again, "moves": of["medium"]["seeks"] / of["all"]["requests"]}


def rows(results):
    """Return {load: {layer: figures}}; plain has the seeks of the untranslated trace, which every
    log counts."""
    out = {}
    for (load, name), of in results:
        out.setdefault(load, {})[name] = figures(of)
        if name == "LS":
            out[load]["plain"].update(read_seeks=of["layer"]["nols_read_seeks"],
                                      write_seeks=of["layer"]["nols_write_seeks"])
    return out


def order(of, value):
    """Return the names of the logs, the smallest value first."""
    return sorted((name for name in of if name != "plain"), key=lambda name: value(of[name]))


def sentences(groups):
    """Yield for each load whether fewer seeks take less time."""
    for load, of in groups.items():
        by_time = order(of, lambda f: f["seconds"])
        by_seeks = order(of, lambda f: f["read_seeks"] + f["write_seeks"] + f["again_seeks"])
        ranks = [by_seeks.index(name) for name in by_time]
        pairs = [(a, b) for i, a in enumerate(ranks) for b in ranks[i + 1:]]
        kept = sum(a < b for a, b in pairs)
        yield f"{load}: by seconds {', '.join(by_time)}; by seeks {', '.join(by_seeks)}; " \
              f"{kept} of {len(pairs)} pairs in the same order"


def main():
    p = stacks.parser("read-time", __doc__, hajkazemi.PATTERNS)
    options = p.parse_args()
    if options.scale < 1:
        runner.refuse("read-time", f"--scale {options.scale} is less than 1")
    for load in options.loads or ():
        if load not in LOADS:
            runner.refuse("read-time", f"load '{load}' is none of {', '.join(LOADS)}")
    runner.prepare("read-time", "shingle")
    results, wrong = stacks.measured("read-time", options, {"all": cases(options)}, "stack")
    groups = rows(results["all"])
    runner.show(options, *(Table.of_rows(f"{load}, on 1/{options.scale} of the surface", COLUMNS,
                                         of, load) for load, of in groups.items()))
    for line in sentences(groups):
        print(line)
    return runner.status(wrong, stacks.EXACT)
