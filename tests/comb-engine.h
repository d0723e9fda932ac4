/* SPDX-License-Identifier: GPL-2.0 */
/* A log in two combs: the smallest engine there is, for tests. */
#ifndef SHINGLE_COMB_ENGINE_H
#define SHINGLE_COMB_ENGINE_H

#include "engine/engine.h"

/**
 * struct comb_params - struct shingle_sb::params of "comb"
 * @pitch_blocks: from a tooth of one comb to the next one of the other
 */
struct comb_params {
	__le32 pitch_blocks;
} __packed;

/* Journal records. */
enum {
	COMB_MAP = SHINGLE_REC_ENGINE,	/* a = lblk, b = tooth: it is there */
	COMB_DROP,			/* a = lblk, b = how many: they read as zeroes */
	COMB_OPEN,			/* a = comb: empty, and the log goes on in it */
};

extern const struct shingle_engine_ops comb_engine_ops;

#endif /* SHINGLE_COMB_ENGINE_H */
