/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Zipfian ranks after Gray et al., "Quickly generating billion-record synthetic databases",
 * as YCSB computes them.
 */
#ifndef SHINGLE_ZIPFIAN_H
#define SHINGLE_ZIPFIAN_H

#include <shim.h>

/**
 * struct zipfian - constants that depend only on the number of items and on the skew
 * @n: number of items
 * @theta: skew, above 0 and below 1
 * @zeta: sum of 1 / i^theta over 1 to @n
 * @eta: see the paper
 */
struct zipfian {
	u64 n;
	double theta, zeta, eta;
};

void zipfian_init(struct zipfian *z, u64 n, double theta);
void zipfian_init_known(struct zipfian *z, u64 n, double theta, double zeta);
void zipfian_grow(struct zipfian *z, u64 n);
u64 zipfian_rank(const struct zipfian *z, double unit);

#endif /* SHINGLE_ZIPFIAN_H */
