// SPDX-License-Identifier: GPL-2.0
/*
 * Log-structured translation layer: what core asks about reads, compared with the paper.
 *
 * Hajkazemi et al. (2018), Algorithm 1, opportunistic defragmentation:
 *
 *	read(range), fragmented:
 *		write the range at the frontier		stl_log_rewrite_step()
 *
 * The paper has one frontier.  Without cleaning the rewrite goes where the host writes, at a moment
 * when no write is in flight there, and the host waits for it.  With cleaning it goes to the
 * cleaner's frontier.  It is dropped if a block of the range has changed meanwhile, if the range
 * has too many extents for a step, if there is no room, or if a part of the step fails.
 */
#include "log/state.h"

/*
 * Extents that a rewrite may add to the map: it may split the first and the last extent of its
 * range, and replaces all others.
 */
#define REWRITE_EXTENTS	(2U * SHINGLE_EXTENTS_SET)

/* The places of the segment, or of the band of the home, up to its frontier. */
void stl_log_around(struct shingle_engine *e, u64 pblk, u64 *lo, u64 *hi)
{
	const struct stl_log *s = to_log(e);
	enum shingle_role role;
	u64 band, at;

	shingle_band_of(s->layout, pblk, &role, &band, &at);
	*lo = pblk - at;
	*hi = *lo + (band < s->home_bands ? s->band_blocks :
					    s->segment[band - s->home_bands].fill);
}

bool stl_log_rewrite(struct shingle_engine *e, u64 lblk, u32 n)
{
	struct stl_log *s = to_log(e);
	struct log_rewrites *r = &s->rewrites;
	u32 at = (r->head + r->nr) % REWRITES;

	if (n > s->band_blocks || r->nr == REWRITES) {
		s->n.dropped_rewrites++;
		return false;
	}
	r->lblk[at] = lblk;
	r->n[at] = n;
	r->nr++;
	return true;
}

/*
 * Let the step copy the extents of the range, or only count them if @step is NULL, up to one more
 * than it can copy.  @fresh: result, the blocks that it brings into use: those of the home that
 * were never written.  Without a home such blocks are read nowhere.
 */
static u32 collect(struct stl_log *s, struct shingle_step *step, u32 lblk, u32 n, u32 *fresh)
{
	u32 nr = 0, part, place;

	*fresh = 0;
	for (; n && nr <= MOVE_EXTENTS; lblk += part, n -= part) {
		part = shingle_extents_find(&s->x, lblk, n, &place);
		if (place == SHINGLE_EXTENTS_NONE && !s->home_bands)
			continue;
		nr++;
		*fresh += place == SHINGLE_EXTENTS_NONE ? part : 0;
		if (step)
			stl_log_add_move(s, step, lblk, place, part);
	}
	return nr;
}

/*
 * Is there room for @n blocks at the frontier, @fresh of which come into use?  The last free
 * segment and the room that cleaning needs beside it are left to others, see segments.c.
 */
static bool find_place(struct stl_log *s, enum log_frontier to, u32 n, u32 fresh)
{
	if (s->x.live_units + s->inflight_blocks + fresh > s->capacity)
		return false;
	if (s->free.nr < 2)
		return false;
	while (stl_log_room(s, to) < n) {
		if (s->free.nr < 2)
			return false;
		stl_log_close(s, to);
		stl_log_open(s, to);
	}
	return true;
}

/*
 * Begin the first rewrite.  Returns 1, 0 if it is dropped, -EAGAIN if a write must end first.  A
 * segment is closed for lack of room only if nothing else prevents the rewrite.
 */
static int begin(struct stl_log *s, struct shingle_step *step)
{
	enum log_frontier to = s->policy == LOG_CLEAN_OFF ? LOG_HOST : LOG_CLEANER;
	struct log_rewrites *r = &s->rewrites;
	u32 lblk = r->lblk[r->head], n = r->n[r->head], nr, fresh;
	int done = 0;

	nr = collect(s, NULL, lblk, n, &fresh);
	if (nr < 2 || nr > MOVE_EXTENTS || !shingle_extents_reserve(&s->x, REWRITE_EXTENTS))
		return 0;
	if (find_place(s, to, n, fresh))
		done = s->segment[s->frontier[to]].inflight ? -EAGAIN : 1;
	if (done <= 0) {
		shingle_extents_unreserve(&s->x, REWRITE_EXTENTS);
		return done;
	}
	stl_log_begin_step(s, step, STEP_REWRITE, to);
	step->optional = true;
	s->clean.to_host = to == LOG_HOST;
	s->clean.reserved = REWRITE_EXTENTS;
	collect(s, step, lblk, n, &s->clean.fresh);
	return 1;
}

/* The next step of defragmentation.  Returns as next_step(). */
int stl_log_rewrite_step(struct stl_log *s, struct shingle_step *step)
{
	int done = 0;

	while (s->rewrites.nr && !done) {
		done = begin(s, step);
		if (done == -EAGAIN)
			return done;
		if (!done)
			stl_log_end_rewrite(s, true);
	}
	s->engine.jobs += done;
	return done;
}
