# SPDX-License-Identifier: GPL-2.0
"""Tests of make install and make uninstall: install provides all that the README names, and
uninstall removes all of it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
README = (TOP / "README.md").read_text(encoding="utf-8")
KREL = "6.1.0-of-nobody"
# The modules, the release and the directories of the modules in dkms.conf.
MODULES = re.findall(r'^BUILT_MODULE_NAME\[\d+\]="(.*)"',
                     (TOP / "dkms.conf").read_text(encoding="utf-8"), re.M)
RELEASE = re.search(r'^PACKAGE_VERSION="(.*)"',
                    (TOP / "dkms.conf").read_text(encoding="utf-8"), re.M)[1]
ROOMS = re.findall(r'^BUILT_MODULE_LOCATION\[\d+\]="(.*)/"',
                   (TOP / "dkms.conf").read_text(encoding="utf-8"), re.M)
# A word of the README, and the file that is installed for it, relative to the prefix.
NAMED = {
    "shingle create": "sbin/shingle", "kvbench": "bin/kvbench", "`kv`": "bin/kv",
    "`shingle-levels`": "bin/shingle-levels", "`skylight`": "sbin/skylight",
    "`shingle-replay`": "bin/shingle-replay",
    "`shingle-trace`": "sbin/shingle-trace",
    "LICENSE": "share/doc/dm-shingle/LICENSE",
}
# Installed files that the README has a reason not to name.
BESIDES = {
    "bin/platter-sim", "include/shingle-imr.h", "include/shingle-kv.h", "lib/libshingle-kv.a", "lib/libshingle-kv.so",
    "lib/libshingle-kv.so.1", "lib/libshingle-kv.so.1.0.0", "lib/pkgconfig/shingle-kv.pc",
    "lib/systemd/system-generators/shingle-generator",
    "share/bash-completion/completions/shingle", "share/doc/dm-shingle/README.md",
    "share/man/man1/platter-sim.1", "share/man/man5/shingletab.5", "share/man/man8/shingle.8",
    "share/man/man1/kv.1", "share/man/man1/kvbench.1", "share/man/man1/shingle-levels.1",
    "share/man/man1/shingle-replay.1",
    "share/man/man8/skylight.8", "share/man/man8/shingle-trace.8",
}


def make(*words):
    done = subprocess.run(["make", "-s", *map(str, words)], cwd=TOP, check=False, text=True,
                          capture_output=True)
    assert not done.returncode, done.stdout + done.stderr


def files(top):
    return {str(p.relative_to(top)) for p in top.rglob("*") if p.is_symlink() or not p.is_dir()}


@pytest.fixture(scope="module", name="kdir")
def kernel_tree(tmp_path_factory):
    """A kernel tree of which only the file with the release exists."""
    tree = tmp_path_factory.mktemp("kernel")
    (tree / "include/generated").mkdir(parents=True)
    (tree / "include/generated/utsrelease.h").write_text(f'#define UTS_RELEASE "{KREL}"\n')
    return tree


@pytest.fixture(scope="module", name="installed", params=["/usr/local", "/usr"])
def install(request, tmp_path_factory):
    """Install all but the modules, which need a kernel tree and much time."""
    dest = tmp_path_factory.mktemp("dest")
    make("install-userspace", f"DESTDIR={dest}", f"PREFIX={request.param}")
    return dest, request.param


def test_programs_of_the_readme_are_installed(installed):
    """The programs that the README names are installed, and so are the pages to which it links."""
    dest, prefix = installed
    top = dest / prefix.lstrip("/")
    for word, path in NAMED.items():
        assert word in README, word
        assert (top / path).exists(), path
        assert "bin/" not in path or os.access(top / path, os.X_OK), path
    # The links of the installed README lead to installed pages.
    doc = top / "share/doc/dm-shingle"
    for link in re.findall(r"\]\(((?!http)[\w./-]+)(?:#[\w-]*)?\)", README):
        if not link.startswith(("tests/", "CONTRIBUTING")):
            assert (doc / link).exists(), link


def test_all_installed_files_are_known(installed):
    """Every installed file is known: named by the README, listed above, or a part of a package's
    directory."""
    dest, prefix = installed
    rules = {"/usr": "usr/lib"}.get(prefix, "etc") + "/udev/rules.d/65-shingle.rules"
    known = {f"{prefix.lstrip('/')}/{p}" for p in {*NAMED.values(), *BESIDES}} | {rules}
    for path in files(dest) - known:
        assert re.fullmatch(rf"{prefix[1:]}/share/(doc/dm-shingle/(CHANGELOG\.md|Documentation/.+)|"
                            r"dm-shingle/trace/(shingle-trace|dkms\.conf|\w+\.awk)|"
                            r"skylight/(skylight|dkms\.conf|src/(skylight|common)/\w+\.(py|html)))", path), path
    assert known <= files(dest)
    pages = {str(p.relative_to(TOP)) for p in (TOP / "Documentation").rglob("*") if p.is_file()}
    assert {f"{prefix[1:]}/share/doc/dm-shingle/{p}" for p in pages} <= files(dest)


def test_installed_programs_run_from_any_place(installed, tmp_path):
    """Installed programs run from any place, without the source tree."""
    dest, prefix = installed
    top = dest / prefix.lstrip("/")
    for path in ("sbin/shingle", "bin/kv", "bin/kvbench", "bin/shingle-levels",
                 "bin/shingle-replay", "bin/platter-sim", "sbin/skylight", "sbin/shingle-trace"):
        done = subprocess.run([top / path, "--help"], cwd=tmp_path, check=False, text=True,
                              capture_output=True)
        assert done.returncode == 0 and not done.stderr, (path, done.stderr)
        assert "sage" in done.stdout, path
        done = subprocess.run([top / path, "--version"], cwd=tmp_path, check=True, text=True,
                              capture_output=True)
        assert done.stdout.strip().split(",")[0] == f"{Path(path).name} {RELEASE}"
    generator = top / "lib/systemd/system-generators/shingle-generator"
    (tmp_path / "tab").write_text("a /dev/sda\n")
    subprocess.run([generator, tmp_path], check=True,
                   env={**os.environ, "SHINGLETAB": str(tmp_path / "tab")})
    unit = (tmp_path / "shingle-a.service").read_text(encoding="utf-8")
    assert f"ExecStart={os.path.realpath(top)}/sbin/shingle open" in unit
    assert not [p for p in files(dest) if "__pycache__" in p]


def test_make_builds_what_is_installed(tmp_path):
    """Programs and libraries of a plain make are installed, test programs are not built by it."""
    done = subprocess.run(["make", "-n", "-C", "userspace", f"OUT={tmp_path}", "V=1"], cwd=TOP,
                          check=True, text=True, capture_output=True)
    built = set(re.findall(rf"(?: -o| ar rc) {tmp_path}/([\w.-]+)(?= |$)", done.stdout, re.M))
    names = {Path(p).name for p in {*NAMED.values(), *BESIDES}}
    assert len(built) > 6 and built <= names, built - names


COMPILERS = {
    "gcc": ("CONFIG_CC_IS_GCC=y\nCONFIG_LD_IS_BFD=y\n", "LLVM= CC="),
    "clang": ("CONFIG_CC_IS_CLANG=y\nCONFIG_LD_IS_LLD=y\n", "LLVM=1 CC="),
    "clang and ld": ("CONFIG_CC_IS_CLANG=y\nCONFIG_LD_IS_BFD=y\n", "LLVM= CC=clang"),
    "unknown": (None, "LLVM= CC="),
}


@pytest.mark.parametrize("where", ["include/config/auto.conf", ".config"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_modules_are_built_by_the_compiler_of_the_kernel(tmp_path, where, compiler):
    """Modules are built with the compiler and the linker of the kernel's configuration, by make
    and by DKMS. An LLVM that the user names takes precedence."""
    config, wanted = COMPILERS[compiler]
    (tmp_path / "include/generated").mkdir(parents=True)
    (tmp_path / "include/config").mkdir()
    (tmp_path / "include/generated/utsrelease.h").write_text(f'#define UTS_RELEASE "{KREL}"\n')
    if config:
        (tmp_path / where).write_text(config)
    # CC always has a value in make; only one from the command line is passed on to the kernel's
    # make.
    (tmp_path / "Makefile").write_text(
        "modules modules_install:\n\t@echo 'LLVM=$(LLVM) CC=$(if $(filter command%,"
        "$(origin CC)),$(CC))'\n")

    def said(*argv):
        env = {k: v for k, v in os.environ.items() if k not in ("LLVM", "CC", "MAKEFLAGS")}
        done = subprocess.run(argv, cwd=TOP, check=False, text=True, capture_output=True, env=env)
        assert not done.returncode, done.stdout + done.stderr
        return set(done.stdout.splitlines())

    built = ("make", "-s", f"KDIR={tmp_path}", f"MODDIR={tmp_path}/out", "modules")
    assert said(*built) == {wanted}
    assert said("bash", "-c", f'kernel_source_dir={tmp_path}; . ./dkms.conf; eval "${{MAKE[0]}} -s"'
                ) == {wanted}
    assert said(*built, "LLVM=-18") == {"LLVM=-18 CC="}
    assert said(*built, "LLVM=") == {"LLVM= CC="}


def test_programs_have_pages(installed):
    """Each program has a manual page with all options of its help. skylight has a test of its
    own, since its options belong to its commands. groff has no warning about any page."""
    dest, prefix = installed
    top = dest / prefix.lstrip("/")
    for program in [*(top / "sbin").iterdir(), *(top / "bin").iterdir()]:
        if program.name == "skylight":
            continue
        page = next(top.glob(f"share/man/man*/{program.name}.*")).read_text(encoding="utf-8")
        page = page.replace("\\-", "-")
        assert f"{program.name} - " in page.replace("\\fR", "")
        done = subprocess.run([program, "--help"], check=False, text=True, capture_output=True)
        named = re.findall(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]*)", done.stdout, re.M) or \
            re.findall(r"(-\w)\b", done.stdout)
        for option in named:
            assert re.search(rf"{option}(?![a-z-])", page), (program.name, option)
    groff = shutil.which("groff")
    for page in (p for room in ("userspace", "scripts")
                 for p in (TOP / room).rglob("*.[158]") if groff):
        done = subprocess.run([groff, "-man", "-Tutf8", "-ww", page], check=True, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert not done.stderr, done.stderr


@pytest.mark.parametrize("prefix, more", [
    ("/usr/local", []), ("/usr", []), ("/usr", ["UDEVDIR=/lib/udev/rules.d"])])
def test_uninstall_removes_all_files(kdir, tmp_path, prefix, more):
    """uninstall removes all that install has made, including modules in any compression and
    directories. Other files stay."""
    words = [f"DESTDIR={tmp_path}", f"PREFIX={prefix}", f"KDIR={kdir}", *more]
    make("install-userspace", *words)
    for word in more:
        assert (tmp_path / word.split("=/")[1] / "65-shingle.rules").exists()
    updates = tmp_path / f"lib/modules/{KREL}/updates"
    for room, module in zip(ROOMS, MODULES):
        (updates / room).mkdir(parents=True, exist_ok=True)
        (updates / room / f"{module}.ko.xz").write_text("")
    others = {f"{prefix[1:]}/sbin/other", f"lib/modules/{KREL}/updates/dkms/other.ko",
              f"{prefix[1:]}/share/doc/other/README", f"{prefix[1:]}/share/man/man8/other.8"}
    for other in others:
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_text("")
    assert len(files(tmp_path)) > 40
    make("uninstall", *words)
    assert files(tmp_path) == others
    # Directories that were made for the installation alone are removed.
    left = {p.name for p in tmp_path.rglob("*") if p.is_dir()}
    assert not left & {"dm-shingle", "skylight", "src", "common", "core", *ROOMS}
    # Uninstalling twice is no error.
    make("uninstall", *words)


@pytest.mark.parametrize("word", ["DESTDIR={}", "PREFIX={}", "UDEVDIR={}"])
@pytest.mark.parametrize("target", ["uninstall", "install-userspace", "install-dkms"])
def test_path_with_a_blank_is_refused(tmp_path, target, word):
    """A path with a blank is refused. make splits words at blanks, and `rm -rf` of the first
    part would remove the user's files."""
    (tmp_path / "my").mkdir()
    (tmp_path / "my/letters").touch()
    done = subprocess.run(["make", "-s", target, "KDIR=/none", f"DESTDIR={tmp_path}/safe",
                           word.format(f"{tmp_path}/my files")],
                          cwd=TOP, check=False, text=True, capture_output=True)
    assert done.returncode and "may have no blanks" in done.stderr, done.stderr
    assert files(tmp_path) == {"my/letters"}


def test_relative_destdir_is_the_same_for_all_directories(tmp_path, kdir):
    """Each subdirectory has its own make, which must not interpret DESTDIR relative to itself."""
    dest = os.path.relpath(tmp_path / "stage", TOP)
    make("install-userspace", f"DESTDIR={dest}", "PREFIX=/usr", f"KDIR={kdir}")
    assert (tmp_path / "stage/usr/sbin/shingle").exists() and \
        (tmp_path / "stage/usr/sbin/skylight").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["stage"]


def named(text):
    """Return the options that a text names, without --help and --version."""
    text = re.sub(r"\\f[A-Z]", "", text).replace("\\-", "-")
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text)) - {"--help", "--version"}


def test_the_manual_of_skylight_has_its_options():
    from skylight import cli
    commands = next(a.choices for a in cli.parser()._actions if a.choices)
    page = (TOP / "scripts/src/skylight/skylight.8").read_text(encoding="utf-8")
    assert named(page) == {o for c in commands.values() for a in c._actions
                           for o in a.option_strings if o.startswith("--")} - {"--help"}
    assert {c for c in commands if f"skylight {c}" not in page} == set()


def test_the_manual_of_shingle_trace_has_its_options_and_recipes():
    page = (TOP / "scripts/trace/shingle-trace.8").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^\.SH (\w+)\n(.*?)(?=^\.SH)", page, re.M | re.S))
    script = (TOP / "scripts/trace/shingle-trace").read_text(encoding="utf-8")
    letters = set(re.search(r"getopts :([\w:]+)", script)[1]) - {":", "h"}
    assert set(re.findall(r"^\.BI \\-(\w) ", parts["OPTIONS"], re.M)) == letters
    recipes = {p.stem for p in (TOP / "scripts/trace").glob("*.awk")} - {"lib"}
    assert set(re.findall(r"^\.TP\n\.B (\w+)$", parts["RECIPES"], re.M)) == recipes | {"events"}


@pytest.mark.parametrize("room, least", [("levels", 30), ("replay", 14)])
def test_the_manual_has_the_options(room, least):
    source = (TOP / f"userspace/{room}/main.c").read_text(encoding="utf-8")
    page = (TOP / f"userspace/{room}/shingle-{room}.1").read_text(encoding="utf-8")
    said = re.search(r'help\[\] =\n(.*?);\n\n', source, re.S)[1]
    assert len(named(said)) > least and named(page) == named(said)


def test_the_manual_of_platter_sim_has_its_options():
    folder = TOP / "userspace/platter-sim"
    letters = re.search(r'getopt\(argc, argv, "([a-z:]+)"', (folder / "platter-sim.c")
                        .read_text(encoding="utf-8"))[1].replace(":", "")
    page = (folder / "platter-sim.1").read_text(encoding="utf-8").split(".SH OPTIONS")[1]
    assert set(re.findall(r"^\.BI? \\-([a-z])\b", page, re.M)) == set(letters)
