// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of the engine of autonomous regions: its paged map under power cuts. */
#include <kunit/test.h>
#include <linux/module.h>

#include "exercise.h"
#include "pages/pages.h"
#include "tiler-engine.h"

struct tiler_case {
	const char *name;
	struct shingle_exercise_shape shape;
	u32 rows;
	u32 columns;
	u32 over_permille;
};

static const struct tiler_case cases[] = {
	{ "combs of 1, head of 3", { 64, 4, 0, 0, 8, 3, false, true, 24 }, 8, 1, 100 },
	{ "combs of 3, nothing to spare", { 64, 4, 0, 0, 8, 3, false, true, 40 }, 8, 3, 0 },
	{ "whole tracks, turning", { 64, 6, 0, 0, 8, 2, false, true, 16 }, 0, 0, 100 },
	{ "whole tracks of which nothing is known", { 64, 6, 0, 0, 8, 4 }, 8, 0, 0 },
	{ "no tracks", { 64, 6, 0, 0, 0, 1 }, 16, 0, 0 },
	{ "combs of 3 on tracks shorter than usual",
	  { 64, 4, 0, 0, 8, 3, false, true, 48, .density = 500 }, 8, 3, 100 },
	{ "columns, half empty", { 24, 3, 0, 0, 2, 2, false, true, 8 }, 12, 1, 600 },
};

static void describe(const struct tiler_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(tiler, cases, describe);

static struct shingle_layout *new_layout(struct kunit *test, const struct tiler_case *c)
{
	struct shingle_layout *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	const struct tiler_params p = {
		.rows = cpu_to_le32(c->rows), .columns = cpu_to_le32(c->columns),
		.over_permille = cpu_to_le32(c->over_permille),
	};

	KUNIT_ASSERT_NOT_NULL(test, l);
	shingle_exercise_layout(l, &tiler_engine_ops, &c->shape, &p, sizeof(p));
	KUNIT_ASSERT_NE(test, l->logical_blocks, 0ULL);
	return l;
}

static void tiler_exercise(struct kunit *test)
{
	const struct tiler_case *c = test->param_value;
	struct shingle_exercise_plan plan = {
		.ops = &tiler_engine_ops, .layout = new_layout(test, c), .rounds = 4000,
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
 * CE-T1 and CE-T4: without the protections that the thesis lacks, data are lost and the
 * test sees it.
 */
static void lose(struct kunit *test, const struct tiler_case *c, const char *feature)
{
	struct shingle_exercise_result res;
	bool lost = shingle_exercise_loses(&tiler_engine_ops, new_layout(test, c), feature, &res);

	KUNIT_EXPECT_TRUE_MSG(test, lost, "%s", res.error);
}

static void tiler_needs_commits(struct kunit *test)
{
	lose(test, &cases[6], "unsafe_reuse");
}

static void tiler_needs_spares(struct kunit *test)
{
	lose(test, &cases[2], "unsafe_inplace");
}

static void write_twice(struct kunit *test, struct shingle_engine *e, u64 lblk, u64 seq)
{
	struct shingle_record rec;
	struct shingle_run run;
	u32 i;

	for (i = 0; i < 2; i++) {
		struct shingle_emit emit = { .rec = &rec, .max = 1, .seq = seq };

		KUNIT_ASSERT_EQ(test, e->ops->map.place(e, lblk, 1, SHINGLE_LIFE_UNKNOWN, &run),
				0);
		e->ops->map.commit(e, &run, &emit);
		KUNIT_EXPECT_EQ(test, emit.nr, 1U);
	}
}

/* A region with a place that waits for a commit stays in memory, even if others need room. */
static void tiler_pinned_stay(struct kunit *test)
{
	struct shingle_layout *l = new_layout(test, &cases[4]);
	u64 blocks = l->logical_blocks / 5;
	struct shingle_engine *e;
	struct shingle_run run;
	const char *why = "";
	u64 i;

	KUNIT_ASSERT_EQ_MSG(test, tiler_engine_ops.create(&e, l, &why), 0, "%s", why);
	KUNIT_ASSERT_EQ(test, shingle_set(e, "region_cache", "4", &why), 0);
	KUNIT_ASSERT_EQ(test, shingle_pages_create_for(e, l, 32, &why), 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	/* There are enough pages. */
	e->pages->changes.most = 8;
	for (i = 0; i < 4; i++)
		write_twice(test, e, i * blocks, 1 + i);
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 4 * blocks, 1, SHINGLE_LIFE_UNKNOWN, &run),
			-EBUSY);
	/* The first region's change is durable, so the region can be evicted. */
	shingle_release_all(e, 1);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 4 * blocks, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	shingle_release_all(e, 4);
	KUNIT_EXPECT_FALSE(test, e->ops->clean.pending(e));
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	e->ops->map.abort(e, &run);
	shingle_pages_destroy(e);
	e->ops->destroy(e);
}

static int write_block(struct shingle_engine *e, u64 lblk)
{
	struct shingle_record rec[1];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec), .seq = 1 };
	struct shingle_run run;
	int err = e->ops->map.place(e, lblk, 1, SHINGLE_LIFE_UNKNOWN, &run);

	if (!err)
		e->ops->map.commit(e, &run, &emit);
	return err;
}

/*
 * Without a usable spare slot, writes that find room without a clean succeed, and so do
 * discards.
 */
static void tiler_goes_on_without_spares(struct kunit *test)
{
	struct shingle_layout *l = new_layout(test, &cases[0]);
	struct shingle_record rec[1];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec), .seq = 1 };
	struct shingle_step step;
	struct shingle_engine *e;
	u64 done, lblk;
	bool dropped;
	const char *why;

	KUNIT_ASSERT_EQ(test, tiler_engine_ops.create(&e, l, &why), 0);
	KUNIT_ASSERT_EQ(test, shingle_pages_create(e, tiler_engine_ops.pages.nr_pages(l), 64, &why),
			0);
	KUNIT_ASSERT_EQ(test, tiler_engine_ops.state.ready(e, &why), 0);
	/* Lose the map of the only spare slot, which is the last page. */
	KUNIT_ASSERT_EQ(test, shingle_pages_give_up(e->pages, e->pages->nr_pages - 1), 0);
	for (lblk = 0; lblk < 8; lblk++)
		KUNIT_EXPECT_EQ(test, write_block(e, lblk), 0);
	/* Three rows, the width of the head. */
	KUNIT_EXPECT_EQ(test, e->ops->map.discard(e, 0, 3, &done, &dropped, &emit), 0);
	shingle_release_all(e, 1);
	KUNIT_EXPECT_EQ(test, e->ops->clean.left(e), 0U);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step), 0);
	KUNIT_EXPECT_EQ(test, e->ops->clean.left(e), 1U);
	KUNIT_EXPECT_EQ(test, write_block(e, 0), 0);
	KUNIT_EXPECT_EQ(test, write_block(e, 1), SHINGLE_FULL);
	emit.nr = 0;
	KUNIT_EXPECT_EQ(test, e->ops->map.discard(e, 0, 1, &done, &dropped, &emit), 0);
	shingle_release_all(e, 1);
	KUNIT_EXPECT_EQ(test, write_block(e, 1), 0);
	shingle_pages_destroy(e);
	tiler_engine_ops.destroy(e);
}

/*
 * A full region does not block other regions, and regions that cannot be cleaned are
 * counted.
 */
static void tiler_counts_what_is_left(struct kunit *test)
{
	struct shingle_layout *l = new_layout(test, &cases[0]);
	struct shingle_engine *e;
	struct shingle_step step;
	const char *why;
	u64 i;

	KUNIT_ASSERT_EQ(test, tiler_engine_ops.create(&e, l, &why), 0);
	KUNIT_ASSERT_EQ(test, shingle_pages_create(e, tiler_engine_ops.pages.nr_pages(l), 64, &why),
			0);
	KUNIT_ASSERT_EQ(test, tiler_engine_ops.state.ready(e, &why), 0);
	/* The only spare slot. */
	KUNIT_ASSERT_EQ(test, shingle_pages_give_up(e->pages, e->pages->nr_pages - 1), 0);
	/*
	 * Write all blocks but one of the first three regions, and one of these blocks
	 * again.
	 */
	for (i = 0; i < 24; i++) {
		KUNIT_ASSERT_EQ(test, write_block(e, i / 8 * 8 + i % 8 % 7), 0);
		shingle_release_all(e, 1);
	}
	KUNIT_EXPECT_EQ(test, e->ops->clean.left(e), 0U);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step), 0);
	KUNIT_EXPECT_EQ(test, e->ops->clean.left(e), 3U);
	shingle_pages_destroy(e);
	tiler_engine_ops.destroy(e);
}

/* One page is lost; a record about another page is replayed all the same. */
static void tiler_replays_what_is_left(struct kunit *test)
{
	struct shingle_layout *l = new_layout(test, &cases[0]);
	struct shingle_record rec;
	struct shingle_engine *e;
	struct shingle_run run;
	const char *why;
	u32 spare;

	KUNIT_ASSERT_EQ(test, tiler_engine_ops.create(&e, l, &why), 0);
	KUNIT_ASSERT_EQ(test, shingle_pages_create(e, tiler_engine_ops.pages.nr_pages(l), 64, &why),
			0);
	spare = e->pages->nr_pages - 1;
	KUNIT_ASSERT_EQ(test, shingle_pages_give_up(e->pages, spare), 0);
	shingle_record_set(&rec, TILER_REC_MAP, 1, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, tiler_engine_ops.state.replay(e, &rec), 0);
	/* The block was moved from the lost page, as later records say. */
	shingle_record_set(&rec, TILER_REC_DROP, 1, 0, 0, (u64)spare << 32);
	KUNIT_EXPECT_EQ(test, tiler_engine_ops.state.replay(e, &rec), 0);
	KUNIT_ASSERT_EQ(test, tiler_engine_ops.state.ready(e, &why), 0);
	e->ops->map.resolve(e, 0, 1, &run);
	KUNIT_EXPECT_EQ(test, (u32)run.kind, (u32)SHINGLE_RUN_ZERO);
	shingle_pages_destroy(e);
	tiler_engine_ops.destroy(e);
}

/* A write waits once for the map of a region, for any number of pages. */
static void tiler_waits_once(struct kunit *test)
{
	static const struct tiler_case three = { "", { 5000, 20, 0, 0, 0, 1 }, 0, 0, 0 };
	struct shingle_layout *l = new_layout(test, &three);
	struct shingle_engine *e;
	struct shingle_run run;
	const char *why = "";
	u32 i, frame;

	KUNIT_ASSERT_EQ_MSG(test, tiler_engine_ops.create(&e, l, &why), 0, "%s", why);
	KUNIT_ASSERT_EQ(test, shingle_pages_create_for(e, l, 32, &why), 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	for (i = 0; i < e->pages->nr_pages; i++)
		shingle_pages_found(e->pages, i, SHINGLE_PAGE_A);
	shingle_pages_begin(e, SHINGLE_CLIENT_IO);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run),
			SHINGLE_ABSENT);
	KUNIT_EXPECT_EQ(test, shingle_pages_ask(e->pages), 0);
	shingle_pages_end(e, true);
	for (i = 0; i < 3; i++) {
		frame = shingle_pages_wanted(e->pages);
		KUNIT_ASSERT_NE(test, frame, SHINGLE_NO_PAGE);
		KUNIT_EXPECT_EQ(test, e->pages->frames.frame[frame].nr, i);
		memset(e->pages->frames.frame[frame].block->payload, 0, SHINGLE_PAGE_BYTES);
		shingle_pages_here(e->pages, frame, 0);
	}
	/* Pages of another slot are not requested. */
	KUNIT_EXPECT_EQ(test, shingle_pages_wanted(e->pages), SHINGLE_NO_PAGE);
	shingle_pages_begin(e, SHINGLE_CLIENT_IO);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	shingle_pages_end(e, false);
	e->ops->map.abort(e, &run);
	shingle_pages_destroy(e);
	tiler_engine_ops.destroy(e);
}

/* A lost page of a spare slot does no harm once the slot is known to be spare. */
static void tiler_clears_lost_spares(struct kunit *test)
{
	struct shingle_layout *l = new_layout(test, &cases[0]);
	struct shingle_engine *e;
	struct shingle_step step;
	const char *why;
	u32 spare;
	u64 lblk;

	KUNIT_ASSERT_EQ(test, tiler_engine_ops.create(&e, l, &why), 0);
	KUNIT_ASSERT_EQ(test, shingle_pages_create(e, tiler_engine_ops.pages.nr_pages(l), 64, &why),
			0);
	spare = e->pages->nr_pages - 1;
	KUNIT_ASSERT_EQ(test, shingle_pages_give_up(e->pages, spare), 0);
	KUNIT_ASSERT_EQ(test, shingle_pages_give_up(e->pages, 1), 0);
	KUNIT_ASSERT_EQ(test, tiler_engine_ops.state.ready(e, &why), 0);
	KUNIT_EXPECT_FALSE(test, shingle_pages_clear_lost(e->pages, 1));
	KUNIT_EXPECT_TRUE(test, shingle_page_lost(e, 1));
	KUNIT_EXPECT_TRUE(test, shingle_pages_clear_lost(e->pages, spare));
	KUNIT_EXPECT_FALSE(test, shingle_page_lost(e, spare));
	/* So the first region can be cleaned into that slot when it is full. */
	for (lblk = 0; lblk < 8; lblk++)
		KUNIT_EXPECT_EQ(test, write_block(e, lblk % 7), 0);
	shingle_release_all(e, 1);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step), 1);
	shingle_pages_destroy(e);
	tiler_engine_ops.destroy(e);
}

/* Read the page that the engine lacks, as empty.  Returns 0 or the error. */
static int read_lacked(struct kunit *test, struct shingle_engine *e)
{
	int err = shingle_pages_ask(e->pages);
	u32 frame;

	while ((frame = shingle_pages_wanted(e->pages)) != SHINGLE_NO_PAGE) {
		memset(e->pages->frames.frame[frame].block->payload, 0, SHINGLE_PAGE_BYTES);
		shingle_pages_here(e->pages, frame, 0);
	}
	return err;
}

/* The last page of a region is lost: a write learns of it, however few frames there are. */
static void tiler_reports_lost_pages(struct kunit *test)
{
	static const struct tiler_case ten = { "", { 20000, 6, 0, 0, 0, 1 }, 0, 0, 0 };
	struct shingle_layout *l = new_layout(test, &ten);
	struct shingle_record rec;
	struct shingle_engine *e;
	struct shingle_run run;
	const char *why = "";
	u32 i, tries = 0;
	int err;

	KUNIT_ASSERT_EQ_MSG(test, tiler_engine_ops.create(&e, l, &why), 0, "%s", why);
	KUNIT_ASSERT_EQ(test, shingle_pages_create_for(e, l, shingle_pages_least(e), &why), 0);
	/* The region is being moved to the only spare slot, and the clean cannot continue. */
	shingle_record_set(&rec, TILER_REC_CLEAN, 0, 0, 0, e->pages->nr_pages / 10 - 1);
	KUNIT_ASSERT_EQ(test, tiler_engine_ops.state.replay(e, &rec), 0);
	for (i = 0; i < e->pages->nr_pages; i++)
		shingle_pages_found(e->pages, i, SHINGLE_PAGE_A);
	KUNIT_ASSERT_EQ(test, shingle_pages_give_up(e->pages, 9), 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	do {
		shingle_pages_begin(e, SHINGLE_CLIENT_IO);
		err = e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run);
		KUNIT_ASSERT_EQ(test, err, SHINGLE_ABSENT);
		err = read_lacked(test, e);
		shingle_pages_end(e, !err || err == -EAGAIN);
	} while (err != -ESTALE && ++tries < 100);
	KUNIT_EXPECT_EQ(test, err, -ESTALE);
	shingle_pages_destroy(e);
	tiler_engine_ops.destroy(e);
}

/*
 * Memory has room for one more region.  The host's oldest waiting write and the cleaner
 * each need more pages than one call loads; they must not evict each other's region for
 * ever.
 */
static void tiler_loads_come_to_an_end(struct kunit *test)
{
	static const struct tiler_case ten = { "", { 20000, 8, 0, 0, 0, 1 }, 0, 0, 0 };
	struct shingle_layout *l = new_layout(test, &ten);
	u64 blocks = l->logical_blocks / 7;
	struct shingle_record rec;
	struct shingle_engine *e;
	struct shingle_step step;
	struct shingle_run run;
	const char *why = "";
	u32 i, tries = 0;
	int err, r;

	KUNIT_ASSERT_EQ_MSG(test, tiler_engine_ops.create(&e, l, &why), 0, "%s", why);
	KUNIT_ASSERT_EQ(test, shingle_set(e, "region_cache", "4", &why), 0);
	KUNIT_ASSERT_EQ(test, shingle_pages_create_for(e, l, 128, &why), 0);
	shingle_record_set(&rec, TILER_REC_CLEAN, 0, 0, 5, 7);
	KUNIT_ASSERT_EQ(test, tiler_engine_ops.state.replay(e, &rec), 0);
	for (i = 40; i < 60; i++)
		shingle_pages_found(e->pages, i, SHINGLE_PAGE_A);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	for (i = 0; i < 3; i++)
		write_twice(test, e, i * blocks, 1 + i);
	do {
		shingle_pages_begin(e, SHINGLE_CLIENT_IO);
		err = e->ops->map.place(e, 4 * blocks, 1, SHINGLE_LIFE_UNKNOWN, &run);
		if (err == SHINGLE_ABSENT)
			KUNIT_ASSERT_EQ(test, read_lacked(test, e), 0);
		shingle_pages_end(e, err == SHINGLE_ABSENT);
		shingle_pages_begin(e, SHINGLE_CLIENT_CLEAN);
		r = e->ops->clean.next_step(e, SHINGLE_WHY_RECOVERY, &step);
		if (r == SHINGLE_ABSENT)
			KUNIT_ASSERT_EQ(test, read_lacked(test, e), 0);
		shingle_pages_end(e, r == SHINGLE_ABSENT);
	} while (err == SHINGLE_ABSENT && r == SHINGLE_ABSENT && ++tries < 100);
	/*
	 * One of the two has what it needs; or it learns that there is no room before a
	 * commit.
	 */
	KUNIT_EXPECT_LT(test, tries, 100U);
	if (!err)
		e->ops->map.abort(e, &run);
	if (r > 0)
		e->ops->clean.step_failed(e, &step, &(struct shingle_unwritten){ 0 });
	shingle_pages_destroy(e);
	tiler_engine_ops.destroy(e);
}

static struct kunit_case tiler_cases[] = {
	KUNIT_CASE(tiler_pinned_stay),
	KUNIT_CASE(tiler_waits_once),
	KUNIT_CASE_PARAM(tiler_exercise, tiler_gen_params),
	KUNIT_CASE(tiler_needs_commits),
	KUNIT_CASE(tiler_needs_spares),
	KUNIT_CASE(tiler_goes_on_without_spares),
	KUNIT_CASE(tiler_counts_what_is_left),
	KUNIT_CASE(tiler_replays_what_is_left),
	KUNIT_CASE(tiler_clears_lost_spares),
	KUNIT_CASE(tiler_reports_lost_pages),
	KUNIT_CASE(tiler_loads_come_to_an_end),
	{}
};

static struct kunit_suite tiler_suite = {
	.name = "tiler-engine",
	.test_cases = tiler_cases,
};

kunit_test_suite(tiler_suite);

MODULE_DESCRIPTION("dm-shingle: KUnit tests of the engine of autonomous regions");
MODULE_LICENSE("GPL");
