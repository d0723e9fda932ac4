// SPDX-License-Identifier: GPL-2.0
/* The failure ladder, and what may be changed on which of its steps. */
#include "base/device.h"
#include "base/mode.h"
#include "base/wake.h"

/* As a person is told of them. */
const char *const shingle_dev_names[SHINGLE_NR_DEVS] = { "data", "cache", "metadata" };

/**
 * shingle_set_mode() - one step down the failure ladder
 * @d: the device
 * @mode: SHINGLE_RO when the device takes no new changes any more, SHINGLE_FAIL
 *	when the map itself cannot be trusted; never goes up
 * @check: whether the metadata may be wrong, which the superblock then says, also of a
 *	device that is as low already
 * @why: for the log and for the message ``mode``: a string that is never freed
 *
 * What was acknowledged before is committed, if shingle_may_log(): a commit is queued.
 *
 * Context: process.
 */
void shingle_set_mode(struct shingle_device *d, enum shingle_mode mode, bool check,
		      const char *why)
{
	static const char *const text[] = { "read-write", "read-only", "failed" };
	unsigned long flags;
	bool down, news;

	spin_lock_irqsave(&d->map_lock, flags);
	down = mode > d->mode;
	news = down || (check && !d->needs_check);
	if (down) {
		WRITE_ONCE(d->mode, mode);
		d->mode_why = why;
	}
	mode = d->mode;
	if (check)
		WRITE_ONCE(d->needs_check, true);
	spin_unlock_irqrestore(&d->map_lock, flags);
	if (!news)
		return;
	DMERR("%s: %s %s: %s%s", dm_table_device_name(d->ti->table), down ? "now" : "still",
	      text[mode], why, check ? "; run 'shingle check' when it is inactive" : "");
	if (check && !d->read_only)
		queue_work(d->log.wq, &d->log.sb_work);
	shingle_fail_waiting(d);
	dm_table_event(d->ti->table);
}

/**
 * shingle_unsaved() - acknowledged blocks that are not durable, and will not be by themselves
 * @d: the device
 *
 * Those that are lost and that no FLUSH has reported; those that the last commit could not
 * write; those that a device that is not read-write has in its write cache.  A block that
 * was written twice since the last commit counts twice, and so does a FUA write that has
 * failed.
 *
 * Context: map lock.
 */
u64 shingle_unsaved(const struct shingle_device *d)
{
	const struct shingle_journal *j = &d->journal;
	u64 n = d->unreported;

	lockdep_assert_held(&d->map_lock);
	if (j->failed || !shingle_may_log(d))
		n += j->txn[0].acked + j->txn[1].acked;
	if (d->mode != SHINGLE_RW)
		n += d->wcache.nr;
	return n;
}

/**
 * shingle_no_change() - shingle_may_change(), for who has the lock
 * @d: the device
 * @why: if not, a sentence tail
 *
 * Context: map lock.  Returns as shingle_may_change().
 */
int shingle_no_change(const struct shingle_device *d, const char **why)
{
	lockdep_assert_held(&d->map_lock);
	if (!d->loaded || READ_ONCE(d->suspended) || d->leaving) {
		*why = "it is suspended or was never resumed";
		return -EAGAIN;
	}
	if (d->mode == SHINGLE_FAIL) {
		*why = "it has failed";
		return -EIO;
	}
	*why = d->mode_why ?: "it is read-only";
	return d->mode == SHINGLE_RO ? -EROFS : 0;
}

/**
 * shingle_may_change() - can a message change anything on the disks now?
 * @d: the device
 * @why: if not, a sentence tail
 *
 * While the device is suspended nobody would carry it out, or it would be written
 * beside the table that takes this one's place.
 *
 * Context: process.  Returns 0; -EAGAIN before the first resume, while suspended and
 * while a suspend is on its way; -EROFS; or -EIO.
 */
int shingle_may_change(struct shingle_device *d, const char **why)
{
	int err;

	spin_lock_irq(&d->map_lock);
	err = shingle_no_change(d, why);
	spin_unlock_irq(&d->map_lock);
	return err;
}
