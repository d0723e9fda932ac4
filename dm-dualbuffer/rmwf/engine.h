/* SPDX-License-Identifier: GPL-2.0 */
/* RMW-F: writes that would need a read-modify-write go to flash, all others to their place. */
#ifndef SHINGLE_RMWF_ENGINE_H
#define SHINGLE_RMWF_ENGINE_H

#include "engine/engine.h"

/**
 * struct rmwf_params - struct shingle_sb::params of "rmwf"
 * @page_blocks: pages of a flash block; 0: 64
 * @group_columns: so many columns beside each other share a flash block; 0: as many as make
 *	each flash block the only one of a group, or as near to it as can be
 */
struct rmwf_params {
	__le32 page_blocks;
	__le32 group_columns;
} __packed;

/* Journal records. */
enum {
	RMWF_REC_FLASH = SHINGLE_REC_ENGINE, /* n blocks: a = lblk, b = slot: written there */
	RMWF_REC_HOME,		/* n blocks: a = lblk: written in place */
	RMWF_REC_STAGED,	/* a = first lblk, b = how many: merged, in the staging band */
	RMWF_REC_BACK,		/* likewise; the copy is home */
	RMWF_REC_DISCARD,	/* a = first lblk, b = how many: read as zeroes again */
};

extern const struct shingle_engine_ops rmwf_engine_ops;

#endif /* SHINGLE_RMWF_ENGINE_H */
