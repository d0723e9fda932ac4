# SPDX-License-Identifier: GPL-2.0
"""Sends the load with fio: writes a job file (and an iolog) beside the results, runs fio, and
reads its log of single requests."""

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

# clock_gettime: under a virtual clock, a guest's TSC still counts the time of the host.
GLOBAL = {"direct": 1, "thread": 1, "clocksource": "clock_gettime", "disable_lat": 1,
          "disable_slat": 1, "log_offset": 1, "group_reporting": 0}
PR_SET_PDEATHSIG = 1
BLOCK = 4096
START_S = 2              # seconds; fio takes at most this long to start
WATCH_S = 1.0
# In a name, fio takes the rest behind ; or # as a comment, and $ as the begin of a variable; in an
# iolog a name ends at a blank, or after 256 bytes.  The shortened name may be another device's.
NO_NAME = re.compile(r"[;#$\\\"'\s\0-\x1f]")
LONGEST_NAME = 255


class LoadError(Exception):
    """fio has failed; the text says how."""


def can_be_told(path):
    """Whether fio opens the device at this path if it is given the path."""
    return not NO_NAME.search(path) and len(os.fsencode(path)) <= LONGEST_NAME


@dataclass
class Trace:
    """The times of requests, one entry each, in the order in which they were issued.

    at_us: time of issue since the load began, to a millisecond; mostly better with one
    request at a time.  lat_us: from issue to completion."""
    at_us: np.ndarray
    lat_us: np.ndarray
    offset: np.ndarray
    bytes: np.ndarray
    write: np.ndarray

    def __len__(self):
        return len(self.lat_us)

    def __getitem__(self, key):
        """Part of the trace: a slice, a mask or indices."""
        return Trace(self.at_us[key], self.lat_us[key], self.offset[key],
                     self.bytes[key], self.write[key])

    def arrays(self, prefix=""):
        """For Result.arrays: 32-bit floats, which are exact to 1 us up to 16 s."""
        return {f"{prefix}lat_us": self.lat_us.astype(np.float32),
                f"{prefix}offset": self.offset, f"{prefix}write": self.write,
                f"{prefix}at_us": self.at_us, f"{prefix}bytes": self.bytes}


def join(traces):
    """One trace of several consecutive ones; at_us starts from 0 in each."""
    return Trace(*(np.concatenate([getattr(t, name) for t in traces])
                   for name in ("at_us", "lat_us", "offset", "bytes", "write")))


def as_ops(ops):
    """(write, offset, bytes), with scalars extended to the longest."""
    write, offset, size = ops
    write, offset, size = np.broadcast_arrays(
        np.atleast_1d(np.asarray(write, bool)),
        np.atleast_1d(np.asarray(offset, np.uint64)),
        np.atleast_1d(np.asarray(size, np.uint32)))
    return write, offset, size


def chain(*parts):
    """One list of several lists of requests."""
    parts = [as_ops(p) for p in parts]
    return tuple(np.concatenate([p[i] for p in parts]) for i in range(3))


def read_log(path):
    """(completion in ms, latency in us, write, bytes, offset) from fio's log."""
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
    """Times of issue in us, for requests in the order of their log lines.

    The log has completions in whole milliseconds, rounded down.  With one request at a time,
    a completion follows the previous one by the latency at least."""
    end = end_ms * 1000.0
    if one_at_a_time and len(end):
        spent = np.cumsum(lat_us)
        end = spent + np.maximum.accumulate(end - spent)
    return np.maximum(end - lat_us, 0)


def in_order(ops, lines, runtime_ms):
    """A Trace in the order of @ops, from log lines (completion in ms, latency, write, offset),
    which are in the order of completion.

    If a place was requested twice, its first line is of the first request.  A request without
    a line was overtaken by all requests behind it and ended when fio did."""
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
        # A lost request was issued no earlier than those in front of it.
        known = np.maximum.accumulate(np.where(lost, 0.0, at))
        at[lost] = known[lost]
        lat[lost] = np.maximum(1000.0 * runtime_ms - at[lost], 0)
    return Trace(at, lat, offset, size, write)


def _numbered(write, offset):
    """(indices sorted by place and time, how many requests to the same place came before each)"""
    order = np.lexsort((np.arange(len(offset)), write, offset))
    place, kind = offset[order], write[order]
    first = np.ones(len(order), bool)
    first[1:] = (place[1:] != place[:-1]) | (kind[1:] != kind[:-1])
    starts = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    return order, np.arange(len(order)) - starts


def added_reads(iodepth):
    """How many reads of the first block Fio.replay() appends to the requests of its caller."""
    return 2 * iodepth if iodepth > 1 else 0


class Fio:
    """Runs jobs on one device; files go to @folder.  @held, if given, raises an error before a
    job if @path now leads to another device.  @named, if given, is the name that fio gets
    instead of @path."""

    def __init__(self, path, folder, held=None, named=None):
        self.path, self.folder, self.held, self.named = path, folder, held, named
        self.program = shutil.which("fio")

    def require(self):
        """Raises LoadError if fio is not installed, or would open another device."""
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
        """Runs a job with these options of fio; returns its Trace.

        Names have "_" as in job files; None stands for an option without a value.  @watch, if
        given, is called about once a second with the seconds since the start."""
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
        """Sends the requests of @ops = (write, offset, bytes) one by one.

        @at_us, if given, has the time at which each is due since the first, ascending.  A
        late request delays all behind it, as fio waits between two requests."""
        ops = as_ops(ops)
        if not len(ops[0]):
            return Trace(*(np.zeros(0),) * 2, ops[1], ops[2], ops[0])
        actions = [f"{'write' if w else 'read'} {o} {n}"
                   for w, o, n in zip(*(a.tolist() for a in ops))]
        if iodepth > 1:
            # fio does not log the requests in flight at the end of an iolog: add requests for that.
            actions += [f"read 0 {BLOCK}"] * added_reads(iodepth)
        if at_us is not None:
            # fio takes 0 as "no time".
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
        """Reads the block at @offset @count times or more, with pauses of @gap_s seconds, and
        then immediately sends @ops, one at a time.

        Returns the actual pauses in seconds, to a millisecond, and the Trace of @ops."""
        ops = as_ops(ops)
        # fio counts from its own start; reads before that have no pauses.
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
        """Writes fio's second format (file, action, offset, bytes), or with @due its third one,
        which has a time in us in front of each."""
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
        """Reads the log and removes it, as the results have its contents."""
        path = self.folder / f"{name}_clat.1.log"
        if not path.exists():
            raise LoadError(f"fio {name}.fio wrote no log")
        table = read_log(path)
        path.unlink()
        return table


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class _Child(subprocess.Popen):
    """A fio process that ends if the caller is interrupted while it starts."""

    def __init__(self, *words, **more):
        try:
            super().__init__(*words, **more)
        except BaseException:
            if getattr(self, "pid", None) and self.returncode is None:
                self.end()
            raise

    def end(self):
        """Ends the process, after the request in flight."""
        self.send_signal(signal.SIGINT)
        try:
            self.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        # If it was interrupted before its handler was ready, its jobs continue: kill the group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def _watched(child, watch):
    """Calls @watch about once a second until @child has ended.

    Popen.wait() with a timeout polls twenty times a second; under a virtual clock each poll
    costs as much time as a request."""
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
    """(the error that fio counted, as a sentence, or None; milliseconds that fio ran)."""
    try:
        text = report.read_text(encoding="utf-8", errors="replace")
        jobs = json.loads(text[text.index("{"):])["jobs"]
    except (OSError, ValueError, KeyError):
        return None, 0
    number = next((job["error"] for job in jobs if job.get("error")), 0)
    return (os.strerror(number) if number else None,
            max((job.get("job_runtime", 0) for job in jobs), default=0))


def _sentence(said):
    """The line of fio's output that describes the error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "err" in line.lower() or "fail" in line.lower()),
                lines[-1] if lines else "")
