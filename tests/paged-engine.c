// SPDX-License-Identifier: GPL-2.0
/*
 * An engine with a map in pages, for tests.
 *
 * Two adjacent bands form a region, which presents three quarters of one band. One band is open: a
 * write goes to its next slot. When it has no slot left, one step moves all current blocks to the
 * other band.
 *
 * Each region has its own map pages: one records which slots of both bands are current, the others
 * the slot of each block. A write changes two of them, a step all. Memory holds only the open band
 * and its fill.
 */
#include "paged-engine.h"
#include "pages/pages.h"

/* Blocks in one page of the map, and regions in one piece. Tests set smaller values. */
#ifndef PAGE_BLOCKS
#define PAGE_BLOCKS	1000U
#endif
#ifndef PART_REGIONS
#define PART_REGIONS	500U
#endif

#define NO_REGION	U32_MAX
/* Largest number of slots in a band: one page holds a bit for each slot of both bands. */
#define MOST_SLOTS	(SHINGLE_PAGE_BYTES * 8U / 2)

/**
 * struct region - two bands and what is in them
 * @fill: first empty slot of each band; the band that is not open is empty or freed
 * @freed_seq: transaction that freed the other band
 * @inflight: placements not yet committed or aborted
 * @open: band that is written to
 * @stale: perhaps some written slots of the open band are not current
 * @asked: the region was stale when a clean was requested
 */
struct region {
	u32 fill[2];
	u64 freed_seq;
	u32 inflight;
	u8 open;
	bool stale;
	bool asked;
};

/**
 * struct paged - the engine's state
 * @engine: base structure, for core
 * @layout: layout of the device; core owns it
 * @slots: slots of a band
 * @blocks: logical blocks of a region
 * @parts: pages that map the blocks of a region
 * @nr_regions: number of regions
 * @region: the regions
 * @freed: bands that wait for release()
 * @released: region where release() continues
 * @want: region that a write has found full, or NO_REGION
 * @asked: a clean was requested and has not ended
 * @drain: region that accepts no placement until those in flight have ended
 * @stepping: region with a step in progress
 * @moved_blocks: blocks that steps have moved
 */
struct paged {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	u32 slots;
	u32 blocks;
	u32 parts;
	u32 nr_regions;
	struct region *region;
	u32 freed;
	u32 released;
	u32 want;
	bool asked;
	u32 drain;
	u32 stepping;
	u64 moved_blocks;
};

static struct paged *to_paged(const struct shingle_engine *e)
{
	return container_of(e, struct paged, engine);
}

/* ------------------------------------------------------------------------
 * Regions and slots
 */

static u32 blocks_of(const struct shingle_layout *l)
{
	u32 slots = l->band_blocks[SHINGLE_ROLE_DATA];

	return slots - max(slots / 4, 1U);
}

static u32 parts_of(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(blocks_of(l), PAGE_BLOCKS);
}

static u32 regions_of(const struct shingle_layout *l)
{
	return min_t(u64, l->nr_bands[SHINGLE_ROLE_DATA] / 2, S32_MAX);
}

static u64 paged_logical_blocks(const struct shingle_layout *l)
{
	u32 records = shingle_txn_blocks(l) * SHINGLE_JOURNAL_RECORDS / 2;
	u32 slots = l->band_blocks[SHINGLE_ROLE_DATA];

	if (slots < 2 || slots > MOST_SLOTS || blocks_of(l) >= records)
		return 0;
	return (u64)regions_of(l) * blocks_of(l);
}

static u64 paged_nr_pages(const struct shingle_layout *l)
{
	return (u64)regions_of(l) * (1 + parts_of(l));
}

/* Return: the page that records which slots of the region are current. */
static u32 live_page(const struct paged *s, u32 r)
{
	return r * (1 + s->parts);
}

static u32 map_page(const struct paged *s, u64 lblk)
{
	u32 r = div_u64(lblk, s->blocks);

	return live_page(s, r) + 1 + (u32)(lblk - (u64)r * s->blocks) / PAGE_BLOCKS;
}

/* Return: the index of a block in its page. */
static u32 entry_of(const struct paged *s, u64 lblk)
{
	u32 at;

	div_u64_rem(lblk, s->blocks, &at);
	return at % PAGE_BLOCKS;
}

static u64 slot_pblk(const struct paged *s, u32 r, u32 slot)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, 2 * r + slot / s->slots) +
	       slot % s->slots;
}

/* An entry is the slot plus 1; 0 means none. */
static u32 get_entry(const void *page, u32 at)
{
	return le32_to_cpu(((const __le32 *)page)[at]);
}

static bool is_live(const void *page, u32 slot)
{
	return ((const u8 *)page)[slot / 8] >> slot % 8 & 1;
}

static void set_live(void *page, u32 slot, bool live)
{
	u8 *at = (u8 *)page + slot / 8;

	*at = live ? *at | 1 << slot % 8 : *at & ~(1 << slot % 8);
}

/* Move a block from @old to @entry, in both pages. */
static void move(struct paged *s, u64 lblk, u32 entry, u32 old)
{
	u32 page = map_page(s, lblk), live = live_page(s, div_u64(lblk, s->blocks));
	void *bits = shingle_page_held(&s->engine, live);
	__le32 *map = shingle_page_held(&s->engine, page);

	map[entry_of(s, lblk)] = cpu_to_le32(entry);
	if (old)
		set_live(bits, old - 1, false);
	if (entry)
		set_live(bits, entry - 1, true);
	shingle_page_dirty(&s->engine, page);
	shingle_page_dirty(&s->engine, live);
}

/* Hold both pages that a change of the block touches, or none. */
static bool hold_block(struct paged *s, u64 lblk)
{
	u32 live = live_page(s, div_u64(lblk, s->blocks));

	if (!shingle_page_hold(&s->engine, live))
		return false;
	if (shingle_page_hold(&s->engine, map_page(s, lblk)))
		return true;
	shingle_page_put(&s->engine, live);
	return false;
}

static void put_block(struct paged *s, u64 lblk)
{
	shingle_page_put(&s->engine, live_page(s, div_u64(lblk, s->blocks)));
	shingle_page_put(&s->engine, map_page(s, lblk));
}

/* A region with a lost page is never cleaned again. */
static bool is_lost(const struct paged *s, u32 r)
{
	u32 i;

	for (i = 0; i <= s->parts; i++) {
		if (shingle_page_lost(&s->engine, live_page(s, r) + i))
			return true;
	}
	return false;
}

static u32 entry_now(struct paged *s, u64 lblk)
{
	return get_entry(shingle_page_held(&s->engine, map_page(s, lblk)), entry_of(s, lblk));
}

/* ------------------------------------------------------------------------
 * Construction
 */

/* There are no parameters to set at format time. */
static const struct shingle_option paged_params[] = {
	{ }
};

static const struct shingle_option paged_options[] = {
	SHINGLE_OPTION_MAP_CACHE,
	{ }
};

static void paged_destroy(struct shingle_engine *e)
{
	shingle_marks_exit(e);
	kvfree(to_paged(e)->region);
	kvfree(to_paged(e));
}

static int paged_create(struct shingle_engine **out, const struct shingle_layout *layout,
			const char **why)
{
	struct paged *s;

	*why = "paged presents three quarters of every other band, and has nothing but data bands";
	if (layout->interlaced || layout->nr_bands[SHINGLE_ROLE_CACHE] ||
	    layout->nr_bands[SHINGLE_ROLE_STAGING] || !paged_logical_blocks(layout) ||
	    layout->logical_blocks != paged_logical_blocks(layout))
		return -EINVAL;
	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &paged_engine_ops;
	s->nr_regions = regions_of(layout);
	s->region = shingle_zalloc_array(s->nr_regions, sizeof(*s->region));
	if (!s->region || shingle_marks_init(&s->engine, layout)) {
		paged_destroy(&s->engine);
		return -ENOMEM;
	}
	shingle_options_init(paged_options, s);
	s->layout = layout;
	s->slots = layout->band_blocks[SHINGLE_ROLE_DATA];
	s->blocks = blocks_of(layout);
	s->parts = parts_of(layout);
	s->want = NO_REGION;
	s->drain = NO_REGION;
	s->stepping = NO_REGION;
	s->engine.discard_blocks = 1;
	s->engine.step_records = s->blocks + 1;
	s->engine.call_pages = 2;
	s->engine.step_pages = 1 + s->parts;
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * Reads and writes
 */

static void paged_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct paged *s = to_paged(e);
	const void *page = shingle_page(e, map_page(s, lblk));
	u32 r = div_u64(lblk, s->blocks), at = lblk - (u64)r * s->blocks, entry;

	*out = (struct shingle_run){ .lblk = lblk, .n = 1, .kind = SHINGLE_RUN_ZERO };
	if (!page) {
		out->kind = SHINGLE_RUN_ABSENT;
		out->n = min3(n, s->blocks - at, PAGE_BLOCKS - at % PAGE_BLOCKS);
		return;
	}
	entry = get_entry(page, entry_of(s, lblk));
	if (!entry)
		return;
	out->pblk = slot_pblk(s, r, entry - 1);
	out->kind = SHINGLE_RUN_MAPPED;
}

static void mark_region(struct paged *s, u32 r)
{
	shingle_mark(&s->engine, r / PART_REGIONS, 1);
}

static int paged_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		       struct shingle_run *out)
{
	struct paged *s = to_paged(e);
	u32 r = div_u64(lblk, s->blocks);
	struct region *g = &s->region[r];

	if (s->stepping == r || (s->drain == r && g->inflight))
		return -EBUSY;
	if (g->fill[g->open] == s->slots) {
		if (is_lost(s, r))
			return SHINGLE_FULL;
		if (s->want == NO_REGION)
			s->want = r;
		return -ENOSPC;
	}
	if (!hold_block(s, lblk))
		return SHINGLE_ABSENT;
	*out = (struct shingle_run){ .lblk = lblk, .n = 1, .kind = SHINGLE_RUN_MAPPED };
	out->pblk = slot_pblk(s, r, g->open * s->slots + g->fill[g->open]++);
	mark_region(s, r);
	g->inflight++;
	return 0;
}

static u32 slot_at(const struct paged *s, u64 pblk)
{
	enum shingle_role role;
	u64 band, offset;

	if (!shingle_band_of(s->layout, pblk, &role, &band, &offset))
		return 0;
	return (band & 1) * s->slots + offset;
}

static void paged_commit(struct shingle_engine *e, const struct shingle_run *run,
			 struct shingle_emit *emit)
{
	struct paged *s = to_paged(e);
	struct region *g = &s->region[div_u64(run->lblk, s->blocks)];
	u32 old = entry_now(s, run->lblk), slot = slot_at(s, run->pblk);

	move(s, run->lblk, slot + 1, old);
	put_block(s, run->lblk);
	g->stale |= old;
	g->inflight--;
	shingle_emit(emit, PAGED_MAP, 0, old, run->lblk, slot);
}

/* The slot stays used. */
static void paged_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct paged *s = to_paged(e);
	struct region *g = &s->region[div_u64(run->lblk, s->blocks)];

	put_block(s, run->lblk);
	g->stale = true;
	g->inflight--;
}

/* Discard a run of unwritten blocks in the page, or one written block. */
static int paged_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			 struct shingle_emit *emit)
{
	struct paged *s = to_paged(e);
	u32 r = div_u64(lblk, s->blocks), at = lblk - (u64)r * s->blocks, old;
	const void *page;

	if (s->stepping == r)
		return -EBUSY;
	page = shingle_page(e, map_page(s, lblk));
	if (!page)
		return SHINGLE_ABSENT;
	*dropped = true;
	n = min_t(u64, n, min(s->blocks - at, PAGE_BLOCKS - at % PAGE_BLOCKS));
	for (*done = 0; *done < n; (*done)++) {
		if (get_entry(page, at % PAGE_BLOCKS + *done))
			break;
	}
	if (*done)
		return 0;
	if (!hold_block(s, lblk))
		return SHINGLE_ABSENT;
	old = entry_now(s, lblk);
	move(s, lblk, 0, old);
	put_block(s, lblk);
	s->region[r].stale = true;
	shingle_emit(emit, PAGED_DROP, 0, old, lblk, 0);
	*done = 1;
	return 0;
}

/* Every slot ever written counts: recovery may need an older version of a block. */
static bool paged_referenced(struct shingle_engine *e, enum shingle_role role, u64 band,
			     u64 offset, u64 n)
{
	const struct paged *s = to_paged(e);

	/* If the number of bands is odd, the last one is unused. */
	return band / 2 < s->nr_regions && offset < s->region[band / 2].fill[band & 1];
}

/* ------------------------------------------------------------------------
 * Cleaning
 */

/* Hold all pages of a region, or none. */
static bool hold_region(struct paged *s, u32 r)
{
	u32 first = live_page(s, r), i;

	for (i = 0; i <= s->parts; i++) {
		if (shingle_page_hold(&s->engine, first + i))
			continue;
		while (i--)
			shingle_page_put(&s->engine, first + i);
		return false;
	}
	return true;
}

static void put_region(struct paged *s, u32 r)
{
	u32 i;

	for (i = 0; i <= s->parts; i++)
		shingle_page_put(&s->engine, live_page(s, r) + i);
}

/* Return: the slot of the next mapped block from *@at on. All pages must be in memory. */
static u32 next_entry(struct paged *s, u32 r, u32 *at)
{
	for (; *at < s->blocks; (*at)++) {
		u32 entry = entry_now(s, (u64)r * s->blocks + *at);

		if (entry)
			return entry;
	}
	return 0;
}

/* Return: the region to clean next for this reason. */
static u32 victim(struct paged *s, enum shingle_why why)
{
	bool forced = why == SHINGLE_WHY_FORCED;
	u32 r;

	if (why == SHINGLE_WHY_RECOVERY)
		return NO_REGION;
	if (why == SHINGLE_WHY_PRESSURE) {
		r = s->want;
		if (r != NO_REGION && !is_lost(s, r) &&
		    s->region[r].fill[s->region[r].open] == s->slots)
			return r;
		s->want = NO_REGION;
		return NO_REGION;
	}
	/* A requested clean excludes regions that become stale later. */
	for (r = 0; forced && !s->asked && r < s->nr_regions; r++)
		s->region[r].asked = s->region[r].stale;
	s->asked |= forced;
	for (r = 0; r < s->nr_regions; r++) {
		/* A lost region cannot be cleaned. */
		if (s->region[r].stale && is_lost(s, r))
			s->region[r].stale = false;
		if (s->region[r].stale && (s->region[r].asked || !forced))
			return r;
	}
	s->asked &= !forced;
	return NO_REGION;
}

static int paged_next_step(struct shingle_engine *e, enum shingle_why why,
			   struct shingle_step *step)
{
	struct paged *s = to_paged(e);
	struct region *g;
	u32 r, at = 0;

	memset(step, 0, sizeof(*step));
	s->drain = NO_REGION;
	if (s->stepping != NO_REGION)
		return -EAGAIN;
	r = victim(s, why);
	if (r == NO_REGION)
		return 0;
	g = &s->region[r];
	/* Idle cleaning does not make writes wait. */
	if (why != SHINGLE_WHY_IDLE)
		s->drain = r;
	if (g->inflight || g->fill[!g->open])
		return -EAGAIN;
	if (!hold_region(s, r))
		return SHINGLE_ABSENT;
	while (next_entry(s, r, &at)) {
		step->n++;
		at++;
	}
	s->stepping = r;
	s->drain = NO_REGION;
	s->engine.jobs++;
	step->cookie = r;
	step->records = step->n + 1;
	step->scattered = true;
	return 1;
}

/* The upper half of the cursor is the number of blocks moved, the lower half the next index. */
static bool paged_step_extent(struct shingle_engine *e, const struct shingle_step *step,
			      u64 *cursor, struct shingle_extent *out)
{
	struct paged *s = to_paged(e);
	u32 at = *cursor, i = *cursor >> 32, r = step->cookie, entry;

	entry = next_entry(s, r, &at);
	if (!entry)
		return false;
	out->lblk = (u64)r * s->blocks + at;
	out->src = slot_pblk(s, r, entry - 1);
	out->dst = slot_pblk(s, r, !s->region[r].open * s->slots + i);
	out->n = 1;
	*cursor = (u64)(i + 1) << 32 | (at + 1);
	return true;
}

static void paged_step_done(struct shingle_engine *e, const struct shingle_step *step,
			    struct shingle_emit *emit)
{
	struct paged *s = to_paged(e);
	u32 r = step->cookie, at, i = 0, old;
	struct region *g = &s->region[r];

	g->open = !g->open;
	shingle_emit(emit, PAGED_OPEN, 0, 0, r, g->open);
	for (at = 0; (old = next_entry(s, r, &at)); at++, i++) {
		u64 lblk = (u64)r * s->blocks + at;
		u32 slot = g->open * s->slots + i;

		move(s, lblk, slot + 1, old);
		shingle_emit(emit, PAGED_MAP, 0, old, lblk, slot);
	}
	g->fill[g->open] = i;
	g->stale = false;
	g->asked = false;
	g->freed_seq = emit->seq;
	s->freed += g->fill[!g->open] != 0;
	mark_region(s, r);
	put_region(s, r);
	s->stepping = NO_REGION;
	if (s->want == r)
		s->want = NO_REGION;
	s->moved_blocks += i;
}

static bool paged_step_failed(struct shingle_engine *e, const struct shingle_step *step,
			      const struct shingle_unwritten *bad)
{
	struct paged *s = to_paged(e);

	put_region(s, s->stepping);
	s->stepping = NO_REGION;
	return false;
}

static bool paged_release(struct shingle_engine *e, u64 seq)
{
	struct paged *s = to_paged(e);
	u32 end = min(s->nr_regions, s->released + SHINGLE_WALK);

	for (; s->freed && s->released < end; s->released++) {
		struct region *g = &s->region[s->released];

		if (!g->fill[!g->open] || g->freed_seq > seq)
			continue;
		g->fill[!g->open] = 0;
		s->freed--;
	}
	if (s->freed && s->released < s->nr_regions)
		return true;
	s->released = 0;
	return false;
}

static bool paged_pending(struct shingle_engine *e)
{
	return to_paged(e)->freed;
}

/* ------------------------------------------------------------------------
 * Checkpoints and recovery
 */

static u64 nr_region_parts(const struct shingle_layout *l)
{
	return DIV_ROUND_UP(regions_of(l), PART_REGIONS);
}

/* Encode the open band and its fill for each region. */
static u32 encode_regions(struct shingle_engine *e, u32 at, void *buf)
{
	struct paged *s = to_paged(e);
	u32 first = at * PART_REGIONS, n = min(s->nr_regions - first, PART_REGIONS), i;
	bool any = false;
	__le32 *p = buf;

	for (i = 0; i < n; i++) {
		const struct region *g = &s->region[first + i];

		p[2 * i] = cpu_to_le32(g->open);
		p[2 * i + 1] = cpu_to_le32(g->fill[g->open]);
		any |= g->open || g->fill[0];
	}
	return any ? 2 * n * sizeof(*p) : 0;
}

static int decode_regions(struct shingle_engine *e, u32 at, const void *buf, u32 bytes)
{
	struct paged *s = to_paged(e);
	u32 first = at * PART_REGIONS, n = min(s->nr_regions - first, PART_REGIONS), i;
	const __le32 *p = buf;

	if (bytes != 2 * n * sizeof(*p))
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		struct region *g = &s->region[first + i];
		u32 open = le32_to_cpu(p[2 * i]), fill = le32_to_cpu(p[2 * i + 1]);

		if (open > 1 || fill > s->slots)
			return -EUCLEAN;
		g->open = open;
		g->fill[open] = fill;
	}
	return 0;
}

static const struct shingle_piece_kind paged_pieces[] = {
	{ nr_region_parts, encode_regions, decode_regions },
	{ }
};

static bool makes_sense(const struct paged *s, u64 lblk, u64 slot, u32 old)
{
	return lblk < s->layout->logical_blocks && slot < 2 * s->slots && old <= 2 * s->slots;
}

static int replay_map(struct shingle_engine *e, u64 lblk, u64 slot, u32 n, u32 old)
{
	struct paged *s = to_paged(e);
	u32 at = slot, *fill;

	if (!makes_sense(s, lblk, slot, old))
		return -EUCLEAN;
	if (!hold_block(s, lblk))
		return SHINGLE_ABSENT;
	move(s, lblk, at + 1, old);
	put_block(s, lblk);
	fill = &s->region[div_u64(lblk, s->blocks)].fill[at / s->slots];
	*fill = max(*fill, at % s->slots + 1);
	return 0;
}

static int replay_drop(struct shingle_engine *e, u64 lblk, u64 b, u32 n, u32 old)
{
	struct paged *s = to_paged(e);

	if (!makes_sense(s, lblk, 0, old))
		return -EUCLEAN;
	if (!hold_block(s, lblk))
		return SHINGLE_ABSENT;
	move(s, lblk, 0, old);
	put_block(s, lblk);
	return 0;
}

static int replay_open(struct shingle_engine *e, u64 region, u64 band, u32 n, u32 c)
{
	struct paged *s = to_paged(e);

	if (region >= s->nr_regions || band > 1)
		return -EUCLEAN;
	s->region[region].open = band;
	s->region[region].fill[band] = 0;
	return 0;
}

static const struct shingle_record_kind paged_records[] = {
	{ PAGED_MAP, "MAP", NULL, "lblk", "slot", "was", replay_map },
	{ PAGED_DROP, "DROP", NULL, "lblk", NULL, "was", replay_drop },
	{ PAGED_OPEN, "OPEN", NULL, "region", "band", NULL, replay_open },
	{ }
};

static int paged_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	return shingle_record_replay(paged_records, e, rec);
}

static int paged_ready(struct shingle_engine *e, const char **why)
{
	struct paged *s = to_paged(e);
	u32 r;

	for (r = 0; r < s->nr_regions; r++) {
		struct region *g = &s->region[r];

		/* No entry points to the other band: it was free, or could have been. */
		g->fill[!g->open] = 0;
		g->stale = g->fill[g->open];
	}
	return 0;
}

/* ------------------------------------------------------------------------
 * Pages
 */

static int paged_check(const struct shingle_engine *e, u32 nr, const void *page)
{
	const struct paged *s = to_paged(e);
	u32 r = nr / (1 + s->parts), part = nr - live_page(s, r), used, n, i;

	/* Everything behind the last slot or block is zero. */
	if (!part) {
		for (i = 2 * s->slots; i % 8; i++) {
			if (is_live(page, i))
				return -EUCLEAN;
		}
		used = i / 8;
	} else {
		n = min(s->blocks - (part - 1) * PAGE_BLOCKS, PAGE_BLOCKS);
		for (i = 0; i < n; i++) {
			if (get_entry(page, i) > 2 * s->slots)
				return -EUCLEAN;
		}
		used = n * sizeof(__le32);
	}
	return memchr_inv(page + used, 0, SHINGLE_PAGE_BYTES - used) ? -EUCLEAN : 0;
}

static void paged_blocks(const struct shingle_engine *e, u32 nr, u64 *lblk, u64 *n)
{
	const struct paged *s = to_paged(e);
	u32 r = nr / (1 + s->parts), part = nr - live_page(s, r), first;

	/* Without the page of current slots no block of the region can be written. */
	first = part ? (part - 1) * PAGE_BLOCKS : 0;
	*lblk = (u64)r * s->blocks + first;
	*n = part ? min(s->blocks - first, PAGE_BLOCKS) : s->blocks;
}

/* ------------------------------------------------------------------------
 * Verification and counters
 */

static u32 verify_region(struct paged *s, u32 r, shingle_report_fn report, void *ctx)
{
	const struct region *g = &s->region[r];
	const void *bits = shingle_page(&s->engine, live_page(s, r)), *map = NULL;
	u32 at, i, entries = 0, live = 0, bad = 0;

	for (at = 0; at < s->blocks; at++) {
		u64 lblk = (u64)r * s->blocks + at;
		u32 entry;

		if (!(at % PAGE_BLOCKS))
			map = shingle_page(&s->engine, map_page(s, lblk));
		entry = get_entry(map, at % PAGE_BLOCKS);
		if (!entry)
			continue;
		entries++;
		entry--;
		if (entry / s->slots == g->open && entry % s->slots < g->fill[g->open] &&
		    is_live(bits, entry))
			continue;
		report(ctx, "block %llu is in slot %u, which is not current",
		       (unsigned long long)lblk, entry);
		bad++;
	}
	for (i = 0; i < 2 * s->slots; i++)
		live += is_live(bits, i);
	if (live == entries)
		return bad;
	report(ctx, "region %u has %u blocks in %u slots", r, entries, live);
	return bad + 1;
}

/* Verify one region in each call. */
static u32 paged_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx)
{
	struct paged *s = to_paged(e);
	u32 r = *cursor, bad = 0, i;

	if (r < s->nr_regions && !is_lost(s, r)) {
		for (i = 0; i <= s->parts; i++) {
			if (!shingle_page(e, live_page(s, r) + i))
				return 0;
		}
		bad = verify_region(s, r, report, ctx);
	}
	*cursor = r + 1 < s->nr_regions ? r + 1 : SHINGLE_NOWHERE;
	return bad;
}

static const struct shingle_counter paged_counters[] = {
	SHINGLE_COUNTER("moved_blocks", struct paged, moved_blocks, COUNT),
	{ }
};

static u64 paged_map_bytes(struct shingle_engine *e)
{
	return to_paged(e)->nr_regions * sizeof(struct region);
}

/* Blocks have no home in this engine, so none is cached. */
static u64 paged_cached_blocks(struct shingle_engine *e)
{
	return 0;
}

const struct shingle_engine_ops paged_engine_ops = {
	.name = "paged",
	.commit_records = 1,
	.step_records = 1,
	.step_kinds = { "move" },
	.discard_records = 1,
	.options = paged_options,
	.params = paged_params,
	.counters = paged_counters,
	.records = paged_records,
	.logical_blocks = paged_logical_blocks,
	.create = paged_create,
	.destroy = paged_destroy,
	.map = {
		.resolve = paged_resolve,
		.place = paged_place,
		.commit = paged_commit,
		.abort = paged_abort,
		.discard = paged_discard,
		.referenced = paged_referenced,
	},
	.clean = {
		.next_step = paged_next_step,
		.step_extent = paged_step_extent,
		.step_done = paged_step_done,
		.step_failed = paged_step_failed,
		.release = paged_release,
		.pending = paged_pending,
	},
	.state = {
		.pieces = paged_pieces,
		.replay = paged_replay,
		.ready = paged_ready,
	},
	.pages = {
		.nr_pages = paged_nr_pages,
		.check = paged_check,
		.blocks = paged_blocks,
	},
	.observe = {
		.verify = paged_verify,
		.map_bytes = paged_map_bytes,
		.cached_blocks = paged_cached_blocks,
	},
};
EXPORT_SYMBOL_GPL(paged_engine_ops);
