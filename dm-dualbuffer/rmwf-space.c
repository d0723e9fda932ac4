// SPDX-License-Identifier: GPL-2.0
/*
 * The shingled space (Ma 2019, sections 5.3.2 and 5.3.3): see rmwf-space.h.  Algorithm 7
 * is rmwf_direct(); of Algorithm 8 the one half is here, the other in rmwf-flash.c.
 */
#include "rmwf-space.h"

/* All data bands, if they are one group. */
static const struct shingle_group *only_group(const struct shingle_layout *l)
{
	const struct shingle_group *g =
		shingle_group_of(l, shingle_band_pblk(l, SHINGLE_ROLE_DATA, 0));

	return g && g->nr_bands == l->nr_bands[SHINGLE_ROLE_DATA] ? g : NULL;
}

/* And that of one band. */
static const struct shingle_group *group_of(const struct rmwf_space *s, u32 band)
{
	return s->only ?: shingle_group_of(s->layout, shingle_band_pblk(s->layout,
									SHINGLE_ROLE_DATA, band));
}

/**
 * rmwf_space_init() - nothing was written yet
 * @s: the space
 * @e: the engine whose it is, which says what of it is in use
 * @l: layout of the device; outlives it
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM, after which rmwf_space_exit() is due all the same.
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
 * rmwf_native() - the place of a block
 * @s: the space
 * @lblk: the block
 *
 * Context: any.
 */
u64 rmwf_native(const struct rmwf_space *s, u32 lblk)
{
	u32 band = lblk / s->band_blocks;

	if (likely(s->only))
		return s->only->start + band * s->only->stride + lblk % s->band_blocks;
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, band) + lblk % s->band_blocks;
}

/**
 * rmwf_track_blocks() - how long are the tracks of a band?
 * @s: the space
 * @band: the band
 *
 * Context: any.  Of a band that has none all of it is one.
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
 * rmwf_locate() - where does a block belong?
 * @s: the space
 * @lblk: the block
 *
 * Static, row by row: of its offset in the band the quotient by the blocks of a track is the
 * track, the rest the column (Ma 2019, section 5.3.3).
 *
 * Context: any.
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
 * rmwf_pblk_of() - a place, as the layout has it
 * @s: the space
 * @p: the place
 *
 * Context: any.
 */
u64 rmwf_pblk_of(const struct rmwf_space *s, const struct rmwf_place *p)
{
	u32 offset = p->track * p->columns + p->column;

	if (likely(s->only))
		return s->only->start + p->band * s->only->stride + offset;
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, p->band) + offset;
}

/* ------------------------------------------------------------------------
 * Which writes need no read-modify-write
 */

/* T_i >= T_p: nothing of the block's column is behind it in the band. */
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
 * Of a run within a track: one that crosses into the next would destroy, at first, what it
 * is to overwrite there.
 */
static u32 within_track(const struct rmwf_place *p, u32 n)
{
	return min(n, p->columns - p->column);
}

/**
 * rmwf_direct() - may blocks be written where they belong? (Algorithm 7)
 * @s: the space
 * @p: place of the first
 * @lblk: the first
 * @n: how many, at most; of one band
 * @pointer: by the last written track of their columns; else by what the head would cover
 *
 * The thesis's test, T_p != T_i, lets no pointer ever advance: it is T_i >= T_p, as its
 * example asks for (VF2; F1).  Where tracks are turned against each other what lies under an
 * angle is asked besides.
 *
 * Context: map lock.
 * Return: how many of them, from the first on.
 */
u32 rmwf_direct(const struct rmwf_space *s, const struct rmwf_place *p, u32 lblk, u32 n,
		bool pointer)
{
	u32 i = 0;
	u64 pblk;

	/* Of a full disk that is the answer for nearly all, without a walk. */
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
 * rmwf_not_direct() - how many blocks in front of the next one that may be written in place?
 * @s: the space
 * @p: place of the first
 * @lblk: the first, which may not
 * @n: how many, at most; of one band
 * @pointer: as rmwf_direct()
 *
 * Context: map lock.
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
 * rmwf_chain_end() - the track behind the last one of a band that holds anything
 * @s: the space
 * @band: the band
 *
 * Context: map lock.
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
 * What becomes of it
 */

/* Do older pins hold any of these places, which will hold something current again? */
static void look_for_pins(struct rmwf_space *s, u32 lblk, u32 n)
{
	for (; s->nr_pins && !s->returned && n; n--, lblk++)
		s->returned = !test_bit(lblk, s->live) &&
			      (s->holey || test_bit(lblk, s->claimed));
}

/**
 * rmwf_space_live() - what is current of these blocks is at their places
 * @s: the space
 * @lblk: the first
 * @n: how many
 * @taken: rmwf_space_take() has been told
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
 * rmwf_space_take() - a write is on its way
 * @s: the space
 * @lblk: the first block
 * @n: how many
 * @direct: to where they belong
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
 * rmwf_space_landed() - or has landed
 * @s: the space
 * @lblk: the first block
 * @n: how many
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

/* Is a write under way to any of these blocks?  @direct: one to where they belong. */
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
 * rmwf_in_flight() - is a write under way to any of these blocks?
 * @s: the space
 * @lblk: the first
 * @n: how many
 *
 * Context: map lock.
 */
bool rmwf_in_flight(const struct rmwf_space *s, u32 lblk, u32 n)
{
	return under_way(s, lblk, n, false);
}

/* Older pins of any of these blocks: all of what they hold waits for the new one. */
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

/* @first: no older pin holds any of them. */
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
 * rmwf_space_leave() - what is current of these blocks is not at their places any more
 * @s: the space
 * @lblk: the first
 * @n: how many
 * @seq: of the transaction that says so, no older than any before
 *
 * Context: map lock, and there is room for a pin: of a write that has just landed, or as
 * rmwf_space_full() says.
 */
void rmwf_space_leave(struct rmwf_space *s, u32 lblk, u32 n, u64 seq)
{
	u32 end = lblk + n;
	bool whole = n == 1 ? test_bit(lblk, s->live) :
			      find_next_zero_bit(s->live, end, lblk) >= end;
	/* What was live all the while is in no older pin: seldom there is one to be looked for. */
	bool first = !s->returned && whole;

	/* What was left before is free with what said so, if it has not been written since. */
	if (!s->returned && !whole && (n == 1 || find_next_bit(s->live, end, lblk) >= end))
		return;
	/* What is live is claimed. */
	if (!whole && !rmwf_claimed(s, lblk, n))
		return;
	/* What is claimed would not tell who writes there that it is in a pin. */
	if (!whole && !s->holey)
		s->holey = find_next_zero_bit(s->claimed, end, lblk) < end;
	bitmap_clear(s->live, lblk, n);
	pin_down(s, lblk, n, seq, first);
	/* And who writes there already has looked before. */
	s->returned |= under_way(s, lblk, n, true);
}

/**
 * rmwf_space_failed() - a write has failed
 * @s: the space
 * @lblk: the first block
 * @n: how many
 * @direct: as rmwf_space_take()
 *
 * What was claimed for it is free when all is durable that is known so far: what it was
 * written over may be there since no longer than that.
 *
 * Context: map lock.
 */
void rmwf_space_failed(struct rmwf_space *s, u32 lblk, u32 n, bool direct)
{
	const struct rmwf_pin *last = &s->pin[(s->pins_from + s->nr_pins - 1) % RMWF_PINS];

	rmwf_space_landed(s, lblk, n, direct);
	if (!direct)
		return;
	/* Some of it may be live, and leave while this pin is there. */
	s->returned = true;
	pin_down(s, lblk, n, s->nr_pins ? last->seq : 0, false);
}

/**
 * rmwf_space_release() - transactions are durable, and nobody reads what they freed
 * @s: the space
 * @seq: up to this one
 *
 * Context: map lock.
 * Return: true if there is more of it.
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
		s->holey &= !!s->nr_pins;
	}
	return false;
}
