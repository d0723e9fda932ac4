# SPDX-License-Identifier: GPL-2.0
"""The benchmark's part in the guest: set the targets up, measure them, print JSON."""

import argparse
import contextlib
import gc
import json
import mmap
import os
import random
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

from guest import blk, dm, ondisk

from experiments.in_guest import dmz_format

MIB = 1 << 20
SECTORS = 2048          # in one MiB
SIZE_MIB = 384          # of each device under test
SPAN_MIB = 256          # the part that is read and written
DITHER_MIB = 2


def sh(*argv, stdin=None, check=True):
    done = subprocess.run(argv, input=stdin, text=True, capture_output=True)
    if check and done.returncode:
        sys.exit(f"{' '.join(argv)} failed: {done.stderr.strip()}")
    return done.stdout


def progress(text):
    print(text, file=sys.stderr, flush=True)


class Ram:
    """Cut devices from one RAM disk, so that all have the same kind of memory.  Each has 1/@part of
    its size, except devices for metadata."""

    def __init__(self, mib, part=1):
        mib = mib // part + (part > 1) * 256
        sh("modprobe", "brd", "rd_nr=1", f"rd_size={mib * 1024}")
        self.part = part
        self.next = 0
        progress(f"touching {mib} MiB of RAM")
        sh("dd", "if=/dev/zero", "of=/dev/ram0", f"bs={MIB}", check=False)

    def cut(self, name, mib, whole=False):
        mib = mib if whole else mib // self.part
        dm.create(name, f"0 {mib * SECTORS} linear /dev/ram0 {self.next}")
        self.next += mib * SECTORS
        return f"/dev/mapper/{name}"


def bare(_ram):
    """The RAM disk itself, where dm-linear lies."""
    sh("ln", "-s", "/dev/ram0", "/dev/mapper/bare")


def linear(ram, name="linear"):
    ram.cut(name, SIZE_MIB)


def stl_set(ram, name="stl-set"):
    data, meta = ram.cut(f"{name}-data", 1400), ram.cut(f"{name}-meta", 72, True)
    sh("shingle", "create", "stl-set", "--meta", meta, "--band", "4M",
       "--cache-size", "45%", "--journal", "32M", data, name)


def stl_full(ram, name="stl-full"):
    """One zone with logs that hold a round of random writes; idle cleaning is off."""
    data, meta = ram.cut(f"{name}-data", 720), ram.cut(f"{name}-meta", 72, True)
    sh("shingle", "create", "stl-full", "--meta", meta, "--band", "4M", "--zone-bands",
       str(180 // ram.part), "--provision", str(72 // ram.part), "--log-bands",
       str(66 // ram.part), "--journal", "32M", "--set", "cleaning=lazy",
       data, name)


def stl_log(ram, name="stl-log"):
    """A log with a reserve that holds a round of writes; idle cleaning is off."""
    data, meta = ram.cut(f"{name}-data", 720), ram.cut(f"{name}-meta", 72, True)
    sh("shingle", "create", "stl-log", "--meta", meta, "--band", "4M", "--reserve",
       str(80 // ram.part), "--journal", "32M", "--set", "idle_ms=0", data, name)


def imr(ram, name="imr"):
    """All requests go to one level, which lies on tops."""
    data = ram.cut(f"{name}-data", 2 * SIZE_MIB + 64)
    meta = ram.cut(f"{name}-meta", 72, True)
    sh("shingle", "create", "imr", "--meta", meta, "--track", "2M", "--set", "largest=1",
       data, name)


def tiler(ram, name="tiler"):
    """Each region has as much spare room as it presents, and the whole map is in memory."""
    data, meta = ram.cut(f"{name}-data", 920), ram.cut(f"{name}-meta", 72, True)
    sh("shingle", "create", "tiler", "--meta", meta, "--track", "2M", "--band",
       f"{128 // ram.part}M", "--over-permille", "500", "--journal", "32M", data, name)


def dualbuffer(ram, name="dualbuffer", m_percent=80, track_blocks=512):
    """One cache with a buffer that holds a round of random writes."""
    data, meta = ram.cut(f"{name}-data", 1000), ram.cut(f"{name}-meta", 72, True)
    sh("shingle", "create", "dualbuffer", "--meta", meta, "--band", "4M", "--cache-size",
       f"{512 // ram.part}M", "--m-percent", str(m_percent), "--cache-track", str(track_blocks),
       "--journal", "32M", data, name)


def rmwf(ram, name="rmwf"):
    """A full disk: a random write goes to flash if the head would destroy other data, which is so
    for seven of eight.  Flash has room for a round of them.  Flash blocks are 4 MiB, about as large
    as those of real flash.  Sequential writes go to an empty device and there to their native
    places."""
    data, flash = ram.cut(f"{name}-data", 480), ram.cut(f"{name}-flash", 440)
    meta = ram.cut(f"{name}-meta", 72, True)
    sh("shingle", "create", "rmwf", "--cache", flash, "--meta", meta, "--track",
       f"{2048 // ram.part}K", "--head-tracks", "3", "--band", f"{32 // ram.part}M",
       "--cache-size", f"{400 // ram.part}M", "--page-blocks", str(1024 // ram.part),
       "--journal", "32M", data, name)


def writecache(ram):
    origin, cache = ram.cut("wc-origin", SIZE_MIB), ram.cut("wc-cache", 640)
    dm.create("writecache", f"0 {SIZE_MIB // ram.part * SECTORS} writecache s {origin} {cache} 4096 0")


def thin(ram):
    mib = SIZE_MIB // ram.part
    data, meta = ram.cut("thin-data", SIZE_MIB + 64), ram.cut("thin-meta", 16, True)
    sh("dd", "if=/dev/zero", f"of={meta}", "bs=4k", "count=1")
    dm.create("pool", f"0 {(SIZE_MIB + 64) // ram.part * SECTORS} thin-pool {meta} {data} 128 0 "
       "1 skip_block_zeroing")
    dm.Device.found("pool").message("create_thin 0")
    dm.create("thin", f"0 {mib * SECTORS} thin /dev/mapper/pool 0")


def zoned(_ram):
    """dm-zoned over null_blk with memory, because dm-zoned needs zones.  Half of the zones are
    conventional, so that random writes find room without reclaim."""
    sh("modprobe", "null_blk", "nr_devices=0")
    base = Path("/sys/kernel/config/nullb/nullb0")
    base.mkdir()
    zone_mib, zones = 16, 64
    for name, value in (("size", zones * zone_mib), ("blocksize", 4096), ("memory_backed", 1),
                        ("zoned", 1), ("zone_size", zone_mib),
                        ("zone_nr_conv", zones // 2), ("completion_nsec", 0),
                        ("irqmode", 0), ("queue_mode", 0), ("power", 1)):
        (base / name).write_text(str(value))
    length = dmz_format.format_device("/dev/nullb0", zones, zone_mib * 256)
    dm.create("zoned", f"0 {length} zoned /dev/nullb0")


TARGETS = {"linear": linear, "stl-set": stl_set, "stl-full": stl_full, "stl-log": stl_log,
           "imr": imr, "tiler": tiler, "dualbuffer": dualbuffer, "rmwf": rmwf,
           "writecache": writecache, "thin": thin, "zoned": zoned}
OURS = ("stl-set", "stl-full", "stl-log", "imr", "tiler", "dualbuffer", "rmwf")
CLEANED = ("stl-set", "stl-full", "stl-log", "tiler", "dualbuffer", "rmwf")
TWIN = "-twin"          # suffix in the name of a target's second device


def kind_of(device):
    """Return the target of a device; the device's name begins with the target's."""
    return next((t for t in TARGETS if device == t or device.startswith(t + "-")), device)


# name: fio's rw, block size, MiB moved in one pass, passes in one round.
#
# Writes go to 64 bands.  stl-set has a cache band as large as each of them, stl-full 66 log bands
# for all, stl-log a reserve of 80 bands, so less than 256 MiB finds room without cleaning.  A sequential pass takes about 25 ms
# and fio counts whole milliseconds, an error of 4 %.  So there are several passes, each DITHER_MIB
# shorter than the one before, which spreads the rounding.
#
# All writes to imr lie on tops; tiler's regions begin each pass half full; rmwf is full for random
# writes, and empty before sequential ones.
WORKLOADS = {
    "random read 4K": ("randread", "4k", 192, 1),
    "random write 4K": ("randwrite", "4k", 192, 1),
    "sequential read 1M": ("read", "1m", 4096, 1),
    "sequential write 1M": ("write", "1m", 240, 6),
}


def fill(target, part=1):
    sh("dd", "if=/dev/zero", f"of=/dev/mapper/{target}", f"bs={MIB}", "oflag=direct",
       f"count={SPAN_MIB // part}", check=False)


def settle(target, part=1):
    """Make room for random writes again, and leave nothing of them in memory."""
    kind = kind_of(target)
    if kind in ("tiler", "rmwf"):       # these clean what is full
        dm.Device.found(target).message("reset")
        fill(target, part)
        dm.Device.found(target).message("checkpoint")
    elif kind in CLEANED:
        dm.Device.found(target).message("clean")
    elif kind == "imr":
        dm.Device.found(target).message("commit")
    elif kind == "writecache":
        dm.Device.found(target).message("flush")
    elif kind == "zoned":
        with contextlib.suppress(OSError):
            dm.Device.found(target).message("reclaim")
    sh("sync")


def measure(target, rw, bs, mib, beside=None):
    """Return bytes moved and milliseconds of one job, or of two, with the second on @beside."""
    jobs = [["--name=" + name, f"--filename=/dev/mapper/{name}"]
            for name in [target] + [beside] * bool(beside)]
    out = sh("fio", "--direct=1", "--ioengine=libaio", "--iodepth=32", "--iodepth_batch=32",
             "--iodepth_batch_complete_min=32", "--gtod_reduce=1", f"--rw={rw}", f"--bs={bs}",
             f"--size={SPAN_MIB}m", f"--io_size={mib}m", "--norandommap", "--randrepeat=0",
             "--clocksource=clock_gettime", "--group_reporting", "--output-format=json",
             *sum(jobs, []))
    job = json.loads(out)["jobs"][0]
    side = job["write" if "write" in rw else "read"]
    return side["io_bytes"], side["runtime"]


TRACING = Path("/sys/kernel/tracing")
REMAP = TRACING / "events/block/block_bio_remap/enable"
REMAPPED = re.compile(r"block_bio_remap: 1,0 (\w+) (\d+) \+ (\d+) <- \((\d+,\d+)\)")


def emptied(target, rw):
    """Empty rmwf before a sequential write."""
    if target == "rmwf" and rw == "write":
        dm.Device.found(target).message("reset")


def where(target, rw, bs, mib):
    """Return [first sector, sectors] of the RAM disk that one pass over a target touches, in the
    order of access, as the block layer's tracepoint reports it."""
    if not REMAP.exists():
        sh("mount", "-t", "tracefs", "tracefs", str(TRACING))
    (TRACING / "buffer_size_kb").write_text("16384")
    (TRACING / "trace").write_text("")
    emptied(target, rw)
    REMAP.write_text("1")
    done, _ = measure(target, rw, bs, mib)
    REMAP.write_text("0")
    numbers = os.stat(f"/dev/mapper/{target}-data").st_rdev
    dev = f"{os.major(numbers)},{os.minor(numbers)}"
    runs = []
    for op, sector, n, by in REMAPPED.findall((TRACING / "trace").read_text()):
        if by != dev or op[0] != rw[0].upper():
            continue
        sector, n = int(sector), int(n)
        if runs and sum(runs[-1]) == sector:
            runs[-1][1] += n
        else:
            runs.append([sector, n])
    if 512 * sum(n for _, n in runs) != done:
        sys.exit(f"{target} should move {done} bytes in sequence and moved "
                 f"{512 * sum(n for _, n in runs)}")
    return runs


def control(target, workload, runs):
    """Create the control for sequential workloads: dm-linear over the memory that the target uses,
    with a table in the target's order of access, @runs.  A target with a dynamic map uses other
    places in later rounds."""
    rw = WORKLOADS[workload][0]
    at, table = 0, []
    # A pass of writes ends before the last MiB, but fio needs the device to have it.
    for first, n in runs + runs:
        n = min(n, SPAN_MIB * SECTORS - at)
        if n:
            table.append(f"{at} {n} linear /dev/ram0 {first}")
        at += n
    name = f"{target}-{rw}"
    dm.create(name, "\n".join(table))
    return name


def linear_there(target, workload, runs):
    """Create dm-linear where the target is, from the first place it uses, because memory is not
    equally fast everywhere.  The target's data there are overwritten; its map is elsewhere."""
    _, size, _, place = dm.Device.found(f"{target}-data").table()[0]
    start = int(place.split()[1])
    first = min(min(run[0] for run in runs), start + size - SIZE_MIB * SECTORS)
    name = f"{target}-linear-{WORKLOADS[workload][0]}"
    dm.create(name, f"0 {SIZE_MIB * SECTORS} linear /dev/ram0 {first}")
    return name


def in_its_memory(target, workload):
    """Return the places of a target's sequential access, and dm-linear and a control in its
    memory."""
    rw, bs, mib, _ = WORKLOADS[workload]
    runs = where(target, rw, bs, min(mib, SPAN_MIB))
    settle(target)
    return runs, [linear_there(target, workload, runs), control(target, workload, runs)]


def companions(target):
    """Return {workload: devices in the target's memory that are measured with it}: dm-linear, and
    for sequential workloads a control."""
    found = {}
    for direction in ("read", "write"):
        workload = f"sequential {direction} 1M"
        _, found[workload] = in_its_memory(target, workload)
        found[f"random {direction} 4K"] = found[workload][:1]
    return found


def straight(target, rw, before, after, moved):
    """Exit unless all writes took the path that the figure is about: for imr to tops, for
    sequential writes of rmwf to native places."""
    key = {("imr", "write"): "imr_direct_blocks", ("imr", "randwrite"): "imr_direct_blocks",
           ("rmwf", "write"): "direct_blocks"}.get((target, rw))
    if not key:
        return
    blocks = after[key] - before[key]
    if blocks * 4096 != moved:
        sys.exit(f"{target} counted {blocks} {key}, not {moved // 4096}")


def middle(passes):
    """Return bytes per second over [(bytes, milliseconds)] without the fastest and the slowest
    quarter, rounded down: of six passes the middle four.  A pass that other work on the machine
    disturbed says nothing about a device."""
    order = sorted(passes, key=lambda done: done[0] / (done[1] or 1))
    cut = len(order) // 4
    moved, ms = map(sum, zip(*order[cut:len(order) - cut]))
    return moved / (ms or 1) * 1000


def sample(target, rw, bs, mib, passes, others=()):
    """Return bytes per second of the target and of @others in its memory, and the cleaning steps
    meanwhile, which should be 0."""
    seen, cleaned, kind = [[] for _ in (target, *others)], 0, kind_of(target)
    if kind == "stl-log" and rw == "read":
        # A log is read as it was written, and cleaning puts nothing in order.
        measure(target, "write", bs, mib)
        settle(target)
    for short in range(passes):
        for i, path in enumerate((target, *others)):
            emptied(path, rw)
            before = stats(target) if kind in OURS else {}
            done = measure(path, rw, bs, mib - DITHER_MIB * short)
            seen[i].append(done)
            after = stats(target) if kind in OURS else {}
            if kind in CLEANED:
                cleaned += after["steps"] - before["steps"]
            if path == target:
                straight(target, rw, before, after, done[0])
            if i and rw == "write":
                # Every device begins after the same work: a pass of the target, and cleaning.
                emptied(target, rw)
                measure(target, rw, bs, mib)
            if rw == "write" or (rw == "randwrite" and not i):
                settle(target)
    return [middle(passes) for passes in seen], cleaned


def stats(target):
    out = dm.Device.found(target).message("stats")
    return {k: int(v) for k, v in (line.split() for line in out.splitlines())
            if v.isdigit()}


def set_up(name, create, *how):
    """Create, fill and settle a device under test."""
    progress(f"setting up {name}")
    create(*how)
    fill(name)
    settle(name)


def turned(things, boot):
    """Rotate the order by boot, so that each device lies in another place of the RAM disk.
    dm-linear over the blocks of a target reached 0.97 to 1.03 of dm-linear beside them, depending
    on the place; eight boots agreed on it within 0.01."""
    things = list(things)
    first = boot % len(things)
    return things[first:] + things[:first]


def speed(rounds, boot):
    ram = Ram(9000)
    for name in turned(TARGETS, boot):
        set_up(name, TARGETS[name], ram)
    others = {t: companions(t) for t in OURS}
    results, linears, controls = ({w: {} for w in WORKLOADS} for _ in range(3))
    cleaned = {t: 0 for t in CLEANED}
    for i in range(rounds):
        progress(f"round {i + 1} of {rounds}")
        for workload, what in WORKLOADS.items():
            for target in TARGETS:
                there = others.get(target, {}).get(workload, ())
                rates, steps_taken = sample(target, *what, there)
                for rate, table in zip(rates, (results, linears, controls)):
                    table[workload].setdefault(target, []).append(rate)
                if target in CLEANED:
                    cleaned[target] += steps_taken
    return {"bytes_per_second": results, "linear_bytes_per_second": linears,
            "control_bytes_per_second": controls,
            "cleaning_steps_while_measuring": cleaned}


# (M in percent, blocks of a track).  New data take a part of each track of dualbuffer's cache: M
# less what FB_2 has, so at 80 % three fifths of it; a larger M or a longer track gives longer runs.
SHAPES = ((80, 512), (95, 512), (80, 2048), (95, 2048))


def pieces(rounds, boot):
    """Measure dualbuffer's sequential writes for each of SHAPES: bytes per second beside dm-linear
    and the control there, the number of pieces per MiB, and the place in the RAM disk."""
    ram, workload = Ram(4600), "sequential write 1M"
    rows, others = {}, {}
    for place, shape in enumerate(turned(SHAPES, boot)):
        name = "-".join(("dualbuffer", *map(str, shape)))
        set_up(name, dualbuffer, ram, name, *shape)
        runs, others[name] = in_its_memory(name, workload)
        rows[name] = [place, len(runs) / WORKLOADS[workload][2]]
    found = {name: [] for name in rows}
    for i in range(rounds):
        progress(f"round {i + 1} of {rounds}")
        for name, row in rows.items():
            rates, steps_taken = sample(name, *WORKLOADS[workload], others[name])
            if steps_taken:
                sys.exit(f"{name} cleaned while it was measured")
            found[name].append([*row, *rates])
    return found


SHARED = ("linear", "stl-set", "stl-full", "imr", "tiler")
MOST_MIB = 160          # of random writes; all targets have room for them without cleaning
READINGS = 4            # of each kind in a round; the middle half counts


def processors(rounds):
    """Measure random 4 KiB operations, target by target, on a kernel with two processors: by one
    job, by two on one device, and by two with a device each.

    The difference between the last two is the contention between jobs, and the memory of two
    devices; so dm-linear is read in the places of both devices of a target, too.  One job alone
    also differs by the cost of waking an idle processor.
    """
    ram = Ram(10000)
    for name in SHARED:
        for device in (name, name + TWIN):
            set_up(device, TARGETS[name], ram, device)
    whole, there = "sequential read 1M", {}
    for device in (name + twin for name in SHARED[1:] for twin in ("", TWIN)):
        runs = where(device, *WORKLOADS[whole][:2], SPAN_MIB)
        there[device] = linear_there(device, whole, runs)

    def step(row, rw, device, twin):
        done = {}
        for _ in range(READINGS if rw == "randread" else 1):
            for how, mib, beside in (("alone", MOST_MIB, None), ("one", MOST_MIB // 2, device),
                                     ("own", MOST_MIB // 2, twin)):
                done.setdefault(how, []).append(measure(device, rw, "4k", mib, beside))
                if rw == "randwrite":
                    settle(device)
                    settle(twin)
        for how, passes in done.items():
            row.setdefault(how, []).append(middle(passes))

    results = {rw: {name: {} for name in SHARED} for rw in ("randread", "randwrite")}
    linears = {"randread": {name: {} for name in SHARED[1:]}}
    for i in range(rounds):
        progress(f"round {i + 1} of {rounds}")
        for rw, table in results.items():
            for name, row in table.items():
                step(row, rw, name, name + TWIN)
                if name in linears.get(rw, ()):
                    step(linears[rw][name], rw, there[name], there[name + TWIN])
    return {"bytes_per_second": results, "linear_bytes_per_second": linears}


# The cost of an operation in instructions.  QEMU's clock counts them, so nothing else affects the
# figure.  Each target has 1/PART of its size in speed(), and so has the part read and written.
PART = 8
COUNTED = ("bare", "linear", *OURS, "writecache", "thin")
SHIFT = 1               # scripts/lab: -icount shift=1, two nanoseconds for each instruction
OPS = 1000
PASS, PASSES = SPAN_MIB // PART - DITHER_MIB, 6
# name: whether it writes, its bytes, the number of operations each time.  Random operations are
# counted by the difference between two lengths of one load, sequential ones by all passes but the
# first.
OPERATIONS = {
    "read": (False, 4096, (OPS, OPS, 2 * OPS)),
    "write": (True, 4096, (OPS, OPS, 2 * OPS)),
    "write 1M": (True, MIB, (PASS,) * PASSES),
}


def places(op, rand, n):
    """Return the offsets of @n operations: sequential for 1 MiB, else random."""
    size = OPERATIONS[op][1]
    if size == MIB:
        return [k * size for k in range(n)]
    return [rand.randrange(SPAN_MIB // PART * 256) * size for _ in range(n)]


def count(target, op, n):
    """Return the nanoseconds of @n operations."""
    write, size, _ = OPERATIONS[op]
    where_to = places(op, random.Random(n), n)
    vector = [mmap.mmap(-1, size)]
    operation = os.pwritev if write else os.preadv
    fd = os.open(f"/dev/mapper/{target}", os.O_RDWR | os.O_DIRECT)
    try:
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for at in where_to:
            operation(fd, vector, at)
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start
    finally:
        os.close(fd)


def instructions():
    """Count the instructions of one operation, target by target, including the layers below."""
    ram = Ram(10560, PART)
    result = {}
    gc.disable()
    for name in COUNTED:
        progress(f"counting {name}")
        (bare if name == "bare" else TARGETS[name])(ram)
        fill(name, PART)
        settle(name, PART)
        for op, (write, size, lengths) in OPERATIONS.items():
            took = []
            for n in lengths:   # the first one pays for what happens only once
                if size == MIB:
                    emptied(name, "write")
                took.append(count(name, op, n))
                if write:
                    settle(name, PART)
            if size == MIB:
                each = sum(took[1:]) / sum(lengths[1:])
            else:
                each = (took[2] - took[1]) / (lengths[2] - lengths[1])
            result.setdefault(op, {})[name] = each / (1 << SHIFT)
            progress(f"{name} {op}: {result[op][name]:.0f} instructions")
    return result


def timed(*argv):
    start = time.monotonic()
    sh(*argv)
    return time.monotonic() - start


def scale():
    """Measure RAM at a million cached blocks, and the time to open a clean 4 TB drive."""
    sh("modprobe", "brd", "rd_nr=2", f"rd_size={224 * 1024}")
    out = {}
    for name, tb, cache in (("map", 0.06, "4400M"), ("open", 4, "38092M")):
        sectors = int(tb * 1e12) // 512 // 8 * 8
        dm.create("void", f"0 {sectors} zero")
        meta = "/dev/ram0" if name == "map" else "/dev/ram1"
        opts = ["--meta", meta, "--band", "40M", "--cache-size", cache, "--journal", "32M"]
        sh("shingle", "format", "stl-set", *opts, "/dev/mapper/void")
        out[name + "_first_open_s"] = timed("shingle", "open", "--meta", meta,
                                            "/dev/mapper/void", "big")
        if name == "map":
            progress("caching a million blocks")
            sh("fio", "--name=fill", "--filename=/dev/mapper/big", "--direct=1",
               "--ioengine=libaio", "--iodepth=32", "--rw=randwrite", "--bs=4k",
               "--number_ios=1000000", "--random_generator=lfsr")
        stats = dict(line.split() for line in
                     dm.Device.found("big").message("stats").splitlines())
        out[name + "_cached_blocks"] = int(stats["cached_blocks"])
        out[name + "_bytes"] = int(stats["map_bytes"])
        dm.Device.found("big").remove()
        out[name + "_open_s"] = timed("shingle", "open", "--meta", meta,
                                      "/dev/mapper/void", "big")
        dm.Device.found("big").remove()
        dm.Device.found("void").remove()
    return out


REGIONS = 6000          # one in five of their pages fits in 64 MiB
PAGE_ENTRIES = 2016     # in a page of tiler's map


def paced(path, places, write):
    """Return microseconds for each 4 KiB operation, one after another."""
    buffer = [mmap.mmap(-1, 4096)]
    operation = os.pwritev if write else os.preadv
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    try:
        start = time.monotonic()
        for at in places:
            operation(fd, buffer, at * 4096)
        return (time.monotonic() - start) / len(places) * 1e6
    finally:
        os.close(fd)


def paged():
    """Measure a drive of 8 TB with a paged map: the time to create and to open it, its RAM, and
    the cost of a page that is not in memory, beside a dm-linear of that size."""
    sh("modprobe", "brd", "rd_nr=1", f"rd_size={12 << 20}")
    sectors = int(8e12) // 512 // 8 * 8
    dm.create("void", f"0 {sectors} zero")
    out = {"create_s": timed("shingle", "create", "tiler", "--meta", "/dev/ram0", "--track",
                             "2M", "--band", "128M", "/dev/mapper/void", "big")}
    dm.create("flat", f"0 {sectors} linear /dev/mapper/void 0")
    path = "/dev/mapper/big"
    fd = os.open(path, os.O_RDONLY)
    blocks = os.lseek(fd, 0, os.SEEK_END) // 4096
    os.close(fd)
    # A band without its over-provisioning.
    region = 32768 - 32768 // 10
    if blocks % region:
        sys.exit(f"{blocks} blocks are not regions of {region}")
    pages = [(r * (blocks // region // REGIONS)) * region + p * PAGE_ENTRIES
             for r in range(REGIONS) for p in range(-(-region // PAGE_ENTRIES))]
    progress(f"writing to each of {len(pages)} pages of the map")
    paced(path, pages, True)
    dm.Device.found("big").message("checkpoint")
    few = pages[:64]
    away = [pages[i] + 1 for i in range(0, len(pages), len(pages) // REGIONS)]
    for name, write, there, many in (("read", False, few * 200, pages),
                                     ("write", True, few * 200, away)):
        paced(path, few, write)
        out[name + "_flat_us"] = paced("/dev/mapper/flat", many, write)
        before = stats("big")
        out[name + "_hit_us"] = paced(path, there, write)
        after = stats("big")
        out[name + "_hit_pages"] = (after["map_page_reads"] - before["map_page_reads"]) / \
            len(there)
        out[name + "_miss_us"] = paced(path, many, write)
        before, after = after, stats("big")
        for key in ("reads", "waits"):
            out[f"{name}_miss_{key}"] = (after[f"map_page_{key}"] -
                                         before[f"map_page_{key}"]) / len(many)
    places = random.Random(1)
    out["random_write_us"] = paced(path, [places.randrange(blocks) for _ in range(20000)], True)
    out["bytes"] = stats("big")["map_bytes"]
    for name in ("flat", "big"):
        dm.Device.found(name).remove()
    out["open_s"] = timed("shingle", "open", "--meta", "/dev/ram0", "/dev/mapper/void", "big")
    dm.Device.found("big").remove()
    return out


# dm-stl/set/engine.h
MAP, DISCARD, DROP, DIRECT = 0x100, 0x104, 0x105, 0x106
RECORD = struct.Struct("<HHIQQ")


def worst(band, bands, sets):
    """Generate records without end.  One block of every band is cached and stays; others are added
    and removed by records that cover the whole band or a thousand blocks of it."""
    fill, seen, k = [0] * sets, set(), 0

    def mapped(lblk):
        which = lblk // band % sets
        fill[which] += 1
        return MAP, 1, 1, lblk, which * band + fill[which] - 1

    while True:
        at = k * 7919 % bands
        k += 1
        if at not in seen:
            seen.add(at)
            yield mapped(at * band)
        yield mapped(at * band + 17 + k % 1000)
        if k % 8:
            yield (DROP, DIRECT)[k % 2], band - 1, 0, at * band + 1, 0
        else:
            yield DISCARD, 0, 0, min(at, bands - 1024), 1024
            seen.difference_update(range(min(at, bands - 1024), min(at, bands - 1024) + 1024))


def fill_ring(path):
    """Fill the journal with transactions of one block each; return the number of records."""
    with blk.opened(path) as dev:
        sb = ondisk.read_super(dev.read(0))
        role = {g[4]: g for g in sb["groups"]}
        start, blocks = sb["journal"]
        records = worst(role[ondisk.DATA][6], role[ondisk.DATA][2], role[ondisk.CACHE][2])
        prev, at, out = 0, 0, []
        for at in range(blocks):
            raw = bytearray(ondisk.BLOCK)
            struct.pack_into("<IHHII", raw, 40, prev, 0, 1, 168, 0)
            for i in range(168):
                RECORD.pack_into(raw, 56 + i * RECORD.size, *next(records))
            raw = ondisk.seal(raw, ondisk.JOURNAL, sb["uuid"], start + at, 1 + at)
            prev = struct.unpack_from("<I", raw, 4)[0]
            out.append(raw)
            if len(out) == 256 or at == blocks - 1:
                dev.write(start + at + 1 - len(out), b"".join(out))
                out = []
    return 168 * blocks


def replay():
    """Measure the time to open a drive of 4 TB after a crash, with a journal of the default length
    full of the most expensive records."""
    out = {}
    sh("modprobe", "brd", "rd_nr=1", f"rd_size={256 * 1024}")
    sectors = int(4e12) // 512 // 8 * 8
    dm.create("void", f"0 {sectors} zero")
    for band in ("40M", "256M"):
        sh("shingle", "format", "stl-set", "--force", "--meta", "/dev/ram0", "--band", band,
           "--cache-size", "38092M", "/dev/mapper/void")
        progress(f"filling the journal, bands of {band}")
        records = fill_ring("/dev/ram0")
        table = sh("shingle", "open", "--dry-run", "--meta", "/dev/ram0", "/dev/mapper/void",
                   "big").split("'")[1]
        begin = time.monotonic()
        dm.create("big", table)
        seconds = time.monotonic() - begin
        looks = stats("big")["replay_looks"]
        dm.Device.found("big").remove()
        out[band] = {"records": records, "looks": looks, "seconds": seconds}
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--boot", type=int, default=0, help="which one of several")
    parser.add_argument("--part", required=True,
                        choices=("speed", "scale", "paged", "replay", "instructions",
                                 "processors", "pieces"))
    args = parser.parse_args()
    parts = {"speed": lambda: speed(args.rounds, args.boot), "scale": scale, "paged": paged,
             "replay": replay, "instructions": instructions,
             "processors": lambda: processors(args.rounds),
             "pieces": lambda: pieces(args.rounds, args.boot)}
    print(json.dumps(parts[args.part]()))


if __name__ == "__main__":
    main()
