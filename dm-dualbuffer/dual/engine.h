/* SPDX-License-Identifier: GPL-2.0 */
/* Dual-buffer: a persistent cache that is cut in two by angle, in front of bands. */
#ifndef SHINGLE_DUAL_ENGINE_H
#define SHINGLE_DUAL_ENGINE_H

#include "engine/engine.h"

/**
 * struct dual_params - struct shingle_sb::params of "dualbuffer"
 * @m_percent: M, the same in each round; 0: it is predicted
 * @sample_percent: V(X) is sampled on so much of each of the first tracks
 * @sample_tracks: so many of them; 0: a ninth of all
 * @min_new_percent: at least so many of the columns are new in each round
 * @min_fb_percent: at least so many are what is kept
 * @track_blocks: of the cache, where its medium has no tracks; 0: 512, or a ninth of it
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
	DUAL_REC_MAP = SHINGLE_REC_ENGINE, /* n blocks: a = lblk, b = slot: written there */
	DUAL_REC_KEEP,		/* n blocks: a = lblk, b = slot: moved there */
	DUAL_REC_ROUND,		/* c = round, a = first column of FB_1, b = its columns */
	DUAL_REC_M,		/* c = round, n = how often before, a = track, b = columns */
	DUAL_REC_STAGED,	/* a = band, b = row, c = block: newer is what is new from there */
	DUAL_REC_CLEANED,	/* likewise; the copy is home */
	DUAL_REC_DISCARD,	/* a = first band, b = how many: unwritten again */
	DUAL_REC_DROP,		/* n blocks: a = lblk, read as zeroes again */
};

extern const struct shingle_engine_ops dualbuffer_engine_ops;

#endif /* SHINGLE_DUAL_ENGINE_H */
