/* SPDX-License-Identifier: GPL-2.0 */
/* For tests: caches under random load and power cuts, over a medium with a destructive head. */
#ifndef SHINGLE_DUAL_SIM_H
#define SHINGLE_DUAL_SIM_H

#include "dual/cache.h"

#define DUAL_SIM_ERROR	160

/**
 * struct dual_sim_plan - load on one cache per surface
 * @seed: seed of the random numbers
 * @shape: shape of each cache
 * @head_tracks: width of the head
 * @surfaces: number of surfaces
 * @bands: bands per surface, without the staging band
 * @band_tracks: tracks per band
 * @literal: see struct dual_cache
 * @unsafe_switch: see struct dual_cache
 * @unsafe_inplace: see struct dual_cache
 * @writes: minimum number of blocks that the host writes
 * @rounds: stop after this many rounds instead; 0: no limit
 * @hot_percent: percentage of blocks that are hot
 * @hot_writes_percent: percentage of writes that go to hot blocks
 * @hot_moves_after: after this many blocks written, other blocks become hot, from the
 *	middle on; 0: never
 * @new_percent: percentage of writes that go to blocks never written before, in ascending order,
 *	from the first again after the last; the others go to cached blocks; 0: use the hot blocks
 *	as above
 * @depth: writes in flight at a time
 * @most_blocks: most blocks in a write
 * @commit_every: most writes between commits; 0: each write is durable at once
 * @check: check all content after each block written
 * @trouble: random power cuts and errors
 * @told: called at the end of each round
 * @ctx: argument of @told
 */
struct dual_sim_plan {
	u64 seed;
	struct dual_shape shape;
	u32 head_tracks;
	u32 surfaces;
	u32 bands;
	u32 band_tracks;
	bool literal;
	bool unsafe_switch;
	bool unsafe_inplace;
	u64 writes;
	u32 rounds;
	u32 hot_percent;
	u32 hot_writes_percent;
	u64 hot_moves_after;
	u32 new_percent;
	u32 depth;
	u32 most_blocks;
	u32 commit_every;
	bool check;
	bool trouble;
	void (*told)(void *ctx, u32 surface, const struct dual_cache *c);
	void *ctx;
};

/**
 * struct dual_sim_result - results of a run
 * @writes: blocks committed
 * @destroyed: blocks that the head covered
 * @kept: blocks written to FB_2
 * @homed: cached blocks brought home
 * @rmws: bands rewritten for that
 * @rounds: rounds that ended
 * @late: blocks placed during a clean
 * @lowered: times M was lowered
 * @steps: steps of cleans
 * @commits: transactions that became durable
 * @cuts: power cuts
 * @fails: writes and steps that failed
 * @error: the first error
 */
struct dual_sim_result {
	u64 writes;
	u64 destroyed;
	u64 kept;
	u64 homed;
	u64 rmws;
	u64 rounds;
	u64 late;
	u64 lowered;
	u64 steps;
	u64 commits;
	u64 cuts;
	u64 fails;
	char error[DUAL_SIM_ERROR];
};

int dual_sim(const struct dual_sim_plan *plan, struct dual_sim_result *res);
void dual_sim_draw(u64 *state, u32 head_tracks, struct dual_sim_plan *plan);

#endif /* SHINGLE_DUAL_SIM_H */
