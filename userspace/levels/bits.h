/* SPDX-License-Identifier: GPL-2.0 */
/* Bitmaps that are searched in both directions. */
#ifndef LEVELS_BITS_H
#define LEVELS_BITS_H

#include <shim.h>

/**
 * struct bits - a bitmap
 * @word: its words
 * @n: bits in all
 * @set: bits that are 1
 */
struct bits {
	u64 *word;
	u32 n;
	u32 set;
};

static inline bool bits_init(struct bits *b, u32 n)
{
	b->word = calloc(n / 64 + 1, sizeof(*b->word));
	b->n = n;
	b->set = 0;
	return b->word;
}

static inline void bits_free(struct bits *b)
{
	free(b->word);
	b->word = NULL;
}

static inline bool bits_test(const struct bits *b, u32 i)
{
	return b->word[i / 64] >> (i % 64) & 1;
}

static inline void bits_put(struct bits *b, u32 i, bool on)
{
	if (bits_test(b, i) == on)
		return;
	b->word[i / 64] ^= 1ULL << (i % 64);
	b->set += on ? 1 : -1;
}

/* The first 1 at @from or above, below @to; -1 if there is none. */
static inline s64 bits_up(const struct bits *b, s64 from, s64 to)
{
	s64 w;

	if (from < 0)
		from = 0;
	for (w = from / 64; w * 64 < to; w++) {
		u64 v = b->word[w];

		if (w == from / 64)
			v &= ~0ULL << (from % 64);
		if (v) {
			s64 i = w * 64 + __builtin_ctzll(v);

			return i < to ? i : -1;
		}
	}
	return -1;
}

/* The last 1 at @from or below, not below @to; -1 if there is none. */
static inline s64 bits_down(const struct bits *b, s64 from, s64 to)
{
	s64 w;

	if (from >= b->n)
		from = (s64)b->n - 1;
	for (w = from / 64; from >= to && w >= to / 64; w--) {
		u64 v = b->word[w];

		if (w == from / 64)
			v &= ~0ULL >> (63 - from % 64);
		if (v) {
			s64 i = w * 64 + 63 - __builtin_clzll(v);

			return i >= to ? i : -1;
		}
	}
	return -1;
}

#endif /* LEVELS_BITS_H */
