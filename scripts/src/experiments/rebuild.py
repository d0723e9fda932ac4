# SPDX-License-Identifier: GPL-2.0
"""A RAID-5 (md) of four emulated drives, one of which is replaced: the time of the rebuild and of
commands meanwhile, for conventional and shingled drives, under the virtual clock.

The drives are in use: all their blocks have been written.  The drive that replaces the first is
new, or with --used has been in use, too.  Their medium is that of the 5 TB, 5,900 rpm drive of
Skylight, much shorter, with its write cache on; metadata of the layers are in RAM.  Bands have 20
MiB, the cache of stl-set three bands.

  idle          no other reads or writes
  load          --per-s random writes of 4 KiB a second, with md's defaults: a rebuild gives
                way to the host, but has 1,000 KiB/s
  load, raised  the same, with sync_speed_min at --raised, a usual way to make a rebuild end
                sooner
  MB/s          of the new drive: the whole rebuild, and its second half, when the part that
                was empty at first is full; and that of a conventional drive over it
  rebuild       seconds; drives differ in how much of their medium they present
  longest       command of the new drive, and of the others; to 5 %
  30 s          commands that took longer: Linux then gives up on a disk's command, and
                md takes the drive out of the array
  writes        of the load: median, 99th percentile, longest, from when each was due
"""

import math
import sys

from experiments import runner, stacks
from experiments.evaluation import percentile
from experiments.tables import Table

TIMEOUT_S = 30          # Linux's timeout of a command
FIRST_S, STEP = 1e-4, 1.05      # steps of the histograms, as in rebuild.py
# md sends single blocks, hundreds at a time, and in user-mode Linux each reading of the clock takes
# a quarter of a microsecond.  A delay up to a rotation does not matter here.
ROTATION_US = 10_169
BAND = "20M"
USUAL = ("conventional", "stl-set", "stl-set, bypass", "stl-full")
LOADS = ("idle", "load", "load, raised")


def layer(*create, media="smr", profile="st5000as0011", **keys):
    return {"media": media, "profile": profile, "create": list(create), "keys": keys}


def layers():
    """Return {name: drive}."""
    stl_set = ("stl-set", "--band", BAND, "--cache-size", "3b")
    return {
        "conventional": layer(media="cmr"),
        "stl-set": layer(*stl_set),
        "stl-set, bypass": layer(*stl_set, "--set", "bypass_blocks=1024"),
        "stl-full": layer("stl-full", "--band", BAND),
        "imr": layer("imr", media="imr", profile="kvimr"),
        "tiler": layer("tiler", "--band", BAND),
        "dualbuffer": layer("dualbuffer", "--band", BAND),
    }


def cases(options):
    """[(file, words, (layer, load))]"""
    out = []
    for name in options.layers or USUAL:
        for load in options.loads or LOADS:
            out.append((f"{name}-{load}{'-used' if options.used else ''}".replace(", ", "-"), {
                "layer": layers()[name], "drive_mib": options.drive_mib,
                "used": options.used, "seed": options.seed, "limit_s": options.limit,
                "per_s": 0 if load == "idle" else options.per_s,
                "min_kib_s": options.raised if load == "load, raised" else 0,
                "large": True}, (name, load)))
    return out


def longest_s(steps):
    """Return an upper bound of the longest command in @steps; None if there was no command, or if
    one took longer than the last bound."""
    last = max((i for i, n in enumerate(steps) if n), default=None)
    if last is None or last == len(steps) - 1:
        return None
    return FIRST_S * STEP ** last


def longer_than(steps, seconds):
    """Return the number of commands that certainly took longer than @seconds."""
    first = math.ceil(math.log(seconds / FIRST_S) / math.log(STEP) - 1e-9)
    return sum(steps[first + 1:])


def rate(seen, first=0.0):
    """Return the MB/s of a rebuild, [[seconds, sectors done]], from the share @first of its
    sectors on."""
    end = seen[-1]
    begin = next(([0.0, 0] if not first else p for p in seen if p[1] >= first * end[1]), end)
    return (end[1] - begin[1]) * 512 / 1e6 / (end[0] - begin[0]) if end[0] > begin[0] else None


def figures(of):
    out = {"seconds": of["seen"][-1][0], "ended": of["ended"],
           "mb_s": rate(of["seen"]), "late_mb_s": rate(of["seen"], .5),
           "new_s": longest_s(of["new"]), "others_s": longest_s(of["survivors"]),
           "over": longer_than(of["new"], TIMEOUT_S)
           + longer_than(of["survivors"], TIMEOUT_S)}
    for name, share in (("median_s", .5), ("p99_s", .99), ("worst_s", 1)):
        out[name] = percentile(of["latencies"], share, None)
    return out


def wrong_of(name, of):
    """Yield sentences about what must never occur."""
    yield from stacks.lost_of(name, of)
    if of["late_us"] > ROTATION_US:
        yield f"{name}: a command was {of['late_us']} us late: no exact clock"
    if of["failed"]:
        yield f"{name}: {len(of['failed'])} writers were refused: {of['failed'][0]}"
    if of["ended"]:
        if of["degraded"]:
            yield f"{name}: the array is still degraded"
        if of["mismatches"]:
            yield f"{name}: {of['mismatches']} sectors do not fit their parity"
        if of["wrong_blocks"]:
            yield f"{name}: {of['wrong_blocks']} blocks are not what was written"


COLUMNS = (("rebuild, s", "seconds", ".1f"), ("MB/s", "mb_s", ".1f"),
           ("2nd half", "late_mb_s", ".1f"), ("times", "times", ".2f"),
           ("new, s", "new_s", ".3f"), ("others, s", "others_s", ".3f"),
           ("30 s", "over", "d"), ("median, s", "median_s", ".3f"),
           ("99 %, s", "p99_s", ".3f"), ("longest, s", "worst_s", ".3f"))


def rows(results):
    """Return {(layer, load): figures}, each with its ratio to the conventional drive's if
    measured."""
    out = {what: figures(of) for what, of in results}
    for (_, load), of in out.items():
        plain = out.get(("conventional", load))
        of["times"] = plain and plain["late_mb_s"] and of["late_mb_s"] \
            and plain["late_mb_s"] / of["late_mb_s"]
    return out


def table(groups, used=False):
    title = "used drive" if used else "new drive"
    return Table.of_rows(title, COLUMNS, {
        f"{name}: {load}{'' if of['ended'] else ' (not ended: as far as it went)'}": of
        for (name, load), of in groups.items()}, title)


def picture(groups, path):
    from skylight import plots
    loads = list(dict.fromkeys(load for _, load in groups))
    names = list(dict.fromkeys(name for name, _ in groups))

    def draw(figure):
        for axes, (title, key) in zip(plots.panels(figure, 3), (
                ("rebuild, second half, MB/s", "late_mb_s"),
                ("longest command of the new drive, s", "new_s"),
                ("longest write of the load, s", "worst_s"))):
            stacks.bars(axes, loads, names, lambda name, load, key=key: groups[name, load][key] or 0)
            axes.set_title(title)
            if any(of[key] for of in groups.values()):
                axes.set_yscale("log")
            if key != "late_mb_s":
                axes.axhline(TIMEOUT_S, color="black", linewidth=0.8, linestyle=":")
        figure.axes[0].legend(fontsize=7)
    plots.png(draw, path, (12, 4.2))


def options_of(words):
    p = runner.Parser("rebuild", __doc__, "seed", "timeout", "resume")
    p.add_argument("--layers", action="append", metavar="NAME", choices=tuple(layers()),
                   help="one of " + "; ".join(layers()) + "; can be given again "
                   f"({'; '.join(USUAL)})")
    p.add_argument("--loads", action="append", metavar="NAME", choices=LOADS,
                   help=f"one of {'; '.join(LOADS)}; can be given again (all)")
    p.add_argument("--used", action="store_true",
                   help="the drive that is put in has been in use")
    p.add_argument("--drive-mib", type=int, default=512, metavar="MIB",
                   help="the size of a drive, 128 to 768 (512)")
    p.add_argument("--per-s", type=int, default=20, metavar="N",
                   help="writes a second, with a load (20)")
    p.add_argument("--raised", type=int, default=100_000, metavar="KIB",
                   help="sync_speed_min of the raised one, KiB/s (100000)")
    p.add_argument("--limit", type=int, default=7200, metavar="S",
                   help="of its own time, after which a rebuild is given up (7200)")
    options = p.parse_args(words)
    if not 128 <= options.drive_mib <= 768:
        p.error(f"--drive-mib {options.drive_mib} is not from 128 to 768")
    p.at_least(options, per_s=1, raised=1, limit=1)
    return options


def main():
    options = options_of(sys.argv[1:])
    runner.prepare("rebuild", "shingle")
    results, wrong = stacks.measured("rebuild", options, {"all": cases(options)},
                                     "rebuild", wrong_of)
    groups = rows(results["all"])
    runner.show(options, table(groups, options.used))
    path = runner.outputs("rebuild") / f"rebuild{'-used' if options.used else ''}.png"
    picture(groups, path)
    runner.show_picture(path)
    return runner.status(wrong, "what was written is there, parity fits it, nothing destroyed was "
                         "read, and the clock was exact")
