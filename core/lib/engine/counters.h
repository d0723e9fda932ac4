/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters as a table.  The owner of a table is the struct that contains the numbers.  Pure.
 */
#ifndef SHINGLE_COUNTERS_H
#define SHINGLE_COUNTERS_H

#include "pure.h"

enum shingle_counter_kind {
	SHINGLE_COUNTER_COUNT,	/* a count so far, which can be cleared */
	SHINGLE_COUNTER_NOW,	/* a current number */
};

/**
 * struct shingle_counter - one counter
 * @name: snake_case, with its unit
 * @kind: enum shingle_counter_kind
 * @bytes: size of the number: 4 or 8
 * @offset: offset of the number in the struct of its owner
 */
struct shingle_counter {
	const char *name;
	u8 kind;
	u8 bytes;
	u32 offset;
};

/* An entry of the table; the last argument is COUNT or NOW. */
#define SHINGLE_COUNTER(counted, type, member, what)	\
	{ .name = counted, .kind = SHINGLE_COUNTER_##what,	\
	  .bytes = sizeof(((type *)0)->member), .offset = offsetof(type, member) }

/**
 * shingle_counter_get() - value of a counter
 * @c: the counter
 * @of: its owner
 *
 * Context: as the number requires.
 * Return: the value.
 */
static inline u64 shingle_counter_get(const struct shingle_counter *c, const void *of)
{
	const u8 *at = (const u8 *)of + c->offset;

	return c->bytes == sizeof(u32) ? *(const u32 *)at : *(const u64 *)at;
}

/**
 * shingle_counters_nr() - number of counters in a table
 * @c: table, ends with a NULL name
 *
 * Context: any.
 * Return: the number.
 */
static inline u32 shingle_counters_nr(const struct shingle_counter *c)
{
	u32 nr = 0;

	while (c[nr].name)
		nr++;
	return nr;
}

/**
 * shingle_counters_clear() - set counts to zero
 * @c: table, ends with a NULL name
 * @of: its owner
 *
 * Context: as the numbers require.
 */
static inline void shingle_counters_clear(const struct shingle_counter *c, void *of)
{
	for (; c->name; c++) {
		if (c->kind == SHINGLE_COUNTER_COUNT)
			memset((u8 *)of + c->offset, 0, c->bytes);
	}
}

/*
 * Counters of every device that each processor counts separately, so that bios without further work
 * do not contend for them.
 */
#define SHINGLE_CPU_COUNTERS(X, then)	\
	X(host_reads) then	\
	X(host_writes) then	\
	X(host_read_blocks) then	\
	X(host_write_blocks)

/*
 * All counts of core: those of each processor, and others that the map lock protects.  Names with
 * "blocks" count blocks of 4 KiB; the other names say their unit, or count events.
 */
#define SHINGLE_COUNTERS(X, then)	\
	SHINGLE_CPU_COUNTERS(X, then) then	\
	X(discard_blocks) then	\
	X(zeroed_blocks) then	\
	X(wcache_write_blocks) then	\
	X(wcache_replaced_blocks) then	\
	X(wcache_hits_blocks) then	\
	X(wcache_destages) then	\
	X(wcache_destage_blocks) then	\
	X(wcache_lost_blocks) then	\
	X(clean_read_blocks) then	\
	X(clean_write_blocks) then	\
	X(journal_blocks) then	\
	X(checkpoint_blocks) then	\
	X(superblock_blocks) then	\
	X(flushes) then	\
	X(fua_writes) then	\
	X(commits) then	\
	X(records) then	\
	X(checkpoints) then	\
	X(resets) then	\
	X(steps) then	\
	X(step_failures) then	\
	X(clean_us) then	\
	X(deferred) then	\
	X(retried) then	\
	X(ordered_waits) then	\
	X(read_errors) then	\
	X(write_errors) then	\
	X(load_lost_reads) then	\
	X(r0_violations)

/* Current numbers of every device. */
#define SHINGLE_GAUGES(X, then)	\
	X(cached_blocks) then	\
	X(map_bytes) then	\
	X(bad_blocks) then	\
	X(wcache_dirty_blocks) then	\
	X(unsaved_blocks)

struct shingle_counters {
#define X(name) u64 name
	SHINGLE_COUNTERS(X, ;);
#undef X
};

struct shingle_gauges {
#define X(name) u64 name
	SHINGLE_GAUGES(X, ;);
#undef X
};

#endif /* SHINGLE_COUNTERS_H */
