// SPDX-License-Identifier: GPL-2.0
/* Logical blocks with lost content: pure code. */
#include "engine/badlist.h"

/* Index of the first entry that is not below @lblk. */
static u32 lower_bound(const struct shingle_badlist *b, u64 lblk)
{
	u32 lo = 0, hi = b->nr;

	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;

		if (b->lblk[mid] < lblk)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool add(struct shingle_badlist *b, u64 lblk, u32 room)
{
	u32 i = lower_bound(b, lblk);

	if (i < b->nr && b->lblk[i] == lblk)
		return true;
	if (b->nr >= room)
		return false;
	memmove(&b->lblk[i + 1], &b->lblk[i], (b->nr - i) * sizeof(b->lblk[0]));
	b->lblk[i] = lblk;
	b->nr++;
	return true;
}

/**
 * shingle_bad_add() - add a block that has become unreadable
 * @b: the list
 * @lblk: the block
 *
 * Context: any, under the map lock.
 * Return: false if the list is full.
 */
bool shingle_bad_add(struct shingle_badlist *b, u64 lblk)
{
	return add(b, lblk, SHINGLE_MAX_BAD);
}

/**
 * shingle_bad_replay() - add a block because of a journal record
 * @b: the list
 * @lblk: the block
 *
 * A checkpoint contains the list as it was after some of the records that are replayed on top of
 * it.  During replay the list contains the blocks of both moments, up to twice its usual maximum.
 * After replay it is as it was before.
 *
 * Context: before I/O.
 * Return: false if no valid list is that long.
 */
bool shingle_bad_replay(struct shingle_badlist *b, u64 lblk)
{
	return add(b, lblk, ARRAY_SIZE(b->lblk));
}

/**
 * shingle_bad_hit() - is one of these blocks unreadable?
 * @b: the list
 * @lblk: first block
 * @n: number of blocks
 * @first: result, the first unreadable one
 *
 * Context: any, under the map lock.
 * Return: true if one is.
 */
bool shingle_bad_hit(const struct shingle_badlist *b, u64 lblk, u64 n, u64 *first)
{
	u32 i = lower_bound(b, lblk);

	if (i == b->nr || b->lblk[i] - lblk >= n)
		return false;
	*first = b->lblk[i];
	return true;
}

/**
 * shingle_bad_remove() - blocks were written or discarded
 * @b: the list
 * @lblk: first block
 * @n: number of blocks
 *
 * Context: any, under the map lock.
 * Return: whether one of them was in the list.
 */
bool shingle_bad_remove(struct shingle_badlist *b, u64 lblk, u64 n)
{
	u32 i = lower_bound(b, lblk), j = i;

	while (j < b->nr && b->lblk[j] - lblk < n)
		j++;
	if (i == j)
		return false;
	memmove(&b->lblk[i], &b->lblk[j], (b->nr - j) * sizeof(b->lblk[0]));
	b->nr -= j - i;
	return true;
}

/**
 * shingle_bad_encode() - encode the list as a checkpoint piece
 * @b: the list
 * @buf: SHINGLE_CHUNK_BYTES
 *
 * Context: any, under the map lock.
 * Return: the number of bytes, 0 for an empty list.
 */
u32 shingle_bad_encode(const struct shingle_badlist *b, void *buf)
{
	__le64 *p = buf;
	u32 i;

	for (i = 0; i < b->nr; i++)
		p[i] = cpu_to_le64(b->lblk[i]);
	return b->nr * sizeof(*p);
}

/**
 * shingle_bad_decode() - restore the list from a checkpoint piece
 * @b: the list
 * @buf: the piece
 * @bytes: its length
 *
 * Context: before I/O.
 * Return: 0 or -EUCLEAN.
 */
int shingle_bad_decode(struct shingle_badlist *b, const void *buf, u32 bytes)
{
	const __le64 *p = buf;
	u32 i, nr = bytes / sizeof(*p);

	if (bytes % sizeof(*p) || nr > SHINGLE_MAX_BAD)
		return -EUCLEAN;
	b->nr = 0;
	for (i = 0; i < nr; i++) {
		if (!shingle_bad_add(b, le64_to_cpu(p[i])))
			return -EUCLEAN;
	}
	return 0;
}
