/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rounds of Dual-buffer: which columns of the persistent cache are what, and what of them
 * is written next.  Pure arithmetic; of a round nothing grows with the cache.
 *
 * Ma (2019), section 4.3.2 and Figure 4.5.  The cache is tracks that lie side by
 * side.  A column is an angle: of track t it has the block (column - t * skew) mod track
 * length.  Where the skew is no whole number of blocks, two columns share each block of some
 * tracks, and the last block of a part would be shared with the next part: it is not used.
 *
 * A round has three parts, one after the other and round in a circle:
 *
 *	new	blocks written in this round; its columns begin where FB_1 ends
 *	FB_2	what is kept of all that when the round ends
 *	FB_1	what was kept of the last round, its FB_2
 *
 * FB_1 and new are the persistent buffer, FB_2 is the filter buffer.  No two of them share a
 * column, and each is written from the first track on: so no write destroys what is in
 * another, nor what is in its own.  Behind the last track there must be as many that hold
 * nothing as the head covers besides its own.
 *
 * M, the columns that are new, is found out on the way: the first @sample_tracks tracks are
 * written in their first columns only, which are new whatever comes of it.  Then it is
 * decided, their other columns are written, and so on with whole tracks.  From a later track
 * on M may be less, never more: FB_2 then begins deeper in those columns.
 *
 * Of a row that ends behind the end of its track the blocks at its start come first: so what
 * goes on at the start of the next track follows the last of this one, and is one run with it.
 */
#ifndef SHINGLE_DUAL_ROUNDS_H
#define SHINGLE_DUAL_ROUNDS_H

#include "dual/predict.h"
#include "geometry/geometry.h"

/* So often M changes in a round, the first time included. */
#define DUAL_DROPS	16U
/* Where there is nothing to go by: M, in percent. */
#define DUAL_FALLBACK_PERCENT	60U
/* Angular units of a block, in which skew is told: 512-byte sectors. */
#define DUAL_SUB_UNITS	8U

/**
 * struct dual_shape - a persistent cache, and how it is to be cut
 * @tracks: how many
 * @track_blocks: blocks on each
 * @skew_units: from each to the next, in angular units
 * @sample_tracks: of them V(X) is sampled; 0 if @static_percent is not
 * @sample_percent: on so much of each of these, at most
 * @min_new_percent: so many of the columns are new in each round, at least: half of the
 *	rest is the most that FB_1 and FB_2 ever have
 * @min_fb_percent: so many are FB_2, at least
 * @static_percent: M, the same in each round; 0: by prediction
 * @fit: then, the family of curves
 * @ratchet: and whether it is predicted again at the start of each track
 */
struct dual_shape {
	u32 tracks;
	u32 track_blocks;
	u32 skew_units;
	u32 sample_tracks;
	u32 sample_percent;
	u32 min_new_percent;
	u32 min_fb_percent;
	u32 static_percent;
	enum dual_fit fit;
	bool ratchet;
};

/**
 * struct dual_drop - M from a track on
 * @track: this one
 * @columns: M
 */
struct dual_drop {
	u32 track;
	u32 columns;
};

/**
 * struct dual_round - a round
 * @number: of the round, from 1 to U32_MAX, and then from 1 again: see dual_round_after()
 * @fb1_at: first column of FB_1
 * @fb1_columns: its columns
 * @nr_drops: used in @drop; 0: M is not decided yet
 * @drop: M, in the order of tracks
 *
 * All of it has to be durable before what was written by it.
 */
struct dual_round {
	u32 number;
	u32 fb1_at;
	u32 fb1_columns;
	u32 nr_drops;
	struct dual_drop drop[DUAL_DROPS];
};

enum dual_part {
	DUAL_NEW,
	DUAL_FB1,
	DUAL_FB2,
	DUAL_NOBODYS,	/* not decided yet, or shared by two columns */
};

/**
 * struct dual_cursor - where a part is written next: a line of the thesis's range table
 * @row: of NEW, a track's first columns, then those that were left out, then whole tracks;
 *	of FB2 the track
 * @at: block of the row, as many as there are in it: the row is full
 */
struct dual_cursor {
	u32 row;
	u32 at;
};

/* The number of the next round.  It never is 0. */
static inline u32 dual_round_after(u32 number)
{
	return number + 1 ?: 1;
}

/* The number of the round that was @n rounds before; of one that never was if there were fewer. */
static inline u32 dual_round_back(u32 number, u32 n)
{
	return number - n - (number <= n);
}

/* Is a round later than another?  Less than 2^31 rounds lie between them. */
static inline bool dual_round_later(u32 number, u32 other)
{
	return (s32)(number - other) > 0;
}

int dual_shape_check(const struct dual_shape *s, const char **why);
u32 dual_blocks(const struct dual_shape *s);
void dual_round_first(const struct dual_shape *s, struct dual_round *r);
void dual_round_next(const struct dual_shape *s, struct dual_round *r);
int dual_round_check(const struct dual_shape *s, const struct dual_round *r);
void dual_round_decide(const struct dual_shape *s, struct dual_round *r, u32 x);
bool dual_round_lower(const struct dual_shape *s, struct dual_round *r, u32 track, u32 x,
		      u32 allocated);
u32 dual_before(const struct dual_shape *s, const struct dual_round *r, enum dual_part part,
		const struct dual_cursor *c);
u32 dual_part_blocks(const struct dual_shape *s, const struct dual_round *r,
		     enum dual_part part);
u32 dual_sample_columns(const struct dual_shape *s, const struct dual_round *r);
int dual_cursor_check(const struct dual_shape *s, const struct dual_round *r,
		      enum dual_part part, const struct dual_cursor *c);
u32 dual_next(const struct dual_shape *s, const struct dual_round *r, enum dual_part part,
	      struct dual_cursor *c, u32 n, u32 *slot);
void dual_advance(const struct dual_shape *s, const struct dual_round *r, enum dual_part part,
		  struct dual_cursor *c, u32 n);
enum dual_part dual_holders(const struct dual_shape *s, const struct dual_round *r, u32 slot,
			    u32 *n);
enum dual_part dual_part_of(const struct dual_shape *s, const struct dual_round *r, u32 slot,
			    struct dual_cursor *c);

/* Of one block. */
static inline enum dual_part dual_holder(const struct dual_shape *s, const struct dual_round *r,
					 u32 slot)
{
	u32 n = 1;

	return dual_holders(s, r, slot, &n);
}

/* Was this place of a part written after that one? */
static inline bool dual_behind(const struct dual_cursor *a, const struct dual_cursor *b)
{
	return a->row > b->row || (a->row == b->row && a->at > b->at);
}

#endif /* SHINGLE_DUAL_ROUNDS_H */
