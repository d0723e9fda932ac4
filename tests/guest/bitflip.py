# SPDX-License-Identifier: GPL-2.0
"""Damaged metadata: one flipped bit in any metadata block, and random fields under a valid
checksum.

One bit is flipped after a clean close.  If its block is in use, `shingle check` must report it.
Activation may then fail; or succeed with all data right (there are two superblocks); or, when the
newest journal transaction was hit, return to an older state, because a damaged end of the journal
looks like one torn by a power cut.  The blocks of a damaged map page are unreadable, unless the
journal has their places.  A block never reads as data that were not once written to it.  `shingle
repair` then either makes the device clean for `shingle check` or reports that it cannot.

Blocks with random fields and a valid checksum must not crash the kernel or the tool, and must not
make a block return data that were never written to it.
"""

import os
import random

from guest import blk
from guest import ondisk
from guest.bench import Failure, expect
from guest.blk import BLOCK
from guest.model import Model, read_stamp
from guest.targets import stack


class Patient:
    """A device that was used and closed; reset() restores its contents after each damage."""

    def __init__(self, ctx, geo, seed):
        self.ctx, self.geo = ctx, geo
        self.stack = stack(ctx.pool, ctx.target, geo)
        self.model = Model(geo.logical)
        self.rng = random.Random(seed)
        self.meta, _, _ = ctx.target.areas(geo)["journal"]
        self._use()
        self.images = {p: self._read(p) for p in self.stack.paths.values()}

    def _use(self):
        """Put data into every structure: native places, cache, checkpoint, journal."""
        self.stack.open()
        with self.stack.blk() as dev:
            for i in range(80):
                self._write(dev, self.rng.choice((1, 2, 5)))
                if i % 7 == 0:
                    dev.flush()
                if i == 70:
                    self.stack.device.message("checkpoint")
            if self.ctx.target.paged or self.ctx.target.angles:
                # A second checkpoint after a few more pages have changed.
                self.stack.device.message("checkpoint")
                self._write(dev, 1)
            dev.flush()
        self.stack.close()
        self.stack.check()

    def _write(self, dev, n):
        start = self.rng.randrange(self.geo.logical)
        op = self.model.submit(start, min(n, self.geo.logical - start))
        dev.write(start, self.model.data(op))
        self.model.ack(op)

    @staticmethod
    def _read(path):
        with blk.opened(path) as dev:
            return dev.read(0, blk.size(path))

    def reset(self):
        for path, image in self.images.items():
            with blk.opened(path) as dev:
                dev.write(0, image)

    def image(self, which=None):
        return self.images[self.stack.paths[which or self.meta]]

    def block(self, at, which=None):
        return bytearray(self.image(which)[at * BLOCK:(at + 1) * BLOCK])

    def put(self, at, data, which=None):
        with blk.opened(self.stack.paths[which or self.meta]) as dev:
            dev.write(at, bytes(data))

    def headers(self):
        """Return the header blocks of the other devices: {(device, block): kind}."""
        return {(which, at): f"{kind} of {which}"
                for which, places in self.ctx.target.headers(self.geo).items()
                for kind, at in zip(("header", "second header"), places)}

    def live(self):
        """Return the metadata blocks in use, {block: kind}, by this test's own parser."""
        areas = self.ctx.target.areas(self.geo)
        size = len(self.image()) // BLOCK
        sb = ondisk.read_super(self.block(0))
        out = {0: "superblock", size - 1: "second superblock"}
        slots = [ondisk.checkpoints(sb, slot, self.block) for slot in range(2)]
        newest = max((parts for parts in slots if parts),
                     key=lambda parts: parts[-1][0])
        for _, block, _, chunks in newest:
            out[block] = "footer"
            out.update(dict.fromkeys(chunks, "chunk"))
        foot = newest[-1][2]
        _, first, length = areas["journal"]
        seq, pos = foot[1], foot[2]
        last = None
        while True:
            head = self.block(first + pos)
            if not ondisk.sound(head, ondisk.JOURNAL) or \
                    ondisk.HEADER.unpack_from(head)[4] not in (seq, seq + 1):
                break
            if ondisk.HEADER.unpack_from(head)[4] != seq and last is None:
                break
            seq = ondisk.HEADER.unpack_from(head)[4]
            if first + pos in out:
                break
            out[first + pos] = "journal"
            last = first + pos
            pos = (pos + 1) % length
        if "pages" in areas:
            out.update(dict.fromkeys(self.pages(newest), "page"))
        return out

    def pages(self, newest):
        """Return the places of pages by the last of these checkpoints."""
        _, start, blocks = self.ctx.target.areas(self.geo)["pages"]
        places = ondisk.places(newest, self.block, blocks // 2)
        return [start + 2 * page + place - 1 for page, place in places.items()]

    def name(self, at):
        """Return the name of a page of the map."""
        _, start, _ = self.ctx.target.areas(self.geo)["pages"]
        return f"page {(at - start) // 2} of the map"

    def look(self, exact, strangers=False):
        """Activate the device and compare it.  Return 'refused'; 'right'; 'unreadable' if some
        blocks are and the others are right; or 'older' if some hold older data.

        @exact: only 'refused' and 'right' are allowed
        @strangers: a block may hold what was written to another one."""
        try:
            self.stack.open()
        except OSError:
            said = [line for line in self.ctx.kernel()
                    if "shingle" in line or "target: " in line
                    or "stl" in line]
            expect(said, "refused without a word in the log")
            return "refused"
        try:
            right = readable = True
            with self.stack.blk() as dev:
                for b in range(self.geo.logical):
                    try:
                        data = dev.read(b)
                    except OSError:
                        readable = False
                        continue
                    version, why = read_stamp(data, b)
                    if strangers and why.startswith("the content of"):
                        right = False
                        continue
                    known = {op.version for op in self.model.history[b]} | {0}
                    expect(version in known, f"block {b} holds "
                                             f"{why or version}")
                    right = right and version in self.model.current(b)
            self.stack.verify()
        finally:
            self.stack.close()
        expect(right and readable or not exact, "an older state, and check had no "
                                                "objection")
        return "older" if not right else "right" if readable else "unreadable"

    def check(self, names=""):
        """Run `shingle check`; return its status.  If it finds damage, its output must contain
        @names."""
        status, text = self.ctx.target.check(self.stack.paths, self.geo)
        expect(status in (0, 4, 8), f"check ended with {status}: {text}")
        expect(not status or names in text, f"not a word of {names}: {text}")
        return status

    def repair(self):
        status, text = self.ctx.target.repair(self.stack.paths, self.geo)
        expect(status in (0, 1, 4, 8), f"repair ended with {status}: {text}")
        if status in (0, 1):
            expect(self.check() == 0, "repaired, and yet not clean")
            # Repair may return to an older state, and reports blocks overwritten since.
            saw = self.look(False, "data of other blocks" in text)
            expect(saw != "refused", "repaired, and refused")
        return status


def flips(ctx, geo, seed, kinds, per_block):
    patient = Patient(ctx, geo, seed)
    live = {(patient.meta, at): kind for at, kind in patient.live().items()}
    live.update(patient.headers())
    rng, tally = random.Random(seed), {}
    blocks = [b for b, kind in live.items() if kind.split(" of ")[0] in kinds]
    expect(blocks, f"the device has no {' or '.join(kinds)}")
    for which, at in blocks:
        kind = live[which, at]
        for _ in range(per_block):
            bit = rng.randrange(BLOCK * 8) if rng.random() < .5 else \
                rng.randrange(128 * 8)
            data = patient.block(at, which)
            data[bit // 8] ^= 1 << bit % 8
            patient.reset()
            patient.put(at, data, which)
            what = f"{kind} in block {at}, bit {bit}"
            try:
                status = patient.check(patient.name(at) if kind == "page" else "")
                expect(status, "check found nothing")
                ctx.kernel()
                saw = patient.look(False)
                expect(saw != "unreadable" or kind == "page", "some of it cannot be read")
                if saw == "older":
                    expect(kind == "journal", "an older state")
                    expect(any("is damaged and dropped" in line for line in ctx.kernel()),
                           "an older state, and not a word in the log")
                expect(saw == "right" or "header" not in kind,
                       "the other copy is there")
                patient.reset()
                patient.put(at, data, which)
                repaired = patient.repair()
            except (Failure, OSError) as error:
                raise Failure(f"{what}: {error}") from error
            key = f"{saw}, {'repaired' if repaired < 2 else 'beyond repair'}"
            tally[key] = tally.get(key, 0) + 1
    ctx.note(f"{len(blocks)} blocks: " +
             ", ".join(f"{v} {k}" for k, v in sorted(tally.items())))
    return tally


def dead(ctx, geo, seed, count):
    """A flipped bit in a block that is not in use changes no data: activation either finds all data
    right, or it fails and `shingle check` has objected as well."""
    patient = Patient(ctx, geo, seed)
    live = patient.live()
    rng = random.Random(seed)
    areas = ctx.target.areas(geo)
    room = [b for area in ("journal", "checkpoint", "pages") if area in areas
            for b in range(areas[area][1], areas[area][1] + areas[area][2])
            if b not in live]
    # The footer of the older checkpoint is not needed, but its loss is reported.
    room = [b for b in room if not ondisk.sound(patient.block(b),
                                                ondisk.FOOTER)]
    right = 0
    for _ in range(count):
        at = rng.choice(room)
        data = patient.block(at)
        bit = rng.randrange(BLOCK * 8)
        data[bit // 8] ^= 1 << bit % 8
        patient.reset()
        patient.put(at, data)
        clean = patient.check() == 0
        saw = patient.look(clean)
        expect(saw in ("right", "refused") and (saw == "right" or not clean),
               f"block {at}, bit {bit}: check {'clean' if clean else 'not'}, "
               f"then {saw}")
        right += saw == "right"
    ctx.note(f"{right} of {count} activated with everything right")
    return {"right": right}


def crafted(ctx, geo, seed, count):
    """Random fields under a valid checksum."""
    patient = Patient(ctx, geo, seed)
    live = {(patient.meta, at): kind for at, kind in patient.live().items()}
    live.update(patient.headers())
    rng, tally = random.Random(seed), {}
    odd = [0, 1, 2, 3, 7, 0xff, 0x7fff, 0xffff, 1 << 31, (1 << 32) - 1,
           1 << 55, 1 << 56, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    for _ in range(count):
        which, at = rng.choice(list(live))
        kind = live[which, at]
        data = patient.block(at, which)
        for _ in range(rng.choice((1, 1, 2, 5))):
            # Fields begin at 40; groups at 512, media at 1152; payload and records at 56.
            end = 1300 if "superblock" in kind else 400
            width = rng.choice((1, 2, 4, 8))
            where = rng.randrange(40, end, width) // width * width
            value = rng.choice(odd) if rng.random() < .7 else \
                rng.getrandbits(64)
            data[where:where + width] = (value & ((1 << 8 * width) - 1)) \
                .to_bytes(width, "little")
        seq = rng.choice((None, None, None, 0, (1 << 64) - 1,
                          rng.getrandbits(64)))
        patient.reset()
        patient.put(at, ondisk.seal(data, seq=seq), which)
        if kind == "superblock" and rng.random() < .8:
            # Both copies have the same random fields.
            twin = len(patient.image()) // BLOCK - 1
            patient.put(twin, ondisk.seal(data, at=twin, seq=seq))
        patient.check()
        try:
            patient.stack.open()
            saw = "activated"
            with patient.stack.blk() as dev:
                try:
                    dev.read(0, 1)
                    dev.write(0, os.urandom(BLOCK))
                    patient.stack.device.message("verify")
                    patient.stack.device.message("clean")
                    dev.flush()
                except OSError:
                    saw = "activated, then errors"
        except OSError:
            saw = "refused"
        patient.stack.close()
        patient.ctx.target.repair(patient.stack.paths, geo)
        key = f"{kind} {saw}"
        tally[key] = tally.get(key, 0) + 1
    ctx.note(", ".join(f"{v} {k}" for k, v in sorted(tally.items())))
    return tally


def cases(target, options):
    if not target.persistent:
        return []
    seed = int(options.get("seed", 1))
    per = int(options.get("flips", 12))
    out = []
    for geo in target.geometry("bitflip"):
        out += [(f"{geo.name}: {name}", lambda c, g=geo, k=kinds, p=per:
                 flips(c, g, seed, k, p))
                for name, kinds in (
                    ("superblock", ("superblock",)),
                    ("second superblock", ("second superblock",)),
                    ("footer", ("footer",)), ("chunk", ("chunk",)),
                    ("journal", ("journal",)),
                    *((("page", ("page",)),) if target.paged else ()))]
        if target.headers(geo):
            out.append((f"{geo.name}: headers of other devices",
                        lambda c, g=geo: flips(
                            c, g, seed, ("header", "second header"), per)))
        out.append((f"{geo.name}: blocks that do not count",
                    lambda c, g=geo: dead(c, g, seed, 3 * per)))
        out.append((f"{geo.name}: crafted",
                    lambda c, g=geo: crafted(c, g, seed, 20 * per)))
    return out
