# SPDX-License-Identifier: GPL-2.0
"""The Python of scripts/ and tests/: ruff and mypy accept it, packages find each other without
edits of the search path, and each entry point runs from any directory."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from experiments.__main__ import NAMES, file_of

TOP = Path(__file__).resolve().parents[2]
CONFIG = TOP / "scripts/pyproject.toml"
ENTRIES = ("scripts/bench/run", "scripts/experiments", "scripts/lab/debian", "scripts/lab/run",
           "scripts/loads/run", "scripts/skylight", "tests/run")


def test_ruff():
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", "--quiet",
                           "--config", CONFIG, "scripts", "tests", "userspace/kv-python"],
                          cwd=TOP, check=False, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy():
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", TOP / "build/mypy"],
                          cwd=TOP / "scripts", check=False, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_program_edits_its_search_path():
    edit = re.compile(r"^\s*sys\.path(?:\[.*\])?\s*(?:\+?=|\.(?:insert|append|extend))", re.M)
    found = [str(path.relative_to(TOP)) for folder in ("scripts", "tests", "userspace")
             for path in (TOP / folder).rglob("*") if path.is_file() and
             path.suffix in ("", ".py") and
             edit.search(path.read_text(encoding="utf-8", errors="replace"))]
    assert not found


@pytest.mark.parametrize("path", ENTRIES)
def test_entry_point_runs_from_any_directory(path, tmp_path):
    """Each entry point works from any directory and through a link, and imports no module from the
    current directory."""
    (tmp_path / "argparse.py").write_text("raise SystemExit('imported from this directory')")
    (tmp_path / "link").symlink_to(TOP / path)
    for program in (TOP / path, tmp_path / "link"):
        done = subprocess.run([program, "--help"], cwd=tmp_path, check=False, text=True,
                              capture_output=True)
        assert done.returncode == 0 and done.stdout and not done.stderr, done.stderr


@pytest.mark.parametrize("package", ["common.libraries", "experiments.__main__", "lab.main",
                                     "loads.__main__", "skylight.__main__"])
def test_entry_points_start_without_libraries(package):
    """Modules of entry points import nothing outside the standard library: they must run first to
    find a Python that has the libraries, or to install them."""
    subprocess.run([sys.executable, "-BS", "-c", f"import {package}"],
                   env={"PYTHONPATH": f"{TOP / 'scripts/src'}:{TOP / 'tests'}"}, check=True)


def test_experiments_are_listed():
    done = subprocess.run([TOP / "scripts/experiments"], check=True, text=True,
                          capture_output=True)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == sorted(NAMES)
    done = subprocess.run([TOP / "scripts/experiments", "nothing"], check=False, text=True,
                          capture_output=True)
    assert done.returncode == 2 and "'nothing' is none of" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_has_help_and_json(name):
    done = subprocess.run([TOP / "scripts/experiments", name, "--help"], check=True, text=True,
                          capture_output=True)
    assert done.stdout.startswith(f"usage: scripts/experiments {name} ")
    assert "--json FILE" in done.stdout
    # It writes that file, which its parser only checks.
    source = (TOP / "scripts/src/experiments" / file_of(name)).read_text(encoding="utf-8")
    assert re.search(r"runner\.keep\(|stacks\.measured\(|store\(options\.json", source)
