# SPDX-License-Identifier: GPL-2.0
"""Decides where `skylight quick` may write: to a part of a device, or to a scratch file.

The tests take this part for the drive.  Their load goes through Within, which keeps it inside
the part and refuses it when the time budget is used up."""

import contextlib
import fcntl
import os
import struct
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from . import load as loads
from .device import Device, Refused, Seen
from .session import BLOCK, GIB, MIB

LEAST, MOST = 64 * MIB, GIB     # bytes of a part
SHARE = 10                  # the scratch file takes at most one part in this many of the free space
FIEMAP = 0xc020660b
# Flags of extents whose place is not, or not only, the one that is reported: unknown, delayed,
# encoded, not aligned, inline, unwritten, shared.
ASTRAY = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x800 | 0x2000
EXTENTS = 4096


class Within:
    """A load like load.Fio, with block 0 at the first block of a part."""

    def __init__(self, load, start, size, clock):
        self.load, self.start, self.size, self.clock = load, start, size, clock

    def _watch(self, watch):
        def watched(passed):
            self.clock.check()
            if watch:
                watch(passed)
        return watched

    def _inside(self, first, end):
        if first < 0 or end > self.size:
            raise loads.LoadError(f"a test has asked for bytes {first} to {end} of "
                                  f"{self.size}: nothing was sent")

    def replay(self, name, ops, iodepth=1, watch=None):
        """See load.Fio."""
        self.clock.check()
        write, offset, size = loads.as_ops(ops)
        if len(offset):
            self._inside(int(offset.min()), int((offset + size).max()))
        trace = self.load.replay(name, (write, offset + np.uint64(self.start), size), iodepth,
                                 self._watch(watch))
        return replace(trace, offset=offset)

    def job(self, name, options, watch=None):
        """See load.Fio."""
        self.clock.check()
        first = int(options.get("offset", 0))
        size = int(options.get("size", self.size - first))
        self._inside(first, first + size)
        return self.load.job(name, {**options, "offset": self.start + first, "size": size},
                             self._watch(watch))

    def sleep(self, seconds):
        """Sleeps for a Session; raises OutOfTime at once if the pause is longer than the time
        left."""
        self.clock.check(seconds)
        getattr(self.load, "sleep", time.sleep)(seconds)


class Part:
    """The part that tests take for the drive: @size bytes from @start on of @path.

    @dev has the settings and the identity of the drive."""

    discarded = False
    written = False             # whether all of it was written in order before the first test
    named = None                # the name that fio gets, if it is not the path

    def __init__(self, path, start, size, dev, what):
        self.path, self.start, self.bytes, self.dev, self.what = path, start, size, dev, what
        self.block, self.label = BLOCK, dev.label

    def __getattr__(self, name):
        # For settings, offers, restore_from, by_hand, unrestored, identity and sys.
        return getattr(self.dev, name)

    @property
    def whole(self):
        """Whether the part is the whole drive."""
        return self.start == 0 and self.bytes + BLOCK > self.dev.bytes and \
            not (self.dev.sys / "partition").exists()

    @staticmethod
    def reset():
        """Never resets: the drive holds other data, too."""
        return False

    def moved(self):
        """A sentence if the part has moved on the drive, else an empty text."""
        return ""

    def close(self):
        """Closes the device."""
        self.dev.close()


def area(path, text):
    """The part START+LENGTH of an unused device, or if @text is empty the whole of a device that
    holds nothing; Refused with a sentence."""
    dev = Device(path, bool(text), option="only --area START+LENGTH")
    try:
        start, size = parse(text) if text else (0, dev.bytes // BLOCK * BLOCK)
        if start % BLOCK or size % BLOCK:
            raise Refused(f"--area {text}: start and length are multiples of {BLOCK} bytes")
        if start + size > dev.bytes:
            raise Refused(f"--area {text} ends behind {path}, which has {dev.bytes} bytes")
        if size < LEAST:
            raise Refused(f"{size} bytes are too few to write to: {LEAST // MIB} MiB at least")
    except Refused:
        dev.close()
        raise
    return Part(dev.path, start, size, dev, f"bytes {start} to {start + size} of {path}")


def parse(text):
    """(start, length) in bytes; the numbers may have K, M, G or T behind them."""
    def number(word):
        unit = "KMGT".find(word[-1:].upper()) + 1
        return int(word[:-1] if unit else word) << 10 * unit
    try:
        start, size = (number(word.strip()) for word in text.split("+"))
    except ValueError:
        raise Refused(f"--area {text} is not START+LENGTH, as in 10G+1G") from None
    if start < 0 or size <= 0:
        raise Refused(f"--area {text}: nothing begins before 0, or has no length")
    return start, size


def extents(fd):
    """[(place in the file, place on the device, bytes)] of a file; Refused if the file system
    does not report them, or if they are not plain extents."""
    buf = bytearray(struct.pack("QQIIII", 0, (1 << 64) - 1, 1, 0, EXTENTS, 0) + bytes(56 * EXTENTS))
    try:
        fcntl.ioctl(fd, FIEMAP, buf)
    except OSError as error:
        raise Refused("the file system does not say where a file lies: "
                      f"{error.strerror}") from error
    found = []
    for i in range(struct.unpack_from("I", buf, 20)[0]):
        logical, physical, length, _, _, flags = struct.unpack_from("QQQQQI", buf, 32 + 56 * i)
        if flags & ASTRAY:
            raise Refused("the file system does not put a file where it says (compressed, shared "
                          "or not written yet)")
        found.append((logical, physical, length))
    if not found or len(found) == EXTENTS:
        raise Refused(f"the scratch file is in {len(found)} pieces")
    return found


class File(Part):
    """A scratch file in a mounted file system; close() removes it.

    @path: a directory, or a name that does not exist yet."""

    written, whole = True, False

    def __init__(self, path):
        path = Path(path)
        if path.is_dir():
            path = path / f"skylight-scratch-{os.getpid()}"
        elif path.exists():
            raise Refused(f"{path} is there already, and quick overwrites no file but its own: "
                          "name a directory")
        elif not path.parent.is_dir():
            raise Refused(f"{path}: there is no directory {path.parent}")
        space = os.statvfs(path.parent)
        size = min(MOST, space.f_bavail * space.f_frsize // SHARE) // MIB * MIB
        if size < LEAST:
            raise Refused(f"{path.parent} has too little room: a scratch file takes a tenth of "
                          f"what is free, and {LEAST // MIB} MiB at least")
        number = os.stat(path.parent).st_dev
        self._number = f"{os.major(number)}:{os.minor(number)}"
        below = Path(f"/sys/dev/block/{self._number}")
        if not below.exists():
            raise Refused(f"{path.parent} is on no block device: which drive is below can't be "
                          "seen")
        super().__init__(str(path), 0, size, Below(below),
                         f"a file of {size // MIB} MiB in {path.parent}")
        self.places, self._fd = None, -1
        self._folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def named(self):
        """The name that fio gets.  Desktops mount a drive at its label, which may contain
        blanks."""
        if loads.can_be_told(os.path.realpath(self.path)):
            return None
        return f"/proc/{os.getpid()}/fd/{self._folder}/{Path(self.path).name}"

    def make(self, s):
        """Writes the file, so that each block has its place; Refused if the file system moves
        blocks that are overwritten."""
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.posix_fallocate(self._fd, 0, self.bytes)
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror}") from error
        s.fio("fill", rw="write", bs=MIB, size=self.bytes, end_fsync=1, log=False)
        self.places = extents(self._fd)
        s.fio("rewrite", rw="randwrite", bs=BLOCK, number_ios=16, size=self.bytes, end_fsync=1,
              log=False)
        if self.moved():
            raise Refused(self.moved())

    def moved(self):
        if self.places is None:
            return ""
        try:
            same = extents(self._fd) == self.places
        except Refused as no:
            return str(no)
        return "" if same else ("the file system itself puts elsewhere what is overwritten: name "
                                "another one, or a device and an --area of it")

    def close(self):
        """Removes the file, whatever has happened."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
        super().close()


class Below:
    """The device below a mounted file system.  Its settings need permission to open it."""

    def __init__(self, sys):
        self.sys, self.dev = sys, None
        self.path = f"/dev/{os.path.basename(os.path.realpath(sys))}"
        self.label = os.path.basename(self.path)
        with contextlib.suppress(Refused):
            self.dev = Seen(self.path)
            self.label = self.dev.label

    def __getattr__(self, name):
        return getattr(self.dev, name)

    @property
    def unrestored(self):
        """As of a Device."""
        return self.dev.unrestored if self.dev else {}

    def identity(self):
        """As of a Device, as far as it is known."""
        return self.dev.identity() if self.dev else {"bytes": None, "label": self.label,
                                                     "serial": ""}

    def settings(self, note, **wanted):
        """As of a Device; without permission no setting is offered."""
        return self.dev.settings(note, **wanted) if self.dev else \
            contextlib.nullcontext(list(wanted))

    def restore_from(self, note):
        """As of a Device; nothing without permission."""
        return self.dev.restore_from(note) if self.dev else []

    def close(self):
        """Closes the device."""
        if self.dev:
            self.dev.close()
