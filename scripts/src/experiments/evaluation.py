# SPDX-License-Identifier: GPL-2.0
"""Evaluation of measurements that experiments share; needs no guest."""

import statistics


def percentile(values, share, none=0.0):
    """Return the value at @share of the sorted values; @none if there are no values."""
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else none


def spread(values, form):
    """Return the mean and the range over the seeds."""
    if len(values) == 1:
        return format(values[0], form)
    return f"{statistics.mean(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def run_phases(phases, send):
    """Return {name: result} for phases [(name, words)].  @send() passes the words of each to
    kvbench, one run after another on one store; each run gets the number of records that earlier
    ones inserted."""
    out, there = {}, 0
    for name, words in phases:
        of = out[name] = send(["-p", f"insertstart={there}", *words])
        # A load creates the records that later phases use, and uses none itself.
        if of["records"] and "insert" in of["ops"]:
            there += of["ops"]["insert"]["service"]["count"]
    return out


def last_speed(of, share):
    """Return bytes/s over the last @share of a load of shingle-levels.  Its points lie where a
    memtable was full; between two points time is interpolated."""
    points = [{"inserted": 0, "seconds": 0.0}, *of["points"]]
    end = points[-1]
    records = share * end["inserted"]
    begin = end["inserted"] - records
    before, after = next((a, b) for a, b in zip(points, points[1:]) if b["inserted"] >= begin)
    part = (begin - before["inserted"]) / (after["inserted"] - before["inserted"])
    seconds = before["seconds"] + part * (after["seconds"] - before["seconds"])
    return records * of["record_bytes"] / (end["seconds"] - seconds)
