/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel interfaces that changed between 6.1 and today, under one name each.
 * Which form the tree at hand has is asked by core/compat-probe.sh.
 */
#ifndef SHINGLE_COMPAT_H
#define SHINGLE_COMPAT_H

#include <linux/dm-io.h>
#include <linux/hrtimer.h>
#include <linux/ioprio.h>

/**
 * shingle_hrtimer_setup - hrtimer_setup() as 6.13 and later have it
 * @timer: the timer
 * @function: its callback
 * @clock: clock id
 * @mode: timer mode
 *
 * Context: any.
 */
static inline void shingle_hrtimer_setup(struct hrtimer *timer,
					 enum hrtimer_restart (*function)(struct hrtimer *),
					 clockid_t clock, enum hrtimer_mode mode)
{
#ifdef SHINGLE_HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, function, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#endif
}

#endif /* SHINGLE_COMPAT_H */
