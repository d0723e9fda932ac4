/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks that the host has discarded and that are not forgotten yet. */
#ifndef SHINGLE_TRIMLIST_H
#define SHINGLE_TRIMLIST_H

#include "pure.h"

/* 48 KiB; a trim goes upwards, and needs those of the band that it is in.  Tests take less. */
#ifndef SHINGLE_MAX_TRIMS
#define SHINGLE_MAX_TRIMS	2048U
#endif

/**
 * struct shingle_trim - consecutive discarded blocks
 * @start: first block
 * @end: the one after the last
 * @gone: they read as zeroes already
 */
struct shingle_trim {
	u64 start;
	u64 end;
	bool gone;
};

/**
 * struct shingle_trimlist - discards of less than an engine can forget, ascending
 * @nr: how many
 * @trim: which; neighbours that are alike are one
 *
 * What is at home can be forgotten by whole bands only, but discards come in
 * pieces: file systems cut them at their groups, tools every 2 GiB, the block
 * layer at 4 GiB.  A band is forgotten when the last piece of it has come.  What
 * is written meanwhile leaves the list.  It is not kept over a power cut, and
 * what finds no room in it is as if it had not been discarded.
 */
struct shingle_trimlist {
	u32 nr;
	struct shingle_trim trim[SHINGLE_MAX_TRIMS];
};

void shingle_trim_add(struct shingle_trimlist *t, u64 lblk, u64 n, bool gone);
void shingle_trim_remove(struct shingle_trimlist *t, u64 lblk, u64 n);
bool shingle_trim_covers(const struct shingle_trimlist *t, u64 lblk, u64 n, u64 *left);

#endif /* SHINGLE_TRIMLIST_H */
