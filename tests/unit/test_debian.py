# SPDX-License-Identifier: GPL-2.0
"""Check the contents of the packages, without building them. scripts/lab/debian builds and tries
them."""

import ast
import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#\s*include\s+"([^"]+)"', re.M)


def dkms(name):
    """Return the values of @name in dkms.conf, one for each module."""
    return re.findall(rf'^{name}(?:\[\d+\])?="(.*)"$',
                      (TOP / "dkms.conf").read_text(encoding="ascii"), re.M)


@pytest.fixture(scope="module", name="tree")
def tree_fixture(tmp_path_factory):
    into = tmp_path_factory.mktemp("dkms") / "tree"
    # MAKEFLAGS=w is what a calling make passes on. With it make prints the directories that it
    # enters, which the script must not take for names of files.
    subprocess.run([TOP / "scripts/dkms-tree", into], check=True,
                   env=dict(os.environ, MAKEFLAGS="w"))
    return into


def included(tree, path):
    """Yield the files of the tree that a file includes.

    An include is found in the file's own directory, in core's directories, or in the top directory
    of the module, which is in every include path."""
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        found = [(folder / name).resolve() for folder in
                 (path.parent, tree / "core", tree / "core/lib", tree / "core/base",
                  tree / path.relative_to(tree).parts[0])
                 if (folder / name).exists()]
        assert found, f"{path.relative_to(tree)} includes {name}, which is not there"
        yield found[0]


def test_the_changelog_has_the_version_of_the_modules():
    first = (TOP / "debian/changelog").read_text(encoding="utf-8").split("\n")[0]
    name, version = re.match(r"(\S+) \((\S+)\)", first).groups()
    assert [name] == dkms("PACKAGE_NAME") and [version] == dkms("PACKAGE_VERSION")


def test_dkms_tree_has_exactly_the_included_headers(tree):
    """The DKMS tree has exactly the headers that its sources include."""
    headers = {p for p in tree.rglob("*.h")}
    wanted = {i for p in tree.rglob("*.[ch]") for i in included(tree, p)}
    assert {p for p in wanted if p.suffix == ".h"} == headers


def test_dkms_tree_has_no_test(tree):
    """The DKMS tree has no test, and no directory except those of modules."""
    names = [p.name for p in tree.rglob("*")]
    assert not [n for n in names if re.search("kunit|test|-sim|exercise", n)], names
    assert {p.name for p in tree.iterdir() if p.is_dir()} == \
        {Path(p).parts[0] for p in dkms("BUILT_MODULE_LOCATION")}


def test_dkms_tree_has_the_files_of_the_topmost_kbuild(tree):
    """Files that the topmost Kbuild names are in the DKMS tree, and the probe that it runs is
    executable."""
    text = (tree / "Kbuild").read_text(encoding="ascii")
    wanted = set(re.findall(r"\$\(src\)/([\w/.-]+\.\w+)", text))
    assert "core/base/compat-probe.sh" in wanted
    assert not [w for w in wanted if not (tree / w).exists()]
    assert (tree / "core/base/compat-probe.sh").stat().st_mode & 0o111


def test_dkms_tree_has_every_source_of_its_modules(tree):
    """Each object of a module has its source in the DKMS tree. make lists the objects, so the
    test needs no parser for Kbuild."""
    for name, place in zip(dkms("BUILT_MODULE_NAME"), dkms("BUILT_MODULE_LOCATION")):
        wants = subprocess.run(
            ["make", "-s", "-f", "-", "list"], check=True, text=True, capture_output=True,
            cwd=tree, input=f"src := {place}\ninclude {place}Kbuild\n"
            f"list: ; @echo $(filter {name}.o,$(obj-m)) $({name}-y)\n").stdout.split()
        assert wants[0] == f"{name}.o" and len(wants) > 1
        lost = [w for w in wants[1:] if not (tree / place / w).with_suffix(".c").exists()]
        assert not lost, f"{name} lacks {lost}"


def test_dkms_installs_all_built_modules(tree):
    """DKMS would fail on a module that dkms.conf names and no Kbuild builds, and would not
    install one that it does not name."""
    built = set()
    for room in tree.iterdir():
        if (room / "Kbuild").exists():
            text = subprocess.run(
                ["make", "-s", "-f", "-", "list"], check=True, text=True,
                capture_output=True, cwd=tree,
                input=f"src := {room.name}\ninclude {room.name}/Kbuild\nlist: ; @echo $(obj-m)\n").stdout
            built |= {f"{room.name}/{Path(o).stem}" for o in text.split()}
    assert built == {p + n for p, n in zip(dkms("BUILT_MODULE_LOCATION"),
                                           dkms("BUILT_MODULE_NAME"))}


def test_skylight_depends_on_the_libraries_it_imports():
    """The program's check for libraries and the package's dependencies name each library that
    skylight imports."""
    nodes = [node for path in (TOP / "scripts/src/skylight").glob("*.py")
             for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    imported = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names} | \
        {n.module for n in nodes if isinstance(n, ast.ImportFrom) and not n.level}
    # Jinja2 brings markupsafe; matplotlib brings cycler and PIL.
    others = {n.split(".")[0] for n in imported} - sys.stdlib_module_names - \
        {"markupsafe", "cycler", "PIL", "skylight", "common"}
    program = (TOP / "scripts/src/skylight/__main__.py").read_text(encoding="utf-8")
    asked = re.search(r'libraries\.have\("skylight", (.*)\)', program)[1]
    assert set(re.findall(r'"(\w+)"', asked)) == others
    control = (TOP / "debian/control").read_text(encoding="utf-8").split("Package: skylight")[1]
    assert set(re.findall(r"python3-(\w+)", control)) == others


def paragraphs(path):
    """Return the paragraphs of a control file as dictionaries of fields."""
    return [dict(re.findall(r"^([\w-]+):\s*(.*(?:\n .*)*)", part, re.M))
            for part in path.read_text(encoding="utf-8").strip().split("\n\n")]


@pytest.fixture(name="debian")
def debian_fixture():
    from lab import debian
    return debian


def test_changes_left_by_a_package_are_reported(debian, tmp_path):
    """The comparison before and after a package reports each file that changed, is gone or is
    left. Files that Debian writes for its own use do not count."""
    for name in ("usr/sbin", "etc", "var/log", "var/lib/dpkg", "var/lib/dkms", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("etc/kept", "etc/changed", "etc/gone", "etc/mode"):
        (tmp_path / name).write_text("before", encoding="ascii")
    (tmp_path / "etc/link").symlink_to("kept")
    before = debian.contents(tmp_path)
    assert debian.differences(before, debian.contents(tmp_path)) == []

    (tmp_path / "etc/changed").write_text("behind", encoding="ascii")
    (tmp_path / "etc/gone").unlink()
    (tmp_path / "etc/mode").chmod(0o600)
    (tmp_path / "etc/link").unlink()
    (tmp_path / "etc/link").symlink_to("mode")
    (tmp_path / "var/lib/dkms/dm-shingle").mkdir()
    for name in ("var/log/dpkg.log", "var/lib/dpkg/status", "var/lib/dkms/mok.key", "tmp/x"):
        (tmp_path / name).touch()
    assert debian.differences(before, debian.contents(tmp_path)) == [
        "etc/changed has changed", "etc/gone is gone", "etc/link has changed",
        "etc/mode has changed", "var/lib/dkms/dm-shingle is left"]


def test_guest_image_has_the_packages_of_autopkgtest(debian):
    """All packages on which debian/tests depends are in the guest's image, since the guest has
    no network."""
    ours = {p["Package"] for p in paragraphs(TOP / "debian/control") if "Package" in p}
    # linux-headers-amd64 provides linux-headers-generic.
    there = {*debian.TRY, *ours, "@", "linux-headers-generic"}
    tests = paragraphs(TOP / "debian/tests/control")
    assert [t["Tests"] for t in tests] == ["tools", "quick-start"]
    for test in tests:
        assert os.access(TOP / "debian/tests" / test["Tests"], os.X_OK)
        for wanted in test["Depends"].split(","):
            assert there & set(wanted.replace("|", " ").split()), wanted


def test_comparison_by_names_only(debian):
    assert debian.differences(dict.fromkeys("ab"), dict.fromkeys("bc")) == \
        ["a is gone", "c is left"]


def test_missing_dkms_modules_are_named(debian, tmp_path):
    """The installed modules are listed by kernel, so that missing ones can be named."""
    for release in ("6.1", "6.12"):
        (tmp_path / "lib/modules" / release / "updates/dkms").mkdir(parents=True)
    for name in dkms("BUILT_MODULE_NAME"):
        (tmp_path / f"lib/modules/6.12/updates/dkms/{name}.ko.xz").touch()
    built, wanted = debian.modules_of(tmp_path)
    assert len(wanted) == 7 and built == {"6.1": set(), "6.12": wanted}


@pytest.mark.skipif(not shutil.which("debugfs"), reason="e2fsprogs is not installed")
def test_failed_copy_to_a_disk_is_an_error(debian, tmp_path):
    """A file that is put on a disk replaces the old one, and a failure raises an error. debugfs
    itself ends with status 0 even if it fails."""
    tree, disk, file = tmp_path / "tree", tmp_path / "disk", tmp_path / "file"
    (tree / "packages").mkdir(parents=True)
    with open(disk, "wb") as handle:
        handle.truncate(4 << 20)
    subprocess.run(["mke2fs", "-q", "-F", "-d", tree, disk], check=True)
    for text in ("1", "2"):
        file.write_text(text, encoding="ascii")
        debian.put(disk, file, "packages/stage")
        assert debian.debugfs(disk, "cat packages/stage") == text
    with pytest.raises(debian.LabError, match="absent"):
        debian.debugfs(disk, "cat absent")


GUEST = """#!/bin/sh
printf '%s\\n' "$@" >{args}
{says}
"""


@pytest.mark.parametrize("says, error", [
    ("echo 'guest: hello'; echo 'guest: status 0'", None),
    # An initrd without fsck, as in a minimal Debian.
    ("echo 'Warning: fsck not present, so skipping root file system'; echo 'guest: hello'; "
     "echo 'guest: status 0'", None),
    ("echo 'guest: status 3'", "status 3"), ("echo 'guest: hello'", "without a word"),
    ("echo 'BUG: unable'; echo 'guest: status 0'", "reported a failure")])
def test_boot_is_good_only_if_the_guest_reports_it(debian, tmp_path, monkeypatch, capfd, says,
                                                   error):
    """A boot counts as good only if the guest has reported status 0 and the kernel no failure."""
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text(GUEST.format(args=tmp_path / "args", says=says), encoding="ascii")
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    log = tmp_path / "log"
    with pytest.raises(debian.LabError, match=error) if error else contextlib.nullcontext():
        debian.boot(Path("/boot/vmlinuz-6"), [tmp_path / "a", tmp_path / "b"], log)
    args = (tmp_path / "args").read_text(encoding="ascii").splitlines()
    assert args[args.index("-initrd") + 1] == "/boot/initrd.img-6"
    # With icount the guest's clock measures its own work, even on a busy host.
    assert args[args.index("-icount") + 1] == "shift=1,sleep=off"
    assert args[args.index("-smp") + 1] == "1"
    assert [a.split(",")[0] for a in args if a.startswith("file=")] == \
        [f"file={tmp_path}/{d}" for d in "ab"]
    assert "guest: " in log.read_text(encoding="utf-8")
    assert ("guest: hello" in capfd.readouterr().err) == ("hello" in says)
