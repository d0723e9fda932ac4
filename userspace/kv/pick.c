// SPDX-License-Identifier: GPL-2.0
/*
 * Rules for what may be merged.
 *
 * A reader takes the first version that it finds.  It looks into level 0, then into level 1, and so
 * on, and within a level into newer parts first.  So for each key the versions must be in that
 * order, and a merge must not move a version past another one:
 *
 *  - a part leaves its level only together with all older parts there that overlap it;
 *  - a part is merged within its level, where the result is the newest part, only together
 *    with all newer parts there that overlap it.
 *
 * Both rules also hold for the parts that are added because of them: the sets are closed.
 */
#include "pick.h"

int pick_begin(struct kv *kv, struct pick *p)
{
	*p = (struct pick){ .version = version_get(kv) };
	/* Overlapping parts are put behind the picked ones before duplicates are sorted out. */
	p->part = malloc((3 * (size_t)p->version->nr + 1) * sizeof(*p->part));
	if (p->part)
		return 0;
	version_put(kv, p->version);
	return kv_no_memory();
}

void pick_end(struct kv *kv, struct pick *p)
{
	free(p->part);
	version_put(kv, p->version);
}

/**
 * pick_own() - keep references to the picked parts only
 * @kv: the store
 * @p: the pick; it holds a reference to each of its parts from now on, and none to its version
 *
 * The version would keep the bands of the first inputs until the last input is merged.
 */
void pick_own(struct kv *kv, struct pick *p)
{
	u32 i;

	for (i = 0; i < p->nr; i++)
		__atomic_fetch_add(&p->part[i]->refs, 1, __ATOMIC_RELAXED);
	if (p->beyond)
		__atomic_fetch_add(&p->beyond->refs, 1, __ATOMIC_RELAXED);
	version_put(kv, p->version);
	p->version = NULL;
}

bool pick_has(const struct pick *p, const struct part *part)
{
	u32 i;

	for (i = 0; i < p->nr; i++) {
		if (p->part[i] == part)
			return true;
	}
	return false;
}

void pick_range(const struct pick *p, struct slice *min, struct slice *max)
{
	u32 i;

	*min = p->part[0]->min;
	*max = p->part[0]->max;
	for (i = 1; i < p->nr; i++) {
		if (slice_cmp(p->part[i]->min, *min) < 0)
			*min = p->part[i]->min;
		if (slice_cmp(p->part[i]->max, *max) > 0)
			*max = p->part[i]->max;
	}
}

/**
 * pick_close() - add the parts that must go with a pick
 * @p: the pick
 * @level: the level of the parts to look at
 * @newer: add newer parts that overlap a part of the pick
 * @older: add older parts that overlap a part of the pick
 * @most: most parts of the pick; the function stops when it has one more
 *
 * A part that begins at @p->beyond or behind it overlaps nothing that is merged.
 *
 * Return: True if the pick is closed; false if it has more than @most parts.
 */
bool pick_close(struct pick *p, u32 level, bool newer, bool older, u32 most)
{
	u32 i, j, n, room = min(most, p->version->nr) + 2;
	struct part **found, *part;

	for (i = 0; i < p->nr && p->nr <= most; i++) {
		part = p->part[i];
		if (part->level != level)
			continue;
		found = p->part + p->nr;
		/* More are found only if too many of them are outside the pick. */
		n = older ? version_overlaps(p->version, level, part->min, part->max, found,
					     U32_MAX) :
			version_newer(p->version, level, part->min, part->max, part->age, found,
				      room);
		for (j = 0; j < n && p->nr <= most; j++) {
			if (pick_has(p, found[j]) ||
			    (found[j]->age > part->age ? !newer : !older) ||
			    (p->beyond && slice_cmp(found[j]->min, p->beyond->min) >= 0))
				continue;
			p->part[p->nr++] = found[j];
		}
	}
	return p->nr <= most;
}

static int by_min(const void *a, const void *b)
{
	const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;

	return slice_cmp(x->min, y->min);
}

int pick_by_max(const void *a, const void *b)
{
	const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;

	return slice_cmp(x->max, y->max);
}

int pick_by_age(const void *a, const void *b)
{
	const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;

	return (x->age > y->age) - (x->age < y->age);
}

/**
 * pick_depth() - largest number of parts at one key
 * @p: the pick
 * @nr: consider only the first @nr parts
 *
 * Return: The number.
 */
u32 pick_depth(const struct pick *p, u32 nr)
{
	struct part **begin = p->part + p->version->nr, **end = begin + nr;
	u32 i, ended = 0, most = 0;

	memcpy(begin, p->part, nr * sizeof(*begin));
	memcpy(end, p->part, nr * sizeof(*end));
	qsort(begin, nr, sizeof(*begin), by_min);
	qsort(end, nr, sizeof(*end), pick_by_max);
	for (i = 0; i < nr; i++) {
		while (slice_cmp(end[ended]->max, begin[i]->min) < 0)
			ended++;
		most = max(most, i + 1 - ended);
	}
	return most;
}

/*
 * Bands that the results may need in excess of the inputs: an entry is not cut in two, and with
 * snapshots neither are the versions of a key.
 */
static u32 cuts(struct kv *kv, const struct pick *p, u32 nr)
{
	u64 bytes = 0, entries = 1;
	bool versions;
	u32 i;

	pthread_mutex_lock(&kv->lock);
	versions = kv->snapshots.next != &kv->snapshots;
	pthread_mutex_unlock(&kv->lock);

	for (i = 0; i < nr; i++) {
		bytes += p->part[i]->table->bytes;
		entries += p->part[i]->table->entries;
	}
	return (u32)min_t(u64, 2 * bytes / entries * nr / kv->head.band_bytes + 1 +
			  (versions ? nr / MOST_UNUSED : 0), nr);
}

/**
 * pick_bands() - most bands that a merge occupies besides its inputs
 * @kv: the store
 * @p: the pick
 *
 * Inputs that follow each other become free one by one; inputs that overlap become free together.
 * One band is being written.
 *
 * Return: The number of bands.
 */
u32 pick_bands(struct kv *kv, const struct pick *p)
{
	return pick_depth(p, p->nr) + 1 + cuts(kv, p, p->nr);
}

bool pick_fits(struct kv *kv, const struct pick *p)
{
	return bands_enough(kv, pick_bands(kv, p));
}

static int newest_first(const void *a, const void *b)
{
	return pick_by_age(b, a);
}

/*
 * Return: the largest number of parts, from the first one on, with at most @most parts at one key.
 * If @most is 0, the limit is the room to merge; with @sure the room for uncut entries is included.
 */
static u32 no_deeper(struct kv *kv, const struct pick *p, u32 most, bool sure)
{
	u32 low = 0, high = p->nr, middle, d;

	while (low < high) {
		middle = high - (high - low) / 2;
		d = pick_depth(p, middle);
		if (most ? d <= most :
			   bands_enough(kv, d + 1 + (sure ? cuts(kv, p, middle) : 0)))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/**
 * pick_newest() - reduce a pick to the newest parts that there is room to merge
 * @kv: the store, of KV_SOC
 * @p: parts of level 1 with all newer ones there that overlap them; the result is closed in the
 *	same way
 *
 * The result does not overlap, so that there is room to merge it with an older part next time.
 */
void pick_newest(struct kv *kv, struct pick *p)
{
	u32 alone, n;

	qsort(p->part, p->nr, sizeof(*p->part), newest_first);
	alone = no_deeper(kv, p, 1, false);
	if (alone == p->nr)
		return;
	n = no_deeper(kv, p, 0, true);
	/*
	 * If nothing would be gained, take more parts and omit the room for uncut entries, or rely
	 * on deletions to free some.
	 */
	if (n <= alone)
		n = max(no_deeper(kv, p, 0, false), alone + 1);
	p->nr = n;
}

/* Do two tables fit into one band? */
static bool small(const struct kv *kv, const struct part *a, const struct part *b)
{
	return a->table->bytes + b->table->bytes <= kv->head.band_bytes;
}

/*
 * Have all parts up to a key been picked before?  Tables that were flushed since then may reach
 * further.
 */
static bool behind(struct slice reach, struct slice after)
{
	return after.bytes && slice_cmp(reach, after) <= 0;
}

/**
 * struct walk - a walk over all parts of a version in order of their least keys
 * @v: the version
 * @at: for each level, the next part
 */
struct walk {
	const struct version *v;
	u32 at[KV_LEVELS];
};

/* Begin at the first part from which a chain of overlapping parts leads to @key. */
static void walk_begin(struct walk *w, struct slice key)
{
	struct part *first;
	bool moved = true;
	u32 level;

	while (moved) {
		for (level = 0, moved = false; level < KV_LEVELS; level++) {
			if (version_overlaps(w->v, level, key, key, &first, 1) &&
			    slice_cmp(first->min, key) < 0) {
				key = first->min;
				moved = true;
			}
		}
	}
	for (level = 0; level < KV_LEVELS; level++)
		w->at[level] = level_before(&w->v->level[level], key);
}

/* Return: the next part, and its @level; NULL at the end. */
static struct part *walk_at(const struct walk *w, u32 *level)
{
	struct part *best = NULL, *p;
	u32 i;

	for (i = 0; i < KV_LEVELS; i++) {
		if (w->at[i] == w->v->level[i].nr)
			continue;
		p = w->v->level[i].part[w->at[i]];
		if (!best || slice_cmp(p->min, best->min) < 0) {
			best = p;
			*level = i;
		}
	}
	return best;
}

/**
 * pick_component() - pick parts of all levels that overlap each other, directly or through others
 * @kv: the store
 * @p: the pick, begun; result
 * @after: the parts reach beyond this key; if it is empty, take the first ones
 *
 * Small parts are taken with their neighbours.  A single part is skipped, unless it is in level 0,
 * from where it moves, or has deletions, which may have nothing left to delete.
 *
 * Return: 0.
 */
int pick_component(struct kv *kv, struct pick *p, struct slice after)
{
	struct walk w = { .v = p->version };
	struct part *part, *last;
	struct slice reach;
	u32 level, deepest = 1;
	u64 bytes = 0;

	for (level = 0; level < KV_LEVELS; level++) {
		bytes += p->version->level[level].bytes;
		if (level && p->version->level[level].nr)
			deepest = level;
	}
	walk_begin(&w, after);
	part = walk_at(&w, &level);
	while (part && !p->nr) {
		reach = part->max;
		do {
			p->part[p->nr++] = part;
			last = part;
			if (slice_cmp(part->max, reach) > 0)
				reach = part->max;
			w.at[level]++;
			part = walk_at(&w, &level);
		} while (part && (slice_cmp(part->min, reach) <= 0 ||
				  (!behind(reach, after) && small(kv, last, part))));
		if (behind(reach, after) ||
		    (p->nr == 1 && p->part[0]->level && !p->part[0]->table->tombstones))
			p->nr = 0;
	}
	while (kv->head.organisation != KV_SOC && deepest + 1 < levels_of(&kv->head) &&
	       level_capacity(kv, deepest) < bytes)
		deepest++;
	p->level = deepest;
	p->move = p->nr == 1 && !p->part[0]->table->tombstones && !p->part[0]->table->unsorted;
	return 0;
}
