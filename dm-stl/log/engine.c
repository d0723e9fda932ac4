// SPDX-License-Identifier: GPL-2.0
/*
 * Log-structured shingle translation layer.  Pure code; see engine.h.  This file looks blocks up
 * and has the options; log/write.c writes, log/clean.c cleans, log/segments.c manages the
 * segments.
 *
 * Every write goes to the frontier of the log, in the order of arrival; an extent map says where
 * blocks are.  Hajkazemi et al. (2018), section 2.  The log consists of segments, each a band with
 * its guard, so a write behind the frontier destroys nothing.
 *
 * Nothing is overwritten before a map that does not refer to it is durable.  So recovery has
 * nothing to redo: the last segment that each frontier wrote is filled up to the last block in use.
 */
#include "log/state.h"

static u32 initial_threshold(const void *of)
{
	const struct stl_log *s = of;
	const struct stl_log_params *p = (const void *)s->layout->params;

	return max(le32_to_cpu(p->reserve) / 2, 2U);
}

static int set_threshold(void *of, u32 segments, const char **why)
{
	const struct stl_log *s = of;

	return segments < s->nr_segments ? 0 : -ERANGE;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct stl_log, member)
#define SET(member)	OPTION(reads.remedies.set.member)

static const struct shingle_option stl_log_options[] = {
	{ .name = "clean", .kind = SHINGLE_OPTION_WORD, OPTION(policy),
	  .words = SHINGLE_OPTION_WORDS("off", "greedy", "cost-benefit"),
	  .initial = LOG_CLEAN_COST_BENEFIT,
	  .range = "clean must be off, greedy or cost-benefit",
	  .help = "how the band to clean is chosen; off: writes fail when the log is full" },
	{ .name = "threshold", .kind = SHINGLE_OPTION_NUMBER, OPTION(threshold),
	  .min = 2, .max = U32_MAX, .find_initial = initial_threshold, .set = set_threshold,
	  .range = "threshold must be at least 2 and less than the bands of the log",
	  .help = "number of free bands that are kept when the host is quiet" },
	{ .name = "defrag_frags", .kind = SHINGLE_OPTION_NUMBER, SET(defrag_frags),
	  .max = U32_MAX, .range = "defrag_frags must be a number of fragments",
	  .help = "fragments of a read whose data are written again, 0: no read is" },
	{ .name = "defrag_hits", .kind = SHINGLE_OPTION_NUMBER, SET(defrag_hits),
	  .min = 1, .max = SHINGLE_DEFRAG_HITS, .initial = 1,
	  .range = "defrag_hits must be 1 to 255",
	  .help = "such reads of a MiB until one is written again" },
	{ .name = "defrag_blocks", .kind = SHINGLE_OPTION_NUMBER, SET(defrag_units),
	  .min = 2, .max = U32_MAX, .initial = 2048,
	  .range = "defrag_blocks must be at least 2 blocks",
	  .help = "largest read that is written again" },
	{ .name = "look_behind", .kind = SHINGLE_OPTION_NUMBER, SET(behind),
	  .max = SHINGLE_AROUND_BLOCKS, .range = "look_behind must be 0 to 128 blocks",
	  .help = "blocks that are read with a fragment, before it" },
	{ .name = "look_ahead", .kind = SHINGLE_OPTION_NUMBER, SET(ahead),
	  .max = SHINGLE_AROUND_BLOCKS, .range = "look_ahead must be 0 to 128 blocks",
	  .help = "blocks that are read with a fragment, behind it" },
	{ .name = "look_regions", .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_TABLE,
	  OPTION(reads.regions), .max = SHINGLE_AROUND_REGIONS,
	  .range = "look_regions must be 0 to 32",
	  .busy = "look_regions can only be set by a table",
	  .help = "reads of look-ahead-behind that are kept, 2 MiB each" },
	{ .name = "selective", .kind = SHINGLE_OPTION_WORD, SET(keep),
	  .words = SHINGLE_OPTION_WORDS("off", "on"), .range = "selective must be off or on",
	  .help = "whether fragments of fragmented reads enter the read cache" },
	{ .name = "read_cache_kb", .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_TABLE,
	  OPTION(reads.cache_kb), .max = 1 << 20, .range = "read_cache_kb must be 0 to 1048576",
	  .busy = "read_cache_kb can only be set by a table",
	  .help = "size of the read cache in KiB" },
	{ SHINGLE_OPTION_UNSAFE("unsafe_no_rest", struct stl_log, no_rest,
				"a write that splits an extent does not record its right part"),
	  .busy = "unsafe_no_rest can only be set by a table" },
	{ }
};

#define PARAM(word, member, most) SHINGLE_OPTION_PARAM(word, struct stl_log_params, member, most)

static const struct shingle_option stl_log_format[] = {
	{ PARAM("home-bands", home_bands, U32_MAX), .from = "0",
	  .help = "bands at the beginning for reads of blocks that were never written" },
	{ PARAM("reserve", reserve, U32_MAX), .from = "7 %, at least 3",
	  .help = "bands of the log beyond those that can hold blocks in use" },
	{ PARAM("extents", extents, U32_MAX), .from = "one for each block up to 2^20, then 1/16",
	  .help = "most extents of the map, 36 bytes of RAM each" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER(#name, struct stl_log, n.name, COUNT)

static const struct shingle_counter stl_log_counters[] = {
	COUNT(placed_blocks),
	COUNT(aborted_blocks),
	COUNT(moved_blocks),
	COUNT(joined_extents),
	COUNT(bands_opened),
	COUNT(bands_cleaned),
	COUNT(bands_freed),
	COUNT(full_logs),
	COUNT(full_extents),
	COUNT(rewritten_blocks),
	COUNT(dropped_rewrites),
	SHINGLE_COUNTER("waiting_rewrites", struct stl_log, rewrites.nr, NOW),
	SHINGLE_COUNTER("cache_hits", struct stl_log, reads.cache_hits, COUNT),
	SHINGLE_COUNTER("cache_misses", struct stl_log, reads.cache_misses, COUNT),
	SHINGLE_COUNTER("region_hits", struct stl_log, reads.region_hits, COUNT),
	SHINGLE_COUNTER("region_misses", struct stl_log, reads.region_misses, COUNT),
	SHINGLE_SEEKS_COUNTERS(struct stl_log, reads.seeks),
	SHINGLE_COUNTER("extents", struct stl_log, x.nr, NOW),
	SHINGLE_COUNTER("free_bands", struct stl_log, free.nr, NOW),
	{ }
};

static_assert(ARRAY_SIZE(stl_log_counters) <= SHINGLE_MAX_COUNTERS + 1);

static void stl_log_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	const struct stl_log *s = to_log(e);
	u32 place;

	out->lblk = lblk;
	out->n = shingle_extents_find(&s->x, lblk, n, &place);
	if (place != SHINGLE_EXTENTS_NONE) {
		/* Consecutive places of two segments have a guard between them. */
		out->n = min(out->n, s->band_blocks - place % s->band_blocks);
		out->pblk = place_pblk(s, place);
		out->kind = SHINGLE_RUN_MAPPED;
	} else if (s->home_bands) {
		u32 offset = (u32)lblk % s->band_blocks;

		out->n = min(out->n, s->band_blocks - offset);
		out->pblk = shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA,
					      (u32)lblk / s->band_blocks) + offset;
		out->kind = SHINGLE_RUN_UNWRITTEN;
	} else {
		out->kind = SHINGLE_RUN_ZERO;
	}
}

/* Blocks of the home are not in use: they are zeroes, whatever a read returns. */
static bool stl_log_referenced(struct shingle_engine *e, enum shingle_role role, u64 band,
			       u64 offset, u64 n)
{
	const struct stl_log *s = to_log(e);
	const struct log_segment *g;

	if (band < s->home_bands)
		return false;
	g = &s->segment[band - s->home_bands];
	return g->use == LOG_PENDING || offset < g->fill;
}

static u64 stl_log_map_bytes(struct shingle_engine *e)
{
	const struct stl_log *s = to_log(e);

	return shingle_extents_bytes(&s->x) +
	       (u64)s->nr_segments * (sizeof(*s->segment) + 2 * sizeof(u32) + sizeof(u64));
}

/* The log is the place of all blocks: none waits to be moved to another one. */
static u64 stl_log_cached_blocks(struct shingle_engine *e)
{
	return 0;
}

const struct shingle_engine_ops stl_log_engine_ops = {
	.name = "stl-log",
	.commit_records = 3,
	.step_records = MOVE_RECORDS,
	.step_kinds = { [STEP_MOVE] = "move", [STEP_JOIN] = "join",
			[STEP_REWRITE] = "rewrite" },
	.discard_records = 2,
	.options = stl_log_options,
	.params = stl_log_format,
	.counters = stl_log_counters,
	.records = stl_log_records,
	.logical_blocks = stl_log_logical_blocks,
	.create = stl_log_create,
	.destroy = stl_log_destroy,
	.map = {
		.resolve = stl_log_resolve,
		.place = stl_log_place,
		.commit = stl_log_commit,
		.abort = stl_log_abort,
		.discard = stl_log_discard,
		.referenced = stl_log_referenced,
	},
	.clean = {
		.next_step = stl_log_next_step,
		.step_extent = stl_log_step_extent,
		.step_done = stl_log_step_done,
		.step_failed = stl_log_step_failed,
		.release = stl_log_release,
		.pending = stl_log_pending,
	},
	.state = {
		.pieces = stl_log_pieces,
		.replay = stl_log_replay,
		.ready = stl_log_ready,
	},
	.read = {
		.around = stl_log_around,
		.rewrite = stl_log_rewrite,
	},
	.observe = {
		.verify = stl_log_verify,
		.map_bytes = stl_log_map_bytes,
		.cached_blocks = stl_log_cached_blocks,
	},
};
EXPORT_SYMBOL_GPL(stl_log_engine_ops);
