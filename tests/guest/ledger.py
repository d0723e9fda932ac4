# SPDX-License-Identifier: GPL-2.0
"""Two ledgers: what a layer says it did, and what the device below counted.

A sequential fill, then uniform random overwrites, cleaning of everything and a
look at every block: the blocks that the data device was written and read are
those that the layer's counters say, to the block; where metadata lie on the same
device, they are in the account."""

import os
import random
import time

from bench import expect, until
from blk import SECTORS
from targets import stack

CHUNK = 64      # blocks of a sequential write
METADATA = ("journal_blocks", "checkpoint_blocks", "superblock_blocks")


def below(made):
    """Blocks read from and written to the data device."""
    name = os.path.basename(os.path.realpath(made.paths["data"]))
    with open(f"/sys/block/{name}/stat", encoding="ascii") as handle:
        words = handle.read().split()
    return int(words[2]) // SECTORS, int(words[6]) // SECTORS


def stats(device):
    pairs = (line.split() for line in device.message("stats").splitlines())
    return {k: int(v) for k, v in pairs if v.isdigit()}


def agree(made, before, what):
    """The ledgers since `before`; returns the layer's own."""
    made.device.message("commit")       # what is in the write cache, too
    for _ in range(600):
        now, count = below(made), stats(made.device)
        reads = count["host_read_blocks"] - count["wcache_hits_blocks"] + \
            count["clean_read_blocks"]
        writes = count["host_write_blocks"] - count["wcache_write_blocks"] + \
            count["wcache_destage_blocks"] + count["clean_write_blocks"]
        if made.geo.meta == "same":
            writes += sum(count[name] for name in METADATA)
        if now[1] - before[1] == writes:
            break
        time.sleep(0.05)        # a checkpoint may be on its way
    expect(now[1] - before[1] == writes,
           f"{what}: {now[1] - before[1]} blocks written below, {writes} said")
    expect(now[0] - before[0] == reads,
           f"{what}: {now[0] - before[0]} blocks read below, {reads} said")
    expect(not count["r0_violations"], f"{what}: R0 was violated")
    kinds = [v for name, v in count.items()
             if name.startswith("step_") and name.endswith("_us")]
    expect(kinds and sum(kinds) == count["clean_us"], f"{what}: steps of {kinds} us, "
                                            f"together {count['clean_us']} us")
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
    device.message("stats_clear")
    before = below(made)
    fill(made, geo)
    device.message("commit")
    count = agree(made, before, "fill")
    fill_steps, fill_writes = count["steps"], count["clean_write_blocks"]
    if ctx.target.streams:
        expect(not fill_steps and not count["clean_write_blocks"],
               f"a sequential fill was cleaned: {fill_steps} steps")
        expect(not count["cached_blocks"], "blocks were left in a cache")

    rng = random.Random(5)
    device.message("stats_clear")
    before, newest = below(made), {}
    with made.blk() as dev:
        for i in range(3 * cache):
            at = rng.randrange(geo.logical)
            newest[at] = i + 1
            dev.write(at, (i + 1).to_bytes(8, "little") + bytes(4088))
    device.message("commit")
    count = agree(made, before, "random")
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
            "random_steps": count["steps"],
            "amplification": round(1 + count["clean_write_blocks"] /
                                   count["host_write_blocks"], 2)}


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


def cases(target, _options):
    out = [(f"ledger {geo.name}", lambda ctx, geo=geo: run(ctx, geo))
           for geo in target.geometry("ledger")]
    if target.cleans_when_idle:
        out += [(f"idle {geo.name}", lambda ctx, geo=geo: idle(ctx, geo))
                for geo in target.geometry("ledger")[:1]]
    return out
