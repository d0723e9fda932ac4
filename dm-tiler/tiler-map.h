/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tiler's static map: LBA to region and L-ARO, slot and P-ARO to a block of the medium.
 * Pure code; nothing of it is kept in RAM but a line for each stretch of tracks.
 *
 * A zone is M tracks and k - 1 behind them that hold nothing.  Slots lie side by side in
 * it, each of S columns; a column is an angle: of the track that is t further in the zone
 * it has the block (column - t * skew) mod track length.  So what a head covers is in the
 * same slot.  Columns that are too few for one more slot are not used.
 *
 * Zones of one kind that follow each other are a stretch.  Its regions have consecutive
 * numbers; each is in one of its slots, of which there are a few more.
 */
#ifndef SHINGLE_TILER_MAP_H
#define SHINGLE_TILER_MAP_H

#include "tiler-region.h"

/**
 * struct tiler_stretch - zones of one kind, at equal distances
 * @shape: of its regions
 * @start: first block of the first zone
 * @track_blocks: blocks on each track
 * @skew: blocks by which each track begins later than the one before it
 * @zone_blocks: from zone to zone
 * @first_zone: number of the first one
 * @nr_zones: how many
 * @slots: in each
 * @nr_slots: in all of them
 * @nr_regions: slots less the spare ones
 * @first_region: number of its first region
 * @first_slot: and of its first slot
 * @first_lblk: first logical block of that region
 * @pages: of the map of each slot
 * @first_page: number of the first one's first
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
 * @stretch: the caller's, room for @max
 * @max: at most
 * @nr: in use
 * @nr_regions: of all
 * @nr_slots: of all
 * @logical_blocks: of all regions
 * @nr_pages: of the maps of all slots
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
 * struct tiler_zones - zones that are to be added to a map
 * @start: first block of the first
 * @track_blocks: blocks on a track
 * @skew_units: from each track to the next, in angular units of the medium
 * @stride: blocks from zone to zone; 0: no more than it takes
 * @first: number of the first
 * @nr: how many
 * @rows: tracks of each that hold data, M
 * @columns: of each slot, S; 0: the whole track
 * @head_tracks: width of the head, k
 * @over_permille: of a region what it does not present, of each 1000 blocks
 * @spares: slots beyond those that there are regions for
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

/* Which stretch is a region of, by its kind? */
static inline const struct tiler_stretch *tiler_stretch_of(const struct tiler_shape *shape)
{
	return container_of(shape, struct tiler_stretch, shape);
}

/* Number of the page of a slot's map that an L-ARO is in. */
static inline u32 tiler_map_page_of(const struct tiler_stretch *st, u32 slot, u32 laro)
{
	return st->first_page + (slot - st->first_slot) * st->pages + laro / TILER_PAGE_ENTRIES;
}

/* Of its first row a slot begins with this block of the track. */
static inline u32 tiler_map_column(const struct tiler_stretch *st, u32 slot)
{
	return (slot - st->first_slot) % st->slots * st->shape.columns;
}

/* Where a logical block belongs. */
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
