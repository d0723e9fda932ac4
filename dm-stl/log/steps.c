// SPDX-License-Identifier: GPL-2.0
/*
 * Log-structured translation layer: the step in progress.
 *
 * Every step copies extents to a frontier, one behind the other.  What differs between moving,
 * joining (clean.c) and rewriting (reads.c) is which extents these are.
 */
#include "log/state.h"

/* Begin a step without extents. */
static void begin_step(struct stl_log *s, struct shingle_step *step, u32 kind)
{
	s->clean.nr = 0;
	s->clean.active = true;
	step->kind = kind;
	step->scattered = true;
}

/* Begin a step that writes to a frontier with a segment. */
void stl_log_begin_step(struct stl_log *s, struct shingle_step *step, u32 kind,
			enum log_frontier to)
{
	begin_step(s, step, kind);
	s->clean.to = to;
	s->clean.end = s->segment[s->frontier[to]].fill;
}

/* Let core ask for another step, and wake the writes that wait for one. */
int stl_log_empty_step(struct stl_log *s, struct shingle_step *step, u32 kind)
{
	begin_step(s, step, kind);
	step->sync = SHINGLE_SYNC_NONE;
	return 1;
}

/* Let the step copy @n blocks to the next place of its frontier. */
void stl_log_add_move(struct stl_log *s, struct shingle_step *step, u32 lblk, u32 src, u32 n)
{
	struct log_move *m = &s->clean.move[s->clean.nr++];

	m->lblk = lblk;
	m->src = src;
	m->dst = s->frontier[s->clean.to] * s->band_blocks + s->clean.end;
	m->n = n;
	s->clean.end += n;
	step->n += n;
}

bool stl_log_step_extent(struct shingle_engine *e, const struct shingle_step *step, u64 *cursor,
			 struct shingle_extent *out)
{
	const struct stl_log *s = to_log(e);
	const struct log_move *m = &s->clean.move[*cursor];

	if (*cursor == s->clean.nr)
		return false;
	(*cursor)++;
	*out = (struct shingle_extent){
		m->lblk,
		m->src == SHINGLE_EXTENTS_NONE ? SHINGLE_NOWHERE : place_pblk(s, m->src),
		place_pblk(s, m->dst), m->n,
	};
	return true;
}

/*
 * Let the map refer to the copies of the blocks of @m that are still where they were copied.
 * Returns their number.
 */
static u32 finish_move(struct stl_log *s, const struct log_move *m, struct shingle_emit *emit)
{
	u32 i, n, place, moved = 0;

	for (i = 0; i < m->n && emit->nr + 2 <= emit->max; i += n) {
		n = shingle_extents_find(&s->x, m->lblk + i, m->n - i, &place);
		if (m->src == SHINGLE_EXTENTS_NONE ? place != m->src : place != m->src + i)
			continue;
		stl_log_map(s, m->lblk + i, n, m->dst + i, emit);
		moved += n;
	}
	return moved;
}

/* The step is over, whatever became of it. */
void stl_log_end_step(struct stl_log *s)
{
	s->clean.active = false;
	s->clean.to_host = false;
	shingle_extents_unreserve(&s->x, s->clean.reserved);
	s->clean.reserved = 0;
	s->clean.fresh = 0;
}

/* Are all blocks of the step still where it has copied them from? */
static bool unchanged(const struct stl_log *s)
{
	u32 i, place;

	for (i = 0; i < s->clean.nr; i++) {
		const struct log_move *m = &s->clean.move[i];

		if (shingle_extents_find(&s->x, m->lblk, m->n, &place) != m->n || place != m->src)
			return false;
	}
	return true;
}

/* The first rewrite is over.  @dropped: its data are still where they were. */
void stl_log_end_rewrite(struct stl_log *s, bool dropped)
{
	struct log_rewrites *r = &s->rewrites;

	s->n.dropped_rewrites += dropped;
	r->head = (r->head + 1) % REWRITES;
	r->nr--;
}

void stl_log_step_done(struct shingle_engine *e, const struct shingle_step *step,
		       struct shingle_emit *emit)
{
	struct stl_log *s = to_log(e);
	u32 segment = s->frontier[s->clean.to], moved = 0, i;
	struct log_segment *g;

	stl_log_end_step(s);
	if (!s->clean.nr)
		return;
	g = &s->segment[segment];
	g->fill = s->clean.end;
	if (step->kind == STEP_REWRITE) {
		bool dropped = !unchanged(s);

		stl_log_end_rewrite(s, dropped);
		if (dropped)
			return;
	}
	s->n.joined_extents += step->kind == STEP_JOIN ? s->clean.nr : 0;
	stl_log_record_open(s, segment, emit);
	for (i = 0; i < s->clean.nr; i++)
		moved += finish_move(s, &s->clean.move[i], emit);
	if (step->kind == STEP_REWRITE)
		s->n.rewritten_blocks += moved;
	else
		s->n.moved_blocks += moved;
}

/*
 * Leave a block out from now on; false if no more can be left out.  Together they are less than the
 * space that cleaning needs to get on, see segments.c.
 */
static bool leave_out(struct stl_log *s, struct log_segment *g, u32 place)
{
	if (!g->bad && 2 * s->nr_bad >= s->band_blocks)
		return false;
	s->nr_bad += !g->bad;
	g->bad = place % s->band_blocks + 1;
	return true;
}

/*
 * If single blocks are at fault, the cleaner goes on in front of the first of them, and then behind
 * it.  Otherwise it goes on in another segment.  A write of one block does not show which is the
 * case: that block is left out the first time, and whenever there is no other segment.
 */
bool stl_log_step_failed(struct shingle_engine *e, const struct shingle_step *step,
			 const struct shingle_unwritten *bad)
{
	struct stl_log *s = to_log(e);
	struct log_segment *g;
	bool first;

	stl_log_end_step(s);
	if (step->kind == STEP_REWRITE)
		stl_log_end_rewrite(s, true);
	if (!s->clean.nr || !bad->n)
		return false;
	g = &s->segment[s->frontier[s->clean.to]];
	first = !g->failed;
	g->failed = true;
	if (bad->proven && leave_out(s, g, place_of(s, bad->block[0])))
		return true;
	if (bad->nr && ((first && bad->n == 1) || !s->free.nr) &&
	    leave_out(s, g, place_of(s, bad->block[0])))
		return false;
	if (s->free.nr)
		stl_log_close(s, s->clean.to);
	return false;
}
