# SPDX-License-Identifier: GPL-2.0
"""The volatile write cache, where timing and concurrency matter: the devices below are slow or hold
all I/O, so that requests and messages meet blocks that are being written to the medium.  Other
suites test the exact order of events (tests/exact), power cuts (replay) and errors (faults)."""

import random
import threading
import time

from guest import blk
from guest import dm
from guest.bench import HANG_S, Held, beside, expect, modprobe, run, until
from guest.blk import BLOCK, SECTORS
from guest.media import standing, stands, stats
from guest.model import stamp, read_stamp
from guest.replay import workload
from guest.targets import GEOMETRIES, stack


class Slow:
    """A stack with data and cache devices that take @ms for each write, and on which a test can
    hold I/O or make it fail.

    @options: keys of the table line, in place of those of @geo."""

    def __init__(self, ctx, geo, ms, **options):
        expect(modprobe("dm-delay"), "no dm-delay in this kernel")
        geo = geo.but(options=tuple({**dict(geo.options), **options}.items()))
        self.made = stack(ctx.pool, ctx.target, geo)
        self.geo = geo
        self.deep = {}      # devices below the delay, where errors can be inserted
        self.delays = {}    # {device: its table}
        for which, under in zip(self.made.paths, self.made.under):
            if which != "meta":
                path, at = under.table()[0][3].split()
                deep = dm.linear(f"deep-{which}", [(path, int(at),
                                                    under.blocks * SECTORS)])
                self.deep[deep] = deep.table()
                self.delays[under] = [(0, under.blocks * SECTORS, "delay",
                                       f"{deep.path} 0 0 {deep.path} 0 {ms}")]
                under.reload(self.delays[under])
        self.device = self.made.open()
        self.dev = self.made.blk()

    def write(self, block, version, fua=False, n=1):
        queue = blk.Aio(self.dev, 1)
        queue.write(block, b"".join(stamp(block + i, version)
                                    for i in range(n)), None, fua)
        result = queue.reap()[0][1]
        queue.close()
        expect(result == n * BLOCK, f"write of block {block} returned {result}")

    def holds(self, block):
        version, why = read_stamp(self.dev.read(block), block)
        expect(version is not None, f"block {block} holds {why}")
        return version

    def break_(self):
        for deep, table in self.deep.items():
            deep.reload([(0, table[0][1], "error", "")], noflush=True,
                        lockfs=False)

    def heal(self):
        for deep, table in self.deep.items():
            deep.reload(table, noflush=True, lockfs=False)

    def stand_still(self):
        """Hold the writes that arrive below from now on, and let those held before go on."""
        for (under, (row,)), deep in zip(self.delays.items(), self.deep):
            under.reload(standing(deep.path, row[1]), noflush=True, lockfs=False)

    def stand(self):
        return any(stands(under) for under in self.delays)

    def go_on(self):
        for under, table in self.delays.items():
            under.reload(table, noflush=True, lockfs=False)

    def dirty(self):
        return stats(self.device)["wcache_dirty_blocks"]

    def held(self):
        """Return a context in which all I/O below is held."""
        return Held([under for which, under in zip(self.made.paths, self.made.under)
                     if which != "meta"])

    def sets_out(self, n):
        """Wait until the cache has sent @n destages to the devices below."""
        until(lambda: stats(self.device)["wcache_destages"] >= n, f"{n} destages")

    def begins_fua(self, n):
        """Wait until the target has received @n writes with FUA, whether they proceed or wait."""
        until(lambda: stats(self.device)["fua_writes"] >= n, f"{n} writes with FUA")

    def again(self):
        self.dev.close()
        self.made.close()
        self.made.check()
        self.device = self.made.open()
        self.dev = self.made.blk()

    def close(self):
        self.dev.close()
        self.made.verify()
        self.made.close()
        self.made.check()


class Gate(Held):
    """One block of a device, as a device that holds writes until go(); reads and flushes pass."""

    def __init__(self, name, path, block):
        self._plain = [(0, SECTORS, "linear", f"{path} {block * SECTORS}")]
        super().__init__([dm.Device(name, [(0, SECTORS, "delay", " ".join(
            f"{path} {block * SECTORS} {ms}" for ms in (0, 3600000, 0)))])])

    def __enter__(self):
        return self

    @property
    def path(self):
        return self.devices[0].path

    def go(self):
        self.devices[0].reload(self._plain, noflush=True, lockfs=False)


def overtaken(ctx, geo):
    """The host overwrites a block that is being destaged.  Reads return the newest version; the
    flush that came before waits for the first version only, and the cache keeps the newest one for
    the next flush."""
    slow = Slow(ctx, geo, 0)
    slow.write(0, 1)
    with slow.held() as held:
        flush = held.also(slow.dev.flush)
        slow.sets_out(1)
        slow.write(0, 2)
        expect(slow.holds(0) == 2, "a read found the older version")
        slow.write(0, 3)
        expect(slow.holds(0) == 3, "a read found the older version")
        expect(flush.is_alive(), "flushed while nothing can arrive")
    count = stats(slow.device)
    expect(count["wcache_destage_blocks"] == 1 and
           count["wcache_replaced_blocks"] == 1 and slow.dirty() == 1,
           f"written {count['wcache_destage_blocks']}, replaced "
           f"{count['wcache_replaced_blocks']}, left {slow.dirty()}")
    slow.dev.flush()
    expect(slow.dirty() == 0 and slow.holds(0) == 3, "the second is not there")
    slow.again()
    expect(slow.holds(0) == 3, "the older version came back")
    slow.close()


def one_by_one(ctx, geo):
    """Two flushes need two versions of a block: the cache sends the newer one only when the older
    has arrived, because two writes to one block may arrive in any order.  A FUA write to that block
    waits as well."""
    slow = Slow(ctx, geo, 0)
    slow.write(0, 1)
    with slow.held() as held:
        held.also(slow.dev.flush)
        slow.sets_out(1)
        slow.write(0, 2)
        held.also(slow.dev.flush)
        time.sleep(.1)
        count = stats(slow.device)
        expect(count["wcache_dirty_blocks"] == 2, "one of them has gone")
        expect(count["wcache_destages"] == 1, "two versions under way")
    expect(slow.dirty() == 0, "not flushed")
    slow.write(0, 3)
    with slow.held() as held:
        held.also(slow.dev.flush)
        slow.sets_out(3)
        held.also(lambda: slow.write(0, 4, fua=True))
        time.sleep(.1)
        slow.write(0, 5)        # while FUA waits for the third version
        slow.device.message("commit_ms 0")      # makes waiting requests try again
        time.sleep(.1)
        count = stats(slow.device)
        expect(count["wcache_dirty_blocks"] == 2, "one of them has gone")
        expect(count["host_write_blocks"] == 4,
               "FUA has set out beside an older version")
    expect(slow.holds(0) in (4, 5), f"it holds {slow.holds(0)}")
    slow.close()


def before_its_turn(ctx, geo):
    """The host overwrites a block that a flush has to write but the cache has not sent yet: the
    flush writes the new contents, and only once."""
    slow = Slow(ctx, geo, 0)
    for i in range(9):          # one more than can be in flight
        slow.write(2 * i, 1)
    with slow.held() as held:
        held.also(slow.dev.flush)
        slow.sets_out(8)
        slow.write(16, 2)
    expect(stats(slow.device)["wcache_replaced_blocks"] == 1, "it had set out")
    expect(slow.dirty() == 0, f"flushed, and {slow.dirty()} blocks are in "
                              f"memory")
    slow.again()
    expect(slow.holds(16) == 2, f"it holds {slow.holds(16)}")
    slow.close()


def first_fails(ctx, geo):
    """The host overwrites a block that is being destaged, and writing the older version fails: the
    flush ends only when the newer version is on the disk."""
    slow = Slow(ctx, geo, 0)
    slow.write(7, 1)
    slow.stand_still()
    with beside(slow.dev.flush) as flush:
        try:
            until(slow.stand, "the first sets out")
            slow.write(7, 2)
            slow.break_()
            slow.stand_still()      # hold the retry, so that it does not fail meanwhile
            until(lambda: stats(slow.device)["write_errors"], "an error")
            expect(flush.is_alive(), "flushed without anything on the disk")
            expect(slow.holds(7) == 2, "the older version is back")
        finally:
            slow.heal()
            slow.go_on()
    count = stats(slow.device)
    expect(slow.dirty() == 0 and not count["wcache_lost_blocks"],
           f"{slow.dirty()} blocks in memory")
    slow.again()
    expect(slow.holds(7) == 2, f"it holds {slow.holds(7)}")
    slow.close()


def fua_behind(ctx, geo):
    """A FUA write to a block that is being destaged reaches the disk after the destage, so that the
    older version does not overwrite it; a version in the cache between the two is dropped."""
    slow = Slow(ctx, geo, 0)
    # The target needs to read nothing before it writes these blocks; such a read would be held.
    blocks = (5, 5 + 8 * geo.band)
    for n, block in enumerate(blocks, 1):
        slow.write(block, 1)
        out = stats(slow.device)["wcache_destages"]
        with slow.held() as held:
            held.also(slow.dev.flush)
            slow.sets_out(out + 1)
            if n > 1:
                slow.write(block, 2)
            held.also(lambda block=block: slow.write(block, 3, fua=True))
            slow.begins_fua(n)
        expect(slow.holds(block) == 3, "the older version landed on top")
        expect(slow.dirty() == 0, "left in memory")
    slow.again()
    expect([slow.holds(block) for block in blocks] == [3, 3], "the older version came back")
    slow.close()


def fua_beside(ctx, geo):
    """A FUA write of two blocks waits for the destage of one of them, and meanwhile the cache sends
    a newer version of the other.  Either version of that block may be the final one, but its
    contents must not change after the FUA write has ended."""
    slow = Slow(ctx, geo.but(cache_on="separate", meta="separate"), 0)
    under = slow.made.under[list(slow.made.paths).index("cache")]
    deep = next(dev.path for dev in slow.deep if dev.name == "deep-cache")
    at = ctx.target.areas(slow.geo)["cache"][1]     # the place of the first two slots
    with Gate("late", deep, at + 1) as late, Gate("first", deep, at) as first:
        under.reload([
            (0, at * SECTORS, "linear", f"{deep} 0"),
            (at * SECTORS, SECTORS, "linear", f"{first.path} 0"),
            ((at + 1) * SECTORS, SECTORS, "linear", f"{late.path} 0"),
            ((at + 2) * SECTORS, (under.blocks - at - 2) * SECTORS, "linear",
             f"{deep} {(at + 2) * SECTORS}")], noflush=True)
        slow.write(1, 1)
        late.also(slow.dev.flush)
        slow.sets_out(1)
        fua = late.also(lambda: slow.write(0, 2, fua=True, n=2))
        slow.begins_fua(1)
        slow.write(0, 3)
        late.also(slow.dev.flush)
        slow.sets_out(2)
        expect(fua.is_alive(), "it did not wait for what is on its way")
        tried = stats(slow.device)["retried"]
        first.go()
        until(lambda: not fua.is_alive() or stats(slow.device)["retried"] > tried,
              "it goes on")
        if fua.is_alive():      # it also waits for the newer version
            late.go()
            fua.join()
        ended = slow.holds(0)
    expect(slow.holds(0) == ended, f"it held {ended} when it had ended, and "
                                   f"{slow.holds(0)} later")
    slow.again()
    expect(slow.holds(0) == ended, "not for good")
    slow.close()


def discard_behind(ctx, geo):
    """A discard of blocks that are being destaged takes effect after the destage: the blocks read
    as zeroes, also after another activation."""
    slow = Slow(ctx, geo, 0)
    for b in range(geo.band):
        slow.write(b, 1)
    with slow.held() as held:
        held.also(slow.dev.flush)
        slow.sets_out(1)
        held.also(lambda: slow.dev.discard(0, geo.band))
        time.sleep(.1)
    expect(not any(slow.holds(b) for b in range(geo.band)),
           "discarded blocks came back")
    slow.again()
    expect(not any(slow.holds(b) for b in range(geo.band)),
           "discarded blocks came back after a remount")
    slow.close()


def discard_ahead(ctx, geo):
    """The host writes a block while a discard of it waits.  Either may come last, but what the host
    reads when both have ended must not change when it discards the rest of the band, by which an
    engine may discard the band as a whole."""
    slow = Slow(ctx, geo, 0)
    for b in range(geo.band):
        slow.write(b, 1)
    slow.device.message("clean")
    slow.write(0, 2)
    count = stats(slow.device)
    with slow.held() as held:
        held.also(slow.dev.flush)
        slow.sets_out(count["wcache_destages"] + 1)
        held.also(lambda: slow.dev.discard(0, 1))
        until(lambda: stats(slow.device)["retried"] > count["retried"],
              "the discard waits")
        slow.write(0, 3)
    slow.dev.flush()
    ended = slow.holds(0)
    slow.dev.discard(1, geo.band - 1)
    expect(slow.holds(0) == ended, f"it held {ended} when it had ended, and "
                                   f"{slow.holds(0)} when others were discarded")
    slow.close()


def pressure(ctx, geo):
    """The cache never holds more than wcache_blocks blocks, and writes wait when it is full.  Up to
    half of that number stays in it without being written."""
    slow = Slow(ctx, geo, 30)
    size = dict(geo.options)["wcache_blocks"]
    for i in range(size // 2):
        slow.write(2 * i, 1)
    time.sleep(.2)
    expect(slow.dirty() == size // 2, f"{slow.dirty()} blocks left of "
                                      f"{size // 2} that could stay")
    most = 0

    def watch():
        nonlocal most
        while not done.is_set():
            most = max(most, slow.dirty())

    done = threading.Event()
    with beside(watch):
        for at in range(geo.logical):
            slow.write(at, 2)
        deferred = stats(slow.device)["deferred"]
        with slow.held() as held:
            held.also(lambda: slow.dev.write(0, b"".join(
                stamp(b, 3) for b in range(geo.logical))))
            until(lambda: stats(slow.device)["deferred"] > deferred, "a write has to wait")
            full = slow.dirty()
        done.set()
    expect(size // 2 < full and most <= size, f"it held {max(full, most)} blocks of {size}")
    for b in range(geo.logical):
        expect(slow.holds(b) == 3, f"block {b} holds {slow.holds(b)}")
    slow.close()
    return {"most": most}


def by_itself(ctx, geo):
    """The cache writes its blocks after destage_ms without further requests; with destage_ms 0 it
    does not."""
    slow = Slow(ctx, geo, 0, destage_ms=50)
    slow.write(0, 1)
    slow.write(9, 1)
    until(lambda: not slow.dirty(), "blocks stay in memory for good")
    slow.device.message("destage_ms 0")
    slow.write(0, 2)
    time.sleep(.3)
    expect(slow.dirty() == 1, "with destage_ms 0 it was written by itself")
    slow.close()


def sooner(ctx, geo):
    """A message shortens destage_ms, commit_ms or idle_ms: the new time applies to what waits
    already, without further I/O: blocks in the cache, records without a commit, cached blocks."""
    late, options = 600000, dict(geo.options)
    in_pauses = "cleaning" in dict(ctx.target.keys)
    if in_pauses:
        options.update(cleaning="aggressive")
    for first in (0, late):
        made = stack(ctx.pool, ctx.target, geo.but(options=tuple(
            {**options, "destage_ms": first, "commit_ms": first,
             "idle_ms": late}.items())))
        device = made.open()

        def becomes(key, done, what, first=first, device=device):
            device.message(f"{key} 50")
            until(lambda: done(stats(device)), f"{key} {first} to 50: {what}")

        with made.blk() as dev:
            dev.write(0, stamp(0, 1))
            time.sleep(.1)
            count = stats(device)
            expect(count["wcache_dirty_blocks"] == 1, "written before its time")
            becomes("destage_ms", lambda c: not c["wcache_dirty_blocks"],
                    "the block stays in the cache")
            if ctx.target.cleans:       # otherwise an epoch has committed it
                before = stats(device)
                expect(before["commits"] == count["commits"],
                       "committed before its time")
                becomes("commit_ms", lambda c: c["commits"] > before["commits"],
                        "its records are not committed")
                expect(stats(device)["cached_blocks"] or not ctx.target.caches_all,
                       "home before its time")
                if in_pauses and ctx.target.caches_all:
                    becomes("idle_ms", lambda c: not c["cached_blocks"],
                            "it is still away from home", late)
        made.close()
        made.check()
        for under in made.under:
            under.remove()


def slow_medium(ctx, geo, seed):
    """Random requests, up to 16 in flight, over a slow medium: every read returns the newest data,
    also after another activation."""
    slow = Slow(ctx, geo, 10, destage_ms=20)
    model = workload(slow.dev, lambda _: None, geo.logical,
                     random.Random(seed), 200, ctx.target.in_place)
    wrong = model.compare(slow.dev.read(0, geo.logical))
    expect(not wrong, f"{len(wrong)} wrong blocks: {wrong[:3]}")
    count = stats(slow.device)
    slow.again()
    wrong = model.compare(slow.dev.read(0, geo.logical))
    expect(not wrong, f"remounted: {len(wrong)} wrong blocks: {wrong[:3]}")
    slow.close()
    return {name: count[f"wcache_{name}"] for name in (
        "write_blocks", "replaced_blocks", "hits_blocks", "destages",
        "destage_blocks")}


def switched_off(ctx, geo):
    """A write waits for room in the cache when the cache is switched off: it goes to the disk
    directly, and must arrive there after the older version that the cache holds."""
    slow = Slow(ctx, geo, 0)
    size = dict(geo.options)["wcache_blocks"]
    last = 2 * (size - 1)
    with slow.held() as held:
        for i in range(size):       # not adjacent: each is a run of its own
            slow.write(2 * i, 1)
        for at, version in ((last + 3, 1), (last, 2)):
            before = stats(slow.device)["deferred"]
            held.also(lambda at=at, version=version: slow.write(at, version))
            until(lambda before=before: stats(slow.device)["deferred"] > before,
                  "there is room for more than there is")
        expect(slow.holds(last) == 1, "it did not have to wait")
        # A separate process, because Python holds its lock during an ioctl.
        held.also(lambda: run("dmsetup", "message", slow.device.name, 0, "wcache off"))
        until(lambda: "wcache off" in slow.device.table()[0][3], "it stays on")
    expect(slow.holds(last) == 2, "the older version landed on top")
    slow.again()
    expect(slow.holds(last) == 2, "the older version came back")
    slow.close()


def ahead_of_a_stream(ctx, geo):
    """The engine refuses to place blocks of the cache because a stream continues elsewhere: the
    cache tries them again before requests that wait for these blocks, or a flush would hang."""
    slow = Slow(ctx, geo, 100, bypass_blocks=geo.band)
    slow.write(geo.band, 1)
    slow.device.message("clean")        # the second band must be staged
    for b in range(geo.band):
        slow.write(b, 1)
    slow.dev.flush()                    # the stream, of the least length
    band = geo.data
    while stats(slow.device)["wcache_destages"] % 16 != 13:
        band -= 1
        slow.write(band * geo.band, 1)
        slow.dev.flush()
    slow.write(1, 2)                    # the fourteenth, below the stream
    slow.dev.flush()
    slow.write(geo.band + 2, 2)         # the oldest, ahead of the stream
    slow.write(geo.band, 2)             # where the stream continues
    flushes = [threading.Thread(target=slow.dev.flush) for _ in range(2)]
    flushes[0].start()
    time.sleep(.05)
    slow.write(geo.band - 1, 2)         # it would be the fifteenth
    flushes[1].start()
    for flush in flushes:
        flush.join(HANG_S)
    hangs = any(flush.is_alive() for flush in flushes)
    slow.device.message("bypass_blocks 0")      # wakes all waiting requests
    for flush in flushes:
        flush.join()
    expect(not hangs, "a flush waits for ever")
    slow.again()
    expect([slow.holds(geo.band + b) for b in (-1, 0, 2)] == [2, 2, 2], "lost")
    slow.close()


def on_beside_a_stream(ctx, geo):
    """A write that continues a stream waits for the write before it when the cache is switched on:
    it must still go to the disk directly, or later writes of the stream would wait forever."""
    slow = Slow(ctx, geo, 0, bypass_blocks=geo.band, wcache="off")
    for b in range(geo.band):
        slow.write(b, 1)                # the stream, of the least length
    with slow.held() as held:
        for b, counted in ((geo.band, "host_write_blocks"), (geo.band + 1, "deferred")):
            before = stats(slow.device)[counted]
            held.also(lambda b=b: slow.write(b, 1))
            until(lambda c=counted, n=before: stats(slow.device)[c] > n, f"{counted} stand still")
        slow.device.message("wcache on")
    slow.write(geo.band, 2)
    slow.dev.flush()                    # in one run with the waiting write
    ahead = threading.Thread(target=lambda: slow.write(geo.band + 3, 2, fua=True))
    ahead.start()
    ahead.join(HANG_S)
    hangs = ahead.is_alive()
    slow.device.message("bypass_blocks 0")      # wakes all waiting requests
    ahead.join()
    expect(not hangs, "a write waits for ever")
    slow.again()
    expect([slow.holds(geo.band + b) for b in (0, 1, 3)] == [2, 1, 2], "lost")
    slow.close()


class Writers:
    """Threads that write, read and flush until stop(), each in blocks of its own, and compare each
    read with what they wrote last."""

    def __init__(self, path, logical, threads=3):
        self.newest = {}
        self.errors = []
        self.count = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(
            path, range(i, logical, threads), i)) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, path, mine, seed):
        rng = random.Random(seed)
        try:
            with blk.opened(path) as dev:
                while not self._stop.is_set():
                    b, dice = rng.choice(mine), rng.random()
                    if dice < .75:
                        version = self.newest.get(b, 0) + 1
                        dev.write(b, stamp(b, version))
                        self.newest[b] = version
                        self.count += 1
                    elif dice < .95:
                        version, why = read_stamp(dev.read(b), b)
                        expect(version == self.newest.get(b, 0),
                               f"block {b} holds {why or version}, written: "
                               f"{self.newest.get(b, 0)}")
                    else:
                        dev.flush()
        except Exception as error:
            self.errors.append(error)

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        return self.newest


def under_load(ctx, geo, what):
    """Suspend the device, reload its table or switch the cache while threads write: a suspend and
    `wcache off` leave no block in the cache.  Then remove the device without a flush: every
    acknowledged block is there."""
    slow = Slow(ctx, geo, 10, destage_ms=30)
    device, table = slow.device, slow.device.table()
    writers = Writers(device.path, geo.logical)
    for i in range(12):
        time.sleep(.05)
        if what == "suspend":
            device.suspend(noflush=bool(i % 2))
            expect(slow.dirty() == 0, f"suspended with {slow.dirty()} blocks")
            device.resume()
        elif what == "reload":
            device.reload(table, noflush=bool(i % 2))
        else:
            device.message("wcache " + ("on" if i % 2 else "off"))
            expect(i % 2 or ctx.target.gathers or slow.dirty() == 0,
                   f"off with {slow.dirty()} blocks in it")
    newest = writers.stop()
    expect(device.table()[0][3].split()[3:] == table[0][3].split()[3:],
           f"the table has become {device.table()}")
    slow.again()
    for b in range(geo.logical):
        expect(slow.holds(b) == newest.get(b, 0),
               f"block {b} holds {slow.holds(b)}, acknowledged: "
               f"{newest.get(b, 0)}")
    slow.close()
    return {"writes": writers.count}


def off_is_off(ctx, geo):
    """When `wcache off` has returned, the cache is empty and takes no block, not even of a request
    that waited for room in it and is tried again only now."""
    made = stack(ctx.pool, ctx.target, geo.but(options=tuple(
        {**dict(geo.options), "wcache_blocks": 9}.items())))
    device = made.open()
    done = threading.Event()

    def write():
        """Write from a full queue, so that some requests always find no room."""
        rng = random.Random(1)
        with blk.opened(device.path) as dev:
            queue = blk.Aio(dev, 16)
            while not done.is_set():
                queue.write(rng.randrange(geo.logical - 8), bytes(8 * BLOCK), None)
                if queue.flying == queue.depth:
                    queue.reap()
            queue.close()

    with beside(write):
        try:
            for i in range(int(ctx.options.get("switches", 12))):
                before = stats(device)["deferred"]
                until(lambda before=before: stats(device)["deferred"] > before + 2,
                      "no write had to wait")
                device.message("wcache off")
                left = stats(device)["wcache_dirty_blocks"]
                expect(not left, f"switched off {i + 1} times, and it holds {left} blocks")
                device.message("wcache on")
        finally:
            done.set()
    count = stats(device)
    made.verify()
    made.close()
    made.check()
    return {"retried": count["retried"]}


def words(ctx, geo):
    """Wrong messages about the cache are refused with one message in the log and change nothing;
    the table shows whether the cache is off, and loads again as it is."""
    slow = Slow(ctx, geo, 0)
    before = slow.device.table()
    for text in ("wcache_blocks 8", "wcache_blocks 0", "wcache maybe",
                 "destage_ms soon", "wcache"):
        ctx.kernel()
        try:
            slow.device.message(text)
        except OSError:
            said = [l for l in ctx.kernel() if "device-mapper" in l]
            expect(len(said) == 1, f"'{text}': {said}")
            ctx.note(f"{text}: {said[0].split(': ')[-1]}")
        else:
            expect(False, f"'{text}' was accepted")
        expect(slow.device.table() == before, f"'{text}' changed the table")
    slow.device.message("wcache off")
    off = slow.device.table()
    expect("wcache off" in off[0][3], f"off, and the table says {off}")
    slow.device.reload(off)
    expect(slow.device.table() == off, "the table does not load as it is")
    slow.write(0, 1)
    expect(slow.dirty() == 0, "a table that says off does not switch it off")
    slow.device.message("wcache on")
    expect(slow.device.table() == before, "on again the table is another")
    slow.close()


def lines(ctx, geo):
    """The keys wcache and wcache_blocks work in any order in a table line, and wcache also without
    wcache_blocks where the target has a default size."""
    size = ("wcache_blocks", dict(geo.options)["wcache_blocks"])
    sizes = [(size,), ()] if ctx.target.gathers else [(size,)]
    made = stack(ctx.pool, ctx.target, geo)
    for n, (state, keys) in enumerate(dict.fromkeys(
            (state, keys) for state in ("off", "on") for blocks in sizes
            for keys in ((("wcache", state), *blocks),
                         (*blocks, ("wcache", state))))):
        what = " ".join(f"{key} {value}" for key, value in keys)
        # The name becomes the UUID, so that nothing of the last format counts.
        made.geo = geo.but(name=f"lines{n}",
                           options=keys + (("destage_ms", 0),))
        made.format()
        device = made.open()
        # In another band each time, so that the cache does not have the block already.
        for again, block in (("", 0), (", as the table says it", 4 * geo.band)):
            table = device.table()
            with made.blk() as dev:
                dev.write(block, stamp(block, 1))
                dirty = stats(device)["wcache_dirty_blocks"]
            expect(dirty == (state == "on"),
                   f"{what}{again}: {dirty} blocks in memory")
            expect(("wcache off" in table[0][3]) == (state == "off"),
                   f"{what}{again}: the table says {table[0][3]}")
            device.reload(table)
            expect(device.table() == table,
                   f"{what}: loaded again it says {device.table()[0][3]}")
        made.close()
        made.check()


def cases(target, options):
    if not target.persistent:
        return []
    geo = GEOMETRIES["wcache"][0]
    seed = int(options.get("seed", 1))
    out = [("words", words), ("table lines", lines),
           ("written again on its way", overtaken),
           ("written again and again, one by one", one_by_one),
           ("written again before its turn", before_its_turn),
           ("written again, and the first fails", first_fails),
           ("FUA to what is on its way", fua_behind),
           ("a discard of what is on its way", discard_behind),
           ("written while its discard waits", discard_ahead),
           ("pressure", pressure), ("by itself", by_itself),
           ("sooner than was said", sooner),
           ("off while a write waits", switched_off),
           ("off while writes are tried again", off_is_off)]
    if "bypass_blocks" in dict(target.keys):
        out += [("ahead of a stream", ahead_of_a_stream),
                ("on beside a stream", on_beside_a_stream),
                ("FUA beside what is on its way", fua_beside)]
    if target.gathers:      # it writes its cache in epochs, not run by run
        out = [case for case in out if case[1] not in (
            one_by_one, before_its_turn, first_fails, by_itself, off_is_off)]
    out += [(f"a slow medium, seed {s}", lambda c, g, s=s: slow_medium(c, g, s))
            for s in range(seed, seed + 2)]
    out += [(f"{what} under load", lambda c, g, w=what: under_load(c, g, w))
            for what in ("suspend", "reload", "switching")]
    return [(name, lambda ctx, f=f: f(ctx, geo)) for name, f in out]
