# SPDX-License-Identifier: GPL-2.0
"""What the report says in words: questions, tests, terms; for somebody who has
never heard of shingled disks."""

# name of a finding: (group, question, tests that can answer it)
ANSWERS = {
    "drive_type": ("The drive", "Shingled or conventional?", "1 2"),
    "cache_medium": ("Persistent cache", "On what is it?", "1 2"),
    "cache_layout": ("Persistent cache", "Where on the platters?", "2"),
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

# What stands for a value; {} is the value.
VALUES = {
    "shingled": "shingled (SMR)", "conventional": "conventional",
    "disk": "on the disk", "flash": "flash", "none": "none",
    "single-id": "one, at the inner diameter (last LBAs)",
    "single-od": "one, at the outer diameter (first LBAs)",
    "single-middle": "one, in the middle", "multiple": "several, all over the disk",
    "lazy": "lazy: only when it must", "aggressive": "aggressive: also when idle",
    "append": "a log, new room for each write",
    "circular": "a circular log that skips what is stale",
    "in-place": "cached blocks are overwritten in place",
    "fifo": "first in, first out", "other": "another order",
    "static": "static: each band has its place",
    "dynamic": "dynamic: a cleaned band is somewhere else",
}

# The whole report in a sentence for each of these, if it is known.
SENTENCES = (
    ("drive_type", {"shingled": "This drive is <b>shingled</b>",
                    "conventional": "This drive is <b>conventional</b>: nothing shows "
                    "that tracks overlap"}),
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
        "where it was, which a shingled drive does not do."),
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
        "At the beginning, the middle and the end of the drive every other block of a "
        "range is written, and then all of the range is read in order.",
        "Where written blocks are elsewhere, the head goes there and back for each of "
        "them, the further the slower.  So the place with the fastest reads is near the "
        "cache.  Equally slow everywhere means several caches, no slow ones none at all, "
        "two heights with one near nothing a cache in flash."),
    "3": (
        "Does the drive tidy up while nobody asks for anything?",
        "As in Test 2, within one band, with a pause of a few seconds between writing "
        "and reading.",
        "If reading is as fast as it was before anything was written, the drive has "
        "brought the blocks home in the pause: it cleans aggressively.  If it is as slow "
        "as without the pause, it is lazy, or the pause was too short."),
    "4": (
        "How far does it get in how much time?",
        "Blocks at random places are written, read in the same order, and read again "
        "after pauses.",
        "Blocks that are still in the cache are read one after the other, at a constant "
        "time.  Those that are home need a seek, at a random time.  The border between "
        "the two moves with the pauses."),
    "5": (
        "Which blocks does it bring home first?",
        "Blocks of one small region, then blocks from all over the drive, then other "
        "blocks of the first region are written; after a pause all are read in the same "
        "order.",
        "If the oldest block decides which band is cleaned next, and everything of that "
        "band goes with it, the first and the third group are home before the second."),
    "6": (
        "How much can be written, block by block, until it must clean?",
        "Random 4 KiB writes over the whole drive, one at a time, until writes suddenly "
        "take very much longer.",
        "The cliff is where the cache is full.  Up to there each write cost one place in "
        "the log."),
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
        "One block is written at the head of each piece of a range, in random order; the "
        "drive is made to clean some of it, and then the heads are read in order.",
        "Blocks that came home are a constant distance apart and are read in a constant "
        "time; those in the cache are not.  The drive cleans whole bands, so a stretch of "
        "constant time is as long as a band, or as several neighbours."),
    "clean": (
        "How long does it take to clean a band?",
        "A band is dirtied, cleaning is made to happen, and the drive is asked all the "
        "time whether it is busy.",
        "The length of the disturbance, for each band."),
    "12": (
        "Does a band return to where it was?",
        "Blocks of two neighbouring bands are read in turn, the second is overwritten and "
        "cleaned, and the same is read again.",
        "The time from one place to the other depends on where they are.  The same "
        "pattern before and after says that the band is where it was (static map); "
        "another one that it has moved (dynamic map)."),
    "13": (
        "Does a power cut during a long write damage old data?",
        "Power is cut at random moments of a sequential write, and the surroundings are "
        "read.",
        "Blocks that cannot be read had been written long before: the head was in the "
        "middle of rewriting a band."),
    "14": (
        "How are tracks laid out?",
        "The drive is read from its beginning to its end, in large requests, with "
        "read-ahead.",
        "Outer tracks are longer, so throughput falls from step to step: each step is a "
        "zone.  A shingled drive may fill thousands of tracks of one surface before it "
        "goes to the next one, and then the steps go down and up again."),
    "15": (
        "From which length on does a sequential write go past the cache?",
        "Sequential writes of decreasing length at a fresh place, each followed by a read "
        "of it.",
        "What went past the cache is at home: it is written at the speed of its place and "
        "cleaning owes nothing for it."),
}

INTRODUCTION = (
    "On a shingled disk (SMR) tracks overlap like the shingles of a roof.  More fits on a "
    "platter, but to change one block a whole band of tracks must be rewritten.  So the drive "
    "puts random writes into a persistent cache first, and cleans that up later.  How it does "
    "this, its maker mostly keeps to himself; it decides what the drive is good for.")

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
