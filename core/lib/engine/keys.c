// SPDX-License-Identifier: GPL-2.0
/* The keys of a table line that all targets have.  Pure. */
#include "engine/keys.h"

static u32 initial_idle_ms(const void *of)
{
	const struct shingle_config *c = of;

	return c->engine->idle_ms;
}

static u32 initial_wcache_blocks(const void *of)
{
	const struct shingle_config *c = of;

	return c->engine->buffer_blocks;
}

static u32 initial_destage_ms(const void *of)
{
	const struct shingle_config *c = of;

	return c->engine->gather_blocks ? SHINGLE_GATHER_MS : SHINGLE_DESTAGE_MS;
}

static int want_wcache(void *of, u32 value, const char **why)
{
	struct shingle_config *c = of;

	c->wcache_wanted = value;
	return 0;
}

const struct shingle_option shingle_keys[] = {
	[SHINGLE_KEY_COMMIT_MS] = {
		.name = "commit_ms", .kind = SHINGLE_OPTION_NUMBER,
		SHINGLE_OPTION_AT(struct shingle_config, commit_ms),
		.max = SHINGLE_MAX_MS, .initial = 1000,
		.range = "commit_ms must be from 0 (never by itself) to 600000 milliseconds",
		.help = "commit so long after a change at the latest; 0: only when asked to",
	},
	[SHINGLE_KEY_IDLE_MS] = {
		.name = "idle_ms", .kind = SHINGLE_OPTION_NUMBER,
		SHINGLE_OPTION_AT(struct shingle_config, idle_ms),
		.max = SHINGLE_MAX_MS, .find_initial = initial_idle_ms,
		.range = "idle_ms must be from 0 (never) to 600000 milliseconds",
		.help = "the host is quiet after so long without a request; 0: never",
	},
	[SHINGLE_KEY_WCACHE_BLOCKS] = {
		.name = "wcache_blocks", .kind = SHINGLE_OPTION_NUMBER,
		.when = SHINGLE_OPTION_TABLE,
		SHINGLE_OPTION_AT(struct shingle_config, wcache_blocks),
		.max = SHINGLE_WCACHE_MAX, .find_initial = initial_wcache_blocks,
		.range =
		"wcache_blocks must be from 0 (no write cache) to 65536 blocks of 4096 bytes",
		.busy = "wcache_blocks can only be set by a table, not while the device is in use",
		.help = "size of the write cache in blocks of 4 KiB",
	},
	[SHINGLE_KEY_WCACHE] = {
		.name = "wcache", .kind = SHINGLE_OPTION_WORD,
		SHINGLE_OPTION_AT(struct shingle_config, wcache),
		.words = SHINGLE_OPTION_WORDS("off", "on"), .initial = true,
		.set = want_wcache,
		.range = "wcache must be on or off",
		.help = "whether the write cache takes writes in",
	},
	[SHINGLE_KEY_DESTAGE_MS] = {
		.name = "destage_ms", .kind = SHINGLE_OPTION_NUMBER,
		SHINGLE_OPTION_AT(struct shingle_config, destage_ms),
		.max = SHINGLE_MAX_MS, .find_initial = initial_destage_ms,
		.range = "destage_ms must be from 0 (only when it must) to 600000 milliseconds",
		.help = "write a cached block so long after it came at the latest; 0: when it must",
	},
	[SHINGLE_KEY_ROTATIONAL] = {
		.name = "rotational", .kind = SHINGLE_OPTION_WORD,
		.when = SHINGLE_OPTION_TABLE,
		SHINGLE_OPTION_AT(struct shingle_config, rotational),
		.words = SHINGLE_OPTION_WORDS("off", "on"), .initial = true,
		.range = "rotational must be on or off",
		.busy = "rotational can only be set by a table: what stands above has asked by now",
		.help = "what the queue says",
	},
	{ }
};

/**
 * shingle_config_init() - set all keys to their defaults
 * @c: the configuration
 * @engine: the engine that determines defaults
 *
 * Context: any.
 */
void shingle_config_init(struct shingle_config *c, const struct shingle_engine *engine)
{
	c->engine = engine;
	shingle_options_init(shingle_keys, c);
	/* The size that the engine needs may depend on its options. */
	c->wcache_blocks = 0;
}

/**
 * shingle_config_finish() - all options are set: derive and check what depends on several
 * @c: the configuration
 * @why: on error the reason, a sentence
 *
 * The tool calls it before it writes anything, the targets when a table is loaded.
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int shingle_config_finish(struct shingle_config *c, const char **why)
{
	if (c->engine->gather_blocks && !c->wcache_blocks)
		c->wcache_blocks = c->engine->buffer_blocks;
	if (!c->wcache_blocks)
		c->wcache = true;
	*why = SHINGLE_NO_WCACHE;
	return c->wcache_wanted && !c->wcache_blocks ? -EINVAL : 0;
}
