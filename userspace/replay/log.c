// SPDX-License-Identifier: GPL-2.0
/* A log-structured disk without data, see log.h. */
#include "log.h"

/* Length of the only segment of the map. */
#define LOG_UNITS	(SHINGLE_EXTENTS_NONE - 1)

/**
 * log_init() - make an empty log
 * @l: the log
 * @opt: how
 *
 * Return: 0 or -ENOMEM.
 */
int log_init(struct replay_log *l, const struct replay_options *opt)
{
	memset(l, 0, sizeof(*l));
	l->opt = *opt;
	shingle_seeks_init(&l->seeks, opt->unit_shift);
	shingle_around_init(&l->around, opt->regions, U32_MAX);
	if (shingle_extents_init(&l->map, opt->extents, 1, LOG_UNITS) ||
	    shingle_remedies_init(&l->remedies, opt->unit_shift) ||
	    shingle_readcache_init(&l->cache, opt->cache_units, opt->exact)) {
		log_exit(l);
		return -ENOMEM;
	}
	l->remedies.set = opt->remedies;
	return 0;
}

/**
 * log_exit() - free the memory of a log
 * @l: the log; log_init() may have failed
 */
void log_exit(struct replay_log *l)
{
	shingle_extents_exit(&l->map);
	shingle_remedies_exit(&l->remedies);
	shingle_readcache_exit(&l->cache);
	compact_exit(&l->opt.compact);
	free(l->frag);
	free(l->popular);
}

/*
 * The run of places from a compact address on, within a piece of compact addresses, as all that a
 * request touches is.  Addresses without an extent are at their own place.
 * Return: its length.
 */
static u32 run(const struct replay_log *l, u32 compact, u32 n, u64 *place)
{
	u32 at, part = shingle_extents_find(&l->map, compact, n, &at);
	u64 left;

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
		span = shingle_remedies_around(&l->remedies, frag, 0, l->opt.base + l->written,
					       l->seeks.medium.next);
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
	l->rewrites++;
	l->rewritten += n;
	return append(l, SHINGLE_SEEK_REWRITE, lunit, n);
}

/**
 * log_write() - the host writes
 * @l: the log
 * @lunit: first address
 * @n: number of units, at least 1
 *
 * Return: 0; -ENOSPC if the log is longer than the map can say; -ENOMEM if the map is full.
 */
int log_write(struct replay_log *l, u64 lunit, u32 n)
{
	l->writes++;
	shingle_seeks_host(&l->seeks, true, lunit, n);
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
		/* The addresses between two pieces were never used. */
		if (address != expected) {
			nr += next != expected;
			next = address;
		}
		part = run(l, compact, min_t(u64, left, U32_MAX), &place);
		nr += place != next;
		next = place + part;
		expected = address + part;
	}
	return nr;
}
