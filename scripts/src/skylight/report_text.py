# SPDX-License-Identifier: GPL-2.0
"""The texts of the report: questions, tests, terms; for readers who do not know shingled disks."""

# name of a finding: (group, question, tests that can answer it)
ANSWERS = {
    "drive_type": ("The drive", "Shingled or conventional?", "1 2 11 filled"),
    "cache_medium": ("Persistent cache", "On what is it?", "1 2"),
    "cache_layout": ("Persistent cache", "Where on the platters?", "2"),
    "writes_until_cleaning": ("Persistent cache", "4 KiB writes until it must clean", "6"),
    "raw_bytes": ("Persistent cache", "Raw size", "6"),
    "map_entries": ("Persistent cache", "Entries of its map", "7"),
    "cache_bytes": ("Persistent cache", "Usable size", "8"),
    "log_structure": ("Persistent cache", "How is it written?", "9 10"),
    "write_unit_bytes": ("Persistent cache", "Smallest internal write", "1abc"),
    "cleaning_type": ("Cleaning", "Does it clean while idle?", "3"),
    "cleaning_order": ("Cleaning", "In which order?", "4 5"),
    "clean_idle_ms": ("Cleaning", "Idle time before it begins", "4"),
    "clean_band_ms": ("Cleaning", "Time for one band", "clean"),
    "band_bytes": ("Bands", "Band size", "11"),
    "mapping": ("Bands", "Do bands stay where they are?", "12"),
    "torn_writes": ("Bands", "Does a power cut tear old data?", "13"),
    "streaming_bytes": ("Bands", "Shortest write that goes past the cache", "15"),
    "zone_profile": ("Tracks", "Zones of recording density", "14"),
    "serpentine": ("Tracks", "How LBAs run over the surfaces", "14"),
    "rotation_ms": ("Tracks", "One rotation", "1"),
    "track_bytes": ("Tracks", "Data on one track", "14"),
}

# Text for a value; {} is the value.
VALUES = {
    "shingled": "shingled (SMR)", "conventional": "conventional",
    "translated": "translated, cannot tell whether shingled",
    "disk": "on the disk", "flash": "flash", "none": "none",
    "single-id": "one, at the inner diameter (last LBAs)",
    "single-od": "one, at the outer diameter (first LBAs)",
    "single-middle": "one, in the middle", "multiple": "several, all over the disk",
    "lazy": "lazy: only when it must", "aggressive": "aggressive: also when idle",
    "append": "a log, new room for each write",
    "circular": "a circular log that skips what is stale",
    "in-place": "cached blocks are overwritten in place",
    "narrow": "surface after surface every few tracks",
    "wide": "a long way on one surface, then the next",
    "fifo": "first in, first out", "other": "another order",
    "static": "static: each band has its place",
    "dynamic": "dynamic: a cleaned band is somewhere else",
}

# Summary of the report: a sentence for each of these findings, if it is known.
SENTENCES = (
    ("drive_type", {"shingled": "This drive is <b>shingled</b>",
                    "conventional": "This drive is <b>conventional</b>: nothing shows "
                    "that tracks overlap",
                    "translated": "This drive is <b>translated</b>, and whether it is shingled "
                    "can't be told: the drive moves written blocks, as other drives and "
                    "layers do"}),
    ("cache_medium", {"disk": "random writes go to a persistent cache on its platters",
                      "flash": "random writes go to a persistent cache in flash"}),
    ("cache_bytes", "some {} of it can be written before it has to clean"),
    ("cleaning_type", {"lazy": "it cleans only when it must",
                       "aggressive": "it cleans when it is left alone"}),
    ("band_bytes", "it rewrites data in bands of {}"),
    ("mapping", {"static": "a band always returns to its place",
                 "dynamic": "a band moves when it is cleaned"}),
)

# test: (question, what is done, how to read the picture)
TESTS = {
    "1": (
        "Where is a block after it was written, and is each random write as slow as any other?",
        "At three places of the drive blocks of 4 KiB are read, written in random order, read, "
        "written again and read again, each read behind one of the same far block, so that its "
        "time tells where on the track it is.  Then blocks are written one at a time, in "
        "random order, within small regions.  The volatile write cache is off.",
        "Left, one dot is one write.  A conventional disk has to go to the place of each "
        "block, so latencies are anything from nothing to a rotation and more.  A shingled one "
        "appends to a log: if there is one log only, the next place has just passed under the "
        "head, and each write takes the same, one rotation, or next to nothing if the log is "
        "in flash.  Right, one dot is one block: on the diagonal if the second write left it "
        "where it was, which a shingled drive does not do.  Others may do neither; only bands "
        "(Test 11) are what no other has."),
    "filled": (
        "Does a write take others with it?",
        "The drive, or if it is too large a stretch at each of three places, is written in "
        "order, and then blocks in there again, one at a time, in random order.",
        "One dot is one write.  On a conventional drive it takes a seek and a rotation or two.  "
        "Where tracks overlap, as those of interlaced drives, what lies beside a block must be "
        "saved and written again: such writes take many rotations."),
    "1abc": (
        "In which units does the cache write?",
        "Blocks are written one at a time and then read back in the order in which they "
        "were written; the same with 31 requests under way; and with requests of growing "
        "size.",
        "If reading back takes a constant time, blocks lie at constant distances.  Steps "
        "in the time of growing requests are the units of which an internal write is "
        "made."),
    "2": (
        "Where is the cache?",
        "Blocks at the beginning, the middle and the end of the drive are read, each behind "
        "a block at the beginning, the middle and the end; they are written, and all is read "
        "again.  For the picture, every other block of a range is written and the range read "
        "in order.",
        "Where written blocks are elsewhere, the head goes there and back for each of them, "
        "the further the slower.  Right: the time from each of the three places, before "
        "(dotted) and after.  If the lines after writing run together wherever the blocks "
        "belong, all of them are in one place, and the lowest end says where.  If each is as "
        "before although its blocks have moved, each place has a cache of its own."),
    "3": (
        "Does the drive clean while the host is idle?",
        "Every other block of a range within one band is written, and read at once and after "
        "pauses that become longer.",
        "If the blocks are somewhere else after a pause than right after writing, the drive "
        "has brought them home meanwhile: it cleans aggressively.  If they stay where they "
        "were written, it is lazy."),
    "4": (
        "How far does it get in how much time?",
        "Blocks at random places are written and read in the same order, and read again "
        "after pauses.",
        "A block that is not where it was right after writing has been brought home.  The "
        "longer the pauses, the more of them, on a drive that cleans when it is left alone."),
    "5": (
        "Which blocks does it bring home first?",
        "Blocks of one small region, then blocks from all over the drive, other blocks of the "
        "first region, and blocks of another small region are written; after pauses it is "
        "seen which of them are home.",
        "If the oldest block decides which band is cleaned next, and everything of that band "
        "goes with it, the first and the third group are home before the second, and the "
        "fourth is last.  If full bands were first, so would be the fourth."),
    "6": (
        "How much can be written, block by block, until it must clean?",
        "Random 4 KiB writes over the whole drive, one at a time, until writes suddenly "
        "take very much longer.",
        "The cliff is where the cache is full.  Up to there each write cost one place in "
        "the log; Tests 1a to 1c measure its size in bytes."),
    "7": (
        "How many entries has the map of the cache?",
        "As Test 6, with 31 writes under way, which a drive may pack together.",
        "If the cliff comes after the same number of writes whatever their size, it was "
        "the map that was full."),
    "8": (
        "How much data does the cache hold?",
        "As Test 7 with large writes.",
        "The bytes up to the cliff are what the cache holds."),
    "9": (
        "Does writing the same blocks again fill the cache?",
        "A set of random blocks is written several times over, in the same order.",
        "A log that is reused from its beginning meets blocks there that are stale, and "
        "does not have to clean.  A cliff says that stale blocks take room."),
    "10": (
        "Are cached blocks overwritten in their place in the cache?",
        "As many writes as in Test 9, each to a block drawn from the same set.",
        "If the cache overwrote blocks in place it would never be full, as the set is "
        "smaller than the cache.  A cliff shows a log."),
    "11": (
        "How large is a band?",
        "A block is written, and others around it; the drive is made to clean, and then it is "
        "seen which blocks came home together with that one.  First at distances of 1, 2, 4 "
        "... blocks, then between, until both ends of the band are known to the block; the "
        "same at another place.",
        "Each dot is one block that the test examined.  Above: it was cleaned together with the "
        "block at 0, so it is of the same band.  Below: it was not."),
    "clean": (
        "How long does it take to clean a band?",
        "The test dirties a band, makes the drive clean, and reads all the time to see "
        "whether the drive is busy.",
        "The length of the disturbance, for each band."),
    "12": (
        "Does a band return to where it was?",
        "Blocks of a band are overwritten and brought home, twice, and each time it is seen "
        "where they are.",
        "The same place after both times says that the band has a place (static map).  If "
        "all blocks are turned by the same angle, the band as a whole has moved (dynamic "
        "map)."),
    "13": (
        "Does a power cut during a long write damage old data?",
        "Power is cut at random moments of a sequential write, and the surroundings are "
        "read.",
        "Blocks that cannot be read had been written long before: the head was in the "
        "middle of rewriting a band."),
    "14": (
        "How are tracks laid out?",
        "Stretches from the beginning to the end of the drive are read in order, in requests "
        "of 1 MiB, with read-ahead and look-ahead.",
        "Outer tracks are longer, so throughput falls from step to step: each step is a "
        "zone.  A shingled drive may fill thousands of tracks of one surface before it "
        "goes to the next one, and then the steps go down and up again."),
    "15": (
        "From which length on does a sequential write go past the cache?",
        "Sequential writes of different lengths, each at a fresh place, beginning in front of "
        "the border of a band and going on behind it.",
        "A write that bypasses the cache is at home at once: its blocks are where they were "
        "before it.  The answer is the shortest length for which this holds."),
}

INTRODUCTION = (
    "On a shingled disk (SMR) tracks overlap like the shingles of a roof.  More fits on a "
    "platter, but to change one block a whole band of tracks must be rewritten.  So the drive "
    "puts random writes into a persistent cache first, and cleans that up later.  Most "
    "makers do not publish how a drive does this, although it decides what the drive is good for.")

TERMS = (
    ("track", "a circle on a platter; data lie along it."),
    ("shingled recording (SMR)", "tracks that overlap like the shingles of a roof, because "
     "the head that writes is wider than a track.  More fits on a platter, but no track can "
     "be written without destroying the next one."),
    ("band", "a group of such tracks, with a gap behind.  To change anything in it, it is "
     "read, changed and written as a whole (read-modify-write)."),
    ("persistent cache", "where a shingled drive puts random writes first, so that it need "
     "not rewrite a band for each."),
    ("cleaning", "bringing cached blocks home to their bands."),
    ("LBA", "the number by which a computer asks for a block.  The first ones are at the "
     "outer diameter (OD), the last ones at the inner (ID)."),
    ("latency", "the time from asking for something to having it."),
)


def test(ident):
    """(question, done, read) of a test, or empty words."""
    key = "".join(c for c in str(ident).lower() if c.isalnum())
    for name in (key, {"1a1c": "1abc", "01abc": "1abc", "tclean": "clean"}.get(key, ""),
                 key.lstrip("t0")):
        if name in TESTS:
            return TESTS[name]
    return ("", "", "")
