// SPDX-License-Identifier: GPL-2.0
/* Counts of seeks, see seeks.h.  Pure code. */
#include "reads/seeks.h"

/**
 * shingle_seeks_init() - all counts are 0
 * @s: the counts
 * @unit_shift: a unit has 1 << @unit_shift bytes, 9 to 18
 *
 * Context: any.
 */
void shingle_seeks_init(struct shingle_seeks *s, u32 unit_shift)
{
	/* A distance of whole units is long if it is not shorter. */
	s->long_units = DIV_ROUND_UP(SHINGLE_LONG_SEEK_BYTES, 1U << unit_shift);
	s->misordered.window = SHINGLE_MISORDER_BYTES >> unit_shift;
	shingle_seeks_clear(s);
}
EXPORT_SYMBOL_GPL(shingle_seeks_init);

/**
 * shingle_seeks_clear() - count from 0 on
 * @s: the counts
 *
 * The next operation of each stream is its first one.
 *
 * Context: the caller's lock.
 */
void shingle_seeks_clear(struct shingle_seeks *s)
{
	u32 long_units = s->long_units, window = s->misordered.window, i;

	memset(s, 0, sizeof(*s));
	s->long_units = long_units;
	s->misordered.window = window;
	s->host.next = SHINGLE_SEEKS_NOWHERE;
	s->medium.next = SHINGLE_SEEKS_NOWHERE;
	s->plain.next = SHINGLE_SEEKS_NOWHERE;
	for (i = 0; i < SHINGLE_MISORDER_WRITES; i++)
		s->misordered.start[i] = SHINGLE_SEEKS_NOWHERE;
}
EXPORT_SYMBOL_GPL(shingle_seeks_clear);

/**
 * struct jump - the way of the head to an operation
 * @distance: units from the end of the previous operation; 0 if the operation is no seek
 * @bucket: entry of the histogram of distances
 * @back: the operation is at a lower address
 */
struct jump {
	u64 distance;
	u32 bucket;
	bool back;
};

static __always_inline struct jump jump_to(const struct shingle_seek_stream *st, u64 start)
{
	struct jump j = { .back = start < st->next };

	if (start == st->next || st->next == SHINGLE_SEEKS_NOWHERE)
		return j;
	j.distance = j.back ? st->next - start : start - st->next;
	j.bucket = fls64(j.distance) - 1;
	return j;
}

static __always_inline void add(struct shingle_seek_stream *st, u32 long_units, struct jump j,
				enum shingle_seek_class class, u64 start, u32 n)
{
	if (j.distance) {
		st->seeks[class]++;
		st->long_seeks[class] += j.distance >= long_units;
		(j.back ? st->back : st->ahead)[j.bucket]++;
	}
	st->ops[class]++;
	st->units[class] += n;
	st->next = start + n;
}

static __always_inline void operation(struct shingle_seek_stream *st, u32 long_units,
				      enum shingle_seek_class class, u64 start, u32 n)
{
	add(st, long_units, jump_to(st, start), class, start, n);
}

/* An operation of both streams of the log, which mostly come from the same place. */
static __always_inline void both(struct shingle_seeks *s, enum shingle_seek_class class,
				 u64 place, u32 n)
{
	struct jump j = jump_to(&s->medium, place);

	if (s->plain.next == s->medium.next)
		add(&s->plain, s->long_units, j, class, place, n);
	else
		operation(&s->plain, s->long_units, class, place, n);
	add(&s->medium, s->long_units, j, class, place, n);
}

static u32 behind(u32 entry)
{
	return ++entry < SHINGLE_MISORDER_WRITES ? entry : 0;
}

/* A write of the host: are earlier writes mis-ordered because of it? */
static void order(struct shingle_misordered *m, u64 lunit, u32 n)
{
	u32 i;

	m->written += n;
	/* The write itself is within the window. */
	while (m->oldest != m->at && m->written - m->end[m->oldest] > m->window)
		m->oldest = behind(m->oldest);
	for (i = m->oldest; i != m->at; i = behind(i)) {
		if (m->start[i] == lunit + n) {
			m->start[i] = SHINGLE_SEEKS_NOWHERE;
			m->nr++;
		}
	}
	m->start[m->at] = lunit;
	m->end[m->at] = m->written;
	m->at = behind(m->at);
}

/**
 * shingle_seeks_host() - the host reads or writes
 * @s: the counts
 * @write: whether it writes
 * @lunit: first logical unit
 * @n: number of units
 *
 * Context: the caller's lock.
 */
void shingle_seeks_host(struct shingle_seeks *s, bool write, u64 lunit, u32 n)
{
	operation(&s->host, s->long_units, write ? SHINGLE_SEEK_WRITE : SHINGLE_SEEK_READ, lunit,
		  n);
	if (write)
		order(&s->misordered, lunit, n);
}
EXPORT_SYMBOL_GPL(shingle_seeks_host);

/**
 * shingle_seeks_medium() - the log reads or writes
 * @s: the counts
 * @class: why
 * @place: first unit
 * @n: number of units
 *
 * Context: the caller's lock.
 */
void shingle_seeks_medium(struct shingle_seeks *s, enum shingle_seek_class class, u64 place, u32 n)
{
	operation(&s->medium, s->long_units, class, place, n);
}
EXPORT_SYMBOL_GPL(shingle_seeks_medium);

/**
 * shingle_seeks_plain() - the log would read or write if it had no caches
 * @s: the counts
 * @class: why
 * @place: first unit
 * @n: number of units
 *
 * Context: the caller's lock.
 */
void shingle_seeks_plain(struct shingle_seeks *s, enum shingle_seek_class class, u64 place, u32 n)
{
	operation(&s->plain, s->long_units, class, place, n);
}
EXPORT_SYMBOL_GPL(shingle_seeks_plain);

/**
 * shingle_seeks_direct() - the log reads or writes what no cache could have
 * @s: the counts
 * @class: why
 * @place: first unit
 * @n: number of units
 *
 * The same as shingle_seeks_medium() and shingle_seeks_plain(), in fewer instructions.
 *
 * Context: the caller's lock.
 */
void shingle_seeks_direct(struct shingle_seeks *s, enum shingle_seek_class class, u64 place, u32 n)
{
	both(s, class, place, n);
}
EXPORT_SYMBOL_GPL(shingle_seeks_direct);

/**
 * shingle_seeks_one_run() - a read of the host that needs one fragment, which no cache could have
 * @s: the counts
 * @lunit: first logical unit of the read
 * @all: its units
 * @place: first unit of the fragment
 * @n: units of the fragment
 *
 * The same as shingle_seeks_host(), shingle_seeks_read() and shingle_seeks_direct(), in fewer
 * instructions.
 *
 * Context: the caller's lock.
 */
void shingle_seeks_one_run(struct shingle_seeks *s, u64 lunit, u32 all, u64 place, u32 n)
{
	operation(&s->host, s->long_units, SHINGLE_SEEK_READ, lunit, all);
	s->reads++;
	s->frags++;
	s->frags_of[0]++;
	both(s, SHINGLE_SEEK_READ, place, n);
}
EXPORT_SYMBOL_GPL(shingle_seeks_one_run);

/**
 * shingle_seeks_read() - a read of the host needs fragments
 * @s: the counts
 * @frags: their number, at least 1
 *
 * Context: the caller's lock.
 */
void shingle_seeks_read(struct shingle_seeks *s, u32 frags)
{
	s->reads++;
	s->frags += frags;
	s->frags_of[min_t(u32, fls(frags) - 1, SHINGLE_FRAGS_BUCKETS - 1)]++;
	if (frags > 1) {
		s->fragmented++;
		s->fragmented_frags += frags;
	}
}
EXPORT_SYMBOL_GPL(shingle_seeks_read);
