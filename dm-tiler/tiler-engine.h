/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The engine "tiler".  It divides the disk into autonomous regions.  A region is written in order
 * until it is full (logging), then wherever the head destroys nothing (lazy writes), and is then
 * cleaned into a spare slot.  tiler-region.h explains the words.
 */
#ifndef SHINGLE_TILER_ENGINE_H
#define SHINGLE_TILER_ENGINE_H

#include "engine/engine.h"

/**
 * struct tiler_params - struct shingle_sb::params of "tiler"
 * @rows: tracks per region, M; 0: all tracks of a band
 * @columns: blocks per track and region, S; 0: the whole track
 * @over_permille: over-provisioning: blocks out of 1000 that a region does not present
 * @spares: slots without a region for each track length; 0: one
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
	TILER_REC_DROP,		/* a = block, n blocks: dropped; b = slot << 32 | other slot */
	TILER_REC_CLEAN,		/* a = region, b = slot: cleaning moves the region there */
	TILER_REC_FLIP,		/* a = region, b = slot: the region is in the slot now */
	TILER_REC_WIPE,		/* a = slot, b = page of its map: the page is empty */
};

extern const struct shingle_engine_ops tiler_engine_ops;

#endif /* SHINGLE_TILER_ENGINE_H */
