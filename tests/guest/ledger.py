# SPDX-License-Identifier: GPL-2.0
"""Two ledgers: what a layer says it did, and what the device below counted.

A sequential fill, then uniform random overwrites, cleaning of everything and a
look at every block: the blocks that the data device was written and read are
those that the layer's counters say, to the block; where metadata lie on the same
device, they are in the account.  And what one cleaned band costs, by kind; and what
scripts/loads says of a load that it has replayed."""

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter

import bench
import exact
import media
from bench import expect, until
from blk import SECTORS
from media import stats
from targets import Geometry, stack

CHUNK = 64      # blocks of a sequential write
METADATA = ("journal_blocks", "checkpoint_blocks", "superblock_blocks")
PAGES = ("map_page_reads", "map_page_writes")


def counters(made):
    """{device: what the kernel has counted of it}"""
    out = {}
    for which, path in made.paths.items():
        name = os.path.basename(os.path.realpath(path))
        with open(f"/sys/block/{name}/stat", encoding="ascii") as handle:
            out[which] = [int(word) for word in handle.read().split()]
    return out


def below(made):
    """{device: blocks read from it and written to it}"""
    out = {which: (words[2] // SECTORS, words[6] // SECTORS)
           for which, words in counters(made).items()}
    # A layer does not say on which of them a block was.
    if "cache" in out:
        out["data"] = tuple(map(sum, zip(out["data"], out.pop("cache"))))
    return out


def said(made, count):
    """The same, as the layer has counted it."""
    reads = count["host_read_blocks"] - count["wcache_hits_blocks"] + count["clean_read_blocks"]
    writes = count["host_write_blocks"] - count["wcache_write_blocks"] + \
        count["wcache_destage_blocks"] + count["clean_write_blocks"]
    meta_reads, meta_writes = (count.get(name, 0) for name in PAGES)
    meta_writes += sum(count[name] for name in METADATA)
    if made.geo.meta == "same":
        return {"data": (reads + meta_reads, writes + meta_writes)}
    return {"data": (reads, writes), "meta": (meta_reads, meta_writes)}


def cleared(made):
    """below(), from where on the layer counts, too: nothing was under way meanwhile."""
    def quiet():
        before = counters(made)
        now = below(made)
        made.device.message("stats_clear")
        still = before == counters(made) and not any(words[8] for words in before.values())
        return still and (now,)
    return until(quiet, "the layer works on and on")[0]


def agree(made, before, what):
    """The ledgers since `before`; returns the layer's own."""
    made.device.message("commit")       # what is in the write cache, too
    for _ in range(600):
        now, count = below(made), stats(made.device)
        ours = said(made, count)
        seen = {which: tuple(new - old for new, old in zip(now[which], before[which]))
                for which in ours}
        if seen == ours:
            break
        time.sleep(0.05)        # a checkpoint or a step may be on its way
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


# A band of 40 MiB; of its blocks so many are cached, no two of them neighbours.
COST = Geometry("cost", band=10240, data=1, cache=1, meta="separate", ckpt=32, journal=48)
CACHED = 100


def by_kind(events, cache, areas):
    """{(R or W, what was there): blocks} of traced events."""
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
    """Writes these blocks; what does it cost to bring them home?"""
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
    """One band, cleaned when it was never written, when part of it is cached and when
    all of it is: blocks read and written, by what was there."""
    game = exact.Play(ctx, geo)
    always = dict(geo.options)["read_home"] == "always"
    staged = "staging" in ctx.target.areas(geo) and "inplace" not in geo.features
    half = geo.band // 2
    some = [(1 + 101 * i, 1) for i in range(CACHED)]
    # Not in order, or it would be home where there are streams.
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
    """Nothing to do but wait: then nothing is left to clean."""
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
    """scripts/loads/run; what it prints, as JSON if it says that all is well."""
    _, out = bench.run(sys.executable, LOADS, *argv, ok=ok)
    return json.loads(out) if 0 in ok else out


def agrees(said, load, layer):
    """What a replay says, with what the load is, and the layer's counters."""
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
    """A load like a trace's, over a medium that destroys: generated, and replayed as fast
    as it goes and as it was recorded; not where something else is."""
    if not os.path.exists("/usr/bin/fio"):
        raise bench.Skip("no fio")
    if ctx.target.gathers:
        # What its write cache held at the end would not have reached the medium.
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
        # Host's time may only make it longer; the log has whole milliseconds.
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
    out = [(f"ledger {geo.name}", lambda ctx, geo=geo: run(ctx, geo))
           for geo in target.geometry("ledger")]
    out += [("a load replayed", lambda ctx, geo=geo: replayed(ctx, geo))
            for geo in target.geometry("fio-platter")[:1]]
    if any(key == "read_home" for key, _ in target.keys):
        out += costs(target)
    if target.cleans_when_idle:
        out += [(f"idle {geo.name}", lambda ctx, geo=geo: idle(ctx, geo))
                for geo in target.geometry("ledger")[:1]]
    return out
