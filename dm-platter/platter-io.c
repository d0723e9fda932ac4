// SPDX-License-Identifier: GPL-2.0
/*
 * Queue, actuator and completion.
 *
 * A request moves from .map to incoming (spinlock), to pending (arrival order), to visible
 * (at most queue_depth; the scheduler chooses from these), to the actuator, to completion.
 * One work item does all of it under p->lock; a high-resolution timer and completions of
 * the backing device only queue this work item.
 *
 * The model's clock is CLOCK_MONOTONIC.  A request begins when the actuator is free and its
 * command has been processed, both in the model's time, so a late worker does not slow the
 * drive down.  Only when the host is late by more than a rotation does the model restart
 * from the present.
 *
 * The actuator serves one request at a time, and the request ends only when the backing
 * device is done with it.  So the order of service is the order on the medium, and the
 * damage map always matches the data.
 */
#include <linux/blkdev.h>
#include <linux/math64.h>
#include <linux/rcupdate.h>

#include "compat.h"
#include "events.h"
#include "platter.h"

static u64 model_now(void)
{
	return ktime_get_ns();
}

static void log_io(struct platter *p, enum platter_op op, u64 blk, u32 n, u64 start_ns,
		   u64 end_ns, const struct platter_service *svc)
{
	u64 took_ns = end_ns > start_ns ? end_ns - start_ns : 0;
	struct platter_log_entry *e;
	u32 slot;

	trace_platter_media(p, op, blk, n, took_ns, svc);
	if (!p->log_size)
		return;
	div_u64_rem(p->log_head++, p->log_size, &slot);
	e = &p->log[slot];
	e->time_us = div_u64(start_ns, 1000);
	e->op = "rwdcha"[op];
	e->blk = blk;
	e->n = n;
	e->cyl = svc ? svc->cyl : p->mech.cyl;
	e->surface = svc ? svc->surface : p->mech.surface;
	e->seek_us = svc ? div_u64(svc->seek_ns, 1000) : 0;
	e->rotation_us = svc ? div_u64(svc->rotation_ns, 1000) : 0;
	e->total_us = div_u64(took_ns, 1000);
}

/* ------------------------------------------------------------------ damage */

static bool tracks_damage(struct platter *p)
{
	return p->damage_mode != DAMAGE_NONE &&
	       (p->damage.damaged || platter_geo_window(&p->geo));
}

struct effect_ctx {
	struct platter *p;
	u64 blk;
	u32 n;
	bool final;
	u64 newly;
};

/*
 * Report only blocks under the head that were intact and that this write does not rewrite
 * later.
 */
static void trace_covered(struct effect_ctx *c, u64 blk, u32 n, u64 src_blk)
{
	struct platter_damage *damage = &c->p->damage;
	u64 end = blk + n, bad;

	if (blk >= src_blk)
		blk = max(blk, min(end, c->blk + c->n));
	while (blk < end) {
		bad = blk;
		if (!damage_next(damage, &bad, end))
			bad = end;
		if (bad > blk)
			trace_platter_destroy(c->p, c->blk, c->n, blk, bad - blk);
		for (blk = bad; blk < end && damage_count(damage, blk, 1); blk++)
			;
	}
}

static int apply_effect(void *context, enum platter_effect effect, u64 blk, u32 n,
			u64 src_blk)
{
	struct effect_ctx *c = context;

	if (effect == PLATTER_COVERED) {
		if (trace_platter_destroy_enabled() && !c->final)
			trace_covered(c, blk, n, src_blk);
		platter_mech_invalidate(&c->p->mech, blk, n);
		return damage_set(&c->p->damage, blk, n, &c->newly);
	}
	if (c->final)
		damage_clear(&c->p->damage, blk, n);
	return 0;
}

static int trim_effect(void *context, enum platter_effect effect, u64 blk, u32 n,
		       u64 src_blk)
{
	struct effect_ctx *c = context;

	if (effect == PLATTER_WRITTEN)
		damage_trim(&c->p->damage, blk, n);
	return 0;
}

/*
 * Before the data move: mark all blocks that the head will pass over as destroyed, in
 * memory and on the mirror.  If the machine crashes in between, an intact block may be
 * marked as destroyed, in a write that was not acknowledged.  The opposite cannot happen,
 * unless the mirror's device has a volatile cache and loses it; then this guarantee holds
 * only for data written before the last flush.
 */
static int damage_before(struct platter *p, u64 blk, u32 n)
{
	struct effect_ctx c = { .p = p, .blk = blk, .n = n };
	int r;

	if (!tracks_damage(p))
		return 0;
	r = platter_geo_write(&p->geo, blk, n, apply_effect, &c);
	platter_count(p, PC_destroyed_blocks, c.newly);
	return r ? r : damage_sync(&p->damage);
}

/*
 * After the data moved and before the acknowledgment: the same walk in the order of the
 * head.  A later track's own data repair the blocks that an earlier track destroyed.
 */
static int damage_after(struct platter *p, u64 blk, u32 n)
{
	struct effect_ctx c = { .p = p, .blk = blk, .n = n, .final = true };
	int r;

	if (!tracks_damage(p))
		return 0;
	r = platter_geo_write(&p->geo, blk, n, apply_effect, &c);
	if (!r)
		r = damage_sync(&p->damage);
	platter_geo_write(&p->geo, blk, n, trim_effect, &c);
	return r;
}

/* Returns the result of a read as far as damage is concerned. */
static blk_status_t damage_read(struct platter *p, u64 blk, u32 n)
{
	u64 bad;

	if (p->damage_mode == DAMAGE_NONE)
		return BLK_STS_OK;
	bad = damage_count(&p->damage, blk, n);
	if (!bad)
		return BLK_STS_OK;
	platter_count(p, PC_destroyed_reads, bad);
	platter_count(p, PC_destroyed_read_ios, 1);
	trace_platter_destroyed_read(p, blk, n, bad);
	DMDEBUG_LIMIT("read of %llu destroyed blocks in %llu+%u",
		      (unsigned long long)bad, (unsigned long long)blk, n);
	return p->damage_mode == DAMAGE_POISON ? BLK_STS_MEDIUM : BLK_STS_OK;
}

/* ----------------------------------------------------------------- backing */

static void backing_endio(struct bio *clone)
{
	struct platter_io *io = clone->bi_private;
	struct platter *p = io->target;

	if (clone->bi_status) {
		io->failed = true;
		if (!io->status)
			io->status = clone->bi_status;
	}
	bio_put(clone);
	/*
	 * The last access to @io here: afterwards the worker may end it.  From then on only
	 * the grace period between unbinding a table and freeing it, see dm_sync_table(),
	 * keeps @p alive.
	 */
	rcu_read_lock();
	atomic_set_release(&io->pending, 0);
	queue_work(p->wq, &p->work);
	rcu_read_unlock();
}

static struct bio *make_clone(struct platter *p, struct bio *bio, u64 blk, u32 skip,
			      u32 n)
{
	struct bio *clone = bio_alloc_clone(p->dev->bdev, bio, GFP_NOIO, &p->bs);

	/* A polling submitter polls @bio; it would not reap the clone. */
	bio_clear_polled(clone);
	if (n)
		bio_trim(clone, skip * PLATTER_BLOCK_SECTORS, n * PLATTER_BLOCK_SECTORS);
	clone->bi_iter.bi_sector = p->start + blk * PLATTER_BLOCK_SECTORS;
	return clone;
}

static void issue(struct platter *p, struct platter_io *io, u32 n)
{
	struct bio *clone = make_clone(p, io->bio, io->blk, 0, n);

	clone->bi_private = io;
	clone->bi_end_io = backing_endio;
	atomic_set(&io->pending, 1);
	submit_bio_noacct(clone);
}

struct shadow_ctx {
	struct platter *p;
	struct bio *bio;
	u64 blk;
};

static int shadow_effect(void *context, enum platter_effect effect, u64 blk, u32 n,
			 u64 src_blk)
{
	struct shadow_ctx *c = context;
	struct bio *clone = make_clone(c->p, c->bio, blk, src_blk - c->blk, n);
	int r = submit_bio_wait(clone);

	bio_put(clone);
	return r;
}

/* Write what a wide head really leaves: its own pattern on every track that it covers. */
static int shadow_write(struct platter *p, struct bio *bio, u64 blk, u32 n)
{
	struct shadow_ctx c = { .p = p, .bio = bio, .blk = blk };

	return platter_geo_write(&p->geo, blk, n, shadow_effect, &c);
}

static int plain_write(struct platter *p, struct bio *bio, u64 blk, u32 n)
{
	struct bio *clone = make_clone(p, bio, blk, 0, n);
	int r = submit_bio_wait(clone);

	bio_put(clone);
	return r;
}

/**
 * platter_media_write_sync() - write to the medium at once, outside the model
 * @p: the drive
 * @bio: holds the data; is not submitted itself
 * @blk: first block
 * @n: number of blocks
 *
 * Context: under p->lock with nothing on the actuator; sleeps.
 * Return: 0 or -errno.
 */
int platter_media_write_sync(struct platter *p, struct bio *bio, u64 blk, u32 n)
{
	int r = damage_before(p, blk, n);

	if (r)
		return r;
	if (p->dev)
		r = p->damage_mode == DAMAGE_SHADOW ? shadow_write(p, bio, blk, n) :
						      plain_write(p, bio, blk, n);
	if (r)
		return r;
	platter_count(p, PC_media_writes, 1);
	platter_count(p, PC_media_blocks_written, n);
	trace_platter_media(p, PLATTER_OP_DESTAGE, blk, n, 0, NULL);
	return damage_after(p, blk, n);
}

/* -------------------------------------------------------------- completion */

/* Add @io to @done; platter_end_ios() ends it after p->lock is dropped. */
static void end_io(struct platter *p, struct platter_io *io, u64 now,
		   struct list_head *done)
{
	/* a hit that waited for a place in the queue could not end before it got one */
	u64 due_ns = max(io->due_ns, io->held_ns);

	if (p->timing && io->due_ns && now > due_ns + PLATTER_LATE_NS) {
		u64 us = div_u64(now - due_ns, 1000);

		platter_count(p, PC_late, 1);
		if (us > atomic64_read(&p->counter[PC_late_max_us]))
			atomic64_set(&p->counter[PC_late_max_us], us);
	}
	if (io->status)
		platter_count(p, PC_errors, 1);
	p->nr_visible--;
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

/* ---------------------------------------------------------------- actuator */

static u64 earliest_start(struct platter *p, struct platter_io *io, u64 now)
{
	u64 ready = io->arrival_ns + (io->write ? p->mech.write_overhead_ns :
						  p->mech.overhead_ns);
	u64 start = max(p->mech.free_ns, ready);

	/* a destage has no command; it begins when it is chosen */
	if (io->destage)
		start = max(p->mech.free_ns, io->arrival_ns);
	if (now > start + p->geo.rot_ns) {
		platter_count(p, PC_reanchored, 1);
		start = now;
	}
	return start;
}

static void account(struct platter *p, const struct platter_service *svc)
{
	platter_count(p, PC_seeks, svc->seeks);
	platter_count(p, PC_seek_tracks, svc->distance);
	platter_count(p, PC_seek_us, svc->seek_ns);
	platter_count(p, PC_rotation_us, svc->rotation_ns);
	platter_count(p, PC_transfer_us, svc->transfer_ns);
	platter_count(p, PC_head_switches, svc->head_switches);
}

/**
 * pay_flush() - charge the time of a FLUSH, the key flush_us
 * @p: the drive, with timing model
 * @ready_ns: when it could begin
 *
 * The time is charged
 *
 * - once for each FLUSH of the host, with the write cache on or off, when its command has
 *   been processed and the data that it waits for are on the medium;
 * - once for each FUA write while the write cache is on, when its own data are on the
 *   medium.  With the cache off such a write is like any other.
 *
 * It is not charged when the drive writes its cache for another reason (the cache is full,
 * the host idle, the cache switched off), nor for a write that a power cut tears.
 *
 * Meanwhile the actuator does nothing else.  No request is admitted after a FLUSH until its
 * time is over, neither for the medium nor for the cache, see admit().
 *
 * Context: under p->lock.
 * Return: the end of the FLUSH; @ready_ns if flush_us is 0.
 */
static u64 pay_flush(struct platter *p, u64 ready_ns)
{
	platter_count(p, PC_flushing_us, p->mech.flush_ns);
	return platter_mech_flush(&p->mech, ready_ns);
}

static void move_head(struct platter *p, struct platter_io *io, u32 n, u64 now)
{
	enum platter_op op = io->destage ? PLATTER_OP_DESTAGE :
			     io->write ? PLATTER_OP_WRITE : PLATTER_OP_READ;
	struct platter_service svc;
	u64 start;

	if (!p->timing || !n) {
		io->due_ns = now;
		log_io(p, op, io->blk, n, now, now, NULL);
		return;
	}
	start = earliest_start(p, io, now);
	platter_mech_service(&p->mech, start, io->blk, n, io->write, &svc);
	io->due_ns = svc.finish_ns;
	account(p, &svc);
	log_io(p, op, io->blk, n, start, svc.finish_ns, &svc);
}

static void start_write(struct platter *p, struct platter_io *io, u64 now,
			struct list_head *done)
{
	u32 n = io->n;
	int r;

	if (p->cut_armed && n > p->cut_left)
		n = p->cut_left;
	io->media_n = n;
	r = n ? damage_before(p, io->blk, n) : 0;
	if (r) {
		io->status = errno_to_blk_status(r);
		io->media_n = 0;
		move_head(p, io, io->n, now);
		return;
	}
	if (!io->destage)
		platter_cache_cover(p, io->blk, n);
	move_head(p, io, n, now);
	if (io->fua && p->wcache_on && p->timing && n == io->n)
		io->due_ns = pay_flush(p, io->due_ns);
	platter_mech_invalidate(&p->mech, io->blk, io->n);
	platter_count(p, PC_media_writes, 1);
	platter_count(p, PC_media_blocks_written, n);

	if (n && p->dev) {
		if (p->damage_mode == DAMAGE_SHADOW) {
			r = shadow_write(p, io->bio, io->blk, n);
			if (r) {
				io->failed = true;
				io->status = errno_to_blk_status(r);
			}
		} else {
			issue(p, io, n);
		}
	}
	if (p->cut_armed) {
		p->cut_left -= n;
		/* the rest of a torn destage is lost with the rest of the cache */
		if (n < io->n && !io->destage)
			io->status = BLK_STS_IOERR;
		if (!p->cut_left)
			platter_power_off(p, done);
	}
}

static void start_read(struct platter *p, struct platter_io *io, u64 now)
{
	bool any;

	platter_count(p, PC_media_reads, 1);
	platter_count(p, PC_media_blocks_read, io->n);
	move_head(p, io, io->n, now);
	platter_cache_holds(p, io->blk, io->n, &any);
	io->overlay = any;
	if (any) {
		/* only blocks that come from the medium can be damaged */
		u32 i;

		for (i = 0; i < io->n && !io->status; i++)
			if (!xa_load(&p->wcache, io->blk + i))
				io->status = damage_read(p, io->blk + i, 1);
	} else {
		io->status = damage_read(p, io->blk, io->n);
	}
	if (io->status)
		return;
	if (p->dev)
		issue(p, io, io->n);
	else
		zero_fill_bio(io->bio);
}

static void start_io(struct platter *p, struct platter_io *io, u64 now,
		     struct list_head *done)
{
	io->state = IO_MEDIA;
	p->active = io;
	p->last_was_destage = io->destage;
	if (io->write)
		start_write(p, io, now, done);
	else
		start_read(p, io, now);
}

static bool finish_active(struct platter *p, u64 now, struct list_head *done)
{
	struct platter_io *io = p->active;

	if (!io || now < io->due_ns || atomic_read_acquire(&io->pending))
		return false;
	WRITE_ONCE(p->active, NULL);
	/* The part of a write before a power cut is on the medium, unless the device failed. */
	if (io->write && io->media_n && !io->failed) {
		int r = damage_after(p, io->blk, io->media_n);

		if (r && !io->status)
			io->status = errno_to_blk_status(r);
	}
	if (io->destage) {
		u32 torn = io->status ? io->n : io->n - io->media_n;
		u32 lost = platter_cache_destaged(p, io->bio, io->blk, io->n, !io->status);

		if (lost)
			DMERR_LIMIT("%s: %u of %u blocks at %llu could not be destaged",
				    dm_table_device_name(p->ti->table), lost, io->n,
				    (unsigned long long)io->blk);
		platter_loss_add(p, lost);
		platter_count(p, PC_wcache_lost_blocks, min(io->cut_n, torn));
		platter_count(p, PC_wcache_destages, 1);
		p->destaged_ns = io->due_ns;
		io->bio = NULL;
		/* A destage that outlived its cache has delayed a flush. */
		platter_update_fast(p);
		wake_up_all(&p->drained);
		return true;
	}
	if (io->write) {
		platter_cache_covered(p, io->blk, io->media_n, !io->status);
		if (io->failed)
			platter_count(p, PC_wcache_lost_blocks, io->cut_n);
		/* the old cached versions have delayed a flush */
		platter_update_fast(p);
		if (!p->wcache_count)
			wake_up_all(&p->drained);
	}
	if (io->overlay && !io->status)
		platter_cache_read(p, io->bio, io->blk);
	p->last_host_ns = now;
	end_io(p, io, now, done);
	return true;
}

static bool start_destage(struct platter *p, u64 now, enum platter_destage_why why,
			  struct list_head *done)
{
	struct platter_io *io = &p->destage;
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
	io->arrival_ns = p->destaged_ns ?: now;
	trace_platter_destage(p, blk, n, why);
	start_io(p, io, now, done);
	return true;
}

/* After a power cut a destage may still be in progress although the cache is empty. */
static bool destaging(struct platter *p)
{
	return p->wcache_count || (p->active && p->active->destage);
}

/* Does a request wait for the cache to shrink? */
static enum platter_destage_why cache_pressure(struct platter *p)
{
	struct platter_io *io;

	if (!p->wcache_count)
		return PLATTER_DESTAGE_NOT;
	if (!p->wcache_on)
		return PLATTER_DESTAGE_OFF;
	if (!list_empty(&p->flushing))
		return PLATTER_DESTAGE_FLUSH;
	if (p->wcache_count > platter_wcache_blocks(p) / 2)
		return PLATTER_DESTAGE_FULL;
	list_for_each_entry(io, &p->visible, list)
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
	if (p->nr_visible)
		return ~0ULL;
	return p->last_host_ns + (u64)p->wcache_idle_ms * 1000 * p->cfg.time_permille;
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
	u64 starved = div_u64(PLATTER_STARVED_NS * p->cfg.time_permille, 1000);
	struct platter_io *io, *best = NULL;
	u64 best_ns = 0;

	platter_mech_advance(&p->mech, now);
	list_for_each_entry(io, &p->visible, list) {
		u64 start, ns;

		if (io->state != IO_QUEUED || threatened(p, io))
			continue;
		/* the list is in order of arrival: only its first entry can be starved */
		if (!best && (!p->sptf || !p->timing || now > io->arrival_ns + starved))
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

	if (p->active || p->powered_off || p->leaving)
		return false;
	io = choose(p, now);
	why = cache_pressure(p);
	if (why && (!io || !p->last_was_destage))
		return start_destage(p, now, why, done);
	if (io) {
		list_del_init(&io->list);
		start_io(p, io, now, done);
		return true;
	}
	if (p->wcache_count && now >= destage_idle_at(p))
		return start_destage(p, now, PLATTER_DESTAGE_IDLE, done);
	return false;
}

/* --------------------------------------------------------------- admission */

static void admit_timed(struct platter *p, struct platter_io *io, u64 due_ns)
{
	io->state = IO_TIMED;
	io->due_ns = p->timing ? due_ns : 0;
	list_add_tail(&io->list, &p->timed);
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

	if (!p->wcache_on || io->fua || io->n > platter_wcache_blocks(p) / 2)
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
	log_io(p, PLATTER_OP_CACHE_WRITE, io->blk, io->n, now, io->due_ns, NULL);
	return true;
}

static bool admit_read_hit(struct platter *p, struct platter_io *io, u64 now)
{
	u64 ready = io->arrival_ns + p->mech.overhead_ns;
	u64 due = ready + (u64)io->n * p->mech.bus_block_ns;
	bool any;

	if (platter_cache_holds(p, io->blk, io->n, &any)) {
		platter_cache_read(p, io->bio, io->blk);
		platter_count(p, PC_wcache_read_hits, 1);
		if (io->arrival_ns <= p->full_ns)
			io->held_ns = now;
		admit_timed(p, io, due);
		log_io(p, PLATTER_OP_CACHE_READ, io->blk, io->n, now, due, NULL);
		return true;
	}
	/*
	 * While the actuator works, only what is already in the buffer can hit.
	 * platter_mech_lookahead() knows this, because the service ended the look-ahead.
	 */
	if (any || !p->lookahead_on || !p->timing)
		return false;
	if (damage_count(&p->damage, io->blk, io->n))
		return false;
	if (!platter_mech_lookahead(&p->mech, max(ready, now), io->blk, io->n, &due))
		return false;
	platter_count(p, PC_lookahead_hits, 1);
	admit_timed(p, io, due);
	log_io(p, PLATTER_OP_LOOKAHEAD, io->blk, io->n, now, due, NULL);
	if (p->dev)
		issue(p, io, io->n);
	else
		zero_fill_bio(io->bio);
	return true;
}

static void admit_flush(struct platter *p, struct platter_io *io, u64 now)
{
	u64 due;

	platter_count(p, PC_flushes, 1);
	if (platter_loss_report(p))
		io->status = BLK_STS_IOERR;
	if (p->state_dev && blkdev_issue_flush(p->state_dev->bdev))
		io->status = BLK_STS_IOERR;
	due = now + p->mech.overhead_ns;
	if (p->timing && p->mech.flush_ns) {
		p->flushed_ns = pay_flush(p, due);
		due = p->flushed_ns;
	}
	admit_timed(p, io, due);
	if (p->dev)
		issue(p, io, 0);
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

	if (p->nr_visible >= p->queue_depth || !list_empty(&p->flushing) || now < p->flushed_ns)
		p->full_ns = now;
	list_for_each_entry(io, &p->visible, list) {
		if (io->state == IO_SPACE) {
			list_del_init(&io->list);
			io->state = IO_QUEUED;
			if (!admit_cached_write(p, io, now)) {
				admit_media(p, io);
				list_add(&io->list, &p->visible);
			} else if (io->state == IO_SPACE) {
				list_add(&io->list, &p->visible);
				break;
			}
			progress = true;
			break;
		}
	}

	io = list_first_entry_or_null(&p->flushing, struct platter_io, list);
	if (io) {
		if (destaging(p))
			return progress;
		list_for_each_entry(next, &p->visible, list)
			if (next->state == IO_SPACE)
				return progress;
		list_del_init(&io->list);
		admit_flush(p, io, now);
		progress = true;
	}

	while (p->nr_visible < p->queue_depth && list_empty(&p->flushing) &&
	       now >= p->flushed_ns) {
		io = list_first_entry_or_null(&p->pending, struct platter_io, list);
		if (!io)
			break;
		list_del_init(&io->list);
		p->nr_visible++;
		progress = true;
		if (!io->n) {
			if (destaging(p))
				list_add_tail(&io->list, &p->flushing);
			else
				admit_flush(p, io, now);
			continue;
		}
		if (io->write ? admit_cached_write(p, io, now) :
				admit_read_hit(p, io, now)) {
			if (io->state == IO_SPACE)
				list_add_tail(&io->list, &p->visible);
			continue;
		}
		admit_media(p, io);
		list_add_tail(&io->list, &p->visible);
	}
	return progress;
}

static bool finish_timed(struct platter *p, u64 now, struct list_head *done)
{
	struct platter_io *io, *next;
	bool progress = false;

	list_for_each_entry_safe(io, next, &p->timed, list) {
		if (now < io->due_ns || atomic_read_acquire(&io->pending))
			continue;
		list_del(&io->list);
		p->last_host_ns = now;
		end_io(p, io, now, done);
		progress = true;
	}
	return progress;
}

static void arm_timer(struct platter *p, u64 now)
{
	u64 next = ~0ULL;
	struct platter_io *io;

	if (p->active && p->active->due_ns > now)
		next = p->active->due_ns;
	list_for_each_entry(io, &p->timed, list)
		if (io->due_ns > now)
			next = min(next, io->due_ns);
	if (!p->active && p->wcache_count && !p->powered_off)
		next = min(next, max(destage_idle_at(p), now + 1));
	if (next != ~0ULL)
		hrtimer_start(&p->timer, ns_to_ktime(next), HRTIMER_MODE_ABS);
}

static void platter_work(struct work_struct *work)
{
	struct platter *p = container_of(work, struct platter, work);
	LIST_HEAD(done);
	bool progress;
	u64 now;

	mutex_lock(&p->lock);
	do {
		spin_lock_irq(&p->in_lock);
		list_splice_tail_init(&p->incoming, &p->pending);
		spin_unlock_irq(&p->in_lock);

		now = model_now();
		p->destaged_ns = 0;
		if (p->powered_off)
			platter_power_off(p, &done);
		progress = finish_active(p, now, &done);
		progress |= finish_timed(p, now, &done);
		if (!p->powered_off) {
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

	if (!p->powered_off) {
		WRITE_ONCE(p->powered_off, true);
		p->cut_armed = false;
		p->flushed_ns = 0;
		platter_count(p, PC_power_cuts, 1);
		platter_cache_drop(p);
		wake_up_all(&p->drained);
		platter_mech_drop(&p->mech);
		platter_update_fast(p);
		/*
		 * a write that is completely on the medium is acknowledged, other requests
		 * fail
		 */
		if (p->active && !p->active->write) {
			p->active->status = BLK_STS_IOERR;
			p->active->due_ns = 0;
		}
		list_for_each_entry(io, &p->timed, list) {
			io->status = BLK_STS_IOERR;
			io->due_ns = 0;
		}
	}
	list_for_each_entry(io, &p->pending, list)
		p->nr_visible++;
	list_splice_tail_init(&p->visible, &all);
	list_splice_tail_init(&p->flushing, &all);
	list_splice_tail_init(&p->pending, &all);
	list_for_each_entry_safe(io, next, &all, list) {
		list_del(&io->list);
		io->status = BLK_STS_IOERR;
		io->due_ns = 0;
		end_io(p, io, 0, done);
	}
}

static enum hrtimer_restart platter_timer(struct hrtimer *timer)
{
	struct platter *p = container_of(timer, struct platter, timer);

	queue_work(p->wq, &p->work);
	return HRTIMER_NORESTART;
}

/**
 * platter_kick() - let the worker look for changes
 * @p: the drive
 *
 * Context: any.
 */
void platter_kick(struct platter *p)
{
	queue_work(p->wq, &p->work);
}

/**
 * platter_update_fast() - decide again whether .map may remap directly
 * @p: the drive
 *
 * Context: under p->lock.
 */
void platter_update_fast(struct platter *p)
{
	bool ordered = p->state_dev || p->cut_armed || p->log_size ||
		       p->damage_mode == DAMAGE_SHADOW;
	/* a flush that must report a loss cannot be passed on */
	bool cached = p->wcache_on || destaging(p) || p->unreported;

	WRITE_ONCE(p->fast, !p->timing && !ordered && !cached && !p->powered_off);
}

/**
 * platter_io_init() - set up lists, worker and timer
 * @p: the drive
 *
 * Context: process.
 */
void platter_io_init(struct platter *p)
{
	spin_lock_init(&p->in_lock);
	mutex_init(&p->lock);
	lockdep_register_key(&p->lock_key);
	lockdep_set_class(&p->lock, &p->lock_key);
	INIT_LIST_HEAD(&p->incoming);
	INIT_LIST_HEAD(&p->pending);
	INIT_LIST_HEAD(&p->visible);
	INIT_LIST_HEAD(&p->timed);
	INIT_LIST_HEAD(&p->flushing);
	init_waitqueue_head(&p->drained);
	INIT_WORK(&p->work, platter_work);
	shingle_hrtimer_setup(&p->timer, platter_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

/**
 * platter_io_exit() - undo platter_io_init()
 * @p: the drive; no longer in use
 *
 * Context: process; sleeps.
 */
void platter_io_exit(struct platter *p)
{
	mutex_destroy(&p->lock);
	lockdep_unregister_key(&p->lock_key);
}

/* timing none: account for overlap and pass the bio on. */
static int map_fast(struct platter *p, struct bio *bio, struct platter_io *io)
{
	blk_status_t status = BLK_STS_OK;

	if (io->n && p->damage_mode != DAMAGE_NONE &&
	    (io->write ? platter_geo_window(&p->geo) || READ_ONCE(p->damage.damaged) :
			 READ_ONCE(p->damage.damaged))) {
		mutex_lock(&p->lock);
		/*
		 * only the worker sees whether the write succeeds, so only it may mark
		 * blocks as intact
		 */
		if (!p->fast ||
		    (io->write && damage_count(&p->damage, io->blk, io->n))) {
			mutex_unlock(&p->lock);
			return -EAGAIN;
		}
		if (io->write) {
			int r = damage_before(p, io->blk, io->n);

			if (!r)
				r = damage_after(p, io->blk, io->n);
			status = errno_to_blk_status(r);
		} else {
			status = damage_read(p, io->blk, io->n);
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
	if (!status && p->dev) {
		bio_set_dev(bio, p->dev->bdev);
		bio->bi_iter.bi_sector = p->start + io->blk * PLATTER_BLOCK_SECTORS;
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

	if (READ_ONCE(p->powered_off))
		return DM_MAPIO_KILL;
	/* The block layer only warns about a write to a read-only device. */
	if (unlikely(p->read_only) && sectors && op_is_write(bio_op(bio)))
		return DM_MAPIO_KILL;
	if (bio_op(bio) == REQ_OP_DISCARD) {
		platter_count(p, PC_discards, 1);
		if (!p->dev) {
			bio_endio(bio);
			return DM_MAPIO_SUBMITTED;
		}
		bio_set_dev(bio, p->dev->bdev);
		bio->bi_iter.bi_sector = p->start + sector;
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

	if (READ_ONCE(p->fast)) {
		r = map_fast(p, bio, io);
		if (r != -EAGAIN)
			return r;
	}
	spin_lock_irqsave(&p->in_lock, flags);
	list_add_tail(&io->list, &p->incoming);
	spin_unlock_irqrestore(&p->in_lock, flags);
	queue_work(p->wq, &p->work);
	return DM_MAPIO_SUBMITTED;
}
