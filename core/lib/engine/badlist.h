/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Logical blocks with lost content: cleaning met a medium error, or the write cache could not
 * write them.
 */
#ifndef SHINGLE_BADLIST_H
#define SHINGLE_BADLIST_H

#include "format/format.h"

#define SHINGLE_MAX_BAD	(SHINGLE_CHUNK_BYTES / sizeof(__le64))

/**
 * struct shingle_badlist - unreadable logical blocks, ascending
 * @nr: number of blocks
 * @lblk: the blocks; more than SHINGLE_MAX_BAD only while the journal is replayed
 *
 * Cleaning moves whole bands.  A block that cannot be read any more is moved as "unreadable": reads
 * of it, and of no other block, fail until the host writes it.  So a medium error never turns into
 * zeroes.  The write cache treats an acknowledged block that it cannot write in the same way.
 *
 * The map lock protects core's list.
 */
struct shingle_badlist {
	u32 nr;
	u64 lblk[2 * SHINGLE_MAX_BAD];
};

bool shingle_bad_add(struct shingle_badlist *b, u64 lblk);
bool shingle_bad_replay(struct shingle_badlist *b, u64 lblk);
bool shingle_bad_hit(const struct shingle_badlist *b, u64 lblk, u64 n, u64 *first);
bool shingle_bad_remove(struct shingle_badlist *b, u64 lblk, u64 n);
u32 shingle_bad_encode(const struct shingle_badlist *b, void *buf);
int shingle_bad_decode(struct shingle_badlist *b, const void *buf, u32 bytes);

#endif /* SHINGLE_BADLIST_H */
