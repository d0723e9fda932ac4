/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The blocks that Dual-buffer keeps when a round ends: the hottest ones, as many as the
 * filter buffer (FB_2 of dual/rounds.h) has room for.  Pure code.  D6 is a rule of
 * Documentation/papers/ma.rst.
 *
 * The thesis sorts by update count (Algorithm 6).  Here the number of blocks of each rank
 * is counted at all times.  From these counts follows the lowest rank of which all blocks
 * have room, without a look at any block.  Blocks of the rank below it are kept in the order
 * of the cache while there is room.  A rank is the update count; at equal
 * counts, blocks written in this round rank higher.
 *
 * The thesis resets the count of kept blocks to zero, and keeps blocks while there is room.
 * So blocks that are never written again stay for ever, and the room for new blocks shrinks
 * (D6).  Here the count is halved.  If not all blocks have room, none is kept that
 * has a count of zero and was not written in this round: these are mostly in the same bands.
 */
#ifndef SHINGLE_DUAL_SELECT_H
#define SHINGLE_DUAL_SELECT_H

#include "pure.h"

/* Counts from here on have the same rank. */
#define DUAL_HOTTEST	255U
#define DUAL_RANKS	(2 * DUAL_HOTTEST + 2)

/**
 * struct dual_heat - number of blocks of each rank
 * @nr: blocks of each rank
 * @sum: blocks of all ranks
 */
struct dual_heat {
	u32 nr[DUAL_RANKS];
	u32 sum;
};

/**
 * struct dual_choice - the blocks to keep
 * @from: keep all blocks of this rank and of higher ones
 * @ties: number of blocks to keep of the rank below
 */
struct dual_choice {
	u32 from;
	u32 ties;
};

static inline u32 dual_rank(u16 count, bool fresh)
{
	return 2 * min_t(u32, count, DUAL_HOTTEST) + fresh;
}

/* The count after another update. */
static inline u16 dual_count_up(u16 count)
{
	return count == U16_MAX ? count : count + 1;
}

static inline void dual_heat_add(struct dual_heat *h, u32 rank, u32 n)
{
	h->nr[rank] += n;
	h->sum += n;
}

static inline void dual_heat_remove(struct dual_heat *h, u32 rank, u32 n)
{
	if (WARN_ON_ONCE(h->nr[rank] < n))
		return;
	h->nr[rank] -= n;
	h->sum -= n;
}

void dual_choose(const struct dual_heat *h, u32 room, bool literal, struct dual_choice *c);
bool dual_keeps(struct dual_choice *c, u32 rank);

#endif /* SHINGLE_DUAL_SELECT_H */
