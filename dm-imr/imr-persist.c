// SPDX-License-Identifier: GPL-2.0
/*
 * How an epoch persists the gathered writes on the tracks allocated to them: the two
 * algorithms of Liang, Yang, Yang: "KVIMR: Key-Value Store Aware Data Management Middleware
 * for Interlaced Magnetic Recording Based Hard Disk Drive", USENIX ATC 2021, 3.3.  SST is the
 * gathered data, TrackList the allocated tracks, and "valid" the data that a logical track
 * owns.  Line numbers are those of the paper's text, which skips the comment lines of
 * Algorithm 1.
 *
 * Algorithm 1: SSTable Persisting with Naive RMW (rmw naive)
 *
 *	 1	for i <- 0 to TrackList.size:
 *	 2	  if any adjacent tracks of TrackList[i] is un-synced:	PHASE_ADJACENT
 *	 3	    sync
 *	 4	  if writing to TrackList[i] incurs top track rewrite(s):	PHASE_BACKUP
 *	 5	    read the valid data from adjacent top track(s)
 *	 6	    write the valid data into BackupRegion
 *	 7	    sync							PHASE_SYNC_1
 *	 8	    write SST[i] to TrackList[i]				PHASE_RMW
 *	 9	    sync							PHASE_SYNC_2
 *	10	    read the valid data from BackupRegion			PHASE_RESTORE
 *	11	    write back the valid data into adjacent top track(s)
 *	12	    sync							PHASE_SYNC_3
 *	13	  else
 *	14	    write SST[i] to TrackList[i]				PHASE_RMW
 *	15	sync							PHASE_LAST
 *
 * Algorithm 2: SSTable Persisting with Merged RMW (rmw merged)
 *
 *	 1	if persisting SST incurs track rewrites:
 *	 2	  for i <- 0 to TrackList.size:				PHASE_BACKUP
 *	 3	    if writing to TrackList[i] incurs track rewrites:
 *	 4	      read the valid data from adjacent top track(s)
 *	 5	      write the valid data to BackupRegion
 *	 6	  sync							PHASE_SYNC_1
 *	 7	  for i <- 0 to TrackList.size:				PHASE_RMW
 *	 8	    if writing to TrackList[i] incurs track rewrites:
 *	 9	      write SST[i] to TrackList[i]
 *	10	  sync							PHASE_SYNC_2
 *	11	  for i <- 0 to TrackList.size:				PHASE_RESTORE
 *	12	    if writing to TrackList[i] incurs track rewrites:
 *	13	      read the valid data from BackupRegion
 *	14	      write back the valid data into adjacent top track(s)
 *	15	  sync							PHASE_SYNC_3
 *	16	for i <- 0 to TrackList.size:				PHASE_BOTTOMS
 *	17	  if SST[i] is un-written && TrackList[i] is a bottom:
 *	18	    write SST[i] to TrackList[i]
 *	19	sync							PHASE_SYNC_4
 *	20	for i <- 0 to TrackList.size:				PHASE_TOPS
 *	21	  if SST[i] is un-written && TrackList[i] is a top:
 *	22	    write SST[i] to TrackList[i]
 *	23	sync							PHASE_LAST
 *
 * Differences from the paper:
 *
 * - The first sync commits, so that recovery knows what is in BackupRegion.  The last sync
 *   commits the map.
 * - A top between two bottoms is saved and restored once.  The paper's text says this, its
 *   algorithm does not.
 * - BackupRegion may have fewer slots than there are tops to save.  Then lines 2 to 15 of
 *   Algorithm 2 run again for the remaining tops.
 * - With "syncs needed", syncs that separate nothing are left out: line 19 of Algorithm 2
 *   unless bottoms come before tops, and its line 23 if nothing was written after line 15.
 *   With "adjsync needed", so is the sync of line 3 of Algorithm 1 before a bottom.
 *
 * Each call returns the next step of the current phase; at the end of a phase it moves on to
 * the next.
 */
#include "imr-state.h"

/* Phases common to both algorithms that handle saved tops.  Returns as imr_merged_step(). */
static int rewrite_step(struct imr *s, struct shingle_step *step)
{
	int r;

	switch (s->epoch.phase) {
	case PHASE_SYNC_1:	/* line 7 of Algorithm 1, line 6 of Algorithm 2 */
		s->epoch.rmw = true;
		if (!s->opt.unsafe_sync1)
			return imr_sync_step(step, IMR_SYNC_1, SHINGLE_SYNC_COMMIT);
		s->epoch.phase = PHASE_RMW;
		return 0;
	case PHASE_SYNC_2:	/* line 9, line 10 */
		if (!s->opt.unsafe_sync2)
			return imr_sync_step(step, IMR_SYNC_2, SHINGLE_SYNC_FLUSH);
		s->epoch.phase = PHASE_RESTORE;
		return 0;
	case PHASE_RESTORE:	/* lines 10 to 11, lines 11 to 14 */
		r = imr_restore_step(s, step);
		if (!r)
			s->epoch.phase = PHASE_SYNC_3;
		return r;
	default:
		return 0;
	}
}

/* ------------------------------------------------------------------------
 * Algorithm 1
 */

/* A1.2: may a track beside this one still be only in the drive's cache? */
static bool beside_unsynced(const struct imr *s, u32 phys)
{
	u32 i;

	if (s->opt.adjsync_needed && !imr_is_top(phys))
		return false;
	for (i = 0; i < s->epoch.nr; i++) {
		const struct imr_item *it = &s->epoch.track_list[i];

		if (it->unsynced && (it->dst + 1 == phys || phys + 1 == it->dst))
			return true;
	}
	return false;
}

/* A1.4 to A1.6. */
static int naive_backup(struct imr *s, struct shingle_step *step, const struct imr_item *it)
{
	u32 top, need = imr_rewrites(s, it->dst, &top);

	if (need > imr_free_slots(s))
		return -EAGAIN;
	return need ? imr_save_step(s, step, top) : 0;
}

/**
 * imr_naive_step() - the next step of Algorithm 1
 * @s: the engine, in an epoch that is planned
 * @step: result
 *
 * Context: under the map lock.
 * Return: as imr_merged_step().
 */
int imr_naive_step(struct imr *s, struct shingle_step *step)
{
	struct imr_epoch *ep = &s->epoch;
	struct imr_item *it = &ep->track_list[ep->at];
	int r;

	switch (ep->phase) {
	case PHASE_ADJACENT:	/* A1.1 to 3 */
		if (ep->at == ep->nr) {
			ep->phase = PHASE_LAST;
			return 0;
		}
		if (beside_unsynced(s, it->dst) &&
		    !(s->opt.unsafe_sync4 && imr_is_top(it->dst)))
			return imr_sync_step(step, IMR_SYNC_ADJACENT, SHINGLE_SYNC_FLUSH);
		ep->phase = PHASE_BACKUP;
		return 0;
	case PHASE_BACKUP:	/* A1.4 to 6 */
		r = naive_backup(s, step, it);
		if (r)
			return r;
		ep->drain = NO_OWNER;
		it->rmw = s->backup.nr_saved;
		ep->phase = it->rmw ? PHASE_SYNC_1 : PHASE_RMW;
		return 0;
	case PHASE_RMW:		/* A1.8, A1.14 */
		if (!it->done)
			return imr_write_step(s, step, ep->at);
		ep->phase = it->rmw ? PHASE_SYNC_2 : PHASE_ADJACENT;
		ep->at += !it->rmw;
		return 0;
	case PHASE_SYNC_3:	/* A1.12 */
		return imr_sync_step(step, IMR_SYNC_3, SHINGLE_SYNC_FLUSH);
	default:
		return rewrite_step(s, step);
	}
}

/* ------------------------------------------------------------------------
 * Algorithm 2
 */

static bool beside_saved(const struct imr *s, u32 phys)
{
	u32 side, top;

	for (side = 0; side < 2; side++) {
		top = imr_adjacent_top(s, phys, side);
		if (top != IMR_NO_TRACK && imr_is_owned(s->owner[top]) &&
		    s->map[s->owner[top]].saved)
			return true;
	}
	return false;
}

/*
 * A2.2 to A2.5: save every top that a bottom of this round would destroy, while slots are
 * free.  Returns 1 and a step, 0 at the end, or -EAGAIN.
 */
static int merged_backup(struct imr *s, struct shingle_step *step)
{
	struct imr_epoch *ep = &s->epoch;
	u32 need, top;

	/* No top beside a passed item becomes valid before that item is written. */
	for (; ep->at < ep->nr; ep->at++) {
		struct imr_item *it = &ep->track_list[ep->at];

		if (it->done || imr_is_top(it->dst))
			continue;
		need = imr_rewrites(s, it->dst, &top);
		if (!need) {
			it->rmw = beside_saved(s, it->dst);
			continue;
		}
		if (need > imr_free_slots(s))
			return s->backup.nr_saved ? 0 : -EAGAIN;
		return imr_save_step(s, step, top);
	}
	return 0;
}

/* Must A2.2 to A2.15 run again? */
static bool more_rounds(const struct imr *s)
{
	u32 i;

	for (i = 0; i < s->epoch.nr; i++) {
		const struct imr_item *it = &s->epoch.track_list[i];

		if (!it->done && imr_rewrites(s, it->dst, NULL))
			return true;
	}
	return false;
}

/*
 * The next unwritten item on a bottom, or on a top if @top; with @rmw only items of this
 * round.
 */
static u32 unwritten(const struct imr *s, bool top, bool rmw)
{
	u32 i;

	for (i = 0; i < s->epoch.nr; i++) {
		const struct imr_item *it = &s->epoch.track_list[i];

		if (!it->done && imr_is_top(it->dst) == top && (!rmw || it->rmw))
			break;
	}
	return i;
}

/**
 * imr_merged_step() - the next step of Algorithm 2
 * @s: the engine, in an epoch that is planned
 * @step: result
 *
 * Context: under the map lock.
 * Return: 1 and a step; -EAGAIN; or 0 if the caller shall look at the next phase.
 */
int imr_merged_step(struct imr *s, struct shingle_step *step)
{
	struct imr_epoch *ep = &s->epoch;
	u32 i;
	int r;

	switch (ep->phase) {
	case PHASE_BACKUP:	/* A2.1 to 5 */
		r = merged_backup(s, step);
		if (r)
			return r;
		ep->drain = NO_OWNER;
		ep->phase = s->backup.nr_saved ? PHASE_SYNC_1 : PHASE_BOTTOMS;
		return 0;
	case PHASE_RMW:		/* A2.7 to 9 */
		i = unwritten(s, false, true);
		if (i < ep->nr)
			return imr_write_step(s, step, i);
		ep->phase = PHASE_SYNC_2;
		return 0;
	case PHASE_SYNC_3:	/* A2.15; if another round follows it needs the slots again */
		return imr_sync_step(step, IMR_SYNC_3, more_rounds(s) ? SHINGLE_SYNC_COMMIT :
									SHINGLE_SYNC_FLUSH);
	case PHASE_BOTTOMS:	/* A2.16 to 18 */
		i = unwritten(s, false, false);
		if (i < ep->nr)
			return imr_write_step(s, step, i);
		ep->phase = PHASE_SYNC_4;
		return 0;
	case PHASE_SYNC_4:	/* A2.19 */
		if (s->opt.syncs_literal || (ep->wrote_bottom && !s->opt.unsafe_sync4 &&
					     unwritten(s, true, false) < ep->nr))
			return imr_sync_step(step, IMR_SYNC_4, SHINGLE_SYNC_FLUSH);
		ep->phase = PHASE_TOPS;
		return 0;
	case PHASE_TOPS:	/* A2.20 to 22 */
		i = unwritten(s, true, false);
		if (i < ep->nr)
			return imr_write_step(s, step, i);
		ep->phase = PHASE_LAST;
		return 0;
	default:
		return rewrite_step(s, step);
	}
}

/* ------------------------------------------------------------------------
 * Both algorithms
 */

/**
 * imr_last_step() - A1.15, A2.23 and the map, in one commit
 * @s: the engine
 * @step: result
 *
 * Context: under the map lock.
 * Return: 1.
 */
int imr_last_step(struct imr *s, struct shingle_step *step)
{
	const struct imr_epoch *ep = &s->epoch;
	bool needed = ep->naive || s->opt.syncs_literal || ep->after_3 || !ep->rmw;

	return imr_sync_step(step, needed ? IMR_SYNC_5 : IMR_SYNC_MAP, SHINGLE_SYNC_COMMIT);
}

/**
 * imr_persist_synced() - a sync of an epoch is done
 * @s: the engine
 * @step: the step that synced
 * @changed: records were emitted after the previous commit
 *
 * Context: under the map lock.
 */
void imr_persist_synced(struct imr *s, const struct shingle_step *step, bool changed)
{
	struct imr_epoch *ep = &s->epoch;
	u64 *syncs = s->count.syncs;

	switch (ep->phase) {
	case PHASE_ADJACENT:
		ep->phase = PHASE_BACKUP;
		break;
	case PHASE_SYNC_1:
		syncs[IMR_SYNC_SAVED] += !s->opt.unsafe_record;
		ep->phase = PHASE_RMW;
		break;
	case PHASE_SYNC_2:
		ep->phase = PHASE_RESTORE;
		break;
	case PHASE_SYNC_3:
		syncs[IMR_SYNC_MAP] += step->sync == SHINGLE_SYNC_COMMIT;
		ep->after_3 = false;
		/* A1.1: continue with the next item. */
		ep->at += ep->naive;
		ep->phase = ep->naive ? PHASE_ADJACENT : PHASE_BACKUP;
		break;
	case PHASE_SYNC_4:
		ep->phase = PHASE_TOPS;
		break;
	case PHASE_LAST:
		s->count.epochs_rmw += ep->rmw;
		/* Writing the records is one more sync after that of the data. */
		syncs[IMR_SYNC_MAP] += step->cookie == IMR_SYNC_5 && changed;
		ep->phase = PHASE_END;
		break;
	default:
		break;
	}
}
