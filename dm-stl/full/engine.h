/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fully-associative shingle translation layer: Emulated-SMR-3 of Skylight (Aghayev 2020, chapter 2;
 * Documentation/papers/aghayev.rst).
 */
#ifndef SHINGLE_FULL_ENGINE_H
#define SHINGLE_FULL_ENGINE_H

#include "engine/engine.h"

/**
 * struct stl_full_params - struct shingle_sb::params of "stl-full"
 * @zone_bands: physical bands in a zone; the bands that remain at the end of the disk form
 *	a zone of their own if there are more than @provision, otherwise they join the
 *	last zone
 * @provision: bands of every zone that are not addressable, at least 2
 * @log_bands: most log bands in a zone, 1 to @provision - 1
 * @reserved: zero
 */
struct stl_full_params {
	__le32 zone_bands;
	__le32 provision;
	__le32 log_bands;
	__le32 reserved;
} __packed;

/* Journal records. */
enum {
	STL_FULL_OPEN = SHINGLE_REC_ENGINE, /* a = log, b = physical band, c = age */
	STL_FULL_MAP,		/* n blocks: a = lblk, b = slot */
	STL_FULL_HOME,		/* a = band, b = physical band: the home, with all of the band */
	STL_FULL_FREE,		/* a = log: the log is empty */
	STL_FULL_DISCARD,	/* a = first band, b = count: the bands are unwritten again */
	STL_FULL_DROP,		/* n blocks: a = lblk: the blocks read as zeroes again */
};

extern const struct shingle_engine_ops stl_full_engine_ops;

const char *stl_full_params_wrong(u32 zone_bands, u32 provision, u32 log_bands);

#endif /* SHINGLE_FULL_ENGINE_H */
