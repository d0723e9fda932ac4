// SPDX-License-Identifier: GPL-2.0
/*
 * Tiler: where a write goes, compared with the thesis.  Pure code; see tiler-region.h.
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
 * 3.3.3).  Rows below the last one are empty.  An old block counts as valid until a map without
 * it is durable (T1).  Schedulable blocks are taken in ascending rows, wrapping around, so that
 * a run of invalid rows serves as many writes as possible.  The region is cleaned when a search
 * of all rows has found none and, if blocks wait for a commit, another search after it.
 */
#include "tiler-region.h"

/* In order along the row, then in the next row (Figure 3.6). */
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

/*
 * One bit for each cell from @at on, set if the cell is empty.  Cells after the last row
 * are empty.
 */
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

/* One bit for each cell from @at on, set if it is schedulable or after the last row. */
static unsigned long schedulable_cells(const struct tiler_region *r, u32 at)
{
	u32 blocks = tiler_blocks(r->shape), i;
	unsigned long bits = ~0UL;

	for (i = 0; bits && i < r->shape->head_tracks; i++)
		bits &= empty_cells(r->at->taken, blocks, at + i * r->shape->columns);
	return bits;
}

/**
 * tiler_is_schedulable() - test whether a write at a place would destroy nothing
 * @r: the region
 * @paro: a place of the region's slot
 *
 * Context: under the map lock.
 * Return: true if the place is schedulable.
 */
bool tiler_is_schedulable(const struct tiler_region *r, u32 paro)
{
	return schedulable_cells(r, tiler_cell(r->shape, paro)) & 1;
}

/* The first schedulable cell in [@from, @to), or @to.  Reads 2 * k words for each 64 cells. */
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
 * Search all cells once, beginning at the cursor.  The search has two parts, each of which
 * may begin or end within a group of 64 cells: it reads at most 1,025 groups, or 2,050 * k
 * words.
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

/* Number of cells from @cell on, at most @n, that can be written as one run. */
static u32 schedulable_run(const struct tiler_region *r, u32 cell, u32 n)
{
	unsigned long rest = ~schedulable_cells(r, cell);

	n = min3(n, r->shape->columns - cell % r->shape->columns,
		 tiler_run_rest(r->shape, r->at, tiler_paro(r->shape, cell)));
	return rest ? min_t(u32, n, __ffs(rest)) : min_t(u32, n, BITS_PER_LONG);
}

/**
 * tiler_is_full() - test whether only a clean can make room in a region
 * @r: the region, which is not being cleaned
 *
 * Context: under the map lock.
 * Return: true if neither now nor after a commit there is room.
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
 * tiler_place() - find room for blocks
 * @r: the region, with all its pages
 * @laro: first block
 * @n: number of blocks, within the region
 * @out: result: places for the first blocks, at least one, in one row
 *
 * Context: under the map lock.
 * Return: 0; -EBUSY: wait for a step, the end of a write, or a commit and tiler_release();
 *	-ENOSPC: wait for the next flip; if the region is not being cleaned, the caller
 *	requests a clean.
 */
int tiler_place(struct tiler_region *r, u32 laro, u32 n, struct tiler_run *out)
{
	if (r->stepping)
		return -EBUSY;
	/*
	 * The cleaner needs the region.  When its writes have ended, -ENOSPC makes core
	 * start the cleaner, in case it has stopped; the cleaner then lets the write in.
	 */
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
