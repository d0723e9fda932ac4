// SPDX-License-Identifier: GPL-2.0
/* Two levels, the lower of which may overlap: what is merged is what gains most. */
#include "pick.h"

/* Bands that one of level 1 may overlap before they are put in order. */
#define MOST_OVERLAPS	8U
/* More are not merged at once: level 0 alone may always go. */
#define MOST_INPUTS	24U
#define MOST_TIDIES	2U

/* Where a key would be among the buckets: how many begin at it or before. */
static u32 buckets_begun(const struct histogram *h, struct slice key)
{
	u32 low = 0, high = le32_to_cpu(h->buckets), middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (slice_cmp(slice(h->bucket[middle].key, h->bucket[middle].bytes), key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Bytes of a part in a range, as its histogram has it: half of a bucket that is cut. */
static double bytes_within(struct kv *kv, struct part *p, struct slice min, struct slice max)
{
	struct cache_item *item;
	struct histogram *h;
	u32 begin, end, nr;
	double share, buckets;

	/* An estimate is all that it is for. */
	if (table_histogram(kv, p, &item))
		return p->table->bytes / 2.0;
	h = (struct histogram *)item->data;
	nr = le32_to_cpu(h->buckets);
	if (slice_cmp(min, p->min) < 0)
		min = p->min;
	begin = max(buckets_begun(h, min), 1U) - 1;
	end = buckets_begun(h, max);
	buckets = end > begin ? end - begin : 0;
	if (buckets && slice_cmp(slice(h->bucket[begin].key, h->bucket[begin].bytes), min) < 0)
		buckets -= 0.5;
	if (buckets > 0.5 && (end < nr || slice_cmp(max, p->max) < 0))
		buckets -= 0.5;
	share = (double)le64_to_cpu(h->bytes) / nr;
	cache_put(kv->cache, item);
	return share * buckets;
}

/**
 * sequentiality() - how little would a reorder of all insert among the keys of a part?
 * @kv: the store
 * @v: the version
 * @b: the part, of level 1
 * @l0: parts of level 0 that are merged, too
 * @nr_l0: how many
 *
 * Returns its share of all bytes in its range.
 */
double sequentiality(struct kv *kv, const struct version *v, struct part *b,
		     struct part *const *l0, u32 nr_l0)
{
	double own = b->table->bytes, foreign = 0;
	struct part **found = calloc(v->level[1].nr ?: 1, sizeof(*found));
	u32 i, n;

	n = found ? version_overlaps(v, 1, b->min, b->max, found) : 0;
	for (i = 0; i < n; i++) {
		if (found[i] != b)
			foreign += bytes_within(kv, found[i], b->min, b->max);
	}
	for (i = 0; i < nr_l0; i++) {
		if (slice_cmp(l0[i]->min, b->max) <= 0 && slice_cmp(l0[i]->max, b->min) >= 0)
			foreign += bytes_within(kv, l0[i], b->min, b->max);
	}
	free(found);
	return own / (own + foreign);
}

static bool overlap(const struct part *a, const struct part *b)
{
	return slice_cmp(a->min, b->max) <= 0 && slice_cmp(b->min, a->max) <= 0;
}

/* The oldest band of level 0, and newer ones that overlap it with what they need. */
static int pick_level0(struct kv *kv, struct pick *p)
{
	const struct level *l = &p->version->level[0];
	struct part **age = malloc(l->nr * sizeof(*age));
	u32 i, was, most = max(kv->opt.l0_slowdown, 2U);

	if (!age)
		return kv_no_memory();
	memcpy(age, l->part, l->nr * sizeof(*age));
	qsort(age, l->nr, sizeof(*age), pick_by_age);
	p->part[p->nr++] = age[0];
	for (i = 1; i < l->nr && p->nr < most; i++) {
		if (!overlap(age[i], age[0]) || pick_has(p, age[i]))
			continue;
		was = p->nr;
		p->part[p->nr++] = age[i];
		pick_close(p, 0, false, true);
		/* It stays, and so does what it would have needed. */
		if (p->nr > most)
			p->nr = was;
	}
	free(age);
	return 0;
}

/* Of some parts of level 1, the one that would gain most, and what goes with it. */
static void prune(struct kv *kv, struct pick *p, struct part **of, u32 nr, u32 at_least)
{
	u32 l0 = p->nr, i, best = 0;
	double least = 2, s;

	while (nr) {
		for (i = 0, least = 2; i < nr; i++) {
			s = sequentiality(kv, p->version, of[i], p->part, l0);
			if (s < least) {
				least = s;
				best = i;
			}
		}
		p->part[p->nr++] = of[best];
		pick_close(p, 1, true, false);
		if (p->nr - l0 >= at_least && p->nr <= MOST_INPUTS)
			return;
		p->nr = l0;
		of[best] = of[--nr];
	}
}

static int with_level1(struct kv *kv, struct pick *p)
{
	struct part **of = calloc(p->version->level[1].nr + 1, sizeof(*of)), **found;
	u32 i, j, n, nr = 0, l0 = p->nr;
	struct slice min, max;

	if (!of)
		return kv_no_memory();
	pick_range(p, &min, &max);
	found = p->part + p->nr;
	n = version_overlaps(p->version, 1, min, max, found);
	/* The range may have gaps that nothing of level 0 is in. */
	for (i = 0; i < n; i++) {
		for (j = 0; j < l0 && !overlap(p->part[j], found[i]); j++)
			;
		if (j < l0)
			of[nr++] = found[i];
	}
	prune(kv, p, of, nr, 1);
	p->move = p->nr == 1 && !nr;
	free(of);
	return 0;
}

/* How many of level 1 overlap a part: all but those that end before or begin behind. */
static u32 overlaps(const struct level *l, struct part *const *ends, const struct part *b)
{
	u32 low = 0, high = l->nr, middle, before;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (slice_cmp(ends[middle]->max, b->min) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	before = low;
	for (low = 0, high = l->nr; low < high; ) {
		middle = low + (high - low) / 2;
		if (slice_cmp(l->part[middle]->min, b->max) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low - before - 1;
}

/* Bands of level 1 that overlap too many others. */
static int pick_level1(struct kv *kv, struct pick *p)
{
	const struct level *l = &p->version->level[1];
	struct part **ends = malloc((l->nr + 1) * sizeof(*ends)), *worst = NULL;
	u32 i, n, most = 0;

	if (!ends)
		return kv_no_memory();
	memcpy(ends, l->part, l->nr * sizeof(*ends));
	qsort(ends, l->nr, sizeof(*ends), pick_by_max);
	for (i = 0; i < l->nr; i++) {
		n = overlaps(l, ends, l->part[i]);
		if (n > most) {
			most = n;
			worst = l->part[i];
		}
	}
	if (most >= MOST_OVERLAPS) {
		n = version_overlaps(p->version, 1, worst->min, worst->max, ends);
		prune(kv, p, ends, n, 2);
		p->tidy = true;
		if (p->nr && !pick_fits(kv, p))
			pick_newest(kv, p);
	}
	free(ends);
	return 0;
}

/**
 * pick_soc() - what to merge next
 * @kv: the store
 * @p: begun; result
 *
 * Returns 0 or -ENOMEM.
 */
int pick_soc(struct kv *kv, struct pick *p)
{
	int err;

	p->level = 1;
	if (p->version->level[0].nr < kv->opt.l0_trigger)
		return kv->tidied < MOST_TIDIES ? pick_level1(kv, p) : 0;
	err = pick_level0(kv, p);
	if (!err)
		err = with_level1(kv, p);
	if (err)
		return err;
	/* The oldest band is older than all of level 0 and newer than level 1. */
	if (p->nr > 1 && !pick_fits(kv, p)) {
		p->nr = 1;
		p->move = true;
	}
	return 0;
}

/**
 * pick_piece() - where there is no room to merge all of a pick, a piece of it
 * @kv: the store, of KV_SOC
 * @p: parts with all that overlap them; result, or as it was
 * @oldest: age of the oldest one of the pieces of it so far; changed
 *
 * Level 0 goes first, one by one, as it is: level 1 may overlap.
 *
 * Returns whether it is; then it is empty if nothing would come of it: versions of one key
 * that snapshots keep overlap for ever.
 */
bool pick_piece(struct kv *kv, struct pick *p, u64 *oldest)
{
	struct part *first = NULL;
	u32 i, nr = p->nr;

	if (nr < 2 || pick_fits(kv, p)) {
		*oldest = U64_MAX;
		return false;
	}
	for (i = 0; i < nr; i++) {
		if (!p->part[i]->level && (!first || p->part[i]->age < first->age))
			first = p->part[i];
	}
	if (first) {
		p->part[0] = first;
		p->nr = 1;
		p->move = true;
		return true;
	}
	pick_newest(kv, p);
	if (p->nr == nr)
		return false;
	if (p->part[p->nr - 1]->age >= *oldest)
		p->nr = 0;
	else
		*oldest = p->part[p->nr - 1]->age;
	return true;
}
