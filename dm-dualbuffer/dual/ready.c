// SPDX-License-Identifier: GPL-2.0
/*
 * The state of a persistent cache before its first write: empty, or derived from what a checkpoint
 * and the journal contain.  See dual/cache.h.
 */
#include "dual/cache.h"

/*
 * Keep the samples that lie before the round's present fill.  Without an engine there are
 * none.
 */
static void keep_curve(struct dual_cache *c, const struct dual_curve *curve, u32 round)
{
	if (round == c->round.number) {
		c->predict.curve = *curve;
		dual_curve_trim(&c->predict.curve,
				dual_part_blocks(c->shape, &c->round, DUAL_FB1) + c->part.written);
	} else {
		dual_curve_begin(&c->predict.curve);
	}
}

static int adopt(struct dual_cache *c, u32 slot, const char **why)
{
	u32 lblk = shingle_slot_lblk(&c->map, slot);
	struct dual_cursor at, *fill = NULL;

	*why = "a slot of no part of the cache holds a block";
	switch (dual_part_of(c->shape, &c->round, slot, &at)) {
	case DUAL_NO_PART:
		return -EUCLEAN;
	case DUAL_NEW:
		fill = &c->part.fill;
		break;
	case DUAL_FB2:
		fill = &c->part.fb_fill;
		break;
	case DUAL_FB1:
		break;
	}
	*why = "two slots of the cache hold the same block";
	if (dual_find(c, lblk) != SHINGLE_NO_SLOT)
		return -EUCLEAN;
	dual_hold(c, slot, lblk, c->count[slot]);
	at.at++;
	if (fill && dual_behind(&at, fill))
		*fill = at;
	return 0;
}

/*
 * Move the fill forward after recovery.  All new blocks may have left the cache, so that
 * none shows how far the part was filled.  But M was lowered at the start of a row, and on
 * later tracks FB_2 may use columns that are new on earlier ones.  And blocks written from
 * now on must not appear older than the staged copy.
 */
static void not_before(struct dual_cache *c, const struct dual_staging *staging)
{
	struct dual_cursor at = { 0 };

	if (c->round.nr_drops > 1)
		at.row = c->round.drop[c->round.nr_drops - 1].track + c->shape->sample_tracks;
	if (dual_behind(&at, &c->part.fill))
		c->part.fill = at;
	if (staging->in_use && dual_behind(&staging->mark, &c->part.fill))
		c->part.fill = staging->mark;
}

/*
 * Clear marks that cannot be right: a slot with a block was written.  Marks beyond the
 * maximum are cleared, too; failing steps will set them again.
 */
static void count_unfit(struct dual_cache *c)
{
	u32 slot;

	c->bad.nr = 0;
	for (slot = find_first_bit(c->bad.unfit, c->map.nr_slots); slot < c->map.nr_slots;
	     slot = find_next_bit(c->bad.unfit, c->map.nr_slots, slot + 1)) {
		if (shingle_slot_state(&c->map, slot) == SHINGLE_SLOT_OWNED ||
		    c->bad.nr == dual_most_unfit(c))
			__clear_bit(slot, c->bad.unfit);
		else
			c->bad.nr++;
		cond_resched();
	}
}

/**
 * dual_ready() - derive the rest of the state from what was loaded
 * @c: the cache, with owners and counts of slots, the round and the staging
 * @why: on error, a sentence with the reason
 *
 * Slots placed after the last current one are placed again; their columns hold nothing
 * current after them.
 *
 * Context: before I/O.
 * Return: 0 or -EUCLEAN.
 */
int dual_ready(struct dual_cache *c, const char **why)
{
	struct dual_staging staging = c->staging;
	u32 curve_round = c->engine ? c->predict.curve_round : 0, slot;
	struct dual_curve curve = c->predict.curve;
	int err;

	*why = "a round of the cache makes no sense";
	err = dual_round_check(c->shape, &c->round);
	if (err || (staging.in_use && !c->round.nr_drops))
		return -EUCLEAN;
	*why = "what the staging band holds was copied when the cache was more than full";
	if (staging.in_use && dual_cursor_check(c->shape, &c->round, DUAL_NEW, &staging.mark))
		return -EUCLEAN;
	memset(c->map.head, 0, c->map.nr_buckets * sizeof(*c->map.head));
	memset(c->map.next, 0, c->map.nr_slots * sizeof(*c->map.next));
	memset(&c->rank.pb, 0, sizeof(c->rank.pb));
	memset(&c->rank.fb2, 0, sizeof(c->rank.fb2));
	if (c->bands.live)
		memset(c->bands.live, 0, c->bands.nr * sizeof(*c->bands.live));
	c->bands.walked = 0;
	c->map.live = 0;
	c->map.seen = 0;
	c->predict.most = 0;
	c->bad.suspect.nr = 0;
	c->bad.misses = 0;
	count_unfit(c);
	c->part.inflight = 0;
	c->sync.waiting = false;
	c->sync.switching = false;
	c->step.nr = 0;
	c->round_changed = false;
	dual_begin_round(c);
	for (slot = 0; slot < c->map.nr_slots; slot++) {
		if (shingle_slot_state(&c->map, slot) != SHINGLE_SLOT_OWNED)
			c->map.owner[slot] = SHINGLE_SLOT_FREE;
		else if (adopt(c, slot, why))
			return -EUCLEAN;
		cond_resched();
	}
	not_before(c, &staging);
	c->part.filled = dual_before(c->shape, &c->round, DUAL_NEW, &c->part.fill);
	c->part.written = c->part.filled;
	keep_curve(c, &curve, curve_round);
	c->staging = staging;
	c->tidied = staging.in_use ? 0 : c->band_blocks;
	while (dual_tidy(c))
		cond_resched();
	for (slot = 0; slot < c->map.nr_slots; slot++) {
		if (shingle_slot_state(&c->map, slot) != SHINGLE_SLOT_OWNED)
			c->map.owner[slot] = SHINGLE_SLOT_FREE;
	}
	/* A clean was in progress. */
	if (c->rank.fb2.sum || c->staging.in_use)
		dual_begin_clean(c);
	else
		dual_note_current(c);
	return 0;
}

/**
 * dual_cache_init() - make an empty cache
 * @c: the cache; the caller sets its features afterwards
 * @shape: its shape, checked; owned by the caller
 * @band_blocks: size of the bands that blocks belong to
 *
 * Context: may sleep.
 * Return: 0, -EINVAL or -ENOMEM.
 */
int dual_cache_init(struct dual_cache *c, const struct dual_shape *shape, u32 band_blocks)
{
	u32 slots = shape->tracks * shape->track_blocks;
	const char *why;
	int err;

	memset(c, 0, sizeof(*c));
	c->shape = shape;
	c->band_blocks = band_blocks;
	c->step_blocks = DUAL_STEP_BLOCKS;
	c->blocks = dual_blocks(shape);
	err = shingle_slotmap_init(&c->map, slots);
	if (err)
		return err;
	c->count = shingle_zalloc_array(slots, sizeof(*c->count));
	c->step.move = shingle_zalloc_array(DUAL_STEP_BLOCKS, sizeof(*c->step.move));
	c->bad.unfit = shingle_zalloc_array(BITS_TO_LONGS(slots), sizeof(*c->bad.unfit));
	if (!c->count || !c->step.move || !c->bad.unfit) {
		dual_cache_exit(c);
		return -ENOMEM;
	}
	dual_round_first(shape, &c->round);
	return dual_ready(c, &why);
}
