/* SPDX-License-Identifier: GPL-2.0 */
/* Discards of parts of units that an engine can only discard as a whole. */
#ifndef SHINGLE_TRIMLIST_H
#define SHINGLE_TRIMLIST_H

#include "pure.h"

/*
 * Entries, 48 KiB.  Few are enough: discards usually ascend, so that only the pieces of one unit
 * are remembered at a time.  Tests define fewer.
 */
#ifndef SHINGLE_MAX_TRIMS
#define SHINGLE_MAX_TRIMS	2048U
#endif

/**
 * struct shingle_trim - consecutive discarded blocks
 * @start: first block
 * @end: the block after the last
 * @gone: they already read as zeroes
 */
struct shingle_trim {
	u64 start;
	u64 end;
	bool gone;
};

/**
 * struct shingle_trimlist - discards of parts of an engine's units, ascending
 * @nr: number of entries
 * @trim: the entries; equal neighbours are merged
 *
 * An engine can discard blocks at home only in whole units (discard_blocks, usually a band), but
 * discards come in pieces: file systems split them at their groups, tools at 2 GiB, the block layer
 * at 4 GiB.  Core discards a unit when its last piece has come.  A block that is written meanwhile
 * leaves the list.  The list does not survive a power cut.  If it is full, core forgets the half of
 * it that is farther from the new piece: those discards have no effect.
 *
 * The map lock protects it.
 */
struct shingle_trimlist {
	u32 nr;
	struct shingle_trim trim[SHINGLE_MAX_TRIMS];
};

void shingle_trim_add(struct shingle_trimlist *t, u64 lblk, u64 n, bool gone);
void shingle_trim_remove(struct shingle_trimlist *t, u64 lblk, u64 n);
bool shingle_trim_covers(const struct shingle_trimlist *t, u64 lblk, u64 n, u64 *left);

#endif /* SHINGLE_TRIMLIST_H */
