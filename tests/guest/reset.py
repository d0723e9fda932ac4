# SPDX-License-Identifier: GPL-2.0
"""The message `reset`: the target forgets all data, atomically.

After a reset every block reads as zeroes, also after the next activation, after a power cut at any
later instant, and after `shingle repair`.  Settings and counters stay.  Each block of a request in
flight is written before or after the reset.  A reset that is refused changes nothing and leaves one
message in the log.
"""

import contextlib
import errno
import operator
import os
import random
import signal
import subprocess
import time

from guest import blk
from guest import dm
from guest import counters
from guest import media
from guest import ondisk
from guest import replay
from guest.bench import HANG_S, Failure, Held, expect, modprobe, until
from guest.blk import BLOCK, SECTORS
from guest.faults import faulty
from guest.logwrites import MARK, Disk
from guest.model import read_stamp, stamp
from guest.targets import GEOMETRIES, SHINGLE, stack

# Counters that show the current state and may fall; all others continue across a reset.
MOMENTARY = ("cached_blocks", "map_bytes", "bad_blocks", "wcache_dirty_blocks", "unsaved_blocks",
             "map_dirty_pages", "most_cached_blocks", "imr_pending_tracks", "round_number",
             "fb1_columns", "new_columns", "waiting_stretches", "extents", "free_bands")


def geometries():
    return {g.name: g for g in GEOMETRIES["replay"] + GEOMETRIES["counters"]}


def empty(dev, blocks, when):
    left = [b for b in range(blocks) if dev.read(b).strip(b"\0")]
    expect(not left, f"{when} {len(left)} blocks hold something: {left[:5]}")


def scribble(dev, geo, rng, ops=150):
    """Write at random and flush once in the middle, so that some blocks have been cleaned, some
    are cached, and some have no commit."""
    for i in range(ops):
        at = rng.randrange(geo.logical)
        n = min(rng.choice((1, 1, 2, geo.band)), geo.logical - at)
        dev.write(at, b"".join(stamp(b, i + 1) for b in range(at, at + n)))
        if i == ops // 2:
            dev.flush()


def forgotten(ctx, geo):
    """A reset erases the contents by writing metadata only, and keeps settings and counters; the
    device works as after formatting."""
    rng = random.Random(geo.name)
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()
    habits = [(key, value) for key, value in ctx.target.keys
              if key not in ctx.target.by_table]
    for key, value in habits:
        device.message(f"{key} {value}")
    for message in ("commit_ms 0", "idle_ms 600000"):
        device.message(message)
    for again in range(3):
        with made.blk() as dev:
            scribble(dev, geo, rng)
            # Gathered data are written before the reset; once is enough.
            gathered = ctx.target.gathers and not again
            if ctx.target.gathers and not gathered:
                dev.flush()
                dev.discard(0, geo.band)    # freed, and not committed yet
            table, before = device.table(), media.stats(device)
            expect(gathered or before.get("imr_pending_tracks", 1), "none is waiting")
            below = counters.below(made)
            device.message("reset")
            after = media.stats(device)
            # Only the cleaning that was in progress may have touched data.
            touched, moved = (tuple(map(operator.sub, now["data"], then["data"]))
                              for now, then in (
                                  (counters.below(made), below),
                                  (counters.said(made, after), counters.said(made, before))))
            expect(geo.meta == "same" or gathered or
                   all(map(operator.le, touched, moved)),
                   f"the data device was touched: {touched}, by cleaning {moved}")
            expect(device.table() == table,
                   f"the table was {table}, is {device.table()}")
            expect(after["resets"] == before["resets"] + 1 and
                   after["checkpoints"] >= before["checkpoints"] + 2,
                   "the reset was not counted")
            fewer = [k for k, v in before.items()
                     if k not in MOMENTARY and after[k] < v]
            expect(not fewer, f"these count backwards: {fewer}")
            expect(not after["cached_blocks"], "blocks are cached")
            expect(not after.get("imr_pending_tracks"), "freed tracks are waiting")
            expect(after["map_bytes"] == before["map_bytes"],
                   "the map has another size")
            empty(dev, geo.logical, "after the reset")
        made.verify()
        if again == 1:
            made.close()
            made.check()
            device = made.open()
            with made.blk() as dev:
                empty(dev, geo.logical, "activated again")
            for key, value in habits:
                device.message(f"{key} {value}")
            for message in ("commit_ms 0", "idle_ms 600000"):
                device.message(message)
    # All blocks can be written and cleaned, and survive an activation.
    with made.blk() as dev:
        for turn in (1, 2):
            for at in range(0, geo.logical, 2):
                dev.write(at, b"".join(stamp(b, turn) for b in range(
                    at, min(at + 2, geo.logical))))
        device.message("clean")
        expect(not media.stats(device)["cached_blocks"], "clean left blocks")
    made.verify()
    made.close()
    made.check()
    made.open()
    with made.blk() as dev:
        for b in range(geo.logical):
            version, why = read_stamp(dev.read(b), b)
            expect(version == 2, f"block {b} holds {why or version}")
    made.close()


def no_way_back(ctx, geo):
    """The newest checkpoint after a reset is damaged, and `repair` returns to the older one: the
    device is still empty, because a reset writes both checkpoints."""
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()
    with made.blk() as dev:
        scribble(dev, geo, random.Random(1))
        dev.flush()
    device.message("reset")
    made.close()
    where, _, _ = ctx.target.areas(geo)["checkpoint"]
    with blk.opened(made.paths[where]) as dev:
        sb = ondisk.read_super(dev.read(0))
        _, at, _, _ = max(part for slot in range(2) for part in
                          ondisk.checkpoints(sb, slot, dev.read))
        footer = dev.read(at)
        dev.write(at, footer[:100] + b"rot" + footer[103:])
        dev.flush()
    made.target.check(made.paths, geo)
    status, said = made.target.repair(made.paths, geo)
    expect(status in (0, 1), f"repair ended with {status}: {said.strip()}")
    made.open()
    with made.blk() as dev:
        empty(dev, geo.logical, "repaired from the older checkpoint")
    made.close()
    made.check()


def half_a_reset(ctx, geo):
    """The power is cut between the two checkpoints of a reset, later writes are committed, and then
    the footer of the first checkpoint is damaged.  Recovery must not combine the old state in the
    other slot with the later commits: activation fails, or the device is empty."""
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()
    device.message("checkpoint")
    with made.blk() as dev:
        for b in range(3):
            dev.write(b, stamp(b, 1))
        dev.flush()
    where, start, n = ctx.target.areas(geo)["checkpoint"]
    with blk.opened(made.paths[where]) as dev:
        old = dev.read(start, n)
        sb = ondisk.read_super(dev.read(0))
    device.message("reset")
    with made.blk() as dev:
        dev.write(0, stamp(0, 2))
        dev.flush()
    made.close()
    with blk.opened(made.paths[where]) as dev:
        _, at, _, _ = max(part for slot in range(2) for part in
                          ondisk.checkpoints(sb, slot, dev.read))
        slot = sb["ckpt"][int(at >= sb["ckpt"][1][0])]
        dev.write(slot[0], old[(slot[0] - start) * BLOCK:][:slot[1] * BLOCK])
        _, at, _, _ = max(part for slot in range(2) for part in
                          ondisk.checkpoints(sb, slot, dev.read))
        dev.write(at, bytes(BLOCK))
        dev.flush()
    ctx.kernel()
    try:
        made.open()
    except OSError:
        expect(any("a hole" in line for line in ctx.kernel()), "refused for another reason")
    else:
        with made.blk() as dev:
            empty(dev, geo.logical, "activated")
    made.close()


class Erased:
    """Compares what a power cut around a reset has left: while mark @begin is the last one, the
    device holds either exactly @old or zeroes; at other marks the model decides."""

    def __init__(self, model, old, begin):
        self.model, self.old, self.begin = model, old, begin
        self.blocks = model.blocks

    def compare(self, data, mark=None):
        if mark == self.begin and data != self.old and data.strip(b"\0"):
            return ["neither everything nor nothing is left: " + "; ".join(
                self.model.compare(data, mark)[:3] or ["a mixture"])]
        return self.model.compare(data, mark)


def cut(ctx, geo, seed):
    """Cut the power at many instants during and after a reset: the device holds all old data or
    none of them, and what was written and flushed after the reset is there."""
    rng = random.Random(seed)
    recorder = replay.Recorder(ctx, geo, 64 * 1024)
    device = recorder.stack.device
    with recorder.stack.blk() as dev:
        model = replay.workload(dev, recorder.mark, geo.logical, rng, 60,
                                ctx.target.in_place)
        sent = model.tick()
        dev.flush()
        recorder.mark(model.flushed(sent))
        old = dev.read(0, geo.logical)
        model.marks += 1
        begin = model.marks
        recorder.mark(begin)
        op = model.submit(0, geo.logical, zero=True)
        device.message("reset")
        model.ack(op)
        recorder.mark(model.promise(op))
        for i in range(12):
            at = rng.randrange(geo.logical)
            op = model.submit(at, 1)
            dev.write(at, model.data(op))
            model.ack(op)
            if i % 4 == 0:
                sent = model.tick()
                dev.flush()
                recorder.mark(model.flushed(sent))
    log = recorder.finish()
    disk = Disk(log, recorder.blocks)
    disk.solid[:] = recorder.before
    first = next(i for i, e in enumerate(log.entries)
                 if e.flags & MARK and e.mark == str(begin))
    for entry in log.entries[:first]:
        disk.apply(entry)
    player = replay.Player(ctx, geo, recorder.blocks)
    tally, erased = replay.Tally(5), Erased(model, old, begin)
    inside = 0
    for what, image, mark in replay.crash_points(
            disk, log.entries[first:], rng, 3, .5):
        inside += mark == begin
        replay.try_raw(player, erased, image, mark, rng, tally, what)
    player.close()
    log.close()
    expect(inside > 3, f"only {inside} crash points within the reset")
    ctx.note(f"seed {seed}: {tally.points} crash points, {inside} within the "
             f"reset, {tally.lost} violations")
    if tally.lost:
        raise Failure(tally.text())
    return {"points": tally.points, "promises": model.marks, "lost": 0}


class Child:
    """A process that runs @work beside the test.  A thread would not do: Python holds its global
    lock during an ioctl, so that a waiting message would stop the whole test."""

    def __init__(self, work):
        self.pid = os.fork()
        if not self.pid:
            try:
                work()
                os._exit(0)
            except OSError as error:
                os._exit(error.errno)
            except BaseException:
                os._exit(255)

    def ended(self):
        """Return None while it runs, then its exit status: 0, an errno, 255 for another exception,
        or -N after signal N."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def end(self, what, seconds=HANG_S):
        limit = time.monotonic() + seconds
        while (code := self.ended()) is None:
            expect(time.monotonic() < limit, f"{what} hangs")
            time.sleep(.001)
        expect(not code, f"{what}: {os.strerror(code)}")

    def kill(self):
        """Kill the process if it has not ended yet."""
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def slow(ctx, geo, ms):
    """Return (a closed stack, its data device), where each request to data takes @ms, so that
    requests stay in flight."""
    expect(modprobe("dm-delay"), "no dm-delay in this kernel")
    made = stack(ctx.pool, ctx.target, geo)
    lower = made.paths["data"]
    delay = dm.Device("slow", [(0, blk.size(lower) * SECTORS, "delay",
                                f"{lower} 0 {ms}")])
    made.paths["data"] = delay.path
    return made, delay


def under_way(ctx, geo, seed):
    """A reset comes while writes and reads are in flight: each block of them is written or read
    either before or after the reset, and data acknowledged before it are gone."""
    rng = random.Random(seed)
    made, delay = slow(ctx, geo, 3)
    device = made.open()
    kept = lost = 0
    version = 0
    with made.blk() as dev:
        queue = blk.Aio(dev, 24)
        holds = [{0} for _ in range(geo.logical)]

        def submit(flying):
            nonlocal version
            free = [b for b in range(geo.logical) if b not in flying]
            at = rng.choice(free)
            n = 1
            while n < 9 and at + n < geo.logical and at + n not in flying:
                n += 1
            n = rng.randrange(1, n + 1)
            if rng.random() < .3:
                queue.read(at, n, ("read", at, n, 0))
            else:
                version += 1
                queue.write(at, b"".join(stamp(b, version) for b in
                                         range(at, at + n)),
                            ("write", at, n, version), rng.random() < .2)
            flying.update(range(at, at + n))
            return at, n

        def reap(n):
            for (kind, at, n, written), result, data in queue.reap(n):
                expect(result == n * BLOCK, f"{kind} of {n} at {at}: {result}")
                for i, b in enumerate(range(at, at + n)):
                    if kind == "write":
                        holds[b] = {0, written}
                        continue
                    found, why = read_stamp(
                        data[i * BLOCK:(i + 1) * BLOCK], b)
                    expect(found in holds[b] | {0},
                           f"block {b} read as {why or found}, "
                           f"not {holds[b]}")

        rounds = 0
        # The duration of a reset depends on other load on the machine.
        while rounds < 5 or not kept and rounds < 100:
            rounds += 1
            # These writes end before the reset begins, so none of their data may be left.
            for at in range(0, geo.logical, 3):
                version += 1
                queue.write(at, stamp(at, version), ("write", at, 1, version))
                if queue.flying == queue.depth:
                    reap(1)
            reap(queue.flying)
            flying = set()
            for _ in range(rng.randrange(1, 12)):
                submit(flying)
            reset = Child(lambda: device.message("reset"))
            # A reset that first writes gathered data takes longer.
            pause_s = max(rounds, rounds ** 2 / 20) * \
                (.005 if ctx.target.gathers else .0005)
            for _ in range(rng.randrange(1, 12)):
                if len(flying) < geo.logical // 2:
                    submit(flying)
                time.sleep(rng.random() * pause_s)
            reset.end("the reset")
            written = [token for token, _, _ in queue._flying.values()
                       if token[0] == "write"]
            written = {b for _, at, n, _ in written
                       for b in range(at, at + n)}
            now = [{0} if b not in flying else holds[b] | {0}
                   for b in range(geo.logical)]
            holds[:] = now
            reap(queue.flying)
            for b in range(geo.logical):
                found, why = read_stamp(dev.read(b), b)
                expect(found in holds[b], f"block {b} holds {why or found}, "
                                          f"may be {sorted(holds[b])}")
                if b in written:
                    kept, lost = kept + bool(found), lost + (not found)
                holds[b] = {found}
            made.verify()
        queue.close()
        device.message("reset")
        empty(dev, geo.logical, "after the last reset")
    made.close()
    made.check()
    delay.remove()
    ctx.note(f"seed {seed}: of the blocks under way when a reset ended {kept} "
             f"were written after it and {lost} before it")
    expect(kept, "nothing was under way")
    return {"kept": kept, "lost": lost}


def while_cleaning(ctx, geo):
    """A reset comes while the target cleans: it gives up the cleaning step instead of waiting for
    the remaining bands, and the waiting message `clean` ends."""
    made, delay = slow(ctx, geo, 0)
    device = made.open()
    with made.blk() as dev:
        places = range(1, geo.logical, geo.band)
        if ctx.target.paged:        # a region is cleaned when all its places were written
            places = 2 * list(range(geo.logical))
        elif not ctx.target.has_home:       # an empty band needs no cleaning
            places = [*range(geo.logical), *range(0, geo.logical, 2)]
        elif not ctx.target.caches_all:     # only overwritten blocks go to the cache
            places = [*range(geo.logical), *range(geo.logical // 4)]
        for at in places:
            dev.write(at, stamp(at, 1))
        before = media.stats(device)["deferred"]
        with Held([delay]):
            clean = Child(lambda: device.message("clean"))
            until(lambda: device.status(noflush=True).split()[3] == "cleaning", "it cleans")
            reset = Child(lambda: device.message("reset"))
            queue = blk.Aio(dev, 1024)

            def begun():
                """Send one more read, which waits once the reset has begun."""
                if queue.flying < queue.depth:
                    queue.read(0, 1, None)
                time.sleep(.02)
                return media.stats(device)["deferred"] > before

            if ctx.target.cleans:       # otherwise the reset waits for the epoch first
                until(begun, "the reset begins")
        reset.end("the reset")
        clean.end("the clean")
        queue.close()
        after = media.stats(device)
        cleaned = after.get("bands_cleaned", 0)
        expect(cleaned < geo.data - 1,
               f"the reset waited for {cleaned} bands")
        empty(dev, geo.logical, "after the reset")
    made.verify()
    made.close()
    made.check()
    delay.remove()
    return {"bands_cleaned": cleaned}


def with_suspends(ctx, geo):
    """One process sends resets while the test suspends and resumes: none of them hangs, a reset
    either succeeds or fails with EAGAIN, and the map stays consistent."""
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()

    def resets():
        while True:
            try:
                device.message("reset")
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise

    with made.blk() as dev:
        child, i, done = Child(resets), 0, 0
        limit = time.monotonic() + HANG_S
        while i < 60 or not done:
            expect(time.monotonic() < limit or i < 60, "no reset was ever done")
            device.suspend(noflush=i % 2, lockfs=False)
            if i % 5 == 0:
                time.sleep(.005)
            device.resume()
            if i % 7 == 0 or i >= 60:
                time.sleep(.005 * (1 + i // 60))
            scribble(dev, geo, random.Random(i), 5)
            i, done = i + 1, media.stats(device)["resets"]
        expect(child.ended() is None, "a reset failed")
        os.kill(child.pid, signal.SIGKILL)
        limit = time.monotonic() + HANG_S
        while child.ended() is None:
            expect(time.monotonic() < limit, "a reset hangs")
        done = media.stats(device)["resets"]
        device.message("reset")
        empty(dev, geo.logical, "after the last reset")
    made.verify()
    made.close()
    made.check()
    return {"done": done}


def bad_blocks(ctx, geo):
    """A reset also empties the list of blocks that the medium has lost: all blocks can be read as
    zeroes and written."""
    with faulty(ctx, geo) as game:
        game.fill()
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        area = "cache" if "cache" in game.areas else "data"
        game.break_(area, "medium")
        game.message("clean")
        game.heal()
        failed = game.compare("healed", True)
        expect(failed, "no block was lost")
        game.message("reset", must=True)
        expect(not media.stats(game.stack.device)["bad_blocks"],
               "there are bad blocks")
        empty(game.dev, geo.logical, "after the reset")
        game.again()
        empty(game.dev, geo.logical, "activated again")
        op = game.model.submit(0, geo.logical, zero=True)
        game.model.ack(op)
        game.alive()
    return {"were_bad": len(failed)}


def refused(ctx, game, why, number):
    """Expect that a reset fails with errno @number and leaves one message with @why in the log."""
    ctx.kernel()
    try:
        game.stack.device.message("reset")
    except OSError as error:
        expect(error.errno == number, f"{why}: {error}")
    else:
        raise Failure(f"reset was done although {why}")
    said = [line for line in ctx.kernel() if "device-mapper" in line]
    expect(len(said) == 1 and "reset refused" in said[0] and why in said[0],
           f"{why}: {len(said)} sentences: {said}")
    ctx.note(said[0])


def refusals(ctx, geo):
    """A reset of a suspended or read-only device is refused, and no data are lost."""
    with faulty(ctx, geo) as game:
        game.fill()
        game.write(1, must=True)
        game.flush(must=True)
        game.stack.device.suspend()
        refused(ctx, game, "suspended", errno.EAGAIN)
        game.stack.device.resume()
        game.compare("resumed")
        game.write(2, must=True)
        game.flush(must=True)
        game.break_("journal", "error_writes")
        game.write(3)
        game.flush(must=False)
        expect(game.state() == "ro", f"it is {game.state()}")
        refused(ctx, game, "the map could not be committed", errno.EROFS)
        game.compare("refused")
        expect("needs_check" in game.stack.device.status(noflush=True),
               "needs_check was touched")


def write_error(ctx, geo):
    """The checkpoint of a reset cannot be written: the device becomes read-only with the old
    contents, and after repair it holds all data or none of them."""
    with faulty(ctx, geo) as game:
        game.fill()
        game.write(1, must=True)
        game.flush(must=True)
        game.break_("checkpoint", "error_writes")
        game.message("reset", must=False)
        expect(game.state() == "ro", f"it is {game.state()}")
        game.compare("broken")
        game.heal()
        game.again(repair=True)
        if game.dev.read(0, geo.logical).strip(b"\0"):
            game.compare("activated again")
            ctx.note("everything was left")
        else:
            op = game.model.submit(0, geo.logical, zero=True)
            game.model.ack(op)
            ctx.note("nothing was left")
        game.alive()


def tool(ctx, geo):
    """`shingle reset` refuses a device that is in use, and erases only if the user types the
    device's name or gives --force."""
    made = stack(ctx.pool, ctx.target, geo)
    name = made.open().name

    def reset(answer, *more):
        done = subprocess.run([SHINGLE, "reset", name, *more], input=answer,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    with made.blk() as dev:
        scribble(dev, geo, random.Random(2))
        full = dev.read(0, geo.logical)
        status, said = reset(None, "--force")
        expect(status == 8 and "in use" in said, f"in use: {status} {said}")
    for answer in ("", "\n", "y\n", name + "x\n"):
        status, said = reset(answer)
        expect(status == 8 and "unchanged" in said,
               f"'{answer}': {status} {said}")
    with made.blk() as dev:
        expect(dev.read(0, geo.logical) == full, "something was erased")
    status, said = reset(name + "\n")
    expect(status == 0, f"its name: {status} {said}")
    with made.blk() as dev:
        empty(dev, geo.logical, "after its name")
        scribble(dev, geo, random.Random(3))
    status, said = reset(None, "--force")
    expect(status == 0 and not said, f"forced: {status} {said}")
    with made.blk() as dev:
        empty(dev, geo.logical, "forced")
    made.close()
    made.check()


def cases(target, options):
    if not target.persistent:
        return []
    geo, few = geometries(), GEOMETRIES["faults"][0]
    seed = int(options.get("seed", 1))
    out = [(f"contents are erased, {n}", lambda ctx, n=n: forgotten(ctx, geo[n]))
           for n in ("tiny", "apart", "flash", "onecache", "plain", "guards")]
    out += [(f"erased contents do not return, {n}", lambda ctx, n=n: no_way_back(ctx, geo[n]))
            for n in ("tiny", "apart")]
    out.append(("half a reset", lambda ctx: half_a_reset(ctx, few)))
    out += [(f"power cut, {n} seed {seed}", lambda ctx, n=n:
             cut(ctx, geo[n], seed)) for n in ("tiny", "apart", "flash")]
    out += [
        ("I/O under way", lambda ctx: under_way(ctx, geo["tiny"], seed)),
        ("while cleaning", lambda ctx: while_cleaning(ctx, geo["apart"])),
        ("with suspends", lambda ctx: with_suspends(ctx, geo["apart"])),
        ("shingle reset", lambda ctx: tool(ctx, geo["tiny"])),
        ("bad blocks", lambda ctx: bad_blocks(ctx, few)),
        ("refusals", lambda ctx: refusals(ctx, few)),
        ("write error", lambda ctx: write_error(ctx, few)),
    ]
    return out
