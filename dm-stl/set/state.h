/* SPDX-License-Identifier: GPL-2.0 */
/* State of the set-associative translation layer, and the functions that its files share. */
#ifndef SHINGLE_SET_STATE_H
#define SHINGLE_SET_STATE_H

#include "set/engine.h"
#include "engine/slotlog.h"
#include "engine/streams.h"

/* Kinds of steps, for struct shingle_step::kind. */
enum { STEP_STAGE, STEP_WRITEBACK, STEP_INPLACE, STEP_RETIRE };

#define NO_SET		U32_MAX
#define NO_BAND		U32_MAX

/* Kinds of checkpoint pieces, in the order of stl_set_pieces[]. */
enum { STL_SET_GLOBALS, STL_SET_WHOLE, STL_SET_SLOTS, STL_SET_PREFIXES, STL_SET_PIECES };

/* Bands in one checkpoint piece of prefixes.  Tests define a smaller value. */
#ifndef PART_BANDS
#define PART_BANDS	1000U
#endif

/*
 * Value of struct stl_set::home_blocks for a band with an empty home that was written
 * before.  The head may have destroyed blocks there, so a step must not read them.
 */
#define HOME_DESTROYED	U32_MAX

/**
 * struct set_clean - which set is cleaned, and which band of it
 * @wanted: for each set, the set behind it in the queue of full sets, plus 1; its own number plus 1
 *	if it is the last; 0 if it is not in the queue
 * @wanted_head: first set of the queue, or NO_SET
 * @wanted_tail: last set of the queue
 * @set: the set being cleaned, or NO_SET
 * @from: no slot of the set before this one is current
 * @drain_set: set that takes no placements until those in flight have ended; or NO_SET
 * @forced: a forced clean is in progress
 * @forced_age: the forced clean leaves out sets of this age and later
 * @step_band: band of the step in progress, or NO_BAND
 * @step_live: blocks of that band that were cached when the step began and that it moves
 * @step_why: reason for the step
 * @step_streamed: the step is for a waiting stream
 * @reset_set: an emptied set that recovery might still look into; or NO_SET
 * @reset_seq: transaction that records that it is empty
 */
struct set_clean {
	u32 *wanted;
	u32 wanted_head;
	u32 wanted_tail;
	u32 set;
	u32 from;
	u32 drain_set;
	bool forced;
	u32 forced_age;
	u32 step_band;
	u32 step_live;
	enum shingle_why step_why;
	bool step_streamed;
	u32 reset_set;
	u64 reset_seq;
};

/**
 * struct set_staging - content of the staging band
 * @in_use: it holds a copy of @band
 * @band: data band
 * @snapshot: first slot of the band's set that is newer than the copy
 * @home_blocks: number of first blocks that are home again; used for this band instead of
 *	struct stl_set::home_blocks
 * @tidied: number of first blocks for which cached copies older than the staged copy are
 *	dropped
 */
struct set_staging {
	bool in_use;
	u32 band;
	u32 snapshot;
	u32 home_blocks;
	u32 tidied;
};

/**
 * struct set_bypass - the stream that goes home past the cache
 * @streams: detects a stream that has been alone for long enough
 * @band: the stream's next write goes home in this band, behind the first blocks that are there
 *	already (struct stl_set::home_blocks); or NO_BAND
 * @flight_band: data band of the direct write in flight, or NO_BAND
 * @flight_end: offset after that write
 * @wanted_band: band to be staged because a stream waits at its beginning; or NO_BAND
 * @home_pending: homes were given up, but recovery or a reader might still look there
 * @home_seq: transaction that gives them up
 * @gather_from: start of the last range that place() has gathered for a stream over old
 *	content; core asks for these blocks again if the buffer had no room
 * @gather_end: end of that range, where the stream continues
 */
struct set_bypass {
	struct shingle_streams streams;
	u32 band;
	u32 flight_band;
	u32 flight_end;
	u32 wanted_band;
	bool home_pending;
	u64 home_seq;
	u32 gather_from;
	u32 gather_end;
};

/* Most bands that one epoch writes; further bands belong to the next epoch. */
#define SET_EPOCH_BANDS		8U

/**
 * struct set_epoch - gathered blocks that are to be written, with unsafe_bypass
 * @nr: number of bands
 * @at: number of bands already written
 * @band: the bands
 * @blocks: gathered blocks of each band
 */
struct set_epoch {
	u32 nr;
	u32 at;
	u32 band[SET_EPOCH_BANDS];
	u32 blocks[SET_EPOCH_BANDS];
};

/**
 * struct set_rmw - read-modify-writes of bands, by reason
 * @pressure: a write found no room
 * @idle: the host was idle
 * @forced: the message ``clean``
 * @stream: a stream was about to continue in the band
 * @home_blocks: blocks written at native places
 * @staged_blocks: blocks written to the staging band
 */
struct set_rmw {
	u64 pressure;
	u64 idle;
	u64 forced;
	u64 stream;
	u64 home_blocks;
	u64 staged_blocks;
};

/**
 * struct stl_set - the engine's state
 * @engine: the part that core sees
 * @layout: layout of the device, owned by core
 * @band_blocks: blocks per data band; @logs has the size of cache bands
 * @nr_bands: data bands
 * @nr_sets: cache bands
 * @set_shift: see struct stl_set_params
 * @first_piece: index of the first checkpoint piece of each kind
 * @inplace: rewrite bands without staging; a power cut loses data
 * @unsafe_bypass: gather a stream that overwrites a band, and write it straight over the old
 *	content, as some drives do; a power cut loses data
 * @aggressive: also clean when the host is idle
 * @greedy: first clean the set with the most stale slots instead of the oldest
 * @read_all: a step reads the whole readable home of a band, needed or not
 * @by_block: a step brings one cached block home instead of all blocks of a band
 * @logs: the cache bands; each set is a log
 * @home_blocks: for each data band, the number of first blocks at its native place, or
 *	HOME_DESTROYED
 * @clean: state of the cleaner
 * @staging: the staging band
 * @bypass: streams past the cache
 * @epoch: gathered blocks of streams
 * @count: counters of the status
 * @count.bands_cleaned: data bands rewritten
 * @count.sets_cleaned: cache bands emptied
 * @count.merged_blocks: cached blocks copied into bands
 * @count.full_sets: times a write found a cache band full
 * @count.bypassed_blocks: blocks written home, past the cache
 * @count.streams_broken: streams that ended before the end of a band
 * @rmw: read-modify-writes, by reason
 *
 * The map lock protects all of it; see engine.h.
 */
struct stl_set {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	u32 band_blocks;
	u32 nr_bands;
	u32 nr_sets;
	u32 set_shift;
	u32 first_piece[STL_SET_PIECES];
	bool inplace;
	bool unsafe_bypass;
	bool aggressive;
	bool greedy;
	bool read_all;
	bool by_block;

	struct shingle_slotlogs logs;
	u32 *home_blocks;

	struct set_clean clean;
	struct set_staging staging;
	struct set_bypass bypass;
	struct set_epoch epoch;

	/* Counters of the status */
	struct {
		u64 bands_cleaned;
		u64 sets_cleaned;
		u64 merged_blocks;
		u64 full_sets;
		u64 bypassed_blocks;
		u64 streams_broken;
	} count;

	struct set_rmw rmw;
};

static_assert(!offsetof(struct stl_set, engine));

static inline struct stl_set *to_set(struct shingle_engine *e)
{
	return container_of(e, struct stl_set, engine);
}

static inline u32 set_of_band(const struct stl_set *s, u32 band)
{
	return (band >> s->set_shift) % s->nr_sets;
}

static inline u64 native(const struct stl_set *s, u32 band)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, band);
}

static inline u64 set_pblk(const struct stl_set *s, u32 set)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_CACHE, set);
}

static inline u64 slot_pblk(const struct stl_set *s, u32 slot)
{
	return set_pblk(s, slot / s->logs.log_blocks) + slot % s->logs.log_blocks;
}

static inline bool is_staged(const struct stl_set *s, u32 band)
{
	return s->staging.in_use && band == s->staging.band;
}

static inline u32 find_slot(const struct stl_set *s, u32 band, u32 lblk)
{
	return shingle_slotlog_find(&s->logs, band, lblk);
}

/* Number of first blocks of @band that are at home, where they are not cached. */
static inline u32 at_home(const struct stl_set *s, u32 band)
{
	u32 blocks = is_staged(s, band) ? s->staging.home_blocks : s->home_blocks[band];

	return blocks == HOME_DESTROYED ? 0 : blocks;
}

static inline bool whole_at_home(const struct stl_set *s, u32 band)
{
	return s->home_blocks[band] == s->band_blocks;
}

/* Drop cached copies of @band in the slots of its set below @below. */
static inline void drop_band(struct stl_set *s, u32 band, u32 below)
{
	shingle_slotlog_drop(&s->logs, band * s->band_blocks, s->band_blocks, below);
}

/* set/state.c */
u64 stl_set_logical_blocks(const struct shingle_layout *l);
int stl_set_create(struct shingle_engine **out, const struct shingle_layout *layout,
		   const char **why);
void stl_set_destroy(struct shingle_engine *e);
void stl_set_mark_globals(struct stl_set *s);
void stl_set_note_home(struct stl_set *s, u32 band, u32 blocks);
void stl_set_write_home(struct stl_set *s, u32 band, u32 blocks);
void stl_set_forget_home(struct stl_set *s, u32 band);
u32 stl_set_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx);

/* set/recover.c */
extern const struct shingle_piece_kind stl_set_pieces[];
extern const struct shingle_record_kind stl_set_records[];

int stl_set_replay(struct shingle_engine *e, const struct shingle_record *rec);
int stl_set_ready(struct shingle_engine *e, const char **why);

/* set/clean.c */
void stl_set_want_clean(struct stl_set *s, u32 set);
int stl_set_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step);
bool stl_set_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
			 struct shingle_run *out);
void stl_set_step_done(struct shingle_engine *e, const struct shingle_step *step,
		       struct shingle_emit *emit);
bool stl_set_step_failed(struct shingle_engine *e, const struct shingle_step *step,
			 const struct shingle_unwritten *bad);
bool stl_set_tidy(struct shingle_engine *e);
bool stl_set_release(struct shingle_engine *e, u64 seq);
bool stl_set_pending(struct shingle_engine *e);

/* Does a step of an epoch write a whole band from gathered blocks, so that it need not read any? */
static inline bool writes_whole_band(const struct stl_set *s, const struct shingle_step *step)
{
	return step->gathered && s->epoch.blocks[s->epoch.at] == s->band_blocks;
}

/* set/bypass.c */
/* Return value of stl_set_place_home() for blocks that are to be gathered. */
#define SET_GATHERS	2
void stl_set_break_stream(struct stl_set *s);
void stl_set_drop_wanted_band(struct stl_set *s);
int stl_set_place_home(struct stl_set *s, struct shingle_stream *st, u32 lblk, u32 n,
		       struct shingle_run *out);
void stl_set_commit_home(struct stl_set *s, const struct shingle_run *run,
			 struct shingle_emit *emit);
void stl_set_abort_home(struct stl_set *s, const struct shingle_run *run);
int stl_set_epoch_add(struct shingle_engine *e, u64 lblk, u32 n);
void stl_set_epoch_end(struct shingle_engine *e);

#endif /* SHINGLE_SET_STATE_H */
