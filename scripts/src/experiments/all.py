# SPDX-License-Identifier: GPL-2.0
"""Run the commands that measured the documents' figures, one after another, so that only one guest
runs at a time.  scripts/src/experiments/catalogue.py lists them.

  scripts/experiments all --list            names, commands, where figures stand, from which day
  scripts/experiments all                   all of it: many hours
  scripts/experiments all --only torn       one; may be repeated
  scripts/experiments all --resume          skip commands that succeeded with the same sources
  scripts/experiments all --check           run nothing: list the figures that are older than the code
                                      that they depend on; the status is 1 if there are any

The output of each command is kept in build/out/all/NAME.txt.  build/out/all/results.json has for
each the versions, date and time, status, seconds, and the figures as JSON, or the output if the
experiment writes no JSON.  A command with a missing requirement is reported and skipped.  The exit
status is 0 if every command that was run ended with 0.
"""

import json
import os
import platform
import signal
import subprocess
import time
from datetime import date, datetime

from lab import kernels
from lab.cache import TOP, lock, write
from skylight.cli import Screen, length

from experiments import resume, runner
from experiments.catalogue import RESULTS, table

OUT = runner.outputs("all")
USUAL_S = 300           # for a command without a recorded duration


def versions():
    """Return the versions that figures depend on besides the tree: kernels, fio, Python."""
    return {"commit": runner.output("git", "describe", "--always", "--dirty", "--abbrev=12"),
            "kernels": [" ".join(line.split()) for line in kernels.listing()],
            "fio": runner.output("fio", "--version"), "python": platform.python_version()}


# --- are figures older than the code? --------------------------------------------------


def changed(result, top=TOP):
    """Return (day, commit, subject) of the last change to a result's sources; None if git does not
    know."""
    line = runner.output("git", "log", "-1", "--format=%cs%x09%h%x09%s", "--", *result.sources, top=top)
    return tuple(line.split("\t", 2)) if line else None


def check(results, top=TOP):
    """Print the results that are older than their code; return their number."""
    if runner.output("git", "rev-parse", "--git-dir", top=top) is None:
        print("No git history here: when the code changed cannot be told.  Figures were "
              "measured from " + " to ".join(f(r.measured for r in results)
                                             for f in (min, max)) + ".")
        return 0
    older = 0
    print(f"{'name':18} {'measured':10} {'changed':10} by")
    for result in results:
        last = changed(result, top)
        if last is None:
            print(f"{result.name:18} {result.measured:10} {'':10} nothing that git knows of")
        elif last[0] > result.measured:
            older += 1
            print(f"{result.name:18} {result.measured:10} {last[0]:10} {last[1]} {last[2]}")
        elif last[0] == result.measured:
            print(f"{result.name:18} {result.measured:10} {last[0]:10} the same day: "
                  "before or after is not on record")
    print(f"{older} of {len(results)} are older than the code that they depend on")
    return older


# --- running ---------------------------------------------------------------------------


class Run:
    """The requested results, with what results.json knows so far."""

    def __init__(self, out=OUT, screen=None):
        self.out, self.screen = out, screen or Screen()
        self.file = out / "results.json"
        self.known = {}

    def load(self):
        try:
            self.known = json.loads(self.file.read_text(encoding="utf-8"))["results"]
        except (OSError, ValueError, KeyError):
            self.known = {}

    def save(self):
        """Write results.json at once and atomically, because this program may be ended at any
        time."""
        write(self.file, json.dumps({"date": date.today().isoformat(),
                                     "results": self.known}, indent=1) + "\n")

    def usual(self, result):
        """Expected seconds: as long as the last run here, else as recorded in the catalogue."""
        before = self.known.get(result.name, {})
        if before.get("status") == 0:
            return before["seconds"]
        return (result.minutes or USUAL_S / 60) * 60

    def is_known(self, result):
        before = self.known.get(result.name, {})
        return before.get("status") == 0 and \
            before.get("sources") == resume.sources(result.sources)

    def all(self, results, resume):
        """Run the results; return how many failed."""
        bad, left = 0, []
        for result in results:
            if resume and self.is_known(result):
                self.screen.say(f"{result.name}: as before")
            elif result.needs and not os.environ.get(result.needs):
                self.screen.say(f"{result.name}: passed over: {result.needs} is not set")
            else:
                left.append(result)
        for i, result in enumerate(left):
            self.screen.test(f"{result.name} ({i + 1} of {len(left)})", self.usual(result),
                             sum(map(self.usual, left[i + 1:])))
            status, seconds = self.one(result)
            self.save()
            bad += status != 0
            self.screen.say(f"{result.name}: " +
                            ("" if not status else f"ended with status {status}, ") +
                            f"{length(seconds)}, "
                            f"{os.path.relpath(self.out / (result.name + '.txt'))}" +
                            ("" if result.json else "; it writes no JSON, its output is kept"))
        return bad

    def one(self, result):
        """Run one result; return (status, seconds)."""
        text, figures = self.out / f"{result.name}.txt", None
        command = result.command
        if result.needs:
            command = command.replace("DIRECTORY", '"$' + result.needs + '"')
        if result.json == "--json":
            figures = self.out / f"{result.name}.json"
            command += f' --json "{figures}"'
        elif result.json:
            figures = TOP / result.json
        if figures:
            figures.unlink(missing_ok=True)
        sources, began = resume.sources(result.sources), time.monotonic()
        with open(text, "w", encoding="utf-8") as out, \
                subprocess.Popen(["sh", "-c", command], cwd=TOP, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=subprocess.STDOUT,
                                 start_new_session=True) as process:
            try:
                while process.poll() is None:
                    self.screen.show(None, None)
                    time.sleep(.2)
            except BaseException:
                # Also end the guest that the command may have started.
                os.killpg(process.pid, signal.SIGTERM)
                raise
        self.screen.clear()
        seconds = time.monotonic() - began
        record = {"command": result.command, "page": result.page, "section": result.section,
                  "when": datetime.now().isoformat(timespec="minutes"),
                  "versions": versions(), "sources": sources, "status": process.returncode,
                  "seconds": round(seconds, 1)}
        try:
            record["figures"] = json.loads(figures.read_text(encoding="utf-8"))["results"] \
                if figures else None
        except (OSError, ValueError, KeyError):
            record["figures"] = None    # the command failed or did not get that far
        if record["figures"] is None:
            record["output"] = text.read_text(encoding="utf-8", errors="replace")
        self.known[result.name] = record
        return process.returncode, seconds


def show_list(results):
    for r in results:
        minutes = f"{r.minutes:g} min" if r.minutes else "not noted"
        print(f"{r.name:18} {r.measured}  {minutes:>9}  {r.command}\n"
              f"{'':18} {r.page}" + (f', "{r.section}"' if r.section else "") +
              ("" if r.json else "; no JSON") + (f"; needs {r.needs}" if r.needs else ""))


def main():
    p = runner.Parser("all", __doc__, "resume")
    p.add_argument("--list", action="store_true")
    p.add_argument("--check", action="store_true")
    p.add_argument("--table", action="store_true", help="the catalogue as results.rst has it")
    p.add_argument("--only", action="append", metavar="NAME")
    options = p.parse_args()
    names = [r.name for r in RESULTS]
    for name in options.only or ():
        if name not in names:
            p.error(f"'{name}' is none of {', '.join(names)}")
    results = [r for r in RESULTS if not options.only or r.name in options.only]
    if options.table:
        print(table(), end="")
        return 0
    if options.list:
        show_list(results)
        return 0
    if options.check:
        return 1 if check(results) else 0
    OUT.mkdir(parents=True, exist_ok=True)
    run = Run()
    with lock("shows-all"):
        run.load()
        try:
            failed = run.all(results, options.resume)
            runner.keep(options, run.known)
            return 1 if failed else 0
        except KeyboardInterrupt:
            run.screen.say("ended; --resume goes on from here")
            return 130
