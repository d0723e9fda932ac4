# SPDX-License-Identifier: GPL-2.0
"""Figures and set-up that the KVIMR paper (Liang, Yang, Yang, ATC 2021) published, for tables that
compare them with measurements.  Schemes have this project's names: compaction is KVIMR-N,
compaction-merged is KVIMR-M, plain is CMR."""

# The set-up, in MiB, KiB and tracks of 2 MiB: the drive, its length, the time of a sync (a
# rotation), the 100 GB in use, and how tops are copied to the backup region and back.  The paper
# does not say which file is picked or what a move does; "silent" was kept because it is nearest to
# the paper's own counts.  It does not give the load either: 75 million records of 1 KiB and a 64th
# more for indexes would be 74,387 MiB (both: reports/kvimr.rst).
SET_UP = {"drive": "st500dm002", "drive_sectors": 976773168, "flush_us": 8333, "tracks": 47684,
          "load": 75000, "record": 1024, "pick": "overlap", "moves": "silent",
          "copies": "--copy-each"}

# Relative to the plain disk: throughput, compaction time, time persisting; and the part of
# persisting that goes to rewriting tops.
OF_PLAIN = {
    "plain": (1, 1, 1, 0), "seq": (0.399, 2.59, 4.42, 0.7613),
    "3phase": (0.610, 1.68, 2.24, 0.5774), "compaction": (0.88, 1.15, None, None),
    "compaction-merged": (0.945, 1.06, None, None),
}
# Throughput of the first over the second: the whole load, its last million records.
RATIOS = (
    ("compaction", "seq", 2.21, None), ("compaction", "3phase", 1.44, None),
    ("3phase", "seq", 1.53, None), ("compaction-merged", "compaction", 1.07, 1.2627),
    ("compaction-merged", "seq", None, 2.01),
    ("compaction-merged", "3phase", 1.55, 2.17),
)
# Reduction in per cent: rewrites, syncs.
LESS = (("compaction", "seq", 91.11, 94.99), ("compaction", "3phase", 68.14, 77.32),
        ("compaction-merged", "compaction", 37.53, 64.55))
# Rewrites and syncs of a file, derived from the figures above.
A_FILE = {"seq": (16, 64), "3phase": (4.46, 14.1), "compaction": (1.42, 3.21),
          "compaction-merged": (0.889, 1.137)}
# Figure 8: compaction-merged over compaction in per cent, by file size in MB.
GROWTH = {64: 7.0, 128: 5.9, 256: 13.0, 512: 16.8}
# Figure 6, in millions of records, as the text gives it: where rewrites begin, and from where on a
# scheme is ahead.
COURSE = {"3phase": {"rewrites": "about 50"}, "compaction-merged": {"ahead": "about 60"}}
# Figure 7: by how many per cent at least KVIMR exceeds both others, for each mix, and the number of
# operations of a mix.
MIXES = {"R90": 2.28, "R50": 10.22, "R10": 28.93}
OPERATIONS = 7500000


def with_index(size):
    """A file of a nominal @size is a 64th larger, with its index."""
    return size * 65 // 64
