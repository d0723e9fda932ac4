/* SPDX-License-Identifier: GPL-2.0 */
/* The keys of a table line that every target has. */
#ifndef SHINGLE_KEYS_H
#define SHINGLE_KEYS_H

#include "engine.h"

#define SHINGLE_MAX_MS		600000
/* 256 MiB: no drive has more. */
#define SHINGLE_WCACHE_MAX	65536

#define SHINGLE_NO_WCACHE \
	"There is no write cache to be switched on: give wcache_blocks"

enum shingle_key {
	SHINGLE_KEY_COMMIT_MS,
	SHINGLE_KEY_IDLE_MS,
	SHINGLE_KEY_WCACHE_BLOCKS,
	SHINGLE_KEY_WCACHE,		/* 0 is off, 1 is on */
	SHINGLE_KEY_DESTAGE_MS,
	SHINGLE_KEY_ROTATIONAL,		/* as SHINGLE_KEY_WCACHE */
};

/**
 * struct shingle_key_row - one of them
 * @name: in the table line
 * @max: largest value
 * @why: the sentence for every other value
 */
struct shingle_key_row {
	const char *name;
	unsigned int max;
	const char *why;
};

static const struct shingle_key_row shingle_keys[] = {
	[SHINGLE_KEY_COMMIT_MS] = {
		"commit_ms", SHINGLE_MAX_MS,
		"commit_ms must be from 0 (never by itself) to 600000 milliseconds",
	},
	[SHINGLE_KEY_IDLE_MS] = {
		"idle_ms", SHINGLE_MAX_MS, "idle_ms must be from 0 (never) to 600000 milliseconds",
	},
	[SHINGLE_KEY_WCACHE_BLOCKS] = {
		"wcache_blocks", SHINGLE_WCACHE_MAX,
		"wcache_blocks must be from 0 (no write cache) to 65536 blocks of 4096 bytes",
	},
	[SHINGLE_KEY_WCACHE] = { "wcache", 1, "wcache must be on or off" },
	[SHINGLE_KEY_DESTAGE_MS] = {
		"destage_ms", SHINGLE_MAX_MS,
		"destage_ms must be from 0 (only when it must) to 600000 milliseconds",
	},
	[SHINGLE_KEY_ROTATIONAL] = { "rotational", 1, "rotational must be on or off" },
};

/**
 * shingle_key_parse() - is a key one of these, and does it take the value?
 * @name: the key
 * @value: what is wanted
 * @number: the same as a number
 * @why: on -ERANGE what is wrong, in a sentence
 *
 * The tool asks before it writes anything, the targets when a table is loaded.
 *
 * Context: any.  Returns an enum shingle_key; -ENOENT if the key is none of
 * these and may be the engine's; or -ERANGE.
 */
static inline int shingle_key_parse(const char *name, const char *value, unsigned int *number,
				    const char **why)
{
	bool on = false;
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(shingle_keys) && strcmp(shingle_keys[i].name, name); i++)
		;
	if (i == ARRAY_SIZE(shingle_keys))
		return -ENOENT;
	*why = shingle_keys[i].why;
	if (i == SHINGLE_KEY_WCACHE || i == SHINGLE_KEY_ROTATIONAL) {
		err = shingle_choose(value, "off", "on", &on);
		*number = on;
	} else {
		err = kstrtouint(value, 10, number);
	}
	return err || *number > shingle_keys[i].max ? -ERANGE : (int)i;
}

#endif /* SHINGLE_KEYS_H */
