# SPDX-License-Identifier: GPL-2.0
"""Check the group for blktests against what its `check` requires of a group. Running the group
itself needs blktests: see tests/README.md."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
GROUP = TOP / "tests/blktests/shingle"
# The file names by which blktests recognizes tests.
TESTS = sorted(p for p in GROUP.iterdir() if re.fullmatch(r"\d{3}", p.name))
# Stubs of the functions and variables that blktests provides.
THEIRS = """
set -e
_have_driver() { :; }; _have_fio() { :; }; _have_program() { :; }; _have_root() { :; }
"""


@pytest.fixture(name="blktests")
def blktests_fixture(tmp_path):
    """A directory like that of blktests, with helpers that do nothing."""
    shutil.copytree(GROUP, tmp_path / "tests/shingle")
    (tmp_path / "common").mkdir()
    for name in ("rc", "fio"):
        (tmp_path / "common" / name).write_text(THEIRS if name == "rc" else "",
                                                encoding="ascii")
    return tmp_path


def test_tests_are_numbered_without_a_gap():
    """Tests are numbered from 001 without a gap."""
    assert [p.name for p in TESTS] == [f"{i + 1:03}" for i in range(len(TESTS))]
    assert len(TESTS) >= 5


@pytest.mark.parametrize("test", TESTS, ids=lambda p: p.name)
def test_defines_what_check_requires(test, blktests):
    """A test that is sourced from the top of blktests defines all that `check` requires."""
    said = subprocess.run(
        ["bash", "-c", f". tests/shingle/{test.name}; group_requires; declare -F test; "
         'echo "$DESCRIPTION/${QUICK:-}${TIMED:-}"; declare -F test_device || echo alone'],
        cwd=blktests, check=True, text=True, capture_output=True).stdout.split("\n")
    assert said[0] == "test" and said[2] == "alone"
    description, kind = said[1].split("/")
    assert description and len(f"shingle/{test.name} ({description})") <= 60
    assert kind == "1"
    assert test.stat().st_mode & 0o111


@pytest.mark.parametrize("test", TESTS, ids=lambda p: p.name)
def test_expected_output_can_be_printed(test):
    """The test or the group can print each line of the expected output."""
    lines = test.with_suffix(".out").read_text(encoding="ascii").splitlines()
    assert lines[0] == f"Running shingle/{test.name}" and lines[-1] == "Test complete"
    text = test.read_text(encoding="ascii") + (GROUP / "rc").read_text(encoding="ascii")
    # Opening a layer searches for the end of the journal, and there it reads a block that the write
    # destroyed.
    assert ("destroyed and read: 0" in lines) != ("dmsetup load" in text)
    for line in lines[1:-1]:
        assert f'echo "{line.removesuffix(" 0")}' in text, line


@pytest.mark.parametrize("test", TESTS, ids=lambda p: p.name)
def test_removes_its_devices(test):
    """Each test that creates a device removes it."""
    text = test.read_text(encoding="ascii")
    assert "_shingle_create" in text
    assert text.index("_shingle_create") < text.rindex("\t_shingle_remove\n")


@pytest.mark.parametrize("path", [GROUP / "rc", *TESTS], ids=lambda p: p.name)
def test_licence_is_accepted_by_blktests(path):
    """CONTRIBUTING.md of blktests accepts GPL-3.0+ and GPL-2.0+, but not GPL-2.0."""
    assert path.read_text(encoding="ascii").split("\n")[1] == \
        "# SPDX-License-Identifier: GPL-2.0+"


def test_devices_are_removed_after_udev_has_settled(blktests):
    """Devices are removed after udev has settled, and with retries: after a write, udev's probes
    hold a device open for a moment. A second removal does nothing to the loop device."""
    said = subprocess.run(
        ["bash", "-c", """. tests/shingle/rc
udevadm() { echo "udevadm $*"; }; losetup() { echo "losetup $*"; }
dmsetup() { [[ $1 == info ]] || echo "dmsetup $*"; }
SHINGLE_LOOP=/dev/loop9; _shingle_remove; _shingle_remove"""],
        cwd=blktests, check=True, text=True, capture_output=True).stdout.splitlines()
    assert said[:4] == ["udevadm settle", "dmsetup remove --retry blktests-smr",
                        "dmsetup remove --retry blktests-medium", "losetup --detach /dev/loop9"]
    assert not [line for line in said[4:] if line.startswith("losetup")]


def test_shellcheck_reports_nothing(blktests):
    """The options are those of blktests' `make check`. SC2034 is excluded because the helpers set
    variables that only `check` reads."""
    done = subprocess.run(["shellcheck", "-x", "-e", "SC2119,SC2034", "tests/shingle/rc",
                           *(f"tests/shingle/{t.name}" for t in TESTS)], cwd=blktests,
                          text=True, check=False, capture_output=True)
    assert not done.returncode, done.stdout
