/* SPDX-License-Identifier: GPL-2.0 */
/* The format on the disk.  Documentation/kv-format.rst describes it byte by byte. */
#ifndef KV_FORMAT_H
#define KV_FORMAT_H

#include <shim.h>

#include "disk.h"
#include "shingle-kv-magic.h"

#define FORMAT_VERSION	1U
#define TABLE_MAGIC	0x454c424154564bULL	/* "KVTABLE" */
#define LOG_MAGIC	0x474f4c564bULL		/* "KVLOG" */
#define BANDS_MAGIC	KV_BANDS_MAGIC

/* Slots for two generations of the band table, two copies of each. */
#define COPIES		2U
#define SLOTS		(2U * COPIES)

/*
 * Limits of the numbers that are given out in turn.  They leave room to give out some more before a
 * limit is checked.  The number of a write has seven bytes on the disk.
 */
#define NUMBERS_END	(1ULL << 62)
#define SEQ_END		((1ULL << 56) - 1)

/*
 * All numbers are little-endian.  @crc is computed with @crc as 0.  In the header of an offload
 * device @uuid is the UUID of the store, and there is no band table.  In the header of a store @own
 * is 0.
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
	KIND_UNSORTED = 3,	/* a log band that became a table as it was */
};

/* An entry of the band table; the least and the largest key follow it. */
struct bands_entry {
	__le32 band;
	u8 kind, level;
	__le16 min_bytes, max_bytes, pad;
	__le32 bytes;
	__le64 id, age, entries, tombstones;
};

/* Size of an entry with two keys of the largest length. */
#define BANDS_ENTRY_MAX	((u32)sizeof(struct bands_entry) + 2 * KV_KEY_MAX)

/* The last block of a table; the least and the largest key follow @crc. */
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

/*
 * Each bucket stands for the same number of bytes, the last one for fewer.  A bucket has the key
 * that it begins with.
 */
struct histogram {
	__le64 magic;
	__le32 crc, buckets;
	__le64 bytes;
	struct {
		u8 bytes, key[HISTOGRAM_KEY];
	} bucket[BUCKETS];
	u8 zero[BLOCK_BYTES - 24 - BUCKETS * 32];
};

/* Header of a chunk of a log; the batches follow it. */
struct chunk_head {
	__le64 magic;
	__le32 crc, bytes;
	__le64 id, number, synced;
	__le64 generation;
};

/* Header of a batch; its entries follow it. */
struct batch_head {
	__le32 entries, bytes;
};

enum header_kind {
	HEADER_STORE,
	HEADER_OFFLOAD,
	HEADER_UNFINISHED,	/* header of a checkpoint that is being written */
};

/**
 * struct shape - contents of a header in memory
 * @uuid: UUID of the store
 * @organisation: enum kv_organisation
 * @band_bytes: size of a band
 * @bands: number of bands
 * @device_bytes: size of the device when the store was made
 * @slot_offset: offset of the first slot of the band table
 * @slot_bytes: size of a slot
 * @bands_offset: offset of the first band
 * @kind: kind of the header
 * @own: UUID of an offload device
 */
struct shape {
	u8 uuid[16];
	u32 organisation, band_bytes, bands;
	u64 device_bytes, slot_offset, slot_bytes, bands_offset;
	enum header_kind kind;
	u8 own[16];
};

/**
 * struct footer - contents of a footer in memory
 * @data_bytes: size of the blocks
 * @index_bytes: size of the index, without the checksum behind it
 * @bloom_bytes: size of the Bloom filter, without the checksum behind it
 * @blocks: number of blocks
 */
struct footer {
	u32 data_bytes, index_bytes, bloom_bytes, blocks;
};

#endif /* KV_FORMAT_H */
