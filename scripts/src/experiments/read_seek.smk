# SPDX-License-Identifier: GPL-2.0
# The sweep of scripts/experiments read-seek, a workflow of Snakemake, which scripts/lab/setup installs:
#
#   scripts/experiments read-seek --sweep [TRACE...]
#
# It replays each trace with all values of N, k, the sizes and numbers of regions, and the sizes of the
# cache, and writes build/out/read-seek/sweep.csv: trace, configuration, seeks, seek amplification
# factor, RAM, and KiB of RAM for each seek that LS has more.  It runs in the top directory.
import csv
import hashlib
import json
import os
from pathlib import Path

TRACES = str(config["traces"]).split()
OPTIONS = f"--seed {config.get('seed', 1)}" + (
    f" --requests {config['requests']}" if "requests" in config else "")
CONFIGURATIONS = [
    *(f"OD N={n} k={k}" for n in (2, 3, 4, 6, 8, 16) for k in (1, 2, 3, 4)),
    *(f"LAB {kib}x{regions}" for kib in (16, 32, 64, 128, 256, 512, 1024) for regions in (1, 4, 32)),
    *(f"SC {mib}M{exact}" for mib in (1, 4, 16, 64, 256) for exact in ("", " exact")),
]
OUT = "build/out/read-seek/sweep"
COLUMNS = ("trace", "configuration", "read_seeks", "write_seeks", "saf", "ram_kib", "kib_a_saved_seek")
# A file is of one trace with these options; a file of another content or program is made again.
NAMES = {hashlib.sha256(f"{trace} {OPTIONS}".encode()).hexdigest()[:16]: trace for trace in TRACES}
PROGRAM = "build/userspace/shingle-replay"


rule all:
    input: f"{OUT}.csv"


# A file for each trace, because traces are few and configurations take no longer than a start.
rule trace:
    input: lambda wildcards: [PROGRAM, *filter(os.path.isfile, [NAMES[wildcards.name]])]
    output: OUT + "/{name}.json"
    params:
        trace=lambda wildcards: NAMES[wildcards.name],
        configurations=",".join(CONFIGURATIONS),
        options=OPTIONS
    threads: workflow.cores
    shell:
        "scripts/experiments read-seek {params.trace:q} --configurations {params.configurations:q} "
        "{params.options} --resume --jobs {threads} --json {output:q} >/dev/null"


rule table:
    input: [f"{OUT}/{name}.json" for name in NAMES]
    output: f"{OUT}.csv"
    run:
        with open(output[0], "w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out)
            rows.writerow(COLUMNS)
            for path in input:
                traces = json.loads(Path(path).read_text(encoding="utf-8"))["results"]["traces"]
                for trace, of in traces.items():
                    for name, one in of.items():
                        f = one["figures"]
                        rows.writerow((trace, name, *(f[key] for key in (
                            "read", "write", "saf", "ram_kib", "kib_a_saved_seek"))))
