// SPDX-License-Identifier: GPL-2.0
/* KUnit tests of the shingle translation layers, on devices of a few blocks. */
#ifdef __KERNEL__
#include <kunit/test.h>
#include <linux/module.h>
#endif

#include "exercise.h"
#include "full/engine.h"
#include "log/engine.h"
#include "set/engine.h"
#include "engine/slotmap.h"

#ifndef __KERNEL__
#include "kunit-shim.h"
#endif

struct shape_case {
	const char *name;
	const struct shingle_engine_ops *ops;
	struct shingle_exercise_shape shape;
	const char *const *features;
	const char *const *keys;
	u32 params[3];
};

static const char *const inplace[] = { "inplace", NULL };
static const char *const unsafe_bypass[] = { "unsafe_bypass", NULL };
static const char *const greedy[] = { "order", "greedy", NULL };
static const char *const aggressive[] = { "cleaning", "aggressive", NULL };
static const char *const bypass[] = { "bypass_blocks", "1", NULL };
static const char *const long_bypass[] = { "bypass_blocks", "5", "cleaning", "aggressive", NULL };
static const char *const by_block[] = { "rmw", "block", NULL };
static const char *const tight[] = { "threshold", "1", NULL };
static const char *const by_live[] = { "clean", "greedy", NULL };
static const char *const never[] = { "clean", "off", NULL };
static const char *const always[] = { "read_home", "always", NULL };
static const char *const bypass_always[] = {
	"bypass_blocks", "2", "read_home", "always", NULL
};

/* In user space shingle-exercise runs many more. */
#ifdef __KERNEL__
static const struct shape_case shapes[] = {
	{ "set: 19 blocks, 12 KiB bands", &stl_set_engine_ops, { 3, 3, 1, 2, 0, 1 } },
	{ "set: one cache band", &stl_set_engine_ops, { 3, 5, 1, 1, 0, 1 } },
	{ "set: tracks of 4, head of 2", &stl_set_engine_ops, { 8, 7, 1, 2, 4, 2 } },
	{ "set: odd bands, head of 3", &stl_set_engine_ops, { 5, 9, 1, 3, 2, 3 },
	  .params = { 1 } },
	{ "set: 16-block bands, head of 3", &stl_set_engine_ops, { 16, 20, 1, 4, 8, 3 } },
	{ "set: wide sets, aggressive", &stl_set_engine_ops, { 4, 4, 1, 4, 3, 2 },
	  .keys = aggressive, .params = { 2 } },
	{ "set: greedy", &stl_set_engine_ops, { 6, 14, 1, 2, 3, 2 }, .keys = greedy },
	{ "set: bypass, 12 KiB bands", &stl_set_engine_ops, { 3, 6, 1, 2, 0, 1 },
	  .keys = bypass },
	{ "set: bypass, one cache band, head of 2", &stl_set_engine_ops, { 6, 7, 1, 1, 4, 2 },
	  .keys = bypass },
	{ "set: long bypass, aggressive, head of 3", &stl_set_engine_ops, { 16, 20, 1, 4, 8, 3 },
	  .keys = long_bypass },
	{ "set: the whole home read, head of 2", &stl_set_engine_ops, { 8, 7, 1, 2, 4, 2 },
	  .keys = bypass_always },
	{ "set: in place", &stl_set_engine_ops, { 8, 7, 1, 2, 4, 2 }, .features = inplace },
	{ "set: unsafe bypass, head of 2", &stl_set_engine_ops, { 6, 7, 1, 3, 4, 2 },
	  .features = unsafe_bypass, .keys = bypass },
	{ "set: unsafe bypass, the whole home read", &stl_set_engine_ops, { 5, 9, 1, 3, 2, 3 },
	  .features = unsafe_bypass, .keys = bypass_always },
	{ "set: known columns, head of 3", &stl_set_engine_ops,
	  { 16, 20, 1, 4, 8, 3, false, true, 13 } },
	{ "set: short cache bands, head of 2", &stl_set_engine_ops,
	  { 8, 7, 1, 4, 4, 2, false, true, 5, .cache_band_blocks = 3 } },
	{ "set: a long cache band, longer staging", &stl_set_engine_ops,
	  { 4, 9, 1, 1, 0, 1, .cache_band_blocks = 22, .staging_band_blocks = 6 },
	  .keys = bypass },
	{ "set: block by block, head of 2", &stl_set_engine_ops, { 8, 7, 1, 1, 4, 2,
	  .cache_band_blocks = 30 }, .keys = by_block },
	{ "set: block by block, in place", &stl_set_engine_ops, { 8, 7, 1, 1, 4, 2,
	  .cache_band_blocks = 30 }, .features = inplace, .keys = by_block },
	{ "full: known columns, head of 2", &stl_full_engine_ops,
	  { 16, 24, 0, 0, 5, 2, false, true, 8 }, .params = { 24, 5, 3 } },
	{ "full: one zone, 12 KiB bands", &stl_full_engine_ops, { 3, 9, 0, 0, 0, 1 },
	  .params = { 9, 3, 2 } },
	{ "full: no more provision than needed", &stl_full_engine_ops, { 4, 12, 0, 0, 0, 1 },
	  .params = { 6, 2, 1 } },
	{ "full: uneven zones, head of 2", &stl_full_engine_ops, { 8, 19, 0, 0, 4, 2 },
	  .keys = tight, .params = { 8, 3, 2 } },
	{ "full: greedy, head of 3", &stl_full_engine_ops, { 5, 30, 0, 0, 2, 3 },
	  .keys = greedy, .params = { 14, 6, 4 } },
	{ "full: the whole home read", &stl_full_engine_ops, { 4, 12, 0, 0, 0, 1 },
	  .keys = always, .params = { 12, 3, 2 } },
	{ "full: 16-block bands, head of 3", &stl_full_engine_ops, { 16, 24, 0, 0, 8, 3 },
	  .params = { 24, 5, 3 } },
	{ "log: 12 KiB bands", &stl_log_engine_ops, { 3, 12, 0, 0, 0, 1 },
	  .params = { 0, 3, 36 } },
	{ "log: greedy, head of 2", &stl_log_engine_ops, { 8, 14, 0, 0, 4, 2 },
	  .keys = by_live, .params = { 0, 4, 112 } },
	{ "log: a home, head of 3", &stl_log_engine_ops, { 5, 20, 0, 0, 2, 3 },
	  .params = { 8, 3, 60 } },
	{ "log: few extents", &stl_log_engine_ops, { 16, 12, 0, 0, 0, 1 },
	  .params = { 0, 3, 24 } },
};

static void describe(const struct shape_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(shape, shapes, describe);
#endif

static struct shingle_layout *new_layout(struct kunit *test, const struct shape_case *c)
{
	struct shingle_layout *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	__le32 params[ARRAY_SIZE(c->params)];
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, l);
	test->priv = l;
	for (i = 0; i < ARRAY_SIZE(params); i++)
		params[i] = cpu_to_le32(c->params[i]);
	shingle_exercise_layout(l, c->ops, &c->shape, params, sizeof(params));
	return l;
}

#ifdef __KERNEL__
/* Random load with power cuts; without them for inplace, which does not survive them. */
static void stl_exercise(struct kunit *test)
{
	const struct shape_case *c = test->param_value;
	struct shingle_exercise_plan plan = {
		.ops = c->ops,
		.layout = new_layout(test, c),
		.features = c->features,
		.keys = c->keys,
		.rounds = 10000,
		.cuts = !c->features,
	};
	struct shingle_exercise_result res;
	u64 cuts = 0, steps = 0, checkpoints = 0, bypassed = 0;

	/* Few seeds, because each takes long under KASAN; many thousands run in userspace. */
	for (plan.seed = 1; plan.seed <= 4; plan.seed++) {
		KUNIT_ASSERT_EQ_MSG(test, shingle_exercise(&plan, &res), 0, "seed %u: %s",
				    plan.seed, res.error);
		cuts += res.cuts;
		steps += res.steps;
		checkpoints += res.checkpoints;
		bypassed += res.bypassed;
	}
	/* Checked over all seeds, because single seeds may do little. */
	KUNIT_EXPECT_GT(test, steps, 400ULL);
	KUNIT_EXPECT_GT(test, checkpoints, 20ULL);
	KUNIT_EXPECT_TRUE(test, !plan.cuts || cuts > 80);
	if (c->keys == bypass || c->keys == long_bypass || c->keys == bypass_always)
		KUNIT_EXPECT_GT(test, bypassed, 20ULL);
}
#endif

/* Return: the number of records. */
static u32 commit(struct shingle_engine *e, const struct shingle_run *run)
{
	struct shingle_record rec[4];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };

	e->ops->map.commit(e, run, &emit);
	return emit.nr;
}

/* Place and commit @n blocks that are expected at @pblk; return the number of records. */
static u32 write_run(struct kunit *test, struct shingle_engine *e, u64 lblk, u32 n, u64 pblk)
{
	struct shingle_run run;

	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, lblk, n, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, pblk);
	KUNIT_EXPECT_EQ(test, run.n, n);
	return commit(e, &run);
}

static void write_block(struct kunit *test, struct shingle_engine *e, u64 lblk, u64 pblk)
{
	write_run(test, e, lblk, 1, pblk);
}

/* Aghayev (2020), section 2.3.1: c = a mod n, the next empty slot, a new slot for every write. */
static void stl_set_places(struct kunit *test)
{
	const struct shape_case c = { "", &stl_set_engine_ops, { 3, 4, 1, 2, 0, 1 } };
	struct shingle_layout *l = new_layout(test, &c);
	struct shingle_engine *e;
	struct shingle_run run;
	const char *why;

	KUNIT_ASSERT_EQ(test, stl_set_engine_ops.create(&e, l, &why), 0);
	/* Data bands at 0, 3, 6, 9; staging at 12; cache bands at 15 and 18. */
	write_block(test, e, 0, 15);
	write_block(test, e, 3, 18);
	write_block(test, e, 6, 16);
	write_block(test, e, 0, 17);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 7, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 4, 2, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, 19ULL);
	KUNIT_EXPECT_EQ(test, run.n, 2U);
	e->ops->map.abort(e, &run);
	e->ops->map.resolve(e, 0, 12, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 17ULL);
	KUNIT_EXPECT_EQ(test, run.n, 1U);
	e->ops->map.resolve(e, 1, 12, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 1ULL);
	KUNIT_EXPECT_EQ(test, run.n, 2U);
	KUNIT_EXPECT_EQ(test, run.kind, SHINGLE_RUN_UNWRITTEN);
	e->ops->destroy(e);
}

/* A full set: each of its dirty bands is staged and written back; then the set is empty. */
static void stl_set_cleans(struct kunit *test)
{
	const struct shape_case c = { "", &stl_set_engine_ops, { 2, 4, 1, 2, 0, 1 } };
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
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), 0);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	for (i = 0; i < ARRAY_SIZE(want); i++) {
		KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), 1);
		KUNIT_EXPECT_EQ(test, step.base, want[i].base);
		KUNIT_EXPECT_EQ(test, step.dst, want[i].dst);
		KUNIT_EXPECT_EQ(test, step.lblk, want[i].lblk);
		KUNIT_EXPECT_FALSE(test, shingle_in_use(test->priv, e, step.dst, step.n));
		emit.nr = 0;
		e->ops->clean.step_done(e, &step, &emit);
	}
	/* The set is emptied, but not before that is durable and the readers are gone. */
	KUNIT_EXPECT_EQ(test, emit.nr, 2U);
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	e->ops->clean.release(e, 6);
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	e->ops->clean.release(e, 7);
	KUNIT_EXPECT_FALSE(test, e->ops->clean.pending(e));
	write_block(test, e, 0, 10);
	e->ops->map.resolve(e, 4, 2, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 4ULL);
	KUNIT_EXPECT_EQ(test, run.n, 2U);
	e->ops->destroy(e);
}

/* More slots than one call empties. */
#define LONG_LOG	(16U * SHINGLE_WALK + 3)

/* A long log is emptied in parts, and takes no writes before the last part is empty. */
static void stl_set_opens_when_empty(struct kunit *test)
{
	const struct shape_case c = { "", &stl_set_engine_ops, { LONG_LOG, 1, 1, 1, 0, 1 } };
	struct shingle_record rec[4];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec), .seq = 7 };
	struct shingle_engine *e;
	struct shingle_step step;
	struct shingle_run run;
	const char *why;
	u32 at;

	KUNIT_ASSERT_EQ(test, stl_set_engine_ops.create(&e, new_layout(test, &c), &why), 0);
	for (at = 0; at < LONG_LOG; at += run.n) {
		KUNIT_ASSERT_EQ(test, e->ops->map.place(e, at, LONG_LOG - at, SHINGLE_LIFE_UNKNOWN,
							&run), 0);
		commit(e, &run);
	}
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	while (e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step) == 1) {
		emit.nr = 0;
		e->ops->clean.step_done(e, &step, &emit);
		while (e->ops->clean.tidy(e))
			;
	}
	KUNIT_EXPECT_TRUE(test, e->ops->clean.release(e, 7));
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	KUNIT_EXPECT_FALSE(test, e->ops->clean.release(e, 7));
	KUNIT_EXPECT_FALSE(test, e->ops->clean.pending(e));
	write_block(test, e, 0, 2 * LONG_LOG);
	e->ops->destroy(e);
}

static struct shingle_engine *new_full_of(struct kunit *test, u32 band_blocks, u32 bands,
					  u32 provision, u32 logs)
{
	const struct shape_case c = {
		"", &stl_full_engine_ops, { band_blocks, bands, 0, 0, 0, 1 },
		.params = { bands, provision, logs },
	};
	struct shingle_engine *e;
	const char *why;

	KUNIT_ASSERT_EQ(test, stl_full_engine_ops.create(&e, new_layout(test, &c), &why), 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	return e;
}

static struct shingle_engine *new_full(struct kunit *test, u32 bands, u32 provision, u32 logs)
{
	return new_full_of(test, 3, bands, provision, logs);
}

static void one_step(struct kunit *test, struct shingle_engine *e, enum shingle_why why,
		     u64 base, u64 dst, u64 lblk)
{
	struct shingle_record rec[16];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };
	struct shingle_step step;

	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, why, &step), 1);
	KUNIT_EXPECT_EQ(test, step.base, base);
	KUNIT_EXPECT_EQ(test, step.dst, dst);
	KUNIT_EXPECT_EQ(test, step.lblk, lblk);
	KUNIT_EXPECT_FALSE(test, shingle_in_use(test->priv, e, step.dst, step.n));
	e->ops->clean.step_done(e, &step, &emit);
}

/*
 * Core asks for each piece of a step, and a run may begin or end outside of the piece.  A
 * block is counted as merged once, and not at all if the step fails.
 */
static void stl_counts_merged_blocks(struct kunit *test)
{
	const struct shape_case c[] = {
		{ "", &stl_set_engine_ops, { 6, 2, 1, 1, 0, 1 } },
		{ "", &stl_full_engine_ops, { 6, 6, 0, 0, 0, 1 }, .params = { 6, 2, 1 } },
	};
	struct shingle_record rec[16];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };
	struct shingle_engine *e;
	struct shingle_step step;
	struct shingle_run run;
	const char *why;
	u32 i, at;

	for (i = 0; i < ARRAY_SIZE(c); i++) {
		KUNIT_ASSERT_EQ(test, c[i].ops->create(&e, new_layout(test, &c[i]), &why), 0);
		KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
		KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 2, 3, SHINGLE_LIFE_UNKNOWN, &run), 0);
		commit(e, &run);
		KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step), 1);
		e->ops->clean.step_failed(e, &step, &(struct shingle_unwritten){ 0 });
		KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step), 1);
		for (at = 0; at < step.n; at++)
			KUNIT_EXPECT_EQ(test, e->ops->clean.step_source(e, &step, at, &run),
					at < 5);
		e->ops->clean.step_done(e, &step, &emit);
		KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "merged_blocks"), 3ULL);
		e->ops->destroy(e);
	}
}

/*
 * With read_home=always all of a home is read, but only blocks known to be there count as
 * content: none in a band that was never written; otherwise those without a newer copy.
 */
static void stl_reads_home(struct kunit *test)
{
	const struct shape_case c[] = {
		{ "", &stl_set_engine_ops, { 6, 2, 1, 1, 0, 1 } },
		{ "", &stl_full_engine_ops, { 6, 6, 0, 0, 0, 1 }, .params = { 6, 2, 1 } },
	};
	static const struct { u32 lblk, n; bool content; } want[2][3] = {
		{ { 0, 2, false }, { 2, 3, true }, { 5, 1, false } }, { { 2, 3, true } },
	};
	struct shingle_record rec[16];
	struct shingle_engine *e;
	struct shingle_step step;
	struct shingle_run run;
	const char *why;
	u32 i, j, k, at;

	for (i = 0; i < ARRAY_SIZE(c); i++) {
		KUNIT_ASSERT_EQ(test, c[i].ops->create(&e, new_layout(test, &c[i]), &why), 0);
		KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
		KUNIT_EXPECT_EQ(test, shingle_set(e, "read_home", "sometimes", &why), -ERANGE);
		KUNIT_EXPECT_EQ(test, shingle_set(e, "read_home", "always", &why), 0);
		for (j = 0; j < ARRAY_SIZE(want); j++) {
			KUNIT_ASSERT_EQ(test, 0, e->ops->map.place(e, 2, 3, SHINGLE_LIFE_UNKNOWN,
								   &run));
			commit(e, &run);
			KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step),
					1);
			KUNIT_EXPECT_EQ(test, step.read_blocks, 6U);
			e->ops->map.resolve(e, 0, 1, &run);
			KUNIT_EXPECT_EQ(test, step.base, run.pblk);
			for (at = 0, k = 0; at < step.n; at = run.lblk + run.n, k++) {
				if (!e->ops->clean.step_source(e, &step, at, &run))
					break;
				KUNIT_ASSERT_LT(test, k, 3U);
				KUNIT_EXPECT_EQ(test, run.lblk, (u64)want[j][k].lblk);
				KUNIT_EXPECT_EQ(test, run.n, want[j][k].n);
				KUNIT_EXPECT_EQ(test, run.kind == SHINGLE_RUN_MAPPED,
						want[j][k].content);
			}
			KUNIT_EXPECT_EQ(test, k, j ? 1U : 3U);
			do {	/* stl-set has two steps, and stl-full may have a log to free */
				struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };

				e->ops->clean.step_done(e, &step, &emit);
				e->ops->clean.release(e, 0);
			} while (e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step) == 1);
		}
		e->ops->destroy(e);
	}
}

/*
 * Aghayev (2020), Algorithm 1: the band of the oldest block first; with greedy, the set with
 * the most stale slots.
 */
static void stl_set_orders(struct kunit *test)
{
	/* Data bands at 0 6 12 18 24 30; staging at 36; sets 0, 1, 2 at 42, 48, 54. */
	const struct shape_case c = { "", &stl_set_engine_ops, { 6, 6, 1, 3, 0, 1 } };
	struct shingle_layout *l = new_layout(test, &c);
	static const u64 writes[][2] = {
		/* Set 2: bands 2 and 5.  Set 0: band 3, then 0.  Set 1: band 1, twice. */
		{ 12, 54 }, { 30, 55 }, { 18, 42 }, { 0, 43 }, { 1, 44 }, { 6, 48 }, { 6, 49 },
	};
	static const struct { const char *order; u64 lblk[5]; } want[] = {
		{ "fifo", { 12, 30, 18, 0, 6 } },
		{ "greedy", { 6, 12, 30, 0, 18 } },
	};
	struct shingle_engine *e;
	struct shingle_step step;
	const char *why;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(want); i++) {
		struct shingle_record rec[4];
		struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };

		KUNIT_ASSERT_EQ(test, stl_set_engine_ops.create(&e, l, &why), 0);
		KUNIT_EXPECT_EQ(test, shingle_set(e, "order", "lifo", &why), -ERANGE);
		KUNIT_EXPECT_EQ(test, shingle_set(e, "order", want[i].order, &why), 0);
		for (j = 0; j < ARRAY_SIZE(writes); j++)
			write_block(test, e, writes[j][0], writes[j][1]);
		for (j = 0; e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step) == 1; j++) {
			/* Stage and write back; an emptied set waits for a release. */
			KUNIT_ASSERT_LT(test, j / 2, 5U);
			KUNIT_EXPECT_EQ(test, step.lblk, want[i].lblk[j / 2]);
			emit.nr = 0;
			e->ops->clean.step_done(e, &step, &emit);
			e->ops->clean.release(e, 0);
		}
		KUNIT_EXPECT_EQ(test, j, 10U);
		e->ops->destroy(e);
	}
}

static void expect_run(struct kunit *test, struct shingle_engine *e, u64 lblk, u32 n, u64 pblk,
		       enum shingle_run_kind kind)
{
	struct shingle_run run;

	e->ops->map.resolve(e, lblk, 8, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, pblk);
	KUNIT_EXPECT_EQ(test, run.n, n);
	KUNIT_EXPECT_EQ(test, run.kind, kind);
}

/*
 * Data bands of 8 blocks at 0, 8, 16, 24, staging at 32, a cache band for each at
 * 40, 48, 56, 64.
 */
static struct shingle_engine *new_bypass(struct kunit *test, const char *blocks)
{
	const struct shape_case c = { "", &stl_set_engine_ops, { 8, 4, 1, 4, 0, 1 } };
	struct shingle_engine *e;
	const char *why;

	KUNIT_ASSERT_EQ(test, stl_set_engine_ops.create(&e, new_layout(test, &c), &why), 0);
	KUNIT_EXPECT_EQ(test, shingle_set(e, "bypass_blocks", "16777217", &why), -ERANGE);
	KUNIT_EXPECT_EQ(test, shingle_set(e, "bypass_blocks", "two", &why), -ERANGE);
	KUNIT_ASSERT_EQ(test, shingle_set(e, "bypass_blocks", blocks, &why), 0);
	return e;
}

/* The state that recovery restores if the power is cut right after a checkpoint. */
static struct shingle_engine *reborn(struct kunit *test, struct shingle_engine *old)
{
	const struct shingle_piece_kind *p = stl_set_engine_ops.state.pieces;
	struct shingle_engine *e = new_bypass(test, "2");
	const struct shingle_layout *l = test->priv;
	u8 *buf = kunit_kzalloc(test, SHINGLE_CHUNK_BYTES, GFP_KERNEL);
	u64 cursor = 0, index;
	const char *why;
	u32 bytes;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	while ((bytes = shingle_encode(l, old, &cursor, &index, buf)))
		KUNIT_ASSERT_EQ(test, shingle_pieces_decode(p, l, e, index, buf, bytes), 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	old->ops->destroy(old);
	return e;
}

/* A stream into empty bands goes home at once, one write at a time. */
static void stl_set_bypasses(struct kunit *test)
{
	struct shingle_engine *e = new_bypass(test, "2");
	struct shingle_run run, other;

	write_run(test, e, 6, 2, 40);
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 8, 3, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, 8ULL);
	KUNIT_EXPECT_TRUE(test, shingle_in_use(test->priv, e, 10, 1));
	KUNIT_EXPECT_FALSE(test, shingle_in_use(test->priv, e, 11, 5));
	/*
	 * The stream's next write waits, and so does a write that has overtaken it; a stray
	 * one does not.
	 */
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 11, 1, SHINGLE_LIFE_UNKNOWN, &other), -EBUSY);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 14, 1, SHINGLE_LIFE_UNKNOWN, &other), -EBUSY);
	write_block(test, e, 30, 64);
	expect_run(test, e, 8, 8, 8, SHINGLE_RUN_ZERO);
	commit(e, &run);
	expect_run(test, e, 8, 3, 8, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 11, 5, 11, SHINGLE_RUN_ZERO);
	/* The write at 14 is refused until those sent before it are done. */
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 14, 1, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	write_run(test, e, 11, 1, 11);
	write_block(test, e, 14, 48);
	write_run(test, e, 12, 4, 12);
	expect_run(test, e, 8, 8, 8, SHINGLE_RUN_MAPPED);
	write_run(test, e, 16, 2, 16);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "bypassed_blocks"), 10ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "placed_blocks"), 4ULL);

	/* A failed write ends the stream; home holds what it held before. */
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 18, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, 18ULL);
	e->ops->map.abort(e, &run);
	write_block(test, e, 18, 56);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "streams_broken"), 1ULL);
	e = reborn(test, e);
	expect_run(test, e, 8, 8, 8, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 16, 2, 16, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 19, 5, 19, SHINGLE_RUN_ZERO);
	/* In a merge the rest of the band is zeroes, whatever the medium holds there. */
	one_step(test, e, SHINGLE_WHY_FORCED, SHINGLE_NOWHERE, 32, 0);
	e->ops->destroy(e);
}

/* A stream over content: the band is staged first, then the stream replaces the write-back. */
static void stl_set_bypasses_content(struct kunit *test)
{
	struct shingle_engine *e = new_bypass(test, "2");
	struct shingle_step step;
	struct shingle_run run;

	write_run(test, e, 6, 2, 40);
	write_run(test, e, 8, 8, 8);
	write_run(test, e, 6, 2, 42);
	write_block(test, e, 15, 48);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 8, 4, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	one_step(test, e, SHINGLE_WHY_PRESSURE, 8, 32, 8);
	/* Not before the record is durable and the readers of the home are gone. */
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 8, 4, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	e->ops->clean.release(e, 0);
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 8, 4, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, 8ULL);
	expect_run(test, e, 8, 8, 32, SHINGLE_RUN_MAPPED);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step), -EAGAIN);
	commit(e, &run);
	expect_run(test, e, 8, 4, 8, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 12, 4, 36, SHINGLE_RUN_MAPPED);

	/*
	 * A power cut, or another need of the staging band, ends the stream: write back the
	 * rest.
	 */
	e = reborn(test, e);
	expect_run(test, e, 8, 4, 8, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 12, 4, 36, SHINGLE_RUN_MAPPED);
	one_step(test, e, SHINGLE_WHY_RECOVERY, 36, 12, 12);
	expect_run(test, e, 8, 8, 8, SHINGLE_RUN_MAPPED);
	e->ops->destroy(e);
}

/* A stream that reaches the end of the band leaves nothing to copy home. */
static void stl_set_bypasses_to_the_end(struct kunit *test)
{
	struct shingle_engine *e = new_bypass(test, "2");
	struct shingle_record rec[2];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };
	struct shingle_step step;
	struct shingle_run run;

	write_run(test, e, 6, 2, 40);
	write_run(test, e, 8, 8, 8);
	write_run(test, e, 16, 8, 16);
	write_run(test, e, 6, 2, 42);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 8, 8, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	one_step(test, e, SHINGLE_WHY_PRESSURE, 8, 32, 8);
	e->ops->clean.release(e, 0);
	write_run(test, e, 8, 6, 8);
	/* Nothing else needs the staging band, so the stream may pause. */
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), 0);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_IDLE, &step), 0);
	write_run(test, e, 14, 2, 14);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 16, 8, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), 1);
	KUNIT_EXPECT_EQ(test, step.n, 0U);
	e->ops->clean.step_done(e, &step, &emit);
	expect_run(test, e, 8, 8, 8, SHINGLE_RUN_MAPPED);
	one_step(test, e, SHINGLE_WHY_PRESSURE, 16, 32, 16);
	e->ops->clean.release(e, 0);
	write_run(test, e, 16, 8, 16);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "streams_broken"), 0ULL);
	e->ops->destroy(e);
}

static void expect_gathered(struct kunit *test, struct shingle_engine *e, u64 lblk, u32 n)
{
	struct shingle_run run;

	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, lblk, n, SHINGLE_LIFE_UNKNOWN, &run),
			SHINGLE_GATHER);
	KUNIT_EXPECT_EQ(test, run.lblk, lblk);
	KUNIT_EXPECT_EQ(test, run.n, n);
}

/* The next step of an epoch overwrites all of a band in place, from @base, without a copy. */
static void over_itself(struct kunit *test, struct shingle_engine *e, u64 base, u64 lblk,
			u64 other)
{
	struct shingle_record rec[2];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };
	struct shingle_step step;
	struct shingle_run run;

	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_EPOCH, &step), 1);
	KUNIT_EXPECT_EQ(test, step.base, base);
	KUNIT_EXPECT_EQ(test, step.dst, lblk);
	KUNIT_EXPECT_EQ(test, step.lblk, lblk);
	KUNIT_EXPECT_EQ(test, step.n, 8U);
	KUNIT_EXPECT_TRUE(test, step.whole_in_memory);
	KUNIT_EXPECT_EQ(test, step.gathered, SHINGLE_GATHERED_OVER);
	/* Only blocks that the epoch does not have are looked up elsewhere. */
	KUNIT_EXPECT_EQ(test, e->ops->clean.step_source(e, &step, 0, &run), !!other);
	if (other)
		KUNIT_EXPECT_EQ(test, run.pblk, other);
	e->ops->clean.step_done(e, &step, &emit);
	KUNIT_EXPECT_EQ(test, rec[0].type, cpu_to_le16(STL_SET_CLEANED));
	expect_run(test, e, lblk, 8, lblk, SHINGLE_RUN_MAPPED);
}

/* As in Skylight: a stream over content is gathered, and written over it. */
static void stl_set_bypasses_unsafely(struct kunit *test)
{
	struct shingle_engine *e = new_bypass(test, "2");
	struct shingle_step step;
	struct shingle_run run;
	const char *why;

	KUNIT_ASSERT_EQ(test, shingle_set(e, "unsafe_bypass", NULL, &why), 0);
	KUNIT_EXPECT_EQ(test, e->gather_blocks, 8U);
	KUNIT_EXPECT_EQ(test, e->buffer_blocks, 16U);
	KUNIT_EXPECT_EQ(test, e->copy_blocks, 8U);
	/* An empty home is still written at once; a write that is not a stream's is cached. */
	write_run(test, e, 6, 2, 40);
	write_run(test, e, 8, 8, 8);
	write_run(test, e, 16, 8, 16);
	write_block(test, e, 12, 48);
	write_block(test, e, 18, 56);
	write_run(test, e, 6, 2, 42);
	expect_gathered(test, e, 8, 5);
	expect_gathered(test, e, 13, 3);
	/*
	 * Without room for the last blocks core asks for them again, when the stream has
	 * moved on.
	 */
	expect_gathered(test, e, 16, 3);
	expect_gathered(test, e, 14, 2);
	expect_gathered(test, e, 19, 1);
	/*
	 * A write outside of the stream is cached; the map of the stream's blocks is
	 * unchanged.
	 */
	write_block(test, e, 22, 57);
	expect_run(test, e, 8, 4, 8, SHINGLE_RUN_MAPPED);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), 0);

	KUNIT_EXPECT_EQ(test, e->ops->gather.epoch_add(e, 8, 8), 0);
	KUNIT_EXPECT_EQ(test, e->ops->gather.epoch_add(e, 16, 2), 0);
	KUNIT_EXPECT_EQ(test, e->ops->gather.epoch_add(e, 19, 1), 0);
	over_itself(test, e, SHINGLE_NOWHERE, 8, 0);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "bypassed_blocks"), 24ULL);
	/* A step waits for a write in flight to the band's set. */
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 23, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_EPOCH, &step), -EAGAIN);
	commit(e, &run);
	over_itself(test, e, 16, 16, 56);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "bypassed_blocks"), 27ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "rmw_stream"), 1ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "rmw_home_blocks"), 5ULL);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_EPOCH, &step), 0);
	e->ops->gather.epoch_end(e);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_EPOCH, &step), 0);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "streams_broken"), 0ULL);
	e->ops->destroy(e);
}

/* A second stream ends the first; when one is alone again it goes home. */
static void stl_set_separates_streams(struct kunit *test)
{
	struct shingle_engine *e = new_bypass(test, "2");

	write_run(test, e, 6, 2, 40);
	write_run(test, e, 8, 2, 8);
	write_block(test, e, 29, 64);		/* may begin a stream */
	write_run(test, e, 10, 2, 10);
	write_block(test, e, 30, 65);		/* is a stream: both go to the cache */
	write_block(test, e, 12, 48);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "streams_broken"), 1ULL);
	write_block(test, e, 31, 66);
	write_run(test, e, 13, 3, 49);
	/* It has been alone for 3 blocks, but a stream enters a band at its beginning. */
	write_run(test, e, 16, 4, 16);
	expect_run(test, e, 8, 4, 8, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 12, 4, 48, SHINGLE_RUN_MAPPED);
	e->ops->destroy(e);
}

/*
 * When a waiting stream gives up its band, writes to the set are admitted again.  A second
 * stream ends the first one's request, and no step follows that these writes could wait
 * for.
 */
static void stl_set_drains_on_request(struct kunit *test)
{
	struct shingle_engine *e = new_bypass(test, "2");
	struct shingle_run run, other;
	struct shingle_step step;

	write_run(test, e, 6, 2, 40);
	write_run(test, e, 8, 8, 8);
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 12, 1, SHINGLE_LIFE_UNKNOWN, &other), 0);
	write_run(test, e, 6, 2, 42);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 8, 4, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), -EAGAIN);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 15, 1, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	write_run(test, e, 22, 2, 56);
	write_run(test, e, 24, 1, 24);
	commit(e, &other);
	write_run(test, e, 8, 4, 49);
	write_block(test, e, 15, 53);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), 0);
	e->ops->destroy(e);
}

/* A discarded home is not overwritten before the discard is durable. */
static void stl_set_discards_home(struct kunit *test)
{
	struct shingle_engine *e = new_bypass(test, "2");
	struct shingle_record rec[2];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec), .seq = 5 };
	struct shingle_run run;
	bool dropped;
	u64 done;

	write_run(test, e, 6, 2, 40);
	write_run(test, e, 8, 3, 8);
	write_block(test, e, 12, 48);
	/* A discard drops nothing of the prefix, and everything in the rest of the band. */
	KUNIT_EXPECT_EQ(test, e->ops->map.discard(e, 10, 4, &done, &dropped, &emit), 0);
	KUNIT_EXPECT_EQ(test, done, 1ULL);
	KUNIT_EXPECT_FALSE(test, dropped);
	KUNIT_EXPECT_EQ(test, e->ops->map.discard(e, 11, 3, &done, &dropped, &emit), 0);
	KUNIT_EXPECT_EQ(test, done, 3ULL);
	KUNIT_EXPECT_TRUE(test, dropped);
	expect_run(test, e, 11, 5, 11, SHINGLE_RUN_ZERO);
	KUNIT_EXPECT_EQ(test, e->ops->map.discard(e, 8, 8, &done, &dropped, &emit), 0);
	KUNIT_EXPECT_TRUE(test, dropped);
	expect_run(test, e, 8, 8, 8, SHINGLE_RUN_ZERO);
	write_run(test, e, 6, 2, 42);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 8, 2, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	e->ops->clean.release(e, 4);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 8, 2, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	e->ops->clean.release(e, 5);
	write_run(test, e, 8, 2, 8);
	e->ops->destroy(e);
}

/*
 * Aghayev (2020), section 2.3.1: writes for all bands are appended to one log; unwritten bands
 * are at home.
 */
static void stl_full_places(struct kunit *test)
{
	/* Homes of bands 0 to 3 at 0 3 6 9, free bands at 12 15 18. */
	struct shingle_engine *e = new_full(test, 7, 3, 1);
	struct shingle_run run;

	KUNIT_EXPECT_EQ(test, e->ops->observe.cached_blocks(e), 0ULL);
	write_block(test, e, 1, 12);
	write_block(test, e, 10, 13);
	e->ops->map.resolve(e, 0, 12, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 0ULL);
	KUNIT_EXPECT_EQ(test, run.n, 1U);
	KUNIT_EXPECT_EQ(test, run.kind, SHINGLE_RUN_UNWRITTEN);
	e->ops->map.resolve(e, 10, 2, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 13ULL);
	KUNIT_EXPECT_EQ(test, run.n, 1U);
	KUNIT_EXPECT_EQ(test, run.kind, SHINGLE_RUN_MAPPED);
	write_block(test, e, 1, 14);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 4, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "full_zones"), 1ULL);
	e->ops->destroy(e);
}

/* Two bands in the log are merged into free bands; their old homes are free afterwards. */
static void stl_full_cleans(struct kunit *test)
{
	struct shingle_engine *e = new_full(test, 7, 3, 1);
	struct shingle_run run;

	write_block(test, e, 1, 12);
	write_block(test, e, 10, 13);
	write_block(test, e, 1, 14);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 4, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	/* The first slot is stale, so band 3 is the first with a block in the log. */
	one_step(test, e, SHINGLE_WHY_PRESSURE, SHINGLE_NOWHERE, 15, 9);
	one_step(test, e, SHINGLE_WHY_PRESSURE, SHINGLE_NOWHERE, 18, 0);
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 4, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	e->ops->clean.release(e, 0);
	KUNIT_EXPECT_FALSE(test, e->ops->clean.pending(e));
	e->ops->map.resolve(e, 9, 3, &run);
	KUNIT_EXPECT_EQ(test, run.pblk, 15ULL);
	KUNIT_EXPECT_EQ(test, run.n, 3U);
	KUNIT_EXPECT_EQ(test, run.kind, SHINGLE_RUN_MAPPED);
	/* The old home of band 0 is a log now. */
	write_block(test, e, 4, 0);
	e->ops->destroy(e);
}

/*
 * A band written whole and in order: no step, no copy, every block stays where it was
 * written.
 */
static void stl_full_switches(struct kunit *test)
{
	struct shingle_engine *e = new_full(test, 7, 3, 2);
	struct shingle_run run;
	u64 lblk;

	for (lblk = 0; lblk < 12; lblk += run.n) {
		int err = e->ops->map.place(e, lblk, 2, SHINGLE_LIFE_UNKNOWN, &run);

		if (err == -EBUSY) {
			e->ops->clean.release(e, 0);
			err = e->ops->map.place(e, lblk, 2, SHINGLE_LIFE_UNKNOWN, &run);
		}
		KUNIT_ASSERT_EQ(test, err, 0);
		commit(e, &run);
	}
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "placed_blocks"), 12ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "bands_switched"), 4ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "bands_cleaned"), 0ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "full_zones"), 0ULL);
	KUNIT_EXPECT_EQ(test, e->ops->observe.cached_blocks(e), 0ULL);
	for (lblk = 0; lblk < 12; lblk += 3) {
		e->ops->map.resolve(e, lblk, 12, &run);
		KUNIT_EXPECT_EQ(test, run.n, 3U);
		KUNIT_EXPECT_EQ(test, run.kind, SHINGLE_RUN_MAPPED);
	}
	e->ops->destroy(e);
}

/* A stray write into a band with a stream prevents the switch, and has no other effect. */
static void stl_full_breaks_streams(struct kunit *test)
{
	struct shingle_engine *e = new_full(test, 9, 5, 3);

	write_block(test, e, 0, 12);		/* may begin a stream over band 0 */
	write_block(test, e, 4, 15);		/* into the open log */
	write_block(test, e, 1, 13);
	write_block(test, e, 0, 16);		/* not the next block of band 0 */
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "streams_broken"), 1ULL);
	write_block(test, e, 2, 17);
	write_block(test, e, 5, 14);		/* fills the log that the stream left */
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "bands_switched"), 0ULL);
	e->ops->destroy(e);

	/* A stream does not become a home either if its log is cleaned meanwhile. */
	e = new_full(test, 9, 5, 3);
	write_block(test, e, 0, 12);
	one_step(test, e, SHINGLE_WHY_FORCED, SHINGLE_NOWHERE, 15, 0);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "streams_broken"), 1ULL);
	e->ops->destroy(e);
}

/* The number of free bands that writes keep free, and the cleaning modes. */
static void stl_full_tunables(struct kunit *test)
{
	struct shingle_engine *e = new_full(test, 9, 5, 4);
	struct shingle_step step;
	struct shingle_run run;
	const char *why;
	u64 lblk;

	KUNIT_EXPECT_EQ(test, shingle_set(e, "threshold", "5", &why), -ERANGE);
	KUNIT_EXPECT_EQ(test, shingle_set(e, "threshold", "4", &why), 0);
	for (lblk = 1; lblk < 4; lblk++)
		write_block(test, e, lblk, 11 + lblk);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 7, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	KUNIT_EXPECT_EQ(test, shingle_set(e, "threshold", "3", &why), 0);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 7, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	e->ops->map.abort(e, &run);

	KUNIT_EXPECT_EQ(test, shingle_set(e, "cleaning", "lazy", &why), 0);
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_IDLE, &step), 0);
	KUNIT_EXPECT_EQ(test, shingle_set(e, "cleaning", "now", &why), -ERANGE);
	KUNIT_EXPECT_EQ(test, shingle_set(e, "cleaning", "aggressive", &why), 0);
	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_IDLE, &step), 1);
	KUNIT_EXPECT_EQ(test, step.n, 3U);
	e->ops->clean.step_failed(e, &step, &(struct shingle_unwritten){ 0 });
	e->ops->destroy(e);
}

static void failed_step(struct kunit *test, struct shingle_engine *e, u64 dst)
{
	struct shingle_step step;

	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_IDLE, &step), 1);
	KUNIT_EXPECT_EQ(test, step.dst, dst);
	e->ops->clean.step_failed(e, &step, &(struct shingle_unwritten){
				     .pblk = step.dst, .n = step.n });
}

static void failed_write(struct kunit *test, struct shingle_engine *e, u64 lblk, u64 pblk)
{
	struct shingle_run run;

	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, lblk, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.pblk, pblk);
	e->ops->map.abort(e, &run);
}

static __printf(2, 3) void count_report(void *ctx, const char *fmt, ...)
{
	++*(u32 *)ctx;
}

static void expect_sound(struct kunit *test, struct shingle_engine *e)
{
	u32 reports = 0;

	KUNIT_EXPECT_EQ(test, shingle_verify(e, count_report, &reports), 0U);
	KUNIT_EXPECT_EQ(test, reports, 0U);
}

static struct shingle_engine *new_log_of(struct kunit *test, u32 band_blocks, u32 bands, u32 home,
					 u32 extents, const char *const *keys)
{
	const struct shape_case c = { "", &stl_log_engine_ops, { band_blocks, bands, 0, 0, 0, 1 },
				      .params = { home, 3, extents } };
	struct shingle_engine *e;
	const char *why;

	KUNIT_ASSERT_EQ(test, stl_log_engine_ops.create(&e, new_layout(test, &c), &why), 0);
	if (keys)
		KUNIT_ASSERT_EQ(test, shingle_set(e, keys[0], keys[1], &why), 0);
	KUNIT_ASSERT_EQ(test, e->ops->state.ready(e, &why), 0);
	return e;
}

/* Segments of 4 blocks, at 4 * home, 4 * home + 4 and so on. */
static struct shingle_engine *new_log(struct kunit *test, u32 bands, u32 home, u32 extents,
				      const char *const *keys)
{
	return new_log_of(test, 4, bands, home, extents, keys);
}

/* Do a step of @n blocks from the first extent's @src to its @dst. */
static void log_step(struct kunit *test, struct shingle_engine *e, enum shingle_why why, u32 n,
		     u64 src, u64 dst)
{
	struct shingle_record *rec = kunit_kcalloc(test, stl_log_engine_ops.step_records,
						   sizeof(*rec), GFP_KERNEL);
	struct shingle_emit emit = { .rec = rec, .max = stl_log_engine_ops.step_records };
	struct shingle_extent x = { 0 };
	struct shingle_step step;
	u64 cursor = 0;

	KUNIT_ASSERT_NOT_NULL(test, rec);
	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, why, &step), 1);
	KUNIT_EXPECT_EQ(test, step.n, n);
	KUNIT_ASSERT_TRUE(test, e->ops->clean.step_extent(e, &step, &cursor, &x));
	KUNIT_EXPECT_EQ(test, x.src, src);
	KUNIT_EXPECT_EQ(test, x.dst, dst);
	e->ops->clean.step_done(e, &step, &emit);
}

/*
 * Writes are appended, and an older copy is not in use any more.  A write in the middle of an
 * extent has a record for the part behind it.
 */
static void stl_log_appends(struct kunit *test)
{
	struct shingle_engine *e = new_log(test, 8, 0, 32, NULL);

	KUNIT_EXPECT_EQ(test, write_run(test, e, 10, 3, 0), 2U);
	KUNIT_EXPECT_EQ(test, write_run(test, e, 13, 1, 3), 1U);
	expect_run(test, e, 10, 4, 0, SHINGLE_RUN_MAPPED);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "extents"), 1ULL);
	KUNIT_EXPECT_EQ(test, write_run(test, e, 11, 2, 4), 3U);
	expect_run(test, e, 10, 1, 0, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 11, 2, 4, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 13, 1, 3, SHINGLE_RUN_MAPPED);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "extents"), 3ULL);
	KUNIT_EXPECT_TRUE(test, shingle_in_use(test->priv, e, 4, 2));
	KUNIT_EXPECT_FALSE(test, shingle_in_use(test->priv, e, 6, 2));
	expect_sound(test, e);
	e->ops->destroy(e);
}

/*
 * Blocks that were never written are read at home.  The log takes as many blocks as its segments
 * less three, and then only those that replace others.
 */
static void stl_log_has_a_home(struct kunit *test)
{
	/* The home at 0, segments from 12 on: room for 8 blocks. */
	struct shingle_engine *e = new_log(test, 8, 3, 32, NULL);
	struct shingle_run run;

	expect_run(test, e, 2, 2, 2, SHINGLE_RUN_UNWRITTEN);
	write_run(test, e, 0, 4, 12);
	write_run(test, e, 4, 3, 16);
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 7, 4, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, run.n, 1U);
	commit(e, &run);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 8, 1, SHINGLE_LIFE_UNKNOWN, &run),
			SHINGLE_FULL);
	write_run(test, e, 7, 1, 20);
	expect_run(test, e, 8, 4, 8, SHINGLE_RUN_UNWRITTEN);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/* Four segments with 1, 3, 3 and 4 blocks in use: greedy takes the first. */
static void stl_log_cleans(struct kunit *test)
{
	struct shingle_engine *e = new_log(test, 7, 0, 32, by_live);
	struct shingle_step step;
	struct shingle_run run;
	u32 i;

	for (i = 0; i < 4; i++)
		write_run(test, e, 4 * i, 4, 4 * i);
	write_run(test, e, 1, 3, 16);
	write_run(test, e, 4, 1, 19);
	write_run(test, e, 8, 1, 20);
	write_run(test, e, 12, 1, 21);
	write_run(test, e, 13, 1, 22);
	write_run(test, e, 14, 1, 23);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 5, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "full_logs"), 1ULL);
	log_step(test, e, SHINGLE_WHY_PRESSURE, 1, 0, 24);
	/* The segment is empty, and free after a release. */
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_PRESSURE, &step), -EAGAIN);
	e->ops->clean.release(e, 0);
	expect_run(test, e, 0, 1, 24, SHINGLE_RUN_MAPPED);
	expect_sound(test, e);
	/* The last free one is the cleaner's. */
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 5, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	log_step(test, e, SHINGLE_WHY_PRESSURE, 1, 15, 25);
	e->ops->clean.release(e, 0);
	write_run(test, e, 5, 1, 0);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/* A block that is written while it is being moved stays where the host wrote it. */
static void stl_log_moves_current_blocks(struct kunit *test)
{
	struct shingle_engine *e = new_log(test, 8, 0, 32, by_live);
	struct shingle_record rec[8];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };
	struct shingle_step step;

	write_run(test, e, 0, 4, 0);
	write_run(test, e, 3, 1, 4);
	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step), 1);
	KUNIT_EXPECT_EQ(test, step.n, 3U);
	write_run(test, e, 1, 1, 5);
	/* Places that the step reads must not become free. */
	KUNIT_EXPECT_FALSE(test, e->ops->clean.release(e, 0));
	e->ops->clean.step_done(e, &step, &emit);
	expect_run(test, e, 0, 1, 8, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 1, 1, 5, SHINGLE_RUN_MAPPED);
	expect_run(test, e, 2, 1, 10, SHINGLE_RUN_MAPPED);
	/* One record for the segment, two for blocks. */
	KUNIT_EXPECT_EQ(test, emit.nr, 3U);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/* A full map is shortened by copying extents that follow each other to one place. */
static void stl_log_joins(struct kunit *test)
{
	struct shingle_engine *e = new_log(test, 10, 0, 4, by_live);
	struct shingle_run run;

	write_run(test, e, 1, 1, 0);
	write_run(test, e, 0, 1, 1);
	write_run(test, e, 2, 1, 2);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 9, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "full_extents"), 1ULL);
	log_step(test, e, SHINGLE_WHY_PRESSURE, 3, 1, 4);
	expect_run(test, e, 0, 3, 4, SHINGLE_RUN_MAPPED);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "extents"), 1ULL);
	write_run(test, e, 9, 1, 3);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/*
 * Without cleaning a full log takes no write, until a segment is empty or cleaning is switched on:
 * the last free segment is the cleaner's.
 */
static void stl_log_archives(struct kunit *test)
{
	static const u32 lblk[] = { 0, 1, 2, 3, 1, 1, 1, 1, 2, 2, 2, 2 };
	struct shingle_engine *e = new_log(test, 4, 0, 32, never);
	struct shingle_step step;
	struct shingle_run run;
	const char *why;
	u32 i;

	for (i = 0; i < 3; i++)
		write_run(test, e, 0, 4, 4 * i);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	e->ops->clean.release(e, 0);
	write_run(test, e, 0, 4, 12);
	e->ops->clean.release(e, 0);
	for (i = 0; i < ARRAY_SIZE(lblk); i++) {
		write_run(test, e, lblk[i], 1, i);
		e->ops->clean.release(e, 0);
	}
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step), 0);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run),
			SHINGLE_FULL);
	KUNIT_ASSERT_EQ(test, shingle_set(e, "clean", "greedy", &why), 0);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &run), -ENOSPC);
	log_step(test, e, SHINGLE_WHY_PRESSURE, 1, 7, 12);
	e->ops->clean.release(e, 0);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/*
 * Blocks of the home that a rewrite brings into use count at once: the host cannot use up the room
 * for them meanwhile.
 */
static void stl_log_rewrites_within_capacity(struct kunit *test)
{
	/* The home at 0, segments from 12 on: room for 8 blocks. */
	struct shingle_engine *e = new_log(test, 8, 3, 32, NULL);
	struct shingle_record rec[16];
	struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };
	struct shingle_step step;
	struct shingle_run run;

	write_run(test, e, 1, 1, 12);
	KUNIT_ASSERT_TRUE(test, e->ops->read.rewrite(e, 0, 4));
	KUNIT_ASSERT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_REWRITE, &step), 1);
	KUNIT_EXPECT_EQ(test, step.n, 4U);
	write_run(test, e, 4, 3, 13);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 7, 4, SHINGLE_LIFE_UNKNOWN, &run), -EBUSY);
	write_run(test, e, 7, 1, 20);
	e->ops->clean.step_done(e, &step, &emit);
	expect_run(test, e, 0, 4, 16, SHINGLE_RUN_MAPPED);
	KUNIT_EXPECT_EQ(test, e->ops->map.place(e, 8, 1, SHINGLE_LIFE_UNKNOWN, &run),
			SHINGLE_FULL);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/* Six extents, and room in the map for four others: a rewrite of four needs no more. */
static void stl_log_rewrites_in_a_small_map(struct kunit *test)
{
	struct shingle_engine *e = new_log(test, 10, 0, 10, NULL);
	u32 i;

	for (i = 0; i < 6; i++)
		write_run(test, e, 5 - i, 1, i);
	KUNIT_ASSERT_TRUE(test, e->ops->read.rewrite(e, 1, 4));
	log_step(test, e, SHINGLE_WHY_REWRITE, 4, 4, 8);
	expect_run(test, e, 1, 4, 8, SHINGLE_RUN_MAPPED);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "extents"), 3ULL);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/* A rewrite that is dropped closes no segment: without cleaning the rest of it would be lost. */
static void stl_log_drops_rewrites(struct kunit *test)
{
	struct shingle_engine *e = new_log(test, 8, 0, 32, never);
	struct shingle_step step;

	write_run(test, e, 0, 2, 0);
	write_run(test, e, 9, 1, 2);
	/* One extent: there is nothing to rewrite. */
	KUNIT_ASSERT_TRUE(test, e->ops->read.rewrite(e, 0, 2));
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_REWRITE, &step), 0);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "dropped_rewrites"), 1ULL);
	write_run(test, e, 8, 1, 3);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/*
 * A segment into which all writes failed is free without another commit, also after a discard that
 * found nothing: its transaction has no records and is never committed.
 */
static void stl_log_frees_failed_segments(struct kunit *test)
{
	struct shingle_engine *e = new_log(test, 8, 0, 32, NULL);
	struct shingle_emit emit = { .seq = 5 };
	struct shingle_run run;
	bool dropped;
	u64 done;

	KUNIT_ASSERT_EQ(test, e->ops->map.discard(e, 0, 8, &done, &dropped, &emit), 0);
	KUNIT_EXPECT_EQ(test, emit.nr, 0U);
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 0, 4, SHINGLE_LIFE_UNKNOWN, &run), 0);
	e->ops->map.abort(e, &run);
	write_run(test, e, 0, 4, 4);
	KUNIT_EXPECT_TRUE(test, e->ops->clean.pending(e));
	e->ops->clean.release(e, 4);
	KUNIT_EXPECT_FALSE(test, e->ops->clean.pending(e));
	expect_sound(test, e);
	e->ops->destroy(e);
}

/* Do the next step, or release space if it waits for that.  Returns false if there is none. */
static bool any_step(struct kunit *test, struct shingle_engine *e, enum shingle_why why)
{
	struct shingle_emit emit = { .max = e->ops->step_records };
	struct shingle_step step;
	int r = e->ops->clean.next_step(e, why, &step);

	KUNIT_ASSERT_TRUE(test, r >= 0 || r == -EAGAIN);
	emit.rec = shingle_zalloc_array(emit.max, sizeof(*emit.rec));
	KUNIT_ASSERT_NOT_NULL(test, emit.rec);
	if (r > 0)
		e->ops->clean.step_done(e, &step, &emit);
	kvfree(emit.rec);
	shingle_release_all(e, 0);
	return r;
}

/* Write with all the cleaning that it takes, which has an end.  Returns 0 or SHINGLE_FULL. */
static int write_anyhow(struct kunit *test, struct shingle_engine *e, u64 lblk, u32 n)
{
	struct shingle_run run;
	u32 tries;
	int r = 0;

	for (tries = 0; n && tries < 20000; tries++) {
		r = e->ops->map.place(e, lblk, n, SHINGLE_LIFE_UNKNOWN, &run);
		if (r == SHINGLE_FULL)
			return r;
		if (r) {
			any_step(test, e, SHINGLE_WHY_PRESSURE);
			continue;
		}
		commit(e, &run);
		lblk += run.n;
		n -= run.n;
	}
	KUNIT_ASSERT_EQ(test, n, 0U);
	return 0;
}

static u32 draw(u64 *seed, u32 below)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(*seed >> 33) % below;
}

/* Fill a log, and overwrite single blocks until its map has @extents. */
static void fragment(struct kunit *test, struct shingle_engine *e, u64 *seed, u32 extents)
{
	const struct shingle_layout *l = test->priv;
	u32 band = l->band_blocks[SHINGLE_ROLE_DATA], lblk;

	for (lblk = 0; lblk < l->logical_blocks; lblk += band)
		KUNIT_ASSERT_EQ(test, write_anyhow(test, e, lblk, band), 0);
	while (shingle_exercise_counter(e, "extents") < extents)
		KUNIT_ASSERT_EQ(test, write_anyhow(test, e, draw(seed, l->logical_blocks), 1), 0);
}

/*
 * The cleaner splits extents at the ends of segments, again and again if it is asked to clean and
 * discards make room for that, but no more than the map has entries for.  It can join all that it
 * has split.
 */
static void stl_log_cleans_within_its_map(struct kunit *test)
{
	struct shingle_engine *e = new_log_of(test, 256, 20, 0, 100, by_live);
	const u32 blocks = 17 * 256;
	u32 round, i, steps;
	u64 seed = 1;

	fragment(test, e, &seed, 98);
	for (round = 0; round < 60; round++) {
		for (i = 0; i < 20; i++) {
			struct shingle_record rec[2];
			struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };
			u32 lblk = draw(&seed, blocks);
			struct shingle_run run;
			bool dropped;
			u64 done;

			e->ops->map.resolve(e, lblk, blocks - lblk, &run);
			e->ops->map.discard(e, run.lblk + run.n - 1, 1, &done, &dropped, &emit);
		}
		shingle_release_all(e, 0);
		for (steps = 0; any_step(test, e, SHINGLE_WHY_FORCED); steps++)
			KUNIT_ASSERT_LT(test, steps, 1000U);
		expect_sound(test, e);
	}
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, write_anyhow(test, e, draw(&seed, blocks), 1), 0);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/*
 * A full map on a full log: what is cleaned to have room for joining splits as many extents as are
 * joined.  A write fails in the end and does not wait for ever.
 */
static void stl_log_joins_in_vain(struct kunit *test)
{
	struct shingle_engine *e = new_log_of(test, 512, 200, 0, 220, by_live);
	u64 seed = 1;
	u32 i;
	int r = 0;

	for (i = 0; i < 197; i++)
		KUNIT_ASSERT_EQ(test, write_anyhow(test, e, 512 * i, 512), 0);
	for (i = 0; i < 5000 && !r; i++)
		r = write_anyhow(test, e, draw(&seed, 197 * 512), 1);
	KUNIT_EXPECT_EQ(test, r, SHINGLE_FULL);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/*
 * One log of 6 slots for bands of 4 blocks, cleaned block by block: the first write-back is
 * of a whole band, because its home is empty; the second begins at the block.
 */
static void stl_set_moves_blocks(struct kunit *test)
{
	/* Data bands at 0 and 4, staging at 8, the log at 12. */
	const struct shape_case c = { "", &stl_set_engine_ops,
				      { 4, 2, 1, 1, 0, 1, .cache_band_blocks = 6 } };
	static const struct { const char *counter; u64 block, band; } want[] = {
		{ "rmw_forced", 5, 2 }, { "rmw_pressure", 0, 0 }, { "merged_blocks", 5, 5 },
		{ "bands_cleaned", 5, 2 }, { "rmw_home_blocks", 4 + 4 + 3 + 1 + 2, 8 },
		{ "rmw_staged_blocks", 4 + 4 + 3 + 1 + 2, 8 },
	};
	static const u64 order[] = { 0, 4, 1, 3, 6 };
	struct shingle_engine *e;
	struct shingle_step step;
	const char *why;
	u32 by, i, steps;

	for (by = 0; by < 2; by++) {
		KUNIT_ASSERT_EQ(test, stl_set_engine_ops.create(&e, new_layout(test, &c), &why), 0);
		KUNIT_EXPECT_EQ(test, shingle_set(e, "rmw", "track", &why), -ERANGE);
		KUNIT_EXPECT_EQ(test, shingle_set(e, "rmw", by ? "band" : "block", &why), 0);
		for (i = 0; i < ARRAY_SIZE(order); i++)
			write_block(test, e, order[i], 12 + i);
		for (steps = 0; e->ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step) == 1;
		     steps++) {
			struct shingle_record rec[4];
			struct shingle_emit emit = { .rec = rec, .max = ARRAY_SIZE(rec) };

			KUNIT_ASSERT_LT(test, steps, 10U);
			if (!by && steps >= 4) {
				KUNIT_EXPECT_EQ(test, step.lblk, order[steps / 2]);
				KUNIT_EXPECT_EQ(test, step.n, 4 - (u32)order[steps / 2] % 4);
			}
			KUNIT_EXPECT_FALSE(test, shingle_in_use(test->priv, e, step.dst, step.n));
			e->ops->clean.step_done(e, &step, &emit);
			expect_sound(test, e);
			e->ops->clean.release(e, 0);
		}
		KUNIT_EXPECT_EQ(test, steps, by ? 4U : 10U);
		for (i = 0; i < ARRAY_SIZE(want); i++)
			KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, want[i].counter),
					by ? want[i].band : want[i].block);
		KUNIT_EXPECT_EQ(test, e->ops->observe.cached_blocks(e), 0ULL);
		e->ops->destroy(e);
	}
}

/* A band that failed a write is the last to be taken again, but is not excluded for good. */
static void stl_full_shuns_bad_bands(struct kunit *test)
{
	struct shingle_engine *e = new_full(test, 9, 5, 1);
	struct shingle_step step;

	write_block(test, e, 1, 12);
	failed_step(test, e, 15);
	failed_step(test, e, 18);
	failed_step(test, e, 21);
	failed_step(test, e, 24);
	/* All free bands have failed; they are taken in turn. */
	failed_step(test, e, 15);
	failed_step(test, e, 18);
	one_step(test, e, SHINGLE_WHY_IDLE, SHINGLE_NOWHERE, 21, 0);
	expect_sound(test, e);
	e->ops->clean.release(e, 0);
	/*
	 * The old home and the log come first, which never failed; then the band that
	 * failed longest ago.
	 */
	write_block(test, e, 4, 0);
	failed_step(test, e, 12);
	failed_step(test, e, 24);
	one_step(test, e, SHINGLE_WHY_IDLE, SHINGLE_NOWHERE, 15, 3);
	e->ops->clean.release(e, 0);
	/* 3 was the home of band 1.  15 is written whole and its failure is forgotten. */
	write_block(test, e, 4, 0);
	one_step(test, e, SHINGLE_WHY_IDLE, 15, 3, 3);
	e->ops->clean.release(e, 0);
	write_run(test, e, 4, 2, 0);
	write_block(test, e, 7, 2);
	one_step(test, e, SHINGLE_WHY_IDLE, 3, 15, 3);
	/* 12, 18 and 24 have failed; the step waits for the old home. */
	KUNIT_EXPECT_EQ(test, e->ops->clean.next_step(e, SHINGLE_WHY_IDLE, &step), -EAGAIN);
	e->ops->clean.release(e, 0);
	one_step(test, e, SHINGLE_WHY_IDLE, SHINGLE_NOWHERE, 3, 6);
	expect_sound(test, e);
	e->ops->destroy(e);
}

/* After two failures in a row a log is abandoned if another one can be opened. */
static void stl_full_leaves_bad_logs(struct kunit *test)
{
	/* Homes of bands 0 to 3 at 0 6 12 18, free bands at 24 30 36 42 48. */
	struct shingle_engine *e = new_full_of(test, 6, 9, 5, 3);
	struct shingle_run a, b;

	failed_write(test, e, 1, 24);
	write_block(test, e, 1, 25);
	failed_write(test, e, 2, 26);
	failed_write(test, e, 2, 27);
	failed_write(test, e, 2, 30);
	failed_write(test, e, 2, 31);
	expect_sound(test, e);
	failed_write(test, e, 2, 36);
	failed_write(test, e, 2, 37);
	/* Writes keep two bands free. */
	failed_write(test, e, 2, 38);
	write_block(test, e, 2, 39);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "logs_opened"), 3ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "placed_blocks"), 10ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "aborted_blocks"), 8ULL);
	KUNIT_EXPECT_EQ(test, e->ops->observe.cached_blocks(e), 2ULL);
	expect_sound(test, e);
	/* The second log holds nothing; one merge empties the others. */
	one_step(test, e, SHINGLE_WHY_FORCED, SHINGLE_NOWHERE, 0, SHINGLE_NOWHERE);
	one_step(test, e, SHINGLE_WHY_FORCED, SHINGLE_NOWHERE, 42, 0);
	e->ops->clean.release(e, 0);
	write_run(test, e, 7, 2, 40);
	/* The free log bands have failed; the old home of band 0 has not. */
	write_block(test, e, 7, 0);
	expect_sound(test, e);
	e->ops->destroy(e);

	/*
	 * The same for a stream; a write that ends after the log was abandoned changes
	 * nothing.
	 */
	e = new_full_of(test, 6, 9, 5, 3);
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 0, 1, SHINGLE_LIFE_UNKNOWN, &a), 0);
	KUNIT_ASSERT_EQ(test, e->ops->map.place(e, 1, 1, SHINGLE_LIFE_UNKNOWN, &b), 0);
	KUNIT_EXPECT_EQ(test, b.pblk, 25ULL);
	failed_write(test, e, 2, 26);
	e->ops->map.abort(e, &a);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(e, "streams_broken"), 1ULL);
	write_block(test, e, 0, 30);
	commit(e, &b);
	expect_sound(test, e);
	KUNIT_EXPECT_EQ(test, e->ops->observe.cached_blocks(e), 2ULL);
	e->ops->destroy(e);
}

#define MAP_SLOTS	150U
#define MAP_LBLKS	1000U

/* Length of the leading run of entries without a slot, at most @n. */
static u32 count_none(const u32 *x, u32 n)
{
	u32 i;

	for (i = 0; i < n && x[i] == SHINGLE_NO_SLOT; i++)
		;
	return i;
}

/* Length of the leading run of consecutive entries, at most @n. */
static u32 count_up(const u32 *x, u32 n)
{
	u32 i;

	for (i = 0; i < n && x[i] == x[0] + i; i++)
		;
	return i;
}

/* Compare runs with a table.  Six blocks share a bucket, and runs cross groups. */
static void stl_slotmap_runs(struct kunit *test)
{
	u32 *where = kunit_kcalloc(test, MAP_LBLKS, sizeof(u32), GFP_KERNEL);
	u32 *holds = kunit_kcalloc(test, MAP_SLOTS, sizeof(u32), GFP_KERNEL);
	struct shingle_slotmap m;
	u32 round, live = 0, i;
	u64 seed = 1;

	KUNIT_ASSERT_TRUE(test, where && holds);
	KUNIT_ASSERT_EQ(test, shingle_slotmap_init(&m, MAP_SLOTS), 0);
	memset(where, 0xff, MAP_LBLKS * sizeof(u32));
	memset(holds, 0xff, MAP_SLOTS * sizeof(u32));
	for (round = 0; round < 5000; round++) {
		u32 slot = draw(&seed, MAP_SLOTS), lblk = draw(&seed, MAP_LBLKS), n, most;

		most = 1 + draw(&seed, 100);
		n = min(most, MAP_LBLKS - lblk);
		KUNIT_EXPECT_EQ(test, shingle_slotmap_absent(&m, lblk, n),
				count_none(&where[lblk], n));
		most = min(most, MAP_SLOTS - slot);
		if (holds[slot] != SHINGLE_NO_SLOT) {
			u32 to = draw(&seed, MAP_SLOTS);
			bool move = holds[to] == SHINGLE_NO_SLOT && round % 2;

			if (move)
				most = min(most, count_none(&holds[to], MAP_SLOTS - to));
			n = count_up(&holds[slot], most);
			KUNIT_EXPECT_EQ(test, shingle_slotmap_run(&m, slot, most), n);
			lblk = holds[slot];
			memset(&holds[slot], 0xff, n * sizeof(u32));
			if (move)
				shingle_slotmap_move(&m, slot, to, n);
			else
				shingle_slotmap_remove(&m, slot, n);
			for (i = 0; i < n; i++) {
				where[lblk + i] = move ? to + i : SHINGLE_NO_SLOT;
				if (move)
					holds[to + i] = lblk + i;
			}
			live -= move ? 0 : n;
		} else {
			most = min(count_none(&holds[slot], most), n);
			n = count_none(&where[lblk], most);
			if (round % 2)
				KUNIT_EXPECT_EQ(test,
						shingle_slotmap_adopt(&m, slot, lblk, most), n);
			else if (n)
				shingle_slotmap_insert(&m, slot, lblk, n);
			for (i = 0; i < n; i++) {
				where[lblk + i] = slot + i;
				holds[slot + i] = lblk + i;
			}
			live += n;
		}
		KUNIT_EXPECT_EQ(test, m.live, live);
	}
	for (i = 0; i < MAP_LBLKS; i++)
		KUNIT_EXPECT_EQ(test, shingle_slotmap_find(&m, i), where[i]);
	shingle_slotmap_exit(&m);
}

static struct kunit_case stl_cases[] = {
	KUNIT_CASE(stl_slotmap_runs),
	KUNIT_CASE(stl_set_places),
	KUNIT_CASE(stl_set_cleans),
	KUNIT_CASE(stl_set_opens_when_empty),
	KUNIT_CASE(stl_counts_merged_blocks),
	KUNIT_CASE(stl_reads_home),
	KUNIT_CASE(stl_set_orders),
	KUNIT_CASE(stl_set_moves_blocks),
	KUNIT_CASE(stl_set_bypasses),
	KUNIT_CASE(stl_set_bypasses_content),
	KUNIT_CASE(stl_set_bypasses_to_the_end),
	KUNIT_CASE(stl_set_bypasses_unsafely),
	KUNIT_CASE(stl_set_separates_streams),
	KUNIT_CASE(stl_set_drains_on_request),
	KUNIT_CASE(stl_set_discards_home),
	KUNIT_CASE(stl_full_places),
	KUNIT_CASE(stl_full_cleans),
	KUNIT_CASE(stl_full_switches),
	KUNIT_CASE(stl_full_breaks_streams),
	KUNIT_CASE(stl_full_tunables),
	KUNIT_CASE(stl_full_shuns_bad_bands),
	KUNIT_CASE(stl_full_leaves_bad_logs),
	KUNIT_CASE(stl_log_appends),
	KUNIT_CASE(stl_log_has_a_home),
	KUNIT_CASE(stl_log_cleans),
	KUNIT_CASE(stl_log_moves_current_blocks),
	KUNIT_CASE(stl_log_joins),
	KUNIT_CASE(stl_log_archives),
	KUNIT_CASE(stl_log_rewrites_within_capacity),
	KUNIT_CASE(stl_log_rewrites_in_a_small_map),
	KUNIT_CASE(stl_log_drops_rewrites),
	KUNIT_CASE(stl_log_frees_failed_segments),
	KUNIT_CASE(stl_log_cleans_within_its_map),
	KUNIT_CASE(stl_log_joins_in_vain),
#ifdef __KERNEL__
	KUNIT_CASE_PARAM(stl_exercise, shape_gen_params),
#endif
	{}
};

static struct kunit_suite stl_suite = {
	.name = "stl",
	.test_cases = stl_cases,
};

kunit_test_suites(&stl_suite);

#ifdef __KERNEL__
MODULE_DESCRIPTION("dm-shingle: KUnit tests of the shingle translation layers");
MODULE_LICENSE("GPL");
#endif
