// SPDX-License-Identifier: GPL-2.0
/*
 * Rounds, Ma (2019), section 4.3.2 and Figure 4.5: see dual/rounds.h.
 *
 *	columns of a track, from the end of FB_1 on:
 *
 *	0      L            M                        B - FB_1        B
 *	| new ............. | FB_2 ................. | FB_1 ........ |
 *	| rows  | rows P .. |
 *	| 0 ..  | 2P - 1    |	of the first P tracks
 *	| rows 2P .. ...... |	of the others
 */
#include "dual/rounds.h"

/**
 * struct piece - the blocks of a part in one row
 * @track: track of the row
 * @from: first column, counted from the end of FB_1
 * @blocks: number of blocks used
 */
struct piece {
	u32 track;
	u32 from;
	u32 blocks;
};

static u32 percent(u32 columns, u32 percent, u32 least)
{
	return max_t(u32, div_u64(mul_u32_u32(columns, percent), 100), least);
}

/* Fewest columns of a part; with fewer, some tracks would have no block of the part. */
static u32 least_columns(const struct dual_shape *s)
{
	return s->skew_units % DUAL_SUB_UNITS ? 2 : 1;
}

static u32 fb2_most(const struct dual_shape *s)
{
	/* The new part may be divided in two, where the sample ends. */
	u32 least = percent(s->track_blocks, s->min_new_percent, 2 * least_columns(s));

	return (s->track_blocks - least) / 2;
}

static u32 fb2_least(const struct dual_shape *s)
{
	return min(percent(s->track_blocks, s->min_fb_percent, least_columns(s)), fb2_most(s));
}

/**
 * dual_shape_check() - check a shape
 * @s: the shape
 * @why: on error, a sentence with the reason
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int dual_shape_check(const struct dual_shape *s, const char **why)
{
	*why = NULL;
	if (!s->tracks || !s->track_blocks || s->track_blocks > PLATTER_MAX_TRACK_BLOCKS ||
	    (u64)s->tracks * s->track_blocks > DUAL_MAX_BLOCKS)
		*why = "a persistent cache has at most 2147483647 blocks, on tracks of 1 to 65536";
	else if (s->static_percent > 99 || s->min_new_percent > 90 || s->min_fb_percent > 50 ||
		 s->sample_percent > 100)
		*why = "parts of a persistent cache are more than it has";
	else if (s->track_blocks < 4 * least_columns(s) || fb2_most(s) < least_columns(s))
		*why = "tracks are too short to be cut in three";
	else if (s->sample_tracks > s->tracks || !s->sample_tracks != !!s->static_percent)
		*why = "V(X) is sampled on from one to all tracks, or M is static";
	else if ((u32)s->fit >= DUAL_NR_FITS)
		*why = "there is no such fit";
	return *why ? -EINVAL : 0;
}

/* The column of block 0 of a track, if columns are counted from block 0 of track 0. */
static u32 turn(const struct dual_shape *s, u32 track, bool *shared)
{
	u32 units, rest;

	*shared = false;
	if (!s->skew_units)
		return 0;
	div_u64_rem((u64)track * s->skew_units, s->track_blocks * DUAL_SUB_UNITS, &rest);
	units = rest % DUAL_SUB_UNITS;
	*shared = units;
	return rest / DUAL_SUB_UNITS;
}

/* Number of tracks before @track on which each block is in only one column. */
static u32 unshared_before(const struct dual_shape *s, u32 track)
{
	u32 period = DUAL_SUB_UNITS, units = s->skew_units % DUAL_SUB_UNITS;

	/* Without its odd factors each is a power of two. */
	while (units && !(units & 1)) {
		units >>= 1;
		period >>= 1;
	}
	return units ? DIV_ROUND_UP(track, period) : track;
}

static u32 shared_between(const struct dual_shape *s, u32 from, u32 to)
{
	return to - from - (unshared_before(s, to) - unshared_before(s, from));
}

/* Number of blocks that @columns columns have on the tracks from @from to @to. */
static u32 area(const struct dual_shape *s, u32 columns, u32 from, u32 to)
{
	if (!columns || from >= to)
		return 0;
	return columns * (to - from) - shared_between(s, from, to);
}

/**
 * dual_blocks() - number of blocks that the parts of a cache may use
 * @s: the shape
 *
 * Context: any.
 * Return: N; without FB_1 a few more can be used.
 */
u32 dual_blocks(const struct dual_shape *s)
{
	u32 parts = s->static_percent ? 3 : 4;

	return s->tracks * s->track_blocks - parts * shared_between(s, 0, s->tracks);
}

/* Columns outside FB_1. */
static u32 others(const struct dual_shape *s, const struct dual_round *r)
{
	return s->track_blocks - r->fb1_columns;
}

/* The least M: FB_2 must leave the next round as many columns as this round has. */
static u32 m_least(const struct dual_shape *s, const struct dual_round *r)
{
	return others(s, r) - fb2_most(s);
}

static u32 m_most(const struct dual_shape *s, const struct dual_round *r)
{
	return others(s, r) - fb2_least(s);
}

/* M on a track. */
static u32 m_of(const struct dual_round *r, u32 track)
{
	u32 i = r->nr_drops;

	if (!i)
		return 0;
	/* The first value holds from the first track on. */
	while (--i && r->drop[i].track > track)
		;
	return r->drop[i].columns;
}

/**
 * dual_sample_columns() - columns of the first tracks that are new for every M
 * @s: the shape
 * @r: the round
 *
 * The thesis uses at most a half: since V(X) <= X, M is not less in its first round.
 *
 * Context: any.
 * Return: number of columns.
 */
u32 dual_sample_columns(const struct dual_shape *s, const struct dual_round *r)
{
	u32 least = least_columns(s), most = m_least(s, r) - least;

	if (!s->sample_tracks)
		return 0;
	return min(percent(s->track_blocks, s->sample_percent, least), most);
}

static void set_static(const struct dual_shape *s, struct dual_round *r)
{
	u32 m = div_u64(mul_u32_u32(s->track_blocks, s->static_percent), 100);
	u32 fb2 = min(s->track_blocks - m, m);

	if (!s->static_percent)
		return;
	fb2 = clamp(fb2, fb2_least(s), fb2_most(s));
	r->drop[0] = (struct dual_drop){ 0, others(s, r) - fb2 };
	r->nr_drops = 1;
}

/**
 * dual_round_first() - the first round of an empty cache
 * @s: the shape
 * @r: result
 *
 * Context: any.
 */
void dual_round_first(const struct dual_shape *s, struct dual_round *r)
{
	memset(r, 0, sizeof(*r));
	r->number = 1;
	set_static(s, r);
}

/**
 * dual_round_next() - the next round: FB_2 becomes its FB_1
 * @s: the shape
 * @r: the round, with M decided; result
 *
 * If M was lowered during the round, FB_1 has all columns that FB_2 had on any track.
 *
 * Context: any.
 */
void dual_round_next(const struct dual_shape *s, struct dual_round *r)
{
	u32 m = m_of(r, s->tracks), at = r->fb1_at + r->fb1_columns + m;
	struct dual_round next = {
		.number = dual_round_after(r->number),
		.fb1_at = at % s->track_blocks,
		.fb1_columns = others(s, r) - m,
	};

	set_static(s, &next);
	*r = next;
}

/**
 * dual_round_check() - check a round that was loaded
 * @s: the shape
 * @r: the round
 *
 * Context: any.
 * Return: 0 or -EUCLEAN.
 */
int dual_round_check(const struct dual_shape *s, const struct dual_round *r)
{
	u32 i;

	if (!r->number || r->fb1_at >= s->track_blocks || r->fb1_columns > fb2_most(s) ||
	    r->nr_drops > DUAL_DROPS || (s->static_percent && r->nr_drops != 1))
		return -EUCLEAN;
	for (i = 0; i < r->nr_drops; i++) {
		const struct dual_drop *d = &r->drop[i];

		if (d->columns < m_least(s, r) || d->columns > m_most(s, r) ||
		    (i ? d->track >= s->tracks || d->track < s->sample_tracks ||
			 d->track <= d[-1].track || d->columns >= d[-1].columns : d->track))
			return -EUCLEAN;
	}
	return 0;
}

/* M for @blocks blocks on the tracks from @from on, each with @parts pieces of the new part. */
static u32 columns_for(const struct dual_shape *s, u32 blocks, u32 from, u32 parts)
{
	u32 tracks = s->tracks - from, lost = parts * shared_between(s, from, s->tracks);

	return DIV_ROUND_UP_ULL((u64)blocks + lost, tracks);
}

/**
 * dual_round_decide() - decide M
 * @s: the shape
 * @r: the round, without M
 * @x: predicted number of blocks allocated at the end of the round, including FB_1; from
 *	dual_predict()
 *
 * M is clamped: the new part has at least its minimum, and FB_2 is not empty (D6, D7).
 *
 * Context: any.
 */
void dual_round_decide(const struct dual_shape *s, struct dual_round *r, u32 x)
{
	u32 fb1 = dual_part_blocks(s, r, DUAL_FB1);
	u32 m = columns_for(s, x > fb1 ? x - fb1 : 0, 0, s->sample_tracks ? 2 : 1);

	r->drop[0] = (struct dual_drop){ 0, clamp(m, m_least(s, r), m_most(s, r)) };
	r->nr_drops = 1;
}

/**
 * dual_round_lower() - lower M from a track on, if that is worth it
 * @s: the shape
 * @r: the round, with M decided
 * @track: no new block was written to it yet, nor to later tracks; not a sample track
 * @x: as in dual_round_decide(), from what is known now
 * @allocated: blocks among these before @track
 *
 * Not for less than a 64th of a track, and at most DUAL_DROPS times.
 *
 * Context: any.
 * Return: true if M was lowered.
 */
bool dual_round_lower(const struct dual_shape *s, struct dual_round *r, u32 track, u32 x,
		      u32 allocated)
{
	u32 now = m_of(r, track), m;

	if (r->nr_drops == DUAL_DROPS || track <= r->drop[r->nr_drops - 1].track)
		return false;
	m = max(columns_for(s, x > allocated ? x - allocated : 0, track, 1), m_least(s, r));
	if (m >= now || (now - m) * 64 < s->track_blocks)
		return false;
	r->drop[r->nr_drops++] = (struct dual_drop){ track, m };
	return true;
}

static u32 nr_rows(const struct dual_shape *s, const struct dual_round *r, enum dual_part part)
{
	if (part != DUAL_NEW)
		return r->nr_drops ? s->tracks : 0;
	return r->nr_drops ? s->tracks + s->sample_tracks : s->sample_tracks;
}

static u32 row_track(const struct dual_shape *s, enum dual_part part, u32 row)
{
	return part == DUAL_NEW && row >= s->sample_tracks ? row - s->sample_tracks : row;
}

static struct piece piece_of(const struct dual_shape *s, const struct dual_round *r,
			     enum dual_part part, u32 row)
{
	struct piece p = { .track = row_track(s, part, row) };
	u32 to = others(s, r);

	if (part == DUAL_FB2) {
		p.from = m_of(r, p.track);
	} else if (row < s->sample_tracks) {
		to = dual_sample_columns(s, r);
	} else {
		to = m_of(r, p.track);
		p.from = row < 2 * s->sample_tracks ? dual_sample_columns(s, r) : 0;
	}
	p.blocks = area(s, to - p.from, p.track, p.track + 1);
	return p;
}

/**
 * struct place - the place of a piece on its track
 * @first: index of the block in its first column
 * @wrapped: number of its blocks at the start of the track, because it wraps at the end
 */
struct place {
	u32 first;
	u32 wrapped;
};

static struct place place_of(const struct dual_shape *s, const struct dual_round *r,
			     const struct piece *p)
{
	u32 column = (r->fb1_at + r->fb1_columns + p->from) % s->track_blocks;
	struct place at;
	bool shared;

	at.first = (column + s->track_blocks - turn(s, p->track, &shared)) % s->track_blocks;
	at.wrapped = at.first + p->blocks;
	at.wrapped -= min(at.wrapped, s->track_blocks);
	return at;
}

/* Number of blocks of NEW or FB_2 on whole tracks, over changes of M. */
static u32 whole_tracks(const struct dual_shape *s, const struct dual_round *r,
			enum dual_part part, u32 from, u32 to)
{
	u32 sum = 0, i, m, a, b;

	for (i = 0; i < r->nr_drops; i++) {
		m = r->drop[i].columns;
		a = max(from, r->drop[i].track);
		b = i + 1 < r->nr_drops ? min(to, r->drop[i + 1].track) : to;
		sum += area(s, part == DUAL_FB2 ? others(s, r) - m : m, a, b);
	}
	return sum;
}

/**
 * dual_before() - number of blocks of a part before a place
 * @s: the shape
 * @r: the round
 * @part: DUAL_NEW or DUAL_FB2
 * @c: the place
 *
 * Context: any.
 * Return: the number.
 */
u32 dual_before(const struct dual_shape *s, const struct dual_round *r, enum dual_part part,
		const struct dual_cursor *c)
{
	u32 first = s->sample_tracks, sampled = dual_sample_columns(s, r), sum = c->at;

	if (part == DUAL_FB2)
		return sum + whole_tracks(s, r, part, 0, c->row);
	sum += area(s, sampled, 0, min(c->row, first));
	if (c->row > first)
		sum += area(s, m_of(r, 0) - sampled, 0, min(c->row, 2 * first) - first);
	if (c->row > 2 * first)
		sum += whole_tracks(s, r, part, first, c->row - first);
	return sum;
}

/**
 * dual_part_blocks() - number of blocks of a part
 * @s: the shape
 * @r: the round
 * @part: the part; for all but FB_1 M must be decided
 *
 * Context: any.
 * Return: the number.
 */
u32 dual_part_blocks(const struct dual_shape *s, const struct dual_round *r,
		     enum dual_part part)
{
	struct dual_cursor end = { .row = nr_rows(s, r, part) };

	if (part == DUAL_FB1)
		return area(s, r->fb1_columns, 0, s->tracks);
	return dual_before(s, r, part, &end);
}

/**
 * dual_cursor_check() - check a cursor that was loaded
 * @s: the shape
 * @r: the round, checked
 * @part: DUAL_NEW or DUAL_FB2
 * @c: the cursor
 *
 * Context: any.
 * Return: 0 or -EUCLEAN.
 */
int dual_cursor_check(const struct dual_shape *s, const struct dual_round *r,
		      enum dual_part part, const struct dual_cursor *c)
{
	u32 rows = nr_rows(s, r, part);

	if (c->row > rows)
		return -EUCLEAN;
	return c->at > (c->row < rows ? piece_of(s, r, part, c->row).blocks : 0) ? -EUCLEAN : 0;
}

/**
 * dual_next() - the next slots of a part
 * @s: the shape
 * @r: the round
 * @part: DUAL_NEW or DUAL_FB2
 * @c: next place; moved past full rows
 * @n: number of slots, at most
 * @slot: result: first slot, counted from the start of the first track
 *
 * Context: any.
 * Return: number of consecutive slots; 0 if the part is full, or M has to be decided first.
 */
u32 dual_next(const struct dual_shape *s, const struct dual_round *r, enum dual_part part,
	      struct dual_cursor *c, u32 n, u32 *slot)
{
	struct place at;
	struct piece p;

	for (;; c->row++, c->at = 0) {
		if (c->row >= nr_rows(s, r, part))
			return 0;
		p = piece_of(s, r, part, c->row);
		if (c->at < p.blocks)
			break;
	}
	at = place_of(s, r, &p);
	*slot = p.track * s->track_blocks + c->at;
	if (c->at < at.wrapped)
		return min(n, at.wrapped - c->at);
	*slot += at.first - at.wrapped;
	return min(n, p.blocks - c->at);
}

/**
 * dual_advance() - move past slots from dual_next() that were given out
 * @s: the shape
 * @r: the round
 * @part: as dual_next()
 * @c: moved past them
 * @n: number of slots
 *
 * Context: any.
 */
void dual_advance(const struct dual_shape *s, const struct dual_round *r, enum dual_part part,
		  struct dual_cursor *c, u32 n)
{
	c->at += n;
	if (c->at == piece_of(s, r, part, c->row).blocks)
		*c = (struct dual_cursor){ .row = c->row + 1 };
}

/* The column of a block, counted from the end of FB_1. */
static u32 column_of(const struct dual_shape *s, const struct dual_round *r, u32 slot, u32 track,
		     bool *shared)
{
	u32 column = slot - track * s->track_blocks + turn(s, track, shared);

	return (column + 2 * s->track_blocks - r->fb1_at - r->fb1_columns) % s->track_blocks;
}

/**
 * dual_holders() - find the part of blocks that hold data
 * @s: the shape
 * @r: the round
 * @slot: the first block, which belongs to a part
 * @n: limited to the number of blocks of the same part and track
 *
 * For several blocks at once: the same result as dual_part_of(), in less time.
 *
 * Context: any.
 * Return: the part.
 */
enum dual_part dual_holders(const struct dual_shape *s, const struct dual_round *r, u32 slot,
			    u32 *n)
{
	u32 track = slot / s->track_blocks, fb1 = others(s, r), column, fb2;
	enum dual_part part = DUAL_FB1;
	u32 end = s->track_blocks;
	bool shared;

	column = column_of(s, r, slot, track, &shared);
	if (column < fb1) {
		fb2 = r->nr_drops ? m_of(r, track) : fb1;
		part = column < fb2 ? DUAL_NEW : DUAL_FB2;
		end = column < fb2 ? fb2 : fb1;
	}
	*n = min3(*n, end - column, (track + 1) * s->track_blocks - slot);
	return part;
}

/**
 * dual_part_of() - find the part of a block
 * @s: the shape
 * @r: the round
 * @slot: the block
 * @c: result: place in the part, if that is DUAL_NEW or DUAL_FB2
 *
 * Context: any.
 * Return: the part.
 */
enum dual_part dual_part_of(const struct dual_shape *s, const struct dual_round *r, u32 slot,
			    struct dual_cursor *c)
{
	u32 track = slot / s->track_blocks, row = track, column, index;
	enum dual_part part = DUAL_FB2;
	struct place at;
	struct piece p;
	bool shared;

	column = column_of(s, r, slot, track, &shared);
	if (column >= others(s, r))
		return column < s->track_blocks - shared ? DUAL_FB1 : DUAL_NO_PART;
	if (column < max(m_of(r, track), dual_sample_columns(s, r))) {
		part = DUAL_NEW;
		if (track >= s->sample_tracks || column >= dual_sample_columns(s, r))
			row += s->sample_tracks;
	}
	if (row >= nr_rows(s, r, part))
		return DUAL_NO_PART;
	p = piece_of(s, r, part, row);
	if (column - p.from >= p.blocks)
		return DUAL_NO_PART;
	at = place_of(s, r, &p);
	index = slot - track * s->track_blocks;
	c->row = row;
	c->at = index < at.wrapped ? index : index - at.first + at.wrapped;
	return part;
}
