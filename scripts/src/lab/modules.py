# SPDX-License-Identifier: GPL-2.0
"""Build this checkout's modules for a kernel, only if something changed."""

import os
import re
import subprocess
from pathlib import Path

from .cache import LabError, TOP, digest, lock, read, step, write
from .kernels import jobs


def rooms():
    return sorted(p.parent for p in TOP.glob("*/Kbuild")
                  if p.parent.name != "build")


def folders():
    """Return the source directories: top directories, core's layers, engines."""
    below = [p for room in rooms() if room.name != "tests" for p in room.rglob("*") if p.is_dir()]
    return rooms() + sorted(below)


def fingerprint(kernel):
    """Return a digest that changes with every source, Makefile and kernel."""
    facts = [kernel.kdir, (kernel.kdir / "Module.symvers").stat().st_mtime_ns]
    names = [TOP / name for name in ("Makefile", "Kbuild", "dkms.conf", "version.mk", "sources.mk")]
    for folder in folders():
        names += [Path(e.path) for e in os.scandir(folder) if e.is_file()]
    for name in sorted(names):
        stat = name.stat()
        facts += [name, stat.st_size, stat.st_mtime_ns]
    return digest(*facts)


def make(kernel):
    command = ["make", "-C", TOP, "--no-print-directory",
               f"KDIR={kernel.kdir}"]
    return command + ([f"ARCH={kernel.arch}"] if kernel.arch else [])


def _load_list(directory):
    """Return insmod lines in an order that satisfies every dependency."""
    files = {}
    for line in read(directory / "modules.order").splitlines():
        path = Path(line)
        if not path.is_absolute():
            path = directory / path
        path = path.with_suffix(".ko")
        if not path.exists():
            # Older kernels write the path relative to another directory.
            path = directory / path.parent.name / path.name
        files[path.stem.replace("-", "_")] = path
    needs = {name: _depends(path) for name, path in files.items()}
    lines = []

    def add(name):
        line = f"insmod {files[name]}" if name in files else f"modprobe {name}"
        if line not in lines:
            for need in needs.get(name, ()):
                add(need)
            lines.append(line)

    for name in files:
        # KUnit modules run their tests when loaded, so only scripts/lab/kunit loads them.
        if "kunit" not in needs[name] and not name.endswith("_kunit"):
            add(name)
    return lines


def _depends(path):
    text = subprocess.run(["/sbin/modinfo", "-F", "depends", path], check=True,
                          text=True, capture_output=True).stdout.strip()
    return [need.replace("-", "_") for need in text.split(",") if need]


def build(kernel):
    """Build the modules if needed; return their directory and the load list."""
    stamp = TOP / "build/.lab" / kernel.name
    have = _valid(kernel, stamp)
    if not have:
        with lock("modules-" + digest(TOP, kernel.name)):
            have = _valid(kernel, stamp) or _build(kernel, stamp)
    directory, load = Path(have[0]), have[1:]
    if not any(line.startswith("insmod ") for line in load):
        _nothing_built(kernel, directory)
    return directory, load


def _nothing_built(kernel, directory):
    """Refuse an empty build, because tests without our modules would pass or fail for a wrong
    reason."""
    found = re.search(r"^(?:export )?KBUILD_OUTPUT *[:?]?= *(\S+)",
                      read(kernel.kdir / "Makefile"), re.M)
    elsewhere = found and Path(found[1]).resolve() != kernel.kdir.resolve()
    raise LabError(
        f"there is no module to load: building for {kernel.name} left none in "
        f"{directory}; " +
        (f"{kernel.kdir} was copied from elsewhere, its Makefile builds in {found[1]}: "
         "remove it, and the next run makes another" if elsewhere else
         f"see {TOP}/build/.lab/{kernel.name}.log, or use --no-modules"))


def _valid(kernel, stamp):
    """Return the contents of a stamp if sources and modules are unchanged since."""
    have = read(stamp).splitlines()
    if len(have) >= 3 and have[0] == fingerprint(kernel) and \
            have[1] == _state(have[3:]):
        return have[2:]
    return None


def _state(load):
    """Return a digest that changes when another process has built into the same directory."""
    facts = []
    for line in load:
        how, path = line.split(" ", 1)
        if how == "insmod":
            path = Path(path)
            stat = path.stat() if path.exists() else None
            facts += [path, stat and (stat.st_mtime_ns, stat.st_size)]
    return digest(*facts)


def _build(kernel, stamp):
    if not (kernel.kdir / "Makefile").exists():
        raise LabError(f"no kernel build tree at {kernel.kdir}; install the "
                       "headers of that kernel, or use --no-modules")
    want = fingerprint(kernel)
    directory = Path(subprocess.run(
        [*make(kernel), "-s", "moddir"], check=True, text=True,
        capture_output=True).stdout.strip())
    step(f"building modules for {kernel.name}",
         [*make(kernel), "modules", jobs()],
         TOP / f"build/.lab/{kernel.name}.log")
    load = _load_list(directory)
    write(stamp, "\n".join([want, _state(load), str(directory), *load]) + "\n")
    return [str(directory), *load]
