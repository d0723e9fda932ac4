// SPDX-License-Identifier: GPL-2.0
/* The medium's side: dm-platter's own geometry. */
#include <stdio.h>
#include <stdlib.h>

#include "medium.h"
#include "profiles.h"

static struct platter_geo media[MEDIA];

static void draw_zone(const struct platter_geo *geo, struct platter_zone *z,
		      medium_random random, u32 track_blocks)
{
	u32 units;

	z->cyls = 6 + random(60);
	z->track_blocks = track_blocks;
	units = track_blocks * geo->sub_units;
	/* As often whole blocks as not, and any angle. */
	z->track_skew_units = random(2) ? random(track_blocks) * geo->sub_units : random(units);
	z->head_skew_units = random(units);
	z->group_skew_units = random(units);
	z->swath_cyls = random(2) ? 0 : 3 + random(z->cyls);
}

static void draw(struct platter_geo *geo, medium_random random, bool interlaced)
{
	u32 i, longest = 4 + random(60);
	u64 total;

	memset(geo, 0, sizeof(*geo));
	geo->sub_units = 8;
	geo->rot_ns = 8333333;
	geo->media = interlaced ? PLATTER_IMR : PLATTER_SMR;
	/* From a head that reaches just into the next track to one four tracks wide. */
	geo->head_mtracks = interlaced ? 1500 : 1001 + random(3999);
	geo->surfaces = 1 + random(3);
	geo->nr_zones = interlaced ? 1 : 1 + random(4);
	if (interlaced)
		longest = 16 + random(48);
	for (i = 0; i < geo->surfaces && !interlaced && random(3) == 0; i++)
		geo->density[i] = 800 + random(200);
	for (i = 0; i < geo->nr_zones; i++)
		draw_zone(geo, &geo->zone[i], random, longest - random(interlaced ? 1 : longest / 2));
	for (total = 0, i = 0; i < geo->nr_zones; i++)
		total += (u64)geo->zone[i].cyls * geo->zone[i].track_blocks * geo->surfaces;
	if (random(4) == 0) {
		geo->nr_conv = 1;
		geo->conv[0].start_blk = random(total / 2);
		geo->conv[0].blocks = 1 + random(total / 8);
	}
}

/* As msg_geometry() of the target. */
static void describe(const struct platter_geo *geo, char *reply, size_t size)
{
	static const char *const names[] = { "cmr", "smr", "imr" };
	struct platter_run run;
	size_t sz = 0;
	u64 b;
	u32 i;

	sz += snprintf(reply + sz, size - sz,
		       "platter 1\nblocks %llu\nmedia %s\nhead_tracks %u.%03u\nwindow_tracks %u\nsurfaces %u\ndensity",
		       (unsigned long long)geo->blocks, names[geo->media],
		       geo->head_mtracks / 1000, geo->head_mtracks % 1000, platter_geo_window(geo),
		       geo->surfaces);
	for (i = 0; i < geo->surfaces; i++)
		sz += snprintf(reply + sz, size - sz, " %u", geo->density[i]);
	sz += snprintf(reply + sz, size - sz, "\n");
	for (i = 0; i < geo->nr_zones; i++)
		sz += snprintf(reply + sz, size - sz, "zone %u %llu %llu %u %u %u %u %u\n", i,
			       (unsigned long long)geo->zone[i].start_blk,
			       (unsigned long long)geo->zone[i].blocks, geo->zone[i].cyls,
			       geo->zone[i].track_blocks, geo->zone[i].swath_cyls,
			       geo->zone[i].track_skew_units, geo->zone[i].head_skew_units);
	for (i = 0; i < geo->nr_conv; i++)
		sz += snprintf(reply + sz, size - sz, "conventional %llu %llu\n",
			       (unsigned long long)geo->conv[i].start_blk,
			       (unsigned long long)geo->conv[i].blocks);
	for (b = 0; platter_geo_run(geo, b, &run); b = run.start_blk + run.blocks)
		sz += snprintf(reply + sz, size - sz, "run %llu %llu %u %u %d %u %s %s\n",
			       (unsigned long long)run.start_blk,
			       (unsigned long long)((run.blocks + run.track_blocks - 1) /
						    run.track_blocks), run.track_blocks,
			       run.zone, run.surface, run.first_cyl, run.inward ? "in" : "out",
			       run.conventional ? "conventional" : names[geo->media]);
	if (sz >= size)
		abort();
}

uint64_t medium_draw(int nr, medium_random random, bool interlaced, char *reply, size_t size)
{
	struct platter_geo *geo = &media[nr];
	const char *error = "";

	do {
		draw(geo, random, interlaced);
		if (!platter_geo_init(geo, &error) && random(2)) {
			/* The device may end anywhere in its last track. */
			geo->blocks -= random(geo->zone[geo->nr_zones - 1].track_blocks);
			error = "";
		}
	} while (*error || (geo->nr_conv && geo->conv[0].start_blk + geo->conv[0].blocks > geo->blocks));

	describe(geo, reply, size);
	return geo->blocks;
}

bool medium_profile(const char *name, char *reply, size_t size)
{
	static struct platter_config cfg;
	const struct platter_profile *p = platter_profile_find(name);
	static struct platter_mech mech;
	const char *error;

	if (!p)
		return false;
	platter_config_init(&cfg, p, p->sectors / 8);
	if (platter_config_build(&cfg, &media[0], &mech, &error))
		return false;
	describe(&media[0], reply, size);
	return true;
}

#define MAX_RANGES	4096

/* Blocks that the head has covered and the write has not written since. */
struct covered {
	u32 nr;
	struct {
		u64 blk;
		u32 n;
	} range[MAX_RANGES];
};

static int effect(void *ctx, enum platter_effect effect, u64 blk, u32 n, u64 src)
{
	struct covered *c = ctx;
	u32 i, nr = c->nr;

	if (effect == PLATTER_COVERED) {
		if (c->nr == MAX_RANGES)
			abort();
		c->range[c->nr].blk = blk;
		c->range[c->nr++].n = n;
		return 0;
	}
	for (i = 0; i < nr; i++) {
		u64 start = c->range[i].blk, end = start + c->range[i].n;

		if (blk >= end || start >= blk + n)
			continue;
		c->range[i].n = start < blk ? blk - start : 0;
		if (end > blk + n) {
			if (c->nr == MAX_RANGES)
				abort();
			c->range[c->nr].blk = blk + n;
			c->range[c->nr++].n = end - (blk + n);
		}
	}
	return 0;
}

int medium_write(int nr, uint64_t block, uint64_t n, medium_destroyed fn, void *ctx)
{
	static struct covered c;
	int r = 0;
	u32 i;

	c.nr = 0;
	platter_geo_write(&media[nr], block, n, effect, &c);
	for (i = 0; i < c.nr && !r; i++)
		r = c.range[i].n ? fn(ctx, c.range[i].blk, c.range[i].n) : 0;
	return r;
}
