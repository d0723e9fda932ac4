/* SPDX-License-Identifier: GPL-2.0 */
/* Pseudo-random numbers of the simulations, in the kernel and outside; the same for one seed. */
#ifndef SHINGLE_SIM_RANDOM_H
#define SHINGLE_SIM_RANDOM_H

#include "pure.h"

/* splitmix64 */
static inline u64 sim_random(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline u32 sim_below(u64 *state, u32 n)
{
	return (u32)(sim_random(state) >> 32) % n;
}

static inline u32 sim_between(u64 *state, u32 from, u32 to)
{
	return from + sim_below(state, to - from + 1);
}

#endif /* SHINGLE_SIM_RANDOM_H */
