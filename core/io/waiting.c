// SPDX-License-Identifier: GPL-2.0
/*
 * Bios that wait.
 *
 * A bio that cannot be remapped directly in .map waits in one list.  The worker tries all of them
 * again, in order, when one may have got what it waits for:
 *
 *   no room in the journal    the end of a commit; if all room is promised to writes
 *                             in flight (awaits_write), the end of one
 *   engine: -EBUSY            the end of a write (awaits_write), of a step, a release
 *   engine: -ENOSPC           the end of a step, a release, or the cleaner finds nothing
 *                             to clean (awaits_room); the end of a write makes the cleaner
 *                             look again, as long as there is pressure
 *   the write cache           the end of a destage, a step of an epoch, the end of a read
 *   a step, a reset           its end
 *   a page of the map         its arrival; that of another, the end of a write
 *                             (awaits_write), or a checkpoint if there was no room for it
 *
 * If the engine returns SHINGLE_FULL there is nothing to wait for: the bio fails for lack of space.
 *
 * Code that makes a bio wait sets the flags under the map lock, in the critical section in which it
 * has found the reason.  Code that removes the reason checks them under the map lock afterwards.
 */
#include "base/device.h"
#include "base/wake.h"
#include "io/io.h"
#include "io/reads.h"
#include "log/log.h"
#include "map/map.h"

/* Blocks of zeroes written at a time. */
#define ZERO_PIECE	64

/* ------------------------------------------------------------------------
 * Pieces of a write
 */

static void piece_end_io(struct bio *bio)
{
	struct shingle_piece *p = container_of(bio, struct shingle_piece, bio);
	struct shingle_device *d = p->d;
	struct bio *parent = p->parent;
	blk_status_t status = bio->bi_status;

	shingle_write_done(d, &p->w, status, NULL);
	if (status)
		shingle_part_failed(parent, status);
	bio_put(bio);
	shingle_put_piece(d, parent);
}

/* A bio with blocks [io->lblk, +n) of @parent, or with zeroes. */
static struct shingle_piece *new_piece(struct shingle_device *d, struct bio *parent, u32 n)
{
	struct block_device *bdev = d->disks.dev[SHINGLE_DEV_DATA]->bdev;
	struct shingle_io *io = shingle_bio_io(parent);
	struct shingle_piece *p;
	struct bio *bio;

	if (bio_op(parent) == REQ_OP_WRITE) {
		bio = bio_alloc_clone(bdev, parent, GFP_NOIO, &d->disks.bios);
		bio_advance(bio, (bio_blocks(parent) - io->n) << SHINGLE_BLOCK_SHIFT);
	} else {
		bio = bio_alloc_bioset(bdev, n, REQ_OP_WRITE, GFP_NOIO, &d->disks.bios);
		for (; n; n--)
			__bio_add_page(bio, ZERO_PAGE(0), SHINGLE_BLOCK_SIZE, 0);
	}
	/* A polling host polls for @parent and would never find this bio. */
	bio->bi_opf &= ~(REQ_FUA | REQ_PREFLUSH | REQ_POLLED);
	bio->bi_end_io = piece_end_io;
	p = container_of(bio, struct shingle_piece, bio);
	p->d = d;
	p->parent = parent;
	if (!atomic_read(&io->pieces))
		atomic_set(&io->pieces, 1);
	return p;
}

static int buffer_some(struct shingle_device *d, struct bio *bio, u32 most);

/*
 * Write up to @n more blocks of @parent, as a piece or into the write cache.  Only for the worker:
 * allocation may wait for pieces in flight.  The piece is allocated before it is placed because a
 * placed write must enter the order of writes at once.
 */
static int write_piece(struct shingle_device *d, struct bio *parent, u32 n)
{
	struct shingle_io *io = shingle_bio_io(parent);
	struct shingle_piece *p = new_piece(d, parent, n);
	bool held;
	int r;

	spin_lock_irq(&d->map_lock);
	d->wcache.waiting -= io->waits;
	io->waits = false;
	ask_for(d, parent);
	r = shingle_route(d, io->lblk, n, &p->w, &p->bio);
	asked_for(d, parent, r == SHINGLE_ABSENT);
	n = p->w.run.n;
	held = !r && p->w.held;
	if (!r) {
		/* Before the lock is released: after that the piece may be submitted and freed. */
		p->bio.bi_iter.bi_size = p->w.run.n << SHINGLE_BLOCK_SHIFT;
		shingle_remap(d, &p->bio, p->w.run.pblk);
		atomic_inc(&io->pieces);
		io->lblk += p->w.run.n;
		io->n -= p->w.run.n;
		d->stats.n.host_write_blocks += p->w.run.n;
		if (bio_op(parent) == REQ_OP_WRITE_ZEROES)
			d->stats.n.zeroed_blocks += p->w.run.n;
	}
	spin_unlock_irq(&d->map_lock);
	if (r)
		bio_put(&p->bio);
	else if (!held)
		submit_bio_noacct(&p->bio);
	if (r != SHINGLE_GATHER)
		return r;
	r = buffer_some(d, parent, n);
	return r > 0 ? 0 : r ?: -ENOSPC;
}

/* ------------------------------------------------------------------------
 * Retries: true if the bio is done
 */

static bool give_up(struct shingle_device *d, struct bio *bio, int err)
{
	d->waiters.no_promise |= err == -EAGAIN;
	if (!shingle_is_final(err))
		return false;
	shingle_part_failed(bio, err == SHINGLE_FULL ? BLK_STS_NOSPC : BLK_STS_IOERR);
	shingle_end_part(d, bio);
	return true;
}

/*
 * Take a prefix of the rest of a write, at most @most blocks, into the write cache.  Returns the
 * number of blocks, 0 if there is no room, -EROFS, or -ECANCELED if the cache was switched off,
 * unless the engine gathers.
 */
static int buffer_some(struct shingle_device *d, struct bio *bio, u32 most)
{
	struct shingle_io *io = shingle_bio_io(bio);
	struct bvec_iter iter = bio->bi_iter;
	LIST_HEAD(slots);
	int n = -EROFS;

	spin_lock_irq(&d->map_lock);
	d->wcache.waiting -= io->waits;
	io->waits = false;
	if (!d->gathers && !d->wcache.on) {
		/* The message that switched it off may already have reported that it is empty. */
		n = -ECANCELED;
	} else if (d->health.mode == SHINGLE_RW) {
		n = shingle_wcache_take(d, io->lblk, min_t(u64, io->n, most), &slots);
		io->waits = !n;
		d->wcache.waiting += io->waits;
		if (!n && d->gathers)
			shingle_want_epoch(d);
	}
	spin_unlock_irq(&d->map_lock);
	if (n <= 0)
		return n;
	bio_advance_iter(bio, &iter, (bio_blocks(bio) - io->n) << SHINGLE_BLOCK_SHIFT);
	if (!shingle_wcache_fill(d, bio, iter, &slots))
		return -EROFS;
	io->lblk += n;
	io->n -= n;
	return n;
}

/* As buffer_some(), for all of the rest; returns a positive number when all is taken. */
static int buffer_all(struct shingle_device *d, struct bio *bio)
{
	int r = 1;

	while (r > 0 && shingle_bio_io(bio)->n)
		r = buffer_some(d, bio, U32_MAX);
	return r;
}

/* Is an older version of one of the bio's blocks still in the write cache? */
static bool in_the_way(struct shingle_device *d, struct shingle_io *io)
{
	bool r;

	spin_lock_irq(&d->map_lock);
	d->wcache.waiting -= io->waits;
	io->waits = false;
	r = shingle_wcache_in_the_way(d, io->lblk, io->n, io->seq);
	spin_unlock_irq(&d->map_lock);
	return r;
}

static bool retry_write(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);

	if (unlikely(d->wcache.blocks) && !d->gathers) {
		/*
		 * A write that the engine has refused goes to the engine again, even if the cache
		 * is on now.
		 */
		int r = io->waits && buffers(d, io) ? buffer_all(d, bio) : -ECANCELED;

		if (r > 0) {
			shingle_end_part(d, bio);
			return true;
		}
		if (r != -ECANCELED)
			return r && give_up(d, bio, r);
		if (in_the_way(d, io))
			return false;
	}
	while (io->n) {
		int r = write_piece(d, bio, min_t(u64, io->n, BIO_MAX_SECTORS >>
						  SHINGLE_SECTORS_SHIFT));

		if (r)
			return give_up(d, bio, r);
	}
	shingle_end_write(d, bio);
	return true;
}

/*
 * A discard begins with @part of a unit that can only be discarded as a whole.  If the rest of the
 * unit was discarded before, @lblk and @n become the unit; @left of its blocks do not read as
 * zeroes yet.
 */
static bool joins(struct shingle_device *d, u64 *lblk, u64 *n, u64 *part, u64 *left)
{
	u32 unit = d->engine->discard_blocks, offset;

	lockdep_assert_held(&d->map_lock);
	div_u64_rem(*lblk, unit, &offset);
	if (!offset && *n >= unit)
		return false;
	*part = min_t(u64, *n, unit - offset);
	shingle_trim_add(&d->trims, *lblk, *part, false);
	if (!shingle_trim_covers(&d->trims, *lblk - offset, unit, left))
		return false;
	*lblk -= offset;
	*n = unit;
	return true;
}

static int discard_some(struct shingle_device *d, struct shingle_io *io, bool zeroes,
			u64 *done, bool *dropped)
{
	struct shingle_record rec[SHINGLE_MAX_EMIT];
	struct shingle_emit emit = { .rec = rec, .max = SHINGLE_MAX_EMIT };
	u32 records = d->ops->discard_records + 1;
	u64 lblk = io->lblk, n = io->n, part = 0, left = 0;
	bool joined;
	int r = -EROFS;

	spin_lock_irq(&d->map_lock);
	if (d->health.mode != SHINGLE_RW)
		goto out;
	r = -EAGAIN;
	if (d->phase.resetting || !shingle_journal_reserve(d, records))
		goto out;
	emit.seq = d->journal.seq;
	joined = !zeroes && joins(d, &lblk, &n, &part, &left);
	ask_for(d, io);
	r = d->ops->map.discard(d->engine, lblk, n, done, dropped, &emit);
	if (r == SHINGLE_ABSENT)
		r = shingle_await_page(d);
	if (r) {
		shingle_journal_cancel(d, records);
		if (r != SHINGLE_ABSENT && !shingle_is_final(r)) {
			d->waiters.awaits_write = true;
			shingle_want_clean(d);
		}
		goto out;
	}
	if (*dropped) {
		d->stats.n.discard_blocks += joined ? left : *done;
		shingle_bad_remove(&d->cleaner.step_bad, lblk, *done);
		if (shingle_bad_remove(&d->bad, lblk, *done))
			shingle_emit(&emit, SHINGLE_REC_GOOD, 0, 0, lblk, *done);
		if (part && !joined)
			shingle_trim_add(&d->trims, lblk, *done, true);
		else if (d->trims.nr)
			shingle_trim_remove(&d->trims, lblk, *done);
	}
	if (joined)
		*done = part;
	shingle_journal_add(d, records, &emit);
out:
	asked_for(d, io, r == SHINGLE_ABSENT);
	spin_unlock_irq(&d->map_lock);
	return r;
}

static bool retry_discard(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);
	bool zeroes = bio_op(bio) == REQ_OP_WRITE_ZEROES;

	if (unlikely(d->wcache.blocks) && in_the_way(d, io))
		return false;
	while (io->n) {
		bool dropped;
		u64 done, end;
		int r = discard_some(d, io, zeroes, &done, &dropped);

		if (r)
			return give_up(d, bio, r);
		if (dropped || !zeroes) {
			io->lblk += done;
			io->n -= done;
			continue;
		}
		/* The engine cannot discard these: write zeroes instead. */
		end = io->lblk + done;
		while (io->lblk < end) {
			r = write_piece(d, bio, min_t(u64, end - io->lblk, ZERO_PIECE));
			if (r)
				return give_up(d, bio, r);
		}
	}
	shingle_end_write(d, bio);
	return true;
}

static bool retry_read(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);
	struct shingle_hits hits;
	u32 n = bio_blocks(bio);
	u64 pblk;
	int r;

	spin_lock_irq(&d->map_lock);
	ask_for(d, bio);
	r = shingle_prepare_read(d, io, bio_lblk(d, bio), &n, &pblk, &hits);
	asked_for(d, bio, r == -EBUSY);
	spin_unlock_irq(&d->map_lock);
	if (r == -EBUSY)
		return false;
	if (r == -EALREADY) {
		shingle_wcache_read(d, bio, &hits);
		bio_endio(bio);
		return true;
	}
	follow_map(d, bio, io, r, n, pblk);
	if (r == DM_MAPIO_KILL)
		bio_io_error(bio);
	else if (r == -ENODATA)
		end_unreadable(bio);
	else if (r == DM_MAPIO_SUBMITTED)
		end_zeroes(bio);
	else
		submit_bio_noacct(bio);
	return true;
}

/* Retry all waiting bios. */
static void io_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(work, struct shingle_device, worker.work);
	struct bio_list todo, again = BIO_EMPTY_LIST;
	struct bio *bio;
	u32 tried = 0;

	spin_lock_irq(&d->map_lock);
	todo = d->waiters.deferred;
	bio_list_init(&d->waiters.deferred);
	/* The event for which one of these bios waits may happen before it is in the list again. */
	d->waiters.retrying = !bio_list_empty(&todo);
	spin_unlock_irq(&d->map_lock);

	d->waiters.no_promise = false;
	while ((bio = bio_list_pop(&todo))) {
		bool done;

		if (d->waiters.no_promise && bio_op(bio) != REQ_OP_READ) {
			bio_list_add(&again, bio);
			continue;
		}
		tried++;
		if (bio_op(bio) == REQ_OP_READ)
			done = retry_read(d, bio);
		else if (bio_op(bio) == REQ_OP_WRITE)
			done = retry_write(d, bio);
		else
			done = retry_discard(d, bio);
		if (!done)
			bio_list_add(&again, bio);
	}

	spin_lock_irq(&d->map_lock);
	bio_list_merge_head(&d->waiters.deferred, &again);
	d->waiters.retrying = false;
	d->stats.n.retried += tried;
	spin_unlock_irq(&d->map_lock);
	if (unlikely(d->wcache.blocks))
		shingle_wcache_kick(d);
	shingle_reads_kick(d);
}

/**
 * shingle_io_init() - prepare a device's lists
 * @d: the device
 *
 * Context: constructor.
 */
void shingle_io_init(struct shingle_device *d)
{
	bio_list_init(&d->waiters.deferred);
	bio_list_init(&d->log.commits);
	INIT_WORK(&d->worker.work, io_work);
}
