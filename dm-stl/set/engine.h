/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Set-associative shingle translation layer: Emulated-SMR-1 and -2 of Skylight (Aghayev 2020,
 * chapter 2; Documentation/papers/aghayev.rst).
 */
#ifndef SHINGLE_SET_ENGINE_H
#define SHINGLE_SET_ENGINE_H

#include "engine/engine.h"

/**
 * struct stl_set_params - struct shingle_sb::params of "stl-set"
 * @set_shift: binary logarithm of the number of neighbouring bands that share a cache band:
 *	set = (band >> @set_shift) mod number of cache bands
 * @reserved: zero
 */
struct stl_set_params {
	__le32 set_shift;
	__le32 reserved;
} __packed;

/* Journal records. */
enum {
	STL_SET_MAP = SHINGLE_REC_ENGINE, /* n blocks: a = lblk, b = slot, c = age of the set */
	STL_SET_STAGED,		/* a = band, b = first slot offset not in the copy */
	STL_SET_CLEANED,	/* a = band, b as in STAGED; the copy is at home */
	STL_SET_RESET,		/* a = set: all its slots are empty */
	STL_SET_DISCARD,	/* a = first band, b = count: the bands are unwritten again */
	STL_SET_DROP,		/* n blocks: a = lblk: the blocks read as zeroes again */
	STL_SET_DIRECT,		/* n blocks: a = lblk; home holds the band up to their end */
};

extern const struct shingle_engine_ops stl_set_engine_ops;

#endif /* SHINGLE_SET_ENGINE_H */
