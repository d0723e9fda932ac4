/* SPDX-License-Identifier: GPL-2.0 */
/* State of the log-structured translation layer, and the functions that its files share. */
#ifndef SHINGLE_STL_LOG_STATE_H
#define SHINGLE_STL_LOG_STATE_H

#include "extents/extents.h"
#include "log/engine.h"

/* Kinds of steps, for struct shingle_step::kind. */
enum { STEP_MOVE, STEP_JOIN, STEP_REWRITE };

#define NO_SEGMENT	U32_MAX

/* Kinds of checkpoint pieces, in the order of stl_log_pieces[]. */
enum { STL_LOG_SEGMENTS, STL_LOG_EXTENTS, STL_LOG_PIECES };

/* Segments in one checkpoint piece.  Tests define a smaller value. */
#ifndef PART_SEGMENTS
#define PART_SEGMENTS	504U
#endif

/* Most extents of a step, of which tests define fewer, and blocks after which it takes no other. */
#ifndef MOVE_EXTENTS
#define MOVE_EXTENTS	64U
#endif
#define MOVE_BLOCKS	2048U

/*
 * Most records of a step.  Each extent that is still where the step found it leaves one, and one
 * for its rest if only a part of it moved.  Writes during the step may have split extents; what
 * finds no room for its records is not moved.
 */
#define MOVE_RECORDS	(1 + 2 * (MOVE_EXTENTS + 32))

/* How the segment to clean is chosen. */
enum log_policy { LOG_CLEAN_OFF, LOG_CLEAN_GREEDY, LOG_CLEAN_COST_BENEFIT };

/* The two places where the log grows. */
enum log_frontier { LOG_HOST, LOG_CLEANER, LOG_FRONTIERS };

enum log_use {
	LOG_FREE,	/* nothing in it is in use */
	LOG_OPEN,	/* a frontier is in it */
	LOG_CLOSED,	/* takes no more writes */
	LOG_PENDING,	/* nothing in it is in use by the map; waits for release() */
};

/**
 * struct log_segment - a segment: a band of the log
 * @stamp: age when it was opened * 2, with STL_LOG_CLEANER; 0 if it is free
 * @fill: blocks placed so far
 * @inflight: writes placed in it that are not yet committed or aborted
 * @bad: offset + 1 of the last block of it that could not be written, which is left out; 0: none.
 *	Not persistent
 * @use: enum log_use
 * @recorded: the journal has a record of its stamp
 * @failed: a write to it failed since it was last opened.  Not persistent
 */
struct log_segment {
	u64 stamp;
	u32 fill;
	u32 inflight;
	u32 bad;
	u8 use;
	bool recorded;
	bool failed;
};

/**
 * struct log_ring - segments in the order in which they came
 * @at: the segments
 * @seq: for each, the transaction that freed it; NULL in a ring of free segments
 * @head: index of the first
 * @nr: their number
 */
struct log_ring {
	u32 *at;
	u64 *seq;
	u32 head;
	u32 nr;
};

/**
 * struct log_move - an extent that the step in progress copies
 * @lblk: first logical block
 * @src: its place, SHINGLE_EXTENTS_NONE for blocks that were never written
 * @dst: place of the copy
 * @n: length
 */
struct log_move {
	u32 lblk;
	u32 src;
	u32 dst;
	u32 n;
};

/* Most reads whose data wait to be written again; others are left as they are. */
#define REWRITES	16U

/**
 * struct log_rewrites - reads whose data are to be written again, in order
 * @lblk: first block of each
 * @n: its length
 * @head: index of the first
 * @nr: their number, with the one that a step in progress writes
 */
struct log_rewrites {
	u32 lblk[REWRITES];
	u32 n[REWRITES];
	u32 head;
	u32 nr;
};

/**
 * struct log_clean - state of the cleaner
 * @victim: segment that is being cleaned, or NO_SEGMENT
 * @wanted: a write found no free segment
 * @extents_wanted: a write found no room in the extent map
 * @hand: logical block where the search for extents to join goes on
 * @searched: extents that the search has looked at since it last found some
 * @reopened: the search goes on with an empty segment, into which all extents fit
 * @unjoinable: a search of the whole map found nothing to join, and the map is the same since
 * @stuck: a write found no free segment, cleaning could make none, and the map is the same since
 * @copied: blocks copied to make room in the extent map since the host last changed it
 * @wasted: segments that the cleaner left before they were full, because the map had no room to
 *	split an extent, since the host last changed the map
 * @next_segment: where the search for a victim goes on
 * @search_looked: segments that it has looked at since it last found one or ended
 * @search_busy: a write is in flight into one of them that could have been chosen
 * @forced: a forced clean is in progress
 * @forced_age: the forced clean leaves out segments of this age and later
 * @to: enum log_frontier: where the step in progress writes
 * @to_host: the step writes where the host writes: the host waits for it
 * @reserved: extents that are reserved for the step, beside those that are the cleaner's
 * @fresh: blocks of the step that come into use when it ends
 * @active: a step is in progress
 * @end: fill of the cleaner's segment after the step
 * @nr: number of entries of @move
 * @move: what the step copies
 */
struct log_clean {
	u32 victim;
	bool wanted;
	bool extents_wanted;
	u32 hand;
	u32 searched;
	bool reopened;
	bool unjoinable;
	bool stuck;
	u64 copied;
	u32 wasted;
	u32 next_segment;
	u32 search_looked;
	bool search_busy;
	bool forced;
	u64 forced_age;
	u8 to;
	bool to_host;
	u32 reserved;
	u32 fresh;
	bool active;
	u32 end;
	u32 nr;
	struct log_move move[MOVE_EXTENTS];
};

/**
 * struct log_counts - the counters
 * @placed_blocks: blocks placed for the host
 * @aborted_blocks: placed blocks whose writes failed
 * @moved_blocks: blocks that the cleaner moved
 * @joined_extents: extents that it copied to one place to shorten the map
 * @bands_opened: segments taken into use
 * @bands_cleaned: segments that the cleaner chose
 * @bands_freed: segments that became free
 * @full_logs: times a write found no free segment
 * @full_extents: times a write found no room in the extent map
 * @rewritten_blocks: blocks of fragmented reads that were written again
 * @dropped_rewrites: such reads that were left as they are
 */
struct log_counts {
	u64 placed_blocks;
	u64 aborted_blocks;
	u64 moved_blocks;
	u64 joined_extents;
	u64 bands_opened;
	u64 bands_cleaned;
	u64 bands_freed;
	u64 full_logs;
	u64 full_extents;
	u64 rewritten_blocks;
	u64 dropped_rewrites;
};

/**
 * struct stl_log - the engine's state
 * @engine: the part that core sees
 * @layout: layout of the device, owned by core
 * @band_blocks: blocks per band
 * @home_bands: see struct stl_log_params
 * @nr_segments: bands of the log
 * @capacity: most blocks in use
 * @first_piece: index of the first checkpoint piece of each kind
 * @policy: enum log_policy
 * @threshold: number of free segments that the idle cleaner keeps
 * @replaying: shingle_extents_build() was called for the records to be replayed
 * @no_rest: feature for tests: a write that splits an extent records only itself
 * @x: the extent map
 * @segment: the segments
 * @frontier: segments that take writes, each LOG_OPEN, or NO_SEGMENT
 * @aborts: writes to the host's segment that failed since the last commit to it
 * @inflight_blocks: blocks placed that are not yet committed or aborted
 * @nr_bad: segments with a block that is left out
 * @age: age of the next segment that is opened
 * @seq: last transaction that freed blocks
 * @free: the free segments, in the order in which they became free
 * @pending: segments that wait for release()
 * @clean: state of the cleaner
 * @rewrites: reads whose data are to be written again
 * @reads: what core needs for reads
 * @n: the counters
 *
 * The map lock protects all of it; see engine.h.
 */
struct stl_log {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	u32 band_blocks;
	u32 home_bands;
	u32 nr_segments;
	u32 capacity;
	u32 first_piece[STL_LOG_PIECES];
	u32 policy;
	u32 threshold;
	bool no_rest;
	bool replaying;

	struct shingle_extents x;
	struct log_segment *segment;
	u32 frontier[LOG_FRONTIERS];
	u32 aborts;
	u32 inflight_blocks;
	u32 nr_bad;
	u64 age;
	u64 seq;
	struct log_ring free;
	struct log_ring pending;
	struct log_clean clean;
	struct log_rewrites rewrites;
	struct shingle_readside reads;
	struct log_counts n;
};

static_assert(!offsetof(struct stl_log, engine));

static inline struct stl_log *to_log(struct shingle_engine *e)
{
	return container_of(e, struct stl_log, engine);
}

static inline u64 segment_pblk(const struct stl_log *s, u32 segment)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, (u64)s->home_bands + segment);
}

static inline u64 place_pblk(const struct stl_log *s, u32 place)
{
	return segment_pblk(s, place / s->band_blocks) + place % s->band_blocks;
}

/* The place of a block in the log. */
static inline u32 place_of(const struct stl_log *s, u64 pblk)
{
	enum shingle_role role;
	u64 band, at;

	shingle_band_of(s->layout, pblk, &role, &band, &at);
	return (u32)(band - s->home_bands) * s->band_blocks + at;
}

/*
 * Entries of the extent map that are the cleaner's: it may split an extent at the end of each
 * segment that it fills.
 */
static inline u32 cleaner_extents(u32 nr_segments)
{
	return nr_segments + MOVE_EXTENTS;
}

static inline u64 segment_age(const struct log_segment *g)
{
	return g->stamp / 2;
}

/* log/state.c */
u64 stl_log_logical_blocks(const struct shingle_layout *l);
u32 stl_log_nr_segments(const struct shingle_layout *l);
u32 stl_log_nr_extents(const struct shingle_layout *l);
int stl_log_create(struct shingle_engine **out, const struct shingle_layout *layout,
		   const char **why);
void stl_log_destroy(struct shingle_engine *e);
u32 stl_log_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx);

/* log/recover.c */
extern const struct shingle_piece_kind stl_log_pieces[];
extern const struct shingle_record_kind stl_log_records[];

int stl_log_replay(struct shingle_engine *e, const struct shingle_record *rec);
int stl_log_ready(struct shingle_engine *e, const char **why);

/* log/segments.c */
void stl_log_ring_put(const struct stl_log *s, struct log_ring *r, u32 segment, u64 seq);
u32 stl_log_open(struct stl_log *s, enum log_frontier which);
void stl_log_close(struct stl_log *s, enum log_frontier which);
u32 stl_log_room(struct stl_log *s, enum log_frontier which);
void stl_log_record_open(struct stl_log *s, u32 segment, struct shingle_emit *emit);
void stl_log_check_empty(struct stl_log *s, u32 segment);
void stl_log_emptied(void *ctx, u32 segment);
bool stl_log_release(struct shingle_engine *e, u64 seq);
bool stl_log_pending(struct shingle_engine *e);

/* log/write.c */
void stl_log_map(struct stl_log *s, u32 lblk, u32 n, u32 place, struct shingle_emit *emit);
int stl_log_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		  struct shingle_run *out);
void stl_log_commit(struct shingle_engine *e, const struct shingle_run *run,
		    struct shingle_emit *emit);
void stl_log_abort(struct shingle_engine *e, const struct shingle_run *run);
int stl_log_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
		    struct shingle_emit *emit);

/* log/reads.c */
void stl_log_around(struct shingle_engine *e, u64 pblk, u64 *lo, u64 *hi);
bool stl_log_rewrite(struct shingle_engine *e, u64 lblk, u32 n);
int stl_log_rewrite_step(struct stl_log *s, struct shingle_step *step);

/* log/steps.c */
void stl_log_begin_step(struct stl_log *s, struct shingle_step *step, u32 kind,
			enum log_frontier to);
int stl_log_empty_step(struct stl_log *s, struct shingle_step *step, u32 kind);
void stl_log_add_move(struct stl_log *s, struct shingle_step *step, u32 lblk, u32 src, u32 n);
void stl_log_end_step(struct stl_log *s);
void stl_log_end_rewrite(struct stl_log *s, bool dropped);
bool stl_log_step_extent(struct shingle_engine *e, const struct shingle_step *step, u64 *cursor,
			 struct shingle_extent *out);
void stl_log_step_done(struct shingle_engine *e, const struct shingle_step *step,
		       struct shingle_emit *emit);
bool stl_log_step_failed(struct shingle_engine *e, const struct shingle_step *step,
			 const struct shingle_unwritten *bad);

/* log/clean.c */
int stl_log_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step);

#endif /* SHINGLE_STL_LOG_STATE_H */
