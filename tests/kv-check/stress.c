// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once: keys and values of every length, held snapshots and iterators, occasional
 * read errors and failed allocations, and hardly any room.
 */
#include "model.h"

#define NAMES		140U
#define HELD		4U
#define LONGEST_NAME	KV_KEY_MAX
#define VALUE_MAX	(BAND / 8)
#define MOST_OPS	4U
/* A batch may have at most a fourth of a band. */
#define BATCH_MAX	(BAND / 4)

/**
 * struct seen - the contents at some moment
 * @of: for each key, the number of the write that set its value; 0 if it has none
 * @snap: snapshot of that moment, or NULL
 * @it: iterator of that moment, or NULL
 */
struct seen {
	u32 of[NAMES];
	struct kv_snapshot *snap;
	struct kv_iter *it;
};

/**
 * struct stress - a run of the test
 * @s: the disk
 * @kv: the store
 * @opt: options of the store
 * @now: current contents
 * @held: contents of earlier moments that must still be visible
 * @names: the keys in order
 * @writes: number of the last write
 * @failing: reads and allocations may fail
 * @full: number of writes that found no room
 * @unread: number of read errors
 * @starved: number of failed allocations
 */
struct stress {
	struct sim *s;
	struct kv *kv;
	struct kv_options opt;
	struct seen now, held[HELD];
	u32 names[NAMES], writes;
	bool failing;
	u32 full, unread, starved;
};

/* Keys of one byte, of the largest length, and keys that are prefixes of others. */
static struct slice name_of(u32 i)
{
	static __thread u8 text[LONGEST_NAME];
	u32 bytes = i % 8 == 0 ? 1 : i % 8 == 1 ? LONGEST_NAME : 2 + i % 37;

	memset(text, 0, sizeof(text));
	text[0] = (u8)(i * 37);
	if (bytes > 1) {
		text[bytes - 1] = (u8)(i >> 8 | 1);
		text[1] = (u8)i;
	}
	return slice(text, bytes);
}

static u32 value_bytes(u32 write)
{
	u32 r = write * 2654435761U >> 8;

	return r % 8 == 0 ? 0 : r % 16 == 1 ? VALUE_MAX : r / 16 % 1500;
}

static void fill(u8 *value, u32 write, u32 bytes)
{
	u32 i;

	for (i = 0; i < bytes; i++)
		value[i] = (u8)(write >> i % 4 * 8) ^ (u8)i;
}

static void same(const struct seen *was, u32 i, const void *value, size_t bytes, const char *when)
{
	static u8 right[VALUE_MAX];
	u32 write = was->of[i];

	fill(right, write, value_bytes(write));
	if (bytes != value_bytes(write) || memcmp(value, right, bytes))
		die("%s: key %u has not the value of write %u", when, i, write);
}

/* The disk is not damaged, so only these errors are allowed. */
static bool tolerable(struct stress *st, int err)
{
	if (err == -ENOSPC)
		st->full++;
	else if (err == -EIO)
		st->unread++;
	else if (err == -ENOMEM)
		st->starved++;
	return err == -ENOSPC || (st->failing && (err == -EIO || err == -ENOMEM));
}

static void set_failures(struct stress *st, bool on)
{
	st->failing = on;
	st->s->bad_luck = on ? 25 : 0;
	starve(on && !rnd(3) ? 1 + rnd(40) : 0);
}

static void let_go(struct stress *st, struct seen *seen)
{
	kv_iter_free(seen->it);
	kv_snapshot_free(st->kv, seen->snap);
	seen->it = NULL;
	seen->snap = NULL;
}

static void get_one(struct stress *st, const struct seen *was, const char *when)
{
	u32 i = rnd(NAMES);
	struct slice name = name_of(i);
	size_t bytes;
	void *value;
	int err = kv_get(st->kv, was->snap, name.data, name.bytes, &value, &bytes);

	if (err && err != -ENOENT) {
		if (err == -ENOSPC || !tolerable(st, err))
			die("%s: get: %d %s", when, err, kv_error());
		return;
	}
	if (!err != !!was->of[i])
		die("%s: key %u is%s there, write %u", when, i, err ? " not" : "", was->of[i]);
	if (err)
		return;
	same(was, i, value, bytes, when);
	free(value);
}

/* Walk over some keys, beginning at a random one. */
static void walk(struct stress *st, const struct seen *was, const char *when)
{
	u32 at = rnd(NAMES), steps = rnd(NAMES);
	struct slice name = name_of(st->names[at]);
	const void *data;
	size_t bytes;
	int err = kv_iter_seek(was->it, name.data, name.bytes);

	for (; at < NAMES && steps--; at++) {
		if (!was->of[st->names[at]])
			continue;
		if (err && err != -ENOENT) {
			if (err == -ENOSPC || !tolerable(st, err))
				die("%s: scan: %d %s", when, err, kv_error());
			return;
		}
		name = name_of(st->names[at]);
		data = kv_iter_key(was->it, &bytes);
		if (err || slice_cmp(slice(data, bytes), name))
			die("%s: scan is not at key %u", when, st->names[at]);
		data = kv_iter_value(was->it, &bytes);
		same(was, st->names[at], data, bytes, when);
		err = kv_iter_next(was->it);
	}
	if (at == NAMES && !err)
		die("%s: scan goes on behind the last key", when);
}

/* Write a batch.  Return: true if it was written. */
static bool write_some(struct stress *st)
{
	static u8 value[VALUE_MAX];
	u32 n = 1 + rnd(MOST_OPS), k, i, bytes, sum = 0, of[MOST_OPS], key[MOST_OPS];
	struct kv_batch *b = kv_batch_new();
	struct slice name;
	int err = b ? 0 : -ENOMEM;

	for (k = 0; k < n && !err; k++) {
		i = rnd(NAMES);
		name = name_of(i);
		key[k] = i;
		of[k] = rnd(4) ? st->writes + k + 1 : 0;
		bytes = of[k] ? value_bytes(of[k]) : 0;
		sum += 14 + name.bytes + bytes;
		if (sum > BATCH_MAX)
			break;
		fill(value, of[k], bytes);
		err = of[k] ? kv_batch_put(b, name.data, name.bytes, value, bytes) :
			      kv_batch_delete(b, name.data, name.bytes);
	}
	n = k;
	err = err ?: kv_write(st->kv, b, rnd(4) ? 0 : KV_SYNC);
	kv_batch_free(b);
	if (err && !tolerable(st, err))
		die("write %u: %d %s", st->writes, err, kv_error());
	for (k = 0; k < n && !err; k++)
		st->now.of[key[k]] = of[k];
	st->writes += n;
	return !err;
}

static void print_finding(void *ctx, const char *text)
{
	fprintf(stderr, "%s\n", text);
}

static void checked(struct stress *st)
{
	bool was = st->failing;

	set_failures(st, false);
	if (kv_check(st->kv, print_finding, NULL))
		die("check: %s", kv_error());
	set_failures(st, was);
}

/* Release everything and let nothing fail: writes must succeed. */
static void stop_failures(struct stress *st)
{
	u32 i;

	set_failures(st, false);
	for (i = 0; i < HELD; i++)
		let_go(st, &st->held[i]);
	for (i = 0; i < 20; i++) {
		if (!write_some(st))
			die("write %u: %s", st->writes, kv_error());
	}
}

static void reopen(struct stress *st)
{
	u32 i;
	int err;

	for (i = 0; i < HELD; i++)
		let_go(st, &st->held[i]);
	starve(0);
	err = kv_close(st->kv);
	if (err)
		die("close: %d %s", err, kv_error());
	set_failures(st, st->failing);
	err = sim_open(&st->kv, st->s, &st->opt);
	/* A part of a log that cannot be read may have been synced. */
	if (err && !(st->failing && err == -EUCLEAN) && !tolerable(st, err))
		die("open: %d %s", err, kv_error());
	if (!err)
		return;
	set_failures(st, false);
	if (sim_open(&st->kv, st->s, &st->opt))
		die("open again: %s", kv_error());
}

static void hold(struct stress *st, struct seen *seen)
{
	bool it = rnd(2);
	int err;

	if (seen->it || seen->snap) {
		let_go(st, seen);
		return;
	}
	memcpy(seen->of, st->now.of, sizeof(seen->of));
	err = it ? kv_iter_new(st->kv, NULL, &seen->it) : 0;
	if (!it)
		seen->snap = kv_snapshot_new(st->kv);
	if (err && !tolerable(st, err))
		die("no iterator: %s", kv_error());
	if (err)
		seen->it = NULL;
}

static void look(struct stress *st, struct seen *seen)
{
	if (seen->it)
		walk(st, seen, "an old iterator");
	else if (seen->snap)
		get_one(st, seen, "a snapshot");
	else
		get_one(st, &st->now, "now");
}

static void tidy(struct stress *st)
{
	u32 how = rnd(3);
	int err = how == 0 ? kv_flush(st->kv) : how == 1 ? kv_settle(st->kv) :
		kv_compact(st->kv);

	if (err && !tolerable(st, err))
		die("tidy: %d %s", err, kv_error());
}

static int by_name(const void *a, const void *b)
{
	static u8 text[LONGEST_NAME];
	struct slice x = name_of(*(const u32 *)a), y;

	memcpy(text, x.data, x.bytes);
	x.data = text;
	y = name_of(*(const u32 *)b);
	return slice_cmp(x, y);
}

static void name_all(struct stress *st)
{
	u32 i;

	for (i = 0; i < NAMES; i++)
		st->names[i] = i;
	qsort(st->names, NAMES, sizeof(*st->names), by_name);
	for (i = 1; i < NAMES; i++) {
		if (!by_name(&st->names[i - 1], &st->names[i]))
			die("two keys have one name");
	}
}

void test_stress(u64 seed, u32 count)
{
	static struct stress st;
	u32 n, r;

	rng = seed;
	st.s = formatted(SMALL_BYTES);
	st.opt = options;
	/* From seed 100 on the store has its background thread. */
	if (seed >= 100)
		st.opt.flags &= ~(u32)KV_NO_THREAD;
	st.opt.slowdown_us = 1;
	name_all(&st);
	if (sim_open(&st.kv, st.s, &st.opt))
		die("open: %s", kv_error());
	for (n = 0; n < count; n++) {
		offload_some(st.kv, n);
		if (n % 50 == 0)
			set_failures(&st, !rnd(2));
		r = rnd(100);
		if (r < 60) {
			if (!write_some(&st) && !rnd(4))
				stop_failures(&st);
		} else if (r < 90) {
			look(&st, &st.held[rnd(HELD)]);
		} else if (r < 94) {
			hold(&st, &st.held[rnd(HELD)]);
		} else if (r < 97) {
			tidy(&st);
		} else if (!rnd(4)) {
			reopen(&st);
		} else if (!rnd(4)) {
			checked(&st);
		}
	}
	stop_failures(&st);
	checked(&st);
	if (kv_compact(st.kv))
		die("compact: %s", kv_error());
	checked(&st);
	if (kv_close(st.kv))
		die("close: %s", kv_error());
	printf("%u writes; no room %u times, unreadable %u, no memory %u\n", st.writes, st.full,
	       st.unread, st.starved);
	if (!st.full || !st.unread || !st.starved)
		die("the run met no full device, no read error or no failed allocation");
	sim_free(st.s);
}
