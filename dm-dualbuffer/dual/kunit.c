// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of Dual-buffer: worked examples VD1 to VD5 of Ma (2019), chapter 4, and the rules D1
 * to D10 of papers/ma.rst.
 */
#ifdef __KERNEL__
#include <kunit/test.h>
#include <linux/module.h>
#endif

#include "dual/cache.h"

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
	/* A choice among 78 blocks has 37 distinct ones in 50. */
	KUNIT_ASSERT_EQ(test, dual_predict(&c, DUAL_SAT, 900, &x), 0);
	KUNIT_EXPECT_EQ(test, x, 822U);
}

/* The number of samples is limited, and they stay evenly spaced. */
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

/* D7: no samples, no block written twice, only one block written. */
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
		/* Half of the cache is the best possible result here. */
		for (i = 7; i < 500; i++)
			dual_curve_note(&c, i, i);
		KUNIT_ASSERT_EQ(test, dual_predict(&c, fit, 1000, &x), 0);
		KUNIT_EXPECT_TRUE(test, x == 500 || x == 501);
		dual_curve_begin(&c);
		for (i = 1; i < 500; i++)
			dual_curve_note(&c, i, 1);
		KUNIT_ASSERT_EQ(test, dual_predict(&c, fit, 1000, &x), 0);
		KUNIT_EXPECT_TRUE(test, x == 999 || x == 1000);
		/* The largest possible cache. */
		dual_curve_begin(&c);
		for (i = 0; i < 1000; i++)
			dual_curve_note(&c, i * 2000000U + 1, i + 1);
		KUNIT_ASSERT_EQ(test, dual_predict(&c, fit, DUAL_MAX_BLOCKS, &x), 0);
		KUNIT_EXPECT_TRUE(test, x > DUAL_MAX_BLOCKS - 4000 && x < DUAL_MAX_BLOCKS);
		/* Two samples, as far apart as possible. */
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

/* VD2, VD3: when T(n - 1) is full the next block of T(n) follows; the same for FB after M. */
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

/* VD5: the parts of three rounds, in a circle. */
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
		u32 sampled = dual_sample_columns(&s, &r), n, sum = 0, when[100] = { 0 };
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
				KUNIT_EXPECT_EQ(test, when[slot + k], 0U);
				when[slot + k] = 1;
				sum++;
				KUNIT_EXPECT_LT(test, (slot + k + 100 - round[i].new_at) % 100,
						round[i].new_blocks);
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

/* D7: M is never less than the columns already written, and FB_2 is not empty. */
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
	/* With any predictions over 50 rounds, a quarter of the columns is new. */
	for (i = 0; i < 50; i++) {
		dual_round_next(&s, &r);
		dual_round_decide(&s, &r, i % 3 ? 0 : 2000);
		KUNIT_EXPECT_LT(test, dual_sample_columns(&s, &r), r.drop[0].columns);
		KUNIT_EXPECT_GE(test, r.drop[0].columns, 25U);
		KUNIT_EXPECT_GE(test, dual_part_blocks(&s, &r, DUAL_FB2), 100U);
		KUNIT_EXPECT_EQ(test, dual_round_check(&s, &r), 0);
	}
	/* With a static M below a half, FB_2 is as small as the new part. */
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

/* M is lowered on later tracks, and the next round leaves out all columns of FB_2. */
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
	KUNIT_EXPECT_EQ(test, dual_before(&s, &r, DUAL_NEW, &c), 450U);
	KUNIT_EXPECT_TRUE(test, dual_round_lower(&s, &r, 5, 850, 450));
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_NEW), 850U);
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_FB2), 150U);
	c.row = 9;
	KUNIT_EXPECT_EQ(test, dual_before(&s, &r, DUAL_NEW, &c), 690U);
	KUNIT_EXPECT_TRUE(test, dual_round_lower(&s, &r, 8, 0, 690));
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_NEW), 810U);
	KUNIT_EXPECT_EQ(test, dual_part_blocks(&s, &r, DUAL_FB2), 190U);
	KUNIT_EXPECT_EQ(test, dual_round_check(&s, &r), 0);
	dual_round_next(&s, &r);
	KUNIT_EXPECT_EQ(test, r.fb1_at, 60U);
	KUNIT_EXPECT_EQ(test, r.fb1_columns, 40U);
}

/*
 * A row is written in the order of its blocks: if it has the last block of its track and
 * the next row has the first of the next track, both form one run.
 */
static void dual_rows_join(struct kunit *test)
{
	static const u32 static_percent[] = { 50, 60, 70, 80 };
	u32 i, round, row, n, slot, end, joined = 0;
	struct dual_cursor c, at;
	struct dual_round r;

	for (i = 0; i < ARRAY_SIZE(static_percent); i++) {
		const struct dual_shape s = {
			.tracks = 6, .track_blocks = 20, .static_percent = static_percent[i],
			.min_new_percent = 20, .skew_units = i * DUAL_SUB_UNITS,
		};

		dual_round_first(&s, &r);
		for (round = 0; round < 8; round++) {
			c = (struct dual_cursor){ 0 };
			end = 0;
			while ((n = dual_next(&s, &r, DUAL_NEW, &c, 20, &slot))) {
				row = slot / 20;
				KUNIT_EXPECT_GE(test, slot, end);
				if (row && end == row * 20 && !c.at &&
				    dual_part_of(&s, &r, end, &at) == DUAL_NEW) {
					KUNIT_EXPECT_EQ(test, slot, end);
					joined++;
				}
				end = slot + n;
				dual_advance(&s, &r, DUAL_NEW, &c, n);
			}
			dual_round_next(&s, &r);
		}
	}
	KUNIT_EXPECT_GE(test, joined, 30U);
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

/* The angle at which a block begins. */
static u32 angle_of(const struct dual_shape *s, u32 slot)
{
	u32 rest;

	div_u64_rem((u64)slot * DUAL_SUB_UNITS +
		    (u64)(slot / s->track_blocks) * s->skew_units,
		    s->track_blocks * DUAL_SUB_UNITS, &rest);
	return rest;
}

/* Does a later write, in this order, pass over an earlier block? */
static u32 harmed(const struct dual_shape *s, const u32 *when, u32 first, u32 last)
{
	u32 a, b, bad = 0, blocks = s->tracks * s->track_blocks;
	u32 turn = s->track_blocks * DUAL_SUB_UNITS, apart;

	for (a = 0; a < blocks; a++) {
		if (when[a] < first || when[a] > last)
			continue;
		for (b = (a / s->track_blocks + 1) * s->track_blocks; b < blocks; b++) {
			apart = (angle_of(s, a) + turn - angle_of(s, b)) % turn;
			bad += when[b] && when[b] < when[a] &&
			       (apart < DUAL_SUB_UNITS || apart > turn - DUAL_SUB_UNITS);
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
		KUNIT_EXPECT_EQ(test, dual_before(s, r, part, &c), sum);
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

/* dual_holders() agrees with dual_part_of(), for runs of blocks as long as possible. */
static void expect_holders(struct kunit *test, const struct dual_shape *s,
			   const struct dual_round *r)
{
	u32 blocks = s->tracks * s->track_blocks, slot, n, i;
	struct dual_cursor at;

	for (slot = 0; slot < blocks; slot += n) {
		enum dual_part part, of;

		n = blocks;
		part = dual_holders(s, r, slot, &n);
		for (i = 0; i < n; i++) {
			of = dual_part_of(s, r, slot + i, &at);
			KUNIT_EXPECT_TRUE(test, of == part || of == DUAL_NO_PART);
		}
		KUNIT_EXPECT_TRUE(test, (slot + n) % s->track_blocks == 0 ||
				  dual_holder(s, r, slot + n) != part);
	}
}

/*
 * Three rounds of random shapes: the parts are complete, and no write destroys another
 * block.
 */
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
				/* Only the kept blocks of the last round are current. */
				if (when[k] <= kept)
					when[k] = 0;
				KUNIT_EXPECT_TRUE(test, !when[k] ||
						  dual_part_of(&s, &r, k, &at) == DUAL_FB1);
			}
			n = fill_part(test, &s, &r, DUAL_NEW, &state, when, &clock);
			KUNIT_EXPECT_EQ(test, n, dual_part_blocks(&s, &r, DUAL_NEW));
			KUNIT_EXPECT_TRUE(test, n > 0);
			kept = clock;
			n = fill_part(test, &s, &r, DUAL_FB2, &state, when, &clock);
			KUNIT_EXPECT_EQ(test, n, dual_part_blocks(&s, &r, DUAL_FB2));
			KUNIT_EXPECT_EQ(test, harmed(&s, when, first, clock), 0U);
			expect_holders(test, &s, &r);
			dual_round_next(&s, &r);
		}
	}
}

/* VD1: 16 surfaces of 8 bands of 4 tracks of 8 blocks. */
static void dual_vd1_home(struct kunit *test)
{
	struct dual_home h = dual_home_of(3251, 8, 4, 8);

	KUNIT_EXPECT_EQ(test, h.surface, 12U);
	KUNIT_EXPECT_EQ(test, h.band, 5U);
	KUNIT_EXPECT_EQ(test, h.track, 2U);
	KUNIT_EXPECT_EQ(test, h.block, 3U);
	/* No parameter has to be a power of two. */
	h = dual_home_of(3251, 7, 5, 9);
	KUNIT_EXPECT_EQ(test, ((h.surface * 7 + h.band) * 5 + h.track) * 9 + h.block, 3251U);
}

/* Choosing by counts gives the same result as sorting. */
static void dual_selection(struct kunit *test)
{
	u32 blocks = 300, i, turn, *rank = zalloc(test, blocks * sizeof(*rank));
	struct dual_heat *h = zalloc(test, sizeof(*h));
	struct dual_choice c;
	u64 state = 1;

	KUNIT_ASSERT_TRUE(test, rank && h);
	for (turn = 0; turn < 300; turn++) {
		u32 most = draw(&state, 0, 9) ? draw(&state, 0, 8) : 2 * DUAL_HOTTEST;
		u32 room = draw(&state, 0, blocks + 20), kept = 0, stale = 0;
		u32 coldest = U32_MAX, hottest = 0;
		bool literal = turn % 2;

		memset(h, 0, sizeof(*h));
		for (i = 0; i < blocks; i++) {
			rank[i] = dual_rank(draw(&state, 0, most), draw(&state, 0, 1));
			stale += !rank[i];
			dual_heat_add(h, rank[i], 1);
		}
		dual_choose(h, room, literal, &c);
		for (i = 0; i < blocks; i++) {
			if (dual_keeps(&c, rank[i])) {
				kept++;
				coldest = min(coldest, rank[i]);
			} else {
				hottest = max(hottest, rank[i]);
			}
		}
		KUNIT_EXPECT_TRUE(test, kept == blocks || !kept || hottest <= coldest);
		if (room >= blocks || literal)
			KUNIT_EXPECT_EQ(test, kept, min(room, blocks));
		else
			KUNIT_EXPECT_EQ(test, kept, min(room, blocks - stale));
	}
	/* Counts do not wrap, and ranks stay within the table. */
	KUNIT_EXPECT_EQ(test, dual_count_up(U16_MAX), U16_MAX);
	KUNIT_EXPECT_EQ(test, dual_rank(U16_MAX, true), DUAL_RANKS - 1);
}

static struct dual_cache *new_cache(struct kunit *test, const struct dual_shape *s)
{
	struct dual_cache *c = zalloc(test, sizeof(*c));
	const char *why;

	KUNIT_ASSERT_NOT_NULL(test, c);
	KUNIT_ASSERT_EQ(test, dual_shape_check(s, &why), 0);
	KUNIT_ASSERT_EQ(test, dual_cache_init(c, s, 16), 0);
	return c;
}

/* Returns the slot, or the error of dual_place(). */
static int write_one(struct dual_cache *c, u32 lblk)
{
	u32 slot, n;
	int err = dual_place(c, 1, &slot, &n);

	if (err)
		return err;
	dual_commit(c, lblk, slot, n);
	return slot;
}

/* Run a clean up to the switch, with each step durable at once. */
static void clean_up_to_switch(struct kunit *test, struct dual_cache *c, struct dual_step *step)
{
	u64 seq = 1;

	for (;;) {
		KUNIT_ASSERT_EQ(test, dual_clean_next(c, true, step), 1);
		if (step->kind == DUAL_STEP_SWITCH)
			return;
		dual_step_done(c, step, seq);
		while (dual_tidy(c) || dual_release(c, seq))
			;
	}
}

/*
 * CE-D1: block 7 is in slot 0 and is kept; block 8 is written to slot 0 in the next round.
 * Until the switch is durable, recovery would find block 7 there.
 */
static void dual_ce_d1(struct kunit *test)
{
	const struct dual_shape s = {
		.tracks = 4, .track_blocks = 10, .static_percent = 60, .min_new_percent = 20,
	};
	struct dual_step step;
	struct dual_cache *c;
	u32 literal;

	for (literal = 0; literal < 2; literal++) {
		c = new_cache(test, &s);
		c->opt.unsafe_switch = literal;
		KUNIT_EXPECT_EQ(test, write_one(c, 7), 0);
		clean_up_to_switch(test, c, &step);
		KUNIT_EXPECT_EQ(test, dual_find(c, 7), 6U);
		KUNIT_EXPECT_TRUE(test, dual_referenced(c, 0));
		dual_step_done(c, &step, 100);
		if (!literal) {
			KUNIT_EXPECT_EQ(test, write_one(c, 8), -EBUSY);
			KUNIT_EXPECT_TRUE(test, dual_referenced(c, 0));
			dual_release(c, 99);
			KUNIT_EXPECT_EQ(test, write_one(c, 8), -EBUSY);
			dual_release(c, 100);
		}
		KUNIT_EXPECT_FALSE(test, dual_referenced(c, 0));
		KUNIT_EXPECT_EQ(test, write_one(c, 8), 0);
		KUNIT_EXPECT_EQ(test, c->predict.history.number, 2U);
		dual_cache_exit(c);
	}
}

/* A run of blocks leaves the same samples of V(X) as its blocks one by one. */
static void dual_samples_of_runs(struct kunit *test)
{
	const struct dual_shape s = {
		.tracks = 40, .track_blocks = 50, .sample_tracks = 5, .sample_percent = 50,
		.min_new_percent = 20, .min_fb_percent = 2,
	};
	u32 spread, ideal, ideals = 0, lblk, slot, n, i;
	struct dual_cache *run, *one;
	struct dual_curve want;
	u64 state = 1;

	for (spread = 600; spread < 6000; spread += 100) {
		run = new_cache(test, &s);
		one = new_cache(test, &s);
		dual_curve_begin(&want);
		ideal = 0;
		for (;;) {
			lblk = draw(&state, 0, spread);
			if (dual_place(run, draw(&state, 1, 30), &slot, &n))
				break;
			dual_commit(run, lblk, slot, n);
			for (i = 0; i < n; i++) {
				KUNIT_ASSERT_EQ(test, write_one(one, lblk + i), (int)(slot + i));
				dual_curve_note(&want, one->part.written, one->map.live);
				if (!ideal && one->part.written + one->map.live >= 2000)
					ideal = one->part.written;
			}
			KUNIT_ASSERT_EQ(test, run->map.live, one->map.live);
			KUNIT_ASSERT_EQ(test, run->predict.history.ideal, ideal);
			KUNIT_ASSERT_EQ(test, memcmp(&run->predict.curve, &want, sizeof(want)), 0);
		}
		ideals += !!ideal;
		dual_cache_exit(run);
		dual_cache_exit(one);
	}
	KUNIT_EXPECT_GE(test, ideals, 10U);
}

static void no_report(void *ctx, const char *fmt, ...)
{
}

static void expect_same(struct kunit *test, const struct dual_cache *a,
			const struct dual_cache *b)
{
	u32 slots = a->map.nr_slots, slot, bad;

	bad = !!memcmp(a->map.owner, b->map.owner, slots * sizeof(*a->map.owner));
	for (slot = 0; slot < slots; slot++)
		bad += shingle_slot_state(&a->map, slot) == SHINGLE_SLOT_OWNED &&
		       a->count[slot] != b->count[slot];
	bad += !!memcmp(&a->rank.pb, &b->rank.pb, sizeof(a->rank.pb));
	bad += !!memcmp(&a->rank.fb2, &b->rank.fb2, sizeof(a->rank.fb2));
	bad += !!memcmp(&a->predict.curve, &b->predict.curve, sizeof(a->predict.curve));
	bad += !!memcmp(&a->predict.history, &b->predict.history, sizeof(a->predict.history));
	bad += !!memcmp(&a->part.fill, &b->part.fill, sizeof(a->part.fill));
	bad += a->part.filled != b->part.filled || a->part.written != b->part.written ||
	       a->part.limit != b->part.limit;
	bad += dual_verify(a, no_report, NULL);
	KUNIT_ASSERT_EQ(test, bad, 0U);
}

/* Returns the step that was executed and made durable. */
static int clean_once(struct dual_cache *c)
{
	struct dual_step step;
	int r = dual_clean_next(c, true, &step);

	if (r > 0)
		dual_step_done(c, &step, 1);
	while (dual_tidy(c) || dual_release(c, 1))
		;
	return r > 0 ? (int)step.kind : -1;
}

/* Blocks written together change the cache as if each came alone, with one count more. */
static void dual_runs(struct kunit *test)
{
	u32 seed, k, i, n, got, lblk, slot, again = 0, late = 0, rounds = 0, old = 0;
	u32 joined = 0, want[16];
	struct dual_cache *run, *one;
	struct dual_shape s;
	const char *why;
	u64 state = 7;
	bool cleans;

	for (seed = 0; seed < 40; seed++) {
		do {
			draw_shape(&state, &s);
		} while (dual_shape_check(&s, &why));
		s.ratchet = seed % 2;
		run = new_cache(test, &s);
		one = new_cache(test, &s);
		for (k = 0; k < 400; k++) {
			/* Within a band. */
			lblk = draw(&state, 0, s.tracks * s.track_blocks);
			n = draw(&state, 1, 16 - lblk % 16);
			/*
			 * With the ratchet, single writes would know more samples; so write
			 * one piece at a time.
			 */
			if (s.ratchet && n > run->part.ahead)
				n = max(run->part.ahead, 1U);
			cleans = run->phase != DUAL_FILL && !draw(&state, 0, 2);
			if (cleans || dual_place(run, n, &slot, &got)) {
				if (!cleans)
					KUNIT_ASSERT_LT(test, write_one(one, lblk), 0);
				rounds += clean_once(run) == DUAL_STEP_SWITCH;
				clean_once(one);
				continue;
			}
			late += run->phase != DUAL_FILL;
			joined += slot / s.track_blocks != (slot + got - 1) / s.track_blocks;
			for (i = 0; i < got; i++) {
				again += i && old != SHINGLE_NO_SLOT &&
					 dual_find(run, lblk + i) == old + 1;
				old = dual_find(run, lblk + i);
				want[i] = old == SHINGLE_NO_SLOT ? 0 : run->count[old] + 1;
			}
			dual_commit(run, lblk, slot, got);
			for (i = 0; i < got; i++) {
				KUNIT_ASSERT_EQ(test, write_one(one, lblk + i), (int)(slot + i));
				KUNIT_ASSERT_EQ(test, run->count[slot + i], want[i]);
			}
			if (!draw(&state, 0, 9)) {
				lblk = draw(&state, 0, s.tracks * s.track_blocks);
				KUNIT_ASSERT_EQ(test, dual_drop(run, lblk, 5),
						dual_drop(one, lblk, 5));
			}
			expect_same(test, run, one);
		}
		dual_cache_exit(run);
		dual_cache_exit(one);
	}
	KUNIT_EXPECT_GE(test, again, 500U);
	KUNIT_EXPECT_GE(test, late, 100U);
	KUNIT_EXPECT_GE(test, rounds, 40U);
	KUNIT_EXPECT_GE(test, joined, 40U);
}

/* Writes go on during a clean, and end up in the next round's cache (D8). */
static void dual_writes_while_cleaning(struct kunit *test)
{
	const struct dual_shape s = {
		.tracks = 8, .track_blocks = 20, .static_percent = 60, .min_new_percent = 20,
	};
	struct dual_cache *c = new_cache(test, &s);
	u32 i, late = 0, slot, n;
	struct dual_step step;

	for (i = 0; write_one(c, i % 40) >= 0; i++)
		;
	KUNIT_EXPECT_EQ(test, i, c->part.limit);
	KUNIT_ASSERT_EQ(test, dual_clean_next(c, false, &step), 1);
	KUNIT_EXPECT_EQ(test, step.kind, DUAL_STEP_COPY);
	/* Write a block that is being copied, and one that was never cached. */
	KUNIT_EXPECT_TRUE(test, write_one(c, c->step.move[0].lblk) >= 0);
	KUNIT_EXPECT_TRUE(test, write_one(c, 50) >= 0);
	slot = c->step.move[0].dst;
	dual_step_done(c, &step, 1);
	KUNIT_EXPECT_TRUE(test, dual_find(c, 0) != slot && dual_referenced(c, slot));
	for (late = 2; late + 1 < c->part.reserve; late++)
		KUNIT_ASSERT_GE(test, write_one(c, 100 + late), 0);
	KUNIT_EXPECT_TRUE(test, late > 2);
	/* The last write is in flight: the switch waits. */
	KUNIT_ASSERT_EQ(test, dual_place(c, 1, &slot, &n), 0);
	KUNIT_EXPECT_EQ(test, write_one(c, 0), -ENOSPC);
	while (dual_clean_next(c, false, &step) == 1) {
		KUNIT_ASSERT_TRUE(test, step.kind != DUAL_STEP_SWITCH);
		dual_step_done(c, &step, 1);
		while (dual_tidy(c) || dual_release(c, 1))
			;
	}
	KUNIT_EXPECT_EQ(test, dual_place(c, 1, &i, &n), -EBUSY);
	dual_commit(c, 200, slot, 1);
	clean_up_to_switch(test, c, &step);
	dual_step_done(c, &step, 2);
	while (dual_release(c, 2))
		;
	KUNIT_EXPECT_EQ(test, c->predict.history.number, 2U);
	KUNIT_EXPECT_TRUE(test, dual_find(c, 200) != SHINGLE_NO_SLOT);
	KUNIT_EXPECT_TRUE(test, dual_find(c, 50) != SHINGLE_NO_SLOT);
	for (i = 2; i < late; i++)
		KUNIT_EXPECT_TRUE(test, dual_find(c, 100 + i) != SHINGLE_NO_SLOT);
	/* Per cached block: its slot, the slots before and after it, its count. */
	KUNIT_EXPECT_LE(test, shingle_slotmap_bytes(&c->map) + c->map.nr_slots * sizeof(*c->count),
			16ULL * (c->map.nr_slots + 64));
	dual_cache_exit(c);
}

/* The smallest caches accept writes during a clean, too; a forced one admits a limited number. */
static void dual_reserve_of_few(struct kunit *test)
{
	const struct dual_shape s = {
		.tracks = 2, .track_blocks = 6, .static_percent = 50, .min_new_percent = 20,
	};
	struct dual_cache *c = new_cache(test, &s);
	struct dual_step step;
	u32 i;

	for (i = 0; write_one(c, i) >= 0; i++)
		;
	KUNIT_EXPECT_EQ(test, i, c->part.limit);
	KUNIT_ASSERT_EQ(test, dual_clean_next(c, false, &step), 1);
	KUNIT_EXPECT_GE(test, write_one(c, 0), 0);
	dual_cache_exit(c);

	c = new_cache(test, &s);
	KUNIT_EXPECT_GE(test, write_one(c, 0), 0);
	c->empty = true;
	KUNIT_ASSERT_EQ(test, dual_clean_next(c, true, &step), 1);
	for (i = 1; write_one(c, i) >= 0; i++)
		;
	KUNIT_EXPECT_EQ(test, i - 1,
			min(dual_part_blocks(&s, &c->round, DUAL_FB2), c->part.room - 1));
	dual_cache_exit(c);
}

/* A power cut when everything is durable: derive the state again. */
static void cut_power(struct kunit *test, struct dual_cache *c)
{
	const char *why;

	KUNIT_ASSERT_EQ(test, dual_ready(c, &why), 0);
	KUNIT_EXPECT_EQ(test, c->part.inflight, 0U);
}

/* Run steps of a clean up to and including one of this kind, durable at once. */
static void clean_as_far_as(struct kunit *test, struct dual_cache *c, enum dual_step_kind kind)
{
	struct dual_step step;

	do {
		KUNIT_ASSERT_EQ(test, dual_clean_next(c, true, &step), 1);
		KUNIT_ASSERT_TRUE(test, step.kind != DUAL_STEP_SWITCH);
		dual_step_done(c, &step, 1);
		while (dual_tidy(c) || dual_release(c, 1))
			;
	} while (step.kind != kind);
}

/* When all new blocks have left the cache, nothing in it shows how far it was filled. */
static void dual_cut_while_cleaning(struct kunit *test)
{
	struct dual_shape s = {
		.tracks = 6, .track_blocks = 20, .static_percent = 60, .min_new_percent = 20,
	};
	struct dual_cache *c = new_cache(test, &s);
	struct dual_step step;
	u32 i, slot, n;

	/* More blocks than are kept: the last band of the remaining ones is staged. */
	for (i = 0; write_one(c, i) >= 0; i++)
		;
	do
		clean_as_far_as(test, c, DUAL_STEP_STAGE);
	while (c->rank.pb.sum);
	cut_power(test, c);
	KUNIT_ASSERT_TRUE(test, c->staging.in_use);
	i = c->staging.band * c->band_blocks;
	KUNIT_ASSERT_TRUE(test, write_one(c, i) >= 0);
	cut_power(test, c);
	KUNIT_EXPECT_TRUE(test, dual_find(c, i) != SHINGLE_NO_SLOT);
	clean_up_to_switch(test, c, &step);
	KUNIT_EXPECT_TRUE(test, dual_find(c, i) != SHINGLE_NO_SLOT);
	dual_cache_exit(c);

	/* M is lowered from track 3 on, and FB_2 uses some of these columns there. */
	s.static_percent = 0;
	s.sample_tracks = 1;
	s.sample_percent = 50;
	c = new_cache(test, &s);
	for (i = 0; c->part.fill.row < 4; i++)
		KUNIT_ASSERT_TRUE(test, write_one(c, i % 5) >= 0);
	KUNIT_ASSERT_EQ(test, c->part.fill.at, 0U);
	c->round.drop[1] = (struct dual_drop){ 3, c->round.drop[0].columns - 2 };
	c->round.nr_drops = 2;
	cut_power(test, c);
	do
		clean_as_far_as(test, c, DUAL_STEP_COPY);
	while (c->rank.pb.sum);
	cut_power(test, c);
	KUNIT_ASSERT_EQ(test, dual_place(c, 1, &slot, &n), 0);
	KUNIT_EXPECT_GE(test, slot / s.track_blocks, 3U);
	dual_cache_exit(c);
}

/* Loading invalid state is reported and fails. */
static void dual_damage(struct kunit *test)
{
	const struct dual_shape s = {
		.tracks = 6, .track_blocks = 20, .static_percent = 60, .min_new_percent = 20,
		.skew_units = 1,
	};
	struct dual_cache *c = new_cache(test, &s);
	const char *why = "";

	c->round.drop[0].columns = 1;
	KUNIT_EXPECT_EQ(test, dual_ready(c, &why), -EUCLEAN);
	dual_round_first(&s, &c->round);
	c->map.owner[3] = SHINGLE_SLOT_OWNED + 7;
	c->map.owner[25] = SHINGLE_SLOT_OWNED + 7;
	KUNIT_EXPECT_EQ(test, dual_ready(c, &why), -EUCLEAN);
	KUNIT_EXPECT_TRUE(test, strstr(why, "same block"));
	/* On track 1, two columns share the last new block. */
	c->map.owner[3] = SHINGLE_SLOT_FREE;
	c->map.owner[25] = SHINGLE_SLOT_FREE;
	c->map.owner[20 + c->round.drop[0].columns - 1] = SHINGLE_SLOT_OWNED + 7;
	KUNIT_EXPECT_EQ(test, dual_ready(c, &why), -EUCLEAN);
	KUNIT_EXPECT_TRUE(test, strstr(why, "no part"));
	dual_cache_exit(c);
}

static struct kunit_case dual_cases[] = {
	KUNIT_CASE(dual_vd4_fits),
	KUNIT_CASE(dual_samples),
	KUNIT_CASE(dual_flat_samples),
	KUNIT_CASE(dual_vd2_vd3_ranges),
	KUNIT_CASE(dual_vd5_circle),
	KUNIT_CASE(dual_clamps),
	KUNIT_CASE(dual_ratchet),
	KUNIT_CASE(dual_rows_join),
	KUNIT_CASE(dual_partitions),
	KUNIT_CASE(dual_vd1_home),
	KUNIT_CASE(dual_selection),
	KUNIT_CASE(dual_ce_d1),
	KUNIT_CASE(dual_samples_of_runs),
	KUNIT_CASE(dual_runs),
	KUNIT_CASE(dual_writes_while_cleaning),
	KUNIT_CASE(dual_reserve_of_few),
	KUNIT_CASE(dual_cut_while_cleaning),
	KUNIT_CASE(dual_damage),
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
