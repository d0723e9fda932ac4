# SPDX-License-Identifier: GPL-2.0
# A sweep of scripts/experiments read-seek by Snakemake, which scripts/lab/setup does not install:
#
#   snakemake -s scripts/src/experiments/read_seek.smk -c2 --config traces="hm_1.csv.gz w91.vscsi"
#
# It replays each trace with all values of N, k, the sizes and numbers of regions, and the sizes of the
# cache, and writes build/out/read-seek/sweep.csv: trace, configuration, seeks, seek amplification
# factor, RAM, and bytes of RAM for each seek that LS has more.
import csv
import json
from pathlib import Path

TRACES = str(config.get("traces", "descending shuffled interleaved")).split()
REQUESTS = f"--requests {config['requests']}" if "requests" in config else ""
CONFIGURATIONS = [
    *(f"OD N={n} k={k}" for n in (2, 3, 4, 6, 8, 16) for k in (1, 2, 3, 4)),
    *(f"LAB {kib}x{regions}" for kib in (16, 32, 64, 128, 256, 512, 1024) for regions in (1, 4, 32)),
    *(f"SC {mib}M{exact}" for mib in (1, 4, 16, 64, 256) for exact in ("", " exact")),
]
OUT = "build/out/read-seek/sweep"
COLUMNS = ("trace", "configuration", "read_seeks", "write_seeks", "saf", "ram_kib",
           "bytes_a_saved_seek")


rule all:
    input: f"{OUT}.csv"


# A file for each trace, because traces are few and configurations take no longer than a start.
rule trace:
    output: OUT + "/{number}.json"
    params:
        trace=lambda wildcards: TRACES[int(wildcards.number)],
        configurations=",".join(CONFIGURATIONS),
        requests=REQUESTS
    threads: workflow.cores
    shell:
        "scripts/experiments read-seek {params.trace:q} --configurations {params.configurations:q} "
        "{params.requests} --resume --jobs {threads} --json {output:q} >/dev/null"


rule table:
    input: [f"{OUT}/{number}.json" for number in range(len(TRACES))]
    output: f"{OUT}.csv"
    run:
        with open(output[0], "w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out)
            rows.writerow(COLUMNS)
            for path in input:
                traces = json.loads(Path(path).read_text(encoding="utf-8"))["results"]["traces"]
                for trace, of in traces.items():
                    plain = of["LS"]["figures"]
                    for name, one in of.items():
                        f = one["figures"]
                        saved = plain["read"] + plain["write"] - f["read"] - f["write"]
                        ram = 1024 * (f["ram_kib"] - plain["ram_kib"])
                        rows.writerow((trace, name, f["read"], f["write"], f["saf"], f["ram_kib"],
                                       round(ram / saved) if saved > 0 else ""))
