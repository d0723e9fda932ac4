/* SPDX-License-Identifier: GPL-2.0 */
/* Internal functions of the write cache, shared by its files. */
#ifndef SHINGLE_SLOTS_H
#define SHINGLE_SLOTS_H

#include "base/device.h"

/* Blocks of one destage: 1 MiB. */
#define RUN_BLOCKS	256U
/* Maximum of destages in flight. */
#define DEPTH		8
#define SLOTS_PER_PAGE	(PAGE_SIZE / SHINGLE_BLOCK_SIZE)

/**
 * struct shingle_destage - a run in flight to the medium
 * @d: the device
 * @w: the placement
 * @slots: its slots, ascending; map_lock
 * @bio: the write; last member, as bio_set requires
 */
struct shingle_destage {
	struct shingle_device *d;
	struct shingle_write w;
	struct list_head slots;
	struct bio bio;
};

/* wcache.c */
struct shingle_wslot *shingle_wslot_from(const struct shingle_wcache *wc, u64 lblk);
void shingle_wslot_forget(struct shingle_wcache *wc, struct shingle_wslot *s);

/* destage.c */
void shingle_destage_work(struct work_struct *work);

static inline struct page *page_of(const struct shingle_wcache *wc, const struct shingle_wslot *s)
{
	return wc->pages[(s - wc->slots) / SLOTS_PER_PAGE];
}

static inline u32 offset_of(const struct shingle_wcache *wc, const struct shingle_wslot *s)
{
	return (s - wc->slots) % SLOTS_PER_PAGE * SHINGLE_BLOCK_SIZE;
}

static inline void *memory_of(const struct shingle_wcache *wc, const struct shingle_wslot *s)
{
	return page_address(page_of(wc, s)) + offset_of(wc, s);
}

static inline struct shingle_wslot *next_of(struct shingle_wslot *s)
{
	return rb_entry_safe(rb_next(&s->node), struct shingle_wslot, node);
}

static inline struct shingle_wslot *oldest(struct shingle_wcache *wc)
{
	return list_first_entry_or_null(&wc->ages, struct shingle_wslot, age);
}

/* Is every block up to @seq on the medium or lost? */
static inline bool reached(struct shingle_wcache *wc, u64 seq)
{
	struct shingle_wslot *s = oldest(wc);

	return !s || s->seq > seq;
}

static inline void run_now(struct shingle_wcache *wc)
{
	mod_delayed_work(wc->wq, &wc->work, 0);
}

/* Can it be destaged now? */
static inline bool eligible(const struct shingle_wslot *s)
{
	return s->state == SHINGLE_WSLOT_DIRTY && !s->twin;
}

/*
 * Should blocks be destaged to make room?  If the engine gathers writes, not before a write waits
 * for room, so that the engine sees as many blocks as possible; otherwise when half of the cache is
 * dirty.
 */
static inline bool is_full(const struct shingle_device *d)
{
	const struct shingle_wcache *wc = &d->wcache;

	return d->gathers ? wc->waiting : wc->dirty > wc->blocks / 2;
}

#endif /* SHINGLE_SLOTS_H */
