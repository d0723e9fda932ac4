// SPDX-License-Identifier: GPL-2.0
/*
 * The engine of RMW-F: reads, writes, discards, and its interface to core.  Pure code; see
 * rmwf/state.h.
 */
#include "rmwf/state.h"

/* Most blocks that one discard call visits. */
#define DISCARD_BLOCKS	SHINGLE_WALK

/* ------------------------------------------------------------------------
 * Construction
 */

static u64 engine_logical_blocks(const struct shingle_layout *l)
{
	return l->nr_bands[SHINGLE_ROLE_DATA] * l->band_blocks[SHINGLE_ROLE_DATA];
}

/* Flash on tracks that no head destroys. */
static bool is_plain(const struct shingle_layout *l)
{
	const struct shingle_group *g =
		shingle_group_of(l, shingle_band_pblk(l, SHINGLE_ROLE_CACHE, 0));

	return g && !g->track_blocks;
}

static int check_layout(const struct shingle_layout *l, const char **why)
{
	*why = NULL;
	if (l->interlaced)
		*why = "rmwf is for tracks that are not interlaced";
	else if (l->nr_bands[SHINGLE_ROLE_CACHE] != 1)
		*why = "rmwf needs exactly one cache band, which is its flash";
	else if (l->nr_bands[SHINGLE_ROLE_STAGING] != 1)
		*why = "rmwf needs exactly one staging band";
	else if (l->band_blocks[SHINGLE_ROLE_STAGING] < l->band_blocks[SHINGLE_ROLE_DATA])
		*why = "rmwf needs a staging band that is no shorter than its data bands";
	else if (!l->logical_blocks || l->logical_blocks != engine_logical_blocks(l))
		*why = "rmwf presents its data bands, no more and no less";
	else if (l->logical_blocks > SHINGLE_SLOTMAP_LBLKS)
		*why = "rmwf presents at most 16 TiB";
	else if (l->head_tracks > 1 && !(l->dev_blocks[SHINGLE_DEV_CACHE] || is_plain(l)))
		*why = "rmwf needs flash on a device of its own (--cache), not on shingled tracks";
	else if (l->band_blocks[SHINGLE_ROLE_CACHE] > SHINGLE_SLOTMAP_SLOTS)
		*why = "rmwf caches at most 2 TiB less 256 KiB";
	return *why ? -EINVAL : 0;
}

static void engine_destroy(struct shingle_engine *e)
{
	struct rmwf *s = to_rmwf(e);

	rmwf_space_exit(&s->space);
	rmwf_flash_exit(&s->flash);
	kvfree(s->row);
	kvfree(s->merges.list);
	shingle_marks_exit(e);
	kvfree(s);
}

static int build(struct rmwf *s, const char **why)
{
	const struct rmwf_params *p = (const void *)s->layout->params;
	u32 slots = s->layout->band_blocks[SHINGLE_ROLE_CACHE];
	int err;

	*why = "out of memory";
	if (rmwf_space_init(&s->space, &s->engine, s->layout))
		return -ENOMEM;
	err = rmwf_flash_init(&s->flash, &s->space, slots, le32_to_cpu(p->page_blocks),
			      le32_to_cpu(p->group_columns), why);
	if (err)
		return err;
	s->row = shingle_zalloc_array(2 * (u64)s->space.band_blocks, sizeof(*s->row));
	s->merges.list = shingle_zalloc_array(RMWF_MERGES, sizeof(*s->merges.list));
	s->merges.most = s->engine.step_records - 2;
	return s->row && s->merges.list ? shingle_marks_init(&s->engine, s->layout) : -ENOMEM;
}

static int engine_create(struct shingle_engine **out, const struct shingle_layout *l,
			 const char **why)
{
	struct rmwf *s;
	int err;

	BUILD_BUG_ON(sizeof(struct rmwf_params) > SHINGLE_ENGINE_PARAMS_SIZE);
	if (check_layout(l, why))
		return -EINVAL;
	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &rmwf_engine_ops;
	s->engine.discard_blocks = 1;
	s->engine.frees_early = true;
	s->engine.step_records = min(RMWF_MERGES,
				     shingle_txn_blocks(l) * SHINGLE_JOURNAL_RECORDS / 2);
	s->layout = l;
	s->cache_pblk = shingle_band_pblk(l, SHINGLE_ROLE_CACHE, 0);
	err = build(s, why);
	if (err) {
		engine_destroy(&s->engine);
		return err;
	}
	shingle_options_init(rmwf_options, s);
	s->engine.cache_blocks = s->flash.map.nr_slots;
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * Reads and writes
 */

/* Resolve blocks of one band, none of which is in flash: home, staging band or zeroes. */
static void resolve_native(const struct rmwf *s, u32 lblk, u32 n, struct shingle_run *out)
{
	const struct rmwf_span *g = &s->staging;

	out->pblk = rmwf_native(&s->space, lblk);
	if (!test_bit(lblk, s->space.live)) {
		out->kind = SHINGLE_RUN_ZERO;
		out->n = n > 1 ? find_next_bit(s->space.live, lblk + n, lblk) - lblk : 1;
		return;
	}
	if (rmwf_is_staged(s, lblk)) {
		out->pblk = shingle_staging_pblk(s->layout) + lblk - g->lblk;
		n = min(n, g->lblk + g->n - lblk);
	} else if (g->n && lblk < g->lblk) {
		n = min(n, g->lblk - lblk);
	}
	out->n = n > 1 ? find_next_zero_bit(s->space.live, lblk + n, lblk) - lblk : 1;
}

/* Algorithm 8. */
static void engine_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct rmwf *s = to_rmwf(e);
	struct shingle_slotmap *m = &s->flash.map;
	u32 band = rmwf_band(s, lblk);
	u32 slot = s->flash.cached[band] ? rmwf_find(&s->flash, lblk) : SHINGLE_NO_SLOT;

	n = min(n, (band + 1) * s->space.band_blocks - (u32)lblk);
	out->lblk = lblk;
	out->kind = SHINGLE_RUN_MAPPED;
	if (slot != SHINGLE_NO_SLOT) {
		out->pblk = s->cache_pblk + slot;
		out->n = shingle_slotmap_run(m, slot, min(n, m->nr_slots - slot));
		return;
	}
	if (n > 1 && s->flash.cached[band])
		n = shingle_slotmap_absent(m, lblk, n);
	resolve_native(s, lblk, n, out);
}

/* A band that is being copied, or is about to be, takes no writes. */
static bool is_copied(const struct rmwf *s, u32 band)
{
	return s->chosen && !s->staging.n && band == s->victim.band;
}

static bool band_in_flight(const struct rmwf *s, u32 band)
{
	return rmwf_in_flight(&s->space, band * s->space.band_blocks, s->space.band_blocks);
}

/* Is there no block in any of these pages? */
static bool has_none(const struct rmwf_flash *f, u32 from, u32 n)
{
	for (; n; n--, from++) {
		if (shingle_slot_state(&f->map, from) == SHINGLE_SLOT_OWNED)
			return false;
	}
	return true;
}

/* There is no free page for a block. */
static int no_page(struct rmwf *s, const struct rmwf_place *p)
{
	struct rmwf_flash *f = &s->flash;
	u32 n = 1, block = rmwf_block_of(f, p, &n), from;

	if (f->pool ? f->nr_freed : f->block[block].waiting)
		return -EBUSY;
	n = f->pool ? min(f->map.nr_slots, RMWF_PAGES) : f->page_blocks;
	from = (f->pool ? f->pool_at : block) * f->page_blocks;
	from = min(from, f->map.nr_slots - n);
	/* All pages have writes in flight; there is nothing to collect yet. */
	if (has_none(f, from, n))
		return -EBUSY;
	if (s->stuck) {
		s->count.refused++;
		return SHINGLE_FULL;
	}
	s->count.full_waits += !s->wanted;
	s->wanted = true;
	s->want_from = from;
	s->want_n = n;
	return -ENOSPC;
}

static int engine_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			struct shingle_run *out)
{
	struct rmwf *s = to_rmwf(e);
	struct rmwf_place p = rmwf_locate(&s->space, lblk);
	bool home = rmwf_going_home(s, p.band);
	u32 direct = 0, slot;

	n = min3(n, (p.band + 1) * s->space.band_blocks - (u32)lblk, (u32)U16_MAX);
	if (rmwf_space_full(&s->space))
		return -EBUSY;
	/* -ENOSPC makes core start the collector, in case it has stopped. */
	if (is_copied(s, p.band))
		return s->stepping || band_in_flight(s, p.band) ? -EBUSY : -ENOSPC;
	if (!home)
		direct = rmwf_direct(&s->space, &p, lblk, n, s->opt.pointer);
	*out = (struct shingle_run){ .lblk = lblk, .n = direct, .kind = SHINGLE_RUN_MAPPED };
	if (direct) {
		out->pblk = rmwf_pblk_of(&s->space, &p);
	} else {
		if (!home && n > 1)
			n = rmwf_not_direct(&s->space, &p, lblk, n, s->opt.pointer);
		out->n = rmwf_flash_place(&s->flash, &p, n, &slot);
		if (!out->n)
			return no_page(s, &p);
		out->pblk = s->cache_pblk + slot;
	}
	rmwf_space_take(&s->space, lblk, out->n, direct);
	return 0;
}

static bool is_direct(const struct rmwf *s, const struct shingle_run *run)
{
	return run->pblk - s->cache_pblk >= s->flash.map.nr_slots;
}

/* Call rmwf_leave_flash() for those of @n blocks of one band that are in flash. */
static void leave_flash(struct rmwf *s, u32 lblk, u32 n, u64 seq)
{
	u32 band = rmwf_band(s, lblk);

	for (; s->flash.cached[band] &&
	     shingle_slotmap_next(&s->flash.map, &lblk, &n) != SHINGLE_NO_SLOT; lblk++, n--)
		rmwf_leave_flash(s, lblk, band, seq);
}

static void landed_at_home(struct rmwf *s, const struct shingle_run *run,
			   struct shingle_emit *emit)
{
	/*
	 * If the change is not recorded, the page is free at once: no transaction would
	 * free it.
	 */
	leave_flash(s, run->lblk, run->n, s->opt.unsafe_pointer ? 0 : emit->seq);
	rmwf_space_live(&s->space, run->lblk, run->n, true);
	rmwf_mark_live(s, run->lblk, run->n);
	s->count.direct_blocks += run->n;
	if (!s->opt.unsafe_pointer)
		shingle_emit(emit, RMWF_REC_HOME, run->n, 0, run->lblk, 0);
}

static void landed_in_flash(struct rmwf *s, const struct shingle_run *run,
			    struct shingle_emit *emit)
{
	u32 slot = run->pblk - s->cache_pblk, band = rmwf_band(s, run->lblk), i, part, count;

	for (i = 0; i < run->n; i += part) {
		u32 lblk = run->lblk + i;

		part = rmwf_flash_hold(&s->flash, slot + i, lblk, run->n - i, band);
		if (part)
			continue;
		count = rmwf_leave_flash(s, lblk, band, emit->seq);
		part = rmwf_flash_hold(&s->flash, slot + i, lblk, 1, band);
		s->flash.count[slot + i] = min_t(u32, count + 1, U16_MAX);
	}
	rmwf_mark_slots(s, slot, run->n);
	rmwf_space_leave(&s->space, run->lblk, run->n, emit->seq);
	rmwf_mark_live(s, run->lblk, run->n);
	s->count.flash_blocks += run->n;
	shingle_emit(emit, RMWF_REC_FLASH, run->n, 0, run->lblk, slot);
}

static void engine_commit(struct shingle_engine *e, const struct shingle_run *run,
			  struct shingle_emit *emit)
{
	struct rmwf *s = to_rmwf(e);
	bool direct = is_direct(s, run);

	rmwf_space_landed(&s->space, run->lblk, run->n, direct);
	if (direct)
		landed_at_home(s, run, emit);
	else
		landed_in_flash(s, run, emit);
}

static void engine_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct rmwf *s = to_rmwf(e);
	bool direct = is_direct(s, run);

	rmwf_space_failed(&s->space, run->lblk, run->n, direct);
	if (!direct)
		rmwf_flash_abort(&s->flash, run->pblk - s->cache_pblk, run->n);
	s->count.aborted_blocks += run->n;
}

static int engine_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			  struct shingle_emit *emit)
{
	struct rmwf *s = to_rmwf(e);
	u32 band = rmwf_band(s, lblk);
	u32 part = min3(n, (u64)(band + 1) * s->space.band_blocks - lblk, (u64)DISCARD_BLOCKS);
	bool live = find_next_bit(s->space.live, lblk + part, lblk) < lblk + part;
	u32 cached = s->flash.map.live;

	/* A copy that is being made, or is the only one, must stay complete. */
	if (is_copied(s, band) || rmwf_going_home(s, band) || rmwf_space_full(&s->space))
		return -EBUSY;
	*done = part;
	*dropped = true;
	leave_flash(s, lblk, part, emit->seq);
	/* Nothing was dropped, so emit no record: a file system may discard a whole disk. */
	if (!live && cached == s->flash.map.live)
		return 0;
	rmwf_space_leave(&s->space, lblk, part, emit->seq);
	rmwf_mark_live(s, lblk, part);
	shingle_emit(emit, RMWF_REC_DISCARD, 0, 0, lblk, part);
	return 0;
}

/* ------------------------------------------------------------------------
 * Other operations
 */

static bool engine_referenced(struct shingle_engine *e, enum shingle_role role, u64 band,
			      u64 offset, u64 n)
{
	const struct rmwf *s = to_rmwf(e);
	u64 first = band * s->space.band_blocks + offset;

	switch (role) {
	case SHINGLE_ROLE_DATA:
		/*
		 * When the staged copy is durable, the home of the staged span is not
		 * referenced.
		 */
		if (!s->waits && rmwf_going_home(s, band)) {
			if (first < s->staging.lblk &&
			    rmwf_claimed(&s->space, first, min(n, s->staging.lblk - first)))
				return true;
			if (first + n <= s->staging.lblk + s->staging.n)
				return false;
			n -= max(first, (u64)s->staging.lblk + s->staging.n) - first;
			first = max(first, (u64)s->staging.lblk + s->staging.n);
		}
		return rmwf_claimed(&s->space, first, n);
	case SHINGLE_ROLE_STAGING:
		return s->staging.n || s->waits;
	case SHINGLE_ROLE_CACHE:
		for (; n && offset < s->flash.map.nr_slots; n--, offset++) {
			if (shingle_slot_state(&s->flash.map, offset) != SHINGLE_SLOT_FREE)
				return true;
		}
		return false;
	default:
		return true;
	}
}

static u32 verify_slot(const struct rmwf *s, u32 slot, shingle_report_fn report, void *ctx)
{
	const struct shingle_slotmap *m = &s->flash.map;
	u32 lblk;

	if (shingle_slot_state(m, slot) != SHINGLE_SLOT_OWNED)
		return 0;
	lblk = shingle_slot_lblk(m, slot);
	if (lblk >= s->space.blocks || rmwf_find(&s->flash, lblk) != slot) {
		report(ctx, "page %u holds block %u, and is not found", slot, lblk);
		return 1;
	}
	if (!test_bit(lblk, s->space.live))
		return 0;
	report(ctx, "page %u holds block %u, which is where it belongs, too", slot, lblk);
	return 1;
}

/* Checks pages, and then the bits of live blocks. */
static u32 engine_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report,
			 void *ctx)
{
	struct rmwf *s = to_rmwf(e);
	struct shingle_slotmap *m = &s->flash.map;
	u64 at = *cursor, end = min(at + SHINGLE_WALK, (u64)m->nr_slots), words, word;
	u32 bad = 0;

	if (!at) {
		m->seen = 0;
		m->seen_live = 0;
	}
	if (at < m->nr_slots) {
		for (; m->seen < end; m->seen++) {
			bad += verify_slot(s, m->seen, report, ctx);
			m->seen_live += shingle_slot_state(m, m->seen) == SHINGLE_SLOT_OWNED;
		}
		*cursor = end;
		if (end == m->nr_slots && m->seen_live != m->live) {
			report(ctx, "%u blocks are in flash, and %u pages hold one", m->live,
			       m->seen_live);
			bad++;
		}
		if (end == m->nr_slots)
			m->seen = 0;
		return bad;
	}
	words = BITS_TO_LONGS(s->space.blocks);
	for (word = at - m->nr_slots; word < words && word < at - m->nr_slots + SHINGLE_WALK;
	     word++) {
		if (!(s->space.live[word] & ~s->space.claimed[word]))
			continue;
		report(ctx, "of blocks %llu.. one is where it belongs, and its place is free",
		       word * BITS_PER_LONG);
		bad++;
	}
	*cursor = word < words ? word + m->nr_slots : SHINGLE_NOWHERE;
	return bad;
}

static u64 engine_map_bytes(struct shingle_engine *e)
{
	const struct rmwf *s = to_rmwf(e);
	const struct rmwf_flash *f = &s->flash;

	return shingle_slotmap_bytes(&f->map) +
	       (u64)f->map.nr_slots * (sizeof(*f->count) + sizeof(*f->wait)) +
	       (u64)f->nr_blocks * sizeof(*f->block) +
	       (BITS_TO_LONGS(f->nr_blocks) + BITS_TO_LONGS(f->map.nr_slots)) * sizeof(*f->open) +
	       (u64)f->nr_bands * sizeof(*f->cached) +
	       2 * BITS_TO_LONGS(s->space.blocks) * sizeof(*s->space.live);
}

static u64 engine_cached_blocks(struct shingle_engine *e)
{
	return to_rmwf(e)->flash.map.live;
}

const struct shingle_engine_ops rmwf_engine_ops = {
	.name = "rmwf",
	.needs = { .cache = true, .one_cache = true, .staging = 1 },
	.commit_records = 1,
	.step_records = 1,
	.step_kinds = {
		[RMWF_STEP_LOOK] = "look", [RMWF_STEP_STAGE] = "stage",
		[RMWF_STEP_WRITEBACK] = "writeback", [RMWF_STEP_INPLACE] = "inplace",
	},
	.discard_records = 1,
	.options = rmwf_options,
	.params = rmwf_format_options,
	.counters = rmwf_counters,
	.records = rmwf_records,
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
		.next_step = rmwf_next_step,
		.step_source = rmwf_step_source,
		.step_done = rmwf_finish_step,
		.step_failed = rmwf_fail_step,
		.release = rmwf_release_step,
		.pending = rmwf_is_pending,
	},
	.state = {
		.pieces = rmwf_pieces,
		.replay = rmwf_replay,
		.ready = rmwf_ready,
	},
	.observe = {
		.verify = engine_verify,
		.map_bytes = engine_map_bytes,
		.cached_blocks = engine_cached_blocks,
	},
};
EXPORT_SYMBOL_GPL(rmwf_engine_ops);
