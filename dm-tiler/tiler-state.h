/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of the engine of autonomous regions, and the functions that its files share.
 *
 * The slot of each region, and the slot that it is being moved to, are in RAM and in pieces of
 * a checkpoint.  The map of each slot is in core's pages.  The other state that a write to a
 * region needs is derived from its pages (tiler-region.h) and kept in memory for a limited
 * number of regions, the residents.  A read needs only pages.
 *
 *	tiler-engine.c		reads, writes, discards
 *	tiler-resident.c	the regions in memory, and the pages of them that are held
 *	tiler-steps.c		cleaning, one region at a time
 *	tiler-format.c		zones of a layout; pieces, records, pages
 *	tiler-options.c		options and counters
 */
#ifndef SHINGLE_TILER_STATE_H
#define SHINGLE_TILER_STATE_H

#include "pages/pages.h"
#include "tiler-engine.h"
#include "tiler-map.h"

#define NO_SLOT		U32_MAX
#define NO_REGION	U32_MAX
#define NO_RESIDENT	U32_MAX

/* Regions in one checkpoint piece.  Tests define a smaller value. */
#ifndef PART_REGIONS
#define PART_REGIONS	(SHINGLE_CHUNK_BYTES / 8U)
#endif

/* Most blocks that a step moves. */
#define TILER_STEP_BLOCKS	256U
/* Most pages that one call reads into a resident. */
#define TILER_CALL_PAGES	4U
#define TILER_MAX_SPARES	16U
#define TILER_MIN_RESIDENTS	4U
#define TILER_MAX_RESIDENTS	4096U

/**
 * struct tiler_resident - a region in memory
 * @r: the region
 * @slot: the slot where it is; struct tiler::to_slot is the destination of a clean
 * @region: its number, NO_REGION if the entry is unused
 * @pages: pages of its map that were loaded
 * @loaded: all pages were loaded
 * @broken: pages contradict each other or are lost; the region takes no more writes
 * @immovable: there is no slot left to move it to, so writes that find no room are refused
 * @asked: it was full when a forced clean began, and has not been cleaned since
 * @pending: some of its places wait for release()
 * @before: neighbour in the LRU list, towards the most recently used
 * @after: neighbour in the LRU list, towards the least recently used
 */
struct tiler_resident {
	struct tiler_region r;
	struct tiler_slot slot;
	u32 region;
	u32 pages;
	bool loaded;
	bool broken;
	bool immovable;
	bool asked;
	bool pending;
	u32 before;
	u32 after;
};

/**
 * struct tiler_spare - a slot without a region
 * @slot: its number, NO_SLOT while a region is being moved there
 * @freed_seq: transaction in which a region left it, until that is released; else 0
 */
struct tiler_spare {
	u32 slot;
	u64 freed_seq;
};

enum tiler_step_kind { TILER_STEP_WIPE, TILER_STEP_BEGIN, TILER_STEP_MOVE, TILER_STEP_FLIP };

/**
 * struct tiler - the engine's state
 * @engine: the part that core sees
 * @layout: layout of the device, owned by core
 * @map: places of regions and slots
 * @at: slot of each region
 * @to: slot that each region is being moved to, or NO_SLOT
 * @owner: for each slot the region that is there or is being moved there, or NO_REGION
 * @in_memory: resident of each region, or NO_RESIDENT
 * @exact: for each stretch, whether the angles of its blocks are known
 * @spares: spare slots
 * @spares.nr: spare slots in each stretch
 * @spares.list: spare slots of all stretches
 * @spares.nr_freed: spare slots that wait for release()
 * @pool: regions with maps in memory
 * @pool.list: the pool
 * @pool.nr: entries in the pool
 * @pool.max: option: maximum of @pool.nr
 * @pool.newest: head of the LRU list, the most recently used
 * @pool.oldest: tail of the LRU list, the least recently used
 * @pool.loading: for each client, the resident that it began to load last, or NO_RESIDENT; other
 *	clients do not evict it meanwhile
 * @pool.nr_pending: residents with places that wait for release()
 * @pool.released: where release() continues
 * @opt: options and features for tests, constant
 * @opt.lazy: option, see struct tiler_shape
 * @opt.unsafe_reuse: feature for tests, see struct tiler_shape
 * @opt.unsafe_inplace: feature for tests, see struct tiler_shape
 * @to_slot: destination slot of @cleaning
 * @cleaning: the region that is being moved and may be in memory, or NO_REGION
 * @want: a region that a write has found full, or NO_REGION
 * @asked: a forced clean is in progress
 * @drained: resident that takes no writes until those in flight have ended, or NULL
 * @turned_away: a write found @cleaning full and has not come again.  It must be placed before the
 *	first step, since the destination may have room for this one write only
 * @stuck: a page that the current clean needs is lost, so the clean cannot end
 * @wipe: the spare slot that a step empties
 * @wipe.slot: a spare slot that is being prepared
 * @wipe.pages: pages of its map that are empty already
 * @stepping: a step is in progress
 * @step: the step, if it is a TILER_STEP_MOVE
 * @count: counters of regions
 * @loads: regions loaded into memory
 * @wiped_pages: pages wiped by steps
 *
 * The map lock protects all of it; see engine.h.
 */
struct tiler {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	struct tiler_map map;
	u32 *at;
	u32 *to;
	u32 *owner;
	u32 *in_memory;
	bool *exact;

	/* Spare slots */
	struct {
		u32 nr;
		struct tiler_spare *list;
		u32 nr_freed;
	} spares;

	/* Regions with maps in memory */
	struct {
		struct tiler_resident *list;
		u32 nr;
		u32 max;
		u32 newest;
		u32 oldest;
		u32 loading[SHINGLE_NR_CLIENTS];
		u32 nr_pending;
		u32 released;
	} pool;

	/* Options and features for tests, constant */
	struct {
		bool lazy;
		bool unsafe_reuse;
		bool unsafe_inplace;
	} opt;

	struct tiler_slot to_slot;
	u32 cleaning;
	u32 want;
	bool asked;
	struct tiler_resident *drained;
	bool turned_away;
	bool stuck;

	/* The spare slot that a step empties */
	struct {
		u32 slot;
		u32 pages;
	} wipe;

	bool stepping;
	struct tiler_step step;
	struct tiler_count count;
	u64 loads;
	u64 wiped_pages;
};

static inline struct tiler *to_tiler(const struct shingle_engine *e)
{
	return container_of(e, struct tiler, engine);
}

/* First logical block of a region. */
static inline u64 tiler_region_lblk(const struct tiler_stretch *st, u32 region)
{
	return st->first_lblk + (u64)(region - st->first_region) * st->shape.logical_blocks;
}

static inline u64 tiler_pblk(const struct tiler_stretch *st, u32 slot, u32 paro, u32 *n)
{
	return shingle_pblk(SHINGLE_DEV_DATA, tiler_map_block(st, slot, paro, n));
}

static inline void tiler_mark(struct tiler *s, u32 region)
{
	shingle_mark(&s->engine, region / PART_REGIONS, 1);
}

/* tiler-resident.c */
int tiler_residents_create(struct tiler *s);
void tiler_residents_destroy(struct tiler *s);
u64 tiler_residents_bytes(const struct tiler *s);
int tiler_resident(struct tiler *s, u32 region, struct tiler_resident **out);
void tiler_update_pending(struct tiler *s, struct tiler_resident *res);
bool tiler_page_look(struct tiler *s, struct tiler_slot *slot, const struct tiler_shape *shape,
		     u32 laro);
void tiler_pages_ahead(struct tiler *s, const struct tiler_stretch *st, u32 slot, u32 page);
bool tiler_slot_lost(struct tiler *s, const struct tiler_stretch *st, u32 slot);
bool tiler_region_lost(struct tiler *s, u32 region);
bool tiler_hold(struct tiler *s, struct tiler_region *r, u32 laro);
void tiler_bind(struct tiler *s, struct tiler_region *r, u32 laro);
void tiler_put(struct tiler *s, struct tiler_region *r, u32 laro);

/* tiler-steps.c */
int tiler_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step);
u32 tiler_left(struct shingle_engine *e);
bool tiler_step_extent(struct shingle_engine *e, const struct shingle_step *step, u64 *cursor,
		       struct shingle_extent *out);
bool tiler_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
		       struct shingle_run *out);
void tiler_step_done(struct shingle_engine *e, const struct shingle_step *step,
		     struct shingle_emit *emit);
bool tiler_step_failed(struct shingle_engine *e, const struct shingle_step *step,
		       const struct shingle_unwritten *bad);

/* tiler-format.c */
int tiler_map_layout(const struct shingle_layout *l, struct tiler_map *m, bool *exact,
		     const char **why);
u64 tiler_nr_pages(const struct shingle_layout *l);
u64 tiler_logical_blocks(const struct shingle_layout *l);
int tiler_replay(struct shingle_engine *e, const struct shingle_record *rec);
int tiler_ready(struct shingle_engine *e, const char **why);
int tiler_page_check(const struct shingle_engine *e, u32 nr, const void *page);
void tiler_page_blocks(const struct shingle_engine *e, u32 nr, u64 *lblk, u64 *n);
extern const struct shingle_piece_kind tiler_pieces[];
extern const struct shingle_record_kind tiler_records[];

/* tiler-options.c */
extern const struct shingle_option tiler_options[];
extern const struct shingle_option tiler_format_options[];
extern const struct shingle_counter tiler_counters[];

#endif /* SHINGLE_TILER_STATE_H */
