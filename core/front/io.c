// SPDX-License-Identifier: GPL-2.0
/*
 * Bios: looking up, placing, ordering, completing.
 *
 * What needs nothing is remapped straight from .map.  Everything else waits in
 * one list and is tried again, in order, when what it waits for may have come:
 *
 *   no room in the journal    the end of a commit; if all room is promised to writes
 *                             under way (awaits_write), the end of one
 *   engine: -EBUSY            the end of a write (awaits_write), of a step, a release
 *   engine: -ENOSPC           the end of a step, a release, or that there is nothing to
 *                             clean (awaits_room); the end of a write makes the cleaner
 *                             look again, as long as there is pressure
 *   the write cache           the end of a destage, a step of an epoch, a reader less
 *   a step, a reset           its end
 *
 * An engine that says SHINGLE_FULL has nothing to wait for: the bio ends, without room.
 *
 * Whoever finds that it must wait says so under the map lock, in the critical section
 * in which it has found it; whoever changes that looks under the map lock afterwards.
 */
#include <linux/interval_tree_generic.h>

#include "device.h"
#include "shingle.h"
#include "trace.h"

/* Blocks of zeroes written at a time. */
#define ZERO_PIECE	64

static u64 bio_lblk(const struct shingle_device *d, const struct bio *bio)
{
	return dm_target_offset(d->ti, bio->bi_iter.bi_sector) >> SHINGLE_SECTORS_SHIFT;
}

static u32 bio_blocks(const struct bio *bio)
{
	return bio_sectors(bio) >> SHINGLE_SECTORS_SHIFT;
}

/**
 * shingle_kick() - look at the waiting bios again
 * @d: the device
 *
 * Context: any.
 */
void shingle_kick(struct shingle_device *d)
{
	queue_work(d->wq, &d->work);
}

static void defer(struct shingle_device *d, struct bio *bio)
{
	lockdep_assert_held(&d->map_lock);
	bio_list_add(&d->deferred, bio);
	d->n.deferred++;
}

/* ------------------------------------------------------------------------
 * Rule R0 and the order of writes
 */

/*
 * Before a write, nothing that its head will cover may be in use, neither by
 * the current map nor by the one that recovery would rebuild now.
 */
static bool window_clear(struct shingle_device *d, const struct shingle_run *run)
{
	lockdep_assert_held(&d->map_lock);
	if (!shingle_would_destroy(&d->layout, d->engine, run->pblk, run->n))
		return true;
	d->n.r0_violations++;
	DMERR_LIMIT("%s: write of %u blocks at %llu refused: it would destroy data in use",
		    dm_table_device_name(d->ti->table), run->n, shingle_pblk_block(run->pblk));
	return false;
}

#define FLIGHT_START(w)	((w)->run.pblk)
#define FLIGHT_LAST(w)	((w)->run.pblk + (w)->run.n - 1)

INTERVAL_TREE_DEFINE(struct shingle_write, flight, u64, flight_last, FLIGHT_START, FLIGHT_LAST,
		     static, flight);

/**
 * struct window - where writes are that another one could meet
 * @g: all of it is in this group
 * @from: first block
 * @to: first block behind
 */
struct window {
	const struct shingle_group *g;
	u64 from;
	u64 to;
};

static bool could_meet(const struct window *win, const struct shingle_write *w,
		       const struct shingle_write *f)
{
	u64 start = w->run.pblk, end = start + w->run.n;
	u64 f_start = f->run.pblk, f_end = f_start + f->run.n;

	return f_start < win->to && f_end > win->from && f_start >= win->g->start &&
	       max(end, f_end) - min(start, f_start) > win->g->track_blocks / 2;
}

/*
 * Of writes with a block in [@first, @last] the latest that was placed before @w, and
 * could meet it in @win, unless @latest is later.  Without @win all of them meet it.
 */
static struct shingle_write *later_one(struct shingle_device *d, const struct shingle_write *w,
				       const struct window *win, u64 first, u64 last,
				       struct shingle_write *latest)
{
	struct shingle_write *f;

	lockdep_assert_held(&d->map_lock);
	for (f = flight_iter_first(&d->flight, first, last); f;
	     f = flight_iter_next(f, first, last)) {
		if (f->turn < w->turn && (!latest || f->turn > latest->turn) &&
		    (!win || could_meet(win, w, f)))
			latest = f;
	}
	return latest;
}

/*
 * On a medium whose columns are not known two writes meet if they are on tracks under
 * the same head, unless they are so near to each other that no skew of up to half a
 * track lets them.
 *
 * Writes to a log are all in one window, and nearly all within half a track: only
 * those are looked at that begin or end farther away than that, or overlap.
 */
static struct shingle_write *may_have_to_wait(struct shingle_device *d,
					      const struct shingle_write *w)
{
	const struct shingle_group *g = shingle_group_of(&d->layout, w->run.pblk);
	u64 start = w->run.pblk, end = start + w->run.n, first, half;
	struct shingle_write *f = NULL;
	struct window win = { .g = g };

	if (!g || !g->track_blocks)
		return NULL;
	/* All blocks of the group on tracks that share a head with one of @w's. */
	first = div_u64(start - g->start, g->track_blocks);
	first -= min_t(u64, first, d->layout.head_tracks - 1);
	win.from = g->start + first * g->track_blocks;
	win.to = g->start + (div_u64(end - 1 - g->start, g->track_blocks) +
			     d->layout.head_tracks) * g->track_blocks;
	win.to = min(win.to, g->start + g->nr_bands * g->stride);
	half = g->track_blocks / 2;

	if (end > win.from + half)
		f = later_one(d, w, &win, win.from, end - half - 1, f);
	if (start + half < win.to)
		f = later_one(d, w, &win, start + half, win.to - 1, f);
	return later_one(d, w, &win, start, end - 1, f);
}

/*
 * Which write placed before @w must it wait for?  One that it could meet in a
 * column of the medium: on another track under the same head; or one to its own blocks.
 * Of several the latest is chosen, since it is likely to end last.
 */
static struct shingle_write *must_wait(struct shingle_device *d, const struct shingle_write *w)
{
	u64 start = w->run.pblk;
	struct shingle_write *f;
	struct shingle_windows it;
	struct shingle_window near;

	lockdep_assert_held(&d->map_lock);
	if (!shingle_neighbours_begin(&it, &d->layout, start, w->run.n))
		return may_have_to_wait(d, w);
	f = later_one(d, w, NULL, start, start + w->run.n - 1, NULL);
	while (shingle_windows_next(&it, &near))
		f = later_one(d, w, NULL, near.from, near.from + near.blocks - 1, f);
	return f;
}

/* @w follows others into the air, unless it has to wait for one. */
static void join_flight(struct shingle_device *d, struct shingle_write *w)
{
	struct shingle_write *f;

	INIT_LIST_HEAD(&w->waiters);
	w->turn = d->turns++;
	flight_insert(w, &d->flight);
	f = must_wait(d, w);
	w->held = f;
	if (f) {
		list_add_tail(&w->wait, &f->waiters);
		d->n.ordered_waits++;
	}
}

/* @w has ended: who waited for it may have to wait for another one. */
static void leave_flight(struct shingle_device *d, struct shingle_write *w)
{
	flight_remove(w, &d->flight);
	list_splice_tail_init(&w->waiters, &d->woken);
}

/*
 * Submit the writes whose turn has come.  In a worker of its own: the one that looks
 * at what waits may need the memory of these.
 */
static void order_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(work, struct shingle_device, order_work);
	struct bio_list ready = BIO_EMPTY_LIST;
	struct shingle_write *w, *f;
	struct bio *bio;

	spin_lock_irq(&d->map_lock);
	while ((w = list_first_entry_or_null(&d->woken, struct shingle_write, wait))) {
		f = must_wait(d, w);
		if (f) {
			list_move_tail(&w->wait, &f->waiters);
			continue;
		}
		list_del_init(&w->wait);
		w->held = false;
		bio_list_add(&ready, w->bio);
	}
	spin_unlock_irq(&d->map_lock);
	while ((bio = bio_list_pop(&ready)))
		submit_bio_noacct(bio);
}

/* ------------------------------------------------------------------------
 * Writes
 */

/* Is it an answer of shingle_place() with which the bio ends? */
static bool is_final(int r)
{
	return r == -EIO || r == -EROFS || r == SHINGLE_FULL;
}

/* Its worth is in the order, which is that of the kernel's hints. */
static enum shingle_life bio_life(const struct bio *bio)
{
	u32 hint = shingle_bio_write_hint(bio);

	BUILD_BUG_ON(RWH_WRITE_LIFE_EXTREME - RWH_WRITE_LIFE_NONE != SHINGLE_LIFE_EXTREME);
	if (hint < RWH_WRITE_LIFE_SHORT || hint > RWH_WRITE_LIFE_EXTREME)
		return SHINGLE_LIFE_UNKNOWN;
	return hint - RWH_WRITE_LIFE_NONE;
}

/**
 * shingle_place() - find room for a prefix of a write
 * @d: the device
 * @lblk: first block
 * @n: how many
 * @w: result
 * @bio: what will be submitted
 *
 * The records that its commit will leave are reserved here, so that a completion
 * never has to wait.
 *
 * Context: map lock.  Returns 0; SHINGLE_GATHER if a prefix of @w->run.n blocks is to
 * go to the write cache; -EROFS, -EIO, SHINGLE_FULL if it must fail; or another error
 * if it must wait to be kicked.
 */
int shingle_place(struct shingle_device *d, u64 lblk, u32 n, struct shingle_write *w,
		  struct bio *bio)
{
	u32 records = d->ops->commit_records + 1;
	int r;

	lockdep_assert_held(&d->map_lock);
	if (d->mode != SHINGLE_RW)
		return -EROFS;
	if (d->resetting || !shingle_journal_reserve(d, records))
		return -EAGAIN;
	r = d->ops->place(d->engine, lblk, n, bio_life(bio), &w->run);
	if (!r && !window_clear(d, &w->run)) {
		d->ops->abort(d->engine, &w->run);
		r = -EIO;
	}
	if (r) {
		shingle_journal_cancel(d, records);
		if (is_final(r) || r == SHINGLE_GATHER)
			return r;
		if (r == -ENOSPC)
			d->awaits_room = true;
		else
			d->awaits_write = true;
		shingle_want_clean(d);
		return r;
	}
	w->bio = bio;
	w->held = false;
	if (d->layout.head_tracks > 1)
		join_flight(d, w);
	trace_shingle_place(dm_table_device_name(d->ti->table), &w->run);
	return 0;
}

/**
 * shingle_write_done() - the data of a placed write are on the medium, or are not
 * @d: the device
 * @w: the write
 * @status: of its bio
 * @slots: of the write cache, if they were destaged by it, else NULL
 *
 * Context: any, interrupts included.
 */
void shingle_write_done(struct shingle_device *d, struct shingle_write *w, blk_status_t status,
			struct list_head *slots)
{
	struct shingle_record rec[SHINGLE_MAX_EMIT];
	struct shingle_emit emit = { .rec = rec, .max = SHINGLE_MAX_EMIT };
	u32 records = d->ops->commit_records + 1;
	unsigned long flags;
	bool kick, order, clean, wake;

	spin_lock_irqsave(&d->map_lock, flags);
	if (d->layout.head_tracks > 1)
		leave_flight(d, w);
	d->dirty[shingle_pblk_dev(w->run.pblk)] = true;
	if (status) {
		d->ops->abort(d->engine, &w->run);
		d->n.write_errors++;
		shingle_journal_cancel(d, records);
	} else {
		emit.seq = d->journal.seq;
		d->ops->commit(d->engine, &w->run, &emit);
		if (unlikely(d->step_bad.nr))
			shingle_bad_remove(&d->step_bad, w->run.lblk, w->run.n);
		if (unlikely(d->bad.nr) && shingle_bad_remove(&d->bad, w->run.lblk, w->run.n))
			shingle_emit(&emit, SHINGLE_REC_GOOD, 0, 0, w->run.lblk, w->run.n);
		/* Since it came a discard may have: the host reads what was written. */
		if (unlikely(d->trims.nr))
			shingle_trim_remove(&d->trims, w->run.lblk, w->run.n);
		shingle_journal_add(d, records, &emit);
	}
	if (unlikely(slots))
		shingle_wcache_written(d, slots, status);
	kick = (d->awaits_write || slots) && shingle_waiting(d);
	if (kick)
		d->awaits_write = false;
	order = !list_empty(&d->woken);
	clean = d->pressure || d->forced || d->epoch_open;
	wake = d->resetting || d->journal.awaited;
	d->journal.awaited = false;
	spin_unlock_irqrestore(&d->map_lock, flags);
	shingle_arm_idle(d);

	if (unlikely(order))
		queue_work(d->order_wq, &d->order_work);
	if (unlikely(kick))
		shingle_kick(d);
	if (unlikely(clean))
		queue_delayed_work(d->clean_wq, &d->clean_work, 0);
	if (unlikely(wake))
		wake_up_all(&d->wait);
}

/**
 * shingle_finish() - complete a host's bio, after a commit if it asked for one
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
	bio_list_add(&d->commits, bio);
	/* Within the lock: a commit under way may complete it, and then @d may be freed. */
	mod_delayed_work(d->wq, &d->commit_work, 0);
	spin_unlock_irqrestore(&d->map_lock, flags);
}

static void put_piece(struct shingle_device *d, struct bio *parent)
{
	if (atomic_dec_and_test(&shingle_bio_io(parent)->pieces))
		shingle_finish(d, parent);
}

/**
 * shingle_end_part() - nothing more comes of a host's bio but pieces under way
 * @d: the device
 * @bio: the bio
 *
 * Context: any, interrupts included.
 */
void shingle_end_part(struct shingle_device *d, struct bio *bio)
{
	if (atomic_read(&shingle_bio_io(bio)->pieces))
		put_piece(d, bio);
	else
		shingle_finish(d, bio);
}

static void piece_end_io(struct bio *bio)
{
	struct shingle_piece *p = container_of(bio, struct shingle_piece, bio);
	struct shingle_device *d = p->d;
	struct bio *parent = p->parent;
	blk_status_t status = bio->bi_status;

	shingle_write_done(d, &p->w, status, NULL);
	if (status)
		cmpxchg(&shingle_bio_io(parent)->status, BLK_STS_OK, status);
	bio_put(bio);
	put_piece(d, parent);
}

/* A bio that carries blocks [io->lblk, +n) of @parent, or zeroes. */
static struct shingle_piece *new_piece(struct shingle_device *d, struct bio *parent, u32 n)
{
	struct block_device *bdev = d->dev[SHINGLE_DEV_DATA]->bdev;
	struct shingle_io *io = shingle_bio_io(parent);
	struct shingle_piece *p;
	struct bio *bio;

	if (bio_op(parent) == REQ_OP_WRITE) {
		bio = bio_alloc_clone(bdev, parent, GFP_NOIO, &d->bios);
		bio_advance(bio, (bio_blocks(parent) - io->n) << SHINGLE_BLOCK_SHIFT);
	} else {
		bio = bio_alloc_bioset(bdev, n, REQ_OP_WRITE, GFP_NOIO, &d->bios);
		for (; n; n--)
			__bio_add_page(bio, ZERO_PAGE(0), SHINGLE_BLOCK_SIZE, 0);
	}
	/* Who polls asks for @parent: nobody would reap this one. */
	bio->bi_opf &= ~(REQ_FUA | REQ_PREFLUSH | REQ_POLLED);
	bio->bi_end_io = piece_end_io;
	p = container_of(bio, struct shingle_piece, bio);
	p->d = d;
	p->parent = parent;
	if (!atomic_read(&io->pieces))
		atomic_set(&io->pieces, 1);
	return p;
}

/*
 * As shingle_place(); of an engine that gathers writes what is in the write cache
 * is replaced there.
 */
static int steer(struct shingle_device *d, u64 lblk, u32 n, struct shingle_write *w,
		 struct bio *bio)
{
	u32 clear = n, offset;

	lockdep_assert_held(&d->map_lock);
	if (d->gathers)
		clear = shingle_wcache_clear(d, lblk, n);
	if (clear)
		return shingle_place(d, lblk, clear, w, bio);
	/* Of the next unit the engine may have nothing there, nor room for it. */
	div_u64_rem(lblk, d->engine->gather_blocks, &offset);
	w->run.n = min(n, d->engine->gather_blocks - offset);
	return d->mode == SHINGLE_RW ? SHINGLE_GATHER : -EROFS;
}

static int buffer_some(struct shingle_device *d, struct bio *bio, u32 most);

/*
 * Write up to @n more blocks of @parent, as a piece or to the write cache.  Worker
 * only: allocation may wait for pieces under way.  The piece is allocated before it
 * is placed because a placed write must join the order of writes at once.
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
	r = steer(d, io->lblk, n, &p->w, &p->bio);
	n = p->w.run.n;
	held = !r && p->w.held;
	if (!r) {
		/* Before the lock goes: once it may be submitted it may be gone. */
		p->bio.bi_iter.bi_size = p->w.run.n << SHINGLE_BLOCK_SHIFT;
		shingle_remap(d, &p->bio, p->w.run.pblk);
		atomic_inc(&io->pieces);
		io->lblk += p->w.run.n;
		io->n -= p->w.run.n;
		d->n.host_write_blocks += p->w.run.n;
		if (bio_op(parent) == REQ_OP_WRITE_ZEROES)
			d->n.zeroed_blocks += p->w.run.n;
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
 * Reads
 */

static void end_zeroes(struct bio *bio)
{
	zero_fill_bio(bio);
	bio_endio(bio);
}

/* What cleaning could not read was lost on the medium: the host is told so. */
static void end_unreadable(struct bio *bio)
{
	bio->bi_status = BLK_STS_MEDIUM;
	bio_endio(bio);
}

/*
 * Look up a prefix of a read: DM_MAPIO_REMAPPED when it may be submitted,
 * DM_MAPIO_SUBMITTED when it is zeroes, DM_MAPIO_KILL, -ENODATA when it is known
 * to be unreadable, -EBUSY to wait, or -EALREADY when it is in the write cache.
 * Sets @n to the length of the prefix, @pblk to its place.  @hits is NULL if there was
 * nothing in the write cache when the read came.
 */
static int prepare_read(struct shingle_device *d, struct bio *bio, u32 *n, u64 *pblk,
			struct shingle_hits *hits)
{
	struct shingle_io *io = shingle_bio_io(bio);
	struct shingle_run run;
	u64 lblk = bio_lblk(d, bio), bad;

	lockdep_assert_held(&d->map_lock);
	if (d->mode == SHINGLE_FAIL)
		return DM_MAPIO_KILL;
	if (unlikely(hits) && shingle_wcache_find(d, lblk, n, hits)) {
		if (hits->n)
			return -EALREADY;
		d->n.read_errors++;
		return -ENODATA;
	}
	if (unlikely(d->resetting)) {
		/* One block at a time: who knows what will be there afterwards. */
		*n = 1;
		return -EBUSY;
	}
	if (unlikely(d->bad.nr) && shingle_bad_hit(&d->bad, lblk, *n, &bad)) {
		if (bad == lblk) {
			*n = 1;
			d->n.read_errors++;
			return -ENODATA;
		}
		*n = bad - lblk;
	}
	d->ops->resolve(d->engine, lblk, *n, &run);
	*n = run.n;
	if (run.kind == SHINGLE_RUN_ZERO)
		return DM_MAPIO_SUBMITTED;
	if (unlikely(d->hold_n) && run.pblk < d->hold_pblk + d->hold_n &&
	    d->hold_pblk < run.pblk + run.n) {
		/* One block at a time: its map may be in pieces afterwards. */
		*n = 1;
		return -EBUSY;
	}
	io->state = SHINGLE_IO_READ;
	io->reader_set = d->reader_set;
	this_cpu_inc(d->cpu->readers[io->reader_set]);
	io->zero = run.kind == SHINGLE_RUN_UNWRITTEN;
	*pblk = run.pblk;
	return DM_MAPIO_REMAPPED;
}

/* What prepare_read() has found needs no lock any more. */
static void follow_map(struct shingle_device *d, struct bio *bio, int r, u32 n, u64 pblk)
{
	if (r == DM_MAPIO_REMAPPED || r == DM_MAPIO_SUBMITTED)
		this_cpu_add(d->cpu->host_read_blocks, n);
	if (r == DM_MAPIO_REMAPPED)
		shingle_remap(d, bio, pblk);
	shingle_bio_io(bio)->iter = bio->bi_iter;
}

/**
 * shingle_reading() - is any read under way that belongs to a set?
 * @d: the device
 * @set: which, and not shingle_device::reader_set: no read joins it meanwhile
 *
 * What has joined it is counted, since that was under the map lock, and what leaves it
 * meanwhile makes the sum less: if it comes to zero, all have left.
 *
 * Context: any, after the map lock was held with another set current.
 */
bool shingle_reading(struct shingle_device *d, u8 set)
{
	long nr = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		nr += READ_ONCE(per_cpu_ptr(d->cpu, cpu)->readers[set]);
	return nr;
}

static void leave_readers(struct shingle_device *d, u8 set)
{
	this_cpu_dec(d->cpu->readers[set]);
	/* As in prepare_to_wait(): who waits sees that, or we see that somebody does. */
	smp_mb();
	if (likely(READ_ONCE(d->reader_set) == set && !READ_ONCE(d->resetting)))
		return;
	/* Behind the same barrier. */
	if (waitqueue_active(&d->wait))
		wake_up_all(&d->wait);
}

/* ------------------------------------------------------------------------
 * Waiting bios, tried again in the worker: true when done with
 */

static bool give_up(struct shingle_device *d, struct bio *bio, int err)
{
	struct shingle_io *io = shingle_bio_io(bio);

	d->no_promise |= err == -EAGAIN;
	if (!is_final(err))
		return false;
	cmpxchg(&io->status, BLK_STS_OK, err == SHINGLE_FULL ? BLK_STS_NOSPC : BLK_STS_IOERR);
	shingle_end_part(d, bio);
	return true;
}

/*
 * All of a write is on its way.  What was gathered of it is in the write cache
 * only: if that is not enough, it ends as a flush does.
 */
static void end_write(struct shingle_device *d, struct bio *bio)
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

/*
 * Take a prefix of what is left of a write, @most blocks of it, into the write
 * cache.  Returns how many were taken, 0 if there is no room, -EROFS, or -ECANCELED if
 * it was switched off, unless the engine gathers.
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
		/* Who has switched it off may have been told already that it is empty. */
		n = -ECANCELED;
	} else if (d->mode == SHINGLE_RW) {
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

/* Is a write, of an engine that does not gather, acknowledged by the write cache? */
static bool buffers(const struct shingle_device *d, const struct shingle_io *io)
{
	return !io->fua && READ_ONCE(d->wcache.on);
}

/* As buffer_some(), of all that is left; above 0 when nothing is. */
static int buffer_all(struct shingle_device *d, struct bio *bio)
{
	int r = 1;

	while (r > 0 && shingle_bio_io(bio)->n)
		r = buffer_some(d, bio, U32_MAX);
	return r;
}

/* Is something older than the bio's blocks still in the write cache? */
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
		int r = buffers(d, io) ? buffer_all(d, bio) : -ECANCELED;

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
	end_write(d, bio);
	return true;
}

/*
 * A discard begins with @part of what can only be forgotten as a whole.  If the rest
 * was discarded before, @lblk and @n become that whole, and @left of its blocks do
 * not read as zeroes yet.
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
	if (d->mode != SHINGLE_RW)
		goto out;
	r = -EAGAIN;
	if (d->resetting || !shingle_journal_reserve(d, records))
		goto out;
	emit.seq = d->journal.seq;
	joined = !zeroes && joins(d, &lblk, &n, &part, &left);
	r = d->ops->discard(d->engine, lblk, n, done, dropped, &emit);
	if (r) {
		shingle_journal_cancel(d, records);
		if (!is_final(r)) {
			d->awaits_write = true;
			shingle_want_clean(d);
		}
		goto out;
	}
	if (*dropped) {
		d->n.discard_blocks += joined ? left : *done;
		shingle_bad_remove(&d->step_bad, lblk, *done);
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
		/* The engine cannot forget these; they are written instead. */
		end = io->lblk + done;
		while (io->lblk < end) {
			r = write_piece(d, bio, min_t(u64, end - io->lblk, ZERO_PIECE));
			if (r)
				return give_up(d, bio, r);
		}
	}
	end_write(d, bio);
	return true;
}

static bool retry_read(struct shingle_device *d, struct bio *bio)
{
	struct shingle_hits hits;
	u32 n = bio_blocks(bio);
	u64 pblk;
	int r;

	spin_lock_irq(&d->map_lock);
	r = prepare_read(d, bio, &n, &pblk, &hits);
	spin_unlock_irq(&d->map_lock);
	if (r == -EBUSY)
		return false;
	if (r == -EALREADY) {
		shingle_wcache_read(d, bio, &hits);
		bio_endio(bio);
		return true;
	}
	follow_map(d, bio, r, n, pblk);
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

/**
 * shingle_io_work() - look at everything that waits
 * @work: shingle_device::work
 *
 * Context: workqueue.
 */
void shingle_io_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(work, struct shingle_device, work);
	struct bio_list todo, again = BIO_EMPTY_LIST;
	struct bio *bio;
	u32 tried = 0;

	spin_lock_irq(&d->map_lock);
	todo = d->deferred;
	bio_list_init(&d->deferred);
	/* What a bio of these has waited for may happen before it is back. */
	d->retrying = !bio_list_empty(&todo);
	spin_unlock_irq(&d->map_lock);

	d->no_promise = false;
	while ((bio = bio_list_pop(&todo))) {
		bool done;

		if (d->no_promise && bio_op(bio) != REQ_OP_READ) {
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
	bio_list_merge_head(&d->deferred, &again);
	d->retrying = false;
	d->n.retried += tried;
	spin_unlock_irq(&d->map_lock);
	if (unlikely(d->wcache.blocks))
		shingle_wcache_kick(d);
}

/* ------------------------------------------------------------------------
 * Bios as they come
 */

static __always_inline int map_read(struct shingle_device *d, struct bio *bio,
				    struct shingle_hits *hits)
{
	u32 all = bio_blocks(bio), n = all;
	u64 pblk;
	int r;

	this_cpu_inc(d->cpu->host_reads);
	spin_lock_irq(&d->map_lock);
	r = prepare_read(d, bio, &n, &pblk, hits);
	if (n < all)
		dm_accept_partial_bio(bio, n << SHINGLE_SECTORS_SHIFT);
	if (r == -EBUSY)
		defer(d, bio);
	spin_unlock_irq(&d->map_lock);
	if (r == -EBUSY)
		return DM_MAPIO_SUBMITTED;

	follow_map(d, bio, r, n, pblk);
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

/* Apart, so that other reads need no room for @hits on the stack. */
static noinline int map_read_wcache(struct shingle_device *d, struct bio *bio)
{
	struct shingle_hits hits;

	return map_read(d, bio, &hits);
}

/* The write cache takes up to @n blocks of a write, or it waits for room there. */
static u32 map_buffer(struct shingle_device *d, struct bio *bio, u32 n, struct list_head *slots)
{
	struct shingle_io *io = shingle_bio_io(bio);
	u32 all = bio_blocks(bio);

	lockdep_assert_held(&d->map_lock);
	/* Not before those who were here first. */
	n = d->wcache.waiting ? 0 : shingle_wcache_take(d, bio_lblk(d, bio), n, slots);
	if (!n) {
		io->lblk = bio_lblk(d, bio);
		io->n = all;
		io->waits = true;
		d->wcache.waiting++;
		defer(d, bio);
		if (d->gathers)
			shingle_want_epoch(d);
	} else if (n < all) {
		dm_accept_partial_bio(bio, n << SHINGLE_SECTORS_SHIFT);
	}
	return n;
}

/*
 * Does a write go through the write cache?  0 if it does not, SHINGLE_GATHER if it
 * does, -EROFS, -EBUSY if it must wait for what is there, -EIO if that was lost and
 * FUA has to say so.
 */
static int pass_wcache(struct shingle_device *d, struct bio *bio, struct shingle_io *io)
{
	/* Also for when it is switched off before there is room. */
	io->seq = d->wcache.seq;
	if (buffers(d, io)) {
		io->w.run.n = bio_blocks(bio);
		return d->mode == SHINGLE_RW ? SHINGLE_GATHER : -EROFS;
	}
	if (io->fua && d->wcache.error)
		return -EIO;
	return shingle_wcache_in_the_way(d, bio_lblk(d, bio), bio_blocks(bio), io->seq) ?
		-EBUSY : 0;
}

static int map_write(struct shingle_device *d, struct bio *bio)
{
	struct shingle_io *io = shingle_bio_io(bio);
	u32 n = bio_blocks(bio), taken = 0;
	LIST_HEAD(slots);
	bool held = false;
	int r = 0;

	io->fua = bio->bi_opf & REQ_FUA;
	/* A commit flushes the data before the map: FUA below would do it twice. */
	bio->bi_opf &= ~REQ_FUA;
	this_cpu_inc(d->cpu->host_writes);
	spin_lock_irq(&d->map_lock);
	d->n.fua_writes += io->fua;
	if (unlikely(d->trims.nr))
		shingle_trim_remove(&d->trims, bio_lblk(d, bio), n);
	if (unlikely(d->wcache.blocks) && !d->gathers)
		r = pass_wcache(d, bio, io);
	if (!r)
		r = steer(d, bio_lblk(d, bio), n, &io->w, bio);
	if (!r) {
		io->state = SHINGLE_IO_WRITE;
		held = io->w.held;
		if (io->w.run.n < n)
			dm_accept_partial_bio(bio, io->w.run.n << SHINGLE_SECTORS_SHIFT);
		this_cpu_add(d->cpu->host_write_blocks, io->w.run.n);
		/* Once the lock goes it may be submitted. */
		if (unlikely(held))
			shingle_remap(d, bio, io->w.run.pblk);
	} else if (r == SHINGLE_GATHER) {
		taken = map_buffer(d, bio, io->w.run.n, &slots);
	} else if (!is_final(r)) {
		io->lblk = bio_lblk(d, bio);
		io->n = n;
		defer(d, bio);
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
	if (is_final(r))
		return DM_MAPIO_KILL;
	if (taken) {
		if (!shingle_wcache_fill(d, bio, bio->bi_iter, &slots))
			bio->bi_status = BLK_STS_IOERR;
		end_write(d, bio);
	}
	return DM_MAPIO_SUBMITTED;
}

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
		/* dm sends flushes empty and by themselves. */
		io->fua = true;
		spin_lock_irq(&d->map_lock);
		d->n.flushes++;
		/* Of a table that takes no writes there is nothing to be made durable. */
		io->fua = !d->read_only;
		waits = unlikely(d->wcache.blocks) && shingle_wcache_flush(d, bio);
		spin_unlock_irq(&d->map_lock);
		if (!waits)
			shingle_finish(d, bio);
		return DM_MAPIO_SUBMITTED;
	}
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		/* What is acknowledged after this look is not before the read. */
		if (unlikely(READ_ONCE(d->wcache.nr)))
			return map_read_wcache(d, bio);
		return map_read(d, bio, NULL);
	case REQ_OP_WRITE:
		return map_write(d, bio);
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		io->lblk = bio_lblk(d, bio);
		io->n = bio_blocks(bio);
		io->fua = bio->bi_opf & REQ_FUA;
		spin_lock_irq(&d->map_lock);
		io->seq = d->wcache.seq;
		bio_list_add(&d->deferred, bio);
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
	/* Who misses it among those under way sees when it has ended. */
	smp_wmb();
	this_cpu_dec(d->cpu->ios);
}

/**
 * shingle_quiet_for() - for how long has the host been quiet?
 * @d: the device
 *
 * Context: any.  Returns jiffies, 0 if something is under way.
 */
unsigned long shingle_quiet_for(struct shingle_device *d)
{
	unsigned long now = jiffies, quiet = ULONG_MAX;
	long ios = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		ios += READ_ONCE(per_cpu_ptr(d->cpu, cpu)->ios);
	if (ios)
		return 0;
	/* As in host_done(). */
	smp_rmb();
	for_each_possible_cpu(cpu) {
		unsigned long last = READ_ONCE(per_cpu_ptr(d->cpu, cpu)->last_io);

		quiet = min(quiet, time_after(last, now) ? 0 : now - last);
	}
	return quiet;
}

static void sum_counters(struct shingle_device *d, struct shingle_cpu *sum)
{
	int cpu;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct shingle_cpu *c = per_cpu_ptr(d->cpu, cpu);

#define X(name) sum->name += READ_ONCE(c->name)
		SHINGLE_CPU_COUNTERS(X, ;);
#undef X
	}
}

/**
 * shingle_add_counters() - add what processors have counted for themselves
 * @d: the device
 * @n: counters; result
 *
 * Context: map lock.
 */
void shingle_add_counters(struct shingle_device *d, struct shingle_counters *n)
{
	struct shingle_cpu sum;

	lockdep_assert_held(&d->map_lock);
	sum_counters(d, &sum);
#define X(name) n->name += sum.name - d->cleared.name
	SHINGLE_CPU_COUNTERS(X, ;);
#undef X
}

/**
 * shingle_clear_counters() - all counters are zero from now on
 * @d: the device
 *
 * Context: map lock.
 */
void shingle_clear_counters(struct shingle_device *d)
{
	lockdep_assert_held(&d->map_lock);
	memset(&d->n, 0, sizeof(d->n));
	sum_counters(d, &d->cleared);
}

/**
 * shingle_map() - a bio comes in
 * @ti: the target
 * @bio: see struct target_type
 *
 * Context: may sleep, does not.
 */
int shingle_map(struct dm_target *ti, struct bio *bio)
{
	struct shingle_device *d = ti->private;
	int r;

	this_cpu_inc(d->cpu->ios);
	r = map_bio(d, bio);
	/* Then there is no end_io. */
	if (r == DM_MAPIO_KILL)
		host_done(d);
	return r;
}
EXPORT_SYMBOL_GPL(shingle_map);

/**
 * shingle_end_io() - a bio is about to end
 * @ti: the target
 * @bio: see struct target_type
 * @error: its status
 *
 * Context: any, interrupts included.
 */
int shingle_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct shingle_device *d = ti->private;
	struct shingle_io *io = shingle_bio_io(bio);
	u8 state = io->state;

	io->state = SHINGLE_IO_PLAIN;
	if (state == SHINGLE_IO_READ) {
		/* What a write ahead of it has destroyed there counts for nothing. */
		if (io->zero) {
			*error = BLK_STS_OK;
			bio->bi_iter = io->iter;
			zero_fill_bio(bio);
		}
		leave_readers(d, io->reader_set);
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
EXPORT_SYMBOL_GPL(shingle_end_io);

/**
 * shingle_fail_waiting() - nothing will make room any more
 * @d: the device, not SHINGLE_RW
 *
 * Context: any.  The worker finds the mode changed and ends what waits.
 */
void shingle_fail_waiting(struct shingle_device *d)
{
	shingle_kick(d);
	mod_delayed_work(d->wq, &d->commit_work, 0);
	wake_up_all(&d->wait);
}

/**
 * shingle_io_init() - prepare a device's lists
 * @d: the device
 *
 * Context: constructor.
 */
void shingle_io_init(struct shingle_device *d)
{
	bio_list_init(&d->deferred);
	bio_list_init(&d->commits);
	d->flight = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&d->woken);
	INIT_WORK(&d->work, shingle_io_work);
	INIT_WORK(&d->order_work, order_work);
}
