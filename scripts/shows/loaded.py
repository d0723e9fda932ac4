# SPDX-License-Identifier: GPL-2.0
"""What shows make of what was measured, in a guest or wherever it was."""


def percentile(values, share, none=0.0):
    """The one behind @share of them, in order; @none of none."""
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else none


def last_speed(of, share):
    """Bytes/s of the last @share of the load that shingle-levels has told of."""
    end = of["points"][-1]
    begin = max((p for p in of["points"]
                 if p["inserted"] <= (1 - share) * end["inserted"]),
                key=lambda p: p["inserted"])
    return (end["inserted"] - begin["inserted"]) * of["record_bytes"] / \
        (end["seconds"] - begin["seconds"])
