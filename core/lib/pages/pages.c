// SPDX-License-Identifier: GPL-2.0
/* A map that is larger than RAM: frames, the pages in them, and their replacement. */
#include "pages/pages.h"
#include "format/codec.h"

/* ------------------------------------------------------------------------
 * The index, and lists of frames
 */

static u32 bucket_of(const struct shingle_pages *p, u32 nr)
{
	return (nr * 2654435761U) >> 7 & (p->frames.nr_buckets - 1);
}

static u32 find(const struct shingle_pages *p, u32 nr)
{
	u32 i = p->frames.bucket[bucket_of(p, nr)];

	while (i != SHINGLE_NO_PAGE && p->frames.frame[i].nr != nr)
		i = p->frames.frame[i].chain;
	return i;
}

static void index_add(struct shingle_pages *p, u32 i)
{
	u32 *first = &p->frames.bucket[bucket_of(p, p->frames.frame[i].nr)];

	p->frames.frame[i].chain = *first;
	*first = i;
}

static void index_remove(struct shingle_pages *p, u32 i)
{
	u32 *at = &p->frames.bucket[bucket_of(p, p->frames.frame[i].nr)];

	while (*at != i)
		at = &p->frames.frame[*at].chain;
	*at = p->frames.frame[i].chain;
}

static void list_append(struct shingle_pages *p, enum shingle_frame_list list, u32 i)
{
	struct shingle_frame *f = &p->frames.frame[i];

	f->before = p->lists.tail[list];
	f->after = SHINGLE_NO_PAGE;
	f->listed = true;
	if (f->before == SHINGLE_NO_PAGE)
		p->lists.head[list] = i;
	else
		p->frames.frame[f->before].after = i;
	p->lists.tail[list] = i;
	p->lists.length[list]++;
}

static void list_remove(struct shingle_pages *p, enum shingle_frame_list list, u32 i)
{
	struct shingle_frame *f = &p->frames.frame[i];

	if (f->before == SHINGLE_NO_PAGE)
		p->lists.head[list] = f->after;
	else
		p->frames.frame[f->before].after = f->after;
	if (f->after == SHINGLE_NO_PAGE)
		p->lists.tail[list] = f->before;
	else
		p->frames.frame[f->after].before = f->before;
	f->listed = false;
	p->lists.length[list]--;
}

static void free_frame(struct shingle_pages *p, u32 i)
{
	p->frames.frame[i].state = SHINGLE_FRAME_FREE;
	p->frames.frame[i].nr = SHINGLE_NO_PAGE;
	list_append(p, SHINGLE_FRAMES_FREE, i);
}

/* ------------------------------------------------------------------------
 * Replacement
 *
 * A scan accesses a page two thousand times and never again.  So the number of accesses does not
 * matter, but whether the page is wanted again later: "2Q" (Johnson and Shasha, 1994).  A new page
 * enters the list IN, a queue in which accesses do not prolong its stay.  The numbers of pages that
 * have left IN are remembered for a while.  A page that is wanted again during that time enters the
 * list MAIN, which gives a second chance to pages that were accessed.
 */

static void remember(struct shingle_pages *p, u32 nr)
{
	u32 oldest = p->ghosts.page[p->ghosts.at];

	if (oldest != SHINGLE_NO_PAGE)
		__clear_bit(oldest, p->ghosts.bits);
	p->ghosts.page[p->ghosts.at] = nr;
	p->ghosts.at = p->ghosts.at + 1 == p->ghosts.nr ? 0 : p->ghosts.at + 1;
	__set_bit(nr, p->ghosts.bits);
}

/*
 * Make a frame of @list free; return its number, or SHINGLE_NO_PAGE.  If the first half of the walk
 * finds only frames that were accessed, the second half takes any frame without a pin.
 */
static u32 evict_from(struct shingle_pages *p, enum shingle_frame_list list)
{
	u32 looks = min(2 * p->lists.length[list], SHINGLE_WALK), half = looks / 2, i;
	struct shingle_frame *f;

	for (; looks; looks--) {
		i = p->lists.head[list];
		f = &p->frames.frame[i];
		list_remove(p, list, i);
		if (f->pins || (list == SHINGLE_FRAMES_MAIN && f->used && looks > half)) {
			f->used = false;
			list_append(p, list, i);
			continue;
		}
		if (list == SHINGLE_FRAMES_IN && f->state == SHINGLE_FRAME_HERE)
			remember(p, f->nr);
		index_remove(p, i);
		return i;
	}
	return SHINGLE_NO_PAGE;
}

static u32 take_frame(struct shingle_pages *p)
{
	u32 i = p->lists.head[SHINGLE_FRAMES_FREE];
	bool in;

	if (i != SHINGLE_NO_PAGE) {
		list_remove(p, SHINGLE_FRAMES_FREE, i);
		return i;
	}
	in = p->lists.length[SHINGLE_FRAMES_IN] > p->frames.nr / 4;
	i = evict_from(p, in ? SHINGLE_FRAMES_IN : SHINGLE_FRAMES_MAIN);
	if (i == SHINGLE_NO_PAGE)
		i = evict_from(p, in ? SHINGLE_FRAMES_MAIN : SHINGLE_FRAMES_IN);
	return i;
}

/* Take a frame for page @nr, which has none; SHINGLE_NO_PAGE if all are in use. */
static u32 frame_for(struct shingle_pages *p, u32 nr)
{
	struct shingle_frame *f;
	u32 i = take_frame(p);

	if (i == SHINGLE_NO_PAGE)
		return i;
	f = &p->frames.frame[i];
	f->nr = nr;
	f->used = false;
	f->asked = false;
	f->home = __test_and_clear_bit(nr, p->ghosts.bits) ? SHINGLE_FRAMES_MAIN :
							     SHINGLE_FRAMES_IN;
	index_add(p, i);
	return i;
}

static bool is_spoken_for(const struct shingle_frame *f)
{
	return f->hold_count || f->dirty || f->writing;
}

static void set_stepped(struct shingle_pages *p, struct shingle_frame *f, bool stepped)
{
	p->changes.stepped += stepped - f->stepped;
	f->stepped = stepped;
}

/* A reason to keep the frame has ended; if it was the last, the frame may be evicted. */
static void let_go(struct shingle_pages *p, u32 i)
{
	struct shingle_frame *f = &p->frames.frame[i];

	if (!f->hold_count)
		set_stepped(p, f, false);
	if (is_spoken_for(f))
		return;
	p->changes.unevictable--;
	list_append(p, f->home, i);
}

/* ------------------------------------------------------------------------
 * For engines
 */

/* Keep a frame for the current client. */
static void keep(struct shingle_pages *p, u32 i)
{
	struct shingle_frame *f = &p->frames.frame[i];
	enum shingle_page_client client = p->call.client;

	if (client == SHINGLE_CLIENT_FAST || f->keepers & BIT(client) || !p->kept.max[client])
		return;
	/* The client has changed its mind and looks at other pages. */
	if (p->kept.nr[client] == p->kept.max[client])
		shingle_pages_drop(p, client);
	f->keepers |= BIT(client);
	f->pins++;
	p->kept.frame[client][p->kept.nr[client]++] = i;
}

static u32 look_for(struct shingle_pages *p, u32 nr)
{
	u32 i = find(p, nr);

	if (i == SHINGLE_NO_PAGE || p->frames.frame[i].state != SHINGLE_FRAME_HERE)
		return SHINGLE_NO_PAGE;
	p->frames.frame[i].used = true;
	p->counts.hits++;
	if (unlikely(p->call.client))
		keep(p, i);
	return i;
}

/* Page @nr has neither a place nor a frame. */
static bool is_zeroes(const struct shingle_pages *p, u32 nr)
{
	return shingle_place_of(p->places.now, nr) == SHINGLE_PAGE_NONE &&
	       find(p, nr) == SHINGLE_NO_PAGE;
}

/**
 * shingle_page() - look at a page
 * @e: the engine
 * @nr: number of the page
 *
 * The page stays in RAM until the end of the operation, or longer if it is held.
 *
 * Context: inside an engine operation.
 * Return: the page, or NULL if it is absent; then the operation returns SHINGLE_ABSENT.
 */
const void *shingle_page(struct shingle_engine *e, u32 nr)
{
	struct shingle_pages *p = e->pages;
	u32 i;

	if (WARN_ON_ONCE(nr >= p->nr_pages))
		return p->zeroes;
	i = look_for(p, nr);
	if (likely(i != SHINGLE_NO_PAGE))
		return p->frames.frame[i].block->payload;
	if (is_zeroes(p, nr))
		return p->zeroes;
	p->call.missed = nr;
	return NULL;
}
EXPORT_SYMBOL_GPL(shingle_page);

/* Damage is permanent; any other error may be temporary. */
static bool is_for_good(int err)
{
	return err == -EUCLEAN || err == -ENODATA;
}

/* May one more page be held?  A page that a step holds counts against no other client. */
static bool may_speak_for(const struct shingle_pages *p)
{
	if (p->call.client == SHINGLE_CLIENT_LOAD)
		return true;
	if (p->call.client == SHINGLE_CLIENT_CLEAN)
		return p->changes.unevictable < p->changes.most + p->e->step_pages;
	return p->changes.unevictable - p->changes.stepped < p->changes.most;
}

/**
 * shingle_page_hold() - hold a page that is going to be changed, or must stay
 * @e: the engine
 * @nr: number of the page
 *
 * The engine must put the page as many times as it holds it.
 *
 * Context: inside an engine operation.
 * Return: the page, or NULL if it is absent or too many pages have changed; then the operation puts
 * the others that it holds and returns SHINGLE_ABSENT.
 */
void *shingle_page_hold(struct shingle_engine *e, u32 nr)
{
	struct shingle_pages *p = e->pages;
	struct shingle_frame *f;
	u32 i;

	if (WARN_ON_ONCE(nr >= p->nr_pages))
		return NULL;
	i = look_for(p, nr);
	if ((i == SHINGLE_NO_PAGE || !is_spoken_for(&p->frames.frame[i])) && !may_speak_for(p)) {
		p->call.over_limit = true;
		/* The operation gives up for lack of room, not for a page that it missed before. */
		p->call.missed = SHINGLE_NO_PAGE;
		return NULL;
	}
	if (i == SHINGLE_NO_PAGE && is_zeroes(p, nr)) {
		i = frame_for(p, nr);
		if (i != SHINGLE_NO_PAGE) {
			p->frames.frame[i].state = SHINGLE_FRAME_HERE;
			memset(p->frames.frame[i].block->payload, 0, SHINGLE_PAGE_BYTES);
			list_append(p, p->frames.frame[i].home, i);
			keep(p, i);
		}
	}
	if (i == SHINGLE_NO_PAGE) {
		p->call.missed = nr;
		return NULL;
	}
	f = &p->frames.frame[i];
	if (!is_spoken_for(f)) {
		p->changes.unevictable++;
		list_remove(p, f->home, i);
	}
	f->hold_count++;
	if (p->call.client == SHINGLE_CLIENT_CLEAN)
		set_stepped(p, f, true);
	return f->block->payload;
}
EXPORT_SYMBOL_GPL(shingle_page_hold);

/**
 * shingle_page_held() - return a page that is held
 * @e: the engine
 * @nr: number of the page
 *
 * Context: inside an engine operation.
 * Return: the page; never fails, since the engine must hold it.
 */
void *shingle_page_held(struct shingle_engine *e, u32 nr)
{
	u32 i = find(e->pages, nr);

	if (WARN_ON_ONCE(i == SHINGLE_NO_PAGE || !e->pages->frames.frame[i].hold_count))
		return e->pages->zeroes;
	return e->pages->frames.frame[i].block->payload;
}
EXPORT_SYMBOL_GPL(shingle_page_held);

/**
 * shingle_page_dirty() - a page that is held is being changed
 * @e: the engine
 * @nr: number of the page
 *
 * Context: inside the engine operation that changes it.
 */
void shingle_page_dirty(struct shingle_engine *e, u32 nr)
{
	struct shingle_pages *p = e->pages;
	struct shingle_frame *f;
	u32 i = find(p, nr);

	if (WARN_ON_ONCE(i == SHINGLE_NO_PAGE || !p->frames.frame[i].hold_count))
		return;
	f = &p->frames.frame[i];
	if (!f->dirty && !f->writing) {
		p->changes.nr_dirty++;
		/* Recovery takes a checkpoint itself when it has ended. */
		if (p->changes.press && p->call.client != SHINGLE_CLIENT_LOAD &&
		    shingle_pages_pressed(e))
			p->changes.press(p->changes.ctx);
	}
	f->dirty = true;
}
EXPORT_SYMBOL_GPL(shingle_page_dirty);

/**
 * shingle_page_put() - end one hold of a page
 * @e: the engine
 * @nr: number of the page
 *
 * Context: inside an engine operation.
 */
void shingle_page_put(struct shingle_engine *e, u32 nr)
{
	struct shingle_pages *p = e->pages;
	u32 i = find(p, nr);

	if (WARN_ON_ONCE(i == SHINGLE_NO_PAGE || !p->frames.frame[i].hold_count))
		return;
	p->frames.frame[i].hold_count--;
	let_go(p, i);
}
EXPORT_SYMBOL_GPL(shingle_page_put);

/**
 * shingle_page_lost() - is a page unreadable for good, as far as is known?
 * @e: the engine
 * @nr: number of the page
 *
 * Background work leaves out what such a page concerns: a step that needs it would never begin.  A
 * temporary read error counts as a loss only for SHINGLE_CLIENT_VERIFY, which walks over all of the
 * map and would otherwise ask for ever.
 *
 * Context: inside an engine operation.
 * Return: true if the page is lost.
 */
bool shingle_page_lost(const struct shingle_engine *e, u32 nr)
{
	struct shingle_pages *p = e->pages;
	u32 i = find(p, nr);

	if (i == SHINGLE_NO_PAGE)
		return shingle_place_of(p->places.now, nr) == SHINGLE_PAGE_LOST;
	if (p->frames.frame[i].state != SHINGLE_FRAME_FAILED)
		return false;
	if (is_for_good(p->frames.frame[i].err))
		return true;
	p->unread += p->call.client == SHINGLE_CLIENT_VERIFY;
	return p->call.client == SHINGLE_CLIENT_VERIFY;
}
EXPORT_SYMBOL_GPL(shingle_page_lost);

/* ------------------------------------------------------------------------
 * Construction
 */

/**
 * shingle_pages_least() - the smallest number of frames that guarantees progress
 * @e: the engine
 *
 * It covers the pages that a step holds, those that verify() looks at, those that the host's oldest
 * request needs, and as many changed ones.
 *
 * Context: any.
 * Return: number of frames.
 */
u32 shingle_pages_least(const struct shingle_engine *e)
{
	return 2 * e->call_pages + 2 * e->step_pages;
}
EXPORT_SYMBOL_GPL(shingle_pages_least);

static int add_frames(struct shingle_pages *p, u32 frames)
{
	for (; p->frames.nr < frames; p->frames.nr++) {
		struct shingle_frame *f = &p->frames.frame[p->frames.nr];

		f->block = shingle_zalloc_array(1, sizeof(*f->block));
		if (!f->block)
			return -ENOMEM;
		free_frame(p, p->frames.nr);
	}
	return 0;
}

/* A power of two. */
static u32 buckets_for(u32 frames)
{
	u32 buckets = 1;

	while (buckets < frames)
		buckets *= 2;
	return buckets;
}

/*
 * Allocate an array of @frames frames, and an index; the existing frames keep their blocks, the
 * others get none yet.
 */
static int make_room(struct shingle_pages *p, u32 frames)
{
	u32 buckets = buckets_for(frames), *bucket, i;
	struct shingle_frame *frame;

	frame = shingle_zalloc_array(frames, sizeof(*frame));
	bucket = shingle_zalloc_array(buckets, sizeof(*bucket));
	if (!frame || !bucket) {
		kvfree(frame);
		kvfree(bucket);
		return -ENOMEM;
	}
	if (p->frames.nr)
		memcpy(frame, p->frames.frame, p->frames.nr * sizeof(*frame));
	memset(bucket, 0xff, buckets * sizeof(*bucket));
	kvfree(p->frames.frame);
	kvfree(p->frames.bucket);
	p->frames.frame = frame;
	p->frames.bucket = bucket;
	p->frames.nr_buckets = buckets;
	for (i = 0; i < p->frames.nr; i++) {
		if (frame[i].nr != SHINGLE_NO_PAGE)
			index_add(p, i);
	}
	return 0;
}

/**
 * shingle_pages_destroy() - undo shingle_pages_create(), if it was called
 * @e: the engine, before destroy()
 *
 * Context: may sleep.
 */
void shingle_pages_destroy(struct shingle_engine *e)
{
	struct shingle_pages *p = e->pages;
	u32 i;

	if (!p)
		return;
	/* If shingle_pages_create() has failed, the last frame may lack its block. */
	for (i = 0; i < p->frames.nr; i++)
		kvfree(p->frames.frame[i].block);
	for (i = 0; i < SHINGLE_NR_CLIENTS; i++)
		kvfree(p->kept.frame[i]);
	kvfree(p->places.now);
	kvfree(p->places.next);
	kvfree(p->places.marks);
	kvfree(p->frames.frame);
	kvfree(p->frames.bucket);
	kvfree(p->ghosts.bits);
	kvfree(p->ghosts.page);
	kvfree(p->zeroes);
	kvfree(p->given_up);
	kvfree(p);
	e->pages = NULL;
}
EXPORT_SYMBOL_GPL(shingle_pages_destroy);

/* The number of frames, of @frames allowed ones, that the map can use. */
static u32 budget_for(const struct shingle_engine *e, u64 nr_pages, u32 frames)
{
	return min_t(u64, frames, max_t(u64, nr_pages, shingle_pages_least(e)));
}

/**
 * shingle_pages_create() - give an engine frames for its map
 * @e: the engine, fresh from create()
 * @nr_pages: number of pages of the map
 * @frames: maximum of pages in RAM
 * @why: on error, a sentence
 *
 * Allocates no more frames than pages, unless shingle_pages_least() is larger.
 *
 * Context: may sleep.
 * Return: 0, -EINVAL or -ENOMEM.
 */
int shingle_pages_create(struct shingle_engine *e, u64 nr_pages, u32 frames, const char **why)
{
	u32 least = shingle_pages_least(e), i;
	struct shingle_pages *p;

	*why = "map has more pages than a device can have";
	if (!nr_pages || nr_pages > INT_MAX)
		return -EINVAL;
	*why = "map has room for fewer pages in RAM than one step needs";
	if (frames < least || !e->call_pages)
		return -EINVAL;
	*why = "out of memory";
	p = shingle_zalloc_array(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	e->pages = p;
	p->e = e;
	p->nr_pages = nr_pages;
	p->frames.budget = budget_for(e, nr_pages, frames);
	/* If each page has a frame of its own, none has to leave. */
	p->changes.most = nr_pages;
	if (p->frames.budget < nr_pages)
		p->changes.most = max((p->frames.budget - e->call_pages - 2 * e->step_pages) / 2,
				      e->call_pages);
	p->call.missed = SHINGLE_NO_PAGE;
	p->places.nr_pieces = shingle_places_pieces(nr_pages);
	p->ghosts.nr = p->frames.budget;
	for (i = 0; i < SHINGLE_NR_FRAME_LISTS; i++)
		p->lists.head[i] = SHINGLE_NO_PAGE;
	memcpy(p->lists.tail, p->lists.head, sizeof(p->lists.tail));
	p->kept.max[SHINGLE_CLIENT_IO] = e->call_pages;
	p->kept.max[SHINGLE_CLIENT_LOAD] = e->call_pages + e->step_pages;
	p->kept.max[SHINGLE_CLIENT_CLEAN] = e->step_pages;
	p->kept.max[SHINGLE_CLIENT_VERIFY] = e->step_pages;
	p->places.now = shingle_zalloc_array(DIV_ROUND_UP(p->nr_pages, 4), 1);
	p->places.next = shingle_zalloc_array(DIV_ROUND_UP(p->nr_pages, 4), 1);
	p->places.marks = shingle_zalloc_array(BITS_TO_LONGS(p->places.nr_pieces),
					       sizeof(*p->places.marks));
	p->ghosts.bits = shingle_zalloc_array(BITS_TO_LONGS(p->nr_pages), sizeof(*p->ghosts.bits));
	p->ghosts.page = shingle_zalloc_array(p->ghosts.nr, sizeof(*p->ghosts.page));
	p->zeroes = shingle_zalloc_array(1, SHINGLE_PAGE_BYTES);
	if (!p->places.now || !p->places.next || !p->places.marks || !p->ghosts.bits ||
	    !p->ghosts.page || !p->zeroes)
		goto no_memory;
	memset(p->ghosts.page, 0xff, p->ghosts.nr * sizeof(*p->ghosts.page));
	for (i = 0; i < SHINGLE_NR_CLIENTS; i++) {
		p->kept.frame[i] = shingle_zalloc_array(max(p->kept.max[i], 1U), sizeof(u32));
		if (!p->kept.frame[i])
			goto no_memory;
	}
	if (!make_room(p, p->frames.budget) && !add_frames(p, p->frames.budget))
		return 0;
no_memory:
	shingle_pages_destroy(e);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(shingle_pages_create);

/**
 * shingle_pages_create_for() - give an engine frames for its map, if that is paged
 * @e: the engine, fresh from create()
 * @l: its layout
 * @frames: maximum of pages in RAM
 * @why: on error, a sentence
 *
 * Context: may sleep.
 * Return: as shingle_pages_create().
 */
int shingle_pages_create_for(struct shingle_engine *e, const struct shingle_layout *l, u32 frames,
			     const char **why)
{
	u64 nr = l->pages.blocks / 2;

	if (!e->ops->pages.nr_pages)
		return 0;
	*why = "the superblock has room for another number of pages of the map";
	if (nr != e->ops->pages.nr_pages(l))
		return -EINVAL;
	return shingle_pages_create(e, nr, frames, why);
}
EXPORT_SYMBOL_GPL(shingle_pages_create_for);

static u64 bytes_of(u64 nr_pages, u64 frames, u64 buckets, u64 ghosts)
{
	return frames * (SHINGLE_BLOCK_SIZE + sizeof(struct shingle_frame)) +
	       (buckets + ghosts) * sizeof(u32) + nr_pages / 2 + nr_pages / 8;
}

/**
 * shingle_pages_bytes() - RAM that the frames use
 * @p: pages
 *
 * Context: map lock.
 * Return: bytes.
 */
u64 shingle_pages_bytes(const struct shingle_pages *p)
{
	return bytes_of(p->nr_pages, p->frames.nr, p->frames.nr_buckets, p->ghosts.nr);
}

/**
 * shingle_pages_bytes_for() - RAM that the frames will need
 * @e: the engine, its options set
 * @nr_pages: number of pages of its map
 *
 * Context: any.
 * Return: bytes.
 */
u64 shingle_pages_bytes_for(const struct shingle_engine *e, u64 nr_pages)
{
	u32 frames = budget_for(e, nr_pages, e->map_cache_kb / (SHINGLE_BLOCK_SIZE / 1024));

	return bytes_of(nr_pages, frames, buckets_for(frames), frames);
}

/**
 * shingle_pages_grow() - add frames beyond the budget for recovery
 * @p: pages
 *
 * As many pages may have changed since a checkpoint as there were frames then.
 *
 * Context: before I/O, may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_pages_grow(struct shingle_pages *p)
{
	u32 frames = 2 * p->frames.nr;

	return make_room(p, frames) ?: add_frames(p, frames);
}

/**
 * shingle_pages_leave_room() - after replay, make sure that some frames are free to be replaced
 * @p: pages
 *
 * If the device is read-only, no checkpoint will free the changed pages.  Then the host's oldest
 * request and verify() need frames of their own.
 *
 * Context: before I/O, may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_pages_leave_room(struct shingle_pages *p)
{
	u32 need = p->e->call_pages + p->e->step_pages;
	int err = 0;

	/* If each page has a frame of its own, none is replaced. */
	while (!err && p->frames.nr < p->nr_pages && p->frames.nr - p->changes.unevictable < need)
		err = shingle_pages_grow(p);
	return err;
}

/**
 * shingle_pages_shrink() - free the frames that recovery needed, as far as possible
 * @p: pages, changed ones written
 *
 * Context: before I/O, may sleep.
 */
void shingle_pages_shrink(struct shingle_pages *p)
{
	while (p->frames.nr > p->frames.budget) {
		u32 i = p->frames.nr - 1;
		struct shingle_frame *f = &p->frames.frame[i];

		if (f->state == SHINGLE_FRAME_FREE) {
			list_remove(p, SHINGLE_FRAMES_FREE, i);
		} else if (f->listed && !f->pins && f->state != SHINGLE_FRAME_WANTED) {
			list_remove(p, f->home, i);
			index_remove(p, i);
		} else {
			break;
		}
		kvfree(f->block);
		memset(f, 0, sizeof(*f));
		p->frames.nr--;
	}
}

/* ------------------------------------------------------------------------
 * Absent pages
 */

/* The client that lacked the page has got the error: the next client reads it again. */
static void forget_failure(struct shingle_pages *p, u32 i)
{
	struct shingle_frame *f = &p->frames.frame[i];

	if (f->state != SHINGLE_FRAME_FAILED || f->pins || is_for_good(f->err))
		return;
	list_remove(p, f->home, i);
	index_remove(p, i);
	free_frame(p, i);
}

/**
 * shingle_pages_drop() - a client no longer needs the pages it has looked at
 * @p: pages
 * @client: the client; not SHINGLE_CLIENT_FAST
 *
 * Context: map lock.
 */
void shingle_pages_drop(struct shingle_pages *p, enum shingle_page_client client)
{
	while (p->kept.nr[client]) {
		u32 i = p->kept.frame[client][--p->kept.nr[client]];
		struct shingle_frame *f = &p->frames.frame[i];

		f->keepers &= ~BIT(client);
		f->pins--;
		forget_failure(p, i);
	}
}
EXPORT_SYMBOL_GPL(shingle_pages_drop);

/* Take a frame into which page @nr will be read; SHINGLE_NO_PAGE if all are in use. */
static u32 want(struct shingle_pages *p, u32 nr)
{
	u32 i = frame_for(p, nr);

	if (i == SHINGLE_NO_PAGE)
		return i;
	p->frames.frame[i].state = SHINGLE_FRAME_WANTED;
	list_append(p, SHINGLE_FRAMES_WANTED, i);
	p->coming++;
	return i;
}

static void want_ahead(struct shingle_pages *p, u32 first, u32 nr)
{
	if (WARN_ON_ONCE(nr > p->nr_pages || first > p->nr_pages - nr))
		return;
	for (; nr && p->coming < p->frames.nr / 4; first++, nr--) {
		u8 place = shingle_place_of(p->places.now, first);

		if ((place == SHINGLE_PAGE_A || place == SHINGLE_PAGE_B) &&
		    find(p, first) == SHINGLE_NO_PAGE && want(p, first) == SHINGLE_NO_PAGE)
			break;
	}
}

/**
 * shingle_pages_ask() - start to provide what the last call of the engine lacked
 * @p: pages
 *
 * A page that could not be read for another reason than damage is read again for the next client.
 *
 * Context: map lock; between shingle_pages_begin(), if there was one, and shingle_pages_end().
 * Return: 0 if the page is to be read: wait for the end of the read; -EAGAIN if no frame is free:
 * the end of a read, a write or a step, or a checkpoint, makes one free; -EBUSY if too many pages
 * have changed: a checkpoint makes room; -ESTALE if a repair has given the page up; or the read
 * error.  In the last two cases the client fails.
 */
int shingle_pages_ask(struct shingle_pages *p)
{
	u32 nr = p->call.missed, nr_ahead = p->call.nr_ahead, i;
	int err;

	p->call.missed = SHINGLE_NO_PAGE;
	p->call.nr_ahead = 0;
	if (nr == SHINGLE_NO_PAGE) {
		p->counts.dirty_limit_waits += p->call.over_limit;
		p->call.over_limit = false;
		return -EBUSY;
	}
	p->call.over_limit = false;
	p->counts.misses++;
	i = find(p, nr);
	if (i != SHINGLE_NO_PAGE) {
		p->frames.frame[i].asked = true;
		keep(p, i);
		err = p->frames.frame[i].state == SHINGLE_FRAME_FAILED ? p->frames.frame[i].err : 0;
		forget_failure(p, i);
		return err;
	}
	if (shingle_place_of(p->places.now, nr) == SHINGLE_PAGE_LOST)
		return -ESTALE;
	/* A page of zeroes, for which no frame was free. */
	if (shingle_place_of(p->places.now, nr) == SHINGLE_PAGE_NONE)
		return -EAGAIN;
	i = want(p, nr);
	if (i == SHINGLE_NO_PAGE)
		return -EAGAIN;
	p->frames.frame[i].asked = true;
	keep(p, i);
	want_ahead(p, p->call.ahead, nr_ahead);
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_pages_ask);

/* See pages.h. */
bool shingle_pages_here_already(const struct shingle_engine *e)
{
	const struct shingle_pages *p = e->pages;
	u32 i = p->call.missed == SHINGLE_NO_PAGE ? SHINGLE_NO_PAGE : find(p, p->call.missed);

	return i != SHINGLE_NO_PAGE && p->frames.frame[i].state == SHINGLE_FRAME_HERE;
}
EXPORT_SYMBOL_GPL(shingle_pages_here_already);

/**
 * shingle_pages_wanted() - take the next page that is to be read
 * @p: pages
 *
 * The caller reads it from the place that shingle_place_of() finds in @p->places.now.
 *
 * Context: map lock.
 * Return: the frame with the block for it; SHINGLE_NO_PAGE if there is none.
 */
u32 shingle_pages_wanted(struct shingle_pages *p)
{
	u32 i = p->lists.head[SHINGLE_FRAMES_WANTED];

	if (i != SHINGLE_NO_PAGE) {
		list_remove(p, SHINGLE_FRAMES_WANTED, i);
		p->frames.frame[i].state = SHINGLE_FRAME_READING;
	}
	return i;
}
EXPORT_SYMBOL_GPL(shingle_pages_wanted);

/**
 * shingle_pages_here() - a read of a page has ended
 * @p: pages
 * @frame: as shingle_pages_wanted()
 * @err: 0, or the reason why it cannot be used
 *
 * A page that was read ahead and cannot be used is treated as if it had not been read.
 *
 * Context: map lock.  The caller wakes those that wait for the page.
 * Return: true if a client lacks the page and the error is permanent.
 */
bool shingle_pages_here(struct shingle_pages *p, u32 frame, int err)
{
	struct shingle_frame *f = &p->frames.frame[frame];

	p->coming--;
	p->counts.reads++;
	if (err && !f->asked) {
		index_remove(p, frame);
		free_frame(p, frame);
		return false;
	}
	f->state = err ? SHINGLE_FRAME_FAILED : SHINGLE_FRAME_HERE;
	f->err = err;
	list_append(p, f->home, frame);
	return err && is_for_good(err);
}
EXPORT_SYMBOL_GPL(shingle_pages_here);

/* ------------------------------------------------------------------------
 * Checkpoints
 */

static void set_place(u8 *places, u32 nr, enum shingle_page_place place)
{
	u32 shift = nr % 4 * 2;

	places[nr / 4] = (places[nr / 4] & ~(3U << shift)) | (u32)place << shift;
}

static void set_next(struct shingle_pages *p, u32 nr, enum shingle_page_place place)
{
	u32 piece = nr / SHINGLE_PLACES_PER_PIECE;

	set_place(p->places.next, nr, place);
	p->places.nr_marked += !__test_and_set_bit(piece, p->places.marks);
}

/**
 * shingle_pages_dirty() - list pages that a checkpoint has to write
 * @p: pages
 * @cursor: 0 at first; SHINGLE_NO_PAGE if there is no other
 * @nr: their numbers
 * @max: entries in @nr
 *
 * The journal behind the checkpoint contains changes made after it has begun.
 *
 * Context: map lock.
 * Return: number of entries, perhaps 0.
 */
u32 shingle_pages_dirty(const struct shingle_pages *p, u32 *cursor, u32 *nr, u32 max)
{
	u32 end = min(p->frames.nr, *cursor + SHINGLE_WALK), found = 0;

	for (; *cursor < end && found < max; (*cursor)++) {
		if (p->frames.frame[*cursor].dirty)
			nr[found++] = p->frames.frame[*cursor].nr;
	}
	if (*cursor == p->frames.nr)
		*cursor = SHINGLE_NO_PAGE;
	return found;
}

/**
 * shingle_pages_copy() - copy a page for a checkpoint
 * @p: pages
 * @nr: as shingle_pages_dirty(), once for each checkpoint
 * @payload: result
 *
 * Afterwards shingle_place_of() @p->places.next returns the place to which it must be written.
 *
 * Context: map lock.
 */
void shingle_pages_copy(struct shingle_pages *p, u32 nr, void *payload)
{
	struct shingle_frame *f = &p->frames.frame[find(p, nr)];

	memcpy(payload, f->block->payload, SHINGLE_PAGE_BYTES);
	f->dirty = false;
	f->writing = true;
	set_next(p, nr, shingle_place_other(shingle_place_of(p->places.now, nr)));
}

/**
 * shingle_pages_written() - a checkpoint has its footer, or has failed
 * @p: pages
 * @cursor: 0 at first
 * @good: it has its footer
 *
 * Processes a part of the frames in each call.
 *
 * Context: map lock.
 * Return: whether there is more.
 */
bool shingle_pages_written(struct shingle_pages *p, u32 *cursor, bool good)
{
	u32 end = min(p->frames.nr, *cursor + SHINGLE_WALK);

	for (; *cursor < end; (*cursor)++) {
		struct shingle_frame *f = &p->frames.frame[*cursor];

		if (!f->writing)
			continue;
		f->writing = false;
		if (!good) {
			f->dirty = true;
			set_next(p, f->nr, shingle_place_of(p->places.now, f->nr));
			continue;
		}
		set_place(p->places.now, f->nr, shingle_place_of(p->places.next, f->nr));
		p->counts.writes++;
		p->changes.nr_dirty -= !f->dirty;
		let_go(p, *cursor);
	}
	return *cursor < p->frames.nr;
}

/* Size of a piece of the places in bytes. */
static u32 piece_bytes(const struct shingle_pages *p, u64 piece)
{
	return min_t(u64, SHINGLE_CHUNK_BYTES,
		     DIV_ROUND_UP(p->nr_pages, 4) - piece * SHINGLE_CHUNK_BYTES);
}

/**
 * shingle_places_encode_next() - encode the next piece of the places
 * @p: pages
 * @all: include pieces that have not changed, but no empty ones
 * @cursor: 0 at first; SHINGLE_NOWHERE if there is no other
 * @index: index of the piece
 * @buf: as shingle_pieces_encode()
 * @bytes: size of the piece
 *
 * Encodes the places that are valid when the checkpoint in progress is.
 *
 * Context: map lock.
 * Return: as shingle_encode_next().
 */
bool shingle_places_encode_next(struct shingle_pages *p, bool all, u64 *cursor, u64 *index,
				void *buf, u32 *bytes)
{
	const u8 *from;
	u64 piece;

	if (!all)
		*cursor = find_next_bit(p->places.marks, p->places.nr_pieces, *cursor);
	if (*cursor >= p->places.nr_pieces) {
		*cursor = SHINGLE_NOWHERE;
		return false;
	}
	piece = (*cursor)++;
	*index = SHINGLE_CHUNK_CORE + 1 + piece;
	from = p->places.next + piece * SHINGLE_CHUNK_BYTES;
	*bytes = piece_bytes(p, piece);
	while (*bytes && !from[*bytes - 1])
		(*bytes)--;
	memcpy(buf, from, *bytes);
	p->places.nr_marked -= __test_and_clear_bit(piece, p->places.marks);
	return !all || *bytes;
}

/**
 * shingle_places_decode() - restore a piece of the places
 * @p: pages, none of them in a frame
 * @index: index of the piece, above SHINGLE_CHUNK_CORE
 * @buf: the piece
 * @bytes: its size
 *
 * Context: before I/O.
 * Return: 0 or -EUCLEAN.
 */
int shingle_places_decode(struct shingle_pages *p, u64 index, const void *buf, u32 bytes)
{
	u64 piece = index - SHINGLE_CHUNK_CORE - 1;
	const u8 *from = buf;
	u32 rest;

	if (piece >= p->places.nr_pieces || bytes > piece_bytes(p, piece))
		return -EUCLEAN;
	rest = p->nr_pages % 4 * 2;
	if (rest && piece == p->places.nr_pieces - 1 && bytes == piece_bytes(p, piece) &&
	    from[bytes - 1] >> rest)
		return -EUCLEAN;
	memcpy(p->places.now + piece * SHINGLE_CHUNK_BYTES, buf, bytes);
	memcpy(p->places.next + piece * SHINGLE_CHUNK_BYTES, buf, bytes);
	return 0;
}

/**
 * shingle_pages_found() - set the place of a page, also for the next checkpoint
 * @p: pages, none of them in a frame
 * @nr: number of the page
 * @place: its place
 *
 * Context: before I/O.
 */
void shingle_pages_found(struct shingle_pages *p, u32 nr, enum shingle_page_place place)
{
	set_place(p->places.now, nr, place);
	set_next(p, nr, place);
}
EXPORT_SYMBOL_GPL(shingle_pages_found);

/**
 * shingle_pages_give_up() - record that a page is lost, also for the next checkpoint
 * @p: pages, none of them changed
 * @nr: number of the page
 *
 * For `shingle repair': the content of the page is unknown.
 *
 * Context: not in use, may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_pages_give_up(struct shingle_pages *p, u32 nr)
{
	u32 i = find(p, nr);

	if (!p->given_up)
		p->given_up = shingle_zalloc_array(BITS_TO_LONGS(p->nr_pages),
						   sizeof(*p->given_up));
	if (!p->given_up)
		return -ENOMEM;
	__set_bit(nr, p->given_up);
	if (i != SHINGLE_NO_PAGE && p->frames.frame[i].listed && !p->frames.frame[i].pins) {
		list_remove(p, p->frames.frame[i].home, i);
		index_remove(p, i);
		free_frame(p, i);
	}
	set_place(p->places.now, nr, SHINGLE_PAGE_LOST);
	set_next(p, nr, SHINGLE_PAGE_LOST);
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_pages_give_up);

/**
 * shingle_pages_clear_lost() - make a given-up page empty if it located no blocks
 * @p: pages
 * @nr: number of the page; it was given up
 *
 * For `shingle repair', too.  The next checkpoint records that the page is empty.
 *
 * Context: not in use, after ready(): before that the owner of a page is unknown.
 * Return: true if the page located no blocks.
 */
bool shingle_pages_clear_lost(struct shingle_pages *p, u32 nr)
{
	u64 lblk, n;

	p->e->ops->pages.blocks(p->e, nr, &lblk, &n);
	/* A page in a frame has content: it must not become empty. */
	if (n || find(p, nr) != SHINGLE_NO_PAGE)
		return false;
	set_place(p->places.now, nr, SHINGLE_PAGE_NONE);
	set_next(p, nr, SHINGLE_PAGE_NONE);
	return true;
}
EXPORT_SYMBOL_GPL(shingle_pages_clear_lost);

/* ------------------------------------------------------------------------
 * Blocks
 */

/**
 * shingle_page_seal() - complete the block of a page
 * @l: layout
 * @c: the block, its payload filled in
 * @nr: number of the page
 * @place: its place
 * @seq: number of the checkpoint
 *
 * Context: any.
 */
void shingle_page_seal(const struct shingle_layout *l, struct shingle_chunk *c, u32 nr,
		       enum shingle_page_place place, u64 seq)
{
	c->index = cpu_to_le64(nr);
	c->bytes = cpu_to_le32(SHINGLE_PAGE_BYTES);
	c->tail_pad = 0;
	memset(c->tail, 0, sizeof(c->tail));
	shingle_seal(c, SHINGLE_MAGIC_PAGE, l->uuid, shingle_page_block(l, nr, place), seq);
}

/**
 * shingle_page_check() - is a block the expected page?
 * @l: layout
 * @e: the engine
 * @c: the block, as read
 * @nr: number of the page
 * @place: the place from which it was read
 *
 * Context: any.
 * Return: 0 or -EUCLEAN.
 */
int shingle_page_check(const struct shingle_layout *l, const struct shingle_engine *e,
		       const struct shingle_chunk *c, u32 nr, enum shingle_page_place place)
{
	if (shingle_check_block(c, SHINGLE_MAGIC_PAGE, l->uuid,
				shingle_page_block(l, nr, place)) ||
	    le64_to_cpu(c->index) != nr || le32_to_cpu(c->bytes) != SHINGLE_PAGE_BYTES)
		return -EUCLEAN;
	return e->ops->pages.check ? e->ops->pages.check(e, nr, c->payload) : 0;
}
