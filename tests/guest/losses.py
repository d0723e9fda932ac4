# SPDX-License-Identifier: GPL-2.0
"""Data that dm-platter has acknowledged are there, or a FLUSH reports that they are lost.

Its write cache holds blocks that the device below refuses, in every way in which a block leaves the
cache; and the report survives suspends, other tables and the removal of the device.  The target
under test is not used.
"""

import contextlib
import re
import time

from guest import blk
from guest import dm
from guest.bench import Held, Skip, expect, modprobe, run, until
from guest.blk import BLOCK, SECTORS
from guest.media import stats
from guest.model import read_stamp, stamp

BLOCKS = 64
CACHE = {"wcache": "on", "wcache_kib": 128, "wcache_idle_ms": 3600000}
SHINGLED = {"media": "smr", "damage": "poison"}
# The kind of medium, and whether requests take time.
KINDS = {
    "cmr": {"media": "cmr", "timing": "none"},
    "cmr, timed": {"media": "cmr", "time_scale": 100},
    "smr": {**SHINGLED, "timing": "none"},
    "shadow": {"media": "smr", "damage": "shadow", "timing": "none"},
}


def table(path, **keys):
    keys = {**CACHE, **keys}
    return [(0, BLOCKS * SECTORS, "platter", f"{path} 0 tiny8 0 {2 * len(keys)} "
             + " ".join(f"{k} {v}" for k, v in keys.items()))]


class Drive:
    """A dm-platter with a write cache, over a device on which a test can make writes fail."""

    def __init__(self, ctx, name="drive", **keys):
        expect(modprobe("dm-flakey"), "no dm-flakey in this kernel")
        self.ctx, self.keys = ctx, keys
        self.store = ctx.pool.slice(BLOCKS)
        self.under = dm.linear(f"{name}-under", [(self.store.path, 0, BLOCKS * SECTORS)])
        try:
            self.device = dm.Device(name, table(self.under.path, **keys))
        except OSError as error:
            raise Skip(f"no platter: {error}") from error
        self.dev = blk.Blk(self.device.path)

    def write(self, block, version, n=1, fua=False, ok=True):
        queue = blk.Aio(self.dev, 1)
        queue.write(block, b"".join(stamp(block + i, version) for i in range(n)), None, fua)
        result = queue.reap()[0][1]
        queue.close()
        expect((result == n * BLOCK) == ok, f"write of block {block} returned {result}")

    def holds(self, block, path=None):
        """Return the version of a block, or None if it was never written."""
        with blk.opened(path or self.device.path) as dev:
            data = dev.read(block)
        if not data.strip(b"\0"):
            return None
        version, why = read_stamp(data, block)
        expect(version is not None, f"block {block} holds {why}")
        return version

    def flush(self):
        """Send a FLUSH; return whether it succeeds."""
        try:
            self.dev.flush()
        except OSError:
            return False
        return True

    def breaks(self, first, n=1, how=None):
        """Make writes to these blocks fail below until heal(); reads still succeed.

        @how: (type, parameters) of another table row for them."""
        first, n = first * SECTORS, n * SECTORS
        end = BLOCKS * SECTORS
        rows = [(0, first, "linear", f"{self.store.path} 0"),
                (first, n, *(how or ("flakey", f"{self.store.path} {first} 0 3600 1 error_writes"))),
                (first + n, end - first - n, "linear", f"{self.store.path} {first + n}")]
        self.under.reload([row for row in rows if row[1]], noflush=True, lockfs=False)

    def heal(self):
        self.under.reload([(0, BLOCKS * SECTORS, "linear", f"{self.store.path} 0")],
                          noflush=True, lockfs=False)

    def stats(self):
        return stats(self.device)

    def remove(self):
        self.dev.close()
        self.device.remove()

    def again(self, name="drive", path=None):
        """Create the drive again as another mapped device, after remove()."""
        self.device = dm.Device(name, table(path or self.under.path, **self.keys))
        self.dev = blk.Blk(self.device.path)

    def lose(self, block=8, n=4):
        """Write blocks into the cache, and make the device below refuse them from then on."""
        self.write(block, 1, n)
        self.breaks(block, n)

    def said(self):
        """Return the numbers of lost blocks in the kernel's log since the last call."""
        return [int(m[1]) for line in self.ctx.kernel() if (m := re.search(
            r"platter: .*: (\d+) acknowledged blocks could not be written", line))]


def past_the_cache(ctx, kind, how, blocks):
    """A write that bypasses the cache fails: the version before it, acknowledged from the cache,
    can still be read and reaches the medium."""
    drive = Drive(ctx, **KINDS[kind])
    drive.write(8, 1)
    expect(drive.flush(), "the first FLUSH failed")
    drive.write(8, 2)
    drive.breaks(8)
    before = drive.stats()["media_writes"]
    drive.write(8, 3, n=blocks, fua=how == "fua", ok=False)
    expect(drive.stats()["media_writes"] > before, "it was not tried")
    drive.heal()
    expect(drive.holds(8) == 2, f"version {drive.holds(8)} is read, 2 was acknowledged")
    expect(drive.flush(), "nothing was lost, and the FLUSH failed")
    expect(drive.holds(8, drive.store.path) == 2, "the medium has an older version")
    drive.write(8, 4, n=blocks, fua=how == "fua")
    expect(drive.holds(8) == 4, "the write that succeeded is not what is read")
    expect(not drive.stats()["wcache_dirty_blocks"], "the cache keeps what was superseded")
    expect(drive.flush(), "the last FLUSH failed")
    expect(drive.holds(8, drive.store.path) == 4, "the cache wrote an older version after it")
    expect(not drive.stats()["wcache_lost_blocks"], f"{drive.stats()['wcache_lost_blocks']} lost")


def overtaken(ctx, works):
    """The host writes a block to the cache while a FUA write to it is in flight: the newer version
    is read and reaches the medium, whether the FUA write succeeds (@works) or not."""
    drive = Drive(ctx, **KINDS["cmr"])
    drive.write(8, 1)
    if not works:
        drive.breaks(8)
    before = drive.stats()["media_writes"]
    with Held([drive.under]) as held:
        held.also(lambda: drive.write(8, 2, fua=True, ok=works))
        until(lambda: drive.stats()["media_writes"] > before, "it is not on its way")
        drive.write(8, 3)
    expect(drive.holds(8) == 3, "the newest is not what is read")
    drive.heal()
    expect(drive.flush(), "the FLUSH failed")
    expect(drive.holds(8, drive.store.path) == 3, "the newest did not reach the medium")


def power_fails(ctx):
    """The power is cut while a FUA write to a cached block is in flight below: the block has the
    new version and is not lost, only the other cached block is.  A FLUSH reports no power cut."""
    drive = Drive(ctx, **KINDS["cmr"])
    drive.write(8, 1)
    drive.write(20, 1)
    before = drive.stats()["media_writes"]
    with Held([drive.under]) as held:
        held.also(lambda: drive.write(8, 2, fua=True))
        until(lambda: drive.stats()["media_writes"] > before, "it is not on its way")
        drive.device.message("powercut 0")
    drive.device.message("powercut off")
    count = drive.stats()
    expect(drive.holds(8) == 2 and count["wcache_lost_blocks"] == 1, f"{count}")
    expect(drive.flush(), "a power cut is reported by no FLUSH")


def one_bad_block(ctx, kind, how):
    """The drive writes a run of sixteen blocks of which one fails: only that one is lost, and the
    loss is reported exactly once, by the FLUSH or after the suspend by the next one."""
    drive = Drive(ctx, **KINDS[kind])
    drive.write(8, 1, 16)
    drive.breaks(13)
    drive.said()
    if how == "suspend":
        drive.device.suspend()
        expect(drive.said() == [1], "the log does not say that one block is lost")
        drive.device.resume()
    else:
        expect(not drive.flush(), "the FLUSH succeeded")
    count = drive.stats()
    expect(count["wcache_lost_blocks"] == 1, f"{count['wcache_lost_blocks']} blocks lost")
    for b in range(8, 24):
        expect(drive.holds(b, drive.store.path) == (None if b == 13 else 1), f"block {b}")
    drive.heal()
    expect(drive.flush() == (how == "flush"), "reported twice, or not at all")
    expect(drive.flush(), "the next FLUSH failed, too")
    expect(not drive.stats()["unreported_blocks"], "what was reported still counts")


def replaced_on_its_way(ctx):
    """Writing a block from the cache fails after the host has rewritten it: the newer version is
    still in the cache, so no block is lost."""
    drive = Drive(ctx, **KINDS["cmr"])
    drive.breaks(8)
    with Held([drive.under]):
        drive.write(8, 1, 16)
        drive.write(24, 1)              # more than half of the cache, which starts a run
        until(lambda: drive.stats()["media_writes"], "it is not on its way")
        drive.write(8, 2)
    until(lambda: drive.stats()["wcache_destages"], "the destage does not end")
    drive.heal()
    expect(drive.holds(8) == 2, "the newest is not what is read")
    expect(drive.flush(), "nothing is lost, and the FLUSH failed")
    for b in range(8, 25):
        expect(drive.holds(b, drive.store.path) == (2 if b == 8 else 1), f"block {b}")
    expect(not drive.stats()["wcache_lost_blocks"], "blocks count as lost")


def idle_ends_with_a_request(ctx):
    """A drive that was idle for longer than wcache_idle_ms keeps the next write in its cache: a
    request in flight ends the pause, and the cache is written one whole pause after it."""
    drive = Drive(ctx, media="cmr", time_scale=1, wcache_idle_ms=1000000)
    pause_s = 1
    drive.write(8, 1)
    drive.flush()
    time.sleep(1.5 * pause_s)
    while True:         # until this guest did both within a pause
        before = drive.stats()["media_writes"]
        began = time.monotonic()
        drive.write(8, 2)
        count = drive.stats()
        if time.monotonic() - began < pause_s:
            break
    expect(count["media_writes"] == before and count["wcache_dirty_blocks"] == 1,
           "the cache is written although the drive is not idle")
    until(lambda: not drive.stats()["wcache_dirty_blocks"], "the idle drive writes no cache")


def _by_a_suspend(drive):
    drive.lose()
    drive.device.suspend()


def _by_a_destage(drive):
    drive.lose()
    drive.device.message("wcache off")
    drive.device.suspend()


LOST = {"by the suspend": _by_a_suspend, "before it": _by_a_destage}


def _resumed(drive, _):
    drive.device.resume()


def _reloaded(drive, _):
    drive.device.load(drive.device.table())
    drive.device.resume()


def _reloaded_elsewhere(drive, ctx):
    drive.device.load(table(ctx.pool.slice(BLOCKS).path, **drive.keys))
    drive.device.resume()


def _cleared(drive, _):
    """Load a table and discard it: it must not take over the report of the loss."""
    drive.device.load(drive.device.table())
    drive.device.clear()
    drive.device.resume()


def _through_linear(drive, _):
    drive.device.load([(0, BLOCKS * SECTORS, "linear", f"{drive.under.path} 0")])
    drive.device.resume()
    expect(drive.flush(), "dm-linear fails a FLUSH")
    drive.device.reload(table(drive.under.path, **drive.keys))


def _created_again(drive, _):
    drive.remove()
    drive.again()


def _created_by_another_name(drive, _):
    drive.remove()
    drive.again("other")


def _twice(drive, _):
    for _ in range(3):
        drive.device.reload(drive.device.table())


AFTERWARDS = {f.__name__[1:].replace("_", " "): f for f in (
    _resumed, _reloaded, _reloaded_elsewhere, _cleared, _through_linear, _created_again,
    _created_by_another_name, _twice)}


def outlives(ctx, how, then, **keys):
    """A loss that no FLUSH has reported fails the first FLUSH afterwards, once."""
    drive = Drive(ctx, **keys)
    LOST[how](drive)
    suspended = drive.device.status(), drive.stats()
    drive.heal()
    AFTERWARDS[then](drive, ctx)
    resumed = drive.device.status(), drive.stats()
    expect(not drive.flush(), "the loss is forgotten")
    for when, (status, count) in ("suspended", suspended), ("resumed", resumed):
        expect(count["unreported_blocks"] == 4, f"{when}: {count}")
        expect(status.endswith(" lost"), f"{when}: {status}")
    expect(drive.flush(), "it is reported twice")
    expect(drive.device.status().endswith(" rw"), f"status {drive.device.status()}")
    drive.device.reload(drive.device.table())
    expect(drive.flush(), "it is reported again after a reload")
    drive.remove()
    drive.again()
    expect(drive.flush(), "it is reported again by a new device")


def others_do_not_care(ctx):
    """Another drive, even one with the same device numbers, reports nothing."""
    drive = Drive(ctx, **KINDS["cmr"])
    other = Drive(ctx, "second", **KINDS["cmr"])
    drive.lose()
    drive.remove()
    other.device.reload(other.device.table())
    expect(other.flush(), "another drive reports it")
    was = drive.under.path, drive.device.path
    drive.under.remove()
    drive.store.remove()
    third = Drive(ctx, "third", **KINDS["cmr"])
    expect((third.under.path, third.device.path) == was, "its device numbers are others")
    expect(third.flush(), "a drive with its device numbers reports it")


def closes(ctx, how):
    """A device is removed while acknowledged data cannot be written: the kernel's log has one line
    with the number of blocks; without a loss there is no line."""
    drive = Drive(ctx, **KINDS["cmr"])
    drive.write(8, 1, 5)
    drive.write(40, 1, 3)
    if how == "gone":
        drive.breaks(0, BLOCKS, ("error", ""))
    elif how == "shrunk":
        drive.under.reload([(0, SECTORS, "linear", f"{drive.store.path} 0")], noflush=True,
                           lockfs=False)
    elif how == "read-only":
        run("blockdev", "--setro", drive.under.path)
    elif how == "writes fail":
        drive.breaks(0, BLOCKS)
    drive.said()
    drive.remove()
    said = drive.said()
    if how == "read-only":
        run("blockdev", "--setrw", drive.under.path)
    lost = sum(drive.holds(b, drive.store.path) != 1 for b in (*range(8, 13), *range(40, 43)))
    ctx.note(f"{lost} blocks lost, the log says {said}")
    expect(said == ([lost] if lost else []), f"{lost} blocks lost, the log says {said}")
    expect(lost == (8 if how in ("gone", "shrunk", "writes fail") else 0) or how == "read-only",
           f"{lost} blocks lost")


def many(ctx):
    """More drives than the module remembers: the log names those it forgets."""
    # Each is another mapped device, and no two overlap.
    expect(modprobe("dm-flakey"), "no dm-flakey in this kernel")
    line = "{} {} tiny8 0 6 wcache on timing none media cmr"
    count = 70
    stores = ctx.pool.slice(count)
    bad = dm.Device("bad", [(0, count * SECTORS, "flakey",
                             f"{stores.path} 0 0 3600 1 error_writes")])
    ctx.kernel()
    for i in range(count):
        with dm.Device("one", [(0, SECTORS, "platter", line.format(bad.path, i * SECTORS))]) as one:
            with blk.opened(one.path) as dev:
                dev.write(0, stamp(0, 1))
    forgotten = [line for line in ctx.kernel() if "forgetting 1 lost blocks" in line]
    expect(len(forgotten) == count - 64, f"{len(forgotten)} forgotten")
    told = 0
    for i in range(count):
        with dm.Device("one", [(0, SECTORS, "platter", line.format(bad.path, i * SECTORS))]) as one:
            with blk.opened(one.path) as dev:
                try:
                    dev.flush()
                except OSError:
                    told += 1
    expect(told == 64, f"{told} reported")


def stacked(ctx, height):
    """@height drives on top of each other do I/O, suspend and resume, so that lockdep sees the
    locks of one drive taken while another one's are held."""
    store = ctx.pool.slice(BLOCKS)
    for keys in ({**SHINGLED, "timing": "none"}, {**SHINGLED, "time_scale": 1},
                 {"media": "smr", "damage": "shadow", "timing": "none", "wcache": "off"},
                 {**SHINGLED, "timing": "none", "wcache": "off", "lookahead": "on"}):
        path, drives = store.path, []
        for i in range(height):
            drives.append(dm.Device(f"level{i}", table(path, **keys)))
            path = drives[-1].path
        with blk.opened(path) as dev:
            for b in range(0, BLOCKS, 3):
                dev.write(b, stamp(b, 1))
            dev.flush()
            with contextlib.suppress(OSError):
                dev.read(1)
            dev.write(0, b"".join(stamp(b, 2) for b in range(32)))
        for drive in reversed(drives):
            drive.suspend()
        for drive in drives:
            drive.resume()
            drive.message("heal")
            drive.message("wcache off")
        for drive in reversed(drives):
            drive.remove()


def cases(_target, _options):
    out = []
    for kind in KINDS:
        for how, blocks in ("fua", 1), ("large", 20):
            out.append((f"past the cache: {how}, {kind}", lambda c, k=kind, h=how, n=blocks:
                        past_the_cache(c, k, h, n)))
        for how in "flush", "suspend":
            out.append((f"one bad block: {how}, {kind}", lambda c, k=kind, h=how:
                        one_bad_block(c, k, h)))
    out += [("past the cache: written again meanwhile", lambda c: overtaken(c, True)),
            ("past the cache: written again meanwhile, and it fails",
             lambda c: overtaken(c, False)),
            ("one bad block: written again on its way", replaced_on_its_way),
            ("past the cache: the power fails meanwhile", power_fails),
            ("idle: a request ends the pause", idle_ends_with_a_request)]
    for then in AFTERWARDS:
        for how in LOST:
            out.append((f"outlives: lost {how}, {then}", lambda c, h=how, t=then:
                        outlives(c, h, t, **KINDS["cmr"])))
    out.append(("outlives: lost by the suspend, timed, reloaded", lambda c:
                outlives(c, "by the suspend", "reloaded", **KINDS["cmr, timed"])))
    out += [("outlives: other drives do not report it", others_do_not_care),
            ("outlives: more than the module remembers", many)]
    out += [(f"closes: {how}", lambda c, h=how: closes(c, h))
            for how in ("well", "gone", "shrunk", "read-only", "writes fail")]
    return out + [(f"stacked: {n}", lambda c, n=n: stacked(c, n)) for n in (2, 3)]
