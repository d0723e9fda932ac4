/* SPDX-License-Identifier: GPL-2.0 */
/* Sorted tables.  A table is in one band, which is written once, from its start. */
#ifndef KV_TABLE_H
#define KV_TABLE_H

#include "cache.h"
#include "store.h"

/* A block is full when it has at least this size.  The last entry may make it larger. */
#define TABLE_BLOCK	4096U
#define CRC_BYTES	4U
/* Offset of the Bloom filter in the cache; no block has this offset. */
#define AT_BLOOM	(U32_MAX - 1)
/* 10 bits for each key: about 1 % of the keys that are not in the table pass the filter. */
#define BLOOM_BITS	10U
#define BLOOM_HASHES	7U
/* Head of an index entry: le32 offset, le32 bytes with the checksum, le16 bytes of the key. */
#define INDEX_HEAD	10U
/*
 * In the index of an unsorted table the head has a le32 checksum besides, as no checksum follows a
 * write in the log.
 */
#define UNSORTED_HEAD	(INDEX_HEAD + CRC_BYTES)

struct table_writer;

int table_writer_new(struct kv *kv, uint64_t *counter, u32 level, struct table_writer **w);
bool table_has_room(const struct table_writer *w, u32 entries, u64 bytes, u32 max_key);
int table_add(struct table_writer *w, const struct entry *e, bool *full);
int table_finish(struct table_writer *w, u32 level, u64 age, struct part **part);
void table_abandon(struct table_writer *w);
int table_behind(struct kv *kv, const struct log_band *log, struct table_writer **w);
int table_note(struct table_writer *w, const struct entry *e);
u32 table_tail(u64 entries, u64 key_bytes);
bool table_fits(u32 room, u64 entries, u64 bytes, u32 max_key);

u32 table_crc(const struct kv *kv, u64 id, u32 offset, const void *data, u32 bytes);
u32 footer_crc(struct footer_block *f);
u32 histogram_crc(const struct kv *kv, u64 id, struct histogram *h);
bool bloom_has(const u8 *bits, u32 bytes, struct slice key);
void bloom_set(u8 *bits, u32 bytes, u32 hash);
u32 bloom_hash(struct slice key);

/**
 * struct index_place - place of a block, or of a write in an unsorted table
 * @offset: offset in the band
 * @bytes: size without the checksum
 * @behind: size of the checksum that follows; 0 if @crc is the checksum
 * @crc: the checksum, if @behind is 0
 * @last: the last key
 */
struct index_place {
	u32 offset, bytes, behind, crc;
	struct slice last;
};

/* @index: an index that table_index() has verified. */
u32 index_blocks(const struct cache_item *index);
struct index_place index_at(const struct cache_item *index, u32 nr);
u32 index_find(const struct cache_item *index, struct slice key);

int table_damaged(struct table *t, const char *fmt, ...) __printf(2, 3);
int table_no_last_key(struct table *t, const struct index_place *place);
bool place_right(const struct kv *kv, const struct table *t, const struct index_place *place,
		 const u8 *data);
int table_foot(struct kv *kv, struct part *p);
int table_read_foot(struct kv *kv, struct part *p);
int table_index(struct kv *kv, struct part *p, struct cache_item **item);
int table_bloom(struct kv *kv, struct part *p, struct cache_item **item);
void table_keep(struct kv *kv, struct table *t, const struct buffer *index,
		const struct buffer *place, struct cache_item *bloom);
void table_offer(struct kv *kv, u64 id, u32 offset, const void *data, u32 bytes);
bool table_read_by(struct kv *kv, struct table *t, const struct cache_item *index, u32 nr,
		   u32 bytes, bool back);
u32 table_tail_most(const struct table *t, u32 max_key);
int table_histogram(struct kv *kv, struct part *p, struct cache_item **item);
int table_find(struct kv *kv, struct part *p, struct slice key, u64 seq, bool *found, u8 *op,
	       struct buffer *value);

/*
 * A cursor over a part; NULL without memory.  @window: most bytes of one read.  @cached: take
 * blocks from the cache if it has them, and offer it the others.
 */
struct cursor *table_cursor(struct kv *kv, struct part *p, u32 window, uint64_t *counter,
			    bool cached);

#endif /* KV_TABLE_H */
