# SPDX-License-Identifier: GPL-2.0
"""The queue limits of a device, and whether programs above it work well with them: rotation,
read-ahead, discards of any shape, polled requests.  Cases of the suite `exact`, which runs on every
kernel."""

import json
import os
import random
import re
import struct

from guest import blk
from guest import dm
from guest.bench import Skip, expect, modprobe, run
from guest.blk import BLOCK, SECTORS
from guest.media import stats
from guest.targets import SHINGLE, Geometry, Stack, stack

WHERE = "/tmp/limits"


def queue(path, name):
    with open(blk.attribute(path, name), encoding="ascii") as handle:
        return int(handle.read())


def rotates(ctx, geo):
    """The device reports itself as rotational although the RAM below does not, after every table
    and after a suspend; `rotational off` changes that."""
    made = stack(ctx.pool, ctx.target, geo)
    path = made.open().path

    def says(device, what, when):
        got = queue(device, "rotational")
        expect(got == what, f"{when} queue/rotational is {got}")

    says(made.paths["data"], 0, "of the RAM below")
    says(path, 1, "by default")
    with dm.linear("above", [(path, 0, geo.logical * SECTORS)]) as above:
        says(above.path, 1, "of what stands above")
    made.device.reload(ctx.target.table(
        made.paths, geo.but(options=(("rotational", "off"),))))
    says(path, 0, "with rotational off")
    made.device.reload(ctx.target.table(made.paths, geo))
    says(path, 1, "by another table again")
    made.device.suspend()
    made.device.resume()
    says(path, 1, "after suspend and resume")
    made.close()


def reads_ahead(ctx, geo):
    """optimal_io_size, which mkfs uses, is 1 MiB (a track where writes are gathered), and
    read-ahead is at most twice that: it serves readers and must not grow with the band."""
    made = stack(ctx.pool, ctx.target, geo)
    path = made.open().path
    ahead, best = queue(path, "read_ahead_kb"), queue(path, "optimal_io_size")
    least = queue(path, "minimum_io_size")
    # The tests' interlaced tracks are smaller than any read-ahead.
    want = geo.band * BLOCK if ctx.target.gathers else 1 << 20
    expect(best == want, f"optimal_io_size is {best}, not {want}")
    expect(least == BLOCK, f"minimum_io_size is {least}")
    expect(128 <= ahead <= max(128, 2 * want >> 10), f"read_ahead_kb is {ahead}")
    made.close()


class Odd:
    """A striped device over 512-byte sectors.  Its optimal size and its boundary are no multiple of
    4096, like the 33553920 bytes of USB bridges."""
    CHUNK = 9       # sectors

    def __init__(self, blocks):
        modprobe("loop")
        sectors = blocks * SECTORS
        half = -(-sectors // 2 // self.CHUNK) * self.CHUNK
        with open("/dev/shm/odd", "wb") as handle:
            handle.truncate(2 * (half + 8) * 512)
        self.loop = run("losetup", "--find", "--show", "/dev/shm/odd")[1].strip()
        parts = f"{self.loop} 0 {self.loop} {half + 8}"
        self.stripes = dm.Device("stripes", [(0, 2 * half, "striped", f"2 {self.CHUNK} {parts}")])
        # The stripes may be some sectors longer.
        self.device = dm.linear("odd", [(self.stripes.path, 0, sectors)])
        self.path, self.blocks = self.device.path, blocks
        expect(queue(self.path, "optimal_io_size") == 2 * self.CHUNK * 512,
               f"optimal_io_size below is {queue(self.path, 'optimal_io_size')}")

    def close(self):
        dm.remove_all()
        run("losetup", "--detach", self.loop, ok=None)
        os.unlink("/dev/shm/odd")


def aligned(device):
    """Return both alignment offsets of a device, in bytes; -1 if it is misaligned."""
    out = []
    for name in "alignment_offset", "discard_alignment":
        with open(os.path.dirname(os.path.dirname(blk.attribute(device, name))) + f"/{name}",
                  encoding="ascii") as handle:
            out.append(int(handle.read()))
    return out


def fits(ctx, geo):
    """Over a device with preferences that are no multiples of 4096 nothing is misaligned: neither
    the layer, nor a platter, nor the layer over a platter."""
    sizes = ctx.target.sizes(geo)
    # Their physical blocks have 4096 bytes, those of the data device 512.
    more = {name: ctx.pool.slice(sizes[name], name) for name in ("cache", "meta") if sizes[name]}
    odd = Odd(sizes["data"])
    try:
        expect(aligned(odd.path) == [0, 0], f"below: {aligned(odd.path)}")
        ctx.kernel()
        with dm.Device("plate", [(0, odd.blocks * SECTORS, "platter",
                                  f"{odd.path} 0 generic 1 discard 4 timing none media cmr")]
                       ) as plate:
            expect(aligned(plate.path) == [0, 0], f"platter: {aligned(plate.path)}")
            for path in odd.path, plate.path:
                paths = {"data": path, **{name: device.path for name, device in more.items()}}
                made = Stack(ctx.target, geo, paths, [odd.device, *more.values()])
                made.format()
                device = made.open()
                expect(aligned(device.path) == [0, 0], f"over {path}: {aligned(device.path)}")
                made.close()
        # Device mapper also compares the devices below with each other before it asks the target,
        # and logs mismatches by their names.
        said = [line for line in ctx.kernel() if "alignment" in line and "start sect" in line]
        expect(not said, f"{said}")
    finally:
        odd.close()


def misfits(ctx, geo):
    """Over a device that begins in the middle of a physical block, the layer and a platter report
    that they are misaligned (alignment_offset -1), instead of hiding it."""
    sizes = ctx.target.sizes(geo)
    more = {name: ctx.pool.slice(sizes[name], name) for name in ("cache", "meta") if sizes[name]}
    with dm.linear("shifted", [(ctx.pool.path, (1 << 20) + 1, sizes["data"] * SECTORS)]) as below:
        blk_size = queue(below.path, "physical_block_size"), queue(below.path, "logical_block_size")
        if blk_size != (BLOCK, 512):
            raise Skip(f"the RAM disk has blocks of {blk_size}")
        with dm.Device("plate", [(0, sizes["data"] * SECTORS, "platter",
                                  f"{below.path} 0 generic 0 4 timing none media cmr")]) as plate:
            expect(aligned(plate.path)[0] == -1, f"platter: {aligned(plate.path)}")
        paths = {"data": below.path, **{name: device.path for name, device in more.items()}}
        made = Stack(ctx.target, geo, paths, [below, *more.values()])
        made.format()
        expect(aligned(made.open().path)[0] == -1, f"the layer: {aligned(made.device.path)}")
        made.close()


def _pieces(rng, start, end):
    """Cut [start, end) into pieces, in random order."""
    cuts = sorted({start, end, *(rng.randrange(start, end)
                                 for _ in range(rng.randrange(4)))})
    out = list(zip(cuts, cuts[1:]))
    rng.shuffle(out)
    return out


def in_pieces(ctx, geo):
    """Discards of parts of a band, in any order, add up: when all parts are discarded, the band
    reads as zeroes.  If the host writes a block between two parts, a target that can only discard
    whole bands keeps the band, and the new block is there in any case."""
    made = stack(ctx.pool, ctx.target, geo)
    device, rng = made.open(), random.Random(5)

    with made.blk() as dev:
        for turn in ("forgotten", "kept", "forgotten"):
            for b in range(geo.logical):
                dev.write(b, bytes([65 + b % 26]) * BLOCK)
            device.message("clean")
            dev.flush()
            before, cut, new = stats(device)["discard_blocks"], [], set()
            for band in range(geo.data):
                start = band * geo.band
                pieces = _pieces(rng, start, start + geo.band)
                if len(pieces) > 1:
                    cut += range(start, start + geo.band)
                for i, (a, b) in enumerate(pieces):
                    dev.discard(a, b - a)
                    if turn == "kept" and not i:
                        dev.write(a, b"!" * BLOCK)
                        new.add(a)
                if turn == "kept":
                    expect(dev.read(pieces[0][0]) == b"!" * BLOCK,
                           f"what was written in band {band} is gone")
            got = stats(device)["discard_blocks"] - before
            zero = {b for b in range(geo.logical) if not dev.read(b).strip(b"\0")}
            if turn == "forgotten":
                expect(got == geo.logical, f"{got} of {geo.logical} blocks forgotten")
                expect(len(zero) == geo.logical, "some were forgotten and can be read")
            elif ctx.target.forgets_blocks:
                expect(zero == set(range(geo.logical)) - new, f"{len(zero)} can be read as zeroes")
            else:
                expect(cut and not zero & set(cut), "others of a band are forgotten")
    made.verify()
    made.close()
    made.check()


def cut_by_the_kernel(ctx, geo):
    """The kernel splits a discard of more than 4 GiB, and not at the bounds of the 30 MiB bands:
    the target still discards all bands.  The medium stores nothing, so it can be that large."""
    sizes = ctx.target.sizes(geo)
    try:
        none = dm.Device("none", [(0, sizes["data"] * SECTORS, "platter",
                                   "none 0 generic 0 4 timing none media cmr")])
    except OSError as error:
        raise Skip(f"no platter: {error}") from error
    under = {name: ctx.pool.slice(sizes[name], name) for name in ("cache", "meta")
             if sizes[name]}
    paths = {name: device.path for name, device in under.items()}
    made = Stack(ctx.target, geo, {"data": none.path, **paths}, [none, *under.values()])
    made.format()
    device = made.open()
    cut = (1 << 32) // BLOCK // geo.band
    with made.blk() as dev:
        for band in (1, 2, cut - 1, cut, cut + 1, cut + 2, geo.data - 2):
            dev.write(band * geo.band + 5, b"x" * BLOCK)
        dev.flush()
        device.message("clean")
        dev.discard(geo.band, (geo.data - 2) * geo.band)
    got, want = stats(device)["discard_blocks"], (geo.data - 2) * geo.band
    expect(got == want, f"{got} blocks forgotten of {want}")
    made.verify()
    made.close()
    made.check()


def _free(path):
    """Return the blocks that ext4 does not use."""
    _, text = run("dumpe2fs", path)
    out = set()
    for line in re.findall(r"^  Free blocks: (.*)$", text, re.M):
        for part in filter(None, line.split(", ")):
            first, _, last = part.partition("-")
            out.update(range(int(first), int(last or first) + 1))
    return out


def trimmed(ctx, geo):
    """fstrim of ext4 discards by block groups, and some bands lie in two groups, so that their
    discard comes in two pieces.  Small groups make this as frequent as on a device sixteen times as
    large."""
    if not modprobe("ext4"):
        raise Skip("no ext4 in this kernel")
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()
    run("mkfs.ext4", "-q", "-F", "-b", BLOCK, "-g", 2048, "-m", 0, "-O",
        "^has_journal,^resize_inode,sparse_super2", "-E",
        "nodiscard,lazy_itable_init=0,num_backup_sb=0", device.path)
    os.makedirs(WHERE, exist_ok=True)
    run("mount", device.path, WHERE)
    try:
        size = geo.logical * BLOCK * 4 // 5
        with open(f"{WHERE}/file", "wb") as handle:
            os.posix_fallocate(handle.fileno(), 0, size)
            for at in range(0, size, 64 * BLOCK):
                os.pwrite(handle.fileno(), b"f" * BLOCK, at)
            os.fsync(handle.fileno())
        device.message("clean")
        with made.blk() as dev:
            before = dev.read(0, geo.logical)
        os.unlink(f"{WHERE}/file")
        run("sync")
        run("fstrim", WHERE)
    finally:
        run("umount", WHERE)
    free = _free(device.path)
    with made.blk() as dev:
        after = dev.read(0, geo.logical)
    bands = [b for b in range(geo.data)
             if all(b * geo.band + i in free for i in range(geo.band))]
    lay = [b for b in bands if b"f" * BLOCK in _band(before, b, geo)]
    still = [b for b in bands if _band(after, b, geo).strip(b"\0")]
    forgotten = stats(device)["discard_blocks"]
    ctx.note(f"{len(bands)} of {geo.data} bands free, {len(still)} not forgotten")
    expect(len(lay) >= geo.data // 2, f"of the file's bands {len(lay)} were free")
    expect(not still, f"{len(still)} of {len(bands)} free bands not forgotten: {still}")
    expect(forgotten >= len(bands) * geo.band, f"{forgotten} blocks forgotten")
    made.verify()
    made.close()
    made.check()


def _band(data, band, geo):
    return data[band * geo.band * BLOCK:(band + 1) * geo.band * BLOCK]


def polled(ctx, geo):
    """Over a medium that polls for completions: requests of a disk, which does not support
    polling, must not depend on it.  Kernels refuse polled requests, or do not poll."""
    if not os.path.exists("/usr/bin/fio"):
        raise Skip("no fio")
    made = stack(ctx.pool, ctx.target, geo)
    path = made.open().path
    expect(queue(made.paths["data"], "io_poll"), "the medium cannot be polled")
    argv = ["fio", "--name=polled", f"--filename={path}", "--ioengine=io_uring",
            "--direct=1", "--iodepth=8", "--rw=randrw", "--bssplit=4k/50:64k/30:256k/20",
            "--verify=crc32c", "--verify_fatal=1", "--serialize_overlap=1", "--size=100%",
            "--verify_state_save=0", "--clocksource=clock_gettime"]
    if ctx.target.persistent:
        expect(not queue(path, "io_poll"), "a disk that moves its head says that it can be polled")
        # One at a time, because polling for one request could reap others that nothing polls for.
        status, said = run(*argv, "--hipri=1", "--iodepth=1", cwd="/tmp", ok=None)
        expect(not status or "Operation not supported" in said, said[-1500:])
    run(*argv, cwd="/tmp")
    made.verify()
    made.close()
    made.check()


def at_full_size(ctx, drive, sectors):
    """A named shingled drive at its full size, with hundreds of track lengths: bands in every zone
    are written, cleaned and read back, and no destroyed block is read."""
    modprobe("loop")
    with open("/dev/shm/drive", "wb") as handle:
        handle.truncate(sectors * 512)
    _, loop = run("losetup", "--find", "--show", "/dev/shm/drive")
    rng = random.Random(7)
    try:
        with dm.Device("drive", [(0, sectors, "platter", f"{loop.strip()} 0 {drive} 0 4 "
                                  "timing none damage poison")]) as data:
            run(SHINGLE, "format", ctx.target.name, "--band", "8M", "--cache-size", "20b",
                data.path)
            run(SHINGLE, "open", "--no-udev", data.path, "over")
            blocks = blk.size("/dev/mapper/over")
            expect(blocks * BLOCK > 0.7 * sectors * 512, f"it has {blocks} blocks")
            places = [at + rng.randrange(blocks // 6) for at in range(0, blocks, blocks // 5)][:5]
            written = {}
            with blk.opened("/dev/mapper/over") as over:
                for at in places:
                    for far in 0, 1, 300, 1500:
                        if at + far < blocks:
                            written[at + far] = os.urandom(BLOCK)
                            over.write(at + far, written[at + far])
                over.flush()
                run("dmsetup", "message", "over", 0, "clean")
                for at, what in written.items():
                    expect(over.read(at) == what, f"block {at} is not what was written")
            run("dmsetup", "message", "over", 0, "verify")
            run(SHINGLE, "remove", "--no-udev", "over")
            # Before the check, which reads the journal ahead of its end.
            seen = stats(data)
            run(SHINGLE, "check", data.path)
            expect(seen["destroyed_blocks"] and not seen["destroyed_reads"], f"{seen}")
            ctx.note(f"{blocks} blocks, {seen['destroyed_blocks']} destroyed, "
                     f"{seen['destroyed_reads']} of them asked for")
    finally:
        dm.remove_all()
        run("losetup", "--detach", loop.strip(), ok=None)
        os.unlink("/dev/shm/drive")


def old_partitions(ctx):
    """The kernel no longer shows partitions that --force has overwritten."""
    modprobe("loop")
    with open("/dev/shm/disk", "wb") as disk:
        disk.truncate(64 << 20)
        disk.seek(446)
        disk.write(struct.pack("<8B2I", 0, 0, 0, 0, 0x83, 0, 0, 0, 2048, 65536))
        disk.seek(510)
        disk.write(b"\x55\xaa")
    try:
        _, loop = run("losetup", "--find", "--show", "--partscan", "/dev/shm/disk")
        name = os.path.basename(loop.strip())
        shown = f"/sys/block/{name}/{name}p1"
        if not os.path.exists(shown):
            raise Skip("no partitions of loop devices in this kernel")
        run(SHINGLE, "format", "--force", "--track" if ctx.target.gathers else "--band", "256K",
            ctx.target.name, loop.strip())
        expect(not os.path.exists(shown), f"{shown} is still there")
    finally:
        run("losetup", "--detach", loop.strip(), ok=None)
        os.unlink("/dev/shm/disk")


def made_by_the_tool(ctx):
    """The tool makes a medium and a layer over it.  After a power cut its status asks for a check,
    and the check finds the device clean: only a mark on the medium would demand a repair."""
    def told(*words):
        return json.loads(run(SHINGLE, *words, "--json")[1])

    modprobe("loop")
    with open("/dev/shm/disk", "wb") as disk:
        disk.truncate(64 << 20)
    _, loop = run("losetup", "--find", "--show", "/dev/shm/disk")
    try:
        run(SHINGLE, "create", "platter", "--no-udev", "--set", "timing=none", loop.strip(),
            "medium")
        run(SHINGLE, "create", ctx.target.name, "--no-udev", "--band", "256K",
            "/dev/mapper/medium", "drive")
        have = {d["name"]: (d["target"], d["mode"], d["below"]) for d in told("list")}
        expect(have == {"medium": ("platter", "rw", [loop.strip()]),
                        "drive": (ctx.target.name, "rw", ["/dev/mapper/medium"])}, f"{have}")
        before = told("status", "medium")
        expect(before["media"] == "smr" and before["damage"] == "poison" and before["writes"],
               f"{before}")
        run("dmsetup", "message", "medium", "0", "powercut", "20")
        status, _ = run("dd", "if=/dev/zero", "of=/dev/mapper/drive", "bs=4k", "count=400",
                        "oflag=direct,sync", ok=None)
        expect(status, "all writes have come through the power cut")
        expect(told("status", "medium")["mode"] == "fail", "the medium has power")
        after, said = told("status", "drive"), run(SHINGLE, "status", "drive")[1]
        expect(after["mode"] == "fail" and after["needs_check"], f"{after}")
        expect("run 'shingle check', which reports whether it needs a repair" in said, said)
        run(SHINGLE, "remove", "--no-udev", "drive", ok=None)
        run("dmsetup", "message", "medium", "0", "powercut", "off")
        status, said = run(SHINGLE, "check", "/dev/mapper/medium", ok=None)
        expect(status == 0 and ": clean; " in said, f"check: {status} {said}")
        run(SHINGLE, "open", "--no-udev", "/dev/mapper/medium", "drive")
        expect(told("status", "drive")["mode"] == "rw", "it is not read-write again")
        # The first FLUSH reports the blocks that the power cut has cost.
        run("dd", "if=/dev/zero", "of=/dev/mapper/drive", "bs=4k", "count=1", "conv=fsync", ok=None)
        for name in ("drive", "medium"):
            run(SHINGLE, "remove", "--no-udev", name)
        expect(not told("list"), "a device is left")
    finally:
        dm.remove_all()
        run("losetup", "--detach", loop.strip(), ok=None)
        os.unlink("/dev/shm/disk")


def cases(target):
    """Return [(case, function)]."""
    geo = Geometry("limits", band=7, data=4, cache=2, meta="separate")
    poll = Geometry("polled", band=37, data=40, cache=5, ckpt=32, journal=32,
                    medium="polled")
    out = [("polled requests", lambda ctx: polled(ctx, poll))]
    if not target.persistent:
        return out
    few = (("buffer_tracks", 4),) if target.gathers else ()
    huge = Geometry("huge", band=1920 if target.gathers else 7680,
                    data=1200 if target.gathers else 300, cache=2, meta="separate",
                    ckpt=256, journal=64, options=few)
    out += [("it reports rotation", lambda ctx: rotates(ctx, geo)),
            ("over a device with odd preferences", lambda ctx: fits(ctx, geo)),
            ("over a device that is misaligned", lambda ctx: misfits(ctx, geo)),
            ("what is read ahead", lambda ctx: reads_ahead(ctx, geo)),
            ("discards in pieces", lambda ctx: in_pieces(ctx, geo)),
            ("partitions that were there", old_partitions),
            ("a discard of 9 GiB", lambda ctx: cut_by_the_kernel(ctx, huge))]
    if target.name == "stl-set":
        out.append(("a medium that the tool makes, and a power cut", made_by_the_tool))
        out += [(f"{drive} at full size", lambda ctx, d=drive, s=sectors: at_full_size(ctx, d, s))
                for drive, sectors in (("st5000as0011", 9767541168),
                                       ("st8000as0002", 15628053168))]
    # Bands of 20, 25, 30 and 40 MiB (those of the presets, and one more), and of 256 MiB, more than
    # a group.
    for band in (320, 400, 480, 640, 4096):
        cut = Geometry("ext4", band=band, data=max(5, 8192 // band), cache=2,
                       meta="separate", ckpt=64, journal=64, options=few)
        out.append((f"fstrim of ext4, bands of {band >> 4} MiB by 16",
                    lambda ctx, g=cut: trimmed(ctx, g)))
    return out
