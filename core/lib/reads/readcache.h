/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Selective caching: which units of the medium are in the read cache, and where.  Pure, and without
 * data: slot i of this struct is page i, or whatever holds a unit, of its owner.
 *
 * The paper (Hajkazemi, Abdi and Desnoyers, "Minimizing Read Seek for SMR Disk", Algorithm 3) keeps
 * fragments and does not say how one is found again.  Here the key is the physical place.  There
 * are two kinds of cache:
 *
 * - By units: a fragment is in the cache if all its units are, from whichever reads.  The cache
 *   contains the last units that were read, so a larger cache contains a smaller one.
 * - By exact fragments: a fragment is found only with the place and length it was read with, and is
 *   evicted as a whole.
 *
 * Life of a slot:
 *
 *   free -> shingle_readcache_fill() -> filling -> shingle_readcache_filled() -> here
 *        -> evicted or forgotten -> free
 *
 * A slot that a reader holds when it is evicted or forgotten is dropped: it cannot be found any
 * more, and is free when the last reader puts it.
 *
 * The owner forgets places before they are overwritten.  This cancels the fills of these places.
 * There is no lock here: the caller holds one.  shingle_readcache_init() allocates all memory.
 */
#ifndef SHINGLE_READCACHE_H
#define SHINGLE_READCACHE_H

#include "pure.h"

#define SHINGLE_NO_CACHE_SLOT	U32_MAX
/* Most fills at a time.  shingle_readcache_forget() looks at all of them. */
#define SHINGLE_READCACHE_FILLS	256U

enum shingle_readcache_state {
	SHINGLE_CACHE_FREE,
	SHINGLE_CACHE_FILLING,
	SHINGLE_CACHE_HERE,
	SHINGLE_CACHE_DROPPED,
};

/**
 * struct shingle_readcache_slot - a slot
 * @place: its unit
 * @back: exact fragments: units of the fragment before @place, else 0
 * @len: exact fragments: length of the fragment, else 0
 * @hash: next slot of the same bucket
 * @prev: here: the slot that was used next after this one
 * @next: here: the slot that was used last before this one; free: the next free slot; filling: the
 *	slot of the next unit
 * @turn: here: when its fragment was looked up last
 * @state: enum shingle_readcache_state
 * @held: number of readers that hold it
 */
struct shingle_readcache_slot {
	u64 place;
	u32 back;
	u32 len;
	u32 hash;
	u32 prev;
	u32 next;
	u32 turn;
	u32 state : 2;
	u32 held : 30;
};

/**
 * struct shingle_readcache_fill - a fragment that is being read into the cache
 * @place: its first unit that has a slot
 * @n: number of units that have slots; the last ones of the fragment
 * @slot: slot of @place; shingle_readcache_next() returns the others
 * @turn: when the fill began
 * @cancelled: its places are about to be overwritten: it must not enter the cache
 * @prev: another fill
 * @next: another fill
 */
struct shingle_readcache_fill {
	u64 place;
	u32 n;
	u32 slot;
	u32 turn;
	bool cancelled;
	struct shingle_readcache_fill *prev;
	struct shingle_readcache_fill *next;
};

/**
 * struct shingle_readcache_counts - what happened in the cache
 * @hits: fragments found
 * @misses: fragments not found
 * @hit_units: units of @hits
 * @filled_units: units that entered the cache
 * @evicted_units: units that left it for others
 * @forgotten_units: units that left it because their places were about to be overwritten
 * @cancelled: fills that were cancelled
 * @refused: fills that got no slots
 */
struct shingle_readcache_counts {
	u64 hits;
	u64 misses;
	u64 hit_units;
	u64 filled_units;
	u64 evicted_units;
	u64 forgotten_units;
	u64 cancelled;
	u64 refused;
};

/**
 * struct shingle_readcache - the cache
 * @exact: by exact fragments
 * @nr_slots: number of slots
 * @limit: most slots to use, at most @nr_slots
 * @used: slots that are not free
 * @here: slots that are here
 * @fresh: slots from this one on have never been used
 * @free: first free slot of those below @fresh
 * @newest: the slot that was used last
 * @oldest: the slot to evict next
 * @turn: number of hits and fills
 * @nr_buckets: number of buckets, a multiple of 64
 * @bucket: first slot of each
 * @slot: the slots
 * @nr_fills: number of fills
 * @fills: one of them
 * @count: see there
 */
struct shingle_readcache {
	bool exact;
	u32 nr_slots;
	u32 limit;
	u32 used;
	u32 here;
	u32 fresh;
	u32 free;
	u32 newest;
	u32 oldest;
	u32 turn;
	u32 nr_buckets;
	u32 *bucket;
	struct shingle_readcache_slot *slot;
	u32 nr_fills;
	struct shingle_readcache_fill *fills;
	struct shingle_readcache_counts count;
};

int shingle_readcache_init(struct shingle_readcache *c, u32 units, bool exact);
void shingle_readcache_exit(struct shingle_readcache *c);
u64 shingle_readcache_bytes(const struct shingle_readcache *c);
bool shingle_readcache_hit(struct shingle_readcache *c, u64 place, u32 n, u32 *slots);
void shingle_readcache_put(struct shingle_readcache *c, const u32 *slots, u32 n);
u32 shingle_readcache_fill(struct shingle_readcache *c, struct shingle_readcache_fill *f,
			   u64 place, u32 n);
bool shingle_readcache_filled(struct shingle_readcache *c, struct shingle_readcache_fill *f);
void shingle_readcache_cancel(struct shingle_readcache *c, struct shingle_readcache_fill *f);
u32 shingle_readcache_forget(struct shingle_readcache *c, u64 place, u32 n);
bool shingle_readcache_clear(struct shingle_readcache *c);
bool shingle_readcache_limit(struct shingle_readcache *c, u32 units);
u32 shingle_readcache_verify(const struct shingle_readcache *c, u32 *cursor,
			     void (*report)(void *ctx, const char *fmt, ...) __printf(2, 3),
			     void *ctx);

/* The slot of the unit behind that of @slot, in a fill. */
static inline u32 shingle_readcache_next(const struct shingle_readcache *c, u32 slot)
{
	return c->slot[slot].next;
}

#endif /* SHINGLE_READCACHE_H */
