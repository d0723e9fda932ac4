/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of the engine of Dual-buffer, and the functions that its files share.
 *
 * There is one cache, of one band, and one staging band.  The files that follow the thesis
 * implement rounds; dual/cache.h is their overview.  The engine adds:
 *
 *	dual/engine.c		reads, writes, discards
 *	dual/steps.c		steps of a clean as core sees them, and their reasons
 *	dual/recover.c		the cache of a layout; encoding and decoding of pieces, records
 *	dual/options.c		options, counters, statistics of rounds
 */
#ifndef SHINGLE_DUAL_STATE_H
#define SHINGLE_DUAL_STATE_H

#include "dual/cache.h"
#include "dual/engine.h"

/* Number of past rounds with statistics. */
#define DUAL_PAST	64U

/* Kinds of steps, for struct shingle_step::kind. */
enum { STEP_COPY, STEP_STAGE, STEP_WRITEBACK, STEP_SWITCH };

/* Most records that describe a round. */
#define DUAL_ROUND_RECORDS	(1U + DUAL_DROPS)

/**
 * struct dual_counts - counters of the engine
 * @placed_blocks: slots placed for writes
 * @late_blocks: slots among these placed during a clean
 * @aborted_blocks: slots spent on writes that failed
 * @full_rounds: times a write found the persistent buffer full
 * @cleans_pressure: cleans begun because a write found no room
 * @cleans_forced: cleans begun by request
 * @rounds: rounds that ended
 * @kept_blocks: blocks moved to the filter buffer because they are hot
 * @tail_blocks: blocks moved there because they were written during a clean
 * @merged_blocks: cached blocks brought home
 * @bands_cleaned: bands brought home
 * @rmw_pressure: read-modify-writes of a band because a write found no room
 * @rmw_forced: read-modify-writes of a band by request
 * @rmw_home_blocks: blocks written at native places
 * @rmw_staged_blocks: blocks written to the staging band
 * @lowered: times M was lowered during a round
 */
struct dual_counts {
	u64 placed_blocks;
	u64 late_blocks;
	u64 aborted_blocks;
	u64 full_rounds;
	u64 cleans_pressure;
	u64 cleans_forced;
	u64 rounds;
	u64 kept_blocks;
	u64 tail_blocks;
	u64 merged_blocks;
	u64 bands_cleaned;
	u64 rmw_pressure;
	u64 rmw_forced;
	u64 rmw_home_blocks;
	u64 rmw_staged_blocks;
	u64 lowered;
};

/**
 * struct dualbuffer - the engine's state
 * @engine: the part that core sees
 * @layout: layout of the device, owned by core
 * @shape: shape of the cache
 * @cache: the cache
 * @band_blocks: blocks per data band
 * @nr_bands: data bands
 * @cache_pblk: first block of the cache
 * @home: bitmap of data bands with content at their native place
 * @step: the step in progress, or the last one offered
 * @stepping: a step is in progress
 * @forced: a forced clean is in progress
 * @forced_round: the round with which it ends
 * @past: statistics of the last rounds, by number
 * @count: counters
 *
 * The map lock protects all of it; see engine.h.
 */
struct dualbuffer {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	struct dual_shape shape;
	struct dual_cache cache;
	u32 band_blocks;
	u32 nr_bands;
	u64 cache_pblk;
	unsigned long *home;
	struct dual_step step;
	bool stepping;
	bool forced;
	u32 forced_round;
	struct dual_history past[DUAL_PAST];
	struct dual_counts count;
};

static_assert(!offsetof(struct dualbuffer, engine));

static inline struct dualbuffer *to_dual(const struct shingle_engine *e)
{
	return container_of(e, struct dualbuffer, engine);
}

static inline u64 dual_native(const struct dualbuffer *s, u32 band)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, band);
}

static inline bool dual_is_staged(const struct dualbuffer *s, u32 band)
{
	return s->cache.staging.in_use && s->cache.staging.band == band;
}

/* Are the blocks of @band that are not cached at its native place? */
static inline bool dual_at_home(const struct dualbuffer *s, u32 band)
{
	return test_bit(band, s->home) && !dual_is_staged(s, band);
}

/* dual/steps.c */
void dual_emit_m(struct dualbuffer *s, struct shingle_emit *emit);
int dual_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step);
bool dual_extent(struct shingle_engine *e, const struct shingle_step *step, u64 *cursor,
		 struct shingle_extent *out);
bool dual_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
		      struct shingle_run *out);
void dual_finish_step(struct shingle_engine *e, const struct shingle_step *step,
		      struct shingle_emit *emit);
bool dual_fail_step(struct shingle_engine *e, const struct shingle_step *step,
		    const struct shingle_unwritten *bad);
bool dual_tidy_step(struct shingle_engine *e);
bool dual_release_step(struct shingle_engine *e, u64 seq);
bool dual_pending(struct shingle_engine *e);

/* dual/recover.c */
int dual_layout_shape(const struct shingle_layout *l, struct dual_shape *shape, const char **why);
u32 dual_home_piece(const struct dualbuffer *s, u32 band);
void dual_set_home(struct dualbuffer *s, u32 band, bool there);
int dual_replay(struct shingle_engine *e, const struct shingle_record *rec);
int dual_engine_ready(struct shingle_engine *e, const char **why);
extern const struct shingle_piece_kind dual_pieces[];
extern const struct shingle_record_kind dual_records[];

/* dual/options.c */
int dual_query(struct shingle_engine *e, const char *word, u64 *cursor, char *line, size_t size);
extern const struct shingle_option dual_options[];
extern const struct shingle_option dual_format_options[];
extern const struct shingle_counter dual_counters[];

#endif /* SHINGLE_DUAL_STATE_H */
