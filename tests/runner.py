#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Every test: units on this machine, everything else in the lab's kernels.

    tests/run                   what `make check` runs
    tests/run --quick           the same in five to six minutes, one kernel
    tests/run --soak            hours: more seeds, every crash point
    tests/run --suite NAME      unit, kunit, kselftest, exact, replay, faults,
                                bitflip, badtable, fio_verify, filesystems,
                                counters, torn, reset, wcache, idle, skylight,
                                controls, levels, rounds, clean_message, surfaces, kv, stress
    tests/run --kernel NAME     only what runs under that kernel
    tests/run --durations       and say where the time goes, by suite and kernel
    tests/run --guests N        so many guests at a time; else one more than there
                                are processors, for they often wait, and three at
                                most, if memory has 4 GiB for each
    tests/run ... -- ARGS       anything else for pytest
Kernels that are missing are built first (about 25 minutes).
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lab
import plan
from lab import guest, kernels, modules, packages

TESTS = Path(__file__).resolve().parent
TOP = TESTS.parent
SUITES = {
    "unit": ["unit"],
    "kunit": ["lab/test_guests.py::test_kunit"],
    "kselftest": ["lab/test_guests.py::test_script"],
    **{name: [f"lab/test_guests.py::test_{name}"] for name in plan.SUITES},
}
QUICK_KERNELS = ("uml",)
ALL_KERNELS = ("uml", "uml-debug", "uml-smp", "stock", "backports")


def guests():
    """Return the default number of guests at a time; see --guests."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(3, len(os.sched_getaffinity(0)) + 1, memory >> 32))


def gone(seconds):
    """Wait up to @seconds for all children to end, and return whether they have."""
    limit = time.monotonic() + seconds
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return True
        if time.monotonic() >= limit:
            return False
        time.sleep(.02)


def told_to_end(number, _):
    """End the children, then this process. ^C reaches all processes from the terminal, but a
    signal from kill(1) reaches only this one. A runner of guests ends in order once its pytest
    has gone; it gets the signal again only after lab.END_S."""
    for other in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    guest.adopt_orphans()
    for _ in range(2):
        for pid in guest.children():
            os.kill(pid, signal.SIGTERM)
        if gone(lab.END_S):
            break
    guest.reap_orphans()
    sys.exit(128 + number)


def obey_signals():
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup SIGHUP is ignored and stays so.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, told_to_end)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter,
        usage=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--suite", action="append", choices=SUITES)
    parser.add_argument("--kernel", action="append", choices=ALL_KERNELS)
    parser.add_argument("--durations", action="store_true")
    parser.add_argument("--guests", type=int, default=guests())
    parser.add_argument("pytest", nargs="*")
    args = parser.parse_args()

    begin = time.monotonic()
    packages.setup()
    wanted = args.kernel or (QUICK_KERNELS if args.quick else ALL_KERNELS)
    if args.suite != ["unit"]:
        for name in wanted:
            modules.build(kernels.get(name))
    # Before the guests start, make can use all processors.
    for target in "userspace", "test-programs":
        subprocess.run(["make", "-s", kernels.jobs(), "-C", str(TOP), target], check=True)
    print(f"kernels, modules and tools ready after "
          f"{time.monotonic() - begin:.0f} s", flush=True)

    paths = sum((SUITES[s] for s in args.suite or SUITES), [])
    marks = []
    if args.quick:
        marks.append("quick")
    marks.append("soak" if args.soak else "not soak")
    python = packages.VENV / "bin/python3"
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
           "SHINGLE_TEST_KERNELS": " ".join(wanted),
           "SHINGLE_TEST_GUESTS": str(max(1, args.guests)),
           "SHINGLE_TEST_DURATIONS": "1" if args.durations else ""}
    return subprocess.run(
        [str(python), "-m", "pytest", "-c", "pytest.ini",
         "-m", " and ".join(marks), *paths, *args.pytest],
        cwd=TESTS, env=env, check=False).returncode


if __name__ == "__main__":
    obey_signals()
    sys.exit(main())
