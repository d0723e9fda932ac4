/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slots with an update count per block, and their format on the disk: common to the caches
 * of dualbuffer and rmwf.  Pure code.
 */
#ifndef SHINGLE_COUNTED_H
#define SHINGLE_COUNTED_H

#include "format/codec.h"
#include "engine/slotmap.h"

/* Slots in one checkpoint piece: as many as fit.  Tests define a smaller value. */
#ifndef PART_SLOTS
#define PART_SLOTS	672U
#endif

/* Value of the owner field for a slot that cannot be written. */
#define COUNTED_UNFIT	U32_MAX

/* An entry of a piece of slots: the block in the slot plus 1, and its update count. */
struct counted_disk {
	__le32 owner;
	__le16 count;
} __packed;

static_assert(PART_SLOTS * sizeof(struct counted_disk) <= SHINGLE_CHUNK_BYTES);

/**
 * counted_encode() - encode a piece of slots
 * @m: the block in each slot
 * @count: update count of each block
 * @unfit: bitmap of slots that cannot be written, or NULL
 * @at: number of the piece
 * @buf: result, room for SHINGLE_CHUNK_BYTES
 *
 * Context: map lock.
 * Return: length in bytes, up to the last slot with an entry; 0 if no slot has one.
 */
static inline u32 counted_encode(const struct shingle_slotmap *m, const u16 *count,
				 const unsigned long *unfit, u32 at, void *buf)
{
	u32 first = at * PART_SLOTS, n = min(m->nr_slots - first, PART_SLOTS), used = 0, i;
	struct counted_disk *d = buf;

	memset(d, 0, n * sizeof(*d));
	for (i = 0; i < n; i++) {
		if (shingle_slot_state(m, first + i) == SHINGLE_SLOT_OWNED) {
			d[i].owner = cpu_to_le32(shingle_slot_lblk(m, first + i) + 1);
			d[i].count = cpu_to_le16(count[first + i]);
			used = i + 1;
		} else if (unfit && test_bit(first + i, unfit)) {
			d[i].owner = cpu_to_le32(COUNTED_UNFIT);
			used = i + 1;
		}
	}
	return used * sizeof(*d);
}

/**
 * counted_decode() - decode a piece of slots; counted_hash() builds the hash later
 * @m: the slots
 * @count: update counts
 * @unfit: result: slots that cannot be written; NULL if unknown
 * @blocks: number of blocks; no block is at or above this
 * @at: number of the piece
 * @buf: content of the piece
 * @bytes: its length
 *
 * Context: before I/O.
 * Return: 0, or -EUCLEAN if the content is invalid.
 */
static inline int counted_decode(struct shingle_slotmap *m, u16 *count, unsigned long *unfit,
				 u64 blocks, u32 at, const void *buf, u32 bytes)
{
	u32 first = at * PART_SLOTS, n = bytes / sizeof(struct counted_disk), i;
	const struct counted_disk *d = buf;

	if (bytes % sizeof(*d) || n > min(m->nr_slots - first, PART_SLOTS))
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		u32 owner = le32_to_cpu(d[i].owner);

		if (unfit && owner == COUNTED_UNFIT) {
			__set_bit(first + i, unfit);
			owner = 0;
		}
		if (owner > blocks)
			return -EUCLEAN;
		m->owner[first + i] = owner ? owner - 1 + SHINGLE_SLOT_OWNED :
					      SHINGLE_SLOT_FREE;
		count[first + i] = le16_to_cpu(d[i].count);
	}
	return 0;
}

/**
 * counted_hold() - put a block into a slot
 * @m: the slots
 * @count: update counts
 * @slot: the slot
 * @lblk: the block
 * @updates: its update count
 *
 * If the slot held another block, that block leaves the map.  If the block was in another slot,
 * that slot becomes spent.
 *
 * Context: before I/O.
 */
static inline void counted_hold(struct shingle_slotmap *m, u16 *count, u32 slot, u32 lblk,
				u16 updates)
{
	u32 old = shingle_slotmap_find(m, lblk);

	if (old != SHINGLE_NO_SLOT)
		shingle_slotmap_remove(m, old, 1);
	if (shingle_slot_state(m, slot) == SHINGLE_SLOT_OWNED)
		shingle_slotmap_remove(m, slot, 1);
	shingle_slotmap_insert(m, slot, lblk, 1);
	count[slot] = updates;
}

/**
 * counted_hash() - build the hash from the owners in the checkpoint
 * @m: the slots
 * @count: update counts
 *
 * A block may own several slots, because the pieces were written at different moments.  The
 * last slot wins here, and the records correct it.
 *
 * Context: before I/O, may sleep.
 */
static inline void counted_hash(struct shingle_slotmap *m, u16 *count)
{
	u32 slot;

	for (slot = 0; slot < m->nr_slots; slot++) {
		if (shingle_slot_state(m, slot) == SHINGLE_SLOT_OWNED) {
			u32 lblk = shingle_slot_lblk(m, slot);

			m->owner[slot] = SHINGLE_SLOT_SPENT;
			counted_hold(m, count, slot, lblk, count[slot]);
		}
		cond_resched();
	}
}

/**
 * counted_replay() - prepare the map for replay, before each record
 * @m: the slots
 * @count: update counts
 * @blocks: number of blocks
 *
 * Context: before I/O, may sleep.
 * Return: 0 or -ENOMEM.
 */
static inline int counted_replay(struct shingle_slotmap *m, u16 *count, u64 blocks)
{
	int err;

	if (m->group_blocks)
		return 0;
	err = shingle_slotmap_count_groups(m, blocks);
	if (!err)
		counted_hash(m, count);
	return err;
}

/**
 * counted_ready() - the last record has been replayed, if there was one
 * @m: the slots
 * @count: update counts
 *
 * Context: before I/O, may sleep.
 */
static inline void counted_ready(struct shingle_slotmap *m, u16 *count)
{
	if (!m->group_blocks)
		counted_hash(m, count);
	shingle_slotmap_drop_groups(m);
}

#endif /* SHINGLE_COUNTED_H */
