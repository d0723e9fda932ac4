// SPDX-License-Identifier: GPL-2.0
/* The map of the blocks that are in slots of a cache, see slotmap.h.  Pure code. */
#include "engine/slotmap.h"

#define GROUP_SHIFT	6
#define GROUP		(1U << GROUP_SHIFT)
/* Buckets in a line of a processor's cache, and number of buckets to prefetch. */
#define LINE		(64 / (u32)sizeof(u32))
#define AHEAD		(4 * GROUP)

/* Golden-ratio hash of the group, scaled to the table, then the block in it. */
static u32 bucket(const struct shingle_slotmap *m, u32 lblk)
{
	u32 hash = (lblk >> GROUP_SHIFT) * 0x9e3779b1U;
	u32 group = ((u64)hash * (m->nr_buckets >> GROUP_SHIFT)) >> 32;

	return (group << GROUP_SHIFT) | (lblk & (GROUP - 1));
}

/**
 * shingle_slotmap_init() - make an empty map
 * @m: the map
 * @nr_slots: slots, at most SHINGLE_SLOTMAP_SLOTS
 *
 * Context: may sleep.
 * Return: 0, -EINVAL or -ENOMEM.
 */
int shingle_slotmap_init(struct shingle_slotmap *m, u32 nr_slots)
{
	memset(m, 0, sizeof(*m));
	BUILD_BUG_ON(SHINGLE_SLOTMAP_SLOTS % GROUP);
	BUILD_BUG_ON(SHINGLE_SLOTMAP_SLOTS * sizeof(u32) > INT_MAX);
	if (!nr_slots || nr_slots > SHINGLE_SLOTMAP_SLOTS)
		return -EINVAL;
	m->nr_slots = nr_slots;
	m->nr_buckets = DIV_ROUND_UP(nr_slots, GROUP) * GROUP;
	m->owner = shingle_zalloc_array(nr_slots, sizeof(u32));
	m->next = shingle_zalloc_array(nr_slots, sizeof(u32));
	m->head = shingle_zalloc_array(m->nr_buckets, sizeof(u32));
	if (m->owner && m->next && m->head)
		return 0;
	shingle_slotmap_exit(m);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(shingle_slotmap_init);

/**
 * shingle_slotmap_exit() - free a map's memory
 * @m: the map; shingle_slotmap_init() may have failed
 *
 * Context: may sleep.
 */
void shingle_slotmap_exit(struct shingle_slotmap *m)
{
	kvfree(m->owner);
	kvfree(m->next);
	kvfree(m->head);
	kvfree(m->group_blocks);
	memset(m, 0, sizeof(*m));
}
EXPORT_SYMBOL_GPL(shingle_slotmap_exit);

/* Number of blocks from @lblk on, at most @n, with adjacent buckets. */
static u32 side_by_side(u32 lblk, u32 n)
{
	return min(n, GROUP - (lblk & (GROUP - 1)));
}

/* @s: first slot + 1 of the block's bucket.  Returns the block's, or 0. */
static u32 look_for(const struct shingle_slotmap *m, u32 s, u32 lblk)
{
	while (s && m->owner[s - 1] != lblk + SHINGLE_SLOT_OWNED)
		s = m->next[s - 1];
	return s;
}

/**
 * shingle_slotmap_find() - find the slot of a block
 * @m: the map
 * @lblk: logical block
 *
 * Context: map lock.
 * Return: its slot or SHINGLE_NO_SLOT.
 */
u32 shingle_slotmap_find(const struct shingle_slotmap *m, u32 lblk)
{
	return look_for(m, m->head[bucket(m, lblk)], lblk) - 1;	/* 0 - 1 is SHINGLE_NO_SLOT */
}
EXPORT_SYMBOL_GPL(shingle_slotmap_find);

/**
 * shingle_slotmap_absent() - count blocks from one on that are not in the map
 * @m: the map
 * @lblk: the first
 * @n: maximum
 *
 * Context: map lock.
 * Return: number of blocks.
 */
u32 shingle_slotmap_absent(struct shingle_slotmap *m, u32 lblk, u32 n)
{
	u32 done, part, i;

	for (done = 0; done < n; done += part) {
		const u32 *head = &m->head[bucket(m, lblk + done)];

		part = side_by_side(lblk + done, n - done);
		if (m->group_blocks) {
			m->looks++;
			if (!m->group_blocks[(lblk + done) >> GROUP_SHIFT])
				continue;
		}
		for (i = 0; i < part; i++) {
			if (look_for(m, head[i], lblk + done + i))
				break;
		}
		if (m->group_blocks)
			m->looks += i;
		if (i < part)
			return done + i;
	}
	return n;
}
EXPORT_SYMBOL_GPL(shingle_slotmap_absent);

/**
 * shingle_slotmap_run() - count slots from one on that hold consecutive blocks
 * @m: the map
 * @slot: the first, in the hash
 * @n: maximum
 *
 * Context: map lock.
 * Return: number of slots.
 */
u32 shingle_slotmap_run(const struct shingle_slotmap *m, u32 slot, u32 n)
{
	const u32 *owner = &m->owner[slot];
	u32 first = owner[0], i;

	for (i = 1; i < n && owner[i] == first + i; i++)
		;
	return i;
}
EXPORT_SYMBOL_GPL(shingle_slotmap_run);

/**
 * shingle_slotmap_insert() - put consecutive blocks into consecutive slots
 * @m: the map
 * @slot: the first slot; none is in the hash
 * @lblk: the first block; none is in the map
 * @n: number of blocks
 *
 * Context: map lock.
 */
void shingle_slotmap_insert(struct shingle_slotmap *m, u32 slot, u32 lblk, u32 n)
{
	u32 part, i;

	m->live += n;
	m->seen_live += shingle_slotmap_seen(m, slot, n);
	for (; n; n -= part, lblk += part, slot += part) {
		u32 *head = &m->head[bucket(m, lblk)];
		u32 *owner = &m->owner[slot], *next = &m->next[slot];

		part = side_by_side(lblk, n);
		if (m->group_blocks)
			m->group_blocks[lblk >> GROUP_SHIFT] += part;
		for (i = 0; i < part; i++) {
			owner[i] = lblk + i + SHINGLE_SLOT_OWNED;
			if (unlikely(head[i]))
				next[i] = head[i];
			head[i] = slot + i + 1;
		}
	}
}
EXPORT_SYMBOL_GPL(shingle_slotmap_insert);

/* Prefetch the lines together rather than wait for one after the other. */
static void fetch(const struct shingle_slotmap *m, u32 lblk, u32 n)
{
	u32 i;

	for (i = 0; i < n; i += LINE)
		prefetchw(&m->head[bucket(m, lblk + i)]);
}

/**
 * shingle_slotmap_adopt() - insert the blocks that shingle_slotmap_absent() would count
 * @m: the map
 * @slot: the first slot; none is in the hash
 * @lblk: the first block
 * @n: maximum
 *
 * Does both with one access to each block.
 *
 * Context: map lock.
 * Return: number of blocks inserted.
 */
u32 shingle_slotmap_adopt(struct shingle_slotmap *m, u32 slot, u32 lblk, u32 n)
{
	u32 done = 0, part, i;

	fetch(m, lblk, min(n, AHEAD));
	do {
		u32 *head = &m->head[bucket(m, lblk + done)];
		u32 *owner = &m->owner[slot + done], *next = &m->next[slot + done];

		part = side_by_side(lblk + done, n - done);
		for (i = 0; i < part; i++) {
			u32 first = head[i];

			if (unlikely(first)) {
				if (look_for(m, first, lblk + done + i))
					break;
				next[i] = first;
			}
			owner[i] = lblk + done + i + SHINGLE_SLOT_OWNED;
			head[i] = slot + done + i + 1;
		}
		if (m->group_blocks)
			m->group_blocks[(lblk + done) >> GROUP_SHIFT] += i;
		done += i;
	} while (i == part && done < n);
	m->live += done;
	m->seen_live += shingle_slotmap_seen(m, slot, done);
	return done;
}
EXPORT_SYMBOL_GPL(shingle_slotmap_adopt);

/* In the bucket that begins at @head, replace @slot by @by, or remove it if that is 0. */
static __always_inline void replace(struct shingle_slotmap *m, u32 *head, u32 slot, u32 by)
{
	u32 *next = &m->next[slot];

	while (unlikely(*head != slot + 1)) {
		if (WARN_ON_ONCE(!*head))
			return;
		head = &m->next[*head - 1];
	}
	*head = by ? by : *next;
	if (likely(!*next))
		return;
	if (by)
		m->next[by - 1] = *next;
	*next = 0;
}

/**
 * shingle_slotmap_remove() - remove slots that are no longer current
 * @m: the map
 * @slot: the first slot
 * @n: number of slots, with consecutive blocks; they become SHINGLE_SLOT_SPENT
 *
 * Context: map lock.
 */
void shingle_slotmap_remove(struct shingle_slotmap *m, u32 slot, u32 n)
{
	u32 lblk = shingle_slot_lblk(m, slot), part, i;

	m->live -= n;
	m->seen_live -= shingle_slotmap_seen(m, slot, n);
	for (; n; n -= part, lblk += part, slot += part) {
		u32 *head = &m->head[bucket(m, lblk)], *owner = &m->owner[slot];

		part = side_by_side(lblk, n);
		for (i = 0; i < part; i++) {
			replace(m, &head[i], slot + i, 0);
			owner[i] = SHINGLE_SLOT_SPENT;
		}
		if (m->group_blocks)
			m->group_blocks[lblk >> GROUP_SHIFT] -= part;
	}
}
EXPORT_SYMBOL_GPL(shingle_slotmap_remove);

/**
 * shingle_slotmap_move() - move blocks from some slots to others
 * @m: the map
 * @from: the first old slot
 * @to: the first new slot; none is in the hash, or an old one
 * @n: number of slots, with consecutive blocks; the old ones become SHINGLE_SLOT_SPENT
 *
 * shingle_slotmap_remove() and shingle_slotmap_insert() with one access to each block.
 *
 * Context: map lock.
 */
void shingle_slotmap_move(struct shingle_slotmap *m, u32 from, u32 to, u32 n)
{
	u32 lblk = shingle_slot_lblk(m, from), part, i;

	m->seen_live += shingle_slotmap_seen(m, to, n) - shingle_slotmap_seen(m, from, n);
	for (; n; n -= part, lblk += part, from += part, to += part) {
		u32 *head = &m->head[bucket(m, lblk)];
		u32 *owner = &m->owner[from], *other = &m->owner[to];

		part = side_by_side(lblk, n);
		for (i = 0; i < part; i++) {
			replace(m, &head[i], from + i, to + i + 1);
			other[i] = owner[i];
			owner[i] = SHINGLE_SLOT_SPENT;
		}
	}
}
EXPORT_SYMBOL_GPL(shingle_slotmap_move);

/**
 * shingle_slotmap_count_groups() - prepare for searches of long stretches with few blocks
 * @m: the map
 * @lblks: all blocks are below this one
 *
 * A record may cover a band with only one cached block.  With a counter of one byte for each 64
 * blocks, shingle_slotmap_absent() can skip 64 of them at a time.  The counters would use too much
 * memory permanently, but not while a journal is replayed.  Either all owners or none are in the
 * hash.
 *
 * Context: before I/O, may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_slotmap_count_groups(struct shingle_slotmap *m, u64 lblks)
{
	u32 slot;

	m->group_blocks = shingle_zalloc_array((lblks + GROUP - 1) >> GROUP_SHIFT, 1);
	if (!m->group_blocks)
		return -ENOMEM;
	for (slot = 0; m->live && slot < m->nr_slots; slot++) {
		if (shingle_slot_state(m, slot) == SHINGLE_SLOT_OWNED)
			m->group_blocks[shingle_slot_lblk(m, slot) >> GROUP_SHIFT]++;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_slotmap_count_groups);

/**
 * shingle_slotmap_drop_groups() - free the counters after replay
 * @m: the map
 *
 * Context: before I/O, may sleep.
 */
void shingle_slotmap_drop_groups(struct shingle_slotmap *m)
{
	kvfree(m->group_blocks);
	m->group_blocks = NULL;
}
EXPORT_SYMBOL_GPL(shingle_slotmap_drop_groups);

/**
 * shingle_slotmap_bytes() - RAM that the map uses
 * @m: the map
 *
 * Context: any.
 * Return: bytes.
 */
u64 shingle_slotmap_bytes(const struct shingle_slotmap *m)
{
	return ((u64)m->nr_slots * 2 + m->nr_buckets) * sizeof(u32);
}
EXPORT_SYMBOL_GPL(shingle_slotmap_bytes);
