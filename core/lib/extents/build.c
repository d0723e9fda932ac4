// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery of an extent map: sort what a checkpoint contains, and build the tree and the chains.
 * Pure code.
 *
 * Sorting needs no memory beside that of the map: the array of the tree's nodes, which are loaded
 * afterwards, is the second buffer.
 */
#include "engine/engine.h"
#include "extents/arena.h"
#include "extents/extents.h"
#include "extents/tree.h"

#define DIGITS		4U
#define DIGIT_VALUES	256U
/* Number of extents to prefetch. */
#define AHEAD		16U

/* The beginning of an entry, which is sorted by logical address. */
struct item {
	u32 lunit;
	u32 place;
	u32 n;
};

/* An extent to be sorted by its place. */
struct placed {
	u32 place;
	u32 i;
};

/* Number of items with each value of each byte of the key, which is the first u32 of an item. */
struct digits {
	u32 nr[DIGITS][DIGIT_VALUES];
};

static u32 digit(u32 key, u32 which)
{
	return key >> 8 * which & (DIGIT_VALUES - 1);
}

static void count_digits(struct digits *d, u32 key)
{
	u32 which;

	for (which = 0; which < DIGITS; which++)
		d->nr[which][digit(key, which)]++;
}

/* Turn the numbers of one digit into positions.  Returns false if all @nr items have one value. */
static bool positions(u32 *count, u32 nr)
{
	u32 v, n, sum = 0;

	for (v = 0; v < DIGIT_VALUES; v++) {
		n = count[v];
		if (n == nr)
			return false;
		count[v] = sum;
		sum += n;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * By logical address
 */

/* Items that are @stride bytes apart. */
struct items {
	u8 *base;
	u32 stride;
};

static struct item *item(const struct items *a, u32 i)
{
	return (struct item *)(a->base + (size_t)i * a->stride);
}

static void scatter(const struct items *from, const struct items *to, u32 nr, u32 which,
		    u32 *position)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		const struct item *e = item(from, i);

		*item(to, position[digit(e->lunit, which)]++) = *e;
		if (!(i % SHINGLE_WALK))
			cond_resched();
	}
}

/* Move the extents to the beginning of the arena.  Returns their number. */
static u32 pack(struct shingle_extents *x, struct digits *d, bool *sorted)
{
	struct items a = { .base = (u8 *)x->entry, .stride = sizeof(*x->entry) };
	u32 i, nr = 0;

	*sorted = true;
	for (i = 0; i < x->size; i++) {
		const struct item *e = item(&a, i);

		if (!(i % SHINGLE_WALK))
			cond_resched();
		if (!e->n)
			continue;
		count_digits(d, e->lunit);
		if (nr && item(&a, nr - 1)->lunit > e->lunit)
			*sorted = false;
		*item(&a, nr++) = *e;
	}
	return nr;
}

/* Sort the extents at the beginning of the arena. */
static void sort(struct shingle_extents *x, struct digits *d, u32 nr)
{
	struct items from = { .base = (u8 *)x->entry, .stride = sizeof(*x->entry) };
	struct items to = { .base = (u8 *)x->tree->node, .stride = sizeof(struct item) };
	u32 which, i;

	for (which = 0; which < DIGITS; which++) {
		if (!positions(d->nr[which], nr))
			continue;
		scatter(&from, &to, nr, which, d->nr[which]);
		swap(from, to);
	}
	if (from.base == (u8 *)x->entry)
		return;
	for (i = 0; i < nr; i++)
		*item(&to, i) = *item(&from, i);
}

/*
 * Trim each extent by the units that extents before it contain, and append those that continue
 * the one before to it.  Returns the new number.
 */
static u32 resolve(struct shingle_extents *x, u32 nr)
{
	struct shingle_extents_entry *to = x->entry;
	u32 i, trim, end = 0, out = 0;

	for (i = 0; i < nr; i++) {
		struct item e = *(struct item *)&x->entry[i];

		if (!(i % SHINGLE_WALK))
			cond_resched();
		trim = e.lunit < end ? end - e.lunit : 0;
		if (trim >= e.n)
			continue;
		e.lunit += trim;
		e.place += trim;
		e.n -= trim;
		end = e.lunit + e.n;
		if (out && shingle_extents_continue(x, &to[out - 1], e.lunit, e.place)) {
			to[out - 1].n += e.n;
			continue;
		}
		to[out].lunit = e.lunit;
		to[out].place = e.place;
		to[out].n = e.n;
		out++;
	}
	return out;
}

/* ------------------------------------------------------------------------
 * By place
 */

/* Sort the extents by place.  Returns the sorted array, which is in the nodes of the tree. */
static const struct placed *sort_places(struct shingle_extents *x, struct digits *d)
{
	struct placed *from = (struct placed *)x->tree->node, *to = from + x->nr;
	u32 which, i;

	memset(d, 0, sizeof(*d));
	for (i = 0; i < x->nr; i++) {
		from[i].place = x->entry[i].place;
		from[i].i = i;
		count_digits(d, from[i].place);
		if (!(i % SHINGLE_WALK))
			cond_resched();
	}
	for (which = 0; which < DIGITS; which++) {
		u32 *position = d->nr[which];

		if (!positions(position, x->nr))
			continue;
		for (i = 0; i < x->nr; i++) {
			to[position[digit(from[i].place, which)]++] = from[i];
			if (!(i % SHINGLE_WALK))
				cond_resched();
		}
		swap(from, to);
	}
	return from;
}

/* Build the chains, and count the live units. */
static int chain(struct shingle_extents *x, struct digits *d)
{
	const struct placed *p = sort_places(x, d);
	u32 i, segment, before = SHINGLE_EXTENTS_NONE, last = SHINGLE_EXTENTS_NONE, end = 0;

	memset(x->first, 0xff, x->nr_segments * sizeof(u32));
	memset(x->last, 0xff, x->nr_segments * sizeof(u32));
	memset(x->live, 0, x->nr_segments * sizeof(u32));
	x->live_units = 0;
	for (i = 0; i < x->nr; i++) {
		struct shingle_extents_entry *e = &x->entry[p[i].i];

		if (i + AHEAD < x->nr)
			prefetchw(&x->entry[p[i + AHEAD].i]);
		if (e->place < end)
			return -EUCLEAN;
		end = e->place + e->n;
		segment = e->place / x->segment_units;
		e->prev = segment == before ? last : SHINGLE_EXTENTS_NONE;
		e->next = SHINGLE_EXTENTS_NONE;
		if (segment == before)
			x->entry[last].next = p[i].i;
		else
			x->first[segment] = p[i].i;
		last = p[i].i;
		before = segment;
		x->last[segment] = last;
		x->live[segment] += e->n;
		x->live_units += e->n;
		if (!(i % SHINGLE_WALK))
			cond_resched();
	}
	return 0;
}

/* ------------------------------------------------------------------------
 * All of it
 */

/* Give back the memory that recovery has taken beyond the size of the map. */
static int shrink(struct shingle_extents *x)
{
	struct shingle_extents_entry *entry;
	struct shingle_extents_tree *tree;

	if (x->size == x->max)
		return 0;
	entry = shingle_zalloc_array(x->max, sizeof(*entry));
	tree = shingle_extents_tree_new(x->max);
	if (!entry || !tree) {
		kvfree(entry);
		shingle_extents_tree_free(tree);
		return -ENOMEM;
	}
	memcpy(entry, x->entry, (size_t)x->nr * sizeof(*entry));
	kvfree(x->entry);
	shingle_extents_tree_free(x->tree);
	x->entry = entry;
	x->tree = tree;
	x->size = x->max;
	return 0;
}

static int build(struct shingle_extents *x, bool last, struct digits *d)
{
	bool sorted;
	u32 nr = pack(x, d, &sorted);
	int r;

	BUILD_BUG_ON(offsetof(struct shingle_extents_entry, lunit) != offsetof(struct item, lunit));
	BUILD_BUG_ON(offsetof(struct shingle_extents_entry, place) != offsetof(struct item, place));
	BUILD_BUG_ON(offsetof(struct shingle_extents_entry, n) != offsetof(struct item, n));
	if (!sorted)
		sort(x, d, nr);
	x->nr = resolve(x, nr);
	if (last) {
		if (x->nr > x->max)
			return -EUCLEAN;
		r = shrink(x);
		if (!r)
			r = chain(x, d);
		if (r)
			return r;
	}
	shingle_extents_tree_load(x->tree, x->entry, x->nr);
	x->free = SHINGLE_EXTENTS_NONE;
	shingle_extents_free_from(x, x->nr);
	x->recovering = !last;
	return 0;
}

int shingle_extents_build(struct shingle_extents *x, bool last)
{
	struct digits *d = shingle_zalloc_array(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	r = build(x, last, d);
	kvfree(d);
	return r;
}
EXPORT_SYMBOL_GPL(shingle_extents_build);
