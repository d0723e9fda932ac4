// SPDX-License-Identifier: GPL-2.0
/*
 * reads-test SEED [RUNS]: core/lib/reads against simple models, under random loads.
 *
 * - The read cache with fills and readers under way, while places are overwritten: a reader never
 *   gets old data, and its data do not change while it holds them.
 * - The read cache with one operation at a time, against a list of the last units.  A larger cache
 *   has every hit that a smaller one has.
 * - Two read caches, of which one ends the fills of a read in another order.
 * - The regions of look-ahead-behind, likewise.
 * - Counts of seeks and of mis-ordered writes, against a search of the whole past.
 * - Decisions of the remedies.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "reads/around.h"
#include "reads/readcache.h"
#include "reads/remedies.h"
#include "reads/seeks.h"
#include "check/random.h"

#define PLACES		600U
#define MOST_SLOTS	300U
#define MOST_FRAG	90U
#define MOST_WAYS	6U

static u64 rng;
static u32 failed_seed;

static void die(const char *why)
{
	fprintf(stderr, "reads-test: seed %u: %s\n", failed_seed, why);
	exit(1);
}

static void __printf(2, 3) contradiction(void *ctx, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

static void verify(const struct shingle_readcache *c)
{
	u32 cursor = 0;

	while (cursor != SHINGLE_NO_CACHE_SLOT) {
		if (shingle_readcache_verify(c, &cursor, contradiction, NULL))
			die("the read cache contradicts itself");
	}
}

/* ------------------------------------------------------------------------
 * The read cache with fills and readers under way
 */

/* A fill or a reader; @n is 0 if there is none. */
struct way {
	bool reads;
	struct shingle_readcache_fill fill;
	u64 place;
	u32 n;
	u32 slots[MOST_FRAG];
	u32 version[MOST_FRAG];
};

struct ways {
	u64 hits;
	u64 fills;
	u64 cancelled;
	u64 refused;
	u64 held;
};

static u32 disk[PLACES];
static u32 page[MOST_SLOTS];

static void forget(struct shingle_readcache *c, u64 place, u32 n)
{
	u32 done;

	for (; n; place += done, n -= done) {
		done = shingle_readcache_forget(c, place, n);
		if (!done || done > n)
			die("nothing is forgotten, or too much");
	}
}

static void end_way(struct shingle_readcache *c, struct way *w)
{
	u32 i, s;

	if (w->reads) {
		for (i = 0; i < w->n; i++) {
			if (page[w->slots[i]] != w->version[i])
				die("a page changes while a reader holds it");
		}
		shingle_readcache_put(c, w->slots, w->n);
	} else if (!random_below(&rng, 8)) {
		shingle_readcache_cancel(c, &w->fill);
	} else {
		for (s = w->fill.slot, i = 0; i < w->fill.n; i++, s = shingle_readcache_next(c, s))
			page[s] = w->version[w->n - w->fill.n + i];
		shingle_readcache_filled(c, &w->fill);
	}
	w->n = 0;
}

static void begin_way(struct shingle_readcache *c, struct way *w, struct ways *sum)
{
	u32 n = random_between(&rng, 1, random_below(&rng, 8) ? 8 : MOST_FRAG), i;
	u64 place = random_below(&rng, random_below(&rng, 3) ? 60 : PLACES - n);

	/* Often a whole fragment of a coarse grid, or an exact cache would have no hits. */
	if (random_below(&rng, 4)) {
		n = 1 + place % 7;
		place -= place % 7;
	}
	if (shingle_readcache_hit(c, place, n, w->slots)) {
		sum->hits++;
		w->reads = true;
		for (i = 0; i < n; i++) {
			if (page[w->slots[i]] != disk[place + i])
				die("a reader gets old data");
			w->version[i] = disk[place + i];
		}
	} else if (shingle_readcache_fill(c, &w->fill, place, n)) {
		sum->fills++;
		w->reads = false;
		for (i = 0; i < n; i++)
			w->version[i] = disk[place + i];
	} else {
		sum->refused++;
		return;
	}
	w->place = place;
	w->n = n;
}

static void cache_under_way(bool exact, struct ways *sum)
{
	u32 slots = random_below(&rng, 3) ? random_between(&rng, 1, MOST_SLOTS) : 12;
	struct way way[MOST_WAYS];
	struct shingle_readcache c;
	u32 round, i, n, place;

	memset(way, 0, sizeof(way));
	memset(disk, 0, sizeof(disk));
	if (shingle_readcache_init(&c, slots, exact))
		die("out of memory");
	for (round = 0; round < 2000; round++) {
		struct way *w = &way[random_below(&rng, MOST_WAYS)];
		u32 dice = random_below(&rng, 100);

		if (dice < 80) {
			if (w->n)
				end_way(&c, w);
			else
				begin_way(&c, w, sum);
		} else if (dice < 97) {
			n = random_between(&rng, 1, dice < 82 ? PLACES : 6);
			place = random_below(&rng, PLACES - n + 1);
			forget(&c, place, n);
			for (i = 0; i < n; i++)
				disk[place + i]++;
		} else if (dice < 98) {
			while (shingle_readcache_clear(&c))
				;
			if (c.here)
				die("a cleared cache is not empty");
		} else {
			while (shingle_readcache_limit(&c, random_between(&rng, slots / 2, slots)))
				;
		}
		if (c.used > slots)
			die("more slots than there are");
		if (!(round % 16))
			verify(&c);
		for (i = 0; i < MOST_WAYS; i++)
			sum->held += way[i].n && way[i].reads;
	}
	for (i = 0; i < MOST_WAYS; i++) {
		if (way[i].n)
			end_way(&c, &way[i]);
	}
	while (shingle_readcache_clear(&c))
		;
	if (c.used || c.here || c.nr_fills)
		die("an empty cache has used slots");
	sum->cancelled += c.count.cancelled;
	shingle_readcache_exit(&c);
}

/* ------------------------------------------------------------------------
 * The read cache with one operation at a time
 */

/* The fragments in a cache, the newest one first.  In a cache by units each has one unit. */
struct list {
	u32 nr;
	u32 units;
	struct shingle_span span[PLACES * 2];
};

static u32 list_at(const struct list *l, u64 place, u32 n)
{
	u32 i;

	for (i = 0; i < l->nr; i++) {
		if (l->span[i].place == place && l->span[i].n == n)
			return i;
	}
	return l->nr;
}

static void list_remove(struct list *l, u32 i)
{
	l->units -= l->span[i].n;
	l->nr--;
	memmove(&l->span[i], &l->span[i + 1], (l->nr - i) * sizeof(l->span[0]));
}

static void list_add(struct list *l, u64 place, u32 n, u32 most)
{
	u32 i = list_at(l, place, n);

	if (i < l->nr)
		list_remove(l, i);
	if (n > most)
		return;
	while (l->units + n > most)
		list_remove(l, l->nr - 1);
	memmove(&l->span[1], &l->span[0], l->nr++ * sizeof(l->span[0]));
	l->span[0] = (struct shingle_span){ place, n };
	l->units += n;
}

/* Use a fragment.  Return: whether it was there. */
static bool list_use(struct list *l, u64 place, u32 n, u32 most, bool exact)
{
	bool hit = true;
	u32 i;

	if (exact) {
		hit = list_at(l, place, n) < l->nr;
		list_add(l, place, n, most);
		return hit;
	}
	for (i = 0; i < n; i++)
		hit = hit && list_at(l, place + i, 1) < l->nr;
	for (i = 0; i < n; i++)
		list_add(l, place + i, 1, most);
	return hit;
}

static bool cache_use(struct shingle_readcache *c, u64 place, u32 n)
{
	struct shingle_readcache_fill f;

	if (shingle_readcache_hit(c, place, n, NULL))
		return true;
	if (shingle_readcache_fill(c, &f, place, n) && !shingle_readcache_filled(c, &f))
		die("a fill is cancelled for nothing");
	return false;
}

static u64 cache_alone(bool exact)
{
	u32 size[2], round, i, k;
	static struct list list[2];
	struct shingle_readcache c[2];
	u64 hits = 0;

	size[0] = random_between(&rng, 0, 60);
	size[1] = size[0] + random_below(&rng, 60);
	memset(list, 0, sizeof(list));
	for (k = 0; k < 2; k++) {
		if (shingle_readcache_init(&c[k], size[k], exact))
			die("out of memory");
	}
	for (round = 0; round < 1500; round++) {
		u32 n = random_between(&rng, 1, random_below(&rng, 20) ? 6 : MOST_FRAG);
		u64 place = random_below(&rng, random_below(&rng, 3) ? 60 : PLACES - n);
		bool hit[2];

		if (exact && random_below(&rng, 4)) {
			n = 1 + place % 5;
			place -= place % 5;
		}
		if (!random_below(&rng, 12)) {
			for (k = 0; k < 2; k++) {
				forget(&c[k], place, n);
				for (i = 0; i < list[k].nr;) {
					struct shingle_span s = list[k].span[i];

					if (s.place < place + n && place < s.place + s.n)
						list_remove(&list[k], i);
					else
						i++;
				}
			}
			continue;
		}
		for (k = 0; k < 2; k++) {
			hit[k] = cache_use(&c[k], place, n);
			if (hit[k] != list_use(&list[k], place, n, size[k], exact))
				die("a hit that the model has not, or the reverse");
			if (c[k].here != list[k].units)
				die("the cache has more or fewer units than the model");
			hits += hit[k];
		}
		if (!exact && hit[0] && !hit[1])
			die("a larger cache has fewer hits");
	}
	for (k = 0; k < 2; k++) {
		verify(&c[k]);
		shingle_readcache_exit(&c[k]);
	}
	return hits;
}

/* ------------------------------------------------------------------------
 * The order in which fills end
 */

/*
 * Of two caches, one ends each fill at once, and the other ends those of a read in random order.
 * Both have the same hits.
 */
static u64 ends_in_any_order(bool exact)
{
	u32 slots = random_between(&rng, MOST_WAYS * 8, MOST_WAYS * 20), round, nr, i, n, end;
	struct shingle_readcache_fill fill[MOST_WAYS];
	u32 filling[MOST_WAYS], way[MOST_FRAG];
	struct shingle_readcache one, other;
	u64 hits = 0, place;
	bool hit;

	if (shingle_readcache_init(&one, slots, exact) ||
	    shingle_readcache_init(&other, slots, exact))
		die("out of memory");
	for (round = 0; round < 200; round++) {
		/* The fragments of a read. */
		for (i = 0, nr = 0; i < MOST_WAYS; i++) {
			n = exact ? 4 : random_between(&rng, 1, 8);
			place = 8 * (MOST_WAYS * random_below(&rng, 5) + i);
			hit = cache_use(&one, place, n);
			if (shingle_readcache_hit(&other, place, n, way) != hit)
				die("the order in which fills end changes what is evicted");
			hits += hit;
			if (hit)
				shingle_readcache_put(&other, way, n);
			else if (shingle_readcache_fill(&other, &fill[i], place, n))
				filling[nr++] = i;
		}
		while (nr) {
			end = random_below(&rng, nr);
			shingle_readcache_filled(&other, &fill[filling[end]]);
			filling[end] = filling[--nr];
		}
		if (one.here != other.here)
			die("the order in which fills end changes how much is kept");
	}
	verify(&other);
	shingle_readcache_exit(&one);
	shingle_readcache_exit(&other);
	return hits;
}

/* ------------------------------------------------------------------------
 * Regions
 */

/* Content of the regions' buffers. */
static u32 buffer[SHINGLE_AROUND_REGIONS][MOST_FRAG];

static u64 regions(void)
{
	u32 nr = random_between(&rng, 1, SHINGLE_AROUND_REGIONS), round, i, n, at, k, hits = 0;
	u32 filling = SHINGLE_NO_REGION, reading = SHINGLE_NO_REGION, read_at = 0, read_n = 0;
	struct shingle_around_region turns[SHINGLE_AROUND_REGIONS], *r;
	struct shingle_around a;
	u64 place, oldest;

	memset(disk, 0, sizeof(disk));
	shingle_around_init(&a, nr, MOST_FRAG);
	for (round = 0; round < 2000; round++) {
		u32 dice = random_below(&rng, 100);

		n = random_between(&rng, 1, 6);
		place = random_below(&rng, PLACES - n);
		if (dice < 55) {
			at = shingle_around_hit(&a, place, n);
			/* The model: any region that is kept and contains it. */
			for (i = 0, k = 0; i < nr && i < a.limit; i++) {
				r = &a.region[i];
				k += r->state == SHINGLE_AROUND_HERE && !r->forgotten &&
				     r->place <= place && place + n <= r->place + r->n;
			}
			if ((at == SHINGLE_NO_REGION) != !k)
				die("a region is not found, or one that is not kept");
			if (at != SHINGLE_NO_REGION) {
				r = &a.region[at];
				for (i = 0; i < n; i++) {
					if (buffer[at][place + i - r->place] != disk[place + i])
						die("a region has old data");
				}
				hits++;
				if (reading == SHINGLE_NO_REGION) {
					reading = at;
					read_at = place - r->place;
					read_n = buffer[at][read_at];
				} else {
					shingle_around_put(&a, at);
				}
				continue;
			}
			if (filling != SHINGLE_NO_REGION)
				continue;
			n = random_between(&rng, n, min_t(u32, MOST_FRAG, PLACES - place));
			oldest = U64_MAX;
			for (i = 0; i < a.limit; i++) {
				r = &a.region[i];
				if (r->state == SHINGLE_AROUND_EMPTY)
					oldest = 0;
				else if (r->state == SHINGLE_AROUND_HERE && !r->held)
					oldest = min(oldest, r->turn);
			}
			memcpy(turns, a.region, sizeof(turns));
			at = shingle_around_fill(&a, place, n);
			if ((at == SHINGLE_NO_REGION) != (oldest == U64_MAX))
				die("a region is replaced while it is in use, or none is");
			if (at == SHINGLE_NO_REGION)
				continue;
			if (oldest ? turns[at].turn != oldest :
			    turns[at].state != SHINGLE_AROUND_EMPTY)
				die("another region is replaced than the oldest one");
			filling = at;
			for (i = 0; i < n; i++)
				buffer[at][i] = disk[place + i];
		} else if (dice < 75 && filling != SHINGLE_NO_REGION) {
			if (random_below(&rng, 8))
				shingle_around_filled(&a, filling);
			else
				shingle_around_cancel(&a, filling);
			filling = SHINGLE_NO_REGION;
		} else if (dice < 85 && reading != SHINGLE_NO_REGION) {
			if (buffer[reading][read_at] != read_n)
				die("a region changes while a reader holds it");
			shingle_around_put(&a, reading);
			reading = SHINGLE_NO_REGION;
		} else if (dice < 97) {
			shingle_around_forget(&a, place, n);
			for (i = 0; i < n; i++)
				disk[place + i]++;
		} else if (dice < 98) {
			shingle_around_clear(&a);
		} else {
			shingle_around_limit(&a, random_between(&rng, 0, nr));
		}
		if (shingle_around_verify(&a, contradiction, NULL))
			die("the regions contradict themselves");
	}
	return hits;
}

/* Three regions are read into two: the first one is replaced, although it was used last. */
static void first_in_first_out(void)
{
	struct shingle_around a;
	u32 i;

	shingle_around_init(&a, 2, 8);
	for (i = 0; i < 3; i++) {
		shingle_around_filled(&a, shingle_around_fill(&a, 100 * i, 8));
		if (i == 1)
			shingle_around_put(&a, shingle_around_hit(&a, 2, 3));
	}
	if (shingle_around_hit(&a, 2, 3) != SHINGLE_NO_REGION ||
	    shingle_around_hit(&a, 100, 8) == SHINGLE_NO_REGION ||
	    shingle_around_hit(&a, 200, 8) == SHINGLE_NO_REGION)
		die("another region is replaced than the first one");
	if (shingle_around_hit(&a, 207, 2) != SHINGLE_NO_REGION)
		die("a region has more than was read");
	if (shingle_around_fill(&a, 300, 9) != SHINGLE_NO_REGION)
		die("a region is larger than its buffer");
	/* Both are held. */
	if (shingle_around_fill(&a, 300, 8) != SHINGLE_NO_REGION)
		die("a region is replaced while a reader holds it");
}

/* ------------------------------------------------------------------------
 * Counts
 */

#define WRITES	900U

/* Random writes, many next to earlier ones.  Return: number of mis-ordered writes. */
static u64 counts(u32 shift)
{
	static struct { u64 start; u32 n; u64 volume; bool mis; } past[WRITES];
	u32 long_units = (500 * 1024 + (1 << shift) - 1) >> shift, i, k, class, n;
	u64 at, next = 0, volume = 0, mis = 0, seeks[SHINGLE_NR_SEEK_CLASSES] = {}, far = 0;
	u64 in_buckets = 0, far_counted = 0;
	static struct shingle_seeks s;

	shingle_seeks_init(&s, shift);
	for (i = 0; i < WRITES; i++) {
		n = random_between(&rng, 1, 200 >> (shift - 9));
		at = random_below(&rng, 1U << (26 - shift));
		k = random_below(&rng, 4);
		if (i && k < 2) {
			struct { u64 start; u32 n; } near;

			near.start = past[i - 1 - random_below(&rng, min(i, 8U))].start;
			near.n = n;
			/* Before or behind a recent one. */
			at = k ? near.start + near.n : near.start - min_t(u64, near.start, n);
		}
		volume += n;
		for (k = 0; k < i; k++) {
			if (!past[k].mis && past[k].start == at + n &&
			    (volume - past[k].volume) << shift <= 256 * 1024) {
				past[k].mis = true;
				mis++;
			}
		}
		past[i].start = at;
		past[i].volume = volume;
		past[i].mis = false;
		shingle_seeks_host(&s, true, at, n);
		if (s.misordered.nr != mis)
			die("mis-ordered writes are counted wrongly");
	}
	shingle_seeks_clear(&s);
	if (s.misordered.nr || s.host.ops[SHINGLE_SEEK_WRITE])
		die("cleared counts are not 0");
	for (i = 0; i < 2000; i++) {
		class = random_below(&rng, SHINGLE_NR_SEEK_CLASSES);
		n = random_between(&rng, 1, 9);
		at = random_below(&rng, 3) ? random_below(&rng, 4096) : next;
		if (i && at != next) {
			u64 distance = at > next ? at - next : next - at;

			seeks[class]++;
			far += distance >= long_units;
		}
		next = at + n;
		shingle_seeks_medium(&s, class, at, n);
	}
	for (i = 0; i < SHINGLE_NR_SEEK_CLASSES; i++) {
		if (s.medium.seeks[i] != seeks[i])
			die("seeks are counted wrongly");
		in_buckets -= seeks[i];
		far_counted += s.medium.long_seeks[i];
	}
	for (i = 0; i < SHINGLE_DISTANCE_BUCKETS; i++)
		in_buckets += s.medium.ahead[i] + s.medium.back[i];
	if (in_buckets || far_counted != far)
		die("distances are counted wrongly");
	return mis;
}

/* The bounds of buckets and of long seeks. */
static void distances(void)
{
	static struct shingle_seeks s;

	shingle_seeks_init(&s, 9);
	/* The first operation is no seek. */
	shingle_seeks_plain(&s, SHINGLE_SEEK_READ, 5000, 1);
	shingle_seeks_plain(&s, SHINGLE_SEEK_READ, 5001, 1);
	if (s.plain.seeks[SHINGLE_SEEK_READ])
		die("the first operation counts as a seek, or one without a distance");
	shingle_seeks_plain(&s, SHINGLE_SEEK_READ, 6001, 1);		/* 999 sectors ahead */
	shingle_seeks_plain(&s, SHINGLE_SEEK_CLEAN_READ, 7002, 1);	/* 1000 */
	shingle_seeks_plain(&s, SHINGLE_SEEK_REWRITE, 5979, 2);		/* 1024 back */
	if (s.plain.seeks[SHINGLE_SEEK_READ] != 1 || s.plain.long_seeks[SHINGLE_SEEK_READ] ||
	    s.plain.long_seeks[SHINGLE_SEEK_CLEAN_READ] != 1 ||
	    s.plain.long_seeks[SHINGLE_SEEK_REWRITE] != 1)
		die("a seek of 500 KiB is not long, or a shorter one is");
	if (s.plain.ahead[9] != 2 || s.plain.back[10] != 1)
		die("a distance is in the wrong bucket");
	shingle_seeks_read(&s, 1);
	shingle_seeks_read(&s, 4);
	shingle_seeks_read(&s, 7);
	if (s.frags_of[0] != 1 || s.frags_of[2] != 2 || s.fragmented != 2 || s.frags != 12 ||
	    s.fragmented_frags != 11)
		die("fragments are counted wrongly");
}

/* The calls that count several streams at once equal the calls for each of them. */
static void together(void)
{
	static struct shingle_seeks one, each;
	u32 i;

	shingle_seeks_init(&one, 12);
	shingle_seeks_init(&each, 12);
	for (i = 0; i < 20000; i++) {
		u64 lunit = random_below(&rng, 400), place = random_below(&rng, 400);
		u32 n = random_between(&rng, 1, 4), class = random_below(&rng, 5);

		switch (random_below(&rng, 3)) {
		case 0:
			shingle_seeks_one_run(&one, lunit, n + 2, place, n);
			shingle_seeks_host(&each, false, lunit, n + 2);
			shingle_seeks_read(&each, 1);
			class = SHINGLE_SEEK_READ;
			break;
		case 1:
			shingle_seeks_direct(&one, class, place, n);
			break;
		default:	/* The heads of the two streams part. */
			shingle_seeks_medium(&one, class, place, n);
			shingle_seeks_medium(&each, class, place, n);
			continue;
		}
		shingle_seeks_medium(&each, class, place, n);
		shingle_seeks_plain(&each, class, place, n);
	}
	if (memcmp(&one, &each, sizeof(one)))
		die("one call for several streams counts otherwise than one for each");
}

/* An engine's table of counters with the rows of seeks. */
struct owner {
	u32 before;
	struct shingle_seeks counts;
};

static const struct shingle_counter rows[] = {
	SHINGLE_SEEKS_COUNTERS(struct owner, counts),
	{ }
};

static u64 row(const struct owner *o, const char *name)
{
	const struct shingle_counter *c;

	for (c = rows; c->name; c++) {
		if (!strcmp(c->name, name))
			return shingle_counter_get(c, o);
	}
	die(name);
	return 0;
}

static void counters(void)
{
	static struct owner o;
	u32 i, k;

	shingle_seeks_init(&o.counts, 12);
	/* 125 blocks of 4 KiB are 500 KiB. */
	shingle_seeks_host(&o.counts, false, 0, 1);
	shingle_seeks_host(&o.counts, true, 126, 1);
	shingle_seeks_host(&o.counts, false, 251, 1);
	shingle_seeks_medium(&o.counts, SHINGLE_SEEK_WRITE, 7, 1);
	shingle_seeks_medium(&o.counts, SHINGLE_SEEK_CLEAN_WRITE, 9, 1);
	shingle_seeks_plain(&o.counts, SHINGLE_SEEK_WRITE, 7, 1);
	shingle_seeks_plain(&o.counts, SHINGLE_SEEK_REWRITE, 1000, 1);
	shingle_seeks_read(&o.counts, 3);
	if (row(&o, "nols_write_seeks") != 1 || row(&o, "nols_write_long_seeks") != 1 ||
	    row(&o, "nols_read_seeks") != 1 || row(&o, "nols_read_long_seeks") ||
	    row(&o, "ls_write_seeks") || row(&o, "ls_clean_write_seeks") != 1 ||
	    row(&o, "plain_rewrite_long_seeks") != 1 || row(&o, "read_fragments") != 3)
		die("a row of a table of counters has another number");
	for (i = 0; i < ARRAY_SIZE(rows) - 1; i++) {
		for (k = 0; k < i; k++) {
			if (!strcmp(rows[i].name, rows[k].name) || rows[i].offset == rows[k].offset)
				die("two rows of a table of counters are equal");
		}
	}
}

/* Return: number of mis-ordered writes. */
static u64 misordered(u32 shift, const u64 *start, u32 nr, u32 n)
{
	static struct shingle_seeks s;
	u32 i;

	shingle_seeks_init(&s, shift);
	for (i = 0; i < nr; i++)
		shingle_seeks_host(&s, true, start[i], n);
	return s.misordered.nr;
}

static void orders(void)
{
	static const u64 down[] = { 256, 128, 0 }, up[] = { 0, 128, 256 }, three[] = { 3, 2, 4 };
	/* The first write follows one that ends 256 KiB of writes, or that comes later. */
	static const u64 last[] = { 640, 5000, 6000, 7000, 512 };
	static const u64 late[] = { 640, 5000, 6000, 7000, 8000, 512 };
	u64 many[514];
	u32 i;

	if (misordered(9, down, 3, 128) != 2 || misordered(9, up, 3, 128) ||
	    misordered(9, three, 3, 1) != 1)
		die("mis-ordered writes of the paper's kinds are counted wrongly");
	if (misordered(9, last, 5, 128) != 1 || misordered(9, late, 6, 128))
		die("the window of mis-ordered writes has another size");
	for (i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = 10 + 10 * i;
	many[512] = 9;
	many[513] = 9;
	if (misordered(9, many, 513, 1) != 1)
		die("the window has no room for the shortest writes");
	many[512] = 9999;
	if (misordered(9, many, 514, 1))
		die("the window has room for too many of the shortest writes");
}

/* ------------------------------------------------------------------------
 * Decisions
 */

static struct shingle_span around(struct shingle_remedies *r, u64 place, u32 n, u64 lo, u64 hi,
				  u64 head)
{
	return shingle_remedies_around(r, (struct shingle_span){ place, n }, lo, hi, head);
}

static bool spans(struct shingle_span s, u64 first, u64 end)
{
	return s.place == first && s.place + s.n == end;
}

/* Two ranges with the same entry: a read of one takes one from the count of the other. */
static void shared_entry(struct shingle_remedies *r)
{
	struct shingle_remedies_range *entry = NULL;
	u64 other;
	u32 i;

	shingle_remedies_clear(r);
	shingle_remedies_read(r, 0, 10, 2);
	for (i = 0; i < SHINGLE_DEFRAG_RANGES; i++) {
		if (r->range[i].hits)
			entry = &r->range[i];
	}
	for (other = 0; !other || !entry->hits;) {
		shingle_remedies_clear(r);
		other += 2048;
		shingle_remedies_read(r, other, 10, 2);
	}
	shingle_remedies_clear(r);
	shingle_remedies_read(r, 0, 10, 2);
	shingle_remedies_read(r, 0, 10, 2);
	if (shingle_remedies_read(r, other, 10, 2) || shingle_remedies_read(r, 0, 10, 2) ||
	    !shingle_remedies_read(r, 0, 10, 2))
		die("a range that shares its entry loses its count");
	shingle_remedies_read(r, 0, 10, 2);
	shingle_remedies_read(r, other, 10, 2);
	shingle_remedies_read(r, other, 10, 2);
	if (!shingle_remedies_read(r, other, 10, 2))
		die("a range keeps an entry that it does not use");
}

static void decisions(void)
{
	struct shingle_remedies r;
	u32 i;

	if (shingle_remedies_init(&r, 9))
		die("out of memory");
	if (shingle_remedies_keeps(&r) || shingle_remedies_looks_around(&r) ||
	    shingle_remedies_read(&r, 0, 10, 5) ||
	    !spans(around(&r, 50, 5, 0, 100, SHINGLE_HEAD_UNKNOWN), 50, 55))
		die("a remedy is on at first");
	r.set.behind = 10;
	r.set.ahead = 20;
	if (!spans(around(&r, 50, 5, 0, 100, SHINGLE_HEAD_UNKNOWN), 40, 75) ||
	    !spans(around(&r, 50, 5, 45, 60, SHINGLE_HEAD_UNKNOWN), 45, 60) ||
	    !spans(around(&r, 50, 5, 50, 55, SHINGLE_HEAD_UNKNOWN), 50, 55) ||
	    !spans(around(&r, 4, 5, 0, 100, SHINGLE_HEAD_UNKNOWN), 0, 29))
		die("what is around a fragment is not within the bounds");
	if (!spans(around(&r, 50, 5, 0, 100, 44), 44, 75) ||
	    !spans(around(&r, 50, 5, 0, 100, 50), 50, 75) ||
	    !spans(around(&r, 50, 5, 0, 100, 51), 40, 75) ||
	    !spans(around(&r, 50, 5, 0, 100, 39), 40, 75))
		die("a head within the look-behind is not used, or another one");
	r.set.behind = U32_MAX;
	r.set.ahead = U32_MAX;
	if (!spans(around(&r, 1ULL << 40, 5, 0, U64_MAX - 1, SHINGLE_HEAD_UNKNOWN),
		   (1ULL << 40) - U32_MAX + 5, (1ULL << 40) + 5) &&
	    !spans(around(&r, 1ULL << 40, 5, 0, U64_MAX - 1, SHINGLE_HEAD_UNKNOWN),
		   (1ULL << 40) - U32_MAX, 1ULL << 40))
		die("a span has more units than its length can hold");
	r.set.defrag_frags = 3;
	r.set.defrag_units = 10;
	if (shingle_remedies_read(&r, 0, 10, 2) || shingle_remedies_read(&r, 0, 11, 3) ||
	    !shingle_remedies_read(&r, 0, 10, 3))
		die("a read is rewritten against the settings");
	r.set.defrag_frags = 1;
	if (shingle_remedies_read(&r, 0, 1, 1))
		die("an unfragmented read is rewritten");
	/* The third read of a MiB.  Reads of other ranges or with fewer fragments do not count. */
	r.set.defrag_frags = 2;
	r.set.defrag_hits = 3;
	for (i = 1; i <= 9; i++) {
		if (shingle_remedies_read(&r, 2047, 10, 1) ||
		    shingle_remedies_read(&r, 4096 + 2048 * i, 10, 2))
			die("a read is rewritten that was not repeated");
		if (shingle_remedies_read(&r, i % 2 ? 0 : 2047, 10, 2) != !(i % 3))
			die("another read than the third one is rewritten");
	}
	shingle_remedies_read(&r, 0, 10, 2);
	shingle_remedies_read(&r, 0, 10, 2);
	shingle_remedies_clear(&r);
	if (shingle_remedies_read(&r, 0, 10, 2))
		die("cleared counts are not 0");
	shared_entry(&r);
	shingle_remedies_exit(&r);
}

int main(int argc, char **argv)
{
	u32 seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	u32 nr = argc > 2 ? strtoul(argv[2], NULL, 0) : 100;
	u64 alone[2] = {}, any_order = 0, region_hits = 0, mis = 0;
	struct ways ways[2];
	u32 i, exact;

	memset(ways, 0, sizeof(ways));
	for (i = 0; i < nr; i++) {
		failed_seed = seed + i;
		rng = failed_seed;
		for (exact = 0; exact < 2; exact++) {
			cache_under_way(exact, &ways[exact]);
			alone[exact] += cache_alone(exact);
			any_order += ends_in_any_order(exact);
		}
		region_hits += regions();
		mis += counts(9) + counts(12);
	}
	first_in_first_out();
	distances();
	together();
	counters();
	orders();
	decisions();
	for (exact = 0; exact < 2; exact++)
		printf("%s: %llu hits, %llu fills, %llu cancelled, %llu refused, %llu held, %llu hits alone\n",
		       exact ? "exact" : "units", (unsigned long long)ways[exact].hits,
		       (unsigned long long)ways[exact].fills,
		       (unsigned long long)ways[exact].cancelled,
		       (unsigned long long)ways[exact].refused,
		       (unsigned long long)ways[exact].held, (unsigned long long)alone[exact]);
	printf("fills that end in any order: %llu hits\n", (unsigned long long)any_order);
	printf("regions: %llu hits\ncounts: %llu mis-ordered\n", (unsigned long long)region_hits,
	       (unsigned long long)mis);
	return 0;
}
