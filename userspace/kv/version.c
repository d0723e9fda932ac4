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

/* How many parts of a level begin at a key or before it. */
u32 level_begun(const struct level *l, struct slice key)
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

/* How many parts of a level begin before a key. */
u32 level_before(const struct level *l, struct slice key)
{
	u32 low = 0, high = l->nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (slice_cmp(l->part[middle]->min, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Of the parts in a range of a level: the one with the largest key, or the newest one. */
static u32 best_of(const struct level *l, u32 *tree, bool newest, u32 low, u32 high)
{
	u32 middle = low + (high - low) / 2, best = middle, side[2], sides = 0, i;

	if (low < middle)
		side[sides++] = best_of(l, tree, newest, low, middle);
	if (middle + 1 < high)
		side[sides++] = best_of(l, tree, newest, middle + 1, high);
	for (i = 0; i < sides; i++) {
		if (newest ? l->part[side[i]]->age > l->part[best]->age :
			     slice_cmp(l->part[side[i]]->max, l->part[best]->max) > 0)
			best = side[i];
	}
	tree[middle] = best;
	return best;
}

static bool fill_level(struct level *l, struct part **part, const u32 *cover, u32 nr)
{
	u32 i;

	l->part = calloc(nr ?: 1, sizeof(*l->part));
	l->reach = calloc(nr ?: 1, sizeof(*l->reach));
	l->newest = calloc(nr ?: 1, sizeof(*l->newest));
	l->cover = calloc(nr ?: 1, sizeof(*l->cover));
	l->before = calloc(nr + 1, sizeof(*l->before));
	if (!l->part || !l->reach || !l->newest || !l->cover || !l->before)
		return false;
	for (i = 0; i < nr; i++) {
		l->part[i] = part[i];
		l->cover[i] = cover ? cover[i] : 0;
		l->before[i + 1] = l->before[i] + part[i]->table->bytes;
	}
	l->nr = nr;
	l->bytes = l->before[nr];
	if (nr) {
		best_of(l, l->reach, false, 0, nr);
		best_of(l, l->newest, true, 0, nr);
	}
	return true;
}

static void free_levels(struct version *v)
{
	u32 level;

	for (level = 0; level < KV_LEVELS; level++) {
		free(v->level[level].part);
		free(v->level[level].reach);
		free(v->level[level].newest);
		free(v->level[level].cover);
		free(v->level[level].before);
	}
	free(v);
}

/* @part by place; @cover as struct level has it, 0 where it is not known; or NULL */
static struct version *version_sorted(struct part **part, const u32 *cover, u32 nr)
{
	struct version *v = calloc(1, sizeof(*v));
	u32 level, i, n;
	bool ok = v;

	for (level = 0, i = 0; level < KV_LEVELS && ok; level++, i += n) {
		for (n = 0; i + n < nr && part[i + n]->level == level; n++)
			;
		ok = fill_level(&v->level[level], part + i, cover ? cover + i : NULL, n);
	}
	if (!ok) {
		if (v)
			free_levels(v);
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

/* Count what is not known, and find the most. */
static void cover_all(struct version *v)
{
	struct level *l;
	u32 level, i;

	for (level = 0; level < KV_LEVELS; level++) {
		l = &v->level[level];
		for (i = 0; i < l->nr; i++) {
			if (!l->cover[i])
				l->cover[i] = version_overlaps(v, level, l->part[i]->min,
							       l->part[i]->min, NULL, U32_MAX);
			if (l->cover[i] > l->cover[l->deepest])
				l->deepest = i;
		}
	}
}

/* A part has come to a level or left it: the others that begin in its range know. */
static void cover_change(struct version *v, const struct part *p, u32 by)
{
	struct level *l = &v->level[p->level];
	u32 i, end = level_begun(l, p->max);

	for (i = level_before(l, p->min); i < end; i++) {
		if (l->cover[i])
			l->cover[i] += by;
	}
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
	struct version *v;

	if (nr)
		qsort(part, nr, sizeof(*part), by_place);
	v = version_sorted(part, NULL, nr);
	if (v)
		cover_all(v);
	return v;
}

/**
 * version_changed() - a version with other parts
 * @old: the version; by @committing
 * @remove: parts of it that go
 * @removes: how many
 * @add: parts that come
 * @adds: how many
 *
 * Nothing is sorted but @add, and no overlap is counted again but that of @add: a commit costs
 * at most two comparisons for each part and some for each change.
 *
 * Returns the version, of which the caller has a share; or NULL, without memory.
 */
struct version *version_changed(struct version *old, struct part **remove, u32 removes,
				struct part **add, u32 adds)
{
	struct part **part, **come;
	struct version *v = NULL;
	u32 level, i, n = 0, c = 0;
	u32 *cover;

	if (!removes && !adds) {
		__atomic_fetch_add(&old->refs, 1, __ATOMIC_RELAXED);
		return old;
	}
	part = malloc((old->nr + adds + 1) * sizeof(*part));
	come = malloc((adds + 1) * sizeof(*come));
	cover = calloc(old->nr + adds + 1, sizeof(*cover));
	if (!part || !come || !cover)
		goto out;
	if (adds) {
		memcpy(come, add, adds * sizeof(*come));
		qsort(come, adds, sizeof(*come), by_place);
	}
	for (i = 0; i < removes; i++)
		remove[i]->going = true;
	for (level = 0; level < KV_LEVELS; level++) {
		const struct level *l = &old->level[level];

		for (i = 0; i < l->nr; i++) {
			if (l->part[i]->going)
				continue;
			while (c < adds && by_place(&come[c], &l->part[i]) < 0)
				part[n++] = come[c++];
			cover[n] = l->cover[i];
			part[n++] = l->part[i];
		}
	}
	while (c < adds)
		part[n++] = come[c++];
	for (i = 0; i < removes; i++)
		remove[i]->going = false;
	v = version_sorted(part, cover, n);
	for (i = 0; i < removes && v; i++)
		cover_change(v, remove[i], -1U);
	for (i = 0; i < adds && v; i++)
		cover_change(v, add[i], 1);
	if (v)
		cover_all(v);
out:
	free(part);
	free(come);
	free(cover);
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
	}
	free_levels(v);
}

/**
 * struct query - parts of a level that begin before one and end at a key or behind it
 * @l: the level
 * @key: see there
 * @end: parts from this one on begin too late
 * @age: the parts are newer than this (in_newer()), or older (in_older())
 * @out: found; or NULL, if they are only counted
 * @nr: how many
 * @most: no more are looked for
 * @best: the newest of them (in_older())
 */
struct query {
	const struct level *l;
	struct slice key;
	u32 end;
	u64 age;
	struct part **out;
	u32 nr, most;
	struct part *best;
};

/* The tree of @reach: of what ends before the key no more is looked at than its root. */
static void in_reach(struct query *q, u32 low, u32 high,
		     void (*found)(struct query *q, struct part *p))
{
	u32 middle = low + (high - low) / 2;

	if (low >= high || low >= q->end || q->nr >= q->most ||
	    slice_cmp(q->l->part[q->l->reach[middle]]->max, q->key) < 0)
		return;
	in_reach(q, low, middle, found);
	if (middle >= q->end)
		return;
	if (slice_cmp(q->l->part[middle]->max, q->key) >= 0)
		found(q, q->l->part[middle]);
	in_reach(q, middle + 1, high, found);
}

static void take(struct query *q, struct part *p)
{
	if (q->nr >= q->most)
		return;
	if (q->out)
		q->out[q->nr] = p;
	q->nr++;
}

static void take_newer(struct query *q, struct part *p)
{
	if (p->age > q->age)
		take(q, p);
}

static void take_older(struct query *q, struct part *p)
{
	if (p->age < q->age && (!q->best || p->age > q->best->age))
		q->best = p;
}

/* The tree of @newest: parts from @from on and before @end, that are newer. */
static void in_newer(struct query *q, u32 from, u32 low, u32 high)
{
	u32 middle = low + (high - low) / 2;

	if (low >= high || low >= q->end || high <= from || q->nr >= q->most ||
	    q->l->part[q->l->newest[middle]]->age <= q->age)
		return;
	in_newer(q, from, low, middle);
	if (middle >= from && middle < q->end)
		take_newer(q, q->l->part[middle]);
	in_newer(q, from, middle + 1, high);
}

/**
 * version_overlaps() - parts of a level that may have keys of a range
 * @v: the version
 * @level: see there
 * @min: of the range
 * @max: of the range
 * @out: room for @most, or for all of the level; or NULL, if they are only counted
 * @most: after so many, in order of their least keys, no more are looked for
 *
 * It costs as many comparisons as the logarithm of the level's parts, for each that is found.
 *
 * Returns how many.
 */
u32 version_overlaps(const struct version *v, u32 level, struct slice min, struct slice max,
		     struct part **out, u32 most)
{
	struct query q = { .l = &v->level[level], .key = min, .out = out, .most = most };

	q.end = level_begun(q.l, max);
	in_reach(&q, 0, q.l->nr, take);
	return q.nr;
}

/**
 * version_newer() - newer parts of a level that may have keys of a range
 * @v: the version
 * @level: see there
 * @min: of the range
 * @max: of the range
 * @age: they are newer than this
 * @out: room for @most
 * @most: after so many no more are looked for
 *
 * It costs as much as version_overlaps() at @min, and some for each part that is found, however
 * many older ones there are.
 *
 * Returns how many.
 */
u32 version_newer(const struct version *v, u32 level, struct slice min, struct slice max,
		  u64 age, struct part **out, u32 most)
{
	struct query q = { .l = &v->level[level], .key = min, .age = age, .out = out,
			   .most = most };
	u32 from;

	from = q.end = level_begun(q.l, min);
	in_reach(&q, 0, q.l->nr, take_newer);
	q.end = level_begun(q.l, max);
	in_newer(&q, from, 0, q.l->nr);
	return q.nr;
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
	struct query q = { .l = &v->level[level], .key = key, .age = age, .most = U32_MAX };

	q.end = level_begun(q.l, key);
	in_reach(&q, 0, q.l->nr, take_older);
	return q.best;
}
