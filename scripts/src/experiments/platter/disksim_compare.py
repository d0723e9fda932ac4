# SPDX-License-Identifier: GPL-2.0
"""Compare dm-platter's mechanics with real drives measured for DiskSim.

  scripts/experiments platter DIRECTORY [DRIVE ...]
          [--bus DRIVE=READ_MS[,WRITE_MS]] [--rst FILE | --check FILE]

Every NAME.trace in DIRECTORY is a drive; disksim_drive.py lists the other files it needs.  Its
description becomes a geometry file for platter-sim, its trace a list of requests, and the answers
of platter-sim are compared with the measured times.  Missing files, and features that are not
modelled, are reported.  reports/platter-validation.rst explains the columns.

The figure is DiskSim's own: the root mean square of the horizontal distance between the two
cumulative distributions of service time, taken at every 0.01 %.
"""

import argparse
import hashlib
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from common.output import store
from lab.cache import TOP

from experiments import runner
from experiments.platter import fictive
from experiments.platter.disksim_drive import Drive
from experiments.platter.disksim_words import MOST, Folder, Problem

# DiskSim's own rms in ms, for the drives that are distributed with it.
PUBLISHED = {
    "atlas_III": 0.378, "barracuda": 0.349, "cheetah4LP": 0.318, "cheetah9LP": 0.107,
    "ibm18es": 0.135, "atlas10k": 0.268, "hp_c2247a": 0.090, "hp_c3323a": 0.306,
    "hp_c2490a": 0.254, "dec_rz26": 0.340,
}

# Times of the buses in their parameter files, in ms for a sector read and written, for a directory
# without these files.
BUS_MS = {
    "atlas_III": (0.0, 0.0), "barracuda": (0.0, 0.0), "cheetah4LP": (0.0, 0.0),
    "hp_c2247a": (0.17010, 0.18686), "dec_rz26": (0.07069, 0.07069),
}

# Changes that remove the remaining differences: one word of platter-sim's geometry each.
EXPERIMENTS = [
    ("cheetah4LP", "a write after a write costs what it does after a read",
     {"write_hit_ns": "474000 474000"}),
    ("dec_rz26", "writes settle no sooner than reads, not 0.483 ms before them",
     {"write_settle_ns": "0"}),
    ("dec_rz26", "writes settle for 0.5 ms longer than reads",
     {"write_settle_ns": "500000"}),
    ("dec_rz26", "reads begin with their first sector, as if not 'immediate'",
     {"zero_latency": "0"}),
    ("dec_rz26", "the last two", {"write_settle_ns": "500000", "zero_latency": "0"}),
]


def altered(text, words):
    """Return a geometry with some of its lines replaced by @words."""
    for key, value in words.items():
        text, found = re.subn(rf"^{key} .*$", f"{key} {value}", text, flags=re.M)
        if found != 1:
            raise Problem(f"no word {key} to change")
    return text


def reads_on(text):
    """Let reading ahead go on after a hit.  DIXtrac writes 0 for all drives because it does not
    determine this; the two drives described by hand have 1."""
    return altered(text, {"ahead_on_hit": 1})


def distribution_rms(pairs):
    """Return the distance in ms between the cumulative distributions of two samples in us."""
    a, b = sorted(p[0] for p in pairs), sorted(p[1] for p in pairs)
    total = 0.0
    for i in range(1, 10001):
        x = a[max(0, math.ceil(i * len(a) / 10000) - 1)]
        y = b[max(0, math.ceil(i * len(b) / 10000) - 1)]
        total += (x - y) ** 2
    return math.sqrt(total / 10000) / 1000


def rms_cell(pairs):
    return f"{distribution_rms(pairs):.3f}" if pairs else "-"


def per_request_rms(pairs):
    return math.sqrt(sum((a - b) ** 2 for a, b in pairs) / len(pairs)) / 1000


def correlation(pairs):
    n = len(pairs)
    ma, mb = sum(a for a, _ in pairs) / n, sum(b for _, b in pairs) / n
    cov = sum((a - ma) * (b - mb) for a, b in pairs)
    va, vb = sum((a - ma) ** 2 for a, _ in pairs), sum((b - mb) ** 2 for _, b in pairs)
    return cov / math.sqrt(va * vb) if va and vb else 0.0


class Comparison:
    """A drive's trace, replayed with platter-sim."""

    def __init__(self, sim, drive, change=None):
        self.sim, self.drive, self.skipped = sim, drive, 0
        self.geometry = change(drive.geometry) if change else drive.geometry
        self.rows, self.requests, think = [], [], 0.0
        for row in drive.trace:
            if row[2] + row[3] <= drive.layout.lbns:
                self.requests.append(f"{think} {row[0]} {row[2]} {row[3]}")
                self.rows.append(row)
                think = 0.0
            else:
                self.skipped += 1
            # the think time of a row comes after its request
            think += row[5]
        if not self.rows:
            raise Problem(f"none of its requests is within its {drive.layout.lbns} LBNs")

    def run(self, *options):
        with tempfile.TemporaryDirectory() as tmp:
            path = Path(tmp) / "geometry"
            path.write_text(self.geometry, encoding="utf-8")
            try:
                done = subprocess.run(
                    [self.sim, "-g", str(path), *options], check=False, text=True,
                    input="\n".join(self.requests) + "\n", capture_output=True)
            except OSError as error:
                raise SystemExit(f"{self.sim} cannot be run: {error.strerror}; let --sim name "
                                 "platter-sim") from None
        if done.returncode:
            raise Problem(done.stderr.strip() or f"{self.sim} ended with status "
                          f"{done.returncode} and said nothing")
        ours = []
        for line in done.stdout.splitlines():
            try:
                ours.append(float(line.split()[1]))
            except (IndexError, ValueError):
                raise Problem(f"{self.sim} answers '{line}', and not as platter-sim does") \
                    from None
        if len(ours) != len(self.rows):
            raise Problem(f"{len(self.rows)} requests, {len(ours)} answers")
        return ours

    def pairs(self, ours, op=None):
        return [(o, r[4]) for o, r in zip(ours, self.rows) if op in (None, r[0])]


def table(rows):
    width = [max(len(str(r[i])) for r in rows) for i in range(len(rows[0]))]
    rule = "  ".join("=" * w for w in width)
    lines = [rule, "  ".join(str(c).ljust(w) for c, w in zip(rows[0], width)).rstrip(), rule]
    for row in rows[1:]:
        lines.append("  ".join(str(c).ljust(w) for c, w in zip(row, width)).rstrip())
    return "\n".join(lines + [rule])


def say(drive, text):
    print(f"{drive}: {text}", file=sys.stderr)


COLUMNS = ("drive", "requests", "DiskSim", "letter", "ours", "of it", "reads", "writes",
           "mean ours", "measured", "per request", "correlation", "target")


def figures(sim, drive):
    letter = Comparison(sim, drive)
    letter = distribution_rms(letter.pairs(letter.run()))
    comparison = Comparison(sim, drive, reads_on)
    ours = comparison.run()
    every = comparison.pairs(ours)
    rms = distribution_rms(every)
    published = PUBLISHED.get(drive.name)
    if comparison.skipped:
        say(drive.name, f"{comparison.skipped} requests lie beyond its LBNs")
    return (drive.kind, len(every), f"{published:.3f}" if published else "-",
            f"{letter:.3f}", f"{rms:.3f}", f"{rms / published:.2f}" if published else "-",
            *(rms_cell(comparison.pairs(ours, op)) for op in ("r", "w")),
            f"{sum(a for a, _ in every) / len(every) / 1000:.2f}",
            f"{sum(b for _, b in every) / len(every) / 1000:.2f}",
            f"{per_request_rms(every):.3f}", f"{correlation(every):.3f}",
            f"{distribution_rms(comparison.pairs(comparison.run('-t'))):.3f}")


def experiments(sim, drive):
    """Return rows of the second table: DiskSim's figure, ours, and ours with one word changed."""
    rows = []
    for name, what, words in EXPERIMENTS:
        if drive.name != name:
            continue
        before = Comparison(sim, drive, reads_on)
        after = Comparison(sim, drive, lambda text, w=words: altered(reads_on(text), w))
        ours = after.run()
        rows.append((drive.kind, what, f"{PUBLISHED[name]:.3f}",
                     rms_cell(before.pairs(before.run())),
                     *(rms_cell(after.pairs(ours, op)) for op in (None, "r", "w"))))
    return rows


def tables(sim, drives, lacking):
    """Return both tables; add drives that cannot be compared to @lacking."""
    rows = [COLUMNS]
    tried = [("experiment", "changed", "DiskSim", "ours", "then", "reads", "writes")]
    for drive in drives:
        try:
            row, more = figures(sim, drive), experiments(sim, drive)
        except Problem as problem:
            say(drive.name, f"left out: {problem}")
            lacking.append(drive.name)
            continue
        rows.append(row)
        tried += more
    return "\n\n".join(table(t) for t in (rows, tried) if t is rows or len(t) > 1)


def survey(folder, wanted, buses):
    """Return the drives of a directory, and the names of those that cannot be read."""
    names = [n[:-len(".trace")] for n in folder.ending(".trace")]
    drives, lacking = [], []
    for name in wanted or names:
        try:
            drive = Drive(folder, name, *buses.get(name, ()))
        except Problem as problem:
            say(name, f"left out: {problem}")
            lacking.append(name)
            continue
        for note in [drive.found(), *drive.notes]:
            say(name, note)
        drives.append(drive)
    used = {file for drive in drives for file in drive.files}
    for suffix in (".diskspecs", ".model", ".parv"):
        for file in folder.ending(suffix):
            name = file[:-len(suffix)]
            if file not in used and not any(name in (n, f"{n}_validate") for n in names):
                say(name, f"{file} without a {name}.trace")
    return drives, lacking


BEGIN, END = ".. begin disksim_compare", ".. end disksim_compare"


def fingerprint(sim):
    """Return a hash of the model's answers for the fictive drives, and of the constants above.  It
    tells whether the tables belong to this model when no measured data are at hand."""
    digest = hashlib.sha256(repr((PUBLISHED, BUS_MS, EXPERIMENTS)).encode())
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        fictive.make(folder)
        found = Folder(folder)
        for name in sorted(n[:-len(".trace")] for n in found.ending(".trace")):
            drive = Drive(found, name)
            for us in (Comparison(sim, drive).run() + Comparison(sim, drive, reads_on).run() +
                       Comparison(sim, drive).run("-t")):
                digest.update(f"{name} {us:.3f}\n".encode())
    return digest.hexdigest()[:16]


def checksum(body):
    """Return a checksum that detects edited tables."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def section(sim, body):
    return (f"{BEGIN}\n\n.. model {fingerprint(sim)}, tables {checksum(body)}\n\n"
            f"{body}\n\n{END}")


def build():
    """Build platter-sim from these sources, so that figures never come from an older one."""
    out = TOP / "build/userspace"
    if subprocess.run(["make", "-s", "-C", str(TOP / "userspace/platter-sim"),
                       f"OUT={out}", str(out / "platter-sim")], check=False).returncode:
        raise SystemExit("platter-sim cannot be built")
    return str(out / "platter-sim")


def split(path):
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SystemExit(f"{path} cannot be read: {error}") from None
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise SystemExit(f"{path} has no place for the tables: give it one line '{BEGIN}' and "
                         f"then one '{END}'")
    head, rest = text.split(BEGIN, 1)
    middle, tail = rest.split(END, 1)
    return head, BEGIN + middle + END, tail


def drives_in(middle):
    """Return the drives of the first table."""
    lines = middle.splitlines()
    rules = [n for n, line in enumerate(lines) if line.startswith("==")]
    return {line.split()[0] for line in lines[rules[1] + 1:rules[2]]} if len(rules) > 2 else set()


def bus_option(text):
    name, _, times = text.partition("=")
    try:
        ms = [float(x) for x in times.split(",")]
    except ValueError:
        ms = []
    if not name or len(ms) not in (1, 2) or not all(0 <= x <= MOST for x in ms):
        raise argparse.ArgumentTypeError(f"'{text}' is not DRIVE=READ_MS[,WRITE_MS]")
    return name, (ms * 2)[:2]


def dump(sim, drive):
    try:
        comparison = Comparison(sim, drive, reads_on)
        ours = comparison.run()
    except Problem as problem:
        raise SystemExit(f"{drive.name}: {problem}") from None
    for row, us in zip(comparison.rows, ours):
        print(*row, f"{us:.1f}")
    return 0


def write(path, sim, text, why):
    """Write the tables into a document unless @why gives a reason not to; return the exit status.
    """
    if why:
        print(f"{path} stays as it is: {why}", file=sys.stderr)
        return 1
    head, _, tail = split(path)
    try:
        store(path, head + section(sim, text) + tail)
    except OSError as error:
        raise SystemExit(f"{path} cannot be written: {error}") from None
    return 0


def lost(args, drives, lacking):
    """Return why the document would lose a drive, or an empty value."""
    if lacking:
        return f"{', '.join(lacking)} left out"
    gone = drives_in(split(args.rst)[1]) - {drive.kind for drive in drives}
    return gone and (f"{args.directory} lacks {', '.join(sorted(gone))}, of which it has a row; "
                     "take that out by hand if it is to go")


def check(path, sim, text, lacking):
    """Check whether a document has these tables; return the exit status."""
    if lacking:
        print(f"{path} is not checked: {', '.join(lacking)} left out", file=sys.stderr)
        return 1
    if split(path)[1] != section(sim, text):
        print(f"the table in {path} differs: --rst replaces it", file=sys.stderr)
        return 1
    return 0


def main():
    parser = runner.Parser("platter", __doc__)
    parser.add_argument("directory", type=Path, help="DiskSim's valid/ files, plain or .xz")
    parser.add_argument("drive", nargs="*", help="these only")
    parser.add_argument("--sim", help="platter-sim, if not to be built here")
    parser.add_argument("--bus", type=bus_option, action="append", default=[],
                        metavar="DRIVE=READ_MS[,WRITE_MS]", help="where there is no .parv")
    parser.add_argument("--rst", type=Path, help="write the table into this file")
    parser.add_argument("--check", type=Path, help="is the table in this file this one")
    parser.add_argument("--dump", metavar="DRIVE", help="print request by request")
    args = parser.parse_args()
    if (args.rst or args.check) and (args.drive or args.dump):
        parser.error("--rst and --check do not go with the name of a drive: the tables are of "
                     "all drives")
    if not args.directory.is_dir():
        raise SystemExit(f"{args.directory} is not a directory")
    folder = Folder(args.directory)
    for name, _ in args.bus:
        if f"{name}.trace" not in folder:
            parser.error(f"--bus {name}: {args.directory} has no {name}.trace")
    for path in (args.rst, args.check):
        if path:
            split(path)
    sim = args.sim or build()

    drives, lacking = survey(folder, args.drive or ([args.dump] if args.dump else []),
                             {**{name: (ms, "DiskSim's own") for name, ms in BUS_MS.items()},
                              **{name: (ms, "--bus") for name, ms in args.bus}})
    if not drives:
        raise SystemExit(
            f"no drive found in {args.directory}: a drive is NAME.trace, NAME.diskspecs "
            f"and the files these name, each plain or .xz; it has "
            f"{', '.join(folder.names) or 'no files'}")
    if args.dump:
        return dump(sim, drives[0])
    text = tables(sim, drives, lacking)
    print(text)
    runner.keep(args, {"output": text.splitlines()})
    status = 1 if lacking else 0
    if args.rst:
        status |= write(args.rst, sim, text, lost(args, drives, lacking))
    if args.check:
        status |= check(args.check, sim, text, lacking)
    return status
