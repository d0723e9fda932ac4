// SPDX-License-Identifier: GPL-2.0
/*
 * The engine of Dual-buffer: steps of dual/clean.c as core sees them, and their reasons.
 * Pure code.
 *
 * A clean begins only if a write finds no room or by request; once begun it runs to its
 * end.  A clean by request keeps no block: at its end all blocks of the present round are
 * at home, except those written meanwhile.
 */
#include "dual/state.h"

/**
 * dual_emit_m() - emit a record of M, if M has changed since the last one
 * @s: the engine
 * @emit: where to
 *
 * To be called before the records of blocks placed according to it.
 *
 * Context: map lock.
 */
void dual_emit_m(struct dualbuffer *s, struct shingle_emit *emit)
{
	const struct dual_round *r = &s->cache.round;
	const struct dual_drop *d;

	if (!dual_round_changed(&s->cache) || !r->nr_drops)
		return;
	d = &r->drop[r->nr_drops - 1];
	s->count.lowered += r->nr_drops > 1;
	shingle_emit(emit, DUAL_REC_M, r->nr_drops - 1, r->number, d->track, d->columns);
}

/* Emit a complete round: later records refer to it, whatever round the checkpoint describes. */
static void emit_round(const struct dualbuffer *s, struct shingle_emit *emit)
{
	const struct dual_round *r = &s->cache.round;
	u32 i;

	shingle_emit(emit, DUAL_REC_ROUND, 0, r->number, r->fb1_at, r->fb1_columns);
	for (i = 0; i < r->nr_drops; i++)
		shingle_emit(emit, DUAL_REC_M, i, r->number, r->drop[i].track,
			     r->drop[i].columns);
}

/* ------------------------------------------------------------------------
 * Reasons for a clean
 */

/* Is the forced clean still in progress?  It ends with the round in which it began. */
static bool go_on_forced(struct dualbuffer *s)
{
	const struct dual_cache *c = &s->cache;

	if (!s->forced) {
		s->forced = true;
		s->forced_round = c->round.number;
		if (c->phase != DUAL_FILL)
			s->forced_round = dual_round_after(s->forced_round);
	}
	if (!dual_round_later(c->round.number, s->forced_round) &&
	    (c->phase != DUAL_FILL || c->map.live))
		return true;
	s->forced = false;
	return false;
}

static int next_clean(struct dualbuffer *s, enum shingle_why why)
{
	struct dual_cache *c = &s->cache;
	bool began = c->phase == DUAL_FILL, forced = why == SHINGLE_WHY_FORCED;
	int r;

	if (c->sync.waiting)
		return -EAGAIN;
	if (forced ? !go_on_forced(s) : why != SHINGLE_WHY_PRESSURE && c->phase == DUAL_FILL)
		return 0;
	/*
	 * Decide again at each begin: a forced clean that was interrupted ends with its
	 * round.
	 */
	if (c->phase == DUAL_FILL)
		c->empty = s->forced && c->round.number == s->forced_round;
	r = dual_clean_next(c, forced, &s->step);
	if (!began || c->phase == DUAL_FILL)
		return r;
	s->engine.jobs++;
	if (why == SHINGLE_WHY_FORCED)
		s->count.cleans_forced++;
	else
		s->count.cleans_pressure++;
	return r;
}

/* ------------------------------------------------------------------------
 * Steps
 */

/* Build a step that merges a band into the staging band, or copies it home. */
static void band_step(struct dualbuffer *s, struct shingle_step *step)
{
	u32 band = s->step.band;
	enum shingle_rewrite how = s->step.kind == DUAL_STEP_STAGE ? SHINGLE_REWRITE_STAGE :
				   s->step.kind == DUAL_STEP_HOME ? SHINGLE_REWRITE_BACK :
				   SHINGLE_REWRITE_INPLACE;
	u64 native = dual_native(s, band);

	step->kind = s->step.kind == DUAL_STEP_STAGE ? STEP_STAGE : STEP_WRITEBACK;
	step->lblk = (u64)band * s->band_blocks;
	step->records = DUAL_ROUND_RECORDS + 2;
	if (test_bit(band, s->home))
		step->base = native;
	shingle_step_rewrite(step, how, native, shingle_staging_pblk(s->layout));
}

/* An operation of struct shingle_engine_ops. */
int dual_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step)
{
	struct dualbuffer *s = to_dual(e);
	int r;

	shingle_step_init(step);
	if (s->stepping)
		return -EAGAIN;
	r = next_clean(s, why);
	if (r <= 0)
		return r;
	s->stepping = true;
	step->n = s->step.n;
	switch (s->step.kind) {
	case DUAL_STEP_COPY:
		step->kind = STEP_COPY;
		step->scattered = true;
		step->records = 1 + s->step.n;
		step->sync = SHINGLE_SYNC_NONE;
		break;
	case DUAL_STEP_SWITCH:
		step->kind = STEP_SWITCH;
		step->records = DUAL_ROUND_RECORDS + 1;
		if (s->cache.opt.unsafe_switch)
			step->sync = SHINGLE_SYNC_NONE;
		break;
	default:
		band_step(s, step);
		break;
	}
	return 1;
}

/* An operation of struct shingle_engine_ops. */
bool dual_extent(struct shingle_engine *e, const struct shingle_step *step, u64 *cursor,
		 struct shingle_extent *out)
{
	struct dualbuffer *s = to_dual(e);
	struct dual_move first;
	u32 at = *cursor;

	if (!dual_step_extent(&s->cache, &at, &first, &out->n))
		return false;
	*cursor = at;
	out->lblk = first.lblk;
	out->src = s->cache_pblk + first.src;
	out->dst = s->cache_pblk + first.dst;
	return true;
}

/* An operation of struct shingle_engine_ops. */
bool dual_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
		      struct shingle_run *out)
{
	struct dualbuffer *s = to_dual(e);
	const struct dual_cache *c = &s->cache;
	u32 slot = SHINGLE_NO_SLOT;

	if (s->step.kind == DUAL_STEP_HOME)
		return false;
	for (; offset < step->n && slot == SHINGLE_NO_SLOT; offset++)
		slot = dual_merge_source(c, step->lblk + offset);
	if (slot == SHINGLE_NO_SLOT)
		return false;
	out->lblk = offset - 1;
	out->pblk = s->cache_pblk + slot;
	out->kind = SHINGLE_RUN_MAPPED;
	for (out->n = 1; offset < step->n; offset++, out->n++) {
		if (dual_merge_source(c, step->lblk + offset) != slot + out->n)
			break;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * The end of a step
 */

/* Emit records of the moved blocks that are still current, one per run. */
static void emit_moves(const struct dualbuffer *s, struct shingle_emit *emit)
{
	const struct dual_cache *c = &s->cache;
	u32 i, n;

	for (i = 0; i < c->step.nr; i += n) {
		const struct dual_move *m = &c->step.move[i];

		for (n = 0; i + n < c->step.nr && m[n].lblk == m->lblk + n &&
		     dual_find(c, m[n].lblk) == m[n].src;)
			n++;
		if (n)
			shingle_emit(emit, DUAL_REC_KEEP, n, 0, m->lblk, m->dst);
		else
			n = 1;
	}
}

static void emit_band(const struct dualbuffer *s, u16 type, struct shingle_emit *emit)
{
	const struct dual_staging *g = &s->cache.staging;

	emit_round(s, emit);
	shingle_emit(emit, type, 0, g->mark.at, g->band, g->mark.row);
}

static void count_rmw(struct dualbuffer *s)
{
	if (s->cache.empty)
		s->count.rmw_forced++;
	else
		s->count.rmw_pressure++;
}

static void count_round(struct dualbuffer *s)
{
	const struct dual_history *h = &s->cache.predict.last;

	s->past[h->number % DUAL_PAST] = *h;
	s->count.rounds++;
}

/* An operation of struct shingle_engine_ops. */
void dual_finish_step(struct shingle_engine *e, const struct shingle_step *step,
		      struct shingle_emit *emit)
{
	struct dualbuffer *s = to_dual(e);
	struct dual_cache *c = &s->cache;
	struct dual_step done = s->step;

	dual_emit_m(s, emit);
	if (done.kind == DUAL_STEP_COPY) {
		emit_moves(s, emit);
		if (c->phase == DUAL_TAIL)
			s->count.tail_blocks += c->step.nr;
		else
			s->count.kept_blocks += c->step.nr;
	}
	dual_step_done(c, &done, emit->seq);
	s->stepping = false;
	switch (done.kind) {
	case DUAL_STEP_COPY:
		break;
	case DUAL_STEP_STAGE:
		s->count.rmw_staged_blocks += done.n;
		count_rmw(s);
		emit_band(s, DUAL_REC_STAGED, emit);
		break;
	case DUAL_STEP_INPLACE:
		count_rmw(s);
		fallthrough;
	case DUAL_STEP_HOME:
		s->count.rmw_home_blocks += done.n;
		s->count.bands_cleaned++;
		dual_set_home(s, done.band, true);
		emit_band(s, DUAL_REC_CLEANED, emit);
		break;
	case DUAL_STEP_SWITCH:
		count_round(s);
		dual_round_changed(c);
		emit_round(s, emit);
		break;
	}
	if (done.kind != DUAL_STEP_COPY)
		shingle_mark(e, DUAL_PIECE_STATE, 1);
}

/* An operation of struct shingle_engine_ops. */
bool dual_fail_step(struct shingle_engine *e, const struct shingle_step *step,
		    const struct shingle_unwritten *bad)
{
	struct dualbuffer *s = to_dual(e);
	struct dual_failure f = { .proven = bad->proven };

	s->stepping = false;
	if (bad->n && step->kind == STEP_COPY) {
		f.end = bad->pblk + bad->n - s->cache_pblk;
		for (; f.nr < bad->nr; f.nr++)
			f.slot[f.nr] = bad->block[f.nr] - s->cache_pblk;
	}
	return dual_step_failed(&s->cache, &f);
}

/* An operation of struct shingle_engine_ops. */
bool dual_tidy_step(struct shingle_engine *e)
{
	struct dualbuffer *s = to_dual(e);
	struct dual_cache *c = &s->cache;
	u32 live = c->map.live;
	bool more = dual_tidy(c);

	s->count.merged_blocks += live - c->map.live;
	return more;
}

/* An operation of struct shingle_engine_ops. */
bool dual_release_step(struct shingle_engine *e, u64 seq)
{
	return dual_release(&to_dual(e)->cache, seq);
}

/* An operation of struct shingle_engine_ops. */
bool dual_pending(struct shingle_engine *e)
{
	return to_dual(e)->cache.sync.waiting;
}
