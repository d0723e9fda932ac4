/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of the engine of interlaced recording: logical tracks, physical ones and
 * backup slots, the open epoch, options and counters.  For the engine's own files.
 *
 * What a path of each read or write needs is here, inline.  Everything is protected by
 * the map lock, as engine.h says.
 */
#ifndef SHINGLE_IMR_STATE_H
#define SHINGLE_IMR_STATE_H

#include "imr-engine.h"
#include "policy.h"
#include "engine/records.h"
#include "engine/slotmap.h"

#define NO_SLOT		U32_MAX
#define NO_OWNER	U32_MAX

/* Entries in a checkpoint piece.  Tests take less. */
#ifndef PART_SLOTS
#define PART_TRACKS	500U
#define PART_SLOTS	1000U
#endif

#define MAX_INFLIGHT	U8_MAX
#define NR_LEVELS	16U
/* What else than a level struct imr_options::largest may be. */
#define LARGEST_AUTO	NR_LEVELS
#define LARGEST_MOST	(NR_LEVELS + 1)
#define MAX_BUFFER	1024U

/* Pieces of the state, in their order: imr_pieces[]. */
enum { IMR_TRACKS, IMR_SLOTS, IMR_PIECES };

/* struct shingle_step::kind */
enum { STEP_BACKUP, STEP_RESTORE, STEP_WRITE, STEP_SYNC };

/* Who says which level a track has, or which tier. */
enum imr_levels { LEVELS_MESSAGE, LEVELS_HINT, LEVELS_LBA, NR_LEVELS_FROM };

/* Where an epoch stands. */
enum imr_phase {
	PHASE_NONE,		/* there is none, or it is being put together */
	PHASE_REDO,		/* what an earlier one left behind comes first */
	PHASE_REDO_SYNC,
	PHASE_PLAN,
	PHASE_BACKUP,		/* merged, and then the rest of it in order */
	PHASE_SYNC_1,
	PHASE_RMW,
	PHASE_SYNC_2,
	PHASE_RESTORE,
	PHASE_SYNC_3,
	PHASE_BOTTOMS,
	PHASE_SYNC_4,
	PHASE_TOPS,
	PHASE_ADJACENT,		/* naive: of an item, as PHASE_BACKUP to PHASE_SYNC_3 */
	PHASE_LAST,
	PHASE_END,
};

/**
 * struct imr_track - a logical track
 * @phys: where it is, IMR_NO_TRACK if it was never written or forgotten
 * @valid: so many blocks from the first one on were written
 * @inflight: writes straight to it that have not ended
 * @level: of the LSM tree, by hint
 * @busy: part of the open epoch
 * @saved: its content is in a backup slot
 * @explicit: the level was said by a message or a hint, not supposed
 * @relocate: it could not be written where it is, and goes elsewhere if it can.  In memory
 *	only: after an activation it is tried there once more
 */
struct imr_track {
	u32 phys;
	u16 valid;
	u8 inflight;
	u8 level : 4;
	u8 busy : 1;
	u8 saved : 1;
	u8 explicit : 1;
	u8 relocate : 1;
};

/* What struct imr::owner says of a physical track that has none. */
#define OWNER_FREE	U32_MAX
#define OWNER_TAKEN	(U32_MAX - 1)
#define OWNER_END	(U32_MAX - 2)
#define OWNER_PENDING	0x80000000U
#define MAX_TRACKS	0x7ffffff0U

/* Physical tracks that wait for release(), linked through struct imr::owner. */
struct imr_pending {
	u64 seq;
	u32 head;
	u32 nr;
};

/**
 * struct imr_slot - a backup slot
 * @owner: logical track that is in it, or NO_OWNER
 * @pending: it was, until transaction @seq
 * @taken: it is being filled
 * @durable: that the owner is in it is durable
 * @failed: its last write did, and it is used when no other is free
 * @seq: the transaction that says so, or that it is not any more
 */
struct imr_slot {
	u64 seq;
	u32 owner;
	bool pending;
	bool taken;
	bool durable;
	bool failed;
};

/**
 * struct imr_backup - BackupRegion: where tops are while a bottom beside them is written
 * @nr: slots
 * @slot: each
 * @index: which of them holds which logical track, since reads ask
 * @nr_saved: slots that have an owner
 * @nr_failed: slots whose last write failed
 */
struct imr_backup {
	u32 nr;
	struct imr_slot *slot;
	struct shingle_slotmap index;
	u32 nr_saved;
	u32 nr_failed;
};

/**
 * struct imr_item - a logical track in the open epoch
 * @track: which
 * @first: first block to be written
 * @end: first block behind
 * @blocks: of them gathered
 * @dst: physical track, IMR_NO_TRACK before it is allocated
 * @fresh: it is not there yet
 * @rmw: its tops are saved: it is written with a rewrite of them
 * @overwritten: what is written over older blocks is done, what comes behind is not
 * @done: it is where it belongs
 * @unsynced: ... but perhaps only in the drive's cache
 * @failed: it could not be written there
 */
struct imr_item {
	u32 track;
	u32 first;
	u32 end;
	u32 blocks;
	u32 dst;
	bool fresh;
	bool rmw;
	bool overwritten;
	bool done;
	bool unsynced;
	bool failed;
};

/**
 * struct imr_epoch - the open epoch, and what the last one left to the next
 * @phase: enum imr_phase
 * @naive: it is by Algorithm 1
 * @track_list: the paper's TrackList
 * @sorted: as many items more, where they are put in order
 * @nr: items
 * @at: merged: the first item whose tops may have to be saved yet; naive: the one
 *	that Algorithm 1 is at
 * @quarantined: physical track that a new place could not be written to, kept until the
 *	next epoch has its places; or IMR_NO_TRACK
 * @drain: logical track that is about to be saved and takes no writes, or NO_OWNER
 * @uncertain: what was written may still be in the drive's cache
 * @rmw: tops were saved in this epoch
 * @after_3: something was written since the last sync
 * @changed: records were left since the last commit
 * @wrote_bottom: RMW-free bottoms were written
 */
struct imr_epoch {
	enum imr_phase phase;
	bool naive;
	struct imr_item *track_list;
	struct imr_item *sorted;
	u32 nr;
	u32 at;
	u32 quarantined;
	u32 drain;
	bool uncertain;
	bool rmw;
	bool after_3;
	bool changed;
	bool wrote_bottom;
};

/**
 * struct imr_options - what can be set, but how tracks are chosen, which is the policy's
 * @largest: the level that bottoms are for; or LARGEST_AUTO, the highest one; or
 *	LARGEST_MOST, the one with most tracks
 * @naive: epochs that begin from now on are by Algorithm 1, not 2
 * @adjsync_needed: no sync for an un-synced top beside a bottom
 * @syncs_literal: syncs that separate nothing, too
 * @move: overwritten tracks are put elsewhere
 * @levels: who says it: messages; hints of writes, too; or the address, of which
 *	the lower half is for bottoms
 * @by_level: tracks that are written in parts get the tier of their level, too
 * @buffer_tracks: of an epoch at most
 * @unsafe_record: feature: no record of what is saved
 * @unsafe_sync1: feature: no sync before bottoms
 * @unsafe_sync2: feature: no sync before restoring
 * @unsafe_sync4: feature: no sync between bottoms and tops
 * @unsafe_retire: feature: no record of what is restored
 * @unsafe_reuse: feature: freed tracks and slots are used again at once
 */
struct imr_options {
	u32 largest;
	bool naive;
	bool adjsync_needed;
	bool syncs_literal;
	bool move;
	enum imr_levels levels;
	bool by_level;
	u32 buffer_tracks;
	bool unsafe_record;
	bool unsafe_sync1;
	bool unsafe_sync2;
	bool unsafe_sync4;
	bool unsafe_retire;
	bool unsafe_reuse;
};

/**
 * struct imr_walk - sums over a part of the state
 * @changes: struct imr::changes when it began
 * @phys: so many physical tracks were seen
 * @nr_free: of them free
 * @pending: of them waiting for release()
 * @logical: so many logical tracks were seen
 * @nr_saved: of them in a backup slot
 * @live: of them mapped, by their level
 */
struct imr_walk {
	u64 changes;
	u32 phys;
	u32 nr_free;
	u32 pending;
	u32 logical;
	u32 nr_saved;
	u32 live[NR_LEVELS];
};

/**
 * struct imr_counts - what is counted
 * @syncs: by cause
 * @bottoms_allocated: bottoms given to logical tracks
 * @tops_allocated: tops given to logical tracks
 * @tier_misses: of both, those of the other tier
 * @bottoms_rmw: bottoms written with a rewrite of tops
 * @bottoms_rmw_free: bottoms written without
 * @tops_written: tops written by epochs
 * @backups: tops saved
 * @rewrites: tops restored
 * @replayed: tops restored after a power cut or an error, not among @rewrites
 * @epochs: epochs
 * @epochs_rmw: of these, with rewrites
 * @epoch_tracks: tracks in them
 * @partial_tracks: tracks persisted that are not whole
 * @partial_tops: put on tops since they were written in parts
 * @overwritten_tracks: mapped tracks written where they were
 * @moved_tracks: mapped tracks written elsewhere
 * @direct_blocks: blocks written straight to tops
 */
struct imr_counts {
	u64 syncs[IMR_NR_CAUSES];
	u64 bottoms_allocated;
	u64 tops_allocated;
	u64 tier_misses;
	u64 bottoms_rmw;
	u64 bottoms_rmw_free;
	u64 tops_written;
	u64 backups;
	u64 rewrites;
	u64 replayed;
	u64 epochs;
	u64 epochs_rmw;
	u64 epoch_tracks;
	u64 partial_tracks;
	u64 partial_tops;
	u64 overwritten_tracks;
	u64 moved_tracks;
	u64 direct_blocks;
};

/**
 * struct imr - the engine's state
 * @engine: what core sees
 * @layout: of the device, core's
 * @track_blocks: blocks of a track
 * @nr_logical: logical tracks
 * @nr_phys: physical tracks
 * @first_piece: index of the first piece of each kind
 * @tracks: which physical ones are free
 * @map: logical tracks: the paper's S2TMap, by address
 * @owner: of a physical track: logical track, OWNER_FREE, OWNER_TAKEN, or with
 *	OWNER_PENDING the next one in its list
 * @backup: tops that are saved
 * @pending: physical tracks that wait: [0] for an earlier transaction than [1]
 * @nr_pending: in both lists
 * @live: mapped tracks of each level
 * @opt: options
 * @epoch: what is written
 * @changes: counts what changes any of what verify() sums up
 * @walk: what verify() has summed up so far
 * @count: counters
 */
struct imr {
	struct shingle_engine engine;
	const struct shingle_layout *layout;
	u32 track_blocks;
	u32 nr_logical;
	u32 nr_phys;
	u32 first_piece[IMR_PIECES];

	struct imr_tracks tracks;
	struct imr_track *map;
	u32 *owner;
	struct imr_backup backup;
	struct imr_pending pending[2];
	u32 nr_pending;
	u32 live[NR_LEVELS];

	struct imr_options opt;
	struct imr_epoch epoch;
	u64 changes;
	struct imr_walk walk;
	struct imr_counts count;
};

static inline struct imr *to_imr(struct shingle_engine *e)
{
	return container_of(e, struct imr, engine);
}

static inline u64 imr_phys_pblk(const struct imr *s, u32 phys)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, phys);
}

static inline u64 imr_slot_pblk(const struct imr *s, u32 slot)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_STAGING, slot);
}

static inline bool imr_is_mapped(const struct imr *s, u32 track)
{
	return s->map[track].phys != IMR_NO_TRACK;
}

static inline bool imr_is_owned(u32 owner)
{
	return owner < OWNER_PENDING;
}

static inline u32 imr_slot_of(const struct imr *s, u32 track)
{
	BUILD_BUG_ON(NO_SLOT != SHINGLE_NO_SLOT);
	return shingle_slotmap_find(&s->backup.index, track);
}

/* Where the content of a mapped track is. */
static inline u64 imr_where(const struct imr *s, u32 track)
{
	if (s->map[track].saved)
		return imr_slot_pblk(s, imr_slot_of(s, track));
	return imr_phys_pblk(s, s->map[track].phys);
}

/* The top at one side, 0 or 1, of a bottom: IMR_NO_TRACK where the disk ends. */
static inline u32 imr_adjacent_top(const struct imr *s, u32 bottom, u32 side)
{
	if (side)
		return bottom + 1 < s->nr_phys ? bottom + 1 : IMR_NO_TRACK;
	return bottom ? bottom - 1 : IMR_NO_TRACK;
}

/* What a checkpoint says of a logical track has changed. */
static inline void imr_mark_track(struct imr *s, u32 track)
{
	shingle_mark(&s->engine, s->first_piece[IMR_TRACKS] + track / PART_TRACKS, 1);
}

/* The same of a backup slot. */
static inline void imr_mark_slot(struct imr *s, u32 slot)
{
	shingle_mark(&s->engine, s->first_piece[IMR_SLOTS] + slot / PART_SLOTS, 1);
}

/**
 * imr_set_level() - somebody says which level a track has
 * @s: the engine
 * @track: logical track
 * @level: of the LSM tree
 *
 * Context: under the map lock.
 */
static inline void imr_set_level(struct imr *s, u32 track, u32 level)
{
	struct imr_track *t = &s->map[track];

	s->changes++;
	if (imr_is_mapped(s, track)) {
		s->live[t->level]--;
		s->live[level]++;
		imr_mark_track(s, track);
	}
	t->level = level;
	t->explicit = true;
}

/* imr-state.c */
u32 imr_free_slots(const struct imr *s);
u32 imr_free_slot(const struct imr *s);
void imr_set_failed(struct imr *s, u32 slot, bool failed);
void imr_enter_slot(struct imr *s, u32 slot, u32 track, u64 seq);
void imr_leave_slot(struct imr *s, u32 slot, u64 seq);
bool imr_exposed(const struct imr *s, u32 phys);
u32 imr_rewrites(const struct imr *s, u32 bottom, u32 *top);
bool imr_take_track(struct imr *s, bool bottom, u32 *phys, bool *miss);
void imr_give_track(struct imr *s, u32 phys);
void imr_map_track(struct imr *s, u32 track, u32 phys, u32 valid, struct shingle_emit *emit);
void imr_unmap_track(struct imr *s, u32 track, u64 seq);
bool imr_release(struct shingle_engine *e, u64 seq);
bool imr_pending(struct shingle_engine *e);
bool imr_referenced(struct shingle_engine *e, enum shingle_role role, u64 band, u64 offset, u64 n);
u64 imr_cached_blocks(struct shingle_engine *e);

/* imr-options.c */
extern const struct shingle_option imr_options[];
extern const struct shingle_option imr_format_options[];
extern const struct shingle_counter imr_counters[];
u32 imr_initial_buffer(const void *of);

/* imr-tiers.c */

/**
 * struct imr_tiers - who gets bottoms, while an epoch's tracks are allocated
 * @largest: the level and those beyond it, unless it is LARGEST_MOST
 * @tracks: of each level that have a place
 */
struct imr_tiers {
	u32 largest;
	u32 tracks[NR_LEVELS];
};

void imr_tiers_begin(const struct imr *s, struct imr_tiers *t);
bool imr_partial_to_top(const struct imr *s, const struct imr_item *it);
bool imr_wants_bottom(const struct imr *s, const struct imr_item *it, const struct imr_tiers *t);
int imr_message(struct shingle_engine *e, unsigned int argc, char **argv, u64 *done,
		struct shingle_emit *emit, const char **why);

/* imr-steps.c */
int imr_sync_step(struct shingle_step *step, enum imr_cause cause, enum shingle_sync sync);
int imr_save_step(struct imr *s, struct shingle_step *step, u32 top);
int imr_restore_step(struct imr *s, struct shingle_step *step);
int imr_write_step(struct imr *s, struct shingle_step *step, u32 i);
bool imr_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
		     struct shingle_run *out);
void imr_copied(struct imr *s, const struct shingle_step *step, struct shingle_emit *emit);
bool imr_step_failed(struct shingle_engine *e, const struct shingle_step *step,
		     const struct shingle_unwritten *bad);

/* imr-persist.c */
int imr_naive_step(struct imr *s, struct shingle_step *step);
int imr_merged_step(struct imr *s, struct shingle_step *step);
int imr_last_step(struct imr *s, struct shingle_step *step);
void imr_persist_synced(struct imr *s, const struct shingle_step *step, bool changed);

/* imr-epoch.c */
int imr_epoch_add(struct shingle_engine *e, u64 lblk, u32 n);
void imr_epoch_end(struct shingle_engine *e);
int imr_next_step(struct shingle_engine *e, enum shingle_why why, struct shingle_step *step);
void imr_step_done(struct shingle_engine *e, const struct shingle_step *step,
		   struct shingle_emit *emit);

/* imr-format.c */
extern const struct shingle_piece_kind imr_pieces[];
extern const struct shingle_record_kind imr_records[];
int imr_replay(struct shingle_engine *e, const struct shingle_record *rec);
int imr_ready(struct shingle_engine *e, const char **why);

/* imr-verify.c */
u32 imr_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx);

#endif /* SHINGLE_IMR_STATE_H */
