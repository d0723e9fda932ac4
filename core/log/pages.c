// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of a map: read on demand and written by checkpoints.
 *
 * An operation that lacks a page asks for it under the map lock, and waits.  A worker reads the
 * pages that are wanted, as many at a time as there are bios for; a page that several operations
 * wait for is read once.  When it has been read, the waiting operations are woken and call the
 * engine again.
 *
 * If the device fails, so does the operation, and the next one reads the page again.  A page that
 * is damaged, or lost by the medium, stays unreadable: then the device becomes read-only.
 */
#include <linux/sort.h>

#include "base/device.h"
#include "base/mode.h"
#include "base/wake.h"
#include "log/log.h"
#include "medium/medium.h"

/*
 * Number of reads in one batch.  Operations that wait for a page are woken once for all reads that
 * end while the batch is being started.  The pool has a bio for each read of a batch, so that
 * starting it needs no further memory.
 */
#define READS_BATCH	32

/**
 * struct page_read - a page being read
 * @d: the device
 * @e: the engine with the page
 * @frame: its frame
 * @bio: last member, as bio_set requires
 */
struct page_read {
	struct shingle_device *d;
	struct shingle_engine *e;
	u32 frame;
	struct bio bio;
};

static bool has_pages(const struct shingle_device *d)
{
	return d->ops->pages.nr_pages;
}

/* ------------------------------------------------------------------------
 * Reading
 */

/* Wake the operations that wait for a page, or for room. */
static void wake_all(struct shingle_device *d)
{
	lockdep_assert_held(&d->map_lock);
	d->pager.events++;
	if (shingle_waiting(d))
		shingle_kick(d);
	if (d->pager.clean_waits)
		shingle_wake_cleaner(d);
	d->pager.clean_waits = false;
	wake_up_all(&d->wait);
}

static void page_end_io(struct bio *bio)
{
	struct page_read *r = container_of(bio, struct page_read, bio);
	int err = blk_status_to_errno(bio->bi_status);
	struct shingle_pages *p = r->e->pages;
	struct shingle_frame *f = &p->frames.frame[r->frame];
	enum shingle_page_place place = shingle_place_of(p->places.now, f->nr);
	struct shingle_device *d = r->d;
	u32 frame = r->frame;
	unsigned long flags;

	/* No other code touches the frame, or the place of a page that is not in RAM. */
	if (!err)
		err = shingle_page_check(&d->layout, r->e, f->block, f->nr, place);
	if (err)
		DMERR_LIMIT("%s: page %u of the map %s (%d)", dm_table_device_name(d->ti->table),
			    f->nr, err == -EUCLEAN ? "is damaged" : "cannot be read", err);
	bio_put(bio);
	spin_lock_irqsave(&d->map_lock, flags);
	/* Last, and within the lock: a waiter may free the device. */
	if (shingle_pages_here(p, frame, err)) {
		d->pager.failed++;
		queue_work(d->pager.wq, &d->pager.work);
	} else {
		d->pager.reading--;
		if (d->pager.beginning)
			d->pager.again = true;
		else
			wake_all(d);
	}
	spin_unlock_irqrestore(&d->map_lock, flags);
}

/* Begin to read the next wanted page; false if there is none. */
static bool read_one(struct shingle_device *d)
{
	enum shingle_dev dev = shingle_meta_dev(&d->layout);
	enum shingle_page_place place;
	struct shingle_pages *p;
	struct shingle_frame *f;
	struct page_read *r;
	struct bio *bio;
	u32 i;

	/* Allocate before a page is taken: reads in flight return their bios. */
	bio = bio_alloc_bioset(d->disks.dev[dev]->bdev, 2, REQ_OP_READ | REQ_META, GFP_NOIO,
			       &d->pager.bios);
	r = container_of(bio, struct page_read, bio);
	spin_lock_irq(&d->map_lock);
	p = d->engine->pages;
	i = shingle_pages_wanted(p);
	if (i == SHINGLE_NO_PAGE) {
		spin_unlock_irq(&d->map_lock);
		bio_put(bio);
		return false;
	}
	d->pager.reading++;
	f = &p->frames.frame[i];
	place = shingle_place_of(p->places.now, f->nr);
	bio->bi_iter.bi_sector = shingle_page_block(&d->layout, f->nr, place) <<
				 SHINGLE_SECTORS_SHIFT;
	r->d = d;
	r->e = d->engine;
	r->frame = i;
	spin_unlock_irq(&d->map_lock);
	bio->bi_end_io = page_end_io;
	shingle_add_buffer(bio, f->block, SHINGLE_BLOCK_SIZE);
	submit_bio_noacct(bio);
	return true;
}

/*
 * Begin to read some of the wanted pages; false if there are no more.  If reads end while others
 * are begun, waking the waiters for each of them would be mostly in vain.
 */
static bool read_some(struct shingle_device *d)
{
	u32 n = 0;

	spin_lock_irq(&d->map_lock);
	d->pager.beginning = true;
	spin_unlock_irq(&d->map_lock);
	while (n < READS_BATCH && read_one(d))
		n++;
	spin_lock_irq(&d->map_lock);
	d->pager.beginning = false;
	if (d->pager.again)
		wake_all(d);
	d->pager.again = false;
	spin_unlock_irq(&d->map_lock);
	return n == READS_BATCH;
}

static void pages_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(work, struct shingle_device, pager.work);
	u32 failed;

	while (read_some(d))
		cond_resched();
	spin_lock_irq(&d->map_lock);
	failed = d->pager.failed;
	d->pager.failed = 0;
	spin_unlock_irq(&d->map_lock);
	if (!failed)
		return;
	/* First the mode, then the waiters, which may look at the mode. */
	shingle_set_mode(d, SHINGLE_RO, true, "a page of the map cannot be used");
	spin_lock_irq(&d->map_lock);
	d->pager.reading -= failed;
	wake_all(d);
	spin_unlock_irq(&d->map_lock);
}

/**
 * shingle_await_page() - the engine has just returned that it lacks a page, or room for one
 * @d: the device
 *
 * The operation will be woken like those that wait for the end of a write.
 *
 * Context: map lock, in the critical section of the call of the engine; before shingle_pages_end().
 * Return: SHINGLE_ABSENT, and the operation waits; or -EIO if the page cannot be read.
 */
int shingle_await_page(struct shingle_device *d)
{
	enum shingle_page_client client = d->engine->pages->call.client;
	bool again = shingle_pages_here_already(d->engine);
	int err;

	lockdep_assert_held(&d->map_lock);
	err = shingle_pages_ask(d->engine->pages);
	if (!err) {
		d->pager.again |= again;
		queue_work(d->pager.wq, &d->pager.work);
		return SHINGLE_ABSENT;
	}
	if (err != -EBUSY && err != -EAGAIN)
		return -EIO;
	/* Writes in flight hold pages, and other pages wait for a footer. */
	d->waiters.awaits_write = true;
	/*
	 * A reader causes no checkpoint: the next page that arrives wakes all, and its frame can be
	 * replaced.
	 */
	if (err == -EAGAIN && d->engine->pages->coming)
		return SHINGLE_ABSENT;
	/*
	 * Neither does a request that only waits for the end of the writes that hold all changeable
	 * pages.
	 */
	if (err == -EBUSY && client <= SHINGLE_CLIENT_IO && !d->engine->pages->changes.nr_dirty)
		return SHINGLE_ABSENT;
	d->pager.over_limit = true;
	queue_work(d->log.wq, &d->log.ckpt_work);
	return SHINGLE_ABSENT;
}

/* ------------------------------------------------------------------------
 * Checkpoints
 */

static int by_number(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

/* Write @n pages, each to the place that is not valid. */
static int write_batch(struct shingle_device *d, struct shingle_pages *p, u32 *nr, u32 n, u64 seq)
{
	enum shingle_dev dev = shingle_meta_dev(&d->layout);
	enum shingle_page_place place;
	struct shingle_batch b;
	u32 i;

	shingle_batch_init(&b);
	sort(nr, n, sizeof(*nr), by_number, NULL);
	for (i = 0; i < n; i++) {
		struct shingle_chunk *c = (void *)(d->log.meta_buf + i * SHINGLE_BLOCK_SIZE);

		spin_lock_irq(&d->map_lock);
		shingle_pages_copy(p, nr[i], c->payload);
		place = shingle_place_of(p->places.next, nr[i]);
		spin_unlock_irq(&d->map_lock);
		shingle_page_seal(&d->layout, c, nr[i], place, seq);
		shingle_batch_io(d, &b, REQ_OP_WRITE | REQ_META, dev,
				 shingle_page_block(&d->layout, nr[i], place), 1, c);
	}
	shingle_batch_wait(&b);
	return b.failed ? -EIO : 0;
}

/**
 * shingle_pages_write() - write the pages that have changed
 * @d: the device
 * @e: the engine
 * @seq: number of the checkpoint
 *
 * They become valid with the footer of the checkpoint.
 *
 * Context: may sleep, ckpt_lock.
 * Return: 0 or -EIO.
 */
int shingle_pages_write(struct shingle_device *d, struct shingle_engine *e, u64 seq)
{
	u32 cursor = 0, nr[SHINGLE_META_BATCH], n;
	struct shingle_pages *p = e->pages;
	int err = 0;

	BUILD_BUG_ON(sizeof(nr) > 256);
	lockdep_assert_held(&d->log.ckpt_lock);
	while (p && !err && cursor != SHINGLE_NO_PAGE) {
		spin_lock_irq(&d->map_lock);
		n = shingle_pages_dirty(p, &cursor, nr, ARRAY_SIZE(nr));
		spin_unlock_irq(&d->map_lock);
		if (n)
			err = write_batch(d, p, nr, n, seq);
		cond_resched();
	}
	return err;
}

/**
 * shingle_pages_checkpoint_done() - a checkpoint has its footer, or has failed
 * @d: the device
 * @e: the engine
 * @good: it has its footer
 *
 * Context: may sleep, ckpt_lock.
 */
void shingle_pages_checkpoint_done(struct shingle_device *d, struct shingle_engine *e, bool good)
{
	bool more = e->pages;
	u32 cursor = 0;

	lockdep_assert_held(&d->log.ckpt_lock);
	while (more) {
		spin_lock_irq(&d->map_lock);
		more = shingle_pages_written(e->pages, &cursor, good);
		if (!more) {
			d->pager.over_limit = false;
			/* The bio that waited may not need a page any more. */
			d->pager.oldest = NULL;
			wake_all(d);
		}
		spin_unlock_irq(&d->map_lock);
		cond_resched();
	}
}

/**
 * shingle_pages_look_again() - a checkpoint was requested, and there will be none
 * @d: the device
 *
 * If nothing can be written, only the pages that waiting operations keep are in the way; they let
 * go of these when they are woken.
 *
 * Context: may sleep.
 */
void shingle_pages_look_again(struct shingle_device *d)
{
	spin_lock_irq(&d->map_lock);
	if (d->pager.over_limit)
		wake_all(d);
	d->pager.over_limit = false;
	spin_unlock_irq(&d->map_lock);
}

/**
 * shingle_pages_want_checkpoint() - should a checkpoint be taken because of changed pages?
 * @d: the device
 *
 * Context: map lock.
 * Return: true if it should.
 */
bool shingle_pages_want_checkpoint(const struct shingle_device *d)
{
	return d->pager.over_limit || shingle_pages_pressed(d->engine);
}

/* ------------------------------------------------------------------------
 * Construction
 */

static void press(void *ctx)
{
	struct shingle_device *d = ctx;

	queue_work(d->log.wq, &d->log.ckpt_work);
}

/**
 * shingle_pages_give() - give an engine frames for the pages of its map, if it is paged
 * @d: the device
 * @e: the engine, fresh from create
 * @why: on error, a sentence
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int shingle_pages_give(struct shingle_device *d, struct shingle_engine *e, const char **why)
{
	u32 frames = e->map_cache_kb / (SHINGLE_BLOCK_SIZE / 1024);
	int err = shingle_pages_create_for(e, &d->layout, frames, why);

	if (e->pages) {
		e->pages->changes.press = press;
		e->pages->changes.ctx = d;
	}
	return err;
}

/**
 * shingle_pager_init() - prepare the worker that reads pages
 * @d: the device, its engine known
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_pager_init(struct shingle_device *d)
{
	INIT_WORK(&d->pager.work, pages_work);
	if (!has_pages(d))
		return 0;
	d->pager.wq = alloc_workqueue("shingle-pages", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!d->pager.wq)
		return -ENOMEM;
	return bioset_init(&d->pager.bios, READS_BATCH, offsetof(struct page_read, bio),
			   BIOSET_NEED_BVECS);
}

static bool none_reading(struct shingle_device *d)
{
	bool none;

	/* The lock makes sure that the last page_end_io() has released it. */
	spin_lock_irq(&d->map_lock);
	none = !d->pager.reading;
	spin_unlock_irq(&d->map_lock);
	return none;
}

/**
 * shingle_pager_stop() - wait for the reads in flight
 * @d: the device, without any request that may want a page
 *
 * Context: may sleep.
 */
void shingle_pager_stop(struct shingle_device *d)
{
	if (!d->pager.wq)
		return;
	flush_work(&d->pager.work);
	wait_event(d->wait, none_reading(d));
	flush_work(&d->pager.work);
}

/**
 * shingle_pager_exit() - undo shingle_pager_init()
 * @d: the device
 *
 * Context: may sleep.
 */
void shingle_pager_exit(struct shingle_device *d)
{
	if (d->pager.wq)
		destroy_workqueue(d->pager.wq);
	bioset_exit(&d->pager.bios);
}
