/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Predicts the best partition of Dual-buffer from the first writes of a round.  Pure code,
 * integers only, allocates nothing.
 *
 * Ma, "Read-Modify-Write Optimization for Shingled Magnetic Recording Storage Systems"
 * (2019), section 4.3.2.  X blocks of a persistent cache of N blocks are allocated, and
 * V(X) of these are current.  The ideal partition is where V(X) = N - X: then the current
 * blocks just fill the filter buffer.  Only the first samples of V are known.  A curve V'
 * is fitted to them and used instead.  V'(X) + X - N grows with X, so bisection finds its
 * only root.
 *
 *	hyper	V' = X / (c + s X): X / V lies on a line
 *	linear	V' = a + b X
 *	power	V' = a X^b: log V over log X lies on a line, b from 0 to 1
 *	sat	V' = U (1 - exp(-X / U)): uniform choice among U blocks; the last sample
 *		alone determines U
 */
#ifndef SHINGLE_DUAL_PREDICT_H
#define SHINGLE_DUAL_PREDICT_H

#include "pure.h"

/* Most samples kept; after the first thinning at least half as many. */
#define DUAL_SAMPLES	64U
/* Most blocks in a cache. */
#define DUAL_MAX_BLOCKS	S32_MAX

enum dual_fit { DUAL_HYPER, DUAL_LINEAR, DUAL_POWER, DUAL_SAT, DUAL_NR_FITS };

/**
 * struct dual_sample - a point of V(X)
 * @x: allocated blocks
 * @v: current blocks among them
 */
struct dual_sample {
	u32 x;
	u32 v;
};

/**
 * struct dual_curve - samples of V(X)
 * @nr: number of samples
 * @step: distance between samples; when there are too many, every second one is dropped and
 *	the distance doubled
 * @next: the next sample is taken at or after this X
 * @at: the samples, in ascending order of x
 */
struct dual_curve {
	u32 nr;
	u32 step;
	u32 next;
	struct dual_sample at[DUAL_SAMPLES];
};

void dual_curve_begin(struct dual_curve *c);
bool dual_curve_note(struct dual_curve *c, u32 x, u32 v);
void dual_curve_trim(struct dual_curve *c, u32 x);
int dual_curve_check(const struct dual_curve *c, u32 blocks);
int dual_predict(const struct dual_curve *c, enum dual_fit fit, u32 blocks, u32 *x);

#endif /* SHINGLE_DUAL_PREDICT_H */
