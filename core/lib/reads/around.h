/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Look-ahead-behind: which regions of the medium have been read with a fragment, and are kept.
 * Pure, and without data: the owner has a buffer for each region.
 *
 * The paper (Hajkazemi, Abdi and Desnoyers, "Minimizing Read Seek for SMR Disk", Algorithm 2) does
 * not say how many regions a drive keeps, or which it replaces.  Here the one that was read first
 * is replaced (FIFO).  A region serves the rest of one pass over data that were written out of
 * order.  After this pass the host has the data, so a recent use is no sign of another one.
 *
 * The owner forgets places before they are overwritten.  There is no lock here: the caller holds
 * one.
 */
#ifndef SHINGLE_AROUND_H
#define SHINGLE_AROUND_H

#include "pure.h"

#define SHINGLE_AROUND_REGIONS	32U
#define SHINGLE_NO_REGION	U32_MAX

enum shingle_around_state {
	SHINGLE_AROUND_EMPTY,
	SHINGLE_AROUND_FILLING,
	SHINGLE_AROUND_HERE,
};

/**
 * struct shingle_around_region - a region
 * @place: its first unit
 * @n: number of units
 * @held: number of readers that hold it
 * @state: enum shingle_around_state
 * @forgotten: cannot be found any more; it is empty when its last reader and its fill have
 *	ended
 * @turn: order of the regions
 */
struct shingle_around_region {
	u64 place;
	u32 n;
	u32 held;
	u8 state;
	bool forgotten;
	u64 turn;
};

/**
 * struct shingle_around_counts - what happened
 * @hits: fragments found in a region
 * @misses: fragments not found
 * @read_units: units that were read for a fragment, with those of the fragment
 * @cancelled: regions that were not kept, because places of them were overwritten or a read failed
 * @refused: fragments for which no region was free
 */
struct shingle_around_counts {
	u64 hits;
	u64 misses;
	u64 read_units;
	u64 cancelled;
	u64 refused;
};

/**
 * struct shingle_around - the regions
 * @units: size of the buffer of a region
 * @limit: number of regions that are used, 0 to SHINGLE_AROUND_REGIONS
 * @turn: last one that was given
 * @region: the regions
 * @count: see there
 */
struct shingle_around {
	u32 units;
	u32 limit;
	u64 turn;
	struct shingle_around_region region[SHINGLE_AROUND_REGIONS];
	struct shingle_around_counts count;
};

void shingle_around_init(struct shingle_around *a, u32 regions, u32 units);
u32 shingle_around_hit(struct shingle_around *a, u64 place, u32 n);
void shingle_around_put(struct shingle_around *a, u32 region);
u32 shingle_around_fill(struct shingle_around *a, u64 place, u32 n);
bool shingle_around_filled(struct shingle_around *a, u32 region);
void shingle_around_cancel(struct shingle_around *a, u32 region);
void shingle_around_forget(struct shingle_around *a, u64 place, u64 n);
void shingle_around_clear(struct shingle_around *a);
void shingle_around_limit(struct shingle_around *a, u32 regions);
u32 shingle_around_verify(const struct shingle_around *a,
			  void (*report)(void *ctx, const char *fmt, ...) __printf(2, 3),
			  void *ctx);

#endif /* SHINGLE_AROUND_H */
