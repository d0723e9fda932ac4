// SPDX-License-Identifier: GPL-2.0
/*
 * State changes of the engine for interlaced recording: backup slots, physical tracks,
 * logical tracks.  A freed track or slot is not used again before release().
 */
#include "imr-state.h"

/* ------------------------------------------------------------------------
 * Slots
 */

static bool slot_is_free(const struct imr_slot *b)
{
	return b->owner == NO_OWNER && !b->pending && !b->taken;
}

/**
 * imr_free_slots() - number of slots that tops may be saved to
 * @s: the engine
 *
 * Slots that failed a write are left out if at least two others exist, because a bottom
 * between two tops needs two slots.
 *
 * Context: under the map lock.
 * Return: the number of usable free slots.
 */
u32 imr_free_slots(const struct imr *s)
{
	const struct imr_backup *b = &s->backup;
	bool spared = b->nr - b->nr_failed >= 2;
	u32 i, nr = 0;

	for (i = 0; i < b->nr; i++)
		nr += slot_is_free(&b->slot[i]) && !(spared && b->slot[i].failed);
	return nr;
}

/**
 * imr_free_slot() - choose the slot for the next top to save
 * @s: the engine
 *
 * Context: under the map lock.
 * Return: the slot; one that failed only if no other is free; NO_SLOT if none is free.
 */
u32 imr_free_slot(const struct imr *s)
{
	u32 last = NO_SLOT, i;

	for (i = 0; i < s->backup.nr; i++) {
		if (!slot_is_free(&s->backup.slot[i]))
			continue;
		if (!s->backup.slot[i].failed)
			return i;
		if (last == NO_SLOT)
			last = i;
	}
	return last;
}

/**
 * imr_set_failed() - record whether the last write to a slot failed
 * @s: the engine
 * @slot: the slot
 * @failed: the write failed
 *
 * Context: under the map lock.
 */
void imr_set_failed(struct imr *s, u32 slot, bool failed)
{
	struct imr_slot *b = &s->backup.slot[slot];

	s->backup.nr_failed += failed - b->failed;
	b->failed = failed;
}

/**
 * imr_enter_slot() - from now on a slot holds the content of a top
 * @s: the engine
 * @slot: the slot
 * @track: logical track
 * @seq: transaction that records this
 *
 * Context: under the map lock.
 */
void imr_enter_slot(struct imr *s, u32 slot, u32 track, u64 seq)
{
	struct imr_slot *b = &s->backup.slot[slot];

	imr_set_failed(s, slot, false);
	b->taken = false;
	b->owner = track;
	imr_mark_slot(s, slot);
	b->seq = seq;
	b->durable = s->opt.unsafe_record || s->opt.unsafe_sync1;
	shingle_slotmap_insert(&s->backup.index, slot, track, 1);
	s->map[track].saved = true;
	s->backup.nr_saved++;
}

/**
 * imr_leave_slot() - the content of a slot is no longer needed
 * @s: the engine
 * @slot: a slot with an owner
 * @seq: the slot may be reused when this transaction is durable
 *
 * Context: under the map lock.
 */
void imr_leave_slot(struct imr *s, u32 slot, u64 seq)
{
	struct imr_slot *b = &s->backup.slot[slot];

	s->map[b->owner].saved = false;
	shingle_slotmap_remove(&s->backup.index, slot, 1);
	b->owner = NO_OWNER;
	imr_mark_slot(s, slot);
	b->pending = !s->opt.unsafe_reuse;
	b->durable = false;
	b->seq = seq;
	s->backup.nr_saved--;
}

/* ------------------------------------------------------------------------
 * Physical tracks
 */

/**
 * imr_exposed() - test whether a physical track holds data that must not be destroyed
 * @s: the engine
 * @phys: physical track
 *
 * A track is exposed if the current map reads from it, or if the map that recovery would
 * rebuild now does.
 *
 * Context: under the map lock.
 * Return: true if the track is exposed.
 */
bool imr_exposed(const struct imr *s, u32 phys)
{
	u32 owner = s->owner[phys];

	if (imr_is_owned(owner))
		return !s->map[owner].saved ||
		       !s->backup.slot[imr_slot_of(s, owner)].durable;
	return owner != OWNER_FREE && owner != OWNER_TAKEN;
}

/**
 * imr_rewrites() - number of tops to save before a track is written
 * @s: the engine
 * @phys: physical track
 * @top: result: the first of these tops; may be NULL
 *
 * Counts the tops beside a bottom that hold valid data and are not in a slot.
 *
 * Context: under the map lock.
 * Return: 0 to 2; 0 for a top.
 */
u32 imr_rewrites(const struct imr *s, u32 phys, u32 *top)
{
	u32 nr = 0, side, at;

	for (side = 0; side < 2 && !imr_is_top(phys); side++) {
		at = imr_adjacent_top(s, phys, side);
		if (at == IMR_NO_TRACK || !imr_is_owned(s->owner[at]) ||
		    s->map[s->owner[at]].saved)
			continue;
		if (!nr++ && top)
			*top = at;
	}
	return nr;
}

/**
 * imr_give_track() - free a track that was taken and never written
 * @s: the engine
 * @phys: physical track
 *
 * Context: under the map lock.
 */
void imr_give_track(struct imr *s, u32 phys)
{
	s->owner[phys] = OWNER_FREE;
	imr_track_give(&s->tracks, phys);
}

static void free_phys(struct imr *s, u32 phys, u64 seq)
{
	struct imr_pending *p = &s->pending[1];

	if (s->opt.unsafe_reuse) {
		imr_give_track(s, phys);
		return;
	}
	s->owner[phys] = OWNER_PENDING | (p->nr ? p->head : OWNER_END);
	p->head = phys;
	p->nr++;
	p->seq = seq;
	s->nr_pending++;
}

/* Free up to *@most tracks of a list. */
static void release_list(struct imr *s, struct imr_pending *p, u32 *most)
{
	u32 next;

	for (; p->nr && *most; p->nr--, (*most)--) {
		next = s->owner[p->head];
		imr_give_track(s, p->head);
		p->head = next & ~OWNER_PENDING;
		s->nr_pending--;
	}
}

/* An operation of struct shingle_engine_ops. */
bool imr_release(struct shingle_engine *e, u64 seq)
{
	struct imr *s = to_imr(e);
	u32 most = SHINGLE_WALK, i;

	s->changes++;
	for (i = 0; i < s->backup.nr; i++) {
		struct imr_slot *b = &s->backup.slot[i];

		if (b->seq > seq)
			continue;
		b->pending = false;
		b->durable |= b->owner != NO_OWNER;
	}
	if (s->pending[0].seq <= seq)
		release_list(s, &s->pending[0], &most);
	if (!s->pending[0].nr) {
		s->pending[0] = s->pending[1];
		memset(&s->pending[1], 0, sizeof(s->pending[1]));
		if (s->pending[0].seq <= seq)
			release_list(s, &s->pending[0], &most);
	}
	return s->pending[0].nr && s->pending[0].seq <= seq;
}

/* An operation of struct shingle_engine_ops. */
bool imr_pending(struct shingle_engine *e)
{
	struct imr *s = to_imr(e);
	u32 i;

	if (s->nr_pending)
		return true;
	for (i = 0; i < s->backup.nr; i++) {
		const struct imr_slot *b = &s->backup.slot[i];

		if (b->pending || (b->owner != NO_OWNER && !b->durable))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------------
 * Logical tracks
 */

/**
 * imr_map_track() - a logical track is on a physical track from now on
 * @s: the engine
 * @track: logical track
 * @phys: physical track, newly taken or already its own
 * @valid: number of valid blocks, from the first block on
 * @emit: where the record goes
 *
 * Context: under the map lock.
 */
void imr_map_track(struct imr *s, u32 track, u32 phys, u32 valid, struct shingle_emit *emit)
{
	struct imr_track *t = &s->map[track];

	if (t->phys != phys) {
		if (t->saved)
			imr_leave_slot(s, imr_slot_of(s, track), emit->seq);
		if (t->phys != IMR_NO_TRACK)
			free_phys(s, t->phys, emit->seq);
		else
			s->live[t->level]++;
		t->phys = phys;
		t->relocate = false;
		s->owner[phys] = track;
	}
	t->valid = valid;
	imr_mark_track(s, track);
	s->epoch.changed = true;
	shingle_emit(emit, IMR_MAP, valid, t->level, track, phys);
}

/**
 * imr_unmap_track() - a logical track loses its place
 * @s: the engine
 * @track: logical track, mapped
 * @seq: transaction that records this
 *
 * Context: under the map lock.
 */
void imr_unmap_track(struct imr *s, u32 track, u64 seq)
{
	struct imr_track *t = &s->map[track];

	if (t->saved)
		imr_leave_slot(s, imr_slot_of(s, track), seq);
	free_phys(s, t->phys, seq);
	s->live[t->level]--;
	t->phys = IMR_NO_TRACK;
	t->valid = 0;
	imr_mark_track(s, track);
	t->relocate = false;
}

/* ------------------------------------------------------------------------
 * Places in use
 */

static bool phys_referenced(const struct imr *s, u32 phys, u64 offset)
{
	u32 owner = s->owner[phys];

	return imr_exposed(s, phys) &&
	       (!imr_is_owned(owner) || offset < s->map[owner].valid);
}

static bool slot_referenced(const struct imr *s, u32 slot)
{
	return s->backup.slot[slot].owner != NO_OWNER || s->backup.slot[slot].pending;
}

/* An operation of struct shingle_engine_ops. */
bool imr_referenced(struct shingle_engine *e, enum shingle_role role, u64 band, u64 offset, u64 n)
{
	const struct imr *s = to_imr(e);

	return role == SHINGLE_ROLE_DATA ? phys_referenced(s, band, offset) :
					   slot_referenced(s, band);
}

/* An operation of struct shingle_engine_ops. */
u64 imr_cached_blocks(struct shingle_engine *e)
{
	const struct imr *s = to_imr(e);
	u64 blocks = 0;
	u32 i;

	for (i = 0; i < s->backup.nr && s->backup.nr_saved; i++) {
		if (s->backup.slot[i].owner != NO_OWNER)
			blocks += s->map[s->backup.slot[i].owner].valid;
	}
	return blocks;
}
