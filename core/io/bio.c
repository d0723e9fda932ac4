// SPDX-License-Identifier: GPL-2.0
/*
 * Arrival and completion of host bios.
 *
 * A bio that needs no further work is remapped directly in .map.  All others wait, see waiting.c.
 */
#include "base/device.h"
#include "base/wake.h"
#include "io/io.h"
#include "io/reads.h"
#include "log/log.h"
#include "map/map.h"
#include "medium/medium.h"

/* ------------------------------------------------------------------------
 * Completion
 */

/**
 * shingle_finish() - complete a host's bio, after a commit if it needs one
 * @d: the device
 * @bio: the bio
 *
 * Context: any, interrupts included.
 */
void shingle_finish(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);
	unsigned long flags;

	if (io->status)
		bio->bi_status = io->status;
	if (bio->bi_status || !io->fua) {
		bio_endio(bio);
		return;
	}
	spin_lock_irqsave(&d->map_lock, flags);
	bio_list_add(&d->log.commits, bio);
	/* Within the lock: a commit in progress may complete the bio, and then @d may be freed. */
	mod_delayed_work(d->worker.wq, &d->log.commit_work, 0);
	spin_unlock_irqrestore(&d->map_lock, flags);
}

/**
 * shingle_put_piece() - a piece of a host's bio has ended
 * @d: the device
 * @parent: the bio
 *
 * Context: any, interrupts included.
 */
void shingle_put_piece(struct shingle_device *d, struct bio *parent)
{
	if (atomic_dec_and_test(&shingle_bio_io(parent)->pieces))
		shingle_finish(d, parent);
}

/**
 * shingle_end_part() - all of a host's bio is done except pieces in flight
 * @d: the device
 * @bio: the bio
 *
 * Context: any, interrupts included.
 */
void shingle_end_part(struct shingle_device *d, struct bio *bio)
{
	if (atomic_read(&shingle_bio_io(bio)->pieces))
		shingle_put_piece(d, bio);
	else
		shingle_finish(d, bio);
}

/**
 * shingle_end_write() - all of a write has been submitted or gathered
 * @d: the device
 * @bio: the write
 *
 * Gathered blocks are in the write cache only.  If the write must be durable, it ends as a flush
 * does.
 *
 * Context: process.
 */
void shingle_end_write(struct shingle_device *d, struct bio *bio)
{
	bool waits = false;

	if (d->gathers && (shingle_bio_io(bio)->fua || !READ_ONCE(d->wcache.on))) {
		spin_lock_irq(&d->map_lock);
		waits = shingle_wcache_flush(d, bio);
		spin_unlock_irq(&d->map_lock);
	}
	if (!waits)
		shingle_end_part(d, bio);
}

static void defer(struct shingle_device *d, struct bio *bio)
{
	lockdep_assert_held(&d->map_lock);
	bio_list_add(&d->waiters.deferred, bio);
	d->stats.n.deferred++;
}

/* ------------------------------------------------------------------------
 * Reads
 */

/* The page that locates the block is absent.  Returns as shingle_prepare_read(). */
static noinline int await_page(struct shingle_device *d, u32 *n)
{
	bool gone = shingle_pages_gone(d->engine);

	if (shingle_await_page(d) == SHINGLE_ABSENT) {
		/* The length of the run is unknown until the page is here. */
		*n = 1;
		return -EBUSY;
	}
	d->stats.n.read_errors++;
	/* A page that cannot be read at present does not mean that its blocks are lost. */
	return gone ? -ENODATA : DM_MAPIO_KILL;
}

/**
 * shingle_look_up() - look up a prefix of a read
 * @d: the device
 * @io: core's part of the read
 * @lblk: its first block
 * @n: its length; result, length of the prefix
 * @run: result, its place
 * @hits: result, its slots in the write cache; NULL if the cache was empty when the read
 *	arrived
 *
 * A read that is counted among the readers does not wait: what it would wait for waits for it.
 *
 * Context: map lock.
 * Return: DM_MAPIO_REMAPPED if it may be submitted, DM_MAPIO_SUBMITTED if it is zeroes,
 * DM_MAPIO_KILL, -ENODATA if it is known to be unreadable, -EBUSY if it must wait, or -EALREADY if
 * it is in the write cache.
 */
int shingle_look_up(struct shingle_device *d, const struct shingle_io *io, u64 lblk, u32 *n,
		    struct shingle_run *run, struct shingle_hits *hits)
{
	bool counted = io->state == SHINGLE_IO_READ;
	u64 bad;

	lockdep_assert_held(&d->map_lock);
	if (d->health.mode == SHINGLE_FAIL)
		return DM_MAPIO_KILL;
	if (unlikely(hits) && shingle_wcache_find(d, lblk, n, hits)) {
		if (hits->n)
			return -EALREADY;
		d->stats.n.read_errors++;
		return -ENODATA;
	}
	if (unlikely(d->phase.resetting) && !counted) {
		/* One block: the map after the reset is unknown. */
		*n = 1;
		return -EBUSY;
	}
	if (unlikely(d->bad.nr) && shingle_bad_hit(&d->bad, lblk, *n, &bad)) {
		if (bad == lblk) {
			*n = 1;
			d->stats.n.read_errors++;
			return -ENODATA;
		}
		*n = bad - lblk;
	}
	d->ops->map.resolve(d->engine, lblk, *n, run);
	*n = run->n;
	if (run->kind >= SHINGLE_RUN_ZERO)
		return run->kind == SHINGLE_RUN_ZERO ? DM_MAPIO_SUBMITTED : await_page(d, n);
	if (unlikely(d->cleaner.hold_n) && !counted &&
	    run->pblk < d->cleaner.hold_pblk + d->cleaner.hold_n &&
	    d->cleaner.hold_pblk < run->pblk + run->n) {
		/* One block: the run may be split afterwards. */
		*n = 1;
		return -EBUSY;
	}
	return DM_MAPIO_REMAPPED;
}

/**
 * shingle_prepare_read() - look up a prefix of a read, and count the read among the readers
 * @d: the device
 * @io: core's part of the read
 * @lblk: as shingle_look_up()
 * @n: as shingle_look_up()
 * @pblk: result, its place
 * @hits: as shingle_look_up()
 *
 * Context: map lock.
 * Return: as shingle_look_up(); the read is counted if it may be submitted.
 */
int shingle_prepare_read(struct shingle_device *d, struct shingle_io *io, u64 lblk, u32 *n,
			 u64 *pblk, struct shingle_hits *hits)
{
	struct shingle_run run;
	int r = shingle_look_up(d, io, lblk, n, &run, hits);

	if (r != DM_MAPIO_REMAPPED)
		return r;
	shingle_join_readers(d, io);
	io->zero = run.kind == SHINGLE_RUN_UNWRITTEN;
	*pblk = run.pblk;
	return r;
}

/*
 * The engine has a read side: count the read, or hand it over if it needs several runs.  Returns
 * whether it was handed over.
 */
static noinline bool map_log_read(struct shingle_device *d, struct bio *bio, int r, u64 lblk,
				  u32 all, u32 n, u64 pblk)
{
	struct shingle_seeks *seeks = &d->engine->reads->seeks;
	bool adds = n < all && (r == DM_MAPIO_REMAPPED || r == DM_MAPIO_SUBMITTED);

	lockdep_assert_held(&d->map_lock);
	/* A rest that is not handed over arrives as another bio. */
	if (r == DM_MAPIO_REMAPPED && !adds)
		shingle_seeks_one_run(seeks, lblk, n, pblk, n);
	else
		shingle_seeks_host(seeks, false, lblk, adds ? all : n);
	if (adds)
		shingle_reads_add(d, bio);
	return adds;
}

static __always_inline int map_read(struct shingle_device *d, struct bio *bio,
				    struct shingle_io *io, struct shingle_hits *hits)
{
	u64 lblk = bio_lblk(d, bio), pblk;
	u32 all = bio_blocks(bio), n = all;
	int r;

	this_cpu_inc(d->cpu->host_reads);
	spin_lock_irq(&d->map_lock);
	r = shingle_prepare_read(d, io, lblk, &n, &pblk, hits);
	if (unlikely(d->kept) && map_log_read(d, bio, r, lblk, all, n, pblk)) {
		spin_unlock_irq(&d->map_lock);
		return DM_MAPIO_SUBMITTED;
	}
	if (n < all)
		dm_accept_partial_bio(bio, n << SHINGLE_SECTORS_SHIFT);
	if (r == -EBUSY)
		defer(d, bio);
	spin_unlock_irq(&d->map_lock);
	if (r == -EBUSY)
		return DM_MAPIO_SUBMITTED;

	follow_map(d, bio, io, r, n, pblk);
	if (r == DM_MAPIO_SUBMITTED)
		end_zeroes(bio);
	else if (r == -ENODATA)
		end_unreadable(bio);
	if (hits && r == -EALREADY) {
		shingle_wcache_read(d, bio, hits);
		bio_endio(bio);
	}
	return r < 0 ? DM_MAPIO_SUBMITTED : r;
}

/* Separate, so that other reads need no room for @hits on the stack. */
static noinline int map_read_wcache(struct shingle_device *d, struct bio *bio,
				    struct shingle_io *io)
{
	struct shingle_hits hits;

	return map_read(d, bio, io, &hits);
}

/* ------------------------------------------------------------------------
 * Writes
 */

/**
 * shingle_route_gathered() - shingle_place() for an engine that gathers writes
 * @d: the device
 * @lblk: first block
 * @n: number of blocks
 * @w: result
 * @bio: the bio that will be submitted
 *
 * Blocks in the write cache are replaced there.  A part of shingle_route().
 *
 * Context: map lock.
 * Return: as shingle_place().
 */
int shingle_route_gathered(struct shingle_device *d, u64 lblk, u32 n, struct shingle_write *w,
			   struct bio *bio)
{
	u32 clear, offset;

	lockdep_assert_held(&d->map_lock);
	clear = shingle_wcache_clear(d, lblk, n);
	if (clear)
		return shingle_place(d, lblk, clear, w, bio);
	/*
	 * Only this unit: the engine may have nothing gathered in the next one, or no room for it.
	 */
	div_u64_rem(lblk, d->engine->gather_blocks, &offset);
	w->run.n = min(n, d->engine->gather_blocks - offset);
	return d->health.mode == SHINGLE_RW ? SHINGLE_GATHER : -EROFS;
}

/* The write waits with all of its @n blocks. */
static void defer_write(struct shingle_device *d, struct bio *bio, struct shingle_io *io, u64 lblk,
			u32 n)
{
	io->lblk = lblk;
	io->n = n;
	defer(d, bio);
}

/*
 * Take up to @n of @all blocks of a write into the write cache, or let the write wait for room
 * there.
 */
static u32 map_buffer(struct shingle_device *d, struct bio *bio, struct shingle_io *io, u64 lblk,
		      u32 n, u32 all, struct list_head *slots)
{
	lockdep_assert_held(&d->map_lock);
	/* Not before writes that have waited longer. */
	n = d->wcache.waiting ? 0 : shingle_wcache_take(d, lblk, n, slots);
	if (!n) {
		io->waits = true;
		d->wcache.waiting++;
		defer_write(d, bio, io, lblk, all);
		if (d->gathers)
			shingle_want_epoch(d);
	} else if (n < all) {
		dm_accept_partial_bio(bio, n << SHINGLE_SECTORS_SHIFT);
	}
	return n;
}

/*
 * Does a write go through the write cache?  Only for engines that do not gather.  Returns 0 if it
 * goes straight to the engine, SHINGLE_GATHER if it goes to the cache, -EBUSY if it must wait until
 * older blocks have left the cache, or -EROFS if the device accepts no writes.
 */
static int pass_wcache(struct shingle_device *d, struct shingle_io *io, u64 lblk, u32 n)
{
	/* Needed, too, if the cache is switched off before there is room. */
	io->seq = d->wcache.seq;
	if (buffers(d, io)) {
		io->w.run.n = n;
		return d->health.mode == SHINGLE_RW ? SHINGLE_GATHER : -EROFS;
	}
	return shingle_wcache_in_the_way(d, lblk, n, io->seq) ? -EBUSY : 0;
}

static int map_write(struct shingle_device *d, struct bio *bio, struct shingle_io *io)
{
	u32 n = bio_blocks(bio), taken = 0;
	u64 lblk = bio_lblk(d, bio);
	LIST_HEAD(slots);
	bool held = false;
	int r = 0;

	io->fua = bio->bi_opf & REQ_FUA;
	/* A commit flushes the data before the map; FUA below would be redundant. */
	bio->bi_opf &= ~REQ_FUA;
	this_cpu_inc(d->cpu->host_writes);
	spin_lock_irq(&d->map_lock);
	d->stats.n.fua_writes += io->fua;
	if (unlikely(d->trims.nr))
		shingle_trim_remove(&d->trims, lblk, n);
	/* An engine that gathers ends the write as a flush, which reports the loss. */
	if (unlikely(d->losses.unreported) && io->fua && !d->gathers)
		r = -EIO;
	if (!r && unlikely(d->wcache.blocks) && !d->gathers)
		r = pass_wcache(d, io, lblk, n);
	if (!r)
		r = shingle_route(d, lblk, n, &io->w, bio);
	if (!r) {
		io->state = SHINGLE_IO_WRITE;
		held = io->w.held;
		if (io->w.run.n < n)
			dm_accept_partial_bio(bio, io->w.run.n << SHINGLE_SECTORS_SHIFT);
		this_cpu_add(d->cpu->host_write_blocks, io->w.run.n);
		/* After the lock is released another thread may submit it. */
		if (unlikely(held))
			shingle_remap(d, bio, io->w.run.pblk);
	} else if (r == SHINGLE_GATHER) {
		taken = map_buffer(d, bio, io, lblk, io->w.run.n, n, &slots);
	} else if (!shingle_is_final(r)) {
		defer_write(d, bio, io, lblk, n);
	}
	spin_unlock_irq(&d->map_lock);

	if (likely(!r && !held)) {
		shingle_remap(d, bio, io->w.run.pblk);
		return DM_MAPIO_REMAPPED;
	}
	if (unlikely(r == SHINGLE_FULL)) {
		bio->bi_status = BLK_STS_NOSPC;
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	if (shingle_is_final(r))
		return DM_MAPIO_KILL;
	if (taken) {
		if (!shingle_wcache_fill(d, bio, bio->bi_iter, &slots))
			bio->bi_status = BLK_STS_IOERR;
		shingle_end_write(d, bio);
	}
	return DM_MAPIO_SUBMITTED;
}

/* ------------------------------------------------------------------------
 * All bios
 */

static int map_bio(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);
	bool waits;

	io->state = SHINGLE_IO_PLAIN;
	io->status = BLK_STS_OK;
	io->zero = false;
	io->fua = false;
	io->waits = false;
	atomic_set(&io->pieces, 0);

	if (bio->bi_opf & REQ_PREFLUSH) {
		/* dm sends flushes empty and separately. */
		io->fua = true;
		spin_lock_irq(&d->map_lock);
		d->stats.n.flushes++;
		/* A table that accepts no writes has nothing to make durable. */
		io->fua = !d->disks.read_only;
		waits = unlikely(d->wcache.blocks) && shingle_wcache_flush(d, bio);
		if (unlikely(d->losses.unreported) && !d->wcache.blocks) {
			io->status = BLK_STS_IOERR;
			d->losses.unreported = 0;
		}
		spin_unlock_irq(&d->map_lock);
		if (!waits)
			shingle_finish(d, bio);
		return DM_MAPIO_SUBMITTED;
	}
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		/* A write that is acknowledged after this check need not be seen by the read. */
		if (unlikely(READ_ONCE(d->wcache.nr)))
			return map_read_wcache(d, bio, io);
		return map_read(d, bio, io, NULL);
	case REQ_OP_WRITE:
		return map_write(d, bio, io);
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		io->lblk = bio_lblk(d, bio);
		io->n = bio_blocks(bio);
		io->fua = bio->bi_opf & REQ_FUA;
		spin_lock_irq(&d->map_lock);
		io->seq = d->wcache.seq;
		bio_list_add(&d->waiters.deferred, bio);
		spin_unlock_irq(&d->map_lock);
		shingle_kick(d);
		return DM_MAPIO_SUBMITTED;
	default:
		return DM_MAPIO_KILL;
	}
}

static void host_done(struct shingle_device *d)
{
	this_cpu_write(d->cpu->last_io, jiffies);
	/* If shingle_quiet_for() no longer counts this bio, it must see the time of its end. */
	smp_wmb();
	this_cpu_dec(d->cpu->ios);
}

/**
 * shingle_map() - process a bio that has arrived
 * @ti: the target
 * @bio: see struct target_type
 *
 * Context: may sleep, does not.
 * Return: as the map function of a target.
 */
int shingle_map(struct dm_target *ti, struct bio *bio)
{
	struct shingle_device *d = ti->private;
	int r;

	this_cpu_inc(d->cpu->ios);
	r = map_bio(d, bio);
	/* Then dm does not call end_io. */
	if (r == DM_MAPIO_KILL)
		host_done(d);
	return r;
}

/**
 * shingle_end_io() - a bio is about to end
 * @ti: the target
 * @bio: see struct target_type
 * @error: its status
 *
 * Context: any, interrupts included.
 * Return: as the end_io function of a target.
 */
int shingle_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct shingle_device *d = ti->private;
	struct shingle_io *io = shingle_bio_io(bio);
	u8 state = io->state;

	io->state = SHINGLE_IO_PLAIN;
	if (state == SHINGLE_IO_READ) {
		/*
		 * The block is unwritten: an error there, after a neighbouring write has destroyed
		 * it, does not matter.
		 */
		if (io->zero) {
			*error = BLK_STS_OK;
			bio->bi_iter = io->iter;
			zero_fill_bio(bio);
		}
		shingle_leave_readers(d, io->reader_set);
	} else if (state == SHINGLE_IO_WRITE) {
		shingle_write_done(d, &io->w, *error, NULL);
		if (io->fua && !*error) {
			shingle_finish(d, bio);
			return DM_ENDIO_INCOMPLETE;
		}
	}
	host_done(d);
	return DM_ENDIO_DONE;
}
