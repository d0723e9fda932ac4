// SPDX-License-Identifier: GPL-2.0
/*
 * A persistent cache: writes to it (Ma 2019, Algorithms 4 and 5), and checks of its state.  See
 * dual/cache.h; dual/clean.c has Algorithm 6.
 */
#include "dual/cache.h"

/**
 * dual_cache_exit() - free its memory
 * @c: the cache
 *
 * Context: may sleep.
 */
void dual_cache_exit(struct dual_cache *c)
{
	shingle_slotmap_exit(&c->map);
	kvfree(c->count);
	kvfree(c->step.move);
	kvfree(c->bad.unfit);
	memset(c, 0, sizeof(*c));
}

/**
 * dual_home_of() - find the home of a block (Figure 4.3)
 * @lblk: the block
 * @bands: bands of a surface
 * @band_tracks: tracks of a band
 * @track_blocks: blocks of a track
 *
 * Context: any.
 * Return: the home.
 */
struct dual_home dual_home_of(u64 lblk, u32 bands, u32 band_tracks, u32 track_blocks)
{
	struct dual_home h;

	lblk = div_u64_rem(lblk, track_blocks, &h.block);
	lblk = div_u64_rem(lblk, band_tracks, &h.track);
	h.surface = div_u64_rem(lblk, bands, &h.band);
	return h;
}

/* ------------------------------------------------------------------------
 * Slots and blocks
 */

static u32 rank_of(const struct dual_cache *c, u32 slot, enum dual_part part)
{
	return dual_rank(c->count[slot], part == DUAL_NEW);
}

static void mark(struct dual_cache *c, u32 piece)
{
	if (c->engine)
		shingle_mark(c->engine, piece, 1);
}

/* @n slots change: they begin to hold blocks (@more = @n), cease to (-@n), or neither (0). */
static __always_inline void note_slots(struct dual_cache *c, u32 slot, u32 lblk, u32 n, u32 more)
{
	u32 band = lblk / c->band_blocks, piece = slot / PART_SLOTS;

	if (!c->engine)
		return;
	shingle_mark(c->engine, DUAL_PIECE_SLOTS + piece, (slot + n - 1) / PART_SLOTS - piece + 1);
	c->bands.live[band] += more;
	if (band < c->bands.walked)
		c->bands.walked_live += more;
}

/* The slot no longer holds its block, but a read may still use it. */
void dual_forget(struct dual_cache *c, u32 slot)
{
	enum dual_part part = dual_holder(c->shape, &c->round, slot);

	note_slots(c, slot, shingle_slot_lblk(&c->map, slot), 1, -1);
	dual_heat_remove(part == DUAL_FB2 ? &c->rank.fb2 : &c->rank.pb, rank_of(c, slot, part), 1);
	shingle_slotmap_remove(&c->map, slot, 1);
}

/* The slot holds a block from now on. */
void dual_hold(struct dual_cache *c, u32 slot, u32 lblk, u16 count)
{
	enum dual_part part = dual_holder(c->shape, &c->round, slot);

	note_slots(c, slot, lblk, 1, 1);
	shingle_slotmap_insert(&c->map, slot, lblk, 1);
	c->predict.most = max(c->predict.most, c->map.live);
	c->count[slot] = count;
	dual_heat_add(part == DUAL_FB2 ? &c->rank.fb2 : &c->rank.pb, rank_of(c, slot, part), 1);
}

/*
 * Sample V(X), which is @live.  During a clean there are no samples, because V(X) lacks the
 * blocks that the clean takes home.
 */
static void note_sample(struct dual_cache *c, u32 x, u32 live)
{
	if (c->phase != DUAL_FILL)
		return;
	if (dual_curve_note(&c->predict.curve, x, live))
		mark(c, DUAL_PIECE_CURVE);
	if (!c->predict.history.ideal && x + live >= c->blocks)
		c->predict.history.ideal = x;
}

/**
 * dual_note_current() - sample the present value of V(X)
 * @c: the cache
 *
 * Context: map lock.
 */
void dual_note_current(struct dual_cache *c)
{
	note_sample(c, c->fb1 + c->part.written, c->map.live);
}

/* ------------------------------------------------------------------------
 * The partition
 */

void dual_change_round(struct dual_cache *c)
{
	c->round_changed = true;
	c->part.ahead = 0;
	mark(c, DUAL_PIECE_STATE);
}

static void measure(struct dual_cache *c)
{
	u32 fb2 = dual_part_blocks(c->shape, &c->round, DUAL_FB2);

	c->part.room = dual_part_blocks(c->shape, &c->round, DUAL_NEW);
	c->part.reserve = c->part.room > 1 ? DIV_ROUND_UP(min(c->part.room, fb2), 8) : 0;
	c->part.limit = c->part.room - c->part.reserve;
}

/**
 * dual_decide() - decide M, if it is not decided yet
 * @c: the cache
 *
 * Context: map lock.
 */
void dual_decide(struct dual_cache *c)
{
	u32 x;

	if (c->round.nr_drops)
		return;
	if (dual_predict(&c->predict.curve, c->shape->fit, dual_blocks(c->shape), &x))
		x = div_u64(mul_u32_u32(dual_blocks(c->shape), DUAL_FALLBACK_PERCENT), 100);
	c->predict.history.predicted = x;
	dual_round_decide(c->shape, &c->round, x);
	dual_change_round(c);
	measure(c);
}

/* Predict M again at the start of a whole track.  An engine can record only one M at a time. */
static void ratchet(struct dual_cache *c)
{
	const struct dual_shape *s = c->shape;
	u32 x;

	if (!s->ratchet || s->static_percent || c->phase != DUAL_FILL || c->part.fill.at ||
	    c->part.fill.row < 2 * s->sample_tracks ||
	    c->part.fill.row >= s->tracks + s->sample_tracks || (c->engine && c->round_changed))
		return;
	if (dual_predict(&c->predict.curve, s->fit, dual_blocks(s), &x) ||
	    !dual_round_lower(s, &c->round, c->part.fill.row - s->sample_tracks, x,
			      c->fb1 + c->part.filled))
		return;
	dual_change_round(c);
	measure(c);
}

/**
 * dual_begin_round() - begin a round of which only the parts are known
 * @c: the cache
 *
 * Context: map lock.
 */
void dual_begin_round(struct dual_cache *c)
{
	c->fb1 = dual_part_blocks(c->shape, &c->round, DUAL_FB1);
	c->part.fill = (struct dual_cursor){ 0 };
	c->part.ahead = 0;
	c->part.fb_fill = (struct dual_cursor){ 0 };
	c->part.filled = 0;
	c->part.written = 0;
	c->phase = DUAL_FILL;
	c->wanted = false;
	c->empty = false;
	c->drain = false;
	c->predict.history = (struct dual_history){ .number = c->round.number };
	dual_curve_begin(&c->predict.curve);
	c->predict.curve_round = c->round.number;
	mark(c, DUAL_PIECE_CURVE);
	dual_note_current(c);
	if (c->round.nr_drops)
		measure(c);
}

/* ------------------------------------------------------------------------
 * Writes
 */

/* Give out the next @n slots, which are consecutive. */
static void take(struct dual_cache *c, u32 n)
{
	u32 *owner = &c->map.owner[c->part.next], i;

	for (i = 0; i < n; i++)
		owner[i] = SHINGLE_SLOT_SPENT;
	c->part.next += n;
	c->part.ahead -= n;
	if (c->part.ahead)
		c->part.fill.at += n;
	else
		dual_advance(c->shape, &c->round, DUAL_NEW, &c->part.fill, n);
	c->part.filled += n;
}

/**
 * dual_next_fit() - the next writable slots of a part
 * @c: the cache
 * @part: the part
 * @at: as dual_next()
 * @n: as dual_next()
 * @slot: as dual_next()
 * @passed: result: number of unfit slots skipped
 *
 * Context: map lock.
 * Return: as dual_next().
 */
u32 dual_next_fit(const struct dual_cache *c, enum dual_part part, struct dual_cursor *at, u32 n,
		  u32 *slot, u32 *passed)
{
	u32 got, fit, unfit;

	*passed = 0;
	for (;;) {
		got = dual_next(c->shape, &c->round, part, at, n, slot);
		if (!got || !c->bad.nr)
			return got;
		fit = find_next_bit(c->bad.unfit, *slot + got, *slot) - *slot;
		if (fit)
			return fit;
		unfit = find_next_zero_bit(c->bad.unfit, *slot + got, *slot) - *slot;
		dual_advance(c->shape, &c->round, part, at, unfit);
		*passed += unfit;
	}
}

static void seek(struct dual_cache *c)
{
	u32 passed;

	if (c->part.ahead)
		return;
	c->part.ahead = dual_next_fit(c, DUAL_NEW, &c->part.fill, U32_MAX, &c->part.next, &passed);
	c->part.filled += passed;
}

/*
 * Find the next new slots; before, decide M or lower it if necessary.  Within a run of slots
 * that is known already, the search does nothing.
 */
static bool look_ahead(struct dual_cache *c)
{
	seek(c);
	if (!c->part.ahead && !c->round.nr_drops)
		dual_decide(c);
	if (c->round.nr_drops)
		ratchet(c);
	/* Search again if M has changed. */
	seek(c);
	return !c->round.nr_drops || c->part.filled < c->part.limit;
}

/* Does the next row continue directly after this slot, also after M has been decided? */
static bool goes_on(struct dual_cache *c, u32 slot)
{
	seek(c);
	return c->part.ahead && c->part.next == slot && look_ahead(c) && c->part.next == slot;
}

/**
 * dual_place() - find room for blocks
 * @c: the cache
 * @n: number of blocks, at most
 * @slot: result: first slot
 * @got: result: number of consecutive slots
 *
 * Context: map lock.
 * Return: 0; -ENOSPC: a clean is needed first; -EBUSY: wait for the writes in flight, or
 *	for a release.
 */
int dual_place(struct dual_cache *c, u32 n, u32 *slot, u32 *got)
{
	u32 part;

	if (c->sync.switching)
		return -EBUSY;
	/* -ENOSPC makes core start the cleaner, in case it has stopped. */
	if (c->drain)
		return c->part.inflight ? -EBUSY : -ENOSPC;
	if (!look_ahead(c)) {
		c->wanted = true;
		return -ENOSPC;
	}
	*slot = c->part.next;
	*got = 0;
	do {
		part = min(n - *got, c->part.ahead);
		if (c->round.nr_drops)
			part = min(part, c->part.limit - c->part.filled);
		take(c, part);
		*got += part;
	} while (*got < n && goes_on(c, *slot + *got));
	c->part.inflight++;
	return 0;
}

/*
 * The effect of note_sample() for each of @n blocks.  V(X) grows with each block if @grows,
 * else not at all; few of the blocks are a sample.
 */
static void note_run(struct dual_cache *c, u32 x, u32 live, u32 n, bool grows)
{
	u32 sum = x + live, each = 1 + grows, i;

	if (c->phase != DUAL_FILL)
		return;
	if (!c->predict.history.ideal && sum + each * n >= c->blocks)
		c->predict.history.ideal = x + (sum < c->blocks ?
						DIV_ROUND_UP(c->blocks - sum, each) : 1);
	for (i = 1; i <= n; i = max(i + 1, c->predict.curve.next - min(x, c->predict.curve.next)))
		note_sample(c, x + i, grows ? live + i : live);
}

/*
 * Map consecutive blocks of a band that were not cached to new slots.  The round does not
 * change while a write is in flight, so these slots are new.  Returns the number of leading
 * blocks that were not cached.
 */
static u32 hold_fresh(struct dual_cache *c, u32 slot, u32 lblk, u32 n)
{
	u32 x = c->fb1 + c->part.written, live = c->map.live;

	n = shingle_slotmap_adopt(&c->map, slot, lblk, n);
	if (!n)
		return 0;
	memset(&c->count[slot], 0, n * sizeof(*c->count));
	note_slots(c, slot, lblk, n, n);
	c->predict.most = max(c->predict.most, c->map.live);
	dual_heat_add(&c->rank.pb, dual_rank(0, true), n);
	c->part.written += n;
	note_run(c, x, live, n, true);
	return n;
}

/*
 * Raise the counts of blocks that are written again.  Returns the number of leading slots
 * with the count of the first one.
 */
static u32 count_again(struct dual_cache *c, u32 old, u32 slot, u32 n)
{
	u16 count = c->count[old], up = dual_count_up(count);
	u32 i;

	for (i = 0; i < n && c->count[old + i] == count; i++)
		c->count[slot + i] = up;
	return i;
}

/* Map blocks that were cached to other slots.  Returns the number of leading blocks mapped. */
static u32 hold_again(struct dual_cache *c, u32 slot, u32 lblk, u32 n)
{
	u32 old = dual_find(c, lblk), alike, i;
	enum dual_part part = dual_holders(c->shape, &c->round, old, &n);
	struct dual_heat *heat = part == DUAL_FB2 ? &c->rank.fb2 : &c->rank.pb;

	n = shingle_slotmap_run(&c->map, old, n);
	for (i = 0; i < n; i += alike) {
		alike = count_again(c, old + i, slot + i, n - i);
		dual_heat_remove(heat, rank_of(c, old + i, part), alike);
		dual_heat_add(&c->rank.pb, rank_of(c, slot + i, DUAL_NEW), alike);
	}
	note_slots(c, old, lblk, n, 0);
	note_slots(c, slot, lblk, n, 0);
	shingle_slotmap_move(&c->map, old, slot, n);
	note_run(c, c->fb1 + c->part.written, c->map.live, n, false);
	c->part.written += n;
	return n;
}

/**
 * dual_commit() - placed blocks are on the medium
 * @c: the cache
 * @lblk: the first block
 * @slot: the first slot
 * @n: number of blocks, all that were placed
 *
 * Context: map lock.
 */
void dual_commit(struct dual_cache *c, u32 lblk, u32 slot, u32 n)
{
	u32 part;

	for (; n; n -= part, lblk += part, slot += part) {
		part = hold_fresh(c, slot, lblk, n);
		if (!part)
			part = hold_again(c, slot, lblk, n);
	}
	c->part.inflight--;
}

/**
 * dual_abort() - placed blocks were not written, or not completely
 * @c: the cache
 *
 * The slots stay unused for this round.
 *
 * Context: map lock.
 */
void dual_abort(struct dual_cache *c)
{
	c->part.inflight--;
}

/**
 * dual_drop() - discard blocks
 * @c: the cache
 * @lblk: the first block
 * @n: number of blocks
 *
 * Context: map lock.
 * Return: number of these blocks that were cached.
 */
u32 dual_drop(struct dual_cache *c, u32 lblk, u32 n)
{
	u32 live = c->map.live, part, slot;

	for (; n; n -= part, lblk += part) {
		slot = dual_find(c, lblk);
		part = 1;
		if (slot != SHINGLE_NO_SLOT)
			dual_forget(c, slot);
		else
			part = shingle_slotmap_absent(&c->map, lblk, n);
	}
	return live - c->map.live;
}

/**
 * dual_verify_slot() - report inconsistencies of a slot
 * @c: the cache
 * @slot: the slot
 * @report: called with a sentence
 * @ctx: argument of @report
 *
 * Context: map lock.
 * Return: number of inconsistencies.
 */
u32 dual_verify_slot(const struct dual_cache *c, u32 slot, shingle_report_fn report, void *ctx)
{
	struct dual_cursor at = { 0 };
	enum dual_part part;
	u32 bad = 0;

	if (shingle_slot_state(&c->map, slot) == SHINGLE_SLOT_FREE)
		return 0;
	if (test_bit(slot, c->bad.unfit)) {
		report(ctx, "slot %u cannot be written, and is used", slot);
		bad++;
	}
	part = dual_part_of(c->shape, &c->round, slot, &at);
	if (!c->sync.switching && ((part == DUAL_FB2 && !dual_behind(&c->part.fb_fill, &at)) ||
			      (part == DUAL_NEW && !dual_behind(&c->part.fill, &at)))) {
		report(ctx, "slot %u is used, and was not handed out", slot);
		bad++;
	}
	if (shingle_slot_state(&c->map, slot) == SHINGLE_SLOT_OWNED &&
	    (part == DUAL_NO_PART || dual_find(c, shingle_slot_lblk(&c->map, slot)) != slot)) {
		report(ctx, "slot %u holds a block, and is not found", slot);
		bad++;
	}
	return bad;
}

/**
 * dual_verify() - report inconsistencies of the cache
 * @c: the cache
 * @report: called with a sentence
 * @ctx: argument of @report
 *
 * Context: map lock; for tests, because it visits all slots.
 * Return: number of inconsistencies.
 */
u32 dual_verify(const struct dual_cache *c, shingle_report_fn report, void *ctx)
{
	u32 slot, bad = 0, in_fb2 = 0, rest = 0;

	for (slot = 0; slot < c->map.nr_slots; slot++) {
		struct dual_cursor at;
		bool fb2 = dual_part_of(c->shape, &c->round, slot, &at) == DUAL_FB2;

		bad += dual_verify_slot(c, slot, report, ctx);
		if (shingle_slot_state(&c->map, slot) != SHINGLE_SLOT_OWNED)
			continue;
		in_fb2 += fb2;
		rest += !fb2;
	}
	if (in_fb2 != c->rank.fb2.sum || rest != c->rank.pb.sum || in_fb2 + rest != c->map.live) {
		report(ctx, "%u and %u blocks are counted as %u and %u", in_fb2, rest,
		       c->rank.fb2.sum, c->rank.pb.sum);
		bad++;
	}
	return bad;
}
