/* SPDX-License-Identifier: GPL-2.0 */
/* Pseudo-random numbers of the checks; the same for one seed on every machine. */
#ifndef SHINGLE_CHECK_RANDOM_H
#define SHINGLE_CHECK_RANDOM_H

#include "pure.h"

/* splitmix64 */
static inline u64 random_u64(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline u32 random_below(u64 *state, u32 n)
{
	return (u32)(random_u64(state) >> 32) % n;
}

static inline u32 random_between(u64 *state, u32 from, u32 to)
{
	return from + random_below(state, to - from + 1);
}

#endif /* SHINGLE_CHECK_RANDOM_H */
