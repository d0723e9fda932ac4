// SPDX-License-Identifier: GPL-2.0
/*
 * The steps of an epoch of interlaced recording: save a top to a backup slot, restore it,
 * write an item, sync.  This file builds the steps and applies their effects; imr-persist.c
 * orders them.
 */
#include "imr-state.h"

/**
 * imr_sync_step() - build a step that copies nothing
 * @step: result
 * @cause: reason for the sync, for the counters
 * @sync: what must be durable before the next step
 *
 * Context: under the map lock.
 * Return: 1.
 */
int imr_sync_step(struct shingle_step *step, enum imr_cause cause, enum shingle_sync sync)
{
	shingle_step_init(step);
	step->kind = STEP_SYNC;
	step->cookie = cause;
	step->sync = sync;
	return 1;
}

/* Build a step that copies a top between its place and a slot. */
static int top_step(const struct imr *s, struct shingle_step *step, u32 kind, u32 track, u32 slot)
{
	u64 place = imr_phys_pblk(s, s->map[track].phys), aside = imr_slot_pblk(s, slot);

	memset(step, 0, sizeof(*step));
	step->kind = kind;
	step->n = s->map[track].valid;
	step->base = kind == STEP_BACKUP ? place : aside;
	step->dst = kind == STEP_BACKUP ? aside : place;
	step->lblk = (u64)track * s->track_blocks;
	step->cookie = slot;
	step->sync = SHINGLE_SYNC_NONE;
	return 1;
}

/**
 * imr_save_step() - build a step that saves a top
 * @s: the engine; a slot is free
 * @step: result
 * @top: physical track, owned
 *
 * Context: under the map lock.
 * Return: 1, or -EAGAIN while a direct write to the top is in flight.
 */
int imr_save_step(struct imr *s, struct shingle_step *step, u32 top)
{
	u32 track = s->owner[top], slot = imr_free_slot(s);

	s->epoch.drain = track;
	if (s->map[track].inflight)
		return -EAGAIN;
	s->backup.slot[slot].taken = true;
	return top_step(s, step, STEP_BACKUP, track, slot);
}

/**
 * imr_restore_step() - build a step that writes the lowest saved top back
 * @s: the engine
 * @step: result
 *
 * Context: under the map lock.
 * Return: 1; 0 if no top is saved; or -EAGAIN.
 */
int imr_restore_step(struct imr *s, struct shingle_step *step)
{
	const struct imr_slot *slot = s->backup.slot;
	u32 found = NO_SLOT, i;

	for (i = 0; i < s->backup.nr; i++) {
		if (slot[i].owner == NO_OWNER)
			continue;
		if (found == NO_SLOT ||
		    s->map[slot[i].owner].phys < s->map[slot[found].owner].phys)
			found = i;
	}
	if (found == NO_SLOT)
		return 0;
	if (!slot[found].durable)
		return -EAGAIN;
	return top_step(s, step, STEP_RESTORE, slot[found].owner, found);
}

/**
 * imr_write_step() - build the next step that writes an item
 * @s: the engine
 * @step: result
 * @i: index of the item in TrackList
 *
 * Context: under the map lock.
 * Return: 1, or -EAGAIN if a write must end or a track must be released first.
 */
int imr_write_step(struct imr *s, struct shingle_step *step, u32 i)
{
	struct imr_item *it = &s->epoch.track_list[i];
	const struct imr_track *t = &s->map[it->track];
	u64 pblk = imr_phys_pblk(s, it->dst), lblk = (u64)it->track * s->track_blocks;
	u32 side, from = 0, end = it->end;

	if (t->inflight)
		return -EAGAIN;
	/*
	 * A discarded top may still be needed by recovery; wait until its discard is
	 * durable.
	 */
	for (side = 0; side < 2 && !imr_is_top(it->dst); side++) {
		u32 top = imr_adjacent_top(s, it->dst, side);

		if (top != IMR_NO_TRACK && imr_exposed(s, top))
			return -EAGAIN;
	}
	memset(step, 0, sizeof(*step));
	step->kind = STEP_WRITE;
	step->base = SHINGLE_NOWHERE;
	step->cookie = i;
	step->gathered = SHINGLE_GATHERED_OVER;
	step->sync = SHINGLE_SYNC_NONE;
	if (it->fresh) {
		end = max_t(u32, end, t->valid);
	} else if (it->first < t->valid && !it->overwritten) {
		from = it->first;
		end = min_t(u32, end, t->valid);
		step->gathered = SHINGLE_GATHERED_ONLY;
	} else {
		from = t->valid;
	}
	step->lblk = lblk + from;
	step->dst = pblk + from;
	step->n = end - from;
	return 1;
}

/*
 * An operation of struct shingle_engine_ops.  A track that moves takes along the old blocks
 * that this epoch does not overwrite.
 */
bool imr_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
		     struct shingle_run *out)
{
	struct imr *s = to_imr(e);
	const struct imr_item *it;
	const struct imr_track *t;

	if (step->kind != STEP_WRITE || !s->epoch.track_list[step->cookie].fresh)
		return false;
	it = &s->epoch.track_list[step->cookie];
	t = &s->map[it->track];
	if (offset >= t->valid)
		return false;
	out->lblk = offset;
	out->n = t->valid - offset;
	out->pblk = imr_where(s, it->track) + offset;
	out->kind = SHINGLE_RUN_MAPPED;
	return true;
}

static void saved(struct imr *s, const struct shingle_step *step, struct shingle_emit *emit)
{
	u32 track = div_u64(step->lblk, s->track_blocks);

	imr_enter_slot(s, step->cookie, track, emit->seq);
	s->count.backups++;
	s->epoch.drain = NO_OWNER;
	if (!s->opt.unsafe_record)
		shingle_emit(emit, IMR_BACKUP, 0, 0, track, step->cookie);
}

static void restored(struct imr *s, const struct shingle_step *step, struct shingle_emit *emit)
{
	u32 track = s->backup.slot[step->cookie].owner;

	imr_leave_slot(s, step->cookie, emit->seq);
	s->epoch.changed = true;
	if (s->epoch.phase == PHASE_RESTORE)
		s->count.rewrites++;
	else
		s->count.replayed++;
	/*
	 * Emit a record in any case; without one there is no commit, and the slot is not
	 * released.
	 */
	if (s->opt.unsafe_retire)
		shingle_emit(emit, IMR_LEVEL, 0, s->map[track].level, track, 1);
	else
		shingle_emit(emit, IMR_RESTORED, 0, 0, track, step->cookie);
}

static void written(struct imr *s, const struct shingle_step *step, struct shingle_emit *emit)
{
	struct imr_item *it = &s->epoch.track_list[step->cookie];
	u32 end = step->lblk + step->n - (u64)it->track * s->track_blocks;

	if (step->gathered == SHINGLE_GATHERED_OVER)
		imr_map_track(s, it->track, it->dst, end, emit);
	s->epoch.after_3 = true;
	it->overwritten = true;
	it->unsynced = true;
	it->done = end >= it->end;
	if (!it->done)
		return;
	s->count.partial_tracks += s->map[it->track].valid < s->track_blocks;
	if (imr_is_top(it->dst)) {
		s->count.tops_written++;
	} else if (it->rmw) {
		s->count.bottoms_rmw++;
	} else {
		s->count.bottoms_rmw_free++;
		s->epoch.wrote_bottom = true;
	}
}

/**
 * imr_copied() - apply the effect of a step other than a sync, when its data are on the
 * medium
 * @s: the engine
 * @step: the step
 * @emit: where its records go
 *
 * Context: under the map lock.
 */
void imr_copied(struct imr *s, const struct shingle_step *step, struct shingle_emit *emit)
{
	switch (step->kind) {
	case STEP_BACKUP:
		saved(s, step, emit);
		break;
	case STEP_RESTORE:
		restored(s, step, emit);
		break;
	case STEP_WRITE:
		written(s, step, emit);
		break;
	}
}

/* An operation of struct shingle_engine_ops. */
bool imr_step_failed(struct shingle_engine *e, const struct shingle_step *step,
		     const struct shingle_unwritten *bad)
{
	struct imr *s = to_imr(e);

	s->changes++;
	if (step->kind == STEP_BACKUP) {
		s->backup.slot[step->cookie].taken = false;
		if (bad->n)
			imr_set_failed(s, step->cookie, true);
	}
	/*
	 * The step may also have been interrupted; then moving the track costs one copy, no
	 * more.
	 */
	if (step->kind == STEP_WRITE) {
		struct imr_item *it = &s->epoch.track_list[step->cookie];

		if (it->fresh)
			it->failed = true;
		else
			s->map[it->track].relocate = true;
	}
	s->epoch.drain = NO_OWNER;
	s->epoch.uncertain = true;
	return false;
}
