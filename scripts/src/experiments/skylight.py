# SPDX-License-Identifier: GPL-2.0
"""Run Skylight's tests on drives of known construction, under the virtual clock.

  scripts/experiments skylight                  a plain disk and the three emulated drives of
                                          the thesis, scaled; its acceptance table
  scripts/experiments skylight --paper          the three at full size, 3.9 TB without a store
  scripts/experiments skylight --blind 20 --seed 1
                                          20 drives drawn at random; hits and misses
  scripts/experiments skylight --controls       plain disk, RAM disk, RAID, dm-crypt, dm-cache and
                                          other layers of Linux: not shingled, or no verdict
  scripts/experiments skylight --torn           Test 13 on drives that lose older data in a power cut,
                                          and on one that does not: cuts and blocks
  scripts/experiments skylight --quick          skylight quick on our drives and on drives that are not
                                          shingled: right, wrong, silent, and the time it took
  scripts/experiments skylight --explain        skylight explain on the same drives under load; the
                                          moments it calls cleaning beside the moments of cleaning

Each drive has a guest of its own. scripts/skylight examines the drive there without any information
about it, and leaves a report with pictures beside its results. The answers are then compared with
what the targets report about themselves. A cache size counts as right if it is within the range
that balls into bins allow for that geometry, see scripts/src/skylight/ground_truth.py. The exit
status is 0 if all answers are as they should be."""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from guest import drives as special
from lab import kernels, modules
from lab.cache import TOP, LabError

from experiments import runner

OUT = runner.outputs("skylight")
SECTORS = 7814037168        # of the 4 TB drive below the emulated drives
FLASH_SECTORS = 410 * 25 * 2048 + 16    # 409 cache bands, one staging band, two headers
SCALE = 100
MIB, GIB = 1 << 20, 1 << 30
ALL = "1,1abc,2,3,4,5,6,7,8,9,10,11,clean,12,13,14,15"
PAPER = "1,2,3,6,11,12"
THESIS = {"e1": 9175056, "e2": 2464153, "e3": 9175056}
# The properties that a blind run must name for a shingled drive.
DECISIONS = ("drive_type", "cache_medium", "cache_layout", "cleaning_type",
             "writes_until_cleaning", "band_bytes", "mapping")
BLIND = "1,2,3,6,11,12"
RIGHT_SHARE = 0.95


# --- drives -----------------------------------------------------------------------


def emulated(n, share, **more):
    """One of the thesis's drives."""
    words = ["--preset", f"emulated-smr-{n}"]
    spec = {"kind": "shingled", "name": f"emulated-smr-{n}",
            "sectors": SECTORS // share // 8 * 8, **more,
            "create": words + (["--scale", str(share)] if share > 1 else [])}
    if n == 2:
        spec["flash_sectors"] = FLASH_SECTORS
    return spec


def acceptance(options):
    sectors = SECTORS // options.scale // 8 * 8
    tests = options.tests or ALL
    return {"cmr": {"kind": "plain", "name": "plain-disk", "sectors": sectors,
                    "tests": tests, "powercut": True},
            **{f"e{n}": emulated(n, options.scale, tests=tests, powercut=n == 3)
               for n in (1, 2, 3)}}


def paper(options):
    return {f"e{n}": emulated(n, 1, tests=options.tests or PAPER, scale="paper")
            for n in (1, 2, 3)}


def controls(options):
    sectors = SECTORS // options.scale // 8 * 8
    tests = options.tests or "1,2,3,6,11,12"
    made = {"plain": {"kind": "plain", "sectors": sectors, "tests": tests},
            "plain-wcache": {"kind": "plain", "sectors": sectors, "tests": tests,
                             "keys": ["wcache", "on", "lookahead", "on"]},
            "plain-7200": {"kind": "plain", "sectors": sectors, "tests": tests,
                           "profile": "st500dm002"},
            "ram": {"kind": "ram", "tests": tests},
            "thin": {"kind": "thin", "sectors": sectors, "tests": tests},
            "thin-large": {"kind": "thin", "sectors": sectors, "tests": tests,
                           "chunk": 2048}}
    made |= {name: special.drive_of(name, tests=tests)
             for name in special.CONTROLS if name not in made}
    return {name: {**spec, "name": name} for name, spec in made.items()}


def torn(_options):
    return {name.replace(" ", "-"): {**spec, "name": name.replace(" ", "-"), "tears": tears}
            for name, (spec, tears) in special.TORN.items()}


def drawn(rng):
    """Draw a drive at random; return (spec, description)."""
    band = rng.choice((2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24))
    profile = rng.choice(PROFILES)
    gib = rng.uniform(5, 15)
    share = rng.uniform(0.005, 0.02)
    cleaning = rng.choice(("lazy", "aggressive"))
    idle = rng.choice((500, 700, 1000, 1500))
    data = int(gib * 1024 / band)
    words = ["--band", f"{band}M", "--geometry", "pack", "--set", f"cleaning={cleaning}"]
    if cleaning == "aggressive":
        words += ["--set", f"idle_ms={idle}"]
    spec = {"kind": "shingled", "profile": profile, "tests": BLIND}
    if rng.random() < 0.35:
        zone = rng.choice((48, 64, 96, 128))
        logs = max(2, round(share * zone))
        provision = logs + rng.choice((3, 5, 8))
        words = ["stl-full", *words, "--bands", str(data), "--zone-bands", str(zone),
                 "--provision", str(provision), "--log-bands", str(logs)]
        what = f"full, {-(-data // zone)} zones, dynamic"
        bands = data
    else:
        cache = max(2, round(share * data))
        words = ["stl-set", *words, "--bands", str(data), "--cache-size", f"{cache}b"]
        place = rng.choice(("id", "od", "flash"))
        if place == "flash":
            spec["flash_sectors"] = (cache + 2) * band * 2048
        else:
            words += ["--cache-location", place]
        what = f"set, {cache} cache bands, {place}, static"
        bands = data + cache + 1
    # Leave room behind the last band, because the medium is rounded to whole tracks.
    spec["sectors"] = (bands * band + 64) * 2048
    spec["keys"] = ["media", "cmr"] if profile != "st4000nc001" else []
    spec["create"] = words
    return spec, f"{band} MiB, {gib:.0f} GiB, {what}, {cleaning}, {profile}"


AT_WORK_S, SLACK_S = 800, 0.2


def explain(options):
    """Return the drives for skylight explain.  They are under load and their contents are not kept,
    so drives with a file system are left out."""
    return {name: {**spec, "seconds": AT_WORK_S} for name, spec in quick(options).items()
            if not spec.get("filesystem") and not name.startswith("e")}


def small(*create, mib=4096, **more):
    """A shingled drive with bands of 1 MiB."""
    return {"kind": "shingled", "sectors": mib * 2048,
            "create": [create[0], "--band", "1M", "--geometry", "pack", *create[1:]], **more}


def quick(options):
    """Return the drives for skylight quick, each with its right answer: shingled, conventional, or
    another word where neither fits."""
    places, sectors = "conventional", SECTORS // options.scale // 8 * 8
    sets = ("stl-set", "--bands", "1500", "--cache-size", "12b")
    idle = (*sets, "--set", "cleaning=aggressive", "--set", "idle_ms=500")
    full = ("stl-full", "--bands", "1500", "--zone-bands", "150", "--provision", "8",
            "--log-bands", "3")
    made = {"plain": ({"kind": "plain", "sectors": sectors}, places),
            "plain-wcache": ({"kind": "plain", "sectors": sectors,
                              "keys": ["wcache", "on", "lookahead", "on"]}, places),
            "plain-ext4": ({"kind": "plain", "sectors": 1 << 21, "store": True,
                            "filesystem": "ext4"}, places),
            "linear": (special.drive_of("linear"), places),
            "thin": (special.drive_of("thin"), places),
            "raid5": (special.drive_of("raid5"), places),
            "ram": ({"kind": "ram"}, "RAM"),
            "log-flash": (special.drive_of("log-flash"), "translated"),
            "imr": ({"kind": "shingled", "sectors": 4 << 21, "profile": "kvimr",
                     "keys": ["media", "imr"], "create": ["imr"]}, "interlaced"),
            "stl-set": (small(*sets), "shingled"), "stl-set-idle": (small(*idle), "shingled"),
            "stl-set-ext4": (small("stl-set", "--bands", "1000", "--cache-size", "12b", mib=1100,
                                   store=True, filesystem="ext4"), "shingled"),
            "stl-full": (small(*full), "shingled"),
            **{f"e{n}": (emulated(n, options.scale), "shingled") for n in (1, 2, 3)}}
    return {name: {**spec, "name": spec.get("name", name), "quick": True, "what": what}
            for name, (spec, what) in made.items()}


PROFILES = ("st4000nc001", "st5000as0011", "st500dm002")


def blind(options):
    rng, drives = random.Random(options.seed), {}
    for i in range(options.blind):
        spec, what = drawn(rng)
        spec["seed"], spec["name"] = options.seed * 1000 + i, f"drawn-{i:02}"
        if options.tests:
            spec["tests"] = options.tests
        drives[f"drawn-{options.seed}-{i:02}"] = {**spec, "what": what}
    return drives


# --- running ------------------------------------------------------------------------


class Talk:
    """Print lines of several guests, each prefixed with the name of its drive."""

    def __init__(self, verbose):
        self.begin, self.verbose = time.monotonic(), verbose

    def say(self, name, text):
        s = int(time.monotonic() - self.begin)
        print(f"[{s // 60:2}:{s % 60:02}] {name:14} {text}", flush=True)


def look(name, spec, options, talk):
    """Start a guest that examines one drive; return (seconds, status)."""
    folder = OUT / options.what / name
    begin = time.monotonic()
    if options.table:
        return 0.0, 0
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "drive.json").write_text(json.dumps(spec, indent=1) + "\n")
    command = runner.in_guest("skylight", folder, json.dumps(spec), memory=options.memory,
                              timeout=options.timeout, rw=folder)
    with subprocess.Popen(command, cwd=TOP, text=True,
                          errors="replace", stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as guest, \
            open(folder / "output", "w", encoding="utf-8") as log:
        for line in guest.stdout:
            log.write(line)
            log.flush()
            if options.verbose or line.startswith(("Test ", "Traceback", "skylight")):
                talk.say(name, line.rstrip())
    took = time.monotonic() - begin
    talk.say(name, f"done in {took:.0f} s, status {guest.returncode}")
    return took, guest.returncode


def everything(drives, options):
    """Examine all drives, options.guests at a time; return {name: (seconds, status)}."""
    talk = Talk(options.verbose)
    with ThreadPoolExecutor(options.guests) as pool:
        jobs = {name: pool.submit(look, name, spec, options, talk)
                for name, spec in drives.items()}
        return {name: job.result() for name, job in jobs.items()}


def results(drives, options):
    """Return {name: Run} for the drives that left results; quick and explain need no report."""
    if options.what in ("quick", "explain"):
        return {}
    from skylight import device, report
    runs = {}
    for name in drives:
        try:
            runs[name] = report.load(OUT / options.what / name)
        except (ValueError, device.Refused) as error:
            print(f"{name}: {error}")
    return runs


# --- the acceptance table --------------------------------------------------------------


class Cell:
    """One cell of the table: what was found about a drive, and what the thesis says."""

    def __init__(self, run, expected):
        self.run, self.expected = run, expected

    def finding(self, name, test=None):
        """Return a finding of one test, or the overall verdict if no test is given."""
        some = self.run.tests.get(test, {}).get("findings", {}) if test else self.run.answers
        return some.get(name)

    def judge(self):
        """Return (text, mark); mark is right, wrong, cannot tell or None."""
        return self.expected(self)

    def done(self, test):
        return self.run.tests.get(test, {}).get("status") == "done"


def absent(cell, test):
    """Return why there is nothing to judge, as (text, mark), or None if the test is done."""
    result = cell.run.tests.get(test)
    if result is None:
        return "not run", "cannot tell"
    if result["status"] != "done":
        return result["status"], "cannot tell"
    return None


def says(name, test, *good):
    """Expect the verdict to have one of these values."""
    def judge(cell):
        finding = cell.finding(name)
        if finding is None or finding["value"] is None:
            return absent(cell, test) or ("cannot tell", "cannot tell")
        value = finding["value"]
        if name == "drive_type" and value == "translated" and value not in good:
            # "translated" leaves open whether the drive is shingled, but is wrong for a plain disk.
            return value, "wrong" if "conventional" in good else "cannot tell"
        return str(value), "right" if value in good else "wrong"
    return judge


def nothing(name, test):
    """Expect the test to run and to find nothing of this name."""
    def judge(cell):
        gone = absent(cell, test)
        if gone:
            # Tests that make no sense for a conventional drive are skipped there.
            return ("skipped, conventional", "right") if gone[0] == "skipped" and (
                cell.run.answers.get("drive_type", {}).get("value") == "conventional") else gone
        finding = cell.finding(name) or {"value": None}
        value = finding["value"]
        if value is None:
            # A conventional drive has none of these properties; only torn writes need a power cut.
            return ("none", "right") if finding.get("none") and name != "torn_writes" else \
                ("cannot tell", "cannot tell")
        return ("none", "right") if value in ("none", False, 0) else (str(value), "wrong")
    return judge


def cliff(cell, test):
    """Expect Test 6's number of writes within the range of balls into bins for this geometry."""
    gone = absent(cell, test)
    if gone:
        return gone
    numbers = cell.run.tests[test]["numbers"]
    at = numbers.get("writes_until_cleaning")
    if at is None:
        return "no cleaning seen", "cannot tell"
    low, high, slots = tolerance(cell.run)
    if low is None:
        return f"{at:,}", "cannot tell"
    return (f"{at:,} ({100 * at / slots:.1f} %)", "right" if low - 1 <= at <= high else "wrong")


def same_as_6(test):
    """Expect of Tests 7 and 8 on a block-mapped cache the same bytes as of Test 6, within the same
    tolerance."""
    name = {"7": "map_entries", "8": "cache_bytes"}[test]

    def judge(cell):
        finding = cell.finding(name, test)
        if not finding or finding["value"] is None:
            return absent(cell, test) or ("cannot tell", "cannot tell")
        mark = cell.run.truth.get(name, {}).get("mark", "cannot tell")
        return f"{finding['value']:,.0f}", mark
    return judge


def never(test):
    def judge(cell):
        gone = absent(cell, test)
        if gone:
            return ("skipped", "right") if gone[0] == "skipped" else gone
        at = cell.run.tests[test]["numbers"].get("writes_until_cleaning")
        return ("never", "right") if at is None else (f"at {at:,}", "wrong")
    return judge


def truth_of(name, test):
    """Expect what the target reports, within the tolerance of ground_truth.py."""
    def judge(cell):
        finding = cell.finding(name)
        if finding is None or finding["value"] is None:
            return absent(cell, test) or ("cannot tell", "cannot tell")
        from skylight import report
        return (report.value(finding["value"], finding.get("unit", ""), name),
                cell.run.truth.get(name, {}).get("mark", "cannot tell"))
    return judge


def unlocated(cell):
    """Expect a flash cache: two levels of latency, and no trend with location."""
    medium, layout = cell.finding("cache_medium"), cell.finding("cache_layout")
    layout = layout or {"value": None}
    value = layout["value"]
    gone = absent(cell, "2")
    if gone:
        return gone
    if value not in (None, "none"):
        return f"{value}", "wrong"
    if not medium or medium["value"] is None or value is None and not layout.get("none"):
        return "cannot tell", "cannot tell"
    return (f"{medium['value']}, no place", "right" if medium["value"] == "flash" else "wrong")


def untorn(cell):
    """Expect no torn writes; not run if the power was never cut."""
    if not cell.done("13"):
        return "no power cuts", None
    return nothing("torn_writes", "13")(cell)


def unmoved(cell):
    """Expect Test 4 alone to see no data moved."""
    finding = cell.finding("cleaning_type", "4")
    if not finding or finding["value"] is None:
        return absent(cell, "4") or ("cannot tell", "cannot tell")
    return ("nothing", "right") if finding["value"] == "lazy" else (finding["value"], "wrong")


def cliff6(cell):
    return cliff(cell, "6")


# Acceptance table: test, row title, the drives for which the expectation follows from the thesis
# without being stated there, and for each drive the expectation, or None if there is none.
TABLE = (
    ("1", "random writes, 1 GiB", "", says("drive_type", "1", "conventional"),
     says("drive_type", "1", "shingled"), says("drive_type", "1", "shingled"),
     says("drive_type", "1", "shingled")),
    ("1", "cache on", "", says("cache_medium", "1", "none"), says("cache_medium", "1", "disk"),
     says("cache_medium", "1", "flash"), says("cache_medium", "1", "disk")),
    ("1c", "steps with size", "cmr", nothing("write_unit_bytes", "1abc"), None, None, None),
    ("2", "cache layout", "", nothing("cache_layout", "2"),
     says("cache_layout", "2", "single-id"), unlocated, says("cache_layout", "2", "multiple")),
    ("3", "cleaning", "cmr", nothing("cleaning_type", "3"), says("cleaning_type", "3", "lazy"),
     says("cleaning_type", "3", "lazy"), says("cleaning_type", "3", "aggressive")),
    ("4", "moved in long pauses", "e1 e2", None, unmoved, unmoved, None),
    ("6", "4 KiB writes to cleaning", "cmr", never("6"), cliff6, cliff6, cliff6),
    ("7", "4/64 KiB at depth 31", "cmr e1 e2 e3", never("7"), *[same_as_6("7")] * 3),
    ("8", "128/256 KiB at depth 31", "cmr e1 e2 e3", never("8"), *[same_as_6("8")] * 3),
    ("11", "band size", "cmr", nothing("band_bytes", "11"),
     *[truth_of("band_bytes", "11")] * 3),
    ("12", "mapping", "cmr", nothing("mapping", "12"), says("mapping", "12", "static"),
     says("mapping", "12", "static"), says("mapping", "12", "dynamic")),
    ("13", "torn by power cuts", "cmr e3", untorn, None, None, untorn),
    ("14", "zones of the disk below", "e1 e2 e3", *[truth_of("zone_profile", "14")] * 4),
)
OURS = """Ours and not the thesis's: what is marked *, which follows from its definitions or is what
the disk below has; the tolerance of Test 6; and how Tests 1 to 5, 11 and 12 decide, which
is by where blocks are."""
NAMES = {"cmr": "CMR", **{f"e{n}": f"Emulated-SMR-{n}" for n in (1, 2, 3)}}
SIGN = {"right": "+", "wrong": "WRONG", "cannot tell": "?", None: "-"}


def tolerance(run):
    """Return (first write, last write, slots): the range in which Test 6 must see the cliff."""
    return run.truth.get("raw_bytes", {}).get("cliff") or (None, None, None)


def table(runs, only=None):
    """Print every cell; return how many are right, wrong and undecided."""
    kinds = [k for k in ("cmr", "e1", "e2", "e3") if k in runs]
    wide = 27
    print(f"\n{OURS}\n\n{'test':5}{'':25}" + "".join(NAMES[k].ljust(wide) for k in kinds).rstrip())
    count = {"right": 0, "wrong": 0, "cannot tell": 0}
    for test, what, ours, *cells in TABLE:
        if only and test.rstrip("c") not in only:
            continue
        line = f"{test:5}{what:25}"
        for kind, expected in zip(("cmr", "e1", "e2", "e3"), cells):
            if kind not in kinds:
                continue
            if expected is None:
                line += f"{'n.r.':{wide}}"
                continue
            text, mark = Cell(runs[kind], expected).judge()
            if mark:
                count[mark] += 1
            own = "*" if kind in ours.split() else " "
            line += f"{SIGN[mark]}{own}{text}"[:wide - 1].ljust(wide)
        print(line.rstrip())
    for kind in kinds:
        low, high, slots = tolerance(runs[kind])
        if low:
            print(f"{kind}: one bin of the cache is full between write {low:,} and {high:,} "
                  f"of {slots:,} places ({100 * low / slots:.1f} to {100 * high / slots:.1f} "
                  "%): balls into bins, 99.9 %")
    print(f"+ right {count['right']}, WRONG {count['wrong']}, ? cannot tell "
          f"{count['cannot tell']}; n.r.: not reported in the thesis")
    return count


def confident(runs):
    """Print every wrong answer, the confident ones first."""
    from skylight import ground_truth
    bad = False
    for name, run in runs.items():
        for what, entry in run.truth.items():
            if entry["mark"] == "wrong":
                sure = entry["confidence"] >= ground_truth.CONFIDENT
                bad |= sure
                print(f"{name}: {what} is said to be {entry['value']} "
                      f"({100 * entry['confidence']:.1f} %{', CONFIDENT' if sure else ''}), "
                      f"and is {entry['truth']}")
    return bad


def show_acceptance(drives, runs, _options):
    asked = {test for spec in drives.values() for test in spec["tests"].split(",")}
    count = table(runs, asked)
    bad = confident(runs)
    return not bad and not count["wrong"] and not count["cannot tell"] and \
        len(runs) == len(drives)


def show_paper(drives, runs, options):
    good = show_acceptance(drives, runs, options)
    for kind, run in runs.items():
        at = run.tests.get("6", {}).get("numbers", {}).get("writes_until_cleaning")
        low, high, slots = tolerance(run)
        if at and slots:
            print(f"{kind}: Test 6 {at:,} writes, {100 * at / slots:.1f} % of the cache; the "
                  f"thesis {THESIS[kind]:,}, {100 * THESIS[kind] / slots:.1f} %, which is "
                  f"{THESIS[kind] * 4096 / GIB:.2f} GiB, a round number")
    return good


CALLED = {"conventional": "not shingled", "translated": "translated, cannot tell whether shingled",
          None: "cannot tell"}


def may_be_called(name):
    """Return the names that are right for a control; a RAM disk must get no name."""
    if name == "ram":
        return (None,)
    return special.CONTROLS.get(name, (None, special.PLACES))[1]


def show_controls(drives, runs, options):
    print(f"\n{'':14}{'what it is called':42}{'':6}{'confidence':>10}  why")
    good, told = len(runs) == len(drives), {}
    for name, run in runs.items():
        kind = run.answers.get("drive_type") or {"value": None}
        right = kind["value"] in may_be_called(name)
        good &= right
        sure = f"{100 * kind['confidence']:.1f} %" if kind["value"] else ""
        print(f"{name:14}{CALLED.get(kind['value'], kind['value']):42}"
              f"{'' if right else 'WRONG':6}{sure:>10}  {kind.get('says', '')[:200]}".rstrip())
        why = special.not_asked(run.tests)
        if why:
            print(f"{'':14}whether it is shingled was not asked: {why}")
        told[name] = {"called": kind["value"], "right": right, "not_asked": why or None,
                      "confidence": kind.get("confidence"), "says": kind.get("says", "")}
    if options:
        (OUT / options.what / "controls.json").write_text(json.dumps(told, indent=1) + "\n",
                                                          encoding="utf-8")
    others = [name for name, entry in told.items() if entry["not_asked"]]
    print(f"each is called what it may be called, and none of {len(told) - len(others)} that could "
          f"have been is called shingled{'; not asked: ' * bool(others)}{', '.join(others)}"
          if good else "NOT SO")
    return good


def show_torn(drives, runs, _options):
    print(f"\n{'drive':28}{'cuts':>6}{'met':>5}{'torn':>6}{'in order':>10}{'older blocks':>14}"
          f"{'being written':>15}{'healed':>8}  {'answer':8}")
    good = len(runs) == len(drives)
    for name, run in runs.items():
        n, said = run.tests.get("13", {}).get("numbers", {}), run.answers.get("torn_writes")
        right = bool(said) and said["value"] is drives[name]["tears"]
        good &= right
        print(f"{name:28}" + "".join(f"{n.get(key, '-'):>{wide}}" for key, wide in (
            ("cuts", 6), ("cuts_met", 5), ("cuts_with_errors", 6), ("cuts_with_errors_in_order", 10),
            ("unreadable_blocks", 14), ("blocks_being_written", 15), ("healed_blocks", 8))) +
              f"  {'right' if right else 'WRONG' if said and said['value'] is not None else '?':8}"
              f"{said['says'] if said else 'no result'}")
    print("older data are seen to go where they do, and nowhere else" if good else "NOT SO")
    return good


def mark(answer, what):
    """Return right, wrong or silent. "translated" counts as silent for any drive that moves what
    is written, shingled or not; for a conventional drive it is wrong."""
    if answer is None or answer == "translated" != what != "conventional":
        return "silent"
    return "right" if answer == what else "wrong"


def show_quick(drives, _runs, options):
    print(f"\n{'drive':14}{'is':14}{'answer':14}{'':8}{'sure':>8}{'seconds':>9}  why")
    count = {"right": 0, "wrong": 0, "silent": 0}
    for name, spec in drives.items():
        try:
            said = json.loads((OUT / options.what / name / "answer.json").read_text("utf-8"))
        except (OSError, ValueError) as error:
            print(f"{name}: no answer: {error}")
            count["wrong"] += 1
            continue
        sign = mark(said["answer"], spec["what"])
        count[sign] += 1
        sure = f"{100 * said['confidence']:.1f} %" if said["confidence"] else ""
        print(f"{name:14}{spec['what']:14}{said['answer'] or 'cannot tell':14}{sign:8}{sure:>8}"
              f"{said['seconds']:9.0f}  {said['sentence'][:300]}")
    print(", ".join(f"{n} {sign}" for sign, n in count.items()))
    return not count["wrong"]


def cleaned_s(inside, begin, end):
    """Return the seconds of cleaning between @begin and @end; @inside is [(moment, us so far)]."""
    before = [us for at, us in inside if at <= begin][-1:] or [us for _, us in inside[:1]]
    behind = [us for at, us in inside if at >= end][:1] or [us for _, us in inside[-1:]]
    return (behind[0] - before[0]) / 1e6 if inside else 0.0


def judged(said, inside):
    """Return (right, wrong) for the stalls that are called cleaning: right are those during which
    the drive cleaned at least half of the time."""
    stalls = [s for s in said["stalls"] if said["cleaning"] and s["kind"] in ("full", "idle")]
    good = sum(cleaned_s(inside, s["at_s"] - SLACK_S, s["at_s"] + s["seconds"] + SLACK_S)
               >= s["seconds"] / 2 for s in stalls)
    return good, len(stalls) - good


def show_explain(drives, _runs, options):
    print(f"\n{'drive':14}{'is':14}{'cleaning?':12}{'sure':>8}{'right':>7}{'wrong':>7}"
          f"{'silent':>8}{'stalls, s':>11}{'inside, s':>11}{'of, s':>7}  why")
    good = True
    for name, spec in drives.items():
        folder = OUT / options.what / name
        try:
            said, inside = (json.loads((folder / f).read_text("utf-8"))
                            for f in ("explain.json", "inside.json"))
        except (OSError, ValueError) as error:
            print(f"{name}: no answer: {error}")
            good = False
            continue
        right, wrong = judged(said, inside)
        good &= not wrong
        total = sum(s["seconds"] for s in said["stalls"])
        sure = f"{100 * said['confidence']:.1f} %" if said["confidence"] else ""
        print(f"{name:14}{spec['what']:14}{'yes' if said['cleaning'] else '-':12}{sure:>8}{right:7}"
              f"{wrong:7}{len(said['stalls']) - right - wrong:8}{total:11.1f}"
              f"{cleaned_s(inside, 0, float('inf')):11.1f}{said['seconds']:7.0f}  {said['says']}")
    print("nothing else is called cleaning" if good else "NOT SO")
    return good


HIT = {"right": "hit", "wrong": "MISS", "cannot tell": "cannot tell"}


def show_blind(drives, runs, _options):
    """Print hits and misses."""
    print(f"\n{'':14}" + "".join(f"{d[:15]:16}" for d in DECISIONS))
    hits = misses = silent = 0
    for name, spec in drives.items():
        print(f"{name}  {spec['what']}")
        run = runs.get(name)
        if not run:
            misses += len(DECISIONS)
            print(f"{'':14}no results")
            continue
        line = f"{'':14}"
        for what in DECISIONS:
            entry = run.truth.get(what)
            mark = entry["mark"] if entry else "not judged"
            hits += mark == "right"
            misses += mark == "wrong"
            silent += mark == "cannot tell"
            line += HIT.get(mark, "-").ljust(16)
        print(line.rstrip())
    bad = confident(runs)
    all_of_them = hits + misses + silent
    share = hits / all_of_them if all_of_them else 0
    print(f"{all_of_them} decisions: {hits} right, {misses} wrong, {silent} cannot tell: "
          f"{100 * share:.1f} % right; " +
          ("CONFIDENT WRONG ANSWERS" if bad else "no confident wrong answer"))
    return share >= RIGHT_SHARE and not bad


class Both:
    """Write to the screen and to a file."""

    def __init__(self, path):
        self.file, self.screen = open(path, "w", encoding="utf-8"), sys.stdout

    def write(self, text):
        self.screen.write(text)
        self.file.write(text)

    def flush(self):
        self.screen.flush()
        self.file.flush()


def conclude(drives, ends, options, took):
    """Print the findings, also into table.txt; return True if all are as they should be."""
    folder = OUT / options.what
    folder.mkdir(parents=True, exist_ok=True)
    both = Both(folder / "table.txt")
    with contextlib.closing(both.file), contextlib.redirect_stdout(both):
        runs = results(drives, options)
        good = SHOWS[options.what][1](drives, runs, options)
        for name, (_, status) in ends.items():
            if status:
                print(f"{name}: the guest ended with status {status}")
                good = False
        if not options.table:
            print(f"{took / 60:.1f} minutes, {options.guests} guests at a time: " + ", ".join(
                f"{name} {seconds:.0f} s" for name, (seconds, _) in ends.items()))
    runner.keep(options, {
        "good": good, "seconds": {name: seconds for name, (seconds, _) in ends.items()},
        "status": {name: status for name, (_, status) in ends.items()},
        "drives": {name: {"answers": run.answers, "truth": run.truth}
                   for name, run in runs.items()},
        "output": (folder / "table.txt").read_text(encoding="utf-8").splitlines()})
    if options.what not in ("quick", "explain"):
        print(f"reports: {os.path.relpath(folder)}/DRIVE/report.html")
    print(f"this table: {os.path.relpath(folder)}/table.txt")
    return good


SHOWS = {"acceptance": (acceptance, show_acceptance), "paper": (paper, show_paper),
         "controls": (controls, show_controls), "torn": (torn, show_torn),
         "blind": (blind, show_blind),
         "quick": (quick, show_quick), "explain": (explain, show_explain)}


def main():
    p = runner.Parser("skylight", __doc__, "seed", "timeout")
    p.add_argument("--paper", dest="what", action="store_const", const="paper")
    p.add_argument("--controls", dest="what", action="store_const", const="controls")
    p.add_argument("--torn", dest="what", action="store_const", const="torn")
    p.add_argument("--quick", dest="what", action="store_const", const="quick")
    p.add_argument("--explain", dest="what", action="store_const", const="explain")
    p.add_argument("--blind", type=int, metavar="N", default=0)
    p.add_argument("--scale", type=int, default=SCALE, help=f"divisor of capacities ({SCALE})")
    p.add_argument("--only", metavar="DRIVE,...", help="only these drives")
    p.add_argument("--tests", metavar="LIST", help="only these tests")
    p.add_argument("--table", action="store_true", help="only the table, of what was measured")
    p.add_argument("--guests", type=int, default=2, help="guests at a time (2)")
    p.add_argument("--memory", default="3G")
    p.add_argument("--verbose", action="store_true", help="everything that the probes say")
    options = p.parse_args()
    options.what = "blind" if options.blind else options.what or "acceptance"
    try:
        runner.prepare("skylight", "shingle")
        if not options.table:
            modules.build(kernels.get("uml"))
    except LabError as error:
        raise SystemExit(f"skylight: {error}") from error
    drives = SHOWS[options.what][0](options)
    if options.only:
        try:
            drives = {k: drives[k] for k in runner.name_list(options.only, drives, "drive")}
        except ValueError as error:
            runner.refuse("skylight", f"{error}")
    begin = time.monotonic()
    ends = everything(drives, options)
    return 0 if conclude(drives, ends, options, time.monotonic() - begin) else 1
