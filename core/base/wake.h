/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wake-ups from a lower layer to a higher one; calls only go downwards.
 *
 * No function here calls a higher layer.  It queues a worker of that layer, which then looks at
 * what has changed.
 */
#ifndef SHINGLE_WAKE_H
#define SHINGLE_WAKE_H

#include "base/device.h"

/**
 * shingle_kick() - retry the waiting bios
 * @d: the device
 *
 * Context: any.
 */
static inline void shingle_kick(struct shingle_device *d)
{
	queue_work(d->worker.wq, &d->worker.work);
}

/**
 * shingle_wake_cleaner() - let the cleaner look for a reason to clean
 * @d: the device
 *
 * Context: any.
 */
static inline void shingle_wake_cleaner(struct shingle_device *d)
{
	queue_delayed_work(d->cleaner.wq, &d->cleaner.work, 0);
}

/**
 * shingle_want_clean() - a write found no room
 * @d: the device
 *
 * Context: map lock.
 */
static inline void shingle_want_clean(struct shingle_device *d)
{
	lockdep_assert_held(&d->map_lock);
	d->cleaner.turns.pressure = true;
	shingle_wake_cleaner(d);
}

/**
 * shingle_want_epoch() - gathered writes are to be written
 * @d: the device
 *
 * Context: map lock.
 */
static inline void shingle_want_epoch(struct shingle_device *d)
{
	lockdep_assert_held(&d->map_lock);
	d->cleaner.epoch_wanted = true;
	shingle_wake_cleaner(d);
}

/**
 * shingle_arm_idle() - check after idle_ms whether the host is idle
 * @d: the device
 *
 * Context: any.
 */
static inline void shingle_arm_idle(struct shingle_device *d)
{
	unsigned int ms = READ_ONCE(d->config.idle_ms);

	if (ms && !READ_ONCE(d->phase.stopping) && !READ_ONCE(d->phase.held))
		queue_delayed_work(d->cleaner.wq, &d->cleaner.idle_work, msecs_to_jiffies(ms));
}

/**
 * shingle_fail_waiting() - the mode has changed: no event will make room for waiting bios
 * @d: the device, not SHINGLE_RW
 *
 * The worker finds the mode changed and fails the waiting bios.
 *
 * Context: any.
 */
static inline void shingle_fail_waiting(struct shingle_device *d)
{
	shingle_kick(d);
	mod_delayed_work(d->worker.wq, &d->log.commit_work, 0);
	wake_up_all(&d->wait);
}

#endif /* SHINGLE_WAKE_H */
