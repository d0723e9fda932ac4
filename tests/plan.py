# SPDX-License-Identifier: GPL-2.0
"""The plan: which suite runs over which target under which kernel. Each row has a guest of its own,
unless rows share one by their field `guest`. A new row adds a target to a suite.

Suites are tests/guest/SUITE.py. `quick` rows make up tests/run --quick; only tests/run --soak runs
`soak` rows.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    suite: str
    target: str
    kernel: str = "uml"
    options: tuple = ()     # ((key, value), ...) for the suite
    cases: tuple = ()       # only cases with a name that contains one of these
    but: tuple = ()         # no cases with a name that contains one of these
    clock: str = "real"
    memory: str = "3G"
    timeout: int = 1500     # seconds; long enough for any host, so it ends only guests that hang.
                            # A row with its own guest ends before the limit of CI.
    quick: bool = False
    soak: bool = False
    medium: bool = False    # platter is needed, whatever the target is
    guest: str = ""         # rows of a kernel with the same word share a guest: useful where the
                            # boot and the search for leaks take longer than a row

    @property
    def modules(self):
        """dm-linear needs none of this project's modules."""
        return self.target != "linear" or self.medium

    @property
    def id(self):
        return f"{self.suite} {self.target} {self.kernel}"


STLS = ("stl-set", "stl-full")
LAYERS = (*STLS, "stl-log", "imr", "tiler", "dualbuffer", "rmwf")

# The engine that runs every suite on the slow kernels: a second one would add little there for the
# time that it takes in CI.
EVERYTHING = ("stl-set",)

# Cases for a kernel between the oldest and the newest, which run all cases: those that depend on
# the block layer.
QUEUES = ("polled", "reports rotation", "read ahead", "discards", "partitions", "9 GiB", "fstrim",
          "wcache:")
BETWEEN = {"stl-set": (*QUEUES, "full size", "over a RAM disk", "loop:", "cached:"),
           "stl-full": QUEUES}

# stl-set runs all cases with failing allocations. stl-full shares slots, journal and cleaner with
# it, so it runs only the cases that depend on its own code, and those in which requests wait.
FAILING = {"stl-full": ("fail", "reload", "no room", "all of a log band", "write cache")}

# tiler also runs one geometry of each kind.
REGIONS = ("regions:", "turned:", "column:", "pages:", "polled")

# Under the checkers one seed of random errors is enough, since uml runs all. The same holds for the
# two dozen power cuts with errors that other cases have as well.
AGAIN = ("seed 2", "seed 3", "seed 4", "in the middle of commits")

PLAN = [
    # The tools themselves, over dm-linear: correct behaviour must pass, and errors must be found.
    Row("exact", "linear", quick=True),
    Row("replay", "linear", quick=True),
    Row("faults", "linear", quick=True, medium=True),
    # The medium's own cache.
    Row("losses", "linear", quick=True, medium=True),
    Row("losses", "linear", "uml-debug", guest="short", medium=True),
    Row("fio_verify", "linear"),
    Row("filesystems", "linear"),
    # A conventional drive must not be called shingled.
    Row("skylight", "linear", clock="virtual", medium=True),
    # Layers of Linux that look like a shingled drive must not be called one either.
    Row("controls", "linear", clock="virtual", medium=True),
]

for stl in STLS:
    PLAN += [
        Row("exact", stl, quick=True),
        Row("counters", stl, quick=True),
        Row("reset", stl, quick=True),
        Row("idle", stl, clock="virtual", quick=True),
        Row("torn", stl, clock="virtual", quick=True),
        Row("skylight", stl, clock="virtual"),
        Row("torn", stl, clock="virtual",
            options=(("cuts", 50), ("seed", 2))),
        Row("replay", stl),
        Row("fio_verify", stl),
        Row("filesystems", stl),
        Row("faults", stl, quick=True),
        Row("wcache", stl, quick=True),
        Row("badtable", stl),
        Row("bitflip", stl),
        # KASAN, lockdep, kmemleak.
        Row("exact", stl, "uml-debug", guest="short"),
        Row("badtable", stl, "uml-debug", guest="short",
            options=(("examples", 150),)),
        # Memory allocations that fail.
        Row("faults", stl, "uml-debug", guest="faults", cases=FAILING.get(stl, ()),
            but=AGAIN),
        Row("faults", stl, "uml-debug", soak=True, guest="faults", timeout=36000,
            cases=AGAIN if stl == "stl-set" else AGAIN[:-1]),
        # Distributions' kernels, two processors, no shortcuts.
        Row("exact", stl, "stock", guest="all"),
        Row("exact", stl, "backports", guest="all",
            cases=BETWEEN.get(stl, ())),
        # Every combination, for hours.
        Row("replay", stl, soak=True, timeout=36000, options=(
            ("ops", 400), ("rounds", 20), ("share", 1), ("seed", 100),
            ("files", 200))),
        Row("bitflip", stl, soak=True, timeout=36000,
            options=(("flips", 200), ("seed", 100))),
        Row("badtable", stl, soak=True, timeout=36000,
            options=(("examples", 20000),)),
    ]

for stl in EVERYTHING:
    PLAN += [
        Row("replay", stl, "uml-debug", guest="short", options=(
            ("ops", 25), ("share", 0.03), ("files", 12), ("fs_share", 0.1),
            ("seed", 7), ("only", "tiny,flash,fs"))),
        Row("reset", stl, "uml-debug", guest="short"),
        Row("bitflip", stl, "uml-debug", guest="short", options=(("flips", 3),),
            cases=("apart", "crafted")),
        Row("torn", stl, "uml-debug", guest="short", options=(("cuts", 3), ("seed", 3))),
    ]

# stl-log has no home to clean to, and reads no more of a band than it moves.
PLAN += [
    Row("exact", "stl-log", quick=True),
    Row("counters", "stl-log", quick=True),
    Row("reset", "stl-log", quick=True),
    Row("torn", "stl-log", clock="virtual", quick=True),
    Row("replay", "stl-log", quick=True, options=(
        ("ops", 60), ("share", .3), ("only", "tiny,home,few,guards,wcache"))),
    Row("replay", "stl-log", options=(("ops", 60), ("share", .15)), cases=("ext4",)),
    Row("replay", "stl-log", soak=True, timeout=36000, options=(("share", 1), ("fs_share", 1))),
    Row("fio_verify", "stl-log"),
    Row("filesystems", "stl-log"),
    Row("faults", "stl-log"),
    Row("wcache", "stl-log", quick=True),
    Row("badtable", "stl-log"),
    Row("bitflip", "stl-log", options=(("flips", 2),)),
    Row("bitflip", "stl-log", soak=True, timeout=36000, options=(("flips", 200), ("seed", 100))),
    Row("seeks", "stl-log"),
    Row("exact", "stl-log", "uml-debug", guest="short"),
    Row("replay", "stl-log", "uml-debug", guest="short", options=(
        ("ops", 20), ("share", 0.05), ("seed", 13), ("only", "few,home"))),
    Row("exact", "stl-log", "stock", guest="all", cases=QUEUES[:-1]),
    Row("exact", "stl-log", "backports", guest="all", cases=QUEUES[:-1]),
]

# imr has no persistent cache and no cleaning: suites about these do not apply.
PLAN += [
    Row("exact", "imr", quick=True),
    Row("counters", "imr", quick=True),
    Row("replay", "imr", quick=True, options=(("share", .5),)),
    # A power cut at every barrier.
    Row("replay", "imr", soak=True, timeout=36000,
        options=(("share", 1), ("fs_share", 1))),
    Row("reset", "imr", quick=True),
    Row("fio_verify", "imr"),
    Row("filesystems", "imr"),
    Row("faults", "imr"),
    Row("wcache", "imr", quick=True),
    Row("badtable", "imr"),
    Row("bitflip", "imr"),
    Row("levels", "imr"),
    Row("exact", "imr", "uml-debug", guest="short"),
    Row("faults", "imr", "uml-debug", guest="faults", but=AGAIN),
    Row("faults", "imr", "uml-debug", soak=True, guest="faults", timeout=36000,
        cases=AGAIN[:-1]),
    Row("exact", "imr", "stock", guest="all"),
    Row("exact", "imr", "backports", guest="all"),
    Row("replay", "imr", "uml-debug", guest="short", options=(
        ("ops", 20), ("share", 0.05), ("files", 12), ("fs_share", 0.1),
        ("seed", 9), ("only", "tiny,naive,fs"))),
]

# tiler has neither bands nor home positions: suites about these do not apply.
PLAN += [
    Row("exact", "tiler", quick=True),
    # Which operation comes next when a step ends; with the virtual clock the load of the machine
    # has no effect.
    Row("exact", "tiler", clock="virtual", cases=("twostates",)),
    Row("counters", "tiler", quick=True),
    Row("replay", "tiler", quick=True, options=(("ops", 60), ("share", .15),
                                                ("only", "tight,full,wide,wcache"))),
    # Known columns, and the effect of each protection.
    Row("replay", "tiler", options=(("ops", 30), ("share", .15)),
        cases=("raw combs", "raw column", "raw turned", "proof: ", "as in the proof")),
    Row("replay", "tiler", soak=True, timeout=36000, options=(("share", 1), ("fs_share", 1))),
    Row("reset", "tiler", quick=True),
    Row("torn", "tiler", clock="virtual", quick=True),
    Row("fio_verify", "tiler"),
    Row("filesystems", "tiler"),
    Row("faults", "tiler"),
    Row("faults", "tiler", clock="virtual", cases=("failures far apart",)),
    Row("wcache", "tiler", quick=True),
    Row("badtable", "tiler"),
    Row("bitflip", "tiler", options=(("flips", 2),)),
    Row("bitflip", "tiler", soak=True, timeout=36000,
        options=(("flips", 200), ("seed", 100))),
    Row("exact", "tiler", "uml-debug", guest="short", cases=REGIONS),
    Row("replay", "tiler", "uml-debug", guest="short", options=(
        ("ops", 20), ("share", 0.05), ("seed", 10), ("only", "tight,wide"))),
    Row("exact", "tiler", "stock", guest="all", cases=REGIONS),
    Row("exact", "tiler", "backports", guest="all", cases=REGIONS),
]

# Angles need a medium that describes its geometry, and cleaning covers the whole cache.
ANGLES = ("angles:", "polled")
PLAN += [
    Row("exact", "dualbuffer", quick=True),
    Row("rounds", "dualbuffer"),
    Row("counters", "dualbuffer", quick=True),
    Row("replay", "dualbuffer", quick=True, options=(
        ("ops", 60), ("share", .15), ("only", "tiny,angles,static,wcache"))),
    # The effect of each protection.
    Row("replay", "dualbuffer", options=(("ops", 60), ("share", .15)),
        cases=("raw flash", "raw onecache", "raw literal", "proof: ", "as in the proof", "ext4")),
    Row("replay", "dualbuffer", soak=True, timeout=36000,
        options=(("share", 1), ("fs_share", 1))),
    Row("reset", "dualbuffer", quick=True),
    Row("torn", "dualbuffer", clock="virtual", quick=True),
    Row("fio_verify", "dualbuffer"),
    Row("filesystems", "dualbuffer"),
    Row("faults", "dualbuffer"),
    Row("wcache", "dualbuffer", quick=True),
    Row("badtable", "dualbuffer"),
    Row("bitflip", "dualbuffer", options=(("flips", 2),)),
    Row("bitflip", "dualbuffer", soak=True, timeout=36000,
        options=(("flips", 200), ("seed", 100))),
    Row("exact", "dualbuffer", "uml-debug", guest="short", cases=ANGLES),
    Row("replay", "dualbuffer", "uml-debug", guest="short", options=(
        ("ops", 40), ("share", 0.03), ("seed", 11), ("only", "tiny,angles"))),
    Row("exact", "dualbuffer", "stock", guest="all", cases=ANGLES),
    Row("exact", "dualbuffer", "backports", guest="all", cases=ANGLES),
]

# Flash beside a shingled disk.
PLAN += [
    Row("exact", "rmwf", quick=True),
    Row("counters", "rmwf", quick=True),
    Row("replay", "rmwf", quick=True, options=(
        ("ops", 60), ("share", .15), ("only", "tiny,angles,emptied,staged,wcache"))),
    Row("replay", "rmwf", options=(("ops", 60), ("share", .15)),
        cases=("raw pointer", "raw onecache", "proof: ", "as in the proof", "ext4")),
    Row("reset", "rmwf", quick=True),
    Row("torn", "rmwf", clock="virtual", quick=True),
    Row("fio_verify", "rmwf"),
    Row("filesystems", "rmwf"),
    Row("faults", "rmwf"),
    Row("wcache", "rmwf", quick=True),
    Row("badtable", "rmwf"),
    Row("bitflip", "rmwf", options=(("flips", 2),)),
    Row("exact", "rmwf", "uml-debug", guest="short"),
    Row("replay", "rmwf", "uml-debug", guest="short", options=(
        ("ops", 60), ("share", 0.02), ("seed", 12), ("only", "tiny,angles"))),
    Row("exact", "rmwf", "stock", guest="all", cases=ANGLES),
    Row("exact", "rmwf", "backports", guest="all", cases=ANGLES),
]

# Each way down the failure ladder, and each way to end a device after it.
for layer in LAYERS:
    PLAN += [Row("ladder", layer, guest="ladder"),
             # One block below that cannot be written, in each area.
             Row("badblock", layer, guest="ladder")]

# A test engine with steps of many extents.
PLAN.append(Row("replay", "comb", options=(("ops", 200), ("only", "comb,wide,wcache"))))

# A test engine with a map in pages, of which few fit in memory.
PLAN.append(Row("replay", "paged", options=(("ops", 70), ("only", "paged,wcache"))))
PLAN.append(Row("faults", "paged", cases=("pages of the map",)))

# stl-full runs fewer power cuts: under KASAN they cost much and add little.
PLAN.append(Row("replay", "stl-full", "uml-debug", guest="short", options=(
    ("ops", 20), ("share", 0.05), ("files", 12), ("fs_share", 0.1),
    ("seed", 8), ("only", "tiny,fs"))))

# A key-value store with bands of the same length as the layer's.
PLAN += [Row("kv", target) for target in (*STLS, "stl-log", "imr", "dualbuffer", "rmwf")]

# Tracepoints; histograms of them on the kernels of distributions.
PLAN += [Row("tracing", "stl-set", clock="virtual", quick=True),
         *(Row("tracing", "stl-set", kernel, guest="all", cases=("hist:", "formats", "recipes:"))
           for kernel in ("stock", "backports"))]

# A requested clean takes turns with writes that find no room.
PLAN += [Row("clean_message", target, guest="clean_message")
         for target in LAYERS]

# Several surfaces, with the layout that the tool makes.
PLAN += [Row("surfaces", target, guest="surfaces")
         for target in LAYERS]

# Races on two real processors. The first row tests the suite itself: it must notice content that
# was never written.
PLAN.append(Row("stress", "linear", options=(("events", 10), ("rounds", 1))))
for target in LAYERS:
    PLAN += [
        Row("stress", target, options=(("events", 6), ("rounds", 1))),
        # Time allows three events of each kind; each takes minutes.
        Row("stress", target, "uml-smp", guest="stress", options=(
            ("events", 3), ("rounds", 1), ("pool", 512))),
        # These are not all measured yet.
        Row("exact", target, "uml-smp", soak=True, guest=target, timeout=36000,
            options=(("load", 2),)),
        Row("wcache", target, "uml-smp", soak=True, guest=target, timeout=36000,
            options=(("switches", 400),)),
        *(Row(suite, target, "uml-smp", soak=True, guest=target, timeout=36000)
          for suite in ("reset", "faults")),
        Row("stress", target, "uml-smp", soak=True, timeout=36000, options=(
            ("seed", 100), ("events", 1000), ("rounds", 20))),
    ]
PLAN.append(Row("badtable", "stl-set", "uml-smp", soak=True, guest="stl-set",
                timeout=36000, options=(("examples", 100),)))

# Under uml-smp a case takes many times longer than under uml. So of these suites only the cases run
# in which one processor changes something while another uses it.
RACES = {
    "badtable": ("messages beside I/O", "messages while it is activated",
                 "the table while messages change it"),
    "reset": ("I/O under way", "with suspends"),
    "wcache": ("under load", "off while writes are tried again"),
}
PLAN += [Row(suite, "stl-set", "uml-smp", guest="stress", cases=cases,
             options=(("pool", 512),))
         for suite, cases in RACES.items()]

SUITES = tuple(dict.fromkeys(row.suite for row in PLAN))
