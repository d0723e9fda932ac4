# SPDX-License-Identifier: GPL-2.0
"""Compare kv, the store that knows its disk, with Debian's LevelDB and RocksDB, compare its two
organisations with each other, and show the results of SMRDB, which kv follows (R. Pitchumani,
thesis, chapter 3), beside them.

kvbench drives all three stores: the same operations from the same seeds, one at a time, values that
do not compress, compression off, memtables of one size, and Bloom filters of ten bits a key.
--cache bounds the memory for data that was read: kv's own cache; for the others 8 MiB of blocks, as
in the thesis, and the page cache, which a memory cgroup bounds.  kv is on the drive itself, the
others are on ext4 on it.  The drive is emulated under the virtual clock, on which processors take
no time: the medium of Skylight's 5 TB, 5,900 rpm drive, much shorter, with its write cache on.
Below stl-set or stl-full it is shingled, with bands as long as kv's.

All sizes of the thesis are divided by --scale: bands and memtables of 80 MB, 8 GB of records.  Each
YCSB workload has a tenth as many operations as there are records.

Parts (--parts):
  rivals   on each drive, values of 1 and 4 KiB: in order, at random, and YCSB, in which each
           write is synced, as in the thesis
  native   the same on this machine's tmpfs, by its clock: processor time
  worst    --puts random puts of 100 bytes, one after another, without a sync, by this
           machine's clock on --where: the longest of each stretch as a picture, soc and loc
           beside LevelDB and RocksDB
  inside   soc against loc, and LevelDB: random inserts, what compactions read and wrote, a
           scan of all; and with compaction delayed (Figures 3.11 to 3.13)
  offload  the store of chapter 5, buffered, with an offload device in memory and without:
           inserts of 1 KiB back to back and as they arrive, --rate a second in the mean, for
           --minutes, without a sync, bands and memtables of 64 MB over the scale; response
           times from when each insert was due, what was offloaded and left unsorted, what
           merges wrote for each byte; then scans of 1 to 100 records from random keys, while
           overdue merges still run (sections 5.8 and 5.9)
  blocks   the same arrivals, --iops a second in the mean for --block-minutes, as writes of
           4 KiB, to popular places and others, on a GiB of stl-set, stl-full, tiler and
           dualbuffer with their own idle cleaning (8 GB, the surface and the cache of
           scripts/experiments layers): by fio; by the same number of threads; and by these threads
           with flash in memory beside the target.  A write goes to flash only if it comes while
           the target's status is "cleaning"; it returns when the target does not clean
           and no request has come for 0.2 s
  imr      KVIMR's load (its Figures 5 to 7) by loc on imr: policies seq, 3phase and
           compaction, merged and not, the last tenth of the load by itself, and three
           mixes; beside shingle-levels with the same files, and the paper.  Tracks of
           64 KiB, 33 a band, a --fraction of the paper's 47,684; no log, no thread
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.cache import TOP

from experiments import kv_blocks, kv_imr, kv_worst, runner, stacks
from experiments.evaluation import run_phases
from experiments.stacks import MIB, over
from experiments.tables import Table, cell

PARTS = ("rivals", "native", "worst", "inside", "offload", "blocks", "imr")
BUILT = TOP / "build/userspace"
# Sizes of the thesis: MiB of a band and of records, and the ratio of YCSB's keys to operations.
BAND_MIB, DATA_MIB, OPS_SHARE = 80, 8192, 10
KEY_BYTES, SCAN = 20, 1000
BLOCKS_MIB, PROCESS_MIB = 8, 12
VALUES = (1024, 4096)
# The gain with YCSB by the thesis's abstract, in per cent, and our phases for its four workloads.
PAPER = (8.8, 123.6)
PAPERS = ("load", "a", "b", "d")
YCSB = ("a", "b", "c", "f", "d", "e")
TRIGGERS = (4, 8, 16, 32)
RIVALS = ("kv", "leveldb", "rocksdb")
# For chapter 5; THREADS wait for one insert each, and SCANS scans follow.
BUFFERED_MIB, THREADS, SCANS = 64, 8, 200
CYCLES = 4


def arrivals(per_s, minutes):
    """Return {name: words of kvbench}; the envelope swings as far as the thesis's 1000 +- 950."""
    rate = ["--target", str(per_s), "--arrivals"]
    return {
        "poisson": [*rate, "poisson"],
        "self-similar": [*rate, "self-similar", "-p", "ss.bias=0.65"],
        "diurnal": [*rate, "diurnal", "-p", f"diurnal.modulation={per_s * .95:g}", "-p",
                    f"diurnal.cyclelength={minutes / CYCLES:g}", "-p",
                    "diurnal.distribution.shape=1.5"],
    }


def drives():
    """Return {name: drive}; layers have bands of @BAND."""
    def drive(*create, media="smr"):
        return {"media": media, "profile": "st5000as0011", "create": list(create), "keys": {}}
    return {
        "conventional": drive(media="cmr"),
        "stl-set": drive("stl-set", "--band", "BAND", "--cache-size", "4b",
                         "--set", "bypass_blocks=16"),
        "stl-full": drive("stl-full", "--band", "BAND"),
    }


def store(options, name, organisation="soc", stream=False, trigger=None):
    """Return a store and the options with which it is opened."""
    own = options.cache if name == "kv" else BLOCKS_MIB
    words = ["--cache", f"{own}M", "--memtable", band(options)]
    if stream:
        words.append("--stream")
    if trigger:
        words += ["--l0-trigger", str(trigger), "--l0-slowdown", str(2 * trigger)]
    # For the other stores, memory that the process does not use serves as page cache.
    memory = None if name == "kv" else options.cache + PROCESS_MIB + 2 * BAND_MIB // options.scale
    return {"store": name, "organisation": organisation, "options": words,
            "memory_mib": memory}


def band(options, mib=BAND_MIB):
    return f"{mib * 1024 // options.scale // 4 * 4}K"


def records(options, value):
    return DATA_MIB * MIB // options.scale // (value + KEY_BYTES)


def sittings(options, value):
    """Return [[[name, words of kvbench]]]; each outer list begins with an empty store."""
    n = records(options, value)
    common = ["-r", n, "--value", f"{value}B", "--seed", options.seed]
    few = max(1, n // OPS_SHARE)

    def phase(name, workload, ops, *more):
        return [name, [str(w) for w in ("-w", workload, *common, "-n", ops, *more)]]
    whole = ("readseq", max(1, n // SCAN))
    return [
        [phase("fillseq", "fillseq", n), phase("scan in order", *whole)],
        [phase("fillrandom", "fillrandom", n), phase("scan at random", *whole),
         phase("readrandom", "readrandom", few)],
        [phase("load", "load", n, "--sync"),
         *(phase(w, w, few // 10 if w == "e" else few, "--sync") for w in YCSB)],
    ]


def case(options, drive, of, value, some):
    """Return the words for one guest."""
    layer = drives()[drive]
    layer["create"] = [band(options) if w == "BAND" else w for w in layer["create"]]
    return {"layer": layer, "drive_mib": options.drive_mib, "band": band(options), **of,
            "sittings": some, "large": True, "value": value}


def rivals(options):
    """[(file, words, (drive, value, store))]"""
    out = []
    for drive in options.drives:
        for value in VALUES:
            for name in RIVALS:
                of = store(options, name, stream=name == "kv" and drive != "conventional")
                out.append((f"{drive}-{value}-{name}-{options.scale}",
                            case(options, drive, of, value, sittings(options, value)),
                            (drive, value, name)))
    return out


def inside(options):
    """Return [(file, words, (store, trigger))], on the conventional drive, as in the thesis."""
    out = []
    _, (fill, scan, _), _ = sittings(options, 4096)
    for name, organisation in (("leveldb", None), ("kv", "loc"), ("kv", "soc")):
        for trigger in TRIGGERS if name == "kv" else (None,):
            of = store(options, name, organisation, trigger=trigger)
            label = organisation or name
            out.append((f"inside-{label}-{trigger}-{options.scale}",
                        case(options, "conventional", of, 4096, [[fill, scan]]),
                        (label, trigger)))
    return out


def offload(options):
    """Return [(file, words, (arrivals, whether there is an offload device))]."""
    out, size = [], band(options, BUFFERED_MIB)
    n = options.rate * 60 * options.minutes
    common = ["--value", "1K", "--seed", str(options.seed)]
    for name, words in {"back to back": [],
                        **arrivals(options.rate, options.minutes)}.items():
        load = ["-w", "load", *common, "-n", str(n), "-t", str(THREADS), *words]
        scan = ["-w", "e", *common, "-r", str(n), "-n", str(SCANS), "-p", "scanproportion=1",
                "-p", "insertproportion=0", "-p", "requestdistribution=uniform"]
        for there in (False, True):
            of = {**store(options, "kv", "buffered"), "offload": there}
            of["options"] = ["--cache", f"{options.cache}M", "--memtable", size]
            out.append((f"offload-{name.replace(' ', '-')}-{there}-{options.rate}-"
                        f"{options.minutes}-{options.scale}",
                        {**case(options, "conventional", of, 1024,
                                [[["load", load], ["scan", scan]]]), "band": size},
                        (name, there)))
    return out


# --- evaluation -----------------------------------------------------------------------


def done(of):
    """Return the operations of a phase; for a scan, the records."""
    ops = of["ops"]
    if list(ops) == ["scan"]:
        return ops["scan"]["records"]
    return of["operations"]


def rate(of):
    """Return operations a second, including the time of the final sync."""
    return over(done(of), of["seconds"] + of["sync_s"])


def ahead(one, other):
    """Return how much faster one is than the other, in per cent."""
    return 100 * (one / other - 1) if one is not None and other else None


def written(of):
    """Return the bytes that the store wrote for each byte of keys and values."""
    return over(of["disk"]["written_bytes"], of["written_bytes"])


def answers(of):
    """Return what must be the same for all stores: operations of each kind, and what they found."""
    return {kind: (op["service"]["count"], op["missing"], op.get("records"))
            for kind, op in of["ops"].items()}


def wrong_of(name, of):
    """Yield sentences about what must never occur."""
    yield from stacks.lost_of(name, of)
    if of["late_us"] > stacks.ROTATION_US:
        yield f"{name}: a request was {of['late_us']} us late: no exact clock"
    for phase, result in of["phases"].items():
        if any(op["failed"] or op["wrong"] for op in result["ops"].values()):
            yield f"{name}: {phase}: an operation failed, or read what nobody wrote"


def differ(results):
    """Yield a sentence for each store that answered differently; @results is [((drive, value,
    store), phases)]."""
    first = {}
    for (drive, value, name), phases in results:
        for phase, of in phases.items():
            who, known = first.setdefault((drive, value, phase), (name, answers(of)))
            if known != answers(of):
                yield (f"{drive}, {value} bytes, {phase}: {name} gave {answers(of)}, "
                       f"{who} {known}")


def compacted(of):
    """Return the MiB that flushes and compactions read and wrote, and the seconds they took."""
    stats = of["store_stats"]
    if "stats" in stats:
        rows = re.findall(r"^ *\d+ +\d+ +\d+ +(\d+) +(\d+) +(\d+)$", stats["stats"], re.M)
        took, read, wrote = (sum(int(row[i]) for row in rows) for i in range(3))
        return read, wrote, took
    return (stats["compact_read_bytes"] / MIB,
            (stats["flush_bytes"] + stats["compact_written_bytes"]) / MIB,
            (stats["flush_us"] + stats["compact_us"]) / 1e6)


# --- printing -------------------------------------------------------------------------


def offloaded(of):
    """Return the figures of the thesis's chapter 5 for an insert phase and the scans after it."""
    load, scan = of["phases"]["load"], of["phases"]["scan"]
    stats, (op,) = load["store_stats"], load["ops"].values()
    # Back-to-back inserts have no due time, so service time stands in for response time.
    took = op.get("response", op["service"])
    return {
        "rate": over(load["operations"], load["seconds"]),
        **{name: took[name] / 1000 for name in ("p50_us", "p99_us", "p99_9_us", "max_us")},
        "offloaded": over(100 * stats["offloaded_bytes"], stats["user_bytes"]),
        "unsorted": over(100 * stats["unsorted_bands"], sum(stats["level_bands"])),
        "merged": over(stats["compact_written_bytes"], stats["user_bytes"]),
        "scans": over(scan["operations"], scan["seconds"]),
    }


OFFLOAD_COLUMNS = (("inserts/s", "rate", ",.1f"), ("p50, ms", "p50_us", ",.2f"),
                   ("p99", "p99_us", ",.2f"), ("p99.9", "p99_9_us", ",.2f"),
                   ("longest", "max_us", ",.2f"), ("offloaded, %", "offloaded", ".1f"),
                   ("unsorted, %", "unsorted", ".1f"), ("merged", "merged", ".2f"),
                   ("scans/s", "scans", ".1f"))


def table_offload(results):
    return Table.of_rows("inserts of 1 KiB, conventional drive, with an offload device and without "
                         "(chapter 5)", OFFLOAD_COLUMNS,
                         {f"{name}, {'with' if there else 'without'}": offloaded(of)
                          for (name, there), of in results})


def relations_offload(results):
    """Return [(sentence of the thesis, whether it holds here)] for arrivals measured both ways."""
    at = {what: offloaded(of) for what, of in results}
    out = []

    def less(a, b):
        return None not in (a, b) and a < b
    for name in dict.fromkeys(name for name, _ in at):
        if not {(name, False), (name, True)} <= set(at):
            continue
        without, there = at[name, False], at[name, True]
        out += [(f"{name}: fewer inserts that take long",
                 less(there["p99_9_us"], without["p99_9_us"])),
                (f"{name}: less is left unsorted",
                 less(there["unsorted"], without["unsorted"])),
                (f"{name}: scans are faster", less(without["scans"], there["scans"]))]
        if name == "back to back":
            out.append((f"{name}: more than twice the inserts",
                        there["rate"] > 2 * without["rate"]))
    return out


def signed(value):
    return "-" if value is None else f"{value:+.1f} %"


def table_rivals(results, drive, value, disks=True):
    """Return the table of a drive and a size of values, with a row for each phase."""
    by = {name: phases for (d, v, name), phases in results if (d, v) == (drive, value)}
    others = [name for name in by if name != "kv"] if "kv" in by else []
    out = Table(f"{drive}, values of {value} bytes: operations a second (scans: records)"
                + ("; bytes written for each byte put" if disks else ""),
                ["", *by, *(f"over {name}" for name in others), *(
                    ["thesis", *(f"{name} bytes" for name in by)] if disks else ())])
    for phase in next(iter(by.values())):
        rates = {name: rate(phases[phase]) for name, phases in by.items()}
        thesis = f"{PAPER[0]:+} to {PAPER[1]:+} %" if phase in PAPERS else ""
        out.add(phase, *(cell(r, ",.1f") for r in rates.values()),
                *(signed(ahead(rates["kv"], rates[name])) for name in others),
                *([thesis, *(cell(written(phases[phase]), ".2f") for phases in by.values())]
                  if disks else ()))
    return out


def table_inside(results):
    out = Table("random inserts of 4 KiB, nothing synced, conventional drive (Figures 3.11 to 3.13)",
                ["", "trigger", "inserts/s", "read, MiB", "written", "seconds", "then scanned/s"])
    for (label, trigger), of in results:
        fill, scan = of["phases"].values()
        out.add(label, str(trigger or 4), cell(rate(fill), ",.1f"), *(
            cell(f, form) for f, form in zip(compacted(fill), (",.0f", ",.0f", ",.1f"))),
            cell(rate(scan), ",.1f"))
    return out


def relations(results):
    """Return [(sentence of the thesis, whether it holds here)]; empty if a case did not end."""
    at = {what: of["phases"] for what, of in results}
    if len(at) < 1 + 2 * len(TRIGGERS):
        return []
    level, loc, soc = (at[what] for what in (("leveldb", None), ("loc", 4), ("soc", 4)))

    def fill(of):
        return rate(of["fillrandom"])

    def scan(of):
        return rate(of["scan at random"])

    def moved(of):
        return sum(compacted(of["fillrandom"])[:2])
    rising = [[fill(at[name, t]) for t in TRIGGERS] for name in ("soc", "loc")]
    return [
        ("loc inserts slightly slower than LevelDB", .7 * fill(level) < fill(loc) < fill(level)),
        ("soc inserts faster than LevelDB", fill(soc) > fill(level)),
        ("compactions of soc move least", moved(soc) < min(moved(loc), moved(level))),
        ("scans after it: soc before loc", scan(soc) > scan(loc)),
        ("... and loc before LevelDB", scan(loc) > scan(level)),
        ("later compaction, faster inserts: soc", rising[0] == sorted(rising[0])),
        ("... and loc", rising[1] == sorted(rising[1])),
    ]


# --- on this machine ------------------------------------------------------------------


def native(options, value, name, where):
    """Run all phases of a store on a tmpfs; return {phase: result}."""
    of, out = store(options, name), {}
    for number, sitting in enumerate(sittings(options, value)):
        path = where / f"{name}-{number}"
        if name == "kv":
            with open(path, "wb") as f:
                f.truncate(options.drive_mib * MIB)
            subprocess.run([BUILT / "kv", "format", "--band", band(options), path],
                           check=True, stdout=subprocess.DEVNULL)
        command = [BUILT / "kvbench", "run", "--json", "-s", name, "-d", path, *of["options"]]
        out.update(run_phases(sitting, lambda words, command=command: json.loads(subprocess.run(
            [*command, *words], check=True, stdout=subprocess.PIPE).stdout)))
        (shutil.rmtree if path.is_dir() else Path.unlink)(path)
    return out


def middle(runs):
    """Return for each phase the result with the median rate among several runs."""
    return {phase: sorted((run[phase] for run in runs), key=rate)[len(runs) // 2]
            for phase in runs[0]}


def natively(options):
    """Return [(("tmpfs", value, store), phases)]."""
    out = []
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="shingle-kv.") as where:
        for value in VALUES:
            runs = {name: [] for name in RIVALS}
            for _ in range(options.rounds):
                for name in RIVALS:
                    runs[name].append(native(options, value, name, Path(where)))
            out += [(("tmpfs", value, name), middle(of)) for name, of in runs.items()]
    return out


def options_of(words):
    p = runner.Parser("kv", __doc__, "seed", "timeout", "resume", timeout=1200)
    p.add_argument("--parts", default=",".join(PARTS), metavar="NAME,...",
                   help=f"some of {','.join(PARTS)} (all)")
    p.add_argument("--drives", default=",".join(drives()), metavar="NAME,...",
                   help=f"some of {','.join(drives())} (all)")
    p.add_argument("--scale", type=int, default=40,
                   help="all that has a size is 1/N of the thesis's, 8 to 160 (40)")
    p.add_argument("--drive-mib", type=int, default=1024, metavar="MIB",
                   help="the size of a drive (1024)")
    p.add_argument("--cache", type=int, metavar="MIB",
                   help="of each store, page cache and all (a fourth of the records)")
    p.add_argument("--rounds", type=int, default=3,
                   help="native, worst: of these the one in the middle, of each phase (3)")
    p.add_argument("--puts", type=int, default=1000000, help="worst: how many (1,000,000)")
    p.add_argument("--where", default="/dev/shm", metavar="DIRECTORY",
                   help="worst: where the stores are (/dev/shm)")
    p.add_argument("--rate", type=int, default=1000,
                   help="offload: inserts a second in the mean (1000)")
    p.add_argument("--minutes", type=int, default=2, help="offload: of arrivals (2)")
    p.add_argument("--iops", type=int, default=60,
                   help="blocks: writes a second in the mean (60)")
    p.add_argument("--block-minutes", type=int, default=4, help="blocks: of arrivals (4)")
    p.add_argument("--fraction", type=int, default=4,
                   help="imr: of the paper's tracks there are 1/N, 1 to 16 (4)")
    p.add_argument("--imr-cache", type=int, default=2, metavar="MIB",
                   help="imr: of the store (2)")
    options = p.parse_args(words)
    for name, known in (("parts", PARTS), ("drives", drives())):
        try:
            setattr(options, name, runner.name_list(getattr(options, name), known, f"--{name}"))
        except ValueError as error:
            p.error(str(error))
    if not 8 <= options.scale <= 160:
        p.error(f"--scale {options.scale} is not from 8 to 160")
    if options.drive_mib < 3 * DATA_MIB // options.scale:
        p.error(f"--drive-mib {options.drive_mib} is less than three times the records")
    if options.cache is None:
        options.cache = max(BLOCKS_MIB, DATA_MIB // options.scale // 4)
    p.at_least(options, cache=BLOCKS_MIB, rounds=1, puts=1000, rate=1, minutes=1, imr_cache=1,
               iops=1, block_minutes=1)
    if not 1 <= options.fraction <= 16:
        p.error(f"--fraction {options.fraction} is not from 1 to 16")
    return options


def main():
    options = options_of(sys.argv[1:])
    runner.prepare("kv", "shingle", "kv", "kvbench", "levels")
    groups = {name: cases(options) for name, cases in (("rivals", rivals), ("inside", inside),
                                                       ("offload", offload),
                                                       ("imr", kv_imr.cases))
              if name in options.parts}
    results, wrong = stacks.measured("kv", options, groups, "kv", wrong_of)
    if "blocks" in options.parts:
        some = kv_blocks.cases(options, arrivals(options.iops, options.block_minutes))
        blocks, more = stacks.measured("kv", options, {"blocks": some}, "blocks",
                                       kv_blocks.wrong_of)
        results, wrong = {**results, **blocks}, wrong + more
    tables = {"rivals": [(what, of["phases"]) for what, of in results.get("rivals", ())]}
    if "native" in options.parts:
        tables["native"] = natively(options)
        stacks.keep(options, {f"native-{value}-{name}-{options.scale}": {"phases": of}
                              for (_, value, name), of in tables["native"]})
    if "worst" in options.parts:
        worst = kv_worst.measured(options)
        stacks.keep(options, {f"worst-{options.puts}": worst})
        kv_worst.show(worst, options)
    for part, of in tables.items():
        for drive, value in dict.fromkeys(what[:2] for what, _ in of):
            runner.show(options, table_rivals(of, drive, value, part == "rivals"))
        wrong += differ(of)
    for part, table, holds in (("inside", table_inside, relations),
                               ("offload", table_offload, relations_offload)):
        if results.get(part):
            runner.show(options, table(results[part]))
            runner.show_relations(holds(results[part]))
    if results.get("blocks"):
        kv_blocks.show(results["blocks"], options)
    if results.get("imr"):
        kv_imr.show(results["imr"], options)
    return runner.status(wrong, "all stores answered alike, nothing destroyed was read, and the "
                         "clock was exact")
