# SPDX-License-Identifier: GPL-2.0
"""Finds out from outside how a drive works: whether it is shingled, where its cache is and how
large, how it cleans, how large its bands are.  The time that requests take shows this; only
quick also reads what the drive reports about itself.

RUN OVERWRITES EVERYTHING ON THE DEVICE.  Quick destroys nothing."""

import argparse
import contextlib
import dataclasses
import json
import platform
import re
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import skylight

from . import load, drive_properties, session, verdict, report_text
from common.output import store

from .device import Device, Refused, Seen

USAGE, FAILED, INTERRUPTED = 2, 1, 130
# Arguments that --resume takes from the earlier run.
BEGUN_WITH = ("tests", "scale", "seed", "reset", "max_hours", "budget")
SCALES = ("auto", "paper")
# Has the version of the suite; an installation keeps it beside the probes.
OWN = Path(__file__).resolve().parents[2] / "dkms.conf"
OWN = OWN if OWN.exists() else OWN.parents[1] / "dkms.conf"
EXAMPLES = """examples:
  scripts/skylight run /dev/sdX                    every test that the drive lends itself to
  scripts/skylight run /dev/sdX --tests 1-3,11     some
  scripts/skylight run /dev/sdX --resume           goes on where it was interrupted
  scripts/skylight report DIR                      DIR/report.html
  scripts/skylight compare DIR1 DIR2               two drives side by side
  scripts/skylight quick /dev/sdX                  what it says of itself; only read
  scripts/skylight quick /home                     in five minutes, by a scratch file there
  scripts/skylight explain /dev/sdX                was it cleaning, when it stood still?
"""


def seed(text):
    """A seed for random numbers, from the command line."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number from 0 on")
    return int(text)


def budget(text):
    """A time budget in seconds, from the command line."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"a budget of {text} s is no time")
    return seconds


BUDGET = (f"seconds that each test may take ({session.Session.BUDGET_TIMES} times what it is "
          f"expected to, {session.Session.LEAST_BUDGET_S} s at least); a test that takes longer "
          "ends with 'cannot tell', and the next one begins")


def parser():
    """The parser of scripts/skylight."""
    top = argparse.ArgumentParser(
        prog="skylight", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("-V", "--version", action="version", version=f"skylight {release()}",
                     help="print the version")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="test a drive; overwrites it")
    run.add_argument("device", metavar="DEV", help="a block device")
    run.add_argument("--tests", metavar="LIST", default=None,
                     help="the tests to run, for example 1,2,6-8,clean (all)")
    run.add_argument("--scale", default="auto", choices=SCALES,
                     help="sizes and pauses by the size of the drive (auto), or those of "
                          "the thesis")
    run.add_argument("--out", metavar="DIR", type=Path,
                     help="directory for results (skylight-DEV here); if it has some of "
                          "this drive, the run continues with the other tests")
    run.add_argument("--destroy-data", action="store_true",
                     help="accept a device that holds a file system, partitions or the like; "
                          "never one that is in use")
    run.add_argument("--reset", action="store_true",
                     help="tests may bring the drive to its first state, by secure erase "
                          "(message reset) or discard.  A discard unmaps thin "
                          "volumes and punches holes into the files of loop devices: Test 11 is "
                          "not run there, and the report says so")
    more = run.add_mutually_exclusive_group()
    more.add_argument("--again", action="store_true", help="repeat tests that have results")
    more.add_argument("--resume", action="store_true",
                      help="continue the run in --out: with its tests, scale, seed, limits "
                           "and --reset, unless others are given; an error if there is none")
    run.add_argument("--seed", type=seed, default=1, help="seed of all random numbers (1)")
    run.add_argument("--max-hours", type=float, metavar="H",
                     help="Tests 6 to 8 give up after this time")
    run.add_argument("--budget", type=budget, metavar="N", help=BUDGET)
    run.add_argument("--powercut", metavar="COMMAND", default="",
                     help="for Test 13: a command that cuts the drive's power and returns "
                          "when the drive is back")
    run.add_argument("--truth", action="store_true",
                     help="for developers: afterwards, compare the answers with the target")
    run.add_argument("--json", action="store_true", help="print the answers as JSON")
    report = commands.add_parser("report", help="write DIR/report.html and DIR/report.json")
    report.add_argument("folder", metavar="DIR", type=Path)
    compare = commands.add_parser("compare", help="several results side by side")
    compare.add_argument("folders", metavar="DIR", type=Path, nargs="+")
    compare.add_argument("--out", metavar="HTML", type=Path, default=Path("compare.html"))
    quick = commands.add_parser("quick", help="what kind of drive, in five minutes; destroys "
                                "nothing")
    quick.add_argument("where", metavar="DEV|DIR|FILE",
                       help="a block device, which is only read; or a directory of a mounted file "
                            "system, or a file that does not exist yet: a scratch file is "
                            "written and removed")
    quick.add_argument("--area", metavar="START+LENGTH",
                       help="the part of DEV that may be overwritten, as 10G+1G; refused if DEV is "
                       "in use")
    quick.add_argument("--write", action="store_true",
                       help="the whole of DEV may be overwritten, if it holds nothing")
    quick.add_argument("--seconds", type=float, metavar="N", default=300,
                       help="time budget of all tests together (300, which is the most)")
    quick.add_argument("--budget", type=budget, metavar="N", help=BUDGET + "; --seconds limits all "
                       "tests together")
    quick.add_argument("--out", metavar="DIR", type=Path,
                       help="directory for what was measured (skylight-quick-NAME here), for "
                       "skylight report")
    quick.add_argument("--seed", type=seed, default=1, help="seed of all random numbers (1)")
    quick.add_argument("--json", action="store_true", help="print the answer as JSON")
    explain = commands.add_parser("explain", help="watch a drive at work: which stalls were "
                                  "cleaning?")
    explain.add_argument("device", metavar="DEV", help="a block device; nothing is sent to it")
    explain.add_argument("--seconds", "--budget", type=float, metavar="N", default=0,
                         help="time budget, after which it ends with a message (until ^C)")
    explain.add_argument("--json", action="store_true", help="print the summary as JSON")
    return top


class Screen:
    """Shows progress and the time left on a terminal; on a pipe only lines."""

    def __init__(self, stream=sys.stderr):
        self.stream = stream
        self.live = stream.isatty()
        self.head, self.begin, self.expected, self.later = "", 0.0, 0.0, 0.0
        self.part, self.shown = None, 0.0

    def test(self, head, expected, later):
        """Call when a test begins that will take @expected seconds, and the later ones @later."""
        self.head, self.expected, self.later = head, expected, later
        self.begin, self.part = time.monotonic(), None

    def show(self, done, total):
        """Shows that @done of @total of the test are done; None, None: it is still running."""
        if total:
            self.part = done / total
        now = time.monotonic()
        if not self.live or now - self.shown < 0.2:
            return
        self.shown = now
        passed = now - self.begin
        left = max(0.0, self.expected - passed)
        if self.part and passed > 2:
            left = passed * (1 - self.part) / self.part
        share = f" {100 * self.part:3.0f} %" if self.part is not None else ""
        self.stream.write(f"\r\033[K{self.head}{share}, {length(passed)} so far, about "
                          f"{length(left)} left ({length(left + self.later)} for all)")
        self.stream.flush()

    def clear(self):
        """Removes the line of progress."""
        if self.live:
            self.stream.write("\r\033[K")
            self.stream.flush()

    def say(self, text):
        """Prints a line that stays."""
        self.clear()
        self.stream.write(text + "\n")
        self.stream.flush()


def length(seconds):
    """A duration in words."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def default_out(device):
    """The folder for results if --out is not given."""
    return Path(f"skylight-{Path(device).name}")


def release():
    """The version of skylight, or None if it is unknown."""
    try:
        return re.search(r'^PACKAGE_VERSION="(.*)"', OWN.read_text(encoding="utf-8"), re.M)[1]
    except (OSError, TypeError):
        return None


def versions():
    """Versions of everything that results depend on beside the drive; None for an unknown one."""
    try:
        fio = subprocess.run(["fio", "--version"], capture_output=True, text=True,
                             check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        fio = None
    return {"skylight": release(), "kernel": platform.release(), "fio": fio}


def same_drive(had, identity):
    """Whether @had, a run.json, is of that drive."""
    of = had.get("device") or {}
    return all(of.get(k) == identity[k] for k in ("bytes", "label", "serial"))


def begun(out):
    """The run.json in @out, {} if there is none; Refused if it cannot be read."""
    path = out / "run.json"
    try:
        had = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read: {error}") from error
    if not isinstance(had, dict) or not isinstance(had.get("device", {}), dict):
        raise Refused(f"{path} is not of skylight")
    for name, sound in SOUND.items():
        if name in had and not sound(had[name]):
            raise Refused(f"{path} is damaged or of another version: {name} {had[name]}")
    return had


def whole_number(value):
    """Whether it is a number from 0 on; Python counts True and False as integers."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# Checks of what a later run takes from run.json.
SOUND = {
    "tests": lambda v: v is None or isinstance(v, str),
    "scale": lambda v: v in SCALES,
    "seed": whole_number,
    "reset": lambda v: isinstance(v, bool),
    "max_hours": lambda v: v is None or whole_number(v) or
    isinstance(v, float) and 0 < v < float("inf"),
    "budget": lambda v: v is None or isinstance(v, (int, float)) and not isinstance(v, bool) and
    0 < v < float("inf"),
    "versions": lambda v: isinstance(v, list) and all(isinstance(one, dict) for one in v),
}


def recall(args):
    """For --resume: sets the arguments of the earlier run where none are given."""
    out = args.out or default_out(args.device)
    had = begun(out)
    if not had or had.get("quick"):
        raise Refused(f"{out} has no run to go on with; name its --out, or leave --resume out")
    given = parser().parse_args(["run", args.device])
    for name in BEGUN_WITH:
        if getattr(args, name) == getattr(given, name):
            setattr(args, name, had.get(name, getattr(given, name)))


def remember(out, dev, args, scale, **more):
    """Writes run.json, with @more; Refused if DIR holds results of another drive or scale."""
    path = out / "run.json"
    device = {"path": dev.path, "model": dev.label, **dev.identity()}
    info = {"name": dev.label, "device": device, "sizes": dataclasses.asdict(scale),
            **{name: getattr(args, name, None) for name in BEGUN_WITH},
            "begun": datetime.now().isoformat(" ", "seconds"), "versions": [versions()],
            **more}
    had = begun(out)
    if had:
        if not same_drive(had, device):
            raise Refused(f"{out} holds results of another drive "
                          f"({had.get('device', {}).get('path')}); choose another --out")
        if any(had.get(name) != info[name] for name in ("scale", "seed", "sizes")):
            raise Refused(f"{out} holds results with another scale, seed or limit; take "
                          "the same (see run.json), or another --out")
        info["begun"] = had.get("begun", info["begun"])
        # Several versions may have made the tests of one folder: keep all, the latest last.
        info["versions"] = [v for v in had.get("versions", ()) if v not in info["versions"]] + \
            info["versions"]
    try:
        out.mkdir(parents=True, exist_ok=True)
        store(path, json.dumps(info, indent=1) + "\n")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def command_run(args):
    """Tests a drive; returns the exit status."""
    known = skylight.tests()
    if args.resume:
        recall(args)
    if args.max_hours is not None and not 0 < args.max_hours < float("inf"):
        raise Refused(f"--max-hours {args.max_hours:g}: more than none")
    try:
        chosen = skylight.choose(args.tests, known) if args.tests else list(known)
    except ValueError as error:
        raise Refused(str(error)) from error
    load.Fio(args.device, Path()).require()
    dev = Device(args.device, args.destroy_data)
    try:
        return run_on(dev, args, [known[test] for test in chosen], known)
    finally:
        dev.close()


def run_on(dev, args, tests, known):
    """Runs tests on an open device; returns the exit status."""
    out = args.out or default_out(dev.path)
    scale = session.scale_for(args.scale, dev.bytes)
    if args.max_hours:
        scale.max_s = 3600 * args.max_hours
    remember(out, dev, args, scale)
    screen = Screen()
    restored = dev.restore_from(out / "restore.json")
    if restored:
        screen.say(f"settings of the run that was killed are restored: {', '.join(restored)}")
    s = session.Session(dev, out, scale=scale, seed=args.seed, allow_reset=args.reset,
                        powercut=args.powercut, say=screen.say, show=screen.show,
                        budget=args.budget)
    s.tell_unrestored()
    for test in known:
        s.stored(test)
    todo = [t for t in tests if args.again or s.unfinished(t)]
    screen.say(f"{dev.path}: {dev.label}, {dev.bytes / 1e9:.3f} GB; results go to {out}")
    if len(todo) < len(tests):
        screen.say(f"{len(tests) - len(todo)} tests have results already")
    for i, test in enumerate(todo):
        screen.test(f"Test {test.ID}", test.estimate(s),
                    sum(t.estimate(s) for t in todo[i + 1:]))
        screen.say(f"Test {test.ID}: {test.TITLE} (about {length(test.estimate(s))})")
        result = s.run(test)
        for line in told(result):
            screen.say("  " + line)
    return conclude(s, args, screen)


def told(result):
    """Lines about the findings of a test, in the words and units of the report."""
    from . import report
    if result.status != session.DONE:
        yield f"{result.status}: {result.why}"
    for name, finding in result.findings.items():
        of = dataclasses.asdict(finding)
        question = report_text.ANSWERS.get(name, ("", name.replace("_", " ")))[1]
        within = report.interval(of, name)
        sure = f" ({f'{within}, ' if within else ''}{report.sure(finding.confidence)[0]})" \
            if report.known(of) else ""
        yield f"{question}{'' if question.endswith('?') else ':'} " \
            f"{report.value(finding.value, finding.unit, name)}{sure}" + \
            (f": {report.grouped(finding.says)}" if finding.says else "")


def conclude(s, args, screen):
    """Writes the report of all results; returns the exit status."""
    from . import report
    if args.truth:
        from . import ground_truth
        for line in ground_truth.write(s):
            screen.say(line)
    page, _ = report.write(s.out)
    screen.say(f"report: {page}")
    if args.json:
        found = verdict.answers(s.results)
        print(json.dumps({k: dataclasses.asdict(f) for k, f in found.items()}, indent=1))
    failed = [t for t, r in s.results.items() if r.status == session.FAILED]
    return FAILED if failed else 0


def command_quick(args):
    """Decides what kind of drive it is, in minutes; returns the exit status."""
    from . import quick, scratch
    from .clock import Clock
    if not 0 < args.seconds <= quick.SECONDS:
        raise Refused(f"--seconds {args.seconds:g}: more than 0, and {quick.SECONDS} at most")
    part = quick_part(args, scratch)
    try:
        load.Fio(part.path, Path(), named=part.named).require()
        return quick_on(part, args, quick, Clock(args.seconds))
    finally:
        part.close()


def quick_part(args, scratch):
    """The part that may be read or written, see scratch.py."""
    where = Path(args.where)
    if where.is_block_device():
        if args.area or args.write:
            return scratch.area(where, args.area)
        dev = Seen(where)
        return scratch.Part(dev.path, 0, dev.bytes // session.BLOCK * session.BLOCK, dev,
                            f"{where}, only read")
    if args.area or args.write:
        raise Refused(f"{where} is not a block device; --area and --write are of one")
    return scratch.File(where)


def quick_on(part, args, quick, clock):
    """The same for an opened part."""
    from .clock import OutOfTime
    screen, file = Screen(), hasattr(part, "make")
    said = drive_properties.of(part.sys, part.dev.path)
    out = args.out or Path(f"skylight-quick-{Path(part.dev.path).name}")
    screen.say(f"{part.dev.path}: what it says of itself")
    for line in drive_properties.lines(said):
        screen.say("  " + line)
    forget_quick(out, part, quick.TESTS)
    args.scale, args.reset = "auto", False
    remember(out, part, args, quick.scale(part.bytes), quick=True,
             says_of_itself=said, where=part.what)
    screen.say(f"{part.what}: what it does (at most {length(clock.seconds)})")
    screen.test("quick", clock.left(), 0)
    fio = load.Fio(part.path, out / "jobs", getattr(part, "held", None), part.named)
    s = quick.session(part, out, fio, clock, seed=args.seed, say=screen.say, show=screen.show,
                      budget=args.budget)
    s.tell_unrestored()
    if file:
        # Test 1 reports that there was no time.
        with contextlib.suppress(OutOfTime):
            part.make(s)
    if file or args.area or args.write:
        quick.write(s, lambda text: screen.say("  " + text))
        found = quick.answer(said, s.results)
    else:
        s.run(quick.ReadOnly)
        found = quick.answer(said, s.results, quick.READ)
    if part.moved():
        found = quick.Answer(None, 0.0, quick.MEASURED, part.moved())
    screen.clear()
    told_json = quick.as_json(found, said, s, part.what, clock, versions())
    print(json.dumps(told_json, indent=1) if args.json else
          f"{found.sentence()}\n{length(clock.spent())}; {out} has what was measured")
    return FAILED if any(r.status == session.FAILED for r in s.results.values()) else 0


def forget_quick(out, part, tests):
    """Removes results of an earlier quick.  Results of `skylight run` stay, and so do settings
    of another drive that had this name."""
    note, had = out / "restore.json", begun(out) or {"quick": True}
    if not had.get("quick"):
        raise Refused(f"{out} holds results of skylight run; choose another --out")
    if note.exists() and not same_drive(had, part.identity()):
        raise Refused(f"{note} has settings of another drive, which a run that was killed could "
                      "not set back; choose another --out")
    part.restore_from(note)
    # The folder may hold files of the user.
    for path in (out / "run.json", *(out / f"{session.stem(test.ID)}.{end}" for test in tests
                                     for end in ("json", "npz"))):
        path.unlink(missing_ok=True)


def command_explain(args):
    """Watches a drive; returns the exit status."""
    from . import explain
    if not 0 <= args.seconds < float("inf"):
        raise Refused(f"--seconds {args.seconds:g}: not before now")
    counters = explain.Counters(args.device)
    tracer = explain.Tracer(counters.number)
    screen = Screen()
    try:
        watch = explain.watch_it(counters, tracer, args.seconds, screen.say)
    finally:
        tracer.close()
    if args.json:
        print(json.dumps(explain.as_json(watch, args.device, versions()), indent=1))
    else:
        print(*explain.summary(watch), sep="\n")
    return 0


def command_report(args):
    """Writes the report of a folder."""
    from . import report
    print(*report.write(args.folder), sep="\n")
    return 0


def command_compare(args):
    """Writes a page that compares folders."""
    from . import compare
    page, text = compare.write(args.folders, args.out)
    print(text)
    print(page)
    return 0


def end_in_order():
    """Lets signals end the program as ^C does: settings are restored, and no file is left half
    written."""
    def terminated(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGHUP, terminated)


def main(argv=None):
    """scripts/skylight; returns the exit status."""
    args = parser().parse_args(argv)
    end_in_order()
    with contextlib.suppress(AttributeError):
        # File names need not be UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return {"run": command_run, "report": command_report, "compare": command_compare,
                "quick": command_quick, "explain": command_explain}[args.command](args)
    except (Refused, load.LoadError,
            ValueError if args.command in ("report", "compare") else Refused) as error:
        print(f"skylight: {error}", file=sys.stderr)
        return USAGE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"skylight: {where}{error.strerror or error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        # Only run changes settings and has --resume.
        print("\nskylight: interrupted" if args.command != "run" else
              "\nskylight: interrupted; settings are as they were, if nothing else is said "
              "above, and --resume goes on with the test that was interrupted",
              file=sys.stderr)
        return INTERRUPTED
