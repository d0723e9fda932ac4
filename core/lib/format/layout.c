// SPDX-License-Identifier: GPL-2.0
/* The groups of bands that follow from a layout, and whether a layout is valid. */
#include "format/layout.h"

/**
 * shingle_layout_room() - room that is left on a device for bands
 * @l: layout, still without bands
 * @dev: DATA or CACHE
 * @role: role of the bands
 * @at: first free block
 *
 * Excludes the track with the last block of the device.
 *
 * Context: any.
 * Return: the room.
 */
struct shingle_room shingle_layout_room(const struct shingle_layout *l, enum shingle_dev dev,
					enum shingle_role role, u64 at)
{
	const struct shingle_medium *m = &l->medium[dev];

	return (struct shingle_room){
		.m = m, .head_tracks = l->head_tracks, .at = at,
		.band_blocks = l->band_blocks[role],
		.end = m->blocks ? shingle_medium_track_start(m, m->blocks - 1) : 0,
	};
}

static int add_group(struct shingle_layout *l, const struct shingle_group *from,
		     const struct shingle_bands *b, const char **why)
{
	struct shingle_group *g = &l->groups[l->nr_groups];
	enum shingle_role role = from->role;

	if (l->nr_groups == SHINGLE_LAYOUT_GROUPS) {
		*why = "bands are cut by tracks of too many lengths";
		return -EUCLEAN;
	}
	if (b->nr_bands > U32_MAX || l->nr_bands[role] + b->nr_bands > U32_MAX) {
		*why = "group table has more bands than a device can have";
		return -EUCLEAN;
	}
	g->start = shingle_pblk(shingle_pblk_dev(from->start), b->start);
	g->stride = b->stride;
	g->nr_bands = b->nr_bands;
	g->track_blocks = b->track_blocks;
	g->role = role;
	g->first_band = l->nr_bands[role];
	l->nr_bands[role] += b->nr_bands;
	l->nr_groups++;
	return 0;
}

/**
 * shingle_layout_add() - add an entry of the group table to a layout
 * @l: layout, with everything that determines where bands fit, including their lengths
 * @entry: role, start, stride, number of bands and track length
 * @why: on error, the reason, as the tail of a sentence
 *
 * Context: any.
 * Return: 0 or -EUCLEAN.
 */
int shingle_layout_add(struct shingle_layout *l, const struct shingle_group *entry,
		       const char **why)
{
	enum shingle_dev dev = shingle_pblk_dev(entry->start);
	struct shingle_bands b = {
		.start = shingle_pblk_block(entry->start), .stride = entry->stride,
		.nr_bands = entry->nr_bands, .track_blocks = entry->track_blocks,
	};
	u64 left = entry->nr_bands;
	struct shingle_room room;

	if (l->nr_entries == SHINGLE_MAX_GROUPS) {
		*why = "group table is longer than a superblock can hold";
		return -EUCLEAN;
	}
	l->entries[l->nr_entries++] = *entry;
	if (entry->stride)
		return add_group(l, entry, &b, why);
	if (dev >= SHINGLE_NR_MEDIA || !shingle_medium_has_tracks(&l->medium[dev]) ||
	    !l->band_blocks[entry->role] || !l->head_tracks || l->head_tracks > 64) {
		*why = "bands follow tracks that the superblock does not describe";
		return -EUCLEAN;
	}
	room = shingle_layout_room(l, dev, entry->role, b.start);
	while (left) {
		if (!shingle_take_bands(&room, left, &b)) {
			*why = "bands are more than their medium has room for";
			return -EUCLEAN;
		}
		left -= b.nr_bands;
		if (add_group(l, entry, &b, why))
			return -EUCLEAN;
	}
	return 0;
}

static bool area_fits(u64 start, u64 blocks, u64 limit)
{
	return blocks <= limit && start <= limit - blocks;
}

/* Blocks from a group's first block to the end of its last band's data. */
static u64 group_span(const struct shingle_layout *l, const struct shingle_group *g)
{
	return (g->nr_bands - 1) * g->stride + l->band_blocks[g->role];
}

static bool overlap(u64 a, u64 an, u64 b, u64 bn)
{
	return a < b + bn && b < a + an;
}

/*
 * Every device begins and ends with a block of its own, a superblock or a header.  Bands cannot
 * destroy the first one, since the head only reaches forward.
 */
static bool headers_left_alone(const struct shingle_layout *l, const struct shingle_group *g,
			       u64 blocks)
{
	u64 start = shingle_pblk_block(g->start), span = group_span(l, g);

	if (g->track_blocks && l->head_tracks > 1)
		span = g->nr_bands * g->stride;
	return start && area_fits(start, span, blocks - 1);
}

static int check_groups(const struct shingle_layout *l, const char **why)
{
	u32 i;

	for (i = 0; i < l->nr_groups; i++) {
		const struct shingle_group *g = &l->groups[i];
		u64 blocks = l->dev_blocks[shingle_pblk_dev(g->start)];
		u32 band_blocks = l->band_blocks[g->role];

		if (!band_blocks) {
			*why = "band size or head width is out of range";
			return -EUCLEAN;
		}
		if (!g->nr_bands || g->stride < band_blocks || g->stride > SHINGLE_PBLK_MASK) {
			*why = "group of bands is empty or its bands overlap";
			return -EUCLEAN;
		}
		if (g->track_blocks && l->interlaced &&
		    (g->track_blocks != band_blocks || g->stride != band_blocks)) {
			*why = "interlaced tracks are not one band each, one after the other";
			return -EUCLEAN;
		}
		if (g->track_blocks && l->interlaced && g->first_band & 1) {
			*why = "group of interlaced tracks begins with a top";
			return -EUCLEAN;
		}
		if (g->track_blocks && l->head_tracks > 1) {
			u64 tracks = DIV_ROUND_UP_ULL(band_blocks, g->track_blocks);

			if (g->stride < (tracks + l->head_tracks - 1) * g->track_blocks) {
				*why = "bands lack a guard as wide as the write head needs";
				return -EUCLEAN;
			}
		}
		/* The product cannot overflow once each factor is bounded. */
		if (g->nr_bands > div64_u64(SHINGLE_PBLK_MASK, g->stride) ||
		    !area_fits(shingle_pblk_block(g->start), group_span(l, g), blocks)) {
			*why = "group of bands lies outside its device";
			return -EUCLEAN;
		}
		if (!headers_left_alone(l, g, blocks)) {
			*why = "bands overlap the header of their device or destroy it";
			return -EUCLEAN;
		}
	}
	for (i = 1; i < l->nr_groups; i++) {
		const struct shingle_group *o = &l->groups[l->index.by_place[i - 1]];
		const struct shingle_group *g = &l->groups[l->index.by_place[i]];

		/*
		 * Not in the guard behind the last band either: shingle_group_of() counts that as
		 * @o's.
		 */
		if (shingle_pblk_dev(o->start) == shingle_pblk_dev(g->start) &&
		    g->start < o->start + o->nr_bands * o->stride) {
			*why = "groups of bands overlap";
			return -EUCLEAN;
		}
	}
	return 0;
}

/*
 * Pages are written in any order anywhere in their area, so no head may destroy blocks beside a
 * written one.
 */
static bool pages_are_safe(const struct shingle_layout *l, enum shingle_dev dev)
{
	/* The medium of a separate metadata device is unknown here; the planner has checked it. */
	if (dev >= SHINGLE_NR_MEDIA || (l->head_tracks == 1 && !l->interlaced))
		return true;
	return shingle_medium_is_conventional(&l->medium[dev], l->pages.start, l->pages.blocks);
}

static int check_areas(const struct shingle_layout *l, const char **why)
{
	const struct shingle_area *area[] = { &l->ckpt[0], &l->ckpt[1], &l->journal, &l->pages };
	u32 nr = ARRAY_SIZE(area) - !l->pages.blocks;
	enum shingle_dev dev = shingle_meta_dev(l);
	u64 limit = l->dev_blocks[dev];
	u32 i, j;

	for (i = 0; i < nr; i++) {
		/* Block 0 and the last block are the superblocks. */
		if (!area[i]->blocks || !area[i]->start ||
		    !area_fits(area[i]->start, area[i]->blocks, limit - 1)) {
			*why = "metadata area lies outside its device";
			return -EUCLEAN;
		}
		for (j = 0; j < i; j++) {
			if (overlap(area[i]->start, area[i]->blocks,
				    area[j]->start, area[j]->blocks)) {
				*why = "metadata areas overlap";
				return -EUCLEAN;
			}
		}
		for (j = 0; j < l->nr_groups; j++) {
			const struct shingle_group *g = &l->groups[j];

			if (shingle_pblk_dev(g->start) == dev &&
			    overlap(shingle_pblk_block(g->start), group_span(l, g),
				    area[i]->start, area[i]->blocks)) {
				*why = "bands overlap a metadata area";
				return -EUCLEAN;
			}
		}
	}
	if (l->ckpt_stretch_blocks && (!l->interlaced || dev != SHINGLE_DEV_DATA ||
				       l->ckpt_stretch_blocks !=
				       l->band_blocks[SHINGLE_ROLE_DATA] ||
				       l->ckpt_stretch_blocks > U32_MAX / 2)) {
		*why = "checkpoint slots have gaps that no interlaced track explains";
		return -EUCLEAN;
	}
	if (l->pages.blocks % 2 || (l->pages.blocks && !pages_are_safe(l, dev))) {
		*why = "pages of the map are not on conventional tracks";
		return -EUCLEAN;
	}
	if (l->journal.blocks < 4 || l->journal_gap_blocks > l->journal.blocks - 4) {
		*why = "journal is too short for its gap";
		return -EUCLEAN;
	}
	return 0;
}

/**
 * shingle_layout_check() - is a layout valid?
 * @l: layout, @l->nr_bands filled in
 * @why: on error, the reason, as the tail of a sentence
 *
 * Context: any.
 * Return: 0 or -EUCLEAN.
 */
int shingle_layout_check(const struct shingle_layout *l, const char **why)
{
	u32 i;

	if (!l->head_tracks || l->head_tracks > 64 ||
	    (l->interlaced && l->head_tracks > 1)) {
		*why = "band size or head width is out of range";
		return -EUCLEAN;
	}
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (l->dev_blocks[i] > SHINGLE_PBLK_MASK) {
			*why = "device size is out of range";
			return -EUCLEAN;
		}
	}
	if (!l->dev_blocks[SHINGLE_DEV_DATA] || !l->logical_blocks || !l->nr_groups ||
	    !l->nr_bands[SHINGLE_ROLE_DATA]) {
		*why = "layout has no data bands";
		return -EUCLEAN;
	}
	if (check_groups(l, why))
		return -EUCLEAN;
	return check_areas(l, why);
}
