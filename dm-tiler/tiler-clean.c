// SPDX-License-Identifier: GPL-2.0
/*
 * Tiler: cleaning a region, compared with the thesis.  Pure code; see tiler-region.h.
 *
 * Ma (2019), Algorithm 2:
 *
 *	for each entry (L-ARO -> P-ARO) in DMT		tiler_clean_next()
 *		read the valid data			tiler_clean_extent(): src
 *		append them into the AR			tiler_clean_extent(): dst
 *		update the entry in the DMT		tiler_clean_done()
 *
 * The thesis appends to the region that it reads from.  A power cut then loses all data that
 * were overwritten and not yet rewritten (T4).  Done block by block, the algorithm destroys
 * data that it has not read yet, even without a power cut.  So here:
 *
 * - A clean reads the slot where the region is and writes to another slot.  The old slot is
 *   not changed until tiler_clean_flip() is durable.
 * - A clean consists of steps (T8).  Between steps the host writes to the new slot, after the
 *   places already taken.  Each slot has a map; a block in the new slot's map is newer and is
 *   not moved.
 * - A write of a block that has not been moved takes only the room that moving it would have
 *   taken.  So a region without over-provisioning, with all blocks valid, is served, too: a
 *   clean takes in at least the write that it was begun for (T5).
 *
 * Any write may fail and leave its places unusable.  So at most one write at a time may use
 * room that the remaining blocks need: see tiler_clean_place().
 */
#include "tiler-region.h"

/**
 * tiler_clean_begin() - begin to move a region
 * @r: the region, with all its pages
 * @to: an empty slot, after tiler_slot_init(), with all pages; not used if the shape has
 *	@unsafe_inplace
 *
 * Context: under the map lock.
 * Return: 0; or -EAGAIN if writes are in flight.  No writes are placed then; the caller
 *	tries again when those in flight have ended.
 */
int tiler_clean_begin(struct tiler_region *r, struct tiler_slot *to)
{
	r->drain = r->inflight;
	if (r->inflight)
		return -EAGAIN;
	r->to = r->shape->unsafe_inplace ? r->at : to;
	r->left = r->at->live;
	r->clean_laro = 0;
	return 0;
}

/**
 * tiler_clean_place() - find room in the slot that a region is moved to
 * @r: the region
 * @laro: first block
 * @n: number of blocks
 * @out: result
 *
 * Context: tiler_place().
 * Return: as tiler_place().
 */
int tiler_clean_place(struct tiler_region *r, u32 laro, u32 n, struct tiler_run *out)
{
	u32 need = 0, i;
	s32 room;

	if (tiler_in_place(r))
		return -EBUSY;
	room = tiler_slack(r);
	n = min(n, tiler_blocks(r->shape) - r->to->fill);
	if (n)
		n = min(n, tiler_run_rest(r->shape, r->to, r->to->fill));
	for (i = 0; i < n; i++) {
		need += !tiler_is_left(r, laro + i);
		if ((s32)need > room)
			break;
	}
	if (!i)
		return r->inflight ? -EBUSY : -ENOSPC;
	r->count->merged_blocks += i;
	tiler_take(r, r->to, r->to->fill, i, out);
	r->to->fill += i;
	return 0;
}

/**
 * tiler_clean_look() - test whether the next page has blocks to move
 * @r: the region; the page of @r->clean_laro is present in both slots
 *
 * Advances @r->clean_laro to the first block to move, or past the page if there is none.
 *
 * Context: under the map lock.
 * Return: true if a block was found.
 */
bool tiler_clean_look(struct tiler_region *r)
{
	u32 end = min(r->clean_laro + tiler_page_rest(r->clean_laro), r->shape->logical_blocks);

	for (; r->clean_laro < end; r->clean_laro++) {
		if (tiler_is_left(r, r->clean_laro))
			return true;
	}
	return false;
}

/* Number of places, up to @n, until they cross the start of their track. */
static u32 ascending(const struct tiler_region *r, u32 n)
{
	u32 done = 0, rest;

	while (done < n) {
		rest = tiler_run_rest(r->shape, r->to, r->to->fill + done);
		done += rest;
		if (rest < tiler_row_rest(r->shape, r->to->fill + done - rest))
			break;
	}
	return min(done, n);
}

/**
 * tiler_clean_next() - the next step of a clean
 * @r: the region.  Unless it is cleaned in place, only the page of @r->clean_laro is used,
 *	in both slots, and tiler_clean_look() must just have found a block there
 * @most: most blocks in the step
 * @step: result
 *
 * The destinations of a step ascend on the medium, too.
 *
 * Until tiler_clean_done() or tiler_clean_failed() the region does not change, and no write
 * is placed.
 *
 * Context: under the map lock.
 * Return: 1; 0 if no block is left and tiler_clean_flip() is due; -EAGAIN if writes are in
 *	flight, because the head might cover their places: no writes are placed then, and
 *	the caller tries again when those in flight have ended.
 */
int tiler_clean_next(struct tiler_region *r, u32 most, struct tiler_step *step)
{
	u32 next = U32_MAX, laro, end;

	memset(step, 0, sizeof(*step));
	r->drain = false;
	if (!r->left)
		return 0;
	r->drain = r->inflight;
	if (r->inflight)
		return -EAGAIN;
	end = r->shape->logical_blocks;
	if (tiler_in_place(r)) {
		most = U32_MAX;
	} else {
		while (r->clean_laro < end && !tiler_clean_look(r))
			;
		end = min(end, r->clean_laro + tiler_page_rest(r->clean_laro));
		most = ascending(r, most);
	}
	laro = r->clean_laro;
	step->from = laro;
	for (; laro < end && step->n < most; laro++) {
		if (!tiler_is_left(r, laro))
			continue;
		step->runs += laro != next;
		step->n++;
		next = laro + 1;
	}
	step->until = laro;
	step->dst = tiler_in_place(r) ? 0 : r->to->fill;
	step->whole_in_memory = tiler_in_place(r);
	r->stepping = true;
	if (!tiler_in_place(r))
		r->to->fill += step->n;
	return 1;
}

/**
 * tiler_clean_moved() - the next run of consecutive L-AROs of a step; one journal record
 * each
 * @r: the region
 * @step: the step
 * @cursor: 0 at first, then from tiler_clean_behind()
 * @out: result
 *
 * Context: under the map lock, while the step is in progress.
 * Return: false if there is no further run.
 */
bool tiler_clean_moved(const struct tiler_region *r, const struct tiler_step *step, u64 cursor,
		       struct tiler_extent *out)
{
	u32 laro = cursor ? (u32)cursor : step->from;

	while (laro < step->until && !tiler_is_left(r, laro))
		laro++;
	if (laro == step->until)
		return false;
	out->laro = laro;
	out->src = tiler_entry(r->at, laro);
	out->dst = step->dst + (cursor >> 32);
	out->n = 1;
	while (laro + out->n < step->until && tiler_is_left(r, laro + out->n))
		out->n++;
	return true;
}

/**
 * tiler_clean_extent() - the same, limited to blocks that are contiguous in both slots
 * @r: the region
 * @step: the step
 * @cursor: 0 at first, then from tiler_clean_behind(), also in the middle of an extent
 * @out: result; destinations ascend
 *
 * Context: as tiler_clean_moved().
 * Return: false if there is no further extent.
 */
bool tiler_clean_extent(const struct tiler_region *r, const struct tiler_step *step, u64 cursor,
			struct tiler_extent *out)
{
	u32 most, n = 1;

	if (!tiler_clean_moved(r, step, cursor, out))
		return false;
	most = min3(out->n, tiler_run_rest(r->shape, r->at, out->src),
		    tiler_run_rest(r->shape, r->to, out->dst));
	while (n < most && tiler_entry(r->at, out->laro + n) == out->src + n)
		n++;
	out->n = n;
	return true;
}

/* The thesis's way: all old places are forgotten at the same moment. */
static void done_in_place(struct tiler_region *r, const struct tiler_step *step)
{
	struct tiler_slot *slot = r->at;
	u32 laro, paro = 0;
	u64 changed = slot->changed;

	tiler_slot_init(r->shape, slot);
	slot->changed = changed;
	for (laro = 0; laro < step->until; laro++) {
		if (tiler_entry(slot, laro) == TILER_NONE)
			continue;
		__set_bit(tiler_cell(r->shape, paro), slot->taken);
		tiler_set_entry(slot, laro, paro++);
	}
	slot->live = paro;
	slot->fill = paro;
	r->left = 0;
}

/**
 * tiler_clean_done() - the copies of a step are on the medium
 * @r: the region, with all pages of both slots
 * @step: the step
 *
 * The old places are given up by the flip, not here.
 *
 * Context: under the map lock.
 */
void tiler_clean_done(struct tiler_region *r, const struct tiler_step *step)
{
	u32 paro = step->dst, laro;

	if (tiler_in_place(r)) {
		done_in_place(r, step);
	} else {
		for (laro = step->from; laro < step->until; laro++) {
			if (!tiler_is_left(r, laro))
				continue;
			__set_bit(tiler_cell(r->shape, paro), r->to->taken);
			tiler_set_entry(r->to, laro, paro++);
			r->to->live++;
			r->left--;
		}
		r->clean_laro = step->until;
	}
	r->count->moved_blocks += step->n;
	r->stepping = false;
	r->failed = false;
}

/**
 * tiler_clean_failed() - a step of a clean has failed
 * @r: the region
 * @step: the step, which is offered again
 * @wrote: a write of the step failed; otherwise a read
 *
 * The step is tried again at the same places, because nothing was placed after them.  If
 * the write fails again, the step moves on to the following places if there is room.
 *
 * Context: under the map lock.
 */
void tiler_clean_failed(struct tiler_region *r, const struct tiler_step *step, bool wrote)
{
	r->stepping = false;
	if (tiler_in_place(r))
		return;
	/*
	 * Here tiler_slack() counts the step's blocks twice: in @left and below @fill.  If it
	 * is negative, there is no room after these places.
	 */
	if (!wrote || !r->failed || tiler_slack(r) < 0)
		r->to->fill = step->dst;
	r->failed ^= wrote;
}

/**
 * tiler_clean_flip() - from now on the region is in the slot that it was moved to
 * @r: the region, with nothing left to move
 *
 * Context: under the map lock.
 * Return: the old slot.  It is empty, but must not be used before the flip is durable and
 *	no reader uses it.  NULL if the region was cleaned in place.
 */
struct tiler_slot *tiler_clean_flip(struct tiler_region *r)
{
	struct tiler_slot *old = tiler_in_place(r) ? NULL : r->at;

	r->at = r->to;
	r->to = NULL;
	r->cursor = 0;
	r->dry = false;
	r->drain = false;
	r->failed = false;
	r->count->cleans++;
	return old;
}
