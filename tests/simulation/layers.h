/* SPDX-License-Identifier: GPL-2.0 */
/* The layers that are explored: how they are formatted, and which options they may get. */
#ifndef LAYERS_H
#define LAYERS_H

#include "sim.h"

/* The devices of a layer: data, cache, metadata, as in its table line. */
#define LAYER_DEVS	3U
#define LAYER_MOST	8U

/**
 * struct layer - a layer, and a way to format it
 * @name: for the command line
 * @target: name of the target
 * @format: options of shingle format
 * @blocks: size of each device, 0: none
 * @track_blocks: length of a track of the data device; 0: no track destroys another one
 * @head_tracks: width of the head
 * @interlaced: even tracks are bottoms, odd ones tops
 * @gathers: the layer needs its write cache
 * @keys: words of table lines, one of which a run chooses
 * @turns: messages that change an option
 */
struct layer {
	const char *name;
	const char *target;
	const char *format;
	u64 blocks[LAYER_DEVS];
	u32 track_blocks;
	u32 head_tracks;
	bool interlaced;
	bool gathers;
	const char *keys[LAYER_MOST];
	const char *turns[2 * LAYER_MOST];
};

/**
 * struct layer_image - a layer that was formatted
 * @layer: the layer
 * @sectors: size of the target
 * @nr: number of blocks that formatting has written
 * @at: these blocks
 */
struct layer_image {
	const struct layer *layer;
	u64 sectors;
	u32 nr;
	struct layer_block {
		u32 dev;
		u64 block;
		u8 bytes[4096];
	} *at;
};

extern const struct layer layers[];

const struct layer_image *layer_image(const struct layer *layer, const char *tool);
void layer_images_free(void);

#endif /* LAYERS_H */
