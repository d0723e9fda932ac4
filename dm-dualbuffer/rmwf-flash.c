// SPDX-License-Identifier: GPL-2.0
/* Flash, Ma (2019), Algorithms 9 and 10: see rmwf-flash.h. */
#include "rmwf-flash.h"

/* Of the first and the last: were one between them longer, groups would share blocks. */
static u32 longest_track(const struct rmwf_space *s)
{
	return max(rmwf_track_blocks(s, 0), rmwf_track_blocks(s, s->blocks / s->band_blocks - 1));
}

/**
 * rmwf_flash_init() - nothing is cached
 * @f: the flash
 * @s: what it is a cache of
 * @slots: pages
 * @page_blocks: of a flash block; 0: RMWF_DEFAULT_PAGES, or all
 * @group_columns: of a group; 0: as many as there are flash blocks for
 * @why: on error, a sentence
 *
 * Context: may sleep.
 * Return: 0, -EINVAL or -ENOMEM, after which rmwf_flash_exit() is due all
 * the same.
 */
int rmwf_flash_init(struct rmwf_flash *f, struct rmwf_space *s, u32 slots, u32 page_blocks,
		    u32 group_columns, const char **why)
{
	u32 track;

	memset(f, 0, sizeof(*f));
	f->space = s;
	f->nr_bands = s->blocks / s->band_blocks;
	f->page_blocks = page_blocks ?: min(slots, RMWF_DEFAULT_PAGES);
	*why = "a flash block of rmwf has 1 to 1024 pages, and no more than the flash";
	if (!f->page_blocks || f->page_blocks > RMWF_PAGES || f->page_blocks > slots)
		return -EINVAL;
	f->nr_blocks = slots / f->page_blocks;
	track = longest_track(s);
	*why = "a group of rmwf has no more columns than a track";
	if (group_columns > track)
		return -EINVAL;
	f->group_columns = group_columns ?:
		clamp_t(u64, DIV_ROUND_UP_ULL((u64)f->nr_bands * track, f->nr_blocks), 1, track);
	f->band_groups = DIV_ROUND_UP(track, f->group_columns);
	*why = "out of memory";
	if (shingle_slotmap_init(&f->map, f->nr_blocks * f->page_blocks))
		return -ENOMEM;
	f->count = shingle_zalloc_array(f->map.nr_slots, sizeof(*f->count));
	f->age = shingle_zalloc_array(BITS_TO_LONGS(f->map.nr_slots), sizeof(*f->age));
	f->wait = shingle_zalloc_array(f->map.nr_slots, sizeof(*f->wait));
	f->block = shingle_zalloc_array(f->nr_blocks, sizeof(*f->block));
	f->open = shingle_zalloc_array(BITS_TO_LONGS(f->nr_blocks), sizeof(*f->open));
	f->cached = shingle_zalloc_array(f->nr_bands, sizeof(*f->cached));
	if (!f->count || !f->age || !f->wait || !f->block || !f->open || !f->cached)
		return -ENOMEM;
	rmwf_flash_ready(f);
	return 0;
}

/**
 * rmwf_flash_exit() - free its memory
 * @f: the flash
 *
 * Context: may sleep.
 */
void rmwf_flash_exit(struct rmwf_flash *f)
{
	shingle_slotmap_exit(&f->map);
	kvfree(f->count);
	kvfree(f->age);
	kvfree(f->wait);
	kvfree(f->block);
	kvfree(f->open);
	kvfree(f->cached);
}

/* ------------------------------------------------------------------------
 * Where a block is written
 */

/**
 * rmwf_block_of() - the flash block of a group of columns (the block-level map)
 * @f: the flash
 * @p: place of a block of one of them
 * @n: lowered to how many from that on are of the group
 *
 * Context: any.
 */
u32 rmwf_block_of(const struct rmwf_flash *f, const struct rmwf_place *p, u32 *n)
{
	u64 group = (u64)p->band * f->band_groups + p->column / f->group_columns;
	u32 block;

	/* The last group of a track may be a part of one. */
	*n = min3(*n, f->group_columns - p->column % f->group_columns, p->columns - p->column);
	div_u64_rem(group, f->nr_blocks, &block);
	return block;
}

/* Free pages that follow each other in a flash block that has any. */
static u32 take(struct rmwf_flash *f, u32 block, u32 n, u32 *slot)
{
	struct rmwf_block *b = &f->block[block];
	u32 *owner = &f->map.owner[block * f->page_blocks], at = b->at, i, got = 0;

	for (i = 0; i < f->page_blocks; i++, at++) {
		if (at >= f->page_blocks)
			at = 0;
		if (owner[at] == SHINGLE_SLOT_FREE)
			break;
	}
	*slot = block * f->page_blocks + at;
	while (got < n && at < f->page_blocks && owner[at] == SHINGLE_SLOT_FREE) {
		owner[at++] = SHINGLE_SLOT_SPENT;
		got++;
	}
	b->at = at;
	b->free -= got;
	if (!b->free)
		__clear_bit(block, f->open);
	f->nr_free -= got;
	return got;
}

/**
 * rmwf_flash_place() - pages for blocks (Algorithm 9)
 * @f: the flash
 * @p: place of the first block
 * @n: how many, at most; of one band
 * @slot: result, the first page
 *
 * Context: map lock.
 * Return: how many that follow each other, 0 if none is free.
 */
u32 rmwf_flash_place(struct rmwf_flash *f, const struct rmwf_place *p, u32 n, u32 *slot)
{
	u32 block;

	if (!f->pool) {
		block = rmwf_block_of(f, p, &n);
		return f->block[block].free ? take(f, block, n, slot) : 0;
	}
	if (!f->nr_free)
		return 0;
	/* Of flash that is nearly full the next one may be far. */
	block = find_next_bit(f->open, f->nr_blocks, f->pool_at);
	if (block >= f->nr_blocks)
		block = find_next_bit(f->open, f->nr_blocks, 0);
	f->pool_at = block;
	return take(f, block, n, slot);
}

static void put(struct rmwf_flash *f, u32 slot)
{
	u32 block = slot / f->page_blocks;

	f->map.owner[slot] = SHINGLE_SLOT_FREE;
	if (!f->block[block].free++)
		__set_bit(block, f->open);
	f->nr_free++;
}

/**
 * rmwf_flash_abort() - nothing was written to pages that were given out
 * @f: the flash
 * @slot: the first
 * @n: how many
 *
 * Context: map lock.
 */
void rmwf_flash_abort(struct rmwf_flash *f, u32 slot, u32 n)
{
	while (n--)
		put(f, slot++);
}

/* ------------------------------------------------------------------------
 * How old it is
 */

static void make_young(struct rmwf_flash *f, u32 slot, u32 n)
{
	if (f->young)
		bitmap_set(f->age, slot, n);
	else
		bitmap_clear(f->age, slot, n);
}

/**
 * rmwf_flash_age() - what pages hold is old from now on
 * @f: the flash, in which rmwf_flash_old() has come to the end since the last time
 *
 * Context: map lock.
 */
void rmwf_flash_age(struct rmwf_flash *f)
{
	f->young = !f->young;
}

/**
 * rmwf_flash_old() - find a page that holds something old
 * @f: the flash
 * @at: look from here on, 0 after rmwf_flash_age(); result: that page, or where to go on;
 *	as many as there are pages at the end
 *
 * What is passed by counts as young: it holds nothing, or what came since.
 *
 * Context: map lock.
 * Return: whether there is one in the part that was looked at.
 */
bool rmwf_flash_old(struct rmwf_flash *f, u32 *at)
{
	u32 end = min_t(u64, f->map.nr_slots, *at + (u64)BITS_PER_LONG * SHINGLE_WALK), looks;

	for (looks = SHINGLE_WALK; looks; looks--) {
		*at = f->young ? find_next_zero_bit(f->age, end, *at) :
				 find_next_bit(f->age, end, *at);
		if (*at == end)
			return false;
		if (shingle_slot_state(&f->map, *at) == SHINGLE_SLOT_OWNED)
			return true;
		make_young(f, (*at)++, 1);
	}
	return false;
}

/* ------------------------------------------------------------------------
 * What it holds
 */

/**
 * rmwf_flash_hold() - pages hold blocks, each written to flash once so far
 * @f: the flash
 * @slot: the first page, none of which holds any
 * @lblk: the first block
 * @n: how many, at most: up to the first one that another page holds
 * @band: of which they are
 *
 * Context: map lock.
 * Return: how many do.
 */
u32 rmwf_flash_hold(struct rmwf_flash *f, u32 slot, u32 lblk, u32 n, u32 band)
{
	u32 i;

	n = shingle_slotmap_adopt(&f->map, slot, lblk, n);
	for (i = 0; i < n; i++)
		f->count[slot + i] = 1;
	make_young(f, slot, n);
	f->cached[band] += n;
	return n;
}

/**
 * rmwf_flash_forget() - a page holds its block no more
 * @f: the flash
 * @slot: the page
 * @band: of which the block is
 *
 * Context: map lock.
 */
void rmwf_flash_forget(struct rmwf_flash *f, u32 slot, u32 band)
{
	f->cached[band]--;
	shingle_slotmap_remove(&f->map, slot, 1);
}

/* Of @at, which is less than two rounds. */
static u32 ring(const struct rmwf_flash *f, u32 at)
{
	return at < f->map.nr_slots ? at : at - f->map.nr_slots;
}

/**
 * rmwf_flash_free() - and is free, once that is durable
 * @f: the flash
 * @slot: the page
 * @seq: of the transaction that says so
 *
 * Context: map lock.
 */
void rmwf_flash_free(struct rmwf_flash *f, u32 slot, u64 seq)
{
	struct rmwf_freed *last = &f->freed[(f->freed_from + f->nr_freed - 1) % RMWF_FREED];

	f->wait[ring(f, f->wait_from + f->nr_wait++)] = slot;
	f->block[slot / f->page_blocks].waiting++;
	if (f->nr_freed && (last->seq >= seq || f->nr_freed == RMWF_FREED)) {
		last->seq = max(last->seq, seq);
		last->n++;
		return;
	}
	f->freed[(f->freed_from + f->nr_freed++) % RMWF_FREED] = (struct rmwf_freed){ seq, 1 };
}

/**
 * rmwf_flash_release() - transactions are durable, and nobody reads what they freed
 * @f: the flash
 * @seq: up to this one
 *
 * Context: map lock.
 * Return: true if there is more of it.
 */
bool rmwf_flash_release(struct rmwf_flash *f, u64 seq)
{
	u32 looks = SHINGLE_WALK;

	while (f->nr_freed && f->freed[f->freed_from].seq <= seq) {
		struct rmwf_freed *d = &f->freed[f->freed_from];

		for (; d->n && looks; d->n--, looks--) {
			u32 slot = f->wait[f->wait_from];

			f->wait_from = ring(f, f->wait_from + 1);
			f->nr_wait--;
			f->block[slot / f->page_blocks].waiting--;
			put(f, slot);
		}
		if (d->n)
			return true;
		f->freed_from = (f->freed_from + 1) % RMWF_FREED;
		f->nr_freed--;
	}
	return false;
}

/**
 * rmwf_flash_ready() - build what is derived from what was loaded
 * @f: the flash, of which the hash is known: what is not in it is free
 *
 * Context: before I/O, may sleep.
 */
void rmwf_flash_ready(struct rmwf_flash *f)
{
	u32 slot;

	memset(f->block, 0, f->nr_blocks * sizeof(*f->block));
	memset(f->open, 0, BITS_TO_LONGS(f->nr_blocks) * sizeof(*f->open));
	memset(f->cached, 0, f->nr_bands * sizeof(*f->cached));
	f->nr_free = 0;
	f->nr_freed = 0;
	f->nr_wait = 0;
	for (slot = 0; slot < f->map.nr_slots; slot++) {
		if (shingle_slot_state(&f->map, slot) == SHINGLE_SLOT_OWNED)
			f->cached[shingle_slot_lblk(&f->map, slot) / f->space->band_blocks]++;
		else
			put(f, slot);
		cond_resched();
	}
}
