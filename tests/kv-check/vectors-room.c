// SPDX-License-Identifier: GPL-2.0
/* Merges with hardly any free band: cases worked out by hand. */
#include "vectors.h"

/* Write the keys from @from to before @to to a table of their own. */
static void put_range(struct kv *kv, char first, u32 from, u32 to, u32 value_bytes)
{
	char key[20], value[600] = { 0 };
	u32 i;

	for (i = from; i < to; i++) {
		sprintf(key, "%c%04u", first, i);
		if (value_bytes ? kv_put(kv, key, 5, value, value_bytes, 0) :
				  kv_delete(kv, key, 5, 0))
			die("%s: %s", key, kv_error());
	}
	if (kv_flush(kv))
		die("flush: %s", kv_error());
}

/*
 * A frozen memtable finds no band, and merges free some.  It is written when the first merge gives
 * a band back; how many merges there are by then depends on the levels.
 */
static void frozen_meanwhile(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u32 held[BANDS], n = 0;
	struct kv_stats stats = { .size = sizeof(stats) };

	/* There it needs no band. */
	if (kv->head.organisation == KV_BUFFERED)
		goto out;

	put_range(kv, 'a', 1, 60, 550);
	put_range(kv, 'a', 0, 60, 0);
	put_range(kv, 'k', 0, 200, 170);
	put_range(kv, 'k', 0, 200, 171);
	if (kv_put(kv, "x", 1, "1", 1, 0))
		die("put: %s", kv_error());
	while (n < ARRAY_SIZE(held) && !band_take(kv, RESERVE_NONE, &held[n], NULL))
		n++;
	if (kv_flush(kv) != -ENOSPC)
		die("there was a band for a table");
	/* With all other bands held, new writes fail, but earlier writes are not lost. */
	if (kv_put(kv, "y", 1, "2", 1, 0) != -ENOSPC)
		die("there was a band for a log");
	kv_stats(kv, &stats);
	if (stats.compactions < 2 || kv->current.frozen)
		die("%lu merges, and the memtable is %sa table", stats.compactions,
		    kv->current.frozen ? "not " : "");
	while (n)
		band_give_back(kv, held[--n]);
	if (kv_flush(kv) || kv_put(kv, "y", 1, "2", 1, 0) || kv_flush(kv))
		die("flush: %s", kv_error());
	want(kv, "x", "1");
	want(kv, "y", "2");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
out:
	kv_close(kv);
	sim_free(s);
}

/* The bands that are taken at the first block that a merge writes. */
static struct {
	struct kv *kv;
	bool freezes;
	u32 band[BANDS], nr;
} meanwhile;

static void take_meanwhile(enum sim_what what, u64 offset, u64 bytes, const void *data)
{
	struct kv *kv = meanwhile.kv;
	u32 reserve = meanwhile.freezes ? RESERVE_NONE : RESERVE_PUT;

	if (what != SIM_WRITE || offset < kv->head.bands_offset)
		return;
	meanwhile.kv = NULL;
	container_of(kv->disk, struct sim, disk)->watch = NULL;
	if (meanwhile.freezes && freeze(kv))
		die("freeze: %s", kv_error());
	while (!band_take(kv, reserve, &meanwhile.band[meanwhile.nr], NULL))
		meanwhile.nr++;
}

/*
 * All bands that a writer can get are taken while a merge runs.  The merge must not end because a
 * memtable finds no band, and writers must leave it the bands that it needs.
 */
static void taken_meanwhile(bool freezes)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u32 i, j, tables = freezes ? 2 : 12;
	char key[20], value[350] = { 0 };
	struct kv *kv;

	opt.l0_trigger = 1000;
	opt.l0_slowdown = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	/*
	 * With KV_STREAM no table is begun beside another one; KV_BUFFERED needs no band for a
	 * memtable.
	 */
	if (freezes && (streams(kv) || kv->head.organisation == KV_BUFFERED))
		goto out;
	for (i = 0; i < tables; i++) {
		for (j = i; j < 150 * tables; j += tables) {
			if (kv_put(kv, key, (size_t)sprintf(key, "%05u", j), value,
				   freezes ? 150 : sizeof(value), 0))
				die("put: %s", kv_error());
		}
		if (kv_flush(kv))
			die("flush: %s", kv_error());
	}
	if (freezes && kv_put(kv, "x", 1, "1", 1, 0))
		die("put: %s", kv_error());
	meanwhile.kv = kv;
	meanwhile.freezes = freezes;
	meanwhile.nr = 0;
	s->watch = take_meanwhile;
	pthread_mutex_lock(&kv->compacting);
	if (compact_all(kv))
		die("compact: %s", kv_error());
	pthread_mutex_unlock(&kv->compacting);
	if (meanwhile.kv || !meanwhile.nr)
		die("nothing was taken meanwhile");
	while (meanwhile.nr)
		band_give_back(kv, meanwhile.band[--meanwhile.nr]);
	if (kv_flush(kv))
		die("flush: %s", kv_error());
	if (freezes)
		want(kv, "x", "1");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
out:
	kv_close(kv);
	sim_free(s);
}

#define CROWD		2000U

/* Do write @n: put a value, sometimes for an older key, or delete an older key. */
static int one_of_crowd(struct kv *kv, u32 n, u32 *last)
{
	u32 value[500] = { n }, of = n % 5 == 4 && n > 100 ? n - 100 : n;
	char key[20];
	int err;

	if (n % 7 == 6 && n > 150) {
		of = n - 150;
		err = kv_delete(kv, key, (size_t)sprintf(key, "%08u", of * 7919 % 100000), 0);
		n = 0;
	} else {
		err = kv_put(kv, key, (size_t)sprintf(key, "%08u", of * 7919 % 100000), value,
			     sizeof(value), 0);
	}
	if (!err)
		last[of] = n;
	return err;
}

static void want_crowd(struct kv *kv, u32 n, const u32 *last)
{
	char key[20];
	size_t bytes;
	u32 i, *got;
	int err;

	for (i = 1; i < n; i++) {
		err = kv_get(kv, NULL, key, (size_t)sprintf(key, "%08u", i * 7919 % 100000),
			     (void **)&got, &bytes);
		if (err != (last[i] ? 0 : -ENOENT))
			die("get %u of %u: %d %s", i, n, err, kv_error());
		if (!err && *got != last[i])
			die("%u of %u is of write %u, not %u", i, n, *got, last[i]);
		if (!err)
			free(got);
	}
}

/*
 * More overlapping tables than free bands.  Merges must manage with the free bands, when a write
 * finds no room or, without @full, just before that.
 */
static void crowded(bool full)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u32 last[CROWD] = { 0 }, n, i;
	const struct level *l;
	struct kv *kv;
	int err = 0;

	opt.l0_trigger = 1000;
	opt.l0_slowdown = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	/* No merge has succeeded for a while; some of the writes come while one runs. */
	for (n = 1; n < CROWD && !err && (full || bands_enough(kv, RESERVE_PUT + 1)); n++) {
		kv->worker.merging = kv->offload.disk && n % 100 < 50;
		err = one_of_crowd(kv, n, last);
	}
	kv->worker.merging = 0;
	if (err != (full ? -ENOSPC : 0))
		die("put: %d %s", err, kv_error());
	n -= full;
	if (kv_delete(kv, "99999999", 8, 0))
		die("not even a deletion has room: %s", kv_error());
	kv->opt.l0_trigger = 4;
	kv->opt.l0_slowdown = 8;
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	if (kv->current.version->level[0].nr >= 4)
		die("%u bands of level 0 are left", kv->current.version->level[0].nr);
	want_crowd(kv, n, last);
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	if (offloaded(kv))
		die("%u bands have no room to come back", offloaded(kv));
	l = &kv->current.version->level[1];
	for (i = 1; i < l->nr; i++) {
		if (slice_cmp(l->part[i - 1]->max, l->part[i]->min) >= 0)
			die("a band of level 1 overlaps another");
	}
	want_crowd(kv, n, last);
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	printf("%u writes, settled when %s\n", n, full ? "full" : "nearly full");
	kv_close(kv);
	sim_free(s);
}

/* A slot with more bytes than 32 bits can express; this needs more than two million bands. */
static void endless_slot(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u64 slot_bytes = kv->head.slot_bytes, most_bytes = kv->current.version->most_bytes;
	bool enough;

	kv->head.slot_bytes = 1ULL << 40;
	kv->current.version->most_bytes = U32_MAX - 4 * BLOCK_BYTES;
	enough = bands_enough(kv, RESERVE_PUT);
	kv->head.slot_bytes = slot_bytes;
	kv->current.version->most_bytes = most_bytes;
	if (enough || !bands_enough(kv, RESERVE_PUT))
		die("a band is given out whose table has no room in 4 GiB");
	kv_close(kv);
	sim_free(s);
}

void vectors_of_room(void)
{
	endless_slot();
	crowded(false);
	crowded(true);
	frozen_meanwhile();
	taken_meanwhile(true);
	taken_meanwhile(false);
}
