// SPDX-License-Identifier: GPL-2.0
/* A log-structured disk without data, see log.h. */
#include "log.h"

/* Longest length of the log. */
#define LOG_UNITS	(SHINGLE_EXTENTS_NONE - 1)

static bool is_finite(const struct replay_log *l)
{
	return l->opt.disk.full;
}

/* A finite disk reads or writes.  The caches forget a place that it overwrites. */
static void disk_io(void *ctx, enum shingle_seek_class class, u64 place, u32 n)
{
	struct replay_log *l = ctx;
	u32 done, i;

	if (class != SHINGLE_SEEK_CLEAN_READ) {
		for (i = 0; i < n; i += done)
			done = shingle_readcache_forget(&l->cache, place + i, n - i);
		shingle_around_forget(&l->around, place, n);
	}
	shingle_seeks_direct(&l->seeks, class, place, n);
}

/**
 * log_init() - make a log: an empty one, or a finite disk that contains all that the trace uses
 * @l: the log
 * @opt: how
 * @why: on error, a sentence
 *
 * Return: 0 or -errno.
 */
int log_init(struct replay_log *l, const struct replay_options *opt, const char **why)
{
	u32 segment = opt->segment_units ?: LOG_UNITS;
	u32 segments = opt->segment_units ? min(opt->segments, LOG_UNITS / segment) : 1;
	int err = -ENOMEM;

	memset(l, 0, sizeof(*l));
	l->opt = *opt;
	l->units = (u64)segments * segment;
	l->fill = calloc(segments, sizeof(*l->fill));
	*why = "there is not enough memory for the extents of the map";
	shingle_around_init(&l->around, opt->regions, U32_MAX);
	if (!l->fill || shingle_remedies_init(&l->remedies, opt->unit_shift) ||
	    shingle_readcache_init(&l->cache, opt->cache_units, opt->exact) ||
	    (!is_finite(l) && shingle_extents_init(&l->map, opt->extents, segments, segment)))
		goto fail;
	shingle_seeks_init(&l->seeks, opt->unit_shift);
	if (is_finite(l)) {
		err = disk_init(&l->disk, &opt->disk, opt->compact.units, disk_io, l, why);
		if (err)
			goto fail;
	}
	/* The writes that fill the disk are not counted. */
	log_clear_counts(l);
	l->remedies.set = opt->remedies;
	return 0;
fail:
	log_exit(l);
	return err;
}

/**
 * log_clear_counts() - forget what was counted so far; the next operation is the first one
 * @l: the log
 */
void log_clear_counts(struct replay_log *l)
{
	shingle_seeks_init(&l->seeks, l->opt.unit_shift);
	memset(l->frags_of, 0, sizeof(l->frags_of));
	memset(&l->cache.count, 0, sizeof(l->cache.count));
	memset(&l->around.count, 0, sizeof(l->around.count));
	l->largest_region = 0;
	if (l->nr_popular)
		memset(l->popular, 0, l->max_popular * sizeof(*l->popular));
	l->nr_popular = 0;
	l->reads = 0;
	l->writes = 0;
	l->discards = 0;
	l->rewrites = 0;
	l->rewritten = 0;
	l->dropped = 0;
	if (is_finite(l))
		disk_clear_counts(&l->disk);
}

/**
 * log_exit() - free the memory of a log
 * @l: the log; log_init() may have failed
 */
void log_exit(struct replay_log *l)
{
	shingle_extents_exit(&l->map);
	disk_exit(&l->disk);
	shingle_remedies_exit(&l->remedies);
	shingle_readcache_exit(&l->cache);
	compact_exit(&l->opt.compact);
	free(l->fill);
	free(l->frag);
	free(l->popular);
}

/* The place of a unit of an infinite disk: there is a guard behind each segment. */
static u64 place_of(const struct replay_log *l, u64 unit)
{
	u32 segment = l->opt.segment_units;

	return segment ? unit + unit / segment * l->opt.guard_units : unit;
}

/* The units from this one on, to the end of its segment. */
static u64 room_at(const struct replay_log *l, u64 unit)
{
	u32 segment = l->opt.segment_units;

	return segment ? segment - unit % segment : U64_MAX;
}

/* The places that may be read together with another one. */
static void segment_at(const struct replay_log *l, u64 place, u64 *lo, u64 *hi)
{
	u32 segment = l->opt.segment_units;
	u64 nr, home;

	if (is_finite(l)) {
		disk_segment(&l->disk, place, lo, hi);
	} else if (segment) {
		nr = place / (segment + l->opt.guard_units);
		home = l->opt.base / segment;
		*lo = nr * (segment + l->opt.guard_units);
		*hi = *lo + (nr < home ? segment : l->fill[nr - home]);
	} else {
		*lo = 0;
		*hi = l->opt.base + l->written;
	}
}

/*
 * The run of places from a compact address on, within a piece of compact addresses, as all that a
 * request touches is.  On an infinite disk addresses without an extent are at their own place; on
 * a finite one, they need no read (SHINGLE_NOWHERE).
 * Return: its length.
 */
static u32 run(struct replay_log *l, u32 compact, u32 n, u64 *place)
{
	u32 at, part;
	u64 left, unit;

	if (is_finite(l))
		return disk_find(&l->disk, compact, n, place);
	part = shingle_extents_find(&l->map, compact, n, &at);
	if (at != SHINGLE_EXTENTS_NONE)
		unit = l->opt.base + at;
	else
		unit = compact_address(&l->opt.compact, compact, &left);
	*place = place_of(l, unit);
	return min_t(u64, part, room_at(l, unit));
}

/* Collect the fragments of a read. */
static int collect(struct replay_log *l, u32 compact, u32 n)
{
	u64 place, next = U64_MAX;
	u32 part;

	for (l->nr_frags = 0; n; compact += part, n -= part) {
		part = run(l, compact, n, &place);
		if (place == SHINGLE_NOWHERE)
			continue;
		if (place == next) {
			l->frag[l->nr_frags - 1].n += part;
			next += part;
			continue;
		}
		if (l->nr_frags == l->max_frags) {
			u32 max = 2 * l->max_frags + 64;
			struct shingle_span *more = realloc(l->frag, max * sizeof(*more));

			if (!more)
				return -ENOMEM;
			l->frag = more;
			l->max_frags = max;
		}
		l->frag[l->nr_frags++] = (struct shingle_span){ place, part };
		next = place + part;
	}
	return 0;
}

static struct popular *popular_at(struct popular *table, u64 max, u64 place, u32 n)
{
	u64 i = (place * 0x9e3779b97f4a7c15ULL ^ n) >> 20;

	while (table[i & (max - 1)].n && (table[i & (max - 1)].place != place ||
					  table[i & (max - 1)].n != n))
		i++;
	return &table[i & (max - 1)];
}

/* Count an access of a fragment. */
static int count_popular(struct replay_log *l, struct shingle_span frag)
{
	struct popular *p;
	u64 i, max;

	if (2 * l->nr_popular >= l->max_popular) {
		max = l->max_popular ? 2 * l->max_popular : 1U << 16;
		p = calloc(max, sizeof(*p));
		if (!p)
			return -ENOMEM;
		for (i = 0; i < l->max_popular; i++) {
			if (l->popular[i].n)
				*popular_at(p, max, l->popular[i].place, l->popular[i].n) =
					l->popular[i];
		}
		free(l->popular);
		l->popular = p;
		l->max_popular = max;
	}
	p = popular_at(l->popular, l->max_popular, frag.place, frag.n);
	l->nr_popular += !p->n;
	p->place = frag.place;
	p->n = frag.n;
	p->accesses++;
	return 0;
}

static void keep(struct replay_log *l, struct shingle_span frag)
{
	struct shingle_readcache_fill fill;

	if (shingle_remedies_keeps(&l->remedies) &&
	    shingle_readcache_fill(&l->cache, &fill, frag.place, frag.n))
		shingle_readcache_filled(&l->cache, &fill);
}

/* Read a fragment of a fragmented read: from the cache, a region, or the medium. */
static void read_fragment(struct replay_log *l, struct shingle_span frag)
{
	struct shingle_span span = frag;
	u64 lo, hi;
	u32 region;

	if (shingle_remedies_keeps(&l->remedies) &&
	    shingle_readcache_hit(&l->cache, frag.place, frag.n, NULL))
		return;
	if (shingle_remedies_looks_around(&l->remedies)) {
		region = shingle_around_hit(&l->around, frag.place, frag.n);
		if (region != SHINGLE_NO_REGION) {
			shingle_around_put(&l->around, region);
			keep(l, frag);
			return;
		}
		segment_at(l, frag.place, &lo, &hi);
		span = shingle_remedies_around(&l->remedies, frag, lo, hi, l->seeks.medium.next);
		l->largest_region = max(l->largest_region, span.n);
		region = shingle_around_fill(&l->around, span.place, span.n);
		if (region != SHINGLE_NO_REGION)
			shingle_around_filled(&l->around, region);
		else
			span = frag;
	}
	shingle_seeks_medium(&l->seeks, SHINGLE_SEEK_READ, span.place, span.n);
	keep(l, frag);
}

/* The log reads or writes, with and without caches. */
static void move(struct replay_log *l, enum shingle_seek_class class, u64 place, u32 n)
{
	shingle_seeks_direct(&l->seeks, class, place, n);
}

/* Write to the frontier, within a segment. */
static int append(struct replay_log *l, enum shingle_seek_class class, u64 lunit, u32 n)
{
	u32 segment = l->opt.segment_units;
	struct shingle_extents_rest rest;

	if (n > l->units - l->written)
		return -ENOSPC;
	if (!shingle_extents_reserve(&l->map, SHINGLE_EXTENTS_SET))
		return -ENOMEM;
	shingle_extents_set(&l->map, compact_of(&l->opt.compact, lunit), n, l->written, &rest);
	shingle_extents_unreserve(&l->map, SHINGLE_EXTENTS_SET);
	move(l, class, place_of(l, l->opt.base + l->written), n);
	if (segment)
		l->fill[l->written / segment] = l->written % segment + n;
	l->written += n;
	return 0;
}

/* Write to the frontier, and go on in the next segment where one ends. */
static int append_all(struct replay_log *l, enum shingle_seek_class class, u64 lunit, u32 n)
{
	u32 part;
	int err = 0;

	for (; n && !err; lunit += part, n -= part) {
		part = min_t(u64, n, room_at(l, l->written));
		if (class == SHINGLE_SEEK_WRITE)
			shingle_seeks_host(&l->seeks, true, lunit, part);
		err = append(l, class, lunit, part);
	}
	return err;
}

static int by_place(const void *a, const void *b)
{
	const struct shingle_span *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

/*
 * The extents of a read as a step of stl-log copies them: what was never written is one up to the
 * next extent.  @span: result, those in the log, of which at most REPLAY_STEP_FRAGS are needed.
 * Return: number of all of them.
 */
static u32 step_extents(struct replay_log *l, u32 compact, u32 n, struct shingle_span *span,
			u32 *nr_spans)
{
	u32 part, at, nr = 0;

	for (*nr_spans = 0; n; compact += part, n -= part) {
		part = shingle_extents_find(&l->map, compact, n, &at);
		if (at != SHINGLE_EXTENTS_NONE && *nr_spans < REPLAY_STEP_FRAGS)
			span[(*nr_spans)++] = (struct shingle_span){
				place_of(l, l->opt.base + at), part
			};
		nr++;
	}
	return nr;
}

/*
 * Rewrite a read as a step of stl-log does: read what is in the log again, in the order of places,
 * and write all of it to one segment.
 */
static int rewrite_by_step(struct replay_log *l, u64 lunit, u32 n)
{
	struct shingle_span span[REPLAY_STEP_FRAGS];
	u64 skip = room_at(l, l->written);
	u32 nr, nr_spans, i;

	nr = step_extents(l, compact_of(&l->opt.compact, lunit), n, span, &nr_spans);
	if (!nr_spans || nr > REPLAY_STEP_FRAGS ||
	    (l->opt.segment_units && n > l->opt.segment_units)) {
		l->dropped++;
		return 0;
	}
	qsort(span, nr_spans, sizeof(*span), by_place);
	for (i = 0; i < nr_spans; i++)
		move(l, SHINGLE_SEEK_CLEAN_READ, span[i].place, span[i].n);
	if (skip < n)
		l->written += skip;
	l->rewrites++;
	l->rewritten += n;
	return append(l, SHINGLE_SEEK_REWRITE, lunit, n);
}

/* Write what was read again. */
static int rewrite(struct replay_log *l, u64 lunit, u32 n)
{
	int err = 0;

	if (l->opt.reread)
		return rewrite_by_step(l, lunit, n);
	if (!is_finite(l)) {
		err = append_all(l, SHINGLE_SEEK_REWRITE, lunit, n);
	} else if (!disk_rewrite(&l->disk, compact_of(&l->opt.compact, lunit), n)) {
		l->dropped++;
		return 0;
	}
	l->rewrites++;
	l->rewritten += n;
	return err;
}

/**
 * log_read() - the host reads
 * @l: the log
 * @lunit: first address
 * @n: number of units, at least 1
 *
 * Return: 0, -ENOMEM, or with defragmentation -ENOSPC.
 */
int log_read(struct replay_log *l, u64 lunit, u32 n)
{
	u32 i;
	int err;

	l->reads++;
	shingle_seeks_host(&l->seeks, false, lunit, n);
	err = collect(l, compact_of(&l->opt.compact, lunit), n);
	if (err)
		return err;
	if (l->nr_frags)
		shingle_seeks_read(&l->seeks, l->nr_frags);
	l->frags_of[min(l->nr_frags, REPLAY_MOST_FRAGS - 1)]++;
	for (i = 0; i < l->nr_frags; i++) {
		struct shingle_span frag = l->frag[i];

		shingle_seeks_plain(&l->seeks, SHINGLE_SEEK_READ, frag.place, frag.n);
		if (l->nr_frags == 1) {
			shingle_seeks_medium(&l->seeks, SHINGLE_SEEK_READ, frag.place, frag.n);
			break;
		}
		read_fragment(l, frag);
		if (l->opt.popular)
			err = err ?: count_popular(l, frag);
	}
	if (l->opt.per_read)
		shingle_around_clear(&l->around);
	if (err || !shingle_remedies_read(&l->remedies, lunit, n, l->nr_frags))
		return err;
	return rewrite(l, lunit, n);
}

/**
 * log_write() - the host writes
 * @l: the log
 * @lunit: first address
 * @n: number of units, at least 1
 *
 * Return: 0; -ENOSPC if the log is longer than the map can say, or no cleaning makes room; -ENOMEM
 * if the map is full.
 */
int log_write(struct replay_log *l, u64 lunit, u32 n)
{
	l->writes++;
	if (!is_finite(l))
		return append_all(l, SHINGLE_SEEK_WRITE, lunit, n);
	shingle_seeks_host(&l->seeks, true, lunit, n);
	return disk_write(&l->disk, compact_of(&l->opt.compact, lunit), n);
}

/**
 * log_discard() - the host discards; what it reads there is at its own place again
 * @l: the log
 * @lunit: first address
 * @n: number of units, at least 1
 *
 * Return: 0, or -ENOMEM if the map is full.
 */
int log_discard(struct replay_log *l, u64 lunit, u32 n)
{
	struct shingle_extents_rest rest;
	u32 at = compact_of(&l->opt.compact, lunit), done;
	bool dropped;

	l->discards++;
	if (is_finite(l))
		return disk_discard(&l->disk, at, n);
	for (; n; at += done, n -= done) {
		if (!shingle_extents_reserve(&l->map, SHINGLE_EXTENTS_DROP))
			return -ENOMEM;
		done = shingle_extents_drop(&l->map, at, n, U32_MAX, &dropped, &rest);
		shingle_extents_unreserve(&l->map, SHINGLE_EXTENTS_DROP);
	}
	return 0;
}

/**
 * log_fragments() - static fragmentation
 * @l: the log
 *
 * Return: number of fragments of one read of all addresses, up to the highest that was used.
 */
u64 log_fragments(struct replay_log *l)
{
	u64 compact, address, left, place, expected = 0, next = U64_MAX, nr = 0;
	u32 part;

	for (compact = 0; compact < l->opt.compact.end; compact += part) {
		address = compact_address(&l->opt.compact, compact, &left);
		/* The addresses between two pieces were never used.  A finite disk has none. */
		if (address != expected && !is_finite(l)) {
			nr += next != place_of(l, expected);
			next = place_of(l, address - 1) + 1;
			if (l->opt.segment_units && l->opt.guard_units)
				nr += (address - 1) / l->opt.segment_units -
				      expected / l->opt.segment_units;
		}
		part = run(l, compact, min_t(u64, left, U32_MAX), &place);
		nr += place != next && place != SHINGLE_NOWHERE;
		if (place != SHINGLE_NOWHERE)
			next = place + part;
		expected = address + part;
	}
	return nr;
}

/**
 * log_extents() - number of extents of the map
 * @l: the log
 *
 * Return: the number.
 */
u32 log_extents(const struct replay_log *l)
{
	return is_finite(l) ? disk_counter(&l->disk, "extents") : l->map.nr;
}

/**
 * log_map_bytes() - RAM of the map
 * @l: the log
 *
 * Return: bytes.
 */
u64 log_map_bytes(const struct replay_log *l)
{
	return is_finite(l) ? l->disk.e->ops->observe.map_bytes(l->disk.e) :
			      shingle_extents_bytes(&l->map);
}
