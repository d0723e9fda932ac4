# SPDX-License-Identifier: GPL-2.0
"""Seek times of a drive, by DiskSim's dm_mech_g1."""

import math
import re

from experiments.platter.disksim_words import (
    MOST,
    Problem,
    above_zero,
    integer,
    number,
    numbers,
    word,
)

MAX_POINTS = 256          # of a table in platter-sim


def hpl(values):
    """Return seek times by the equation of the HP laboratories."""
    if len(values) != 6:
        raise Problem("'HPL seek equation values' are not six")
    knee, a, b, c, d, one = values

    def ms(distance):
        if distance == 1 and one != -1:
            return one
        return a + b * math.sqrt(distance) if distance < knee else c + d * distance
    return ms


def lee(model, cylinders):
    """Return seek times by Lee's equation through three given times."""
    one, mean, full = three_times(model)
    root = (15 * mean - 10 * one - 5 * full) / (3 * math.sqrt(cylinders))
    line = (7 * one - 15 * mean + 8 * full) / (3 * cylinders)
    if root < 0 or line < 0:
        raise Problem("no curve of Lee's goes through its three seek times")
    return lambda distance: one + root * math.sqrt(distance - 1) + line * (distance - 1)


def three_times(model):
    return [number(model, label) for label in (
        "Single cylinder seek time", "Average seek time", "Full strobe seek time")]


def sampled(first, last, ms):
    table, distance = [], first
    while distance < last:
        table.append((distance, ms(distance)))
        distance = max(distance + 1, int(distance * 1.06))
    return table + [(last, ms(last))]


def extracted(folder, name, last):
    """Return a measured table; the line through its last two points is extended to the last
    distance."""
    first, *lines = [line for line in folder.read(name).splitlines() if line.strip()] or [""]
    count = re.fullmatch(r"Seek distances measured:\s*(\d+)", first.strip())
    if not count:
        raise Problem(f"the first line of its seek table {name} is '{first.strip()}', and not "
                      "'Seek distances measured: ' and how many")
    table = []
    for line in lines:
        part = [x.strip() for x in line.split(",")]
        try:
            distance, ms = int(part[0]), float(part[1])
        except (ValueError, IndexError):
            distance, ms = 0, math.nan
        if not 0 <= ms <= MOST:
            raise Problem(f"in its seek table {name} '{line.strip()}' is no distance "
                          "and time")
        table.append((distance, ms))
    if len(table) != int(count[1]):
        raise Problem(f"its seek table {name} has {len(table)} distances, and its first line "
                      f"says {count[1]}: get it whole")
    if len(table) < 2:
        raise Problem(f"its seek table {name} has fewer than two distances")
    (d0, t0), (d1, t1) = table[-2], table[-1]
    if d0 < d1 < last:
        table.append((last, max(t1 + (last - d1) * (t1 - t0) / (d1 - d0), 0)))
    if len(table) > MAX_POINTS:
        raise Problem(f"its seek table {name} has more than {MAX_POINTS} distances")
    return table


def seek_file(model):
    """Return the name of the file with a model's seek times, if it uses one."""
    return word(model, "Full seek curve") if word(model, "Seek type") == "extracted" else None


def seek_table(folder, model, notes):
    """Return (distance, ms) in ascending order, for all seek types of DiskSim."""
    kind = word(model, "Seek type")
    cylinders = above_zero(integer(model, "Number of cylinders"), "Number of cylinders")
    last = max(cylinders - 1, 2)
    if kind == "extracted":
        name = seek_file(model)
        if name not in folder:
            raise Problem(f"its seek table {name} is not there")
        return extracted(folder, name, last)
    if kind in ("hpl", "hplplus10"):
        first = numbers(model, "First ten seek times") if kind == "hplplus10" else []
        if kind == "hplplus10" and len(first) != 10:
            raise Problem("'First ten seek times' are not ten")
        return [(i + 1, ms) for i, ms in enumerate(first)] + sampled(
            len(first) + 1, last, hpl(numbers(model, "HPL seek equation values")))
    if kind == "curve":
        return sampled(1, last, lee(model, cylinders))
    if kind == "constant":
        notes.append("the arm takes no time to where it is; DiskSim's 'constant' does")
        ms = number(model, "Constant seek time")
        return [(1, ms), (last, ms)]
    if kind == "linear":
        one, mean, full = three_times(model)
        notes.append("'linear' is two straight lines, as the manual has it")
        return [(1, one), (max(last // 3, 2), mean), (last + 1, full)]
    raise Problem(f"its seek type '{kind}' is not known")
