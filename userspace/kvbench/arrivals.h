/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arrival processes, as due times in nanoseconds since the start, in order.  They are those of the
 * thesis that added arrivals to YCSB.
 */
#ifndef KVBENCH_ARRIVALS_H
#define KVBENCH_ARRIVALS_H

#include <shim.h>

#define ARRIVALS_DEPTH	48	/* most halvings of the b-model */
#define NSEC_PER_SEC	1000000000ULL

enum arrival_process {
	ARRIVAL_CONSTANT,
	ARRIVAL_POISSON,
	ARRIVAL_SELF_SIMILAR,
	ARRIVAL_DIURNAL,
	NR_ARRIVAL_PROCESSES,
};

/* Distribution of the gaps within a second of the diurnal process. */
enum gap_distribution {
	GAP_PARETO,
	GAP_EXPONENTIAL,
	GAP_CONSTANT,
	NR_GAP_DISTRIBUTIONS,
};

extern const char *const arrival_process_name[NR_ARRIVAL_PROCESSES];
extern const char *const gap_distribution_name[NR_GAP_DISTRIBUTIONS];

/**
 * struct arrival_options - options of an arrival process
 * @process: the process
 * @ops: number of arrivals; 0: all within @ns
 * @ns: length; 0: as long as @ops take
 * @per_second: mean rate
 * @seed: determines the arrivals
 * @bias: self-similar: share of the busier half, 0.5 to below 1
 * @leaf_ns: self-similar: spans of this length are not halved again
 * @modulation: diurnal: amplitude of the rate around its mean, per second
 * @cycle_minutes: diurnal: length of a cycle
 * @gaps: diurnal: distribution of the gaps
 * @shape: diurnal: shape of the Pareto distribution, above 1
 * @as_drawn: diurnal: gaps are not fitted to their second, so the mean rate is not met
 */
struct arrival_options {
	enum arrival_process process;
	u64 ops, ns;
	double per_second;
	u64 seed;
	double bias;
	u64 leaf_ns;
	double modulation, cycle_minutes;
	enum gap_distribution gaps;
	double shape;
	bool as_drawn;
};

/**
 * struct arrivals - state of an arrival process
 * @opt: options
 * @rng: state of the random number generator
 * @left: number of arrivals that may still come
 * @number: number of the next arrival, from 0
 * @now_ns: time of the last arrival, in whole nanoseconds
 * @part_ns: fraction of a nanosecond of that time, below 1
 * @self: state of the b-model; a leaf has @n arrivals, of which @i have come
 * @day: state of the diurnal process; second @second has @n arrivals, of which @i have come.  The
 *	gaps are drawn a second time from @gap_rng; their sum is @sum
 */
struct arrivals {
	struct arrival_options opt;
	u64 rng, left, number, now_ns;
	double part_ns;
	union {
		struct {
			struct span {
				u64 index, n;
				u32 depth;
			} stack[ARRIVALS_DEPTH + 2];
			u32 top, depth;
			u64 total_ns, from_ns, len_ns, n, i;
		} self;
		struct {
			u64 second, n, i, counted;
			u64 gap_rng;
			double sum, at;
		} day;
	};
};

const char *arrivals_wrong(const struct arrival_options *o);
const char *arrivals_begin(struct arrivals *a, const struct arrival_options *opt);
bool arrivals_next(struct arrivals *a, u64 *due_ns);

#endif /* KVBENCH_ARRIVALS_H */
