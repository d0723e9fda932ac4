# SPDX-License-Identifier: GPL-2.0
"""All parts have the version in dkms.conf, and modinfo reports it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
RELEASE = re.search(r'^PACKAGE_VERSION="(.*)"$', (TOP / "dkms.conf").read_text("utf-8"),
                    re.M)[1]
TOOLS = {"shingle": "shingle", "kv": "kv", "kvbench": "kvbench", "levels": "shingle-levels",
         "replay": "shingle-replay",
         "platter-sim": "platter-sim"}
MODULES = re.findall(r'^BUILT_MODULE_NAME\[\d+\]="(.*)"$',
                     (TOP / "dkms.conf").read_text("utf-8"), re.M)


def said(*command, cwd=TOP, **more):
    return subprocess.run(list(map(str, command)), check=True, cwd=cwd, text=True,
                          capture_output=True, **more).stdout.strip()


def test_the_version_has_three_numbers():
    assert re.fullmatch(r"\d+\.\d+\.\d+", RELEASE)


@pytest.mark.parametrize("folder, name", TOOLS.items(), ids=TOOLS)
def test_tools_print_the_version(folder, name):
    said("make", "-s", "-C", TOP / "userspace", folder)
    tool = TOP / "build/userspace" / name
    assert re.fullmatch(rf"{name} {re.escape(RELEASE)}(, on-disk format \d+)?",
                        said(tool, "--version"))
    assert said(tool, "-V") == said(tool, "--version")


@pytest.fixture(name="tarball")
def make_tarball(tmp_path):
    """Copy the sources without git, with another version."""
    for name in ("core", "userspace", "dm-platter"):
        shutil.copytree(TOP / name, tmp_path / name, ignore=shutil.ignore_patterns("corpus.tar"))
    for name in ("Kbuild", "version.mk", "sources.mk", "dkms.conf"):
        shutil.copy(TOP / name, tmp_path)
    become(tmp_path, RELEASE, "9.8.7")
    return tmp_path


def become(tree, was, release):
    conf = tree / "dkms.conf"
    text = conf.read_text("utf-8")
    assert text.count(f'"{was}"') == 1
    conf.write_text(text.replace(f'"{was}"', f'"{release}"'), "utf-8")


def compiled_in(tree):
    part = tree / "build/userspace/obj/levels/userspace/shingle/version.o"
    said("make", "-s", "-C", tree / "userspace/levels", part)
    return part.read_bytes()


def test_without_git_tools_use_the_version_of_dkms(tarball):
    assert b"9.8.7\0" in compiled_in(tarball)
    become(tarball, "9.8.7", "10.0.1")
    assert b"10.0.1\0" in compiled_in(tarball)      # and not an old one


def kbuild_flags(tree):
    """Return the compiler flags of modules, except those for the kernel's API variants."""
    text = ("src := .\nCONFIG_SHELL := true\ninclude Kbuild\n"
            "show:\n\t@printf '%s\\n' $(subdir-ccflags-y)\n")
    return subprocess.run(["make", "-s", "-f", "-", "show"], input=text, check=False,
                          cwd=tree, text=True, capture_output=True)


def test_modules_use_the_version_of_dkms(tarball):
    assert '-DSHINGLE_RELEASE="9.8.7"' in kbuild_flags(tarball).stdout.splitlines()


def test_build_fails_without_a_version(tarball):
    (tarball / "dkms.conf").write_text('PACKAGE_NAME="dm-shingle"\n', "utf-8")
    done = kbuild_flags(tarball)
    assert done.returncode and "no PACKAGE_VERSION" in done.stderr


def of_kbuild(room, words):
    """Return the value of these words in a directory's Kbuild, on a kernel without KUnit."""
    return said("make", "-s", "-C", TOP, "-f", "-", "list", "MAKEFLAGS=",
                input=f"src := {room}\ninclude {room}/Kbuild\nlist: ; @echo {words}\n").split()


def kbuilds():
    return ["core", *(path.parent.name for path in TOP.glob("dm-*/Kbuild"))]


def sources(module):
    """Return the files of a module that have modinfo entries."""
    texts = [(TOP / room / name).with_suffix(".c").read_text("utf-8")
             for room in kbuilds() for name in of_kbuild(room, f"$({module}-y)")]
    assert texts, module
    return [text for text in texts if re.search(r"^(MODULE_LICENSE|SHINGLE_TARGETS)\(", text, re.M)]


@pytest.mark.parametrize("module", MODULES)
def test_modules_have_a_description(module):
    text, = sources(module)
    if "SHINGLE_TARGETS(" in text:
        modinfo = (TOP / "core/base/shingle.h").read_text("utf-8")
        assert re.search(r'^SHINGLE_TARGETS\(targets, ".*"\);$', text, re.M)
        names = re.findall(r'^\t{ "(\S+)", &\w+ },$', text, re.M)
    else:
        modinfo = text
        names = re.findall(r'struct target_type \w+ = {\s*\.name = "?(\w+)"?,', text)
        names = ["platter" if name == "DM_NAME" else name for name in names]
    for line in (r'MODULE_AUTHOR\("the dm-shingle project"\);',
                 r'MODULE_DESCRIPTION\(.*\);', r"MODULE_VERSION\(SHINGLE_RELEASE\);?"):
        assert re.search(rf"^{line}\s*\\?$", modinfo, re.M), line
    assert bool(names) == (module != "dm-shingle")
    assert sorted(re.findall(r'^MODULE_ALIAS\("dm-(.*)"\);$', text, re.M)) == sorted(names)


def test_dkms_has_every_module():
    built = {Path(name).stem for room in kbuilds() for name in of_kbuild(room, "$(obj-m)")}
    assert built == set(MODULES)


def test_changelog_begins_with_the_version():
    heads = re.findall(r"^## (.*)$", (TOP / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert heads[0] == RELEASE


def test_pages_name_the_present_version():
    """Commands for users that contain the version, as in README's section on DKMS, have the present
    one."""
    for path in (TOP / "README.md", *(TOP / "Documentation").rglob("*.rst")):
        for found in re.findall(r"dm-shingle[-/](\d+\.\d+\.\d+)", path.read_text("utf-8")):
            assert found == RELEASE, path


def test_pkg_config_has_the_version(tmp_path):
    said("make", "-s", "-C", TOP / "userspace", "kv")
    said("make", "-s", "-C", TOP / "userspace/kv", "install", f"DESTDIR={tmp_path}",
         "PREFIX=/usr")
    assert f"Version: {RELEASE}" in (tmp_path / "usr/lib/pkgconfig/shingle-kv.pc") \
        .read_text("utf-8").splitlines()


def test_changelog_has_the_format_number():
    code = (TOP / "core/lib/format/format.h").read_text("utf-8")
    number = re.search(r"^#define SHINGLE_VERSION\s+(\d+)$", code, re.M)[1]
    newest = (TOP / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1]
    assert f"On-disk format {number}." in newest
