# SPDX-License-Identifier: GPL-2.0
"""make bench: compare the targets with dm-linear and the in-tree peers.

Everything runs in one guest with interleaved rounds.  The result is the median of the ratios within
a round; the two measurements of a ratio are seconds apart, so other work on the machine affects
both.  Memory lies elsewhere in each boot, and so do the devices in it, except in part "processors";
within a boot both stay.  So rounds of parts that depend on it are spread over several boots.
Nothing here is a test: no figure fails anything.
"""

import json
import statistics
import subprocess
import sys

from lab import run

from experiments import bench_store as store
from experiments import runner

# workload: [(against, at least)].  All writes to imr go to tops.  "linear" is dm-linear in the
# target's place; dm-linear in a place of its own was 0.91 to 1.09 of that.  "control" is also
# dm-linear, over the very memory that the target uses, in its order.
SHINGLED = {
    "random read 4K": [("linear", 0.90)],
    "random write 4K": [("linear", 0.60), ("writecache", 1), ("thin", 1), ("zoned", 1)],
    "sequential read 1M": [("linear", 0.95), ("control", 0.95)],
    "sequential write 1M": [("linear", 0.95), ("control", 0.95)],
}
BARS = {
    "stl-set": SHINGLED, "stl-full": SHINGLED, "stl-log": SHINGLED,
    "imr": {"random read 4K": [("linear", 0.90)], "random write 4K": [("linear", 0.85)],
            "sequential write 1M": [("linear", 0.85), ("control", 0.85)]},
    "tiler": SHINGLED, "dualbuffer": SHINGLED, "rmwf": SHINGLED,
}

# Bars: instructions of one operation, 4 KiB at random or 1 MiB in sequence, without those of the
# layer below, on Debian's 6.1: the value measured when the row was added, plus a tenth.
INSTRUCTIONS = {
    ("stl-set", "read"): 2287, ("stl-set", "write"): 2937,
    ("stl-set", "write 1M"): 9749,
    ("stl-full", "read"): 2220, ("stl-full", "write"): 3053,
    ("stl-full", "write 1M"): 21614,
    ("stl-log", "read"): 2571, ("stl-log", "write"): 5905,
    ("stl-log", "write 1M"): 7388,
    ("imr", "read"): 2220, ("imr", "write"): 2542,
    ("imr", "write 1M"): 4772,
    ("tiler", "read"): 2471, ("tiler", "write"): 4530,
    ("tiler", "write 1M"): 13242,
    ("dualbuffer", "read"): 2259, ("dualbuffer", "write"): 3455,
    ("dualbuffer", "write 1M"): 24453,
    ("rmwf", "read"): 2268, ("rmwf", "write"): 3759,
    ("rmwf", "write 1M"): 27357,
}
# Points by which a second job's gain in reads may fall below dm-linear's in the same memory.
SECOND_LAG = 10


class Missing(Exception):
    """The error of a guest that returned no figures."""


def part(name, rounds, boot, kernel, memory="8G", clock="real"):
    done = run(f"python3 -m experiments.in_guest.bench --part {name} --rounds {rounds} --boot {boot}",
               kernel=kernel, memory=memory, clock=clock, timeout=1800,
               huge_pages=kernel.startswith("uml"))
    if not done.ok:
        raise Missing(str(done))
    # For example that there were no huge pages, which changes the figures.
    for line in done.err.splitlines():
        if line.startswith("lab: "):
            print(line, file=sys.stderr)
    return json.loads(done.out.strip().splitlines()[-1])


def joined(boots):
    """Return the figures of several boots as one: lists are concatenated, counts summed."""
    first = boots[0]
    if isinstance(first, dict):
        return {key: joined([boot[key] for boot in boots]) for key in first}
    return sum(boots[1:], first)


def spread(rounds, boots):
    """Return how many rounds each boot gets; there are at most @rounds boots."""
    boots = min(boots, rounds)
    return [rounds // boots + (i < rounds % boots) for i in range(boots)]


def half_within(ratios, digits=2):
    """Return the range of the middle half of the ratios."""
    ratios, quarter = sorted(ratios), len(ratios) // 4
    return f"{ratios[quarter]:.{digits}f} to {ratios[-1 - quarter]:.{digits}f}"


def show_speed(speed):
    table = speed["bytes_per_second"]
    targets = list(next(iter(table.values())))
    print(f"{'MB/s, medians':22}" + "".join(f"{t:>12}" for t in targets))
    median = {w: {t: statistics.median(v) for t, v in row.items()}
              for w, row in table.items()}
    for workload, row in median.items():
        print(f"{workload:22}" + "".join(f"{row[t] / 1e6:12.1f}" for t in targets))
    print()
    for ours, wanted in BARS.items():
        print(f"{ours + ' against':22}{'':12}{'ratio':>12}{'half within':>14}{'bar':>12}")
        for workload, bars in wanted.items():
            for other, bar in bars:
                row = table[workload] | {
                    name: speed[f"{name}_bytes_per_second"][workload].get(ours)
                    for name in ("linear", "control")}
                rounds = [a / b for a, b in zip(row[ours], row[other])]
                ratio = statistics.median(rounds)
                print(f"{workload:22}{other:12}{ratio:12.2f}{half_within(rounds):>14}{bar:12.2f}"
                      f"  {'met' if ratio >= bar else 'MISSED'}")
        print()
    show_places(speed)
    print("cleaning steps while measuring: " + ", ".join(
        f"{t} {n}" for t, n in speed["cleaning_steps_while_measuring"].items()))


def show_places(speed):
    """Print how dm-linear's speed depends on the target's place alone, and on its order alone."""
    print(f"{'dm-linear':34}{'its place':>12}{'its order':>12}")
    for workload, row in speed["linear_bytes_per_second"].items():
        for ours, rates in row.items():
            controls = speed["control_bytes_per_second"][workload].get(ours)
            ratios = [statistics.median(a / b for a, b in zip(*pair)) for pair in (
                (rates, speed["bytes_per_second"][workload]["linear"]), (controls, rates))
                if pair[0]]
            print(f"{workload:22}{ours:12}" + "".join(f"{r:12.2f}" for r in ratios))
    print()


def show_scale(scale):
    cached = scale["map_cached_blocks"]
    print(f"map: {scale['map_bytes']} bytes at {cached} cached blocks: "
          f"{scale['map_bytes'] / cached:.1f} bytes each (bar 16)")
    print(f"clean 4 TB, 37.2 GiB cache: open in {scale['open_open_s']:.2f} s (bar 5), "
          f"with a million blocks cached in {scale['map_open_s']:.2f} s")


def show_paged(paged):
    print(f"8 TB of tiler: created in {paged['create_s']:.2f} s, opened in "
          f"{paged['open_s']:.2f} s, {paged['bytes'] / (1 << 20):.1f} MiB for the map, 64 of "
          "them for its pages")
    for op in ("read", "write"):
        print(f"a {op} of 4 KiB there, one at a time: dm-linear {paged[op + '_flat_us']:.1f} us, "
              f"map in memory {paged[op + '_hit_us']:.1f}, not in memory "
              f"{paged[op + '_miss_us']:.1f} for {paged[op + '_miss_reads']:.1f} pages "
              "from RAM")


def show_replay(replay):
    for band, row in replay.items():
        print(f"4 TB after a crash, bands of {band}, a journal full of the worst records: "
              f"open in {row['seconds']:.2f} s (bar 5), {row['records']:,} records, "
              f"{row['looks'] / row['records']:.0f} looks each")


def show_instructions(counted):
    """Print instructions without those of the layer below: the RAM disk below dm-linear, dm-linear
    below the others.  QEMU counts them, so nothing else can affect them."""
    print(f"{'instructions':22}" + "".join(f"{op:>12}{'bar':>10}" for op in counted))
    for target in counted["read"]:
        if target == "bare":
            continue
        row = ""
        for op, figures in counted.items():
            below = "bare" if target == "linear" else "linear"
            n, bar = figures[target] - figures[below], INSTRUCTIONS.get((target, op))
            row += f"{n:12.0f}{bar or '-':>10}" + ("" if not bar or n <= bar else " MISSED")
        print(f"{target:22}{row}")
    print()


def gain(by, whole, share):
    """Return the percentage of the possible gain that a second job reaches, the median of rounds.
    """
    return statistics.median(100 * (share * one / base - 1)
                             for one, base in zip(by["one"], by[whole]))


def show_processors(speed):
    """Print the gain of a second job on a second processor on the first job's device, in percent
    of its gain on a device of its own; the same for dm-linear in the places of the two devices,
    which the bar is about; and relative to the first job alone."""
    table, linear = speed["bytes_per_second"], speed["linear_bytes_per_second"]
    heads = [head for rw in table
             for head in (rw, *["linear there"] * (rw in linear), f"{rw}, alone")]
    print(f"{'second job, percent':22}" + "".join(f"{head:>18}" for head in heads))
    for target in next(iter(table.values())):
        line, missed = f"{target:22}", False
        for rw, row in table.items():
            brought = gain(row[target], "own", 2)
            line += f"{brought:18.0f}"
            if rw in linear:
                there = linear[rw].get(target)
                line += f"{gain(there, 'own', 2):18.0f}" if there else " " * 18
                missed |= bool(there) and gain(there, "own", 2) - brought > SECOND_LAG
            line += f"{gain(row[target], 'alone', 1):18.0f}"
        print(line + ("  MISSED (reads)" if missed else ""))
    print()


def show_pieces(found):
    """Print medians of the ratios within a round: by M and the length of a track, and by the place
    in the RAM disk."""
    rounds = [(name, *row) for name, rows in found.items() for row in rows]
    print(f"{'dualbuffer, sequential writes':32}{'pieces':>10}{'of linear':>12}"
          f"{'half within':>16}{'of control':>12}{'its order':>12}")
    for key in (*found, *sorted({row[1] for row in rounds})):
        what, of = f"place {key}", [row for row in rounds if key in row[:2]]
        if key in found:
            m, track = key.split("-")[1:]
            what = f"M {m} %, tracks of {int(track) * 4} KiB"
        linear, control, order = ([ratio(*row[3:]) for row in of] for ratio in (
            lambda target, linear, _: target / linear,
            lambda target, _, control: target / control,
            lambda _, linear, control: control / linear))
        print(f"{what:32}{1 + statistics.mean(row[2] for row in of):10.2f}"
              f"{statistics.median(linear):12.3f}{half_within(linear, 3):>16}"
              f"{statistics.median(control):12.3f}{statistics.median(order):12.3f}")
    print()


# For the part "store": a round takes minutes, and its ratios are of pairs seconds apart.
STORE_ROUNDS = 3


def main():
    parser = runner.Parser("bench", __doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--boots", type=int, default=10,
                        help="of speed, processors and pieces, among which rounds are spread; in "
                             "ten boots each target has been in each place")
    parser.add_argument("--kernel", default="uml")
    parser.add_argument("--part", action="append", metavar="NAME",
                        help="only this one, which may be repeated; pieces, what "
                             "dualbuffer's writes go in, only so; store, kv beside LevelDB "
                             "and RocksDB, needs no guest")
    args = parser.parse_args()
    parser.at_least(args, rounds=1, boots=1)
    boots = spread(args.rounds, args.boots)
    parts = {
        "instructions": (show_instructions, [1], "stock", "3G", "virtual"),
        "processors": (show_processors, boots, "uml-smp-fast", "11G"),
        "speed": (show_speed, boots, args.kernel, "11G"),
        "scale": (show_scale, [1], args.kernel),
        "paged": (show_paged, [1], args.kernel),
        "replay": (show_replay, [1], args.kernel),
        "pieces": (show_pieces, boots, args.kernel),
        # Without a guest: on this machine, beside LevelDB and RocksDB.
        "store": (lambda found: runner.show(args, store.table(found)),
                  [min(args.rounds, STORE_ROUNDS)]),
    }
    # "pieces" explains a figure of "speed" and is not a figure itself.
    wanted = args.part or [name for name in parts if name != "pieces"]
    for name in args.part or ():
        if name not in parts:
            parser.error(f"there is no part {name}: choose from {', '.join(parts)}")
    runner.prepare("bench", "shingle", "kvbench")
    # Show each part when it is done, so that a later failure does not lose it.
    figures, missing = {}, []
    for name, (shown, boots, *where) in parts.items():
        if name not in wanted:
            continue
        try:
            figures[name] = joined([part(name, rounds, boot, *where) if where else
                                    store.measure(rounds) for boot, rounds in enumerate(boots)])
        except (Missing, subprocess.CalledProcessError) as error:
            print(error, file=sys.stderr)
            missing.append(name)
            continue
        shown(figures[name])
        sys.stdout.flush()
    runner.keep(args, figures)
    if missing:
        sys.exit(f"no figures of: {', '.join(missing)}; why is said above")
