// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a round (Ma 2019, Algorithm 6), in steps: see dual-cache.h.
 *
 *	L <= F, or sort and take the first F	dual_choose(): counted, not sorted
 *	hot: move to FB, FB-Tree		COPY: keep_step(); the map is one
 *	cold: move to NDA (RMW)			STAGE, HOME: one of each band, home_step()
 *	PC-Tree = FB-Tree, PB is empty		SWITCH
 */
#include "dual-cache.h"

/**
 * dual_begin_clean() - the round ends: what is kept?
 * @c: the cache; nothing is under way
 *
 * Context: map lock.
 */
void dual_begin_clean(struct dual_cache *c)
{
	u32 fb2 = dual_part_blocks(c->shape, &c->round, DUAL_FB2), room, late;

	room = fb2 - dual_before(c->shape, &c->round, DUAL_FB2, &c->fb_fill);
	/* What keeps nothing has all of FB_2 for what comes meanwhile. */
	late = min3(c->empty ? room : c->reserve, c->room - c->filled, room);
	c->limit = c->filled + late;
	c->mark = c->fill;
	c->from = 0;
	c->drain = false;
	c->phase = DUAL_KEEP;
	c->history.fb_blocks = fb2;
	c->history.live_blocks = c->map.live;
	c->history.allocated = dual_part_blocks(c->shape, &c->round, DUAL_FB1) + c->filled;
	dual_choose(&c->heat, c->empty ? 0 : room - late, c->literal, &c->choice);
}

/**
 * dual_is_older() - is a slot of the persistent buffer, and was not written since a mark?
 * @c: the cache
 * @slot: the slot
 * @mark: what is new from here on was written since
 * @fresh: result, whether it is new
 *
 * Context: map lock.
 */
bool dual_is_older(const struct dual_cache *c, u32 slot, const struct dual_cursor *mark,
		   bool *fresh)
{
	struct dual_cursor at;
	enum dual_part part = dual_part_of(c->shape, &c->round, slot, &at);

	*fresh = part == DUAL_NEW;
	return part == DUAL_FB1 || (part == DUAL_NEW && dual_behind(mark, &at));
}

static bool is_owned(const struct dual_cache *c, u32 slot)
{
	return shingle_slot_state(&c->map, slot) == SHINGLE_SLOT_OWNED;
}

/* Part of FB_2 that the next step fills. */
static u32 destination(struct dual_cache *c, u32 *dst)
{
	u32 passed;

	return dual_next_fit(c, DUAL_FB2, &c->fb_fill, c->step_blocks, dst, &passed);
}

static void add_move(struct dual_cache *c, u32 src, u32 dst)
{
	c->move[c->nr_moves] = (struct dual_move){
		.src = src, .dst = dst + c->nr_moves, .lblk = shingle_slot_lblk(&c->map, src),
	};
	c->nr_moves++;
}

/* The next blocks that are kept, in the order of the cache. */
static bool keep_step(struct dual_cache *c)
{
	u32 dst = 0, n = destination(c, &dst), looks = SHINGLE_WALK, slot = c->from;
	bool fresh;

	c->next_choice = c->choice;
	for (; n && slot < c->map.nr_slots && looks && c->nr_moves < n; slot++, looks--) {
		if (is_owned(c, slot) && dual_is_older(c, slot, &c->mark, &fresh) &&
		    dual_keeps(&c->next_choice, dual_rank(c->count[slot], fresh)))
			add_move(c, slot, dst);
	}
	c->next_from = slot;
	return n && (c->nr_moves || slot < c->map.nr_slots);
}

/* The next band of which something is left. */
static bool home_step(struct dual_cache *c, struct dual_step *step)
{
	u32 looks = SHINGLE_WALK, slot = c->from;
	bool fresh;

	for (; slot < c->map.nr_slots && looks; slot++, looks--) {
		if (!is_owned(c, slot) || !dual_is_older(c, slot, &c->mark, &fresh))
			continue;
		step->kind = c->unsafe_inplace ? DUAL_STEP_INPLACE : DUAL_STEP_STAGE;
		step->band = shingle_slot_lblk(&c->map, slot) / c->band_blocks;
		step->n = c->band_blocks;
		break;
	}
	c->next_from = slot;
	return slot < c->map.nr_slots;
}

/* What was written since, as far as it is not there yet. */
static bool tail_step(struct dual_cache *c)
{
	u32 dst = 0, n = destination(c, &dst), looks = SHINGLE_WALK, slot;

	c->next_tail = c->tail;
	while (n && looks-- && c->nr_moves < n && dual_behind(&c->fill, &c->next_tail) &&
	       dual_next(c->shape, &c->round, DUAL_NEW, &c->next_tail, 1, &slot)) {
		if (is_owned(c, slot))
			add_move(c, slot, dst);
		dual_advance(c->shape, &c->round, DUAL_NEW, &c->next_tail, 1);
	}
	return c->nr_moves || (n && dual_behind(&c->fill, &c->next_tail));
}

/* Nothing is left of what was looked for: what comes now? */
static int next_phase(struct dual_cache *c, struct dual_step *step)
{
	u32 dst;

	switch (c->phase) {
	case DUAL_KEEP:
		c->phase = DUAL_HOME;
		c->from = 0;
		return 0;
	case DUAL_HOME:
		c->phase = DUAL_TAIL;
		c->tail = c->mark;
		c->swept = false;
		return 0;
	default:
		break;
	}
	/* Once more, with nothing under way that could come behind. */
	c->drain = true;
	if (c->inflight)
		return -EAGAIN;
	if (!c->swept) {
		c->swept = true;
		c->tail = c->mark;
		return 0;
	}
	if (c->heat.sum && !destination(c, &dst)) {
		/* A power cut has cost room: what is left goes home. */
		c->mark = c->fill;
		c->phase = DUAL_HOME;
		c->from = 0;
		return 0;
	}
	step->kind = DUAL_STEP_SWITCH;
	return 1;
}

/**
 * dual_clean_next() - what is to be cleaned?
 * @c: the cache
 * @forced: even if no write waits for it
 * @step: result
 *
 * Context: map lock, no step is in progress and dual_tidy() has nothing to do.  Returns 1 and
 * a step; 0 if there is nothing to do; -EAGAIN if there will be.
 */
int dual_clean_next(struct dual_cache *c, bool forced, struct dual_step *step)
{
	int more = 0;

	*step = (struct dual_step){ .kind = DUAL_STEP_COPY, .band = DUAL_NO_BAND };
	if (c->waits)
		return -EAGAIN;
	if (c->phase == DUAL_FILL) {
		if (!c->wanted && (!forced || !(c->filled || (c->empty && c->map.live))))
			return 0;
		c->wanted = true;
		c->drain = true;
		if (c->inflight)
			return -EAGAIN;
		dual_decide(c);
		dual_begin_clean(c);
	}
	if (c->staging.in_use) {
		step->kind = DUAL_STEP_HOME;
		step->band = c->staging.band;
		step->n = c->band_blocks;
		return 1;
	}
	while (!more) {
		bool found;

		c->nr_moves = 0;
		if (c->phase == DUAL_KEEP)
			found = keep_step(c);
		else if (c->phase == DUAL_HOME)
			found = home_step(c, step);
		else
			found = tail_step(c);
		more = found ? 1 : next_phase(c, step);
	}
	if (step->kind == DUAL_STEP_COPY)
		step->n = c->nr_moves;
	return more;
}

/**
 * dual_step_extent() - what a step copies, of DUAL_STEP_COPY
 * @c: the cache
 * @cursor: 0 at first; moved
 * @first: result
 * @n: result, so many that follow each other, from and to, blocks and slots
 *
 * Context: map lock, a step is in progress.  Returns false if there is no other.
 */
bool dual_step_extent(const struct dual_cache *c, u32 *cursor, struct dual_move *first, u32 *n)
{
	u32 i = *cursor;

	if (i >= c->nr_moves)
		return false;
	*first = c->move[i];
	for (*n = 1; i + *n < c->nr_moves; ++*n) {
		const struct dual_move *m = &c->move[i + *n];

		if (m->src != first->src + *n || m->lblk != first->lblk + *n)
			break;
	}
	*cursor += *n;
	return true;
}

/**
 * dual_merge_source() - where is what a band is merged with?
 * @c: the cache
 * @lblk: block of the band
 *
 * Context: map lock, a step of that band is in progress.  Returns its slot, or
 * SHINGLE_NO_SLOT: what is at home.
 */
u32 dual_merge_source(const struct dual_cache *c, u32 lblk)
{
	u32 slot = dual_find(c, lblk);
	bool fresh;

	if (slot != SHINGLE_NO_SLOT && dual_is_older(c, slot, &c->mark, &fresh))
		return slot;
	return SHINGLE_NO_SLOT;
}

/* Returns true if that is new, and they are not too many. */
static bool learn_unfit(struct dual_cache *c, u32 slot, enum shingle_slot_state state)
{
	if (c->nr_unfit == dual_most_unfit(c) || test_bit(slot, c->unfit) ||
	    shingle_slot_state(&c->map, slot) != state)
		return false;
	__set_bit(slot, c->unfit);
	c->nr_unfit++;
	if (c->engine)
		shingle_mark(c->engine, DUAL_PIECE_SLOTS + slot / PART_SLOTS, 1);
	return true;
}

static bool learn_all(struct dual_cache *c, const struct dual_failure *f,
		      enum shingle_slot_state state)
{
	bool learnt = false;
	u32 i;

	for (i = 0; i < f->nr; i++)
		learnt |= learn_unfit(c, f->slot[i], state);
	return learnt;
}

/**
 * dual_learn() - another write has succeeded: the slots failed, and not the device
 * @c: the cache
 * @f: the slots; none afterwards
 * @state: what they are, unless they were given to another write since
 *
 * Context: map lock.
 */
void dual_learn(struct dual_cache *c, struct dual_failure *f, enum shingle_slot_state state)
{
	learn_all(c, f, state);
	f->nr = 0;
}

static void moved(struct dual_cache *c)
{
	u32 i;

	for (i = 0; i < c->nr_moves; i++) {
		const struct dual_move *m = &c->move[i];
		u16 count = c->literal ? 0 : c->count[m->src] / 2;

		if (!is_owned(c, m->src) || shingle_slot_lblk(&c->map, m->src) != m->lblk) {
			/* It was written again meanwhile. */
			c->map.owner[m->dst] = SHINGLE_SLOT_SPENT;
			continue;
		}
		dual_forget(c, m->src);
		dual_hold(c, m->dst, m->lblk, count);
	}
	c->history.kept_blocks += c->nr_moves;
	if (c->nr_moves) {
		dual_learn(c, &c->suspect, SHINGLE_SLOT_FREE);
		c->misses = 0;
	}
	if (c->nr_moves)
		dual_advance(c->shape, &c->round, DUAL_FB2, &c->fb_fill, c->nr_moves);
	if (c->phase == DUAL_TAIL)
		c->tail = c->next_tail;
	else
		c->from = c->next_from;
	if (c->phase == DUAL_KEEP)
		c->choice = c->next_choice;
	c->nr_moves = 0;
}

static void wait_for(struct dual_cache *c, u64 seq)
{
	c->waits = true;
	c->waits_seq = seq;
}

/* What is spent now nobody will ever look at, as soon as that is durable. */
static void switch_round(struct dual_cache *c, u64 seq)
{
	u32 x;

	if (!c->history.ideal &&
	    !dual_predict(&c->curve, DUAL_HYPER, dual_blocks(c->shape), &x))
		c->history.ideal = max(x, c->history.allocated);
	WARN_ON_ONCE(c->heat.sum);
	c->heat = c->kept;
	memset(&c->kept, 0, sizeof(c->kept));
	dual_round_next(c->shape, &c->round);
	dual_change_round(c);
	c->last = c->history;
	dual_begin_round(c);
	/* Its slots are given out again. */
	c->refused.nr = 0;
	c->sweep = 0;
	c->switching = true;
	wait_for(c, seq);
	while (c->unsafe_switch && dual_release(c, seq))
		;
}

/**
 * dual_step_done() - the copy is on the medium
 * @c: the cache
 * @step: the step
 * @seq: transaction that will say so
 *
 * Context: map lock.
 */
void dual_step_done(struct dual_cache *c, const struct dual_step *step, u64 seq)
{
	switch (step->kind) {
	case DUAL_STEP_COPY:
		moved(c);
		break;
	case DUAL_STEP_STAGE:
	case DUAL_STEP_INPLACE:
		c->staging = (struct dual_staging){
			.in_use = step->kind == DUAL_STEP_STAGE, .band = step->band,
			.mark = c->mark,
		};
		c->tidied = 0;
		c->from = c->next_from;
		c->history.home_bands++;
		wait_for(c, seq);
		break;
	case DUAL_STEP_HOME:
		c->staging.in_use = false;
		wait_for(c, seq);
		break;
	case DUAL_STEP_SWITCH:
		switch_round(c, seq);
		break;
	}
}

/* The slots from @from on up to the end of the write that failed are left for this round. */
static void pass_over(struct dual_cache *c, u32 from, const struct dual_failure *f)
{
	dual_advance(c->shape, &c->round, DUAL_FB2, &c->fb_fill, f->end - from);
	/* It may be a scratch: a long way from there. */
	if (++c->misses > 1)
		c->fb_fill = (struct dual_cursor){
			.row = c->fb_fill.row + max(c->shape->tracks / 4, 1U),
		};
}

/**
 * dual_step_failed() - it is not
 * @c: the cache
 * @f: what of it could not be written
 *
 * The step is offered again, to other slots if it could not write these.
 *
 * Context: map lock.  Returns true if slots are unfit of which that was not known.
 */
bool dual_step_failed(struct dual_cache *c, const struct dual_failure *f)
{
	u32 from = c->nr_moves ? c->move[0].dst : 0, end = from + c->nr_moves;
	bool learnt = false;

	if (f->end > from && f->end <= end) {
		if (f->proven)
			learnt = learn_all(c, f, SHINGLE_SLOT_FREE);
		else
			c->suspect = *f;
		if (!learnt)
			pass_over(c, from, f);
	}
	c->nr_moves = 0;
	return learnt;
}

/**
 * dual_tidy() - forget a part of what a staged band has made useless
 * @c: the cache
 *
 * Context: map lock.  Returns true if there is more of it.
 */
bool dual_tidy(struct dual_cache *c)
{
	u32 n, slot, lblk = c->staging.band * c->band_blocks + c->tidied;
	bool fresh;

	n = min(c->band_blocks - c->tidied, SHINGLE_WALK);
	c->tidied += n;
	for (; n; n--, lblk++) {
		slot = dual_find(c, lblk);
		if (slot == SHINGLE_NO_SLOT || !dual_is_older(c, slot, &c->staging.mark, &fresh))
			continue;
		dual_forget(c, slot);
		c->history.home_blocks++;
	}
	return c->tidied < c->band_blocks;
}

/**
 * dual_release() - all that was freed by transactions is unreferenced
 * @c: the cache
 * @seq: up to this one
 *
 * Context: map lock.  Returns true if there is more of it.
 */
bool dual_release(struct dual_cache *c, u64 seq)
{
	u32 n;

	if (!c->waits || seq < c->waits_seq)
		return false;
	for (n = SHINGLE_WALK; c->switching && n && c->sweep < c->map.nr_slots; n--, c->sweep++) {
		if (!is_owned(c, c->sweep))
			c->map.owner[c->sweep] = SHINGLE_SLOT_FREE;
	}
	if (c->switching && c->sweep < c->map.nr_slots)
		return true;
	c->switching = false;
	c->waits = false;
	return false;
}
