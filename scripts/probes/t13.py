# SPDX-License-Identifier: GPL-2.0
"""Test 13: does a power cut in a long write damage data that were there before?

A range is written, then written again in order, in requests of 1 MiB; at a random
moment the power is cut, by a command that the person gives with --powercut, and that
returns when the drive is back.  From 5,000 blocks before the place that the
write had come to, 6,000 are read.  Blocks that can't be read were torn; that writing
them again heals them is the other half of the evidence.

N cuts without a torn block: a drive that tears one time in p would have shown it with
a probability of 1 - (1 - p)^N; the bound at 95 % is given."""

import errno
import mmap
import os
import shlex
import subprocess
import threading
import time

import numpy as np

from .session import BLOCK, DONE, MIB, Finding, Result
from .t06 import skipped

ID, TITLE, AFTER = "13", "torn writes", ("11",)
CUTS = 50
LONGEST_S = 10.0
BEFORE, BEHIND = 5000, 1000     # blocks read around the place of the cut
BACK_S = 60                     # a drive that is not back then is lost


def estimate(s):
    """Seconds of the drive's clock."""
    return CUTS * 20 if command(s) else 0


def command(s):
    """What cuts the power, or an empty text."""
    return s.powercut


class Writer(threading.Thread):
    """Writes in order until it fails or is told to end."""

    def __init__(self, path, at, end):
        super().__init__(daemon=True)
        self.path, self.at, self.end = path, at, end
        self.acked, self.over = at, False
        self.buf = mmap.mmap(-1, MIB)
        self.buf.write(os.urandom(BLOCK) * (MIB // BLOCK))

    def run(self):
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError:
            return
        try:
            while self.acked + MIB <= self.end and not self.over:
                os.pwrite(fd, self.buf, self.acked)
                self.acked += MIB
        except OSError:
            pass
        finally:
            os.close(fd)


def unreadable(path, first, count):
    """Blocks of a range that give an error, one by one."""
    buf, bad = mmap.mmap(-1, 64 * BLOCK), []
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        for at in range(first, first + count, 64):
            n = min(64, first + count - at)
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


def heal(path, blocks):
    """Writes these blocks; how many can be read afterwards."""
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
    """Runs the person's command, and waits for the drive."""
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
    """CUTS cuts, or the reason why not."""
    words = command(s)
    if not words:
        return skipped("nobody cuts the power: --powercut COMMAND does, which must return when "
                       "the drive is back")
    rng, out = s.rng(ID), Result(DONE)
    size = int(min(s.dev.bytes // 4 // MIB * MIB, 2048 * MIB))
    first = int(s.dev.bytes * 0.4) // MIB * MIB
    torn, healed, places = [], 0, []
    try:
        s.fio("before", rw="write", bs=MIB, offset=first, size=size, end_fsync=1, log=False)
        for i in range(CUTS):
            one = trial(s, words, rng, first, size)
            places.append(one[0])
            torn.append(one[1])
            healed += one[2]
            s.progress(i + 1, CUTS)
    except OSError as error:
        if not torn:
            return Result("failed", why=str(error))
        out.numbers["stopped"] = str(error)
    lost = [len(t) for t in torn]
    out.arrays = {"torn": np.asarray(lost), "place": np.asarray(places, np.int64)}
    out.numbers |= {"cuts": len(torn), "cuts_with_errors": sum(n > 0 for n in lost),
                    "unreadable_blocks": sum(lost), "healed_blocks": healed}
    out.findings["torn_writes"] = finding(lost, healed)
    return out


def trial(s, words, rng, first, size):
    """(block the write had come to, unreadable blocks, healed ones)."""
    with s.settings(write_cache=True), s.dev.released():
        writer = Writer(s.dev.path, first, first + size)
        writer.start()
        writer.join(float(rng.uniform(0.05, LONGEST_S)))
        cut(s, words)
        writer.over = True
        writer.join(BACK_S)
    reached = writer.acked // BLOCK
    begin = max(0, reached - BEFORE)
    end = min(s.dev.bytes // BLOCK, reached + BEHIND)
    bad = unreadable(s.dev.path, begin, end - begin)
    return reached, bad, heal(s.dev.path, bad) if bad else 0


def finding(lost, healed):
    """From the unreadable blocks of each cut."""
    cuts, hit = len(lost), sum(n > 0 for n in lost)
    if hit and healed == sum(lost):
        return Finding(True, confidence=0.999 if hit > 1 else 0.9,
                       says=f"{hit} of {cuts} power cuts left blocks that can't be read until "
                       f"they are written: {sum(lost)} in all")
    if hit:
        return Finding.unknown(f"{sum(lost)} blocks can't be read, and writing them heals only "
                               f"{healed}: the drive may be broken otherwise")
    if cuts < 10:
        return Finding.unknown(f"no torn block in {cuts} power cuts, which are too few")
    bound = 1 - 0.05 ** (1 / cuts)
    return Finding(False, high=bound, low=0.0, confidence=0.95,
                   says=f"no torn block in {cuts} power cuts: fewer than {bound:.1%} tear, at "
                   "95 %")


def draw(figure, result, arrays):
    """Unreadable blocks after each cut."""
    from . import plots                 # pylint: disable=C0415
    axes = plots.panels(figure, 1)[0]
    axes.bar(np.arange(len(arrays["torn"])) + 1, arrays["torn"], color=plots.RED)
    axes.set_xlabel("power cut")
    axes.set_ylabel("unreadable blocks")
