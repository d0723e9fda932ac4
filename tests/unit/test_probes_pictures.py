# SPDX-License-Identifier: GPL-2.0
"""Test each test's own picture of results of model drives: in the report, wide and narrow, and in
the comparison."""


from experiments import probe_drives
import pytest
from test_probes_report import whole
import skylight
from skylight import compare, report, session

DRIVES = {
    "set": lambda: probe_drives.SetAssociative(64, 512, 8),
    "full": lambda: probe_drives.FullyAssociative(64, 4, 128, 8, 3),
    "plain": lambda: probe_drives.Drive(32768),
    "memory": lambda: probe_drives.Memory(32768),
}


@pytest.fixture(name="folders", scope="module")
def every_test(tmp_path_factory):
    """The results of all tests on all drives."""
    out = {}
    for name, make in DRIVES.items():
        out[name] = tmp_path_factory.mktemp("drives") / name
        drive = make()
        run = session.Session(drive, out[name], load=drive, allow_reset=True,
                              say=lambda text: None)
        for test in skylight.tests().values():
            run.run(test)
    return out


@pytest.mark.parametrize("name", DRIVES)
def test_each_test_has_a_picture(folders, name):
    """Each finished test has a picture, wide and narrow, and no drawing failed."""
    page, _ = report.write(folders[name])
    text = page.read_text(encoding="utf-8")
    whole(text)
    assert "There is no picture" not in text
    assert len(text.encode()) < 2_000_000
    assert ('id="cliff"' in text) == (name == "set")       # the only one that is filled
    done = [t for t, r in report.load(folders[name]).tests.items() if r["status"] == "done"]
    assert text.count('<div class="wide"><svg') == len(done) > 0
    assert text.count('<div class="narrow"><svg') == len(done)


def test_comparison_has_pictures(folders):
    page, table = compare.write([folders["set"], folders["full"], folders["memory"]],
                                folders["set"] / "compare.html")
    text = page.read_text(encoding="utf-8")
    whole(text)
    assert "There is no picture" not in text
    band = next(line for line in table.splitlines() if line.startswith("Band size"))
    assert band.count("256 KiB") == 2 and band.count("cannot tell") == 1
