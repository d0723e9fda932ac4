// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the engine of Dual-buffer as a whole: the exerciser runs it under power cuts.
 * kunit.c tests its parts.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "dual/engine.h"
#include "exercise.h"

struct dual_case {
	const char *name;
	struct shingle_exercise_shape shape;
	struct dual_params p;
};

#define P(member, value)	.p.member = cpu_to_le32(value)

static const struct dual_case cases[] = {
	{ "predicted, head of 3",
	  { 16, 12, 1, 1, 16, 3, false, true, 24, 96 }, P(sample_percent, 50),
	  P(min_new_percent, 25), P(min_fb_percent, 2) },
	{ "a skew of parts of blocks, head of 2",
	  { 16, 12, 1, 1, 12, 2, false, true, 21, 120 }, P(sample_percent, 30),
	  P(sample_tracks, 2), P(min_new_percent, 10) },
	{ "M is static, head of 4",
	  { 12, 10, 1, 1, 16, 4, false, true, 40, 80 }, P(m_percent, 60) },
	{ "no tracks", { 16, 12, 1, 1, 0, 1, .cache_band_blocks = 100 }, P(sample_percent, 50),
	  P(min_new_percent, 25) },
	{ "a cache of one track", { 8, 6, 1, 1, 24, 2, false, true, 8, 24 },
	  P(min_new_percent, 30) },
	{ "tracks shorter than usual",
	  { 16, 12, 1, 1, 16, 3, false, true, 48, 96, .density = 500 }, P(sample_percent, 50),
	  P(min_new_percent, 25) },
	{ "bands of three tracks", { 48, 5, 1, 1, 16, 3, false, true, 24, 64 },
	  P(sample_percent, 50), P(min_new_percent, 25) },
};

static void describe(const struct dual_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(dual, cases, describe);

static struct shingle_layout *new_layout(struct kunit *test, const struct dual_case *c)
{
	struct shingle_layout *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	shingle_exercise_layout(l, &dualbuffer_engine_ops, &c->shape, &c->p, sizeof(c->p));
	KUNIT_ASSERT_NE(test, l->logical_blocks, 0ULL);
	return l;
}

static void dual_exercise(struct kunit *test)
{
	const struct dual_case *c = test->param_value;
	struct shingle_exercise_plan plan = {
		.ops = &dualbuffer_engine_ops, .layout = new_layout(test, c), .rounds = 4000,
		.cuts = true,
	};
	struct shingle_exercise_result res;
	u64 cuts = 0, steps = 0;

	for (plan.seed = 1; plan.seed <= 5; plan.seed++) {
		KUNIT_ASSERT_EQ_MSG(test, shingle_exercise(&plan, &res), 0, "seed %u: %s",
				    plan.seed, res.error);
		cuts += res.cuts;
		steps += res.steps;
	}
	KUNIT_EXPECT_GT(test, cuts, 50ULL);
	KUNIT_EXPECT_GT(test, steps, 50ULL);
}

/*
 * CE-D1 and D2: without the protections that the thesis lacks, data are lost and the test
 * sees it.
 */
static void lose(struct kunit *test, const struct dual_case *c, const char *feature)
{
	struct shingle_exercise_result res;
	bool lost = shingle_exercise_loses(&dualbuffer_engine_ops, new_layout(test, c), feature,
					   &res);

	KUNIT_EXPECT_TRUE_MSG(test, lost, "%s", res.error);
}

static void dual_needs_a_durable_switch(struct kunit *test)
{
	lose(test, &cases[4], "unsafe_switch");
}

static void dual_needs_staging(struct kunit *test)
{
	lose(test, &cases[6], "unsafe_inplace");
}

static struct shingle_record some_records[512];

/* Execute one step and make it durable. */
static int one_step(struct shingle_engine *e, enum shingle_why why, u64 seq)
{
	struct shingle_emit emit = { .rec = some_records, .max = 512, .seq = seq };
	struct shingle_step step;
	int r = e->ops->clean.next_step(e, why, &step);

	if (r > 0)
		e->ops->clean.step_done(e, &step, &emit);
	shingle_finish_tidy(e);
	shingle_release_all(e, seq);
	return r;
}

/* Write to the next of 40 blocks in turn, or clean if there is no room. */
static void write_some(struct kunit *test, struct shingle_engine *e, u64 *seq)
{
	struct shingle_emit emit = { .rec = some_records, .max = 2, .seq = *seq };
	u32 lblk = shingle_exercise_counter(e, "placed_blocks") % 40;
	struct shingle_run run;

	if (e->ops->map.place(e, lblk, 1, SHINGLE_LIFE_UNKNOWN, &run))
		KUNIT_ASSERT_GT(test, one_step(e, SHINGLE_WHY_PRESSURE, (*seq)++), -1);
	else
		e->ops->map.commit(e, &run, &emit);
}

/* Continue until @rounds rounds have ended. */
static void write_until(struct kunit *test, struct shingle_engine *e, u64 rounds, u64 *seq)
{
	while (shingle_exercise_counter(e, "rounds") < rounds)
		write_some(test, e, seq);
}

static struct shingle_engine *new_engine(struct kunit *test, const struct dual_case *c)
{
	struct shingle_engine *e;
	const char *why = "";

	KUNIT_ASSERT_EQ(test, dualbuffer_engine_ops.create(&e, new_layout(test, c), &why), 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	return e;
}

/* A forced clean that was interrupted empties the round in which it began, and no other. */
static void dual_forgets_who_asked(struct kunit *test)
{
	struct shingle_engine *e = new_engine(test, &cases[3]);
	u64 seq = 1, kept;

	write_until(test, e, 3, &seq);
	KUNIT_EXPECT_GT(test, shingle_exercise_counter(e, "kept_blocks"), 0ULL);
	KUNIT_ASSERT_EQ(test, one_step(e, SHINGLE_WHY_FORCED, seq++), 1);
	write_until(test, e, 5, &seq);
	kept = shingle_exercise_counter(e, "kept_blocks");
	write_until(test, e, 7, &seq);
	KUNIT_EXPECT_GT(test, shingle_exercise_counter(e, "kept_blocks"), kept);
	dualbuffer_engine_ops.destroy(e);
}

/* A forced clean ends with its round, even if the next clean has begun by then. */
static void dual_clean_ends(struct kunit *test)
{
	struct shingle_engine *e = new_engine(test, &cases[3]);
	u64 seq = 1, cleans;

	write_until(test, e, 3, &seq);
	KUNIT_ASSERT_EQ(test, one_step(e, SHINGLE_WHY_FORCED, seq++), 1);
	write_until(test, e, 4, &seq);
	cleans = shingle_exercise_counter(e, "cleans_pressure");
	while (shingle_exercise_counter(e, "cleans_pressure") == cleans)
		write_some(test, e, &seq);
	KUNIT_EXPECT_EQ(test, one_step(e, SHINGLE_WHY_FORCED, seq++), 0);
	/* A request now applies to the next round. */
	KUNIT_EXPECT_EQ(test, one_step(e, SHINGLE_WHY_FORCED, seq++), 1);
	dualbuffer_engine_ops.destroy(e);
}

/* The statistics of rounds are available from the first round on; other words are unknown. */
static void dual_reports_rounds(struct kunit *test)
{
	struct shingle_engine *e = new_engine(test, &cases[3]);
	u64 cursor = 0, seq = 1;
	char line[256], start[32];
	u32 round;

	KUNIT_EXPECT_EQ(test, e->ops->observe.query(e, "round", &cursor, line, sizeof(line)),
			-ENOENT);
	KUNIT_EXPECT_EQ(test, e->ops->observe.query(e, "rounds", &cursor, line, sizeof(line)), 0);
	write_until(test, e, 70, &seq);
	/* Only the last 64 rounds are listed. */
	cursor = 0;
	for (round = 7; e->ops->observe.query(e, "rounds", &cursor, line, sizeof(line)); round++) {
		snprintf(start, sizeof(start), "round %u predicted ", round);
		KUNIT_EXPECT_EQ_MSG(test, strncmp(line, start, strlen(start)), 0, "%s", line);
		KUNIT_EXPECT_EQ(test, line[strlen(line) - 1], '\n');
	}
	KUNIT_EXPECT_EQ(test, round, 71U);
	dualbuffer_engine_ops.destroy(e);
}

/* Round numbers continue with 1 after the highest, without other effects. */
static void dual_round_number_wraps(struct kunit *test)
{
	static const u32 numbers[] = { U32_MAX - 1, U32_MAX, 1, 2 };
	struct shingle_layout *l = new_layout(test, &cases[3]);
	struct shingle_engine *e;
	struct shingle_record rec;
	u64 seq = 1, cursor = 0;
	const char *why = "";
	char line[256], start[32];
	u32 i;

	KUNIT_ASSERT_EQ(test, dualbuffer_engine_ops.create(&e, l, &why), 0);
	shingle_record_set(&rec, DUAL_REC_ROUND, 0, U32_MAX - 1, 0, 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.replay(e, &rec), 0);
	KUNIT_ASSERT_EQ_MSG(test, e->ops->state.ready(e, &why), 0, "%s", why);
	write_until(test, e, 1, &seq);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "round_number"), (u64)U32_MAX);
	/* A forced clean in the last round ends in the next one. */
	KUNIT_ASSERT_EQ(test, one_step(e, SHINGLE_WHY_FORCED, seq++), 1);
	for (i = 0; i < 1000 && one_step(e, SHINGLE_WHY_FORCED, seq++); i++)
		;
	KUNIT_EXPECT_LT(test, i, 1000U);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "round_number"), 1ULL);
	write_until(test, e, 4, &seq);
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		KUNIT_ASSERT_EQ(test, e->ops->observe.query(e, "rounds", &cursor, line,
							   sizeof(line)), 1);
		snprintf(start, sizeof(start), "round %u predicted ", numbers[i]);
		KUNIT_EXPECT_EQ_MSG(test, strncmp(line, start, strlen(start)), 0, "%s", line);
	}
	KUNIT_EXPECT_EQ(test, e->ops->observe.query(e, "rounds", &cursor, line, sizeof(line)), 0);
	dualbuffer_engine_ops.destroy(e);
}

static void take_pieces(struct kunit *test, struct shingle_engine *from, struct shingle_engine *to,
			const struct shingle_layout *l)
{
	u8 *buf = kunit_kzalloc(test, SHINGLE_CHUNK_BYTES, GFP_KERNEL);
	u64 cursor = 0, index;
	u32 bytes;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	while ((bytes = shingle_encode(l, from, &cursor, &index, buf)))
		KUNIT_ASSERT_EQ(test, shingle_pieces_decode(to->ops->state.pieces, l, to, index,
							    buf, bytes), 0);
}

/*
 * If a step could write all but one block, it is offered again without that block's slot,
 * and the mark is in the pieces.  If nothing was written, the slot is marked after the next
 * success.
 */
static void dual_goes_round_unfit_slots(struct kunit *test)
{
	struct shingle_emit emit = { .rec = some_records, .max = 512 };
	struct shingle_layout *l = new_layout(test, &cases[3]);
	struct shingle_engine *e, *twin;
	struct shingle_unwritten bad = { .n = 1 };
	struct shingle_extent ext;
	struct shingle_step step;
	const char *why = "";
	u64 seq = 1, cursor = 0;
	u32 tries = 0;

	KUNIT_ASSERT_EQ(test, dualbuffer_engine_ops.create(&e, l, &why), 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	write_until(test, e, 2, &seq);
	do {
		write_some(test, e, &seq);
		KUNIT_ASSERT_LT(test, ++tries, 1000U);
		memset(&step, 0, sizeof(step));
		if (e->ops->clean.next_step(e, SHINGLE_WHY_IDLE, &step) != 1)
			continue;
		if (!step.scattered || !step.n)
			e->ops->clean.step_done(e, &step, &emit);
		shingle_finish_tidy(e);
		shingle_release_all(e, seq);
	} while (!step.scattered || !step.n);
	KUNIT_ASSERT_TRUE(test, shingle_step_extent(e, &step, &cursor, &ext));
	bad.pblk = ext.dst;
	bad.block[0] = ext.dst;
	bad.nr = 1;
	bad.proven = true;
	KUNIT_EXPECT_TRUE(test, e->ops->clean.step_failed(e, &step, &bad));
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "unfit_blocks"), 1ULL);

	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_IDLE, &step), 1);
	cursor = 0;
	KUNIT_ASSERT_TRUE(test, shingle_step_extent(e, &step, &cursor, &ext));
	KUNIT_EXPECT_GT(test, ext.dst, bad.pblk);
	bad.pblk = ext.dst;
	bad.block[0] = ext.dst;
	bad.proven = false;
	KUNIT_EXPECT_FALSE(test, e->ops->clean.step_failed(e, &step, &bad));
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "unfit_blocks"), 1ULL);
	KUNIT_ASSERT_EQ(test, one_step(e, SHINGLE_WHY_IDLE, seq++), 1);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "unfit_blocks"), 2ULL);

	KUNIT_ASSERT_EQ(test, dualbuffer_engine_ops.create(&twin, l, &why), 0);
	take_pieces(test, e, twin, l);
	KUNIT_ASSERT_EQ_MSG(test, twin->ops->state.ready(twin, &why), 0, "%s", why);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(twin, "unfit_blocks"), 2ULL);
	dualbuffer_engine_ops.destroy(twin);
	dualbuffer_engine_ops.destroy(e);
}

static struct kunit_case dual_cases[] = {
	KUNIT_CASE_PARAM(dual_exercise, dual_gen_params),
	KUNIT_CASE(dual_needs_a_durable_switch),
	KUNIT_CASE(dual_needs_staging),
	KUNIT_CASE(dual_forgets_who_asked),
	KUNIT_CASE(dual_clean_ends),
	KUNIT_CASE(dual_reports_rounds),
	KUNIT_CASE(dual_round_number_wraps),
	KUNIT_CASE(dual_goes_round_unfit_slots),
	{}
};

static struct kunit_suite dual_suite = {
	.name = "dualbuffer-engine",
	.test_cases = dual_cases,
};

kunit_test_suite(dual_suite);

MODULE_DESCRIPTION("dm-shingle: KUnit tests of the engine of Dual-buffer");
MODULE_LICENSE("GPL");
