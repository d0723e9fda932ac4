// SPDX-License-Identifier: GPL-2.0
/* Autonomous regions: options and counters. */
#include "tiler-state.h"

#define OPTION(member)	SHINGLE_OPTION_AT(struct tiler, member)

const struct shingle_option tiler_options[] = {
	SHINGLE_OPTION_MAP_CACHE,
	{ .name = "region_cache", .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_TABLE,
	  OPTION(pool.max), .min = TILER_MIN_RESIDENTS, .max = TILER_MAX_RESIDENTS,
	  .initial = 256,
	  .range = "region_cache must be from 4 to 4096 regions",
	  .busy = "region_cache can only be set by a table, not while the device is in use",
	  .help = "regions in RAM, that can be written to at once" },
	{ .name = "lazy", .kind = SHINGLE_OPTION_WORD, .when = SHINGLE_OPTION_TABLE,
	  OPTION(opt.lazy), .initial = 1, .words = SHINGLE_OPTION_WORDS("off", "on"),
	  .range = "lazy must be on or off",
	  .busy = "lazy can only be set by a table, not while the device is in use",
	  .help = "a full region is written where the head harms nothing, or cleaned" },
	{ SHINGLE_OPTION_UNSAFE("unsafe_reuse", struct tiler, opt.unsafe_reuse,
				"places are written again before that is durable") },
	{ SHINGLE_OPTION_UNSAFE("unsafe_inplace", struct tiler, opt.unsafe_inplace,
				"a region of whole tracks is cleaned over itself, from memory") },
	{ }
};

#define PARAM(word, member, most) SHINGLE_OPTION_PARAM(word, struct tiler_params, member, most)

const struct shingle_option tiler_format_options[] = {
	{ PARAM("rows", rows, TILER_MAX_BLOCKS), .from = "band",
	  .help = "tracks of a region" },
	{ PARAM("columns", columns, TILER_MAX_BLOCKS), .from = "track",
	  .help = "blocks of a region on each of its tracks" },
	{ PARAM("over-permille", over_permille, 999), .initial = 100, .from = "100",
	  .help = "of a region what is not addressable, of each 1000 blocks" },
	{ PARAM("spare-regions", spares, TILER_MAX_SPARES), .initial = 1, .from = "1",
	  .help = "slots without a region, for each length of tracks" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER("tiler_" #name, struct tiler, count.name, COUNT)

const struct shingle_counter tiler_counters[] = {
	COUNT(log_blocks),
	COUNT(lazy_blocks),
	COUNT(merged_blocks),
	COUNT(moved_blocks),
	COUNT(cleans),
	COUNT(commit_waits),
	SHINGLE_COUNTER("tiler_region_loads", struct tiler, loads, COUNT),
	SHINGLE_COUNTER("tiler_wiped_pages", struct tiler, wiped_pages, COUNT),
	{ }
};

static_assert(ARRAY_SIZE(tiler_counters) <= SHINGLE_MAX_COUNTERS + 1);
