/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A log-structured disk without data: where writes go, what reads need, and how many seeks that
 * takes.  The model of Hajkazemi, Abdi and Desnoyers: an infinite disk, all writes at one frontier,
 * no cleaning.  Addresses that were never written are at their own place below the log.  With
 * struct disk_options::full, it is a finite disk, which the engine of stl-log manages (disk.h).
 *
 * The infinite disk may have segments with guards between them, and rewrites may be those of a step
 * of the cleaner.  Then it does what the target stl-log does with a home and without cleaning.  The
 * code for that is independent of the engine's, so that a test can compare the two.
 */
#ifndef REPLAY_LOG_H
#define REPLAY_LOG_H

#include "compact.h"
#include "disk.h"
#include "extents/extents.h"
#include "reads/around.h"
#include "reads/readcache.h"
#include "reads/remedies.h"
#include "reads/seeks.h"

/* Number of fragments from which on reads share the last entry of @frags_of. */
#define REPLAY_MOST_FRAGS	65536U
/* Most extents of a step of stl-log. */
#define REPLAY_STEP_FRAGS	64U

/**
 * struct replay_options - a log to be made
 * @unit_shift: a unit has 1 << @unit_shift bytes
 * @base: where the log begins; in whole segments, and without the guards below
 * @segment_units: units in a segment of an infinite disk; 0: it has none
 * @guard_units: units of the guard behind each segment
 * @segments: most segments that the log can need
 * @reread: a rewrite is a step that reads its data again, see Documentation/replay.rst
 * @compact: compact addresses, which the map has
 * @extents: most extents
 * @remedies: see there
 * @cache_units: size of the cache
 * @exact: the cache has exact fragments
 * @regions: number of regions of look-ahead-behind
 * @per_read: its regions are forgotten at the end of a read
 * @popular: count the accesses of each fragment
 * @disk: a finite disk, or not
 */
struct replay_options {
	u32 unit_shift;
	u64 base;
	u32 segment_units;
	u32 guard_units;
	u32 segments;
	bool reread;
	struct compact compact;
	u32 extents;
	struct shingle_remedies_settings remedies;
	u32 cache_units;
	bool exact;
	u32 regions;
	bool per_read;
	bool popular;
	struct disk_options disk;
};

/**
 * struct popular - a fragment of fragmented reads; @n is 0 if the entry is unused
 * @place: its first unit
 * @n: number of units
 * @accesses: number of reads that needed it
 */
struct popular {
	u64 place;
	u32 n;
	u32 accesses;
};

/**
 * struct replay_log - the log
 * @opt: what it was made with; owns its compact addresses
 * @units: longest length of the log
 * @written: its length, without guards
 * @fill: units written in each of its segments
 * @map: where addresses are in an infinite log
 * @disk: the finite disk
 * @remedies: their settings and counts of ranges
 * @cache: selective cache
 * @around: regions of look-ahead-behind
 * @largest_region: units of the largest region that was read
 * @seeks: all counts of seeks
 * @frags_of: number of reads for each number of fragments
 * @frag: fragments of one read
 * @nr_frags: their number
 * @max_frags: number of elements of @frag
 * @popular: hash table of fragments
 * @nr_popular: number of entries that are used
 * @max_popular: size of @popular, a power of two
 * @reads: reads of the host
 * @writes: writes of the host
 * @discards: discards of the host
 * @rewrites: reads that were rewritten
 * @rewritten: their units
 * @dropped: reads that should have been rewritten and were left as they are
 */
struct replay_log {
	struct replay_options opt;
	u64 units;
	u64 written;
	u32 *fill;
	struct shingle_extents map;
	struct disk disk;
	struct shingle_remedies remedies;
	struct shingle_readcache cache;
	struct shingle_around around;
	u32 largest_region;
	struct shingle_seeks seeks;
	u64 frags_of[REPLAY_MOST_FRAGS];
	struct shingle_span *frag;
	u32 nr_frags;
	u32 max_frags;
	struct popular *popular;
	u64 nr_popular;
	u64 max_popular;
	u64 reads;
	u64 writes;
	u64 discards;
	u64 rewrites;
	u64 rewritten;
	u64 dropped;
};

int log_init(struct replay_log *l, const struct replay_options *opt, const char **why);
void log_clear_counts(struct replay_log *l);
void log_exit(struct replay_log *l);
int log_read(struct replay_log *l, u64 lunit, u32 n);
int log_write(struct replay_log *l, u64 lunit, u32 n);
int log_discard(struct replay_log *l, u64 lunit, u32 n);
u64 log_fragments(struct replay_log *l);
u32 log_extents(const struct replay_log *l);
u64 log_map_bytes(const struct replay_log *l);

#endif /* REPLAY_LOG_H */
