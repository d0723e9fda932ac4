# SPDX-License-Identifier: GPL-2.0
"""A second, independent implementation of dm-shingle's metadata format.

It shares nothing with core/ on purpose: the tests format tiny devices to measure, find structures
to damage, and put valid checksums on invalid contents.  See core/lib/format/format.h and
Documentation/on-disk-format.rst.
"""

import functools
import struct

BLOCK = 4096
SB, JOURNAL, CHUNK, FOOTER = b"SHSB", b"SHJL", b"SHCK", b"SHFT"
MEMBER, PAGE = b"SHMB", b"SHPG"
VERSION = 5
PAYLOAD = 4032             # of a chunk, and of a page
UNMARKED = 1 << 8          # flag of a superblock, shifted by the device
HEADER = struct.Struct("<4sI16sQQ")
SUPER = struct.Struct("<II16s32sQ3Q2Q2Q2QQII4xIQ")
GROUP = struct.Struct("<QQQIHHI4x")
FOOT = struct.Struct("<QQQII")
PART = struct.Struct("<II16s32sQIIQ")
MEDIUM = struct.Struct("<QHHHHH2xI")
ZONE = struct.Struct("<IIII")
CONV = struct.Struct("<QQ")
DATA, CACHE, STAGING = 0, 1, 2              # roles
DEV_DATA, DEV_CACHE, DEV_META = 0, 1, 2
ROLES = ("data", "cache", "staging")
DEVS = ("data", "cache", "meta")


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        yield byte


_CRC = tuple(_table())


@functools.lru_cache(maxsize=1024)
def crc32c(crc, data):
    """The kernel's crc32c: no inversion before or after.  Results are cached, because many cases
    format the same device and this is slow on an emulated processor."""
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc


def seal(block, magic=None, uuid=None, at=None, seq=None):
    """Return a block with header fields replaced and a valid checksum."""
    old = HEADER.unpack_from(block)
    magic = magic or old[0]
    body = (uuid if uuid is not None else old[2]) + struct.pack(
        "<QQ", old[3] if at is None else at, old[4] if seq is None else seq) \
        + bytes(block[HEADER.size:])
    return magic + struct.pack(
        "<I", crc32c(int.from_bytes(magic, "little"), body)) + body


def sound(block, magic=None):
    """Return whether this is a metadata block with a valid checksum."""
    head = HEADER.unpack_from(block)
    if head[0] not in (SB, JOURNAL, CHUNK, FOOTER, MEMBER, PAGE) or magic not in (
            None, head[0]):
        return False
    return head[1] == crc32c(int.from_bytes(head[0], "little"), bytes(block[8:]))


def superblock(uuid, seq, at, *, engine, logical, devs, ckpt, journal, gap=0,
               head=1, band, media=0, groups, params=b"", stretch=0, flags=0,
               version=VERSION, pages=(0, 0), medium=None):
    """Return a superblock. groups: [(role, dev, start, stride, bands, track)]; band: length by
    role; medium: the known geometry of DATA's medium."""
    body = SUPER.pack(version, flags, engine.encode(), b"", logical, *devs,
                      *ckpt[0], *ckpt[1], *journal, gap, head, len(groups),
                      media, 1700000000)
    raw = bytearray(BLOCK)
    raw[40:40 + len(body)] = body
    raw[208:208 + len(params)] = params
    struct.pack_into("<I", raw, 464, stretch)
    struct.pack_into("<QQ", raw, 472, *pages)
    for i, (role, dev, start, stride, bands, track) in enumerate(groups):
        GROUP.pack_into(raw, 512 + i * GROUP.size, start, stride, bands,
                        track, role, dev, band[role])
    if medium:
        raw[1152:1152 + len(medium)] = medium
    return seal(raw, SB, uuid, at, seq)


def smr(blocks, track, skew, head, conventional):
    """Return the geometry of a shingled medium of one surface and one zone with known columns, and
    with conventional ranges [(first, blocks)]."""
    out = MEDIUM.pack(blocks, 1, 1, 1, 1, len(conventional), head * 1000)
    out = (out + struct.pack("<H", 1000)).ljust(88, b"\0")
    out += ZONE.pack(blocks // track, track, blocks // track, 8 * skew)
    return out.ljust(1112, b"\0") + b"".join(CONV.pack(*c) for c in conventional)


def member(uuid, at, *, engine, dev, blocks, version=VERSION,
           ctime=1700000000):
    """Return the header of a device that has no superblocks."""
    raw = bytearray(BLOCK)
    PART.pack_into(raw, 40, version, 0, engine.encode(), b"", blocks, dev, 0,
                   ctime)
    return seal(raw, MEMBER, uuid, at, 1)


def footer(uuid, seq, at, journal_seq, journal_pos=0, prev_crc=0, chunks=0,
           chunks_crc=0):
    raw = bytearray(BLOCK)
    FOOT.pack_into(raw, 40, chunks, journal_seq, journal_pos, prev_crc,
                   chunks_crc)
    return seal(raw, FOOTER, uuid, at, seq)


def chunk(uuid, seq, at, index, payload, magic=CHUNK):
    """Return a piece of a checkpoint, or a page of a map."""
    raw = bytearray(BLOCK)
    struct.pack_into("<QI", raw, 40, index, len(payload))
    raw[56:56 + len(payload)] = payload
    return seal(raw, magic, uuid, at, seq)


def read_super(block):
    """Return the fields of a superblock as a dict, with its groups."""
    f = SUPER.unpack_from(block, 40)
    head = HEADER.unpack_from(block)
    out = {"uuid": head[2], "seq": head[4], "version": f[0], "flags": f[1],
           "engine": f[2].rstrip(b"\0").decode(), "logical": f[4],
           "devs": f[5:8], "ckpt": (f[8:10], f[10:12]), "journal": f[12:14],
           "gap": f[14], "head": f[15], "media": f[17],
           "stretch": struct.unpack_from("<I", block, 464)[0],
           "pages": struct.unpack_from("<QQ", block, 472)}
    out["groups"] = [GROUP.unpack_from(block, 512 + i * GROUP.size)
                     for i in range(f[16])]
    return out


def slot_blocks(sb, slot):
    """Return the blocks of a checkpoint slot in their order."""
    start, n = sb["ckpt"][slot]
    stretch = sb["stretch"] or n
    return [start + i for i in range(n) if i // stretch % 2 == 0]


def checkpoints(sb, slot, read):
    """Return the complete checkpoints of a slot: [(number, block of the footer, its fields, blocks
    of the chunks)]. read(block) returns its bytes."""
    out, chunks, number = [], [], None
    for block in slot_blocks(sb, slot):
        raw = read(block)
        seq = HEADER.unpack_from(raw)[4]
        if not (sound(raw, CHUNK) or sound(raw, FOOTER)) or \
                number not in (None, seq):
            break
        number = seq
        if sound(raw, CHUNK):
            chunks.append(block)
            continue
        out.append((seq, block, FOOT.unpack_from(raw, 40), chunks))
        chunks, number = [], seq + 1
    return out


def places(newest, read, pages):
    """Return {page of a map: its place, 1 or 2; 3 if it was given up} by the last checkpoint of a
    slot."""
    pieces = {}
    for _, _, _, chunks in newest:
        for block in chunks:
            raw = read(block)
            index, length = struct.unpack_from("<QI", raw, 40)
            pieces[index] = raw[56:56 + length]
    out = {}
    for page in range(pages):
        piece, at = divmod(page, 4 * PAYLOAD)
        said = pieces.get((1 << 63) + 1 + piece, b"")
        place = said[at // 4] >> at % 4 * 2 & 3 if at // 4 < len(said) else 0
        if place:
            out[page] = place
    return out
