# SPDX-License-Identifier: GPL-2.0
"""pytest over guests: one boot for each row of the plan, or for several rows that share one, and a
pytest test for each of their cases.

    from conftest import cases
    @pytest.mark.parametrize("case", cases("exact"))
    def test_exact(case, guests): guests.check(case)
"""

import json
import os
import shlex
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import lab
from guest import suite as guest_suite
from plan import PLAN

TESTS = Path(__file__).resolve().parent
TOP = TESTS.parent


@dataclass(frozen=True)
class Case:
    row: object
    name: str


def cases(suite):
    """Parameters for every case of a suite, over all rows of the plan."""
    out = []
    for row in PLAN:
        if row.suite != suite:
            continue
        marks = [getattr(pytest.mark, m) for m in ("quick", "soak")
                 if getattr(row, m)]
        names = [name for name, _ in guest_suite.listing(row.suite, row.target,
                                                         dict(row.options))]
        for words in row.cases:
            assert any(words in name for name in names), f"{row.id}: no case {words}"
        for name in names:
            if row.cases and not any(words in name for words in row.cases) or \
                    any(words in name for words in row.but):
                continue
            out.append(pytest.param(
                Case(row, name), marks=marks,
                id=f"{row.kernel}-{row.target}-{name}" +
                ("-soak" if row.soak else "")))
    return out


# Start the slow kernels first, so that at the end no processor waits for a long run.
SLOWNESS = ("stock", "backports", "uml-smp", "uml-debug", "uml")


class Guests:
    """Boots the guests in the background from the first test on, a few at a time, the slow
    kernels first. Meanwhile unit tests run in pytest's own process."""

    def __init__(self, config, items):
        self.config = config
        self.wanted = {}
        self.rows = {}
        self.jobs = {}
        self.pool = ThreadPoolExecutor(
            int(os.environ.get("SHINGLE_TEST_GUESTS", "1")))
        self.booted = {}
        for item in items:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            case = params.get("case")
            boots = item.get_closest_marker("boots")
            if isinstance(case, Case):
                row = case.row
                self.wanted.setdefault(row, []).append(case.name)
                rows = self.rows.setdefault(self.key(row), [])
                if row not in rows:
                    rows.append(row)
                self.jobs[self.key(row)] = (row.kernel, partial(self._boot, rows))
            elif boots:
                self.jobs[item.nodeid] = (boots.kwargs["kernel"](**params), partial(
                    self._other, item, boots.kwargs["run"], params))

    @staticmethod
    def key(row):
        """Return the key of the guest that runs a row; rows that share a guest have the same
        one."""
        return (row.kernel, row.clock, row.guest) if row.guest else row

    def begin(self):
        order = sorted(self.jobs.items(), key=lambda job: SLOWNESS.index(job[1][0]))
        self.booted = {key: self.pool.submit(run) for key, (_, run) in order}

    def result(self, job):
        """Return the result of a guest of the plan, or of the guest that a marked test boots."""
        return self.booted[job].result()

    def check(self, case):
        results = self.result(self.key(case.row))[case.row]
        result = results.get(case.name)
        if result is None:
            pytest.fail("the guest ended before this case:\n" +
                        results[None]["why"], pytrace=False)
        for note in result.get("notes", ()):
            print(note)
        self.config.numbers.append((case, result))
        if result["outcome"] == "skipped":
            pytest.skip(result["why"])
        if result["outcome"] == "failed":
            pytest.fail("\n".join([result["why"], "--- kernel log",
                                   *result.get("kernel", ())]), pytrace=False)

    def _other(self, item, run, params):
        begin = time.monotonic()
        result = run(**params)
        self.config.others.append((item, time.monotonic() - begin))
        return result

    def _boot(self, rows):
        """Return {row: {case: result}}. If a guest dies, the remaining rows get another guest."""
        found, left = {}, list(rows)
        while left:
            begin = time.monotonic()
            fresh, done = self._boot_once(left)
            found.update(fresh)
            took = time.monotonic() - begin
            self.config.boots.append(([r for r in left if r in fresh], took, fresh))
            left = [r for r in left if r not in fresh]
            if done.rc not in (0, 1) and not any(
                    r["outcome"] == "failed" for row in fresh.values()
                    for case, r in row.items() if case):
                # All cases had ended before the kernel reported an error.
                self.config.bad_ends.append((rows[0], done))
        return found

    def _boot_once(self, rows):
        """Return the results of the rows that ran, and how the guest ended."""
        first = rows[0]
        with tempfile.TemporaryDirectory(prefix="shingle-test.") as share:
            script = ["status=0"]
            for i, row in enumerate(rows):
                only, out = Path(share, f"only{i}"), Path(share, f"out{i}")
                only.write_text("\n".join(self.wanted[row]), encoding="utf-8")
                out.touch()
                script.append(shlex.join([
                    "tests/guest/suite.py", row.suite, "--target", row.target,
                    "--only", str(only), "--out", str(out),
                    *(f"{k}={v}" for k, v in row.options)]) + " || status=$?")
            done = lab.run(
                "\n".join([*script, "exit $status"]),
                kernel=first.kernel, clock=first.clock, memory=first.memory,
                timeout=sum(row.timeout for row in rows), rw=[share],
                modules=first.modules)
            fresh = {}
            for i, row in enumerate(rows):
                lines = Path(share, f"out{i}").read_text(encoding="utf-8").splitlines()
                if lines or not fresh:
                    fresh[row] = self._results(lines, done)
        return fresh, done

    @staticmethod
    def _results(lines, done):
        found, running = {None: {"outcome": "", "why": str(done)}}, None
        for line in lines:
            entry = json.loads(line)
            running = entry.get("begin", running)
            if "case" in entry:
                found[entry["case"]] = entry
        if running and running not in found:
            found[running] = {"outcome": "failed", "why":
                              f"the guest died in this case: {done}"}
        return found


def pytest_configure(config):
    config.boots, config.numbers, config.bad_ends = [], [], []
    config.others = []
    config.addinivalue_line("markers", "quick: part of tests/run --quick")
    config.addinivalue_line("markers", "soak: only in tests/run --soak")
    config.addinivalue_line("markers", "boots(run=f, kernel=g): f(**params) boots a guest of the "
                            "test's own, of the kernel g(**params)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Drop tests of kernels that were not selected. Tests that are not guests of the plan count as
    quick if they run in user-mode Linux or on this machine."""
    kernels = os.environ.get("SHINGLE_TEST_KERNELS", "").split()
    kept, dropped = [], []
    for item in items:
        params = getattr(item, "callspec", None)
        params = params.params if params else {}
        case, row = params.get("case"), params.get("row")
        kernel = case.row.kernel if isinstance(case, Case) else \
            row[1] if row else "uml-debug" if item.name == "test_kunit" \
            else None
        if not isinstance(case, Case) and kernel in (None, "uml"):
            item.add_marker("quick")
        (kept if not kernels or kernel is None or kernel in kernels
         else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def pytest_sessionfinish(session):
    """Fail the session if a guest ended badly, for example with a leak, after all its cases had
    passed."""
    if session.config.bad_ends:
        session.exitstatus = 1


@pytest.fixture(scope="session", autouse=True)
def guests(request):
    """Boot the guests of the session. Those that have not started when the tests end early are
    cancelled."""
    booter = Guests(request.config, request.session.items)
    booter.begin()
    yield booter
    booter.pool.shutdown(cancel_futures=True)


@pytest.fixture
def guest(request, guests):
    """Return the result of the guest that a marked test boots."""
    return guests.result(request.node.nodeid)


def pytest_runtest_logreport(report):
    if report.when == "call" and "/unit/" in f"/{report.nodeid}":
        Spent.units += report.duration
    if report.failed:
        # Print it at once: a run that is interrupted shows no summary.
        print(f"\n{report.nodeid} failed: {report.longreprtext[-4000:]}", file=sys.__stdout__,
              flush=True)


class Spent:
    """The seconds that unit tests took."""
    units = 0.


def durations(config):
    """Return lines with the seconds of each suite under each kernel, by its cases, and the other
    time of guests: boot, preparation, final checks."""
    table = {}

    def add(suite, kernel, seconds):
        row = table.setdefault(suite, dict.fromkeys((*reversed(SLOWNESS), "host"), 0.))
        row[kernel] += seconds

    for rows, seconds, found in config.boots:
        for row in rows:
            # A virtual clock does not measure real time: the whole time of that guest counts for
            # the suite.
            inside = seconds if row.clock == "virtual" else \
                sum(r.get("seconds", 0) for r in found[row].values())
            add(row.suite, row.kernel, inside)
            seconds -= inside
        add("(guests)", rows[0].kernel, seconds)
    for item, seconds in config.others:
        boots = item.get_closest_marker("boots").kwargs
        add(item.originalname.removeprefix("test_"),
            boots["kernel"](**item.callspec.params if hasattr(item, "callspec") else {}),
            seconds)
    add("unit", "host", Spent.units)
    kernels = list(next(iter(table.values())))
    yield f"{'seconds':14}" + "".join(f"{k:>11}" for k in (*kernels, "all"))
    for suite, row in sorted(table.items(), key=lambda r: -sum(r[1].values())):
        yield f"{suite:14}" + "".join(
            f"{s:11.0f}" if s else f"{'-':>11}" for s in (*row.values(),
                                                         sum(row.values())))
    total = [sum(row[k] for row in table.values()) for k in kernels]
    yield f"{'all':14}" + "".join(f"{s:11.0f}" for s in (*total, sum(total)))


def pytest_terminal_summary(terminalreporter, config):
    """Print the numbers of guests and crash points."""
    write = terminalreporter.write_line
    for row, done in config.bad_ends:
        terminalreporter.section(f"FAILED after the last case: {row.id}")
        write(str(done))
    if config.boots:
        terminalreporter.section("guests")
        for rows, seconds, found in config.boots:
            inside = sum(len(found[row]) - 1 for row in rows)
            write(f"{', '.join(row.id for row in rows):40} {inside:4} cases "
                  f"{seconds:7.1f} s")
    if os.environ.get("SHINGLE_TEST_DURATIONS"):
        terminalreporter.section("where the time goes")
        for line in durations(config):
            write(line)
    points = [(c, r["numbers"]) for c, r in config.numbers
              if r.get("numbers", {}).get("points")]
    if points:
        terminalreporter.section("power cuts")
        write(f"{'workload':44} {'promises':>9} {'crash points':>13} "
              f"{'losses':>7}")
        for case, numbers in points:
            write(f"{case.row.target + ' ' + case.name:44} "
                  f"{numbers['promises']:9} {numbers['points']:13} "
                  f"{numbers['lost']:7}")
        write(f"{'all':44} {sum(n['promises'] for _, n in points):9} "
              f"{sum(n['points'] for _, n in points):13} "
              f"{sum(n['lost'] for _, n in points):7}")
