#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Exact events: the requests to the devices below that an operation on the target causes.

tests/exact/TARGET.test holds the cases:

 geometry NAME key=value...      see targets.Geometry, meta=separate as a rule
 case NAME                       of that geometry
   op ; op ...   | event event   on the devices below, in order

Operations, in blocks (`_` is a block of zeroes, a letter a block full of it):
 w 0 abc     write blocks 0-2, one request   W 0 abc   the same with FUA
 r 0 ab_     read blocks 0-2, one request, and expect these contents
 r! 0 3      read 3 blocks at 0; it must fail
 d 0 3       discard                         z 0 3     write zeroes
 f           flush                           remount   close and open again
 life long   lifetime of later writes
 cut         power cut: go on with the present contents of the devices
 count N 3   expect the target's counter N to be 3
 until N 3   wait until the counter is 3
 clean, checkpoint, commit ...               any message of the target

Events: R|W|D|Z block+length, W! with FUA, F flush; or `*`, any events, where two threads work and
either may be first.  The data device is meant unless the event begins with `cache:` or `meta:`;
`meta:` events are compared only in cases that mention one.  Blocks are counted from behind the
header of a device that has one; reads of it when the device is opened are no events.

Events come from the tracepoint block_bio_queue of the devices below, which fires once for every bio
that the target sends, before anything can split, merge or drop it; blktrace shows the same instant
as action Q, but must be started, drained and stopped around every operation.  At the end of each
case all blocks are read and compared with what was written, before and after a remount, and the
engine verifies its invariants.

By hand: blkparse output on standard input, events on standard output:
 blktrace -d /dev/DEV -o - | blkparse -i - | tests/guest/exact.py --events
"""

import atexit
import contextlib
import glob
import os
import re
import shlex
import sys

from guest import blk
from guest import limits
from guest.bench import TOP, Failure, Skip, expect, until
from guest.blk import BLOCK, SECTORS
from guest.media import stats
from guest.targets import Geometry, stack

FIELDS = Geometry.__dataclass_fields__
TRACING = "/sys/kernel/tracing"
EVENT = TRACING + "/events/block/block_bio_queue"
TRACE_LINE = re.compile(r"block_bio_queue: (\d+),(\d+) (\S+) (\d+) \+ (\d+)")
ANYTHING = [("data", "*")]
BLKPARSE_LINE = re.compile(
    r"^\s*(\d+),(\d+)\s+\d+\s+\d+\s+[\d.]+\s+\d+\s+Q\s+(\S+)\s+(\d+) \+ (\d+)")


def event(rwbs, sector, sectors, first=0):
    """Return an event in the notation of the test files, with blocks counted from @first."""
    where = ""
    if sectors:
        expect(sector % SECTORS == 0 and sectors % SECTORS == 0,
               f"event off the 4 KiB grid: {rwbs} {sector}+{sectors}")
        where = f" {sector // SECTORS - first}+{sectors // SECTORS}"
    if rwbs.startswith("F"):
        if not sectors:
            return "F"
        rwbs = rwbs[1:]
        return "F+" + event(rwbs, sector, sectors, first)
    letter = {"R": "R", "W": "W", "D": "D"}.get(rwbs[0])
    if rwbs.startswith("DE"):
        letter = "E"
    if rwbs[0] == "W" and "Z" in rwbs:
        letter = "Z"
    expect(letter, f"unknown event {rwbs}")
    return letter + ("!" if "F" in rwbs[1:] else "") + where


def events_of(text, pattern, names, headers, begins):
    """Parse trace output; return [(device name, event)]."""
    out = []
    for line in text.splitlines():
        found = pattern.search(line)
        if found:
            major, minor, rwbs, sector, length = found.groups()
            name = names.get((int(major), int(minor)))
            if name is None or (rwbs[0] == "R" and int(sector) // SECTORS
                                in headers.get(name, ())):
                continue
            out.append((name, event(rwbs, int(sector), int(length),
                                    begins.get(name, 0))))
    return out


class Tracer:
    """Bios that arrive at some devices.

    They are read from the pipe, which needs no waiting.  Emptying `trace` or switching the event
    would take a grace period of RCU, so the event stays on until the end of the program, for the
    devices that were named last.
    """

    _pipe = None
    _filter = ""

    def __init__(self, devices, headers, begins):
        """@devices: {name: dm.Device}; for the others see targets.Linear."""
        self.headers, self.begins = headers, begins
        self.names = {(d.major, d.minor): n for n, d in devices.items()}
        test = " || ".join(f"dev == {major << 20 | minor}"
                           for major, minor in self.names)
        if Tracer._pipe is None:
            Tracer._pipe = os.open(TRACING + "/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
            atexit.register(self._end)
        if test != Tracer._filter:
            self._write(EVENT + "/filter", test)
            if not Tracer._filter:
                self._write(EVENT + "/enable", "1")
            Tracer._filter = test
        self.on(True)
        self.take()

    def on(self, yes):
        self._write(TRACING + "/tracing_on", "1" if yes else "0")

    @staticmethod
    def _write(path, text):
        with open(path, "w", encoding="ascii") as handle:
            handle.write(text + "\n")

    def take(self):
        text = b""
        with contextlib.suppress(BlockingIOError):
            while more := os.read(Tracer._pipe, 1 << 16):
                text += more
        return events_of(text.decode("ascii", "replace"), TRACE_LINE, self.names,
                         self.headers, self.begins)

    def close(self):
        self.on(False)

    @classmethod
    def _end(cls):
        cls._write(EVENT + "/enable", "0")
        cls._write(EVENT + "/filter", "0")
        cls._write(TRACING + "/tracing_on", "1")
        os.close(cls._pipe)


def parse(path):
    """Parse a test file; return {case: (geometry, [(line number, ops, events)])}."""
    cases, geometries, geo, steps = {}, {}, None, None
    with open(path, encoding="utf-8") as handle:
        for number, line in enumerate(handle, 1):
            line = line.split("#")[0].rstrip()
            if not line.strip():
                continue
            words = shlex.split(line) if line.startswith("geometry") \
                else line.split()
            if words[0] == "geometry":
                keys = dict(w.split("=") for w in words[2:])
                options = tuple((k, keys.pop(k)) for k in list(keys)
                                if k not in (*FIELDS, "features"))
                features = tuple(keys.pop("features", "").split(",")) \
                    if "features" in keys else ()
                geo = Geometry(words[1], options=options, features=features, **{
                    k: int(v) if v.isdigit() else v
                    for k, v in {"meta": "separate", **keys}.items()})
                geometries[words[1]] = geo
            elif words[0] == "case":
                name = f"{geo.name}: {' '.join(words[1:])}"
                if name in cases:
                    raise ValueError(f"{path}:{number}: case '{name}' twice")
                steps = []
                cases[name] = (geo, steps)
            elif words[0] == "use":
                geo = geometries[words[1]]
            else:
                ops, _, events = line.partition("|")
                steps.append((number, [o.split() for o in ops.split(";")],
                              _wanted(events)))
    return cases


def _wanted(text):
    """'W 12+1 cache:R 0+2 F' -> [(device, event)]"""
    out = []
    for word in text.split():
        if re.match(r"\d", word):
            out[-1] = (out[-1][0], f"{out[-1][1]} {word}")
        else:
            name, _, kind = word.rpartition(":")
            out.append((name or "data", kind))
    return out


def show(events):
    return " ".join((f"{n}:" if n != "data" else "") + e
                    for n, e in events) or "nothing"


class Play:
    """One run of a case."""

    def __init__(self, ctx, geo):
        self.stack = stack(ctx.pool, ctx.target, geo)
        self.names = dict(zip(self.stack.paths, self.stack.under))
        self.holds = ["_"] * geo.logical    # "?" where either may be
        self.tracer = None
        self.stack.open()
        self.dev = self.stack.blk()

    def close(self):
        self.dev.close()
        self.stack.close()

    def remount(self):
        self.close()
        self.stack.open()
        self.dev = self.stack.blk()

    def cut(self):
        """Close the target, then restore the contents that the devices have now."""
        saved = {}
        self.tracer.on(False)
        for path, under in zip(self.stack.paths.values(), self.stack.under):
            with blk.opened(path) as dev:
                saved[path] = dev.read(0, under.blocks)
        self.close()
        for path, data in saved.items():
            with blk.opened(path) as dev:
                dev.write(0, data)
        self.tracer.on(True)
        self.stack.open()
        self.dev = self.stack.blk()
        self.holds = ["?"] * len(self.holds)

    @staticmethod
    def content(letters):
        return b"".join(bytes(BLOCK) if c == "_" else c.encode() * BLOCK
                        for c in letters)

    @staticmethod
    def letters(data):
        out = ""
        for at in range(0, len(data), BLOCK):
            block = data[at:at + BLOCK]
            whole = block == block[:1] * BLOCK
            out += "#" if not whole else "_" if not block[0] else \
                chr(block[0])
        return out

    def op(self, words):
        verb, *args = words
        at = int(args[0]) if args and args[0].isdigit() else 0
        if verb == "w":
            self.dev.write(at, self.content(args[1]))
            self.holds[at:at + len(args[1])] = args[1]
        elif verb == "W":
            queue = blk.Aio(self.dev, 1)
            queue.write(at, self.content(args[1]), None, fua=True)
            _, result, _ = queue.reap()[0]
            queue.close()
            expect(result == len(args[1]) * BLOCK, f"FUA write: {result}")
            self.holds[at:at + len(args[1])] = args[1]
        elif verb == "r":
            got = self.letters(self.dev.read(at, len(args[1])))
            expect(got == args[1], f"read '{got}', expected '{args[1]}'")
            self.holds[at:at + len(args[1])] = args[1]
        elif verb == "r!":
            try:
                got = self.letters(self.dev.read(at, int(args[1])))
            except OSError:
                return
            raise Failure(f"read '{got}', expected an error")
        elif verb == "d":
            self.dev.discard(at, int(args[1]))
            self.holds[at:at + int(args[1])] = "?" * int(args[1])
        elif verb == "z":
            self.dev.zero(at, int(args[1]))
            self.holds[at:at + int(args[1])] = "_" * int(args[1])
        elif verb == "f":
            self.dev.flush()
        elif verb == "life":
            self.dev.life(args[0])
        elif verb == "count":
            said = stats(self.stack.device)[args[0]]
            expect(said == int(args[1]), f"{args[0]} is {said}")
        elif verb == "until":
            until(lambda: stats(self.stack.device)[args[0]] == int(args[1]), " ".join(words))
        elif verb in ("remount", "cut"):
            getattr(self, verb)()
        else:
            self.stack.device.message(" ".join(words))
            if verb == "reset":
                self.holds = ["_"] * len(self.holds)

    def compare(self, when):
        got = self.letters(self.dev.read(0, len(self.holds)))
        want = "".join(self.holds)
        expect(all(w in ("?", g) for g, w in zip(got, want)),
               f"{when} the device holds '{got}', expected '{want}'")
        self.holds = list(got)


def refused(ctx, geo, words):
    """Expect that this kernel refuses the geometry, with a message that contains these words."""
    made = stack(ctx.pool, ctx.target, geo)
    ctx.kernel()
    try:
        made.open()
    except OSError:
        said = [line for line in ctx.kernel() if words in line]
        expect(said, f"not a word of: {words}")
        raise Skip(said[0]) from None
    made.close()
    raise Failure(f"it was not refused, although {words}")


def play(ctx, geo, steps):
    if ctx.target.lacks(geo):
        refused(ctx, geo, ctx.target.lacks(geo))
    game = Play(ctx, geo)
    mentions_meta = any(n == "meta" for _, _, events in steps
                        for n, _ in events)
    watched = {n: d for n, d in game.names.items()
               if n != "meta" or mentions_meta}
    tracer = game.tracer = Tracer(watched, ctx.target.headers(geo),
                                  ctx.target.begins(geo))
    try:
        total = 0
        for number, ops, wanted in steps:
            tracer.take()
            text = " ; ".join(" ".join(o) for o in ops)
            try:
                for words in ops:
                    game.op(words)
            except (Failure, OSError) as error:
                raise Failure(f"line {number}: {text}: {error} (events: "
                              f"{show(tracer.take())})") from error
            got = tracer.take()
            expect(wanted == ANYTHING or got == wanted,
                   f"line {number}: {text}\n  expected {show(wanted)}\n"
                   f"  observed {show(got)}")
            total += len(got)
        game.stack.verify()
        game.compare("at the end")
        game.remount()
        game.compare("after a remount")
        game.stack.verify()
    finally:
        tracer.close()
        game.close()
    game.stack.check()
    return {"events": total}


def cases(target, options):
    """Return the cases in this target's files."""
    out = []
    pattern = options.get("files") or f"{TOP}/tests/exact/{target.name}.test"
    for path in sorted(glob.glob(pattern)):
        for name, (geo, steps) in parse(path).items():
            out.append((name, lambda ctx, g=geo, s=steps: play(ctx, g, s)))
    if "files" not in options:
        out += limits.cases(target)
    return out


if __name__ == "__main__":
    if sys.argv[1:] != ["--events"]:
        sys.exit(__doc__)
    for line in sys.stdin:
        match = BLKPARSE_LINE.search(line)
        if match:
            print(event(match[3], int(match[4]), int(match[5])))
