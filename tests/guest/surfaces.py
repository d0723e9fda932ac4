# SPDX-License-Identifier: GPL-2.0
"""Layers on media with several surfaces, created by the tool without special options.

 16 surfaces                     two zones
 5 surfaces of several densities three zones, and tracks of thirteen lengths; a target that
                                 needs tracks of one length refuses this medium

`shingle create` asks the medium for its geometry.  The host writes all blocks and overwrites parts
of them repeatedly, so that the layer uses every surface and cleans.  All blocks are compared
several times; then the device is closed, checked and opened again.  The medium destroys what its
head passes over, and no destroyed block may have been read.

 ... taken for one               the tool is given a geometry with one surface and as many
                                 cylinders, or with all tracks if the target needs tracks of one
                                 length
 ... taken for their mean        the tool is given a geometry with one surface and all tracks, where
                                 the tracks of a zone have one length

With these wrong geometries the layer must lose data, which shows that the medium would notice.
"""

import os
import random
import tempfile
from dataclasses import dataclass

from guest import blk
from guest import dm
from guest import media
from guest.bench import Failure, expect, run
from guest.blk import SECTORS
from guest.model import Model
from guest.targets import SHINGLE, Geometry, Stack

SKEW, HEAD_SKEW = 5, 9      # blocks
GEO = Geometry("surfaces", band=1, track=1, head=3, meta="separate")
META, FLASH = 2048, 1500    # blocks
CHUNK = 128                 # of a write that fills the device
LONGEST = 16                # of a write that overwrites
WRITES = 350


@dataclass(frozen=True)
class Medium:
    surfaces: int
    zones: tuple            # (cylinders, blocks of a track); a tenth of the track must be whole
    spread: int = 0         # in permille

    @property
    def blocks(self):
        return self.surfaces * sum(cyls * track for cyls, track in self.zones)


SHINGLED = {"16 surfaces": Medium(16, ((12, 64), (12, 48))),
            "5 surfaces of several densities":
                Medium(5, ((24, 80), (24, 60), (24, 40)), spread=200)}
# Each surface has an even number of tracks before the next one begins.
INTERLACED = {"16 surfaces": Medium(16, ((12, 64),)),
              "5 surfaces of several densities":
                  Medium(5, ((8, 80), (8, 60), (8, 40)), spread=200)}


class Disk(Stack):
    """A layer over a medium, created by the tool."""

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
        """Expect that the tool refuses to create; return its message."""
        return self._tool("create", self.target.name, *words, ok=(8,))[1]

    def open(self):
        self._tool("open")
        return self._take()

    def close(self):
        self.device = None
        run(SHINGLE, "remove", "--no-udev", "target")

    def runs(self):
        """Yield (first block, blocks, zone, surface) as the medium reports them."""
        for line in self.told.splitlines():
            if line.startswith("run "):
                start, tracks, track, zone, surface = map(int, line.split()[1:6])
                yield start, tracks * track, zone, surface

    def everywhere(self):
        """Expect that each surface and each zone holds data; the stack is closed."""
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
    """Overwrite blocks at random, half of them in the first twelfth of the device."""
    for _ in range(WRITES):
        n = rng.randint(1, LONGEST)
        room = model.blocks if rng.random() < .5 else model.blocks // 12
        write(dev, model, rng.randrange(room - n), n)


class Wrong(Failure):
    """The data read are not the data written."""


def compare(dev, model, when):
    wrong = model.compare(dev.read(0, model.blocks))
    if wrong:
        raise Wrong(f"{when} {len(wrong)} blocks are wrong: {wrong[:3]}")


def ride(disk, seed):
    """Write, overwrite, clean and reopen a new device, and compare all blocks each time.  Return
    numbers for the report; the medium's counters are left to the caller."""
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
    """With the geometry that the medium reports no data are lost, no destroyed block is read, and
    every surface and zone holds data."""
    disk = Disk(ctx, medium, raises)
    disk.create(*words)
    numbers = {**ride(disk, medium.surfaces), **media.judge(disk)}
    disk.everywhere()
    ctx.note(f"{numbers}")
    return numbers


def of_one_surface(told, times):
    """Return a medium's geometry message changed to one surface, with @times as many cylinders in
    each zone."""
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
    """A layer created with a wrong geometry loses data: a read fails or returns wrong data, and the
    medium counts reads of destroyed blocks.  Another failure does not count."""
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
    ctx.note(f"the file system read {asked} destroyed blocks: {why[:200]}")
    return {"destroyed_reads": asked}


def refused(ctx, medium, words):
    """A target that needs tracks of one length refuses a medium with several, and names --track."""
    said = Disk(ctx, medium, ()).refused(*words)
    expect(said == "shingle: DATA has tracks of several lengths, and "
           f"{ctx.target.name} needs tracks of one length: give it with "
           "--track\n", f"it says: {said}")


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
            # An odd number of tracks, so that bottoms and tops are exchanged.
            add("16 surfaces taken for one", mistaken, Medium(16, ((9, 64),)), 16, words)
        else:
            add("16 surfaces taken for one", mistaken, Medium(16, ((48, 64), (48, 48))), 1, words)
            add("5 densities taken for their mean", mistaken,
                every["5 surfaces of several densities"], 5, words)
    return out
