/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For tests: regions under random load and power cuts, over a medium with a destructive
 * head.
 */
#ifndef SHINGLE_TILER_SIM_H
#define SHINGLE_TILER_SIM_H

#include "tiler-map.h"

#define TILER_SIM_ERROR	160

/**
 * struct tiler_sim_plan - load on a few regions side by side
 * @seed: seed of the random numbers
 * @zones: their zones, including @zones.start and @zones.head_tracks
 * @two_states: no lazy writes
 * @unsafe_reuse: see struct tiler_shape
 * @unsafe_inplace: see struct tiler_shape
 * @writes: blocks that the host writes
 * @used: L-AROs of each region that are written, 0 = all
 * @fill: first write each of these once, in order
 * @hot_percent: percentage of these that are hot
 * @hot_writes_percent: percentage of writes that go to hot L-AROs
 * @depth: writes in flight at a time
 * @most_blocks: most blocks in a write
 * @commit_every: most writes between commits; 0: each write is durable at once
 * @step_blocks: most blocks in a step of a clean
 * @whole: run a clean without host writes between its steps
 * @check: check all content after each block written
 * @trouble: random power cuts, errors and discards
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
 * struct tiler_sim_result - results of a run
 * @count: counters of the regions
 * @writes: blocks committed
 * @destroyed: blocks that the head covered
 * @commits: transactions that became durable
 * @cuts: power cuts
 * @steps: steps of cleans
 * @fails: writes and steps that failed
 * @first_clean: blocks committed before the first clean
 * @error: the first error
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
void tiler_sim_draw(u64 *state, u32 head_tracks, struct tiler_sim_plan *plan);

#endif /* SHINGLE_TILER_SIM_H */
