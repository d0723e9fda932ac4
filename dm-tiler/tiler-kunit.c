// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of autonomous regions: the worked examples of Ma (2019), chapter 3, the
 * counter-examples CE-T1 and CE-T4, and the rules T4, T5 and T8 of papers/ma.rst.  The
 * exerciser tests that no data are lost.
 */
#ifdef __KERNEL__
#include <kunit/test.h>
#include <linux/module.h>
#endif

#include "tiler-map.h"

#ifndef __KERNEL__
#include "kunit-shim.h"
#endif

static void *zalloc(struct kunit *test, size_t size)
{
#ifdef __KERNEL__
	return kunit_kzalloc(test, size, GFP_KERNEL);
#else
	return kunit_calloc(test, size);
#endif
}

/**
 * struct comb - a region with a second slot, on zones of its own
 * @shape: its kind
 * @count: its counters
 * @r: the region
 * @slot: both slots
 * @seq: the open transaction
 */
struct comb {
	struct tiler_shape shape;
	struct tiler_count count;
	struct tiler_region r;
	struct tiler_slot slot[2];
	u64 seq;
};

static void empty_slot(struct comb *c, struct tiler_slot *slot)
{
	u32 i;

	for (i = 0; i < tiler_pages(&c->shape); i++)
		memset(slot->page[i], 0, SHINGLE_CHUNK_BYTES);
	tiler_slot_init(&c->shape, slot);
}

static struct comb *new_comb(struct kunit *test, u32 rows, u32 columns, u32 k)
{
	struct comb *c = zalloc(test, sizeof(*c));
	u32 i, j;

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->shape = (struct tiler_shape){
		.rows = rows, .columns = columns, .head_tracks = k,
		.logical_blocks = rows * columns, .lazy = true,
	};
	c->seq = 1;
	for (i = 0; i < ARRAY_SIZE(c->slot); i++) {
		struct tiler_slot *slot = &c->slot[i];
		size_t bytes = BITS_TO_LONGS(rows * columns) * sizeof(long);

		slot->number = i;
		slot->taken = zalloc(test, bytes);
		slot->pins[0].cells = zalloc(test, bytes);
		slot->pins[1].cells = zalloc(test, bytes);
		KUNIT_ASSERT_TRUE(test, slot->taken && slot->pins[0].cells &&
					slot->pins[1].cells);
		for (j = 0; j < tiler_pages(&c->shape); j++) {
			slot->page[j] = zalloc(test, SHINGLE_CHUNK_BYTES);
			KUNIT_ASSERT_NOT_NULL(test, slot->page[j]);
		}
		empty_slot(c, slot);
	}
	c->r = (struct tiler_region){ .shape = &c->shape, .count = &c->count,
				      .at = &c->slot[0] };
	return c;
}

/* Set the given map entries and derive the rest of the state from them. */
static void load(struct kunit *test, struct comb *c, const u32 *paro, u32 n)
{
	const char *why = "";
	u32 i;

	for (i = 0; i < n; i++)
		tiler_set_entry(c->r.at, i, paro[i]);
	KUNIT_ASSERT_EQ(test, tiler_slot_add_page(&c->shape, c->r.at, 0), 0);
	KUNIT_ASSERT_EQ(test, tiler_region_ready(&c->r, &why), 0);
}

static void commit_all(struct comb *c)
{
	tiler_release(&c->r, c->seq++);
}

/* Returns the place, or the error of tiler_place(). */
static int write_block(struct comb *c, u32 laro)
{
	struct tiler_run run;
	int err = tiler_place(&c->r, laro, 1, &run);

	if (err)
		return err;
	tiler_commit(&c->r, laro, &run, c->seq);
	return run.paro;
}

static u32 place_of(const struct comb *c, u32 laro)
{
	struct tiler_run run;

	tiler_lookup(&c->r, laro, 1, &run);
	return run.slot ? run.paro : TILER_NONE;
}

/* Move all remaining blocks and flip. */
static void clean_rest(struct kunit *test, struct comb *c, u32 most)
{
	struct tiler_slot *old;
	struct tiler_step step;

	while (tiler_clean_next(&c->r, most, &step) > 0) {
		KUNIT_EXPECT_LE(test, step.n, most);
		tiler_clean_done(&c->r, &step);
	}
	old = tiler_clean_flip(&c->r);
	if (old)
		empty_slot(c, old);
}

static struct tiler_slot *other_slot(struct comb *c)
{
	return c->r.at == &c->slot[0] ? &c->slot[1] : &c->slot[0];
}

static void __printf(2, 3) no_report(void *ctx, const char *fmt, ...)
{
}

/* ------------------------------------------------------------------------
 * Examples of the thesis
 */

static const struct tiler_zones zones = {
	.track_blocks = 8, .nr = 2, .rows = 8, .columns = 4, .head_tracks = 3,
};

/* Figures 3.3 and 3.4. */
static void tiler_vt1_static(struct kunit *test)
{
	struct tiler_stretch st = {};
	struct tiler_map map = { .stretch = &st, .max = 1 };
	struct comb *c = new_comb(test, 8, 4, 3);
	const char *why = "";
	struct tiler_home home;
	u32 n = 1;

	KUNIT_ASSERT_EQ(test, tiler_map_add(&map, &zones, &why), 0);
	KUNIT_EXPECT_EQ(test, map.nr_regions, 4U);
	KUNIT_EXPECT_EQ(test, map.logical_blocks, 128ULL);
	home = tiler_map_home(&map, 50);
	KUNIT_EXPECT_EQ(test, home.region, 1U);
	KUNIT_EXPECT_EQ(test, home.laro, 18U);
	KUNIT_EXPECT_EQ(test, tiler_map_home(&map, 31).region, 0U);
	KUNIT_EXPECT_EQ(test, tiler_map_home(&map, 63).laro, 31U);
	KUNIT_EXPECT_EQ(test, write_block(c, home.laro), 0);
	KUNIT_EXPECT_EQ(test, place_of(c, 18), 0U);
	/* (T0,B0) of the comb beside the first. */
	KUNIT_EXPECT_EQ(test, tiler_map_block(&st, 1, 0, &n), 4ULL);
}

/* Figure 3.6. */
static void tiler_vt2_update(struct kunit *test)
{
	static const u32 lba[] = { 50, 32, 40, 63, 33, 32 };
	struct comb *c = new_comb(test, 8, 4, 3);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lba); i++)
		KUNIT_EXPECT_EQ(test, write_block(c, lba[i] - 32), (int)i);
	KUNIT_EXPECT_EQ(test, place_of(c, 18), 0U);
	KUNIT_EXPECT_EQ(test, place_of(c, 0), 5U);
	KUNIT_EXPECT_EQ(test, place_of(c, 8), 2U);
	KUNIT_EXPECT_EQ(test, place_of(c, 31), 3U);
	KUNIT_EXPECT_EQ(test, place_of(c, 1), 4U);
	KUNIT_EXPECT_EQ(test, c->r.at->live, 5U);
	/* The old place is needed until the new one is durable. */
	KUNIT_EXPECT_TRUE(test, tiler_referenced(&c->r, c->r.at, 1, 1));
	commit_all(c);
	KUNIT_EXPECT_FALSE(test, tiler_referenced(&c->r, c->r.at, 1, 1));
	KUNIT_EXPECT_EQ(test, tiler_verify(&c->r, no_report, NULL), 0U);
}

/* Figure 3.7, with data in the rows below: live rows of each column. */
static void tiler_vt3_schedulable(struct kunit *test)
{
	static const u32 live[][2] = {
		{ 0, 0 }, { 4, 0 }, { 5, 0 }, { 2, 1 }, { 4, 1 }, { 5, 1 }, { 0, 2 }, { 2, 2 },
		{ 4, 2 }, { 5, 2 }, { 0, 3 }, { 5, 3 }, { 6, 0 }, { 6, 1 }, { 6, 2 }, { 6, 3 },
		{ 7, 0 }, { 7, 1 }, { 7, 2 }, { 7, 3 },
	};
	struct comb *c = new_comb(test, 8, 4, 3);
	u32 paro[ARRAY_SIZE(live)], i;

	for (i = 0; i < ARRAY_SIZE(live); i++)
		paro[i] = live[i][0] * 4 + live[i][1];
	load(test, c, paro, ARRAY_SIZE(paro));
	for (i = 0; i < 32; i++)
		KUNIT_EXPECT_EQ(test, tiler_is_schedulable(&c->r, i),
				i == 4 || i == 7 || i == 11);
	/* (T2,B1) is the fourth; it counts as valid until the drop is durable. */
	KUNIT_EXPECT_EQ(test, tiler_drop(&c->r, 3, 1, c->seq), 0);
	KUNIT_EXPECT_FALSE(test, tiler_is_schedulable(&c->r, 1));
	commit_all(c);
	for (i = 0; i < 32; i++)
		KUNIT_EXPECT_EQ(test, tiler_is_schedulable(&c->r, i),
				i == 1 || i == 4 || i == 5 || i == 7 || i == 11);
	/* Ascending rows, wrapping around, in runs as long as possible. */
	KUNIT_EXPECT_EQ(test, tiler_state(&c->r), TILER_LAZY);
	KUNIT_EXPECT_EQ(test, write_block(c, 20), 1);
	KUNIT_EXPECT_EQ(test, write_block(c, 21), 4);
	KUNIT_EXPECT_EQ(test, write_block(c, 22), 5);
	KUNIT_EXPECT_EQ(test, write_block(c, 23), 7);
	KUNIT_EXPECT_EQ(test, write_block(c, 24), 11);
	KUNIT_EXPECT_EQ(test, write_block(c, 25), -ENOSPC);
}

/* Figure 3.9. */
static void tiler_vt4_blocks(struct kunit *test)
{
	struct tiler_zones z = { .track_blocks = 4, .nr = 1, .rows = 8, .columns = 1,
				 .head_tracks = 3 };
	static const u32 lba[] = { 0, 4, 3 };
	struct tiler_stretch st = {};
	struct tiler_map map = { .stretch = &st, .max = 1 };
	struct comb *c = new_comb(test, 8, 1, 3);
	const char *why = "";
	u32 i, n = 1;

	KUNIT_ASSERT_EQ(test, tiler_map_add(&map, &z, &why), 0);
	KUNIT_EXPECT_EQ(test, map.nr_regions, 4U);
	for (i = 0; i < 32; i++)
		KUNIT_EXPECT_EQ(test, tiler_map_home(&map, i).region, i / 8);
	for (i = 0; i < ARRAY_SIZE(lba); i++) {
		KUNIT_EXPECT_EQ(test, write_block(c, lba[i]), (int)i);
		KUNIT_EXPECT_EQ(test, tiler_map_block(&st, 0, i, &n), 4ULL * i);
	}
	z.columns = 4;
	map = (struct tiler_map){ .stretch = &st, .max = 1 };
	KUNIT_ASSERT_EQ(test, tiler_map_add(&map, &z, &why), 0);
	KUNIT_EXPECT_EQ(test, map.nr_regions, 1U);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, tiler_map_block(&st, 0, i, &n), (u64)i);
}

/* Six rows, one column, head width three: the bound is two blocks. */
static void tiler_vt5_bound(struct kunit *test)
{
	struct comb *c = new_comb(test, 6, 1, 3);
	u32 i, cleans = 0;
	int paro;

	KUNIT_EXPECT_EQ(test, tiler_bound(&c->shape), 2U);
	for (i = 0; i < 10000; i++) {
		KUNIT_EXPECT_TRUE(test, write_block(c, 0) >= 0);
		commit_all(c);
	}
	KUNIT_EXPECT_EQ(test, c->count.cleans, 0ULL);
	KUNIT_EXPECT_EQ(test, c->count.log_blocks, 6ULL);
	/* With two blocks the region is full only if they are in rows 2 and 5. */
	for (i = 0; i < 3000; i++) {
		paro = write_block(c, i * 7 % 13 % 2);
		commit_all(c);
		if (paro >= 0)
			continue;
		KUNIT_EXPECT_EQ(test, paro, -ENOSPC);
		KUNIT_EXPECT_EQ(test, min(place_of(c, 0), place_of(c, 1)), 2U);
		KUNIT_EXPECT_EQ(test, max(place_of(c, 0), place_of(c, 1)), 5U);
		KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, other_slot(c)), 0);
		clean_rest(test, c, 4);
		cleans++;
	}
	KUNIT_EXPECT_TRUE(test, cleans > 0);
}

/* Does writing @row destroy @other, with head width three? */
static bool covers(u32 row, u32 other)
{
	return other > row && other < row + 3;
}

/* Algorithm 2 as printed: read one block, write one block. */
static void tiler_vt6_interleaved(struct kunit *test)
{
	static const u32 at[] = { 5, 1, 2 };
	struct comb *c = new_comb(test, 6, 1, 3);
	struct tiler_extent x;
	struct tiler_step step;

	load(test, c, at, ARRAY_SIZE(at));
	c->shape.unsafe_inplace = true;
	KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, NULL), 0);
	KUNIT_ASSERT_EQ(test, tiler_clean_next(&c->r, 1, &step), 1);
	KUNIT_EXPECT_TRUE(test, step.whole_in_memory);
	KUNIT_EXPECT_EQ(test, step.n, 3U);
	KUNIT_ASSERT_TRUE(test, tiler_clean_extent(&c->r, &step, 0, &x));
	KUNIT_EXPECT_EQ(test, x.laro, 0U);
	KUNIT_EXPECT_EQ(test, x.src, 5U);
	KUNIT_EXPECT_EQ(test, x.dst, 0U);
	/* The blocks to be read next are destroyed. */
	KUNIT_EXPECT_TRUE(test, covers(x.dst, at[1]) && covers(x.dst, at[2]));
	tiler_clean_done(&c->r, &step);
	tiler_clean_flip(&c->r);
	KUNIT_EXPECT_EQ(test, place_of(c, 0), 0U);
	KUNIT_EXPECT_EQ(test, place_of(c, 1), 1U);
	KUNIT_EXPECT_EQ(test, place_of(c, 2), 2U);
	KUNIT_EXPECT_EQ(test, tiler_state(&c->r), TILER_LOG);
	KUNIT_EXPECT_EQ(test, c->r.at->fill, 3U);
}

/* ------------------------------------------------------------------------
 * Power cuts
 */

/* A lazy write destroys blocks that the durable map refers to: a in row 0, b in row 1. */
static void tiler_ce_t1(struct kunit *test)
{
	struct comb *c = new_comb(test, 6, 1, 3);
	u32 unsafe;
	int paro;

	for (unsafe = 0; unsafe < 2; unsafe++) {
		c = new_comb(test, 6, 1, 3);
		c->shape.unsafe_reuse = unsafe;
		write_block(c, 0);
		write_block(c, 1);
		commit_all(c);
		write_block(c, 0);
		write_block(c, 1);
		write_block(c, 0);
		write_block(c, 1);
		paro = write_block(c, 0);
		if (unsafe) {
			KUNIT_EXPECT_EQ(test, paro, 0);
			KUNIT_EXPECT_TRUE(test, covers(paro, 1));
			continue;
		}
		KUNIT_EXPECT_EQ(test, paro, -EBUSY);
		KUNIT_EXPECT_EQ(test, c->count.commit_waits, 1ULL);
		commit_all(c);
		KUNIT_EXPECT_EQ(test, write_block(c, 0), 0);
	}
}

/* A clean destroys blocks that it has not written yet: x0 to x4 in rows 1 to 5. */
static void tiler_ce_t4(struct kunit *test)
{
	static const u32 at[] = { 1, 2, 3, 4, 5 };
	struct tiler_extent x;
	struct tiler_step step;
	struct comb *c;
	u32 unsafe;

	for (unsafe = 0; unsafe < 2; unsafe++) {
		c = new_comb(test, 6, 1, 3);
		load(test, c, at, ARRAY_SIZE(at));
		c->shape.unsafe_inplace = unsafe;
		KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, &c->slot[1]), 0);
		KUNIT_ASSERT_EQ(test, tiler_clean_next(&c->r, 2, &step), 1);
		KUNIT_ASSERT_TRUE(test, tiler_clean_extent(&c->r, &step, 0, &x));
		KUNIT_EXPECT_EQ(test, x.dst, 0U);
		/* In place, the destination holds x0 and x1; otherwise it is empty. */
		KUNIT_EXPECT_EQ(test, c->r.to == c->r.at, !!unsafe);
		if (!unsafe)
			KUNIT_EXPECT_FALSE(test, tiler_referenced(&c->r, c->r.to, 0, 6));
	}
}

/* ------------------------------------------------------------------------
 * Cleaning in steps
 */

/*
 * All blocks valid and no over-provisioning: each clean takes the write that caused it (T5,
 * T6).
 */
static void tiler_full(struct kunit *test)
{
	struct comb *c = new_comb(test, 6, 2, 3);
	u32 i;

	for (i = 0; i < 12; i++)
		KUNIT_EXPECT_EQ(test, write_block(c, i), (int)i);
	for (i = 0; i < 50; i++) {
		KUNIT_EXPECT_EQ(test, write_block(c, i * 5 % 12), -ENOSPC);
		KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, other_slot(c)), 0);
		KUNIT_EXPECT_EQ(test, write_block(c, i * 5 % 12), 0);
		/*
		 * A second write of the block would take the room of one that has still to
		 * be moved.
		 */
		KUNIT_EXPECT_EQ(test, write_block(c, i * 5 % 12), -ENOSPC);
		/* But there is room for a block that has not been moved yet. */
		KUNIT_EXPECT_EQ(test, write_block(c, (i * 5 + 1) % 12), 1);
		clean_rest(test, c, 5);
		KUNIT_EXPECT_EQ(test, c->r.at->live, 12U);
		KUNIT_EXPECT_EQ(test, tiler_verify(&c->r, no_report, NULL), 0U);
		commit_all(c);
	}
	KUNIT_EXPECT_EQ(test, c->count.moved_blocks, 500ULL);
	KUNIT_EXPECT_EQ(test, c->count.merged_blocks, 100ULL);
}

/*
 * Steps in L-ARO order; blocks written between steps are newer; a power cut resumes the
 * rest.
 */
static void tiler_steps(struct kunit *test)
{
	static const u32 at[] = { 11, 3, TILER_NONE, 4, 5, TILER_NONE, 0 };
	struct comb *c = new_comb(test, 6, 2, 3);
	const char *why = "";
	struct tiler_extent x;
	struct tiler_step step;
	struct tiler_run run;

	load(test, c, at, ARRAY_SIZE(at));
	KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, &c->slot[1]), 0);
	KUNIT_ASSERT_EQ(test, tiler_clean_next(&c->r, 2, &step), 1);
	KUNIT_EXPECT_EQ(test, step.n, 2U);
	KUNIT_EXPECT_EQ(test, step.runs, 1U);
	KUNIT_EXPECT_EQ(test, tiler_place(&c->r, 3, 1, &run), -EBUSY);
	KUNIT_EXPECT_EQ(test, tiler_drop(&c->r, 3, 1, c->seq), -EBUSY);
	/* The blocks are not contiguous in the old slot. */
	KUNIT_ASSERT_TRUE(test, tiler_clean_extent(&c->r, &step, 0, &x));
	KUNIT_EXPECT_EQ(test, x.n, 1U);
	KUNIT_ASSERT_TRUE(test, tiler_clean_moved(&c->r, &step, 0, &x));
	KUNIT_EXPECT_EQ(test, x.n, 2U);
	tiler_clean_done(&c->r, &step);
	KUNIT_EXPECT_EQ(test, place_of(c, 1), 1U);
	/* The newest copy wins: 4 need not be moved any more, and 2 is new. */
	KUNIT_EXPECT_EQ(test, write_block(c, 4), 2);
	KUNIT_EXPECT_EQ(test, write_block(c, 2), 3);
	KUNIT_EXPECT_EQ(test, c->r.left, 2U);

	/* A power cut leaves both maps. */
	tiler_slot_init(&c->shape, &c->slot[0]);
	tiler_slot_init(&c->shape, &c->slot[1]);
	c->r = (struct tiler_region){ .shape = &c->shape, .count = &c->count,
				      .at = &c->slot[0], .to = &c->slot[1] };
	KUNIT_EXPECT_EQ(test, tiler_region_add_page(&c->r, 0), 0);
	KUNIT_EXPECT_EQ(test, tiler_region_ready(&c->r, &why), 0);
	KUNIT_EXPECT_EQ(test, c->r.left, 2U);
	KUNIT_ASSERT_EQ(test, tiler_clean_next(&c->r, 9, &step), 1);
	KUNIT_EXPECT_EQ(test, step.n, 2U);
	KUNIT_EXPECT_EQ(test, step.runs, 2U);
	KUNIT_EXPECT_EQ(test, step.dst, 4U);
	tiler_clean_done(&c->r, &step);
	KUNIT_EXPECT_EQ(test, tiler_clean_next(&c->r, 9, &step), 0);
	KUNIT_EXPECT_TRUE(test, tiler_clean_flip(&c->r) == &c->slot[0]);
	KUNIT_EXPECT_EQ(test, place_of(c, 3), 4U);
	KUNIT_EXPECT_EQ(test, place_of(c, 6), 5U);
	KUNIT_EXPECT_EQ(test, place_of(c, 5), (u32)TILER_NONE);
	KUNIT_EXPECT_EQ(test, tiler_state(&c->r), TILER_LOG);
}

/*
 * A failure costs no room that the clean needs, and is not retried at the same place for
 * ever.
 */
static void tiler_failures(struct kunit *test)
{
	struct comb *c = new_comb(test, 4, 2, 3);
	struct tiler_run run, more;
	struct tiler_step step;
	u32 i;

	for (i = 0; i < 8; i++)
		write_block(c, i);
	KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, &c->slot[1]), 0);
	/* Without spare room: one write at a time, and it may fail. */
	KUNIT_EXPECT_EQ(test, tiler_place(&c->r, 3, 1, &run), 0);
	KUNIT_EXPECT_EQ(test, tiler_place(&c->r, 4, 1, &more), -EBUSY);
	KUNIT_EXPECT_EQ(test, tiler_clean_next(&c->r, 4, &step), -EAGAIN);
	tiler_abort(&c->r, &run);
	KUNIT_EXPECT_EQ(test, c->r.to->fill, 0U);
	KUNIT_ASSERT_EQ(test, tiler_clean_next(&c->r, 4, &step), 1);
	tiler_clean_failed(&c->r, &step, true);
	KUNIT_ASSERT_EQ(test, tiler_clean_next(&c->r, 4, &step), 1);
	tiler_clean_failed(&c->r, &step, true);
	KUNIT_EXPECT_EQ(test, c->r.to->fill, 0U);
	/* With spare room, the second failure makes the step skip the places. */
	KUNIT_EXPECT_EQ(test, tiler_drop(&c->r, 0, 4, c->seq), 0);
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, tiler_clean_next(&c->r, 4, &step), 1);
		KUNIT_EXPECT_EQ(test, step.dst, 0U);
		tiler_clean_failed(&c->r, &step, true);
	}
	KUNIT_ASSERT_EQ(test, tiler_clean_next(&c->r, 4, &step), 1);
	KUNIT_EXPECT_EQ(test, step.dst, 4U);
	tiler_clean_done(&c->r, &step);
	tiler_clean_flip(&c->r);
	for (i = 4; i < 8; i++)
		KUNIT_EXPECT_EQ(test, place_of(c, i), i);
	/* A failed write's places are skipped at once if there is room. */
	empty_slot(c, &c->slot[0]);
	KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, &c->slot[0]), 0);
	KUNIT_EXPECT_EQ(test, tiler_place(&c->r, 4, 2, &run), 0);
	tiler_abort(&c->r, &run);
	KUNIT_EXPECT_EQ(test, c->r.to->fill, 2U);
	clean_rest(test, c, 9);
	for (i = 4; i < 8; i++)
		KUNIT_EXPECT_EQ(test, place_of(c, i), i - 2);
	KUNIT_EXPECT_EQ(test, write_block(c, 4), 6);
	KUNIT_EXPECT_EQ(test, write_block(c, 4), 7);
	/* Lazy writes use the skipped places again, if the head destroys nothing there. */
	commit_all(c);
	KUNIT_EXPECT_EQ(test, tiler_state(&c->r), TILER_LAZY);
	KUNIT_EXPECT_EQ(test, write_block(c, 0), 6);
	KUNIT_EXPECT_EQ(test, write_block(c, 1), -ENOSPC);

	/* The place of a failed lazy write is not used again before the region has been moved. */
	c = new_comb(test, 2, 1, 1);
	write_block(c, 0);
	write_block(c, 0);
	commit_all(c);
	KUNIT_EXPECT_EQ(test, tiler_place(&c->r, 0, 1, &run), 0);
	KUNIT_EXPECT_EQ(test, write_block(c, 0), -EBUSY);
	tiler_abort(&c->r, &run);
	KUNIT_EXPECT_EQ(test, write_block(c, 0), -ENOSPC);
	KUNIT_EXPECT_TRUE(test, tiler_is_full(&c->r));
	KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, &c->slot[1]), 0);
	clean_rest(test, c, 9);
	KUNIT_EXPECT_EQ(test, write_block(c, 0), 1);
}

/* tiler_release() up to a transaction does not free places that a later transaction gave up. */
static void tiler_generations(struct kunit *test)
{
	struct comb *c = new_comb(test, 4, 1, 1);
	u32 i;

	for (i = 0; i < 4; i++)
		write_block(c, 0);
	/* Places 0 to 2: transaction 1. */
	c->seq = 2;
	tiler_drop(&c->r, 0, 1, c->seq);
	KUNIT_EXPECT_TRUE(test, tiler_release(&c->r, 1));
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, tiler_referenced(&c->r, c->r.at, i, 1), i == 3);
	KUNIT_EXPECT_FALSE(test, tiler_release(&c->r, 2));
	KUNIT_EXPECT_FALSE(test, tiler_referenced(&c->r, c->r.at, 0, 4));
	KUNIT_EXPECT_TRUE(test, tiler_is_idle(&c->r));

	/*
	 * With three transactions, places of the second wait for the third; those of the
	 * third do not go earlier.
	 */
	c = new_comb(test, 4, 1, 1);
	for (i = 0; i < 4; i++) {
		write_block(c, 0);
		c->seq += i > 0;
	}
	KUNIT_EXPECT_TRUE(test, tiler_release(&c->r, 1));
	KUNIT_EXPECT_FALSE(test, tiler_referenced(&c->r, c->r.at, 0, 1));
	KUNIT_EXPECT_TRUE(test, tiler_release(&c->r, 2));
	KUNIT_EXPECT_TRUE(test, tiler_referenced(&c->r, c->r.at, 2, 1));
	KUNIT_EXPECT_FALSE(test, tiler_release(&c->r, 3));
	KUNIT_EXPECT_FALSE(test, tiler_referenced(&c->r, c->r.at, 0, 3));
}

/* While a region is being moved, tiler_release() frees places of the slot that it is moved to. */
static void tiler_release_to(struct kunit *test)
{
	struct comb *c = new_comb(test, 4, 1, 1);
	struct tiler_slot *to = other_slot(c);

	write_block(c, 0);
	write_block(c, 1);
	KUNIT_EXPECT_FALSE(test, tiler_release(&c->r, c->seq++));
	KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, to), 0);
	KUNIT_EXPECT_EQ(test, write_block(c, 0), 0);
	KUNIT_EXPECT_EQ(test, write_block(c, 0), 1);
	KUNIT_EXPECT_TRUE(test, tiler_referenced(&c->r, to, 0, 1));
	KUNIT_EXPECT_FALSE(test, tiler_release(&c->r, c->seq++));
	KUNIT_EXPECT_FALSE(test, tiler_referenced(&c->r, to, 0, 1));
	KUNIT_EXPECT_TRUE(test, tiler_referenced(&c->r, to, 1, 1));

	/* So does a discard. */
	KUNIT_ASSERT_EQ(test, tiler_drop(&c->r, 0, 1, c->seq), 0);
	KUNIT_EXPECT_FALSE(test, tiler_release(&c->r, c->seq++));
	KUNIT_EXPECT_FALSE(test, tiler_referenced(&c->r, to, 0, 4));
	clean_rest(test, c, 1);
	KUNIT_EXPECT_EQ(test, place_of(c, 0), TILER_NONE);
	KUNIT_EXPECT_EQ(test, place_of(c, 1), 2);
}

/* ------------------------------------------------------------------------
 * Shapes, pages, places
 */

static void tiler_shapes(struct kunit *test)
{
	struct tiler_shape shape = { .rows = 4096, .columns = 8, .head_tracks = 3,
				     .logical_blocks = 32768 };
	struct comb *c = new_comb(test, 1024, 4, 3);
	const char *why = "";
	u32 i;

	KUNIT_EXPECT_EQ(test, tiler_shape_check(&shape, &why), 0);
	KUNIT_EXPECT_EQ(test, tiler_pages(&shape), 17U);
	shape.rows = 8192;
	KUNIT_EXPECT_EQ(test, tiler_shape_check(&shape, &why), -EINVAL);
	KUNIT_EXPECT_EQ(test, strcmp(why, "a region has 1 to 65535 blocks"), 0);
	/* Its map has three pages. */
	KUNIT_EXPECT_EQ(test, tiler_pages(&c->shape), 3U);
	write_block(c, 4095);
	KUNIT_EXPECT_EQ(test, c->r.at->changed, 4ULL);
	for (i = 0; i < 4095; i++)
		KUNIT_EXPECT_EQ(test, write_block(c, i), (int)i + 1);
	KUNIT_EXPECT_EQ(test, c->r.at->changed, 7ULL);
	/* Invalid pages are rejected. */
	tiler_set_entry(c->r.at, 3000, 1);
	tiler_slot_init(&c->shape, c->r.at);
	KUNIT_EXPECT_EQ(test, tiler_slot_add_page(&c->shape, c->r.at, 0), 0);
	KUNIT_EXPECT_EQ(test, tiler_slot_add_page(&c->shape, c->r.at, 1), -EUCLEAN);
	tiler_set_entry(c->r.at, 3000, 4096);
	tiler_slot_init(&c->shape, c->r.at);
	KUNIT_EXPECT_EQ(test, tiler_slot_add_page(&c->shape, c->r.at, 1), -EUCLEAN);
}

/* Blocks written together change the map as if each was written alone. */
static void tiler_runs(struct kunit *test)
{
	struct comb *c = new_comb(test, 12, 400, 3);
	u32 *want = zalloc(test, 4800 * sizeof(*want));
	u32 i, k, over_page = 0, wrapped = 0, merged = 0, laro, n, bad = 0;
	struct tiler_run run;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, want);
	c->shape.logical_blocks = 3000;
	c->shape.turn = 150;
	for (i = 0; i < 3000; i++)
		want[i] = TILER_NONE;
	for (k = 0; k < 3000; k++) {
		/* Each stride overlaps runs of earlier strides at different places. */
		laro = k * 1291 % 2999;
		n = min(1 + k * 37 % 399, 3000 - laro);
		err = tiler_place(&c->r, laro, n, &run);
		if (err == -EBUSY) {
			commit_all(c);
			continue;
		}
		if (err) {
			KUNIT_ASSERT_EQ(test, err, -ENOSPC);
			commit_all(c);
			KUNIT_ASSERT_EQ(test, tiler_clean_begin(&c->r, other_slot(c)), 0);
			continue;
		}
		n = run.n;
		over_page += laro / TILER_PAGE_ENTRIES != (laro + n - 1) / TILER_PAGE_ENTRIES;
		wrapped += tiler_cell(&c->shape, run.paro) >
			   tiler_cell(&c->shape, run.paro + n - 1);
		merged += run.slot == c->r.to;
		if (k % 7 == 6) {
			tiler_abort(&c->r, &run);
		} else {
			tiler_commit(&c->r, laro, &run, c->seq);
			for (i = 0; i < n; i++)
				want[laro + i] = run.paro + i;
		}
		bad += tiler_verify(&c->r, no_report, NULL);
		if (c->r.to && merged % 3 == 2) {
			clean_rest(test, c, 64);
			commit_all(c);
			for (i = 0; i < 3000; i++) {
				bad += (want[i] == TILER_NONE) != (place_of(c, i) == TILER_NONE);
				want[i] = place_of(c, i);
			}
		}
		for (i = 0; i < 3000; i++)
			bad += want[i] != place_of(c, i);
	}
	KUNIT_EXPECT_EQ(test, bad, 0U);
	KUNIT_EXPECT_TRUE(test, over_page > 10U);
	KUNIT_EXPECT_TRUE(test, wrapped > 10U);
	KUNIT_EXPECT_TRUE(test, merged > 10U);
	KUNIT_EXPECT_TRUE(test, c->count.lazy_blocks > 1000ULL);
}

/* One of SHAPES shapes: 1 to 5 columns, 1 to 3 slots on a track, each with 16 skews and heights. */
#define SHAPES	(5 * 3 * 16)

static void zones_of(u32 i, struct tiler_zones *z)
{
	u32 columns = 1 + i % 5, slots = 1 + i / 5 % 3, n = i / 15;

	*z = (struct tiler_zones){
		.rows = 1 + n, .columns = columns, .track_blocks = columns * slots + n % columns,
		.nr = 2 + n % 2, .spares = 1, .head_tracks = 3,
	};
	z->start = n % 3 * z->track_blocks;
	z->skew_units = n % z->track_blocks * SHINGLE_SUB_UNITS;
}

/* tiler_map_place() inverts tiler_map_block(), so each place is a distinct block. */
static void tiler_places(struct kunit *test)
{
	u32 i;

	for (i = 0; i < SHAPES; i++) {
		struct tiler_stretch st = {};
		struct tiler_map map = { .stretch = &st, .max = 1 };
		struct tiler_zones zones;
		u32 slot, paro, n, back = 0, at = 0, blocks;
		const char *why = "";

		zones_of(i, &zones);
		KUNIT_ASSERT_EQ(test, tiler_map_add(&map, &zones, &why), 0);
		blocks = tiler_blocks(&st.shape);
		for (slot = 0; slot < st.nr_slots; slot++) {
			for (paro = 0; paro < blocks; paro++) {
				u64 block;

				n = 1;
				block = tiler_map_block(&st, slot, paro, &n);
				KUNIT_EXPECT_TRUE(test, tiler_map_place(&st, block, &back, &at) &&
							back == slot && at == paro);
			}
		}
	}
}

/*
 * Each block belongs to one region and each slot to one stretch, up to the start of the
 * next.
 */
static void tiler_stretches(struct kunit *test)
{
	struct tiler_stretch st[3] = {};
	struct tiler_map map = { .stretch = st, .max = ARRAY_SIZE(st) };
	struct tiler_zones z = { .nr = 2, .rows = 4, .columns = 2, .head_tracks = 3, .spares = 1 };
	u32 i, slot, seen = 0;
	const char *why = "";
	u64 lblk = 0, end;

	for (i = 0; i < map.max; i++) {
		z.track_blocks = 10 - 2 * i;
		KUNIT_ASSERT_EQ(test, tiler_map_add(&map, &z, &why), 0);
		z.start += z.nr * (u64)(z.rows + z.head_tracks - 1) * z.track_blocks;
	}
	KUNIT_EXPECT_EQ(test, tiler_map_add(&map, &z, &why), -EINVAL);
	for (i = 0; i < map.nr; i++) {
		KUNIT_EXPECT_EQ(test, st[i].nr_slots, 2U * (5 - i));
		for (slot = seen; slot < seen + st[i].nr_slots; slot++)
			KUNIT_EXPECT_TRUE(test, tiler_map_slot(&map, slot) == &st[i]);
		seen = slot;
		end = lblk + st[i].nr_regions * st[i].shape.logical_blocks;
		for (; lblk < end; lblk++) {
			struct tiler_home home = tiler_map_home(&map, lblk);
			u64 at = lblk - st[i].first_lblk;

			KUNIT_EXPECT_TRUE(test, home.stretch == &st[i]);
			KUNIT_EXPECT_EQ(test, home.region, st[i].first_region +
					(u32)at / st[i].shape.logical_blocks);
			KUNIT_EXPECT_EQ(test, home.laro, (u32)at % st[i].shape.logical_blocks);
		}
	}
	KUNIT_EXPECT_EQ(test, seen, map.nr_slots);
	KUNIT_EXPECT_EQ(test, lblk, map.logical_blocks);
}

/* A row that is a whole track begins at the track's first block, with any skew. */
static void tiler_turns(struct kunit *test)
{
	struct tiler_zones z = { .track_blocks = 10, .skew_units = 3 * SHINGLE_SUB_UNITS,
				 .nr = 2, .rows = 4, .head_tracks = 3, .spares = 1 };
	struct tiler_stretch st = {};
	struct tiler_map map = { .stretch = &st, .max = 1 };
	const char *why = "";
	u32 paro, n;

	KUNIT_ASSERT_EQ(test, tiler_map_add(&map, &z, &why), 0);
	KUNIT_EXPECT_EQ(test, st.shape.columns, 10U);
	KUNIT_EXPECT_EQ(test, st.shape.turn, 3U);
	for (paro = 0; paro < 40; paro++) {
		n = 40;
		KUNIT_EXPECT_EQ(test, tiler_map_block(&st, 0, paro, &n), (u64)paro);
		KUNIT_EXPECT_EQ(test, n, 10 - paro % 10);
		KUNIT_EXPECT_EQ(test, tiler_paro(&st.shape, tiler_cell(&st.shape, paro)), paro);
	}
	/*
	 * With rows of part of a track, columns are angles, and a row may cross the track's
	 * start.
	 */
	z.columns = 4;
	map = (struct tiler_map){ .stretch = &st, .max = 1 };
	KUNIT_ASSERT_EQ(test, tiler_map_add(&map, &z, &why), 0);
	KUNIT_EXPECT_EQ(test, st.slots, 2U);
	n = 4;
	KUNIT_EXPECT_EQ(test, tiler_map_block(&st, 0, 4, &n), 17ULL);
	KUNIT_EXPECT_EQ(test, n, 3U);
	/* A skew of a fraction of a block would put two slots under one head. */
	z.skew_units = 12;
	map = (struct tiler_map){ .stretch = &st, .max = 1 };
	KUNIT_EXPECT_EQ(test, tiler_map_add(&map, &z, &why), -EINVAL);
	KUNIT_EXPECT_TRUE(test, strstr(why, "whole blocks"));
}

static struct kunit_case tiler_cases[] = {
	KUNIT_CASE(tiler_vt1_static),
	KUNIT_CASE(tiler_vt2_update),
	KUNIT_CASE(tiler_vt3_schedulable),
	KUNIT_CASE(tiler_vt4_blocks),
	KUNIT_CASE(tiler_vt5_bound),
	KUNIT_CASE(tiler_vt6_interleaved),
	KUNIT_CASE(tiler_ce_t1),
	KUNIT_CASE(tiler_ce_t4),
	KUNIT_CASE(tiler_full),
	KUNIT_CASE(tiler_steps),
	KUNIT_CASE(tiler_failures),
	KUNIT_CASE(tiler_generations),
	KUNIT_CASE(tiler_release_to),
	KUNIT_CASE(tiler_shapes),
	KUNIT_CASE(tiler_runs),
	KUNIT_CASE(tiler_places),
	KUNIT_CASE(tiler_stretches),
	KUNIT_CASE(tiler_turns),
	{}
};

static struct kunit_suite tiler_suite = {
	.name = "tiler",
	.test_cases = tiler_cases,
};

kunit_test_suites(&tiler_suite);

#ifdef __KERNEL__
MODULE_DESCRIPTION("dm-shingle: KUnit tests of autonomous regions");
MODULE_LICENSE("GPL");
#endif
