// SPDX-License-Identifier: GPL-2.0
/* Functions shared by the cases worked out by hand; each subject has its own file. */
#include "vectors.h"

void put(struct kv *kv, const char *keys, const char *value)
{
	for (; *keys; keys++) {
		if (kv_put(kv, keys, 1, value, strlen(value), 0))
			die("put: %s", kv_error());
	}
	if (kv_flush(kv))
		die("flush: %s", kv_error());
}

void complain(void *ctx, const char *text)
{
	fprintf(stderr, "%s\n", text);
}

void want(struct kv *kv, const char *key, const char *value)
{
	size_t bytes;
	void *got;
	int err = kv_get(kv, NULL, key, 1, &got, &bytes);

	if (!value) {
		if (err != -ENOENT)
			die("'%s' is back: %d", key, err);
		return;
	}
	if (err || bytes != strlen(value) || memcmp(got, value, bytes))
		die("'%s' is not '%s': %d", key, value, err);
	free(got);
}

static int count_band(void *ctx, const struct kv_band *b)
{
	struct bands *n = ctx;

	n->logs += b->level < 0;
	n->unsorted += b->unsorted;
	n->sorted += b->level >= 0 && !b->unsorted;
	n->band = (u32)b->band;
	if (b->unsorted && b->level)
		die("level %d is unsorted", b->level);
	return 0;
}

struct bands bands_of(struct kv *kv)
{
	struct bands n = { .logs = 0 };

	kv_bands(kv, count_band, &n);
	return n;
}

static int count_offloaded(void *ctx, const struct kv_band *b)
{
	*(u32 *)ctx += b->offloaded;
	return 0;
}

u32 offloaded(struct kv *kv)
{
	u32 n = 0;

	kv_bands(kv, count_offloaded, &n);
	return n;
}

static void said(int err, int want, const char *words)
{
	if (err != want || !strstr(kv_error(), words))
		die("%d, not %d and '%s': %s", err, want, words, kv_error());
}

/* Waits use the monotonic clock; __wrap_pthread_cond_timedwait() verifies it as well. */
static void waits(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	u64 began = now_us(), times = 0;
	pthread_cond_t cond;

	wait_init(&cond);
	pthread_mutex_lock(&lock);
	/* Spurious wakeups are allowed, but not each time. */
	while (now_us() - began < 50000) {
		wait_us(&cond, &lock, 50000);
		times++;
	}
	pthread_mutex_unlock(&lock);
	pthread_cond_destroy(&cond);
	if (times > 10)
		die("a wait of 50 ms has ended %llu times", times);
}

/* Each failing call sets its own message, not that of an earlier call. */
static void sentences(void)
{
	struct kv_format_options odd = { .size = sizeof(odd), .band_bytes = BAND,
					 .organisation = 7 };
	static const u8 uuid[16];
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct kv_iter *it;
	size_t bytes;
	void *value;

	said(kv_put(kv, "", 0, "", 0, 0), -EINVAL, "a key of 0 bytes");
	said(kv_get(kv, NULL, "a", 1, &value, &bytes), -ENOENT, "no such key");
	said(kv_put(kv, "", 0, "", 0, 0), -EINVAL, "a key of 0 bytes");
	if (kv_iter_new(kv, NULL, &it))
		die("no iterator: %s", kv_error());
	said(kv_iter_seek(it, "", 0), -ENOENT, "no further key");
	kv_iter_free(it);
	put(kv, "a", "1");
	said(kv_put(kv, "", 0, "", 0, 0), -EINVAL, "a key of 0 bytes");
	if (kv_iter_new(kv, NULL, &it) || kv_iter_seek(it, "", 0))
		die("no iterator: %s", kv_error());
	said(kv_iter_next(it), -ENOENT, "no further key");
	kv_iter_free(it);
	kv_close(kv);
	said(store_format(sim_disk(s), &odd, uuid), -EINVAL, "organisation 7");
	sim_free(s);
}

void test_vectors(u64 seed, u32 count)
{
	sentences();
	vectors_of_merges();
	vectors_of_room();
	vectors_of_logs();
	if (has_offload())
		vectors_of_offloading();
	vectors_of_what_is_kept();
	vectors_of_memtables();
	waits();
}
