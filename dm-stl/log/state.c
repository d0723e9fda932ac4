// SPDX-License-Identifier: GPL-2.0
/* Log-structured translation layer: creates the state and verifies it. */
#include "log/state.h"

#define IDLE_MS		1000

/* Free segments for a write and for the cleaner, and what the cleaner has filled in part. */
#define LEAST_RESERVE	3U

/**
 * stl_log_params_wrong() - check the parameters of a log
 * @bands: bands of the disk
 * @home_bands: see struct stl_log_params
 * @reserve: see struct stl_log_params
 *
 * Context: any.
 * Return: a sentence that says what is wrong, or NULL.
 */
const char *stl_log_params_wrong(u64 bands, u32 home_bands, u32 reserve)
{
	if (reserve < LEAST_RESERVE)
		return "stl-log needs a reserve of at least 3 bands";
	if (home_bands >= bands || reserve >= bands - home_bands)
		return "stl-log's disk must have more bands than its home and its reserve";
	return NULL;
}

static const struct stl_log_params *params(const struct shingle_layout *l)
{
	BUILD_BUG_ON(sizeof(struct stl_log_params) > SHINGLE_ENGINE_PARAMS_SIZE);
	return (const void *)l->params;
}

static const char *layout_wrong(const struct shingle_layout *l)
{
	u64 bands = l->nr_bands[SHINGLE_ROLE_DATA], blocks;

	if (l->nr_bands[SHINGLE_ROLE_CACHE] || l->nr_bands[SHINGLE_ROLE_STAGING])
		return "stl-log has no cache bands and no staging bands";
	blocks = bands * l->band_blocks[SHINGLE_ROLE_DATA];
	if (bands > U32_MAX || blocks >= U32_MAX)
		return "stl-log has at most 16 TiB";
	return stl_log_params_wrong(bands, le32_to_cpu(params(l)->home_bands),
				    le32_to_cpu(params(l)->reserve));
}

/* Number of bands of the log; 0 if the layout is invalid. */
u32 stl_log_nr_segments(const struct shingle_layout *l)
{
	if (layout_wrong(l))
		return 0;
	return l->nr_bands[SHINGLE_ROLE_DATA] - le32_to_cpu(params(l)->home_bands);
}

/* Entries of the extent map, for the host and for the cleaner; 0 if the layout is invalid. */
u32 stl_log_nr_extents(const struct shingle_layout *l)
{
	u32 segments = stl_log_nr_segments(l);
	u64 nr = (u64)le32_to_cpu(params(l)->extents) + cleaner_extents(segments);

	return segments && nr < U32_MAX ? nr : 0;
}

u64 stl_log_logical_blocks(const struct shingle_layout *l)
{
	u32 home = le32_to_cpu(params(l)->home_bands), segments = stl_log_nr_segments(l);

	if (!stl_log_nr_extents(l))
		return 0;
	return (u64)(home ?: segments - le32_to_cpu(params(l)->reserve)) *
	       l->band_blocks[SHINGLE_ROLE_DATA];
}

void stl_log_destroy(struct shingle_engine *e)
{
	struct stl_log *s = to_log(e);

	shingle_remedies_exit(&s->reads.remedies);
	shingle_extents_exit(&s->x);
	kvfree(s->segment);
	kvfree(s->free.at);
	kvfree(s->pending.at);
	kvfree(s->pending.seq);
	shingle_marks_exit(e);
	kvfree(s);
}

static bool allocate(struct stl_log *s)
{
	s->segment = shingle_zalloc_array(s->nr_segments, sizeof(*s->segment));
	s->free.at = shingle_zalloc_array(s->nr_segments, sizeof(u32));
	s->pending.at = shingle_zalloc_array(s->nr_segments, sizeof(u32));
	s->pending.seq = shingle_zalloc_array(s->nr_segments, sizeof(u64));
	return s->segment && s->free.at && s->pending.at && s->pending.seq &&
	       !shingle_extents_init(&s->x, stl_log_nr_extents(s->layout), s->nr_segments,
				     s->band_blocks) &&
	       !shingle_marks_init(&s->engine, s->layout);
}

static void extent_changed(void *ctx, u32 index)
{
	struct stl_log *s = ctx;

	shingle_mark(&s->engine, s->first_piece[STL_LOG_EXTENTS] + index / PART_EXTENTS, 1);
}

int stl_log_create(struct shingle_engine **out, const struct shingle_layout *layout,
		   const char **why)
{
	const struct stl_log_params *p = params(layout);
	struct stl_log *s;
	u32 i;

	*why = layout_wrong(layout);
	/* With fewer no write would ever find room. */
	if (!*why && le32_to_cpu(p->extents) < SHINGLE_EXTENTS_SET)
		*why = "stl-log needs an extent map of at least 2 extents";
	else if (!*why && !stl_log_nr_extents(layout))
		*why = "stl-log's extent map has too many extents";
	else if (!*why && layout->logical_blocks != stl_log_logical_blocks(layout))
		*why = "stl-log presents its home, or its log without the reserve";
	if (*why)
		return -EINVAL;
	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &stl_log_engine_ops;
	s->engine.discard_blocks = 1;
	s->engine.idle_ms = IDLE_MS;
	s->layout = layout;
	s->band_blocks = layout->band_blocks[SHINGLE_ROLE_DATA];
	s->home_bands = le32_to_cpu(p->home_bands);
	s->nr_segments = stl_log_nr_segments(layout);
	s->capacity = (s->nr_segments - LEAST_RESERVE) * s->band_blocks;
	for (i = 0; i < ARRAY_SIZE(s->first_piece); i++)
		s->first_piece[i] = shingle_pieces_nr(stl_log_pieces, i, layout);
	if (shingle_remedies_init(&s->reads.remedies, SHINGLE_BLOCK_SHIFT)) {
		kvfree(s);
		return -ENOMEM;
	}
	shingle_seeks_init(&s->reads.seeks, SHINGLE_BLOCK_SHIFT);
	s->engine.reads = &s->reads;
	shingle_options_init(s->engine.ops->options, s);
	s->age = 1;
	s->clean.victim = NO_SEGMENT;
	s->frontier[LOG_HOST] = NO_SEGMENT;
	s->frontier[LOG_CLEANER] = NO_SEGMENT;
	if (!allocate(s)) {
		stl_log_destroy(&s->engine);
		return -ENOMEM;
	}
	s->x.changed = extent_changed;
	s->x.emptied = stl_log_emptied;
	s->x.ctx = s;
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * verify()
 */

static u32 verify_segment(struct stl_log *s, u32 segment, shingle_report_fn report, void *ctx)
{
	const struct log_segment *g = &s->segment[segment];
	u32 live = s->x.live[segment], last = s->x.last[segment], bad = 0, end = 0, which;
	bool at_frontier = false, is_open = g->use == LOG_OPEN, is_free = g->use == LOG_FREE;

	if (last != SHINGLE_EXTENTS_NONE)
		end = s->x.entry[last].place % s->band_blocks + s->x.entry[last].n;
	for (which = 0; which < LOG_FRONTIERS && !at_frontier; which++)
		at_frontier = s->frontier[which] == segment;
	if (at_frontier != is_open) {
		report(ctx, "segment %u is open and is at no frontier, or the reverse", segment);
		bad++;
	}
	if (live > g->fill || end > g->fill || g->fill > s->band_blocks) {
		report(ctx, "segment %u has %u blocks in use up to %u, and is filled up to %u",
		       segment, live, end, g->fill);
		bad++;
	}
	if ((is_free || g->use == LOG_PENDING) && (live || g->inflight)) {
		report(ctx, "segment %u is not in use, but has %u blocks in use and %u writes",
		       segment, live, g->inflight);
		bad++;
	}
	if (g->use == LOG_CLOSED && !live && !g->inflight) {
		report(ctx, "segment %u is closed and empty", segment);
		bad++;
	}
	if (is_free != !g->stamp) {
		report(ctx, "segment %u has stamp %llu", segment,
		       (unsigned long long)g->stamp);
		bad++;
	}
	return bad;
}

/* Most segments that verify() counts in one call. */
#define COUNT_SEGMENTS	(64U * SHINGLE_WALK)

static u32 verify_counts(struct stl_log *s, shingle_report_fn report, void *ctx)
{
	u32 nr[LOG_PENDING + 1] = { 0 }, i, open = 0;
	u32 reserved = cleaner_extents(s->nr_segments) + s->clean.reserved;

	if (s->nr_segments > COUNT_SEGMENTS)
		return 0;
	for (i = 0; i < s->nr_segments; i++) {
		nr[s->segment[i].use]++;
		reserved += s->segment[i].inflight * SHINGLE_EXTENTS_SET;
	}
	if (reserved != s->x.reserved) {
		report(ctx, "%u extents are reserved; writes in flight and the cleaner need %u",
		       s->x.reserved, reserved);
		return 1;
	}
	for (i = 0; i < LOG_FRONTIERS; i++)
		open += s->frontier[i] != NO_SEGMENT;
	if (nr[LOG_FREE] == s->free.nr && nr[LOG_PENDING] == s->pending.nr &&
	    nr[LOG_OPEN] == open)
		return 0;
	report(ctx, "%u segments are free, %u pending, %u open; counted %u, %u, %u",
	       nr[LOG_FREE], nr[LOG_PENDING], nr[LOG_OPEN], s->free.nr, s->pending.nr, open);
	return 1;
}

/* The cursor: first that of the extent map, then this plus a segment. */
#define VERIFY_SEGMENTS	(1ULL << 62)

u32 stl_log_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx)
{
	struct stl_log *s = to_log(e);
	u32 bad = 0, end, i;

	if (*cursor < VERIFY_SEGMENTS) {
		bad = shingle_extents_verify(&s->x, cursor, report, ctx);
		if (*cursor == SHINGLE_NOWHERE)
			*cursor = VERIFY_SEGMENTS;
		return bad;
	}
	i = *cursor - VERIFY_SEGMENTS;
	end = i + min(s->nr_segments - i, SHINGLE_WALK);
	for (; i < end; i++)
		bad += verify_segment(s, i, report, ctx);
	*cursor = VERIFY_SEGMENTS + end;
	if (end < s->nr_segments)
		return bad;
	*cursor = SHINGLE_NOWHERE;
	return bad + verify_counts(s, report, ctx);
}
