// SPDX-License-Identifier: GPL-2.0
/*
 * Rule R1: writes that could meet on the medium are submitted in the order in which they were
 * placed.  Two writes meet if one destroys blocks of the other, or both write the same block.
 */
#include <linux/interval_tree_generic.h>

#include "base/device.h"
#include "medium/medium.h"

#define FLIGHT_START(w)	((w)->run.pblk)
#define FLIGHT_LAST(w)	((w)->run.pblk + (w)->run.n - 1)

INTERVAL_TREE_DEFINE(struct shingle_write, flight, u64, flight_last, FLIGHT_START, FLIGHT_LAST,
		     static, flight);

/**
 * struct window - the range of writes that another write could meet
 * @g: the group that contains all of it
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
 * Return the latest write that has a block in [@first, @last], was placed before @w, and could meet
 * it in @win; @latest if that is later.  Without @win all writes in the range meet it.
 */
static struct shingle_write *later_one(struct shingle_device *d, const struct shingle_write *w,
				       const struct window *win, u64 first, u64 last,
				       struct shingle_write *latest)
{
	struct shingle_write *f;

	lockdep_assert_held(&d->map_lock);
	for (f = flight_iter_first(&d->order.flight, first, last); f;
	     f = flight_iter_next(f, first, last)) {
		if (f->turn < w->turn && (!latest || f->turn > latest->turn) &&
		    (!win || could_meet(win, w, f)))
			latest = f;
	}
	return latest;
}

/*
 * On a medium without known columns two writes meet if they are on tracks under the same head,
 * unless they are so close to each other that no skew of up to half a track lets them.
 *
 * Writes to a log are all in one window, and nearly all within half a track.  So only writes that
 * begin or end farther away, or overlap, are looked at.
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
 * Which earlier write must @w wait for?  One that it could meet in a column of the medium, on
 * another track under the same head; or one to the same blocks.  If there are several, wait for the
 * latest: it is likely to end last.
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

/**
 * shingle_join_flight() - add a placed write to those in flight
 * @d: the device
 * @w: the write; held if it has to wait for an earlier one
 *
 * Context: map lock.
 */
void shingle_join_flight(struct shingle_device *d, struct shingle_write *w)
{
	struct shingle_write *f;

	lockdep_assert_held(&d->map_lock);
	INIT_LIST_HEAD(&w->waiters);
	w->turn = d->order.turns++;
	flight_insert(w, &d->order.flight);
	f = must_wait(d, w);
	w->held = f;
	if (f) {
		list_add_tail(&w->wait, &f->waiters);
		d->stats.n.ordered_waits++;
	}
}

/**
 * shingle_leave_flight() - a write has ended
 * @d: the device
 * @w: the write; its waiters may have to wait for another one
 *
 * Context: map lock.  The caller queues the work if shingle_device::order.woken is not empty.
 */
void shingle_leave_flight(struct shingle_device *d, struct shingle_write *w)
{
	lockdep_assert_held(&d->map_lock);
	flight_remove(w, &d->order.flight);
	list_splice_tail_init(&w->waiters, &d->order.woken);
}

/*
 * Submit the writes that need not wait any more.  It is a separate worker, since the worker that
 * retries waiting bios may need the memory of these writes.
 */
static void order_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(work, struct shingle_device, order.work);
	struct bio_list ready = BIO_EMPTY_LIST;
	struct shingle_write *w, *f;
	struct bio *bio;

	spin_lock_irq(&d->map_lock);
	while ((w = list_first_entry_or_null(&d->order.woken, struct shingle_write, wait))) {
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

/**
 * shingle_order_init() - prepare a device's order of writes
 * @d: the device
 *
 * Context: constructor.
 */
void shingle_order_init(struct shingle_device *d)
{
	d->order.flight = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&d->order.woken);
	INIT_WORK(&d->order.work, order_work);
}
