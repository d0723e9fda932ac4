# SPDX-License-Identifier: GPL-2.0
"""Results of one load on one layer, as guests return them to the experiments that use stacks.py."""


def load_result(target, **parts):
    """Return a result of 200 requests in 4 s, half of that time rotation, with 4 cleanings.  @parts
    has for some parts, such as the layer's counters, the values that differ from these."""
    of = {
        "words": {"layer": {"target": target}}, "seconds": 4.0,
        "layer": {"host_write_blocks": 1000, "map_bytes": 4096, "clean_write_blocks": 500,
                  "journal_blocks": 3, "checkpoint_blocks": 2, "superblock_blocks": 1,
                  "r0_violations": 0},
        "all": {"requests": 200, "mean_ms": 20.0, "worst_ms": 1500.0, "p99_ms": 40.0},
        "reads": {"mean_ms": 10.0}, "writes": {"mean_ms": 22.0},
        "cleanings": {"number": 4, "seconds": 2.0, "longest": .9, "largest": 200,
                      "requests": 5, "seeks": 300},
        "medium": {"rotation_us": 2_000_000, "seeks": 400, "seek_tracks": 9000,
                   "media_blocks_written": 1500, "destroyed_reads": 0, "late": 0}}
    for part, values in parts.items():
        of[part].update(values)
    return of
