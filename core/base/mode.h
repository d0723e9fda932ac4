/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The failure ladder: the modes SHINGLE_RW, SHINGLE_RO and SHINGLE_FAIL.  Errors move a device
 * down, to read-only and then to serving no I/O at all; while its table is loaded it never moves
 * up.
 */
#ifndef SHINGLE_MODE_H
#define SHINGLE_MODE_H

#include "base/device.h"

extern const char *const shingle_dev_names[SHINGLE_NR_DEVS];

void shingle_set_mode(struct shingle_device *d, enum shingle_mode mode, bool check,
		      const char *why);
u64 shingle_unsaved(const struct shingle_device *d);
int shingle_no_change(const struct shingle_device *d, const char **why);
int shingle_may_change(struct shingle_device *d, const char **why);

/**
 * shingle_may_log() - may the journal still commit what the engine has accepted?
 * @d: the device
 *
 * A read-only device accepts no new writes.  Still it commits the writes that it has acknowledged
 * before and those in flight: a failure to move data does not mean that the journal fails.  A
 * failed flush ends the journal.
 *
 * Context: any.
 * Return: false if the table or a device is read-only, if the device is SHINGLE_FAIL, or if the
 * journal accepts no more records (shingle_log::dead).
 */
static inline bool shingle_may_log(const struct shingle_device *d)
{
	return READ_ONCE(d->health.mode) != SHINGLE_FAIL && !d->disks.read_only &&
	       !READ_ONCE(d->log.dead);
}

#endif /* SHINGLE_MODE_H */
