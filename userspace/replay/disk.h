/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A finite disk: the engine of stl-log without data, with its own cleaner.  The engine decides;
 * this file takes the place of core, with one request at a time, and says which places are read
 * and written, in the order in which core does that (core/clean/copy.c).
 *
 * Each request is durable before the next one, so that space is free as soon as nothing refers to
 * it.  The trace has no idle time: the engine cleans when a write finds no room.
 */
#ifndef REPLAY_DISK_H
#define REPLAY_DISK_H

#include "engine/engine.h"
#include "reads/seeks.h"

/* The disk reads or writes @n units from @place on. */
typedef void (*disk_io_fn)(void *ctx, enum shingle_seek_class class, u64 place, u32 n);

/**
 * struct disk_options - a disk to be made
 * @full: percentage of the units that it presents which are in use; 0: there is no such disk
 * @segment_units: units in a segment
 * @clean: how the engine chooses what to clean
 * @extents: most extents of the map, 0: the default of the target
 * @check: keep the content of all units, and compare what is read
 */
struct disk_options {
	u32 full;
	u32 segment_units;
	const char *clean;
	u32 extents;
	bool check;
};

/**
 * struct disk_counts - what happened
 * @steps: steps of cleaning
 * @dropped_rewrites: rewrites that were left out, in whole or in part
 * @wrong: units that were read with other content than the last that was written, and
 *	contradictions that the engine has found in itself
 */
struct disk_counts {
	u64 steps;
	u64 dropped_rewrites;
	u64 wrong;
};

/**
 * struct disk - the disk
 * @opt: what it was made with
 * @layout: its layout: segments with a guard of a track behind each
 * @e: the engine
 * @io: called for each read and write, except reads of the host
 * @ctx: for @io
 * @seq: the open transaction
 * @rec: room for the records of an operation
 * @max_rec: number of elements of @rec
 * @segments: number of segments
 * @reserve: those of them that the disk does not present
 * @fill: units of each segment that were written since it was taken into use
 * @host: place behind the last write of the host
 * @copy: extents of a part of a step
 * @copy_units: units that core copies at once
 * @content: with @check, content of each place: number of the write
 * @newest: with @check, content of each address: number of the last write, 0 after a discard
 * @writes: number of the last write
 * @n: see there
 */
struct disk {
	struct disk_options opt;
	struct shingle_layout layout;
	struct shingle_engine *e;
	disk_io_fn io;
	void *ctx;
	u64 seq;
	struct shingle_record *rec;
	u32 max_rec;
	u32 segments;
	u32 reserve;
	u32 *fill;
	u64 host;
	struct shingle_extent *copy;
	u32 copy_units;
	u64 *content;
	u64 *newest;
	u64 writes;
	struct disk_counts n;
};

int disk_init(struct disk *d, const struct disk_options *opt, u64 units, disk_io_fn io, void *ctx,
	      const char **why);
void disk_exit(struct disk *d);
u32 disk_find(struct disk *d, u32 lunit, u32 n, u64 *place);
void disk_segment(const struct disk *d, u64 place, u64 *lo, u64 *hi);
int disk_write(struct disk *d, u32 lunit, u32 n);
bool disk_rewrite(struct disk *d, u32 lunit, u32 n);
int disk_discard(struct disk *d, u32 lunit, u32 n);
void disk_clear_counts(struct disk *d);
void disk_verify(struct disk *d, u32 units);
u64 disk_counter(const struct disk *d, const char *name);

#endif /* REPLAY_DISK_H */
