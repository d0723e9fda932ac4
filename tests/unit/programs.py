# SPDX-License-Identifier: GPL-2.0
"""Build programs that several tests run."""

import re
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def make(folder, *words):
    """Run make in a directory of the tree, without output unless it fails."""
    subprocess.run(["make", "-s", "-C", TOP / folder, *words], check=True,
                   stdout=subprocess.DEVNULL)


def kunit_cases(program, source):
    """Run a program of build/tests that has the KUnit cases of @source, and return their names.

    It must pass and run each case of the source in order, except those with parameters, which need
    the kernel; and the source must name each of its cases in its list."""
    done = subprocess.run([TOP / "build/tests" / program], capture_output=True, text=True,
                          check=False, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (TOP / source).read_text(encoding="utf-8")
    cases = re.findall(r"KUNIT_CASE(?:_SLOW)?\((\w+)\)", text)
    assert sorted(re.findall(r"^static void (\w+)\(struct kunit \*test\)$", text, re.M)) == \
        sorted(re.findall(r"KUNIT_CASE\w*\((\w+)", text))
    assert cases and re.findall(r"^ok \d+ (\w+)$", done.stdout, re.M) == cases, done.stdout
    assert done.stdout.endswith(f"\n1..{len(cases)}\n"), done.stdout
    return cases


def platter_sim():
    """Build platter-sim with sanitizers and return its path.

    Its results do not depend on the sanitizers. The program keeps its name, so it is built in a
    directory of its own, which all tests share."""
    out = TOP / "build/userspace/sanitized"
    make("userspace/platter-sim", f"OUT={out}", "SANITIZE=address,undefined",
         str(out / "platter-sim"))
    return str(out / "platter-sim")
