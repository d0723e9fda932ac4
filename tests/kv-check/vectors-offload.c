// SPDX-License-Identifier: GPL-2.0
/* The offload device: cases worked out by hand. */
#include <time.h>

#include "vectors.h"

/* Opening the store with a wrong offload device, or without one, fails with the error @why. */
static void refused(struct sim *s, struct kv_disk *spare, int why, const char *text)
{
	struct kv_options look = { .size = sizeof(struct kv_options), .flags = KV_READ_ONLY };
	struct kv *kv;
	u32 i;
	int err;

	for (i = 0; i < 2; i++) {
		err = store_open(&kv, sim_disk(s), spare, i ? &look : &options);
		if (err != why || !strstr(kv_error(), text))
			die("%d '%s', not %d '%s'", err, err ? kv_error() : "", why, text);
	}
}

static void own_disk(struct sim *s, const u8 *uuid, const u8 *own)
{
	struct shape head;

	if (header_read(sim_disk(s), false, &head))
		die("header: %s", kv_error());
	memcpy(head.uuid, uuid ?: head.uuid, sizeof(head.uuid));
	if (store_offload(&s->spare, &head, 0, own))
		die("offload: %s", kv_error());
}

/*
 * Writes are offloaded only while merges run, and the store cannot be opened without the device
 * that has them.
 */
static void while_merging(void)
{
	static const u8 first[16] = "a first one", second[16] = "a second one";
	struct sim *s = formatted(BYTES);
	u32 held[BANDS], n = 0, i;
	struct kv_stats stats = { .size = sizeof(stats) };
	bool did;
	u64 ops;
	struct kv *kv;

	own_disk(s, NULL, first);
	kv = opened(s, "new");
	if (kv_put(kv, "a", 1, "1", 1, KV_SYNC) || offloaded(kv))
		die("a write is offloaded while nothing is merged");
	put(kv, "b", "1");
	kv->worker.merging = 1;
	if (kv_put(kv, "a", 1, "2", 1, 0) || offloaded(kv) != 1)
		die("a write is not offloaded");
	/* Both the write and the flush go to the offload device. */
	s->recording = true;
	ops = s->ops;
	if (kv_put(kv, "c", 1, "2", 1, KV_SYNC) || s->ops != ops + 2 || s->events != 2 ||
	    !s->event[0].spare || !s->event[1].spare)
		die("a sync asks the disk that is merged on");
	s->recording = false;
	sim_forget(s);
	kv_stats(kv, &stats);
	if (stats.offloaded_writes != 2 || stats.offloaded_bytes != 4 ||
	    stats.offload_bands_free + 1 != stats.offload_bands)
		die("%lu writes, %lu bytes", stats.offloaded_writes, stats.offloaded_bytes);
	kv_close(kv);
	refused(s, NULL, -ENXIO, "give that device, too");
	own_disk(s, NULL, second);
	refused(s, &s->spare, -ENXIO, "on another offload device than spare");
	own_disk(s, second, first);
	refused(s, &s->spare, -EMEDIUMTYPE, "of another store than sim");
	memset(s->data + BYTES, 0, BLOCK_BYTES);
	memset(s->data + BYTES + BAND - BLOCK_BYTES, 0, BLOCK_BYTES);
	refused(s, &s->spare, -EMEDIUMTYPE, "spare is not an offload device");
	refused(s, sim_disk(s), -EMEDIUMTYPE, "sim is not an offload device");
	own_disk(s, NULL, first);
	if (store_open(&kv, &s->spare, NULL, &options) != -EMEDIUMTYPE)
		die("an offload device is opened as a store");
	/* A log that was read back becomes a table on the store's own disk. */
	kv = opened(s, "again");
	if (offloaded(kv))
		die("a log that was read back is still offloaded");
	kv_close(kv);
	if (store_open(&kv, sim_disk(s), NULL, &options))
		die("open: %s", kv_error());
	want(kv, "a", "2");
	want(kv, "c", "2");
	kv_close(kv);
	/*
	 * A table on the offload device: it comes back when the store is idle, before two tables
	 * are half of the three that start a merge.
	 */
	kv = opened(s, "tables");
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	kv->worker.merging = 1;
	put(kv, "ad", "3");
	kv->worker.merging = 0;
	if (offloaded(kv) != 1 || bands_of(kv).unsorted != 1)
		die("there is no table on the offload device");
	want(kv, "a", "3");
	want(kv, "b", "1");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	kv_close(kv);
	refused(s, NULL, -ENXIO, "give that device, too");
	kv = opened(s, "tables");
	if (compact_step(kv, &did) || did || compact_idle(kv, &did) || !did || offloaded(kv))
		die("what was offloaded does not come back");
	want(kv, "a", "3");
	want(kv, "d", "3");
	/* The offload device is full; then the store has no room for what is on it. */
	kv->worker.merging = 1;
	kv_stats(kv, &stats);
	for (i = 0; i < stats.offload_bands + 1; i++)
		put(kv, "e", "4");
	if (offloaded(kv) != stats.offload_bands || bands_of(kv).unsorted != i)
		die("%u bands of %u are offloaded", offloaded(kv), i);
	kv->worker.merging = 0;
	if (kv_compact(kv) || offloaded(kv))
		die("compact: %s", kv_error());
	kv->worker.merging = 1;
	while (kv->bands.free > RESERVE_PUT + 1 && !band_take(kv, RESERVE_NONE, &held[n], NULL))
		n++;
	put(kv, "f", "5");
	if (offloaded(kv))
		die("nothing of it would have room when it comes back");
	while (n)
		band_give_back(kv, held[--n]);
	want(kv, "e", "4");
	want(kv, "f", "5");
	kv_close(kv);
	sim_free(s);
}

static void *sync_one(void *kv)
{
	if (kv_put(kv, "b", 1, "2", 1, KV_SYNC))
		die("put: %s", kv_error());
	return NULL;
}

/* A flush of the disk; another thread syncs an offloaded write in the meantime. */
static struct kv *syncing;
static int (*flush_of_disk)(struct kv_disk *d);

static int sync_meanwhile(struct kv_disk *d)
{
	struct timespec until;
	pthread_t thread;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += 20;
	if (pthread_create(&thread, NULL, sync_one, syncing) ||
	    pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until))
		die("a sync there waits until the disk that is merged on is flushed");
	return flush_of_disk(d);
}

static void flush_meanwhile(void)
{
	struct sim *s = formatted(BYTES);
	const struct kv_disk_ops *ops = s->disk.ops;
	struct kv_disk_ops slow = *ops;
	struct kv *kv = opened(s, "new");

	kv->worker.merging = 1;
	if (kv_put(kv, "a", 1, "1", 1, 0) || offloaded(kv) != 1)
		die("a write is not offloaded");
	syncing = kv;
	flush_of_disk = ops->flush;
	slow.flush = sync_meanwhile;
	s->disk.ops = &slow;
	if (store_flush_disk(kv, kv->disk))
		die("flush: %s", kv_error());
	s->disk.ops = ops;
	want(kv, "b", "2");
	kv->worker.merging = 0;
	kv_close(kv);
	sim_free(s);
}

/* A key of the largest length, determined by @n. */
static char *longest_key(u32 n)
{
	static char key[KV_KEY_MAX + 1];

	memset(key, 'x', KV_KEY_MAX);
	key[sprintf(key, "%08u", n)] = 'x';
	return key;
}

#define SPREAD		5U
#define MERGED		12U

/* Put keys of a table that overlaps all others of its kind; they are not flushed. */
static void put_spread(struct kv *kv, u32 table)
{
	u32 value[7000 / 4] = { table }, i;

	for (i = 0; i < SPREAD; i++) {
		if (kv_put(kv, longest_key(i * 100 + table), KV_KEY_MAX, value, sizeof(value), 0))
			die("put: %s", kv_error());
	}
}

static void want_spread(struct kv *kv, u32 tables)
{
	size_t bytes;
	u32 i, *got;

	for (i = 0; i < SPREAD * tables; i++) {
		if (kv_get(kv, NULL, longest_key(i % SPREAD * 100 + i / SPREAD), KV_KEY_MAX,
			   (void **)&got, &bytes))
			die("key %u of table %u: %s", i % SPREAD, i / SPREAD, kv_error());
		if (*got != i / SPREAD)
			die("key %u of table %u is of table %u", i % SPREAD, i / SPREAD, *got);
		free(got);
	}
}

/*
 * The store that is filled during a merge; its number of tables; and the number that was offloaded.
 */
static struct kv *filling;
static u32 spread, most;

/* Fill @filling with tables that one merge takes together, when it is requested. */
static struct kv *filled_spread(struct sim *s)
{
	struct kv_options opt = options;

	opt.l0_trigger = 1000;
	if (sim_open(&filling, s, &opt))
		die("open: %s", kv_error());
	for (spread = 0; spread < MERGED; ) {
		put_spread(filling, spread++);
		if (kv_flush(filling))
			die("flush: %s", kv_error());
	}
	return filling;
}

/* Can a write get a band on one of the devices? */
static bool given(struct kv *kv)
{
	bool clean;
	u32 band;

	if (band_take_spare(kv, RESERVE_PUT, &band, &clean) &&
	    band_take(kv, RESERVE_PUT, &band, NULL))
		return false;
	band_give_back(kv, band);
	return true;
}

/* At the first block that a merge writes, fill all bands that writers can get. */
static void fill_meanwhile(enum sim_what what, u64 offset, u64 bytes, const void *data)
{
	struct kv *kv = filling;

	if (what != SIM_WRITE || offset < kv->head.bands_offset)
		return;
	container_of(kv->disk, struct sim, disk)->watch = NULL;
	while (given(kv)) {
		put_spread(kv, spread++);
		/* As the merge does. */
		if (freeze(kv) || compact_frozen(kv))
			die("freeze: %s", kv_error());
	}
	most = offloaded(kv);
}

/*
 * Keys of the largest length, and a merge of everything, which frees nothing before its end.
 * Meanwhile as much is written as there is room for, most of it offloaded.  The band table has room
 * for only as many entries as the store has bands.
 */
static void longest_table(void)
{
	struct sim *s = formatted(BYTES + 16 * BAND);
	struct kv *kv;

	sim_add_spare(s, BYTES);
	own_disk(s, NULL, (const u8 *)"a large device.");
	kv = filled_spread(s);
	s->watch = fill_meanwhile;
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	if (s->watch || most < 5)
		die("%u bands of %u were offloaded", most, kv->head.bands);
	want_spread(kv, spread);
	if (kv_compact(kv) || offloaded(kv))
		die("%u bands are still there", offloaded(kv));
	want_spread(kv, spread);
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	printf("%u bands offloaded of a store of %u\n", most, kv->head.bands);
	kv_close(kv);
	sim_free(s);
}

/*
 * Number of reads of a merge, and of those with a frozen memtable, the one that froze it excluded.
 */
static u32 reads, waited;
static int (*read_of_disk)(struct kv_disk *d, u64 offset, void *buf, u32 bytes);

/* Freeze a memtable at the third read of a merge, which has its inputs by then. */
static int read_meanwhile(struct kv_disk *d, u64 offset, void *buf, u32 bytes)
{
	struct kv *kv = filling;

	if (kv->worker.merging && ++reads == 3) {
		put_spread(kv, spread++);
		if (freeze(kv))
			die("freeze: %s", kv_error());
	} else if (reads > 3 && kv->current.frozen) {
		waited++;
	}
	return read_of_disk(d, offset, buf, bytes);
}

/* A full memtable waits for at most one read of a merge of unsorted tables. */
static void frozen_meanwhile(void)
{
	struct sim *s = formatted(BYTES);
	const struct kv_disk_ops *ops = s->disk.ops;
	struct kv_disk_ops counted = *ops;
	struct kv *kv;

	kv = filled_spread(s);
	reads = 0;
	waited = 0;
	read_of_disk = ops->read;
	counted.read = read_meanwhile;
	s->disk.ops = &counted;
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	s->disk.ops = ops;
	if (reads < SPREAD * MERGED)
		die("a merge of %u unsorted writes has read %u times", SPREAD * MERGED, reads);
	if (waited > 1)
		die("a full memtable has waited for %u reads of a merge", waited);
	want_spread(kv, spread);
	kv_close(kv);
	sim_free(s);
}

void vectors_of_offloading(void)
{
	while_merging();
	flush_meanwhile();
	frozen_meanwhile();
	longest_table();
}
