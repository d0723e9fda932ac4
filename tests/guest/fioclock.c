// SPDX-License-Identifier: GPL-2.0
/*
 * For fio under a virtual clock, by LD_PRELOAD.  At each start fio looks at the
 * clock for 51 times 1.28 ms to find out how fast the processor's counter is, and
 * in user-mode Linux a look takes 256 ns of virtual time and some microseconds of
 * real time: 250,000 looks, three seconds and more.  Here each of these looks finds
 * 1.3 ms gone.  After them CLOCK_MONOTONIC is ahead by a constant for this process,
 * and differences are what they were.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOKS	102		/* two for each of 51 measurements */
#define JUMP_NS	1300000L
#define SECOND	1000000000L

static long shift_ns, looks;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	long rc = syscall(SYS_clock_gettime, id, ts);

	if (rc || id != CLOCK_MONOTONIC || strcmp(program_invocation_short_name, "fio"))
		return rc;
	/* Calibration is over before fio has a second thread. */
	if (looks < LOOKS) {
		looks++;
		shift_ns += JUMP_NS;
	}
	ts->tv_nsec += shift_ns;
	if (ts->tv_nsec >= SECOND) {
		ts->tv_nsec -= SECOND;
		ts->tv_sec++;
	}
	return 0;
}
