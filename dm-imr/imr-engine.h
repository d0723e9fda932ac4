/* SPDX-License-Identifier: GPL-2.0 */
/* Interlaced recording: track allocation and merged rewrites of tops. */
#ifndef SHINGLE_IMR_ENGINE_H
#define SHINGLE_IMR_ENGINE_H

#include "engine/engine.h"

/**
 * struct imr_params - struct shingle_sb::params of "imr"
 * @spare_tracks: tracks that are not addressable
 * @reserved: zero
 */
struct imr_params {
	__le32 spare_tracks;
	__le32 reserved;
} __packed;

/* Journal records.  Tracks are logical unless it says otherwise. */
enum {
	IMR_MAP = SHINGLE_REC_ENGINE, /* a = track, b = physical, n = valid blocks, c = level */
	IMR_UNMAP,		/* a = first track, b = how many: unwritten again */
	IMR_BACKUP,		/* a = track, b = slot: that is where its content is */
	IMR_RESTORED,		/* a = track, b = slot: it is where it belongs again */
	IMR_LEVEL,		/* a = first track, b = how many, c = level */
};

/* Why a sync, as struct shingle_step::cookie of a step that copies nothing. */
enum imr_cause {
	IMR_SYNC_ADJACENT,	/* naive: a track beside it is not on the medium yet */
	IMR_SYNC_1,		/* tops are saved */
	IMR_SYNC_2,		/* bottoms are written */
	IMR_SYNC_3,		/* tops are restored */
	IMR_SYNC_4,		/* bottoms that needed no rewrite are written */
	IMR_SYNC_5,		/* all is written */
	IMR_SYNC_SAVED,		/* the records of saved tops, behind IMR_SYNC_1 */
	IMR_SYNC_MAP,		/* only the map is behind */
	IMR_SYNC_REDO,		/* after an epoch that did not come to its end */
	IMR_NR_CAUSES
};

extern const struct shingle_engine_ops imr_engine_ops;

#endif /* SHINGLE_IMR_ENGINE_H */
