# SPDX-License-Identifier: GPL-2.0
"""Decides what kind of drive it is, within five minutes and without destroying data.

First it reads what the drive reports about itself (drive_properties.py).  Then it tests a scratch file or
an area that may be overwritten: Test 1; if blocks go elsewhere, Test 11 in the time that is
left; if they stay, whether a write rewrites its neighbours (tfilled_neighbours.py).  Tests 1 and 11
decide as in `skylight run` and take the part for the drive.  A device without such an area is
only read, which shows no more than whether it has a head."""

import re
from dataclasses import asdict, dataclass, replace

import numpy as np

from . import report, drive_properties, stats, t01_translation, t11_band_size, tfilled_neighbours, verdict, report_text
from .places import Places
from .scratch import Within
from .session import (BLOCK, DONE, FAILED, SKIPPED, UNTOLD, Finding, Result, Session, scale_for,
                      stem)

SECONDS = 300
TESTS = (t01_translation, t11_band_size, tfilled_neighbours)     # the tests that leave results
ASKED = 32                  # blocks that are read where only reading is allowed
DRIVE, MEASURED, READ = "the drive", "measured", "reading alone"


@dataclass
class Answer:
    """shingled, translated, conventional or None; @basis: whether the drive reported it or it
    was measured.

    The drive's own report has no confidence, since its error rate is unknown."""
    value: str | None
    confidence: float | None
    basis: str
    says: str

    def sentence(self):
        """The answer as a sentence."""
        if self.value is None:
            return f"Whether this drive is shingled can't be told: {self.says}."
        said = re.sub("</?b>", "", dict(report_text.SENTENCES)["drive_type"][self.value])
        sure = "as the drive says itself" if self.confidence is None else \
            report.sure(self.confidence)[0]
        return f"{said} ({sure}): {report.grouped(self.says)}."


class ReadOnly:
    """Takes the place of Test 1 where only reading is allowed."""
    ID, TITLE = t01_translation.ID, t01_translation.TITLE

    @staticmethod
    def run(s):
        """Whether there is a head, and the rotation time of the medium below it."""
        blocks = s.dev.bytes // BLOCK
        some = (s.rng("quick").choice(blocks, ASKED, replace=False)).astype(np.uint64) * BLOCK
        with s.dev.settings(s.out / "restore.json", read_ahead=False, look_ahead=False):
            places = Places(s, int(s.dev.bytes * 0.5))
            places.calibrate(some)
        turn = places.rotation_us
        return Result(SKIPPED, "nothing was written", findings={
            "drive_type": Finding.unknown(
                places.why or "reading alone does not show where a block goes when it is "
                "written: name an --area that may be overwritten, or a directory on it"),
            "rotation_ms": Finding(turn / 1000, "ms", confidence=stats.SURE) if turn else
            Finding.unknown("reading one block again and again does not take a rotation", "ms")})


class Hurried(Session):
    """A Session that does not announce its pauses."""

    def budget_of(self, test):
        """No test may take more than all of them together."""
        return min(super().budget_of(test), self.load.clock.seconds)

    def pause(self, seconds, why):
        self._check(seconds)
        self._sleep(seconds)


def session(part, out, load, clock, **more):
    """A Session on a part of scratch.py that ends with the clock."""
    return Hurried(part, out, scale=scale(part.bytes),
                   load=Within(load, part.start, part.bytes, clock), clock=clock.now, **more)


def scale(size):
    """The scale for a part of @size bytes.  Pauses begin short: they grow on drives that need
    more."""
    return replace(scale_for("auto", size), pause_s=1, long_pause_s=5)


def write(s, progress=lambda text: None):
    """Runs the tests that write; the session keeps the Results."""
    progress("is a block where it was, after writing?")
    one = run(s, t01_translation, "drive_type")
    if one.status != DONE:
        return
    if one.findings["drive_type"].value != "conventional" and \
            any(spot["telling"] for spot in one.numbers["spots"].values()):
        progress("is it cleaned in bands?")
        run(s, t11_band_size, "band_bytes", "bytes")
    # Test 11 may have seen that blocks stay where Test 1 could not tell.
    if verdict.answers(s.results)["drive_type"].value == "conventional":
        progress("does a write take others with it?")
        run(s, tfilled_neighbours, "drive_type", against="conventional")


def run(s, test, name, unit="", against=None):
    """Runs a test.  If it fails, or ends without an answer, its question @name has none, and the
    answer is not @against, whatever another test says."""
    result = s.run(test)
    if result.status in (FAILED, UNTOLD):
        result.findings[name] = Finding.unknown(result.why, unit, against)
        result.save(s.out, stem(test.ID))
    return result


def answer(said, results, basis=MEASURED):
    """The Answer from the drive's own report (or None) and from what was measured."""
    kind = verdict.answers(results).get("drive_type") or Finding.unknown(
        next((r.why for r in results.values() if r.why), "nothing was measured"))
    seen = Answer(kind.value, kind.confidence if kind.value else 0.0, basis, kind.says)
    if not said or not said["zones"]:
        if basis == READ and said and drive_properties.trims(said) and drive_properties.spins(said) and not said["layer"]:
            seen.says += "; it has platters and takes TRIM, which a drive has a use for that " \
                "keeps a map of what is where"
        return seen
    zones = f"it reports {said['zones']} zones"
    if drive_properties.spins(said) is False:
        return Answer(None, 0.0, DRIVE, f"{zones}, but has no platters, and nothing that overlaps")
    also = f"; what was measured is {kind.value}" if kind.value else ""
    return Answer("shingled", None, DRIVE, zones + also)


def as_json(found, said, s, what, clock, versions):
    """Everything, for machines."""
    return {"answer": found.value, "confidence": found.confidence, "basis": found.basis,
            "sentence": found.sentence(), "says_of_itself": said, "where": what,
            "seconds": round(clock.spent(), 1), "versions": versions,
            "findings": {k: asdict(f) for k, f in verdict.answers(s.results).items()}
            if s else {}}
