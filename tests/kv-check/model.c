// SPDX-License-Identifier: GPL-2.0
/* The load, and the model of it. */
#include "model.h"

/* The value of this key is the number of batches that are there after a power cut. */
#define COUNTER	"~counter"

static u64 mix(u64 a, u64 b)
{
	u64 v = a * 0x9e3779b97f4a7c15ULL ^ (b + 0x7f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;

	v = (v ^ v >> 31) * 0x94d049bb133111ebULL;
	return v ^ v >> 29;
}

size_t key_of(u32 key, char *text)
{
	/* Some keys are prefixes of others, and some have bytes above 127. */
	size_t n = (size_t)sprintf(text, "%c%u", key % 7 ? 'k' : 0xe0, key * 7919 % 1000);

	if (key % 5 == 0) {
		memset(text + n, 'x', 40);
		n += 40;
	}
	return n;
}

#define MOST_BYTES	15000

static u32 value_bytes(const struct load *l, u32 batch, u32 key)
{
	u32 r = (u32)mix(l->seed + 1, ((u64)batch << 32) + key);

	return r % 16 ? r % (l->value_bytes / 4 + 1) : r / 16 % (l->value_bytes + 1);
}

static void value_of(const struct load *l, u32 batch, u32 key, u8 *to, u32 bytes)
{
	u32 i;

	for (i = 0; i < bytes; i++)
		to[i] = (u8)(mix(batch, key) >> (i % 8 * 8)) ^ (u8)(i / 8);
}

/* Get the key of an operation.  Return: true if it is a put. */
static bool op(const struct load *l, u32 batch, u32 i, u32 *key)
{
	u64 r = mix(l->seed + 3, (u64)batch * MAX_OPS + i);

	/* The keys move from place to place, so that some bands overlap and others do not. */
	*key = (u32)(r >> 8) % (batch / 50 % 3 ? KEYS : KEYS / 4);
	*key = (*key + batch / 50 * 31) % KEYS;
	return r % 100 < 65;
}

static u32 nr_ops(const struct load *l, u32 batch)
{
	u32 n = 1 + (u32)(mix(l->seed + 2, batch) % MAX_OPS), i, key, bytes = 0;

	for (i = 0; i < n; i++) {
		bytes += op(l, batch, i, &key) ? value_bytes(l, batch, key) : 0;
		/* A batch with its keys must not exceed a fourth of a band. */
		if (bytes > MOST_BYTES)
			return i;
	}
	return n;
}

static bool syncs(const struct load *l, u32 batch)
{
	return mix(l->seed + 4, batch) % 5 == 0;
}

void model_apply(struct model *m, const struct load *l, u32 batch)
{
	u32 i, key;
	bool put;

	for (i = 0; i < nr_ops(l, batch); i++) {
		put = op(l, batch, i, &key);
		m->by[key] = put ? batch : 0;
	}
}

int load_write(struct kv *kv, const struct load *l, u32 batch, bool *synced)
{
	struct kv_batch *b = kv_batch_new();
	u8 *value = malloc(l->value_bytes + 1);
	char text[64];
	u32 i, key, bytes;
	int err = b && value ? 0 : -ENOMEM;

	for (i = 0; !err && i < nr_ops(l, batch); i++) {
		if (op(l, batch, i, &key)) {
			bytes = value_bytes(l, batch, key);
			value_of(l, batch, key, value, bytes);
			err = kv_batch_put(b, text, key_of(key, text), value, bytes);
		} else {
			err = kv_batch_delete(b, text, key_of(key, text));
		}
	}
	if (!err)
		err = kv_batch_put(b, COUNTER, strlen(COUNTER), &batch, sizeof(batch));
	*synced = syncs(l, batch);
	if (!err)
		err = kv_write(kv, b, *synced ? KV_SYNC : 0);
	kv_batch_free(b);
	free(value);
	return err;
}

static void same(const struct load *l, u32 batch, u32 key, const void *value, size_t bytes,
		 const char *when)
{
	u32 want = value_bytes(l, batch, key);
	u8 *right = malloc(want + 1);

	value_of(l, batch, key, right, want);
	if (bytes != want || memcmp(value, right, want))
		die("%s: key %u has not the value of batch %u", when, key, batch);
	free(right);
}

struct named {
	char text[64];
	size_t bytes;
	u32 key;
};

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return slice_cmp(slice(x->text, x->bytes), slice(y->text, y->bytes));
}

static struct slice name_slice(const struct named *n)
{
	return slice(n->text, n->bytes);
}

/* Step over the counter. */
static int over_counter(struct kv_iter *it, int (*step)(struct kv_iter *it), int err)
{
	const void *at;
	size_t bytes;

	while (!err && (at = kv_iter_key(it, &bytes)) && bytes == strlen(COUNTER) &&
	       !memcmp(at, COUNTER, bytes))
		err = step(it);
	return err;
}

/* Verify that the iterator is at this key with the value of the model; or behind the end. */
static void is_at(struct kv_iter *it, const struct load *l, const struct model *m,
		  const struct named *name, int err, const char *when)
{
	const void *at;
	size_t bytes;

	if (!name) {
		if (err != -ENOENT)
			die("%s: %d behind the last key: %s", when, err, kv_error());
		return;
	}
	if (err)
		die("%s: before key %u: %d %s", when, name->key, err, kv_error());
	at = kv_iter_key(it, &bytes);
	if (slice_cmp(slice(at, bytes), name_slice(name)))
		die("%s: at %.*s, not at key %u", when, (int)bytes, (const char *)at, name->key);
	at = kv_iter_value(it, &bytes);
	same(l, m->by[name->key], name->key, at, bytes, when);
}

/* Walk back from a random key to the first, then in both directions. */
static void walk_back(struct kv_iter *it, const struct load *l, const struct model *m,
		      const struct named *all, const char *when)
{
	struct named there[KEYS];
	u32 i, n = 0, from = rnd(KEYS + 1), at;
	int err, here;
	bool back;

	for (i = 0; i < KEYS; i++) {
		if (m->by[all[i].key])
			there[n++] = all[i];
	}
	if (from == KEYS) {
		here = (int)n - 1;
		err = kv_iter_seek_last(it);
	} else {
		for (here = (int)n - 1; here >= 0 &&
		     slice_cmp(name_slice(&there[here]), name_slice(&all[from])) > 0; here--)
			;
		err = kv_iter_seek_for_prev(it, all[from].text, all[from].bytes);
	}
	err = over_counter(it, kv_iter_prev, err);
	for (; here >= 0; here--) {
		is_at(it, l, m, &there[here], err, when);
		err = over_counter(it, kv_iter_prev, kv_iter_prev(it));
	}
	is_at(it, l, m, NULL, err, when);
	if (!n)
		return;
	at = rnd(n);
	err = kv_iter_seek(it, there[at].text, there[at].bytes);
	for (i = 0; i < 20; i++) {
		is_at(it, l, m, &there[at], err, when);
		back = at + 1 == n || (at && rnd(2));
		if (back && !at)
			break;
		at += back ? -1U : 1U;
		err = over_counter(it, back ? kv_iter_prev : kv_iter_next,
				   back ? kv_iter_prev(it) : kv_iter_next(it));
	}
}

/**
 * model_walk() - verify what an iterator sees, from a random key on and back
 * @it: the iterator
 * @l: the load
 * @m: the expected contents
 * @when: text for messages
 */
void model_walk(struct kv_iter *it, const struct load *l, const struct model *m,
		const char *when)
{
	struct named name[KEYS];
	const void *at;
	size_t bytes;
	u32 i, from = rnd(KEYS);
	int err;

	for (i = 0; i < KEYS; i++) {
		name[i].key = i;
		name[i].bytes = key_of(i, name[i].text);
	}
	qsort(name, KEYS, sizeof(*name), by_name);
	err = kv_iter_seek(it, name[from].text, name[from].bytes);
	for (i = from; i < KEYS; i++) {
		if (!m->by[name[i].key])
			continue;
		while (!err && (at = kv_iter_key(it, &bytes)) &&
		       bytes == strlen(COUNTER) && !memcmp(at, COUNTER, bytes))
			err = kv_iter_next(it);
		if (err)
			die("%s: scan before key %u: %d %s", when, name[i].key, err, kv_error());
		at = kv_iter_key(it, &bytes);
		if (slice_cmp(slice(at, bytes), slice(name[i].text, name[i].bytes)))
			die("%s: scan is at %.*s, not at key %u", when, (int)bytes,
			    (const char *)at, name[i].key);
		at = kv_iter_value(it, &bytes);
		same(l, m->by[name[i].key], name[i].key, at, bytes, when);
		err = kv_iter_next(it);
	}
	while (!err && (at = kv_iter_key(it, &bytes)) && bytes == strlen(COUNTER) &&
	       !memcmp(at, COUNTER, bytes))
		err = kv_iter_next(it);
	if (err != -ENOENT)
		die("%s: scan goes on behind the last key: %d", when, err);
	walk_back(it, l, m, name, when);
}

/**
 * model_check() - verify that the store has the expected contents and nothing else
 * @kv: the store
 * @l: the load
 * @m: the expected contents
 * @snap: snapshot to look at, or NULL
 * @when: text for messages
 */
void model_check(struct kv *kv, const struct load *l, const struct model *m,
		 const struct kv_snapshot *snap, const char *when)
{
	struct kv_iter *it;
	size_t bytes, n;
	char text[64];
	void *value;
	u32 i;
	int err;

	for (i = 0; i < KEYS; i++) {
		n = key_of(i, text);
		err = kv_get(kv, snap, text, n, &value, &bytes);
		if (err && err != -ENOENT)
			die("%s: get of key %u: %d %s", when, i, err, kv_error());
		if (!err != !!m->by[i])
			die("%s: key %u is%s there, batch %u", when, i, err ? " not" : "",
			    m->by[i]);
		if (err)
			continue;
		same(l, m->by[i], i, value, bytes, when);
		free(value);
	}
	if (kv_iter_new(kv, snap, &it))
		die("%s: no iterator: %s", when, kv_error());
	model_walk(it, l, m, when);
	kv_iter_free(it);
}

/**
 * model_delete_range() - apply kv_delete_range() to a model
 * @m: the model
 * @from: first key of the range
 * @from_bytes: length of @from
 * @to: the range ends before this key
 * @to_bytes: length of @to; 0: the range has no end
 */
void model_delete_range(struct model *m, const char *from, size_t from_bytes, const char *to,
			size_t to_bytes)
{
	char text[64];
	struct slice key;
	u32 i;

	for (i = 0; i < KEYS; i++) {
		key = slice(text, key_of(i, text));
		if (slice_cmp(key, slice(from, from_bytes)) >= 0 &&
		    (!to_bytes || slice_cmp(key, slice(to, to_bytes)) < 0))
			m->by[i] = 0;
	}
}

/* Return: the number of batches in the store. */
u32 model_batches(struct kv *kv, const char *when)
{
	size_t bytes;
	void *value;
	u32 n = 0;
	int err = kv_get(kv, NULL, COUNTER, strlen(COUNTER), &value, &bytes);

	if (err == -ENOENT)
		return 0;
	if (err || bytes != sizeof(n))
		die("%s: the counter: %d %s", when, err, kv_error());
	memcpy(&n, value, sizeof(n));
	free(value);
	return n;
}
