# SPDX-License-Identifier: GPL-2.0
"""Each failure that makes a device read-only or loses data, followed by each way to end the use of
the device.

The rules: data that were acknowledged and flushed are never lost, and lost data that were
acknowledged are reported: 'shingle remove' fails, the kernel log counts the blocks, and the first
FLUSH of the next activation fails.  An error outside the journal loses nothing that the engine has
accepted, flushed or not.

A case combines a Way (what fails), an end (close, reload, power cut) and commit_ms (its default, or
0: no timer commits).  Faults are inserted as in faults.py.
"""

import contextlib
import errno
import mmap
import os

from guest import blk, dm
from guest.bench import Held, beside, expect, modprobe, run, until
from guest.blk import BLOCK
from guest.faults import FOREVER, Faulty, Sluice, content, faulty
from guest.media import stats
from guest.model import read_stamp
from guest.targets import GEOMETRIES, SHINGLE

CLOSED_WITH_LOSS = 4        # exit status of 'shingle remove'
NOT_DURABLE = "acknowledged blocks could not be made durable"


class Way:
    """A failure, and what may follow from it.

    @fall: the function that makes it happen
    @keeps: no data that the engine has accepted may be lost
    @heals: the fault is gone before the end
    @geo: changes of the geometry
    @state: state of the device after the failure
    @ends: the ends that are tried, see ENDS
    @cries: a FLUSH fails although no data are lost, because the device cannot know that
    """

    def __init__(self, name, fall, keeps=True, heals=False, geo=None, state="ro", ends=None,
                 cries=False):
        self.name, self.fall, self.keeps, self.heals = name, fall, keeps, heals
        self.cries = cries
        self.change, self.state = geo or {}, state
        self.ends = ends or ("close", "reload", "cut")


def host_area(game):
    """Return the area to which the target writes new data."""
    return "cache" if "cache" in game.areas else "data"


def acknowledged(game, most=8):
    """Make at most @most acknowledged writes without a FLUSH, each to a band of its own."""
    blocks = range(1, game.geo.logical, max(game.geo.band, game.geo.logical // 8))
    for b in blocks[:most]:
        game.write(b, must=True)


def step_fails(game, writes, number):
    """Let the held writes fail; return whether step @number has failed.  After a failed write the
    target tries each block of the step by itself, so that more writes come."""
    if stats(game.stack.device)["step_failures"] >= number:
        return True
    if writes.waits():
        writes.let_fail()
    return False


def give_up_cleaning(game, meanwhile):
    """Let cleaning fail three times, so that the target gives up.  @meanwhile writes before the
    last attempt, and no cleaning step commits that."""
    writes = Sluice(game, "data")
    with beside(lambda: game.say("clean")), writes:
        for failed in (1, 2):
            until(writes.waits, "cleaning writes")
            until(lambda n=failed: step_fails(game, writes, n), "a step fails")
        until(writes.waits, "cleaning writes")
        meanwhile()
        writes.let_all_fail()
        until(lambda: game.state() != "rw", "cleaning gives up")


def cleaning(game):
    """Cleaning cannot write, and the target gives up; some writes come after its last commit."""
    acknowledged(game, 4)
    if game.ctx.target.name not in ("imr", "tiler", "stl-full", "stl-log"):
        give_up_cleaning(game, lambda: game.write(2 * game.geo.band + 1, must=True))
    else:       # These clean in several steps, or where the host writes.
        game.break_("data", "error_writes")
        game.message("clean", must=False)


def flush(game):
    """The device that takes new data cannot be flushed: writes to its last block fail, and the
    geometry gives it a volatile cache."""
    acknowledged(game)
    _, _, n = game.areas[host_area(game)]
    which, start, _ = game.areas[host_area(game)]
    game.areas["last"] = (which, start + n - 1, 1)
    game.break_("last", "error_writes")
    game.flush(must=False)


def dropping(game, area, then):
    """The device below @area is a drive with a volatile cache.  It drops the blocks that it cannot
    write, and one FLUSH to it reports that.

    @then: the message that makes the target send that FLUSH; the host sends none."""
    which = game.areas[area][0]
    _, length, _, params = game.plain[which][0]
    path, offset = params.split()
    medium = dm.Device("medium", [(0, length, "linear", f"{path} {offset}")])
    keys = {"media": "cmr", "timing": "none", "wcache": "on", "wcache_kib": 4096,
            "wcache_idle_ms": 3600000}
    below = game.under[which]
    below.reload([(0, length, "platter", f"{medium.path} 0 generic 0 {2 * len(keys)} "
                   + " ".join(f"{k} {v}" for k, v in keys.items()))], noflush=True, lockfs=False)
    acknowledged(game)
    medium.reload([(0, length, "flakey", f"{path} {offset} {FOREVER} 1 error_writes")],
                  noflush=True, lockfs=False)
    game.message(then, must=False)
    count = stats(below)
    expect(count["wcache_lost_blocks"] and not count["unreported_blocks"],
           f"no FLUSH has reported lost blocks: {count}")
    medium.reload([(0, length, "linear", f"{path} {offset}")], noflush=True, lockfs=False)


def dropped_host_writes(game):
    """The FLUSH before a commit reports that the drive has dropped blocks that the host wrote."""
    dropping(game, host_area(game), "commit")


def dropped_copies(game):
    """A FLUSH of cleaning reports that the drive has dropped blocks that cleaning has copied."""
    dropping(game, "data", "clean")


def dropped_beside_metadata(game):
    """A FLUSH for a superblock reports that the drive has dropped blocks that the host wrote."""
    dropping(game, host_area(game), "keep commit_ms=7")


def dropped_checkpoint(game):
    """The FLUSH of a checkpoint reports that the drive has dropped blocks of the checkpoint."""
    dropping(game, "checkpoint", "checkpoint")


def journal(game):
    acknowledged(game)
    game.break_("journal", "error_writes")
    game.flush(must=False)


def checkpoint(game):
    acknowledged(game)
    game.break_("checkpoint", "error_writes")
    game.message("checkpoint", must=False)


def journal_full(game):
    """Checkpoints fail, so that the journal fills; the host writes until the device is read-only.
    """
    game.break_("checkpoint", "error_writes")
    for i in range(20000):
        if game.state() != "rw" or not game.write(1 + i % (game.geo.logical - 1)):
            return
        if i % 8 == 7:
            game.flush(must=None)


def reset(game):
    """The checkpoint of a reset cannot be written: the old data must be there."""
    acknowledged(game)
    game.break_("checkpoint", "error_writes")
    game.message("reset", must=False)


def settings(game):
    """The superblocks cannot be written while a write is in flight."""
    acknowledged(game, 2)       # few, so that there is room for another write
    which, _, _ = game.areas[host_area(game)]
    game.break_("superblock", "error_writes")
    with Held([game.under[which]]) as held:
        before = stats(game.stack.device)["host_writes"]
        held.also(lambda: game.write(2, must=True))
        until(lambda: stats(game.stack.device)["host_writes"] > before, "a write is under way")
        game.message("keep commit_ms=7", must=False)


def settings_gathered(game):
    acknowledged(game)
    game.break_("superblock", "error_writes")
    game.message("keep commit_ms=7", must=False)


def write_cache(game):
    """The write cache is emptied once; then the area behind it cannot be written any more."""
    acknowledged(game)
    if not game.ctx.target.gathers:
        until(lambda: not stats(game.stack.device)["wcache_dirty_blocks"], "an empty cache")
    game.break_(host_area(game), "error_writes")
    for b in range(400):
        if not game.write(2 + b % (game.geo.logical - 2)):
            break
        if b % 8 == 7:
            game.flush(must=False)


def lost_block(game):
    """One block of the write cache cannot be written and is lost; the device stays writable."""
    game.flush(must=True)
    game.break_(host_area(game), "error_writes")
    game.write(2, must=True)
    game.message("commit", must=False)
    expect(stats(game.stack.device)["bad_blocks"] == 1, "nothing was lost")
    game.heal()


def gone(game):
    """All devices below are gone."""
    acknowledged(game)
    for which, device in game.under.items():
        length = game.plain[which][0][1]
        device.reload([(0, length, "error", "")], noflush=True, lockfs=False)


def pages(game):
    """The medium loses a page of the map."""
    acknowledged(game)
    game.break_("pages", "medium")
    for b in range(game.geo.logical):
        if game.state() != "rw":
            break
        with contextlib.suppress(OSError):
            game.dev.read(b)


WCACHE = {"options": (("wcache_blocks", 16), ("destage_ms", 1))}
ONE_DEVICE = {"meta": "same", "cache_on": "same"}
WAYS = (
    Way("cleaning fails", cleaning),
    Way("a flush fails", flush, keeps=False, geo={"medium": "cached"}, state="fail"),
    Way("a flush fails for a while", flush, keeps=False, heals=True, geo={"medium": "cached"},
        state="fail"),
    Way("a flush fails, host writes are dropped", dropped_host_writes, keeps=False, heals=True,
        state="fail"),
    Way("a flush fails, copies are dropped", dropped_copies, keeps=False, heals=True, state="fail"),
    Way("a flush fails, host writes are dropped, one device", dropped_host_writes, keeps=False,
        heals=True, geo=ONE_DEVICE, state="fail"),
    Way("a flush fails, a checkpoint is dropped", dropped_checkpoint, keeps=False, heals=True,
        state="fail"),
    Way("a flush for a superblock fails, host writes are dropped", dropped_beside_metadata,
        keeps=False, heals=True, geo=ONE_DEVICE, state="fail"),
    Way("the journal fails", journal, keeps=False),
    Way("the journal fails for a while", journal, heals=True),
    Way("a checkpoint fails", checkpoint),
    Way("the journal is full", journal_full, keeps=False),
    Way("a reset fails", reset, cries=True),
    Way("a superblock fails", settings),
    Way("the write cache cannot be emptied", write_cache, keeps=False, geo=WCACHE),
    Way("a block of the write cache is lost", lost_block, keeps=False, geo=WCACHE, state="rw",
        ends=("close", "reload")),
    Way("all devices are gone", gone, keeps=False, state="rw", ends=("close", "cut")),
)
PAGES = Way("a page of the map is lost", pages)


def lost_of(game):
    """Return the blocks that do not hold what was last acknowledged, or cannot be read."""
    lost = set()
    for b in range(game.geo.logical):
        try:
            version, _ = read_stamp(game.dev.read(b), b)
        except OSError:
            version = None
        if version not in game.model.current(b):
            lost.add(b)
    return lost


def flushes(game):
    try:
        game.dev.flush()
    except OSError as error:
        expect(error.errno == errno.EIO, f"FLUSH fails with {error}")
        return False
    return True


def open_again(game):
    game.stack.open()
    game.dev = game.stack.blk()


def repaired(game):
    """Activate the device again and expect that it is writable; run `repair` first if `check`
    finds damage.  Return whether it did."""
    game.dev.close()
    game.stack.close()
    status, said = game.ctx.target.check(game.stack.paths, game.geo)
    if status:
        done, text = game.ctx.target.repair(game.stack.paths, game.geo)
        expect(done in (0, 1), f"check: {said.strip()}; repair: {text.strip()}")
    open_again(game)
    expect(game.state() == "rw", f"it is {game.state()} in the end")
    return status != 0


def close(game, way):
    """Remove the device with the tool, heal and open it.  The tool's exit status, its message and
    the kernel's log must agree about a loss.  Return (was a loss reported, first FLUSH succeeded).
    """
    game.dev.close()
    game.ctx.kernel()
    name = game.stack.device.name
    remove = SHINGLE + ("-toys" if game.ctx.target.name in ("paged", "comb") else "")
    status, said = run(remove, "remove", "--no-udev", name, ok=None)
    log = game.ctx.kernel()
    game.stack.device = None
    expect(status in (0, CLOSED_WITH_LOSS), f"remove ended with {status}: {said}")
    expect((status != 0) == ("could not be made durable" in said), f"remove said: {said}")
    counted = any(NOT_DURABLE in line for line in log)
    expect(counted == bool(status), f"remove ended with {status}, the log says {log}")
    game.heal()
    open_again(game)
    first = flushes(game)
    return status != 0, first


def reload(game, way):
    """Replace the table by itself, and heal before that or between suspend and resume.  Return
    (was a loss reported, first FLUSH succeeded)."""
    game.dev.close()
    if way.heals or way.keeps:
        game.heal()
    table = game.stack.device.table()
    game.ctx.kernel()
    game.stack.device.load(table)
    game.stack.device.suspend(lockfs=False)
    game.heal()
    game.stack.device.resume()
    counted = any(NOT_DURABLE in line for line in game.ctx.kernel())
    game.dev = game.stack.blk()
    first = flushes(game)
    return counted, first


def cut(game, way):
    """Send a last FLUSH and cut the power.  Return (that FLUSH failed, that FLUSH succeeded)."""
    done = flushes(game)
    if way.fall is pages:
        game.heal()             # or content() could not read the disk
    saved = {p: content(p) for p in game.stack.paths.values()} \
        if way.fall is not gone else None
    game.dev.close()
    game.stack.close()
    game.heal()
    for path, data in (saved or {}).items():
        with blk.opened(path) as dev:
            dev.write(0, data)
    open_again(game)
    return not done, done


ENDS = {"close": close, "reload": reload, "cut": cut}


def fall(ctx, way, end, geo):
    """Run one case: make @way happen, end the use of the device as @end says, and compare.

    Flushed data are there; if acknowledged data are lost, the end and the first FLUSH report it."""
    with faulty(ctx, geo) as game:
        game.fill()
        flushed = [set(game.model.current(b)) for b in range(geo.logical)]
        way.fall(game)
        expect(game.state() == way.state, f"{way.name}: it is {game.state()}")
        if way.heals:
            game.heal()
        reported, first = ENDS[end](game, way)
        second = flushes(game)
        needs_check = repaired(game)
        lost = lost_of(game)
        worse = {b for b in lost if not _holds(game, b, flushed[b])} - _given_up(way)
        expect(not worse, f"blocks {sorted(worse)[:4]} lost what was flushed")
        expect(not lost or (reported and not first),
               f"{len(lost)} acknowledged blocks are lost; reported: {reported}; "
               f"the first FLUSH succeeds: {first}")
        if way.keeps and not ctx.target.gathers:
            expect(not lost, f"blocks {sorted(lost)[:4]} are lost")
            expect(not reported or way.cries, "a loss is reported, and nothing is lost")
        if way.fall is lost_block:
            expect(lost == {2} and second, f"lost: {lost}; the second FLUSH succeeds: {second}")
        ctx.note(f"{len(lost)} blocks lost, {'reported' if reported else 'not reported'}, "
                 f"first FLUSH {'succeeds' if first else 'fails'}"
                 f"{', needs_check' if needs_check else ''}")
        game.fill()
        game.compare("in the end")


def _given_up(way):
    """Return the blocks that the write cache has given up and that cannot be read."""
    return {2} if way.fall is lost_block else set()


def _holds(game, block, versions):
    """Return whether a block holds what was flushed, or something later."""
    try:
        version, _ = read_stamp(game.dev.read(block), block)
    except OSError:
        return game.state() == "rw" and stats(game.stack.device)["bad_blocks"] > 0
    return version is not None and version >= min(versions)


def mounted(ctx, geo):
    """A file on ext4 has 64 new blocks without an fsync, cleaning fails, and the table is loaded
    again: if fsync() succeeds then, all 64 blocks must be there."""
    expect(modprobe("ext4"), "no ext4 in this kernel")
    where, blocks = "/tmp/ladder", 64
    os.makedirs(where, exist_ok=True)
    with contextlib.ExitStack() as ending:
        game = Faulty(ctx, geo)
        ending.callback(game.stack.close)
        game.dev.close()
        device = game.stack.device
        # ext4lazyinit would fill the cache while the test holds the cleaner back.
        run("mkfs.ext4", "-q", "-b", 4096, "-J", "size=4", "-E",
            "lazy_itable_init=0,lazy_journal_init=0", device.path)
        run("mount", "-t", "ext4", "-o", "noatime,commit=300", device.path, where)
        ending.callback(lambda: run("umount", where, ok=None))
        ending.callback(game.heal)
        fd = os.open(f"{where}/file", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        ending.callback(lambda: os.close(fd))
        buf = mmap.mmap(-1, blocks * BLOCK)
        buf[:] = b"old " * (blocks * BLOCK // 4)
        os.pwrite(fd, buf, 0)
        os.fsync(fd)
        device.message("clean")
        buf[:] = b"new " * (blocks * BLOCK // 4)
        os.pwrite(fd, memoryview(buf)[:4 * BLOCK], 0)
        give_up_cleaning(game, lambda: os.pwrite(fd, memoryview(buf)[4 * BLOCK:], 4 * BLOCK))
        expect(game.state() == "ro", f"it is {game.state()}")
        # ext4 cannot be frozen, because it cannot write.
        device.reload(device.table(), lockfs=False)
        try:
            os.fsync(fd)
        except OSError as error:
            ctx.note(f"fsync fails: {error}")
            return
        os.preadv(fd, [buf], 0)
        there = sum(buf[i * BLOCK:i * BLOCK + 4] == b"new " for i in range(blocks))
        expect(there == blocks, f"fsync succeeds, and {there} of {blocks} blocks are there")


def ways_of(target):
    """Return the ways for this target.  A target that gathers writes has no single write in flight
    and retries a block that cannot be written with others; its checkpoint begins with an epoch, and
    the commit of that fails first."""
    if not target.gathers:
        return WAYS
    return [Way(way.name, settings_gathered) if way.fall is settings else way
            for way in WAYS if way.fall not in (lost_block, dropped_checkpoint)]


def cases(target, options):
    plain = GEOMETRIES["faults"][0]
    every = target.name == "stl-set" or "every" in options
    out = []
    if target.name == "paged":
        paged = target.geometry("faults")[-1]
        return [(f"{PAGES.name}, {end}", lambda ctx, e=end: fall(ctx, PAGES, e, paged))
                for end in PAGES.ends]
    for way in ways_of(target):
        for end in way.ends:
            for name, more in (("", ()), (", commit_ms 0", (("commit_ms", 0),))):
                # To save time: a reload only with the default commit_ms, the other ends with 0.
                if not every and bool(more) == (end == "reload"):
                    continue
                geo = plain.but(**way.change)
                geo = geo.but(options=(*geo.options, *more))
                areas = target.areas(geo)
                host = areas["cache" if "cache" in areas else "data"][0]
                if way.fall is dropped_beside_metadata and host != areas["superblock"][0]:
                    continue        # rmwf: no flush of a superblock reaches the host's writes
                out.append((f"{way.name}, {end}{name}",
                            lambda ctx, w=way, e=end, g=geo: fall(ctx, w, e, g)))
    if target.name == "stl-set":
        fs = GEOMETRIES["replay-fs"][0].but(options=(("commit_ms", 0),))
        out.append(("cleaning fails under ext4", lambda ctx: mounted(ctx, fs)))
    return out
