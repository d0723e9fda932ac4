// SPDX-License-Identifier: GPL-2.0
/*
 * The cleaner: it moves the blocks that the engine chooses.
 *
 * It does one step at a time: copy, let the engine change its map, make that durable, wait for
 * readers of the old map, release the freed space.
 */
#include "base/device.h"
#include "base/host.h"
#include "base/mode.h"
#include "base/trace.h"
#include "base/wake.h"
#include "clean/clean.h"
#include "io/wcache.h"
#include "log/log.h"
#include "medium/medium.h"

#define MAX_RETRIES	3
#define RETRY_DELAY	msecs_to_jiffies(200)
/*
 * A failure longer ago than this does not count: a permanent one would have happened again by now,
 * even on a device that takes the longest time to report it.
 */
#define RETRY_FORGET	(600 * HZ)

/* Clean if the host is idle. */
static void idle_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(to_delayed_work(work), struct shingle_device,
						cleaner.idle_work);
	unsigned long delay = msecs_to_jiffies(READ_ONCE(d->config.idle_ms));
	unsigned long quiet = shingle_quiet_for(d);

	if (!delay || READ_ONCE(d->phase.stopping) || READ_ONCE(d->phase.held))
		return;
	if (quiet < delay) {
		queue_delayed_work(d->cleaner.wq, &d->cleaner.idle_work, delay - quiet);
	} else {
		spin_lock_irq(&d->map_lock);
		d->cleaner.idle = true;
		spin_unlock_irq(&d->map_lock);
		shingle_wake_cleaner(d);
	}
}

/* Reserve room in the journal before the step begins, so that it does not copy in vain. */
static int reserve_step(struct shingle_device *d, u32 records)
{
	bool done;
	int err;

	if (WARN_ON_ONCE(records > d->cleaner.step_rec_max))
		return -EINVAL;
	for (;;) {
		spin_lock_irq(&d->map_lock);
		done = shingle_journal_reserve(d, records);
		spin_unlock_irq(&d->map_lock);
		if (done)
			return 0;
		err = shingle_journal_make_room(d, records);
		if (err)
			return err;
	}
}

/*
 * The copy is on the medium: change the map and record the blocks that were lost.  Room for
 * @records is reserved, but not yet for the unreadable blocks of the step.
 */
static int finish_step(struct shingle_device *d, const struct shingle_step *step, u32 records)
{
	struct shingle_emit emit = { .rec = d->cleaner.step_rec, .max = records };
	u32 more, i;
	int err;

	for (;;) {
		spin_lock_irq(&d->map_lock);
		more = d->cleaner.step_bad.nr + (step->gathered ? d->bad.nr : 0);
		if (records + more > d->journal.room ||
		    d->bad.nr + d->cleaner.step_bad.nr > SHINGLE_MAX_BAD) {
			spin_unlock_irq(&d->map_lock);
			return -ENOSPC;
		}
		if (!more || shingle_journal_reserve(d, more))
			break;
		spin_unlock_irq(&d->map_lock);
		err = shingle_journal_make_room(d, more);
		if (err)
			return err;
	}
	emit.seq = d->journal.seq;
	d->ops->clean.step_done(d->engine, step, &emit);
	shingle_journal_add(d, records, &emit);
	if (step->gathered) {
		shingle_journal_cancel(d, d->bad.nr);
		/* As in shingle_write_done(). */
		shingle_trim_remove(&d->trims, step->lblk, step->n);
		shingle_epoch_stepped(d, step);
	}
	for (i = 0; i < d->cleaner.step_bad.nr; i++) {
		struct shingle_record rec;
		struct shingle_emit bad = { .rec = &rec, .max = 1 };

		shingle_bad_add(&d->bad, d->cleaner.step_bad.lblk[i]);
		shingle_emit(&bad, SHINGLE_REC_BAD, 0, 0, d->cleaner.step_bad.lblk[i], 0);
		shingle_journal_add(d, 1, &bad);
	}
	d->cleaner.step_bad.nr = 0;
	d->cleaner.hold_n = 0;
	d->stats.n.steps++;
	spin_unlock_irq(&d->map_lock);
	return 0;
}

/* Let the engine free what the step has made useless, before the next step. */
static void tidy(struct shingle_device *d)
{
	bool more = d->ops->clean.tidy;

	while (more) {
		spin_lock_irq(&d->map_lock);
		more = d->ops->clean.tidy(d->engine);
		spin_unlock_irq(&d->map_lock);
		cond_resched();
	}
}

/* If this fails the device is read-only, and nothing is released. */
static int sync_step(struct shingle_device *d, const struct shingle_step *step)
{
	int err;

	if (step->sync == SHINGLE_SYNC_NONE)
		return 0;
	if (step->sync == SHINGLE_SYNC_FLUSH)
		return shingle_flush(d);
	err = shingle_commit(d, false);
	if (!err)
		shingle_release(d);
	return err;
}

/*
 * @avoids: result, the engine will avoid the blocks that this step could not write, and can go on.
 */
static int run_step(struct shingle_device *d, const struct shingle_step *step,
		    enum shingle_why why, bool *unread, bool *avoids)
{
	u32 records = shingle_step_records(d->engine, step);
	ktime_t start = ktime_get();
	bool reserved, wake;
	u64 took_us;
	int err;

	trace_shingle_step_start(d, step, why);
	d->cleaner.unwritten.n = 0;
	err = reserve_step(d, records);
	reserved = !err;
	if (!err && step->n)
		err = shingle_step_allowed(d, step) ? shingle_copy_step(d, step, unread) : -EUCLEAN;
	if (!err) {
		err = finish_step(d, step, records);
		/* There is no room to record the unreadable blocks. */
		*unread = err == -ENOSPC;
	}
	if (!err) {
		tidy(d);
		err = sync_step(d, step);
	} else {
		spin_lock_irq(&d->map_lock);
		if (reserved)
			shingle_journal_cancel(d, records);
		*avoids = d->ops->clean.step_failed(d->engine, step, &d->cleaner.unwritten);
		/* A read error is no reason to count the gathered blocks as unwritable. */
		if (step->gathered && err != -EINTR && !*unread)
			shingle_wcache_stepped(d, step->lblk, step->n, true);
		d->cleaner.step_bad.nr = 0;
		d->cleaner.hold_n = 0;
		d->stats.n.step_failures++;
		spin_unlock_irq(&d->map_lock);
	}
	took_us = ktime_us_delta(ktime_get(), start);
	trace_shingle_step_end(d, step, why, took_us, err);
	spin_lock_irq(&d->map_lock);
	d->stats.n.clean_us += took_us;
	d->stats.step_us[step->kind] += took_us;
	d->stats.longest_us[step->kind] = max(d->stats.longest_us[step->kind], took_us);
	wake = d->journal.awaited;
	d->journal.awaited = false;
	spin_unlock_irq(&d->map_lock);
	/* They wait for the room that was promised to the step. */
	if (wake)
		wake_up_all(&d->wait);
	return err;
}

static int ask(struct shingle_device *d, struct shingle_step *step, enum shingle_why *why,
	       enum shingle_why for_what)
{
	*why = for_what;
	return d->ops->clean.next_step(d->engine, for_what, step);
}

/*
 * Ask for the next step, for any reason; *@why is the reason.  *@kick: bios that found no room may
 * find some now.
 */
static int next_step(struct shingle_device *d, struct shingle_step *step, enum shingle_why *why,
		     bool *kick)
{
	struct shingle_turns *turns = &d->cleaner.turns;
	bool pressure, over = false;
	u32 before;
	int r = 0;

	memset(step, 0, sizeof(*step));
	spin_lock_irq(&d->map_lock);
	d->cleaner.busy = false;
	shingle_pages_begin(d->engine, SHINGLE_CLIENT_CLEAN);
	/* In these cases it does not keep the pages that it has looked at, either. */
	if (d->health.mode != SHINGLE_RW || d->phase.stopping || d->phase.resetting)
		goto out;
	/*
	 * While the system hibernates, clean only if a request waits for room or for gathered
	 * blocks.
	 */
	if (d->phase.held && !turns->pressure && !d->cleaner.epoch_wanted && !d->cleaner.epoch_open)
		goto out;
	if (d->cleaner.recovering) {
		r = ask(d, step, why, SHINGLE_WHY_RECOVERY);
		if (!r)
			d->cleaner.recovering = false;
	}
	if (!r && d->cleaner.epoch_open) {
		r = ask(d, step, why, SHINGLE_WHY_EPOCH);
		if (!r)
			r = -ENODATA;
	}
	pressure = turns->pressure;
	before = turns->over;
	if (!r)
		r = shingle_take_turn(d->engine, turns, step, why);
	over = turns->over != before;
	if (pressure && !turns->pressure) {
		*kick |= d->waiters.awaits_room;
		d->waiters.awaits_room = false;
	}
	if (!r && d->cleaner.rewrite && !d->phase.held) {
		r = ask(d, step, why, SHINGLE_WHY_REWRITE);
		if (!r)
			d->cleaner.rewrite = false;
	}
	if (!r && d->cleaner.idle && !d->phase.held) {
		/* The host may have sent requests meanwhile: it must be idle again for as long. */
		bool busy = shingle_quiet_for(d) < msecs_to_jiffies(READ_ONCE(d->config.idle_ms));

		if (!busy)
			r = ask(d, step, why, SHINGLE_WHY_IDLE);
		if (!r)
			d->cleaner.idle = false;
		if (busy)
			queue_delayed_work(d->cleaner.wq, &d->cleaner.idle_work, 0);
	}
	/* When the page has been read, core calls the engine again for the same reason. */
	if (r == SHINGLE_ABSENT) {
		d->pager.clean_waits = true;
		r = shingle_await_page(d);
	}
	d->cleaner.busy = r > 0;
out:
	shingle_pages_end(d->engine, r == SHINGLE_ABSENT);
	spin_unlock_irq(&d->map_lock);
	/* The messages that wait need not wait for the end of other cleaning. */
	if (over)
		wake_up_all(&d->wait);
	return r;
}

/*
 * Make freed space usable.  If a request waits for space, first commit the change that freed it.
 * Returns true if there may be more room than before.
 */
static bool release_due(struct shingle_device *d)
{
	bool pending, wanted;

	spin_lock_irq(&d->map_lock);
	pending = d->ops->clean.pending(d->engine);
	/* A bio that has returned meanwhile may wait for only this. */
	wanted = shingle_has_reason(&d->cleaner) || shingle_waiting(d);
	spin_unlock_irq(&d->map_lock);
	if (!pending || (wanted && shingle_commit(d, false)))
		return false;
	shingle_release(d);
	spin_lock_irq(&d->map_lock);
	pending = d->ops->clean.pending(d->engine);
	spin_unlock_irq(&d->map_lock);
	return wanted || !pending;
}

/* Retry the waiting bios before the next step: a bio waits for one step, not for all of them. */
static void retry_waiting(struct shingle_device *d)
{
	shingle_kick(d);
	flush_work(&d->worker.work);
}

/*
 * A step that was begun at @begun has failed, or cannot be begun: try it again after a while, at
 * most MAX_RETRIES times.
 */
static void try_again(struct shingle_device *d, int err, unsigned long begun)
{
	if (time_after(begun, d->cleaner.failed_at + RETRY_FORGET))
		d->cleaner.retries = 0;
	d->cleaner.failed_at = jiffies;
	DMWARN_LIMIT("%s: cleaning step failed (%d), try %u of %u",
		     dm_table_device_name(d->ti->table), err, d->cleaner.retries + 1, MAX_RETRIES);
	if (++d->cleaner.retries < MAX_RETRIES)
		/*
		 * Use the delay even if cleaning was requested meanwhile: the step would fail again
		 * at once.
		 */
		mod_delayed_work(d->cleaner.wq, &d->cleaner.work, RETRY_DELAY);
	else
		/* Data could not be moved; the map is still valid. */
		shingle_set_mode(d, SHINGLE_RO, false,
				 "cleaning can make no progress, see the errors of its devices");
}

/* Clean as long as there is a reason. */
static void clean_work(struct work_struct *work)
{
	struct shingle_device *d = container_of(to_delayed_work(work), struct shingle_device,
						cleaner.work);
	struct shingle_step step;
	enum shingle_why why;
	bool kick = release_due(d), between = false;
	unsigned long begun;
	int err;

	for (;;) {
		bool unread = false, avoids = false;

		/*
		 * Epochs may be wanted without end: do one step for another reason between two
		 * epochs.
		 */
		if (!between)
			shingle_epoch_open(d);
		begun = jiffies;
		err = next_step(d, &step, &why, &kick);
		if (err == -ENODATA) {
			d->cleaner.retries = 0;
			shingle_epoch_close(d);
			kick = true;
			between = true;
			continue;
		}
		if (err == -EAGAIN && release_due(d)) {
			retry_waiting(d);
			continue;
		}
		/* A page of the map that the engine needs cannot be read. */
		if (err == -EIO)
			try_again(d, err, begun);
		if (err == -EIO || (err <= 0 && !between))
			break;
		between = false;
		if (err <= 0)
			continue;
		err = run_step(d, &step, why, &unread, &avoids);
		if (!err) {
			/*
			 * A step without a copy, or of an epoch, does not prove that the failing
			 * step can succeed.
			 */
			if (step.n && !d->cleaner.epoch_open)
				d->cleaner.retries = 0;
			retry_waiting(d);
			continue;
		}
		shingle_epoch_close(d);
		if (err == -EINTR || err == -EROFS)
			break;
		/* The write cache counts these failures, and decides when to give up a block. */
		if (step.gathered && !unread) {
			kick = true;
			continue;
		}
		if (avoids)
			DMWARN_LIMIT("%s: cleaning cannot write block %llu and avoids it",
				     dm_table_device_name(d->ti->table),
				     shingle_pblk_block(d->cleaner.unwritten.block[0]));
		if (avoids || step.optional) {
			retry_waiting(d);
			continue;
		}
		try_again(d, err, begun);
		/* For readers that waited for the step: there may be no other step. */
		kick = true;
		break;
	}
	/*
	 * If nothing has changed, the waiting bios would only wake the cleaner again, in an endless
	 * loop.  The end of a write in flight wakes them.
	 */
	if (READ_ONCE(d->health.mode) != SHINGLE_RW || READ_ONCE(d->phase.stopping) ||
	    READ_ONCE(d->phase.resetting))
		shingle_epoch_close(d);
	spin_lock_irq(&d->map_lock);
	d->cleaner.busy = false;
	kick |= d->health.mode != SHINGLE_RW || d->phase.stopping;
	spin_unlock_irq(&d->map_lock);
	if (kick)
		shingle_kick(d);
	wake_up_all(&d->wait);
}

/**
 * shingle_clean_init() - prepare a device's cleaner
 * @d: the device
 *
 * Context: constructor.
 */
void shingle_clean_init(struct shingle_device *d)
{
	INIT_DELAYED_WORK(&d->cleaner.work, clean_work);
	INIT_DELAYED_WORK(&d->cleaner.idle_work, idle_work);
}
