# SPDX-License-Identifier: GPL-2.0
"""The cost of one block below that cannot be written, for each target and each area of its layout.

Writes to the block fail with EIO for good, also after a reload, a power cut and a repair; reads of
it succeed.  TABLE has the outcome for each row and target, and each case runs one of them.  Unit
tests compare the table of Documentation/design.rst with TABLE.

The rules: data that were acknowledged and flushed are never lost without a report, wrong data are
never returned, and when the block can be written again everything is read-write.
"""

import random
from dataclasses import dataclass

from guest import blk, ondisk
from guest.bench import Failure, expect, until
from guest.blk import SECTORS
from guest.administration import contents, held
from guest.faults import FOREVER, _forget_unpromised, faulty, superblocks
from guest.ladder import NOT_DURABLE, WCACHE, flushes, lost_of, repaired
from guest.model import read_stamp
from guest.targets import GEOMETRIES

WRITES = 120            # they use each slot of the cache and each free band
NEEDS_CHECK = 1         # flag of a superblock


@dataclass(frozen=True)
class Outcome:
    """The effects when the target writes to the bad block.

    @text: the cell of the table in design.rst
    @host: "once": a write of the host fails; "always": the same write fails again when repeated
    @mode: the device's mode afterwards
    @lost: number of lost blocks of which a FLUSH had covered an older version; a FLUSH fails
    @unflushed: blocks that no FLUSH has covered may be lost, and the loss is reported
    @learns: the target never writes to the bad block again, even after a reload and a power cut
    @repair: exit status of `shingle repair` while the block is bad
    """
    text: str
    host: str = ""
    mode: str = "rw"
    lost: int = 0
    unflushed: bool = False
    learns: bool = False
    repair: int = 1


NONE = Outcome("-")
MOVED = Outcome("moved")
AVOIDED = Outcome("moved*", learns=True)
ERROR = Outcome("EIO", host="once")
ERROR_ONCE = Outcome("EIO*", host="once", learns=True)
STUCK = Outcome("EIO always", host="always")
LOST = Outcome("lost", lost=1)
STOP = Outcome("read-only", mode="ro")
CHECK = Outcome("needs_check", mode="needs_check")
JOURNAL = Outcome("needs_check", mode="needs_check", unflushed=True)
SUPER = Outcome("needs_check", mode="needs_check", repair=8)


class Spot:
    """One block of a device below that cannot be written; it counts the attempts."""

    def __init__(self, game, which, at):
        self.game, self.which, self.at = game, which, at

    def spoil(self):
        self.gate = held(self.game, self.which, "spot", self.at, 1)
        path, offset = self.gate.table()[0][3].split()
        self.gate.reload([(0, SECTORS, "flakey", f"{path} {offset} {FOREVER} 1 error_writes")],
                         noflush=True, lockfs=False)
        self.base = 0
        self.base = self.hits()

    def hits(self):
        with open(f"/sys/block/dm-{self.gate.minor}/stat", encoding="ascii") as file:
            return int(file.read().split()[4]) - self.base

    def heal(self):
        self.game.heal()
        self.gate.remove()


def place_of(game, block):
    """Return (device, block) where a logical block lies; reopens the stack to find out."""
    game.close()
    which, at = game.ctx.target.lies(game.stack.paths, game.geo)[block]
    game.stack.open()
    game.dev = game.stack.blk()
    return which.lower(), at


def home(game):
    return place_of(game, game.geo.band + 1)


def host(game):
    """Return (device, block, first logical block of the band) of a place that the next host writes
    to that band reach, and that no cleaning step writes meanwhile."""
    geo, last = game.geo, 2 * game.geo.band - 1
    if game.ctx.target.name == "imr":
        return top_of(game)
    if game.ctx.target.name == "stl-full":      # the next one of a log
        game.write(geo.band, must=True)
        game.flush(must=True)
        which, at = place_of(game, geo.band)
        return which, at + 1, geo.band
    which, at = place_of(game, last)
    # rmwf writes there directly, since the head destroys nothing; tiler writes the next place.
    return which, at + (game.ctx.target.name == "tiler"), geo.band


def top_of(game):
    """Return (device, block, first block of the host) of a track on a top."""
    geo, (_, first, _) = game.geo, game.areas["data"]
    for b in range(geo.band, geo.logical, geo.band):
        which, at = place_of(game, b)
        if (at - first) // geo.band % 2:
            return which, at, b
    raise Failure("no track is on a top")


def top(game):
    return top_of(game)[:2]


def area(name, offset=1):
    def found(game):
        which, start, n = game.areas[name]
        return which, start + (offset if offset >= 0 else n // 2)
    return found


def superblock(number):
    def found(game):
        which, ends = superblocks(game.ctx, game)
        return which, ends[number]
    return found


def where(game):
    """Return (device, block) of a place that takes new data: in the cache if there is one."""
    return area("cache")(game) if "cache" in game.areas else host(game)[:2]


@dataclass(frozen=True)
class Line:
    """A row of the table: its name, the places to spoil, keys of the table line, and an outcome for
    each target."""
    name: str
    places: tuple
    cells: dict
    options: tuple = ()


LAYERS = ("stl-set", "stl-full", "stl-log", "imr", "tiler", "dualbuffer", "rmwf")


def row(name, place, *outcomes, also=(), options=()):
    return Line(name, (place, *also), dict(zip(LAYERS, outcomes, strict=True)), options)


TABLE = (
    row("band, the host writes", host, NONE, ERROR, ERROR, STUCK, ERROR, NONE, STUCK),
    row("band, a step writes", home, STOP, MOVED, MOVED, LOST, STOP, STOP, STOP),
    row("top beside a rewrite", top, NONE, NONE, NONE, STOP, NONE, NONE, NONE),
    row("cache or flash", area("cache"), ERROR, NONE, NONE, NONE, NONE, ERROR_ONCE, ERROR),
    row("with a write cache", where, MOVED, MOVED, MOVED, NONE, MOVED, AVOIDED, MOVED,
        options=WCACHE["options"]),
    row("staging or backup", area("staging"), STOP, NONE, NONE, MOVED, NONE, STOP, STOP),
    row("journal", area("journal", -1), *7 * [JOURNAL]),
    row("checkpoint", area("checkpoint", 2), *7 * [CHECK]),
    row("page of the map", area("pages"), NONE, NONE, NONE, NONE, CHECK, NONE, NONE),
    row("either superblock", superblock(0), *7 * [SUPER], also=(superblock(1),)),
)


def mode_of(game):
    words = game.stack.device.status(noflush=True).split()
    return "needs_check" if "needs_check" in words else words[-1]


class Load:
    """Random writes with flushes, cleaning and checkpoints in between, until the device is no
    longer writable.

    @band: write only to this band, and send no `clean`
    self.host: as Outcome.host; self.flushes: FLUSHes that failed while the device was writable."""

    def __init__(self, game, spot, band=None):
        self.host, self.flushes = "", 0
        rng, geo = random.Random(1), game.geo
        blocks = range(geo.logical) if band is None else range(band, band + geo.band)
        for i in range(WRITES):
            if game.state() != "rw":
                break
            self._write(game, spot, rng.choice(blocks))
            if i % 4 == 3 and not game.flush() and game.state() == "rw":
                self.flushes += 1
            for often, text in ((16, "clean"), (24, "checkpoint"), (40, "keep commit_ms=7")):
                if i % often == often - 1 and (text != "clean" or band is None):
                    game.message(text)

    def _write(self, game, spot, b):
        before = spot.hits()
        if game.write(b) or game.state() != "rw":
            return
        expect(spot.hits() > before, f"a write at {b} failed and did not meet the block")
        if not self.host:
            self.host = "once" if game.write(b) else "always"


def broken_promises(game, sent):
    """Return the blocks that cannot be read or hold a version that the model does not allow after
    a power cut."""
    out = set()
    for b in range(game.geo.logical):
        try:
            version, _ = read_stamp(game.dev.read(b), b)
        except OSError:
            version = None
        if version not in game.model.after_cut(b, game.model.marks, sent):
            out.add(b)
    return out


def judge(game, when, outcome, reported):
    """Expect that the device has lost what the outcome says, and nothing else that was flushed."""
    broken = broken_promises(game, game.model.sent_by(game.model.marks))
    expect(len(broken) == outcome.lost, f"{when}: blocks {sorted(broken)[:4]} lost what was flushed")
    for b in broken:
        try:
            game.dev.read(b)
        except OSError:
            continue
        raise Failure(f"{when}: block {b} is lost and can be read")
    lost = lost_of(game)
    # A target that gathers writes may also lose those that are in memory only.
    if not game.ctx.target.gathers and not outcome.unflushed:
        expect(lost == broken, f"{when}: blocks {sorted(lost)[:4]} are lost")
    expect(reported or not lost, f"{when}: the loss of {len(lost)} blocks is not reported")


def reload(game):
    """Load the table again; return whether the kernel log counts lost blocks."""
    game.dev.close()
    game.ctx.kernel()
    device = game.stack.device
    device.load(device.table())
    device.suspend(lockfs=False)
    device.resume()
    game.dev = game.stack.blk()
    return any(NOT_DURABLE in line for line in game.ctx.kernel())


def expect_outcome(game, spot, band, outcome, when):
    """Run the load and expect @outcome; return the load.  With @when "again" (after the power cut
    and a repair) the data may lie elsewhere: if the target never writes to the bad block, nothing
    may fail."""
    load = Load(game, spot, band)
    hits = spot.hits()
    expect(hits or when == "again", f"{when}: nothing was written to the block")
    found = load.host, mode_of(game), bool(load.flushes)
    wanted = (outcome.host, outcome.mode, bool(outcome.lost)) if hits else ("", "rw", False)
    expect(found == wanted, f"{when}: (host, mode, FLUSH fails) is {found}, not {wanted}")
    return load


def marked(game):
    """Return whether a superblock says needs_check."""
    which, ends = superblocks(game.ctx, game)
    with blk.opened(game.under[which].path) as dev:
        return any(ondisk.read_super(dev.read(at))["flags"] & NEEDS_CHECK for at in ends)


def spoil(ctx, place, geo, outcome):
    """Run one cell of TABLE: make the block at @place unwritable and expect @outcome in use, after
    a reload, after a power cut and after a repair; then heal it and expect no further effect."""
    with faulty(ctx, geo) as game:
        game.fill()
        which, at, *band = place(game)
        spot, band = Spot(game, which, at), band[0] if band else None
        game.flush(must=True)
        spot.spoil()
        load = expect_outcome(game, spot, band, outcome, "first")
        hits = spot.hits()
        done = flushes(game)
        if outcome.mode == "needs_check":
            until(lambda: marked(game), "a superblock is marked")
        saved, lost = contents(game), bool(load.flushes)
        judge(game, "after a reload", outcome, reload(game) or lost)
        expect(outcome.mode == "ro" or mode_of(game) == outcome.mode,   # it cleans at once
               f"after a reload it is {mode_of(game)}")
        game.close()

        spot.heal()
        for which, path in game.stack.paths.items():
            with blk.opened(path) as dev:
                dev.write(0, saved[which])
        spot.spoil()
        game.stack.open()
        game.dev = game.stack.blk()
        judge(game, "after a power cut", outcome, not done or lost)
        game.close()

        # The block is still bad.
        if outcome.mode == "needs_check":
            done, said = ctx.target.repair(game.stack.paths, geo)
            expect(done == outcome.repair, f"repair ended with {done}: {said}")
        game.stack.open()
        game.dev = game.stack.blk()
        flushes(game)
        sent = game.model.sent_by(game.model.marks)
        for b in _forget_unpromised(game, sent):
            game.write(b)
        if outcome.learns:
            expect(Load(game, spot).host == "" and not spot.hits(), "again: it is written to")
        elif outcome.repair == 1:
            expect_outcome(game, spot, band, outcome, "again")
        else:
            expect(mode_of(game) == outcome.mode, f"again: it is {mode_of(game)}")
        spot.heal()
        repaired(game)
        flushes(game)
        game.fill()
        game.compare("in the end")
        ctx.note(f"{hits} writes met the block")


def cases(target, options):
    plain = GEOMETRIES["faults"][0]
    quiet = tuple((key, 0) for key in ("commit_ms", "idle_ms") if key == "commit_ms" or
                  key in dict(target.keys))
    out = []
    for line in TABLE:
        outcome = line.cells[target.name]
        if outcome is NONE:
            continue
        geo = plain.but(options=(*plain.options, *quiet, *line.options))
        for i, place in enumerate(line.places):
            out.append((f"{line.name}{f' {i}' if i else ''}: {outcome.text}",
                        lambda ctx, p=place, g=geo, o=outcome: spoil(ctx, p, g, o)))
    return out
