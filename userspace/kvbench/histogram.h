/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Histograms of times, exact to three digits from a nanosecond to an hour.  They are those of
 * HdrHistogram's C library if it was present at build time, otherwise the same buckets.
 */
#ifndef KVBENCH_HISTOGRAM_H
#define KVBENCH_HISTOGRAM_H

#include <shim.h>

#define HISTOGRAM_MAX_NS	3600000000000ULL	/* longer times count as this */
#define HISTOGRAM_DIGITS	3

struct histogram;

extern const char histogram_library[];

struct histogram *histogram_new(void);
void histogram_free(struct histogram *h);
void histogram_record(struct histogram *h, u64 ns);
void histogram_add(struct histogram *to, const struct histogram *from);
u64 histogram_count(const struct histogram *h);
u64 histogram_min(const struct histogram *h);
u64 histogram_max(const struct histogram *h);
double histogram_mean(const struct histogram *h);
u64 histogram_at(const struct histogram *h, double percent);

#endif /* KVBENCH_HISTOGRAM_H */
