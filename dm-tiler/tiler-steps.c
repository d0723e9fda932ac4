// SPDX-License-Identifier: GPL-2.0
/*
 * The engine of autonomous regions: cleaning.  Pure code; see tiler-state.h.  tiler-clean.c
 * chooses the blocks to move.
 *
 * One region is cleaned at a time, from when a write finds it full until it has flipped:
 *
 *	wipe	clear a page of the spare slot's map, which may hold entries of an earlier
 *		region; one step for each such page
 *	begin	from now on the region is being moved to the spare slot
 *	move	copy blocks of one page of the region's map
 *	flip	the region is in the new slot; the old slot is spare when this is durable and
 *		no reader uses it
 *
 * The steps before the flip give up no place, so they need no sync of their own.
 *
 * The thesis cleans under pressure only.  A forced clean and an idle clean take regions in
 * memory that have a full log and are not all valid.  A forced clean takes only those that are
 * in this state when it begins.  It ends, because a cleaned region has room again.
 */
#include "tiler-state.h"

/* ------------------------------------------------------------------------
 * Choosing a region
 */

static bool wants_clean(const struct tiler_resident *res)
{
	return res->region != NO_REGION && res->loaded && !res->broken && !res->r.to &&
	       tiler_state(&res->r) == TILER_LAZY && res->r.at->live < tiler_blocks(res->r.shape);
}

/*
 * Scans all residents, of which there are at most 4,096, a few words each.  The scan cannot
 * be split into several calls, because a result of 0 means that no region wants a clean.
 */
static u32 full_resident(const struct tiler *s, bool asked)
{
	u32 i;

	for (i = 0; i < s->pool.nr; i++) {
		const struct tiler_resident *res = &s->pool.list[i];

		if (wants_clean(res) && !res->immovable && (res->asked || !asked))
			return res->region;
	}
	return NO_REGION;
}

/* A region among those that were full when the forced clean began. */
static u32 asked_resident(struct tiler *s)
{
	u32 i, region;

	for (i = 0; i < s->pool.nr && !s->asked; i++)
		s->pool.list[i].asked = wants_clean(&s->pool.list[i]);
	region = full_resident(s, true);
	s->asked = region != NO_REGION;
	return region;
}

/*
 * An operation of struct shingle_engine_ops.  Counts regions that want a clean and cannot
 * get one.
 */
u32 tiler_left(struct shingle_engine *e)
{
	const struct tiler *s = to_tiler(e);
	u32 i, left = s->stuck;

	for (i = 0; i < s->pool.nr; i++)
		left += wants_clean(&s->pool.list[i]) && (s->stuck || s->pool.list[i].immovable);
	return left;
}

/* Choose the region to clean next for this reason. */
static u32 choose(struct tiler *s, enum shingle_why why)
{
	switch (why) {
	case SHINGLE_WHY_PRESSURE:
		return s->want;
	case SHINGLE_WHY_IDLE:
		return full_resident(s, false);
	case SHINGLE_WHY_FORCED:
		return asked_resident(s);
	default:
		return NO_REGION;
	}
}

/* Skip a region that cannot be cleaned. */
static int let_be(struct tiler *s, u32 region, bool for_good)
{
	u32 i = s->in_memory[region];

	if (s->want == region)
		s->want = NO_REGION;
	if (for_good && i != NO_RESIDENT && s->pool.list[i].loaded)
		s->pool.list[i].immovable = true;
	return 0;
}

static bool is_immovable(const struct tiler *s, u32 region)
{
	return s->in_memory[region] != NO_RESIDENT && s->pool.list[s->in_memory[region]].immovable;
}

/* ------------------------------------------------------------------------
 * Spare slots
 */

static struct tiler_spare *spares_of(struct tiler *s, const struct tiler_stretch *st)
{
	return &s->spares.list[(st - s->map.stretch) * s->spares.nr];
}

/*
 * Find a usable spare slot.  Returns NULL if there is none now; *@later tells whether there
 * will be.
 */
static struct tiler_spare *find_spare(struct tiler *s, const struct tiler_stretch *st, bool *later)
{
	struct tiler_spare *sp = spares_of(s, st);
	u32 i;

	*later = false;
	for (i = 0; i < s->spares.nr; i++, sp++) {
		if (sp->slot == NO_SLOT || tiler_slot_lost(s, st, sp->slot))
			continue;
		if (!sp->freed_seq)
			return sp;
		*later = true;
	}
	return NULL;
}

/* Returns 1 and a step if a page of the slot's map has entries, 0 if none does. */
static int wipe(struct tiler *s, const struct tiler_stretch *st, u32 slot,
		struct shingle_step *step)
{
	u32 looks = 0;

	if (s->wipe.slot != slot) {
		s->wipe.slot = slot;
		s->wipe.pages = 0;
	}
	for (; s->wipe.pages < st->pages; s->wipe.pages++) {
		u32 nr = tiler_map_page_of(st, slot, 0) + s->wipe.pages;
		const void *page = shingle_page(&s->engine, nr);

		if (!page)
			return SHINGLE_ABSENT;
		if ((const u8 *)page == s->engine.pages->zeroes)
			continue;
		if (looks++ == TILER_CALL_PAGES) {
			shingle_page_again(&s->engine, nr);
			return SHINGLE_ABSENT;
		}
		if (!memchr_inv(page, 0, SHINGLE_PAGE_BYTES))
			continue;
		if (!shingle_page_hold(&s->engine, nr))
			return SHINGLE_ABSENT;
		step->kind = TILER_STEP_WIPE;
		step->cookie = nr;
		step->sync = SHINGLE_SYNC_NONE;
		return 1;
	}
	return 0;
}

/* ------------------------------------------------------------------------
 * The next step
 */

/*
 * Wait for writes in flight, and place no more until then, unless the clean is only for
 * idle time.
 */
static int drain(struct tiler *s, struct tiler_resident *res, enum shingle_why why)
{
	res->r.drain = why != SHINGLE_WHY_IDLE;
	s->drained = res;
	return -EAGAIN;
}

static void undrain(struct tiler *s)
{
	if (s->drained)
		s->drained->r.drain = false;
	s->drained = NULL;
}

/* Hold all pages of the region's map, or none. */
static bool hold_all(struct tiler *s, struct tiler_region *r)
{
	u32 laro;

	for (laro = 0; laro < r->shape->logical_blocks; laro += TILER_PAGE_ENTRIES) {
		if (tiler_hold(s, r, laro)) {
			tiler_bind(s, r, laro);
			continue;
		}
		while (laro) {
			laro -= TILER_PAGE_ENTRIES;
			tiler_put(s, r, laro);
		}
		return false;
	}
	return true;
}

static void put_all(struct tiler *s, struct tiler_region *r)
{
	u64 changed = r->at->changed;
	u32 laro;

	for (laro = 0; laro < r->shape->logical_blocks; laro += TILER_PAGE_ENTRIES) {
		r->at->changed = changed;
		tiler_put(s, r, laro);
	}
}

/*
 * The thesis's way: overwrite the region in place, from memory.  Regions that would need
 * too many records are left out.
 */
static int clean_in_place(struct tiler *s, struct tiler_resident *res, struct shingle_step *step)
{
	struct tiler_region *r = &res->r;
	u32 n = 1;

	if (r->at->live > s->engine.step_records || !r->at->live)
		return 0;
	if (!hold_all(s, r))
		return SHINGLE_ABSENT;
	tiler_clean_begin(r, NULL);
	tiler_clean_next(r, U32_MAX, &s->step);
	step->kind = TILER_STEP_MOVE;
	step->n = s->step.n;
	step->records = s->step.runs;
	step->base = SHINGLE_NOWHERE;
	step->dst = tiler_pblk(tiler_stretch_of(r->shape), r->at->number, 0, &n);
	step->lblk = SHINGLE_NOWHERE;
	step->cookie = res->region;
	step->whole_in_memory = true;
	step->sync = SHINGLE_SYNC_COMMIT;
	return 1;
}

/* Begin to clean a region: find a slot for it. */
static int begin(struct tiler *s, u32 region, enum shingle_why why, struct shingle_step *step)
{
	struct tiler_resident *res;
	const struct tiler_stretch *st;
	struct tiler_spare *sp;
	bool later;
	int r;

	r = tiler_resident(s, region, &res);
	if (r == -EBUSY || r == -ENOSPC)
		return -EAGAIN;
	if (r == SHINGLE_FULL)
		return let_be(s, region, false);
	if (r)
		return r;
	/* Room was made meanwhile, or a release will make some. */
	if (why == SHINGLE_WHY_PRESSURE && !tiler_is_full(&res->r))
		return let_be(s, region, false);
	if (tiler_region_lost(s, region))
		return let_be(s, region, true);
	if (res->r.shape->unsafe_inplace) {
		if (res->r.inflight)
			return drain(s, res, why);
		r = clean_in_place(s, res, step);
		if (r)
			return r;
	}
	st = tiler_stretch_of(res->r.shape);
	sp = find_spare(s, st, &later);
	if (!sp)
		return later ? -EAGAIN : let_be(s, region, true);
	r = wipe(s, st, sp->slot, step);
	if (r)
		return r;
	if (res->r.inflight)
		return drain(s, res, why);
	step->kind = TILER_STEP_BEGIN;
	step->cookie = (u64)sp->slot << 32 | region;
	/* Under pressure, the write that was turned away comes again. */
	s->turned_away = why == SHINGLE_WHY_PRESSURE;
	step->sync = SHINGLE_SYNC_NONE;
	res->r.stepping = true;
	return 1;
}

/* Find a page with blocks to move.  Returns 1, or 0 if no block is left. */
static int find_left(struct tiler *s, struct tiler_region *r)
{
	u32 looks = 0;

	while (r->left) {
		if (WARN_ON_ONCE(r->clean_laro >= r->shape->logical_blocks))
			return -EUCLEAN;
		if (!tiler_page_look(s, r->at, r->shape, r->clean_laro) ||
		    !tiler_page_look(s, r->to, r->shape, r->clean_laro))
			return SHINGLE_ABSENT;
		if (tiler_clean_look(r))
			return 1;
		if (++looks < TILER_CALL_PAGES || r->clean_laro >= r->shape->logical_blocks)
			continue;
		/*
		 * One call has looked at enough pages: make core call again.  A page of zeroes
		 * has no frame to name for this; then continue.
		 */
		if ((const u8 *)r->at->page[(r->clean_laro - 1) / TILER_PAGE_ENTRIES] ==
		    s->engine.pages->zeroes)
			continue;
		shingle_page_again(&s->engine,
				   tiler_map_page_of(tiler_stretch_of(r->shape), r->at->number,
						     r->clean_laro - 1));
		return SHINGLE_ABSENT;
	}
	return 0;
}

static int move(struct tiler *s, struct tiler_resident *res, enum shingle_why why,
		struct shingle_step *step)
{
	struct tiler_region *r = &res->r;
	u32 laro = r->clean_laro;

	if (r->inflight)
		return drain(s, res, why);
	if (!tiler_hold(s, r, laro))
		return SHINGLE_ABSENT;
	tiler_bind(s, r, laro);
	tiler_clean_next(r, s->engine.step_records, &s->step);
	step->kind = TILER_STEP_MOVE;
	step->n = s->step.n;
	step->records = s->step.runs;
	step->scattered = true;
	step->cookie = res->region;
	step->sync = SHINGLE_SYNC_NONE;
	return 1;
}

static int go_on(struct tiler *s, enum shingle_why why, struct shingle_step *step)
{
	struct tiler_resident *res;
	int r;

	if (s->turned_away && why == SHINGLE_WHY_PRESSURE) {
		s->turned_away = false;
		return -EAGAIN;
	}
	r = tiler_resident(s, s->cleaning, &res);
	if (r == -EBUSY)
		return -EAGAIN;
	if (!r)
		r = find_left(s, &res->r);
	if (r == SHINGLE_FULL || r == -EUCLEAN ||
	    (r == SHINGLE_ABSENT && tiler_region_lost(s, s->cleaning))) {
		s->stuck = true;
		return 0;
	}
	if (r < 0)
		return r;
	if (r)
		return move(s, res, why, step);
	if (res->r.inflight)
		return drain(s, res, why);
	step->kind = TILER_STEP_FLIP;
	step->cookie = s->cleaning;
	step->sync = SHINGLE_SYNC_COMMIT;
	res->r.stepping = true;
	return 1;
}

/* An operation of struct shingle_engine_ops. */
int tiler_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step)
{
	struct tiler *s = to_tiler(e);
	u32 region;
	int r;

	memset(step, 0, sizeof(*step));
	if (s->stepping)
		return -EAGAIN;
	undrain(s);
	if (s->stuck)
		return 0;
	if (s->cleaning != NO_REGION) {
		r = go_on(s, why, step);
	} else {
		/* A region that cannot be cleaned does not block the others. */
		do {
			region = choose(s, why);
			if (region == NO_REGION)
				return 0;
			r = begin(s, region, why, step);
			if (r == SHINGLE_ABSENT && tiler_region_lost(s, region))
				r = let_be(s, region, true);
		} while (!r && is_immovable(s, region));
		s->asked &= r || why != SHINGLE_WHY_FORCED;
	}
	s->stepping = r > 0;
	/* Wiping pages before the clean begins belongs to the same job. */
	if (s->stepping && s->cleaning == NO_REGION && step->kind != TILER_STEP_WIPE)
		s->engine.jobs++;
	if (s->stepping && !step->records)
		step->records = 1;
	return r;
}

/* ------------------------------------------------------------------------
 * Copying
 */

static struct tiler_resident *moved_by(struct tiler *s, const struct shingle_step *step)
{
	return &s->pool.list[s->in_memory[(u32)step->cookie]];
}

/* An operation of struct shingle_engine_ops. */
bool tiler_step_extent(struct shingle_engine *e, const struct shingle_step *step, u64 *cursor,
		       struct shingle_extent *out)
{
	struct tiler *s = to_tiler(e);
	struct tiler_region *r;
	const struct tiler_stretch *st;
	struct tiler_extent x;

	if (step->kind != TILER_STEP_MOVE)
		return false;
	r = &moved_by(s, step)->r;
	st = tiler_stretch_of(r->shape);
	tiler_bind(s, r, s->step.from);
	if (!tiler_clean_extent(r, &s->step, *cursor, &x))
		return false;
	out->lblk = tiler_region_lblk(st, step->cookie) + x.laro;
	out->n = x.n;
	out->src = tiler_pblk(st, r->at->number, x.src, &out->n);
	out->dst = tiler_pblk(st, r->to->number, x.dst, &out->n);
	*cursor = tiler_clean_behind(&s->step, &x, out->n);
	return true;
}

/* An operation of struct shingle_engine_ops.  For a region that is cleaned in place. */
bool tiler_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
		       struct shingle_run *out)
{
	struct tiler *s = to_tiler(e);
	struct tiler_region *r = &moved_by(s, step)->r;
	struct tiler_extent x;
	u64 cursor = 0;
	u32 skip;

	if (offset >= step->n)
		return false;
	do {
		if (!tiler_clean_extent(r, &s->step, cursor, &x))
			return false;
		cursor = tiler_clean_behind(&s->step, &x, x.n);
	} while (x.dst + x.n <= offset);
	skip = offset > x.dst ? offset - x.dst : 0;
	out->lblk = x.dst + skip;
	out->n = x.n - skip;
	out->kind = SHINGLE_RUN_MAPPED;
	out->pblk = tiler_pblk(tiler_stretch_of(r->shape), r->at->number, x.src + skip, &out->n);
	return true;
}

/* ------------------------------------------------------------------------
 * The end of a step
 */

static void wiped(struct tiler *s, u32 nr, struct shingle_emit *emit)
{
	u32 slot, part;

	tiler_map_page(&s->map, nr, &slot, &part);
	memset(shingle_page_held(&s->engine, nr), 0, SHINGLE_PAGE_BYTES);
	shingle_page_dirty(&s->engine, nr);
	shingle_page_put(&s->engine, nr);
	shingle_emit(emit, TILER_REC_WIPE, 0, 0, slot, part);
	s->wipe.pages++;
	s->wiped_pages++;
}

static void begun(struct tiler *s, u32 region, u32 slot, struct shingle_emit *emit)
{
	struct tiler_resident *res = &s->pool.list[s->in_memory[region]];
	const struct tiler_stretch *st = tiler_stretch_of(res->r.shape);
	struct tiler_spare *sp = spares_of(s, st);

	s->to_slot.number = slot;
	s->to_slot.column = tiler_map_column(st, slot);
	tiler_slot_init(&st->shape, &s->to_slot);
	res->r.stepping = false;
	WARN_ON_ONCE(tiler_clean_begin(&res->r, &s->to_slot));
	while (sp->slot != slot)
		sp++;
	sp->slot = NO_SLOT;
	s->to[region] = slot;
	s->owner[slot] = region;
	s->cleaning = region;
	s->wipe.slot = NO_SLOT;
	if (s->want == region)
		s->want = NO_REGION;
	s->turned_away &= !tiler_slack(&res->r);
	tiler_mark(s, region);
	shingle_emit(emit, TILER_REC_CLEAN, 0, 0, region, slot);
}

static void moved(struct tiler *s, struct tiler_resident *res, struct shingle_emit *emit)
{
	const struct tiler_stretch *st = tiler_stretch_of(res->r.shape);
	struct tiler_region *r = &res->r;
	bool in_place = tiler_in_place(r);
	u64 lblk = tiler_region_lblk(st, res->region), cursor = 0;
	struct tiler_extent x;

	if (!in_place)
		tiler_bind(s, r, s->step.from);
	while (tiler_clean_moved(r, &s->step, cursor, &x)) {
		shingle_emit(emit, TILER_REC_MAP, x.n, 0, lblk + x.laro,
			     (u64)r->to->number << 16 | x.dst);
		cursor = tiler_clean_behind(&s->step, &x, x.n);
	}
	tiler_clean_done(r, &s->step);
	if (in_place) {
		res->asked = false;
		tiler_clean_flip(r);
		put_all(s, r);
		let_be(s, res->region, false);
	} else {
		tiler_put(s, r, s->step.from);
	}
	tiler_update_pending(s, res);
}

/* The bitmaps of the region's current slot stay with the resident. */
static void flipped(struct tiler *s, struct tiler_resident *res, struct shingle_emit *emit)
{
	struct tiler_spare *sp = spares_of(s, tiler_stretch_of(res->r.shape));
	u32 region = res->region;

	res->r.stepping = false;
	res->asked = false;
	tiler_clean_flip(&res->r);
	swap(res->slot, s->to_slot);
	res->r.at = &res->slot;
	while (sp->slot != NO_SLOT)
		sp++;
	sp->slot = s->at[region];
	sp->freed_seq = emit->seq;
	s->spares.nr_freed++;
	s->owner[sp->slot] = NO_REGION;
	s->at[region] = s->to[region];
	s->to[region] = NO_SLOT;
	s->cleaning = NO_REGION;
	tiler_update_pending(s, res);
	tiler_mark(s, region);
	shingle_emit(emit, TILER_REC_FLIP, 0, 0, region, s->at[region]);
}

/* An operation of struct shingle_engine_ops. */
void tiler_step_done(struct shingle_engine *e, const struct shingle_step *step,
		     struct shingle_emit *emit)
{
	struct tiler *s = to_tiler(e);

	s->stepping = false;
	switch (step->kind) {
	case TILER_STEP_WIPE:
		wiped(s, step->cookie, emit);
		break;
	case TILER_STEP_BEGIN:
		begun(s, step->cookie, step->cookie >> 32, emit);
		break;
	case TILER_STEP_MOVE:
		moved(s, moved_by(s, step), emit);
		break;
	case TILER_STEP_FLIP:
		flipped(s, moved_by(s, step), emit);
		break;
	}
}

/* An operation of struct shingle_engine_ops. */
bool tiler_step_failed(struct shingle_engine *e, const struct shingle_step *step,
		       const struct shingle_unwritten *bad)
{
	struct tiler *s = to_tiler(e);
	struct tiler_region *r;

	s->stepping = false;
	if (step->kind == TILER_STEP_WIPE) {
		shingle_page_put(e, step->cookie);
		return false;
	}
	r = &moved_by(s, step)->r;
	r->stepping = false;
	if (step->kind != TILER_STEP_MOVE)
		return false;
	tiler_clean_failed(r, &s->step, bad->n);
	if (!tiler_in_place(r)) {
		tiler_put(s, r, s->step.from);
		return false;
	}
	/* The content of the slot is unknown. */
	r->to = NULL;
	put_all(s, r);
	return false;
}
