# SPDX-License-Identifier: GPL-2.0
"""What shows make of what was measured, in a guest or wherever it was."""

import statistics


def percentile(values, share, none=0.0):
    """The one behind @share of them, in order; @none of none."""
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else none


def cell(value, form):
    """- for None."""
    return "-" if value is None else format(value, form)


def spread(values, form):
    """The mean, and from where to where the seeds go."""
    if len(values) == 1:
        return format(values[0], form)
    return f"{statistics.mean(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def sat_out(phases, send):
    """{name: result} of [(name, words)], each of which @send() gives to kvbench: one run behind
    the other on one store, each of which knows what those before have inserted."""
    out, there = {}, 0
    for name, words in phases:
        of = out[name] = send(["-p", f"insertstart={there}", *words])
        # A load makes the records that others work on, and works on none.
        if of["records"] and "insert" in of["ops"]:
            there += of["ops"]["insert"]["service"]["count"]
    return out


def last_speed(of, share):
    """Bytes/s of the last @share of the load that shingle-levels has told of.  Its points lie
    where a memtable was full: between two of them time is taken to pass evenly."""
    points = [{"inserted": 0, "seconds": 0.0}, *of["points"]]
    end = points[-1]
    records = share * end["inserted"]
    begin = end["inserted"] - records
    before, after = next((a, b) for a, b in zip(points, points[1:]) if b["inserted"] >= begin)
    part = (begin - before["inserted"]) / (after["inserted"] - before["inserted"])
    seconds = before["seconds"] + part * (after["seconds"] - before["seconds"])
    return records * of["record_bytes"] / (end["seconds"] - seconds)
