// SPDX-License-Identifier: GPL-2.0
/*
 * extents-test SEED [RUNS [no-rest]]: an extent map under random changes, checkpoints and power
 * cuts.
 * extents-test --bench [N [SEED]]: time and memory of a map with N extents.
 *
 * A model has the place of each unit.  Changes and the parts of checkpoints come at random moments,
 * and a part is written only if the map has reported a change of it.  After a power cut the map is
 * built from the parts of the last complete checkpoint and from the records since it began, and
 * must be equal to the model.
 *
 * With no-rest the records lack the right parts of split extents, and the program prints the number
 * of units that power cuts have lost.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/engine.h"
#include "extents/extents.h"

#define NONE		SHINGLE_EXTENTS_NONE
#define MOST_RECORDS	6000U
#define MOST_FLIGHT	6U
#define PART_BYTES	(PART_EXTENTS * 12U)

/* A change; place NONE if units were dropped. */
struct record {
	u32 lunit;
	u32 n;
	u32 place;
};

/* A part of the arena on the disk. */
struct part {
	u8 buf[PART_BYTES];
	u32 bytes;
};

/**
 * struct device - a map, its model, and what is on the disk
 * @x: the map
 * @rng: state of the random numbers
 * @lunits: units of the logical address space
 * @nr_segments: segments
 * @segment_units: units of each
 * @max: most extents
 * @model: place of each unit
 * @flight: writes that have a place and are not in the map
 * @nr_flight: number of @flight
 * @busy: for each segment the number of writes in flight to it
 * @segment: the segment that is being written, or NONE
 * @fill: units of it that are used
 * @nr_parts: parts of the arena
 * @marked: for each part, it has changed since it was last encoded
 * @valid: the parts as of the last checkpoint
 * @next: the parts as of the checkpoint in progress
 * @todo: for each part, the checkpoint in progress has still to write it
 * @nr_todo: number of these
 * @checkpointing: a checkpoint is in progress
 * @record: records since the last checkpoint began
 * @nr_records: number of @record
 * @from: first record behind the beginning of the checkpoint in progress
 * @no_rest: leave out the records of right parts
 * @changes: number of entries that the map has reported as changed
 */
struct device {
	struct shingle_extents x;
	u32 rng;
	u32 lunits;
	u32 nr_segments;
	u32 segment_units;
	u32 max;
	u32 *model;
	struct record flight[MOST_FLIGHT];
	u32 nr_flight;
	u32 *busy;
	u32 segment;
	u32 fill;
	u32 nr_parts;
	bool *marked;
	struct part *valid;
	struct part *next;
	bool *todo;
	u32 nr_todo;
	bool checkpointing;
	struct record record[MOST_RECORDS];
	u32 nr_records;
	u32 from;
	bool no_rest;
	u32 changes;
};

/* Numbers of events in all runs. */
static struct {
	u64 sets;
	u64 drops;
	u64 rests;
	u64 full;
	u64 moves;
	u64 checkpoints;
	u64 cuts;
	u64 grown;
	u64 lost;
} count;

static u32 failed_seed;

static void die(const char *what)
{
	printf("seed %u: %s\n", failed_seed, what);
	exit(1);
}

static void report(void *ctx, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
}

static u32 rnd(struct device *d, u32 below)
{
	d->rng = d->rng * 1664525U + 1013904223U;
	return ((u64)(d->rng >> 8) * below) >> 24;
}

static void *zalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		die("out of memory");
	return p;
}

static void on_change(void *ctx, u32 index)
{
	struct device *d = ctx;

	d->marked[index / PART_EXTENTS] = true;
	d->changes++;
}

static void add_record(struct device *d, u32 lunit, u32 n, u32 place)
{
	if (d->nr_records == MOST_RECORDS)
		die("the journal is full");
	d->record[d->nr_records++] = (struct record){ lunit, n, place };
}

static void add_rest(struct device *d, const struct shingle_extents_rest *rest)
{
	if (!rest->n)
		return;
	count.rests++;
	if (!d->no_rest)
		add_record(d, rest->lunit, rest->n, rest->place);
}

/* ------------------------------------------------------------------------
 * Checks
 */

static void verify(struct shingle_extents *x)
{
	u64 cursor = 0;

	do {
		if (shingle_extents_verify(x, &cursor, report, NULL))
			die("the map contradicts itself");
	} while (cursor != SHINGLE_NOWHERE);
}

/* The length of the run at a unit, by the model. */
static u32 run_of(const struct device *d, u32 lunit, u32 n)
{
	u32 place = d->model[lunit], run = 1;

	while (run < n) {
		u32 next = d->model[lunit + run];

		if (place == NONE ? next != NONE :
		    next != place + run || next % d->segment_units == 0)
			break;
		run++;
	}
	return run;
}

/* Compare the whole map with the model.  Returns the number of units that differ. */
static u32 differ(struct device *d)
{
	u32 l, i, n, place, wrong = 0;

	for (l = 0; l < d->lunits; l += n) {
		n = shingle_extents_find(&d->x, l, d->lunits - l, &place);
		if (!n || n > d->lunits - l)
			die("a run has no valid length");
		for (i = 0; i < n; i++)
			wrong += d->model[l + i] != (place == NONE ? NONE : place + i);
		if (!wrong && n != run_of(d, l, d->lunits - l))
			die("a run is too short");
	}
	return wrong;
}

static void check_find(struct device *d)
{
	u32 l = rnd(d, d->lunits), n = 1 + rnd(d, min(d->lunits - l, 50U)), place, at, u;
	u32 run = shingle_extents_find(&d->x, l, n, &place);

	if (place != d->model[l] || run != run_of(d, l, n))
		die("a unit is somewhere else");
	at = shingle_extents_at(&d->x, l);
	for (u = l; u < d->lunits && d->model[u] == NONE; u++)
		;
	if ((at == NONE) != (u == d->lunits))
		die("an extent is not found, or there is none");
	if (at != NONE && u - d->x.entry[at].lunit >= d->x.entry[at].n)
		die("another extent is found");
}

/* The live units of each segment, by the model. */
static void check_live(struct device *d)
{
	u32 *live = zalloc(d->nr_segments, sizeof(u32)), l, s;
	u64 sum = 0;

	for (l = 0; l < d->lunits; l++) {
		if (d->model[l] != NONE) {
			live[d->model[l] / d->segment_units]++;
			sum++;
		}
	}
	for (s = 0; s < d->nr_segments; s++) {
		if (live[s] != d->x.live[s])
			die("a segment has another number of live units");
	}
	if (sum != d->x.live_units)
		die("the sum of live units is wrong");
	free(live);
}

/* ------------------------------------------------------------------------
 * Changes
 */

/* Find a place for some units. Return: their number, 0 if all segments are in use. */
static u32 allocate(struct device *d, u32 n, u32 *place)
{
	u32 i, s = rnd(d, d->nr_segments);

	if (d->segment != NONE && d->fill == d->segment_units)
		d->segment = NONE;
	for (i = 0; i < d->nr_segments && d->segment == NONE; i++, s = (s + 1) % d->nr_segments) {
		if (!d->x.live[s] && !d->busy[s]) {
			if (d->x.first[s] != NONE || d->x.last[s] != NONE)
				die("a segment without live units has extents");
			d->segment = s;
			d->fill = 0;
		}
	}
	if (d->segment == NONE)
		return 0;
	n = min(n, d->segment_units - d->fill);
	*place = d->segment * d->segment_units + d->fill;
	d->fill += n;
	return n;
}

static void set(struct device *d, u32 lunit, u32 n, u32 place)
{
	struct shingle_extents_rest rest;
	u32 i;

	if (shingle_extents_set(&d->x, lunit, n, place, &rest))
		die("a change fails");
	add_record(d, lunit, n, place);
	add_rest(d, &rest);
	for (i = 0; i < n; i++)
		d->model[lunit + i] = place + i;
	count.sets++;
}

static void drop(struct device *d, u32 lunit, u32 n)
{
	u32 most = 1 + rnd(d, rnd(d, 2) ? 3 : 20), i, done, had = 0;
	struct shingle_extents_rest rest;
	bool dropped;

	if (!shingle_extents_reserve(&d->x, SHINGLE_EXTENTS_DROP)) {
		/* Without a reservation only whole extents can be dropped. */
		i = shingle_extents_at(&d->x, lunit);
		if (i == NONE)
			return;
		lunit = d->x.entry[i].lunit;
		n = d->x.entry[i].n;
	} else {
		shingle_extents_unreserve(&d->x, SHINGLE_EXTENTS_DROP);
	}
	d->changes = 0;
	done = shingle_extents_drop(&d->x, lunit, n, most, &dropped, &rest);
	if (!done || done > n)
		die("no progress, or too much");
	if (d->changes > most + !!rest.n)
		die("more extents are visited than may be");
	for (i = 0; i < done; i++) {
		had += d->model[lunit + i] != NONE;
		d->model[lunit + i] = NONE;
	}
	if (dropped != !!had)
		die("it is reported wrongly whether units were mapped");
	add_record(d, lunit, done, NONE);
	add_rest(d, &rest);
	count.drops++;
}

/* Most writes are to few places, or continue the one before. */
static u32 pick(struct device *d)
{
	switch (rnd(d, 4)) {
	case 0:
		return rnd(d, d->lunits);
	case 1:
		return d->nr_records ? (d->record[d->nr_records - 1].lunit +
					d->record[d->nr_records - 1].n) % d->lunits : 0;
	default:
		return rnd(d, max(d->lunits / 8, 1U));
	}
}

static u32 size(struct device *d, u32 lunit)
{
	u32 most = rnd(d, 8) ? 8 : 60;

	return 1 + rnd(d, min(most, d->lunits - lunit));
}

static void begin_write(struct device *d)
{
	struct record *r = &d->flight[d->nr_flight];

	if (d->nr_flight == MOST_FLIGHT)
		return;
	if (!shingle_extents_reserve(&d->x, SHINGLE_EXTENTS_SET)) {
		count.full++;
		return;
	}
	r->lunit = pick(d);
	r->n = allocate(d, size(d, r->lunit), &r->place);
	if (!r->n) {
		shingle_extents_unreserve(&d->x, SHINGLE_EXTENTS_SET);
		return;
	}
	d->busy[r->place / d->segment_units]++;
	d->nr_flight++;
}

static void end_write(struct device *d)
{
	u32 which;
	struct record r;

	if (!d->nr_flight)
		return;
	which = rnd(d, 2) ? 0 : rnd(d, d->nr_flight);
	r = d->flight[which];
	d->nr_flight--;
	memmove(&d->flight[which], &d->flight[which + 1], (d->nr_flight - which) * sizeof(r));
	shingle_extents_unreserve(&d->x, SHINGLE_EXTENTS_SET);
	d->busy[r.place / d->segment_units]--;
	set(d, r.lunit, r.n, r.place);
}

/* Rewrite what is in a segment by walking its chain. */
static void clean(struct device *d)
{
	u32 s = rnd(d, d->nr_segments), i, n, place;
	struct shingle_extents_entry e;

	if (s == d->segment || d->busy[s])
		return;
	while ((i = d->x.first[s]) != NONE) {
		e = d->x.entry[i];
		if (!shingle_extents_reserve(&d->x, SHINGLE_EXTENTS_SET))
			return;
		shingle_extents_unreserve(&d->x, SHINGLE_EXTENTS_SET);
		n = allocate(d, e.n, &place);
		if (!n || d->nr_records + 4 > MOST_RECORDS)
			return;
		set(d, e.lunit, n, place);
		count.moves++;
	}
	if (d->x.live[s])
		die("a segment without extents has live units");
}

/* ------------------------------------------------------------------------
 * Checkpoints and power cuts
 */

static void checkpoint_begin(struct device *d)
{
	u32 i;

	d->checkpointing = true;
	d->from = d->nr_records;
	memcpy(d->next, d->valid, d->nr_parts * sizeof(d->next[0]));
	memcpy(d->todo, d->marked, d->nr_parts * sizeof(d->todo[0]));
	d->nr_todo = 0;
	for (i = 0; i < d->nr_parts; i++)
		d->nr_todo += d->todo[i];
}

/* Write a part, or the footer when all parts are written. */
static void checkpoint_some(struct device *d)
{
	u32 i;

	if (d->nr_todo) {
		for (i = rnd(d, d->nr_parts); !d->todo[i]; i = (i + 1) % d->nr_parts)
			;
		d->next[i].bytes = shingle_extents_encode(&d->x, i, d->next[i].buf);
		d->todo[i] = false;
		d->marked[i] = false;
		d->nr_todo--;
		return;
	}
	memcpy(d->valid, d->next, d->nr_parts * sizeof(d->next[0]));
	d->nr_records -= d->from;
	memmove(d->record, d->record + d->from, d->nr_records * sizeof(d->record[0]));
	d->checkpointing = false;
	count.checkpoints++;
}

static void start(struct device *d)
{
	if (shingle_extents_init(&d->x, d->max, d->nr_segments, d->segment_units))
		die("out of memory");
	d->x.changed = on_change;
	d->x.ctx = d;
}

static void replay(struct device *d)
{
	struct shingle_extents_rest rest;
	u32 i, done, at;
	bool dropped;

	for (i = 0; i < d->nr_records; i++) {
		const struct record *r = &d->record[i];

		if (r->place != NONE) {
			if (shingle_extents_set(&d->x, r->lunit, r->n, r->place, &rest))
				die("out of memory");
			continue;
		}
		for (at = 0; at < r->n; at += done) {
			done = shingle_extents_drop(&d->x, r->lunit + at, r->n - at, U32_MAX,
						    &dropped, &rest);
			if (!done)
				die("out of memory");
		}
	}
}

static void power_cut(struct device *d)
{
	u32 i, l, n, place;
	int r;

	shingle_extents_exit(&d->x);
	start(d);
	/* Nothing looks at marks during recovery, and indices may be beyond all parts. */
	d->x.changed = NULL;
	for (i = 0; i < d->nr_parts; i++) {
		if (shingle_extents_decode(&d->x, i, d->valid[i].buf, d->valid[i].bytes,
					   d->lunits))
			die("a part of a checkpoint is refused");
	}
	if (shingle_extents_build(&d->x, false))
		die("the map cannot be built");
	replay(d);
	count.grown += d->x.size > d->max;
	r = shingle_extents_build(&d->x, true);
	if (r && !(d->no_rest && r == -EUCLEAN))
		die("the map cannot be built at the end");
	if (!r)
		count.lost += differ(d);
	if (count.lost && !d->no_rest)
		die("a power cut has lost units");
	count.cuts++;
	d->nr_flight = 0;
	memset(d->busy, 0, d->nr_segments * sizeof(u32));
	d->segment = NONE;
	d->checkpointing = false;
	if (d->no_rest)
		return;
	if (d->x.size != d->max)
		die("memory that recovery needed stays");
	d->x.changed = on_change;
	for (i = 0; i < d->nr_parts; i++)
		d->marked[i] = true;
	/* The number of extents is the least possible. */
	for (i = 0, l = 0; l < d->lunits; l += n) {
		n = shingle_extents_find(&d->x, l, d->lunits - l, &place);
		i += place != NONE;
	}
	if (i != d->x.nr)
		die("a map has more extents than runs after recovery");
	verify(&d->x);
	check_live(d);
}

/* ------------------------------------------------------------------------
 * Runs
 */

static void one_round(struct device *d)
{
	u32 dice = rnd(d, 1000), lunit;

	if (dice < 400) {
		begin_write(d);
	} else if (dice < 800) {
		end_write(d);
	} else if (dice < 860) {
		lunit = pick(d);
		drop(d, lunit, size(d, lunit));
	} else if (dice < 880) {
		clean(d);
	} else if (dice < 996) {
		if (d->checkpointing)
			checkpoint_some(d);
		else if (!rnd(d, 8))
			checkpoint_begin(d);
	} else if (dice < 998 || d->no_rest) {
		verify(&d->x);
		check_live(d);
	} else {
		power_cut(d);
	}
	check_find(d);
	while (d->nr_records > MOST_RECORDS / 2 && d->checkpointing)
		checkpoint_some(d);
	if (d->nr_records > MOST_RECORDS / 2)
		checkpoint_begin(d);
}

static void one_run(u32 seed, u32 rounds, bool no_rest)
{
	struct device *d = zalloc(1, sizeof(*d));
	u32 i;

	failed_seed = seed;
	d->rng = seed * 2654435761U + 1;
	d->no_rest = no_rest;
	d->lunits = 1 + rnd(d, rnd(d, 2) ? 100 : 3000);
	d->segment_units = 1 + rnd(d, 100);
	d->nr_segments = d->lunits / d->segment_units + 3 + rnd(d, 8);
	d->max = 8 + rnd(d, d->lunits);
	d->segment = NONE;
	d->nr_parts = shingle_extents_parts(d->max);
	d->model = malloc(d->lunits * sizeof(u32));
	if (!d->model)
		die("out of memory");
	memset(d->model, 0xff, d->lunits * sizeof(u32));
	d->busy = zalloc(d->nr_segments, sizeof(u32));
	d->marked = zalloc(d->nr_parts, sizeof(bool));
	d->todo = zalloc(d->nr_parts, sizeof(bool));
	d->valid = zalloc(d->nr_parts, sizeof(struct part));
	d->next = zalloc(d->nr_parts, sizeof(struct part));
	start(d);
	for (i = 0; i < rounds; i++)
		one_round(d);
	if (differ(d))
		die("the map differs from its model");
	verify(&d->x);
	check_live(d);
	power_cut(d);
	shingle_extents_exit(&d->x);
	free(d->model);
	free(d->busy);
	free(d->marked);
	free(d->todo);
	free(d->valid);
	free(d->next);
	free(d);
}

/* ------------------------------------------------------------------------
 * Checkpoints that no map has written
 */

#define BAD_LUNITS	100U
#define BAD_SEGMENTS	4U
#define BAD_UNITS	20U
#define BAD_MAX		9U

static void put_extent(u8 *buf, u32 i, u32 lunit, u32 place, u32 n)
{
	__le32 raw[3] = { cpu_to_le32(lunit), cpu_to_le32(place), cpu_to_le32(n) };

	memcpy(buf + i * sizeof(raw), raw, sizeof(raw));
}

static void bad_start(struct shingle_extents *x)
{
	if (shingle_extents_init(x, BAD_MAX, BAD_SEGMENTS, BAD_UNITS))
		die("out of memory");
}

/* Each of these parts must be refused. */
static void refused(void)
{
	static const struct {
		struct record e;
		u32 part;
		u32 bytes;
	} bad[] = {
		{ { 0, 1, BAD_SEGMENTS * BAD_UNITS }, 0, 12 },	/* the place is beyond the log */
		{ { 0, 1, U32_MAX }, 0, 12 },
		{ { 0, 2, BAD_UNITS - 1 }, 0, 12 },		/* it crosses the segment's end */
		{ { 0, BAD_UNITS + 1, 0 }, 0, 12 },
		{ { 0, U32_MAX, 1 }, 0, 12 },
		{ { BAD_LUNITS - 1, 2, 0 }, 0, 12 },		/* it ends beyond the last unit */
		{ { BAD_LUNITS, 1, 0 }, 0, 12 },
		{ { U32_MAX, 2, 0 }, 0, 12 },			/* its end overflows */
		{ { 5, 0, 0 }, 0, 12 },				/* a free entry with content */
		{ { 0, 0, 7 }, 0, 12 },
		{ { 0, 1, 0 }, 0, 11 },				/* not whole extents */
		{ { 0, 1, 0 }, 0, PART_BYTES + 12 },		/* more than a part has */
		{ { 0, 1, 0 }, (BAD_MAX + PART_EXTENTS - 1) / PART_EXTENTS, 12 },
		{ { 0, 1, 0 }, U32_MAX, 12 },			/* no such part */
	};
	u8 buf[PART_BYTES + 12] = { 0 };
	struct shingle_extents x;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		bad_start(&x);
		put_extent(buf, 0, bad[i].e.lunit, bad[i].e.place, bad[i].e.n);
		if (shingle_extents_decode(&x, bad[i].part, buf, bad[i].bytes,
					   BAD_LUNITS) != -EUCLEAN)
			die("an invalid part is accepted");
		shingle_extents_exit(&x);
	}
	/* Two extents claim a place. */
	bad_start(&x);
	put_extent(buf, 0, 0, 3, 3);
	put_extent(buf, 1, 50, 5, 2);
	if (shingle_extents_decode(&x, 0, buf, 24, BAD_LUNITS) ||
	    shingle_extents_build(&x, false))
		die("an overlap counts before the last change");
	if (shingle_extents_build(&x, true) != -EUCLEAN)
		die("two extents share a place");
	shingle_extents_exit(&x);
	if (shingle_extents_init(&x, 0, 1, 1) != -EINVAL ||
	    shingle_extents_init(&x, SHINGLE_EXTENTS_MAX + 1, 1, 1) != -EINVAL ||
	    shingle_extents_init(&x, 1, 65536, 65536) != -EINVAL)
		die("an impossible size is accepted");
}

/* Random parts, then random changes: the map is refused, or has no contradiction. */
static void garbage(struct device *d, u32 *accepted)
{
	u32 max = BAD_MAX, i, k, done, lunit, parts = shingle_extents_parts(max);
	struct shingle_extents_rest rest;
	struct shingle_extents x;
	u8 buf[PART_BYTES];
	bool dropped;
	int r = 0;

	bad_start(&x);
	for (i = 0; i < parts && !r; i++) {
		u32 nr = min(PART_EXTENTS, max - i * PART_EXTENTS);

		for (k = 0; k < nr; k++)
			put_extent(buf, k, rnd(d, BAD_LUNITS - 9),
				   rnd(d, BAD_SEGMENTS) * BAD_UNITS + rnd(d, 10),
				   1 + rnd(d, rnd(d, 90) ? 9 : 20));
		r = shingle_extents_decode(&x, i, buf, nr * 12, BAD_LUNITS);
	}
	if (!r)
		r = shingle_extents_build(&x, false);
	for (i = rnd(d, 30); i && !r; i--) {
		lunit = rnd(d, BAD_LUNITS - 9);
		if (rnd(d, 2)) {
			r = shingle_extents_set(&x, lunit, 1 + rnd(d, 9),
						rnd(d, BAD_SEGMENTS) * BAD_UNITS + rnd(d, 10),
						&rest);
			continue;
		}
		done = shingle_extents_drop(&x, lunit, 9, U32_MAX, &dropped, &rest);
		if (done != 9)
			die("a drop during recovery fails");
	}
	if (!r)
		r = shingle_extents_build(&x, true);
	if (r && r != -EUCLEAN)
		die("an invalid checkpoint fails for another reason");
	if (!r) {
		verify(&x);
		++*accepted;
	}
	shingle_extents_exit(&x);
}

static void invalid(u32 seed)
{
	struct device d = { .rng = seed };
	u32 i, accepted = 0, nr = 20000;

	failed_seed = seed;
	refused();
	for (i = 0; i < nr; i++)
		garbage(&d, &accepted);
	printf("garbage: %u of %u accepted, without a contradiction\n", accepted, nr);
}

/* ------------------------------------------------------------------------
 * Time and memory
 */

#define BENCH_UNITS	8U
#define BENCH_SEGMENT	65536U

/* Processor time, since other programs run beside this one. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* A permutation of the numbers below 2^bits. */
static u32 permute(u32 i, u32 bits)
{
	u32 mask = (1U << bits) - 1, round;

	for (round = 0; round < 3; round++) {
		i ^= i >> (bits + 1) / 2;
		i = i * 0x9e3779b1U & mask;
	}
	return i ^ i >> (bits + 1) / 2;
}

/**
 * struct timer - time of many equal operations
 * @since: beginning of the current batch
 * @best: time of an operation in the fastest batch, since other programs disturb the others
 * @batch: operations in a batch
 * @nr: operations in the current one
 */
struct timer {
	double since;
	double best;
	u32 batch;
	u32 nr;
};

static struct timer timer_start(u32 nr)
{
	return (struct timer){ .since = now(), .best = 1, .batch = nr / 64 };
}

static void timer_tick(struct timer *t)
{
	double at;

	if (++t->nr < t->batch)
		return;
	at = now();
	t->best = min(t->best, (at - t->since) / t->batch);
	t->since = at;
	t->nr = 0;
}

static void timer_print(const struct timer *t, const char *what)
{
	printf("  %-28s %6.0f ns\n", what, t->best * 1e9);
}

static void bench_find(struct shingle_extents *x, struct device *d, u32 nr, u32 lunits)
{
	struct timer t = timer_start(nr);
	u32 at, sum = 0, i;

	for (i = 0; i < nr; i++) {
		sum += shingle_extents_find(x, rnd(d, lunits), 1, &at) + at;
		timer_tick(&t);
	}
	timer_print(&t, sum ? "find" : "find nothing");
}

/* Write @nr extents, at multiples of BENCH_UNITS plus @off or less. */
static void bench_sets(struct shingle_extents *x, struct device *d, u32 nr, u32 n, u32 off,
		       u32 *place, const char *what)
{
	struct timer t = timer_start(nr);
	struct shingle_extents_rest rest;
	u32 i;

	for (i = 0; i < nr; i++, *place += BENCH_UNITS) {
		u32 lunit = rnd(d, n - 1) * BENCH_UNITS + (off ? 1 + rnd(d, off) : 0);

		shingle_extents_set(x, lunit, BENCH_UNITS, *place, &rest);
		timer_tick(&t);
	}
	timer_print(&t, what);
}

static void bench_recovery(struct shingle_extents *x, u32 lunits)
{
	u32 nr = shingle_extents_parts(x->max), *bytes = zalloc(nr, sizeof(u32)), i;
	u8 *parts = zalloc(nr, PART_BYTES);
	struct shingle_extents y;
	double since;

	for (i = 0; i < nr; i++)
		bytes[i] = shingle_extents_encode(x, i, parts + (size_t)i * PART_BYTES);
	since = now();
	if (shingle_extents_init(&y, x->max, x->nr_segments, x->segment_units))
		die("out of memory");
	printf("  %-28s %6.2f s\n", "init", now() - since);
	since = now();
	for (i = 0; i < nr; i++) {
		if (shingle_extents_decode(&y, i, parts + (size_t)i * PART_BYTES, bytes[i],
					   lunits))
			die("a part is refused");
	}
	printf("  %-28s %6.2f s\n", "decode", now() - since);
	since = now();
	if (shingle_extents_build(&y, false))
		die("the map cannot be built");
	printf("  %-28s %6.2f s\n", "build before replay", now() - since);
	since = now();
	if (shingle_extents_build(&y, true))
		die("the map cannot be built at the end");
	printf("  %-28s %6.2f s\n", "build after replay", now() - since);
	if (y.live_units != x->live_units)
		die("recovery has lost units");
	shingle_extents_exit(&y);
	free(parts);
	free(bytes);
}

static void bench(u32 n, u32 seed)
{
	u32 bits = 1, place = 0, i, max = n + n / 2, lunits = n * BENCH_UNITS;
	struct device d = { .rng = seed };
	struct shingle_extents_rest rest;
	struct shingle_extents x;
	struct timer t;

	while (1U << bits < n)
		bits++;
	if (shingle_extents_init(&x, max, 3 * n / (BENCH_SEGMENT / BENCH_UNITS) + 1,
				 BENCH_SEGMENT))
		die("out of memory");
	printf("%u extents, room for %u:\n", n, max);
	t = timer_start(n);
	for (i = 0; i < 1U << bits; i++) {
		u32 block = permute(i, bits);

		if (block >= n)
			continue;
		shingle_extents_set(&x, block * BENCH_UNITS, BENCH_UNITS, place, &rest);
		place += BENCH_UNITS;
		/* The map must be large before the time counts. */
		if (place == n / 4 * 3 * BENCH_UNITS)
			t = timer_start(n / 4);
		timer_tick(&t);
	}
	timer_print(&t, "set of new units");
	bench_find(&x, &d, n, lunits);
	bench_sets(&x, &d, n / 2, n, 0, &place, "set over one extent");
	bench_sets(&x, &d, n / 2, n, BENCH_UNITS - 2, &place, "set over parts of two");
	bench_find(&x, &d, n, lunits);
	printf("  %-28s %6.2f (%.1f of %u)\n", "bytes an extent",
	       shingle_extents_bytes(&x) / (double)max, shingle_extents_bytes(&x) / 1e6, max);
	bench_recovery(&x, lunits);
	shingle_extents_exit(&x);
}

int main(int argc, char **argv)
{
	u32 seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	u32 nr = argc > 2 ? strtoul(argv[2], NULL, 0) : 100, i;
	bool no_rest = argc > 3 && !strcmp(argv[3], "no-rest");

	if (argc > 1 && !strcmp(argv[1], "--bench")) {
		bench(argc > 2 ? strtoul(argv[2], NULL, 0) : 1000000,
		      argc > 3 ? strtoul(argv[3], NULL, 0) : 1);
		return 0;
	}
	for (i = 0; i < nr; i++)
		one_run(seed + i, 4000, no_rest);
	printf("extents: %u runs, %llu sets, %llu drops, %llu rests, %llu full, %llu moves, %llu checkpoints, %llu power cuts, %llu times grown, %llu units lost\n",
	       nr, (unsigned long long)count.sets, (unsigned long long)count.drops,
	       (unsigned long long)count.rests, (unsigned long long)count.full,
	       (unsigned long long)count.moves, (unsigned long long)count.checkpoints,
	       (unsigned long long)count.cuts, (unsigned long long)count.grown,
	       (unsigned long long)count.lost);
	invalid(seed);
	return 0;
}
