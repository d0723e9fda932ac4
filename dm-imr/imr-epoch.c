// SPDX-License-Identifier: GPL-2.0
/*
 * Epochs of interlaced recording.  The gathered writes form TrackList, each item gets a
 * track, and one of the two algorithms of imr-persist.c issues the steps.
 *
 * Before a new epoch, tops that an interrupted epoch left in backup slots are restored.
 */
#include "imr-state.h"

/* ------------------------------------------------------------------------
 * TrackList
 */

/* An operation of struct shingle_engine_ops. */
int imr_epoch_add(struct shingle_engine *e, u64 lblk, u32 n)
{
	struct imr *s = to_imr(e);
	struct imr_epoch *ep = &s->epoch;
	u32 track = div_u64(lblk, s->track_blocks);
	u32 offset = lblk - (u64)track * s->track_blocks;
	struct imr_item *it = ep->nr ? &ep->track_list[ep->nr - 1] : NULL;

	if (!it || it->track != track) {
		if (ep->nr == s->opt.buffer_tracks)
			return -ENOSPC;
		it = &ep->track_list[ep->nr++];
		memset(it, 0, sizeof(*it));
		it->track = track;
		it->first = offset;
		it->dst = IMR_NO_TRACK;
		s->map[track].busy = true;
	}
	it->end = offset + n;
	it->blocks += n;
	return 0;
}

/*
 * Sort TrackList by level, and by address within a level.  A counting sort, because a lock
 * is held and there may be MAX_BUFFER tracks.
 */
static void sort_items(struct imr *s)
{
	struct imr_epoch *ep = &s->epoch;
	u32 at[NR_LEVELS + 1] = { 0 }, i;

	for (i = 0; i < ep->nr; i++)
		at[s->map[ep->track_list[i].track].level + 1]++;
	for (i = 1; i < NR_LEVELS; i++)
		at[i] += at[i - 1];
	for (i = 0; i < ep->nr; i++)
		ep->sorted[at[s->map[ep->track_list[i].track].level]++] = ep->track_list[i];
	swap(ep->track_list, ep->sorted);
}

/* ------------------------------------------------------------------------
 * Allocating tracks
 */

/* Withhold @phys for one epoch, and free the track that was withheld until now. */
static void quarantine(struct imr *s, u32 phys)
{
	u32 was = s->epoch.quarantined;

	s->epoch.quarantined = phys;
	if (was != IMR_NO_TRACK)
		imr_give_track(s, was);
}

static bool take_track(struct imr *s, struct imr_item *it, struct imr_tiers *t)
{
	bool miss;

	it->dst = imr_track_take(&s->tracks, imr_wants_bottom(s, it, t), &miss);
	if (it->dst == IMR_NO_TRACK && s->epoch.quarantined != IMR_NO_TRACK) {
		quarantine(s, IMR_NO_TRACK);
		it->dst = imr_track_take(&s->tracks, imr_wants_bottom(s, it, t), &miss);
	}
	if (it->dst == IMR_NO_TRACK)
		return false;
	it->fresh = true;
	t->tracks[s->map[it->track].level] += !imr_is_mapped(s, it->track);
	s->owner[it->dst] = OWNER_TAKEN;
	s->count.partial_tops += imr_partial_to_top(s, it) && !miss;
	s->count.tier_misses += miss;
	s->count.tops_allocated += imr_is_top(it->dst);
	s->count.bottoms_allocated += !imr_is_top(it->dst);
	return true;
}

/* Is part of a bottom better written elsewhere than with a rewrite of tops? */
static bool leaves_bottom(const struct imr *s, const struct imr_item *it)
{
	return imr_partial_to_top(s, it) && imr_rewrites(s, s->map[it->track].phys, NULL) &&
	       imr_top_is_left(&s->tracks);
}

static bool goes_elsewhere(const struct imr *s, const struct imr_item *it)
{
	return s->opt.move || s->map[it->track].relocate || leaves_bottom(s, it);
}

/*
 * Allocate a track for every item.  Returns 0, or -EAGAIN if tracks must be released first.
 * Items without a place come first, since the others can be overwritten in place.
 */
static int plan(struct imr *s)
{
	struct imr_epoch *ep = &s->epoch;
	struct imr_tiers t;
	u32 i;

	imr_tiers_begin(s, &t);
	for (i = 0; i < ep->nr; i++) {
		struct imr_item *it = &ep->track_list[i];

		if (it->dst == IMR_NO_TRACK && !imr_is_mapped(s, it->track) &&
		    !take_track(s, it, &t))
			return -EAGAIN;
	}
	for (i = 0; i < ep->nr; i++) {
		struct imr_item *it = &ep->track_list[i];

		if (it->dst != IMR_NO_TRACK)
			continue;
		if (goes_elsewhere(s, it) && take_track(s, it, &t)) {
			s->count.moved_tracks++;
		} else {
			it->dst = s->map[it->track].phys;
			s->count.overwritten_tracks++;
		}
	}
	quarantine(s, IMR_NO_TRACK);
	s->count.epochs++;
	s->count.epoch_tracks += ep->nr;
	return 0;
}

/* An operation of struct shingle_engine_ops. */
void imr_epoch_end(struct shingle_engine *e)
{
	struct imr *s = to_imr(e);
	struct imr_epoch *ep = &s->epoch;
	u32 i;

	s->changes++;
	if (ep->nr && ep->phase != PHASE_END)
		ep->uncertain = true;
	for (i = 0; i < ep->nr; i++) {
		struct imr_item *it = &ep->track_list[i];

		s->map[it->track].busy = false;
		if (!it->fresh || it->done)
			continue;
		if (it->failed)
			quarantine(s, it->dst);
		else
			imr_give_track(s, it->dst);
	}
	for (i = 0; i < s->backup.nr; i++)
		s->backup.slot[i].taken = false;
	ep->drain = NO_OWNER;
	ep->nr = 0;
	ep->phase = PHASE_NONE;
}

/* ------------------------------------------------------------------------
 * Steps
 */

static int epoch_step(struct imr *s, struct shingle_step *step)
{
	struct imr_epoch *ep = &s->epoch;
	int r = 0;

	while (!r) {
		switch (ep->phase) {
		case PHASE_NONE:
			if (!ep->nr)
				return 0;
			ep->rmw = false;
			ep->after_3 = false;
			ep->wrote_bottom = false;
			ep->at = 0;
			ep->naive = s->opt.naive;
			ep->phase = ep->uncertain ? PHASE_REDO_SYNC : PHASE_REDO;
			break;
		case PHASE_REDO_SYNC:
			return imr_sync_step(step, IMR_SYNC_REDO, SHINGLE_SYNC_COMMIT);
		case PHASE_REDO:
			r = imr_restore_step(s, step);
			if (!r)
				ep->phase = PHASE_PLAN;
			break;
		case PHASE_PLAN:
			sort_items(s);
			r = plan(s);
			if (!r)
				ep->phase = ep->naive ? PHASE_ADJACENT : PHASE_BACKUP;
			break;
		case PHASE_LAST:
			return imr_last_step(s, step);
		case PHASE_END:
			return 0;
		default:
			r = ep->naive ? imr_naive_step(s, step) : imr_merged_step(s, step);
			break;
		}
	}
	return r;
}

/* An operation of struct shingle_engine_ops. */
int imr_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step)
{
	struct imr *s = to_imr(e);
	int r;

	s->changes++;
	if (why == SHINGLE_WHY_EPOCH)
		return epoch_step(s, step);
	/* Restore what a power cut or an error left in slots. */
	if (s->epoch.nr || !s->backup.nr_saved)
		return 0;
	if (s->epoch.uncertain) {
		r = imr_sync_step(step, IMR_SYNC_REDO, SHINGLE_SYNC_COMMIT);
	} else {
		r = imr_restore_step(s, step);
		step->sync = SHINGLE_SYNC_COMMIT;
	}
	s->engine.jobs += r > 0;
	return r;
}

static void synced(struct imr *s, const struct shingle_step *step)
{
	struct imr_epoch *ep = &s->epoch;
	bool changed = ep->changed;
	u32 i;

	s->count.syncs[step->cookie]++;
	ep->uncertain = false;
	if (step->sync == SHINGLE_SYNC_COMMIT)
		ep->changed = false;
	for (i = 0; i < ep->nr; i++)
		ep->track_list[i].unsynced = false;
	if (ep->phase == PHASE_REDO_SYNC)
		ep->phase = PHASE_REDO;
	else
		imr_persist_synced(s, step, changed);
}

/* An operation of struct shingle_engine_ops. */
void imr_step_done(struct shingle_engine *e, const struct shingle_step *step,
		   struct shingle_emit *emit)
{
	struct imr *s = to_imr(e);

	s->changes++;
	if (step->kind == STEP_SYNC)
		synced(s, step);
	else
		imr_copied(s, step, emit);
}
