# SPDX-License-Identifier: GPL-2.0
"""Read tracepoints from a ring buffer of its own."""

import os
import re
from dataclasses import dataclass

from guest.bench import Skip, expect, run

TRACING = "/sys/kernel/tracing"
LINE = re.compile(r" (\d+\.\d+): (\w+): (\S+)((?: \w+=\S+)*)$")
WRITTEN = re.compile(r"entries-in-buffer/entries-written: (\d+)/(\d+)")


@dataclass(frozen=True)
class Event:
    at: float       # seconds of the monotonic clock
    name: str
    dev: str        # MAJOR:MINOR
    fields: dict    # as printed

    def __getitem__(self, key):
        """Return a field, as a number if it is one."""
        text = self.fields[key]
        return int(text) if re.fullmatch(r"-?\d+", text) else text


def tell(path, text):
    with open(path, "w", encoding="ascii") as handle:
        handle.write(text)


def mounted():
    if not os.path.exists(f"{TRACING}/events"):
        run("mount", "-t", "tracefs", "tracefs", TRACING, ok=None)
    if not os.path.exists(f"{TRACING}/events"):
        raise Skip("no tracepoints in this kernel")


class Ring:
    """Record these events inside a with block; stop() returns them, oldest first."""

    def __init__(self, *names, kib=8192):
        self.names, self.kib = names, kib
        self.path = f"{TRACING}/instances/test-{os.getpid()}"

    def __enter__(self):
        mounted()
        os.mkdir(self.path)
        tell(f"{self.path}/trace_clock", "mono")
        tell(f"{self.path}/buffer_size_kb", str(self.kib))
        for name in self.names:
            tell(f"{self.path}/events/{name}/enable", "1")
        return self

    def stop(self):
        tell(f"{self.path}/tracing_on", "0")
        with open(f"{self.path}/trace", encoding="ascii") as handle:
            text = handle.read()
        kept, written = map(int, WRITTEN.search(text).groups())
        expect(kept == written, f"{written - kept} events were lost")
        found = [LINE.search(line) for line in text.splitlines() if not line.startswith("#")]
        expect(all(found), "a line that is no event of ours")
        return [Event(float(m[1]), m[2], m[3],
                      dict(word.split("=", 1) for word in m[4].split())) for m in found]

    def __exit__(self, *exc):
        os.rmdir(self.path)
