/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Dual-buffer keeps when a round ends: the hottest, as many as the filter buffer has
 * room for.  Pure.
 *
 * The thesis sorts by update count (Algorithm 6).  Here it is counted at all times how many
 * blocks there are of each rank, so that the rank from which on all have room is found
 * without a look at any of them; of that below it as many as still have room are kept, in the
 * order of the cache.  A rank is the update count, and of equal ones what was written in
 * this round comes first.
 *
 * The thesis sets the count of what it keeps to zero, and keeps whatever has room.  So what
 * is never written again is kept for ever, and there is ever less room for what is new (D6).
 * Here the count is halved, and when something has to go, all that goes whose count is zero
 * and that was not written in this round: the band of one is mostly that of others, too.
 */
#ifndef SHINGLE_DUAL_SELECT_H
#define SHINGLE_DUAL_SELECT_H

#include "pure.h"

/* Counts from here on are alike. */
#define DUAL_HOTTEST	255U
#define DUAL_RANKS	(2 * DUAL_HOTTEST + 2)

/**
 * struct dual_heat - how many blocks there are of each rank
 * @nr: of each
 * @sum: of all
 */
struct dual_heat {
	u32 nr[DUAL_RANKS];
	u32 sum;
};

/**
 * struct dual_choice - what is kept
 * @from: all of this rank and of higher ones
 * @ties: and so many of the rank below it
 */
struct dual_choice {
	u32 from;
	u32 ties;
};

static inline u32 dual_rank(u16 count, bool fresh)
{
	return 2 * min_t(u32, count, DUAL_HOTTEST) + fresh;
}

/* Updated once more. */
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
