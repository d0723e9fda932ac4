/* SPDX-License-Identifier: GPL-2.0 */
/* The options of a platter's table line.  Pure code. */
#ifndef PLATTER_OPTIONS_H
#define PLATTER_OPTIONS_H

#include "engine/options.h"
#include "profiles.h"

#define PLATTER_BLOCK_SECTORS	8U
#define PLATTER_MAX_QUEUE_DEPTH	32
#define PLATTER_MAX_HEADLOG	65536U
/* Default for wcache_idle_ms: the cache is written after the host has paused for this long. */
#define PLATTER_DESTAGE_IDLE_MS	50U

enum platter_damage_mode {
	DAMAGE_NONE,
	DAMAGE_COUNT,
	DAMAGE_POISON,
	DAMAGE_SHADOW,
};

/**
 * struct platter_options - the options of a table line
 * @cfg: configuration of the drive
 * @damage_mode: treatment of blocks that the head destroys
 * @discard: discards pass to the device
 * @timing: requests take the model's time
 * @sptf: serve the queue by position, not in order of arrival
 * @wcache_on: the write cache is on
 * @lookahead_on: look-ahead is on
 * @rotational: the queue is marked as rotational
 * @queue_depth: requests that the scheduler sees
 * @wcache_idle_ms: write the cache to the medium after the host has paused for this long
 * @headlog: entries of the head log
 * @head_given: the table line sets the width of the head
 * @state: path of the device for the map of destroyed blocks, or NULL
 * @pair: buffer for parsing lists
 */
struct platter_options {
	struct platter_config cfg;
	enum platter_damage_mode damage_mode;
	bool discard;
	bool timing;
	bool sptf;
	bool wcache_on;
	bool lookahead_on;
	bool rotational;
	u32 queue_depth;
	u32 wcache_idle_ms;
	u32 headlog;
	bool head_given;
	const char *state;
	u64 pair[PLATTER_MAX_SEEK_POINTS][2];
};

extern const char *const platter_media_names[];
extern const char *const platter_damage_names[];
extern const char *const platter_onoff_names[];
extern const struct shingle_option platter_options[];

void platter_options_init(struct platter_options *o, const struct platter_profile *profile,
			  u64 blocks);

#endif /* PLATTER_OPTIONS_H */
