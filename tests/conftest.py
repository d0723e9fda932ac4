# SPDX-License-Identifier: GPL-2.0
"""pytest over guests: one boot for each (kernel, suite, target), a pytest test
for each case in it.

    from conftest import cases
    @pytest.mark.parametrize("case", cases("exact"))
    def test_exact(case, guests): guests.check(case)
"""

import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
TOP = TESTS.parent
sys.path[:0] = [str(TESTS), str(TESTS / "guest"), str(TOP / "scripts/lab")]
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position,import-error
import lab
import suite as guest_suite
from plan import PLAN


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
        for name, _ in guest_suite.listing(row.suite, row.target,
                                           dict(row.options)):
            out.append(pytest.param(
                Case(row, name), marks=marks,
                id=f"{row.kernel}-{row.target}-{name}" +
                ("-soak" if row.soak else "")))
    return out


class Guests:
    """Boots the guests in the order of their tests, a few at a time, from when
    the first result is asked for."""

    def __init__(self, config, items):
        self.config = config
        self.wanted = {}
        self.jobs = {}
        self.pool = ThreadPoolExecutor(
            int(os.environ.get("SHINGLE_TEST_GUESTS", "1")))
        self.booted = {}
        for item in items:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            case = params.get("case")
            boots = item.get_closest_marker("boots")
            if isinstance(case, Case):
                self.wanted.setdefault(case.row, []).append(case.name)
                self.jobs[case.row] = partial(self._boot, case.row)
            elif boots:
                self.jobs[item.nodeid] = partial(boots.kwargs["run"], **params)

    def result(self, job):
        """Of a row of the plan, or of a test that is marked with what boots."""
        if not self.booted:
            self.booted = {key: self.pool.submit(run)
                           for key, run in self.jobs.items()}
        return self.booted[job].result()

    def check(self, case):
        results = self.result(case.row)
        result = results.get(case.name)
        if result is None:
            pytest.fail("the guest ended before this case:\n" +
                        str(results[None]), pytrace=False)
        for note in result.get("notes", ()):
            print(note)
        self.config.numbers.append((case, result))
        if result["outcome"] == "skipped":
            pytest.skip(result["why"])
        if result["outcome"] == "failed":
            pytest.fail("\n".join([result["why"], "--- kernel log",
                                   *result.get("kernel", ())]), pytrace=False)

    def _boot(self, row):
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="shingle-test.") as share:
            only, out = Path(share, "only"), Path(share, "out")
            only.write_text("\n".join(self.wanted[row]), encoding="utf-8")
            out.touch()
            done = lab.run(
                ["tests/guest/suite.py", row.suite, "--target", row.target,
                 "--only", str(only), "--out", str(out),
                 *(f"{k}={v}" for k, v in row.options)],
                kernel=row.kernel, clock=row.clock, memory=row.memory,
                timeout=row.timeout, rw=[share],
                modules=row.modules)
            found, running = {None: done}, None
            for line in out.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                running = entry.get("begin", running)
                if "case" in entry:
                    found[entry["case"]] = entry
            if running and running not in found:
                found[running] = {"outcome": "failed", "why":
                                  f"the guest died in this case: {done}"}
            elif done.rc not in (0, 1):
                # All cases had ended, and then the kernel reported something.
                self.config.bad_ends.append((row, done))
        self.config.boots.append((row, time.monotonic() - begin, len(found)))
        return found


def pytest_configure(config):
    config.boots, config.numbers, config.bad_ends = [], [], []
    config.addinivalue_line("markers", "quick: part of tests/run --quick")
    config.addinivalue_line("markers", "soak: only in tests/run --soak")
    config.addinivalue_line("markers", "boots(run=f): f(**params) boots a guest of the test's own")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leaves out kernels that tests/run was not asked for; small things that
    are no guest of the plan count as quick where they run in user-mode Linux
    or on this machine."""
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
    """A guest whose cases all passed may still have ended badly: a leak."""
    if session.config.bad_ends:
        session.exitstatus = 1


@pytest.fixture(scope="session")
def guests(request):
    """Ends with those guests that run already, if the tests end early."""
    booter = Guests(request.config, request.session.items)
    yield booter
    booter.pool.shutdown(cancel_futures=True)


@pytest.fixture
def guest(request, guests):
    """What the guest of a test says that is marked with what boots it."""
    return guests.result(request.node.nodeid)


def pytest_terminal_summary(terminalreporter, config):
    """What was tried, in numbers: guests, crash points."""
    write = terminalreporter.write_line
    for row, done in config.bad_ends:
        terminalreporter.section(f"FAILED after the last case: {row.id}")
        write(str(done))
    if config.boots:
        terminalreporter.section("guests")
        for row, seconds, count in config.boots:
            write(f"{row.id:40} {count - 1:4} cases {seconds:7.1f} s")
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
