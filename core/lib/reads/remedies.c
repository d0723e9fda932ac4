// SPDX-License-Identifier: GPL-2.0
/* Decisions about the seeks of reads from a log, see remedies.h.  Pure code. */
#include "reads/remedies.h"

/* The paper restricts defragmentation by reads of a range, but does not say how long a range is. */
#define RANGE_BYTES_SHIFT	20

/**
 * shingle_remedies_init() - all remedies off
 * @r: the remedies
 * @unit_shift: a unit has 1 << @unit_shift bytes, at most 1 MiB
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_remedies_init(struct shingle_remedies *r, u32 unit_shift)
{
	memset(r, 0, sizeof(*r));
	r->set.defrag_hits = 1;
	r->set.defrag_units = U32_MAX;
	r->range_shift = RANGE_BYTES_SHIFT - unit_shift;
	r->range = shingle_zalloc_array(SHINGLE_DEFRAG_RANGES, sizeof(*r->range));
	return r->range ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_GPL(shingle_remedies_init);

/**
 * shingle_remedies_exit() - free the memory of the remedies
 * @r: the remedies; shingle_remedies_init() may have failed
 *
 * Context: may sleep.
 */
void shingle_remedies_exit(struct shingle_remedies *r)
{
	kvfree(r->range);
	r->range = NULL;
}
EXPORT_SYMBOL_GPL(shingle_remedies_exit);

/**
 * shingle_remedies_clear() - forget all counted reads
 * @r: the remedies
 *
 * Context: the caller's lock.
 */
void shingle_remedies_clear(struct shingle_remedies *r)
{
	memset(r->range, 0, SHINGLE_DEFRAG_RANGES * sizeof(*r->range));
}
EXPORT_SYMBOL_GPL(shingle_remedies_clear);

struct shingle_span shingle_remedies_around(const struct shingle_remedies *r,
					    struct shingle_span frag, u64 lo, u64 hi, u64 head)
{
	u64 first = frag.place - min_t(u64, r->set.behind, frag.place - min(lo, frag.place));
	u64 end = frag.place + frag.n;
	struct shingle_span span;

	if (hi > end)
		end += min_t(u64, r->set.ahead, hi - end);
	if (head > first && head <= frag.place)
		first = head;
	/* The length of a span has 32 bits: give up what is behind the fragment first. */
	end = min(end, max(frag.place + frag.n, first + U32_MAX));
	first = max(first, end - min_t(u64, end, U32_MAX));
	span.place = first;
	span.n = end - first;
	return span;
}
EXPORT_SYMBOL_GPL(shingle_remedies_around);

/* Return: whether this is the read that has been waited for. */
static bool counted(struct shingle_remedies *r, u64 lunit)
{
	u32 nr = lunit >> r->range_shift;
	struct shingle_remedies_range *range =
		&r->range[nr * 0x9e3779b1U >> (32 - ilog2(SHINGLE_DEFRAG_RANGES))];

	if (range->hits && range->nr != nr) {
		if (--range->hits)
			return false;
	}
	range->nr = nr;
	if (++range->hits < r->set.defrag_hits)
		return false;
	range->hits = 0;
	return true;
}

bool shingle_remedies_read(struct shingle_remedies *r, u64 lunit, u32 n, u32 frags)
{
	if (!r->set.defrag_frags || frags < max(2U, r->set.defrag_frags) ||
	    n > r->set.defrag_units)
		return false;
	return r->set.defrag_hits <= 1 || counted(r, lunit);
}
EXPORT_SYMBOL_GPL(shingle_remedies_read);
