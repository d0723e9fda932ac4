// SPDX-License-Identifier: GPL-2.0
/*
 * KV_LOC and KV_BUFFERED: levels without overlap, of tables as large as bands, like LevelDB's
 * levels or as buffers.
 */
#include "pick.h"

#define LEVEL1_BANDS	10U
#define FACTOR		10U

/**
 * level_capacity() - size at which a level is compacted
 * @kv: the store, of KV_LOC or KV_BUFFERED; both have the same capacity in level 1
 * @level: the level, from 1; the last level has no limit
 *
 * Return: The capacity in bytes.
 */
u64 level_capacity(const struct kv *kv, u32 level)
{
	u64 bytes = (u64)LEVEL1_BANDS * kv->head.band_bytes;

	if (level == levels_of(&kv->head) - 1)
		return U64_MAX;
	while (--level)
		bytes *= FACTOR;
	return bytes;
}

static double fullness(const struct kv *kv, const struct pick *p, u32 level)
{
	const struct level *l = &p->version->level[level];
	double full = level ? (double)l->bytes / (double)level_capacity(kv, level) :
			      (double)l->nr / kv->opt.l0_trigger;

	return p->eager ? 2 * full : full;
}

/* Return: the next part by key behind @after, where the last compaction of the level was. */
static struct part *next_by_key(const struct level *l, struct slice after)
{
	u32 next = level_begun(l, after);

	return l->part[next < l->nr ? next : 0];
}

static struct part *oldest(const struct level *l)
{
	struct part *p = l->part[0];
	u32 i;

	for (i = 1; i < l->nr; i++) {
		if (l->part[i]->age < p->age)
			p = l->part[i];
	}
	return p;
}

/* Return: the oldest part on the offload device; NULL if there is none. */
static struct part *offloaded(const struct kv *kv, const struct level *l)
{
	struct part *p = NULL;
	u32 i;

	for (i = 0; i < l->nr; i++) {
		if (is_spare(kv, l->part[i]->table->band) && (!p || l->part[i]->age < p->age))
			p = l->part[i];
	}
	return p;
}

/* Add the parts of the next level in the range of a pick. */
static void pick_below(struct pick *p, u32 level)
{
	struct part **found = p->part + p->nr;
	u32 upper = p->nr, n, i;
	struct slice min, max;

	p->level = level + 1;
	pick_range(p, &min, &max);
	n = version_overlaps(p->version, p->level, min, max, found, U32_MAX);
	for (i = 0; i < n; i++)
		p->part[p->nr++] = found[i];
	pick_close(p, p->level, true, true, U32_MAX);
	/* Only level 0 may have unsorted tables. */
	p->move = upper == 1 && p->nr == 1 && !p->part[0]->table->unsorted;
}

/*
 * Is there too little room to merge @nr tables of level 0 at once?  Tables that overlap become free
 * together, when all of them have been merged.
 */
static bool level0_crowded(struct kv *kv, u32 nr)
{
	return nr > 1 && !bands_enough(kv, nr + COMMIT_BANDS + RESERVE_MERGE);
}

/*
 * Limit a pick of level 0 to what there is room for on the disk and in memory.  The oldest parts
 * stay, so the pick stays closed: parts that are older than one of them and overlap it stay as
 * well.
 */
static void only_so_many(struct kv *kv, struct pick *p)
{
	u64 bytes = 0;
	u32 n;

	qsort(p->part, p->nr, sizeof(*p->part), pick_by_age);
	for (n = 0; n < p->nr; n++) {
		bytes += pick_index_bytes(p->part[n]);
		if (n && bytes > MERGE_INDEXES)
			break;
	}
	p->nr = level0_crowded(kv, p->nr) ? 1 : n;
}

/**
 * pick_crowded() - pick the oldest bands of level 0, if there is no room to merge all of it
 * @kv: the store, of KV_LOC or KV_BUFFERED
 * @p: the pick, begun; result, or unchanged
 */
void pick_crowded(struct kv *kv, struct pick *p)
{
	const struct level *l = &p->version->level[0];

	memcpy(p->part, l->part, l->nr * sizeof(*l->part));
	p->nr = l->nr;
	only_so_many(kv, p);
	if (p->nr < l->nr)
		pick_below(p, 0);
	else
		p->nr = 0;
}

/**
 * pick_loc() - choose the next merge: one band of the fullest level, with all that overlap it
 * @kv: the store
 * @p: the pick, begun; result
 *
 * Return: 0 or -ENOMEM.
 */
int pick_loc(struct kv *kv, struct pick *p)
{
	struct part *spare;
	u32 level, best = 0;
	bool due;

	for (level = 1; level + 1 < levels_of(&kv->head); level++) {
		if (fullness(kv, p, level) > fullness(kv, p, best))
			best = level;
	}
	due = fullness(kv, p, best) >= (best ? 1.000001 : 1);
	spare = p->eager && !due ? offloaded(kv, &p->version->level[0]) : NULL;
	if (!due && !spare)
		return 0;
	best = spare ? 0 : best;
	p->part[p->nr++] = spare ?: best ?
		next_by_key(&p->version->level[best], buffer_slice(&kv->pick.begin[best])) :
		oldest(&p->version->level[0]);
	/* If a key has many versions, they may be in two tables of a level. */
	pick_close(p, best, true, true, U32_MAX);
	if (!best)
		only_so_many(kv, p);
	pick_below(p, best);
	return 0;
}
