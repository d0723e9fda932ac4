// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes the reader of tables.  An input has the pieces of a table without the padding between them
 * and without checksums, which a mutation would have to guess.  For an unsorted table, the blocks
 * are the contents of the only chunk of its log.
 */
#include "fuzz.h"
#include "../kv/table.h"

#define ID	7U
#define NEXT	100U

/* Add the checksum of each block that the index names. */
static void seal_blocks(u8 *table, const u8 *index, u32 index_bytes, u32 data_bytes,
			u32 blocks)
{
	u32 at = 0, offset, bytes;

	while (blocks-- && index_bytes - at >= INDEX_HEAD) {
		offset = (u32)get_le(index + at, 4);
		bytes = (u32)get_le(index + at + 4, 4);
		if (bytes < CRC_BYTES || offset > data_bytes || bytes > data_bytes - offset)
			return;
		bytes -= CRC_BYTES;
		put_le(table + offset + bytes,
		       table_crc(&use_shape, ID, offset, table + offset, bytes), CRC_BYTES);
		at += min(INDEX_HEAD + (u32)get_le(index + at + 8, 2), index_bytes - at);
	}
}

/* Add the checksums of the writes that the index of an unsorted table names. */
static void seal_writes(const u8 *table, u8 *index, u32 index_bytes, u32 data_bytes, u32 blocks)
{
	u32 at = 0, offset, bytes;

	while (blocks-- && index_bytes - at >= UNSORTED_HEAD) {
		offset = (u32)get_le(index + at, 4);
		bytes = (u32)get_le(index + at + 4, 4);
		if (offset > data_bytes || bytes > data_bytes - offset)
			return;
		put_le(index + at + INDEX_HEAD,
		       table_crc(&use_shape, ID, offset, table + offset, bytes), CRC_BYTES);
		at += min(UNSORTED_HEAD + (u32)get_le(index + at + 8, 2), index_bytes - at);
	}
}

static u32 put_chunk(u8 *table, const u8 *from, u32 bytes)
{
	struct chunk_head *h = (struct chunk_head *)table;

	*h = (struct chunk_head){
		.magic = cpu_to_le64(LOG_MAGIC), .bytes = cpu_to_le32(bytes),
		.id = cpu_to_le64(ID), .generation = cpu_to_le64(use_shape.bandtable.generation),
	};
	memcpy(h + 1, from, bytes);
	h->crc = cpu_to_le32(chunk_crc(&use_shape, h, bytes));
	return (u32)round_up(sizeof(*h) + bytes, (size_t)BLOCK_BYTES);
}

static u32 piece(u8 *table, u32 at, const u8 *from, size_t bytes)
{
	if (bytes)
		memmove(table + at, from, bytes);
	put_le(table + at + bytes, table_crc(&use_shape, ID, at, table + at, (u32)bytes),
	       CRC_BYTES);
	return at + (u32)bytes + CRC_BYTES;
}

static void put_histogram(u8 *table, u32 at, const u8 *from, size_t bytes)
{
	struct histogram *h = (struct histogram *)(table + at);

	memset(h, 0, sizeof(*h));
	if (bytes)
		memcpy(&h->buckets, from, min(bytes, sizeof(*h) - 12));
	h->magic = cpu_to_le64(TABLE_MAGIC);
	h->crc = cpu_to_le32(histogram_crc(&use_shape, ID, h));
}

static void eat_as(struct input in, u8 kind)
{
	size_t want[4], got[4];
	const u8 *from[4], *both;
	struct bands_entry e = { .band = cpu_to_le32(1), .kind = kind,
				 .id = cpu_to_le64(ID), .age = cpu_to_le64(1) };
	u8 body[sizeof(e) + 2 * (KV_KEY_MAX + 1)], *table;
	struct footer_block f = { .magic = cpu_to_le64(TABLE_MAGIC) };
	u32 at, i, min_bytes, max_bytes;
	size_t keys;

	e.level = (u8)take(&in, 1) % 3;
	for (i = 0; i < 4; i++)
		want[i] = take(&in, 2) % 12000;
	f.entries = cpu_to_le64(take(&in, 2));
	f.tombstones = cpu_to_le64(take(&in, 2));
	f.blocks = cpu_to_le32((u32)take(&in, 4));
	min_bytes = (u32)take(&in, 2) % (KV_KEY_MAX + 2);
	max_bytes = (u32)take(&in, 2) % (KV_KEY_MAX + 2);
	both = take_bytes(&in, min_bytes + max_bytes, &keys);
	if (keys)
		memcpy(f.keys, both, keys);
	/* Blocks, index, Bloom filter, histogram. */
	for (i = 0; i < 4; i++)
		from[i] = take_bytes(&in, want[i], &got[i]);
	if (keys < min_bytes + max_bytes || got[0] < CRC_BYTES)
		return;
	table = disk_at(use_shape.head.bands_offset + BAND, BAND);
	memset(table, 0, BAND);
	at = (u32)got[0];
	if (kind == KIND_TABLE) {
		memcpy(table, from[0], got[0]);
		seal_blocks(table, from[1], (u32)got[1], at, le32_to_cpu(f.blocks));
	} else {
		at = put_chunk(table, from[0], at);
		if (got[1])
			memcpy(table + at, from[1], got[1]);
		seal_writes(table, table + at, (u32)got[1], at, le32_to_cpu(f.blocks));
		from[1] = table + at;
	}
	f.data_bytes = cpu_to_le32(at);
	at = piece(table, at, from[1], got[1]);
	at = round_up(piece(table, at, from[2], got[2]), BLOCK_BYTES);
	put_histogram(table, at, from[3], got[3]);
	f.version = cpu_to_le32(FORMAT_VERSION);
	memcpy(f.uuid, use_shape.head.uuid, sizeof(f.uuid));
	f.id = e.id;
	f.index_bytes = cpu_to_le32((u32)got[1]);
	f.bloom_bytes = cpu_to_le32((u32)got[2]);
	f.min_bytes = cpu_to_le16((u16)min_bytes);
	f.max_bytes = cpu_to_le16((u16)max_bytes);
	f.crc = cpu_to_le32(footer_crc(&f));
	memcpy(table + at + BLOCK_BYTES, &f, sizeof(f));
	e.bytes = cpu_to_le32(at + 2 * BLOCK_BYTES);
	e.entries = f.entries;
	e.tombstones = f.tombstones;
	e.min_bytes = f.min_bytes;
	e.max_bytes = f.max_bytes;
	memcpy(body, &e, sizeof(e));
	memcpy(body + sizeof(e), f.keys, keys);
	use_bands(use_shape.bandtable.generation + 1, NEXT, NEXT, NEXT, 1, body, sizeof(e) + keys);
	use_store();
}

static void eat(struct input in)
{
	eat_as(in, KIND_TABLE);
}

static void begin(void)
{
	use_begin(false, KV_SOC);
}

static void eat_unsorted(struct input in)
{
	eat_as(in, KIND_UNSORTED);
}

static void begin_unsorted(void)
{
	use_begin(false, KV_BUFFERED);
}

const struct harness harness_unsorted = {
	.name = "unsorted", .begin = begin_unsorted, .eat = eat_unsorted,
};

const struct harness harness_table = { .name = "table", .begin = begin, .eat = eat };
