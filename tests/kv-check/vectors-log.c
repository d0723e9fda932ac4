// SPDX-License-Identifier: GPL-2.0
/* Logs: cases worked out by hand. */
#include "vectors.h"

/* Without a log, writes that were not flushed are lost, and a sync is refused. */
static void without_log(void)
{
	struct kv_options opt = { .size = sizeof(struct kv_options), .flags = options.flags | KV_NO_LOG };
	struct sim *s = formatted(BYTES);
	struct kv_stats stats = { .size = sizeof(stats) };
	struct kv *kv;

	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	if (kv_put(kv, "a", 1, "1", 1, KV_SYNC) != -EINVAL || kv_sync(kv) != -EINVAL)
		die("something was synced without a log");
	want(kv, "a", NULL);
	put(kv, "ab", "1");
	if (kv_put(kv, "b", 1, "2", 1, 0))
		die("put: %s", kv_error());
	want(kv, "b", "2");
	kv_stats(kv, &stats);
	if (stats.log_bytes || stats.bands_log)
		die("a log was written");
	kv_close(kv);
	kv = opened(s, "again");
	want(kv, "a", "1");
	want(kv, "b", "1");
	kv_close(kv);
	sim_free(s);
}

/* The log becomes the table, in the same band; no other band is used. */
static void log_is_table(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	u32 held[BANDS], n = 0, log;
	struct kv_snapshot *snap;
	struct bands b;
	size_t bytes;
	void *value;

	if (kv->head.organisation != KV_BUFFERED)
		goto out;
	if (kv_put(kv, "m", 1, "old", 3, 0) || kv_put(kv, "z", 1, "", 0, KV_SYNC))
		die("put: %s", kv_error());
	snap = kv_snapshot_new(kv);
	log = bands_of(kv).band;
	while (n < ARRAY_SIZE(held) && !band_take(kv, RESERVE_NONE, &held[n], NULL))
		n++;
	if (kv_delete(kv, "z", 1, 0) || kv_put(kv, "a", 1, "1", 1, 0))
		die("put: %s", kv_error());
	put(kv, "m", "new");
	b = bands_of(kv);
	if (b.unsorted != 1 || b.logs || b.sorted || b.band != log)
		die("the log did not become a table");
	while (n)
		band_give_back(kv, held[--n]);
	want(kv, "m", "new");
	want(kv, "a", "1");
	want(kv, "z", NULL);
	if (kv_get(kv, snap, "m", 1, &value, &bytes) || bytes != 3 || memcmp(value, "old", 3))
		die("a snapshot does not see what was before");
	free(value);
	if (kv_get(kv, snap, "z", 1, &value, &bytes) || bytes)
		die("a snapshot does not see an empty value");
	free(value);
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	kv_snapshot_free(kv, snap);
	kv_close(kv);
	kv = opened(s, "again");
	if (bands_of(kv).unsorted != 1)
		die("it is none any more");
	want(kv, "m", "new");
	want(kv, "z", NULL);
	/*
	 * A log that is read back is written again as a sorted table, as its end after a power cut
	 * is unknown.
	 */
	if (kv_put(kv, "b", 1, "2", 1, 0) || kv_close(kv))
		die("put: %s", kv_error());
	kv = opened(s, "recovered");
	b = bands_of(kv);
	if (b.unsorted != 1 || b.sorted != 1 || b.logs)
		die("%u unsorted, %u sorted, %u logs", b.unsorted, b.sorted, b.logs);
	want(kv, "b", "2");
	/* A single unsorted table is not moved without a merge either. */
	if (kv_compact(kv) || bands_of(kv).unsorted || kv_check(kv, complain, NULL))
		die("compact: %s", kv_error());
	want(kv, "m", "new");
	put(kv, "p", "3");
	if (bands_of(kv).unsorted != 1 || kv_compact(kv) || bands_of(kv).unsorted)
		die("compact: %s", kv_error());
	want(kv, "p", "3");
out:
	kv_close(kv);
	sim_free(s);
}

/*
 * An unsorted table that overlaps nothing is merged, not moved: all tables below level 0 are
 * sorted.
 */
static void unsorted_alone(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct bands b;

	if (kv->head.organisation != KV_BUFFERED)
		goto out;
	put(kv, "ca", "1");
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	b = bands_of(kv);
	if (b.unsorted || b.sorted != 1)
		die("a table is moved as it is");
	put(kv, "d", "1");
	put(kv, "e", "1");
	put(kv, "f", "1");
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	b = bands_of(kv);
	if (b.unsorted > 2 || b.sorted < 2)
		die("nothing was merged");
	want(kv, "d", "1");
out:
	kv_close(kv);
	sim_free(s);
}

/* Three tables start a merge; two are enough if the store is idle. */
static void room_for_a_burst(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	bool did;

	if (kv->head.organisation != KV_BUFFERED)
		goto out;
	put(kv, "ac", "1");
	if (compact_step(kv, &did) || did || compact_idle(kv, &did) || did)
		die("one band of level 0 was merged");
	put(kv, "bd", "2");
	if (compact_step(kv, &did) || did)
		die("two bands of level 0 were merged at once");
	if (compact_idle(kv, &did) || !did || bands_of(kv).unsorted)
		die("two bands of level 0 are left");
	want(kv, "a", "1");
	want(kv, "d", "2");
out:
	kv_close(kv);
	sim_free(s);
}

static void repeat(u8 *data, const struct event *e)
{
	if (e->what == SIM_WRITE)
		memcpy(data + e->offset, e->data, e->bytes);
	else if (e->what == SIM_DISCARD)
		memset(data + e->offset, 0xdd, e->bytes);
}

/*
 * The program is killed in a commit, before the flush; the store is opened again; then the power is
 * cut.  The disk may have lost the commit and kept later writes to bands that the commit made free.
 */
static void killed_at_commit(void)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u8 *durable = malloc(sim_bytes(s));
	u32 i, first, commit, end;
	struct kv *kv;

	opt.flags |= KV_NO_LOG;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	put(kv, "ac", "1");
	put(kv, "bd", "2");
	memcpy(durable, s->data, sim_bytes(s));
	s->recording = true;
	if (kv_compact(kv))
		die("compact: %s", kv_error());
	kv_close(kv);
	for (i = 0; i < s->events && (s->event[i].what != SIM_WRITE ||
				      s->event[i].offset >= s->bands_offset); i++)
		repeat(durable, &s->event[i]);
	commit = i;
	memcpy(s->data, durable, sim_bytes(s));
	for (; i < s->events && s->event[i].what == SIM_WRITE; i++)
		repeat(s->data, &s->event[i]);
	if (i != commit + COPIES)
		die("a commit of %u writes", i - commit);
	free(s->pointer);
	s->pointer = NULL;
	first = s->events;
	kv = opened(s, "killed");
	if (kv_put(kv, "e", 1, "3", 1, KV_SYNC))
		die("put: %s", kv_error());
	end = s->events;
	kv_close(kv);
	s->recording = false;
	for (i = first; i < end && s->event[i].what != SIM_FLUSH; i++)
		repeat(durable, &s->event[i]);
	memcpy(s->data, durable, sim_bytes(s));
	kv = opened(s, "cut");
	want(kv, "a", "1");
	want(kv, "d", "2");
	kv_close(kv);
	free(durable);
	sim_free(s);
}

/* The band table has the length of a log when its memtable is frozen and not a table yet. */
static void frozen_log(void)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new"), *again;
	u64 last;

	if (kv->head.organisation != KV_BUFFERED || streams(kv))
		goto out;
	if (kv_put(kv, "a", 1, "1", 1, KV_SYNC) || kv_put(kv, "b", 1, "1", 1, KV_SYNC))
		die("put: %s", kv_error());
	last = band_offset(kv, kv->log.open.band.band) + kv->log.open.at - BLOCK_BYTES;
	if (freeze(kv) || kv_put(kv, "c", 1, "1", 1, KV_SYNC))
		die("put: %s", kv_error());
	memset(s->data + last, 0xcc, BLOCK_BYTES);
	if (sim_open(&again, s, &options) != -EUCLEAN)
		die("what was synced is lost, and nobody says so");
out:
	kv_close(kv);
	sim_free(s);
}


void vectors_of_logs(void)
{
	killed_at_commit();
	frozen_log();
	without_log();
	log_is_table();
	unsorted_alone();
	room_for_a_burst();
}
