// SPDX-License-Identifier: GPL-2.0
/*
 * dualbuffer-check: Dual-buffer without a device.
 *
 * dualbuffer-check predict
 *	of each line of the input, BLOCKS X:V X:V ..., where each fit has its root
 * dualbuffer-check table [TRACKS]
 *	predicted and ideal partition of the first round, of stationary loads
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dual-predict.h"

static const char *const fits[DUAL_NR_FITS] = { "hyper", "linear", "power", "sat" };

static int predict(void)
{
	char *line = NULL, *at, *end;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0) {
		struct dual_curve c;
		u32 blocks = strtoul(line, &at, 0), x, v, fit;

		dual_curve_begin(&c);
		for (; x = strtoul(at, &end, 0), *end == ':'; at = end) {
			v = strtoul(end + 1, &end, 0);
			dual_curve_note(&c, x, v);
		}
		for (fit = 0; fit < DUAL_NR_FITS; fit++) {
			if (dual_predict(&c, fit, blocks, &x))
				printf("%s - ", fits[fit]);
			else
				printf("%s %u ", fits[fit], x);
		}
		printf("\n");
		fflush(stdout);
	}
	free(line);
	return 0;
}

/* splitmix64 */
static u64 random_of(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static double unit(u64 *state)
{
	return (random_of(state) >> 11) * 0x1p-53;
}

/* The loads of tiler-dualbuffer-rmwf.md 3.4, over so many percent of the cache. */
static const struct {
	const char *name;
	u32 percent;
	double zipf;
	bool hot;
} loads[] = {
	{ "uniform over 5 %", 5, 0, false },
	{ "uniform over 30 %", 30, 0, false },
	{ "uniform over 200 %", 200, 0, false },
	{ "zipf 1.0 over 50 %", 50, 1.0, false },
	{ "zipf 1.2 over 50 %", 50, 1.2, false },
	{ "90 % to 10 % of 50 %", 50, 0, true },
};

#define BLOCKS	120000U

static u32 draw(u32 load, u32 n, const double *sum, u64 *state)
{
	u32 low = 0, high = n - 1;
	double at;

	if (loads[load].hot)
		return unit(state) < .9 ? unit(state) * (n / 10) :
					  n / 10 + unit(state) * (n - n / 10);
	if (!loads[load].zipf)
		return unit(state) * n;
	at = unit(state) * sum[n - 1];
	while (low < high) {
		u32 mid = (low + high) / 2;

		if (sum[mid] > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static int table(u32 tracks)
{
	u32 load, fit, i;

	printf("# %u blocks on %u tracks, of the first of which half is sampled\n", BLOCKS, tracks);
	printf("# %-20s %6s", "load", "ideal");
	for (fit = 0; fit < DUAL_NR_FITS; fit++)
		printf(" %6s", fits[fit]);
	printf("\n");
	for (load = 0; load < ARRAY_SIZE(loads); load++) {
		u32 n = BLOCKS / 100 * loads[load].percent, x, v = 0, root[DUAL_NR_FITS];
		u8 *seen = calloc(n, 1);
		double *sum = calloc(n, sizeof(*sum));
		u64 state = load + 1;
		struct dual_curve c;

		if (!seen || !sum)
			return 1;
		for (i = 0; i < n && loads[load].zipf; i++)
			sum[i] = (i ? sum[i - 1] : 0) + pow(i + 1, -loads[load].zipf);
		dual_curve_begin(&c);
		for (x = 0; v + x < BLOCKS; x++) {
			u32 at = draw(load, n, sum, &state);

			v += !seen[at];
			seen[at] = 1;
			if (x + 1 <= BLOCKS / tracks / 2)
				dual_curve_note(&c, x + 1, v);
		}
		printf("%-22s %6.1f", loads[load].name, 100.0 * x / BLOCKS);
		for (fit = 0; fit < DUAL_NR_FITS; fit++) {
			if (dual_predict(&c, fit, BLOCKS, &root[fit]))
				return 1;
			printf(" %6.1f", 100.0 * root[fit] / BLOCKS);
		}
		printf("\n");
		free(seen);
		free(sum);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "predict"))
		return predict();
	if (!strcmp(what, "table"))
		return table(argc > 2 ? strtoul(argv[2], NULL, 0) : 9);
	fprintf(stderr, "Usage: dualbuffer-check predict | table [TRACKS]\n");
	return 2;
}
