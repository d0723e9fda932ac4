// SPDX-License-Identifier: GPL-2.0
/* Many threads use one store. */
#include <pthread.h>

#include "model.h"

#define WRITERS		3U
#define READERS		2U
#define THREAD_KEYS	64U

/*
 * Bands that an iterator can read are not freed.  While a reader sleeps with an iterator, a store
 * with few bands may be full.  A writer then waits until there is no iterator.
 */
static pthread_rwlock_t iterators = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

/**
 * struct worker - a thread
 * @kv: the store
 * @nr: number of the thread
 * @rounds: number of rounds
 * @last: for each key, the number of its last value; 0 if it was deleted
 * @stop: set when the writers have ended
 */
struct worker {
	struct kv *kv;
	u32 nr, rounds;
	u32 last[THREAD_KEYS];
	bool *stop;
};

static size_t name(char *key, u32 writer, u32 i)
{
	return (size_t)sprintf(key, "%02u/%u", i, writer);
}

static int write_batch(struct kv *kv, const struct kv_batch *b, u32 flags)
{
	int err = kv_write(kv, b, flags);

	if (err != -ENOSPC)
		return err;
	pthread_rwlock_wrlock(&iterators);
	err = kv_write(kv, b, flags);
	pthread_rwlock_unlock(&iterators);
	return err;
}

/* All keys of a batch get the same number, so that readers notice a torn batch. */
static void *writer(void *arg)
{
	struct worker *w = arg;
	u32 r, i, state = w->nr + 1;
	u8 value[2000] = { 0 };
	char key[20];
	int err;

	for (r = 1; r <= w->rounds; r++) {
		struct kv_batch *b = kv_batch_new();

		memcpy(value, &r, sizeof(r));
		for (i = r % 8; i < THREAD_KEYS; i += 8) {
			state = state * 1664525U + 1013904223U;
			if (r % 5) {
				err = kv_batch_put(b, key, name(key, w->nr, i), value,
						   4 + (state >> 8) % 800);
				w->last[i] = r;
			} else {
				err = kv_batch_delete(b, key, name(key, w->nr, i));
				w->last[i] = 0;
			}
			if (err)
				die("%s", kv_error());
		}
		err = write_batch(w->kv, b, r % 16 ? 0 : KV_SYNC);
		if (err)
			die("writer %u, round %u: %d %s", w->nr, r, err, kv_error());
		kv_batch_free(b);
	}
	return NULL;
}

/* A reader must see all of a batch or nothing. */
static void look(struct kv *kv, const struct kv_snapshot *snap)
{
	u32 seen[WRITERS][8] = { { 0 } }, many[WRITERS][8] = { { 0 } }, i, n, r;
	struct kv_iter *it;
	size_t bytes;
	int err = kv_iter_new(kv, snap, &it);

	if (err)
		die("%s", kv_error());
	for (err = kv_iter_seek(it, "", 0); !err; err = kv_iter_next(it)) {
		const char *key = kv_iter_key(it, &bytes);

		i = (u32)(key[0] - '0') * 10 + (u32)(key[1] - '0');
		n = (u32)(key[3] - '0');
		memcpy(&r, kv_iter_value(it, &bytes), sizeof(r));
		if (many[n][i % 8]++ && seen[n][i % 8] != r)
			die("a scan sees round %u and round %u", r, seen[n][i % 8]);
		seen[n][i % 8] = r;
	}
	if (err != -ENOENT)
		die("scan: %d %s", err, kv_error());
	kv_iter_free(it);
	for (n = 0; n < WRITERS; n++) {
		for (i = 0; i < 8; i++) {
			if (many[n][i] && many[n][i] != THREAD_KEYS / 8)
				die("a scan sees %u of a batch", many[n][i]);
		}
	}
}

static void *reader(void *arg)
{
	struct worker *w = arg;
	struct kv_snapshot *snap;
	struct kv_stats stats = { .size = sizeof(stats) };
	char key[20];
	size_t bytes;
	void *value;
	u32 i = 0;
	int err;

	while (!__atomic_load_n(w->stop, __ATOMIC_RELAXED)) {
		pthread_rwlock_rdlock(&iterators);
		snap = i % 3 ? NULL : kv_snapshot_new(w->kv);
		look(w->kv, snap);
		kv_snapshot_free(w->kv, snap);
		pthread_rwlock_unlock(&iterators);
		err = kv_get(w->kv, NULL, key, name(key, i % WRITERS, i % THREAD_KEYS), &value,
			     &bytes);
		if (err && err != -ENOENT)
			die("get: %d %s", err, kv_error());
		if (!err)
			free(value);
		/* Called at any time, so that ThreadSanitizer can verify it. */
		kv_stats(w->kv, &stats);
		if (++i % (streams(w->kv) ? 5 : 50) == 0 && w->nr == WRITERS && kv_compact(w->kv))
			die("compact: %s", kv_error());
	}
	return NULL;
}

/**
 * test_threads() - run writers, readers and the background thread at once
 * @kv: the store; closed
 * @rounds: rounds of each writer
 */
void test_threads(struct kv *kv, u32 rounds)
{
	struct worker w[WRITERS + READERS] = { { .nr = 0 } };
	pthread_t thread[WRITERS + READERS];
	struct kv_stats stats = { .size = sizeof(stats) };
	bool stop = false;
	char key[20];
	size_t bytes;
	void *value;
	u32 i, k, r;
	int err;

	for (i = 0; i < WRITERS + READERS; i++) {
		w[i] = (struct worker){ .kv = kv, .nr = i, .rounds = rounds, .stop = &stop };
		if (pthread_create(&thread[i], NULL, i < WRITERS ? writer : reader, &w[i]))
			die("no thread");
	}
	for (i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (; i < WRITERS + READERS; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < WRITERS; i++) {
		for (k = 0; k < THREAD_KEYS; k++) {
			err = kv_get(kv, NULL, key, name(key, i, k), &value, &bytes);
			if (err && err != -ENOENT)
				die("get: %d %s", err, kv_error());
			r = 0;
			if (!err)
				memcpy(&r, value, sizeof(r));
			if (r != w[i].last[k])
				die("key %u of writer %u: %u, not %u", k, i, r, w[i].last[k]);
			if (!err)
				free(value);
		}
	}
	err = kv_settle(kv);
	if (err)
		die("settle: %d %s", err, kv_error());
	kv_stats(kv, &stats);
	printf("%lu writes, %lu memtables, %lu merges\n", stats.puts + stats.deletes,
	       stats.flushes, stats.compactions);
	if (stats.bands_pinned)
		die("%lu bands are nobody's", stats.bands_pinned);
	if (kv_close(kv))
		die("close: %s", kv_error());
}
