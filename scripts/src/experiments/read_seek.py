# SPDX-License-Identifier: GPL-2.0
"""Seeks of traces on a log-structured disk, and three remedies for those of reads, as in Hajkazemi,
Abdi and Desnoyers, "Minimizing Read Seek for SMR Disk".

TRACE is a file (MSR Cambridge, SYSTOR '17, Alibaba, Tencent, CloudPhysics, DiskSim, blkparse or fio;
perhaps compressed), NAME=FILE to give it another name than that of the file, a pattern of Figure 7
(descending, shuffled, interleaved), or synthetic:NAME, a synthetic load with the counts of a trace of
the paper's Table I; "synthetic" is all of them.  shingle-replay counts the seeks, in sectors, on an infinite disk without
cleaning; there is no guest and no device.

  NoLS  the untranslated trace
  LS    the log
  OD    opportunistic defragmentation of reads with N fragments or more, at the k-th such read of
        a MiB of addresses
  LAB   look-ahead-behind: KiB on each side of a fragment, regions kept
  SC    selective caching, found by units or only as exact fragments

A seek amplification factor (SAF) is the seeks of the log divided by those of the untranslated
trace.  For a trace of the paper, found by its name, the paper's statements are printed with yes or
no.
"""

import hashlib
import json
import os
import re
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common.output import store
from lab.cache import TOP, digest
from loads import hajkazemi, sectors
from loads.requests import Refused

from experiments import runner
from experiments.resume import earlier
from experiments.tables import Table

OUT = runner.outputs("read-seek")
TOOL = TOP / "build/userspace/shingle-replay"
SYNTHETIC = "synthetic:"
POINTS = 200            # intervals of Figure 3


# What the paper's Figure 11 compares; it does not give the sizes of LAB.
BARS = {"LS": "LS", "OD": "OD N=2 k=1", "LAB": "LAB 256x32", "SC": "SC 64M"}
CONFIGURATIONS = (
    *BARS, *(f"OD N={n} k={k}" for n in (2, 4, 8) for k in (1, 2) if (n, k) != (2, 1)),
    *(f"LAB {kib}x{regions}" for kib in (64, 128, 256, 512) for regions in (1, 32)
      if (kib, regions) != (256, 32)),
    "SC exact", "OD+LAB", "OD+SC", "LAB+SC", "OD+LAB+SC")
FORMS = (
    (r"LS", lambda: ()),
    (r"OD N=(\d+) k=(\d+)", lambda n, k: ("--defrag-frags", n, "--defrag-hits", k)),
    (r"LAB (\d+)x(\d+)", lambda kib, regions: (
        "--behind", f"{kib}K", "--ahead", f"{kib}K", "--regions", regions)),
    (r"SC(?: exact)?", lambda: ("--cache", "64M")), (r"SC (\d+)M(?: exact)?",
                                                    lambda mib: ("--cache", f"{mib}M")),
)


def arguments(name):
    """Return the options of shingle-replay for a configuration: "OD N=4 k=2", "LAB 64x1", "SC 16M
    exact", or several joined by +; OD, LAB and SC alone have the values of BARS.  ValueError for
    another name."""
    out = []
    for part in name.split("+"):
        word = BARS.get(part, part)
        for form, options in FORMS:
            found = re.fullmatch(form, word)
            if found:
                out += options(*found.groups())
                out += ("--exact",) if word.endswith("exact") else ()
                break
        else:
            raise ValueError(part)
    return tuple(out)


COLUMNS = (("read seeks", "read", ",.0f"), ("write seeks", "write", ",.0f"),
           ("long", "long", ",.0f"), ("SAF read", "saf_read", ".3f"),
           ("write", "saf_write", ".3f"), ("total", "saf", ".3f"), ("RAM, KiB", "ram_kib", ",.0f"))


# --- what the paper says of its traces ---------------------------------------------------

def saf(of, name="LS"):
    return of[name]["figures"]["saf"]


def rise(of):
    """The read seeks of LS over those of NoLS."""
    return of["LS"]["figures"]["saf_read"]


def near_share(of, stream):
    """The share of seeks within 1 GiB either way."""
    st, unit = of["LS"]["streams"][stream], of["LS"]["unit_bytes"]
    near = sum(count for side in ("ahead", "back") for i, count in enumerate(st[side])
               if unit << (i + 1) <= 1 << 30)
    return near / max(1, st["seeks"])


def half_of_fragments(of):
    """The share of fragmented reads, those with most fragments first, that has half of the
    fragments."""
    pairs = sorted(((f, n) for f, n in of["LS"]["frags_of"] if f > 1), reverse=True)
    half, reads = sum(f * n for f, n in pairs) / 2, sum(n for _, n in pairs)
    seen = used = 0
    for frags, number in pairs:
        part = min(number, (half - seen) / frags)
        seen, used = seen + part * frags, used + part
        if part < number:
            break
    return used / max(1, reads)


def misordered(of):
    return of["LS"]["misordered_writes"] / max(1, of["LS"]["writes"])


def popular_mib(of, share=0.9):
    """The size of the most accessed fragments that have this share of the accesses."""
    points = of["LS"].get("popular") or [[0, 0, 0, 0]]
    wanted = share * points[-1][2]
    return next(p[3] for p in points if p[2] >= wanted) * of["LS"]["unit_bytes"] / (1 << 20)


def fewest(of):
    return min(BARS, key=lambda name: saf(of, name))


def better(of, name):
    """The SAF of LS over that with a remedy."""
    return saf(of) / saf(of, name) if saf(of, name) else float("inf")


MSR = tuple(name for name in hajkazemi.TABLE if "_" in name)
CLOUD = tuple(name for name in hajkazemi.TABLE if "_" not in name)
LOSERS = ("usr_1", "hm_1")
# (figure, traces, sentence, whether it holds)
STATEMENTS = (
    ("2", tuple(hajkazemi.TABLE), "write seeks fall sharply",
     lambda of: of["LS"]["figures"]["saf_write"] < 0.5),
    ("2", ("src2_2", "wdev_0", "w36"), "read seeks rise little, all seeks fall",
     lambda of: 1 <= rise(of) < 1.5 and saf(of) < 1),
    ("2", ("w91", "w33", "w20"), "read seeks rise hugely, with a large net amplification",
     lambda of: rise(of) > 2 and saf(of) > 1.5),
    ("4", ("src2_2", "usr_0"), "a larger share of LS seeks than of NoLS seeks is within 1 GB",
     lambda of: near_share(of, "ls") > near_share(of, "nols")),
    ("4", ("w20", "w36"), "less than half of LS seeks are within 1 GB",
     lambda of: near_share(of, "ls") < 0.5),
    ("5", ("usr_0", "hm_1", "w20"), "half of the fragments are in about 20 % of fragmented reads",
     lambda of: half_of_fragments(of) < 0.25),
    ("5", ("w36",), "half of the fragments are in far less than 20 % of fragmented reads",
     lambda of: half_of_fragments(of) < 0.15),
    ("8", ("w106",), "1 in 25 writes is mis-ordered", lambda of: 0.03 < misordered(of) < 0.05),
    ("8", ("src2_2",), "1 in 20 writes is mis-ordered", lambda of: 0.04 < misordered(of) < 0.06),
    ("10", tuple(hajkazemi.TABLE), "tens of MB hold the fragments of most accesses",
     lambda of: popular_mib(of) < 100),
    ("11", tuple(n for n in MSR if n not in LOSERS), "LS has a SAF below 1",
     lambda of: saf(of) < 1),
    ("11", LOSERS, "LS has a SAF above 1", lambda of: saf(of) > 1),
    ("11", tuple(hajkazemi.TABLE), "LAB improves on LS", lambda of: better(of, "LAB") >= 1),
    ("11", tuple(hajkazemi.TABLE), "SC improves on LS", lambda of: better(of, "SC") >= 1),
    ("11", ("src2_2", "w93"), "OD is worse than LS", lambda of: better(of, "OD") < 1),
    ("11", ("w20",), "OD is 2.8 times worse than LS",
     lambda of: 0.3 < better(of, "OD") < 0.42),
    ("11", ("usr_1", "hm_1", "w55", "w33"), "LAB improves by less than 1 %",
     lambda of: better(of, "LAB") < 1.01),
    ("11", ("w84", "w95", "w91"), "LAB improves much, by up to 3.7 times",
     lambda of: 1.2 < better(of, "LAB") < 4),
    ("11", tuple(n for n in hajkazemi.TABLE if n not in ("usr_1", "src2_2")),
     "SC has the lowest SAF", lambda of: fewest(of) == "SC"),
    ("11", ("w91",), "LS has a SAF of 3.7, SC one of 0.2",
     lambda of: 3.3 < saf(of) < 4.1 and saf(of, "SC") < 0.3),
)


def statements(groups):
    """Return [(trace, figure, sentence, whether it holds)] for the traces of the paper.  Sentences
    about several traces of a collection need more than half of them."""
    out = [(trace, figure, sentence, bool(holds(groups[trace])))
           for figure, traces, sentence, holds in STATEMENTS
           for trace in traces if trace in groups]
    for traces, sentence, holds in (
            (CLOUD, "most of CloudPhysics have a SAF above 1 with LS", lambda of: saf(of) > 1),):
        known = [groups[name] for name in traces if name in groups]
        if known:
            out.append(("CloudPhysics", "11", sentence, sum(map(holds, known)) * 2 > len(known)))
    return out


# --- measurements ---------------------------------------------------------------------

def figures(of):
    """Return the figures of a row."""
    nols, ls = of["streams"]["nols"], of["streams"]["ls"]
    read = ls["read"]["seeks"]
    write = ls["write"]["seeks"] + ls["rewrite"]["seeks"]

    def ratio(seeks, other):
        return seeks / other if other else None
    return {"read": read, "write": write, "long": ls["long_seeks"],
            "saf_read": ratio(read, nols["read"]["seeks"]),
            "saf_write": ratio(write, nols["write"]["seeks"]),
            "saf": ratio(read + write, nols["seeks"]),
            "ram_kib": (of["map_bytes"] + of["cache"]["bytes"] + of["unit_bytes"] *
                        (of["settings"]["cache_units"] + of["settings"]["regions"] *
                         of["around"]["largest_region_units"])) / 1024}


def name_of(path):
    """Return the name of a trace: hm_1 of hm_1.csv.gz, w91 of w91_vscsi1.vscsitrace."""
    stem = Path(path).name.split(".")[0]
    return stem.removesuffix("_vscsi1").removesuffix("_vscsi2")


def expanded(words):
    return [one for word in words for one in (
        (SYNTHETIC + name for name in hajkazemi.TABLE) if word == SYNTHETIC[:-1] else (word,))]


def requests_of(word, options):
    """Return (name, file for shingle-replay, note) for a TRACE."""
    folder = OUT / "traces"
    kind = word.removeprefix(SYNTHETIC)
    if word not in hajkazemi.PATTERNS and kind == word:
        name, _, path = word.rpartition("=")
        made, volume = sectors.cached(path, folder, options.volume, options.requests)
        return name or name_of(path), made, f"volume {volume}"
    load = hajkazemi.pattern(word, options.seed, 100)[:options.requests] if kind == word else \
        hajkazemi.synthetic(kind, options.seed, 100, options.requests)
    path = folder / f"{word.replace(':', '-')}-{options.seed}-{len(load)}.requests"
    sectors.save(sectors.of_load(load), path)
    # A synthetic load has another name than the trace, so no statement of the paper applies to it.
    return word, path, "a pattern" if kind == word else "synthetic"


def replay(path, args, resume):
    """Run shingle-replay, or with @resume return an earlier result of the same program."""
    requests = path.stat()
    words = {"args": list(args), "program": digest(TOOL.read_bytes()), "requests": path.name,
             "bytes": requests.st_size, "made": requests.st_mtime_ns}
    key = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]
    out = OUT / f"{key}.json"
    of = earlier(out, words) if resume else None
    if of:
        return of
    done = subprocess.run([TOOL, "--json", *args, path], check=False, text=True,
                          capture_output=True)
    if done.returncode:
        raise SystemExit(f"read-seek: {done.stderr.strip()}")
    of = {**json.loads(done.stdout), "words": words}
    store(out, json.dumps(of))
    return of


def measure(traces, options):
    """Return {trace: {configuration: result}}: one pass for each, all side by side."""
    groups = {name: {} for name, *_ in traces}
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = []
        for name, path, _ in traces:
            number = (path.stat().st_size - len(sectors.MAGIC)) // sectors.REQUEST.itemsize
            series = ("--interval", str(max(1, number // POINTS)), "--popular")
            for label in options.configurations:
                args = (*arguments(label), *(series if label == "LS" else ()))
                runs.append((name, label, pool.submit(replay, path, args, options.resume)))
        for name, label, run in runs:
            of = run.result()
            of["figures"] = figures(of)
            groups[name][label] = of
    return groups


def tables(groups, notes):
    """Return the tables: one for each trace, one of all traces, and what the paper says."""
    out = []
    for name, of in groups.items():
        nols = of["LS"]["streams"]["nols"]
        rows = {"NoLS": {"read": nols["read"]["seeks"], "write": nols["write"]["seeks"],
                         "long": nols["long_seeks"], "saf_read": None, "saf_write": None,
                         "saf": None, "ram_kib": None},
                **{label: one["figures"] for label, one in of.items()}}
        ls = of["LS"]
        out.append(Table.of_rows(
            f"{name} ({notes[name]}): {ls['reads']:,} reads, {ls['writes']:,} writes, "
            f"{ls['fragmented_reads']:,} reads fragmented, "
            f"{100 * misordered(of):.1f} % of writes mis-ordered", COLUMNS, rows))
    bars = [label for label in BARS if all(label in of for of in groups.values())]
    means = {label: statistics.mean(saf(of, label) or 0 for of in groups.values())
             for label in bars}
    out.append(Table.of_rows("seek amplification factor, all seeks",
                             [(label, label, ".3f") for label in bars],
                             {**{name: {label: saf(of, label) for label in bars}
                                 for name, of in groups.items()}, "mean": means}))
    return out


# --- pictures ------------------------------------------------------------------------

def bars(axes, groups, heights, labels):
    """Draw bars side by side for each trace; heights(name, label)."""
    wide = 0.8 / len(labels)
    for i, label in enumerate(labels):
        axes.bar([j + (i - (len(labels) - 1) / 2) * wide for j in range(len(groups))],
                 [heights(name, label) or 0 for name in groups], wide, label=label)
    axes.set_xticks(range(len(groups)), list(groups), rotation=30, ha="right")


def figure_2(figure, groups):
    axes = figure.subplots()
    for i, (stream, dark) in enumerate((("nols", 0.55), ("ls", 1.0))):
        at = [j + 0.2 * (2 * i - 1) for j in range(len(groups))]
        reads = [of["LS"]["streams"][stream]["read"]["seeks"] for of in groups.values()]
        writes = [of["LS"]["streams"][stream]["write"]["seeks"] for of in groups.values()]
        kind = "log" if i else "untranslated"
        axes.bar(at, writes, 0.38, color="#2a7fbe", alpha=dark, label=f"writes, {kind}")
        axes.bar(at, reads, 0.38, bottom=writes, color="#c05a28", alpha=dark,
                 label=f"reads, {kind}")
    axes.set_xticks(range(len(groups)), list(groups), rotation=30, ha="right")
    axes.set_ylabel("seeks")
    axes.legend()


def each_trace(figure, groups, draw):
    """One panel for each trace."""
    across = min(4, len(groups))
    panels = figure.subplots(-(-len(groups) // across), across, squeeze=False).reshape(-1)
    for axes, (name, of) in zip(panels, groups.items()):
        draw(axes, of["LS"])
        axes.set_title(name)
    for axes in panels[len(groups):]:
        axes.set_visible(False)


def figure_3(axes, of):
    series = of["series"]
    more = [ls - nols for ls, nols in zip(series["ls_long_seeks"], series["nols_long_seeks"])]
    axes.plot([i * series["ops"] for i in range(len(more))], more, linewidth=0.8)
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_xlabel("request")
    axes.set_ylabel("long seeks, log - untranslated")


def figure_4(axes, of):
    for stream, label in (("nols", "untranslated"), ("ls", "log")):
        st, unit = of["streams"][stream], of["unit_bytes"] / (1 << 30)
        points = [(-unit * 2 ** i, n) for i, n in reversed(list(enumerate(st["back"])))]
        points += [(unit * 2 ** (i + 1), n) for i, n in enumerate(st["ahead"])]
        total, seen, x, y = max(1, st["seeks"]), 0, [], []
        for at, number in points:
            seen += number
            x.append(at)
            y.append(seen / total)
        axes.plot(x, y, label=label)
    axes.set_xscale("symlog", linthresh=1e-3)
    axes.set_xlim(-4096, 4096)
    axes.set_xticks([-1000, -1, 0, 1, 1000], ["-1000", "-1", "0", "1", "1000"])
    axes.set_xlabel("distance, GiB")
    axes.set_ylabel("share of seeks")
    axes.legend()


def figure_5(axes, of):
    pairs = sorted(((f, n) for f, n in of["frags_of"] if f > 1), reverse=True)
    reads, frags = max(1, sum(n for _, n in pairs)), max(1, sum(f * n for f, n in pairs))
    x, y = [0.0], [0.0]
    for number, times in pairs:
        x.append(x[-1] + times / reads)
        y.append(y[-1] + number * times / frags)
    axes.plot(x, y)
    axes.set_xlabel("share of fragmented reads")
    axes.set_ylabel("share of fragments")


def figure_8(figure, groups):
    axes = figure.subplots()
    bars(axes, groups, lambda name, _: 100 * misordered(groups[name]), ("mis-ordered",))
    axes.set_ylabel("mis-ordered writes, %")


def figure_10(axes, of):
    points = of.get("popular", ())
    axes.plot([p[0] for p in points], [p[1] for p in points])
    # Without points a logarithmic axis has no range.
    if points:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel("fragment, by accesses")
    axes.set_ylabel("accesses")
    size = axes.twinx()
    size.plot([p[0] for p in points], [p[3] * of["unit_bytes"] / (1 << 20) for p in points],
              color="#c05a28", linestyle="--")
    size.set_ylabel("cache for all up to it, MiB")


def figure_11(figure, groups):
    axes = figure.subplots()
    labels = [label for label in BARS if all(label in of for of in groups.values())]
    bars(axes, groups, lambda name, label: saf(groups[name], label), labels)
    axes.axhline(1, color="black", linewidth=0.5)
    axes.set_ylabel("seek amplification factor")
    axes.legend()


def pictures(groups, folder):
    """Draw the paper's figures for these traces; return the files."""
    from skylight import plots
    out = []
    for number, draw in (("2", figure_2), ("3", figure_3), ("4", figure_4), ("5", figure_5),
                         ("8", figure_8), ("10", figure_10), ("11", figure_11)):
        def whole(figure, draw=draw):
            draw(figure, groups)

        def panels(figure, draw=draw):
            each_trace(figure, groups, draw)
        path = folder / f"figure-{number}.png"
        if draw in (figure_2, figure_8, figure_11):
            plots.png(whole, path, (max(6, len(groups)), 4))
        else:
            plots.png(panels, path, (4 * min(4, len(groups)), 3.2 * -(-len(groups) // 4)))
        out.append(path)
    return out


def parser():
    p = runner.Parser("read-seek", __doc__, "resume", "seed", "jobs", "requests",
                      jobs=os.cpu_count())
    p.add_argument("traces", metavar="TRACE", nargs="*", default=list(hajkazemi.PATTERNS),
                   help="see above (the patterns)")
    p.add_argument("--volume", help="volume of the traces (the one with most requests)")
    p.add_argument("--configurations", metavar="NAME,...",
                   help=f"({', '.join(CONFIGURATIONS)}); other numbers are possible, LS is "
                        "always measured")
    return p


def chosen(p, words):
    """Return the names of the configurations."""
    if words is None:
        return list(CONFIGURATIONS)
    names = ["LS", *(name for name in words.split(",") if name != "LS")]
    for name in names:
        try:
            arguments(name)
        except ValueError:
            p.error(f"configuration '{name}' is none of {', '.join(CONFIGURATIONS)}")
    return names


def main():
    p = parser()
    options = p.parse_args()
    options.configurations = chosen(p, options.configurations)
    runner.prepare("read-seek", "replay")
    (OUT / "traces").mkdir(exist_ok=True)
    try:
        traces = [requests_of(word, options) for word in expanded(options.traces)]
    except Refused as error:
        p.error(str(error))
    names = [name for name, *_ in traces]
    if len(set(names)) < len(names):
        p.error("two traces have the same name: give them others by NAME=FILE")
    groups = measure(traces, options)
    said = statements(groups) if set(BARS) <= set(options.configurations) else []
    runner.keep(options, {"traces": groups, "statements": said})
    runner.show(options, *tables(groups, {name: note for name, _, note in traces}))
    if said:
        print("\nThe paper says:")
        runner.show_relations((f"figure {figure}, {trace}: {sentence}", holds)
                              for trace, figure, sentence, holds in said)
    for path in pictures(groups, OUT):
        runner.show_picture(path)
    return 0
