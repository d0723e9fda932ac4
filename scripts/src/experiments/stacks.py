# SPDX-License-Identifier: GPL-2.0
"""Shared code of the experiments that run translation layers on the surface of C. Ma,
"Read-Modify-Write Optimization for Shingled Magnetic Recording Storage Systems" (thesis, 2019): 512
GB, 5,900 rpm, tracks of 2 MiB, a head of three tracks, a cache of 5 GB.

Capacity and cache are divided by --scale.  The medium has no store; its time and the destruction of
tracks are emulated.  Metadata are in RAM.  Each case is a guest with the virtual clock, in which
stack.py sends one request at a time.
"""

import json
import subprocess
import time

from experiments import runner
from lab.cache import TOP
from skylight.cli import Screen

from experiments.resume import earlier, sources

BLOCK, MIB, GB = 4096, 1 << 20, 10 ** 9
TRACK = 512                             # blocks
ROTATION_US = 10_169                    # at 5,900 rpm
SURFACE, CACHE, ROWS = 512 * GB, 5 * GB, 4096       # of the thesis
REGION_ROWS = 64        # tracks in a region of tiler
RMWF_BAND = 30          # MiB
TIMED_OUT = 124
EXACT = "nothing destroyed was read, and the clock was exact"
# The sources that a result depends on, besides the case's own parameters.
SOURCES = ("core", "dm-tiler", "dm-stl", "dm-imr", "dm-dualbuffer", "dm-platter",
           "userspace/shingle", "userspace/kv", "userspace/kvbench", "userspace/include",
           "scripts/src/loads", "scripts/src/skylight/load.py", "scripts/src/common/output.py",
           *(f"scripts/src/experiments/{name}.py" for name in (
               "evaluation", "in_guest/stack", "in_guest/regions", "in_guest/rebuild", "in_guest/kv",
               "in_guest/blocks")),
           *(f"tests/guest/{name}.py" for name in ("bench", "blk", "dm", "media")))


def medium(tracks, head=3, track=TRACK, store=False, meta_mib=256, **keys):
    """A medium with @tracks tracks in all, over all surfaces."""
    return {"tracks": tracks, "track": track, "head": head, "store": store,
            "meta_mib": meta_mib, "keys": keys}


def tiler(columns, rows, over=0, **keys):
    return {"target": "tiler", "rows": rows, "columns": columns, "over": over, "set": keys}


def plain():
    """The reference of all comparisons: no translation, and a head that destroys nothing."""
    return {"target": "plain", "media": "cmr"}


def rmwf(cache, **keys):
    """rmwf with a flash cache of @cache MiB."""
    return {"target": "rmwf", "set": keys, "flash_mib": cache + 2 * RMWF_BAND, "create": [
        "rmwf", "--band", f"{RMWF_BAND}M", "--cache-size", f"{cache}M"]}


def log_structured(**keys):
    """stl-log with its usual reserve of 7 %."""
    return {"target": "stl-log", "set": keys, "create": ["stl-log", "--band", "20M"]}


def layers(scale):
    """Return {name: layer for stack.py}, each with a cache of 1 % of the capacity."""
    cache = int(CACHE / scale / MIB)
    log, band = max(3, cache // 20), 20
    bands = int(SURFACE / scale / MIB / band)
    return {
        "plain": plain(),
        "stl-set": {"target": "stl-set", "create": [
            "stl-set", "--band", f"{max(2, cache // 3)}M", "--cache-size", "3b"]},
        "stl-full": {"target": "stl-full", "create": [
            "stl-full", "--band", f"{band}M", "--zone-bands", bands, "--provision", 2 * log,
            "--log-bands", log]},
        "stl-log": log_structured(),
        # Selective caching and look-ahead-behind, in 64 MiB each.
        "stl-log, SC+LAB": log_structured(selective="on", read_cache_kb=65536, look_behind=64,
                                          look_ahead=64, look_regions=32),
        "baseline": {"target": "ma-baseline", "create": [
            "--preset", "ma-baseline", *(("--scale", scale) if scale > 1 else ()),
            "--no-feature", "inplace"]},
        "dualbuffer": {"target": "dualbuffer", "create": [
            "--preset", "ma-dualbuffer", *(("--scale", scale) if scale > 1 else ())]},
        # The flash cache has that size; staging and headers come on top.
        "rmwf": rmwf(cache),
        "rmwf, pool": rmwf(cache, alloc="pool"),
        "imr": {"target": "imr", "media": "imr", "create": ["imr", "--set", "wcache=off"]},
        "tiler, S = 8": tiler(8, REGION_ROWS, 100),
        "tiler, track": tiler(TRACK, REGION_ROWS, 100),
    }


def opponents(scale):
    cache = CACHE / scale / MIB
    return {"baseline": {"target": "ma-baseline", "scale": scale, "set": {"rmw": "band"}},
            "baseline, block": {"target": "ma-baseline", "scale": scale,
                                "set": {"rmw": "block"}},
            # Three cache bands, one per cent of the capacity.
            "stl-set": {"target": "stl-set", "set": {},
                        "band": f"{int(cache // 3)}M" if scale > 50 else "25M",
                        "cache": "3b" if scale > 50 else f"{int(cache)}M"}}


def surface(scale, surfaces=1, more=1.15, **keys):
    """The thesis's surface, or several of them.  @more makes room for the guards of the baseline:
    its bands have two guard tracks for fifteen data tracks, and it must present 512 GB, too."""
    tracks = -(-int(SURFACE / scale * more) // (TRACK * BLOCK))
    if surfaces > 1:
        keys["surfaces"] = surfaces
    return medium(tracks * surfaces, meta_mib=256 if scale > 8 else 4096, **keys)


# --- running them -------------------------------------------------------------------


class Runner:
    """Run guests one after another and show progress."""

    def __init__(self, show, options, total, guest):
        self.show, self.out, self.guest = show, runner.outputs(show), guest
        self.options, self.total, self.done = options, total, 0
        self.screen, self.begin, self.spent = Screen(), time.monotonic(), 0.0
        self.digest = sources(SOURCES)

    def __call__(self, name, words):
        words = {**words, "sources": self.digest}
        out, told = self.out / f"{name}.json", self.out / f"{name}.words"
        self.done += 1
        of = earlier(out, words) if self.options.resume else None
        if of:
            return of
        out.unlink(missing_ok=True)
        told.write_text(json.dumps(words), encoding="ascii")
        mean = self.spent / max(1, self.done - 1) or 15
        self.screen.test(f"{self.show}: {name} ({self.done} of {self.total})", mean,
                         mean * (self.total - self.done))
        began = time.monotonic()
        command = runner.in_guest(self.guest, told, out, rw=self.out, timeout=self.options.timeout,
                                  memory="6G" if words.get("large") else "2G")
        with subprocess.Popen(command, cwd=TOP) as guest:
            while guest.poll() is None:
                self.screen.show(None, None)
                time.sleep(.2)
        self.screen.clear()
        if guest.returncode == TIMED_OUT:
            self.spent += time.monotonic() - began
            return None
        if guest.returncode:
            raise SystemExit(f"{self.show}: the guest for {name} ended with status "
                             f"{guest.returncode}")
        told.unlink()
        self.spent += time.monotonic() - began
        return json.loads(out.read_text())


class Loads:
    """Generate loads as files, each for a volume of which the load writes the share @dense."""

    def __init__(self, show, options):
        self.show, self.out, self.options = show, runner.outputs(show), options

    def __call__(self, name, cache_bytes, dense):
        """Generate one load and return its path."""
        o = self.options
        words = ["generate", name, "--json", "--cache-size", cache_bytes, "--seed", o.seed]
        # Measure the whole load, even if only its first requests will be sent.
        blocks = None
        if dense:
            of = json.loads(self.run(words))["measured"]
            # A quarter of a volume is only read.
            blocks = max(1024, int(of["distinct_blocks"] * 4 / 3 * 100 / dense) + 1)
        out = self.out / f"{name}-{cache_bytes}-{o.seed}-{dense}.csv"
        self.run([*words, "--out", out, *(["--size", blocks * BLOCK] if blocks else [])])
        return out

    def regions(self, options):
        """Generate single blocks at random, the same number in each of the smallest regions, so
        that larger regions have the same share of valid blocks."""
        rows, turns = max(1, ROWS // options.scale), 2
        out = self.out / f"uniform-{rows}-{turns}-{options.seed}-{options.dense}.csv"
        self.run(["generate", "regions", "--region", rows * BLOCK, "--live",
                  f"{options.dense}%", "--size", rows * TRACK * BLOCK, "--turns", turns,
                  "--filled", "--seed", options.seed, "--out", out])
        return out

    def run(self, words):
        """Run scripts/loads/run and return its output."""
        done = subprocess.run([TOP / "scripts/loads/run", *(str(w) for w in words)], check=False,
                              text=True, capture_output=True)
        if done.returncode:
            raise SystemExit(f"{self.show}: {done.stderr.strip()}")
        return done.stdout


def load_case(options, loads, load, dense, layer, name, **more):
    """A load on a layer: (name, words, what)."""
    scale = options.scale
    if load == "uniform":
        path = loads.regions(options)
    else:
        path = loads(load, CACHE // scale, dense)
    # Begin in the middle of the disk; a load that is spread over the whole disk begins at 0.
    whole = more.get("surfaces", 1) * SURFACE // scale
    offset = whole // 2 // (128 * MIB) * (128 * MIB) // BLOCK if dense else 0
    keys = {k: v for k, v in more.items() if k != "label"}
    label = more.get("label", "")
    return (f"load-{load}-{dense}-{name.replace(', ', '-')}-{scale}{label}", {
        "what": "load", "layer": layer, "medium": surface(scale, **keys), "load": str(path),
        "requests": options.requests, "offset": offset, "large": scale <= 8},
        ("load", load, dense, name, label))


def keep(options, done):
    """Add @done to the results in --json."""
    runner.keep(options, {**getattr(options, "results", {}), **done})


def measured(show, options, groups, guest, judge=None):
    """Run each case of groups, {group: [(name, words, what)]}, once.  Return {group: [(what,
    result)]} and the sentences of @judge, or of wrong_of(), about results that must never occur."""
    run = Runner(show, options, len({c[0] for of in groups.values() for c in of}), guest)
    done, wrong = {}, []
    for name, words, _ in (c for of in groups.values() for c in of):
        if name not in done:
            done[name] = run(name, words)
            wrong += (judge or wrong_of)(name, done[name]) if done[name] else [
                f"{name}: did not end within {options.timeout} s"]
    keep(options, done)
    return {key: [(what, done[name]) for name, _, what in of if done[name]]
            for key, of in groups.items()}, wrong


# --- options ---------------------------------------------------------------------------


def parser(name, text, loads):
    """Return a parser with the options that these experiments share; @loads are the default
    loads."""
    p = runner.Parser(name, text, "seed", "timeout", "resume", "requests")
    p.add_argument("--loads", type=lambda t: tuple(t.split(",")), metavar="NAME,...",
                   help=f"which loads ({','.join(loads)})")
    p.add_argument("--scale", type=int, default=64,
                   help="capacity, cache, M and length of loads are 1/N of the thesis's (64)")
    p.add_argument("--dense", type=int, default=60, metavar="PERCENT",
                   help="written percent of the part of a volume that a load uses (60)")
    return p


def sensible(show, options):
    """Refuse option values with which a guest would fail, before one is started."""
    if options.scale < 1 or ROWS % options.scale:
        runner.refuse(show, f"--scale {options.scale} does not divide {ROWS} rows")
    if not 1 <= options.dense <= 100:
        runner.refuse(show, f"--dense {options.dense} is not from 1 to 100")
    from loads import thesis
    for load in options.loads or ():
        if load not in thesis.ROWS:
            runner.refuse(show, f"load '{load}' is none of {', '.join(thesis.ROWS)}")


# --- evaluation -----------------------------------------------------------------------


def figures(of):
    """The figures of one load, under the same names for all layers."""
    layer, disk, n = of["layer"], of["medium"], of["all"]["requests"]
    cleans, host = of["cleanings"], layer["host_write_blocks"]
    is_tiler = of["words"]["layer"]["target"] == "tiler"
    logged = layer.get("tiler_log_blocks", 0) + layer.get("tiler_merged_blocks", 0)
    lazily = layer.get("tiler_lazy_blocks", 0)
    return {
        "response_ms": of["all"]["mean_ms"], "worst_s": of["all"]["worst_ms"] / 1000,
        "read_ms": of["reads"]["mean_ms"], "write_ms": of["writes"]["mean_ms"],
        # With one request at a time, time not spent on rotation is the rest.
        "unturned_ms": max(0.0, of["all"]["mean_ms"] - disk["rotation_us"] / n / 1000),
        "amplification": 1 + layer["clean_write_blocks"] / host if host else 1.0,
        "medium_amplification": disk["media_blocks_written"] / host if host else 1.0,
        "ram_bytes": layer["map_bytes"], "p99_ms": of["all"]["p99_ms"],
        "cleaning_blocks": layer["clean_write_blocks"],
        "copies": layer["tiler_moved_blocks"] if is_tiler else layer.get("merged_blocks", 0),
        "seeks": disk["seeks"], "distance": disk["seek_tracks"],
        "cleaning_seeks": None if cleans["seeks"] is None else over(cleans["seeks"],
                                                                    disk["seeks"]),
        "cleanings": cleans["number"],
        "cleaning_s": cleans["seconds"] / cleans["number"] if cleans["number"] else 0.0,
        "longest_s": cleans["longest"], "largest_blocks": cleans["largest"],
        "lazy": lazily / (lazily + logged) if lazily + logged else None,
        "meta_blocks": sum(layer[k] for k in ("journal_blocks", "checkpoint_blocks",
                                              "superblock_blocks")),
        "seconds": of["seconds"],
    }


def over(a, b):
    """a / b, or None if b is 0 or None."""
    return a / b if b else None


def ratios(rows, name):
    """The figure in each row divided by that in the first row."""
    return [over(r[name], rows[0][name]) for r in rows]


def bars(axes, groups, names, height, **more):
    """Draw a bar of height(name, group) for each of @names at each of @groups."""
    for i, name in enumerate(names):
        axes.bar([j + (i - len(names) / 2) / (len(names) + 1) for j in range(len(groups))],
                 [height(name, group) for group in groups], 1 / (len(names) + 1), label=name)
    axes.set_xticks(range(len(groups)), list(groups), **more)


def lost_of(name, of):
    """Yield a sentence for each kind of danger to data, which must never occur."""
    if of["medium"]["destroyed_reads"]:
        yield f"{name}: {of['medium']['destroyed_reads']} destroyed blocks were read"
    if of["layer"]["r0_violations"]:
        yield f"{name}: {of['layer']['r0_violations']} writes would have destroyed data in use"


def wrong_of(name, of):
    """Yield sentences about what must never occur."""
    yield from lost_of(name, of)
    if of["medium"]["late"]:
        yield f"{name}: late {of['medium']['late']} times: no exact clock"
