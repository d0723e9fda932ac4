# SPDX-License-Identifier: GPL-2.0
"""Watches a drive at work and explains its stalls; sends nothing to it.

A drive with requests in flight completes one each time that the head arrives somewhere.  A *stall*
is a time of LEAST_S or more without a completion, which no seek takes.  Two looks at the counters
prove it: if requests were in flight at the first and none has completed by the second, nothing
completed between them, however late the second look was.

The kind of a stall is what waited.  Writes, or requests right behind a write: the drive may be
making room.  The first request after a pause: the drive may be cleaning by itself.  A flush: the
write cache is emptied, as on a conventional drive; nothing follows from it.  Reads alone: another
cause.

One stall proves nothing, and neither does one period of trouble with many stalls.  The stalls are
cleaning if significantly more than a share of SLACK of them are of the first two kinds, and if
significantly more stretches with writes had a stall than stretches with reads alone; or, where
reads and writes came together, if significantly more stalls met writes.  A defective drive stalls
whatever is sent to it: where that cannot be excluded, nothing is called cleaning."""

import contextlib
import os
import re
import stat
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import guard, report, drive_properties, stats
from .device import Refused, read

STEP_S = 0.05           # between two looks
LEAST_S = 0.2           # longer than any seek
IDLE_S = 0.3            # without a request
RECENT_S = 1.0          # after a write, the drive still counts as being written to
SECTOR = 512
FULL, IDLE, FLUSH, OTHER = "full", "idle", "flush", "other"
KINDS = {FULL: "it was being written to", IDLE: "the first request after a pause waited",
         FLUSH: "a flush waited", OTHER: "only reads waited"}
TRACING = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
# The line that the kernel prints: device, operation, first sector, count.
QUEUED = re.compile(rb"block_bio_queue: \d+,\d+ (\w+) (\d+) \+ (\d+)")


@dataclass
class Sample:
    """Counters of a drive at one look; reading, writing: requests in flight."""
    at_s: float
    reads: int
    read_sectors: int
    writes: int
    write_sectors: int
    flushes: int
    reading: int
    writing: int
    discards: int = 0

    @property
    def done(self):
        """Requests that have completed."""
        return self.reads + self.writes + self.flushes + self.discards

    @property
    def waiting(self):
        """Requests that are in flight."""
        return self.reading + self.writing


@dataclass
class Load:
    """The load between two looks."""
    seconds: float = 0.0
    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    write_bytes: int = 0
    in_order: float | None = None       # share of writes that follow the one before, if traced

    @classmethod
    def between(cls, one, other, in_order=None):
        """The load between two samples."""
        return cls(other.at_s - one.at_s, other.reads - one.reads,
                   SECTOR * (other.read_sectors - one.read_sectors), other.writes - one.writes,
                   SECTOR * (other.write_sectors - one.write_sectors), in_order)

    def told(self):
        """The load in words."""
        if not self.writes:
            return f"nothing written in {self.seconds:.1f} s"
        text = f"{report.size(self.write_bytes)} in {self.writes:,} writes within " \
            f"{self.seconds:.1f} s"
        if self.in_order is not None:
            text += f", {self.in_order:.0%} of them in order"
        return text + (f", and {self.reads:,} reads" if self.reads else "")


@dataclass
class Stall:
    """Nothing completed for @seconds from @at_s on, to STEP_S."""
    at_s: float
    seconds: float
    kind: str
    reading: int
    writing: int
    before: Load = field(default_factory=Load)
    writes_share: float = 1.0       # share of writes among the requests that it could have met


@dataclass
class Stretch:
    """A time with writes and perhaps reads, or with reads alone; a pause does not end it."""
    writing: bool
    seconds: float = 0.0
    stalled: bool = False


class Watch:
    """Takes one look after another, and decides what they mean together."""


    def __init__(self):
        self.first = self.last = None
        self.stuck = None           # the look since which nothing has completed
        self.quiet_s = None         # when the last request completed, if none has come since
        self.after_quiet = False
        self.wrote_s = None         # when it was last written to
        self.mark = None            # where the load before a stall begins
        self.stalls, self.flush = [], False
        self.stretches = []
        # Looks since @mark at which only reads, and only writes, were in flight.
        self.alone = [0, 0]
        self.order = Order()
        self.budget_s, self.over = None, False  # the time budget in seconds; whether it is used up

    def take(self, now, traced=()):
        """Takes one more look, and what was queued since; returns a Stall that has ended, or
        None."""
        flush = any(what.startswith(b"F") for what, *_ in traced)
        self.flush |= flush
        last, self.last, ended = self.last, now, None
        if last is None:
            self.first = self.mark = last = now
        if now.done != last.done:
            if bool(now.reading) != bool(now.writing):
                self.alone[bool(now.writing)] += 1
            ended = self._end(last, now)
            self.stuck = self.quiet_s = None
        if now.writing or now.writes != last.writes:
            self.wrote_s = now.at_s
        if not now.waiting:
            self.stuck = None
            self.quiet_s = now.at_s if self.quiet_s is None else self.quiet_s
        elif self.stuck is None:
            self.after_quiet = self.quiet_s is not None and last.at_s - self.quiet_s >= IDLE_S
            self.quiet_s, self.stuck, self.flush = None, now, flush
        self.order.take(traced)
        return ended

    def _end(self, last, now):
        """A request has completed between the two looks; a Stall if that ended one."""
        stuck = self.stuck or last
        writing = bool(stuck.writing or last.writing or (
            self.wrote_s is not None and stuck.at_s - self.wrote_s <= RECENT_S))
        if self.stuck is None or last.at_s - stuck.at_s < LEAST_S:
            self._stretch(writing or now.writes != last.writes).seconds += now.at_s - stuck.at_s
            return None
        before = Load.between(self.mark, stuck, self.order.share())
        # A stall may be due to the request or to the moment: take the larger share.
        counts = (before.writes, before.reads), self.alone[::-1]
        share = max((guard.ratio(a, a + b, "share of writes") for a, b in counts if a + b),
                    default=1.0)
        stall = Stall(stuck.at_s, (last.at_s + now.at_s) / 2 - stuck.at_s,
                      self._kind(stuck, now, writing), stuck.reading, stuck.writing, before, share)
        self.stalls.append(stall)
        # The drive cleans in a pause blocks that were written before the pause.
        if stall.kind != FLUSH:
            self._stretch(stall.kind != OTHER, stall.kind == IDLE).stalled = True
        self.mark, self.order, self.alone = now, Order(), [0, 0]
        return stall

    def _stretch(self, writing, old=False):
        """The last stretch if it is of that kind, or with @old the latest of that kind; else a new
        one."""
        same = [s for s in self.stretches[None if old else -1:] if s.writing == writing]
        if not same:
            same = [Stretch(writing)]
            self.stretches += same
        return same[-1]

    def _kind(self, stuck, now, writing):
        """The kind of a stall: nothing has completed since @stuck, a request has completed by
        @now."""
        only_flushes = now.writes > stuck.writes and now.write_sectors == stuck.write_sectors
        if self.flush or now.flushes > stuck.flushes or only_flushes:
            return FLUSH
        if self.after_quiet and stuck.write_sectors > self.first.write_sectors:
            return IDLE
        return FULL if writing else OTHER

    # --- what it means ---------------------------------------------------------------

    def of(self, *kinds):
        """Stalls of these kinds."""
        return [s for s in self.stalls if s.kind in kinds]

    def answer(self, looks=1):
        """(cleaning: True or None, confidence or None, sentence).

        @looks: number of calls; the chance of an error is for all of them together."""
        mine, others = self.of(FULL, IDLE), self.of(OTHER)
        if not self.stalls:
            return None, 0.0, "no stall that a head does not explain"
        told = "; ".join(f"{len(self.of(k))} times {text}" for k, text in KINDS.items()
                         if self.of(k))
        is_it, sure = stats.most(len(mine), len(mine) + len(others))
        if not is_it:
            return None, 0.0, f"{told}: too few, or not those that cleaning makes"
        wrote, only_read = ([s for s in self.stretches if s.writing == w] for w in (True, False))
        chance = looks * stats.more_of(*(
            (sum(s.stalled for s in of), len(of), sum(s.seconds for s in of))
            for of in (wrote, only_read)))
        where = (f"in {sum(s.stalled for s in wrote)} of {len(wrote)} stretches of writing, in "
                 f"{sum(s.stalled for s in only_read)} of {len(only_read)} of reading alone")
        if chance < stats.ALPHA:
            return True, min(sure, stats.SURE, 1 - chance), f"{told}; {where}"
        if others:
            return None, 0.0, f"{told}; {where}: as often as by chance"
        k, n, chance = self._met_writes()
        chance *= looks
        if chance < stats.ALPHA:
            return True, min(sure, stats.SURE, 1 - chance), (
                f"{told}; of {n} that met writes alone or reads alone {k} met writes")
        return None, 0.0, (f"{told}, {max(s.seconds for s in mine):.1f} s at most; {where}: too "
                           "few to tell cleaning from a drive at fault")

    def _met_writes(self):
        """(stalls with writes, all, chance of that many by accident) of the stalls with only reads
        or only writes in flight."""
        one = [s for s in self.of(FULL) if bool(s.reading) != bool(s.writing)]
        k = sum(bool(s.writing) for s in one)
        # For unequal chances, their mean has the larger tail (Hoeffding 1956).
        share = sum(s.writes_share for s in one) / max(len(one), 1)
        return k, len(one), stats.upper_tail(k, len(one), share)


class Order:
    """The share of writes that follow the one before."""

    def __init__(self):
        self.writes = self.following = 0
        self.end = None

    def take(self, queued):
        """Takes [(operation, sector, sectors)]."""
        for what, sector, sectors in queued:
            if b"W" in what and sectors:
                self.following += sector == self.end
                self.writes, self.end = self.writes + 1, sector + sectors

    def share(self):
        """The share, or None if nothing was traced."""
        return guard.ratio(self.following, self.writes, "writes in order") \
            if self.writes else None


def told(stall):
    """A line about a stall that was cleaning."""
    return f"cleaning, {stall.seconds:.1f} s: {KINDS[stall.kind]}; before: {stall.before.told()}"


def answer(watch):
    """watch.answer(), with the time budget in the sentence if that has ended the watch."""
    is_it, sure, why = watch.answer()
    return is_it, sure, why + (f"; time budget of {watch.budget_s:g} s is used up" if watch.over
                               else "")


def summary(watch):
    """Lines about all that was seen; as_json() has the same."""
    is_it, sure, why = answer(watch)
    if is_it is None:
        yield f"No stall is known to be cleaning: {why}."
        return
    mine = watch.of(FULL, IDLE)
    total, span = sum(s.seconds for s in mine), watch.last.at_s - watch.first.at_s
    bytes_ = guard.mean([s.before.write_bytes for s in mine], "bytes before a stall")
    yield (f"It was cleaning {len(mine)} times, {total:.1f} s of {span:.1f} s, "
           f"{max(s.seconds for s in mine):.1f} s at most" + (
               f" ({report.sure(sure)[0]})" if sure else "") + f": {why}.")
    yield f"Before each, on average, {report.size(round(bytes_))} had been written."


def as_json(watch, disk, versions):
    """The same for machines."""
    is_it, sure, why = answer(watch)
    return {"device": disk, "cleaning": is_it, "confidence": sure, "says": why,
            "budget_s": watch.budget_s, "out_of_time": watch.over,
            "seconds": round(watch.last.at_s - watch.first.at_s, 3) if watch.last else 0,
            "stalls": [asdict(s) for s in watch.stalls], "versions": versions,
            "load": asdict(Load.between(watch.first, watch.last)) if watch.last else None}


# --- looking -------------------------------------------------------------------------


class Counters:
    """Counters of a disk in sysfs; for a partition, those of its disk."""

    def __init__(self, path, now=time.monotonic):
        try:
            of = os.stat(path)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from error
        if not stat.S_ISBLK(of.st_mode):
            raise Refused(f"{path} is not a block device")
        number = f"{os.major(of.st_rdev)}:{os.minor(of.st_rdev)}"
        self.sys = drive_properties.disk_of(Path("/sys/dev/block", number))
        known = re.fullmatch(r"(\d+):(\d+)", read(self.sys / "dev"))
        if not known:
            raise Refused(f"{path}: there is no drive of the number {number} any more")
        if read(self.sys / "queue/iostats") == "0":
            raise Refused(f"{self.sys.name} counts nothing: echo 1 > "
                          f"/sys/block/{self.sys.name}/queue/iostats")
        self.now = now
        self.number = int(known[1]) << 20 | int(known[2])       # as tracepoints print it

    def look(self):
        """A Sample; Refused if the disk has gone."""
        words = [int(w) for w in read(self.sys / "stat").split()]
        under_way = [int(w) for w in read(self.sys / "inflight").split()]
        if len(words) < 11 or len(under_way) < 2:
            raise Refused(f"{self.sys.name} is not there any more")
        words += [0] * (17 - len(words))
        return Sample(self.now(), words[0], words[2], words[4], words[6], words[15],
                      *under_way[:2], words[11])


class Tracer:
    """Reads the tracepoint of a disk, if permitted; else it reports nothing."""

    def __init__(self, number):
        self.folder, self.pipe, self.rest = None, -1, b""
        for top in TRACING:
            folder = Path(top, f"instances/skylight-{os.getpid()}")
            with contextlib.suppress(OSError):
                folder.mkdir()
                self.folder = folder
                event = folder / "events/block/block_bio_queue"
                (event / "filter").write_text(f"dev == {number}", encoding="ascii")
                (event / "enable").write_text("1", encoding="ascii")
                self.pipe = os.open(folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
                return

    def queued(self):
        """[(operation, sector, sectors)] since the last call."""
        text = self.rest
        with contextlib.suppress(BlockingIOError):
            while self.pipe >= 0:
                more = os.read(self.pipe, 1 << 16)
                text += more
                if not more:
                    break
        whole, self.rest = text.rsplit(b"\n", 1) if b"\n" in text else (b"", text)
        return [(m[1], int(m[2]), int(m[3])) for m in QUEUED.finditer(whole)]

    def close(self):
        """Removes the trace instance."""
        if self.pipe >= 0:
            os.close(self.pipe)
        if self.folder:
            with contextlib.suppress(OSError):
                self.folder.rmdir()


def watch_it(counters, tracer, seconds, say, sleep=None):
    """Looks until the time budget is used up; KeyboardInterrupt and a drive that disappears end the
    watch, too.  Prints each stall that was cleaning once that is known.  Returns the Watch."""
    watch, said, begin = Watch(), 0, None
    watch.budget_s = seconds or None

    def tell(looks):
        mine = watch.of(FULL, IDLE) if watch.answer(looks)[0] else []
        for stall in mine[said:]:
            say(f"{stall.at_s - begin:8.1f} s  {told(stall)}")
        return max(said, len(mine))
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                now = counters.look()
                if watch.last and now.done < watch.last.done:
                    raise Refused("its counters went back: another device has its name now")
            except Refused as gone:
                if begin is None:
                    raise
                # The kernel removes drives that stall: keep what was seen.
                say(str(gone))
                break
            begin = now.at_s if begin is None else begin
            if watch.take(now, tracer.queued()):
                said = tell(len(watch.stalls))
            if seconds and now.at_s - begin >= seconds:
                watch.over = True
                break
            (sleep or time.sleep)(STEP_S)
    # Reads alone decide, too, and may have come last.
    tell(1)
    return watch
