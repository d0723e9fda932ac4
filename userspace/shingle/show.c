// SPDX-License-Identifier: GPL-2.0
/* Print layouts as text and as JSON. */
#include <time.h>
#include <uuid/uuid.h>

#include "engine/settings.h"
#include "show.h"

const char *role_name(enum shingle_role role)
{
	static const char *const name[] = { "data", "cache", "staging" };

	return role < ARRAY_SIZE(name) ? name[role] : "unknown";
}

const char *dev_name(enum shingle_dev dev)
{
	static const char *const name[] = { "DATA", "CACHE", "META" };

	return dev < ARRAY_SIZE(name) ? name[dev] : "unknown";
}

static void show_role(const struct shingle_layout *l, enum shingle_role role)
{
	u64 n = l->nr_bands[role];

	if (n)
		say("  %-8s %llu band%s, %s", role_name(role), n, n == 1 ? "" : "s",
		    blocks_text(n * l->band_blocks[role]).s);
}

/* Print the length of data bands, and of other roles where it differs. */
static void show_band_blocks(const struct shingle_layout *l)
{
	u32 data = l->band_blocks[SHINGLE_ROLE_DATA], i;

	say("  band     %u blocks, %s", data, blocks_text(data).s);
	for (i = 0; i < SHINGLE_NR_ROLES; i++) {
		if (l->nr_bands[i] && l->band_blocks[i] != data)
			say("           of %s %u blocks, %s", role_name(i), l->band_blocks[i],
			    blocks_text(l->band_blocks[i]).s);
	}
}

/* Uses of the blocks of a device. */
enum use {
	USE_PRESENTED, USE_KEPT, USE_CACHE, USE_STAGING, USE_GUARDS, USE_ROUNDING,
	USE_METADATA, USE_REST, NR_USES
};

/* Names for the text output and keys for JSON. */
static const struct {
	const char *name, *key;
} uses[NR_USES] = {
	[USE_PRESENTED] = { "presented", "presented" },
	[USE_KEPT] = { "kept free", "kept_free" },
	[USE_CACHE] = { "cache", "cache" },
	[USE_STAGING] = { "staging", "staging" },
	[USE_GUARDS] = { "guards", "guards" },
	[USE_ROUNDING] = { "rounding to tracks", "rounding_to_tracks" },
	[USE_METADATA] = { "metadata", "metadata" },
	[USE_REST] = { "left over", "left_over" },
};

/*
 * Count the space behind an area that ends at @end: the rest of its track, then the tracks
 * that the head destroys.
 */
static void add_space(const struct shingle_layout *l, enum shingle_dev dev, u64 end, u64 *blocks)
{
	const struct shingle_medium *m = &l->medium[dev];
	u64 track = shingle_medium_after_write(m, 1, end - 1);
	u64 safe = shingle_medium_after_write(m, l->head_tracks, end - 1);

	blocks[USE_ROUNDING] += track - end;
	blocks[USE_GUARDS] += safe - track;
}

/* Count the bands of a group and the space between them. */
static void add_group(const struct shingle_layout *l, const struct shingle_group *g, u64 *blocks)
{
	u64 each = l->band_blocks[g->role], whole = each, last = g->nr_bands - 1;

	if (g->track_blocks)
		whole = DIV_ROUND_UP(each, g->track_blocks) * g->track_blocks;
	blocks[g->role == SHINGLE_ROLE_CACHE ? USE_CACHE :
	       g->role == SHINGLE_ROLE_STAGING ? USE_STAGING : USE_PRESENTED] +=
		g->nr_bands * each;
	if (l->interlaced)
		return;
	blocks[USE_ROUNDING] += last * (whole - each);
	blocks[USE_GUARDS] += last * (g->stride - whole);
	/* Behind the last band, tracks may have another length. */
	add_space(l, shingle_pblk_dev(g->start),
		  shingle_pblk_block(g->start) + last * g->stride + each, blocks);
}

/* META has no known tracks; areas on it are only separated by what the head destroys. */
static void add_space_on_meta(const struct shingle_layout *l, u64 *blocks)
{
	u64 end = l->pages.blocks ? l->pages.start + l->pages.blocks :
				    l->journal.start + l->journal.blocks;

	blocks[l->head_tracks > 1 ? USE_GUARDS : USE_ROUNDING] +=
		end - (blocks[USE_METADATA] - 1);
}

/* Count the tracks in front of the data that stay unused to protect their neighbours. */
static void add_interlaced_space(const struct shingle_layout *l, u64 *blocks)
{
	u32 track = l->band_blocks[SHINGLE_ROLE_DATA];
	/* The last block lies behind the data tracks; a block 0 without a header is no guard. */
	u64 used = blocks[USE_STAGING] + max(blocks[USE_METADATA], 2ULL) - 1, first = 0;
	u32 i;

	for (i = 0; i < l->nr_groups; i++) {
		if (l->groups[i].role == SHINGLE_ROLE_DATA)
			first = shingle_pblk_block(l->groups[i].start);
	}
	blocks[USE_ROUNDING] = track - 1;
	blocks[USE_GUARDS] = first - min(first, used + track - 1);
}

/* Count the space between and behind the metadata areas. */
static void add_metadata_space(const struct shingle_layout *l, enum shingle_dev dev, u64 *blocks)
{
	const struct shingle_area *area[] = { &l->ckpt[0], &l->ckpt[1], &l->journal, &l->pages };
	u32 i;

	if (dev >= SHINGLE_NR_MEDIA) {
		add_space_on_meta(l, blocks);
		return;
	}
	if (l->interlaced && dev == SHINGLE_DEV_DATA) {
		add_interlaced_space(l, blocks);
		return;
	}
	add_space(l, dev, 1, blocks);
	for (i = 0; dev == shingle_meta_dev(l) && i < ARRAY_SIZE(area); i++) {
		if (area[i]->blocks)
			add_space(l, dev, area[i]->start + area[i]->blocks, blocks);
	}
}

/* Count all uses of a device; their sum is its number of blocks. */
static void count_uses(const struct shingle_layout *l, enum shingle_dev dev, u64 *blocks)
{
	u64 used = 0;
	u32 i;

	memset(blocks, 0, NR_USES * sizeof(*blocks));
	for (i = 0; i < l->nr_groups; i++) {
		if (shingle_pblk_dev(l->groups[i].start) == dev && l->groups[i].nr_bands)
			add_group(l, &l->groups[i], blocks);
	}
	/* All data bands are on DATA; the engine may keep some of them from the host. */
	if (dev == SHINGLE_DEV_DATA) {
		blocks[USE_KEPT] = blocks[USE_PRESENTED] -
				   min(l->logical_blocks, blocks[USE_PRESENTED]);
		blocks[USE_PRESENTED] -= blocks[USE_KEPT];
	}
	if (dev == shingle_meta_dev(l))
		blocks[USE_METADATA] = 2 + l->ckpt[0].blocks + l->ckpt[1].blocks +
				       l->journal.blocks + l->pages.blocks;
	else if (!(l->flags & SHINGLE_SB_UNMARKED(dev)))
		blocks[USE_METADATA] = 2;
	add_metadata_space(l, dev, blocks);
	for (i = 0; i < USE_REST; i++)
		used += blocks[i];
	blocks[USE_REST] = l->dev_blocks[dev] - min(used, l->dev_blocks[dev]);
}

/**
 * show_capacity() - print the uses of the blocks of each device
 * @l: the layout
 */
void show_capacity(const struct shingle_layout *l)
{
	u64 blocks[NR_USES];
	u32 dev, use;

	say("Use of the capacity");
	for (dev = 0; dev < SHINGLE_NR_DEVS; dev++) {
		if (!l->dev_blocks[dev])
			continue;
		count_uses(l, dev, blocks);
		say("  %-20s %14llu blocks %12s", dev_name(dev), l->dev_blocks[dev],
		    blocks_text(l->dev_blocks[dev]).s);
		for (use = 0; use < NR_USES; use++) {
			if (blocks[use])
				say("    %-18s %14llu blocks %12s %6.2f %%", uses[use].name,
				    blocks[use], blocks_text(blocks[use]).s,
				    100.0 * (double)blocks[use] / (double)l->dev_blocks[dev]);
		}
	}
}

static void capacity_json(const struct shingle_layout *l, struct json_object *in)
{
	struct json_object *devices = json_dict(in, "capacity_blocks"), *j;
	u64 blocks[NR_USES];
	u32 dev, use;

	for (dev = 0; dev < SHINGLE_NR_DEVS; dev++) {
		if (!l->dev_blocks[dev])
			continue;
		count_uses(l, dev, blocks);
		j = json_dict(devices, dev_name(dev));
		for (use = 0; use < NR_USES; use++)
			json_u64(j, uses[use].key, blocks[use]);
	}
}

static void show_areas(const struct shingle_layout *l)
{
	const char *on = dev_name(shingle_meta_dev(l));
	u32 i;

	say("Metadata on %s (blocks of 4 KiB)", on);
	say("  superblocks   block 0 and block %llu", l->dev_blocks[shingle_meta_dev(l)] - 1);
	for (i = 0; i < 2; i++)
		say("  checkpoint %u  block %llu, %llu blocks, %s", i, l->ckpt[i].start,
		    l->ckpt[i].blocks, blocks_text(l->ckpt[i].blocks).s);
	say("  journal       block %llu, %llu blocks, %s, gap %llu blocks", l->journal.start,
	    l->journal.blocks, blocks_text(l->journal.blocks).s, l->journal_gap_blocks);
	if (l->pages.blocks)
		say("  pages         block %llu, %llu blocks, %s, two for each page of the map",
		    l->pages.start, l->pages.blocks, blocks_text(l->pages.blocks).s);
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (l->dev_blocks[i] && i != shingle_meta_dev(l) &&
		    !(l->flags & SHINGLE_SB_UNMARKED(i)))
			say("  header of %-5s block 0 and block %llu", dev_name(i),
			    l->dev_blocks[i] - 1);
	}
}

static void show_groups(const struct shingle_layout *l)
{
	u32 i;

	say("Bands (blocks of 4 KiB)");
	say("  %-8s %-6s %14s %10s %10s %10s %8s", "role", "device", "first block", "bands",
	    "band", "stride", "track");
	for (i = 0; i < l->nr_groups; i++) {
		const struct shingle_group *g = &l->groups[i];

		say("  %-8s %-6s %14llu %10llu %10u %10llu %8u", role_name(g->role),
		    dev_name(shingle_pblk_dev(g->start)), shingle_pblk_block(g->start),
		    g->nr_bands, l->band_blocks[g->role], g->stride, g->track_blocks);
	}
}

/**
 * show_layout() - print a layout as text
 * @l: the layout
 * @row: its translation layer, or NULL if unknown
 */
void show_layout(const struct shingle_layout *l, const struct engine_row *row)
{
	char settings[SHINGLE_SETTINGS_BYTES + 1], uuid[UUID_STR_LEN], when[32] = "unknown";
	const char *why;
	time_t t = (time_t)l->ctime;
	struct tm tm;
	u32 i;

	uuid_unparse_lower(l->uuid, uuid);
	if (gmtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
	say("dm-shingle device, type %s%s%s%s", shown(l->engine).s, l->label[0] ? ", label '" : "",
	    shown(l->label).s, l->label[0] ? "'" : "");
	say("  uuid     %s", uuid);
	say("  created  %s", when);
	say("  state    generation %llu%s", l->sb_seq,
	    l->flags & SHINGLE_SB_NEEDS_CHECK ? ", needs_check" : "");
	say("  presents %llu blocks of 4 KiB, %s", l->logical_blocks,
	    blocks_text(l->logical_blocks).s);
	show_band_blocks(l);
	if (l->interlaced)
		say("  tracks   interlaced: bottom, top, bottom, ...");
	say("  head     %u track%s wide", l->head_tracks, l->head_tracks == 1 ? "" : "s");
	for (i = 0; i < SHINGLE_NR_ROLES; i++)
		show_role(l, i);
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (l->dev_blocks[i])
			say("  %-8s %llu blocks, %s", dev_name(i), l->dev_blocks[i],
			    blocks_text(l->dev_blocks[i]).s);
	}
	for (i = 0; row && row->ops->params[i].name; i++)
		say("  %s %u", row->ops->params[i].name, engine_param_get(&row->ops->params[i], l->params));
	if (!shingle_settings_decode(&l->settings, settings, &why) && settings[0])
		say("  settings %s", settings);
	show_capacity(l);
	show_areas(l);
	show_groups(l);
}

static void area_json(const struct shingle_area *a, const char *key, struct json_object *in)
{
	struct json_object *j = json_dict(in, key);

	json_u64(j, "start", a->start);
	json_u64(j, "blocks", a->blocks);
}

/**
 * show_layout_json() - add a layout to a JSON object
 * @l: the layout
 * @row: its translation layer, or NULL if unknown
 * @j: the object that it goes into
 */
void show_layout_json(const struct shingle_layout *l, const struct engine_row *row,
		      struct json_object *j)
{
	struct json_object *each, *group;
	char settings[SHINGLE_SETTINGS_BYTES + 1], uuid[UUID_STR_LEN];
	const char *why;
	u32 i;

	uuid_unparse_lower(l->uuid, uuid);
	json_str(j, "type", l->engine);
	json_str(j, "uuid", uuid);
	json_str(j, "label", l->label);
	json_u64(j, "ctime", l->ctime);
	json_u64(j, "generation", l->sb_seq);
	shingle_settings_decode(&l->settings, settings, &why);
	json_str(j, "settings", settings);
	json_bool(j, "needs_check", l->flags & SHINGLE_SB_NEEDS_CHECK);
	json_u64(j, "block_bytes", SHINGLE_BLOCK_SIZE);
	json_u64(j, "logical_blocks", l->logical_blocks);
	json_u64(j, "band_blocks", l->band_blocks[SHINGLE_ROLE_DATA]);
	json_bool(j, "interlaced", l->interlaced);
	json_u64(j, "head_tracks", l->head_tracks);
	each = json_dict(j, "devices");
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (l->dev_blocks[i])
			json_u64(each, dev_name(i), l->dev_blocks[i]);
	}
	each = json_dict(j, "bands");
	for (i = 0; i < SHINGLE_NR_ROLES; i++)
		json_u64(each, role_name(i), l->nr_bands[i]);
	capacity_json(l, j);
	json_str(j, "metadata_device", dev_name(shingle_meta_dev(l)));
	each = json_list(j, "checkpoints");
	area_json(&l->ckpt[0], NULL, each);
	area_json(&l->ckpt[1], NULL, each);
	area_json(&l->journal, "journal", j);
	json_u64(j, "journal_gap_blocks", l->journal_gap_blocks);
	if (l->pages.blocks)
		area_json(&l->pages, "pages", j);
	each = json_dict(j, "params");
	for (i = 0; row && row->ops->params[i].name; i++)
		json_u64(each, row->ops->params[i].name,
			 engine_param_get(&row->ops->params[i], l->params));
	each = json_list(j, "groups");
	for (i = 0; i < l->nr_groups; i++) {
		const struct shingle_group *g = &l->groups[i];

		group = json_dict(each, NULL);
		json_str(group, "role", role_name(g->role));
		json_str(group, "device", dev_name(shingle_pblk_dev(g->start)));
		json_u64(group, "start", shingle_pblk_block(g->start));
		json_u64(group, "band_blocks", l->band_blocks[g->role]);
		json_u64(group, "stride", g->stride);
		json_u64(group, "bands", g->nr_bands);
		json_u64(group, "first_band", g->first_band);
		json_u64(group, "track_blocks", g->track_blocks);
	}
}
