# SPDX-License-Identifier: GPL-2.0
"""Builds this checkout's modules for a kernel, only if something changed."""

import os
import subprocess
from pathlib import Path

from .cache import LabError, TOP, digest, lock, read, step, write
from .kernels import jobs


def rooms():
    return sorted(p.parent for p in TOP.glob("*/Kbuild")
                  if p.parent.name != "build")


def fingerprint(kernel):
    """Changes whenever a source, a Makefile or the kernel does."""
    facts = [kernel.kdir, (kernel.kdir / "Module.symvers").stat().st_mtime_ns]
    names = [TOP / "Makefile", TOP / "Kbuild"]
    for room in rooms():
        names += [Path(e.path) for e in os.scandir(room) if e.is_file()]
    for name in sorted(names):
        stat = name.stat()
        facts += [name, stat.st_size, stat.st_mtime_ns]
    return digest(*facts)


def make(kernel):
    command = ["make", "-C", TOP, "--no-print-directory",
               f"KDIR={kernel.kdir}"]
    return command + ([f"ARCH={kernel.arch}"] if kernel.arch else [])


def _load_list(directory):
    """insmod lines in an order that satisfies every dependency."""
    files = {}
    for line in read(directory / "modules.order").splitlines():
        path = Path(line)
        if not path.is_absolute():
            path = directory / path
        path = path.with_suffix(".ko")
        if not path.exists():
            # Written relative to somewhere else on older kernels.
            path = directory / path.parent.name / path.name
        files[path.stem.replace("-", "_")] = path
    lines = []

    def add(name):
        path = files.get(name)
        line = f"insmod {path}" if path else f"modprobe {name}"
        if line in lines:
            return
        if path:
            depends = subprocess.run(
                ["/sbin/modinfo", "-F", "depends", path], check=True,
                text=True, capture_output=True).stdout.strip()
            for need in filter(None, depends.split(",")):
                add(need.replace("-", "_"))
        lines.append(line)

    for name in files:
        if not name.endswith("_kunit"):
            add(name)
    return lines


def build(kernel):
    """Up-to-date modules; returns their directory and the load list."""
    stamp = TOP / "build/.lab" / kernel.name
    want = fingerprint(kernel)
    have = read(stamp).splitlines()
    if len(have) < 2 or have[0] != want or not _all_there(have[2:]):
        with lock("modules-" + digest(TOP, kernel.name)):
            want = fingerprint(kernel)
            have = read(stamp).splitlines()
            if len(have) < 2 or have[0] != want or not _all_there(have[2:]):
                have = _build(kernel, want, stamp)
    return Path(have[1]), have[2:]


def _all_there(lines):
    return all(Path(line.split(" ", 1)[1]).exists() for line in lines
               if line.startswith("insmod "))


def _build(kernel, want, stamp):
    if not (kernel.kdir / "Makefile").exists():
        raise LabError(f"no kernel build tree at {kernel.kdir}; install the "
                       "headers of that kernel, or use --no-modules")
    directory = Path(subprocess.run(
        [*make(kernel), "-s", "moddir"], check=True, text=True,
        capture_output=True).stdout.strip())
    step(f"building modules for {kernel.name}",
         [*make(kernel), "modules", jobs()],
         TOP / f"build/.lab/{kernel.name}.log")
    have = [want, str(directory), *_load_list(directory)]
    write(stamp, "\n".join(have) + "\n")
    return have
