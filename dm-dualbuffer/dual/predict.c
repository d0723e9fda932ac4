// SPDX-License-Identifier: GPL-2.0
/*
 * Fits curves to V(X), in fixed point: see dual/predict.h.
 *
 * Points on a line have abscissae of up to 25 bits and ordinates of up to 32, so that a sum
 * of 64 products of deviations fits into 63 bits.
 */
#include "dual/predict.h"

/* Fractional bits of the abscissae of a line, and of logarithms. */
#define ONE_SHIFT	20
#define ONE		(1ULL << ONE_SHIFT)
/* Larger values count as infinite. */
#define ENDLESS		(1ULL << 62)
/* ln 2, with 32 fractional bits. */
#define LN2		2977044472ULL

/* a + b * x */
struct line {
	s64 a;
	s64 b;
};

/**
 * struct fitted - the curve of a family that fits the samples best
 * @c: the samples
 * @fit: the family
 * @shift: fractional bits of the ordinates of the line
 * @line: the line, for all families but DUAL_SAT
 * @choice: U, for DUAL_SAT
 */
struct fitted {
	const struct dual_curve *c;
	enum dual_fit fit;
	u32 shift;
	struct line line;
	u32 choice;
};

/**
 * dual_curve_begin() - begin to sample a round
 * @c: the samples
 *
 * Context: any.
 */
void dual_curve_begin(struct dual_curve *c)
{
	memset(c, 0, sizeof(*c));
	c->step = 1;
}

/**
 * dual_curve_note() - note a point of V(X)
 * @c: the samples
 * @x: allocated blocks, not less than the last time
 * @v: current blocks
 *
 * Context: any.
 * Return: true if the point became a sample.
 */
bool dual_curve_note(struct dual_curve *c, u32 x, u32 v)
{
	u32 i;

	if (x < c->next || !x || !v)
		return false;
	c->at[c->nr++] = (struct dual_sample){ x, v };
	if (c->nr == DUAL_SAMPLES) {
		c->nr /= 2;
		c->step *= 2;
		for (i = 0; i < c->nr; i++)
			c->at[i] = c->at[2 * i + 1];
	}
	c->next = c->at[c->nr - 1].x + c->step;
	return true;
}

/**
 * dual_curve_trim() - remove samples after a point
 * @c: the samples
 * @x: blocks that are allocated in fact
 *
 * Context: any.
 */
void dual_curve_trim(struct dual_curve *c, u32 x)
{
	while (c->nr && c->at[c->nr - 1].x > x)
		c->nr--;
	c->next = c->nr ? c->at[c->nr - 1].x + c->step : 0;
}

/**
 * dual_curve_check() - check samples that were loaded
 * @c: the samples
 * @blocks: blocks of the cache
 *
 * Context: any.
 * Return: 0 or -EUCLEAN.
 */
int dual_curve_check(const struct dual_curve *c, u32 blocks)
{
	u32 i;

	if (c->nr >= DUAL_SAMPLES || !c->step || c->step > blocks)
		return -EUCLEAN;
	for (i = 0; i < c->nr; i++) {
		const struct dual_sample *s = &c->at[i];

		if (!s->v || s->v > s->x || s->x > blocks || (i && s->x <= s[-1].x))
			return -EUCLEAN;
	}
	return 0;
}

/* a * b / c; never overflows. */
static u64 scale(u64 a, u64 b, u64 c)
{
	if (!c || fls64(a) + fls64(b) - fls64(c) > 61)
		return a && b ? ENDLESS : 0;
	return mul_u64_u64_div_u64(a, b, c);
}

static s64 scale_signed(s64 a, u64 b, u64 c)
{
	return a < 0 ? -(s64)scale(-a, b, c) : (s64)scale(a, b, c);
}

/* log2, with ONE_SHIFT fractional bits. */
static u32 log_of(u32 v)
{
	u32 whole = fls64(v) - 1, i, part = 0;
	u64 m = (u64)v << (31 - whole);

	for (i = 0; i < ONE_SHIFT; i++) {
		m = m * m >> 31;
		part = part << 1 | (u32)(m >> 32);
		m >>= m >> 32;
	}
	return whole << ONE_SHIFT | part;
}

/* exp(-t); argument and result have 32 fractional bits. */
static u64 exp_of_minus(u64 t)
{
	u64 whole = div_u64(t, LN2), rest = t - whole * LN2, e = 1ULL << 32;
	u32 i;

	/*
	 * 1 - r (1 - r / 2 (1 - r / 3 ...)): terms after the twelfth are zero at this
	 * precision.
	 */
	for (i = 12; i; i--)
		e = (1ULL << 32) - div_u64(rest * (e >> 1) >> 31, i);
	return whole > 63 ? 0 : e >> whole;
}

static void point(const struct fitted *f, u32 i, u32 *x, u32 *y)
{
	const struct dual_sample *s = &f->c->at[i];

	if (f->fit == DUAL_POWER) {
		*x = log_of(s->x);
		*y = log_of(s->v);
		return;
	}
	*x = scale(s->x, ONE, f->c->at[f->c->nr - 1].x);
	*y = f->fit == DUAL_HYPER ? div_u64((u64)s->x << f->shift, s->v) : s->v << f->shift;
}

/* Give the ordinates as many fractional bits as fit. */
static void choose_shift(struct fitted *f)
{
	u32 i, most = 1;

	if (f->fit == DUAL_POWER) {
		f->shift = ONE_SHIFT;
		return;
	}
	for (i = 0; i < f->c->nr; i++) {
		const struct dual_sample *s = &f->c->at[i];

		most = max(most, f->fit == DUAL_HYPER ? s->x / s->v + 1 : s->v);
	}
	f->shift = 32 - fls64(most);
}

/*
 * Least squares.  If slope or intercept would be negative where they must not be, use the
 * best line that satisfies the limits.
 */
static void fit_line(struct fitted *f)
{
	u32 i, x, y, n = f->c->nr;
	s64 mean_x = 0, mean_y = 0, sxx = 0, sxy = 0;
	u64 oxx = 0, oxy = 0;

	for (i = 0; i < n; i++) {
		point(f, i, &x, &y);
		mean_x += x;
		mean_y += y;
	}
	mean_x = div_u64(mean_x, n);
	mean_y = div_u64(mean_y, n);
	for (i = 0; i < n; i++) {
		point(f, i, &x, &y);
		sxx += (x - mean_x) * (x - mean_x);
		sxy += (x - mean_x) * (y - mean_y);
		oxx += (u64)x * x;
		oxy += (u64)x * y;
	}
	f->line.b = sxx ? scale_signed(sxy, ONE, sxx) : 0;
	f->line.b = max(f->line.b, 0LL);
	if (f->fit == DUAL_POWER)
		f->line.b = min_t(s64, f->line.b, ONE);
	f->line.a = mean_y - scale_signed(f->line.b, mean_x, ONE);
	if (f->fit == DUAL_HYPER && f->line.a < 0) {
		f->line.a = 0;
		f->line.b = scale(oxy, ONE, oxx);
	}
}

/* U (1 - exp(-x / U)) >= y? */
static bool choice_reaches(u32 choice, u32 x, u32 y)
{
	u64 part = (1ULL << 32) - exp_of_minus(div_u64((u64)x << 32, choice));

	return choice * part >= (u64)y << 32;
}

/* The least U for which the expected number of distinct blocks reaches the last sample. */
static void fit_choice(struct fitted *f)
{
	const struct dual_sample *last = &f->c->at[f->c->nr - 1];
	u32 low = last->v, high = U32_MAX;

	while (low < high) {
		u32 mid = low + (high - low) / 2;

		if (choice_reaches(mid, last->x, last->v))
			high = mid;
		else
			low = mid + 1;
	}
	f->choice = low;
}

static s64 line_at(const struct fitted *f, u32 x)
{
	return f->line.a + (s64)scale(f->line.b, x, f->c->at[f->c->nr - 1].x);
}

/* V'(x) >= y? */
static bool reaches(const struct fitted *f, u32 x, u32 y)
{
	if (!y)
		return true;
	if (!x)
		return false;
	switch (f->fit) {
	case DUAL_HYPER:
		return scale(x, 1ULL << f->shift, line_at(f, x)) >= y;
	case DUAL_LINEAR:
		return line_at(f, x) >= (s64)((u64)y << f->shift);
	case DUAL_POWER:
		return f->line.a + scale_signed(f->line.b, log_of(x), ONE) >= log_of(y);
	default:
		return choice_reaches(f->choice, x, y);
	}
}

/**
 * dual_predict() - predict the number of allocated blocks at which the current ones fill
 * the rest
 * @c: samples; the last one was taken at less than @blocks
 * @fit: family of curves
 * @blocks: blocks of the cache, N
 * @x: result, from 0 to @blocks; may be less than the last sample's x
 *
 * Context: any.
 * Return: 0, or -ENODATA if there are fewer than two samples.
 */
int dual_predict(const struct dual_curve *c, enum dual_fit fit, u32 blocks, u32 *x)
{
	struct fitted f = { .c = c, .fit = fit };
	u32 low = 0, high = blocks;

	if (c->nr < 2)
		return -ENODATA;
	if (fit == DUAL_SAT) {
		fit_choice(&f);
	} else {
		choose_shift(&f);
		fit_line(&f);
	}
	while (low < high) {
		u32 mid = low + (high - low) / 2;

		if (reaches(&f, mid, blocks - mid))
			high = mid;
		else
			low = mid + 1;
	}
	*x = low;
	return 0;
}
