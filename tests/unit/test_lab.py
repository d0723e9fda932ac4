# SPDX-License-Identifier: GPL-2.0
"""Unit tests of the lab's functions. Tests that boot guests cover the rest."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from common import libraries
from lab import cache, guest, kernels, modules, watch
from programs import TOP

LAB = TOP / "scripts/lab"
RUN = LAB / "run"
# The environment of a program that imports from the tree.
ENV = dict(os.environ, PYTHONPATH=f"{TOP / 'scripts/src'}:{TOP / 'tests'}")


@pytest.fixture(autouse=True)
def own_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "CACHE", tmp_path / "cache")


def test_each_guest_gets_a_free_processor():
    one, first = guest.one_core({4, 2})
    other, second = guest.one_core({4, 2})
    assert (one, other) == ({2}, {4}) and first and second
    shared, third = guest.one_core({4, 2})
    assert shared in ({2}, {4}) and third is None
    first.close()
    again, fourth = guest.one_core({4, 2})
    assert again == {2}
    second.close()
    fourth.close()


def test_kernel_without_built_modules_is_an_error(tmp_path, monkeypatch):
    """A copied kernel build tree builds in its original directory and reports no error. The lab
    must then report that there is no module, each time."""
    tree = tmp_path / "copy"
    (tree / "include/generated").mkdir(parents=True)
    (tree / "include/generated/utsrelease.h").write_text(
        '#define UTS_RELEASE "0.0-copy"\n', encoding="ascii")
    (tree / "Module.symvers").touch()
    (tree / "Makefile").write_text(
        f"export KBUILD_OUTPUT = {tmp_path}/original\nmodules:\n\t@:\n",
        encoding="ascii")
    monkeypatch.setenv("MODDIR", str(tmp_path / "modules"))
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")
    stamp = modules.TOP / "build/.lab/copy"
    for _ in range(2):      # the second pass finds the results of the first
        with pytest.raises(cache.LabError, match="no module to load.*/original"):
            modules.build(kernels.Kernel("copy", tree, "um"))
    stamp.unlink()
    stamp.with_suffix(".log").unlink()


PATCH = """\
--- a/arch/um/kernel/tlb.c
+++ b/arch/um/kernel/tlb.c
@@ -1 +1 @@
-as it was
+patched
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A kernel source of two files; the lab has a patch for one of them."""
    tree, lab = tmp_path / "src/linux", tmp_path / "lab"
    (tree / "arch/um/kernel").mkdir(parents=True)
    (tree / "arch/um/kernel/tlb.c").write_text("as it was\n", encoding="ascii")
    (tree / "Makefile").write_text("all:\n", encoding="ascii")
    (lab / "kernel").mkdir(parents=True)
    (lab / "kernel/smp.patch").write_text(PATCH, encoding="ascii")
    monkeypatch.setattr(kernels, "CACHE", tmp_path)
    monkeypatch.setattr(cache, "CACHE", tmp_path)
    monkeypatch.setattr(kernels, "LAB", lab)
    return tree


def test_source_is_patched_in_a_copy(source):
    """The patch goes into a copy, one for each patch, and the source stays as it is."""
    copy = kernels._patched(source, PATCH)
    assert (copy / "arch/um/kernel/tlb.c").read_text() == "patched\n"
    assert (source / "arch/um/kernel/tlb.c").read_text() == "as it was\n"
    assert os.path.samefile(copy / "Makefile", source / "Makefile")
    assert kernels._patched(source, PATCH) == copy
    assert kernels._patched(source, PATCH.replace("+patched", "+anew")) != copy


def test_patch_applies_to_matching_smp_sources_only(source):
    """The patch applies only to kernels for two processors, and only to a source that it fits. A
    source that is fixed already is used as it is."""
    smp = kernels.FRAGMENTS["uml-smp-fast"]
    assert kernels._patch(source, smp) == PATCH
    assert not kernels._patch(source, kernels.FRAGMENTS["uml"])
    assert (source / "arch/um/kernel/tlb.c").read_text() == "as it was\n"
    (source / "arch/um/kernel/tlb.c").write_text("mended\n", encoding="ascii")
    assert not kernels._patch(source, smp)
    assert (source / "arch/um/kernel/tlb.c").read_text() == "mended\n"


def test_two_processors_and_a_virtual_clock_are_refused(capsys):
    from lab import main
    assert main.main(["--kernel", "uml-smp", "--clock", "virtual", "--",
                      "true"]) == guest.LAB_FAILED
    assert "no virtual clock" in capsys.readouterr().err


def test_main_keeps_signal_handlers(capsys):
    """main() leaves the caller's handlers of signals in place: pytest, which calls it here, must
    still end when CI sends it a signal."""
    from lab import main
    every = signal.valid_signals()
    before = {number: signal.getsignal(number) for number in every}
    assert main.main(["--list"]) == 0
    assert "uml-smp" in capsys.readouterr().out
    assert {number: signal.getsignal(number) for number in every} == before


def test_sigterm_lets_the_program_clean_up():
    """The program exits normally after it has cleaned up; it does not die by the signal."""
    term = 1 << signal.SIGTERM - 1
    with subprocess.Popen([RUN, "--shell"], stdin=subprocess.PIPE) as lab:
        try:
            status, limit = Path(f"/proc/{lab.pid}/status"), time.monotonic() + 120
            while not int(status.read_text().split("SigCgt:")[1].split()[0], 16) & term:
                assert time.monotonic() < limit, "it does not catch the signal"
                time.sleep(.01)
            lab.terminate()
            assert lab.wait(120) == 143
        finally:
            lab.kill()


def test_further_signals_do_not_interrupt_clean_up(tmp_path):
    """The program gets a signal for each thread of its caller that ends while others live. It must
    ignore those after the first."""
    done = subprocess.run([sys.executable, "-c", f"""
import os, pathlib, runpy, signal, sys
import lab.main
def main():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        pathlib.Path({str(tmp_path / "cleared")!r}).touch()
lab.main.main = main
runpy.run_module("lab", run_name="__main__")
"""], check=False, env=ENV)
    assert done.returncode == 143 and (tmp_path / "cleared").exists()


def test_runner_without_its_caller_ends():
    """A runner ends at once if the process that started it no longer exists: it would run for
    nothing, with no process to end it."""
    done = subprocess.run([RUN, "--caller", str(2 ** 22), "--list"], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 143 and not done.stdout


RUNNER = """#!/usr/bin/env python3
import pathlib, signal, sys, time
from lab import guest
here = pathlib.Path(__file__).parent
def end(number, _):
    # As long as it takes to end a guest of many GiB.
    time.sleep(1)
    (here / "ended").write_text(signal.Signals(number).name)
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
guest.end_with(int(sys.argv[sys.argv.index("--caller") + 1]))
(here / "begun").touch()
time.sleep(600)
"""
CALLER = "import lab, pathlib; lab.RUNNER = pathlib.Path({!r}); lab.run('x')"


@pytest.mark.parametrize("how, sent, group", [
    ("interrupted", signal.SIGINT, True), ("told to end", signal.SIGTERM, False),
    ("killed", signal.SIGKILL, False), ("interrupted alone", signal.SIGINT, False)])
def test_guest_cleans_up_when_its_caller_ends(tmp_path, how, sent, group):
    """When the caller of lab.run() ends, in whichever way, the guest's runner gets one signal and
    time to clean up. Otherwise the guest would run for another half hour, or would be killed while
    it removes its files."""
    runner = tmp_path / "run"
    runner.write_text(RUNNER, encoding="ascii")
    runner.chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", "import signal\n"
                           "signal.signal(signal.SIGINT, signal.default_int_handler)\n" +
                           CALLER.format(str(runner))], env=ENV, start_new_session=True,
                          stderr=subprocess.DEVNULL) as caller:
        def comes(name):
            limit = time.monotonic() + 120
            while not (tmp_path / name).exists():
                assert time.monotonic() < limit, f"{how}: never {name}"
                time.sleep(.01)
            return tmp_path / name
        try:
            comes("begun")
            (os.killpg if group else os.kill)(caller.pid, sent)
            assert caller.wait(120) != 0
            ended = comes("ended")
            while not ended.read_text():
                time.sleep(.01)
            assert ended.read_text() == ("SIGINT" if group else "SIGTERM")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(caller.pid, signal.SIGKILL)


# Stands for pytest or make. One of its children ends with it in order, the other one does not.
AT_WORK = """#!{}
import pathlib, subprocess, sys, time
here = pathlib.Path({!r})
ordered = '''
import ctypes, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[1])
def end(*_):
    # Told twice, it would be ended in the middle of it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(.3)
    (here / "ended").touch()
    sys.exit()
signal.signal(signal.SIGTERM, end)
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
(here / "ready").touch()
time.sleep(600)
'''
both = [subprocess.Popen([sys.executable, "-c", ordered, str(here)]),
        subprocess.Popen(["sleep", "600"])]
while not (here / "ready").exists():
    time.sleep(.01)
(here / "pids.new").write_text(" ".join(str(p.pid) for p in both))
(here / "pids.new").rename(here / "pids")
time.sleep(600)
"""
TESTS_RUN = """
import sys
import runner as run
run.packages.setup = lambda: None
run.packages.VENV = run.Path({here!r})
run.lab.END_S = 3
sys.argv = ["run", "--suite", "unit"]
run.obey_signals()
sys.exit(run.main())
"""


@pytest.mark.parametrize("at_work", ["pytest", "make"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_processes_of_the_test_runner_end_with_it(tmp_path, at_work, number):
    """If the test runner gets a signal, all processes that it has begun have ended when it ends,
    or, after ^C, soon after it. Guests once ran for a quarter of an hour longer."""
    for name, path in ("make", tmp_path / "path/make"), ("pytest", tmp_path / "bin/python3"):
        path.parent.mkdir()
        path.write_text(AT_WORK.format(sys.executable, str(tmp_path)) if name == at_work else
                        "#!/bin/sh\n", encoding="ascii")
        path.chmod(0o755)
    code = TESTS_RUN.format(here=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**ENV, "PATH": f"{tmp_path}/path:{os.environ['PATH']}"}) as run:
        try:
            limit = time.monotonic() + 120
            while not (tmp_path / "pids").exists():
                assert time.monotonic() < limit and run.poll() is None
                time.sleep(.01)
            pids = (tmp_path / "pids").read_text(encoding="ascii").split()
            # The terminal sends ^C to all processes of the group.
            (os.killpg if number == signal.SIGINT else os.kill)(run.pid, number)
            assert run.wait(120) == (-number if number == signal.SIGINT else 128 + number)
            left = [Path(f"/proc/{pid}/exe") for pid in pids]
            # After ^C, run does not wait for processes that got the signal from the terminal.
            while number == signal.SIGINT and any(p.exists() for p in left):
                assert time.monotonic() < limit
                time.sleep(.01)
            assert not any(p.exists() for p in left)
            assert number == signal.SIGINT or (tmp_path / "ended").exists()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)


def with_memory(home):
    it = object.__new__(guest.Guest)
    it.home = home
    return it.in_huge_pages(["sh", "-c", 'grep " $TMPDIR " /proc/mounts'])


def test_huge_page_memory_is_private_to_the_guest(tmp_path):
    """The tmpfs with huge pages for a guest's memory is mounted in a mount namespace of the guest,
    and the host does not see it."""
    command = with_memory(tmp_path)
    if command[0] != "unshare":
        pytest.skip("one may not mount here")
    mounted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "huge=always" in mounted
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_memory_without_permission_to_mount(tmp_path, monkeypatch, capsys):
    (tmp_path / "unshare").write_text("#!/bin/sh\necho not permitted >&2; exit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert with_memory(tmp_path)[0] == "sh"
    assert "no huge pages for the guest's memory: not permitted" in capsys.readouterr().err


def test_memory_without_unshare(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert with_memory(tmp_path)[0] == "sh"
    assert "no huge pages for the guest's memory: unshare: No such" in capsys.readouterr().err


def test_failure_report_has_console_lines_and_blocked_tasks():
    """The report of a failed guest has the last 12 lines before the list of blocked tasks, and
    that whole list."""
    lines = [f"line {i}" for i in range(30)]
    assert guest.last_words(lines) == lines[-12:]
    tasks = ["[ 1.0] sysrq: Show Blocked State", *("a task" for _ in range(40))]
    assert guest.last_words(lines + tasks) == lines[-12:] + tasks
    assert guest.last_words(lines[:3] + tasks) == lines[:3] + tasks


def test_venv_depends_on_its_package_list(tmp_path):
    """The name of a venv depends on its list of packages. Otherwise a checkout with another list
    would replace the venv in which a program of this one runs."""
    def place(name, more=""):
        for folder in ("scripts/src/lab", "scripts/lab"):
            shutil.copytree(TOP / folder, tmp_path / name / folder)
        path = tmp_path / name / "scripts/lab/python.txt"
        path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-B", "-c", "from lab import packages; print(packages.VENV)"],
            cwd=tmp_path / name / "scripts/src", text=True, check=True, capture_output=True,
            env=dict(os.environ, SHINGLE_CACHE=str(tmp_path / "cache"))).stdout
    assert place("one") == place("same") != place("other", "more==1\n")


def test_each_package_of_the_venv_is_pinned():
    """The list pins every package with its hash, dependencies too; otherwise pip would accept none
    of them."""
    def names(text):
        return [re.match(r"[\w-]+", line)[0] for line in text.splitlines()
                if line and line[0] not in " #"]
    project = tomllib.loads((TOP / "scripts/pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    text = (LAB / "python.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w-]+)==[\w.]+ \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+",
                        text, re.M)
    assert pinned == names(text) and set(wanted) < set(pinned)
    # The list has no path or index of a particular machine.
    assert not re.search(r"--find-links|--index|/", text)


def test_programs_continue_in_the_newest_venv(tmp_path, monkeypatch):
    """A program that lacks a library continues in the newest of several venvs. Older ones have no
    suffix in their names."""
    monkeypatch.setenv("SHINGLE_CACHE", str(tmp_path))
    for age, name in enumerate(("venv-1", "venv", "venv-2")):
        python = tmp_path / name / "bin/python"
        python.parent.mkdir(parents=True)
        python.touch(mode=0o755)
        os.utime(python, (10 ** 9 - age, 10 ** 9 - age))
    found = [p for p in libraries.other_pythons() if p.startswith(str(tmp_path))]
    assert found == [str(tmp_path / name / "bin/python") for name in ("venv-1", "venv", "venv-2")]


@pytest.mark.parametrize("line, report", [
    ("[    9.1] EXT4-fs warning: 12 callbacks suppressed", False),
    ("[    9.1] WARNING: CPU: 0 PID: 1 at core/io/bio.c:12", True),
    ("[    9.1] INFO: task kworker/0:1 blocked for more than 120 seconds.", True),
])
def test_suppressed_messages_are_no_report(line, report):
    """The watcher of a guest's console ignores the line about suppressed messages, although it
    contains "warning"."""
    watcher = watch.Watcher()
    watcher.feed(line)
    assert (watcher.first is not None) == report
