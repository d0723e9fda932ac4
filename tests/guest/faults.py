# SPDX-License-Identifier: GPL-2.0
"""Errors of the devices below, in every phase of a target's work.

The rules: an error on data fails only the request that met it; an error on metadata makes the
device read-only; wrong data are never returned; and when the fault is gone and the device is
activated again, all data that were acknowledged and flushed ("promised") can be read.

A test selects the phase by the area that it breaks: the cache and the metadata lie on devices of
their own, the staging area and the native places at known blocks.  The test loads a faulty table
(dm-error, dm-flakey, dm-dust or dm-platter) under the running target.  On a debug kernel it also
makes allocations of the target's own modules fail, and requests by fail_make_request.
"""

import contextlib
import errno
import glob
import os
import random
import threading
import time

from guest import blk
from guest import dm
from guest import media
from guest import ondisk
from guest.bench import HANG_S, Failure, Held, Skip, beside, expect, modprobe, run, until
from guest.blk import BLOCK, SECTORS
from guest.media import numbers, standing, stands, stats
from guest.model import Model, read_stamp
from guest.targets import GEOMETRIES, SHINGLE, stack

FOREVER = "0 3600"      # dm-flakey: never up
CROWDS = 40             # factor by which requests for pages exceed the page frames


class Faulty:
    """A target on devices that a test can break and heal while the target runs, with a model of
    the data that the target must hold."""

    def __init__(self, ctx, geo):
        expect(modprobe("dm-flakey"), "no dm-flakey in this kernel")
        self.ctx, self.geo = ctx, geo
        self.stack = stack(ctx.pool, ctx.target, geo)
        self.under = dict(zip(self.stack.paths, self.stack.under))
        self.plain = {w: d.table() for w, d in self.under.items()}
        self.areas = ctx.target.areas(geo)
        self.model = Model(geo.logical)
        self.stack.open()
        self.dev = self.stack.blk()

    def break_(self, area, how="error"):
        """Break an area (cache, data, journal ...) until heal().

        @how: "error" fails all requests; "error_writes", "error_reads" and "drop_writes" are
        features of dm-flakey; "medium" makes each block unreadable until it is written."""
        which, start, n = self.areas[area]
        _, length, _, params = self.plain[which][0]
        path, offset = params.split()
        first, count = start * SECTORS, n * SECTORS
        at = int(offset) + first
        bad = (first, count, "error", "") if how == "error" else (
            first, count, *_platter(path, at, n)) if how == "medium" else (
            first, count, "flakey", f"{path} {at} {FOREVER} 1 {how}")
        table = [(0, first, "linear", f"{path} {offset}"), bad,
                 (first + count, length - first - count, "linear",
                  f"{path} {at + count}")]
        self.under[which].reload([t for t in table if t[1]], noflush=True,
                                 lockfs=False)
        if how == "medium":
            self.under[which].message(f"poison 0 {n}", first)

    def break_part(self, area, offset, n=1):
        """Make the @n blocks from block @offset of an area on unwritable until heal()."""
        which, start, _ = self.areas[area]
        self.areas["part"] = (which, start + offset, n)
        self.break_("part", "error_writes")

    def failed_once(self):
        """Expect that exactly one step of the engine failed, that no acknowledged block was lost,
        and that the device is still writable.  Return the counters."""
        count = stats(self.stack.device)
        expect(count["step_failures"] == 1, f"{count['step_failures']} steps failed")
        expect(not count["wcache_lost_blocks"], "blocks were lost")
        expect(self.state() == "rw", f"the state is {self.state()}")
        return count

    def poisoned(self, which, bad):
        """Make the blocks @bad of a device unreadable until they are written, with an error of the
        medium, which tells the target that their contents are lost."""
        _, length, _, params = self.plain[which][0]
        path, offset = params.split()
        under = self.under[which]
        under.reload([(0, length, *_platter(path, int(offset), length // SECTORS))],
                     noflush=True, lockfs=False)
        for b in bad:
            under.message(f"poison {b} 1")

    def dusty(self, which, bad):
        """Make the blocks @bad of a device unreadable until they are written, with a plain I/O
        error: the target cannot conclude that their contents are lost."""
        if not modprobe("dm-dust"):
            raise Skip("no dm-dust in this kernel")
        _, length, _, params = self.plain[which][0]
        path, offset = params.split()
        under = self.under[which]
        under.reload([(0, length, "dust", f"{path} {offset} {BLOCK}")],
                     noflush=True, lockfs=False)
        for b in bad:
            under.message(f"addbadblock {b}")
        under.message("enable")

    def heal(self):
        for which, device in self.under.items():
            device.reload(self.plain[which], noflush=True, lockfs=False)

    def write(self, block, n=1, must=None):
        """Write @n stamped blocks; return whether the write succeeded.

        @must: True or False if it has to succeed or to fail, None if either will do.  The same
        holds for flush() and message()."""
        op = self.model.submit(block, n)
        return self._end(op, must, self.dev.write, block, self.model.data(op))

    def flush(self, must=None):
        sent = self.model.tick()
        try:
            self.dev.flush()
        except OSError as error:
            expect(not must, f"flush failed: {error}")
            return False
        expect(must is not False, "a flush succeeded that could not")
        self.model.flushed(sent)
        return True

    def _end(self, op, must, call, *args):
        try:
            call(*args)
        except OSError as error:
            expect(not must, f"write at {op.block} failed: {error}")
            expect(error.errno in (errno.EIO, errno.EROFS, errno.EPERM,
                                   errno.ENOSPC), f"odd error: {error}")
            return False
        expect(must is not False, f"write at {op.block} succeeded")
        self.model.ack(op)
        return True

    def message(self, text, must=None):
        try:
            self.stack.device.message(text)
        except OSError as error:
            expect(not must, f"message {text} failed: {error}")
            return False
        expect(must is not False, f"message {text} succeeded")
        return True

    def compare(self, when, errors=()):
        """Read all blocks one by one and expect the data of the model, or an error where @errors
        allows one.  Return the blocks that could not be read.

        @errors: the blocks that may fail, or True for all."""
        failed, wrong = set(), []
        for b in range(self.geo.logical):
            try:
                data = self.dev.read(b)
            except OSError:
                failed.add(b)
                continue
            version, why = read_stamp(data, b)
            may = self.model.current(b)
            if version not in may:
                wrong.append(f"block {b} holds {why or version}, "
                             f"should be {sorted(may)}")
        expect(not wrong, f"{when}: {len(wrong)} wrong blocks: {wrong[:3]}")
        if errors is not True:
            more = failed - set(errors)
            expect(not more, f"{when}: blocks {sorted(more)[:8]} fail")
        return failed

    def say(self, text):
        """Send a message by dmsetup, so that other threads of the test run meanwhile; return the
        exit status."""
        return run("dmsetup", "message", self.stack.device.name, "0", text,
                   ok=None)[0]

    def fill(self):
        """Write every block, clean (if the target can) so that all data lie at their native places,
        and flush."""
        step = self.geo.band
        for b in range(0, self.geo.logical, step):
            self.write(b, step, must=True)
        if "clean" in self.ctx.target.messages:
            self.message("clean", must=True)
        self.flush(must=True)

    def state(self):
        return self.ctx.target.state(self.stack.device)

    def close(self):
        self.dev.close()
        self.stack.close()

    def again(self, repair=False):
        """Activate the device again, and expect that it is writable.  The caller has healed it.

        @repair: run `check` first, and `repair` if `check` finds damage."""
        self.close()
        if repair:
            status, text = self.ctx.target.check(self.stack.paths, self.geo)
            if status:
                done, said = self.ctx.target.repair(self.stack.paths,
                                                    self.geo)
                expect(done in (0, 1), f"check said {text.strip()}; repair ended "
                                  f"with {done}: {said.strip()}")
        self.stack.check()
        self.stack.open()
        self.dev = self.stack.blk()
        expect(self.state() == "rw", f"after healing it is {self.state()}")
        # The first flush may fail: it reports blocks that the previous activation acknowledged and
        # could not write (ladder.py tests that).
        self.flush()

    def alive(self):
        """Expect that a healed device works: all blocks can be written and cleaned, its map passes
        `verify`, and the data survive another activation.  Close the device."""
        self.fill()
        self.compare("in the end")
        self.stack.verify()
        self.again()
        self.compare("in the end, activated again")
        self.close()


def _platter(path, at, blocks):
    """Return the target type and the parameters of a dm-platter over @blocks blocks of @path from
    sector @at on.  A track is one block and the head writes no neighbour, so that a block becomes
    unreadable only by a `poison` message."""
    return "platter", (f"{path} {at} generic 0 14 media smr damage poison timing none "
                       f"head_tracks 1 surfaces 1 zones {blocks}x{SECTORS} track_sectors "
                       f"{SECTORS}")


class Sluice:
    """Hold all writes to an area until the test decides about them, so that no test depends on
    timing.  let_fail() fails the writes held so far and holds later ones; let_all_fail() and
    let_all_pass() decide about the held and all later writes.  On exit the held writes succeed."""

    def __init__(self, game, area):
        expect(modprobe("dm-delay"), "no dm-delay in this kernel")
        which, start, n = game.areas[area]
        _, length, _, params = game.plain[which][0]
        path, offset = params.split()
        first, self.sectors, offset = start * SECTORS, n * SECTORS, int(offset)
        self.game = game
        self.good = [(0, self.sectors, "linear", f"{path} {offset + first}")]
        self.broken = dm.Device("broken", [(
            0, self.sectors, "flakey", f"{path} {offset + first} {FOREVER} 1 error_writes")])
        self.gate = dm.Device("gate", standing(self.broken.path, self.sectors))
        game.under[which].reload([row for row in (
            (0, first, "linear", f"{path} {offset}"),
            (first, self.sectors, "linear", f"{self.gate.path} 0"),
            (first + self.sectors, length - first - self.sectors, "linear",
             f"{path} {offset + first + self.sectors}")) if row[1]],
            noflush=True, lockfs=False)

    def waits(self):
        return stands(self.gate)

    def let_fail(self):
        self.gate.reload(standing(self.broken.path, self.sectors), noflush=True, lockfs=False)

    def let_all_fail(self):
        """Fail the writes held so far and all later ones."""
        self.gate.reload([(0, self.sectors, "linear", f"{self.broken.path} 0")],
                         noflush=True, lockfs=False)

    def let_all_pass(self):
        self.broken.reload(self.good, noflush=True, lockfs=False)
        self.let_all_fail()             # sends them to `broken`, which now passes them on

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.let_all_pass()
        self.game.heal()
        self.gate.remove()
        self.broken.remove()


@contextlib.contextmanager
def faulty(ctx, geo):
    game = Faulty(ctx, geo)
    try:
        yield game
    finally:
        with contextlib.suppress(OSError):
            game.heal()
        game.close()


def read_home(ctx, geo):
    """Blocks at their native places cannot be read: each read returns an error, the device stays
    writable, and all data can be read when the fault is gone."""
    with faulty(ctx, geo) as game:
        game.fill()
        game.break_("data", "error_reads" if error_reads() else "error")
        failed = game.compare("broken", True)
        expect(len(failed) == geo.logical, "reads succeeded that could not")
        expect(game.state() == "rw", "a data error changed the state")
        game.heal()
        game.compare("healed")
        game.alive()


def error_reads():
    """Return whether dm-flakey has the feature error_reads (Linux 6.5 and later)."""
    release = os.uname().release.split("-")[0].split(".")
    return tuple(map(int, release[:2])) >= (6, 5)


def write_error(ctx, geo):
    """The area that takes new data cannot be written: writes fail, the device stays writable, and
    the old contents remain readable, also after activation."""
    area = "cache" if "cache" in ctx.target.areas(geo) else "data"
    with faulty(ctx, geo) as game:
        game.fill()
        game.write(0, must=True)
        game.break_(area, "error_writes")
        game.write(1, must=False)
        game.write(geo.band, 2, must=False)
        expect(game.state() == "rw", "a data error changed the state")
        game.heal()
        game.compare("healed")
        game.write(1, must=True)
        game.again()
        game.compare("activated again")
        game.alive()


def read_cached(ctx, geo):
    with faulty(ctx, geo) as game:
        game.fill()
        # Four blocks at most: they fit in a quarter of the cache, and a target that predicts its
        # need of cache may keep no more than that.
        cached = set(range(0, 4 * geo.band, geo.band))
        for b in sorted(cached):
            game.write(b, must=True)
        game.break_("cache")
        failed = game.compare("broken", cached)
        expect(failed == cached, "reads of cached blocks succeeded")
        expect(game.state() == "rw", "a data error changed the state")
        game.heal()
        game.compare("healed")
        game.alive()


def cleaning_write(ctx, geo, area):
    """Cleaning cannot write to @area: no block is lost.  If cleaning fails too often, the device
    becomes read-only; after healing and activation cleaning succeeds."""
    with faulty(ctx, geo) as game:
        game.fill()
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        game.break_(area, "error_writes")
        game.message("clean")
        for b in range(0, geo.logical, geo.band):
            game.write(b + 1)       # may fail: the cache band can be full
        game.compare("broken")
        game.flush()
        game.heal()
        game.compare("healed")
        # The device becomes read-only when cleaning has failed repeatedly.
        state = game.state()
        expect(state in ("rw", "ro"), f"the state is {state}")
        sent = game.model.sent_by(game.model.marks)
        if state == "ro":
            game.again(repair=True)
            expect(not _forget_unpromised(game, sent), "unreadable blocks")
        game.message("clean", must=True)
        game.compare("cleaned")
        game.again()
        game.compare("activated again")
        ctx.note(f"it went {state}")
        game.alive()


def cleaning_read(ctx, geo, area):
    """Cleaning reads blocks of @area that the medium has lost: exactly these blocks are unreadable
    afterwards, also after activation, and a write makes them readable again."""
    with faulty(ctx, geo) as game:
        game.fill()
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        game.break_(area, "medium")
        game.message("clean", must=True)
        game.heal()
        failed = game.compare("healed", True)
        game.again(repair=True)
        expect(game.compare("activated again", failed) == failed,
               "a block that was lost came back as something else")
        cached = set(range(0, geo.logical, geo.band))
        allowed = cached if area == "cache" else \
            set(range(geo.logical)) - cached if "cache" in game.areas else \
            set(range(geo.logical))     # without a cache area, new data go to bands of "data"
        expect(failed <= allowed, f"blocks {sorted(failed - allowed)[:5]} "
                                  f"were lost that could be read")
        expect(failed, "nothing of what cleaning had to read was lost")
        ctx.note(f"{len(failed)} blocks were lost to the medium")
        for b in sorted(failed):
            game.write(b, must=True)
        game.compare("overwritten")
        game.alive()


def _none_lost(game, when):
    """Expect that the target has given up no block and does not ask for a check."""
    count = stats(game.stack.device)
    for name in ("bad_blocks", "wcache_lost_blocks"):
        expect(not count[name], f"{when}: {name} {count[name]}")
    expect("needs_check" not in game.stack.device.status(noflush=True),
           f"{when}: verify reports a wrong map")
    expect(game.state() in ("rw", "ro"), f"{when}: the state is {game.state()}")


def cleaning_link(ctx, geo, area):
    """Cleaning cannot read @area because of an error that does not come from the medium, as from a
    broken cable: the target must not mark any block as lost.  It tries again, and if the error
    lasts it becomes read-only; after activation cleaning succeeds."""
    with faulty(ctx, geo) as game:
        game.fill()
        went = []
        for passes in (True, False):
            # In a log the same blocks would lie together, and leave bands that are free at once.
            first = 0 if passes or ctx.target.has_home else 1
            for b in range(first, geo.logical, geo.band):
                game.write(b, must=True)
            had = stats(game.stack.device)["step_failures"]
            game.break_(area, "error_reads" if error_reads() else "error")
            # A target that gathers writes does its cleaning in a flush.
            flush = ctx.target.gathers and not passes
            with beside(lambda w=flush: game.flush(must=False) if w else
                        game.say("clean")) as cleaning:
                until(lambda: stats(game.stack.device)["step_failures"] > had or
                      not cleaning.is_alive(), "no step fails")
                if passes:
                    game.heal()
            _none_lost(game, "broken")
            expect(stats(game.stack.device)["step_failures"] > had, "no step failed")
            went.append(game.state())
            if not passes:
                expect(went[-1] == "ro", f"the state is {went[-1]}")
                game.write(1, must=False)
                game.compare("broken", True)
                game.heal()
            game.compare("healed")
            sent = game.model.sent_by(game.model.marks)
            if went[-1] == "ro":
                game.again()
                expect(not _forget_unpromised(game, sent), "unreadable blocks")
            game.message("clean", must=True)
            game.flush(must=True)
            _none_lost(game, "cleaned")
            game.compare("cleaned")
        ctx.note(f"healed soon it went {went[0]}, else {went[1]}")
        game.alive()


def failures_far_apart(ctx, geo):
    """Four cleaning steps fail, 15 minutes apart, and the retry of each has nothing left to move
    because the host discarded the data: the target must not add these failures up and become
    read-only."""
    if os.environ.get("SHINGLE_CLOCK") != "virtual" or not error_reads():
        raise Skip("it takes 45 minutes, or a newer dm-flakey")
    with faulty(ctx, geo) as game:
        for i in range(4):
            # Twice, so that the region's log is full and has to be cleaned.
            for _ in range(2):
                game.dev.write(0, bytes(geo.band * BLOCK))
                game.dev.flush()
            had = stats(game.stack.device)
            game.break_("data", "error_reads")
            with beside(lambda: game.say("clean")) as cleaning:
                until(lambda h=had: stats(game.stack.device)["step_failures"] >
                      h["step_failures"] or not cleaning.is_alive(), "no step fails")
                expect(game.state() == "rw", f"{game.state()} after {i + 1} failures")
                game.dev.discard(0, geo.band)
            now = stats(game.stack.device)
            expect(now["step_failures"] == had["step_failures"] + 1,
                   f"{now['step_failures']} failures, {had['step_failures']} before")
            expect(now["tiler_cleans"] > had["tiler_cleans"], "it was not cleaned")
            expect(now["tiler_moved_blocks"] == had["tiler_moved_blocks"], "blocks were moved")
            game.heal()
            time.sleep(900)
        game.alive()


def restoring_link(ctx, geo):
    """The target became read-only between staging and writing back.  At the next activation the
    staging area cannot be read, by an error that does not come from the medium: the staged blocks
    must not be given up, and the activation after that restores them."""
    with faulty(ctx, geo) as game:
        game.fill()
        anew = set(range(0, geo.logical, geo.band))
        for b in anew:
            game.write(b, must=True)
        game.break_("data", "error_writes")
        game.message("clean", must=False)
        expect(game.state() == "ro", f"the state is {game.state()}")
        why = game.stack.device.message("mode")
        expect(why.startswith("ro cleaning can make no progress"), f"the cause is '{why}'")
        game.heal()
        sent = game.model.sent_by(game.model.marks)
        game.close()
        game.break_("staging", "error_reads" if error_reads() else "error")
        game.stack.open()
        game.dev = game.stack.blk()
        game.message("clean")           # fails: the staged blocks must be restored first
        count = stats(game.stack.device)
        most = len(anew) if ctx.target.gathers else 0
        expect(count["bad_blocks"] <= most, f"{count['bad_blocks']} blocks of what was "
               "staged were given up")
        expect(count["step_failures"] and game.state() == "ro", "nothing was tried again")
        game.write(1, must=False)
        game.heal()
        game.again()
        # A target that gathers writes had acknowledged these without writing them; they were never
        # flushed, so they may be lost.
        lost = _forget_unpromised(game, sent)
        expect(set(lost) <= (anew if ctx.target.gathers else set()),
               f"blocks {lost[:8]} were lost")
        for b in lost:
            game.write(b, must=True)
        game.alive()


def read_by_habit(ctx, geo):
    """With read_home=always, cleaning reads a whole band from its native place even if it needs
    only a part of it or nothing: a read error in a part that it does not need has no effect."""
    band = geo.band
    with faulty(ctx, geo) as game:
        for b in range(band, geo.logical, band):
            game.write(b, band, must=True)
        game.message("clean", must=True)
        game.close()
        lies = ctx.target.lies(game.stack.paths, geo)
        game.stack.open()
        game.dev = game.stack.blk()
        which, start, _ = game.areas["data"]
        for what, unread, writes in (
                ("never written", (start, band), (1,)),
                # Not in ascending order: a sequential write might go to the native place directly.
                ("cached as a whole", (lies[band][1], band), (band + 1, band, *range(
                    band + 2, 2 * band))),
                ("cached where it is bad", (lies[2 * band][1], 1), (2 * band,))):
            for b in writes:
                game.write(b, must=True)
            game.areas["home"] = (which, *unread)
            game.break_("home", "error_reads" if error_reads() else "error")
            before = stats(game.stack.device)
            game.message("clean", must=True)
            count = stats(game.stack.device)
            game.heal()
            # Cleaning with staging reads the band and then the staged copy.
            expect(count["clean_read_blocks"] - before["clean_read_blocks"] >=
                   band * (1 + ("staging" in game.areas)), f"{what}: not all of it was read")
            for name in ("read_errors", "bad_blocks", "step_failures", "cached_blocks"):
                expect(not count[name], f"{what}: {name} {count[name]}")
            game.compare(what)
        game.again()
        game.compare("activated again")
        game.alive()


def newer_than_staged(ctx, geo):
    """The host rewrites a block of a band that is staged, and recovery cannot read the staged copy
    of that block: no block is lost, because the newer version is in the cache."""
    with faulty(ctx, geo) as game:
        game.fill()
        game.write(0, must=True)
        data = Sluice(game, "data")
        with beside(lambda: game.say("clean")), data:
            until(data.waits, "the band is staged, and written")
            game.write(0, must=True)
            game.flush(must=True)
            data.let_all_fail()
            until(lambda: game.state() != "rw", "cleaning fails")
        expect(game.state() == "ro", f"the state is {game.state()}")
        game.close()
        which, start, _ = game.areas["staging"]
        game.areas["staged block"] = (which, start, 1)
        game.break_("staged block")
        game.stack.open()
        game.dev = game.stack.blk()
        until(lambda: stats(game.stack.device)["steps"], "recovery brings it home")
        game.compare("the staged copy is unreadable")
        game.heal()
        game.alive()


def newer_than_moved(ctx, geo):
    """The target moves a track to another place and cannot read the old one: it marks the old
    blocks as lost, but not the block that the host has just rewritten."""
    with faulty(ctx, geo) as game:
        game.write(0, geo.band, must=True)
        game.flush(must=True)
        game.write(1, must=True)
        game.break_("data", "medium")
        game.flush(must=True)
        game.heal()
        lost = set(range(geo.band)) - {1}
        expect(game.compare("healed", lost) == lost, "not moved")
        game.again()
        expect(game.compare("activated again", lost) == lost, "not moved")
        for b in lost:
            game.write(b, must=True)
        game.alive()


def meta_write(ctx, geo, area, trigger):
    """The metadata in @area cannot be written: the device becomes read-only and reports
    needs_check.  After healing, repair and activation all promised data are there.

    @trigger: called with the Faulty, makes the target write that area."""
    with faulty(ctx, geo) as game:
        game.fill()
        game.write(2, must=True)
        game.flush(must=True)
        game.write(3, must=True)
        game.break_(area, "error_writes")
        trigger(game)
        expect(game.state() in ("ro", "fail"), f"the state is {game.state()}")
        game.write(0, must=False)
        game.compare("broken", errors=True if game.state() == "fail" else ())
        expect("needs_check" in game.stack.device.status(noflush=True),
               "the status does not say needs_check")
        game.heal()
        # Data written after the last successful flush may be lost.
        sent = game.model.sent_by(game.model.marks)
        game.close()
        game.again(repair=True)
        _forget_unpromised(game, sent)
        game.compare("activated again")
        game.alive()


def _forget_unpromised(game, sent):
    """Expect that each block holds promised data or newer ones, and make what it holds the model's
    only version, as after a power cut.  Return the blocks that cannot be read.

    @sent: the versions submitted before the device was closed."""
    failed = []
    for b in range(game.geo.logical):
        try:
            version, why = read_stamp(game.dev.read(b), b)
        except OSError:
            failed.append(b)
            continue
        may = game.model.after_cut(b, game.model.marks, sent)
        expect(version in may, f"block {b} holds {why or version}, promised: "
                               f"{sorted(may)}")
        for op in game.model.history[b]:
            if op.version == version:
                game.model.history[b] = [op]
                op.acked = op.acked or game.model.tick()
                break
    return failed


def _write_unreadable(game, repair=False):
    """Activate the device again, compare it with what was promised, and rewrite the blocks that
    cannot be read."""
    sent = game.model.sent_by(game.model.marks)
    game.again(repair=repair)
    for b in _forget_unpromised(game, sent):
        game.write(b, must=True)


def page_writes(game):
    """Trigger for meta_write(): change a page of the map and ask for a checkpoint, which has to
    write that page."""
    game.write(4)
    game.message("checkpoint", False)


def page_reads(ctx, geo):
    """Pages of the map cannot be read for a while: requests that need such a page fail, others
    succeed, and the device stays writable.  As soon as pages can be read again, all blocks can be
    read and written."""
    with faulty(ctx, geo) as game:
        game.fill()
        game.message("checkpoint", must=True)
        game.again()
        game.break_("pages")
        failed = game.compare("broken", errors=True)
        expect(failed, "no page was read")
        game.write(0, must=False)
        game.message("verify", must=False)
        expect(game.state() == "rw", f"the state is {game.state()}")
        expect("needs_check" not in game.stack.device.status(noflush=True),
               "the status says needs_check")
        expect(stats(game.stack.device)["map_page_waits"], "nobody waited for a page")
        game.heal()
        game.message("verify", must=True)
        game.compare("healed")
        game.alive()
        game.again()
        game.compare("activated again")


def page_readers(ctx, geo):
    """Concurrent reads need more pages than there are frames: each read waits for a frame, and
    none causes a checkpoint, because unchanged pages can be evicted without one."""
    many = geo.but(data=40)
    with faulty(ctx, many) as game:
        game.fill()
        game.message("checkpoint", must=True)
        game.again()
        before = stats(game.stack.device)
        queue = blk.Aio(game.dev, many.data)
        with Held([game.under["meta"]]) as held:
            for region in range(many.data):
                queue.read(region * many.band, 1, region * many.band)
            held.go()
        ended = []
        while queue.flying:
            ended += queue.reap(1)
        queue.close()
        expect(all(result == BLOCK for _, result, _ in ended), "reads failed")
        after = stats(game.stack.device)
        expect(after["map_page_reads"] - before["map_page_reads"] > 8, "they found their pages")
        expect(after["checkpoints"] == before["checkpoints"],
               f"{after['checkpoints'] - before['checkpoints']} checkpoints for reads")
        game.compare("read")
        game.alive()


def page_holders(ctx, geo):
    """Writes in flight pin as many pages as may be dirty: a write that needs another page waits
    until one of them ends.  It must not start one checkpoint after another meanwhile, because
    those would write no page."""
    many = geo.but(data=40)
    with faulty(ctx, many) as game:
        game.fill()
        game.message("checkpoint", must=True)
        before = stats(game.stack.device)
        queue = blk.Aio(game.dev, many.data)
        with Held([game.under["data"]]) as held:
            for region in range(many.data):
                block = region * many.band
                queue.write(block, game.model.data(game.model.submit(block, 1)), block)
            # The number of retries depends on the order of arrival, so only waiting is checked.
            until(lambda: stats(game.stack.device)["deferred"] >= before["deferred"] +
                  many.data // 2, "nobody waits")
            time.sleep(.3)
            after = stats(game.stack.device)
            held.go()
        ended = []
        while queue.flying:
            ended += queue.reap(1)
        queue.close()
        expect(all(result == BLOCK for _, result, _ in ended), "writes failed")
        expect(after["checkpoints"] < before["checkpoints"] + 5,
               f"{after['checkpoints'] - before['checkpoints']} checkpoints of nothing")
        game.alive()


def page_crowd(ctx, geo):
    """The device is read-only after a journal error, so its dirty pages keep their frames, and
    reads need more pages than frames are left: each read gets a frame when another request
    releases one."""
    many = geo.but(data=40)
    with faulty(ctx, many) as game:
        game.fill()
        game.message("checkpoint", must=True)
        game.again()
        game.break_("journal", "error_writes")
        for region in range(6):
            game.write(region * many.band)
        game.flush(must=False)
        expect(game.state() == "ro", f"the state is {game.state()}")
        ctx.note(f"{stats(game.stack.device)['map_dirty_pages']} pages have changed")
        queue, rng = blk.Aio(game.dev, many.data), random.Random(1)
        before = stats(game.stack.device)
        over = threading.Event()

        def verify():
            while not over.is_set():
                game.say("verify")
        with beside(verify), beside(verify), contextlib.ExitStack() as last:
            last.callback(over.set)
            for _ in range(CROWDS):
                for region in rng.sample(range(many.data), many.data):
                    queue.read(region * many.band, 1, region)
                while queue.flying:
                    expect(all(result == BLOCK for _, result, _ in queue.reap(1)),
                           "reads failed")
        queue.close()
        after = stats(game.stack.device)
        expect(after["map_page_reads"] - before["map_page_reads"] > CROWDS * 8,
               "they found their pages")


def page_frames(ctx, geo):
    """A read-only table replays the journal into as many pages as it has frames, and may not write
    them back: reads of other pages still get a frame."""
    few = geo.but(data=20)
    roomy = few.but(options=tuple((key, 1024 if key == "map_cache_kb" else value)
                                  for key, value in geo.options))
    with faulty(ctx, roomy) as game:
        game.fill()
        game.message("checkpoint", must=True)
        # Two pages in each region.
        for region in range(4):
            game.write(region * geo.band, must=True)
        game.flush(must=True)
        game.close()
        game.stack.geo = few
        game.stack.device = device = dm.Device("target")
        device.load(ctx.target.table(game.stack.paths, few), read_only=True)
        device.resume()
        expect(game.state() == "ro", f"the state is {game.state()}")
        changed = stats(device)["map_dirty_pages"]
        expect(changed == 8, f"{changed} pages have changed, in 8 frames")
        game.dev = blk.Blk(device.path, os.O_RDONLY)
        game.compare("read-only")
        game.stack.verify()
        game.again()
        game.compare("activated again")
        game.alive()


def commit_behind(ctx, geo):
    """A commit fails while a flush waits for it: the flush fails too, even if the fault is gone by
    then, because the commit that it depends on is not on the disk."""
    # Room for all writes: one that waited for cleaning would wait for that commit as well.
    with faulty(ctx, geo.but(places=3 * geo.band)) as game:
        game.fill()
        game.write(2, must=True)
        which, _, _ = game.areas["journal"]
        start, length, _, params = game.plain[which][0]
        path, offset = params.split()
        deep = dm.linear("deep", [(path, int(offset), length)])
        good = deep.table()
        game.under[which].reload([(start, length, "linear", f"{deep.path} 0")],
                                 noflush=True, lockfs=False)
        deep.reload([(0, length, "error", "")], noflush=True, lockfs=False)
        with Held([game.under[which]]) as held:
            held.also(lambda: game.say("commit"))
            time.sleep(.1)
            game.write(3, must=True)
            held.also(lambda: game.flush(must=False))
            time.sleep(.1)
            held.go()
            until(lambda: game.state() != "rw", "the commit does not fail")
            deep.reload(good, noflush=True, lockfs=False)
        game.heal()
        deep.remove()
        sent = game.model.sent_by(game.model.marks)
        game.again(repair=True)
        _forget_unpromised(game, sent)
        game.alive()


def checkpoint_behind(ctx, geo):
    """Cleaning fails and makes the device read-only while a checkpoint is in flight; then the
    checkpoint fails.  The first failure does not concern the metadata, the second does: status
    must report needs_check and the log the second cause."""
    with faulty(ctx, geo) as game:
        game.fill()
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        slots = Sluice(game, "checkpoint")
        with beside(lambda: game.say("checkpoint")) as asked, slots:
            until(slots.waits, "a checkpoint is written")
            game.break_("data", "error_writes")
            game.message("clean", must=False)
            expect(game.state() == "ro", f"the state is {game.state()}")
            expect("needs_check" not in game.stack.device.status(noflush=True),
                   "verify reports a wrong map")
            ctx.kernel()
            slots.let_all_fail()
            until(lambda: not asked.is_alive(), "the checkpoint fails")
        status, said = game.stack.device.status(noflush=True), ctx.kernel()
        expect("needs_check" in status, f"the status does not say needs_check: {status}")
        expect(any("still read-only: a checkpoint" in line for line in said),
               f"the log does not say why: {said}")
        sent = game.model.sent_by(game.model.marks)
        game.again(repair=True)
        expect(not _forget_unpromised(game, sent), "unreadable blocks")
        game.alive()


def full_ring(ctx, geo):
    """Commits fill the journal while a checkpoint is being written that began with an empty
    journal: there is still room for the commit of the next checkpoint, or the target would wait
    forever."""
    with faulty(ctx, geo) as game:
        game.write(0, must=True)
        game.flush(must=True)
        game.message("checkpoint", must=True)
        which, at, n = game.areas["checkpoint"]
        _, length, _, params = game.plain[which][0]
        path, offset = params.split()
        offset, first, count = int(offset), at * SECTORS, n * SECTORS
        slots = dm.linear("slots", [(path, offset + first, count)])
        game.under[which].reload([
            (0, first, "linear", f"{path} {offset}"),
            (first, count, "linear", f"{slots.path} 0"),
            (first + count, length - first - count, "linear",
             f"{path} {offset + first + count}")], noflush=True, lockfs=False)
        with Held([slots]) as held:
            held.also(lambda: game.say("checkpoint"))
            time.sleep(.1)
            done = []
            work = threading.Thread(target=lambda: done.extend(
                game.write(b) and game.flush() for b in range(4)), daemon=True)
            work.start()
            time.sleep(.2)
            queue = blk.Aio(game.dev, 1)    # the other thread uses the buffer of game.dev
            op = game.model.submit(5, 1)
            queue.write(5, game.model.data(op), op)
            held.go()
            expect(queue.reap()[0][1] == BLOCK, "a write failed")
            game.model.ack(op)
            queue.close()
        work.join(HANG_S)
        expect(not work.is_alive(), "the next flush waits for ever")
        expect(all(done), f"flushes: {done}")
        game.heal()
        slots.remove()
        game.again()
        game.compare("activated again")
        game.alive()


def activation(ctx, geo, area):
    """The metadata in @area cannot be read: activation fails with a message in the log, and
    succeeds when the fault is gone.  A superblock has a copy at the end of the device, so that one
    unreadable superblock does not prevent activation."""
    with faulty(ctx, geo) as game:
        game.fill()
        game.close()
        game.break_(area)
        ctx.kernel()
        if area == "superblock":
            game.stack.open()
            expect(game.state() == "rw", "the second superblock did not do")
        else:
            try:
                game.stack.open()
            except OSError:
                said = [line for line in ctx.kernel() if "stl" in line or
                        "shingle" in line]
                expect(said, "nothing in the log says why")
            else:
                raise Failure("activated with unreadable metadata")
        game.heal()
        game.stack.close()
        game.stack.open()
        game.dev = game.stack.blk()
        game.compare("healed")
        game.alive()


def superblocks(ctx, game):
    """Return the device that holds the superblocks, and the block numbers of the two."""
    which, first, _ = game.areas["superblock"]
    return which, [first, ctx.target.sizes(game.geo)[which] - 1]


def sound_one_last(ctx, geo, rotten, how):
    """One of the two superblocks is damaged or unreadable and cannot be written: `keep`, which
    stores a setting in both, fails and leaves the intact superblock unchanged.  A failed write
    there would leave no valid superblock.

    @rotten: 0 or 1, the bad superblock
    @how: "rotten" (readable but zeroed) or "unreadable"."""
    with faulty(ctx, geo) as game:
        game.fill()
        which, ends = superblocks(ctx, game)
        with blk.Blk(game.under[which].path) as raw:
            if how == "rotten":
                raw.write(ends[rotten], bytes(BLOCK))
            game.areas["rotten"] = (which, ends[rotten], 1)
            game.break_("rotten", "error_writes" if how == "rotten" else "error")
            game.message("keep commit_ms=7", must=False)
            expect(b"commit_ms" not in raw.read(ends[1 - rotten]),
                   f"superblock {1 - rotten} was written, the sound one")
        expect(game.state() == "ro", f"the state is {game.state()}")
        game.heal()
        game.again(repair=True)
        game.compare("repaired")
        game.message("keep commit_ms=7", must=True)
        game.again()
        game.alive()


def superblock_heals(ctx, geo, bad):
    """Superblock @bad cannot be read until it is written: `keep` writes both superblocks, so that
    both are valid afterwards."""
    with faulty(ctx, geo) as game:
        game.fill()
        which, ends = superblocks(ctx, game)
        game.dusty(which, [ends[bad]])
        game.message("keep commit_ms=7", must=True)
        with blk.Blk(game.under[which].path) as raw:
            for at in ends:
                expect(b"commit_ms" in raw.read(at), f"block {at} does not say it")
        expect(game.state() == "rw", f"the state is {game.state()}")
        game.heal()
        game.again()
        game.alive()


def refused(ctx, game, what):
    """Expect that activation fails, with exactly one "cannot activate" message in the log.

    @what: describes the damage, for messages of the test."""
    ctx.kernel()
    try:
        game.stack.open()
    except OSError:
        said = [line for line in ctx.kernel() if "cannot activate" in line]
        expect(len(said) == 1, f"{what}: {len(said)} sentences say why")
        ctx.note(f"{what}: {said[0].split('cannot activate: ')[1]}")
    else:
        raise Failure(f"{what}: activated")
    game.stack.close()


def failing_ring(ctx, geo):
    """On a shingled medium the head destroys blocks ahead of the journal's end, so recovery
    accepts lost blocks there.  A read error that does not come from the medium does not prove that
    a block was destroyed: activation must fail and write nothing, because the block may hold a
    promised transaction."""
    with faulty(ctx, geo) as game:
        game.fill()
        which, start, n = game.areas["journal"]
        for ahead in (None, -1, 0, 1, geo.gap, n // 2):
            game.message("checkpoint", must=True)
            for b in range(3):
                game.write(b, must=True)
                game.flush(must=True)
            game.close()
            before = content(game.stack.paths["meta"])
            end = ctx.target.dump(game.stack.paths, geo)["recovery"]["next_pos"]
            if ahead is None:
                game.break_("journal")
            else:
                game.areas["one"] = (which, start + (end + ahead) % n, 1)
                game.break_("one")
            refused(ctx, game, "the ring fails" if ahead is None else
                    f"block {ahead} from the journal's end fails")
            game.heal()
            expect(content(game.stack.paths["meta"]) == before, "it was written to")
            game.stack.open()
            game.dev = game.stack.blk()
            game.compare("healed")
        game.alive()


class Headed(Faulty):
    """A Faulty with one area of the metadata on shingled tracks of one block, where each write
    destroys the next gap blocks; the rest of that device is conventional."""

    def __init__(self, ctx, geo, area="journal"):
        super().__init__(ctx, geo)
        self.close()
        _, start, n = self.areas[area]
        under = next(d for w, d in self.under.items() if w == "meta")
        self.blocks = under.blocks
        self.platter = media.platter(
            "medium", under, geo.but(track=1, head=geo.gap),
            conventional=f"0+{start * SECTORS},{(start + n) * SECTORS}+"
                         f"{(self.blocks - start - n) * SECTORS}")
        self.stack.paths["meta"] = self.platter.path
        self.stack.format()
        self.stack.open()
        self.dev = self.stack.blk()
        self.model = Model(geo.logical)

    def down(self):
        self.close()
        self.platter.remove()


def destroyed_ahead(ctx, geo):
    """The head destroyed blocks ahead of the newest checkpoint: they held nothing, so `check`
    reports no damage and activation succeeds."""
    game = Headed(ctx, geo, "checkpoint")
    try:
        game.fill()
        game.message("checkpoint", must=True)
        game.close()
        expect(game.platter.message(f"damaged 0 {game.blocks}").split(), "nothing was destroyed")
        game.stack.check()
        game.stack.open()
        game.dev = game.stack.blk()
        game.compare("activated again")
    finally:
        game.down()


def lost_at_activation(ctx):
    """Metadata and data share a shingled medium, and activation reads journal blocks that the head
    has destroyed: its counter load_lost_reads must equal the medium's count of such reads, and
    use must add none.  The only other reader is the tool when it formats over an older journal: it
    reads that in pieces of 256 blocks up to the first piece that cannot be read."""
    blocks = 4096
    tracks = GEOMETRIES["faults"][0].but(track=32, head=2, band=32, skew=0)
    under = ctx.pool.slice(blocks, "under")
    plate = media.platter("medium", under, tracks)

    def tool(*words):
        run(SHINGLE, *words, "--no-udev")

    def opened():
        device = dm.Device.found("target")
        return device, stats(plate)["destroyed_reads"]

    words = ("--force", "--cache-size", "2b", "--journal", "2M", "--set", "commit_ms=0")
    for turn in ("new", "formatted again"):
        before = stats(plate)["destroyed_reads"]
        tool("create", ctx.target.name, *words, "--band", "512K", plate.path, "target")
        device, met = opened()
        expect(not stats(device)["load_lost_reads"], f"{turn}: a fresh journal is destroyed")
        least, most = (0, 0) if turn == "new" else (1, 256)
        expect(least <= met - before <= most,
               f"{turn}: creating the device read {met - before} destroyed blocks")
        for turns in range(1, 4):
            with blk.opened(device.path) as dev:
                for b in range(turns):
                    dev.write(7 * b + turns, bytes(BLOCK))
                    dev.flush()
            now = stats(plate)["destroyed_reads"]
            expect(now == met, f"{turn}: {now - met} reads of destroyed blocks in use")
            tool("remove", "target")
            tool("open", plate.path, "target")
            device, met = opened()
            counted = stats(device)["load_lost_reads"]
            expect(met - now == counted, f"{turn}: the medium counts {met - now} reads of "
                                         f"destroyed blocks, the device {counted}")
            expect(counted, f"{turn}: activation {turns} met nothing that was destroyed")
        tool("remove", "target")
    ctx.note(f"{met} reads of destroyed blocks, those of the second format included")


def cut_commits(ctx, geo):
    """Cut the power repeatedly in the middle of transactions of several blocks: all promised data
    are there after activation.  Then zero a promised transaction: recovery must not take it for a
    transaction cut by a power failure, and activation fails."""
    rng = random.Random(5)
    game = Headed(ctx, geo)
    torn = 0
    try:
        game.fill()
        for _ in range(24):
            game.platter.message(f"powercut {rng.randrange(1, 40)}")
            while game.state() == "rw":
                for _ in range(rng.choice((1, 20, 400))):
                    if not game.write(rng.randrange(geo.logical)):
                        break
                game.flush()
            sent = game.model.sent_by(game.model.marks)
            game.close()
            game.platter.message("powercut off")
            torn += len(game.platter.message(f"damaged 0 {game.blocks}").split()) > 0
            game.stack.check()
            game.stack.open()
            game.dev = game.stack.blk()
            expect(not _forget_unpromised(game, sent), "blocks cannot be read")
            game.stack.verify()
            game.flush()        # reports what the cut has lost
        expect(torn > 12, f"{torn} cuts left something destroyed")
        # Zero the last transaction: at first the only one after a checkpoint, then a later one.
        _, start, n = game.areas["journal"]
        for commits, back, what in ((1, 2, "right behind the checkpoint"),
                                    (4, 3, "in front of its mark")):
            while True:
                game.message("checkpoint", must=True)
                for _ in range(commits):
                    game.write(0, must=True)
                    game.flush(must=True)
                game.close()
                end = ctx.target.dump(game.stack.paths, geo)["recovery"]["next_pos"]
                if back < end < n - 1:
                    break
                game.stack.open()
                game.dev = game.stack.blk()
            with blk.opened(game.stack.paths["meta"]) as dev:
                first = start + end - back
                saved = dev.read(first, back + 1)
                dev.write(first, bytes(BLOCK))
                refused(ctx, game, f"the last transaction, {what}, is destroyed")
                dev.write(first, saved)
            game.stack.open()
            game.dev = game.stack.blk()
            game.compare("mended")
    finally:
        game.down()


def much_to_replay(ctx, geo):
    """The newest checkpoint is damaged after a power cut, and from the one before it recovery
    replays more blocks than commits ever leave in the ring: later commits must not overwrite any
    of them before the next checkpoint is written."""
    with faulty(ctx, geo) as game:
        path, room = game.stack.paths["meta"], geo.journal - geo.gap
        for _ in range(2):
            game.message("checkpoint", must=True)
            for _ in range(room // 2):
                game.write(0, must=True)
                game.flush(must=True)
        left = content(path)
        game.close()
        with blk.opened(path) as dev:
            dev.write(0, left)
            sb = ondisk.read_super(left)
            _, at, _, _ = max(part for slot in range(2) for part in
                              ondisk.checkpoints(sb, slot, dev.read))
            dev.write(at, bytes(BLOCK))
            dev.flush()
        found = ctx.target.dump(game.stack.paths, geo)["recovery"]["used_blocks"]
        expect(found == room, f"{found} blocks are to be replayed, not {room}")
        for _ in range(2):
            game.stack.open()
            game.dev = game.stack.blk()
            game.compare("activated")
            for _ in range(room):
                game.write(1, must=True)
                game.flush(must=True)
            game.close()
        game.stack.check()


def unreadable_journal(ctx, geo):
    """A block of the ring outside the part to replay cannot be read until it is written:
    activation fails, and `repair` rewrites the block without losing promised data.  If it is the
    block where the next transaction would stand, `repair` reports that a transaction may be
    lost."""
    with faulty(ctx, geo) as game:
        which, start, n = game.areas["journal"]
        for ahead, link in ((0, False), (1, True), (n // 2, False), (n - 1, True), (0, True)):
            game.fill()
            game.write(0, must=True)
            game.flush(must=True)
            game.message("checkpoint", must=True)
            game.close()
            end = ctx.target.dump(game.stack.paths, geo)["recovery"]["next_pos"]
            at = (end + ahead) % n
            before = content(game.stack.paths["meta"])
            (game.dusty if link else game.poisoned)(which, [start + at])
            try:
                game.stack.open()
            except OSError:
                pass
            else:
                raise Failure(f"activated with block {at} of the journal unreadable")
            if link:    # The error may be temporary, so repair changes nothing unless confirmed.
                done, said = ctx.target.repair(game.stack.paths, geo)
                expect(done == 4 and "unchanged" in said and "may be temporary" in said,
                       f"block {at}: repair ended with {done}: {said.strip()}")
                game.under[which].message("disable")
                expect(content(game.stack.paths["meta"]) == before, "it was written to")
                game.under[which].message("enable")
            done, said = ctx.target.repair(game.stack.paths, geo, asked=link)
            expect(done == 1, f"block {at}: repair ended with {done}: {said.strip()}")
            expect(("This will be lost: transaction" in said) == (not ahead) and
                   ("Nothing will be lost" in said) == bool(ahead),
                   f"block {ahead} behind the journal's end: {said.strip()}")
            game.stack.check()
            game.heal()
            game.stack.open()
            game.dev = game.stack.blk()
            game.compare(f"block {at} mended")
        game.alive()


def random_errors(ctx, geo, seed, inject):
    """Write, flush, clean and read at random while @inject adds faults at random times: no read
    ever returns wrong data, and after healing and repair the device holds what was promised."""
    rng = random.Random(seed)
    with faulty(ctx, geo) as game:
        game.fill()
        done, failed, downs, walk = 0, 0, 0, 0
        for i in range(400):
            if i % 20 == 0:
                game.heal()
                if game.state() != "rw":
                    downs += 1
                    _write_unreadable(game, repair=True)
                if rng.random() < .7:
                    inject(game, rng)
            start = rng.randrange(geo.logical)
            n = min(rng.choice((1, 1, 2, 4)), geo.logical - start)
            dice = rng.random()
            if dice < .3:
                # Continue where the last such write ended.
                n = min(n, geo.logical - walk)
                ok = game.write(walk, n)
                walk = (walk + n) % geo.logical
            elif dice < .7:
                ok = game.write(start, n)
            elif dice < .8:
                ok = game.flush()
            elif dice < .9:
                ok = game.message("clean") if "clean" in \
                    ctx.target.messages else True
            else:
                game.compare("among random errors", True)
                ok = True
            done, failed = done + ok, failed + (not ok)
        game.heal()
        unreadable = game.compare("after random errors", True)
        state = game.state()
        _write_unreadable(game, repair=True)
        ctx.note(f"seed {seed}: {done} requests done, {failed} failed, "
                 f"{len(unreadable)} blocks lost to the medium in the end, "
                 f"{downs} times read-only and repaired, at last {state}")
        game.alive()


def inject_area(game, rng):
    """Make a random area fail in a random way."""
    areas = [a for a in game.areas if a in ("data", "cache", "staging")]
    game.break_(rng.choice(areas), rng.choice(
        ["error", "error_writes", "medium", "medium"] + ["error_reads"] * error_reads()))
    return set()


def bad_blocks(ctx, geo):
    """Cleaning reads two blocks that the medium has lost: no other block becomes unreadable, and
    writing the lost ones makes them readable again."""
    with faulty(ctx, geo) as game:
        game.fill()
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        which, start, n = game.areas["data"]
        bad = {start + 1, start + n // 2 + 1}
        game.poisoned(which, bad)
        failed = game.compare("poisoned", True)
        expect(len(failed) <= len(bad), f"{len(failed)} blocks fail of "
                                        f"{len(bad)} bad ones")
        game.message("clean", must=True)
        after = game.compare("cleaned", True)
        expect(after == failed, f"{sorted(after)} fail after cleaning, "
                                f"{sorted(failed)} before")
        for b in failed:
            game.write(b, must=True)
        expect(not game.compare("overwritten"), "still failing")
        game.heal()
        game.alive()


def _reads(game, blocks):
    """Read @blocks in one request and expect the data of the model; return whether it succeeded."""
    try:
        data = game.dev.read(blocks[0], len(blocks))
    except OSError:
        return False
    for i, b in enumerate(blocks):
        version, why = read_stamp(data[i * BLOCK:(i + 1) * BLOCK], b)
        expect(version in game.model.current(b), f"block {b} holds {why or version}")
    return True


def fragments(ctx, geo, how):
    """Reads of several fragments, with all remedies for their seeks, meet places that fail: such a
    read fails if one of its own blocks is there.  A rewrite that fails costs neither a block nor
    the device, which a second part tests with failing writes."""
    rng = random.Random(how)
    geo = geo.but(cache=40, extents=2 * geo.logical, options=(*geo.options, ("idle_ms", 0)))
    with faulty(ctx, geo) as game:

        def scatter():
            """Write all blocks, each alone; return them in the order of their places."""
            order = rng.sample(range(geo.logical), geo.logical)
            for b in order:
                game.write(b, must=True)
            return order

        def read_some(lost):
            for _ in range(200):
                n = rng.choice((2, 3, 4, 6, 8))
                first = rng.randrange(geo.logical - n + 1)
                blocks = range(first, first + n)
                expect(_reads(game, blocks) != bool(lost.intersection(blocks)),
                       f"reading {blocks}, without {sorted(lost)}")

        def failed_rewrites(before):
            """Wait until a step has failed, and expect that nothing else has happened."""
            until(lambda: stats(game.stack.device)["step_failures"] > before, "a failed rewrite")
            _none_lost(game, how)
            expect(game.state() == "rw", f"{how}: the state is {game.state()}")
            return stats(game.stack.device)

        order, (which, start, _) = scatter(), game.areas["data"]
        if how == "medium":
            bad = rng.sample(range(geo.logical), 4)
            game.poisoned(which, [start + i for i in bad])
        else:
            bad = range(5, 8)
            game.areas["part"] = (which, start + bad[0], len(bad))
            game.break_("part")
        read_some({order[i] for i in bad})
        count = failed_rewrites(0)
        for name in ("cache_hits", "region_hits", "rewritten_blocks"):
            expect(count[name], f"{name} is 0")
        game.heal()
        read_some(set())
        scatter()
        game.break_("data", "error_writes")
        before = stats(game.stack.device)["step_failures"]
        read_some(set())
        count = failed_rewrites(before)
        ctx.note(f"{count['step_failures']} rewrites failed")
        game.heal()
        game.alive()


def full_list(ctx, geo):
    """More blocks become unreadable than the on-disk list of bad blocks can name: the device
    becomes read-only instead of forgetting one, and no acknowledged data are lost."""
    with faulty(ctx, geo) as game:
        most = geo.logical // 2
        for b in range(0, most, geo.band):
            game.write(b, geo.band, must=True)
        game.flush(must=True)
        game.break_("data", "medium")
        written = set()
        for b in range(0, most, geo.band):
            if not game.write(b):
                break
            written.add(b)
            if not game.flush():
                break
        count = stats(game.stack.device)
        failed = game.compare("with a full list", True)
        ctx.note(f"{count['bad_blocks']} blocks in the list, {len(written)} written")
        expect(count["bad_blocks"] > BLOCK // 8 - 8 - 2 * geo.band,
               f"{count['bad_blocks']} blocks do not fill the list")
        expect(not count["wcache_lost_blocks"] and not failed & written,
               f"of {len(written)} acknowledged blocks {len(failed & written)} are lost")
        expect(game.state() == "ro", f"the state is {game.state()}")
        game.heal()
        _write_unreadable(game)
        game.alive()


# Failing allocations and requests: debug kernels only.

DEBUG = "/sys/kernel/debug"


def knob(group, name, value):
    with open(f"{DEBUG}/{group}/{name}", "w", encoding="ascii") as handle:
        handle.write(f"{value}\n")


@contextlib.contextmanager
def injecting(group, probability, **more):
    if not os.path.isdir(f"{DEBUG}/{group}"):
        raise Skip(f"no {group} in this kernel")
    for name, value in {"interval": 1, "times": -1, "verbose": 0, "space": 0,
                        **more}.items():
        with contextlib.suppress(FileNotFoundError):
            knob(group, name.replace("_", "-"), value)
    knob(group, "probability", probability)
    try:
        yield
    finally:
        knob(group, "probability", 0)


def modules_text(names):
    """Return the address range of these modules' code."""
    lows = []
    for name in names:
        path = f"/sys/module/{name.replace('-', '_')}/sections/.text"
        with contextlib.suppress(OSError):
            with open(path, encoding="ascii") as handle:
                lows.append(int(handle.read(), 16))
    if not lows:
        raise Skip("the modules' code cannot be located")
    return min(lows), max(lows) + (1 << 20)


def failing_memory(ctx, geo, group):
    """Allocations of the target's modules fail at random, in use and during activation: requests
    may fail and activation may be refused, but no block is wrong or lost.

    @group: the directory of the fault injection in debugfs, failslab or fail_page_alloc."""
    low, high = modules_text(ctx.target.modules)
    refused = 0
    with faulty(ctx, geo) as game:
        game.fill()
        rng = random.Random(1)
        aim = {"ignore_gfp_wait": "N", "require_start": hex(low),
               "require_end": hex(high), "stacktrace_depth": 32}
        with injecting(group, 20, **aim):
            for _ in range(300):
                start = rng.randrange(geo.logical)
                game.write(start, must=None)
                if rng.random() < .2:
                    game.flush()
                if rng.random() < .05:
                    game.message("checkpoint")
            game.compare("under pressure", True)
        game.compare("memory is back")
        for _ in range(20):     # now the constructor
            game.close()
            with injecting(group, 4, **aim):
                try:
                    game.stack.open()
                except OSError as error:
                    expect(error.errno in (errno.ENOMEM, errno.EINVAL,
                                           errno.EIO),
                           f"activation failed oddly: {error}")
                    refused += 1
            game.stack.close()
            game.stack.open()
            game.dev = game.stack.blk()
        ctx.note(f"{refused} of 20 activations refused for lack of memory")
        game.compare("activated again")
        game.alive()


def medium_without_memory(ctx):
    """A dm-platter records destroyed blocks at four distant places while no memory can be
    allocated: it takes the records from its reserve.  The second turn shows that it refills the
    reserve."""
    low, high = modules_text(("dm-platter",))
    far = (128 << 20) // BLOCK
    with dm.Device("medium", [(0, 20 * far * SECTORS, "platter",
                               "none 0 generic 0 8 timing none media smr damage poison "
                               "track_sectors 2048")]) as device, \
            blk.opened(device.path) as dev:
        for turn in (0, 10):
            dev.write(far * (turn + 5), bytes(BLOCK))
            with injecting("failslab", 100, ignore_gfp_wait="N", require_start=hex(low),
                           require_end=hex(high), stacktrace_depth=32):
                for place in range(4):
                    dev.write(far * (turn + place) + far // 2, bytes(BLOCK))
        damaged = numbers(device.message("stats"))["damaged_blocks"]
        expect(damaged >= 10, f"only {damaged} blocks are destroyed")


class Commits:
    """Counts attempts to commit by the tracepoint shingle_commit, including those that find
    nothing to commit."""

    PATH = "/sys/kernel/tracing"
    EVENT = "events/shingle/shingle_commit/enable"

    def __enter__(self):
        self.set(self.EVENT, "1")
        self.set("trace", "")
        return self

    def set(self, name, value):
        with open(f"{self.PATH}/{name}", "w", encoding="ascii") as handle:
            handle.write(value)

    def count(self):
        with open(f"{self.PATH}/trace", encoding="ascii", errors="replace") as handle:
            return sum("shingle_commit:" in line for line in handle)

    def __exit__(self, *exc):
        self.set(self.EVENT, "0")


def promised_ring(ctx, geo):
    """Writes in flight have reserved the whole journal when a cleaning step ends and needs a
    commit: the step waits for them without trying again and again, and they can end."""
    expect(modprobe("dm-delay"), "no dm-delay in this kernel")
    with faulty(ctx, geo) as game, Commits() as commits:
        game.write(0, must=True)            # gives the first set something to clean
        queue = blk.Aio(game.dev, 2 * geo.band)
        ops = [game.model.submit(b, 1) for b in range(geo.band, 2 * geo.band)]
        start, length, _, params = game.plain["cache"][0]
        path, offset = params.split()
        data = Sluice(game, "data")
        with beside(lambda: game.say("clean")), data:
            # Some engines begin no clean while a write is in flight.
            until(data.waits, "the step is under way")
            # Writes are held there until the table is replaced; reads and flushes are not.
            game.under["cache"].reload([(start, length, "delay", " ".join(
                f"{path} {offset} {ms}" for ms in (0, 3600000, 0)))], noflush=True, lockfs=False)
            for op in ops:
                queue.write(op.block, game.model.data(op), op)
            had = stats(game.stack.device)
            expect(had["deferred"], "there is room for all")
            before = commits.count()
            data.let_all_pass()
            until(lambda: commits.count() > before, "the step is not done")
            time.sleep(.3)
            tried = commits.count() - before
            ctx.note(f"tried {tried} times")
            expect(tried < 50, "it did not wait, it asked again and again")
            tried = stats(game.stack.device)["retried"] - had["retried"]
            expect(tried <= 4 * had["deferred"], "nothing has ended, and what waits was "
                   f"tried {tried} times")
            game.under["cache"].reload(game.plain["cache"], noflush=True, lockfs=False)
            left = len(ops)
            while left:
                done = queue.reap(left)
                left -= len(done)
                for op, result, _ in done:
                    expect(result == BLOCK, f"a write returned {result}")
                    game.model.ack(op)
        # When one write has ended, one waiting write may proceed and the next is tried in vain; if
        # by then the next step waits for all of them, all are tried.
        tried = stats(game.stack.device)["retried"] - had["retried"]
        ctx.note(f"{had['deferred']} waited and were tried {tried} times")
        expect(tried <= had["deferred"] * (len(ops) + 4), f"{len(ops)} writes ended, and "
               f"what waited was tried {tried} times")
        queue.close()
        game.heal()
        game.compare("in the end")
        game.again()
        game.compare("activated again")


def bad_place(ctx, geo):
    """A block of a mapped track can no longer be written, and there are free tracks: the target
    moves the track to a free one, and no block is lost."""
    step = geo.band
    with faulty(ctx, geo) as game:
        for track in range(6):
            game.write(track * step, step, must=True)
            game.flush(must=True)
        game.break_part("data", 2 * step + 1)
        for b in (2 * step + 1, 2 * step, 0):
            game.write(b, must=True)
        game.flush(must=True)
        expect(game.failed_once()["imr_moved_tracks"] == 1, "it was not moved")
        game.compare("moved")
        game.again()
        game.compare("activated again")
        for b in range(0, 6 * step, 2):
            game.write(b, 2, must=True)
        game.flush(must=True)
        expect(game.state() == "rw", f"the state is {game.state()}")
        game.stack.verify()
        game.compare("written again")
        game.heal()
        game.alive()


def bad_free_place(ctx, geo):
    """A free track cannot be written, and the policy always picks it first: the retry takes
    another track.  After healing, the bad track is used again without an activation."""
    step = geo.band
    with faulty(ctx, geo) as game:
        game.break_part("data", 1)
        game.write(0, step, must=True)
        game.flush(must=True)
        game.failed_once()
        game.compare("elsewhere")
        game.stack.verify()
        game.heal()
        for b in range(step, geo.logical, step):
            game.write(b, step, must=True)
        game.flush(must=True)
        game.compare("all places taken")
        game.again()
        game.compare("activated again")
        game.alive()


def _cleaned(game, bands):
    """Wait until idle cleaning has merged @bands bands since the counters were cleared."""
    end = time.monotonic() + HANG_S
    while (count := stats(game.stack.device))["bands_cleaned"] < bands:
        expect(game.state() == "rw", f"the state is {game.state()} after "
                                     f"{count['step_failures']} failures")
        expect(time.monotonic() < end, f"{count['bands_cleaned']} bands cleaned "
                                       f"of {bands}")
        time.sleep(.02)
    return count


def bad_free_band(ctx, geo):
    """A free band cannot be written, and idle cleaning would pick it each time: the retry takes
    another band, and the bad band stays excluded until the next activation, so that exactly one
    step fails in each activation."""
    step = geo.band
    with faulty(ctx, geo) as game:
        # The band before it is the log.
        game.break_part("data", (geo.data // 2 + 1) * geo.stride + 1)
        for when in ("new", "activated again"):
            for i in range(1, 5):
                for b in range(0, 3 * step, step):
                    game.write(b + i % step, must=True)
                count = _cleaned(game, 3 * i)
                game.compare(f"{when}, cleaned {i} times")
            expect(count["step_failures"] == 1,
                   f"{when}: {count['step_failures']} steps failed")
            game.flush(must=True)
            game.stack.verify()
            game.again()
            game.compare("activated again")
        game.heal()
        game.alive()


def bad_log_band(ctx, geo):
    """The open log band cannot be written: the target writes acknowledged data to another band
    before it gives them up, so that no block is lost."""
    step = geo.band
    with faulty(ctx, geo) as game:
        game.break_part("data", geo.data // 2 * geo.stride, step)
        game.write(1, must=True)
        game.flush(must=True)
        count = stats(game.stack.device)
        expect(count["write_errors"] == 2, f"{count['write_errors']} writes failed")
        for _ in range(3):
            for b in range(4 * step):
                game.write(b, must=True)
                if b % 3:
                    game.flush(must=True)
            game.message("clean", must=True)
            count = stats(game.stack.device)
            expect(not count["wcache_lost_blocks"], "blocks were lost")
            expect(game.state() == "rw", f"the state is {game.state()}")
            game.compare("elsewhere")
            game.stack.verify()
            game.again()
            game.compare("activated again")
        game.heal()
        game.alive()


def bad_place_behind(ctx, geo):
    """The host appends to a track that lies on a top, and those blocks cannot be written: the
    target moves the whole track, including its old blocks, to another place."""
    with faulty(ctx, geo) as game:
        game.write(0, 2, must=True)
        game.flush(must=True)
        game.break_part("data", geo.band + 3)
        game.write(2, 2, must=True)
        game.flush(must=True)
        expect(game.failed_once()["imr_moved_tracks"] == 1, "it was not moved")
        game.compare("moved")
        game.again()
        game.compare("activated again")
        game.heal()
        game.alive()


def bad_slot(ctx, geo):
    """The first of three backup slots can no longer be written: the target backs up the tops in
    the other slots, also when it rewrites bottoms with more neighbouring tops than slots."""
    step = geo.band
    with faulty(ctx, geo) as game:
        for track in range(8):
            game.write(track * step, step, must=True)
            game.flush(must=True)
        game.break_part("staging", 0)
        for bottoms in ((2,), (0, 2, 4, 6), (6, 2), (0, 2, 4, 6)):
            for track in bottoms:
                game.write(track * step, must=True)
            game.flush(must=True)
            expect(game.state() == "rw", f"the state is {game.state()}")
        game.failed_once()
        game.compare("rewritten")
        game.again()
        game.compare("activated again")
        game.heal()
        game.alive()


def suspended_message(ctx, geo):
    """While a device is suspended another table may take over its metadata: a message that would
    change them is refused, and the metadata stay unchanged until the device is resumed."""
    with faulty(ctx, geo) as game:
        game.fill()
        game.stack.device.suspend()
        meta = game.stack.paths["meta"]
        before = content(meta)
        game.message("level 0 1 3", must=False)
        time.sleep(1.3)
        same = content(meta) == before
        game.stack.device.resume()
        expect(same, "it was written to while it was suspended")
        game.message("level 0 1 3", must=True)
        game.alive()


def held_reader(ctx, geo):
    """A step that overwrites its own sources makes reads of them wait.  When the step fails it
    must let them go on, because there may be no later step that would."""
    expect(modprobe("dm-delay"), "no dm-delay in this kernel")
    with faulty(ctx, geo) as game:
        game.fill()
        _, length, _, params = game.plain["data"][0]
        path, offset = params.split()
        broken = dm.Device("broken", [
            (0, length, "flakey", f"{path} {offset} {FOREVER} 1 error_writes")])
        try:
            under = game.under["data"]
            # Writes are held there until the table is replaced; reads and flushes are not.
            under.reload([(0, length, "delay", " ".join(
                f"{broken.path} 0 {ms}" for ms in (0, 3600000, 0)))], noflush=True, lockfs=False)
            game.write(1, must=True)        # goes to the cache, which is on another device
            game.flush(must=True)
            until(lambda: under.status(noflush=True).split()[1] != "0", "a step that writes")
            before = stats(game.stack.device)["deferred"]
            with beside(lambda: game.dev.read(2)) as reader:
                try:
                    until(lambda: stats(game.stack.device)["deferred"] > before,
                          "a read that the step holds")
                    under.reload([(0, length, "linear", f"{broken.path} 0")], noflush=True,
                                 lockfs=False)
                    reader.join(HANG_S)
                    done = not reader.is_alive()
                finally:
                    game.heal()
                    game.write(0)
            expect(done, "a read waits on after the step that it waited for")
            if game.state() == "ro":    # it ran out of attempts by then
                sent = game.model.sent_by(game.model.marks)
                game.again()
                expect(not _forget_unpromised(game, sent), "unreadable blocks")
            game.compare("healed")
            game.alive()
        finally:
            game.heal()
            broken.remove()


def starving_pieces(ctx, geo):
    """Only the memory reserves are left, and the pieces of one request wait for one another: the
    target sends a piece that it has before it waits for memory for the next one.  Otherwise the
    request would hang."""
    low, high = modules_text(ctx.target.modules)
    expect(modprobe("dm-delay"), "no dm-delay in this kernel")
    # Zeroes are written in pieces if the blocks cannot be discarded; a write is split where it
    # waits for a page of the map.
    zeroes = not ctx.target.paged
    with faulty(ctx, geo) as game:
        game.fill()
        if not zeroes:
            game.message("checkpoint", must=True)
            game.again()
        start, length, _, params = game.plain["data"][0]
        path, offset = params.split()
        game.under["data"].reload(
            [(start, length, "delay", f"{path} {offset} 0 {path} {offset} 30")],
            noflush=True, lockfs=False)
        before = stats(game.stack.device)["ordered_waits"]
        op = game.model.submit(1, geo.band - 1, zero=zeroes)

        def body():
            # The devices below may find no memory and fail.
            with contextlib.suppress(OSError):
                if zeroes:
                    game.dev.zero(1, geo.band - 1)
                else:
                    game.dev.write(1, game.model.data(op))
                game.model.ack(op)

        zero = threading.Thread(target=body)
        with injecting("failslab", 100, ignore_gfp_wait="N",
                       require_start=hex(low), require_end=hex(high),
                       stacktrace_depth=32):
            zero.start()
            zero.join(HANG_S)
            hangs = zero.is_alive()
        zero.join()
        expect(not hangs, "it hangs until there is memory again")
        expect(stats(game.stack.device)["ordered_waits"] > before + 1,
               "no piece had to wait for another")
        game.compare("zeroed")
        game.heal()
        game.alive()


def failing_requests(ctx, geo):
    """Run random_errors() while requests to the devices below fail at random (fail_make_request)."""
    if not os.path.isdir(f"{DEBUG}/fail_make_request"):
        raise Skip("no fail_make_request in this kernel")

    def arm(game, value):
        for which in ("data", "cache"):
            if which in game.under:
                minor = game.under[which].minor
                for path in glob.glob(f"/sys/block/dm-{minor}/make-it-fail"):
                    with open(path, "w", encoding="ascii") as handle:
                        handle.write(value)

    with injecting("fail_make_request", 8):
        # The probability stays set; random_errors() selects the devices by arm() and heal() deselects them.
        real_heal = Faulty.heal
        try:
            Faulty.heal = lambda game: (arm(game, "0"), real_heal(game))
            random_errors(ctx, geo, 3, lambda game, _: arm(game, "1"))
        finally:
            Faulty.heal = real_heal


# With the write cache on: acknowledged data that cannot be written fail the next flush, and only
# the blocks concerned are lost.

def _fua(game, block):
    queue = blk.Aio(game.dev, 1)
    op = game.model.submit(block, 1)
    queue.write(block, game.model.data(op), None, fua=True)
    result = queue.reap()[0][1]
    queue.close()
    return result


def broken_destage(ctx, geo):
    """Acknowledged data in the write cache cannot be written to the disk: the blocks concerned
    become unreadable, also after activation, until they are written again.  Exactly one flush
    reports the loss, and the device stays writable."""
    area = "cache" if "cache" in ctx.target.areas(geo) else "data"
    # tiler: each attempt uses up a place of the region; in a full region it would clean, and that
    # would fail as well.
    with faulty(ctx, geo.but(places=16)) as game:
        game.fill()
        game.write(0, must=True)
        game.flush(must=True)
        game.break_(area, "error_writes")
        game.write(1, must=True)
        game.write(geo.band, 2, must=True)
        lost = {1, geo.band, geo.band + 1}
        expect(not game.compare("in memory"), "not even readable")
        game.message("commit", must=False)
        expect(game.state() == "rw", "a data error changed the state")
        expect(game.compare("lost", lost) == lost, "lost blocks can be read")
        game.heal()
        # One flush reports the loss, once; reads of these blocks keep failing.
        expect(_fua(game, 2 * geo.band) == -errno.EIO, "FUA does not report the loss")
        game.message("commit", must=False)
        game.flush(must=False)
        game.flush(must=True)
        expect(_fua(game, 2 * geo.band) == BLOCK, "FUA fails for good")
        game.model.ack(game.model.history[2 * geo.band][-1])
        expect(game.compare("healed", lost) == lost, "lost blocks are back")
        game.again()
        expect(game.compare("activated again", lost) == lost,
               "lost blocks are back")
        for b in lost:
            game.write(b, must=True)
        game.flush(must=True)
        game.compare("overwritten")
        game.alive()


def passing_error(ctx, geo):
    """A write from the write cache fails once and the fault is gone at the retry: the flush
    succeeds, and no block is lost."""
    area = "cache" if "cache" in ctx.target.areas(geo) else "data"
    with faulty(ctx, geo) as game:
        game.fill()
        game.stack.device.message("stats_clear")
        for b in range(0, geo.logical, geo.band):
            game.write(b, must=True)
        writes = Sluice(game, area)
        with beside(lambda: game.flush(must=True)), writes:
            until(writes.waits, "the cache is written")
            writes.let_fail()
            until(lambda: stats(game.stack.device)["write_errors"], "an error")
        game.compare("flushed")
        game.alive()


def no_room(ctx, geo):
    """An engine has no room for some blocks, and cleaning cannot make any: writes there end at
    once with ENOSPC, and other blocks are not affected.  The kernel module shingle_full provides
    variants of the targets that have no room from a given block on."""
    knobs = "/sys/module/shingle_full/parameters"
    if not os.path.isdir(knobs):
        raise Skip("no target that is full in this kernel")

    def full_from(block, until=2 ** 32 - 1):
        for name, value in (("until", until), ("from", block)):
            with open(f"{knobs}/{name}_block", "w", encoding="ascii") as handle:
                handle.write(str(value))

    def without_room(call, *args):
        try:
            call(*args)
        except OSError as error:
            expect(error.errno == errno.ENOSPC, f"it ends with {error}")
        else:
            raise Failure("written where there is no room")

    edge = geo.logical - 2 * geo.band
    late = not ctx.target.gathers and dict(geo.options).get("wcache_blocks")
    with faulty(ctx, geo) as game:
        game.fill()
        device, dev, model = game.stack.device, game.dev, game.model
        device.reload([(start, length, f"full-{kind}", words)
                       for start, length, kind, words in device.table()])
        full_from(edge)
        try:
            for b in (0, edge - 1):
                game.write(b, must=True)
            # Writes after the last block with room, which may now be in the write cache.
            for b, n in ((edge - 1, 2), (edge, 1)):
                op = model.submit(b, n)
                if late:        # acknowledged; a flush reports it
                    dev.write(b, model.data(op))
                    game.flush(must=False)
                else:
                    without_room(dev.write, b, model.data(op))
            if not late:
                model.submit(edge, geo.band, zero=True)
                without_room(dev.zero, edge, geo.band)
                model.submit(edge, geo.band, zero=True)
                without_room(dev.discard, edge, geo.band)
            expect(_fua(game, edge) == -errno.ENOSPC, "FUA finds room")
            game.write(1, must=True)
            game.flush(must=True)
            expect(game.state() == "rw", f"it is {game.state()}")
            game.compare("full", {edge} if late else ())
            if late:
                # More single blocks without room than write errors that make a device read-only,
                # and blocks with room before and among them: only the former are lost.
                full = set(range(edge, geo.logical, 2))
                for b in (0, *sorted(full)):
                    game.write(b, must=True)
                game.flush(must=False)
                expect(game.state() == "rw", f"it is {game.state()}")
                game.compare("full, here and there", full)
                full_from(edge, edge + 1)
                game.write(edge, geo.band, must=True)
                game.flush(must=False)
                full -= set(range(edge + 1, edge + geo.band))
                game.compare("full, a block", full)
        finally:
            full_from(2 ** 32 - 1)
        game.write(edge - 1, geo.band, must=True)
        game.fill()
        game.compare("there is room")
        device.reload([(start, length, kind.removeprefix("full-"), words)
                       for start, length, kind, words in device.table()])
        game.alive()


def dead_medium(ctx, geo):
    """The area that takes new data can no longer be written: the device becomes read-only without
    asking for a check.  Data in the write cache stay readable, and flushed data are there after
    healing and activation."""
    area = "cache" if "cache" in ctx.target.areas(geo) else "data"
    with faulty(ctx, geo) as game:
        game.fill()
        game.break_(area, "error_writes")
        rng = random.Random(1)
        for i in range(400):
            if not game.write(rng.randrange(geo.logical)):
                break
            if i % 8 == 7:
                game.flush(must=False)
        expect(game.state() == "ro", f"the state is {game.state()}")
        expect("needs_check" not in game.stack.device.status(noflush=True),
               "verify reports a wrong map")
        game.write(0, must=False)
        game.flush(must=False)
        count = stats(game.stack.device)
        failed = game.compare("dead", True)
        expect(len(failed) == count["bad_blocks"],
               f"{len(failed)} blocks fail, {count['bad_blocks']} were lost")
        ctx.note(f"{len(failed)} blocks lost, {count['wcache_dirty_blocks']} "
                 f"left in memory")
        game.heal()
        _write_unreadable(game)
        game.alive()


def fua_fails(ctx, geo):
    """A FUA write fails: the block keeps the contents that were flushed before, also after
    activation."""
    area = "cache" if "cache" in ctx.target.areas(geo) else "data"
    with faulty(ctx, geo) as game:
        game.fill()
        game.write(2, must=True)
        game.flush(must=True)
        game.break_(area, "error_writes")
        expect(_fua(game, 2) == -errno.EIO, "the FUA write succeeded")
        game.compare("broken")
        game.heal()
        game.compare("healed")
        game.again()
        game.compare("activated again")
        game.alive()


def flush_first(ctx, geo):
    """The disk has a volatile cache and cannot be flushed during activation: the device is
    read-only and does not ask for a check, and promised data can be read."""
    with faulty(ctx, geo.but(name="flushfirst", medium="cached")) as game:
        game.fill()
        game.close()
        game.break_("data", "error_writes")
        game.stack.open()
        game.dev = game.stack.blk()
        expect(game.state() == "ro", f"it is {game.state()}")
        expect("needs_check" not in game.stack.device.status(noflush=True),
               "it needs a check, and nothing is wrong with the map")
        game.compare("read-only")
        game.write(0, must=False)
        game.heal()
        game.again()
        game.compare("activated again")
        game.alive()


def lying_disk(ctx, geo, seed):
    """Metadata writes vanish, then the power is cut.  On such a disk no data are safe, but each
    block read back was once written to that place, or the device is refused; and nothing crashes.
    """
    rng = random.Random(seed)
    with faulty(ctx, geo) as game:
        game.fill()
        game.break_(rng.choice(("journal", "checkpoint")), "drop_writes")
        for _ in range(60):
            game.write(rng.randrange(geo.logical))
            if rng.random() < .2:
                game.flush()
        # The current contents of the devices are what remains after the cut.
        saved = {p: content(p) for p in game.stack.paths.values()}
        game.close()
        game.heal()
        for path, data in saved.items():
            with blk.opened(path) as dev:
                dev.write(0, data)
        try:
            game.stack.open()
        except OSError:
            ctx.note("refused")
            return
        with game.stack.blk() as dev:
            for b in range(geo.logical):
                _, why = read_stamp(dev.read(b), b)
                expect(not why or why.startswith("the content of block"),
                       f"block {b} holds {why}")
        ctx.note("activated")


def content(path):
    with blk.opened(path) as dev:
        return dev.read(0, blk.size(path))


def cases(target, options):
    geo = GEOMETRIES["faults"][0]
    seed = int(options.get("seed", 1))
    out = [("reading at home", read_home)]
    # A target that gathers writes acknowledges some at once and retries others together, so no
    # single write has to fail there.
    if not target.gathers:
        out.append(("writing data", write_error))
    areas = target.areas(geo)
    if "cache" in areas:
        out += [
            ("reading cached blocks", read_cached),
            ("cleaning, reading the cache",
             lambda c, g: cleaning_read(c, g, "cache")),
            ("cleaning, the cache behind a failing link",
             lambda c, g: cleaning_link(c, g, "cache")),
        ]
    if "staging" in areas:
        out += [
            ("cleaning, writing the staged copy",
             lambda c, g: cleaning_write(c, g, "staging")),
            ("activation, the staged copy behind a failing link", restoring_link),
        ]
        if not target.gathers:
            out.append(("cleaning, reading a staged copy that is out of date",
                        newer_than_staged))
    if target.persistent:
        out += [
            ("cleaning, writing back",
             lambda c, g: cleaning_write(c, g, "data")),
            ("cleaning, reading the base",
             lambda c, g: cleaning_read(c, g, "data")),
            ("cleaning, the base behind a failing link",
             lambda c, g: cleaning_link(c, g, "data")),
            ("journal, on flush", lambda c, g: meta_write(
                c, g, "journal", lambda game: game.flush(must=False))),
            ("journal, on FUA and commit", lambda c, g: meta_write(
                c, g, "journal", lambda game: game.message("commit", False))),
            ("checkpoint", lambda c, g: meta_write(
                c, g, "checkpoint",
                lambda game: game.message("checkpoint", False))),
            ("journal, while a flush waits for its turn", commit_behind),
            # A journal of 256 blocks: a commit waits while less than half of the journal is free
            # (more during a checkpoint), and here none must wait.
            *(() if target.gathers else (
                ("checkpoint, when cleaning has failed",
                 lambda c, g: checkpoint_behind(c, g.but(journal=256))),)),
            ("checkpoint, while the journal fills", lambda c, g: full_ring(
                c, g.but(journal=4 if target.name != "stl-full" else 2))),
            ("activation, superblock",
             lambda c, g: activation(c, g, "superblock")),
            *((f"settings, superblock {i} {how}",
               lambda c, g, i=i, h=how: sound_one_last(c, g, i, h))
              for i in (0, 1) for how in ("rotten", "unreadable")
              if "keep" in target.messages),
            *((f"settings, superblock {i} unreadable until it is written",
               lambda c, g, i=i: superblock_heals(c, g, i))
              for i in (0, 1) if "keep" in target.messages),
            ("activation, checkpoint",
             lambda c, g: activation(c, g, "checkpoint")),
            ("activation, journal",
             lambda c, g: activation(c, g, "journal")),
            ("activation, journal with a gap", lambda c, g: failing_ring(
                c, g.but(gap=4, journal=32))),
            ("activation, checkpoint on shingled tracks", lambda c, g: destroyed_ahead(
                c, g.but(gap=2, ckpt=16, journal=32))),
            ("activation, flush", flush_first),
            ("activation and repair, a block of the journal", unreadable_journal),
            ("single bad blocks under cleaning", bad_blocks),
            ("failslab", lambda c, g: failing_memory(c, g, "failslab")),
            ("fail_page_alloc",
             lambda c, g: failing_memory(c, g, "fail_page_alloc")),
        ]
        out.append(("no room, and none to come", no_room))
        out += [(f"metadata writes vanish, seed {s}",
                 lambda c, g, s=s: lying_disk(c, g, s))
                for s in range(seed, seed + 4)]
    out += [(f"random data errors, seed {s}",
             lambda c, g, s=s: random_errors(c, g, s, inject_area))
            for s in range(seed, seed + 3)]
    out.append(("fail_make_request", failing_requests))
    out = [(name, lambda ctx, f=f: f(ctx, geo)) for name, f in out]
    if target.persistent:
        geo2 = GEOMETRIES["faults"][1]
        out += [(f"write cache, {name}", lambda ctx, f=f: f(ctx, geo2))
                for name, f in _write_cache(seed)
                if not target.gathers or f not in (
                    broken_destage, passing_error, dead_medium)]
    if target.gathers:
        moves = geo.but(options=(*geo.options, ("overwrite", "move")))
        seq = geo.but(options=(*geo.options, ("policy", "seq")))
        out += [("moving, reading what is written anew",
                 lambda ctx: newer_than_moved(ctx, moves)),
                *((f"a block of a bottom, {rmw}",
                   lambda ctx, g=seq.but(options=(*seq.options, ("rmw", rmw))):
                   bad_place(ctx, g)) for rmw in ("merged", "naive")),
                ("a block of a free track",
                 lambda ctx, g=seq.but(options=(*seq.options, ("start", "first"))):
                 bad_free_place(ctx, g)),
                ("a block behind what is on a top",
                 lambda ctx: bad_place_behind(ctx, geo)),
                *((f"the first backup slot, {rmw}",
                   lambda ctx, g=seq.but(options=(*seq.options, ("rmw", rmw))):
                   bad_slot(ctx, g)) for rmw in ("merged", "naive")),
                ("a full list of unreadable blocks",
                 lambda ctx: full_list(ctx, moves.but(band=64, data=48, journal=64))),
                ("a message while suspended",
                 lambda ctx: suspended_message(ctx, geo))]
    if target.persistent:
        fs = GEOMETRIES["replay-fs"][0]
        out.append(("reload under a mounted file system",
                    lambda ctx: reload_mounted(ctx, fs)))
    if target.paged:
        paged = target.geometry("faults")[-1]
        out += [("pages of the map, reading", lambda ctx: page_reads(ctx, paged)),
                ("pages of the map, more readers than frames",
                 lambda ctx: page_readers(ctx, paged)),
                ("pages of the map, all held by writes", lambda ctx: page_holders(ctx, paged)),
                ("pages of the map, more readers than frames, when all else has failed",
                 lambda ctx: page_crowd(ctx, paged)),
                ("pages of the map, on checkpoint", lambda ctx: meta_write(
                    ctx, paged, "pages", page_writes))]
    if target.name == "tiler":
        out.append(("cleaning, failures far apart",
                    lambda ctx: failures_far_apart(ctx, geo)))
    if target.name == "stl-log":
        remedies = target.geometry("faults")[-1]
        out += [(f"reads of several fragments, errors of {what}",
                 lambda ctx, h=how: fragments(ctx, remedies, h))
                for how, what in (("medium", "the medium"), ("link", "a link"))]
    if target.name == "paged":
        out.append(("pages of the map, more than there are frames, read-only",
                    lambda ctx: page_frames(ctx, paged)))
    if "inplace" in target.features:
        headed = geo.but(band=64, data=16, cache=8, ckpt=16, gap=3, journal=43,
                         cache_on="same", options=(("commit_ms", 0),))
        out.append(("activation, power cut in the middle of commits",
                    lambda ctx: cut_commits(ctx, headed)))
        gap = geo.but(band=64, data=2, gap=8, journal=24)
        out.append(("activation, more to replay than the ring has room for",
                    lambda ctx: much_to_replay(ctx, gap)))
    if target.persistent and not target.gathers:
        out.append(("failslab, a medium that marks what is destroyed",
                    medium_without_memory))
    if target.name == "stl-set":
        out.append(("activation, blocks that a head has destroyed", lost_at_activation))
    if target.persistent and not target.gathers:
        tracks = geo.but(band=256, data=2, cache=2, cache_on="same", track=16,
                         head=2, journal=24, medium="loop")
        # A target that can discard every single block never writes zeroes, so nothing is split.
        if target.paged or not target.forgets_blocks:
            out.append(("failslab, pieces that wait for one another",
                        lambda ctx: starving_pieces(ctx, tracks)))
    if target.name == "stl-full":
        idle = geo.but(options=(("cleaning", "aggressive"), ("idle_ms", 50),
                                ("commit_ms", 0)))
        out += [("a block of a free band, cleaning when idle",
                 lambda ctx: bad_free_band(ctx, idle)),
                ("all of a log band, write cache",
                 lambda ctx: bad_log_band(ctx, GEOMETRIES["faults"][1]))]
    if any(key == "read_home" for key, _ in target.keys):
        habit = geo.but(options=(("read_home", "always"), ("idle_ms", 0)))
        out += [("cleaning, reading what is not needed",
                 lambda ctx: read_by_habit(ctx, habit)),
                ("cleaning, reading the base, all of it",
                 lambda ctx: cleaning_read(ctx, habit, "data")),
                ("cleaning, reading the base, all of it, behind a failing link",
                 lambda ctx: cleaning_link(ctx, habit, "data"))]
    if "inplace" in target.features:
        unstaged = geo.but(features=("inplace",))
        out += [(f"cleaning in place, the {area} behind a failing link",
                 lambda ctx, a=area: cleaning_link(ctx, unstaged, a))
                for area in ("cache", "data")]
        idle = geo.but(features=("inplace",), options=(
            *geo.options, ("cleaning", "aggressive"), ("idle_ms", 200),
            ("commit_ms", 0)))
        out.append(("a read that waits for a step that fails",
                    lambda ctx: held_reader(ctx, idle)))
    if "cache" in areas and target.caches_all:
        short = geo.but(band=128, data=2, cache=2, journal=4)
        out.append(("cleaning, while all of the journal is promised",
                    lambda ctx: promised_ring(ctx, short)))
    for other in target.variants.get("faults", ()):
        out += [(f"random data errors on {other.name}, seed {s}",
                 lambda ctx, g=other, s=s: random_errors(ctx, g, s, inject_area))
                for s in range(seed, seed + 3)]
    return out


TRACING = "/sys/kernel/tracing"


def _trace(name, value):
    with open(f"{TRACING}/{name}", "w", encoding="ascii") as handle:
        handle.write(f"{value}\n")


def reload_mounted(ctx, geo):
    """Reload the table under a mounted file system with much dirty data.  While the device is
    suspended, an allocation in recovery must not wait for write-back to it, which would deadlock:
    the test reads the gfp flags of recovery's buffer, the only allocation of 64 pages, in the
    trace."""
    expect(modprobe("ext4"), "no ext4 in this kernel")
    run("mount", "-t", "tracefs", "tracefs", TRACING, ok=None)
    if not os.path.isdir(f"{TRACING}/events/kmem/mm_page_alloc"):
        raise Skip("page allocations cannot be traced in this kernel")
    made = stack(ctx.pool, ctx.target, geo)
    made.open()
    table, where, seen = made.device.table(), "/tmp/reload", []
    run("mkfs.ext4", "-q", "-b", 4096, "-J", "size=4", made.device.path)
    os.makedirs(where, exist_ok=True)
    run("mount", "-t", "ext4", made.device.path, where)
    try:
        for i in range(4):
            with open(f"{where}/{i}", "wb") as handle:
                handle.write(random.Random(i).randbytes(1 << 21))
            made.device.load(table)
            made.device.suspend()
            with open(f"{where}/0", "rb") as handle:    # takes memory for the page cache
                handle.read()
            _trace("trace", "")
            _trace("events/kmem/mm_page_alloc/filter", "order == 6")
            _trace("events/kmem/mm_page_alloc/enable", 1)
            made.device.resume()
            _trace("events/kmem/mm_page_alloc/enable", 0)
            with open(f"{TRACING}/trace", encoding="ascii") as handle:
                seen += [line.split("gfp_flags=")[1].strip() for line in handle
                         if f"-{os.getpid()} " in line and "gfp_flags=" in line]
        expect(len(seen) >= 4, f"{len(seen)} buffers were allocated, not 4")
        bad = [flags for flags in seen if "GFP_KERNEL" in flags or "__GFP_IO" in flags]
        expect(not bad, f"allocated with {bad[:1]} while suspended")
        run("sync")
        _drop_caches()
        for i in range(4):
            with open(f"{where}/{i}", "rb") as handle:
                expect(handle.read() == random.Random(i).randbytes(1 << 21),
                       f"file {i} is not what was written")
    finally:
        run("umount", where, ok=None)
    made.close()
    made.check()


def _drop_caches():
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as handle:
        handle.write("3\n")


def _write_cache(seed):
    return [
        ("destaging", broken_destage),
        ("an error that passes", passing_error),
        ("a dead medium", dead_medium),
        ("FUA", fua_fails),
        ("no room, and none to come", no_room),
        ("journal, on flush", lambda c, g: meta_write(
            c, g, "journal", lambda game: game.flush(must=False))),
        ("checkpoint", lambda c, g: meta_write(
            c, g, "checkpoint",
            lambda game: game.message("checkpoint", False))),
        ("failslab", lambda c, g: failing_memory(c, g, "failslab")),
        *((f"random data errors, seed {s}",
           lambda c, g, s=s: random_errors(c, g, s, inject_area))
          for s in range(seed, seed + 2)),
        ("fail_make_request", failing_requests),
    ]
