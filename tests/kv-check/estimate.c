// SPDX-License-Identifier: GPL-2.0
/* The estimate of how sequential a band is, compared with its keys. */
#include "model.h"
#include "pick.h"

/* Write a table with @keys keys, @step apart, from @from on. */
static void put_table(struct kv *kv, u32 from, u32 keys, u32 step)
{
	char key[20], value[990] = { 0 };
	u32 i;

	for (i = 0; i < keys; i++) {
		if (kv_put(kv, key, (size_t)sprintf(key, "%06u", from + i * step), value,
			   sizeof(value), 0))
			die("put: %s", kv_error());
	}
	if (kv_flush(kv))
		die("flush: %s", kv_error());
}

/* Return: the table that was written @ago tables ago. */
static struct part *table_of(struct kv *kv, u32 ago)
{
	const struct level *l = &kv->current.version->level[0];
	struct part *part[8];
	u32 i;

	for (i = 0; i < l->nr; i++)
		part[i] = l->part[i];
	qsort(part, l->nr, sizeof(*part), pick_by_age);
	return part[l->nr - 1 - ago];
}

/* Verify the number of blocks of another table in the range of @keys keys, to half a block. */
static void expect(struct kv *kv, u32 from, u32 keys, u32 step, double blocks)
{
	struct part *other = table_of(kv, 0), *b;
	double s, got;

	put_table(kv, from, keys, step);
	b = table_of(kv, 0);
	s = sequentiality(kv, kv->current.version, b, &other, 1);
	got = (1 / s - 1) * b->table->bytes / (5 * (14 + 6 + 990) + 4);
	if (got < blocks - 0.01 || got > blocks + 0.01)
		die("%u keys from %u on: %g blocks, not %g", keys, from, got, blocks);
}

/* Here a block has five keys; a bucket has one block and begins with the last key before it. */
void test_estimate(u64 seed, u32 count)
{
	static const struct { u32 from, keys, step; double blocks; } of[] = {
		{ 1000, 20, 10, 4 },	/* the very same range */
		{ 900, 20, 20, 4 },	/* all of it, and more on both sides */
		{ 1000, 9, 10, 1.5 },	/* from its beginning on */
		{ 1090, 11, 10, 2 },	/* to its end, from a bucket's beginning on */
		{ 1100, 10, 10, 1.5 },	/* and from within one */
		{ 1100, 3, 10, 0.5 },	/* within one */
		{ 100, 10, 10, 0 },	/* before it */
		{ 3000, 10, 10, 0 },	/* behind it */
	};
	struct kv_options opt = options;
	struct sim *s;
	struct kv *kv;
	u32 i;

	opt.l0_trigger = 1000;
	for (i = 0; i < ARRAY_SIZE(of); i++) {
		s = formatted(BYTES);
		if (sim_open(&kv, s, &opt))
			die("open: %s", kv_error());
		put_table(kv, 1000, 20, 10);
		expect(kv, of[i].from, of[i].keys, of[i].step, of[i].blocks);
		kv_close(kv);
		sim_free(s);
	}
	printf("%zu ranges as they are\n", ARRAY_SIZE(of));
}
