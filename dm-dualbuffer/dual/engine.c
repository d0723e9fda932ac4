// SPDX-License-Identifier: GPL-2.0
/*
 * The engine of Dual-buffer: reads, writes, discards, and its interface to core.  Pure
 * code; see dual/state.h.  Data bands have fixed native places; writes go to the cache.
 */
#include "dual/state.h"

/* Most bands that one discard call visits. */
#define DISCARD_BANDS	1024U

/* ------------------------------------------------------------------------
 * Construction
 */

static u64 engine_logical_blocks(const struct shingle_layout *l)
{
	return l->nr_bands[SHINGLE_ROLE_DATA] * l->band_blocks[SHINGLE_ROLE_DATA];
}

static int check_layout(const struct shingle_layout *l, const char **why)
{
	*why = NULL;
	if (l->interlaced)
		*why = "dualbuffer is for tracks that are not interlaced";
	else if (l->nr_bands[SHINGLE_ROLE_CACHE] != 1)
		*why = "dualbuffer needs exactly one cache band, which is its persistent cache";
	else if (l->nr_bands[SHINGLE_ROLE_STAGING] != 1)
		*why = "dualbuffer needs exactly one staging band";
	else if (l->band_blocks[SHINGLE_ROLE_STAGING] < l->band_blocks[SHINGLE_ROLE_DATA])
		*why = "dualbuffer needs a staging band that is no shorter than its data bands";
	else if (l->logical_blocks != engine_logical_blocks(l))
		*why = "dualbuffer presents its data bands, no more and no less";
	else if (l->logical_blocks > SHINGLE_SLOTMAP_LBLKS)
		*why = "dualbuffer presents at most 16 TiB";
	return *why ? -EINVAL : 0;
}

static void engine_destroy(struct shingle_engine *e)
{
	struct dualbuffer *s = to_dual(e);

	kvfree(s->cache.bands.live);
	dual_cache_exit(&s->cache);
	kvfree(s->home);
	shingle_marks_exit(e);
	kvfree(s);
}

static int make_cache(struct dualbuffer *s)
{
	struct dual_cache *c = &s->cache;

	if (dual_cache_init(c, &s->shape, s->band_blocks))
		return -ENOMEM;
	c->step_blocks = s->engine.step_records - 1;
	c->bands.nr = s->nr_bands;
	c->bands.live = shingle_zalloc_array(s->nr_bands, sizeof(*c->bands.live));
	s->home = shingle_zalloc_array(BITS_TO_LONGS(s->nr_bands), sizeof(*s->home));
	if (!c->bands.live || !s->home || shingle_marks_init(&s->engine, s->layout))
		return -ENOMEM;
	c->engine = &s->engine;
	return 0;
}

static int engine_create(struct shingle_engine **out, const struct shingle_layout *l,
			 const char **why)
{
	struct dual_shape shape;
	struct dualbuffer *s;

	BUILD_BUG_ON(sizeof(struct dual_params) > SHINGLE_ENGINE_PARAMS_SIZE);
	if (check_layout(l, why) || dual_layout_shape(l, &shape, why))
		return -EINVAL;
	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &dualbuffer_engine_ops;
	s->engine.discard_blocks = l->band_blocks[SHINGLE_ROLE_DATA];
	s->engine.step_records = min(DUAL_STEP_BLOCKS,
				     shingle_txn_blocks(l) * SHINGLE_JOURNAL_RECORDS / 2);
	s->layout = l;
	s->shape = shape;
	s->band_blocks = l->band_blocks[SHINGLE_ROLE_DATA];
	s->nr_bands = l->nr_bands[SHINGLE_ROLE_DATA];
	s->cache_pblk = shingle_band_pblk(l, SHINGLE_ROLE_CACHE, 0);
	if (make_cache(s)) {
		engine_destroy(&s->engine);
		return -ENOMEM;
	}
	shingle_options_init(dual_options, s);
	s->engine.cache_blocks = s->cache.map.nr_slots;
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * Reads and writes
 */

/*
 * For a staged band, older cached blocks have the same content as the copy, so either may
 * be read.
 */
static void engine_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct dualbuffer *s = to_dual(e);
	struct shingle_slotmap *m = &s->cache.map;
	u32 band = (u32)lblk / s->band_blocks, offset = (u32)lblk - band * s->band_blocks;
	u32 slot = s->cache.bands.live[band] ? dual_find(&s->cache, lblk) : SHINGLE_NO_SLOT;

	n = min(n, s->band_blocks - offset);
	out->lblk = lblk;
	out->kind = SHINGLE_RUN_MAPPED;
	if (slot != SHINGLE_NO_SLOT) {
		out->pblk = s->cache_pblk + slot;
		out->n = shingle_slotmap_run(m, slot, min(n, m->nr_slots - slot));
		return;
	}
	out->n = n > 1 && s->cache.bands.live[band] ? shingle_slotmap_absent(m, lblk, n) : n;
	if (dual_is_staged(s, band)) {
		out->pblk = shingle_staging_pblk(s->layout) + offset;
		return;
	}
	out->pblk = dual_native(s, band) + offset;
	if (!test_bit(band, s->home))
		out->kind = SHINGLE_RUN_UNWRITTEN;
}

static int engine_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			struct shingle_run *out)
{
	struct dualbuffer *s = to_dual(e);
	u32 band = (u32)lblk / s->band_blocks, slot = 0, got = 0;
	struct dual_cache *c = &s->cache;
	bool wanted = c->wanted;
	int err;

	n = min3(n, (band + 1) * s->band_blocks - (u32)lblk, (u32)U16_MAX);
	err = dual_place(c, n, &slot, &got);
	s->count.full_rounds += c->wanted && !wanted;
	if (err)
		return err;
	s->count.placed_blocks += got;
	if (c->phase != DUAL_FILL)
		s->count.late_blocks += got;
	*out = (struct shingle_run){
		.lblk = lblk, .pblk = s->cache_pblk + slot, .n = got, .kind = SHINGLE_RUN_MAPPED,
	};
	return 0;
}

static void engine_commit(struct shingle_engine *e, const struct shingle_run *run,
			  struct shingle_emit *emit)
{
	struct dualbuffer *s = to_dual(e);
	u32 slot = run->pblk - s->cache_pblk;

	dual_emit_m(s, emit);
	dual_commit(&s->cache, run->lblk, slot, run->n);
	shingle_emit(emit, DUAL_REC_MAP, run->n, 0, run->lblk, slot);
}

static void engine_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct dualbuffer *s = to_dual(e);

	dual_abort(&s->cache);
	s->count.aborted_blocks += run->n;
}

/* ------------------------------------------------------------------------
 * Discards
 */

/* A copy of the band is being made, or the staged copy is the only one. */
static bool band_busy(const struct dualbuffer *s, u32 band)
{
	return (s->stepping && s->step.band == band) || dual_is_staged(s, band);
}

/*
 * Discard a part of a band.  This is possible only if the home is empty; otherwise reads
 * would return its old content.
 */
static bool discard_part(struct dualbuffer *s, u32 band, u64 lblk, u64 n, u64 *done,
			 struct shingle_emit *emit)
{
	u32 rest = (band + 1) * s->band_blocks - (u32)lblk;

	if (dual_is_staged(s, band) || test_bit(band, s->home)) {
		*done = min_t(u64, n, rest);
		return false;
	}
	*done = min3(n, (u64)rest, (u64)SHINGLE_WALK);
	if (s->cache.bands.live[band] && dual_drop(&s->cache, lblk, *done))
		shingle_emit(emit, DUAL_REC_DROP, *done, 0, lblk, 0);
	return true;
}

static int engine_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			  struct shingle_emit *emit)
{
	struct dualbuffer *s = to_dual(e);
	u32 band = (u32)lblk / s->band_blocks, first = band;
	bool changed = false, cached = false;

	if (s->stepping && s->step.band == band)
		return -EBUSY;
	if (lblk != (u64)band * s->band_blocks || n < s->band_blocks) {
		*dropped = discard_part(s, band, lblk, n, done, emit);
		return 0;
	}
	if (band_busy(s, band))
		return -EBUSY;
	for (*done = 0; n - *done >= s->band_blocks && band - first < DISCARD_BANDS && !cached;
	     band++) {
		if (band_busy(s, band))
			break;
		*done += s->band_blocks;
		cached = s->cache.bands.live[band];
		changed |= cached || test_bit(band, s->home);
		dual_set_home(s, band, false);
		if (cached)
			dual_drop(&s->cache, band * s->band_blocks, s->band_blocks);
	}
	*dropped = true;
	if (changed)
		shingle_emit(emit, DUAL_REC_DISCARD, 0, 0, first, band - first);
	return 0;
}

/* ------------------------------------------------------------------------
 * Other operations
 */

/* Until a step that moves a band is durable, its old place is still referenced. */
static bool engine_referenced(struct shingle_engine *e, enum shingle_role role, u64 band,
			      u64 offset, u64 n)
{
	const struct dualbuffer *s = to_dual(e);
	const struct dual_cache *c = &s->cache;

	switch (role) {
	case SHINGLE_ROLE_DATA:
		return test_bit(band, s->home) && (c->sync.waiting || !dual_is_staged(s, band));
	case SHINGLE_ROLE_STAGING:
		return c->staging.in_use || c->sync.waiting;
	case SHINGLE_ROLE_CACHE:
		for (; n && offset < c->map.nr_slots; n--, offset++) {
			if (dual_referenced(c, offset))
				return true;
		}
		return false;
	default:
		return true;
	}
}

static u32 verify_slots(struct dualbuffer *s, shingle_report_fn report, void *ctx)
{
	struct shingle_slotmap *m = &s->cache.map;
	u32 end = m->seen + min(m->nr_slots - m->seen, SHINGLE_WALK), bad = 0;

	for (; m->seen < end; m->seen++) {
		bad += dual_verify_slot(&s->cache, m->seen, report, ctx);
		m->seen_live += shingle_slot_state(m, m->seen) == SHINGLE_SLOT_OWNED;
	}
	return bad;
}

static void verify_bands(struct dual_bands *b)
{
	u32 end = b->walked + min(b->nr - b->walked, SHINGLE_WALK);

	while (b->walked < end)
		b->walked_live += b->live[b->walked++];
}

/* Checks slots, bands, and then the sums, with counts adjusted during the walk. */
static u32 engine_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report,
			 void *ctx)
{
	struct dualbuffer *s = to_dual(e);
	struct shingle_slotmap *m = &s->cache.map;
	struct dual_bands *b = &s->cache.bands;
	u32 ranked = s->cache.rank.pb.sum + s->cache.rank.fb2.sum, bad;

	if (!*cursor) {
		m->seen = 0;
		m->seen_live = 0;
		b->walked = 0;
		b->walked_live = 0;
	}
	(*cursor)++;
	if (m->seen < m->nr_slots)
		return verify_slots(s, report, ctx);
	if (b->walked < b->nr) {
		verify_bands(b);
		return 0;
	}
	*cursor = SHINGLE_NOWHERE;
	bad = m->live != m->seen_live || m->live != b->walked_live || m->live != ranked;
	if (bad)
		report(ctx, "cached blocks: %u hashed, %u slots, %u by band, %u by rank", m->live,
		       m->seen_live, b->walked_live, ranked);
	/* The walk has ended, so changes need not adjust its counts any more. */
	m->seen = 0;
	b->walked = 0;
	return bad;
}

static u64 engine_map_bytes(struct shingle_engine *e)
{
	const struct dualbuffer *s = to_dual(e);

	return shingle_slotmap_bytes(&s->cache.map) +
	       (u64)s->cache.map.nr_slots * sizeof(*s->cache.count) +
	       BITS_TO_LONGS(s->cache.map.nr_slots) * sizeof(*s->cache.bad.unfit) +
	       (u64)s->nr_bands * sizeof(*s->cache.bands.live) +
	       BITS_TO_LONGS(s->nr_bands) * sizeof(*s->home);
}

static u64 engine_cached_blocks(struct shingle_engine *e)
{
	return to_dual(e)->cache.map.live;
}

const struct shingle_engine_ops dualbuffer_engine_ops = {
	.name = "dualbuffer",
	.needs = { .cache = true, .one_cache = true, .staging = 1 },
	.commit_records = 2,
	.step_records = DUAL_ROUND_RECORDS + 2,
	.step_kinds = {
		[STEP_COPY] = "copy", [STEP_STAGE] = "stage", [STEP_WRITEBACK] = "writeback",
		[STEP_SWITCH] = "switch",
	},
	.discard_records = 1,
	.options = dual_options,
	.params = dual_format_options,
	.counters = dual_counters,
	.records = dual_records,
	.logical_blocks = engine_logical_blocks,
	.create = engine_create,
	.destroy = engine_destroy,
	.map = {
		.resolve = engine_resolve,
		.place = engine_place,
		.commit = engine_commit,
		.abort = engine_abort,
		.discard = engine_discard,
		.referenced = engine_referenced,
	},
	.clean = {
		.next_step = dual_next_step,
		.step_extent = dual_extent,
		.step_source = dual_step_source,
		.step_done = dual_finish_step,
		.step_failed = dual_fail_step,
		.tidy = dual_tidy_step,
		.release = dual_release_step,
		.pending = dual_pending,
	},
	.state = {
		.pieces = dual_pieces,
		.replay = dual_replay,
		.ready = dual_engine_ready,
	},
	.observe = {
		.verify = engine_verify,
		.map_bytes = engine_map_bytes,
		.cached_blocks = engine_cached_blocks,
		.query = dual_query,
	},
};
EXPORT_SYMBOL_GPL(dualbuffer_engine_ops);
