// SPDX-License-Identifier: GPL-2.0
/*
 * The state of an autonomous region, derived from its pages, and its changes by writes,
 * discards and releases.  Pure code; see tiler-region.h.
 *
 * An update gives up the old place.  The place stays taken until a map without it is
 * durable and no reader uses it any more (R0, R2).
 */
#include "tiler-region.h"

/**
 * tiler_shape_check() - check the parameters of a kind of region
 * @shape: the parameters
 * @why: on error, a sentence that says what is wrong
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int tiler_shape_check(const struct tiler_shape *shape, const char **why)
{
	*why = NULL;
	if (!shape->rows || !shape->columns ||
	    (u64)shape->rows * shape->columns > TILER_MAX_BLOCKS)
		*why = "a region has 1 to 65535 blocks";
	else if (!shape->head_tracks || shape->head_tracks > 64)
		*why = "a write head is 1 to 64 tracks wide";
	else if (!shape->logical_blocks || shape->logical_blocks > tiler_blocks(shape))
		*why = "a region presents at least one block, and no more than it has";
	else if (shape->turn >= shape->columns)
		*why = "rows turn by less than a row";
	return *why ? -EINVAL : 0;
}

/**
 * tiler_slot_init() - make a slot empty; also before its pages are added
 * @shape: kind of region
 * @slot: result; the caller sets its number, pages and bitmaps.  Each bitmap has one bit
 *	per place, in whole longs
 *
 * Context: under the map lock.
 */
void tiler_slot_init(const struct tiler_shape *shape, struct tiler_slot *slot)
{
	size_t bytes = BITS_TO_LONGS(tiler_blocks(shape)) * sizeof(long);
	u32 i;

	memset(slot->taken, 0, bytes);
	for (i = 0; i < ARRAY_SIZE(slot->pins); i++) {
		memset(slot->pins[i].cells, 0, bytes);
		slot->pins[i].nr = 0;
	}
	slot->changed = 0;
	slot->fill = 0;
	slot->live = 0;
	slot->spent = 0;
}

/**
 * tiler_slot_add_page() - add a page of the map to the state of a slot
 * @shape: kind of region
 * @slot: the slot, with that page
 * @page: number of the page; each page once after tiler_slot_init()
 *
 * Context: under the map lock.
 * Return: 0, or -EUCLEAN if the page names a place that does not exist or is taken already.
 */
int tiler_slot_add_page(const struct tiler_shape *shape, struct tiler_slot *slot, u32 page)
{
	u32 laro = page * TILER_PAGE_ENTRIES;
	u32 end = min(laro + TILER_PAGE_ENTRIES, shape->logical_blocks);

	for (; laro < end; laro++) {
		u32 paro = tiler_entry(slot, laro);

		if (paro == TILER_NONE)
			continue;
		if (paro >= tiler_blocks(shape) ||
		    __test_and_set_bit(tiler_cell(shape, paro), slot->taken))
			return -EUCLEAN;
		slot->fill = max(slot->fill, paro + 1);
		slot->live++;
	}
	return 0;
}

/**
 * tiler_region_add_page() - tiler_slot_add_page() for both slots of a region
 * @r: the region: @shape, @count, @at and @to are set, the rest is zeroes
 * @page: number of the page; each page once
 *
 * Context: under the map lock.
 * Return: as tiler_slot_add_page().
 */
int tiler_region_add_page(struct tiler_region *r, u32 page)
{
	u32 laro = page * TILER_PAGE_ENTRIES;
	u32 end = min(laro + TILER_PAGE_ENTRIES, r->shape->logical_blocks);
	int err = tiler_slot_add_page(r->shape, r->at, page);

	if (err || !r->to || r->to == r->at)
		return err;
	err = tiler_slot_add_page(r->shape, r->to, page);
	for (; laro < end; laro++)
		r->left += tiler_is_left(r, laro);
	return err;
}

/**
 * tiler_region_ready() - check a region when all pages are added
 * @r: the region, after tiler_region_add_page() for each page
 * @why: on error, a sentence that says what is wrong
 *
 * The log continues after the last current place.  It may have been further before, but the
 * places there hold nothing, so the head destroys nothing.
 *
 * Context: under the map lock.
 * Return: 0 or -EUCLEAN.
 */
int tiler_region_ready(struct tiler_region *r, const char **why)
{
	*why = "a region is moved to where it has no room";
	return r->to && r->to->fill + r->left > tiler_blocks(r->shape) ? -EUCLEAN : 0;
}

/**
 * tiler_find() - look up blocks in one page of the map
 * @shape: kind of region
 * @at: the page, in the map of the region's slot
 * @to: the page in the map of the slot that the region is moved to, or NULL
 * @i: index of the first block in the page
 * @n: number of blocks, all in the page
 * @out: result: places of the first blocks, at least one, all in one row
 *
 * Context: under the map lock.
 */
void tiler_find(const struct tiler_shape *shape, const __le16 *at, const __le16 *to, u32 i,
		u32 n, struct tiler_found *out)
{
	const __le16 *page = to;

	out->n = 1;
	out->paro = to ? tiler_page_entry(to, i) : TILER_NONE;
	out->in_to = out->paro != TILER_NONE;
	if (!out->in_to) {
		page = at;
		out->paro = tiler_page_entry(at, i);
	}
	if (out->paro == TILER_NONE) {
		while (out->n < n && !at[i + out->n] && (!to || !to[i + out->n]))
			out->n++;
		return;
	}
	n = min(n, tiler_row_rest(shape, out->paro));
	while (out->n < n && tiler_page_entry(page, i + out->n) == out->paro + out->n &&
	       (out->in_to || !to || !to[i + out->n]))
		out->n++;
}

/**
 * tiler_lookup() - find the current places of blocks
 * @r: the region; the pages of these blocks are present
 * @laro: first block
 * @n: number of blocks
 * @out: result: places of the first blocks, at least one, in one row and one page of the
 *	map
 *
 * Algorithm 1, line 2.
 *
 * Context: under the map lock.
 */
void tiler_lookup(const struct tiler_region *r, u32 laro, u32 n, struct tiler_run *out)
{
	u32 page = laro / TILER_PAGE_ENTRIES;
	struct tiler_found found;

	tiler_find(r->shape, r->at->page[page], r->to ? r->to->page[page] : NULL,
		   laro % TILER_PAGE_ENTRIES, min(n, tiler_page_rest(laro)), &found);
	out->slot = found.paro == TILER_NONE ? NULL : found.in_to ? r->to : r->at;
	out->paro = found.paro;
	out->n = found.n;
}

/* Number of places, of @n consecutive ones in a row, with cells before the row wraps. */
static u32 cells_before_wrap(const struct tiler_shape *shape, u32 cell, u32 n)
{
	return shape->turn ? min(n, shape->columns - cell % shape->columns) : n;
}

/**
 * tiler_set_cells() - set the bits of places
 * @shape: kind of region
 * @bits: bitmap of the cells of a slot
 * @paro: first place
 * @n: number of places, all in one row
 *
 * Context: under the map lock.
 */
void tiler_set_cells(const struct tiler_shape *shape, unsigned long *bits, u32 paro, u32 n)
{
	u32 cell = tiler_cell(shape, paro), first = cells_before_wrap(shape, cell, n);

	bitmap_set(bits, cell, first);
	if (first < n)
		bitmap_set(bits, cell + first - shape->columns, n - first);
}

static void clear_cells(const struct tiler_shape *shape, unsigned long *bits, u32 paro, u32 n)
{
	u32 cell = tiler_cell(shape, paro), first = cells_before_wrap(shape, cell, n);

	bitmap_clear(bits, cell, first);
	if (first < n)
		bitmap_clear(bits, cell + first - shape->columns, n - first);
}

/* Places of one row hold no current blocks any more. */
static void give_up(struct tiler_region *r, struct tiler_slot *slot, u32 paro, u32 n, u64 seq)
{
	struct tiler_pins *young = &slot->pins[1];

	slot->live -= n;
	if (r->shape->unsafe_reuse) {
		clear_cells(r->shape, slot->taken, paro, n);
		r->dry = false;
		return;
	}
	if (young->nr && young->seq != seq && !slot->pins[0].nr)
		swap(slot->pins[0], slot->pins[1]);
	/*
	 * All pins of a generation take the later @seq; some wait for one transaction more
	 * than needed.
	 */
	young->seq = seq;
	young->nr += n;
	tiler_set_cells(r->shape, young->cells, paro, n);
}

/* Map blocks of one page to consecutive places. */
static void set_entries(struct tiler_slot *slot, u32 laro, u32 paro, u32 n)
{
	u32 page = laro / TILER_PAGE_ENTRIES, i;
	__le16 *entry = slot->page[page] + laro % TILER_PAGE_ENTRIES;

	for (i = 0; i < n; i++)
		entry[i] = cpu_to_le16((paro + i + 1) & U16_MAX);
	slot->changed |= 1ULL << page;
}

/**
 * tiler_commit() - the data of placed blocks are on the medium
 * @r: the region; the pages of these blocks are present
 * @laro: first block
 * @run: from tiler_place()
 * @seq: transaction that the change belongs to
 *
 * Context: under the map lock.
 */
void tiler_commit(struct tiler_region *r, u32 laro, const struct tiler_run *run, u64 seq)
{
	struct tiler_slot *slot = run->slot;
	u32 paro = run->paro, end = laro + run->n, i;
	struct tiler_found old;

	r->inflight -= run->n;
	slot->live += run->n;
	/* Old places that are consecutive are given up together. */
	for (; laro < end; laro += old.n, paro += old.n) {
		tiler_find(r->shape, slot->page[laro / TILER_PAGE_ENTRIES], NULL,
			   laro % TILER_PAGE_ENTRIES, min(end - laro, tiler_page_rest(laro)),
			   &old);
		if (old.paro != TILER_NONE)
			give_up(r, slot, old.paro, old.n, seq);
		for (i = 0; r->to && old.paro == TILER_NONE && i < old.n; i++)
			r->left -= tiler_entry(r->at, laro + i) != TILER_NONE;
		set_entries(slot, laro, paro, old.n);
	}
}

/**
 * tiler_take() - place blocks
 * @r: the region
 * @slot: the slot
 * @paro: first place
 * @n: number of places, all in one row
 * @out: result
 *
 * Context: under the map lock.
 */
void tiler_take(struct tiler_region *r, struct tiler_slot *slot, u32 paro, u32 n,
		struct tiler_run *out)
{
	out->slot = slot;
	out->paro = paro;
	out->n = n;
	tiler_set_cells(r->shape, slot->taken, paro, n);
	r->inflight += n;
}

/*
 * A write to the slot that a region is moved to has failed.  If the clean needs the room, the next
 * write uses these places again; no other was placed after them.
 */
static void take_back(struct tiler_region *r, const struct tiler_run *run)
{
	if (tiler_slack(r) < 0 && run->slot == r->to && r->to->fill == run->paro + run->n)
		r->to->fill = run->paro;
}

/**
 * tiler_abort() - placed blocks were not written
 * @r: the region
 * @run: from tiler_place()
 *
 * No write uses these places again before the region has been moved, or has left memory.
 * Otherwise each write to a region without other free places would fail at a bad one.  While the
 * region is being moved the places may be needed; a later failure takes them out of use.
 *
 * Context: under the map lock.
 */
void tiler_abort(struct tiler_region *r, const struct tiler_run *run)
{
	r->inflight -= run->n;
	if (!r->to) {
		run->slot->spent += run->n;
		return;
	}
	clear_cells(r->shape, run->slot->taken, run->paro, run->n);
	r->dry = false;
	take_back(r, run);
}

/**
 * tiler_drop() - discard blocks
 * @r: the region; the pages of these blocks are present
 * @laro: first block
 * @n: number of blocks
 * @seq: transaction that the change belongs to
 *
 * Context: under the map lock.
 * Return: 0, or -EBUSY while a step is in progress.
 */
int tiler_drop(struct tiler_region *r, u32 laro, u32 n, u64 seq)
{
	u32 end = laro + n;

	if (r->stepping)
		return -EBUSY;
	for (; laro < end; laro++) {
		u32 old = tiler_entry(r->at, laro), young = TILER_NONE;

		if (r->to)
			young = tiler_entry(r->to, laro);
		r->left -= r->to && old != TILER_NONE && young == TILER_NONE;
		if (young != TILER_NONE) {
			give_up(r, r->to, young, 1, seq);
			tiler_set_entry(r->to, laro, TILER_NONE);
		}
		if (old != TILER_NONE) {
			give_up(r, r->at, old, 1, seq);
			tiler_set_entry(r->at, laro, TILER_NONE);
		}
	}
	return 0;
}

static void release_slot(struct tiler_region *r, struct tiler_slot *slot, u64 seq)
{
	u32 longs = BITS_TO_LONGS(tiler_blocks(r->shape)), i, k;

	for (i = 0; i < ARRAY_SIZE(slot->pins); i++) {
		struct tiler_pins *p = &slot->pins[i];

		if (!p->nr || p->seq > seq)
			continue;
		for (k = 0; k < longs; k++) {
			slot->taken[k] &= ~p->cells[k];
			p->cells[k] = 0;
		}
		p->nr = 0;
		r->dry = false;
	}
}

/**
 * tiler_release() - free the places given up by transactions that are now durable
 * @r: the region
 * @seq: last of these transactions
 *
 * Context: under the map lock.
 * Return: true if other places still wait.
 */
bool tiler_release(struct tiler_region *r, u64 seq)
{
	release_slot(r, r->at, seq);
	if (r->to)
		release_slot(r, r->to, seq);
	return tiler_pending(r);
}

/**
 * tiler_referenced() - test whether any of these places is needed
 * @r: the region
 * @slot: its slot, or the slot that it is moved to
 * @paro: first place
 * @n: number of places
 *
 * A place is needed by the current map, by the map that recovery would rebuild, or by a
 * write in flight.
 *
 * Context: under the map lock.
 * Return: true if one is needed.
 */
bool tiler_referenced(const struct tiler_region *r, const struct tiler_slot *slot, u32 paro,
		      u32 n)
{
	u32 columns = r->shape->columns, cell, m;

	for (; n; n -= m, paro += m) {
		cell = tiler_cell(r->shape, paro);
		m = min3(n, tiler_row_rest(r->shape, paro), columns - cell % columns);
		if (find_next_bit(slot->taken, cell + m, cell) < cell + m)
			return true;
	}
	return false;
}

static u32 nr_set(const unsigned long *bits, u32 nr)
{
	u32 sum = 0, i;

	for (i = 0; i < BITS_TO_LONGS(nr); i++)
		sum += hweight_long(bits[i]);
	return sum;
}

static u32 verify_slot(const struct tiler_region *r, const struct tiler_slot *slot,
		       shingle_report_fn report, void *ctx)
{
	u32 blocks = tiler_blocks(r->shape), live = 0, bad = 0, taken, laro, i;

	for (laro = 0; laro < r->shape->logical_blocks; laro++) {
		u32 paro = tiler_entry(slot, laro), cell;

		if (paro == TILER_NONE)
			continue;
		live++;
		cell = paro < slot->fill ? tiler_cell(r->shape, paro) : 0;
		if (paro < slot->fill && test_bit(cell, slot->taken) &&
		    !test_bit(cell, slot->pins[0].cells) && !test_bit(cell, slot->pins[1].cells))
			continue;
		report(ctx, "slot %u: block %u is at place %u, which is not in use", slot->number,
		       laro, paro);
		bad++;
	}
	taken = live + slot->spent + (slot == tiler_newest(r) ? r->inflight : 0);
	for (i = 0; i < ARRAY_SIZE(slot->pins); i++)
		taken += nr_set(slot->pins[i].cells, blocks);
	if (taken != nr_set(slot->taken, blocks)) {
		report(ctx, "slot %u: %u places are in use, or are to be, %u are taken",
		       slot->number, taken, nr_set(slot->taken, blocks));
		bad++;
	}
	if (live != slot->live) {
		report(ctx, "slot %u: %u blocks have a place, counted %u", slot->number, live,
		       slot->live);
		bad++;
	}
	return bad;
}

/**
 * tiler_verify() - report every broken invariant
 * @r: the region, with all its pages
 * @report: as in verify() of an engine
 * @ctx: as in verify() of an engine
 *
 * Context: under the map lock.
 * Return: number of broken invariants.
 */
u32 tiler_verify(const struct tiler_region *r, shingle_report_fn report, void *ctx)
{
	u32 bad = verify_slot(r, r->at, report, ctx), left = 0, laro;

	if (!r->to || r->to == r->at)
		return bad;
	bad += verify_slot(r, r->to, report, ctx);
	for (laro = 0; laro < r->shape->logical_blocks; laro++)
		left += tiler_is_left(r, laro);
	if (left != r->left) {
		report(ctx, "slot %u: %u blocks are to be moved, counted %u", r->at->number, left,
		       r->left);
		bad++;
	}
	return bad;
}
