// SPDX-License-Identifier: GPL-2.0
/* Threads that write, and the log's thread. */
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

#include "model.h"

/* Writers do not wait for the disk while the log's thread writes chunks, or commits a band. */

#define VALUE_BYTES	400U
#define PATIENCE_S	600

static sem_t reached, released;
static bool holding;

static void wait_for(sem_t *sem, const char *else_text)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (sem_timedwait(sem, &until))
		die("%s", else_text);
}

/* The first write stops until the test releases it. */
static void hold_write(enum sim_what what, u64 offset, u64 bytes, const void *data)
{
	if (what != SIM_WRITE || !__atomic_exchange_n(&holding, false, __ATOMIC_SEQ_CST))
		return;
	sem_post(&reached);
	wait_for(&released, "a put waits for a write of the log");
}

static void put(struct kv *kv, u32 nr)
{
	u8 value[VALUE_BYTES];
	char key[20];

	memset(value, (int)nr, sizeof(value));
	if (kv_put(kv, key, (size_t)sprintf(key, "%u", nr), value, sizeof(value), 0))
		die("put: %s", kv_error());
}

static void verify(struct kv *kv, u32 nr)
{
	size_t bytes;
	char key[20];
	void *value;
	u32 i;

	for (i = 0; i < nr; i++) {
		if (kv_get(kv, NULL, key, (size_t)sprintf(key, "%u", i), &value, &bytes) ||
		    bytes != VALUE_BYTES || *(u8 *)value != (u8)i)
			die("put %u is lost", i);
		free(value);
	}
}

/* Fill the log while its thread cannot write, then let go; @flush: the memtable becomes a table. */
static void fill_held(bool flush)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u32 i, puts;
	struct kv *kv;

	opt.flags &= ~(u32)KV_NO_THREAD;
	opt.log_buffer_bytes = BLOCK_BYTES;
	sem_init(&reached, 0, 0);
	sem_init(&released, 0, 0);
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	__atomic_store_n(&holding, true, __ATOMIC_SEQ_CST);
	s->watch = hold_write;
	put(kv, 0);
	/* The thread commits the band, and the write of the band table is held. */
	wait_for(&reached, "no thread commits the band of the log");
	puts = LOG_QUEUE * BLOCK_BYTES / (VALUE_BYTES + 64);
	for (i = 1; i < puts; i++)
		put(kv, i);
	sem_post(&released);
	if (flush ? kv_flush(kv) : kv_sync(kv))
		die("flush or sync: %s", kv_error());
	verify(kv, puts);
	s->watch = NULL;
	if (kv_close(kv) || sim_open(&kv, s, &options))
		die("close or open: %s", kv_error());
	verify(kv, puts);
	printf("%u puts while the log's thread could not write, then %s\n", puts,
	       flush ? "a flush" : "a sync");
	kv_close(kv);
	sim_free(s);
}

void test_queue(u64 seed, u32 count)
{
	fill_held(false);
	fill_held(true);
}

/* Threads that sync at the same time share flushes. */

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
