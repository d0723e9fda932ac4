// SPDX-License-Identifier: GPL-2.0
/* Ranges of keys: deletion with power cuts, compaction, and estimates. */
#include "model.h"

#define VALUE	60U
#define NAME	256U

/* Long keys, so that few of them fill a batch. */
static size_t name(u32 i, char *text)
{
	return (size_t)sprintf(text, "key %06u%0200u", i, 0U);
}

static void fill(struct kv *kv, u32 nr)
{
	char key[NAME], value[VALUE];
	u32 i;

	for (i = 0; i < nr; i++) {
		memset(value, (int)('a' + i % 26), sizeof(value));
		if (kv_put(kv, key, name(i, key), value, sizeof(value), 0))
			die("put %u: %s", i, kv_error());
	}
	if (kv_sync(kv))
		die("sync: %s", kv_error());
}

static bool has(struct kv *kv, const struct kv_snapshot *snap, u32 i)
{
	char key[NAME], value[VALUE], small[VALUE - 1];
	size_t bytes, n = name(i, key);
	int err = kv_get_into(kv, snap, key, n, value, sizeof(value), &bytes);

	if (err && (err != -ENOENT || bytes))
		die("key %u: %d, %zu bytes: %s", i, err, bytes, kv_error());
	if (!err && (bytes != VALUE || value[0] != (char)('a' + i % 26) ||
		     value[VALUE - 1] != value[0]))
		die("key %u has another value", i);
	/* A value that does not fit is not truncated, and its length is returned. */
	if (!err && (kv_get_into(kv, snap, key, n, small, sizeof(small), &bytes) != -ENOBUFS ||
		     bytes != VALUE))
		die("key %u is put where it has no room: %zu bytes", i, bytes);
	return !err;
}

/*
 * Verify that all missing keys are the first of @from to @to.  Return: the number of missing keys.
 */
static u32 gone(struct kv *kv, u32 nr, u32 from, u32 to, const char *when)
{
	u32 i, n = 0;

	for (i = 0; i < nr; i++) {
		if (has(kv, NULL, i))
			continue;
		if (i < from || i >= to || i != from + n)
			die("%s: key %u is gone", when, i);
		n++;
	}
	return n;
}

static void cut_deletion(u64 seed, u32 nr)
{
	struct sim *s = formatted(BYTES), *t = sim_new(BYTES);
	u64 size = sim_bytes(s);
	u8 *durable = malloc(size);
	struct kv *kv = opened(s, "new");
	u32 i, state, first = 0, from = nr / 10, to = nr - nr / 10, n, part = 0;
	char a[NAME], b[NAME], when[60];

	if (s->spare.bytes)
		sim_add_spare(t, s->spare.bytes);
	fill(kv, nr);
	memcpy(durable, s->data, size);
	s->recording = true;
	if (kv_delete_range(kv, a, name(from, a), b, name(to, b), KV_SYNC))
		die("delete a range: %s", kv_error());
	s->recording = false;
	n = gone(kv, nr, from, to, "deleted");
	if (n != to - from)
		die("%u of %u keys were deleted", n, to - from);
	kv_close(kv);
	for (i = 0; i <= s->events; i++) {
		for (state = 0; state < LOSE_DISK; state++) {
			memcpy(t->data, durable, size);
			crash(t->data, s->event, first, i, state);
			snprintf(when, sizeof(when), "cut before event %u of %u, state %u", i,
				 s->events, state);
			kv = opened(t, when);
			n = gone(kv, nr, from, to, when);
			part += n && n < to - from;
			/* The deletion may be repeated. */
			if (kv_delete_range(kv, a, name(from, a), b, name(to, b), 0) ||
			    gone(kv, nr, from, to, when) != to - from)
				die("%s: again: %s", when, kv_error());
			check_clean(kv, when);
			kv_close(kv);
		}
		if (i < s->events && s->event[i].what == SIM_FLUSH)
			flushed(durable, s->event, &first, i);
	}
	if (n != to - from || !part)
		die("behind all, %u of %u were deleted; %u cuts came between", n, to - from, part);
	printf("%u events of a range that was deleted, %u states in its midst\n", s->events, part);
	free(durable);
	sim_free(s);
	sim_free(t);
}

struct overlaps {
	char from[NAME], to[NAME];
	u32 bands[KV_LEVELS], tombstones;
};

/* Count the tables that begin and end within the range. */
static int count_in(void *ctx, const struct kv_band *b)
{
	struct overlaps *o = ctx;

	if (b->level < 0 || slice_cmp(slice(b->min_key, b->min_bytes),
				      slice(o->from, strlen(o->from))) < 0 ||
	    slice_cmp(slice(b->max_key, b->max_bytes), slice(o->to, strlen(o->to))) >= 0)
		return 0;
	o->bands[b->level]++;
	o->tombstones += (u32)b->tombstones;
	return 0;
}

static void compact_some(u32 nr)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	struct overlaps in = { .tombstones = 0 }, out;
	struct kv *kv;
	struct kv_stats before = { .size = sizeof(before) }, after = before;
	uint64_t all, half, most, none, bytes = 0;
	u32 i, round;
	char key[NAME];

	/* Nothing is merged before it is requested. */
	opt.l0_trigger = 1000;
	opt.l0_slowdown = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	/* The lower half, then the upper half, twice each: bands overlap within a half. */
	for (round = 0; round < 4; round++) {
		for (i = 0; i < nr / 2; i++) {
			u32 k = i + (round % 2 ? nr / 2 : 0);

			if (round < 2 || k % 3 ?
			    kv_put(kv, key, name(k, key), "0123456789", 10, 0) :
			    kv_delete(kv, key, name(k, key), 0))
				die("put %u: %s", k, kv_error());
		}
		if (kv_flush(kv))
			die("flush: %s", kv_error());
	}
	name(0, in.from);
	name(nr / 2, in.to);
	out = in;
	kv_bands(kv, count_in, &in);
	if (!in.tombstones)
		die("there is nothing to drop");
	kv_stats(kv, &before);
	if (kv_approximate_size(kv, NULL, 0, NULL, 0, &all) ||
	    kv_approximate_size(kv, in.from, strlen(in.from), in.to, strlen(in.to), &half) ||
	    kv_approximate_size(kv, key, name(3, key), NULL, 0, &most) ||
	    kv_approximate_size(kv, "l", 1, "m", 1, &none))
		die("sizes: %s", kv_error());
	for (i = 0; i < KV_LEVELS; i++)
		bytes += before.level_bytes[i];
	if (all != bytes || none)
		die("all has %lu bytes and not %lu, and what is not there %lu", all, bytes, none);
	if (half < all * 2 / 5 || half > all * 3 / 5 || most > all || most < all * 3 / 4)
		die("of %lu bytes the half has %lu, all but three keys %lu", all, half, most);
	if (kv_compact_range(kv, in.from, strlen(in.from), in.to, strlen(in.to)))
		die("compact: %s", kv_error());
	kv_stats(kv, &after);
	memset(in.bands, 0, sizeof(in.bands));
	in.tombstones = 0;
	kv_bands(kv, count_in, &in);
	name(nr / 2, out.from);
	name(nr, out.to);
	kv_bands(kv, count_in, &out);
	/*
	 * If there is no room to merge all of level 0, its oldest bands are merged first, in any
	 * range.
	 */
	if (in.tombstones || (!out.tombstones && kv->head.organisation != KV_BUFFERED))
		die("%u deletions are left in the range, %u outside", in.tombstones,
		    out.tombstones);
	if (after.compactions == before.compactions)
		die("nothing was merged");
	for (i = 0; i < nr; i++) {
		size_t bytes;
		char value[16];
		int err = kv_get_into(kv, NULL, key, name(i, key), value, sizeof(value), &bytes);

		if (err != (i % 3 ? 0 : -ENOENT))
			die("key %u: %d", i, err);
	}
	check_clean(kv, "compacted a range");
	printf("a range was compacted: %lu of %lu bytes\n", half, all);
	kv_close(kv);
	sim_free(s);
}

/* Iterators and snapshots from before a deletion still see all keys. */
static void delete_beside_readers(u32 nr)
{
	struct sim *s = formatted(BYTES);
	struct kv *kv = opened(s, "new");
	struct kv_snapshot *snap;
	struct kv_iter *it;
	u32 i, n;
	int err;

	fill(kv, nr);
	snap = kv_snapshot_new(kv);
	if (!snap || kv_iter_new(kv, NULL, &it))
		die("readers: %s", kv_error());
	if (kv_delete_range(kv, NULL, 0, NULL, 0, 0) || kv_flush(kv))
		die("delete all: %s", kv_error());
	for (err = kv_iter_seek_last(it), n = 0; !err; err = kv_iter_prev(it), n++)
		;
	if (n != nr)
		die("an iterator from before sees %u of %u keys", n, nr);
	for (i = 0; i < nr; i++) {
		if (!has(kv, snap, i) || has(kv, NULL, i))
			die("key %u is gone from a snapshot, or still there", i);
	}
	kv_iter_free(it);
	kv_snapshot_free(kv, snap);
	if (kv_compact(kv) || kv_iter_new(kv, NULL, &it))
		die("compact: %s", kv_error());
	if (kv_iter_seek(it, "", 0) != -ENOENT || kv_iter_seek_last(it) != -ENOENT)
		die("something is left");
	kv_iter_free(it);
	/*
	 * A range that ends before it begins is empty; one with a key that is too long is refused.
	 */
	if (kv_delete_range(kv, "b", 1, "a", 1, KV_SYNC) ||
	    kv_delete_range(kv, "b", KV_KEY_MAX + 1, "c", 1, 0) != -EINVAL ||
	    kv_delete_range(kv, "b", 1, "c", 1, 64) != -EINVAL)
		die("odd ranges: %s", kv_error());
	kv_close(kv);
	sim_free(s);
}

void test_ranges(u64 seed, u32 count)
{
	rng = seed;
	cut_deletion(seed, count);
	compact_some(count);
	delete_beside_readers(count);
}
