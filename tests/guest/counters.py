# SPDX-License-Identifier: GPL-2.0
"""Compare the statistics of a layer with what the devices below counted.

After a sequential fill, uniform random overwrites, cleaning of everything and reads of every block,
the blocks read from and written to the data device equal the layer's counters exactly; where
metadata lie on the same device, they are included.  Further cases: the cost of one cleaned band by
kind, and what scripts/loads reports about a load that it has replayed.
"""

import json
import os
import random
import tempfile
import time
from collections import Counter

from guest import bench
from guest import exact
from guest import media
from guest.bench import expect, until
from guest.blk import SECTORS
from guest.media import stats
from guest.targets import Geometry, stack

CHUNK = 64      # blocks of a sequential write
METADATA = ("journal_blocks", "checkpoint_blocks", "superblock_blocks")
PAGES = ("map_page_reads", "map_page_writes")


def counters(made):
    """Return {device: the kernel's statistics of it}."""
    out = {}
    for which, path in made.paths.items():
        name = os.path.basename(os.path.realpath(path))
        with open(f"/sys/block/{name}/stat", encoding="ascii") as handle:
            out[which] = [int(word) for word in handle.read().split()]
    return out


def below(made):
    """Return {device: blocks read from it and written to it}."""
    out = {which: (words[2] // SECTORS, words[6] // SECTORS)
           for which, words in counters(made).items()}
    # The layer's counters include the cache device in the data.
    if "cache" in out:
        out["data"] = tuple(map(sum, zip(out["data"], out.pop("cache"))))
    return out


def said(made, count):
    """Return what below() should have counted, calculated from the layer's counters @count."""
    reads = count["host_read_blocks"] - count["wcache_hits_blocks"] + count["clean_read_blocks"]
    writes = count["host_write_blocks"] - count["wcache_write_blocks"] + \
        count["wcache_destage_blocks"] + count["clean_write_blocks"]
    meta_reads, meta_writes = (count.get(name, 0) for name in PAGES)
    meta_writes += sum(count[name] for name in METADATA)
    if made.geo.meta == "same":
        return {"data": (reads + meta_reads, writes + meta_writes)}
    return {"data": (reads, writes), "meta": (meta_reads, meta_writes)}


def cleared(made):
    """Clear the layer's counters at a moment without I/O; return below() of that moment."""
    def quiet():
        before = counters(made)
        now = below(made)
        made.device.message("stats_clear")
        still = before == counters(made) and not any(words[8] for words in before.values())
        return still and (now,)
    return until(quiet, "the layer works on and on")[0]


def agree(made, before, what):
    """Expect that below() has grown since @before by exactly what the layer has counted, and that
    the layer's counters agree with each other; return them."""
    made.device.message("commit")       # also writes the write cache
    for _ in range(600):
        now, count = below(made), stats(made.device)
        ours = said(made, count)
        seen = {which: tuple(new - old for new, old in zip(now[which], before[which]))
                for which in ours}
        if seen == ours:
            break
        time.sleep(0.05)        # a checkpoint or a step may still be running
    expect(seen == ours, f"{what}: blocks read and written below {seen}, said {ours}")
    expect(not count["r0_violations"], f"{what}: R0 was violated")
    kinds = [v for name, v in count.items()
             if name.startswith("step_") and name.endswith("_us")]
    expect(kinds and sum(kinds) == count["clean_us"], f"{what}: steps of {kinds} us, "
                                            f"together {count['clean_us']} us")
    for name, us in count.items():
        if name.startswith("longest_"):
            of = count[name.replace("longest_", "step_")]
            expect(us <= of and bool(us) == bool(of), f"{what}: {name} is {us} of {of} us")
    expect(not count["wcache_dirty_blocks"],
           f"{what}: {count['wcache_dirty_blocks']} blocks in the write cache")
    expect(count["wcache_write_blocks"] == count["wcache_destage_blocks"] +
           count["wcache_replaced_blocks"],
           f"{what}: {count['wcache_write_blocks']} blocks came into the write "
           f"cache, {count['wcache_destage_blocks']} left it, "
           f"{count['wcache_replaced_blocks']} were replaced there")
    return count


def fill(made, geo):
    with made.blk() as dev:
        for at in range(0, geo.logical, CHUNK):
            n = min(CHUNK, geo.logical - at)
            dev.write(at, b"".join(bytes(4088) + (at + i).to_bytes(8, "little")
                                   for i in range(n)))


def run(ctx, geo):
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()
    cache = geo.cache * geo.band
    device.message("commit")
    before = cleared(made)
    fill(made, geo)
    device.message("commit")
    count = agree(made, before, "fill")
    fill_steps, fill_writes = count["steps"], count["clean_write_blocks"]
    if ctx.target.streams:
        expect(not fill_steps and not count["clean_write_blocks"],
               f"a sequential fill was cleaned: {fill_steps} steps")
        expect(not count["cached_blocks"], "blocks were left in a cache")

    rng = random.Random(5)
    before, newest = cleared(made), {}
    with made.blk() as dev:
        for i in range(3 * cache):
            at = rng.randrange(geo.logical)
            newest[at] = i + 1
            dev.write(at, (i + 1).to_bytes(8, "little") + bytes(4088))
    device.message("commit")
    agree(made, before, "random")
    raised = made.bypassed()
    device.message("clean")
    device.message("checkpoint")
    count = agree(made, before, "random, all cleaned")
    expect(count["journal_blocks"] and count["checkpoint_blocks"],
           "no metadata were written")
    expect(not count["cached_blocks"], "clean has left blocks in a cache")
    made.verify()
    with made.blk() as dev:
        for at in range(geo.logical):
            block = dev.read(at)
            expect(block[:8] == newest.get(at, 0).to_bytes(8, "little") and
                   (at in newest or block[-8:] == at.to_bytes(8, "little")),
                   f"block {at} is not what was written")
    made.close()
    made.check()
    return {"fill_steps": fill_steps, "fill_clean_blocks": fill_writes,
            "random_steps": count["steps"], **raised,
            "amplification": round(1 + count["clean_write_blocks"] /
                                   count["host_write_blocks"], 2)}


# A band of 40 MiB with CACHED single blocks in the cache.
COST = Geometry("cost", band=10240, data=1, cache=1, meta="separate", ckpt=32, journal=48)
CACHED = 100


def by_kind(events, cache, areas):
    """Return {(R or W, area): blocks} of traced events."""
    out, staging = Counter(), areas.get("staging", ("", 0, 0))
    for device, event in events:
        letter, _, where = event.partition(" ")
        if not where:
            continue            # a flush
        at, n = map(int, where.split("+"))
        kind = "metadata" if device == "meta" else "cache" if at in cache else \
            "staging" if device == staging[0] and 0 <= at - staging[1] < staging[2] else "home"
        out[letter[0], kind] += n
    return out


def cleaned(game, blocks):
    """Write these blocks, and measure the cost of cleaning them."""
    device, tracer, cache = game.stack.device, game.tracer, set()
    for at, n in blocks:
        game.dev.write(at, os.urandom(4096) * n)
    device.message("commit")
    for _, event in tracer.take():
        where = event.partition(" ")[2]
        if where:
            at, n = map(int, where.split("+"))
            cache.update(range(at, at + n))
    before = stats(device)
    device.message("clean")
    now = stats(device)
    cost = by_kind([e for e in tracer.take() if e[1][0] in "RW"], cache,
                   game.stack.target.areas(game.stack.geo))
    count = {name: now[name] - before[name] for name in now if name in before}
    expect(count["bands_cleaned"] == 1 and not now["cached_blocks"],
           f"{count['bands_cleaned']} bands cleaned, {now['cached_blocks']} blocks left")
    for letter, name in (("R", "clean_read_blocks"), ("W", "clean_write_blocks")):
        moved = sum(n for (way, kind), n in cost.items() if way == letter and kind != "metadata")
        expect(moved == count[name], f"{moved} blocks seen, {count[name]} said: {name}")
    expect(cost["W", "metadata"] == sum(count[name] for name in METADATA),
           f"{cost['W', 'metadata']} blocks of metadata seen, not what is said")
    return cost


def band_cost(ctx, geo):
    """Clean one band that was never written, that is cached in part, and that is cached as a
    whole; compare blocks read and written, by area."""
    game = exact.Play(ctx, geo)
    always = dict(geo.options)["read_home"] == "always"
    staged = "staging" in ctx.target.areas(geo) and "inplace" not in geo.features
    half = geo.band // 2
    some = [(1 + 101 * i, 1) for i in range(CACHED)]
    # Not in order, or a stream would write it in place.
    whole = [(at, CHUNK) for first in (half, 0) for at in range(first, first + half, CHUNK)]
    notes = {}
    try:
        game.tracer = exact.Tracer(game.names, {}, {})     # as areas() counts
        for what, blocks, home in (("new", some, always), ("part", some, True),
                                   ("whole", whole, always)):
            want = Counter({("R", "home"): home * geo.band, ("W", "home"): geo.band,
                            ("R", "cache"): sum(n for _, n in blocks),
                            ("R", "staging"): staged * geo.band,
                            ("W", "staging"): staged * geo.band})
            cost = cleaned(game, blocks)
            notes[what] = " ".join(f"{way} {kind} {n}" for (way, kind), n in sorted(cost.items()))
            meta = cost.pop(("W", "metadata"), 0)
            expect(meta and +cost == +want, f"{what}: {notes[what]}, not {dict(+want)}")
    finally:
        if game.tracer:
            game.tracer.close()
        game.close()
    return notes


def costs(target):
    for home in ("needed", "always"):
        for features in ((),) + (("inplace",),) * ("inplace" in target.features):
            geo = COST.but(features=features, options=(
                ("read_home", home), ("commit_ms", 0), ("idle_ms", 0)))
            yield (f"a cleaned band, {' '.join((home, *features))}",
                   lambda ctx, g=geo: band_cost(ctx, g))


def idle(ctx, geo):
    """Without requests, idle cleaning leaves nothing to clean."""
    made = stack(ctx.pool, ctx.target, geo.but(options=(("idle_ms", 100),)))
    device = made.open()
    with made.blk() as dev:
        for at in range(1, geo.logical, 7):
            dev.write(at, bytes(4096))
            if at > geo.cache * geo.band:
                break
    until(lambda: not stats(device)["cached_blocks"],
          "blocks are away from home when idle")
    count = stats(device)
    made.close()
    return {"steps": count["steps"]}


LOADS = os.path.join(bench.TOP, "scripts/loads/run")


def loads(*argv, ok=(0,)):
    """Run scripts/loads/run; return its output, as JSON if its status is 0."""
    _, out = bench.run(LOADS, *argv, ok=ok)
    return json.loads(out) if 0 in ok else out


def agrees(said, load, layer):
    """Compare the report of a replay with the load and with the layer's counters."""
    expect(said["responses"]["all"]["requests"] == load["requests"] == said["requests"],
           f"{said['responses']['all']['requests']} requests of {load['requests']}")
    for kind, row in said["responses"].items():
        expect(0 < row["p50_ms"] <= row["p99_ms"] <= row["worst_ms"] and
               row["mean_ms"] <= row["worst_ms"], f"{kind}: {row}")
    change = {name: now - said["before"][layer][name]
              for name, now in said["after"][layer].items()}
    for name, want in (("host_write_blocks", "written_bytes"),
                       ("host_read_blocks", "read_bytes")):
        more = said["added_reads"] if "read" in name else 0
        expect(change[name] * 4096 == load[want] + 4096 * more,
               f"{name}: {change[name]}, the load has {load[want] // 4096} and {more}")
    expect(said["written_below_times"] >= 1, f"{said['written_below_times']} of what was "
           "written reached the medium")


def replayed(ctx, geo):
    """Generate a load like that of a trace, and replay it over a medium that destroys, as fast as
    possible and as recorded; replay must refuse a device with other contents."""
    if not os.path.exists("/usr/bin/fio"):
        raise bench.Skip("no fio")
    if ctx.target.gathers:
        # Data left in its write cache would not have reached the medium.
        geo = geo.but(options=(*geo.options, ("wcache", "off")))
    made = media.stack(ctx, geo, ctx.target.medium)
    path, name = made.open().path, made.device.name
    size, cache = 4096 * geo.logical, f"{4 * geo.cache * geo.band}K"
    with tempfile.TemporaryDirectory() as folder:
        csv = os.path.join(folder, "load.csv")
        load = loads("generate", "proj_0", "--cache-size", cache, "--size", size,
                     "--requests", 300, "--rate", 1000, "--out", csv, "--json")["measured"]
        agrees(loads("replay", csv, path, "--fill", "--json"), load, name)
        said = loads("replay", csv, path, "--depth", 4, "--speed", 1, "--json")
        agrees(said, load, name)
        # Delays of the host can only lengthen it; the log has whole milliseconds.
        expect(said["seconds"] > said["due_seconds"] - .01,
               f"{said['seconds']} s, the load has {said['due_seconds']}")
        with made.blk() as dev:
            what = dev.read(0)
            dev.write(0, b"SHSB" + bytes(4092))
            out = loads("replay", csv, path, ok=(2,))
            expect(out == f"loads: {path} holds a shingled layer (shingle check tells more); "
                   "--force overwrites it\n", f"it says: {out}")
            dev.write(0, what)
        fd = os.open(path, os.O_RDWR | os.O_EXCL)
        out = loads("replay", csv, path, "--force", ok=(2,))
        os.close(fd)
        expect(out.startswith(f"loads: {path} is in use"), f"it says: {out}")
    made.verify()
    media.judge(made)
    made.close()
    made.check()
    return {"written_below_times": said["written_below_times"]}


def cases(target, _options):
    out = [(f"counters {geo.name}", lambda ctx, geo=geo: run(ctx, geo))
           for geo in target.geometry("counters")]
    out += [("a load replayed", lambda ctx, geo=geo: replayed(ctx, geo))
            for geo in target.geometry("fio-platter")[:1]]
    if any(key == "read_home" for key, _ in target.keys):
        out += costs(target)
    if target.cleans_when_idle:
        out += [(f"idle {geo.name}", lambda ctx, geo=geo: idle(ctx, geo))
                for geo in target.geometry("counters")[:1]]
    return out
