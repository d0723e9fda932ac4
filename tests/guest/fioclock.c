// SPDX-License-Identifier: GPL-2.0
/*
 * For fio under a virtual clock, loaded with LD_PRELOAD.  There time passes only while all tasks
 * sleep, and real time is spent mostly in system calls: some microseconds each in user-mode Linux,
 * as much as the rest of a request.
 *
 * At each start fio reads the clock during 51 times 1.28 ms to measure the speed of the processor's
 * counter.  A reading takes 256 ns of virtual time, so that is 250,000 readings, more than three
 * seconds.  Here each of these readings finds that 1.3 ms have passed.  After them CLOCK_MONOTONIC
 * is ahead by a constant for this process, and differences are right.
 *
 * For each request fio reads the clock five times.  Between two requests of a thread that waits for
 * each of them no time passes, so one reading suffices.  A thread that only reads the clock, to see
 * time pass, gets every ninth reading; threads without I/O get all of them.
 *
 * The main thread of fio, which only watches whether the others have ended, sleeps 50 ms instead of
 * 10: less than once for each request.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define LOOKS	102		/* two for each of 51 measurements */
#define JUMP_NS	1300000L
#define SECOND	1000000000L
#define OLD	8		/* calls that one reading may serve */
#define MAIN_US	10000
#define NOW_US	50000

static long shift_ns, looks;
static int is_fio = -1;
static __thread struct timespec seen;
static __thread int left;	/* how many more calls @seen may serve */
static __thread int waits;	/* this thread waits for its requests */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	long rc;

	if (id == CLOCK_MONOTONIC && left > 0) {
		left--;
		*ts = seen;
		return 0;
	}
	rc = syscall(SYS_clock_gettime, id, ts);
	if (is_fio < 0)
		is_fio = !strcmp(program_invocation_short_name, "fio");
	if (rc || id != CLOCK_MONOTONIC || !is_fio)
		return rc;
	/* Calibration ends before fio has a second thread. */
	if (looks < LOOKS) {
		looks++;
		shift_ns += JUMP_NS;
	}
	ts->tv_nsec += shift_ns;
	if (ts->tv_nsec >= SECOND) {
		ts->tv_nsec -= SECOND;
		ts->tv_sec++;
	}
	if (waits) {
		seen = *ts;
		left = OLD;
	}
	return 0;
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	ssize_t rc = syscall(SYS_pread64, fd, buf, n, at);

	left = 0;
	waits = 1;
	return rc;
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
	ssize_t rc = syscall(SYS_pwrite64, fd, buf, n, at);

	left = 0;
	waits = 1;
	return rc;
}

ssize_t pread64(int fd, void *buf, size_t n, off_t at)
{
	return pread(fd, buf, n, at);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off_t at)
{
	return pwrite(fd, buf, n, at);
}

int fsync(int fd)
{
	int rc = syscall(SYS_fsync, fd);

	left = 0;
	return rc;
}

int fdatasync(int fd)
{
	int rc = syscall(SYS_fdatasync, fd);

	left = 0;
	return rc;
}

int nanosleep(const struct timespec *want, struct timespec *rest)
{
	int rc = syscall(SYS_nanosleep, want, rest);

	left = 0;
	return rc;
}

int usleep(useconds_t us)
{
	struct timespec want = { 0 };

	if (us == MAIN_US)
		us = NOW_US;
	want.tv_sec = us / 1000000;
	want.tv_nsec = us % 1000000 * 1000L;
	return nanosleep(&want, NULL);
}
