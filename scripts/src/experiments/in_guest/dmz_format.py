# SPDX-License-Identifier: GPL-2.0
"""Write an empty dm-zoned format (version 1), for the comparison only.

Debian has no dmzadm.  A metadata set is one superblock, the chunk map and the
zones' block bitmaps; there are two sets, each starting with a zone.
"""

import os
import struct
import zlib

BLOCK = 4096
MAGIC = int.from_bytes(b"DZBD", "big")


def crc32_le(seed, data):
    """The kernel's crc32_le(), which inverts neither the seed nor the result."""
    return zlib.crc32(data, seed ^ 0xffffffff) ^ 0xffffffff


def superblock(gen, block, meta, reserved, chunks, maps, bitmaps):
    head = struct.pack("<IIQQIIIII", MAGIC, 1, gen, block, meta, reserved,
                       chunks, maps, bitmaps)
    body = bytearray(head.ljust(BLOCK, b"\0"))
    struct.pack_into("<I", body, 44, crc32_le(gen & 0xffffffff, bytes(body)))
    return bytes(body)


def format_device(path, zones, zone_blocks, reserved=16):
    """Format a device; return the length of the dm-zoned device in sectors."""
    bitmaps = zones * max(1, zone_blocks // (BLOCK * 8))
    maps = -(-zones // 512)
    meta = 1 + maps + bitmaps
    meta_zones = -(-meta // zone_blocks)
    chunks = zones - 2 * meta_zones - reserved
    with open(path, "r+b") as f:
        for i in range(2):
            base = i * meta_zones * zone_blocks
            f.seek(base * BLOCK)
            f.write(superblock(1, base, meta, reserved, chunks, maps, bitmaps))
            f.write(b"\xff" * (maps * BLOCK))
            f.write(bytes(bitmaps * BLOCK))
        f.flush()
        os.fsync(f.fileno())
    return chunks * zone_blocks * 8
