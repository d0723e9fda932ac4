# SPDX-License-Identifier: GPL-2.0
"""The cache directory, its locks, progress messages, and errors."""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
LAB = TOP / "scripts/lab"
CACHE = Path(os.environ.get("SHINGLE_CACHE") or
             Path(os.environ.get("XDG_CACHE_HOME") or
                  Path.home() / ".cache") / "dm-shingle").absolute()


class LabError(Exception):
    """An error for the user, as a sentence: what is wrong, and what to do next."""


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Exclude other processes; a process that has to wait prints a message."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that works on '{name}'")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def write(path: str | Path, text: str) -> None:
    """Write a file atomically, as stamps need."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def step(what: str, command: Sequence[object], log: str | Path, cwd: Path | None = None,
         env: dict[str, str] | None = None, usual: str | None = None) -> None:
    """Run a long command with its output in a log; show the time on a terminal."""
    log = Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    tty = sys.stderr.isatty()
    begin = time.monotonic()
    say(f"{what} ..." + (f" (usually {usual})" if usual else ""))
    with open(log, "w", encoding="utf-8") as out:
        out.write(" ".join(map(str, command)) + "\n")
        out.flush()
        with subprocess.Popen([str(c) for c in command], cwd=cwd, env=env,
                              stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT) as process:
            while True:
                try:
                    rc = process.wait(1)
                    break
                except subprocess.TimeoutExpired:
                    if tty:
                        print(f"\rlab: {what}: "
                              f"{time.monotonic() - begin:.0f} s ",
                              end="", file=sys.stderr, flush=True)
                except BaseException:
                    process.terminate()
                    raise
    if tty:
        print("\r\033[K", end="", file=sys.stderr)
    if rc:
        tail = "\n".join(read(log).splitlines()[-25:])
        raise LabError(f"{what} failed with status {rc}; the end of {log}:\n"
                       f"{tail}")
    say(f"{what}: {time.monotonic() - begin:.1f} s")
