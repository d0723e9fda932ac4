// SPDX-License-Identifier: GPL-2.0
/* Histograms by the C library of HdrHistogram. */
#include <hdr/hdr_histogram.h>

#include "histogram.h"

const char histogram_library[] = "hdr_histogram";

/* Our type is another name for the library's own. */
static struct hdr_histogram *hdr(struct histogram *h)
{
	return (struct hdr_histogram *)h;
}

static const struct hdr_histogram *const_hdr(const struct histogram *h)
{
	return (const struct hdr_histogram *)h;
}

struct histogram *histogram_new(void)
{
	struct hdr_histogram *h;

	if (hdr_init(1, HISTOGRAM_MAX_NS, HISTOGRAM_DIGITS, &h))
		return NULL;
	return (struct histogram *)h;
}

void histogram_free(struct histogram *h)
{
	if (h)
		hdr_close(hdr(h));
}

void histogram_record(struct histogram *h, u64 ns)
{
	hdr_record_value(hdr(h), (int64_t)min(ns, HISTOGRAM_MAX_NS));
}

void histogram_add(struct histogram *to, const struct histogram *from)
{
	hdr_add(hdr(to), const_hdr(from));
}

u64 histogram_count(const struct histogram *h)
{
	return (u64)const_hdr(h)->total_count;
}

u64 histogram_min(const struct histogram *h)
{
	return histogram_count(h) ? (u64)hdr_min(const_hdr(h)) : 0;
}

u64 histogram_max(const struct histogram *h)
{
	return histogram_count(h) ? (u64)hdr_max(const_hdr(h)) : 0;
}

double histogram_mean(const struct histogram *h)
{
	return histogram_count(h) ? hdr_mean(const_hdr(h)) : 0;
}

u64 histogram_at(const struct histogram *h, double percent)
{
	return histogram_count(h) ? (u64)hdr_value_at_percentile(const_hdr(h), percent) : 0;
}
