/* SPDX-License-Identifier: GPL-2.0 */
/*
 * On-disk format, common to all targets.  Documentation/on-disk-format.rst explains it byte by
 * byte; this header is its definition for compilers.
 *
 * The unit is a block of 4 KiB.  Everything is little-endian.  Every metadata block begins with the
 * same header, so that one check detects a block that was misdirected, torn, or left by another
 * device.
 */
#ifndef SHINGLE_FORMAT_H
#define SHINGLE_FORMAT_H

#include "pure.h"

#define SHINGLE_BLOCK_SHIFT	12
#define SHINGLE_BLOCK_SIZE	(1U << SHINGLE_BLOCK_SHIFT)
#define SHINGLE_SECTORS_SHIFT	(SHINGLE_BLOCK_SHIFT - 9)
#define SHINGLE_BLOCK_SECTORS	(1U << SHINGLE_SECTORS_SHIFT)

#define SHINGLE_VERSION		5

/* struct shingle_sb::media: blocks that a write destroys where bands have tracks */
#define SHINGLE_MEDIA_SHINGLED		0	/* the following tracks, by head_tracks */
#define SHINGLE_MEDIA_INTERLACED	1	/* from an even track, the tracks on both sides */

/* The type of a block, in its header: four letters, in disk order. */
#define SHINGLE_MAGIC_SB	0x42534853U	/* "SHSB" superblock */
#define SHINGLE_MAGIC_JOURNAL	0x4c4a4853U	/* "SHJL" journal block */
#define SHINGLE_MAGIC_CHUNK	0x4b434853U	/* "SHCK" checkpoint chunk */
#define SHINGLE_MAGIC_FOOTER	0x54464853U	/* "SHFT" checkpoint footer */
#define SHINGLE_MAGIC_PAGE	0x47504853U	/* "SHPG" page of a map */
#define SHINGLE_MAGIC_MEMBER	0x424d4853U	/* "SHMB" header of other devices */

#define SHINGLE_UUID_SIZE	16

/*
 * No device reaches this number by counting.  Blocks with a higher one are rejected, so that the
 * number after any accepted one does not overflow.
 */
#define SHINGLE_MAX_SEQ		(1ULL << 62)

/**
 * struct shingle_header - start of every metadata block
 * @magic: SHINGLE_MAGIC_*
 * @crc: crc32c, seeded with @magic, of the block from @uuid to its end
 * @uuid: UUID of the device to which the block belongs
 * @block: intended place of the block, in blocks of its device
 * @seq: superblock generation, journal transaction or checkpoint number, at most
 *	SHINGLE_MAX_SEQ
 */
struct shingle_header {
	__le32 magic;
	__le32 crc;
	__u8 uuid[SHINGLE_UUID_SIZE];
	__le64 block;
	__le64 seq;
} __packed;

/* struct shingle_sb::flags */
#define SHINGLE_SB_NEEDS_CHECK	0x1U	/* a metadata error was found */
/* A device, by enum shingle_dev, that stores no data and so has no header. */
#define SHINGLE_SB_UNMARKED(dev)	(0x100U << (dev))

/* struct shingle_disk_group::role */
enum shingle_role {
	SHINGLE_ROLE_DATA = 0,		/* native bands, in logical order */
	SHINGLE_ROLE_CACHE = 1,		/* persistent cache bands */
	SHINGLE_ROLE_STAGING = 2,	/* copies of bands being rewritten */
	SHINGLE_NR_ROLES
};

/* The device of the table line to which an address belongs. */
enum shingle_dev {
	SHINGLE_DEV_DATA = 0,
	SHINGLE_DEV_CACHE = 1,
	SHINGLE_DEV_META = 2,
	SHINGLE_NR_DEVS
};

/**
 * struct shingle_disk_group - bands of one role at equal distances
 * @start: first block of the first band
 * @stride: blocks from one band's start to the next, guard included; 0: the bands follow each
 *	other over tracks of any length, where shingle_take_bands() places them
 * @nr_bands: number of bands
 * @track_blocks: blocks per track there, 0 where the medium has no tracks, or with a @stride
 *	of 0
 * @role: enum shingle_role
 * @dev: enum shingle_dev
 * @band_blocks: blocks in a band, the same in all groups of the role
 * @pad: zero
 *
 * Groups of one role follow each other in band order.
 */
struct shingle_disk_group {
	__le64 start;
	__le64 stride;
	__le64 nr_bands;
	__le32 track_blocks;
	__le16 role;
	__le16 dev;
	__le32 band_blocks;
	__le32 pad;
} __packed;

#define SHINGLE_SB_GROUPS_OFFSET	512
#define SHINGLE_MAX_GROUPS	16

/* Maximum of the density of a surface, per mille of the usual one. */
#define SHINGLE_MAX_DENSITY	2000

/**
 * struct shingle_disk_zone - cylinders with tracks of one length on each surface
 * @cyls: cylinders
 * @track_blocks: blocks on a track of a surface of usual density
 * @swath_cyls: tracks of one surface before the next surface's turn
 * @track_skew: skew from a track to the next of the same run, in 512-byte sectors
 */
struct shingle_disk_zone {
	__le32 cyls;
	__le32 track_blocks;
	__le32 swath_cyls;
	__le32 track_skew;
} __packed;

/**
 * struct shingle_disk_conv - tracks that are as wide as the head
 * @start: first block, at the start of a track
 * @blocks: number of blocks
 */
struct shingle_disk_conv {
	__le64 start;
	__le64 blocks;
} __packed;

/**
 * struct shingle_disk_medium - geometry of a device's medium
 * @blocks: number of blocks that the geometry covers
 * @kind: 0 conventional, 1 shingled, 2 interlaced
 * @columns: 1 if it is known which blocks lie side by side; 0 if only the lengths of tracks
 *	are
 * @surfaces: recording surfaces
 * @nr_zones: entries used in @zone; 0 if nothing is known of the medium
 * @nr_conv: entries used in @conv
 * @pad: zero
 * @head_mtracks: width of the write head, 1/1000 track
 * @density: density of each surface, per mille
 * @zone: zones, from the outer diameter inwards
 * @conv: conventional ranges, ascending
 */
struct shingle_disk_medium {
	__le64 blocks;					/* 0 */
	__le16 kind;					/* 8 */
	__le16 columns;					/* 10 */
	__le16 surfaces;				/* 12 */
	__le16 nr_zones;				/* 14 */
	__le16 nr_conv;					/* 16 */
	__le16 pad;					/* 18 */
	__le32 head_mtracks;				/* 20 */
	__le16 density[32];				/* 24 */
	struct shingle_disk_zone zone[64];		/* 88 */
	struct shingle_disk_conv conv[16];		/* 1112 */
} __packed;

/* Devices that have bands, and therefore a geometry: DATA and CACHE. */
#define SHINGLE_NR_MEDIA	2

#define SHINGLE_SETTINGS_VERSION	1
#define SHINGLE_SETTINGS_BYTES		204

/**
 * struct shingle_disk_settings - features and keys for tools that open the device
 * @version: SHINGLE_SETTINGS_VERSION; 0 if there are none, and all else is zero
 * @bytes: used of @words, at least 1
 * @words: features and "key=value", separated by blanks, zero-padded
 *
 * The targets only preserve them: a table line contains its own options.
 */
struct shingle_disk_settings {
	__le16 version;
	__le16 bytes;
	char words[SHINGLE_SETTINGS_BYTES];
} __packed;

#define SHINGLE_ENGINE_NAME_SIZE	16
#define SHINGLE_LABEL_SIZE		32
#define SHINGLE_ENGINE_PARAMS_SIZE	256

/**
 * struct shingle_disk_area - a stretch of metadata blocks
 * @start: first block, on the metadata device
 * @blocks: length
 */
struct shingle_disk_area {
	__le64 start;
	__le64 blocks;
} __packed;

/**
 * struct shingle_sb - superblock, at block 0 and at the last block of the metadata device
 * @h: header; @h.seq grows by one at each rewrite; of two valid copies the higher is used
 * @version: SHINGLE_VERSION
 * @flags: SHINGLE_SB_*
 * @engine: name of the translation layer, zero-padded ("stl-set")
 * @label: free text, zero-padded
 * @logical_blocks: size of the device that the target presents
 * @dev_blocks: size of each device at format time, 0 where it has none
 * @ckpt: the two checkpoint slots
 * @journal: the journal ring
 * @journal_gap_blocks: number of following blocks that a journal write may destroy
 * @head_tracks: width of the write head in tracks, 1 on a conventional medium
 * @nr_groups: entries used in the group table
 * @pad: zero
 * @media: SHINGLE_MEDIA_*
 * @ctime: seconds since 1970 at format time
 * @params: parameters of the engine, in its own format
 * @ckpt_stretch_blocks: 0, or the number of contiguous blocks of a checkpoint slot, behind
 *	which as many are left unused
 * @pad2: zero
 * @pages: two blocks for each page of a paged map; otherwise empty
 * @reserved: zero
 * @groups: the group table
 * @medium: geometries of DATA and of CACHE
 * @settings: features and keys that tools put into a table line
 */
struct shingle_sb {
	struct shingle_header h;			/* 0 */
	__le32 version;					/* 40 */
	__le32 flags;					/* 44 */
	char engine[SHINGLE_ENGINE_NAME_SIZE];		/* 48 */
	char label[SHINGLE_LABEL_SIZE];			/* 64 */
	__le64 logical_blocks;				/* 96 */
	__le64 dev_blocks[SHINGLE_NR_DEVS];		/* 104 */
	struct shingle_disk_area ckpt[2];		/* 128 */
	struct shingle_disk_area journal;		/* 160 */
	__le64 journal_gap_blocks;			/* 176 */
	__le32 head_tracks;				/* 184 */
	__le32 nr_groups;				/* 188 */
	__le32 pad;					/* 192 */
	__le32 media;					/* 196 */
	__le64 ctime;					/* 200 */
	__u8 params[SHINGLE_ENGINE_PARAMS_SIZE];	/* 208 */
	__le32 ckpt_stretch_blocks;			/* 464 */
	__le32 pad2;					/* 468 */
	struct shingle_disk_area pages;			/* 472 */
	__u8 reserved[24];				/* 488 */
	struct shingle_disk_group groups[SHINGLE_MAX_GROUPS]; /* 512 */
	struct shingle_disk_medium medium[SHINGLE_NR_MEDIA]; /* 1152 */
	struct shingle_disk_settings settings;		/* 3888 */
} __packed;

/**
 * struct shingle_member - header of a device without superblocks, at block 0 and at its last block
 * @h: header; @h.uuid is the target's, @h.seq is 1
 * @version: SHINGLE_VERSION
 * @flags: zero
 * @engine: as in the superblock
 * @label: as in the superblock
 * @blocks: size of this device at format time
 * @dev: number of this device in the target, enum shingle_dev
 * @pad: zero
 * @ctime: as in the superblock
 * @reserved: zero
 *
 * Written when the devices are formatted, and later only by a repair.  Up to @label the fields are
 * at the same offsets as in the superblock, for tools that probe devices.
 */
struct shingle_member {
	struct shingle_header h;			/* 0 */
	__le32 version;					/* 40 */
	__le32 flags;					/* 44 */
	char engine[SHINGLE_ENGINE_NAME_SIZE];		/* 48 */
	char label[SHINGLE_LABEL_SIZE];			/* 64 */
	__le64 blocks;					/* 96 */
	__le32 dev;					/* 104 */
	__le32 pad;					/* 108 */
	__le64 ctime;					/* 112 */
	__u8 reserved[3976];				/* 120 */
} __packed;

/**
 * struct shingle_record - one change of a map
 * @type: below SHINGLE_REC_ENGINE core's own, else the engine's
 * @n: usually a number of blocks
 * @c: free for the type
 * @a: usually a logical address
 * @b: usually a physical address
 *
 * A record states a new value, never an increment: replaying it a second time changes nothing.
 * Checkpoints rely on that.  They are written while I/O goes on, so a piece may already contain a
 * change whose record recovery replays.
 */
struct shingle_record {
	__le16 type;
	__le16 n;
	__le32 c;
	__le64 a;
	__le64 b;
} __packed;

#define SHINGLE_REC_BAD		0x0001	/* block @a is unreadable */
#define SHINGLE_REC_GOOD	0x0002	/* @b blocks from @a on are readable again */
#define SHINGLE_REC_ENGINE	0x0100

#define SHINGLE_JOURNAL_RECORDS	168

/**
 * struct shingle_journal_block - one block of a journal transaction
 * @h: header; @h.seq is the number of the transaction
 * @prev_crc: @h.crc of the journal block written before this one
 * @index: number of this block in its transaction, from 0
 * @count: blocks of the transaction, which is valid only if all are there
 * @nr_records: entries used in @records
 * @pad: zero
 * @records: the changes, in order
 * @tail: zero
 *
 * Recovery follows the chain of @prev_crc.  An older block, of an earlier round of the ring or of
 * an activation that a power cut ended, does not continue the chain.
 */
struct shingle_journal_block {
	struct shingle_header h;			/* 0 */
	__le32 prev_crc;				/* 40 */
	__le16 index;					/* 44 */
	__le16 count;					/* 46 */
	__le32 nr_records;				/* 48 */
	__le32 pad;					/* 52 */
	struct shingle_record records[SHINGLE_JOURNAL_RECORDS]; /* 56 */
	__u8 tail[8];					/* 4088 */
} __packed;

#define SHINGLE_CHUNK_BYTES	4032

/**
 * struct shingle_chunk - a piece of a checkpoint
 * @h: header; @h.seq is the number of the checkpoint
 * @index: number of the piece of the engine's state, in the engine's own numbering
 * @bytes: bytes used in @payload
 * @tail_pad: zero
 * @payload: the piece
 * @tail: zero
 *
 * A checkpoint of all pieces leaves out those with the default state; a checkpoint of the changed
 * pieces contains them with @bytes 0.
 */
struct shingle_chunk {
	struct shingle_header h;			/* 0 */
	__le64 index;					/* 40 */
	__le32 bytes;					/* 48 */
	__le32 tail_pad;				/* 52 */
	__u8 payload[SHINGLE_CHUNK_BYTES];		/* 56 */
	__u8 tail[8];					/* 4088 */
} __packed;

/*
 * Indices from here up are core's: the unreadable blocks, then the places of pages.  All lower
 * indices are the engine's.
 */
#define SHINGLE_CHUNK_CORE	(1ULL << 63)

/**
 * struct shingle_footer - block behind the chunks of a checkpoint, written last
 * @h: header; @h.seq is the number of the checkpoint
 * @nr_chunks: number of chunks that precede it
 * @journal_seq: first transaction to replay
 * @journal_pos: its place in the ring, in blocks
 * @journal_prev_crc: required @prev_crc of its first block
 * @chunks_crc: crc32c over the header crcs of the chunks, in order
 * @first: block of the slot with the first of the chunks; 0: the checkpoint contains all
 *	pieces, otherwise those that have changed since the preceding checkpoint
 * @prev_crc: @h.crc of the footer of the preceding checkpoint, 0 if @first is 0
 * @reserved: zero
 */
struct shingle_footer {
	struct shingle_header h;			/* 0 */
	__le64 nr_chunks;				/* 40 */
	__le64 journal_seq;				/* 48 */
	__le64 journal_pos;				/* 56 */
	__le32 journal_prev_crc;			/* 64 */
	__le32 chunks_crc;				/* 68 */
	__le64 first;					/* 72 */
	__le32 prev_crc;				/* 80 */
	__u8 reserved[4012];				/* 84 */
} __packed;

static inline void shingle_format_check(void)
{
	BUILD_BUG_ON(sizeof(struct shingle_header) != 40);
	BUILD_BUG_ON(sizeof(struct shingle_disk_group) != 40);
	BUILD_BUG_ON(sizeof(struct shingle_disk_medium) != 1368);
	BUILD_BUG_ON(sizeof(struct shingle_record) != 24);
	BUILD_BUG_ON(offsetof(struct shingle_sb, groups) != SHINGLE_SB_GROUPS_OFFSET);
	BUILD_BUG_ON(sizeof(struct shingle_sb) != SHINGLE_BLOCK_SIZE);
	BUILD_BUG_ON(offsetof(struct shingle_member, version) !=
		     offsetof(struct shingle_sb, version));
	BUILD_BUG_ON(offsetof(struct shingle_member, label) != offsetof(struct shingle_sb, label));
	BUILD_BUG_ON(sizeof(struct shingle_member) != SHINGLE_BLOCK_SIZE);
	BUILD_BUG_ON(sizeof(struct shingle_journal_block) != SHINGLE_BLOCK_SIZE);
	BUILD_BUG_ON(sizeof(struct shingle_chunk) != SHINGLE_BLOCK_SIZE);
	BUILD_BUG_ON(sizeof(struct shingle_footer) != SHINGLE_BLOCK_SIZE);
}

#endif /* SHINGLE_FORMAT_H */
