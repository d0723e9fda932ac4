/* SPDX-License-Identifier: GPL-2.0 */
/* Sums over the results of simulations. */
#ifndef SHINGLE_SIM_SUMS_H
#define SHINGLE_SIM_SUMS_H

#include <stdio.h>

#include "pure.h"

struct sim_word {
	const char *name;
	u64 nr;
};

/* Add the @n numbers with which a result begins. */
static inline void add_numbers(void *sum, const void *result, size_t n)
{
	const u64 *from = result;
	u64 *to = sum;

	while (n--)
		*to++ += *from++;
}

static inline void print_words(u32 k, u32 shapes, u32 lost, const struct sim_word *word, u32 n)
{
	printf("k=%u: %u shapes", k, shapes);
	for (; n; n--, word++)
		printf(", %llu %s", (unsigned long long)word->nr, word->name);
	printf(", %u lost\n", lost);
}

#endif /* SHINGLE_SIM_SUMS_H */
