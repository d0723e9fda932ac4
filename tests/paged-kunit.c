// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of the engine with a map in pages. */
#include <kunit/test.h>
#include <linux/module.h>

#include "exercise.h"
#include "paged-engine.h"
#include "pages/pages.h"

struct paged_case {
	const char *name;
	struct shingle_exercise_shape shape;
};

static const struct paged_case cases[] = {
	{ "no tracks", { 16, 12, 0, 0, 0, 1 } },
	{ "tracks of 4, head of 2", { 12, 30, 0, 0, 4, 2 } },
};

static void describe(const struct paged_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(paged, cases, describe);

static struct shingle_layout *new_layout(struct kunit *test,
					 const struct shingle_exercise_shape *shape)
{
	struct shingle_layout *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	const __le32 none = 0;

	KUNIT_ASSERT_NOT_NULL(test, l);
	shingle_exercise_layout(l, &paged_engine_ops, shape, &none, sizeof(none));
	return l;
}

/* With the fewest frames: pages come and go, and checkpoints make room. */
static void paged_exercise(struct kunit *test)
{
	const struct paged_case *c = test->param_value;
	struct shingle_exercise_plan plan = {
		.ops = &paged_engine_ops,
		.layout = new_layout(test, &c->shape),
		.rounds = 4000,
		.cuts = true,
	};
	struct shingle_exercise_result res;
	u64 cuts = 0, read = 0, written = 0;

	for (plan.seed = 1; plan.seed <= 5; plan.seed++) {
		KUNIT_ASSERT_EQ_MSG(test, shingle_exercise(&plan, &res), 0, "seed %u: %s",
				    plan.seed, res.error);
		cuts += res.cuts;
		read += res.pages_read;
		written += res.pages_written;
	}
	KUNIT_EXPECT_GT(test, cuts, 50ULL);
	KUNIT_EXPECT_GT(test, read, 50ULL);
	KUNIT_EXPECT_GT(test, written, 50ULL);
}

/* A call that returns SHINGLE_ABSENT has changed nothing. */
static void paged_absent(struct kunit *test)
{
	struct shingle_layout *l = new_layout(test, &cases[0].shape);
	struct shingle_engine *e;
	struct shingle_run run;
	const char *why = "";

	KUNIT_ASSERT_EQ_MSG(test, paged_engine_ops.create(&e, l, &why), 0, "%s", why);
	KUNIT_ASSERT_EQ_MSG(test, shingle_pages_create_for(e, l, shingle_pages_least(e), &why), 0,
			    "%s", why);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	e->pages->places.now[0] = SHINGLE_PAGE_A << 2;
	e->ops->map.resolve(e, 3, 20, &run);
	KUNIT_EXPECT_EQ(test, run.kind, SHINGLE_RUN_ABSENT);
	KUNIT_EXPECT_EQ(test, run.n, 9U);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 3, 1, SHINGLE_LIFE_UNKNOWN, &run),
			SHINGLE_ABSENT);
	KUNIT_EXPECT_EQ(test, e->pages->changes.unevictable, 0U);
	KUNIT_EXPECT_EQ(test, shingle_pages_ask(e->pages), 0);
	KUNIT_EXPECT_NE(test, shingle_pages_wanted(e->pages), SHINGLE_NO_PAGE);
	/* The next page was never written, so it needs no read. */
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 12, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, e->pages->changes.unevictable, 2U);
	e->ops->map.abort(e, &run);
	KUNIT_EXPECT_EQ(test, e->pages->changes.unevictable, 0U);
	shingle_pages_destroy(e);
	e->ops->destroy(e);
}

/* In a full region with a page that was given up, no step can make room. */
static void paged_lost(struct kunit *test)
{
	struct shingle_layout *l = new_layout(test, &cases[0].shape);
	struct shingle_engine *e;
	struct shingle_step step;
	struct shingle_run run;
	const char *why = "";
	u32 i;

	KUNIT_ASSERT_EQ_MSG(test, paged_engine_ops.create(&e, l, &why), 0, "%s", why);
	KUNIT_ASSERT_EQ_MSG(test, shingle_pages_create_for(e, l, shingle_pages_least(e), &why), 0,
			    "%s", why);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	for (i = 0; i < 16; i++) {
		KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
		e->ops->map.abort(e, &run);
	}
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	KUNIT_ASSERT_EQ(test, shingle_pages_give_up(e->pages, 1), 0);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), 0);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run),
			SHINGLE_FULL);
	shingle_pages_destroy(e);
	e->ops->destroy(e);
}

static struct kunit_case paged_cases[] = {
	KUNIT_CASE(paged_absent),
	KUNIT_CASE(paged_lost),
	KUNIT_CASE_PARAM(paged_exercise, paged_gen_params),
	{}
};

static struct kunit_suite paged_suite = {
	.name = "paged",
	.test_cases = paged_cases,
};

kunit_test_suite(paged_suite);

MODULE_DESCRIPTION("dm-shingle: KUnit tests of a map in pages");
MODULE_LICENSE("GPL");
