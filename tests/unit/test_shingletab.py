# SPDX-License-Identifier: GPL-2.0
"""Tests of /etc/shingletab: the devices that open and close by it, and the units for systemd."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_shingle_cli import (CLEAN, FAILED, USAGE, Image, blank)
from test_shingle_cli import (build_fake_dm, build_tool,    # noqa: F401
                              completer, mapper, runner)

TOP = Path(__file__).resolve().parents[2]
UUID = "7d3f1a52-3a0e-4b83-8a55-0f4b6c1f0c11"


@pytest.fixture(name="tab")
def tab_of(run, monkeypatch):
    """Writes the tab."""
    path = run.dir / "shingletab"
    monkeypatch.setenv("SHINGLETAB", str(path))

    def write(*lines):
        path.write_text("".join(f"{line}\n" for line in lines))
        return path
    write.path = path
    return write


@pytest.fixture(name="generate")
def generator(run, tab):
    """The units that a tab makes: {path: text, or what a link points to}."""
    program = run.dir / "shingle-generator"
    program.symlink_to(run.tool)

    def generate(*lines, rc=CLEAN):
        tab(*lines)
        dest = run.dir / "units"
        shutil.rmtree(dest, ignore_errors=True)
        dest.mkdir()
        done = subprocess.run([program, dest, run.dir / "early", run.dir / "late"], text=True,
                              check=False, capture_output=True)
        assert done.returncode == rc, done.stderr
        generate.said = done.stderr
        assert not done.stdout
        return {str(p.relative_to(dest)): os.readlink(p) if p.is_symlink() else p.read_text()
                for p in sorted(dest.rglob("*")) if not p.is_dir()}
    generate.dest = run.dir / "units"
    return generate


def unit(text):
    """{section: {key: [values]}}"""
    out = {}
    for line in text.splitlines():
        if head := re.fullmatch(r"\[(\w+)\]", line):
            section = out.setdefault(head[1], {})
        elif line and not line.startswith("#"):
            key, value = line.split("=", 1)
            section.setdefault(key, []).append(value)
    return out


def test_unit_of_a_line(run, tab, generate):
    """The files for one line, complete: a service that waits for its devices, links that start it,
    and no time limit for the mapped device."""
    made = generate("# disks", "",
                    f"smr0\tUUID={UUID.upper()}  meta=PARTUUID=C9E0-02,cache=/dev/nvme0n1 ")
    device = "dev-mapper-smr0.device"
    assert set(made) == {"shingle-smr0.service", f"{device}.requires/shingle-smr0.service",
                         f"{device}.d/40-device-timeout.conf",
                         "sysinit.target.wants/shingle-smr0.service"}
    for name, target in made.items():
        if name.endswith(("requires/shingle-smr0.service", "wants/shingle-smr0.service")):
            assert target == "../shingle-smr0.service"
    one = unit(made["shingle-smr0.service"])
    uuid = UUID.replace("-", r"\x2d")
    needs = [rf"dev-disk-by\x2dshingle-{uuid}\x2dDATA.device", "dev-nvme0n1.device",
             r"dev-disk-by\x2dpartuuid-c9e0\x2d02.device"]
    assert one["Unit"].pop("BindsTo") == needs
    # Opening and closing wait for udev, for ever.
    assert one["Unit"].pop("After") == ["systemd-udevd.service systemd-udevd-kernel.socket", *needs]
    tool = os.path.realpath(run.tool)
    assert one == {
        "Unit": {"Description": ["Shingled disk smr0"],
                 "Documentation": ["man:shingletab(5) man:shingle(8)"],
                 "SourcePath": [str(tab.path)], "DefaultDependencies": ["no"],
                 "IgnoreOnIsolate": ["true"], "Conflicts": ["umount.target"],
                 "Wants": ["blockdev@dev-mapper-smr0.target", "local-fs-pre.target"],
                 "Before": ["blockdev@dev-mapper-smr0.target", "local-fs-pre.target",
                            "umount.target"]},
        "Service": {"Type": ["oneshot"], "RemainAfterExit": ["yes"], "TimeoutSec": ["infinity"],
                    "ExecStart": [f"{tool} open --tab -- smr0"],
                    "ExecStop": [f"{tool} remove --tab -- smr0"]}}
    assert unit(made[f"{device}.d/40-device-timeout.conf"]) == {
        "Unit": {"JobTimeoutSec": ["infinity"]}}
    assert not generate.said


@pytest.mark.parametrize("options, wanted_by, waits", [
    ("-", "sysinit.target", "local-fs-pre.target"),
    ("defaults,x-systemd.device-timeout=5", "sysinit.target", "local-fs-pre.target"),
    ("nofail", "sysinit.target", None), ("noauto", None, None), ("noauto,nofail", None, None),
    ("_netdev", "remote-fs.target", "remote-fs-pre.target"),
    ("_netdev,nofail", "remote-fs.target", None)])
def test_options_that_start_a_unit(generate, options, wanted_by, waits):
    """nofail, noauto and _netdev have the same effects as in fstab: which target starts the unit,
    and whether mounting waits for it."""
    made = generate(f"a /dev/sda {options}")
    before = unit(made["shingle-a.service"])["Unit"]["Before"]
    assert [b for b in before if b.endswith("-pre.target")] == ([waits] if waits else [])
    assert [p for p in made if ".wants/" in p] == (
        [f"{wanted_by}.wants/shingle-a.service"] if wanted_by else [])
    # The unit is required by the device, so every user of the device starts it.
    assert "dev-mapper-a.device.requires/shingle-a.service" in made


@pytest.mark.skipif(not shutil.which("systemd-escape"), reason="there is no systemd-escape")
@pytest.mark.parametrize("name, path", [
    ("a-b.c_d+e#f=g@h:i", "/dev/disk/by-id/ata-X_Y+Z%20\\x"), (".".join("abc"), "//dev//sda/"),
    ("-", "/.hidden/.disk"), ("x" * 127, "/dev/" + "y" * 150)])
def test_unit_names_follow_systemd(generate, name, path):
    def escaped(*args):
        return subprocess.run(["systemd-escape", *args], check=True, text=True,
                              capture_output=True).stdout.strip()

    made = generate(f"{name} {path}")
    service = "shingle-" + escaped("--", f"x{name}")[1:] + ".service"
    assert f"{escaped('--path', f'/dev/mapper/{name}')}.device.requires/{service}" in made
    assert unit(made[service])["Unit"]["BindsTo"] == [f"{escaped('--path', path)}.device"]


BAD = [
    ("a", "DATA is missing after 'a'"), ("a/b /dev/sda", "'a/b' is not a valid name"),
    (".a /dev/sda", "is not a valid name"), ("x" * 128 + " /dev/sda", "not a valid"),
    ("control /dev/sda", "'control' is reserved by device mapper"), ("a\0 /dev/sda", "a byte 0"),
    ("\0", "a byte 0"), ("a /dev/sda\0 nofail", "a byte 0"),
    ("a /dev/./sda", "without . and .."), ("a /dev/x/../sda", "without . and .."),
    ("a /", "without . and .."), ("a /dev/sda meta=/dev/..", "META '/dev/..' is not a path"),
    ("a%b /dev/sda", "is not a valid name"), ("a\x1b[2J /dev/sda", "not a valid"),
    ("a sda", "DATA 'sda' is neither a path nor UUID= nor PARTUUID="),
    ("a UUID=", "is no UUID"), ("a UUID=../../x", "is no UUID"), ("a PARTUUID=$(id)", "is no UUID"),
    ("a UUID=" + "a" * 41, "is no UUID"), ("a LABEL=x", "neither a path"),
    ("a /dev/" + "y" * 300, "the path of DATA is too long"),
    ("a /dev/sda nofail noauto", "more than three fields"),
    ("a /dev/sda nofial", "the option 'nofial' is not known"),
    ("a /dev/sda nofail,,noauto", "an option is empty"),
    ("a /dev/sda nofail,", "an option is empty"),
    ("a /dev/sda meta=", "'meta' is not known, or has no value"),
    ("a /dev/sda meta=sdb", "META 'sdb' is neither"),
    ("a /dev/sda meta=/dev/sdb,meta=/dev/sdc", "META is given twice"),
    ("a /dev/sda set=commit_ms", "write it as set=KEY=VALUE"), ("a /dev/sda set==1", "KEY=VALUE"),
    ("a /dev/sda feature=in\\place", "cannot be part of a table line"),
    ("a /dev/sda preset=emulated", "the preset 'emulated' is not known"),
    ("a /dev/sda nofail=yes", "'nofail' is not known, or has no value"),
    ("good /dev/sdz", "line 2 has the same name 'good'"),
    ("a /dev/sda " + ",".join(["set=idle_ms=1"] * 17), "more than 16 times"),
]


@pytest.mark.parametrize("line, what", BAD)
def test_bad_line_is_reported_and_others_count(run, tab, generate, line, what):
    """One sentence with its line number; the line gives no unit, and all other lines do."""
    alone = generate("# one", "good /dev/sdx")
    made = generate("# one", "good /dev/sdx", line, "  # behind it", rc=USAGE)
    assert made == alone
    said = generate.said
    assert said.startswith(f"shingle-generator: {tab.path}, line 3: ") and what in said
    assert said.count("\n") == 1 and len(said) < 400
    # With a bad line, --all opens and closes nothing until the user has corrected it.
    for command in ("open", "remove"):
        told = run(command, "--tab", "--all", rc=USAGE)
        assert told == said.replace("shingle-generator: ", "shingle: ")


@pytest.mark.parametrize("line", ["a /dev/" + "-" * 70, "b" + "#" * 100 + " /dev/sda"])
def test_names_too_long_for_systemd(generate, line):
    """A name too long for systemd's unit names gives an error and no unit. A unit that does not
    wait for its devices would be worse than none."""
    alone = generate("good /dev/sdx")
    assert generate("good /dev/sdx", line, rc=FAILED) == alone
    assert "is too long: the name of its systemd unit" in generate.said


@pytest.mark.parametrize("name", ["-x", "--help", "--all"])
def test_names_that_look_like_options(dm, tab, generate, name):
    """The command lines in a unit work although the name looks like an option."""
    made = generate(f"{name} /dev/absent")
    words = unit(made["shingle-" + name.replace("-", r"\x2d") + ".service"])["Service"]
    assert "/dev/absent" in dm.run(*words["ExecStart"][0].split()[1:], rc=FAILED)
    dm.add(name, "stl-set")
    dm.run(*words["ExecStop"][0].split()[1:])
    assert dm.changes() == [f"remove {name}"]


def test_missing_or_empty_tab(run, generate, tab, monkeypatch):
    assert generate() == {} and not generate.said
    tab.path.unlink()
    assert "has no line for 'a'" in run("open", "--tab", "a", rc=USAGE)
    assert run("remove", "--tab", "--all") == ""
    monkeypatch.setenv("SHINGLETAB", str(run.dir))
    assert "cannot be read" in run("open", "--tab", "--all", rc=FAILED)
    done = subprocess.run([run.dir / "shingle-generator"], check=False, text=True,
                          capture_output=True)
    assert done.returncode == USAGE and "DIRECTORY" in done.stderr


def test_generator_keeps_foreign_files(run, generate):
    """A file of another program is left unchanged, and the generator reports it."""
    generate("a /dev/sda")
    done = subprocess.run([run.dir / "shingle-generator", generate.dest], check=False, text=True,
                          capture_output=True)
    assert done.returncode == FAILED and "shingle-a.service cannot be written" in done.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_accepts_the_units(run, generate, monkeypatch):
    """systemd-analyze verify finds nothing to report in the generated units."""
    made = generate(f"a-b UUID={UUID} nofail", "c /dev/sdc cache=/dev/sdd", "d /dev/sde _netdev")
    monkeypatch.setenv("SYSTEMD_UNIT_PATH", f"{generate.dest}:")
    units = [name for name in made if re.fullmatch(r"[^/]*\.service", name)]
    assert len(units) == 3

    def verify():
        return subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *(generate.dest / u for u in units)],
            check=False, text=True, capture_output=True)

    ours = [line for line in verify().stderr.splitlines() if "shingle" in line]
    assert not ours, ours
    # systemd-analyze does report a wrong value.
    (generate.dest / units[0]).write_text(made[units[0]].replace("Type=oneshot", "Type=twoshot"))
    assert "shingle" in verify().stderr


def opened(run, *args, rc=CLEAN):
    """{name: target and arguments of its table line}"""
    out = run("open", "--tab", *args, "--dry-run", rc=rc)
    return dict(re.findall(r"^dmsetup create (\S+) --table '\d+ \d+ (.*)'$", out, re.M))


def test_line_options_override_stored_settings(run, tab):
    """Options and the preset of a line are combined with the stored settings and override them. A
    line that fails does not keep others from opening."""
    image = Image(run, "--cache-size", "5b", "--set", "commit_ms=5000", "--feature", "inplace")
    alone = blank(run.dir / "alone", 3000)
    run("format", "stl-full", "--band", "48K", alone)
    both = f"stl-set {image.data} - {image.meta}"
    tab(f"one {image.data} meta={image.meta}", f"two {alone} noauto",
        f"three {image.data} meta={image.meta},set=idle_ms=3,no-feature=inplace,noauto",
        f"four {image.data} meta={image.meta},no-settings,noauto",
        f"five {image.data} meta={image.meta},preset=emulated-smr-1,noauto",
        f"six {image.data} noauto")
    assert opened(run, "--all") == {"one": f"{both} 1 inplace 2 commit_ms 5000"}
    assert opened(run, "two", "four") == {"two": f"stl-full {alone} - -", "four": both}
    assert opened(run, "three") == {"three": f"{both} 0 4 idle_ms 3 commit_ms 5000"}
    assert opened(run, "five") == {
        "five": f"{both} 1 inplace 6 cleaning lazy read_home always commit_ms 5000"}
    assert "give its metadata device" in run("open", "--tab", "six", "--dry-run", rc=FAILED)
    # One that fails costs no other.
    assert set(opened(run, "six", "two", rc=FAILED)) == {"two"}
    assert "has no line for 'seven'" in run("open", "--tab", "seven", rc=USAGE)


def test_bad_line_does_not_prevent_others(run, tab):
    alone = blank(run.dir / "alone", 3000)
    run("format", "stl-set", "--band", "48K", alone)
    tab(f"one {alone}", "two sda")
    assert set(opened(run, "one")) == {"one"}
    assert "line 2: DATA 'sda'" in run("open", "--tab", "two", "--dry-run", rc=USAGE)
    assert opened(run, "--all", rc=USAGE) == {}


@pytest.mark.parametrize("args, what", [
    (["open", "--tab"], "NAME is missing"), (["open", "--tab", "--all", "a"], "omit 'a'"),
    (["open", "--all", "d", "x"], "requires --tab"), (["remove", "--all", "x"], "requires --tab"),
    (["open", "--tab", "a", "--set", "idle_ms=1"], "are in its line"),
    (["open", "--tab", "a", "--meta", "m"], "are in its line"),
    (["remove", "--tab"], "NAME is missing"), (["remove", "--tab", "--all", "a"], "takes no names"),
])
def test_conflicting_options_are_refused(run, tab, args, what):
    tab("a /dev/sda")
    assert what in run(*args, rc=USAGE)


def test_remove_by_tab(dm, tab):
    """Closes the open devices of the tab, last line first; a device that is not open is no
    error."""
    for name, target in (("a", "stl-set"), ("b", "imr"), ("other", "stl-set"), ("d", "linear")):
        dm.add(name, target)
    tab("a /dev/sda", "c /dev/sdc", "b /dev/sdb noauto")
    dm.run("remove", "--tab", "--all", "--no-udev")
    assert dm.changes() == ["remove b", "remove a"]
    dm.run("remove", "--tab", "c", "a", "--no-udev")
    assert dm.changes() == ["remove a"]
    assert "has no line" in dm.run("remove", "--tab", "other", rc=USAGE)
    tab("a /dev/sda", "d /dev/sdd")
    assert "type 'linear'" in dm.run("remove", "--tab", "--all", "--no-udev", rc=FAILED)
    assert dm.changes() == ["remove a"]


def test_open_all_skips_open_devices(dm, tab):
    """open --tab --all skips devices that are open and lines with noauto. It does not even read
    them: it would report that /dev/absent is missing."""
    dm.add("a", "stl-set")
    tab("a /dev/absent", "b /dev/absent2 noauto")
    assert dm.run("open", "--tab", "--all") == ""
    tab("a /dev/absent", "b /dev/absent2")
    assert "/dev/absent2" in dm.run("open", "--tab", "--all", rc=FAILED)


def test_open_of_an_open_device_succeeds(dm, tab):
    """open --tab NAME succeeds if the device is open already: systemd may start the unit for a
    mount after the user has opened the device by hand."""
    dm.add("a", "stl-set")
    dm.add("d", "linear")
    tab("a /dev/absent", "d /dev/absent2")
    assert dm.run("open", "--tab", "a") == ""
    assert "type 'linear'" in dm.run("open", "--tab", "d", rc=FAILED)
    assert "/dev/absent:" in dm.run("open", "--tab", "a", "--dry-run", rc=FAILED)
    assert dm.changes() == []


def test_completion_offers_names_of_the_tab(complete, tab):
    tab("# no name", "smr0 /dev/sda", "", "  smr1 /dev/sdb noauto", "other /dev/sdc")
    assert complete("shingle open --tab s") == ["smr0", "smr1"]
    assert complete("shingle remove --tab smr0 o") == ["other"]
    tab.path.unlink()
    assert complete("shingle open --tab ") == []


def test_completion_does_not_expand_names(complete, tab, dm, run):
    """Completion does not let the shell expand names with `$(...)`, which would run commands."""
    tab("a$(>ran) /dev/sda", "a`>ran`$HOME /dev/sda", "a'b /dev/sdb")
    assert complete("shingle open --tab a") == ["a$(>ran)", "a`>ran`$HOME", "a'b"]
    dm.add("a$(>ran)b", "stl-set")
    assert complete("shingle remove a") == ["a$(>ran)b"]
    assert not (run.dir / "here/ran").exists()


def test_udev_links_match_uuid_entries(run, generate):
    """The rule's link of each device is the one that UUID= stands for."""
    rules = (TOP / "userspace/shingle/65-shingle.rules").read_text(encoding="utf-8")
    rule = re.search(r'^ENV\{ID_FS_TYPE\}=="shingle_member", .*SYMLINK\+="(.*)"$', rules, re.M)
    conditions = re.findall(r'ENV\{(\w+)\}=="([^"]*)"', rule[0])
    image = Image(run, "--cache-size", "5b")
    links = {}
    for path in (image.data, image.meta):
        said = dict(line.split("=", 1) for line in run("probe", path).splitlines())
        for key, values in conditions:
            assert any(re.fullmatch(v.replace("?*", ".+"), said[key]) for v in values.split("|"))
        links[path.name] = "/dev/" + re.sub(r"\$env\{(\w+)\}", lambda m, of=said: of[m[1]], rule[1])
    uuid = said["ID_FS_UUID"]
    made = generate(f"a UUID={uuid} meta=UUID={uuid}")
    wanted = unit(made["shingle-a.service"])["Unit"]["BindsTo"]
    assert [w.removesuffix(".device") for w in wanted] == [
        links[name][1:].replace("-", r"\x2d").replace("/", "-") for name in ("data", "meta")]
