// SPDX-License-Identifier: GPL-2.0
/* The memtable: length of searches, and memory. */
#include "memtable.h"
#include "vectors.h"

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
