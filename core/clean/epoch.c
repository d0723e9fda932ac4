// SPDX-License-Identifier: GPL-2.0
/*
 * Epochs of gathered writes.
 *
 * If writes cost less together, an engine lets the write cache gather them.  When they must go to
 * the medium (for a flush, FUA, lack of room, or after a time), the cleaner freezes them, hands
 * them to the engine, and does the engine's steps in its order, with its syncs.  A flush ends when
 * the last block that it waits for has left the write cache.
 */
#include "base/device.h"
#include "clean/clean.h"
#include "io/wcache.h"
#include "log/log.h"

/**
 * shingle_epoch_open() - put an epoch together, if one is wanted and none is open
 * @d: the device
 *
 * Context: cleaner.
 */
void shingle_epoch_open(struct shingle_device *d)
{
	bool go;

	spin_lock_irq(&d->map_lock);
	go = d->cleaner.epoch_wanted && !d->cleaner.epoch_open && d->health.mode == SHINGLE_RW &&
	     !d->phase.stopping && !d->phase.resetting;
	if (go)
		d->cleaner.epoch_wanted = false;
	spin_unlock_irq(&d->map_lock);
	if (!go)
		return;
	go = shingle_wcache_freeze(d);
	spin_lock_irq(&d->map_lock);
	d->cleaner.epoch_open = go;
	if (!go)
		d->ops->gather.epoch_end(d->engine);
	spin_unlock_irq(&d->map_lock);
}

/**
 * shingle_epoch_close() - the epoch has ended, or is given up
 * @d: the device
 *
 * Context: cleaner.
 */
void shingle_epoch_close(struct shingle_device *d)
{
	spin_lock_irq(&d->map_lock);
	if (d->cleaner.epoch_open) {
		d->ops->gather.epoch_end(d->engine);
		shingle_wcache_epoch_ended(d);
		d->cleaner.epoch_open = false;
	}
	spin_unlock_irq(&d->map_lock);
}

/**
 * shingle_epoch_stepped() - the map now contains the gathered blocks that a step has written
 * @d: the device
 * @step: the step
 *
 * Records that blocks which were unreadable can be read again: room for as many records as there
 * are bad blocks was reserved.
 *
 * Context: cleaner, map lock, held since step_done().
 */
void shingle_epoch_stepped(struct shingle_device *d, const struct shingle_step *step)
{
	u32 i;

	lockdep_assert_held(&d->map_lock);
	for (i = d->bad.nr; unlikely(i); i--) {
		struct shingle_record rec;
		struct shingle_emit emit = { .rec = &rec, .max = 1 };
		u64 lblk = d->bad.lblk[i - 1];

		if (lblk - step->lblk >= step->n || !shingle_wcache_is_frozen(d, lblk))
			continue;
		shingle_bad_remove(&d->bad, lblk, 1);
		shingle_emit(&emit, SHINGLE_REC_GOOD, 0, 0, lblk, 1);
		shingle_journal_add(d, 0, &emit);
	}
	shingle_wcache_stepped(d, step->lblk, step->n, false);
}
