/* SPDX-License-Identifier: GPL-2.0 */
/* Dual-buffer: a persistent cache in front of the bands, divided into two buffers by angle. */
#ifndef SHINGLE_DUAL_ENGINE_H
#define SHINGLE_DUAL_ENGINE_H

#include "engine/engine.h"

/**
 * struct dual_params - struct shingle_sb::params of "dualbuffer"
 * @m_percent: M, the same in each round; 0: predicted
 * @sample_percent: percentage of each sample track on which V(X) is sampled
 * @sample_tracks: number of sample tracks; 0: a ninth of all tracks
 * @min_new_percent: minimum percentage of columns that are new in each round
 * @min_fb_percent: minimum percentage of columns for blocks that are kept
 * @track_blocks: blocks per track of the cache, if its medium has no tracks; 0: 512, or a
 *	ninth of the cache
 */
struct dual_params {
	__le32 m_percent;
	__le32 sample_percent;
	__le32 sample_tracks;
	__le32 min_new_percent;
	__le32 min_fb_percent;
	__le32 track_blocks;
} __packed;

/* Journal records. */
enum {
	DUAL_REC_MAP = SHINGLE_REC_ENGINE, /* n blocks: a = lblk, b = slot: written to the slots */
	DUAL_REC_KEEP,		/* n blocks: a = lblk, b = slot: moved to the slots */
	DUAL_REC_ROUND,		/* c = round, a = first column of FB_1, b = its columns */
	DUAL_REC_M,		/* c = round, n = index of the drop, a = track, b = columns */
	DUAL_REC_STAGED,	/* a = band, b, c = row, block: dual_staging::mark of the copy */
	DUAL_REC_CLEANED,	/* a, b, c as in STAGED: the copy is at home */
	DUAL_REC_DISCARD,	/* a = first band, b = count: the bands are unwritten again */
	DUAL_REC_DROP,		/* n blocks: a = lblk: the blocks read as zeroes again */
};

extern const struct shingle_engine_ops dualbuffer_engine_ops;

#endif /* SHINGLE_DUAL_ENGINE_H */
