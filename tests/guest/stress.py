# SPDX-License-Identifier: GPL-2.0
"""I/O and administration at once, on several processors, in random combinations: no data may be
lost.

The jobs are processes that write, read, discard, zero and flush, each with several requests in
flight.  Each job has a share of the blocks to itself, where it compares every read.  All jobs write
to the rest, where a block must be whole, in its place and written by one of them.

Beside the jobs other processes do what an administrator can do: suspend and resume, reload the
table, send `verify`, `checkpoint`, `commit`, `clean`, `reset` and keys, and read status, table and
counters; they suspend the devices below as well.  At the end the table is replaced under the jobs
and the device removed; it is checked, opened again, and must hold what was acknowledged.

A run is bounded by the number of operations, not by time: a given number of each kind must have
succeeded, with I/O between them.
"""

import errno
import mmap
import os
import pickle
import random
import signal
import struct
import time
import traceback

from guest import blk
from guest import dm
from guest import media
from guest.bench import Failure, expect, say
from guest.blk import BLOCK, SECTORS
from guest.media import stats
from guest.model import read_stamp, stamp
from guest.targets import GEOMETRIES

JOBS = 3
DEPTH = 8
SERIAL_BITS = 24        # a version is a job's number, then the number of its writes
# In place of the resets begun, in Seen: the block was discarded.  A discard may take effect later,
# when the other blocks that the engine can only discard together with it are discarded.
SOFT = -1
# The errors that a message may return while the table is being changed under it.
LATER = (errno.EAGAIN, errno.EROFS, errno.EINTR)
# Without progress for this time the test counts as hung; it does not test speed.
STUCK_S = 240


class Shared:
    """Numbers in shared memory; every process reads them, and each is written by one process."""

    NAMES = (*(f"job{i}" for i in range(JOBS)), *(f"serial{i}" for i in range(JOBS)),
             "begun", "done", "ending", "quit",
             "tables", "messages", "keys", "resets", "looks", "below")

    def __init__(self):
        self.map = mmap.mmap(-1, 4096)

    def __getitem__(self, name):
        return struct.unpack_from("<Q", self.map, 8 * self.NAMES.index(name))[0]

    def __setitem__(self, name, value):
        struct.pack_into("<Q", self.map, 8 * self.NAMES.index(name), value)

    def io(self):
        return sum(self[f"job{i}"] for i in range(JOBS))

    def all(self):
        return bytes(self.map)


class Seen:
    """The contents that the blocks of one job may have.

    Each block has a list of possible contents: [(version, resets done when the write was sent,
    resets begun when it was acknowledged)].  A reset begun after the write was sent may have made
    the block zeroes.
    """

    def __init__(self):
        self.may = {}

    def wrong(self, b, data, shared, done):
        """Return what is wrong with the contents that a read returned, or None; a correct read
        makes them the only possible ones.

        @done: resets that had ended when the read was sent."""
        found, why = read_stamp(data, b)
        may = self.may.get(b, [(0, 0, 0)])
        for entry in may:
            if entry[0] == found and (not found or done <= entry[2]):
                self.may[b] = [entry, *(e for e in may if found and e[2] == SOFT)]
                return None
        if found == 0 and any(shared["begun"] > sent for _, sent, _ in may):
            self.may[b] = [(0, 0, 0)]
            return None
        return f"block {b} holds {why or found}, may be {may}, resets {done} to " \
               f"{shared['begun']}"


class Job:
    """A process that sends requests, with its queue and the contents it expects."""

    def __init__(self, nr, pieces, shared, seed, path, seen):
        self.nr, self.shared, self.seen = nr, shared, seen
        self.mine = [p for i, p in enumerate(pieces) if i % (JOBS + 1) == nr]
        self.ours = [p for i, p in enumerate(pieces) if i % (JOBS + 1) == JOBS]
        self.rng = random.Random(seed)
        self.dev = blk.Blk(path)
        self.queue = blk.Aio(self.dev, DEPTH)
        self.flying = set()
        self.walk = 0

    def run(self):
        while not self.shared["quit"]:
            if not self.step():
                break
            self.shared[f"job{self.nr}"] += 1
        while self.queue.flying:
            self.reap()
        self.queue.close()
        self.dev.close()

    def part(self, pieces):
        """Return random blocks of one of the pieces, or None if a request of this job for one of
        them is in flight."""
        first, n = self.rng.choice(pieces)
        if self.rng.random() < .4:
            self.walk += 1                  # in ascending order
            first, n = pieces[self.walk % len(pieces)]
        elif n > 1:
            skip = self.rng.randrange(n)
            first, n = first + skip, self.rng.randrange(1, n - skip + 1)
        blocks = range(first, first + n)
        return None if self.flying.intersection(blocks) else blocks

    def version(self):
        self.shared[f"serial{self.nr}"] += 1
        return self.nr + 1 << SERIAL_BITS | self.shared[f"serial{self.nr}"]

    def step(self):
        """Send a request, and reap one if the queue is full; return False when the device is gone.
        """
        dice, mine = self.rng.random(), self.rng.random() < .75
        blocks = self.part(self.mine if mine else self.ours)
        if not blocks:
            return self.reap() if self.queue.flying else True
        sent = self.shared["done"]
        try:
            if dice < .6:
                version = self.version()
                self.send("write", blocks, mine, version, sent)
            elif dice < .86:
                self.send("read", blocks, mine, 0, sent)
            elif dice < .90:
                self.dev.flush()
            elif dice < .96:
                self.wipe(blocks, mine, self.dev.discard, sent, soft=True)
            else:
                self.wipe(blocks, mine, self.dev.zero, sent, soft=False)
        except OSError as error:
            return self.gone(error)
        return self.reap() if self.queue.flying == DEPTH else True

    def send(self, kind, blocks, mine, version, sent):
        token = (kind, blocks, mine, version, sent)
        if mine:
            self.flying.update(blocks)
        if kind == "write":
            self.queue.write(blocks[0], b"".join(stamp(b, version) for b in blocks),
                             token, fua=self.rng.random() < .1)
        else:
            self.queue.read(blocks[0], len(blocks), token)

    def wipe(self, blocks, mine, call, sent, soft):
        """Zero or discard by @call; after a discard (@soft) the old contents may remain."""
        try:
            call(blocks[0], len(blocks))
        except OSError:
            if mine:
                self.maybe(blocks, 0, sent)
            raise
        if mine:
            for b in blocks:
                old = self.seen.may.get(b, []) if soft else []
                self.seen.may[b] = [*old, (0, sent, SOFT if soft else 0)]

    def maybe(self, blocks, version, sent):
        """A write failed: its blocks may hold the old or the new contents."""
        for b in blocks:
            self.seen.may[b] = [*self.seen.may.get(b, [(0, 0, 0)]),
                                (version, sent, self.shared["begun"])]

    def gone(self, error):
        expect(self.shared["ending"], f"job {self.nr}: {error}")
        return False

    def reap(self):
        alive = True
        for (kind, blocks, mine, version, sent), result, data in self.queue.reap(1):
            if mine:
                self.flying.difference_update(blocks)
            if result != len(blocks) * BLOCK:
                alive = self.gone(f"{kind} of {len(blocks)} blocks at {blocks[0]} "
                                  f"returned {result}")
                if kind == "write" and mine:
                    self.maybe(blocks, version, sent)
            elif kind == "write":
                if mine:
                    for b in blocks:
                        self.seen.may[b] = [(version, sent, self.shared["begun"])]
            else:
                self.compare(blocks, mine, sent, data)
        return alive

    def compare(self, blocks, mine, sent, data):
        for i, b in enumerate(blocks):
            one = data[i * BLOCK:(i + 1) * BLOCK]
            if mine:
                wrong = self.seen.wrong(b, one, self.shared, sent)
            else:
                wrong = foreign(b, one, self.shared)
            expect(not wrong, f"job {self.nr}: {wrong}")


def foreign(b, data, shared):
    """Return what is wrong with a block that all jobs write, if no job can have written its
    contents, else None."""
    found, why = read_stamp(data, b)
    if found == 0:
        return None
    if found is not None:
        job, serial = (found >> SERIAL_BITS) - 1, found & (1 << SERIAL_BITS) - 1
        if 0 <= job < JOBS and serial <= shared[f"serial{job}"]:
            return None
    return f"block {b} holds {why or found}, which nobody has written"


class Storm:
    """A target on its medium, the jobs on it, and the administration beside them.

    Options: events (of each kind), rounds, pace (I/O between two events), seed."""

    def __init__(self, ctx, geo, medium, options):
        self.ctx, self.geo = ctx, geo
        self.events = int(options.get("events", 40))
        self.rounds = int(options.get("rounds", 2))
        self.pace = int(options.get("pace", 12))
        self.rng = random.Random(f"{geo.name}{options.get('seed', 1)}")
        self.shared = Shared()
        # A small cache of the medium, so that it is always being written.
        self.made = media.stack(ctx, geo, medium, **(
            {} if medium == "ram" else {"wcache": "on", "wcache_kib": 256,
                                        "wcache_idle_ms": 1}))
        self.seen = [Seen() for _ in range(JOBS)]
        self.pieces = self.cut()
        self.alive = set()

    def cut(self):
        """Cut the device into pieces of various lengths; each job has some in every band."""
        out, at = [], 0
        while at < self.geo.logical:
            n = self.rng.choice((1, 1, 1, 2, 2, 3, 5, self.geo.band // 2,
                                 2 * self.geo.band))
            n = max(1, min(n, self.geo.logical - at))
            out.append((at, n))
            at += n
        return out

    # --- operations on the device ------------------------------------------

    def wait_for_io(self, n):
        """Wait until the jobs have done @n more requests."""
        goal = self.shared.io() + n
        while self.shared.io() < goal and not self.shared["quit"]:
            time.sleep(.001)

    def repeat(self, name, kinds):
        """Call each function of @kinds self.events times, in random order, with I/O in between;
        repeat calls that fail with an error of LATER."""
        rng = random.Random(f"{name}{self.rng.random()}")
        left = [kind for kind in kinds for _ in range(self.events)]
        rng.shuffle(left)
        while left and not self.shared["quit"]:
            kind = left.pop()
            try:
                kinds[kind](rng)
            except OSError as error:
                expect(error.errno in LATER, f"{name} {kind}: {error}")
                left.insert(rng.randrange(len(left) + 1), kind)
            self.shared[name] += 1
            self.wait_for_io(rng.randrange(1, self.pace))

    def tables(self):
        device = dm.Device.__new__(dm.Device)
        device.__dict__.update(self.made.device.__dict__)

        def suspend(rng):
            device.suspend(noflush=rng.random() < .5, lockfs=rng.random() < .5)
            if rng.random() < .3:
                time.sleep(.002)
            device.resume()

        def reload(rng):
            device.reload(device.table(), noflush=rng.random() < .5)

        def other(rng):
            """Reload with other values of the keys that only a table sets.  Not wcache_blocks:
            without a write cache the process `keys` could not switch it."""
            words = dict(self.geo.options)
            for key, value in self.ctx.target.keys:
                if key in self.ctx.target.by_table and key != "wcache_blocks" and \
                        rng.random() < .5:
                    words[key] = value
            geo = self.geo.but(options=tuple(words.items()))
            device.reload(self.ctx.target.table(self.made.paths, geo),
                          noflush=rng.random() < .5)

        def drop(_):
            device.load(device.table())
            device.clear()

        self.repeat("tables", {"suspend": suspend, "reload": reload, "other keys": other,
                               "drop": drop})

    def messages(self):
        texts = ["verify", "checkpoint", "commit", "clean", "stats_clear"]
        if self.ctx.target.gathers:
            texts.append("level 0 1 3")
        kinds = {text: (lambda _, text=text: self.made.device.message(text))
                 for text in texts}
        self.repeat("messages", kinds)

    def keys(self):
        """Change keys by message, each to another value and back."""
        kinds, usual = {}, dict(self.geo.options)
        defaults = {"commit_ms": 1000, "idle_ms": 200, "destage_ms": 100}
        for key, value in (*self.ctx.target.keys, ("commit_ms", 3), ("idle_ms", 1)):
            back = usual.get(key, defaults.get(key))
            if key in self.ctx.target.by_table:
                continue

            def switch(_, key=key, value=value, back=back):
                self.made.device.message(f"{key} {value}")
                if back is not None:
                    self.wait_for_io(3)
                    self.made.device.message(f"{key} {back}")
            kinds[key] = switch
        if usual.get("wcache_blocks") or self.ctx.target.gathers:
            def off(_):
                self.made.device.message("wcache off")
                self.wait_for_io(3)
                self.made.device.message("wcache on")
            kinds["wcache"] = off
        self.repeat("keys", kinds)

    def resets(self):
        def reset(_):
            # A refused reset changes nothing and stays counted as begun, which allows more than it
            # must; the next one has another number.
            self.shared["begun"] += 1
            self.made.device.message("reset")
            self.shared["done"] = self.shared["begun"]

        self.repeat("resets", {"reset": reset})

    def looks(self):
        device = self.made.device
        kinds = {"status": lambda _: device.status(noflush=True),
                 "table": lambda _: device.table(),
                 "stats": lambda _: device.message("stats"),
                 "flushing status": lambda _: device.status()}
        self.repeat("looks", {k: v for k, v in kinds.items()
                              if k != "stats" or k in self.ctx.target.messages})

    def below(self):
        """Suspend and resume the devices below."""
        kinds = {}
        for under in self.made.under:
            def stop(_, under=under):
                under.suspend(noflush=True, lockfs=False)
                self.wait_little()
                under.resume()
            kinds[under.name] = stop
        if hasattr(self.made, "platter"):
            medium = self.made.platter

            def again(rng):
                medium.suspend(noflush=rng.random() < .5, lockfs=False)
                self.wait_little()
                medium.resume()
            kinds["platter"] = again
            for text in ("stats", "where", "lookahead off", "lookahead on",
                         "wcache off", "wcache on"):
                kinds[text] = lambda _, text=text: medium.message(text)
        self.repeat("below", kinds)

    @staticmethod
    def wait_little():
        time.sleep(.001)

    # --- running -----------------------------------------------------------

    def fork(self, name, work):
        """Fork a process that does @work, and writes its failure to a file for failures()."""
        pid = os.fork()
        if pid:
            return pid
        status = 0
        try:
            work()
        except BaseException as error:
            self.shared["quit"] = 1
            text = str(error) if isinstance(error, Failure) else traceback.format_exc()
            with open(f"/dev/shm/stress.{name}", "w", encoding="utf-8") as handle:
                handle.write(f"{name}: {text}\n")
            status = 1
        os._exit(status)

    def job(self, nr, seed):
        job = Job(nr, self.pieces, self.shared, seed, self.made.device.path,
                  self.seen[nr])
        try:
            job.run()
        finally:
            with open(f"/dev/shm/stress.job{nr}", "wb") as handle:
                pickle.dump(self.seen[nr].may, handle)

    def wait(self, pids, until=lambda: False):
        """Wait until the processes @pids have ended or @until() is true; fail if no number of
        Shared changes for STUCK_S."""
        last, since = b"", time.monotonic()
        while self.alive.intersection(pids) and not until():
            for pid in list(self.alive):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self.alive.remove(pid)
            now = self.shared.all()
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() > since + STUCK_S:
                self.stuck()
            time.sleep(.005)

    def stuck(self):
        """Fail with the kernel's list of blocked tasks (sysrq w)."""
        say(f"stuck: {({n: self.shared[n] for n in Shared.NAMES})}")
        with open("/proc/sysrq-trigger", "w", encoding="ascii") as handle:
            handle.write("w")
        lines = [line for line in self.ctx.kernel() if line]
        raise Failure("nothing moves any more:\n" + "\n".join(lines[-80:]))

    def round(self, nr):
        """Open the device, run the jobs and the administration, and remove it under load."""
        shared, made = self.shared, self.made
        made.open()
        self.compare(f"round {nr}")
        shared["quit"] = shared["ending"] = 0
        jobs = [self.fork(f"failure{i}", lambda i=i: self.job(i, f"{nr} {i}"))
                for i in range(JOBS)]
        doers = [self.tables, self.looks, self.below]
        if made.target.persistent:
            doers += [self.messages, self.keys, self.resets]
        others = [self.fork(work.__name__, work) for work in doers]
        self.alive = {*jobs, *others}
        try:
            self.wait(others, lambda: shared["quit"])
            # Replace the table under the load.
            if not shared["quit"]:
                self.judge()
                shared["ending"] = 1
                made.device.reload([(0, self.geo.logical * SECTORS, "error", "")],
                                   noflush=bool(nr % 2), lockfs=False)
            self.wait(self.alive)
        finally:
            for pid in self.alive:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self.failures()
        made.close()
        made.check()
        for i in range(JOBS):
            with open(f"/dev/shm/stress.job{i}", "rb") as handle:
                self.seen[i].may = pickle.load(handle)

    def failures(self):
        found = []
        for name in (*(f"failure{i}" for i in range(JOBS)), "tables", "looks", "below",
                     "messages", "keys", "resets"):
            path = f"/dev/shm/stress.{name}"
            if os.path.exists(path):
                with open(path, encoding="utf-8") as handle:
                    found.append(handle.read().strip())
                os.unlink(path)
        expect(not found, "; ".join(found))

    def judge(self):
        """Expect that the target counts no error, no loss and no violation of rule R0."""
        if not self.made.target.persistent:
            return
        count = stats(self.made.device)
        expect(not count["r0_violations"], "R0 was violated")
        expect(not count["wcache_lost_blocks"] and not count["step_failures"] and
               not count["write_errors"] and not count["read_errors"],
               f"errors where there were none: {count}")
        self.made.verify()

    def compare(self, when):
        """Compare every block with what its job expects, or for common blocks with foreign()."""
        owner = {}
        for i, (first, n) in enumerate(self.pieces):
            owner.update(dict.fromkeys(range(first, first + n), i % (JOBS + 1)))
        wrong = []
        with self.made.blk() as dev:
            for b in range(self.geo.logical):
                data = dev.read(b)
                wrong.append(foreign(b, data, self.shared) if owner[b] == JOBS else
                             self.seen[owner[b]].wrong(b, data, self.shared,
                                                       self.shared["done"]))
        wrong = [text for text in wrong if text]
        expect(not wrong, f"{when}: {len(wrong)} wrong blocks: {wrong[:3]}")

    def run(self):
        for name in os.listdir("/dev/shm"):
            if name.startswith("stress."):
                os.unlink(f"/dev/shm/{name}")
        for nr in range(self.rounds):
            self.round(nr)
        self.made.open()
        self.compare("in the end")
        if "clean" in self.made.target.messages:
            self.made.device.message("clean")
            self.compare("cleaned")
        self.made.verify()
        self.made.close()
        self.made.check()
        numbers = {"requests": self.shared.io(), **{
            name: self.shared[name] for name in ("tables", "messages", "keys", "looks",
                                                 "below")},
            "resets": self.shared["done"], **self.medium()}
        self.ctx.note(", ".join(f"{v} {k}" for k, v in numbers.items()))
        return numbers


    def medium(self):
        """Return the medium's counters, and expect that its head and its cache had work.  Reads of
        destroyed blocks are allowed: after a reset the target reads places that were not written
        since, and it may read a band as a whole."""
        if not hasattr(self.made, "platter"):
            return {}
        count = stats(self.made.platter)
        expect(count["destroyed_blocks"] > 0, "the head never destroyed anything")
        expect(count["wcache_destages"] > 0, "the medium's write cache was never used")
        expect(not count["wcache_lost_blocks"], "the medium's write cache has lost blocks")
        return {k: count[k] for k in ("destroyed_blocks", "destroyed_reads",
                                      "blocks_written", "blocks_read", "wcache_writes",
                                      "wcache_destages")}


def stress(ctx, geo, medium):
    return Storm(ctx, geo, medium, ctx.options).run()


def noticed(ctx, geo):
    """Proof that the suite notices damage: a process changes blocks below the target to an older
    version, or to halves of two versions, and the run must fail."""
    for what in ("an older version", "two halves"):
        game = Storm(ctx, geo, "ram", {"events": 40, "rounds": 1})
        under = game.made.under[0]
        mine = [b for first, n in game.pieces[::JOBS + 1] for b in range(first, first + n)]

        def spoil(rng, under=under, mine=mine, what=what):
            b = rng.choice(mine)
            with blk.opened(under.path) as dev:
                dev.write(b, stamp(b, 1 << SERIAL_BITS) if what == "an older version"
                          else stamp(b, 1)[:2048] + stamp(b, 2)[2048:])

        game.below = lambda game=game, spoil=spoil: game.repeat(
            "below", {"spoil": spoil, "again": spoil})
        game.below.__name__ = "below"
        try:
            game.run()
        except Failure as failure:
            expect("holds" in str(failure), f"{what}: {failure}")
            ctx.note(f"{what}: {str(failure)[:120]}")
        else:
            raise Failure(f"{what} was not noticed")
        dm.remove_all()


def cases(target, _options):
    out = [(geo.name, lambda ctx, g=geo: stress(ctx, g, "ram"))
           for geo in target.geometry("stress")]
    if not target.persistent:
        return [*out, ("noticed", lambda ctx: noticed(ctx, GEOMETRIES["stress"][0]))]
    return out + [(f"{geo.name} over platter {target.medium}",
                   lambda ctx, g=geo: stress(ctx, g, target.medium))
                  for geo in target.geometry("stress-platter")]
