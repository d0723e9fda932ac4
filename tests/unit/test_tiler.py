# SPDX-License-Identifier: GPL-2.0
"""Autonomous regions in userspace, under AddressSanitizer, without a guest.

The medium has dm-platter's geometry. After every write all blocks must be there, and would have to
be after a power cut at that moment."""

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
    make("tests", "tiler-check")


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


def test_no_data_are_lost():
    """For heads that destroy up to seven tracks, no block is lost under random writes, cleaning and
    power cuts, and all of these do occur."""
    done = run("tiler-check", "run", 1, 8)
    assert done.returncode == 0, done.stdout + done.stderr
    *widths, last = done.stdout.splitlines()
    assert [line.split(":")[0] for line in widths] == [f"k={k}" for k in range(1, 9)]
    # Without cleaning, or with a head that destroys nothing, the test would prove nothing.
    for line in widths:
        for what, least in (("written", 10000), ("lazy", 300), ("merged", 1000),
                            ("moved", 1000), ("cleans", 500), ("power cuts", 100),
                            ("failed", 100)):
            assert int(re.search(rf"(\d+) {what}", line)[1]) > least, line
        destroyed = int(re.search(r"(\d+) destroyed", line)[1])
        assert (destroyed > 10000) == (not line.startswith("k=1:")), line
    skewed, tight = map(int, re.search(r"(\d+) were skewed, (\d+) without", last).groups())
    assert skewed > 25 and tight > 10, last


@pytest.mark.parametrize("feature", ["unsafe_reuse", "unsafe_inplace"])
def test_each_protection_is_needed(feature):
    """With a protection switched off, as the thesis describes it, a power cut loses acknowledged
    blocks. So the check sees losses, and the protections are necessary."""
    done = run("tiler-check", "run", 1, 5, feature)
    assert done.returncode == 1, done.stdout
    assert re.search(r"block \d+ is lost if the power goes now", done.stdout), done.stdout
    assert int(re.search(r"(\d+) shapes lost", done.stdout)[1]) > 10, done.stdout


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
