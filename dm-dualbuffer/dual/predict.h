/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where Dual-buffer's partition should be, foretold from the first writes of a round.
 * Pure, integers only, nothing allocated.
 *
 * Ma, "Read-Modify-Write Optimization for Shingled Magnetic Recording Storage Systems"
 * (2019), section 4.3.2.  Of a persistent cache of N blocks X
 * are allocated, and V(X) of them are current.  The ideal partition is where V(X) = N - X:
 * then what is current fills the filter buffer.  V is known so far only as its first
 * samples have it; a curve V' through them is taken for it, and V'(X) + X - N grows with X,
 * so that its one root is found by halving.
 *
 *	hyper	V' = X / (c + s X): X / V on a line
 *	linear	V' = a + b X
 *	power	V' = a X^b: log V on log X on a line, b from 0 to 1
 *	sat	V' = U (1 - exp(-X / U)): a choice among U blocks, all alike; U from the
 *		last sample alone
 */
#ifndef SHINGLE_DUAL_PREDICT_H
#define SHINGLE_DUAL_PREDICT_H

#include "pure.h"

/* Samples that are kept; half as many at least once there were so many. */
#define DUAL_SAMPLES	64U
/* Blocks of a cache, at most. */
#define DUAL_MAX_BLOCKS	S32_MAX

enum dual_fit { DUAL_HYPER, DUAL_LINEAR, DUAL_POWER, DUAL_SAT, DUAL_NR_FITS };

/**
 * struct dual_sample - a point of V(X)
 * @x: blocks that are allocated
 * @v: of these, current
 */
struct dual_sample {
	u32 x;
	u32 v;
};

/**
 * struct dual_curve - V(X) as it was sampled
 * @nr: samples
 * @step: from one to the next; doubled, and each second one left out, when there are too many
 * @next: the next one is taken from here on
 * @at: the samples, in the order of their x
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
