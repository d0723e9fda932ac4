// SPDX-License-Identifier: GPL-2.0
/*
 * Tiler: where a write goes, beside the thesis.  Pure code, see tiler-region.h.
 *
 * Ma (2019), Algorithm 3:
 *
 *	if Logging write				tiler_state()
 *		P-ARO = next free data block		place_log()
 *		write data, update the DMT		tiler_commit()
 *	if Lazy write
 *		P-ARO = a schedulable data block	place_lazy()
 *		write data, update the DMT		tiler_commit()
 *	else
 *		trigger a common cleaning		-ENOSPC; the write comes again (T6)
 *
 * A block is schedulable if it and the k - 1 blocks below it in its column are invalid (section
 * 3.3.3).  Rows below the last one hold nothing.  An old block counts as valid until a map
 * without it is durable (T1).  Schedulable blocks are taken in ascending rows, round and round,
 * so that a run of invalid rows serves as many writes as it can.  The region is cleaned when a
 * whole turn has found none and, if blocks wait for a commit, another turn after that commit.
 */
#include "tiler-region.h"

/**
 * tiler_take() - give out places
 * @r: the region
 * @slot: of this slot
 * @paro: first
 * @n: how many, all in one row
 * @out: result
 *
 * Context: under the map lock.
 */
void tiler_take(struct tiler_region *r, struct tiler_slot *slot, u32 paro, u32 n,
		struct tiler_run *out)
{
	out->slot = slot;
	out->paro = paro;
	out->n = n;
	tiler_set_cells(r->shape, slot->taken, paro, n);
	r->inflight += n;
}

/* In order along the row, then the next row (Figure 3.6). */
static int place_log(struct tiler_region *r, u32 n, struct tiler_run *out)
{
	struct tiler_slot *slot = r->at;
	u32 paro = slot->fill;

	n = min(n, tiler_run_rest(r->shape, slot, paro));
	slot->fill += n;
	r->count->log_blocks += n;
	tiler_take(r, slot, paro, n, out);
	return 0;
}

/* A bit for each cell from @at on: nothing is there.  Nor is behind the last row. */
static unsigned long empty_cells(const unsigned long *taken, u32 blocks, u32 at)
{
	u32 word = at / BITS_PER_LONG, shift = at % BITS_PER_LONG;
	unsigned long bits;

	if (at >= blocks)
		return ~0UL;
	bits = taken[word] >> shift;
	if (shift && word + 1 < BITS_TO_LONGS(blocks))
		bits |= taken[word + 1] << (BITS_PER_LONG - shift);
	return ~bits;
}

/* A bit for each cell from @at on: it is schedulable, or behind the last one. */
static unsigned long schedulable_cells(const struct tiler_region *r, u32 at)
{
	u32 blocks = tiler_blocks(r->shape), i;
	unsigned long bits = ~0UL;

	for (i = 0; bits && i < r->shape->head_tracks; i++)
		bits &= empty_cells(r->at->taken, blocks, at + i * r->shape->columns);
	return bits;
}

/**
 * tiler_is_schedulable() - would the head destroy nothing if it wrote there?
 * @r: the region
 * @paro: a place of the slot where it is
 *
 * Context: under the map lock.
 */
bool tiler_is_schedulable(const struct tiler_region *r, u32 paro)
{
	return schedulable_cells(r, tiler_cell(r->shape, paro)) & 1;
}

/* The first schedulable cell in [@from, @to), or @to: 2 * k words are read for each 64 cells. */
static u32 next_schedulable(const struct tiler_region *r, u32 from, u32 to)
{
	unsigned long bits;

	for (; from < to; from += BITS_PER_LONG) {
		bits = schedulable_cells(r, from);
		if (bits)
			return min_t(u32, to, from + __ffs(bits));
	}
	return to;
}

/*
 * A turn from the cursor on, round and round.  It is in two parts, each of which may begin or
 * end inside of 64 cells: they are 1,025 times 64 at most, and 2,050 * k words are read.
 */
static bool find_schedulable(const struct tiler_region *r, u32 *cell)
{
	u32 blocks = tiler_blocks(r->shape);

	*cell = next_schedulable(r, r->cursor, blocks);
	if (*cell < blocks)
		return true;
	*cell = next_schedulable(r, 0, r->cursor);
	return *cell < r->cursor;
}

/* How many of @n cells from @cell on can be written as one run? */
static u32 schedulable_run(const struct tiler_region *r, u32 cell, u32 n)
{
	unsigned long rest = ~schedulable_cells(r, cell);

	n = min3(n, r->shape->columns - cell % r->shape->columns,
		 tiler_run_rest(r->shape, r->at, tiler_paro(r->shape, cell)));
	return rest ? min_t(u32, n, __ffs(rest)) : min_t(u32, n, BITS_PER_LONG);
}

/**
 * tiler_is_full() - has a region no room, now or after a commit, but by a clean?
 * @r: the region, which is not being cleaned
 *
 * Context: under the map lock.
 */
bool tiler_is_full(struct tiler_region *r)
{
	u32 cell;

	if (tiler_state(r) != TILER_LAZY || !r->shape->lazy)
		return tiler_state(r) == TILER_LAZY;
	return !r->inflight && !tiler_pinned(r->at) && (r->dry || !find_schedulable(r, &cell));
}

static int place_lazy(struct tiler_region *r, u32 n, struct tiler_run *out)
{
	u32 cell;

	if (!r->shape->lazy)
		return -ENOSPC;
	if (!r->dry && find_schedulable(r, &cell)) {
		n = schedulable_run(r, cell, n);
		r->cursor = (cell + n) % tiler_blocks(r->shape);
		r->count->lazy_blocks += n;
		tiler_take(r, r->at, tiler_paro(r->shape, cell), n, out);
		return 0;
	}
	if (!r->inflight && !tiler_pinned(r->at)) {
		r->dry = true;
		return -ENOSPC;
	}
	r->count->commit_waits += !r->dry;
	r->dry = true;
	return -EBUSY;
}

/**
 * tiler_place() - find room to write blocks
 * @r: the region, all its pages there
 * @laro: first
 * @n: how many, within the region
 * @out: of a prefix, not empty, where they go: in one row
 *
 * Context: under the map lock.
 * Return: 0; -EBUSY: wait for a step, the end of a write, or
 * a commit and tiler_release(); -ENOSPC: for the next flip, and if the region is not being
 * cleaned, it is to be.
 */
int tiler_place(struct tiler_region *r, u32 laro, u32 n, struct tiler_run *out)
{
	if (r->stepping)
		return -EBUSY;
	/* The cleaner comes first; or it has stopped, and who finds no room is let in by it. */
	if (r->drain)
		return r->inflight ? -EBUSY : -ENOSPC;
	switch (tiler_state(r)) {
	case TILER_LOG:
		return place_log(r, n, out);
	case TILER_LAZY:
		return place_lazy(r, n, out);
	default:
		return tiler_clean_place(r, laro, n, out);
	}
}
