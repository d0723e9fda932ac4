// SPDX-License-Identifier: GPL-2.0
/* The work of soc to choose a merge in stores with many tables, and the limits of the overlap. */
#include <endian.h>
#include <time.h>

#include "model.h"
#include "pick.h"
#include "vectors.h"

/* Counted by the wrappers below. */
static u64 comparisons, histograms;
static bool drawn;

int __real_table_histogram(struct kv *kv, struct part *p, struct cache_item **item);
int __wrap_table_histogram(struct kv *kv, struct part *p, struct cache_item **item);

void count_comparison(void)
{
	__atomic_fetch_add(&comparisons, 1, __ATOMIC_RELAXED);
}

/* A drawn table has no band. */
int __wrap_table_histogram(struct kv *kv, struct part *p, struct cache_item **item)
{
	__atomic_fetch_add(&histograms, 1, __ATOMIC_RELAXED);
	return drawn ? -EIO : __real_table_histogram(kv, p, item);
}

/* Make a table of a whole band with the keys from @from to before @to, out of 2^32. */
static struct part *draw(u32 level, u64 age, u64 from, u64 to)
{
	struct table *t = calloc(1, sizeof(*t));
	u32 key[2] = { htobe32((u32)from), htobe32((u32)(to - 1)) };

	t->id = 1 + age;
	t->bytes = BAND;
	return part_new(t, level, age, slice(&key[0], 4), slice(&key[1], 4));
}

/* Make @nr tables that follow each other, from @from to before @to. */
static u32 draw_run(struct part **part, u32 at, u32 nr, u64 from, u64 to)
{
	u32 i;

	for (i = 0; i < nr; i++)
		part[at + i] = draw(1, 1 + at + i, from + (to - from) * i / nr,
				    from + (to - from) * (i + 1) / nr);
	return at + nr;
}

static struct kv *show(struct sim *s, struct part **part, u32 nr)
{
	struct kv *kv = opened(s, "new");

	version_put(kv, kv->current.version);
	kv->current.version = version_new(part, nr);
	/* As if each table had a band and an entry in the band table, with room for more. */
	kv->bands.free -= nr;
	kv->current.version->most_bytes = 0;
	drawn = true;
	return kv;
}

static void rub_out(struct kv *kv, struct part **part, u32 nr)
{
	drawn = false;
	while (nr)
		part_put(kv, part[--nr]);
	store_break(kv, -EIO, "a figure was drawn");
	kv_close(kv);
}

/* Verify that all newer parts of level 1 that overlap a picked one are picked, up to a key. */
static void closed(const struct pick *p, const char *what)
{
	const struct level *l = &p->version->level[1];
	struct slice end = p->beyond ? p->beyond->min : slice(NULL, 0);
	u32 i, j;

	for (i = 0; i < p->nr; i++) {
		if (p->part[i]->level != 1)
			continue;
		for (j = 0; j < l->nr; j++) {
			if (l->part[j]->age > p->part[i]->age &&
			    slice_cmp(l->part[j]->min, p->part[i]->max) <= 0 &&
			    slice_cmp(l->part[j]->max, p->part[i]->min) >= 0 &&
			    (!end.bytes || slice_cmp(l->part[j]->min, end) < 0) &&
			    !pick_has(p, l->part[j]))
				die("%s: a newer table that overlaps is not merged", what);
		}
	}
}

static void look(struct kv *kv, const char *what, bool tidy)
{
	u64 compared = comparisons, asked = histograms;
	struct timespec from, to;
	struct pick p;
	double us;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	if (pick_begin(kv, &p) || pick_soc(kv, &p))
		die("pick: %s", kv_error());
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	us = (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
	compared = comparisons - compared;
	asked = histograms - asked;
	printf("%s: %u of %u tables, %llu comparisons of keys, %llu histograms, %.0f us\n", what,
	       p.nr, p.version->nr, compared, asked, us);
	if (p.nr < 2 || p.nr > 40 || p.tidy != tidy || p.move)
		die("%s: %u tables are merged", what, p.nr);
	closed(&p, what);
	/* In a millisecond about 10,000 comparisons are possible. */
	if (!compared || compared + 10 * asked > 10000)
		die("%s: %llu comparisons of keys and %llu histograms for one merge", what,
		    compared, asked);
	pick_end(kv, &p);
}

/* Verify that a component of @nr parts is picked behind @after. */
static void component(struct kv *kv, struct slice after, u32 nr)
{
	u64 compared = comparisons;
	struct pick p;

	if (pick_begin(kv, &p) || pick_component(kv, &p, after))
		die("pick: %s", kv_error());
	compared = comparisons - compared;
	printf("component: %u of %u tables, %llu comparisons of keys\n", p.nr, p.version->nr,
	       compared);
	if (p.nr != nr || !compared || compared > 10000)
		die("a component of %u tables, after %llu comparisons of keys", p.nr, compared);
	pick_end(kv, &p);
}

/* Make runs of ever fewer tables, each over all keys: newer tables are wider. */
static u32 draw_runs(struct part **part, u32 tables, u32 runs)
{
	u32 nr = 0, i, of;

	for (i = 0; i < runs; i++, nr = draw_run(part, nr, of, 0, 1ULL << 32))
		of = max((tables - nr) * 5 / 8, 2U);
	return nr;
}

static void of_many(u32 tables)
{
	struct sim *s = formatted(BYTES);
	struct part **part = calloc(tables + 16, sizeof(*part));
	u32 nr, i, runs;
	struct kv *kv;

	for (runs = 3; runs <= 8; runs += 5) {
		nr = draw_runs(part, tables, runs);
		for (i = 0; i < 8; i++, nr++)
			part[nr] = draw(0, 1 + nr, i, (1ULL << 32) - i);
		kv = show(s, part, nr);
		look(kv, runs < 8 ? "level 0" : "level 1, that is full of overlap", runs == 8);
		rub_out(kv, part, nr);
	}
	/* Wide tables that are older than thousands of narrow ones without overlap. */
	for (i = 0, nr = 0; i < 7; i++)
		nr = draw_run(part, nr, 1, 0, 1ULL << 32);
	nr = draw_run(part, nr, tables - 7, 1, (1ULL << 32) - 1);
	kv = show(s, part, nr);
	look(kv, "above a wide table", true);
	rub_out(kv, part, nr);
	/* One wide table that is older than many tables that overlap. */
	nr = draw_run(part, 0, 1, 0, 1ULL << 32);
	nr = draw_run(part, nr, tables / 8, 0, 1ULL << 31);
	for (i = 0; i < 7; i++)
		nr = draw_run(part, nr, tables / 16 + i, 0, 1ULL << 31);
	kv = show(s, part, nr);
	look(kv, "below an old table", true);
	rub_out(kv, part, nr);
	/*
	 * Components are merged in order of keys: the next one comes behind thousands that are
	 * done.
	 */
	nr = draw_run(part, 0, tables - 2, 0, 1ULL << 31);
	nr = draw_run(part, nr, 1, 3ULL << 30, 1ULL << 32);
	nr = draw_run(part, nr, 1, 3ULL << 30, 1ULL << 32);
	kv = show(s, part, nr);
	component(kv, part[tables - 3]->max, 2);
	rub_out(kv, part, nr);
	free(part);
	sim_free(s);
}

/* Compare what a version stores about its levels with the result of a full walk. */
static void known(struct kv *kv)
{
	const struct level *l;
	u32 level, i, j, at, newer, most;
	struct part *found[8];

	for (level = 0; level < KV_LEVELS; level++) {
		l = &kv->current.version->level[level];
		for (i = 0, most = 0; i < l->nr; i++) {
			for (j = 0, at = 0, newer = 0; j < l->nr; j++) {
				bool is = slice_cmp(l->part[j]->min, l->part[i]->min) <= 0 &&
					slice_cmp(l->part[j]->max, l->part[i]->min) >= 0;

				at += is;
				newer += l->part[j]->age > l->part[i]->age &&
					slice_cmp(l->part[j]->min, l->part[i]->max) <= 0 &&
					slice_cmp(l->part[j]->max, l->part[i]->min) >= 0;
			}
			most = max(most, at);
			if (l->cover[i] != at)
				die("level %u: %u tables at a key, not %u", level, at, l->cover[i]);
			at = version_newer(kv->current.version, level, l->part[i]->min,
					   l->part[i]->max, l->part[i]->age, found,
					   ARRAY_SIZE(found));
			if (at != min(newer, (u32)ARRAY_SIZE(found)))
				die("level %u: %u newer tables overlap, not %u", level, newer, at);
		}
		if (l->nr && l->cover[l->deepest] != most)
			die("level %u: %u tables at a key at most, not %u", level, most,
			    l->cover[l->deepest]);
	}
}

struct ranges {
	struct { u8 min[16], max[16]; u32 min_bytes, max_bytes; int level; } of[400];
	u32 nr;
};

static int note_range(void *ctx, const struct kv_band *b)
{
	struct ranges *r = ctx;

	if (b->level < 0)
		return 0;
	if (r->nr == ARRAY_SIZE(r->of) || b->min_bytes > 16 || b->max_bytes > 16)
		die("more tables than the test has room for");
	r->of[r->nr].level = b->level;
	r->of[r->nr].min_bytes = (u32)b->min_bytes;
	r->of[r->nr].max_bytes = (u32)b->max_bytes;
	memcpy(r->of[r->nr].min, b->min_key, b->min_bytes);
	memcpy(r->of[r->nr].max, b->max_key, b->max_bytes);
	r->nr++;
	return 0;
}

/* Return: the largest number of tables from @level on that may have the same key. */
static u32 most_at_a_key(struct kv *kv, int level)
{
	struct ranges *r = calloc(1, sizeof(*r));
	u32 i, j, n, most = 0;

	kv_bands(kv, note_range, r);
	for (i = 0; i < r->nr; i++) {
		struct slice key = slice(r->of[i].min, r->of[i].min_bytes);

		for (j = 0, n = 0; j < r->nr; j++)
			n += r->of[j].level >= level &&
				slice_cmp(slice(r->of[j].min, r->of[j].min_bytes), key) <= 0 &&
				slice_cmp(slice(r->of[j].max, r->of[j].max_bytes), key) >= 0;
		most = max(most, n);
	}
	free(r);
	return most;
}

/* Random keys, more and more of them in a small range: no key may be in many tables. */
static void bounded(u64 seed)
{
	struct sim *s = formatted(400ULL * BAND);
	u32 i, at, most = 0, level1 = 0;
	struct kv *kv = opened(s, "new");
	u8 value[900] = { 0 };
	struct kv_stats stats = { .size = sizeof(stats) };
	char key[16];

	rng = seed;
	for (i = 0; i < 16000; i++) {
		u32 n = sprintf(key, "%08x", i % 3 ? rnd(1 << 30) : (1 << 28) + rnd(1 << 16));

		if (kv_put(kv, key, n, value, sizeof(value), 0))
			die("put: %s", kv_error());
		if (i % 61)
			continue;
		at = most_at_a_key(kv, 0);
		most = max(most, at);
		at = most_at_a_key(kv, 1);
		level1 = max(level1, at);
		if (i % 610 == 0)
			known(kv);
	}
	if (kv_settle(kv))
		die("settle: %s", kv_error());
	at = most_at_a_key(kv, 1);
	kv_stats(kv, &stats);
	printf("%lu tables: %u at a key at most, %u of level 1; %u of it settled\n",
	       stats.level_bands[0] + stats.level_bands[1], most, level1, at);
	if (most > 16 || level1 > 8 || at > 4)
		die("too many tables at a key");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	kv_close(kv);
	sim_free(s);
}

/* Move all tables of level 0 to level 1, the oldest first. */
static void move_down(struct kv *kv)
{
	while (kv->current.version->level[0].nr) {
		const struct level *l = &kv->current.version->level[0];
		struct part *p = l->part[0], *moved;
		u32 i;

		for (i = 1; i < l->nr; i++)
			p = l->part[i]->age < p->age ? l->part[i] : p;
		moved = part_new(p->table, 1, p->age, p->min, p->max);
		if (commit(kv, &(struct change){ .remove = &p, .removes = 1, .add = &moved,
						 .adds = 1 }))
			die("commit: %s", kv_error());
		part_put(kv, moved);
	}
}

/*
 * Six tables from a to z, and below them one table for each letter between.  All of those must go
 * with the newest of the six.  So merges end at a key, one after another, and no old value may
 * reappear.
 */
static void piece_by_piece(void)
{
	struct sim *s = formatted(BYTES);
	struct kv_options opt = options;
	u64 merges = 0;
	struct kv_stats stats = { .size = sizeof(stats) };
	char key[2] = "b";
	struct kv *kv;
	u32 i;

	opt.l0_trigger = 1000;
	if (sim_open(&kv, s, &opt))
		die("open: %s", kv_error());
	for (i = 0; i < 6; i++)
		put(kv, "abmtz", (char[]){ (char)('1' + i), 0 });
	for (; *key < 'z'; key[0]++) {
		if (*key == 'm' && kv_delete(kv, "m", 1, 0))
			die("delete: %s", kv_error());
		if (*key == 'm' ? kv_flush(kv) : (put(kv, key, key), 0))
			die("flush: %s", kv_error());
	}
	move_down(kv);
	if (most_at_a_key(kv, 1) != 7)
		die("%u tables at a key, not 7", most_at_a_key(kv, 1));
	for (i = 0; i < 2; i++) {
		if (i && kv_settle(kv))
			die("settle: %s", kv_error());
		known(kv);
		want(kv, "a", "6");
		want(kv, "z", "6");
		want(kv, "m", NULL);
		for (key[0] = 'b'; *key < 'z'; key[0]++) {
			if (*key != 'm')
				want(kv, key, key);
		}
		kv_stats(kv, &stats);
		merges = stats.compactions;
		kv_close(kv);
		kv = opened(s, "again");
	}
	printf("%llu merges, %u tables at a key\n", merges, most_at_a_key(kv, 1));
	if (merges < 3 || most_at_a_key(kv, 1) > 4)
		die("too many tables at a key");
	if (kv_check(kv, complain, NULL))
		die("check: %s", kv_error());
	kv_close(kv);
	sim_free(s);
}

void test_picks(u64 seed, u32 count)
{
	bounded(seed);
	piece_by_piece();
	/* The limit of the store itself. */
	most_inputs = 24;
	bounded(seed + 1);
	of_many(count);
}
