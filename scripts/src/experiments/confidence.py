# SPDX-License-Identifier: GPL-2.0
"""Measure how often Skylight's answers are right, against the confidence they state.

  scripts/experiments confidence [--drives 40] [--seed 1]
  scripts/experiments confidence --full-size

Draws --drives small drives, as many with zones and as many for skylight quick. The drives are the
models of the unit tests (scripts/src/experiments/probe_drives.py). The tests examine each, and the
table shows for each kind of answer how many were right, wrong and "cannot tell", the confidence
that the tests stated, and the confidence that the result bears out. An answer with an interval is
right if the interval contains the true value. The exit status is 1 if a kind of answer was stated
too confidently: that many wrong answers would have a chance below 1 % if the stated confidence were
true.

The last lines are the values for stats.MEASURED and MEASURED_OF.  MEASURED_OF is a fingerprint of
the answers about twelve drives of each kind; it changes when the tests answer differently.

--full-size prints what Test 14 says about two of platter's drives at full size, and whether it is
right; the exit status is 1 if it is wrong.  Plateaus are right if there are as many as on the drive
(steps of a hundredth may be seen or missed), each begins within three of the places that were read,
and its speed is within 1 %.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.cache import TOP

from experiments import runner
from experiments.tables import Table

TOO_SURE = 0.01         # chance of that many wrong answers if the confidence were true
STREAMS = ("1", "3", "5", "11", "12", "15")
ZONES = ("14",)
FEW = 12, 3             # drives of each kind, and seed, for fingerprint()


def mark(finding, truth, place=0):
    """Return right, wrong or cannot tell; @place is the distance in bytes between places of Test
    14."""
    from skylight.ground_truth import Plateaus
    if finding is None or finding.value is None:
        return "cannot tell"
    if isinstance(truth, Plateaus):
        good = truth.like(finding.value, place)
    elif finding.low is not None and finding.high is not None and not isinstance(truth, str):
        good = finding.low <= truth <= finding.high
    else:
        good = finding.value == truth
    return "right" if good else "wrong"


def look(drive, chosen, folder):
    """Run the chosen tests, none of which is skipped in favour of another.  Return {name: Finding},
    and the distance in bytes between the places that Test 14 read."""
    import skylight
    from skylight.session import Session
    s = Session(drive, folder, load=drive, say=lambda *_: None)
    for name, test in skylight.tests().items():
        if name in chosen:
            result = s.run(test)
            if result.status == "failed":
                raise SystemExit(f"confidence: Test {name} failed: {result.why}")
    zones = s.results["14"].numbers if "14" in s.results else {}
    return {name: s.results[test].findings[name] for test, names in (
        ("3", ("cleaning_type",)), ("5", ("cleaning_order",)), ("15", ("streaming_bytes",)),
        ("14", ("zone_profile", "serpentine", "track_bytes")))
            for name in names if test in s.results and name in s.results[test].findings}, \
        drive.bytes / zones.get("stretches", 1)


def look_quickly(drive, start, size, folder):
    """Run skylight quick; return (whether the whole part could be filled, Finding)."""
    from skylight import quick, scratch, verdict
    from skylight.clock import Clock
    s = quick.session(scratch.Part("model", start, size, drive, "it"), folder, drive,
                      Clock(quick.SECONDS, lambda: drive.disk.now / 1e6),
                      say=lambda *_: None)
    quick.write(s)
    filled = s.results.get("filled")
    return bool(filled) and filled.numbers.get("filled") == "all", \
        verdict.answers(s.results)["drive_type"]


def drawn_quickly(count, seed, out, done):
    """Draw drives for skylight quick, which is less sure when it filled only a part; add marks to
    @out."""
    import numpy as np

    from experiments import probe_drives
    rng = np.random.default_rng(seed)
    for i in range(count):
        drive, start, size, truth = probe_drives.quick_by_lot(rng, seed * 1000 + i)
        with tempfile.TemporaryDirectory() as folder:
            whole, finding = look_quickly(drive, start, size, Path(folder))
        # For an interlaced drive no answer is the best answer.
        if truth == "conventional" or finding.value is not None:
            out.setdefault("filled_all" if whole else "filled_part", []).append(
                (mark(finding, truth), finding.confidence))
        done()


def drawn(count, seed, done=lambda: None):
    """Return {name of an answer: [(mark, stated confidence)]} for @count drives of each kind."""
    import numpy as np

    from experiments import probe_drives
    out = {}
    for lot, chosen in ((probe_drives.streams_by_lot, STREAMS),
                        (probe_drives.zones_by_lot, ZONES)):
        rng = np.random.default_rng(seed)
        for i in range(count):
            drive, truth = lot(rng, seed * 1000 + i)
            with tempfile.TemporaryDirectory() as folder:
                found, place = look(drive, chosen, Path(folder))
            for name, value in truth.items():
                if value is not None:
                    finding = found.get(name)
                    out.setdefault(name, []).append(
                        (mark(finding, value, place), finding.confidence if finding else 0.0))
            done()
    drawn_quickly(count, seed, out, done)
    return out


def fingerprint(seen=None):
    """Return a hash of the answers about a few drives.  It tells whether stats.MEASURED belongs to
    these tests and these drives.  @seen is the result of drawn(*FEW), if known."""
    marks = {name: [m for m, _ in some] for name, some in (seen or drawn(*FEW)).items()}
    return hashlib.sha256(repr(sorted(marks.items())).encode()).hexdigest()[:16]


def full_size():
    """Yield (drive, mark, what Test 14 says about it) for drives at full size."""
    from experiments.probe_drives import FullSize
    subprocess.run(["make", "-s", "-C", TOP / "userspace/platter-sim"], check=True,
                   stdout=subprocess.DEVNULL)
    for profile in FullSize.SECTORS:
        drive = FullSize(TOP / "build/userspace/platter-sim", profile)
        with tempfile.TemporaryDirectory() as folder:
            found, place = look(drive, ZONES, Path(folder))
        yield profile, mark(found["zone_profile"], drive.plateaus(), place), \
            found["zone_profile"].says


def row(seen):
    """Return {mark: count}, the mean stated confidence of the answers, and whether it was too
    high."""
    from skylight import stats
    count = {m: sum(x == m for x, _ in seen) for m in ("right", "wrong", "cannot tell")}
    stated = [c for m, c in seen if m != "cannot tell"]
    mean = sum(stated) / len(stated) if stated else 0.0
    chance = stats.upper_tail(count["wrong"], len(stated), 1 - mean)
    return count, mean, chance < TOO_SURE


def show(seen, options):
    """Print the table; return True if no kind of answer was stated too confidently."""
    from skylight import stats
    good = True
    table = Table("", ["answer", "drives", "right", "wrong", "cannot tell", "stated, %",
                       "borne out, %", ""])
    for name, marks in seen.items():
        count, mean, too_sure = row(marks)
        good &= not too_sure
        table.add(name, str(len(marks)), *(str(count[sign]) for sign in (
            "right", "wrong", "cannot tell")), f"{100 * mean:.1f}",
            f"{100 * stats.borne_out(count['wrong'], count['right'] + count['wrong']):.1f}",
            "STATED TOO SURELY" if too_sure else "")
    runner.show(options, table)
    print("MEASURED = " + str({name: (sum(m == "wrong" for m, _ in marks),
                                      sum(m != "cannot tell" for m, _ in marks))
                               for name, marks in seen.items()}))
    return good


def main():
    p = runner.Parser("confidence", __doc__, "seed")
    p.add_argument("--drives", type=int, default=40, help="drives of each kind (40)")
    p.add_argument("--full-size", action="store_true",
                   help="instead: Test 14 of whole drives of platter's")
    options = p.parse_args()
    if options.drives < 1:
        p.error(f"--drives {options.drives}: of none nothing can be said")
    if options.full_size:
        found = {}
        for profile, sign, says in full_size():
            print(f"{profile}: {sign}: {says}", flush=True)
            found[profile] = sign, says
        runner.keep(options, found)
        return int("wrong" in {sign for sign, _ in found.values()})
    made, begin = 0, time.monotonic()

    def done():
        nonlocal made
        made += 1
        if sys.stderr.isatty():
            left = (time.monotonic() - begin) / made * (3 * options.drives - made)
            print(f"\r{made} of {3 * options.drives} drives, {left:.0f} s left ", end="",
                  file=sys.stderr)
    seen = drawn(options.drives, options.seed, done)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    runner.keep(options, seen)
    good = show(seen, options)
    print(f"MEASURED_OF = {fingerprint()!r}")
    return 0 if good else 1
