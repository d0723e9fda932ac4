/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Places of blocks on the platter, and the blocks that a write covers.
 *
 * Pure: no clock, no lock, no allocation.  The unit is the "block", the addressable unit of the
 * drive: 4 KiB in the target, any size in user space and in tests.  A block is divided into
 * @sub_units angular units (8 in the target: 512-byte sectors) so that skew may be a fraction of a
 * block.
 *
 * Words:
 *   cylinder  radial position, 0 at the outer diameter; one track per surface
 *   zone      cylinders with the same number of blocks on each track
 *   run       tracks of one surface and one zone that follow each other in
 *             LBA order and lie side by side.  Between runs lies a guard: the
 *             head's width never reaches from one run into another.
 */
#ifndef PLATTER_GEOMETRY_H
#define PLATTER_GEOMETRY_H

#include "pure.h"

#define PLATTER_MAX_ZONES	64
#define PLATTER_MAX_SURFACES	32
#define PLATTER_MAX_CONV	16
#define PLATTER_MAX_TRACK_BLOCKS 65536
#define PLATTER_MAX_HEAD_MTRACKS 64000
#define PLATTER_MAX_CYLINDERS	(1U << 30)

enum platter_media {
	PLATTER_CMR,	/* a write destroys nothing */
	PLATTER_SMR,	/* a write covers the tracks that follow in the run */
	PLATTER_IMR,	/* even tracks are bottoms, odd ones tops */
};

/**
 * struct platter_zone - cylinders with the same number of blocks per track
 * @cyls: cylinders
 * @track_blocks: blocks on a track of a surface with density 1000
 * @swath_cyls: tracks of one surface before the next surface's turn
 * @track_skew_units: angular shift from a track to the next in its run
 * @head_skew_units: angular shift from a run to the next
 * @group_skew_units: the same after the last surface's turn, where the arm moves on to the
 *	next group of swaths
 * @first_cyl: derived
 * @first_group: derived; groups of swaths in the zones before
 * @start_blk: derived; first LBA
 * @blocks: derived; capacity
 * @group_blocks: derived; blocks of one full group of swaths
 * @group_ns: derived; shift of the angle over one full group
 * @base_ns: derived; angle of the first block, as a time after index
 *
 * The index is angle 0.  platter_geo_init() computes the members marked "derived" from the others.
 */
struct platter_zone {
	u32 cyls;
	u32 track_blocks;
	u32 swath_cyls;
	u32 track_skew_units;
	u32 head_skew_units;
	u32 group_skew_units;

	u32 first_cyl;
	u32 first_group;
	u64 start_blk;
	u64 blocks;
	u64 group_blocks;
	u32 group_ns;
	u32 base_ns;
};

struct platter_conv {
	u64 start_blk;
	u64 blocks;
};

struct platter_geo {
	u64 blocks;		/* addressable; may end inside the last cylinder */
	u32 sub_units;
	u32 rot_ns;		/* one revolution */
	u32 surfaces;
	u32 nr_zones;
	u32 nr_conv;
	u32 cyls;		/* derived */
	enum platter_media media;
	u32 head_mtracks;	/* width of the write head, 1/1000 track */
	u16 density[PLATTER_MAX_SURFACES];	/* per mille of the zone's track */
	struct platter_zone zone[PLATTER_MAX_ZONES];
	struct platter_conv conv[PLATTER_MAX_CONV];	/* ascending, whole tracks */
};

/**
 * struct platter_pos - place of a block
 * @zone: index of its zone
 * @surface: its surface
 * @cyl: its cylinder
 * @index: its track's number in the run, in LBA order
 * @run_tracks: tracks in the run that hold addressable blocks
 * @track_blocks: blocks on this track (on a full one)
 * @sector: the block's number on the track
 * @track_units: angular units on the track
 * @skew_units: shift from each track of this run to the next
 * @run_ns: angle of the run's first block, as a time after index
 * @run_start: LBA of the run's first block
 * @track_start: LBA of the track's first block
 * @inward: LBAs in this run grow towards the inner diameter
 */
struct platter_pos {
	u32 zone;
	u32 surface;
	u32 cyl;
	u32 index;
	u32 run_tracks;
	u32 track_blocks;
	u32 sector;
	u32 track_units;
	u32 skew_units;
	u32 run_ns;
	u64 run_start;
	u64 track_start;
	bool inward;
};

enum platter_effect {
	PLATTER_WRITTEN,	/* these blocks now hold the written data */
	PLATTER_COVERED,	/* these lay under the head's excess width */
};

/**
 * typedef platter_effect_fn - called for each range that a write touches, in media order
 * @ctx: the caller's
 * @effect: written or covered
 * @blk: first block of the range
 * @n: blocks
 * @src_blk: the written block that leaves its pattern on @blk; if the skew is not a whole number of
 *	blocks two do, and this is the first
 *
 * A value other than 0 ends the walk and is returned by platter_geo_write().
 */
typedef int (*platter_effect_fn)(void *ctx, enum platter_effect effect,
				 u64 blk, u32 n, u64 src_blk);

int platter_geo_init(struct platter_geo *geo, const char **error);
void platter_geo_track(const struct platter_geo *geo, u64 blk, struct platter_pos *pos);
void platter_geo_pos(const struct platter_geo *geo, u64 blk, struct platter_pos *pos);
void platter_geo_length(const struct platter_geo *geo, u64 blk, u64 *start, u64 *end,
			u32 *track_blocks);
u64 platter_geo_lengths(const struct platter_geo *geo);
bool platter_geo_skew(const struct platter_geo *geo, const struct platter_zone *z,
		      u32 track_blocks, u32 *skew_units);
int platter_geo_block(const struct platter_geo *geo, u32 cyl, u32 surface,
		      u32 sector, u64 *blk);
u32 platter_geo_angle_ns(const struct platter_geo *geo,
			 const struct platter_pos *pos, u32 sector);
bool platter_geo_conventional(const struct platter_geo *geo, u64 blk);
u32 platter_geo_window(const struct platter_geo *geo);
int platter_geo_write(const struct platter_geo *geo, u64 blk, u64 n,
		      platter_effect_fn fn, void *ctx);

u32 platter_geo_passes(const struct platter_geo *geo);
u32 platter_geo_pass(const struct platter_geo *geo, u64 blk, u64 *end);

/* The blocks that a walk around a write visits. */
enum platter_way {
	PLATTER_DESTROYS,	/* those that it destroys and does not write itself afterwards */
	PLATTER_DESTROYED_BY,	/* those that would destroy some of it, if they were written */
	PLATTER_EITHER,
};

/**
 * struct platter_reach - a walk over the blocks that a write destroys, or that destroy it
 * @geo: the geometry
 * @way: selects one of them, or both
 * @start: first block of the write
 * @blk: start of the rest of the write that has not been looked at yet
 * @end: its end
 * @run_start: first block of the current run
 * @track_blocks: blocks on each of its tracks
 * @track_units: angular units on each
 * @skew_units: skew from one to the next
 * @first: number of the first written track in it
 * @last: number of the last written track in it
 * @from: first written block of track @first
 * @to: block behind the last written one of track @last
 * @low: first track in it that a head may cover
 * @high: last track in it that a head may cover
 * @at: the current track
 * @until: the last track to look at
 * @piece: piece of the write that is looked at next for the current track
 * @rest_blk: second half of the last range, which wrapped at the start of its track
 * @rest_n: its length
 */
struct platter_reach {
	const struct platter_geo *geo;
	enum platter_way way;
	u64 start;
	u64 blk;
	u64 end;
	u64 run_start;
	u32 track_blocks;
	u32 track_units;
	u32 skew_units;
	u32 first;
	u32 last;
	u32 from;
	u32 to;
	u32 low;
	u32 high;
	u32 at;
	u32 until;
	u32 piece;
	u64 rest_blk;
	u32 rest_n;
};

void platter_reach_begin(struct platter_reach *r, const struct platter_geo *geo, u64 blk,
			 u64 n, enum platter_way way);
bool platter_reach_next(struct platter_reach *r, u64 *blk, u32 *n);

/**
 * struct platter_run - a stretch of LBAs with one track size, for layers above
 * @start_blk: first LBA
 * @blocks: its length; the last track of the device may be a part of one
 * @track_blocks: blocks per track
 * @zone: zone
 * @surface: surface, or -1 where the tracks of all surfaces take turns (CMR)
 * @first_cyl: cylinder of the first track
 * @inward: direction
 * @conventional: full-width tracks
 */
struct platter_run {
	u64 start_blk;
	u64 blocks;
	u32 track_blocks;
	u32 zone;
	int surface;
	u32 first_cyl;
	bool inward;
	bool conventional;
};

bool platter_geo_run(const struct platter_geo *geo, u64 blk, struct platter_run *run);

#endif /* PLATTER_GEOMETRY_H */
