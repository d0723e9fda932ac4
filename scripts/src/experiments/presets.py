# SPDX-License-Identifier: GPL-2.0
"""The emulated drives of Skylight at full scale, under the virtual clock.

Each preset is created over a 4 TB, 5,900 rpm medium without a store.  It takes uniform random 4 KiB
writes at queue depth 1, then enough writes into one set (one zone for the third) to fill its cache,
so that it cleans.  The layer's counts of blocks written and read are compared with those of the
media.  A new device is then read and written sequentially from the outer diameter to the inner,
beside the speed of the medium's tracks.  Metadata are in RAM.  The second preset's flash is in RAM
and takes no time.
"""

import json
import os
import subprocess
import sys
import time

from lab.cache import TOP

from experiments import runner
from experiments.tables import Table

OUT = runner.outputs("presets")
CREATE_LIMIT = 10           # seconds
CLOSE = 0.05                # relative difference to the speed of the tracks


def measure(kernel, drive, options):
    """Return the guest's result, and the host's seconds between its marks."""
    command = runner.in_guest("presets", OUT, drive, options.writes, options.scale,
                              int(not options.no_cleaning), int(options.until_cleaning),
                              kernel=kernel, rw=OUT)
    marks = {}
    with subprocess.Popen(command, cwd=TOP, text=True,
                          stdout=subprocess.PIPE) as guest:
        for line in guest.stdout:
            words = line.split()
            if words[:1] == ["mark"]:
                marks.setdefault(words[1], time.monotonic())
            else:
                print(line, end="")
    if guest.returncode:
        raise SystemExit(f"presets: the guest ended with status {guest.returncode}")
    result = json.loads((OUT / f"emulated-smr-{drive}.json").read_text())
    result["real"] = {name: marks[end] - marks[begin] for name, begin, end in (
        ("create", "create", "created"), ("random", "random", "randomised"),
        ("fill", "fill", "filled")) if begin in marks}
    return result


def name(r):
    return f"emulated-smr-{r['drive']}" + (f" 1/{r['scale']}" if r["scale"] > 1 else "")


def agreement(ledgers):
    same = all(ledgers[k] == ledgers[k + "_said"] for k in ("written", "read"))
    return "to the block" if same else (
        f"NO: written {ledgers['written']}, said {ledgers['written_said']}; "
        f"read {ledgers['read']}, said {ledgers['read_said']}")


def tables(results, options):
    out = Table("layout", ["", "presents, TB", "bands", "cache", "map RAM, MiB", "create, s"])
    for r in results:
        layout = r["layout"]
        out.add(name(r), f"{layout['logical_blocks'] * 4096 / 1e12:.3f}",
                str(layout["bands"]["data"]),
                str(layout["bands"]["cache"] or f"{layout['params'].get('log-bands')}/zone"),
                f"{layout['map_bytes'] / 2 ** 20:.0f}", f"{r['real']['create']:.2f}")
    writes = Table("4 KiB, one at a time", ["", "writes", "mean, ms", "median", "99 %", "longest",
                                            "steps", "real, s", "ledgers agree"])
    for r in results:
        for kind, label in (("random", name(r)), ("fill", "one " + (
                "zone" if r["drive"] == 3 else "set"))):
            if kind not in r:
                continue
            f = r[kind]
            writes.add(label, str(f["writes"]), *(f"{f[key]:.4f}" for key in (
                "mean_ms", "median_ms", "p99_ms")), f"{f['max_ms']:.3f}", str(f["steps"]),
                f"{r['real'][kind]:.1f}", agreement(f["ledgers"]))
    runner.show(options, out, writes)
    for r in results:
        if "fill" in r and r["fill"]["bands_cleaned"]:
            f = r["fill"]
            print(f"{name(r)}: {f['bands_cleaned']} bands cleaned in "
                  f"{f['clean_us'] / 1e6:.0f} s of its own time, "
                  f"{f['clean_us'] / 1e6 / f['bands_cleaned']:.2f} s each, write "
                  f"amplification {1 + f['clean_write_blocks'] / f['host_write_blocks']:.0f}")
    for r in results:
        if "until" in r:
            out = r["layout"]
            slots = (out["bands"]["cache"] or out["params"]["log-bands"] * -(
                -out["bands"]["data"] // out["params"]["zone-bands"])) * out["band_blocks"]
            print(f"{name(r)}: write {r['until']} was the first to wait for cleaning: "
                  f"{r['until'] * 4096 / 2 ** 30:.2f} GiB, {100 * r['until'] / slots:.1f} % "
                  "of the cache, as the paper's Test 6 would measure it")
    out = Table("MB/s, from the outer diameter to the inner; and of what the place gives, in %",
                ["", "at, TB", "tracks", "medium", "read", "%", "write", "%"])
    for r in results:
        for row in r["sequential"]:
            out.add(name(r), f"{row['offset'] / 1e12:.3f}", *(
                f"{row[key]:.1f}" for key in ("profile", "medium", "read")),
                f"{100 * row['read'] / row['profile']:.1f}", *(
                    (f"{row['write']:.1f}", f"{100 * row['write'] / row['write_profile']:.1f}")
                    if row["write_profile"] else ("flash", "")))
    runner.show(options, out)


def verdict(results):
    """Yield a sentence for each deviation from what is expected."""
    for r in results:
        if r["real"]["create"] > CREATE_LIMIT:
            yield f"{name(r)}: creation took {r['real']['create']:.1f} s"
        for kind in ("random", "fill"):
            ledgers = r.get(kind, {}).get("ledgers")
            if ledgers and agreement(ledgers) != "to the block":
                yield f"{name(r)}: the ledgers do not agree"
            if ledgers and (ledgers["late"] or ledgers["r0_violations"]):
                yield f"{name(r)}: {ledgers['late']} late, {ledgers['r0_violations']} R0"
        ledgers = r.get("until_ledgers")
        if ledgers and agreement(ledgers) != "to the block":
            yield f"{name(r)}: the ledgers do not agree when the cache is full"
        if "fill" in r and not r["fill"]["bands_cleaned"]:
            yield f"{name(r)}: one write too many did not make it clean"
        # A scaled drive streams through a cache of a band or two.
        for row in r["sequential"] if r["scale"] == 1 else ():
            for what, want in (("read", row["profile"]), ("write", row["write_profile"])):
                if want and abs(row[what] / want - 1) > CLOSE:
                    yield (f"{name(r)}: {what} at {row['offset'] / 1e12:.3f} TB is "
                           f"{row[what]:.1f} MB/s where its place gives {want:.1f}")


def main():
    p = runner.Parser("presets", __doc__, "kernel")
    p.add_argument("--writes", type=int, default=1000000)
    p.add_argument("--scale", type=int, default=1)
    p.add_argument("--no-cleaning", action="store_true",
                   help="leave out filling one set or zone")
    p.add_argument("--until-cleaning", action="store_true",
                   help="go on writing until the cache is full: ten minutes for a drive")
    p.add_argument("drive", nargs="*", type=int, metavar="1|2|3",
                   help="which; all if none is given")
    options = p.parse_args()
    if not set(options.drive) <= {1, 2, 3}:
        p.error("drives are 1, 2 and 3")
    runner.prepare("presets", "shingle")
    results = []
    for drive in options.drive or (1, 2, 3):
        if os.isatty(2):
            print(f"emulated-smr-{drive}: about a minute...", end="\r", flush=True,
                  file=sys.stderr)
        results.append(measure(options.kernel, drive, options))
    runner.keep(options, results)
    tables(results, options)
    return runner.status(list(verdict(results)), f"created within {CREATE_LIMIT} s, ledgers agree" + (
        f", throughput within {100 * CLOSE:.0f} % of the tracks" if options.scale == 1 else ""))
