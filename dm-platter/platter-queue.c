// SPDX-License-Identifier: GPL-2.0
/*
 * The queue: accepts requests, chooses the next one for the actuator, and completes them.
 *
 * A request moves from .map to incoming (spinlock), to pending (arrival order), to visible
 * (at most queue_depth; the scheduler chooses from these), to the actuator, to completion.
 * One work item does all of it under p->lock; a high-resolution timer and completions of
 * the backing device only queue this work item.
 *
 * The model's clock is CLOCK_MONOTONIC.
 */
#include <linux/blkdev.h>
#include <linux/math64.h>

#include "compat.h"
#include "events.h"
#include "platter.h"

static u64 model_now(void)
{
	return ktime_get_ns();
}

/* -------------------------------------------------------------- completion */

/* Add @io to @done; platter_end_ios() ends it after p->lock is dropped. */
static void end_io(struct platter *p, struct platter_io *io, u64 now,
		   struct list_head *done)
{
	/* a hit that waited for a place in the queue could not end before it got one */
	u64 due_ns = max(io->due_ns, io->held_ns);

	if (p->opt.timing && io->due_ns && now > due_ns + PLATTER_LATE_NS) {
		u64 us = div_u64(now - due_ns, 1000);

		platter_count(p, PC_late, 1);
		if (us > atomic64_read(&p->counter[PC_late_max_us]))
			atomic64_set(&p->counter[PC_late_max_us], us);
	}
	if (io->status)
		platter_count(p, PC_errors, 1);
	p->queue.nr_visible--;
	list_add_tail(&io->list, done);
}

/**
 * platter_end_ios() - complete requests to the submitter
 * @done: list of struct platter_io
 *
 * Context: without p->lock, because a completion may submit more requests.
 */
void platter_end_ios(struct list_head *done)
{
	struct platter_io *io, *next;

	list_for_each_entry_safe(io, next, done, list) {
		list_del(&io->list);
		io->bio->bi_status = io->status;
		bio_endio(io->bio);
	}
}

/* Put a request on the actuator. */
static void start_io(struct platter *p, struct platter_io *io, u64 now, struct list_head *done)
{
	if (platter_actuator_start(p, io, now))
		platter_power_off(p, done);
}

static bool finish_active(struct platter *p, u64 now, struct list_head *done)
{
	struct platter_io *io = platter_actuator_finish(p, now);

	if (!io)
		return false;
	/* A destage that outlived its cache, or an old cached version, has delayed a flush. */
	platter_update_fast(p);
	if (io->destage || (io->write && !p->wcache.count))
		wake_up_all(&p->wcache.drained);
	if (io->destage)
		return true;
	p->queue.last_host_ns = now;
	end_io(p, io, now, done);
	return true;
}

static bool start_destage(struct platter *p, u64 now, enum platter_destage_why why,
			  struct list_head *done)
{
	struct platter_io *io = &p->wcache.io;
	struct bio *bio;
	u64 blk;
	u32 n;

	bio = platter_cache_run(p, &blk, &n);
	if (!bio)
		return false;
	memset(io, 0, sizeof(*io));
	INIT_LIST_HEAD(&io->list);
	io->target = p;
	io->bio = bio;
	io->blk = blk;
	io->n = n;
	io->write = true;
	io->destage = true;
	/* the drive continues to write its cache without the host */
	io->arrival_ns = p->act.destaged_ns ?: now;
	trace_platter_destage(p, blk, n, why);
	start_io(p, io, now, done);
	return true;
}

/* After a power cut a destage may still be in progress although the cache is empty. */
static bool destaging(struct platter *p)
{
	return p->wcache.count || (p->act.io && p->act.io->destage);
}

/* Does a request wait for the cache to shrink? */
static enum platter_destage_why cache_pressure(struct platter *p)
{
	struct platter_io *io;

	if (!p->wcache.count)
		return PLATTER_DESTAGE_NOT;
	if (!p->wcache.on)
		return PLATTER_DESTAGE_OFF;
	if (!list_empty(&p->queue.flushing))
		return PLATTER_DESTAGE_FLUSH;
	if (p->wcache.count > platter_wcache_blocks(p) / 2)
		return PLATTER_DESTAGE_FULL;
	list_for_each_entry(io, &p->queue.visible, list)
		if (io->state == IO_SPACE || io->behind)
			return PLATTER_DESTAGE_BEHIND;
	return PLATTER_DESTAGE_NOT;
}

/*
 * The time when the drive has been idle for wcache_idle_ms, or ~0 if it is busy.  The pause
 * begins when the last request of the host has ended.
 */
static u64 destage_idle_at(struct platter *p)
{
	if (p->queue.nr_visible)
		return ~0ULL;
	return p->queue.last_host_ns + (u64)p->opt.wcache_idle_ms * 1000 * p->opt.cfg.time_permille;
}

/*
 * Blocks cached before a write past the cache came may destroy it when they are written
 * later; so the write waits for them.  Blocks cached since then need not be waited for.
 */
static bool threatened(struct platter *p, struct platter_io *io)
{
	if (io->behind && !platter_cache_threatens(p, io->blk, io->n, io->behind))
		io->behind = 0;
	return io->behind;
}

/* Choose the oldest request, or the one that the head reaches first. */
static struct platter_io *choose(struct platter *p, u64 now)
{
	u64 starved = div_u64(PLATTER_STARVED_NS * p->opt.cfg.time_permille, 1000);
	struct platter_io *io, *best = NULL;
	u64 best_ns = 0;

	platter_mech_advance(&p->mech, now);
	list_for_each_entry(io, &p->queue.visible, list) {
		u64 start, ns;

		if (io->state != IO_QUEUED || threatened(p, io))
			continue;
		/* the list is in order of arrival: only its first entry can be starved */
		if (!best && (!p->opt.sptf || !p->opt.timing || now > io->arrival_ns + starved))
			return io;
		start = max(p->mech.free_ns, io->arrival_ns + p->mech.overhead_ns);
		ns = start + platter_mech_position_ns(&p->mech, start, io->blk,
						      io->write);
		if (!best || ns < best_ns) {
			best = io;
			best_ns = ns;
		}
	}
	return best;
}

static bool start_next(struct platter *p, u64 now, struct list_head *done)
{
	enum platter_destage_why why;
	struct platter_io *io;

	if (p->act.io || p->power.off || p->power.quiescing)
		return false;
	io = choose(p, now);
	why = cache_pressure(p);
	if (why && (!io || !p->act.was_destage))
		return start_destage(p, now, why, done);
	if (io) {
		list_del_init(&io->list);
		start_io(p, io, now, done);
		return true;
	}
	if (p->wcache.count && now >= destage_idle_at(p))
		return start_destage(p, now, PLATTER_DESTAGE_IDLE, done);
	return false;
}

/* --------------------------------------------------------------- admission */

static void admit_timed(struct platter *p, struct platter_io *io, u64 due_ns)
{
	io->state = IO_TIMED;
	io->due_ns = p->opt.timing ? due_ns : 0;
	list_add_tail(&io->list, &p->queue.timed);
}

static void admit_media(struct platter *p, struct platter_io *io)
{
	if (io->write)
		io->behind = platter_cache_generation(p);
	/* test at once, so that only writes that must wait count as waiting for the cache */
	threatened(p, io);
}

static bool admit_cached_write(struct platter *p, struct platter_io *io, u64 now)
{
	int r;

	if (!p->wcache.on || io->fua || io->n > platter_wcache_blocks(p) / 2)
		return false;
	r = platter_cache_write(p, io->bio, io->blk, io->n);
	if (r == -ENOMEM)
		return false;
	if (r) {
		io->state = IO_SPACE;
		return true;
	}
	platter_mech_invalidate(&p->mech, io->blk, io->n);
	platter_count(p, PC_wcache_writes, 1);
	admit_timed(p, io, now + p->mech.write_overhead_ns +
		    (u64)io->n * p->mech.bus_block_ns);
	platter_log_io(p, PLATTER_OP_CACHE_WRITE, io->blk, io->n, now, io->due_ns, NULL);
	return true;
}

static bool admit_read_hit(struct platter *p, struct platter_io *io, u64 now)
{
	u64 ready = io->arrival_ns + p->mech.overhead_ns;
	u64 due = ready + (u64)io->n * p->mech.bus_block_ns;
	bool any;

	if (platter_cache_overlaps(p, io->blk, io->n, &any)) {
		platter_cache_read(p, io->bio, io->blk);
		platter_count(p, PC_wcache_read_hits, 1);
		if (io->arrival_ns <= p->queue.full_ns)
			io->held_ns = now;
		admit_timed(p, io, due);
		platter_log_io(p, PLATTER_OP_CACHE_READ, io->blk, io->n, now, due, NULL);
		return true;
	}
	/*
	 * While the actuator works, only what is already in the buffer can hit.
	 * platter_mech_lookahead() knows this, because the service ended the look-ahead.
	 */
	if (any || !p->act.lookahead_on || !p->opt.timing)
		return false;
	if (damage_count(&p->state.damage, io->blk, io->n))
		return false;
	if (!platter_mech_lookahead(&p->mech, max(ready, now), io->blk, io->n, &due))
		return false;
	platter_count(p, PC_lookahead_hits, 1);
	admit_timed(p, io, due);
	platter_log_io(p, PLATTER_OP_LOOKAHEAD, io->blk, io->n, now, due, NULL);
	if (p->disk.dev)
		platter_issue(p, io, io->n);
	else
		zero_fill_bio(io->bio);
	return true;
}

static void admit_flush(struct platter *p, struct platter_io *io, u64 now)
{
	u64 due;

	platter_count(p, PC_flushes, 1);
	if (platter_loss_report(p)) {
		platter_update_fast(p);
		io->status = BLK_STS_IOERR;
	}
	if (p->state.dev && blkdev_issue_flush(p->state.dev->bdev))
		io->status = BLK_STS_IOERR;
	due = now + p->mech.overhead_ns;
	if (p->opt.timing && p->mech.flush_ns) {
		p->queue.flushed_ns = platter_pay_flush(p, due);
		due = p->queue.flushed_ns;
	}
	admit_timed(p, io, due);
	if (p->disk.dev)
		platter_issue(p, io, 0);
}

/*
 * Move requests from pending to visible.  A flush is not a queued command: it waits until
 * the cache is empty, and later requests wait for the flush, also for its time if flush_us
 * is set.
 */
static bool admit(struct platter *p, u64 now)
{
	struct platter_io *io, *next;
	bool progress = false;

	if (p->queue.nr_visible >= p->opt.queue_depth || !list_empty(&p->queue.flushing) ||
	    now < p->queue.flushed_ns)
		p->queue.full_ns = now;
	list_for_each_entry(io, &p->queue.visible, list) {
		if (io->state == IO_SPACE) {
			list_del_init(&io->list);
			io->state = IO_QUEUED;
			if (!admit_cached_write(p, io, now)) {
				admit_media(p, io);
				list_add(&io->list, &p->queue.visible);
			} else if (io->state == IO_SPACE) {
				list_add(&io->list, &p->queue.visible);
				break;
			}
			progress = true;
			break;
		}
	}

	io = list_first_entry_or_null(&p->queue.flushing, struct platter_io, list);
	if (io) {
		if (destaging(p))
			return progress;
		list_for_each_entry(next, &p->queue.visible, list)
			if (next->state == IO_SPACE)
				return progress;
		list_del_init(&io->list);
		admit_flush(p, io, now);
		progress = true;
	}

	while (p->queue.nr_visible < p->opt.queue_depth && list_empty(&p->queue.flushing) &&
	       now >= p->queue.flushed_ns) {
		io = list_first_entry_or_null(&p->queue.pending, struct platter_io, list);
		if (!io)
			break;
		list_del_init(&io->list);
		p->queue.nr_visible++;
		progress = true;
		if (!io->n) {
			if (destaging(p))
				list_add_tail(&io->list, &p->queue.flushing);
			else
				admit_flush(p, io, now);
			continue;
		}
		if (io->write ? admit_cached_write(p, io, now) :
				admit_read_hit(p, io, now)) {
			if (io->state == IO_SPACE)
				list_add_tail(&io->list, &p->queue.visible);
			continue;
		}
		admit_media(p, io);
		list_add_tail(&io->list, &p->queue.visible);
	}
	return progress;
}

static bool finish_timed(struct platter *p, u64 now, struct list_head *done)
{
	struct platter_io *io, *next;
	bool progress = false;

	list_for_each_entry_safe(io, next, &p->queue.timed, list) {
		if (now < io->due_ns || atomic_read_acquire(&io->pending))
			continue;
		list_del(&io->list);
		p->queue.last_host_ns = now;
		end_io(p, io, now, done);
		progress = true;
	}
	return progress;
}

static void arm_timer(struct platter *p, u64 now)
{
	u64 next = ~0ULL;
	struct platter_io *io;

	if (p->act.io && p->act.io->due_ns > now)
		next = p->act.io->due_ns;
	list_for_each_entry(io, &p->queue.timed, list)
		if (io->due_ns > now)
			next = min(next, io->due_ns);
	if (!p->act.io && p->wcache.count && !p->power.off)
		next = min(next, max(destage_idle_at(p), now + 1));
	if (next != ~0ULL)
		hrtimer_start(&p->worker.timer, ns_to_ktime(next), HRTIMER_MODE_ABS);
}

static void platter_work(struct work_struct *work)
{
	struct platter *p = container_of(work, struct platter, worker.work);
	LIST_HEAD(done);
	bool progress;
	u64 now;

	mutex_lock(&p->lock);
	do {
		spin_lock_irq(&p->queue.in_lock);
		list_splice_tail_init(&p->queue.incoming, &p->queue.pending);
		spin_unlock_irq(&p->queue.in_lock);

		now = model_now();
		p->act.destaged_ns = 0;
		if (p->power.off)
			platter_power_off(p, &done);
		progress = finish_active(p, now, &done);
		progress |= finish_timed(p, now, &done);
		if (!p->power.off) {
			progress |= admit(p, now);
			progress |= start_next(p, now, &done);
		}
	} while (progress);
	arm_timer(p, now);
	mutex_unlock(&p->lock);
	platter_end_ios(&done);
}

/**
 * platter_power_off() - the power fails
 * @p: the drive
 * @done: receives the requests that fail at once
 *
 * The write cache is lost.  Requests that the backing device still works on fail when it is
 * done; data on the medium stay.  Called again while the drive is off, to fail the requests
 * that have arrived since.
 *
 * Context: under p->lock.
 */
void platter_power_off(struct platter *p, struct list_head *done)
{
	struct platter_io *io, *next;
	LIST_HEAD(all);
	u32 cut_n;

	lockdep_assert_held(&p->lock);
	if (!p->power.off) {
		WRITE_ONCE(p->power.off, true);
		p->power.cut_armed = false;
		p->queue.flushed_ns = 0;
		platter_count(p, PC_power_cuts, 1);
		cut_n = platter_cache_drop(p);
		if (p->act.io)
			p->act.io->cut_n += cut_n;
		wake_up_all(&p->wcache.drained);
		platter_mech_drop(&p->mech);
		platter_update_fast(p);
		/*
		 * a write that is completely on the medium is acknowledged, other requests
		 * fail
		 */
		if (p->act.io && !p->act.io->write) {
			p->act.io->status = BLK_STS_IOERR;
			p->act.io->due_ns = 0;
		}
		list_for_each_entry(io, &p->queue.timed, list) {
			io->status = BLK_STS_IOERR;
			io->due_ns = 0;
		}
	}
	list_for_each_entry(io, &p->queue.pending, list)
		p->queue.nr_visible++;
	list_splice_tail_init(&p->queue.visible, &all);
	list_splice_tail_init(&p->queue.flushing, &all);
	list_splice_tail_init(&p->queue.pending, &all);
	list_for_each_entry_safe(io, next, &all, list) {
		list_del(&io->list);
		io->status = BLK_STS_IOERR;
		io->due_ns = 0;
		end_io(p, io, 0, done);
	}
}

static enum hrtimer_restart platter_timer(struct hrtimer *timer)
{
	struct platter *p = container_of(timer, struct platter, worker.timer);

	platter_kick(p);
	return HRTIMER_NORESTART;
}

/**
 * platter_update_fast() - decide again whether .map may remap directly
 * @p: the drive
 *
 * Context: under p->lock.
 */
void platter_update_fast(struct platter *p)
{
	bool ordered = p->state.dev || p->power.cut_armed || p->log.size ||
		       p->opt.damage_mode == DAMAGE_SHADOW;
	/* a flush that must report a loss cannot be passed on */
	bool cached = p->wcache.on || destaging(p) || p->loss.unreported;

	WRITE_ONCE(p->queue.fast, !p->opt.timing && !ordered && !cached && !p->power.off);
}

/**
 * platter_queue_init() - set up lists, worker and timer
 * @p: the drive
 *
 * Context: process.
 */
void platter_queue_init(struct platter *p)
{
	spin_lock_init(&p->queue.in_lock);
	mutex_init(&p->lock);
	lockdep_register_key(&p->lock_key);
	lockdep_set_class(&p->lock, &p->lock_key);
	INIT_LIST_HEAD(&p->queue.incoming);
	INIT_LIST_HEAD(&p->queue.pending);
	INIT_LIST_HEAD(&p->queue.visible);
	INIT_LIST_HEAD(&p->queue.timed);
	INIT_LIST_HEAD(&p->queue.flushing);
	init_waitqueue_head(&p->wcache.drained);
	INIT_WORK(&p->worker.work, platter_work);
	shingle_hrtimer_setup(&p->worker.timer, platter_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

/**
 * platter_queue_exit() - undo platter_queue_init()
 * @p: the drive; no longer in use
 *
 * Context: process; sleeps.
 */
void platter_queue_exit(struct platter *p)
{
	mutex_destroy(&p->lock);
	lockdep_unregister_key(&p->lock_key);
}

/* timing none: account for overlap and pass the bio on. */
static int map_fast(struct platter *p, struct bio *bio, struct platter_io *io)
{
	blk_status_t status = BLK_STS_OK;

	if (io->n && p->opt.damage_mode != DAMAGE_NONE &&
	    (io->write ? platter_geo_window(&p->geo) || READ_ONCE(p->state.damage.damaged) :
			 READ_ONCE(p->state.damage.damaged))) {
		mutex_lock(&p->lock);
		/*
		 * only the worker sees whether the write succeeds, so only it may mark
		 * blocks as intact
		 */
		if (!p->queue.fast ||
		    (io->write && damage_count(&p->state.damage, io->blk, io->n))) {
			mutex_unlock(&p->lock);
			return -EAGAIN;
		}
		if (io->write) {
			int r = platter_media_before(p, io->blk, io->n);

			if (!r)
				r = platter_media_after(p, io->blk, io->n);
			status = errno_to_blk_status(r);
		} else {
			status = platter_media_read(p, io->blk, io->n);
		}
		mutex_unlock(&p->lock);
	}
	if (io->n) {
		trace_platter_media(p, io->write ? PLATTER_OP_WRITE : PLATTER_OP_READ, io->blk,
				    io->n, 0, NULL);
		platter_count(p, io->write ? PC_media_writes : PC_media_reads, 1);
		platter_count(p, io->write ? PC_media_blocks_written :
					     PC_media_blocks_read, io->n);
	} else {
		platter_count(p, PC_flushes, 1);
	}
	if (!status && p->disk.dev) {
		bio_set_dev(bio, p->disk.dev->bdev);
		bio->bi_iter.bi_sector = p->disk.start + io->blk * PLATTER_BLOCK_SECTORS;
		return DM_MAPIO_REMAPPED;
	}
	if (!status && io->n && !io->write)
		zero_fill_bio(bio);
	if (status)
		platter_count(p, PC_errors, 1);
	bio->bi_status = status;
	bio_endio(bio);
	return DM_MAPIO_SUBMITTED;
}

/**
 * platter_map_bio() - accept a bio
 * @p: the drive
 * @bio: the bio
 *
 * Context: as .map; may sleep with timing none.
 * Return: a DM_MAPIO value.
 */
int platter_map_bio(struct platter *p, struct bio *bio)
{
	struct platter_io *io = dm_per_bio_data(bio, sizeof(*io));
	sector_t sector = dm_target_offset(p->ti, bio->bi_iter.bi_sector);
	unsigned int sectors = bio_sectors(bio);
	unsigned long flags;
	int r;

	if (READ_ONCE(p->power.off))
		return DM_MAPIO_KILL;
	/* The block layer only warns about a write to a read-only device. */
	if (unlikely(p->read_only) && sectors && op_is_write(bio_op(bio)))
		return DM_MAPIO_KILL;
	if (bio_op(bio) == REQ_OP_DISCARD) {
		platter_count(p, PC_discards, 1);
		if (!p->disk.dev) {
			bio_endio(bio);
			return DM_MAPIO_SUBMITTED;
		}
		bio_set_dev(bio, p->disk.dev->bdev);
		bio->bi_iter.bi_sector = p->disk.start + sector;
		return DM_MAPIO_REMAPPED;
	}
	if (sectors && ((sector | sectors) & (PLATTER_BLOCK_SECTORS - 1))) {
		DMERR_LIMIT("request %llu+%u is not in 4096-byte blocks",
			    (unsigned long long)sector, sectors);
		return DM_MAPIO_KILL;
	}

	memset(io, 0, sizeof(*io));
	INIT_LIST_HEAD(&io->list);
	io->target = p;
	io->bio = bio;
	io->arrival_ns = model_now();
	io->blk = sectors ? sector / PLATTER_BLOCK_SECTORS : 0;
	io->n = sectors / PLATTER_BLOCK_SECTORS;
	io->write = sectors && op_is_write(bio_op(bio));
	io->fua = bio->bi_opf & REQ_FUA;
	if (io->n) {
		platter_count(p, io->write ? PC_writes : PC_reads, 1);
		platter_count(p, io->write ? PC_blocks_written : PC_blocks_read, io->n);
		if (io->fua && io->write)
			platter_count(p, PC_fua_writes, 1);
	}

	if (READ_ONCE(p->queue.fast)) {
		r = map_fast(p, bio, io);
		if (r != -EAGAIN)
			return r;
	}
	spin_lock_irqsave(&p->queue.in_lock, flags);
	list_add_tail(&io->list, &p->queue.incoming);
	spin_unlock_irqrestore(&p->queue.in_lock, flags);
	platter_kick(p);
	return DM_MAPIO_SUBMITTED;
}
