/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between core and an engine.  An engine holds the algorithms of one translation
 * layer and nothing else: no bio, no lock, no sleep, no device I/O, no clock.
 *
 * Core calls every operation under the target's map lock (a spinlock), except create, destroy,
 * decode, replay and ready, which run before or after I/O.  An operation may not sleep or allocate.
 * It may not walk over all of a large device either: it looks at SHINGLE_WALK items in one call and
 * continues in the next.  Logical and physical addresses and lengths are in 4 KiB blocks; physical
 * addresses include their device (layout.h).
 *
 * The life of a write:   place -> (data on the medium) -> commit | abort
 * The life of a step:    next_step -> step_extent, step_source -> (copy)
 *                        -> step_done | step_failed
 *                        -> (records durable, old readers gone) -> release
 * The life of an epoch:  place returns SHINGLE_GATHER -> (the write cache) -> epoch_add
 *                        -> next_step(EPOCH) until 0, steps as above -> epoch_end
 *
 * Space that an operation frees may still be referenced by the map that recovery would rebuild, or
 * be read by a request that looked it up before.  The engine must not hand it out again before
 * release().  That is rule R0; core checks it at every write through referenced().
 */
#ifndef SHINGLE_ENGINE_H
#define SHINGLE_ENGINE_H

#include "format/codec.h"
#include "engine/counters.h"
#include "format/layout.h"
#include "engine/options.h"
#include "engine/pieces.h"
#include "engine/readside.h"
#include "engine/records.h"

struct shingle_engine_ops;
struct shingle_pages;

/* Limit of items, each anywhere in memory, that one call looks at.  Tests define a lower one. */
#ifndef SHINGLE_WALK
#define SHINGLE_WALK	1024U
#endif

/* The lifetime that the sender of a write expects for its data, relative to other data. */
enum shingle_life {
	SHINGLE_LIFE_UNKNOWN,
	SHINGLE_LIFE_SHORT,
	SHINGLE_LIFE_MEDIUM,
	SHINGLE_LIFE_LONG,
	SHINGLE_LIFE_EXTREME,
	SHINGLE_NR_LIVES
};

/**
 * struct shingle_marks - which pieces of the state have changed
 * @bits: one bit for each piece (pieces.h): its content differs from what was last written of it
 * @nr_pieces: number of pieces of all kinds
 * @nr: number of bits that are set
 */
struct shingle_marks {
	unsigned long *bits;
	u32 nr_pieces;
	u32 nr;
};

/**
 * struct shingle_engine - the part of an engine that core sees
 * @ops: its operations
 * @marks: the pieces that have changed since they were last encoded for a checkpoint.
 *	Every operation that changes a piece sets its mark, except decode, replay and ready: the
 *	first checkpoint after these writes all pieces
 * @copy_blocks: least size of core's copy buffer, in blocks
 * @discard_blocks: an aligned run of this length can always be discarded; a shorter one
 *	perhaps not
 * @cache_blocks: slots for blocks away from home
 * @idle_ms: default of the key of that name: milliseconds without host I/O before
 *	next_step(IDLE), 0 = never
 * @gather_blocks: 0 if the engine does not gather writes.  Otherwise it wants to see many
 *	writes before it decides, and whole aligned runs of this length if there are any
 * @buffer_blocks: capacity that the write cache needs for gathering
 * @step_records: maximum of shingle_step::records, 0 if no step sets it
 * @jobs: number of cleaning jobs begun, counted in next_step(): see turns.h
 * @in_use: the device is loaded: options that only a table may set can no longer be changed
 * @unsafe_order: feature for tests: records are written before the data that they refer to
 *	are flushed
 * @frees_early: core calls release() after every commit, even if no request waits for space
 * @knows_life: place() receives lifetime hints; core sets it after create()
 * @reads: its read side; NULL if core reads the runs of a bio one after the other
 * @map_cache_kb: RAM for pages of the map, set by the option of that name
 * @pages: the pages of a paged map, NULL for other maps; core sets it after create()
 * @call_pages: maximum of pages that place(), discard(), resolve() or replay() looks at in
 *	one call
 * @step_pages: maximum of pages that next_step() or verify() looks at, and that a step
 *	holds
 *
 * An engine embeds this struct at the beginning of its own; the tables of its ops contain offsets
 * into that struct.  The map lock protects it, like all of the engine.
 */
struct shingle_engine {
	const struct shingle_engine_ops *ops;
	struct shingle_marks marks;
	u32 copy_blocks;
	u32 discard_blocks;
	u64 cache_blocks;
	u32 idle_ms;
	u32 gather_blocks;
	u32 buffer_blocks;
	u32 step_records;
	u32 jobs;
	bool in_use;
	bool unsafe_order;
	bool frees_early;
	bool knows_life;
	struct shingle_readside *reads;
	u32 map_cache_kb;
	struct shingle_pages *pages;
	u32 call_pages;
	u32 step_pages;
};

/* Result of place(): the blocks are to be gathered. */
#define SHINGLE_GATHER	1
/* Result of place() and discard(): no later event will make room. */
#define SHINGLE_FULL	(-EDQUOT)
/*
 * Result of place(), discard(), next_step() and replay() after shingle_page() or
 * shingle_page_hold() returned NULL: nothing has changed, nothing is held, core calls again.
 */
#define SHINGLE_ABSENT	(-ENXIO)

enum shingle_run_kind {
	SHINGLE_RUN_MAPPED,	/* content is at pblk */
	SHINGLE_RUN_UNWRITTEN,	/* zeroes; as the emulated drive, core reads pblk all the same */
	SHINGLE_RUN_ZERO,	/* zeroes, and the drive knows it without reading */
	SHINGLE_RUN_ABSENT,	/* the page with this entry is absent: ask again */
};

/**
 * struct shingle_run - consecutive logical blocks at consecutive places
 * @lblk: first logical block
 * @pblk: its place, meaningless for SHINGLE_RUN_ZERO and SHINGLE_RUN_ABSENT
 * @n: length, at least 1
 * @kind: what a read finds there
 */
struct shingle_run {
	u64 lblk;
	u64 pblk;
	u32 n;
	enum shingle_run_kind kind;
};

/**
 * struct shingle_emit - the journal records that an operation leaves
 * @rec: room for @max records
 * @nr: number of records so far
 * @max: at least the number that the engine's ops announce for the operation
 * @seq: transaction to which the records will belong
 *
 * The records of one call reach the disk in one transaction or not at all.
 */
struct shingle_emit {
	struct shingle_record *rec;
	u32 nr;
	u32 max;
	u64 seq;
};

/**
 * shingle_emit() - leave a journal record
 * @e: receives the record
 * @type: see struct shingle_record
 * @n: see struct shingle_record
 * @c: see struct shingle_record
 * @a: see struct shingle_record
 * @b: see struct shingle_record
 *
 * Context: inside an engine operation.
 */
static inline void shingle_emit(struct shingle_emit *e, u16 type, u16 n, u32 c, u64 a, u64 b)
{
	if (!WARN_ON_ONCE(e->nr == e->max))
		shingle_record_set(&e->rec[e->nr++], type, n, c, a, b);
}

/* Why core asks for a cleaning step. */
enum shingle_why {
	SHINGLE_WHY_RECOVERY,	/* finish what a power cut interrupted */
	SHINGLE_WHY_PRESSURE,	/* a write found no room */
	SHINGLE_WHY_IDLE,	/* the host is quiet */
	SHINGLE_WHY_FORCED,	/* a message asked for it */
	SHINGLE_WHY_EPOCH,	/* gathered blocks are to be written */
	SHINGLE_WHY_REWRITE,	/* rewrite() has asked for it */
};

/* The state of the medium that the next step needs. */
enum shingle_sync {
	SHINGLE_SYNC_COMMIT,	/* data and records are durable, and core has called release() */
	SHINGLE_SYNC_FLUSH,	/* data are durable */
	SHINGLE_SYNC_NONE,	/* any state */
};

/* How the step treats gathered blocks from its @lblk on. */
enum shingle_gathered {
	SHINGLE_GATHERED_NONE,
	SHINGLE_GATHERED_OVER,	/* they replace the content that it copies */
	SHINGLE_GATHERED_ONLY,	/* it writes only them; blocks between them keep their content */
};

/* Maximum of kinds of steps of an engine. */
#define SHINGLE_STEP_KINDS	4

/**
 * struct shingle_extent - a part of a step: consecutive blocks from one place to another
 * @lblk: first logical block, SHINGLE_NOWHERE if the content has none
 * @src: place of the content, or SHINGLE_NOWHERE for zeroes
 * @dst: destination, all in one band
 * @n: length; 0: this call found none in the part it looked at, call again
 */
struct shingle_extent {
	u64 lblk;
	u64 src;
	u64 dst;
	u32 n;
};

/**
 * struct shingle_step - one piece of cleaning
 * @kind: the engine's number for this kind of step, below SHINGLE_STEP_KINDS
 * @n: blocks to copy, 0 if the step only changes the map
 * @records: maximum of records that step_done() leaves; 0: the number in the engine's ops.
 *	Core reserves room for them in the journal before the step begins
 * @scattered: the step moves the extents that step_extent() returns, and @base to @lblk
 *	mean nothing.  Excludes @whole_in_memory and @gathered
 * @base: place of the bulk of the content, or SHINGLE_NOWHERE for zeroes
 * @read_blocks: read this many blocks at @base, whatever step_source() returns, as the
 *	emulated drive does.  A block that cannot be read matters only if it is content; content
 *	that step_source() places elsewhere is not taken from the base.  0: read only what is
 *	needed
 * @dst: destination of the merged content, written in ascending order
 * @lblk: first logical block, SHINGLE_NOWHERE if the content has none
 * @cookie: for the engine's use; core does not read it
 * @whole_in_memory: @dst overlaps blocks that are still to be read (unsafe modes)
 * @gathered: gathered blocks are newer than the content; after step_done() the map holds
 *	them, and they leave the write cache
 * @optional: nothing depends on the step.  If a part of it fails, core neither tries again nor
 *	counts a block as lost
 * @sync: what must be durable before the next step
 *
 * A step that is not scattered is one extent from @base to @dst.  The content of its block i is
 * where step_source() places it, otherwise at @base + i.  One commit makes the whole step valid,
 * whatever its shape.
 */
struct shingle_step {
	u32 kind;
	u32 n;
	u32 records;
	bool scattered;
	u64 base;
	u32 read_blocks;
	u64 dst;
	u64 lblk;
	u64 cookie;
	bool whole_in_memory;
	enum shingle_gathered gathered;
	bool optional;
	enum shingle_sync sync;
};

/**
 * shingle_step_init() - a step without content
 * @step: the step, in next_step()
 *
 * Context: any.
 */
static inline void shingle_step_init(struct shingle_step *step)
{
	*step = (struct shingle_step){ .base = SHINGLE_NOWHERE, .lblk = SHINGLE_NOWHERE };
}

/* The only staging band of an engine that rewrites bands. */
static inline u64 shingle_staging_pblk(const struct shingle_layout *l)
{
	return shingle_band_pblk(l, SHINGLE_ROLE_STAGING, 0);
}

/* The ways to rewrite a band. */
enum shingle_rewrite {
	SHINGLE_REWRITE_STAGE,		/* merge it into the staging band */
	SHINGLE_REWRITE_BACK,		/* copy it home from there, when that is durable */
	SHINGLE_REWRITE_INPLACE,	/* both at once, from memory: a power cut loses data */
};

/**
 * shingle_step_rewrite() - set the places between which a step rewrites a band
 * @step: the step; its base is where the band's old content is, if it is needed
 * @how: the way
 * @native: place of the step's first block at home
 * @staging: its place in the staging band
 *
 * Context: any.
 */
static inline void shingle_step_rewrite(struct shingle_step *step, enum shingle_rewrite how,
					u64 native, u64 staging)
{
	if (how == SHINGLE_REWRITE_BACK)
		step->base = staging;
	step->dst = how == SHINGLE_REWRITE_STAGE ? staging : native;
	step->whole_in_memory = how == SHINGLE_REWRITE_INPLACE;
}

/* Maximum of blocks that a failed step names. */
#define SHINGLE_UNWRITTEN	16U

/**
 * struct shingle_unwritten - the destination that a failed step could not write
 * @pblk: first block of the write that failed
 * @n: its length; 0: no write failed, but a read, or the step was interrupted
 * @nr: number of blocks in @block
 * @block: blocks of that write which failed when each was written alone
 * @proven: other blocks of the same write could be written alone: the named blocks are at
 *	fault, not the device
 */
struct shingle_unwritten {
	u64 pblk;
	u32 n;
	u32 nr;
	u64 block[SHINGLE_UNWRITTEN];
	bool proven;
};

/* Maximum of counters of an engine. */
#define SHINGLE_MAX_COUNTERS	64U

/* verify() calls it once for each broken invariant, with a sentence. */
typedef void (*shingle_report_fn)(void *ctx, const char *fmt, ...) __printf(2, 3);

/**
 * struct shingle_map_ops - where blocks are and go
 * @resolve: return where blocks @lblk.. are now.  @out describes a non-empty prefix.
 *	During a step, a block that was not written since the step began is at the place that the
 *	step copies
 * @place: find room to write blocks @lblk.., which their sender expects to live for @life;
 *	@out describes a non-empty prefix.  -ENOSPC: cleaning must come first, and
 *	next_step(PRESSURE) will offer it.  -EBUSY: wait for the step, a write in flight or a
 *	release.  A write that was refused comes again, beginning at the same block, unless the
 *	block was discarded or the engine replaced.  SHINGLE_GATHER: the prefix of @out->n blocks
 *	is to be gathered, and there is room for its whole unit of gather_blocks.  SHINGLE_FULL:
 *	no cleaning makes room for the first block, and the write fails; if the write cache has
 *	acknowledged it, the next FLUSH reports the loss
 * @commit: the data of a placed run are on the medium.  If overlapping runs were in
 *	flight together either may win, but the winner must stay the same after recovery
 * @abort: a placed run was not written, or only in part
 * @discard: forget blocks @lblk..; @done is the number that was dealt with (at least 1),
 *	@dropped whether they now read as zeroes.  -EBUSY: wait for the step in progress.
 *	SHINGLE_FULL: as place()
 * @referenced: is any of @n blocks from @offset on, in band @band of @role, in use by the
 *	current map or by the map that recovery would rebuild?
 *
 * Core calls these operations for host I/O, in any order, from resume to suspend, each for a bio or
 * a piece of one.  A placed run ends with commit() or abort(), in the order in which the
 * medium completes the writes.  The other operations here are complete when they return.
 */
struct shingle_map_ops {
	void (*resolve)(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out);
	int (*place)(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		     struct shingle_run *out);
	void (*commit)(struct shingle_engine *e, const struct shingle_run *run,
		       struct shingle_emit *emit);
	void (*abort)(struct shingle_engine *e, const struct shingle_run *run);
	int (*discard)(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
		       struct shingle_emit *emit);
	bool (*referenced)(struct shingle_engine *e, enum shingle_role role, u64 band,
			   u64 offset, u64 n);
};

/**
 * struct shingle_clean_ops - cleaning: which blocks move, and where
 * @next_step: returns 1 and a step; 0 if there is nothing to do for this reason; -EAGAIN if
 *	there will be, once writes in flight have ended or space was released: a later call with
 *	the same reason then returns the step.  Where the engine waits for writes in flight it
 *	admits no other write before that, except for SHINGLE_WHY_IDLE.  A job of several steps
 *	goes on whatever the reason; the call that chooses a job, or offers a step outside any
 *	job, increments struct shingle_engine::jobs.  A clean (SHINGLE_WHY_FORCED) is finite: it
 *	covers what there is at the first call for it, and nothing that comes later
 * @step_extent: the extent at *@cursor, 0 at first, of a scattered step: moves *@cursor
 *	behind it and returns true; false if there is no other.  Destinations ascend, and no
 *	write to one of them destroys another, in whatever order a drive does them: a step on
 *	interlaced tracks must not contain a bottom and the top beside it, since the drive may
 *	exchange them.  Core asks for an extent more than once; only @src may differ then.  Until
 *	the step has ended no write may be in flight with a head that would cover the
 *	destinations.  NULL if no step is scattered
 * @step_source: of any other step, the first run at or after @offset that does not come
 *	from the base: fills @out (lblk relative to the step) and returns true.  NULL if all
 *	steps are scattered
 * @step_done: the copy is on the medium: change the map
 * @step_failed: the copy failed; the engine may offer @step again.  @bad names the
 *	destination that could not be written, if that was the reason.  Returns true if one of
 *	the blocks in @bad is new to the engine and it will write to none of them again: then the
 *	failure does not count as a retry.  An engine may return true a bounded number of times
 *	only
 * @tidy: free a part of the engine's data that step_done() has made useless; returns true
 *	if there is more.  Core repeats the call before the next step; I/O may come between.  May
 *	be NULL
 * @release: recovery and readers do not need the space any more that transactions up to @seq have
 *	freed: make a part of it available, and return true if there is more
 * @pending: does freed space wait for release()?
 * @left: called after a clean by message: returns the number of blocks, regions or the like that
 *	the clean should have moved and could not.  NULL if it always moves all
 *
 * There is one step at a time: next_step() offers it, step_extent() and step_source() describe the
 * copy while I/O goes on, and step_done() or step_failed() ends it.  Then follow tidy(), a commit
 * if the step asks for one, release(), and the next next_step(), as long as there is a reason.
 */
struct shingle_clean_ops {
	int (*next_step)(struct shingle_engine *e, enum shingle_why why,
			 struct shingle_step *step);
	bool (*step_extent)(struct shingle_engine *e, const struct shingle_step *step,
			    u64 *cursor, struct shingle_extent *out);
	bool (*step_source)(struct shingle_engine *e, const struct shingle_step *step,
			    u32 offset, struct shingle_run *out);
	void (*step_done)(struct shingle_engine *e, const struct shingle_step *step,
			  struct shingle_emit *emit);
	bool (*step_failed)(struct shingle_engine *e, const struct shingle_step *step,
			    const struct shingle_unwritten *bad);
	bool (*tidy)(struct shingle_engine *e);
	bool (*release)(struct shingle_engine *e, u64 seq);
	bool (*pending)(struct shingle_engine *e);
	u32 (*left)(struct shingle_engine *e);
};

/**
 * struct shingle_state_ops - the state that survives a power cut
 * @pieces: table of the kinds of pieces of the state
 * @replay: apply a record to the state being loaded
 * @ready: the whole state is loaded: check it, and compute the members that no piece contains.  May
 *	sleep
 *
 * While the device is in use core encodes pieces for checkpoints, in any order with I/O.  Recovery
 * decodes the pieces of a checkpoint into a new engine, calls replay() for the records behind it
 * (there may be neither), and calls ready() once, before the first I/O.
 */
struct shingle_state_ops {
	const struct shingle_piece_kind *pieces;
	int (*replay)(struct shingle_engine *e, const struct shingle_record *rec);
	int (*ready)(struct shingle_engine *e, const char **why);
};

/**
 * struct shingle_gather_ops - writes that cost less together
 * @epoch_add: add blocks @lblk.., within one aligned run of gather_blocks, to the epoch
 *	that is being put together.  Runs of one unit come one after another, ascending.  -ENOSPC
 *	if the epoch has no room for them.  NULL if the engine gathers nothing
 * @epoch_end: next_step(EPOCH) has returned 0, or the rest of the epoch is given up and
 *	comes again in another one
 *
 * An engine with gather_blocks 0 leaves all of them out.  There is one epoch at a time: epoch_add()
 * for each run while it is put together, steps of SHINGLE_WHY_EPOCH until there is none, then
 * epoch_end().
 */
struct shingle_gather_ops {
	int (*epoch_add)(struct shingle_engine *e, u64 lblk, u32 n);
	void (*epoch_end)(struct shingle_engine *e);
};

/**
 * struct shingle_read_ops - reads of blocks that lie in fragments
 * @around: the places that may be read together with the block at @pblk: from *@lo on, up to *@hi
 * @rewrite: the read of @n blocks from @lblk on was fragmented, and its data should be written
 *	again, in order.  Returns whether next_step(REWRITE) will offer a step for it
 *
 * An engine without a read side leaves them out.
 */
struct shingle_read_ops {
	void (*around)(struct shingle_engine *e, u64 pblk, u64 *lo, u64 *hi);
	bool (*rewrite)(struct shingle_engine *e, u64 lblk, u32 n);
};

/**
 * struct shingle_page_ops - a map that may be larger than RAM
 * @nr_pages: number of pages
 * @check: could the engine have written this content into a page?  Returns 0, or -EUCLEAN
 *	if no state has such a page.  Looks only at constants of the engine
 * @blocks: the run that contains all logical blocks that can no longer be found if the page
 *	is lost; empty if the page does not locate blocks
 *
 * An engine with its whole map in its own memory leaves all of them out.  pages.h describes the
 * functions that the other operations call: shingle_page() to look at a page, shingle_page_hold()
 * for a page that will be changed (from place() to commit() or abort(), from next_step() to
 * step_done() or step_failed(), or within one call), and shingle_page_dirty() when it is changed.
 *
 * Pages go into a checkpoint as pieces do, each as of a moment of its own, but they are not listed
 * in @state.pieces.  A record may be replayed onto pages that are newer or older than the record,
 * and than each other.  So a record contains all that it changes, and replay() derives nothing of
 * that from the pages.
 */
struct shingle_page_ops {
	u64 (*nr_pages)(const struct shingle_layout *layout);
	int (*check)(const struct shingle_engine *e, u32 nr, const void *page);
	void (*blocks)(const struct shingle_engine *e, u32 nr, u64 *lblk, u64 *n);
};

/**
 * struct shingle_observe_ops - what a user sees and asks
 * @verify: report every broken invariant in the part of the state at *@cursor, 0 at first
 *	and SHINGLE_NOWHERE after the last part; return how many.  I/O may come between.  If a
 *	page is absent *@cursor stays, and nothing is reported; what depends on a page with
 *	shingle_page_lost() is left out
 * @map_bytes: RAM used for maps
 * @cached_blocks: logical blocks that are away from home
 * @message: a message of several words.  Returns 0; 1 if only a part was done and core must
 *	call again with the same *@done, 0 at first; -ENOENT if the message is none of the
 *	engine's; -EINVAL with a sentence in @why.  May be NULL
 * @query: a message of one word with an answer in lines.  Writes the line at *@cursor, 0 at
 *	first, which it advances, with a newline.  Returns 1; 0 if there is no other line;
 *	-ENOENT if the word is none of the engine's.  May be NULL
 *
 * Core may call them at any time after ready() has succeeded; only message() changes anything.
 */
struct shingle_observe_ops {
	u32 (*verify)(struct shingle_engine *e, u64 *cursor, shingle_report_fn report,
		      void *ctx);
	u64 (*map_bytes)(struct shingle_engine *e);
	u64 (*cached_blocks)(struct shingle_engine *e);
	int (*message)(struct shingle_engine *e, unsigned int argc, char **argv, u64 *done,
		       struct shingle_emit *emit, const char **why);
	int (*query)(struct shingle_engine *e, const char *word, u64 *cursor, char *line,
		    size_t size);
};

/**
 * struct shingle_bands_needed - the bands that an engine works with
 * @cache: it has cache bands, which may be on a separate device
 * @one_cache: the whole cache is one band
 * @staging: number of staging bands
 * @interlaced: every band is one of interlaced tracks
 *
 * The tool lays the bands out.
 */
struct shingle_bands_needed {
	bool cache;
	bool one_cache;
	u32 staging;
	bool interlaced;
};

/**
 * struct shingle_engine_ops - a translation layer
 * @name: as in the superblock and the table line
 * @needs: the bands that it works with
 * @commit_records: maximum of records that commit() leaves
 * @step_records: maximum that step_done() leaves, unless the step has its own
 * @step_kinds: names of the values of struct shingle_step::kind, for the statistics of
 *	times
 * @discard_records: maximum that discard() leaves
 * @options: the options that a table line, or a message under the map lock, can set; ends
 *	with a NULL name
 * @params: the parameters fixed when a device is formatted, in the params of its
 *	superblock, as 32-bit numbers, little-endian; ends with a NULL name
 * @counters: the counters in its struct; at most SHINGLE_MAX_COUNTERS, and a NULL name
 * @records: meanings of its records, for the tool's dump; ends with a NULL name
 *
 * @logical_blocks: size of the device that a layout presents; 0 if the layout is invalid,
 *	and then create() gives the reason
 * @create: build an engine for @layout; on failure set @why to a sentence.  May sleep
 * @destroy: undo create()
 *
 * @map: where blocks are and go
 * @clean: cleaning: which blocks move, and where
 * @state: the state that survives a power cut
 * @gather: writes that cost less together; most engines have none
 * @pages: a map that may be larger than RAM; most engines have none
 * @read: reads of blocks that lie in fragments; most engines have none
 * @observe: what a user sees and asks
 */
struct shingle_engine_ops {
	const char *name;
	struct shingle_bands_needed needs;
	u32 commit_records;
	u32 step_records;
	const char *step_kinds[SHINGLE_STEP_KINDS];
	u32 discard_records;
	const struct shingle_option *options;
	const struct shingle_option *params;
	const struct shingle_counter *counters;
	const struct shingle_record_kind *records;

	u64 (*logical_blocks)(const struct shingle_layout *layout);
	int (*create)(struct shingle_engine **e, const struct shingle_layout *layout,
		      const char **why);
	void (*destroy)(struct shingle_engine *e);

	struct shingle_map_ops map;
	struct shingle_clean_ops clean;
	struct shingle_state_ops state;
	struct shingle_gather_ops gather;
	struct shingle_page_ops pages;
	struct shingle_read_ops read;
	struct shingle_observe_ops observe;
};

/**
 * shingle_set() - set an option of an engine
 * @e: the engine
 * @name: name of the option
 * @value: its value, NULL for a feature
 * @why: on error the reason, a sentence
 *
 * Context: as an engine's operations.
 * Return: as shingle_option_set().
 */
static inline int shingle_set(struct shingle_engine *e, const char *name, const char *value,
			      const char **why)
{
	return shingle_option_set(e->ops->options, e, e->in_use, name, value, why);
}

/**
 * shingle_marks_init() - allocate the marks, all clear
 * @e: the engine, in create(), with its ops set
 * @l: layout
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
static inline int shingle_marks_init(struct shingle_engine *e, const struct shingle_layout *l)
{
	u64 nr_pieces = shingle_pieces_nr(e->ops->state.pieces, U32_MAX, l);

	if (nr_pieces > INT_MAX)
		return -ENOMEM;
	e->marks.nr_pieces = nr_pieces;
	e->marks.bits = shingle_zalloc_array(BITS_TO_LONGS(nr_pieces), sizeof(unsigned long));
	return e->marks.bits ? 0 : -ENOMEM;
}

/**
 * shingle_marks_exit() - undo shingle_marks_init()
 * @e: the engine, in destroy()
 *
 * Context: may sleep.
 */
static inline void shingle_marks_exit(struct shingle_engine *e)
{
	kvfree(e->marks.bits);
}

/**
 * shingle_mark() - mark pieces of the state as changed
 * @e: the engine
 * @first: the first piece
 * @n: their number, at least one, at most the pieces of one set or log
 *
 * Context: inside an engine operation.
 */
static inline void shingle_mark(struct shingle_engine *e, u32 first, u32 n)
{
	do {
		e->marks.nr += !__test_and_set_bit(first++, e->marks.bits);
	} while (--n);
}

/* Number of marks that one call looks at. */
#define SHINGLE_MARKS_WALK	(64U * SHINGLE_WALK)

/**
 * shingle_encode_next() - encode the next piece that is to be written
 * @l: layout
 * @e: the engine
 * @all: include pieces that have not changed, but no empty ones
 * @cursor: 0 at first; SHINGLE_NOWHERE if there is no other piece
 * @index: index of the piece
 * @buf: as shingle_pieces_encode()
 * @bytes: size of the piece
 *
 * Clears the mark of the piece.
 *
 * Context: as shingle_pieces_encode().
 * Return: whether a piece was encoded; if not, there may be one further on.
 */
static inline bool shingle_encode_next(const struct shingle_layout *l, struct shingle_engine *e,
				       bool all, u64 *cursor, u64 *index, void *buf, u32 *bytes)
{
	struct shingle_marks *m = &e->marks;
	u32 end;

	if (!all) {
		end = min_t(u64, m->nr_pieces, *cursor + SHINGLE_MARKS_WALK);
		*cursor = find_next_bit(m->bits, end, *cursor);
		if (*cursor == end && end < m->nr_pieces)
			return false;
	}
	*bytes = shingle_pieces_encode(e->ops->state.pieces, l, e, cursor, index, buf);
	if (*cursor == SHINGLE_NOWHERE)
		return false;
	if (test_bit(*index, m->bits)) {
		__clear_bit(*index, m->bits);
		m->nr--;
	}
	return !all || *bytes;
}

/**
 * shingle_encode() - encode the next piece of the state that is not empty
 * @l: layout
 * @e: the engine
 * @cursor: as shingle_pieces_encode()
 * @index: as shingle_pieces_encode()
 * @buf: as shingle_pieces_encode()
 *
 * Context: as shingle_pieces_encode(), where the duration does not matter.
 * Return: size of the piece in bytes, 0 at the end.
 */
static inline u32 shingle_encode(const struct shingle_layout *l, struct shingle_engine *e,
				 u64 *cursor, u64 *index, void *buf)
{
	u32 bytes;

	do
		bytes = shingle_pieces_encode(e->ops->state.pieces, l, e, cursor, index, buf);
	while (!bytes && *cursor != SHINGLE_NOWHERE);
	return bytes;
}

/**
 * shingle_verify() - report every broken invariant
 * @e: the engine
 * @report: as verify()
 * @ctx: as verify()
 *
 * Context: as verify(), where the duration does not matter.
 * Return: number of broken invariants.
 */
static inline u32 shingle_verify(struct shingle_engine *e, shingle_report_fn report, void *ctx)
{
	u64 cursor = 0;
	u32 bad = 0;

	while (cursor != SHINGLE_NOWHERE)
		bad += e->ops->observe.verify(e, &cursor, report, ctx);
	return bad;
}

/**
 * shingle_step_extent() - the next extent of a step of any shape
 * @e: the engine
 * @step: the step
 * @cursor: as step_extent()
 * @out: as step_extent()
 *
 * Context: as step_extent().
 * Return: false if there is no other extent.
 */
static inline bool shingle_step_extent(struct shingle_engine *e, const struct shingle_step *step,
				       u64 *cursor, struct shingle_extent *out)
{
	if (step->scattered)
		return e->ops->clean.step_extent(e, step, cursor, out);
	if (*cursor || !step->n)
		return false;
	*cursor = 1;
	*out = (struct shingle_extent){ step->lblk, step->base, step->dst, step->n };
	return true;
}

/**
 * shingle_step_records() - maximum of records that a step leaves
 * @e: the engine
 * @step: the step
 *
 * Context: any.
 * Return: the maximum.
 */
static inline u32 shingle_step_records(const struct shingle_engine *e,
				       const struct shingle_step *step)
{
	return step->records ?: e->ops->step_records;
}

/**
 * shingle_most_step_records() - maximum of records that any step of an engine leaves
 * @e: the engine
 *
 * Context: any.
 * Return: the maximum.
 */
static inline u32 shingle_most_step_records(const struct shingle_engine *e)
{
	return max(e->step_records, e->ops->step_records);
}

/**
 * shingle_finish_tidy() - repeat tidy() until it has nothing left to do
 * @e: the engine
 *
 * Context: as tidy(), where the duration does not matter.
 */
static inline void shingle_finish_tidy(struct shingle_engine *e)
{
	while (e->ops->clean.tidy && e->ops->clean.tidy(e))
		;
}

/**
 * shingle_release_all() - release all space that transactions have freed
 * @e: the engine
 * @seq: the last of these transactions
 *
 * Context: as release(), where the duration does not matter.
 */
static inline void shingle_release_all(struct shingle_engine *e, u64 seq)
{
	while (e->ops->clean.release(e, seq))
		;
}

/**
 * shingle_in_use() - is any block of a stretch of a device in use?
 * @l: layout
 * @e: the engine
 * @pblk: first block; it may lie in a guard or outside all bands
 * @n: number of blocks
 *
 * Context: as referenced().
 * Return: whether referenced() returns true for a part of the stretch.
 */
static inline bool shingle_in_use(const struct shingle_layout *l, struct shingle_engine *e,
				  u64 pblk, u64 n)
{
	const struct shingle_group *g;
	u64 end = pblk + n, band, offset;
	u32 band_blocks;

	while (pblk < end) {
		g = shingle_group_from(l, pblk);
		if (!g || g->start >= end)
			return false;
		pblk = max(pblk, g->start);
		band = div64_u64(pblk - g->start, g->stride);
		offset = pblk - g->start - band * g->stride;
		band_blocks = l->band_blocks[g->role];
		if (offset < band_blocks &&
		    e->ops->map.referenced(e, g->role, g->first_band + band, offset,
					   min(end - pblk, band_blocks - offset)))
			return true;
		pblk += g->stride - offset;
	}
	return false;
}

/**
 * shingle_would_destroy() - does the head of a write cover a block that is in use?
 * @l: layout
 * @e: the engine
 * @pblk: first block written
 * @n: blocks written, within one band
 *
 * Implements the check of rule R0.
 *
 * Context: as referenced().
 * Return: true if the write would destroy a block in use.
 */
static inline bool shingle_would_destroy(const struct shingle_layout *l, struct shingle_engine *e,
					 u64 pblk, u32 n)
{
	/* Large, and mostly unused on a medium without columns. */
	struct shingle_windows it __uninitialized;
	struct shingle_window w;

	shingle_windows_begin(&it, l, pblk, n);
	while (shingle_windows_next(&it, &w)) {
		if (shingle_in_use(l, e, w.from, w.blocks))
			return true;
	}
	return false;
}

/**
 * shingle_step_would_destroy() - does a step destroy blocks that it writes itself?
 * @l: layout
 * @e: the engine
 * @step: the step
 * @x: an extent of it; its head may cover others
 *
 * On a shingled medium no step does: the head covers only tracks behind the written one, and the
 * extents ascend.
 *
 * Context: as step_extent().
 * Return: true if the head of @x covers the destination of another extent.
 */
static inline bool shingle_step_would_destroy(const struct shingle_layout *l,
					      struct shingle_engine *e,
					      const struct shingle_step *step,
					      const struct shingle_extent *x)
{
	struct shingle_extent other;
	struct shingle_windows it;
	struct shingle_window w;
	u64 cursor;

	if (!step->scattered || !l->interlaced)
		return false;
	shingle_windows_begin(&it, l, x->dst, x->n);
	while (shingle_windows_next(&it, &w)) {
		for (cursor = 0; shingle_step_extent(e, step, &cursor, &other);) {
			if (!other.n)
				continue;
			if (other.dst >= w.from + w.blocks)
				break;
			if (other.dst + other.n > w.from)
				return true;
		}
	}
	return false;
}

#endif /* SHINGLE_ENGINE_H */
