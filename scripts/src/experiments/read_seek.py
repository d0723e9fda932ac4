# SPDX-License-Identifier: GPL-2.0
"""Seeks of traces on a log-structured disk, and three remedies for those of reads, as in Hajkazemi,
Abdi and Desnoyers, "Minimizing Read Seek for SMR Disk".

TRACE is a file (MSR Cambridge, SYSTOR '17, Alibaba, Tencent, CloudPhysics, DiskSim, blkparse or fio;
perhaps compressed), NAME=FILE to give it another name than that of the file, a pattern of Figure 7
(descending, shuffled, interleaved), synthetic:NAME, a synthetic load with the counts of a trace of
the paper's Table I, or updates, a load for a finite disk; "synthetic" is all of Table I.
shingle-replay counts the seeks, in sectors, on an infinite disk without cleaning; there is no guest
and no device.

  NoLS  the untranslated trace
  LS    the log
  OD    opportunistic defragmentation of reads with N fragments or more, at the k-th such read of
        a MiB of addresses
  LAB   look-ahead-behind: KiB on each side of a fragment, regions kept
  SC    selective caching, found by units or only as exact fragments

--finite replays, in blocks of 4 KiB, on disks that are 50, 70 and 90 % full, with the code of the
target stl-log and its policies of cleaning (configurations like "LAB+90% greedy").  --sweep
replays with many more values of N, k, sizes and regions: a workflow of Snakemake.

A seek amplification factor (SAF) is the seeks of the log divided by those of the untranslated
trace; seeks of cleaning are among those of the log.  For a trace of the paper, found by its name, the paper's statements are printed with yes or
no.
"""

import csv
import hashlib
import json
import os
import re
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from common.output import store
from lab import packages
from lab.cache import TOP, digest
from loads import hajkazemi, sectors
from loads.requests import Refused
from skylight.cli import Screen

from experiments import runner
from experiments.resume import earlier
from experiments.tables import Table

OUT = runner.outputs("read-seek")
TOOL = TOP / "build/userspace/shingle-replay"
SYNTHETIC = "synthetic:"
POINTS = 200            # intervals of Figure 3
SWEEP = TOP / "scripts/src/experiments/read_seek.smk"
FULL = (50, 70, 90)
POLICIES = ("greedy", "cost-benefit")


# The layers that the paper's Figure 11 compares; it does not give the sizes of LAB.
BARS = {"LS": "LS", "OD": "OD N=2 k=1", "LAB": "LAB 256x32", "SC": "SC 64M"}
CONFIGURATIONS = (
    *BARS, *(f"OD N={n} k={k}" for n in (2, 4, 8) for k in (1, 2) if (n, k) != (2, 1)),
    *(f"LAB {kib}x{regions}" for kib in (64, 128, 256, 512) for regions in (1, 32)
      if (kib, regions) != (256, 32)),
    "SC exact", "OD+LAB", "OD+SC", "LAB+SC", "OD+LAB+SC")
REMEDIES = (*BARS, "OD+LAB", "OD+SC", "LAB+SC", "OD+LAB+SC")
FINITE = tuple(f"{remedy}+{full}% {policy}" for policy in POLICIES for full in FULL
               for remedy in REMEDIES)
FORMS = (
    (r"LS", lambda: ()),
    (r"OD N=(\d+) k=(\d+)", lambda n, k: ("--defrag-frags", n, "--defrag-hits", k)),
    (r"LAB (\d+)x(\d+)", lambda kib, regions: (
        "--behind", f"{kib}K", "--ahead", f"{kib}K", "--regions", regions)),
    (r"SC(?: exact)?", lambda: ("--cache", "64M")), (r"SC (\d+)M(?: exact)?",
                                                    lambda mib: ("--cache", f"{mib}M")),
    (r"(\d+)% (greedy|cost-benefit)", lambda full, policy: (
        "--unit", "4K", "--full", full, "--clean", policy)),
)


def arguments(name):
    """Return the options of shingle-replay for a configuration: "OD N=4 k=2", "LAB 64x1", "SC 16M
    exact", "90% greedy" (a finite disk), or several joined by +; OD, LAB and SC alone have the values
    of BARS.  ValueError for another name."""
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
           ("write", "saf_write", ".3f"), ("total", "saf", ".3f"), ("RAM, KiB", "ram_kib", ",.0f"),
           ("KiB/saved seek", "kib_a_saved_seek", ",.1f"))


def of_disk(name):
    """Return the part of a configuration's name that is about a finite disk, or None."""
    return next((part for part in name.split("+") if "%" in part), None)


def without_remedy(name):
    """Return the configuration that has the same disk, and no remedy."""
    return "+".join(("LS", of_disk(name))) if of_disk(name) else "LS"


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
    clean = ls["seeks"] - read - write

    def ratio(seeks, other):
        return seeks / other if other else None
    return {"read": read, "write": write, "clean": clean, "long": ls["long_seeks"],
            "amplification": of.get("disk", {}).get("write_amplification"),
            "saf_read": ratio(read, nols["read"]["seeks"]),
            "saf_write": ratio(write, nols["write"]["seeks"]),
            "saf": ratio(ls["seeks"], nols["seeks"]),
            "ram_kib": (of["map_bytes"] + of["cache"]["bytes"] + of["unit_bytes"] *
                        (of["settings"]["cache_units"] + of["settings"]["regions"] *
                         of["around"]["largest_region_units"])) / 1024}


def add_savings(of):
    """Add to the figures of a trace's configurations the RAM for each seek that a remedy saves; None
    if it saves none."""
    for name, one in of.items():
        base, own = of[without_remedy(name)], one["figures"]
        saved = base["streams"]["ls"]["seeks"] - one["streams"]["ls"]["seeks"]
        more = own["ram_kib"] - base["figures"]["ram_kib"]
        own["kib_a_saved_seek"] = more / saved if saved > 0 else None


def name_of(path):
    """Return the name of a trace: hm_1 of hm_1.csv.gz, w91 of w91_vscsi1.vscsitrace."""
    stem = Path(path).name.split(".")[0]
    return stem.removesuffix("_vscsi1").removesuffix("_vscsi2")


def expanded(words):
    return [one for word in words for one in (
        (SYNTHETIC + name for name in hajkazemi.TABLE) if word == SYNTHETIC[:-1] else (word,))]


def requests_of(word, options, screen):
    """Return (name, file for shingle-replay, note) for a TRACE."""
    folder = OUT / "traces"
    kind = word.removeprefix(SYNTHETIC)
    if word not in (*hajkazemi.PATTERNS, hajkazemi.UPDATES) and kind == word:
        name, _, path = word.rpartition("=")
        screen.test(f"converting {path}", 10, 0)
        made, volume = sectors.cached(path, folder, options.volume, options.requests, screen.show)
        screen.clear()
        return name or name_of(path), made, f"volume {volume}"
    if word == hajkazemi.UPDATES:
        load = hajkazemi.updates(options.seed, 100, options.requests)
    elif kind == word:
        load = hajkazemi.pattern(word, options.seed, 100)[:options.requests]
    else:
        load = hajkazemi.synthetic(kind, options.seed, 100, options.requests)
    path = folder / f"{word.replace(':', '-')}-{options.seed}-{len(load)}.requests"
    sectors.save(sectors.of_load(load), path)
    # A synthetic load has another name than the trace, so no statement of the paper applies to it.
    return word, path, "a pattern" if word in hajkazemi.PATTERNS else "synthetic"


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


def watch(screen, weights):
    """Show progress until all replays, {future: its number of requests}, have ended."""
    total, done = sum(weights.values()), 0
    waiting = set(weights)
    screen.test("replaying", 10, 0)
    while waiting:
        ended, waiting = wait(waiting, timeout=0.5, return_when="FIRST_COMPLETED")
        done += sum(weights[run] for run in ended)
        screen.show(done, total)
    screen.clear()


def measure(traces, options):
    """Return {trace: {configuration: result}}: one pass for each, all side by side."""
    groups = {name: {} for name, *_ in traces}
    with ThreadPoolExecutor(options.jobs) as pool:
        runs, weights = [], {}
        for name, path, _ in traces:
            number = (path.stat().st_size - len(sectors.MAGIC)) // sectors.REQUEST.itemsize
            series = ("--interval", str(max(1, number // POINTS)), "--popular")
            for label in options.configurations:
                disk = ("--segment", options.segment, "--age", str(options.age))
                args = (*arguments(label), *(disk if of_disk(label) else ()),
                        *(series if label == "LS" else ()))
                runs.append((name, label, pool.submit(replay, path, args, options.resume)))
                weights[runs[-1][2]] = number
        watch(Screen(), weights)
        for name, label, run in runs:
            of = run.result()
            of["figures"] = figures(of)
            groups[name][label] = of
    for of in groups.values():
        add_savings(of)
    return groups


def tables(groups, notes):
    """Return the tables: one for each trace, and two of all traces."""
    out = []
    for name, of in groups.items():
        nols = of["LS"]["streams"]["nols"]
        rows = {"NoLS": {"read": nols["read"]["seeks"], "write": nols["write"]["seeks"],
                         "long": nols["long_seeks"], "saf_read": None, "saf_write": None,
                         "saf": None, "ram_kib": None, "kib_a_saved_seek": None},
                **{label: one["figures"] for label, one in of.items() if not of_disk(label)}}
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
    if bars[1:]:
        out.append(Table.of_rows("KiB of RAM for each saved seek",
                                 [(label, label, ",.1f") for label in bars[1:]],
                                 {name: {label: of[label]["figures"]["kib_a_saved_seek"]
                                         for label in bars[1:]} for name, of in groups.items()}))
    return out


# (label, key of figures(), format) for each share that is full
DISK_COLUMNS = (("SAF", "saf", ".3f"), ("of cleaning", "clean", ",.0f"),
                ("written", "amplification", ".2f"))


def disks_of(groups):
    """Return {policy: [percentage]} of the finite disks that all traces have, with LS."""
    out = {}
    for label in next(iter(groups.values())):
        disk = of_disk(label)
        if disk and all(without_remedy(label) in of for of in groups.values()):
            full, policy = disk.split("% ")
            of = out.setdefault(policy, [])
            of += [] if full in of else [full]
    return out


def remedies_on(of, disk):
    """Return {remedy: result} of the configurations with this disk."""
    return {label.removesuffix(f"+{disk}"): one for label, one in of.items() if of_disk(label) == disk}


def best_on(of, disk):
    """Return the remedy, or the combination, with the fewest seeks."""
    found = remedies_on(of, disk)
    return min(found, key=lambda name: found[name]["streams"]["ls"]["seeks"])


def disk_tables(groups):
    """Return the tables of finite disks: one for each trace and policy, and the best remedies."""
    out, best = [], {}
    for policy, shares in disks_of(groups).items():
        disks = {full: f"{full}% {policy}" for full in shares}
        for name, of in groups.items():
            columns = [(f"{full} %: {label}", (full, key), form)
                       for full in shares for label, key, form in DISK_COLUMNS]
            rows = {}
            for full, disk in disks.items():
                for remedy, one in remedies_on(of, disk).items():
                    rows.setdefault(remedy, {}).update(
                        {(full, key): one["figures"][key] for _, key, _ in DISK_COLUMNS})
            made = of[f"LS+{disks[shares[-1]]}"]["disk"]
            out.append(Table.of_rows(
                f"{name} on finite disks, {policy}: {made['used_units'] >> 8:,} MiB in use, segments "
                f"of {made['segment_units'] >> 8} MiB", columns,
                {remedy: row for remedy, row in rows.items() if len(row) == len(columns)}))
            for full, disk in disks.items():
                winner = best_on(of, disk)
                figures_ = remedies_on(of, disk)[winner]["figures"]
                best[f"{name}, {full} %, {policy}"] = {
                    "ls": of[f"LS+{disk}"]["figures"]["saf"], "remedy": winner,
                    "saf": figures_["saf"], "kib": figures_["kib_a_saved_seek"]}
    if best:
        out.append(Table.of_rows("finite disks: the remedy with the fewest seeks", (
            ("LS: SAF", "ls", ".3f"), ("best", "remedy", ""), ("SAF", "saf", ".3f"),
            ("KiB/saved seek", "kib", ",.1f")), best))
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


def figure_of_disks(figure, groups):
    """The SAF over the share that is full, a panel for each trace and policy."""
    disks = disks_of(groups)
    panels = figure.subplots(len(groups), len(disks), squeeze=False, sharex=True)
    for row, (name, of) in zip(panels, groups.items()):
        for axes, (policy, shares) in zip(row, disks.items()):
            remedies = remedies_on(of, f"{shares[0]}% {policy}")
            for remedy in remedies:
                points = [of[f"{remedy}+{full}% {policy}"]["figures"]["saf"] for full in shares]
                axes.plot([int(full) for full in shares], points, marker="o", label=remedy)
            axes.set_title(f"{name}, {policy}")
            axes.set_xlabel("full, %")
            axes.set_ylabel("seek amplification factor")
            # Room for the legend above the lines.
            axes.set_ylim(0, 1.4 * axes.get_ylim()[1])
            axes.set_xticks([int(full) for full in shares])
            axes.legend(fontsize="small", ncols=-(-len(remedies) // 2), loc="upper center")


def picture_of_disks(groups, folder):
    """Draw the factors on finite disks; return the file."""
    from skylight import plots
    path = folder / "finite.png"
    plots.png(lambda figure: figure_of_disks(figure, groups), path,
              (5 * len(disks_of(groups)), 4 * len(groups)))
    return path


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
    p.add_argument("traces", metavar="TRACE", nargs="*",
                   help="see above (the patterns; with --finite, updates)")
    p.add_argument("--volume", help="volume of the traces (the one with most requests)")
    p.add_argument("--configurations", metavar="NAME,...",
                   help=f"({', '.join(CONFIGURATIONS)}); other numbers are possible, LS is "
                        "always measured")
    p.add_argument("--finite", action="store_true", help="measure finite disks")
    p.add_argument("--segment", metavar="SIZE", default="4M", help="of a finite disk (%(default)s)")
    p.add_argument("--age", metavar="N", type=int, default=3, help=
                   "before the count, the host writes N times what a finite disk presents "
                   "(%(default)s)")
    p.add_argument("--sweep", action="store_true",
                   help="many values of all parameters, by Snakemake; writes sweep.csv")
    return p


def chosen(p, words, finite=False):
    """Return the names of the configurations, with those that they are compared with."""
    if words is None:
        return ["LS", *FINITE] if finite else list(CONFIGURATIONS)
    names = [name for name in words.split(",") if name != "LS"]
    names = list(dict.fromkeys(("LS", *map(without_remedy, names), *names)))
    for name in names:
        try:
            arguments(name)
        except ValueError:
            p.error(f"configuration '{name}' is none of {', '.join(CONFIGURATIONS)}")
    return names


# --- the sweep -------------------------------------------------------------------------


def sweep(p, options):
    """Run the workflow, and print the best configuration of each kind for each trace."""
    runner.prepare("read-seek", "replay")
    names = [str(Path(word).resolve()) if Path(word).exists() else word
             for word in expanded(options.traces)]
    if any(set(word) & set(" \"'") for word in names):
        p.error("Snakemake accepts no trace with a space or a quotation mark in its name")
    words = [f"traces={' '.join(names)}", f"seed={options.seed}",
             *([f"requests={options.requests}"] if options.requests else [])]
    done = subprocess.run([packages.VENV / "bin/snakemake", "-s", SWEEP, "--directory", TOP, "--cores",
                           str(options.jobs), "--quiet", "all", "--config", *words], check=False)
    if done.returncode:
        raise SystemExit("read-seek: the workflow has failed, see above")
    with open(OUT / "sweep.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    runner.keep(options, {"sweep": rows})
    runner.show(options, sweep_table(rows))
    print(f"\n{(OUT / 'sweep.csv').relative_to(TOP)}")
    return 0


def sweep_table(rows):
    """Return the configuration of each kind with the fewest seeks, for each trace."""
    best = {}

    def seeks(row):
        return int(row["read_seeks"]) + int(row["write_seeks"])
    for row in rows:
        key = row["trace"], row["configuration"].split()[0]
        if key not in best or seeks(row) < seeks(best[key]):
            best[key] = row
    return Table("the best of each kind", ("", "configuration", "seeks", "RAM, KiB", "KiB/saved seek"), [
        (trace, row["configuration"], f"{seeks(row):,}", f"{float(row['ram_kib']):,.0f}",
         f"{float(row['kib_a_saved_seek']):,.1f}" if row["kib_a_saved_seek"] else "-")
        for (trace, _), row in best.items()])


def main():
    p = parser()
    options = p.parse_args()
    p.at_least(options, age=0)
    options.configurations = chosen(p, options.configurations, options.finite)
    options.traces = options.traces or (
        [hajkazemi.UPDATES] if options.finite else list(hajkazemi.PATTERNS))
    if options.sweep:
        return sweep(p, options)
    runner.prepare("read-seek", "replay")
    (OUT / "traces").mkdir(exist_ok=True)
    try:
        screen = Screen()
        traces = [requests_of(word, options, screen) for word in expanded(options.traces)]
    except Refused as error:
        p.error(str(error))
    names = [name for name, *_ in traces]
    if len(set(names)) < len(names):
        p.error("two traces have the same name: give them others by NAME=FILE")
    groups = measure(traces, options)
    said = statements(groups) if set(BARS) <= set(options.configurations) else []
    runner.keep(options, {"traces": groups, "statements": said})
    runner.show(options, *(() if options.finite else
                           tables(groups, {name: note for name, _, note in traces})),
                *disk_tables(groups))
    if said:
        print("\nThe paper says:")
        runner.show_relations((f"figure {figure}, {trace}: {sentence}", holds)
                              for trace, figure, sentence, holds in said)
    for path in () if options.finite else pictures(groups, OUT):
        runner.show_picture(path)
    if disks_of(groups):
        runner.show_picture(picture_of_disks(groups, OUT))
    return 0
