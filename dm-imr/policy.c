// SPDX-License-Identifier: GPL-2.0
/*
 * Allocation policies of interlaced recording.  Pure code.
 *
 * seq         one after the other, bottoms and tops alike
 * 3phase      all bottoms, then every other top, then the remaining tops
 * zigzag      the same, but every other top from the inner end outwards
 * compaction  the largest level of an LSM tree on bottoms, all others on tops;
 *             within a tier in order, but bottoms that cost no rewrite first, and
 *             if there are none the one nearest to the last
 *
 * A policy considers what is allocated, not what is written.  So two files that are written
 * at the same time cannot cause rewrites of each other.  Liang (2021), section 3.2.
 */
#include "policy.h"

static u32 class_of(u32 track)
{
	return imr_is_top(track) ? track & 2 ? IMR_TOP_B : IMR_TOP_A : IMR_BOTTOM;
}

static u32 to_index(u32 track)
{
	return imr_is_top(track) ? track / 4 : track / 2;
}

static u32 to_track(u32 class, u32 index)
{
	return class == IMR_BOTTOM ? 2 * index : 4 * index + 2 * class - 1;
}

/* Number of tracks of a class below @track. */
static u32 below(u32 class, u32 track)
{
	u32 offset = class == IMR_BOTTOM ? 0 : 2 * class - 1;

	if (track <= offset)
		return 0;
	return DIV_ROUND_UP(track - offset, class == IMR_BOTTOM ? 2U : 4U);
}

static u32 class_size(const struct imr_tracks *t, u32 class)
{
	return below(class, t->nr);
}

/**
 * imr_tracks_init() - make all tracks free
 * @t: result, zeroed
 * @nr: number of tracks
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.  The caller calls imr_tracks_exit() in both cases.
 */
int imr_tracks_init(struct imr_tracks *t, u32 nr)
{
	u32 c, i;

	t->nr = nr;
	t->nr_free = nr;
	t->policy = IMR_COMPACTION;
	t->last_any = IMR_NO_TRACK;
	t->last_top = IMR_NO_TRACK;
	for (c = 0; c < IMR_NR_CLASSES; c++) {
		t->last[c] = IMR_NO_TRACK;
		t->free[c] = shingle_zalloc_array(BITS_TO_LONGS(class_size(t, c)),
						  sizeof(unsigned long));
		if (!t->free[c])
			return -ENOMEM;
		for (i = 0; i < class_size(t, c); i++)
			__set_bit(i, t->free[c]);
	}
	t->rmw_free = shingle_zalloc_array(BITS_TO_LONGS(class_size(t, IMR_BOTTOM)),
				       sizeof(unsigned long));
	if (!t->rmw_free)
		return -ENOMEM;
	for (i = 0; i < class_size(t, IMR_BOTTOM); i++)
		__set_bit(i, t->rmw_free);
	return 0;
}
EXPORT_SYMBOL_GPL(imr_tracks_init);

/**
 * imr_tracks_exit() - free all memory
 * @t: the tracks
 *
 * Context: may sleep.
 */
void imr_tracks_exit(struct imr_tracks *t)
{
	u32 c;

	for (c = 0; c < IMR_NR_CLASSES; c++)
		kvfree(t->free[c]);
	kvfree(t->rmw_free);
}
EXPORT_SYMBOL_GPL(imr_tracks_exit);

/**
 * imr_track_is_free() - test whether a track is free
 * @t: the tracks
 * @track: the track
 *
 * Context: any.
 * Return: true if the track may be taken.
 */
bool imr_track_is_free(const struct imr_tracks *t, u32 track)
{
	return test_bit(to_index(track), t->free[class_of(track)]);
}
EXPORT_SYMBOL_GPL(imr_track_is_free);

static void look_at_bottom(struct imr_tracks *t, u32 track)
{
	if (imr_track_is_free(t, track) && (!track || imr_track_is_free(t, track - 1)) &&
	    (track + 1 == t->nr || imr_track_is_free(t, track + 1)))
		__set_bit(to_index(track), t->rmw_free);
	else
		__clear_bit(to_index(track), t->rmw_free);
}

static void look_around(struct imr_tracks *t, u32 track)
{
	if (!imr_is_top(track)) {
		look_at_bottom(t, track);
		return;
	}
	look_at_bottom(t, track - 1);
	if (track + 1 < t->nr)
		look_at_bottom(t, track + 1);
}

/**
 * imr_track_claim() - mark a free track as in use
 * @t: the tracks
 * @track: a free track
 *
 * Context: any.
 */
void imr_track_claim(struct imr_tracks *t, u32 track)
{
	__clear_bit(to_index(track), t->free[class_of(track)]);
	t->nr_free--;
	look_around(t, track);
}

/**
 * imr_track_give() - mark a track as free again
 * @t: the tracks
 * @track: a track in use
 *
 * Context: any.
 */
void imr_track_give(struct imr_tracks *t, u32 track)
{
	__set_bit(to_index(track), t->free[class_of(track)]);
	t->nr_free++;
	look_around(t, track);
}
EXPORT_SYMBOL_GPL(imr_track_give);

/* The first track of @map at or after @from; if there is none, the first from the low end. */
static u32 next_of(const struct imr_tracks *t, u32 class, const unsigned long *map, u32 from)
{
	u32 size = class_size(t, class), i;

	i = find_next_bit(map, size, below(class, from));
	if (i >= size)
		i = find_first_bit(map, size);
	return i < size ? to_track(class, i) : IMR_NO_TRACK;
}

/* The same in the other direction. */
static u32 previous_of(const struct imr_tracks *t, u32 class, const unsigned long *map, u32 before)
{
	u32 size = class_size(t, class), at = below(class, before), i;

	i = find_last_bit(map, at);
	if (i >= at) {
		at = size;
		i = find_last_bit(map, size);
	}
	return i < at ? to_track(class, i) : IMR_NO_TRACK;
}

static u32 search_from(const struct imr_tracks *t, u32 last)
{
	return t->first || last == IMR_NO_TRACK ? 0 : last + 1;
}

static u32 next_in_class(const struct imr_tracks *t, u32 class)
{
	return next_of(t, class, t->free[class], search_from(t, t->last[class]));
}

/* The candidate that a search from @from meets first. */
static u32 earlier(u32 a, u32 b, u32 from)
{
	if (a == IMR_NO_TRACK || b == IMR_NO_TRACK)
		return min(a, b);
	return a - from < b - from ? a : b;
}

static u32 next_top(const struct imr_tracks *t, u32 from)
{
	return earlier(next_of(t, IMR_TOP_A, t->free[IMR_TOP_A], from),
		       next_of(t, IMR_TOP_B, t->free[IMR_TOP_B], from), from);
}

static u32 take_seq(const struct imr_tracks *t)
{
	u32 from = search_from(t, t->last_any);

	return earlier(next_of(t, IMR_BOTTOM, t->free[IMR_BOTTOM], from), next_top(t, from), from);
}

static u32 take_phases(const struct imr_tracks *t)
{
	u32 track = next_in_class(t, IMR_BOTTOM);

	if (track != IMR_NO_TRACK)
		return track;
	if (t->policy == IMR_ZIGZAG)
		track = previous_of(t, IMR_TOP_A, t->free[IMR_TOP_A],
				    t->first || t->last[IMR_TOP_A] == IMR_NO_TRACK ?
				    t->nr : t->last[IMR_TOP_A]);
	else
		track = next_in_class(t, IMR_TOP_A);
	return track != IMR_NO_TRACK ? track : next_in_class(t, IMR_TOP_B);
}

/* Step 2: the free bottom nearest to the last one taken; at equal distance the higher one. */
static u32 nearest_bottom(const struct imr_tracks *t)
{
	u32 size = class_size(t, IMR_BOTTOM), last = t->last[IMR_BOTTOM], at, up, down;

	at = last == IMR_NO_TRACK ? 0 : to_index(last);
	up = find_next_bit(t->free[IMR_BOTTOM], size, at);
	down = find_last_bit(t->free[IMR_BOTTOM], at);
	if (down >= at)
		return up < size ? to_track(IMR_BOTTOM, up) : IMR_NO_TRACK;
	if (up >= size)
		return to_track(IMR_BOTTOM, down);
	return to_track(IMR_BOTTOM, up - at <= at - down ? up : down);
}

static u32 take_bottom(const struct imr_tracks *t)
{
	u32 track = next_of(t, IMR_BOTTOM, t->rmw_free, search_from(t, t->last[IMR_BOTTOM]));

	return track != IMR_NO_TRACK ? track : nearest_bottom(t);
}

static u32 take_tiered(const struct imr_tracks *t, bool bottom, bool *miss)
{
	u32 track = bottom ? take_bottom(t) : next_top(t, search_from(t, t->last_top));

	*miss = track == IMR_NO_TRACK;
	if (*miss)
		track = bottom ? next_top(t, search_from(t, t->last_top)) : take_bottom(t);
	return track;
}

/**
 * imr_top_is_left() - test whether any top is free
 * @t: the tracks
 *
 * Context: any.
 * Return: true if at least one top is free.
 */
bool imr_top_is_left(const struct imr_tracks *t)
{
	return next_top(t, search_from(t, t->last_top)) != IMR_NO_TRACK;
}
EXPORT_SYMBOL_GPL(imr_top_is_left);

/**
 * imr_track_take() - allocate a track
 * @t: the tracks
 * @bottom: policy compaction: the track is for the largest level
 * @miss: result: only a track of the other tier was free
 *
 * Liang (2021), section 3.2.
 *
 * Context: any.
 * Return: the track, or IMR_NO_TRACK if none is free.
 */
u32 imr_track_take(struct imr_tracks *t, bool bottom, bool *miss)
{
	u32 track;

	*miss = false;
	if (t->policy == IMR_SEQ)
		track = take_seq(t);
	else if (t->policy == IMR_COMPACTION)
		track = take_tiered(t, bottom, miss);
	else
		track = take_phases(t);
	if (track == IMR_NO_TRACK)
		return track;
	t->last[class_of(track)] = track;
	t->last_any = track;
	if (imr_is_top(track))
		t->last_top = track;
	imr_track_claim(t, track);
	return track;
}
EXPORT_SYMBOL_GPL(imr_track_take);
