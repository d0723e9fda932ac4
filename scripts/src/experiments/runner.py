# SPDX-License-Identifier: GPL-2.0
"""Parts that all experiments share: options, preparation, guests, and results as JSON."""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import lab
from common.output import check, store
from lab import packages
from lab.cache import TOP, LabError

from experiments.tables import Table

U64_MAX = 2 ** 64 - 1
# Options that several experiments have, with the least value of those that are numbers.
OPTIONS: dict[str, tuple[dict[str, Any], int | None]] = {
    "json": ({"type": Path, "metavar": "FILE", "help": "all results"}, None),
    "resume": ({"action": "store_true", "help":
                "do not repeat what an earlier run of the same sources has measured"}, None),
    "seed": ({"type": int, "default": 1, "help": "(%(default)s)"}, 0),
    "seeds": ({"default": "1", "metavar": "N,...", "help":
               "tables show means and ranges over the seeds (%(default)s)"}, None),
    "jobs": ({"type": int, "default": 1, "help": "runs at a time (%(default)s)"}, 1),
    "timeout": ({"type": int, "default": 3600, "help": "seconds for a guest (%(default)s)"}, 1),
    "requests": ({"type": int, "metavar": "N", "help": "only the first N requests of each load"},
                 1),
    "kernel": ({"default": "uml", "choices": ("uml", "stock", "backports"),
                "help": "uml (default) is exact; QEMU counts instructions"}, None),
}


def name_list(text: str, known: Iterable[str], what: str) -> list[str]:
    """Return the names in the order of @text, without duplicates, which would count one measurement
    twice.  Each must be in @known, else ValueError."""
    out = list(dict.fromkeys(text.split(",")))
    for word in out:
        if word not in known:
            raise ValueError(f"{what} '{word}' is none of {', '.join(known)}")
    return out


def number_list(text: str, least: int, what: str) -> list[int]:
    """Return the numbers, without duplicates.  Each must be from @least to what 64 bits hold, else
    ValueError."""
    out = text.split(",")
    for word in out:
        if not re.fullmatch(r"[0-9]+", word) or int(word) < least:
            raise ValueError(f"{what} '{word}' is no number from {least} on")
        if int(word) > U64_MAX:
            raise ValueError(f"{what} '{word}' is more than {U64_MAX}")
    return list(dict.fromkeys(map(int, out)))


def refuse(name: str, why: str) -> NoReturn:
    """End with one sentence, because an option of experiment @name cannot be what it is."""
    print(f"{name}: {why}", file=sys.stderr)
    raise SystemExit(2)


class Parser(argparse.ArgumentParser):
    """The parser of experiment @name.  @shared names those of OPTIONS that it has besides --json;
    @defaults are its own default values for them."""

    def __init__(self, name: str, text: str | None, *shared: str, **defaults: object):
        super().__init__(prog=f"scripts/experiments {name}", description=text,
                         formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
        self.name, self.shared = name, (*shared, "json")
        for option in self.shared:
            words = OPTIONS[option][0]
            self.add_argument(f"--{option}", **words)
        self.set_defaults(**defaults)

    def parse_args(self, *args: Any, **more: Any) -> argparse.Namespace:  # type: ignore[override]
        options = super().parse_args(*args, **more)
        options.experiment = self.name
        for name in self.shared:
            least = OPTIONS[name][1]
            if least is not None:
                self.at_least(options, **{name: least})
        if options.json:
            try:
                # Now, not after hours of measurements.
                check(options.json)
            except OSError as error:
                self.error(f"--json {options.json}: {error.strerror}")
        return options

    def error(self, message: str) -> NoReturn:
        refuse(self.name, message)

    def at_least(self, options: argparse.Namespace, **least: int) -> None:
        """Refuse values below @least, {name: value}, before a guest is started."""
        for name, low in least.items():
            value = getattr(options, name)
            if value is not None and value < low:
                self.error(f"--{name.replace('_', '-')} {value} is less than {low}")


def output(*command: str, top: Path = TOP) -> str | None:
    """Return the output of a program; None if it does not exist or fails."""
    try:
        done = subprocess.run(command, cwd=top, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def outputs(name: str) -> Path:
    """Return the directory for the output of an experiment."""
    return TOP / "build/out" / name


def prepare(name: str, *programs: str) -> None:
    """Install what guests need, create the directory for the output, and build these directories
    of userspace/, or all of it."""
    try:
        packages.setup()
        outputs(name).mkdir(parents=True, exist_ok=True)
    except LabError as error:
        raise SystemExit(f"{name}: {error}") from error
    except OSError as error:
        raise SystemExit(f"{name}: results go to {outputs(name)}: {error.strerror}") from error
    subprocess.run(["make", "-s", "-C", TOP / "userspace", *programs], check=True,
                   stdout=subprocess.DEVNULL)


def in_guest(part: str, *words: object, kernel: str = "uml", clock: str = "virtual",
             memory: str = "2G", timeout: int = 3600, rw: Path | None = None,
             more: Iterable[object] = ()) -> list[str]:
    """Return the command that runs @part of the package in_guest in a guest: see lab.runner()."""
    where = TOP / "scripts/src/experiments/in_guest"
    program: list[object] = ["sh", (where / part).relative_to(TOP)] if part.endswith(".sh") else \
        ["python3", "-m", f"experiments.in_guest.{part}"]
    return lab.runner("--kernel", kernel, "--clock", clock, "--memory", memory, "--timeout",
                      timeout, *(["--rw", rw] if rw else []), *more, "--", *program, *words)


def keep(options: argparse.Namespace, results: object) -> None:
    """Write the results to --json: {"experiment", "measured", "commit", "options", "results",
    "tables"}."""
    options.results = results
    _write(options)


def show(options: argparse.Namespace, *tables: Table) -> None:
    """Print tables, and add them to --json."""
    for table in tables:
        print(f"\n{table.text()}", end="")
    options.tables = [*getattr(options, "tables", ()), *(table.data() for table in tables)]
    _write(options)


def _write(options: argparse.Namespace) -> None:
    if options.json:
        own = ("experiment", "json", "results", "tables")
        given = {k: v for k, v in vars(options).items() if k not in own}
        store(options.json, json.dumps({
            "experiment": options.experiment, "measured": date.today().isoformat(),
            "commit": output("git", "describe", "--always", "--dirty", "--abbrev=12"),
            "options": given,
            "results": getattr(options, "results", None),
            "tables": getattr(options, "tables", [])}, indent=1, default=str) + "\n")


def show_relations(relations: Iterable[tuple[str, bool]]) -> None:
    """Print each sentence of a paper, and whether it holds here."""
    for sentence, holds in relations:
        print(f"  {'yes' if holds else 'no':5}{sentence}")


def show_picture(path: Path) -> None:
    """Print the name of a picture."""
    print(f"\n{path.relative_to(TOP)}")


def status(wrong: list[str], right: str) -> int:
    """Print what was wrong, or the sentence @right; return the exit status."""
    print("\n" + ("\n".join(wrong) if wrong else right))
    return 1 if wrong else 0
