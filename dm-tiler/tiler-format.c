// SPDX-License-Identifier: GPL-2.0
/*
 * The state of the engine of autonomous regions on the disk: zones, checkpoint pieces,
 * journal records, pages of the map.  Pure code.  See Documentation/on-disk-format.rst.
 */
#include "tiler-state.h"

/* ------------------------------------------------------------------------
 * Zones
 */

static struct tiler_params params_of(const struct shingle_layout *l)
{
	struct tiler_params p;

	memcpy(&p, l->params, sizeof(p));
	return p;
}

/* The skew between tracks of a group; false if it is unknown or not uniform. */
static bool skew_of(const struct shingle_layout *l, const struct shingle_group *g, u32 *skew)
{
	u64 start = shingle_pblk_block(g->start);
	u64 end = start + (g->nr_bands - 1) * g->stride + l->band_blocks[g->role];

	return shingle_medium_skew(&l->medium[SHINGLE_DEV_DATA], start, end, g->track_blocks, skew);
}

/*
 * Each band is a zone.  If the angles of blocks are unknown, a region uses whole tracks,
 * and lazy writes are not known to be harmless.
 */
static int zones_of(const struct shingle_layout *l, const struct shingle_group *g,
		    struct tiler_zones *z, bool *exact, const char **why)
{
	struct tiler_params p = params_of(l);
	u32 band = l->band_blocks[SHINGLE_ROLE_DATA], rows;

	memset(z, 0, sizeof(*z));
	z->rows = le32_to_cpu(p.rows);
	z->columns = le32_to_cpu(p.columns);
	z->over_permille = le32_to_cpu(p.over_permille);
	z->spares = max(le32_to_cpu(p.spares), 1U);
	z->head_tracks = l->head_tracks;
	z->start = shingle_pblk_block(g->start);
	z->stride = g->stride;
	z->first = g->first_band;
	z->nr = g->nr_bands;
	*why = "a region leaves less than everything out, and a track's length has 1 to 16 spares";
	if (z->over_permille > 999 || z->spares > TILER_MAX_SPARES)
		return -EINVAL;
	*exact = true;
	/* Without tracks no write destroys another block; rows get the length that fits. */
	z->track_blocks = g->track_blocks ?: max(band / max(z->rows, 1U), 1U);
	rows = band / z->track_blocks;
	z->rows = z->rows ? min(z->rows, rows) : rows;
	*why = "a region has 1 to 65535 blocks: choose smaller bands, or fewer rows and columns";
	if (!g->track_blocks && z->track_blocks > TILER_MAX_BLOCKS)
		return -EINVAL;
	if (!g->track_blocks || l->head_tracks == 1)
		return 0;
	*exact = skew_of(l, g, &z->skew_units);
	if (*exact && !(z->skew_units % SHINGLE_SUB_UNITS))
		return 0;
	*why = "parts of a track need a medium that says, block by block, what is under an angle";
	if (z->columns && z->columns != z->track_blocks)
		return -EINVAL;
	z->skew_units = 0;
	*exact = false;
	return 0;
}

/**
 * tiler_map_layout() - build the map of regions for a layout
 * @l: the layout
 * @m: result; with room for only one stretch, just the sums are valid
 * @exact: for each stretch, whether its columns are known; may be NULL
 * @why: on error, a sentence
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int tiler_map_layout(const struct shingle_layout *l, struct tiler_map *m, bool *exact,
		     const char **why)
{
	struct tiler_zones z;
	u64 band = 0;
	u32 i;

	*why = "tiler has nothing but data bands, on tracks that are not interlaced";
	if (l->interlaced || l->nr_bands[SHINGLE_ROLE_CACHE] ||
	    l->nr_bands[SHINGLE_ROLE_STAGING])
		return -EINVAL;
	while (band < l->nr_bands[SHINGLE_ROLE_DATA]) {
		const struct shingle_group *g =
			shingle_group_of(l, shingle_band_pblk(l, SHINGLE_ROLE_DATA, band));
		bool known = false;
		int err = -EINVAL;

		if (!g || shingle_pblk_dev(g->start) != SHINGLE_DEV_DATA)
			return -EINVAL;
		band += g->nr_bands;
		i = m->nr;
		if (!exact)
			m->nr = 0;
		if (!zones_of(l, g, &z, &known, why))
			err = tiler_map_add(m, &z, why);
		/* Tracks of a length that has too few of them are left unused. */
		if (err && err != -ENOSPC && z.rows)
			return -EINVAL;
		if (exact && m->nr > i)
			exact[i] = known;
	}
	*why = "no tracks have room for a region and spare slots: more bands, or fewer spares";
	return m->nr_regions ? 0 : -EINVAL;
}

/* The same, but only the sums over all stretches. */
static bool add_up(const struct shingle_layout *l, struct tiler_map *m)
{
	struct tiler_stretch st = {};
	const char *why;
	int err;

	*m = (struct tiler_map){ .stretch = &st, .max = 1 };
	err = tiler_map_layout(l, m, NULL, &why);
	m->stretch = NULL;
	return !err;
}

/* An operation of struct shingle_engine_ops. */
u64 tiler_logical_blocks(const struct shingle_layout *l)
{
	struct tiler_map m;

	return add_up(l, &m) ? m.logical_blocks : 0;
}

/* An operation of struct shingle_engine_ops. */
u64 tiler_nr_pages(const struct shingle_layout *l)
{
	struct tiler_map m;

	return add_up(l, &m) ? m.nr_pages : 0;
}

/* ------------------------------------------------------------------------
 * Pieces
 */

/* Upper bound for the number of regions.  Called for each piece; need not be exact. */
static u64 nr_region_pieces(const struct shingle_layout *l)
{
	u32 columns = le32_to_cpu(params_of(l).columns), i;
	u64 slots = l->nr_bands[SHINGLE_ROLE_DATA];

	if (columns) {
		slots = 0;
		for (i = 0; i < l->nr_groups; i++) {
			const struct shingle_group *g = &l->groups[i];
			u32 track = g->track_blocks ?: l->band_blocks[SHINGLE_ROLE_DATA];

			if (g->role == SHINGLE_ROLE_DATA)
				slots += g->nr_bands * (track / columns);
		}
	}
	return DIV_ROUND_UP_ULL(slots, PART_REGIONS);
}

static u32 own_slot(const struct tiler *s, u32 region)
{
	const struct tiler_stretch *st = tiler_map_region(&s->map, region);

	return st->first_slot + region - st->first_region;
}

/*
 * For each region its slot and the slot it is moved to, each plus 1; 0 means the initial
 * slot, and none.
 */
static u32 encode_regions(struct shingle_engine *e, u32 at, void *to)
{
	const struct tiler *s = to_tiler(e);
	u32 first = at * PART_REGIONS, n, i;
	bool any = false;
	__le32 *buf = to;

	if (first >= s->map.nr_regions)
		return 0;
	n = min(s->map.nr_regions - first, PART_REGIONS);
	for (i = 0; i < n; i++) {
		u32 region = first + i, slot = s->at[region];

		slot = slot == own_slot(s, region) ? 0 : slot + 1;
		buf[2 * i] = cpu_to_le32(slot);
		buf[2 * i + 1] = cpu_to_le32(s->to[region] + 1);
		any |= slot || s->to[region] != NO_SLOT;
	}
	return any ? 2 * n * sizeof(*buf) : 0;
}

static bool is_slot_for(const struct tiler *s, u32 region, u64 slot)
{
	const struct tiler_stretch *st = tiler_map_region(&s->map, region);

	return slot >= st->first_slot && slot - st->first_slot < st->nr_slots;
}

static int decode_regions(struct shingle_engine *e, u32 at, const void *from, u32 bytes)
{
	struct tiler *s = to_tiler(e);
	u32 first = at * PART_REGIONS, n, i;
	const __le32 *buf = from;

	if (first >= s->map.nr_regions)
		return -EUCLEAN;
	n = min(s->map.nr_regions - first, PART_REGIONS);
	if (bytes != 2 * n * sizeof(*buf))
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		u32 region = first + i;
		u32 slot = le32_to_cpu(buf[2 * i]), to = le32_to_cpu(buf[2 * i + 1]) - 1;

		slot = slot ? slot - 1 : own_slot(s, region);
		if (!is_slot_for(s, region, slot) || (to != NO_SLOT && !is_slot_for(s, region, to)))
			return -EUCLEAN;
		s->at[region] = slot;
		s->to[region] = to;
	}
	return 0;
}

const struct shingle_piece_kind tiler_pieces[] = {
	{ nr_region_pieces, encode_regions, decode_regions },
	{ }
};

/* ------------------------------------------------------------------------
 * Records
 */

/* Checks that blocks are in one page of one region. */
static bool is_run(const struct tiler *s, u64 lblk, u32 n, struct tiler_home *home)
{
	if (lblk >= s->map.logical_blocks || !n)
		return false;
	*home = tiler_map_home(&s->map, lblk);
	return n <= tiler_page_rest(home->laro) &&
	       n <= home->stretch->shape.logical_blocks - home->laro;
}

/* Map entries from @laro on to places from @paro on, or clear them if that is TILER_NONE. */
static int set_entries(struct tiler *s, const struct tiler_stretch *st, u32 slot, u32 laro, u32 n,
		       u32 paro)
{
	u32 nr = tiler_map_page_of(st, slot, laro), i;
	__le16 *page = shingle_page_hold(&s->engine, nr);

	if (!page)
		return SHINGLE_ABSENT;
	for (i = 0; i < n; i++)
		page[laro % TILER_PAGE_ENTRIES + i] =
			cpu_to_le16(paro == TILER_NONE ? 0 : paro + i + 1);
	shingle_page_dirty(&s->engine, nr);
	shingle_page_put(&s->engine, nr);
	return 0;
}

static int replay_map(struct shingle_engine *e, u64 lblk, u64 place, u32 n, u32 c)
{
	u64 slot = place >> 16, paro = place & U16_MAX;
	struct tiler *s = to_tiler(e);
	struct tiler_home home;

	if (!is_run(s, lblk, n, &home) || !is_slot_for(s, home.region, slot) ||
	    paro + n > tiler_blocks(&home.stretch->shape))
		return -EUCLEAN;
	return set_entries(s, home.stretch, slot, home.laro, n, paro);
}

static int replay_drop(struct shingle_engine *e, u64 lblk, u64 slots, u32 n, u32 c)
{
	u32 slot[] = { slots >> 32, (u32)slots }, i;
	struct tiler *s = to_tiler(e);
	struct tiler_home home;
	int err = 0;

	if (!is_run(s, lblk, n, &home))
		return -EUCLEAN;
	for (i = 0; !err && i < ARRAY_SIZE(slot); i++) {
		if (i && slot[i] == NO_SLOT)
			continue;
		if (!is_slot_for(s, home.region, slot[i]))
			return -EUCLEAN;
		/*
		 * Skip a lost page, but change the page of the other slot: later records may
		 * move the region there.
		 */
		if (shingle_page_lost(e, tiler_map_page_of(home.stretch, slot[i], home.laro)))
			continue;
		err = set_entries(s, home.stretch, slot[i], home.laro, n, TILER_NONE);
	}
	return err;
}

static int replay_clean(struct shingle_engine *e, u64 region, u64 slot, u32 n, u32 c)
{
	struct tiler *s = to_tiler(e);

	if (region >= s->map.nr_regions || !is_slot_for(s, region, slot))
		return -EUCLEAN;
	s->to[region] = slot;
	return 0;
}

static int replay_flip(struct shingle_engine *e, u64 region, u64 slot, u32 n, u32 c)
{
	struct tiler *s = to_tiler(e);

	if (region >= s->map.nr_regions || !is_slot_for(s, region, slot))
		return -EUCLEAN;
	s->at[region] = slot;
	s->to[region] = NO_SLOT;
	return 0;
}

static int replay_wipe(struct shingle_engine *e, u64 slot, u64 page, u32 n, u32 c)
{
	struct tiler *s = to_tiler(e);
	const struct tiler_stretch *st;
	u32 laro;

	if (slot >= s->map.nr_slots)
		return -EUCLEAN;
	st = tiler_map_slot(&s->map, slot);
	if (page >= st->pages)
		return -EUCLEAN;
	laro = page * TILER_PAGE_ENTRIES;
	return set_entries(s, st, slot, laro,
			   min(TILER_PAGE_ENTRIES, st->shape.logical_blocks - laro), TILER_NONE);
}

const struct shingle_record_kind tiler_records[] = {
	{ TILER_REC_MAP, "MAP", .a = "block", .n = "blocks", .b = "place", .replay = replay_map },
	{ TILER_REC_DROP, "DROP", .a = "block", .n = "blocks", .b = "slots",
	  .replay = replay_drop },
	{ TILER_REC_CLEAN, "CLEAN", .a = "region", .b = "slot", .replay = replay_clean },
	{ TILER_REC_FLIP, "FLIP", .a = "region", .b = "slot", .replay = replay_flip },
	{ TILER_REC_WIPE, "WIPE", .a = "slot", .b = "page", .replay = replay_wipe },
	{ }
};

/* An operation of struct shingle_engine_ops. */
int tiler_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	return shingle_record_replay(tiler_records, e, rec);
}

/* ------------------------------------------------------------------------
 * After loading
 */

static bool own(struct tiler *s, u32 slot, u32 region)
{
	if (s->owner[slot] != NO_REGION)
		return false;
	s->owner[slot] = region;
	return true;
}

/* Collect the slots without an owner, at most the number of spares. */
static void find_spares(struct tiler *s, u32 stretch)
{
	const struct tiler_stretch *st = &s->map.stretch[stretch];
	struct tiler_spare *sp = &s->spares.list[stretch * s->spares.nr];
	u32 slot, nr = 0;

	for (slot = st->first_slot; slot < st->first_slot + st->nr_slots; slot++) {
		if (s->owner[slot] == NO_REGION)
			sp[nr++].slot = slot;
	}
	/* A missing spare is the destination of a region that is being moved. */
	for (; nr < s->spares.nr; nr++)
		sp[nr].slot = NO_SLOT;
}

/* An operation of struct shingle_engine_ops. */
int tiler_ready(struct shingle_engine *e, const char **why)
{
	struct tiler *s = to_tiler(e);
	u32 i;

	*why = "two regions are in one slot";
	memset(s->owner, 0xff, s->map.nr_slots * sizeof(*s->owner));
	for (i = 0; i < s->map.nr_regions; i++) {
		if (!own(s, s->at[i], i))
			return -EUCLEAN;
	}
	for (i = 0; i < s->map.nr_regions; i++) {
		if (s->to[i] == NO_SLOT)
			continue;
		if (!own(s, s->to[i], i))
			return -EUCLEAN;
		if (s->cleaning == NO_REGION && !tiler_region_lost(s, i))
			s->cleaning = i;
	}
	for (i = 0; i < s->map.nr; i++) {
		struct tiler_shape *shape = &s->map.stretch[i].shape;

		find_spares(s, i);
		shape->lazy = s->opt.lazy && s->exact[i];
		shape->unsafe_reuse = s->opt.unsafe_reuse;
		shape->unsafe_inplace = s->opt.unsafe_inplace &&
					shape->columns == s->map.stretch[i].track_blocks;
	}
	*why = "out of memory";
	return tiler_residents_create(s);
}

/* ------------------------------------------------------------------------
 * Pages
 */

/* An operation of struct shingle_engine_ops. */
int tiler_page_check(const struct shingle_engine *e, u32 nr, const void *page)
{
	const struct tiler *s = to_tiler(e);
	const __le16 *entry = page;
	const struct tiler_stretch *st;
	u32 slot, part, n, i;

	st = tiler_map_page(&s->map, nr, &slot, &part);
	n = min(st->shape.logical_blocks - part * TILER_PAGE_ENTRIES, TILER_PAGE_ENTRIES);
	for (i = 0; i < SHINGLE_PAGE_BYTES / sizeof(*entry); i++) {
		if (le16_to_cpu(entry[i]) > (i < n ? tiler_blocks(&st->shape) : 0))
			return -EUCLEAN;
	}
	return 0;
}

/* An operation of struct shingle_engine_ops. */
void tiler_page_blocks(const struct shingle_engine *e, u32 nr, u64 *lblk, u64 *n)
{
	const struct tiler *s = to_tiler(e);
	const struct tiler_stretch *st;
	u32 slot, part, region;

	st = tiler_map_page(&s->map, nr, &slot, &part);
	region = s->owner[slot];
	*lblk = 0;
	*n = 0;
	if (region == NO_REGION)
		return;
	*lblk = tiler_region_lblk(st, region) + part * TILER_PAGE_ENTRIES;
	*n = min(st->shape.logical_blocks - part * TILER_PAGE_ENTRIES, TILER_PAGE_ENTRIES);
}
