/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Three remedies for the seeks of reads from a log, by Hajkazemi, Abdi and Desnoyers ("Minimizing
 * Read Seek for SMR Disk", section IV).  Pure: this file decides, and its caller reads, keeps and
 * writes.
 *
 * A read is fragmented if it needs more than one extent of the medium.  An extent that begins where
 * the one before it has ended continues the same fragment.  The remedies concern fragmented reads
 * only:
 *
 * - Opportunistic defragmentation (Algorithm 1) writes the data of such a read to the log again,
 *   in order: shingle_remedies_read().
 * - Look-ahead-behind (Algorithm 2) reads the surroundings of each fragment too:
 *   shingle_remedies_around(), and reads/around.h for the regions that are kept.
 * - Selective caching (Algorithm 3) keeps each fragment: reads/readcache.h.
 *
 * Each is switched on by its settings, which may change at any time.  A fragment of a fragmented
 * read is looked up in the cache, then in the regions, then it is read from the medium.  If it was
 * not in the cache, it enters the cache, also from a region.
 *
 * Addresses and lengths are in units; their size is the caller's choice.  There is no lock here:
 * the caller holds one.
 */
#ifndef SHINGLE_REMEDIES_H
#define SHINGLE_REMEDIES_H

#include "pure.h"

/* A head position that is unknown. */
#define SHINGLE_HEAD_UNKNOWN	U64_MAX
/* Highest value of @defrag_hits. */
#define SHINGLE_DEFRAG_HITS	255U
/* The number of counted ranges of logical addresses, a power of two. */
#define SHINGLE_DEFRAG_RANGES	4096U

/**
 * struct shingle_remedies_settings - which remedies are on, and how far they go
 * @keep: fragments of fragmented reads enter the cache
 * @behind: units to read before a fragment
 * @ahead: units to read behind a fragment
 * @defrag_frags: least number of fragments of a read that is rewritten; 0: none is
 * @defrag_hits: it is rewritten when it is the read with this number in its range of addresses,
 *	1 to SHINGLE_DEFRAG_HITS
 * @defrag_units: largest read that is rewritten, in units
 *
 * Look-ahead-behind is off if @behind and @ahead are both 0.
 */
struct shingle_remedies_settings {
	bool keep;
	u32 behind;
	u32 ahead;
	u32 defrag_frags;
	u32 defrag_hits;
	u32 defrag_units;
};

/* A range of logical addresses. @hits is 0 if the entry is unused. */
struct shingle_remedies_range {
	u32 nr;
	u32 hits;
};

/**
 * struct shingle_remedies - the remedies of one log
 * @set: the settings
 * @range_shift: a range has 1 << @range_shift units
 * @range: counts of the ranges, by a hash of their number
 *
 * Two ranges may share an entry.  Then each read of one takes a read from the count of the other,
 * and replaces it at 0: a range that is read often keeps its count.
 */
struct shingle_remedies {
	struct shingle_remedies_settings set;
	u32 range_shift;
	struct shingle_remedies_range *range;
};

/**
 * struct shingle_span - consecutive places
 * @place: the first
 * @n: their number
 */
struct shingle_span {
	u64 place;
	u32 n;
};

int shingle_remedies_init(struct shingle_remedies *r, u32 unit_shift);
void shingle_remedies_exit(struct shingle_remedies *r);
void shingle_remedies_clear(struct shingle_remedies *r);

/* Does a fragmented read keep its fragments? */
static inline bool shingle_remedies_keeps(const struct shingle_remedies *r)
{
	return r->set.keep;
}

/* Does a fragmented read look around its fragments? */
static inline bool shingle_remedies_looks_around(const struct shingle_remedies *r)
{
	return r->set.behind || r->set.ahead;
}

/**
 * shingle_remedies_around() - what to read for a fragment that neither cache nor regions have
 * @r: the remedies
 * @frag: the fragment
 * @lo: first place that may be read with it: where its segment begins
 * @hi: place behind the last one: the frontier, or where its segment ends
 * @head: place where the medium is, SHINGLE_HEAD_UNKNOWN if the caller does not know
 *
 * If @head is already within the look-behind, the span begins there and costs no seek.
 *
 * Context: any.
 * Return: places that include @frag, within @lo to @hi.
 */
struct shingle_span shingle_remedies_around(const struct shingle_remedies *r,
					    struct shingle_span frag, u64 lo, u64 hi, u64 head);

/**
 * shingle_remedies_read() - a read has been done: should its data be written to the log again?
 * @r: the remedies
 * @lunit: first logical unit of the read
 * @n: number of units
 * @frags: number of its fragments
 *
 * Counts the read if its range requires several of them (@defrag_hits).  The range is the one of
 * @lunit; a larger read counts there only.
 *
 * Context: the caller's lock.
 * Return: whether to rewrite it.  If so, the count of its range is 0 again.
 */
bool shingle_remedies_read(struct shingle_remedies *r, u64 lunit, u32 n, u32 frags);

#endif /* SHINGLE_REMEDIES_H */
