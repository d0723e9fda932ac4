// SPDX-License-Identifier: GPL-2.0
/*
 * Log-structured translation layer: cleaning.
 *
 * The paper has none: its disk is infinite, and writing stops when an archive is full.  Here a
 * step copies extents of one segment, the victim, to the cleaner's frontier, in the order of their
 * places.  The victim is the segment with the fewest blocks in use (greedy), or that of the best
 * ratio of benefit to cost: free space * age / (read + write), Rosenblum and Ousterhout, "The
 * Design and Implementation of a Log-Structured File System" (1992), section 3.5.
 *
 * Another kind of step shortens the extent map.  It copies extents that follow each other
 * logically to the cleaner's frontier, where they become one.
 *
 * Writes and discards go on during a step.  step_done() compares the map with the places that the
 * step has copied, and does not move blocks that have been replaced.
 */
#include "log/state.h"

/* A segment has less than 2^32 blocks; its benefit and cost are compared in 64 bits. */
#define MOST_AGE	((1U << 20) - 1)
#define AGE_SHIFT	12

/* Segments in a row that one call looks at for a victim.  Tests define a smaller value. */
#ifndef VICTIM_WALK
#define VICTIM_WALK	(32U * SHINGLE_WALK)
#endif

/* ------------------------------------------------------------------------
 * The choice of a victim
 */

/* Is @a a better victim than @b? */
static bool better(const struct stl_log *s, u32 a, u32 b)
{
	u64 full = s->band_blocks, live_a = s->x.live[a], live_b = s->x.live[b];
	u64 age_a = min_t(u64, s->age - segment_age(&s->segment[a]), MOST_AGE);
	u64 age_b = min_t(u64, s->age - segment_age(&s->segment[b]), MOST_AGE);

	if (s->policy == LOG_CLEAN_GREEDY)
		return live_a < live_b;
	return div64_u64((full - live_a) * age_a << AGE_SHIFT, full + live_a) >
	       div64_u64((full - live_b) * age_b << AGE_SHIFT, full + live_b);
}

/*
 * Choose the best closed segment with blocks that are not in use, opened before @age, of the next
 * ones.
 */
static u32 pick_victim(struct stl_log *s, u64 age)
{
	u32 n = min(s->nr_segments, VICTIM_WALK), best = NO_SEGMENT, i, at = s->clean.next_segment;

	for (i = 0; i < n; i++) {
		const struct log_segment *g = &s->segment[at];

		if (g->use == LOG_CLOSED && segment_age(g) < age &&
		    s->x.live[at] < s->band_blocks) {
			if (g->inflight)
				s->clean.search_busy = true;
			else if (best == NO_SEGMENT || better(s, at, best))
				best = at;
		}
		if (++at == s->nr_segments)
			at = 0;
	}
	s->clean.next_segment = at;
	s->clean.search_looked += n;
	return best;
}

/* ------------------------------------------------------------------------
 * Steps
 */

/* Find room for a step at the cleaner's frontier: returns the blocks that it has there, or 0. */
static u32 clean_room(struct stl_log *s)
{
	u32 room;

	while (!(room = stl_log_room(s, LOG_CLEANER))) {
		stl_log_close(s, LOG_CLEANER);
		if (!s->free.nr)
			return 0;
		stl_log_open(s, LOG_CLEANER);
	}
	return room;
}

/* Is there an entry of the map that no write or discard of the host has reserved? */
static bool may_split(const struct stl_log *s)
{
	u32 host = s->x.reserved - cleaner_extents(s->nr_segments);

	return s->x.nr + host < s->x.max;
}

/*
 * As clean_room(), for an extent of @n blocks.  If the map has no entry for its other part the
 * extent must fit as a whole, and the rest of a segment remains unused.  This can go on without
 * gain, so the number of such segments is limited until the host changes the map.
 */
static u32 clean_room_for(struct stl_log *s, u32 n)
{
	u32 room;

	while ((room = clean_room(s)) && room < n && !may_split(s)) {
		if (!s->free.nr || s->clean.wasted == s->nr_segments)
			return 0;
		s->clean.wasted++;
		stl_log_close(s, LOG_CLEANER);
	}
	return room;
}

/* Let the step copy extent @at, or the first *@room blocks of it. */
static void add_extent(struct stl_log *s, struct shingle_step *step, u32 at, u32 *room)
{
	const struct shingle_extents_entry *x = &s->x.entry[at];
	u32 n = min(x->n, *room);

	stl_log_add_move(s, step, x->lunit, x->place, n);
	*room -= n;
}

/* Find a victim that was opened before @age.  Returns 0 if there is one, or else -ENOENT. */
static int find_victim(struct stl_log *s, u64 age)
{
	u32 victim = s->clean.victim;

	if (victim != NO_SEGMENT && segment_age(&s->segment[victim]) < age)
		return 0;
	victim = pick_victim(s, age);
	if (victim == NO_SEGMENT)
		return -ENOENT;
	s->clean.victim = victim;
	s->clean.search_looked = 0;
	s->clean.search_busy = false;
	s->n.bands_cleaned++;
	s->engine.jobs++;
	return 0;
}

/* No victim was found.  Go on, or end the search if it has looked at all segments. */
static int no_victim(struct stl_log *s, struct shingle_step *step)
{
	bool busy = s->clean.search_busy;

	if (s->clean.search_looked < s->nr_segments)
		return stl_log_empty_step(s, step, STEP_MOVE);
	s->clean.search_looked = 0;
	s->clean.search_busy = false;
	return busy ? -EAGAIN : 0;
}

static int move_step(struct stl_log *s, u64 age, struct shingle_step *step)
{
	u32 room, at;

	if (find_victim(s, age))
		return no_victim(s, step);
	at = s->x.first[s->clean.victim];
	room = clean_room_for(s, s->x.entry[at].n);
	if (!room)
		return s->pending.nr ? -EAGAIN : 0;
	stl_log_begin_step(s, step, STEP_MOVE, LOG_CLEANER);
	for (; at != SHINGLE_EXTENTS_NONE && room && s->clean.nr < MOVE_EXTENTS &&
	     step->n < MOVE_BLOCKS && (s->x.entry[at].n <= room || may_split(s));
	     at = s->x.entry[at].next)
		add_extent(s, step, at, &room);
	return 1;
}

/* The best run of extents to join that a search has found so far. */
struct join {
	u32 first;
	u32 nr;
	u32 blocks;
};

/* Find the logically contiguous extents, at most @room blocks, that shorten the map most. */
static struct join find_join(struct stl_log *s, u32 room)
{
	struct join best = { .nr = 1 }, run = { .nr = 0 };
	u32 looks, at = shingle_extents_at(&s->x, s->clean.hand);

	for (looks = 0; looks < SHINGLE_WALK && at != SHINGLE_EXTENTS_NONE; looks++) {
		const struct shingle_extents_entry *x = &s->x.entry[at];

		/* The hand is where the extent before it ends. */
		if (!run.nr || x->lunit != s->clean.hand || run.nr == MOVE_EXTENTS ||
		    run.blocks + x->n > room)
			run = (struct join){ .first = at };
		run.nr++;
		run.blocks += x->n;
		if (run.blocks <= room &&
		    (run.nr > best.nr || (run.nr == best.nr && run.blocks < best.blocks)))
			best = run;
		s->clean.searched++;
		s->clean.hand = x->lunit + x->n;
		at = shingle_extents_at(&s->x, s->clean.hand);
	}
	if (at == SHINGLE_EXTENTS_NONE)
		s->clean.hand = 0;
	return best;
}

/* Writes that need room in the map fail until another write or a discard changes it. */
static void nothing_to_join(struct stl_log *s)
{
	s->clean.unjoinable = true;
	s->clean.extents_wanted = false;
}

/*
 * The search has found nothing to join in the part it looked at.  If it has seen the whole map,
 * only a discard or another write can make room there.  Otherwise it goes on in the next step.
 */
static int no_join(struct stl_log *s, struct shingle_step *step)
{
	if (s->clean.searched >= s->x.nr) {
		s->clean.searched = 0;
		if (s->clean.reopened) {
			s->clean.reopened = false;
			nothing_to_join(s);
			return 0;
		}
		/* Extents may not have fitted into the rest of the segment. */
		stl_log_close(s, LOG_CLEANER);
		s->clean.reopened = true;
	}
	return stl_log_empty_step(s, step, STEP_JOIN);
}

/* Join extents.  The last free segment is left to the steps that make others free. */
static int join_or_move(struct stl_log *s, struct shingle_step *step)
{
	u32 room, at, i;
	struct join j;
	int r;

	if (s->free.nr < 2) {
		r = s->pending.nr ? -EAGAIN : move_step(s, U64_MAX, step);
		if (!r)
			nothing_to_join(s);
		return r;
	}
	room = clean_room(s);
	j = find_join(s, room);
	if (j.nr < 2)
		return no_join(s, step);
	s->clean.searched = 0;
	s->clean.reopened = false;
	stl_log_begin_step(s, step, STEP_JOIN, LOG_CLEANER);
	for (i = 0, at = j.first; i < j.nr; i++) {
		add_extent(s, step, at, &room);
		at = shingle_extents_at(&s->x, s->x.entry[at].lunit + s->x.entry[at].n);
	}
	s->engine.jobs++;
	return 1;
}

/*
 * On a full log the steps that make segments free may split as many extents as are joined.  So give
 * up when four times as much has been copied as the log has room for.
 */
static int join_step(struct stl_log *s, struct shingle_step *step)
{
	int r;

	if (s->clean.copied > 4ULL * s->nr_segments * s->band_blocks) {
		nothing_to_join(s);
		return 0;
	}
	r = join_or_move(s, step);
	s->clean.copied += step->n;
	return r;
}

static int pressure_step(struct stl_log *s, struct shingle_step *step)
{
	if (s->clean.wanted && s->free.nr > 1)
		s->clean.wanted = false;
	if (s->clean.wanted) {
		int r = s->pending.nr ? -EAGAIN : move_step(s, U64_MAX, step);

		s->clean.stuck = !r;
		return r;
	}
	if (s->clean.extents_wanted &&
	    shingle_extents_reserve(&s->x, SHINGLE_EXTENTS_SET)) {
		shingle_extents_unreserve(&s->x, SHINGLE_EXTENTS_SET);
		s->clean.extents_wanted = false;
	}
	return s->clean.extents_wanted ? join_step(s, step) : 0;
}

static int forced_step(struct stl_log *s, struct shingle_step *step)
{
	int r;

	if (!s->clean.forced) {
		/* A forced clean leaves out segments that are opened from now on. */
		s->clean.forced = true;
		s->clean.forced_age = s->age;
	}
	r = move_step(s, s->clean.forced_age, step);
	s->clean.forced = r;
	return r;
}

int stl_log_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step)
{
	struct stl_log *s = to_log(e);

	shingle_step_init(step);
	if (s->clean.active)
		return -EAGAIN;
	if (why == SHINGLE_WHY_REWRITE)
		return stl_log_rewrite_step(s, step);
	if (s->policy == LOG_CLEAN_OFF)
		return 0;
	switch (why) {
	case SHINGLE_WHY_PRESSURE:
		return pressure_step(s, step);
	case SHINGLE_WHY_IDLE:
		if (s->free.nr + s->pending.nr >= s->threshold)
			return 0;
		return move_step(s, U64_MAX, step);
	case SHINGLE_WHY_FORCED:
		return forced_step(s, step);
	default:
		return 0;
	}
}
