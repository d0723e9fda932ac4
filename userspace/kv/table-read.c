// SPDX-License-Identifier: GPL-2.0
/* Reading tables.  Everything is verified by its checksum. */
#include <stdarg.h>

#include "table.h"

/* Offsets in the cache, as AT_BLOOM is. */
#define AT_INDEX	(U32_MAX - 0)
#define AT_HISTOGRAM	(U32_MAX - 2)

/**
 * table_damaged() - report damage in a band, and mark its table as damaged
 * @t: the table
 * @fmt: description of the damage
 *
 * Return: -EUCLEAN, with the message set.
 */
int table_damaged(struct table *t, const char *fmt, ...)
{
	char what[160];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	__atomic_store_n(&t->damaged, true, __ATOMIC_RELAXED);
	return kv_says(-EUCLEAN, "band %u (table %llu): %s", t->band, t->id, what);
}

/*
 * The last key of a block differs from the one in the index.  A reader that relied on the index
 * would miss keys.
 */
int table_no_last_key(struct table *t, const struct index_place *place)
{
	return table_damaged(t, "the block at byte %u has another last key", place->offset);
}

/* Read a piece of a band.  The piece begins at @at in @buf, which the caller must free. */
static int read_bytes(struct kv *kv, struct table *t, u32 offset, u32 bytes, u8 **buf, u8 **at)
{
	u32 first = rounddown(offset, BLOCK_BYTES);
	u32 size = round_up(offset + bytes, BLOCK_BYTES) - first;
	struct kv_disk *d = band_disk(kv, t->band);
	int err;

	*buf = aligned_alloc(BLOCK_BYTES, size);
	if (!*buf)
		return kv_no_memory();
	err = d->ops->read(d, band_offset(kv, t->band) + first, *buf, size);
	if (err) {
		free(*buf);
		*buf = NULL;
		return kv_says(err, "band %u (table %llu): byte %u cannot be read: %s", t->band,
			       t->id, first, strerror(-err));
	}
	count(&kv->stats.read_bytes, size);
	*at = *buf + (offset - first);
	return 0;
}

static int parse_foot(struct kv *kv, struct part *p, struct footer_block *f,
		      struct footer *foot)
{
	u32 min_bytes = le16_to_cpu(f->min_bytes), max_bytes = le16_to_cpu(f->max_bytes);
	struct table *t = p->table;
	u64 sum;

	if (le64_to_cpu(f->magic) != TABLE_MAGIC || le32_to_cpu(f->version) != FORMAT_VERSION ||
	    memcmp(f->uuid, kv->head.uuid, sizeof(f->uuid)) || le64_to_cpu(f->id) != t->id)
		return table_damaged(t, "the footer belongs to another table");
	if (le32_to_cpu(f->crc) != footer_crc(f))
		return table_damaged(t, "wrong checksum of the footer");
	*foot = (struct footer){
		.data_bytes = le32_to_cpu(f->data_bytes),
		.index_bytes = le32_to_cpu(f->index_bytes),
		.bloom_bytes = le32_to_cpu(f->bloom_bytes),
		.blocks = le32_to_cpu(f->blocks),
	};
	sum = (u64)foot->data_bytes + foot->index_bytes + foot->bloom_bytes + 2 * CRC_BYTES;
	if (!foot->blocks || !foot->bloom_bytes || foot->blocks > foot->index_bytes / 4 ||
	    (t->unsorted && foot->data_bytes % BLOCK_BYTES) ||
	    round_up(sum, (u64)BLOCK_BYTES) + 2 * BLOCK_BYTES != t->bytes ||
	    min_bytes + max_bytes > sizeof(f->keys) ||
	    le64_to_cpu(f->entries) != t->entries ||
	    le64_to_cpu(f->tombstones) != t->tombstones ||
	    slice_cmp(slice(f->keys, min_bytes), p->min) > 0 ||
	    slice_cmp(slice(f->keys + min_bytes, max_bytes), p->max))
		return table_damaged(t, "the footer contradicts the band table");
	return 0;
}

/* Stored behind an index in memory. */
struct index_end {
	u32 blocks, unsorted;
};

static struct index_end index_end(const struct cache_item *index)
{
	struct index_end end;

	memcpy(&end, index->data + index->bytes - sizeof(end), sizeof(end));
	return end;
}

u32 index_blocks(const struct cache_item *index)
{
	return index_end(index).blocks;
}

static struct index_place place_at(const struct cache_item *index, struct index_end end, u32 nr)
{
	u32 places = index->bytes - (u32)sizeof(end) - 4 * end.blocks;
	u32 head = end.unsorted ? UNSORTED_HEAD : INDEX_HEAD;
	const u8 *at = index->data + get_le(index->data + places + 4 * nr, 4);
	u32 behind = end.unsorted ? 0 : CRC_BYTES;

	return (struct index_place){
		.offset = (u32)get_le(at, 4),
		.bytes = (u32)get_le(at + 4, 4) - behind,
		.behind = behind,
		.crc = end.unsorted ? (u32)get_le(at + INDEX_HEAD, 4) : 0,
		.last = slice(at + head, get_le(at + 8, 2)),
	};
}

struct index_place index_at(const struct cache_item *index, u32 nr)
{
	return place_at(index, index_end(index), nr);
}

/* Return: the first block that does not end before @key, the only one that may have it first. */
u32 index_find(const struct cache_item *index, struct slice key)
{
	struct index_end end = index_end(index);
	u32 low = 0, high = end.blocks, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (slice_cmp(place_at(index, end, middle).last, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Verify that index_at() will be right for each block. */
static bool index_sane(const struct cache_item *index, const struct footer *foot)
{
	u32 places = foot->index_bytes - 4 * foot->blocks, i, at = 0, data = 0, key, bytes;
	bool unsorted = index_end(index).unsorted;
	u32 head = unsorted ? UNSORTED_HEAD : INDEX_HEAD;
	struct index_place p, last = { .offset = 0 };

	for (i = 0; i < foot->blocks; i++, last = p) {
		if (get_le(index->data + places + 4 * i, 4) != at || places - at < head)
			return false;
		key = (u32)get_le(index->data + at + 8, 2);
		if (!key || key > KV_KEY_MAX || key > places - at - head)
			return false;
		p = index_at(index, i);
		bytes = (u32)get_le(index->data + at + 4, 4);
		/* The writes of a log are in no order of their keys. */
		if (unsorted)
			data = min(p.offset, foot->data_bytes);
		if (p.offset != data || bytes <= p.behind + ENTRY_HEAD ||
		    bytes > foot->data_bytes - data ||
		    (i && slice_cmp(last.last, p.last) > 0))
			return false;
		at += head + key;
		data += bytes;
	}
	return at == places && (unsorted || data == foot->data_bytes);
}

/**
 * place_right() - verify the checksum of a block or of a write
 * @kv: the store
 * @t: the table
 * @place: its place
 * @data: its bytes, followed by those of its checksum
 *
 * Return: True if the checksum is right.
 */
bool place_right(const struct kv *kv, const struct table *t, const struct index_place *place,
		 const u8 *data)
{
	u32 crc = place->behind ? (u32)get_le(data + place->bytes, CRC_BYTES) : place->crc;

	return crc == table_crc(kv, t->id, place->offset, data, place->bytes);
}

/* Get a verified piece, from the cache or else, with @fresh set, from the disk. */
static int piece(struct kv *kv, struct table *t, u32 key, const struct index_place *place,
		 u32 spare, const char *name, struct cache_item **item, bool *fresh)
{
	u32 offset = place->offset, bytes = place->bytes;
	u8 *buf, *at;
	int err;

	*fresh = false;
	*item = cache_get(kv->cache, t->id, key);
	if (*item)
		return 0;
	err = read_bytes(kv, t, offset, bytes + place->behind, &buf, &at);
	if (err)
		return err;
	if (!place_right(kv, t, place, at)) {
		err = table_damaged(t, "wrong checksum of %s at byte %u", name, offset);
	} else {
		*item = cache_item_new(t->id, key, bytes + spare);
		err = *item ? 0 : kv_no_memory();
	}
	if (!err) {
		memcpy((*item)->data, at, bytes);
		*fresh = true;
	}
	free(buf);
	return err;
}

static struct index_place index_place(const struct footer *foot)
{
	return (struct index_place){ .offset = foot->data_bytes, .bytes = foot->index_bytes,
				     .behind = CRC_BYTES };
}

static struct index_place bloom_place(const struct footer *foot)
{
	return (struct index_place){ .offset = foot->data_bytes + foot->index_bytes + CRC_BYTES,
				     .bytes = foot->bloom_bytes, .behind = CRC_BYTES };
}

/*
 * Complete an index for index_at().  Return: false if it contradicts itself; the item is freed
 * then.
 */
static bool index_ready(struct table *t, const struct footer *foot, struct cache_item *item)
{
	struct index_end end = { .blocks = foot->blocks, .unsorted = t->unsorted };

	memcpy(item->data + foot->index_bytes, &end, sizeof(end));
	if (index_sane(item, foot))
		return true;
	free(item);
	return false;
}

/*
 * Cache the index or the Bloom filter out of bytes that begin at @from in the band.  A wrong piece
 * is left out.
 */
static void keep_piece(struct kv *kv, struct table *t, const struct footer *foot, u32 key,
		       const struct index_place *place, const u8 *bytes, u32 from)
{
	struct cache_item *item;
	const u8 *at;

	if (place->offset < from)
		return;
	at = bytes + (place->offset - from);
	if (!place_right(kv, t, place, at))
		return;
	item = cache_item_new(t->id, key, place->bytes +
			      (key == AT_INDEX ? (u32)sizeof(struct index_end) : 0));
	if (!item)
		return;
	memcpy(item->data, at, place->bytes);
	if (key != AT_INDEX || index_ready(t, foot, item))
		cache_put(kv->cache, cache_add(kv->cache, item));
}

static bool has_foot(struct kv *kv, const struct table *t)
{
	return __atomic_load_n(&t->footed, __ATOMIC_ACQUIRE);
}

static void have_foot(struct kv *kv, struct table *t, const struct footer *foot)
{
	pthread_mutex_lock(&kv->lock);
	/* Other threads read it as soon as @footed is set. */
	if (!t->footed)
		t->foot = *foot;
	__atomic_store_n(&t->footed, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&kv->lock);
}

/**
 * table_read_foot() - read the footer, and with it the index and the Bloom filter
 * @kv: the store
 * @p: a part of the table
 *
 * Their exact sizes are only in the footer, but an upper bound is known.  Reading somewhat too much
 * costs a disk less than two more accesses.
 *
 * Return: 0 or -errno with the message set.
 */
int table_read_foot(struct kv *kv, struct part *p)
{
	struct index_place index, bloom;
	struct table *t = p->table;
	struct footer foot;
	u32 bytes = min(table_tail_most(t, max(p->min.bytes, p->max.bytes)), t->bytes);
	u8 *buf, *at;
	int err = read_bytes(kv, t, t->bytes - bytes, bytes, &buf, &at);

	if (err) {
		bytes = BLOCK_BYTES;
		err = read_bytes(kv, t, t->bytes - bytes, bytes, &buf, &at);
	}
	if (err)
		return err;
	err = parse_foot(kv, p, (struct footer_block *)(at + bytes - BLOCK_BYTES), &foot);
	if (!err) {
		index = index_place(&foot);
		bloom = bloom_place(&foot);
		keep_piece(kv, t, &foot, AT_INDEX, &index, at, t->bytes - bytes);
		keep_piece(kv, t, &foot, AT_BLOOM, &bloom, at, t->bytes - bytes);
		have_foot(kv, t, &foot);
	}
	free(buf);
	return err;
}

/* Read the footer, unless this has been done. */
int table_foot(struct kv *kv, struct part *p)
{
	return has_foot(kv, p->table) ? 0 : table_read_foot(kv, p);
}

/**
 * table_keep() - cache the index and the Bloom filter of a table that was just written
 * @kv: the store
 * @t: the table, which no other thread knows yet; its footer is set
 * @index: the entries of the index
 * @place: offsets of these entries
 * @bloom: the filter; the caller loses its reference
 */
void table_keep(struct kv *kv, struct table *t, const struct buffer *index,
		const struct buffer *place, struct cache_item *bloom)
{
	u32 bytes = (u32)(index->used + place->used);
	struct cache_item *item = cache_item_new(t->id, AT_INDEX,
						 bytes + (u32)sizeof(struct index_end));

	if (item) {
		memcpy(item->data, index->data, index->used);
		memcpy(item->data + index->used, place->data, place->used);
		if (index_ready(t, &t->foot, item))
			cache_put(kv->cache, cache_add(kv->cache, item));
	}
	cache_put(kv->cache, cache_add(kv->cache, bloom));
}

/* Offer the cache a block that was read or written; without memory nothing happens. */
void table_offer(struct kv *kv, u64 id, u32 offset, const void *data, u32 bytes)
{
	struct cache_item *item;

	if (!cache_room(kv->cache, sizeof(*item) + bytes))
		return;
	item = cache_item_new(id, offset, bytes);
	if (!item)
		return;
	memcpy(item->data, data, bytes);
	cache_offer(kv->cache, item);
}

int table_index(struct kv *kv, struct part *p, struct cache_item **item)
{
	struct table *t = p->table;
	struct index_place place;
	int err = table_foot(kv, p);
	bool fresh;

	*item = NULL;
	if (err)
		return err;
	place = index_place(&t->foot);
	err = piece(kv, t, AT_INDEX, &place, sizeof(struct index_end), "the index", item,
		    &fresh);
	if (err || !fresh)
		return err;
	if (!index_ready(t, &t->foot, *item)) {
		*item = NULL;
		return table_damaged(t, "the index is inconsistent");
	}
	*item = cache_add(kv->cache, *item);
	return 0;
}

int table_bloom(struct kv *kv, struct part *p, struct cache_item **item)
{
	struct table *t = p->table;
	struct index_place place;
	int err = table_foot(kv, p);
	bool fresh;

	*item = NULL;
	place = bloom_place(&t->foot);
	if (!err)
		err = piece(kv, t, AT_BLOOM, &place, 0, "the Bloom filter", item, &fresh);
	if (!err && fresh)
		*item = cache_add(kv->cache, *item);
	return err;
}

int table_histogram(struct kv *kv, struct part *p, struct cache_item **item)
{
	struct table *t = p->table;
	struct histogram *h;
	u8 *buf, *at;
	u32 i, nr;
	int err;

	*item = cache_get(kv->cache, t->id, AT_HISTOGRAM);
	if (*item)
		return 0;
	err = read_bytes(kv, t, t->bytes - 2 * BLOCK_BYTES, BLOCK_BYTES, &buf, &at);
	if (err)
		return err;
	h = (struct histogram *)at;
	nr = le32_to_cpu(h->buckets);
	if (le32_to_cpu(h->crc) != histogram_crc(kv, t->id, h) || !nr || nr > BUCKETS)
		err = table_damaged(t, "wrong checksum of the histogram");
	for (i = 0; i < nr && !err; i++) {
		if (h->bucket[i].bytes > HISTOGRAM_KEY)
			err = table_damaged(t, "the histogram is inconsistent");
	}
	if (!err) {
		*item = cache_item_new(t->id, AT_HISTOGRAM, sizeof(*h));
		err = *item ? 0 : kv_no_memory();
	}
	if (!err) {
		memcpy((*item)->data, h, sizeof(*h));
		*item = cache_add(kv->cache, *item);
	}
	free(buf);
	return err;
}

/*
 * Return in @from and @to the blocks from @nr on, and before it, that begin in the piece of the
 * band with @bytes bytes from @begin; block @nr is always included.
 */
static void blocks_in(const struct cache_item *index, u32 nr, u32 begin, u32 bytes, u32 *from,
		      u32 *to)
{
	*from = nr;
	*to = nr;
	while (*from && index_at(index, *from - 1).offset >= begin)
		--*from;
	while (*to + 1 < index_blocks(index) && index_at(index, *to + 1).offset - begin < bytes)
		++*to;
}

/**
 * table_read_by() - read blocks around or behind a block, and offer them to the cache
 * @kv: the store
 * @t: the table
 * @index: its index
 * @nr: number of the block
 * @bytes: how much to read, from the block on, if the cache has room for it; 0: read the aligned
 *	piece of around_bytes that the block begins in
 * @back: with @bytes, read what ends with the block instead
 *
 * Reading more in the same access costs a disk next to nothing.  A wrong block is skipped: the
 * reader that needs it will report it.  Unsorted tables are left out, as neighbours of a write are
 * unrelated.  If the block begins where the last piece ended, readers probably follow the order of
 * keys, and the piece is twice as long as the last one.
 *
 * Return: True if the block was read.
 */
bool table_read_by(struct kv *kv, struct table *t, const struct cache_item *index, u32 nr,
		   u32 bytes, bool back)
{
	struct index_place p = index_at(index, nr), last;
	u32 begin = p.offset, end = begin + p.bytes + p.behind, from, to, last_bytes;
	u8 *buf, *at;

	if (kv->opt.around_bytes == BLOCK_BYTES && !bytes)
		return false;
	if (!back && begin && begin == __atomic_load_n(&t->read_end, __ATOMIC_RELAXED)) {
		last_bytes = __atomic_load_n(&t->read_bytes, __ATOMIC_RELAXED);
		bytes = max(bytes, min(2 * last_bytes, WINDOW_BYTES));
	} else if (!bytes) {
		bytes = kv->opt.around_bytes;
		begin = rounddown(begin, bytes);
	} else if (back) {
		begin = min(begin, end - min(end, bytes));
		bytes = end - begin;
	}
	if (t->unsorted || bytes == BLOCK_BYTES || !cache_room(kv->cache, bytes))
		return false;
	blocks_in(index, nr, begin, bytes, &from, &to);
	begin = index_at(index, from).offset;
	last = index_at(index, to);
	bytes = last.offset + last.bytes + last.behind - begin;
	/* The last block may be much longer than the piece; then it would be read for nothing. */
	if (!cache_room(kv->cache, bytes) || read_bytes(kv, t, begin, bytes, &buf, &at))
		return false;
	__atomic_store_n(&t->read_end, begin + bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&t->read_bytes, bytes, __ATOMIC_RELAXED);
	for (; from <= to; from++) {
		p = index_at(index, from);
		if (place_right(kv, t, &p, at + (p.offset - begin)))
			table_offer(kv, t->id, p.offset, at + (p.offset - begin), p.bytes);
	}
	free(buf);
	return true;
}

static int block_get(struct kv *kv, struct table *t, const struct cache_item *index, u32 nr,
		     struct cache_item **block)
{
	struct index_place p = index_at(index, nr);
	bool fresh;
	int err;

	*block = cache_get(kv->cache, t->id, p.offset);
	if (*block)
		return 0;
	table_read_by(kv, t, index, nr, 0, false);
	err = piece(kv, t, p.offset, &p, 0, "the block", block, &fresh);
	if (!err && fresh)
		*block = cache_add(kv->cache, *block);
	return err;
}

/* Look up the version of a key in a block. */
static int block_find(struct table *t, const struct index_place *place,
		      const struct cache_item *block, struct slice key, u64 seq, bool *found,
		      u8 *op, struct buffer *value)
{
	struct entry e, want = { .key = key, .seq = seq };
	u32 at = 0;

	/* The index says that a block has at least one entry. */
	while (at < block->bytes) {
		if (entry_decode(block->data + at, block->bytes - at, &e))
			return table_damaged(t, "no entry at byte %u", place->offset + at);
		at += entry_bytes(&e);
		if (entry_cmp(&e, &want) < 0)
			continue;
		*found = !slice_cmp(e.key, key);
		*op = e.op;
		return *found ? buffer_set(value, e.value) : 0;
	}
	/* Only for the last key of the block may all versions in it be too new. */
	return slice_cmp(e.key, place->last) ? table_no_last_key(t, place) : 0;
}

/**
 * table_find() - look a key up
 * @kv: the store
 * @p: a part with the key in its range
 * @key: the key
 * @seq: newest sequence number to look at
 * @found: result
 * @op: result: operation of the version
 * @value: result: value of the version
 *
 * Return: 0 or -errno with the message set.
 */
int table_find(struct kv *kv, struct part *p, struct slice key, u64 seq, bool *found, u8 *op,
	       struct buffer *value)
{
	struct cache_item *index = NULL, *block, *bloom;
	struct table *t = p->table;
	struct index_place place;
	bool maybe, here = false;
	u32 nr;
	int err;

	*found = false;
	err = table_bloom(kv, p, &bloom);
	if (err)
		return err;
	maybe = bloom_has(bloom->data, bloom->bytes, key);
	cache_put(kv->cache, bloom);
	count(&kv->stats.bloom_checks, 1);
	if (!maybe)
		return 0;
	count(&kv->stats.bloom_passes, 1);
	err = table_index(kv, p, &index);
	/* The versions of one key may be in several blocks. */
	for (nr = err ? 0 : index_find(index, key); !err && nr < index_blocks(index); nr++) {
		place = index_at(index, nr);
		err = block_get(kv, t, index, nr, &block);
		if (err)
			break;
		err = block_find(t, &place, block, key, seq, found, op, value);
		cache_put(kv->cache, block);
		here |= !slice_cmp(place.last, key);
		if (*found || slice_cmp(place.last, key))
			break;
	}
	cache_put(kv->cache, index);
	if (!err && !*found && !here)
		count(&kv->stats.bloom_wrong, 1);
	return err;
}
