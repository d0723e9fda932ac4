// SPDX-License-Identifier: GPL-2.0
/*
 * Secure erase: deletes all data of the device.
 *
 * A new engine replaces the old one, in memory and by a checkpoint on the disk.  The footer of that
 * checkpoint is one block: after a power cut before it the old state is found, after it an empty
 * device.
 */
#include <linux/sched/mm.h>

#include "base/device.h"
#include "base/mode.h"
#include "base/wake.h"
#include "target/target.h"
#include "io/wcache.h"
#include "log/log.h"
#include "medium/medium.h"

static const char *device_name(const struct shingle_device *d)
{
	return dm_table_device_name(d->ti->table);
}

static int may_reset(struct shingle_device *d)
{
	const char *why;
	int err = shingle_may_change(d, &why);

	if (err)
		DMERR("%s: reset refused: %s; nothing was erased", device_name(d), why);
	return err;
}

/* Neither host I/O nor a cleaning step refers to the engine. */
static bool quiet(struct shingle_device *d)
{
	bool yes;

	spin_lock_irq(&d->map_lock);
	yes = (!d->cleaner.busy && !d->cleaner.epoch_open && !d->journal.reserved &&
	       !d->pager.reading && !shingle_pages_wanting(d->engine) &&
	       !shingle_reading(d, 0) && !shingle_reading(d, 1)) || d->health.mode != SHINGLE_RW;
	spin_unlock_irq(&d->map_lock);
	return yes;
}

static void set_resetting(struct shingle_device *d, bool yes)
{
	spin_lock_irq(&d->map_lock);
	d->phase.resetting = yes;
	/* The cleaner gives up an open epoch. */
	shingle_wake_cleaner(d);
	spin_unlock_irq(&d->map_lock);
}

static int reset_quiet(struct shingle_device *d, struct shingle_engine **fresh)
{
	int err;

	/* If it is killed or interrupted here, nothing has changed yet. */
	err = wait_event_killable(d->wait, quiet(d) || READ_ONCE(d->phase.suspending));
	if (err)
		return err;
	if (READ_ONCE(d->phase.suspending))
		return -EAGAIN;
	/* So that no record of the old engine is left for a later commit. */
	err = shingle_commit(d, false);
	return err ?: shingle_checkpoint_reset(d, fresh);
}

/**
 * shingle_reset() - delete all data, durably
 * @d: the device
 *
 * All blocks read as zeroes afterwards, including unreadable ones.  Each block of I/O in flight
 * meanwhile is either before or after the reset.  The blocks on the medium are not overwritten.
 * Needs memory for a second map meanwhile.
 *
 * Context: process, may sleep, allocates.
 * Return: 0; -EAGAIN while suspended, or if a suspend came first; -EROFS; -EIO; -ENOMEM;
 * -ERESTARTSYS if killed before it began.  On a write error the device has become read-only and
 * contains, after the next activation, either everything or nothing.
 */
int shingle_reset(struct shingle_device *d)
{
	static const char interrupted[] = "a suspend came first, ask again";
	struct shingle_engine *fresh = NULL;
	const char *why = "out of memory";
	unsigned int noio;
	int err;

	err = mutex_lock_killable(&d->phase.reset_lock);
	if (err)
		return err;
	err = may_reset(d);
	if (err)
		goto out;
	/* Acknowledged blocks are deleted, too; lost ones are gone already. */
	err = shingle_wcache_drain(d);
	if (err && err != -EIO) {
		DMERR("%s: reset refused: %s; nothing was erased", device_name(d),
		      err == -EAGAIN ? interrupted : "its write cache cannot be emptied");
		goto out;
	}
	/*
	 * Allocate now: while host I/O is held back nothing may wait for memory.  The allocation
	 * must not write to this device either, in case it is suspended meanwhile.
	 */
	noio = memalloc_noio_save();
	err = d->ops->create(&fresh, &d->layout, &why);
	if (!err) {
		/* Options that only a table can set must be known before ready(). */
		spin_lock_irq(&d->map_lock);
		shingle_set_like(d, fresh);
		spin_unlock_irq(&d->map_lock);
		err = shingle_pages_give(d, fresh, &why);
	}
	if (!err)
		err = d->ops->state.ready(fresh, &why);
	memalloc_noio_restore(noio);
	if (err) {
		DMERR("%s: reset refused: %s; nothing was erased", device_name(d), why);
		goto out;
	}

	set_resetting(d, true);
	err = reset_quiet(d, &fresh);
	set_resetting(d, false);
	shingle_kick(d);
	/* Messages that wait for cleaning end, since there is nothing to clean. */
	shingle_wake_cleaner(d);
	if (err == -EAGAIN)
		DMERR("%s: reset refused: %s; nothing was erased", device_name(d), interrupted);
	else if (err)
		DMERR("%s: reset failed (%d)", device_name(d), err);
	else
		DMINFO("%s: reset: all that it held is forgotten", device_name(d));
out:
	if (fresh) {
		shingle_pages_destroy(fresh);
		d->ops->destroy(fresh);
	}
	mutex_unlock(&d->phase.reset_lock);
	return err;
}
