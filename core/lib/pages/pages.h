/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A map that is larger than RAM: pages, of which some are in frames.  Pure.
 *
 * A page is SHINGLE_PAGE_BYTES of an engine's map.  One that was never written is all
 * zeroes, and has no place; each of the others has one of two places on the metadata
 * device.  A changed page goes, at the next checkpoint, to the place that does not count,
 * and the footer makes it count: until then the old one is what recovery reads, untouched.
 *
 *   absent -> being read -> clean <-> held -> dirty -> being written -> clean -> absent
 *
 * What is dirty or being written leaves RAM by a checkpoint only, so there may be no more of it
 * than half of the frames, about, unless there are as many frames as pages.  Who needs a page
 * that is absent, or wants to change one more than there may be, gives up without having
 * changed anything and says SHINGLE_ABSENT; core sees to it, and asks again.
 *
 * All of it is protected as the engine is: by the map lock.
 */
#ifndef SHINGLE_PAGES_H
#define SHINGLE_PAGES_H

#include "engine/engine.h"

#define SHINGLE_PAGE_BYTES	SHINGLE_CHUNK_BYTES

/* Neither a frame nor a page. */
#define SHINGLE_NO_PAGE		U32_MAX

/* Where a page is: two bits in a piece of the checkpoint. */
enum shingle_page_place {
	SHINGLE_PAGE_NONE,	/* nowhere: it is all zeroes */
	SHINGLE_PAGE_A,
	SHINGLE_PAGE_B,
	SHINGLE_PAGE_LOST,	/* a repair has given it up */
};

/* Pages whose places are in one piece of a checkpoint. */
#define SHINGLE_PLACES_PER_PIECE	(SHINGLE_CHUNK_BYTES * 4U)

/*
 * On whose behalf an engine is asked.  But for the first, what was looked at in vain is
 * kept until the same one has asked with success: so nobody loses one page of two while he
 * waits for the other.
 */
enum shingle_asker {
	SHINGLE_ASKER_HOT,	/* whoever comes by, and waits if he must */
	SHINGLE_ASKER_FRONT,	/* who has waited longest */
	SHINGLE_ASKER_CLEAN,	/* next_step() */
	SHINGLE_ASKER_LOOK,	/* verify() */
	SHINGLE_ASKER_LOAD,	/* replay(): nothing limits what it changes */
	SHINGLE_NR_ASKERS
};

enum shingle_frame_state {
	SHINGLE_FRAME_FREE,
	SHINGLE_FRAME_WANTED,	/* to be read */
	SHINGLE_FRAME_READING,
	SHINGLE_FRAME_HERE,
	SHINGLE_FRAME_FAILED,	/* it could not be read */
};

/* Lists of frames, by their @after. */
enum shingle_frame_list {
	SHINGLE_FRAMES_IN,	/* came in not long ago: first in, first out */
	SHINGLE_FRAMES_MAIN,	/* have come again after they had left: second chance */
	SHINGLE_FRAMES_WANTED,	/* to be read */
	SHINGLE_FRAMES_FREE,
	SHINGLE_NR_FRAME_LISTS
};

/**
 * struct shingle_frame - room for a page
 * @block: a block, of which the payload is the page
 * @nr: number of the page, if the frame is not free
 * @chain: next frame in the bucket of the index
 * @before: in a list
 * @after: in a list
 * @holds: so often it is held
 * @pins: so many askers keep it
 * @keepers: a bit for each of them
 * @state: enum shingle_frame_state
 * @home: the list that it is in whenever it may be given to another page, IN or MAIN
 * @listed: it is in a list
 * @used: looked at since it was passed over, in MAIN
 * @dirty: the page has changed since it was last copied for a checkpoint
 * @writing: it was copied for one that has no footer yet
 * @stepped: a step holds it, or has until everybody else has put it, too
 * @asked: somebody lacked it; else it is read because it might be looked at next
 * @err: why it could not be read
 */
struct shingle_frame {
	struct shingle_chunk *block;
	u32 nr;
	u32 chain;
	u32 before;
	u32 after;
	u32 holds;
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
 * struct shingle_pages - the pages of an engine's map
 * @e: the engine
 * @nr_pages: how many
 * @places: of each, where it is as the last footer has it
 * @next: of each, where it will be when the checkpoint under way has its footer
 * @marks: a bit for each piece of @next that has changed since it was last encoded
 * @nr_pieces: how many pieces
 * @nr_marked: of them marked
 * @frame: frames
 * @nr_frames: how many
 * @budget: how many there should be; recovery may need more
 * @bucket: first frame of each bucket of the index
 * @nr_buckets: a power of two
 * @head: first frame of each list
 * @tail: last one
 * @listed: how many
 * @ghost: a bit for each page that has left IN not long ago
 * @ghosts: their numbers, the oldest at @ghost_at
 * @nr_ghosts: room for so many
 * @ghost_at: where the next one goes
 * @most: pages that may be held, dirty or being written, for the host's sake
 * @spoken: that are, for whoever's
 * @stepped: of these, that a step holds: the host is not made to wait for its end
 * @nr_dirty: that are dirty or being written
 * @asker: on whose behalf the engine is asked right now
 * @missed: the page that it lacked, SHINGLE_NO_PAGE if none
 * @crowded: it wanted to change one more than may be
 * @ahead: pages from here on it will look at next
 * @nr_ahead: so many
 * @unread: times that who looks at all of the map went around one that cannot be read now
 * @coming: frames whose page is to be read, or being read
 * @kept: frames that are kept for each asker
 * @nr_kept: how many
 * @max_kept: at most so many
 * @zeroes: what a page holds that has no place
 * @given_up: a bit for each page that was given up since they were loaded; NULL if none was
 * @press: half of @most are spoken for: a checkpoint should be taken; may be NULL
 * @ctx: handed to it
 * @hits: pages looked at that were there
 * @misses: askers that were told to wait for a page
 * @reads: pages read
 * @writes: pages written by checkpoints
 * @crowds: askers that were told to wait for a checkpoint
 */
struct shingle_pages {
	struct shingle_engine *e;
	u32 nr_pages;
	u8 *places;
	u8 *next;
	unsigned long *marks;
	u32 nr_pieces;
	u32 nr_marked;
	struct shingle_frame *frame;
	u32 nr_frames;
	u32 budget;
	u32 *bucket;
	u32 nr_buckets;
	u32 head[SHINGLE_NR_FRAME_LISTS];
	u32 tail[SHINGLE_NR_FRAME_LISTS];
	u32 listed[SHINGLE_NR_FRAME_LISTS];
	unsigned long *ghost;
	u32 *ghosts;
	u32 nr_ghosts;
	u32 ghost_at;
	u32 most;
	u32 spoken;
	u32 stepped;
	u32 nr_dirty;
	enum shingle_asker asker;
	u32 missed;
	bool crowded;
	u32 ahead;
	u32 nr_ahead;
	u32 unread;
	u32 coming;
	u32 *kept[SHINGLE_NR_ASKERS];
	u32 nr_kept[SHINGLE_NR_ASKERS];
	u32 max_kept[SHINGLE_NR_ASKERS];
	u8 *zeroes;
	unsigned long *given_up;
	void (*press)(void *ctx);
	void *ctx;
	u64 hits;
	u64 misses;
	u64 reads;
	u64 writes;
	u64 crowds;
};

/* ------------------------------------------------------------------------
 * For engines
 */

/* Eight pages, with which engines go on that need two for a call and two for a step; 1 GiB. */
#define SHINGLE_MAP_CACHE_MIN_KB	32
#define SHINGLE_MAP_CACHE_MAX_KB	1048576
/* 64 MiB. */
#define SHINGLE_MAP_CACHE_KB		65536

/* A row of the options of each engine whose map is in pages. */
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
 * shingle_page_again() - an operation has looked at enough for one call
 * @e: the engine
 * @nr: a page that it has just looked at, and that has a place
 *
 * It says SHINGLE_ABSENT, and is asked again soon.
 *
 * Context: inside an engine operation.
 */
static inline void shingle_page_again(struct shingle_engine *e, u32 nr)
{
	e->pages->missed = nr;
}

/**
 * shingle_pages_ahead() - an operation that lacks a page will look at others next
 * @e: the engine
 * @first: the first of them
 * @nr: how many follow one another
 *
 * Those that are absent are read besides, so that it waits once and not for each; not more
 * at a time than a quarter of the frames, so that nobody loses what he is about to look at.
 *
 * Context: inside an engine operation that returns SHINGLE_ABSENT.
 */
static inline void shingle_pages_ahead(struct shingle_engine *e, u32 first, u32 nr)
{
	e->pages->ahead = first;
	e->pages->nr_ahead = nr;
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

void shingle_pages_drop(struct shingle_pages *p, enum shingle_asker asker);
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
bool shingle_pages_forgive(struct shingle_pages *p, u32 nr);

void shingle_page_seal(const struct shingle_layout *l, struct shingle_chunk *c, u32 nr,
		       enum shingle_page_place place, u64 seq);
int shingle_page_check(const struct shingle_layout *l, const struct shingle_engine *e,
		       const struct shingle_chunk *c, u32 nr, enum shingle_page_place place);

/* Where a page is, by an array of such. */
static inline enum shingle_page_place shingle_place_of(const u8 *places, u32 nr)
{
	return places[nr / 4] >> nr % 4 * 2 & 3;
}

/* The place that does not count, which is where the page goes next. */
static inline enum shingle_page_place shingle_place_other(enum shingle_page_place place)
{
	return place == SHINGLE_PAGE_A ? SHINGLE_PAGE_B : SHINGLE_PAGE_A;
}

/* Where on the metadata device that is: not of SHINGLE_PAGE_NONE, nor of LOST. */
static inline u64 shingle_page_block(const struct shingle_layout *l, u32 nr,
				     enum shingle_page_place place)
{
	return l->pages.start + 2 * (u64)nr + (place == SHINGLE_PAGE_B);
}

/**
 * shingle_pages_begin() - an engine is about to be asked
 * @e: the engine
 * @asker: by whom
 *
 * Context: as an engine's operations, of which one call follows at once.
 */
static inline void shingle_pages_begin(struct shingle_engine *e, enum shingle_asker asker)
{
	if (!e->pages)
		return;
	e->pages->asker = asker;
	e->pages->missed = SHINGLE_NO_PAGE;
	e->pages->crowded = false;
	e->pages->nr_ahead = 0;
}

/**
 * shingle_pages_end() - it was asked
 * @e: the engine
 * @absent: it said SHINGLE_ABSENT, or what stands for it
 *
 * Context: behind the call, in the same critical section.
 */
static inline void shingle_pages_end(struct shingle_engine *e, bool absent)
{
	struct shingle_pages *p = e->pages;

	if (!p)
		return;
	if (!absent && p->asker)
		shingle_pages_drop(p, p->asker);
	p->asker = SHINGLE_ASKER_HOT;
}

/* Has the engine that was just asked lacked a page, or room for a changed one? */
static inline bool shingle_pages_lack(const struct shingle_engine *e)
{
	return e->pages && (e->pages->missed != SHINGLE_NO_PAGE || e->pages->crowded);
}

/* Was what it has said that it lacks there all the time?  As shingle_pages_gone(). */
bool shingle_pages_here_already(const struct shingle_engine *e);

/* Has it lacked a page that a repair has given up?  Before core sees to what it lacks. */
static inline bool shingle_pages_gone(const struct shingle_engine *e)
{
	const struct shingle_pages *p = e->pages;

	return p->missed != SHINGLE_NO_PAGE &&
	       shingle_place_of(p->places, p->missed) == SHINGLE_PAGE_LOST;
}

/* Is there a page that is to be read, and nobody has begun to? */
static inline bool shingle_pages_wanting(const struct shingle_engine *e)
{
	return e->pages && e->pages->listed[SHINGLE_FRAMES_WANTED];
}

/* All is counted anew. */
static inline void shingle_pages_clear(struct shingle_pages *p)
{
	p->hits = 0;
	p->misses = 0;
	p->reads = 0;
	p->writes = 0;
	p->crowds = 0;
}

/* It counts for @from, too, from now on. */
static inline void shingle_pages_carry(struct shingle_pages *p, const struct shingle_pages *from)
{
	p->hits += from->hits;
	p->misses += from->misses;
	p->reads += from->reads;
	p->writes += from->writes;
	p->crowds += from->crowds;
}

/* Should a checkpoint be taken, so that nobody has to wait for it? */
static inline bool shingle_pages_pressed(const struct shingle_engine *e)
{
	const struct shingle_pages *p = e->pages;

	return p && p->budget < p->nr_pages && p->nr_dirty >= DIV_ROUND_UP(p->most, 2);
}

/* Pieces of a checkpoint that say where @nr_pages pages are. */
static inline u32 shingle_places_pieces(u64 nr_pages)
{
	return DIV_ROUND_UP_ULL(nr_pages, SHINGLE_PLACES_PER_PIECE);
}

#endif /* SHINGLE_PAGES_H */
