// SPDX-License-Identifier: GPL-2.0
/* Discards of parts of units that an engine can only discard as a whole: pure code. */
#include "engine/trimlist.h"

/* Index of the first entry that ends behind @lblk. */
static u32 first_behind(const struct shingle_trimlist *t, u64 lblk)
{
	u32 lo = 0, hi = t->nr;

	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;

		if (t->trim[mid].end <= lblk)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Replace entries [@i, @j) by room for @by others. */
static void resize(struct shingle_trimlist *t, u32 i, u32 j, u32 by)
{
	memmove(&t->trim[i + by], &t->trim[j], (t->nr - j) * sizeof(t->trim[0]));
	t->nr = t->nr - (j - i) + by;
}

/* Drop the half of the list that is farther from @lblk. */
static void halve(struct shingle_trimlist *t, u64 lblk)
{
	u32 half = t->nr / 2;

	if (lblk >= t->trim[half].start)
		resize(t, 0, half, 0);
	else
		t->nr = half;
}

/**
 * shingle_trim_remove() - remove blocks that were written, or discarded as a part of their unit
 * @t: the list
 * @lblk: first block
 * @n: number of blocks
 *
 * Context: any, under the map lock.
 */
void shingle_trim_remove(struct shingle_trimlist *t, u64 lblk, u64 n)
{
	u32 i = first_behind(t, lblk), j;
	u64 end = lblk + n;

	if (!n || i == t->nr || t->trim[i].start >= end)
		return;
	if (t->trim[i].start < lblk && t->trim[i].end > end) {
		if (t->nr == SHINGLE_MAX_TRIMS) {
			t->trim[i].end = lblk;
			return;
		}
		resize(t, i, i, 1);
		t->trim[i].end = lblk;
		t->trim[i + 1].start = end;
		return;
	}
	if (t->trim[i].start < lblk)
		t->trim[i++].end = lblk;
	for (j = i; j < t->nr && t->trim[j].end <= end; j++)
		;
	if (j < t->nr && t->trim[j].start < end)
		t->trim[j].start = end;
	resize(t, i, j, 0);
}

/**
 * shingle_trim_add() - add discarded blocks
 * @t: the list
 * @lblk: first block
 * @n: number of blocks, at least 1
 * @gone: they already read as zeroes
 *
 * If the list is full, drops the half of it that is farther away.
 *
 * Context: any, under the map lock.
 */
void shingle_trim_add(struct shingle_trimlist *t, u64 lblk, u64 n, bool gone)
{
	u64 end = lblk + n;
	bool left, right;
	u32 i;

	shingle_trim_remove(t, lblk, n);
	if (t->nr == SHINGLE_MAX_TRIMS)
		halve(t, lblk);
	i = first_behind(t, lblk);
	left = i && t->trim[i - 1].end == lblk && t->trim[i - 1].gone == gone;
	right = i < t->nr && t->trim[i].start == end && t->trim[i].gone == gone;
	if (left && right) {
		t->trim[i - 1].end = t->trim[i].end;
		resize(t, i, i + 1, 0);
	} else if (left) {
		t->trim[i - 1].end = end;
	} else if (right) {
		t->trim[i].start = lblk;
	} else {
		resize(t, i, i, 1);
		t->trim[i] = (struct shingle_trim){ .start = lblk, .end = end, .gone = gone };
	}
}

/**
 * shingle_trim_covers() - have all of these blocks been discarded?
 * @t: the list
 * @lblk: first block
 * @n: number of blocks
 * @left: result, number of them that do not read as zeroes yet
 *
 * Context: any, under the map lock.
 * Return: true if they have.
 */
bool shingle_trim_covers(const struct shingle_trimlist *t, u64 lblk, u64 n, u64 *left)
{
	u64 at = lblk, end = lblk + n, until;
	u32 i;

	*left = 0;
	for (i = first_behind(t, at); at < end; i++, at = until) {
		if (i == t->nr || t->trim[i].start > at)
			return false;
		until = min(t->trim[i].end, end);
		if (!t->trim[i].gone)
			*left += until - at;
	}
	return true;
}
