// SPDX-License-Identifier: GPL-2.0
/*
 * Log-structured translation layer: the uses of segments.
 *
 * A segment is free, open at one of the two frontiers, closed, or pending.  A closed segment
 * without a block in use becomes pending at once, and free when no map that recovery could
 * rebuild refers to it and no read of it is in flight.  Free segments are used in the order in
 * which they became free, so a log that is never cleaned ascends over the whole disk.
 *
 * Progress.  The host leaves the last free segment to the cleaner.  At most @capacity blocks are
 * in use, three segments less than the log has.  When the host needs a segment and only one is
 * free, none is pending and the host's frontier is closed, all others but the cleaner's are closed.
 * These are at least two fewer than there are segments, so they contain blocks that are not in
 * use, and the cleaner empties the segment with most of them into its own and the free one.
 */
#include "log/state.h"

void stl_log_ring_put(const struct stl_log *s, struct log_ring *r, u32 segment, u64 seq)
{
	u64 at = (u64)r->head + r->nr++;

	if (at >= s->nr_segments)
		at -= s->nr_segments;
	r->at[at] = segment;
	if (r->seq)
		r->seq[at] = seq;
}

static u32 ring_take(const struct stl_log *s, struct log_ring *r)
{
	u32 segment = r->at[r->head];

	r->head = r->head + 1 == s->nr_segments ? 0 : r->head + 1;
	r->nr--;
	return segment;
}

static void changed(struct stl_log *s, u32 segment)
{
	shingle_mark(&s->engine, s->first_piece[STL_LOG_SEGMENTS] + segment / PART_SEGMENTS, 1);
}

/* Take a free segment, of which there must be one; if possible one that has not failed. */
static u32 take_free(struct stl_log *s)
{
	u32 most = min(s->free.nr, SHINGLE_WALK), segment = ring_take(s, &s->free);

	while (--most && s->segment[segment].failed) {
		stl_log_ring_put(s, &s->free, segment, 0);
		segment = ring_take(s, &s->free);
	}
	return segment;
}

/* Open a free segment, of which there must be one, at a frontier without a segment. */
u32 stl_log_open(struct stl_log *s, enum log_frontier which)
{
	u32 segment = take_free(s);

	s->segment[segment] = (struct log_segment){
		.bad = s->segment[segment].bad,
		.stamp = s->age++ * 2 + (which == LOG_CLEANER ? STL_LOG_CLEANER : 0),
		.use = LOG_OPEN,
	};
	changed(s, segment);
	s->frontier[which] = segment;
	s->n.bands_opened++;
	return segment;
}

/* The stamp must be in the journal before a record that maps a block to the segment. */
void stl_log_record_open(struct stl_log *s, u32 segment, struct shingle_emit *emit)
{
	struct log_segment *g = &s->segment[segment];

	if (!g->recorded)
		shingle_emit(emit, STL_LOG_OPEN, 0, 0, segment, g->stamp);
	g->recorded = true;
}

/* A closed segment into which nothing is in flight waits for release() if it is empty. */
void stl_log_check_empty(struct stl_log *s, u32 segment)
{
	struct log_segment *g = &s->segment[segment];

	if (g->use != LOG_CLOSED || g->inflight || s->x.live[segment])
		return;
	g->use = LOG_PENDING;
	stl_log_ring_put(s, &s->pending, segment, s->seq);
	if (s->clean.victim == segment)
		s->clean.victim = NO_SEGMENT;
}

/* No extent refers to the segment any more. */
void stl_log_emptied(void *ctx, u32 segment)
{
	stl_log_check_empty(ctx, segment);
}

/* The frontier's segment takes no more writes. */
void stl_log_close(struct stl_log *s, enum log_frontier which)
{
	u32 segment = s->frontier[which];

	if (segment == NO_SEGMENT)
		return;
	s->frontier[which] = NO_SEGMENT;
	s->segment[segment].use = LOG_CLOSED;
	stl_log_check_empty(s, segment);
}

/* Return: blocks in a row that fit into the frontier's segment, without a bad one. */
u32 stl_log_room(struct stl_log *s, enum log_frontier which)
{
	struct log_segment *g;

	if (s->frontier[which] == NO_SEGMENT)
		return 0;
	g = &s->segment[s->frontier[which]];
	if (g->fill + 1 == g->bad)
		g->fill++;
	return (g->fill < g->bad ? g->bad - 1 : s->band_blocks) - g->fill;
}

/*
 * Not during a step: a place that it reads must not be written, or step_done() could take a
 * new block there for the one that it copied.
 */
bool stl_log_release(struct shingle_engine *e, u64 seq)
{
	struct stl_log *s = to_log(e);
	u32 most = SHINGLE_WALK, segment;

	if (s->clean.active)
		return false;
	while (s->pending.nr && s->pending.seq[s->pending.head] <= seq) {
		segment = ring_take(s, &s->pending);
		s->segment[segment].use = LOG_FREE;
		s->segment[segment].stamp = 0;
		s->segment[segment].fill = 0;
		changed(s, segment);
		stl_log_ring_put(s, &s->free, segment, 0);
		s->n.bands_freed++;
		if (!--most)
			return true;
	}
	return false;
}

bool stl_log_pending(struct shingle_engine *e)
{
	return to_log(e)->pending.nr;
}
