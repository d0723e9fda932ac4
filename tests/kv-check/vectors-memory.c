// SPDX-License-Identifier: GPL-2.0
/* The memory of a store, in cases worked out by hand: Bloom filters, the cache, the memtable. */
#include "memtable.h"
#include "table.h"
#include "vectors.h"

/* Bloom filters and the cache: cases worked out by hand. */

/* About 1 % of the missing keys pass a Bloom filter; all existing keys do. */
static void bloom(void)
{
	u32 i, wrong = 0, bytes = 10000 * 10 / 8;
	u8 *bits = calloc(1, bytes);
	char key[20];

	for (i = 0; i < 10000; i++)
		bloom_set(bits, bytes, bloom_hash(slice(key, (size_t)sprintf(key, "%u", i))));
	for (i = 0; i < 10000; i++) {
		if (!bloom_has(bits, bytes, slice(key, (size_t)sprintf(key, "%u", i))))
			die("the Bloom filter denies key %u", i);
	}
	for (; i < 110000; i++)
		wrong += bloom_has(bits, bytes, slice(key, (size_t)sprintf(key, "%u", i)));
	free(bits);
	printf("of 100000 keys that are not there, %u seem to be\n", wrong);
	if (wrong < 300 || wrong > 1500)
		die("that is not one in a hundred");
}

/* cache_forget() drops all items of a table, and of no other table. */
static void forgotten(void)
{
	struct cache *c = cache_new(64 << 20);
	struct cache_item *item;
	u32 tables = 5000, i;

	for (i = 0; i < 3 * tables; i++) {
		item = cache_item_new(i % tables, i / tables, 10);
		if (!item)
			die("no memory");
		cache_put(c, cache_add(c, item));
	}
	for (i = 0; i < tables; i += 2)
		cache_forget(c, i);
	for (i = 0; i < 3 * tables; i++) {
		item = cache_get(c, i % tables, i / tables);
		if (!item != !(i % tables % 2))
			die("table %u is%s forgotten", i % tables, item ? " not" : "");
		cache_put(c, item);
	}
	cache_free(c);
}

/* With any number of items, the chains of the buckets stay short. */
static void found_at_once(void)
{
	struct cache *c = cache_new(256 << 20);
	u32 items = 200000, i, b, n, longest = 0;
	struct cache_item *item;

	for (i = 0; i < items; i++) {
		item = cache_item_new(1 + i / 2000, i % 2000 * 4100, 100);
		if (!item)
			die("no memory");
		cache_put(c, cache_add(c, item));
	}
	for (i = 0; i < 1U << c->shard_bits; i++) {
		for (b = 0; b < 1U << c->shard[i].bits; b++) {
			for (n = 0, item = c->shard[i].bucket[b]; item; item = item->chain)
				n++;
			longest = max(longest, n);
		}
	}
	printf("%u items, %u in a bucket at most\n", items, longest);
	if (!longest || longest > 16)
		die("the cache has too few buckets");
	cache_free(c);
}

/*
 * The cache keeps its budget and drops the least recently used items.  An item that is larger than
 * the budget stays while it is in use; then all others are dropped.
 */
static void budget(u64 bytes)
{
	struct cache *c = cache_new(bytes);
	struct cache_item *item;
	u32 i, piece = 4096, nr = (u32)(bytes / piece), there = 0;

	for (i = 0; i < 2 * nr; i++) {
		item = cache_item_new(i, 0, piece);
		if (!item)
			die("no memory");
		cache_put(c, cache_add(c, item));
		if (c->bytes > bytes)
			die("%llu bytes of %llu", c->bytes, bytes);
		/* This item is used all the time. */
		cache_put(c, cache_get(c, 0, 0));
	}
	for (i = 1; i < 2 * nr; i++) {
		item = cache_get(c, i, 0);
		there += !!item;
		if (item && i < nr / 2)
			die("item %u of %u is still there", i, 2 * nr);
		cache_put(c, item);
	}
	item = cache_get(c, 0, 0);
	if (!item || there < nr * 9 / 10)
		die("%u of %u items that fit are there, and %s the first", there, nr,
		    item ? "" : "not");
	cache_put(c, item);
	item = cache_add(c, cache_item_new(U32_MAX, 0, (u32)bytes));
	if (c->bytes < bytes || c->bytes > bytes + 2 * piece)
		die("beside one that is too large there are %llu bytes", c->bytes - bytes);
	cache_put(c, item);
	cache_free(c);
}

void vectors_of_what_is_kept(void)
{
	found_at_once();
	budget(1 << 20);
	budget(64 << 20);
	forgotten();
	bloom();
}

/* The memtable: length of searches, and memory. */

#define ADVERSE		4096U
#define SMALL_MEMTABLE	(1U << 20)

static void add(struct memtable *m, u32 number, u64 seq)
{
	u8 bytes[ENTRY_HEAD + 20];
	char key[20];
	struct entry e = { .seq = seq, .op = OP_PUT };
	struct slice s;

	e.key = slice(key, (size_t)sprintf(key, "%08u", number));
	s = slice(bytes, entry_encode(&e, bytes));
	if (memtable_prepare(m, s))
		die("no memory");
	memtable_add(m, s, 0, 0);
}

/* Return: the number of nodes visited on the way to the last one. */
static u32 looks(struct memtable *m)
{
	struct node *at = (struct node *)(m->head + MEMTABLE_HEIGHT), *next;
	u32 h = MEMTABLE_HEIGHT, n = 0;

	while (h--) {
		for (; (next = *node_next(at, h)); at = next)
			n++;
	}
	return n;
}

/*
 * Keys that match a well-known generator: those with more than the least height come first in
 * order, and all others behind them.
 */
static void adverse(void)
{
	struct memtable *m;
	u32 rng = 1, i, n;

	memtable_seed = 0;
	m = memtable_new(1);
	if (!m)
		die("no memory");
	for (i = 0; i < ADVERSE; i++) {
		rng = rng * 1664525U + 1013904223U;
		add(m, rng >> 28 & 3 ? ADVERSE + i : i, i + 1);
	}
	n = looks(m);
	printf("%u nodes looked at among %u\n", n, ADVERSE);
	if (n > ADVERSE / 8)
		die("keys can know the heights of the skip list beforehand");
	memtable_put(m);
	memtable_seed = 1;
}

/* Writes take at most memtable_bytes of memory, however small they are. */
static void bounded(void)
{
	struct kv_format_options shape = { .size = sizeof(shape),
					   .band_bytes = 4 * SMALL_MEMTABLE };
	struct kv_options opt = { .size = sizeof(opt), .flags = KV_NO_THREAD | KV_NO_LOG,
				  .memtable_bytes = SMALL_MEMTABLE };
	struct sim *s = sim_new(20ULL * 4 * SMALL_MEMTABLE);
	u64 before, most = 0, taken = 0, number;
	char key[20];
	struct kv *kv;
	u32 i;

	if (store_format(sim_disk(s), &shape, (const u8 *)"a memtable's own") ||
	    sim_open(&kv, s, &opt))
		die("%s", kv_error());
	number = kv->current.mem->number;
	before = large_allocations;
	for (i = 0; kv->current.mem->number == number; i++) {
		most = taken;
		if (kv_put(kv, key, (size_t)sprintf(key, "%08u", i * 7919 % 1000000), "8 bytes.",
			   8, 0))
			die("%s", kv_error());
		taken = large_allocations - before;
	}
	printf("%u writes of 16 bytes took %llu bytes of %u\n", i, most, SMALL_MEMTABLE);
	/* One more piece of memory may have been allocated. */
	if (most > SMALL_MEMTABLE + (300U << 10) || most < SMALL_MEMTABLE / 2)
		die("a memtable of %u bytes took %llu", SMALL_MEMTABLE, most);
	kv_close(kv);
	sim_free(s);
}

void vectors_of_memtables(void)
{
	adverse();
	bounded();
}
