// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of Dual-buffer: the vectors of tiler-dualbuffer-rmwf.md 3 and what the rules
 * of its 3.8 ask for.
 */
#ifdef __KERNEL__
#include <kunit/test.h>
#include <linux/module.h>
#endif

#include "dual-rounds.h"

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

static void *zalloc(struct kunit *test, size_t size)
{
#ifdef __KERNEL__
	return kunit_kzalloc(test, size, GFP_KERNEL);
#else
	return kunit_calloc(test, size);
#endif
}

static u32 draw(u64 *state, u32 from, u32 to)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return from + (u32)(*state >> 33) % (to - from + 1);
}

/* VD2, VD3: T(n - 1) is full, then comes the next block of T(n); of FB the same behind M. */
static void dual_vd2_vd3_ranges(struct kunit *test)
{
	const struct dual_shape s = {
		.tracks = 8, .track_blocks = 10, .static_percent = 60, .min_new_percent = 20,
	};
	struct dual_cursor c = { .row = 4, .at = 1 };
	struct dual_round r;
	u32 slot = 0, i;

	dual_round_first(&s, &r);
	KUNIT_EXPECT_EQ(test, dual_next(&s, &r, DUAL_NEW, &c, 100, &slot), 5U);
	KUNIT_EXPECT_EQ(test, slot, 41U);
	dual_advance(&s, &r, DUAL_NEW, &c, 1);
	KUNIT_EXPECT_EQ(test, c.at, 2U);
	dual_advance(&s, &r, DUAL_NEW, &c, 4);
	KUNIT_EXPECT_EQ(test, dual_next(&s, &r, DUAL_NEW, &c, 1, &slot), 1U);
	KUNIT_EXPECT_EQ(test, slot, 50U);
	c = (struct dual_cursor){ 0 };
	for (i = 0; i < 8 * 4; i++) {
		KUNIT_EXPECT_TRUE(test, dual_next(&s, &r, DUAL_FB2, &c, 1, &slot) == 1);
		KUNIT_EXPECT_EQ(test, slot, i / 4 * 10 + 6 + i % 4);
		dual_advance(&s, &r, DUAL_FB2, &c, 1);
	}
	KUNIT_EXPECT_EQ(test, dual_next(&s, &r, DUAL_FB2, &c, 1, &slot), 0U);
}

/* VD5: the hand-over of three rounds, in a circle. */
static void dual_vd5_circle(struct kunit *test)
{
	static const struct {
		u32 x, fb1_at, fb1, new_at, new_blocks, fb2_at, fb2;
	} round[] = {
		{ 60, 0, 0, 0, 60, 60, 40 },
		{ 75, 60, 40, 0, 35, 35, 25 },
		{ 75, 35, 25, 60, 50, 10, 25 },
	};
	const struct dual_shape s = {
		.tracks = 1, .track_blocks = 100, .sample_tracks = 1, .sample_percent = 50,
		.min_new_percent = 20,
	};
	struct dual_round r;
	const char *why;
	u32 i, k, slot;

	KUNIT_ASSERT_EQ(test, dual_shape_check(&s, &why), 0);
	dual_round_first(&s, &r);
	for (i = 0; i < ARRAY_SIZE(round); i++) {
		u32 sampled = dual_sample_columns(&s, &r), n, sum = 0;
		struct dual_cursor c = { 0 }, at;

		KUNIT_EXPECT_EQ(test, r.number, i + 1);
		KUNIT_EXPECT_EQ(test, r.fb1_columns, round[i].fb1);
		KUNIT_EXPECT_TRUE(test, r.fb1_at == round[i].fb1_at || !r.fb1_columns);
		KUNIT_EXPECT_EQ(test, dual_next(&s, &r, DUAL_NEW, &c, 100, &slot), sampled);
		KUNIT_EXPECT_EQ(test, slot, round[i].new_at);
		dual_advance(&s, &r, DUAL_NEW, &c, sampled);
		KUNIT_EXPECT_EQ(test, dual_next(&s, &r, DUAL_NEW, &c, 100, &slot), 0U);
		dual_round_decide(&s, &r, round[i].x);
		KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_NEW), round[i].new_blocks);
		KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_FB2), round[i].fb2);
		for (c = (struct dual_cursor){ 0 };
		     (n = dual_next(&s, &r, DUAL_NEW, &c, 100, &slot));
		     dual_advance(&s, &r, DUAL_NEW, &c, n)) {
			for (k = 0; k < n; k++) {
				KUNIT_EXPECT_EQ(test, slot + k, (round[i].new_at + sum++) % 100);
				KUNIT_EXPECT_TRUE(test, dual_part_of(&s, &r, slot + k, &at) ==
							DUAL_NEW);
			}
		}
		KUNIT_EXPECT_EQ(test, sum, round[i].new_blocks);
		c = (struct dual_cursor){ 0 };
		KUNIT_EXPECT_EQ(test, dual_next(&s, &r, DUAL_FB2, &c, 100, &slot), round[i].fb2);
		KUNIT_EXPECT_EQ(test, slot, round[i].fb2_at);
		dual_round_next(&s, &r);
	}
}

/* D7: M is never behind what is new already, and FB_2 has something. */
static void dual_clamps(struct kunit *test)
{
	struct dual_shape s = {
		.tracks = 20, .track_blocks = 100, .sample_tracks = 2, .sample_percent = 50,
		.min_new_percent = 25, .min_fb_percent = 5,
	};
	const char *why;
	struct dual_round r;
	u32 i;

	KUNIT_ASSERT_EQ(test, dual_shape_check(&s, &why), 0);
	dual_round_first(&s, &r);
	dual_round_decide(&s, &r, 2000);
	KUNIT_EXPECT_EQ(test, r.drop[0].columns, 95U);
	/* Whatever is foretold in 50 rounds, a quarter is new. */
	for (i = 0; i < 50; i++) {
		dual_round_next(&s, &r);
		dual_round_decide(&s, &r, i % 3 ? 0 : 2000);
		KUNIT_EXPECT_LT(test, dual_sample_columns(&s, &r), r.drop[0].columns);
		KUNIT_EXPECT_GE(test, r.drop[0].columns, 25U);
		KUNIT_EXPECT_GE(test, dual_part_blocks(&s, &r, DUAL_FB2), 100U);
		KUNIT_EXPECT_EQ(test, dual_round_check(&s, &r), 0);
	}
	/* A static M below a half: FB_2 is as small as what is new. */
	s.sample_tracks = 0;
	for (s.static_percent = 10; s.static_percent < 100; s.static_percent += 10) {
		u32 fb2 = min(s.static_percent, 100 - s.static_percent);

		KUNIT_ASSERT_EQ(test, dual_shape_check(&s, &why), 0);
		dual_round_first(&s, &r);
		for (i = 0; i < 3; i++, dual_round_next(&s, &r))
			KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_FB2),
					20 * min(fb2, 37U));
	}
	s.static_percent = 0;
	KUNIT_EXPECT_EQ(test, dual_shape_check(&s, &why), -EINVAL);
	s.sample_tracks = 1;
	s.track_blocks = 3;
	KUNIT_EXPECT_EQ(test, dual_shape_check(&s, &why), -EINVAL);
}

/* M is lowered from later tracks on, and the next round goes around all of FB_2. */
static void dual_ratchet(struct kunit *test)
{
	const struct dual_shape s = {
		.tracks = 10, .track_blocks = 100, .sample_tracks = 1, .sample_percent = 50,
		.min_new_percent = 20, .ratchet = true,
	};
	struct dual_cursor c = { .row = 6 };
	struct dual_round r;

	dual_round_first(&s, &r);
	dual_round_decide(&s, &r, 900);
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_NEW), 900U);
	KUNIT_EXPECT_FALSE(test, dual_round_lower(&s, &r, 5, 950, 450));
	KUNIT_EXPECT_FALSE(test, dual_round_lower(&s, &r, 5, 899, 450));
	KUNIT_EXPECT_EQ(test, dual_new_before(&s, &r, &c), 450U);
	KUNIT_EXPECT_TRUE(test, dual_round_lower(&s, &r, 5, 850, 450));
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_NEW), 850U);
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_FB2), 150U);
	c.row = 9;
	KUNIT_EXPECT_EQ(test, dual_new_before(&s, &r, &c), 690U);
	KUNIT_EXPECT_TRUE(test, dual_round_lower(&s, &r, 8, 0, 690));
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_NEW), 810U);
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_FB2), 190U);
	KUNIT_EXPECT_EQ(test, dual_round_check(&s, &r), 0);
	dual_round_next(&s, &r);
	KUNIT_EXPECT_EQ(test, r.fb1_at, 60U);
	KUNIT_EXPECT_EQ(test, r.fb1_columns, 40U);
}

static void draw_shape(u64 *state, struct dual_shape *s)
{
	memset(s, 0, sizeof(*s));
	s->tracks = draw(state, 1, 12);
	s->track_blocks = draw(state, 8, 40);
	if (draw(state, 0, 2))
		s->skew_units = draw(state, 0, s->track_blocks) * DUAL_SUB_UNITS;
	if (!draw(state, 0, 2))
		s->skew_units += draw(state, 0, DUAL_SUB_UNITS - 1);
	s->sample_tracks = draw(state, 1, s->tracks);
	s->sample_percent = draw(state, 0, 60);
	s->min_new_percent = draw(state, 0, 40);
	s->min_fb_percent = draw(state, 0, 30);
	s->ratchet = true;
	if (!draw(state, 0, 3)) {
		s->sample_tracks = 0;
		s->static_percent = draw(state, 1, 99);
	}
}

/* Of what was written in this order, does a block come under the head of a later one? */
static u32 harmed(const struct dual_shape *s, const u32 *when, u32 first, u32 last)
{
	u32 a, b, bad = 0, blocks = s->tracks * s->track_blocks;
	u64 round = (u64)s->track_blocks * DUAL_SUB_UNITS;

	for (a = 0; a < blocks; a++) {
		for (b = (a / s->track_blocks + 1) * s->track_blocks; b < blocks; b++) {
			u64 x = (u64)a * DUAL_SUB_UNITS + (u64)(a / s->track_blocks) * s->skew_units;
			u64 y = (u64)b * DUAL_SUB_UNITS + (u64)(b / s->track_blocks) * s->skew_units;
			u32 apart;

			if (when[a] < first || when[a] > last || !when[b] || when[b] >= when[a])
				continue;
			div64_u64_rem(x + round * s->tracks - y % round, round, &x);
			apart = x;
			bad += apart < DUAL_SUB_UNITS || apart > round - DUAL_SUB_UNITS;
		}
	}
	return bad;
}

static u32 fill_part(struct kunit *test, const struct dual_shape *s, struct dual_round *r,
		     enum dual_part part, u64 *state, u32 *when, u32 *clock)
{
	struct dual_cursor c = { 0 }, at;
	u32 n, i, slot, sum = 0;

	for (;;) {
		n = dual_next(s, r, part, &c, draw(state, 1, 9), &slot);
		if (!n && r->nr_drops)
			return sum;
		if (!n) {
			dual_round_decide(s, r, draw(state, 0, dual_blocks(s)));
			continue;
		}
		if (part == DUAL_NEW && !c.at && c.row > 2 * s->sample_tracks &&
		    dual_round_lower(s, r, c.row - s->sample_tracks,
				     draw(state, 0, dual_blocks(s)),
				     dual_part_blocks(s, r, DUAL_FB1) + sum))
			continue;
		KUNIT_EXPECT_EQ(test, dual_new_before(s, r, &c), part == DUAL_NEW ? sum :
				dual_new_before(s, r, &c));
		for (i = 0; i < n; i++) {
			KUNIT_EXPECT_EQ(test, when[slot + i], 0U);
			when[slot + i] = ++*clock;
			KUNIT_EXPECT_EQ(test, dual_part_of(s, r, slot + i, &at), part);
			KUNIT_EXPECT_TRUE(test, at.row == c.row && at.at == c.at + i);
		}
		dual_advance(s, r, part, &c, n);
		sum += n;
	}
}

/* Three rounds of any shape: the parts are whole, and nothing comes under the head. */
static void dual_partitions(struct kunit *test)
{
	u64 state = 1;
	u32 shape, i, k;

	for (shape = 0; shape < 150; shape++) {
		u32 blocks, clock = 0, kept = 0, *when;
		struct dual_cursor at;
		struct dual_shape s;
		struct dual_round r;
		const char *why;

		draw_shape(&state, &s);
		if (dual_shape_check(&s, &why))
			continue;
		blocks = s.tracks * s.track_blocks;
		when = zalloc(test, blocks * sizeof(*when));
		KUNIT_ASSERT_NOT_NULL(test, when);
		dual_round_first(&s, &r);
		for (i = 0; i < 3; i++) {
			u32 first = clock + 1, n;

			KUNIT_ASSERT_EQ(test, dual_round_check(&s, &r), 0);
			for (k = 0; k < blocks; k++) {
				/* Of the last round only what was kept is current. */
				if (when[k] <= kept)
					when[k] = 0;
				if (when[k])
					KUNIT_EXPECT_EQ(test, dual_part_of(&s, &r, k, &at), DUAL_FB1);
			}
			n = fill_part(test, &s, &r, DUAL_NEW, &state, when, &clock);
			KUNIT_EXPECT_EQ(test, n, dual_part_blocks(&s, &r, DUAL_NEW));
			KUNIT_EXPECT_TRUE(test, n > 0);
			kept = clock;
			n = fill_part(test, &s, &r, DUAL_FB2, &state, when, &clock);
			KUNIT_EXPECT_EQ(test, n, dual_part_blocks(&s, &r, DUAL_FB2));
			KUNIT_EXPECT_EQ(test, harmed(&s, when, first, clock), 0U);
			dual_round_next(&s, &r);
		}
	}
}

static struct kunit_case dual_cases[] = {
	KUNIT_CASE(dual_vd4_fits),
	KUNIT_CASE(dual_samples),
	KUNIT_CASE(dual_flat_samples),
	KUNIT_CASE(dual_vd2_vd3_ranges),
	KUNIT_CASE(dual_vd5_circle),
	KUNIT_CASE(dual_clamps),
	KUNIT_CASE(dual_ratchet),
	KUNIT_CASE(dual_partitions),
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
