/* SPDX-License-Identifier: GPL-2.0 */
/* What is on the disk; Documentation/kv.rst has it byte by byte. */
#ifndef KV_FORMAT_H
#define KV_FORMAT_H

#include <shim.h>

#include "disk.h"
#include "shingle-kv-magic.h"

#define FORMAT_VERSION	1U
#define TABLE_MAGIC	0x454c424154564bULL	/* "KVTABLE" */
#define LOG_MAGIC	0x474f4c564bULL		/* "KVLOG" */
#define BANDS_MAGIC	KV_BANDS_MAGIC

/* Two generations of the band table, two copies of each. */
#define COPIES		2U
#define SLOTS		(2U * COPIES)

/*
 * Above all numbers that are given in turn, with room to give some more before anybody
 * looks; those of writes have seven bytes, of which a larger one would not be itself.
 */
#define NUMBERS_END	(1ULL << 62)
#define SEQ_END		((1ULL << 56) - 1)

/*
 * All numbers are little-endian; crc is of what is there with crc as 0.  Of an offload device
 * @uuid is the store's, and there is no band table; of a store @own is 0.
 */
struct header {
	__le64 magic;
	__le32 version, crc;
	u8 uuid[16];
	__le32 organisation, band_bytes, bands, pad;
	__le64 device_bytes, slot_offset, slot_bytes, bands_offset, copy_offset;
	u8 own[16];
	u8 zero[BLOCK_BYTES - 104];
};

struct bands_head {
	__le64 magic;
	__le32 version, crc;
	u8 uuid[16];
	__le64 generation, next_id, next_age, seq;
	__le32 entries, bytes, body_crc, pad;
	u8 offload[16];
	u8 zero[BLOCK_BYTES - 96];
};

enum {
	KIND_LOG = 1,
	KIND_TABLE = 2,
	KIND_UNSORTED = 3,	/* a table in the log that it was written as */
};

/* Followed by the least and the largest key. */
struct bands_entry {
	__le32 band;
	u8 kind, level;
	__le16 min_bytes, max_bytes, pad;
	__le32 bytes;
	__le64 id, age, entries, tombstones;
};

/* With the longest keys. */
#define BANDS_ENTRY_MAX	((u32)sizeof(struct bands_entry) + 2 * KV_KEY_MAX)

/* The last block of a table; both keys follow @crc. */
struct footer_block {
	__le64 magic;
	__le32 version, crc;
	u8 uuid[16];
	__le64 id, entries, tombstones, seq;
	__le32 data_bytes, index_bytes, bloom_bytes, blocks;
	__le16 min_bytes, max_bytes;
	__le32 pad;
	u8 keys[BLOCK_BYTES - 88];
};

#define HISTOGRAM_KEY	31U
#define BUCKETS		126U

/* Buckets of as many bytes each, the last with less; the key each begins with. */
struct histogram {
	__le64 magic;
	__le32 crc, buckets;
	__le64 bytes;
	struct {
		u8 bytes, key[HISTOGRAM_KEY];
	} bucket[BUCKETS];
	u8 zero[BLOCK_BYTES - 24 - BUCKETS * 32];
};

/* Before the writes in a chunk of a log. */
struct chunk_head {
	__le64 magic;
	__le32 crc, bytes;
	__le64 id, number, synced;
	__le64 generation;
};

/* Before the entries of a batch. */
struct batch_head {
	__le32 entries, bytes;
};

enum header_kind {
	HEADER_STORE,
	HEADER_OFFLOAD,
	HEADER_UNFINISHED,	/* of a checkpoint that is being written */
};

/**
 * struct shape - a header, as the program has it
 * @uuid: of the store
 * @organisation: enum kv_organisation
 * @band_bytes: see there
 * @bands: how many
 * @device_bytes: as it was when the store was made
 * @slot_offset: of the first band table
 * @slot_bytes: of each
 * @bands_offset: of the first band
 * @kind: of what it is the header
 * @own: UUID of that
 */
struct shape {
	u8 uuid[16];
	u32 organisation, band_bytes, bands;
	u64 device_bytes, slot_offset, slot_bytes, bands_offset;
	enum header_kind kind;
	u8 own[16];
};

/**
 * struct footer - a footer, as the program has it
 * @data_bytes: of the blocks
 * @index_bytes: without the checksum behind it, as @bloom_bytes
 * @bloom_bytes: of the Bloom filter
 * @blocks: how many
 */
struct footer {
	u32 data_bytes, index_bytes, bloom_bytes, blocks;
};

#endif /* KV_FORMAT_H */
