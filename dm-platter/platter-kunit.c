// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of geometry, overlap and mechanics.  tests/check builds them in
 * user space with a few macros, so they use only pure code.
 */
#include "profiles.h"

#ifdef __KERNEL__
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/slab.h>
#define fresh(test, type)	kunit_kzalloc(test, sizeof(type), GFP_KERNEL)
#else
#include "kunit-shim.h"
#define fresh(test, type)	kunit_calloc(test, sizeof(type))
#endif

#define ROT_5900	10169492U	/* ns */

/* A simple random generator, the same on every machine. */
static u64 next_random(u64 *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 20;
}

struct drive {
	struct platter_config cfg;
	struct platter_geo geo;
	struct platter_mech mech;
};

static struct drive *make_drive(struct kunit *test, const char *name, u64 blocks)
{
	struct drive *d = fresh(test, struct drive);
	const struct platter_profile *p = platter_profile_find(name);
	const char *error = "";

	KUNIT_ASSERT_NOT_NULL(test, d);
	KUNIT_ASSERT_NOT_NULL(test, p);
	platter_config_init(&d->cfg, p, blocks ? blocks : p->sectors ? p->sectors / 8 : 100000);
	KUNIT_ASSERT_EQ(test, 0, platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
	return d;
}

/* ----------------------------------------------------------------- geometry */

static void round_trip_one(struct kunit *test, const char *name, u64 blocks)
{
	struct drive *d = make_drive(test, name, blocks);
	u64 rnd = 42, n = d->geo.blocks < 4096 ? d->geo.blocks : 4096, i;

	for (i = 0; i < 2 * n; i++) {
		u64 blk = i < n / 2 ? i :
			  i < n ? d->geo.blocks - 1 - (i - n / 2) :
			  next_random(&rnd) % d->geo.blocks;
		struct platter_pos pos;
		u64 back = ~0ULL;

		platter_geo_pos(&d->geo, blk, &pos);
		KUNIT_ASSERT_EQ(test, 0, platter_geo_block(&d->geo, pos.cyl, pos.surface,
							   pos.sector, &back));
		KUNIT_ASSERT_EQ(test, blk, back);
		KUNIT_ASSERT_LT(test, pos.index, pos.run_tracks);
		KUNIT_ASSERT_LT(test, pos.sector, pos.track_blocks);
		KUNIT_ASSERT_EQ(test, blk, pos.run_start +
				(u64)pos.index * pos.track_blocks + pos.sector);
	}
}

static void geometry_round_trip(struct kunit *test)
{
	const struct platter_profile *p;
	u32 i;

	for (i = 0; (p = platter_profile_nth(i)); i++) {
		round_trip_one(test, p->name, 0);
		round_trip_one(test, p->name, 1);
		round_trip_one(test, p->name, 16384);		/* 64 MiB */
		round_trip_one(test, p->name, 1 << 20);		/* 4 GiB */
		if (p->od_track_blocks >= 16)
			round_trip_one(test, p->name, (1ULL << 31) - 7);	/* 8 TiB */
	}
}

/* Runs tile the drive, have one track size each, and are long enough to hold bands. */
static void geometry_runs(struct kunit *test)
{
	static const u64 lengths[] = { 16384, 262144, 1 << 22 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct drive *d = make_drive(test, "st8000as0002", lengths[i]);
		struct platter_run run;
		u64 blk = 0, tracks = 0, runs = 0;

		while (platter_geo_run(&d->geo, blk, &run)) {
			struct platter_pos first, last;

			KUNIT_ASSERT_EQ(test, blk, run.start_blk);
			platter_geo_pos(&d->geo, blk, &first);
			platter_geo_pos(&d->geo, blk + run.blocks - 1, &last);
			KUNIT_ASSERT_EQ(test, first.run_start, last.run_start);
			KUNIT_ASSERT_EQ(test, first.track_blocks, run.track_blocks);
			tracks += run.blocks / run.track_blocks;
			runs++;
			blk += run.blocks;
		}
		KUNIT_EXPECT_EQ(test, d->geo.blocks, blk);
		KUNIT_EXPECT_GE(test, tracks / runs, 30ULL);
	}
}

/* track_sectors scales the outermost zone's track, and all others by the same factor. */
static void stretched_tracks_have_a_limit(struct kunit *test)
{
	struct drive *d = make_drive(test, "generic", 2048);
	const char *error = "";

	d->cfg.nr_zones = 2;
	d->cfg.zone[0].tracks = 1;
	d->cfg.zone[0].track_sectors = 8;
	d->cfg.zone[1].tracks = 1;
	d->cfg.track_blocks = PLATTER_MAX_TRACK_BLOCKS;

	/* 2^32 blocks; 2^29 blocks of 8 units, one block too many */
	d->cfg.zone[1].track_sectors = 524288;
	KUNIT_EXPECT_EQ(test, -EINVAL,
			platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
	d->cfg.zone[1].track_sectors = 65536;
	d->cfg.track_skew_sectors = 8;
	KUNIT_EXPECT_EQ(test, -EINVAL,
			platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
	d->cfg.zone[0].track_sectors = 65535 * 8;
	d->cfg.zone[1].track_sectors = 524288;
	KUNIT_EXPECT_EQ(test, -EINVAL,
			platter_config_build(&d->cfg, &d->geo, &d->mech, &error));

	d->cfg.zone[0].track_sectors = 524288;
	KUNIT_EXPECT_EQ(test, 0,
			platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
}

static void geometry_conventional(struct kunit *test)
{
	struct drive *d = fresh(test, struct drive);
	const char *error = "";
	struct platter_run run;

	KUNIT_ASSERT_NOT_NULL(test, d);
	platter_config_init(&d->cfg, platter_profile_find("tiny8"), 64);
	/* widened to whole tracks, sorted, merged: tracks 1, 2, 3 */
	d->cfg.nr_conv = 2;
	d->cfg.conv[0].start_blk = 20;
	d->cfg.conv[0].blocks = 10;
	d->cfg.conv[1].start_blk = 9;
	d->cfg.conv[1].blocks = 1;
	KUNIT_ASSERT_EQ(test, 0, platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
	KUNIT_EXPECT_EQ(test, 1U, d->geo.nr_conv);
	KUNIT_EXPECT_EQ(test, 8ULL, d->geo.conv[0].start_blk);
	KUNIT_EXPECT_EQ(test, 24ULL, d->geo.conv[0].blocks);
	KUNIT_EXPECT_FALSE(test, platter_geo_conventional(&d->geo, 7));
	KUNIT_EXPECT_TRUE(test, platter_geo_conventional(&d->geo, 8));
	KUNIT_EXPECT_TRUE(test, platter_geo_conventional(&d->geo, 31));
	KUNIT_EXPECT_FALSE(test, platter_geo_conventional(&d->geo, 32));
	KUNIT_ASSERT_TRUE(test, platter_geo_run(&d->geo, 10, &run));
	KUNIT_EXPECT_TRUE(test, run.conventional);
	KUNIT_EXPECT_EQ(test, 8ULL, run.start_blk);
	KUNIT_EXPECT_EQ(test, 24ULL, run.blocks);

	d->cfg.conv[0].blocks = 100;
	KUNIT_EXPECT_EQ(test, -EINVAL,
			platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
}

/* ------------------------------------------------------------------ overlap */

#define MAP_BLOCKS	12000

struct damage_map {
	u8 bad[MAP_BLOCKS];
};

static int map_effect(void *ctx, enum platter_effect effect, u64 blk, u32 n, u64 src)
{
	struct damage_map *map = ctx;

	while (n--)
		map->bad[blk++] = effect == PLATTER_COVERED;
	return 0;
}

static void write_map(struct drive *d, struct damage_map *map, u64 blk, u64 n)
{
	platter_geo_write(&d->geo, blk, n, map_effect, map);
}

static void expect_bad(struct kunit *test, const struct damage_map *map, u64 total,
		       u64 from1, u64 to1, u64 from2, u64 to2)
{
	u64 i;

	for (i = 0; i < total; i++) {
		bool want = (i >= from1 && i < to1) || (i >= from2 && i < to2);

		KUNIT_EXPECT_EQ_MSG(test, want, (bool)map->bad[i], "block %llu",
				    (unsigned long long)i);
	}
}

static struct drive *plain_drive(struct kunit *test, enum platter_media media,
				 u32 tracks, u32 track_blocks, u32 head_mtracks,
				 u32 skew_units, u32 sub_units)
{
	struct drive *d = fresh(test, struct drive);
	const char *error = "";

	KUNIT_ASSERT_NOT_NULL(test, d);
	d->geo.sub_units = sub_units;
	d->geo.rot_ns = ROT_5900;
	d->geo.surfaces = 1;
	d->geo.nr_zones = 1;
	d->geo.media = media;
	d->geo.head_mtracks = head_mtracks;
	d->geo.zone[0].cyls = tracks;
	d->geo.zone[0].track_blocks = track_blocks;
	d->geo.zone[0].track_skew_units = skew_units;
	KUNIT_ASSERT_EQ(test, 0, platter_geo_init(&d->geo, &error));
	return d;
}

/*
 * Skylight, Figure 2.23: 3 tracks of 4,000 sectors, a head 1.5 tracks wide, a skew of 1,000
 * sectors per track.  A band write is interrupted.
 */
static void torn_write_fig_2_23(struct kunit *test)
{
	struct drive *d = plain_drive(test, PLATTER_SMR, 3, 4000, 1500, 1000, 1);
	struct damage_map *map = fresh(test, struct damage_map);
	struct platter_pos pos;

	KUNIT_ASSERT_NOT_NULL(test, map);
	/* track 2 begins at angle 0 with 7,000-7,999, then 4,000-6,999 */
	platter_geo_pos(&d->geo, 7000, &pos);
	KUNIT_EXPECT_EQ(test, 0U, platter_geo_angle_ns(&d->geo, &pos, pos.sector));
	platter_geo_pos(&d->geo, 4000, &pos);
	KUNIT_EXPECT_EQ(test, ROT_5900 / 4, platter_geo_angle_ns(&d->geo, &pos, pos.sector));
	/* track 3: 10,000-11,999, then 8,000-9,999 */
	platter_geo_pos(&d->geo, 10000, &pos);
	KUNIT_EXPECT_EQ(test, 0U, platter_geo_angle_ns(&d->geo, &pos, pos.sector));

	/* cut after track 1: track 2 is corrupt, track 3 is old */
	write_map(d, map, 0, 4000);
	expect_bad(test, map, 12000, 4000, 8000, 0, 0);
	/* cut after 4,000-4,999 */
	write_map(d, map, 4000, 1000);
	expect_bad(test, map, 12000, 5000, 8000, 11000, 12000);
	/* cut after track 2: 8,000-11,999 are corrupt */
	write_map(d, map, 5000, 3000);
	expect_bad(test, map, 12000, 8000, 12000, 0, 0);
	/* written to the end: nothing is corrupt */
	write_map(d, map, 8000, 4000);
	expect_bad(test, map, 12000, 0, 0, 0, 0);
}

/* The same columns are hit whether a range is written at once or block by block. */
static void overlap_is_additive(struct kunit *test)
{
	u64 rnd = 7;
	u32 i;

	for (i = 0; i < 200; i++) {
		struct drive *d = plain_drive(test, i & 1 ? PLATTER_IMR : PLATTER_SMR, 12,
					      1 + next_random(&rnd) % 20,
					      1000 + next_random(&rnd) % 4000,
					      next_random(&rnd) % 200, 8);
		struct damage_map *a = fresh(test, struct damage_map);
		struct damage_map *b = fresh(test, struct damage_map);
		u64 blk = next_random(&rnd) % d->geo.blocks;
		u64 n = 1 + next_random(&rnd) % (d->geo.blocks - blk), k;

		write_map(d, a, blk, n);
		for (k = 0; k < n; k++)
			write_map(d, b, blk + k, 1);
		for (k = 0; k < d->geo.blocks; k++)
			KUNIT_ASSERT_EQ(test, a->bad[k], b->bad[k]);
	}
}

/* Damage by angle, from first principles: do the angular intervals intersect? */
static bool angles_meet(const struct drive *d, u64 a, u64 b)
{
	struct platter_pos pa, pb;
	u64 ua, ub, tu, gap;

	platter_geo_pos(&d->geo, a, &pa);
	platter_geo_pos(&d->geo, b, &pb);
	tu = pa.track_units;
	ua = ((u64)pa.index * pa.skew_units + (u64)pa.sector * 8) % tu;
	ub = ((u64)pb.index * pb.skew_units + (u64)pb.sector * 8) % tu;
	gap = (ub + tu - ua) % tu;
	return gap < 8 || gap > tu - 8;
}

static void overlap_by_angle(struct kunit *test)
{
	u64 rnd = 99;
	u32 i;

	for (i = 0; i < 60; i++) {
		bool imr = i & 1;
		struct drive *d = plain_drive(test, imr ? PLATTER_IMR : PLATTER_SMR, 9,
					      1 + next_random(&rnd) % 9,
					      1000 + next_random(&rnd) % 4000,
					      next_random(&rnd) % 100, 8);
		u32 window = platter_geo_window(&d->geo);
		u64 blk, k;

		for (blk = 0; blk < d->geo.blocks; blk++) {
			struct damage_map *map = fresh(test, struct damage_map);
			struct platter_pos pw, pk;

			write_map(d, map, blk, 1);
			platter_geo_pos(&d->geo, blk, &pw);
			for (k = 0; k < d->geo.blocks; k++) {
				s64 delta;
				bool reach;

				platter_geo_pos(&d->geo, k, &pk);
				delta = (s64)pk.index - pw.index;
				reach = imr ? !(pw.index & 1) && (delta == 1 || delta == -1) :
					      delta >= 1 && delta <= window;
				KUNIT_ASSERT_EQ(test, reach && angles_meet(d, blk, k),
						(bool)map->bad[k]);
			}
		}
	}
}

static void overlap_smr_window(struct kunit *test)
{
	struct drive *d = plain_drive(test, PLATTER_SMR, 6, 4, 3000, 8, 8);
	struct damage_map *map = fresh(test, struct damage_map);

	KUNIT_EXPECT_EQ(test, 2U, platter_geo_window(&d->geo));
	write_map(d, map, 5, 1);	/* track 1, sector 1, angle 2 */
	/* track 2 is skewed by 2 more: sector 0; track 3: sector 3 */
	expect_bad(test, map, 24, 8, 9, 15, 16);
	write_map(d, map, 20, 4);	/* the last track destroys nothing */
	expect_bad(test, map, 24, 8, 9, 15, 16);
	d->geo.head_mtracks = 2001;
	KUNIT_EXPECT_EQ(test, 2U, platter_geo_window(&d->geo));
	d->geo.head_mtracks = 2000;
	KUNIT_EXPECT_EQ(test, 1U, platter_geo_window(&d->geo));
	d->geo.head_mtracks = 1000;
	KUNIT_EXPECT_EQ(test, 0U, platter_geo_window(&d->geo));
}

static void overlap_imr_window(struct kunit *test)
{
	struct drive *d = plain_drive(test, PLATTER_IMR, 5, 4, 1000, 0, 8);
	struct damage_map *map = fresh(test, struct damage_map);

	write_map(d, map, 4, 4);	/* a top */
	expect_bad(test, map, 20, 0, 0, 0, 0);
	write_map(d, map, 9, 1);	/* bottom 2: tops 1 and 3, same angle */
	expect_bad(test, map, 20, 5, 6, 13, 14);
	write_map(d, map, 4, 4);
	write_map(d, map, 12, 4);
	expect_bad(test, map, 20, 0, 0, 0, 0);
	write_map(d, map, 0, 4);	/* bottom 0 has one neighbour */
	expect_bad(test, map, 20, 4, 8, 0, 0);
	/* written in order, each bottom destroys the top before it again */
	write_map(d, map, 0, 20);
	expect_bad(test, map, 20, 4, 8, 12, 16);
}

/* Damage ends at the border of a run, and at the end of the device. */
static void overlap_ends_with_the_run(struct kunit *test)
{
	struct drive *d = fresh(test, struct drive);
	struct damage_map *map = fresh(test, struct damage_map);
	const char *error = "";

	d->geo.sub_units = 8;
	d->geo.rot_ns = ROT_5900;
	d->geo.surfaces = 2;
	d->geo.nr_zones = 2;
	d->geo.media = PLATTER_SMR;
	d->geo.head_mtracks = 4000;
	d->geo.zone[0].cyls = 4;
	d->geo.zone[0].track_blocks = 3;
	d->geo.zone[0].swath_cyls = 2;
	d->geo.zone[1].cyls = 2;
	d->geo.zone[1].track_blocks = 2;
	d->geo.blocks = 29;
	KUNIT_ASSERT_EQ(test, 0, platter_geo_init(&d->geo, &error));
	write_map(d, map, 0, 3);	/* run 0 has tracks 0-2 and 3-5 only */
	expect_bad(test, map, 29, 3, 6, 0, 0);
	write_map(d, map, 3, 3);
	expect_bad(test, map, 29, 0, 0, 0, 0);
	write_map(d, map, 24, 2);	/* zone 1, surface of four blocks */
	expect_bad(test, map, 29, 26, 28, 0, 0);
	write_map(d, map, 28, 1);	/* the device ends in this track */
	expect_bad(test, map, 29, 26, 28, 0, 0);
}

struct covers {
	u64 blk;
	u64 n;
	bool hit;
};

static int look_for_cover(void *ctx, enum platter_effect effect, u64 blk, u32 n, u64 src)
{
	struct covers *c = ctx;

	c->hit |= effect == PLATTER_COVERED && blk < c->blk + c->n && c->blk < blk + n;
	return 0;
}

/* Does writing the block @writes destroy a block of the range? */
static bool covers(const struct drive *d, u64 writes, u64 blk, u64 n)
{
	struct covers c = { .blk = blk, .n = n };

	platter_geo_write(&d->geo, writes, 1, look_for_cover, &c);
	return c.hit;
}

static void passes_destroy_nothing_before_them(struct kunit *test)
{
	u64 rnd = 8;
	u32 i;

	for (i = 0; i < 30; i++) {
		struct drive *d = plain_drive(test, i & 1 ? PLATTER_IMR : PLATTER_SMR, 9,
					      1 + next_random(&rnd) % 6,
					      1000 + next_random(&rnd) % 4000,
					      next_random(&rnd) % 100, 8);
		u64 a, b, end;

		for (a = 0; a < d->geo.blocks; a++) {
			u32 turn = platter_geo_pass(&d->geo, a, &end);

			KUNIT_ASSERT_LT(test, turn, platter_geo_passes(&d->geo));
			KUNIT_ASSERT_LT(test, a, end);
			for (b = 0; b < d->geo.blocks; b++) {
				u32 other = platter_geo_pass(&d->geo, b, &end);

				if (covers(d, a, b, 1))
					KUNIT_ASSERT_TRUE(test, turn < other ||
							  (turn == other && a < b));
			}
		}
	}
}

static void draw_medium(struct platter_geo *geo, u64 *rnd)
{
	u32 i;

	geo->sub_units = 8;
	geo->rot_ns = ROT_5900;
	geo->media = next_random(rnd) % 4 ? PLATTER_SMR : PLATTER_IMR;
	geo->head_mtracks = 1000 + next_random(rnd) % 5000;
	geo->surfaces = 1 + next_random(rnd) % 3;
	geo->nr_zones = 1 + next_random(rnd) % 3;
	for (i = 0; i < geo->surfaces; i++)
		geo->density[i] = 800 + next_random(rnd) % 400;
	for (i = 0; i < geo->nr_zones; i++) {
		struct platter_zone *z = &geo->zone[i];

		z->cyls = 1 + next_random(rnd) % 20;
		z->track_blocks = 1 + next_random(rnd) % 20;
		z->swath_cyls = next_random(rnd) % 8;
		z->track_skew_units = next_random(rnd) % 200;
	}
	geo->nr_conv = next_random(rnd) % 3;
	for (i = 0; i < geo->nr_conv; i++) {
		geo->conv[i].start_blk = next_random(rnd) % 8;
		geo->conv[i].blocks = 1 + next_random(rnd) % 12;
	}
}

/* Draw a medium, which may end inside a track; false if there is no such medium. */
static bool draw_drive(struct drive *d, u64 *rnd)
{
	const char *error;

	memset(&d->geo, 0, sizeof(d->geo));
	draw_medium(&d->geo, rnd);
	if (platter_geo_init(&d->geo, &error))
		return false;
	if (!d->geo.nr_conv)
		d->geo.blocks -= next_random(rnd) % min_t(u64, d->geo.blocks, 8);
	return true;
}

/*
 * The blocks that platter_reach reports as destroying a range are exactly those that do:
 * every write is tried.
 */
static void threat_is_where_damage_comes_from(struct kunit *test)
{
	struct damage_map *map = fresh(test, struct damage_map);
	struct drive *d = fresh(test, struct drive);
	u64 rnd = 7, blk, n, from, w, hits = 0;
	struct platter_reach reach;
	u32 i, j, m;

	KUNIT_ASSERT_NOT_NULL(test, map);
	KUNIT_ASSERT_NOT_NULL(test, d);
	for (i = 0; i < 150; i++) {
		if (!draw_drive(d, &rnd))
			continue;
		for (j = 0; j < 12; j++) {
			memset(map, 0, sizeof(*map));
			blk = next_random(&rnd) % d->geo.blocks;
			n = d->geo.blocks - blk;
			n = 1 + next_random(&rnd) % min_t(u64, n, j & 1 ? 60 : 8);
			platter_reach_begin(&reach, &d->geo, blk, n, PLATTER_DESTROYED_BY);
			while (platter_reach_next(&reach, &from, &m)) {
				KUNIT_ASSERT_TRUE(test, from + m <= d->geo.blocks);
				memset(map->bad + from, 1, m);
			}
			for (w = 0; w < d->geo.blocks; w++) {
				bool hit = (w < blk || w >= blk + n) && covers(d, w, blk, n);

				KUNIT_ASSERT_EQ(test, !!map->bad[w], hit);
				hits += hit;
			}
		}
	}
	KUNIT_EXPECT_TRUE(test, hits > 10000);
}

/* The blocks reported to upper layers for a write are exactly those that it destroys. */
static void reach_is_what_a_write_covers(struct kunit *test)
{
	struct damage_map *map = fresh(test, struct damage_map);
	struct drive *d = fresh(test, struct drive);
	struct platter_reach reach;
	u64 rnd = 11, blk, n, k, from, drawn = 0;
	u32 i, j, m;

	KUNIT_ASSERT_NOT_NULL(test, map);
	KUNIT_ASSERT_NOT_NULL(test, d);
	for (i = 0; i < 400; i++) {
		if (!draw_drive(d, &rnd))
			continue;
		drawn++;
		for (j = 0; j < 30; j++) {
			memset(map, 0, sizeof(*map));
			blk = next_random(&rnd) % d->geo.blocks;
			n = d->geo.blocks - blk;
			n = 1 + next_random(&rnd) % (j & 1 ? n : min_t(u64, n, 8));
			write_map(d, map, blk, n);
			platter_reach_begin(&reach, &d->geo, blk, n, PLATTER_DESTROYS);
			/*
			 * 1: covered; 2: covered and reported; a block may be reported
			 * twice.
			 */
			while (platter_reach_next(&reach, &from, &m)) {
				KUNIT_ASSERT_TRUE(test, from + m <= d->geo.blocks);
				for (k = from; k < from + m; k++) {
					KUNIT_ASSERT_TRUE(test, map->bad[k]);
					map->bad[k] = 2;
				}
			}
			for (k = 0; k < d->geo.blocks; k++)
				KUNIT_ASSERT_TRUE(test, map->bad[k] != 1);
		}
	}
	KUNIT_EXPECT_TRUE(test, drawn > 300);
}

/* ---------------------------------------------------------------- mechanics */

static void seek_monotone(struct kunit *test)
{
	const struct platter_profile *p;
	u32 i;

	for (i = 0; (p = platter_profile_nth(i)); i++) {
		struct drive *d = make_drive(test, p->name, 0);
		u32 last = 0, step = d->geo.cyls / 5000 + 1, c;

		KUNIT_EXPECT_EQ(test, 0U, platter_seek_ns(&d->mech.seek, 0));
		for (c = 1; c < d->geo.cyls; c += step) {
			u32 ns = platter_seek_ns(&d->mech.seek, c);

			KUNIT_ASSERT_GE(test, ns, last);
			last = ns;
		}
		KUNIT_EXPECT_EQ(test, p->seek_min_us * 1000,
				platter_seek_ns(&d->mech.seek, 1));
		KUNIT_EXPECT_EQ(test, p->seek_max_us * 1000,
				platter_seek_ns(&d->mech.seek, 0xffffffff));
	}
}

static void seek_table(struct kunit *test)
{
	struct platter_seek *s = fresh(test, struct platter_seek);
	const char *error = "";

	s->nr = 3;
	s->point[0].distance = 1;
	s->point[0].ns = 1000;
	s->point[1].distance = 11;
	s->point[1].ns = 2000;
	s->point[2].distance = 111;
	s->point[2].ns = 1900;		/* measured tables contain noise */
	s->cyls = 200;
	KUNIT_ASSERT_EQ(test, 0, platter_seek_init(s, &error));
	KUNIT_EXPECT_EQ(test, 0U, platter_seek_ns(s, 0));
	KUNIT_EXPECT_EQ(test, 1000U, platter_seek_ns(s, 1));
	KUNIT_EXPECT_EQ(test, 1500U, platter_seek_ns(s, 6));
	KUNIT_EXPECT_EQ(test, 2000U, platter_seek_ns(s, 11));
	KUNIT_EXPECT_EQ(test, 1950U, platter_seek_ns(s, 61));
	KUNIT_EXPECT_EQ(test, 1900U, platter_seek_ns(s, 199));
	s->point[2].distance = 11;
	KUNIT_EXPECT_EQ(test, -EINVAL, platter_seek_init(s, &error));
}

/*
 * Skylight, Test 1: with the volatile cache off and one request at a time, the next block
 * has just passed when the next write arrives.  From completion to completion: one rotation
 * and the block itself.
 */
static void adjacent_writes_cost_a_rotation(struct kunit *test)
{
	struct drive *d = make_drive(test, "st5000as0011", 0);
	struct platter_service svc;
	u64 t = 0, last, i;
	u32 block;

	KUNIT_ASSERT_EQ(test, ROT_5900, d->geo.rot_ns);
	platter_mech_service(&d->mech, d->mech.overhead_ns, 0, 1, true, &svc);
	last = svc.finish_ns;
	block = svc.transfer_ns;
	for (i = 1; i < 400; i++) {
		t = last + d->mech.write_overhead_ns;
		platter_mech_service(&d->mech, t, i, 1, true, &svc);
		KUNIT_EXPECT_LE(test, svc.finish_ns - last, (u64)ROT_5900 + block + 1);
		KUNIT_EXPECT_GE(test, svc.finish_ns - last, (u64)ROT_5900 + block - 1);
		last = svc.finish_ns;
	}
	/* no drift: 399 times exactly a rotation plus 399 blocks */
	KUNIT_EXPECT_LE(test, last, (u64)ROT_5900 * 400 + 400ULL * (block + 1));
}

static void sequential_runs_at_media_rate(struct kunit *test)
{
	static const char * const names[] = { "st4000nc001", "st8000as0002", "kvimr" };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		struct drive *d = make_drive(test, names[i], 0);
		struct platter_service svc;
		u64 n = 64ULL * d->geo.zone[0].track_blocks, limit;

		platter_mech_service(&d->mech, 0, 0, n, false, &svc);
		/* per track: one rotation and the skew, here at most 1.5 turns */
		limit = svc.transfer_ns + svc.transfer_ns / 4;
		KUNIT_EXPECT_LE(test, svc.finish_ns, limit);
		KUNIT_EXPECT_GE(test, svc.finish_ns, svc.transfer_ns);
		KUNIT_EXPECT_EQ(test, svc.finish_ns, svc.seek_ns + svc.rotation_ns +
				svc.transfer_ns);
	}
}

static void outer_tracks_are_faster(struct kunit *test)
{
	struct drive *d = make_drive(test, "st4000nc001", 0);
	struct platter_service od, id;

	platter_mech_service(&d->mech, 0, 0, 4096, false, &od);
	platter_mech_service(&d->mech, od.finish_ns, d->geo.blocks - 4096, 4096, false, &id);
	/* 448 blocks per track outside, 224 inside */
	KUNIT_EXPECT_GE(test, id.transfer_ns * 10, od.transfer_ns * 19);
	KUNIT_EXPECT_LE(test, id.transfer_ns * 10, od.transfer_ns * 21);
}

struct random_blocks {
	u64 blk[256];
};

static u64 serve_all(struct drive *d, const u64 *blk, u32 nr, u32 depth, bool sptf)
{
	bool done[256] = { false };
	u64 t = 0;
	u32 left = nr;

	while (left) {
		struct platter_service svc;
		u32 i, seen = 0, best = nr;
		u64 best_ns = ~0ULL;

		for (i = 0; i < nr && seen < depth; i++) {
			u64 ns;

			if (done[i])
				continue;
			seen++;
			ns = sptf ? platter_mech_position_ns(&d->mech, t, blk[i], false) :
				    seen;
			if (ns < best_ns) {
				best_ns = ns;
				best = i;
			}
		}
		platter_mech_service(&d->mech, t, blk[best], 1, false, &svc);
		t = svc.finish_ns;
		done[best] = true;
		left--;
	}
	return t;
}

static void sptf_beats_fifo(struct kunit *test)
{
	struct drive *d = make_drive(test, "st4000nc001", 0);
	struct random_blocks *r = fresh(test, struct random_blocks);
	u64 rnd = 5, fifo, sptf;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(r->blk); i++)
		r->blk[i] = next_random(&rnd) % d->geo.blocks;
	fifo = serve_all(d, r->blk, ARRAY_SIZE(r->blk), 32, false);
	platter_mech_init(&d->mech, &d->geo);
	sptf = serve_all(d, r->blk, ARRAY_SIZE(r->blk), 32, true);
	/* a queue of 32 roughly halves the time of random reads */
	KUNIT_EXPECT_LT(test, sptf * 10, fifo * 7);
}

static void position_equals_service(struct kunit *test)
{
	struct drive *d = make_drive(test, "st5000as0011", 0);
	u64 rnd = 11, t = 0;
	u32 i;

	for (i = 0; i < 500; i++) {
		u64 blk = next_random(&rnd) % d->geo.blocks, ns;
		struct platter_service svc;
		bool write = i & 1;

		t += next_random(&rnd) % 20000000;
		ns = platter_mech_position_ns(&d->mech, t, blk, write);
		platter_mech_service(&d->mech, t, blk, 1, write, &svc);
		KUNIT_EXPECT_EQ(test, ns, svc.seek_ns + svc.rotation_ns);
		KUNIT_EXPECT_EQ(test, svc.finish_ns, t + ns + svc.transfer_ns);
		t = svc.finish_ns;
	}
}

/* Settling, longer or shorter than a read's, is part of a move; the sum is never below 0. */
static void settling_needs_a_move(struct kunit *test)
{
	static const s64 settle[] = { 300000, 0, -300000, -1000000000 };
	struct drive *d = make_drive(test, "st5000as0011", 0);
	struct platter_service svc;
	u64 far = d->geo.blocks / 2, t = 0;
	s64 ns;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(settle); i++) {
		d->mech.write_settle_ns = settle[i];
		platter_mech_service(&d->mech, t, 0, 1, false, &svc);
		platter_mech_service(&d->mech, svc.finish_ns, 1, 1, true, &svc);
		KUNIT_EXPECT_EQ(test, svc.seek_ns, 0);
		platter_mech_service(&d->mech, svc.finish_ns, far, 1, false, &svc);
		ns = max_t(s64, (s64)svc.seek_ns + settle[i], 0);
		platter_mech_service(&d->mech, svc.finish_ns, 0, 1, false, &svc);
		platter_mech_service(&d->mech, svc.finish_ns, far, 1, true, &svc);
		KUNIT_EXPECT_EQ(test, svc.seek_ns, (u64)ns);
		t = svc.finish_ns;
	}
}

/* A FLUSH of one rotation: the next block is under the head at its end. */
static void flush_has_a_price(struct kunit *test)
{
	struct drive *d = make_drive(test, "st500dm002", 0);
	struct platter_service svc;
	const char *error = "";
	u64 wrote, due;

	/* 7,200 rpm */
	KUNIT_ASSERT_EQ(test, 8333333U, (u32)d->geo.rot_ns);
	/* no profile sets flush_us: the FLUSH ends when it could begin, and changes nothing */
	KUNIT_EXPECT_EQ(test, 0U, d->mech.flush_ns);
	platter_mech_service(&d->mech, 100000, 0, 1, true, &svc);
	wrote = svc.finish_ns;
	KUNIT_EXPECT_EQ(test, 50ULL, platter_mech_flush(&d->mech, 50));
	KUNIT_EXPECT_EQ(test, wrote, d->mech.free_ns);

	d->cfg.profile.flush_us = 8333;
	KUNIT_ASSERT_EQ(test, 0, platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
	KUNIT_EXPECT_EQ(test, 8333000U, d->mech.flush_ns);
	platter_mech_service(&d->mech, 100000, 0, 1, true, &svc);
	KUNIT_ASSERT_EQ(test, wrote, svc.finish_ns);
	/* a FLUSH that could begin earlier waits for the head; a later one does not */
	due = platter_mech_flush(&d->mech, 50);
	KUNIT_EXPECT_EQ(test, wrote + 8333000, due);
	KUNIT_EXPECT_EQ(test, due, d->mech.free_ns);
	platter_mech_service(&d->mech, due, 1, 1, true, &svc);
	/* a rotation is 333 ns longer, within the rounding of angles */
	KUNIT_EXPECT_EQ(test, 0ULL, svc.seek_ns);
	KUNIT_EXPECT_LE(test, svc.rotation_ns, 340ULL);
	KUNIT_EXPECT_GE(test, svc.rotation_ns, 320ULL);
	due = platter_mech_flush(&d->mech, svc.finish_ns + 1000000);
	KUNIT_EXPECT_EQ(test, svc.finish_ns + 1000000 + 8333000, due);
	KUNIT_EXPECT_EQ(test, due, d->mech.free_ns);

	/* scaled as all durations */
	d->cfg.time_permille = 100;
	KUNIT_ASSERT_EQ(test, 0, platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
	KUNIT_EXPECT_EQ(test, 833300U, d->mech.flush_ns);
}

static void flush_ends_reading_ahead(struct kunit *test)
{
	struct drive *d = make_drive(test, "st4000nc001", 0);
	struct platter_service svc;
	u64 due, over;

	d->mech.lookahead_blocks = 512;
	platter_mech_service(&d->mech, 0, 0, 16, false, &svc);
	/* without flush_us, reading ahead continues */
	platter_mech_flush(&d->mech, svc.finish_ns);
	KUNIT_EXPECT_TRUE(test, platter_mech_lookahead(&d->mech, svc.finish_ns, 16, 16, &due));
	platter_mech_drop(&d->mech);

	d->mech.flush_ns = 3 * ROT_5900;
	platter_mech_service(&d->mech, due, 0, 16, false, &svc);
	/* a quarter of a track, 112 of 448 blocks, has passed when it begins */
	over = platter_mech_flush(&d->mech, svc.finish_ns + ROT_5900 / 4);
	KUNIT_EXPECT_TRUE(test, platter_mech_lookahead(&d->mech, over, 16, 110, &due));
	KUNIT_EXPECT_FALSE(test, platter_mech_lookahead(&d->mech, over, 130, 16, &due));
}

/* The default configuration is the profile's, whichever way it is made. */
static void config_is_the_profiles(struct kunit *test)
{
	struct drive *d = fresh(test, struct drive);
	const struct platter_profile *p;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, d);
	for (i = 0; (p = platter_profile_nth(i)); i++) {
		const char *error = "";
		u64 blocks = p->sectors ? p->sectors / 8 : 100000;

		memset(&d->cfg, 0x5a, sizeof(d->cfg));
		platter_config_init(&d->cfg, p, blocks);
		KUNIT_EXPECT_EQ(test, 0, memcmp(&d->cfg.profile, p, sizeof(*p)));
		KUNIT_EXPECT_EQ(test, blocks, d->cfg.blocks);
		KUNIT_EXPECT_EQ(test, 1000U, d->cfg.time_permille);
		KUNIT_EXPECT_EQ(test, 0U, d->cfg.nr_zones + d->cfg.track_blocks +
				d->cfg.surfaces + d->cfg.nr_seek + d->cfg.nr_conv);
		KUNIT_ASSERT_EQ(test, 0, platter_config_build(&d->cfg, &d->geo, &d->mech, &error));
		KUNIT_EXPECT_EQ(test, p->rpm == 7200 ? 8333333U : ROT_5900, d->geo.rot_ns);
		KUNIT_EXPECT_EQ(test, p->overhead_us * 1000, d->mech.overhead_ns);
		KUNIT_EXPECT_EQ(test, 4096000 / p->bus_mb_s, d->mech.bus_block_ns);
		KUNIT_EXPECT_EQ(test, p->flush_us * 1000, d->mech.flush_ns);
	}
	KUNIT_EXPECT_GE(test, i, 8U);
}

static void lookahead_streams(struct kunit *test)
{
	struct drive *d = make_drive(test, "st4000nc001", 0);
	struct platter_service svc;
	u64 t = 0, due, blk, first;

	d->mech.lookahead_blocks = 512;
	platter_mech_service(&d->mech, 0, 0, 16, false, &svc);
	first = svc.finish_ns;
	t = first;
	for (blk = 16; blk < 4096; blk += 16) {
		u64 ready = t + d->mech.overhead_ns;

		KUNIT_ASSERT_TRUE(test, platter_mech_lookahead(&d->mech, ready, blk, 16, &due));
		KUNIT_ASSERT_GE(test, due, ready);
		t = due;
	}
	/* within a quarter of the media rate; without look-ahead each read costs a rotation */
	KUNIT_EXPECT_LT(test, t - first, (u64)ROT_5900 * 4096 / 448 * 5 / 4);
	/* a write into the buffer empties it */
	platter_mech_invalidate(&d->mech, blk - 1, 1);
	KUNIT_EXPECT_FALSE(test, platter_mech_lookahead(&d->mech, t, blk - 16, 16, &due));
	/* far away is no hit */
	KUNIT_EXPECT_FALSE(test, platter_mech_lookahead(&d->mech, t, 1000000, 16, &due));
}

static void lookahead_waits_when_full(struct kunit *test)
{
	struct drive *d = make_drive(test, "st4000nc001", 0);
	struct platter_service svc;
	u64 t, due, blk, first;

	d->mech.lookahead_blocks = 512;
	platter_mech_service(&d->mech, 0, 0, 16, false, &svc);
	/* by now the ring is full, and the head waits */
	first = svc.finish_ns + 100ULL * ROT_5900;
	t = first;
	for (blk = 16; blk < 4096; blk += 16) {
		u64 ready = t + d->mech.overhead_ns;

		KUNIT_ASSERT_TRUE(test, platter_mech_lookahead(&d->mech, ready, blk, 16, &due));
		t = due;
	}
	/* blocks that were not in the buffer come no faster than the medium delivers them */
	KUNIT_EXPECT_LT(test, (u64)ROT_5900 * (4096 - 512) / 448, t - first);
	KUNIT_EXPECT_LT(test, t - first, (u64)ROT_5900 * 4096 / 448 * 3 / 2);
}

static struct kunit_case platter_cases[] = {
	KUNIT_CASE(geometry_round_trip),
	KUNIT_CASE(geometry_runs),
	KUNIT_CASE(stretched_tracks_have_a_limit),
	KUNIT_CASE(geometry_conventional),
	KUNIT_CASE(torn_write_fig_2_23),
	KUNIT_CASE(overlap_is_additive),
	KUNIT_CASE(overlap_by_angle),
	KUNIT_CASE(overlap_smr_window),
	KUNIT_CASE(overlap_imr_window),
	KUNIT_CASE(overlap_ends_with_the_run),
	KUNIT_CASE(threat_is_where_damage_comes_from),
	KUNIT_CASE(passes_destroy_nothing_before_them),
	KUNIT_CASE(reach_is_what_a_write_covers),
	KUNIT_CASE(seek_monotone),
	KUNIT_CASE(seek_table),
	KUNIT_CASE(adjacent_writes_cost_a_rotation),
	KUNIT_CASE(sequential_runs_at_media_rate),
	KUNIT_CASE(outer_tracks_are_faster),
	KUNIT_CASE(sptf_beats_fifo),
	KUNIT_CASE(position_equals_service),
	KUNIT_CASE(settling_needs_a_move),
	KUNIT_CASE(flush_has_a_price),
	KUNIT_CASE(flush_ends_reading_ahead),
	KUNIT_CASE(config_is_the_profiles),
	KUNIT_CASE(lookahead_streams),
	KUNIT_CASE(lookahead_waits_when_full),
	{}
};

static struct kunit_suite platter_suite = {
	.name = "dm-platter",
	.test_cases = platter_cases,
};

kunit_test_suites(&platter_suite);

#ifdef __KERNEL__
MODULE_DESCRIPTION("KUnit tests of dm-platter's geometry and mechanics");
MODULE_LICENSE("GPL");
#endif
