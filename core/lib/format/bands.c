// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of bands and tracks: from a band to its place, and back; what a write destroys. */
#include "format/layout.h"

static bool comes_before(const struct shingle_group *a, const struct shingle_group *b, bool place)
{
	if (place)
		return a->start < b->start;
	return a->role == b->role ? a->first_band < b->first_band : a->role < b->role;
}

/* Insertion sort: the groups are nearly in order already. */
static void sort_groups(const struct shingle_layout *l, u16 *by, bool place)
{
	u32 i, j;

	for (i = 0; i < l->nr_groups; i++) {
		for (j = i; j && comes_before(&l->groups[i], &l->groups[by[j - 1]], place); j--)
			by[j] = by[j - 1];
		by[j] = i;
	}
}

/**
 * shingle_layout_index() - build the indices of bands and places
 * @l: layout, all groups filled in
 *
 * Context: any.
 */
void shingle_layout_index(struct shingle_layout *l)
{
	u32 i;

	sort_groups(l, l->index.by_band, false);
	sort_groups(l, l->index.by_place, true);
	memset(l->index.tracks, 0, sizeof(l->index.tracks));
	for (i = 0; i < l->nr_groups; i++)
		l->index.tracks[shingle_pblk_dev(l->groups[i].start)] |= l->groups[i].track_blocks;
}

/* Up to this number of groups a linear search is faster than a binary one. */
#define FEW_GROUPS	4

/**
 * shingle_band_pblk() - first block of a band
 * @l: layout
 * @role: role of the band
 * @band: its number in that role, below @l->nr_bands[@role]
 *
 * Context: any.
 * Return: the physical address, or SHINGLE_NOWHERE if there is no such band.
 */
u64 shingle_band_pblk(const struct shingle_layout *l, enum shingle_role role, u64 band)
{
	const struct shingle_group *g;
	u32 i;

	if (unlikely(l->nr_groups > FEW_GROUPS)) {
		const struct shingle_group key = { .role = role, .first_band = band };
		u32 low = 0, high = l->nr_groups;

		while (low < high) {
			u32 middle = (low + high) / 2;

			if (comes_before(&key, &l->groups[l->index.by_band[middle]], false))
				high = middle;
			else
				low = middle + 1;
		}
		if (!low)
			return SHINGLE_NOWHERE;
		g = &l->groups[l->index.by_band[low - 1]];
		if (g->role == role && band - g->first_band < g->nr_bands)
			return g->start + (band - g->first_band) * g->stride;
		return SHINGLE_NOWHERE;
	}
	for (i = 0; i < l->nr_groups; i++) {
		g = &l->groups[i];
		if (g->role == role && band - g->first_band < g->nr_bands)
			return g->start + (band - g->first_band) * g->stride;
	}
	return SHINGLE_NOWHERE;
}
EXPORT_SYMBOL_GPL(shingle_band_pblk);

/**
 * shingle_group_of() - find the group that contains a block, guards included
 * @l: layout
 * @pblk: physical address; may lie in a guard
 *
 * Context: any.
 * Return: the group, NULL if none contains the block.
 */
const struct shingle_group *shingle_group_of(const struct shingle_layout *l, u64 pblk)
{
	const struct shingle_group *g;
	u32 i;

	if (unlikely(l->nr_groups > FEW_GROUPS)) {
		u32 low = 0, high = l->nr_groups;

		while (low < high) {
			u32 middle = (low + high) / 2;

			if (pblk < l->groups[l->index.by_place[middle]].start)
				high = middle;
			else
				low = middle + 1;
		}
		if (!low)
			return NULL;
		g = &l->groups[l->index.by_place[low - 1]];
		return pblk - g->start < g->nr_bands * g->stride ? g : NULL;
	}
	for (i = 0; i < l->nr_groups; i++) {
		g = &l->groups[i];
		if (pblk >= g->start && pblk - g->start < g->nr_bands * g->stride)
			return g;
	}
	return NULL;
}
EXPORT_SYMBOL_GPL(shingle_group_of);

/**
 * shingle_group_from() - find the group that contains a block, or else the next one
 * @l: layout
 * @pblk: physical address
 *
 * Context: any.
 * Return: the group, NULL if there is none at or behind the block, on any device.
 */
const struct shingle_group *shingle_group_from(const struct shingle_layout *l, u64 pblk)
{
	const struct shingle_group *g = shingle_group_of(l, pblk);
	u32 i;

	if (likely(g))
		return g;
	for (i = 0; i < l->nr_groups; i++) {
		if (l->groups[i].start > pblk && (!g || l->groups[i].start < g->start))
			g = &l->groups[i];
	}
	return g;
}
EXPORT_SYMBOL_GPL(shingle_group_from);

/**
 * shingle_band_of() - find the band that contains a physical block
 * @l: layout
 * @pblk: physical address
 * @role: result, role of the band
 * @band: result, its number in that role
 * @offset: result, block within the band
 *
 * Context: any.
 * Return: false if the block is in a guard or in no band.
 */
bool shingle_band_of(const struct shingle_layout *l, u64 pblk, enum shingle_role *role,
		     u64 *band, u64 *offset)
{
	const struct shingle_group *g = shingle_group_of(l, pblk);
	u64 index;

	if (!g)
		return false;
	index = div64_u64(pblk - g->start, g->stride);
	*role = g->role;
	*band = g->first_band + index;
	*offset = pblk - g->start - index * g->stride;
	return *offset < l->band_blocks[g->role];
}
EXPORT_SYMBOL_GPL(shingle_band_of);

/* The windows of a write on interlaced tracks: the even tracks of a group are bottoms. */
static u32 beside_bottom(const struct shingle_group *g, u64 pblk, struct shingle_window *w)
{
	u64 track = div_u64(pblk - g->start, g->track_blocks);
	u64 start = g->start + track * g->track_blocks;
	u32 nr = 0;

	if (track & 1)
		return 0;
	if (track)
		w[nr++] = (struct shingle_window){ start - g->track_blocks, g->track_blocks };
	if (track + 1 < g->nr_bands)
		w[nr++] = (struct shingle_window){ start + g->track_blocks, g->track_blocks };
	return nr;
}

/* The windows of a write if only the lengths of tracks are known. */
static u32 whole_tracks(const struct shingle_layout *l, u64 pblk, u32 n, struct shingle_window *w)
{
	const struct shingle_group *g = NULL;
	u64 first, last, end;

	if (l->interlaced || l->head_tracks > 1)
		g = shingle_group_of(l, pblk);
	if (!g || !g->track_blocks)
		return 0;
	if (l->interlaced)
		return beside_bottom(g, pblk, w);
	first = div_u64(pblk - g->start, g->track_blocks);
	last = div_u64(pblk - g->start + n - 1, g->track_blocks);
	end = g->start + (last + l->head_tracks) * g->track_blocks;
	w->from = first == last ? g->start + (last + 1) * g->track_blocks : pblk + n;
	w->blocks = end - w->from;
	return 1;
}

/* Begin an exact walk.  Returns false if the medium's columns are unknown there. */
static bool begin_reach(struct shingle_windows *it, const struct shingle_layout *l, u64 pblk,
			u32 n, enum platter_way way)
{
	enum shingle_dev dev = shingle_pblk_dev(pblk);
	u64 block = shingle_pblk_block(pblk), blocks;

	it->exact = dev < SHINGLE_NR_MEDIA && l->medium[dev].columns;
	if (!it->exact)
		return false;
	blocks = l->medium[dev].geo.blocks;
	it->dev = pblk - block;
	/* Blocks behind the described part have no tracks. */
	platter_reach_begin(&it->reach, &l->medium[dev].geo, block,
			    block < blocks ? min_t(u64, n, blocks - block) : 0, way);
	return true;
}

/**
 * shingle_windows_begin() - begin a walk over the other blocks that a write may destroy
 * @it: the walk, for shingle_windows_next()
 * @l: layout
 * @pblk: first block written
 * @n: blocks written, within one band
 *
 * If the columns of the medium are known, the windows contain exactly the blocks that the head
 * destroys.  Otherwise a shingled head covers @l->head_tracks tracks: all blocks on the tracks
 * after the written one may be destroyed, whatever the skew.  Blocks between the end of the write
 * and the end of its track are safe only if the write stays on one track.  A write to a bottom of
 * interlaced tracks destroys the tops on both sides.
 *
 * There are no windows if the medium has no tracks there or the write affects no other block.
 * Aghayev (2020), section 2.2; Liang (2021), section 2.2; rule R0.
 *
 * Context: any.
 */
void shingle_windows_begin(struct shingle_windows *it, const struct shingle_layout *l, u64 pblk,
			   u32 n)
{
	if (!begin_reach(it, l, pblk, n, PLATTER_DESTROYS))
		it->nr = whole_tracks(l, pblk, n, it->w);
}
EXPORT_SYMBOL_GPL(shingle_windows_begin);

/**
 * shingle_neighbours_begin() - begin a walk over blocks that may not be written at the same time
 * @it: the walk, for shingle_windows_next()
 * @l: layout
 * @pblk: first block written
 * @n: blocks written
 *
 * The walk visits the blocks that the write destroys, and the blocks outside of the write that
 * would destroy one of its own blocks if they were written.
 *
 * Context: any.
 * Return: false, without a walk, if these are unknown.
 */
bool shingle_neighbours_begin(struct shingle_windows *it, const struct shingle_layout *l,
			      u64 pblk, u32 n)
{
	return begin_reach(it, l, pblk, n, PLATTER_EITHER);
}

/**
 * shingle_reach_next() - the next range, where columns are known
 * @it: the walk
 * @w: result
 *
 * A part of shingle_windows_next().
 *
 * Context: any.
 * Return: false if there is no other.
 */
bool shingle_reach_next(struct shingle_windows *it, struct shingle_window *w)
{
	u32 n;

	if (!platter_reach_next(&it->reach, &w->from, &n))
		return false;
	w->from += it->dev;
	w->blocks = n;
	return true;
}
EXPORT_SYMBOL_GPL(shingle_reach_next);
