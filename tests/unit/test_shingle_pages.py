# SPDX-License-Identifier: GPL-2.0
"""Tests of the pages of a map, offline: check, repair and dump of shingle-toys, which has an
engine with such pages. The test writes the on-disk data itself, independently of core/."""

import json
import struct
import subprocess

import pytest

from guest import ondisk
from guest.ondisk import BLOCK
from programs import TOP, make

TOYS = TOP / "build/userspace/shingle-toys"
BAND, REGIONS = 16, 8  # 12 blocks of a band are presented
LOST = 3


@pytest.fixture(scope="module", autouse=True)
def built():
    make("userspace/shingle", "TOYS=1")


def tool(*args, rc=0):
    done = subprocess.run([TOYS, *map(str, args)], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == rc, (args, done.stdout, done.stderr)
    return done.stdout + done.stderr


class Image:
    """A device of 8 regions, of which two hold a block each."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(BLOCK * 1024))
        tool("format", "paged", path, "--band", f"{BAND * 4}K", "--bands", 2 * REGIONS,
             "--force")
        self.sb = ondisk.read_super(self.block(0))
        start, blocks = self.sb["pages"]
        # Each region has two pages: one records the current slots, one the places of blocks.
        assert blocks == 2 * 2 * REGIONS
        self.pages = start
        places = bytearray(4)
        for region, lblk, side in ((0, 3, 0), (5, 4, 1)):
            live, where = bytearray(4032), bytearray(4032)
            live[0] = 1
            struct.pack_into("<I", where, 4 * lblk, 1)
            for page, content in ((2 * region, live), (2 * region + 1, where)):
                self.write_page(page, side, content)
                places[page // 4] |= (1 + side) << page % 4 * 2
        fills = b"".join(struct.pack("<II", 0, r in (0, 5)) for r in range(REGIONS))
        self.checkpoint([(0, fills), (2**63 + 1, bytes(places))])

    def block(self, at):
        with self.path.open("rb") as f:
            f.seek(at * BLOCK)
            return f.read(BLOCK)

    def write(self, at, block):
        with self.path.open("r+b") as f:
            f.seek(at * BLOCK)
            f.write(block)

    def place(self, page, side):
        return self.pages + 2 * page + side

    def write_page(self, page, side, content, seq=2):
        at = self.place(page, side)
        self.write(at, ondisk.chunk(self.sb["uuid"], seq, at, page, content, ondisk.PAGE))

    def checkpoint(self, pieces, seq=2, **journal):
        at = self.sb["ckpt"][seq % 2 == 0][0]
        crc = 0
        for i, (index, payload) in enumerate(pieces):
            block = ondisk.chunk(self.sb["uuid"], seq, at + i, index, payload)
            crc = ondisk.crc32c(crc, block[4:8])
            self.write(at + i, block)
        i = len(pieces)
        self.write(at + i, ondisk.footer(
            self.sb["uuid"], seq, at + i, **({"journal_seq": 1} | journal), chunks=i,
            chunks_crc=crc))

    def transaction(self, *records):
        """The first transaction. Returns its checksum."""
        raw = bytearray(BLOCK)
        struct.pack_into("<IHHI", raw, 40, 0, 0, 1, len(records))
        for i, (type_, n, c, a, b) in enumerate(records):
            struct.pack_into("<HHIQQ", raw, 56 + 24 * i, type_, n, c, a, b)
        at = self.sb["journal"][0]
        raw = ondisk.seal(raw, ondisk.JOURNAL, self.sb["uuid"], at, 1)
        self.write(at, raw)
        return int.from_bytes(raw[4:8], "little")

    def map(self):
        runs = json.loads(tool("dump", self.path, "--map", "--json"))["map"]
        return [(r["lblk"], r["blocks"], r["kind"]) for r in runs]

    def spoil(self, page, side):
        block = bytearray(self.block(self.place(page, side)))
        block[100] ^= 1
        self.write(self.place(page, side), block)


@pytest.fixture(name="image")
def paged_image(tmp_path):
    return Image(tmp_path / "disk")


def test_pages_are_read(image):
    tool("check", image.path)
    assert image.map() == [(0, 3, "zero"), (3, 1, "mapped"), (4, 60, "zero"), (64, 1, "mapped"),
                           (65, 31, "zero")]
    assert "two for each page of the map" in tool("dump", image.path)


def test_unused_page_slots_are_not_read(image):
    """Check does not read the slots of pages that the checkpoint does not name."""
    for page in range(2 * REGIONS):
        for side in (0, 1):
            if page // 2 not in (0, 5) or side != page // 2 // 5:
                image.write(image.place(page, side), b"\xa5" * BLOCK)
    tool("check", image.path)


@pytest.mark.parametrize("page, side, first, last", [(1, 0, 0, 11), (11, 1, 60, 71),
                                                     (10, 1, 60, 71)])
def test_damaged_page_is_named_and_not_zeroed(image, page, side, first, last):
    """Check names a damaged page and its blocks. After a repair these blocks are lost, so that
    reads fail: they must not read as zeroes, as unwritten blocks do."""
    image.spoil(page, side)
    out = tool("check", image.path, rc=4)
    assert f"page {page} of the map, which locates blocks {first} to {last}, is damaged" \
        in out
    out = tool("repair", image.path, "--yes", rc=1)
    assert "This will be lost: 1 pages of the map" in out, out
    assert f"  {first} to {last}\n" in out, out
    assert "Reads and writes of them will fail" in out, out
    out = tool("check", image.path)
    assert f"the first is page {page} of the map" in out, out
    # Without the page of current slots check finds everything, but repair writes nothing.
    lost = page % 2
    assert [(a, n) for a, n, kind in image.map() if kind == "lost"] == \
        ([(first, last - first + 1)] if lost else [])
    assert sum(kind == "mapped" for _, _, kind in image.map()) == 2 - lost


@pytest.mark.parametrize("content, what", [(struct.pack("<I", 99), "is damaged"),
                                           (struct.pack("<I", 2), "which is not current")])
def test_invalid_pages_are_refused(image, content, what):
    image.write_page(1, 0, content + bytes(4032 - len(content)))
    assert what in tool("check", image.path, rc=4)


@pytest.mark.parametrize("at, what", [(480, "room for another number of pages"),
                                      (96, "paged presents three quarters")])
def test_invalid_superblock_is_refused(image, at, what):
    """Check and dump refuse a superblock with a wrong number of pages or a wrong size of the
    presented device before they read any page."""
    for block in (0, 1023):
        raw = bytearray(image.block(block))
        less = struct.unpack_from("<Q", raw, at)[0] - 2
        struct.pack_into("<Q", raw, at, less)
        image.write(block, ondisk.seal(raw))
    for command in ("check", "dump"):
        out = tool(command, image.path, rc=4)
        assert what in out and "page 0 of the map" not in out, out


@pytest.mark.parametrize("at, value", [(64, 0xff), (32, 2), (40, 1)])
def test_damaged_first_transaction_is_dropped_once(image, at, value):
    """The damage is where the journal begins again: in the records, in their number (which may be
    that of the next transaction), or in the predecessor."""
    image.transaction((0x100, 0, 1, 3, 1))
    raw = bytearray(image.block(image.sb["journal"][0]))
    raw[at] ^= value
    image.write(image.sb["journal"][0], raw)
    assert "transaction 1, the last one, is damaged" in tool("check", image.path, rc=4)
    assert "repaired and clean" in tool("repair", image.path, "--yes", rc=1)
    tool("check", image.path)


def test_journal_that_begins_before_the_first_transaction(image):
    """Transactions are numbered from 1, so no valid checkpoint names 0 as the start of its journal.
    It is unknown which transactions would follow, so repair refuses."""
    at = image.sb["ckpt"][1][0]
    crc = b"".join(image.block(at + i)[4:8] for i in range(2))
    crc = ondisk.crc32c(ondisk.crc32c(0, crc[:4]), crc[4:])
    image.write(at + 2, ondisk.footer(image.sb["uuid"], 2, at + 2, journal_seq=0, chunks=2,
                                      chunks_crc=crc))
    assert "checkpoint 2 was complete" in tool("check", image.path, rc=4)
    assert "it cannot be repaired" in tool("repair", image.path, "--yes", rc=4)


@pytest.mark.parametrize("how", ["whole", "torn", "both"])
def test_older_checkpoint_with_overwritten_pages(image, how):
    """The newest checkpoint is damaged, and a power cut ended the next one, which wrote to the
    places that the older one names; no journal records the pages it left there."""
    def page(*entries):
        return b"".join(struct.pack("<I", e) for e in entries).ljust(4032, b"\0")

    crc = image.transaction((0x100, 0, 1, 3, 1))
    image.write_page(0, 1, b"\2".ljust(4032, b"\0"), 3)
    image.write_page(1, 1, page(0, 0, 0, 2), 3)
    fills = b"".join(struct.pack("<II", 0, n) for n in (2, 0, 0, 0, 0, 1, 0, 0))
    places = bytearray(4)
    places[0] = 0b1010
    places[10 // 4] |= 2 << 10 % 4 * 2 | 2 << 11 % 4 * 2
    image.checkpoint([(0, fills), (2**63 + 1, bytes(places))], 3, journal_seq=2,
                     journal_pos=1, prev_crc=crc)
    tool("check", image.path)
    before = image.map()
    # Block 9 was written to slot 2, but that write was never committed.
    image.write_page(0, 0, b"\6".ljust(4032, b"\0"), 4)
    image.write_page(1, 0, page(0, 0, 0, 2, 0, 0, 0, 0, 0, 3), 4)
    tool("check", image.path)
    if how != "whole":
        image.spoil(1, 0)
    if how == "both":
        image.spoil(1, 1)
    at = image.sb["ckpt"][0][0]
    image.write(at, image.block(at)[:200] + b"\1" + image.block(at)[201:])
    out = tool("repair", image.path, "--yes", rc=1)
    assert ("This will be lost: 1 pages of the map" if how == "both" else
            "Nothing will be lost") in out, out
    tool("check", image.path)
    if how != "both":
        assert image.map() == before


def test_shingled_tracks_are_refused(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(bytes(BLOCK * 4096))
    out = tool("format", "paged", path, "--band", "64K", "--track", "32K", "--head-tracks", 2,
               "--force", rc=8)
    assert "put the metadata on a conventional device with --meta" in out, out
    meta = tmp_path / "meta"
    meta.write_bytes(bytes(BLOCK * 4096))
    tool("format", "paged", path, "--band", "64K", "--track", "32K", "--head-tracks", 2,
         "--meta", meta, "--force")


class Regions(Image):
    """Three regions of tiler, a band each, and a spare slot with a page of its old content."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(BLOCK * 1024))
        tool("format", "tiler", path, "--band", "64K", "--bands", 4, "--over-permille", 0)
        self.sb = ondisk.read_super(self.block(0))
        self.pages, blocks = self.sb["pages"]
        assert blocks == 2 * 4
        for page in (0, 3):
            self.write_page(page, 0, struct.pack("<HHH", 0, 0, 1).ljust(4032, b"\0"))
        self.checkpoint([(2**63 + 1, bytes([1 | 1 << 3 * 2]))])
        tool("check", path)

    def places(self):
        """The places of the pages in the newest checkpoint."""
        best = (0, None)
        for start, blocks in self.sb["ckpt"]:
            for at in range(start, start + blocks):
                block = self.block(at)
                seq = ondisk.HEADER.unpack_from(block)[4]
                if block[:4] == ondisk.CHUNK and struct.unpack_from("<Q", block, 40)[0] > 2**63:
                    best = max(best, (seq, block[56]))
        return [best[1] >> 2 * page & 3 for page in range(4)]


@pytest.mark.parametrize("pages", [(3,), (0,), (0, 3)])
def test_page_of_a_spare_slot_loses_no_block(tmp_path, pages):
    """The page of a spare slot can be treated as never written, and the slot can be used
    again."""
    image = Regions(tmp_path / "disk")
    for page in pages:
        image.spoil(page, 0)
    out = tool("check", image.path, rc=4)
    for page in pages:
        assert f"page {page} of the map" in out
    out = tool("repair", image.path, "--yes", rc=1)
    if 0 in pages:
        assert "This will be lost: 1 pages of the map" in out and "\n  0 to 15\n" in out, out
    else:
        assert "Nothing will be lost" in out, out
    if 3 in pages:
        assert "clear 1 damaged pages of the map, which locate no block" in out
    assert image.places() == [LOST if 0 in pages else 1, 0, 0, 0 if 3 in pages else 1]
    out = tool("check", image.path)
    assert ("gave up 1 pages" in out) == (0 in pages), out
    assert image.map() == ([(0, 16, "lost"), (16, 32, "zero")] if 0 in pages else
                           [(0, 2, "zero"), (2, 1, "mapped"), (3, 45, "zero")])


def test_earlier_lost_page_hides_no_other(tmp_path):
    """An earlier repair gave up the page of the spare slot. This one gives up that of region 0,
    because it cannot replay its record."""
    image = Regions(tmp_path / "disk")
    image.checkpoint([(2**63 + 1, bytes([1 | LOST << 3 * 2]))], 3)
    image.transaction((0x100, 1, 0, 0, 4))
    image.spoil(0, 0)
    out = tool("repair", image.path, "--yes", rc=1)
    assert "This will be lost: 1 pages of the map" in out and "\n  0 to 15\n" in out, out
    assert "clear 1 damaged pages of the map, which locate no block" in out, out
    assert image.places() == [LOST, 0, 0, 0]


@pytest.mark.parametrize("in_page", [True, False])
def test_two_blocks_at_one_place_are_found(tmp_path, in_page):
    """Check finds a map that gives two blocks one place: both would read the data of one of them,
    and no other check detects this. Repair cannot know which is right and changes nothing."""
    image = Regions(tmp_path / "disk")
    if in_page:
        image.write_page(0, 0, struct.pack("<HHH", 1, 0, 1).ljust(4032, b"\0"))
    else:
        # The region is being moved to the spare slot, which has no room for the rest.
        image.write_page(3, 0, struct.pack("<H", 16).ljust(4032, b"\0"))
        image.checkpoint([(0, struct.pack("<II", 0, 4).ljust(24, b"\0")),
                          (2**63 + 1, bytes([1 | 1 << 3 * 2]))], 3)
    out = tool("check", image.path, rc=4)
    assert "region 0 is where it cannot be" in out, out
    out = tool("repair", image.path, "--yes", rc=4)
    assert "unchanged" in out, out


def test_plan_announces_memory_of_pages(tmp_path):
    """The memory that create announces has 64 MiB of pages by default, or as many as the table asks
    for, and never more than the map has."""
    data, meta = tmp_path / "data", tmp_path / "meta"

    def ram(*more, mib=8 << 20):
        for path, size in ((data, mib << 20), (meta, max(mib >> 9, 64) << 20)):
            path.touch()
            subprocess.run(["truncate", "-s", str(size), path], check=True)
        said = tool("create", "tiler", "--dry-run", "--json", *more, "--meta", meta, "--band",
                    "128M", data, "big")
        return json.loads(said)["map_bytes"]

    assert 64 << 20 < ram() < 80 << 20
    assert ram() - ram("--set", "map_cache_kb=1024") > 62 << 20
    assert ram("--set", "region_cache=4096") > ram() + (40 << 20)
    assert ram(mib=1 << 10) < 4 << 20


def test_too_few_pages_in_ram_are_refused(tmp_path):
    """Format refuses a value that the target could not be opened with."""
    path = tmp_path / "disk"
    path.write_bytes(bytes(BLOCK * 1024))
    common = ("create", "tiler", "--band", "64K", "--bands", 4)
    out = tool(*common, "--set", "map_cache_kb=28", path, "few", rc=16)
    assert "map_cache_kb must be from 32 to 1048576 KiB" in out
    assert not path.read_bytes().strip(b"\0")
    tool(*common, "--dry-run", "--set", "map_cache_kb=32", path, "few")
