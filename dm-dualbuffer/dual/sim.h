/* SPDX-License-Identifier: GPL-2.0 */
/* Caches under random load and power cuts, over a medium whose head destroys: for tests. */
#ifndef SHINGLE_DUAL_SIM_H
#define SHINGLE_DUAL_SIM_H

#include "dual/cache.h"

#define DUAL_SIM_ERROR	160

/**
 * struct dual_sim_plan - what is done to one cache on each surface
 * @seed: of all that is drawn
 * @shape: of each cache
 * @head_tracks: width of the head
 * @surfaces: how many
 * @bands: of each, beside the staging one
 * @band_tracks: of each of these
 * @literal: as of the cache
 * @unsafe_switch: as of the cache
 * @unsafe_inplace: as of the cache
 * @writes: blocks to be written by the host, at least
 * @rounds: or as many rounds; 0: any
 * @hot_percent: so many of all blocks ...
 * @hot_writes_percent: ... take so many of the writes
 * @hot_moves_after: after so many blocks written these are others, from the middle on; 0: never
 * @new_percent: so many of the writes go to blocks never written before, in order and round
 *	again, the others to ones that are cached; 0: as above
 * @depth: writes under way at a time
 * @most_blocks: of a write
 * @commit_every: writes between commits, at most; 0: each is durable at once
 * @check: after each block that is written, whether all is there
 * @trouble: power cuts and errors, at random
 * @told: called at the end of each round
 * @ctx: handed to it
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
 * struct dual_sim_result - what came of it
 * @writes: blocks committed
 * @destroyed: blocks that the head covered
 * @kept: blocks written to FB_2
 * @homed: blocks of the cache brought home
 * @rmws: bands rewritten for that
 * @rounds: that ended
 * @late: blocks placed while a clean went on
 * @lowered: times that M was lowered
 * @steps: of cleans
 * @commits: transactions that became durable
 * @cuts: power cuts
 * @fails: writes and steps that failed
 * @error: what went wrong first
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
u64 dual_sim_random(u64 *state);
void dual_sim_draw(u64 *state, u32 head_tracks, struct dual_sim_plan *plan);

#endif /* SHINGLE_DUAL_SIM_H */
