# SPDX-License-Identifier: GPL-2.0
"""Tests in guests: every suite of tests/guest that has a row in tests/plan.py, as test_SUITE; TAP
scripts, those of a row in one guest; and KUnit modules, in another."""

import re

import lab
import pytest
from conftest import cases
from plan import SUITES


def over(suite):
    @pytest.mark.parametrize("case", cases(suite))
    def test(case, guests):
        guests.check(case)
    return test


globals().update((f"test_{suite}", over(suite)) for suite in SUITES)


SCRIPTS = [
    # scripts, kernel, clock, environment
    ("life.sh", "uml", "real", {"TARGET": "stl-set"}),
    ("life.sh", "uml", "real", {"TARGET": "stl-full"}),
    ("life.sh", "uml", "real", {"TARGET": "imr"}),
    ("life.sh", "uml", "real", {"TARGET": "tiler"}),
    ("life.sh", "uml", "real", {"TARGET": "dualbuffer"}),
    ("life.sh", "uml", "real", {"TARGET": "rmwf"}),
    ("life.sh", "uml", "real", {"TARGET": "linear"}),
    ("life.sh platter.sh", "uml-debug", "real", {"TARGET": "stl-set"}),
    ("life.sh platter.sh", "stock", "real", {"TARGET": "stl-set"}),
    ("life.sh", "backports", "real", {"TARGET": "stl-set"}),
    ("presets.sh", "uml", "real", {"PRESET": "emulated-smr-1"}),
    ("presets.sh", "uml", "real", {"PRESET": "emulated-smr-2"}),
    ("presets.sh", "uml", "real", {"PRESET": "emulated-smr-3"}),
    ("presets.sh", "uml", "real", {"PRESET": "ma-tiler"}),
    ("presets.sh", "uml", "real", {"PRESET": "tiler-track"}),
    ("presets.sh", "uml", "real", {"PRESET": "ma-dualbuffer"}),
    ("presets.sh", "uml", "real", {"PRESET": "ma-rmwf"}),
    ("presets.sh", "uml", "real", {"PRESET": "hajkazemi-log"}),
    ("presets.sh", "uml", "real", {"PRESET": "hajkazemi-defrag"}),
    ("tab.sh", "uml", "real", {}),
    ("platter.sh", "uml", "virtual", {}),
    ("modules.sh", "uml", "real", {}),
    ("modules.sh", "stock", "real", {}),
    ("modules.sh", "backports", "real", {}),
    ("moved.py", "uml-smp", "real", {}),
]


def name(row):
    scripts, kernel, clock, env = row
    return "-".join([*scripts.split(), kernel, *([clock] if clock != "real" else []),
                     *env.values()])


def tap(text):
    """Parse a TAP or KTAP text; return (number passed, failed lines, number skipped)."""
    found = re.findall(r"^ *(not ok|ok) \d+(.*)$", text, re.M)
    skipped = sum("# SKIP" in rest for _, rest in found)
    failed = [rest for what, rest in found if what == "not ok"]
    return len(found) - skipped - len(failed), failed, skipped


def boot_script(row):
    scripts, kernel, clock, env = row
    # 4: the script skipped everything.
    return lab.run("\n".join([
        "status=0", *(f"tests/kselftest/{s} || [ $? = 4 ] || status=1"
                      for s in scripts.split()),
        "exit $status"]), kernel=kernel, clock=clock, env=env, timeout=3600)


def boot_kunit():
    return lab.run(["scripts/lab/kunit"], kernel="uml-debug", timeout=3600)


@pytest.mark.boots(run=boot_script, kernel=lambda row: row[1])
@pytest.mark.parametrize("row", SCRIPTS, ids=name)
def test_script(row, guest):
    passed, failed, skipped = tap(guest.out)
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    assert not failed and guest.ok, str(guest)
    assert passed or skipped, str(guest)


@pytest.mark.boots(run=boot_kunit, kernel=lambda: "uml-debug")
def test_kunit(guest):
    passed, failed, _ = tap(guest.out)
    print(f"{passed} KTAP lines passed")
    assert guest.ok and not failed and passed, str(guest)
