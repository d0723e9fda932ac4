/* SPDX-License-Identifier: GPL-2.0 */
/* Choice of the tables to merge next. */
#ifndef KV_PICK_H
#define KV_PICK_H

#include "table.h"

/*
 * Bytes of indexes of level 0 that one merge may have in memory.  The index of an unsorted table
 * has an entry for each write and may be a fourth of the band.
 */
#ifndef MERGE_INDEXES
#define MERGE_INDEXES	(256U << 20)
#endif

/* Upper bound of the index of a table, if no key is longer than @min and @max. */
static inline u32 pick_index_bytes(const struct part *p)
{
	return table_tail_most(p->table, max(p->min.bytes, p->max.bytes));
}

/**
 * struct pick - a closed set of tables to merge
 * @version: the version that has the tables; the pick holds a reference
 * @part: the parts; there is room for all parts of the version
 * @nr: number of parts; 0 if nothing is to be done
 * @beyond: the merge ends before the least key of this part, and the other parts keep their keys
 *	from there on; NULL: all parts are merged to their ends
 * @key: for a merge within level 1, the key with too many tables; points into a part
 * @level: level of the result
 * @move: move the only part to @level without a merge
 * @tidy: merge from level 1 to level 1
 * @eager: KV_BUFFERED: also merge levels that are half full
 *
 * Closed means: a part outside the set that overlaps a part of the set is either newer than all of
 * them and in a level not below theirs, or older and in a level not above @level.
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

/* pick-soc.c: 0 to 1; 1 if a merge would sort no foreign bytes into the range of @b. */
double sequentiality(struct kv *kv, const struct version *v, struct part *b,
		     struct part *const *l0, u32 nr_l0);
u64 level_capacity(const struct kv *kv, u32 level);

#endif /* KV_PICK_H */
