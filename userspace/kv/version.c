// SPDX-License-Identifier: GPL-2.0
/* Which tables there are, and which of them may have a key. */
#include "cache.h"
#include "store.h"

/**
 * part_new() - a table with a place
 * @t: the table; the part has a share in it from now on
 * @level: see struct part, as the others
 * @age: see there
 * @min: copied
 * @max: copied
 *
 * Returns the part, whose only share is the caller's; or NULL, without memory.
 */
struct part *part_new(struct table *t, u32 level, u64 age, struct slice min, struct slice max)
{
	struct part *p = malloc(sizeof(*p) + min.bytes + max.bytes);

	if (!p)
		return NULL;
	/* Before the keys: they begin in what is padding otherwise. */
	*p = (struct part){ .refs = 1, .table = t, .level = level, .age = age,
			    .min = slice(p->keys, min.bytes),
			    .max = slice(p->keys + min.bytes, max.bytes) };
	memcpy(p->keys, min.data, min.bytes);
	memcpy(p->keys + min.bytes, max.data, max.bytes);
	__atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
	return p;
}

void part_put(struct kv *kv, struct part *p)
{
	struct table *t;

	if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL))
		return;
	t = p->table;
	free(p);
	pthread_mutex_lock(&kv->lock);
	if (__atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) {
		t = NULL;
	} else if (t->dead) {
		band_retire(kv, t->band);
	}
	pthread_mutex_unlock(&kv->lock);
	if (t && t->dead)
		cache_forget(kv->cache, t->id);
	free(t);
}

static int by_place(const void *a, const void *b)
{
	const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;
	int c = (x->level > y->level) - (x->level < y->level);

	if (!c)
		c = slice_cmp(x->min, y->min);
	return c ?: (x->age > y->age) - (x->age < y->age);
}

static bool fill_level(struct level *l, struct part **part, u32 nr)
{
	u32 i;

	l->part = calloc(nr ?: 1, sizeof(*l->part));
	l->reach = calloc(nr ?: 1, sizeof(*l->reach));
	if (!l->part || !l->reach)
		return false;
	for (i = 0; i < nr; i++) {
		l->part[i] = part[i];
		l->bytes += part[i]->table->bytes;
		l->reach[i] = i && slice_cmp(part[l->reach[i - 1]]->max, part[i]->max) > 0 ?
			l->reach[i - 1] : i;
	}
	l->nr = nr;
	return true;
}

/**
 * version_new() - these parts
 * @part: in any order, which changes; the version has a share in each from now on
 * @nr: how many
 *
 * Returns the version, whose only share is the caller's; or NULL, without memory.
 */
struct version *version_new(struct part **part, u32 nr)
{
	struct version *v = calloc(1, sizeof(*v));
	u32 level, i, n;
	bool ok = v;

	if (nr)
		qsort(part, nr, sizeof(*part), by_place);
	for (level = 0, i = 0; level < KV_LEVELS && ok; level++, i += n) {
		for (n = 0; i + n < nr && part[i + n]->level == level; n++)
			;
		ok = fill_level(&v->level[level], part + i, n);
	}
	if (!ok) {
		for (level = 0; level < KV_LEVELS && v; level++) {
			free(v->level[level].part);
			free(v->level[level].reach);
		}
		free(v);
		return NULL;
	}
	for (i = 0; i < nr; i++) {
		__atomic_fetch_add(&part[i]->refs, 1, __ATOMIC_RELAXED);
		v->most_bytes += BANDS_ENTRY_MAX - KV_KEY_MAX + part[i]->max.bytes;
	}
	v->refs = 1;
	v->nr = nr;
	return v;
}

/* A share in the current one. */
struct version *version_get(struct kv *kv)
{
	struct version *v;

	pthread_mutex_lock(&kv->lock);
	v = kv->version;
	__atomic_fetch_add(&v->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&kv->lock);
	return v;
}

void version_put(struct kv *kv, struct version *v)
{
	u32 level, i;

	if (!v || __atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (level = 0; level < KV_LEVELS; level++) {
		for (i = 0; i < v->level[level].nr; i++)
			part_put(kv, v->level[level].part[i]);
		free(v->level[level].part);
		free(v->level[level].reach);
	}
	free(v);
}

/* How many parts of a level begin at a key or before it. */
static u32 begun(const struct level *l, struct slice key)
{
	u32 low = 0, high = l->nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (slice_cmp(l->part[middle]->min, key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/**
 * version_overlaps() - parts of a level that may have keys of a range
 * @v: the version
 * @level: see there
 * @min: of the range
 * @max: of the range
 * @out: room for all of the level; or NULL, if they are only counted
 *
 * Returns how many; the last by key comes first.
 */
u32 version_overlaps(const struct version *v, u32 level, struct slice min, struct slice max,
		     struct part **out)
{
	const struct level *l = &v->level[level];
	u32 i = begun(l, max), n = 0;

	while (i-- && slice_cmp(l->part[l->reach[i]]->max, min) >= 0) {
		if (slice_cmp(l->part[i]->max, min) < 0)
			continue;
		if (out)
			out[n] = l->part[i];
		n++;
	}
	return n;
}

/**
 * version_older() - the next place to look a key up in
 * @v: the version
 * @level: see there
 * @key: looked for
 * @age: of the part that did not have it; U64_MAX before the first
 *
 * Returns the newest older part whose range has the key; NULL if there is none.
 */
struct part *version_older(const struct version *v, u32 level, struct slice key, u64 age)
{
	const struct level *l = &v->level[level];
	struct part *p, *best = NULL;
	u32 i = begun(l, key);

	while (i-- && slice_cmp(l->part[l->reach[i]]->max, key) >= 0) {
		p = l->part[i];
		if (p->age < age && (!best || p->age > best->age) &&
		    slice_cmp(p->max, key) >= 0)
			best = p;
	}
	return best;
}
