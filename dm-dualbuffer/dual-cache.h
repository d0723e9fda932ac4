/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Dual-buffer: one persistent cache, on tracks of one surface, before its bands.  Pure: it
 * does not know where blocks are on the medium, but for the numbers of its own, slots; all
 * its memory is allocated at create, 14 bytes and a bit a slot.
 *
 * Ma (2019), chapter 4.  dual-rounds.h says which slots are
 * what, dual-predict.h where M comes from, dual-select.h what is kept.  Here is the life of
 * a round, and what makes it safe:
 *
 *	FILL	writes go to what is new, in order, until but a reserve of it is left
 *	KEEP	what is kept is copied to FB_2, in steps, in the order of the cache
 *	HOME	for each band of which something is left: it is merged into a staging band,
 *		and copied home from there (D2)
 *	TAIL	what was written meanwhile, to the reserve, is copied to FB_2 (D8)
 *	switch	the next round begins; nothing is placed before that is durable and readers
 *		have left (D1)
 *
 * A copy counts, and the place it was copied from does no more, as soon as its step is done:
 * after a power cut the map has one of both, and the clean begins anew with what is left of
 * it (D9).  No block of the cache is written twice in a round.  So nothing of it has to be
 * waited for but for the three steps that something is overwritten after: stage, home, switch.
 *
 * What an engine (engine.h) asks of it, for each of its caches:
 *
 *	resolve()	dual_find(); else the staging band, if dual_staged(); else home
 *	place()		dual_place(); -EBUSY and -ENOSPC as there
 *	commit, abort	dual_commit(), dual_abort(); a record: these slots hold these blocks.
 *			Before it a record of M if dual_round_changed()
 *	referenced()	dual_referenced(), of bands of role CACHE
 *	next_step()	dual_clean_next(), dual_step_extent(), dual_merge_source();
 *			dual_step_done() and records of what it has moved, or dual_step_failed()
 *	tidy, release	dual_tidy(), dual_release()
 *	ready()		dual_ready()
 *	verify()	dual_verify_slot()
 *
 * A slot that cannot be written is unfit: it stays free, and writes and moves go round it.  It
 * counts as a place of its part all the same, so that nothing about parts depends on which
 * slots are unfit.  That is a hint, and no state: a slot that was forgotten is found again by a
 * step that fails.  So no record says it, but pieces of checkpoints do.
 *
 * What is home is the engine's to know, and so what a discard forgets; it is told by marks
 * which pieces of a checkpoint have changed.
 */
#ifndef SHINGLE_DUAL_CACHE_H
#define SHINGLE_DUAL_CACHE_H

#include "counted.h"
#include "dual-rounds.h"
#include "dual-select.h"
#include "engine.h"
#include "slotmap.h"

#define DUAL_NO_BAND	U32_MAX
/* Blocks of a step, at most. */
#define DUAL_STEP_BLOCKS	256U

/* Pieces of the engine's state that the cache marks; those of slots begin with the third. */
enum { DUAL_PIECE_STATE, DUAL_PIECE_CURVE, DUAL_PIECE_SLOTS };

enum dual_phase { DUAL_FILL, DUAL_KEEP, DUAL_HOME, DUAL_TAIL };

enum dual_step_kind {
	DUAL_STEP_COPY,		/* slots to FB_2; of none: there was nothing where it looked */
	DUAL_STEP_STAGE,	/* a band, merged, to the staging band */
	DUAL_STEP_HOME,		/* the staging band home */
	DUAL_STEP_INPLACE,	/* a band, merged, home from memory (unsafe) */
	DUAL_STEP_SWITCH,	/* the next round */
};

/**
 * struct dual_move - a block that a step copies
 * @src: from this slot
 * @dst: to this one
 * @lblk: the block, if it is still there when the step is done
 */
struct dual_move {
	u32 src;
	u32 dst;
	u32 lblk;
};

/**
 * struct dual_step - a step of a clean
 * @kind: of it
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
 * @end: one behind the last slot of the write that failed; 0: none did
 * @slot: those of it that cannot be written
 * @nr: how many
 * @proven: that is so; else it may be the device that fails
 */
struct dual_failure {
	u32 end;
	u32 slot[SHINGLE_UNWRITTEN];
	u32 nr;
	bool proven;
};

/**
 * struct dual_staging - what the staging band holds
 * @in_use: it holds @band
 * @band: which
 * @mark: of its blocks what is in FB_1, or new in front of this, is older than the copy
 *
 * Durable before the band is written home.
 */
struct dual_staging {
	bool in_use;
	u32 band;
	struct dual_cursor mark;
};

/**
 * struct dual_history - what became of a round
 * @number: of it
 * @predicted: blocks allocated at its end, as foretold before clamping; 0 if static
 * @allocated: as it was
 * @ideal: as it should have been; if the round has ended before, as its whole V(X) goes on
 * @live_blocks: current at its end
 * @fb_blocks: room of FB_2
 * @kept_blocks: written to it
 * @home_blocks: of the cache, brought home
 * @home_bands: read-modify-writes of bands for that
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
 * struct dual_bands - what an engine wants to know of its bands, and a walk over them
 * @live: of each, blocks that are cached
 * @nr: bands
 * @walked: a walk over them has come so far
 * @walked_live: of those in front of that, the sum; kept right by what happens meanwhile
 */
struct dual_bands {
	u32 *live;
	u32 nr;
	u32 walked;
	u32 walked_live;
};

/**
 * struct dual_cache - a persistent cache
 * @shape: of it
 * @band_blocks: of the bands that blocks belong to
 * @step_blocks: a step moves so many at most
 * @engine: whose it is, to be told by marks what has changed; NULL if it is nobody's
 * @bands: of the engine's
 * @literal: counts begin at zero, and what has room is kept, as in the thesis
 * @unsafe_switch: feature of tests: the next round does not wait (CE-D1)
 * @unsafe_inplace: feature of tests: bands are not staged
 * @map: which slot holds which block
 * @count: of each slot, how often its block was updated while it was cached
 * @unfit: of each slot, a bit: it cannot be written
 * @nr_unfit: how many; never more than dual_most_unfit()
 * @suspect: slots that are unfit if the next step, which goes to others, succeeds
 * @refused: the slot of a write of the host that failed, unfit if the next write succeeds
 * @misses: steps in a row that failed without a proof
 * @blocks: N, see dual_blocks()
 * @round: the round
 * @fb1: blocks of its FB_1
 * @round_changed: since it was last asked
 * @fill: what is new next
 * @next: its slot, if @ahead is not 0
 * @ahead: so many slots follow each other from there on; 0: it has not been looked for
 * @filled: blocks in front of that
 * @room: blocks that are new
 * @reserve: of these, for the time of a clean that keeps something
 * @limit: nothing is placed beyond so many, for now
 * @written: committed in this round
 * @fb_fill: what is written next of FB_2
 * @inflight: placed, and neither committed nor aborted
 * @curve: V(X)
 * @curve_round: of this round
 * @most: blocks that were cached at the same time since it was loaded, at most
 * @heat: of the persistent buffer
 * @kept: of FB_2
 * @history: of this round, so far
 * @last: and of the last one
 * @phase: of it
 * @wanted: a write has found no room
 * @empty: the clean to come, or under way, keeps nothing of what is older than itself
 * @drain: nothing is placed until nothing is under way
 * @mark: what is new from here on was written while cleaning
 * @from: the walk over slots has come so far; of DUAL_TAIL @tail
 * @tail: likewise
 * @choice: what is kept
 * @swept: of DUAL_TAIL: nothing was under way when its walk began
 * @move: blocks of the step
 * @nr_moves: how many
 * @next_from: as @from, once the step is done
 * @next_tail: as @tail
 * @next_choice: as @choice
 * @staging: see there
 * @tidied: of how many of the staged band's blocks the cache has forgotten older ones
 * @waits: something must be durable, and readers have left
 * @waits_seq: by this transaction
 * @switching: it is the round: slots are swept
 * @sweep: slots in front of this one are
 *
 * No locking of its own: the map lock protects it.
 */
struct dual_cache {
	const struct dual_shape *shape;
	u32 band_blocks;
	u32 step_blocks;
	struct shingle_engine *engine;
	struct dual_bands bands;
	bool literal;
	bool unsafe_switch;
	bool unsafe_inplace;

	struct shingle_slotmap map;
	u16 *count;
	unsigned long *unfit;
	u32 nr_unfit;
	struct dual_failure suspect;
	struct dual_failure refused;
	u32 misses;
	u32 blocks;

	struct dual_round round;
	u32 fb1;
	bool round_changed;
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
	struct dual_curve curve;
	u32 curve_round;
	u32 most;
	struct dual_heat heat;
	struct dual_heat kept;
	struct dual_history history;
	struct dual_history last;

	enum dual_phase phase;
	bool wanted;
	bool empty;
	bool drain;
	struct dual_cursor mark;
	u32 from;
	struct dual_cursor tail;
	struct dual_choice choice;
	bool swept;
	struct dual_move *move;
	u32 nr_moves;
	u32 next_from;
	struct dual_cursor next_tail;
	struct dual_choice next_choice;

	struct dual_staging staging;
	u32 tidied;
	bool waits;
	u64 waits_seq;
	bool switching;
	u32 sweep;
};

/**
 * struct dual_home - where a block belongs: the thesis's static map
 * @surface: of which one cache is
 * @band: of the surface
 * @track: of the band
 * @block: of the track
 */
struct dual_home {
	u32 surface;
	u32 band;
	u32 track;
	u32 block;
};

int dual_cache_init(struct dual_cache *c, const struct dual_shape *shape, u32 band_blocks);
void dual_cache_exit(struct dual_cache *c);
int dual_ready(struct dual_cache *c, const char **why);
struct dual_home dual_home_of(u64 lblk, u32 bands, u32 band_tracks, u32 track_blocks);

/* Between dual-cache.c and dual-clean.c. */
void dual_forget(struct dual_cache *c, u32 slot);
void dual_learn(struct dual_cache *c, struct dual_failure *f, enum shingle_slot_state state);
void dual_hold(struct dual_cache *c, u32 slot, u32 lblk, u16 count);
void dual_change_round(struct dual_cache *c);
void dual_decide(struct dual_cache *c);
void dual_begin_round(struct dual_cache *c);
void dual_begin_clean(struct dual_cache *c);
u32 dual_next_fit(const struct dual_cache *c, enum dual_part part, struct dual_cursor *at, u32 n,
		  u32 *slot, u32 *passed);

int dual_place(struct dual_cache *c, u32 n, u32 *slot, u32 *got);
void dual_commit(struct dual_cache *c, u32 lblk, u32 slot, u32 n);
void dual_abort(struct dual_cache *c, u32 slot, u32 n);
void dual_inherit(struct dual_cache *c, const struct dual_cache *old);
u32 dual_drop(struct dual_cache *c, u32 lblk, u32 n);
bool dual_is_older(const struct dual_cache *c, u32 slot, const struct dual_cursor *mark,
		   bool *fresh);
u32 dual_verify_slot(const struct dual_cache *c, u32 slot, shingle_report_fn report, void *ctx);
u32 dual_verify(const struct dual_cache *c, shingle_report_fn report, void *ctx);

int dual_clean_next(struct dual_cache *c, bool forced, struct dual_step *step);
bool dual_step_extent(const struct dual_cache *c, u32 *cursor, struct dual_move *first, u32 *n);
u32 dual_merge_source(const struct dual_cache *c, u32 lblk);
void dual_step_done(struct dual_cache *c, const struct dual_step *step, u64 seq);
bool dual_step_failed(struct dual_cache *c, const struct dual_failure *f);
bool dual_tidy(struct dual_cache *c);
bool dual_release(struct dual_cache *c, u64 seq);

static inline u32 dual_find(const struct dual_cache *c, u32 lblk)
{
	return shingle_slotmap_find(&c->map, lblk);
}

/* Is the staging band where a block belongs? */
static inline bool dual_staged(const struct dual_cache *c, u32 lblk)
{
	return c->staging.in_use && lblk / c->band_blocks == c->staging.band;
}

/* May the map that recovery would rebuild point to a slot, or a reader be on his way? */
static inline bool dual_referenced(const struct dual_cache *c, u32 slot)
{
	return shingle_slot_state(&c->map, slot) != SHINGLE_SLOT_FREE;
}

/* So many slots may be unfit.  With more the device is at fault: then nothing is learnt. */
static inline u32 dual_most_unfit(const struct dual_cache *c)
{
	return c->map.nr_slots / 4;
}

/* Has the round changed since this was asked?  Then it is to be recorded. */
static inline bool dual_round_changed(struct dual_cache *c)
{
	bool changed = c->round_changed;

	c->round_changed = false;
	return changed;
}

#endif /* SHINGLE_DUAL_CACHE_H */
