# SPDX-License-Identifier: GPL-2.0
"""Loads to compare translation layers with: generate them with the parameters of the traces that
the literature uses, or convert such traces; measure them; replay them on a device with fio."""

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from skylight.cli import Screen, end_in_order
from skylight.device import Device
from skylight.device import Refused as DeviceRefused
from skylight.load import LoadError

from . import generate, hajkazemi, measure, thesis, trace
from . import replay as replays
from .requests import BLOCK, Refused, join, parts

USAGE, FAILED, INTERRUPTED = 2, 1, 130
EXAMPLES = """examples:
  scripts/loads/run presets
  scripts/loads/run generate rsrch_0 --out rsrch.csv --stats
  scripts/loads/run generate zipf --over 50 --exponent 1.2 --out zipf.csv.gz
  scripts/loads/run generate regions --region 16M --live 50% --size 1G --out half.csv
  scripts/loads/run convert hm_0.csv.gz --size 8G --out hm.iolog --stats
  scripts/loads/run replay rsrch.csv /dev/mapper/smr
"""
STATIONARY = ("uniform", "zipf", "hot")
# Table I of Hajkazemi's paper has traces with the names of presets.
SYNTHETIC = {f"seek-{name}": name for name in hajkazemi.TABLE}
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size(text):
    """Parse a size in bytes, rounded down to blocks: 64M, 5000000000."""
    word = text.lower().removesuffix("ib").removesuffix("b")
    digits = word.rstrip("kmgt")
    unit = word[len(digits):]
    if not digits.isdigit() or unit not in UNITS:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; one is 64M or 5000000000")
    blocks = int(digits) * UNITS[unit] // BLOCK
    if not 0 < blocks <= trace.FARTHEST // BLOCK:
        raise argparse.ArgumentTypeError(f"'{text}' is below a block or beyond all devices")
    return blocks * BLOCK


def number(least, most, kind=int):
    """Return a type for argparse: a number from @least to @most."""
    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"'{text}' is no number from {least:g} to {most:g}")
        return value
    return convert


POSITIVE = number(1e-6, 1e9, float)


def share(text):
    """Parse a part of a region: 50%, or 86b for blocks."""
    try:
        if text.endswith("b"):
            return int(text[:-1])
        if text.endswith("%"):
            return float(text[:-1]) / 100
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is neither a share (50%) nor blocks (86b)")


def output(parser):
    """Add the options of commands that write loads."""
    parser.add_argument("--out", metavar="FILE", type=Path,
                        help="the load; compressed if it ends in .gz")
    parser.add_argument("--format", choices=trace.Writer.KINDS,
                        help="csv (by default, as MSR Cambridge traces are), or fio's iolog: "
                             "iolog2 (of FILE.iolog) has no times, iolog3 has")
    parser.add_argument("--device", metavar="NAME", default="device",
                        help="in iologs; fio's replay_redirect puts another in its place")
    parser.add_argument("--speed", type=POSITIVE, default=1.0, metavar="X",
                        help="iolog3: speed factor (1)")
    parser.add_argument("--cache-size", type=size, metavar="SIZE", help="of the persistent "
                        "cache that the load is for (64M; convert: 5000000000)")
    parser.add_argument("--stats", action="store_true", help="print what the load is")
    parser.add_argument("--json", action="store_true", help="print that as JSON")


def parser():
    """Return the argument parser of scripts/loads/run."""
    top = argparse.ArgumentParser(
        prog="loads", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    presets = commands.add_parser("presets", help="which loads there are")
    presets.add_argument("--json", action="store_true")

    make = commands.add_parser("generate", help="make a load")
    make.add_argument("load", metavar="LOAD", choices=(*generate.PRESETS, *STATIONARY,
                                                       "regions", *hajkazemi.PATTERNS, hajkazemi.UPDATES,
                                                       *SYNTHETIC),
                      help="a preset, uniform, zipf, hot, regions; descending, shuffled or "
                           "interleaved writes that are read in sequence; updates, scans and writes of "
                           "the same hot ranges; or seek-NAME, synthetic, with the counts of a "
                           "trace")
    output(make)
    make.add_argument("--seed", type=number(0, 1 << 62), default=1,
                      help="the same one, the same load (1)")
    make.add_argument("--size", type=size, help="of the device (100 caches)")
    make.add_argument("--requests", type=number(1, 100_000_000), metavar="N",
                      help="number of requests; default: as --fills makes")
    make.add_argument("--fills", type=POSITIVE, metavar="X",
                      help="caches written (as the trace's; uniform, zipf, hot: 3)")
    make.add_argument("--rate", type=number(1e-3, 1e6, float), default=100, metavar="X",
                      help="requests a second, at random intervals (100)")
    like = make.add_argument_group("presets")
    for name, what in (("write-percent", "writes among the requests"),
                       ("update-percent", "updates among the writes"),
                       ("kb-write", "size of a write, in 1000 bytes"),
                       ("kb-read", "size of a read, likewise"),
                       ("rho", "distinct among the written blocks, at the ideal point"),
                       ("skew", "exponent of the Zipf law of updates and reads (1)"),
                       ("sequential", "least share of fresh extents behind the one before, "
                                      "0 to 0.999 (0.5)"),
                       ("cold-percent", "reads of what is never written (50)")):
        like.add_argument(f"--{name}", type=number(0, 1e6, float), metavar="X", help=what)
    like.add_argument("--by", choices=("popularity", "age"),
                      help="what that law ranks extents by (popularity)")
    still = make.add_argument_group("uniform, zipf, hot")
    still.add_argument("--over", type=POSITIVE, metavar="PERCENT",
                       help="of the cache, the range (uniform 30, else 50)")
    still.add_argument("--exponent", type=number(0, 4, float), default=1.0, metavar="X",
                       help="of zipf (1)")
    still.add_argument("--hot", type=number(0, 100, float), metavar="PERCENT",
                       help="of the range, or of a region (hot: 10; regions: uniform)")
    still.add_argument("--taking", type=number(0, 100, float), default=90, metavar="PERCENT",
                       help="of the writes (90)")
    area = make.add_argument_group("regions")
    area.add_argument("--region", type=size, metavar="SIZE", help="of an autonomous region")
    area.add_argument("--live", type=share, metavar="SHARE",
                      help="valid of each region: 50%% or 86b, blocks")
    area.add_argument("--turns", type=number(0, 1e6, float), default=16, metavar="X",
                      help="updates for each block of the regions (16)")
    area.add_argument("--filled", action="store_true",
                      help="each has been written already")

    convert = commands.add_parser("convert", help="take a load from a trace")
    convert.add_argument("trace", metavar="TRACE", type=Path,
                         help="seven columns as MSR Cambridge's, perhaps .gz")
    output(convert)
    convert.add_argument("--size", type=size, help="of the device to bring it to")
    convert.add_argument("--fit", choices=("fold", "pack"), default="fold",
                         help="places modulo the size (fold), or those MiB that are touched "
                              "one behind the other (pack)")
    convert.add_argument("--volume", metavar="HOST_DISK", help="of a trace of several")
    convert.add_argument("--requests", type=number(1, 1 << 62), metavar="N",
                         help="only the first N requests")

    run = commands.add_parser("replay", help="run a load on a device; overwrites it")
    run.add_argument("load", metavar="LOAD", type=Path, help="csv, perhaps .gz")
    run.add_argument("device", metavar="DEV", help="a block device")
    run.add_argument("--speed", type=POSITIVE, metavar="X",
                     help="as recorded, times this factor; else as fast as possible")
    run.add_argument("--depth", type=number(1, 4096), default=1, metavar="N",
                     help="requests under way, at most (1)")
    run.add_argument("--fill", action="store_true",
                     help="first write all that the load may touch, in sequence")
    run.add_argument("--requests", type=number(1, 1 << 62), metavar="N",
                     help="only the first N requests")
    run.add_argument("--volume", metavar="HOST_DISK", help="of a trace of several")
    run.add_argument("--out", metavar="DIR", type=Path, help="keep fio's files there")
    run.add_argument("--force", action="store_true",
                     help="also if the device holds a file system, partitions or the like; "
                          "never if it is in use")
    run.add_argument("--json", action="store_true", help="print the results as JSON")
    return top


def tell(result, row, args, more=None):
    """Print the measured properties."""
    if args.json:
        theirs = {k: getattr(row, k) for k, *_ in measure.TABLE} if row else None
        print(json.dumps({"measured": result, "thesis": theirs, **(more or {})}, indent=1,
                         allow_nan=False))
    elif args.stats:
        print(*measure.table(result, row), sep="\n")


def emit(stretches, args, cache_bytes, volume):
    """Write and measure a load; return its properties, or None if neither --stats nor --json is
    given."""
    writer, counting = None, None
    if args.out:
        kind = args.format or ("iolog2" if ".iolog" in args.out.suffixes else "csv")
        if kind != "csv" and args.out.suffix == ".gz":
            raise Refused("fio reads no compressed iologs")
        writer = trace.Writer(args.out, kind, args.device, args.speed, volume)
    if args.stats or args.json:
        counting = measure.Measure(cache_bytes // BLOCK)
    if not writer and not counting:
        raise Refused("nothing to do: --out FILE writes the load, --stats says what it is")
    try:
        for stretch in stretches:
            if counting:
                counting.add(stretch)
            if writer:
                writer.add(stretch)
        if writer:
            writer.close()
    except BaseException:
        if writer:
            writer.drop()
        raise
    return counting.result() if counting else None


def parameters(args):
    """Return the parameters of a preset, with those of the command line in their place."""
    given = {"write_percent": args.write_percent, "update_percent": args.update_percent,
             "kb_per_write": args.kb_write, "kb_per_read": args.kb_read, "rho": args.rho,
             "fills": args.fills, "skew": args.skew, "sequential": args.sequential,
             "cold_percent": args.cold_percent, "by": args.by}
    return dataclasses.replace(generate.PRESETS[args.load],
                               **{k: v for k, v in given.items() if v is not None})


def region_load(args, device_bytes):
    """Generate the load of "generate regions"."""
    if not args.region or args.live is None:
        raise Refused("regions want --region SIZE and --live SHARE")
    blocks = args.region // BLOCK
    live = args.live if isinstance(args.live, int) else round(args.live * blocks)
    turns = args.turns
    if args.requests is not None:
        turns = args.requests / max(1, device_bytes // args.region * blocks)
    return generate.regions(device_bytes // BLOCK, blocks, live, args.seed, args.rate, turns,
                            args.hot, args.taking, args.filled)


def command_generate(args, screen):
    """Generate a load."""
    cache = args.cache_size or 64 << 20
    device, plan = args.size or 100 * cache, None
    screen.test(f"loads: {args.load}", 5, 0)
    if args.load in generate.PRESETS:
        load, plan = generate.like(args.load, parameters(args), cache // BLOCK, device // BLOCK,
                                   args.seed, args.rate, args.requests, screen.show)
    elif args.load == "regions":
        load = region_load(args, device)
    elif args.load == hajkazemi.UPDATES:
        load = hajkazemi.updates(args.seed, args.rate, args.requests)
    elif args.load in hajkazemi.PATTERNS:
        load = hajkazemi.pattern(args.load, args.seed, args.rate)[:args.requests]
    elif args.load in SYNTHETIC:
        load = hajkazemi.synthetic(SYNTHETIC[args.load], args.seed, args.rate, args.requests)
    else:
        load = generate.stationary(
            args.load, cache // BLOCK, args.seed, args.rate, args.fills or 3.0, args.over,
            args.exponent, 10.0 if args.hot is None else args.hot, args.taking, args.requests)
        end = int(load.first.max() + 1) * BLOCK
        if end > device:
            raise Refused(f"the load ends at byte {end}, the device has {device}")
    result = emit(parts(load), args, cache, args.load if plan else f"{args.load}_0")
    screen.clear()
    if result:
        tell(result, thesis.ROWS.get(args.load), args,
             {"plan": dataclasses.asdict(plan) if plan else None, "seed": args.seed})
    return 0


def command_convert(args, screen):
    """Convert a trace to a load."""
    fit = trace.Fit(args.fit, args.size // BLOCK if args.size else None)
    screen.test(f"loads: {args.trace}", 10, 0)
    reader = trace.Reader(args.trace, args.volume, args.requests, fit, screen.show)
    cache = args.cache_size or thesis.CACHE_BYTES
    name = args.volume or args.trace.name.removesuffix(".gz").removesuffix(".csv")
    result = emit(reader, args, cache, name if "_" in name else f"{name}_0")
    screen.clear()
    if result:
        tell(result, thesis.ROWS.get(name), args, {"moved": fit.moved, "torn": fit.torn})
        if args.stats and not args.json and args.size:
            print(f"{fit.moved:,} were moved to fit, {fit.torn:,} torn")
    return 0


def command_replay(args, screen):
    """Replay a load on a device."""
    load = join(trace.Reader(args.load, args.volume, args.requests))
    dev = Device(args.device, args.force, "--force")
    try:
        screen.test(f"loads: {args.load} on {args.device}", 60, 0)
        with tempfile.TemporaryDirectory(prefix="loads.") as folder:
            out = replays.replay(dev, load, args.out or Path(folder), args.depth, args.speed,
                                 args.fill, screen.show)
    finally:
        dev.close()
    screen.clear()
    if args.json:
        print(json.dumps(out, indent=1, allow_nan=False))
    else:
        print(*replays.table(out), sep="\n")
    return 0


def command_presets(args, _):
    """Print the presets."""
    if args.json:
        print(json.dumps({name: {**dataclasses.asdict(p),
                                 "ideal_percent": thesis.ROWS[name].ideal_percent}
                          for name, p in generate.PRESETS.items()}, indent=1))
        return 0
    print(f"{'':10}" + "".join(f"{h:>11}" for h in ("writes %", "updates %", "KB/write",
                                                   "KB/read", "caches", "rho", "ideal %")))
    for name, p in generate.PRESETS.items():
        ideal = thesis.ROWS[name].ideal_percent
        print(f"{name:10}{p.write_percent:11.2f}{p.update_percent:11.2f}{p.kb_per_write:11.1f}"
              f"{p.kb_per_read:11.1f}{p.fills:11.2f}" +
              (f"{p.rho:11.3f}{ideal:11.2f}" if p.rho else f"{'-':>11}{'-':>11}"))
    print("and uniform, zipf, hot: writes of a block each that do the same from beginning to "
          "end\nand regions: keeps a share of each autonomous region valid\n"
          "and descending, shuffled, interleaved: ranges written out of order, read in sequence\n"
          "and updates: small writes and scans, most of them of a tenth of the ranges\n"
          f"and seek-NAME: synthetic, with the counts of {', '.join(hajkazemi.TABLE)}")
    return 0


def main(argv=None):
    """Run scripts/loads/run; return the exit status."""
    args = parser().parse_args(argv)
    end_in_order()
    screen = Screen()
    try:
        return {"generate": command_generate, "convert": command_convert,
                "replay": command_replay, "presets": command_presets}[args.command](args, screen)
    except BrokenPipeError:
        return FAILED
    except (Refused, DeviceRefused, LoadError) as error:
        screen.clear()
        print(f"loads: {error}", file=sys.stderr)
        return USAGE if not isinstance(error, LoadError) else FAILED
    except KeyboardInterrupt:
        screen.clear()
        print("loads: interrupted", file=sys.stderr)
        return INTERRUPTED
