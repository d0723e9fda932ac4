/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A map that is larger than RAM: pages, some of which are in frames.  Pure.
 *
 * A page is SHINGLE_PAGE_BYTES of an engine's map.  A page that was never written is all zeroes and
 * has no place; each other page has one of two places on the metadata device.  The next checkpoint
 * writes a changed page to the place that is not valid, and its footer makes that place valid.
 * Until then recovery reads the old place, which is untouched.
 *
 *   absent -> being read -> clean <-> held -> dirty -> being written -> clean -> absent
 *
 * An engine holds a page between the decision to change it and the change.
 *
 * A page that is dirty or being written leaves RAM only by a checkpoint.  So at most about half of
 * the frames may hold such pages, unless there are as many frames as pages.  An operation that
 * needs an absent page, or wants to change one page more than the limit, gives up without any
 * change and returns SHINGLE_ABSENT; core reads the page or takes a checkpoint, and calls again.
 *
 * The map lock protects all of it, as it protects the engine.
 */
#ifndef SHINGLE_PAGES_H
#define SHINGLE_PAGES_H

#include "engine/engine.h"

#define SHINGLE_PAGE_BYTES	SHINGLE_CHUNK_BYTES

/* Instead of the number of a frame or of a page: there is none. */
#define SHINGLE_NO_PAGE		U32_MAX

/* The place of a page: two bits in a piece of the checkpoint. */
enum shingle_page_place {
	SHINGLE_PAGE_NONE,	/* none: it is all zeroes */
	SHINGLE_PAGE_A,
	SHINGLE_PAGE_B,
	SHINGLE_PAGE_LOST,	/* a repair has given it up */
};

/* Number of pages with their places in one piece of a checkpoint. */
#define SHINGLE_PLACES_PER_PIECE	(SHINGLE_CHUNK_BYTES * 4U)

/*
 * The client on behalf of which core calls the engine.  For all but the first, the pages that an
 * unsuccessful call has looked at are kept until the same client has called with success.  So no
 * client loses the first of two pages while it waits for the second.
 */
enum shingle_page_client {
	SHINGLE_CLIENT_FAST,	/* any other request: no pages are kept for it */
	SHINGLE_CLIENT_IO,	/* the bio or cache that has waited longest */
	SHINGLE_CLIENT_CLEAN,	/* next_step() */
	SHINGLE_CLIENT_VERIFY,	/* verify() */
	SHINGLE_CLIENT_LOAD,	/* replay(): no limit of changed pages */
	SHINGLE_NR_CLIENTS
};

enum shingle_frame_state {
	SHINGLE_FRAME_FREE,
	SHINGLE_FRAME_WANTED,	/* to be read */
	SHINGLE_FRAME_READING,
	SHINGLE_FRAME_HERE,
	SHINGLE_FRAME_FAILED,	/* it could not be read */
};

/* Lists of frames, linked by their @after. */
enum shingle_frame_list {
	/* read for the first time, or long after they had left: first in, first out */
	SHINGLE_FRAMES_IN,
	SHINGLE_FRAMES_MAIN,	/* read again soon after they had left: second chance */
	SHINGLE_FRAMES_WANTED,	/* to be read */
	SHINGLE_FRAMES_FREE,
	SHINGLE_NR_FRAME_LISTS
};

/**
 * struct shingle_frame - room for a page
 * @block: a block with the page as its payload
 * @nr: number of the page, if the frame is not free
 * @chain: next frame in the bucket of the index
 * @before: in a list
 * @after: in a list
 * @hold_count: number of shingle_page_hold() calls without a shingle_page_put()
 * @pins: number of clients for which it is kept, see enum shingle_page_client
 * @keepers: bitmap of these clients
 * @state: enum shingle_frame_state
 * @home: the list that contains it whenever its page may be evicted, IN or MAIN
 * @listed: it is in a list
 * @used: an operation has looked at it since evict_from() last passed over it; for frames in MAIN
 * @dirty: the page has changed since it was last copied for a checkpoint
 * @writing: it was copied for a checkpoint that has no footer yet
 * @stepped: a step holds it; stays set until the last hold ends
 * @asked: a call lacked the page; if not, it is read ahead (shingle_pages_ahead())
 * @err: why it could not be read
 */
struct shingle_frame {
	struct shingle_chunk *block;
	u32 nr;
	u32 chain;
	u32 before;
	u32 after;
	u32 hold_count;
	u8 pins;
	u8 keepers;
	u8 state;
	u8 home;
	bool listed;
	bool used;
	bool dirty;
	bool writing;
	bool stepped;
	bool asked;
	int err;
};

/**
 * struct shingle_places - places of the pages on the medium
 * @now: places according to the last footer
 * @next: places once the checkpoint in progress has its footer
 * @marks: a bit for each piece of @next that has changed since it was last encoded
 * @nr_pieces: number of pieces
 * @nr_marked: number of marked pieces
 */
struct shingle_places {
	u8 *now;
	u8 *next;
	unsigned long *marks;
	u32 nr_pieces;
	u32 nr_marked;
};

/**
 * struct shingle_frames - the frames, and the index of the pages in them
 * @frame: frames
 * @nr: number of frames
 * @budget: wanted number of frames; recovery may need more
 * @bucket: first frame of each bucket of the index
 * @nr_buckets: a power of two
 */
struct shingle_frames {
	struct shingle_frame *frame;
	u32 nr;
	u32 budget;
	u32 *bucket;
	u32 nr_buckets;
};

/**
 * struct shingle_frame_lists - lists of frames
 * @head: first frame of each list
 * @tail: last frame of each list
 * @length: length of each list
 */
struct shingle_frame_lists {
	u32 head[SHINGLE_NR_FRAME_LISTS];
	u32 tail[SHINGLE_NR_FRAME_LISTS];
	u32 length[SHINGLE_NR_FRAME_LISTS];
};

/**
 * struct shingle_ghosts - pages that have left the list SHINGLE_FRAMES_IN recently
 * @bits: a bit for each page
 * @page: their numbers, the oldest at @at
 * @nr: entries in @page
 * @at: index for the next one
 *
 * A page that is wanted again meanwhile enters SHINGLE_FRAMES_MAIN, as in "2Q" (Johnson and Shasha,
 * 1994).
 */
struct shingle_ghosts {
	unsigned long *bits;
	u32 *page;
	u32 nr;
	u32 at;
};

/**
 * struct shingle_page_changes - pages that a checkpoint will have to write
 * @most: maximum of pages held, dirty or being written for the host
 * @unevictable: number of pages held, dirty or being written, for any client
 * @stepped: number of frames with their @stepped set, which do not count against the host's @most
 * @nr_dirty: pages that are dirty or being written
 * @press: called when half of @most is in use, to request a checkpoint; may be NULL
 * @ctx: argument of @press
 */
struct shingle_page_changes {
	u32 most;
	u32 unevictable;
	u32 stepped;
	u32 nr_dirty;
	void (*press)(void *ctx);
	void *ctx;
};

/**
 * struct shingle_page_call - the current call of the engine
 * @client: its origin
 * @missed: the page that it lacked, SHINGLE_NO_PAGE if none
 * @over_limit: it wanted to change one page more than allowed
 * @ahead: first page that it will look at next
 * @nr_ahead: number of these pages
 */
struct shingle_page_call {
	enum shingle_page_client client;
	u32 missed;
	bool over_limit;
	u32 ahead;
	u32 nr_ahead;
};

/**
 * struct shingle_page_kept - frames that are kept for each client
 * @frame: the frames
 * @nr: their number
 * @max: maximum of their number
 */
struct shingle_page_kept {
	u32 *frame[SHINGLE_NR_CLIENTS];
	u32 nr[SHINGLE_NR_CLIENTS];
	u32 max[SHINGLE_NR_CLIENTS];
};

/**
 * struct shingle_page_counts - counters of a paged map
 * @hits: accesses to pages that were in RAM
 * @misses: how many times a client had to wait for a page
 * @reads: pages read
 * @writes: pages written by checkpoints
 * @dirty_limit_waits: how many times a client had to wait for a checkpoint
 */
struct shingle_page_counts {
	u64 hits;
	u64 misses;
	u64 reads;
	u64 writes;
	u64 dirty_limit_waits;
};

/**
 * struct shingle_pages - the pages of an engine's map
 * @e: the engine
 * @nr_pages: number of pages
 * @places: their places on the medium
 * @frames: the frames, and their index
 * @lists: lists of frames
 * @ghosts: pages that have left IN recently
 * @changes: pages that a checkpoint will have to write
 * @call: the current call of the engine
 * @unread: how many times SHINGLE_CLIENT_VERIFY left out a page that cannot be read at present
 * @coming: frames with a page that is to be read, or being read
 * @kept: frames that are kept for each client
 * @zeroes: content of a page that has no place
 * @given_up: a bit for each page that was given up since loading; NULL if none was
 * @counts: counters
 *
 * All of it is under the lock of the engine, core's map_lock.
 */
struct shingle_pages {
	struct shingle_engine *e;
	u32 nr_pages;
	struct shingle_places places;
	struct shingle_frames frames;
	struct shingle_frame_lists lists;
	struct shingle_ghosts ghosts;
	struct shingle_page_changes changes;
	struct shingle_page_call call;
	u32 unread;
	u32 coming;
	struct shingle_page_kept kept;
	u8 *zeroes;
	unsigned long *given_up;
	struct shingle_page_counts counts;
};

/* ------------------------------------------------------------------------
 * For engines
 */

/* Eight pages, the minimum of an engine that needs two for a call and two for a step; 1 GiB. */
#define SHINGLE_MAP_CACHE_MIN_KB	32
#define SHINGLE_MAP_CACHE_MAX_KB	1048576
/* 64 MiB. */
#define SHINGLE_MAP_CACHE_KB		65536

/* A row of the options of each engine with a paged map. */
#define SHINGLE_OPTION_MAP_CACHE							\
	{ .name = "map_cache_kb", .kind = SHINGLE_OPTION_NUMBER,			\
	  .when = SHINGLE_OPTION_TABLE,							\
	  SHINGLE_OPTION_AT(struct shingle_engine, map_cache_kb),			\
	  .min = SHINGLE_MAP_CACHE_MIN_KB, .max = SHINGLE_MAP_CACHE_MAX_KB,		\
	  .initial = SHINGLE_MAP_CACHE_KB,						\
	  .range = "map_cache_kb must be from 32 to 1048576 KiB",			\
	  .busy = "map_cache_kb can only be set by a table, not while the device is in use", \
	  .help = "RAM for pages of the map, in KiB" }

const void *shingle_page(struct shingle_engine *e, u32 nr);
void *shingle_page_hold(struct shingle_engine *e, u32 nr);
void *shingle_page_held(struct shingle_engine *e, u32 nr);
void shingle_page_dirty(struct shingle_engine *e, u32 nr);
void shingle_page_put(struct shingle_engine *e, u32 nr);
bool shingle_page_lost(const struct shingle_engine *e, u32 nr);

/**
 * shingle_page_again() - an operation has looked at enough pages for one call
 * @e: the engine
 * @nr: a page that it has just looked at, and that has a place
 *
 * The operation returns SHINGLE_ABSENT, and core soon calls it again.
 *
 * Context: inside an engine operation.
 */
static inline void shingle_page_again(struct shingle_engine *e, u32 nr)
{
	e->pages->call.missed = nr;
}

/**
 * shingle_pages_ahead() - name the pages that an operation will look at next
 * @e: the engine
 * @first: the first of them
 * @nr: number of consecutive pages
 *
 * Core reads those that are absent together with the one that the operation lacks, so that the
 * operation waits once and not for each.  It reads at most a quarter of the frames at a time, so
 * that the pages do not evict each other.
 *
 * Context: inside an engine operation that returns SHINGLE_ABSENT.
 */
static inline void shingle_pages_ahead(struct shingle_engine *e, u32 first, u32 nr)
{
	e->pages->call.ahead = first;
	e->pages->call.nr_ahead = nr;
}

/* ------------------------------------------------------------------------
 * For core
 */

u32 shingle_pages_least(const struct shingle_engine *e);
int shingle_pages_create(struct shingle_engine *e, u64 nr_pages, u32 frames, const char **why);
int shingle_pages_create_for(struct shingle_engine *e, const struct shingle_layout *l, u32 frames,
			     const char **why);
void shingle_pages_destroy(struct shingle_engine *e);
u64 shingle_pages_bytes(const struct shingle_pages *p);
u64 shingle_pages_bytes_for(const struct shingle_engine *e, u64 nr_pages);

void shingle_pages_drop(struct shingle_pages *p, enum shingle_page_client client);
int shingle_pages_ask(struct shingle_pages *p);
u32 shingle_pages_wanted(struct shingle_pages *p);
bool shingle_pages_here(struct shingle_pages *p, u32 frame, int err);
int shingle_pages_grow(struct shingle_pages *p);
int shingle_pages_leave_room(struct shingle_pages *p);
void shingle_pages_shrink(struct shingle_pages *p);

u32 shingle_pages_dirty(const struct shingle_pages *p, u32 *cursor, u32 *nr, u32 max);
void shingle_pages_copy(struct shingle_pages *p, u32 nr, void *payload);
bool shingle_pages_written(struct shingle_pages *p, u32 *cursor, bool good);

bool shingle_places_encode_next(struct shingle_pages *p, bool all, u64 *cursor, u64 *index,
				void *buf, u32 *bytes);
int shingle_places_decode(struct shingle_pages *p, u64 index, const void *buf, u32 bytes);
void shingle_pages_found(struct shingle_pages *p, u32 nr, enum shingle_page_place place);
int shingle_pages_give_up(struct shingle_pages *p, u32 nr);
bool shingle_pages_clear_lost(struct shingle_pages *p, u32 nr);

void shingle_page_seal(const struct shingle_layout *l, struct shingle_chunk *c, u32 nr,
		       enum shingle_page_place place, u64 seq);
int shingle_page_check(const struct shingle_layout *l, const struct shingle_engine *e,
		       const struct shingle_chunk *c, u32 nr, enum shingle_page_place place);

/* The place of a page in an array of places. */
static inline enum shingle_page_place shingle_place_of(const u8 *places, u32 nr)
{
	return places[nr / 4] >> nr % 4 * 2 & 3;
}

/* The other place, which is not valid: the page is written there next. */
static inline enum shingle_page_place shingle_place_other(enum shingle_page_place place)
{
	return place == SHINGLE_PAGE_A ? SHINGLE_PAGE_B : SHINGLE_PAGE_A;
}

/*
 * The block of that place on the metadata device; not for SHINGLE_PAGE_NONE and SHINGLE_PAGE_LOST.
 */
static inline u64 shingle_page_block(const struct shingle_layout *l, u32 nr,
				     enum shingle_page_place place)
{
	return l->pages.start + 2 * (u64)nr + (place == SHINGLE_PAGE_B);
}

/**
 * shingle_pages_begin() - prepare for a call of an engine operation
 * @e: the engine
 * @client: origin of the call
 *
 * Context: as an engine's operations; one call follows in the same critical section.
 */
static inline void shingle_pages_begin(struct shingle_engine *e, enum shingle_page_client client)
{
	if (!e->pages)
		return;
	e->pages->call.client = client;
	e->pages->call.missed = SHINGLE_NO_PAGE;
	e->pages->call.over_limit = false;
	e->pages->call.nr_ahead = 0;
}

/**
 * shingle_pages_end() - account for a call of an engine operation
 * @e: the engine
 * @absent: it returned SHINGLE_ABSENT, or SHINGLE_RUN_ABSENT from resolve()
 *
 * Context: after the call, in the same critical section.
 */
static inline void shingle_pages_end(struct shingle_engine *e, bool absent)
{
	struct shingle_pages *p = e->pages;

	if (!p)
		return;
	if (!absent && p->call.client)
		shingle_pages_drop(p, p->call.client);
	p->call.client = SHINGLE_CLIENT_FAST;
}

/* Did the last call of the engine lack a page, or room for a changed one? */
static inline bool shingle_pages_lack(const struct shingle_engine *e)
{
	return e->pages && (e->pages->call.missed != SHINGLE_NO_PAGE || e->pages->call.over_limit);
}

/* Is the page that the last call lacked in RAM already?  Must precede shingle_pages_ask(). */
bool shingle_pages_here_already(const struct shingle_engine *e);

/* Did the last call lack a page that a repair has given up?  Must precede shingle_pages_ask(). */
static inline bool shingle_pages_gone(const struct shingle_engine *e)
{
	const struct shingle_pages *p = e->pages;

	return p->call.missed != SHINGLE_NO_PAGE &&
	       shingle_place_of(p->places.now, p->call.missed) == SHINGLE_PAGE_LOST;
}

/* Is there a wanted page that no read has begun for? */
static inline bool shingle_pages_wanting(const struct shingle_engine *e)
{
	return e->pages && e->pages->lists.length[SHINGLE_FRAMES_WANTED];
}

/* Clear the counters. */
static inline void shingle_pages_clear(struct shingle_pages *p)
{
	p->counts = (struct shingle_page_counts){};
}

/* Add the counters of @from. */
static inline void shingle_pages_carry(struct shingle_pages *p, const struct shingle_pages *from)
{
	p->counts.hits += from->counts.hits;
	p->counts.misses += from->counts.misses;
	p->counts.reads += from->counts.reads;
	p->counts.writes += from->counts.writes;
	p->counts.dirty_limit_waits += from->counts.dirty_limit_waits;
}

/* Should a checkpoint be taken now, before a request has to wait for it? */
static inline bool shingle_pages_pressed(const struct shingle_engine *e)
{
	const struct shingle_pages *p = e->pages;

	return p && p->frames.budget < p->nr_pages &&
	       p->changes.nr_dirty >= DIV_ROUND_UP(p->changes.most, 2);
}

/* Number of pieces of a checkpoint that hold the places of @nr_pages pages. */
static inline u32 shingle_places_pieces(u64 nr_pages)
{
	return DIV_ROUND_UP_ULL(nr_pages, SHINGLE_PLACES_PER_PIECE);
}

#endif /* SHINGLE_PAGES_H */
