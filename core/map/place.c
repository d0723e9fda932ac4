// SPDX-License-Identifier: GPL-2.0
/* Placing of writes, and the change of the map when a write has completed. */
#include "base/device.h"
#include "base/trace.h"
#include "base/wake.h"
#include "log/log.h"
#include "map/map.h"
#include "medium/medium.h"

/*
 * Rule R0: before a write, no block that its head will cover may be in use by the current map or by
 * the map that recovery would rebuild now.  A separate function, so that writes to plain disks need
 * no room for the walk on the stack.
 */
static noinline bool window_clear(struct shingle_device *d, const struct shingle_run *run)
{
	lockdep_assert_held(&d->map_lock);
	if (!shingle_would_destroy(&d->layout, d->engine, run->pblk, run->n))
		return true;
	d->stats.n.r0_violations++;
	DMERR_LIMIT("%s: write of %u blocks at %llu refused: it would destroy data in use",
		    dm_table_device_name(d->ti->table), run->n, shingle_pblk_block(run->pblk));
	return false;
}

/* Could a write meet another one in a column? */
static bool has_columns(const struct shingle_device *d, const struct shingle_write *w)
{
	return d->layout.head_tracks > 1 && !shingle_is_alone(&d->layout, w->run.pblk);
}

/* The conversion relies on the order of the kernel's hints. */
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
 * @n: number of blocks
 * @w: result
 * @bio: the bio that will be submitted
 *
 * Reserves the records of its commit, so that a completion never has to wait.
 *
 * Context: map lock.
 * Return: 0; SHINGLE_GATHER if a prefix of @w->run.n blocks is to go to the write cache; -EROFS,
 * -EIO or SHINGLE_FULL if it must fail; another error if it must wait for shingle_kick().
 */
int shingle_place(struct shingle_device *d, u64 lblk, u32 n, struct shingle_write *w,
		  struct bio *bio)
{
	u32 records = d->ops->commit_records + 1;
	int r;

	lockdep_assert_held(&d->map_lock);
	if (d->health.mode != SHINGLE_RW)
		return -EROFS;
	if (d->phase.resetting || !shingle_journal_reserve(d, records))
		return -EAGAIN;
	/* The completion forgets what the caches of reads have of these places. */
	if (unlikely(d->kept))
		n = min(n, SHINGLE_WALK);
	r = d->ops->map.place(d->engine, lblk, n, bio_life(bio), &w->run);
	if (!r && !shingle_is_alone(&d->layout, w->run.pblk) && !window_clear(d, &w->run)) {
		d->ops->map.abort(d->engine, &w->run);
		r = -EIO;
	}
	if (r) {
		shingle_journal_cancel(d, records);
		if (shingle_is_final(r) || r == SHINGLE_GATHER)
			return r;
		if (r == SHINGLE_ABSENT)
			return shingle_await_page(d);
		if (r == -ENOSPC)
			d->waiters.awaits_room = true;
		else
			d->waiters.awaits_write = true;
		shingle_want_clean(d);
		return r;
	}
	w->bio = bio;
	w->held = false;
	if (has_columns(d, w))
		shingle_join_flight(d, w);
	trace_shingle_place(d, &w->run);
	return 0;
}

/**
 * shingle_write_done() - a placed write has completed or failed
 * @d: the device
 * @w: the write
 * @status: status of its bio
 * @landed: called in the critical section in which the map changes, or NULL
 *
 * Context: any, interrupts included.
 */
void shingle_write_done(struct shingle_device *d, struct shingle_write *w, blk_status_t status,
			shingle_landed_fn landed)
{
	/* Kernels that initialise the stack would clear all of it for each write. */
	struct shingle_record rec[SHINGLE_MAX_EMIT] __uninitialized;
	struct shingle_emit emit = { .rec = rec, .max = SHINGLE_MAX_EMIT };
	u32 records = d->ops->commit_records + 1;
	unsigned long flags;
	bool kick, order, clean, wake;

	spin_lock_irqsave(&d->map_lock, flags);
	if (has_columns(d, w))
		shingle_leave_flight(d, w);
	d->losses.dirty[shingle_pblk_dev(w->run.pblk)] = true;
	if (status) {
		d->ops->map.abort(d->engine, &w->run);
		d->stats.n.write_errors++;
		shingle_journal_cancel(d, records);
	} else {
		emit.seq = d->journal.seq;
		shingle_forget_kept(d, w->run.pblk, w->run.n);
		d->ops->map.commit(d->engine, &w->run, &emit);
		if (unlikely(d->cleaner.step_bad.nr))
			shingle_bad_remove(&d->cleaner.step_bad, w->run.lblk, w->run.n);
		if (unlikely(d->bad.nr) && shingle_bad_remove(&d->bad, w->run.lblk, w->run.n))
			shingle_emit(&emit, SHINGLE_REC_GOOD, 0, 0, w->run.lblk, w->run.n);
		/*
		 * A discard may have come after the write was placed: the host reads what was
		 * written.
		 */
		if (unlikely(d->trims.nr))
			shingle_trim_remove(&d->trims, w->run.lblk, w->run.n);
		shingle_journal_add(d, records, &emit);
		shingle_journal_acked(d, w->run.n);
	}
	if (unlikely(landed))
		landed(d, w, status);
	kick = (d->waiters.awaits_write || landed) && shingle_waiting(d);
	if (kick)
		d->waiters.awaits_write = false;
	order = !list_empty(&d->order.woken);
	clean = d->cleaner.turns.pressure || d->cleaner.turns.forced || d->cleaner.epoch_open ||
		d->cleaner.recovering || d->cleaner.rewrite;
	wake = d->phase.resetting || d->journal.awaited;
	d->journal.awaited = false;
	spin_unlock_irqrestore(&d->map_lock, flags);
	shingle_arm_idle(d);

	if (unlikely(order))
		queue_work(d->order.wq, &d->order.work);
	if (unlikely(kick))
		shingle_kick(d);
	if (unlikely(clean))
		shingle_wake_cleaner(d);
	if (unlikely(wake))
		wake_up_all(&d->wait);
}
