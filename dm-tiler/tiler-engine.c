// SPDX-License-Identifier: GPL-2.0
/*
 * The engine of autonomous regions: reads, writes, discards, and its interface to core.
 * Pure code; see tiler-state.h.  tiler-region.c and tiler-write.c change single regions.
 */
#include "tiler-state.h"

/* Most pages of absent regions that one call of verify() skips. */
#define LOOK_SLOTS	64U

/* ------------------------------------------------------------------------
 * Construction
 */

static void engine_destroy(struct shingle_engine *e)
{
	struct tiler *s = to_tiler(e);

	tiler_residents_destroy(s);
	shingle_marks_exit(e);
	kvfree(s->map.stretch);
	kvfree(s->exact);
	kvfree(s->at);
	kvfree(s->to);
	kvfree(s->owner);
	kvfree(s->in_memory);
	kvfree(s->spares.list);
	kvfree(s);
}

/* Initially each region is in the slot with its own number. */
static void make_regions(struct tiler *s)
{
	u32 i, k;

	memset(s->owner, 0xff, s->map.nr_slots * sizeof(*s->owner));
	for (i = 0; i < s->map.nr; i++) {
		const struct tiler_stretch *st = &s->map.stretch[i];

		for (k = 0; k < st->nr_regions; k++) {
			s->at[st->first_region + k] = st->first_slot + k;
			s->to[st->first_region + k] = NO_SLOT;
			s->owner[st->first_slot + k] = st->first_region + k;
			s->in_memory[st->first_region + k] = NO_RESIDENT;
		}
	}
}

static int make_all(struct tiler *s, const struct shingle_layout *l, const char **why)
{
	struct tiler_map *m = &s->map;
	int err;

	*why = "out of memory";
	m->max = l->nr_groups;
	m->stretch = shingle_zalloc_array(m->max, sizeof(*m->stretch));
	s->exact = shingle_zalloc_array(m->max, sizeof(*s->exact));
	if (!m->stretch || !s->exact)
		return -ENOMEM;
	err = tiler_map_layout(l, m, s->exact, why);
	if (err)
		return err;
	*why = "regions are not those that the superblock has room for";
	if (m->logical_blocks != l->logical_blocks)
		return -EINVAL;
	*why = "out of memory";
	s->at = shingle_zalloc_array(m->nr_regions, sizeof(*s->at));
	s->to = shingle_zalloc_array(m->nr_regions, sizeof(*s->to));
	s->in_memory = shingle_zalloc_array(m->nr_regions, sizeof(*s->in_memory));
	s->owner = shingle_zalloc_array(m->nr_slots, sizeof(*s->owner));
	s->spares.list = shingle_zalloc_array((size_t)m->nr * s->spares.nr,
					      sizeof(*s->spares.list));
	if (!s->at || !s->to || !s->in_memory || !s->owner || !s->spares.list ||
	    shingle_marks_init(&s->engine, l))
		return -ENOMEM;
	make_regions(s);
	return 0;
}

static int engine_create(struct shingle_engine **out, const struct shingle_layout *l,
			 const char **why)
{
	const struct tiler_params *p = (const void *)l->params;
	struct tiler *s;
	int err;

	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &tiler_engine_ops;
	s->layout = l;
	s->spares.nr = clamp(le32_to_cpu(p->spares), 1U, TILER_MAX_SPARES);
	s->cleaning = NO_REGION;
	s->want = NO_REGION;
	s->wipe.slot = NO_SLOT;
	err = make_all(s, l, why);
	if (err) {
		engine_destroy(&s->engine);
		return err;
	}
	shingle_options_init(tiler_options, s);
	s->engine.discard_blocks = 1;
	s->engine.step_records = min(TILER_STEP_BLOCKS,
				     shingle_txn_blocks(l) * SHINGLE_JOURNAL_RECORDS / 2);
	/* A region that is being moved needs the pages of both slots. */
	s->engine.call_pages = 2;
	s->engine.step_pages = 2;
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * Reads and writes
 */

/*
 * Looks up a page of a slot's map.  *@page is NULL for NO_SLOT.  Returns false if the page
 * is absent.
 */
static bool look(struct tiler *s, const struct tiler_home *home, u32 slot, const __le16 **page)
{
	*page = NULL;
	if (slot != NO_SLOT)
		*page = shingle_page(&s->engine,
				     tiler_map_page_of(home->stretch, slot, home->laro));
	return *page || slot == NO_SLOT;
}

/* Limit @n to blocks of the same region and the same page of its map. */
static u32 clip(const struct tiler_home *home, u64 n)
{
	return min3(n, (u64)home->stretch->shape.logical_blocks - home->laro,
		    (u64)tiler_page_rest(home->laro));
}

static void engine_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct tiler *s = to_tiler(e);
	struct tiler_home home = tiler_map_home(&s->map, lblk);
	const __le16 *at, *to;
	struct tiler_found found;

	*out = (struct shingle_run){ .lblk = lblk, .kind = SHINGLE_RUN_ABSENT };
	out->n = clip(&home, n);
	if (!look(s, &home, s->at[home.region], &at) || !look(s, &home, s->to[home.region], &to))
		return;
	tiler_find(&home.stretch->shape, at, to, home.laro % TILER_PAGE_ENTRIES, out->n, &found);
	out->n = found.n;
	out->kind = SHINGLE_RUN_ZERO;
	if (found.paro == TILER_NONE)
		return;
	out->kind = SHINGLE_RUN_MAPPED;
	out->pblk = tiler_pblk(home.stretch, found.in_to ? s->to[home.region] : s->at[home.region],
			       found.paro, &out->n);
}

/* The write found no room, and only a clean makes room. */
static int turn_away(struct tiler *s, u32 region)
{
	if (s->stuck)
		return SHINGLE_FULL;
	s->turned_away = false;
	if (s->want == NO_REGION && region != s->cleaning)
		s->want = region;
	return -ENOSPC;
}

static int engine_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			struct shingle_run *out)
{
	struct tiler *s = to_tiler(e);
	struct tiler_home home = tiler_map_home(&s->map, lblk);
	struct tiler_resident *res;
	struct tiler_run run;
	int err;

	err = tiler_resident(s, home.region, &res);
	if (err)
		return err == -ENOSPC ? turn_away(s, home.region) : err;
	if (!tiler_hold(s, &res->r, home.laro))
		return SHINGLE_ABSENT;
	tiler_bind(s, &res->r, home.laro);
	err = tiler_place(&res->r, home.laro, clip(&home, n), &run);
	if (err) {
		tiler_put(s, &res->r, home.laro);
		if (err == -ENOSPC && res->immovable)
			return SHINGLE_FULL;
		return err == -ENOSPC ? turn_away(s, home.region) : err;
	}
	if (home.region == s->cleaning)
		s->turned_away = false;
	/* The write found room, so the region no longer needs a clean. */
	if (home.region == s->want)
		s->want = NO_REGION;
	*out = (struct shingle_run){ .lblk = lblk, .n = run.n, .kind = SHINGLE_RUN_MAPPED };
	out->pblk = tiler_pblk(home.stretch, run.slot->number, run.paro, &out->n);
	return 0;
}

/* Find the resident and the places of a placed run. */
static struct tiler_resident *find_placed(struct tiler *s, const struct shingle_run *run,
					  struct tiler_home *home, struct tiler_run *out)
{
	struct tiler_resident *res;
	u32 slot, paro;

	*home = tiler_map_home(&s->map, run->lblk);
	res = &s->pool.list[s->in_memory[home->region]];
	tiler_map_place(home->stretch, shingle_pblk_block(run->pblk), &slot, &paro);
	out->slot = slot == res->r.at->number ? res->r.at : res->r.to;
	out->paro = paro;
	out->n = run->n;
	return res;
}

static void engine_commit(struct shingle_engine *e, const struct shingle_run *run,
			  struct shingle_emit *emit)
{
	struct tiler *s = to_tiler(e);
	struct tiler_resident *res;
	struct tiler_home home;
	struct tiler_run to;

	res = find_placed(s, run, &home, &to);
	tiler_bind(s, &res->r, home.laro);
	tiler_commit(&res->r, home.laro, &to, emit->seq);
	tiler_put(s, &res->r, home.laro);
	tiler_update_pending(s, res);
	shingle_emit(emit, TILER_REC_MAP, to.n, 0, run->lblk, (u64)to.slot->number << 16 | to.paro);
}

static void engine_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct tiler *s = to_tiler(e);
	struct tiler_resident *res;
	struct tiler_home home;
	struct tiler_run to;

	res = find_placed(s, run, &home, &to);
	tiler_abort(&res->r, &to);
	tiler_put(s, &res->r, home.laro);
}

/* Skip blocks that were never written, if possible to the end of the page. */
static int engine_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			  struct shingle_emit *emit)
{
	struct tiler *s = to_tiler(e);
	struct tiler_home home = tiler_map_home(&s->map, lblk);
	u32 at = s->at[home.region], to = s->to[home.region];
	const __le16 *at_page, *to_page;
	struct tiler_resident *res;
	struct tiler_found found;
	int err;

	n = clip(&home, n);
	*dropped = true;
	if (!look(s, &home, at, &at_page) || !look(s, &home, to, &to_page))
		return SHINGLE_ABSENT;
	tiler_find(&home.stretch->shape, at_page, to_page, home.laro % TILER_PAGE_ENTRIES, n,
		   &found);
	*done = found.n;
	if (found.paro == TILER_NONE)
		return 0;
	err = tiler_resident(s, home.region, &res);
	if (err)
		return err == -ENOSPC ? -EBUSY : err;
	if (res->r.stepping)
		return -EBUSY;
	if (!tiler_hold(s, &res->r, home.laro))
		return SHINGLE_ABSENT;
	tiler_bind(s, &res->r, home.laro);
	tiler_drop(&res->r, home.laro, n, emit->seq);
	tiler_put(s, &res->r, home.laro);
	tiler_update_pending(s, res);
	shingle_emit(emit, TILER_REC_DROP, n, 0, lblk, (u64)at << 32 | to);
	*done = n;
	return 0;
}

/* Did a region leave this spare slot in a transaction that is not released yet? */
static bool is_freed(const struct tiler *s, const struct tiler_stretch *st, u32 slot)
{
	const struct tiler_spare *sp = &s->spares.list[(st - s->map.stretch) * s->spares.nr];
	u32 i;

	for (i = 0; i < s->spares.nr; i++) {
		if (sp[i].slot == slot)
			return sp[i].freed_seq;
	}
	return false;
}

static bool slot_referenced(struct tiler *s, const struct tiler_stretch *st, u32 slot, u32 paro,
			    u32 n)
{
	u32 region = s->owner[slot];
	const struct tiler_resident *res;
	const struct tiler_slot *where;

	if (region == NO_REGION)
		return is_freed(s, st, slot);
	/* Only a region in memory takes writes. */
	if (s->in_memory[region] == NO_RESIDENT)
		return true;
	res = &s->pool.list[s->in_memory[region]];
	if (!res->loaded || res->broken)
		return true;
	where = slot == res->r.at->number ? res->r.at : res->r.to;
	return tiler_referenced(&res->r, where, paro, n);
}

static bool engine_referenced(struct shingle_engine *e, enum shingle_role role, u64 band,
			      u64 offset, u64 n)
{
	struct tiler *s = to_tiler(e);
	const struct tiler_stretch *st = tiler_map_zone(&s->map, band);
	u64 block, end;
	u32 slot, paro, m;

	if (!st)
		return false;
	block = st->start + (band - st->first_zone) * st->zone_blocks + offset;
	for (end = block + n; block < end; block += m) {
		m = 1;
		if (!tiler_map_place(st, block, &slot, &paro))
			continue;
		m = end - block;
		tiler_map_block(st, slot, paro, &m);
		if (slot_referenced(s, st, slot, paro, m))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------------
 * Releasing places
 */

static bool engine_release(struct shingle_engine *e, u64 seq)
{
	struct tiler *s = to_tiler(e);
	u32 spares = s->map.nr * s->spares.nr, end;

	if (!s->spares.nr_freed && s->pool.released < spares)
		s->pool.released = spares;
	if (s->pool.released < spares) {
		end = min(spares, s->pool.released + SHINGLE_WALK);
		for (; s->pool.released < end; s->pool.released++) {
			struct tiler_spare *sp = &s->spares.list[s->pool.released];

			if (!sp->freed_seq || sp->freed_seq > seq)
				continue;
			sp->freed_seq = 0;
			s->spares.nr_freed--;
		}
		return true;
	}
	end = min(spares + s->pool.nr, s->pool.released + SHINGLE_WALK);
	while (s->pool.nr_pending && s->pool.released < end) {
		struct tiler_resident *res = &s->pool.list[s->pool.released++ - spares];

		if (!res->pending)
			continue;
		tiler_release(&res->r, seq);
		tiler_update_pending(s, res);
		return true;
	}
	if (s->pool.nr_pending && s->pool.released < spares + s->pool.nr)
		return true;
	s->pool.released = 0;
	return false;
}

static bool engine_pending(struct shingle_engine *e)
{
	const struct tiler *s = to_tiler(e);

	return s->spares.nr_freed || s->pool.nr_pending;
}

/* ------------------------------------------------------------------------
 * Verification
 */

static u32 verify_page(const struct tiler *s, const struct tiler_stretch *st, u32 slot, u32 part,
		       const __le16 *page, shingle_report_fn report, void *ctx)
{
	u32 n = min(st->shape.logical_blocks - part * TILER_PAGE_ENTRIES, TILER_PAGE_ENTRIES);
	u32 i = s->in_memory[s->owner[slot]], bad = 0;
	const struct tiler_resident *res = i == NO_RESIDENT ? NULL : &s->pool.list[i];
	const struct tiler_slot *where;

	if (res && res->broken) {
		report(ctx, "region %u is where it cannot be: it is not written to any more",
		       res->region);
		return 1;
	}
	if (!res || !res->loaded)
		return 0;
	where = slot == res->r.at->number ? res->r.at : res->r.to;
	for (i = 0; i < n; i++) {
		u32 paro = tiler_page_entry(page, i);

		if (paro == TILER_NONE)
			continue;
		if (paro < where->fill && tiler_referenced(&res->r, where, paro, 1))
			continue;
		report(ctx, "slot %u: block %u is at place %u, which is not in use", slot,
		       part * TILER_PAGE_ENTRIES + i, paro);
		bad++;
	}
	return bad;
}

/*
 * Only all pages of a region together show whether two blocks share a place.  So, while the
 * device is not in use, load the region as for a write.  Returns false if the caller must
 * call again.
 */
static bool take_in(struct tiler *s, u32 region)
{
	struct tiler_resident *res;

	return s->engine.in_use || tiler_region_lost(s, region) ||
	       tiler_resident(s, region, &res) != SHINGLE_ABSENT;
}

/* Checks one page per call. */
static u32 engine_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx)
{
	struct tiler *s = to_tiler(e);
	u32 nr = *cursor, bad = 0, skipped, slot, part;
	const struct tiler_stretch *st;
	const __le16 *page;

	for (skipped = 0; skipped < LOOK_SLOTS && nr < s->map.nr_pages; skipped++, nr++) {
		st = tiler_map_page(&s->map, nr, &slot, &part);
		if (s->owner[slot] == NO_REGION || shingle_page_lost(e, nr))
			continue;
		*cursor = nr;
		if (!part && !take_in(s, s->owner[slot]))
			return 0;
		page = shingle_page(e, nr);
		if (!page) {
			tiler_pages_ahead(s, st, slot, part);
			return 0;
		}
		bad = verify_page(s, st, slot, part, page, report, ctx);
		nr++;
		break;
	}
	*cursor = nr < s->map.nr_pages ? nr : SHINGLE_NOWHERE;
	return bad;
}

static u64 engine_map_bytes(struct shingle_engine *e)
{
	const struct tiler *s = to_tiler(e);

	return s->map.nr_regions * 3ULL * sizeof(u32) + s->map.nr_slots * (u64)sizeof(u32) +
	       s->map.nr * (sizeof(*s->map.stretch) + s->spares.nr * sizeof(*s->spares.list)) +
	       tiler_residents_bytes(s);
}

/* Blocks have no home, so none is away from it. */
static u64 engine_cached_blocks(struct shingle_engine *e)
{
	return 0;
}

/* ------------------------------------------------------------------------
 * Operations for core
 */

static_assert(!offsetof(struct tiler, engine));
static_assert(!offsetof(struct tiler_stretch, shape));

const struct shingle_engine_ops tiler_engine_ops = {
	.name = "tiler",
	.commit_records = 1,
	.step_records = 1,
	.step_kinds = {
		[TILER_STEP_WIPE] = "wipe", [TILER_STEP_BEGIN] = "begin",
		[TILER_STEP_MOVE] = "move", [TILER_STEP_FLIP] = "flip",
	},
	.discard_records = 1,
	.options = tiler_options,
	.params = tiler_format_options,
	.counters = tiler_counters,
	.records = tiler_records,
	.logical_blocks = tiler_logical_blocks,
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
		.next_step = tiler_next_step,
		.step_extent = tiler_step_extent,
		.step_source = tiler_step_source,
		.step_done = tiler_step_done,
		.step_failed = tiler_step_failed,
		.release = engine_release,
		.pending = engine_pending,
		.left = tiler_left,
	},
	.state = {
		.pieces = tiler_pieces,
		.replay = tiler_replay,
		.ready = tiler_ready,
	},
	.pages = {
		.nr_pages = tiler_nr_pages,
		.check = tiler_page_check,
		.blocks = tiler_page_blocks,
	},
	.observe = {
		.verify = engine_verify,
		.map_bytes = engine_map_bytes,
		.cached_blocks = engine_cached_blocks,
	},
};
EXPORT_SYMBOL_GPL(tiler_engine_ops);
