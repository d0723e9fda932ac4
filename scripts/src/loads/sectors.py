# SPDX-License-Identifier: GPL-2.0
"""Traces in sectors of 512 bytes, as shingle-replay reads them: the formats in which block traces are
published, found by their content.

  MSR Cambridge    Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime; bytes
  SYSTOR '17       Timestamp,Response,IOType,LUN,Offset,Size; bytes
  Alibaba          device,opcode,offset,length,timestamp; bytes
  Tencent          timestamp,offset,size,0 or 1 for a write,volume; sectors
  CloudPhysics     version,time,SCSI command,bytes,sector; or vscsi, its binary form
  DiskSim          time device sector sectors flags; bit 0 of the flags is a read
  blkparse         its text; the requests that were queued (Q)
  fio              iologs of version 2 and 3; bytes
"""

import hashlib
import json
import os
import re
from array import array
from itertools import islice
from pathlib import Path

import numpy as np
from common.output import whole

from . import text
from .requests import BLOCK, Refused

MAGIC = b"SHGLREQ1"
REQUEST = np.dtype([("sector", "<u8"), ("sectors", "<u4"), ("kind", "<u4")])
SECTOR = 512
READ, WRITE, DISCARD = range(3)
KINDS = {"r": READ, "read": READ, "w": WRITE, "write": WRITE, "d": DISCARD, "trim": DISCARD}
# SCSI: READ and WRITE of 6, 10, 12 and 16 bytes, as numbers and as hexadecimal digits.
READS, WRITES = (0x08, 0x28, 0xa8, 0x88), (0x0a, 0x2a, 0xaa, 0x8a)
COMMANDS = {**{form(c): READ for c in READS for form in (str, "{:x}".format)},
            **{form(c): WRITE for c in WRITES for form in (str, "{:x}".format)}}
# CloudPhysics' binary records, and the version in the upper byte of ver.
VSCSI = {1: np.dtype([("sn", "<u4"), ("len", "<u4"), ("nsg", "<u4"), ("cmd", "<u2"),
                      ("ver", "<u2"), ("lbn", "<u8"), ("ts", "<u8")]),
         2: np.dtype([("cmd", "<u2"), ("ver", "<u2"), ("sn", "<u4"), ("len", "<u4"),
                      ("nsg", "<u4"), ("lbn", "<u8"), ("ts", "<u8"), ("rt", "<u8")])}
MOST = 1 << 21                  # sectors of a request: 1 GiB
FARTHEST = 1 << 41              # sector of a volume
BLKPARSE = re.compile(rb"\s*(\d+,\d+)\s+\d+\s+\d+\s+\d+\.\d+\s+\d+\s+([A-Z]+)\s+([A-Z]+)"
                      rb"(?:\s+(\d+) \+ (\d+))?")


def of_bytes(offset, size):
    """Return (sector, sectors) of bytes."""
    return offset // SECTOR, (offset + size - 1) // SECTOR + 1 - offset // SECTOR


# Each takes a line and returns (volume, kind, sector, sectors); None for a line without a request;
# ValueError, IndexError or KeyError for a line of another format.

def msr(line):
    word = line.split(b",")
    kind = KINDS[word[3].strip().lower().decode()]
    return f"{word[1].decode().strip()}_{int(word[2])}", kind, *of_bytes(int(word[4]), int(word[5]))


def systor(line):
    _, _, kind, lun, offset, size = line.split(b",")
    if not kind:                # a request that failed
        return None
    return f"lun_{int(lun)}", KINDS[kind.lower().decode()], *of_bytes(int(offset), int(size))


def alibaba(line):
    device, kind, offset, size, _ = line.split(b",")
    return f"disk_{int(device)}", KINDS[kind.lower().decode()], *of_bytes(int(offset), int(size))


def tencent(line):
    _, sector, sectors, kind, volume = line.split(b",")
    if kind not in (b"0", b"1"):
        raise ValueError("its type is neither 0 nor 1")
    return f"volume_{int(volume)}", int(kind), int(sector), int(sectors)


def cloudphysics(line):
    version, _, command, size, sector = re.split(rb"[, ]", line.strip())
    if version not in (b"1", b"2"):
        raise ValueError("its version is neither 1 nor 2")
    kind = COMMANDS.get(command.decode().lower().removeprefix("0x"))
    return None if kind is None else ("disk", kind, int(sector), -(-int(size) // SECTOR))


def disksim(line):
    _, device, sector, sectors, flags = line.split()
    return f"disk_{int(device)}", WRITE - (int(flags, 0) & 1), int(sector), int(sectors)


def blkparse(line):
    found = BLKPARSE.match(line)
    if not found or found[2] != b"Q" or not found[4]:
        return None
    kind = next((KINDS[c] for c in found[3].decode().lower() if c in "rwd"), None)
    return None if kind is None else \
        (found[1].decode().replace(",", "_"), kind, int(found[4]), int(found[5]))


def fio(line):
    word = line.split()
    if word[0].isdigit() and len(word) > 2:     # version 3 begins with the time
        word = word[1:]
    kind = KINDS.get(word[1].decode())
    if kind is None or len(word) < 4:
        return None
    return word[0].decode(), kind, *of_bytes(int(word[2]), int(word[3]))


def detect(head):
    """Return the function for a file with these first lines."""
    if re.match(rb"fio version [23] iolog", head[0]):
        return fio
    if any(BLKPARSE.match(line) for line in head):
        return blkparse
    for way in (msr, systor, alibaba, cloudphysics, tencent, disksim):
        # The first line may be a header, the last one incomplete.
        for line in head[:2]:
            try:
                if way(line):
                    return way
            except (ValueError, IndexError, KeyError):
                continue
    raise ValueError("its format is none of MSR Cambridge, SYSTOR '17, Alibaba, Tencent, "
                     "CloudPhysics, DiskSim, blkparse and fio")


class Volumes:
    """Requests by volume."""

    def __init__(self):
        self.of = {}

    def add(self, volume, kind, sector, sectors):
        if not 1 <= sectors <= MOST or not 0 <= sector <= FARTHEST:
            raise ValueError(f"its {sectors} sectors from {sector} on are out of range")
        columns = self.of.get(volume)
        if columns is None:
            columns = self.of[volume] = (array("Q"), array("I"), array("B"))
        columns[0].append(sector)
        columns[1].append(sectors)
        columns[2].append(kind)
        return len(columns[0])

    def requests(self, volume):
        columns = self.of[volume]
        out = np.empty(len(columns[0]), REQUEST)
        for name, column in zip(REQUEST.names, columns):
            out[name] = np.frombuffer(column, column.typecode)
        return out


def lines_of(raw, found, volume, limit, show):
    """Add the requests of a text to @found."""
    size = os.fstat(raw.fileno()).st_size
    lines = text.lines(raw)
    head = list(islice(lines, 20))
    # Text has no zero bytes, UTF-16 aside, which text.lines() has decoded.
    if not head or any(b"\0" in line for _, line in head):
        raise ValueError("it is no text, and no binary format that is known")
    way = detect([line for _, line in head])
    for part in (head, lines):
        for number, line in part:
            if show and number % 65536 == 0:
                show(raw.tell(), size)
            try:
                of = way(line) if line.strip() else None
            except (ValueError, IndexError, KeyError):
                # A header, perhaps of a file that was joined to another.
                if re.match(rb"\s*(?:[A-Za-z_]+\s*,)+", line) or way is fio:
                    continue
                raise ValueError(f"line {number} has no request: "
                                 f"{line[:60].decode('ascii', 'replace')}") from None
            if of is None or volume not in (None, of[0]):
                continue
            try:
                if found.add(*of) == limit:
                    return
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None


def vscsi(path):
    """Return the requests of CloudPhysics' binary form, None for another file."""
    with open(path, "rb") as raw:
        head = raw.read(2 * VSCSI[2].itemsize)
    for version, record in VSCSI.items():
        if len(head) >= 2 * record.itemsize and \
                (np.frombuffer(head, record, 2)["ver"] >> 8 == version).all():
            break
    else:
        return None
    records = np.fromfile(path, record)
    command = records["cmd"] & 0xff
    kind = np.where(np.isin(command, READS), READ, np.where(np.isin(command, WRITES), WRITE, 255))
    out = np.empty(len(records), REQUEST)
    out["sector"], out["kind"] = records["lbn"], kind
    out["sectors"] = -(-records["len"].astype(np.int64) // SECTOR)
    out = out[(kind != 255) & (out["sectors"] > 0)]
    if (out["sectors"] > MOST).any() or (out["sector"] > FARTHEST).any():
        raise ValueError("a request is out of range")
    return out


def read(path, volume=None, limit=None, show=None):
    """Return (requests, volume): those of @volume, or of the volume with most requests.  @limit: stop
    when a volume has this number of requests.  @show: called with the bytes read and the size."""
    path, found = Path(path), Volumes()
    try:
        requests = vscsi(path)
        if requests is not None:
            return requests[:limit], "disk"
        with open(path, "rb") as raw:
            lines_of(raw, found, volume, limit, show)
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None
    except text.DAMAGED as error:
        raise Refused(f"{path} is damaged: {error}") from None
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from None
    if not found.of:
        raise Refused(f"{path} has no requests" + (f" of {volume}" if volume else ""))
    volume = max(found.of, key=lambda name: len(found.of[name][0]))
    return found.requests(volume), volume


def of_load(load):
    """Return a load of this package, which is in blocks, in sectors."""
    out = np.empty(len(load), REQUEST)
    out["sector"], out["sectors"] = load.first * (BLOCK // SECTOR), load.blocks * (BLOCK // SECTOR)
    out["kind"] = load.write
    return out


def save(requests, path):
    """Write requests as shingle-replay reads them."""
    with whole(path) as (part,):
        Path(part).write_bytes(MAGIC + requests.astype(REQUEST, copy=False).tobytes())


def load(path):
    """Return the requests of a file of save()."""
    data = Path(path).read_bytes()
    if data[:len(MAGIC)] != MAGIC:
        raise Refused(f"{path} is not a file of requests")
    return np.frombuffer(data, REQUEST, offset=len(MAGIC))


def cached(path, folder, volume=None, limit=None, show=None):
    """Return (file of save(), volume) for a trace, made at the first call for its present content.
    @show: as for read()."""
    path = Path(path)
    try:
        st = path.stat()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    words = [str(path.resolve()), st.st_size, st.st_mtime_ns, volume, limit]
    name = hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]
    out, note = folder / f"{name}.requests", folder / f"{name}.json"
    try:
        kept = json.loads(note.read_text(encoding="utf-8"))
        if kept["words"] == words and out.stat().st_size == kept["bytes"]:
            return out, kept["volume"]
    except (OSError, ValueError, KeyError):
        pass
    requests, found = read(path, volume, limit, show)
    save(requests, out)
    with whole(note) as (part,):
        Path(part).write_text(json.dumps({"words": words, "volume": found,
                                          "bytes": out.stat().st_size}), encoding="utf-8")
    return out, found
