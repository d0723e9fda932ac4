# SPDX-License-Identifier: GPL-2.0
"""Media of several surfaces, on which the tool lays out a layer as anybody's would.

    16 surfaces                     of two zones
    5 surfaces of several densities three zones, so tracks of thirteen lengths
                                    (where all must have one: refused, in a sentence)

`shingle create` asks the medium how it is made.  Everything is written, and then over
and over in part, so that whatever the layer does by itself it does on every surface;
everything is looked at, cleaned, written on, closed, checked and opened again.  The medium
destroys what its head passes over, and at the end nobody may have asked for that.

    ... taken for one               the tool is told of one surface, with as many cylinders;
                                    where tracks have one length, with all tracks
    ... taken for their mean        of one surface with all tracks, as if those of a zone
                                    had one length
Here somebody must have.
"""

import os
import random
import tempfile
from dataclasses import dataclass

import blk
import dm
import media
from bench import Failure, expect, run
from blk import SECTORS
from model import Model
from targets import SHINGLE, Geometry, Stack

SKEW, HEAD_SKEW = 5, 9      # blocks
GEO = Geometry("surfaces", band=1, track=1, head=3, meta="separate")
META, FLASH = 2048, 1500    # blocks
CHUNK = 128                 # of a write that fills
LONGEST = 16                # of one that writes over
WRITES = 350


@dataclass(frozen=True)
class Medium:
    surfaces: int
    zones: tuple            # (cylinders, blocks of a track), of which tenths are whole
    spread: int = 0         # per mille

    @property
    def blocks(self):
        return self.surfaces * sum(cyls * track for cyls, track in self.zones)


SHINGLED = {"16 surfaces": Medium(16, ((12, 64), (12, 48))),
            "5 surfaces of several densities":
                Medium(5, ((24, 80), (24, 60), (24, 40)), spread=200)}
# An even number of tracks before the next surface has its turn.
INTERLACED = {"16 surfaces": Medium(16, ((12, 64),)),
              "5 surfaces of several densities":
                  Medium(5, ((8, 80), (8, 60), (8, 40)), spread=200)}


class Disk(Stack):
    """A layer over a medium, by the tool."""

    def __init__(self, ctx, medium, raises):
        geo = GEO.but(raises=raises)
        blocks = {"data": medium.blocks, "meta": META,
                  **({"cache": FLASH} if ctx.target.sizes(geo)["cache"] else {})}
        under = [ctx.pool.slice(n, f"under-{which}") for which, n in blocks.items()]
        super().__init__(ctx.target, geo, dict(zip(blocks, (dev.path for dev in under))), under)
        self.platter = media.platter(
            "medium", under[0], geo, ctx.target.medium, surfaces=medium.surfaces,
            zones=",".join(f"{cyls}x{track * SECTORS}" for cyls, track in medium.zones),
            track_skew=SKEW * SECTORS, head_skew=HEAD_SKEW * SECTORS,
            **({"density_spread": medium.spread} if medium.spread else {}))
        self.paths["data"] = self.platter.path
        self.told = self.platter.message("geometry")

    def _tool(self, verb, *words, ok=(0,)):
        others = [word for which in ("cache", "meta") if which in self.paths
                  for word in (f"--{which}", self.paths[which])]
        return run(SHINGLE, verb, *words, "--no-udev", *others, self.paths["data"], "target",
                   ok=ok)

    def _take(self):
        self.device = dm.Device.found("target")
        return self.device

    def create(self, *words):
        self._tool("create", self.target.name, *words)
        return self._take()

    def refused(self, *words):
        """What the tool says that does not make it."""
        return self._tool("create", self.target.name, *words, ok=(8,))[1]

    def open(self):
        self._tool("open")
        return self._take()

    def close(self):
        self.device = None
        run(SHINGLE, "remove", "--no-udev", "target")

    def runs(self):
        """(first block, blocks, zone, surface) as the medium tells."""
        for line in self.told.splitlines():
            if line.startswith("run "):
                start, tracks, track, zone, surface = map(int, line.split()[1:6])
                yield start, tracks * track, zone, surface

    def everywhere(self):
        """Closed: each surface and each zone holds something."""
        lies = {block for device, block in self.target.lies(self.paths, self.geo).values()
                if device == "DATA"}
        held, there = set(), set()
        for start, n, zone, surface in self.runs():
            there |= {("zone", zone), ("surface", surface)}
            if not lies.isdisjoint(range(start, start + n)):
                held |= {("zone", zone), ("surface", surface)}
        expect(held == there, f"nothing lies on {sorted(there - held)}")


def write(dev, model, at, n):
    op = model.submit(at, n)
    dev.write(at, model.data(op))
    model.ack(op)


def over(dev, model, rng):
    """Some of it is written again and again, the rest seldom."""
    for _ in range(WRITES):
        n = rng.randint(1, LONGEST)
        room = model.blocks if rng.random() < .5 else model.blocks // 12
        write(dev, model, rng.randrange(room - n), n)


class Wrong(Failure):
    """What was read is not what was written."""


def compare(dev, model, when):
    wrong = model.compare(dev.read(0, model.blocks))
    if wrong:
        raise Wrong(f"{when} {len(wrong)} blocks are wrong: {wrong[:3]}")


def ride(disk, seed):
    """From a device that was just made to one that is closed; only the layer is asked how
    it went."""
    model, rng = Model(blk.size(disk.device.path)), random.Random(seed)
    cleans = "clean" in disk.target.messages
    with disk.blk() as dev:
        for at in range(0, model.blocks, CHUNK):
            write(dev, model, at, min(CHUNK, model.blocks - at))
        over(dev, model, rng)
        dev.flush()
        compare(dev, model, "written over")
        if cleans:
            disk.device.message("clean")
            compare(dev, model, "cleaned")
        over(dev, model, rng)
        dev.flush()
    raised = disk.bypassed()
    disk.verify()
    disk.close()
    disk.check()
    disk.open()
    with disk.blk() as dev:
        compare(dev, model, "opened again")
    disk.verify()
    disk.close()
    return {"presents": model.blocks, **raised}


def holds(ctx, medium, words, raises):
    disk = Disk(ctx, medium, raises)
    disk.create(*words)
    numbers = {**ride(disk, medium.surfaces), **media.judge(disk)}
    disk.everywhere()
    ctx.note(f"{numbers}")
    return numbers


def of_one_surface(told, times):
    """What a medium tells of itself, but that it has one surface; each zone so many times
    as many cylinders."""
    lines, blocks = [], 0
    for kind, *rest in map(str.split, told.splitlines()):
        if kind == "zone":
            cyls, track = times * int(rest[3]), int(rest[4])
            blocks += cyls * track
            lines.append(["zone", *rest[:3], cyls, track, cyls, *rest[6:]])
        elif kind not in ("run", "blocks", "surfaces", "density"):
            lines.append([kind, *rest])
    lines += [("blocks", blocks), ("surfaces", 1), ("density", 1000)]
    return "".join(" ".join(map(str, words)) + "\n" for words in lines)


def mistaken(ctx, medium, times, words):
    """A layer that knows less of its medium loses what it was given, and whoever reads there
    is told or finds it wrong.  That the medium knows is not enough, nor is any other failure."""
    disk = Disk(ctx, medium, ())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "geometry")
        with open(path, "w", encoding="ascii") as handle:
            handle.write(of_one_surface(disk.told, times))
        disk.create("--geometry", path, *words)
    try:
        ride(disk, medium.surfaces)
    except (OSError, Wrong) as error:
        why = str(error).splitlines()[0]
    else:
        raise Failure("nobody has noticed")
    asked = media.stats(disk.platter)["destroyed_reads"]
    expect(asked, f"nobody has asked for what was destroyed, but: {why}")
    ctx.note(f"{asked} destroyed blocks were asked for: {why[:200]}")
    return {"destroyed_reads": asked}


def refused(ctx, medium, words):
    said = Disk(ctx, medium, ()).refused(*words)
    expect(said == "shingle: DATA has tracks of several lengths, and "
           f"{ctx.target.name} needs one: give it with --track\n", f"it says: {said}")


def cases(target, _options):
    out = []
    every = INTERLACED if target.one_length else SHINGLED
    for shape, (words, raises) in target.shapes.items():
        def add(what, function, *args, shape=shape):
            out.append((f"{shape}{what}", lambda ctx: function(ctx, *args)))

        for name, medium in every.items():
            if target.one_length and medium.spread:
                add(name, refused, medium, words)
            else:
                add(name, holds, medium, words, raises)
        if target.one_length:
            # An odd number of tracks, so that bottoms and tops change places.
            add("16 surfaces taken for one", mistaken, Medium(16, ((9, 64),)), 16, words)
        else:
            add("16 surfaces taken for one", mistaken, Medium(16, ((48, 64), (48, 48))), 1, words)
            add("5 densities taken for their mean", mistaken,
                every["5 surfaces of several densities"], 5, words)
    return out
