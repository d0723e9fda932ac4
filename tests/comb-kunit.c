// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of the comb: steps of many extents. */
#include <kunit/test.h>
#include <linux/module.h>

#include "comb-engine.h"
#include "exercise.h"

/* 4 bands of 8 blocks, every other block a tooth: 8 teeth for each comb, 6 logical blocks. */
#define PITCH	2U
#define TEETH	8U
#define BLOCKS	6U

static const struct shingle_exercise_shape small = {
	.band_blocks = 8, .data_bands = 4, .head_tracks = 1,
};

static struct shingle_layout *new_layout(struct kunit *test,
					 const struct shingle_exercise_shape *shape, u32 pitch)
{
	struct shingle_layout *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	struct comb_params p = { .pitch_blocks = cpu_to_le32(pitch) };

	KUNIT_ASSERT_NOT_NULL(test, l);
	test->priv = l;
	shingle_exercise_layout(l, &comb_engine_ops, shape, &p, sizeof(p));
	return l;
}

static struct shingle_engine *new_engine(struct kunit *test)
{
	struct shingle_layout *l = new_layout(test, &small, PITCH);
	struct shingle_engine *e;
	const char *why = "";

	KUNIT_ASSERT_EQ(test, l->logical_blocks, (u64)BLOCKS);
	KUNIT_ASSERT_EQ_MSG(test, comb_engine_ops.create(&e, l, &why), 0, "%s", why);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	return e;
}

static void write_block(struct kunit *test, struct shingle_engine *e, u64 lblk, u64 pblk)
{
	struct shingle_record rec;
	struct shingle_emit emit = { .rec = &rec, .max = 1, .seq = 1 };
	struct shingle_run run;

	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, lblk, 4, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.n, 1U);
	KUNIT_EXPECT_EQ(test, run.pblk, pblk);
	e->ops->map.commit(e, &run, &emit);
	KUNIT_EXPECT_EQ(test, emit.nr, 1U);
}

/* Writes go to the even teeth and the step moves them to the odd ones, in one transaction. */
static void comb_moves_at_once(struct kunit *test)
{
	static const u32 written[TEETH] = { 4, 1, 1, 5, 4, 0, 1, 1 };
	static const u32 now[] = { 0, 1, 4, 5 }, was[] = { 5, 7, 4, 3 };
	struct shingle_engine *e = new_engine(test);
	struct shingle_record rec[BLOCKS + 1];
	struct shingle_emit emit = { .rec = rec, .seq = 7 };
	struct shingle_extent x;
	struct shingle_step step;
	struct shingle_run run;
	u64 cursor = 0;
	u32 i;

	for (i = 0; i < TEETH; i++)
		write_block(test, e, written[i], 2 * i * PITCH);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 2, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);

	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), 1);
	KUNIT_EXPECT_EQ(test, step.n, (u32)ARRAY_SIZE(now));
	emit.max = shingle_step_records(e, &step);
	KUNIT_EXPECT_EQ(test, emit.max, (u32)ARRAY_SIZE(now) + 1);
	KUNIT_EXPECT_LE(test, emit.max, shingle_most_step_records(e));
	for (i = 0; i < ARRAY_SIZE(now); i++) {
		KUNIT_ASSERT_TRUE(test, shingle_step_extent(e, &step, &cursor, &x));
		KUNIT_EXPECT_EQ(test, x.n, 1U);
		KUNIT_EXPECT_EQ(test, x.lblk, (u64)now[i]);
		KUNIT_EXPECT_EQ(test, x.src, (u64)2 * was[i] * PITCH);
		KUNIT_EXPECT_EQ(test, x.dst, (u64)(2 * i + 1) * PITCH);
		KUNIT_EXPECT_FALSE(test, shingle_in_use(test->priv, e, x.dst, 1));
	}
	KUNIT_EXPECT_FALSE(test, shingle_step_extent(e, &step, &cursor, &x));
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 2, 1, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);

	e->ops->clean.step_done(e, &step, &emit);
	KUNIT_EXPECT_EQ(test, emit.nr, emit.max);
	for (i = 0; i < ARRAY_SIZE(now); i++) {
		e->ops->map.resolve(e, now[i], 1, &run);
		KUNIT_EXPECT_EQ(test, run.pblk, (u64)(2 * i + 1) * PITCH);
	}
	/* The old copies stay in use until recovery can no longer need them. */
	KUNIT_EXPECT_TRUE(test, shingle_in_use(test->priv, e, 0, 1));
	shingle_release_all(e, 6);
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	shingle_release_all(e, 7);
	KUNIT_EXPECT_FALSE(test, e->ops->clean.pending(e));
	KUNIT_EXPECT_FALSE(test, shingle_in_use(test->priv, e, 0, 1));
	write_block(test, e, 2, (2 * ARRAY_SIZE(now) + 1) * PITCH);
	e->ops->destroy(e);
}

/* A step on interlaced tracks, with the extents of a list. */
struct listed {
	struct shingle_engine engine;
	const struct shingle_extent *x;
	u32 nr;
};

static bool listed_extent(struct shingle_engine *e, const struct shingle_step *step, u64 *cursor,
			  struct shingle_extent *out)
{
	const struct listed *s = container_of(e, struct listed, engine);

	if (*cursor == s->nr)
		return false;
	*out = s->x[(*cursor)++];
	return true;
}

/* Return: the first extent of @s that destroys another, or the number of extents. */
static u32 first_bad(const struct shingle_layout *l, struct listed *s)
{
	const struct shingle_step step = { .scattered = true };
	u32 i;

	for (i = 0; i < s->nr; i++) {
		if (s->x[i].n && shingle_step_would_destroy(l, &s->engine, &step, &s->x[i]))
			break;
	}
	return i;
}

#define TRACK	8U
#define AT(track, from, blocks)	{ .dst = (track) * TRACK + (from), .n = blocks }

/* Tracks 0, 2, 4 are bottoms. On a drive with columns only the adjacent columns count. */
static void interlaced_steps(struct kunit *test)
{
	static const struct shingle_extent bottoms[] = { AT(0, 0, 8), AT(2, 0, 3), AT(4, 1, 7) };
	static const struct shingle_extent tops[] = { AT(1, 0, 8), AT(3, 0, 8), AT(5, 0, 8) };
	static const struct shingle_extent apart[] = { AT(0, 0, 8), AT(0, 0, 0), AT(3, 0, 8) };
	static const struct shingle_extent behind[] = { AT(0, 0, 8), AT(3, 2, 2), AT(3, 0, 0),
							AT(4, 2, 2) };
	static const struct shingle_extent in_front[] = { AT(2, 5, 3), AT(3, 5, 1) };
	static const struct shingle_extent beside[] = { AT(1, 0, 4), AT(2, 4, 4), AT(3, 0, 4) };
	struct {
		const struct shingle_extent *x;
		u32 nr;
		u32 bad[2];	/* with whole tracks, and with columns */
	} const step[] = {
		{ bottoms, 3, { 3, 3 } }, { tops, 3, { 3, 3 } }, { apart, 3, { 3, 3 } },
		{ behind, 4, { 3, 3 } }, { in_front, 2, { 0, 0 } }, { beside, 3, { 1, 3 } },
	};
	struct shingle_exercise_shape shape = {
		.band_blocks = TRACK, .data_bands = 6, .head_tracks = 1, .interlaced = true,
	};
	static struct shingle_engine_ops ops;
	struct listed s = { .engine.ops = &ops };
	struct shingle_layout *l;
	u32 i, columns;

	ops = comb_engine_ops;
	ops.clean.step_extent = listed_extent;
	for (columns = 0; columns < 2; columns++) {
		shape.columns = columns;
		l = new_layout(test, &shape, 1);
		for (i = 0; i < ARRAY_SIZE(step); i++) {
			s.x = step[i].x;
			s.nr = step[i].nr;
			KUNIT_EXPECT_EQ_MSG(test, first_bad(l, &s), step[i].bad[columns],
					    "step %u, columns %u", i, columns);
		}
	}
}

struct comb_case {
	const char *name;
	struct shingle_exercise_shape shape;
	u32 pitch;
};

static const struct comb_case cases[] = {
	{ "teeth side by side", { 16, 4, 0, 0, 0, 1 }, 1 },
	{ "every third block", { 16, 10, 0, 0, 0, 1 }, 3 },
	{ "a tooth in a band", { 3, 60, 0, 0, 2, 2 }, 4 },
	{ "tracks of 4, head of 2", { 24, 30, 0, 0, 4, 2 }, 8 },
	{ "tracks of 3, head of 3, wider than needed", { 24, 30, 0, 0, 3, 3 }, 11 },
};

static void describe(const struct comb_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(comb, cases, describe);

static void comb_exercise(struct kunit *test)
{
	const struct comb_case *c = test->param_value;
	struct shingle_exercise_plan plan = {
		.ops = &comb_engine_ops,
		.layout = new_layout(test, &c->shape, c->pitch),
		.rounds = 10000,
		.cuts = true,
	};
	struct shingle_exercise_result res;
	u64 cuts = 0, scattered = 0, checkpoints = 0;

	for (plan.seed = 1; plan.seed <= 10; plan.seed++) {
		KUNIT_ASSERT_EQ_MSG(test, shingle_exercise(&plan, &res), 0, "seed %u: %s",
				    plan.seed, res.error);
		cuts += res.cuts;
		KUNIT_EXPECT_EQ(test, res.scattered, res.steps);
		scattered += res.scattered;
		checkpoints += res.checkpoints;
	}
	KUNIT_EXPECT_GT(test, scattered, 200ULL);
	KUNIT_EXPECT_GT(test, checkpoints, 50ULL);
	KUNIT_EXPECT_GT(test, cuts, 200ULL);
}

static struct kunit_case comb_cases[] = {
	KUNIT_CASE(comb_moves_at_once),
	KUNIT_CASE(interlaced_steps),
	KUNIT_CASE_PARAM(comb_exercise, comb_gen_params),
	{}
};

static struct kunit_suite comb_suite = {
	.name = "comb",
	.test_cases = comb_cases,
};

kunit_test_suite(comb_suite);

MODULE_DESCRIPTION("dm-shingle: KUnit tests of a log in two combs");
MODULE_LICENSE("GPL");
