/* SPDX-License-Identifier: GPL-2.0 */
/* RMW-F: writes that would need a read-modify-write go to flash, all others to their home. */
#ifndef SHINGLE_RMWF_ENGINE_H
#define SHINGLE_RMWF_ENGINE_H

#include "engine/engine.h"

/**
 * struct rmwf_params - struct shingle_sb::params of "rmwf"
 * @page_blocks: pages of a flash block; 0: 64
 * @group_columns: number of adjacent columns that share a flash block; 0: chosen so that
 *	each group has a flash block of its own, or as nearly as possible
 */
struct rmwf_params {
	__le32 page_blocks;
	__le32 group_columns;
} __packed;

/* Journal records. */
enum {
	RMWF_REC_FLASH = SHINGLE_REC_ENGINE, /* n blocks: a = lblk, b = slot: written there */
	RMWF_REC_HOME,		/* n blocks: a = lblk: written in place */
	RMWF_REC_STAGED,	/* a = first lblk, b = count: merged, in the staging band */
	RMWF_REC_BACK,		/* a, b as in STAGED: the copy is at home */
	RMWF_REC_DISCARD,	/* a = first lblk, b = count: the blocks read as zeroes again */
};

extern const struct shingle_engine_ops rmwf_engine_ops;

#endif /* SHINGLE_RMWF_ENGINE_H */
