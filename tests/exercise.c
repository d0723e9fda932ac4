// SPDX-License-Identifier: GPL-2.0
/*
 * Exerciser of engines: pure code.
 *
 * The exerciser drives an engine with random writes, discards, cleaning steps, piecewise
 * checkpoints and power cuts, over a simulated medium whose wide head destroys every block of the
 * tracks after the one it writes.  An interlaced medium also has a write cache, which writes
 * unflushed blocks in any order: the engine can rely on nothing but syncs.  A shingled medium may
 * have a cache that loses the latest writes.  After each read and each cut the exerciser compares
 * the contents with what was promised.
 *
 * The exerciser takes the place of core and calls the engine as engine.h allows.  In particular,
 * host requests come between the parts of what tidy(), release() and verify() do, and a recovered
 * state is compared with one recovered from pieces of the checkpoint written at another moment.
 */
#ifndef __KERNEL__
#include <stdarg.h>
#endif

#include "exercise.h"
#include "pages/pages.h"
#include "format/recover.h"
#include "engine/turns.h"

#define MAX_FLIGHT	4
#define MAX_HISTORY	48
#define JOURNAL		4096U
#define MAX_CHUNKS	512U
#define MAX_DRIVE	48U

/* The content of a block is the number of the write that wrote it, or 0 if it reads as zeroes. */
#define POISON		U32_MAX		/* destroyed by a write to another track */

/**
 * struct model - the allowed contents of a block
 * @now: the content that a read must return
 * @nr: entries in @maybe
 * @maybe: contents that may be found after a power cut; [0] is the last durable one
 */
struct model {
	u32 now;
	u32 nr;
	u32 maybe[MAX_HISTORY];
};

/**
 * struct flight - a write in flight, for which the engine has found a place
 * @used: the entry is in use
 * @run: the logical blocks and their place
 * @first: content of its first block; the next block has the next number
 */
struct flight {
	bool used;
	struct shingle_run run;
	u32 first;
};

/**
 * struct waiting - a write that was refused and will be tried again
 * @lblk: first block
 * @n: length, 0 = none
 * @refusal: result of the last place(): -EBUSY, -ENOSPC or SHINGLE_ABSENT; 0 if it accepted a part
 */
struct waiting {
	u64 lblk;
	u32 n;
	int refusal;
};

/**
 * struct drive - a block in the drive's write cache
 * @pblk: the physical block
 * @content: its content
 */
struct drive {
	u64 pblk;
	u32 content;
};

struct chunk {
	u64 index;
	u32 bytes;
	u8 payload[SHINGLE_CHUNK_BYTES];
};

/* Are two pieces equal? */
static bool same_piece(const struct chunk *a, const struct chunk *b)
{
	return a->bytes == b->bytes && !memcmp(a->payload, b->payload, a->bytes);
}

/**
 * struct exercise - state of a run
 * @plan: the parameters
 * @res: the result
 * @e: the engine
 * @rng: state of the random numbers
 * @calm: factor by which power cuts are rarer than by default
 * @good: one in @good writes fails
 * @early_release: free space is released as soon as possible, mostly before anything new is durable
 * @caching: the drive has a write cache
 * @quiet: the host starts nothing at present
 * @stamp: number of the last write
 * @stream: end of the last sequential write
 * @medium: contents of each device
 * @kept: for each device and block, 1 + the logical block that recovery would read there; 0: none
 * @drive: blocks in the drive's cache, in the order in which they were written
 * @nr_drive: number of entries in @drive
 * @dirty: for each logical block, content that was gathered, 0 if none
 * @frozen: for each logical block, content in the open epoch, 0 if none
 * @model: the allowed contents of each logical block
 * @flight: writes in flight
 * @waiting: writes that were refused
 * @rec: room for the records of a step
 * @journal: all records since the last checkpoint began
 * @nr_records: number of records in @journal
 * @durable: number of records in @journal that are durable
 * @seq: number of the open transaction
 * @ckpt: by number of the piece, its newest content in the checkpoints so far
 * @order: numbers of these pieces, in the order in which they were written
 * @nr_ckpt: number of entries in @order
 * @ckpt_from: first record of @journal to replay after loading @ckpt
 * @next: pieces of the checkpoint in progress
 * @nr_next: number of pieces in @next so far
 * @all: the checkpoint contains all pieces, not only changed ones
 * @loaded: no checkpoint of this engine has been taken yet
 * @next_from: @ckpt_from once the checkpoint in progress is complete
 * @cursor: position of the checkpoint in progress, U64_MAX if there is none
 * @store: for each page, the contents of its two places
 * @places: places of the pages according to the last footer
 * @next_places: places of the pages according to the next footer
 * @page_cursor: where the checkpoint in progress looks for changed pages, SHINGLE_NO_PAGE
 *	when it has written them all
 * @places_cursor: the next piece of the places in the checkpoint in progress
 * @damaging: reads of pages return damaged content
 * @damage_seed: selects the damage
 * @walk: position of verify(), 0 at the beginning
 * @failures: consecutive steps that failed because a block cannot be written, and from which
 *	the engine learnt nothing
 */
struct exercise {
	const struct shingle_exercise_plan *plan;
	struct shingle_exercise_result *res;
	struct shingle_engine *e;
	u32 rng;
	u32 calm;
	u32 good;
	bool early_release;
	bool caching;
	bool quiet;
	u32 stamp;
	u64 stream;
	u32 *medium[SHINGLE_NR_DEVS];
	u32 *kept[SHINGLE_NR_DEVS];
	struct drive drive[MAX_DRIVE];
	u32 nr_drive;
	u32 *dirty;
	u32 *frozen;
	struct model *model;
	struct flight flight[MAX_FLIGHT];
	struct waiting waiting[MAX_FLIGHT];
	struct shingle_record *rec;
	struct shingle_record *journal;
	u32 nr_records;
	u32 durable;
	u64 seq;
	struct chunk *ckpt;
	u32 *order;
	u32 nr_ckpt;
	u32 ckpt_from;
	struct chunk *next;
	u32 nr_next;
	bool all;
	bool loaded;
	u32 next_from;
	u64 cursor;
	struct shingle_chunk *store;
	u8 *places;
	u8 *next_places;
	u32 page_cursor;
	u64 places_cursor;
	bool damaging;
	u32 damage_seed;
	u64 walk;
	u32 failures;
};

static u32 rnd(struct exercise *x, u32 below)
{
	x->rng ^= x->rng << 13;
	x->rng ^= x->rng >> 17;
	x->rng ^= x->rng << 5;
	return x->rng % below;
}

/* A 32-bit kernel has no 64-bit % operator. */
static u32 rest(u64 a, u32 b)
{
	u32 rem;

	div_u64_rem(a, b, &rem);
	return rem;
}

static int fail(struct exercise *x, const char *fmt, ...) __printf(2, 3);
static int fail(struct exercise *x, const char *fmt, ...)
{
	va_list args;

	if (!x->res->error[0]) {
		va_start(args, fmt);
		vsnprintf(x->res->error, sizeof(x->res->error), fmt, args);
		va_end(args);
	}
	return -EUCLEAN;
}

/* ------------------------------------------------------------------------
 * The medium
 */

/*
 * Return the index of the first of @n blocks that cannot be written; @n if all can.  The seed
 * determines the worn blocks, so that a block stays worn for the whole run.
 */
static u32 first_worn(const struct exercise *x, u64 pblk, u32 n)
{
	enum shingle_role role, where = x->plan->layout->nr_bands[SHINGLE_ROLE_CACHE] ?
					SHINGLE_ROLE_CACHE : SHINGLE_ROLE_DATA;
	u64 band, offset;
	u32 i;

	for (i = 0; x->plan->worn && i < n; i++) {
		u32 hash = ((u32)pblk + i + x->plan->seed) * 2654435761U;

		if (shingle_band_of(x->plan->layout, pblk + i, &role, &band, &offset) &&
		    role == where && !((hash >> 8) % x->plan->worn))
			return i;
	}
	return n;
}

static u32 *cell(struct exercise *x, u64 pblk)
{
	return &x->medium[shingle_pblk_dev(pblk)][shingle_pblk_block(pblk)];
}

static void destroy_and_write(struct exercise *x, u64 pblk, u32 content)
{
	const struct shingle_layout *l = x->plan->layout;
	struct shingle_windows it;
	struct shingle_window w;
	u64 i;

	*cell(x, pblk) = content;
	shingle_windows_begin(&it, l, pblk, 1);
	while (shingle_windows_next(&it, &w)) {
		for (i = w.from; i < w.from + w.blocks; i++) {
			if (shingle_pblk_block(i) < l->dev_blocks[shingle_pblk_dev(i)] &&
			    *cell(x, i) != POISON) {
				*cell(x, i) = POISON;
				x->res->destroyed++;
			}
		}
	}
}

/*
 * The drive moves a block from its cache to the medium: an interlaced drive the oldest version of a
 * random block, a shingled one the oldest entry.
 */
static void drive_writes(struct exercise *x)
{
	u32 which = x->plan->layout->interlaced ? rnd(x, x->nr_drive) : 0, i;

	for (i = 0; x->drive[i].pblk != x->drive[which].pblk; i++)
		;
	destroy_and_write(x, x->drive[i].pblk, x->drive[i].content);
	x->nr_drive--;
	memmove(&x->drive[i], &x->drive[i + 1], (x->nr_drive - i) * sizeof(x->drive[0]));
}

static void drive_flush(struct exercise *x)
{
	while (x->nr_drive)
		drive_writes(x);
}

/*
 * Checks rule R0 independently of the engine's referenced(): a write must not destroy a block in
 * which the map that recovery would rebuild now has content, except an older version of the same
 * block.
 */
static void check_kept(struct exercise *x, u64 pblk, u64 lblk)
{
	const struct shingle_layout *l = x->plan->layout;
	u32 *kept = x->kept[shingle_pblk_dev(pblk)];
	struct shingle_windows it;
	struct shingle_window w;
	u64 i;

	if (!kept)
		return;
	i = shingle_pblk_block(pblk);
	if (kept[i] && kept[i] != lblk + 1)
		fail(x, "block %u is written over before it is durably elsewhere", kept[i] - 1);
	shingle_windows_begin(&it, l, pblk, 1);
	while (shingle_windows_next(&it, &w)) {
		for (i = w.from; i < w.from + w.blocks; i++) {
			if (shingle_pblk_block(i) >= l->dev_blocks[shingle_pblk_dev(i)])
				break;
			if (kept[shingle_pblk_block(i)])
				fail(x, "block %u is destroyed before it is durably elsewhere",
				     kept[shingle_pblk_block(i)] - 1);
		}
	}
}

static void medium_write(struct exercise *x, u64 pblk, u64 lblk, u32 content)
{
	check_kept(x, pblk, lblk);
	if (!x->caching) {
		destroy_and_write(x, pblk, content);
		return;
	}
	if (x->nr_drive == MAX_DRIVE)
		drive_writes(x);
	x->drive[x->nr_drive].pblk = pblk;
	x->drive[x->nr_drive++].content = content;
}

static u32 medium_read(struct exercise *x, u64 pblk)
{
	u32 i;

	for (i = x->nr_drive; i; i--) {
		if (x->drive[i - 1].pblk == pblk)
			return x->drive[i - 1].content;
	}
	return *cell(x, pblk);
}

static int check_window(struct exercise *x, u64 pblk, u32 n, const char *who)
{
	if (shingle_would_destroy(x->plan->layout, x->e, pblk, n))
		return fail(x, "%s at %llu would destroy blocks in use", who,
			    (unsigned long long)shingle_pblk_block(pblk));
	return 0;
}

/* ------------------------------------------------------------------------
 * Pages of the map
 */

static void checkpoint_some(struct exercise *x);
static void damage(struct exercise *x, void *buf, u32 bytes);

static u64 nr_pages(const struct exercise *x)
{
	const struct shingle_engine_ops *ops = x->plan->ops;

	return ops->pages.nr_pages ? ops->pages.nr_pages(x->plan->layout) : 0;
}

static int read_store(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf)
{
	struct exercise *x = ctx;
	struct shingle_chunk *c = buf;
	u32 at = block - x->plan->layout->pages.start, rng = x->rng;

	memcpy(buf, &x->store[at], (size_t)n * SHINGLE_BLOCK_SIZE);
	if (!x->damaging)
		return 0;
	/* The same damage at each read. */
	x->rng = (x->damage_seed + at) * 2654435761U | 1;
	damage(x, c->payload, 64);
	x->rng = rng;
	shingle_page_seal(x->plan->layout, c, at / 2, at % 2 ? SHINGLE_PAGE_B : SHINGLE_PAGE_A, 1);
	return 0;
}

static struct shingle_reader store_reader(struct exercise *x)
{
	return (struct shingle_reader){ .read = read_store, .ctx = x };
}

/* Read all pages that the engine has asked for, from the places of the last valid checkpoint. */
static void read_pages(struct exercise *x)
{
	const struct shingle_layout *l = x->plan->layout;
	struct shingle_pages *p = x->e->pages;
	enum shingle_page_place place;
	struct shingle_frame *f;
	u32 i;
	int err;

	while (p && (i = shingle_pages_wanted(p)) != SHINGLE_NO_PAGE) {
		f = &p->frames.frame[i];
		place = shingle_place_of(p->places.now, f->nr);
		read_store(x, shingle_meta_dev(l), shingle_page_block(l, f->nr, place), 1,
			   f->block);
		err = shingle_page_check(l, x->e, f->block, f->nr, place);
		if (err)
			fail(x, "page %u is read as it was not written", f->nr);
		shingle_pages_here(p, i, err);
		x->res->pages_read++;
	}
}

/*
 * The engine lacks a page or a frame for it: read the page, or make room by a checkpoint.  Return
 * whether the caller repeats the operation now.  Otherwise it waits; while the host is quiet it
 * always repeats, because nothing else would wake it.
 */
static bool see_to(struct exercise *x)
{
	int err = shingle_pages_ask(x->e->pages);
	u32 limit = 8 + 8 * MAX_CHUNKS;

	if (!err) {
		if (x->quiet || rnd(x, 2))
			read_pages(x);
		return x->quiet || rnd(x, 2);
	}
	if (err != -EBUSY && err != -EAGAIN) {
		fail(x, "a page that was never lost is");
		return false;
	}
	x->res->limit_ckpts++;
	read_pages(x);
	do
		checkpoint_some(x);
	while (x->quiet && x->cursor != U64_MAX && --limit);
	return x->quiet;
}

/*
 * End a call of the engine on behalf of @client; @absent: the engine lacked a page or a frame.
 * Return whether the caller repeats the call now.
 */
static bool asked(struct exercise *x, enum shingle_page_client client, bool absent)
{
	bool again = absent && see_to(x);

	/* see_to() may have taken a checkpoint, which sets another client. */
	if (x->e->pages)
		x->e->pages->call.client = client;
	shingle_pages_end(x->e, absent);
	return again;
}

/* Count an attempt; report an error if the operation seems never to end. */
static bool too_often(struct exercise *x, u32 *tries)
{
	if (++*tries < 64)
		return false;
	fail(x, "a page is never there when it is needed");
	return true;
}

static enum shingle_page_client host(const struct exercise *x)
{
	return x->quiet ? SHINGLE_CLIENT_IO : SHINGLE_CLIENT_FAST;
}

/*
 * Ask the engine for a step: for the reason that @t chooses and *@why returns, or without @t for
 * *@why.  -EAGAIN also stands for a step that lacks a page; the engine offers it again later.
 */
static int take_turn(struct exercise *x, struct shingle_turns *t, enum shingle_why *why,
		     struct shingle_step *step)
{
	u32 tries = 0;
	bool again;
	int r;

	do {
		shingle_pages_begin(x->e, SHINGLE_CLIENT_CLEAN);
		r = t ? shingle_take_turn(x->e, t, step, why) :
			x->plan->ops->clean.next_step(x->e, *why, step);
		again = asked(x, SHINGLE_CLIENT_CLEAN, r == SHINGLE_ABSENT);
	} while (again && !too_often(x, &tries));
	return r == SHINGLE_ABSENT ? -EAGAIN : r;
}

static int next_step(struct exercise *x, enum shingle_why why, struct shingle_step *step)
{
	return take_turn(x, NULL, &why, step);
}

static void resolve(struct exercise *x, u64 lblk, u32 n, struct shingle_run *run)
{
	struct shingle_pages *p = x->e->pages;
	u32 tries = 0;
	int err;

	for (;;) {
		x->plan->ops->map.resolve(x->e, lblk, n, run);
		if (run->kind != SHINGLE_RUN_ABSENT)
			return;
		read_pages(x);
		err = shingle_pages_ask(p);
		/* The walk of verify() keeps the frames that the read needs. */
		if (err == -EAGAIN)
			shingle_pages_drop(p, SHINGLE_CLIENT_VERIFY);
		if ((err && err != -EAGAIN) || too_often(x, &tries)) {
			fail(x, "a read finds no frame for its page");
			return;
		}
		read_pages(x);
	}
}

/*
 * A part of a checkpoint: write some of the changed pages, each to the place that the last valid
 * checkpoint does not use.
 */
static void checkpoint_pages(struct exercise *x)
{
	const struct shingle_layout *l = x->plan->layout;
	struct shingle_pages *p = x->e->pages;
	enum shingle_page_place place;
	struct shingle_chunk *c;
	u32 nr[4], n, i;

	n = shingle_pages_dirty(p, &x->page_cursor, nr, 1 + rnd(x, ARRAY_SIZE(nr)));
	for (i = 0; i < n; i++) {
		place = shingle_place_other(shingle_place_of(p->places.now, nr[i]));
		c = &x->store[2 * nr[i] + (place == SHINGLE_PAGE_B)];
		shingle_pages_copy(p, nr[i], c->payload);
		if (shingle_place_of(p->places.next, nr[i]) != place ||
		    shingle_place_of(x->places, nr[i]) == place)
			fail(x, "page %u is written over the one that counts", nr[i]);
		shingle_page_seal(l, c, nr[i], place, 1);
	}
}

/* Take the next piece that says at which of its two places each page is; false if none is left. */
static bool checkpoint_places(struct exercise *x)
{
	u8 *buf = x->next[MAX_CHUNKS].payload;
	u64 index;
	u32 bytes;

	if (!nr_pages(x))
		return false;
	if (!x->places_cursor)
		memcpy(x->next_places, x->places, DIV_ROUND_UP(nr_pages(x), 4));
	if (!x->places_cursor && x->all)
		memset(x->next_places, 0, DIV_ROUND_UP(nr_pages(x), 4));
	if (shingle_places_encode_next(x->e->pages, x->all, &x->places_cursor, &index, buf,
				       &bytes)) {
		memset(x->next_places, 0, DIV_ROUND_UP(nr_pages(x), 4));
		memcpy(x->next_places, buf, bytes);
	}
	return x->places_cursor != SHINGLE_NOWHERE;
}

static void checkpoint_counts(struct exercise *x)
{
	u32 cursor = 0;

	if (!nr_pages(x))
		return;
	memcpy(x->places, x->next_places, DIV_ROUND_UP(nr_pages(x), 4));
	while (shingle_pages_written(x->e->pages, &cursor, true))
		;
}

/* After a cut the unused place of a page may hold any part of an unfinished checkpoint's write. */
static void tear_pages(struct exercise *x)
{
	u64 i;

	for (i = 0; i < nr_pages(x); i++) {
		u32 side = shingle_place_of(x->places, i) == SHINGLE_PAGE_A;

		if (!rnd(x, 4))
			x->store[2 * i + side].payload[rnd(x, SHINGLE_CHUNK_BYTES)]++;
	}
}

/* ------------------------------------------------------------------------
 * The journal
 */

static void take_records(struct exercise *x, const struct shingle_emit *emit)
{
	u32 i;

	for (i = 0; i < emit->nr && x->nr_records < JOURNAL; i++)
		x->journal[x->nr_records++] = emit->rec[i];
}

/* Content of a block on the medium according to the map; gathered content is not considered. */
static u32 mapped_content(struct exercise *x, u64 lblk)
{
	struct shingle_run run;

	resolve(x, lblk, 1, &run);
	return run.kind == SHINGLE_RUN_MAPPED ? medium_read(x, run.pblk) : 0;
}

/*
 * Release space as far as that is safe by now, or only a part of it, so that other operations come
 * between the parts.
 */
static void release_some(struct exercise *x)
{
	while (x->plan->ops->clean.release(x->e, x->seq - 1) && rnd(x, 2))
		;
}

/* Record for check_kept() where recovery would read each block from now on. */
static void note_kept(struct exercise *x)
{
	const struct shingle_layout *l = x->plan->layout;
	struct shingle_run run;
	u64 lblk;
	u32 i;

	if (!x->kept[SHINGLE_DEV_DATA])
		return;
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (x->kept[i])
			memset(x->kept[i], 0, l->dev_blocks[i] * sizeof(u32));
	}
	for (lblk = 0; lblk < l->logical_blocks; lblk += max(run.n, 1U)) {
		resolve(x, lblk, l->logical_blocks - lblk, &run);
		for (i = 0; run.kind == SHINGLE_RUN_MAPPED && i < run.n; i++)
			x->kept[shingle_pblk_dev(run.pblk)][shingle_pblk_block(run.pblk) + i] =
				lblk + i + 1;
	}
}

static void make_durable(struct exercise *x)
{
	u32 i;

	drive_flush(x);
	/* As in core: a commit without records makes no transaction, and frees nothing. */
	x->seq += x->durable != x->nr_records;
	x->durable = x->nr_records;
	for (i = 0; i < x->plan->layout->logical_blocks; i++) {
		struct model *m = &x->model[i];

		m->nr = 1;
		m->maybe[0] = m->now;
		if (!x->dirty[i] && !x->frozen[i])
			continue;
		m->maybe[0] = mapped_content(x, i);
		if (x->frozen[i])
			m->maybe[m->nr++] = x->frozen[i];
		if (x->dirty[i])
			m->maybe[m->nr++] = x->dirty[i];
	}
	note_kept(x);
	/* After a cut, the data of writes in flight may be there or not. */
	for (i = 0; i < MAX_FLIGHT; i++) {
		struct flight *f = &x->flight[i];
		u32 j;

		for (j = 0; f->used && j < f->run.n; j++) {
			struct model *m = &x->model[f->run.lblk + j];

			m->maybe[m->nr++] = f->first + j;
		}
	}
	/* A reader may delay the release. */
	if (!rnd(x, 2 * x->calm))
		release_some(x);
}

static void may_be(struct exercise *x, u64 lblk, u32 content)
{
	struct model *m = &x->model[lblk];

	if (m->nr == MAX_HISTORY)
		make_durable(x);
	m->maybe[m->nr++] = content;
}

/* ------------------------------------------------------------------------
 * Operations
 */

/* Content that the host would read: gathered content before that of the open epoch and the map. */
static u32 content_of(struct exercise *x, u64 lblk)
{
	return x->dirty[lblk] ?: x->frozen[lblk] ?: mapped_content(x, lblk);
}

static bool in_one_band(struct exercise *x, const struct shingle_run *run)
{
	const struct shingle_layout *l = x->plan->layout;
	enum shingle_role role[2];
	u64 band[2], offset;

	return shingle_band_of(l, run->pblk, &role[0], &band[0], &offset) &&
	       shingle_band_of(l, run->pblk + run->n - 1, &role[1], &band[1], &offset) &&
	       role[0] == role[1] && band[0] == band[1];
}

static int check_block(struct exercise *x, u64 lblk)
{
	struct shingle_run run;
	u32 content;

	resolve(x, lblk, x->plan->layout->logical_blocks - lblk, &run);
	if (run.lblk != lblk || !run.n)
		return fail(x, "block %llu resolves to an empty run", (unsigned long long)lblk);
	if (run.kind != SHINGLE_RUN_ZERO && !in_one_band(x, &run))
		return fail(x, "block %llu is in a run that is in no band or in several",
			    (unsigned long long)lblk);
	content = content_of(x, lblk);
	if (content != x->model[lblk].now)
		return fail(x, "block %llu holds write %u, not %u", (unsigned long long)lblk,
			    content, x->model[lblk].now);
	return 0;
}

static int check_all(struct exercise *x)
{
	u64 i;

	for (i = 0; i < x->plan->layout->logical_blocks; i++) {
		if (check_block(x, i))
			return -EUCLEAN;
	}
	return 0;
}

/* The engine lets core gather this write: the host has its acknowledgment at once. */
static void gather_write(struct exercise *x, struct flight *f)
{
	u32 i;

	for (i = 0; i < f->run.n; i++) {
		u64 lblk = f->run.lblk + i;

		may_be(x, lblk, ++x->stamp);
		x->dirty[lblk] = x->stamp;
		x->model[lblk].now = x->stamp;
	}
	x->res->gathered += f->run.n;
}

/* Is any of these blocks gathered, or part of the open epoch? */
static bool gathered(const struct exercise *x, u64 lblk, u64 n)
{
	for (; n; n--, lblk++) {
		if (x->dirty[lblk] || x->frozen[lblk])
			return true;
	}
	return false;
}

/*
 * Have the engine place a write.  Return 0 if it placed or gathered the first f->run.n blocks; 1 if
 * the write has to wait, with the reason in *@refusal; SHINGLE_FULL if the host gets an error;
 * -EUCLEAN if the engine broke a rule.
 */
static int place(struct exercise *x, u64 lblk, u32 n, struct flight *f, int *refusal)
{
	u32 i, tries = 0;
	int r = SHINGLE_GATHER;
	bool again = true;

	/* Gathered blocks are newer than what is on the medium. */
	f->run.lblk = lblk;
	if (gathered(x, lblk, n))
		f->run.n = min_t(u64, n, x->e->gather_blocks - rest(lblk, x->e->gather_blocks));
	else
		r = SHINGLE_ABSENT;
	while (r == SHINGLE_ABSENT && again && !too_often(x, &tries)) {
		shingle_pages_begin(x->e, host(x));
		r = x->plan->ops->map.place(x->e, lblk, n, rnd(x, SHINGLE_NR_LIVES), &f->run);
		again = asked(x, host(x), r == SHINGLE_ABSENT);
	}
	if (r == SHINGLE_GATHER && f->run.n && f->run.n <= n) {
		gather_write(x, f);
		return 0;
	}

	if (r == -ENOSPC || r == -EBUSY || r == SHINGLE_ABSENT) {
		*refusal = r;
		return 1;
	}
	if (r == SHINGLE_FULL) {
		x->res->refused++;
		return r;
	}
	if (r || f->run.lblk != lblk || !f->run.n || f->run.n > n)
		return fail(x, "placing %u blocks at %llu failed (%d)", n,
			    (unsigned long long)lblk, r);
	if (check_window(x, f->run.pblk, f->run.n, "write"))
		return -EUCLEAN;
	f->used = true;
	f->first = x->stamp + 1;
	x->stamp += f->run.n;
	for (i = 0; i < f->run.n; i++)
		may_be(x, lblk + i, f->first + i);
	return 0;
}

/*
 * Try a waiting write again.  The part that the engine does not accept goes on waiting; a full
 * engine ends the write.  Return 0, or -EUCLEAN if the engine broke a rule.
 */
static int retry(struct exercise *x, struct waiting *w, struct flight *f)
{
	int r;

	w->refusal = 0;
	r = place(x, w->lblk, w->n, f, &w->refusal);
	if (r == SHINGLE_FULL) {
		w->n = 0;
		return 0;
	}
	if (!r) {
		w->lblk += f->run.n;
		w->n -= f->run.n;
	}
	return min(r, 0);
}

/* A new write of one block, at a random place. */
static struct waiting anywhere(struct exercise *x)
{
	return (struct waiting){ .lblk = rnd(x, x->plan->layout->logical_blocks), .n = 1 };
}

/* Try a waiting write, or start one: half of them or more continue a sequential stream. */
static int start_write(struct exercise *x)
{
	const struct shingle_layout *l = x->plan->layout;
	struct waiting *w = &x->waiting[rnd(x, MAX_FLIGHT)];
	struct flight *f = &x->flight[rnd(x, MAX_FLIGHT)];
	bool stream = rnd(x, x->plan->seed % 4 ? 2 : 12);
	u32 band = l->band_blocks[SHINGLE_ROLE_DATA];

	if (f->used)
		return 0;
	if (!w->n) {
		w->lblk = stream ? x->stream : rnd(x, l->logical_blocks);
		w->n = min_t(u64, 1 + rnd(x, rnd(x, 4) ? 3 : 2 * band),
			     l->logical_blocks - w->lblk);
		if (stream)
			x->stream = w->lblk + w->n < l->logical_blocks ? w->lblk + w->n : 0;
		if (stream && !rnd(x, 64))
			x->stream = rnd(x, l->logical_blocks) / band * band;
	}
	return retry(x, w, f);
}

static void end_write(struct exercise *x, struct flight *f, bool good)
{
	struct shingle_record rec[16];
	struct shingle_emit emit = { .rec = rec, .max = x->plan->ops->commit_records,
				     .seq = x->seq };
	u32 worn = first_worn(x, f->run.pblk, f->run.n), i, n;

	good = good && worn == f->run.n;
	n = good ? f->run.n : min(rnd(x, f->run.n + 1), worn);
	for (i = 0; i < n; i++)
		medium_write(x, f->run.pblk + i, f->run.lblk + i, f->first + i);
	f->used = false;
	if (!good) {
		x->plan->ops->map.abort(x->e, &f->run);
		/* A write in place may have been done in part. */
		for (i = 0; i < n; i++) {
			if (content_of(x, f->run.lblk + i) == f->first + i)
				x->model[f->run.lblk + i].now = f->first + i;
		}
		return;
	}
	x->res->writes += n;
	x->plan->ops->map.commit(x->e, &f->run, &emit);
	take_records(x, &emit);
	/* If writes overlap in time, either may win: find out which one has. */
	for (i = 0; i < n; i++) {
		struct model *m = &x->model[f->run.lblk + i];

		if (m->now < f->first + i || content_of(x, f->run.lblk + i) == f->first + i)
			m->now = f->first + i;
	}
}

/* Core holds a write back while an earlier one could still destroy it (rule R1). */
static bool held_back(struct exercise *x, const struct flight *f)
{
	struct shingle_windows it;
	struct shingle_window w;
	u32 i;

	for (i = 0; i < MAX_FLIGHT; i++) {
		const struct flight *g = &x->flight[i];

		if (!g->used || g->first >= f->first)
			continue;
		shingle_windows_begin(&it, x->plan->layout, g->run.pblk, g->run.n);
		while (shingle_windows_next(&it, &w)) {
			if (f->run.pblk < w.from + w.blocks &&
			    w.from < f->run.pblk + f->run.n)
				return true;
		}
	}
	return false;
}

static void end_some_write(struct exercise *x)
{
	struct flight *f = &x->flight[rnd(x, MAX_FLIGHT)];

	if (f->used && !held_back(x, f))
		end_write(x, f, rnd(x, x->good));
}

/*
 * Discard the blocks from @lblk on, at most @n.  Return how many the engine has discarded, 0 if the
 * discard has to wait, or -EUCLEAN.  A full engine refuses all @n, and they count as done.
 */
static int forget_some(struct exercise *x, u64 lblk, u64 n)
{
	struct shingle_record rec[16];
	struct shingle_emit emit = { .rec = rec, .max = x->plan->ops->discard_records,
				     .seq = x->seq };
	bool dropped = false, again;
	u64 done = 0, i;
	u32 tries = 0;
	int r;

	do {
		shingle_pages_begin(x->e, host(x));
		r = x->plan->ops->map.discard(x->e, lblk, n, &done, &dropped, &emit);
		again = asked(x, host(x), r == SHINGLE_ABSENT);
	} while (again && !too_often(x, &tries));
	if (r == -EBUSY || r == SHINGLE_ABSENT)
		return 0;
	if (r == SHINGLE_FULL) {
		x->res->refused++;
		return n;
	}
	if (r || !done || done > n)
		return fail(x, "cannot discard %llu blocks at %llu (%d)",
			    (unsigned long long)n, (unsigned long long)lblk, r);
	take_records(x, &emit);
	/* Gathered blocks and writes in flight are newer than the discard. */
	for (i = lblk; dropped && i < lblk + done; i++) {
		x->model[i].now = x->dirty[i] ?: x->frozen[i];
		may_be(x, i, 0);
	}
	return done;
}

static int forget(struct exercise *x)
{
	const struct shingle_layout *l = x->plan->layout;
	u32 band = l->band_blocks[SHINGLE_ROLE_DATA];
	u64 lblk = rnd(x, l->logical_blocks);

	if (rnd(x, 2))
		lblk -= rest(lblk, band);
	return min(forget_some(x, lblk, min_t(u64, 1 + rnd(x, 3 * band),
					      l->logical_blocks - lblk)), 0);
}

/* Send the engine a message that sets the level of some tracks. */
static int query(struct exercise *x)
{
	u64 units = div_u64(x->plan->layout->logical_blocks, x->e->gather_blocks);
	u32 first = rnd(x, units), n = 1 + rnd(x, units - first);
	struct shingle_record rec[16];
	struct shingle_emit emit = { .rec = rec, .max = x->plan->ops->discard_records,
				     .seq = x->seq };
	char word[3][12], *argv[] = { "level", word[0], word[1], word[2] };
	const char *why = "";
	u64 done = 0;

	snprintf(word[0], sizeof(word[0]), "%u", first);
	snprintf(word[1], sizeof(word[1]), "%u", n);
	snprintf(word[2], sizeof(word[2]), "%u", rnd(x, 4));
	if (x->plan->ops->observe.message(x->e, 4, argv, &done, &emit, &why))
		return fail(x, "level %u %u is refused: %s", first, n, why);
	take_records(x, &emit);
	return 0;
}

/* Set a random key of the plan, or send the engine a message if it takes any. */
static int turn(struct exercise *x)
{
	const char *const *key = x->plan->turns, *why = "";
	u32 n = 0;

	while (key && key[n])
		n += 2;
	if (!n)
		return 0;
	if (x->plan->ops->observe.message && !rnd(x, 4))
		return query(x);
	key += rnd(x, n / 2) * 2;
	if (shingle_set(x->e, key[0], key[1], &why))
		return fail(x, "cannot set %s %s: %s", key[0], key[1], why);
	return 0;
}

static void checkpoint_if_full(struct exercise *x);
static int verify_part(struct exercise *x);

/* The host and checkpoints go on during a step. */
static int meanwhile(struct exercise *x)
{
	checkpoint_if_full(x);
	if (!rnd(x, 4))
		read_pages(x);
	switch (rnd(x, x->quiet ? 2 : 12)) {
	case 0:
		return x->quiet ? 0 : start_write(x);
	case 1:
		end_some_write(x);
		return 0;
	case 2:
		return forget(x);
	case 3:
		checkpoint_some(x);
		return 0;
	case 4:
		return check_block(x, rnd(x, x->plan->layout->logical_blocks));
	case 5:
		if (!rnd(x, 4))
			make_durable(x);
		return 0;
	case 6:
		return rnd(x, 16) ? 0 : turn(x);
	case 7:
		/* Space that this step frees is not released yet. */
		release_some(x);
		return 0;
	case 8:
		return verify_part(x);
	default:
		return 0;
	}
}

/* Get the next extent of a step that has blocks; false if there is none. */
static bool next_extent(struct exercise *x, const struct shingle_step *step, u64 *cursor,
			struct shingle_extent *ext)
{
	do {
		if (!shingle_step_extent(x->e, step, cursor, ext))
			return false;
	} while (!ext->n);
	return true;
}

/*
 * Check a step before it is carried out: its extents lie in bands, in ascending order and have
 * step->n blocks in all; writing them overwrites and destroys no block in use, and destroys no
 * block that the step itself has written.
 */
static int check_step(struct exercise *x, const struct shingle_step *step, const char *who)
{
	struct shingle_extent ext;
	struct shingle_run run;
	u64 cursor = 0, end = 0;
	u32 n = 0;

	while (next_extent(x, step, &cursor, &ext)) {
		run.pblk = ext.dst;
		run.n = ext.n;
		if (ext.dst < end || !in_one_band(x, &run))
			return fail(x, "%s has a destination in no band, or out of order", who);
		if (step->gathered != SHINGLE_GATHERED_ONLY &&
		    shingle_in_use(x->plan->layout, x->e, ext.dst, ext.n))
			return fail(x, "%s would write over blocks in use", who);
		if (check_window(x, ext.dst, ext.n, who))
			return -EUCLEAN;
		if (shingle_step_would_destroy(x->plan->layout, x->e, step, &ext))
			return fail(x, "%s at %llu would destroy what it writes itself", who,
				    (unsigned long long)shingle_pblk_block(ext.dst));
		end = ext.dst + ext.n;
		n += ext.n;
	}
	if (n != step->n)
		return fail(x, "%s has extents of %u blocks, not %u", who, n, step->n);
	return 0;
}

/*
 * Collect the new contents of blocks [@from, @from + @n) of an extent as core does: read the source
 * extent, replace what step_source() finds elsewhere, and then what the open epoch holds.
 */
static void gather(struct exercise *x, const struct shingle_step *step,
		   const struct shingle_extent *ext, u32 from, u32 n, u32 *buf)
{
	struct shingle_run run;
	u32 at = from, i;

	for (i = 0; i < n; i++) {
		if (ext->src == SHINGLE_NOWHERE)
			buf[i] = 0;
		else if (step->read_blocks && from + i >= step->read_blocks)
			buf[i] = POISON;
		else
			buf[i] = medium_read(x, ext->src + from + i);
	}
	if (step->scattered)
		return;
	while (at < from + n && x->plan->ops->clean.step_source(x->e, step, at, &run) &&
	       run.lblk < from + n) {
		for (at = run.lblk; at < min_t(u64, run.lblk + run.n, from + n); at++)
			buf[at - from] = run.kind != SHINGLE_RUN_MAPPED ? 0 :
					 medium_read(x, run.pblk + at - run.lblk);
	}
	for (i = 0; step->gathered && i < n; i++)
		buf[i] = x->frozen[step->lblk + from + i] ?: buf[i];
}

/* Write the first @n blocks of a step, and let other operations come between. */
static int copy(struct exercise *x, const struct shingle_step *step, u32 n)
{
	u32 piece = step->whole_in_memory ? step->n : 1 + rnd(x, 6), at, some, i;
	u32 *buf = kvcalloc(max(piece, 1U), sizeof(u32), GFP_KERNEL);
	struct shingle_extent ext;
	int err = buf ? 0 : -ENOMEM;
	u64 cursor = 0;

	while (!err && n && next_extent(x, step, &cursor, &ext)) {
		for (at = 0; !err && n && at < ext.n; at += some) {
			some = min(piece, ext.n - at);
			gather(x, step, &ext, at, some, buf);
			/* During a step that overwrites its own sources core delays readers. */
			if (!step->whole_in_memory)
				err = meanwhile(x);
			for (i = 0; !err && n && i < some; i++, n--) {
				if (step->gathered != SHINGLE_GATHERED_ONLY ||
				    x->frozen[ext.lblk + at + i])
					medium_write(x, ext.dst + at + i,
						     ext.lblk + at + i, buf[i]);
			}
		}
	}
	kvfree(buf);
	return err;
}

/*
 * Core writes a step in parts of this many blocks.  worn_part() finds the first part with a block
 * that cannot be written, and returns the number of blocks before it.
 */
#define PART	8U

static u32 worn_part(struct exercise *x, const struct shingle_step *step,
		     struct shingle_unwritten *bad)
{
	struct shingle_extent ext;
	u64 cursor = 0;
	u32 before = 0, at, n;

	memset(bad, 0, sizeof(*bad));
	while (next_extent(x, step, &cursor, &ext)) {
		for (at = 0; at < ext.n; at += n) {
			n = min(PART, ext.n - at);
			if (first_worn(x, ext.dst + at, n) < n) {
				bad->pblk = ext.dst + at;
				bad->n = n;
				return before + at;
			}
		}
		before += ext.n;
	}
	return before;
}

/* As core's clean/copy.c: write each block of that part alone, and name those that fail. */
static void name_worn(struct exercise *x, struct shingle_unwritten *bad)
{
	u32 i;

	for (i = 0; i < bad->n; i++) {
		if (!first_worn(x, bad->pblk + i, 1))
			bad->block[bad->nr++] = bad->pblk + i;
	}
	bad->proven = bad->nr < bad->n;
}

/*
 * As core's cleaner: give up after three consecutive failures from which the engine learns nothing.
 */
static int fail_step(struct exercise *x, const struct shingle_step *step, u32 n,
		     struct shingle_unwritten *bad)
{
	int err = copy(x, step, n);

	if (err)
		return err;
	name_worn(x, bad);
	x->res->failed_steps++;
	if (!x->plan->ops->clean.step_failed(x->e, step, bad) && ++x->failures == 3)
		return fail(x, "cleaning can make no progress for block %llu",
			    (unsigned long long)shingle_pblk_block(bad->pblk));
	return 0;
}

static int carry_out(struct exercise *x, const struct shingle_step *step)
{
	struct shingle_emit emit = { .rec = x->rec, .max = shingle_step_records(x->e, step) };
	struct shingle_unwritten bad;
	u32 i = worn_part(x, step, &bad);
	int err;

	if (bad.n)
		return fail_step(x, step, i, &bad);
	err = copy(x, step, step->n);
	if (err)
		return err;
	x->failures = step->n ? 0 : x->failures;
	emit.seq = x->seq;
	x->plan->ops->clean.step_done(x->e, step, &emit);
	take_records(x, &emit);
	if (step->gathered)
		memset(x->frozen + step->lblk, 0, step->n * sizeof(*x->frozen));
	while (x->plan->ops->clean.tidy && x->plan->ops->clean.tidy(x->e)) {
		err = meanwhile(x);
		if (err)
			return err;
	}
	x->res->steps++;
	x->res->scattered += step->scattered;
	/* The commit takes time, sometimes much. */
	for (i = rnd(x, rnd(x, 8) ? 4 : 48); !err && i; i--)
		err = meanwhile(x);
	return err;
}

/* Report a failed step without the engine's fault: a read error, or a failed write of an extent. */
static void any_failure(struct exercise *x, const struct shingle_step *step)
{
	struct shingle_unwritten bad = { 0 };
	struct shingle_extent ext;
	u64 cursor = 0;

	if (rnd(x, 2) && next_extent(x, step, &cursor, &ext)) {
		bad.pblk = ext.dst;
		bad.n = ext.n;
	}
	x->plan->ops->clean.step_failed(x->e, step, &bad);
}

/*
 * One cleaning step, if the engine has one.  Return 1 if the caller must cut the power now, in the
 * middle of the step or right after it.
 */
static int clean(struct exercise *x, enum shingle_why why, bool may_cut)
{
	struct shingle_step step;
	int r = next_step(x, why, &step);

	if (r <= 0)
		return r == -EAGAIN ? 0 : r;
	if (!step.whole_in_memory && check_step(x, &step, "cleaning"))
		return -EUCLEAN;
	if (may_cut && step.n && !rnd(x, 8 * x->calm)) {
		r = copy(x, &step, rnd(x, step.n + 1));
		return r ?: 1;
	}
	/* A failed step has no effect, unless it overwrote its own sources. */
	if (!step.whole_in_memory && !rnd(x, 32)) {
		r = copy(x, &step, step.n ? rnd(x, step.n) : 0);
		any_failure(x, &step);
		return r;
	}
	r = carry_out(x, &step);
	if (!r && may_cut && !rnd(x, 16 * x->calm))
		return 1;
	/* Data on which the next step does not depend may become durable much later. */
	if (step.sync == SHINGLE_SYNC_FLUSH)
		drive_flush(x);
	if (step.sync == SHINGLE_SYNC_COMMIT || !rnd(x, 8))
		make_durable(x);
	return r;
}

static void end_all_writes(struct exercise *x);

static bool gathered_frozen(const struct exercise *x)
{
	u64 i;

	for (i = 0; i < x->plan->layout->logical_blocks; i++) {
		if (x->frozen[i])
			return true;
	}
	return false;
}

/* Put some of the gathered blocks into an epoch. */
static void freeze(struct exercise *x)
{
	u64 blocks = x->plan->layout->logical_blocks, lblk = rnd(x, 2) ? rnd(x, blocks) : 0, n;

	for (; lblk < blocks; lblk += n) {
		n = 1;
		if (!x->dirty[lblk])
			continue;
		while (rest(lblk + n, x->e->gather_blocks) && x->dirty[lblk + n])
			n++;
		if (x->plan->ops->gather.epoch_add(x->e, lblk, n))
			return;
		memcpy(x->frozen + lblk, x->dirty + lblk, n * sizeof(*x->frozen));
		memset(x->dirty + lblk, 0, n * sizeof(*x->dirty));
	}
}

/* Give up the rest of an epoch: its blocks are gathered again. */
static void gather_frozen(struct exercise *x)
{
	u64 i;

	x->plan->ops->gather.epoch_end(x->e);
	for (i = 0; i < x->plan->layout->logical_blocks; i++) {
		x->dirty[i] = x->dirty[i] ?: x->frozen[i];
		x->frozen[i] = 0;
	}
}

static int epoch_step(struct exercise *x, const struct shingle_step *step, bool may_cut)
{
	int r;

	if (!step->whole_in_memory && check_step(x, step, "an epoch"))
		return -EUCLEAN;
	if (may_cut && !rnd(x, 32 * x->calm)) {
		r = copy(x, step, step->n ? rnd(x, step->n + 1) : 0);
		return r ?: 1;
	}
	/* A failed step has no effect, unless it overwrote its own sources. */
	if (!step->whole_in_memory && !rnd(x, 64)) {
		r = copy(x, step, step->n ? rnd(x, step->n) : 0);
		any_failure(x, step);
		return r ?: -EAGAIN;
	}
	r = carry_out(x, step);
	if (r || (may_cut && !rnd(x, 64 * x->calm)))
		return r ?: 1;
	if (step->sync == SHINGLE_SYNC_FLUSH)
		drive_flush(x);
	if (step->sync != SHINGLE_SYNC_COMMIT)
		return 0;
	make_durable(x);
	shingle_release_all(x->e, x->seq - 1);
	return 0;
}

/*
 * One epoch: freeze gathered blocks and let the engine write all of them.  A failed step gives the
 * epoch up, and its blocks are gathered again.  Return 1 if the caller must cut the power now.
 */
static int run_epoch(struct exercise *x, bool may_cut)
{
	struct shingle_step step;
	u32 limit = 1000;
	int r;

	freeze(x);
	while ((r = x->plan->ops->clean.next_step(x->e, SHINGLE_WHY_EPOCH, &step))) {
		if (!--limit)
			return fail(x, "an epoch has no end");
		checkpoint_if_full(x);
		if (r == -EAGAIN) {
			end_all_writes(x);
			make_durable(x);
			shingle_release_all(x->e, x->seq - 1);
			continue;
		}
		r = r < 0 ? r : epoch_step(x, &step, may_cut);
		if (!r && !rnd(x, 256))
			r = -EAGAIN;
		if (r == -EAGAIN) {
			gather_frozen(x);
			return 0;
		}
		if (r)
			return r;
	}
	if (gathered_frozen(x))
		return fail(x, "an epoch leaves blocks behind");
	x->plan->ops->gather.epoch_end(x->e);
	x->res->epochs++;
	return 0;
}

/* Do what core does for a flush: epochs until no block is gathered, then a commit. */
static int flush_all(struct exercise *x, bool may_cut)
{
	u32 limit = 100 + 4 * x->plan->layout->logical_blocks;
	int r = 0;

	while (!r && gathered(x, 0, x->plan->layout->logical_blocks)) {
		if (!--limit)
			return fail(x, "a flush has no end");
		r = run_epoch(x, may_cut);
	}
	if (!r)
		make_durable(x);
	return r;
}

static void end_all_writes(struct exercise *x)
{
	u32 i, j;

	/* End the writes that are not held back; the others follow in later rounds. */
	for (i = 0; i < MAX_FLIGHT; i++) {
		for (j = 0; j < MAX_FLIGHT; j++) {
			if (x->flight[j].used && !held_back(x, &x->flight[j]))
				end_write(x, &x->flight[j], true);
		}
	}
}

/* @r is the result of next_step(): carry the step out if there is one, then commit and release. */
static int carry_on(struct exercise *x, int r, const struct shingle_step *step)
{
	checkpoint_if_full(x);
	if (r > 0 && carry_out(x, step))
		return -EUCLEAN;
	make_durable(x);
	shingle_release_all(x->e, x->seq - 1);
	return r;
}

/* Do what core does while a request waits: a step, if there is one, a commit and a release. */
static int help(struct exercise *x, enum shingle_why why)
{
	struct shingle_step step;
	int r = next_step(x, why, &step);

	return carry_on(x, r, &step);
}

/*
 * Writes or a discard were refused, and @busy: one of them got -EBUSY.  Nothing is in flight, so
 * the cleaner must wake them.  Core does that
 *
 * - after a step;
 * - after a release (release_due()), before it asks for a step, or when next_step() returns
 *   -EAGAIN;
 * - if there is nothing to clean and one of them got -ENOSPC (awaits_room):
 *
 *	if (pressure && !turns->pressure) {
 *		*kick |= d->front.awaits_room;
 *
 * In the last case core does not wake a request that got -EBUSY (awaits_write), even if the call of
 * next_step() has removed its reason to wait.  An engine must not rely on another request beside it
 * that got -ENOSPC and causes a retry of all.
 */
static int help_refused(struct exercise *x, bool busy, const char *who)
{
	bool woken = x->plan->ops->clean.pending(x->e);
	struct shingle_step step;
	int r = next_step(x, SHINGLE_WHY_PRESSURE, &step);

	if (r == -EAGAIN)
		woken = woken || x->plan->ops->clean.pending(x->e);
	else
		woken = woken || r > 0 || (!r && !busy);
	r = carry_on(x, r, &step);
	if (!woken || (r < 0 && r != -EAGAIN))
		return fail(x, "%s waits, and nothing is left to wake it", who);
	return 0;
}

/*
 * Write @w waits: try the other waiting writes again, as core does.  If the engine accepts none of
 * them, the cleaner has to wake them.
 */
static int help_waiting(struct exercise *x, const struct waiting *w)
{
	bool busy = w->refusal == -EBUSY, through = false;
	struct flight *f = &x->flight[1];
	u32 i;

	for (i = 0; i < MAX_FLIGHT; i++) {
		if (!x->waiting[i].n)
			continue;
		if (retry(x, &x->waiting[i], f))
			return -EUCLEAN;
		busy |= x->waiting[i].refusal == -EBUSY;
		if (f->used) {
			end_write(x, f, true);
			through = true;
		}
	}
	return through ? 0 : help_refused(x, busy, "a write");
}

/*
 * Does write @i of fill_up() stay in flight?  A write in flight keeps its page, so with pages only
 * the first one stays, and only if there is a frame for each page.
 */
static bool stays(struct exercise *x, u32 i)
{
	const struct shingle_pages *p = x->e->pages;

	return p ? !i && p->frames.nr >= p->nr_pages : !rnd(x, 8);
}

/*
 * Start writes until one has to wait, at most @limit rounds.  Return 1 if some wait, 0 if all found
 * room, -EUCLEAN after an error.  Some may be in flight afterwards.
 */
static int fill_up(struct exercise *x, u64 limit)
{
	bool waits = false, through = true;
	u32 i;

	end_all_writes(x);
	for (; through && limit; limit--) {
		through = false;
		waits = false;
		for (i = 0; i < MAX_FLIGHT; i++) {
			struct waiting *w = &x->waiting[i];
			struct flight *f = &x->flight[i];

			if (f->used)
				continue;
			if (!w->n)
				*w = anywhere(x);
			if (retry(x, w, f))
				return -EUCLEAN;
			if (f->used && !held_back(x, f) && !stays(x, i))
				end_write(x, f, true);
			through |= !w->n;
			waits |= w->n;
			checkpoint_if_full(x);
		}
	}
	return waits;
}

/* A step waits for writes: end them, and write the same blocks again before the cleaner runs. */
static int write_again(struct exercise *x)
{
	struct waiting again[MAX_FLIGHT] = { 0 };
	u32 i;

	for (i = 0; i < MAX_FLIGHT; i++) {
		if (x->flight[i].used)
			again[i] = (struct waiting){ .lblk = x->flight[i].run.lblk, .n = 1 };
	}
	end_all_writes(x);
	for (i = 0; i < MAX_FLIGHT; i++) {
		if (again[i].n && !x->flight[i].used && retry(x, &again[i], &x->flight[i]))
			return -EUCLEAN;
		if (again[i].n && !x->waiting[i].n)
			x->waiting[i] = again[i];
	}
	return 0;
}

/*
 * A requested clean must end although writes find no room all the time (fill_up()), and those
 * writes may not wait for more than one job of the clean in a row.
 */
static int progress_under_load(struct exercise *x, u64 limit)
{
	/* The first clean may only complete one that an earlier operation began. */
	struct shingle_turns t = { .forced_again = true };
	u32 most = 2 * x->plan->layout->logical_blocks, asked = shingle_turns_ask(&t);
	u32 jobs, waited = 0;
	struct shingle_step step;
	enum shingle_why why;
	int r = 0;

	while (!shingle_turns_over(&t, asked)) {
		/* More cleans are requested all the time. */
		shingle_turns_ask(&t);
		/* If the step waits for writes, their end wakes the cleaner and other requests. */
		if (r == -EAGAIN)
			r = write_again(x);
		else
			r = fill_up(x, most);
		if (r == -EUCLEAN)
			return r;
		t.pressure |= r > 0;
		jobs = x->e->jobs;
		r = take_turn(x, &t, &why, &step);
		if (why == SHINGLE_WHY_PRESSURE || !t.pressure)
			waited = 0;
		else if (x->e->jobs != jobs && ++waited > 1)
			return fail(x, "a write waits for %u jobs of a clean", waited);
		if (carry_on(x, r, &step) == -EUCLEAN)
			return -EUCLEAN;
		if (!--limit)
			return fail(x, "a clean has no end beside writes that find no room");
	}
	end_all_writes(x);
	x->res->beside++;
	return 0;
}

/* Discard all blocks; if the discard has to wait, the cleaner must wake it (help_refused()). */
static int forget_all(struct exercise *x, u64 limit)
{
	u64 lblk = 0, end = x->plan->layout->logical_blocks;
	int r;

	while (lblk < end) {
		checkpoint_if_full(x);
		r = forget_some(x, lblk, end - lblk);
		if (r < 0)
			return r;
		lblk += r;
		if (!r && help_refused(x, true, "a discard"))
			return -EUCLEAN;
		if (!--limit)
			return fail(x, "a discard has no end");
	}
	return 0;
}

/*
 * Bound of the number of steps of a clean: two for each band and one at the end, plus the steps
 * that only search for cached blocks, of a band or of the device, SHINGLE_WALK in each.
 */
static u64 clean_limit(const struct exercise *x, struct shingle_engine *e)
{
	u32 band = x->plan->layout->band_blocks[SHINGLE_ROLE_DATA];

	return 4 * x->plan->layout->logical_blocks + 16 +
	       x->plan->ops->observe.cached_blocks(e) * (band / SHINGLE_WALK) +
	       2 * e->cache_blocks / SHINGLE_WALK;
}

/*
 * Nothing waits for ever: while no write is in flight, a new one finds room, and a clean of
 * everything ends and leaves nothing.
 */
static int progress(struct exercise *x)
{
	struct waiting w = anywhere(x);
	u32 band = x->plan->layout->band_blocks[SHINGLE_ROLE_DATA], i;
	u64 limit;
	int r;

	if (x->e->gather_blocks && flush_all(x, false))
		return -EUCLEAN;
	limit = clean_limit(x, x->e);
	if (!rnd(x, 8))
		return forget_all(x, limit);
	if (!x->e->gather_blocks && !rnd(x, 4))
		return progress_under_load(x, 4 * limit);
	if (rnd(x, 4)) {
		/*
		 * The writes that wait already come first, and each of their blocks may need a
		 * clean.
		 */
		for (i = 0; i < MAX_FLIGHT; i++)
			limit += x->waiting[i].n * (band / SHINGLE_WALK + 4);
		while (!(r = retry(x, &w, &x->flight[0])) && w.n && --limit) {
			r = help_waiting(x, &w);
			if (r)
				return r;
		}
		if (!limit)
			return fail(x, "a write finds no room, and no cleaning makes any");
		return r;
	}
	/* Twice: the first clean may only complete one that an earlier operation began. */
	while (help(x, SHINGLE_WHY_FORCED) && --limit)
		;
	while (help(x, SHINGLE_WHY_FORCED) && --limit)
		;
	if (!limit)
		return fail(x, "a clean of everything has no end");
	if (x->plan->ops->observe.cached_blocks(x->e))
		return fail(x, "a clean of everything leaves %llu blocks",
			    (unsigned long long)x->plan->ops->observe.cached_blocks(x->e));
	x->res->emptied++;
	return 0;
}

static int must_progress(struct exercise *x)
{
	int err;

	x->quiet = true;
	end_all_writes(x);
	checkpoint_if_full(x);
	err = progress(x);
	x->quiet = false;
	return err;
}

/* ------------------------------------------------------------------------
 * Checkpoints and power cuts
 */

/* Remove a piece from the checkpoints; a newer one or a full checkpoint replaces it. */
static void forget_piece(struct exercise *x, u64 index)
{
	u32 i;

	for (i = 0; i < x->nr_ckpt && x->order[i] != index; i++)
		;
	if (i == x->nr_ckpt)
		return;
	x->nr_ckpt--;
	memmove(&x->order[i], &x->order[i + 1], (x->nr_ckpt - i) * sizeof(x->order[0]));
	x->ckpt[index].bytes = 0;
}

/* The checkpoint in progress is complete: its pieces replace older ones. */
static void put_pieces(struct exercise *x)
{
	u32 i;

	while (x->all && x->nr_ckpt)
		forget_piece(x, x->order[x->nr_ckpt - 1]);
	for (i = 0; i < x->nr_next; i++) {
		const struct chunk *c = &x->next[i];

		forget_piece(x, c->index);
		if (!c->bytes)
			continue;
		x->ckpt[c->index] = *c;
		x->order[x->nr_ckpt++] = c->index;
	}
	x->res->pieces += x->nr_next;
}

/*
 * The engine did not mark pieces [@from, @to) as changed: their content must equal what a
 * checkpoint wrote last.
 */
static void check_unmarked(struct exercise *x, u64 from, u64 to)
{
	struct chunk *now = &x->next[MAX_CHUNKS];
	u64 cursor;

	for (; from < to; from++) {
		cursor = from;
		now->bytes = shingle_pieces_encode(x->e->ops->state.pieces, x->plan->layout, x->e,
						   &cursor, &now->index, now->payload);
		if (cursor == SHINGLE_NOWHERE)
			break;
		if (!same_piece(now, &x->ckpt[from]))
			fail(x, "piece %llu of the state has changed and is not marked",
			     (unsigned long long)from);
		x->res->unchanged++;
	}
}

/* Begin a checkpoint, or continue it by one part: pages, pieces, places, and last the commit. */
static void checkpoint_some(struct exercise *x)
{
	struct chunk *c = &x->next[x->nr_next];
	u64 from = x->cursor;

	if (x->cursor == U64_MAX) {
		x->cursor = 0;
		x->nr_next = 0;
		x->next_from = x->nr_records;
		x->page_cursor = nr_pages(x) ? 0 : SHINGLE_NO_PAGE;
		x->places_cursor = 0;
		x->all = x->loaded || !rnd(x, 8);
		return;
	}
	if (x->page_cursor != SHINGLE_NO_PAGE) {
		checkpoint_pages(x);
		return;
	}
	if (x->cursor != SHINGLE_NOWHERE - 1 &&
	    shingle_encode_next(x->plan->layout, x->e, x->all, &x->cursor, &c->index, c->payload,
				&c->bytes)) {
		x->nr_next++;
		if (!x->all)
			check_unmarked(x, from, c->index);
		return;
	}
	if (x->cursor != SHINGLE_NOWHERE && x->cursor != SHINGLE_NOWHERE - 1)
		return;
	if (!x->all && x->cursor == SHINGLE_NOWHERE)
		check_unmarked(x, from, U64_MAX);
	/* All pieces of the engine are written. */
	x->cursor = SHINGLE_NOWHERE - 1;
	if (checkpoint_places(x))
		return;
	/* All pieces are written: commit, then the checkpoint is valid. */
	make_durable(x);
	put_pieces(x);
	checkpoint_counts(x);
	x->loaded = false;
	x->nr_records -= x->next_from;
	x->durable -= x->next_from;
	memmove(x->journal, x->journal + x->next_from, x->nr_records * sizeof(*x->journal));
	x->ckpt_from = 0;
	x->cursor = U64_MAX;
	x->res->checkpoints++;
}

/* Take a checkpoint if the journal is full, as core does. */
static void checkpoint_if_full(struct exercise *x)
{
	u32 most = JOURNAL - 64 - x->e->step_records;

	if (x->nr_records > most && x->cursor == U64_MAX)
		checkpoint_some(x);
	while (x->nr_records > most)
		checkpoint_some(x);
}

/**
 * shingle_exercise_counter() - value of a counter of an engine
 * @e: the engine
 * @name: name of the counter
 *
 * Context: as an engine's operations.
 * Return: the number, U64_MAX if the engine has no counter of that name.
 */
u64 shingle_exercise_counter(struct shingle_engine *e, const char *name)
{
	const struct shingle_counter *c;

	for (c = e->ops->counters; c->name; c++) {
		if (!strcmp(c->name, name))
			return shingle_counter_get(c, e);
	}
	return U64_MAX;
}
EXPORT_SYMBOL_GPL(shingle_exercise_counter);

static void end_engine(struct exercise *x)
{
	u64 bypassed = shingle_exercise_counter(x->e, "bypassed_blocks");

	if (bypassed != U64_MAX)
		x->res->bypassed += bypassed;
	if (x->e->pages)
		x->res->pages_written += x->e->pages->counts.writes;
	shingle_pages_destroy(x->e);
	x->plan->ops->destroy(x->e);
	x->e = NULL;
}

static int start_engine(struct exercise *x, struct shingle_engine **e)
{
	const char *const *f;
	const char *why = "";

	if (x->plan->ops->create(e, x->plan->layout, &why))
		return fail(x, "cannot create the engine: %s", why);
	if (nr_pages(x) &&
	    shingle_pages_create_for(*e, x->plan->layout, shingle_pages_least(*e) + rnd(x, 4),
				     &why))
		return fail(x, "cannot create the pages of the engine: %s", why);
	(*e)->knows_life = true;
	for (f = x->plan->features; f && *f; f++) {
		if (shingle_set(*e, *f, NULL, &why))
			return fail(x, "cannot set %s", *f);
	}
	for (f = x->plan->keys; f && *f; f += 2) {
		if (shingle_set(*e, f[0], f[1], &why))
			return fail(x, "cannot set %s %s: %s", f[0], f[1], why);
	}
	return 0;
}

/* After recovery each block must hold a content that its model allows, from now on its only one. */
static int check_recovered(struct exercise *x)
{
	u64 lblk;

	for (lblk = 0; lblk < x->plan->layout->logical_blocks; lblk++) {
		struct model *m = &x->model[lblk];
		u32 content = content_of(x, lblk), i;

		for (i = 0; i < m->nr && m->maybe[i] != content; i++)
			;
		if (i == m->nr)
			return fail(x, "after cut %llu block %llu holds write %u; durable was %u",
				    (unsigned long long)x->res->cuts, (unsigned long long)lblk,
				    content, m->maybe[0]);
		m->now = content;
	}
	return 0;
}

static void report(void *ctx, const char *fmt, ...) __printf(2, 3);
static void report(void *ctx, const char *fmt, ...)
{
	struct exercise *x = ctx;
	va_list args;

	va_start(args, fmt);
	if (!x->res->error[0])
		vsnprintf(x->res->error, sizeof(x->res->error), fmt, args);
	va_end(args);
}

/* Continue the engine's verify() by one part; a page that it lacks is read for the next call. */
static int verify_part(struct exercise *x)
{
	u32 bad;

	shingle_pages_begin(x->e, SHINGLE_CLIENT_VERIFY);
	bad = x->e->ops->observe.verify(x->e, &x->walk, report, x);
	asked(x, SHINGLE_CLIENT_VERIFY, shingle_pages_lack(x->e));
	if (bad)
		return -EUCLEAN;
	if (x->walk == SHINGLE_NOWHERE) {
		x->walk = 0;
		x->res->walks++;
	}
	return 0;
}

/* Call verify() until its walk is complete, while host requests go on between the parts. */
static int verify_rest(struct exercise *x)
{
	u32 tries = 0;
	u64 at;
	int err;

	do {
		at = x->walk;
		err = verify_part(x);
		if (x->walk != at)
			tries = 0;
		else if (!err && too_often(x, &tries))
			err = -EUCLEAN;
		if (!err && !rnd(x, 4))
			err = meanwhile(x);
	} while (!err && x->walk);
	return err;
}

/* Verify the whole state without other operations between; return the number of errors. */
static u32 verify(struct exercise *x, struct shingle_engine *e)
{
	const struct shingle_reader reader = store_reader(x);

	return shingle_fetch_verify(&reader, x->plan->layout, e, report, x);
}

/* Damage metadata: with a chance of one in four, change one random byte of @buf. */
static void damage(struct exercise *x, void *buf, u32 bytes)
{
	u8 *p = buf;

	if (bytes && !rnd(x, 4))
		p[rnd(x, bytes)] = rnd(x, 2) ? rnd(x, 4) : rnd(x, 256);
}

static int take_back(struct exercise *x, struct shingle_engine *e, const struct chunk *c)
{
	return shingle_pieces_decode(e->ops->state.pieces, x->plan->layout, e, c->index,
				     c->payload, c->bytes);
}

/* Call the engine for the extents or sources of a step as core does, without copying anything. */
static void ask_step(struct shingle_engine *e, const struct shingle_step *step)
{
	struct shingle_extent ext;
	struct shingle_run run;
	u64 cursor = 0;
	u32 at;

	while (step->scattered && shingle_step_extent(e, step, &cursor, &ext))
		;
	for (at = 0; !step->scattered && at < step->n; at = run.lblk + run.n) {
		if (!e->ops->clean.step_source(e, step, at, &run))
			break;
	}
}

/* With damaged metadata that the engine has accepted, a clean of everything must end as well. */
static int clean_nonsense(struct exercise *x, struct shingle_engine *e)
{
	const struct shingle_engine_ops *ops = x->plan->ops;
	const struct shingle_reader reader = store_reader(x);
	u32 limit = clean_limit(x, e);
	struct shingle_step step;
	bool waits = false;
	int r;

	for (; --limit; shingle_pages_end(e, waits)) {
		struct shingle_emit emit = { .rec = x->rec, .seq = x->seq };

		shingle_pages_begin(e, SHINGLE_CLIENT_LOAD);
		r = ops->clean.next_step(e, SHINGLE_WHY_FORCED, &step);
		if (!r)
			break;
		waits = r == SHINGLE_ABSENT && !shingle_fetch(&reader, x->plan->layout, e);
		if (r > 0) {
			emit.max = shingle_step_records(e, &step);
			ask_step(e, &step);
			ops->clean.step_done(e, &step, &emit);
		}
		shingle_finish_tidy(e);
		shingle_release_all(e, x->seq);
	}
	return limit ? 0 : fail(x, "a clean of nonsense has no end");
}

/* Call place() until it lacks no page. */
static int place_nonsense(struct exercise *x, struct shingle_engine *e, u64 lblk, u32 n,
			  struct shingle_run *run)
{
	const struct shingle_reader reader = store_reader(x);
	bool again;
	int r;

	do {
		shingle_pages_begin(e, SHINGLE_CLIENT_LOAD);
		r = x->plan->ops->map.place(e, lblk, n, SHINGLE_LIFE_UNKNOWN, run);
		again = r == SHINGLE_ABSENT && !shingle_fetch(&reader, x->plan->layout, e);
		shingle_pages_end(e, again);
	} while (again);
	return r;
}

/* With accepted damage, a write must get a valid place or be refused. */
static int write_nonsense(struct exercise *x, struct shingle_engine *e)
{
	u64 blocks = x->plan->layout->logical_blocks;
	struct shingle_run run;
	u32 i;

	for (i = 0; i < 16; i++) {
		struct shingle_record rec[16];
		struct shingle_emit emit = {
			.rec = rec, .max = x->plan->ops->commit_records, .seq = x->seq,
		};
		u64 lblk = rnd(x, blocks);
		u32 n = min_t(u64, 1 + rnd(x, 8), blocks - lblk);

		if (place_nonsense(x, e, lblk, n, &run))
			continue;
		if (run.lblk != lblk || !run.n || run.n > n || !in_one_band(x, &run))
			return fail(x, "nonsense has %u blocks placed as %u", n, run.n);
		x->plan->ops->map.commit(e, &run, &emit);
	}
	return 0;
}

/* Call replay() until it lacks no page; SHINGLE_ABSENT if a page cannot be used. */
static int replay(struct exercise *x, struct shingle_engine *e, const struct shingle_record *rec)
{
	const struct shingle_reader reader = store_reader(x);
	bool again;
	int r;

	do {
		shingle_pages_begin(e, SHINGLE_CLIENT_LOAD);
		r = x->plan->ops->state.replay(e, rec);
		again = r == SHINGLE_ABSENT && !shingle_fetch(&reader, x->plan->layout, e);
		shingle_pages_end(e, again);
	} while (again);
	return r;
}

static void no_report(void *ctx, const char *fmt, ...) __printf(2, 3);
static void no_report(void *ctx, const char *fmt, ...)
{
}

/*
 * Return the errors that verify() finds in accepted damage.  Pages are walked but their errors do
 * not count: an engine detects damage of a page when it uses the page, and need not detect all.
 */
static u32 nonsense_shows(struct exercise *x, struct shingle_engine *e)
{
	const struct shingle_reader reader = store_reader(x);

	if (!e->pages)
		return shingle_verify(e, report, x);
	shingle_fetch_verify(&reader, x->plan->layout, e, no_report, NULL);
	return 0;
}

/*
 * Invalid metadata must be refused, or lead to a consistent map that can be read.  Checksums detect
 * damage before that, but not metadata that a bug or an attacker has written.
 */
static int load_nonsense(struct exercise *x)
{
	const struct shingle_engine_ops *ops = x->plan->ops;
	const struct shingle_reader reader = store_reader(x);
	const struct shingle_layout *l = x->plan->layout;
	struct shingle_engine *e;
	struct shingle_run run;
	const char *why = "";
	struct chunk *c;
	int err = 0;
	u64 lblk;
	u32 i;

	c = kvcalloc(1, sizeof(*c), GFP_KERNEL);
	if (!c)
		return -ENOMEM;
	if (ops->create(&e, x->plan->layout, &why)) {
		kvfree(c);
		return fail(x, "cannot create an engine for nonsense: %s", why);
	}
	if (nr_pages(x)) {
		err = shingle_pages_create_for(e, l, shingle_pages_least(e), &why) ?:
		      shingle_places_decode(e->pages, SHINGLE_CHUNK_CORE + 1, x->places,
					    DIV_ROUND_UP(nr_pages(x), 4));
		if (err)
			return fail(x, "cannot create pages for nonsense: %s", why);
	}
	x->damaging = true;
	x->damage_seed = x->rng;
	for (i = 0; !err && i < x->nr_ckpt; i++) {
		*c = x->ckpt[x->order[i]];
		damage(x, c->payload, c->bytes);
		if (!rnd(x, 16))
			c->bytes = rnd(x, sizeof(c->payload) + 1);
		if (!rnd(x, 16))
			c->index = rnd(x, 2) ? rnd(x, 8) : (u64)rnd(x, U32_MAX) << rnd(x, 31);
		err = take_back(x, e, c);
		if (!err && !rnd(x, 16))
			err = take_back(x, e, c);
	}
	for (i = x->ckpt_from; !err && i < x->nr_records; i++) {
		struct shingle_record rec = x->journal[i];

		if (!rnd(x, 8))
			damage(x, &rec, sizeof(rec));
		if (!rnd(x, 16))
			rec = x->journal[rnd(x, x->nr_records)];
		err = replay(x, e, &rec);
		/* The page is invalid. */
		if (err == SHINGLE_ABSENT)
			err = -EUCLEAN;
	}
	err = err ?: ops->state.ready(e, &why);
	if (!err) {
		x->res->nonsense++;
		for (lblk = 0; lblk < x->plan->layout->logical_blocks; lblk += run.n) {
			shingle_fetch_run(&reader, l, e, lblk, l->logical_blocks - lblk, &run);
			if (!run.n)
				break;
		}
		if (lblk < l->logical_blocks || nonsense_shows(x, e))
			err = fail(x, "nonsense leads to a map that contradicts itself");
		err = err ?: write_nonsense(x, e);
		err = err ?: clean_nonsense(x, e);
		if (!err && nonsense_shows(x, e))
			err = fail(x, "nonsense contradicts itself when it was cleaned");
	} else if (err != -EUCLEAN) {
		err = fail(x, "nonsense is refused with %d", err);
	} else {
		err = 0;
	}
	x->damaging = false;
	shingle_pages_destroy(e);
	ops->destroy(e);
	kvfree(c);
	return err;
}

/*
 * Recover: load the pieces of the checkpoints and replay the records before @end.  @late: load the
 * pieces in reverse order and replay twice, as if they were written after these records.
 */
static int load(struct exercise *x, struct shingle_engine *e, u32 end, bool late)
{
	const char *why = "";
	u32 i, again;

	for (i = 0; i < x->nr_ckpt; i++) {
		struct chunk *c = &x->ckpt[x->order[late ? x->nr_ckpt - 1 - i : i]];

		if (take_back(x, e, c))
			return fail(x, "checkpoint piece %llu is not taken back",
				    (unsigned long long)c->index);
	}
	if (e->pages && shingle_places_decode(e->pages, SHINGLE_CHUNK_CORE + 1, x->places,
					      DIV_ROUND_UP(nr_pages(x), 4)))
		return fail(x, "where pages are is not taken back");
	for (again = 0; again <= late; again++) {
		for (i = x->ckpt_from; i < end; i++) {
			if (replay(x, e, &x->journal[i]))
				return fail(x, "record of type %u is not replayed",
					    le16_to_cpu(x->journal[i].type));
		}
	}
	if (e->pages && shingle_pages_leave_room(e->pages))
		return fail(x, "out of memory");
	if (x->plan->ops->state.ready(e, &why))
		return fail(x, "recovered state is refused: %s", why);
	return 0;
}

/*
 * Recover a second engine from the same records, with or without @late: it must read the same
 * contents, because core writes the pieces of a checkpoint at different moments.
 */
static int check_twin(struct exercise *x, bool late)
{
	const struct shingle_reader reader = store_reader(x);
	struct shingle_engine *twin = NULL;
	int err = start_engine(x, &twin);
	struct shingle_run run;
	u64 lblk;

	err = err ?: load(x, twin, x->nr_records, late);
	for (lblk = 0; !err && lblk < x->plan->layout->logical_blocks; lblk++) {
		u32 content;

		shingle_fetch_run(&reader, x->plan->layout, twin, lblk, 1, &run);
		content = run.kind == SHINGLE_RUN_MAPPED ? medium_read(x, run.pblk) : 0;
		if (content != mapped_content(x, lblk))
			err = fail(x, "cut %llu: of block %llu %u is read, or %u by later pieces",
				   (unsigned long long)x->res->cuts, (unsigned long long)lblk,
				   mapped_content(x, lblk), content);
	}
	if (!err && verify(x, twin))
		err = -EUCLEAN;
	if (twin) {
		shingle_pages_destroy(twin);
		x->plan->ops->destroy(twin);
	}
	return err;
}

/*
 * Cut the power: an arbitrary part of what is not durable survives.  Recover a new engine, and
 * check what it reads, what a second recovery reads, and how it handles damaged metadata.
 */
static int power_cut(struct exercise *x)
{
	/* If only the host has crashed, the drive still writes its cache. */
	bool exact = x->durable == x->nr_records, lost = rnd(x, 4);
	u64 cached = x->plan->ops->observe.cached_blocks(x->e);
	bool late = rnd(x, 2);
	u32 i, end;

	/* Data of writes in flight may be there wholly, partly or not at all. */
	for (i = 0; i < MAX_FLIGHT; i++) {
		struct flight *f = &x->flight[i];
		u32 n = f->used && !held_back(x, f) ? rnd(x, f->run.n + 1) : 0, j;

		for (j = 0; j < n; j++)
			medium_write(x, f->run.pblk + j, f->run.lblk + j, f->first + j);
	}
	for (i = 0; i < MAX_FLIGHT; i++)
		x->flight[i].used = false;
	memset(x->waiting, 0, sizeof(x->waiting));
	memset(x->dirty, 0, x->plan->layout->logical_blocks * sizeof(*x->dirty));
	memset(x->frozen, 0, x->plan->layout->logical_blocks * sizeof(*x->frozen));
	/* The commit in progress may have succeeded; then the data written before it are there. */
	end = rnd(x, 2) ? x->durable : x->nr_records;
	i = x->nr_drive;
	if (end == x->durable || x->e->unsafe_order)
		i = rnd(x, i + 1);
	for (; i; i--)
		drive_writes(x);
	if (lost)
		x->nr_drive = 0;
	/* Core flushes the drive before it does anything else. */
	drive_flush(x);
	end_engine(x);
	tear_pages(x);
	if (start_engine(x, &x->e) || load(x, x->e, end, late))
		return -EUCLEAN;
	x->loaded = true;
	x->walk = 0;
	x->nr_records = end;
	x->cursor = U64_MAX;
	x->res->cuts++;
	if (check_recovered(x) || check_twin(x, !late) || load_nonsense(x))
		return -EUCLEAN;
	/* Replay changed more pages than may be dirty: like core, take a checkpoint first. */
	if (x->e->pages && x->e->pages->changes.unevictable > x->e->pages->changes.most) {
		do
			checkpoint_some(x);
		while (x->cursor != U64_MAX);
		shingle_pages_shrink(x->e->pages);
		x->res->grown++;
	}
	if (exact && x->plan->ops->observe.cached_blocks(x->e) != cached)
		return fail(x, "after cut %llu %llu blocks are cached, not %llu",
			    (unsigned long long)x->res->cuts,
			    (unsigned long long)x->plan->ops->observe.cached_blocks(x->e),
			    (unsigned long long)cached);
	make_durable(x);
	/* Host requests may come before the recovery step. */
	return rnd(x, 4) ? clean(x, SHINGLE_WHY_RECOVERY, false) : 0;
}

/* A fragmented read wants its data written again: do that, or leave it to a later step. */
static int rewrite(struct exercise *x)
{
	u64 blocks = x->plan->layout->logical_blocks, lblk = rnd(x, blocks);
	u32 n = min_t(u64, 1 + rnd(x, 24), blocks - lblk);
	struct shingle_readside *side = x->e->reads;
	u64 lo, hi;

	shingle_remedies_read(&side->remedies, lblk, n, 2);
	x->plan->ops->read.around(x->e, shingle_band_pblk(x->plan->layout, SHINGLE_ROLE_DATA,
					rnd(x, x->plan->layout->nr_bands[SHINGLE_ROLE_DATA])),
				  &lo, &hi);
	if (hi < lo || hi - lo > x->plan->layout->band_blocks[SHINGLE_ROLE_DATA])
		return fail(x, "the surroundings of a block are not in its band");
	if (!x->plan->ops->read.rewrite(x->e, lblk, n) || !rnd(x, 3))
		return 0;
	return clean(x, SHINGLE_WHY_REWRITE, x->plan->cuts);
}

static int one_round(struct exercise *x)
{
	static const enum shingle_why why[] = {
		SHINGLE_WHY_PRESSURE, SHINGLE_WHY_PRESSURE, SHINGLE_WHY_PRESSURE,
		SHINGLE_WHY_PRESSURE, SHINGLE_WHY_IDLE, SHINGLE_WHY_FORCED,
	};
	u32 percent = rnd(x, 100);
	int r = 0;

	checkpoint_if_full(x);
	if (!rnd(x, 4))
		read_pages(x);
	if (x->e->gather_blocks && !rnd(x, 24)) {
		r = rnd(x, 2) ? run_epoch(x, x->plan->cuts) : flush_all(x, x->plan->cuts);
		return r > 0 ? power_cut(x) : r;
	}
	if (x->early_release && !rnd(x, 4))
		release_some(x);
	if (x->plan->ops->read.rewrite && !rnd(x, 12)) {
		r = rewrite(x);
		return r > 0 ? power_cut(x) : r;
	}
	if (percent < 40)
		return start_write(x);
	if (percent < 75)
		end_some_write(x);
	else if (percent < 78)
		return forget(x);
	else if (percent < 90)
		r = clean(x, why[rnd(x, ARRAY_SIZE(why))], x->plan->cuts);
	else if (percent < 92)
		make_durable(x);
	else if (percent < 93)
		release_some(x);
	else if (percent < 97)
		checkpoint_some(x);
	else if (percent < 98 && verify_rest(x))
		return -EUCLEAN;
	else if (percent < 98 && !rnd(x, 8))
		return turn(x);
	else if (percent < 99 && x->plan->cuts)
		r = !rnd(x, 4 * x->calm);
	else if (percent == 99 && !rnd(x, 8))
		return must_progress(x);
	else
		return check_block(x, rnd(x, x->plan->layout->logical_blocks));
	return r > 0 ? power_cut(x) : r;
}

static int allocate(struct exercise *x)
{
	const struct shingle_layout *l = x->plan->layout;
	u64 i;
	u32 d;

	for (d = 0; d < SHINGLE_NR_DEVS; d++) {
		if (!l->dev_blocks[d])
			continue;
		x->medium[d] = kvcalloc(l->dev_blocks[d], sizeof(u32), GFP_KERNEL);
		if (!x->medium[d])
			return -ENOMEM;
		/*
		 * Only without pages: note_kept() looks at all of the map, and would keep all of
		 * its pages in RAM.
		 */
		if (!nr_pages(x) && !(x->plan->features && *x->plan->features)) {
			x->kept[d] = kvcalloc(l->dev_blocks[d], sizeof(u32), GFP_KERNEL);
			if (!x->kept[d])
				return -ENOMEM;
		}
		/* A new device holds arbitrary content. */
		for (i = 0; i < l->dev_blocks[d]; i++)
			x->medium[d][i] = POISON - 1;
	}
	x->model = kvcalloc(l->logical_blocks, sizeof(*x->model), GFP_KERNEL);
	x->dirty = kvcalloc(l->logical_blocks, sizeof(u32), GFP_KERNEL);
	x->frozen = kvcalloc(l->logical_blocks, sizeof(u32), GFP_KERNEL);
	x->journal = kvcalloc(JOURNAL, sizeof(*x->journal), GFP_KERNEL);
	x->ckpt = kvcalloc(MAX_CHUNKS, sizeof(*x->ckpt), GFP_KERNEL);
	x->order = kvcalloc(MAX_CHUNKS, sizeof(*x->order), GFP_KERNEL);
	/* The last entry is a buffer of check_unmarked() and checkpoint_places(). */
	x->next = kvcalloc(MAX_CHUNKS + 1, sizeof(*x->next), GFP_KERNEL);
	x->store = kvcalloc(max_t(u64, 2 * nr_pages(x), 1), sizeof(*x->store), GFP_KERNEL);
	x->places = kvcalloc(2, SHINGLE_CHUNK_BYTES, GFP_KERNEL);
	if (!x->store || !x->places)
		return -ENOMEM;
	x->next_places = x->places + SHINGLE_CHUNK_BYTES;
	if (!x->model || !x->dirty || !x->frozen || !x->journal || !x->ckpt || !x->order ||
	    !x->next)
		return -ENOMEM;
	for (i = 0; i < l->logical_blocks; i++)
		x->model[i].nr = 1;
	return shingle_pieces_nr(x->plan->ops->state.pieces, U32_MAX, l) < MAX_CHUNKS &&
	       nr_pages(x) <= SHINGLE_PLACES_PER_PIECE ? 0 : -EINVAL;
}

static int run(struct exercise *x)
{
	u32 i;
	int err = start_engine(x, &x->e);

	if (err)
		return err;
	x->loaded = true;
	x->rec = kvcalloc(shingle_most_step_records(x->e), sizeof(*x->rec), GFP_KERNEL);
	if (!x->rec)
		return -ENOMEM;
	for (i = 0; i < x->plan->nr_first; i++) {
		x->journal[i] = x->plan->first[i];
		if (x->plan->ops->state.replay(x->e, &x->journal[i]))
			err = fail(x, "its first record is not replayed");
	}
	x->nr_records = i;
	x->durable = i;
	if (x->plan->ops->state.ready(x->e, &(const char *){ "" }))
		err = fail(x, "an empty engine is not ready");
	for (i = 0; !err && i < x->plan->rounds; i++) {
		err = one_round(x);
		if (!err && x->res->error[0])
			err = -EUCLEAN;
		if (!err && !(i % 256))
			err = check_all(x);
	}
	if (!err) {
		end_all_writes(x);
		err = check_all(x);
	}
	if (!err && must_progress(x))
		err = -EUCLEAN;
	if (!err)
		err = check_all(x);
	read_pages(x);
	if (!err && verify(x, x->e))
		err = -EUCLEAN;
	return err;
}

/* The medium of a small device: tracks of one length on one surface, with skew. */
static void describe(struct shingle_layout *l, const struct shingle_exercise_shape *shape)
{
	struct shingle_medium *m = &l->medium[SHINGLE_DEV_DATA];
	u32 track = shape->interlaced ? shape->band_blocks : shape->track_blocks;
	u32 usual = track * 1000 / (shape->density ?: 1000);
	const char *why = "";

	m->blocks = l->dev_blocks[SHINGLE_DEV_DATA];
	m->geo.media = shape->interlaced ? PLATTER_IMR : PLATTER_SMR;
	m->geo.head_mtracks = shape->head_tracks * 1000;
	m->geo.surfaces = 1;
	m->geo.nr_zones = 1;
	m->geo.density[0] = shape->density;
	m->geo.zone[0].track_blocks = usual;
	/* Every interlaced track here can hold saved tops, as if a bottom lay between any two. */
	m->geo.zone[0].cyls = shape->interlaced ? shape->data_bands : div_u64(m->blocks, track);
	m->geo.zone[0].track_skew_units = shape->skew_units % (usual * SHINGLE_SUB_UNITS);
	m->columns = !WARN_ON_ONCE(shingle_medium_init(m, &why));
}

/**
 * shingle_exercise_layout() - build the layout of a small device: data, staging, cache
 * @l: result; its metadata areas are empty
 * @ops: the engine
 * @shape: the shape of the device
 * @params: the engine's parameters in the superblock
 * @params_size: their length
 *
 * Context: any.
 */
void shingle_exercise_layout(struct shingle_layout *l, const struct shingle_engine_ops *ops,
			     const struct shingle_exercise_shape *shape, const void *params,
			     size_t params_size)
{
	const struct { enum shingle_role role; u32 bands, blocks; } part[] = {
		{ SHINGLE_ROLE_DATA, shape->data_bands, shape->band_blocks },
		{ SHINGLE_ROLE_STAGING, shape->staging_bands, shape->staging_band_blocks },
		{ SHINGLE_ROLE_CACHE, shape->cache_bands, shape->cache_band_blocks },
	};
	u64 at = 0;
	u32 i;

	memset(l, 0, sizeof(*l));
	memcpy(l->engine, ops->name, min_t(size_t, strlen(ops->name), SHINGLE_ENGINE_NAME_SIZE));
	memcpy(l->params, params, min_t(size_t, params_size, sizeof(l->params)));
	l->head_tracks = shape->head_tracks;
	l->interlaced = shape->interlaced;
	for (i = 0; i < ARRAY_SIZE(part); i++) {
		struct shingle_group *g = &l->groups[l->nr_groups];
		u32 blocks = part[i].blocks ?: shape->band_blocks;
		bool apart = shape->cache_apart && part[i].role == SHINGLE_ROLE_CACHE;

		if (!part[i].bands)
			continue;
		g->start = apart ? shingle_pblk(SHINGLE_DEV_CACHE, 0) : at;
		g->stride = blocks;
		if (shape->track_blocks && !apart)
			g->stride = (u64)(DIV_ROUND_UP(blocks, shape->track_blocks) +
					  shape->head_tracks - 1) * shape->track_blocks;
		g->nr_bands = part[i].bands;
		g->track_blocks = apart ? 0 : shape->track_blocks;
		if (shape->interlaced && part[i].role == SHINGLE_ROLE_DATA)
			g->track_blocks = shape->band_blocks;
		g->role = part[i].role;
		l->nr_bands[part[i].role] = part[i].bands;
		l->band_blocks[part[i].role] = blocks;
		l->nr_groups++;
		if (apart)
			l->dev_blocks[SHINGLE_DEV_CACHE] = part[i].bands * g->stride;
		else
			at += part[i].bands * g->stride;
	}
	l->dev_blocks[SHINGLE_DEV_DATA] = at;
	if (shape->columns)
		describe(l, shape);
	shingle_layout_index(l);
	l->logical_blocks = ops->logical_blocks(l);
	if (ops->pages.nr_pages)
		l->pages.blocks = 2 * ops->pages.nr_pages(l);
}
EXPORT_SYMBOL_GPL(shingle_exercise_layout);

/**
 * shingle_exercise() - exercise an engine
 * @plan: the plan
 * @result: the result
 *
 * Context: may sleep.
 * Return: 0; -EUCLEAN with a sentence in @result->error; -ENOMEM; -EINVAL if the layout is too
 * large for the exerciser.
 */
int shingle_exercise(const struct shingle_exercise_plan *plan,
		     struct shingle_exercise_result *result)
{
	struct exercise *x = kvcalloc(1, sizeof(*x), GFP_KERNEL);
	int err = -ENOMEM;
	u32 d;

	memset(result, 0, sizeof(*result));
	if (!x)
		return -ENOMEM;
	x->plan = plan;
	x->res = result;
	x->rng = plan->seed * 2654435761U + 1;
	/* With some seeds cuts are rare: an engine reaches some states only after a long time. */
	x->calm = 1 << plan->seed % 3;
	x->good = plan->seed % 7 < 3 ? 3 : 16;
	x->early_release = plan->seed % 7 == 2 || plan->seed % 7 == 3;
	x->caching = plan->layout->interlaced || plan->seed % 5 < 2;
	x->seq = 1;
	x->cursor = U64_MAX;
	err = allocate(x);
	if (!err)
		err = run(x);
	if (x->e)
		end_engine(x);
	for (d = 0; d < SHINGLE_NR_DEVS; d++) {
		kvfree(x->medium[d]);
		kvfree(x->kept[d]);
	}
	kvfree(x->model);
	kvfree(x->dirty);
	kvfree(x->frozen);
	kvfree(x->rec);
	kvfree(x->journal);
	kvfree(x->ckpt);
	kvfree(x->order);
	kvfree(x->next);
	kvfree(x->store);
	kvfree(x->places);
	kvfree(x);
	return err;
}
EXPORT_SYMBOL_GPL(shingle_exercise);

/**
 * shingle_exercise_loses() - does switching a protection off lose data, and is that detected?
 * @ops: the engine
 * @l: layout
 * @feature: feature of tests that switches the protection off
 * @result: result of the last run
 *
 * Context: may sleep.
 * Return: true as soon as one of 40 seeds finds a block with wrong content; false if another error
 * is found, or none.
 */
bool shingle_exercise_loses(const struct shingle_engine_ops *ops, const struct shingle_layout *l,
			    const char *feature, struct shingle_exercise_result *result)
{
	const char *const features[] = { feature, NULL };
	struct shingle_exercise_plan plan = {
		.ops = ops, .layout = l, .rounds = 6000, .cuts = true, .features = features,
	};
	int err = 0;

	for (plan.seed = 1; !err && plan.seed <= 40; plan.seed++)
		err = shingle_exercise(&plan, result);
	return err == -EUCLEAN && strstr(result->error, "holds write");
}
EXPORT_SYMBOL_GPL(shingle_exercise_loses);
