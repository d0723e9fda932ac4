// SPDX-License-Identifier: GPL-2.0
/*
 * tiler-check: write amplification of a region of dm-tiler, without a medium.
 *
 * tiler-check table [TIMES]
 *	write amplification by the share of a region in use
 * tiler-check bound
 *	with one block less than tiler_bound() in use, a region is never cleaned; with
 *	tiler_bound() it is
 *
 * Each write is durable at once.  The exerciser tests that no data are lost.
 */
#include <stdio.h>
#include <stdlib.h>

#include "random.h"
#include "tiler-region.h"

#define WIDEST		8U
/* Most blocks that a step of cleaning moves. */
#define STEP_BLOCKS	64U

struct load {
	u64 seed;
	u32 writes;
	u32 used;
	bool fill;
	u32 hot_percent;
	u32 hot_writes_percent;
};

/* A region and a spare slot. */
struct model {
	struct tiler_shape shape;
	struct tiler_count count;
	struct tiler_slot slot[2];
	struct tiler_region region;
	u64 seq;
};

static void *zalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		exit(2);
	return p;
}

static void model_init(struct model *m)
{
	u32 longs = BITS_TO_LONGS(tiler_blocks(&m->shape)), i, k;

	for (i = 0; i < ARRAY_SIZE(m->slot); i++) {
		struct tiler_slot *slot = &m->slot[i];

		slot->number = i;
		for (k = 0; k < tiler_pages(&m->shape); k++)
			slot->page[k] = zalloc(1, SHINGLE_CHUNK_BYTES);
		slot->taken = zalloc(longs, sizeof(long));
		slot->pins[0].cells = zalloc(longs, sizeof(long));
		slot->pins[1].cells = zalloc(longs, sizeof(long));
	}
	m->region = (struct tiler_region){
		.shape = &m->shape, .count = &m->count, .at = &m->slot[0],
	};
	m->seq = 1;
}

static void model_exit(struct model *m)
{
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(m->slot); i++) {
		for (k = 0; k < tiler_pages(&m->shape); k++)
			free(m->slot[i].page[k]);
		free(m->slot[i].taken);
		free(m->slot[i].pins[0].cells);
		free(m->slot[i].pins[1].cells);
	}
}

static void begin_clean(struct model *m)
{
	struct tiler_slot *to = &m->slot[m->region.at == &m->slot[0]];
	u32 k;

	tiler_slot_init(&m->shape, to);
	for (k = 0; k < tiler_pages(&m->shape); k++)
		memset(to->page[k], 0, SHINGLE_CHUNK_BYTES);
	tiler_clean_begin(&m->region, to);
}

static void clean(struct model *m)
{
	struct tiler_step step;

	while (tiler_clean_next(&m->region, STEP_BLOCKS, &step) > 0)
		tiler_clean_done(&m->region, &step);
	tiler_clean_flip(&m->region);
}

/* Return: false if the region refuses the write although it is clean. */
static bool write_one(struct model *m, u32 laro)
{
	struct tiler_region *r = &m->region;
	struct tiler_run run;
	u32 tries;

	for (tries = 0; tries < 3; tries++) {
		if (!tiler_place(r, laro, 1, &run)) {
			tiler_commit(r, laro, &run, m->seq);
			tiler_release(r, m->seq++);
			return true;
		}
		if (!r->to) {
			begin_clean(m);
			/* A full region now has room for this write, and for no other. */
			if (r->left == tiler_blocks(&m->shape))
				continue;
		}
		clean(m);
	}
	return false;
}

static u32 draw(const struct load *l, u32 nr, u64 *state)
{
	u32 hot = l->used * l->hot_percent / 100;

	if (l->fill && nr < l->used)
		return nr;
	if (!hot)
		return random_below(state, l->used);
	if (random_below(state, 100) < l->hot_writes_percent)
		return random_below(state, hot);
	return hot + random_below(state, l->used - hot);
}

/* Return: false if a write was refused. */
static bool run(const struct tiler_shape *shape, const struct load *l, struct tiler_count *sum)
{
	struct model m = { .shape = *shape };
	u64 state = l->seed;
	bool good = true;
	u32 i;

	model_init(&m);
	for (i = 0; i < l->writes && good; i++)
		good = write_one(&m, draw(l, i, &state));
	model_exit(&m);
	sum->log_blocks += m.count.log_blocks;
	sum->lazy_blocks += m.count.lazy_blocks;
	sum->moved_blocks += m.count.moved_blocks;
	sum->cleans += m.count.cleans;
	if (!good)
		printf("k=%u M=%u S=%u: write %u is refused\n", shape->head_tracks, shape->rows,
		       shape->columns, i);
	return good;
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
	const struct tiler_shape shape = {
		.rows = ROWS, .columns = COLUMNS, .head_tracks = loads[load].k,
		.logical_blocks = ROWS * COLUMNS, .lazy = !loads[load].two_states,
	};
	struct load l = {
		.writes = TABLE_WRITES, .used = (ROWS * COLUMNS * used_percent + 50) / 100,
		.hot_percent = loads[load].hot_percent,
		.hot_writes_percent = loads[load].hot_writes_percent,
	};
	struct tiler_count sum = { 0 };
	double cleans;

	for (l.seed = 1; l.seed <= seeds; l.seed++) {
		if (!run(&shape, &l, &sum))
			return 1;
	}
	cleans = sum.cleans;
	printf("%.2f  %-20s", used_percent / 100.0, loads[load].name);
	if (cleans)
		printf("%7.0f %7.0f %7.2f\n", sum.log_blocks / cleans, sum.lazy_blocks / cleans,
		       1 + (double)sum.moved_blocks / (seeds * (double)TABLE_WRITES));
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

/* One shape of the bound.  Return: false if the bound is wrong for it. */
static bool bound_holds(const struct tiler_shape *shape, u32 seed, u32 used, bool *cleaned)
{
	const struct load l = { .seed = seed, .writes = 4000, .used = used, .fill = true };
	struct tiler_count sum = { 0 };
	bool good = run(shape, &l, &sum);

	*cleaned = sum.cleans;
	if (used < tiler_bound(shape) && sum.cleans) {
		printf("k=%u M=%u S=%u, %u in use: %llu cleans\n", shape->head_tracks, shape->rows,
		       shape->columns, used, (unsigned long long)sum.cleans);
		good = false;
	}
	return good;
}

static u32 bound(void)
{
	static const u32 rows[] = { 1, 2, 5, 6, 7, 16, 64 }, columns[] = { 1, 4 };
	u32 k, i, bad = 0, cleaned = 0, never = 0;

	for (k = 1; k <= WIDEST; k++) {
		for (i = 0; i < ARRAY_SIZE(rows) * ARRAY_SIZE(columns) * 2; i++) {
			u32 more = i % 2, c = columns[i / 2 % ARRAY_SIZE(columns)];
			u32 r = rows[i / 2 / ARRAY_SIZE(columns)];
			const struct tiler_shape shape = {
				.rows = r, .columns = c, .head_tracks = k,
				.logical_blocks = r * c, .lazy = true,
			};
			u32 used = tiler_bound(&shape) - 1 + more;
			bool cleans;

			if (!used)
				continue;
			bad += !bound_holds(&shape, i, used, &cleans);
			never += !more;
			cleaned += more && cleans;
		}
	}
	printf("%u shapes with a block less, of which %u clean; %u with the bound clean\n", never,
	       bad, cleaned);
	return bad;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "table"))
		return !!table(argc > 2 ? strtoul(argv[2], NULL, 0) : 10);
	if (!strcmp(what, "bound"))
		return !!bound();
	fprintf(stderr, "Usage: tiler-check table [TIMES] | bound\n");
	return 2;
}
