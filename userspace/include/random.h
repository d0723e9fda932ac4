/* SPDX-License-Identifier: GPL-2.0 */
/* Pseudo-random numbers; a seed gives the same sequence on every machine. */
#ifndef SHINGLE_RANDOM_H
#define SHINGLE_RANDOM_H

#include <shim.h>

/* The finalizer of splitmix64 is a bijection: different counters give different numbers. */
static inline u64 mix64(u64 v)
{
	v += 0x9e3779b97f4a7c15ULL;
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ULL;
	v = (v ^ v >> 27) * 0x94d049bb133111ebULL;
	return v ^ v >> 31;
}

static inline u64 random64(u64 *state)
{
	return mix64((*state)++);
}

/* At least 0 and below 1. */
static inline double random_unit(u64 *state)
{
	return (double)(random64(state) >> 11) * 0x1p-53;
}

/* Below @n; the probabilities are equal to within 2^-64. */
static inline u64 random_below(u64 *state, u64 n)
{
	return (u64)((unsigned __int128)random64(state) * n >> 64);
}

#endif /* SHINGLE_RANDOM_H */
