# SPDX-License-Identifier: GPL-2.0
"""For tests: run a command in a lab guest and return its output.

    from lab import run
    result = run("dmsetup targets", kernel="uml", disks=["1G"])
    assert result.ok, result
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RUNNER = Path(__file__).resolve().parents[2] / "lab/run"

TIMED_OUT, LAB_FAILED, REPORTED, CUT = 124, 125, 126, 137


@dataclass
class Result:
    """The result of a run; rc is the command's status or one of the runner's own, see above."""
    rc: int
    out: str
    err: str
    log: str    # of the kernel

    @property
    def ok(self) -> bool:
        return self.rc == 0

    def __str__(self) -> str:
        parts = [f"status {self.rc}"]
        for name in ("out", "err"):
            text = getattr(self, name).strip()
            if text:
                parts.append(f"--- {name}\n" + text[-6000:])
        if not self.ok:
            parts.append("--- kernel log\n" + self.log.strip()[-3000:])
        return "\n".join(parts)

    def check(self) -> "Result":
        """Return self, or raise an AssertionError that shows everything."""
        if not self.ok:
            raise AssertionError(str(self))
        return self


Words = Iterable[object]
END_S = 10              # seconds that the end of a large guest takes at most


def _waited_for(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the runner and return its result.  However the caller ends, the runner ends in order with
    it, and removes the guest and its files."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace") as runner:
        try:
            out, err = runner.communicate()
        except BaseException:
            # After ^C the runner has already begun to end.
            for more in (lambda: None, runner.terminate, runner.kill):
                more()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    runner.wait(END_S)
                    break
            raise
    return subprocess.CompletedProcess(argv, runner.returncode, out, err)


def runner(*words: object) -> list[str]:
    """Return a command line of the runner for a caller that waits for it and may be killed
    meanwhile: see _waited_for()."""
    return [str(RUNNER), "--quiet", "--caller", str(os.getpid()),
            *map(str, words)]


def run(command: str | list[str], *, kernel: str = "uml", clock: str = "real",
        memory: str | None = None, cpus: int | None = None, disks: Words = (),
        disk_files: Words = (), timeout: float = 300, rw: Words = (),
        env: dict[str, object] | None = None, modules: bool = True, load: bool = True,
        leak_scan: bool = True, expect_report: Words = (), cut_after: float | None = None,
        cut_on: str | None = None, huge_pages: bool = False) -> Result:
    """Run @command, a shell script (str) or an argument list, in a guest."""
    argv = runner("--kernel", kernel, "--clock", clock, "--timeout", timeout)
    single = {"--memory": memory, "--cpus": cpus, "--cut-after": cut_after,
              "--cut-on": cut_on}
    for name, value in single.items():
        if value is not None:
            argv += [name, str(value)]
    several = {"--disk": disks, "--disk-file": disk_files, "--rw": rw,
               "--expect-report": expect_report,
               "--env": [f"{k}={v}" for k, v in (env or {}).items()]}
    for name, values in several.items():
        for each in values:
            argv += [name, str(each)]
    argv += ["--no-modules"] * (not modules) + ["--no-load"] * (not load)
    argv += ["--no-leak-scan"] * (not leak_scan) + ["--huge-pages"] * huge_pages
    if isinstance(command, str):
        command = ["/bin/sh", "-c", command]
    handle, log = tempfile.mkstemp(prefix="shingle-lab-log.")
    os.close(handle)
    try:
        done = _waited_for([*argv, "--log", log, "--", *command])
        text = Path(log).read_text(encoding="utf-8", errors="replace")
    finally:
        os.unlink(log)
    return Result(done.returncode, done.stdout, done.stderr, text)
