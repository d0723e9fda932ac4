/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One autonomous region of Tiler: its map, its places in use, and its next actions.  Pure
 * code: the caller owns the arrays; nothing here allocates, waits or reads.
 *
 * Ma, "Read-Modify-Write Optimization for Shingled Magnetic Recording Storage Systems"
 * (2019), chapter 3.  A region lies in a slot, a comb on the medium: M rows, one per track,
 * of S adjacent blocks.
 *
 *	L-ARO	number of a block in its region, as the host counts
 *	P-ARO	number of a place in a slot, row * S + block: the order of the log
 *	cell	the same place, row * S + column.  Places of one column lie at one angle, and
 *		a write destroys those of its column in the following k - 1 rows
 *	DMT	the map, L-ARO to P-ARO: 16 bits per entry, in pages.  An entry is the P-ARO
 *		plus 1, so an empty page is all zeroes
 *
 * A place is schedulable if neither it nor a place that a write to it destroys is in use.  T1 to T8
 * are rules of Documentation/papers/ma.rst.
 *
 * tiler-write.c has Algorithm 3, tiler-clean.c Algorithm 2, tiler-map.c the static map.  The
 * life of a write is that of engine.h: tiler_place(), then tiler_commit() or tiler_abort().
 * That of a clean: tiler_clean_begin(), steps, tiler_clean_flip().
 */
#ifndef SHINGLE_TILER_REGION_H
#define SHINGLE_TILER_REGION_H

#include "engine/engine.h"

/* Value of tiler_entry() for a block that was never written, or was discarded. */
#define TILER_NONE		U16_MAX
/* Most places in a slot. */
#define TILER_MAX_BLOCKS	U16_MAX
/* Entries in a page of the map.  Tests define a smaller value. */
#ifndef TILER_PAGE_ENTRIES
#define TILER_PAGE_ENTRIES	(SHINGLE_CHUNK_BYTES / (u32)sizeof(__le16))
#endif
#define TILER_MAX_PAGES		DIV_ROUND_UP(TILER_MAX_BLOCKS, TILER_PAGE_ENTRIES)

/**
 * struct tiler_shape - properties that regions of one kind share
 * @rows: tracks, M
 * @columns: blocks per track, S
 * @head_tracks: width of the write head, k; 1 on a conventional medium
 * @turn: if a row is a whole track: columns by which each row begins later than the one
 *	before, so that each row begins at the track's first block and sequential writes
 *	stream; otherwise 0
 * @skew: if a row is part of a track: blocks by which each track begins later than the one
 *	before it; a row may then cross the start of its track; 0 if none does
 * @track_blocks: with @skew: blocks on each track
 * @logical_blocks: number of L-AROs: @rows * @columns less the over-provisioning
 * @lazy: regions have three states; false: two, and a full region is cleaned (Figure 3.5a)
 * @unsafe_reuse: feature for tests: reuse places before the new map is durable
 * @unsafe_inplace: feature for tests: clean a region into its own slot
 */
struct tiler_shape {
	u32 rows;
	u32 columns;
	u32 head_tracks;
	u32 turn;
	u32 skew;
	u32 track_blocks;
	u32 logical_blocks;
	bool lazy;
	bool unsafe_reuse;
	bool unsafe_inplace;
};

/* Places given up by transactions up to @seq and not yet released. */
struct tiler_pins {
	unsigned long *cells;
	u64 seq;
	u32 nr;
};

/**
 * struct tiler_slot - a slot, and its content
 * @number: number of the slot, set by the caller
 * @column: first block of the track in the slot's first row
 * @page: pages of the map, owned by the caller
 * @changed: one bit per changed page; the caller clears the bits
 * @taken: bitmap of cells that must not be destroyed: current, pinned, or being written; and
 *	of those that could not be written
 * @pins: the cells in @taken that were given up, but that recovery or a reader may still
 *	look up.  There are two generations: the first waits for its transaction while the
 *	second grows
 * @fill: first P-ARO that the log has not reached; the number of places if it has reached
 *	all
 * @live: entries that are not TILER_NONE
 * @spent: cells in @taken that could not be written, and that no write uses before the slot
 *	is emptied
 *
 * Everything but pages, numbers and @spent can be derived from the pages when nothing is pinned or
 * in flight.
 */
struct tiler_slot {
	u32 number;
	u32 column;
	__le16 *page[TILER_MAX_PAGES];
	u64 changed;
	unsigned long *taken;
	struct tiler_pins pins[2];
	u32 fill;
	u32 live;
	u32 spent;
};

/**
 * struct tiler_count - counters, summed over regions
 * @log_blocks: blocks written in order
 * @lazy_blocks: blocks written to schedulable places
 * @merged_blocks: blocks written to regions that were being cleaned
 * @moved_blocks: blocks copied by cleaning
 * @cleans: regions cleaned
 * @commit_waits: times that no place was schedulable, but one might be after a commit
 */
struct tiler_count {
	u64 log_blocks;
	u64 lazy_blocks;
	u64 merged_blocks;
	u64 moved_blocks;
	u64 cleans;
	u64 commit_waits;
};

/**
 * struct tiler_region - a region
 * @shape: its kind
 * @count: counters, shared between regions
 * @at: the slot where the region is
 * @to: the slot that a clean moves the region to, or NULL; entries in its map are newer
 * @cursor: cell at which the search for a schedulable one continues
 * @dry: a search of all cells has found no schedulable one, and no cell was freed since
 * @inflight: blocks placed and neither committed nor aborted
 * @drain: place no blocks until @inflight is 0 and the cleaner has looked
 * @stepping: a step of its clean is in progress
 * @clean_laro: the clean has moved all L-AROs below this one
 * @left: L-AROs that are in @at and not in @to
 * @failed: the last step of its clean failed to write
 */
struct tiler_region {
	const struct tiler_shape *shape;
	struct tiler_count *count;
	struct tiler_slot *at;
	struct tiler_slot *to;
	u32 cursor;
	bool dry;
	u32 inflight;
	bool drain;
	bool stepping;
	u32 clean_laro;
	u32 left;
	bool failed;
};

enum tiler_state {
	TILER_LOG,	/* in order, from the first row on */
	TILER_LAZY,	/* where the head destroys nothing */
	TILER_CLEAN,	/* in order, to the slot that the region is moved to */
};

/**
 * struct tiler_run - consecutive places in a row
 * @slot: their slot; NULL: the blocks were never written
 * @paro: first place
 * @n: number of places
 */
struct tiler_run {
	struct tiler_slot *slot;
	u32 paro;
	u32 n;
};

/**
 * struct tiler_found - consecutive places, looked up in one page of the map
 * @in_to: they are in the slot that the region is moved to
 * @paro: first place; TILER_NONE: the blocks were never written
 * @n: number of places
 */
struct tiler_found {
	bool in_to;
	u32 paro;
	u32 n;
};

/**
 * struct tiler_step - a step of a clean
 * @from: first L-ARO that it may move
 * @until: one past the last L-ARO
 * @dst: P-ARO of the first block, in the slot that the region is moved to
 * @n: blocks
 * @runs: runs of consecutive L-AROs; equals the number of journal records
 * @whole_in_memory: all blocks must be read before any is written (unsafe)
 */
struct tiler_step {
	u32 from;
	u32 until;
	u32 dst;
	u32 n;
	u32 runs;
	bool whole_in_memory;
};

/**
 * struct tiler_extent - a part of a step: consecutive L-AROs
 * @laro: first L-ARO
 * @src: its P-ARO in the region's current slot
 * @dst: its P-ARO in the destination slot
 * @n: number of L-AROs; from tiler_clean_extent() the blocks lie in one row of each slot
 */
struct tiler_extent {
	u32 laro;
	u32 src;
	u32 dst;
	u32 n;
};

static inline u32 tiler_blocks(const struct tiler_shape *shape)
{
	return shape->rows * shape->columns;
}

static inline u32 tiler_pages(const struct tiler_shape *shape)
{
	return DIV_ROUND_UP(shape->logical_blocks, TILER_PAGE_ENTRIES);
}

/**
 * tiler_bound() - fewest blocks at which a region can be full
 * @shape: kind of region
 *
 * A region is cleaned only if at least this number of blocks is current, in flight or
 * waiting for a commit.  Where nothing is schedulable, each column has such a block in its
 * last row, and has no k rows without one.
 *
 * Context: any.
 * Return: the number of blocks.
 */
static inline u32 tiler_bound(const struct tiler_shape *shape)
{
	return shape->columns * DIV_ROUND_UP(shape->rows, shape->head_tracks);
}

static inline u32 tiler_cell(const struct tiler_shape *shape, u32 paro)
{
	u32 row = paro / shape->columns;

	if (!shape->turn)
		return paro;
	return row * shape->columns + (paro + row * shape->turn) % shape->columns;
}

static inline u32 tiler_paro(const struct tiler_shape *shape, u32 cell)
{
	u32 row = cell / shape->columns, turned = row * shape->turn % shape->columns;

	if (!shape->turn)
		return cell;
	return row * shape->columns + (cell + shape->columns - turned) % shape->columns;
}

/* Number of places from @paro to the end of its row. */
static inline u32 tiler_row_rest(const struct tiler_shape *shape, u32 paro)
{
	return shape->columns - paro % shape->columns;
}

/* The same, limited to places that are contiguous on the track. */
static inline u32 tiler_run_rest(const struct tiler_shape *shape, const struct tiler_slot *slot,
				 u32 paro)
{
	u32 rest = tiler_row_rest(shape, paro), row = paro / shape->columns, index;

	if (!shape->skew)
		return rest;
	index = slot->column + paro % shape->columns + shape->track_blocks -
		row * shape->skew % shape->track_blocks;
	return min(rest, shape->track_blocks - index % shape->track_blocks);
}

/* Number of entries from @laro to the end of its page. */
static inline u32 tiler_page_rest(u32 laro)
{
	return TILER_PAGE_ENTRIES - laro % TILER_PAGE_ENTRIES;
}

static inline u32 tiler_page_entry(const __le16 *page, u32 i)
{
	return (u16)(le16_to_cpu(page[i]) - 1);
}

static inline u32 tiler_entry(const struct tiler_slot *slot, u32 laro)
{
	return tiler_page_entry(slot->page[laro / TILER_PAGE_ENTRIES], laro % TILER_PAGE_ENTRIES);
}

static inline void tiler_set_entry(struct tiler_slot *slot, u32 laro, u32 paro)
{
	u32 page = laro / TILER_PAGE_ENTRIES;

	slot->page[page][laro % TILER_PAGE_ENTRIES] = cpu_to_le16((paro + 1) & U16_MAX);
	slot->changed |= 1ULL << page;
}

/* Is the region being cleaned into its own slot? */
static inline bool tiler_in_place(const struct tiler_region *r)
{
	return r->to == r->at;
}

/* In a region that is being cleaned: has this L-ARO still to be moved? */
static inline bool tiler_is_left(const struct tiler_region *r, u32 laro)
{
	return tiler_entry(r->at, laro) != TILER_NONE &&
	       (tiler_in_place(r) || tiler_entry(r->to, laro) == TILER_NONE);
}

/* Places that the clean does not need for its remaining blocks, if no write is in flight. */
static inline s32 tiler_slack(const struct tiler_region *r)
{
	return (s32)(tiler_blocks(r->shape) - r->to->fill) - (s32)r->left;
}

/* The slot with the region's newest blocks. */
static inline struct tiler_slot *tiler_newest(const struct tiler_region *r)
{
	return r->to ?: r->at;
}

static inline enum tiler_state tiler_state(const struct tiler_region *r)
{
	if (r->to)
		return TILER_CLEAN;
	return r->at->fill < tiler_blocks(r->shape) ? TILER_LOG : TILER_LAZY;
}

static inline bool tiler_pinned(const struct tiler_slot *slot)
{
	return slot->pins[0].nr || slot->pins[1].nr;
}

/* Does a place of the region wait for tiler_release()? */
static inline bool tiler_pending(const struct tiler_region *r)
{
	return tiler_pinned(r->at) || (r->to && tiler_pinned(r->to));
}

/* The state of the region can be derived from its pages, so it may leave memory. */
static inline bool tiler_is_idle(const struct tiler_region *r)
{
	return !r->inflight && !r->stepping && !tiler_pending(r);
}

/* The cursor after the first @n blocks of an extent of a step. */
static inline u64 tiler_clean_behind(const struct tiler_step *step, const struct tiler_extent *x,
				     u32 n)
{
	return (u64)(x->dst - step->dst + n) << 32 | (x->laro + n);
}

/* tiler-region.c */
int tiler_shape_check(const struct tiler_shape *shape, const char **why);
void tiler_slot_init(const struct tiler_shape *shape, struct tiler_slot *slot);
int tiler_slot_add_page(const struct tiler_shape *shape, struct tiler_slot *slot, u32 page);
int tiler_region_add_page(struct tiler_region *r, u32 page);
int tiler_region_ready(struct tiler_region *r, const char **why);
void tiler_find(const struct tiler_shape *shape, const __le16 *at, const __le16 *to, u32 i,
		u32 n, struct tiler_found *out);
void tiler_lookup(const struct tiler_region *r, u32 laro, u32 n, struct tiler_run *out);
void tiler_set_cells(const struct tiler_shape *shape, unsigned long *bits, u32 paro, u32 n);
void tiler_take(struct tiler_region *r, struct tiler_slot *slot, u32 paro, u32 n,
		struct tiler_run *out);
void tiler_commit(struct tiler_region *r, u32 laro, const struct tiler_run *run, u64 seq);
void tiler_abort(struct tiler_region *r, const struct tiler_run *run);
int tiler_drop(struct tiler_region *r, u32 laro, u32 n, u64 seq);
bool tiler_release(struct tiler_region *r, u64 seq);
bool tiler_referenced(const struct tiler_region *r, const struct tiler_slot *slot, u32 paro,
		      u32 n);
u32 tiler_verify(const struct tiler_region *r, shingle_report_fn report, void *ctx);

/* tiler-write.c */
int tiler_place(struct tiler_region *r, u32 laro, u32 n, struct tiler_run *out);
bool tiler_is_full(struct tiler_region *r);
bool tiler_is_schedulable(const struct tiler_region *r, u32 paro);

/* tiler-clean.c */
int tiler_clean_begin(struct tiler_region *r, struct tiler_slot *to);
int tiler_clean_place(struct tiler_region *r, u32 laro, u32 n, struct tiler_run *out);
bool tiler_clean_look(struct tiler_region *r);
int tiler_clean_next(struct tiler_region *r, u32 most, struct tiler_step *step);
bool tiler_clean_extent(const struct tiler_region *r, const struct tiler_step *step, u64 cursor,
			struct tiler_extent *out);
bool tiler_clean_moved(const struct tiler_region *r, const struct tiler_step *step, u64 cursor,
		       struct tiler_extent *out);
void tiler_clean_done(struct tiler_region *r, const struct tiler_step *step);
void tiler_clean_failed(struct tiler_region *r, const struct tiler_step *step, bool wrote);
struct tiler_slot *tiler_clean_flip(struct tiler_region *r);

#endif /* SHINGLE_TILER_REGION_H */
