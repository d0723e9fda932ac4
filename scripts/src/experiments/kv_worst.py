# SPDX-License-Identifier: GPL-2.0
"""Part "worst" of scripts/experiments kv: how long the slowest of a million random puts take."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.cache import TOP

from experiments import runner
from experiments.stacks import MIB
from experiments.tables import Table

BUILT = TOP / "build/userspace"
# {name of the picture: (store, organisation)}
STORES = {"kv, soc": ("kv", "soc"), "kv, loc": ("kv", "loc"), "LevelDB": ("leveldb", None),
          "RocksDB": ("rocksdb", None)}
# MiB of a memtable, and of kv's bands: LevelDB's default.  Windows of the picture.
MEMTABLE_MIB, WINDOWS = 4, 250
POINTS = (50, 99, 99.9, 99.99, 99.999)


def windows(times, count=WINDOWS):
    """Return the longest time, in ms, in each of @count windows of the same length."""
    share = max(1, -(-len(times) // count))
    return [max(times[at:at + share]) / 1e6 for at in range(0, len(times), share)]


def figures(times):
    """Return the figures for put times in nanoseconds, given in the order of the puts."""
    ordered = sorted(times)
    return {"windows_ms": windows(times), "max_ms": ordered[-1] / 1e6,
            **{f"p{point}_us": ordered[min(len(ordered) - 1, int(len(ordered) * point / 100))]
               / 1e3 for point in POINTS}}


def took(log):
    """Return the nanoseconds of each operation in a log of kvbench, in order of their begin."""
    with open(log, encoding="ascii") as f:
        rows = sorted((int(begin), int(end)) for _, _, _, begin, end in
                      (line.split() for line in f if line[0].isdigit()))
    return [end - begin for begin, end in rows]


def measure(options, name, where):
    """Fill an empty store once."""
    store, organisation = STORES[name]
    path, log = where / store, where / "log"
    if organisation:
        with open(path, "wb") as f:
            # Room for each record several times, because compactions need it.
            f.truncate(max(256 * MIB, options.puts * 2048))
        subprocess.run([BUILT / "kv", "format", "--band", f"{MEMTABLE_MIB}M", "--organisation",
                        organisation, path], check=True, stdout=subprocess.DEVNULL)
    out = subprocess.run(
        [BUILT / "kvbench", "run", "--json", "-s", store, "-d", path, "-w", "fillrandom",
         "-r", str(options.puts), "-n", str(options.puts), "--memtable", f"{MEMTABLE_MIB}M",
         "--seed", str(options.seed), "--log", log], check=True, stdout=subprocess.PIPE).stdout
    of = json.loads(out)
    times = took(log)
    if len(times) != options.puts:
        raise SystemExit(f"kv: {name}: {len(times)} puts in the log, not {options.puts}")
    (shutil.rmtree if path.is_dir() else Path.unlink)(path)
    log.unlink()
    return {"puts_per_s": of["ops_per_s"], **figures(times)}


def middle(runs):
    """Return the run with the median longest put."""
    return sorted(runs, key=lambda of: of["max_ms"])[len(runs) // 2]


def measured(options):
    """Return {store: figures}. Stores take turns, so that other work disturbs all of them equally.
    """
    runs = {name: [] for name in STORES}
    with tempfile.TemporaryDirectory(dir=options.where, prefix="shingle-kv.") as where:
        for _ in range(options.rounds):
            for name in STORES:
                print(f"kv: worst writes of {name}", file=sys.stderr)
                runs[name].append(measure(options, name, Path(where)))
    return {name: middle(of) for name, of in runs.items()}


def table(of, options):
    columns = (("puts/s", "puts_per_s", ",.0f"), *((f"{point} %", f"p{point}_us", ",.1f")
                                                   for point in POINTS), ("longest", "max_ms", ",.1f"))
    return Table.of_rows(f"{options.puts:,} random puts of 100 bytes, {options.where}, memtables of "
                         f"{MEMTABLE_MIB} MiB: microseconds, and the longest in milliseconds",
                         columns, of)


def relations(of):
    """[(sentence, whether it holds here)]"""
    out = []
    for name in ("kv, soc", "kv, loc"):
        out += [(f"{name}: the longest put is no longer than LevelDB's",
                 of[name]["max_ms"] <= of["LevelDB"]["max_ms"]),
                (f"{name}: as many puts a second as LevelDB",
                 of[name]["puts_per_s"] >= of["LevelDB"]["puts_per_s"])]
    return out


def picture(of, options, path):
    """Draw the longest put of each window."""
    from skylight import plots

    def draw(figure):
        (axes,) = plots.panels(figure, 1)
        for colour, (name, f) in zip(plots.CYCLE, of.items()):
            count = len(f["windows_ms"])
            axes.plot([(i + .5) * options.puts / count / 1000 for i in range(count)],
                      f["windows_ms"], color=colour, linewidth=.9,
                      label=f"{name}: {f['max_ms']:,.1f} ms, {f['puts_per_s']:,.0f} puts/s")
        plots.logarithmic(axes)
        axes.set_title(f"longest of each {options.puts // WINDOWS:,} random puts, ms")
        axes.set_xlabel("thousand puts")
        axes.set_ylim(top=axes.get_ylim()[1] * 8)       # room for the legend
        axes.legend(loc="upper left", ncols=2)
    # A picture alone has no page that defines the colour --paper.
    path.write_text(plots.svg(draw, "worst").replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" style="--paper:#fff;background:#fff" ',
        1) + "\n", encoding="utf-8")


def show(of, options):
    runner.show(options, table(of, options))
    runner.show_relations(relations(of))
    path = runner.outputs("kv") / "worst.svg"
    picture(of, options, path)
    runner.show_picture(path)
