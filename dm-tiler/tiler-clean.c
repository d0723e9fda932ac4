// SPDX-License-Identifier: GPL-2.0
/*
 * Tiler: cleaning a region, beside the thesis.  Pure code, see tiler-region.h.
 *
 * Ma (2019), Algorithm 2:
 *
 *	for each entry (L-ARO -> P-ARO) in DMT		tiler_clean_next()
 *		read the valid data			tiler_clean_extent(): src
 *		append them into the AR			tiler_clean_extent(): dst
 *		update the entry in the DMT		tiler_clean_done()
 *
 * It appends to the region that it reads from, and a power cut then costs all that was
 * overwritten and not rewritten (T4); done block by block it destroys what it has not
 * read yet even without one.  So:
 *
 * - What is read is the slot where the region is, what is written another one, and the
 *   old one is left alone until tiler_clean_flip() is durable.
 * - It goes in steps (T8).  Between them the host writes to the new slot, behind what is
 *   there.  Each slot has a map; what is in the new one's is newer, and is not moved.
 * - A write of what has not been moved takes no room that moving it would not have taken.
 *   So a region without over-provisioning, all of it valid, is served, too: a clean takes
 *   in at least the write that it was begun for (T5).
 *
 * Whatever is under way may fail and its places stay spent, so no more than one write at
 * a time depends upon the room that is to be left: tiler_clean_place().
 */
#include "tiler-region.h"

/**
 * tiler_clean_begin() - from now on the region is being moved
 * @r: the region, all its pages there
 * @to: a slot that holds nothing, tiler_slot_init(), with all pages; if the shape says
 *	@unsafe_inplace it is not used
 *
 * Context: under the map lock.
 * Return: 0; -EAGAIN if that must be tried again when the
 * writes under way have ended, and none is placed until then.
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
 * tiler_clean_place() - find room in the slot that the region is moved to
 * @r: the region
 * @laro: first
 * @n: how many
 * @out: result
 *
 * Context: tiler_place().
 * Return: what that does.
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
 * tiler_clean_aborted() - a write to the slot that the region is moved to has failed
 * @r: the region
 * @run: its places
 *
 * If the room is needed the next one goes there: nothing else has gone behind it.
 *
 * Context: tiler_abort().
 */
void tiler_clean_aborted(struct tiler_region *r, const struct tiler_run *run)
{
	if (tiler_slack(r) < 0 && run->slot == r->to && r->to->fill == run->paro + run->n)
		r->to->fill = run->paro;
}

/**
 * tiler_clean_look() - is anything left to be moved in the page that is next?
 * @r: the region; of both slots the page that @r->clean_laro is in is there
 *
 * If so @r->clean_laro is the first, if not it is in the page behind that.
 *
 * Context: under the map lock.
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

/* Until places do not follow each other on the medium, or lie before those on their track. */
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
 * @r: the region; unless it is cleaned in place it takes no other page than the one that
 *	@r->clean_laro is in, of both slots, if tiler_clean_look() has just found something there
 * @most: blocks, at most
 * @step: result
 *
 * On the medium its destinations ascend, too.
 *
 * Until tiler_clean_done() or tiler_clean_failed() nothing of the region changes, and no
 * write is placed.
 *
 * Context: under the map lock.
 * Return: 1; 0 if there is nothing left to be moved, and
 * tiler_clean_flip() is due; -EAGAIN if it must be asked for again when the writes under way
 * have ended, since the head might be over its places then: none is placed until then.
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
 * tiler_clean_moved() - L-AROs of a step that follow each other: a record each
 * @r: the region
 * @step: the step
 * @cursor: 0 at first, then tiler_clean_behind()
 * @out: result
 *
 * Context: under the map lock, while the step is in progress.
 * Return: false if there is
 * no other.
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
 * tiler_clean_extent() - the same, of what lies together
 * @r: the region
 * @step: the step
 * @cursor: 0 at first, then tiler_clean_behind(), of a part of the extent if it must be
 * @out: result; destinations ascend
 *
 * Context: as tiler_clean_moved().
 * Return: what that does.
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

/* The thesis's: the old places of all are forgotten in the same moment. */
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
 * tiler_clean_done() - the copies are on the medium
 * @r: the region, all pages of both slots there
 * @step: the step
 *
 * The places where they were are not given up: that is the flip's.
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
 * tiler_clean_failed() - or they are not
 * @r: the region
 * @step: the step, which is offered again
 * @wrote: a write of it has failed
 *
 * To the same places, since nothing else is behind them.  If writing fails, too, to those
 * behind them, if there is room.
 *
 * Context: under the map lock.
 */
void tiler_clean_failed(struct tiler_region *r, const struct tiler_step *step, bool wrote)
{
	r->stepping = false;
	if (tiler_in_place(r))
		return;
	/* What is left counts twice now: where it is, and where it was to go. */
	if (!wrote || !r->failed || tiler_slack(r) < 0)
		r->to->fill = step->dst;
	r->failed ^= wrote;
}

/**
 * tiler_clean_flip() - the region is where it was moved to
 * @r: the region, with nothing left to be moved
 *
 * Context: under the map lock.
 * Return: the slot where it was: it holds nothing, but is not
 * to be used before that is durable and nobody reads there; NULL if it was cleaned in place.
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
