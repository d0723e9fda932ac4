/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The engine of autonomous regions: what it knows, and what its files have of each other.
 *
 * What lasts is in which slot each region is, and whether it is being moved to another:
 * in RAM, and in pieces of a checkpoint.  The map of each slot is in core's pages.  What
 * else a region needs to be written to follows from its pages (tiler-region.h), and is in
 * memory for as many regions as there is room for: residents.  A read looks at pages only.
 *
 *	tiler-engine.c		reads, writes, discards
 *	tiler-resident.c	which regions are in memory
 *	tiler-steps.c		cleaning, a region at a time
 *	tiler-format.c		zones of a layout; pieces, records, pages
 *	tiler-options.c		what can be set, and what is counted
 */
#ifndef SHINGLE_TILER_STATE_H
#define SHINGLE_TILER_STATE_H

#include "pages/pages.h"
#include "tiler-engine.h"
#include "tiler-map.h"

#define NO_SLOT		U32_MAX
#define NO_REGION	U32_MAX
#define NO_RESIDENT	U32_MAX

/* Regions in one piece.  Tests take less. */
#ifndef PART_REGIONS
#define PART_REGIONS	(SHINGLE_CHUNK_BYTES / 8U)
#endif

/* Blocks that a step moves, at most. */
#define TILER_STEP_BLOCKS	256U
/* Pages that one call takes into account. */
#define TILER_CALL_PAGES	4U
#define TILER_MAX_SPARES	16U
#define TILER_MIN_RESIDENTS	4U
#define TILER_MAX_RESIDENTS	4096U

/**
 * struct tiler_resident - a region in memory
 * @r: the region
 * @slot: where it is; where it is being moved is struct tiler::to_slot
 * @region: its number, NO_REGION if there is none
 * @pages: of its map, that were taken into account
 * @loaded: all were
 * @broken: they contradict each other, or one is lost: it is not written to any more
 * @hopeless: no slot is left that it could be moved to: what finds no room in it is refused
 * @asked: it was full when a clean was asked for, and was not cleaned since
 * @pending: something of it waits for release()
 * @before: in the list, towards the one that was used last
 * @after: towards the one that was not for longest
 */
struct tiler_resident {
	struct tiler_region r;
	struct tiler_slot slot;
	u32 region;
	u32 pages;
	bool loaded;
	bool broken;
	bool hopeless;
	bool asked;
	bool pending;
	u32 before;
	u32 after;
};

/**
 * struct tiler_spare - a slot without a region
 * @slot: its number, NO_SLOT while a region is being moved there
 * @freed_seq: a region has left it in this transaction, which is to be released; or 0
 */
struct tiler_spare {
	u32 slot;
	u64 freed_seq;
};

enum tiler_step_kind { TILER_STEP_WIPE, TILER_STEP_BEGIN, TILER_STEP_MOVE, TILER_STEP_FLIP };

/**
 * struct tiler - the engine's state
 * @engine: what core sees
 * @layout: of the device, core's
 * @map: where regions and slots are
 * @at: of each region, its slot
 * @to: the slot that it is being moved to, or NO_SLOT
 * @owner: of each slot, the region that is there or is being moved there, or NO_REGION
 * @in_memory: of each region, its resident, or NO_RESIDENT
 * @exact: of each stretch, whether it is known which blocks are under one angle
 * @nr_spares: of each stretch
 * @spare: of all
 * @nr_freed: spare slots that wait for release()
 * @max_residents: option
 * @lazy: option
 * @unsafe_reuse: feature of tests
 * @unsafe_inplace: feature of tests
 * @resident: the pool
 * @nr_residents: of it
 * @newest: of the list of all, the one that was used last
 * @oldest: the one that was not for longest
 * @loading: of each asker, the resident that he was the last to begin to take in, or
 *	NO_RESIDENT: nobody else drives it out meanwhile
 * @nr_pending: residents that something waits of
 * @released: where release() goes on
 * @to_slot: where @cleaning is being moved
 * @cleaning: the one region that is being moved and may be in memory, or NO_REGION
 * @want: a region that a write has found full, or NO_REGION
 * @asked: a clean was asked for, and has not come to its end
 * @drained: resident of which none is placed until all are done, or NULL
 * @turned_away: @cleaning has room for no other write than one that was turned away: it
 *	comes before the first step
 * @stuck: a page that the clean under way needs is lost: it never ends
 * @wiping: a spare slot that is to be used
 * @wiped: so many pages of its map hold nothing
 * @stepping: a step is in progress
 * @step: what it is, TILER_STEP_MOVE only
 * @count: what regions count
 * @loads: regions that were taken into memory
 * @wiped_pages: by steps
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
	u32 nr_spares;
	struct tiler_spare *spare;
	u32 nr_freed;
	u32 max_residents;
	bool lazy;
	bool unsafe_reuse;
	bool unsafe_inplace;
	struct tiler_resident *resident;
	u32 nr_residents;
	u32 newest;
	u32 oldest;
	u32 loading[SHINGLE_NR_ASKERS];
	u32 nr_pending;
	u32 released;
	struct tiler_slot to_slot;
	u32 cleaning;
	u32 want;
	bool asked;
	struct tiler_resident *drained;
	bool turned_away;
	bool stuck;
	u32 wiping;
	u32 wiped;
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

/* tiler-engine.c */
bool tiler_hold(struct tiler *s, struct tiler_region *r, u32 laro);
void tiler_bind(struct tiler *s, struct tiler_region *r, u32 laro);
void tiler_put(struct tiler *s, struct tiler_region *r, u32 laro);

/* tiler-resident.c */
int tiler_residents_create(struct tiler *s);
void tiler_residents_destroy(struct tiler *s);
u64 tiler_residents_bytes(const struct tiler *s);
int tiler_resident(struct tiler *s, u32 region, struct tiler_resident **out);
void tiler_settle(struct tiler *s, struct tiler_resident *res);
bool tiler_page_look(struct tiler *s, struct tiler_slot *slot, const struct tiler_shape *shape,
		     u32 laro);
void tiler_pages_ahead(struct tiler *s, const struct tiler_stretch *st, u32 slot, u32 page);
bool tiler_slot_lost(struct tiler *s, const struct tiler_stretch *st, u32 slot);
bool tiler_region_lost(struct tiler *s, u32 region);

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
