// SPDX-License-Identifier: GPL-2.0
/* Number and size of reads from the disk: caching, and reads around a block. */
#include "model.h"

/* From the address sanitizer; not every compiler has its header. */
size_t __sanitizer_get_current_allocated_bytes(void);

#define WIDE		(256U << 10)
#define RECORDS		4000U
#define VALUE		1000U

static size_t name(u32 i, char *key)
{
	return (size_t)sprintf(key, "%08u", i * 7919 % RECORDS);
}

static void get(struct kv *kv, u32 i)
{
	char key[20];
	size_t bytes;
	void *value;

	if (kv_get(kv, NULL, key, name(i, key), &value, &bytes))
		die("get: %s", kv_error());
	if (bytes != VALUE || *(u8 *)value != (u8)(i * 7919 % RECORDS))
		die("a wrong value");
	free(value);
}

static void fill(struct kv *kv)
{
	u8 value[VALUE];
	char key[20];
	u32 i;

	for (i = 0; i < RECORDS; i++) {
		memset(value, (u8)(i * 7919 % RECORDS), sizeof(value));
		if (kv_put(kv, key, name(i, key), value, sizeof(value), 0))
			die("put: %s", kv_error());
	}
	if (kv_compact(kv))
		die("compact: %s", kv_error());
}

static void walk(struct kv *kv, u32 most)
{
	struct kv_iter *it;
	u32 n = 0;
	int err = kv_iter_new(kv, NULL, &it);

	for (err = err ?: kv_iter_seek(it, "", 0); !err && n < most; err = kv_iter_next(it))
		n++;
	if (n < most || (err && err != -ENOENT))
		die("a walk ends after %u: %d", n, err);
	kv_iter_free(it);
}

static struct kv *with_cache(struct sim *s, u64 cache, u32 around)
{
	struct kv_options opt = options;
	struct kv *kv;

	opt.cache_bytes = cache;
	opt.around_bytes = around;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	s->ops = 0;
	return kv;
}

static u64 bytes_read(struct kv *kv)
{
	struct kv_stats stats = { .size = sizeof(stats) };

	kv_stats(kv, &stats);
	return stats.read_bytes;
}

static u32 tables_of(struct kv *kv)
{
	struct kv_stats stats = { .size = sizeof(stats) };
	u32 i, n = 0;

	kv_stats(kv, &stats);
	for (i = 0; i < KV_LEVELS; i++)
		n += (u32)stats.level_bands[i];
	return n;
}

/* Reads for all keys in random order, then for all keys again. */
static void all_keys(struct sim *s)
{
	u64 data = (u64)RECORDS * (VALUE + 8), first, bytes;
	struct kv *kv = with_cache(s, 4 * data, 0);
	u32 tables = tables_of(kv), i;

	get(kv, 0);
	if (s->ops != 2)
		die("the first get took %llu reads: footer, index and filter are one, a block another",
		    s->ops);
	for (i = 0; i < RECORDS; i++)
		get(kv, i);
	first = s->ops;
	if (first > 4 * tables)
		die("%llu reads for %u tables in pieces of half of one", first, tables);
	if (bytes_read(kv) > data + data / 4)
		die("%llu bytes read of %llu", bytes_read(kv), data);
	for (i = 0; i < RECORDS; i++)
		get(kv, i);
	walk(kv, RECORDS);
	if (s->ops != first)
		die("%llu reads of what the cache has", s->ops - first);
	/* A check must read from the disk, not from the cache. */
	bytes = bytes_read(kv);
	if (kv_check(kv, quiet, NULL) || bytes_read(kv) - bytes < data)
		die("a check has read %llu bytes of %llu", bytes_read(kv) - bytes, data);
	kv_close(kv);

	/* Without reads around a block, only what was requested is read. */
	kv = with_cache(s, 4 * data, BLOCK_BYTES);
	for (i = 0; i < RECORDS / 10; i++)
		get(kv, i);
	if (s->ops < RECORDS / 12)
		die("%llu reads for %u keys", s->ops, RECORDS / 10);
	kv_close(kv);
	printf("%u tables, %llu reads of all keys; ", tables, first);
}

/* A small cache: nothing is read without room for it, and requested blocks stay in the cache. */
static void small_cache(struct sim *s)
{
	struct kv *kv = with_cache(s, 600 << 10, 0);
	u64 bytes, ops;
	u32 i;

	for (i = 0; i < RECORDS; i++)
		get(kv, i);
	bytes = bytes_read(kv);
	ops = s->ops;
	for (i = 0; i < RECORDS; i++)
		get(kv, i);
	if (s->ops - ops < RECORDS / 2)
		die("%llu reads for %u keys with a small cache", s->ops - ops, RECORDS);
	if (bytes_read(kv) - bytes > (s->ops - ops) * 4 * BLOCK_BYTES)
		die("%llu bytes in %llu reads", bytes_read(kv) - bytes, s->ops - ops);
	/* A walk must not evict requested blocks. */
	for (i = 0; i < 20; i++)
		get(kv, i);
	walk(kv, RECORDS);
	ops = s->ops;
	for (i = 0; i < 20; i++)
		get(kv, i);
	if (s->ops != ops)
		die("%llu reads after a walk", s->ops - ops);
	kv_close(kv);
}

/* A walk begins with small reads; they grow to half a band. */
static void walks(struct sim *s)
{
	struct kv *kv = with_cache(s, 600 << 10, 0);
	u32 tables = tables_of(kv);

	walk(kv, 20);
	if (s->ops > 2 || bytes_read(kv) > WIDE * 3 / 4)
		die("%llu reads of %llu bytes for 20 keys", s->ops, bytes_read(kv));
	s->ops = 0;
	walk(kv, RECORDS);
	if (s->ops > 4 * tables)
		die("%llu reads of %u tables in a walk", s->ops, tables);
	kv_close(kv);
	printf("a walk %llu; ", s->ops);
}

/* An iterator holds nothing of tables that it is not in, even if it was in them before. */
static void held_by_iterator(struct sim *s)
{
	struct kv *kv = with_cache(s, BLOCK_BYTES, 0);
	u32 tables = tables_of(kv), i;
	struct kv_iter *it;
	size_t none, now;
	char key[20];

	if (kv_iter_new(kv, NULL, &it))
		die("no iterator: %s", kv_error());
	none = __sanitizer_get_current_allocated_bytes();
	for (i = RECORDS; i--; ) {
		if (kv_iter_seek(it, key, (size_t)sprintf(key, "%08u", i)))
			die("seek: %s", kv_error());
		now = __sanitizer_get_current_allocated_bytes();
		/* Two tables at most: a window, an index and a block each. */
		if (now - none > 2 * (64 << 10) + (32 << 10))
			die("%zu bytes are held at record %u of %u tables", now - none, i, tables);
	}
	kv_iter_free(it);
	kv_close(kv);
}

/* A table that this store has just written is not read while the cache has room for it. */
static void just_written(void)
{
	struct sim *s = formatted_as(40ULL * WIDE, WIDE);
	/* More than all data, but less than the total of all writes. */
	struct kv *kv = with_cache(s, 9 << 20, 0);
	u64 bytes;
	u32 i;

	fill(kv);
	bytes = bytes_read(kv);
	for (i = 0; i < RECORDS; i++)
		get(kv, i);
	if (bytes_read(kv) != bytes)
		die("%llu bytes read of what was just written", bytes_read(kv) - bytes);
	kv_close(kv);
	sim_free(s);
}

static u64 index_at_byte, index_bytes;

static int first_index(void *ctx, const struct kv_band *b)
{
	const struct sim *s = ctx;
	const struct footer_block *f;

	if (b->level < 0)
		return 0;
	f = (const void *)(s->data + b->offset + b->bytes - BLOCK_BYTES);
	index_at_byte = b->offset + le32_to_cpu(f->data_bytes) + 4;
	index_bytes = le32_to_cpu(f->index_bytes);
	return 1;
}

/* Damage in one block, or a failed read of it, does not affect the blocks beside it. */
static void beside_damage(struct sim *s)
{
	struct kv *kv = with_cache(s, 16 << 20, 0);
	u32 i, lost = 0;
	u64 at;
	int err;

	kv_close(kv);
	for (at = s->bands_offset; at < s->disk.bytes && memcmp(s->data + at + 14, "0", 1); )
		at += WIDE;
	s->data[at + 5 * BLOCK_BYTES] ^= 1;
	kv = with_cache(s, 16 << 20, 0);
	for (i = 0; i < RECORDS; i++) {
		size_t bytes;
		char key[20];
		void *value;

		err = kv_get(kv, NULL, key, name(i, key), &value, &bytes);
		if (!err)
			free(value);
		else if (err != -EUCLEAN)
			die("%d %s", err, kv_error());
		lost += !!err;
	}
	/* A block has five records. */
	if (!lost || lost > 5)
		die("%u records lost with one block", lost);
	kv_close(kv);
	s->data[at + 5 * BLOCK_BYTES] ^= 1;

	kv = with_cache(s, 16 << 20, 0);
	get(kv, 0);
	/* The read around the block fails; the block is then read alone. */
	s->fail = s->ops + 1;
	get(kv, RECORDS / 2);
	if (s->failed != SIM_READ + 1)
		die("nothing has failed");
	s->fail = 0;
	/* Everything is in memory now; damage index and filter on the disk. */
	walk(kv, RECORDS);
	kv_bands(kv, first_index, s);
	for (i = 0; i < 2; i++) {
		s->data[index_at_byte + i * index_bytes] ^= 1;
		if (kv_check(kv, quiet, NULL) != -EUCLEAN)
			die("a check has believed the cache");
		s->data[index_at_byte + i * index_bytes] ^= 1;
	}
	kv_close(kv);
	printf("%u records lost with a block\n", lost);
}

/* Blocks that are larger than the cache, although the piece around them would fit. */
static void large_blocks(void)
{
	struct sim *s = formatted_as(40ULL * WIDE, WIDE);
	struct kv *kv = opened(s, "new");
	static u8 value[WIDE / 9];
	char key[] = "a";
	size_t bytes;
	void *got;
	u64 ops;

	for (; *key < 'g'; ++*key) {
		if (kv_put(kv, key, 1, value, sizeof(value), 0))
			die("put: %s", kv_error());
	}
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	kv_close(kv);
	kv = with_cache(s, WIDE / 12, 2 * BLOCK_BYTES);
	for (*key = 'a'; *key < 'g'; ++*key) {
		ops = s->ops;
		if (kv_get(kv, NULL, key, 1, &got, &bytes))
			die("get: %s", kv_error());
		free(got);
		/* Filter, index, and the block once. */
		if (s->ops > ops + 3)
			die("%llu reads of a large block", s->ops - ops);
	}
	kv_close(kv);
	sim_free(s);
}

void test_reads(u64 seed, u32 count)
{
	struct sim *s = formatted_as(40ULL * WIDE, WIDE);
	struct kv *kv = opened(s, "new");

	fill(kv);
	kv_close(kv);
	all_keys(s);
	small_cache(s);
	walks(s);
	held_by_iterator(s);
	beside_damage(s);
	just_written();
	large_blocks();
	sim_free(s);
}
