// SPDX-License-Identifier: GPL-2.0
/* Hot and cold (Ma 2019, Algorithm 6): see dual/select.h. */
#include "dual/select.h"

/**
 * dual_choose() - what is kept?
 * @h: what there is
 * @room: blocks that may be kept
 * @literal: nothing goes that has room, as in the thesis
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
 * dual_keeps() - is a block kept?
 * @c: the choice
 * @rank: of the block, each of which is asked about once
 *
 * Context: any.
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
