// SPDX-License-Identifier: GPL-2.0
/* Threads that sync at the same time share flushes. */
#include <unistd.h>

#include "model.h"

#define MOST_THREADS	32U
#define PUTS		40U		/* of each thread */
#define GROUP_BAND	(2U << 20)	/* large enough that no log band ends meanwhile */
#define PATIENCE_MS	60000U
/* A put waits for the rest of one flush and for one whole flush; one more may begin meanwhile. */
#define MOST_FLUSHES	3U

static struct kv *kv;
static u32 threads, running, flushes, most;

static u32 add(u32 *counter, u32 n)
{
	return __atomic_add_fetch(counter, n, __ATOMIC_SEQ_CST);
}

/* Does each running thread have a put in the log that is not durable? */
static bool all_have_come(void)
{
	bool all;

	pthread_mutex_lock(&kv->log.lock);
	all = kv->log.sync.batches - kv->log.sync.synced >= add(&running, 0);
	pthread_mutex_unlock(&kv->log.lock);
	return all;
}

/*
 * A flush ends only when each thread has come.  So threads with durable puts must return while the
 * next flush runs.
 */
static void flush_for_all(void)
{
	u32 ms;

	add(&flushes, 1);
	for (ms = 0; !all_have_come(); ms++) {
		if (ms == PATIENCE_MS)
			die("%u threads: puts that are durable wait for another flush", threads);
		usleep(1000);
	}
}

static void *putter(void *arg)
{
	u32 nr = (u32)(uintptr_t)arg, i, before, waited, was;
	char key[20];

	for (i = 0; i < PUTS; i++) {
		before = add(&flushes, 0);
		if (kv_put(kv, key, (size_t)sprintf(key, "%u/%u", nr, i), "value", 5, KV_SYNC))
			die("put: %s", kv_error());
		waited = add(&flushes, 0) - before;
		for (was = add(&most, 0); was < waited &&
		     !__atomic_compare_exchange_n(&most, &was, waited, false, __ATOMIC_SEQ_CST,
						  __ATOMIC_SEQ_CST);)
			;
	}
	__atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void test_threads_of(u32 nr)
{
	struct sim *s = formatted_as(24ULL * GROUP_BAND, GROUP_BAND);
	pthread_t thread[MOST_THREADS];
	u32 i;

	kv = opened(s, "new");
	/* From then on the log has a band. */
	if (kv_put(kv, "first", 5, "value", 5, KV_SYNC))
		die("put: %s", kv_error());
	threads = nr;
	running = nr;
	flushes = 0;
	most = 0;
	s->flushing = flush_for_all;
	for (i = 0; i < nr; i++) {
		if (pthread_create(&thread[i], NULL, putter, (void *)(uintptr_t)i))
			die("no thread");
	}
	for (i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
	s->flushing = NULL;
	printf("%u threads: %u puts, %u flushes, %u at most while one put waits\n", nr, nr * PUTS,
	       flushes, most);
	/* At worst the leader of a flush is alone in it, and all others are in the next one. */
	if (flushes > 2 * PUTS + nr || most > MOST_FLUSHES)
		die("threads that sync share too little");
	if (kv_close(kv))
		die("close: %s", kv_error());
	sim_free(s);
}

void test_group(u64 seed, u32 count)
{
	test_threads_of(1);
	test_threads_of(4);
	test_threads_of(16);
	test_threads_of(MOST_THREADS);
}
