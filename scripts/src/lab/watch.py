# SPDX-License-Identifier: GPL-2.0
"""Watch a kernel's log for reports that mean failure."""

import re

REPORT = re.compile("|".join((
    r"Kernel panic", r"\bBUG: ", r"\bBUG:$", r"kernel BUG at", r"\bOops\b",
    r"WARNING: ", r"general protection fault", r"KASAN: ", r"UBSAN: ",
    r"\bKCSAN: ", r"INFO: possible ", r"INFO: suspicious ", r"INFO: trying ",
    r"INFO: task .* blocked for more than", r"INFO: inconsistent ",
    r"detected stalls?\b", r"soft lockup", r"list_(add|del) corruption",
    r"ODEBUG: ", r"Unable to handle kernel",
    r"refcount_t: ", r"Kernel tried to access", r"Segfault with no mm",
    r"DEBUG_LOCKS_WARN_ON", r"Bad page state", r"out of memory: Kill",
)), re.I)
# Lines that look like a report but are harmless.
HARMLESS = re.compile(r"WARNING: Unprivileged|WARNING: Spectre|lab: "
                      # a rate limit; its name may end in "warning"
                      r"|: \d+ callbacks suppressed"
                      # a message of an initrd
                      r"|^Warning: fsck not present")
# An expected report lasts until its end mark, or for REPORT_LENGTH lines.
REPORT_LENGTH = 80


class Watcher:
    """Receives log lines; remembers the first report and its place."""

    def __init__(self, expected=()):
        self.lines = []
        self.first = None
        self.expected = [re.compile(e) for e in expected]
        self.expected_left = 0

    def feed(self, line):
        self.lines.append(line)
        if any(e.search(line) for e in self.expected):
            self.expected_left = REPORT_LENGTH
        elif "---[ end trace" in line:
            self.expected_left = 0
        self.expected_left = max(0, self.expected_left - 1)
        if self.first is None and not self.expected_left \
                and REPORT.search(line) and not HARMLESS.search(line):
            self.first = len(self.lines) - 1

    def excerpt(self, after=45):
        """Return the report with a few lines before it."""
        if self.first is None:
            return ""
        return "\n".join(self.lines[max(0, self.first - 3):
                                    self.first + after])


def leaks(text, modules):
    """Return kmemleak's reports with a frame in one of our modules."""
    ours = re.compile(r"\[(" + "|".join(map(re.escape, modules)) + r")\]"
                      if modules else r"(?!)")
    # An unloaded module leaves bare addresses in the backtrace.
    gone = re.compile(r"^\s+(\[<[0-9a-f]+>\] )?0x[0-9a-f]+$", re.M)
    return [r for r in re.split(r"(?m)^(?=unreferenced object)", text)
            if r.startswith("unreferenced") and
            (ours.search(r) or gone.search(r))]
