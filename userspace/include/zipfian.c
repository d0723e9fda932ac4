// SPDX-License-Identifier: GPL-2.0
/* Zipfian ranks. */
#include <math.h>

#include "zipfian.h"

static double two(const struct zipfian *z)
{
	return 1 + pow(0.5, z->theta);
}

/* Initialise with a known sum @zeta, for numbers of items that take minutes to add up. */
void zipfian_init_known(struct zipfian *z, u64 n, double theta, double zeta)
{
	*z = (struct zipfian){ .n = n, .theta = theta, .zeta = zeta };
	z->eta = (1 - pow(2.0 / (double)n, 1 - theta)) / (1 - two(z) / zeta);
}

void zipfian_init(struct zipfian *z, u64 n, double theta)
{
	*z = (struct zipfian){ .theta = theta };
	zipfian_grow(z, n);
}

/* Grow to @n items, if there are fewer; only the new terms are added to the sum. */
void zipfian_grow(struct zipfian *z, u64 n)
{
	double sum = z->zeta;
	u64 i;

	if (n <= z->n)
		return;
	for (i = z->n + 1; i <= n; i++)
		sum += 1 / pow((double)i, z->theta);
	zipfian_init_known(z, n, z->theta, sum);
}

/* Rank from 0, the most popular, for a random @unit of at least 0 and below 1. */
u64 zipfian_rank(const struct zipfian *z, double unit)
{
	double uz = unit * z->zeta;
	u64 rank;

	if (uz < 1)
		return 0;
	if (uz < two(z))
		return min(1ULL, z->n - 1);
	rank = (u64)((double)z->n * pow(z->eta * unit - z->eta + 1, 1 / (1 - z->theta)));
	return min(rank, z->n - 1);
}
