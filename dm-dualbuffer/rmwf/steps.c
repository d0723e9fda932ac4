// SPDX-License-Identifier: GPL-2.0
/*
 * The engine of RMW-F: steps of a collection as core sees them, and their reasons.  Pure code.
 *
 * A collection rewrites one band, from a track on:
 *
 *	choose	rmwf_collect() chooses band and track.  From here on the band takes no writes;
 *		wait for those in flight
 *	look	find the other blocks of these tracks in flash, a part of them at a time
 *	stage	merge all blocks into the staging band (F4)
 *	write	copy them home from there, when that is durable
 *	back
 */
#include "rmwf/state.h"

/* ------------------------------------------------------------------------
 * Reasons for a collection, and its blocks
 */

static void choose_span(struct rmwf *s)
{
	const struct rmwf_victim *v = &s->victim;
	u32 track = rmwf_track_blocks(&s->space, v->band), of = s->space.band_blocks;
	u32 from = v->track * track;

	s->span = (struct rmwf_span){
		.lblk = v->band * of + from, .n = min(v->end * track, of) - from,
	};
	s->merges.nr = 0;
	s->merges.blocks = 0;
	s->merges.looked = 0;
	s->merges.added = 0;
	s->chosen = true;
}

/* Index of the first run that begins after a block. */
static u32 first_behind(const struct rmwf *s, u32 lblk)
{
	u32 low = 0, high = s->merges.nr;

	while (low < high) {
		u32 mid = (low + high) / 2;

		if (s->merges.list[mid].lblk > lblk)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/*
 * Insert a block into the list, in order; extend the run before it if the block continues
 * it.
 */
static bool add_merge(struct rmwf *s, u32 lblk, u32 slot)
{
	u32 i = first_behind(s, lblk);
	struct rmwf_merge *m;

	if (s->merges.blocks >= RMWF_MERGED)
		return false;
	m = i ? &s->merges.list[i - 1] : NULL;
	if (m && lblk < m->lblk + m->n)
		return true;
	if (m && lblk == m->lblk + m->n && slot == m->slot + m->n) {
		m->n++;
		s->merges.blocks++;
		return true;
	}
	if (s->merges.nr >= s->merges.most)
		return false;
	memmove(&s->merges.list[i + 1], &s->merges.list[i],
		(s->merges.nr - i) * sizeof(*s->merges.list));
	s->merges.list[i] = (struct rmwf_merge){ lblk, slot, 1 };
	s->merges.nr++;
	s->merges.blocks++;
	return true;
}

/*
 * First add the blocks of the requested pages, because these make room (R5).  Only some at
 * a time, because an insertion may move the whole list.
 */
static void add_chosen(struct rmwf *s)
{
	const struct rmwf_want *want = &s->want;
	const struct rmwf_flash *f = &s->flash;
	u32 some = RMWF_ADDED, slot, lblk;

	for (; some && s->merges.added < want->n; s->merges.added++) {
		slot = want->from + s->merges.added;
		if (shingle_slot_state(&f->map, slot) != SHINGLE_SLOT_OWNED)
			continue;
		lblk = shingle_slot_lblk(&f->map, slot);
		if (lblk - s->span.lblk >= s->span.n)
			continue;
		if (!add_merge(s, lblk, slot)) {
			s->merges.added = want->n;
			return;
		}
		some--;
	}
}

static bool collect(struct rmwf *s, const struct rmwf_want *want)
{
	bool found = rmwf_collect(&s->flash, want, s->row, &s->victim);

	/* Their counts have been halved. */
	rmwf_mark_slots(s, want->from, want->n);
	if (!found)
		return false;
	choose_span(s);
	s->want = *want;
	s->count.cold_blocks += s->victim.cold;
	s->count.hot_blocks += s->victim.all - s->victim.cold;
	return true;
}

static bool choose_wanted(struct rmwf *s)
{
	const struct rmwf_want want = {
		.from = s->want_from, .n = s->want_n, .percent = s->opt.percent, .hot = s->opt.hot,
		.literal = s->opt.literal,
	};

	s->wanted = false;
	s->stuck = false;
	if (collect(s, &want)) {
		s->count.collections++;
		return true;
	}
	s->stuck = s->opt.literal;
	return false;
}

/*
 * Bring everything home that is in flash now, but not what comes later.  Returns 1 and a
 * collection, 0 at the end, -1 if the caller must call again.  The page that is found
 * becomes free, and so do the later pages of its flash block with blocks of the same band.
 */
static int choose_asked(struct rmwf *s)
{
	struct rmwf_flash *f = &s->flash;
	struct rmwf_want want = { .percent = 100, .hot = s->opt.hot, .of_first = true };

	if (!s->asked) {
		s->asked = true;
		s->asked_at = 0;
		rmwf_flash_age(f);
	}
	if (!rmwf_flash_old(f, &s->asked_at)) {
		s->asked = s->asked_at < f->map.nr_slots;
		return s->asked ? -1 : 0;
	}
	want.from = s->asked_at;
	want.n = f->page_blocks - s->asked_at % f->page_blocks;
	collect(s, &want);
	s->count.collections_forced++;
	return 1;
}

static int choose(struct rmwf *s, enum shingle_why why)
{
	switch (why) {
	case SHINGLE_WHY_PRESSURE:
		return s->wanted && choose_wanted(s);
	case SHINGLE_WHY_FORCED:
		return choose_asked(s);
	default:
		return 0;
	}
}

/* ------------------------------------------------------------------------
 * The next step
 */

static void look_step(struct shingle_step *step)
{
	step->kind = RMWF_STEP_LOOK;
	step->records = 1;
	step->sync = SHINGLE_SYNC_NONE;
}

static void band_step(struct rmwf *s, struct shingle_step *step)
{
	const struct rmwf_span *span = s->staging.n ? &s->staging : &s->span;
	enum shingle_rewrite how = s->staging.n ? SHINGLE_REWRITE_BACK :
				   s->opt.unsafe_inplace ? SHINGLE_REWRITE_INPLACE :
				   SHINGLE_REWRITE_STAGE;
	static const u32 kind[] = {
		[SHINGLE_REWRITE_STAGE] = RMWF_STEP_STAGE,
		[SHINGLE_REWRITE_BACK] = RMWF_STEP_WRITEBACK,
		[SHINGLE_REWRITE_INPLACE] = RMWF_STEP_INPLACE,
	};

	step->kind = kind[how];
	step->n = span->n;
	step->lblk = span->lblk;
	step->records = how == SHINGLE_REWRITE_BACK ? 2 : s->merges.nr + 2;
	shingle_step_rewrite(step, how, rmwf_native(&s->space, span->lblk),
			     shingle_staging_pblk(s->layout));
}

/* An operation of struct shingle_engine_ops. */
int rmwf_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step)
{
	struct rmwf *s = to_rmwf(e);
	u32 of = s->space.band_blocks;
	int r;

	shingle_step_init(step);
	if (s->stepping || s->waits)
		return -EAGAIN;
	if (!s->staging.n && !s->chosen) {
		r = choose(s, why);
		if (!r)
			return 0;
		s->engine.jobs++;
		if (r < 0) {
			look_step(step);
			s->stepping = true;
			return 1;
		}
	}
	if (!s->staging.n && rmwf_in_flight(&s->space, s->victim.band * of, of))
		return -EAGAIN;
	/* Not earlier: writes that have ended by now may have moved blocks to other pages. */
	if (!s->staging.n && s->merges.added < s->want.n)
		add_chosen(s);
	if (!s->staging.n && s->merges.looked < s->span.n)
		look_step(step);
	else
		band_step(s, step);
	s->stepping = true;
	return 1;
}

/* The run with a block, or the first run after it. */
static const struct rmwf_merge *merge_at(const struct rmwf *s, u32 lblk)
{
	u32 low = 0, high = s->merges.nr;

	while (low < high) {
		u32 mid = (low + high) / 2;

		if (s->merges.list[mid].lblk + s->merges.list[mid].n <= lblk)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->merges.nr ? &s->merges.list[low] : NULL;
}

/*
 * An operation of struct shingle_engine_ops.  Blocks that are live at home and have no
 * newer copy in flash come from there; destroyed places are not read.
 */
bool rmwf_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
		      struct shingle_run *out)
{
	struct rmwf *s = to_rmwf(e);
	u32 lblk = s->span.lblk + offset, end = s->span.lblk + s->span.n, live, stop;
	const struct rmwf_merge *m;

	if (step->kind == RMWF_STEP_WRITEBACK)
		return false;
	m = merge_at(s, lblk);
	live = find_next_bit(s->space.live, end, lblk);
	out->kind = SHINGLE_RUN_MAPPED;
	if (m && m->lblk <= live) {
		lblk = max(lblk, m->lblk);
		out->lblk = lblk - s->span.lblk;
		out->pblk = s->cache_pblk + m->slot + lblk - m->lblk;
		out->n = m->lblk + m->n - lblk;
		return true;
	}
	if (live >= end)
		return false;
	stop = m ? min(m->lblk, end) : end;
	for (out->n = 1; live + out->n < stop && test_bit(live + out->n, s->space.live);)
		out->n++;
	out->lblk = live - s->span.lblk;
	out->pblk = rmwf_native(&s->space, live);
	return true;
}

/* ------------------------------------------------------------------------
 * The end of a step
 */

/* Look up a part of the span in flash. */
static void look(struct rmwf *s)
{
	u32 looks = SHINGLE_WALK, slot;

	if (!s->chosen || s->merges.added < s->want.n)
		return;
	for (; looks && s->merges.looked < s->span.n; looks--, s->merges.looked++) {
		slot = rmwf_find(&s->flash, s->span.lblk + s->merges.looked);
		if (slot != SHINGLE_NO_SLOT && !add_merge(s, s->span.lblk + s->merges.looked, slot))
			s->merges.looked = s->span.n - 1;
	}
}

static void merged(struct rmwf *s, struct shingle_emit *emit)
{
	u32 band = rmwf_band(s, s->span.lblk), i, k;

	for (i = 0; i < s->merges.nr; i++) {
		const struct rmwf_merge *m = &s->merges.list[i];

		for (k = 0; k < m->n; k++)
			rmwf_leave_flash(s, m->lblk + k, band, emit->seq);
		rmwf_space_live(&s->space, m->lblk, m->n, false);
		rmwf_mark_live(s, m->lblk, m->n);
		shingle_emit(emit, RMWF_REC_HOME, m->n, 0, m->lblk, 0);
	}
	s->count.merged_blocks += s->merges.blocks;
	s->stuck = false;
}

/* An operation of struct shingle_engine_ops. */
void rmwf_finish_step(struct shingle_engine *e, const struct shingle_step *step,
		      struct shingle_emit *emit)
{
	struct rmwf *s = to_rmwf(e);

	s->stepping = false;
	switch (step->kind) {
	case RMWF_STEP_LOOK:
		look(s);
		return;
	case RMWF_STEP_STAGE:
		merged(s, emit);
		s->staging = s->span;
		s->count.rmw_staged_blocks += step->n;
		shingle_emit(emit, RMWF_REC_STAGED, 0, 0, s->span.lblk, s->span.n);
		break;
	case RMWF_STEP_INPLACE:
		merged(s, emit);
		s->count.rmw_home_blocks += step->n;
		break;
	case RMWF_STEP_WRITEBACK:
		s->count.rmw_home_blocks += step->n;
		shingle_emit(emit, RMWF_REC_BACK, 0, 0, s->staging.lblk, s->staging.n);
		s->staging.n = 0;
		break;
	}
	s->chosen = false;
	rmwf_mark_state(s);
	s->waits = true;
	s->waits_seq = emit->seq;
}

/* An operation of struct shingle_engine_ops.  The next call may choose another collection. */
bool rmwf_fail_step(struct shingle_engine *e, const struct shingle_step *step,
		    const struct shingle_unwritten *bad)
{
	struct rmwf *s = to_rmwf(e);

	s->stepping = false;
	s->chosen = false;
	return false;
}

/* An operation of struct shingle_engine_ops. */
bool rmwf_release_step(struct shingle_engine *e, u64 seq)
{
	struct rmwf *s = to_rmwf(e);

	if (s->waits && seq >= s->waits_seq)
		s->waits = false;
	return rmwf_space_release(&s->space, seq) || rmwf_flash_release(&s->flash, seq);
}

/* An operation of struct shingle_engine_ops. */
bool rmwf_is_pending(struct shingle_engine *e)
{
	const struct rmwf *s = to_rmwf(e);

	return s->waits || rmwf_pending(&s->space) || s->flash.nr_freed;
}
