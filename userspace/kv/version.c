// SPDX-License-Identifier: GPL-2.0
/* Versions: the set of tables, and searches for the tables that may have a key. */
#include "cache.h"
#include "store.h"

/**
 * part_new() - make a part of a table
 * @t: the table; the part holds a reference to it
 * @level: see struct part
 * @age: see struct part
 * @min: least key, copied
 * @max: largest key, copied
 *
 * Return: The part, with one reference, for the caller; or NULL without memory.
 */
struct part *part_new(struct table *t, u32 level, u64 age, struct slice min, struct slice max)
{
	struct part *p = malloc(sizeof(*p) + min.bytes + max.bytes);

	if (!p)
		return NULL;
	/* Before the keys are copied: they begin in the padding of the structure. */
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

/* Return: the number of parts of a level that begin at @key or before it. */
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

/* Return: the number of parts of a level that begin before @key. */
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

/*
 * Fill a tree of struct level.  Return: the part in [@low, @high) with the largest key, or the
 * newest.
 */
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

/* @part: sorted by_place(); @cover: see struct level, 0 where it is unknown; or NULL. */
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

/* Compute the missing values of @cover, and @deepest. */
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

/* Add @by to @cover of the parts that begin in the range of @p, which came or went. */
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
 * version_new() - make a version of parts
 * @part: the parts, in any order; they are sorted, and the version holds a reference to each
 * @nr: number of parts
 *
 * Return: The version, with one reference, for the caller; or NULL without memory.
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
 * version_changed() - make a version that differs from another one
 * @old: the other version; the caller holds @committing
 * @remove: parts to leave out
 * @removes: number of @remove
 * @add: parts to add
 * @adds: number of @add
 *
 * Only @add is sorted, and only its overlap is computed.  So a commit costs at most two comparisons
 * for each part and some for each change.
 *
 * Return: The version, with a reference for the caller; or NULL without memory.
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

/* Return: a reference to the current version. */
struct version *version_get(struct kv *kv)
{
	struct version *v;

	pthread_mutex_lock(&kv->lock);
	v = kv->current.version;
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
 * struct query - search for parts of a level that overlap a range
 * @l: the level
 * @key: the parts end at this key or behind it
 * @end: parts from this index on begin too late
 * @age: the parts are newer than this, or for take_older() older
 * @out: the parts found; or NULL to count them only
 * @nr: number found
 * @most: stop at this number
 * @best: the newest part found by take_older()
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

/*
 * Search the tree of @reach.  A subtree without a part that reaches the key costs one comparison.
 */
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

/* Search the tree of @newest for newer parts in [@from, @end). */
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
 * version_overlaps() - find the parts of a level that may have keys of a range
 * @v: the version
 * @level: the level
 * @min: first key of the range
 * @max: last key of the range
 * @out: room for @most parts, or for all of the level; or NULL to count them only
 * @most: stop at this number of parts, in order of their least keys
 *
 * The number of comparisons for each part found is the logarithm of the number of parts of the
 * level.
 *
 * Return: The number of parts.
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
 * version_newer() - find the newer parts of a level that may have keys of a range
 * @v: the version
 * @level: the level
 * @min: first key of the range
 * @max: last key of the range
 * @age: the parts are newer than this
 * @out: room for @most parts
 * @most: stop at this number of parts
 *
 * The cost is that of version_overlaps() at @min, plus some for each part found, however many older
 * parts there are.
 *
 * Return: The number of parts.
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
 * version_older() - find the next part to look up a key in
 * @v: the version
 * @level: the level
 * @key: the key
 * @age: age of the part that did not have it; U64_MAX for the first call
 *
 * Return: The newest older part with the key in its range; NULL if there is none.
 */
struct part *version_older(const struct version *v, u32 level, struct slice key, u64 age)
{
	struct query q = { .l = &v->level[level], .key = key, .age = age, .most = U32_MAX };

	q.end = level_begun(q.l, key);
	in_reach(&q, 0, q.l->nr, take_older);
	return q.best;
}
