/* SPDX-License-Identifier: GPL-2.0 */
/* What a platter's table line can say.  Pure. */
#ifndef PLATTER_OPTIONS_H
#define PLATTER_OPTIONS_H

#include "engine/options.h"
#include "profiles.h"

#define PLATTER_BLOCK_SECTORS	8U
#define PLATTER_MAX_QUEUE_DEPTH	32
#define PLATTER_MAX_HEADLOG	65536U
/* By default a cache that nobody hurries waits this long for the host to pause. */
#define PLATTER_DESTAGE_IDLE_MS	50U

enum platter_damage_mode {
	DAMAGE_NONE,
	DAMAGE_COUNT,
	DAMAGE_POISON,
	DAMAGE_SHADOW,
};

/**
 * struct platter_options - what a table line has said
 * @cfg: of the drive
 * @damage_mode: what becomes of blocks that the head destroys
 * @discard: discards pass to the device
 * @timing: requests take the model's time
 * @sptf: the queue is served by position, not in order of arrival
 * @wcache_on: writes go to the write cache
 * @lookahead_on: the head reads on
 * @rotational: the queue says that it rotates
 * @queue_depth: requests that the scheduler sees
 * @wcache_idle_ms: the write cache is written when the host has paused for so long
 * @headlog: entries of the head log
 * @head_given: the width of the head is not the profile's
 * @state: path of the device for the map of destroyed blocks, or NULL
 * @pair: room for reading lists
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
