// SPDX-License-Identifier: GPL-2.0
/*
 * Tiler's static map (Ma 2019, section 3.3.2) and the places of a slot's cells: see
 * tiler-map.h.
 */
#include "tiler-map.h"

static int shape_of(const struct tiler_zones *z, u32 skew, struct tiler_shape *shape,
		    const char **why)
{
	u64 blocks;

	memset(shape, 0, sizeof(*shape));
	shape->rows = z->rows;
	shape->columns = z->columns ?: z->track_blocks;
	shape->head_tracks = z->head_tracks;
	shape->track_blocks = z->track_blocks;
	if (shape->columns == z->track_blocks)
		shape->turn = skew;
	else
		shape->skew = skew;
	shape->lazy = true;
	blocks = (u64)shape->rows * shape->columns;
	/* At least one block, whatever over-provisioning is requested. */
	shape->logical_blocks = clamp_t(u64, blocks - div_u64(blocks * z->over_permille, 1000),
					1, U32_MAX);
	return tiler_shape_check(shape, why);
}

/**
 * tiler_map_add() - add consecutive zones
 * @m: the map
 * @z: the zones; they follow the zones already in the map and have tracks of one length and
 *	skew
 * @why: on error, a sentence that says what is wrong
 *
 * The zones may span several runs of tracks.  The head does not reach from one run into
 * another, and the starting angle of a row matters only relative to the rows of its own
 * run.
 *
 * Context: any.
 * Return: 0; -EINVAL; or -ENOSPC if all their slots would be spare.
 */
int tiler_map_add(struct tiler_map *m, const struct tiler_zones *z, const char **why)
{
	struct tiler_stretch *st = &m->stretch[m->nr];
	u32 skew = z->skew_units / SHINGLE_SUB_UNITS;
	u64 slots, zone_tracks = (u64)z->rows + z->head_tracks - 1;

	*why = NULL;
	if (m->nr == m->max)
		*why = "tracks change their length too often for regions";
	else if (!z->track_blocks || z->track_blocks > PLATTER_MAX_TRACK_BLOCKS || !z->nr)
		*why = "zones have tracks of 1 to 65536 blocks";
	else if (z->head_tracks > 1 && z->skew_units % SHINGLE_SUB_UNITS)
		*why = "regions need a skew of whole blocks from track to track";
	else if (z->columns > z->track_blocks)
		*why = "a region is wider than a track";
	if (*why || shape_of(z, skew % z->track_blocks, &st->shape, why))
		return -EINVAL;
	st->start = z->start;
	st->track_blocks = z->track_blocks;
	st->skew = skew % z->track_blocks;
	st->zone_blocks = zone_tracks * z->track_blocks;
	if (z->stride)
		st->zone_blocks = z->stride;
	st->first_zone = z->first;
	st->nr_zones = z->nr;
	st->slots = z->track_blocks / st->shape.columns;
	slots = (u64)st->slots * z->nr;
	st->pages = tiler_pages(&st->shape);
	*why = "zones have more slots than a device can have";
	if (slots >= S32_MAX - m->nr_slots || slots * st->pages > S32_MAX - m->nr_pages)
		return -EINVAL;
	*why = "zones have no slots but spare ones";
	if (z->spares >= slots)
		return -ENOSPC;
	st->nr_slots = slots;
	st->nr_regions = slots - z->spares;
	st->first_region = m->nr_regions;
	st->first_slot = m->nr_slots;
	st->first_lblk = m->logical_blocks;
	st->first_page = m->nr_pages;
	m->nr++;
	m->nr_regions += st->nr_regions;
	m->nr_slots += st->nr_slots;
	m->nr_pages += slots * st->pages;
	m->logical_blocks += (u64)st->nr_regions * st->shape.logical_blocks;
	return 0;
}

static u64 first_lblk(const struct tiler_stretch *st)
{
	return st->first_lblk;
}

static u64 first_region(const struct tiler_stretch *st)
{
	return st->first_region;
}

static u64 first_slot(const struct tiler_stretch *st)
{
	return st->first_slot;
}

static u64 first_page(const struct tiler_stretch *st)
{
	return st->first_page;
}

static u64 first_zone(const struct tiler_stretch *st)
{
	return st->first_zone;
}

/* The last stretch that begins at or before @at. */
static __always_inline const struct tiler_stretch *
stretch_at(const struct tiler_map *m, u64 at, u64 (*first)(const struct tiler_stretch *st))
{
	u32 low = 0, high = m->nr;

	while (high - low > 1) {
		u32 mid = (low + high) / 2;

		if (at >= first(&m->stretch[mid]))
			low = mid;
		else
			high = mid;
	}
	return &m->stretch[low];
}

/**
 * tiler_map_home() - find the region of a logical block
 * @m: the map
 * @lblk: a logical block of the map
 *
 * Algorithm 1, line 1.
 *
 * Context: any; O(log stretches).
 * Return: the stretch, the region and the L-ARO.
 */
struct tiler_home tiler_map_home(const struct tiler_map *m, u64 lblk)
{
	struct tiler_home home = { .stretch = stretch_at(m, lblk, first_lblk) };

	home.region = home.stretch->first_region +
		      div_u64_rem(lblk - home.stretch->first_lblk,
				  home.stretch->shape.logical_blocks, &home.laro);
	return home;
}

/**
 * tiler_map_region() - find the stretch of a region
 * @m: the map
 * @region: number of the region
 *
 * Context: any; O(log stretches).
 * Return: the stretch.
 */
const struct tiler_stretch *tiler_map_region(const struct tiler_map *m, u32 region)
{
	return stretch_at(m, region, first_region);
}

/**
 * tiler_map_slot() - find the stretch of a slot
 * @m: the map
 * @slot: number of the slot
 *
 * Context: any; O(log stretches).
 * Return: the stretch.
 */
const struct tiler_stretch *tiler_map_slot(const struct tiler_map *m, u32 slot)
{
	return stretch_at(m, slot, first_slot);
}

/**
 * tiler_map_zone() - find the stretch of a zone
 * @m: the map
 * @zone: its number
 *
 * Context: any; O(log stretches).
 * Return: the stretch, or NULL if the zone belongs to none.
 */
const struct tiler_stretch *tiler_map_zone(const struct tiler_map *m, u64 zone)
{
	const struct tiler_stretch *st = stretch_at(m, zone, first_zone);

	return zone - st->first_zone < st->nr_zones ? st : NULL;
}

/**
 * tiler_map_page() - find the slot of a page of the map
 * @m: the map
 * @nr: number of the page
 * @slot: result
 * @page: result: index of the page within the slot's map
 *
 * Context: any; O(log stretches).
 * Return: the stretch.
 */
const struct tiler_stretch *tiler_map_page(const struct tiler_map *m, u32 nr, u32 *slot, u32 *page)
{
	const struct tiler_stretch *st = stretch_at(m, nr, first_page);

	nr -= st->first_page;
	*slot = st->first_slot + nr / st->pages;
	*page = nr % st->pages;
	return st;
}

/* Blocks by which row @row of a zone begins later than its first one. */
static u32 turned(const struct tiler_stretch *st, u32 row)
{
	u32 rest;

	div_u64_rem((u64)row * st->skew, st->track_blocks, &rest);
	return rest;
}

/**
 * tiler_map_block() - find the block of the medium for a place
 * @st: stretch of the slot
 * @slot: number of the slot
 * @paro: the place
 * @n: in: most places wanted; out: places from @paro on that are contiguous in one row
 *
 * Context: any.
 * Return: the block.
 */
u64 tiler_map_block(const struct tiler_stretch *st, u32 slot, u32 paro, u32 *n)
{
	u32 zone = (slot - st->first_slot) / st->slots, comb = (slot - st->first_slot) % st->slots;
	u32 row = paro / st->shape.columns;
	u32 column = comb * st->shape.columns + tiler_cell(&st->shape, paro) % st->shape.columns;
	u32 index = column + st->track_blocks - turned(st, row);

	if (index >= st->track_blocks)
		index -= st->track_blocks;
	*n = min3(*n, tiler_row_rest(&st->shape, paro), st->track_blocks - index);
	return st->start + zone * st->zone_blocks + (u64)row * st->track_blocks + index;
}

/**
 * tiler_map_place() - find the place of a block of the medium
 * @st: a stretch
 * @block: the block
 * @slot: result
 * @paro: result
 *
 * Context: any.
 * Return: false if the block is not a place: after the last row of a zone, in a column of
 *	no slot, or outside of all zones.
 */
bool tiler_map_place(const struct tiler_stretch *st, u64 block, u32 *slot, u32 *paro)
{
	u64 zone, offset, row;
	u32 index, column, comb;

	if (block < st->start)
		return false;
	zone = div64_u64_rem(block - st->start, st->zone_blocks, &offset);
	row = div_u64_rem(offset, st->track_blocks, &index);
	if (zone >= st->nr_zones || row >= st->shape.rows)
		return false;
	column = index + turned(st, row);
	if (column >= st->track_blocks)
		column -= st->track_blocks;
	comb = column / st->shape.columns;
	*slot = st->first_slot + zone * st->slots + comb;
	*paro = tiler_paro(&st->shape, row * st->shape.columns + column % st->shape.columns);
	return comb < st->slots;
}
