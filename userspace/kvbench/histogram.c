// SPDX-License-Identifier: GPL-2.0
/*
 * Histograms with the buckets of HdrHistogram, used where its library is missing: values below 2048
 * have one bucket each; above, each doubling has 1024 buckets.
 */
#include <math.h>

#include "histogram.h"

#define SUB_SHIFT	10		/* three digits require 2 * 10^3 buckets to start with */
#define SUB		(1U << SUB_SHIFT)
#define MAX_SHIFT	31		/* 2^11 shifted by this are more than an hour */
#define BUCKETS		((MAX_SHIFT + 2) * SUB)

const char histogram_library[] = "built in";

/**
 * struct histogram - counts of times
 * @n: number of times
 * @least: shortest time, exact
 * @most: longest time, exact
 * @bucket: counts
 */
struct histogram {
	u64 n, least, most;
	u64 bucket[BUCKETS];
};

struct histogram *histogram_new(void)
{
	struct histogram *h = calloc(1, sizeof(*h));

	if (h)
		h->least = U64_MAX;
	return h;
}

void histogram_free(struct histogram *h)
{
	free(h);
}

/* Return: the shift that leaves at most eleven bits of a value. */
static u32 shift_of(u64 ns)
{
	u32 bits = 64 - (u32)__builtin_clzll(ns | 1);

	return bits > SUB_SHIFT + 1 ? bits - SUB_SHIFT - 1 : 0;
}

static u32 bucket_of(u64 ns)
{
	u32 shift = shift_of(ns);

	return shift * SUB + (u32)(ns >> shift);
}

/* Return: the lowest value of a bucket. */
static u64 bucket_ns(u32 bucket)
{
	u32 shift = bucket < 2 * SUB ? 0 : bucket / SUB - 1;

	return (u64)(bucket - shift * SUB) << shift;
}

static u64 bucket_last_ns(u32 bucket)
{
	return bucket_ns(bucket + 1) - 1;
}

void histogram_record(struct histogram *h, u64 ns)
{
	ns = min(ns, HISTOGRAM_MAX_NS);
	h->n++;
	h->least = min(h->least, ns);
	h->most = max(h->most, ns);
	h->bucket[bucket_of(ns)]++;
}

void histogram_add(struct histogram *to, const struct histogram *from)
{
	u32 i;

	to->n += from->n;
	to->least = min(to->least, from->least);
	to->most = max(to->most, from->most);
	for (i = 0; i < BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

u64 histogram_count(const struct histogram *h)
{
	return h->n;
}

u64 histogram_min(const struct histogram *h)
{
	return h->n ? h->least : 0;
}

u64 histogram_max(const struct histogram *h)
{
	return h->most;
}

double histogram_mean(const struct histogram *h)
{
	double sum = 0;
	u32 i;

	for (i = 0; i < BUCKETS; i++)
		if (h->bucket[i])
			sum += (double)h->bucket[i] *
			       ((double)bucket_ns(i) + (double)bucket_last_ns(i)) / 2;
	return h->n ? sum / (double)h->n : 0;
}

/* Return: the highest value of the bucket in which @percent of all values are reached. */
u64 histogram_at(const struct histogram *h, double percent)
{
	u64 want = max(1ULL, (u64)ceil(percent / 100 * (double)h->n)), sum = 0;
	u32 i;

	for (i = 0; i < BUCKETS; i++) {
		sum += h->bucket[i];
		if (h->n && sum >= want)
			return min(bucket_last_ns(i), h->most);
	}
	return h->most;
}
