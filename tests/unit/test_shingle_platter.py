# SPDX-License-Identifier: GPL-2.0
"""Tests of what the shingle tool does with a medium, a platter: create, list, status, remove.  A
fake device mapper of files stands in for the kernel."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from test_shingle_cli import (BLOCK, CLEAN, FAILED, USAGE, Disk, blank,  # noqa: F401  pylint: disable=unused-import
                              build_fake_dm, build_tool, mapper, runner)

TOP = Path(__file__).resolve().parents[2]
STATUS = "smr poison 7 9 70 90 5 2 3 11/2048 rw"
FIELDS = {"media": "smr", "damage": "poison", "reads": 7, "writes": 9, "blocks_read": 70,
          "blocks_written": 90, "damaged_blocks": 5, "destroyed_reads": 2, "late": 3,
          "wcache_dirty_blocks": 11, "wcache_blocks": 2048, "mode": "rw"}


@pytest.fixture(name="stack")
def a_stack(dm):
    """A layer over a medium, and a device of another target."""
    dm.add("medium", "platter", status=STATUS, table="/dev/loop0 0 st5000as0011 0 0")
    dm.add("smr", "stl-set", table="/dev/mapper/medium /dev/sdc -")
    dm.add("other", "linear")
    return dm


def test_status_of_a_platter(stack):
    """All fields of the status line are there, in words and in JSON."""
    out = json.loads(stack.run("status", "medium", "--json"))
    assert {k: out[k] for k in FIELDS} == FIELDS and out["target"] == "platter"
    assert stack.run("status", "medium") == (
        "medium: platter, 400 KiB\n"
        "  mode     read-write\n"
        "  media    shingled tracks (smr); a read of a destroyed block fails\n"
        "  reads    7, 280 KiB\n"
        "  writes   9, 360 KiB\n"
        "  damage   5 blocks are destroyed; 2 reads of destroyed blocks\n"
        "  cache    44 KiB of 8 MiB not yet on the medium\n"
        "  timing   3 requests completed more than 1 ms later than in the model\n")
    assert {d["name"] for d in json.loads(stack.run("status", "--json"))} == {"medium", "smr"}
    assert "not of dm-shingle" in stack.run("status", "other", rc=FAILED)


@pytest.mark.parametrize("status, words, never", [
    ("cmr none 0 0 0 0 0 0 0 0/0 ro", ["read-only", "conventional tracks"],
     ["destroyed", "cache", "timing"]),
    ("imr count 0 0 0 0 0 0 0 0/8 lost", ["the next FLUSH fails", "interlaced", "are counted"],
     ["timing"]),
    ("smr shadow 0 0 0 0 0 0 0 0/8 fail", ["power is off", "what the head wrote over it"],
     ["timing"]),
    ("a line of another version", ["  status   a line of another version\n"], ["mode"]),
])
def test_status_text_of_a_platter(dm, status, words, never):
    dm.add("medium", "platter", status=status)
    said = dm.run("status", "medium")
    assert all(w in said for w in words) and not any(w in said for w in never), said
    assert json.loads(dm.run("status", "medium", "--json"))["status"] == status


def test_status_texts_cover_the_driver():
    """Media, treatments of damage and modes of the driver have a text."""
    driver = (TOP / "dm-platter/platter-options.c").read_text(encoding="utf-8")
    tool = (TOP / "userspace/shingle/cmd-status.c").read_text(encoding="utf-8")
    for table, texts in (("media", "media"), ("damage", "damage")):
        words = re.search(rf"platter_{table}_names\[\] = {{(.*?), NULL", driver)[1]
        mine = re.search(rf"struct word platter_{texts}\[\] = {{\n(.*?)\n}};", tool, re.S)[1]
        assert set(re.findall(r'"(\w+)"', words)) == set(re.findall(r'{ "(\w+)"', mine))
    modes = set()
    for source in (TOP / "dm-platter").glob("*.c"):
        text = source.read_text(encoding="utf-8")
        for found in re.findall(r'power\.off\) \? "fail".*?;', text, re.S):
            modes |= set(re.findall(r'"(\w+)"', found))
    mine = re.search(r"struct word platter_modes\[\] = {\n(.*?)\n};", tool, re.S)[1]
    assert modes and modes == set(re.findall(r'{ "(\w+)"', mine))


def test_list_of_open_devices(stack):
    out = {d["name"]: d for d in json.loads(stack.run("list", "--json"))}
    assert out == {
        "medium": {"name": "medium", "target": "platter", "mode": "rw", "sectors": 800,
                   "suspended": False, "below": ["/dev/loop0"]},
        "smr": {"name": "smr", "target": "stl-set", "mode": "rw", "sectors": 800,
                "suspended": False, "below": ["/dev/mapper/medium", "/dev/sdc"]},
    }
    head, *lines = stack.run("list").splitlines()
    assert head.split() == ["NAME", "TARGET", "MODE", "SIZE", "BELOW"]
    assert sorted(x.split() for x in lines) == [
        ["medium", "platter", "rw", "400", "KiB", "/dev/loop0"],
        ["smr", "stl-set", "rw", "400", "KiB", "/dev/mapper/medium", "/dev/sdc"]]
    assert "too many" in stack.run("list", "smr", rc=USAGE)
    assert not stack.changes()


def test_list_without_open_devices(dm):
    assert dm.run("list") == "no dm-shingle device is open\n"
    assert json.loads(dm.run("list", "--json")) == []
    dm.add("odd", "stl-set", status="", table="999:999 - -")
    assert json.loads(dm.run("list", "--json"))[0]["below"] == ["999:999"]
    assert json.loads(dm.run("list", "--json"))[0]["mode"] == "-"


def platter(dm, *options, device="disk.blk", blocks=1000, rc=CLEAN, name="medium"):
    """Create a platter over a device with this many blocks."""
    path = blank(dm.run.dir / device, blocks) if device != "none" else device
    return dm.run("create", "platter", *options, path, name, "--no-udev", rc=rc), path


def test_create_platter(dm):
    said, path = platter(dm)
    assert said.endswith("/medium is ready: platter, 3.91 MiB\n")
    assert dm.changes()[0] == "create medium"
    assert (dm.dir / "medium/table").read_text() == f"{path} 0 st5000as0011"
    assert (dm.dir / "medium/sectors").read_text() == "8000"
    assert not any(path.read_bytes())
    # It has no UUID, so two media may have the same contents.
    assert not (dm.dir / "medium/uuid").read_text()
    assert "NAME medium is taken" in platter(dm, rc=FAILED)[0]
    dm.run("remove", "medium")
    assert not (dm.dir / "medium").exists()


@pytest.mark.parametrize("options, device, sectors, table", [
    (["--profile", "generic"], "disk.blk", 8000, "{} 0 generic"),
    (["--start", "8K", "--size", "1M"], "disk.blk", 2048, "{} 16 st5000as0011"),
    (["--start", "3996K"], "disk.blk", 8, "{} 7992 st5000as0011"),
    (["--size", "8T"], "none", 8 << 31, "none 0 st5000as0011"),
    (["--feature", "discard", "--set", "timing=none", "--set", "media=smr"], "disk.blk", 8000,
     "{} 0 st5000as0011 1 discard 4 timing none media smr"),
    (["--set", "seek=1:20,9:40"], "disk.blk", 8000, "{} 0 st5000as0011 0 2 seek 1:20,9:40"),
])
def test_options_of_a_platter(dm, options, device, sectors, table):
    """The dry run prints the table that is loaded otherwise."""
    said, path = platter(dm, "--dry-run", *options, device=device)
    line = f"0 {sectors} platter {table.format(path)}"
    assert said == f"dmsetup create medium --table '{line}'\n" and not dm.changes()
    platter(dm, *options, device=device)
    assert f"0 {(dm.dir / 'medium/sectors').read_text()} platter " \
        f"{(dm.dir / 'medium/table').read_text()}" == line


@pytest.mark.parametrize("options, what, rc", [
    (["--profile", "st1"], "choose one of st4000nc001, st5000as0011", USAGE),
    (["--set", "timing=slow"], "timing must be none or model", USAGE),
    (["--set", "speed=1"], "platter has no key 'speed'", USAGE),
    (["--feature", "inplace"], "platter has no feature 'inplace'", USAGE),
    (["--no-feature", "discard"], "--no-feature does not apply", USAGE),
    (["--band", "4M"], "--band does not apply to platter", USAGE),
    (["--cache", "c"], "--cache does not apply to platter", USAGE),
    (["--meta", "c"], "--meta does not apply to platter", USAGE),
    (["--force"], "--force does not apply to platter", USAGE),
    (["--json"], "--json does not apply to platter", USAGE),
    (["--volatile"], "--volatile does not apply to platter", USAGE),
    (["--size", "4000K", "--start", "4K"], "at most 3996K", USAGE),
    (["--size", "5K"], "not a multiple of 4K", USAGE), (["--start", "1G"], "out of bounds", USAGE),
    (["--preset", "ma-tiler"], "'medium' is one argument too many", USAGE),
])
def test_invalid_options_for_a_platter(dm, options, what, rc):
    said = platter(dm, *options, rc=rc)[0]
    assert what in said and not dm.changes(), said


def test_devices_that_cannot_hold_a_platter(dm):
    assert "losetup" in platter(dm, device="file", rc=FAILED)[0]
    assert "smaller than a block" in platter(dm, blocks=0, rc=FAILED)[0]
    assert "needs a --size" in platter(dm, device="none", rc=USAGE)[0]
    assert "--start does not apply" in platter(dm, "--start", "4K", "--size", "1M", device="none",
                                               rc=USAGE)[0]
    assert "No such file" in dm.run("create", "platter", "missing", "x", rc=FAILED)
    assert "NAME is missing" in dm.run("create", "platter", "missing", rc=USAGE)
    (dm.dir.parent / "dm.reload").write_text("22\n3,1,1,-;device-mapper: table: 253:7: platter: "
                                             "zones are too small (-EINVAL)\n")
    (dm.dir.parent / "dm.kmsg").touch()
    assert "the kernel refuses it: zones are too small" in platter(dm, rc=FAILED)[0]


def test_other_targets_refuse_platter_options(dm):
    disk = blank(dm.run.dir / "disk.blk", 4096)
    for option in ("--profile", "--size", "--start"):
        assert f"{option} does not apply to stl-set" in dm.run(
            "create", "stl-set", option, "4K", "--band", "64K", disk, "x", rc=USAGE)


def test_a_platter_cannot_be_opened(dm):
    """A platter stores no metadata, so it cannot be opened or formatted. Where a user may try that,
    the tool names the command that creates it again."""
    disk = blank(dm.run.dir / "disk.blk", 4096)
    for said in (dm.run("open", "platter", disk, "medium", rc=USAGE),
                 dm.run("open", disk, "medium", rc=FAILED),
                 dm.run("format", "platter", disk, rc=USAGE)):
        assert "'shingle create platter" in said and said.count("\n") == 1, said
    assert "cannot be opened" in dm.run("open", "--help")


def test_help_of_a_platter(run):
    """The help has all keys and drives that the driver has."""
    said = run("create", "platter", "--help")
    assert said.startswith("Usage: shingle create platter [options] DEVICE NAME\n")
    page = (TOP / "Documentation/dm-platter.rst").read_text(encoding="utf-8")
    drives = re.search(r"^name +drive.*?\n=.*?\n(.*?)\n=", page, re.S | re.M)[1]
    names = re.findall(r"^(\w+)  ", drives, re.M)
    assert len(names) > 6
    assert re.findall(r"^  (\w+)", said.split("Profiles:\n")[1].split("\nFeatures")[0],
                      re.M) == names
    driver = (TOP / "dm-platter/platter-options.c").read_text(encoding="utf-8")
    keys = re.findall(r'(?:NUMBER|WORD|MESSAGE|TEXT)\("(\w+)"|\.name = "(\w+)"', driver)
    told = re.findall(r"^  (\w+)", said.split("\nFeatures and keys of platter")[1], re.M)
    assert told == [a or b for a, b in keys] and len(told) > 30
    assert "--band" not in said and "stl-set" not in said


def test_after_a_power_cut_status_and_check_agree(dm):
    """The target cannot mark a device without power.  Status therefore demands a check, which finds
    the device clean, and not a repair."""
    disk = Disk(dm)
    dm.add("smr", "stl-set", mode="ro the journal could not be written\n",
           status="1/2 3/4 5 idle needs_check ro")
    said = dm.run("status", "smr")
    assert "  mode     read-only: the journal could not be written; close it and run " \
        "'shingle check', which reports whether it needs a repair\n" in said
    assert json.loads(dm.run("status", "smr", "--json"))["needs_check"] is True
    assert ": clean;" in dm.run("check", disk.path)
    assert "nothing to repair" in dm.run("repair", disk.path)


@pytest.mark.parametrize("prefix", ["/usr/local", "/usr"])
def test_completion_is_installed_where_bash_looks(tmp_path, prefix):
    """bash-completion finds the file by the name of the command below XDG_DATA_DIRS, which has both
    prefixes by default."""
    subprocess.run(["make", "-s", "install-shell", f"DESTDIR={tmp_path}", f"PREFIX={prefix}"],
                   cwd=TOP / "userspace/shingle", check=True)
    folder = tmp_path / prefix.lstrip("/") / "share/bash-completion/completions"
    assert [p.name for p in folder.iterdir()] == ["shingle"]
    done = subprocess.run(["bash", "--norc", "-c", f". {folder}/shingle; complete -p shingle"],
                          check=True, text=True, capture_output=True)
    assert "-F _shingle shingle" in done.stdout
    page = (TOP / "userspace/shingle/shingle.8").read_text(encoding="utf-8").replace("\\-", "-")
    assert "share/bash-completion/completions/shingle" in page
