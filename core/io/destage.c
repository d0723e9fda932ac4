// SPDX-License-Identifier: GPL-2.0
/*
 * Destaging: a worker writes the blocks of the write cache in the same way as host writes, in
 * ascending order, and completes flushes that need not wait any more.
 */
#include "base/device.h"
#include "base/mode.h"
#include "base/trace.h"
#include "base/wake.h"
#include "io/io.h"
#include "io/slots.h"
#include "log/log.h"
#include "map/map.h"

/* One of this number of runs begins with the oldest block, wherever it is. */
#define BATCH		16
/* After this number of rounds without a success the device is regarded as unwritable. */
#define MAX_ROUNDS	10

/* Choose the start of the next run: from the cursor upwards, and then again from block 0. */
static struct shingle_wslot *pick(struct shingle_wcache *wc)
{
	struct shingle_wslot *s;

	/*
	 * If the host keeps writing just ahead of the cursor, the cursor never reaches the blocks
	 * that a flush waits for: so every BATCH-th run begins with the oldest block.  A run that
	 * was refused comes first even then; the cursor is at its start.
	 */
	if (!wc->destage.refused && wc->destage.picks % BATCH == BATCH - 1) {
		list_for_each_entry(s, &wc->ages, age) {
			if (eligible(s))
				return s;
		}
		return NULL;
	}
	for (s = shingle_wslot_from(wc, wc->destage.cursor); s; s = next_of(s)) {
		if (eligible(s))
			return s;
	}
	for (s = shingle_wslot_from(wc, 0); s && s->lblk < wc->destage.cursor; s = next_of(s)) {
		if (eligible(s))
			return s;
	}
	return NULL;
}

static enum shingle_destage_why wanted(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;

	if (!wc->dirty || wc->flying >= (d->gathers ? 1 : DEPTH) || wc->destage.blocked ||
	    d->health.mode != SHINGLE_RW ||
	    (wc->destage.rounds && time_before(jiffies, wc->destage.retry_at)))
		return SHINGLE_DESTAGE_NOT;
	if (!wc->on)
		return SHINGLE_DESTAGE_OFF;
	if (wc->destage.refused)
		return SHINGLE_DESTAGE_AGAIN;
	if (is_full(d))
		return SHINGLE_DESTAGE_FULL;
	if (reached(wc, wc->drain))
		return SHINGLE_DESTAGE_NOT;
	return bio_list_empty(&wc->flushes) ? SHINGLE_DESTAGE_DUE : SHINGLE_DESTAGE_FLUSH;
}

/* ------------------------------------------------------------------------
 * Runs in flight
 */

/*
 * Called when the map contains the run, or the write has failed: so a reader always finds the block
 * in the cache or in the map.
 */
static void landed(struct shingle_device *d, struct shingle_write *w, bool failed)
{
	struct shingle_destage *g = container_of(w, struct shingle_destage, w);

	shingle_wcache_written(d, &g->slots, failed);
}

static void destage_end_io(struct bio *bio)
{
	struct shingle_destage *g = container_of(bio, struct shingle_destage, bio);
	struct shingle_device *d = g->d;
	unsigned long flags;

	shingle_write_done(d, &g->w, bio->bi_status, landed);
	bio_put(bio);
	/* Last: a waiter may free the device. */
	spin_lock_irqsave(&d->map_lock, flags);
	d->wcache.flying--;
	run_now(&d->wcache);
	wake_up_all(&d->wait);
	spin_unlock_irqrestore(&d->map_lock, flags);
}

/*
 * Move @n slots, from @s on, to state FLIGHT, add them to the list of @g, and add their pages to
 * its bio.
 */
static void load(struct shingle_device *d, struct shingle_destage *g, struct shingle_wslot *s,
		 u32 n)
{
	struct shingle_wcache *wc = &d->wcache;

	for (; n; n--, s = next_of(s)) {
		s->state = SHINGLE_WSLOT_FLIGHT;
		wc->dirty--;
		list_add_tail(&s->link, &g->slots);
		__bio_add_page(&g->bio, page_of(wc, s), SHINGLE_BLOCK_SIZE, offset_of(wc, s));
	}
}

/*
 * Destage a run.  As for a piece of a host's write, the bio must be complete before the lock is
 * released: the end of an earlier write may submit it.  Returns false if there is nothing to do, or
 * no room.
 */
static bool destage(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s, *end;
	enum shingle_destage_why why;
	struct shingle_destage *g;
	bool held = false;
	struct bio *bio;
	u32 n = 0;
	int r = -ENOENT;

	bio = bio_alloc_bioset(d->disks.dev[SHINGLE_DEV_DATA]->bdev, RUN_BLOCKS, REQ_OP_WRITE,
			       GFP_NOIO, &wc->bios);
	bio->bi_end_io = destage_end_io;
	g = container_of(bio, struct shingle_destage, bio);
	g->d = d;
	INIT_LIST_HEAD(&g->slots);

	spin_lock_irq(&d->map_lock);
	why = wanted(d);
	s = why ? pick(wc) : NULL;
	if (!s)
		goto out;
	for (end = s; end && n < RUN_BLOCKS && end->lblk == s->lblk + n && eligible(end); n++)
		end = next_of(end);
	ask_for(d, wc);
	r = shingle_place(d, s->lblk, n, &g->w, bio);
	asked_for(d, wc, r == SHINGLE_ABSENT);
	if (r == SHINGLE_FULL) {
		/* This block can never be written; others, and the device, are not affected. */
		s->state = SHINGLE_WSLOT_LOST;
		wc->dirty--;
		list_add_tail(&s->link, &wc->lost);
		wc->destage.refused = false;
	} else if (r == -EIO) {
		/*
		 * Core has refused the write; for these blocks that is equivalent to a medium
		 * error.
		 */
		load(d, g, s, n);
		wc->destage.refused = false;
		shingle_wcache_written(d, &g->slots, true);
	} else if (r) {
		/* Until this run is tried again the engine may refuse others. */
		wc->destage.blocked = true;
		wc->destage.refused = true;
		wc->destage.cursor = s->lblk;
	} else {
		n = g->w.run.n;
		load(d, g, s, n);
		shingle_remap(d, bio, g->w.run.pblk);
		wc->flying++;
		wc->destage.picks++;
		wc->destage.refused = false;
		wc->destage.cursor = s->lblk + n;
		d->stats.n.wcache_destages++;
		d->stats.n.wcache_destage_blocks += n;
		held = g->w.held;
		trace_shingle_destage(d, &g->w.run, why);
	}
out:
	spin_unlock_irq(&d->map_lock);
	if (r)
		bio_put(bio);
	else if (!held)
		submit_bio_noacct(bio);
	return !r || r == -EIO || r == SHINGLE_FULL;
}

/*
 * Blocks that could not be written become unreadable, as if the medium had lost them, and the next
 * flush reports a loss.
 */
static void give_up_blocks(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	bool full = false, kick = false;
	struct shingle_wslot *s;

	spin_lock_irq(&d->map_lock);
	while ((s = list_first_entry_or_null(&wc->lost, struct shingle_wslot, link))) {
		struct shingle_record rec;
		struct shingle_emit emit = { .rec = &rec, .max = 1 };

		if (d->health.mode != SHINGLE_RW)
			break;
		/* A record must not restore what a reset deletes. */
		if (d->phase.resetting) {
			wc->destage.blocked = true;
			break;
		}
		full = d->bad.nr == SHINGLE_MAX_BAD;
		if (full)
			break;
		if (!shingle_journal_reserve(d, 1)) {
			wc->destage.blocked = true;
			break;
		}
		shingle_bad_add(&d->bad, s->lblk);
		emit.seq = d->journal.seq;
		shingle_emit(&emit, SHINGLE_REC_BAD, 0, 0, s->lblk, 0);
		shingle_journal_add(d, 1, &emit);
		d->stats.n.wcache_lost_blocks++;
		d->losses.unreported++;
		DMERR_LIMIT("%s: block %llu was acknowledged and cannot be written",
			    dm_table_device_name(d->ti->table), s->lblk);
		list_del(&s->link);
		rb_erase(&s->node, &wc->tree);
		shingle_wslot_forget(wc, s);
		kick = shingle_waiting(d);
	}
	full |= wc->destage.rounds >= MAX_ROUNDS;
	spin_unlock_irq(&d->map_lock);
	if (kick)
		shingle_kick(d);
	if (full)
		shingle_set_mode(d, SHINGLE_RO, false,
				 "the write cache cannot be emptied, see the errors of its devices");
}

/* ------------------------------------------------------------------------
 * Timing
 */

/* Complete the flushes that need not wait any more. */
static void release_flushes(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	struct bio_list ready = BIO_EMPTY_LIST;
	bool failed = false;
	struct bio *bio;

	spin_lock_irq(&d->map_lock);
	while ((bio = bio_list_peek(&wc->flushes))) {
		bool there = reached(wc, shingle_bio_io(bio)->seq);

		/* Destages in flight may still succeed. */
		if (!there && (d->health.mode == SHINGLE_RW || wc->flying))
			break;
		bio_list_add(&ready, bio_list_pop(&wc->flushes));
		failed |= !there || d->losses.unreported;
	}
	if (failed)
		d->losses.unreported = 0;
	spin_unlock_irq(&d->map_lock);

	while ((bio = bio_list_pop(&ready))) {
		if (failed)
			shingle_bio_io(bio)->status = BLK_STS_IOERR;
		shingle_end_part(d, bio);
	}
}

/* Set the time of the next run of the worker, unless an event before that will start it. */
static void rearm(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	unsigned long at, now = jiffies;

	lockdep_assert_held(&d->map_lock);
	if (!wc->dirty || wc->flying || wc->destage.blocked || d->health.mode != SHINGLE_RW)
		return;
	if (wc->destage.rounds && time_before(now, wc->destage.retry_at))
		at = wc->destage.retry_at;
	else if (d->config.destage_ms && !d->phase.held)
		at = oldest(wc)->since + msecs_to_jiffies(d->config.destage_ms);
	else
		return;
	queue_delayed_work(wc->wq, &wc->work, time_after(at, now) ? at - now : 1);
}

/**
 * shingle_destage_work() - write what is due, and complete the flushes that waited for it
 * @work: shingle_wcache::work
 *
 * Context: workqueue.
 */
void shingle_destage_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(to_delayed_work(work), struct shingle_device,
						wcache.work);
	struct shingle_wcache *wc = &d->wcache;
	struct shingle_wslot *s;
	bool go;

	spin_lock_irq(&d->map_lock);
	wc->destage.blocked = false;
	s = oldest(wc);
	if (s && d->config.destage_ms &&
	    time_after_eq(jiffies, s->since + msecs_to_jiffies(d->config.destage_ms)))
		wc->drain = wc->seq;
	spin_unlock_irq(&d->map_lock);

	give_up_blocks(d);
	do {
		spin_lock_irq(&d->map_lock);
		go = wanted(d);
		if (go && d->gathers)
			shingle_want_epoch(d);
		spin_unlock_irq(&d->map_lock);
	} while (go && !d->gathers && destage(d));
	/* Blocks that were refused just now; otherwise flushes would wait for them. */
	give_up_blocks(d);
	release_flushes(d);

	spin_lock_irq(&d->map_lock);
	rearm(d);
	spin_unlock_irq(&d->map_lock);
	wake_up_all(&d->wait);
}

/**
 * shingle_wcache_kick() - continue a destage that was blocked
 * @d: the device
 *
 * Context: any.
 */
void shingle_wcache_kick(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	unsigned long flags;

	spin_lock_irqsave(&d->map_lock, flags);
	if (wc->destage.blocked || d->health.mode != SHINGLE_RW)
		run_now(wc);
	spin_unlock_irqrestore(&d->map_lock, flags);
}

/**
 * shingle_wcache_look() - destage_ms has changed: compute again when the next block is due
 * @d: the device
 *
 * The blocks may wait for a timer that was set before, or for none.
 *
 * Context: any.
 */
void shingle_wcache_look(struct shingle_device *d)
{
	struct shingle_wcache *wc = &d->wcache;
	unsigned long flags;

	spin_lock_irqsave(&d->map_lock, flags);
	if (wc->dirty && !READ_ONCE(d->phase.suspended))
		run_now(wc);
	spin_unlock_irqrestore(&d->map_lock, flags);
}
