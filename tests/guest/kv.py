# SPDX-License-Identifier: GPL-2.0
"""The key-value store over a layer, with bands as long as the layer's: it returns what it was
given, and after a power cut all synced data are there. The test counts what the layer had to clean,
and checks the count where the store writes bands in streams for it."""

import json
import os
import random

from guest import dm
from guest import media
from guest import replay
from guest.bench import TOP, Failure, expect, run
from guest.blk import SECTORS
from guest.logwrites import FLUSH, FUA
from guest.targets import Geometry, stack

KV = os.path.join(TOP, "build/userspace/kv")
KIB = 1 << 10
# Bands of 256 KiB; tracks of 64 KiB.
SHAPES = {
    "imr": {"band": 16, "data": 768, "cache": 16, "ckpt": 64, "journal": 64},
    "": {"band": 64, "data": 192, "cache": 12, "ckpt": 64, "journal": 64},
}


def shape(target, **more):
    return Geometry("kv", **{**SHAPES.get(target.name, SHAPES[""]), **more})


def load(path, pairs, *options):
    """Put the pairs in this order."""
    with open("/tmp/kv.load", "w", encoding="ascii") as f:
        f.writelines(f"{key}\t{value}\n" for key, value in pairs)
    run(KV, "load", *options, path, "/tmp/kv.load")


def all_of(path, *options):
    _, out = run(KV, "scan", *options, path)
    return dict(line.split("\t") for line in out.splitlines())


def pairs_of(rng, n, keys=1 << 30):
    return [(f"k{rng.randrange(keys):010}", f"{rng.getrandbits(64):016x}" * 60)
            for _ in range(n)]


def whole(ctx, organisation):
    """Load, delete and scan three times, compact and check: the store always returns exactly the
    pairs that it was given, and its bands are multiples of the layer's."""
    rng = random.Random(1)
    made = stack(ctx.pool, ctx.target, shape(ctx.target, options=(
        (("bypass_blocks", 16),) if "bypass_blocks" in dict(ctx.target.keys) else ())))
    made.open()
    path = made.device.path
    _, out = run(KV, "format", "--organisation", organisation, path)
    band = int(json.loads(run(KV, "stats", "--json", path)[1])["band_bytes"])
    expect(f"because of the bands of {ctx.target.name} below" in out, f"it says: {out}")
    expect(band % (made.geo.band * 4096) == 0, f"bands of {band} bytes")
    there = {}
    for _ in range(3):
        pairs = pairs_of(rng, 4000, 6000)
        there.update(pairs)
        load(path, pairs, "--batch", 50)
        for key in rng.sample(sorted(there), 5):
            run(KV, "delete", path, key)
            del there[key]
        expect(all_of(path) == there, "it does not give back what it was given")
    run(KV, "compact", path)
    expect(all_of(path) == there, "compaction has changed something")
    run(KV, "check", path)
    made.verify()
    stats = media.stats(made.device)
    made.close()
    made.check()
    return {k: v for k, v in stats.items() if v and k.startswith((
        "bands_cleaned", "host_", "discard", "bypassed", "clean_", "imr_epochs", "imr_tier",
        "streams"))}


def offload_bands(path, spare):
    """Return the number of bands in use on the offload device."""
    of = json.loads(run(KV, "stats", "--json", "--offload", spare, path)[1])
    return of["offload_bands"] - of["offload_bands_free"]


def offloads(ctx):
    """With an offload device (a file in memory): the store finds data that it has written there, a
    scan without the device fails, and a compaction moves all of them to the layer."""
    rng = random.Random(1)
    made = stack(ctx.pool, ctx.target, shape(ctx.target))
    made.open()
    path, spare = made.device.path, "/tmp/kv.spare"
    with open(spare, "wb") as f:
        f.truncate(16 << 20)
    run(KV, "format", "--organisation", "buffered", path)
    run(KV, "offload", path, spare)
    there, most = {}, 0
    for _ in range(4):
        pairs = pairs_of(rng, 4000, 6000)
        there.update(pairs)
        load(path, pairs, "--offload", spare, "--batch", 50)
        most = max(most, offload_bands(path, spare))
        expect(all_of(path, "--offload", spare) == there,
               "it does not give back what it was given")
    if most:
        expect(run(KV, "scan", path, ok=None)[0], "it is read without its offload device")
    run(KV, "check", "--offload", spare, path)
    run(KV, "compact", "--offload", spare, path)
    expect(not offload_bands(path, spare), "something is left on the offload device")
    expect(all_of(path) == there, "without its offload device it is another one")
    run(KV, "check", path)
    made.verify()
    made.close()
    made.check()
    os.unlink(spare)
    ctx.note(f"up to {most} bands on the offload device")
    expect(most, "nothing was offloaded")
    return {"offload_bands": most}


def for_streams(target):
    """Return options of a layer that gets bands in streams."""
    keys = dict(target.keys)
    if "bypass_blocks" in keys:
        return (("bypass_blocks", 16),)
    # Idle cleaning would clean a band before the stream has filled it.
    return (("cleaning", "lazy"),) if "cleaning" in keys else ()


def streams(ctx, organisation):
    """The store writes its bands in streams: by its counters the layer hardly cleans, and more than
    90 % of the blocks go to their final places at once."""
    rng = random.Random(1)
    made = stack(ctx.pool, ctx.target, shape(ctx.target, options=for_streams(ctx.target)))
    made.open()
    path = made.device.path
    run(KV, "format", "--organisation", organisation, path)
    there = {}
    for _ in range(3):
        pairs = pairs_of(rng, 4000, 6000)
        there.update(pairs)
        load(path, pairs, "--stream", "--batch", 50)
        expect(all_of(path) == there, "it does not give back what it was given")
    run(KV, "compact", "--stream", path)
    expect(all_of(path) == there, "compaction has changed something")
    run(KV, "check", path)
    stats = media.stats(made.device)
    made.verify()
    made.close()
    made.check()
    ctx.note(f"{stats['bands_cleaned']} bands cleaned, {stats['streams_broken']} streams broken")
    # stl-set cleans the few bands of the region that is written at random; without streams, more
    # than 300.  A full log of stl-full holds nothing of that region.
    expect(stats["bands_cleaned"] <= (24 if "bypassed_blocks" in stats else 0),
           f"{stats['bands_cleaned']} bands cleaned")
    spared = stats["bypassed_blocks"] if "bypassed_blocks" in stats else \
        stats["bands_switched"] * made.geo.band
    expect(spared > stats["host_write_blocks"] * .9,
           f"only {spared} of {stats['host_write_blocks']} blocks are where they belong at once")
    return {k: stats[k] for k in ("bands_cleaned", "streams_broken", "host_write_blocks",
                                  "bypassed_blocks", "bands_switched") if k in stats}


def record(recorder, rng, rounds, *options):
    """Put and delete, with a promise after each round; return the expected state after each round.
    """
    path, states = recorder.stack.device.path, [{}]
    run(KV, "format", path)
    for number in range(1, rounds + 1):
        there = dict(states[-1])
        if number % 4 == 3:
            gone = rng.choice(sorted(there))
            run(KV, "delete", "--sync", *options, path, gone)
            del there[gone]
        else:
            pairs = sorted(dict(pairs_of(rng, rng.randrange(1, 40), 90)).items())
            load(path, pairs, "--sync", "--batch", 5, *options)
            there.update(pairs)
        if number % 7 == 0:
            run(KV, "compact", *options, path)
        states.append(there)
        recorder.mark(number)
    return states


def wrongs(states, mark, found):
    """Return a sentence for each key that holds neither what was promised at @mark nor what the
    round after it, which may have been in flight, wrote."""
    may = [states[mark], states[min(mark + 1, len(states) - 1)]]
    return [f"after promise {mark}, {key} is {(found.get(key) or 'not there')[:16]}"
            for key in sorted({*found, *may[0]})
            if found.get(key) not in [state.get(key) for state in may]]


def try_cut(player, states, image, mark, tally, what, *options):
    tally.points += 1
    player.load(image)
    made, wrong = player.stack, []
    try:
        made.check()
        made.open()
        path = made.device.path
        wrong = wrongs(states, mark, all_of(path))
        # Reading has changed nothing; opening it to write recovers.
        run(KV, "put", "--sync", *options, path, "later", "on")
        found = all_of(path)
        if found.pop("later", None) != "on":
            wrong.append("a key that was put after the cut is not there")
        wrong += ["opened to write, " + w for w in wrongs(states, mark, found)]
        # Opening has repaired what the cut tore.
        run(KV, "check", path)
        made.verify()
        made.close()
        made.check()
    except (Failure, OSError) as error:
        wrong = [replay.violation(error)]
        made.close()
    if wrong:
        tally.wrong(what, wrong)


def whole_bands(ctx, device):
    """Expect that streams to a layer with spare room caused no further work."""
    stats = media.stats(device)
    if ctx.target.name == "imr":
        # Fewer than half of the tracks are in use: bottoms beside free tops suffice.
        expect(stats["imr_rewrites"] == 0, f"{stats['imr_rewrites']} tops rewritten")
        return {"imr_epochs": stats["imr_epochs"]}
    begun = max(b["id"] for b in json.loads(run(KV, "dump", "--json", device.path)[1])["used"])
    expect(stats["bands_cleaned"] == 0, f"{stats['bands_cleaned']} bands cleaned")
    # With streams most bands stay where they were written, except those interrupted by the band
    # table; without streams none does.
    expect(stats["bands_switched"] > begun * .75,
           f"of {begun} bands only {stats['bands_switched']} were left where they were written")
    return {"bands_begun": begun, "bands_switched": stats["bands_switched"]}


def cuts(ctx, rounds, points, *options):
    """Cut the power at flushes, with all and with a part of the data not flushed.
    @options: of the commands that write."""
    rng = random.Random(3)
    geo = shape(ctx.target, data=96, options=for_streams(ctx.target)) if options else \
        shape(ctx.target, band=16, data=96, cache=8, ckpt=32)
    recorder = replay.Recorder(ctx, geo, 64 * 1024)
    states = record(recorder, rng, rounds, *options)
    stats = whole_bands(ctx, recorder.stack.device) if options else {}
    log = recorder.finish()
    disk = replay.medium(ctx, geo, log, recorder.blocks, rng)
    disk.solid[:] = recorder.before
    player = replay.Player(ctx, geo, recorder.blocks)
    tally = replay.Tally(5)
    ends = sum(bool(e.flags & (FLUSH | FUA)) for e in log.entries)
    share = points / 2 / ends
    for i, entry in enumerate(log.entries):
        chosen = disk.mark and entry.flags & (FLUSH | FUA) and rng.random() < share
        if chosen and disk.pending:
            kept = {i for i in range(len(disk.pending)) if rng.random() < .5}
            try_cut(player, states, disk.image(lambda i: i in kept), disk.mark, tally,
                    f"before entry {i} ({entry.show()})", *options)
        disk.apply(entry)
        if chosen:
            try_cut(player, states, disk.image(lambda _: True), disk.mark, tally,
                    f"after entry {i} ({entry.show()})", *options)
    player.close()
    log.close()
    ctx.note(f"{rounds} promises, {len(log.entries)} log entries, {ends} flushes, "
             f"{tally.points} crash points, {tally.lost} violations")
    if tally.lost:
        raise Failure(tally.text())
    expect(tally.points > points / 4, f"only {tally.points} crash points")
    return {"points": tally.points, "promises": rounds, "lost": 0,
            "entries": len(log.entries), "seed": 3, **stats}


def placed(ctx, made, table):
    """Return {level: [tracks of its tables on bottoms, on tops]} of a closed stack."""
    track, lies = made.geo.band, ctx.target.lies(made.paths, made.geo)
    out = {}
    for band in table["used"]:
        first, end = band["offset"] // 4096, (band["offset"] + band["bytes"]) // 4096
        for block in range(first, end, track) if band["kind"] == "table" else ():
            out.setdefault(band["level"], [0, 0])[lies[block][1] // track % 2] += 1
    return out


def leveled(ctx, organisation, told):
    """Fill and compact a store, then add to it, on imr itself or on a device over it, which hides
    the levels from the store; return counters and the places of tables.  Each tier has room for all
    data."""
    rng = random.Random(1)
    made = stack(ctx.pool, ctx.target, shape(ctx.target), name="told" if told else "untold")
    made.open()
    device = made.device if told else dm.linear(
        "over", [(made.device.path, 0, made.geo.logical * SECTORS)])
    run(KV, "format", "--organisation", organisation, "--band",
        f"{12 * made.geo.band * 4}K", device.path)
    there = {}
    for n in (4000, 4000, 0, 1500):
        if not n:
            run(KV, "compact", device.path)
        pairs = pairs_of(rng, n, 6000)
        there.update(pairs)
        load(device.path, pairs, "--batch", 50)
    # This moves the contents of logs to a table.
    run(KV, "put", device.path, "last", "one")
    there["last"] = "one"
    expect(all_of(device.path) == there, "it does not give back what it was given")
    table = json.loads(run(KV, "dump", "--json", device.path)[1])
    stats = media.stats(made.device)
    if not told:
        device.remove()
    made.verify()
    made.close()
    made.check()
    places = placed(ctx, made, table)
    ctx.note(f"{'' if told else 'not '}told: tracks on bottoms and tops {places}, allocated "
             f"{stats['imr_bottoms_allocated']}, {stats['imr_tops_allocated']}")
    expect(len(places) == 2 and 0 in places, f"levels {sorted(places)}")
    expect(stats["imr_tier_misses"] == 0, "a tier has no room left")
    return stats, places[0], places[max(places)]


def levels(ctx, organisation):
    """With levels the disk places the largest one on bottoms, and the other, which is compacted
    soon, on tops; without, both go to bottoms, as all whole tracks do as long as there is room."""
    told, soon, last = leveled(ctx, organisation, True)
    untold, anywhere, _ = leveled(ctx, organisation, False)
    expect(soon[0] == 0 and soon[1] > 16, f"of level 0 {soon} on bottoms and tops")
    expect(last[1] == 0 and last[0] > 64, f"of the largest level {last} on bottoms and tops")
    expect(anywhere[0] > anywhere[1], f"not told, of level 0 {anywhere} on bottoms and tops")
    # Whole tracks without a level get no top.
    expect(untold["imr_tops_allocated"] == untold["imr_partial_tops"],
           f"not told, {untold['imr_tops_allocated']} tops, {untold['imr_partial_tops']} of parts")
    whole = told["imr_tops_allocated"] - told["imr_partial_tops"]
    expect(whole >= soon[1], f"told, only {whole} tops for what is no part")
    return {f"{name}_{kind}": stats[f"imr_{kind}_allocated"] for kind in ("bottoms", "tops")
            for name, stats in (("told", told), ("untold", untold))}


def cases(target, options):
    points = int(options.get("points", 60))
    return [*((f"all of it, {o}", lambda ctx, o=o: whole(ctx, o))
              for o in ("soc", "loc", "buffered")),
            ("offload, buffered", offloads),
            *((f"streams, {o}", lambda ctx, o=o: streams(ctx, o)) for o in ("soc", "loc")
              if target.name in ("stl-set", "stl-full")),
            *((f"levels, {o}", lambda ctx, o=o: levels(ctx, o)) for o in ("soc", "loc")
              if target.name == "imr"),
            ("power cuts", lambda ctx: cuts(ctx, 30, points)),
            *[("power cuts, streams", lambda ctx: cuts(ctx, 30, 4 * points, "--stream"))] *
            (target.name in ("stl-full", "imr"))]
