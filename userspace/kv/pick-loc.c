// SPDX-License-Identifier: GPL-2.0
/* Levels that grow by a factor, as LevelDB has them, of tables as large as bands. */
#include "pick.h"

#define LEVEL1_BANDS	10U
#define FACTOR		10U

/* Bytes that a level may have before it is compacted; the last one, any. */
u64 loc_capacity(const struct kv *kv, u32 level)
{
	u64 bytes = (u64)LEVEL1_BANDS * kv->head.band_bytes;

	if (level == KV_LEVELS - 1)
		return U64_MAX;
	while (--level)
		bytes *= FACTOR;
	return bytes;
}

static double fullness(const struct kv *kv, const struct version *v, u32 level)
{
	if (!level)
		return (double)v->level[0].nr / kv->opt.l0_trigger;
	return (double)v->level[level].bytes / (double)loc_capacity(kv, level);
}

/* The next one by key, after the one that was compacted last. */
static struct part *next_by_key(const struct level *l, struct slice after)
{
	u32 i;

	for (i = 0; i < l->nr; i++) {
		if (slice_cmp(l->part[i]->min, after) > 0)
			return l->part[i];
	}
	return l->part[0];
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

/**
 * pick_loc() - what to merge next: one band of the fullest level with all that overlap
 * @kv: the store
 * @p: begun; result
 *
 * Returns 0 or -ENOMEM.
 */
int pick_loc(struct kv *kv, struct pick *p)
{
	u32 level, best = 0, upper, n, i;
	struct slice min, max;
	struct part **found;

	for (level = 1; level + 1 < KV_LEVELS; level++) {
		if (fullness(kv, p->version, level) > fullness(kv, p->version, best))
			best = level;
	}
	if (fullness(kv, p->version, best) < (best ? 1.000001 : 1))
		return 0;
	p->part[p->nr++] = best ?
		next_by_key(&p->version->level[best], buffer_slice(&kv->round[best])) :
		oldest(&p->version->level[0]);
	/* Versions of one key may be in two tables of a level, if they are many. */
	pick_close(p, best, true, true);
	upper = p->nr;
	p->level = best + 1;
	pick_range(p, &min, &max);
	found = p->part + p->nr;
	n = version_overlaps(p->version, p->level, min, max, found);
	for (i = 0; i < n; i++)
		p->part[p->nr++] = found[i];
	pick_close(p, p->level, true, true);
	p->move = upper == 1 && p->nr == 1;
	return 0;
}
