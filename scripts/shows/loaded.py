# SPDX-License-Identifier: GPL-2.0
"""What shows make of the answer of shingle-levels, wherever it was run."""


def last_speed(of, share):
    """Bytes/s of the last @share of the load."""
    end = of["points"][-1]
    begin = max((p for p in of["points"]
                 if p["inserted"] <= (1 - share) * end["inserted"]),
                key=lambda p: p["inserted"])
    return (end["inserted"] - begin["inserted"]) * of["record_bytes"] / \
        (end["seconds"] - begin["seconds"])
