# SPDX-License-Identifier: GPL-2.0
"""The input of a test, and its result.

Results are stored beside the load that led to them, as a JSON file and an npz file for each
test.  An interrupted run continues behind the last stored result.

For unit tests: Session(dev, out, load=model).  The model has ``replay(name, ops, iodepth,
watch)`` and ``job(name, options, watch)`` as load.Fio has, and ``sleep(seconds)``; dev needs
path, bytes and block."""

import contextlib
import json
import math
import time
import zipfile
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from . import load as loads
from . import report_text
from .clock import Clock, OutOfTime
from .guard import NoNumber
from common.output import whole

from .device import Refused

BLOCK = 4096
MIB = 1 << 20
GIB = 1 << 30
# UNTOLD: the test has begun, and ended without an answer; why is in Result.why.
DONE, SKIPPED, FAILED, UNTOLD = "done", "skipped", "failed", "cannot tell"


@dataclass
class Finding:
    """An answer.

    value: None if the test cannot tell; confidence: 1 - error rate of the decision; low,
    high: an interval around a number; against: a value that the test has refuted without
    finding another; none: the test has seen that the drive has no such property."""
    value: object
    unit: str = ""
    low: float | None = None
    high: float | None = None
    confidence: float = 0.0
    says: str = ""
    against: str | None = None
    none: bool = False

    def __post_init__(self):
        # JSON has no numbers of numpy.
        for name in ("value", "low", "high", "confidence"):
            value = getattr(self, name)
            if isinstance(value, np.generic):
                setattr(self, name, value.item())
        if self.value is None:
            self.confidence = 0.0

    @classmethod
    def unknown(cls, why, unit="", against=None, none=False):
        """The answer "cannot tell", for the reason @why."""
        return cls(None, unit, says=why, against=against, none=none)


@dataclass
class Result:
    """The result of a test.  The session sets test, title, jobs, operations, seconds, budget_s (the
    time budget) and out_of_time (whether the budget was used up)."""
    status: str = DONE
    why: str = ""
    findings: dict = field(default_factory=dict)
    numbers: dict = field(default_factory=dict)
    arrays: dict = field(default_factory=dict)
    jobs: list = field(default_factory=list)
    operations: int = 0
    seconds: float = 0.0
    budget_s: float | None = None
    out_of_time: bool = False
    test: str = ""
    title: str = ""

    def save(self, folder, stem):
        """Stores the arrays first, so that a JSON file is complete once it exists."""
        plain = {k: v for k, v in asdict(self).items() if k != "arrays"}
        text = json.dumps(plain, indent=1, default=_plain, allow_nan=False)
        arrays, rest = folder / f"{stem}.npz", folder / f"{stem}.json"
        with whole(*[arrays] * bool(self.arrays), rest) as parts:
            parts[-1].write_text(text + "\n", encoding="utf-8")
            if self.arrays:
                with parts[0].open("wb") as handle:
                    np.savez_compressed(handle, **self.arrays)
        if not self.arrays:
            arrays.unlink(missing_ok=True)      # of an earlier result

    @classmethod
    def load(cls, folder, stem):
        """A stored result with its arrays, or None; Refused if it cannot be read."""
        path = folder / f"{stem}.json"
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            plain["findings"] = {k: Finding(**v) for k, v in plain["findings"].items()}
            result = cls(**plain)
            path = folder / f"{stem}.npz"
            if path.exists():
                with np.load(path) as arrays:
                    result.arrays = dict(arrays)
        except FileNotFoundError:
            return None
        except (OSError, EOFError, zipfile.BadZipFile, ValueError, TypeError, KeyError,
                AttributeError) as error:
            raise Refused(f"{path} is damaged or of another version ({error}); without it and "
                          f"{stem}.json this test is made again") from error
        return result


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not for JSON")


def stem(test_id):
    """File name of a test's results: 6 -> t06, 1abc -> t01abc, clean -> tclean."""
    digits = test_id[:len(test_id) - len(test_id.lstrip("0123456789"))]
    return f"t{int(digits):02}{test_id[len(digits):]}" if digits else f"t{test_id}"


def untold(test_id, why, out_of_time=False):
    """The Result of a test that has no answer: each question that it answers is "cannot tell",
    for the reason @why."""
    return Result(UNTOLD, why, out_of_time=out_of_time, findings={
        name: Finding.unknown(why) for name, (_, _, tests) in report_text.ANSWERS.items()
        if test_id in tests.split()})


@dataclass
class Scale:
    """The sizes of the tests.

    region_bytes  region of Test 1, 1 GiB: small, so that it has one cache only
    pause_s       time in which an aggressive drive begins to clean and cleans a band
    long_pause_s  pause of Test 4, in which the drive cleans many bands
    writes        random writes of Test 1
    many          random blocks of Test 4; 4,096 in the thesis (Aghayev 2020)
    few           random blocks of Test 5; 128 in the thesis
    max_ops       writes after which Tests 6 to 8 give up
    max_s         seconds of the device's clock after which they give up
    band_guess_bytes, grain_bytes   b and a of Test 11
    """
    name: str
    region_bytes: int
    pause_s: float
    long_pause_s: float
    writes: int
    many: int
    few: int
    max_ops: int
    max_s: float
    band_guess_bytes: int
    grain_bytes: int


def _power_of_two(value):
    return 1 << max(0, int(math.floor(math.log2(max(1, value)))))


def scale_for(name, size):
    """The scale of that name for a device of @size bytes."""
    if name == "paper":
        return Scale(name, GIB, 5, 600, 256, 4096, 128, 30_000_000, 7 * 86400,
                     50 * MIB, MIB)
    # The drive of the thesis has 3,900 regions of 1 GiB.  On a small drive, 64 regions leave room
    # for the blocks.
    region = min(GIB, max(MIB, _power_of_two(size // 64)))
    # Caches have 1 to 10 % of a drive.
    return Scale(name, region, 5, 60 if size < 100 * GIB else 600, 256,
                 int(min(4096, max(48, size // BLOCK // 400))), 128,
                 int(min(30_000_000, max(4096, size // BLOCK // 5))), 4 * 86400,
                 min(50 * MIB, max(16 * BLOCK, _power_of_two(size // 512))),
                 min(MIB, max(BLOCK, _power_of_two(size // 512 // 32))))


class Session:
    """One drive and one folder of results."""


    # Time budget of a test if none is given: a multiple of its estimate, which does not know the
    # drive, but at least LEAST_BUDGET_S; the pauses of Tests 5 and 12 may add up to 40 minutes.
    BUDGET_TIMES, LEAST_BUDGET_S = 5, 3600

    def __init__(self, dev, out, *, scale="auto", seed=1, allow_reset=False,
                 powercut="", load=None, say=print, show=None, budget=None,
                 clock=time.monotonic):
        """@budget: seconds for each test, None for budget_of() to choose; @clock: a monotonic
        clock, in seconds."""
        self.budget, self.clock = budget, clock
        self._time = None               # the Clock of the test that runs
        self.powercut = powercut        # command that cuts the drive's power, for Test 13
        self.dev, self.out, self.seed = dev, Path(out), seed
        self.out.mkdir(parents=True, exist_ok=True)
        self.scale = scale if isinstance(scale, Scale) else scale_for(scale, dev.bytes)
        self.allow_reset = allow_reset
        self.load = load or loads.Fio(dev.path, self.out / "jobs",
                                       getattr(dev, "held", None))
        self.say = say
        self._show = show or (lambda done, total: None)
        self._sleep = getattr(self.load, "sleep", time.sleep)
        self._test, self._jobs, self._operations = "", [], 0
        self.results = {}
        self._told = {}

    def rng(self, test_id):
        """Random numbers for a test: the same in each run with the same seed."""
        return np.random.default_rng([self.seed, zlib.crc32(test_id.encode())])

    def progress(self, done, total):
        """Reports how far the test is; raises OutOfTime if its budget is used up."""
        self._check()
        self._show(done, total)

    def budget_of(self, test):
        """Seconds that a test may take."""
        if self.budget:
            return self.budget
        # quick.ReadOnly has no estimate: it reads a few blocks.
        expected = test.estimate(self) if hasattr(test, "estimate") else 0
        return max(self.LEAST_BUDGET_S, self.BUDGET_TIMES * expected)

    def unfinished(self, test):
        """Whether a test has no result, or one that may change if it is made again: it failed,
        or it was out of time with a smaller budget."""
        result = self.results.get(test.ID)
        return result is None or result.status == FAILED or (
            result.out_of_time and self.budget_of(test) > (result.budget_s or 0))

    def _check(self, more=0.0):
        if self._time:
            self._time.check(more)

    # --- what others have found ------------------------------------------------

    def finding(self, name):
        """The most confident Finding of that name with a value, or None."""
        found = [r.findings[name] for r in self.results.values()
                 if name in r.findings and r.findings[name].value is not None]
        return max(found, key=lambda f: f.confidence, default=None)

    def value(self, name, otherwise=None):
        """The value of that Finding alone."""
        found = self.finding(name)
        return otherwise if found is None else found.value

    # --- the drive -------------------------------------------------------------

    def fresh(self):
        """Brings the drive to its default state if the user allows it and the drive can; True if
        done."""
        return bool(self.allow_reset and self.dev.reset())

    @contextlib.contextmanager
    def settings(self, read_ahead=False, look_ahead=False, write_cache=False):
        """Switches settings for the time of the block; yields the names of those that the drive
        does not offer."""
        try:
            with self.dev.settings(self.out / "restore.json", read_ahead=read_ahead,
                                   look_ahead=look_ahead, write_cache=write_cache) as missing:
                yield missing
        finally:
            self.tell_unrestored()

    def tell_unrestored(self):
        """Prints, once, which settings of the drive could not be restored."""
        left = dict(getattr(self.dev, "unrestored", {}))
        if left and left != self._told:
            self.say(f"{self.dev.path}: {' and '.join(left)} could not be set back.  By hand: "
                     f"{self.dev.by_hand()}.  {self.out / 'restore.json'} has what it was, and "
                     "each further test of this --out tries again")
        self._told = left

    def _count(self, name, trace):
        self._operations += len(trace) if trace is not None else 0
        job = f"jobs/{name}.fio"
        if job not in self._jobs:
            self._jobs.append(job)

    def trace(self, name, ops, iodepth=1):
        """Sends the requests of @ops = (write, offset, bytes), arrays or scalars, past the page
        cache; returns a Trace in the same order."""
        self._check()
        trace = self.load.replay(self._name(name), ops, iodepth, self._alive)
        self._count(self._name(name), trace)
        return trace

    def spaced(self, name, offset, gap_s, count, ops):
        """Reads one block with pauses of @gap_s between, then immediately sends @ops; returns
        the actual pauses, in seconds, and the Trace of @ops."""
        self._check(gap_s * count)
        gaps, trace = self.load.spaced(self._name(name), offset, gap_s, count, ops,
                                       self._alive)
        self._count(self._name(name), trace)
        return gaps, trace

    def fio(self, name, **options):
        """Runs a job with these options of fio; returns its Trace (log=False: None)."""
        self._check()
        trace = self.load.job(self._name(name), options, self._alive)
        self._count(self._name(name), trace)
        return trace

    def _name(self, name):
        prefix = stem(self._test) if self._test else "t"
        return name if name.startswith(prefix) else f"{prefix}-{name}"

    def _alive(self, _):
        # fio is running; the exception ends it.
        self._check()
        self._show(None, None)

    def pause(self, seconds, why):
        """Sends nothing for @seconds; OutOfTime at once if the budget ends before that."""
        self._check(seconds)
        self.say(f"  pause of {seconds:g} s: {why}")
        self._sleep(seconds)

    # --- running ---------------------------------------------------------------

    def stored(self, test_id):
        """The result of an earlier run, or None."""
        result = Result.load(self.out, stem(test_id))
        if result is not None:
            self.results[test_id] = result
        return result

    def run(self, test):
        """Runs a test's module and stores its result.

        A test whose time budget is used up, or that meets a quotient which is no number, is
        UNTOLD.  Errors of fio and of the device, and results that cannot be stored, make it
        FAILED.  Other exceptions are the caller's."""
        self._test, self._jobs, self._operations = test.ID, [], 0
        self._time = Clock(self.budget_of(test), self.clock)
        try:
            result = test.run(self)
        except (OutOfTime, NoNumber) as none:
            result = untold(test.ID, str(none), isinstance(none, OutOfTime))
        except (loads.LoadError, OSError) as error:
            result = Result(status=FAILED, why=str(error))
        except ValueError as error:
            # The results of other tests, hours of work, must not be lost.
            result = Result(status=FAILED, why=f"Test {test.ID} can't make sense of what it "
                            f"has measured: {error}")
        spent, self._time = self._time, None
        try:
            return self._keep(test, result, spent)
        except ValueError as error:
            return self._keep(test, Result(FAILED, f"what Test {test.ID} has found can't be "
                                           f"stored: {error}"), spent)

    def _keep(self, test, result, spent):
        result.test, result.title = test.ID, test.TITLE
        result.jobs, result.operations = self._jobs, self._operations
        result.seconds, result.budget_s = spent.spent(), spent.seconds
        result.save(self.out, stem(test.ID))
        self.results[test.ID] = result
        return result
