# SPDX-License-Identifier: GPL-2.0
"""Test 13: whether a power cut in a long write damages older data.

A range is written, then written again; at a random moment the command of --powercut cuts the
power and returns when the drive is back.  In the first half of the cuts the range is written
in order, in requests of 1 MiB, as in the thesis (Aghayev 2020): a drive that streams over its
bands tears then.  In the second half random blocks of it are written, so that the drive
cleans: one that rewrites bands in place tears then.  The two kinds do not alternate: a cache
full of random blocks is emptied first, and a stream waits for that until the power is cut.
For the same reason the moment of a cut in order is counted from when the stream flows.

The whole range is read afterwards, not only the place of the cut (the thesis: 5,000 blocks
before it and 1,000 behind), as the drive may clean anywhere.  Blocks that cannot be read were
torn; that writing heals them is the second half of the evidence.

Only damage to older data is torn data in the sense of the thesis.  A plain disk also tears
the sector below its head.  So the request in flight at the cut is left out, and so is a
single block anywhere, as the head may have been at a request that the write cache had taken
before.  Both are counted separately, as blocks that were being written.

If a drive tears in one cut of p, N cuts without a torn block have a probability of (1 - p)^N;
the result states the 95 % bound.  Only cuts that met a write count: after the command began,
a write failed or took longer than NOTICED_S.  The others may have been no cuts."""

import errno
import math
import mmap
import os
import shlex
import subprocess
import threading
import time

import numpy as np

from . import guard
from .session import BLOCK, DONE, MIB, Finding, Result
from .t06_raw_size import skipped

ID, TITLE, AFTER = "13", "torn writes", ("11",)
CUTS = 50
LONGEST_S = 10.0
RANGE = 512 * MIB
PIECE = 256                 # blocks that are read at once
BACK_S = 60                     # seconds after which the drive is considered lost
NOTICED_S = 1.0                 # a write that meets no cut takes less
FEWEST = 10                     # cuts
FLOWS = 4                       # writes of a stream, from which on it flows


def estimate(s):
    """Seconds of the drive's clock."""
    return CUTS * 20 if command(s) else 0


def command(s):
    """The command that cuts the power, or an empty text."""
    return s.powercut


class Writer(threading.Thread):
    """Writes a range in order, or random blocks of it if it is given an @rng, until it fails or
    is told to end."""


    def __init__(self, path, at, end, rng=None):
        super().__init__(daemon=True)
        self.path, self.at, self.end, self.rng = path, at, end, rng
        self.acked, self.writes, self.over = at, 0, False
        self.under_way = range(0)           # blocks in flight, not acknowledged
        self.failed, self.since, self.longest_s = False, math.inf, 0.0
        self.flows = threading.Event()      # set once the stream flows, or has ended
        self.buf = mmap.mmap(-1, MIB)
        self.buf.write(os.urandom(BLOCK) * (MIB // BLOCK))

    def expect(self):
        """Call when a cut begins; False if there is no write that could meet it."""
        self.since = time.monotonic()
        return self.is_alive() and not self.failed

    def met(self):
        """Whether a write has failed or waited since expect(), or still does."""
        return self.failed or self.longest_s > NOTICED_S or self.is_alive()

    def write(self, fd, size, at):
        """Sends one request; under_way stays if it fails."""
        self.under_way = range(at // BLOCK, (at + size) // BLOCK)
        os.pwrite(fd, memoryview(self.buf)[:size], at)
        self.under_way = range(0)

    def run(self):
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError:
            return
        try:
            while not self.over:
                begin = time.monotonic()
                if self.rng is None:
                    if self.acked + MIB > self.end:
                        self.acked = self.at
                    self.write(fd, MIB, self.acked)
                    self.acked += MIB
                else:
                    block = int(self.rng.integers(self.at // BLOCK, self.end // BLOCK))
                    self.write(fd, BLOCK, block * BLOCK)
                    self.acked = (block + 1) * BLOCK
                self.writes += 1
                if self.writes >= FLOWS:
                    self.flows.set()
                self.longest_s = max(self.longest_s,
                                     time.monotonic() - max(begin, self.since))
        except OSError:
            self.failed = True
        finally:
            self.flows.set()
            os.close(fd)


def unreadable(path, first, count):
    """The blocks of a range that give an error, one by one."""
    buf, bad = mmap.mmap(-1, PIECE * BLOCK), []
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        for at in range(first, first + count, PIECE):
            n = min(PIECE, first + count - at)
            if _reads(fd, buf, at, n):
                continue
            bad += [b for b in range(at, at + n) if not _reads(fd, buf, b, 1)]
    finally:
        os.close(fd)
    return bad


def _reads(fd, buf, block, count):
    try:
        return os.preadv(fd, [memoryview(buf)[:count * BLOCK]], block * BLOCK) == count * BLOCK
    except OSError as error:
        if error.errno in (errno.EIO, errno.ENODATA, errno.EREMOTEIO):
            return False
        raise


def apart(bad, under_way):
    """(unreadable blocks that held older data, how many were being written)."""
    older = [b for b in bad if b not in under_way]
    # A single block may be the sector below the head, of a request in the write cache.
    older = older if len(older) > 1 else []
    return older, len(bad) - len(older)


def heal(path, blocks):
    """Writes these blocks; returns how many can be read afterwards."""
    fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    buf = mmap.mmap(-1, BLOCK)
    try:
        for block in blocks:
            os.pwrite(fd, buf, block * BLOCK)
        os.fsync(fd)
        return sum(_reads(fd, buf, b, 1) for b in blocks)
    finally:
        os.close(fd)


def cut(s, words):
    """Runs the --powercut command, and waits for the drive."""
    done = subprocess.run(shlex.split(words), check=False, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode:
        raise OSError(errno.EIO, f"--powercut ended with status {done.returncode}: "
                      f"{done.stderr.strip()[-200:]}")
    end = time.monotonic() + BACK_S
    while True:
        try:
            fd = os.open(s.dev.path, os.O_RDWR | os.O_CLOEXEC)
            size = os.lseek(fd, 0, os.SEEK_END)
            os.close(fd)
            if size == s.dev.bytes:
                return
        except OSError:
            pass
        if time.monotonic() > end:
            raise OSError(errno.ENODEV, f"{s.dev.path} did not come back")
        time.sleep(0.2)


def run(s):
    """Runs CUTS cuts, or gives the reason why not."""
    words = command(s)
    if not words:
        return skipped("nobody cuts the power: --powercut COMMAND does, which must return when "
                       "the drive is back")
    rng, out = s.rng(ID), Result(DONE)
    size = int(min(s.dev.bytes // 4 // MIB * MIB, RANGE))
    first = int(s.dev.bytes * 0.4) // MIB * MIB
    torn, healed, places, writes, met, writing = [], 0, [], [], [], []
    try:
        s.fio("before", rw="write", bs=MIB, offset=first, size=size, end_fsync=1, log=False)
        for i in range(CUTS):
            place, (older, others), well, count, noticed = trial(s, words, rng, first, size,
                                                                 i >= CUTS // 2)
            places.append(place)
            torn.append(older)
            writing.append(others)
            healed += well
            writes.append(count)
            met.append(noticed)
            s.progress(i + 1, CUTS)
    except OSError as error:
        if not torn:
            return Result("failed", why=str(error))
        out.numbers["stopped"] = str(error)
    lost = [len(t) for t in torn]
    out.arrays = {"torn": np.asarray(lost), "place": np.asarray(places, np.int64),
                  "writes": np.asarray(writes), "met": np.asarray(met),
                  "writing": np.asarray(writing)}
    out.numbers |= {"cuts": len(torn), "cuts_met": sum(met),
                    "cuts_with_errors": sum(n > 0 for n in lost),
                    "unreadable_blocks": sum(lost), "healed_blocks": healed,
                    "blocks_being_written": sum(writing),
                    "cuts_with_errors_in_order": sum(n > 0 for n in lost[:CUTS // 2])}
    out.findings["torn_writes"] = finding(lost, healed, sum(met), writing)
    return out


def trial(s, words, rng, first, size, scattered):
    """(block that the write had reached, unreadable blocks by apart(), healed blocks, writes
    done, whether a write met the cut)."""
    # Without writes nothing can be torn.
    try:
        heal(s.dev.path, [first // BLOCK])
    except OSError as error:
        raise OSError(error.errno, f"the drive takes no writes: {error.strerror}") from error
    with s.settings(write_cache=True), s.dev.released():
        writer = Writer(s.dev.path, first, first + size, rng if scattered else None)
        # Draw now: the writer uses the same generator from here on.
        wait = float(rng.uniform(0.05, LONGEST_S)) * (3 if scattered else 1)
        writer.start()
        if not scattered:
            writer.flows.wait(BACK_S)
        writer.join(wait)
        awaited = writer.expect()
        cut(s, words)
        writer.over = True
        writer.join(BACK_S)
    bad = unreadable(s.dev.path, first // BLOCK, size // BLOCK)
    return writer.acked // BLOCK, apart(bad, writer.under_way), \
        heal(s.dev.path, bad) if bad else 0, writer.writes, awaited and writer.met()


def finding(lost, healed, met, writing=()):
    """The Finding; @lost: unreadable blocks of older data of each cut; @writing: those that were
    being written; @healed: how many are healed in all; @met: cuts that a write has met."""
    cuts, hit, others = len(lost), sum(n > 0 for n in lost), sum(writing)
    if healed < sum(lost) + others:
        return Finding.unknown(f"{sum(lost) + others} blocks can't be read, and writing them heals "
                               f"only {healed}: the drive may be broken otherwise")
    left_out = f"; {others} block{'s' * (others != 1)} that {'were' if others != 1 else 'was'} " \
        "being written not counted" if others else ""
    if hit:
        return Finding(True, confidence=0.999 if hit > 1 else 0.9,
                       says=f"{hit} of {cuts} power cuts left blocks of older data that can't be "
                       f"read until they are written: {sum(lost)} in all{left_out}")
    several = sum(n > 1 for n in writing)
    if several:
        return Finding.unknown(
            f"in {several} of {cuts} power cuts more than one block that was being written can't "
            f"be read, {others} in all: more than the sector under a head, but no older data")
    if cuts < FEWEST:
        return Finding.unknown(f"no torn block in {cuts} power cuts, which are too few")
    unseen = f"no write failed or took longer than {NOTICED_S:g} s"
    if not met:
        return Finding.unknown(f"--powercut has cut nothing, {cuts} times: {unseen}")
    if met < FEWEST:
        return Finding.unknown(f"no torn block in {met} power cuts, which are too few; in "
                               f"{cuts - met} more --powercut has cut nothing: {unseen}")
    bound = 1 - 0.05 ** guard.ratio(1, met, "power cuts")
    some = f" that a write has met, of {cuts}" if met < cuts else ""
    return Finding(False, high=bound, low=0.0, confidence=0.95,
                   says=f"no torn block in {met} power cuts{some}: fewer than {bound:.1%} tear, at "
                   f"95 %{left_out}")


def draw(figure, result, arrays):
    """Unreadable blocks after each cut."""
    from . import plots
    axes = plots.panels(figure, 1)[0]
    cuts = np.arange(len(arrays["torn"])) + 1
    axes.bar(cuts, arrays["torn"], color=plots.RED, label="older data")
    if arrays.get("writing", np.zeros(1)).any():
        axes.bar(cuts, arrays["writing"], bottom=arrays["torn"], color=plots.ORANGE,
                 label="being written")
        axes.legend(loc="upper right")
    axes.set_xlabel("power cut")
    axes.set_ylabel("unreadable blocks")
