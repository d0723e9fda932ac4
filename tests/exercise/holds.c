// SPDX-License-Identifier: GPL-2.0
/*
 * shingle-holds [MOST]: measure the longest call of each engine operation.
 * shingle-holds cost: measure how many blocks a checkpoint of 4 TB writes.
 *
 * Core calls these operations under a spinlock with interrupts off, so none may walk over the whole
 * of a large device. The engines are compiled with -fsanitize-coverage=trace-pc; the program counts
 * the pieces of code that a call executes. That measure does not depend on the machine or its load.
 * The time beside it is for information only.
 *
 * The program prints a line for each operation of each engine, on devices of some TB; exit status 1
 * if a call executes more than MOST pieces of code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dual/engine.h"
#include "exercise.h"
#include "full/engine.h"
#include "imr-engine.h"
#include "log/engine.h"
#include "pages/pages.h"
#include "rmwf/engine.h"
#include "set/engine.h"
#include "tiler-engine.h"

/* Blocks whose sources core requests in one call. */
#define SOURCE_BLOCKS	256U
/* The longest bio to expect. */
#define BIO_BLOCKS	256U

enum op {
	OP_RESOLVE, OP_PLACE, OP_COMMIT, OP_DISCARD, OP_NEXT_STEP, OP_SOURCE, OP_DONE,
	OP_TIDY, OP_RELEASE, OP_ENCODE, OP_VERIFY, OP_STATS, OP_MESSAGE, NR_OPS
};

static const char *const op_names[NR_OPS] = {
	"resolve", "place", "commit", "discard", "next_step", "step_source", "step_done",
	"tidy", "release", "encode", "verify", "stats", "message",
};

static unsigned long walked, since, most[NR_OPS];
static double took[NR_OPS], start;

void __sanitizer_cov_trace_pc(void)
{
	walked++;
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void begin(void)
{
	start = now_us();
	since = walked;
}

static void end(enum op op)
{
	unsigned long n = walked - since;
	double us = now_us() - start;

	if (n <= most[op])
		return;
	most[op] = n;
	took[op] = us;
}

/**
 * struct device - an engine and what core would know
 * @e: the engine
 * @l: its layout
 * @seq: open transaction
 * @rng: state of the random numbers
 * @rec: array for records
 * @emit: output of the current call
 */
struct device {
	struct shingle_engine *e;
	struct shingle_layout l;
	u64 seq;
	u32 rng;
	struct shingle_record rec[1024];
	struct shingle_emit emit;
};

static u32 rnd(struct device *d, u32 below)
{
	d->rng = d->rng * 1664525U + 1013904223U;
	return (u64)d->rng * below >> 32;
}

static struct shingle_emit *emit(struct device *d)
{
	d->emit = (struct shingle_emit){ .rec = d->rec, .max = ARRAY_SIZE(d->rec),
					 .seq = d->seq };
	return &d->emit;
}

static void die(const char *what)
{
	fprintf(stderr, "shingle-holds: %s\n", what);
	exit(2);
}

static void report(void *ctx, const char *fmt, ...)
{
	die(fmt);
}

/* Create the engine with the current layout. */
static void create_there(struct device *d, const struct shingle_engine_ops *ops)
{
	const char *why;

	if (ops->create(&d->e, &d->l, &why))
		die(why);
	d->seq = 1;
}

static void create(struct device *d, const struct shingle_engine_ops *ops,
		   const struct shingle_exercise_shape *shape, const void *params, size_t size)
{
	shingle_exercise_layout(&d->l, ops, shape, params, size);
	create_there(d, ops);
}

static void ready(struct device *d)
{
	const char *why;

	if (d->e->ops->state.ready(d->e, &why))
		die(why);
}

/* Make all records durable and release space, with no reader left. */
static void release(struct device *d)
{
	bool more = true;

	while (more) {
		begin();
		more = d->e->ops->clean.release(d->e, d->seq);
		end(OP_RELEASE);
	}
	d->seq++;
}

static void tidy(struct device *d)
{
	bool more = d->e->ops->clean.tidy;

	while (more) {
		begin();
		more = d->e->ops->clean.tidy(d->e);
		end(OP_TIDY);
	}
}

/*
 * Retry after SHINGLE_ABSENT. Every page that is written has a frame, so the request cannot fail.
 */
static bool again(struct device *d, int r)
{
	if (r == SHINGLE_ABSENT && shingle_pages_ask(d->e->pages))
		die("a page has no frame");
	return r == SHINGLE_ABSENT;
}

/* Do one step as core's cleaner does. Return: the result of next_step(). */
static int step(struct device *d, enum shingle_why why)
{
	struct shingle_step s, part;
	struct shingle_extent ext;
	struct shingle_run run;
	u32 at, from;
	u64 cursor;
	int r;

	memset(&s, 0, sizeof(s));
	do {
		shingle_pages_begin(d->e, SHINGLE_CLIENT_CLEAN);
		begin();
		r = d->e->ops->clean.next_step(d->e, why, &s);
		end(OP_NEXT_STEP);
		shingle_pages_end(d->e, false);
	} while (again(d, r));
	if (r < 0)
		release(d);
	if (r <= 0)
		return r;
	part = s;
	for (cursor = 0; s.scattered; end(OP_SOURCE)) {
		begin();
		if (!shingle_step_extent(d->e, &s, &cursor, &ext))
			break;
	}
	if (s.scattered)
		s.n = 0;
	for (from = 0; from < s.n; from += SOURCE_BLOCKS) {
		part.n = min(from + SOURCE_BLOCKS, s.n);
		begin();
		for (at = from; at < part.n; at = run.lblk + run.n) {
			if (!d->e->ops->clean.step_source(d->e, &part, at, &run))
				break;
		}
		end(OP_SOURCE);
	}
	begin();
	d->e->ops->clean.step_done(d->e, &s, emit(d));
	end(OP_DONE);
	tidy(d);
	release(d);
	return 1;
}

/* Returns false if there will be no room. */
static bool try_write(struct device *d, u64 lblk, u32 n)
{
	struct shingle_run run;
	int r;

	for (;;) {
		begin();
		r = d->e->ops->map.place(d->e, lblk, n, SHINGLE_LIFE_UNKNOWN, &run);
		end(OP_PLACE);
		if (!r)
			break;
		if (r == SHINGLE_FULL)
			return false;
		if (again(d, r))
			continue;
		if (r == -EBUSY)
			release(d);
		step(d, SHINGLE_WHY_PRESSURE);
	}
	begin();
	d->e->ops->map.commit(d->e, &run, emit(d));
	end(OP_COMMIT);
	return true;
}

static void write_at(struct device *d, u64 lblk, u32 n)
{
	if (!try_write(d, lblk, n))
		die("a write finds no room");
}

static void look(struct device *d)
{
	u8 *buf = calloc(1, SHINGLE_CHUNK_BYTES);
	u64 cursor = 0, index;
	struct shingle_run run;
	u32 bytes, i, all;

	while (cursor != SHINGLE_NOWHERE) {
		begin();
		d->e->ops->observe.verify(d->e, &cursor, report, NULL);
		end(OP_VERIFY);
	}
	for (all = 0; all < 2; all++) {
		for (cursor = 0; cursor != SHINGLE_NOWHERE;) {
			begin();
			shingle_encode_next(&d->l, d->e, all, &cursor, &index, buf, &bytes);
			end(OP_ENCODE);
		}
	}
	begin();
	d->e->ops->observe.cached_blocks(d->e);
	d->e->ops->observe.map_bytes(d->e);
	end(OP_STATS);
	for (i = 0; i < 1000; i++) {
		u64 lblk = (u64)rnd(d, d->l.logical_blocks / BIO_BLOCKS) * BIO_BLOCKS;

		begin();
		d->e->ops->map.resolve(d->e, lblk, BIO_BLOCKS, &run);
		end(OP_RESOLVE);
	}
	free(buf);
}

/* Discard the whole device, as blkdiscard does. */
static void forget_all(struct device *d)
{
	u64 lblk = 0, done;
	bool dropped;
	int r;

	while (lblk < d->l.logical_blocks) {
		begin();
		r = d->e->ops->map.discard(d->e, lblk, d->l.logical_blocks - lblk, &done, &dropped,
					   emit(d));
		end(OP_DISCARD);
		if (again(d, r))
			continue;
		if (r == -EBUSY && d->e->ops->clean.pending(d->e))
			release(d);
		else if (r)
			die("a discard has to wait for nothing");
		else
			lblk += done;
	}
	release(d);
	look(d);
}

static int show(const char *engine, unsigned long bound)
{
	int failed = 0, i;

	for (i = 0; i < NR_OPS; i++) {
		bool over = bound && most[i] > bound;

		if (most[i])
			printf("%s %s: %lu pieces of code, %.0f us%s\n", engine, op_names[i],
			       most[i], took[i], over ? ": TOO LONG" : "");
		failed |= over;
		most[i] = 0;
		took[i] = 0;
	}
	return failed;
}

/* 4 TB in bands of 40 MiB. The cache holds blocks of random bands and all blocks of one band. */
static void hold_set(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 10240, .data_bands = 95367, .staging_bands = 1, .cache_bands = 64,
		.head_tracks = 1,
	};
	struct stl_set_params p = { .set_shift = 0 };
	u32 i;

	create(d, &stl_set_engine_ops, &shape, &p, sizeof(p));
	ready(d);
	for (i = 0; i < 10240; i++)
		write_at(d, 5 * 10240 + i * 3389ULL % 10240, 1);
	for (i = 0; i < 100000; i++) {
		u32 lblk = rnd(d, d->l.logical_blocks);

		/* The set of that band is full. */
		if (lblk / 10240 % 64 != 5)
			write_at(d, lblk, i % 1000 ? 1 : BIO_BLOCKS);
	}
	look(d);
	for (i = 0; i < 60 && step(d, SHINGLE_WHY_FORCED) > 0; i++)
		;
	look(d);
	forget_all(d);
	d->e->ops->destroy(d->e);
}

/* 4 TB in bands of 20 MiB, with a map of two million extents that is nearly full. */
static void hold_log(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 5120, .data_bands = 190735, .head_tracks = 1,
	};
	struct stl_log_params p = {
		.reserve = cpu_to_le32(3000), .extents = cpu_to_le32(2000000),
	};
	u32 i;

	create(d, &stl_log_engine_ops, &shape, &p, sizeof(p));
	ready(d);
	/* No segment can be cleaned: the search looks at all of them. */
	while (step(d, SHINGLE_WHY_FORCED) > 0)
		;
	/* Every other block in descending order: each is an extent, and none can be joined. */
	for (i = 1950000; i; i--)
		write_at(d, 2 * (u64)i, 1);
	look(d);
	/* Until the map is full: each search for extents to join looks at all of them. */
	for (i = 0; i < 100000; i++)
		try_write(d, rnd(d, d->l.logical_blocks), 1);
	look(d);
	for (i = 0; i < 60 && step(d, SHINGLE_WHY_FORCED) > 0; i++)
		;
	for (i = 0; i < 60 && step(d, SHINGLE_WHY_PRESSURE) > 0; i++)
		;
	look(d);
	forget_all(d);
	d->e->ops->destroy(d->e);
}

/* 4 TB in zones of bands of 20 MiB. */
static void hold_full(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 5120, .data_bands = 190735, .head_tracks = 1,
	};
	struct stl_full_params p = {
		.zone_bands = cpu_to_le32(40000), .provision = cpu_to_le32(400),
		.log_bands = cpu_to_le32(380),
	};
	u32 i;

	create(d, &stl_full_engine_ops, &shape, &p, sizeof(p));
	ready(d);
	for (i = 0; i < 5120; i++)
		write_at(d, 5 * 5120 + i * 3389ULL % 5120, 1);
	for (i = 0; i < 100000; i++)
		write_at(d, rnd(d, d->l.logical_blocks), 1);
	look(d);
	for (i = 0; i < 60 && step(d, SHINGLE_WHY_FORCED) > 0; i++)
		;
	look(d);
	forget_all(d);
	d->e->ops->destroy(d->e);
}

/* 4 TB in tracks of 1 MiB, all written. */
static void hold_imr(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 256, .data_bands = 3814697, .staging_bands = 16,
		.interlaced = true, .head_tracks = 1,
	};
	struct imr_params p = { 0 };
	char *argv[4] = { "level", "1000", "65536", "3" };
	struct shingle_record rec;
	const char *why;
	u64 done = 0;
	u32 i;
	int r;

	create(d, &imr_engine_ops, &shape, &p, sizeof(p));
	for (i = 0; i < shape.data_bands; i++) {
		shingle_record_set(&rec, IMR_MAP, 256, 0, i, i);
		if (d->e->ops->state.replay(d->e, &rec))
			die("imr refuses a record");
	}
	ready(d);
	look(d);
	do {
		begin();
		r = d->e->ops->observe.message(d->e, 4, argv, &done, emit(d), &why);
		end(OP_MESSAGE);
	} while (r > 0);
	/* An epoch over bottoms: tops beside them are saved and restored. */
	for (i = 0; i < 64; i++)
		d->e->ops->gather.epoch_add(d->e, i * 512000ULL, 256);
	while (step(d, SHINGLE_WHY_EPOCH))
		;
	d->e->ops->gather.epoch_end(d->e);
	look(d);
	forget_all(d);
	d->e->ops->destroy(d->e);
}

/* 4 TB in regions of 127 tracks of 2 MiB; one of them is filled and cleaned. */
static void hold_tiler(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 127 * 516, .data_bands = 15000, .track_blocks = 516,
		.head_tracks = 3, .columns = true, .skew_units = 40 * SHINGLE_SUB_UNITS,
	};
	const u32 blocks = 127 * 516 - 127 * 516 / 10;
	struct tiler_params p = { .over_permille = cpu_to_le32(100) };
	const char *why;
	u32 i;

	create(d, &tiler_engine_ops, &shape, &p, sizeof(p));
	if (shingle_set(d->e, "region_cache", "16", &why) ||
	    shingle_pages_create_for(d->e, &d->l, 32768, &why))
		die(why);
	ready(d);
	for (i = 0; i < blocks; i++)
		write_at(d, 5ULL * blocks + i * 3389ULL % blocks, 1);
	for (i = 0; i < 3 * blocks; i++)
		write_at(d, 5ULL * blocks + rnd(d, blocks), i % 1000 ? 1 : BIO_BLOCKS);
	/* Further writes fill other regions in part, so that regions enter and leave the cache. */
	for (i = 0; i < 20000; i++)
		write_at(d, (u64)rnd(d, 64) * blocks + rnd(d, blocks), i % 100 ? 1 : BIO_BLOCKS);
	look(d);
	for (i = 0; i < 600 && step(d, SHINGLE_WHY_FORCED); i++)
		;
	look(d);
	forget_all(d);
	shingle_pages_destroy(d->e);
	d->e->ops->destroy(d->e);
}

/* ------------------------------------------------------------------------
 * Cost of a checkpoint
 */

/* Write a checkpoint. Return: its blocks, footer included; afterwards the state is clean. */
static u64 checkpoint(struct device *d, bool all)
{
	static u8 buf[SHINGLE_CHUNK_BYTES];
	u64 cursor = 0, index, blocks = 1;
	u32 bytes;

	while (cursor != SHINGLE_NOWHERE)
		blocks += shingle_encode_next(&d->l, d->e, all, &cursor, &index, buf, &bytes);
	return blocks;
}

static void show_cost(struct device *d, u32 percent, bool anywhere)
{
	u64 changed = checkpoint(d, false), all = checkpoint(d, true);

	printf("%s, %u %% changed %s: %llu blocks before, %llu now\n", d->e->ops->name, percent,
	       anywhere ? "anywhere" : "in one place", (unsigned long long)all,
	       (unsigned long long)changed);
	d->e->ops->destroy(d->e);
}

/*
 * Write 32 KiB at a time until the cache is full, the last @percent of it after a checkpoint. The
 * writes go to each of @parts of the device in turn, or first to one of them.
 */
static void fill_cache(struct device *d, u32 parts, u32 percent, bool anywhere)
{
	const u32 n = 8;
	u64 writes = d->e->cache_blocks / n, i;
	u32 band = d->l.band_blocks[SHINGLE_ROLE_DATA], bands = d->l.logical_blocks / band;

	for (i = 0; i < writes; i++) {
		u32 part = anywhere ? i % parts : div64_u64(i * parts, writes), at;

		if (i == writes - writes * percent / 100)
			checkpoint(d, true);
		/* Sets of stl-set are bands that many apart, zones of stl-full lie together. */
		at = rnd(d, bands / parts);
		at = d->e->ops == &stl_set_engine_ops ? part + at * parts :
							part * (bands / parts) + at;
		write_at(d, (u64)at * band + rnd(d, band / n) * n, n);
	}
}

static void cost_set(struct device *d, u32 percent, bool anywhere)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 10240, .data_bands = 94412, .staging_bands = 1, .cache_bands = 954,
		.head_tracks = 1,
	};
	struct stl_set_params p = { .set_shift = 0 };

	create(d, &stl_set_engine_ops, &shape, &p, sizeof(p));
	ready(d);
	fill_cache(d, shape.cache_bands, percent, anywhere);
	show_cost(d, percent, anywhere);
}

static void cost_full(struct device *d, u32 percent, bool anywhere)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 5120, .data_bands = 200000, .head_tracks = 1,
	};
	struct stl_full_params p = {
		.zone_bands = cpu_to_le32(40000), .provision = cpu_to_le32(400),
		.log_bands = cpu_to_le32(380),
	};

	create(d, &stl_full_engine_ops, &shape, &p, sizeof(p));
	ready(d);
	fill_cache(d, 5, percent, anywhere);
	show_cost(d, percent, anywhere);
}

/* All tracks are written; then the level of @percent of them changes. */
static void cost_imr(struct device *d, u32 percent, bool anywhere)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 256, .data_bands = 3814697, .staging_bands = 16,
		.interlaced = true, .head_tracks = 1,
	};
	const u32 most = 65536;
	struct imr_params p = { 0 };
	struct shingle_record rec;
	char first[16], nr[16];
	char *argv[4] = { "level", first, nr, "3" };
	u32 tracks, n, i;
	const char *why;
	u64 done;
	int r;

	create(d, &imr_engine_ops, &shape, &p, sizeof(p));
	tracks = div_u64(d->l.logical_blocks, shape.band_blocks);
	for (i = 0; i < tracks; i++) {
		shingle_record_set(&rec, IMR_MAP, 256, 0, i, i);
		if (d->e->ops->state.replay(d->e, &rec))
			die("imr refuses a record");
	}
	ready(d);
	checkpoint(d, true);
	n = (u64)tracks * percent / 100;
	for (i = 0; i < n; i += anywhere ? 1 : most) {
		snprintf(first, sizeof(first), "%u", anywhere ? rnd(d, tracks) : i);
		snprintf(nr, sizeof(nr), "%u", anywhere ? 1 : min(most, n - i));
		done = 0;
		do {
			r = d->e->ops->observe.message(d->e, 4, argv, &done, emit(d), &why);
		} while (r > 0);
		if (r)
			die(why);
	}
	show_cost(d, percent, anywhere);
}

static void costs(struct device *d)
{
	static const u32 percent[] = { 1, 10, 100 };
	u32 i, anywhere;

	for (i = 0; i < ARRAY_SIZE(percent); i++) {
		for (anywhere = 0; anywhere < 2; anywhere++) {
			cost_set(d, percent[i], anywhere);
			cost_full(d, percent[i], anywhere);
			cost_imr(d, percent[i], anywhere);
		}
	}
}

/* 4 TB in bands of 30 MiB, and one cache of 1 GiB, that is cleaned because it is full. */
static void hold_dual(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 7680, .data_bands = 127155, .staging_bands = 1, .cache_bands = 1,
		.head_tracks = 1, .cache_band_blocks = 262144,
	};
	struct dual_params p = {
		.sample_percent = cpu_to_le32(50), .min_new_percent = cpu_to_le32(25),
		.min_fb_percent = cpu_to_le32(2),
	};
	u32 i;

	create(d, &dualbuffer_engine_ops, &shape, &p, sizeof(p));
	ready(d);
	/* The engine keeps every block that is written twice, and some others. */
	for (i = 0; i < 200000; i++)
		write_at(d, rnd(d, d->l.logical_blocks), i % 1000 ? 1 : BIO_BLOCKS);
	look(d);
	while (shingle_exercise_counter(d->e, "kept_blocks") < 20000)
		write_at(d, rnd(d, d->l.logical_blocks), 1);
	for (i = 0; i < 60 && step(d, SHINGLE_WHY_FORCED) > 0; i++)
		;
	look(d);
	while (step(d, SHINGLE_WHY_FORCED))
		;
	/* Write one whole band in another order. */
	for (i = 0; i < 7680; i++)
		write_at(d, 5 * 7680 + i * 3389ULL % 7680, 1);
	forget_all(d);
	d->e->ops->destroy(d->e);
}

/*
 * 400 GB in bands of 15 tracks of 2 MiB, and 2 GiB of flash: work that grows with the device must
 * be spread over several calls. Full bands are overwritten, one of them completely and in another
 * order, with many writes in flight.
 */
static void hold_rmwf(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 7680, .data_bands = 12716, .staging_bands = 1, .cache_bands = 1,
		.track_blocks = 512, .head_tracks = 3, .columns = true,
		.skew_units = 40 * SHINGLE_SUB_UNITS, .cache_band_blocks = 524288,
		.cache_apart = true,
	};
	const u32 full = 64 * 7680;
	struct rmwf_params p = { 0 };
	struct shingle_run run[255];
	const char *why;
	u32 i, j;

	create(d, &rmwf_engine_ops, &shape, &p, sizeof(p));
	ready(d);
	for (i = 0; i < full; i += BIO_BLOCKS)
		write_at(d, i, BIO_BLOCKS);
	release(d);
	/* Several writes in flight at once, to full bands and others. */
	for (i = 0; i < 1000; i++) {
		for (j = 0; j < ARRAY_SIZE(run); j++) {
			u64 lblk = rnd(d, 4) ? rnd(d, full) : rnd(d, d->l.logical_blocks);

			begin();
			if (d->e->ops->map.place(d->e, lblk, i % 8 ? 1 : BIO_BLOCKS,
						 SHINGLE_LIFE_UNKNOWN, &run[j]))
				break;
			end(OP_PLACE);
		}
		release(d);
		while (j--) {
			begin();
			d->e->ops->map.commit(d->e, &run[j], emit(d));
			end(OP_COMMIT);
		}
		while (step(d, SHINGLE_WHY_PRESSURE) > 0)
			;
	}
	look(d);
	for (j = 0; j < 2; j++) {
		if (shingle_set(d->e, "rule", j ? "window" : "pointer", &why) ||
		    shingle_set(d->e, "alloc", j ? "static" : "pool", &why))
			die(why);
		for (i = 0; i < 7680; i++)
			write_at(d, 5 * 7680 + i * 3389ULL % 7680, 1);
		for (i = 0; i < 7680; i += BIO_BLOCKS)
			write_at(d, 6 * 7680 + i, BIO_BLOCKS);
		while (step(d, SHINGLE_WHY_FORCED))
			;
		look(d);
	}
	forget_all(d);
	d->e->ops->destroy(d->e);
}

/* Flash of many one-page blocks in a common pool, all full except some just behind the others. */
static void hold_pool(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 7680, .data_bands = 64, .staging_bands = 1, .cache_bands = 1,
		.track_blocks = 512, .head_tracks = 3, .cache_band_blocks = 262144,
		.cache_apart = true,
	};
	struct rmwf_params p = { .page_blocks = cpu_to_le32(1) };
	struct shingle_run run;
	const char *why;
	bool dropped;
	u64 done;
	u32 i;

	create(d, &rmwf_engine_ops, &shape, &p, sizeof(p));
	ready(d);
	if (shingle_set(d->e, "alloc", "pool", &why))
		die(why);
	for (i = 0; i < d->l.logical_blocks; i += BIO_BLOCKS)
		write_at(d, i, BIO_BLOCKS);
	release(d);
	/* Blocks of first tracks go to flash. */
	for (i = 0; i < shape.cache_band_blocks; i++) {
		if (d->e->ops->map.place(d->e, i / 4096 * 7680 + i % 4096, 1,
					 SHINGLE_LIFE_UNKNOWN, &run))
			die("flash is full too early");
		d->e->ops->map.commit(d->e, &run, emit(d));
		if (!(i % 1024))
			release(d);
	}
	i -= 2 * BIO_BLOCKS;
	if (d->e->ops->map.discard(d->e, i / 4096 * 7680 + i % 4096, BIO_BLOCKS, &done, &dropped,
				   emit(d)))
		die("nothing can be forgotten");
	release(d);
	write_at(d, 7 * 512, 1);
	d->e->ops->destroy(d->e);
}

/*
 * The largest flash block, with a journal that allows as many records in a step: all its pages hold
 * blocks of one band, no two of them adjacent, the last block first.
 */
static void hold_pages(struct device *d)
{
	const struct shingle_exercise_shape shape = {
		.band_blocks = 7680, .data_bands = 64, .staging_bands = 1, .cache_bands = 1,
		.track_blocks = 512, .head_tracks = 3, .cache_band_blocks = 1024,
		.cache_apart = true,
	};
	struct rmwf_params p = { .page_blocks = cpu_to_le32(1024) };
	u32 i;

	shingle_exercise_layout(&d->l, &rmwf_engine_ops, &shape, &p, sizeof(p));
	d->l.journal.blocks = 16384;
	create_there(d, &rmwf_engine_ops);
	ready(d);
	for (i = 0; i < shape.band_blocks; i += BIO_BLOCKS)
		write_at(d, i, BIO_BLOCKS);
	release(d);
	for (i = 1024; i; i--)
		write_at(d, 2 * (i - 1), 1);
	release(d);
	write_at(d, 1, 1);
	while (step(d, SHINGLE_WHY_PRESSURE) > 0)
		;
	forget_all(d);
	d->e->ops->destroy(d->e);
}

int main(int argc, char **argv)
{
	unsigned long bound = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	struct device *d = calloc(1, sizeof(*d));
	int failed;

	if (!d)
		die("out of memory");
	setlinebuf(stdout);
	if (argc > 1 && !strcmp(argv[1], "cost")) {
		costs(d);
		free(d);
		return 0;
	}
	hold_set(d);
	failed = show("stl-set", bound);
	hold_full(d);
	failed |= show("stl-full", bound);
	hold_log(d);
	failed |= show("stl-log", bound);
	hold_imr(d);
	failed |= show("imr", bound);
	hold_tiler(d);
	failed |= show("tiler", bound);
	hold_dual(d);
	failed |= show("dualbuffer", bound);
	hold_rmwf(d);
	hold_pool(d);
	hold_pages(d);
	failed |= show("rmwf", bound);
	free(d);
	return failed;
}
