/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The engine of RMW-F: what it knows, and what its files have of each other.
 *
 *	rmwf/space.c	the dual-space manager, the sector locator: what lies where it belongs
 *	rmwf/flash.c	the address translator: what lies in flash
 *	rmwf/collect.c	the garbage collector: what goes home
 *	rmwf/engine.c	reads, writes, discards
 *	rmwf/steps.c	a step of a collection as core sees it, and why there is one
 *	rmwf/recover.c	pieces, records, back from them
 *	rmwf/options.c	what can be set, what is counted
 *
 * A block is in flash, or else where it belongs if it is live there, or else nowhere: zeroes.
 * While a band is on its way home part of it is in the staging band: all of a span that is
 * live and not in flash.
 *
 * What is written while a band is on its way goes to flash.  While it is copied nothing is
 * written to it at all.  What of it leaves flash by that is noted one by one, in records as
 * well: what it has no room for stays where it is, and so does what comes behind the copy.
 */
#ifndef SHINGLE_RMWF_STATE_H
#define SHINGLE_RMWF_STATE_H

#include "rmwf/engine.h"
#include "rmwf/flash.h"

/* struct shingle_step::kind */
enum { RMWF_STEP_LOOK, RMWF_STEP_STAGE, RMWF_STEP_WRITEBACK, RMWF_STEP_INPLACE };

/* Stretches that one collection brings home, and blocks of them. */
#define RMWF_MERGES	1024U
#define RMWF_MERGED	4096U
/* Of a flash block's pages so many are added to them in a step, at most. */
#define RMWF_ADDED	64U

/**
 * struct rmwf_merge - consecutive blocks in consecutive pages that go home
 * @lblk: the first block
 * @slot: the first page
 * @n: how many
 */
struct rmwf_merge {
	u32 lblk;
	u32 slot;
	u32 n;
};

/**
 * struct rmwf_counts - what the engine counts
 * @direct_blocks: written where they belong
 * @flash_blocks: written to flash
 * @aborted_blocks: writes that failed
 * @full_waits: times that a write found no page
 * @refused: writes that failed because all was hot (unsafe)
 * @collections: that brought something home because a write found no page
 * @collections_forced: because somebody has asked for it
 * @merged_blocks: cached blocks that were brought home
 * @cold_blocks: of those that were chosen, cold ones
 * @hot_blocks: and hot ones
 * @rmw_home_blocks: blocks written at native places by collections
 * @rmw_staged_blocks: blocks written to the staging band
 */
struct rmwf_counts {
	u64 direct_blocks;
	u64 flash_blocks;
	u64 aborted_blocks;
	u64 full_waits;
	u64 refused;
	u64 collections;
	u64 collections_forced;
	u64 merged_blocks;
	u64 cold_blocks;
	u64 hot_blocks;
	u64 rmw_home_blocks;
	u64 rmw_staged_blocks;
};

/**
 * struct rmwf - the engine's state
 * @engine: what core sees
 * @layout: of the device, core's
 * @space: what lies where it belongs
 * @flash: what does not
 * @cache_pblk: first block of the flash
 * @pointer: rule=pointer
 * @hot: a block that was written to flash more often is hot
 * @percent: a collection frees so much of a flash block
 * @unsafe_pointer: feature of tests: what was written in place is not recorded (CE-F2)
 * @unsafe_inplace: feature of tests: nothing is staged (F4)
 * @literal: feature of tests: what is hot is never brought home (CE-F5)
 * @row: for rmwf_collect()
 * @hashed: what a checkpoint says of pages is in the hash of @flash
 * @wanted: a write has found no page, of the first @want_n from @want_from on
 * @want_from: see there
 * @want_n: see there
 * @want: what @victim was chosen for
 * @chosen: a band is to be rewritten: @victim
 * @victim: see there
 * @stuck: a write found no page, and all is hot (unsafe)
 * @span: the blocks that are rewritten for it
 * @merge: what of them leaves flash, in the order of blocks
 * @nr_merges: used of it
 * @most_merges: of these, at most
 * @merged: blocks of them
 * @added: pages of @want that were asked about: nothing is under way to the band by then
 * @looked: and then, blocks of @span
 * @stepping: a step is in progress
 * @staging: what the staging band holds; n is 0 if nothing
 * @waits: something must be durable, and readers have left
 * @waits_seq: by this transaction
 * @asked: everything that is old in @flash is to go home
 * @asked_at: nothing is in front of this page
 * @count: see struct rmwf_counts
 */
struct rmwf {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	struct rmwf_space space;
	struct rmwf_flash flash;
	u64 cache_pblk;
	u32 pointer;
	u32 hot;
	u32 percent;
	bool unsafe_pointer;
	bool unsafe_inplace;
	bool literal;
	u16 *row;
	bool hashed;
	bool wanted;
	u32 want_from;
	u32 want_n;
	struct rmwf_want want;
	bool chosen;
	struct rmwf_victim victim;
	bool stuck;
	struct rmwf_span span;
	struct rmwf_merge *merge;
	u32 nr_merges;
	u32 most_merges;
	u32 merged;
	u32 added;
	u32 looked;
	bool stepping;
	struct rmwf_span staging;
	bool waits;
	u64 waits_seq;
	bool asked;
	u32 asked_at;
	struct rmwf_counts count;
};

static_assert(!offsetof(struct rmwf, engine));

static inline struct rmwf *to_rmwf(const struct shingle_engine *e)
{
	return container_of(e, struct rmwf, engine);
}

static inline u64 rmwf_staging_pblk(const struct rmwf *s)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_STAGING, 0);
}

static inline bool rmwf_is_staged(const struct rmwf *s, u32 lblk)
{
	return lblk - s->staging.lblk < s->staging.n;
}

static inline u32 rmwf_band(const struct rmwf *s, u32 lblk)
{
	return lblk / s->space.band_blocks;
}

/* Part of the band is in the staging band, and what is written to it goes to flash. */
static inline bool rmwf_going_home(const struct rmwf *s, u32 band)
{
	return s->staging.n && rmwf_band(s, s->staging.lblk) == band;
}

/* rmwf/engine.c */
u32 rmwf_leave_flash(struct rmwf *s, u32 lblk, u32 band, u64 seq);

/* rmwf/steps.c */
int rmwf_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step);
bool rmwf_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
		      struct shingle_run *out);
void rmwf_finish_step(struct shingle_engine *e, const struct shingle_step *step,
		      struct shingle_emit *emit);
bool rmwf_fail_step(struct shingle_engine *e, const struct shingle_step *step,
		    const struct shingle_unwritten *bad);
bool rmwf_release_step(struct shingle_engine *e, u64 seq);
bool rmwf_is_pending(struct shingle_engine *e);

/* rmwf/recover.c */
void rmwf_mark_slots(struct rmwf *s, u32 slot, u32 n);
void rmwf_mark_live(struct rmwf *s, u32 lblk, u32 n);
void rmwf_mark_state(struct rmwf *s);
int rmwf_replay(struct shingle_engine *e, const struct shingle_record *rec);
int rmwf_ready(struct shingle_engine *e, const char **why);
extern const struct shingle_piece_kind rmwf_pieces[];
extern const struct shingle_record_kind rmwf_records[];

/* rmwf/options.c */
extern const struct shingle_option rmwf_options[];
extern const struct shingle_option rmwf_format_options[];
extern const struct shingle_counter rmwf_counters[];

#endif /* SHINGLE_RMWF_STATE_H */
