# SPDX-License-Identifier: GPL-2.0
"""Device mapper by its ioctls: no fork per operation, no udev needed."""

import contextlib
import errno
import fcntl
import os
import struct
import subprocess
import time

HEADER = struct.Struct("<3IIIIiIIIQ128s129s7s")
SPEC = struct.Struct("<QQiI16s")
CREATE, REMOVE, SUSPEND, LOAD, CLEAR, TABLE_STATUS, MESSAGE, LIST, INFO = (
    3, 4, 6, 9, 10, 12, 14, 2, 7)
F_READONLY, F_SUSPEND, F_STATUS_TABLE, F_BUFFER_FULL = 1, 1 << 1, 1 << 4, 1 << 8
F_SKIP_LOCKFS, F_NOFLUSH, F_DATA_OUT, F_IMA = 1 << 10, 1 << 11, 1 << 16, 1 << 19
# Kept small, because the kernel copies the whole buffer.
BUFFER, ANSWER = 1 << 14, 1 << 18

_control = None


def _call(nr, name, payload=b"", flags=0, targets=0):
    global _control
    if _control is None:
        _control = os.open("/dev/mapper/control", os.O_RDWR)
    size = ANSWER if nr == MESSAGE else max(BUFFER, HEADER.size + len(payload))
    while True:
        buf = bytearray(size)
        HEADER.pack_into(buf, 0, 4, 0, 0, size, HEADER.size, targets, 0, flags,
                         0, 0, 0, name.encode(), b"", b"")
        buf[HEADER.size:HEADER.size + len(payload)] = payload
        fcntl.ioctl(_control, 3 << 30 | HEADER.size << 16 | 0xfd << 8 | nr, buf)
        head = HEADER.unpack_from(buf)
        # Only read-only calls can be repeated with a larger buffer.
        if not head[7] & F_BUFFER_FULL or nr not in (LIST, TABLE_STATUS) or size >= ANSWER:
            return head, buf
        size = ANSWER


def _text(buf, at):
    return bytes(buf[at:buf.index(0, at)]).decode(errors="replace")


class Device:
    """A mapped device; close() or the end of a with block removes it."""

    def __init__(self, name, table=None):
        self._is(name, _call(CREATE, name)[0])
        if table is not None:
            try:
                self.load(table)
                self.resume()
            except BaseException:
                self.remove()
                raise

    @classmethod
    def found(cls, name):
        """Return an existing device."""
        device = cls.__new__(cls)
        device._is(name, _call(INFO, name)[0])
        return device

    def _is(self, name, head):
        self.name = name
        dev = head[10]
        self.major = dev >> 8 & 0xfff
        self.minor = dev & 0xff | dev >> 12 & 0xfff00
        self.path = f"/dev/dm-{self.minor}"

    def load(self, table, read_only=False):
        """Load a table, [(start, length, type, params)] in sectors."""
        blob = b""
        for start, length, kind, params in table:
            raw = params.encode() + b"\0"
            raw += b"\0" * (-len(raw) % 8)
            blob += SPEC.pack(start, length, 0, SPEC.size + len(raw),
                              kind.encode()) + raw
        _call(LOAD, self.name, blob, F_READONLY if read_only else 0, len(table))

    def clear(self):
        _call(CLEAR, self.name)

    def resume(self):
        _call(SUSPEND, self.name)

    def suspend(self, noflush=False, lockfs=True):
        _call(SUSPEND, self.name, flags=F_SUSPEND |
              (F_NOFLUSH if noflush else 0) |
              (0 if lockfs else F_SKIP_LOCKFS))

    def reload(self, table, noflush=False, lockfs=True):
        """Replace the table under the users of the device."""
        self.load(table)
        self.suspend(noflush, lockfs)
        self.resume()

    def _status(self, flags):
        head, buf = _call(TABLE_STATUS, self.name, flags=flags)
        at, out = head[4], []
        for _ in range(head[5]):
            start, length, _, after, kind = SPEC.unpack_from(buf, at)
            out.append((start, length, kind.rstrip(b"\0").decode(),
                        _text(buf, at + SPEC.size)))
            at = head[4] + after
        return out

    def status(self, noflush=False):
        """Return the status line of the first target."""
        return self._status(F_NOFLUSH if noflush else 0)[0][3]

    def table(self):
        return self._status(F_STATUS_TABLE)

    def ima(self):
        """Return what IMA would measure of the first target."""
        return self._status(F_IMA)[0][3]

    def message(self, text, sector=0):
        """Send a message; return the target's answer."""
        head, buf = _call(MESSAGE, self.name, struct.pack("<Q", sector) +
                          text.encode() + b"\0")
        return _text(buf, head[4]) if head[7] & F_DATA_OUT else ""

    def remove(self):
        """Remove the device; retry while it is held, as libdevmapper does, because udev may open
        it."""
        for left in range(25, -1, -1):
            try:
                _call(REMOVE, self.name)
                return
            except OSError as error:
                if error.errno != errno.EBUSY or not left:
                    raise
            time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        # The test itself may have removed a dead device.
        with contextlib.suppress(OSError):
            self.remove()


def made(name):
    """Return a device that a program has made without udev, and make its node in /dev/mapper."""
    subprocess.run(["dmsetup", "mknodes", name], check=True)
    return Device.found(name)


def create(name, table):
    """Create a device of a table as text, one target a line, and its node in /dev/mapper."""
    lines = (line.split(None, 3) for line in table.splitlines())
    Device(name, [(int(start), int(length), kind, *(params or [""]))
                  for start, length, kind, *params in lines])
    return made(name)


def names():
    head, buf = _call(LIST, "")
    at, out = head[4], []
    while True:
        dev, after = struct.unpack_from("<QI", buf, at)
        if not dev:
            return out
        out.append(_text(buf, at + 12))
        if not after:
            return out
        at += after


def remove_all():
    """Remove all devices that a failed case left, users before the devices they use."""
    for _ in range(8):
        left = names()
        if not left:
            return
        for name in left:
            with contextlib.suppress(OSError):
                _call(REMOVE, name)
    raise OSError(f"cannot be removed: {' '.join(names())}")


def linear(name, parts):
    """Create a device from parts (path, first sector, sectors)."""
    table, at = [], 0
    for path, start, length in parts:
        table.append((at, length, "linear", f"{path} {start}"))
        at += length
    return Device(name, table)
