# SPDX-License-Identifier: GPL-2.0
"""The catalogue of measured results: the command that prints each, the page with its figures, and
the day of the measurement. `scripts/experiments all` runs the commands. Documentation/results.rst
has the catalogue as a table, which this command prints:

    scripts/experiments all --table

tests/unit/test_experiments_all.py compares the catalogue with the pages.
"""

import re
from dataclasses import dataclass, replace

from experiments.__main__ import file_of


def own(*names):
    """Return the paths of programs in this directory."""
    return tuple(f"scripts/src/experiments/{name}.py" for name in names)


# Sources that figures depend on, besides their command.
LAYERS = ("core", "dm-stl", "dm-platter")
THESIS = (*LAYERS, "scripts/src/loads", *own("stacks", "in_guest/stack"))
REGIONS = (*THESIS, "dm-tiler", *own("in_guest/regions"))
BUFFERS = (*THESIS, "dm-dualbuffer")
EVERY = ("core", "dm-stl", "dm-imr", "dm-tiler", "dm-dualbuffer", "dm-platter")
PROBES = (*LAYERS, "scripts/src/skylight", "tests/guest/skylight.py")
STORE = (*LAYERS, "userspace/kv", "userspace/kvbench", *own("in_guest/kv", "in_guest/rebuild", "evaluation"))
BENCH = own("bench", "bench_store", "in_guest/bench")
READS = ("userspace/replay", "core/lib/reads", "core/lib/extents", "scripts/src/loads")
LEVELS = ("userspace/levels", "userspace/platter-sim", "dm-platter")


@dataclass(frozen=True)
class Result:
    """A result.  The command is as the documents have it; several commands are joined by &&."""
    name: str
    command: str
    page: str               # the page with its figures, in Documentation/ or README.md
    section: str
    measured: str           # the day of the newest figure
    code: tuple             # files and directories, besides the command itself
    minutes: float | None = None   # on two cores, if recorded
    json: str = ""          # "--json": takes a file name; else the file it writes
    needs: str = ""         # the variable with the value that replaces DIRECTORY

    @property
    def sources(self):
        names = re.findall(r"scripts/experiments ([\w-]+)", self.command)
        return (*self.code, *(f"scripts/src/experiments/{file_of(name)}" for name in names))


_RESULTS = (
    Result("demo", "make demo", "results.rst", "The demo and the check", "2026-11-25",
           (*LAYERS, "userspace/shingle", *own("demo", "promises"),
            "scripts/src/experiments/in_guest/demo.sh"), minutes=4),
    Result("check", "make check", "results.rst", "The demo and the check", "2026-11-27",
           (*EVERY, "userspace", "tests"), minutes=39),
    Result("latency", "scripts/experiments latency", "results.rst", "Overview", "2026-11-25",
           (*LAYERS, "scripts/src/experiments/in_guest/latency.sh")),
    Result("platter", "scripts/experiments platter DIRECTORY",
           "reports/platter-validation.rst", "Numbers", "2026-11-24",
           ("dm-platter", "userspace/platter-sim", "scripts/src/experiments/platter"),
           needs="SHINGLE_DISKSIM"),
    Result("exercise", "make test-programs && build/tests/shingle-exercise 50000 150 && "
           "build/tests/shingle-exercise-pieces 50000 150", "results.rst", "Data loss",
           "2026-11-23", ("core/lib", "dm-stl", "dm-imr", "dm-tiler", "dm-dualbuffer",
                          "tests/exercise")),
    Result("torn", "scripts/experiments torn", "results.rst", "Data loss", "2026-11-21",
           (*LAYERS, *own("in_guest/torn"), "tests/guest/torn.py")),
    Result("soak", "scripts/experiments soak", "results.rst", "Overview", "2026-11-21",
           (*LAYERS, "scripts/src/experiments/in_guest/soak.sh")),
    Result("surfaces", "tests/run --suite surfaces", "results.rst", "Data loss",
           "2026-11-25", (*EVERY, "userspace/shingle", "tests/guest/surfaces.py")),
    Result("holds", "make test-programs && build/tests/shingle-holds", "results.rst", "Durations", "2026-11-27",
           ("core/lib", "dm-stl", "dm-imr", "tests/exercise")),
    Result("idle", "scripts/experiments idle", "results.rst", "Durations", "2026-11-21",
           (*LAYERS, *own("in_guest/idle"), "tests/guest/idle.py")),
    Result("checkpoint", "scripts/experiments checkpoint", "reports/checkpoint.rst", "Cost of a checkpoint", "2026-11-22",
           (*LAYERS, *own("in_guest/checkpoint"))),
    Result("readahead", "scripts/experiments readahead", "reports/readahead.rst", "Read-ahead and optimal_io_size",
           "2026-11-22", (*LAYERS, *own("in_guest/readahead"))),
    Result("traces", "scripts/experiments traces", "tracing.rst", "Recipes", "2026-11-25",
           (*LAYERS, "scripts/trace", "scripts/src/experiments/in_guest/traces.sh")),
    Result("ledgers", "scripts/experiments ledgers", "results.rst", "Overview", "2026-11-21",
           (*LAYERS, *own("in_guest/ledgers"))),
    Result("presets", "scripts/experiments presets", "reports/presets.rst", "Random writes and cleaning",
           "2026-11-22", (*LAYERS, "userspace/shingle/presets.c", *own("in_guest/presets"))),
    Result("skylight", "scripts/experiments skylight", "reports/skylight.rst", "The thesis's drives", "2026-11-27",
           PROBES, minutes=5.5),
    Result("skylight-paper", "scripts/experiments skylight --paper", "reports/skylight.rst", "At their own size", "2026-11-27", PROBES),
    Result("skylight-blind", "scripts/experiments skylight --blind 20 --seed 1", "reports/skylight.rst", "Drives drawn at random", "2026-11-27", PROBES, minutes=13),
    Result("skylight-controls", "scripts/experiments skylight --controls", "reports/skylight.rst", "Drives that are not shingled", "2026-11-27", PROBES, minutes=12),
    Result("skylight-quick", "scripts/experiments skylight --quick", "reports/skylight.rst", "quick on known drives",
           "2026-11-26", (*PROBES, "tests/guest/controls.py"), minutes=8),
    Result("skylight-explain", "scripts/experiments skylight --explain", "reports/skylight.rst", "explain on known drives", "2026-11-26", (*PROBES, "tests/guest/controls.py"), minutes=2.5),
    Result("skylight-torn", "scripts/experiments skylight --torn", "reports/skylight.rst", "Torn writes", "2026-11-27", (*PROBES, "tests/guest/drives.py"),
           minutes=0.5),
    Result("confidence", "scripts/experiments confidence", "reports/skylight.rst", "How sure", "2026-11-27",
           ("scripts/src/skylight", *own("probe_drives")), minutes=0.4),
    Result("zones", "scripts/experiments confidence --full-size", "reports/skylight.rst", "Zones",
           "2026-11-27", ("scripts/src/skylight", "dm-platter", "userspace/platter-sim",
                          *own("probe_drives"))),
    Result("imr-model", "scripts/experiments imr-model", "reports/kvimr.rst", "The paper's load",
           "2026-11-25", ("userspace/levels", *own("kvimr_paper"))),
    Result("kvimr", "scripts/experiments kvimr", "reports/kvimr.rst", "Its time", "2026-11-27",
           (*LEVELS, *own("kvimr_paper"))),
    Result("kvimr-mixes", "scripts/experiments kvimr --parts mixes", "reports/kvimr.rst", "Reads and writes",
           "2026-11-27", (*LEVELS, *own("kvimr_paper"))),
    Result("imr", "scripts/experiments imr --scale 1", "reports/kvimr.rst", "The fast disk", "2026-11-25",
           ("core", "dm-imr", *LEVELS, *own("in_guest/imr"))),
    Result("imr-paper", "scripts/experiments imr --set-up paper --through target", "reports/kvimr.rst", "Through the target", "2026-11-27",
           ("core", "dm-imr", *LEVELS, *own("in_guest/imr", "kvimr_paper"))),
    Result("imr-target",
           "scripts/experiments imr --scale 1 --through target --moves silent,rewrite",
           "reports/kvimr.rst", "The fast disk", "2026-11-22",
           ("core", "dm-imr", *LEVELS, *own("in_guest/imr"))),
    Result("levels", "tests/run --suite levels", "reports/kvimr.rst", "The fast disk", "2026-11-22",
           ("core", "dm-imr", "userspace/levels", "tests/guest/levels.py")),
    Result("arrivals", "scripts/experiments arrivals", "reports/arrivals.rst", "Hurst's parameter", "2026-11-24",
           ("userspace/kvbench", *own("hurst"))),
    Result("arrivals-due", "scripts/lab/run --clock virtual -- build/userspace/kvbench run -w c "
           "--arrivals poisson --target 1000 -n 5000 -t 4", "reports/arrivals.rst", "When an operation starts",
           "2026-11-24", ("userspace/kvbench", "userspace/kv")),
    Result("kv", "scripts/experiments kv --parts rivals --scale 160 --cache 48", "reports/kv.rst", "Against LevelDB and RocksDB", "2026-11-27", STORE, minutes=6),
    Result("kv-native", "scripts/experiments kv --parts native", "reports/kv.rst", "Against LevelDB and RocksDB", "2026-11-27", STORE, minutes=1),
    Result("kv-worst", "scripts/experiments kv --parts worst", "reports/kv.rst", "Worst writes", "2026-11-28",
           (*STORE, *own("kv_worst")), minutes=4),
    Result("kv-inside", "scripts/experiments kv --parts inside --scale 160 --cache 48", "reports/kv.rst", "soc against loc", "2026-11-27", STORE, minutes=1),
    Result("kv-offload", "scripts/experiments kv --parts offload", "reports/kv.rst", "Effect of an offload device",
           "2026-11-27", STORE, minutes=2),
    Result("kv-blocks", "scripts/experiments kv --parts blocks", "reports/kv.rst", "Arrivals at block targets", "2026-11-27",
           (*BUFFERS, "dm-tiler", "userspace/kvbench", *own("kv_blocks", "in_guest/blocks"))),
    Result("kv-imr", "scripts/experiments kv --parts imr", "reports/kvimr.rst", "By the store itself",
           "2026-11-27", (*STORE, "dm-imr", *LEVELS, *own("kv_imr", "kvimr_paper"))),
    Result("regions-3", "scripts/experiments regions 3", "reports/tiler.rst", "Regions and their cleaning",
           "2026-11-23", REGIONS),
    Result("regions-4", "scripts/experiments regions 4", "reports/tiler.rst", "Against the thesis's baseline",
           "2026-11-24", REGIONS),
    Result("regions-5", "scripts/experiments regions 5", "reports/tiler.rst", "S from 1 to a track",
           "2026-11-24", REGIONS),
    Result("regions-4-full", "scripts/experiments regions 4 --scale 1 --loads rsrch_0",
           "reports/tiler.rst", "At the thesis's own size", "2026-11-23",
           REGIONS),
    Result("buffers", "scripts/experiments buffers", "reports/dualbuffer.rst", "The thesis's claims",
           "2026-11-27", BUFFERS),
    Result("buffers-full", "scripts/experiments buffers 3 --scale 1 --loads rsrch_0",
           "reports/dualbuffer.rst", "The thesis's claims", "2026-11-23", BUFFERS),
    Result("flash", "scripts/experiments flash", "reports/rmwf.rst", "The thesis's claims", "2026-11-27",
           BUFFERS),
    Result("layers", "scripts/experiments layers", "reports/layers.rst", "Results", "2026-11-28",
           (*BUFFERS, "dm-tiler", "dm-imr")),
    Result("read-seek", "scripts/experiments read-seek", "reports/read-seek.rst", "Patterns",
           "2026-11-28", READS, minutes=0.2),
    Result("read-seek-synthetic", "scripts/experiments read-seek synthetic", "reports/read-seek.rst",
           "Synthetic loads", "2026-11-28", READS, minutes=1),
    Result("read-seek-finite", "scripts/experiments read-seek --finite", "reports/read-seek.rst",
           "Finite disks", "2026-11-28", (*READS, "dm-stl/log"), minutes=0.2),
    Result("read-time", "scripts/experiments read-time", "reports/read-seek.rst", "Seconds",
           "2026-11-28", (*THESIS, "core/lib/reads"), minutes=5),
    Result("rebuild", "scripts/experiments rebuild", "reports/rebuild.rst", "Results", "2026-11-28",
           (*LAYERS, "userspace/shingle", *own("stacks", "in_guest/rebuild")),
           minutes=3),
    Result("rebuild-used", "scripts/experiments rebuild --used", "reports/rebuild.rst", "Results",
           "2026-11-28", (*LAYERS, "userspace/shingle", *own("stacks", "in_guest/rebuild")), minutes=4),
    Result("bench", "make bench", "reports/bench.rst", "Speed of the layers over RAM", "2026-11-27",
           (*EVERY, *BENCH)),
    Result("bench-pieces", "scripts/bench/run --part pieces --rounds 8 --boots 8", "reports/bench.rst", "Speed of the layers over RAM", "2026-11-27", ("core", "dm-dualbuffer", *BENCH),
           minutes=8),
)
# Each experiment takes --json.
RESULTS = tuple(replace(r, json="--json") if r.command.startswith("scripts/experiments ") else r
                for r in _RESULTS)


def literals(command):
    return ", ".join(f"``{part}``" for part in command.split(" && "))


def place(result):
    """Return a link to the section that has the figures of a result."""
    return f":ref:`{result.page.removesuffix('.rst')}:{result.section}`"


def table():
    """Return the table of Documentation/results.rst, one line for each result."""
    out = [".. csv-table::", "   :header-rows: 1", "   :widths: 14 40 28 8 10", "",
           "   name,command,its figures,minutes,measured"]
    for r in RESULTS:
        minutes = "" if r.minutes is None else f"{r.minutes:g}"
        out.append(f'   {r.name},"{literals(r.command)}",{place(r)},{minutes},{r.measured}')
    return "\n".join(out) + "\n"
