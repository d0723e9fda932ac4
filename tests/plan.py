# SPDX-License-Identifier: GPL-2.0
"""What is run where.  A row is one guest; a target joins a suite by a row."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    suite: str
    target: str
    kernel: str = "uml"
    options: tuple = ()     # ((key, value),) for the suite
    clock: str = "real"
    memory: str = "2G"
    timeout: int = 600
    quick: bool = True      # in tests/run --quick
    expect_report: tuple = ()

    @property
    def id(self):
        return f"{self.suite} {self.target} {self.kernel}"


PLAN = [
    # The tools themselves, over dm-linear.
    Row("exact", "linear"),
    Row("replay", "linear", options=(("rounds", 1),)),
    Row("fio_verify", "linear", quick=False),
    Row("filesystems", "linear", quick=False),
]
