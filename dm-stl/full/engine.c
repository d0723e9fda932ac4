// SPDX-License-Identifier: GPL-2.0
/*
 * Fully-associative shingle translation layer.  Pure code; see engine.h.  This file looks
 * blocks up and has the options; full/log.c writes, full/clean.c cleans, full/bands.c
 * manages physical bands.
 *
 * The disk is divided into zones.  A zone has more physical bands than logical bands.
 * Every logical band has a home, which can be any physical band of its zone.  Writes go to
 * the zone's open log band, one slot after the other, for any logical band.  When free
 * bands run short, a log band is cleaned: each logical band with blocks in it is merged,
 * with all its cached blocks, into a free band, which becomes its home.  Aghayev (2020),
 * section 2.3.1.
 *
 * Nothing is overwritten before a map that does not refer to it is durable.  So recovery
 * finds either the old home and the log or the new home, and has nothing to redo.
 *
 * If writes overlap in time, the one that is committed last wins, both in memory and after
 * recovery, because journal records are in the order of commits.  So slots need no age, and
 * any log band with empty slots may become the open one.
 */
#include "full/state.h"

/* Most bands that one discard call visits; bounds the time under the map lock. */
#define DISCARD_BANDS	1024U

#define DEFAULT_THRESHOLD	2U

static u32 initial_threshold(const void *of)
{
	const struct stl_full *s = of;

	return min(DEFAULT_THRESHOLD, s->g.provision - 1);
}

static int set_threshold(void *of, u32 bands, const char **why)
{
	const struct stl_full *s = of;

	return bands < s->g.provision ? 0 : -ERANGE;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct stl_full, member)

static const struct shingle_option stl_full_options[] = {
	{ .name = "cleaning", .kind = SHINGLE_OPTION_WORD, OPTION(lazy),
	  .words = SHINGLE_OPTION_WORDS("aggressive", "lazy"),
	  .range = "cleaning must be lazy or aggressive",
	  .help = "when a write needs the room, or also when the host is quiet" },
	{ .name = "order", .kind = SHINGLE_OPTION_WORD, OPTION(greedy),
	  .words = SHINGLE_OPTION_WORDS("fifo", "greedy"),
	  .range = "order must be fifo or greedy",
	  .help = "which log band is cleaned first" },
	{ .name = "threshold", .kind = SHINGLE_OPTION_NUMBER, OPTION(threshold),
	  .min = 1, .max = U32_MAX, .find_initial = initial_threshold, .set = set_threshold,
	  .range = "threshold must be at least 1 and less than the provision of a zone",
	  .help = "number of free bands of a zone that are kept for cleaning" },
	{ .name = "read_home", .kind = SHINGLE_OPTION_WORD, OPTION(read_all),
	  .words = SHINGLE_OPTION_WORDS("needed", "always"),
	  .range = "read_home must be needed or always",
	  .help = "what cleaning reads of a band at its native place" },
	{ }
};

#define PARAM(word, member, most) SHINGLE_OPTION_PARAM(word, struct stl_full_params, member, most)

static const struct shingle_option stl_full_format[] = {
	{ PARAM("zone-bands", zone_bands, U32_MAX), .from = "40 GiB worth",
	  .help = "bands in a zone" },
	{ PARAM("provision", provision, U32_MAX), .from = "5 %, at least 3",
	  .help = "bands of each zone kept free for cleaning and logs" },
	{ PARAM("log-bands", log_bands, U32_MAX), .from = "a fifth, at least 2",
	  .help = "of these, how many may hold cached blocks" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER(#name, struct stl_full, count.name, COUNT)
#define COUNT_OF_LOGS(name)	SHINGLE_COUNTER(#name, struct stl_full, logs.name, COUNT)

static const struct shingle_counter stl_full_counters[] = {
	COUNT_OF_LOGS(placed_blocks),
	COUNT_OF_LOGS(aborted_blocks),
	COUNT(merged_blocks),
	COUNT(bands_cleaned),
	COUNT(bands_switched),
	COUNT(logs_opened),
	COUNT(logs_freed),
	COUNT(streams_broken),
	COUNT(full_zones),
	SHINGLE_COUNTER("replay_looks", struct stl_full, logs.map.looks, COUNT),
	{ }
};

static_assert(ARRAY_SIZE(stl_full_counters) <= SHINGLE_MAX_COUNTERS + 1);

/* A run is in one log or at home, because bands with neighbouring numbers may lie apart. */
static void stl_full_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct stl_full *s = to_full(e);
	u32 band = (u32)lblk / s->band_blocks, offset = (u32)lblk % s->band_blocks;
	u32 slot = find_slot(s, band, lblk);

	n = min(n, s->band_blocks - offset);
	out->lblk = lblk;
	out->n = 1;
	if (slot != SHINGLE_NO_SLOT) {
		out->pblk = slot_pblk(s, slot);
		out->kind = SHINGLE_RUN_MAPPED;
		n = min(n, s->band_blocks - slot % s->band_blocks);
		while (out->n < n && find_slot(s, band, lblk + out->n) == slot + out->n)
			out->n++;
		return;
	}
	out->pblk = band_pblk(s, s->home[band]) + offset;
	out->kind = test_bit(band, s->written) ? SHINGLE_RUN_MAPPED : SHINGLE_RUN_UNWRITTEN;
	if (!s->logs.band_live[band])
		out->n = n;
	while (out->n < n && find_slot(s, band, lblk + out->n) == SHINGLE_NO_SLOT)
		out->n++;
}

static int stl_full_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			    struct shingle_emit *emit)
{
	struct stl_full *s = to_full(e);
	u32 band = (u32)lblk / s->band_blocks, first = band;
	u64 offset = lblk - (u64)band * s->band_blocks;
	bool changed = false;

	if (band == s->clean.step_band)
		return -EBUSY;

	if (offset || n < s->band_blocks) {
		u32 home = test_bit(band, s->written) ? s->band_blocks : 0;

		*dropped = shingle_slotlog_discard(&s->logs, lblk, n, home, STL_FULL_DROP, done,
						   emit);
		return 0;
	}

	for (*done = 0; n - *done >= s->band_blocks && band - first < DISCARD_BANDS; band++) {
		if (band == s->clean.step_band)
			break;
		*done += s->band_blocks;
		if (!s->logs.band_live[band] && !test_bit(band, s->written))
			continue;
		changed = true;
		stl_full_set_written(s, band, false);
		if (s->logs.band_live[band]) {
			drop_band(s, band);
			band++;
			break;
		}
	}
	*dropped = true;
	if (changed)
		shingle_emit(emit, STL_FULL_DISCARD, 0, 0, first, band - first);
	return 0;
}

static bool stl_full_step_source(struct shingle_engine *e, const struct shingle_step *step,
				 u32 offset, struct shingle_run *out)
{
	struct stl_full *s = to_full(e);
	u32 band = (u32)step->lblk / s->band_blocks;
	/* The base was never written; what a read returns there is not content. */
	bool empty = step->base != SHINGLE_NOWHERE && !test_bit(band, s->written);

	for (; offset < step->n; offset++) {
		if (!empty && find_slot(s, band, step->lblk + offset) == SHINGLE_NO_SLOT)
			continue;
		stl_full_resolve(e, step->lblk + offset, step->n - offset, out);
		out->lblk = offset;
		return true;
	}
	return false;
}

static bool stl_full_referenced(struct shingle_engine *e, enum shingle_role role, u64 band,
				u64 offset, u64 n)
{
	const struct stl_full *s = to_full(e);

	switch (use_kind(s, band)) {
	case USE_HOME:
		return test_bit(use_which(s, band), s->written);
	case USE_LOG:
		return offset < s->logs.log[use_which(s, band)].fill;
	case USE_PENDING:
		return true;
	}
	return false;
}

static u64 stl_full_map_bytes(struct shingle_engine *e)
{
	struct stl_full *s = to_full(e);

	return shingle_slotlogs_bytes(&s->logs) + (u64)sizeof(*s->log) * s->logs.nr_logs +
	       (u64)sizeof(*s->zone) * s->g.nr_zones + 2ULL * sizeof(u32) * s->nr_bands +
	       (BITS_TO_LONGS(s->nr_bands) + BITS_TO_LONGS(s->g.bands)) * sizeof(long) +
	       2ULL * sizeof(u32) * s->g.bands +
	       (u64)sizeof(*s->bands.pending) * s->bands.nr_pending_max;
}

static u64 stl_full_cached_blocks(struct shingle_engine *e)
{
	return to_full(e)->logs.map.live;
}

const struct shingle_engine_ops stl_full_engine_ops = {
	.name = "stl-full",
	.commit_records = 4,
	.step_records = 1 + FREE_AT_ONCE,
	.step_kinds = { [STEP_MERGE] = "merge", [STEP_FREE] = "free" },
	.discard_records = 1,
	.options = stl_full_options,
	.params = stl_full_format,
	.counters = stl_full_counters,
	.records = stl_full_records,
	.logical_blocks = stl_full_logical_blocks,
	.create = stl_full_create,
	.destroy = stl_full_destroy,
	.map = {
		.resolve = stl_full_resolve,
		.place = stl_full_place,
		.commit = stl_full_commit,
		.abort = stl_full_abort,
		.discard = stl_full_discard,
		.referenced = stl_full_referenced,
	},
	.clean = {
		.next_step = stl_full_next_step,
		.step_source = stl_full_step_source,
		.step_done = stl_full_step_done,
		.step_failed = stl_full_step_failed,
		.release = stl_full_release,
		.pending = stl_full_pending,
	},
	.state = {
		.pieces = stl_full_pieces,
		.replay = stl_full_replay,
		.ready = stl_full_ready,
	},
	.observe = {
		.verify = stl_full_verify,
		.map_bytes = stl_full_map_bytes,
		.cached_blocks = stl_full_cached_blocks,
	},
};
EXPORT_SYMBOL_GPL(stl_full_engine_ops);
