# SPDX-License-Identifier: GPL-2.0
"""Autonomous regions in userspace, under AddressSanitizer, without a guest.

The exerciser tests that no data are lost (test_engines.py)."""

import re
import subprocess

import pytest
from programs import TOP, make

OUT = TOP / "build/tests"

# Write amplification by the share of a region in use, from an independent simulation of Ma
# (2019), Algorithms 2 and 3; None: the region is never cleaned.
TABLE = {
    "k=3": {.3: None, .33: None, .4: None, .5: 1.08, .6: 2.00, .7: 2.99, .8: 4.65, .9: 9.43},
    "k=2": {.3: None, .33: None, .4: None, .5: None, .6: None, .7: 2.00, .8: 3.75, .9: 8.60},
    "two states": {.33: 1.49, .4: 1.66, .5: 2.00, .6: 2.47, .7: 3.29, .8: 4.83, .9: 9.49},
    "k=3, 10 % take 90 %": {.3: None, .33: None, .4: None, .5: 1.10, .6: 1.24, .7: 1.43,
                            .8: 1.70, .9: 2.43},
}


@pytest.fixture(scope="module", autouse=True)
def built():
    make("tests", "check")


def run(tool, *args):
    return subprocess.run([OUT / tool, *map(str, args)], capture_output=True, text=True,
                          timeout=1800)


def test_vectors():
    done = run("tiler-test")
    assert done.returncode == 0, done.stdout
    # Every case of the source, and each vector of the specification.
    source = (TOP / "dm-tiler/tiler-kunit.c").read_text()
    cases = re.findall(r"^static void (tiler_\w+)\(struct kunit \*test\)$", source, re.M)
    ran = re.findall(r"^ok \d+ (\w+)$", done.stdout, re.M)
    assert sorted(ran) == sorted(cases), done.stdout
    assert {int(n) for n in re.findall(r"tiler_vt(\d+)_", " ".join(ran))} == set(range(1, 7))


def test_amplification():
    """The write amplification is within a tenth of the independent simulation."""
    done = run("tiler-check", "table")
    assert done.returncode == 0, done.stdout
    print(done.stdout)
    seen = {}
    for line in done.stdout.splitlines()[2:]:
        used, load, rest = re.fullmatch(r"(\S+)  (.{20})\s+(.+)", line).groups()
        seen[load.strip(), float(used)] = None if "never" in rest else float(rest.split()[-1])
    for load, column in TABLE.items():
        for used, amplification in column.items():
            assert seen[load, used] == (amplification and
                                        pytest.approx(amplification, rel=.1)), (load, used)


def test_no_cleaning_below_the_bound():
    done = run("tiler-check", "bound")
    assert done.returncode == 0, done.stdout
    less, cleaned, cleans = map(int, re.findall(r"\d+", done.stdout.splitlines()[-1]))
    assert cleaned == 0 and less > 80 and cleans > 80, done.stdout
