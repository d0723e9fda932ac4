/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An extent map: where each stretch of a logical address space is in a log.  Pure.
 *
 * The log is divided into segments of equal size.  Logical addresses, places and lengths are
 * 32-bit numbers of units; the map does not know the size of a unit.  A place is the number of a
 * unit in the log: segment * segment_units + offset.  An extent lies within one segment.
 *
 * Extents are entries of an arena that is allocated once.  A B+tree finds them by logical address,
 * and the extents of each segment form a chain by ascending place, so that cleaning visits the
 * content of a segment without a reverse tree.
 *
 * An extent keeps its index in the arena until all of it is overwritten or dropped.  A checkpoint
 * contains the arena by index, in parts that may be from different moments, and the records of all
 * changes since the first of these moments are replayed onto it.  So a change must leave enough in
 * its record to restore what a part lacks:
 *
 * - Two extents never become one.  A write that continues the extent before it, logically and in
 *   place, extends that one.
 * - A change in the middle of an extent splits it: the left part keeps the index, the right part
 *   gets a new one.  The change reports that right part (struct shingle_extents_rest), and its
 *   record must contain it.  Otherwise it is lost if the checkpoint holds the old index after the
 *   split and the new index before it.
 *
 * Recovery may find two extents over the same units.  Such units have changed since the
 * checkpoint began, so a record restores them; shingle_extents_build() keeps either.  Changes
 * between its two calls may need more than @max extents for a moment, so they allocate memory, and
 * there are no chains and no live counts until the second call.
 */
#ifndef SHINGLE_EXTENTS_H
#define SHINGLE_EXTENTS_H

#include "pure.h"

/* No place, no extent, no segment. */
#define SHINGLE_EXTENTS_NONE	U32_MAX

/* Most extents of a map: an array has at most INT_MAX bytes. */
#define SHINGLE_EXTENTS_MAX	(INT_MAX / 20U)

/* Extents in one part of a checkpoint.  Tests define a smaller value. */
#ifndef PART_EXTENTS
#define PART_EXTENTS		336U
#endif

/* Most extents that one shingle_extents_set() or shingle_extents_drop() adds. */
#define SHINGLE_EXTENTS_SET	2U
#define SHINGLE_EXTENTS_DROP	1U

/**
 * struct shingle_extents_entry - an extent
 * @lunit: first logical unit
 * @place: its place
 * @n: length, 0 if the entry is free
 * @prev: extent before it in its segment, or SHINGLE_EXTENTS_NONE
 * @next: extent behind it in its segment, or the next free entry; or SHINGLE_EXTENTS_NONE
 */
struct shingle_extents_entry {
	u32 lunit;
	u32 place;
	u32 n;
	u32 prev;
	u32 next;
};

/**
 * struct shingle_extents_rest - the right part of an extent that a change has split
 * @lunit: first logical unit
 * @place: its place
 * @n: length, 0 if nothing was split
 */
struct shingle_extents_rest {
	u32 lunit;
	u32 place;
	u32 n;
};

/*
 * A change calls it for each entry that it writes, to mark its part of the checkpoint.  During
 * recovery no change does: the next checkpoint contains all parts.
 */
typedef void (*shingle_extents_changed_fn)(void *ctx, u32 index);

/*
 * Called when the last extent of a segment has left it, before the change that did so returns.
 * May not change the map.
 */
typedef void (*shingle_extents_emptied_fn)(void *ctx, u32 segment);

struct shingle_extents_tree;

/**
 * struct shingle_extents - an extent map
 * @entry: the arena
 * @size: number of entries of the arena; @max, or more during recovery
 * @max: most extents in use
 * @nr: extents in use
 * @reserved: extents that operations to come may add
 * @free: first free entry, or SHINGLE_EXTENTS_NONE
 * @recovering: the recovery has more changes to make: there are no chains, @live is not valid
 * @tree: finds an extent by its logical address
 * @nr_segments: number of segments
 * @segment_units: their size
 * @first: for each segment the extent at the lowest place, or SHINGLE_EXTENTS_NONE
 * @last: for each segment the extent at the highest place, or SHINGLE_EXTENTS_NONE
 * @live: for each segment the number of units that extents refer to
 * @live_units: sum of @live
 * @changed: see shingle_extents_changed_fn, may be NULL
 * @emptied: see shingle_extents_emptied_fn, may be NULL
 * @ctx: for @changed and @emptied
 */
struct shingle_extents {
	struct shingle_extents_entry *entry;
	u32 size;
	u32 max;
	u32 nr;
	u32 reserved;
	u32 free;
	bool recovering;
	struct shingle_extents_tree *tree;
	u32 nr_segments;
	u32 segment_units;
	u32 *first;
	u32 *last;
	u32 *live;
	u64 live_units;
	shingle_extents_changed_fn changed;
	shingle_extents_emptied_fn emptied;
	void *ctx;
};

int shingle_extents_init(struct shingle_extents *x, u32 max, u32 nr_segments, u32 segment_units);
void shingle_extents_exit(struct shingle_extents *x);
u64 shingle_extents_bytes(const struct shingle_extents *x);

/**
 * shingle_extents_reserve() - reserve entries for operations to come
 * @x: the map
 * @n: number of entries
 *
 * Context: any.
 * Return: false if the arena has no room for them.
 */
static inline bool shingle_extents_reserve(struct shingle_extents *x, u32 n)
{
	if (n > x->max - min(x->max, x->nr + x->reserved))
		return false;
	x->reserved += n;
	return true;
}

/**
 * shingle_extents_unreserve() - the operation has ended, or will not come
 * @x: the map
 * @n: as for shingle_extents_reserve()
 *
 * Context: any.
 */
static inline void shingle_extents_unreserve(struct shingle_extents *x, u32 n)
{
	x->reserved -= n;
}

/**
 * shingle_extents_find() - where are these units?
 * @x: the map
 * @lunit: first logical unit
 * @n: number of units, at least 1
 * @place: result: place of @lunit, or SHINGLE_EXTENTS_NONE if it is not mapped
 *
 * Two extents that follow each other logically and in place within one segment are one run.
 *
 * Context: any.
 * Return: length of the run of @lunit, 1 to @n: units at consecutive places, or unmapped units.
 */
u32 shingle_extents_find(const struct shingle_extents *x, u32 lunit, u32 n, u32 *place);

/**
 * shingle_extents_at() - the extent that contains a unit
 * @x: the map
 * @lunit: logical unit
 *
 * Context: any.
 * Return: its index; if no extent contains @lunit, that of the next one; SHINGLE_EXTENTS_NONE if
 * there is none.
 */
u32 shingle_extents_at(const struct shingle_extents *x, u32 lunit);

/**
 * shingle_extents_set() - map units to a place
 * @x: the map, with SHINGLE_EXTENTS_SET entries reserved unless it is being recovered
 * @lunit: first logical unit
 * @n: number of units, at least 1, at consecutive places of one segment
 * @place: place of @lunit
 * @rest: result, see struct shingle_extents_rest
 *
 * Context: any.
 * Return: 0; -ENOMEM during recovery only.
 */
int shingle_extents_set(struct shingle_extents *x, u32 lunit, u32 n, u32 place,
			struct shingle_extents_rest *rest);

/**
 * shingle_extents_drop() - unmap units
 * @x: the map, with SHINGLE_EXTENTS_DROP entries reserved unless it is being recovered
 * @lunit: first logical unit
 * @n: number of units, at least 1
 * @most: look at this number of extents at most, at least 1
 * @dropped: result: were any of them mapped?
 * @rest: result, see struct shingle_extents_rest
 *
 * Context: any.
 * Return: number of units done, 1 to @n; 0 if there is no memory, during recovery only.
 */
u32 shingle_extents_drop(struct shingle_extents *x, u32 lunit, u32 n, u32 most, bool *dropped,
			 struct shingle_extents_rest *rest);

/* Number of parts of a checkpoint. */
static inline u32 shingle_extents_parts(u32 max)
{
	return DIV_ROUND_UP(max, PART_EXTENTS);
}

/**
 * shingle_extents_encode() - write a part of the arena
 * @x: the map
 * @part: its number
 * @buf: receives it: of each extent lunit, place and n, little-endian; without the free entries at
 *	the end
 *
 * Context: any.
 * Return: size in bytes, 0 if all entries are free.
 */
u32 shingle_extents_encode(const struct shingle_extents *x, u32 part, void *buf);

/**
 * shingle_extents_decode() - restore a part of the arena
 * @x: a map in which only shingle_extents_decode() has been called
 * @part: its number
 * @buf: see shingle_extents_encode()
 * @bytes: its size
 * @lunits: size of the logical address space
 *
 * Context: recovery.
 * Return: 0, or -EUCLEAN if it is invalid.
 */
int shingle_extents_decode(struct shingle_extents *x, u32 part, const void *buf, u32 bytes,
			   u32 lunits);

/**
 * shingle_extents_build() - build the tree and the chains
 * @x: the map, after shingle_extents_decode(), or after changes during recovery
 * @last: the recovery has made its last change
 *
 * Call it before the first change, and after the last change of a recovery: then the number of
 * extents is the least possible, and indices are below @x->max.  Indices change: all parts must be
 * written by the next checkpoint.
 *
 * Context: recovery, may sleep.
 * Return: 0; -ENOMEM; -EUCLEAN if two extents share a place, or there are more than @x->max, which
 * can be so only after the last change, so call it with @last set there.
 */
int shingle_extents_build(struct shingle_extents *x, bool last);

/**
 * shingle_extents_verify() - check a part of the map
 * @x: the map
 * @cursor: 0 at first; SHINGLE_NOWHERE after the last part.  Changes may come between
 * @report: called with a sentence for each contradiction
 * @ctx: for @report
 *
 * Context: any; looks at SHINGLE_WALK entries.
 * Return: number of contradictions.
 */
u32 shingle_extents_verify(const struct shingle_extents *x, u64 *cursor,
			   void (*report)(void *ctx, const char *fmt, ...) __printf(2, 3),
			   void *ctx);

#endif /* SHINGLE_EXTENTS_H */
