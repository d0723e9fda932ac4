/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of the engine of RMW-F, and the functions that its files share.
 *
 *	rmwf/space.c	the dual-space manager and the sector locator: blocks at home
 *	rmwf/flash.c	the address translator: blocks in flash
 *	rmwf/collect.c	the garbage collector: chooses blocks to bring home
 *	rmwf/engine.c	reads, writes, discards
 *	rmwf/steps.c	steps of a collection as core sees them, and their reasons
 *	rmwf/recover.c	encoding and decoding of pieces and records
 *	rmwf/options.c	options and counters
 *
 * The newest copy of a block is in flash, if flash has one; otherwise at home, if the block is live
 * there; otherwise the block reads as zeroes.
 *
 * A collection rewrites a range of a band (struct rmwf::span) in two steps: it merges the range
 * into the staging band, then copies it home.  From the end of the first step to the end of the
 * second, the blocks of the range that are live and not in flash are read from the staging band,
 * and writes to the band go to flash.  From the choice of a band to the end of the first step it
 * takes no writes.  The engine lists the blocks that leave flash one by one, also in the records.
 * Blocks for which the list has no room stay in flash, and so do blocks written after the copy.
 */
#ifndef SHINGLE_RMWF_STATE_H
#define SHINGLE_RMWF_STATE_H

#include "rmwf/engine.h"
#include "rmwf/flash.h"

/* Kinds of steps, for struct shingle_step::kind. */
enum { RMWF_STEP_LOOK, RMWF_STEP_STAGE, RMWF_STEP_WRITEBACK, RMWF_STEP_INPLACE };

/* Most runs, and most blocks, that one collection brings home. */
#define RMWF_MERGES	1024U
#define RMWF_MERGED	4096U
/* Most pages of a flash block that a step adds to the list. */
#define RMWF_ADDED	64U

/**
 * struct rmwf_merge - consecutive blocks in consecutive pages that go home
 * @lblk: the first block
 * @slot: the first page
 * @n: number of blocks
 */
struct rmwf_merge {
	u32 lblk;
	u32 slot;
	u32 n;
};

/**
 * struct rmwf_counts - counters of the engine
 * @direct_blocks: blocks written to their home
 * @flash_blocks: blocks written to flash
 * @aborted_blocks: blocks of writes that failed
 * @full_waits: times a write found no page
 * @refused: writes that failed because all cached blocks were hot (unsafe)
 * @collections: collections because a write found no page
 * @collections_forced: collections by request
 * @merged_blocks: cached blocks brought home
 * @cold_blocks: cold blocks among those chosen
 * @hot_blocks: hot blocks among those chosen
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
 * @engine: the part that core sees
 * @layout: layout of the device, owned by core
 * @space: the blocks at home
 * @flash: the blocks in flash
 * @cache_pblk: first block of the flash
 * @opt: options; the map lock protects those that a message may change
 * @opt.pointer: value of the option rule: decide by the last written track of each column, as in
 *	the thesis, instead of by what the head would cover
 * @opt.hot: a block that was written to flash more often than this is hot
 * @opt.percent: percentage of a flash block that a collection frees
 * @opt.unsafe_pointer: feature for tests: direct writes are not recorded (CE-F2; these rules and
 *	counter-examples are in Documentation/papers/ma.rst)
 * @opt.unsafe_inplace: feature for tests: nothing is staged (F4)
 * @opt.literal: feature for tests: hot blocks are never brought home (CE-F5)
 * @row: work space of rmwf_collect()
 * @wanted: a write has found no page among the @want_n pages from @want_from on
 * @want_from: first of these pages
 * @want_n: number of these pages
 * @want: the request that @victim was chosen for
 * @chosen: a band will be rewritten: @victim
 * @victim: the collection that was chosen
 * @stuck: a write found no page, and all cached blocks are hot (unsafe)
 * @span: the blocks to rewrite
 * @merges: blocks of @span that leave flash; the list is empty when a band is chosen
 * @merges.list: runs of these blocks, in ascending order
 * @merges.nr: entries in @merges.list
 * @merges.most: most entries in @merges.list
 * @merges.blocks: blocks in @merges.list
 * @merges.added: pages of @want already considered; these are added when no write to the band is
 *	in flight
 * @merges.looked: blocks of @span already looked up; after @merges.added is complete
 * @stepping: a step is in progress
 * @staging: content of the staging band; n is 0 if empty
 * @waits: waiting until a transaction is durable and readers have left
 * @waits_seq: that transaction
 * @asked: a forced clean is in progress: it brings home all blocks that were in flash when it began
 *	(rmwf_flash_age())
 * @asked_at: the forced clean is done with pages before this one
 * @count: counters
 *
 * The map lock protects all of it; see engine.h.
 */
struct rmwf {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	struct rmwf_space space;
	struct rmwf_flash flash;
	u64 cache_pblk;

	/* Options; the map lock protects those that a message may change */
	struct {
		u32 pointer;
		u32 hot;
		u32 percent;
		bool unsafe_pointer;
		bool unsafe_inplace;
		bool literal;
	} opt;

	u16 *row;
	bool wanted;
	u32 want_from;
	u32 want_n;
	struct rmwf_want want;
	bool chosen;
	struct rmwf_victim victim;
	bool stuck;
	struct rmwf_span span;

	/* Blocks of @span that leave flash; the list is empty when a band is chosen */
	struct {
		struct rmwf_merge *list;
		u32 nr;
		u32 most;
		u32 blocks;
		u32 added;
		u32 looked;
	} merges;

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

static inline bool rmwf_is_staged(const struct rmwf *s, u32 lblk)
{
	return lblk - s->staging.lblk < s->staging.n;
}

static inline u32 rmwf_band(const struct rmwf *s, u32 lblk)
{
	return lblk / s->space.band_blocks;
}

/* A part of the band is in the staging band, and writes to it go to flash. */
static inline bool rmwf_going_home(const struct rmwf *s, u32 band)
{
	return s->staging.n && rmwf_band(s, s->staging.lblk) == band;
}

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

/**
 * rmwf_leave_flash() - a block's page is no longer current
 * @s: the engine
 * @lblk: the block
 * @band: its band
 * @seq: transaction that records this
 *
 * Context: map lock.
 * Return: number of times the block was written to flash, 0 if it is not there.
 */
static inline u32 rmwf_leave_flash(struct rmwf *s, u32 lblk, u32 band, u64 seq)
{
	u32 slot = rmwf_find(&s->flash, lblk), count;

	if (slot == SHINGLE_NO_SLOT)
		return 0;
	count = s->flash.count[slot];
	rmwf_flash_forget(&s->flash, slot, band);
	rmwf_flash_free(&s->flash, slot, seq);
	rmwf_mark_slots(s, slot, 1);
	return count;
}

#endif /* SHINGLE_RMWF_STATE_H */
