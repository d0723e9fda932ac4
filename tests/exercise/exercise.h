/* SPDX-License-Identifier: GPL-2.0 */
/* Exerciser of engines: KUnit and the userspace unit tests drive it. */
#ifndef SHINGLE_EXERCISE_H
#define SHINGLE_EXERCISE_H

#include "engine/engine.h"

/**
 * struct shingle_exercise_plan - one run
 * @ops: the engine
 * @layout: of the simulated device; metadata areas are not used
 * @features: NULL-terminated list of features to switch on, or NULL
 * @keys: NULL-terminated list of keys and values to set, or NULL
 * @turns: such a list, of what may be set at any moment, or NULL
 * @seed: of the random numbers
 * @rounds: operations to try
 * @cuts: cut the power now and then
 * @first: records that the journal begins with, or NULL
 * @nr_first: how many
 * @worn: one in @worn blocks of the cache bands cannot be written; 0: none
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
 * struct shingle_exercise_result - what happened
 * @error: a sentence if something was wrong, else empty
 * @writes: blocks written
 * @refused: writes and discards that the engine said it will never have room for
 * @gathered: blocks that were gathered
 * @epochs: of them that came to their end
 * @steps: cleaning steps
 * @scattered: of them, those that are no single extent
 * @spoilt: cleaning steps that failed because a block cannot be written
 * @cuts: power cuts survived
 * @checkpoints: checkpoints taken
 * @pieces: of the state, written into them
 * @unchanged: pieces that were not marked, and left as they were
 * @emptied: times that a clean of everything left nothing to clean
 * @beside: times that a clean came to its end beside writes that found no room
 * @walks: walks over all of the state that found nothing wrong
 * @bypassed: of @writes, those that the engine says went past its cache
 * @nonsense: times that spoilt metadata led to a sound map
 * @destroyed: blocks that wide writes destroyed
 * @pages_read: pages of the map that were read
 * @pages_written: that checkpoints have written
 * @crowds: times that a checkpoint had to make room for changed ones
 * @grown: recoveries after which a checkpoint had to
 */
struct shingle_exercise_result {
	char error[256];
	u64 writes;
	u64 refused;
	u64 gathered;
	u64 epochs;
	u64 steps;
	u64 scattered;
	u64 spoilt;
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
	u64 crowds;
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
 * @columns: the layout says which blocks lie side by side
 * @skew_units: then, from a track to the next, 512-byte sectors
 * @cache_band_blocks: blocks per cache band, 0: as many as in others
 * @staging_band_blocks: blocks per staging band, 0: as many as in others
 * @density: the surface has so many per mille of its zone's blocks on a track, 0: all;
 *	500 or 250
 * @cache_apart: the cache is on a device of its own, which is not shingled
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
