// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of the shingle translation layers, on devices of a few blocks. */
#include <kunit/test.h>
#include <linux/module.h>

#include "exercise.h"
#include "set-engine.h"

struct shape_case {
	const char *name;
	struct shingle_exercise_shape shape;
	u32 set_shift;
	bool inplace;
};

static const struct shape_case shapes[] = {
	{ "19 blocks, 12 KiB bands", { 3, 3, 2, 0, 1 }, 0, false },
	{ "one cache band", { 3, 5, 1, 0, 1 }, 0, false },
	{ "tracks of 4, head of 2", { 8, 7, 2, 4, 2 }, 0, false },
	{ "odd bands, head of 3", { 5, 9, 3, 2, 3 }, 1, false },
	{ "16-block bands, head of 3", { 16, 20, 4, 8, 3 }, 0, false },
	{ "wide sets", { 4, 4, 4, 3, 2 }, 2, false },
	{ "in place", { 8, 7, 2, 4, 2 }, 0, true },
};

static void describe(const struct shape_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(shape, shapes, describe);

static struct shingle_layout *new_layout(struct kunit *test, const struct shape_case *c)
{
	struct shingle_layout *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	struct stl_set_params *p;

	KUNIT_ASSERT_NOT_NULL(test, l);
	shingle_exercise_layout(l, "stl-set", &c->shape);
	p = (void *)l->params;
	p->set_shift = cpu_to_le32(c->set_shift);
	return l;
}

/* Random load with power cuts; in place, only without: it does not promise more. */
static void stl_set_exercise(struct kunit *test)
{
	static const char *const inplace[] = { "inplace", NULL };
	const struct shape_case *c = test->param_value;
	struct shingle_exercise_plan plan = {
		.ops = &stl_set_engine_ops,
		.layout = new_layout(test, c),
		.features = c->inplace ? inplace : NULL,
		.rounds = 8000,
		.cuts = !c->inplace,
	};
	struct shingle_exercise_result res;

	for (plan.seed = 1; plan.seed <= 10; plan.seed++) {
		KUNIT_ASSERT_EQ_MSG(test, shingle_exercise(&plan, &res), 0, "seed %u: %s",
				    plan.seed, res.error);
		KUNIT_EXPECT_GT(test, res.steps, 100ULL);
		KUNIT_EXPECT_TRUE(test, !plan.cuts || res.cuts > 10);
		KUNIT_EXPECT_GT(test, res.checkpoints, 5ULL);
	}
}

static void commit(struct shingle_engine *e, const struct shingle_run *run)
{
	struct shingle_record rec[2];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };

	e->ops->commit(e, run, &emit);
}

static void write_block(struct kunit *test, struct shingle_engine *e, u64 lblk, u64 pblk)
{
	struct shingle_run run;

	KUNIT_ASSERT_EQ(test, e->ops->place(e, lblk, 1, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, pblk);
	commit(e, &run);
}

/* Spec 1.3: c = a mod n, next empty slot, a new slot for every write. */
static void stl_set_places(struct kunit *test)
{
	const struct shape_case c = { "", { 3, 4, 2, 0, 1 }, 0, false };
	struct shingle_layout *l = new_layout(test, &c);
	struct shingle_engine *e;
	struct shingle_run run;
	const char *why;

	KUNIT_ASSERT_EQ(test, stl_set_engine_ops.create(&e, l, &why), 0);
	/* Data bands at 0 3 6 9, staging at 12, cache bands at 15 and 18. */
	write_block(test, e, 0, 15);
	write_block(test, e, 3, 18);
	write_block(test, e, 6, 16);
	write_block(test, e, 0, 17);
	KUNIT_EXPECT_EQ(test, e->ops->place(e, 7, 1, &run), -ENOSPC);
	KUNIT_EXPECT_EQ(test, e->ops->place(e, 4, 2, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, 19ULL);
	KUNIT_EXPECT_EQ(test, run.n, 2U);
	e->ops->abort(e, &run);
	e->ops->resolve(e, 0, 12, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 17ULL);
	KUNIT_EXPECT_EQ(test, run.n, 1U);
	e->ops->resolve(e, 1, 12, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 1ULL);
	KUNIT_EXPECT_EQ(test, run.n, 2U);
	KUNIT_EXPECT_EQ(test, run.kind, SHINGLE_RUN_UNWRITTEN);
	e->ops->destroy(e);
}

/* A full set: every dirty band of it is staged, written back, then it is empty. */
static void stl_set_cleans(struct kunit *test)
{
	const struct shape_case c = { "", { 2, 4, 2, 0, 1 }, 0, false };
	struct shingle_layout *l = new_layout(test, &c);
	struct shingle_record rec[4];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec), .seq = 7 };
	/* Staging band at 8, cache bands at 10 and 12. */
	static const struct { u64 base, dst, lblk; } want[] = {
		{ SHINGLE_NOWHERE, 8, 0 }, { 8, 0, 0 }, { SHINGLE_NOWHERE, 8, 4 }, { 8, 4, 4 },
	};
	struct shingle_engine *e;
	struct shingle_step step;
	struct shingle_run run;
	const char *why;
	u32 i;

	KUNIT_ASSERT_EQ(test, stl_set_engine_ops.create(&e, l, &why), 0);
	write_block(test, e, 1, 10);
	write_block(test, e, 4, 11);
	KUNIT_EXPECT_EQ(test, e->ops->next_step(e, SHINGLE_WHY_PRESSURE, &step), 0);
	KUNIT_EXPECT_EQ(test, e->ops->place(e, 0, 1, &run), -ENOSPC);
	for (i = 0; i < ARRAY_SIZE(want); i++) {
		KUNIT_ASSERT_EQ(test, e->ops->next_step(e, SHINGLE_WHY_PRESSURE, &step), 1);
		KUNIT_EXPECT_EQ(test, step.base, want[i].base);
		KUNIT_EXPECT_EQ(test, step.dst, want[i].dst);
		KUNIT_EXPECT_EQ(test, step.lblk, want[i].lblk);
		KUNIT_EXPECT_FALSE(test, e->ops->referenced(e, step.dst, step.n));
		emit.nr = 0;
		e->ops->step_done(e, &step, &emit);
	}
	/* Emptied, but not before that is durable and the readers are gone. */
	KUNIT_EXPECT_EQ(test, emit.nr, 2U);
	KUNIT_EXPECT_TRUE(test, e->ops->pending(e));
	KUNIT_EXPECT_EQ(test, e->ops->place(e, 0, 1, &run), -EBUSY);
	e->ops->release(e, 6);
	KUNIT_EXPECT_TRUE(test, e->ops->pending(e));
	e->ops->release(e, 7);
	KUNIT_EXPECT_FALSE(test, e->ops->pending(e));
	write_block(test, e, 0, 10);
	e->ops->resolve(e, 4, 2, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 4ULL);
	KUNIT_EXPECT_EQ(test, run.n, 2U);
	e->ops->destroy(e);
}

static struct kunit_case stl_set_cases[] = {
	KUNIT_CASE(stl_set_places),
	KUNIT_CASE(stl_set_cleans),
	KUNIT_CASE_PARAM(stl_set_exercise, shape_gen_params),
	{}
};

static struct kunit_suite stl_set_suite = {
	.name = "stl-set",
	.test_cases = stl_set_cases,
};

kunit_test_suite(stl_set_suite);

MODULE_DESCRIPTION("dm-shingle: KUnit tests of the shingle translation layers");
MODULE_LICENSE("GPL");
