/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The engine of Dual-buffer: what it knows, and what its files have of each other.
 *
 * There is one cache, of one band, and one staging band.  What a round is and how it ends is in
 * the files that read beside the thesis, of which dual/cache.h is the sum; here is what an
 * engine has around them:
 *
 *	dual/engine.c		reads, writes, discards
 *	dual/steps.c		a step of a clean as core sees it, and why there is one
 *	dual/recover.c		the cache of a layout; pieces, records, back from them
 *	dual/options.c		what can be set, what is counted, what is told of rounds
 */
#ifndef SHINGLE_DUAL_STATE_H
#define SHINGLE_DUAL_STATE_H

#include "dual/cache.h"
#include "dual/engine.h"

/* Rounds that are remembered. */
#define DUAL_PAST	64U

/* struct shingle_step::kind */
enum { STEP_COPY, STEP_STAGE, STEP_WRITEBACK, STEP_SWITCH };

/* Records that say what a round is. */
#define DUAL_ROUND_RECORDS	(1U + DUAL_DROPS)

/**
 * struct dual_counts - what the engine counts
 * @placed_blocks: slots handed out to writes
 * @late_blocks: of them, while a clean went on
 * @aborted_blocks: slots spent on writes that failed
 * @full_rounds: times that a write found the persistent buffer full
 * @cleans_pressure: cleans that began for that
 * @cleans_forced: cleans that were asked for
 * @rounds: that ended
 * @kept_blocks: moved to the filter buffer because they are hot
 * @tail_blocks: moved there because they were written while a clean went on
 * @merged_blocks: cached blocks that were brought home
 * @bands_cleaned: bands that are home again
 * @rmw_pressure: read-modify-writes of a band because a write found no room
 * @rmw_forced: because somebody has asked for it
 * @rmw_home_blocks: blocks written at native places
 * @rmw_staged_blocks: blocks written to the staging band
 * @lowered: times that M was lowered on the way
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
 * @engine: what core sees
 * @layout: of the device, core's
 * @shape: of the cache
 * @cache: the cache
 * @band_blocks: blocks per data band
 * @nr_bands: data bands
 * @cache_pblk: first block of the cache
 * @home: of each data band, a bit: the native place holds it
 * @hashed: what a checkpoint says of slots is in the hash of @cache
 * @step: the step in progress, or that was offered last
 * @stepping: one is in progress
 * @forced: a clean of everything goes on
 * @forced_round: it ends with this round
 * @past: what became of the last rounds, by number
 * @count: see struct dual_counts
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
	bool hashed;
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

static inline u64 dual_staging_pblk(const struct dualbuffer *s)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_STAGING, 0);
}

static inline bool dual_is_staged(const struct dualbuffer *s, u32 band)
{
	return s->cache.staging.in_use && s->cache.staging.band == band;
}

/* Is the native place what @band is, but for what is cached of it? */
static inline bool dual_at_home(const struct dualbuffer *s, u32 band)
{
	return test_bit(band, s->home) && !dual_is_staged(s, band);
}

/* dual/engine.c */
void dual_set_home(struct dualbuffer *s, u32 band, bool there);

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
int dual_replay(struct shingle_engine *e, const struct shingle_record *rec);
int dual_engine_ready(struct shingle_engine *e, const char **why);
extern const struct shingle_piece_kind dual_pieces[];
extern const struct shingle_record_kind dual_records[];

/* dual/options.c */
int dual_tell(struct shingle_engine *e, const char *word, u64 *cursor, char *line, size_t size);
extern const struct shingle_option dual_options[];
extern const struct shingle_option dual_format_options[];
extern const struct shingle_counter dual_counters[];

#endif /* SHINGLE_DUAL_STATE_H */
