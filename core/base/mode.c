// SPDX-License-Identifier: GPL-2.0
/* The failure ladder, and the changes that each of its steps allows. */
#include "base/device.h"
#include "base/mode.h"
#include "base/wake.h"

/* Names for messages and the log. */
const char *const shingle_dev_names[SHINGLE_NR_DEVS] = { "data", "cache", "metadata" };

/**
 * shingle_set_mode() - go one step down the failure ladder
 * @d: the device
 * @mode: SHINGLE_RO if the device accepts no new changes, SHINGLE_FAIL if the map cannot be
 *	trusted, or the content of the places to which it refers; a higher mode than the current one
 *	has no effect
 * @check: the metadata may be wrong: mark the superblock needs_check, even if the mode does
 *	not change
 * @why: reason for the log and for the message ``mode``: a string that is never freed
 *
 * Queues a commit of the writes that were acknowledged before, if shingle_may_log().
 *
 * Context: process.
 */
void shingle_set_mode(struct shingle_device *d, enum shingle_mode mode, bool check,
		      const char *why)
{
	static const char *const text[] = { "read-write", "read-only", "failed" };
	unsigned long flags;
	bool down, changed;

	spin_lock_irqsave(&d->map_lock, flags);
	down = mode > d->health.mode;
	changed = down || (check && !d->health.needs_check);
	if (down) {
		WRITE_ONCE(d->health.mode, mode);
		d->health.why = why;
	}
	mode = d->health.mode;
	if (check)
		WRITE_ONCE(d->health.needs_check, true);
	spin_unlock_irqrestore(&d->map_lock, flags);
	if (!changed)
		return;
	DMERR("%s: %s %s: %s%s", dm_table_device_name(d->ti->table), down ? "now" : "still",
	      text[mode], why, check ? "; run 'shingle check' when it is inactive" : "");
	if (check && !d->disks.read_only)
		queue_work(d->log.wq, &d->log.sb_work);
	shingle_fail_waiting(d);
	dm_table_event(d->ti->table);
}

/**
 * shingle_unsaved() - count acknowledged blocks that are not durable and will not become so
 * @d: the device
 *
 * They are the lost blocks that no FLUSH has reported, those that the last commit could not write,
 * and those in the write cache of a device that is not read-write.  A block that was written twice
 * since the last commit counts twice.  A FUA write that has failed counts, too.
 *
 * Context: map lock.
 * Return: the number.
 */
u64 shingle_unsaved(const struct shingle_device *d)
{
	const struct shingle_journal *j = &d->journal;
	u64 n = d->losses.unreported;

	lockdep_assert_held(&d->map_lock);
	if (j->failed || !shingle_may_log(d))
		n += j->txn[0].acked + j->txn[1].acked;
	if (d->health.mode != SHINGLE_RW)
		n += d->wcache.nr;
	return n;
}

/**
 * shingle_no_change() - shingle_may_change() for a caller that has the lock
 * @d: the device
 * @why: if not, the reason, a sentence tail
 *
 * Context: map lock.
 * Return: as shingle_may_change().
 */
int shingle_no_change(const struct shingle_device *d, const char **why)
{
	lockdep_assert_held(&d->map_lock);
	if (!d->phase.loaded || READ_ONCE(d->phase.suspended) || d->phase.suspending) {
		*why = "it is suspended or was never resumed";
		return -EAGAIN;
	}
	if (d->health.mode == SHINGLE_FAIL) {
		*why = "it has failed";
		return -EIO;
	}
	*why = d->health.why ?: "it is read-only";
	return d->health.mode == SHINGLE_RO ? -EROFS : 0;
}

/**
 * shingle_may_change() - can a message change anything on the disks now?
 * @d: the device
 * @why: if not, the reason, a sentence tail
 *
 * While the device is suspended no worker would do the change, or it would be written while another
 * table is taking the place of this one.
 *
 * Context: process.
 * Return: 0; -EAGAIN before the first resume, while suspended and during a suspend; -EROFS; or
 * -EIO.
 */
int shingle_may_change(struct shingle_device *d, const char **why)
{
	int err;

	spin_lock_irq(&d->map_lock);
	err = shingle_no_change(d, why);
	spin_unlock_irq(&d->map_lock);
	return err;
}
