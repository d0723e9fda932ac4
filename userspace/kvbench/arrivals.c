// SPDX-License-Identifier: GPL-2.0
/* Arrival processes: the times at which requests are due. */
#include <math.h>
#include <random.h>

#include "arrivals.h"

const char *const arrival_process_name[] = {
	"constant", "poisson", "self-similar", "diurnal",
};

const char *const gap_distribution_name[] = {
	"pareto", "exponential", "constant",
};

/* Return: a random number above 0 and at most 1. */
static double unit_above_0(u64 *rng)
{
	return 1 - random_unit(rng);
}

/* Advance with a fraction of a nanosecond: without it, rates above 10^7 would be wrong. */
static void advance(struct arrivals *a, double ns)
{
	double whole;

	/* Pareto gaps have no upper bound: limit one to three years. */
	a->part_ns = modf(a->part_ns + min(ns, 1e17), &whole);
	a->now_ns += (u64)whole;
}

/* --- constant and Poisson ------------------------------------------------------- */

static void constant_next(struct arrivals *a)
{
	a->now_ns = (u64)((long double)a->number * NSEC_PER_SEC / a->opt.per_second);
}

static void poisson_next(struct arrivals *a)
{
	advance(a, -log(unit_above_0(&a->rng)) / a->opt.per_second * NSEC_PER_SEC);
}

/* --- the b-model ------------------------------------------------------------------ */

static void push(struct arrivals *a, u32 depth, u64 index, u64 n)
{
	if (n)
		a->self.stack[a->self.top++] = (struct span){ index, n, depth };
}

static u64 span_ns(const struct arrivals *a, u32 depth, u64 index)
{
	return (u64)((unsigned __int128)a->self.total_ns * index >> depth);
}

static void self_similar_begin(struct arrivals *a)
{
	u64 n = a->opt.ops;

	if (!n)
		n = (u64)llround(a->opt.per_second * (double)a->opt.ns / NSEC_PER_SEC);
	a->left = n;
	a->self.total_ns = (u64)llround((double)n / a->opt.per_second * NSEC_PER_SEC);
	if (a->opt.ns && !a->opt.ops)
		a->self.total_ns = a->opt.ns;
	while (a->self.depth < ARRIVALS_DEPTH &&
	       a->self.total_ns >> a->self.depth > a->opt.leaf_ns)
		a->self.depth++;
	push(a, 0, 0, n);
}

/* Halve spans until the leftmost one is a leaf. */
static void self_similar_leaf(struct arrivals *a)
{
	struct span s = a->self.stack[--a->self.top];

	while (s.depth < a->self.depth) {
		double share = a->opt.bias * (double)s.n;
		u64 more = (u64)share, left;

		/* Rounded at random, so that small spans keep the bias on average. */
		more += random_unit(&a->rng) < share - (double)more;
		left = random64(&a->rng) & 1 ? more : s.n - more;
		push(a, s.depth + 1, 2 * s.index + 1, s.n - left);
		push(a, s.depth + 1, 2 * s.index, left);
		s = a->self.stack[--a->self.top];
	}
	a->self.from_ns = span_ns(a, s.depth, s.index);
	a->self.len_ns = span_ns(a, s.depth, s.index + 1) - a->self.from_ns;
	a->self.n = s.n;
	a->self.i = 0;
}

/* The arrivals of a leaf have equal distances. */
static void self_similar_next(struct arrivals *a)
{
	if (a->self.i == a->self.n)
		self_similar_leaf(a);
	a->now_ns = a->self.from_ns + (u64)((unsigned __int128)a->self.len_ns *
					    (2 * a->self.i + 1) / (2 * a->self.n));
	a->self.i++;
}

/* --- diurnal ---------------------------------------------------------------------- */

/* Where gaps are fitted to their second, the mean of the distribution does not matter. */
static double gap(const struct arrivals *a, u64 *rng)
{
	double u = unit_above_0(rng);

	switch (a->opt.gaps) {
	case GAP_PARETO:
		return pow(u, -1 / a->opt.shape);
	case GAP_EXPONENTIAL:
		return -log(u);
	default:
		return 1;
	}
}

static double gap_mean(const struct arrivals *a)
{
	return a->opt.gaps == GAP_PARETO ? a->opt.shape / (a->opt.shape - 1) : 1;
}

static double turn(const struct arrivals *a)
{
	return 2 * M_PI / (a->opt.cycle_minutes * 60);
}

/* Number of arrivals until @second, the integral of the envelope. */
static double envelope_sum(const struct arrivals *a, double second)
{
	return a->opt.per_second * second +
	       a->opt.modulation / turn(a) * (1 - cos(turn(a) * second));
}

/*
 * Begin the next second that has arrivals.  Each second gets the arrivals that bring the sum to
 * that of the envelope, so fractions are carried over.  The first gap of a second began in the
 * second before: the last gap is cut in two at random, and its end stands in front.
 */
static void diurnal_second(struct arrivals *a)
{
	u64 until, i, rng;
	double last = 0;

	do {
		until = (u64)envelope_sum(a, (double)(a->day.second + 1));
		a->day.n = until - min(until, a->day.counted);
		a->day.counted = max(until, a->day.counted);
		a->day.second++;
	} while (!a->day.n);
	a->day.i = 0;
	a->day.gap_rng = a->rng;
	a->day.sum = 0;
	for (i = 0, rng = a->rng; i < a->day.n; i++) {
		last = gap(a, &rng);
		a->day.sum += last;
	}
	a->day.at = last * random_unit(&rng);
	a->rng = rng;
}

static void diurnal_fitted(struct arrivals *a)
{
	double part;

	if (a->day.i == a->day.n)
		diurnal_second(a);
	part = min(a->day.at / a->day.sum, 1.0);
	a->now_ns = (a->day.second - 1) * NSEC_PER_SEC +
		    min((u64)(part * NSEC_PER_SEC), NSEC_PER_SEC - 1);
	a->day.at += gap(a, &a->day.gap_rng);
	a->day.i++;
}

/* A literal reading of the thesis: gaps with a mean that the envelope sets, without any fitting. */
static void diurnal_as_drawn(struct arrivals *a)
{
	double now_s = (double)a->now_ns / NSEC_PER_SEC;
	double rate = a->opt.per_second + a->opt.modulation * sin(turn(a) * floor(now_s));

	/* Without a lower bound nothing would come while the envelope is 0. */
	rate = max(rate, 1e-3);
	advance(a, gap(a, &a->rng) / gap_mean(a) / rate * NSEC_PER_SEC);
}

/* --- interface -------------------------------------------------------------------- */

/**
 * arrivals_wrong() - verify the options of a process
 * @o: the options
 *
 * Return: NULL, or a message that says what is wrong.
 */
const char *arrivals_wrong(const struct arrival_options *o)
{
	if (!(o->per_second >= 1e-3 && o->per_second <= 1e9))
		return "the rate must be from 0.001 to 1000000000 per second";
	if (!o->ops && !o->ns)
		return "give a number of operations or of seconds";
	if (o->ns > S64_MAX || (double)o->ops / o->per_second > 9e9)
		return "the run would take more than 285 years";
	if (o->process == ARRIVAL_SELF_SIMILAR && !(o->bias >= 0.5 && o->bias < 1))
		return "the bias must be at least 0.5 and below 1";
	if (o->process != ARRIVAL_DIURNAL)
		return NULL;
	if (!(o->modulation >= 0 && o->modulation <= o->per_second))
		return "the modulation must be at least 0 and at most the rate";
	if (!(o->cycle_minutes > 0 && o->cycle_minutes <= 1e6))
		return "the cycle must be above 0, and at most 1000000 minutes";
	if (o->gaps == GAP_PARETO && !(o->shape > 1 && o->shape <= 100))
		return "the shape must be above 1, so that there is a mean, and at most 100";
	return NULL;
}

/**
 * arrivals_begin() - begin a process at time 0
 * @a: result
 * @opt: the options; copied
 *
 * Return: NULL, or a message that says what is wrong with @opt.
 */
const char *arrivals_begin(struct arrivals *a, const struct arrival_options *opt)
{
	const char *why = arrivals_wrong(opt);

	if (why)
		return why;
	memset(a, 0, sizeof(*a));
	a->opt = *opt;
	a->rng = mix64(~opt->seed);
	a->left = opt->ops ? opt->ops : U64_MAX;
	if (opt->process == ARRIVAL_SELF_SIMILAR)
		self_similar_begin(a);
	return NULL;
}

/**
 * arrivals_next() - get the time of the next arrival
 * @a: the process
 * @due_ns: result: nanoseconds since the start; never decreases
 *
 * Return: False after the last arrival.
 */
bool arrivals_next(struct arrivals *a, u64 *due_ns)
{
	static void (*const next[])(struct arrivals *a) = {
		constant_next, poisson_next, self_similar_next, diurnal_fitted,
	};

	if (!a->left)
		return false;
	if (a->opt.process == ARRIVAL_DIURNAL && a->opt.as_drawn)
		diurnal_as_drawn(a);
	else
		next[a->opt.process](a);
	if (a->opt.ns && a->now_ns >= a->opt.ns) {
		a->left = 0;
		return false;
	}
	a->left--;
	a->number++;
	*due_ns = a->now_ns;
	return true;
}
