// SPDX-License-Identifier: GPL-2.0
/*
 * Named drives.  Sources: the makers' product manuals for capacity, heads, speed
 * and seek times; Skylight (Aghayev 2020, ch. 2) for the track of about 2 MiB,
 * the 16 ms stroke, the head switch of about 1 ms and the wide swaths of the
 * shingled drives; KVIMR (Liang 2021) for the 2 MB interlaced tracks.  Densities
 * at the two diameters are fitted to the makers' data rates and the capacity.
 */
#include "profiles.h"

static const struct platter_profile profiles[] = {
	{
		.name = "st4000nc001",
		.note = "4 TB 5,900 rpm CMR, under the emulated drives of Skylight",
		.sectors = 7814037168ULL, .surfaces = 8, .nr_zones = 16,
		.od_track_blocks = 448, .id_track_blocks = 224, .rpm = 5900,
		.media = PLATTER_CMR, .head_mtracks = 1000, .swath_tracks = 2,
		.seek_min_us = 1000, .seek_avg_us = 8500, .seek_max_us = 16000,
		.head_switch_us = 1000, .write_settle_us = 300,
		.overhead_us = 100, .bus_mb_s = 550,
		.wcache_kib = 32768, .lookahead_kib = 2048,
	}, {
		.name = "st5000as0011",
		.note = "5 TB 5,900 rpm drive-managed SMR, Skylight's Seagate-SMR",
		.sectors = 9767541168ULL, .surfaces = 8, .nr_zones = 16,
		.od_track_blocks = 496, .id_track_blocks = 248, .rpm = 5900,
		.media = PLATTER_SMR, .head_mtracks = 2000, .swath_tracks = 10000,
		.seek_min_us = 1000, .seek_avg_us = 8500, .seek_max_us = 16000,
		.head_switch_us = 1000, .write_settle_us = 300,
		.overhead_us = 100, .bus_mb_s = 550,
		.wcache_kib = 32768, .lookahead_kib = 2048, .density_spread = 40,
	}, {
		.name = "st8000as0002",
		.note = "8 TB 5,900 rpm drive-managed SMR",
		.sectors = 15628053168ULL, .surfaces = 12, .nr_zones = 16,
		.od_track_blocks = 496, .id_track_blocks = 248, .rpm = 5900,
		.media = PLATTER_SMR, .head_mtracks = 2000, .swath_tracks = 10000,
		.seek_min_us = 1000, .seek_avg_us = 8500, .seek_max_us = 16000,
		.head_switch_us = 1000, .write_settle_us = 300,
		.overhead_us = 100, .bus_mb_s = 550,
		.wcache_kib = 32768, .lookahead_kib = 2048, .density_spread = 40,
	}, {
		.name = "st500dm002",
		.note = "500 GB 7,200 rpm CMR, the drive class under KVIMR",
		.sectors = 976773168ULL, .surfaces = 2, .nr_zones = 16,
		.od_track_blocks = 288, .id_track_blocks = 144, .rpm = 7200,
		.media = PLATTER_CMR, .head_mtracks = 1000, .swath_tracks = 2,
		.seek_min_us = 1000, .seek_avg_us = 8500, .seek_max_us = 18000,
		.head_switch_us = 800, .write_settle_us = 500,
		.overhead_us = 100, .bus_mb_s = 550,
		.wcache_kib = 16384, .lookahead_kib = 1024,
	}, {
		.name = "kvimr",
		.note = "interlaced tracks of 2 MiB, otherwise the 500 GB class",
		.sectors = 209715200ULL, .surfaces = 1, .nr_zones = 1,
		.od_track_blocks = 512, .id_track_blocks = 512, .rpm = 7200,
		.media = PLATTER_IMR, .head_mtracks = 1000, .swath_tracks = 0,
		.seek_min_us = 1000, .seek_avg_us = 8500, .seek_max_us = 18000,
		.head_switch_us = 800, .write_settle_us = 500,
		.overhead_us = 100, .bus_mb_s = 550,
		.wcache_kib = 16384, .lookahead_kib = 1024,
	}, {
		.name = "tiny19",
		.note = "19 tracks of one 4 KiB block: the disk of Skylight's own tests",
		.sectors = 19 * 8, .surfaces = 1, .nr_zones = 1,
		.od_track_blocks = 1, .id_track_blocks = 1, .rpm = 5900,
		.media = PLATTER_SMR, .head_mtracks = 2000, .swath_tracks = 0,
		.seek_min_us = 1000, .seek_avg_us = 8500, .seek_max_us = 16000,
		.head_switch_us = 1000, .write_settle_us = 300,
		.overhead_us = 100, .bus_mb_s = 550,
		.wcache_kib = 16, .lookahead_kib = 16,
	}, {
		.name = "tiny8",
		.note = "8 tracks of eight 4 KiB blocks",
		.sectors = 8 * 8 * 8, .surfaces = 1, .nr_zones = 1,
		.od_track_blocks = 8, .id_track_blocks = 8, .rpm = 5900,
		.media = PLATTER_SMR, .head_mtracks = 2000, .swath_tracks = 0,
		.seek_min_us = 1000, .seek_avg_us = 8500, .seek_max_us = 16000,
		.head_switch_us = 1000, .write_settle_us = 300,
		.overhead_us = 100, .bus_mb_s = 550,
		.wcache_kib = 32, .lookahead_kib = 32,
	}, {
		.name = "generic",
		.note = "every number comes from keys; these are only the defaults",
		.sectors = 0, .surfaces = 1, .nr_zones = 1,
		.od_track_blocks = 256, .id_track_blocks = 256, .rpm = 7200,
		.media = PLATTER_CMR, .head_mtracks = 1000, .swath_tracks = 0,
		.seek_min_us = 1000, .seek_avg_us = 8000, .seek_max_us = 16000,
		.head_switch_us = 1000, .write_settle_us = 0,
		.overhead_us = 100, .bus_mb_s = 550,
		.wcache_kib = 8192, .lookahead_kib = 1024,
	},
};

/**
 * platter_profile_find() - find a drive by its name
 * @name: name
 *
 * Context: any.
 * Return: the profile, or NULL.
 */
const struct platter_profile *platter_profile_find(const char *name)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(profiles); i++)
		if (!strcmp(profiles[i].name, name))
			return &profiles[i];
	return NULL;
}

/**
 * platter_profile_nth() - iterate over the named drives
 * @n: 0, 1, ...
 *
 * Context: any.
 * Return: the profile, or NULL past the last.
 */
const struct platter_profile *platter_profile_nth(u32 n)
{
	return n < ARRAY_SIZE(profiles) ? &profiles[n] : NULL;
}

/**
 * platter_config_init() - a drive as its profile describes it, at its own speed
 * @cfg: result; numbers that the profile does not have are left to be fitted
 * @profile: the drive
 * @blocks: 4 KiB blocks of the drive
 *
 * Context: any.
 */
void platter_config_init(struct platter_config *cfg, const struct platter_profile *profile,
			 u64 blocks)
{
	memset(cfg, 0, sizeof(*cfg));
	cfg->profile = *profile;
	cfg->blocks = blocks;
	cfg->swath_tracks = PLATTER_AUTO;
	cfg->track_skew_sectors = PLATTER_AUTO;
	cfg->head_skew_sectors = PLATTER_AUTO;
	cfg->time_permille = 1000;
}

/* Relative size of a zone and of its track, before scaling to the drive's capacity. */
static void zone_shape(const struct platter_config *cfg, u32 i, u32 nr, u32 *tracks,
		       u32 *track_blocks)
{
	const struct platter_profile *p = &cfg->profile;

	if (cfg->nr_zones) {
		*tracks = cfg->zone[i].tracks;
		*track_blocks = cfg->zone[i].track_sectors / 8;
	} else {
		u32 drop = p->od_track_blocks - p->id_track_blocks;

		*tracks = 1024;
		*track_blocks = p->od_track_blocks;
		if (nr > 1)
			*track_blocks -= drop * i / (nr - 1);
	}
}

static u64 round_div(u64 a, u64 b)
{
	return div64_u64(a + b / 2, b);
}

/*
 * Scale the track of a zone in proportion to the outermost zone, for which the size is
 * given.
 */
static int stretch(u32 *track_blocks, u32 given, u32 od, const char **error)
{
	u64 blocks = round_div((u64)*track_blocks * given, od);

	if (blocks > PLATTER_MAX_TRACK_BLOCKS) {
		*error = "track_sectors makes another zone's track longer than 524288 sectors";
		return -EINVAL;
	}
	*track_blocks = max_t(u64, 1, blocks);
	return 0;
}

/*
 * Lay out the zones over @cfg->blocks in proportion: each zone gets its share of the
 * capacity, rounded to whole cylinders; the innermost gets the rest.  Zones that would get
 * no cylinder are left out.
 */
static int build_zones(const struct platter_config *cfg, struct platter_geo *geo,
		       u32 nr, const char **error)
{
	u64 shape = 0, done = 0, sum = 0;
	u32 i, od = 0, shift = 0;

	for (i = 0; i < nr; i++) {
		u32 tracks, tb;

		zone_shape(cfg, i, nr, &tracks, &tb);
		if (!tracks || !tb || tb > PLATTER_MAX_TRACK_BLOCKS) {
			*error = "A zone needs at least 1 track and 8 to 524288 sectors per track";
			return -EINVAL;
		}
		if (!i)
			od = tb;
		shape += (u64)tracks * tb;
	}

	while ((shape >> shift) > div64_u64(~0ULL, cfg->blocks))
		shift++;

	for (i = 0; i < nr && done < cfg->blocks; i++) {
		struct platter_zone *z = &geo->zone[geo->nr_zones];
		u64 per_cyl = 0, want, cyls;
		u32 tracks, tb, s;

		zone_shape(cfg, i, nr, &tracks, &tb);
		sum += (u64)tracks * tb;
		if (cfg->track_blocks && stretch(&tb, cfg->track_blocks, od, error))
			return -EINVAL;
		for (s = 0; s < geo->surfaces; s++)
			per_cyl += max_t(u32, 1, tb * geo->density[s] / 1000);
		if (i + 1 == nr) {
			want = cfg->blocks - done;
			cyls = div64_u64(want + per_cyl - 1, per_cyl);
		} else {
			/* cumulative, so that rounding errors do not add up */
			want = div64_u64(cfg->blocks * (sum >> shift), shape >> shift);
			cyls = want > done ? round_div(want - done, per_cyl) : 0;
			if (cyls * per_cyl > cfg->blocks - done)
				cyls = div64_u64(cfg->blocks - done + per_cyl - 1,
						 per_cyl);
		}
		if (!cyls)
			continue;
		if (cyls > PLATTER_MAX_CYLINDERS) {
			*error = "More than 2^30 cylinders: too long for tracks that short";
			return -EINVAL;
		}
		z->cyls = cyls;
		z->track_blocks = tb;
		done += cyls * per_cyl;
		geo->nr_zones++;
	}
	return 0;
}

#define MIN_RUN_TRACKS	64

/*
 * A short drive with all surfaces and zones of a long one would have runs of a track or
 * two, without room for a band.  So it gets fewer surfaces first, because the number of
 * head switches matters little, and then fewer zones; the outermost and the innermost track
 * size stay.
 */
static void choose_shape(const struct platter_config *cfg, u32 *surfaces, u32 *zones)
{
	const struct platter_profile *p = &cfg->profile;
	u32 od = cfg->track_blocks ? cfg->track_blocks : p->od_track_blocks;
	u64 tracks, fit;

	if (cfg->nr_zones) {
		u64 sum = 0, nr = 0;
		u32 i;

		for (i = 0; i < cfg->nr_zones; i++) {
			nr += cfg->zone[i].tracks;
			sum += (u64)cfg->zone[i].tracks * (cfg->zone[i].track_sectors / 8);
		}
		tracks = div64_u64(cfg->blocks, max_t(u64, div64_u64(sum, nr), 1));
	} else {
		u64 mean = div_u64(((u64)p->od_track_blocks + p->id_track_blocks) * od,
				   2 * p->od_track_blocks);

		tracks = div64_u64(cfg->blocks, max_t(u64, mean, 1));
	}

	*zones = cfg->nr_zones ? cfg->nr_zones : p->nr_zones;
	*surfaces = cfg->surfaces;
	if (!cfg->surfaces) {
		fit = div_u64(tracks, *zones * MIN_RUN_TRACKS);
		fit = min_t(u64, fit, p->surfaces);
		*surfaces = max_t(u64, fit, 1);
	}
	if (!cfg->nr_zones) {
		fit = div_u64(tracks, *surfaces * MIN_RUN_TRACKS);
		fit = min_t(u64, fit, p->nr_zones);
		*zones = max_t(u64, fit, 1);
	}
}

/* Just enough angle for @ns, in whole blocks so that columns stay aligned. */
static u32 skew_for(const struct platter_geo *geo, const struct platter_zone *z, u64 ns)
{
	u64 blocks = div_u64(ns * z->track_blocks + geo->rot_ns - 1, geo->rot_ns);
	u32 rem;

	div_u64_rem(blocks, z->track_blocks, &rem);
	return rem * geo->sub_units;
}

static u32 scaled_ns(const struct platter_config *cfg, u32 us)
{
	return min_t(u64, (u64)us * cfg->time_permille, 0xffffffffU);
}

/**
 * platter_config_build() - build geometry and mechanics from a configuration
 * @cfg: the configuration
 * @geo: filled in and initialised; 8 angular units per block
 * @mech: filled in and initialised; refers to @geo
 * @error: set to a sentence on failure
 *
 * A drive with another capacity than the profile's keeps the profile's proportions: tracks
 * keep their size, zones their share of the capacity, the full stroke its time (distances
 * are stretched), and the seek over one track its time.  A short drive has fewer surfaces,
 * then fewer zones, so that runs keep about 64 tracks.
 *
 * Context: any; allocates nothing.
 * Return: 0 or -EINVAL.
 */
int platter_config_build(const struct platter_config *cfg, struct platter_geo *geo,
			 struct platter_mech *mech, const char **error)
{
	const struct platter_profile *p = &cfg->profile;
	u64 natural;
	u32 i, od, zones, swath;
	int r;

	if (!cfg->blocks) {
		*error = "The device must be at least one 4096-byte block long";
		return -EINVAL;
	}
	if (p->rpm < 60 || p->rpm > 60000 || !cfg->time_permille ||
	    cfg->time_permille > 2000 || !p->bus_mb_s) {
		*error = "rpm must be 60 to 60000, time_scale 1 to 2000, bus_mb_s above 0";
		return -EINVAL;
	}

	memset(geo, 0, sizeof(*geo));
	geo->blocks = cfg->blocks;
	geo->sub_units = 8;
	geo->rot_ns = div_u64(60000000ULL * cfg->time_permille + p->rpm / 2, p->rpm);
	geo->media = p->media;
	geo->head_mtracks = p->head_mtracks;
	if (!geo->rot_ns) {
		*error = "time_scale makes a rotation shorter than a nanosecond";
		return -EINVAL;
	}

	od = cfg->track_blocks ? cfg->track_blocks :
	     cfg->nr_zones ? cfg->zone[0].track_sectors / 8 : p->od_track_blocks;
	if (!od || od > PLATTER_MAX_TRACK_BLOCKS) {
		*error = "A track must have 8 to 524288 sectors, a multiple of 8";
		return -EINVAL;
	}
	choose_shape(cfg, &geo->surfaces, &zones);
	if (!geo->surfaces || geo->surfaces > PLATTER_MAX_SURFACES) {
		*error = "The number of surfaces must be 1 to 32";
		return -EINVAL;
	}
	/* heads differ: spread evenly around the mean, from best to worst */
	for (i = 0; i < geo->surfaces; i++) {
		u32 step = geo->surfaces > 1 ?
			2 * p->density_spread * i / (geo->surfaces - 1) : p->density_spread;

		geo->density[i] = 1000 + p->density_spread - step;
	}

	r = build_zones(cfg, geo, zones, error);
	if (r)
		return r;

	mech->head_switch_ns = scaled_ns(cfg, p->head_switch_us);
	mech->write_settle_ns = scaled_ns(cfg, p->write_settle_us);
	mech->overhead_ns = scaled_ns(cfg, p->overhead_us);
	mech->write_overhead_ns = mech->overhead_ns;
	mech->flush_ns = scaled_ns(cfg, p->flush_us);
	mech->bus_block_ns = div_u64(4096ULL * cfg->time_permille, p->bus_mb_s);

	mech->seek.cyls = 0;
	for (i = 0; i < geo->nr_zones; i++)
		mech->seek.cyls += geo->zone[i].cyls;
	mech->seek.nr = cfg->nr_seek;
	mech->seek.min_ns = scaled_ns(cfg, p->seek_min_us);
	mech->seek.avg_ns = scaled_ns(cfg, p->seek_avg_us);
	mech->seek.max_ns = scaled_ns(cfg, p->seek_max_us);
	for (i = 0; i < cfg->nr_seek; i++) {
		mech->seek.point[i].distance = cfg->seek[i].distance;
		mech->seek.point[i].ns = scaled_ns(cfg, cfg->seek[i].ns);
	}
	/* the profile's curve holds for the number of cylinders of the profile's drive */
	mech->seek.span = mech->seek.cyls;
	if (!cfg->nr_seek && !cfg->nr_zones && p->sectors) {
		natural = (u64)p->surfaces * (p->od_track_blocks + p->id_track_blocks) / 2;
		natural = div64_u64(p->sectors / 8, natural);
		mech->seek.span = max_t(u64, natural, 1);
	}
	r = platter_seek_init(&mech->seek, error);
	if (r)
		return r;

	swath = cfg->swath_tracks;
	if (swath == PLATTER_AUTO) {
		swath = p->swath_tracks;
		/* wide swaths shrink with the drive; narrow ones have few tracks anyway */
		if (swath > MIN_RUN_TRACKS && mech->seek.span > mech->seek.cyls)
			swath = max_t(u64, MIN_RUN_TRACKS,
				      div_u64((u64)swath * mech->seek.cyls,
					      mech->seek.span));
	}
	for (i = 0; i < geo->nr_zones; i++) {
		struct platter_zone *z = &geo->zone[i];
		u64 track = (u64)platter_seek_ns(&mech->seek, 1) + mech->write_settle_ns;
		u64 head = (u64)mech->head_switch_ns + mech->write_settle_ns;
		u32 step;
		u32 units = z->track_blocks * geo->sub_units;

		z->track_skew_units = cfg->track_skew_sectors == PLATTER_AUTO ?
			skew_for(geo, z, track) : cfg->track_skew_sectors % units;
		z->head_skew_units = cfg->head_skew_sectors == PLATTER_AUTO ?
			skew_for(geo, z, head) : cfg->head_skew_sectors % units;
		/*
		 * With an even number of surfaces a group ends at the cylinder where it
		 * began: the arm has to cross the swath before the next group.
		 */
		z->swath_cyls = swath && swath < z->cyls ? swath : z->cyls;
		step = geo->surfaces & 1 ? 1 : z->swath_cyls;
		z->group_skew_units = cfg->head_skew_sectors == PLATTER_AUTO ?
			skew_for(geo, z, (u64)platter_seek_ns(&mech->seek, step) +
				 mech->write_settle_ns) : z->head_skew_units;
	}

	geo->nr_conv = min_t(u32, cfg->nr_conv, PLATTER_MAX_CONV);
	for (i = 0; i < geo->nr_conv; i++)
		geo->conv[i] = cfg->conv[i];
	r = platter_geo_init(geo, error);
	if (r)
		return r;
	platter_mech_init(mech, geo);
	return 0;
}
