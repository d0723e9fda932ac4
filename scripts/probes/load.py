# SPDX-License-Identifier: GPL-2.0
"""The load is fio's: a job file (and an iolog) is written beside the results,
run, and its log of single requests read back."""

import contextlib
import ctypes
import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
from dataclasses import dataclass

import numpy as np

# clock_gettime: in a guest with a virtual clock the TSC is the host's.
GLOBAL = {"direct": 1, "thread": 1, "clocksource": "clock_gettime", "disable_lat": 1,
          "disable_slat": 1, "log_offset": 1, "group_reporting": 0}
PR_SET_PDEATHSIG = 1
BLOCK = 4096
START_S = 2              # fio's, at most
WATCH_S = 1.0
# Of a name fio takes all behind ; or # for a comment, and $ for a variable; an iolog ends it at
# a blank, or after 256 bytes.  What is left may be the name of something else.
NO_NAME = re.compile(r"[;#$\\\"'\s\0-\x1f]")
LONGEST_NAME = 255


class LoadError(Exception):
    """fio could not do it, in a sentence."""


def can_be_told(path):
    """Whether fio opens what has this path if it is told that."""
    return not NO_NAME.search(path) and len(os.fsencode(path)) <= LONGEST_NAME


@dataclass
class Trace:
    """What requests took, one entry each, in the order in which they were issued.

    at_us: when it was issued, since the load began; to a millisecond, with one
    request at a time mostly better.  lat_us: from issue to completion."""
    at_us: np.ndarray
    lat_us: np.ndarray
    offset: np.ndarray
    bytes: np.ndarray
    write: np.ndarray

    def __len__(self):
        return len(self.lat_us)

    def __getitem__(self, key):
        """A part of it: a slice, a mask or indices."""
        return Trace(self.at_us[key], self.lat_us[key], self.offset[key],
                     self.bytes[key], self.write[key])

    def arrays(self, prefix=""):
        """For Result.arrays: floats as 32 bits, which is 1 us in 16 s."""
        return {f"{prefix}lat_us": self.lat_us.astype(np.float32),
                f"{prefix}offset": self.offset, f"{prefix}write": self.write,
                f"{prefix}at_us": self.at_us, f"{prefix}bytes": self.bytes}


def join(traces):
    """One trace of several that followed each other; at_us begins anew in each."""
    return Trace(*(np.concatenate([getattr(t, name) for t in traces])
                   for name in ("at_us", "lat_us", "offset", "bytes", "write")))


def as_ops(ops):
    """(write, offset, bytes) with scalars made as long as the longest."""
    write, offset, size = ops
    write, offset, size = np.broadcast_arrays(
        np.atleast_1d(np.asarray(write, bool)),
        np.atleast_1d(np.asarray(offset, np.uint64)),
        np.atleast_1d(np.asarray(size, np.uint32)))
    return write, offset, size


def chain(*parts):
    """Ops that follow each other."""
    parts = [as_ops(p) for p in parts]
    return tuple(np.concatenate([p[i] for p in parts]) for i in range(3))


def read_log(path):
    """(completion in ms, latency in us, write, bytes, offset) of fio's log."""
    text = path.read_bytes()
    if not text.strip():
        return (np.zeros(0),) * 5
    columns = text[:text.index(b"\n")].count(b",") + 1
    cells = np.fromstring(text.replace(b"\n", b",").rstrip(b","), dtype=np.int64, sep=",")
    if len(cells) % columns:
        raise LoadError(f"fio's log {path} is cut short: is there room for it?")
    table = cells.reshape(-1, columns)
    return (table[:, 0], table[:, 1] / 1000, table[:, 2] == 1,
            table[:, 3].astype(np.uint32), table[:, 4].astype(np.uint64))


def issued(end_ms, lat_us, one_at_a_time):
    """Time of issue in us of requests in the order of their log lines.

    The log has completions in whole milliseconds, rounded down.  One request at
    a time, a completion is at least the one before it and its latency."""
    end = end_ms * 1000.0
    if one_at_a_time and len(end):
        spent = np.cumsum(lat_us)
        end = spent + np.maximum.accumulate(end - spent)
    return np.maximum(end - lat_us, 0)


def in_order(ops, lines, runtime_ms):
    """A Trace in the order of @ops from log lines (completion in ms, latency, write,
    offset), which are in the order of completion.

    A place asked for twice has its first line first.  Requests without a line were
    overtaken by everything behind them and ended when fio did."""
    end_ms, lat_us, log_write, log_offset = lines
    write, offset, size = ops
    want, want_nr = _numbered(write, offset)
    got, got_nr = _numbered(log_write, log_offset)
    found = dict(zip(zip(log_write[got].tolist(), log_offset[got].tolist(),
                         got_nr.tolist()), got.tolist()))
    line = np.empty(len(offset), np.int64)
    line[want] = [found.get(key, -1) for key in zip(write[want].tolist(),
                  offset[want].tolist(), want_nr.tolist())]
    lost = line < 0
    at, lat = issued(end_ms, lat_us, False)[line], lat_us[line]
    if lost.any():
        if lost.all():
            raise LoadError("fio has logged nothing of what its iolog says")
        # Issued not before what was issued before them.
        known = np.maximum.accumulate(np.where(lost, 0.0, at))
        at[lost] = known[lost]
        lat[lost] = np.maximum(1000.0 * runtime_ms - at[lost], 0)
    return Trace(at, lat, offset, size, write)


def _numbered(write, offset):
    """(indices sorted by place and time, how often each place was there before)"""
    order = np.lexsort((np.arange(len(offset)), write, offset))
    place, kind = offset[order], write[order]
    first = np.ones(len(order), bool)
    first[1:] = (place[1:] != place[:-1]) | (kind[1:] != kind[:-1])
    starts = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    return order, np.arange(len(order)) - starts


def added_reads(iodepth):
    """So many reads of the first block Fio.replay() has behind those it is asked for."""
    return 2 * iodepth if iodepth > 1 else 0


class Fio:
    """Runs jobs on one device; files go to @folder.  @held, if given, raises an error before
    a job would go to another device, to which @path has come to lead.  @named, if given, is
    what fio is told, for it cannot be told all names."""

    def __init__(self, path, folder, held=None, named=None):
        # pylint: disable=too-many-arguments,too-many-positional-arguments
        self.path, self.folder, self.held, self.named = path, folder, held, named
        self.program = shutil.which("fio")

    def require(self):
        """Raises LoadError if fio is not here, or would open something else."""
        if not self.program:
            raise LoadError("fio is not installed: apt install fio")
        path = self._path()
        if not can_be_told(path):
            raise LoadError(f"fio can't be told to open {path}: a name has no blanks, quotes, "
                            f"backslashes, ;, # and $, and {LONGEST_NAME} bytes at most")

    def _path(self):
        return self.named or os.path.realpath(self.path)

    def _name(self):
        # fio splits file names at colons.
        return self._path().replace(":", r"\:")

    def _write_job(self, name, options):
        self.folder.mkdir(parents=True, exist_ok=True)
        job = self.folder / f"{name}.fio"
        keys = {**GLOBAL, "filename": self._name(), "write_lat_log": name, **options}
        lines = [f"# cd here, then: fio {job.name}", f"[{name}]"]
        lines += [f"{k}={v}" if v is not None else k for k, v in keys.items()
                  if v is not False]
        job.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        return job

    def _run(self, job, watch):
        self.require()
        if self.held:
            self.held()
        report = job.with_suffix(".out.json")
        command = [self.program, "--output-format=json", f"--output={report.name}",
                   "--eta=never", job.name]
        with _Child(command, cwd=self.folder, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                    start_new_session=True, preexec_fn=_die_with_parent) as child:
            try:
                if watch:
                    _watched(child, watch)
                said, _ = child.communicate()
            except BaseException:
                child.end()
                raise
        error, runtime_ms = _told(report)
        if child.returncode or error:
            raise LoadError(f"fio {job.name} failed: " + (
                error or _sentence(said) or f"status {child.returncode}"))
        report.unlink(missing_ok=True)
        return runtime_ms

    def job(self, name, options, watch=None):
        """A job with these options of fio; returns its Trace.

        Names with "_" as fio has them; None is an option without a value.
        @watch, if given, is called now and then with the seconds since the start."""
        options = dict(options)
        depth = int(options.get("iodepth", 1))
        options.setdefault("ioengine", "psync" if depth == 1 else "libaio")
        logged = options.pop("log", True)
        if not logged:
            options["write_lat_log"] = False
        job = self._write_job(name, options)
        self._run(job, watch)
        if not logged:
            return None
        end, lat, write, size, offset = self._take_log(name)
        return Trace(issued(end, lat, depth == 1), lat, offset, size, write)

    def replay(self, name, ops, iodepth=1, watch=None, at_us=None):
        """Requests one by one as in @ops = (write, offset, bytes).

        @at_us, if given, has when each is due, ascending, since the first; what comes late
        makes all behind it late, as fio waits from one request to the next."""
        # pylint: disable=too-many-arguments
        ops = as_ops(ops)
        if not len(ops[0]):
            return Trace(*(np.zeros(0),) * 2, ops[1], ops[2], ops[0])
        actions = [f"{'write' if w else 'read'} {o} {n}"
                   for w, o, n in zip(*(a.tolist() for a in ops))]
        if iodepth > 1:
            # fio does not log what is under way when an iolog ends: let it be these.
            actions += [f"read 0 {BLOCK}"] * added_reads(iodepth)
        if at_us is not None:
            # fio takes 0 for no time.
            due = (np.asarray(at_us, np.int64) + 1).tolist()
            due += due[-1:] * (len(actions) - len(due))
        log = self._write_iolog(name, actions, None if at_us is None else due)
        job = self._write_job(name, {
            "ioengine": "psync" if iodepth == 1 else "libaio", "iodepth": iodepth,
            "read_iolog": log.name, "replay_no_stall": int(at_us is None)})
        runtime_ms = self._run(job, watch)
        end, lat, write, size, offset = self._take_log(name)
        if iodepth > 1:
            return in_order(ops, (end, lat, write, offset), runtime_ms)
        if len(lat) != len(ops[0]):
            raise LoadError(f"fio {job.name} logged {len(lat)} of {len(ops[0])} requests")
        return Trace(issued(end, lat, True), lat, offset, size, write)

    def spaced(self, name, offset, gap_s, count, ops, watch=None):
        """Reads the block at @offset again and again with pauses of @gap_s seconds,
        @count of them or more, and then at once does @ops, one at a time.

        Returns the pauses as they were, in seconds, to a millisecond, and the
        Trace of @ops."""
        ops = as_ops(ops)
        # fio counts from its own start; reads before that are not spaced.
        turns = math.ceil(START_S / gap_s) + count
        actions = []
        for i in range(turns):
            actions += [f"read {int(offset)} {BLOCK}", f"wait {int((i + 1) * gap_s * 1000)} 0"]
        actions += [f"{'write' if w else 'read'} {o} {n}"
                    for w, o, n in zip(*(a.tolist() for a in ops))]
        job = self._write_job(name, {"ioengine": "psync", "read_iolog":
                                     self._write_iolog(name, actions).name})
        self._run(job, watch)
        end, lat, write, size, offsets = self._take_log(name)
        if len(lat) != turns + len(ops[0]):
            raise LoadError(f"fio {job.name} logged {len(lat)} of {turns + len(ops[0])} requests")
        at = issued(end, lat, True)
        rest = slice(turns, None)
        return ((at[1:turns + 1] - at[:turns] - lat[:turns]) / 1e6,
                Trace(at[rest], lat[rest], offsets[rest], size[rest], write[rest]))

    def _write_iolog(self, name, actions, due=None):
        """fio's second format: file, action, offset, bytes; its third one with times in us
        before each."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path()
        log = self.folder / f"{name}.iolog"
        with log.open("w", encoding="utf-8", errors="surrogateescape") as handle:
            if due:
                handle.write(f"fio version 3 iolog\n1 {path} add\n1 {path} open\n")
                handle.writelines(f"{us} {path} {action}\n" for us, action in zip(due, actions))
                handle.write(f"{due[-1]} {path} close\n")
            else:
                handle.write(f"fio version 2 iolog\n{path} add\n{path} open\n")
                handle.writelines(f"{path} {action}\n" for action in actions)
                handle.write(f"{path} close\n")
        return log

    def _take_log(self, name):
        """Reads the log and removes it: the results have it."""
        path = self.folder / f"{name}_clat.1.log"
        if not path.exists():
            raise LoadError(f"fio {name}.fio wrote no log")
        table = read_log(path)
        path.unlink()
        return table


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class _Child(subprocess.Popen):
    """A fio that does not go on without anybody who knows of it, if its beginning is
    interrupted."""

    def __init__(self, *words, **more):
        try:
            super().__init__(*words, **more)
        except BaseException:
            if getattr(self, "pid", None) and self.returncode is None:
                self.end()
            raise

    def end(self):
        """It ends after the request under way, and so does the load."""
        self.send_signal(signal.SIGINT)
        try:
            self.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        # Of one that has not come as far as to catch it its jobs go on.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def _watched(child, watch):
    """Calls @watch now and then until @child has ended.

    Not Popen.wait(): with a timeout that looks twenty times a second, and under a
    virtual clock each look costs as much as one of the requests."""
    passed, child_fd = 0.0, os.pidfd_open(child.pid)
    try:
        poll = select.poll()
        poll.register(child_fd, select.POLLIN)
        while not poll.poll(1000 * WATCH_S):
            passed += WATCH_S
            watch(passed)
    finally:
        os.close(child_fd)


def _told(report):
    """(error that fio counted as a sentence or None, milliseconds that it ran)."""
    try:
        text = report.read_text(encoding="utf-8", errors="replace")
        jobs = json.loads(text[text.index("{"):])["jobs"]
    except (OSError, ValueError, KeyError):
        return None, 0
    number = next((job["error"] for job in jobs if job.get("error")), 0)
    return (os.strerror(number) if number else None,
            max((job.get("job_runtime", 0) for job in jobs), default=0))


def _sentence(said):
    """The line of fio's output that says what is wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "err" in line.lower() or "fail" in line.lower()),
                lines[-1] if lines else "")
