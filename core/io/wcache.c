// SPDX-License-Identifier: GPL-2.0
/*
 * The volatile write cache.
 *
 * A write is copied and acknowledged.  A worker writes it later in the same way as a host's write:
 * the engine places it, and it is ordered and committed.  Reads find the copy until the engine
 * commits the write, and from then on the place in the map.
 *
 * Blocks get numbers when they are acknowledged.  A FLUSH ends when no block with its number or a
 * lower one is in the cache.
 *
 * The index is a tree ordered by block, not a hash as in slotmap.c.  Destaging goes through the
 * blocks in ascending order, a read looks for the end of a cached run, and a discard of any length
 * looks for the first cached block in its range.
 */
#include <linux/highmem.h>

#include "base/device.h"
#include "base/wake.h"
#include "io/io.h"
#include "io/slots.h"

/* Attempts to write a block, each at a new place. */
#define MAX_TRIES	3
#define RETRY_DELAY	msecs_to_jiffies(100)

static void insert(struct shingle_wcache *wc, struct shingle_wslot *s)
{
	struct rb_node **p = &wc->tree.rb_node, *parent = NULL;

	while (*p) {
		parent = *p;
		p = s->lblk < rb_entry(parent, struct shingle_wslot, node)->lblk ?
			&parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&s->node, parent, p);
	rb_insert_color(&s->node, &wc->tree);
}

static void put_slot(struct shingle_wcache *wc, struct shingle_wslot *s)
{
	if (s->pins) {
		s->state = SHINGLE_WSLOT_GONE;
		return;
	}
	s->state = SHINGLE_WSLOT_FREE;
	list_add(&s->link, &wc->free);
	wc->nr_free++;
}

/**
 * shingle_wslot_from() - the newest version of the first cached block from a block on
 * @wc: the cache
 * @lblk: the block
 *
 * Context: map lock.
 * Return: its slot, NULL if there is none.
 */
struct shingle_wslot *shingle_wslot_from(const struct shingle_wcache *wc, u64 lblk)
{
	struct rb_node *node = wc->tree.rb_node;
	struct shingle_wslot *found = NULL;

	while (node) {
		struct shingle_wslot *s = rb_entry(node, struct shingle_wslot, node);

		if (s->lblk < lblk) {
			node = node->rb_right;
		} else {
			found = s;
			node = node->rb_left;
		}
	}
	return found;
}

/**
 * shingle_wslot_forget() - free a slot: it is superseded, or its content is on the medium
 * @wc: the cache
 * @s: the slot
 *
 * Context: map lock.
 */
void shingle_wslot_forget(struct shingle_wcache *wc, struct shingle_wslot *s)
{
	list_del(&s->age);
	wc->nr--;
	put_slot(wc, s);
}

/* ------------------------------------------------------------------------
 * Host writes
 */

/**
 * shingle_copy_block() - copy one block between a bio and memory
 * @bio: the bio
 * @iter: where in @bio; advances
 * @mem: the memory
 * @to_bio: copy to @bio, or else from it
 *
 * Context: any.
 */
void shingle_copy_block(struct bio *bio, struct bvec_iter *iter, u8 *mem, bool to_bio)
{
	u32 done, len;

	for (done = 0; done < SHINGLE_BLOCK_SIZE; done += len) {
		struct bio_vec bv = bio_iter_iovec(bio, *iter);

		len = min_t(u32, bv.bv_len, SHINGLE_BLOCK_SIZE - done);
		if (to_bio)
			memcpy_to_page(bv.bv_page, bv.bv_offset, mem + done, len);
		else
			memcpy_from_page(mem + done, bv.bv_page, bv.bv_offset, len);
		bio_advance_iter(bio, iter, len);
	}
}

/**
 * shingle_wcache_take() - get room for a prefix of a write
 * @d: the device
 * @lblk: first block
 * @n: number of blocks
 * @slots: result, a slot for each block of the prefix
 *
 * A block that is cached already needs a second slot only while it is copied.
 *
 * Context: map lock.
 * Return: the length of the prefix, 0 if there is no room; the deferred bios are retried when there
 * may be some.
 */
u32 shingle_wcache_take(struct shingle_device *d, u64 lblk, u32 n, struct list_head *slots)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *here = shingle_wslot_from(wc, lblk), *s;
	u32 i;

	lockdep_assert_held(&d->map_lock);
	n = min(n, RUN_BLOCKS);
	for (i = 0; i < n; i++) {
		bool replaces = false;

		if (here && here->lblk == lblk + i) {
			replaces = here->state != SHINGLE_WSLOT_FLIGHT;
			here = next_of(here);
		}
		if (wc->nr_free <= (replaces ? 0 : wc->spare))
			break;
		s = list_first_entry(&wc->free, struct shingle_wslot, link);
		list_move_tail(&s->link, slots);
		wc->nr_free--;
		wc->filling++;
		s->state = SHINGLE_WSLOT_FILLING;
		s->lblk = lblk + i;
	}
	return i;
}

/* Make @s the newest version of its block. */
static void publish(struct shingle_device *d, struct shingle_wslot *s)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *old = shingle_wslot_from(wc, s->lblk);

	lockdep_assert_held(&d->map_lock);
	s->state = SHINGLE_WSLOT_DIRTY;
	s->tries = 0;
	s->twin = NULL;
	wc->dirty++;
	if (old && old->lblk != s->lblk)
		old = NULL;
	if (old)
		rb_replace_node(&old->node, &s->node, &wc->tree);
	else
		insert(wc, s);

	if (!old || old->state == SHINGLE_WSLOT_FLIGHT) {
		s->seq = ++wc->seq;
		s->since = jiffies;
		list_add_tail(&s->age, &wc->ages);
		wc->nr++;
		if (old) {
			s->twin = old;
			old->twin = s;
		}
		return;
	}
	s->seq = old->seq;
	s->since = old->since;
	list_add(&s->age, &old->age);
	wc->nr++;
	if (old->state == SHINGLE_WSLOT_LOST) {
		list_del(&old->link);
	} else {
		wc->dirty--;
		s->twin = old->twin;
		if (s->twin)
			s->twin->twin = s;
	}
	shingle_wslot_forget(wc, old);
	d->stats.n.wcache_replaced_blocks++;
}

/* Destage now, or after a time if nothing else requires it. */
static void arm(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;

	if (is_full(d) || !wc->on)
		run_now(wc);
	else if (d->config.destage_ms && !d->phase.held)
		queue_delayed_work(wc->wq, &wc->work, msecs_to_jiffies(d->config.destage_ms));
}

/**
 * shingle_wcache_fill() - copy a prefix of a write into its slots
 * @d: the device
 * @bio: the write
 * @iter: start of the prefix
 * @slots: slots from shingle_wcache_take()
 *
 * Context: process; no lock held.
 * Return: false if the device is no longer read-write; then nothing has changed.
 */
bool shingle_wcache_fill(struct shingle_device *d, struct bio *bio, struct bvec_iter iter,
			 struct list_head *slots)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s, *next;
	bool ok, kick;

	list_for_each_entry(s, slots, link) {
		if (bio_op(bio) == REQ_OP_WRITE)
			shingle_copy_block(bio, &iter, memory_of(wc, s), false);
		else
			memset(memory_of(wc, s), 0, SHINGLE_BLOCK_SIZE);
	}

	spin_lock_irq(&d->map_lock);
	ok = d->health.mode == SHINGLE_RW;
	list_for_each_entry_safe(s, next, slots, link) {
		list_del(&s->link);
		wc->filling--;
		if (ok) {
			publish(d, s);
			d->stats.n.host_write_blocks++;
			d->stats.n.wcache_write_blocks++;
		} else {
			put_slot(wc, s);
		}
	}
	if (ok)
		arm(d);
	kick = wc->waiting;
	/*
	 * Even if the cache is on: it may have been switched on again while a message waits to
	 * switch it off.
	 */
	if (!wc->filling && wq_has_sleeper(&d->wait))
		wake_up_all(&d->wait);
	spin_unlock_irq(&d->map_lock);
	if (kick)
		shingle_kick(d);
	return ok;
}

/* ------------------------------------------------------------------------
 * Host reads
 */

/**
 * shingle_wcache_find() - look up a prefix of a read
 * @d: the device
 * @lblk: first block
 * @n: number of blocks; shortened to the part that is all cached or all uncached
 * @hits: result, the slots of cached blocks; none if the first block was lost
 *
 * Context: map lock.
 * Return: whether the prefix is cached.
 */
bool shingle_wcache_find(struct shingle_device *d, u64 lblk, u32 *n, struct shingle_hits *hits)
{
	struct shingle_wslot *s = shingle_wslot_from(&d->wcache, lblk);

	lockdep_assert_held(&d->map_lock);
	hits->n = 0;
	if (!s || s->lblk - lblk >= *n)
		return false;
	if (s->lblk != lblk) {
		*n = s->lblk - lblk;
		return false;
	}
	if (s->state == SHINGLE_WSLOT_LOST) {
		*n = 1;
		return true;
	}
	*n = min_t(u32, *n, SHINGLE_WCACHE_HITS);
	do {
		s->pins++;
		hits->slot[hits->n++] = s;
		s = next_of(s);
	} while (hits->n < *n && s && s->lblk == lblk + hits->n &&
		 s->state != SHINGLE_WSLOT_LOST);
	*n = hits->n;
	d->stats.n.host_read_blocks += hits->n;
	d->stats.n.wcache_hits_blocks += hits->n;
	return true;
}

/**
 * shingle_wcache_read() - copy cached blocks into a read
 * @d: the device
 * @bio: the read, as long as @hits
 * @hits: result of shingle_wcache_find()
 *
 * Context: process; no lock held.
 */
void shingle_wcache_read(struct shingle_device *d, struct bio *bio, struct shingle_hits *hits)
{
	struct shingle_wcache *wc = &d->wcache;
	struct bvec_iter iter = bio->bi_iter;
	bool kick = false;
	u32 i;

	for (i = 0; i < hits->n; i++)
		shingle_copy_block(bio, &iter, memory_of(wc, hits->slot[i]), true);

	spin_lock_irq(&d->map_lock);
	for (i = 0; i < hits->n; i++) {
		struct shingle_wslot *s = hits->slot[i];

		if (!--s->pins && s->state == SHINGLE_WSLOT_GONE) {
			put_slot(wc, s);
			kick = wc->waiting;
		}
	}
	spin_unlock_irq(&d->map_lock);
	if (kick)
		shingle_kick(d);
}

/* ------------------------------------------------------------------------
 * Order
 */

/**
 * shingle_wcache_in_the_way() - must a request wait for cached blocks?
 * @d: the device
 * @lblk: first block
 * @n: number of blocks
 * @seq: shingle_wcache::seq when the request arrived: blocks that were acknowledged later may
 *	precede or follow it
 *
 * The request must always wait for a version in flight.  If that completed later it would replace
 * the request's version; if not, the cached copy would hide the request's version until then.
 *
 * Context: map lock.
 * Return: true if it must wait; the blocks are being destaged, and the deferred bios are retried
 * afterwards.
 */
bool shingle_wcache_in_the_way(struct shingle_device *d, u64 lblk, u64 n, u64 seq)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s;

	lockdep_assert_held(&d->map_lock);
	/* The device accepts no writes: the request will fail, and need not wait. */
	if (d->health.mode != SHINGLE_RW)
		return false;
	for (s = shingle_wslot_from(wc, lblk); s && s->lblk - lblk < n; s = next_of(s)) {
		if (s->seq > seq && !s->twin && s->state != SHINGLE_WSLOT_FLIGHT)
			continue;
		wc->drain = max(wc->drain, s->seq);
		run_now(wc);
		return true;
	}
	return false;
}

/**
 * shingle_wcache_flush() - a flush has arrived
 * @d: the device
 * @bio: the flush
 *
 * Context: map lock.
 * Return: false if there is nothing to wait for; otherwise the bio is passed to shingle_finish()
 * later.
 */
bool shingle_wcache_flush(struct shingle_device *d, struct bio *bio)
{
	struct shingle_wcache *wc = &d->wcache;

	lockdep_assert_held(&d->map_lock);
	if (!wc->nr && !d->losses.unreported && bio_list_empty(&wc->flushes))
		return false;
	shingle_bio_io(bio)->seq = wc->seq;
	wc->drain = wc->seq;
	bio_list_add(&wc->flushes, bio);
	run_now(wc);
	return true;
}

/* ------------------------------------------------------------------------
 * End of a destage
 */

/**
 * shingle_wcache_written() - a destage has ended
 * @d: the device
 * @slots: its slots
 * @failed: it could not write them
 *
 * Context: map lock, held since the engine committed or aborted it: so a reader always finds the
 * block in the cache or in the map.
 */
void shingle_wcache_written(struct shingle_device *d, struct list_head *slots, bool failed)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s, *next;

	lockdep_assert_held(&d->map_lock);
	list_for_each_entry_safe(s, next, slots, link) {
		struct shingle_wslot *newer = s->twin;

		wc->frozen -= d->gathers;
		list_del(&s->link);
		if (newer) {
			newer->twin = NULL;
			if (failed) {	/* Requests that wait for @s now wait for @newer. */
				newer->seq = s->seq;
				newer->since = s->since;
				list_move(&newer->age, &s->age);
			}
			shingle_wslot_forget(wc, s);
		} else if (!failed) {
			rb_erase(&s->node, &wc->tree);
			shingle_wslot_forget(wc, s);
		} else if (++s->tries < MAX_TRIES) {
			s->state = SHINGLE_WSLOT_DIRTY;
			wc->dirty++;
		} else {
			s->state = SHINGLE_WSLOT_LOST;
			list_add_tail(&s->link, &wc->lost);
		}
	}
	if (!failed) {
		wc->destage.rounds = 0;
	} else if (!wc->destage.rounds || time_after_eq(jiffies, wc->destage.retry_at)) {
		wc->destage.rounds++;
		wc->destage.retry_at = jiffies + RETRY_DELAY;
	}
}

/* ------------------------------------------------------------------------
 * Emptying, switching, construction
 */

static bool drained(struct shingle_device *d, u64 seq)
{
	bool done;

	spin_lock_irq(&d->map_lock);
	done = d->health.mode != SHINGLE_RW || d->phase.suspending || reached(&d->wcache, seq);
	spin_unlock_irq(&d->map_lock);
	return done;
}

/**
 * shingle_wcache_drain() - write all blocks acknowledged so far
 * @d: the device
 *
 * Does not commit the map.
 *
 * Context: a message, may sleep.
 * Return: 0, -EROFS if it cannot be written, -EIO if some blocks were lost and no flush has
 * reported it, -EAGAIN if a suspend, which writes the rest, came first, -ERESTARTSYS if killed.
 */
int shingle_wcache_drain(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	bool done;
	u64 seq;
	int err;

	if (!wc->blocks)
		return 0;
	spin_lock_irq(&d->map_lock);
	seq = wc->seq;
	wc->drain = seq;
	done = reached(wc, seq);
	if (!done)
		run_now(wc);
	spin_unlock_irq(&d->map_lock);
	if (!done) {
		err = wait_event_killable(d->wait, drained(d, seq));
		if (err)
			return err;
	}
	spin_lock_irq(&d->map_lock);
	if (reached(wc, seq))
		err = d->losses.unreported ? -EIO : 0;
	else
		err = d->health.mode == SHINGLE_RW ? -EAGAIN : -EROFS;
	spin_unlock_irq(&d->map_lock);
	return err;
}

static bool no_slot_filling(struct shingle_device *d)
{
	bool done;

	spin_lock_irq(&d->map_lock);
	done = !d->wcache.filling;
	spin_unlock_irq(&d->map_lock);
	return done;
}

/**
 * shingle_wcache_switch() - switch the cache on, or empty it and switch it off
 * @d: the device
 * @on: new state
 *
 * As ``hdparm -W``: when it is off, all acknowledged blocks are on the medium; the caller commits.
 *
 * Context: may sleep.
 * Return: as shingle_wcache_drain().
 */
int shingle_wcache_switch(struct shingle_device *d, bool on)
{
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->wcache.on, on);
	spin_unlock_irq(&d->map_lock);
	if (on)
		return 0;
	/* A write that found it on before may still be copying. */
	wait_event(d->wait, no_slot_filling(d));
	return shingle_wcache_drain(d);
}

static bool stopped(struct shingle_device *d)
{
	bool done;

	spin_lock_irq(&d->map_lock);
	done = !d->wcache.flying && (!d->wcache.nr || d->health.mode != SHINGLE_RW);
	spin_unlock_irq(&d->map_lock);
	return done;
}

/**
 * shingle_wcache_stop() - the device is being suspended
 * @d: the device, without host I/O
 *
 * Blocks that cannot be written, because the device is not read-write, stay in the cache and can be
 * read after resume.
 *
 * Context: may sleep.  Cleaning must still go on.
 */
void shingle_wcache_stop(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;

	if (!wc->blocks)
		return;
	spin_lock_irq(&d->map_lock);
	wc->drain = wc->seq;
	run_now(wc);
	spin_unlock_irq(&d->map_lock);
	wait_event(d->wait, stopped(d));
	cancel_delayed_work_sync(&wc->work);
}

/**
 * shingle_wcache_prepare() - initialise the cache before the table line is read
 * @d: the device
 *
 * Context: constructor.
 */
void shingle_wcache_prepare(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;

	wc->tree = RB_ROOT;
	INIT_LIST_HEAD(&wc->ages);
	INIT_LIST_HEAD(&wc->free);
	INIT_LIST_HEAD(&wc->lost);
	bio_list_init(&wc->flushes);
	INIT_DELAYED_WORK(&wc->work, shingle_destage_work);
}

/**
 * shingle_wcache_init() - allocate all memory that the cache will ever need
 * @d: the device, the table line read
 *
 * Context: constructor, may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_wcache_init(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	u32 nr, i;

	if (!wc->blocks)
		return 0;
	wc->spare = min(wc->blocks, RUN_BLOCKS);
	nr = wc->blocks + wc->spare;
	wc->pages = shingle_zalloc_array(DIV_ROUND_UP(nr, SLOTS_PER_PAGE), sizeof(*wc->pages));
	wc->slots = shingle_zalloc_array(nr, sizeof(*wc->slots));
	wc->wq = alloc_workqueue("shingle-destage", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!wc->pages || !wc->slots || !wc->wq)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		if (i % SLOTS_PER_PAGE == 0) {
			struct page *page = alloc_page(GFP_KERNEL);

			if (!page)
				return -ENOMEM;
			wc->pages[i / SLOTS_PER_PAGE] = page;
		}
		list_add_tail(&wc->slots[i].link, &wc->free);
	}
	wc->nr_free = nr;
	return bioset_init(&wc->bios, DEPTH, offsetof(struct shingle_destage, bio),
			   BIOSET_NEED_BVECS);
}

/**
 * shingle_wcache_exit() - undo prepare and init
 * @d: the device, not in use
 *
 * Context: may sleep.
 */
void shingle_wcache_exit(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	u32 i;

	cancel_delayed_work_sync(&wc->work);
	if (wc->wq)
		destroy_workqueue(wc->wq);
	bioset_exit(&wc->bios);
	if (wc->pages) {
		for (i = 0; i < DIV_ROUND_UP(wc->blocks + wc->spare, SLOTS_PER_PAGE); i++) {
			if (wc->pages[i])
				__free_page(wc->pages[i]);
		}
	}
	kvfree(wc->pages);
	kvfree(wc->slots);
}
