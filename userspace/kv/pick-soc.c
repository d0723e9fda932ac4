// SPDX-License-Identifier: GPL-2.0
/* KV_SOC: two levels; tables of the lower one may overlap.  Merges are chosen by their gain. */
#include "pick.h"

/* While there is room to merge, no key is in more tables of level 1 than this. */
#define MOST_COVER	8U
/* With this number of tables at a key, some are merged if level 0 needs no merge. */
#define TIDY_COVER	5U
/* Most inputs of one merge, but level 0 alone may always be merged; tests set a smaller number. */
#ifndef MOST_INPUTS
#define MOST_INPUTS	24U
#endif
/* Histograms are read for at most this number of the tables at one key. */
#define MOST_ASKED	16U

/* Return: the number of buckets that begin at @key or before it. */
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

/*
 * Estimate the bytes of a part in a range by its histogram.  A bucket that the range cuts counts
 * half.
 */
static double bytes_within(struct kv *kv, struct part *p, struct slice min, struct slice max)
{
	struct cache_item *item;
	struct histogram *h;
	u32 begin, end, nr;
	double share, buckets;

	/* The result is only an estimate, so a failed read is no error. */
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
 * sequentiality() - how few foreign bytes would a merge sort in among the keys of a part?
 * @kv: the store
 * @v: the version
 * @b: the part, of level 1
 * @l0: parts of level 0 that are merged with it
 * @nr_l0: number of @l0
 *
 * Tables that begin and end in the range of @b count whole.  So only the histograms of tables that
 * contain one end of the range are read.
 *
 * Return: The bytes of @b as a share of all bytes in its range, 0 to 1.
 */
double sequentiality(struct kv *kv, const struct version *v, struct part *b,
		     struct part *const *l0, u32 nr_l0)
{
	const struct level *l = &v->level[1];
	u32 i, n, from = level_before(l, b->min), to = level_begun(l, b->max);
	double own = b->table->bytes, foreign = l->before[to] - l->before[from];
	struct part *at[MOST_ASKED];

	if (b->level == 1)
		foreign -= own;
	n = version_overlaps(v, 1, b->min, b->min, at, MOST_ASKED);
	for (i = 0; i < n; i++) {
		if (slice_cmp(at[i]->min, b->min) < 0)
			foreign += bytes_within(kv, at[i], b->min, b->max);
	}
	n = version_overlaps(v, 1, b->max, b->max, at, MOST_ASKED);
	for (i = 0; i < n; i++) {
		if (at[i] != b && slice_cmp(at[i]->min, b->min) >= 0)
			foreign -= at[i]->table->bytes - bytes_within(kv, at[i], b->min, b->max);
	}
	for (i = 0; i < nr_l0; i++) {
		if (slice_cmp(l0[i]->min, b->max) <= 0 && slice_cmp(l0[i]->max, b->min) >= 0)
			foreign += bytes_within(kv, l0[i], b->min, b->max);
	}
	return own / (own + max(foreign, 0.0));
}

static bool overlap(const struct part *a, const struct part *b)
{
	return slice_cmp(a->min, b->max) <= 0 && slice_cmp(b->min, a->max) <= 0;
}

/*
 * Pick the oldest band of level 0 and newer ones that overlap it, with the bands that these need.
 */
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
	for (i = 1; i < l->nr && i < 4 * most && p->nr < most; i++) {
		if (!overlap(age[i], age[0]) || pick_has(p, age[i]))
			continue;
		was = p->nr;
		p->part[p->nr++] = age[i];
		/* It does not fit: leave it out, with the bands that it needs. */
		if (!pick_close(p, 0, false, true, most))
			p->nr = was;
	}
	free(age);
	return 0;
}

/* Return: the part in [@from, @to) with the largest cover. */
static u32 deepest(const struct level *l, u32 from, u32 to)
{
	u32 i, best = from;

	for (i = from + 1; i < to; i++) {
		if (l->cover[i] > l->cover[best])
			best = i;
	}
	return best;
}

/*
 * Add a part of level 1 to a pick of level 0, and all parts that must go with it: the part that
 * gains most by the merge, of those at the key with the most tables that the pick covers.
 */
static void with_level1(struct kv *kv, struct pick *p)
{
	const struct level *l = &p->version->level[1];
	struct part *at[MOST_ASKED], *part;
	u32 i, n = 0, from, to, best, l0 = p->nr;
	double is[MOST_ASKED];
	struct slice min, max, key;
	u64 age;

	pick_range(p, &min, &max);
	p->move = l0 == 1 && !version_overlaps(p->version, 1, min, max, at, 1);
	from = level_before(l, min);
	to = level_begun(l, max);
	/* Tables at the first key may begin before it. */
	key = from < to ? l->part[deepest(l, from, to)]->min : min;
	for (age = U64_MAX; n < MOST_ASKED &&
	     (part = version_older(p->version, 1, key, age)); age = part->age) {
		for (i = 0; i < l0 && !overlap(p->part[i], part); i++)
			;
		if (i == l0)
			continue;
		is[n] = sequentiality(kv, p->version, part, p->part, l0);
		at[n++] = part;
	}
	while (n) {
		for (i = 1, best = 0; i < n; i++) {
			if (is[i] < is[best])
				best = i;
		}
		p->part[p->nr++] = at[best];
		if (pick_close(p, 1, true, false, MOST_INPUTS))
			return;
		p->nr = l0;
		is[best] = is[--n];
		at[best] = at[n];
	}
}

/*
 * Sum over the least keys of tables in the range of the pick: the number of the pick's tables
 * there, minus one.
 */
static u64 area(const struct pick *p)
{
	const struct level *l = &p->version->level[1];
	struct slice min, max;
	u64 sum = 0;
	u32 i;

	for (i = 0; i < p->nr; i++)
		sum += level_begun(l, p->part[i]->max) - level_before(l, p->part[i]->min);
	pick_range(p, &min, &max);
	return sum - (level_begun(l, max) - level_before(l, min));
}

/*
 * Limit a pick that needs more than MOST_INPUTS parts to the keys below some key: parts that begin
 * there or later are left out, and the others are merged only up to there.
 */
static void cut_off(struct pick *p)
{
	u32 i, last;

	while (!pick_close(p, 1, true, false, MOST_INPUTS)) {
		for (i = 1, last = 0; i < p->nr; i++) {
			if (slice_cmp(p->part[i]->min, p->part[last]->min) > 0)
				last = i;
		}
		p->beyond = p->part[last];
		for (i = 0; i < p->nr; ) {
			if (slice_cmp(p->part[i]->min, p->beyond->min) >= 0)
				p->part[i] = p->part[--p->nr];
			else
				i++;
		}
	}
	if (p->nr < 2 || pick_depth(p, p->nr) < 2)
		p->nr = 0;
}

/*
 * Pick some of the tables at the key with the most overlap: the newest ones, as many as give the
 * least cost in bytes for each unit of overlap that goes.  So a table is merged with others of
 * similar width, and wide tables are merged only as often as the logarithm of the store requires.
 */
static void tidy(struct kv *kv, struct pick *p)
{
	const struct level *l = &p->version->level[1];
	struct slice key = l->part[l->deepest]->min;
	double least = 0, cost, bytes;
	u32 i, n = 0, best = 0;
	struct part *part;
	u64 age, gain;

	for (age = U64_MAX; (part = version_older(p->version, 1, key, age)); age = part->age) {
		if (!pick_has(p, part))
			p->part[p->nr++] = part;
		if (!pick_close(p, 1, true, false, MOST_INPUTS))
			break;
		if (++n < 2)
			continue;
		for (i = 0, bytes = 0; i < p->nr; i++)
			bytes += p->part[i]->table->bytes;
		gain = area(p);
		cost = bytes / gain;
		if (gain && (!best || cost < least)) {
			least = cost;
			best = p->nr;
		}
	}
	if (best)
		p->nr = best;
	else
		cut_off(p);
	p->tidy = true;
	p->key = key;
	if (p->nr && !pick_fits(kv, p))
		pick_newest(kv, p);
}

/*
 * Return: the number of merges within level 1 that come before a merge of level 0, if @cover tables
 * overlap at a key.
 */
static u32 tidies(u32 cover)
{
	return cover < TIDY_COVER ? 0 : cover >= MOST_COVER ? U32_MAX : 1U << (cover - TIDY_COVER);
}

/* An overlap that merges could not reduce, because of snapshots, causes no further merge. */
static u32 stuck_cover(struct kv *kv)
{
	u32 cover;

	pthread_mutex_lock(&kv->lock);
	if (kv->pick.stuck_released != kv->bands.released)
		kv->pick.stuck = 0;
	cover = kv->pick.stuck;
	pthread_mutex_unlock(&kv->lock);
	return cover;
}

/**
 * pick_soc() - choose the next merge
 * @kv: the store
 * @p: the pick, begun; result
 *
 * The work does not grow with the store, except for logarithms and one pass over one number for
 * each table: struct level holds the overlap of all tables.
 *
 * Return: 0 or -ENOMEM.
 */
int pick_soc(struct kv *kv, struct pick *p)
{
	const struct level *l = &p->version->level[1];
	u32 cover = l->nr ? l->cover[l->deepest] : 0;
	bool due = p->version->level[0].nr >= kv->opt.l0_trigger;
	int err;

	p->level = 1;
	if (cover >= TIDY_COVER && cover > stuck_cover(kv) &&
	    (!due || kv->pick.tidied < tidies(cover)))
		tidy(kv, p);
	if (!due || p->nr)
		return 0;
	*p = (struct pick){ .version = p->version, .part = p->part, .level = 1 };
	err = pick_level0(kv, p);
	if (err)
		return err;
	with_level1(kv, p);
	/*
	 * The oldest band of level 0 can move to level 1 without a merge: it is older than the rest
	 * of level 0 and newer than all of level 1.
	 */
	if (p->nr > 1 && !pick_fits(kv, p)) {
		p->nr = 1;
		p->move = true;
	}
	return 0;
}

/**
 * pick_piece() - reduce a pick that there is no room to merge to a piece of it
 * @kv: the store, of KV_SOC
 * @p: parts with all parts that overlap them; result, or unchanged
 * @oldest: age of the oldest piece so far; updated
 *
 * Parts of level 0 go first, one at a time and without a merge, as tables of level 1 may overlap.
 *
 * Return: True if the pick was reduced.  It is empty if a merge would gain nothing: versions of one
 * key that snapshots keep overlap for ever.
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
