// SPDX-License-Identifier: GPL-2.0
/*
 * Geometry of the medium and the reach of its write head.  Pure.
 */
#include "geometry/geometry.h"

static u32 surface_track_blocks(const struct platter_geo *geo,
				const struct platter_zone *z, u32 surface)
{
	u32 tb = div_u64((u64)z->track_blocks * geo->density[surface], 1000);

	return tb ? tb : 1;
}

/*
 * A denser surface passes more units in the same time: the skew grows with the density.  It is
 * rounded up to a whole block if the zone's own skew is one, so that columns stay aligned.
 */
static u32 surface_skew_units(const struct platter_geo *geo,
			      const struct platter_zone *z, u32 surface, u32 skew)
{
	u32 units = surface_track_blocks(geo, z, surface) * geo->sub_units;
	u32 scaled = skew;

	if (geo->density[surface] != 1000)
		scaled = div_u64((u64)skew * geo->density[surface] + 999, 1000);
	if (skew % geo->sub_units == 0)
		scaled = (scaled + geo->sub_units - 1) / geo->sub_units *
			 geo->sub_units;
	return scaled % units;
}

static u32 units_to_ns(const struct platter_geo *geo, u32 units, u32 track_units)
{
	return div_u64((u64)units * geo->rot_ns, track_units);
}

/* Shift of the angle of the first block from one run to the next. */
static u32 run_advance_ns(const struct platter_geo *geo,
			  const struct platter_zone *z, u32 surface, u32 tracks,
			  bool last)
{
	u32 tu = surface_track_blocks(geo, z, surface) * geo->sub_units;
	u32 ts = surface_skew_units(geo, z, surface, z->track_skew_units);
	u32 skew = last ? z->group_skew_units : z->head_skew_units;
	u32 units;

	div_u64_rem((u64)(tracks - 1) * ts, tu, &units);
	/* there are no columns between surfaces: a skew is a time */
	return units_to_ns(geo, units, tu) +
	       units_to_ns(geo, skew, z->track_blocks * geo->sub_units);
}

static u32 zone_groups(const struct platter_zone *z)
{
	return (z->cyls + z->swath_cyls - 1) / z->swath_cyls;
}

static u32 group_cyls(const struct platter_zone *z, u32 group)
{
	u32 left = z->cyls - group * z->swath_cyls;

	return min_t(u32, left, z->swath_cyls);
}

/*
 * Surfaces take turns up and then down the stack, so that no head switch is needed between two
 * groups of swaths.
 */
static u32 nth_surface(const struct platter_geo *geo, const struct platter_zone *z,
		       u32 group, u32 nth)
{
	return (z->first_group + group) & 1 ? geo->surfaces - 1 - nth : nth;
}

static bool nth_inward(const struct platter_geo *geo, const struct platter_zone *z,
		       u32 group, u32 nth)
{
	u64 run = (u64)(z->first_group + group) * geo->surfaces + nth;

	return !(run & 1);
}

static u64 cyls_blocks(const struct platter_geo *geo, const struct platter_zone *z,
		       u32 cyls)
{
	u64 sum = 0;
	u32 s;

	for (s = 0; s < geo->surfaces; s++)
		sum += surface_track_blocks(geo, z, s);
	return sum * cyls;
}

static u32 group_advance_ns(const struct platter_geo *geo,
			    const struct platter_zone *z, u32 cyls, u32 nr_surfaces,
			    u32 group)
{
	u64 sum = 0;
	u32 n, rem;

	for (n = 0; n < nr_surfaces; n++)
		sum += run_advance_ns(geo, z, nth_surface(geo, z, group, n), cyls,
				      n + 1 == geo->surfaces);
	div_u64_rem(sum, geo->rot_ns, &rem);
	return rem;
}

static int init_zone(struct platter_geo *geo, u32 i, const char **error)
{
	struct platter_zone *z = &geo->zone[i];
	u32 groups, last, rem;

	if (!z->track_blocks || z->track_blocks > PLATTER_MAX_TRACK_BLOCKS ||
	    !z->cyls || z->cyls > PLATTER_MAX_CYLINDERS) {
		*error = "A zone needs 1 to 2^30 cylinders and 1 to 65536 blocks per track";
		return -EINVAL;
	}
	if (!z->swath_cyls || z->swath_cyls > z->cyls)
		z->swath_cyls = z->cyls;

	if (i) {
		const struct platter_zone *p = z - 1;

		z->first_cyl = p->first_cyl + p->cyls;
		z->first_group = p->first_group + zone_groups(p);
		z->start_blk = p->start_blk + p->blocks;
		groups = zone_groups(p);
		last = group_cyls(p, groups - 1);
		div_u64_rem(p->base_ns + (u64)p->group_ns * (groups - 1) +
			    group_advance_ns(geo, p, last, geo->surfaces, 0),
			    geo->rot_ns, &rem);
		z->base_ns = rem;
	} else {
		z->first_cyl = 0;
		z->first_group = 0;
		z->start_blk = 0;
		z->base_ns = 0;
	}
	z->blocks = cyls_blocks(geo, z, z->cyls);
	z->group_blocks = cyls_blocks(geo, z, z->swath_cyls);
	/* the order of the surfaces does not change a group's sum */
	z->group_ns = group_advance_ns(geo, z, z->swath_cyls, geo->surfaces, 0);
	return 0;
}

/* Conventional ranges are whole tracks: widen, sort, merge. */
static int init_conv(struct platter_geo *geo, const char **error)
{
	struct platter_pos pos;
	u32 i, j;

	for (i = 0; i < geo->nr_conv; i++) {
		struct platter_conv *c = &geo->conv[i];
		u64 end;

		if (!c->blocks || c->start_blk >= geo->blocks ||
		    c->blocks > geo->blocks - c->start_blk) {
			*error = "A conventional range must lie within the device, not empty";
			return -EINVAL;
		}
		platter_geo_pos(geo, c->start_blk + c->blocks - 1, &pos);
		end = min_t(u64, pos.track_start + pos.track_blocks, geo->blocks);
		platter_geo_pos(geo, c->start_blk, &pos);
		c->start_blk = pos.track_start;
		c->blocks = end - c->start_blk;
	}
	for (i = 1; i < geo->nr_conv; i++) {
		struct platter_conv c = geo->conv[i];

		for (j = i; j && geo->conv[j - 1].start_blk > c.start_blk; j--)
			geo->conv[j] = geo->conv[j - 1];
		geo->conv[j] = c;
	}
	for (i = 0; i + 1 < geo->nr_conv;) {
		struct platter_conv *c = &geo->conv[i];
		u64 end = c->start_blk + c->blocks;

		if (c[1].start_blk > end) {
			i++;
			continue;
		}
		end = max_t(u64, end, c[1].start_blk + c[1].blocks);
		c->blocks = end - c->start_blk;
		geo->nr_conv--;
		for (j = i + 1; j < geo->nr_conv; j++)
			geo->conv[j] = geo->conv[j + 1];
	}
	return 0;
}

/**
 * platter_geo_init() - check the given members and derive the others
 * @geo: @blocks, @sub_units, @rot_ns, @surfaces, the first six members of each zone, media,
 *	head width and conventional ranges are given; a density of 0 means 1000; @blocks of 0 means
 *	all blocks of the zones
 * @error: set to a sentence on failure
 *
 * Widens conventional ranges to whole tracks and merges them.
 *
 * Context: any; does not sleep.
 * Return: 0, or -EINVAL.
 */
int platter_geo_init(struct platter_geo *geo, const char **error)
{
	u64 total;
	u32 i, groups;
	u64 cyls = 0;
	int r;

	if (!geo->surfaces || geo->surfaces > PLATTER_MAX_SURFACES) {
		*error = "The number of surfaces must be 1 to 32";
		return -EINVAL;
	}
	if (!geo->nr_zones || geo->nr_zones > PLATTER_MAX_ZONES) {
		*error = "The number of zones must be 1 to 64";
		return -EINVAL;
	}
	if (!geo->rot_ns || !geo->sub_units || geo->sub_units > 8 ||
	    geo->head_mtracks > PLATTER_MAX_HEAD_MTRACKS) {
		*error = "The rotation must not be 0 and the head at most 64 tracks wide";
		return -EINVAL;
	}
	for (i = 0; i < geo->surfaces; i++)
		if (!geo->density[i])
			geo->density[i] = 1000;
	for (i = 0; i < geo->nr_zones; i++) {
		r = init_zone(geo, i, error);
		if (r)
			return r;
		cyls += geo->zone[i].cyls;
		groups = zone_groups(&geo->zone[i]);
		if (cyls > PLATTER_MAX_CYLINDERS ||
		    (u64)geo->zone[i].first_group + groups > PLATTER_MAX_CYLINDERS) {
			*error = "The zones together must not exceed 2^30 cylinders";
			return -EINVAL;
		}
	}
	geo->cyls = cyls;
	total = geo->zone[geo->nr_zones - 1].start_blk +
		geo->zone[geo->nr_zones - 1].blocks;
	if (!geo->blocks)
		geo->blocks = total;
	if (geo->blocks > total) {
		*error = "The zones hold fewer blocks than the device has";
		return -EINVAL;
	}
	return init_conv(geo, error);
}

static const struct platter_zone *zone_of(const struct platter_geo *geo, u64 blk)
{
	u32 lo = 0, hi = geo->nr_zones;

	while (hi - lo > 1) {
		u32 mid = (lo + hi) / 2;

		if (blk >= geo->zone[mid].start_blk)
			lo = mid;
		else
			hi = mid;
	}
	return &geo->zone[lo];
}

/* The place of a run in its group of swaths. */
struct turn {
	u32 group;
	u32 nth;
	u32 cyls;
};

static void locate(const struct platter_geo *geo, u64 blk, struct platter_pos *pos,
		   struct turn *turn)
{
	const struct platter_zone *z = zone_of(geo, blk);
	u64 off = blk - z->start_blk;
	u64 goff, used;
	u32 group, cyls, n, s, tb;

	group = div64_u64_rem(off, z->group_blocks, &goff);
	cyls = group_cyls(z, group);
	for (n = 0;; n++) {
		s = nth_surface(geo, z, group, n);
		tb = surface_track_blocks(geo, z, s);
		if (goff < (u64)tb * cyls || n + 1 == geo->surfaces)
			break;
		goff -= (u64)tb * cyls;
	}

	pos->zone = z - geo->zone;
	pos->surface = s;
	pos->track_blocks = tb;
	pos->track_units = tb * geo->sub_units;
	pos->skew_units = surface_skew_units(geo, z, s, z->track_skew_units);
	pos->index = div_u64_rem(goff, tb, &pos->sector);
	pos->inward = nth_inward(geo, z, group, n);
	pos->cyl = z->first_cyl + group * z->swath_cyls +
		   (pos->inward ? pos->index : cyls - 1 - pos->index);
	pos->run_start = blk - goff;
	pos->track_start = blk - pos->sector;

	/* the device may end inside the run */
	used = min_t(u64, (u64)tb * cyls, geo->blocks - pos->run_start);
	pos->run_tracks = div_u64(used + tb - 1, tb);

	turn->group = group;
	turn->nth = n;
	turn->cyls = cyls;
}

/**
 * platter_geo_track() - find where a block lies, without the angle
 * @geo: an initialised geometry
 * @blk: a block below @geo->blocks
 * @pos: filled in, except @pos->run_ns
 *
 * Context: any; O(log zones + surfaces).
 */
void platter_geo_track(const struct platter_geo *geo, u64 blk, struct platter_pos *pos)
{
	struct turn turn;

	locate(geo, blk, pos, &turn);
}

/**
 * platter_geo_pos() - find where a block lies
 * @geo: an initialised geometry
 * @blk: a block below @geo->blocks
 * @pos: filled in
 *
 * Context: any; O(zones + surfaces).
 */
void platter_geo_pos(const struct platter_geo *geo, u64 blk, struct platter_pos *pos)
{
	const struct platter_zone *z;
	struct turn turn;
	u64 ns;
	u32 rem;

	locate(geo, blk, pos, &turn);
	z = &geo->zone[pos->zone];
	ns = z->base_ns +
	     (u64)turn.group * z->group_ns +
	     group_advance_ns(geo, z, turn.cyls, turn.nth, turn.group);
	div_u64_rem(ns, geo->rot_ns, &rem);
	pos->run_ns = rem;
}

static bool even_tracks(const struct platter_geo *geo, const struct platter_zone *z)
{
	u32 s;

	for (s = 1; s < geo->surfaces; s++)
		if (surface_track_blocks(geo, z, s) != surface_track_blocks(geo, z, 0))
			return false;
	return true;
}

/**
 * platter_geo_length() - find the range in which all tracks have the length of one
 * @geo: an initialised geometry
 * @blk: a block below @geo->blocks
 * @start: first block of a zone or a run with tracks of one length, containing @blk
 * @end: first block behind it, which may be behind the device
 * @track_blocks: blocks on each track
 *
 * Tracks beside the range may have the same length.
 *
 * Context: any; O(log zones + surfaces).
 */
void platter_geo_length(const struct platter_geo *geo, u64 blk, u64 *start, u64 *end,
			u32 *track_blocks)
{
	const struct platter_zone *z = zone_of(geo, blk);
	struct platter_pos pos;
	struct turn turn;

	if (even_tracks(geo, z)) {
		*start = z->start_blk;
		*end = z->start_blk + z->blocks;
		*track_blocks = surface_track_blocks(geo, z, 0);
		return;
	}
	locate(geo, blk, &pos, &turn);
	*start = pos.run_start;
	*end = pos.run_start + (u64)pos.track_blocks * turn.cyls;
	*track_blocks = pos.track_blocks;
}

/**
 * platter_geo_skew() - skew from track to track, for a zone's tracks of one length
 * @geo: an initialised geometry
 * @z: one of its zones
 * @track_blocks: the length
 * @skew_units: set to the angular shift
 *
 * Context: any; O(surfaces).
 * Return: false if no surface has such tracks there, or if surfaces with such tracks differ.
 */
bool platter_geo_skew(const struct platter_geo *geo, const struct platter_zone *z,
		      u32 track_blocks, u32 *skew_units)
{
	bool any = false;
	u32 s, skew;

	for (s = 0; s < geo->surfaces; s++) {
		if (surface_track_blocks(geo, z, s) != track_blocks)
			continue;
		skew = surface_skew_units(geo, z, s, z->track_skew_units);
		if (any && skew != *skew_units)
			return false;
		*skew_units = skew;
		any = true;
	}
	return any;
}

/**
 * platter_geo_lengths() - maximum of the number of ranges with one track length
 * @geo: an initialised geometry
 *
 * Context: any; O(zones * surfaces).
 * Return: number of ranges into which platter_geo_length() divides the medium.
 */
u64 platter_geo_lengths(const struct platter_geo *geo)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < geo->nr_zones; i++) {
		const struct platter_zone *z = &geo->zone[i];

		sum += even_tracks(geo, z) ? 1 : (u64)zone_groups(z) * geo->surfaces;
	}
	return sum;
}

/**
 * platter_geo_block() - find the block at a place, the inverse of platter_geo_pos()
 * @geo: an initialised geometry
 * @cyl: cylinder
 * @surface: surface
 * @sector: number on the track
 * @blk: the block, on success
 *
 * Context: any.
 * Return: 0, or -ERANGE if there is no such block.
 */
int platter_geo_block(const struct platter_geo *geo, u32 cyl, u32 surface,
		      u32 sector, u64 *blk)
{
	const struct platter_zone *z;
	u32 group, cyls, i, n, s, tb, index;
	u64 b;

	if (cyl >= geo->cyls || surface >= geo->surfaces)
		return -ERANGE;
	for (i = 0; cyl >= geo->zone[i].first_cyl + geo->zone[i].cyls; i++)
		;
	z = &geo->zone[i];
	group = (cyl - z->first_cyl) / z->swath_cyls;
	index = (cyl - z->first_cyl) % z->swath_cyls;
	cyls = group_cyls(z, group);
	b = z->start_blk + z->group_blocks * group;
	for (n = 0;; n++) {
		s = nth_surface(geo, z, group, n);
		tb = surface_track_blocks(geo, z, s);
		if (s == surface)
			break;
		b += (u64)tb * cyls;
	}
	if (sector >= tb)
		return -ERANGE;
	if (!nth_inward(geo, z, group, n))
		index = cyls - 1 - index;
	b += (u64)index * tb + sector;
	if (b >= geo->blocks)
		return -ERANGE;
	*blk = b;
	return 0;
}

/**
 * platter_geo_angle_ns() - time from the index to the start of a block of a track
 * @geo: an initialised geometry
 * @pos: any position on the track
 * @sector: 0 to @pos->track_blocks; the latter is the end of the last one
 *
 * Context: any.
 * Return: the angle as a time in ns, 0 to @geo->rot_ns - 1.
 */
u32 platter_geo_angle_ns(const struct platter_geo *geo,
			 const struct platter_pos *pos, u32 sector)
{
	u32 units, rem;

	div_u64_rem((u64)pos->index * pos->skew_units + (u64)sector * geo->sub_units,
		    pos->track_units, &units);
	div_u64_rem((u64)pos->run_ns + units_to_ns(geo, units, pos->track_units),
		    geo->rot_ns, &rem);
	return rem;
}

/**
 * platter_geo_conventional() - is this block on a full-width track?
 * @geo: an initialised geometry
 * @blk: a block
 *
 * Context: any.
 * Return: true if it lies in a conventional range.
 */
bool platter_geo_conventional(const struct platter_geo *geo, u64 blk)
{
	u32 i;

	for (i = 0; i < geo->nr_conv; i++)
		if (blk >= geo->conv[i].start_blk &&
		    blk - geo->conv[i].start_blk < geo->conv[i].blocks)
			return true;
	return false;
}

/**
 * platter_geo_window() - number of tracks beside the written one that the head covers
 * @geo: a geometry
 *
 * A head 1.5 tracks wide reaches into one further track and destroys all of it, although it covers
 * only a half (Skylight, Fig 2.23).
 *
 * Context: any.
 * Return: tracks to one side (for IMR: to each side of a bottom track).
 */
u32 platter_geo_window(const struct platter_geo *geo)
{
	switch (geo->media) {
	case PLATTER_SMR:
		return geo->head_mtracks > 1000 ? (geo->head_mtracks - 1) / 1000 : 0;
	case PLATTER_IMR:
		return 1;
	default:
		return 0;
	}
}

static int emit(const struct platter_geo *geo, platter_effect_fn fn, void *ctx,
		u64 blk, u32 n, u64 src)
{
	if (!n || blk >= geo->blocks)
		return 0;
	return fn(ctx, PLATTER_COVERED, blk, min_t(u64, n, geo->blocks - blk), src);
}

/*
 * Find the blocks at the same angles as @n blocks from @sector on, @delta tracks further in the
 * run: return their number, and the first in *@first.  Each track is rotated forward by the skew,
 * so the block at a given angle has a lower number on the next track.
 */
static u32 cover(u32 tu, u32 sub, u32 skew, u32 sector, u32 n, s32 delta, u32 *first)
{
	u32 tb = tu / sub, turn, from, count;

	div_u64_rem((u64)(delta < 0 ? -delta : delta) * skew, tu, &turn);
	if (delta > 0 && turn)
		turn = tu - turn;
	from = sector * sub + turn;
	if (from >= tu)
		from -= tu;
	*first = from / sub;
	count = (from + n * sub - 1) / sub - *first + 1;
	return n == tb || count > tb ? tb : count;
}

static int cover_track(const struct platter_geo *geo, const struct platter_pos *pos,
		       u32 sector, u32 n, int delta, platter_effect_fn fn, void *ctx)
{
	u64 start = pos->track_start + (s64)delta * pos->track_blocks;
	u64 src = pos->track_start + sector;
	u32 first, count, head;
	int r;

	count = cover(pos->track_units, geo->sub_units, pos->skew_units, sector, n, delta,
		      &first);
	head = min_t(u32, count, pos->track_blocks - first);
	r = emit(geo, fn, ctx, start + first, head, src);
	if (!r && count > head)
		r = emit(geo, fn, ctx, start, count - head, src + head);
	return r;
}

static int write_piece(const struct platter_geo *geo, const struct platter_pos *pos,
		       u32 n, platter_effect_fn fn, void *ctx)
{
	u32 window = platter_geo_window(geo), d;
	int r;

	r = fn(ctx, PLATTER_WRITTEN, pos->track_start + pos->sector, n,
	       pos->track_start + pos->sector);
	if (r || !window || platter_geo_conventional(geo, pos->track_start))
		return r;

	if (geo->media == PLATTER_IMR) {
		if (pos->index & 1)
			return 0;	/* a top is narrow and destroys nothing */
		if (pos->index &&
		    !platter_geo_conventional(geo, pos->track_start - 1))
			r = cover_track(geo, pos, pos->sector, n, -1, fn, ctx);
		if (r)
			return r;
	}
	for (d = 1; d <= window && pos->index + d < pos->run_tracks; d++) {
		/* full-width tracks lie behind a guard */
		if (platter_geo_conventional(geo, pos->track_start +
					     (u64)d * pos->track_blocks))
			break;
		r = cover_track(geo, pos, pos->sector, n, d, fn, ctx);
		if (r)
			return r;
	}
	return 0;
}

/**
 * platter_geo_write() - determine the effects of a write on the medium
 * @geo: an initialised geometry
 * @blk: first block written
 * @n: blocks written; the range must lie within the device
 * @fn: called track by track in the order in which the head passes, first for the written
 *	blocks and then for the covered ones
 * @ctx: argument of @fn
 *
 * Damage is determined by angle: a block is covered if any part of it lies under the head.  Damage
 * ends at the border of the run and at conventional tracks.
 *
 * Context: that of @fn.
 * Return: 0, or a nonzero value of @fn, which ends the walk.
 */
int platter_geo_write(const struct platter_geo *geo, u64 blk, u64 n,
		      platter_effect_fn fn, void *ctx)
{
	struct platter_pos pos;
	int r = 0;

	while (n && !r) {
		u32 piece;

		platter_geo_track(geo, blk, &pos);
		piece = min_t(u64, n, pos.track_blocks - pos.sector);
		r = write_piece(geo, &pos, piece, fn, ctx);
		blk += piece;
		n -= piece;
	}
	return r;
}

/**
 * platter_geo_passes() - number of passes in which all of the medium can be written
 * @geo: a geometry
 *
 * Context: any.
 * Return: the number; see platter_geo_pass().
 */
u32 platter_geo_passes(const struct platter_geo *geo)
{
	return geo->media == PLATTER_IMR ? 2 : 1;
}

/**
 * platter_geo_pass() - the pass in which a block must be written
 * @geo: an initialised geometry
 * @blk: a block
 * @end: set to the first block after it that may belong to another pass
 *
 * If blocks are written pass by pass, each pass upwards, no write destroys an earlier one: bottoms
 * precede tops.
 *
 * Context: any; O(zones + surfaces).
 * Return: 0 to platter_geo_passes() - 1.
 */
u32 platter_geo_pass(const struct platter_geo *geo, u64 blk, u64 *end)
{
	struct platter_pos pos;

	*end = geo->blocks;
	if (geo->media != PLATTER_IMR)
		return 0;
	platter_geo_pos(geo, blk, &pos);
	*end = min_t(u64, pos.track_start + pos.track_blocks, geo->blocks);
	return pos.index & 1;
}

/**
 * platter_reach_begin() - walk over the blocks that a write destroys, or that destroy it
 * @r: the walk
 * @geo: an initialised geometry
 * @blk: first block written
 * @n: blocks written; the range must lie within the device
 * @way: selects one of them, or both
 *
 * Context: any.
 */
void platter_reach_begin(struct platter_reach *r, const struct platter_geo *geo, u64 blk,
			 u64 n, enum platter_way way)
{
	r->geo = geo;
	r->way = way;
	r->start = blk;
	r->blk = blk;
	r->end = blk + n;
	r->at = 1;
	r->until = 0;
	r->rest_n = 0;
}

/*
 * Find the next part of the write that reaches other blocks: within a run, between conventional
 * ranges; on interlaced tracks, one track.
 */
static bool next_part(struct platter_reach *r, u32 window)
{
	const struct platter_geo *geo = r->geo;
	bool destroys = r->way == PLATTER_DESTROYS;

	while (r->blk < r->end) {
		struct platter_pos pos;
		u64 end, behind = 0;
		u32 i;

		platter_geo_track(geo, r->blk, &pos);
		r->low = 0;
		r->high = pos.run_tracks - 1;
		for (i = 0; i < geo->nr_conv; i++) {
			u64 start = geo->conv[i].start_blk;

			end = start + geo->conv[i].blocks;
			if (start > r->blk) {
				start = div_u64(start - pos.run_start, pos.track_blocks);
				r->high = min_t(u64, r->high, start - 1);
				break;
			}
			if (end > r->blk)
				behind = end;
			else if (end > pos.run_start)
				r->low = div_u64(end - pos.run_start, pos.track_blocks);
		}
		if (behind) {
			r->blk = behind;
			continue;
		}
		r->run_start = pos.run_start;
		r->track_blocks = pos.track_blocks;
		r->track_units = pos.track_units;
		r->skew_units = pos.skew_units;
		r->first = pos.index;
		r->from = pos.sector;
		r->last = geo->media == PLATTER_IMR ? r->first : r->high;
		end = min_t(u64, r->end, r->run_start + (u64)(r->last + 1) * r->track_blocks);
		r->last = div_u64_rem(end - 1 - r->run_start, r->track_blocks, &r->to);
		r->to++;
		r->blk = end;
		r->at = !destroys || geo->media == PLATTER_IMR ?
			r->first - min_t(u32, r->first - r->low, window) :
			r->last + (r->first == r->last);
		r->until = r->way != PLATTER_DESTROYED_BY || geo->media == PLATTER_IMR ?
			min_t(u64, r->high, (u64)r->last + window) : r->first;
		/* A top is narrow and destroys nothing. */
		if (geo->media == PLATTER_IMR && r->way != PLATTER_EITHER &&
		    (r->first & 1) == destroys)
			r->at = r->until + 1;
		r->piece = 0;
		if (r->at <= r->until)
			return true;
	}
	return false;
}

/*
 * Find what the next piece of the write reaches on the current track: the piece is its first track,
 * its last track, or a whole track between them.
 */
static bool next_piece(struct platter_reach *r, u32 window, u32 *sector, u32 *count)
{
	u32 low = max_t(u32, r->first, r->at - min_t(u32, r->at, window));
	u32 high = min_t(u64, r->last, (u64)r->at + window);
	u32 n;

	if (r->at == r->first && r->at == r->last)
		return false;
	if (r->way == PLATTER_DESTROYS && r->geo->media != PLATTER_IMR && high >= r->at)
		high = r->at - 1;
	if (!r->piece && max_t(u32, low, r->first + 1) + 1 <= min_t(u32, high + 1, r->last)) {
		r->piece = 2;
		*sector = 0;
		*count = r->track_blocks;
		return true;
	}
	while (r->piece < 2) {
		bool is_first = !r->piece++;
		u32 track = is_first ? r->first : r->last;

		if (track == r->at || track < low || track > high ||
		    (!is_first && r->first == r->last))
			continue;
		*sector = is_first ? r->from : 0;
		n = (track == r->last ? r->to : r->track_blocks) - *sector;
		*count = cover(r->track_units, r->geo->sub_units, r->skew_units, *sector, n,
			       (s32)r->at - (s32)track, sector);
		return true;
	}
	return false;
}

/* Limit a range of the current track to the blocks that exist and are wanted. */
static bool cut(const struct platter_reach *r, u32 from, u32 to, u64 *blk, u32 *n)
{
	u64 start = r->run_start + (u64)r->at * r->track_blocks;

	if (r->at == r->first && r->first < r->last)
		to = min_t(u32, to, r->from);
	if (r->at == r->last && r->first < r->last)
		from = max_t(u32, from, r->to);
	if (start + to > r->geo->blocks)
		to = r->geo->blocks > start ? r->geo->blocks - start : 0;
	*blk = start + from;
	/* A write does not destroy itself. */
	if (r->way == PLATTER_DESTROYED_BY && r->at < r->first)
		to = min_t(u64, to, r->start - min(r->start, start));
	/* The write destroys no block that it writes afterwards. */
	if (r->geo->media == PLATTER_IMR && r->at > r->last && *blk < r->end) {
		from += min_t(u64, r->end - *blk, to - min_t(u32, from, to));
		*blk = start + from;
	}
	*n = to > from ? to - from : 0;
	return *n;
}

/**
 * platter_reach_next() - the next range of blocks
 * @r: the walk
 * @blk: result, first block
 * @n: result, number of blocks
 *
 * Ranges may overlap, but each lies on one track.
 *
 * Context: any.
 * Return: false if there is no other.
 */
bool platter_reach_next(struct platter_reach *r, u64 *blk, u32 *n)
{
	u32 window = platter_geo_window(r->geo), sector, count, head;

	if (r->rest_n) {
		*blk = r->rest_blk;
		*n = r->rest_n;
		r->rest_n = 0;
		return true;
	}
	if (!window)
		return false;
	for (;;) {
		bool inner = r->at > r->first && r->at < r->last;

		if (r->at > r->until) {
			if (!next_part(r, window))
				return false;
			continue;
		}
		if (inner || !next_piece(r, window, &sector, &count)) {
			r->at++;
			r->piece = 0;
			continue;
		}
		head = min_t(u32, count, r->track_blocks - sector);
		if (count > head && !cut(r, 0, count - head, &r->rest_blk, &r->rest_n))
			r->rest_n = 0;
		if (cut(r, sector, sector + head, blk, n))
			return true;
		if (r->rest_n) {
			*blk = r->rest_blk;
			*n = r->rest_n;
			r->rest_n = 0;
			return true;
		}
	}
}

/**
 * platter_geo_run() - the run that begins at a block or contains it
 * @geo: an initialised geometry
 * @blk: a block
 * @run: filled in; starts at or before @blk
 *
 * To walk over a device, start with 0 and go on with @run->start_blk + @run->blocks.  Runs are
 * split where conventional ranges begin and end.  On CMR a write destroys nothing and surfaces
 * change every few tracks; there a run is a whole zone.
 *
 * Context: any.
 * Return: false if @blk is beyond the device.
 */
bool platter_geo_run(const struct platter_geo *geo, u64 blk, struct platter_run *run)
{
	struct platter_pos pos;
	u64 end;
	u32 i;

	if (blk >= geo->blocks)
		return false;
	platter_geo_pos(geo, blk, &pos);
	run->zone = pos.zone;
	run->track_blocks = pos.track_blocks;
	run->conventional = false;
	if (geo->media == PLATTER_CMR) {
		const struct platter_zone *z = &geo->zone[pos.zone];

		run->start_blk = z->start_blk;
		end = z->start_blk + z->blocks;
		run->surface = -1;
		run->inward = true;
	} else {
		run->start_blk = pos.run_start;
		end = pos.run_start + (u64)pos.run_tracks * pos.track_blocks;
		run->surface = pos.surface;
		run->inward = pos.inward;
	}
	end = min_t(u64, end, geo->blocks);
	for (i = 0; i < geo->nr_conv; i++) {
		u64 cs = geo->conv[i].start_blk;
		u64 ce = cs + geo->conv[i].blocks;

		if (blk >= cs && blk < ce) {
			run->conventional = true;
			run->start_blk = max_t(u64, run->start_blk, cs);
			end = min_t(u64, end, ce);
		} else if (cs > blk) {
			end = min_t(u64, end, cs);
		} else {
			run->start_blk = max_t(u64, run->start_blk, ce);
		}
	}
	run->blocks = end - run->start_blk;
	platter_geo_pos(geo, run->start_blk, &pos);
	run->first_cyl = pos.cyl;
	return true;
}
