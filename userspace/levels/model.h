/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Track allocation and protection of an interlaced disk, in figures only: which
 * tracks a file gets, what is rewritten for it and how often the drive is
 * synced.  Written from the specification and not from the target's engine, so
 * that the two check each other.
 *
 * Tracks are numbered from 0; even ones are bottoms, odd ones tops.  Writing a
 * bottom destroys the tops on both sides.
 */
#ifndef LEVELS_MODEL_H
#define LEVELS_MODEL_H

#include "bits.h"

#define MODEL_LEVELS	16	/* 0 to 15 */
#define MODEL_CLASSES	4

/* Which level has the bottoms, if not one by its number. */
#define MODEL_LARGEST_ALIVE	(-1)
#define MODEL_LARGEST_MOST	(-2)

enum model_policy { MODEL_SEQ, MODEL_3PHASE, MODEL_ZIGZAG, MODEL_COMPACTION };
enum model_rmw { MODEL_NO_RMW, MODEL_NAIVE, MODEL_MERGED };

/* Why the drive was synced. */
enum model_sync {
	MODEL_SYNC_ADJACENT,	/* a neighbour was not yet on the medium */
	MODEL_SYNC_BACKUP,	/* #1: the tops are in the backup region */
	MODEL_SYNC_BOTTOM,	/* #2: so are the bottoms over them */
	MODEL_SYNC_RESTORE,	/* #3: the tops are back */
	MODEL_SYNC_FREE,	/* #4: bottoms that harm nothing, before tops */
	MODEL_SYNC_LAST,	/* #5: the whole file */
	MODEL_SYNC_MAP,		/* and where it is */
	MODEL_NR_SYNCS,
};

/**
 * struct model_options - what is modelled
 * @policy: order of allocation
 * @rmw: protection of tops
 * @first_fit: search from the start of a class, not from where it was left
 * @adjacent_needed: sync for a neighbour only before a top
 * @syncs_literal: #4 and #5 even when they have nothing to order
 * @pending: what was freed can be had again only after the next file, but is not
 *	protected any more
 * @surplus_first: the largest level takes tops before bottoms that need an RMW
 * @map: a sync for the map with each file
 * @largest: the level that has the bottoms, with those beyond it; or the highest
 *	that is alive, or the one with most tracks
 */
struct model_options {
	enum model_policy policy;
	enum model_rmw rmw;
	bool first_fit;
	bool adjacent_needed;
	bool syncs_literal;
	bool pending;
	bool surplus_first;
	bool map;
	int largest;
};

/**
 * struct model_stats - what happened
 * @files: persisted
 * @tracks: written, without rewrites
 * @freed: tracks
 * @bottoms: allocated, of which @bottoms_rmw had a valid top beside them
 * @bottoms_rmw: see there
 * @tops: allocated
 * @tier_miss: bottoms for a level that is not the largest
 * @surplus: tops for the largest level
 * @rewrites: tops written back
 * @backups: tops written to the backup region
 * @rmw_files: files that needed an RMW
 * @backup_peak: most backup tracks in use at once
 * @sync: by cause
 */
struct model_stats {
	u64 files, tracks, freed;
	u64 bottoms, bottoms_rmw, tops;
	u64 tier_miss, surplus;
	u64 rewrites, backups, rmw_files, backup_peak;
	u64 sync[MODEL_NR_SYNCS];
};

/**
 * struct model - one disk
 * @opt: see there
 * @tracks: on the disk
 * @used: allocated
 * @valid: allocated and written
 * @unsynced: written since the last sync
 * @avail: free tracks by class: in seq all; else bottoms, then tops of even and
 *	of odd index (3phase, zigzag) or all tops (compaction)
 * @safe: free bottoms without an allocated neighbour
 * @last: index in its class of what was allocated last, -1 for nothing
 * @alive: allocated tracks by level
 * @level: of each track
 * @dirty: the tracks in @unsynced
 * @nr_dirty: how many
 * @held: freed, but not to be had yet
 * @nr_held: how many
 * @max_held: room in @held
 * @stats: see there
 * @event: told each step, or NULL: R read top, K write its copy, r write it
 *	back, W write, S sync, with its cause for the track
 * @ctx: for @event
 */
struct model {
	struct model_options opt;
	u32 tracks;
	struct bits used, valid, unsynced;
	struct bits avail[MODEL_CLASSES];
	struct bits safe;
	s64 last[MODEL_CLASSES];
	u64 alive[MODEL_LEVELS];
	u8 *level;
	u32 *dirty;
	u32 nr_dirty;
	u32 *held;
	u32 nr_held, max_held;
	struct model_stats stats;
	void (*event)(void *ctx, char op, u32 track);
	void *ctx;
};

extern const char *const model_sync_name[MODEL_NR_SYNCS];

bool model_parse(const char *text, struct model_options *opt, const char **why);
int model_init(struct model *m, const struct model_options *opt, u32 tracks);
void model_exit(struct model *m);
int model_allocate(struct model *m, u32 level, u32 *list, u32 n);
void model_persist(struct model *m, const u32 *list, u32 n);
void model_free(struct model *m, const u32 *list, u32 n);
void model_relevel(struct model *m, const u32 *list, u32 n, u32 level);
u64 model_syncs(const struct model *m);

#endif /* LEVELS_MODEL_H */
