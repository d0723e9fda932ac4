// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a round (Ma 2019, Algorithm 6), in steps: see dual/cache.h.
 *
 *	L <= F, or sort and take the first F	dual_choose(): counted, not sorted
 *	hot: move to FB, FB-Tree		COPY: keep_step(); there is one map
 *	cold: move to NDA (RMW)			STAGE, HOME: once per band, home_step()
 *	PC-Tree = FB-Tree, PB is empty		SWITCH
 */
#include "dual/cache.h"

/**
 * dual_begin_clean() - begin the end of a round: choose the blocks to keep
 * @c: the cache; no write is in flight
 *
 * Context: map lock.
 */
void dual_begin_clean(struct dual_cache *c)
{
	u32 fb2 = dual_part_blocks(c->shape, &c->round, DUAL_FB2), room, late;

	room = fb2 - dual_before(c->shape, &c->round, DUAL_FB2, &c->part.fb_fill);
	/* If no block is kept, all of FB_2 is for blocks written during the clean. */
	late = min3(c->empty ? room : c->part.reserve, c->part.room - c->part.filled, room);
	c->part.limit = c->part.filled + late;
	c->scan.mark = c->part.fill;
	c->scan.from = 0;
	c->drain = false;
	c->phase = DUAL_KEEP;
	c->predict.history.fb_blocks = fb2;
	c->predict.history.live_blocks = c->map.live;
	c->predict.history.allocated = dual_part_blocks(c->shape, &c->round, DUAL_FB1) +
				       c->part.filled;
	dual_choose(&c->rank.pb, c->empty ? 0 : room - late, c->opt.literal, &c->scan.choice);
}

/**
 * dual_is_older() - test whether a slot of the persistent buffer was written before a mark
 * @c: the cache
 * @slot: the slot
 * @mark: the mark; slots of the new part from here on are not older
 * @fresh: result: the slot belongs to the new part
 *
 * Context: map lock.
 * Return: true if it is older.
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

/* The part of FB_2 that the next step fills. */
static u32 destination(struct dual_cache *c, u32 *dst)
{
	u32 passed;

	return dual_next_fit(c, DUAL_FB2, &c->part.fb_fill, c->step_blocks, dst, &passed);
}

static void add_move(struct dual_cache *c, u32 src, u32 dst)
{
	c->step.move[c->step.nr] = (struct dual_move){
		.src = src, .dst = dst + c->step.nr, .lblk = shingle_slot_lblk(&c->map, src),
	};
	c->step.nr++;
}

/* The next blocks to keep, in the order of the cache. */
static bool keep_step(struct dual_cache *c)
{
	u32 dst = 0, n = destination(c, &dst), looks = SHINGLE_WALK, slot = c->scan.from;
	bool fresh;

	c->step.next_choice = c->scan.choice;
	for (; n && slot < c->map.nr_slots && looks && c->step.nr < n; slot++, looks--) {
		if (is_owned(c, slot) && dual_is_older(c, slot, &c->scan.mark, &fresh) &&
		    dual_keeps(&c->step.next_choice, dual_rank(c->count[slot], fresh)))
			add_move(c, slot, dst);
	}
	c->step.next_from = slot;
	return n && (c->step.nr || slot < c->map.nr_slots);
}

/* The next band with remaining blocks. */
static bool home_step(struct dual_cache *c, struct dual_step *step)
{
	u32 looks = SHINGLE_WALK, slot = c->scan.from;
	bool fresh;

	for (; slot < c->map.nr_slots && looks; slot++, looks--) {
		if (!is_owned(c, slot) || !dual_is_older(c, slot, &c->scan.mark, &fresh))
			continue;
		step->kind = c->opt.unsafe_inplace ? DUAL_STEP_INPLACE : DUAL_STEP_STAGE;
		step->band = shingle_slot_lblk(&c->map, slot) / c->band_blocks;
		step->n = c->band_blocks;
		break;
	}
	c->step.next_from = slot;
	return slot < c->map.nr_slots;
}

/* Blocks written during the clean that are not in FB_2 yet. */
static bool tail_step(struct dual_cache *c)
{
	u32 dst = 0, n = destination(c, &dst), looks = SHINGLE_WALK, slot;

	c->step.next_tail = c->scan.tail;
	while (n && looks-- && c->step.nr < n && dual_behind(&c->part.fill, &c->step.next_tail) &&
	       dual_next(c->shape, &c->round, DUAL_NEW, &c->step.next_tail, 1, &slot)) {
		if (is_owned(c, slot))
			add_move(c, slot, dst);
		dual_advance(c->shape, &c->round, DUAL_NEW, &c->step.next_tail, 1);
	}
	return c->step.nr || (n && dual_behind(&c->part.fill, &c->step.next_tail));
}

/* The scan of this phase is complete; go on to the next phase. */
static int next_phase(struct dual_cache *c, struct dual_step *step)
{
	u32 dst;

	switch (c->phase) {
	case DUAL_KEEP:
		c->phase = DUAL_HOME;
		c->scan.from = 0;
		return 0;
	case DUAL_HOME:
		c->phase = DUAL_TAIL;
		c->scan.tail = c->scan.mark;
		c->scan.swept = false;
		return 0;
	default:
		break;
	}
	/* Scan once more, while no write is in flight that could add blocks later. */
	c->drain = true;
	if (c->part.inflight)
		return -EAGAIN;
	if (!c->scan.swept) {
		c->scan.swept = true;
		c->scan.tail = c->scan.mark;
		return 0;
	}
	if (c->rank.pb.sum && !destination(c, &dst)) {
		/* A power cut has used up room in FB_2: take the remaining blocks home. */
		c->scan.mark = c->part.fill;
		c->phase = DUAL_HOME;
		c->scan.from = 0;
		return 0;
	}
	step->kind = DUAL_STEP_SWITCH;
	return 1;
}

/**
 * dual_clean_next() - the next step of a clean
 * @c: the cache
 * @forced: clean even if no write waits for it
 * @step: result
 *
 * Context: map lock; no step is in progress and dual_tidy() has nothing to do.
 * Return: 1 and a step; 0 if there is nothing to do; -EAGAIN if there will be later.
 */
int dual_clean_next(struct dual_cache *c, bool forced, struct dual_step *step)
{
	int more = 0;

	*step = (struct dual_step){ .kind = DUAL_STEP_COPY, .band = DUAL_NO_BAND };
	if (c->sync.waiting)
		return -EAGAIN;
	if (c->phase == DUAL_FILL) {
		if (!c->wanted && (!forced || !(c->part.filled || (c->empty && c->map.live))))
			return 0;
		c->wanted = true;
		c->drain = true;
		if (c->part.inflight)
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

		c->step.nr = 0;
		if (c->phase == DUAL_KEEP)
			found = keep_step(c);
		else if (c->phase == DUAL_HOME)
			found = home_step(c, step);
		else
			found = tail_step(c);
		more = found ? 1 : next_phase(c, step);
	}
	if (step->kind == DUAL_STEP_COPY)
		step->n = c->step.nr;
	return more;
}

/**
 * dual_step_extent() - the next run of blocks that a DUAL_STEP_COPY copies
 * @c: the cache
 * @cursor: 0 at first; advanced
 * @first: result: the first move
 * @n: result: number of moves with consecutive blocks, sources and destinations
 *
 * Context: map lock, a step is in progress.
 * Return: false if there is no further run.
 */
bool dual_step_extent(const struct dual_cache *c, u32 *cursor, struct dual_move *first, u32 *n)
{
	u32 i = *cursor;

	if (i >= c->step.nr)
		return false;
	*first = c->step.move[i];
	for (*n = 1; i + *n < c->step.nr; ++*n) {
		const struct dual_move *m = &c->step.move[i + *n];

		if (m->src != first->src + *n || m->lblk != first->lblk + *n)
			break;
	}
	*cursor += *n;
	return true;
}

/**
 * dual_merge_source() - find the cached copy that a band is merged with
 * @c: the cache
 * @lblk: block of the band
 *
 * Context: map lock, a step of that band is in progress.
 * Return: its slot, or SHINGLE_NO_SLOT: use the content of the home.
 */
u32 dual_merge_source(const struct dual_cache *c, u32 lblk)
{
	u32 slot = dual_find(c, lblk);
	bool fresh;

	if (slot != SHINGLE_NO_SLOT && dual_is_older(c, slot, &c->scan.mark, &fresh))
		return slot;
	return SHINGLE_NO_SLOT;
}

/*
 * Mark a slot as unfit.  Returns true if it was not marked before and the maximum is not
 * reached.
 */
static bool learn_unfit(struct dual_cache *c, u32 slot)
{
	if (c->bad.nr == dual_most_unfit(c) || test_bit(slot, c->bad.unfit) ||
	    shingle_slot_state(&c->map, slot) != SHINGLE_SLOT_FREE)
		return false;
	__set_bit(slot, c->bad.unfit);
	c->bad.nr++;
	if (c->engine)
		shingle_mark(c->engine, DUAL_PIECE_SLOTS + slot / PART_SLOTS, 1);
	return true;
}

static bool learn_all(struct dual_cache *c, const struct dual_failure *f)
{
	bool learnt = false;
	u32 i;

	for (i = 0; i < f->nr; i++)
		learnt |= learn_unfit(c, f->slot[i]);
	return learnt;
}

/* A step to other slots has succeeded, so the device was not at fault: mark the suspects. */
static void learn_suspects(struct dual_cache *c)
{
	learn_all(c, &c->bad.suspect);
	c->bad.suspect.nr = 0;
	c->bad.misses = 0;
}

static void moved(struct dual_cache *c)
{
	u32 i;

	for (i = 0; i < c->step.nr; i++) {
		const struct dual_move *m = &c->step.move[i];
		u16 count = c->opt.literal ? 0 : c->count[m->src] / 2;

		if (!is_owned(c, m->src) || shingle_slot_lblk(&c->map, m->src) != m->lblk) {
			/* The block was written again meanwhile. */
			c->map.owner[m->dst] = SHINGLE_SLOT_SPENT;
			continue;
		}
		dual_forget(c, m->src);
		dual_hold(c, m->dst, m->lblk, count);
	}
	c->predict.history.kept_blocks += c->step.nr;
	if (c->step.nr)
		learn_suspects(c);
	if (c->step.nr)
		dual_advance(c->shape, &c->round, DUAL_FB2, &c->part.fb_fill, c->step.nr);
	if (c->phase == DUAL_TAIL)
		c->scan.tail = c->step.next_tail;
	else
		c->scan.from = c->step.next_from;
	if (c->phase == DUAL_KEEP)
		c->scan.choice = c->step.next_choice;
	c->step.nr = 0;
}

static void wait_for(struct dual_cache *c, u64 seq)
{
	c->sync.waiting = true;
	c->sync.seq = seq;
}

/* Unused slots of this round can be forgotten as soon as the switch is durable. */
static void switch_round(struct dual_cache *c, u64 seq)
{
	u32 x;

	if (!c->predict.history.ideal &&
	    !dual_predict(&c->predict.curve, DUAL_HYPER, dual_blocks(c->shape), &x))
		c->predict.history.ideal = max(x, c->predict.history.allocated);
	WARN_ON_ONCE(c->rank.pb.sum);
	c->rank.pb = c->rank.fb2;
	memset(&c->rank.fb2, 0, sizeof(c->rank.fb2));
	dual_round_next(c->shape, &c->round);
	dual_change_round(c);
	c->predict.last = c->predict.history;
	dual_begin_round(c);
	c->sync.sweep = 0;
	c->sync.switching = true;
	wait_for(c, seq);
	while (c->opt.unsafe_switch && dual_release(c, seq))
		;
}

/**
 * dual_step_done() - the copies of a step are on the medium
 * @c: the cache
 * @step: the step
 * @seq: transaction that will record it
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
			.mark = c->scan.mark,
		};
		c->tidied = 0;
		c->scan.from = c->step.next_from;
		c->predict.history.home_bands++;
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

/* Skip the slots from @from to the end of the failed write for this round. */
static void pass_over(struct dual_cache *c, u32 from, const struct dual_failure *f)
{
	dual_advance(c->shape, &c->round, DUAL_FB2, &c->part.fb_fill, f->end - from);
	/* The failure may be due to a scratch: continue far away from there. */
	if (++c->bad.misses > 1)
		c->part.fb_fill = (struct dual_cursor){
			.row = c->part.fb_fill.row + max(c->shape->tracks / 4, 1U),
		};
}

/**
 * dual_step_failed() - a step has failed
 * @c: the cache
 * @f: the slots that could not be written
 *
 * The step is offered again, to other slots if these could not be written.
 *
 * Context: map lock.
 * Return: true if slots were newly marked as unfit.
 */
bool dual_step_failed(struct dual_cache *c, const struct dual_failure *f)
{
	u32 from = c->step.nr ? c->step.move[0].dst : 0, end = from + c->step.nr;
	bool learnt = false;

	if (f->end > from && f->end <= end) {
		if (f->proven)
			learnt = learn_all(c, f);
		else
			c->bad.suspect = *f;
		if (!learnt)
			pass_over(c, from, f);
	}
	c->step.nr = 0;
	return learnt;
}

/**
 * dual_tidy() - drop a part of the cached blocks that a staged band makes obsolete
 * @c: the cache
 *
 * Context: map lock.
 * Return: true if more remain.
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
		c->predict.history.home_blocks++;
	}
	return c->tidied < c->band_blocks;
}

/**
 * dual_release() - free what was given up by transactions that are now durable
 * @c: the cache
 * @seq: last of these transactions
 *
 * Context: map lock.
 * Return: true if the caller must call again.
 */
bool dual_release(struct dual_cache *c, u64 seq)
{
	u32 n;

	if (!c->sync.waiting || seq < c->sync.seq)
		return false;
	for (n = SHINGLE_WALK; c->sync.switching && n && c->sync.sweep < c->map.nr_slots;
	     n--, c->sync.sweep++) {
		if (!is_owned(c, c->sync.sweep))
			c->map.owner[c->sync.sweep] = SHINGLE_SLOT_FREE;
	}
	if (c->sync.switching && c->sync.sweep < c->map.nr_slots)
		return true;
	c->sync.switching = false;
	c->sync.waiting = false;
	return false;
}
