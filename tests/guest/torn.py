# SPDX-License-Identifier: GPL-2.0
"""Torn writes: the power is cut at the n-th block that reaches the medium.

The medium is dm-platter: its `powercut` message ends a write after a given block, when its head has
destroyed what it passed over until then.  The host writes sequentially, in runs that begin
anywhere; the cuts are spread over all blocks that the workload puts on the medium, metadata
included.  Then the disk is powered up again (the platter is created again, with its damage on a
state device), and the suite compares:

  the medium  it has destroyed exactly the blocks that the geometry implies, which this suite
              computes independently from the writes in the head log
  the map     by the map that recovery finds, certain logical blocks lie there: reading these
              fails with a medium error, reading others does not
  the model   all other blocks hold what the model allows

With its volatile write cache on the drive loses the cache's contents, and only flushed data are
promised.  A delayed write of the cache must not destroy newer data: a drive with the cache and one
without get the same writes, and each block that the second can read must be readable on the first.

A layer that stages its bands, or moves them, must have no medium error at all.  With an `unsafe`
feature that `replay` does not show, some cuts must cause errors, or the test proved nothing.  The
blocks with errors stay unreadable while the target cleans, `shingle check` counts those that
cleaning has read, and a write to a block makes it readable again.

The suite also reproduces Skylight's Figure 2.23, to the sector.  With the virtual clock a cut falls
on the same block of the same write in every run.
"""

import contextlib
import errno
import random
import time

from guest import blk
from guest import media
from guest import targets
from guest.bench import expect, until
from guest.blk import BLOCK, SECTORS
from guest.model import Model, read_stamp, stamp

CHUNK = 4       # blocks of a write
SKEW = 2        # blocks of skew from one track to the next
BANDS = 12      # writes of a workload, in bands
CUTS = 12       # scripts/experiments torn uses 50
LUCK = 60       # most further cuts, made until one has the effect under test


class Plate:
    """A model of the blocks that a wide head destroys; the medium is conventional outside [first,
    end)."""

    def __init__(self, track, head, skew, first, end, bad=()):
        self.track, self.head, self.skew = track, head, skew
        self.first, self.end, self.bad = first, end, set(bad)

    def write(self, block, n):
        for b in range(block, block + n):
            self.bad.discard(b)
            if not self.first <= b < self.end:
                continue
            row, column = divmod(b - self.first, self.track)
            angle = column + row * self.skew
            for r in range(row + 1, row + self.head):
                hit = self.first + r * self.track + \
                    (angle - r * self.skew) % self.track
                if hit < self.end:
                    self.bad.add(hit)


def ruined(platter, blocks):
    """Return the numbers of the blocks that the medium reports as destroyed."""
    out = set()
    for line in platter.message(f"damaged 0 {blocks}").splitlines():
        start, n = map(int, line.split())
        out.update(range(start, start + n))
    return out


def unreadable(dev, blocks):
    """Return the contents of every block, None where the medium has an error."""
    out = []
    for b in range(blocks):
        try:
            out.append(dev.read(b))
        except OSError as error:
            expect(error.errno == errno.ENODATA,
                   f"block {b} fails with {errno.errorcode[error.errno]}, "
                   "which is no medium error")
            out.append(None)
    return out


class Bench:
    """A formatted disk, all written and cleaned; restore() puts its contents back for each cut.
    """

    def __init__(self, ctx, geo, wcache):
        self.geo, self.wcache = geo, wcache
        self.forgotten = 0      # blocks lost from the drive's write cache
        self.made = targets.stack(ctx.pool, ctx.target, geo, False)
        self.store = self.made.under[0]
        self.blocks = self.store.blocks
        self.state = ctx.pool.slice(1 + -(-self.blocks // 32640), "state")
        self.kept = [*self.made.under, self.state]
        # Only areas on the medium; writes to flash are not torn.
        self.areas = {role: area for role, area in ctx.target.areas(geo).items()
                      if area[0] == "data"}
        # Metadata, and pages of a map, lie on conventional tracks at both ends.
        self.first = min(self.areas[role][1] for role in ("data", "staging",
                                                          "cache")
                         if role in self.areas)
        behind = self.areas["pages"][1] if "pages" in self.areas else self.blocks - 1
        self.end = behind // geo.track * geo.track
        self.platter = None
        self.power_on()
        self.made.format()
        model = self.model()
        self.made.open()
        with self.made.blk() as dev:
            for b in range(0, geo.logical, CHUNK):
                dev.write(b, model.data(model.history[0][0])
                          [b * BLOCK:(b + CHUNK) * BLOCK])
            dev.flush()
        self.made.device.message("clean")
        self.made.close()
        self.power_off()
        self.image = [self._read(device) for device in self.kept]

    @staticmethod
    def _read(device):
        with blk.opened(device.path) as dev:
            return dev.read(0, device.blocks)

    def model(self):
        """Return the model of the saved disk: version 1 everywhere, promised."""
        model = Model(self.geo.logical)
        model.ack(model.submit(0, self.geo.logical))
        model.flushed(model.tick())
        return model

    def restore(self):
        for device, image in zip(self.kept, self.image):
            with blk.opened(device.path) as dev:
                dev.write(0, image)

    def power_on(self):
        # The cache empties when it is half full or flushed, never by the clock.
        cache = {"wcache": "on", "wcache_kib": 128, "wcache_idle_ms": 3600000}
        self.platter = media.platter(
            "medium", self.store, self.geo, track_skew=SKEW * SECTORS,
            **(cache if self.wcache else {}),
            conventional=f"0+{self.first * SECTORS},"
                         f"{self.end * SECTORS}+{(self.blocks - self.end) * SECTORS}",
            state=self.state.path, headlog=4096)
        self.made.paths["data"] = self.platter.path

    def power_off(self):
        platter, self.platter = self.platter, None
        platter.remove()

    def place(self, block):
        """Return the place of a block in words."""
        for name, (_, start, n) in self.areas.items():
            if start <= block < start + n:
                if name in ("journal", "checkpoint", "superblock", "pages"):
                    return name
                band, at = divmod(block - start, self.geo.stride)
                return f"{name} band {band}, block {at}"
        return "superblock"


def write_on(dev, model, geo, rng, sync):
    """Write sequentially, with a FLUSH after every @sync writes; return False when the power is
    cut."""
    at = left = n = 0
    for _ in range(BANDS * geo.band // CHUNK):
        if left <= 0 or at >= geo.logical:
            at = rng.randrange(geo.logical)
            left = rng.randrange(geo.band, 3 * geo.band)
        op = model.submit(at, min(CHUNK, geo.logical - at))
        try:
            dev.write(at, model.data(op))
            model.ack(op)
            n += 1
            if n % sync == 0:
                sent = model.tick()
                dev.flush()
                model.flushed(sent)
        except OSError:
            return False
        at, left = at + op.n, left - op.n
    return True


def measure(bench, seed, sync):
    """Return the number of blocks that the whole workload puts on the medium."""
    bench.restore()
    bench.power_on()
    device = bench.made.open()
    bench.platter.message("stats_clear")
    with bench.made.blk() as dev:
        expect(write_on(dev, bench.model(), bench.geo, random.Random(seed),
                        sync), "a write failed and nobody had cut the power")
    written = media.numbers(bench.platter.message("stats"))
    expect(not media.numbers(device.message("stats"))["r0_violations"],
           "R0 was violated")
    bench.made.bypassed()
    bench.made.close()
    bench.power_off()
    return written["media_blocks_written"]


def cut(bench, at, seed, sync):
    """Run the workload until the power is cut at block @at, and power the disk up again; expect
    that the medium has destroyed the blocks that Plate predicts.  Return the model, the place of
    the last block written, and the destroyed blocks."""
    bench.restore()
    bench.power_on()
    bench.made.open()
    plate = Plate(bench.geo.track, bench.geo.head, SKEW, bench.first, bench.end,
                  ruined(bench.platter, bench.blocks))
    bench.platter.message("headlog clear")
    bench.platter.message(f"powercut {at}")
    model = bench.model()
    with bench.made.blk() as dev:
        if write_on(dev, model, bench.geo, random.Random(seed), sync):
            # The host is done; a cleaning step still has to write up to block @at.
            until(lambda: bench.platter.status(noflush=True).endswith("fail"),
                  f"the power fails at block {at}")
    bench.made.close()
    bench.forgotten += media.numbers(
        bench.platter.message("stats"))["wcache_lost_blocks"]
    written = 0
    for line in bench.platter.message("headlog").splitlines():
        op, block, n = line.split()[1:4]
        if op in "wd":
            plate.write(int(block), int(n))
            written, last = written + int(n), int(block) + int(n) - 1
    expect(written == at, f"{written} blocks are on the medium, not {at}")
    expect(ruined(bench.platter, bench.blocks) == plate.bad,
           f"cut at {at}: the medium has not ruined what the geometry says")
    bench.power_off()
    bench.power_on()
    expect(ruined(bench.platter, bench.blocks) == plate.bad,
           f"cut at {at}: powered up again, other blocks are ruined")
    return model, bench.place(last), plate.bad


def lost(model, found):
    """Describe each readable block with contents that the model does not allow after the cut."""
    sent = model.sent_by(model.marks)
    wrong = []
    for b, data in enumerate(found):
        if data is None:
            continue
        version, why = read_stamp(data, b)
        may = model.after_cut(b, model.marks, sent)
        if version not in may:
            wrong.append(f"block {b} holds {why or version}, promised: "
                         f"{sorted(may)}")
    return wrong


def read_all(bench):
    with bench.made.blk() as dev:
        return unreadable(dev, bench.geo.logical)


def errors(found):
    return [b for b, data in enumerate(found) if data is None]


def mend(bench, hard, text):
    """Write the unreadable blocks of an open stack, and expect that this makes them readable."""
    with bench.made.blk() as dev:
        for b in hard:
            dev.write(b, text)
        dev.flush()
        found = unreadable(dev, bench.geo.logical)
    expect(not errors(found) and all(found[b] == text for b in hard),
           "blocks that were overwritten cannot be read")
    bench.made.device.message("clean")
    expect(read_all(bench) == found, "cleaning has changed what is there")


def told(bench, met):
    """Expect that `shingle check` of the closed stack reports as many unreadable blocks as @met
    has: those that cleaning could not read."""
    status, text = bench.made.target.check(bench.made.paths, bench.geo)
    expect(status == 0, f"shingle check ended with {status}: {text[-600:]}")
    said = f"{len(met)} blocks are known to be unreadable" in text
    expect(said if met else "unreadable" not in text,
           f"{len(met)} blocks are unreadable, shingle check says: {text}")


def revive(bench, at, model, bad, clean):
    """Check the disk after the cut: reads fail for exactly the blocks that lie on destroyed places
    (@bad), cleaning (@clean) does not change that, and writes make these blocks readable.  Return
    (the unreadable blocks, descriptions of blocks with wrong contents)."""
    made = bench.made
    made.check()
    where = made.target.lies(made.paths, bench.geo)
    expect(len(where) == bench.geo.logical, "the map has lost blocks")
    where = {b: block for b, (device, block) in where.items() if device == "DATA"}
    predicted = [b for b, block in sorted(where.items()) if block in bad]
    # Cleaning meets only blocks of bands with something to clean.
    _, start, n = bench.areas.get("cache", (None, 0, 0))
    dirty = {b // bench.geo.band for b, block in where.items() if start <= block < start + n}
    met = [b for b in predicted if b // bench.geo.band in dirty]
    made.open()
    # The first FLUSH may fail: it reports what the cut has lost.
    with made.blk() as dev, contextlib.suppress(OSError):
        dev.flush()
    found = read_all(bench)
    made.verify()
    hard, wrong = errors(found), lost(model, found)
    expect(hard == predicted, f"cut at {at}: blocks {hard} cannot be read, by "
                              f"the geometry it should be {predicted}")
    if clean:
        # Cleaning keeps unreadable blocks unreadable and changes no others.
        made.device.message("clean")
        expect(read_all(bench) == found, f"cut at {at}: cleaning has changed "
                                         "what is there")
        made.verify()
        made.close()
        told(bench, met)
        made.open()
        expect(read_all(bench) == found, f"cut at {at}: opening it again has "
                                         "changed what is there")
    mend(bench, hard, b"mended..." + bytes(BLOCK - 9))
    made.verify()
    made.close()
    told(bench, [])
    bench.power_off()
    return hard, wrong


def cuts(ctx, geo, features, wcache, count, seed):
    """Yield for each cut (block, its place, model, blocks with medium errors, sentences about
    others with wrong contents).  Go beyond @count only while no cut has had the effect under test.
    """
    geo = geo.but(features=features)
    bench = Bench(ctx, geo, wcache)
    # With a flush after every write, no block but those of the torn write may be lost.
    sync = 1 if features else 3
    total = measure(bench, seed, sync)
    rng = random.Random(seed)
    drawn = sorted(rng.sample(range(1, total), min(count, total - 1)))
    more = rng.sample(range(1, total), min(LUCK, total - 1))
    tore = False
    for i, at in enumerate(drawn + more):
        if i >= count and (tore or not features) and \
                (bench.forgotten or not wcache):
            break
        model, place, bad = cut(bench, at, seed, sync)
        hard, wrong = revive(bench, at, model, bad, i % 2 == 0)
        tore = tore or bool(hard)
        yield at, place, model, hard, wrong
    expect(bool(bench.forgotten) == wcache,
           f"the write cache has lost {bench.forgotten} blocks")


def torn(ctx, geo, features, wcache, count, seed):
    points = promises = hard = with_hard = 0
    wrong = []
    for at, place, model, gone, bad in cuts(ctx, geo, features, wcache, count,
                                           seed):
        points, promises = points + 1, promises + model.marks
        hard, with_hard = hard + len(gone), with_hard + bool(gone)
        wrong += [f"cut at {at} ({place}): {s}" for s in bad]
        if not features:
            wrong += [f"cut at {at} ({place}): blocks {gone} are torn"] * \
                bool(gone)
    ctx.note(f"{points} cuts, {with_hard} with medium errors: {hard} blocks")
    expect(not wrong, f"{len(wrong)} violations, {wrong[:3]}")
    expect(with_hard or not features, "no cut tore anything")
    return {"points": points, "promises": promises, "lost": 0, "hard": hard}


# Skylight, Figure 2.23: (sectors written before the cut, [(first corrupt sector, end)]).
FIGURE = (
    (4000, [(4000, 8000)]),
    (5000, [(5000, 8000), (11000, 12000)]),
    (8000, [(8000, 12000)]),
    (12000, []),
)


def ranges(blocks):
    """Return blocks as [(first sector, end)]."""
    out = []
    for b in sorted(blocks):
        if out and out[-1][1] == b * SECTORS:
            out[-1] = (out[-1][0], (b + 1) * SECTORS)
        else:
            out.append((b * SECTORS, (b + 1) * SECTORS))
    return out


def torn_band(made, written):
    """Write a band of three tracks until the power is cut; return the sectors with medium errors.
    """
    old, new = b"o" * BLOCK, b"n" * BLOCK
    made.paths["data"] = made.under[0].path
    with blk.opened(made.under[0].path) as dev:
        dev.write(0, old * 1500)
    platter = media.platter("medium", made.under[0], made.geo,
                            head_tracks="1.5", track_skew=1000)
    made.paths["data"] = platter.path
    made.open()
    platter.message(f"powercut {written // SECTORS}")
    with made.blk() as dev:
        try:
            for b in range(0, 1500, 100):
                dev.write(b, new * 100)
        except OSError:
            expect(written < 12000, "a write failed, but all was written")
        platter.message("powercut off")
        found = unreadable(dev, 1500)
        bad = set(errors(found))
        for b in set(range(1500)) - bad:
            expect(found[b] == (new if b * SECTORS < written else old),
                   f"cut after sector {written}: sector {b * SECTORS} holds "
                   "something else")
        plate = Plate(500, 2, 125, 0, 1500)
        plate.write(0, written // SECTORS)
        expect(plate.bad == bad, "this suite works the geometry out otherwise")
        # Continue to the end of the band: each write makes its block readable and destroys only
        # blocks of the next track, which are written later.
        for b in range(min(bad, default=1500), 1500):
            dev.write(b, new)
        expect(not errors(unreadable(dev, 1500)),
               f"cut after sector {written}: overwriting does not mend")
    made.close()
    platter.remove()
    return ranges(bad)


def figure(ctx):
    """Skylight's Figure 2.23: three tracks of 4,000 sectors, a head of 1.5 tracks, a skew of 1,000
    sectors.  After each cut exactly the sectors of the figure are corrupt."""
    made = targets.stack(ctx.pool, targets.TARGETS["linear"], targets.Geometry(
        "figure", band=1500, data=1, track=500, head=2))
    for written, corrupt in FIGURE:
        found = torn_band(made, written)
        expect(found == corrupt, f"cut after sector {written}: {found} are "
                                 f"corrupt, not {corrupt}")
        ctx.note(f"cut after sector {written}: corrupt " + (", ".join(
            f"{a:,}-{b - 1:,}" for a, b in found) or "nothing"))
    return {"cuts": len(FIGURE)}


class Pair:
    """Two equal drives, one with a write cache and one without, which receive the same writes."""

    def __init__(self, ctx, kind, seed):
        self.rng = random.Random(f"{kind}{seed}")
        self.track, self.tracks = 16, 24
        self.blocks = self.track * self.tracks
        geo = targets.Geometry("pair", band=self.track, data=self.tracks,
                               track=self.track, head=3)
        self.drives = []
        for name, keys in (("plain", {}), ("cached", {
                "wcache": "on", "wcache_kib": 4 * 48, "wcache_idle_ms": 1,
                "timing": "model", "time_scale": 100})):
            under = ctx.pool.slice(self.blocks, f"{name}-store")
            self.drives.append(media.platter(
                name, under, geo, kind, track_skew=SKEW * SECTORS,
                conventional=f"{8 * self.track * SECTORS}+{self.track * SECTORS}",
                **keys))
        self.devs = [blk.Blk(drive.path) for drive in self.drives]
        self.queues = [blk.Aio(dev, 1) for dev in self.devs]
        self.newest = {}

    def write(self, block, n, version, fua):
        data = b"".join(stamp(b, version) for b in range(block, block + n))
        for queue in self.queues:
            queue.write(block, data, None, fua)
            (_, result, _), = queue.reap()
            expect(result == len(data), f"a write ended with {result}")
        self.newest.update((b, version) for b in range(block, block + n))

    def step(self, version):
        rng = self.rng
        # Mostly short writes, many of them to the first tracks, so that the head destroys often.
        n = rng.choice((1, 1, 2, 3, self.track, 2 * self.track))
        at = rng.randrange(rng.choice((3, 6, self.tracks))) * self.track
        self.write(min(at + rng.randrange(self.track), self.blocks - n), n, version,
                   rng.random() < .2)
        what = rng.random()
        if what < .03:
            self.devs[1].flush()
        elif what < .05:
            self.drives[1].message("wcache off")
            self.drives[1].message("wcache on")
        elif what < .5:
            time.sleep(rng.random() * .004)

    def compare(self):
        self.devs[1].flush()
        plain, cached = (ruined(drive, self.blocks) for drive in self.drives)
        expect(not cached - plain,
               f"destroyed only with the cache: {sorted(cached - plain)}")
        for b in set(range(self.blocks)) - cached:
            version, why = read_stamp(self.devs[1].read(b), b)
            expect(version == self.newest.get(b, 0),
                   f"block {b} holds {why or version}, not {self.newest.get(b, 0)}")
        return len(plain), len(cached)

    def close(self):
        for each in (*self.queues, *self.devs):
            each.close()
        for drive in self.drives:
            drive.remove()


def ordered(ctx, kind, seed):
    """The write cache must not reorder writes so that one destroys newer data: a block that is
    destroyed on the drive with the cache is also destroyed on the drive without it."""
    pair = Pair(ctx, kind, seed)
    for version in range(1, 401):
        pair.step(version)
        if version % 80 == 0:
            plain, cached = pair.compare()
    done = media.stats(pair.drives[1])
    pair.close()
    expect(done["wcache_writes"] and done["fua_writes"] and plain,
           f"too little was tried: {done}")
    return {"writes": done["writes"], "destages": done["wcache_destages"],
            "plain": plain, "cached": cached}


def cases(target, options):
    count, seed = int(options.get("cuts", CUTS)), int(options.get("seed", 1))
    return [("figure 2.23", figure)] + [
        (f"the drive's cache, {kind}", lambda ctx, k=kind: ordered(ctx, k, seed))
        for kind in ("smr", "imr")] + [
        (f"{geo.name} {' '.join(features) or 'safe'}"
         f"{', write cache' if wcache else ''}: {count} cuts",
         lambda ctx, g=geo, f=features, w=wcache:
         torn(ctx, g, f, w, count, seed))
        for geo in target.geometry("torn")
        for features in ((), *((f,) for f in target.torn_by(geo)))
        for wcache in (False, True)]
