/* SPDX-License-Identifier: GPL-2.0 */
/* The keys of a table line that all targets have. */
#ifndef SHINGLE_KEYS_H
#define SHINGLE_KEYS_H

#include "engine/engine.h"

#define SHINGLE_MAX_MS		600000
/* 256 MiB: no drive has more. */
#define SHINGLE_WCACHE_MAX	65536
/* Default of destage_ms. */
#define SHINGLE_DESTAGE_MS	100
/* Default of destage_ms if the engine gathers writes: it wants to see many at once. */
#define SHINGLE_GATHER_MS	5000

#define SHINGLE_NO_WCACHE \
	"There is no write cache to be switched on: give wcache_blocks"

/**
 * struct shingle_config - values of these keys
 * @engine: the engine that determines defaults
 * @commit_ms: commit at the latest this time after a change, 0 = no timer
 * @idle_ms: clean when the host was idle for this time, 0 = never
 * @wcache_blocks: size of the write cache, 0 = none, or as the engine needs it
 * @wcache: the write cache is on: it accepts writes
 * @wcache_wanted: the table line asks for the write cache to be on
 * @destage_ms: write a cached block at the latest after this time, 0 = no timer
 * @rotational: the queue reports a rotational device
 */
struct shingle_config {
	const struct shingle_engine *engine;
	u32 commit_ms;
	u32 idle_ms;
	u32 wcache_blocks;
	bool wcache;
	bool wcache_wanted;
	u32 destage_ms;
	bool rotational;
};

enum shingle_key {
	SHINGLE_KEY_COMMIT_MS,
	SHINGLE_KEY_IDLE_MS,
	SHINGLE_KEY_WCACHE_BLOCKS,
	SHINGLE_KEY_WCACHE,
	SHINGLE_KEY_DESTAGE_MS,
	SHINGLE_KEY_ROTATIONAL,
};

extern const struct shingle_option shingle_keys[];

void shingle_config_init(struct shingle_config *c, const struct shingle_engine *engine);
int shingle_config_finish(struct shingle_config *c, const char **why);

#endif /* SHINGLE_KEYS_H */
