// SPDX-License-Identifier: GPL-2.0
/*
 * pages-test SEED [RUNS]: pages of a map under random load, checkpoints and power cuts.
 *
 * Each page holds the number of its last change. The test reads, changes, holds and writes back
 * pages and cuts the power, all at random, with as few frames as the code allows or some more. A
 * page must always hold what was last written to it, after a power cut as well, when the records
 * since the last footer have been replayed. No operation may wait for ever.
 *
 * Further tests: a scan must leave most of the pages in memory that are in constant use, and if all
 * pages are in constant use one of them must still leave.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pages/pages.h"

#define MOST_PAGES	40U
#define MOST_RECORDS	4096U
#define MOST_WRITES	6U
#define MOST_HOLD	4U

/**
 * struct write - something under way that holds pages
 * @n: number of pages, 0 if the write is not in flight
 * @nr: the pages
 */
struct write {
	u32 n;
	u32 nr[MOST_HOLD];
};

struct record {
	u32 nr;
	u32 version;
};

/**
 * struct device - pages, and what is on the disk
 * @e: the engine
 * @l: layout
 * @rng: state of the random numbers
 * @pages: number of pages
 * @frames: frames, as the table line sets them
 * @disk: contents of both places of each page
 * @torn: the place holds no valid contents
 * @foot: encoded places of the pages, as of the last footer
 * @now: version of each page
 * @version: the last version used
 * @write: writes in flight
 * @step: the step in progress
 * @reading: frames whose read is in flight
 * @nr_reading: number of @reading
 * @record: records since the last checkpoint began
 * @nr_records: number of @record
 * @from: first record behind the checkpoint in progress
 * @collect: where the checkpoint continues to collect dirty pages; SHINGLE_NO_PAGE when done
 * @todo: pages that the checkpoint has still to write
 * @nr_todo: number of @todo
 * @busy: a checkpoint is in progress
 * @piece: places of the pages, as the checkpoint writes them
 * @loaded: no checkpoint has completed since the engine was loaded
 * @cuts: power cuts
 * @checkpoints: completed checkpoints
 * @failures: checkpoints that failed without a power cut
 * @absent: operations that had to wait
 * @grown: times that recovery needed more frames
 */
struct device {
	struct shingle_engine e;
	struct shingle_layout l;
	u32 rng;
	u32 pages;
	u32 frames;
	u32 disk[MOST_PAGES][2];
	bool torn[MOST_PAGES][2];
	u8 foot[MOST_PAGES / 4];
	u32 now[MOST_PAGES];
	u32 version;
	struct write write[MOST_WRITES];
	struct write step;
	u32 reading[64];
	u32 nr_reading;
	struct record record[MOST_RECORDS];
	u32 nr_records;
	u32 from;
	u32 collect;
	u32 todo[MOST_PAGES + 4];
	u32 nr_todo;
	bool busy;
	u8 piece[MOST_PAGES / 4];
	bool loaded;
	u64 cuts;
	u64 checkpoints;
	u64 failures;
	u64 absent;
	u64 grown;
};

static u32 failed_seed;

static void die(const char *what)
{
	printf("seed %u: %s\n", failed_seed, what);
	exit(1);
}

static u32 rnd(struct device *d, u32 below)
{
	d->rng = d->rng * 1664525U + 1013904223U;
	return (d->rng >> 8) % below;
}

static const struct shingle_engine_ops no_ops;

static u32 version_of(const void *page)
{
	u32 v;

	memcpy(&v, page, sizeof(v));
	return v;
}

static void start(struct device *d)
{
	const char *why = "";

	memset(&d->e, 0, sizeof(d->e));
	d->e.ops = &no_ops;
	d->e.call_pages = 2;
	d->e.step_pages = MOST_HOLD;
	if (shingle_pages_create(&d->e, d->pages, d->frames, &why))
		die(why);
	d->loaded = true;
}

static void check_counts(struct device *d)
{
	struct shingle_pages *p = d->e.pages;
	u32 i, unevictable = 0, dirty = 0, listed = 0;

	for (i = 0; i < p->frames.nr; i++) {
		const struct shingle_frame *f = &p->frames.frame[i];

		unevictable += f->hold_count || f->dirty || f->writing;
		dirty += f->dirty || f->writing;
		listed += f->listed;
		if (f->listed == (f->hold_count || f->dirty || f->writing ||
				  f->state == SHINGLE_FRAME_READING))
			die("a frame is in a list that should not be, or is not");
	}
	if (unevictable != p->changes.unevictable || dirty != p->changes.nr_dirty)
		die("counts are wrong");
	for (i = 0; i < SHINGLE_NR_FRAME_LISTS; i++)
		listed -= p->lists.length[i];
	if (listed)
		die("lists have another length");
}

/* ------------------------------------------------------------------------
 * Operations of an engine
 */

static bool look(struct device *d, u32 nr)
{
	const void *page = shingle_page(&d->e, nr);

	if (page && version_of(page) != d->now[nr])
		die("a page holds something else than was written");
	return page;
}

/* Hold up to @most pages; hold none if one of them is absent. */
static bool hold(struct device *d, struct write *w, u32 most)
{
	u32 n = 1 + rnd(d, most), i, nr = rnd(d, d->pages);

	for (i = 0; i < n; i++, nr = (nr + 1 + rnd(d, 3)) % d->pages) {
		void *page = shingle_page_hold(&d->e, nr);

		if (!page) {
			while (w->n)
				shingle_page_put(&d->e, w->nr[--w->n]);
			return false;
		}
		if (version_of(page) != d->now[nr])
			die("a page that is held is another one");
		w->nr[w->n++] = nr;
	}
	return true;
}

static void end(struct device *d, struct write *w, bool good)
{
	while (w->n) {
		u32 nr = w->nr[--w->n];
		void *page = shingle_page_held(&d->e, nr);

		if (good) {
			d->now[nr] = ++d->version;
			shingle_page_dirty(&d->e, nr);
			memcpy(page, &d->now[nr], sizeof(u32));
			if (d->nr_records == MOST_RECORDS)
				die("journal is full");
			d->record[d->nr_records++] = (struct record){ nr, d->now[nr] };
		}
		shingle_page_put(&d->e, nr);
	}
}

/* ------------------------------------------------------------------------
 * Operations of core
 */

static void read_some(struct device *d, u32 most)
{
	struct shingle_pages *p = d->e.pages;
	u32 i;

	while (d->nr_reading < 64 && (i = shingle_pages_wanted(p)) != SHINGLE_NO_PAGE)
		d->reading[d->nr_reading++] = i;
	while (most-- && d->nr_reading) {
		u32 which = rnd(d, d->nr_reading), nr, side;

		i = d->reading[which];
		d->reading[which] = d->reading[--d->nr_reading];
		nr = p->frames.frame[i].nr;
		side = shingle_place_of(p->places.now, nr) - SHINGLE_PAGE_A;
		if (d->torn[nr][side])
			die("a page is read from where it was never whole");
		memset(p->frames.frame[i].block->payload, 0, SHINGLE_PAGE_BYTES);
		memcpy(p->frames.frame[i].block->payload, &d->disk[nr][side], sizeof(u32));
		shingle_pages_here(p, i, 0);
	}
}

static void checkpoint_begin(struct device *d)
{
	d->busy = true;
	d->from = d->nr_records;
	d->collect = 0;
	d->nr_todo = 0;
}

/* Do a part of a checkpoint. Return: false when the checkpoint has ended. */
static bool checkpoint_some(struct device *d, bool fails)
{
	struct shingle_pages *p = d->e.pages;
	u8 payload[SHINGLE_PAGE_BYTES];
	u32 nr, side, bytes, at = 0;
	u64 cursor = 0, index;

	if (d->collect != SHINGLE_NO_PAGE) {
		d->nr_todo += shingle_pages_dirty(p, &d->collect, d->todo + d->nr_todo,
						  1 + rnd(d, 4));
		return true;
	}
	if (d->nr_todo && !fails) {
		nr = d->todo[--d->nr_todo];
		shingle_pages_copy(p, nr, payload);
		side = shingle_place_of(p->places.next, nr) - SHINGLE_PAGE_A;
		if (shingle_place_of(d->foot, nr) == side + SHINGLE_PAGE_A)
			die("a page is written over the one that counts");
		d->disk[nr][side] = version_of(payload);
		d->torn[nr][side] = false;
		return true;
	}
	if (!fails) {
		memcpy(d->piece, d->foot, sizeof(d->piece));
		if (d->loaded)
			memset(d->piece, 0, sizeof(d->piece));
		while (cursor != SHINGLE_NOWHERE) {
			if (!shingle_places_encode_next(p, d->loaded, &cursor, &index, payload,
							&bytes))
				continue;
			memset(d->piece, 0, sizeof(d->piece));
			memcpy(d->piece, payload, bytes);
		}
		memcpy(d->foot, d->piece, sizeof(d->foot));
		d->nr_records -= d->from;
		memmove(d->record, d->record + d->from, d->nr_records * sizeof(d->record[0]));
		d->checkpoints++;
	}
	while (shingle_pages_written(p, &at, !fails))
		;
	d->failures += fails;
	d->loaded = fails;
	d->busy = false;
	return false;
}

static void checkpoint(struct device *d)
{
	if (!d->busy)
		checkpoint_begin(d);
	while (checkpoint_some(d, false))
		;
}

/*
 * A page is absent: request it, as core does. Return: 0 if a read will bring it; else -EBUSY or
 * -EAGAIN.
 */
static int ask(struct device *d)
{
	struct shingle_pages *p = d->e.pages;
	int r;

	if (p->call.missed != SHINGLE_NO_PAGE)
		shingle_pages_ahead(&d->e, p->call.missed,
				    min(p->nr_pages - p->call.missed, (u32)(d->absent % 9)));
	r = shingle_pages_ask(p);
	d->absent++;
	if (r && r != -EBUSY && r != -EAGAIN)
		die("the pages report the loss of a page");
	return r;
}

/* The operation that has waited longest gets its pages, whatever the other operations do. */
static void insist(struct device *d, bool step)
{
	enum shingle_page_client client = step ? SHINGLE_CLIENT_CLEAN : SHINGLE_CLIENT_IO;
	struct write w = { 0 };
	u32 rng = d->rng, tries = 0, i;
	bool done;

	if (step && d->step.n)
		return;
	for (;;) {
		int r = 0;

		/* The operation needs the same pages each time. */
		d->rng = rng;
		shingle_pages_begin(&d->e, client);
		done = hold(d, &w, step ? MOST_HOLD : 2);
		if (!done)
			r = ask(d);
		shingle_pages_end(&d->e, !done);
		if (done)
			break;
		if (++tries > 40)
			die("somebody waits for ever");
		if (r) {
			for (i = 0; i < MOST_WRITES; i++)
				end(d, &d->write[i], true);
			checkpoint(d);
		}
		d->rng += tries;
		/* Meanwhile others look at random pages: a page stays only if it is held. */
		read_some(d, 64);
		for (i = 0; i < 3 * d->frames; i++) {
			if (!look(d, rnd(d, d->pages)))
				ask(d);
			read_some(d, 64);
		}
		read_some(d, 64);
	}
	d->rng = rng + 1;
	if (step)
		d->step = w;
	else
		end(d, &w, true);
}

static void power_cut(struct device *d)
{
	u32 i, side;

	for (i = 0; i < d->pages; i++) {
		/* A write in flight may be on disk in part. */
		side = shingle_place_other(shingle_place_of(d->foot, i)) - SHINGLE_PAGE_A;
		d->torn[i][side] = true;
	}
	shingle_pages_destroy(&d->e);
	memset(d->write, 0, sizeof(d->write));
	memset(&d->step, 0, sizeof(d->step));
	d->nr_reading = 0;
	d->busy = false;
	/* The new table may have fewer frames than the old one. */
	d->frames = 12 + rnd(d, rnd(d, 2) ? 3 : 30);
	start(d);
	if (shingle_places_decode(d->e.pages, SHINGLE_CHUNK_CORE + 1, d->foot,
				  DIV_ROUND_UP(d->pages, 4)))
		die("where pages are is not believed");
	for (i = 0; i < d->nr_records; i++) {
		u32 nr = d->record[i].nr;
		void *page;

		for (;;) {
			shingle_pages_begin(&d->e, SHINGLE_CLIENT_LOAD);
			page = shingle_page_hold(&d->e, nr);
			if (page) {
				shingle_page_dirty(&d->e, nr);
				memcpy(page, &d->record[i].version, sizeof(u32));
				shingle_page_put(&d->e, nr);
			} else if (ask(d) == -EAGAIN) {
				d->grown++;
				if (shingle_pages_grow(d->e.pages))
					die("out of memory");
			}
			shingle_pages_end(&d->e, !page);
			if (page)
				break;
			read_some(d, 64);
		}
	}
	check_counts(d);
	/* As core does before it serves I/O. */
	if (d->e.pages->changes.unevictable > d->e.pages->changes.most) {
		checkpoint(d);
		shingle_pages_shrink(d->e.pages);
		if (d->e.pages->frames.nr != d->e.pages->frames.budget)
			die("frames that recovery needed stay for ever");
	}
	for (i = 0; i < d->pages; i++) {
		while (!look(d, i)) {
			if (ask(d) == -EAGAIN)
				checkpoint(d);
			read_some(d, 64);
		}
	}
	d->cuts++;
}

static void one_round(struct device *d)
{
	struct write *w = &d->write[rnd(d, MOST_WRITES)];
	u32 percent = rnd(d, 100);

	if (d->nr_records > MOST_RECORDS / 2)
		checkpoint(d);
	if (percent < 30) {
		if (!look(d, rnd(d, d->pages)))
			ask(d);
	} else if (percent < 55) {
		if (w->n)
			end(d, w, rnd(d, 8));
		else if (!hold(d, w, 2))
			ask(d);
	} else if (percent < 65) {
		read_some(d, rnd(d, 4));
	} else if (percent < 68 && d->step.n) {
		end(d, &d->step, rnd(d, 8));
	} else if (percent < 72) {
		insist(d, rnd(d, 2));
	} else if (percent < 92) {
		if (d->busy)
			checkpoint_some(d, !rnd(d, 40));
		else if (shingle_pages_pressed(&d->e) || !rnd(d, 16))
			checkpoint_begin(d);
	} else if (!rnd(d, 8)) {
		power_cut(d);
	}
	check_counts(d);
}

static void runs(u32 seed, u32 nr)
{
	u64 cuts = 0, checkpoints = 0, failures = 0, absent = 0, grown = 0;
	struct device *d;
	u32 i, end = seed + nr;

	for (; seed < end; seed++) {
		d = calloc(1, sizeof(*d));
		if (!d)
			die("out of memory");
		failed_seed = seed;
		d->rng = seed * 2654435761U + 1;
		d->pages = 1 + rnd(d, MOST_PAGES);
		d->frames = 12;
		start(d);
		for (i = 0; i < 1000; i++)
			one_round(d);
		cuts += d->cuts;
		checkpoints += d->checkpoints;
		failures += d->failures;
		absent += d->absent;
		grown += d->grown;
		shingle_pages_destroy(&d->e);
		free(d);
	}
	printf("pages: %u runs, %llu checkpoints, %llu that failed, %llu power cuts, %llu waits, %llu times grown, 0 lost\n",
	       nr, (unsigned long long)checkpoints, (unsigned long long)failures,
	       (unsigned long long)cuts, (unsigned long long)absent, (unsigned long long)grown);
}

/* ------------------------------------------------------------------------
 * Replacement of pages
 */

#define SCAN_FRAMES	256U
#define SCAN_PAGES	100000U

/* Look at a page. Return: whether it had to be read. */
static bool visit(struct shingle_engine *e, u32 nr)
{
	u32 i;

	if (shingle_page(e, nr))
		return false;
	if (shingle_pages_ask(e->pages))
		die("a page cannot be read");
	i = shingle_pages_wanted(e->pages);
	shingle_pages_here(e->pages, i, 0);
	if (!shingle_page(e, nr))
		die("a page that was read is not there");
	return true;
}

/* Half of the frames are in constant use, while a scan looks at other pages, many times each. */
static void scan(void)
{
	static u8 places[SCAN_PAGES / 4];
	struct shingle_engine e = { .ops = &no_ops, .call_pages = 1, .step_pages = 1 };
	u32 hot = SCAN_FRAMES / 2, at = hot, round, i, k, missed = 0, looked = 0;
	const char *why = "";

	if (shingle_pages_create(&e, SCAN_PAGES, SCAN_FRAMES, &why))
		die(why);
	/* All pages have a place on disk. */
	memset(places, 0x55, sizeof(places));
	memcpy(e.pages->places.now, places, sizeof(places));
	for (round = 0; round < 300; round++) {
		for (i = 0; i < hot; i++) {
			bool miss = visit(&e, i);

			if (round >= 20) {
				looked++;
				missed += miss;
			}
			for (k = 0; k < 3; k++)
				visit(&e, i);
			/* A scan looks at a page several times in a row. */
			for (k = 0; k < 8; k++)
				visit(&e, at);
			at = at + 1 == SCAN_PAGES ? hot : at + 1;
		}
	}
	printf("scan: %u of %u pages used all the time missed beside a scan\n", missed, looked);
	shingle_pages_destroy(&e);
}

/* One page more than there are frames, all in constant use: each page can still be read. */
static void all_used(void)
{
	struct shingle_engine e = { .ops = &no_ops, .call_pages = 1, .step_pages = 1 };
	u32 frames = 2 * SHINGLE_WALK, round, i, absent;
	const char *why = "";

	if (shingle_pages_create(&e, frames + 1, frames, &why))
		die(why);
	memset(e.pages->places.now, 0x55, DIV_ROUND_UP(frames + 1, 4));
	for (i = 0; i < frames; i++)
		visit(&e, i);
	for (round = 0; round < 2 * frames; round++) {
		for (i = 0, absent = SHINGLE_NO_PAGE; i <= frames; i++) {
			if (!shingle_page(&e, i))
				absent = i;
		}
		visit(&e, absent);
	}
	shingle_pages_destroy(&e);
}

/*
 * An operation misses a page that it only looked ahead at, then too many pages are dirty. If it got
 * the result of the look-ahead, it would wait for a page that is not being read.
 */
static void looked_ahead(void)
{
	struct shingle_engine e = { .ops = &no_ops, .call_pages = 1, .step_pages = 1 };
	const char *why = "";

	if (shingle_pages_create(&e, 8, 4, &why))
		die(why);
	e.pages->places.now[0] = SHINGLE_PAGE_A;
	if (shingle_page(&e, 0) || !shingle_page_hold(&e, 1) || shingle_page_hold(&e, 2))
		die("a page is there that cannot be");
	if (shingle_pages_ask(e.pages) != -EBUSY)
		die("too many pages have changed, and no call reports it");
	shingle_pages_destroy(&e);
}

static void pressed(void *ctx)
{
	die("the pages request a checkpoint without need");
}

/* As many frames as pages: all may be dirty without waiting for a checkpoint or requesting one. */
static void all_fit(void)
{
	struct shingle_engine e = { .ops = &no_ops, .call_pages = 2, .step_pages = 2 };
	const char *why = "";
	u32 i;

	if (shingle_pages_create(&e, 20, 100, &why))
		die(why);
	e.pages->changes.press = pressed;
	for (i = 0; i < 20; i++) {
		if (!shingle_page_hold(&e, i))
			die("a page of a map that is all in memory cannot be changed");
		shingle_page_dirty(&e, i);
		shingle_page_put(&e, i);
	}
	if (shingle_pages_pressed(&e))
		die("there is no room for changed pages, and nothing else is in memory");
	shingle_pages_destroy(&e);
}

/*
 * Read-ahead: a missing page brings some of the pages that the operation will need next, and no
 * others.
 */
static void read_besides(void)
{
	struct shingle_engine e = { .ops = &no_ops, .call_pages = 1, .step_pages = 1 };
	static const u32 come[] = { 0, 2, 5, 6, 7, 8, 9, 10 };
	u32 frames = 4 * ARRAY_SIZE(come), i;
	const char *why = "";

	if (shingle_pages_create(&e, 100, frames, &why))
		die(why);
	memset(e.pages->places.now, 0x55, 25);
	/* Page 3 reads as zeroes, page 4 was given up, page 1 is in memory. */
	shingle_pages_found(e.pages, 3, SHINGLE_PAGE_NONE);
	if (shingle_pages_give_up(e.pages, 4))
		die("out of memory");
	visit(&e, 1);
	shingle_pages_begin(&e, SHINGLE_CLIENT_FAST);
	shingle_pages_ahead(&e, 1, 60);
	if (shingle_page(&e, 0) || shingle_pages_ask(e.pages))
		die("a page cannot be read");
	for (i = 0; i < ARRAY_SIZE(come); i++) {
		u32 frame = shingle_pages_wanted(e.pages);

		if (frame == SHINGLE_NO_PAGE || e.pages->frames.frame[frame].nr != come[i])
			die("another page is read besides");
	}
	if (shingle_pages_wanted(e.pages) != SHINGLE_NO_PAGE)
		die("more than a quarter of the frames are read into");
	for (i = 0; i < frames; i++) {
		if (e.pages->frames.frame[i].state == SHINGLE_FRAME_READING)
			shingle_pages_here(e.pages, i, 0);
	}
	/* The read-ahead applied to that page only. */
	if (shingle_page(&e, 50) || shingle_pages_ask(e.pages) ||
	    shingle_pages_wanted(e.pages) == SHINGLE_NO_PAGE ||
	    shingle_pages_wanted(e.pages) != SHINGLE_NO_PAGE)
		die("a page is not read, or others besides");
	shingle_pages_destroy(&e);
}

/* Pages that cannot be read, whether an operation needs them or not. */
static void fails(void)
{
	struct shingle_engine e = { .ops = &no_ops, .call_pages = 1, .step_pages = 1 };
	static const int for_good[] = { -EUCLEAN, -ENODATA };
	struct shingle_pages *p;
	const char *why = "";
	u32 i, nr;

	if (shingle_pages_create(&e, 100, 64, &why))
		die(why);
	p = e.pages;
	memset(p->places.now, 0x55, 25);
	/*
	 * Only read ahead: an error of the page has no effect, because no operation has needed it.
	 */
	for (i = 0; i < ARRAY_SIZE(for_good); i++) {
		shingle_pages_begin(&e, SHINGLE_CLIENT_FAST);
		shingle_pages_ahead(&e, 1, 1);
		if (shingle_page(&e, 10 + i) || shingle_pages_ask(p))
			die("a page cannot be read");
		if (shingle_pages_here(p, shingle_pages_wanted(p), 0) ||
		    shingle_pages_here(p, shingle_pages_wanted(p), for_good[i]))
			die("a failed page that no operation needs counts as needed");
	}
	/*
	 * Only an operation that walks over the whole map skips pages with errors that may go away.
	 */
	if (shingle_page_lost(&e, 1) || p->frames.frame[0].state == SHINGLE_FRAME_FAILED)
		die("a page that no operation needs counts as lost");
	visit(&e, 1);
	/*
	 * The device fails: the operation that needs the page fails once, and the next one reads it
	 * again.
	 */
	for (i = 0; i < 3; i++) {
		if (shingle_page(&e, 2) || shingle_pages_ask(p) ||
		    shingle_pages_here(p, shingle_pages_wanted(p), -EIO))
			die("a device that fails takes a page for good");
		if (shingle_page(&e, 2) || shingle_pages_ask(p) != -EIO)
			die("it is not heard that a page cannot be read");
	}
	visit(&e, 2);
	/* An operation that keeps its pages gets the error until it drops them. */
	shingle_pages_begin(&e, SHINGLE_CLIENT_VERIFY);
	if (shingle_page(&e, 3) || shingle_pages_ask(p))
		die("a page cannot be read");
	shingle_pages_end(&e, true);
	shingle_pages_here(p, shingle_pages_wanted(p), -ETIMEDOUT);
	for (i = 0; i < 2; i++) {
		shingle_pages_begin(&e, SHINGLE_CLIENT_VERIFY);
		if (!shingle_page_lost(&e, 3) || shingle_page(&e, 3) ||
		    shingle_pages_ask(p) != -ETIMEDOUT)
			die("a page is read again while it is gone around");
		shingle_pages_end(&e, true);
	}
	if (shingle_page_lost(&e, 3))
		die("a device that fails takes a page for good");
	shingle_pages_drop(p, SHINGLE_CLIENT_VERIFY);
	visit(&e, 3);
	/* Permanent errors. */
	for (i = 0; i < ARRAY_SIZE(for_good); i++) {
		nr = 4 + i;
		if (shingle_page(&e, nr) || shingle_pages_ask(p) ||
		    !shingle_pages_here(p, shingle_pages_wanted(p), for_good[i]))
			die("damage is not heard of");
		if (shingle_page(&e, nr) || shingle_pages_ask(p) != for_good[i] ||
		    shingle_page(&e, nr) || shingle_pages_ask(p) != for_good[i] ||
		    !shingle_page_lost(&e, nr))
			die("damage is forgotten");
	}
	shingle_pages_destroy(&e);
}

int main(int argc, char **argv)
{
	u32 seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	u32 nr = argc > 2 ? strtoul(argv[2], NULL, 0) : 100;

	runs(seed, nr);
	scan();
	all_used();
	looked_ahead();
	read_besides();
	fails();
	all_fit();
	return 0;
}
