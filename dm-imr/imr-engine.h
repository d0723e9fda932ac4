/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The engine "imr" for interlaced recording: it allocates tracks and merges the rewrites of tops.
 * The glossary explains bottoms and tops.
 */
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

/* Journal records.  Tracks are logical unless the comment says physical. */
enum {
	IMR_MAP = SHINGLE_REC_ENGINE, /* a = track, b = physical, n = valid blocks, c = level */
	IMR_UNMAP,		/* a = first track, b = count: the tracks are unwritten again */
	IMR_BACKUP,		/* a = track, b = slot: the content is in the slot */
	IMR_RESTORED,		/* a = track, b = slot: the content is on its track again */
	IMR_LEVEL,		/* a = first track, b = count, c = level */
};

/* Cause of a sync; struct shingle_step::cookie of a step that copies nothing. */
enum imr_cause {
	IMR_SYNC_ADJACENT,	/* naive: an adjacent track may not be on the medium yet */
	IMR_SYNC_1,		/* tops are saved */
	IMR_SYNC_2,		/* bottoms are written */
	IMR_SYNC_3,		/* tops are restored */
	IMR_SYNC_4,		/* bottoms that needed no rewrite are written */
	IMR_SYNC_5,		/* everything is written */
	IMR_SYNC_SAVED,		/* the records of saved tops, after IMR_SYNC_1 */
	IMR_SYNC_MAP,		/* only the map has changed */
	IMR_SYNC_REDO,		/* after an epoch that did not end */
	IMR_NR_CAUSES
};

extern const struct shingle_engine_ops imr_engine_ops;

#endif /* SHINGLE_IMR_ENGINE_H */
