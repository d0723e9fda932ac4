// SPDX-License-Identifier: GPL-2.0
/* Interlaced recording: consistency checks of the engine's state. */
#include "imr-state.h"

static u32 verify_phys(struct imr *s, shingle_report_fn report, void *ctx)
{
	struct imr_walk *w = &s->walk;
	u32 end = w->phys + min(s->nr_phys - w->phys, SHINGLE_WALK), bad = 0, i;

	for (i = w->phys; i < end; i++) {
		u32 owner = s->owner[i];
		bool is_free = imr_track_is_free(&s->tracks, i);

		w->nr_free += is_free;
		if (owner == OWNER_FREE ? !is_free : is_free) {
			report(ctx, "physical track %u is free and is not", i);
			bad++;
		}
		if (imr_is_owned(owner) && (owner >= s->nr_logical || s->map[owner].phys != i)) {
			report(ctx, "physical track %u belongs to %u, which is elsewhere", i,
			       owner);
			bad++;
		}
		w->pending += !imr_is_owned(owner) && owner != OWNER_FREE && owner != OWNER_TAKEN;
	}
	w->phys = end;
	return bad;
}

static u32 verify_track(struct imr *s, u32 track, shingle_report_fn report, void *ctx)
{
	const struct imr_track *t = &s->map[track];
	u32 bad = 0, slot;

	if (t->phys == IMR_NO_TRACK ? t->valid : !t->valid || t->valid > s->track_blocks) {
		report(ctx, "track %u has %u valid blocks", track, t->valid);
		bad++;
	}
	if (t->phys == IMR_NO_TRACK && t->relocate) {
		report(ctx, "track %u is to be relocated and is nowhere", track);
		bad++;
	}
	if (t->phys != IMR_NO_TRACK) {
		s->walk.live[t->level]++;
		if (t->phys >= s->nr_phys || s->owner[t->phys] != track) {
			report(ctx, "track %u is at %u, which is another's", track, t->phys);
			bad++;
		}
	}
	slot = t->saved ? imr_slot_of(s, track) : NO_SLOT;
	if (t->saved && (slot == NO_SLOT || s->backup.slot[slot].owner != track)) {
		report(ctx, "track %u is saved in no slot", track);
		bad++;
	}
	s->walk.nr_saved += t->saved;
	return bad;
}

static u32 verify_tracks(struct imr *s, shingle_report_fn report, void *ctx)
{
	struct imr_walk *w = &s->walk;
	u32 end = w->logical + min(s->nr_logical - w->logical, SHINGLE_WALK), bad = 0;

	for (; w->logical < end; w->logical++)
		bad += verify_track(s, w->logical, report, ctx);
	return bad;
}

static u32 verify_sums(struct imr *s, shingle_report_fn report, void *ctx)
{
	const struct imr_walk *w = &s->walk;
	u32 bad = 0, i;

	if (w->pending != s->nr_pending || w->nr_free != s->tracks.nr_free) {
		report(ctx, "%u physical tracks wait and %u are free, not %u and %u", w->pending,
		       w->nr_free, s->nr_pending, s->tracks.nr_free);
		bad++;
	}
	if (w->nr_saved != s->backup.nr_saved || w->nr_saved != s->backup.index.live) {
		report(ctx, "%u tracks are saved, not %u, of which %u are found", w->nr_saved,
		       s->backup.nr_saved, s->backup.index.live);
		bad++;
	}
	for (i = 0; i < NR_LEVELS; i++) {
		if (w->live[i] != s->live[i]) {
			report(ctx, "level %u has %u tracks, not %u", i, w->live[i], s->live[i]);
			bad++;
		}
	}
	return bad;
}

/*
 * An operation of struct shingle_engine_ops.  Checks physical tracks, logical tracks and
 * slots, and then the sums if nothing has changed during the walk.
 */
u32 imr_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx)
{
	struct imr *s = to_imr(e);
	u32 nr_failed = 0, bad = 0, i;

	if (!*cursor) {
		memset(&s->walk, 0, sizeof(s->walk));
		s->walk.changes = s->changes;
	}
	(*cursor)++;
	if (s->walk.phys < s->nr_phys)
		return verify_phys(s, report, ctx);
	if (s->walk.logical < s->nr_logical)
		return verify_tracks(s, report, ctx);
	for (i = 0; i < s->backup.nr; i++)
		nr_failed += s->backup.slot[i].failed;
	if (nr_failed != s->backup.nr_failed) {
		report(ctx, "%u slots have failed, not %u", nr_failed, s->backup.nr_failed);
		bad++;
	}
	if (s->walk.changes == s->changes)
		bad += verify_sums(s, report, ctx);
	*cursor = SHINGLE_NOWHERE;
	return bad;
}
