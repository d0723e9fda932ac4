// SPDX-License-Identifier: GPL-2.0
/* Flash, Ma (2019), Algorithms 9 and 10: see rmwf/flash.h. */
#include "rmwf/flash.h"

/*
 * The longest track, of the first and the last band: if one between were longer, groups
 * would share flash blocks.
 */
static u32 longest_track(const struct rmwf_space *s)
{
	return max(rmwf_track_blocks(s, 0), rmwf_track_blocks(s, s->blocks / s->band_blocks - 1));
}

/**
 * rmwf_flash_init() - make an empty flash
 * @f: the flash
 * @s: the shingled space that it is a cache of
 * @slots: number of pages
 * @page_blocks: pages of a flash block; 0: RMWF_DEFAULT_PAGES, or all
 * @group_columns: columns of a group; 0: chosen from the number of flash blocks
 * @why: on error, a sentence
 *
 * Context: may sleep.
 * Return: 0, -EINVAL or -ENOMEM.  The caller calls rmwf_flash_exit() also after an error.
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
 * Placing blocks
 */

/**
 * rmwf_block_of() - the flash block of a group of columns (the block-level map)
 * @f: the flash
 * @p: home of a block of the group
 * @n: limited to the number of blocks from there on in the same group
 *
 * Context: any.
 * Return: number of the flash block.
 */
u32 rmwf_block_of(const struct rmwf_flash *f, const struct rmwf_place *p, u32 *n)
{
	u64 group = (u64)p->band * f->band_groups + p->column / f->group_columns;
	u32 block;

	/* The last group of a track may have fewer columns. */
	*n = min3(*n, f->group_columns - p->column % f->group_columns, p->columns - p->column);
	div_u64_rem(group, f->nr_blocks, &block);
	return block;
}

/* Take consecutive free pages of a flash block that has any. */
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
 * rmwf_flash_place() - find pages for blocks (Algorithm 9)
 * @f: the flash
 * @p: home of the first block
 * @n: number of blocks, at most; all of one band
 * @slot: result: the first page
 *
 * Context: map lock.
 * Return: number of consecutive pages, 0 if none is free.
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
	/* In flash that is nearly full the next free block may be far away. */
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
 * rmwf_flash_abort() - placed pages were not written
 * @f: the flash
 * @slot: the first page
 * @n: number of pages
 *
 * They are not used again, up to a quarter of each flash block: otherwise a page that cannot be
 * written is always the last free one of its flash block, and each write there fails.
 * rmwf_flash_ready() forgets them.
 *
 * Context: map lock.
 */
void rmwf_flash_abort(struct rmwf_flash *f, u32 slot, u32 n)
{
	for (; n; n--, slot++) {
		struct rmwf_block *b = &f->block[slot / f->page_blocks];

		if (b->unfit < f->page_blocks / 4)
			b->unfit++;
		else
			put(f, slot);
	}
}

/* ------------------------------------------------------------------------
 * Age of pages
 */

static void make_young(struct rmwf_flash *f, u32 slot, u32 n)
{
	if (f->young)
		bitmap_set(f->age, slot, n);
	else
		bitmap_clear(f->age, slot, n);
}

/**
 * rmwf_flash_age() - from now on, the present content of all pages is old
 * @f: the flash; rmwf_flash_old() must have reached the end since the last call
 *
 * Context: map lock.
 */
void rmwf_flash_age(struct rmwf_flash *f)
{
	f->young = !f->young;
}

/**
 * rmwf_flash_old() - find a page with old content
 * @f: the flash
 * @at: where to begin, 0 after rmwf_flash_age(); result: the page, or where to continue;
 *	the number of pages at the end
 *
 * Pages that are passed become young: they hold nothing, or newer content.
 *
 * Context: map lock.
 * Return: true if a page was found in the part that was searched.
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
 * Content of pages
 */

/**
 * rmwf_flash_hold() - pages hold blocks from now on, each written to flash once
 * @f: the flash
 * @slot: the first page; these pages hold no blocks
 * @lblk: the first block
 * @n: number of blocks, at most; ends before the first block that is in another page
 * @band: band of the blocks
 *
 * Context: map lock.
 * Return: number of blocks mapped.
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
 * rmwf_flash_forget() - a page no longer holds its block
 * @f: the flash
 * @slot: the page
 * @band: band of the block
 *
 * Context: map lock.
 */
void rmwf_flash_forget(struct rmwf_flash *f, u32 slot, u32 band)
{
	f->cached[band]--;
	shingle_slotmap_remove(&f->map, slot, 1);
}

/* Reduce an index of less than twice the ring's size. */
static u32 ring(const struct rmwf_flash *f, u32 at)
{
	return at < f->map.nr_slots ? at : at - f->map.nr_slots;
}

/**
 * rmwf_flash_free() - a page is free when a transaction is durable
 * @f: the flash
 * @slot: the page
 * @seq: the transaction
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
 * rmwf_flash_release() - free pages given up by durable transactions
 * @f: the flash
 * @seq: last of these transactions
 *
 * Context: map lock.
 * Return: true if more remain.
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
 * rmwf_flash_ready() - derive the rest of the state from what was loaded
 * @f: the flash, with its hash; pages that are not in the hash are free
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
