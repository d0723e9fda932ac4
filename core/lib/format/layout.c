// SPDX-License-Identifier: GPL-2.0
/* The superblock and the arithmetic of bands and tracks: pure code. */
#include "format/layout.h"
#include "format/codec.h"

/**
 * shingle_layout_encode() - encode a layout as a superblock
 * @l: layout, accepted by shingle_layout_check()
 * @block: place of this copy, on the metadata device
 * @sb: result, sealed
 *
 * Context: any.
 */
void shingle_layout_encode(const struct shingle_layout *l, u64 block, struct shingle_sb *sb)
{
	u32 i;

	memset(sb, 0, sizeof(*sb));
	sb->version = cpu_to_le32(SHINGLE_VERSION);
	sb->flags = cpu_to_le32(l->flags);
	memcpy(sb->engine, l->engine, SHINGLE_ENGINE_NAME_SIZE);
	memcpy(sb->label, l->label, SHINGLE_LABEL_SIZE);
	sb->logical_blocks = cpu_to_le64(l->logical_blocks);
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		sb->dev_blocks[i] = cpu_to_le64(l->dev_blocks[i]);
	for (i = 0; i < 2; i++) {
		sb->ckpt[i].start = cpu_to_le64(l->ckpt[i].start);
		sb->ckpt[i].blocks = cpu_to_le64(l->ckpt[i].blocks);
	}
	sb->journal.start = cpu_to_le64(l->journal.start);
	sb->journal.blocks = cpu_to_le64(l->journal.blocks);
	sb->journal_gap_blocks = cpu_to_le64(l->journal_gap_blocks);
	sb->pages.start = cpu_to_le64(l->pages.start);
	sb->pages.blocks = cpu_to_le64(l->pages.blocks);
	sb->ckpt_stretch_blocks = cpu_to_le32(l->ckpt_stretch_blocks);
	sb->head_tracks = cpu_to_le32(l->head_tracks);
	sb->media = cpu_to_le32(l->interlaced ? SHINGLE_MEDIA_INTERLACED :
						SHINGLE_MEDIA_SHINGLED);
	sb->nr_groups = cpu_to_le32(l->nr_entries);
	sb->ctime = cpu_to_le64(l->ctime);
	memcpy(sb->params, l->params, sizeof(sb->params));
	for (i = 0; i < l->nr_entries; i++) {
		const struct shingle_group *g = &l->entries[i];
		struct shingle_disk_group *d = &sb->groups[i];

		d->start = cpu_to_le64(shingle_pblk_block(g->start));
		d->stride = cpu_to_le64(g->stride);
		d->nr_bands = cpu_to_le64(g->nr_bands);
		d->track_blocks = cpu_to_le32(g->track_blocks);
		d->role = cpu_to_le16(g->role);
		d->dev = cpu_to_le16(shingle_pblk_dev(g->start));
		d->band_blocks = cpu_to_le32(l->band_blocks[g->role]);
	}
	for (i = 0; i < SHINGLE_NR_MEDIA; i++)
		shingle_medium_encode(&l->medium[i], &sb->medium[i]);
	sb->settings = l->settings;
	shingle_seal(sb, SHINGLE_MAGIC_SB, l->uuid, block, l->sb_seq);
}

/* Set the length of bands of a role; all groups of the role must have the same. */
static int set_band_blocks(struct shingle_layout *l, enum shingle_role role, u32 band_blocks,
			   const char **why)
{
	if (!band_blocks) {
		*why = "group of bands does not say how long they are";
		return -EUCLEAN;
	}
	if (l->band_blocks[role] && l->band_blocks[role] != band_blocks) {
		*why = "groups of one role have bands of different lengths";
		return -EUCLEAN;
	}
	l->band_blocks[role] = band_blocks;
	return 0;
}

static const char * const other_version[] = {
	"format version is newer than this build knows",
	"format version is an older one: copy the data out with the older dm-shingle, then format anew",
};

/**
 * shingle_layout_decode() - decode a superblock
 * @sb: 4 KiB as read
 * @block: the place from which it was read
 * @l: result
 * @why: on error, the reason, as the tail of a sentence
 *
 * Context: any.
 * Return: 0; -ENODATA if the block is not a superblock; -EUCLEAN if it is one, but damaged,
 * misplaced or invalid; -EPROTONOSUPPORT if another version wrote it.
 */
int shingle_layout_decode(const struct shingle_sb *sb, u64 block, struct shingle_layout *l,
			  const char **why)
{
	enum shingle_block_fault fault = shingle_check_block(sb, SHINGLE_MAGIC_SB, NULL, block);
	u32 nr_entries, i;

	if (fault) {
		*why = shingle_check_block(sb, SHINGLE_MAGIC_MEMBER, NULL, block) ?
		       shingle_fault_text(fault) :
		       "it belongs to a dm-shingle device whose metadata are on another one";
		return fault == SHINGLE_BLOCK_FOREIGN ? -ENODATA : -EUCLEAN;
	}
	if (le32_to_cpu(sb->version) != SHINGLE_VERSION) {
		*why = other_version[le32_to_cpu(sb->version) < SHINGLE_VERSION];
		return -EPROTONOSUPPORT;
	}

	memset(l, 0, sizeof(*l));
	memcpy(l->uuid, sb->h.uuid, sizeof(l->uuid));
	l->sb_seq = le64_to_cpu(sb->h.seq);
	l->flags = le32_to_cpu(sb->flags);
	memcpy(l->engine, sb->engine, SHINGLE_ENGINE_NAME_SIZE);
	memcpy(l->label, sb->label, SHINGLE_LABEL_SIZE);
	l->logical_blocks = le64_to_cpu(sb->logical_blocks);
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		l->dev_blocks[i] = le64_to_cpu(sb->dev_blocks[i]);
	for (i = 0; i < 2; i++) {
		l->ckpt[i].start = le64_to_cpu(sb->ckpt[i].start);
		l->ckpt[i].blocks = le64_to_cpu(sb->ckpt[i].blocks);
	}
	l->journal.start = le64_to_cpu(sb->journal.start);
	l->journal.blocks = le64_to_cpu(sb->journal.blocks);
	l->journal_gap_blocks = le64_to_cpu(sb->journal_gap_blocks);
	l->pages.start = le64_to_cpu(sb->pages.start);
	l->pages.blocks = le64_to_cpu(sb->pages.blocks);
	l->ckpt_stretch_blocks = le32_to_cpu(sb->ckpt_stretch_blocks);
	if (le32_to_cpu(sb->media) > SHINGLE_MEDIA_INTERLACED) {
		*why = "medium is of a kind that this build does not know";
		return -EUCLEAN;
	}
	l->interlaced = le32_to_cpu(sb->media) == SHINGLE_MEDIA_INTERLACED;
	l->head_tracks = le32_to_cpu(sb->head_tracks);
	l->ctime = le64_to_cpu(sb->ctime);
	memcpy(l->params, sb->params, sizeof(l->params));
	for (i = 0; i < SHINGLE_NR_MEDIA; i++) {
		if (shingle_medium_decode(&sb->medium[i], l->dev_blocks[i], &l->medium[i], why))
			return -EUCLEAN;
	}
	l->settings = sb->settings;
	nr_entries = le32_to_cpu(sb->nr_groups);
	if (nr_entries > SHINGLE_MAX_GROUPS) {
		*why = "group table is longer than a superblock can hold";
		return -EUCLEAN;
	}
	for (i = 0; i < nr_entries; i++) {
		const struct shingle_disk_group *d = &sb->groups[i];
		struct shingle_group g;

		if (le16_to_cpu(d->role) >= SHINGLE_NR_ROLES ||
		    le16_to_cpu(d->dev) >= SHINGLE_NR_DEVS ||
		    le64_to_cpu(d->start) > SHINGLE_PBLK_MASK) {
			*why = "group table names an unknown role or device";
			return -EUCLEAN;
		}
		g.role = le16_to_cpu(d->role);
		g.start = shingle_pblk(le16_to_cpu(d->dev), le64_to_cpu(d->start));
		g.stride = le64_to_cpu(d->stride);
		g.nr_bands = le64_to_cpu(d->nr_bands);
		g.track_blocks = le32_to_cpu(d->track_blocks);
		if (set_band_blocks(l, g.role, le32_to_cpu(d->band_blocks), why))
			return -EUCLEAN;
		if (shingle_layout_add(l, &g, why))
			return -EUCLEAN;
	}
	shingle_layout_index(l);
	return shingle_layout_check(l, why);
}

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

	sort_groups(l, l->by_band, false);
	sort_groups(l, l->by_place, true);
	memset(l->tracks, 0, sizeof(l->tracks));
	for (i = 0; i < l->nr_groups; i++)
		l->tracks[shingle_pblk_dev(l->groups[i].start)] |= l->groups[i].track_blocks;
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
		const struct shingle_group *o = &l->groups[l->by_place[i - 1]];
		const struct shingle_group *g = &l->groups[l->by_place[i]];

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

			if (comes_before(&key, &l->groups[l->by_band[middle]], false))
				high = middle;
			else
				low = middle + 1;
		}
		if (!low)
			return SHINGLE_NOWHERE;
		g = &l->groups[l->by_band[low - 1]];
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

			if (pblk < l->groups[l->by_place[middle]].start)
				high = middle;
			else
				low = middle + 1;
		}
		if (!low)
			return NULL;
		g = &l->groups[l->by_place[low - 1]];
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

/* ------------------------------------------------------------------------
 * Devices without superblocks
 */

static const char *const member_names[SHINGLE_NR_DEVS] = { "data", "cache", "metadata" };

static const char *member_kind(u32 dev)
{
	return dev < SHINGLE_NR_DEVS ? member_names[dev] : "unknown";
}

#define UUID_FORMAT "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x"
#define UUID_BYTES(u) (u)[0], (u)[1], (u)[2], (u)[3], (u)[4], (u)[5], (u)[6], (u)[7], \
	(u)[8], (u)[9], (u)[10], (u)[11], (u)[12], (u)[13], (u)[14], (u)[15]

/**
 * shingle_member_encode() - encode the header of a device that has no superblocks
 * @l: layout
 * @dev: the device
 * @block: place of this copy: 0 or the last block of the device
 * @m: result, sealed
 *
 * Context: any.
 */
void shingle_member_encode(const struct shingle_layout *l, enum shingle_dev dev, u64 block,
			   struct shingle_member *m)
{
	memset(m, 0, sizeof(*m));
	m->version = cpu_to_le32(SHINGLE_VERSION);
	memcpy(m->engine, l->engine, SHINGLE_ENGINE_NAME_SIZE);
	memcpy(m->label, l->label, SHINGLE_LABEL_SIZE);
	m->blocks = cpu_to_le64(l->dev_blocks[dev]);
	m->dev = cpu_to_le32(dev);
	m->ctime = cpu_to_le64(l->ctime);
	shingle_seal(m, SHINGLE_MAGIC_MEMBER, l->uuid, block, 1);
}

/**
 * shingle_member_name() - name the device to which a header belongs
 * @buf: 4 KiB as read
 * @name: result, such as "the cache device of 01234567-89ab-cdef-0123-456789abcdef"
 * @size: size of @name
 *
 * Context: any.
 * Return: false if the block is neither a sound superblock nor a sound header of another device.
 */
bool shingle_member_name(const void *buf, char *name, size_t size)
{
	const struct shingle_member *m = buf;
	const u8 *uuid = m->h.uuid;

	if (!shingle_check_block(buf, SHINGLE_MAGIC_SB, NULL, U64_MAX)) {
		snprintf(name, size, "the superblock of " UUID_FORMAT, UUID_BYTES(uuid));
		return true;
	}
	if (shingle_check_block(buf, SHINGLE_MAGIC_MEMBER, NULL, U64_MAX))
		return false;
	snprintf(name, size, "the %s device of " UUID_FORMAT, member_kind(le32_to_cpu(m->dev)),
		 UUID_BYTES(uuid));
	return true;
}

/**
 * shingle_member_examine() - is this block the header of the target's device?
 * @l: layout
 * @dev: the device
 * @block: the place from which it was read: 0 or the last block of the device
 * @buf: 4 KiB as read, or NULL if it could not be read
 * @why: if not, what was found and what was expected, SHINGLE_MEMBER_WHY bytes
 *
 * Context: any.
 * Return: state of the block.
 */
enum shingle_member_fault shingle_member_examine(const struct shingle_layout *l,
						 enum shingle_dev dev, u64 block, const void *buf,
						 char *why)
{
	enum shingle_member_fault fault = SHINGLE_MEMBER_STRANGER;
	const struct shingle_member *m = buf;
	char found[80] = "no dm-shingle header";

	if (!buf) {
		snprintf(found, sizeof(found), "a header that cannot be read");
		fault = SHINGLE_MEMBER_DAMAGED;
	} else if (shingle_check_block(m, SHINGLE_MAGIC_MEMBER, l->uuid, block)) {
		bool ours = !memcmp(m->h.uuid, l->uuid, SHINGLE_UUID_SIZE);

		/*
		 * Its UUID and another identifying field match: it was the header of this device.
		 */
		if (!shingle_member_name(buf, found, sizeof(found)) && ours &&
		    (le32_to_cpu(m->h.magic) == SHINGLE_MAGIC_MEMBER ||
		     le64_to_cpu(m->h.block) == block)) {
			snprintf(found, sizeof(found), "a damaged header");
			fault = SHINGLE_MEMBER_DAMAGED;
		}
	} else if (le32_to_cpu(m->version) != SHINGLE_VERSION) {
		snprintf(found, sizeof(found), "a header of format version %u",
			 le32_to_cpu(m->version));
	} else if (le32_to_cpu(m->dev) != dev) {
		shingle_member_name(buf, found, sizeof(found));
	} else if (le64_to_cpu(m->blocks) != l->dev_blocks[dev]) {
		snprintf(found, sizeof(found), "one of %llu blocks, not %llu",
			 (unsigned long long)le64_to_cpu(m->blocks),
			 (unsigned long long)l->dev_blocks[dev]);
	} else {
		return SHINGLE_MEMBER_OK;
	}
	snprintf(why, SHINGLE_MEMBER_WHY, "found %s; wanted the %s device of " UUID_FORMAT, found,
		 member_kind(dev), UUID_BYTES(l->uuid));
	return fault;
}
