# SPDX-License-Identifier: GPL-2.0
"""Compare tracepoints with the statistics and logs of the same devices, and with known operations.

 media    every access is in the head log, with its place and its time; each write
          destroyed the blocks that a second model of the head predicts, and no others
 destage  each reason for which a drive writes its write cache
 layer    steps, placements, destages and commits of a translation layer, by the names of
          kinds, reasons and roles; blocks lie where the layout has them
 recipes  scripts/trace/shingle-trace and the output of its recipes
 hist     the kernel's histogram triggers, if it has them

Durations are the drive's own: for the virtual clock; names are tested with any clock.
"""

import contextlib
import os
import random
import re

from guest import blk
from guest import media
from guest.bench import TOP, Skip, expect, run, until
from guest.events import TRACING, Ring, mounted, tell
from guest.targets import Geometry
from guest.torn import Plate, ruined

TRACE = os.path.join(TOP, "scripts/trace/shingle-trace")
PLATE = Geometry("plate", band=16, track=16, head=3, skew=5)
TRACKS = 24
LETTERS = {"read": "r", "write": "w", "destage": "d", "cache-write": "c", "cache-read": "h",
           "lookahead": "a"}
MEDIUM = ("read", "write", "destage")
# As in tracing.rst.
TRIGGERS = {
    "platter/platter_media": "hist:keys=op,distance.log2:vals=hitcount,seek_us:sort=op,distance",
    "shingle/shingle_step_end": "hist:keys=kind:vals=hitcount,took_us",
}


def plate(ctx, **more):
    """Return a medium without a layer."""
    under = ctx.pool.slice(TRACKS * PLATE.track)
    return media.platter("medium", under, PLATE, **{"timing": "model", **more})


def force(dev, block):
    """Make a write that bypasses the cache."""
    queue = blk.Aio(dev, 1)
    queue.write(block, bytes(4096), None, fua=True)
    queue.reap()
    queue.close()


def disturb(dev, rng, ops):
    """Write and read at random; return how many reads met destroyed blocks."""
    met, end = 0, TRACKS * PLATE.track
    for _ in range(ops):
        n = rng.choice((1, 2, 7, 40))
        at = rng.randrange(end - n)
        if rng.random() < .5:
            dev.write(at, bytes(n * 4096))
            continue
        try:
            dev.read(at, n)
        except OSError:
            met += 1
    return met


def accesses(ctx, wcache):
    options = {"wcache": "on", "wcache_kib": 512, "lookahead": "on"} if wcache else {}
    device = plate(ctx, headlog=4096, **options)
    names = ("media", "destroy", "destroyed_read")
    with blk.opened(device.path) as dev, Ring(*(f"platter/platter_{n}" for n in names)) as ring:
        # The second block follows the first on the track, so the head reaches it without a seek.
        dev.read(300)
        dev.read(301)
        met = disturb(dev, random.Random(3), 250)
        dev.write(0, bytes(4096))
        dev.read(0)
        force(dev, 77)
        dev.flush()
        found = ring.stop()
    counted = media.stats(device)
    expect({e.dev for e in found} == {f"{device.major}:{device.minor}"}, "of another device")

    served = [e for e in found if e.name == "platter_media"]
    logged = [line.split() for line in device.message("headlog").splitlines()]
    keys = ("block", "n", "seek_us", "rotation_us", "total_us")
    told = [[LETTERS[e["op"]], *(e.fields[k] for k in keys)] for e in served]
    expect(told == [[w[1], w[2], w[3], *w[6:]] for w in logged], "the head log has others")
    for event, words in zip(served, logged):
        place = divmod(event["block"], PLATE.track)
        expect((event["cyl"], event["sector"]) == place and event["head"] == 0,
               f"block {event['block']} is at {place}: {event}")
        if event["op"] in MEDIUM:
            expect((event.fields["cyl"], event.fields["head"]) == tuple(words[4:6]),
                   f"the head log has {words[4:6]}: {event}")
    expect(sum(e["distance"] for e in served) == counted["seek_tracks"], "distances")
    for key in ("seek_us", "rotation_us", "transfer_us"):
        least = sum(e[key] for e in served)
        expect(least <= counted[key] <= least + len(served), f"{key}: {least}")
    ops = {e["op"] for e in served}
    expect(ops == set(LETTERS if wcache else ("read", "write")), f"only {sorted(ops)}")

    # The event of a destroyed block comes before that of the write.
    model, gone = Plate(PLATE.track, PLATE.head, PLATE.skew, 0, TRACKS * PLATE.track), []
    for event in found:
        if event.name == "platter_destroy":
            gone.append(event)
        elif event.name == "platter_media" and event["op"] in ("write", "destage"):
            before = set(model.bad)
            model.write(event["block"], event["n"])
            expect(all((e["block"], e["n"]) == (event["block"], event["n"]) for e in gone),
                   f"{gone} belong to {event}")
            blocks = [b for e in gone for b in range(e["first"], e["first"] + e["count"])]
            expect(sorted(blocks) == sorted(model.bad - before),
                   f"{event} destroyed {sorted(model.bad - before)}, told were {blocks}")
            expect(all((e["cyl"], e["sector"]) == divmod(e["first"], PLATE.track)
                       for e in gone), f"places: {gone}")
            gone = []
    expect(ruined(device, TRACKS * PLATE.track) == model.bad and model.bad, "the map has others")
    lost = [e for e in found if e.name == "platter_destroyed_read"]
    expect(len(lost) == counted["destroyed_read_ios"], f"{len(lost)} destroyed reads")
    expect(sum(e["count"] for e in lost) == counted["destroyed_reads"], "their blocks")
    expect(10 < met <= len(lost), f"{met} reads failed, {len(lost)} met what is destroyed")
    ctx.note(f"{len(served)} accesses, {len(found) - len(served) - len(lost)} runs destroyed, "
             f"{len(lost)} reads met them")


def destages(ctx):
    """A cache of 32 blocks, which no timer writes until it is set."""
    device = plate(ctx, wcache="on", wcache_kib=128, wcache_idle_ms=3600000)
    whys = []

    def meanwhile(why, act, left=0):
        with Ring("platter/platter_destage") as ring:
            act()
            until(lambda: media.stats(device)["wcache_dirty_blocks"] <= left, "destaging")
            found = ring.stop()
        expect({e["why"] for e in found} == {why}, f"because of {why}: {found}")
        expect(all(e["n"] <= e["cached"] <= 32 for e in found), f"{found}")
        whys.extend(e["why"] for e in found)

    def fill():
        with blk.opened(device.path) as dev:
            for at in range(0, 3 * 64, 2):
                dev.write(at, bytes(4096))

    def write(then):
        with blk.opened(device.path) as dev:
            dev.write(5, bytes(2 * 4096))
            then(dev)

    meanwhile("flush", lambda: write(lambda dev: dev.flush()))
    # Beside a cached block that would destroy it.
    meanwhile("behind", lambda: write(lambda dev: force(dev, PLATE.track + 5 - PLATE.skew)))
    meanwhile("off", lambda: write(lambda _: device.message("wcache off")))
    device.message("wcache on")
    meanwhile("leave", lambda: (write(lambda _: device.suspend()), device.resume()))
    meanwhile("full", fill, left=16)
    counted = media.stats(device)
    expect(len(whys) == counted["wcache_destages"], f"{whys}, {counted}")
    ctx.note(", ".join(f"{whys.count(why)} {why}" for why in dict.fromkeys(whys)))


def quiet(ctx):
    device = plate(ctx, wcache="on", wcache_idle_ms=20)
    with Ring("platter/platter_destage") as ring:
        with blk.opened(device.path) as dev:
            dev.write(9, bytes(3 * 4096))
        until(lambda: not media.stats(device)["wcache_dirty_blocks"], "an empty cache")
        found = ring.stop()
    expect([(e["why"], e["block"], e["n"]) for e in found] == [("idle", 9, 3)], f"{found}")


def layer(ctx, geo):
    """All events of a layer with write cache, persistent cache and bands over a medium."""
    made = media.stack(ctx, geo.but(options=(
        ("wcache_blocks", 32), ("destage_ms", 40), ("idle_ms", 0), ("commit_ms", 0),
        ("cleaning", "aggressive"))), "smr", timing="model")
    made.open()
    made.device.message("stats_clear")
    rng = random.Random(4)
    with Ring("shingle", kib=16384) as ring:
        with made.blk() as dev:
            # More than the persistent cache holds.
            for b in rng.sample(range(geo.logical), geo.logical // 2):
                dev.write(b, bytes(4096))
            dev.flush()
            dev.write(1, bytes(4096))
            until(lambda: not media.stats(made.device)["wcache_dirty_blocks"], "destaging")
            made.device.message("clean")
            made.device.message("idle_ms 500")
            dev.write(2, bytes(4096))
            until(lambda: media.stats(made.device)["cached_blocks"], "destaging")
            until(lambda: not media.stats(made.device)["cached_blocks"], "idle cleaning")
        # The suspend waits until the last step has ended.
        made.device.suspend()
        made.device.resume()
        made.device.message("checkpoint")
        counted = media.stats(made.device)
        found = ring.stop()
    of = {}
    for event in found:
        of.setdefault(event.name.removeprefix("shingle_"), []).append(event)
    number = {name: len(events) for name, events in of.items()}
    expect(number["step_end"] == counted["steps"] + counted["step_failures"] ==
           number["step_start"], f"{number}, {counted}")
    took, longest = {}, {}
    for begin, end in zip(of["step_start"], of["step_end"]):
        expect([begin[k] for k in ("kind", "why", "n", "lblk")] ==
               [end[k] for k in ("kind", "why", "n", "lblk")], f"{begin}, {end}")
        expect(end["error"] == "none", f"{end}")
        took[end["kind"]] = took.get(end["kind"], 0) + end["took_us"]
        longest[end["kind"]] = max(longest.get(end["kind"], 0), end["took_us"])
    for kind, us in took.items():
        expect(us == counted[f"step_{kind}_us"] and longest[kind] == counted[f"longest_{kind}_us"],
               f"steps {kind} took {us} us, {counted}")
    whys = {e["why"] for e in of["step_end"]}
    expect(whys == {"pressure", "forced", "idle"}, f"steps were for {whys}")
    expect(number["destage"] == counted["wcache_destages"] and
           sum(e["n"] for e in of["destage"]) == counted["wcache_destage_blocks"],
           f"{number}, {counted}")
    whys = {e["why"] for e in of["destage"]}
    expect({"full", "flush", "due"} <= whys <= {"full", "flush", "due", "again"}, f"{whys}")
    expect(sum(e["n"] for e in of["place"]) == counted["wcache_destage_blocks"] and
           {e["role"] for e in of["place"]} == {"cache"}, "placements")
    expect(sum(e["records"] for e in of["commit"]) == counted["records"], "records")
    expect(sum(e["records"] > 0 for e in of["commit"]) == counted["commits"] and
           all(e["error"] == "none" for e in of["commit"]), "commits")
    expect(number["checkpoint"] == counted["checkpoints"], f"{number}, {counted}")

    areas, roles = made.target.areas(made.geo), set()
    for event in of["place"] + of["destage"] + of["step_start"]:
        if event["role"] == "none":
            continue
        on, first, blocks = areas[event["role"]]
        roles.add(event["role"])
        expect(event["on"] == on and first <= event["block"] and
               event["block"] + event["n"] <= first + blocks, f"{areas}: {event}")
    expect(roles == {"data", "cache", "staging"}, f"only {roles}")
    made.verify()
    media.judge(made)
    made.close()
    ctx.note(", ".join(f"{n} {name}" for name, n in sorted(number.items())) + "; " +
             ", ".join(sorted(took)))


def shingle_trace(recipe, device, command):
    """Return what shingle-trace prints about @command for a recipe, without the command's output.
    """
    out = "/dev/shm/trace-out"
    run("sh", "-c", f"{TRACE} -d {device.name} {recipe} sh -c '{command}' > {out}")
    with open(out, encoding="ascii") as handle:
        return handle.read()


def rows(text, first):
    """Return the words of the lines that match @first."""
    return [line.split() for line in text.splitlines() if re.match(first, line)]


def dd(what, device, at, n=1):
    """Return a shell command that reads or writes @n blocks at @at in one request."""
    where = f"if=/dev/zero of={device.path} oflag=direct,seek_bytes seek={at * blk.BLOCK}" \
        if what == "write" else \
        f"if={device.path} of=/dev/null iflag=direct,skip_bytes skip={at * blk.BLOCK}"
    return f"dd bs={n * blk.BLOCK} count=1 conv=notrunc {where} 2>/dev/null; "


def recipe_destroyed(ctx):
    """The recipe `destroyed` prints which blocks each of two writes destroyed, and by which write
    the block of a failing read was destroyed."""
    device = plate(ctx)
    at = 2 * PLATE.track + 6        # the same angle on the next two tracks, shifted by the skew
    first, second = 3 * PLATE.track + 1, 4 * PLATE.track + 12
    text = shingle_trace("destroyed", device, dd("write", device, at) +
                         dd("write", device, at, 2) + dd("read", device, first + 1) + "true")
    # The second write passes over blocks of which half are already destroyed.
    expect([r[2:] for r in rows(text, r" +\d+\.\d+  medium .*[0-9]$")][:2] ==
           [[f"{at}+1", f"{first}+1", f"{second}+1"],
            [f"{at}+2", f"{first + 1}+1", f"{second + 1}+1"]], text)
    expect(re.search(rf" {first + 1}\+1  {first + 1}, destroyed by {at}\+2 at ", text), text)
    expect(text.endswith("\n2 writes destroyed 4 blocks; 1 reads met 1\n"), text)


def recipe_seeks(ctx):
    device = plate(ctx, wcache="on", wcache_kib=512, wcache_idle_ms=3600000)
    with blk.opened(device.path) as dev:
        dev.read(0)     # where the head is
    text = shingle_trace("seeks", device, "".join(
        (*(dd("read", device, PLATE.track * t) for t in (0, 1, 3, 8, 0)),
         dd("write", device, 3), dd("read", device, 3), f"sync {device.path}")))
    expect(text.startswith("6 accesses of the medium; from memory: 1 cache-write, "
                           "1 cache-read, 0 lookahead\n"), text)
    table = {row[0]: list(map(float, row[1:])) for row in rows(text, r"\d+(-\d+)? +\d+ +\d")}
    expect({k: v[:4] for k, v in table.items()} ==
           {"0": [2, 1, 0, 1], "1": [1, 1, 0, 0], "2-3": [1, 1, 0, 0], "4-7": [1, 1, 0, 0],
            "8-15": [1, 1, 0, 0]}, text)
    expect(table["0"][4] == 0 < table["1"][4] < table["8-15"][4], text)


def recipe_steps(ctx, geo):
    made = media.stack(ctx, geo.but(options=(("idle_ms", 0),)), "smr", timing="model")
    made.open()
    with made.blk() as dev:
        for b in range(0, geo.logical, geo.band):
            dev.write(b, bytes(4096))
        dev.flush()
    made.device.message("stats_clear")
    text = shingle_trace("steps", made.device, "dmsetup message target 0 clean")
    counted = media.stats(made.device)
    found = rows(text, "target ")
    expect(sum(int(r[3]) for r in found) == counted["steps"] > 0, text)
    expect({r[2] for r in found} == {"forced"} and all(r[-1] == "0" for r in found), text)
    for row in found:
        expect(row[5:7] == [f"{counted[f'step_{row[1]}_us'] / 1000:.1f}",
                            f"{counted[f'longest_{row[1]}_us'] / 1000:.1f}"], text)
    expect({r[1] for r in found} == {k[5:-3] for k, v in counted.items()
                                     if re.fullmatch(r"step_\w+_us", k) and v}, text)
    made.close()


def recipe_refusals(ctx):
    """shingle-trace refuses wrong arguments with a message, reports lost events, and leaves no
    tracing instance behind."""
    device = plate(ctx, timing="none")
    for words, status, why in (
            ("", 2, "usage:"), ("nothing true", 2, "usage:"), ("lib true", 2, "usage:"),
            ("-d nobody seeks true", 1, "no device nobody"), ("seeks false", 1, "0 accesses"),
            ("-x", 2, "usage:"), ("-h", 0, "usage:"), ("--help", 0, "steps")):
        got, text = run(TRACE, *words.split(), ok=None)
        expect(got == status and why in text, f"{words}: {got}, {text}")
    # With a ring buffer that is too small, the number of lost events is reported.
    writes = f"dd if=/dev/zero of={device.path} bs=4k count=300 oflag=direct 2>/dev/null"
    _, text = run(TRACE, "-b", 8, "seeks", "sh", "-c", writes)
    expect(re.search("the first [0-9]+ events are lost, try a larger -b than 8", text), text)
    _, text = run(TRACE, "events", "sh", "-c", dd("write", device, 7))
    expect(re.search(r"platter_media: \d+:\d+ op=write block=7 n=1 cyl=0 head=0 sector=7 ", text),
           text)
    expect(not os.listdir(f"{TRACING}/instances"), "an instance is left")


@contextlib.contextmanager
def histogram(event):
    """Set the trigger of tracing.rst; yield a function that returns the histogram so far."""
    path, trigger = f"{TRACING}/events/{event}", TRIGGERS[event]
    mounted()
    if not os.path.exists(f"{path}/hist"):
        raise Skip("no CONFIG_HIST_TRIGGERS in this kernel")

    def found():
        with open(f"{path}/hist", encoding="ascii") as handle:
            text = handle.read()
        return [dict(re.findall(r"(\w+): +(~ 2\^\d+|[\w-]+)", line))
                for line in text.splitlines() if line.startswith("{")]

    tell(f"{path}/trigger", trigger)
    try:
        yield found
    finally:
        tell(f"{path}/trigger", "!" + trigger)


def hist_seeks(ctx):
    device = plate(ctx)
    with histogram("platter/platter_media") as found, blk.opened(device.path) as dev:
        for track in (0, 1, 3, 8, 0):
            dev.read(track * PLATE.track)
        got, counted = found(), media.stats(device)
    # 0 and 1, 2, 5 and 8: it rounds up.
    expect([(r["op"], r["distance"], r["hitcount"]) for r in got] ==
           [("0", "~ 2^0", "2"), ("0", "~ 2^1", "1"), ("0", "~ 2^3", "2")], f"{got}")
    least = sum(int(r["seek_us"]) for r in got)
    expect(least <= counted["seek_us"] <= least + 5, f"{got}, {counted['seek_us']}")


def hist_steps(ctx, geo):
    made = media.stack(ctx, geo.but(options=(("idle_ms", 0),)), "smr")
    made.open()
    with histogram("shingle/shingle_step_end") as found, made.blk() as dev:
        for b in range(0, geo.logical, geo.band):
            dev.write(b, bytes(4096))
        dev.flush()
        made.device.message("clean")
        got, counted = found(), media.stats(made.device)
    expect({r["kind"]: int(r["took_us"]) for r in got} ==
           {k[5:-3]: v for k, v in counted.items() if re.fullmatch(r"step_\w+_us", k) and v} and
           sum(int(r["hitcount"]) for r in got) == counted["steps"] > 0, f"{got}, {counted}")
    made.close()


def formats(_ctx):
    """Each event's format has values in place of the enums of the kernel source, which programs
    that read raw events do not know."""
    mounted()
    for system in ("shingle", "platter"):
        folder = f"{TRACING}/events/{system}"
        for event in sorted(os.listdir(folder)):
            path = f"{folder}/{event}/format"
            if not os.path.exists(path):
                continue
            with open(path, encoding="ascii") as handle:
                said = handle.read().split("print fmt:")[1]
            expect(not re.search(r"\b(SHINGLE|PLATTER)_\w+", said), f"{event}: {said}")


def cases(target, _options):
    out = [("media: writes through", lambda ctx: accesses(ctx, False)),
           ("media: write cache and look-ahead", lambda ctx: accesses(ctx, True)),
           ("destage: reasons", destages), ("destage: idle", quiet),
           ("recipes: destroyed", recipe_destroyed), ("recipes: seeks", recipe_seeks),
           ("recipes: refusals", recipe_refusals), ("hist: seeks", hist_seeks),
           ("formats", formats)]
    for geo in target.geometry("idle"):
        out += [(f"layer: {geo.name}", lambda ctx, g=geo: layer(ctx, g)),
                (f"recipes: steps, {geo.name}", lambda ctx, g=geo: recipe_steps(ctx, g)),
                (f"hist: steps, {geo.name}", lambda ctx, g=geo: hist_steps(ctx, g))]
    return out
