# SPDX-License-Identifier: GPL-2.0
"""TAP scripts and KUnit modules, each in a guest of its own."""

import re

import lab
import pytest

SCRIPTS = [
    # script, kernel, clock, environment
    ("life.sh", "uml", "real", {"TARGET": "stl-set"}),
    ("life.sh", "uml", "real", {"TARGET": "imr"}),
    ("life.sh", "uml", "real", {"TARGET": "linear"}),
    ("life.sh", "uml-debug", "real", {"TARGET": "stl-set"}),
    ("life.sh", "stock", "real", {"TARGET": "stl-set"}),
    ("life.sh", "backports", "real", {"TARGET": "stl-set"}),
    ("presets.sh", "uml", "real", {"PRESET": "emulated-smr-1"}),
    ("presets.sh", "uml", "real", {"PRESET": "emulated-smr-2"}),
    ("presets.sh", "uml", "real", {"PRESET": "emulated-smr-3"}),
    ("platter.sh", "uml", "virtual", {}),
    ("platter.sh", "uml-debug", "real", {}),
    ("platter.sh", "stock", "real", {}),
]


def name(row):
    script, kernel, clock, env = row
    return "-".join([script, kernel, *([clock] if clock != "real" else []),
                     *env.values()])


def tap(text):
    """(passed, failed, skipped) lines of a TAP or KTAP text."""
    found = re.findall(r"^ *(not ok|ok) \d+(.*)$", text, re.M)
    skipped = sum("# SKIP" in rest for _, rest in found)
    failed = [rest for what, rest in found if what == "not ok"]
    return len(found) - skipped - len(failed), failed, skipped


@pytest.mark.parametrize("row", SCRIPTS, ids=name)
def test_script(row):
    script, kernel, clock, env = row
    result = lab.run([f"tests/kselftest/{script}"], kernel=kernel,
                     clock=clock, env=env, timeout=1200)
    passed, failed, skipped = tap(result.out)
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    assert not failed and result.rc in (0, 4), str(result)
    assert passed or skipped, str(result)


def test_kunit():
    result = lab.run(["scripts/lab/kunit"], kernel="uml-debug", timeout=900)
    passed, failed, _ = tap(result.out)
    print(f"{passed} KTAP lines passed")
    assert result.ok and not failed and passed, str(result)
