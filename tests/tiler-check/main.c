// SPDX-License-Identifier: GPL-2.0
/*
 * tiler-check: regions of dm-tiler on a medium with a head that destroys.
 *
 * tiler-check run SEED SHAPES [unsafe_reuse|unsafe_inplace|no_trouble]
 *	SHAPES random shapes for each width of the head, 1 to 8: every block must be there after
 *	each write, and would have to be after a power cut
 * tiler-check table [TIMES]
 *	write amplification by the share of a region in use
 * tiler-check bound
 *	one block less than tiler_bound() must never need cleaning; tiler_bound() must
 */
#include <stdio.h>
#include <stdlib.h>

#include "tiler-sim.h"
#include "sim-sums.h"

#define WIDEST	8U
/* The numbers of a result. */
#define NUMBERS	(offsetof(struct tiler_sim_result, first_clean) / sizeof(u64))

static void print_sum(u32 k, u32 shapes, u32 lost, const struct tiler_sim_result *sum)
{
	const struct sim_word word[] = {
		{ "written", sum->writes }, { "destroyed", sum->destroyed },
		{ "lazy", sum->count.lazy_blocks }, { "merged", sum->count.merged_blocks },
		{ "moved", sum->count.moved_blocks }, { "cleans", sum->count.cleans },
		{ "steps", sum->steps }, { "waits", sum->count.commit_waits },
		{ "commits", sum->commits }, { "power cuts", sum->cuts },
		{ "failed", sum->fails },
	};

	print_words(k, shapes, lost, word, ARRAY_SIZE(word));
}

/* Return: the number of shapes that lost a block. */
static u32 run(u64 seed, u32 shapes, const char *feature)
{
	u32 k, i, bad = 0, skewed = 0, tight = 0;

	for (k = 1; k <= WIDEST; k++) {
		struct tiler_sim_result sum = { 0 }, res;
		u32 lost = 0;

		for (i = 0; i < shapes; i++) {
			u64 state = seed << 32 | k << 24 | i;
			struct tiler_sim_plan plan;

			tiler_sim_draw(&state, k, &plan);
			plan.writes = 1500;
			if (!strcmp(feature, "unsafe_reuse"))
				plan.unsafe_reuse = true;
			if (!strcmp(feature, "unsafe_inplace"))
				plan.unsafe_inplace = true;
			if (*feature)
				plan.trouble = false;
			skewed += !!plan.zones.skew_units;
			tight += !plan.zones.over_permille && !plan.used;
			if (tiler_sim(&plan, &res)) {
				if (!lost++)
					printf("k=%u, shape %u: M=%u S=%u track=%u skew=%u: %s\n",
					       k, i, plan.zones.rows, plan.zones.columns,
					       plan.zones.track_blocks,
					       plan.zones.skew_units / SHINGLE_SUB_UNITS,
					       res.error);
			}
			add_numbers(&sum, &res, NUMBERS);
		}
		bad += lost;
		print_sum(k, shapes, lost, &sum);
	}
	printf("%u shapes lost something, %u were skewed, %u without a block to spare\n", bad,
	       skewed, tight);
	return bad;
}

/* A region of 64 rows of 4 blocks, empty at first. */
#define ROWS		64
#define COLUMNS		4
#define TABLE_WRITES	8000

static const struct {
	const char *name;
	u32 k;
	bool two_states;
	u32 hot_percent;
	u32 hot_writes_percent;
} loads[] = {
	{ "k=3", .k = 3 },
	{ "k=2", .k = 2 },
	{ "two states", .k = 3, .two_states = true },
	{ "k=3, 10 % take 90 %", .k = 3, .hot_percent = 10, .hot_writes_percent = 90 },
};

static u32 table_row(u32 used_percent, u32 load, u32 seeds)
{
	struct tiler_sim_result sum = { 0 }, res;
	struct tiler_sim_plan plan = {
		.writes = TABLE_WRITES, .used = (ROWS * COLUMNS * used_percent + 50) / 100,
		.two_states = loads[load].two_states, .hot_percent = loads[load].hot_percent,
		.hot_writes_percent = loads[load].hot_writes_percent,
		.depth = 1, .most_blocks = 1, .step_blocks = 64, .whole = true,
		.zones = { .track_blocks = 2 * COLUMNS, .nr = 1, .rows = ROWS,
			   .columns = COLUMNS, .head_tracks = loads[load].k, .spares = 1 },
	};
	double cleans;

	for (plan.seed = 1; plan.seed <= seeds; plan.seed++) {
		if (tiler_sim(&plan, &res)) {
			printf("%s\n", res.error);
			return 1;
		}
		add_numbers(&sum, &res, NUMBERS);
	}
	cleans = sum.count.cleans;
	printf("%.2f  %-20s", used_percent / 100.0, loads[load].name);
	if (cleans)
		printf("%7.0f %7.0f %7.2f\n", sum.count.log_blocks / cleans,
		       sum.count.lazy_blocks / cleans,
		       1 + (double)sum.count.moved_blocks / sum.writes);
	else
		printf("  never cleans\n");
	return 0;
}

static u32 table(u32 seeds)
{
	static const u32 used_percent[] = { 30, 33, 40, 50, 60, 70, 80, 90 };
	u32 i, load, bad = 0;

	printf("# M=%u S=%u, %u blocks written, %u times\n", ROWS, COLUMNS, TABLE_WRITES, seeds);
	printf("# in use, head and load; per clean: in order, lazily; amplification\n");
	for (load = 0; load < ARRAY_SIZE(loads); load++) {
		for (i = 0; i < ARRAY_SIZE(used_percent); i++)
			bad += table_row(used_percent[i], load, seeds);
	}
	return bad;
}

/*
 * With one block less than tiler_bound() the region never cleans; with tiler_bound() it does at
 * some time.
 */
static u32 bound(void)
{
	static const u32 rows[] = { 1, 2, 5, 6, 7, 16, 64 }, columns[] = { 1, 4 };
	u32 k, i, c, more, bad = 0, cleaned = 0, never = 0;

	for (k = 1; k <= WIDEST; k++) {
		for (i = 0; i < ARRAY_SIZE(rows) * ARRAY_SIZE(columns) * 2; i++) {
			struct tiler_sim_plan plan = {
				.seed = i, .writes = 4000, .depth = 1, .most_blocks = 1,
				.step_blocks = 64, .whole = true, .fill = true,
			};
			struct tiler_shape shape = { .head_tracks = k };
			struct tiler_sim_result res;

			more = i % 2;
			c = i / 2 % ARRAY_SIZE(columns);
			shape.columns = columns[c];
			shape.rows = rows[i / 2 / ARRAY_SIZE(columns)];
			plan.zones = (struct tiler_zones){
				.track_blocks = 2 * shape.columns, .nr = 1, .rows = shape.rows,
				.columns = shape.columns, .head_tracks = k, .spares = 1,
			};
			plan.used = tiler_bound(&shape) - 1 + more;
			if (!plan.used)
				continue;
			if (tiler_sim(&plan, &res) || (!more && res.count.cleans)) {
				printf("k=%u M=%u S=%u, %u in use: %llu cleans, %s\n", k,
				       shape.rows, shape.columns, plan.used,
				       (unsigned long long)res.count.cleans, res.error);
				bad++;
			}
			never += !more;
			cleaned += more && res.count.cleans;
		}
	}
	printf("%u shapes with a block less, of which %u clean; %u with so many clean\n", never,
	       bad, cleaned);
	return bad;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "run") && argc >= 4)
		return !!run(strtoull(argv[2], NULL, 0), strtoul(argv[3], NULL, 0),
			     argc > 4 ? argv[4] : "");
	if (!strcmp(what, "table"))
		return !!table(argc > 2 ? strtoul(argv[2], NULL, 0) : 10);
	if (!strcmp(what, "bound"))
		return !!bound();
	fprintf(stderr, "Usage: tiler-check run SEED SHAPES [FEATURE] | table [TIMES] | bound\n");
	return 2;
}
