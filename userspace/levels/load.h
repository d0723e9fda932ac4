/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The load: a store of sorted files in levels, as RocksDB keeps it, in keys and
 * sizes only.  It reports its operations on files through struct load_ops.
 */
#ifndef LEVELS_LOAD_H
#define LEVELS_LOAD_H

#include <shim.h>
#include <zipfian.h>

#define LOAD_LEVELS	8

enum load_keys { LOAD_UNIFORM, LOAD_ZIPFIAN };
enum load_moves { LOAD_KEEP, LOAD_REWRITE, LOAD_SILENT };
enum load_pick { LOAD_ROUND, LOAD_OVERLAP };

/**
 * struct load_options - the store, and the operations on it
 * @records: inserted by the load
 * @record_bytes: size of each
 * @file_records: records of a full file, and of the memtable
 * @level1_records: bound of level 1
 * @factor: ratio of the sizes of adjacent levels
 * @trigger: files of level 0 that start a compaction
 * @readahead_bytes: read at once from an input of a compaction
 * @keys: distribution of the load's keys
 * @theta: skew of Zipfian keys, above 0 and below 1
 * @moves: how a file that overlaps nothing moves to the next level: it keeps its place, and hints
 *   inform the target; or it is written again; or it keeps its place without hints
 * @pick: which file of a level is compacted
 * @ops: operations after the load
 * @read_percent: of them that read
 * @seed: of the random numbers
 */
struct load_options {
	u64 records;
	u32 record_bytes;
	u32 file_records;
	u64 level1_records;
	u32 factor;
	u32 trigger;
	u32 readahead_bytes;
	enum load_keys keys;
	double theta;
	enum load_moves moves;
	enum load_pick pick;
	u64 ops;
	u32 read_percent;
	u64 seed;
};

/**
 * struct load_file - one sorted file
 * @id: from 1, never used again
 * @level: where it is
 * @records: in it
 * @key: theirs, ascending
 * @tracks: the users' own: tracks of the disk and of each model
 */
struct load_file {
	u64 id;
	u32 level;
	u32 records;
	u64 *key;
	u32 *tracks;
};

/**
 * struct load_ops - what the store does to its files
 * @write: a file is persisted, as a whole
 * @read: part of one is read for a compaction
 * @move: one changes its level and stays where it is
 * @drop: one is deleted
 * @get: a record is read; @found is false where a filter was wrong
 * @compaction: one begins or ends
 * @tick: the memtable was written and all compactions are done
 *
 * Each returns 0 or a negative errno, which ends the load.
 */
struct load_ops {
	int (*write)(void *ctx, struct load_file *f);
	int (*read)(void *ctx, struct load_file *f, u64 at, u64 bytes);
	int (*move)(void *ctx, struct load_file *f, u32 from);
	int (*drop)(void *ctx, struct load_file *f);
	int (*get)(void *ctx, struct load_file *f, u64 at, bool found);
	void (*compaction)(void *ctx, bool begin);
	int (*tick)(void *ctx);
};

/**
 * struct load_stats - what happened
 * @inserted: records, by load and mix
 * @flushes: files written from the memtable
 * @merged: files that compactions wrote
 * @rewritten: files written because they moved
 * @moved: files that kept their place as they moved
 * @dropped: files deleted
 * @compactions: moves not counted
 * @written_bytes: of files
 * @read_bytes: by compactions
 * @gets: records asked for
 * @got_memtable: of them found in memory
 * @false_positives: files read in vain
 */
struct load_stats {
	u64 inserted;
	u64 flushes, merged, rewritten, moved, dropped, compactions;
	u64 written_bytes, read_bytes;
	u64 gets, got_memtable, false_positives;
};

/**
 * struct load_level - the files of one level
 * @file: level 0 by age, the others by key
 * @n: how many
 * @max: room
 * @records: in all of them
 * @cursor: last key of what was compacted last
 */
struct load_level {
	struct load_file **file;
	u32 n, max;
	u64 records;
	u64 cursor;
};

/**
 * struct load - a store
 * @opt: see there
 * @ops: see there
 * @ctx: for @ops
 * @level: see there
 * @mem: keys of the memtable, as they came
 * @nr_mem: how many
 * @seen: hash table over @mem, during the mix only
 * @seen_mask: its size less 1
 * @next_id: of the next file
 * @rng: state of the random numbers
 * @zipfian: ranks of its records
 * @stats: see there
 */
struct load {
	struct load_options opt;
	const struct load_ops *ops;
	void *ctx;
	struct load_level level[LOAD_LEVELS];
	u64 *mem;
	u32 nr_mem;
	u64 *seen;
	u64 seen_mask;
	u64 next_id;
	u64 rng;
	struct zipfian zipfian;
	struct load_stats stats;
};

int load_init(struct load *l, const struct load_options *opt, const struct load_ops *ops,
	      void *ctx);
void load_exit(struct load *l);
int load_fill(struct load *l);
int load_mix(struct load *l);

static inline u64 load_file_bytes(const struct load *l, const struct load_file *f)
{
	return (u64)f->records * l->opt.record_bytes;
}

#endif /* LEVELS_LOAD_H */
