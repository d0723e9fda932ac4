/* SPDX-License-Identifier: GPL-2.0 */
/* Exerciser of engines: a random test that KUnit and the userspace unit tests run. */
#ifndef SHINGLE_EXERCISE_H
#define SHINGLE_EXERCISE_H

#include "engine/engine.h"

/**
 * struct shingle_exercise_plan - parameters of one run
 * @ops: the engine
 * @layout: layout of the simulated device; metadata areas are not used
 * @features: NULL-terminated list of features to switch on, or NULL
 * @keys: NULL-terminated list of keys and values to set at the start, or NULL
 * @turns: NULL-terminated list of keys and values to set at random moments of the run, or NULL
 * @seed: seed of the random numbers; it also selects how often writes fail and power cuts come
 * @rounds: number of random operations
 * @cuts: cut the power at random
 * @first: records that the journal holds at the start, or NULL
 * @nr_first: number of records in @first
 * @worn: one in @worn blocks of the cache bands, or of the data bands of a layout without cache,
 *	cannot be written; 0: none
 */
struct shingle_exercise_plan {
	const struct shingle_engine_ops *ops;
	const struct shingle_layout *layout;
	const char *const *features;
	const char *const *keys;
	const char *const *turns;
	u32 seed;
	u32 rounds;
	bool cuts;
	const struct shingle_record *first;
	u32 nr_first;
	u32 worn;
};

/**
 * struct shingle_exercise_result - results of one run
 * @error: the first error as a sentence, empty if there is none
 * @writes: blocks written
 * @refused: writes and discards that the engine refused with SHINGLE_FULL
 * @gathered: blocks that the engine had core gather (SHINGLE_GATHER)
 * @epochs: completed epochs
 * @steps: completed cleaning steps
 * @scattered: completed steps with several extents (step.scattered)
 * @failed_steps: cleaning steps that failed because a block cannot be written
 * @cuts: power cuts survived
 * @checkpoints: checkpoints taken
 * @pieces: pieces of the state that these checkpoints wrote
 * @unchanged: pieces that a checkpoint left out, found equal to what an earlier one wrote
 * @emptied: cleans of everything that left nothing to clean
 * @beside: cleans that ended while writes waited for room
 * @walks: complete walks of verify()
 * @bypassed: written blocks that bypassed the cache, by the engine's counter
 * @nonsense: damaged metadata that the engine accepted, with a consistent map
 * @destroyed: blocks that writes to other tracks destroyed
 * @pages_read: pages of the map that were read
 * @pages_written: pages that checkpoints have written
 * @limit_ckpts: operations for which a checkpoint had to make room in the page frames
 * @grown: recoveries that changed more pages than allowed, so that a checkpoint followed
 */
struct shingle_exercise_result {
	char error[256];
	u64 writes;
	u64 refused;
	u64 gathered;
	u64 epochs;
	u64 steps;
	u64 scattered;
	u64 failed_steps;
	u64 cuts;
	u64 checkpoints;
	u64 pieces;
	u64 unchanged;
	u64 emptied;
	u64 beside;
	u64 walks;
	u64 bypassed;
	u64 nonsense;
	u64 destroyed;
	u64 pages_read;
	u64 pages_written;
	u64 limit_ckpts;
	u64 grown;
};

/**
 * struct shingle_exercise_shape - a small device
 * @band_blocks: blocks per band
 * @data_bands: data bands
 * @staging_bands: staging bands
 * @cache_bands: cache bands
 * @track_blocks: blocks per track, 0 = no tracks
 * @head_tracks: width of the head
 * @interlaced: every band is a track, bottom, top, bottom, ...
 * @columns: the layout describes the medium, so that the engine knows which blocks lie side by side
 * @skew_units: with @columns, the skew from a track to the next, in 512-byte sectors
 * @cache_band_blocks: blocks per cache band, 0: as in other bands
 * @staging_band_blocks: blocks per staging band, 0: as in other bands
 * @density: density of the surface, in permille of the zone's: 500, 250, or 0 for 1000
 * @cache_apart: the cache is on a separate device, which is not shingled
 */
struct shingle_exercise_shape {
	u32 band_blocks;
	u32 data_bands;
	u32 staging_bands;
	u32 cache_bands;
	u32 track_blocks;
	u32 head_tracks;
	bool interlaced;
	bool columns;
	u32 skew_units;
	u32 cache_band_blocks;
	u32 staging_band_blocks;
	u32 density;
	bool cache_apart;
};

void shingle_exercise_layout(struct shingle_layout *l, const struct shingle_engine_ops *ops,
			     const struct shingle_exercise_shape *shape, const void *params,
			     size_t params_size);
u64 shingle_exercise_counter(struct shingle_engine *e, const char *name);
int shingle_exercise(const struct shingle_exercise_plan *plan,
		     struct shingle_exercise_result *result);
bool shingle_exercise_loses(const struct shingle_engine_ops *ops, const struct shingle_layout *l,
			    const char *feature, struct shingle_exercise_result *result);

#endif /* SHINGLE_EXERCISE_H */
