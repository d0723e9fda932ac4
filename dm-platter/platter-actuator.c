// SPDX-License-Identifier: GPL-2.0
/*
 * The actuator serves one request at a time, and the request ends only when the backing device is
 * done with it.  So the order of service is the order on the medium, and the damage map always
 * matches the data.
 *
 * A request begins when the actuator is free and its command has been processed, both in the
 * model's time, so a late worker does not slow the drive down.  Only when the host is late by more
 * than a rotation does the model restart from the present.
 */
#include <linux/math64.h>
#include <linux/rcupdate.h>

#include "compat.h"
#include "events.h"
#include "platter.h"

/**
 * platter_log_io() - add a service to the head log, if there is one, and trace it
 * @p: the drive
 * @op: kind of service
 * @blk: first block
 * @n: number of blocks
 * @start_ns: its beginning in the model's time
 * @end_ns: its end
 * @svc: the movement of the head, or NULL if it did not move
 *
 * Context: under p->lock.
 */
void platter_log_io(struct platter *p, enum platter_op op, u64 blk, u32 n, u64 start_ns, u64 end_ns,
		    const struct platter_service *svc)
{
	u64 took_ns = end_ns > start_ns ? end_ns - start_ns : 0;
	struct platter_log_entry *e;
	u32 slot;

	trace_platter_media(p, op, blk, n, took_ns, svc);
	if (!p->log.size)
		return;
	div_u64_rem(p->log.head++, p->log.size, &slot);
	e = &p->log.entry[slot];
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
	platter_kick(p);
	rcu_read_unlock();
}

/**
 * platter_issue() - send a request to the backing device
 * @p: the drive, with a backing device
 * @io: the request; its @pending is 0 when the device is done
 * @n: number of blocks, 0 for all of it
 *
 * Context: under p->lock; may sleep.
 */
void platter_issue(struct platter *p, struct platter_io *io, u32 n)
{
	atomic_set(&io->pending, 1);
	platter_media_submit(p, io->bio, io->blk, n, backing_endio, io);
}

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
 * platter_pay_flush() - charge the time of a FLUSH, the key flush_us
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
u64 platter_pay_flush(struct platter *p, u64 ready_ns)
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

	if (!p->opt.timing || !n) {
		io->due_ns = now;
		platter_log_io(p, op, io->blk, n, now, now, NULL);
		return;
	}
	start = earliest_start(p, io, now);
	platter_mech_service(&p->mech, start, io->blk, n, io->write, &svc);
	io->due_ns = svc.finish_ns;
	account(p, &svc);
	platter_log_io(p, op, io->blk, n, start, svc.finish_ns, &svc);
}

/* Returns true if the power fails during the write. */
static bool start_write(struct platter *p, struct platter_io *io, u64 now)
{
	u32 n = io->n;
	int r;

	if (p->power.cut_armed && n > p->power.cut_left)
		n = p->power.cut_left;
	io->media_n = n;
	r = n ? platter_media_before(p, io->blk, n) : 0;
	if (r) {
		io->status = errno_to_blk_status(r);
		io->media_n = 0;
		move_head(p, io, io->n, now);
		return false;
	}
	if (!io->destage)
		platter_cache_cover(p, io->blk, n);
	move_head(p, io, n, now);
	if (io->fua && p->wcache.on && p->opt.timing && n == io->n)
		io->due_ns = platter_pay_flush(p, io->due_ns);
	platter_mech_invalidate(&p->mech, io->blk, io->n);
	platter_count(p, PC_media_writes, 1);
	platter_count(p, PC_media_blocks_written, n);

	if (n && p->disk.dev) {
		if (p->opt.damage_mode == DAMAGE_SHADOW) {
			r = platter_media_write_shadow(p, io->bio, io->blk, n);
			if (r) {
				io->failed = true;
				io->status = errno_to_blk_status(r);
			}
		} else {
			platter_issue(p, io, n);
		}
	}
	if (!p->power.cut_armed)
		return false;
	p->power.cut_left -= n;
	/* the rest of a torn destage is lost with the rest of the cache */
	if (n < io->n && !io->destage)
		io->status = BLK_STS_IOERR;
	return !p->power.cut_left;
}

static void start_read(struct platter *p, struct platter_io *io, u64 now)
{
	bool any;

	platter_count(p, PC_media_reads, 1);
	platter_count(p, PC_media_blocks_read, io->n);
	move_head(p, io, io->n, now);
	platter_cache_overlaps(p, io->blk, io->n, &any);
	io->overlay = any;
	if (any) {
		/* only blocks that come from the medium can be damaged */
		u32 i;

		for (i = 0; i < io->n && !io->status; i++)
			if (!platter_cache_overlaps(p, io->blk + i, 1, &any))
				io->status = platter_media_read(p, io->blk + i, 1);
	} else {
		io->status = platter_media_read(p, io->blk, io->n);
	}
	if (io->status)
		return;
	if (p->disk.dev)
		platter_issue(p, io, io->n);
	else
		zero_fill_bio(io->bio);
}

/**
 * platter_actuator_start() - put a request on the actuator
 * @p: the drive; nothing is on the actuator
 * @io: the request
 * @now: time of the model
 *
 * Context: under p->lock; may sleep.
 * Return: true if the power fails during this write; the caller calls platter_power_off().
 */
bool platter_actuator_start(struct platter *p, struct platter_io *io, u64 now)
{
	lockdep_assert_held(&p->lock);
	io->state = IO_MEDIA;
	p->act.io = io;
	p->act.was_destage = io->destage;
	if (io->write)
		return start_write(p, io, now);
	start_read(p, io, now);
	return false;
}

/**
 * platter_actuator_finish() - take the request off the actuator if it is done
 * @p: the drive
 * @now: time of the model
 *
 * Context: under p->lock; may sleep.
 * Return: the request, or NULL if there is none that is done.  The caller ends it, unless it is a
 *	destage.
 */
struct platter_io *platter_actuator_finish(struct platter *p, u64 now)
{
	struct platter_io *io = p->act.io;

	lockdep_assert_held(&p->lock);
	if (!io || now < io->due_ns || atomic_read_acquire(&io->pending))
		return NULL;
	WRITE_ONCE(p->act.io, NULL);
	/* The part of a write before a power cut is on the medium, unless the device failed. */
	if (io->write && io->media_n && !io->failed) {
		int r = platter_media_after(p, io->blk, io->media_n);

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
		p->act.destaged_ns = io->due_ns;
		io->bio = NULL;
		return io;
	}
	if (io->write) {
		platter_cache_covered(p, io->blk, io->media_n, !io->status);
		if (io->failed)
			platter_count(p, PC_wcache_lost_blocks, io->cut_n);
	}
	if (io->overlay && !io->status)
		platter_cache_read(p, io->bio, io->blk);
	return io;
}
