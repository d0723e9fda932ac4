# SPDX-License-Identifier: GPL-2.0
"""fio verify: crc32c, 4 KiB to 1 MiB mixed, 32 in flight, trims, remounts.

There are three runs over every geometry.  `mixed` writes everything in random order and verifies
while it writes; `trims` trims a part of what it wrote; then the target is closed and opened, and a
run of the first kind is verified once more from its seed alone.
"""

import json
import os
import random
import subprocess

from guest import media
from guest.bench import HANG_S, Failure, Skip, expect, run
from guest.replay import workload
from guest.targets import GEOMETRIES, stack

COMMON = {
    "ioengine": "libaio", "iodepth": 32, "direct": 1, "verify": "crc32c",
    "verify_fatal": 1, "bssplit": "4k/40:8k/10:16k/10:60k/10:128k/20:1m/10",
    "serialize_overlap": 1, "group_reporting": 1, "thread": 1,
    "allow_mounted_write": 0, "clocksource": "clock_gettime",
}
# Seconds in which no write may be forgotten; a lost wake-up seldom needs more than two.
HURRY_S = 8
RUNS = {
    "mixed": {"rw": "randwrite", "verify_backlog": 64},
    "trims": {"rw": "randtrimwrite"},
    "sequential": {"rw": "write", "verify_backlog": 64},
}


def fio(path, name, seed, size, **more):
    """Run fio once; return its figures in KiB."""
    keys = {**COMMON, **RUNS[name], "name": name, "filename": path,
            "size": size, "randseed": seed, "randrepeat": 0,
            "allrandrepeat": 1, **more}
    argv = [f"--{k}={v}" for k, v in keys.items()]
    # fio leaves a verify state file in the current directory.
    status, out = run("fio", "--output-format=json", "--verify_state_save=0",
                      *argv, ok=None, cwd="/tmp")
    begin = out.find("{\n")
    if status or begin < 0:
        raise Failure(f"fio {name} seed {seed} ended with {status}: "
                      f"{out[:1500]}")
    job = json.loads(out[begin:])["jobs"][0]
    expect(not job["error"], f"fio {name} reports error {job['error']}")
    return {"written": job["write"]["io_kbytes"],
            "read": job["read"]["io_kbytes"],
            "trimmed": job["trim"]["io_kbytes"]}


def verify(ctx, geo, seed, medium):
    if not os.path.exists("/usr/bin/fio"):
        raise Skip("no fio")
    made = media.stack(ctx, geo, medium)
    made.open()
    path = made.device.path
    size = geo.logical * 4096
    total = {"written": 0, "read": 0, "trimmed": 0}

    def add(numbers):
        for key, value in numbers.items():
            total[key] += value

    for name in RUNS:
        add(fio(path, name, seed, size))
        made.verify()
    total.update(made.bypassed())
    add(fio(path, "mixed", seed + 1, size))
    made.close()
    made.check()
    made.open()
    path = made.device.path
    add(fio(path, "mixed", seed + 1, size, verify_only=1, verify_backlog=0))
    if "clean" in ctx.target.messages:
        made.device.message("clean")
        add(fio(path, "mixed", seed + 1, size, verify_only=1,
                verify_backlog=0))
    with made.blk() as dev:
        dev.discard(0, geo.logical)
    # Once more with our own stamps: reads beside writes, and the order is checked.
    with made.blk() as dev:
        dev.zero(0, geo.logical)
        model = workload(dev, lambda _: None, geo.logical,
                         random.Random(seed), 600, ctx.target.in_place)
        wrong = model.compare(dev.read(0, geo.logical))
        expect(not wrong, f"{len(wrong)} wrong blocks: {wrong[:3]}")
    made.verify()
    status = made.device.status()
    made.close()
    made.check()
    total.update(media.judge(made))
    ctx.note(f"{total['written'] >> 10} MiB written, {total['read'] >> 10} "
             f"MiB verified, {total['trimmed'] >> 10} MiB trimmed; {status}")
    return total


def nothing_hurries(ctx, geo):
    """Without a timer for commits or idle cleaning only events wake waiting requests: whole bands
    and single blocks together on a device that is always full."""
    if not os.path.exists("/usr/bin/fio"):
        raise Skip("no fio")
    made = stack(ctx.pool, ctx.target, geo)
    device = made.open()
    device.message("idle_ms 600000")
    device.message("commit_ms 0")
    common = [f"--filename={device.path}", "--direct=1", "--ioengine=libaio",
              "--iodepth=2", "--time_based", f"--runtime={HURRY_S}"]
    argv = ["fio", "--name=stray", "--rw=randwrite", "--norandommap",
            f"--bsrange=4k-{geo.band * 4}k", "--blockalign=4k", *common,
            "--name=bands", "--rw=write", f"--bs={geo.band * 4}k", *common]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, cwd="/tmp") as job:
        try:
            said, _ = job.communicate(timeout=HURRY_S + HANG_S)
        except subprocess.TimeoutExpired as late:
            # The timer wakes the forgotten request, so that the guest goes on.
            device.message("commit_ms 10")
            job.communicate()
            raise Failure("a write was forgotten") from late
    expect(not job.returncode, f"fio ended with {job.returncode}: {said[-800:]}")
    made.verify()
    made.close()
    made.check()


def cases(target, options):
    seed = int(options.get("seed", 1))
    out = []
    for geo in target.geometry("fio"):
        if not target.persistent and geo is not GEOMETRIES["fio"][0]:
            continue
        out.append((f"{geo.name}", lambda ctx, g=geo: verify(
            ctx, g, seed, "ram")))
    if target.persistent:
        tiny = next(g for g in GEOMETRIES["replay"] if g.name == "tiny")
        out.append(("nothing hurries", lambda ctx: nothing_hurries(ctx, tiny)))
        for geo in target.geometry("fio-platter"):
            out.append((f"{geo.name} over platter {target.medium}",
                        lambda ctx, g=geo: verify(ctx, g, seed,
                                                  target.medium)))
    return out
