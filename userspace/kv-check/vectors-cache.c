// SPDX-License-Identifier: GPL-2.0
/* Bloom filters, and what is kept of tables: cases worked out by hand. */
#include "table.h"
#include "vectors.h"

/* One in a hundred keys that are not there seems to be; none that is there does not. */
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

/* What is forgotten of a table is all of it, and of no other. */
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


void vectors_of_what_is_kept(void)
{
	forgotten();
	bloom();
}
