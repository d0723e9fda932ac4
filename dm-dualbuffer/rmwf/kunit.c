// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the engine of RMW-F: the worked examples VF1 to VF4 of Ma (2019), chapter 5, the
 * counter-examples of papers/ma.rst, and the exerciser.
 */
#ifdef __KERNEL__
#include <kunit/test.h>
#include <linux/module.h>
#endif

#include "counted.h"
#include "exercise.h"
#include "rmwf/engine.h"

#ifndef __KERNEL__
#include "kunit-shim.h"
#endif

struct rmwf_case {
	const char *name;
	struct shingle_exercise_shape shape;
	u32 pages;
	u32 columns;
};

/* Bands, staging and flash; tracks, head, skew. */
#define SHAPE(band, bands, track, head, skew, flash)					\
	.shape = { .band_blocks = band, .data_bands = bands, .staging_bands = 1,	\
		   .cache_bands = 1, .track_blocks = track, .head_tracks = head,	\
		   .columns = (track) > 0, .skew_units = skew,				\
		   .cache_band_blocks = flash, .cache_apart = true }

static const struct rmwf_case cases[] = {
	{ "head of 3", SHAPE(64, 4, 16, 3, 24, 48), 4, 1 },
	{ "a skew of parts of blocks, head of 2", SHAPE(48, 4, 12, 2, 21, 60), 6, 2 },
	{ "head as wide as a band", SHAPE(40, 5, 10, 4, 40, 30), 3, 5 },
	{ "no tracks", SHAPE(16, 12, 0, 1, 0, 40), 0, 0 },
	{ "bands that end within a track", SHAPE(53, 4, 12, 3, 8, 64), 8, 0 },
};

/* Figure 5.3: four tracks of five sectors; a flash block of four pages for each column. */
static const struct rmwf_case figure = { "", SHAPE(20, 1, 5, 2, 0, 20), 4, 1 };

static void *zalloc(struct kunit *test, size_t size)
{
#ifdef __KERNEL__
	return kunit_kzalloc(test, size, GFP_KERNEL);
#else
	return kunit_calloc(test, size);
#endif
}

static struct shingle_layout *new_layout(struct kunit *test, const struct rmwf_case *c)
{
	struct shingle_layout *l = zalloc(test, sizeof(*l));
	const struct rmwf_params p = {
		.page_blocks = cpu_to_le32(c->pages), .group_columns = cpu_to_le32(c->columns),
	};

	KUNIT_ASSERT_NOT_NULL(test, l);
	shingle_exercise_layout(l, &rmwf_engine_ops, &c->shape, &p, sizeof(p));
	KUNIT_ASSERT_TRUE(test, l->logical_blocks);
	return l;
}

/* ------------------------------------------------------------------------
 * Worked examples
 */

struct rmwf_fixture {
	struct shingle_layout *l;
	struct shingle_engine *e;
	struct shingle_record rec[64];
	u32 nr;
	u64 seq;
};

static struct rmwf_fixture *new_fixture(struct kunit *test, const struct rmwf_case *c,
					const char *name, const char *value)
{
	struct rmwf_fixture *t = zalloc(test, sizeof(*t));
	const char *why = "";

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->seq = 1;
	t->l = new_layout(test, c);
	KUNIT_ASSERT_EQ(test, rmwf_engine_ops.create(&t->e, t->l, &why), 0);
	if (name)
		KUNIT_ASSERT_EQ(test, shingle_set(t->e, name, value, &why), 0);
	return t;
}

static struct rmwf_fixture *start(struct kunit *test, const struct rmwf_case *c, const char *name,
			      const char *value)
{
	struct rmwf_fixture *t = new_fixture(test, c, name, value);
	const char *why = "";

	KUNIT_ASSERT_EQ(test, t->e->ops->state.ready(t->e, &why), 0);
	return t;
}

static void stop(struct rmwf_fixture *t)
{
	t->e->ops->destroy(t->e);
}

/* Returns the flash page, -1 for a direct write, or the error of place(). */
static int write_one(struct rmwf_fixture *t, u32 lblk)
{
	struct shingle_emit emit = {
		.rec = t->rec, .nr = t->nr, .max = ARRAY_SIZE(t->rec), .seq = t->seq,
	};
	struct shingle_run run;
	int err = t->e->ops->map.place(t->e, lblk, 1, SHINGLE_LIFE_UNKNOWN, &run);

	if (err)
		return err - 1;
	t->e->ops->map.commit(t->e, &run, &emit);
	t->nr = emit.nr;
	return shingle_pblk_dev(run.pblk) == SHINGLE_DEV_CACHE ?
	       (int)shingle_pblk_block(run.pblk) : -1;
}

/* The same, with everything durable afterwards. */
static int write_durably(struct rmwf_fixture *t, u32 lblk)
{
	int r = write_one(t, lblk);

	t->nr = 0;
	shingle_release_all(t->e, t->seq++);
	return r;
}

/* VF1: static, row by row. */
static void rmwf_vf1_locator(struct kunit *test)
{
	static const struct { u32 lsn, track, sector; } want[] = {
		{ 6, 2, 2 }, { 11, 3, 2 }, { 7, 2, 3 }, { 19, 4, 5 },
	};
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);
	struct shingle_run run;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(want); i++) {
		KUNIT_EXPECT_EQ(test, write_one(t, want[i].lsn), -1);
		t->e->ops->map.resolve(t->e, want[i].lsn, 1, &run);
		KUNIT_EXPECT_EQ(test, shingle_pblk_block(run.pblk),
				(want[i].track - 1) * 5 + want[i].sector - 1);
	}
	stop(t);
}

/* VF2 and VF3, by both rules. */
static void figure_5_3(struct kunit *test, const char *rule)
{
	static const struct { u32 lsn; int page; } order[] = {
		{ 0, -1 }, { 1, -1 }, { 2, -1 }, { 3, -1 }, { 4, -1 }, { 5, -1 },
		{ 0, 0 },		/* B1, page 0 */
		{ 6, -1 }, { 12, -1 },	/* T2 of S3 is left out */
		{ 7, 2 * 4 },		/* B3, page 0 */
	};
	static const u32 last[] = { 2, 2, 3, 1, 1 };
	struct rmwf_fixture *t = start(test, &figure, "rule", rule);
	struct shingle_run run;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(order); i++)
		KUNIT_EXPECT_EQ(test, write_one(t, order[i].lsn), order[i].page);
	/* T_p as the next write sees it: on the last track of a column, or after it. */
	for (i = 0; i < ARRAY_SIZE(last); i++) {
		u32 lsn = (last[i] - 1) * 5 + i;

		KUNIT_EXPECT_EQ(test, t->e->ops->map.place(t->e, lsn, 1, SHINGLE_LIFE_UNKNOWN,
							   &run), 0);
		KUNIT_EXPECT_EQ(test, (u32)shingle_pblk_dev(run.pblk), (u32)SHINGLE_DEV_DATA);
		t->e->ops->map.abort(t->e, &run);
		if (last[i] == 1)
			continue;
		KUNIT_EXPECT_EQ(test, t->e->ops->map.place(t->e, lsn - 5, 1,
							   SHINGLE_LIFE_UNKNOWN, &run), 0);
		KUNIT_EXPECT_EQ(test, (u32)shingle_pblk_dev(run.pblk), (u32)SHINGLE_DEV_CACHE);
		t->e->ops->map.abort(t->e, &run);
	}
	stop(t);
}

static void rmwf_vf2_vf3_pointer(struct kunit *test)
{
	figure_5_3(test, "pointer");
}

static void rmwf_vf2_vf3_window(struct kunit *test)
{
	figure_5_3(test, "window");
}

/* A place far enough behind is safe; a pointer does not know this. */
static void rmwf_rules_differ(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, "rule", "pointer");

	KUNIT_EXPECT_EQ(test, write_one(t, 15), -1);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), 0);
	stop(t);
	t = start(test, &figure, "rule", "window");
	KUNIT_EXPECT_EQ(test, write_one(t, 15), -1);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), -1);
	KUNIT_EXPECT_GE(test, write_one(t, 10), 0);
	stop(t);
}

static void discard_one(struct kunit *test, struct rmwf_fixture *t, u32 lblk)
{
	struct shingle_emit emit = {
		.rec = t->rec, .nr = t->nr, .max = ARRAY_SIZE(t->rec), .seq = t->seq,
	};
	bool dropped;
	u64 done;

	KUNIT_EXPECT_EQ(test, t->e->ops->map.discard(t->e, lblk, 1, &done, &dropped, &emit), 0);
	t->nr = emit.nr;
}

static bool would_destroy(struct rmwf_fixture *t, u32 lblk)
{
	u32 of = t->l->band_blocks[SHINGLE_ROLE_DATA];
	u64 pblk = shingle_band_pblk(t->l, SHINGLE_ROLE_DATA, lblk / of) + lblk % of;

	return shingle_would_destroy(t->l, t->e, pblk, 1);
}

static bool is_staged(struct rmwf_fixture *t)
{
	return t->e->ops->map.referenced(t->e, SHINGLE_ROLE_STAGING, 0, 0, 1);
}

/* Direct writes are those that core's walk allows, with known and with unknown columns. */
static void rmwf_direct_is_r0(struct kunit *test)
{
	static const struct rmwf_case where[] = {
		{ "columns", SHAPE(53, 4, 12, 3, 24, 2000), 8, 0 },
		{ "lengths of tracks", SHAPE(53, 4, 12, 3, 0, 2000), 8, 0 },
	};
	u32 i, k, rng = 1, home;

	for (i = 0; i < ARRAY_SIZE(where); i++) {
		struct rmwf_case c = where[i];
		struct rmwf_fixture *t;

		c.shape.columns = !i;
		t = start(test, &c, "rule", "window");
		for (home = k = 0; k < 400; k++) {
			u32 lblk;
			bool destroys;

			rng = rng * 1664525U + 1013904223U;
			lblk = (rng >> 8) % (53 * 4);
			if (rng >> 30 == 0) {
				discard_one(test, t, lblk);
				t->nr = 0;
				shingle_release_all(t->e, t->seq++);
				continue;
			}
			destroys = would_destroy(t, lblk);
			KUNIT_EXPECT_EQ_MSG(test, write_durably(t, lblk) >= 0, destroys,
					    "%s, block %u", c.name, lblk);
			home += !destroys;
		}
		KUNIT_EXPECT_TRUE(test, home > 40 && home < 260);
		stop(t);
	}
}

/* The durable map may still refer to a place that is no longer current. */
static void rmwf_r0_pins(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);

	KUNIT_EXPECT_EQ(test, write_one(t, 5), -1);
	KUNIT_EXPECT_EQ(test, write_one(t, 10), -1);
	/* 5 goes to flash, so its place becomes free, but not yet. */
	KUNIT_EXPECT_EQ(test, write_one(t, 5), 0);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), 1);
	shingle_release_all(t->e, t->seq);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), -1);
	stop(t);
}

/*
 * A block leaves its home again: the place is free when the later change is durable, not
 * earlier.
 */
static void free_with_the_newer(struct kunit *test, struct rmwf_fixture *t, u32 lblk, int page)
{
	discard_one(test, t, lblk);
	shingle_release_all(t->e, t->seq - 1);
	KUNIT_EXPECT_EQ(test, write_one(t, lblk - 5), page);
	shingle_release_all(t->e, t->seq);
	KUNIT_EXPECT_EQ(test, write_one(t, lblk - 5), -1);
}

/*
 * A place that is left a second time before the first is durable is free with the later
 * transaction.
 */
static void rmwf_r0_pins_again(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);

	KUNIT_EXPECT_EQ(test, write_one(t, 5), -1);
	discard_one(test, t, 5);
	t->nr = 0;
	t->seq++;
	KUNIT_EXPECT_EQ(test, write_one(t, 5), -1);
	free_with_the_newer(test, t, 5, 0);
	stop(t);
}

/*
 * Some of the blocks that leave together were nowhere, or had a write in flight.  Such a
 * block is written and leaves again.  When the first transaction is durable the second is
 * not, and recovery would still find the block.
 */
static void r0_pins_around(struct kunit *test, bool under_way)
{
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);
	struct shingle_emit emit = { .rec = t->rec, .max = ARRAY_SIZE(t->rec), .seq = t->seq };
	struct shingle_run run;
	bool dropped;
	u64 done;

	KUNIT_EXPECT_EQ(test, write_one(t, 5), -1);
	if (under_way)
		KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 6, 1, SHINGLE_LIFE_UNKNOWN,
							   &run), 0);
	KUNIT_ASSERT_EQ(test, t->e->ops->map.discard(t->e, 5, 2, &done, &dropped, &emit), 0);
	KUNIT_ASSERT_EQ(test, done, 2ULL);
	if (under_way)
		t->e->ops->map.commit(t->e, &run, &emit);
	else
		KUNIT_EXPECT_EQ(test, write_one(t, 6), -1);
	t->seq++;
	free_with_the_newer(test, t, 6, 4);
	stop(t);
}

static void rmwf_r0_pins_around(struct kunit *test)
{
	r0_pins_around(test, false);
	r0_pins_around(test, true);
}

/* A block is overwritten at home and leaves meanwhile; and then the same again. */
static void rmwf_r0_pins_under_way(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);
	struct shingle_emit emit = { .rec = t->rec, .max = ARRAY_SIZE(t->rec), .seq = t->seq };
	struct shingle_run run;

	KUNIT_EXPECT_EQ(test, write_one(t, 6), -1);
	KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 6, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	discard_one(test, t, 6);
	t->e->ops->map.commit(t->e, &run, &emit);
	t->seq++;
	free_with_the_newer(test, t, 6, 4);
	stop(t);
}

/* A discard of blocks that are nowhere emits no record: a file system discards a whole disk. */
static void rmwf_discards_nothing(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);

	discard_one(test, t, 5);
	KUNIT_EXPECT_EQ(test, t->nr, 0U);
	KUNIT_EXPECT_EQ(test, write_one(t, 5), -1);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), 0);
	KUNIT_EXPECT_EQ(test, t->nr, 2U);
	discard_one(test, t, 5);
	KUNIT_EXPECT_EQ(test, t->nr, 3U);
	discard_one(test, t, 0);
	KUNIT_EXPECT_EQ(test, t->nr, 4U);
	discard_one(test, t, 5);
	discard_one(test, t, 0);
	KUNIT_EXPECT_EQ(test, t->nr, 4U);
	stop(t);
}

/* A place that was claimed for a failed write becomes free again. */
static void rmwf_failed_is_free(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);
	struct shingle_run run;

	KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 5, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), 0);
	t->e->ops->map.abort(t->e, &run);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), 1);
	shingle_release_all(t->e, t->seq++);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), -1);
	/* But the place of the block that was there before does not. */
	KUNIT_EXPECT_EQ(test, write_one(t, 6), -1);
	KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 6, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	t->e->ops->map.abort(t->e, &run);
	shingle_release_all(t->e, t->seq++);
	KUNIT_EXPECT_EQ(test, write_one(t, 1), 4);
	stop(t);
}

/*
 * A write over a current block at home fails, and the block is then written to flash.  Its place at
 * home stays claimed until that change is durable.
 */
static void rmwf_failed_over_live(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);
	struct shingle_run run;

	KUNIT_EXPECT_EQ(test, write_durably(t, 5), -1);
	KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 5, 1, SHINGLE_LIFE_UNKNOWN, &run), 0);
	t->e->ops->map.abort(t->e, &run);
	KUNIT_EXPECT_EQ(test, write_one(t, 10), -1);
	t->nr = 0;
	t->seq++;
	KUNIT_EXPECT_EQ(test, write_one(t, 5), 0);
	/* That 5 has left is not durable: recovery would still find it. */
	shingle_release_all(t->e, t->seq - 1);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), 1);
	shingle_release_all(t->e, t->seq);
	KUNIT_EXPECT_EQ(test, write_one(t, 0), -1);
	stop(t);
}

/* A write to flash that is in flight when the place becomes free does not keep the place. */
static void rmwf_leaves_but_once(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, NULL, NULL);
	struct shingle_run run;
	u32 i;

	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, write_durably(t, 5), -1);
		KUNIT_EXPECT_EQ(test, write_durably(t, 10), -1);
		KUNIT_EXPECT_GE(test, write_one(t, 5), 0);
		KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 5, 1, SHINGLE_LIFE_UNKNOWN,
							   &run), 0);
		shingle_release_all(t->e, t->seq++);
		if (i) {
			struct shingle_emit emit = {
				.rec = t->rec, .max = ARRAY_SIZE(t->rec), .seq = t->seq,
			};

			t->e->ops->map.commit(t->e, &run, &emit);
		} else {
			t->e->ops->map.abort(t->e, &run);
		}
		t->nr = 0;
		KUNIT_EXPECT_EQ(test, write_durably(t, 0), -1);
		discard_one(test, t, 10);
		discard_one(test, t, 5);
		t->nr = 0;
		shingle_release_all(t->e, t->seq++);
	}
	stop(t);
}

/* Execute the next step to its end, as core does. */
static int one_step(struct rmwf_fixture *t, enum shingle_why why, struct shingle_step *step)
{
	struct shingle_emit emit = { .rec = t->rec, .max = ARRAY_SIZE(t->rec), .seq = t->seq };
	int r = t->e->ops->clean.next_step(t->e, why, step);

	if (r > 0)
		t->e->ops->clean.step_done(t->e, step, &emit);
	shingle_release_all(t->e, t->seq++);
	return r;
}

/* A write to flash need not check for other data there, a write to tracks must. */
static void rmwf_flash_is_alone(struct kunit *test)
{
	struct shingle_windows it;
	struct shingle_window w;
	u32 i, k, windows = 0;

	for (i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		struct rmwf_case c = cases[i / 2];
		struct shingle_layout *l;

		/* In some cases only the lengths of tracks are known. */
		c.shape.columns = c.shape.columns && i % 2;
		l = new_layout(test, &c);
		for (k = 0; k < c.shape.band_blocks; k++) {
			u64 pblk = shingle_band_pblk(l, SHINGLE_ROLE_DATA, 0) + k;

			shingle_windows_begin(&it, l, pblk, 1);
			if (shingle_windows_next(&it, &w)) {
				KUNIT_EXPECT_FALSE(test, shingle_is_alone(l, pblk));
				windows++;
			}
		}
		KUNIT_EXPECT_EQ(test, shingle_is_alone(l, shingle_band_pblk(l, SHINGLE_ROLE_DATA,
									    0)),
				!c.shape.track_blocks);
		KUNIT_EXPECT_TRUE(test, shingle_is_alone(l, shingle_band_pblk(l,
									      SHINGLE_ROLE_CACHE,
									      0)));
	}
	KUNIT_EXPECT_GE(test, windows, 100U);
}

/* Times a block was written to flash, according to a checkpoint; 0: it is not there. */
static u32 times_in_flash(struct rmwf_fixture *t, u32 lblk, struct counted_disk *buf)
{
	u64 cursor = 1, index;
	u32 i, n = shingle_pieces_encode(rmwf_engine_ops.state.pieces, t->l, t->e, &cursor, &index,
					 buf) / sizeof(*buf);

	for (i = 0; i < n && le32_to_cpu(buf[i].owner) != lblk + 1; i++)
		;
	return i < n ? le16_to_cpu(buf[i].count) : 0;
}

/* Resolving runs of blocks gives the same result as resolving each block. */
static void expect_resolved(struct kunit *test, struct rmwf_fixture *t, u32 lblk, u32 n)
{
	struct shingle_run run, one;
	bool same = true;
	u32 i;

	t->e->ops->map.resolve(t->e, lblk, n, &run);
	KUNIT_ASSERT_TRUE(test, run.n && run.n <= n && run.lblk == lblk);
	for (i = 0; i < n && same; i++) {
		t->e->ops->map.resolve(t->e, lblk + i, 1, &one);
		same = one.kind == run.kind &&
		       (one.kind == SHINGLE_RUN_ZERO || one.pblk == run.pblk + i);
	}
	KUNIT_EXPECT_EQ(test, same ? i : i - 1, run.n);
}

/* Runs of blocks, in flash and at home, while bands go home and while none does. */
static void rmwf_runs(struct kunit *test)
{
	static const struct rmwf_case c = { "", SHAPE(53, 4, 12, 3, 24, 120), 8, 4 };
	struct rmwf_fixture *t = start(test, &c, NULL, NULL);
	void *buf = zalloc(test, SHINGLE_CHUNK_BYTES);
	u32 k, i, lblk, n, rng = 1, was[8], mixed = 0, staged = 0, fresh;
	struct shingle_step step = {};
	struct shingle_run run;
	bool dropped;
	u64 done;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	for (k = 0; k < 4000; k++) {
		struct shingle_emit emit = {
			.rec = t->rec, .max = ARRAY_SIZE(t->rec), .seq = t->seq,
		};

		rng = rng * 1664525U + 1013904223U;
		lblk = (rng >> 8) % (53 * 4);
		n = min(1 + (rng >> 16) % 8, 53 * 4 - lblk);
		if (k % 16 == 15) {
			/* The discard may fail because the band is being copied. */
			t->e->ops->map.discard(t->e, lblk, 1, &done, &dropped, &emit);
		} else if (k % 64 == 1 ||
			   t->e->ops->map.place(t->e, lblk, n, SHINGLE_LIFE_UNKNOWN, &run)) {
			if (one_step(t, SHINGLE_WHY_PRESSURE, &step) <= 0)
				one_step(t, SHINGLE_WHY_FORCED, &step);
		} else {
			bool flash = shingle_pblk_dev(run.pblk) == SHINGLE_DEV_CACHE;

			for (fresh = i = 0; i < run.n; i++) {
				was[i] = times_in_flash(t, lblk + i, buf);
				fresh += !was[i];
			}
			mixed += flash && fresh && fresh < run.n;
			/* Blocks go to flash only if a direct write would destroy data. */
			for (i = 0; i < run.n && flash && !is_staged(t); i++)
				KUNIT_EXPECT_TRUE(test, would_destroy(t, lblk + i));
			t->e->ops->map.commit(t->e, &run, &emit);
			for (i = 0; i < run.n; i++)
				KUNIT_EXPECT_EQ(test, times_in_flash(t, lblk + i, buf),
						flash ? was[i] + 1 : 0);
		}
		t->e->ops->map.resolve(t->e, lblk, 1, &run);
		staged += run.pblk - shingle_band_pblk(t->l, SHINGLE_ROLE_STAGING, 0) < 53;
		for (lblk = 0; lblk < 53 * 4; lblk += 1 + k % 17)
			expect_resolved(test, t, lblk, min(1 + k % 40, 53 - lblk % 53));
	}
	KUNIT_EXPECT_GE(test, mixed, 100U);
	KUNIT_EXPECT_GE(test, staged, 10U);
	stop(t);
}

/* VF4: the cost of bringing a block home is the number of blocks after it in its column. */
static void rmwf_vf4_cost(struct kunit *test)
{
	static const struct { u32 lsn, cost; } want[] = { { 2, 3 }, { 14, 1 } };
	struct shingle_step step;
	struct rmwf_fixture *t;
	u32 i, row;

	for (i = 0; i < ARRAY_SIZE(want); i++) {
		u32 column = want[i].lsn % 5;

		t = start(test, &figure, NULL, NULL);
		for (row = 0; row < 4; row++)
			KUNIT_EXPECT_EQ(test, write_durably(t, row * 5 + column), -1);
		KUNIT_EXPECT_EQ(test, write_durably(t, want[i].lsn), (int)column * 4);
		do
			KUNIT_ASSERT_EQ(test, one_step(t, SHINGLE_WHY_FORCED, &step), 1);
		while (!step.n);
		KUNIT_EXPECT_EQ(test, step.n / 5 - 1, want[i].cost);
		stop(t);
	}
}

/* After a power cut the staged span goes home as it was staged, and the record describes it. */
static void rmwf_goes_home_after_a_cut(struct kunit *test)
{
	struct rmwf_fixture *t = new_fixture(test, &figure, NULL, NULL);
	struct shingle_step step;
	const char *why = "";

	shingle_record_set(&t->rec[0], RMWF_REC_STAGED, 0, 0, 5, 10);
	KUNIT_ASSERT_EQ(test, t->e->ops->state.replay(t->e, &t->rec[0]), 0);
	KUNIT_ASSERT_EQ(test, t->e->ops->state.ready(t->e, &why), 0);
	KUNIT_ASSERT_EQ(test, one_step(t, SHINGLE_WHY_RECOVERY, &step), 1);
	KUNIT_EXPECT_EQ(test, step.lblk, 5ULL);
	KUNIT_EXPECT_EQ(test, step.n, 10U);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(t->rec[0].type), RMWF_REC_BACK);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(t->rec[0].a), 5ULL);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(t->rec[0].b), 10ULL);
	KUNIT_EXPECT_EQ(test, one_step(t, SHINGLE_WHY_RECOVERY, &step), 0);
	stop(t);
}

/*
 * CE-F2: 0, and 5 behind it, were acknowledged.  If the power fails and the bits return
 * without 5, 0 is written over it.
 */
static void ce_f2(struct kunit *test, const char *feature, int page)
{
	struct rmwf_fixture *t = start(test, &figure, feature, NULL), *again;
	const char *why = "";
	u32 i;

	KUNIT_EXPECT_EQ(test, write_one(t, 0), -1);
	KUNIT_EXPECT_EQ(test, write_one(t, 5), -1);
	again = new_fixture(test, &figure, NULL, NULL);
	for (i = 0; i < t->nr; i++)
		KUNIT_EXPECT_EQ(test, again->e->ops->state.replay(again->e, &t->rec[i]), 0);
	KUNIT_ASSERT_EQ(test, again->e->ops->state.ready(again->e, &why), 0);
	KUNIT_EXPECT_EQ(test, write_one(again, 0), page);
	stop(again);
	stop(t);
}

static void rmwf_ce_f2(struct kunit *test)
{
	ce_f2(test, NULL, 0);
	ce_f2(test, "unsafe_pointer", -1);
}

/*
 * A page that was left without a record must not wait for a transaction: none would free
 * it, and a write that finds no other page would wait for ever.
 */
static void left_without_record(struct kunit *test, const char *feature, u32 records)
{
	struct rmwf_fixture *t = start(test, &figure, feature, NULL);

	KUNIT_EXPECT_EQ(test, write_durably(t, 0), -1);
	KUNIT_EXPECT_EQ(test, write_durably(t, 5), -1);
	KUNIT_EXPECT_EQ(test, write_durably(t, 0), 0);
	discard_one(test, t, 5);
	t->nr = 0;
	shingle_release_all(t->e, t->seq++);
	KUNIT_EXPECT_FALSE(test, t->e->ops->clean.pending(t->e));
	KUNIT_EXPECT_EQ(test, write_one(t, 0), -1);
	KUNIT_EXPECT_EQ(test, t->nr, records);
	shingle_release_all(t->e, t->seq - 1);
	KUNIT_EXPECT_EQ(test, t->e->ops->clean.pending(t->e), records > 0);
	stop(t);
}

static void rmwf_left_without_record(struct kunit *test)
{
	left_without_record(test, NULL, 1);
	left_without_record(test, "unsafe_pointer", 0);
}

/*
 * CE-F5: a column of six tracks, and a flash block of four pages with blocks of the first
 * four, all hot.  The fifth write finds no page; with the literal algorithm it never will.
 */
static void ce_f5(struct kunit *test, bool literal)
{
	static const struct rmwf_case column = { "", SHAPE(6, 1, 1, 2, 0, 4), 4, 1 };
	struct rmwf_fixture *t = new_fixture(test, &column, "hot_threshold", "0");
	struct shingle_step step;
	const char *why = "";
	u32 i;

	if (literal)
		KUNIT_ASSERT_EQ(test, shingle_set(t->e, "literal", NULL, &why), 0);
	KUNIT_ASSERT_EQ(test, t->e->ops->state.ready(t->e, &why), 0);
	for (i = 0; i < 6; i++)
		KUNIT_EXPECT_EQ(test, write_durably(t, i), -1);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, write_durably(t, i), (int)i);
	KUNIT_EXPECT_EQ(test, write_durably(t, 4), -ENOSPC - 1);
	if (literal) {
		KUNIT_EXPECT_EQ(test, one_step(t, SHINGLE_WHY_PRESSURE, &step), 0);
		KUNIT_EXPECT_EQ(test, write_durably(t, 4), SHINGLE_FULL - 1);
		KUNIT_EXPECT_EQ(test, shingle_exercise_counter(t->e, "refused"), 1ULL);
	} else {
		for (i = 0; one_step(t, SHINGLE_WHY_PRESSURE, &step) > 0; i++)
			KUNIT_ASSERT_LT(test, i, 10U);
		KUNIT_EXPECT_GE(test, write_durably(t, 4), 0);
		KUNIT_EXPECT_TRUE(test, shingle_exercise_counter(t->e, "hot_blocks") > 0);
	}
	stop(t);
}

static void rmwf_ce_f5(struct kunit *test)
{
	ce_f5(test, false);
	ce_f5(test, true);
}

/* Blocks are cold by the same rule in a forced clean. */
static void rmwf_asked_cold(struct kunit *test)
{
	struct rmwf_fixture *t = start(test, &figure, "hot_threshold", "2");
	struct shingle_step step;
	u32 i;

	for (i = 0; i < 10; i += 5)
		KUNIT_EXPECT_EQ(test, write_durably(t, i), -1);
	/* One block once, the other one three times. */
	KUNIT_EXPECT_EQ(test, write_durably(t, 1), -1);
	KUNIT_EXPECT_EQ(test, write_durably(t, 6), -1);
	KUNIT_EXPECT_EQ(test, write_durably(t, 0), 0);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_GE(test, write_durably(t, 1), 4);
	for (i = 0; one_step(t, SHINGLE_WHY_FORCED, &step) > 0; i++)
		KUNIT_ASSERT_LT(test, i, 20U);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(t->e, "merged_blocks"), 2ULL);
	KUNIT_EXPECT_EQ(test, shingle_exercise_counter(t->e, "cold_blocks"), 1ULL);
	stop(t);
}

/* Number of these blocks that are in flash. */
static u32 left_in_flash(struct rmwf_fixture *t, const bool *these, u32 blocks)
{
	struct shingle_run run;
	u32 lblk, left = 0;

	for (lblk = 0; lblk < blocks; lblk++) {
		t->e->ops->map.resolve(t->e, lblk, 1, &run);
		left += these[lblk] && shingle_pblk_dev(run.pblk) == SHINGLE_DEV_CACHE;
	}
	return left;
}

/*
 * A forced clean brings home what was in flash when it began, a part with each collection.
 * It ends, although each page that becomes free is written at once, mostly with blocks of
 * one band.
 */
static void clean_under_load(struct kunit *test, const char *alloc)
{
	static const struct rmwf_case c = { "", SHAPE(24, 6, 6, 3, 0, 48), 8, 0 };
	struct rmwf_fixture *t = start(test, &c, "alloc", alloc);
	u32 blocks = 24 * 6, rng = 1, steps = 0, left, i;
	struct shingle_step step;
	bool old[24 * 6];

	memset(old, true, sizeof(old));
	for (i = 0; i < 5 * blocks; i++) {
		rng = rng * 1664525U + 1013904223U;
		write_durably(t, i < blocks ? i : (rng >> 16) % blocks);
	}
	left = left_in_flash(t, old, blocks);
	KUNIT_EXPECT_GE(test, left, 30U);
	while (one_step(t, SHINGLE_WHY_FORCED, &step) > 0) {
		bool merges = step.n && step.base == SHINGLE_NOWHERE;
		u32 before = left;

		left = left_in_flash(t, old, blocks);
		KUNIT_EXPECT_TRUE(test, left < before || !merges);
		for (i = 0; i < blocks; i++) {
			u32 lblk;

			rng = rng * 1664525U + 1013904223U;
			lblk = (rng >> 16) % blocks;
			if (rng >> 28)
				lblk = blocks - 24 + lblk % 24;
			/* Blocks written now are not part of the forced clean. */
			if (write_durably(t, lblk) >= -1)
				old[lblk] = false;
		}
		left = left_in_flash(t, old, blocks);
		KUNIT_ASSERT_LT(test, steps++, 200U);
	}
	KUNIT_EXPECT_EQ(test, left, 0U);
	/* The next forced clean brings them home. */
	KUNIT_EXPECT_GE(test, t->e->ops->observe.cached_blocks(t->e), 30ULL);
	for (steps = 0; one_step(t, SHINGLE_WHY_FORCED, &step) > 0; steps++)
		KUNIT_ASSERT_LT(test, steps, 200U);
	KUNIT_EXPECT_EQ(test, t->e->ops->observe.cached_blocks(t->e), 0ULL);
	stop(t);
}

static void rmwf_clean_under_load(struct kunit *test)
{
	clean_under_load(test, "static");
	clean_under_load(test, "pool");
}

/*
 * A band is on its way home.  Writes to it go to flash, across tracks: each block to the
 * flash block of its own group.
 */
static void rmwf_on_its_way_by_group(struct kunit *test)
{
	static const struct rmwf_case c = { "", SHAPE(20, 1, 5, 2, 0, 24), 12, 3 };
	struct rmwf_fixture *t = start(test, &c, NULL, NULL);
	struct shingle_step step;
	struct shingle_run run;
	u32 i;

	for (i = 0; i < 20; i++)
		KUNIT_EXPECT_EQ(test, write_durably(t, i), -1);
	KUNIT_EXPECT_EQ(test, write_durably(t, 0), 0);
	for (i = 0; !i || step.n == 0; i++)
		KUNIT_ASSERT_EQ(test, one_step(t, SHINGLE_WHY_FORCED, &step), 1);
	/* Columns 3 and 4 of the first track, and then those of the next one. */
	KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 3, 12, SHINGLE_LIFE_UNKNOWN, &run), 0);
	KUNIT_EXPECT_EQ(test, shingle_pblk_block(run.pblk), 12ULL);
	KUNIT_EXPECT_EQ(test, run.n, 2U);
	t->e->ops->map.abort(t->e, &run);
	stop(t);
}

/* Write each block once, in random order; returns the direct writes out of 1000. */
static u32 direct_permille(struct kunit *test, const struct rmwf_case *c, const char *rule)
{
	struct rmwf_fixture *t = start(test, c, "rule", rule);
	u32 blocks = rmwf_engine_ops.logical_blocks(new_layout(test, c)), direct = 0, i;
	u32 *order = zalloc(test, blocks * sizeof(*order));
	u64 random = 1;

	KUNIT_ASSERT_TRUE(test, order);
	for (i = 0; i < blocks; i++) {
		u32 other;

		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		div_u64_rem(random >> 33, i + 1, &other);
		order[i] = order[other];
		order[other] = i;
	}
	for (i = 0; i < blocks; i++)
		direct += write_durably(t, order[i]) == -1;
	stop(t);
	return direct * 1000 / blocks;
}

/*
 * The share of blocks that are written in place, if each block is written once, in random order.
 * By the window, with a head of three tracks: about a half, for any number of tracks.  By the
 * pointer: H_M / M, where H_M is the sum of 1/i for i from 1 to M: 211 out of 1000 with M = 16
 * tracks, 74 with 64 tracks.
 */
static void rmwf_random_order(struct kunit *test)
{
	static const struct rmwf_case few = { "", SHAPE(512, 16, 32, 3, 0, 32768), 64, 0 };
	static const struct rmwf_case many = { "", SHAPE(2048, 4, 32, 3, 0, 32768), 64, 0 };
	u32 window, pointer;

	window = direct_permille(test, &few, "window");
	pointer = direct_permille(test, &few, "pointer");
	KUNIT_EXPECT_TRUE(test, window > 480 && window < 520);
	KUNIT_EXPECT_TRUE(test, pointer > 195 && pointer < 227);
	window = direct_permille(test, &many, "window");
	pointer = direct_permille(test, &many, "pointer");
	KUNIT_EXPECT_TRUE(test, window > 470 && window < 510);
	KUNIT_EXPECT_TRUE(test, pointer > 64 && pointer < 84);
}

/* A record has sixteen bits for the number of blocks; a track may have more. */
static void rmwf_long_run(struct kunit *test)
{
	static const struct rmwf_case wide = { "", SHAPE(70000, 1, 0, 1, 0, 8), 4, 1 };
	struct rmwf_fixture *t = start(test, &wide, NULL, NULL);
	struct shingle_emit emit = { .rec = t->rec, .max = ARRAY_SIZE(t->rec), .seq = t->seq };
	struct shingle_run run;

	KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 0, 65536, SHINGLE_LIFE_UNKNOWN, &run), 0);
	t->e->ops->map.commit(t->e, &run, &emit);
	KUNIT_EXPECT_EQ(test, (u32)le16_to_cpu(t->rec[0].n), run.n);
	stop(t);
}

/* A page that could not be written is not placed again; of four pages, only the first such. */
static void unfit_page(struct kunit *test, const char *alloc)
{
	static const struct rmwf_case column = { "", SHAPE(6, 1, 1, 2, 0, 4), 4, 1 };
	struct rmwf_fixture *t = start(test, &column, "alloc", alloc);
	struct shingle_run bad, run;
	u32 i;

	for (i = 0; i < 6; i++)
		KUNIT_EXPECT_EQ(test, write_durably(t, i), -1);
	KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, 0, 1, SHINGLE_LIFE_UNKNOWN, &bad), 0);
	t->e->ops->map.abort(t->e, &bad);
	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, i, 1, SHINGLE_LIFE_UNKNOWN, &run),
				0);
		KUNIT_EXPECT_TRUE(test, run.pblk != bad.pblk);
	}
	KUNIT_EXPECT_EQ(test, t->e->ops->map.place(t->e, 3, 1, SHINGLE_LIFE_UNKNOWN, &bad), -EBUSY);
	t->e->ops->map.abort(t->e, &run);
	KUNIT_EXPECT_EQ(test, t->e->ops->map.place(t->e, 3, 1, SHINGLE_LIFE_UNKNOWN, &bad), 0);
	KUNIT_EXPECT_EQ(test, bad.pblk, run.pblk);
	stop(t);
}

static void rmwf_unfit_page(struct kunit *test)
{
	unfit_page(test, "static");
	unfit_page(test, "pool");
}

/*
 * All pages are placed and no write has ended: only the end of a write makes room, no
 * collection.
 */
static void all_under_way(struct kunit *test, const char *alloc)
{
	static const struct rmwf_case column = { "", SHAPE(6, 1, 1, 2, 0, 4), 4, 1 };
	struct rmwf_fixture *t = start(test, &column, "alloc", alloc);
	struct shingle_emit emit = { .rec = t->rec, .max = ARRAY_SIZE(t->rec), .seq = t->seq };
	struct shingle_run run[4], none;
	u32 i;

	for (i = 0; i < 6; i++)
		KUNIT_EXPECT_EQ(test, write_durably(t, i), -1);
	for (i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, t->e->ops->map.place(t->e, i, 1, SHINGLE_LIFE_UNKNOWN,
							   &run[i]), 0);
	KUNIT_EXPECT_EQ(test, t->e->ops->map.place(t->e, 4, 1, SHINGLE_LIFE_UNKNOWN, &none),
			-EBUSY);
	t->e->ops->map.commit(t->e, &run[0], &emit);
	KUNIT_EXPECT_EQ(test, t->e->ops->map.place(t->e, 4, 1, SHINGLE_LIFE_UNKNOWN, &none),
			-ENOSPC);
	for (i = 1; i < 4; i++)
		t->e->ops->map.abort(t->e, &run[i]);
	KUNIT_EXPECT_GE(test, write_one(t, 4), 0);
	stop(t);
}

static void rmwf_all_under_way(struct kunit *test)
{
	all_under_way(test, "static");
	all_under_way(test, "pool");
}

/* A checkpoint that has a block in two places is rejected. */
static void rmwf_nowhere_twice(struct kunit *test)
{
	const struct shingle_piece_kind *pieces = rmwf_engine_ops.state.pieces;
	struct shingle_layout *l = new_layout(test, &figure);
	struct rmwf_fixture *home = start(test, &figure, NULL, NULL);
	struct rmwf_fixture *flash = start(test, &figure, NULL, NULL);
	struct rmwf_fixture *both = new_fixture(test, &figure, NULL, NULL);
	u8 *buf = zalloc(test, SHINGLE_CHUNK_BYTES);
	const char *why = "";
	u64 index = 0;
	u32 bytes, i;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	for (i = 0; i < 10; i += 5) {
		KUNIT_EXPECT_EQ(test, write_one(home, i), -1);
		KUNIT_EXPECT_EQ(test, write_one(flash, i), -1);
	}
	KUNIT_EXPECT_EQ(test, write_one(flash, 0), 0);
	/* Load the pages of @flash and the live bits of @home: block 0 is in both. */
	for (i = 1; i <= 2; i++) {
		struct shingle_engine *e = i == 1 ? flash->e : home->e;
		u64 cursor = i;

		bytes = shingle_pieces_encode(pieces, l, e, &cursor, &index, buf);
		KUNIT_EXPECT_EQ(test, index, (u64)i);
		KUNIT_EXPECT_EQ(test, shingle_pieces_decode(pieces, l, both->e, index, buf, bytes),
				0);
	}
	KUNIT_EXPECT_EQ(test, both->e->ops->state.ready(both->e, &why), -EUCLEAN);
	stop(both);
	stop(flash);
	stop(home);
}

/* F6: invalid sizes are rejected with a reason. */
static void rmwf_sizes(struct kunit *test)
{
	static const struct rmwf_case wrong[] = {
		{ "", SHAPE(20, 1, 5, 2, 0, 20), 21, 1 },
		{ "", SHAPE(20, 1, 5, 2, 0, 20), 4, 6 },
		{ "", SHAPE(20, 1, 5, 2, 0, 4000), 1025, 1 },
	};
	struct shingle_engine *e;
	const char *why;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		why = NULL;
		KUNIT_EXPECT_EQ(test, rmwf_engine_ops.create(&e, new_layout(test, &wrong[i]),
							     &why), -EINVAL);
		KUNIT_EXPECT_TRUE(test, why);
	}
}

/* ------------------------------------------------------------------------
 * The exerciser
 */

static void exercise(struct kunit *test, const struct rmwf_case *c)
{
	struct shingle_exercise_plan plan = {
		.ops = &rmwf_engine_ops, .layout = new_layout(test, c), .rounds = 4000,
		.cuts = true,
	};
	struct shingle_exercise_result res;
	u64 cuts = 0, steps = 0;

	for (plan.seed = 1; plan.seed <= 8; plan.seed++) {
		KUNIT_EXPECT_EQ_MSG(test, shingle_exercise(&plan, &res), 0, "%s, seed %u: %s",
				    c->name, plan.seed, res.error);
		cuts += res.cuts;
		steps += res.steps;
	}
	KUNIT_EXPECT_TRUE(test, cuts > 50);
	/* Where nothing is destroyed, nothing is ever cached. */
	KUNIT_EXPECT_TRUE(test, steps > 50 || c->shape.head_tracks == 1);
}

static void rmwf_exercise(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		exercise(test, &cases[i]);
}

/*
 * F2 and F4: without the protections that the thesis lacks, data are lost and the test sees
 * it.
 */
static void lose(struct kunit *test, const struct rmwf_case *c, const char *feature)
{
	struct shingle_exercise_result res;
	bool lost = shingle_exercise_loses(&rmwf_engine_ops, new_layout(test, c), feature, &res);

	KUNIT_EXPECT_TRUE(test, lost);
}

static void rmwf_needs_records(struct kunit *test)
{
	lose(test, &cases[0], "unsafe_pointer");
}

static void rmwf_needs_staging(struct kunit *test)
{
	lose(test, &cases[0], "unsafe_inplace");
}

static struct kunit_case rmwf_cases[] = {
	KUNIT_CASE(rmwf_vf1_locator),
	KUNIT_CASE(rmwf_vf2_vf3_pointer),
	KUNIT_CASE(rmwf_vf2_vf3_window),
	KUNIT_CASE(rmwf_rules_differ),
	KUNIT_CASE(rmwf_direct_is_r0),
	KUNIT_CASE(rmwf_r0_pins),
	KUNIT_CASE(rmwf_r0_pins_again),
	KUNIT_CASE(rmwf_r0_pins_around),
	KUNIT_CASE(rmwf_r0_pins_under_way),
	KUNIT_CASE(rmwf_discards_nothing),
	KUNIT_CASE(rmwf_failed_is_free),
	KUNIT_CASE(rmwf_failed_over_live),
	KUNIT_CASE(rmwf_leaves_but_once),
	KUNIT_CASE(rmwf_flash_is_alone),
	KUNIT_CASE(rmwf_runs),
	KUNIT_CASE(rmwf_vf4_cost),
	KUNIT_CASE(rmwf_goes_home_after_a_cut),
	KUNIT_CASE(rmwf_ce_f2),
	KUNIT_CASE(rmwf_left_without_record),
	KUNIT_CASE(rmwf_ce_f5),
	KUNIT_CASE(rmwf_asked_cold),
	KUNIT_CASE(rmwf_clean_under_load),
	KUNIT_CASE(rmwf_on_its_way_by_group),
	KUNIT_CASE(rmwf_random_order),
	KUNIT_CASE(rmwf_long_run),
	KUNIT_CASE(rmwf_unfit_page),
	KUNIT_CASE(rmwf_all_under_way),
	KUNIT_CASE(rmwf_nowhere_twice),
	KUNIT_CASE(rmwf_sizes),
	KUNIT_CASE(rmwf_exercise),
	KUNIT_CASE(rmwf_needs_records),
	KUNIT_CASE(rmwf_needs_staging),
	{}
};

static struct kunit_suite rmwf_suite = {
	.name = "rmwf",
	.test_cases = rmwf_cases,
};

kunit_test_suites(&rmwf_suite);

#ifdef __KERNEL__
MODULE_DESCRIPTION("dm-shingle: KUnit tests of rmwf");
MODULE_LICENSE("GPL");
#endif
