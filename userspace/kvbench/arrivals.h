/* SPDX-License-Identifier: GPL-2.0 */
/*
 * When requests come: the arrival processes of the thesis that gave YCSB some,
 * as due times in nanoseconds since the start, in order.
 */
#ifndef KVBENCH_ARRIVALS_H
#define KVBENCH_ARRIVALS_H

#include <shim.h>

#define ARRIVALS_DEPTH	48	/* of the b-model's halvings, at most */
#define NSEC_PER_SEC	1000000000ULL

enum arrival_process {
	ARRIVAL_CONSTANT,
	ARRIVAL_POISSON,
	ARRIVAL_SELF_SIMILAR,
	ARRIVAL_DIURNAL,
	NR_ARRIVAL_PROCESSES,
};

/* Of the gaps within a second of the diurnal process. */
enum gap_distribution {
	GAP_PARETO,
	GAP_EXPONENTIAL,
	GAP_CONSTANT,
	NR_GAP_DISTRIBUTIONS,
};

extern const char *const arrival_process_name[NR_ARRIVAL_PROCESSES];
extern const char *const gap_distribution_name[NR_GAP_DISTRIBUTIONS];

/**
 * struct arrival_options - a process
 * @process: which one
 * @ops: arrivals, or 0 for as many as come within @ns
 * @ns: length, or 0 for as long as @ops take
 * @per_second: mean rate
 * @seed: the same one, the same arrivals
 * @bias: self-similar: share of the busier half, 0.5 to below 1
 * @leaf_ns: self-similar: spans of this length are not halved again
 * @modulation: diurnal: the rate's swing around its mean, per second
 * @cycle_minutes: diurnal: length of a cycle
 * @gaps: diurnal: their distribution
 * @shape: diurnal: of Pareto's distribution, above 1
 * @as_drawn: diurnal: gaps are not fitted to the second, so the rate is missed
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
 * struct arrivals - a process under way
 * @opt: see there
 * @rng: state of the random numbers
 * @left: arrivals that may still come
 * @number: of the next one, from 0
 * @now_ns: time of the last one, the whole of it
 * @part_ns: the rest of it, below 1
 * @self: the b-model; arrivals of a leaf are @n, of which @i have come
 * @day: the diurnal process: second @second has @n arrivals, of which @i have come;
 *	gaps come from @gap_rng once more, and @sum of them make a second
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
