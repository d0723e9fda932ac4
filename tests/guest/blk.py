# SPDX-License-Identifier: GPL-2.0
"""Access to block devices: direct I/O in 4 KiB blocks."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import struct

BLOCK = 4096
SECTORS = BLOCK // 512
F_SET_RW_HINT = 1036
LIVES = ("unset", "none", "short", "medium", "long", "extreme")
BLKDISCARD, BLKZEROOUT, BLKGETSIZE64, BLKFLSBUF = (
    0x1277, 0x127f, 0x80081272, 0x1261)


def attribute(path, name):
    """Return the sysfs file of an attribute of a device's queue."""
    number = os.stat(path).st_rdev
    return f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue/{name}"


def size(path):
    """Return the number of blocks of a device."""
    fd = os.open(path, os.O_RDONLY)
    try:
        buf = bytearray(8)
        fcntl.ioctl(fd, BLKGETSIZE64, buf)
        return struct.unpack("<Q", buf)[0] // BLOCK
    finally:
        os.close(fd)


class Blk:
    """An open device.  Each call is one system call that bypasses the page cache."""

    fd = -1

    def __init__(self, path, mode=os.O_RDWR):
        self.fd = os.open(path, mode | os.O_DIRECT)
        self.path = path
        self._buf = mmap.mmap(-1, 1 << 20)

    def _room(self, length):
        if length > len(self._buf):
            self._buf = mmap.mmap(-1, length)
        return memoryview(self._buf)[:length]

    def read(self, block, n=1):
        room, at = self._room(n * BLOCK), 0
        while at < len(room):
            got = os.preadv(self.fd, [room[at:]], block * BLOCK + at)
            if not got:
                raise OSError(errno.EIO, f"end of device at block {block}")
            at += got
        return bytes(room)

    def write(self, block, data):
        room, at = self._room(len(data)), 0
        room[:] = data
        while at < len(room):
            at += os.pwritev(self.fd, [room[at:]], block * BLOCK + at)

    def flush(self):
        os.fsync(self.fd)

    def life(self, word):
        """Set the lifetime hint of later writes."""
        fcntl.fcntl(self.fd, F_SET_RW_HINT,
                    struct.pack("<Q", LIVES.index(word)))

    def discard(self, block, n):
        fcntl.ioctl(self.fd, BLKDISCARD,
                    struct.pack("<QQ", block * BLOCK, n * BLOCK))

    def zero(self, block, n):
        fcntl.ioctl(self.fd, BLKZEROOUT,
                    struct.pack("<QQ", block * BLOCK, n * BLOCK))

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    __del__ = close     # a failed case leaves no device in use

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


@contextlib.contextmanager
def opened(path):
    with Blk(path) as dev:
        yield dev


# Linux AIO: several requests in flight, and FUA without a flush after it (the synchronous O_DSYNC
# path of block devices adds one).

class _Iocb(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32),
                ("rw_flags", ctypes.c_uint32), ("op", ctypes.c_uint16),
                ("prio", ctypes.c_int16), ("fd", ctypes.c_uint32),
                ("buf", ctypes.c_uint64), ("nbytes", ctypes.c_uint64),
                ("offset", ctypes.c_int64), ("reserved", ctypes.c_uint64),
                ("flags", ctypes.c_uint32), ("resfd", ctypes.c_uint32)]


class _Event(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("obj", ctypes.c_uint64),
                ("res", ctypes.c_int64), ("res2", ctypes.c_int64)]


_libc = ctypes.CDLL(None, use_errno=True)
_SETUP, _DESTROY, _GETEVENTS, _SUBMIT = 206, 207, 208, 209
_PREAD, _PWRITE = 0, 1
RWF_DSYNC = 2


def _sys(*args):
    # io_getevents(2) is not restarted after a signal.
    while (ret := _libc.syscall(*args)) < 0 and ctypes.get_errno() == errno.EINTR:
        pass
    if ret < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return ret


class Aio:
    """A queue of direct requests on one device."""

    def __init__(self, dev, depth):
        self.dev, self.depth = dev, depth
        self._ctx = ctypes.c_ulong(0)
        _sys(_SETUP, ctypes.c_long(depth), ctypes.byref(self._ctx))
        self._flying = {}
        self._next = 1

    def _submit(self, op, block, room, token, flags):
        n = self._next
        self._next += 1
        address = ctypes.addressof(ctypes.c_char.from_buffer(room))
        cb = _Iocb(data=n, rw_flags=flags, op=op, fd=self.dev.fd, buf=address,
                   nbytes=len(room), offset=block * BLOCK)
        self._flying[n] = (token, room, cb)
        one = (ctypes.c_void_p * 1)(ctypes.addressof(cb))
        _sys(_SUBMIT, self._ctx, ctypes.c_long(1), one)

    def write(self, block, data, token, fua=False):
        room = mmap.mmap(-1, len(data))
        room[:] = data
        self._submit(_PWRITE, block, room, token, RWF_DSYNC if fua else 0)

    def read(self, block, n, token):
        self._submit(_PREAD, block, mmap.mmap(-1, n * BLOCK), token, 0)

    @property
    def flying(self):
        return len(self._flying)

    def reap(self, at_least=1):
        """Return [(token, result, data)] of requests that have ended."""
        at_least = min(at_least, self.flying)
        if not self.flying:
            return []
        events = (_Event * self.depth)()
        got = _sys(_GETEVENTS, self._ctx, ctypes.c_long(at_least),
                   ctypes.c_long(self.depth), events, None)
        out = []
        for event in events[:got]:
            token, room, cb = self._flying.pop(event.data)
            data = bytes(room) if cb.op == _PREAD and event.res > 0 else b""
            out.append((token, event.res, data))
        return out

    def close(self):
        while self.flying:
            self.reap(self.flying)
        _sys(_DESTROY, self._ctx)
