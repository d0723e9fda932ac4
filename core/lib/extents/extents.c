// SPDX-License-Identifier: GPL-2.0
/* An extent map, see extents.h.  Pure code. */
#include "engine/engine.h"
#include "extents/extents.h"
#include "extents/arena.h"
#include "extents/tree.h"

/* An extent in a checkpoint. */
struct extent_on_disk {
	__le32 lunit;
	__le32 place;
	__le32 n;
};

/**
 * shingle_extents_init() - make an empty map
 * @x: the map
 * @max: most extents, at most SHINGLE_EXTENTS_MAX
 * @nr_segments: number of segments
 * @segment_units: units in each; the log has less than SHINGLE_EXTENTS_NONE units
 *
 * Context: may sleep.
 * Return: 0, -EINVAL or -ENOMEM.
 */
int shingle_extents_init(struct shingle_extents *x, u32 max, u32 nr_segments, u32 segment_units)
{
	memset(x, 0, sizeof(*x));
	BUILD_BUG_ON((u64)SHINGLE_EXTENTS_MAX * sizeof(*x->entry) > INT_MAX);
	if (!max || max > SHINGLE_EXTENTS_MAX || !nr_segments || !segment_units ||
	    (u64)nr_segments * segment_units >= SHINGLE_EXTENTS_NONE)
		return -EINVAL;
	x->size = max;
	x->max = max;
	x->nr_segments = nr_segments;
	x->segment_units = segment_units;
	x->entry = shingle_zalloc_array(max, sizeof(*x->entry));
	x->first = shingle_zalloc_array(nr_segments, sizeof(u32));
	x->last = shingle_zalloc_array(nr_segments, sizeof(u32));
	x->live = shingle_zalloc_array(nr_segments, sizeof(u32));
	x->tree = shingle_extents_tree_new(max);
	if (!x->entry || !x->first || !x->last || !x->live || !x->tree) {
		shingle_extents_exit(x);
		return -ENOMEM;
	}
	memset(x->first, 0xff, nr_segments * sizeof(u32));
	memset(x->last, 0xff, nr_segments * sizeof(u32));
	x->free = SHINGLE_EXTENTS_NONE;
	shingle_extents_free_from(x, 0);
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_extents_init);

/**
 * shingle_extents_exit() - free a map's memory
 * @x: the map; shingle_extents_init() may have failed
 *
 * Context: may sleep.
 */
void shingle_extents_exit(struct shingle_extents *x)
{
	kvfree(x->entry);
	kvfree(x->first);
	kvfree(x->last);
	kvfree(x->live);
	shingle_extents_tree_free(x->tree);
	memset(x, 0, sizeof(*x));
}
EXPORT_SYMBOL_GPL(shingle_extents_exit);

/**
 * shingle_extents_bytes() - the memory of a map
 * @x: the map
 *
 * Context: any.
 * Return: bytes.
 */
u64 shingle_extents_bytes(const struct shingle_extents *x)
{
	return (u64)x->size * sizeof(*x->entry) + (u64)x->nr_segments * 3 * sizeof(u32) +
	       shingle_extents_tree_bytes(x->tree);
}
EXPORT_SYMBOL_GPL(shingle_extents_bytes);

/* ------------------------------------------------------------------------
 * Search
 */

/* The last extent that begins at @lunit or before it, and the next one. */
static void around(const struct shingle_extents *x, u32 lunit, u32 *floor, u32 *next)
{
	const struct shingle_extents_node *leaf;
	u32 at, i = shingle_extents_tree_upto(x->tree, lunit, &at);

	leaf = &x->tree->node[i];
	if (at)
		*floor = leaf->val[at - 1];
	else
		*floor = leaf->prev == NO_NODE ? SHINGLE_EXTENTS_NONE :
			 shingle_extents_tree_last(x->tree, leaf->prev);
	if (at < leaf->n)
		*next = leaf->val[at];
	else
		*next = leaf->next == NO_NODE ? SHINGLE_EXTENTS_NONE :
						x->tree->node[leaf->next].val[0];
}

u32 shingle_extents_find(const struct shingle_extents *x, u32 lunit, u32 n, u32 *place)
{
	const struct shingle_extents_entry *e, *f;
	u32 floor, next, run;

	around(x, lunit, &floor, &next);
	if (floor == SHINGLE_EXTENTS_NONE || lunit - x->entry[floor].lunit >= x->entry[floor].n) {
		*place = SHINGLE_EXTENTS_NONE;
		return next == SHINGLE_EXTENTS_NONE ? n : min(n, x->entry[next].lunit - lunit);
	}
	e = &x->entry[floor];
	*place = e->place + (lunit - e->lunit);
	run = e->n - (lunit - e->lunit);
	while (run < n && next != SHINGLE_EXTENTS_NONE) {
		f = &x->entry[next];
		if (!shingle_extents_continue(x, e, f->lunit, f->place))
			break;
		run += f->n;
		e = f;
		around(x, e->lunit, &floor, &next);
	}
	return min(run, n);
}
EXPORT_SYMBOL_GPL(shingle_extents_find);

u32 shingle_extents_at(const struct shingle_extents *x, u32 lunit)
{
	u32 floor, next;

	around(x, lunit, &floor, &next);
	if (floor != SHINGLE_EXTENTS_NONE && lunit - x->entry[floor].lunit < x->entry[floor].n)
		return floor;
	return next;
}
EXPORT_SYMBOL_GPL(shingle_extents_at);

/* ------------------------------------------------------------------------
 * The arena and the chains
 */

/**
 * shingle_extents_free_from() - make all entries from one on free
 * @x: the map
 * @from: the first one
 *
 * The lowest is used first.
 *
 * Context: may sleep.
 */
void shingle_extents_free_from(struct shingle_extents *x, u32 from)
{
	u32 i, old = x->free;

	if (from == x->size)
		return;
	for (i = from; i < x->size; i++) {
		x->entry[i].lunit = 0;
		x->entry[i].place = 0;
		x->entry[i].n = 0;
		x->entry[i].prev = SHINGLE_EXTENTS_NONE;
		x->entry[i].next = i + 1;
		if (!(i % SHINGLE_WALK))
			cond_resched();
	}
	x->entry[x->size - 1].next = old;
	x->free = from;
}

/* During recovery the arena may have more entries than the checkpoint has room for. */
static void changed(struct shingle_extents *x, u32 i)
{
	if (x->changed && !x->recovering)
		x->changed(x->ctx, i);
}

static void count_live(struct shingle_extents *x, u32 place, u32 add, u32 sub)
{
	u32 segment = place / x->segment_units;

	if (x->recovering)
		return;
	x->live[segment] += add - sub;
	x->live_units += add;
	x->live_units -= sub;
	if (sub && !x->live[segment] && x->emptied)
		x->emptied(x->ctx, segment);
}

/* Insert an extent into the chain of its segment, behind @prev or as the first. */
static void link_behind(struct shingle_extents *x, u32 i, u32 prev)
{
	struct shingle_extents_entry *e = &x->entry[i];
	u32 segment = e->place / x->segment_units;

	e->prev = prev;
	if (prev == SHINGLE_EXTENTS_NONE) {
		e->next = x->first[segment];
		x->first[segment] = i;
	} else {
		e->next = x->entry[prev].next;
		x->entry[prev].next = i;
	}
	if (e->next == SHINGLE_EXTENTS_NONE)
		x->last[segment] = i;
	else
		x->entry[e->next].prev = i;
}

/* Insert an extent into the chain of its segment.  Its place is most often the highest. */
static void link_by_place(struct shingle_extents *x, u32 i)
{
	u32 place = x->entry[i].place, prev = x->last[place / x->segment_units];

	while (prev != SHINGLE_EXTENTS_NONE && x->entry[prev].place > place)
		prev = x->entry[prev].prev;
	link_behind(x, i, prev);
}

static void unchain(struct shingle_extents *x, u32 i)
{
	struct shingle_extents_entry *e = &x->entry[i];
	u32 segment = e->place / x->segment_units;

	if (e->prev == SHINGLE_EXTENTS_NONE)
		x->first[segment] = e->next;
	else
		x->entry[e->prev].next = e->next;
	if (e->next == SHINGLE_EXTENTS_NONE)
		x->last[segment] = e->prev;
	else
		x->entry[e->next].prev = e->prev;
}

/* An extent has lost all its units. */
static void release(struct shingle_extents *x, u32 i)
{
	struct shingle_extents_entry *e = &x->entry[i];

	count_live(x, e->place, 0, e->n);
	if (!x->recovering)
		unchain(x, i);
	e->lunit = 0;
	e->place = 0;
	e->n = 0;
	e->next = x->free;
	x->free = i;
	x->nr--;
	changed(x, i);
}

/* Take a free entry; the caller has reserved it. */
static u32 take(struct shingle_extents *x)
{
	u32 i = x->free;

	x->free = x->entry[i].next;
	x->nr++;
	return i;
}

/* Write an entry that is in no chain. */
static void fill(struct shingle_extents *x, u32 i, u32 lunit, u32 n, u32 place)
{
	struct shingle_extents_entry *e = &x->entry[i];

	e->lunit = lunit;
	e->place = place;
	e->n = n;
	count_live(x, place, n, 0);
	if (!x->recovering)
		link_by_place(x, i);
	changed(x, i);
}

/* An extent ends at @end from now on. */
static void cut_tail(struct shingle_extents *x, u32 i, u32 end)
{
	struct shingle_extents_entry *e = &x->entry[i];
	u32 n = end - e->lunit;

	count_live(x, e->place, 0, e->n - n);
	e->n = n;
	changed(x, i);
}

/* An extent begins at @lunit from now on. */
static void cut_head(struct shingle_extents *x, u32 i, u32 lunit)
{
	struct shingle_extents_entry *e = &x->entry[i];
	u32 n = lunit - e->lunit;

	count_live(x, e->place, 0, n);
	e->lunit += n;
	e->place += n;
	e->n -= n;
	changed(x, i);
}

/* Split an extent: take out the units from @from to @end, which are in the middle of it. */
static void cut_middle(struct shingle_extents *x, u32 i, u32 from, u32 end,
		       struct shingle_extents_rest *rest)
{
	struct shingle_extents_entry *e = &x->entry[i], *right;
	struct shingle_extents_spot spot;
	u32 other = take(x);

	rest->lunit = end;
	rest->place = e->place + (end - e->lunit);
	rest->n = e->n - (end - e->lunit);
	count_live(x, e->place, 0, end - from);
	e->n = from - e->lunit;
	right = &x->entry[other];
	right->lunit = rest->lunit;
	right->place = rest->place;
	right->n = rest->n;
	if (!x->recovering)
		link_behind(x, other, i);
	shingle_extents_tree_seek(x->tree, end, &spot);
	shingle_extents_tree_insert(x->tree, &spot, end, other);
	changed(x, i);
	changed(x, other);
}

/* ------------------------------------------------------------------------
 * Changes
 */

/*
 * Remove from one leaf the extents that begin at *@from or above and below @end.  The last one may
 * end behind @end, and loses its head.  Visits at most *@most.  Returns whether there may be more;
 * if not, *@from becomes the logical address below which all is done.
 */
static bool clear_leaf(struct shingle_extents *x, u32 *from, u32 end, u32 *most)
{
	struct shingle_extents_spot spot;
	struct shingle_extents_node *leaf;
	u32 at, nr = 0, last = SHINGLE_EXTENTS_NONE;
	bool more;

	shingle_extents_tree_seek(x->tree, *from, &spot);
	leaf = &x->tree->node[spot.node[0]];
	if (spot.at[0] == leaf->n) {
		*from = min(shingle_extents_tree_key(x->tree, &spot), end);
		return *from < end;
	}
	for (at = spot.at[0]; at < leaf->n && leaf->key[at] < end && *most; at++) {
		u32 i = leaf->val[at];

		--*most;
		if (x->entry[i].n > end - leaf->key[at]) {
			last = i;
			break;
		}
		release(x, i);
		nr++;
	}
	more = at == leaf->n;
	if (!more)
		*from = min(leaf->key[at], end);
	if (nr)
		shingle_extents_tree_remove(x->tree, &spot, nr);
	if (last != SHINGLE_EXTENTS_NONE) {
		shingle_extents_tree_seek(x->tree, x->entry[last].lunit, &spot);
		cut_head(x, last, end);
		shingle_extents_tree_raise(x->tree, &spot, end);
		*from = end;
	}
	return more;
}

/* Remove extents that begin from @from on, or the heads of them, up to @end. */
static void clear(struct shingle_extents *x, u32 from, u32 end)
{
	u32 most = U32_MAX;

	while (clear_leaf(x, &from, end, &most))
		;
}

/*
 * Recovery only: make room for @n more extents.  The extents of parts from different moments may be
 * more than there ever were at one moment.
 */
static int make_room(struct shingle_extents *x, u32 n)
{
	struct shingle_extents_entry *entry;
	u32 old = x->size, size = old + max(old / 4, 64U);

	if (old - x->nr >= n)
		return 0;
	if (size > SHINGLE_EXTENTS_MAX || shingle_extents_tree_grow(x->tree, size))
		return -ENOMEM;
	entry = shingle_zalloc_array(size, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	memcpy(entry, x->entry, (size_t)old * sizeof(*entry));
	kvfree(x->entry);
	x->entry = entry;
	x->size = size;
	shingle_extents_free_from(x, old);
	return 0;
}

/* Recovery only: is it mapped already, as the record of a change before the checkpoint demands? */
static bool mapped(const struct shingle_extents *x, u32 lunit, u32 n, u32 place)
{
	u32 at;

	return shingle_extents_find(x, lunit, n, &at) == n && at == place;
}

/* Begin to load the entry at a position, while the one before it is looked at. */
static void prefetch_at(const struct shingle_extents *x, const struct shingle_extents_spot *spot)
{
	const struct shingle_extents_node *leaf = &x->tree->node[spot->node[0]];

	if (spot->at[0] < leaf->n)
		prefetchw(&x->entry[leaf->val[spot->at[0]]]);
}

/*
 * Map units that no extent before @spot contains.  An extent that is overwritten as a whole gives
 * its entry and its position in the tree to the new one.
 */
static void put(struct shingle_extents *x, struct shingle_extents_spot *spot, u32 lunit, u32 n,
		u32 place)
{
	struct shingle_extents_node *leaf = &x->tree->node[spot->node[0]];
	u32 at = spot->at[0], end = lunit + n, i;

	if (at < leaf->n && leaf->key[at] < end) {
		i = leaf->val[at];
		if (x->entry[i].n <= end - leaf->key[at]) {
			count_live(x, x->entry[i].place, 0, x->entry[i].n);
			if (!x->recovering)
				unchain(x, i);
			leaf->key[at] = lunit;
			if (at + 1 == leaf->n || leaf->key[at + 1] < end)
				clear(x, lunit + 1, end);
			fill(x, i, lunit, n, place);
			return;
		}
		cut_head(x, i, end);
		if (!shingle_extents_tree_raise(x->tree, spot, end))
			shingle_extents_tree_seek(x->tree, lunit, spot);
	} else if (shingle_extents_tree_key(x->tree, spot) < end) {
		clear(x, lunit, end);
		shingle_extents_tree_seek(x->tree, lunit, spot);
	}
	i = take(x);
	fill(x, i, lunit, n, place);
	shingle_extents_tree_insert(x->tree, spot, lunit, i);
}

int shingle_extents_set(struct shingle_extents *x, u32 lunit, u32 n, u32 place,
			struct shingle_extents_rest *rest)
{
	u32 end = lunit + n, left;
	struct shingle_extents_spot spot;
	struct shingle_extents_entry *e;

	rest->n = 0;
	if (x->recovering) {
		if (make_room(x, SHINGLE_EXTENTS_SET))
			return -ENOMEM;
		if (mapped(x, lunit, n, place))
			return 0;
	}
	shingle_extents_tree_seek(x->tree, lunit, &spot);
	left = shingle_extents_tree_before(x->tree, &spot);
	prefetch_at(x, &spot);
	if (left != SHINGLE_EXTENTS_NONE) {
		e = &x->entry[left];
		if (e->n > end - e->lunit) {
			cut_middle(x, left, lunit, end, rest);
			shingle_extents_tree_seek(x->tree, lunit, &spot);
		} else if (e->n > lunit - e->lunit) {
			cut_tail(x, left, lunit);
		}
		if (shingle_extents_continue(x, e, lunit, place)) {
			if (shingle_extents_tree_key(x->tree, &spot) < end)
				clear(x, lunit, end);
			e->n += n;
			count_live(x, place, n, 0);
			changed(x, left);
			return 0;
		}
	}
	put(x, &spot, lunit, n, place);
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_extents_set);

u32 shingle_extents_drop(struct shingle_extents *x, u32 lunit, u32 n, u32 most, bool *dropped,
			 struct shingle_extents_rest *rest)
{
	u32 from = lunit, end = lunit + n, floor, next, before;
	struct shingle_extents_entry *e;

	rest->n = 0;
	*dropped = false;
	if (x->recovering && make_room(x, SHINGLE_EXTENTS_DROP))
		return 0;
	around(x, lunit, &floor, &next);
	e = floor == SHINGLE_EXTENTS_NONE ? NULL : &x->entry[floor];
	if (e && e->lunit < lunit && e->n > lunit - e->lunit) {
		*dropped = true;
		if (e->n > end - e->lunit) {
			cut_middle(x, floor, lunit, end, rest);
			return n;
		}
		cut_tail(x, floor, lunit);
		most--;
	}
	before = most;
	while (clear_leaf(x, &from, end, &most))
		;
	*dropped |= most != before;
	return from - lunit;
}
EXPORT_SYMBOL_GPL(shingle_extents_drop);

/* ------------------------------------------------------------------------
 * Checkpoints
 */

u32 shingle_extents_encode(const struct shingle_extents *x, u32 part, void *buf)
{
	u32 first = part * PART_EXTENTS, nr = min(PART_EXTENTS, x->max - first), i;
	struct extent_on_disk *to = buf;

	while (nr && !x->entry[first + nr - 1].n)
		nr--;
	for (i = 0; i < nr; i++) {
		const struct shingle_extents_entry *e = &x->entry[first + i];

		to[i].lunit = cpu_to_le32(e->lunit);
		to[i].place = cpu_to_le32(e->place);
		to[i].n = cpu_to_le32(e->n);
	}
	return nr * sizeof(*to);
}
EXPORT_SYMBOL_GPL(shingle_extents_encode);

static bool valid(const struct shingle_extents *x, u32 lunit, u32 n, u32 place, u32 lunits)
{
	if (!n)
		return !lunit && !place;
	return n <= lunits && lunit <= lunits - n &&
	       place < x->nr_segments * x->segment_units &&
	       n <= x->segment_units - place % x->segment_units;
}

int shingle_extents_decode(struct shingle_extents *x, u32 part, const void *buf, u32 bytes,
			   u32 lunits)
{
	const struct extent_on_disk *from = buf;
	u32 first = part * PART_EXTENTS, nr = bytes / sizeof(*from), i;

	x->recovering = true;
	if (part >= shingle_extents_parts(x->max) || bytes % sizeof(*from) ||
	    nr > min(PART_EXTENTS, x->max - first))
		return -EUCLEAN;
	for (i = 0; i < nr; i++) {
		struct shingle_extents_entry *e = &x->entry[first + i];

		e->lunit = le32_to_cpu(from[i].lunit);
		e->place = le32_to_cpu(from[i].place);
		e->n = le32_to_cpu(from[i].n);
		if (!valid(x, e->lunit, e->n, e->place, lunits))
			return -EUCLEAN;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_extents_decode);
