#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Holds dm-platter's mechanics against real drives measured for DiskSim.

    scripts/platter/disksim_compare.py DIRECTORY [--sim PATH] [--rst FILE]

DIRECTORY has, for each drive, NAME.trace, a .model, a .diskspecs and perhaps a
.seek file, each plain or .xz, as DiskSim ships them under valid/.  Each drive's
description becomes a geometry file for platter-sim, each trace a list of
requests; what platter-sim answers is compared with what was measured.

The figure is DiskSim's own: the root of the mean square of the horizontal
distance between the two cumulative distributions of service time, taken at
every 0.01 %.
"""

import argparse
import lzma
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# rms that DiskSim publishes for itself, ms
DRIVES = {
    "atlas_III": ("Quantum Atlas III", 0.378),
    "barracuda": ("Seagate Barracuda ST32171W", 0.349),
    "cheetah4LP": ("Seagate Cheetah 4LP", 0.318),
    "hp_c2247a": ("HP C2247", 0.090),
    "dec_rz26": ("DEC RZ26", 0.340),
}

# The two oldest drives hold the bus for a whole read, and their description
# leaves its speed to the bus model, which is not among the files: ms per sector,
# read off the traces (far reads after writes, against their length).
BUS_MS = {"hp_c2247a": 0.120, "dec_rz26": 0.050}


def read(directory, name):
    """Text of a file, plain or compressed; None if there is neither."""
    plain, packed = directory / name, directory / (name + ".xz")
    if plain.exists():
        return plain.read_text(encoding="latin-1")
    if packed.exists():
        return lzma.open(packed, "rt", encoding="latin-1").read()
    return None


def either(directory, stem, suffix):
    for name in (f"{stem}{suffix}", f"{stem}_validate{suffix}"):
        text = read(directory, name)
        if text is not None:
            return text
    return None


def strip_comments(text):
    return re.sub(r"#.*", "", text)


def number(text, label, default=None):
    found = re.search(re.escape(label) + r"\s*=\s*(-?[\d.]+)", text)
    if not found:
        if default is None:
            raise SystemExit(f"no '{label}' in the description")
        return default
    return float(found[1])


def numbers(text, label):
    found = re.search(re.escape(label) + r"\s*=\s*\[(.*?)\]", text, re.S)
    return [float(x) for x in found[1].split(",") if x.strip()] if found else []


class Layout:
    """DiskSim's LBN to a sector number on the bare tracks.

    Spare and slipped sectors take up angle but no LBN; platter-sim gets the
    bare tracks, so the trace's LBNs are turned into numbers on those.
    """

    def __init__(self, model):
        self.surfaces = int(number(model, "Number of data surfaces"))
        self.scheme = int(number(model, "Sparing scheme used"))
        self.range_cyls = int(number(model, "Rangesize for sparing"))
        self.zones, start, first_lbn = [], 0, 0
        for part in model.split("dm_layout_g1_zone {")[1:]:
            zone = {
                "cyls": int(number(part, "Last cylinder number") -
                            number(part, "First cylinder number")) + 1,
                "track": int(number(part, "Blocks per track")),
                "offset": number(part, "Offset of first block"),
                "front": int(number(part, "Empty space at zone front")),
                "track_skew": number(part, "Skew for track switch"),
                "cyl_skew": number(part, "Skew for cylinder switch"),
                "spares": int(number(part, "Number of spares")),
                "slips": sorted(int(x) for x in numbers(part, "slips")),
                "start": start,
                "lbn": first_lbn,
            }
            # a cylinder between zones that belongs to neither
            gap = int(number(part, "First cylinder number")) - sum(
                z["cyls"] + z["gap"] for z in self.zones)
            if self.zones:
                self.zones[-1]["gap"] = gap
            zone["gap"] = 0
            raw = zone["cyls"] * self.surfaces * zone["track"]
            zone["usable"] = self.usable(zone)
            first_lbn += zone["usable"]
            start += raw
            self.zones.append(zone)
        start = 0
        for zone in self.zones:
            zone["start"] = start
            start += (zone["cyls"] + zone["gap"]) * self.surfaces * zone["track"]
        self.total = start

    def usable(self, zone):
        raw = zone["cyls"] * self.surfaces * zone["track"]
        if self.scheme == 1:      # whole spare tracks at the end of the zone
            return raw - zone["front"] - zone["spares"] * zone["track"]
        if self.scheme == 3:      # spare sectors on each track
            per = zone["track"] - zone["spares"]
            return zone["cyls"] * self.surfaces * per - zone["front"]
        if self.scheme == 8:      # at the end of each range of cylinders
            spares = zone["cyls"] // self.range_cyls * zone["spares"]
            return raw - zone["front"] - spares    # slips use up spares
        return raw - zone["front"] - len(zone["slips"])

    def sector(self, lbn):
        """The sector on the bare tracks, or None beyond the last zone."""
        for zone in self.zones:
            if lbn < zone["lbn"] + zone["usable"]:
                break
        else:
            return None
        at = zone["front"] + lbn - zone["lbn"]
        if self.scheme == 1:
            track, at = divmod(at, zone["track"])
            for slipped in zone["slips"]:
                if slipped <= track:
                    track += 1
            at += track * zone["track"]
        elif self.scheme == 3:
            per = zone["track"] - zone["spares"]
            track, at = divmod(at, per)
            at += track * zone["track"]
        elif self.scheme == 8:
            full = self.range_cyls * self.surfaces * zone["track"]
            nth, at = divmod(at, full - zone["spares"])
            at += nth * full
            for slipped in zone["slips"]:
                if nth * full <= slipped <= at:
                    at += 1
        else:
            for slipped in zone["slips"]:
                if slipped <= at:
                    at += 1
        return zone["start"] + at


def seek_table(directory, stem, model):
    text = either(directory, stem, ".seek")
    if text:
        return [(int(float(d)), float(ms)) for d, ms in
                re.findall(r"^\s*(\d+)\s*,\s*([\d.]+)", text, re.M)]
    first = numbers(model, "First ten seek times")
    hpl = numbers(model, "HPL seek equation values")
    table = [(i + 1, ms) for i, ms in enumerate(first)]
    knee, a, b, c, d = hpl[0], hpl[1], hpl[2], hpl[3], hpl[4]
    cyls = int(number(model, "Number of cylinders"))
    distance = 12
    while distance < cyls:
        ms = a + b * math.sqrt(distance) if distance < knee else c + d * distance
        table.append((distance, ms))
        distance = max(distance + 1, int(distance * 1.06))
    return table


def describe(directory, stem):
    """The drive as a geometry file for platter-sim, and its layout."""
    model = strip_comments(either(directory, stem, ".model"))
    specs = strip_comments(either(directory, stem, ".diskspecs"))
    layout = Layout(model)

    def ns(ms):
        return round(ms * 1e6)

    def over(kind):
        return (number(specs, f"{kind} over. after read") +
                number(specs, f"{kind} over. after write")) / 2

    rpm = number(model, "Rotation speed (in rpms)")
    out = [f"# {stem}", f"rotation_ns {round(60e9 / rpm)}",
           f"surfaces {layout.surfaces}"]
    for zone in layout.zones:
        out.append(f"zone {zone['cyls'] + zone['gap']} {zone['track']} "
                   f"{round(zone['track_skew'])} {round(zone['cyl_skew'])} "
                   f"{round(zone['offset'])}")
    out += [f"seek {d} {ns(ms)}" for d, ms in seek_table(directory, stem, model)]
    fast = number(specs, "Fast write level") > 0
    bus = BUS_MS.get(stem) or number(specs, "Bulk sector transfer time")
    done_r = number(specs, "Read completion overhead")
    done_w = number(specs, "Write completion overhead")
    out += [
        f"head_switch_ns {ns(number(model, 'Head switch time'))}",
        f"write_settle_ns {ns(number(model, 'Add. write settling delay'))}",
        f"read_overhead_ns {ns(over('Read miss') + done_r)}",
        f"write_overhead_ns {ns(over('Write miss') + done_w)}",
        f"read_hit_overhead_ns {ns(over('Read hit') + done_r)}",
        f"write_hit_overhead_ns {ns(over('Write hit') + done_w)}",
        f"bus_sector_ns {ns(bus)}",
        # these drives' requests are short: the bus gets them when all is read
        "overlap_bus 0",
        f"segments {int(number(specs, 'Number of buffer segments'))}",
        f"segment_sectors {int(number(specs, 'Maximum read-ahead (blks)'))}",
        f"write_cache {int(fast)}",
    ]
    return "\n".join(out) + "\n", layout


def read_trace(directory, stem):
    rows = []
    for line in either(directory, stem, ".trace").splitlines():
        word = line.split()
        if len(word) == 6:
            rows.append((word[0].lower(), word[1], int(word[2]), int(word[3]),
                         float(word[4]), float(word[5])))
    return rows


def distribution_rms(ours, theirs):
    """ms between two samples' cumulative distributions; inputs in us."""
    a, b = sorted(ours), sorted(theirs)
    total = 0.0
    for i in range(1, 10001):
        x = a[max(0, math.ceil(i * len(a) / 10000) - 1)]
        y = b[max(0, math.ceil(i * len(b) / 10000) - 1)]
        total += (x - y) ** 2
    return math.sqrt(total / 10000) / 1000


def per_request_rms(pairs):
    return math.sqrt(sum((a - b) ** 2 for a, b in pairs) / len(pairs)) / 1000


def correlation(pairs):
    n = len(pairs)
    ma, mb = sum(a for a, _ in pairs) / n, sum(b for _, b in pairs) / n
    cov = sum((a - ma) * (b - mb) for a, b in pairs)
    va, vb = sum((a - ma) ** 2 for a, _ in pairs), sum((b - mb) ** 2 for _, b in pairs)
    return cov / math.sqrt(va * vb) if va and vb else 0.0


def run(sim, directory, stem):
    geometry, layout = describe(directory, stem)
    rows = read_trace(directory, stem)
    requests, kept, think = [], [], 0.0
    for row in rows:
        at = layout.sector(row[2])
        last = layout.sector(row[2] + row[3] - 1)
        if at is not None and last is not None:
            requests.append(f"{think} {row[0]} {at} {row[3]}")
            kept.append(row)
        # the think time of a row passes after it
        think = row[5]
    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp) / "geometry"
        path.write_text(geometry, encoding="utf-8")
        done = subprocess.run([sim, "-g", str(path)], input="\n".join(requests) + "\n",
                              text=True, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{stem}: {done.stderr.strip()}")
    ours = [float(line.split()[1]) for line in done.stdout.splitlines()]
    if len(ours) != len(kept):
        raise SystemExit(f"{stem}: {len(kept)} requests, {len(ours)} answers")
    return list(zip(kept, ours)), len(rows) - len(kept)


def select(result, what):
    if what == "all":
        return [(o, r[4]) for r, o in result]
    if what == "reads":
        return [(o, r[4]) for r, o in result if r[0] == "r"]
    if what == "writes":
        return [(o, r[4]) for r, o in result if r[0] == "w"]
    return [(o, r[4]) for r, o in result if r[1] != "Hit"]


def cell(pairs, measure):
    return f"{measure(pairs):.3f}" if pairs else "-"


def table(rows):
    width = [max(len(str(r[i])) for r in rows) for i in range(len(rows[0]))]
    rule = "  ".join("=" * w for w in width)
    lines = [rule, "  ".join(str(c).ljust(w) for c, w in zip(rows[0], width)).rstrip(), rule]
    for row in rows[1:]:
        lines.append("  ".join(str(c).ljust(w) for c, w in zip(row, width)).rstrip())
    return "\n".join(lines + [rule])


def update_rst(path, body):
    begin, end = ".. begin disksim_compare", ".. end disksim_compare"
    text = path.read_text(encoding="utf-8")
    head, rest = text.split(begin, 1)
    tail = rest.split(end, 1)[1]
    path.write_text(f"{head}{begin}\n\n{body}\n\n{end}{tail}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="DiskSim's valid/ files, plain or .xz")
    top = Path(__file__).resolve().parents[2]
    parser.add_argument("--sim", default=str(top / "build/userspace/platter-sim"))
    parser.add_argument("--rst", type=Path, help="write the table into this file")
    parser.add_argument("--dump", metavar="DRIVE", help="print request by request")
    args = parser.parse_args()
    if not Path(args.sim).exists():
        raise SystemExit(f"{args.sim} is not there: make -C userspace/platter-sim")

    def rms(pairs):
        return distribution_rms([a for a, _ in pairs], [b for _, b in pairs])

    rows = [("drive", "requests", "DiskSim", "all", "reads", "writes", "not Hit",
             "mean ours", "measured", "per request", "correlation")]
    for stem, (name, published) in DRIVES.items():
        if either(args.directory, stem, ".trace") is None:
            print(f"{stem}: no trace in {args.directory}", file=sys.stderr)
            continue
        result, skipped = run(args.sim, args.directory, stem)
        if args.dump == stem:
            for row, ours in result:
                print(*row, f"{ours:.1f}")
            return
        every = select(result, "all")
        rows.append((name, len(result), f"{published:.3f}", cell(every, rms),
                     cell(select(result, "reads"), rms),
                     cell(select(result, "writes"), rms),
                     cell(select(result, "miss"), rms),
                     f"{sum(a for a, _ in every) / len(every) / 1000:.2f}",
                     f"{sum(b for _, b in every) / len(every) / 1000:.2f}",
                     cell(every, per_request_rms), cell(every, correlation)))
        if skipped:
            print(f"{stem}: {skipped} requests lie beyond the described zones",
                  file=sys.stderr)
    if len(rows) == 1:
        raise SystemExit(f"no drive found in {args.directory}")
    text = table(rows)
    print(text)
    if args.rst:
        update_rst(args.rst, text)


if __name__ == "__main__":
    main()
