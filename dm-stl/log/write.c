// SPDX-License-Identifier: GPL-2.0
/*
 * Log-structured translation layer: writes and discards, compared with the paper.
 *
 * Hajkazemi et al. (2018), section 2: every write goes to the write frontier, in the order of
 * arrival, and the extent map changes.  The paper's disk is infinite.  Here a full segment is
 * followed by the next free one; if there is none the cleaner must make one, and a log that is
 * not cleaned takes no more writes.
 *
 * If two writes of one block are in flight together, the one that is committed last wins, both in
 * memory and after recovery, because journal records are in the order of commits.
 */
#include "log/state.h"

/* After this many failed writes in a row the host's frontier moves to another segment. */
#define ABORTS_IN_A_ROW	2U

/* The host has changed the map: what the cleaner has tried in vain may succeed now. */
static void host_changed(struct stl_log *s)
{
	s->clean.unjoinable = false;
	s->clean.stuck = false;
	s->clean.copied = 0;
	s->clean.wasted = 0;
}

/* Let the cleaner make room in the extent map. */
static int await_extents(struct stl_log *s)
{
	/* Entries reserved for writes in flight may remain unused. */
	if (s->inflight_blocks)
		return -EBUSY;
	s->n.full_extents += !s->clean.extents_wanted;
	if (s->policy == LOG_CLEAN_OFF || s->clean.unjoinable)
		return SHINGLE_FULL;
	s->clean.extents_wanted = true;
	return -ENOSPC;
}

/* Let the cleaner make a free segment. */
static int await_segment(struct stl_log *s)
{
	/* Waiting for a commit costs less than cleaning. */
	if (s->pending.nr)
		return -EBUSY;
	if (s->policy == LOG_CLEAN_OFF) {
		s->n.full_logs++;
		return s->inflight_blocks ? -EBUSY : SHINGLE_FULL;
	}
	if (s->clean.stuck)
		return s->inflight_blocks ? -EBUSY : SHINGLE_FULL;
	s->n.full_logs += !s->clean.wanted;
	s->clean.wanted = true;
	return -ENOSPC;
}

/* The host's segment must have room.  The last free segment is the cleaner's, see segments.c. */
static int find_room(struct stl_log *s)
{
	while (!stl_log_room(s, LOG_HOST)) {
		stl_log_close(s, LOG_HOST);
		/* Also with the policy "off": without a free segment cleaning could never begin. */
		if (s->free.nr <= 1)
			return await_segment(s);
		s->clean.wanted = false;
		stl_log_open(s, LOG_HOST);
	}
	return 0;
}

/*
 * Only with a home can the log be smaller than the device.  Then a write may find that it would
 * exceed the blocks that can be in use.  *@n becomes a length that can be decided at once.
 */
static int within_capacity(struct stl_log *s, u32 lblk, u32 *n)
{
	u32 pending = s->inflight_blocks + s->clean.fresh, place;

	if (s->layout->logical_blocks <= s->capacity ||
	    s->x.live_units + pending + *n <= s->capacity)
		return 0;
	*n = shingle_extents_find(&s->x, lblk, *n, &place);
	/* Its blocks replace others. */
	if (place != SHINGLE_EXTENTS_NONE)
		return 0;
	if (pending)
		return -EBUSY;
	if (s->x.live_units >= s->capacity)
		return SHINGLE_FULL;
	*n = min_t(u64, *n, s->capacity - s->x.live_units);
	return 0;
}

int stl_log_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		  struct shingle_run *out)
{
	struct stl_log *s = to_log(e);
	struct log_segment *g;
	int r;

	if (s->clean.to_host)
		return -EBUSY;
	r = within_capacity(s, lblk, &n);
	if (r)
		return r;
	if (!shingle_extents_reserve(&s->x, SHINGLE_EXTENTS_SET))
		return await_extents(s);
	r = find_room(s);
	if (r) {
		shingle_extents_unreserve(&s->x, SHINGLE_EXTENTS_SET);
		return r;
	}
	s->clean.extents_wanted = false;
	g = &s->segment[s->frontier[LOG_HOST]];
	out->lblk = lblk;
	out->n = min(n, stl_log_room(s, LOG_HOST));
	out->pblk = segment_pblk(s, s->frontier[LOG_HOST]) + g->fill;
	out->kind = SHINGLE_RUN_MAPPED;
	g->fill += out->n;
	g->inflight++;
	s->inflight_blocks += out->n;
	s->n.placed_blocks += out->n;
	shingle_seeks_host(&s->reads.seeks, true, lblk, out->n);
	shingle_seeks_direct(&s->reads.seeks, SHINGLE_SEEK_WRITE, out->pblk, out->n);
	return 0;
}

/*
 * Record the right part of an extent that a change has split; see extents.h.  The change itself has
 * another record.
 */
static void record_rest(const struct stl_log *s, const struct shingle_extents_rest *rest,
			struct shingle_emit *emit)
{
	if (rest->n && !s->no_rest)
		shingle_emit(emit, STL_LOG_MAP, 0, rest->n, rest->lunit, rest->place);
}

/* From now on blocks @lblk.. are at @place. */
void stl_log_map(struct stl_log *s, u32 lblk, u32 n, u32 place, struct shingle_emit *emit)
{
	struct shingle_extents_rest rest;

	s->seq = emit->seq;
	shingle_extents_set(&s->x, lblk, n, place, &rest);
	record_rest(s, &rest, emit);
	shingle_emit(emit, STL_LOG_MAP, 0, n, lblk, place);
}

void stl_log_commit(struct shingle_engine *e, const struct shingle_run *run,
		    struct shingle_emit *emit)
{
	struct stl_log *s = to_log(e);
	u32 place = place_of(s, run->pblk), segment = place / s->band_blocks;

	stl_log_record_open(s, segment, emit);
	stl_log_map(s, run->lblk, run->n, place, emit);
	shingle_extents_unreserve(&s->x, SHINGLE_EXTENTS_SET);
	s->inflight_blocks -= run->n;
	s->segment[segment].inflight--;
	if (segment == s->frontier[LOG_HOST])
		s->aborts = 0;
	host_changed(s);
	/* Another write may have replaced the blocks while this one was in flight. */
	stl_log_check_empty(s, segment);
}

void stl_log_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct stl_log *s = to_log(e);
	u32 segment = place_of(s, run->pblk) / s->band_blocks;

	shingle_extents_unreserve(&s->x, SHINGLE_EXTENTS_SET);
	s->inflight_blocks -= run->n;
	s->segment[segment].inflight--;
	s->segment[segment].failed = true;
	s->n.aborted_blocks += run->n;
	if (segment == s->frontier[LOG_HOST] && ++s->aborts >= ABORTS_IN_A_ROW &&
	    s->free.nr > 1) {
		s->aborts = 0;
		stl_log_close(s, LOG_HOST);
	}
	stl_log_check_empty(s, segment);
}

/* Is the first extent at @lblk or behind it within @n blocks from there on? */
static bool covers(const struct stl_log *s, u32 lblk, u32 n)
{
	u32 at = shingle_extents_at(&s->x, lblk);
	const struct shingle_extents_entry *x;

	if (at == SHINGLE_EXTENTS_NONE)
		return false;
	x = &s->x.entry[at];
	return x->lunit >= lblk && x->lunit - lblk <= n && x->n <= n - (x->lunit - lblk);
}

static bool is_mapped(const struct stl_log *s, u32 lblk)
{
	u32 place;

	shingle_extents_find(&s->x, lblk, 1, &place);
	return place != SHINGLE_EXTENTS_NONE;
}

/*
 * Does a discard need room in the map for another extent?  It does if it makes a hole and removes
 * no whole extent, also if it splits none itself: the cleaner may have split one there, which can
 * never be joined again with a hole in it.
 */
static bool splits(const struct stl_log *s, u32 lblk, u32 n)
{
	u32 end = lblk + n, at;

	if (!lblk || end == s->layout->logical_blocks || !is_mapped(s, lblk - 1) ||
	    !is_mapped(s, end) || covers(s, lblk, n))
		return false;
	/* Behind the extent that the discard begins in there may be a whole one. */
	at = shingle_extents_at(&s->x, lblk);
	if (s->x.entry[at].lunit < lblk) {
		lblk = s->x.entry[at].lunit + s->x.entry[at].n;
		return lblk >= end || !covers(s, lblk, end - lblk);
	}
	/* Nothing is mapped up to there, or no more than the head of an extent. */
	return s->x.entry[at].lunit < end;
}

int stl_log_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
		    struct shingle_emit *emit)
{
	struct stl_log *s = to_log(e);
	struct shingle_extents_rest rest;
	u64 seq = s->seq;
	bool reserved, had;

	*done = n;
	*dropped = false;
	/* A map without room for another extent keeps the blocks. */
	reserved = splits(s, lblk, n);
	if (reserved && !shingle_extents_reserve(&s->x, SHINGLE_EXTENTS_DROP))
		return 0;
	s->seq = emit->seq;
	*done = shingle_extents_drop(&s->x, lblk, n, SHINGLE_WALK, &had, &rest);
	/* A transaction without records is never committed. */
	if (!had)
		s->seq = seq;
	if (reserved)
		shingle_extents_unreserve(&s->x, SHINGLE_EXTENTS_DROP);
	*dropped = true;
	if (!had)
		return 0;
	host_changed(s);
	record_rest(s, &rest, emit);
	shingle_emit(emit, STL_LOG_DROP, 0, *done, lblk, 0);
	return 0;
}
