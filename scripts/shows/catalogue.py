# SPDX-License-Identifier: GPL-2.0
"""The catalogue of measured results: the command that prints each, the page with its figures, and
the day of the measurement. scripts/shows/all runs the commands.  Documentation/results.rst has the
catalogue as a table, which this command prints:

    python3 scripts/shows/catalogue.py

tests/unit/test_shows_all.py compares the catalogue with the pages.
"""

from dataclasses import dataclass

# Sources that figures depend on, besides their command.
LAYERS = ("core", "dm-stl", "dm-platter")
THESIS = (*LAYERS, "scripts/loads", "scripts/shows/stacks.py", "scripts/shows/stack.py")
REGIONS = (*THESIS, "dm-tiler", "scripts/shows/regions.py")
BUFFERS = (*THESIS, "dm-dualbuffer")
EVERY = ("core", "dm-stl", "dm-imr", "dm-tiler", "dm-dualbuffer", "dm-platter")
PROBES = (*LAYERS, "scripts/probes", "tests/guest/skylight.py")
STORE = (*LAYERS, "userspace/kv", "userspace/kvbench", "scripts/shows/kv.py",
         "scripts/shows/rebuild.py", "scripts/shows/loaded.py")
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
    minutes: float = None   # on two cores, if recorded
    json: str = ""          # "--json": takes a file name; else the file it writes
    needs: str = ""         # the variable with the value that replaces DIRECTORY

    @property
    def sources(self):
        own = [word for word in self.command.split() if word.startswith("scripts/")]
        return (*self.code, *(word for word in own if not word.startswith("scripts/lab/")))


RESULTS = (
    Result("demo", "make demo", "results.rst", "The demo and the check", "2026-11-25",
           (*LAYERS, "userspace/shingle", "scripts/demo"), minutes=4),
    Result("check", "make check", "results.rst", "The demo and the check", "2026-11-27",
           (*EVERY, "userspace", "tests"), minutes=39),
    Result("latency", "scripts/shows/latency", "results.rst", "Overview", "2026-11-25",
           (*LAYERS, "scripts/shows/latency.sh")),
    Result("platter", "scripts/platter/disksim_compare.py DIRECTORY",
           "reports/platter-validation.rst", "Numbers", "2026-11-24",
           ("dm-platter", "userspace/platter-sim", "scripts/platter"),
           needs="SHINGLE_DISKSIM"),
    Result("exercise", "make test-programs && build/tests/shingle-exercise 50000 150 && "
           "build/tests/shingle-exercise-pieces 50000 150", "results.rst", "Data loss",
           "2026-11-23", ("core/lib", "dm-stl", "dm-imr", "dm-tiler", "dm-dualbuffer",
                          "tests/exercise")),
    Result("torn", "scripts/shows/torn", "results.rst", "Data loss", "2026-11-21",
           (*LAYERS, "scripts/shows/torn.py", "tests/guest/torn.py")),
    Result("soak", "scripts/shows/soak", "results.rst", "Overview", "2026-11-21",
           (*LAYERS, "scripts/shows/soak.sh")),
    Result("surfaces", "tests/run --suite surfaces", "results.rst", "Data loss",
           "2026-11-25", (*EVERY, "userspace/shingle", "tests/guest/surfaces.py")),
    Result("holds", "make test-programs && build/tests/shingle-holds", "results.rst",
           "Durations", "2026-11-27",
           ("core/lib", "dm-stl", "dm-imr", "tests/exercise")),
    Result("idle", "scripts/shows/idle", "results.rst", "Durations", "2026-11-21",
           (*LAYERS, "scripts/shows/idle.py", "tests/guest/idle.py")),
    Result("checkpoint", "scripts/shows/checkpoint", "reports/checkpoint.rst",
           "Cost of a checkpoint", "2026-11-22",
           (*LAYERS, "scripts/shows/checkpoint.py")),
    Result("readahead", "scripts/shows/readahead", "reports/readahead.rst",
           "Read-ahead and optimal_io_size",
           "2026-11-22", (*LAYERS, "scripts/shows/readahead.py")),
    Result("traces", "scripts/shows/traces", "tracing.rst", "Recipes", "2026-11-25",
           (*LAYERS, "scripts/trace", "scripts/shows/traces.sh")),
    Result("ledgers", "scripts/shows/ledgers", "results.rst", "Overview", "2026-11-21",
           (*LAYERS, "scripts/shows/ledgers.py")),
    Result("presets", "scripts/shows/presets", "reports/presets.rst",
           "Random writes and cleaning", "2026-11-22",
           (*LAYERS, "userspace/shingle/presets.c", "scripts/shows/presets.py"),
           json="--json"),
    Result("skylight", "scripts/shows/skylight", "reports/skylight.rst", "The thesis's drives",
           "2026-11-27",
           PROBES, minutes=5.5),
    Result("skylight-paper", "scripts/shows/skylight --paper", "reports/skylight.rst",
           "At their own size", "2026-11-27", PROBES),
    Result("skylight-blind", "scripts/shows/skylight --blind 20 --seed 1", "reports/skylight.rst",
           "Drives drawn at random", "2026-11-27", PROBES, minutes=13),
    Result("skylight-controls", "scripts/shows/skylight --controls", "reports/skylight.rst",
           "Drives that are not shingled", "2026-11-27", PROBES, minutes=12),
    Result("skylight-quick", "scripts/shows/skylight --quick", "reports/skylight.rst",
           "quick on known drives",
           "2026-11-26", (*PROBES, "tests/guest/controls.py"), minutes=8),
    Result("skylight-explain", "scripts/shows/skylight --explain", "reports/skylight.rst",
           "explain on known drives", "2026-11-26", (*PROBES, "tests/guest/controls.py"),
           minutes=2.5),
    Result("skylight-torn", "scripts/shows/skylight --torn", "reports/skylight.rst", "Torn writes",
           "2026-11-27", (*PROBES, "tests/guest/torn_drives.py"),
           minutes=0.5),
    Result("confidence", "scripts/shows/confidence", "reports/skylight.rst", "How sure",
           "2026-11-27",
           ("scripts/probes", "tests/unit/probe_drives.py"), minutes=0.4),
    Result("zones", "scripts/shows/confidence --full-size", "reports/skylight.rst", "Zones",
           "2026-11-27", ("scripts/probes", "dm-platter", "userspace/platter-sim",
                          "tests/unit/probe_drives.py")),
    Result("imr-model", "scripts/shows/imr-model", "reports/kvimr.rst", "The paper's load",
           "2026-11-25", ("userspace/levels", "scripts/shows/published.py")),
    Result("kvimr", "scripts/shows/kvimr", "reports/kvimr.rst", "Its time", "2026-11-27",
           (*LEVELS, "scripts/shows/published.py")),
    Result("kvimr-mixes", "scripts/shows/kvimr --parts mixes", "reports/kvimr.rst",
           "Reads and writes",
           "2026-11-27", (*LEVELS, "scripts/shows/published.py")),
    Result("imr", "scripts/shows/imr --scale 1", "reports/kvimr.rst", "The fast disk",
           "2026-11-25",
           ("core", "dm-imr", *LEVELS, "scripts/shows/imr.py"), json="--json"),
    Result("imr-paper", "scripts/shows/imr --set-up paper --through target", "reports/kvimr.rst",
           "Through the target", "2026-11-27",
           ("core", "dm-imr", *LEVELS, "scripts/shows/imr.py", "scripts/shows/published.py"),
           json="--json"),
    Result("imr-target",
           "scripts/shows/imr --scale 1 --through target --moves silent,rewrite",
           "reports/kvimr.rst", "The fast disk", "2026-11-22",
           ("core", "dm-imr", *LEVELS, "scripts/shows/imr.py"), json="--json"),
    Result("levels", "tests/run --suite levels", "reports/kvimr.rst", "The fast disk",
           "2026-11-22",
           ("core", "dm-imr", "userspace/levels", "tests/guest/levels.py")),
    Result("arrivals", "scripts/shows/arrivals", "reports/arrivals.rst", "Hurst's parameter",
           "2026-11-24",
           ("userspace/kvbench", "scripts/shows/hurst.py"),
           json="build/out/arrivals/table.json"),
    Result("arrivals-due", "scripts/lab/run --clock virtual -- build/userspace/kvbench run -w c "
           "--arrivals poisson --target 1000 -n 5000 -t 4", "reports/arrivals.rst",
           "When an operation starts",
           "2026-11-24", ("userspace/kvbench", "userspace/kv")),
    Result("kv", "scripts/shows/kv --parts rivals --scale 160 --cache 48", "reports/kv.rst",
           "Against LevelDB and RocksDB", "2026-11-27", STORE, minutes=6, json="--json"),
    Result("kv-native", "scripts/shows/kv --parts native", "reports/kv.rst",
           "Against LevelDB and RocksDB", "2026-11-27", STORE, minutes=1, json="--json"),
    Result("kv-worst", "scripts/shows/kv --parts worst", "reports/kv.rst", "Worst writes",
           "2026-11-28",
           (*STORE, "scripts/shows/kv_worst.py"), minutes=4, json="--json"),
    Result("kv-inside", "scripts/shows/kv --parts inside --scale 160 --cache 48", "reports/kv.rst",
           "soc against loc", "2026-11-27", STORE, minutes=1, json="--json"),
    Result("kv-offload", "scripts/shows/kv --parts offload", "reports/kv.rst",
           "Effect of an offload device",
           "2026-11-27", STORE, minutes=2, json="--json"),
    Result("kv-blocks", "scripts/shows/kv --parts blocks", "reports/kv.rst",
           "Arrivals at block targets", "2026-11-27",
           (*BUFFERS, "dm-tiler", "userspace/kvbench", "scripts/shows/kv_blocks.py",
            "scripts/shows/blocks.py"), json="--json"),
    Result("kv-imr", "scripts/shows/kv --parts imr", "reports/kvimr.rst", "By the store itself",
           "2026-11-27", (*STORE, "dm-imr", *LEVELS, "scripts/shows/kv_imr.py",
                          "scripts/shows/published.py"), json="--json"),
    Result("regions-3", "scripts/shows/regions 3", "reports/tiler.rst",
           "Regions and their cleaning",
           "2026-11-23", REGIONS, json="--json"),
    Result("regions-4", "scripts/shows/regions 4", "reports/tiler.rst",
           "Against the thesis's baseline",
           "2026-11-24", REGIONS, json="--json"),
    Result("regions-5", "scripts/shows/regions 5", "reports/tiler.rst", "S from 1 to a track",
           "2026-11-24", REGIONS, json="--json"),
    Result("regions-4-full", "scripts/shows/regions 4 --scale 1 --loads rsrch_0",
           "reports/tiler.rst", "At the thesis's own size", "2026-11-23",
           REGIONS, json="--json"),
    Result("buffers", "scripts/shows/buffers", "reports/dualbuffer.rst", "The thesis's claims",
           "2026-11-27", BUFFERS, json="--json"),
    Result("buffers-full", "scripts/shows/buffers 3 --scale 1 --loads rsrch_0",
           "reports/dualbuffer.rst", "The thesis's claims", "2026-11-23", BUFFERS, json="--json"),
    Result("flash", "scripts/shows/flash", "reports/rmwf.rst", "The thesis's claims", "2026-11-27",
           BUFFERS, json="--json"),
    Result("layers", "scripts/shows/layers", "reports/layers.rst", "Results", "2026-11-27",
           (*BUFFERS, "dm-tiler", "dm-imr"), json="--json"),
    Result("rebuild", "scripts/shows/rebuild", "reports/rebuild.rst", "Results", "2026-11-26",
           (*LAYERS, "userspace/shingle", "scripts/shows/stacks.py", "scripts/shows/rebuild.py"),
           minutes=3, json="--json"),
    Result("rebuild-used", "scripts/shows/rebuild --used", "reports/rebuild.rst", "Results",
           "2026-11-25", (*LAYERS, "userspace/shingle", "scripts/shows/stacks.py",
                          "scripts/shows/rebuild.py"), minutes=4, json="--json"),
    Result("bench", "make bench", "reports/bench.rst", "Speed of the layers over RAM",
           "2026-11-27",
           (*EVERY, "scripts/bench")),
    Result("bench-pieces", "scripts/bench/run --part pieces --rounds 8 --boots 8",
           "reports/bench.rst", "Speed of the layers over RAM", "2026-11-27", ("core",
           "dm-dualbuffer", "scripts/bench"),
           minutes=8),
)


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


if __name__ == "__main__":
    print(table(), end="")
