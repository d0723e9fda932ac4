/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts of seeks, as in Hajkazemi, Abdi and Desnoyers, "Minimizing Read Seek for SMR Disk",
 * section II: an operation is a seek if it does not start where the previous one of its stream has
 * ended.  A seek is of the class of the second operation.  The first operation of a stream has no
 * previous one, and is no seek.  Pure.
 *
 * There are three streams:
 *
 * - @host: the requests of the host at their logical addresses, as an untranslated disk gets them.
 * - @medium: what the log reads and writes.  A fragment that a cache has is not read, so it does
 *   not move the head; a prefetch does.
 * - @plain: what the log would read and write without cache and look-ahead-behind: all fragments of
 *   all reads.  With opportunistic defragmentation it has the same fragments as @medium, and also
 *   the writes of that.
 *
 * Each is in the order in which its operations arrive.  FLUSH and metadata are in none.
 *
 * Addresses and lengths are in units.  The counts are plain numbers of the struct, so that rows of
 * a table of counters can name them (SHINGLE_SEEKS_COUNTERS).  There is no lock here: the caller
 * holds one.
 */
#ifndef SHINGLE_SEEKS_H
#define SHINGLE_SEEKS_H

#include "pure.h"
#include "engine/counters.h"

/* A seek over at least this distance is long (the paper, figure 3). */
#define SHINGLE_LONG_SEEK_BYTES		(500U << 10)
/* A write is mis-ordered if a write that it follows comes within these bytes of writes. */
#define SHINGLE_MISORDER_BYTES		(256U << 10)
/* A ring of writes, large enough for a window of writes of 512 bytes. */
#define SHINGLE_MISORDER_WRITES		((SHINGLE_MISORDER_BYTES >> 9) + 2)
/* A bucket has the distances from a power of two on.  There is one for each distance. */
#define SHINGLE_DISTANCE_BUCKETS	64U
#define SHINGLE_FRAGS_BUCKETS		32U
/* The place of the head before the first operation. */
#define SHINGLE_SEEKS_NOWHERE		U64_MAX

enum shingle_seek_class {
	SHINGLE_SEEK_READ,		/* a read of the host, with what is read around it */
	SHINGLE_SEEK_WRITE,		/* a write of the host */
	SHINGLE_SEEK_REWRITE,		/* a write of opportunistic defragmentation */
	SHINGLE_SEEK_CLEAN_READ,
	SHINGLE_SEEK_CLEAN_WRITE,
	SHINGLE_NR_SEEK_CLASSES
};

/**
 * struct shingle_seek_stream - operations that follow each other
 * @next: unit behind the last operation, SHINGLE_SEEKS_NOWHERE before the first one
 * @ops: operations of each class
 * @units: their units
 * @seeks: those of them that are seeks
 * @long_seeks: those of the seeks that are long
 * @ahead: seeks to a higher address by distance: bucket i for distances of 2^i to 2^(i+1) - 1 units
 * @back: seeks to a lower address
 */
struct shingle_seek_stream {
	u64 next;
	u64 ops[SHINGLE_NR_SEEK_CLASSES];
	u64 units[SHINGLE_NR_SEEK_CLASSES];
	u64 seeks[SHINGLE_NR_SEEK_CLASSES];
	u64 long_seeks[SHINGLE_NR_SEEK_CLASSES];
	u64 ahead[SHINGLE_DISTANCE_BUCKETS];
	u64 back[SHINGLE_DISTANCE_BUCKETS];
};

/**
 * struct shingle_misordered - writes of the host that follow a write that came later
 * @window: SHINGLE_MISORDER_BYTES in units
 * @written: units written so far
 * @at: entry for the next write
 * @oldest: oldest entry within the window
 * @start: first unit of each of the last writes, SHINGLE_SEEKS_NOWHERE if it is mis-ordered
 * @end: @written after each of them
 * @nr: number of mis-ordered writes
 */
struct shingle_misordered {
	u32 window;
	u64 written;
	u32 at;
	u32 oldest;
	u64 start[SHINGLE_MISORDER_WRITES];
	u64 end[SHINGLE_MISORDER_WRITES];
	u64 nr;
};

/**
 * struct shingle_seeks - all counts of seeks of a log
 * @long_units: SHINGLE_LONG_SEEK_BYTES in units
 * @host: stream of the host
 * @medium: stream of the medium
 * @plain: stream without caches
 * @reads: reads of the host that needed a fragment
 * @fragmented: those of them that needed more than one
 * @frags: number of fragments of all of them
 * @fragmented_frags: number of fragments of @fragmented
 * @frags_of: reads by their number of fragments: bucket i for 2^i to 2^(i+1) - 1
 * @misordered: see there
 */
struct shingle_seeks {
	u32 long_units;
	struct shingle_seek_stream host;
	struct shingle_seek_stream medium;
	struct shingle_seek_stream plain;
	u64 reads;
	u64 fragmented;
	u64 frags;
	u64 fragmented_frags;
	u64 frags_of[SHINGLE_FRAGS_BUCKETS];
	struct shingle_misordered misordered;
};

/* Rows of a table of counters.  The member @at of @type is a struct shingle_seeks. */
#define SHINGLE_SEEKS_ROW(name, type, at, stream, class)					\
	SHINGLE_COUNTER(name "_seeks", type, at.stream.seeks[SHINGLE_SEEK_##class], COUNT),	\
	SHINGLE_COUNTER(name "_long_seeks", type,						\
			at.stream.long_seeks[SHINGLE_SEEK_##class], COUNT)

#define SHINGLE_SEEKS_COUNTERS(type, at)							\
	SHINGLE_SEEKS_ROW("nols_read", type, at, host, READ),				\
	SHINGLE_SEEKS_ROW("nols_write", type, at, host, WRITE),				\
	SHINGLE_SEEKS_ROW("ls_read", type, at, medium, READ),				\
	SHINGLE_SEEKS_ROW("ls_write", type, at, medium, WRITE),				\
	SHINGLE_SEEKS_ROW("ls_rewrite", type, at, medium, REWRITE),				\
	SHINGLE_SEEKS_ROW("ls_clean_read", type, at, medium, CLEAN_READ),			\
	SHINGLE_SEEKS_ROW("ls_clean_write", type, at, medium, CLEAN_WRITE),			\
	SHINGLE_SEEKS_ROW("plain_read", type, at, plain, READ),				\
	SHINGLE_SEEKS_ROW("plain_write", type, at, plain, WRITE),				\
	SHINGLE_SEEKS_ROW("plain_rewrite", type, at, plain, REWRITE),			\
	SHINGLE_SEEKS_ROW("plain_clean_read", type, at, plain, CLEAN_READ),			\
	SHINGLE_SEEKS_ROW("plain_clean_write", type, at, plain, CLEAN_WRITE),		\
	SHINGLE_COUNTER("log_reads", type, at.reads, COUNT),					\
	SHINGLE_COUNTER("fragmented_reads", type, at.fragmented, COUNT),			\
	SHINGLE_COUNTER("read_fragments", type, at.frags, COUNT),				\
	SHINGLE_COUNTER("fragmented_read_fragments", type, at.fragmented_frags, COUNT),	\
	SHINGLE_COUNTER("misordered_writes", type, at.misordered.nr, COUNT)

void shingle_seeks_init(struct shingle_seeks *s, u32 unit_shift);
void shingle_seeks_clear(struct shingle_seeks *s);
void shingle_seeks_host(struct shingle_seeks *s, bool write, u64 lunit, u32 n);
void shingle_seeks_medium(struct shingle_seeks *s, enum shingle_seek_class class, u64 place, u32 n);
void shingle_seeks_plain(struct shingle_seeks *s, enum shingle_seek_class class, u64 place, u32 n);
void shingle_seeks_direct(struct shingle_seeks *s, enum shingle_seek_class class, u64 place, u32 n);
void shingle_seeks_one_run(struct shingle_seeks *s, u64 lunit, u32 all, u64 place, u32 n);
void shingle_seeks_read(struct shingle_seeks *s, u32 frags);

#endif /* SHINGLE_SEEKS_H */
