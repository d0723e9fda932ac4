// SPDX-License-Identifier: GPL-2.0
/*
 * The regions in memory.  Pure code; see tiler-state.h.
 *
 * A region is loaded page by page; while it is being loaded it cannot change.  It may be
 * evicted when it has no writes or steps in flight and waits for no release; the least
 * recently used goes first.  A request does not evict a region that another one is loading.
 * Two clients may do so: the oldest waiting write and the cleaner.  But neither evicts the
 * region that the other is loading; otherwise both would begin again and again while no
 * other region can be evicted.
 */
#include "tiler-state.h"

/* ------------------------------------------------------------------------
 * The LRU list and the pool
 */

static void lru_add(struct tiler *s, u32 i)
{
	struct tiler_resident *res = &s->pool.list[i];

	res->before = NO_RESIDENT;
	res->after = s->pool.newest;
	if (s->pool.newest != NO_RESIDENT)
		s->pool.list[s->pool.newest].before = i;
	else
		s->pool.oldest = i;
	s->pool.newest = i;
}

static void lru_remove(struct tiler *s, u32 i)
{
	struct tiler_resident *res = &s->pool.list[i];

	if (res->before != NO_RESIDENT)
		s->pool.list[res->before].after = res->after;
	else
		s->pool.newest = res->after;
	if (res->after != NO_RESIDENT)
		s->pool.list[res->after].before = res->before;
	else
		s->pool.oldest = res->before;
}

static void lru_touch(struct tiler *s, u32 i)
{
	if (s->pool.newest == i)
		return;
	lru_remove(s, i);
	lru_add(s, i);
}

static u32 most_blocks(const struct tiler *s)
{
	u32 most = 0, i;

	for (i = 0; i < s->map.nr; i++)
		most = max(most, tiler_blocks(&s->map.stretch[i].shape));
	return most;
}

static size_t bitmap_longs(const struct tiler *s)
{
	return BITS_TO_LONGS(most_blocks(s));
}

static int make_bitmaps(struct tiler *s, struct tiler_slot *slot)
{
	size_t longs = bitmap_longs(s);
	unsigned long *bits = shingle_zalloc_array(3 * longs, sizeof(*bits));

	slot->taken = bits;
	if (!bits)
		return -ENOMEM;
	slot->pins[0].cells = bits + longs;
	slot->pins[1].cells = bits + 2 * longs;
	return 0;
}

/* Slots exchange their bitmaps, but the bitmaps of one slot are always one allocation. */
static void free_bitmaps(struct tiler_slot *slot)
{
	kvfree(slot->taken);
}

static u32 nr_wanted(const struct tiler *s)
{
	return min(s->pool.max, max(s->map.nr_regions, TILER_MIN_RESIDENTS));
}

/**
 * tiler_residents_create() - allocate the pool
 * @s: the engine, with its options set
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int tiler_residents_create(struct tiler *s)
{
	u32 nr = nr_wanted(s), i;

	s->pool.newest = NO_RESIDENT;
	s->pool.oldest = NO_RESIDENT;
	memset(s->pool.loading, 0xff, sizeof(s->pool.loading));
	s->pool.list = shingle_zalloc_array(nr, sizeof(*s->pool.list));
	if (!s->pool.list || make_bitmaps(s, &s->to_slot))
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		if (make_bitmaps(s, &s->pool.list[i].slot))
			return -ENOMEM;
		s->pool.nr++;
		s->pool.list[i].region = NO_REGION;
		lru_add(s, i);
	}
	return 0;
}

/**
 * tiler_residents_destroy() - undo tiler_residents_create()
 * @s: the engine
 *
 * Context: may sleep.
 */
void tiler_residents_destroy(struct tiler *s)
{
	u32 i;

	for (i = 0; i < s->pool.nr; i++)
		free_bitmaps(&s->pool.list[i].slot);
	free_bitmaps(&s->to_slot);
	kvfree(s->pool.list);
}

/**
 * tiler_residents_bytes() - RAM that the pool uses or will use
 * @s: the engine, with its options set
 *
 * Context: any.
 * Return: bytes.
 */
u64 tiler_residents_bytes(const struct tiler *s)
{
	u64 nr = nr_wanted(s);

	return nr * sizeof(*s->pool.list) + 3 * (nr + 1) * bitmap_longs(s) * sizeof(long);
}

/* ------------------------------------------------------------------------
 * Loading and evicting
 */

/**
 * tiler_page_look() - point a slot to the page of its map with an L-ARO
 * @s: the engine
 * @slot: the slot
 * @shape: its kind
 * @laro: the L-ARO
 *
 * Context: map lock; valid during one call.
 * Return: true if the page is present.
 */
bool tiler_page_look(struct tiler *s, struct tiler_slot *slot, const struct tiler_shape *shape,
		     u32 laro)
{
	u32 nr = tiler_map_page_of(tiler_stretch_of(shape), slot->number, laro);
	const void *page = shingle_page(&s->engine, nr);

	/* The page is only read; the cast removes const. */
	slot->page[laro / TILER_PAGE_ENTRIES] = (__le16 *)page;
	return page;
}

/**
 * tiler_slot_lost() - test whether a page of a slot's map is lost for good
 * @s: the engine
 * @st: stretch of the slot
 * @slot: its number
 *
 * Context: map lock.
 * Return: true if a page is lost.
 */
bool tiler_slot_lost(struct tiler *s, const struct tiler_stretch *st, u32 slot)
{
	u32 i;

	for (i = 0; i < st->pages; i++) {
		if (shingle_page_lost(&s->engine, tiler_map_page_of(st, slot, 0) + i))
			return true;
	}
	return false;
}

/**
 * tiler_region_lost() - test whether a page of a region's map is lost for good
 * @s: the engine
 * @region: number of the region
 *
 * Context: map lock.
 * Return: true if a page is lost.
 */
bool tiler_region_lost(struct tiler *s, u32 region)
{
	const struct tiler_stretch *st = tiler_map_region(&s->map, region);

	return tiler_slot_lost(s, st, s->at[region]) ||
	       (s->to[region] != NO_SLOT && tiler_slot_lost(s, st, s->to[region]));
}

/*
 * Request the lost page, so that core reports the loss.  Request no other page: the frames
 * may not suffice for all pages before the lost one.
 */
static int ask_for_lost(struct tiler *s, u32 region)
{
	const struct tiler_stretch *st = tiler_map_region(&s->map, region);
	const u32 slot[] = { s->at[region], s->to[region] };
	u32 i;

	for (i = 0; i < 2 * st->pages; i++) {
		u32 nr = tiler_map_page_of(st, slot[i % 2], 0) + i / 2;

		if (shingle_page_lost(&s->engine, nr) && !shingle_page(&s->engine, nr))
			break;
	}
	return SHINGLE_ABSENT;
}

/* Is another client loading this resident? */
static bool is_for_another(const struct tiler *s, u32 i)
{
	u32 client;

	for (client = 0; client < SHINGLE_NR_CLIENTS; client++) {
		if (client != s->engine.pages->call.client && s->pool.loading[client] == i)
			return true;
	}
	return false;
}

static bool may_go(const struct tiler *s, u32 i)
{
	const struct tiler_resident *res = &s->pool.list[i];

	if (res->region == NO_REGION)
		return true;
	if (!res->loaded)
		return s->engine.pages->call.client != SHINGLE_CLIENT_FAST && !is_for_another(s, i);
	return res->region != s->cleaning && res != s->drained && !res->pending &&
	       tiler_is_idle(&res->r);
}

/* Take a resident that may be evicted, or return NO_RESIDENT. */
static u32 take_one(struct tiler *s)
{
	u32 looks = min(s->pool.nr, SHINGLE_WALK), i;

	for (; looks; looks--) {
		i = s->pool.oldest;
		lru_touch(s, i);
		if (!may_go(s, i))
			continue;
		if (s->pool.list[i].region != NO_REGION)
			s->in_memory[s->pool.list[i].region] = NO_RESIDENT;
		return i;
	}
	return NO_RESIDENT;
}

static void init_slot(const struct tiler_stretch *st, struct tiler_slot *slot, u32 number)
{
	slot->number = number;
	slot->column = tiler_map_column(st, number);
	tiler_slot_init(&st->shape, slot);
}

/* From now on the current client loads this resident, if it is one that waits. */
static void begin_for(struct tiler *s, u32 i)
{
	enum shingle_page_client client = s->engine.pages->call.client;
	u32 k;

	for (k = 0; k < SHINGLE_NR_CLIENTS; k++) {
		if (s->pool.loading[k] == i)
			s->pool.loading[k] = NO_RESIDENT;
	}
	if (client != SHINGLE_CLIENT_FAST)
		s->pool.loading[client] = i;
}

static void begin_load(struct tiler *s, u32 i, u32 region)
{
	const struct tiler_stretch *st = tiler_map_region(&s->map, region);
	struct tiler_resident *res = &s->pool.list[i];

	begin_for(s, i);
	memset(&res->r, 0, sizeof(res->r));
	res->r.shape = &st->shape;
	res->r.count = &s->count;
	res->r.at = &res->slot;
	init_slot(st, &res->slot, s->at[region]);
	if (s->to[region] != NO_SLOT) {
		res->r.to = &s->to_slot;
		init_slot(st, &s->to_slot, s->to[region]);
	}
	res->region = region;
	res->pages = 0;
	res->loaded = false;
	res->broken = false;
	res->immovable = false;
	res->asked = false;
	res->pending = false;
	s->in_memory[region] = i;
	s->loads++;
}

/* A page that was never written has no entries. */
static bool page_is_empty(const struct tiler *s, const struct tiler_slot *slot, u32 page)
{
	return !slot || (const u8 *)slot->page[page] == s->engine.pages->zeroes;
}

/**
 * tiler_pages_ahead() - a page of a slot's map is absent; request those after it as well
 * @s: the engine
 * @st: stretch of the slot
 * @slot: its number
 * @page: index of the page within the slot's map
 *
 * Context: map lock, in an operation that may return SHINGLE_ABSENT.
 */
void tiler_pages_ahead(struct tiler *s, const struct tiler_stretch *st, u32 slot, u32 page)
{
	shingle_pages_ahead(&s->engine, tiler_map_page_of(st, slot, 0) + page, st->pages - page);
}

static int load(struct tiler *s, struct tiler_resident *res)
{
	struct tiler_region *r = &res->r;
	const struct tiler_stretch *st = tiler_stretch_of(r->shape);
	u32 pages = tiler_pages(r->shape), looks = 0;
	const char *why;
	int err = 0;

	for (; !err && res->pages < pages; res->pages++) {
		u32 page = res->pages, laro = page * TILER_PAGE_ENTRIES;

		if (!tiler_page_look(s, r->at, r->shape, laro)) {
			tiler_pages_ahead(s, st, r->at->number, page);
			return SHINGLE_ABSENT;
		}
		if (r->to && !tiler_page_look(s, r->to, r->shape, laro)) {
			tiler_pages_ahead(s, st, r->to->number, page);
			return SHINGLE_ABSENT;
		}
		if (page_is_empty(s, r->at, page) && page_is_empty(s, r->to, page))
			continue;
		if (looks++ == TILER_CALL_PAGES) {
			const struct tiler_slot *slot = page_is_empty(s, r->at, page) ? r->to :
										       r->at;

			shingle_page_again(&s->engine, tiler_map_page_of(st, slot->number, laro));
			return SHINGLE_ABSENT;
		}
		err = tiler_region_add_page(r, page);
	}
	res->loaded = true;
	res->broken = err || tiler_region_ready(r, &why);
	return 0;
}

/**
 * tiler_resident() - get a region into memory
 * @s: the engine
 * @region: number of the region
 * @out: result
 *
 * Context: map lock.
 * Return: 0; SHINGLE_ABSENT; -EBUSY: wait for the end of a write, a step or a release;
 *	-ENOSPC: wait for the end of the current clean; SHINGLE_FULL: the region's map
 *	contradicts itself.
 */
int tiler_resident(struct tiler *s, u32 region, struct tiler_resident **out)
{
	u32 i = s->in_memory[region];
	struct tiler_resident *res;
	int err;

	if (i == NO_RESIDENT) {
		if (s->to[region] != NO_SLOT && region != s->cleaning) {
			if (tiler_region_lost(s, region))
				return ask_for_lost(s, region);
			if (s->cleaning != NO_REGION)
				return s->stuck ? SHINGLE_FULL : -ENOSPC;
			s->cleaning = region;
		}
		i = take_one(s);
		if (i == NO_RESIDENT)
			return -EBUSY;
		begin_load(s, i, region);
	}
	lru_touch(s, i);
	res = &s->pool.list[i];
	if (!res->loaded) {
		err = load(s, res);
		if (err)
			return err;
	}
	*out = res;
	return res->broken ? SHINGLE_FULL : 0;
}

/**
 * tiler_update_pending() - update whether a region waits for a release
 * @s: the engine
 * @res: the region, after a change
 *
 * Context: map lock.
 */
void tiler_update_pending(struct tiler *s, struct tiler_resident *res)
{
	bool pending = tiler_pending(&res->r);

	s->pool.nr_pending += pending - res->pending;
	res->pending = pending;
}

/* ------------------------------------------------------------------------
 * Holding pages
 */

static u32 page_of(const struct tiler_region *r, const struct tiler_slot *slot, u32 laro)
{
	return tiler_map_page_of(tiler_stretch_of(r->shape), slot->number, laro);
}

/**
 * tiler_hold() - hold the pages that a change of an L-ARO needs
 * @s: the engine
 * @r: the region
 * @laro: the L-ARO
 *
 * If the region is being moved these are pages of both slots; @r->to must not change until
 * tiler_put().
 *
 * Context: map lock.
 * Return: false if a page is absent; then none is held.
 */
bool tiler_hold(struct tiler *s, struct tiler_region *r, u32 laro)
{
	if (!shingle_page_hold(&s->engine, page_of(r, r->at, laro)))
		return false;
	if (!r->to || shingle_page_hold(&s->engine, page_of(r, r->to, laro)))
		return true;
	shingle_page_put(&s->engine, page_of(r, r->at, laro));
	return false;
}

static void bind_slot(struct tiler *s, struct tiler_region *r, struct tiler_slot *slot, u32 laro)
{
	slot->page[laro / TILER_PAGE_ENTRIES] = shingle_page_held(&s->engine,
								  page_of(r, slot, laro));
}

/**
 * tiler_bind() - point a region to the pages held for an L-ARO
 * @s: the engine
 * @r: the region
 * @laro: the L-ARO
 *
 * Context: map lock; valid during one call.
 */
void tiler_bind(struct tiler *s, struct tiler_region *r, u32 laro)
{
	bind_slot(s, r, r->at, laro);
	if (r->to)
		bind_slot(s, r, r->to, laro);
}

static void put_slot(struct tiler *s, struct tiler_region *r, struct tiler_slot *slot, u32 laro)
{
	if (slot->changed)
		shingle_page_dirty(&s->engine, page_of(r, slot, laro));
	slot->changed = 0;
	shingle_page_put(&s->engine, page_of(r, slot, laro));
}

/**
 * tiler_put() - undo tiler_hold()
 * @s: the engine
 * @r: the region
 * @laro: the L-ARO
 *
 * Context: map lock, in the same call as any change of the pages.
 */
void tiler_put(struct tiler *s, struct tiler_region *r, u32 laro)
{
	put_slot(s, r, r->at, laro);
	if (r->to)
		put_slot(s, r, r->to, laro);
}
