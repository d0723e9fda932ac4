/* SPDX-License-Identifier: GPL-2.0 */
/* The layout of a target's devices: the decoded superblock. */
#ifndef SHINGLE_LAYOUT_H
#define SHINGLE_LAYOUT_H

#include "format/format.h"
#include "geometry/tracks.h"

/*
 * A physical block address contains its device in the top byte, so that one number identifies a
 * block of any of a target's devices.
 */
#define SHINGLE_PBLK_DEV_SHIFT	56
#define SHINGLE_PBLK_MASK	((1ULL << SHINGLE_PBLK_DEV_SHIFT) - 1)
#define SHINGLE_NOWHERE		U64_MAX

static inline u64 shingle_pblk(enum shingle_dev dev, u64 block)
{
	return ((u64)dev << SHINGLE_PBLK_DEV_SHIFT) | block;
}

static inline enum shingle_dev shingle_pblk_dev(u64 pblk)
{
	return pblk >> SHINGLE_PBLK_DEV_SHIFT;
}

static inline u64 shingle_pblk_block(u64 pblk)
{
	return pblk & SHINGLE_PBLK_MASK;
}

/**
 * struct shingle_group - bands of one role at equal distances, in the processor's byte order
 * @start: physical address of the first band
 * @stride: blocks from band to band
 * @first_band: number of its first band among those of its role
 * @nr_bands: number of bands
 * @track_blocks: blocks per track, 0 = no tracks
 * @role: role of the bands
 */
struct shingle_group {
	u64 start;
	u64 stride;
	u64 first_band;
	u64 nr_bands;
	u32 track_blocks;
	enum shingle_role role;
};

/* Maximum of groups: a group ends where the length of tracks changes, or the role. */
#define SHINGLE_LAYOUT_GROUPS	(SHINGLE_MAX_LENGTHS + SHINGLE_MAX_GROUPS)

/**
 * struct shingle_area - a stretch of metadata blocks, in the processor's byte order
 * @start: first block, on the metadata device
 * @blocks: length
 */
struct shingle_area {
	u64 start;
	u64 blocks;
};

/**
 * struct shingle_layout - a superblock, decoded and checked
 * @uuid: UUID of the device
 * @sb_seq: generation of the copy that was read
 * @flags: SHINGLE_SB_*
 * @engine: name of the translation layer
 * @label: free text
 * @logical_blocks: size of the device that the target presents
 * @dev_blocks: size of each device at format time, 0 where it has none
 * @ckpt: the two checkpoint slots
 * @journal: the journal ring
 * @journal_gap_blocks: number of following blocks that a journal write may destroy
 * @pages: two places for each page of a paged map; otherwise empty
 * @ckpt_stretch_blocks: see struct shingle_sb
 * @head_tracks: width of the write head in tracks, 1 on a conventional medium
 * @band_blocks: blocks in a band of each role, 0 for a role without bands
 * @interlaced: bands are tracks, bottom, top, bottom, ...
 * @ctime: seconds since 1970 at format time
 * @params: parameters of the engine, in its own format
 * @medium: media of DATA and of CACHE
 * @settings: as they are on the disk; shingle_settings_decode() reads them
 * @nr_entries: entries used in @entries
 * @entries: the group table as the superblock has it; @stride is 0 for bands that follow each
 *	other over tracks of several lengths
 * @nr_groups: entries used in @groups
 * @groups: bands at equal distances, by role in band order, derived from @entries
 * @index: derived by shingle_layout_index(), constant from then on
 * @index.by_band: numbers of groups, sorted by role and band
 * @index.by_place: numbers of groups, sorted by place
 * @index.tracks: for each device, whether any of its bands lie on tracks
 * @nr_bands: number of bands of each role
 *
 * While a device is in use only @sb_seq, @flags and @settings change, under its ckpt_lock.  All
 * other members, and the windows computed from them, are read without a lock.
 */
struct shingle_layout {
	u8 uuid[SHINGLE_UUID_SIZE];
	u64 sb_seq;
	u32 flags;
	char engine[SHINGLE_ENGINE_NAME_SIZE + 1];
	char label[SHINGLE_LABEL_SIZE + 1];
	u64 logical_blocks;
	u64 dev_blocks[SHINGLE_NR_DEVS];
	struct shingle_area ckpt[2];
	struct shingle_area journal;
	u64 journal_gap_blocks;
	struct shingle_area pages;
	u32 ckpt_stretch_blocks;
	u32 head_tracks;
	u32 band_blocks[SHINGLE_NR_ROLES];
	bool interlaced;
	u64 ctime;
	u8 params[SHINGLE_ENGINE_PARAMS_SIZE];
	struct shingle_medium medium[SHINGLE_NR_MEDIA];
	struct shingle_disk_settings settings;
	u32 nr_entries;
	struct shingle_group entries[SHINGLE_MAX_GROUPS];
	u32 nr_groups;
	struct shingle_group groups[SHINGLE_LAYOUT_GROUPS];

	/* Derived by shingle_layout_index(), constant from then on */
	struct {
		u16 by_band[SHINGLE_LAYOUT_GROUPS];
		u16 by_place[SHINGLE_LAYOUT_GROUPS];
		bool tracks[SHINGLE_NR_DEVS];
	} index;

	u64 nr_bands[SHINGLE_NR_ROLES];
};

/**
 * struct shingle_window - a range that a write may destroy
 * @from: first block
 * @blocks: number of blocks
 */
struct shingle_window {
	u64 from;
	u64 blocks;
};

/**
 * struct shingle_windows - a walk over the windows of a write: the ranges that its head covers
 * besides the written blocks
 * @exact: it is known which blocks lie side by side (shingle_medium::columns)
 * @reach: if so, a walk over the exact ranges
 * @dev: device bits of the address
 * @w: otherwise, whole tracks
 * @nr: entries used in @w
 */
struct shingle_windows {
	bool exact;
	struct platter_reach reach;
	u64 dev;
	struct shingle_window w[2];
	u32 nr;
};

/* The device with the superblocks, the journal and the checkpoints. */
static inline enum shingle_dev shingle_meta_dev(const struct shingle_layout *l)
{
	return l->dev_blocks[SHINGLE_DEV_META] ? SHINGLE_DEV_META : SHINGLE_DEV_DATA;
}

/**
 * shingle_ckpt_block() - place of a block of a checkpoint
 * @l: layout
 * @slot: 0 or 1
 * @i: number of the block in the slot, below shingle_ckpt_room()
 *
 * Context: any.
 * Return: the block of the metadata device.
 */
static inline u64 shingle_ckpt_block(const struct shingle_layout *l, u32 slot, u64 i)
{
	u32 stretch = l->ckpt_stretch_blocks;

	return l->ckpt[slot].start + i + (stretch ? div_u64(i, stretch) * stretch : 0);
}

/**
 * shingle_ckpt_room() - capacity of a checkpoint slot
 * @l: layout
 * @slot: 0 or 1
 *
 * Context: any.
 * Return: number of blocks, including the footer.
 */
static inline u64 shingle_ckpt_room(const struct shingle_layout *l, u32 slot)
{
	u64 blocks = l->ckpt[slot].blocks, whole;
	u32 stretch = l->ckpt_stretch_blocks;

	if (!stretch)
		return blocks;
	whole = div_u64(blocks, 2 * stretch);
	return whole * stretch + min_t(u64, blocks - whole * 2 * stretch, stretch);
}

/**
 * shingle_ckpt_run() - number of contiguous blocks of a checkpoint from one on
 * @l: layout
 * @i: number of the block
 *
 * Context: any.
 * Return: the number.
 */
static inline u32 shingle_ckpt_run(const struct shingle_layout *l, u64 i)
{
	u32 stretch = l->ckpt_stretch_blocks;

	return stretch ? stretch - (u32)(i - div_u64(i, stretch) * stretch) : U32_MAX;
}

/**
 * shingle_ckpt_blocks() - recommended length of a checkpoint slot
 * @pieces: number of pieces of the engine's state
 *
 * Room for a checkpoint of all pieces, core's piece and the footer, and for as much again of
 * changed pieces.  So checkpoints write at most twice as much as has changed.
 *
 * Context: any.
 * Return: number of blocks.
 */
static inline u64 shingle_ckpt_blocks(u64 pieces)
{
	return 2 * (pieces + 2);
}

/**
 * shingle_txn_blocks() - blocks of the longest transaction
 * @l: layout
 *
 * A checkpoint needs room for two more: its own commit and one before.
 *
 * Context: any.
 * Return: number of blocks.
 */
static inline u32 shingle_txn_blocks(const struct shingle_layout *l)
{
	return clamp_t(u64, (l->journal.blocks - l->journal_gap_blocks) / 4, 1, 64);
}

/**
 * shingle_journal_mark() - number of blocks behind a transaction that confirm that it is complete
 * @l: layout
 *
 * Context: any.
 * Return: 1 if a journal write destroys following blocks, else 0.
 */
static inline u32 shingle_journal_mark(const struct shingle_layout *l)
{
	return l->journal_gap_blocks ? 1 : 0;
}

/**
 * shingle_journal_room() - blocks of the ring that transactions may fill
 * @l: layout
 *
 * Context: any.
 * Return: number of blocks.
 */
static inline u64 shingle_journal_room(const struct shingle_layout *l)
{
	return l->journal.blocks - l->journal_gap_blocks - shingle_journal_mark(l);
}

/* State of a block that should be the header of a target's device. */
enum shingle_member_fault {
	SHINGLE_MEMBER_OK,
	SHINGLE_MEMBER_DAMAGED,		/* it was this header once, or cannot be read */
	SHINGLE_MEMBER_FOREIGN,	/* no header, or the header of another device */
};

/* Room for a sentence about it, including two UUIDs. */
#define SHINGLE_MEMBER_WHY	192

void shingle_member_encode(const struct shingle_layout *l, enum shingle_dev dev, u64 block,
			   struct shingle_member *m);
enum shingle_member_fault shingle_member_examine(const struct shingle_layout *l,
						 enum shingle_dev dev, u64 block, const void *buf,
						 char *why);
bool shingle_member_name(const void *buf, char *name, size_t size);
void shingle_layout_encode(const struct shingle_layout *l, u64 block, struct shingle_sb *sb);
int shingle_layout_decode(const struct shingle_sb *sb, u64 block, struct shingle_layout *l,
			  const char **why);
struct shingle_room shingle_layout_room(const struct shingle_layout *l, enum shingle_dev dev,
					enum shingle_role role, u64 at);
int shingle_layout_add(struct shingle_layout *l, const struct shingle_group *entry,
		       const char **why);
void shingle_layout_index(struct shingle_layout *l);
int shingle_layout_check(const struct shingle_layout *l, const char **why);
u64 shingle_band_pblk(const struct shingle_layout *l, enum shingle_role role, u64 band);
const struct shingle_group *shingle_group_of(const struct shingle_layout *l, u64 pblk);
const struct shingle_group *shingle_group_from(const struct shingle_layout *l, u64 pblk);
bool shingle_band_of(const struct shingle_layout *l, u64 pblk, enum shingle_role *role,
		     u64 *band, u64 *offset);
void shingle_windows_begin(struct shingle_windows *it, const struct shingle_layout *l, u64 pblk,
			   u32 n);
bool shingle_neighbours_begin(struct shingle_windows *it, const struct shingle_layout *l,
			      u64 pblk, u32 n);
bool shingle_reach_next(struct shingle_windows *it, struct shingle_window *w);

/**
 * shingle_windows_next() - the next range
 * @it: the walk
 * @w: result
 *
 * Context: any.
 * Return: false if there is no other.
 */
static inline bool shingle_windows_next(struct shingle_windows *it, struct shingle_window *w)
{
	if (it->exact)
		return shingle_reach_next(it, w);
	if (!it->nr)
		return false;
	*w = it->w[--it->nr];
	return true;
}

/**
 * shingle_is_alone() - is it clear from the layout alone that a write destroys nothing?
 * @l: layout
 * @pblk: a block of it
 *
 * A quick check for every write to a plain disk, or to flash beside a shingled disk.
 *
 * Context: any.
 * Return: false if there may be windows.
 */
static inline bool shingle_is_alone(const struct shingle_layout *l, u64 pblk)
{
	enum shingle_dev dev = shingle_pblk_dev(pblk);

	return (l->head_tracks == 1 || !l->index.tracks[dev]) && !l->interlaced &&
	       !(dev < SHINGLE_NR_MEDIA && l->medium[dev].columns);
}

#endif /* SHINGLE_LAYOUT_H */
