// SPDX-License-Identifier: GPL-2.0
/*
 * Log-structured translation layer: encodes and decodes its checkpoint pieces and its journal
 * records.  The tables at the end list them.
 */
#include "log/state.h"

static u64 nr_segment_parts(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(stl_log_nr_segments(l), PART_SEGMENTS);
}

/* A stamp in a checkpoint. */
struct stamp_on_disk {
	__le64 stamp;
} __packed;

static u32 encode_segments(struct shingle_engine *e, u32 at, void *buf)
{
	const struct stl_log *s = to_log(e);
	u32 first = at * PART_SEGMENTS, n = min(s->nr_segments - first, PART_SEGMENTS), i;
	bool used = false;
	struct stamp_on_disk *p = buf;

	for (i = 0; i < n; i++) {
		p[i].stamp = cpu_to_le64(s->segment[first + i].stamp);
		used |= s->segment[first + i].stamp;
	}
	return used ? n * sizeof(*p) : 0;
}

static int decode_segments(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct stl_log *s = to_log(e);
	u32 first = at * PART_SEGMENTS, n = min(s->nr_segments - first, PART_SEGMENTS), i;
	const struct stamp_on_disk *p = buf;

	if (bytes != n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++)
		s->segment[first + i].stamp = le64_to_cpu(p[i].stamp);
	return 0;
}

static u64 nr_extent_parts(const struct shingle_layout *l)
{
	return shingle_extents_parts(stl_log_nr_extents(l));
}

static u32 encode_extents(struct shingle_engine *e, u32 at, void *buf)
{
	return shingle_extents_encode(&to_log(e)->x, at, buf);
}

static int decode_extents(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct stl_log *s = to_log(e);

	return shingle_extents_decode(&s->x, at, buf, bytes, s->layout->logical_blocks);
}

static int replay_open(struct shingle_engine *e, u64 segment, u64 stamp, u32 n, u32 c)
{
	struct stl_log *s = to_log(e);

	if (segment >= s->nr_segments)
		return -EUCLEAN;
	s->segment[segment].stamp = stamp;
	return 0;
}

static bool within(u64 first, u64 n, u64 size)
{
	return n && n <= size && first <= size - n;
}

static int replay_map(struct shingle_engine *e, u64 lblk, u64 place, u32 n, u32 blocks)
{
	struct stl_log *s = to_log(e);
	struct shingle_extents_rest rest;

	if (!within(lblk, blocks, s->layout->logical_blocks) ||
	    !within(place, blocks, (u64)s->nr_segments * s->band_blocks) ||
	    (u32)place % s->band_blocks + blocks > s->band_blocks)
		return -EUCLEAN;
	return shingle_extents_set(&s->x, lblk, blocks, place, &rest);
}

static int replay_drop(struct shingle_engine *e, u64 lblk, u64 b, u32 n, u32 blocks)
{
	struct stl_log *s = to_log(e);
	struct shingle_extents_rest rest;
	bool dropped;

	if (!within(lblk, blocks, s->layout->logical_blocks))
		return -EUCLEAN;
	while (blocks) {
		u32 done = shingle_extents_drop(&s->x, lblk, blocks, U32_MAX, &dropped, &rest);

		if (!done)
			return -ENOMEM;
		lblk += done;
		blocks -= done;
	}
	return 0;
}

/* After recovery: what is in a segment decides about its use. */
static int ready_segment(struct stl_log *s, u32 segment)
{
	struct log_segment *g = &s->segment[segment];
	const struct shingle_extents_entry *last;

	if (!s->x.live[segment]) {
		*g = (struct log_segment){ .use = LOG_FREE };
		return 0;
	}
	if (g->stamp < 2 || g->stamp >= STL_LOG_STAMPS)
		return -EUCLEAN;
	last = &s->x.entry[s->x.last[segment]];
	g->fill = last->place % s->band_blocks + last->n;
	g->use = LOG_CLOSED;
	g->recorded = true;
	s->age = max(s->age, segment_age(g) + 1);
	return 0;
}

/* The last segment that a frontier wrote takes further writes, if it is not full. */
static void resume_frontier(struct stl_log *s, enum log_frontier which)
{
	u32 flag = which == LOG_CLEANER ? STL_LOG_CLEANER : 0, best = NO_SEGMENT, i;

	for (i = 0; i < s->nr_segments; i++) {
		const struct log_segment *g = &s->segment[i];

		if (g->use != LOG_CLOSED || (g->stamp & STL_LOG_CLEANER) != flag)
			continue;
		if (best == NO_SEGMENT || g->stamp > s->segment[best].stamp)
			best = i;
	}
	if (best == NO_SEGMENT || s->segment[best].fill == s->band_blocks)
		return;
	s->segment[best].use = LOG_OPEN;
	s->frontier[which] = best;
}

/* The free segments follow the host's frontier, as they did before. */
static void fill_free(struct stl_log *s)
{
	u32 at = s->frontier[LOG_HOST] == NO_SEGMENT ? 0 : s->frontier[LOG_HOST], i;

	for (i = 0; i < s->nr_segments; i++) {
		if (s->segment[at].use == LOG_FREE)
			stl_log_ring_put(s, &s->free, at, 0);
		if (++at == s->nr_segments)
			at = 0;
	}
}

static int build(struct stl_log *s, bool last, const char **why)
{
	int err = shingle_extents_build(&s->x, last);

	if (err)
		*why = err == -ENOMEM ? "out of memory" : "two blocks are at one place";
	return err;
}

int stl_log_ready(struct shingle_engine *e, const char **why)
{
	struct stl_log *s = to_log(e);
	u32 i;
	int err = build(s, true, why);

	for (i = 0; i < s->nr_segments && !err; i++) {
		err = ready_segment(s, i);
		if (err)
			*why = "a block is in a segment whose stamp is invalid";
	}
	if (err)
		return err;
	resume_frontier(s, LOG_HOST);
	resume_frontier(s, LOG_CLEANER);
	fill_free(s);
	/* Also if extents are in them: the host gets none of the cleaner's entries. */
	s->x.reserved = cleaner_extents(s->nr_segments);
	s->seq = 0;
	return 0;
}

const struct shingle_piece_kind stl_log_pieces[] = {
	[STL_LOG_SEGMENTS] = { nr_segment_parts, encode_segments, decode_segments },
	[STL_LOG_EXTENTS] = { nr_extent_parts, encode_extents, decode_extents },
	{ }
};

const struct shingle_record_kind stl_log_records[] = {
	{ STL_LOG_OPEN, "OPEN", NULL, "segment", "stamp", NULL, replay_open },
	{ STL_LOG_MAP, "MAP", NULL, "lblk", "place", "blocks", replay_map },
	{ STL_LOG_DROP, "DROP", NULL, "lblk", NULL, "blocks", replay_drop },
	{ }
};

/* The tree is built from the pieces before the first record changes it. */
int stl_log_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct stl_log *s = to_log(e);
	const char *why;

	if (!s->replaying) {
		int err = build(s, false, &why);

		if (err)
			return err;
		s->replaying = true;
	}
	return shingle_record_replay(stl_log_records, e, rec);
}
