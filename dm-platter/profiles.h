/* SPDX-License-Identifier: GPL-2.0 */
/* Named drives, and how a drive of any size is derived from one.  Pure code. */
#ifndef PLATTER_PROFILES_H
#define PLATTER_PROFILES_H

#include "mech.h"

/**
 * struct platter_profile - a drive's numbers, in the units of its data sheet
 * @name: name in the table line
 * @note: description and source of the numbers
 * @sectors: capacity, 512-byte sectors
 * @surfaces: recording surfaces
 * @nr_zones: zones of equal width between the two diameters
 * @od_track_blocks: 4 KiB blocks on a track at the outer diameter
 * @id_track_blocks: the same at the inner diameter
 * @rpm: spindle speed
 * @media: recording technique
 * @head_mtracks: width of the write head in 1/1000 track
 * @swath_tracks: consecutive tracks of one surface before the next surface
 * @seek_min_us: one track
 * @seek_avg_us: a third of the stroke
 * @seek_max_us: the whole stroke
 * @head_switch_us: change of surface
 * @write_settle_us: additional settling before a write
 * @overhead_us: command processing
 * @flush_us: duration of a FLUSH with an empty cache, see platter_mech_flush()
 * @bus_mb_s: interface speed, 10^6 bytes/s
 * @wcache_kib: size of the volatile write cache, when it is on
 * @lookahead_kib: size of a look-ahead segment, when it is on
 * @density_spread: maximum deviation of a head's track capacity, in per mille
 */
struct platter_profile {
	const char *name;
	const char *note;
	u64 sectors;
	u32 surfaces;
	u32 nr_zones;
	u32 od_track_blocks;
	u32 id_track_blocks;
	u32 rpm;
	enum platter_media media;
	u32 head_mtracks;
	u32 swath_tracks;
	u32 seek_min_us;
	u32 seek_avg_us;
	u32 seek_max_us;
	u32 head_switch_us;
	u32 write_settle_us;
	u32 overhead_us;
	u32 flush_us;
	u32 bus_mb_s;
	u32 wcache_kib;
	u32 lookahead_kib;
	u32 density_spread;
};

/* A zone as a table line may specify it. */
struct platter_zone_spec {
	u32 tracks;		/* per surface */
	u32 track_sectors;	/* 512-byte sectors */
};

#define PLATTER_AUTO	(~0U)

/**
 * struct platter_config - a drive to be built: a profile with its overrides
 * @profile: a copy of the profile, with overrides
 * @blocks: 4 KiB blocks of the drive
 * @nr_zones: zones specified one by one instead of the profile's; 0 = none
 * @zone: these zones
 * @track_blocks: if not 0, the size of a track at the outer diameter; all zones follow
 * @surfaces: if not 0, the exact number; else the profile's, or fewer on a drive so short
 *	that its runs would have only a few tracks
 * @swath_tracks: PLATTER_AUTO = the profile's, scaled to the drive; 0 = a zone
 * @track_skew_sectors: PLATTER_AUTO = just enough for a track switch
 * @head_skew_sectors: PLATTER_AUTO = just enough for a head switch
 * @time_permille: 1000 = the profile's times; 100 = ten times as fast
 * @nr_seek: points of a seek table that replaces the profile's curve
 * @seek: these points, in us; distances in tracks of the drive to be built
 * @nr_conv: conventional ranges
 * @conv: these ranges, in blocks
 */
struct platter_config {
	struct platter_profile profile;
	u64 blocks;
	u32 nr_zones;
	u32 track_blocks;
	u32 surfaces;
	u32 swath_tracks;
	u32 track_skew_sectors;
	u32 head_skew_sectors;
	u32 time_permille;
	u32 nr_seek;
	u32 nr_conv;
	struct platter_zone_spec zone[PLATTER_MAX_ZONES];
	struct platter_seek_point seek[PLATTER_MAX_SEEK_POINTS];
	struct platter_conv conv[PLATTER_MAX_CONV];
};

const struct platter_profile *platter_profile_find(const char *name);
const struct platter_profile *platter_profile_nth(u32 n);
void platter_config_init(struct platter_config *cfg, const struct platter_profile *profile,
			 u64 blocks);
int platter_config_build(const struct platter_config *cfg, struct platter_geo *geo,
			 struct platter_mech *mech, const char **error);

#endif /* PLATTER_PROFILES_H */
