# SPDX-License-Identifier: GPL-2.0
"""Power cuts: record a workload with dm-log-writes, rebuild states of the disks that a cut could
have left, activate each and compare it with what was promised (acknowledged and flushed).

All devices of the target are cut by dm-linear from ONE dm-log-writes device, so that the log holds
their writes in one order:

 target -> data, meta, cache (linear) -> log-writes -> RAM, and the log

Crash points are

- after every FLUSH and FUA entry and every mark (which follows a promise), with all writes in the
  disk's cache;
- a sample of the instants before these entries and between them, with none of the cached writes and
  with random subsets of their blocks.

At each crash point the target is activated, ALL blocks are compared, the engine verifies its
invariants, and `shingle check` must find no error.  At some crash points the power is cut again
right after activation, or the target cleans all bands and the blocks are compared once more.
"""

import errno
import hashlib
import os
import random
import time

from guest import blk
from guest import dm
from guest.bench import Failure, expect, modprobe, run
from guest.blk import BLOCK, SECTORS
from guest.logwrites import FLUSH, FUA, MARK, Disk, Log
from guest.model import Model, read_stamp
from guest.targets import GEOMETRIES, Stack

ORDER = ("meta", "data", "cache")


def split(base, target, geo):
    """Cut the target's devices from one device @base; return ({device: path}, the dm devices).
    Without @base return only the number of blocks that all of them need."""
    out, at = [], 0
    for which in ORDER:
        blocks = target.sizes(geo)[which]
        if blocks:
            out.append((which, at, blocks))
            at += blocks
    if base is None:
        return at
    paths, under = {}, []
    for which, first, blocks in out:
        under.append(dm.linear(f"{base.name}-{which}",
                               [(base.path, first * SECTORS,
                                 blocks * SECTORS)]))
        paths[which] = under[-1].path
    return paths, under


def destroys(target, geo):
    """Return target.destroys(), with block numbers of the device that split() cuts."""
    of_data = target.destroys(geo)
    at = 0
    for which in ORDER:
        if which == "data":
            break
        at += target.sizes(geo)[which]
    if not of_data:
        return None
    size = target.sizes(geo)["data"]
    return lambda block: [(at + first, n) for first, n in of_data(block - at)] \
        if at <= block < at + size else []


def medium(ctx, geo, log, blocks, rng):
    """Return the Disk that replays @log.  An interlaced drive writes its cache in any order; a
    shingled one keeps the order where a write destroys something, see torn.py."""
    return Disk(log, blocks, destroys(ctx.target, geo),
                rng if ctx.target.medium == "imr" else None)


class Recorder:
    """The target over dm-log-writes; the log begins after formatting."""

    def __init__(self, ctx, geo, log_blocks):
        expect(modprobe("dm-log-writes"), "no dm-log-writes in this kernel")
        self.ctx, self.geo = ctx, geo
        self.blocks = split(None, ctx.target, geo)
        self.disk = ctx.pool.slice(self.blocks, "disk")
        self.tape = ctx.pool.slice(log_blocks, "tape", wipe=False)
        self.before = None
        # The log begins after formatting.
        paths, under = split(self.disk, ctx.target, geo)
        ctx.target.format(paths, geo)
        for device in under:
            device.remove()
        with blk.opened(self.disk.path) as dev:
            self.before = dev.read(0, self.blocks)
        self.logger = dm.Device("logger", [
            (0, self.blocks * SECTORS, "log-writes",
             f"{self.disk.path} {self.tape.path}")])
        paths, self.under = split(self.logger, ctx.target, geo)
        self.stack = Stack(ctx.target, geo, paths)
        self.stack.open()

    def mark(self, number):
        self.logger.message(f"mark {number}")

    def finish(self):
        """Close everything; return the log."""
        self.stack.close()
        for device in [*self.under, self.logger]:
            device.remove()
        return Log(self.tape.path)


def workload(dev, mark, blocks, rng, ops, in_place, lie=False):
    """Write, discard, zero, flush and read at random; return the model of what was promised.

    dm-log-writes logs a plain write at the next flush, but a FUA write at once, so of a plain and a
    FUA write to the same place the older may be logged last.

    @in_place: the target overwrites blocks in place; make no FUA write to blocks not flushed yet
    @lie: promise as usual but send no flush and no FUA, to show that the harness notices the loss.
    """
    model = Model(blocks)
    queue = blk.Aio(dev, 16)
    flying, dirty = set(), set()
    hot = [rng.randrange(blocks) for _ in range(4)]
    walk = [0, 0]       # where sequential writes go on, and how many are left

    def reap(at_least):
        for op, result, _ in queue.reap(at_least):
            expect(result == op.n * BLOCK, f"write of {op.n} at {op.block} "
                                           f"returned {result}")
            model.ack(op)
            flying.difference_update(range(op.block, op.block + op.n))
            if op.promised < 0:
                mark(model.promise(op))

    def length(start):
        return min(rng.choice((1, 1, 1, 2, 3, 5, 8, 17)), blocks - start)

    def step():
        """Return the blocks after those of the last step."""
        start = walk[0] % blocks
        n = length(start)
        while flying.intersection(range(start, start + n)):
            reap(1)
        walk[:] = start + n, walk[1] - 1
        return start, n

    def room():
        while True:
            start = rng.randrange(blocks) if rng.random() < .6 else min(
                blocks - 1, rng.choice(hot) + rng.randrange(4))
            n = length(start)
            if not flying.intersection(range(start, start + n)):
                return start, n
            reap(1)

    for _ in range(ops):
        dice = rng.random()
        if queue.flying >= queue.depth or dice < .10:
            reap(min(queue.flying, rng.randrange(1, 9)))
        if dice < .72 and not walk[1] and rng.random() < .08:
            walk[1] = rng.randrange(2, 9)
        start, n = step() if dice < .72 and walk[1] else room()
        if dice < .72:
            op = model.submit(start, n)
            blocks_of = range(start, start + n)
            fua = dice < .08 and not (in_place and dirty & set(blocks_of))
            dirty.update(blocks_of)
            op.promised = -1 if fua else 0
            flying.update(blocks_of)
            queue.write(start, model.data(op), op, fua and not lie)
        elif dice < .78:
            op = model.submit(start, n, zero=dice < .75, soft=dice >= .75)
            (dev.discard if op.soft else dev.zero)(start, n)
            model.ack(op)
        elif dice < .86:
            sent = model.tick()
            if not lie:
                dev.flush()
                dirty = set(flying)
            mark(model.flushed(sent))
        else:
            # A read returns the last acknowledged write, durable or not.
            for b, data in zip(range(start, start + n), _blocks(dev, start,
                                                                n)):
                version, why = read_stamp(data, b)
                if b not in flying:
                    expect(version in model.current(b), f"reading block {b}: "
                           f"{why or version}, not {model.current(b)}")
    reap(queue.flying)
    queue.close()
    return model


def forgetful(dev, mark, blocks, _rng, ops, _in_place, _lie, n=8):
    """A load for shown_by: write and flush runs of @n blocks; then, before each further flush,
    discard one run and write another, which may reuse the space of the discarded one."""
    model = Model(blocks)

    def put(start):
        op = model.submit(start, n)
        dev.write(start, model.data(op))
        model.ack(op)

    half = blocks // 2 // n * n
    for start in range(0, half, n):
        put(start)
    _flush(dev, model, mark)
    for start in range(0, min(half, ops * n), n):
        op = model.submit(start, n, zero=True, soft=True)
        dev.discard(start, n)
        model.ack(op)
        put(half + start)
        _flush(dev, model, mark)
    return model


def updates(dev, mark, blocks, _rng, _ops, _in_place, _lie):
    """A load for shown_by: write and flush a pair of blocks, write both twice more, and the first
    once more.  In a region of six rows and one column this last write is a lazy one to row 0, while
    rows 0 and 1 hold flushed data."""
    model = Model(blocks)
    for a in range(0, 8, 2):
        _put(dev, model, a, a + 1)
        _flush(dev, model, mark)
        _put(dev, model, a, a + 1, a, a + 1, a)
        _flush(dev, model, mark)
    return model


def rows(dev, mark, blocks, _rng, _ops, _in_place, _lie, n=5):
    """A load for shown_by: for each run of @n blocks write its first block, all of them, flush, and
    write one more.  In regions with n + 1 places that last write makes the target clean, which in
    place would move rows 1 and up to rows 0 and up."""
    model = Model(blocks)
    for a in range(0, 4 * n, n):
        _put(dev, model, a, *range(a, a + n))
        _flush(dev, model, mark)
        _put(dev, model, a + 1)
        _flush(dev, model, mark)
    return model


def _put(dev, model, *blocks):
    for b in blocks:
        op = model.submit(b, 1)
        dev.write(b, model.data(op))
        model.ack(op)


def _flush(dev, model, mark):
    sent = model.tick()
    dev.flush()
    mark(model.flushed(sent))


def _blocks(dev, start, n):
    data = dev.read(start, n)
    return [data[i * BLOCK:(i + 1) * BLOCK] for i in range(n)]


def crash_points(disk, entries, rng, between, share):
    """Yield (description, image of the disk, last mark) for every crash point to try.

    @between: how many random subsets of the cache to try before a boundary
    @share: share of the boundaries at which subsets are tried."""
    for i, entry in enumerate(entries):
        boundary = bool(entry.flags & (FLUSH | FUA | MARK))
        if boundary and rng.random() < share:
            # Just before this entry any part of the cache may be lost.
            yield from _subsets(disk, f"before entry {i} ({entry.show()})",
                                rng, between)
        elif not boundary and rng.random() < between / 8:
            yield from _subsets(disk, f"within, before entry {i}", rng, 1)
        disk.apply(entry)
        if boundary:
            yield (f"after entry {i} ({entry.show()})",
                   disk.image(lambda _: True), disk.mark)
    yield "at the end", disk.image(lambda _: True), disk.mark


def _subsets(disk, what, rng, count):
    if not disk.pending:
        return
    yield what + ", nothing cached survived", disk.image(lambda _: False), \
        disk.mark
    for _ in range(count):
        share = rng.random()
        kept = {i for i in range(len(disk.pending)) if rng.random() < share}
        yield (f"{what}, {len(kept)} of {len(disk.pending)} cached blocks "
               f"survived", disk.image(lambda i: i in kept), disk.mark)


class Tally:
    """Counts crash points and violations; raises a Failure at the @limit-th bad crash point."""

    def __init__(self, limit):
        self.points = self.lost = self.recut = self.cleaned = 0
        self.limit = limit
        self.first = []

    def wrong(self, what, sentences):
        self.lost += len(sentences)
        self.first.append(f"{what}: {sentences[0]}" + (
            f" and {len(sentences) - 1} more" if len(sentences) > 1 else ""))
        if len(self.first) >= self.limit:
            raise Failure(self.text())

    def text(self):
        return (f"{self.lost} violations in {self.points} crash points:\n  " +
                "\n  ".join(self.first))


class Player:
    """A scratch device, to which images of crash points are written to activate the target."""

    def __init__(self, ctx, geo, blocks):
        self.scratch = ctx.pool.slice(blocks, "scratch")
        paths, self.under = split(self.scratch, ctx.target, geo)
        self.stack = Stack(ctx.target, geo, paths)
        self.disk = blk.Blk(self.scratch.path)
        self.blocks = blocks

    def load(self, image):
        # All I/O is direct, so that the slices show what is written to the scratch device.
        for at in range(0, self.blocks, 256):
            self.disk.write(at, image[at * BLOCK:(at + 256) * BLOCK])

    def cut(self):
        """Cut the power now; the disks keep all writes that they have received."""
        # Stop all writes first, so that the image is the state of one instant.
        for device in self.under:
            device.suspend(noflush=True, lockfs=False)
        image = self.disk.read(0, self.blocks)
        for device in self.under:
            device.resume()
        self.stack.close()
        self.load(image)

    def close(self):
        self.stack.close()
        self.disk.close()


# Errors of a read, of activation or of a message by which a device reports a loss.
LOST = (errno.EIO, errno.ENODATA, errno.EUCLEAN, errno.EROFS)


def violation(error):
    """Return the text of an error that the target caused; raise any other, as one of the harness.
    """
    if isinstance(error, OSError) and error.errno not in LOST:
        raise error
    return str(error)


def try_raw(player, model, image, mark, rng, tally, what):
    """Activate the target at one crash point, and count what contradicts the model.

    @mark: the last mark in the log, which says what had been promised."""
    tally.points += 1
    player.load(image)
    stack = player.stack
    try:
        stack.check()       # a transaction that the cut has torn is no damage
        stack.open()
        if rng.random() < .25:
            tally.recut += 1
            player.cut()
            stack.open()
        with stack.blk() as dev:
            wrong = model.compare(dev.read(0, model.blocks), mark)
            stack.verify()
            if not wrong and rng.random() < .2 and \
                    "clean" in stack.target.messages:
                tally.cleaned += 1
                stack.device.message("clean")
                wrong = ["after cleaning, " + s for s in model.compare(
                    dev.read(0, model.blocks), mark)]
                stack.verify()
        expect(stack.target.state(stack.device) == "rw", "not rw")
        stack.close()
        stack.check()
    except (Failure, OSError) as error:
        wrong = [violation(error)]
        stack.close()
    if wrong:
        tally.wrong(what, wrong)


def raw(ctx, geo, seed, ops, between, share=1.0, lie=False, mutate=None,
        limit=5, load=workload):
    """Record a load on the bare device and try its crash points; return the numbers.

    @lie: see workload(); @mutate: changes each image; @limit: see Tally."""
    rng = random.Random(seed)
    begin = time.monotonic()
    recorder = Recorder(ctx, geo, 64 * 1024)
    with recorder.stack.blk() as dev:
        model = load(dev, recorder.mark, geo.logical, rng, ops,
                     ctx.target.in_place, lie)
        expect(not model.compare(dev.read(0, model.blocks)),
               "the workload itself found wrong data")
    status = recorder.stack.device.status(noflush=True)
    bypassed = recorder.stack.bypassed()
    log = recorder.finish()
    recorded = time.monotonic() - begin
    disk = medium(ctx, geo, log, recorder.blocks, rng)
    disk.solid[:] = recorder.before
    player = Player(ctx, geo, recorder.blocks)
    tally = Tally(limit)
    for what, image, mark in crash_points(disk, log.entries, rng, between,
                                          share):
        if mutate:
            image = mutate(rng, image)
        try_raw(player, model, image, mark, rng, tally, what)
    player.close()
    log.close()
    ctx.note(f"seed {seed}: {ops} operations, {model.marks} promises, "
             f"{len(log.entries)} log entries, {tally.points} crash points "
             f"({tally.recut} cut twice, {tally.cleaned} cleaned after), "
             f"{tally.lost} violations; recording {recorded:.1f} s, replay "
             f"{time.monotonic() - begin - recorded:.1f} s; {status}")
    if tally.lost:
        raise Failure(tally.text())
    return {"points": tally.points, "promises": model.marks, "lost": 0,
            "entries": len(log.entries), "seed": seed, **bypassed}


def proof(ctx, geo, what, **kw):
    """Expect that raw() fails with violations when the device or the target is made to lose data:
    the harness would notice.  Up to ten seeds, because the crash points are random."""
    for seed in range(1, 11):
        try:
            raw(ctx, geo, seed, 200, 2, limit=1, **kw)
        except Failure as failure:
            expect("violations" in str(failure), f"another failure: {failure}")
            ctx.note(f"noticed {str(failure).splitlines()[1].strip()}")
            return {"noticed": 1, "runs": seed}
        dm.remove_all()
        ctx.pool.reset()
    raise Failure(f"{what} went unnoticed")


def tear(rng, image):
    """Overwrite the first 512 bytes of a random block of the image with random bytes."""
    image = bytearray(image)
    at = rng.randrange(len(image) // BLOCK) * BLOCK
    image[at:at + 512] = os.urandom(512)
    return image


LOADS = {"workload": workload, "forgetful": forgetful, "updates": updates, "rows": rows}


# ext4 on the target: files that were fsynced must be there after a power cut.

class Files:
    """The fsynced files of a workload: {name: (hash, the mark from which the file is promised, the
    mark after which it may be gone, as it was unlinked)}."""

    def __init__(self):
        self.files = {}     # name: (hash, promised from, withdrawn after)
        self.marks = 0

    def promised(self, mark):
        for name, (digest, begin, end) in self.files.items():
            if begin <= mark and (end is None or mark < end):
                yield name, digest


def digest_of(path):
    with open(path, "rb") as handle:
        return hashlib.sha1(handle.read()).hexdigest()


def fs_workload(root, mark, rng, ops):
    files = Files()
    top = os.open(root, os.O_RDONLY)
    for i in range(ops):
        alive = [n for n, f in files.files.items() if f[2] is None]
        if len(alive) > 30 or alive and rng.random() < .15:
            name = rng.choice(alive)
            digest, begin, _ = files.files[name]
            files.files[name] = (digest, begin, files.marks)
            os.unlink(f"{root}/{name}")
            continue
        name = f"f{i}"
        data = rng.randbytes(rng.choice((100, 4096, 20000, 70000, 150000)))
        with open(f"{root}/{name}", "wb") as handle:
            handle.write(data)
            handle.flush()
            if rng.random() < .4:
                continue
            os.fsync(handle.fileno())
        os.fsync(top)
        files.marks += 1
        mark(files.marks)
        files.files[name] = (hashlib.sha1(data).hexdigest(), files.marks, None)
    os.close(top)
    return files


def mounted(path, where, options="noatime"):
    os.makedirs(where, exist_ok=True)
    run("mount", "-t", "ext4", "-o", options, path, where)


def try_ext4(player, files, image, mark, tally, what):
    tally.points += 1
    player.load(image)
    stack, where, wrong, up = player.stack, "/tmp/replay", [], False
    try:
        stack.check()
        stack.open()
        mounted(stack.device.path, where)
        up = True
        for name, digest in files.promised(mark):
            if not os.path.exists(f"{where}/{name}"):
                wrong.append(f"fsynced file {name} is gone")
            elif digest_of(f"{where}/{name}") != digest:
                wrong.append(f"fsynced file {name} has changed")
        run("umount", where)
        up = False
        run("e2fsck", "-fn", stack.device.path)
        stack.verify()
        stack.close()
        stack.check()
    except (Failure, OSError) as error:
        if up:
            run("umount", where, ok=None)
        wrong.append(violation(error))
        stack.close()
    if wrong:
        tally.wrong(what, wrong)


def ext4(ctx, geo, seed, ops, share):
    rng = random.Random(seed)
    expect(modprobe("ext4"), "no ext4 in this kernel")
    recorder = Recorder(ctx, geo, 256 * 1024)
    run("mkfs.ext4", "-q", "-b", 4096, "-J", "size=4", "-E",
        "lazy_itable_init=0,lazy_journal_init=0", recorder.stack.device.path)
    mounted(recorder.stack.device.path, "/tmp/record")
    recorder.mark(0)
    try:
        files = fs_workload("/tmp/record", recorder.mark, rng, ops)
    finally:
        run("umount", "/tmp/record")
    status = recorder.stack.device.status(noflush=True)
    log = recorder.finish()
    disk = medium(ctx, geo, log, recorder.blocks, rng)
    disk.solid[:] = recorder.before
    player = Player(ctx, geo, recorder.blocks)
    tally = Tally(5)
    made = False        # before mkfs has ended there is nothing to mount
    skipped = 0
    for i, entry in enumerate(log.entries):
        disk.apply(entry)
        made = made or bool(entry.flags & MARK)
        if not made or not entry.flags & (FLUSH | FUA | MARK):
            continue
        if rng.random() > share:
            skipped += 1
            continue
        what = f"after entry {i} ({entry.show()})"
        try_ext4(player, files, disk.image(lambda _: True), disk.mark, tally,
                 what)
        if disk.pending:
            kept = {i for i in range(len(disk.pending)) if rng.random() < .5}
            try_ext4(player, files, disk.image(lambda i: i in kept),
                     disk.mark, tally, what + ", half of the cache lost")
    player.close()
    log.close()
    ctx.note(f"seed {seed}: {ops} file operations, {files.marks} fsyncs, "
             f"{len(log.entries)} log entries, {tally.points} crash points, "
             f"{tally.lost} violations; {status}")
    if tally.lost:
        raise Failure(tally.text())
    return {"points": tally.points, "promises": files.marks, "lost": 0,
            "entries": len(log.entries), "seed": seed}


def cases(target, options):
    seed = int(options.get("seed", 1))
    ops = int(options.get("ops", 100))
    between = int(options.get("between", 1))
    rounds = int(options.get("rounds", 1))
    share = float(options.get("share", .3))
    only = options.get("only", "").split(",")   # geometries, separated by commas
    out = []
    for geo in target.geometry("replay"):
        if not target.persistent and geo is not GEOMETRIES["replay"][0]:
            continue
        for s in range(seed, seed + rounds):
            out.append((f"raw {geo.name} seed {s}", lambda ctx, g=geo, s=s:
                        raw(ctx, g, s, ops, between, share)))
    fs = [g for g in GEOMETRIES["replay-fs"] if target.persistent
          or g is GEOMETRIES["replay-fs"][0]]
    for geo in fs:
        out.append((f"ext4 {geo.name} seed {seed}", lambda ctx, g=geo:
                    ext4(ctx, g, seed, int(options.get("files", 60)),
                         float(options.get("fs_share", .5)))))
    if "inplace" in target.features:
        # Cleaning in place loses data only where a write destroys its neighbours; on this medium it
        # must lose none.
        geo = GEOMETRIES["replay"][0].but(name="inplace",
                                          features=("inplace",))
        out.append((f"raw inplace seed {seed}", lambda ctx: raw(
            ctx, geo, seed, ops // 2, between, share)))
    if target.shown_by:
        geo = GEOMETRIES["replay"][0].but(band=8, cache=6)
        tried = {}
        for feature in target.unsafe:
            for what, (needs, load) in target.shown_by.get(
                    feature, {"": ({}, "workload")}).items():
                tried[what] = needs, load
                out.append((
                    f"proof: {feature}{what and f', {what},'} is caught",
                    lambda ctx, g=geo.but(features=(feature,), **needs),
                    load=LOADS[load]: proof(ctx, g, g.features[0],
                                            load=load)))
        # The same loads with all protections on: a load with a model that promises too much would
        # report violations here as well.
        for what, (needs, load) in tried.items():
            out.append((
                f"raw {what or 'unsafe'}, as in the proof, with every protection",
                lambda ctx, g=geo.but(**needs), load=LOADS[load]:
                raw(ctx, g, 1, 200, 2, load=load)))
    if not target.persistent:
        geo = GEOMETRIES["replay"][0]
        out += [("proof: a device that ignores flushes is caught",
                 lambda ctx: proof(ctx, geo, "ignoring flushes", lie=True)),
                ("proof: a torn block is caught",
                 lambda ctx: proof(ctx, geo, "a torn block", mutate=tear))]
    return [c for c in out if only == [""] or c[0].split()[1] in only]
