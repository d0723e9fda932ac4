// SPDX-License-Identifier: GPL-2.0
/* Hot and cold (Ma 2019, Algorithm 6): see dual/select.h. */
#include "dual/select.h"

/**
 * dual_choose() - choose the blocks to keep
 * @h: number of blocks of each rank
 * @room: most blocks to keep
 * @literal: keep blocks while there is room, as in the thesis
 * @c: result
 *
 * Context: any; O(ranks).
 */
void dual_choose(const struct dual_heat *h, u32 room, bool literal, struct dual_choice *c)
{
	*c = (struct dual_choice){ 0 };
	if (h->sum <= room)
		return;
	for (c->from = DUAL_RANKS; h->nr[c->from - 1] <= room; room -= h->nr[c->from])
		c->from--;
	if (c->from > 1 || literal)
		c->ties = room;
}

/**
 * dual_keeps() - test whether a block is kept
 * @c: the choice
 * @rank: rank of the block; to be called once for each block
 *
 * Context: any.
 * Return: true if it is kept.
 */
bool dual_keeps(struct dual_choice *c, u32 rank)
{
	if (rank >= c->from)
		return true;
	if (rank + 1 < c->from || !c->ties)
		return false;
	c->ties--;
	return true;
}
