/* SPDX-License-Identifier: GPL-2.0 */
/* State of the set-associative translation layer, and how its parts call each other. */
#ifndef SHINGLE_SET_STATE_H
#define SHINGLE_SET_STATE_H

#include "set/engine.h"
#include "engine/slotlog.h"
#include "engine/streams.h"

/* struct shingle_step::kind */
enum { STEP_STAGE, STEP_WRITEBACK, STEP_INPLACE, STEP_RETIRE };

#define NO_SET		U32_MAX
#define NO_BAND		U32_MAX

/* Pieces of the state, in their order: stl_set_pieces[]. */
enum { STL_SET_GLOBALS, STL_SET_WHOLE, STL_SET_SLOTS, STL_SET_PREFIXES, STL_SET_PIECES };

/* Bands of prefixes in one checkpoint piece.  Tests take less. */
#ifndef PART_BANDS
#define PART_BANDS	1000U
#endif

/*
 * struct stl_set::home_blocks of a band whose home holds nothing any more, but was
 * written to: what the head has destroyed there is not to be read.
 */
#define HOME_DESTROYED	U32_MAX

/**
 * struct set_clean - which set is cleaned, and which band of it
 * @wanted: per set, next set + 1 in the queue of full sets; self + 1 at the end
 * @wanted_head: first set of the queue, or NO_SET
 * @wanted_tail: last set of the queue
 * @set: the set being cleaned, or NO_SET
 * @from: no slot of it in front of this one is current
 * @drain_set: takes no placements until those in flight are done; or NO_SET
 * @forced: a forced clean is going on
 * @forced_age: it does without sets of this age and later
 * @step_band: band of the step in progress, or NO_BAND
 * @step_live: of its blocks, those that were cached when the step began and are moved
 * @step_why: what asked for the step
 * @step_streamed: it is for a stream that waits
 * @reset_set: emptied, but recovery might still look into it; or NO_SET
 * @reset_seq: transaction that says that it is empty
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
 * struct set_staging - what the staging band holds
 * @in_use: it holds @band
 * @band: which data band
 * @snapshot: slots of its set from here on are newer than the copy
 * @home_blocks: how many of its first blocks are home again; of this band
 *	struct stl_set::home_blocks says nothing
 * @tidied: of how many of its first blocks the cache has forgotten what is older than
 *	the copy
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
 * @streams: of which one that is alone for long enough does
 * @band: its next write goes home, behind the prefix of this band; or NO_BAND
 * @flight_band: data band of the write home under way, or NO_BAND
 * @flight_end: offset behind it
 * @wanted_band: to be staged because a stream waits at its beginning; or NO_BAND
 * @home_pending: homes were given up, but recovery or a reader might still look there
 * @home_seq: transaction that gives them up
 * @gather_from: the last blocks of which place() has said that they are gathered, since
 *	they are a stream's over old content: what found no room is asked about again
 * @gather_end: block behind them, with which the stream goes on
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

/* Bands that one epoch writes.  More are of the next one. */
#define SET_EPOCH_BANDS		8U

/**
 * struct set_epoch - what was gathered and is to be written, with unsafe_bypass
 * @nr: bands
 * @at: of these, have been written
 * @band: their numbers
 * @blocks: of each, how many were gathered
 */
struct set_epoch {
	u32 nr;
	u32 at;
	u32 band[SET_EPOCH_BANDS];
	u32 blocks[SET_EPOCH_BANDS];
};

/**
 * struct set_rmw - read-modify-writes of bands, by what asked for them
 * @pressure: a write that found no room
 * @idle: the host was quiet
 * @forced: ``clean`` was asked for
 * @stream: a stream wanted to go on in the band
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
 * @engine: what core sees
 * @layout: of the device, core's
 * @band_blocks: blocks per data band; those of cache bands are in @logs
 * @nr_bands: data bands
 * @nr_sets: cache bands
 * @set_shift: see struct stl_set_params
 * @first_piece: index of the first piece of each kind
 * @inplace: rewrite bands without staging: loses data at a power cut
 * @unsafe_bypass: streams over old content are gathered and written over it
 * @aggressive: clean also when the host is quiet
 * @greedy: clean what has the most stale slots first, not the oldest
 * @read_all: all that can be read of a band at home is read, needed or not
 * @by_block: each cached block is brought home by itself, not all of a band at once
 * @logs: the cache bands: a set is a log
 * @hashed: what a checkpoint says of slots is in the hash of @logs, not only in its
 *	owners
 * @home_blocks: per data band, how many of its first blocks the native place holds, or
 *	HOME_DESTROYED
 * @clean: cleaning
 * @staging: the staging band
 * @bypass: streams past the cache
 * @epoch: what was gathered of them
 * @bands_cleaned: data bands rewritten
 * @sets_cleaned: cache bands emptied
 * @merged_blocks: cached blocks copied into bands
 * @rmw: see struct set_rmw
 * @full_sets: times that a write found a cache band full
 * @bypassed_blocks: written home, past the cache
 * @streams_broken: streams that did not get to the end of a band
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
	bool hashed;
	u32 *home_blocks;

	struct set_clean clean;
	struct set_staging staging;
	struct set_bypass bypass;
	struct set_epoch epoch;

	u64 bands_cleaned;
	u64 sets_cleaned;
	u64 merged_blocks;
	struct set_rmw rmw;
	u64 full_sets;
	u64 bypassed_blocks;
	u64 streams_broken;
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

static inline u64 staging_pblk(const struct stl_set *s)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_STAGING, 0);
}

static inline bool is_staged(const struct stl_set *s, u32 band)
{
	return s->staging.in_use && band == s->staging.band;
}

static inline u32 find_slot(const struct stl_set *s, u32 band, u32 lblk)
{
	return shingle_slotlog_find(&s->logs, band, lblk);
}

/* So many of the first blocks of @band, where they are not cached, are at home. */
static inline u32 at_home(const struct stl_set *s, u32 band)
{
	u32 blocks = is_staged(s, band) ? s->staging.home_blocks : s->home_blocks[band];

	return blocks == HOME_DESTROYED ? 0 : blocks;
}

static inline bool whole_at_home(const struct stl_set *s, u32 band)
{
	return s->home_blocks[band] == s->band_blocks;
}

/* Forget cached copies of @band in slots of its set in front of @below. */
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

/* Does a step write gathered blocks and nothing else, all of a band? */
static inline bool writes_whole_band(const struct stl_set *s, const struct shingle_step *step)
{
	return step->gathered && s->epoch.blocks[s->epoch.at] == s->band_blocks;
}

/* set/bypass.c */
/* What stl_set_place_home() says of blocks that are to be gathered. */
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
