// SPDX-License-Identifier: GPL-2.0
/*
 * The shingled space (Ma 2019, sections 5.3.2 and 5.3.3): see rmwf/space.h.  Algorithm 7 is
 * rmwf_direct(); half of Algorithm 8 is here, the other half in rmwf/flash.c.
 */
#include "rmwf/space.h"

/* The group of all data bands, or NULL if there are several groups. */
static const struct shingle_group *only_group(const struct shingle_layout *l)
{
	const struct shingle_group *g =
		shingle_group_of(l, shingle_band_pblk(l, SHINGLE_ROLE_DATA, 0));

	return g && g->nr_bands == l->nr_bands[SHINGLE_ROLE_DATA] ? g : NULL;
}

/* The group of one band. */
static const struct shingle_group *group_of(const struct rmwf_space *s, u32 band)
{
	return s->only ?: shingle_group_of(s->layout, shingle_band_pblk(s->layout,
									SHINGLE_ROLE_DATA, band));
}

/**
 * rmwf_space_init() - make a space in which no block was written
 * @s: the space
 * @e: the engine, which knows the blocks in use
 * @l: layout of the device; outlives the space
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.  The caller calls rmwf_space_exit() also after an error.
 */
int rmwf_space_init(struct rmwf_space *s, struct shingle_engine *e,
		    const struct shingle_layout *l)
{
	memset(s, 0, sizeof(*s));
	s->engine = e;
	s->layout = l;
	s->blocks = l->logical_blocks;
	s->band_blocks = l->band_blocks[SHINGLE_ROLE_DATA];
	s->only = only_group(l);
	s->columns = rmwf_track_blocks(s, 0);
	s->whole_tracks = l->head_tracks > 1 && !l->medium[SHINGLE_DEV_DATA].columns;
	s->live = shingle_zalloc_array(BITS_TO_LONGS(s->blocks), sizeof(*s->live));
	s->claimed = shingle_zalloc_array(BITS_TO_LONGS(s->blocks), sizeof(*s->claimed));
	return s->live && s->claimed ? 0 : -ENOMEM;
}

/**
 * rmwf_space_exit() - free its memory
 * @s: the space
 *
 * Context: may sleep.
 */
void rmwf_space_exit(struct rmwf_space *s)
{
	kvfree(s->live);
	kvfree(s->claimed);
}

/* ------------------------------------------------------------------------
 * The sector locator
 */

/**
 * rmwf_native() - the home of a block
 * @s: the space
 * @lblk: the block
 *
 * Context: any.
 * Return: the block of the medium.
 */
u64 rmwf_native(const struct rmwf_space *s, u32 lblk)
{
	u32 band = lblk / s->band_blocks;

	if (likely(s->only))
		return s->only->start + band * s->only->stride + lblk % s->band_blocks;
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, band) + lblk % s->band_blocks;
}

/**
 * rmwf_track_blocks() - length of the tracks of a band
 * @s: the space
 * @band: the band
 *
 * Context: any.
 * Return: blocks per track; without tracks, the whole band counts as one.
 */
u32 rmwf_track_blocks(const struct rmwf_space *s, u32 band)
{
	const struct shingle_group *g;

	if (likely(s->only && s->columns))
		return s->columns;
	g = group_of(s, band);
	return g && g->track_blocks ? min(g->track_blocks, s->band_blocks) : s->band_blocks;
}

/**
 * rmwf_locate() - track and column of a block's home
 * @s: the space
 * @lblk: the block
 *
 * Static, row by row: the offset in the band divided by the blocks of a track gives the
 * track, the remainder the column (Ma 2019, section 5.3.3).
 *
 * Context: any.
 * Return: the place.
 */
struct rmwf_place rmwf_locate(const struct rmwf_space *s, u32 lblk)
{
	u32 band = lblk / s->band_blocks, offset = lblk % s->band_blocks;
	u32 columns = rmwf_track_blocks(s, band);

	return (struct rmwf_place){
		.band = band, .track = offset / columns, .column = offset % columns,
		.columns = columns,
	};
}

/**
 * rmwf_pblk_of() - the block of the medium for a place
 * @s: the space
 * @p: the place
 *
 * Context: any.
 * Return: the block of the medium.
 */
u64 rmwf_pblk_of(const struct rmwf_space *s, const struct rmwf_place *p)
{
	u32 offset = p->track * p->columns + p->column;

	if (likely(s->only))
		return s->only->start + p->band * s->only->stride + offset;
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, p->band) + offset;
}

/* ------------------------------------------------------------------------
 * Direct writes
 */

/* T_i >= T_p: does the block's column hold nothing on later tracks of the band? */
static bool is_last(const struct rmwf_space *s, u32 lblk, u32 track)
{
	u32 end = (lblk / s->band_blocks + 1) * s->band_blocks;

	while (end - lblk > track) {
		lblk += track;
		if (test_bit(lblk, s->claimed))
			return false;
	}
	return true;
}

/*
 * Limit a run to its track: a run across tracks would first destroy blocks that it
 * overwrites later.
 */
static u32 within_track(const struct rmwf_place *p, u32 n)
{
	return min(n, p->columns - p->column);
}

/**
 * rmwf_direct() - test whether blocks may be written to their home (Algorithm 7)
 * @s: the space
 * @p: home of the first block
 * @lblk: the first block
 * @n: number of blocks, at most; all of one band
 * @pointer: decide by the last written track of each column; otherwise by what the head
 *	would cover
 *
 * The thesis's test, T_p != T_i, never lets a pointer advance.  The test here is T_i >= T_p, as its
 * Figure 5.3 requires (rule F1 of papers/ma.rst).  On tracks with skew, blocks at the same angle
 * are tested as well.
 *
 * Context: map lock.
 * Return: number of leading blocks that may.
 */
u32 rmwf_direct(const struct rmwf_space *s, const struct rmwf_place *p, u32 lblk, u32 n,
		bool pointer)
{
	u32 i = 0;
	u64 pblk;

	/* On a full disk this is the answer for nearly all blocks, without a walk. */
	if (s->whole_tracks && (p->track + 1) * p->columns + p->column < s->band_blocks &&
	    test_bit(lblk + p->columns, s->claimed))
		return 0;
	n = within_track(p, n);
	if (pointer) {
		while (i < n && is_last(s, lblk + i, p->columns))
			i++;
		n = i;
	}
	pblk = rmwf_pblk_of(s, p);
	while (n && shingle_would_destroy(s->layout, s->engine, pblk, n))
		n /= 2;
	return n;
}

/**
 * rmwf_not_direct() - number of blocks before the next one that may be written to its home
 * @s: the space
 * @p: home of the first block
 * @lblk: the first block, which may not
 * @n: number of blocks, at most; all of one band
 * @pointer: as rmwf_direct()
 *
 * Context: map lock.
 * Return: the number.
 */
u32 rmwf_not_direct(const struct rmwf_space *s, const struct rmwf_place *p, u32 lblk, u32 n,
		    bool pointer)
{
	struct rmwf_place at = *p;
	u32 i = 1;

	for (n = within_track(p, n); i < n; i++) {
		at.column++;
		if (rmwf_direct(s, &at, lblk + i, 1, pointer))
			break;
	}
	return i;
}

/**
 * rmwf_chain_end() - the track after the last one of a band that is claimed
 * @s: the space
 * @band: the band
 *
 * Context: map lock.
 * Return: the track.
 */
u32 rmwf_chain_end(const struct rmwf_space *s, u32 band)
{
	u32 first = band * s->band_blocks, track = rmwf_track_blocks(s, band), i;

	for (i = s->band_blocks; i; i = (i - 1) / track * track) {
		if (rmwf_claimed(s, first + (i - 1) / track * track, (i - 1) % track + 1))
			return DIV_ROUND_UP(i, track);
	}
	return 0;
}

/* ------------------------------------------------------------------------
 * Changes of live and claimed places
 */

/*
 * Note whether older pins include any of these places, which are about to become current
 * again.
 */
static void look_for_pins(struct rmwf_space *s, u32 lblk, u32 n)
{
	for (; s->nr_pins && !s->returned && n; n--, lblk++)
		s->returned = !test_bit(lblk, s->live) &&
			      (s->loose_pins || test_bit(lblk, s->claimed));
}

/**
 * rmwf_space_live() - the homes of blocks are current from now on
 * @s: the space
 * @lblk: the first block
 * @n: number of blocks
 * @taken: rmwf_space_take() was called for them
 *
 * Context: map lock.
 */
void rmwf_space_live(struct rmwf_space *s, u32 lblk, u32 n, bool taken)
{
	if (!taken)
		look_for_pins(s, lblk, n);
	bitmap_set(s->live, lblk, n);
	bitmap_set(s->claimed, lblk, n);
}

/**
 * rmwf_space_take() - a write begins
 * @s: the space
 * @lblk: the first block
 * @n: number of blocks
 * @direct: it goes to their home
 *
 * Context: map lock, and not rmwf_space_full().
 */
void rmwf_space_take(struct rmwf_space *s, u32 lblk, u32 n, bool direct)
{
	s->flight[s->nr_flight++] = (struct rmwf_flight){ { lblk, n }, direct };
	if (!direct)
		return;
	look_for_pins(s, lblk, n);
	bitmap_set(s->claimed, lblk, n);
}

/**
 * rmwf_space_landed() - a write has ended
 * @s: the space
 * @lblk: the first block
 * @n: number of blocks
 * @direct: as rmwf_space_take()
 *
 * Context: map lock.
 */
void rmwf_space_landed(struct rmwf_space *s, u32 lblk, u32 n, bool direct)
{
	u32 i;

	for (i = 0; i < s->nr_flight; i++) {
		const struct rmwf_flight *f = &s->flight[i];

		if (f->span.lblk != lblk || f->span.n != n || f->direct != direct)
			continue;
		s->flight[i] = s->flight[--s->nr_flight];
		return;
	}
	WARN_ON_ONCE(true);
}

static bool meet(const struct rmwf_span *a, u32 lblk, u32 n)
{
	return a->lblk < lblk + n && lblk < a->lblk + a->n;
}

/*
 * Is a write in flight to any of these blocks?  With @direct, only writes to their home
 * count.
 */
static bool under_way(const struct rmwf_space *s, u32 lblk, u32 n, bool direct)
{
	u32 i;

	for (i = 0; i < s->nr_flight; i++) {
		if ((s->flight[i].direct || !direct) && meet(&s->flight[i].span, lblk, n))
			return true;
	}
	return false;
}

/**
 * rmwf_in_flight() - test whether a write to any of these blocks is in flight
 * @s: the space
 * @lblk: the first block
 * @n: number of blocks
 *
 * Context: map lock.
 * Return: true if there is one.
 */
bool rmwf_in_flight(const struct rmwf_space *s, u32 lblk, u32 n)
{
	return under_way(s, lblk, n, false);
}

/* Merge older pins that meet these blocks into the new one; all their places wait for it. */
static struct rmwf_span united(struct rmwf_space *s, u32 lblk, u32 n)
{
	struct rmwf_span all = { lblk, n };
	bool grown = true;
	u32 i;

	while (grown) {
		grown = false;
		for (i = 0; i < s->nr_pins; i++) {
			struct rmwf_span *p = &s->pin[(s->pins_from + i) % RMWF_PINS].span;
			u32 end = max(all.lblk + all.n, p->lblk + p->n);

			if (!p->n || !meet(p, all.lblk, all.n))
				continue;
			grown |= p->lblk < all.lblk || end > all.lblk + all.n;
			all.lblk = min(all.lblk, p->lblk);
			all.n = end - all.lblk;
			p->n = 0;
		}
	}
	return all;
}

/* Add a pin.  With @first, no older pin includes any of these blocks. */
static void pin_down(struct rmwf_space *s, u32 lblk, u32 n, u64 seq, bool first)
{
	struct rmwf_pin *last = &s->pin[(s->pins_from + s->nr_pins - 1) % RMWF_PINS];

	if (s->nr_pins && last->seq == seq && last->span.n &&
	    last->span.lblk + last->span.n == lblk) {
		lblk = last->span.lblk;
		n += last->span.n;
		s->nr_pins--;
	}
	if (WARN_ON_ONCE(s->nr_pins == RMWF_PINS))
		return;
	last = &s->pin[(s->pins_from + s->nr_pins) % RMWF_PINS];
	last->span = first ? (struct rmwf_span){ lblk, n } : united(s, lblk, n);
	last->seq = seq;
	s->nr_pins++;
}

/**
 * rmwf_space_leave() - the homes of blocks are no longer current
 * @s: the space
 * @lblk: the first block
 * @n: number of blocks
 * @seq: transaction that records this, not older than those of earlier calls
 *
 * Context: map lock, and there is room for a pin: that of a write that has just ended, or
 *	as rmwf_space_full() says.
 */
void rmwf_space_leave(struct rmwf_space *s, u32 lblk, u32 n, u64 seq)
{
	u32 end = lblk + n;
	bool whole = n == 1 ? test_bit(lblk, s->live) :
			      find_next_zero_bit(s->live, end, lblk) >= end;
	/* A place that was always live is in no older pin, so a search is seldom needed. */
	bool first = !s->returned && whole;

	/* Nothing is live: earlier pins free these places, if none was written since. */
	if (!s->returned && !whole && (n == 1 || find_next_bit(s->live, end, lblk) >= end))
		return;
	/* A live place is claimed. */
	if (!whole && !rmwf_claimed(s, lblk, n))
		return;
	/*
	 * Some places are not claimed: later writers cannot tell from the claim that they
	 * are in a pin.
	 */
	if (!whole && !s->loose_pins)
		s->loose_pins = find_next_zero_bit(s->claimed, end, lblk) < end;
	bitmap_clear(s->live, lblk, n);
	pin_down(s, lblk, n, seq, first);
	/* A direct write in flight to these places has looked for pins before this one. */
	s->returned |= under_way(s, lblk, n, true);
}

/**
 * rmwf_space_failed() - a write has failed
 * @s: the space
 * @lblk: the first block
 * @n: number of blocks
 * @direct: as rmwf_space_take()
 *
 * The places claimed for it are free when all transactions known so far are durable,
 * because the old content of a place may have become obsolete only in the last of these.
 *
 * Context: map lock.
 */
void rmwf_space_failed(struct rmwf_space *s, u32 lblk, u32 n, bool direct)
{
	const struct rmwf_pin *last = &s->pin[(s->pins_from + s->nr_pins - 1) % RMWF_PINS];

	rmwf_space_landed(s, lblk, n, direct);
	if (!direct)
		return;
	/* Some of the places may be live, and leave while this pin exists. */
	s->returned = true;
	pin_down(s, lblk, n, s->nr_pins ? last->seq : 0, false);
}

/**
 * rmwf_space_release() - free places given up by durable transactions
 * @s: the space
 * @seq: last of these transactions
 *
 * Context: map lock.
 * Return: true if more remain.
 */
bool rmwf_space_release(struct rmwf_space *s, u64 seq)
{
	u32 looks = SHINGLE_WALK;

	while (s->nr_pins && s->pin[s->pins_from].seq <= seq) {
		struct rmwf_span *p = &s->pin[s->pins_from].span;

		for (; p->n && looks; p->n--, p->lblk++, looks--) {
			if (!test_bit(p->lblk, s->live) && !under_way(s, p->lblk, 1, true))
				__clear_bit(p->lblk, s->claimed);
		}
		if (p->n)
			return true;
		s->pins_from = (s->pins_from + 1) % RMWF_PINS;
		s->nr_pins--;
		s->returned &= !!s->nr_pins;
		s->loose_pins &= !!s->nr_pins;
	}
	return false;
}
