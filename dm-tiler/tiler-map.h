/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tiler's static map: from logical block to region and L-ARO, and from slot and P-ARO to a block of
 * the medium; tiler-region.h defines L-ARO and P-ARO.  Pure code.  The map is computed; RAM holds
 * only one entry per stretch.
 *
 * A zone is M tracks followed by k - 1 empty tracks, where k is the width of the head in tracks.
 * Slots lie side by side in a zone; each has S columns.  A column is an angle: on the track t of
 * the zone it has the block (column - t * skew) mod track length.  So a head that writes in a slot
 * covers only blocks of the same slot.  Columns that remain and are too few for another slot are
 * not used.
 *
 * A stretch is a sequence of consecutive zones of one kind.  Its regions have consecutive
 * numbers.  Each region is in one of the stretch's slots, of which there are a few more than
 * regions.
 */
#ifndef SHINGLE_TILER_MAP_H
#define SHINGLE_TILER_MAP_H

#include "tiler-region.h"

/**
 * struct tiler_stretch - zones of one kind, at equal distances
 * @shape: shape of its regions
 * @start: first block of the first zone
 * @track_blocks: blocks on each track
 * @skew: blocks by which each track begins later than the one before it
 * @zone_blocks: distance between the starts of zones
 * @first_zone: number of the first zone
 * @nr_zones: number of zones
 * @slots: slots in each zone
 * @nr_slots: slots in all zones
 * @nr_regions: number of regions; @nr_slots less the spare slots
 * @first_region: number of its first region
 * @first_slot: number of its first slot
 * @first_lblk: first logical block of the first region
 * @pages: pages in the map of each slot
 * @first_page: number of the first page of the first slot's map
 */
struct tiler_stretch {
	struct tiler_shape shape;
	u64 start;
	u32 track_blocks;
	u32 skew;
	u64 zone_blocks;
	u32 first_zone;
	u32 nr_zones;
	u32 slots;
	u32 nr_slots;
	u32 nr_regions;
	u32 first_region;
	u32 first_slot;
	u64 first_lblk;
	u32 pages;
	u64 first_page;
};

/**
 * struct tiler_map - all stretches of a device
 * @stretch: array of the caller, with @max entries
 * @max: most stretches
 * @nr: number of stretches
 * @nr_regions: regions in all stretches
 * @nr_slots: slots in all stretches
 * @logical_blocks: logical blocks of all regions
 * @nr_pages: pages in the maps of all slots
 */
struct tiler_map {
	struct tiler_stretch *stretch;
	u32 max;
	u32 nr;
	u32 nr_regions;
	u32 nr_slots;
	u64 logical_blocks;
	u64 nr_pages;
};

/**
 * struct tiler_zones - zones to be added to a map
 * @start: first block of the first zone
 * @track_blocks: blocks on a track
 * @skew_units: skew from each track to the next, in angular units of the medium
 * @stride: blocks from the start of a zone to that of the next; 0: zones follow without a
 *	gap
 * @first: number of the first zone
 * @nr: number of zones
 * @rows: tracks of each zone that hold data, M
 * @columns: columns of each slot, S; 0: the whole track
 * @head_tracks: width of the head, k
 * @over_permille: blocks out of 1000 that a region does not present
 * @spares: number of slots beyond the number of regions
 */
struct tiler_zones {
	u64 start;
	u32 track_blocks;
	u32 skew_units;
	u64 stride;
	u32 first;
	u32 nr;
	u32 rows;
	u32 columns;
	u32 head_tracks;
	u32 over_permille;
	u32 spares;
};

/* The stretch of a region, found through its shape. */
static inline const struct tiler_stretch *tiler_stretch_of(const struct tiler_shape *shape)
{
	return container_of(shape, struct tiler_stretch, shape);
}

/* Number of the page of a slot's map that holds an L-ARO. */
static inline u32 tiler_map_page_of(const struct tiler_stretch *st, u32 slot, u32 laro)
{
	return st->first_page + (slot - st->first_slot) * st->pages + laro / TILER_PAGE_ENTRIES;
}

/* The block of the track at which a slot's first row begins. */
static inline u32 tiler_map_column(const struct tiler_stretch *st, u32 slot)
{
	return (slot - st->first_slot) % st->slots * st->shape.columns;
}

/* The region and the L-ARO of a logical block. */
struct tiler_home {
	const struct tiler_stretch *stretch;
	u32 region;
	u32 laro;
};

int tiler_map_add(struct tiler_map *m, const struct tiler_zones *z, const char **why);
const struct tiler_stretch *tiler_map_zone(const struct tiler_map *m, u64 zone);
const struct tiler_stretch *tiler_map_page(const struct tiler_map *m, u32 nr, u32 *slot, u32 *page);
struct tiler_home tiler_map_home(const struct tiler_map *m, u64 lblk);
const struct tiler_stretch *tiler_map_region(const struct tiler_map *m, u32 region);
const struct tiler_stretch *tiler_map_slot(const struct tiler_map *m, u32 slot);
u64 tiler_map_block(const struct tiler_stretch *st, u32 slot, u32 paro, u32 *n);
bool tiler_map_place(const struct tiler_stretch *st, u64 block, u32 *slot, u32 *paro);

#endif /* SHINGLE_TILER_MAP_H */
