# SPDX-License-Identifier: GPL-2.0
"""Compile with W=1 and sparse for the lab's kernels, and run checkpatch and kernel-doc.

scripts/lab/lint [KERNEL...]      default: every kernel that is cached

Any warning in a file of this project is a failure.  checkpatch.ignore lists the types of messages
that checkpatch skips, and why.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from lab import kernels, modules, packages
from lab.cache import LAB, LabError, TOP, digest, lock, read, say

WARNING = re.compile(r"^(\S+?):(\d+):(?:\d+:)? (?:fatal )?"
                     r"(?:error|warning): ")


def compile_for(kernel):
    """Return warnings of compiler and sparse in this project's files, one in each line."""
    directory = TOP / "build/lint" / kernel.name
    with lock("lint-" + digest(directory)):
        shutil.rmtree(directory, ignore_errors=True)
        done = subprocess.run(
            [*map(str, modules.make(kernel)), "modules", "W=1", "C=2",
             f"MODDIR={directory}", "-k", kernels.jobs()],
            text=True, errors="replace", check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        (directory / "lint.log").write_text(done.stdout, encoding="utf-8")
    lines, found = done.stdout.splitlines(), []
    for i, line in enumerate(lines):
        if WARNING.match(line) and ours(line, directory):
            found.append(line)
            found += [x for x in lines[i + 1:i + 3]
                      if re.match(r" +\d* \| ", x)]
    if done.returncode and not found:
        found = lines[-20:]
    # objtool, modpost and others have formats of their own.
    found += [x for x in lines if re.search(r"(objtool|modpost): ", x)
              and re.search(r"warning|error|WARNING|ERROR", x)
              and re.search(r"core/|dm-", x)]
    if "sparse is not available or not up to date" in done.stdout:
        say(f"{kernel.name} asks for a newer sparse than this one: "
            "compiler warnings only")
    return list(dict.fromkeys(x.replace(f"{directory}/", "") for x in found))


def ours(line, directory):
    path = Path(line.split(":")[0])
    rooms = {room.name for room in modules.rooms()}
    for top in (directory, TOP):
        if path.is_absolute() and path.is_relative_to(top):
            path = path.relative_to(top)
    return not path.is_absolute() and path.parts[0] in rooms


def c_files():
    return sorted(p for folder in modules.folders() for p in folder.iterdir()
                  if p.suffix in (".c", ".h"))


def kernel_doc():
    """Return what the newest kernel's kernel-doc says of the modules' comments."""
    files = [p for p in c_files() if p.relative_to(TOP).parts[0] != "tests"]
    done = subprocess.run(
        [sys.executable, kernels.source_tree() / "scripts/kernel-doc", "-Wall", "-none", *files],
        cwd=TOP, text=True, check=False, capture_output=True)
    return [line.replace(f"{TOP}/", "") for line in
            (done.stdout + done.stderr).splitlines() if line.strip()]


def checkpatch():
    script = kernels.source_tree() / "scripts/checkpatch.pl"
    ignored = ",".join(line for line in
                       read(LAB / "checkpatch.ignore").splitlines()
                       if line and not line.startswith("#"))
    files = c_files()
    done = subprocess.run(
        ["perl", script, "--no-tree", "--strict", "--terse", "--show-types",
         "--no-summary", "--color=never", f"--ignore={ignored}",
         "-f", *files], cwd=TOP, text=True, check=False,
        capture_output=True)
    return [line.replace(f"{TOP}/", "") for line in
            (done.stdout + done.stderr).splitlines() if line.strip()]


def main(names):
    if not set(names) <= set(kernels.NAMES) - {"host"}:
        print(__doc__, file=sys.stderr)
        return 2
    bad = 0
    try:
        packages.setup()
        for name in names or list(kernels.cached()):
            found = compile_for(kernels.get(name))
            say(f"W=1 and sparse for {name}: {len(found)} lines of warnings")
            print("\n".join(found), end="\n" if found else "")
            bad += bool(found)
        for name, run in ("checkpatch --strict", checkpatch), ("kernel-doc -Wall", kernel_doc):
            found = run()
            say(f"{name}: {len(found)} remarks")
            print("\n".join(found), end="\n" if found else "")
            bad += bool(found)
    except LabError as error:
        say(str(error))
        return 125
    return 1 if bad else 0


sys.exit(main(sys.argv[1:]))
