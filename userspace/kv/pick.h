/* SPDX-License-Identifier: GPL-2.0 */
/* Which tables to merge next. */
#ifndef KV_PICK_H
#define KV_PICK_H

#include "table.h"

/*
 * Bytes of indexes of level 0 that a merge has in memory at once: those of unsorted tables,
 * with an entry for each write, may be a fourth of the band.
 */
#ifndef MERGE_INDEXES
#define MERGE_INDEXES	(256U << 20)
#endif

/* Of a table's index, at most, if no key is longer than those that are known. */
static inline u32 pick_index_bytes(const struct part *p)
{
	return table_tail_most(p->table, max(p->min.bytes, p->max.bytes));
}

/**
 * struct pick - tables to merge, closed: what is in no set of them, and overlaps one, is
 *	either newer than all of them in a level that is not below, or older in one that is
 *	not above where the result goes
 * @version: whose they are; the pick has a share
 * @part: they; room for all of the version
 * @nr: how many; 0 if nothing is to be done
 * @beyond: the merge ends before the least key of this part: what the others have from there
 *	on stays where it is; NULL: they are merged to their ends
 * @key: of a merge of level 1, the key at which too many of its tables are; of a part
 * @level: where the result goes
 * @move: the only one goes there as it is
 * @tidy: it is from level 1 to level 1
 * @eager: KV_BUFFERED: levels that are half full are merged, too
 */
struct pick {
	struct version *version;
	struct part **part, *beyond;
	struct slice key;
	u32 nr, level;
	bool move, tidy, eager;
};

int pick_begin(struct kv *kv, struct pick *p);
void pick_end(struct kv *kv, struct pick *p);
void pick_own(struct kv *kv, struct pick *p);
bool pick_has(const struct pick *p, const struct part *part);
void pick_range(const struct pick *p, struct slice *min, struct slice *max);
bool pick_close(struct pick *p, u32 level, bool newer, bool older, u32 most);
u32 pick_depth(const struct pick *p, u32 nr);

int pick_by_max(const void *a, const void *b);
int pick_by_age(const void *a, const void *b);
u32 pick_bands(struct kv *kv, const struct pick *p);
bool pick_fits(struct kv *kv, const struct pick *p);
void pick_newest(struct kv *kv, struct pick *p);

int pick_soc(struct kv *kv, struct pick *p);
int pick_loc(struct kv *kv, struct pick *p);
bool pick_piece(struct kv *kv, struct pick *p, u64 *oldest);
void pick_crowded(struct kv *kv, struct pick *p);
int pick_component(struct kv *kv, struct pick *p, struct slice after);

/* pick-soc.c: 0 to 1; 1 if a reorder would put nothing foreign into it. */
double sequentiality(struct kv *kv, const struct version *v, struct part *b,
		     struct part *const *l0, u32 nr_l0);
u64 level_capacity(const struct kv *kv, u32 level);

#endif /* KV_PICK_H */
