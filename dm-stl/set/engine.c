// SPDX-License-Identifier: GPL-2.0
/*
 * Set-associative shingle translation layer.  Pure code; see engine.h.
 *
 * Data bands have fixed native places.  Writes go to the cache band of their set, one slot
 * after the other.  When the cache band is full, every data band with blocks in it is
 * rewritten, and the cache band starts again from its first slot.  Aghayev (2020), section
 * 2.3.1.  This file looks blocks up and has the options; set/clean.c cleans, set/bypass.c
 * has streams past the cache.
 */
#include "set/state.h"

/* Blocks that core needs in a checkpoint slot: its own piece and the footer. */
#define CORE_CHUNKS	2U

#define MAX_BYPASS	(1U << 24)

/* Longest band that can be gathered; the write cache holds two. */
#define MAX_GATHER	(1U << 15)

/* Most slots that order=greedy searches for each band that it cleans: 1 GiB. */
#define MAX_GREEDY	(1U << 18)

/* Most bands that one discard call visits; bounds the time under the map lock. */
#define DISCARD_BANDS	1024U

static int set_inplace(void *of, u32 yes, const char **why)
{
	struct stl_set *s = of;

	s->engine.copy_blocks = s->band_blocks;
	return 0;
}

/*
 * Streams over old content are gathered in whole bands.  The buffer holds two bands, one of
 * them while it is written.
 */
static int set_unsafe_bypass(void *of, u32 yes, const char **why)
{
	struct stl_set *s = of;

	*why = "unsafe_bypass gathers whole bands in memory: above 128 MiB they are too long";
	if (s->band_blocks > MAX_GATHER)
		return -ERANGE;
	s->engine.copy_blocks = s->band_blocks;
	s->engine.gather_blocks = s->band_blocks;
	s->engine.buffer_blocks = 2 * s->band_blocks;
	return 0;
}

static int set_order(void *of, u32 greedy, const char **why)
{
	struct stl_set *s = of;

	*why = "order=greedy looks through whole cache bands: above 1 GiB they are too long";
	return greedy && s->logs.log_blocks > MAX_GREEDY ? -ERANGE : 0;
}

static int set_bypass(void *of, u32 blocks, const char **why)
{
	struct stl_set *s = of;
	u64 slot = s->layout->ckpt[0].blocks, pieces;

	*why = "bypass_blocks needs larger checkpoints than this device was formatted with";
	pieces = shingle_pieces_nr(stl_set_pieces, U32_MAX, s->layout);
	if (blocks && slot && slot < pieces + CORE_CHUNKS)
		return -ERANGE;
	shingle_streams_end(&s->bypass.streams);
	stl_set_break_stream(s);
	stl_set_drop_wanted_band(s);
	return 0;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct stl_set, member)

static const struct shingle_option stl_set_options[] = {
	{ .name = "inplace", .kind = SHINGLE_OPTION_FEATURE, .when = SHINGLE_OPTION_TABLE,
	  OPTION(inplace), .set = set_inplace,
	  .help = "rewrite bands without staging: a power cut costs one" },
	{ .name = "unsafe_bypass", .kind = SHINGLE_OPTION_FEATURE, .when = SHINGLE_OPTION_TABLE,
	  OPTION(unsafe_bypass), .set = set_unsafe_bypass,
	  .help = "streams go over old content without staging: a power cut costs it" },
	{ .name = "cleaning", .kind = SHINGLE_OPTION_WORD, OPTION(aggressive),
	  .words = SHINGLE_OPTION_WORDS("lazy", "aggressive"),
	  .range = "cleaning must be lazy or aggressive",
	  .help = "when a write needs the room, or also when the host is quiet" },
	{ .name = "order", .kind = SHINGLE_OPTION_WORD, OPTION(greedy),
	  .words = SHINGLE_OPTION_WORDS("fifo", "greedy"),
	  .range = "order must be fifo or greedy", .set = set_order,
	  .help = "which cache band and which data band are cleaned first" },
	{ .name = "bypass_blocks", .kind = SHINGLE_OPTION_NUMBER,
	  OPTION(bypass.streams.alone_blocks), .max = MAX_BYPASS, .set = set_bypass,
	  .range = "bypass_blocks must be from 0 (never) to 16777216 (64 GiB)",
	  .help = "length of a stream, in blocks, that bypasses the cache; 0: none does" },
	{ .name = "read_home", .kind = SHINGLE_OPTION_WORD, OPTION(read_all),
	  .words = SHINGLE_OPTION_WORDS("needed", "always"),
	  .range = "read_home must be needed or always",
	  .help = "what cleaning reads of a band at its native place" },
	{ .name = "rmw", .kind = SHINGLE_OPTION_WORD, OPTION(by_block),
	  .words = SHINGLE_OPTION_WORDS("band", "block"),
	  .range = "rmw must be band or block",
	  .help = "what one read-modify-write brings home: all cached blocks of a band, or one" },
	{ }
};

#define PARAM(word, member, most) SHINGLE_OPTION_PARAM(word, struct stl_set_params, member, most)

static const struct shingle_option stl_set_format[] = {
	{ PARAM("set-shift", set_shift, 31), .from = "0",
	  .help = "2^N neighbouring bands share a set" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER(#name, struct stl_set, count.name, COUNT)
#define COUNT_RMW(name, member)	SHINGLE_COUNTER(#name, struct stl_set, rmw.member, COUNT)
#define COUNT_OF_LOGS(name)	SHINGLE_COUNTER(#name, struct stl_set, logs.name, COUNT)

static const struct shingle_counter stl_set_counters[] = {
	COUNT_OF_LOGS(placed_blocks),
	COUNT_OF_LOGS(aborted_blocks),
	COUNT(bands_cleaned),
	COUNT(sets_cleaned),
	COUNT(merged_blocks),
	COUNT_RMW(rmw_pressure, pressure),
	COUNT_RMW(rmw_idle, idle),
	COUNT_RMW(rmw_forced, forced),
	COUNT_RMW(rmw_stream, stream),
	COUNT_RMW(rmw_home_blocks, home_blocks),
	COUNT_RMW(rmw_staged_blocks, staged_blocks),
	COUNT(full_sets),
	COUNT(bypassed_blocks),
	COUNT(streams_broken),
	SHINGLE_COUNTER("replay_looks", struct stl_set, logs.map.looks, COUNT),
	{ }
};

static_assert(ARRAY_SIZE(stl_set_counters) <= SHINGLE_MAX_COUNTERS + 1);

/* The current place of one block. */
static u64 locate(const struct stl_set *s, u32 band, u32 lblk, enum shingle_run_kind *kind)
{
	u32 offset = lblk - band * s->band_blocks;
	u32 slot = find_slot(s, band, lblk);
	bool staged = is_staged(s, band);

	*kind = SHINGLE_RUN_MAPPED;
	if (slot != SHINGLE_NO_SLOT && !(staged && slot % s->logs.log_blocks < s->staging.snapshot))
		return slot_pblk(s, slot);
	if (offset >= at_home(s, band)) {
		if (staged)
			return shingle_staging_pblk(s->layout) + offset;
		*kind = s->home_blocks[band] ? SHINGLE_RUN_ZERO : SHINGLE_RUN_UNWRITTEN;
	}
	return native(s, band) + offset;
}

static void stl_set_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct stl_set *s = to_set(e);
	u32 band = (u32)lblk / s->band_blocks, offset = (u32)lblk % s->band_blocks;
	u32 home = at_home(s, band);
	enum shingle_run_kind kind;

	n = min(n, s->band_blocks - offset);
	out->lblk = lblk;
	out->pblk = locate(s, band, lblk, &out->kind);
	out->n = 1;
	if (!s->logs.band_live[band]) {
		out->n = offset < home ? min(n, home - offset) : n;
		return;
	}
	while (out->n < n && locate(s, band, lblk + out->n, &kind) == out->pblk + out->n &&
	       kind == out->kind)
		out->n++;
}

static int place_cached(struct stl_set *s, u32 band, u32 n, struct shingle_run *out)
{
	u32 set = set_of_band(s, band);

	if (set == s->clean.reset_set || set == s->clean.drain_set)
		return -EBUSY;
	if (shingle_slotlog_is_full(&s->logs, set)) {
		stl_set_want_clean(s, set);
		return -ENOSPC;
	}
	if (!s->logs.log[set].fill)
		shingle_slotlog_open(&s->logs, set);
	n = min(n, s->logs.log_blocks - s->logs.log[set].fill);
	out->pblk = set_pblk(s, set) + shingle_slotlog_place(&s->logs, set, n);
	out->n = n;
	return 0;
}

/* The write cache had no room for all blocks that the engine has gathered. */
static int gather_again(const struct stl_set *s, u64 lblk, u32 n, struct shingle_run *out)
{
	u32 offset = (u32)lblk % s->band_blocks;

	out->lblk = lblk;
	out->n = min3(n, s->band_blocks - offset, s->bypass.gather_end - (u32)lblk);
	return SHINGLE_GATHER;
}

static int stl_set_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
			 struct shingle_run *out)
{
	struct stl_set *s = to_set(e);
	struct shingle_stream *st = s->bypass.streams.alone_blocks ?
				    shingle_stream_at(&s->bypass.streams, lblk) : NULL;
	u32 band = (u32)lblk / s->band_blocks;
	bool gathers;
	int r;

	if (lblk - s->bypass.gather_from < s->bypass.gather_end - s->bypass.gather_from)
		return gather_again(s, lblk, n, out);
	n = min3(n, (band + 1) * s->band_blocks - (u32)lblk, (u32)SHINGLE_SLOTLOG_RUN);
	out->lblk = lblk;
	out->kind = SHINGLE_RUN_MAPPED;
	r = s->bypass.streams.alone_blocks ? stl_set_place_home(s, st, lblk, n, out) : 0;
	gathers = r == SET_GATHERS;
	if (gathers)
		out->n = n;
	if (!r)
		r = place_cached(s, band, n, out);
	if (r < 0)
		return r;
	if (s->bypass.streams.alone_blocks)
		shingle_streams_follow(&s->bypass.streams, st, lblk, out->n);
	return gathers ? SHINGLE_GATHER : 0;
}

/* Was this write placed at the home of @band?  At most one such write is in flight. */
static bool is_direct(const struct stl_set *s, const struct shingle_run *run, u32 band)
{
	return band == s->bypass.flight_band && run->pblk - native(s, band) < s->band_blocks;
}

static void stl_set_commit(struct shingle_engine *e, const struct shingle_run *run,
			   struct shingle_emit *emit)
{
	struct stl_set *s = to_set(e);
	u32 band = (u32)run->lblk / s->band_blocks, set = set_of_band(s, band), at;

	if (is_direct(s, run, band)) {
		stl_set_commit_home(s, run, emit);
		return;
	}
	at = run->pblk - set_pblk(s, set);
	shingle_slotlog_commit(&s->logs, set, at, run->lblk, band, run->n);
	shingle_emit(emit, STL_SET_MAP, run->n, s->logs.log[set].age, run->lblk,
		     set * s->logs.log_blocks + at);
}

static void stl_set_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct stl_set *s = to_set(e);
	u32 band = (u32)run->lblk / s->band_blocks;

	if (is_direct(s, run, band)) {
		stl_set_abort_home(s, run);
		return;
	}
	shingle_slotlog_abort(&s->logs, set_of_band(s, band), run->n);
}

static bool band_busy(const struct stl_set *s, u32 band)
{
	return band == s->clean.step_band || band == s->bypass.flight_band || is_staged(s, band);
}

/* Number of first blocks of which a read would find older copies without the cached ones. */
static u32 shows_through(const struct stl_set *s, u32 band)
{
	if (is_staged(s, band))
		return s->band_blocks;
	return band == s->bypass.flight_band ? s->bypass.flight_end : at_home(s, band);
}

static int stl_set_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
			   struct shingle_emit *emit)
{
	struct stl_set *s = to_set(e);
	u32 band = (u32)lblk / s->band_blocks, first = band;
	u64 offset = lblk - (u64)band * s->band_blocks;
	bool changed = false;

	if (band == s->clean.step_band)
		return -EBUSY;
	if (offset || n < s->band_blocks) {
		*dropped = shingle_slotlog_discard(&s->logs, lblk, n, shows_through(s, band),
						   STL_SET_DROP, done, emit);
		return 0;
	}
	/* A stream must not keep the band staged for long. */
	if (is_staged(s, band) && band == s->bypass.band)
		stl_set_break_stream(s);
	if (band_busy(s, band))
		return -EBUSY;

	for (*done = 0; n - *done >= s->band_blocks && band - first < DISCARD_BANDS; band++) {
		if (band_busy(s, band))
			break;
		*done += s->band_blocks;
		if (!s->logs.band_live[band] && !at_home(s, band))
			continue;
		changed = true;
		if (band == s->bypass.band)
			stl_set_break_stream(s);
		if (at_home(s, band)) {
			stl_set_forget_home(s, band);
			s->bypass.home_pending = true;
			s->bypass.home_seq = emit->seq;
		}
		if (s->logs.band_live[band]) {
			drop_band(s, band, U32_MAX);
			band++;
			break;
		}
	}
	*dropped = true;
	if (changed)
		shingle_emit(emit, STL_SET_DISCARD, 0, 0, first, band - first);
	return 0;
}

static bool stl_set_referenced(struct shingle_engine *e, enum shingle_role role, u64 band,
			       u64 offset, u64 n)
{
	const struct stl_set *s = to_set(e);

	switch (role) {
	case SHINGLE_ROLE_DATA:
		return offset < (band == s->bypass.flight_band ? s->bypass.flight_end :
				 at_home(s, band));
	case SHINGLE_ROLE_CACHE:
		return offset < s->logs.log[band].fill;
	case SHINGLE_ROLE_STAGING:
		return s->staging.in_use;
	default:
		return true;
	}
}

static u64 stl_set_map_bytes(struct shingle_engine *e)
{
	struct stl_set *s = to_set(e);

	return shingle_slotlogs_bytes(&s->logs) + (u64)sizeof(u32) * s->nr_sets +
	       (u64)sizeof(u32) * s->nr_bands;
}

static u64 stl_set_cached_blocks(struct shingle_engine *e)
{
	return to_set(e)->logs.map.live;
}

const struct shingle_engine_ops stl_set_engine_ops = {
	.name = "stl-set",
	.needs = { .cache = true, .staging = 1 },
	.commit_records = 1,
	.step_records = 2,
	.step_kinds = {
		[STEP_STAGE] = "stage", [STEP_WRITEBACK] = "writeback",
		[STEP_INPLACE] = "inplace", [STEP_RETIRE] = "retire",
	},
	.discard_records = 1,
	.options = stl_set_options,
	.params = stl_set_format,
	.counters = stl_set_counters,
	.records = stl_set_records,
	.logical_blocks = stl_set_logical_blocks,
	.create = stl_set_create,
	.destroy = stl_set_destroy,
	.map = {
		.resolve = stl_set_resolve,
		.place = stl_set_place,
		.commit = stl_set_commit,
		.abort = stl_set_abort,
		.discard = stl_set_discard,
		.referenced = stl_set_referenced,
	},
	.clean = {
		.next_step = stl_set_next_step,
		.step_source = stl_set_step_source,
		.step_done = stl_set_step_done,
		.step_failed = stl_set_step_failed,
		.tidy = stl_set_tidy,
		.release = stl_set_release,
		.pending = stl_set_pending,
	},
	.gather = {
		.epoch_add = stl_set_epoch_add,
		.epoch_end = stl_set_epoch_end,
	},
	.state = {
		.pieces = stl_set_pieces,
		.replay = stl_set_replay,
		.ready = stl_set_ready,
	},
	.observe = {
		.verify = stl_set_verify,
		.map_bytes = stl_set_map_bytes,
		.cached_blocks = stl_set_cached_blocks,
	},
};
EXPORT_SYMBOL_GPL(stl_set_engine_ops);
