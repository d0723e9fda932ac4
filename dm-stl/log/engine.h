/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Log-structured translation layer: Hajkazemi, Abdi, Desnoyers, "Minimizing Read Seek for SMR
 * Disk" (2018); Documentation/papers/hajkazemi.rst.
 */
#ifndef SHINGLE_STL_LOG_ENGINE_H
#define SHINGLE_STL_LOG_ENGINE_H

#include "engine/engine.h"

/**
 * struct stl_log_params - struct shingle_sb::params of "stl-log"
 * @home_bands: bands at the beginning of the disk where blocks that were never written are read,
 *	each at its own place; they are never written.  The paper, section 4, places such data so.
 *	0: the whole disk is the log, and such blocks are zeroes
 * @reserve: bands of the log beyond those that can hold blocks in use, at least 3
 * @extents: most extents of the map, at least 2
 * @reserved: zero
 */
struct stl_log_params {
	__le32 home_bands;
	__le32 reserve;
	__le32 extents;
	__le32 reserved;
} __packed;

/* Journal records. */
enum {
	STL_LOG_OPEN = SHINGLE_REC_ENGINE,	/* a = segment, b = stamp, see STL_LOG_CLEANER */
	STL_LOG_MAP,		/* c blocks: a = lblk, b = place */
	STL_LOG_DROP,		/* c blocks: a = lblk: the blocks are unwritten again */
};

/* The stamp of a segment is its age * 2, with this flag if the cleaner writes it. */
#define STL_LOG_CLEANER	1U
/* Stamps from this one on are invalid. */
#define STL_LOG_STAMPS	(1ULL << 62)

extern const struct shingle_engine_ops stl_log_engine_ops;

const char *stl_log_params_wrong(u64 bands, u32 home_bands, u32 reserve);

#endif /* SHINGLE_STL_LOG_ENGINE_H */
