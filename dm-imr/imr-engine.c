// SPDX-License-Identifier: GPL-2.0
/*
 * Interlaced magnetic recording: pure code, see engine.h.
 *
 * Tracks are bottom, top, bottom, ...  A write to a bottom destroys what is on
 * the tops at both sides, so that these must be saved and written again: a
 * rewrite.  Logical tracks are put on physical ones when they are first written,
 * by one of the policies in policy.c.  Writes are gathered, and an epoch of them
 * is persisted at a time, by one of two orders:
 *
 *   naive    track after track, each with a rewrite of its own: Algorithm 1
 *   merged   all rewrites in one, bottoms before tops: Algorithm 2
 *
 * Saving a top is a change of the map: a record says that the content is in the
 * backup slot, and that is durable before the bottom is written.  So rule R0
 * holds as for any other layer, reads find the slot, and after a power cut there is
 * nothing to compare or to guess: what the map says is in a slot is written back.
 * Neither a checksum nor a generation is needed, since records are only durable
 * after the data that they are about, and a slot is not used again before the
 * record that it was restored is.
 *
 * Bottoms are only written by steps, one after the other, and with a flush
 * between a bottom and a top beside it: the drive orders nothing that is not
 * flushed.  A write to a top that is mapped goes straight there.
 *
 * Spec: kvimr.md 1 to 5, 8 to 11.
 */
#include "imr-engine.h"
#include "policy.h"
#include "slotmap.h"

#define NO_SLOT		U32_MAX
#define NO_OWNER	U32_MAX

/* Entries in a checkpoint piece.  Tests take less. */
#ifndef PART_SLOTS
#define PART_TRACKS	500U
#define PART_SLOTS	1000U
#endif

/* Tracks one discard call walks over, to bound the time under the map lock. */
#define DISCARD_TRACKS	1024U
/* And one message, which only sets a level; and how many of them in one go. */
#define LEVEL_TRACKS	65536U
#define LEVEL_AT_ONCE	8192U

#define MAX_INFLIGHT	U8_MAX
#define NR_LEVELS	16U
/* What else than a level imr::largest may be. */
#define LARGEST_AUTO	NR_LEVELS
#define LARGEST_MOST	(NR_LEVELS + 1)
#define DEFAULT_BUFFER	64U
#define MAX_BUFFER	1024U
/* What the buffer may hold: 1 GiB. */
#define MAX_BUFFER_BLOCKS	(1U << 18)

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
	PHASE_ADJACENT,		/* naive: of imr::at, as PHASE_BACKUP to IMR_SYNC_3 */
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

/* Physical tracks that wait for release(), linked through imr::owner. */
struct imr_pending {
	u64 seq;
	u32 head;
	u32 nr;
};

/* What imr::owner says of a physical track that has none. */
#define OWNER_FREE	U32_MAX
#define OWNER_TAKEN	(U32_MAX - 1)
#define OWNER_END	(U32_MAX - 2)
#define OWNER_PENDING	0x80000000U
#define MAX_TRACKS	0x7ffffff0U

/**
 * struct imr_walk - sums over a part of the state
 * @changes: imr::changes when it began
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

static struct imr *to_imr(struct shingle_engine *e)
{
	return container_of(e, struct imr, engine);
}

static u64 phys_pblk(const struct imr *s, u32 phys)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_DATA, phys);
}

static u64 slot_pblk(const struct imr *s, u32 slot)
{
	return shingle_band_pblk(s->layout, SHINGLE_ROLE_STAGING, slot);
}

static bool is_mapped(const struct imr *s, u32 track)
{
	return s->map[track].phys != IMR_NO_TRACK;
}

/* ------------------------------------------------------------------------
 * Pieces of the state, in their order: tracks, slots
 */

static u32 nr_map_parts(const struct imr *s)
{
	return DIV_ROUND_UP(s->nr_logical, PART_TRACKS);
}

static void mark_track(struct imr *s, u32 track)
{
	shingle_mark(&s->engine, track / PART_TRACKS, 1);
}

static void mark_slot(struct imr *s, u32 slot)
{
	shingle_mark(&s->engine, nr_map_parts(s) + slot / PART_SLOTS, 1);
}

/* ------------------------------------------------------------------------
 * Slots
 */

static u32 slot_of(const struct imr *s, u32 track)
{
	BUILD_BUG_ON(NO_SLOT != SHINGLE_NO_SLOT);
	return shingle_slotmap_find(&s->backup.index, track);
}

static bool slot_is_free(const struct imr_slot *b)
{
	return b->owner == NO_OWNER && !b->pending && !b->taken;
}

/* A bottom between two tops needs two: only then can those that failed be left alone. */
static u32 free_slots(const struct imr *s)
{
	bool spared = s->backup.nr - s->backup.nr_failed >= 2;
	u32 i, nr = 0;

	for (i = 0; i < s->backup.nr; i++)
		nr += slot_is_free(&s->backup.slot[i]) && !(spared && s->backup.slot[i].failed);
	return nr;
}

static u32 free_slot(const struct imr *s)
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

static void set_failed(struct imr *s, u32 slot, bool failed)
{
	struct imr_slot *b = &s->backup.slot[slot];

	s->backup.nr_failed += failed - b->failed;
	b->failed = failed;
}

/* Nothing needs the slot any more once @seq is durable. */
static void leave_slot(struct imr *s, u32 slot, u64 seq)
{
	struct imr_slot *b = &s->backup.slot[slot];

	s->map[b->owner].saved = false;
	shingle_slotmap_remove(&s->backup.index, slot, 1);
	b->owner = NO_OWNER;
	mark_slot(s, slot);
	b->pending = !s->opt.unsafe_reuse;
	b->durable = false;
	b->seq = seq;
	s->backup.nr_saved--;
}

/* Where the content of a mapped track is. */
static u64 where(const struct imr *s, u32 track)
{
	if (s->map[track].saved)
		return slot_pblk(s, slot_of(s, track));
	return phys_pblk(s, s->map[track].phys);
}

/* ------------------------------------------------------------------------
 * Tracks
 */

static bool is_owned(u32 owner)
{
	return owner < OWNER_PENDING;
}

/* Is there anything on a top that the current map or recovery would need? */
static bool exposed(const struct imr *s, u32 phys)
{
	u32 owner = s->owner[phys];

	if (is_owned(owner))
		return !s->map[owner].saved || !s->backup.slot[slot_of(s, owner)].durable;
	return owner != OWNER_FREE && owner != OWNER_TAKEN;
}

static void free_phys(struct imr *s, u32 phys, u64 seq)
{
	struct imr_pending *p = &s->pending[1];

	if (s->opt.unsafe_reuse) {
		s->owner[phys] = OWNER_FREE;
		imr_track_give(&s->tracks, phys);
		return;
	}
	s->owner[phys] = OWNER_PENDING | (p->nr ? p->head : OWNER_END);
	p->head = phys;
	p->nr++;
	p->seq = seq;
	s->nr_pending++;
}

/* Give up to *@most tracks back. */
static void release_list(struct imr *s, struct imr_pending *p, u32 *most)
{
	u32 next;

	for (; p->nr && *most; p->nr--, (*most)--) {
		next = s->owner[p->head];
		s->owner[p->head] = OWNER_FREE;
		imr_track_give(&s->tracks, p->head);
		p->head = next & ~OWNER_PENDING;
		s->nr_pending--;
	}
}

static void set_level(struct imr *s, u32 track, u32 level)
{
	struct imr_track *t = &s->map[track];

	s->changes++;
	if (is_mapped(s, track)) {
		s->live[t->level]--;
		s->live[level]++;
		mark_track(s, track);
	}
	t->level = level;
	t->explicit = true;
}

static void map_track(struct imr *s, u32 track, u32 phys, u32 valid, struct shingle_emit *emit)
{
	struct imr_track *t = &s->map[track];

	if (t->phys != phys) {
		if (t->saved)
			leave_slot(s, slot_of(s, track), emit->seq);
		if (t->phys != IMR_NO_TRACK)
			free_phys(s, t->phys, emit->seq);
		else
			s->live[t->level]++;
		t->phys = phys;
		t->relocate = false;
		s->owner[phys] = track;
	}
	t->valid = valid;
	mark_track(s, track);
	s->epoch.changed = true;
	shingle_emit(emit, IMR_MAP, valid, t->level, track, phys);
}

static void unmap_track(struct imr *s, u32 track, u64 seq)
{
	struct imr_track *t = &s->map[track];

	if (t->saved)
		leave_slot(s, slot_of(s, track), seq);
	free_phys(s, t->phys, seq);
	s->live[t->level]--;
	t->phys = IMR_NO_TRACK;
	t->valid = 0;
	mark_track(s, track);
	t->relocate = false;
}

/* ------------------------------------------------------------------------
 * Construction
 */

static u32 spare_of(const struct shingle_layout *l)
{
	const struct imr_params *p = (const void *)l->params;

	BUILD_BUG_ON(sizeof(*p) > SHINGLE_ENGINE_PARAMS_SIZE);
	return le32_to_cpu(p->spare_tracks);
}

static const char *unfit(const struct shingle_layout *l)
{
	u64 tracks = l->nr_bands[SHINGLE_ROLE_DATA];

	if (tracks >= MAX_TRACKS)
		return "imr has at most 2^31 - 16 tracks";
	if (l->band_blocks > U16_MAX)
		return "imr has tracks of at most 65535 blocks";
	if (l->nr_bands[SHINGLE_ROLE_CACHE])
		return "imr has no cache bands";
	if (l->nr_bands[SHINGLE_ROLE_STAGING] < 2)
		return "imr needs at least 2 backup tracks";
	if (l->nr_bands[SHINGLE_ROLE_STAGING] > 2 * MAX_BUFFER)
		return "imr needs at most 2048 backup tracks";
	if (spare_of(l) >= tracks)
		return "imr must have more tracks than it keeps spare";
	return NULL;
}

static u64 imr_logical_blocks(const struct shingle_layout *l)
{
	if (unfit(l))
		return 0;
	return (l->nr_bands[SHINGLE_ROLE_DATA] - spare_of(l)) * l->band_blocks;
}

static void imr_destroy(struct shingle_engine *e)
{
	struct imr *s = to_imr(e);

	imr_tracks_exit(&s->tracks);
	shingle_slotmap_exit(&s->backup.index);
	kvfree(s->map);
	kvfree(s->owner);
	kvfree(s->backup.slot);
	kvfree(s->epoch.track_list);
	kvfree(s->epoch.sorted);
	shingle_marks_exit(e);
	kvfree(s);
}

static u64 imr_max_chunks(const struct shingle_layout *l)
{
	return div64_u64(l->nr_bands[SHINGLE_ROLE_DATA] + PART_TRACKS - 1, PART_TRACKS) +
	       div64_u64(l->nr_bands[SHINGLE_ROLE_STAGING] + PART_SLOTS - 1, PART_SLOTS);
}

static bool allocate(struct imr *s)
{
	s->map = shingle_zalloc_array(s->nr_logical, sizeof(*s->map));
	s->owner = shingle_zalloc_array(s->nr_phys, sizeof(*s->owner));
	s->backup.slot = shingle_zalloc_array(s->backup.nr, sizeof(*s->backup.slot));
	s->epoch.track_list = shingle_zalloc_array(MAX_BUFFER, sizeof(*s->epoch.track_list));
	s->epoch.sorted = shingle_zalloc_array(MAX_BUFFER, sizeof(*s->epoch.sorted));
	return !imr_tracks_init(&s->tracks, s->nr_phys) &&
	       !shingle_slotmap_init(&s->backup.index, s->backup.nr) && s->map && s->owner &&
	       s->backup.slot && s->epoch.track_list && s->epoch.sorted &&
	       !shingle_marks_init(&s->engine, imr_max_chunks(s->layout));
}

static u32 initial_buffer(const void *of)
{
	const struct imr *s = of;

	return clamp(MAX_BUFFER_BLOCKS / s->track_blocks, 1U, DEFAULT_BUFFER);
}

static int set_buffer(void *of, u32 tracks, const char **why)
{
	struct imr *s = of;

	if ((u64)tracks * s->track_blocks > MAX_BUFFER_BLOCKS)
		return -ERANGE;
	s->engine.buffer_blocks = tracks * s->track_blocks;
	return 0;
}

static int set_levels(void *of, u32 levels, const char **why)
{
	const struct imr *s = of;

	if (levels != LEVELS_HINT || s->engine.knows_life)
		return 0;
	*why = "level hint needs a kernel whose writes carry lifetime hints (Linux 6.9)";
	return -EOPNOTSUPP;
}

#define OPTION(member)	SHINGLE_OPTION_AT(struct imr, member)
#define UNSAFE(word, member, what)						\
	{ .name = word, .kind = SHINGLE_OPTION_FEATURE, .when = SHINGLE_OPTION_TABLE,	\
	  OPTION(member), .help = "for tests, without " what }

/* Words in the order of enum imr_policy, enum imr_levels, LARGEST_AUTO and LARGEST_MOST. */
static const struct shingle_option imr_options[] = {
	{ .name = "policy", .kind = SHINGLE_OPTION_WORD, OPTION(tracks.policy),
	  .initial = IMR_COMPACTION,
	  .words = SHINGLE_OPTION_WORDS("seq", "3phase", "zigzag", "compaction"),
	  .range = "policy must be seq, 3phase, zigzag or compaction",
	  .help = "which physical track a logical one gets" },
	{ .name = "start", .kind = SHINGLE_OPTION_WORD, OPTION(tracks.first),
	  .words = SHINGLE_OPTION_WORDS("next", "first"),
	  .range = "start must be first or next",
	  .help = "where seq and zigzag look for a free track" },
	{ .name = "rmw", .kind = SHINGLE_OPTION_WORD, OPTION(opt.naive),
	  .words = SHINGLE_OPTION_WORDS("merged", "naive"),
	  .range = "rmw must be naive or merged",
	  .help = "one rewrite for all bottoms of an epoch, or one for each" },
	{ .name = "adjsync", .kind = SHINGLE_OPTION_WORD, OPTION(opt.adjsync_needed),
	  .words = SHINGLE_OPTION_WORDS("literal", "needed"),
	  .range = "adjsync must be literal or needed",
	  .help = "of naive: a sync before a bottom beside what is not synced" },
	{ .name = "syncs", .kind = SHINGLE_OPTION_WORD, OPTION(opt.syncs_literal),
	  .words = SHINGLE_OPTION_WORDS("needed", "literal"),
	  .range = "syncs must be literal or needed",
	  .help = "of merged: syncs that separate nothing, too, or not" },
	{ .name = "overwrite", .kind = SHINGLE_OPTION_WORD, OPTION(opt.move),
	  .words = SHINGLE_OPTION_WORDS("inplace", "move"),
	  .range = "overwrite must be inplace or move",
	  .help = "mapped tracks are written where they are, or elsewhere" },
	{ .name = "level", .kind = SHINGLE_OPTION_WORD, OPTION(opt.levels), .set = set_levels,
	  .words = SHINGLE_OPTION_WORDS("message", "hint", "lba"),
	  .range = "level must be message, hint or lba",
	  .help = "who says which level a track has" },
	{ .name = "partial", .kind = SHINGLE_OPTION_WORD, OPTION(opt.by_level),
	  .words = SHINGLE_OPTION_WORDS("top", "level"),
	  .range = "partial must be top or level",
	  .help = "where tracks go that are written in parts" },
	{ .name = "largest", .kind = SHINGLE_OPTION_NUMBER, OPTION(opt.largest),
	  .max = NR_LEVELS - 1, .words = SHINGLE_OPTION_WORDS("auto", "most"),
	  .initial = LARGEST_AUTO,
	  .range = "largest must be a level from 0 to 15, auto or most",
	  .help = "the level that bottoms are for, with those beyond it" },
	{ .name = "buffer_tracks", .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_TABLE,
	  OPTION(opt.buffer_tracks), .min = 1, .max = MAX_BUFFER,
	  .find_initial = initial_buffer, .set = set_buffer,
	  .range = "buffer_tracks must be from 1 to 1024, and at most 1 GiB",
	  .busy = "buffer_tracks can only be set by a table, not while the device is in use",
	  .help = "tracks of an epoch at most, and the size of the buffer" },
	UNSAFE("unsafe_record", opt.unsafe_record, "records of saved tops"),
	UNSAFE("unsafe_sync1", opt.unsafe_sync1, "the sync before bottoms"),
	UNSAFE("unsafe_sync2", opt.unsafe_sync2, "the sync before restoring"),
	UNSAFE("unsafe_sync4", opt.unsafe_sync4, "the sync between bottoms and tops"),
	UNSAFE("unsafe_retire", opt.unsafe_retire, "records of restored tops"),
	UNSAFE("unsafe_reuse", opt.unsafe_reuse, "waiting before freed tracks are used again"),
	UNSAFE("unsafe_order", engine.unsafe_order, "the flush of data before their records"),
	{ }
};

static int imr_create(struct shingle_engine **out, const struct shingle_layout *layout,
		      const char **why)
{
	struct imr *s;
	u32 i;

	*why = unfit(layout);
	if (!*why && layout->logical_blocks != imr_logical_blocks(layout))
		*why = "imr presents all its tracks but the spare ones";
	if (*why)
		return -EINVAL;
	*why = "out of memory";
	s = shingle_zalloc_array(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->engine.ops = &imr_engine_ops;
	s->layout = layout;
	s->track_blocks = layout->band_blocks;
	s->nr_phys = layout->nr_bands[SHINGLE_ROLE_DATA];
	s->nr_logical = s->nr_phys - spare_of(layout);
	s->backup.nr = layout->nr_bands[SHINGLE_ROLE_STAGING];
	s->engine.discard_blocks = s->track_blocks;
	s->engine.gather_blocks = s->track_blocks;
	s->engine.cache_blocks = (u64)s->backup.nr * s->track_blocks;
	s->engine.buffer_blocks = initial_buffer(s) * s->track_blocks;
	s->epoch.quarantined = IMR_NO_TRACK;
	s->epoch.drain = NO_OWNER;
	if (!allocate(s)) {
		imr_destroy(&s->engine);
		return -ENOMEM;
	}
	shingle_options_init(imr_options, s);
	for (i = 0; i < s->nr_logical; i++)
		s->map[i].phys = IMR_NO_TRACK;
	for (i = 0; i < s->nr_phys; i++)
		s->owner[i] = OWNER_FREE;
	for (i = 0; i < s->backup.nr; i++)
		s->backup.slot[i].owner = NO_OWNER;
	*out = &s->engine;
	return 0;
}

/* ------------------------------------------------------------------------
 * Hints
 */

static int number(const char *word, u32 below, u32 *n)
{
	return kstrtouint(word, 10, n) || *n >= below ? -EINVAL : 0;
}

/*
 * level FIRST COUNT LEVEL says it of tracks that are about to be written, relevel
 * of tracks that are there: a file that is moved to another level as it is.  What
 * is forgotten forgets its level, too.
 */
static int imr_message(struct shingle_engine *e, unsigned int argc, char **argv, u64 *done,
		       struct shingle_emit *emit, const char **why)
{
	struct imr *s = to_imr(e);
	u32 first, count, level, n, i;

	if (strcmp(argv[0], "level") && strcmp(argv[0], "relevel"))
		return -ENOENT;
	*why = "level and relevel want the first track, how many, and a level from 0 to 15";
	if (argc != 4 || number(argv[1], s->nr_logical, &first) ||
	    number(argv[2], s->nr_logical - first + 1, &count) || !count ||
	    number(argv[3], NR_LEVELS, &level))
		return -EINVAL;
	if (count > LEVEL_TRACKS) {
		*why = "level and relevel take at most 65536 tracks at a time";
		return -EINVAL;
	}
	first += *done;
	n = min_t(u32, count - *done, LEVEL_AT_ONCE);
	for (i = first; i < first + n; i++)
		set_level(s, i, level);
	shingle_emit(emit, IMR_LEVEL, 0, level, first, n);
	*done += n;
	return *done < count;
}

/* The highest level that a track has or is about to have. */
static u32 highest_level(const struct imr *s)
{
	u32 level = NR_LEVELS - 1, i;

	while (level && !s->live[level])
		level--;
	for (i = 0; i < s->epoch.nr; i++)
		level = max_t(u32, level, s->map[s->epoch.track_list[i].track].level);
	return level;
}

/**
 * struct levels - who gets bottoms, while an epoch's tracks are allocated
 * @largest: the level and those beyond it, unless it is LARGEST_MOST
 * @tracks: of each level that have a place
 */
struct levels {
	u32 largest;
	u32 tracks[NR_LEVELS];
};

static void look_at_levels(const struct imr *s, struct levels *l)
{
	u32 i;

	l->largest = s->opt.largest == LARGEST_AUTO ? highest_level(s) : s->opt.largest;
	memcpy(l->tracks, s->live, sizeof(l->tracks));
	for (i = 0; i < s->epoch.nr; i++) {
		const struct imr_item *it = &s->epoch.track_list[i];

		if (it->dst != IMR_NO_TRACK && !is_mapped(s, it->track))
			l->tracks[s->map[it->track].level]++;
	}
}

/* Most tracks: of several levels the highest, of none the one that asks. */
static u32 largest_level(const struct levels *l, u32 level)
{
	u32 most = 0, i;

	if (l->largest != LARGEST_MOST)
		return l->largest;
	for (i = 1; i < NR_LEVELS; i++) {
		if (l->tracks[i] >= l->tracks[most])
			most = i;
	}
	return l->tracks[most] ? most : level;
}

/*
 * What is written in parts will be written again.  On a top that costs nothing, so it
 * goes there unless somebody knows better.
 */
static bool partial_to_top(const struct imr *s, const struct imr_item *it)
{
	return s->tracks.policy == IMR_COMPACTION && s->opt.levels != LEVELS_LBA &&
	       !s->opt.by_level && !s->map[it->track].explicit && it->blocks < s->track_blocks;
}

static bool wants_bottom(const struct imr *s, const struct imr_item *it, const struct levels *l)
{
	u32 level = s->map[it->track].level;

	if (s->opt.levels == LEVELS_LBA)
		return it->track < s->nr_logical / 2;
	return !partial_to_top(s, it) && level >= largest_level(l, level);
}

/* ------------------------------------------------------------------------
 * Host I/O
 */

static void imr_resolve(struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *out)
{
	struct imr *s = to_imr(e);
	u64 track = div_u64(lblk, s->track_blocks);
	u32 offset = lblk - track * s->track_blocks;
	const struct imr_track *t = &s->map[track];

	out->lblk = lblk;
	if (offset >= t->valid) {
		out->kind = SHINGLE_RUN_ZERO;
		out->pblk = 0;
		out->n = min(n, s->track_blocks - offset);
		return;
	}
	out->kind = SHINGLE_RUN_MAPPED;
	out->pblk = where(s, track) + offset;
	out->n = min_t(u32, n, t->valid - offset);
}

/*
 * Straight to its place what is on a top and harms nobody; all else is gathered.
 * The level that a hint gives is recorded by the next record of the track's place:
 * an overwrite in place leaves none.
 */
static int imr_place(struct shingle_engine *e, u64 lblk, u32 n, enum shingle_life life,
		     struct shingle_run *out)
{
	struct imr *s = to_imr(e);
	u64 track = div_u64(lblk, s->track_blocks);
	u32 offset = lblk - track * s->track_blocks;
	struct imr_track *t = &s->map[track];

	out->lblk = lblk;
	out->kind = SHINGLE_RUN_MAPPED;
	out->n = min(n, s->track_blocks - offset);
	if (offset >= t->valid || !imr_is_top(t->phys) || t->busy || t->saved ||
	    track == s->epoch.drain || t->inflight == MAX_INFLIGHT) {
		if (s->opt.levels == LEVELS_HINT && life != SHINGLE_LIFE_UNKNOWN)
			set_level(s, track, life - SHINGLE_LIFE_SHORT);
		return SHINGLE_GATHER;
	}
	out->n = min_t(u32, out->n, t->valid - offset);
	out->pblk = phys_pblk(s, t->phys) + offset;
	t->inflight++;
	return 0;
}

static void imr_abort(struct shingle_engine *e, const struct shingle_run *run)
{
	struct imr *s = to_imr(e);

	s->map[div_u64(run->lblk, s->track_blocks)].inflight--;
}

static void imr_commit(struct shingle_engine *e, const struct shingle_run *run,
		       struct shingle_emit *emit)
{
	imr_abort(e, run);
	to_imr(e)->count.direct_blocks += run->n;
}

/* Whole tracks only: less than one has no effect. */
static int imr_discard(struct shingle_engine *e, u64 lblk, u64 n, u64 *done, bool *dropped,
		       struct shingle_emit *emit)
{
	struct imr *s = to_imr(e);
	u64 first = div_u64(lblk, s->track_blocks);
	u32 offset = lblk - first * s->track_blocks, i, limit;

	*dropped = !offset && n >= s->track_blocks;
	if (!*dropped) {
		*done = min_t(u64, n, s->track_blocks - offset);
		return 0;
	}
	limit = min_t(u64, div_u64(n, s->track_blocks), DISCARD_TRACKS);
	for (i = 0; i < limit; i++) {
		struct imr_track *t = &s->map[first + i];

		if (t->busy || t->saved || t->inflight || first + i == s->epoch.drain)
			break;
		if (is_mapped(s, first + i))
			unmap_track(s, first + i, emit->seq);
		t->level = 0;
		t->explicit = false;
	}
	if (!i)
		return -EBUSY;
	s->changes++;
	shingle_emit(emit, IMR_UNMAP, 0, 0, first, i);
	*done = (u64)i * s->track_blocks;
	return 0;
}

/* ------------------------------------------------------------------------
 * Epochs: putting one together
 */

static int imr_epoch_add(struct shingle_engine *e, u64 lblk, u32 n)
{
	struct imr *s = to_imr(e);
	u32 track = div_u64(lblk, s->track_blocks);
	u32 offset = lblk - (u64)track * s->track_blocks;
	struct imr_item *it = s->epoch.nr ? &s->epoch.track_list[s->epoch.nr - 1] : NULL;

	if (!it || it->track != track) {
		if (s->epoch.nr == s->opt.buffer_tracks)
			return -ENOSPC;
		it = &s->epoch.track_list[s->epoch.nr++];
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
 * By level, and by address within one: the order of TrackList.  Counted, since a lock is
 * held meanwhile and there may be MAX_BUFFER tracks.
 */
static void sort_items(struct imr *s)
{
	u32 at[NR_LEVELS + 1] = { 0 }, i;

	for (i = 0; i < s->epoch.nr; i++)
		at[s->map[s->epoch.track_list[i].track].level + 1]++;
	for (i = 1; i < NR_LEVELS; i++)
		at[i] += at[i - 1];
	for (i = 0; i < s->epoch.nr; i++)
		s->epoch.sorted[at[s->map[s->epoch.track_list[i].track].level]++] =
			s->epoch.track_list[i];
	swap(s->epoch.track_list, s->epoch.sorted);
}

/* @phys is left alone for one epoch; what was until now is free again. */
static void quarantine(struct imr *s, u32 phys)
{
	u32 was = s->epoch.quarantined;

	s->epoch.quarantined = phys;
	if (was == IMR_NO_TRACK)
		return;
	s->owner[was] = OWNER_FREE;
	imr_track_give(&s->tracks, was);
}

static bool take_track(struct imr *s, struct imr_item *it, struct levels *l)
{
	bool miss;

	it->dst = imr_track_take(&s->tracks, wants_bottom(s, it, l), &miss);
	if (it->dst == IMR_NO_TRACK && s->epoch.quarantined != IMR_NO_TRACK) {
		quarantine(s, IMR_NO_TRACK);
		it->dst = imr_track_take(&s->tracks, wants_bottom(s, it, l), &miss);
	}
	if (it->dst == IMR_NO_TRACK)
		return false;
	it->fresh = true;
	l->tracks[s->map[it->track].level] += !is_mapped(s, it->track);
	s->count.partial_tops += partial_to_top(s, it) && !miss;
	s->owner[it->dst] = OWNER_TAKEN;
	s->count.tier_misses += miss;
	s->count.tops_allocated += imr_is_top(it->dst);
	s->count.bottoms_allocated += !imr_is_top(it->dst);
	return true;
}

/* The tops beside a bottom: @side 0 and 1.  IMR_NO_TRACK where the disk ends. */
static u32 neighbour(const struct imr *s, u32 phys, u32 side)
{
	if (side)
		return phys + 1 < s->nr_phys ? phys + 1 : IMR_NO_TRACK;
	return phys ? phys - 1 : IMR_NO_TRACK;
}

/* Must the top at this side of a bottom be saved before the bottom is written? */
static bool must_save(const struct imr *s, u32 phys, u32 side)
{
	u32 top = neighbour(s, phys, side);

	return top != IMR_NO_TRACK && is_owned(s->owner[top]) && !s->map[s->owner[top]].saved;
}

/* Is a part of a bottom better written elsewhere than with a rewrite of tops? */
static bool leaves_bottom(const struct imr *s, const struct imr_item *it)
{
	u32 phys = s->map[it->track].phys;

	return partial_to_top(s, it) && !imr_is_top(phys) && imr_top_is_left(&s->tracks) &&
	       (must_save(s, phys, 0) || must_save(s, phys, 1));
}

static bool goes_elsewhere(const struct imr *s, const struct imr_item *it)
{
	return s->opt.move || s->map[it->track].relocate || leaves_bottom(s, it);
}

/*
 * A track for every item: 0, or -EAGAIN if some must be released first.  What is
 * nowhere comes first: what is somewhere can be overwritten there.
 */
static int plan(struct imr *s)
{
	struct levels l;
	u32 i;

	look_at_levels(s, &l);
	for (i = 0; i < s->epoch.nr; i++) {
		struct imr_item *it = &s->epoch.track_list[i];

		if (it->dst == IMR_NO_TRACK && !is_mapped(s, it->track) &&
		    !take_track(s, it, &l))
			return -EAGAIN;
	}
	for (i = 0; i < s->epoch.nr; i++) {
		struct imr_item *it = &s->epoch.track_list[i];

		if (it->dst != IMR_NO_TRACK)
			continue;
		if (goes_elsewhere(s, it) && take_track(s, it, &l)) {
			s->count.moved_tracks++;
		} else {
			it->dst = s->map[it->track].phys;
			s->count.overwritten_tracks++;
		}
	}
	quarantine(s, IMR_NO_TRACK);
	s->count.epochs++;
	s->count.epoch_tracks += s->epoch.nr;
	return 0;
}

static void imr_epoch_end(struct shingle_engine *e)
{
	struct imr *s = to_imr(e);
	u32 i;

	s->changes++;
	if (s->epoch.nr && s->epoch.phase != PHASE_END)
		s->epoch.uncertain = true;
	for (i = 0; i < s->epoch.nr; i++) {
		struct imr_item *it = &s->epoch.track_list[i];

		s->map[it->track].busy = false;
		if (it->fresh && !it->done && it->failed) {
			quarantine(s, it->dst);
		} else if (it->fresh && !it->done) {
			s->owner[it->dst] = OWNER_FREE;
			imr_track_give(&s->tracks, it->dst);
		}
	}
	for (i = 0; i < s->backup.nr; i++)
		s->backup.slot[i].taken = false;
	s->epoch.drain = NO_OWNER;
	s->epoch.nr = 0;
	s->epoch.phase = PHASE_NONE;
}

/* ------------------------------------------------------------------------
 * Epochs: steps
 */

static int sync_step(struct imr *s, struct shingle_step *step, enum imr_cause cause,
		     enum shingle_sync sync)
{
	memset(step, 0, sizeof(*step));
	step->kind = STEP_SYNC;
	step->base = SHINGLE_NOWHERE;
	step->lblk = SHINGLE_NOWHERE;
	step->cookie = cause;
	step->sync = sync;
	return 1;
}

static bool beside_saved(const struct imr *s, u32 phys)
{
	u32 side, top;

	for (side = 0; side < 2; side++) {
		top = neighbour(s, phys, side);
		if (top != IMR_NO_TRACK && is_owned(s->owner[top]) &&
		    s->map[s->owner[top]].saved)
			return true;
	}
	return false;
}

/* A step that saves a top, or -EAGAIN while somebody writes to it. */
static int save_step(struct imr *s, struct shingle_step *step, u32 top)
{
	u32 track = s->owner[top], slot = free_slot(s);
	struct imr_track *t = &s->map[track];

	s->epoch.drain = track;
	if (t->inflight)
		return -EAGAIN;
	memset(step, 0, sizeof(*step));
	step->kind = STEP_BACKUP;
	step->n = t->valid;
	step->base = phys_pblk(s, top);
	step->dst = slot_pblk(s, slot);
	step->lblk = (u64)track * s->track_blocks;
	step->cookie = slot;
	step->sync = SHINGLE_SYNC_NONE;
	s->backup.slot[slot].taken = true;
	return 1;
}

/* A step that writes a saved top back: 1; 0 if there is none; or -EAGAIN. */
static int restore_step(struct imr *s, struct shingle_step *step)
{
	u32 found = NO_SLOT, i;

	for (i = 0; i < s->backup.nr; i++) {
		if (s->backup.slot[i].owner == NO_OWNER)
			continue;
		if (found == NO_SLOT ||
		    s->map[s->backup.slot[i].owner].phys < s->map[s->backup.slot[found].owner].phys)
			found = i;
	}
	if (found == NO_SLOT)
		return 0;
	if (!s->backup.slot[found].durable)
		return -EAGAIN;
	memset(step, 0, sizeof(*step));
	step->kind = STEP_RESTORE;
	step->n = s->map[s->backup.slot[found].owner].valid;
	step->base = slot_pblk(s, found);
	step->dst = phys_pblk(s, s->map[s->backup.slot[found].owner].phys);
	step->lblk = (u64)s->backup.slot[found].owner * s->track_blocks;
	step->cookie = found;
	step->sync = SHINGLE_SYNC_NONE;
	return 1;
}

/* The next step that writes an item, or -EAGAIN if something must end first. */
static int write_step(struct imr *s, struct shingle_step *step, u32 which)
{
	struct imr_item *it = &s->epoch.track_list[which];
	const struct imr_track *t = &s->map[it->track];
	u64 pblk = phys_pblk(s, it->dst), lblk = (u64)it->track * s->track_blocks;
	u32 side, from = 0, end = it->end;

	if (t->inflight)
		return -EAGAIN;
	/* What was forgotten there must not be needed by recovery any more. */
	for (side = 0; side < 2 && !imr_is_top(it->dst); side++) {
		u32 top = neighbour(s, it->dst, side);

		if (top != IMR_NO_TRACK && exposed(s, top))
			return -EAGAIN;
	}
	memset(step, 0, sizeof(*step));
	step->kind = STEP_WRITE;
	step->base = SHINGLE_NOWHERE;
	step->cookie = which;
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

/* A moved track takes along what is not written anew. */
static bool imr_step_source(struct shingle_engine *e, const struct shingle_step *step, u32 offset,
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
	out->pblk = where(s, it->track) + offset;
	out->kind = SHINGLE_RUN_MAPPED;
	return true;
}

/* What both orders do with the tops that were saved: as merged_step(). */
static int rewrite_step(struct imr *s, struct shingle_step *step)
{
	int r;

	switch (s->epoch.phase) {
	case PHASE_SYNC_1:
		s->epoch.rmw = true;
		if (!s->opt.unsafe_sync1)
			return sync_step(s, step, IMR_SYNC_1, SHINGLE_SYNC_COMMIT);
		s->epoch.phase = PHASE_RMW;
		return 0;
	case PHASE_SYNC_2:
		if (!s->opt.unsafe_sync2)
			return sync_step(s, step, IMR_SYNC_2, SHINGLE_SYNC_FLUSH);
		s->epoch.phase = PHASE_RESTORE;
		return 0;
	case PHASE_RESTORE:
		r = restore_step(s, step);
		if (!r)
			s->epoch.phase = PHASE_SYNC_3;
		return r;
	default:
		return 0;
	}
}

/* ------------------------------------------------------------------------
 * Epochs: Algorithm 2, merged
 */

/* The next item on a bottom (or on a top) that is not written yet. */
static u32 next_item(const struct imr *s, bool top, bool rmw)
{
	u32 i;

	for (i = 0; i < s->epoch.nr; i++) {
		const struct imr_item *it = &s->epoch.track_list[i];

		if (!it->done && imr_is_top(it->dst) == top && (!rmw || it->rmw))
			break;
	}
	return i;
}

/*
 * A2.2 to A2.5: save every top that a bottom of this round would destroy, as long
 * as there are slots.  Returns 1 and a step, 0 at the end, -EAGAIN.
 */
static int backup_round(struct imr *s, struct shingle_step *step)
{
	u32 side;

	/* No top comes up beside an item that has been passed before it is written. */
	for (; s->epoch.at < s->epoch.nr; s->epoch.at++) {
		struct imr_item *it = &s->epoch.track_list[s->epoch.at];
		u32 need = 0;

		if (it->done || imr_is_top(it->dst))
			continue;
		for (side = 0; side < 2; side++)
			need += must_save(s, it->dst, side);
		if (!need) {
			it->rmw = beside_saved(s, it->dst);
			continue;
		}
		if (need > free_slots(s))
			return s->backup.nr_saved ? 0 : -EAGAIN;
		side = !must_save(s, it->dst, 0);
		return save_step(s, step, neighbour(s, it->dst, side));
	}
	return 0;
}

static bool more_rounds(const struct imr *s)
{
	u32 i;

	for (i = 0; i < s->epoch.nr; i++) {
		const struct imr_item *it = &s->epoch.track_list[i];

		if (!it->done && !imr_is_top(it->dst) &&
		    (must_save(s, it->dst, 0) || must_save(s, it->dst, 1)))
			return true;
	}
	return false;
}

/* Of Algorithm 2: 1 and a step, -EAGAIN, or 0 to look at the next phase. */
static int merged_step(struct imr *s, struct shingle_step *step)
{
	u32 i;
	int r;

	switch (s->epoch.phase) {
	case PHASE_BACKUP:
		r = backup_round(s, step);
		if (r)
			return r;
		s->epoch.drain = NO_OWNER;
		s->epoch.phase = s->backup.nr_saved ? PHASE_SYNC_1 : PHASE_BOTTOMS;
		return 0;
	case PHASE_RMW:
		i = next_item(s, false, true);
		if (i < s->epoch.nr)
			return write_step(s, step, i);
		s->epoch.phase = PHASE_SYNC_2;
		return 0;
	case PHASE_SYNC_3:
		/* The slots are needed again. */
		return sync_step(s, step, IMR_SYNC_3, more_rounds(s) ? SHINGLE_SYNC_COMMIT :
								   SHINGLE_SYNC_FLUSH);
	case PHASE_BOTTOMS:
		i = next_item(s, false, false);
		if (i < s->epoch.nr)
			return write_step(s, step, i);
		s->epoch.phase = PHASE_SYNC_4;
		return 0;
	case PHASE_SYNC_4:
		if (s->opt.syncs_literal || (s->epoch.wrote_bottom && !s->opt.unsafe_sync4 &&
					 next_item(s, true, false) < s->epoch.nr))
			return sync_step(s, step, IMR_SYNC_4, SHINGLE_SYNC_FLUSH);
		s->epoch.phase = PHASE_TOPS;
		return 0;
	case PHASE_TOPS:
		i = next_item(s, true, false);
		if (i < s->epoch.nr)
			return write_step(s, step, i);
		s->epoch.phase = PHASE_LAST;
		return 0;
	default:
		return rewrite_step(s, step);
	}
}

/* ------------------------------------------------------------------------
 * Epochs: Algorithm 1, naive
 */

/* A1.2: is a track beside this one perhaps only in the drive's cache? */
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

static int naive_backup(struct imr *s, struct shingle_step *step, const struct imr_item *it)
{
	u32 need = 0, side;

	for (side = 0; side < 2 && !imr_is_top(it->dst); side++)
		need += must_save(s, it->dst, side);
	if (need > free_slots(s))
		return -EAGAIN;
	side = !must_save(s, it->dst, 0);
	return need ? save_step(s, step, neighbour(s, it->dst, side)) : 0;
}

/* Of Algorithm 1: as merged_step(). */
static int naive_step(struct imr *s, struct shingle_step *step)
{
	struct imr_item *it = &s->epoch.track_list[s->epoch.at];
	int r;

	switch (s->epoch.phase) {
	case PHASE_ADJACENT:
		if (s->epoch.at == s->epoch.nr) {
			s->epoch.phase = PHASE_LAST;
			return 0;
		}
		if (beside_unsynced(s, it->dst) && !(s->opt.unsafe_sync4 && imr_is_top(it->dst)))
			return sync_step(s, step, IMR_SYNC_ADJACENT, SHINGLE_SYNC_FLUSH);
		s->epoch.phase = PHASE_BACKUP;
		return 0;
	case PHASE_BACKUP:
		r = naive_backup(s, step, it);
		if (r)
			return r;
		s->epoch.drain = NO_OWNER;
		it->rmw = s->backup.nr_saved;
		s->epoch.phase = it->rmw ? PHASE_SYNC_1 : PHASE_RMW;
		return 0;
	case PHASE_RMW:
		if (!it->done)
			return write_step(s, step, s->epoch.at);
		s->epoch.phase = it->rmw ? PHASE_SYNC_2 : PHASE_ADJACENT;
		s->epoch.at += !it->rmw;
		return 0;
	case PHASE_SYNC_3:
		return sync_step(s, step, IMR_SYNC_3, SHINGLE_SYNC_FLUSH);
	default:
		return rewrite_step(s, step);
	}
}

/* ------------------------------------------------------------------------
 * Epochs: from one step to the next
 */

/* A1.15, A2.23 and the map, in one commit. */
static int last_step(struct imr *s, struct shingle_step *step)
{
	bool needed = s->epoch.naive || s->opt.syncs_literal || s->epoch.after_3 || !s->epoch.rmw;

	return sync_step(s, step, needed ? IMR_SYNC_5 : IMR_SYNC_MAP, SHINGLE_SYNC_COMMIT);
}

static int epoch_step(struct imr *s, struct shingle_step *step)
{
	int r = 0;

	while (!r) {
		switch (s->epoch.phase) {
		case PHASE_NONE:
			if (!s->epoch.nr)
				return 0;
			s->epoch.rmw = false;
			s->epoch.after_3 = false;
			s->epoch.wrote_bottom = false;
			s->epoch.at = 0;
			s->epoch.naive = s->opt.naive;
			s->epoch.phase = s->epoch.uncertain ? PHASE_REDO_SYNC : PHASE_REDO;
			break;
		case PHASE_REDO_SYNC:
			return sync_step(s, step, IMR_SYNC_REDO, SHINGLE_SYNC_COMMIT);
		case PHASE_REDO:
			r = restore_step(s, step);
			if (!r)
				s->epoch.phase = PHASE_PLAN;
			break;
		case PHASE_PLAN:
			sort_items(s);
			r = plan(s);
			if (!r)
				s->epoch.phase = s->epoch.naive ? PHASE_ADJACENT : PHASE_BACKUP;
			break;
		case PHASE_LAST:
			return last_step(s, step);
		case PHASE_END:
			return 0;
		default:
			r = s->epoch.naive ? naive_step(s, step) : merged_step(s, step);
			break;
		}
	}
	return r;
}

static int imr_next_step(struct shingle_engine *e, enum shingle_why why,
			 struct shingle_step *step)
{
	struct imr *s = to_imr(e);
	int r;

	s->changes++;
	if (why == SHINGLE_WHY_EPOCH)
		return epoch_step(s, step);
	/* What a power cut or an error left in slots. */
	if (s->epoch.nr || !s->backup.nr_saved)
		return 0;
	if (s->epoch.uncertain)
		return sync_step(s, step, IMR_SYNC_REDO, SHINGLE_SYNC_COMMIT);
	r = restore_step(s, step);
	step->sync = SHINGLE_SYNC_COMMIT;
	return r;
}

static void synced(struct imr *s, const struct shingle_step *step)
{
	bool changed = s->epoch.changed;
	u32 i;

	s->count.syncs[step->cookie]++;
	s->epoch.uncertain = false;
	if (step->sync == SHINGLE_SYNC_COMMIT)
		s->epoch.changed = false;
	for (i = 0; i < s->epoch.nr; i++)
		s->epoch.track_list[i].unsynced = false;
	switch (s->epoch.phase) {
	case PHASE_REDO_SYNC:
		s->epoch.phase = PHASE_REDO;
		break;
	case PHASE_ADJACENT:
		s->epoch.phase = PHASE_BACKUP;
		break;
	case PHASE_SYNC_1:
		s->count.syncs[IMR_SYNC_SAVED] += !s->opt.unsafe_record;
		s->epoch.phase = PHASE_RMW;
		break;
	case PHASE_SYNC_2:
		s->epoch.phase = PHASE_RESTORE;
		break;
	case PHASE_SYNC_3:
		s->count.syncs[IMR_SYNC_MAP] += step->sync == SHINGLE_SYNC_COMMIT;
		s->epoch.at += s->epoch.naive;
		s->epoch.after_3 = false;
		s->epoch.phase = s->epoch.naive ? PHASE_ADJACENT : PHASE_BACKUP;
		break;
	case PHASE_SYNC_4:
		s->epoch.phase = PHASE_TOPS;
		break;
	case PHASE_LAST:
		s->count.epochs_rmw += s->epoch.rmw;
		/* The records are a sync of their own behind that of the data. */
		s->count.syncs[IMR_SYNC_MAP] += step->cookie == IMR_SYNC_5 && changed;
		s->epoch.phase = PHASE_END;
		break;
	default:
		break;
	}
}

static void saved(struct imr *s, const struct shingle_step *step, struct shingle_emit *emit)
{
	struct imr_slot *b = &s->backup.slot[step->cookie];
	u32 track = div_u64(step->lblk, s->track_blocks);

	set_failed(s, step->cookie, false);
	b->taken = false;
	b->owner = track;
	mark_slot(s, step->cookie);
	b->seq = emit->seq;
	b->durable = s->opt.unsafe_record || s->opt.unsafe_sync1;
	shingle_slotmap_insert(&s->backup.index, step->cookie, track, 1);
	s->map[track].saved = true;
	s->backup.nr_saved++;
	s->count.backups++;
	s->epoch.drain = NO_OWNER;
	if (!s->opt.unsafe_record)
		shingle_emit(emit, IMR_BACKUP, 0, 0, track, step->cookie);
}

static void restored(struct imr *s, const struct shingle_step *step, struct shingle_emit *emit)
{
	u32 track = s->backup.slot[step->cookie].owner;

	leave_slot(s, step->cookie, emit->seq);
	s->epoch.changed = true;
	if (s->epoch.phase == PHASE_RESTORE)
		s->count.rewrites++;
	else
		s->count.replayed++;
	/* A record in any case, or nothing would be committed and the slot not released. */
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
		map_track(s, it->track, it->dst, end, emit);
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

static void imr_step_done(struct shingle_engine *e, const struct shingle_step *step,
			  struct shingle_emit *emit)
{
	struct imr *s = to_imr(e);

	s->changes++;
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
	case STEP_SYNC:
		synced(s, step);
		break;
	}
}

static void imr_step_failed(struct shingle_engine *e, const struct shingle_step *step)
{
	struct imr *s = to_imr(e);

	s->changes++;
	if (step->kind == STEP_BACKUP) {
		s->backup.slot[step->cookie].taken = false;
		set_failed(s, step->cookie, true);
	}
	/* Or it was interrupted: then that costs a copy, and nothing else. */
	if (step->kind == STEP_WRITE && !s->epoch.track_list[step->cookie].fresh)
		s->map[s->epoch.track_list[step->cookie].track].relocate = true;
	else if (step->kind == STEP_WRITE)
		s->epoch.track_list[step->cookie].failed = true;
	s->epoch.drain = NO_OWNER;
	s->epoch.uncertain = true;
}

static bool imr_release(struct shingle_engine *e, u64 seq)
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

static bool imr_pending(struct shingle_engine *e)
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
 * What is in use
 */

static bool phys_referenced(const struct imr *s, u32 phys, u64 offset)
{
	u32 owner = s->owner[phys];

	return exposed(s, phys) && (!is_owned(owner) || offset < s->map[owner].valid);
}

static bool slot_referenced(const struct imr *s, u32 slot)
{
	return s->backup.slot[slot].owner != NO_OWNER || s->backup.slot[slot].pending;
}

static bool imr_referenced(struct shingle_engine *e, u64 pblk, u64 n)
{
	struct imr *s = to_imr(e);
	u64 end = pblk + n, band, offset;
	enum shingle_role role;

	for (; pblk < end; pblk += s->track_blocks - offset) {
		if (!shingle_band_of(s->layout, pblk, &role, &band, &offset)) {
			offset = s->track_blocks - 1;
			continue;
		}
		if (role == SHINGLE_ROLE_DATA ? phys_referenced(s, band, offset) :
						slot_referenced(s, band))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------------
 * The state on the disk
 */

static u32 encode_tracks(const struct imr *s, u32 part, __le32 *buf)
{
	u32 first = part * PART_TRACKS, n = min(s->nr_logical - first, PART_TRACKS), i;
	bool any = false;

	for (i = 0; i < n; i++) {
		const struct imr_track *t = &s->map[first + i];

		/* One more, so that zero is what was never written. */
		buf[2 * i] = cpu_to_le32(t->phys + 1);
		buf[2 * i + 1] = cpu_to_le32(t->phys == IMR_NO_TRACK ? 0 :
					     (u32)t->level << 16 | t->valid);
		any |= t->phys != IMR_NO_TRACK;
	}
	return any ? n * 2 * sizeof(*buf) : 0;
}

static u32 encode_slots(const struct imr *s, u32 part, __le32 *buf)
{
	u32 first = part * PART_SLOTS, n = min(s->backup.nr - first, PART_SLOTS), i;
	bool any = false;

	for (i = 0; i < n; i++) {
		buf[i] = cpu_to_le32(s->backup.slot[first + i].owner + 1);
		any |= s->backup.slot[first + i].owner != NO_OWNER;
	}
	return any ? n * sizeof(*buf) : 0;
}

static u32 imr_encode(struct shingle_engine *e, u64 *cursor, u64 *index, void *buf)
{
	struct imr *s = to_imr(e);
	u32 parts = nr_map_parts(s), slots = DIV_ROUND_UP(s->backup.nr, PART_SLOTS);
	u64 at = *cursor;

	if (at >= parts + slots) {
		*cursor = SHINGLE_NOWHERE;
		return 0;
	}
	*index = at;
	*cursor = at + 1;
	return at < parts ? encode_tracks(s, at, buf) : encode_slots(s, at - parts, buf);
}

static int decode_tracks(struct imr *s, u32 first, const __le32 *buf, u32 bytes)
{
	u32 n = bytes / (2 * sizeof(*buf)), i;

	if (bytes % (2 * sizeof(*buf)) || n > s->nr_logical - first)
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		struct imr_track *t = &s->map[first + i];
		u32 phys = le32_to_cpu(buf[2 * i]) - 1, rest = le32_to_cpu(buf[2 * i + 1]);

		if (phys == IMR_NO_TRACK)
			continue;
		if (phys >= s->nr_phys || !(rest & 0xffff) || (rest & 0xffff) > s->track_blocks ||
		    rest >> 16 >= NR_LEVELS)
			return -EUCLEAN;
		t->phys = phys;
		t->valid = rest & 0xffff;
		t->level = rest >> 16;
	}
	return 0;
}

static int decode_slots(struct imr *s, u32 first, const __le32 *buf, u32 bytes)
{
	u32 n = bytes / sizeof(*buf), i;

	if (bytes % sizeof(*buf) || n > s->backup.nr - first)
		return -EUCLEAN;
	for (i = 0; i < n; i++) {
		u32 owner = le32_to_cpu(buf[i]) - 1;

		if (owner != NO_OWNER && owner >= s->nr_logical)
			return -EUCLEAN;
		s->backup.slot[first + i].owner = owner;
		if (owner != NO_OWNER)
			s->map[owner].saved = true;
	}
	return 0;
}

static int imr_decode(struct shingle_engine *e, u64 index, const void *buf, u32 bytes)
{
	struct imr *s = to_imr(e);
	u32 parts = nr_map_parts(s);

	if (index < parts)
		return decode_tracks(s, index * PART_TRACKS, buf, bytes);
	index -= parts;
	if (index < DIV_ROUND_UP(s->backup.nr, PART_SLOTS))
		return decode_slots(s, index * PART_SLOTS, buf, bytes);
	return -EUCLEAN;
}

/*
 * Whatever was saved of tracks [@first, @first + @n) is of no use.  Until ready()
 * says it for good, what is not marked as saved is in no slot.
 */
static void forget_slots(struct imr *s, u32 first, u32 n)
{
	bool some = false;
	u32 i;

	for (i = first; i < first + n; i++) {
		some |= s->map[i].saved;
		s->map[i].saved = false;
	}
	if (!some)
		return;
	for (i = 0; i < s->backup.nr; i++) {
		if (s->backup.slot[i].owner != NO_OWNER && s->backup.slot[i].owner - first < n)
			s->backup.slot[i].owner = NO_OWNER;
	}
}

static int replay_map(struct imr *s, u32 track, u64 phys, u32 valid, u32 level)
{
	struct imr_track *t = &s->map[track];

	if (phys >= s->nr_phys || !valid || valid > s->track_blocks || level >= NR_LEVELS)
		return -EUCLEAN;
	/* What is written is not saved any more. */
	forget_slots(s, track, 1);
	t->phys = phys;
	t->valid = valid;
	t->level = level;
	return 0;
}

static int imr_replay(struct shingle_engine *e, const struct shingle_record *rec)
{
	struct imr *s = to_imr(e);
	u64 a = le64_to_cpu(rec->a), b = le64_to_cpu(rec->b), i;
	u32 c = le32_to_cpu(rec->c);

	if (a >= s->nr_logical)
		return -EUCLEAN;
	switch (le16_to_cpu(rec->type)) {
	case IMR_MAP:
		return replay_map(s, a, b, le16_to_cpu(rec->n), c);
	case IMR_UNMAP:
		if (!b || b > s->nr_logical - a)
			return -EUCLEAN;
		forget_slots(s, a, b);
		for (i = a; i < a + b; i++) {
			s->map[i].phys = IMR_NO_TRACK;
			s->map[i].valid = 0;
			s->map[i].level = 0;
			s->map[i].explicit = false;
		}
		return 0;
	case IMR_BACKUP:
		if (b >= s->backup.nr)
			return -EUCLEAN;
		forget_slots(s, a, 1);
		s->backup.slot[b].owner = a;
		s->map[a].saved = true;
		return 0;
	case IMR_RESTORED:
		if (b >= s->backup.nr)
			return -EUCLEAN;
		if (s->backup.slot[b].owner == a)
			s->backup.slot[b].owner = NO_OWNER;
		return 0;
	case IMR_LEVEL:
		if (!b || b > s->nr_logical - a || c >= NR_LEVELS)
			return -EUCLEAN;
		for (i = a; i < a + b; i++) {
			s->map[i].level = c;
			s->map[i].explicit = true;
		}
		return 0;
	}
	return -EUCLEAN;
}

static int imr_ready(struct shingle_engine *e, const char **why)
{
	struct imr *s = to_imr(e);
	u32 i;

	*why = NULL;
	for (i = 0; i < s->nr_logical; i++) {
		struct imr_track *t = &s->map[i];

		t->saved = false;
		if (t->phys == IMR_NO_TRACK)
			continue;
		if (s->owner[t->phys] != OWNER_FREE) {
			*why = "two tracks are in one place";
			return -EUCLEAN;
		}
		s->owner[t->phys] = i;
		s->live[t->level]++;
		imr_track_claim(&s->tracks, t->phys);
	}
	for (i = 0; i < s->backup.nr; i++) {
		u32 owner = s->backup.slot[i].owner;

		if (owner == NO_OWNER)
			continue;
		if (!is_mapped(s, owner) || !imr_is_top(s->map[owner].phys) ||
		    s->map[owner].saved) {
			*why = "a backup slot holds what is no top, or twice";
			return -EUCLEAN;
		}
		shingle_slotmap_insert(&s->backup.index, i, owner, 1);
		s->map[owner].saved = true;
		s->backup.slot[i].durable = true;
		s->backup.nr_saved++;
	}
	return 0;
}

/* ------------------------------------------------------------------------
 * Looking at it
 */

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
		if (is_owned(owner) && (owner >= s->nr_logical || s->map[owner].phys != i)) {
			report(ctx, "physical track %u belongs to %u, which is elsewhere", i,
			       owner);
			bad++;
		}
		w->pending += !is_owned(owner) && owner != OWNER_FREE && owner != OWNER_TAKEN;
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
	slot = t->saved ? slot_of(s, track) : NO_SLOT;
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

/* Physical tracks, logical ones, slots, and then the sums, if all is as it was. */
static u32 imr_verify(struct shingle_engine *e, u64 *cursor, shingle_report_fn report, void *ctx)
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

#define PARAM(word, member, most)						\
	.name = word, .kind = SHINGLE_OPTION_NUMBER, .when = SHINGLE_OPTION_FORMAT,	\
	SHINGLE_OPTION_AT(struct imr_params, member), .max = most

static const struct shingle_option imr_format[] = {
	{ PARAM("spare-tracks", spare_tracks, U32_MAX), .from = "0",
	  .help = "tracks that are not addressable" },
	{ }
};

#define COUNT(name)	SHINGLE_COUNTER("imr_" #name, struct imr, count.name, COUNT)
#define SYNC(name, cause)	\
	SHINGLE_COUNTER("imr_" #name, struct imr, count.syncs[cause], COUNT)

static const struct shingle_counter imr_counters[] = {
	COUNT(bottoms_allocated),
	COUNT(tops_allocated),
	COUNT(tier_misses),
	COUNT(bottoms_rmw),
	COUNT(bottoms_rmw_free),
	COUNT(tops_written),
	COUNT(backups),
	COUNT(rewrites),
	SHINGLE_COUNTER("imr_replayed_tops", struct imr, count.replayed, COUNT),
	COUNT(epochs),
	COUNT(epochs_rmw),
	COUNT(epoch_tracks),
	COUNT(partial_tracks),
	COUNT(partial_tops),
	COUNT(overwritten_tracks),
	COUNT(moved_tracks),
	COUNT(direct_blocks),
	SHINGLE_COUNTER("imr_pending_tracks", struct imr, nr_pending, NOW),
	SYNC(sync_adjacent, IMR_SYNC_ADJACENT),
	SYNC(sync_1, IMR_SYNC_1),
	SYNC(sync_2, IMR_SYNC_2),
	SYNC(sync_3, IMR_SYNC_3),
	SYNC(sync_4, IMR_SYNC_4),
	SYNC(sync_5, IMR_SYNC_5),
	SYNC(sync_saved, IMR_SYNC_SAVED),
	SYNC(sync_map, IMR_SYNC_MAP),
	SYNC(sync_redo, IMR_SYNC_REDO),
	{ }
};

static_assert(ARRAY_SIZE(imr_counters) <= SHINGLE_MAX_COUNTERS + 1);
static_assert(!offsetof(struct imr, engine));

static u64 imr_map_bytes(struct shingle_engine *e)
{
	const struct imr *s = to_imr(e);

	return (u64)s->nr_logical * sizeof(*s->map) +
	       (u64)s->nr_phys * sizeof(*s->owner) + s->nr_phys / 8 + s->nr_phys / 16 +
	       (u64)s->backup.nr * sizeof(*s->backup.slot) +
	       shingle_slotmap_bytes(&s->backup.index) +
	       2 * MAX_BUFFER * sizeof(*s->epoch.track_list);
}

static u64 imr_cached_blocks(struct shingle_engine *e)
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

const struct shingle_engine_ops imr_engine_ops = {
	.name = "imr",
	.commit_records = 0,
	.step_records = 1,
	.step_kinds = {
		[STEP_BACKUP] = "backup", [STEP_RESTORE] = "restore", [STEP_WRITE] = "write",
		[STEP_SYNC] = "sync",
	},
	.discard_records = 1,
	.options = imr_options,
	.params = imr_format,
	.counters = imr_counters,
	.logical_blocks = imr_logical_blocks,
	.create = imr_create,
	.destroy = imr_destroy,
	.resolve = imr_resolve,
	.place = imr_place,
	.commit = imr_commit,
	.abort = imr_abort,
	.discard = imr_discard,
	.next_step = imr_next_step,
	.step_source = imr_step_source,
	.step_done = imr_step_done,
	.step_failed = imr_step_failed,
	.release = imr_release,
	.pending = imr_pending,
	.epoch_add = imr_epoch_add,
	.epoch_end = imr_epoch_end,
	.message = imr_message,
	.referenced = imr_referenced,
	.encode = imr_encode,
	.decode = imr_decode,
	.replay = imr_replay,
	.ready = imr_ready,
	.max_chunks = imr_max_chunks,
	.verify = imr_verify,
	.map_bytes = imr_map_bytes,
	.cached_blocks = imr_cached_blocks,
};
EXPORT_SYMBOL_GPL(imr_engine_ops);
