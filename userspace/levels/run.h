/* SPDX-License-Identifier: GPL-2.0 */
/* The load, on a device and through any number of models at once. */
#ifndef LEVELS_RUN_H
#define LEVELS_RUN_H

#include "disk.h"
#include "load.h"
#include "model.h"

#define MAX_MODELS	16
#define MAX_POINTS	1000

/**
 * struct point - where things stood
 * @inserted: records
 * @files: written
 * @seconds: since the beginning
 * @persist_s: of them persisting files
 * @rewrites: by model
 * @syncs: by model
 * @done_rewrites: on the device, by the program itself
 * @done_syncs: the same
 */
struct point {
	u64 inserted, files;
	double seconds, persist_s;
	u64 rewrites[MAX_MODELS], syncs[MAX_MODELS];
	u64 done_rewrites, done_syncs;
};

/**
 * struct spent - what something took
 * @s: seconds
 * @persist_s: of them persisting files
 * @rewriting_s: of them in steps that back up or restore, see struct disk_stats
 * @rewrites: tops written back, by the program itself
 */
struct spent {
	double s, persist_s, rewriting_s;
	u64 rewrites;
};

/**
 * struct target_stats - a target's own counters
 * @text: its lines, NULL if it has none
 */
struct target_stats {
	char *text;
};

/**
 * struct run - everything under way
 * @load: the store
 * @place: allocation of the device's own tracks
 * @disk: the device, if @on_disk
 * @on_disk: see there
 * @tracks: of the disk
 * @track_bytes: each
 * @model: see there
 * @model_name: as the user gave them
 * @models: how many
 * @record: what is done to files goes here, for --trace; or NULL
 * @manifest: files that are alive go here; or NULL
 * @point: the load in equal parts
 * @points: how many of them have passed
 * @points_wanted: of the load
 * @filling: the load is under way, not the mix
 * @progress: see there
 * @shown: records that @progress knows of
 * @began: when the load did
 * @load_s: seconds of the load
 * @mix_s: seconds of the mix
 * @compact_began: where things stood when the compaction under way did
 * @compact: what compactions took, reads included; the memtable's files are written
 *	outside of them, and so are moves
 * @load_compact: of it during the load
 * @load_stats: the store's statistics at the end of the load
 * @load_disk_stats: the device's then
 */
struct run {
	struct load load;
	struct model place;
	struct disk disk;
	bool on_disk;
	u32 tracks;
	u32 track_bytes;
	struct model model[MAX_MODELS];
	const char *model_name[MAX_MODELS];
	u32 models;
	FILE *record;
	FILE *manifest;
	struct point point[MAX_POINTS];
	u32 points, points_wanted;
	bool filling;
	struct progress progress;
	u64 shown;
	double began, load_s, mix_s;
	struct spent compact_began, compact, load_compact;
	struct load_stats load_stats;
	struct disk_stats load_disk_stats;
};

int run_load(struct run *r, const struct load_options *opt);
int run_verify(struct run *r);
int run_check(struct run *r, const char *path);
void run_exit(struct run *r);

void report_people(const struct run *r, const struct target_stats *target);
void report_json(const struct run *r, const struct target_stats *target);

int trace(FILE *in, const struct model_options *opt, u32 tracks);

#endif /* LEVELS_RUN_H */
