# SPDX-License-Identifier: GPL-2.0
"""Tests of output files that a user names: a regular file is replaced as a whole; any other file is
written to and keeps its type."""

import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from common import output

TOP = Path(__file__).resolve().parents[2]
ROOT = os.geteuid() == 0


def node(path, kind, major, minor):
    try:
        os.mknod(path, kind | 0o660, os.makedev(major, minor))
    except PermissionError:
        pytest.skip("mknod needs root")
    return path


def test_new_file_has_the_mode_of_umask(tmp_path):
    mask = os.umask(0o027)
    try:
        output.store(tmp_path / "a", "text")
    finally:
        os.umask(mask)
    assert (tmp_path / "a").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a"]


def test_mode_and_owner_are_kept(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o604)
    if ROOT:
        os.chown(path, 12, 34)
    output.store(path, "new")
    st = path.stat()
    assert (path.read_text(), stat.S_IMODE(st.st_mode)) == ("new", 0o604)
    assert not ROOT or (st.st_uid, st.st_gid) == (12, 34)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(tmp_path, there):
    (tmp_path / "d").mkdir()
    target = tmp_path / "d/target"
    if there:
        target.write_text("old")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("d/target")
    output.store(tmp_path / "one", "new")
    assert target.read_text() == "new" and not target.is_symlink()
    assert (tmp_path / "one").is_symlink() and (tmp_path / "two").is_symlink()


def test_failure_keeps_the_old_files(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("old")
    with pytest.raises(ZeroDivisionError):
        with output.whole(one, two) as parts:
            parts[0].write_text("new")
            raise ZeroDivisionError
    assert one.read_text() == "old" and os.listdir(tmp_path) == ["one"]


def test_temporary_name_is_unused(tmp_path):
    """The temporary file has a name that no other file has, not even a link placed there before."""
    (tmp_path / "a.part").write_text("mine")
    (tmp_path / "b.part").symlink_to("a.part")
    for name in ("a", "b"):
        output.check(tmp_path / name)
        output.store(tmp_path / name, "new")
    assert (tmp_path / "a.part").read_text() == "mine" and (tmp_path / "b.part").is_symlink()
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["a", "a.part", "b", "b.part"]


def test_last_of_two_writers_counts(tmp_path):
    """The last one to end replaces the whole file."""
    with output.whole(tmp_path / "a") as (one,):
        one.write_text("one")
        output.store(tmp_path / "a", "two")
    assert (tmp_path / "a").read_text() == "one" and os.listdir(tmp_path) == ["a"]


def test_a_device_node_is_written_to(tmp_path):
    null = node(tmp_path / "null", stat.S_IFCHR, 1, 3)
    output.store(null, "text")
    st = null.stat()
    assert stat.S_ISCHR(st.st_mode) and st.st_rdev == os.makedev(1, 3)
    assert os.listdir(tmp_path) == ["null"]


def test_full_device_is_named_in_the_error(tmp_path):
    full = node(tmp_path / "full", stat.S_IFCHR, 1, 7)
    with pytest.raises(OSError, match="No space left on device") as error:
        output.store(full, "text")
    assert error.value.filename == str(full)


def test_a_block_device_is_refused(tmp_path):
    disk = node(tmp_path / "disk", stat.S_IFBLK, 259, 987654)
    with pytest.raises(OSError, match="it is a block device") as error:
        output.store(disk, "text")
    assert error.value.filename == str(disk) and stat.S_ISBLK(disk.stat().st_mode)


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    have = []
    reader = threading.Thread(target=lambda: have.append(pipe.read_text()))
    reader.start()
    output.store(pipe, "text")
    reader.join()
    assert have == ["text"] and stat.S_ISFIFO(pipe.stat().st_mode)


ENV = dict(os.environ, PYTHONPATH=str(TOP / "scripts/src"))


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_to(tmp_path, name):
    """Names of standard output are written to and not replaced, even if it is a regular file: the
    shell has that file open."""
    code = (f"from common import output; "
            f"output.store({name!r}, 'text'); print('behind')")
    with (tmp_path / "out").open("w") as out:
        inode = os.fstat(out.fileno()).st_ino
        subprocess.run([sys.executable, "-B", "-c", code], stdout=out, check=True, env=ENV)
    assert (tmp_path / "out").stat().st_ino == inode
    assert (tmp_path / "out").read_text() == "textbehind\n"
    done = subprocess.run([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, check=True,
                          env=ENV)
    assert done.stdout == b"textbehind\n"


def test_impossible_paths_raise_oserror(tmp_path):
    with pytest.raises(IsADirectoryError):
        output.store(tmp_path, "text")
    with pytest.raises(FileNotFoundError):
        output.store(tmp_path / "no/such", "text")


def test_convert_keeps_a_device_node(tmp_path):
    """A regression test: `scripts/loads/run convert --out /dev/null` replaced the node by a regular
    file."""
    (tmp_path / "trace.csv").write_text("128166372003061629,hm,0,Read,4096,4096,1\n")
    null = node(tmp_path / "null", stat.S_IFCHR, 1, 3)
    link = tmp_path / "link"
    link.symlink_to("kept.csv")
    for out in (null, link):
        subprocess.run([TOP / "scripts/loads/run", "convert", tmp_path / "trace.csv", "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
    assert stat.S_ISCHR(null.stat().st_mode)
    assert link.is_symlink() and (tmp_path / "kept.csv").read_text().count("\n") == 1


ARRIVALS = ("arrivals", "-p", "operationcount=10", "-p", "target=100")
C_WRITERS = {
    "kvbench arrivals": lambda out: ("kvbench", *ARRIVALS, "--out", out),
    "kvbench run": lambda out: ("kvbench", "run", "--store", "null", "--load", "-p", "recordcount=5",
                                "-p", "operationcount=5", "--log", out),
    "shingle-levels": lambda out: ("shingle-levels", "--model", "seq,naive", "--scale", "512",
                                   "--load", "1M", "--record-trace", out),
}


@pytest.fixture(name="programs", scope="module")
def _programs():
    for folder in ("kvbench", "levels"):
        subprocess.run(["make", "-s", "-C", TOP / "userspace" / folder], check=True,
                       stdout=subprocess.DEVNULL)
    return TOP / "build/userspace"


@pytest.mark.parametrize("name", C_WRITERS)
def test_programs_in_c(programs, tmp_path, name):
    """Programs in C treat links, modes, device nodes and errors in the same way, through
    outfile.c."""
    def run(out, status=0):
        program, *words = C_WRITERS[name](str(out))
        done = subprocess.run([programs / program, *words], text=True, capture_output=True,
                              check=False)
        assert bool(done.returncode) == bool(status), done.stderr
        return done.stderr
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o604)
    link.symlink_to("target")
    (tmp_path / "target.part").write_text("mine")
    run(link)
    assert (tmp_path / "target.part").read_text() == "mine"
    mask = os.umask(0o027)
    try:
        run(tmp_path / "new")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o604
    assert target.read_text() not in ("", "old")
    assert "no/such" in run(tmp_path / "no/such", 1)
    disk = node(tmp_path / "disk", stat.S_IFBLK, 259, 987654)
    assert "it is a block device" in run(disk, 1)
    run(node(tmp_path / "null", stat.S_IFCHR, 1, 3))
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)
    full = node(tmp_path / "full", stat.S_IFCHR, 1, 7)
    assert "No space left on device" in run(full, 1)
    assert sorted(os.listdir(tmp_path)) == [
        "disk", "full", "link", "new", "null", "target", "target.part"]


# Writers of files that only their own program names: logs and stamps of the lab's cache, parts of a
# guest, settings of the kernel.
OWN = re.compile(r"^scripts/(src/(common/output\.py|lab/|experiments/(demo|in_guest/\w+)\.py)|lab/)")


def test_only_output_py_writes_outputs():
    """Only output.py writes files that the command line names."""
    ways = re.compile(r"\.replace\((?:self\.)?(?:path|out|options\.\w+|args\.\w+)\)|"
                      r"os\.(?:replace|rename)\(|"
                      r"(?:options|args)\.(?:json|svg|out|rst|picture|html)\.(?:write_|open\()")
    found = []
    for path in sorted((TOP / "scripts").rglob("*")):
        name = str(path.relative_to(TOP))
        if not path.is_file() or path.suffix not in ("", ".py") or OWN.match(name):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {hit}" for hit in ways.findall(text)]
    assert not found
