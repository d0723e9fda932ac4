// SPDX-License-Identifier: GPL-2.0
/* A store that was full, and has what it needs to make room. */
#include "model.h"

#define VALUE_BYTES	4000U

static void put_some(struct kv *kv, u32 from, u32 to, int want)
{
	static u8 value[VALUE_BYTES];
	char key[20];
	int err = 0;
	u32 i;

	for (i = from; i < to && !err; i++)
		err = kv_put(kv, key, (size_t)sprintf(key, "%08u", i), value, sizeof(value), 0);
	if (err != want)
		die("put %u: %d, not %d: %s", i - 1, err, want, kv_error());
}

/* Write @of keys in turn until there is no room. */
static void fill_up(struct kv *kv, u32 of)
{
	static u8 value[VALUE_BYTES];
	char key[20];
	int err = 0;
	u32 n;

	for (n = 0; !err && n < 20 * of; n++)
		err = kv_put(kv, key, (size_t)sprintf(key, "%08u", n % of), value,
			     sizeof(value), 0);
	if (err != -ENOSPC)
		die("put %u: %d %s", n, err, kv_error());
}

/* Merges must free versions that snapshots kept, once the snapshots are gone. */
static void snapshots_go(void)
{
	static u8 value[VALUE_BYTES];
	struct kv_snapshot *snap[20];
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct kv_stats before = { .size = sizeof(before) }, after = before;
	u32 of = 120, n, i;
	char key[20];
	int err = 0;

	for (n = 0; !err && n < ARRAY_SIZE(snap); n++) {
		snap[n] = kv_snapshot_new(kv);
		for (i = 0; i < of && !err; i++)
			err = kv_put(kv, key, (size_t)sprintf(key, "%08u", i), value,
				     sizeof(value), 0);
	}
	if (err != -ENOSPC)
		die("put: %d %s", err, kv_error());
	kv_stats(kv, &before);
	put_some(kv, 0, 1, -ENOSPC);
	kv_stats(kv, &after);
	if (after.compactions != before.compactions || after.read_bytes != before.read_bytes)
		die("what has not helped is tried again though nothing has changed");
	while (n)
		kv_snapshot_free(kv, snap[--n]);
	put_some(kv, 0, of, 0);
	kv_close(kv);
	sim_free(s);
}

/* If a merge fails because of a read error, the store must not stay full for ever. */
static void can_be_read(void)
{
	struct kv_options opt = options;
	struct sim *s = formatted(BYTES);
	struct kv *kv;
	u32 of = 100;

	opt.l0_trigger = 1000;
	opt.l0_slowdown = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	s->unreadable = true;
	fill_up(kv, of);
	put_some(kv, 0, 1, -ENOSPC);
	if (!strstr(kv_error(), "cannot be read"))
		die("why it is full is not said: %s", kv_error());
	s->unreadable = false;
	put_some(kv, 0, of, 0);
	if (kv_check(kv, quiet, NULL))
		die("check: %s", kv_error());
	kv_close(kv);
	sim_free(s);
}

void test_again(u64 seed, u32 count)
{
	snapshots_go();
	can_be_read();
	printf("full, and not for ever\n");
}
