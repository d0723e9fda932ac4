# SPDX-License-Identifier: GPL-2.0
"""The guest's part of regions, with the virtual clock: one experiment, see stack.py.
"""

import random
import sys

from loads import generate

from experiments.in_guest import stack as stacks
from experiments.in_guest.stack import BLOCK, bench, blk, load, media, now

STREAM = 256            # blocks of one request
UNDER_WAY = 4           # requests in flight at most


def in_stretches(dev, first, n, write, region):
    """Return the seconds for @n blocks in order; with @region a region begins only when the one
    before is done."""
    queue, text = blk.Aio(dev, UNDER_WAY), b"\1" * STREAM * BLOCK
    begin, at, end = now(), first, first + n
    while at < end:
        stop = min(end, (at // region + 1) * region) if region else end
        while at < stop or queue.flying:
            while at < stop and queue.flying < UNDER_WAY:
                size = min(STREAM, stop - at)
                if write:
                    queue.write(at, text[:size * BLOCK], at)
                else:
                    queue.read(at, size, at)
                at += size
            for token, result, _ in queue.reap():
                bench.expect(result > 0, f"request at block {token}: {result}")
    if write:
        dev.flush()
    took = now() - begin
    queue.close()
    return took


def stream(stack, words):
    """Return sequential speeds in bytes/s: of writes into new regions, and of reads after cleaning
    them; with one region at a time, and with requests in flight to several adjacent regions."""
    out, region = {}, stack.region
    n = max(1, words["mib"] * 256 // region) * region
    rng = random.Random(1)
    with blk.opened(stack.path) as dev:
        for name, alone in (("alone", region), ("together", 0)):
            first = 0 if alone else -(-n // region) * region
            stack.clear()
            out[name] = {"write": n * BLOCK / in_stretches(dev, first, n, True, alone)}
            # Overwrite a part of each region until it was cleaned.
            for at in range(first, first + n, region):
                for _ in range(1 + stack.words["rows"] * stack.words["columns"] - region):
                    dev.write(at + rng.randrange(region), b"\2" * BLOCK)
            dev.flush()
            stack.layer.message("clean")
            out[name]["cleans"] = stack.both()[0]["tiler_cleans"]
            out[name]["regions"] = n // region
            out[name]["read"] = n * BLOCK / in_stretches(dev, first, n, False, alone)
    return out


def beside(words, seed):
    """Yield blocks of a region; the first ones are hot, so cleaning puts them side by side."""
    rng, live = random.Random(seed), words["live"]
    hot = max(1, live * words["hot"] // 100)
    for _ in range(words["writes"]):
        yield rng.randrange(hot) if rng.random() < .9 else rng.randrange(hot, live)


def valid(stack, words):
    """Keep words["live"] blocks of some regions valid and write them at random, beginning with
    empty regions.  @each: one region after another, each write durable at once, and no write during
    a cleaning, because blocks written then need not be copied."""
    regions, region = words["regions"], stack.region
    text, writes, steps = b"\1" * BLOCK, 0, 0
    stack.clear()
    with blk.opened(stack.path) as dev:
        for i in range(regions if words["each"] else 1):
            n = 1 if words["each"] else regions
            of = generate.regions(n * region, region, words["live"], words["seed"] + i, 100,
                                  words["writes"] / region, words["hot"], filled=True)
            of = list(beside(words, words["seed"] + i)) if words.get("beside") else \
                of.first.tolist()
            writes += len(of)
            for at in of:
                dev.write(i * region + at, text)
                if not words["each"]:
                    continue
                dev.flush()
                now_steps = media.stats(stack.layer)["steps"]
                if words["whole"] and now_steps != steps:
                    stack.layer.message("clean")
                    now_steps = media.stats(stack.layer)["steps"]
                steps = now_steps
            if words["each"]:
                # Make all of the region invalid, so that nothing of it is copied any more.
                dev.discard(i * region, region)
        dev.flush()
    return {"writes": writes}


def full(stack, words):
    """Write the whole device, then random blocks; check the contents at the end."""
    rng, blocks = random.Random(words["seed"]), stack.blocks
    version = [1] * blocks

    def text(at):
        return (at * 1000003 + version[at]).to_bytes(8, "little") * (BLOCK // 8)

    with blk.opened(stack.path) as dev:
        for at in range(0, blocks, STREAM):
            dev.write(at, b"".join(text(b) for b in range(at, min(blocks, at + STREAM))))
        stack.clear()
        for _ in range(words["writes"]):
            at = rng.randrange(blocks)
            version[at] += 1
            dev.write(at, text(at))
        dev.flush()
        wrong = 0
        for at in range(0, blocks, STREAM):
            n = min(STREAM, blocks - at)
            wrong += dev.read(at, n) != b"".join(text(b) for b in range(at, at + n))
    return {"writes": words["writes"], "blocks": blocks, "wrong": wrong}


if __name__ == "__main__":
    sys.exit(stacks.main({"load": load, "stream": stream, "valid": valid, "full": full}))
