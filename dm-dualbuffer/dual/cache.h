/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Dual-buffer: one persistent cache, on tracks of one surface, in front of its bands.  Pure
 * code.  It numbers its blocks (slots) and does not know their places on the medium.  All its
 * memory is allocated at creation, 14 bytes and a bit per slot.
 *
 * Ma (2019), chapter 4.  dual/rounds.h divides the slots into parts: new, FB_1 and FB_2.
 * dual/predict.h finds M, the number of columns of the new part, and dual/select.h chooses the
 * blocks to keep.  D1 to D10 are rules of Documentation/papers/ma.rst, CE-D1 a counter-example
 * there.  This file has the life of a round, and what makes it safe:
 *
 *	FILL	writes go to the new part, in order, until only a reserve of it is left
 *	KEEP	steps copy the blocks to keep to FB_2, in the order of the cache
 *	HOME	each band with cached blocks that are not kept is merged into a staging band, and
 *		copied home from there (D2)
 *	TAIL	blocks that were written since FILL, to the reserve, are copied to FB_2 (D8)
 *	switch	the next round begins; nothing is placed before this is durable and readers
 *		have left (D1)
 *
 * As soon as a step is done, the copy is current and the place that it was copied from is not.
 * After a power cut the map refers to either the copy or the old place, and the clean begins again
 * with the blocks that it had not moved (D9).  No block of the cache is written twice in a round.
 * So the only steps that need a sync are the three after which something is overwritten: stage,
 * home, switch.
 *
 * How an engine (engine.h) uses each of its caches:
 *
 *	resolve()	dual_find(); else the staging band, if dual_staged(); else home
 *	place()		dual_place(), with its -EBUSY and -ENOSPC
 *	commit, abort	dual_commit(), dual_abort(); a record: these slots hold these blocks.
 *			Before it a record of M if dual_round_changed()
 *	referenced()	dual_referenced(), for bands of role CACHE
 *	next_step()	dual_clean_next(), dual_step_extent(), dual_merge_source();
 *			dual_step_done() and records of the moved blocks, or dual_step_failed()
 *	tidy, release	dual_tidy(), dual_release()
 *	ready()		dual_ready()
 *	verify()	dual_verify_slot()
 *
 * A slot that cannot be written is unfit: it stays free, and writes and moves skip it.  It
 * still counts as a place of its part, so the sizes of parts do not depend on unfit slots.  The
 * marks are only a hint: a mark that was lost is made again when a step fails.  So checkpoint
 * pieces store the marks, and no record does.
 *
 * The engine knows which bands are at home, and handles discards.  The cache marks the
 * checkpoint pieces that have changed.
 */
#ifndef SHINGLE_DUAL_CACHE_H
#define SHINGLE_DUAL_CACHE_H

#include "counted.h"
#include "dual/rounds.h"
#include "dual/select.h"
#include "engine/engine.h"
#include "engine/slotmap.h"

#define DUAL_NO_BAND	U32_MAX
/* Most blocks in a step. */
#define DUAL_STEP_BLOCKS	256U

/* Pieces of the engine's state that the cache marks; pieces of slots begin with the third. */
enum { DUAL_PIECE_STATE, DUAL_PIECE_CURVE, DUAL_PIECE_SLOTS };

enum dual_phase { DUAL_FILL, DUAL_KEEP, DUAL_HOME, DUAL_TAIL };

enum dual_step_kind {
	DUAL_STEP_COPY,		/* slots to FB_2; may have no moves */
	DUAL_STEP_STAGE,	/* a band, merged, to the staging band */
	DUAL_STEP_HOME,		/* the staging band home */
	DUAL_STEP_INPLACE,	/* a band, merged, home from memory (unsafe) */
	DUAL_STEP_SWITCH,	/* the next round */
};

/**
 * struct dual_move - a block that a step copies
 * @src: slot copied from
 * @dst: slot copied to
 * @lblk: the block; it counts as moved only if it is still in @src when the step is done
 */
struct dual_move {
	u32 src;
	u32 dst;
	u32 lblk;
};

/**
 * struct dual_step - a step of a clean
 * @kind: kind of the step
 * @n: blocks that it copies
 * @band: logical band of DUAL_STEP_STAGE, HOME and INPLACE
 */
struct dual_step {
	enum dual_step_kind kind;
	u32 n;
	u32 band;
};

/**
 * struct dual_failure - slots that a step could not write
 * @end: one past the last slot of the write that failed; 0: no write failed
 * @slot: slots of that write that cannot be written
 * @nr: entries in @slot
 * @proven: other blocks of the same write succeeded, so these slots are at fault and not
 *	the device
 */
struct dual_failure {
	u32 end;
	u32 slot[SHINGLE_UNWRITTEN];
	u32 nr;
	bool proven;
};

/**
 * struct dual_staging - content of the staging band
 * @in_use: it holds a copy of @band
 * @band: the band
 * @mark: blocks of the band in FB_1, or in the new part before this place, are older than
 *	the copy
 *
 * Durable before the band is written home.
 */
struct dual_staging {
	bool in_use;
	u32 band;
	struct dual_cursor mark;
};

/**
 * struct dual_history - statistics of a round
 * @number: number of the round
 * @predicted: predicted number of blocks allocated at its end, before clamping; 0 if static
 * @allocated: actual number
 * @ideal: ideal number; extrapolated from V(X) if the round ended before reaching it
 * @live_blocks: current blocks at its end
 * @fb_blocks: size of FB_2
 * @kept_blocks: blocks written to FB_2
 * @home_blocks: cached blocks brought home
 * @home_bands: read-modify-writes of bands for these
 */
struct dual_history {
	u32 number;
	u32 predicted;
	u32 allocated;
	u32 ideal;
	u32 live_blocks;
	u32 fb_blocks;
	u32 kept_blocks;
	u32 home_blocks;
	u32 home_bands;
};

/**
 * struct dual_bands - counts of cached blocks per band, and a walk over them
 * @live: cached blocks of each band
 * @nr: number of bands
 * @walked: bands that the walk has visited
 * @walked_live: sum over the visited bands; changes during the walk adjust it
 */
struct dual_bands {
	u32 *live;
	u32 nr;
	u32 walked;
	u32 walked_live;
};

/**
 * struct dual_cache - a persistent cache
 * @shape: its shape
 * @band_blocks: size of the bands that blocks belong to
 * @step_blocks: most blocks that a step moves
 * @engine: the engine in which changes are marked, or NULL
 * @bands: cached blocks of the engine's bands
 * @opt: variants and features for tests, constant
 * @opt.literal: as in the thesis, counts begin at zero and blocks are kept while there is room
 * @opt.unsafe_switch: feature for tests: the next round does not wait (CE-D1)
 * @opt.unsafe_inplace: feature for tests: bands are not staged
 * @map: the block in each slot
 * @count: for each slot, updates of its block while it was cached
 * @bad: slots that cannot be written
 * @bad.unfit: bitmap of slots that cannot be written
 * @bad.nr: number of unfit slots; at most dual_most_unfit()
 * @bad.suspect: slots that a step could not write, though nothing proves that they are at fault;
 *	they become unfit if the next step, which writes other slots, succeeds
 * @bad.misses: consecutive steps that failed without a proof
 * @blocks: N, see dual_blocks()
 * @round: the round
 * @fb1: blocks of its FB_1
 * @round_changed: the round has changed and the change is not recorded yet
 * @part: where writes go in this round
 * @part.fill: next place in the new part
 * @part.next: its slot, if @part.ahead is not 0
 * @part.ahead: consecutive slots available from @part.next on; 0: not searched yet
 * @part.filled: blocks of the new part before @part.next
 * @part.room: size of the new part
 * @part.reserve: blocks of it reserved for writes during a clean that keeps blocks
 * @part.limit: number of blocks of the new part that writes may use at present, at most @part.room
 * @part.written: blocks committed in this round
 * @part.fb_fill: next place in FB_2
 * @part.inflight: writes placed, and neither committed nor aborted
 * @predict: statistics from which the next round is predicted
 * @predict.curve: V(X)
 * @predict.curve_round: round of @predict.curve
 * @predict.most: most blocks cached at the same time since the cache was loaded
 * @predict.history: statistics of this round so far
 * @predict.last: statistics of the last round
 * @rank: numbers of cached blocks by rank
 * @rank.pb: ranks in the persistent buffer
 * @rank.fb2: ranks in FB_2
 * @phase: phase of the round
 * @wanted: a write has found no room
 * @empty: the next or current clean keeps no block older than itself
 * @drain: place no writes until none is in flight
 * @scan: the scan of a clean
 * @scan.mark: blocks at or after this place were written while cleaning
 * @scan.from: next slot in the scan of KEEP and HOME; TAIL uses @scan.tail
 * @scan.tail: next place in the scan of TAIL
 * @scan.choice: blocks to keep
 * @scan.swept: in TAIL: no write was in flight when the scan began
 * @step: the current step, and the state of the scan after it
 * @step.move: blocks of the step
 * @step.nr: entries in @step.move
 * @step.next_from: @scan.from after the step is done
 * @step.next_tail: @scan.tail after the step is done
 * @step.next_choice: @scan.choice after the step is done
 * @staging: content of the staging band
 * @tidied: number of first blocks of the staged band of which older cached copies have been dropped
 * @sync: waiting for a transaction and readers, and the switch of rounds
 * @sync.waiting: waiting until a transaction is durable and readers have left
 * @sync.seq: that transaction
 * @sync.switching: the wait is for the switch of rounds; afterwards all slots without a current
 *	block become free
 * @sync.sweep: slots before this one have been looked at for that
 *
 * It has no lock of its own: the map lock protects it.
 */
struct dual_cache {
	const struct dual_shape *shape;
	u32 band_blocks;
	u32 step_blocks;
	struct shingle_engine *engine;
	struct dual_bands bands;

	/* Variants and features for tests, constant */
	struct {
		bool literal;
		bool unsafe_switch;
		bool unsafe_inplace;
	} opt;

	struct shingle_slotmap map;
	u16 *count;

	/* Slots that cannot be written */
	struct {
		unsigned long *unfit;
		u32 nr;
		struct dual_failure suspect;
		u32 misses;
	} bad;

	u32 blocks;

	struct dual_round round;
	u32 fb1;
	bool round_changed;

	/* Where writes go in this round */
	struct {
		struct dual_cursor fill;
		u32 next;
		u32 ahead;
		u32 filled;
		u32 room;
		u32 reserve;
		u32 limit;
		u32 written;
		struct dual_cursor fb_fill;
		u32 inflight;
	} part;

	/* Statistics from which the next round is predicted */
	struct {
		struct dual_curve curve;
		u32 curve_round;
		u32 most;
		struct dual_history history;
		struct dual_history last;
	} predict;

	/* Numbers of cached blocks by rank */
	struct {
		struct dual_heat pb;
		struct dual_heat fb2;
	} rank;

	enum dual_phase phase;
	bool wanted;
	bool empty;
	bool drain;

	/* The scan of a clean */
	struct {
		struct dual_cursor mark;
		u32 from;
		struct dual_cursor tail;
		struct dual_choice choice;
		bool swept;
	} scan;

	/* The current step, and the state of the scan after it */
	struct {
		struct dual_move *move;
		u32 nr;
		u32 next_from;
		struct dual_cursor next_tail;
		struct dual_choice next_choice;
	} step;

	struct dual_staging staging;
	u32 tidied;

	/* Waiting for a transaction and readers, and the switch of rounds */
	struct {
		bool waiting;
		u64 seq;
		bool switching;
		u32 sweep;
	} sync;
};

/**
 * struct dual_home - the home of a block: the thesis's static map
 * @surface: surface; each has one cache
 * @band: band of the surface
 * @track: track of the band
 * @block: block of the track
 */
struct dual_home {
	u32 surface;
	u32 band;
	u32 track;
	u32 block;
};

/* dual/ready.c */
int dual_cache_init(struct dual_cache *c, const struct dual_shape *shape, u32 band_blocks);
int dual_ready(struct dual_cache *c, const char **why);

/* dual/clean.c */
void dual_begin_clean(struct dual_cache *c);
bool dual_is_older(const struct dual_cache *c, u32 slot, const struct dual_cursor *mark,
		   bool *fresh);
int dual_clean_next(struct dual_cache *c, bool forced, struct dual_step *step);
bool dual_step_extent(const struct dual_cache *c, u32 *cursor, struct dual_move *first, u32 *n);
u32 dual_merge_source(const struct dual_cache *c, u32 lblk);
void dual_step_done(struct dual_cache *c, const struct dual_step *step, u64 seq);
bool dual_step_failed(struct dual_cache *c, const struct dual_failure *f);
bool dual_tidy(struct dual_cache *c);
bool dual_release(struct dual_cache *c, u64 seq);

/* dual/cache.c; it calls neither of the files above */
void dual_cache_exit(struct dual_cache *c);
struct dual_home dual_home_of(u64 lblk, u32 bands, u32 band_tracks, u32 track_blocks);

void dual_note_current(struct dual_cache *c);
void dual_forget(struct dual_cache *c, u32 slot);
void dual_hold(struct dual_cache *c, u32 slot, u32 lblk, u16 count);
void dual_change_round(struct dual_cache *c);
void dual_decide(struct dual_cache *c);
void dual_begin_round(struct dual_cache *c);
u32 dual_next_fit(const struct dual_cache *c, enum dual_part part, struct dual_cursor *at, u32 n,
		  u32 *slot, u32 *passed);

int dual_place(struct dual_cache *c, u32 n, u32 *slot, u32 *got);
void dual_commit(struct dual_cache *c, u32 lblk, u32 slot, u32 n);
void dual_abort(struct dual_cache *c);
u32 dual_drop(struct dual_cache *c, u32 lblk, u32 n);
u32 dual_verify_slot(const struct dual_cache *c, u32 slot, shingle_report_fn report, void *ctx);
u32 dual_verify(const struct dual_cache *c, shingle_report_fn report, void *ctx);

static inline u32 dual_find(const struct dual_cache *c, u32 lblk)
{
	return shingle_slotmap_find(&c->map, lblk);
}

/* Is the block's home the staging band now? */
static inline bool dual_staged(const struct dual_cache *c, u32 lblk)
{
	return c->staging.in_use && lblk / c->band_blocks == c->staging.band;
}

/* May the map that recovery would rebuild refer to the slot, or may a reader still use it? */
static inline bool dual_referenced(const struct dual_cache *c, u32 slot)
{
	return shingle_slot_state(&c->map, slot) != SHINGLE_SLOT_FREE;
}

/*
 * Most slots that may be unfit.  If more writes fail, the device is at fault, and no slot
 * is marked.
 */
static inline u32 dual_most_unfit(const struct dual_cache *c)
{
	return c->map.nr_slots / 4;
}

/* Has the round changed since the last call?  If so the caller must record it. */
static inline bool dual_round_changed(struct dual_cache *c)
{
	bool changed = c->round_changed;

	c->round_changed = false;
	return changed;
}

#endif /* SHINGLE_DUAL_CACHE_H */
