/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A map of exceptions: it lists the logical blocks that are in slots of a cache.  All other blocks
 * are at their native places.
 */
#ifndef SHINGLE_SLOTMAP_H
#define SHINGLE_SLOTMAP_H

#include "pure.h"

#define SHINGLE_NO_SLOT		U32_MAX
/* Highest logical block + 1 that a slot can hold: 16 TiB less a little. */
#define SHINGLE_SLOTMAP_LBLKS	(U32_MAX - 2ULL)
/* Maximum of slots, 2 TiB less 256 KiB: an array has at most INT_MAX bytes, whole groups of 64. */
#define SHINGLE_SLOTMAP_SLOTS	(INT_MAX / 4 / 64 * 64)

/**
 * struct shingle_slotmap - maps logical blocks to slots, and back
 * @nr_slots: slots
 * @nr_buckets: hash buckets, a multiple of 64
 * @live: slots in the hash
 * @seen: number of slots that a walk has passed
 * @seen_live: number of these in the hash; changes update it
 * @owner: for each slot, 0 = free, 1 = spent (placed, or superseded), else lblk + 2
 * @next: for each slot, next slot of its bucket + 1, 0 = none; 0 for slots outside the hash,
 *	so that it need not be read for most insertions and removals
 * @head: for each bucket, first slot + 1, 0 = none
 * @group_blocks: for each 64 logical blocks, number of blocks in the hash; only while a journal is
 *	replayed, else NULL
 * @looks: number of blocks, groups and bands that replay has looked at, for tests of its cost
 *
 * Twelve bytes of RAM a slot, all allocated by the constructor.  Neighbouring blocks hash to
 * neighbouring buckets, so that long runs cause few cache misses.  It has no lock of its own: the
 * map lock protects it.
 */
struct shingle_slotmap {
	u32 nr_slots;
	u32 nr_buckets;
	u32 live;
	u32 seen;
	u32 seen_live;
	u32 *owner;
	u32 *next;
	u32 *head;
	u8 *group_blocks;
	u64 looks;
};

int shingle_slotmap_init(struct shingle_slotmap *m, u32 nr_slots);
void shingle_slotmap_exit(struct shingle_slotmap *m);
u32 shingle_slotmap_find(const struct shingle_slotmap *m, u32 lblk);
u32 shingle_slotmap_absent(struct shingle_slotmap *m, u32 lblk, u32 n);
u32 shingle_slotmap_run(const struct shingle_slotmap *m, u32 slot, u32 n);
void shingle_slotmap_insert(struct shingle_slotmap *m, u32 slot, u32 lblk, u32 n);
u32 shingle_slotmap_adopt(struct shingle_slotmap *m, u32 slot, u32 lblk, u32 n);
void shingle_slotmap_remove(struct shingle_slotmap *m, u32 slot, u32 n);
void shingle_slotmap_move(struct shingle_slotmap *m, u32 from, u32 to, u32 n);
int shingle_slotmap_count_groups(struct shingle_slotmap *m, u64 lblks);
void shingle_slotmap_drop_groups(struct shingle_slotmap *m);
u64 shingle_slotmap_bytes(const struct shingle_slotmap *m);

enum shingle_slot_state { SHINGLE_SLOT_FREE = 0, SHINGLE_SLOT_SPENT = 1, SHINGLE_SLOT_OWNED };

static inline enum shingle_slot_state shingle_slot_state(const struct shingle_slotmap *m, u32 slot)
{
	return min_t(u32, m->owner[slot], SHINGLE_SLOT_OWNED);
}

/* Number of slots, of @n from @slot on, that the walk has passed. */
static inline u32 shingle_slotmap_seen(const struct shingle_slotmap *m, u32 slot, u32 n)
{
	return likely(slot >= m->seen) ? 0 : min(n, m->seen - slot);
}

/* Only for slots in state SHINGLE_SLOT_OWNED. */
static inline u32 shingle_slot_lblk(const struct shingle_slotmap *m, u32 slot)
{
	return m->owner[slot] - SHINGLE_SLOT_OWNED;
}

/**
 * shingle_slotmap_next() - the next of several blocks that is in the map
 * @m: the map
 * @lblk: the first block; becomes the block that was found
 * @n: number of blocks; becomes the number from the found one on
 *
 * Context: map lock.
 * Return: slot of the block, SHINGLE_NO_SLOT if none is in the map.
 */
static inline u32 shingle_slotmap_next(struct shingle_slotmap *m, u32 *lblk, u32 *n)
{
	u32 absent = shingle_slotmap_absent(m, *lblk, *n);

	*lblk += absent;
	*n -= absent;
	return *n ? shingle_slotmap_find(m, *lblk) : SHINGLE_NO_SLOT;
}

#endif /* SHINGLE_SLOTMAP_H */
