# SPDX-License-Identifier: GPL-2.0
"""Loads as files: read and write the seven columns of the MSR Cambridge traces, write fio's
iologs.  Files are processed in stretches, so they need not fit in memory."""

import contextlib
import gzip
import re
from pathlib import Path

import numpy as np
from common.output import whole

from . import text
from .requests import BLOCK, Refused, Requests

STRETCH = 1 << 16       # requests
LARGEST = 1 << 30       # bytes of a request
FARTHEST = 1 << 50      # byte of a volume
PACKED = 256            # consecutive blocks that "pack" keeps together
COLUMNS = 7
TICKS_A_US = 10
DIGITS = 30             # digits of a number at most


class Fit:
    """Map places of a volume to a device of @size_blocks (None: unchanged).

    fold: a place modulo the size.  pack: each MiB of the volume gets the next free MiB of the
    device when it is first touched; a request that this splits becomes several.
    """

    def __init__(self, how, size_blocks):
        if how not in ("fold", "pack"):
            raise Refused(f"there is no fit '{how}'; there are fold and pack")
        self.size, self.moved, self.torn = size_blocks, 0, 0
        self._pack = {} if how == "pack" else None
        if size_blocks is not None and size_blocks < (PACKED if how == "pack" else 1):
            raise Refused("the device is too small to fit anything into it")

    def __call__(self, first, blocks):
        """Return [(first, blocks)] for one request; ValueError with a few words."""
        if self._pack is not None:
            return self._packed(first, blocks)
        if self.size is None:
            return ((first, blocks),)
        if blocks > self.size:
            raise ValueError("its request is larger than the device")
        at = min(first % self.size, self.size - blocks)
        self.moved += at != first
        return ((at, blocks),)

    def _packed(self, first, blocks):
        out, end = [], first + blocks
        while first < end:
            part, inside = divmod(first, PACKED)
            n = min(end - first, PACKED - inside)
            if part not in self._pack and self.size is not None and \
                    (len(self._pack) + 1) * PACKED > self.size:
                raise ValueError(f"it is the first to touch more than the {self.size // PACKED} "
                                 "MiB that the device has")
            at = self._pack.setdefault(part, len(self._pack)) * PACKED + inside
            if out and sum(out[-1]) == at:
                out[-1] = (out[-1][0], out[-1][1] + n)
            else:
                out.append((at, n))
            self.moved += at != first
            first += n
        self.torn += len(out) - 1
        return out


def _number(text, name, least, most):
    text = text.strip()
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"its {name} '{text}' is no whole number")
    value = int(text[:DIGITS])
    if not least <= value <= most:
        raise ValueError(f"its {name} {value} is not from {least} to {most}")
    return value


class Reader:
    """An MSR trace at @path, perhaps compressed; iterate over its stretches.

    @volume: host_disk, if the trace has several; @limit: the number of requests to read; @fit: see
    Fit; @show, if given, is called with (bytes read, bytes of the file).
    """

    def __init__(self, path, volume=None, limit=None, fit=None, show=None):
        self.path, self.volume, self.limit = Path(path), volume, limit
        self.fit = fit or Fit("fold", None)
        self.show = show
        self._first_volume = None

    def __iter__(self):
        number = rest = 0
        try:
            size = self.path.stat().st_size
            with open(self.path, "rb") as raw:
                rows, left = [], self.limit
                for number, line in text.lines(raw):
                    if left == 0:
                        break
                    found = self._line(line)
                    if not found:
                        continue
                    rows += found
                    left = None if left is None else left - 1
                    if len(rows) >= STRETCH:
                        yield Requests.of(rows)
                        rows, rest = [], 1
                        if self.show:
                            self.show(raw.tell(), size)
        except ValueError as error:
            where = f", line {number}" if number else ""
            raise Refused(f"{self.path}{where}: {error}") from None
        except text.DAMAGED as error:
            raise Refused(f"{self.path} is damaged behind line {number}: {error}") from None
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror or error}") from None
        if rows:
            yield Requests.of(rows)
        elif not rest:
            raise Refused(f"{self.path} has no requests" + (
                f" of {self.volume}" if self.volume else ""))

    def _line(self, line):
        """Return rows of Requests; ValueError with a few words."""
        words = text.columns(line)
        if len(words) == 1 and not line.strip():
            return None
        if len(words) != COLUMNS:
            raise ValueError(f"it has {len(words)} columns, not {COLUMNS} (Timestamp,Hostname,"
                             "DiskNumber,Type,Offset,Size,ResponseTime)")
        words = [word.decode("ascii", "replace") for word in words]
        # Headers may also be in the middle, where files were joined.
        if words[0].lower() == "timestamp":
            return None
        volume = f"{words[1].strip()}_{words[2].strip()}"
        if self.volume:
            if volume != self.volume:
                return None
        elif self._first_volume != volume:
            if self._first_volume:
                raise ValueError(f"it is of {volume}, those before are of "
                                 f"{self._first_volume}: choose one by --volume")
            self._first_volume = volume
        kind = words[3].strip().lower()
        if kind not in ("read", "write"):
            raise ValueError(f"its Type '{words[3].strip()}' is neither Read nor Write")
        tick = _number(words[0], "Timestamp", 0, (1 << 63) - 1)
        offset = _number(words[4], "Offset", 0, FARTHEST)
        size = _number(words[5], "Size", 1, LARGEST)
        first = offset // BLOCK
        return [(tick, kind == "write", *place)
                for place in self.fit(first, (offset + size - 1) // BLOCK + 1 - first)]


class _Dropped(Exception):
    """Raised to leave the output file as it was."""


class Writer:
    """Write a load to @path as @kind: csv, iolog2 or iolog3.

    @device: the name in iologs; fio's replay_redirect replaces it.  @speed: divides the times of an
    iolog3.  The file has a temporary name until close().
    """

    KINDS = ("csv", "iolog2", "iolog3")

    def __init__(self, path, kind, device="device", speed=1.0, volume="load_0"):
        if not re.fullmatch(r"[!-9;-~]{1,256}", device):
            raise Refused(f"fio takes no device by the name of '{device}' in an iolog")
        if not 0 < speed < float("inf"):
            raise Refused("times are divided by a number above 0")
        self.path, self.kind, self.device, self.speed = Path(path), kind, device, speed
        host, _, disk = volume.rpartition("_")
        self.host, self.disk = (re.sub(r"[^A-Za-z0-9.-]", "-", w) for w in (host, disk))
        self._begin = self._last = None
        self._output = contextlib.ExitStack()
        try:
            part, = self._output.enter_context(whole(self.path))
            self._file = gzip.GzipFile(part, "wb", mtime=0) \
                if self.path.suffix == ".gz" else open(part, "wb")
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror}") from None
        if kind != "csv":
            stamp = "1 " if kind == "iolog3" else ""
            self._say([f"fio version {kind[-1]} iolog"] +
                      [f"{stamp}{device} {what}" for what in ("add", "open")])

    def _say(self, lines):
        try:
            self._file.write(("\n".join(lines) + "\n").encode("ascii"))
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror}") from None

    def add(self, load):
        """Write the next stretch."""
        if not len(load):
            return
        columns = [load.write.tolist(), (load.first * BLOCK).tolist(),
                   (load.blocks * BLOCK).tolist()]
        if self.kind == "csv":
            self._say([f"{t},{self.host},{self.disk},{'Write' if w else 'Read'},{o},{n},0"
                       for t, w, o, n in zip(load.tick.tolist(), *columns)])
            return
        lines = [f"{self.device} {'write' if w else 'read'} {o} {n}" for w, o, n in zip(*columns)]
        if self.kind == "iolog3":
            lines = [f"{us} {line}" for us, line in zip(self._us(load.tick).tolist(), lines)]
        self._say(lines)

    def _us(self, tick):
        """Return fio's times: from 1, because fio takes 0 for no time, and never decreasing."""
        if self._begin is None:
            self._begin, self._last = int(tick[0]), 1
        us = 1 + np.floor((tick - self._begin) / (TICKS_A_US * self.speed)).astype(np.int64)
        us = np.maximum.accumulate(np.maximum(us, self._last))
        self._last = int(us[-1])
        return us

    def close(self):
        """Complete the file and give it its name."""
        if self.kind != "csv":
            stamp = f"{self._last or 1} " if self.kind == "iolog3" else ""
            self._say([f"{stamp}{self.device} close"])
        try:
            self._file.close()
            self._output.close()
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror}") from None

    def drop(self):
        """Remove the incomplete file."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(_Dropped), self._output:
            raise _Dropped
