# SPDX-License-Identifier: GPL-2.0
"""Tests of the identification of a closed device: by `shingle probe` and its udev rule, and by
libblkid with the prober in Documentation/libblkid."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from lab import packages
from lab.cache import CACHE, LabError
from guest.ondisk import VERSION, crc32c, seal
from test_shingle_cli import (BLOCK, CLEAN, DEVICES, FAILED, Set, blank, content,
                              make_swap, put, uuid_of)
from test_shingle_cli import build_tool, runner    # noqa: F401

TOP = Path(__file__).resolve().parents[2]
PROBER = TOP / "Documentation/libblkid/shingle.c"

# The results of util-linux's configure on any glibc.
CONFIG = ("NANOSLEEP", "ENVIRON_DECL", "ERR_H", "FSYNC", "PROGRAM_INVOCATION_SHORT_NAME")

ASK = r"""
#include <blkid/blkid.h>
#include <fcntl.h>
#include <stdio.h>

/* ask DEV: what blkid -p would say; ask wipe DEV: what wipefs -a would do */
int main(int argc, char **argv)
{
	const char *name, *value;
	int fd = open(argv[argc - 1], O_RDWR), got, i, wiped = 0;
	blkid_probe pr = blkid_new_probe();

	if (fd < 0 || !pr || blkid_probe_set_device(pr, fd, 0, 0))
		return 99;
	blkid_probe_enable_superblocks(pr, 1);
	blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_DEFAULT | BLKID_SUBLKS_VERSION |
					  BLKID_SUBLKS_MAGIC | BLKID_SUBLKS_USAGE);
	blkid_probe_enable_partitions(pr, 1);
	if (argc > 2) {
		while (!blkid_do_probe(pr) && !blkid_do_wipe(pr, 0))
			wiped++;
		printf("%d\n", wiped);
		return 0;
	}
	got = blkid_do_safeprobe(pr);
	for (i = 0; !got && i < blkid_probe_numof_values(pr); i++) {
		blkid_probe_get_value(pr, i, &name, &value, NULL);
		printf("%s=%s\n", name, value);
	}
	return got;
}
"""


def one_line(*argv):
    return subprocess.run(argv, check=True, text=True, capture_output=True).stdout.strip()


@pytest.fixture(scope="session", name="ask")
def build_ask(tmp_path_factory):
    """Build a program that queries libblkid as installed, with the table of probers of the same
    version and with our prober in it."""
    out = tmp_path_factory.mktemp("libblkid")
    try:
        version = one_line("dpkg-query", "-W", "-f", "${source:Version}", "libblkid-dev")
        release = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(
            encoding="utf-8"))[1]
        tree = CACHE / f"src/util-linux-{version}"
        if not tree.is_dir():
            packages.Suites(release, f"{release}-updates", f"{release}-security",
                            types="deb-src").source("util-linux", version, tree)
    except (OSError, TypeError, subprocess.CalledProcessError, LabError) as error:
        pytest.skip(f"the sources of this machine's libblkid are not to be had: {error}")
    blkid = tree / "libblkid/src"
    (out / "config.h").write_text("".join(f"#define HAVE_{c} 1\n" for c in CONFIG))
    (out / "blkid.h").write_text(re.sub(r"@LIBBLKID_\w+@", "x", (blkid / "blkid.h.in")
                                        .read_text(encoding="utf-8")))
    # The two lines that README.rst in Documentation/libblkid requires.
    for name, before, ours in (
            ("superblocks.h", r"^extern const struct blkid_idinfo stratis_idinfo;$",
             "extern const struct blkid_idinfo shingle_idinfo;"),
            ("superblocks.c", r"^\t&stratis_idinfo,$", "\t&shingle_idinfo,")):
        text, count = re.subn(before, lambda m, add=ours: f"{m[0]}\n{add}", (
            blkid / "superblocks" / name).read_text(encoding="utf-8"), flags=re.M)
        assert count == 1
        (out / name).write_text(text)
    for source in (out / "superblocks.c", PROBER):
        done = subprocess.run(
            ["cc", "-c", "-O1", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-include", out / "config.h",
             "-I", out, "-I", blkid, "-I", blkid / "superblocks", "-I", tree / "include", source,
             "-o", out / f"{source.stem}.o"], check=False, text=True, capture_output=True)
        assert not done.returncode, done.stderr
        assert not re.search(r"shingle\.c:[\d:]+ warning", done.stderr), done.stderr
    (out / "ask.c").write_text(ASK)
    subprocess.run(["cc", "-o", out / "ask", out / "ask.c", out / "superblocks.o",
                    out / "shingle.o", "-l:libblkid.a"], check=True)

    def ask(*argv):
        done = subprocess.run([out / "ask", *argv], check=False, text=True, errors="replace",
                              capture_output=True)
        assert not done.stderr
        return done.returncode, done.stdout
    return ask


def fields(text):
    return dict(line.split("=", 1) for line in text.splitlines())


def test_probe(run):
    """`shingle probe` prints the properties that udev needs, for each device of a set, and
    refuses everything else with one line."""
    one = Set(run, "a", "--label", "my disk/1")
    for which in DEVICES:
        said = run("probe", one.path[which])
        assert fields(said) == {
            "ID_FS_TYPE": "shingle_member", "ID_FS_USAGE": "raid",
            "ID_FS_VERSION": str(VERSION),
            "ID_FS_UUID": uuid_of(one.path["meta"]), "ID_FS_UUID_ENC": uuid_of(one.path["meta"]),
            "ID_FS_LABEL": "my_disk/1", "ID_FS_LABEL_ENC": r"my\x20disk\x2f1",
            "ID_SHINGLE_TARGET": "stl-set", "ID_SHINGLE_DEVICE": which.upper()}
    alone = Set(run, "b", which=("data",))
    assert fields(run("probe", alone.path["data"]))["ID_SHINGLE_DEVICE"] == "DATA"
    put(one.path["data"], 300, b"?")
    for path in (one.path["data"], blank(run.dir / "empty", 4), blank(run.dir / "nothing", 0)):
        said = run("probe", path, rc=FAILED)
        assert said.startswith("shingle: ") and said.count("\n") == 1


def test_probe_of_hostile_text(run):
    """Text on a hostile disk must not become properties that udev trusts."""
    one = Set(run, "a", which=("data",))
    raw = bytearray(content(one.path["data"], 0))
    raw[48:64] = b"\nSYSTEMD_READY=0"
    raw[64:96] = b"x\nUDISKS_AUTO=1'\"$(id)`\xff".ljust(32, b"\0")
    raw[4:8] = crc32c(int.from_bytes(raw[:4], "little"), bytes(raw[8:])).to_bytes(4, "little")
    put(one.path["data"], 0, bytes(raw))
    said = run("probe", one.path["data"])
    assert all(re.match(r"ID_[A-Z_]+=", line) for line in said.rstrip("\n").split("\n"))
    assert fields(said)["ID_SHINGLE_TARGET"] == r"\x0aSYSTEMD_READY=0"


def test_hostile_label_on_a_terminal(run):
    """A hostile label is printed escaped and does not control the terminal."""
    label = "Größe 'a', \\ \x1b[31m\r\x7f\u009b2J\n".encode() + b"\x9b"
    path = blank(run.dir / "d", 300)
    subprocess.run([run.tool, "format", "stl-set", "--band", "40K", b"--label", label, path],
                   check=True, stdout=subprocess.DEVNULL)
    for words in (("dump", path), ("format", "stl-set", "--band", "40K", path),
                  ("format", "stl-set", "--band", "40K", "--dry-run", "--force", b"--label",
                   label, path)):
        said = subprocess.run([run.tool, *words], check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT).stdout
        shown = r"'Größe 'a', \x5c \x1b[31m\x0d\x7f\xc2\x9b2J\x0a\x9b'".encode()
        assert shown in said and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]",
                                               said), said
    # An unknown engine under a valid checksum, and another label.
    for at in (0, 299):
        raw = bytearray(content(path, at))
        raw[48:64] = b"\x1b[2J".ljust(16, b"\0")
        put(path, at * BLOCK, seal(raw))
    assert r"type '\x1b[2J'" in run("check", path, rc=FAILED)
    make_swap(path := blank(run.dir / "swap", 3000))
    put(path, 1024 + 28, b"\x1b[2J")
    assert r"labelled '\x1b[2J'" in run("format", "stl-set", "--band", "40K", path, rc=FAILED)


@pytest.mark.parametrize("prefix, rules", [("/usr/local", "etc"), ("/usr", "usr/lib")])
def test_udev_rule(run, prefix, rules):
    """The rule is installed where udev looks for it, the program that it runs is installed, and the
    program prints properties that the rules accept."""
    subprocess.run(["make", "-s", "-C", TOP / "userspace/shingle", "install", f"PREFIX={prefix}",
                    f"DESTDIR={run.dir}"], check=True, stdout=subprocess.DEVNULL)
    text = (run.dir / rules / "udev/rules.d/65-shingle.rules").read_text(encoding="utf-8")
    program = re.search(r'IMPORT\{program\}="(\S+) probe \$devnode"', text)[1]
    one = Set(run, "a")
    said = one_line(f"{run.dir}{program}", "probe", one.path["cache"])
    assert all(re.fullmatch(r"ID_[A-Z_]+=\S+", line) for line in said.splitlines())
    assert "@" not in text


@pytest.mark.parametrize("label", [(), ("--label", "my disk")])
def test_libblkid_with_our_prober(run, ask, label):
    """libblkid with the prober finds type, version, UUID and label of each device."""
    one = Set(run, "a", *label)
    for which, magic in zip(DEVICES, ("SHMB", "SHMB", "SHSB")):
        code, said = ask(one.path[which])
        assert code == 0 and fields(said) == {
            "TYPE": "shingle_member", "USAGE": "raid", "VERSION": str(VERSION),
            "SBMAGIC": magic,
            "SBMAGIC_OFFSET": "0", "UUID": uuid_of(one.path["meta"]),
            **({"LABEL": "my disk"} if label else {})}


def test_libblkid_recognizes_no_other_content(run, ask):
    """The prober finds nothing if any byte of the superblock differs, if a block is in the wrong
    place, or on another filesystem."""
    one = Set(run, "a")
    whole = content(one.path["meta"], 0)
    for change in (0, 3, 4, 8, 24, 40, 64, 2000, BLOCK - 1):
        put(one.path["meta"], change, bytes([whole[change] ^ 1]))
        assert ask(one.path["meta"]) == (1, ""), f"byte {change}"
        put(one.path["meta"], 0, whole)
    assert ask(one.path["meta"])[0] == 0
    # A block of our format in the wrong place, and other content.
    put(one.path["meta"], 0, content(one.path["meta"], -1))
    assert ask(one.path["meta"])[0] == 1
    assert ask(blank(run.dir / "empty", 64))[0] == 1
    other = blank(run.dir / "other", 3000)
    if shutil.which("mkfs.ext4"):
        subprocess.run(["mkfs.ext4", "-q", "-F", other], check=True)
        assert fields(ask(other)[1])["TYPE"] == "ext4"


def test_wipefs_with_our_prober(run, ask):
    """wipefs finds one magic and erases it. It does not know the second copy of the superblock,
    which only dm-shingle itself uses."""
    one = Set(run, "a", which=("data",))
    assert ask("wipe", one.path["data"]) == (CLEAN, "1\n")
    assert ask(one.path["data"])[0] == 1
    assert run("check", one.path["data"], rc=4)
