/* SPDX-License-Identifier: GPL-2.0 */
/* Regions under random load and power cuts, over a medium whose head destroys: for tests. */
#ifndef SHINGLE_TILER_SIM_H
#define SHINGLE_TILER_SIM_H

#include "tiler-map.h"

#define TILER_SIM_ERROR	160

/**
 * struct tiler_sim_plan - what is done to a few regions side by side
 * @seed: of all that is drawn
 * @zones: their zones; @zones.start and @zones.head_tracks included
 * @two_states: no lazy writes
 * @unsafe_reuse: as of the shape
 * @unsafe_inplace: as of the shape
 * @writes: blocks to be written by the host
 * @used: L-AROs of each region that are, 0 = all
 * @fill: each of these once, in order, first
 * @hot_percent: so many of these ...
 * @hot_writes_percent: ... take so many of the writes
 * @depth: writes under way at a time
 * @most_blocks: of a write
 * @commit_every: writes between commits, at most; 0: each is durable at once
 * @step_blocks: of a step of a clean, at most
 * @whole: a clean is done without the host's writes between its steps
 * @check: after each block that is written, whether all is there
 * @trouble: power cuts, errors and discards, at random
 */
struct tiler_sim_plan {
	u64 seed;
	struct tiler_zones zones;
	bool two_states;
	bool unsafe_reuse;
	bool unsafe_inplace;
	u64 writes;
	u32 used;
	bool fill;
	u32 hot_percent;
	u32 hot_writes_percent;
	u32 depth;
	u32 most_blocks;
	u32 commit_every;
	u32 step_blocks;
	bool whole;
	bool check;
	bool trouble;
};

/**
 * struct tiler_sim_result - what came of it
 * @count: what the regions counted
 * @writes: blocks committed
 * @destroyed: blocks that the head covered
 * @commits: transactions that became durable
 * @cuts: power cuts
 * @steps: of cleans
 * @fails: writes and steps that failed
 * @first_clean: blocks committed before the first clean
 * @error: what went wrong first
 */
struct tiler_sim_result {
	struct tiler_count count;
	u64 writes;
	u64 destroyed;
	u64 commits;
	u64 cuts;
	u64 steps;
	u64 fails;
	u64 first_clean;
	char error[TILER_SIM_ERROR];
};

int tiler_sim(const struct tiler_sim_plan *plan, struct tiler_sim_result *res);
u64 tiler_sim_random(u64 *state);
void tiler_sim_draw(u64 *state, u32 head_tracks, struct tiler_sim_plan *plan);

#endif /* SHINGLE_TILER_SIM_H */
