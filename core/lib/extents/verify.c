// SPDX-License-Identifier: GPL-2.0
/* The check of an extent map for contradictions.  Pure code. */
#include "engine/engine.h"
#include "extents/extents.h"
#include "extents/tree.h"

/* May @i be the extent beside another one in the chain of @segment? */
static bool in_chain(const struct shingle_extents *x, u32 i, u32 segment)
{
	return i < x->size && x->entry[i].n && x->entry[i].place / x->segment_units == segment;
}

/* Check the tree for an extent: does it find it, and no other one within it? */
static u32 verify_tree(const struct shingle_extents *x, u32 i, shingle_report_fn report, void *ctx)
{
	const struct shingle_extents_entry *e = &x->entry[i];
	struct shingle_extents_spot spot;
	const struct shingle_extents_node *leaf;

	shingle_extents_tree_seek(x->tree, e->lunit, &spot);
	leaf = &x->tree->node[spot.node[0]];
	if (shingle_extents_tree_key(x->tree, &spot) != e->lunit ||
	    (spot.at[0] < leaf->n && leaf->val[spot.at[0]] != i)) {
		report(ctx, "extent %u of unit %u is not in the tree", i, e->lunit);
		return 1;
	}
	shingle_extents_tree_seek(x->tree, e->lunit + 1, &spot);
	if (shingle_extents_tree_key(x->tree, &spot) - e->lunit < e->n) {
		report(ctx, "extent %u has %u units from %u on and overlaps the next one", i, e->n,
		       e->lunit);
		return 1;
	}
	return 0;
}

/* Check the chain of a segment beside an extent. */
static u32 verify_chain(const struct shingle_extents *x, u32 i, shingle_report_fn report,
			void *ctx)
{
	const struct shingle_extents_entry *e = &x->entry[i];
	u32 segment = e->place / x->segment_units;
	bool first = e->prev == SHINGLE_EXTENTS_NONE, last = e->next == SHINGLE_EXTENTS_NONE;

	if (first ? x->first[segment] != i :
		    !in_chain(x, e->prev, segment) || x->entry[e->prev].next != i) {
		report(ctx, "extent %u is not behind extent %u in segment %u", i, e->prev,
		       segment);
		return 1;
	}
	if (last ? x->last[segment] != i :
		   !in_chain(x, e->next, segment) || x->entry[e->next].prev != i ||
		   x->entry[e->next].place < e->place + e->n) {
		report(ctx, "extent %u is not before extent %u in segment %u", i, e->next,
		       segment);
		return 1;
	}
	return 0;
}

static u32 verify_extent(const struct shingle_extents *x, u32 i, shingle_report_fn report,
			 void *ctx)
{
	const struct shingle_extents_entry *e = &x->entry[i];

	if (!e->n)
		return 0;
	if (e->place >= x->nr_segments * x->segment_units ||
	    e->n > x->segment_units - e->place % x->segment_units || e->n > U32_MAX - e->lunit) {
		report(ctx, "extent %u has %u units at place %u, which is not in a segment", i,
		       e->n, e->place);
		return 1;
	}
	return verify_tree(x, i, report, ctx) + verify_chain(x, i, report, ctx);
}

/*
 * Check the number of live units of a segment.  A chain that is longer than one call may visit is
 * checked at its beginning only, since changes may come before the next call.
 */
static u32 verify_segment(const struct shingle_extents *x, u32 segment, u32 *most,
			  shingle_report_fn report, void *ctx)
{
	u32 i = x->first[segment], live = 0, n;

	for (n = 0; i != SHINGLE_EXTENTS_NONE && n < SHINGLE_WALK; n++) {
		if (!in_chain(x, i, segment)) {
			report(ctx, "segment %u has extent %u, which is not in it", segment, i);
			return 1;
		}
		live += x->entry[i].n;
		i = x->entry[i].next;
	}
	*most -= min(*most, n + 1);
	if (i == SHINGLE_EXTENTS_NONE ? live != x->live[segment] :
					live >= x->live[segment] ||
					x->live[segment] > x->segment_units) {
		report(ctx, "segment %u counts %u live units, its extents have %u", segment,
		       x->live[segment], live);
		return 1;
	}
	return 0;
}

/* The cursor is the number of an extent, then the number of a segment behind all of these. */
u32 shingle_extents_verify(const struct shingle_extents *x, u64 *cursor, shingle_report_fn report,
			   void *ctx)
{
	u64 end = (u64)x->size + x->nr_segments;
	u32 most = SHINGLE_WALK, bad = 0;

	while (*cursor < end && most) {
		u64 at = (*cursor)++;

		if (at < x->size) {
			bad += verify_extent(x, at, report, ctx);
			most--;
		} else {
			bad += verify_segment(x, at - x->size, &most, report, ctx);
		}
	}
	if (*cursor < end)
		return bad;
	*cursor = SHINGLE_NOWHERE;
	if (x->nr > x->max) {
		report(ctx, "%u extents are in use, and at most %u may be", x->nr, x->max);
		bad++;
	}
	return bad;
}
EXPORT_SYMBOL_GPL(shingle_extents_verify);
