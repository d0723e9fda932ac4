# SPDX-License-Identifier: GPL-2.0
"""The KUnit tests of dm-platter's pure code, in user space with sanitizers."""

import re
import subprocess
from programs import TOP, make


def test_vectors():
    make("tests", "check")
    done = subprocess.run([TOP / "build/tests/platter-test"], capture_output=True, text=True,
                          check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    source = (TOP / "dm-platter/platter-kunit.c").read_text(encoding="utf-8")
    cases = re.findall(r"KUNIT_CASE(?:_SLOW)?\((\w+)\)", source)
    assert cases and re.findall(r"^ok \d+ (\w+)$", done.stdout, re.M) == cases
