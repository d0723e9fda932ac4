# SPDX-License-Identifier: GPL-2.0
"""Experiments that consist of one program in one guest, which prints the result itself."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from lab.cache import TOP

from experiments import runner


@dataclass(frozen=True)
class Simple:
    """An experiment: its description, its part in the guest, and its options, {name: (default,
    help)}.  @words, @memory and @timeout follow from the options."""
    text: str
    part: str
    options: dict[str, tuple[int, str]]
    words: Callable
    memory: Callable = lambda o: "2G"
    timeout: Callable = lambda o: 3600


SIMPLE = {
    "checkpoint": Simple(
        "The size of a checkpoint of a 4 TB device and the time that the drive takes for it, under\n"
        "the virtual clock, after writes to 1, 10 and 100 % of the cache, in order and at random\n"
        "over the device.", "checkpoint", {}, lambda o: (), lambda o: "4G", lambda o: 7200),
    "idle": Simple(
        "Cleaning while the host is idle, on the mechanics of a 5 TB drive, under the virtual\n"
        "clock, bands of 40 MiB (stl-set) and 20 MiB (stl-full): how long one dirty band takes, and the\n"
        "delay that occasional reads of the host see while more bands are cleaned.", "idle",
        {"rounds": (20, "of reads during cleaning"), "seed": (1, "of the places")},
        lambda o: (o.rounds, o.seed), lambda o: "3G", lambda o: 1800),
    "ledgers": Simple(
        "The statistics of a layer beside those of the medium, under the virtual clock: a shingled\n"
        "disk with the mechanics of a 5 TB one, filled in order, overwritten at random until three\n"
        "times the cache is written, then cleaned; over stl-set and stl-full, with metadata on\n"
        "another device and among the data.", "ledgers", {"mib": (2048, "size of the disk")},
        lambda o: (o.mib,), lambda o: f"{o.mib * 5 // 4 + 1024}M"),
    "readahead": Simple(
        "The effect of the kernel's read-ahead on the 5 TB drive, under the virtual clock: readers\n"
        "of stl-set through the page cache with read_ahead_kb from 0 to twice a band.  The figures\n"
        "are the reason for the target's default.", "readahead", {}, lambda o: ()),
    "soak": Simple(
        "A day of a shingled drive's own time, under the virtual clock: fio writes, trims and\n"
        "verifies over stl-set on a platter with a head that destroys what it covers.  The run\n"
        "fails if a destroyed block is read.", "soak.sh",
        {"hours": (24, "of the drive's own time"), "seed": (0, "of fio's loads")},
        lambda o: (o.hours * 3600, o.seed), timeout=lambda o: o.hours * 300 + 300),
    "torn": Simple(
        "Power cuts in the middle of sequential writes over a shingled medium, at random blocks:\n"
        "the losses of a band rewritten in place and of a stream over old content without a copy;\n"
        "a band rewritten through staging, or moved, loses nothing.  Skylight's Figure 2.23 comes\n"
        "first.", "torn", {"cuts": (50, "of the power"), "seed": (1, "of their places")},
        lambda o: (o.cuts, o.seed), lambda o: "3G", lambda o: 1800),
    "traces": Simple(
        "The examples of tracepoints, recipes, blktrace and btt in tracing.rst and the tutorial: a\n"
        "shingled disk of 512 MiB with the mechanics of a 5 TB one, under the virtual clock; each\n"
        "command, and its output.", "traces.sh", {}, lambda o: (), timeout=lambda o: 600),
}


def main(name: str) -> int:
    of = SIMPLE[name]
    p = runner.Parser(name, of.text)
    for option, (default, text) in of.options.items():
        p.add_argument(f"--{option}", type=int, default=default, metavar="N",
                       help=f"{text} (%(default)s)")
    options = p.parse_args()
    p.at_least(options, **{option: option != "seed" for option in of.options})
    runner.prepare(name)
    lines = []
    command = runner.in_guest(of.part, *of.words(options), memory=of.memory(options),
                              timeout=of.timeout(options))
    with subprocess.Popen(command, cwd=TOP, text=True, stdout=subprocess.PIPE) as guest:
        for line in guest.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line.rstrip("\n"))
    runner.keep(options, {"status": guest.returncode, "output": lines})
    return guest.returncode
