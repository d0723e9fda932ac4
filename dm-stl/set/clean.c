// SPDX-License-Identifier: GPL-2.0
/*
 * Set-associative translation layer: clean(c), compared with the paper.
 *
 * Aghayev (2020), section 2.3.1, and Algorithm 1 of section 2.4.5, the order in which a Seagate
 * drive cleans:
 *
 *	while idle (or no space):			stl_set_next_step()
 *		blk = oldest live block of the cache	pick_set(), pick_slot()
 *		band = band(blk)
 *		S = all cached live blocks in the band	stl_set_step_source()
 *		RMW the band with S; update the map	rewrite_step(), stl_set_step_done()
 *
 * clean(c) is lazy and empties all of set c.  The options "order" and "cleaning" select what
 * the papers leave open.  With rmw=block S is only the oldest block, which is also the oldest
 * of its band: the copy then has the content that the band had before the later slots were
 * written.
 *
 * The papers do not treat crashes.  Here a band is rewritten in two steps, each ended by a
 * durable record: STAGE merges the band into the staging band, WRITEBACK copies it home.
 * Between the two the staged copy *is* the band.
 */
#include "set/state.h"

/* A write found @set full; queue it for cleaning. */
void stl_set_want_clean(struct stl_set *s, u32 set)
{
	if (s->clean.wanted[set] || s->clean.set == set)
		return;
	s->count.full_sets++;
	s->clean.wanted[set] = set + 1;
	if (s->clean.wanted_head == NO_SET)
		s->clean.wanted_head = set;
	else
		s->clean.wanted[s->clean.wanted_tail] = set + 1;
	s->clean.wanted_tail = set;
}

static u32 pop_wanted(struct stl_set *s)
{
	u32 set = s->clean.wanted_head;

	if (set == NO_SET)
		return NO_SET;
	s->clean.wanted_head = set == s->clean.wanted_tail ? NO_SET : s->clean.wanted[set] - 1;
	s->clean.wanted[set] = 0;
	return set;
}

/* Is set @a cleaned before set @b? */
static bool set_before(const struct stl_set *s, u32 a, u32 b)
{
	const struct shingle_slotlog *la = &s->logs.log[a], *lb = &s->logs.log[b];
	u32 stale[] = { la->fill - la->live, lb->fill - lb->live };

	if (s->greedy && stale[0] != stale[1])
		return stale[0] > stale[1];
	return la->age < lb->age;
}

/* The first set by the order, among the non-empty ones opened before @age. */
static u32 pick_by_order(const struct stl_set *s, u32 age)
{
	u32 best = NO_SET, set;

	for (set = 0; set < s->nr_sets; set++) {
		if (s->logs.log[set].fill && s->logs.log[set].age < age &&
		    (best == NO_SET || set_before(s, set, best)))
			best = set;
	}
	return best;
}

static u32 pick_set(struct stl_set *s, enum shingle_why why)
{
	u32 set = why == SHINGLE_WHY_FORCED ? NO_SET : pop_wanted(s);

	if (set != NO_SET || why == SHINGLE_WHY_PRESSURE)
		return set;
	if (why == SHINGLE_WHY_IDLE)
		return pick_by_order(s, U32_MAX);
	if (!s->clean.forced) {
		/* A forced clean leaves out sets that are opened from now on. */
		s->clean.forced = true;
		s->clean.forced_age = s->logs.age;
	}
	set = pick_by_order(s, s->clean.forced_age);
	s->clean.forced = set != NO_SET;
	return set;
}

/*
 * The oldest block of the set being cleaned; with @greedy, of the band with the most blocks
 * in it.  Stale slots at the front are visited only once.
 */
static u32 pick_slot(struct stl_set *s)
{
	const struct shingle_slotlog *log = &s->logs.log[s->clean.set];
	u32 first = s->clean.set * s->logs.log_blocks, slot = first + s->clean.from;
	u32 best = NO_BAND, found = SHINGLE_NO_SLOT;

	for (; log->live && slot < first + log->fill; slot++) {
		u32 band = shingle_slotlog_band(&s->logs, slot);

		if (band == NO_BAND)
			continue;
		if (best == NO_BAND)
			s->clean.from = slot - first;
		if (best == NO_BAND || s->logs.band_live[band] > s->logs.band_live[best]) {
			best = band;
			found = slot;
		}
		if (!s->greedy)
			break;
	}
	return found;
}

/* Do not copy again the blocks that a stream has brought home. */
static void writeback_step(struct stl_set *s, struct shingle_step *step)
{
	u32 from = s->staging.home_blocks;

	s->clean.step_band = s->staging.band;
	step->kind = STEP_WRITEBACK;
	step->n = s->band_blocks - from;
	shingle_step_rewrite(step, SHINGLE_REWRITE_BACK, native(s, s->staging.band) + from,
			     shingle_staging_pblk(s->layout) + from);
	step->lblk = (u64)s->staging.band * s->band_blocks + from;
}

/*
 * Number of first blocks at the home of @band that a step may read.  An empty home can be
 * read whole, unless a stream wrote to it: blocks that the head has destroyed are not read.
 */
static u32 readable(const struct stl_set *s, u32 band)
{
	return s->home_blocks[band] ? at_home(s, band) : s->band_blocks;
}

/*
 * No write to @set or to the home of @band may be in flight while that is rewritten.
 * Returns 0 if there is none, else -EAGAIN.  Ends a stream in the band.
 */
static int quiet_band(struct stl_set *s, u32 band)
{
	u32 set = set_of_band(s, band);

	if (band == s->bypass.band)
		stl_set_break_stream(s);
	if (s->logs.log[set].inflight)
		s->clean.drain_set = set;
	return s->logs.log[set].inflight || band == s->bypass.flight_band ? -EAGAIN : 0;
}

/*
 * Build a step that writes gathered blocks over a band, together with its cached blocks.
 * If all of the band was gathered, nothing else is read.
 */
static int epoch_step(struct stl_set *s, struct shingle_step *step)
{
	bool whole;
	u32 band;

	if (s->epoch.at == s->epoch.nr)
		return 0;
	band = s->epoch.band[s->epoch.at];
	whole = s->epoch.blocks[s->epoch.at] == s->band_blocks;
	if (quiet_band(s, band))
		return -EAGAIN;
	s->clean.step_band = band;
	s->clean.step_live = whole ? 0 : s->logs.band_live[band];
	s->clean.step_streamed = true;
	step->kind = STEP_INPLACE;
	step->n = s->band_blocks;
	step->read_blocks = s->read_all && !whole ? readable(s, band) : 0;
	if (!whole && (step->read_blocks || whole_at_home(s, band)))
		step->base = native(s, band);
	step->dst = native(s, band);
	step->lblk = (u64)band * s->band_blocks;
	step->cookie = s->logs.log[set_of_band(s, band)].fill;
	step->whole_in_memory = true;
	step->gathered = SHINGLE_GATHERED_OVER;
	return 1;
}

/*
 * Build a step that brings the cached blocks of @band home, or, with rmw=block, only the
 * oldest one, in @slot.  In the latter case, if the band is at home, the blocks before this
 * one stay as they are, because the head destroys only what follows.
 */
static int rewrite_step(struct stl_set *s, u32 band, u32 slot, struct shingle_step *step)
{
	u32 set = set_of_band(s, band), from = 0;
	bool alone = s->by_block && slot != SHINGLE_NO_SLOT;

	if (quiet_band(s, band))
		return -EAGAIN;
	s->clean.step_band = band;
	s->clean.step_live = alone ? 1 : s->logs.band_live[band];
	s->clean.step_streamed = slot == SHINGLE_NO_SLOT;
	if (alone && whole_at_home(s, band))
		from = shingle_slot_lblk(&s->logs.map, slot) - band * s->band_blocks;
	step->kind = s->inplace ? STEP_INPLACE : STEP_STAGE;
	step->n = s->band_blocks - from;
	step->read_blocks = s->read_all ? readable(s, band) - from : 0;
	step->base = step->read_blocks || whole_at_home(s, band) ? native(s, band) + from :
								  SHINGLE_NOWHERE;
	shingle_step_rewrite(step, s->inplace ? SHINGLE_REWRITE_INPLACE : SHINGLE_REWRITE_STAGE,
			     native(s, band) + from, shingle_staging_pblk(s->layout) + from);
	step->lblk = (u64)band * s->band_blocks + from;
	step->cookie = alone ? slot - set * s->logs.log_blocks + 1 : s->logs.log[set].fill;
	return 1;
}

/* Stage a band for a stream that waits at its beginning; no set is cleaned for this. */
static int stage_for_stream(struct stl_set *s, struct shingle_step *step)
{
	int r = rewrite_step(s, s->bypass.wanted_band, SHINGLE_NO_SLOT, step);

	s->engine.jobs += r > 0;
	return r;
}

/* Does a clean or a write need the staging band that a stream holds? */
static bool staging_needed(const struct stl_set *s, enum shingle_why why)
{
	switch (why) {
	case SHINGLE_WHY_PRESSURE:
		return s->clean.wanted_head != NO_SET || s->clean.set != NO_SET ||
		       s->bypass.wanted_band != NO_BAND;
	case SHINGLE_WHY_IDLE:
		return s->aggressive;
	default:
		return why == SHINGLE_WHY_FORCED || why == SHINGLE_WHY_EPOCH;
	}
}

int stl_set_next_step(struct shingle_engine *e, enum shingle_why why,
		      struct shingle_step *step)
{
	struct stl_set *s = to_set(e);
	u32 set, slot;

	shingle_step_init(step);

	if (s->clean.step_band != NO_BAND || s->clean.reset_set != NO_SET)
		return -EAGAIN;
	s->clean.drain_set = NO_SET;
	s->clean.step_why = why;
	if (s->staging.in_use) {
		if (s->bypass.band == s->staging.band) {
			if (!staging_needed(s, why))
				return 0;
			stl_set_break_stream(s);
		}
		if (s->bypass.flight_band == s->staging.band)
			return -EAGAIN;
		writeback_step(s, step);
		return 1;
	}
	if (why == SHINGLE_WHY_EPOCH)
		return epoch_step(s, step);
	/* Lazy: clean only when a write needs the room. */
	if (why == SHINGLE_WHY_RECOVERY || (why == SHINGLE_WHY_IDLE && !s->aggressive))
		return 0;

again:
	if (s->clean.set == NO_SET) {
		if (why == SHINGLE_WHY_PRESSURE && s->clean.wanted_head == NO_SET &&
		    s->bypass.wanted_band != NO_BAND)
			return stage_for_stream(s, step);
		s->clean.set = pick_set(s, why);
		s->clean.from = 0;
		if (s->clean.set == NO_SET)
			return 0;
		s->engine.jobs++;
	}
	set = s->clean.set;
	if (s->logs.log[set].inflight) {
		s->clean.drain_set = set;
		return -EAGAIN;
	}
	slot = pick_slot(s);
	if (slot != SHINGLE_NO_SLOT)
		return rewrite_step(s, shingle_slotlog_band(&s->logs, slot), slot, step);
	s->clean.set = NO_SET;
	if (!s->logs.log[set].fill)
		goto again;
	step->kind = STEP_RETIRE;
	step->cookie = set;
	s->clean.reset_set = set;
	s->clean.reset_seq = U64_MAX;
	return 1;
}

/*
 * The slot that a step reads a block from.  A block that is newer than the step's snapshot
 * stays in the cache.
 */
static u32 source_slot(const struct stl_set *s, const struct shingle_step *step, u32 band,
		       u32 offset)
{
	u32 slot = find_slot(s, band, step->lblk + offset);
	u32 first = set_of_band(s, band) * s->logs.log_blocks;

	return slot != SHINGLE_NO_SLOT && slot - first < step->cookie ? slot : SHINGLE_NO_SLOT;
}

bool stl_set_step_source(struct shingle_engine *e, const struct shingle_step *step,
			 u32 offset, struct shingle_run *out)
{
	struct stl_set *s = to_set(e);
	u32 band = (u32)step->lblk / s->band_blocks, slot = SHINGLE_NO_SLOT, home, end;
	u32 from = step->lblk - band * s->band_blocks;
	bool based = step->base != SHINGLE_NOWHERE;

	if (step->kind == STEP_WRITEBACK || writes_whole_band(s, step))
		return false;
	/*
	 * Before the prefix the medium may hold anything.  A step without a base reads the
	 * prefix explicitly; in a step with a base, blocks that are not at home become
	 * zeroes.
	 */
	home = at_home(s, band);
	home -= min(home, from);
	for (; offset < step->n; offset++) {
		slot = source_slot(s, step, band, offset);
		if (slot != SHINGLE_NO_SLOT || (based ? offset >= home : offset < home))
			break;
	}
	if (offset == step->n)
		return false;
	out->lblk = offset;
	out->kind = SHINGLE_RUN_MAPPED;
	out->n = 1;
	if (slot == SHINGLE_NO_SLOT) {
		out->pblk = native(s, band) + offset;
		if (based)
			out->kind = SHINGLE_RUN_ZERO;
		end = based ? step->n : home;
		while (offset + out->n < end &&
		       source_slot(s, step, band, offset + out->n) == SHINGLE_NO_SLOT)
			out->n++;
		return true;
	}
	out->pblk = slot_pblk(s, slot);
	while (offset + out->n < step->n &&
	       source_slot(s, step, band, offset + out->n) == slot + out->n)
		out->n++;
	return true;
}

static void emit_reset(struct stl_set *s, u32 set, struct shingle_emit *emit)
{
	shingle_emit(emit, STL_SET_RESET, 0, 0, set, 0);
	shingle_slotlog_mark(&s->logs, set * s->logs.log_blocks, s->logs.log_blocks);
	s->clean.reset_set = set;
	s->clean.reset_seq = emit->seq;
	s->count.sets_cleaned++;
}

/* The copy of @band at home includes all slots below @snapshot. */
static void band_cleaned(struct stl_set *s, u32 band, u32 snapshot, struct shingle_emit *emit)
{
	u32 set = set_of_band(s, band);

	drop_band(s, band, snapshot);
	stl_set_note_home(s, band, s->band_blocks);
	s->count.bands_cleaned++;
	shingle_emit(emit, STL_SET_CLEANED, 0, 0, band, snapshot);
	if (s->clean.set == set && !s->logs.log[set].live && !s->logs.log[set].inflight) {
		s->clean.set = NO_SET;
		emit_reset(s, set, emit);
	}
}

static void count_rmw(struct stl_set *s)
{
	s->count.merged_blocks += s->clean.step_live;
	if (s->clean.step_streamed)
		s->rmw.stream++;
	else if (s->clean.step_why == SHINGLE_WHY_PRESSURE)
		s->rmw.pressure++;
	else if (s->clean.step_why == SHINGLE_WHY_IDLE)
		s->rmw.idle++;
	else
		s->rmw.forced++;
}

void stl_set_step_done(struct shingle_engine *e, const struct shingle_step *step,
		       struct shingle_emit *emit)
{
	struct stl_set *s = to_set(e);
	u32 fresh;

	switch (step->kind) {
	case STEP_STAGE:
		count_rmw(s);
		s->rmw.staged_blocks += step->n;
		s->staging.in_use = true;
		s->staging.band = s->clean.step_band;
		s->staging.snapshot = step->cookie;
		s->staging.home_blocks = s->band_blocks - step->n;
		stl_set_mark_globals(s);
		s->staging.tidied = 0;
		/* The home is free once the record is durable and the readers are gone. */
		if (s->clean.step_band == s->bypass.wanted_band && s->clean.set == NO_SET) {
			stl_set_break_stream(s);
			s->bypass.band = s->clean.step_band;
			s->bypass.home_pending = true;
			s->bypass.home_seq = emit->seq;
		}
		if (s->clean.step_band == s->bypass.wanted_band)
			stl_set_drop_wanted_band(s);
		shingle_emit(emit, STL_SET_STAGED, 0, s->staging.home_blocks, s->clean.step_band,
			     step->cookie);
		break;
	case STEP_WRITEBACK:
		s->rmw.home_blocks += step->n;
		s->staging.in_use = false;
		stl_set_mark_globals(s);
		band_cleaned(s, s->clean.step_band, s->staging.snapshot, emit);
		break;
	case STEP_INPLACE:
		fresh = step->gathered ? s->epoch.blocks[s->epoch.at] : 0;
		if (fresh < s->band_blocks)
			count_rmw(s);
		s->count.bypassed_blocks += fresh;
		s->rmw.home_blocks += step->n - fresh;
		s->epoch.at += !!step->gathered;
		band_cleaned(s, s->clean.step_band, step->cookie, emit);
		break;
	case STEP_RETIRE:
		emit_reset(s, step->cookie, emit);
		break;
	}
	s->clean.step_band = NO_BAND;
}

bool stl_set_step_failed(struct shingle_engine *e, const struct shingle_step *step,
			 const struct shingle_unwritten *bad)
{
	struct stl_set *s = to_set(e);

	if (step->kind == STEP_RETIRE)
		s->clean.reset_set = NO_SET;
	s->clean.step_band = NO_BAND;
	return false;
}

/* The copy is the band, so locate() ignores older slots; drop them piece by piece. */
bool stl_set_tidy(struct shingle_engine *e)
{
	struct stl_set *s = to_set(e);
	u32 n;

	if (!s->staging.in_use || s->staging.tidied == s->band_blocks)
		return false;
	n = min(s->band_blocks - s->staging.tidied, SHINGLE_WALK);
	shingle_slotlog_drop(&s->logs, s->staging.band * s->band_blocks + s->staging.tidied, n,
			     s->staging.snapshot);
	s->staging.tidied += n;
	return s->staging.tidied < s->band_blocks;
}

bool stl_set_release(struct shingle_engine *e, u64 seq)
{
	struct stl_set *s = to_set(e);
	u32 set = s->clean.reset_set;

	if (s->bypass.home_seq <= seq)
		s->bypass.home_pending = false;
	if (set == NO_SET || s->clean.reset_seq > seq)
		return false;
	if (shingle_slotlog_clear_some(&s->logs, set))
		return true;
	s->clean.reset_set = NO_SET;
	return false;
}

bool stl_set_pending(struct shingle_engine *e)
{
	const struct stl_set *s = to_set(e);

	return s->clean.reset_set != NO_SET || s->bypass.home_pending;
}
