// SPDX-License-Identifier: GPL-2.0
/*
 * Fully-associative translation layer: cleaning, compared with the paper.
 *
 * Aghayev (2020), section 2.3.1:
 *
 *	clean (when #free bands < threshold):		zone_step()
 *		merge b with its updates in c		band_in_log(), merge_step()
 *		write to a new free band d		stl_full_take_band()
 *		dyn[a] = d; free b and c		stl_full_step_done()
 *
 * Several logical bands share c, so each of them takes one such step, and c is free after the
 * last.  The paper does not say which c is cleaned first.
 */
#include "full/state.h"

/*
 * Choose a log to clean: one that can simply be freed; otherwise the oldest before @age, or
 * with @greedy the one with the fewest current blocks.
 */
static u32 pick_victim(const struct stl_full *s, u32 zone, u32 age)
{
	const struct full_zone *z = &s->zone[zone];
	u32 log = zone * s->g.log_bands, end = log + s->g.log_bands, best = NO_LOG;

	for (; log < end; log++) {
		const struct shingle_slotlog *l = &s->logs.log[log];

		if (s->log[log].band == NO_BAND || l->age >= age)
			continue;
		if (!l->live && !l->inflight && log != z->open && log != z->stream)
			return log;
		if (best == NO_LOG || (s->greedy ? l->live < s->logs.log[best].live :
				       l->age < s->logs.log[best].age))
			best = log;
	}
	return best;
}

/* A logical band with blocks in @log; if possible one with no writes in flight. */
static u32 band_in_log(const struct stl_full *s, u32 log)
{
	u32 slot = log * s->band_blocks, end = slot + s->logs.log[log].fill, busy = NO_BAND;

	for (; slot < end; slot++) {
		u32 band = shingle_slotlog_band(&s->logs, slot);

		if (band == NO_BAND)
			continue;
		if (!s->band_inflight[band])
			return band;
		busy = band;
	}
	return busy;
}

static void set_victim(struct stl_full *s, struct full_zone *z, u32 log)
{
	z->victim = log;
	if (z->open == log)
		z->open = NO_LOG;
	if (z->stream == log)
		stl_full_break_stream(s, z);
}

static int merge_step(struct stl_full *s, u32 zone, u32 band, struct shingle_step *step)
{
	struct full_zone *z = &s->zone[zone];
	u32 dst = stl_full_take_band(s, zone);

	stl_full_set_use(s, dst, USE_STEP, 0);
	/*
	 * The merge takes blocks out of the stream's log, so the stream cannot become a
	 * home.
	 */
	if (z->stream != NO_LOG && z->stream_band == band)
		stl_full_break_stream(s, z);
	s->clean.step_band = band;
	step->kind = STEP_MERGE;
	step->n = s->band_blocks;
	step->read_blocks = s->read_all ? s->band_blocks : 0;
	if (s->read_all || test_bit(band, s->written))
		step->base = band_pblk(s, s->home[band]);
	step->dst = band_pblk(s, dst);
	step->lblk = (u64)band * s->band_blocks;
	step->cookie = dst;
	return 1;
}

static int zone_step(struct stl_full *s, u32 zone, enum shingle_why why,
		     struct shingle_step *step)
{
	struct full_zone *z = &s->zone[zone];
	u32 age = why == SHINGLE_WHY_FORCED ? s->clean.forced_age : U32_MAX, band;

	if (why == SHINGLE_WHY_PRESSURE) {
		if (!z->wanted)
			return 0;
		if (stl_full_room(s, zone, z->free)) {
			z->wanted = false;
			return 0;
		}
		if (stl_full_room(s, zone, z->free + z->pending))
			return -EAGAIN;
	}
	if (z->victim == NO_LOG || s->logs.log[z->victim].age >= age) {
		u32 log = pick_victim(s, zone, age);

		if (log == NO_LOG)
			return why == SHINGLE_WHY_PRESSURE ? -EAGAIN : 0;
		set_victim(s, z, log);
	}
	if (!s->logs.log[z->victim].live) {
		if (s->logs.log[z->victim].inflight)
			return -EAGAIN;
		step->kind = STEP_FREE;
		s->clean.step_log = z->victim;
		return 1;
	}
	/* Better to wait for a commit that frees a band than to use one that failed. */
	if (!z->free || (z->pending && s->bands.failed[stl_full_free_band(s, zone)]))
		return -EAGAIN;
	band = band_in_log(s, z->victim);
	if (s->band_inflight[band]) {
		/* A clean that runs only because the host is idle does not hold writes back. */
		if (why != SHINGLE_WHY_IDLE)
			s->clean.drain_band = band;
		return -EAGAIN;
	}
	return merge_step(s, zone, band, step);
}

int stl_full_next_step(struct shingle_engine *e, enum shingle_why why,
		       struct shingle_step *step)
{
	struct stl_full *s = to_full(e);
	bool again = false;
	u32 i;

	shingle_step_init(step);

	if (s->clean.step_band != NO_BAND || s->clean.step_log != NO_LOG)
		return -EAGAIN;
	s->clean.drain_band = NO_BAND;
	if (why == SHINGLE_WHY_RECOVERY || (why == SHINGLE_WHY_IDLE && s->lazy))
		return 0;
	if (why == SHINGLE_WHY_FORCED && !s->clean.forced) {
		/* A forced clean leaves out logs that are opened from now on. */
		s->clean.forced = true;
		s->clean.forced_age = s->logs.age;
	}
	for (i = 0; i < s->g.nr_zones; i++) {
		u32 zone = (s->clean.next_zone + i) % s->g.nr_zones;
		int r = zone_step(s, zone, why, step);

		if (r > 0) {
			/*
			 * Each step is a job of its own, because the next merge is chosen
			 * again.
			 */
			s->engine.jobs++;
			s->clean.next_zone = zone;
			return r;
		}
		again |= r == -EAGAIN;
	}
	if (!again && why == SHINGLE_WHY_FORCED)
		s->clean.forced = false;
	return again ? -EAGAIN : 0;
}

static void free_log(struct stl_full *s, u32 log, struct shingle_emit *emit)
{
	stl_full_retire_band(s, s->log[log].band, emit->seq);
	stl_full_clear_log(s, log, emit);
	s->count.logs_freed++;
}

/* Free the logs that hold nothing current and take no more writes. */
static void free_empty_logs(struct stl_full *s, u32 zone, struct shingle_emit *emit)
{
	const struct full_zone *z = &s->zone[zone];
	u32 log = zone * s->g.log_bands, end = log + s->g.log_bands, n = 0;

	for (; log < end && n < FREE_AT_ONCE; log++) {
		const struct shingle_slotlog *l = &s->logs.log[log];

		if (s->log[log].band == NO_BAND || l->live || l->inflight || log == z->open ||
		    log == z->stream)
			continue;
		free_log(s, log, emit);
		n++;
	}
}

void stl_full_step_done(struct shingle_engine *e, const struct shingle_step *step,
			struct shingle_emit *emit)
{
	struct stl_full *s = to_full(e);
	u32 zone;

	if (step->kind == STEP_MERGE) {
		zone = zone_of_band(s, s->clean.step_band);
		s->count.merged_blocks += s->logs.band_live[s->clean.step_band];
		stl_full_move_home(s, s->clean.step_band, step->cookie, emit);
		s->count.bands_cleaned++;
	} else {
		zone = zone_of_log(s, s->clean.step_log);
	}
	s->clean.step_band = NO_BAND;
	s->clean.step_log = NO_LOG;
	free_empty_logs(s, zone, emit);
}

bool stl_full_step_failed(struct shingle_engine *e, const struct shingle_step *step,
			  const struct shingle_unwritten *bad)
{
	struct stl_full *s = to_full(e);

	if (step->kind == STEP_MERGE) {
		if (bad->n)
			stl_full_band_failed(s, step->cookie);
		stl_full_give_band(s, step->cookie);
	}
	s->clean.step_band = NO_BAND;
	s->clean.step_log = NO_LOG;
	return false;
}
