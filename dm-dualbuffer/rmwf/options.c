// SPDX-License-Identifier: GPL-2.0
/* The engine of RMW-F: options and counters. */
#include "rmwf/state.h"

static int set_inplace(void *of, u32 yes, const char **why)
{
	struct rmwf *s = of;

	s->engine.copy_blocks = s->space.band_blocks;
	return 0;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct rmwf, member)

const struct shingle_option rmwf_options[] = {
	{ .name = "rule", .kind = SHINGLE_OPTION_WORD, OPTION(opt.pointer),
	  .words = SHINGLE_OPTION_WORDS("window", "pointer"),
	  .range = "rule must be window or pointer",
	  .help = "which writes go home: that destroy nothing, or behind all of their column" },
	{ .name = "alloc", .kind = SHINGLE_OPTION_WORD, OPTION(flash.pool),
	  .words = SHINGLE_OPTION_WORDS("static", "pool"),
	  .range = "alloc must be static or pool",
	  .help = "pages of a block go to its group's flash block, or anywhere" },
	{ .name = "hot_threshold", .kind = SHINGLE_OPTION_NUMBER, OPTION(opt.hot), .max = U16_MAX,
	  .initial = 2, .range = "hot_threshold must be 0 to 65535",
	  .help = "what was written to flash more often is hot" },
	{ .name = "gc_free_percent", .kind = SHINGLE_OPTION_NUMBER, OPTION(opt.percent), .min = 1,
	  .max = 100, .initial = 25, .range = "gc_free_percent must be 1 to 100",
	  .help = "a collection frees so much of a flash block" },
	{ SHINGLE_OPTION_UNSAFE("unsafe_pointer", struct rmwf, opt.unsafe_pointer,
				"what is written in place is not recorded") },
	{ SHINGLE_OPTION_UNSAFE("unsafe_inplace", struct rmwf, opt.unsafe_inplace,
				"bands are rewritten without staging, from memory"),
	  .set = set_inplace },
	{ SHINGLE_OPTION_UNSAFE("literal", struct rmwf, opt.literal,
				"what is hot is never brought home, and writes fail for that") },
	{ }
};

#define PARAM(word, member, most) SHINGLE_OPTION_PARAM(word, struct rmwf_params, member, most)

const struct shingle_option rmwf_format_options[] = {
	{ PARAM("page-blocks", page_blocks, RMWF_PAGES), .from = "64",
	  .help = "pages of a flash block" },
	{ PARAM("group-columns", group_columns, PLATTER_MAX_TRACK_BLOCKS), .from = "as it fits",
	  .help = "columns beside each other that share a flash block" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER(#name, struct rmwf, count.name, COUNT)
#define NOW(name, member) SHINGLE_COUNTER(#name, struct rmwf, member, NOW)

const struct shingle_counter rmwf_counters[] = {
	COUNT(direct_blocks),
	COUNT(flash_blocks),
	COUNT(aborted_blocks),
	COUNT(full_waits),
	COUNT(refused),
	COUNT(collections),
	COUNT(collections_forced),
	COUNT(merged_blocks),
	COUNT(cold_blocks),
	COUNT(hot_blocks),
	COUNT(rmw_home_blocks),
	COUNT(rmw_staged_blocks),
	NOW(waiting_stretches, space.nr_pins),
	{ }
};

static_assert(ARRAY_SIZE(rmwf_counters) <= SHINGLE_MAX_COUNTERS + 1);
