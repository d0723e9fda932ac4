// SPDX-License-Identifier: GPL-2.0
/* Writers do not wait for the disk while the log's thread writes chunks, or commits a band. */
#include <semaphore.h>
#include <time.h>

#include "model.h"

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
