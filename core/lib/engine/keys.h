/* SPDX-License-Identifier: GPL-2.0 */
/* The keys of a table line that every target has. */
#ifndef SHINGLE_KEYS_H
#define SHINGLE_KEYS_H

#include "engine/engine.h"

#define SHINGLE_MAX_MS		600000
/* 256 MiB: no drive has more. */
#define SHINGLE_WCACHE_MAX	65536
/* Default of destage_ms. */
#define SHINGLE_DESTAGE_MS	100
/* The same where blocks wait for others. */
#define SHINGLE_GATHER_MS	5000

#define SHINGLE_NO_WCACHE \
	"There is no write cache to be switched on: give wcache_blocks"

/**
 * struct shingle_config - what these keys have set
 * @engine: whose defaults count
 * @commit_ms: commit so long after a change at the latest, 0 = never by itself
 * @idle_ms: clean when the host was quiet for so long, 0 = never
 * @wcache_blocks: size of the write cache, 0 = none, or as the engine needs it
 * @wcache: it takes writes in
 * @wcache_wanted: that was asked for
 * @destage_ms: write a block of it so long after it came at the latest, 0 = not for that
 *	reason
 * @rotational: the queue says that it rotates
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
int shingle_config_settle(struct shingle_config *c, const char **why);

#endif /* SHINGLE_KEYS_H */
