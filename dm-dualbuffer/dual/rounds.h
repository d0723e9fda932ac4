/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rounds of Dual-buffer: the division of the persistent cache into parts by columns, and the
 * next place in each part.  Pure arithmetic; the state of a round does not grow with the cache.
 *
 * Ma (2019), section 4.3.2 and Figure 4.5.  The cache consists of adjacent tracks.  A column
 * is an angle: on track t it has the block (column - t * skew) mod track length.  If the skew
 * is not a whole number of blocks, two columns share each block of some tracks.  On these
 * tracks the last block of a part would be shared with the next part; it is not used.
 *
 * A round has three parts, which follow each other in a circle:
 *
 *	new	blocks written in this round; its columns begin where FB_1 ends
 *	FB_2	the blocks that are kept when the round ends
 *	FB_1	the blocks that were kept in the last round, its FB_2
 *
 * FB_1 and new form the persistent buffer, FB_2 is the filter buffer.  The parts share no
 * column, and each is written from the first track on.  So no write destroys blocks of another
 * part, nor earlier blocks of its own.  After the last track there must be as many empty tracks
 * as the head covers besides its own.
 *
 * M, the number of new columns, is decided during the round.  On the first @sample_tracks
 * tracks only the first columns are written, which are new for every M.  Then M is decided,
 * the other new columns of these tracks are written, and then whole tracks.  From a later track
 * on M may become smaller, never larger: FB_2 then begins earlier in those tracks.
 *
 * If a row wraps at the end of its track, the blocks at the start of the track are written
 * first.  So the last blocks of this row and the first ones of the next track are one run.
 */
#ifndef SHINGLE_DUAL_ROUNDS_H
#define SHINGLE_DUAL_ROUNDS_H

#include "dual/predict.h"
#include "geometry/geometry.h"

/* Most values of M in a round, including the first one. */
#define DUAL_DROPS	16U
/* M in percent, if there are no samples. */
#define DUAL_FALLBACK_PERCENT	60U
/* Angular units per block, in which skew is given: 512-byte sectors. */
#define DUAL_SUB_UNITS	8U

/**
 * struct dual_shape - a persistent cache, and how it is divided
 * @tracks: number of tracks
 * @track_blocks: blocks per track
 * @skew_units: skew from each track to the next, in angular units
 * @sample_tracks: tracks on which V(X) is sampled; 0 if @static_percent is not 0
 * @sample_percent: largest percentage of each of these tracks that is used for sampling
 * @min_new_percent: minimum percentage of columns that are new in each round; FB_1 and FB_2
 *	each have at most half of the other columns
 * @min_fb_percent: minimum percentage of columns of FB_2
 * @static_percent: M, the same in each round; 0: predicted
 * @fit: if predicted: the family of curves
 * @ratchet: if predicted: predict again at the start of each track
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
 * struct dual_drop - a value of M
 * @track: first track with this value
 * @columns: M
 */
struct dual_drop {
	u32 track;
	u32 columns;
};

/**
 * struct dual_round - a round
 * @number: number of the round, from 1 to U32_MAX, and then from 1 again: see
 *	dual_round_after()
 * @fb1_at: first column of FB_1
 * @fb1_columns: columns of FB_1
 * @nr_drops: entries in @drop; 0: M is not decided yet
 * @drop: values of M, in ascending order of tracks
 *
 * All of it must be durable before any block written according to it.
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
	DUAL_NO_PART,	/* of no part: M is not decided yet, or two columns share the block */
};

/**
 * struct dual_cursor - the next place in a part: a line of the thesis's range table
 * @row: for NEW first the first columns of each sample track, then the other columns of
 *	each sample track, then whole tracks; for FB2 the track
 * @at: block of the row; equal to the blocks in the row if the row is full
 */
struct dual_cursor {
	u32 row;
	u32 at;
};

/* The number of the next round; never 0. */
static inline u32 dual_round_after(u32 number)
{
	return number + 1 ?: 1;
}

/*
 * The number of the round @n rounds before; of a round that never existed if there were
 * fewer.
 */
static inline u32 dual_round_back(u32 number, u32 n)
{
	return number - n - (number <= n);
}

/* Is a round later than another?  They must be less than 2^31 rounds apart. */
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

/* The same for one block. */
static inline enum dual_part dual_holder(const struct dual_shape *s, const struct dual_round *r,
					 u32 slot)
{
	u32 n = 1;

	return dual_holders(s, r, slot, &n);
}

/* Is a place of a part written after the other one? */
static inline bool dual_behind(const struct dual_cursor *a, const struct dual_cursor *b)
{
	return a->row > b->row || (a->row == b->row && a->at > b->at);
}

#endif /* SHINGLE_DUAL_ROUNDS_H */
