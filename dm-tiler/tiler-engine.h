/* SPDX-License-Identifier: GPL-2.0 */
/* Autonomous regions: logging, lazy writes, and cleaning into a spare slot. */
#ifndef SHINGLE_TILER_ENGINE_H
#define SHINGLE_TILER_ENGINE_H

#include "engine/engine.h"

/**
 * struct tiler_params - struct shingle_sb::params of "tiler"
 * @rows: tracks of a region, M; 0: all of a band
 * @columns: blocks on each, S; 0: the whole track
 * @over_permille: of a region what it does not present, of each 1000 blocks
 * @spares: slots without a region, of the bands on tracks of one length; 0: one
 */
struct tiler_params {
	__le32 rows;
	__le32 columns;
	__le32 over_permille;
	__le32 spares;
} __packed;

/* Journal records. */
enum {
	TILER_REC_MAP = SHINGLE_REC_ENGINE, /* a = block, n blocks, b = slot * 65536 + place */
	TILER_REC_DROP,		/* a = block, n blocks: in neither slot of b = slot << 32 | other */
	TILER_REC_CLEAN,		/* a = region, b = slot: it is being moved there */
	TILER_REC_FLIP,		/* a = region, b = slot: it is there */
	TILER_REC_WIPE,		/* a = slot, b = page of its map: which holds nothing */
};

extern const struct shingle_engine_ops tiler_engine_ops;

#endif /* SHINGLE_TILER_ENGINE_H */
