// SPDX-License-Identifier: GPL-2.0
/* A log-structured disk without data, see log.h. */
#include "log.h"

/* Length of the only segment of the map. */
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
	shingle_seeks_medium(&l->seeks, class, place, n);
	shingle_seeks_plain(&l->seeks, class, place, n);
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
	int err = -ENOMEM;

	memset(l, 0, sizeof(*l));
	l->opt = *opt;
	*why = "there is not enough memory for the extents of the map";
	shingle_around_init(&l->around, opt->regions, U32_MAX);
	if (shingle_remedies_init(&l->remedies, opt->unit_shift) ||
	    shingle_readcache_init(&l->cache, opt->cache_units, opt->exact) ||
	    (!is_finite(l) && shingle_extents_init(&l->map, opt->extents, 1, LOG_UNITS)))
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
	free(l->frag);
	free(l->popular);
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
	u64 left;

	if (is_finite(l))
		return disk_find(&l->disk, compact, n, place);
	part = shingle_extents_find(&l->map, compact, n, &at);
	if (at != SHINGLE_EXTENTS_NONE) {
		*place = l->opt.base + at;
		return part;
	}
	*place = compact_address(&l->opt.compact, compact, &left);
	return part;
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
	u64 lo = 0, hi = l->opt.base + l->written;
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
		if (is_finite(l))
			disk_segment(&l->disk, frag.place, &lo, &hi);
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

/* Write to the frontier. */
static int append(struct replay_log *l, enum shingle_seek_class class, u64 lunit, u32 n)
{
	struct shingle_extents_rest rest;

	if (n > LOG_UNITS - l->written)
		return -ENOSPC;
	if (!shingle_extents_reserve(&l->map, SHINGLE_EXTENTS_SET))
		return -ENOMEM;
	shingle_extents_set(&l->map, compact_of(&l->opt.compact, lunit), n, l->written, &rest);
	shingle_extents_unreserve(&l->map, SHINGLE_EXTENTS_SET);
	shingle_seeks_medium(&l->seeks, class, l->opt.base + l->written, n);
	shingle_seeks_plain(&l->seeks, class, l->opt.base + l->written, n);
	l->written += n;
	return 0;
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
	if (is_finite(l)) {
		if (!disk_rewrite(&l->disk, compact_of(&l->opt.compact, lunit), n))
			return 0;
	} else {
		err = append(l, SHINGLE_SEEK_REWRITE, lunit, n);
	}
	l->rewrites++;
	l->rewritten += n;
	return err;
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
	shingle_seeks_host(&l->seeks, true, lunit, n);
	if (is_finite(l))
		return disk_write(&l->disk, compact_of(&l->opt.compact, lunit), n);
	return append(l, SHINGLE_SEEK_WRITE, lunit, n);
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
			nr += next != expected;
			next = address;
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
