// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of Dual-buffer: the vectors of tiler-dualbuffer-rmwf.md 3 and what the rules
 * of its 3.8 ask for.
 */
#ifdef __KERNEL__
#include <kunit/test.h>
#include <linux/module.h>
#endif

#include "dual-predict.h"

#ifndef __KERNEL__
#include "kunit-shim.h"
#endif

/* VD4: five samples of a cache of 900 blocks. */
static void dual_vd4_fits(struct kunit *test)
{
	static const struct dual_sample samples[] = {
		{ 10, 10 }, { 20, 18 }, { 30, 25 }, { 40, 31 }, { 50, 37 },
	};
	static const u32 root[DUAL_NR_FITS] = {
		[DUAL_HYPER] = 800, [DUAL_LINEAR] = 537, [DUAL_POWER] = 614,
	};
	struct dual_curve c;
	u32 i, x = 0;

	dual_curve_begin(&c);
	for (i = 0; i < ARRAY_SIZE(samples); i++)
		dual_curve_note(&c, samples[i].x, samples[i].v);
	for (i = 0; i < DUAL_SAT; i++) {
		KUNIT_ASSERT_EQ(test, dual_predict(&c, i, 900, &x), 0);
		KUNIT_EXPECT_EQ(test, x, root[i]);
	}
	/* 37 different ones of 50 are expected of a choice among 78. */
	KUNIT_ASSERT_EQ(test, dual_predict(&c, DUAL_SAT, 900, &x), 0);
	KUNIT_EXPECT_EQ(test, x, 822U);
}

/* So many are kept that they tell the curve, and no more; evenly, whatever comes. */
static void dual_samples(struct kunit *test)
{
	struct dual_curve c;
	u32 x, i;

	dual_curve_begin(&c);
	for (x = 0; x < 100000; x += 1 + x % 3) {
		dual_curve_note(&c, x, x / 2);
		KUNIT_EXPECT_TRUE(test, c.nr < DUAL_SAMPLES);
		if (x > 2 * DUAL_SAMPLES)
			KUNIT_EXPECT_TRUE(test, c.nr >= DUAL_SAMPLES / 2);
	}
	for (i = 1; i < c.nr; i++) {
		KUNIT_EXPECT_TRUE(test, c.at[i].x - c.at[i - 1].x >= c.step);
		KUNIT_EXPECT_TRUE(test, c.at[i].x - c.at[i - 1].x < 2 * c.step);
		KUNIT_EXPECT_EQ(test, c.at[i].v, c.at[i].x / 2);
	}
	KUNIT_EXPECT_TRUE(test, c.at[c.nr - 1].x >= 100000 - 2 * c.step);
}

/* D7: nothing to go by, nothing that is ever written twice, nothing but one block. */
static void dual_flat_samples(struct kunit *test)
{
	struct dual_curve c;
	u32 fit, x, i;

	for (fit = 0; fit < DUAL_NR_FITS; fit++) {
		dual_curve_begin(&c);
		KUNIT_EXPECT_EQ(test, dual_predict(&c, fit, 1000, &x), -ENODATA);
		dual_curve_note(&c, 0, 0);
		dual_curve_note(&c, 5, 0);
		dual_curve_note(&c, 6, 6);
		KUNIT_EXPECT_EQ(test, dual_predict(&c, fit, 1000, &x), -ENODATA);
		/* The best that there is then is half. */
		for (i = 7; i < 500; i++)
			dual_curve_note(&c, i, i);
		KUNIT_ASSERT_EQ(test, dual_predict(&c, fit, 1000, &x), 0);
		KUNIT_EXPECT_TRUE(test, x == 500 || x == 501);
		dual_curve_begin(&c);
		for (i = 1; i < 500; i++)
			dual_curve_note(&c, i, 1);
		KUNIT_ASSERT_EQ(test, dual_predict(&c, fit, 1000, &x), 0);
		KUNIT_EXPECT_TRUE(test, x == 999 || x == 1000);
		/* No cache is larger. */
		dual_curve_begin(&c);
		for (i = 0; i < 1000; i++)
			dual_curve_note(&c, i * 2000000U + 1, i + 1);
		KUNIT_ASSERT_EQ(test, dual_predict(&c, fit, DUAL_MAX_BLOCKS, &x), 0);
		KUNIT_EXPECT_TRUE(test, x > DUAL_MAX_BLOCKS - 4000 && x < DUAL_MAX_BLOCKS);
		/* Two samples, as far apart as they can be. */
		dual_curve_begin(&c);
		dual_curve_note(&c, 1, 1);
		dual_curve_note(&c, DUAL_MAX_BLOCKS - 1, DUAL_MAX_BLOCKS - 1);
		KUNIT_ASSERT_EQ(test, dual_predict(&c, fit, DUAL_MAX_BLOCKS, &x), 0);
		KUNIT_EXPECT_TRUE(test, x <= DUAL_MAX_BLOCKS);
	}
}

static struct kunit_case dual_cases[] = {
	KUNIT_CASE(dual_vd4_fits),
	KUNIT_CASE(dual_samples),
	KUNIT_CASE(dual_flat_samples),
	{}
};

static struct kunit_suite dual_suite = {
	.name = "dualbuffer",
	.test_cases = dual_cases,
};

kunit_test_suites(&dual_suite);

#ifdef __KERNEL__
MODULE_DESCRIPTION("dm-shingle: KUnit tests of Dual-buffer");
MODULE_LICENSE("GPL");
#endif
