/* SPDX-License-Identifier: GPL-2.0 */
/* The journal ring, block by block. */
#ifndef SHINGLE_RING_H
#define SHINGLE_RING_H

#include "image.h"

/*
 * Called for each sound journal block, @pos counted from the ring's start.
 * Returns non-zero to end the walk.
 */
typedef int (*ring_fn)(void *ctx, u64 pos, const struct shingle_journal_block *b);

int ring_walk(struct image *img, u64 from, u64 blocks, ring_fn fn, void *ctx);
int ring_make_readable(struct image *img, const char **why);

#endif /* SHINGLE_RING_H */
