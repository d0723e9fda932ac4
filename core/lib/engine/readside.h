/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What core and an engine share about reads of blocks that lie in fragments.  Pure.
 *
 * Core looks all fragments of such a read up before it reads the first of them, decides by the
 * remedies (reads/remedies.h), and counts the seeks of reads and of cleaning steps.  The engine
 * counts those of the host's writes, and changes the settings by its options.
 */
#ifndef SHINGLE_READSIDE_H
#define SHINGLE_READSIDE_H

#include "reads/around.h"
#include "reads/remedies.h"
#include "reads/seeks.h"

/* Longest fragment, in blocks, that enters the read cache or a region of look-ahead-behind. */
#define SHINGLE_KEPT_BLOCKS	256U
/* Most blocks that are read before or behind a fragment. */
#define SHINGLE_AROUND_BLOCKS	128U

/**
 * struct shingle_readside - the read side of an engine
 * @remedies: their settings, and counts of reads
 * @seeks: counts of seeks
 * @cache_hits: fragments of fragmented reads that the read cache had
 * @cache_misses: those that it had not
 * @region_hits: fragments that a region had
 * @region_misses: those that none had
 * @cache_kb: size of the read cache, 0: none; constant while the device is in use
 * @regions: number of regions of look-ahead-behind; as @cache_kb
 *
 * The map lock protects it, like all of the engine.
 */
struct shingle_readside {
	struct shingle_remedies remedies;
	struct shingle_seeks seeks;
	u64 cache_hits;
	u64 cache_misses;
	u64 region_hits;
	u64 region_misses;
	u32 cache_kb;
	u32 regions;
};

#endif /* SHINGLE_READSIDE_H */
