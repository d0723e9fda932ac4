/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an engine is: the algorithms of one translation layer, and nothing
 * else.  No bio, no lock, no sleep, no device I/O, no clock.
 *
 * Core calls every operation under the target's map lock (a spinlock), except
 * create, destroy, decode, replay, ready, which run before or after I/O.
 * An operation may not sleep or allocate, nor may it walk over all of a large device:
 * what has to be looked at in full is looked at in parts, SHINGLE_WALK items in a call.
 * Logical and physical addresses and
 * lengths are in 4 KiB blocks; physical ones carry their device (layout.h).
 *
 * The life of a write:   place -> (data on the medium) -> commit | abort
 * The life of a step:    next_step -> step_extent, step_source -> (copy)
 *                        -> step_done | step_failed
 *                        -> (records durable, old readers gone) -> release
 * The life of an epoch:  place says SHINGLE_GATHER -> (the write cache) -> epoch_add
 *                        -> next_step(EPOCH) until 0, steps as above -> epoch_end
 *
 * Space that an operation frees may still be referenced by the map that
 * recovery would rebuild, or be read by somebody who looked it up before.
 * The engine must not hand it out again before release().  That is rule R0,
 * and core checks it at every write through referenced().
 */
#ifndef SHINGLE_ENGINE_H
#define SHINGLE_ENGINE_H

#include "codec.h"
#include "counters.h"
#include "layout.h"
#include "options.h"
#include "pieces.h"
#include "records.h"

struct shingle_engine_ops;
struct shingle_pages;

/* So many items, each anywhere in memory, are looked at in one call.  Tests take less. */
#ifndef SHINGLE_WALK
#define SHINGLE_WALK	1024U
#endif

/* How long its sender thinks that what is written will live, next to the rest. */
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
 * @bits: a bit for each piece: it is not what was last written of it
 * @nr_pieces: of all kinds
 * @nr: bits that are set
 */
struct shingle_marks {
	unsigned long *bits;
	u32 nr_pieces;
	u32 nr;
};

/**
 * struct shingle_engine - what core sees of an engine
 * @ops: its operations
 * @marks: the pieces that have changed since they were last encoded for a checkpoint;
 *	every change of what is in them keeps them, but not decode, replay and ready:
 *	core takes all pieces after these
 * @copy_blocks: core's copy buffer must hold so many blocks at least
 * @discard_blocks: runs of so many, at a multiple of it, can always be forgotten;
 *	less than that perhaps not
 * @cache_blocks: slots for blocks away from home
 * @idle_ms: default of the key of that name: quiet milliseconds before
 *	next_step(IDLE), 0 = never
 * @gather_blocks: 0, or the engine gathers writes: it wants to see many of them
 *	before it decides, and whole runs of so many blocks if there are any
 * @buffer_blocks: what the write cache must hold for that
 * @step_records: most that shingle_step::records will ever say, 0 if no step says it
 * @jobs: so many it has begun to clean, counted in next_step(): see turns.h
 * @in_use: what was set for the size of buffers cannot be changed any more
 * @unsafe_order: feature of tests: records are written before the data that they
 *	speak of are flushed
 * @frees_early: what release() gives back is of use though nobody waits for it
 * @knows_life: place() is told how long writes will live; core's, after create
 * @map_cache_kb: RAM for pages of its map, which its own option sets
 * @pages: of its map, if that is paged; core's, after create
 * @call_pages: of them place(), discard(), resolve() and replay() look at so many at most
 *	in one call
 * @step_pages: next_step() and verify() look at so many at most, which is also what a
 *	step holds
 *
 * Engines embed it and add their own state behind it: it comes first, and the tables of
 * their ops say where in that state things are.
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
	u32 map_cache_kb;
	struct shingle_pages *pages;
	u32 call_pages;
	u32 step_pages;
};

/* What place() says of blocks that are to be gathered. */
#define SHINGLE_GATHER	1
/* What place() and discard() say where nothing that is to come will ever make room. */
#define SHINGLE_FULL	(-EDQUOT)
/*
 * What place(), discard(), next_step() and replay() say where shingle_page() or
 * shingle_page_hold() had to say no: nothing has changed, nothing is held, ask again.
 */
#define SHINGLE_ABSENT	(-ENXIO)

enum shingle_run_kind {
	SHINGLE_RUN_MAPPED,	/* content is at pblk */
	SHINGLE_RUN_UNWRITTEN,	/* zeroes, but the drive would go and look at pblk */
	SHINGLE_RUN_ZERO,	/* zeroes, and the drive knows it */
	SHINGLE_RUN_ABSENT,	/* the page that says it is absent: ask again */
};

/**
 * struct shingle_run - consecutive logical blocks at consecutive places
 * @lblk: first logical block
 * @pblk: where it is, meaningless for SHINGLE_RUN_ZERO and SHINGLE_RUN_ABSENT
 * @n: length, at least 1
 * @kind: what is to be found there
 */
struct shingle_run {
	u64 lblk;
	u64 pblk;
	u32 n;
	enum shingle_run_kind kind;
};

/**
 * struct shingle_emit - where an operation leaves its journal records
 * @rec: room for @max records
 * @nr: used so far
 * @max: at least what the engine's ops announce for the operation
 * @seq: transaction that the records will belong to
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
 * @e: where
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
	SHINGLE_WHY_FORCED,	/* somebody asked for it */
	SHINGLE_WHY_EPOCH,	/* gathered blocks are to be written */
};

/* What must be on the medium before the step after this one. */
enum shingle_sync {
	SHINGLE_SYNC_COMMIT,	/* data, then records; then release() */
	SHINGLE_SYNC_FLUSH,	/* data */
	SHINGLE_SYNC_NONE,
};

/* What the step has to do with gathered blocks from its @lblk on. */
enum shingle_gathered {
	SHINGLE_GATHERED_NONE,
	SHINGLE_GATHERED_OVER,	/* they go over the content */
	SHINGLE_GATHERED_ONLY,	/* they are written, and what is between them stays */
};

/* Kinds of steps that an engine can have. */
#define SHINGLE_STEP_KINDS	4

/**
 * struct shingle_extent - a part of a step: consecutive blocks from one place to another
 * @lblk: first logical block, SHINGLE_NOWHERE when the content has none
 * @src: where the content is, or SHINGLE_NOWHERE for zeroes
 * @dst: where it goes, all in one band
 * @n: length; 0: none was found where it was looked for, ask again
 */
struct shingle_extent {
	u64 lblk;
	u64 src;
	u64 dst;
	u32 n;
};

/**
 * struct shingle_step - one piece of cleaning
 * @kind: the engine's own, below SHINGLE_STEP_KINDS
 * @n: blocks to copy, 0 when the step only changes the map
 * @records: at most so many per step_done(); 0: as many as the engine's ops say.  There
 *	is room for them in the journal before the step begins
 * @scattered: it moves what step_extent() says, and @base to @lblk mean nothing.  Not
 *	for steps that are @whole_in_memory or have to do with gathered blocks
 * @base: holds the bulk of the content, or SHINGLE_NOWHERE for zeroes
 * @read_blocks: so many blocks at @base are read, whatever step_source() says: that
 *	is the drive's habit.  What cannot be read is missed only where it is content.
 *	The content of others never comes from the base.  0: what is needed is read.
 * @dst: where the merged content goes, in ascending order
 * @lblk: first logical block, SHINGLE_NOWHERE when the content has none
 * @cookie: the engine's own
 * @whole_in_memory: @dst overlaps what is still to be read (unsafe modes)
 * @gathered: the content of gathered blocks is newer; after step_done() the map
 *	holds them, and they leave the write cache
 * @sync: what the next step builds on
 *
 * Unless it is scattered a step is one extent, from @base to @dst, of which the content
 * of block i is what step_source() says, else @base + i.  Whatever its shape, one commit
 * makes all of it count.
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
	enum shingle_sync sync;
};

/* Blocks that a failed step names at most. */
#define SHINGLE_UNWRITTEN	16U

/**
 * struct shingle_unwritten - which destination of a failed step could not be written
 * @pblk: first block of the write that failed
 * @n: its blocks; 0: no write failed, but a read, or the step was interrupted
 * @nr: blocks in @block
 * @block: blocks of that write which failed when each was written alone
 * @proven: others of the same write succeeded then: these blocks are at fault, and not the
 *	device
 */
struct shingle_unwritten {
	u64 pblk;
	u32 n;
	u32 nr;
	u64 block[SHINGLE_UNWRITTEN];
	bool proven;
};

/* Numbers that an engine may count. */
#define SHINGLE_MAX_COUNTERS	32U

/* Called once for each broken invariant, with a sentence. */
typedef void (*shingle_report_fn)(void *ctx, const char *fmt, ...) __printf(2, 3);

/**
 * struct shingle_map_ops - where blocks are and go
 * @resolve: where are blocks @lblk.. now?  @out describes a non-empty prefix.  Of a
 *	block that was not written since, what a step in progress copies.
 * @place: find room to write blocks @lblk.., which their sender says will live
 *	for @life; @out describes a non-empty prefix.  -ENOSPC: clean first (and
 *	next_step(PRESSURE) will offer how); -EBUSY: wait for the step, a write in
 *	progress or a release.  What was refused comes again, beginning at the same
 *	block, unless it was discarded or the engine replaced.  SHINGLE_GATHER: the
 *	prefix of @out->n blocks is to be gathered, and there is room for all of its
 *	unit of gather_blocks.  SHINGLE_FULL: no cleaning makes room for the first
 *	block, and the write fails; of what the write cache has acknowledged a FLUSH
 *	says that it is lost.
 * @commit: the data of a placed run are on the medium; of runs that overlap and
 *	were under way together either may win, but for good
 * @abort: a placed run was not, or not wholly, written
 * @discard: forget blocks @lblk..; @done says how many were dealt with (at
 *	least 1), @dropped whether they now read as zeroes.  -EBUSY: wait for
 *	the step in progress.  SHINGLE_FULL: as place().
 * @referenced: is any of @n blocks from @offset on of a band of @role in use, by the
 *	current map or by the one that recovery would rebuild?
 *
 * Their life is that of host I/O: any order, from resume to suspend, each for one bio or
 * a piece of it.  What place() gave out ends with commit() or abort(), in whatever order
 * the medium ends it; nothing else is open between two calls.
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
 * struct shingle_clean_ops - what is moved
 * @next_step: 1 and a step; 0 if there is nothing to do for this reason;
 *	-EAGAIN if there will be, once writes in flight are done or space was
 *	released, and whoever asks for the same reason again gets it then: where it waits
 *	for those, but for SHINGLE_WHY_IDLE, no other is let in before that.  A job of
 *	several steps goes on whatever the reason; the call that chooses one, or offers
 *	a step that is of none, counts it (struct shingle_engine::jobs).  What was
 *	asked for (SHINGLE_WHY_FORCED) ends: it is what there is when that is asked
 *	about first, and nothing that comes later
 * @step_extent: the extent at *@cursor, 0 at first, of a step that is scattered: moves
 *	*@cursor behind it and returns true; false if there is no other.  Destinations
 *	ascend, and no write to one of them destroys another, in whatever order a
 *	drive does them: of interlaced tracks, which it may turn round, not a bottom
 *	and the top beside it.  They are asked for more than once, and only @src may
 *	have changed then.
 *	Until the step has ended no write may be under way whose head would cover them.
 *	NULL if no step is scattered.
 * @step_source: the first run at or after @offset of any other step that does not come
 *	from the base: fills @out (lblk relative to the step) and returns true.  NULL if
 *	all steps are scattered.
 * @step_done: the copy is on the medium; change the map
 * @step_failed: it is not; @step may be offered again.  @bad says which destination could not
 *	be written, if that was the reason.  Returns true if the engine had not known of one of
 *	the blocks in @bad, and will write to none of them again: then the failure does not
 *	count as a try.  An engine may return true a bounded number of times only.
 * @tidy: forget a part of what step_done() has made useless, and is not looked at any
 *	more: true if there is more of it.  Called until there is not, before the next
 *	step; I/O may come between.  May be NULL.
 * @release: all that was freed by transactions up to @seq is unreferenced: give a part
 *	of it back, true if there is more
 * @pending: freed space waits for release()
 * @left: of what a clean that was asked for would move, how much cannot be, now that it has
 *	ended; in units of the engine's.  NULL: it always can.
 *
 * Their life is that of a step, of which there is one at a time: next_step() offers it,
 * step_extent() and step_source() say what it copies while I/O goes on, and step_done()
 * or step_failed() ends it.  Then tidy(), a commit if the step asks for it, and
 * release(); and next_step() again, as long as there is a reason.
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
 * struct shingle_state_ops - what a power cut leaves
 * @pieces: the state in pieces, as a table
 * @replay: apply a record to the state being loaded
 * @ready: everything is loaded; build what is derived.  May sleep.
 * @inherit: before ready() of an engine that a reset has created: take from the old engine,
 *	which is in use, what it knows of the medium and not of its content.  Under the map
 *	lock.  May be NULL
 *
 * Their life has two ends.  In use pieces are encoded for checkpoints, in any order with
 * I/O.  Of a new engine, before its first I/O: the pieces of a checkpoint are decoded,
 * replay() for the records behind it, both perhaps not at all, then ready() once.
 */
struct shingle_state_ops {
	const struct shingle_piece_kind *pieces;
	int (*replay)(struct shingle_engine *e, const struct shingle_record *rec);
	int (*ready)(struct shingle_engine *e, const char **why);
	void (*inherit)(struct shingle_engine *e, const struct shingle_engine *old);
};

/**
 * struct shingle_gather_ops - writes that cost less together
 * @epoch_add: blocks @lblk.., within one run of gather_blocks, are to be written
 *	in the epoch that is being put together; runs of one unit of so many come
 *	one after another, ascending; -ENOSPC if it has no room for them.  NULL if
 *	the engine gathers nothing.
 * @epoch_end: next_step(EPOCH) has said 0, or what is left of the epoch is given
 *	up, and comes again in another one
 *
 * Left out, all of them, by an engine whose gather_blocks are 0.  Their life is that of
 * an epoch, of which there is one at a time: epoch_add() for each run while it is put
 * together, steps of SHINGLE_WHY_EPOCH until there is none, epoch_end().
 */
struct shingle_gather_ops {
	int (*epoch_add)(struct shingle_engine *e, u64 lblk, u32 n);
	void (*epoch_end)(struct shingle_engine *e);
};

/**
 * struct shingle_page_ops - a map that may be larger than RAM
 * @nr_pages: how many pages it has
 * @check: could the engine have written this into a page?  0, or -EUCLEAN if no state has
 *	such a page.  Looks at nothing but what is constant.
 * @blocks: logical blocks that nobody can find any more if the page is lost: one run that
 *	holds them all; none if it says where nothing is
 *
 * Left out, all of them, by an engine whose map is in its own memory.  pages.h says what
 * others call: shingle_page() to look, shingle_page_hold() for what will be changed, from
 * place() to commit() or abort(), from next_step() to step_done() or step_failed(), or
 * within one call; shingle_page_dirty() where it is.
 *
 * Pages go into a checkpoint as pieces do, each of a moment of its own, and are left out
 * of @state.pieces.  A record is replayed onto pages that may be newer or older than it, and
 * than each other: so it says all that it changes, and nothing of that may be looked up
 * in what is replayed onto.
 */
struct shingle_page_ops {
	u64 (*nr_pages)(const struct shingle_layout *layout);
	int (*check)(const struct shingle_engine *e, u32 nr, const void *page);
	void (*blocks)(const struct shingle_engine *e, u32 nr, u64 *lblk, u64 *n);
};

/**
 * struct shingle_observe_ops - what a person sees and asks
 * @verify: report every broken invariant in the part of the state at *@cursor, 0 at
 *	first and SHINGLE_NOWHERE after the last one; return how many.  I/O may come
 *	between.  Where a page is absent *@cursor stays, and nothing is reported;
 *	what needs one that shingle_page_lost() is left out.
 * @map_bytes: RAM used for maps
 * @cached_blocks: logical blocks that live away from home
 * @message: a message of several words; 0, or 1 if only a part was done and it is to be
 *	called again with the same *@done, 0 at first; -ENOENT if it is none of the
 *	engine's, -EINVAL with a sentence in @why.  May be NULL.
 * @tell: a message of one word that is answered in lines: the one at *@cursor, 0 at first,
 *	which moves on, ended by a newline; 1, or 0 if there is no other; -ENOENT if the
 *	word is none of the engine's.  May be NULL.
 *
 * At any time once ready() has said yes, beside everything else; only message() changes
 * anything.
 */
struct shingle_observe_ops {
	u32 (*verify)(struct shingle_engine *e, u64 *cursor, shingle_report_fn report,
		      void *ctx);
	u64 (*map_bytes)(struct shingle_engine *e);
	u64 (*cached_blocks)(struct shingle_engine *e);
	int (*message)(struct shingle_engine *e, unsigned int argc, char **argv, u64 *done,
		       struct shingle_emit *emit, const char **why);
	int (*tell)(struct shingle_engine *e, const char *word, u64 *cursor, char *line,
		    size_t size);
};

/**
 * struct shingle_engine_ops - a translation layer
 * @name: as in the superblock and the table line
 * @commit_records: at most so many records per commit()
 * @step_records: at most so many per step_done(), unless the step says how many
 * @step_kinds: names of the values of struct shingle_step::kind, for the time that
 *	each has taken
 * @discard_records: at most so many per discard()
 * @options: what can be set; of a device that is loading its table, or by a message, under
 *	the map lock; ends with a NULL name
 * @params: what is settled when a device is formatted: in the params of its superblock, as
 *	a 32-bit number, little-endian; ends with a NULL name
 * @counters: what it counts, in itself; at most SHINGLE_MAX_COUNTERS, and a NULL name
 * @records: what its records say, for the tool's dump; ends with a NULL name
 *
 * @logical_blocks: size of the device that a layout presents; 0 if the layout is
 *	not sane, and then create says why
 * @create: build an engine for @layout; on failure say @why in a sentence.
 *	May sleep.
 * @destroy: undo create
 *
 * @map: where blocks are and go
 * @clean: what is moved
 * @state: what a power cut leaves
 * @gather: writes that cost less together; most engines have none
 * @pages: a map that may be larger than RAM; most engines have none
 * @observe: what a person sees and asks
 */
struct shingle_engine_ops {
	const char *name;
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
	struct shingle_observe_ops observe;
};

/**
 * shingle_set() - set an option of an engine
 * @e: the engine
 * @name: of the option
 * @value: its value, NULL for a feature
 * @why: on error what is wrong, in a sentence
 *
 * Context: as an engine's operations.  Returns what shingle_option_set() does.
 */
static inline int shingle_set(struct shingle_engine *e, const char *name, const char *value,
			      const char **why)
{
	return shingle_option_set(e->ops->options, e, e->in_use, name, value, why);
}

/**
 * shingle_marks_init() - nothing has changed so far
 * @e: the engine, in create(), which knows its ops
 * @l: layout
 *
 * Context: may sleep.  Returns 0 or -ENOMEM.
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
 * shingle_mark() - pieces of the state have changed
 * @e: the engine
 * @first: the first
 * @n: how many, at least one, all of one set or log at most
 *
 * Context: inside an engine operation.
 */
static inline void shingle_mark(struct shingle_engine *e, u32 first, u32 n)
{
	do {
		e->marks.nr += !__test_and_set_bit(first++, e->marks.bits);
	} while (--n);
}

/* So many marks are looked at in one call. */
#define SHINGLE_MARKS_WALK	(64U * SHINGLE_WALK)

/**
 * shingle_encode_next() - the next piece that is to be written
 * @l: layout
 * @e: the engine
 * @all: take those that have not changed, too, but none that is empty
 * @cursor: 0 at first; SHINGLE_NOWHERE when there is no other
 * @index: its index
 * @buf: as shingle_pieces_encode()
 * @bytes: its bytes
 *
 * Its mark is taken away.
 *
 * Context: as shingle_pieces_encode().  Returns whether there is one here; if not, there may be one
 * further on.
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
 * shingle_encode() - the next piece of the state that holds something
 * @l: layout
 * @e: the engine
 * @cursor: as shingle_pieces_encode()
 * @index: as shingle_pieces_encode()
 * @buf: as shingle_pieces_encode()
 *
 * Context: as shingle_pieces_encode(), but for where time does not matter.  Returns its
 * bytes, 0 at the end.
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
 * Context: as verify(), but for where time does not matter.  Returns how many.
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
 * shingle_step_extent() - the next extent of a step, whatever its shape
 * @e: the engine
 * @step: the step
 * @cursor: as step_extent()
 * @out: as step_extent()
 *
 * Context: as step_extent().  Returns false if there is no other.
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
 * shingle_step_records() - how many records may a step leave?
 * @e: the engine
 * @step: the step
 *
 * Context: any.
 */
static inline u32 shingle_step_records(const struct shingle_engine *e,
				       const struct shingle_step *step)
{
	return step->records ?: e->ops->step_records;
}

/**
 * shingle_most_step_records() - how many may any of its steps leave?
 * @e: the engine
 *
 * Context: any.
 */
static inline u32 shingle_most_step_records(const struct shingle_engine *e)
{
	return max(e->step_records, e->ops->step_records);
}

/**
 * shingle_settle_step() - all that comes after step_done(), in one go
 * @e: the engine
 *
 * Context: as tidy(), but for where time does not matter.
 */
static inline void shingle_settle_step(struct shingle_engine *e)
{
	while (e->ops->clean.tidy && e->ops->clean.tidy(e))
		;
}

/**
 * shingle_release_all() - all that was freed by transactions is unreferenced
 * @e: the engine
 * @seq: up to this one
 *
 * Context: as release(), but for where time does not matter.
 */
static inline void shingle_release_all(struct shingle_engine *e, u64 seq)
{
	while (e->ops->clean.release(e, seq))
		;
}

/**
 * shingle_in_use() - is anything of a stretch of a device in use?
 * @l: layout
 * @e: the engine
 * @pblk: first block; it may lie in a guard or outside all bands
 * @n: blocks
 *
 * Context: as referenced().
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
 * shingle_would_destroy() - does a write's head cover anything that is in use?
 * @l: layout
 * @e: the engine
 * @pblk: first block written
 * @n: blocks written, within one band
 *
 * Rule R0.
 *
 * Context: as referenced().
 */
static inline bool shingle_would_destroy(const struct shingle_layout *l, struct shingle_engine *e,
					 u64 pblk, u32 n)
{
	/* Mostly what is known of columns, where none are. */
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
 * shingle_step_would_destroy() - does a step destroy what it writes itself?
 * @l: layout
 * @e: the engine
 * @step: the step
 * @x: an extent of it, whose head may cover others
 *
 * Of a shingled medium none does: there the head goes upwards, as they do.
 *
 * Context: as step_extent().
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
