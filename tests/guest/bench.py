# SPDX-License-Identifier: GPL-2.0
"""Shared code of all suites in the guest: RAM to cut devices from, the kernel's log, and results
that survive the guest."""

import contextlib
import gc
import json
import os
import re
import signal
import subprocess
import threading
import time
import traceback

from guest import blk
from guest import dm
from guest.blk import SECTORS

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BAD_LOG = re.compile(r"BUG|WARNING:|Oops|general protection|KASAN|UBSAN|"
                     r"possible (circular|recursive) locking|lockdep|"
                     r"hung task|blocked for more than|kernel panic|"
                     r"refcount_t|inconsistent lock state")


class Failure(Exception):
    """The tested code is wrong; the message is one sentence."""


class Skip(Exception):
    """The test cannot run here; the message is one sentence."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


# Limit for anything that ends by itself, however busy the host.
HANG_S = 120


def until(condition, what):
    """Wait until @condition() is true; return its value."""
    limit = time.monotonic() + HANG_S
    while not (now := condition()):
        expect(time.monotonic() < limit, f"waited in vain: {what}")
        time.sleep(.005)
    return now


def run(*argv, ok=(0,), **kw):
    """Run a program; return (status, output). ok=None accepts any status."""
    done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False, **kw)
    if ok is not None and done.returncode not in ok:
        raise Failure(f"{' '.join(map(str, argv))} ended with "
                      f"{done.returncode}: {done.stdout.strip()[-2000:]}")
    return done.returncode, done.stdout


@contextlib.contextmanager
def beside(function):
    """Run a function in a thread during the with block, which yields the thread; then wait for it
    and raise its failure."""
    failed = []

    def body():
        try:
            function()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()
    if failed:
        raise failed[0]


def modprobe(name, *args):
    return run("modprobe", name, *args, ok=None)[0] == 0


class Held:
    """Suspend devices, and so hold all I/O to them, until go() or the end of the block; then wait
    for what was begun by also()."""

    def __init__(self, devices):
        self.devices = devices
        self._begun = contextlib.ExitStack()

    def __enter__(self):
        for device in self.devices:
            device.suspend(noflush=True, lockfs=False)
        return self

    def also(self, function):
        """Run a function in a thread, for which the end of the block waits; return the thread."""
        return self._begun.enter_context(beside(function))

    def go(self):
        for device in self.devices:
            device.resume()

    def __exit__(self, *exc):
        self.go()
        self._begun.close()


class Log:
    """The lines of the kernel's log since the object was created."""

    def __init__(self):
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._fd, 0, os.SEEK_END)

    def take(self):
        """Return the lines since the last call."""
        out = []
        while True:
            try:
                raw = os.read(self._fd, 16384).decode(errors="replace")
            except BlockingIOError:
                return out
            except BrokenPipeError:     # some lines were overwritten
                continue
            out.append(raw.partition(";")[2].split("\n")[0])

    def close(self):
        os.close(self._fd)


def say(text):
    """Write a line into the kernel's log, so that it shows both in order."""
    with open("/dev/kmsg", "w", encoding="ascii", errors="replace") as log:
        log.write(f"test: {text}\n")


class Pool:
    """One big device in RAM, cut into devices of exact sizes.

     ram: brd.  loop: a loop device over tmpfs, which supports write-zeroes.
     cached: null_blk with a volatile write cache, which gets flushes.
     polled: null_blk with requests that end when they are polled for.
    """

    def __init__(self, mib=4096, medium="ram"):
        self.medium = medium
        self._others = {}
        self.path = getattr(self, "_" + medium)(mib)
        self.blocks = blk.size(self.path)
        self._at = 0
        self._n = 0

    @staticmethod
    def _ram(mib):
        if not os.path.exists("/dev/ram0"):
            expect(modprobe("brd", "rd_nr=2", f"rd_size={mib * 1024}"),
                   "no RAM disk (brd) in this kernel")
        return "/dev/ram0"

    @staticmethod
    def _loop(mib):
        modprobe("loop")
        with open("/dev/shm/pool", "wb") as handle:
            handle.truncate(mib << 20)
        return run("losetup", "--find", "--show", "--sector-size", 4096,
                   "/dev/shm/pool")[1].strip()

    @staticmethod
    def _null(mib, name, **more):
        if not os.path.exists("/sys/kernel/config/nullb"):
            expect(modprobe("null_blk", "nr_devices=0"), "no null_blk")
            # With configfs as a module it is not mounted yet.
            run("mount", "-t", "configfs", "configfs", "/sys/kernel/config",
                ok=None)
        root = f"/sys/kernel/config/nullb/{name}"
        if os.path.exists(root):        # from an earlier suite in the same guest
            with open(f"{root}/power", "w", encoding="ascii") as handle:
                handle.write("0\n")
            os.rmdir(root)
        os.makedirs(root)
        values = {"memory_backed": 1, "size": mib, "blocksize": 4096, "irqmode": 0,
                  "discard": 1, **more, "power": 1}
        for key, value in values.items():
            with open(f"{root}/{key}", "w", encoding="ascii") as handle:
                handle.write(f"{value}\n")
        with open(f"{root}/index", encoding="ascii") as handle:
            path = f"/dev/nullb{handle.read().strip()}"
        return path if os.path.exists(path) else f"/dev/{name}"

    def _cached(self, mib):
        return self._null(mib, "pool", cache_size=mib)

    def _polled(self, mib):
        return self._null(mib, "polled", poll_queues=1)

    def on(self, medium):
        """Return the pool of another medium."""
        if medium == self.medium:
            return self
        if medium not in self._others:
            self._others[medium] = Pool(64, medium)
        return self._others[medium]

    def slice(self, blocks, name=None, wipe=True):
        """Return a new device of @blocks blocks, zeroed."""
        expect(self._at + blocks <= self.blocks, "the RAM disk is too small")
        self._n += 1
        dev = dm.linear(name or f"slice{self._n}",
                        [(self.path, self._at * SECTORS, blocks * SECTORS)])
        dev.blocks = blocks
        self._at += blocks
        if wipe:
            wipe_device(dev.path, blocks)
        return dev

    def reset(self):
        """Take all slices back and free their RAM; the devices above must have been removed."""
        if self._at:
            wipe_device(self.path, self._at)
        self._at = 0
        for other in self._others.values():
            other.reset()


def wipe_device(path, blocks):
    with blk.opened(path) as dev:
        try:
            dev.discard(0, blocks)
        except OSError:
            dev.zero(0, blocks)
        # Discarding need not zero: sample some blocks, and zero if needed.
        probe = range(0, blocks, max(1, blocks // 16))
        if any(dev.read(b).strip(b"\0") for b in probe):
            dev.zero(0, blocks)


class Context:
    """The argument of every case: the target, the pool of RAM, options, the kernel's log, notes."""

    def __init__(self, pool, target, options):
        self.pool, self.target, self.options = pool, target, options
        self.log = Log()
        self.lines = []     # of the kernel, in this case
        self.notes = []     # for the reader of the result

    def note(self, text):
        self.notes.append(text)

    def kernel(self):
        """Return kernel lines since the last call; they are kept for the result."""
        fresh = self.log.take()
        self.lines += fresh
        return fresh


def _one(case, run_it, ctx):
    begin = time.monotonic()
    ctx.lines, ctx.notes = [], []
    ctx.kernel()
    ctx.lines = []
    say(f"case {case}")
    result = {"case": case, "outcome": "passed", "why": "", "numbers": {}}
    try:
        result["numbers"] = run_it(ctx) or {}
    except Skip as skip:
        result.update(outcome="skipped", why=str(skip))
    except Failure as failure:
        where = traceback.extract_tb(failure.__traceback__)[-2:]
        result.update(outcome="failed", why=str(failure) + "".join(
            f"\n  at {os.path.basename(f.filename)}:{f.lineno} {f.line}"
            for f in where))
    except Exception:
        result.update(outcome="failed", why=traceback.format_exc())
    gc.collect()
    try:
        dm.remove_all()
        ctx.pool.reset()
    except (OSError, Failure) as error:
        if result["outcome"] == "passed":
            result.update(outcome="failed", why=f"cleaning up: {error}")
    ctx.kernel()
    bad = [line for line in ctx.lines if BAD_LOG.search(line)]
    if bad and result["outcome"] != "failed":
        result.update(outcome="failed", why="kernel log: " + bad[0])
    if result["outcome"] == "failed":
        result["kernel"] = ctx.lines[-60:]
    result["notes"] = ctx.notes
    result["seconds"] = round(time.monotonic() - begin, 3)
    return result


@contextlib.contextmanager
def busy(processes):
    """Keep the machine busy meanwhile with @processes processes that do I/O to a second RAM disk.
    """
    pids = []
    for _ in range(processes):
        pid = os.fork()
        if not pid:
            with blk.opened("/dev/ram1") as dev:
                while True:
                    dev.write(0, dev.read(0, 16))
        pids.append(pid)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def run_cases(cases, target, options, out):
    """Run [(name, function)], write a JSON line for each, return the number of failures."""
    dm.remove_all()
    ctx = Context(Pool(int(options.get("pool", 4096))), target, options)
    with busy(int(options.get("load", 0))):
        return _run_cases(cases, ctx, out)


def _run_cases(cases, ctx, out):
    failed = 0
    with open(out, "a", encoding="utf-8") as handle:
        for name, run_it in cases:
            # If the guest dies, this tells in which case.
            handle.write(json.dumps({"begin": name}) + "\n")
            handle.flush()
            with contextlib.suppress(OSError):
                os.fsync(handle.fileno())
            result = _one(name, run_it, ctx)
            failed += result["outcome"] == "failed"
            handle.write(json.dumps(result) + "\n")
            handle.flush()
            print(f"{result['outcome']:7} {name} ({result['seconds']} s)"
                  + (f"\n        {result['why']}" if result["why"] else ""),
                  flush=True)
            for note in result["notes"]:
                print(f"        {note}", flush=True)
    return failed
