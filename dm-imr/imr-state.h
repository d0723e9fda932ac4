/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of the engine for interlaced recording: logical tracks, physical tracks, backup
 * slots, the open epoch, options and counters.  Only the engine's own files include this.
 *
 * Functions on the path of each read or write are inline here.  The map lock protects
 * everything; see engine.h.
 */
#ifndef SHINGLE_IMR_STATE_H
#define SHINGLE_IMR_STATE_H

#include "imr-engine.h"
#include "policy.h"
#include "engine/records.h"
#include "engine/slotmap.h"

#define NO_SLOT		U32_MAX
#define NO_OWNER	U32_MAX

/* Entries in a checkpoint piece.  Tests define smaller values. */
#ifndef PART_SLOTS
#define PART_TRACKS	500U
#define PART_SLOTS	1000U
#endif

#define MAX_INFLIGHT	U8_MAX
#define NR_LEVELS	16U
/* Values of struct imr_options::largest besides a level. */
#define LARGEST_AUTO	NR_LEVELS
#define LARGEST_MOST	(NR_LEVELS + 1)
#define MAX_BUFFER	1024U

/* Kinds of checkpoint pieces, in the order of imr_pieces[]. */
enum { IMR_TRACKS, IMR_SLOTS, IMR_PIECES };

/* struct shingle_step::kind */
enum { STEP_BACKUP, STEP_RESTORE, STEP_WRITE, STEP_SYNC };

/*
 * The source of a track's level, the level of the log-structured merge (LSM) tree that writes it.
 * The engine derives the track's tier from it: bottoms or tops (imr-tiers.c).
 */
enum imr_levels { LEVELS_MESSAGE, LEVELS_HINT, LEVELS_LBA, NR_LEVELS_FROM };

/* The phase of an epoch. */
enum imr_phase {
	PHASE_NONE,		/* no epoch, or one that still gathers writes */
	PHASE_REDO,		/* restore tops that an earlier epoch left in slots */
	PHASE_REDO_SYNC,
	PHASE_PLAN,
	PHASE_BACKUP,		/* merged: from here on in the order of the enum */
	PHASE_SYNC_1,
	PHASE_RMW,
	PHASE_SYNC_2,
	PHASE_RESTORE,
	PHASE_SYNC_3,
	PHASE_BOTTOMS,
	PHASE_SYNC_4,
	PHASE_TOPS,
	PHASE_ADJACENT,		/* naive: for each item, before PHASE_BACKUP to PHASE_SYNC_3 */
	PHASE_LAST,
	PHASE_END,
};

/**
 * struct imr_track - a logical track
 * @phys: its physical track; IMR_NO_TRACK if it was never written, or was discarded
 * @valid: blocks that were written, counted from the first block
 * @inflight: direct writes to it that are in flight
 * @level: level of the LSM tree, from a hint or a message
 * @busy: part of the open epoch
 * @saved: its content is in a backup slot
 * @explicit: a message or a hint set the level; otherwise it is a default
 * @relocate: a write in place failed; the next epoch puts the track elsewhere if it can.
 *	In memory only: after an activation the engine tries to write in place once more
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

/* Values of struct imr::owner for a physical track without a logical track. */
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
 * @seq: the transaction that records the owner, or that records its leaving
 * @owner: the logical track in the slot, or NO_OWNER
 * @pending: the slot held a track that recovery would still look up until transaction @seq
 *	is durable
 * @taken: a step is filling the slot
 * @durable: the record of the owner is durable
 * @failed: the last write to the slot failed; it is used only when no other slot is free
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
 * struct imr_backup - the paper's BackupRegion: it holds tops while a bottom beside them is
 * written
 * @nr: number of slots
 * @slot: the slots
 * @index: finds the slot of a logical track, for reads
 * @nr_saved: slots with an owner
 * @nr_failed: slots that failed their last write
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
 * @track: the logical track
 * @first: first block to write
 * @end: one past the last block to write
 * @blocks: gathered blocks between @first and @end
 * @dst: physical track; IMR_NO_TRACK until one is allocated
 * @fresh: the logical track is not at @dst yet
 * @rmw: its tops are saved, so it is written in the phase that rewrites tops
 * @overwritten: the blocks that replace older ones are written, those behind the old end
 *	are not
 * @done: all blocks are written to @dst
 * @unsynced: written, but perhaps only to the drive's cache
 * @failed: a write to @dst failed
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
 * @naive: Algorithm 1 of KVIMR (imr-persist.c) persists this epoch; otherwise Algorithm 2
 * @track_list: the paper's TrackList
 * @sorted: a second array of the same size, used to sort @track_list
 * @nr: number of items
 * @at: merged: the first item that may still have tops to save; naive: the item that
 *	Algorithm 1 works on
 * @quarantined: a physical track that failed a write, withheld until the next epoch has
 *	allocated its tracks; or IMR_NO_TRACK
 * @drain: a logical track that will be saved next and takes no direct writes; or NO_OWNER
 * @uncertain: a step has failed, or an epoch did not end, since the last sync: its writes may
 *	still be in the drive's cache
 * @rmw: this epoch saved tops
 * @after_3: something was written after IMR_SYNC_3, so the epoch must end with another sync
 * @changed: records were emitted after the last commit
 * @wrote_bottom: bottoms that need no rewrite were written
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
 * struct imr_options - options, except those of track allocation (policy.h)
 * @largest: the level that gets bottoms; or LARGEST_AUTO, the highest level in use; or
 *	LARGEST_MOST, the level with most tracks
 * @naive: new epochs use Algorithm 1 instead of Algorithm 2
 * @adjsync_needed: naive: leave out the sync between an unsynced top and a bottom beside it
 * @syncs_literal: also issue the syncs of the paper that separate nothing
 * @move: write overwritten tracks elsewhere instead of in place
 * @levels: source of a track's level: messages; messages and hints of writes; or the
 *	address, where the lower half of the disk is for bottoms
 * @by_level: partly written tracks also get the tier of their level
 * @buffer_tracks: most tracks in an epoch
 * @unsafe_record: feature: emit no record of a saved top
 * @unsafe_sync1: feature: no sync before bottoms are written
 * @unsafe_sync2: feature: no sync before tops are restored
 * @unsafe_sync4: feature: no sync between bottoms and tops
 * @unsafe_retire: feature: emit no record of a restored top
 * @unsafe_reuse: feature: reuse freed tracks and slots at once
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
 * struct imr_walk - sums that verify() collects over several calls
 * @changes: struct imr::changes when the walk began
 * @phys: physical tracks visited
 * @nr_free: free ones among them
 * @pending: those among them that wait for release()
 * @logical: logical tracks visited
 * @nr_saved: those among them that are in a backup slot
 * @live: mapped tracks among them, by level
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
 * struct imr_counts - counters
 * @syncs: syncs, by cause
 * @bottoms_allocated: bottoms given to logical tracks
 * @tops_allocated: tops given to logical tracks
 * @tier_misses: allocations that had to take the other tier
 * @bottoms_rmw: bottoms written with a rewrite of tops
 * @bottoms_rmw_free: bottoms written without a rewrite
 * @tops_written: tops written by epochs
 * @backups: tops saved
 * @rewrites: tops restored
 * @replayed: tops restored after a power cut or an error, not counted in @rewrites
 * @epochs: epochs
 * @epochs_rmw: epochs with rewrites
 * @epoch_tracks: tracks in all epochs
 * @partial_tracks: partly filled tracks that epochs persisted
 * @partial_tops: tracks put on a top because they were partly written
 * @overwritten_tracks: mapped tracks written in place
 * @moved_tracks: mapped tracks written elsewhere
 * @direct_blocks: blocks written directly to tops
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
 * @engine: the part that core sees
 * @layout: layout of the device, owned by core
 * @track_blocks: blocks per track
 * @nr_logical: logical tracks
 * @nr_phys: physical tracks
 * @first_piece: index of the first checkpoint piece of each kind
 * @tracks: the free physical tracks
 * @map: the logical tracks; the paper's S2TMap, indexed by address
 * @owner: for each physical track its logical track, OWNER_FREE, OWNER_TAKEN, or
 *	OWNER_PENDING with the next track of its list
 * @backup: the saved tops
 * @pending: physical tracks that wait for release(); [0] waits for an earlier transaction
 *	than [1]
 * @nr_pending: tracks in both lists
 * @live: mapped tracks of each level
 * @opt: options
 * @epoch: the open epoch
 * @changes: incremented by every change to something that verify() sums up
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

/* The block where the content of a mapped track begins. */
static inline u64 imr_where(const struct imr *s, u32 track)
{
	if (s->map[track].saved)
		return imr_slot_pblk(s, imr_slot_of(s, track));
	return imr_phys_pblk(s, s->map[track].phys);
}

/* The top on one side of a bottom: side 0 is the lower track, 1 the higher; or IMR_NO_TRACK. */
static inline u32 imr_adjacent_top(const struct imr *s, u32 bottom, u32 side)
{
	if (side)
		return bottom + 1 < s->nr_phys ? bottom + 1 : IMR_NO_TRACK;
	return bottom ? bottom - 1 : IMR_NO_TRACK;
}

/* The checkpoint piece of a logical track has changed. */
static inline void imr_mark_track(struct imr *s, u32 track)
{
	shingle_mark(&s->engine, s->first_piece[IMR_TRACKS] + track / PART_TRACKS, 1);
}

/* The checkpoint piece of a backup slot has changed. */
static inline void imr_mark_slot(struct imr *s, u32 slot)
{
	shingle_mark(&s->engine, s->first_piece[IMR_SLOTS] + slot / PART_SLOTS, 1);
}

/**
 * imr_set_level() - set the level of a track explicitly
 * @s: the engine
 * @track: logical track
 * @level: level of the LSM tree
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
 * struct imr_tiers - decides which tracks get bottoms while an epoch allocates its tracks
 * @largest: this level and higher ones get bottoms; or LARGEST_MOST
 * @tracks: tracks of each level that have a place
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
