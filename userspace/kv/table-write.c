// SPDX-License-Identifier: GPL-2.0
/* Writing a table: sequentially, each byte once, while the next bytes are collected. */
#include "table.h"

/**
 * struct table_writer - a table that is being written, by one thread
 * @kv: the store
 * @counter: counter of bytes written
 * @id: id of the table
 * @band: its band
 * @disk: disk of the band
 * @io: two buffers; one is filled while the other one is written
 * @turn: index of the buffer that is filled
 * @room: size of each buffer
 * @used: bytes used of the buffer that is filled
 * @at: bytes of the table so far
 * @block: offset of the current block
 * @crc: checksum of the current block so far
 * @index: entries of the index so far
 * @place: offsets of these entries in @index
 * @hashes: hashes of all keys, for the Bloom filter
 * @last: the last key
 * @min: the first key
 * @count: the entries so far
 * @count.entries: number of entries
 * @count.tombstones: number of those that are deletions
 * @count.bytes: bytes of the entries
 * @count.seq: number of the newest entry
 * @count.max_key: length of the longest key
 * @blocks: number of blocks so far
 * @block_data: copy of the current block, while @keep
 * @keep: the cache has room for what is written
 * @bloom: the Bloom filter, once it has been written
 * @unsorted: the table is a log; @block is the end of the log
 * @filled: KV_STREAM: the band has been written to its end
 * @err: error that has occurred
 */
struct table_writer {
	struct kv *kv;
	uint64_t *counter;
	u64 id;
	u32 band;
	struct kv_disk *disk;
	struct kv_io io[2];
	u32 turn, room, used, at, block, crc;
	struct buffer index, place, hashes, last, min, block_data;
	struct cache_item *bloom;
	struct {
		u64 entries, tombstones, bytes, seq;
		u32 max_key;
	} count;
	u32 blocks;
	bool unsorted, filled, keep;
	int err;
};

static u32 crc_begin(const struct kv *kv, u64 id, u32 offset)
{
	__le64 le_id = cpu_to_le64(id);
	__le32 le_offset = cpu_to_le32(offset);
	u32 crc = crc32c(~0U, kv->head.uuid, sizeof(kv->head.uuid));

	crc = crc32c(crc, &le_id, sizeof(le_id));
	return crc32c(crc, &le_offset, sizeof(le_offset));
}

/**
 * table_crc() - checksum of a piece of a table
 * @kv: the store
 * @id: id of the table
 * @offset: offset of the piece in the band
 * @data: the piece
 * @bytes: size of the piece
 *
 * The checksum includes id and offset.  So a piece of another place or of an older table is wrong.
 *
 * Return: The checksum.
 */
u32 table_crc(const struct kv *kv, u64 id, u32 offset, const void *data, u32 bytes)
{
	return crc32c(crc_begin(kv, id, offset), data, bytes);
}

u32 footer_crc(struct footer_block *f)
{
	__le32 was = f->crc;
	u32 crc;

	f->crc = 0;
	crc = crc32c(~0U, f, sizeof(*f));
	f->crc = was;
	return crc;
}

u32 histogram_crc(const struct kv *kv, u64 id, struct histogram *h)
{
	__le32 was = h->crc;
	u32 crc;

	h->crc = 0;
	crc = table_crc(kv, id, 0, h, sizeof(*h));
	h->crc = was;
	return crc;
}

u32 bloom_hash(struct slice key)
{
	return crc32c(~0U, key.data, key.bytes);
}

static u64 bloom_bit(u32 hash, u32 i, u32 bytes)
{
	/* A checksum is linear: the step must not be. */
	u64 step = hash_64((u64)hash + 1, 32) | 1;

	return (hash + i * step) % ((u64)bytes * 8);
}

void bloom_set(u8 *bits, u32 bytes, u32 hash)
{
	u32 i;
	u64 bit;

	for (i = 0; i < BLOOM_HASHES; i++) {
		bit = bloom_bit(hash, i, bytes);
		bits[bit / 8] |= (u8)(1U << bit % 8);
	}
}

bool bloom_has(const u8 *bits, u32 bytes, struct slice key)
{
	u32 i, hash = bloom_hash(key);
	u64 bit;

	for (i = 0; i < BLOOM_HASHES; i++) {
		bit = bloom_bit(hash, i, bytes);
		if (!(bits[bit / 8] >> bit % 8 & 1))
			return false;
	}
	return true;
}

static u64 bloom_bytes(u64 entries)
{
	return entries * BLOOM_BITS / 8 + 8;
}

/**
 * table_tail() - size of what is written behind a log to make it a table
 * @entries: number of entries of the log
 * @key_bytes: bytes of their keys
 *
 * Return: The number of bytes, in whole blocks.
 */
u32 table_tail(u64 entries, u64 key_bytes)
{
	u64 bytes = entries * (UNSORTED_HEAD + 4) + key_bytes + bloom_bytes(entries) +
		    2 * CRC_BYTES;

	return (u32)min_t(u64, round_up(bytes, (u64)BLOCK_BYTES) + 2 * BLOCK_BYTES, U32_MAX / 4);
}

/**
 * table_tail_most() - usual upper bound of the bytes behind the blocks or the log of a table
 * @t: the table
 * @max_key: length of a long key of the table
 *
 * Return: The number of bytes, in whole blocks; exceeded only if other keys are longer.
 */
u32 table_tail_most(const struct table *t, u32 max_key)
{
	u64 places = t->unsorted ? t->entries : min(t->entries, t->bytes / (u64)TABLE_BLOCK + 1);
	u64 bytes = places * (UNSORTED_HEAD + 4 + max_key) + bloom_bytes(t->entries) +
		    2 * CRC_BYTES;

	return (u32)min_t(u64, round_up(bytes, (u64)BLOCK_BYTES) + 2 * BLOCK_BYTES, U32_MAX / 4);
}

/**
 * table_fits() - do entries fit into a table in any case?
 * @room: size of the band
 * @entries: number of entries
 * @bytes: bytes of the entries
 * @max_key: length of the longest key
 *
 * Return: True if they fit.
 */
bool table_fits(u32 room, u64 entries, u64 bytes, u32 max_key)
{
	/* Each block but the last has at least TABLE_BLOCK bytes. */
	u64 blocks = bytes / TABLE_BLOCK + 1;
	u64 need = bytes + blocks * (CRC_BYTES + INDEX_HEAD + CRC_BYTES + max_key) +
		   bloom_bytes(entries) + 4 * CRC_BYTES;

	return need + 3 * BLOCK_BYTES <= room;
}

static struct table_writer *writer_alloc(struct kv *kv, uint64_t *counter)
{
	struct table_writer *n = calloc(1, sizeof(*n));
	u32 i;

	if (!n)
		return NULL;
	n->kv = kv;
	n->disk = kv->disk;
	n->counter = counter;
	n->room = min(WINDOW_BYTES, rounddown(kv->head.band_bytes / 4, BLOCK_BYTES));
	for (i = 0; i < 2; i++) {
		n->io[i].buf = aligned_alloc(BLOCK_BYTES, n->room);
		n->io[i].writing = true;
	}
	if (n->io[0].buf && n->io[1].buf)
		return n;
	free(n->io[0].buf);
	free(n->io[1].buf);
	free(n);
	return NULL;
}

/**
 * table_writer_new() - begin a table in a free band
 * @kv: the store
 * @counter: counter of bytes written
 * @level: level of the table
 * @w: result
 *
 * Return: 0; -ENOSPC without a message; or another -errno.
 */
int table_writer_new(struct kv *kv, uint64_t *counter, u32 level, struct table_writer **w)
{
	struct table_writer *n = writer_alloc(kv, counter);
	int err;

	if (!n)
		return kv_no_memory();
	/* With KV_STREAM only one band is written at a time. */
	err = log_end_band(kv) ?:
		band_take(kv, counter == &kv->stats.flush_bytes ? RESERVE_NONE :
			  RESERVE_MERGE, &n->band, NULL);
	if (!err) {
		band_level(kv, n->band, level, false);
		err = band_lead_in(kv, n->band);
		if (err)
			band_give_back(kv, n->band);
	}
	if (err) {
		free(n->io[0].buf);
		free(n->io[1].buf);
		free(n);
		return err;
	}
	n->id = __atomic_fetch_add(&kv->next.id, 1, __ATOMIC_RELAXED);
	*w = n;
	return 0;
}

/**
 * table_behind() - begin to make a table of a log as it is
 * @kv: the store
 * @log: the whole log; its band remains that of the log, even if this fails
 * @w: result; call table_note() for each write, then table_finish() or table_abandon()
 *
 * Return: 0 or -ENOMEM.
 */
int table_behind(struct kv *kv, const struct log_band *log, struct table_writer **w)
{
	struct table_writer *n = writer_alloc(kv, &kv->stats.flush_bytes);

	if (!n)
		return kv_no_memory();
	n->id = log->id;
	n->band = log->band;
	n->disk = band_disk(kv, log->band);
	n->unsorted = true;
	n->at = log->bytes;
	n->block = log->bytes;
	*w = n;
	return 0;
}

static int wait_for(struct table_writer *w, struct kv_io *io)
{
	if (!io->busy)
		return 0;
	return store_wrote(w->kv, w->disk, w->disk->ops->end(w->disk, io), io->offset);
}

/* Write the buffer that is filled, and wait for the other one. */
static int send(struct table_writer *w)
{
	struct kv_io *io = &w->io[w->turn];
	int err = store_broken(w->kv);

	io->offset = band_offset(w->kv, w->band) + w->at - w->used;
	io->bytes = w->used;
	if (!err)
		err = store_wrote(w->kv, w->disk, w->disk->ops->begin(w->disk, io), io->offset);
	count(w->counter, w->used);
	w->turn = !w->turn;
	w->used = 0;
	return err ?: wait_for(w, &w->io[w->turn]);
}

static int put(struct table_writer *w, const void *data, u32 bytes)
{
	const u8 *from = data;
	u32 n;
	int err;

	w->crc = crc32c(w->crc, data, bytes);
	while (bytes) {
		n = min(bytes, w->room - w->used);
		memcpy((u8 *)w->io[w->turn].buf + w->used, from, n);
		w->used += n;
		w->at += n;
		from += n;
		bytes -= n;
		if (w->used == w->room) {
			err = send(w);
			if (err)
				return err;
		}
	}
	return 0;
}

static int put_zeroes(struct table_writer *w, u32 bytes)
{
	static const u8 zeroes[BLOCK_BYTES];

	return bytes ? put(w, zeroes, bytes) : 0;
}

static int put_crc(struct table_writer *w)
{
	__le32 crc = cpu_to_le32(w->crc);

	return put(w, &crc, sizeof(crc));
}

static int index_add(struct table_writer *w, const u8 *head, u32 head_bytes, struct slice key)
{
	int err = buffer_room(&w->index, head_bytes + key.bytes) ?: buffer_room(&w->place, 4);

	if (err)
		return err;
	put_le(w->place.data + w->place.used, w->index.used, 4);
	w->place.used += 4;
	memcpy(w->index.data + w->index.used, head, head_bytes);
	memcpy(w->index.data + w->index.used + head_bytes, key.data, key.bytes);
	w->index.used += head_bytes + key.bytes;
	w->blocks++;
	return 0;
}

/* Keep a copy of the current block for the cache; without memory nothing happens. */
static void keep(struct table_writer *w, const void *data, u32 bytes)
{
	if (!w->block_data.used)
		w->keep = cache_room(w->kv->cache, 2 * TABLE_BLOCK);
	if (!w->keep || !bytes)
		return;
	w->keep = !buffer_room(&w->block_data, bytes);
	if (!w->keep)
		return;
	memcpy(w->block_data.data + w->block_data.used, data, bytes);
	w->block_data.used += bytes;
}

static int end_block(struct table_writer *w)
{
	u8 head[INDEX_HEAD];
	int err = put_crc(w);

	if (w->block_data.used == w->at - CRC_BYTES - w->block)
		table_offer(w->kv, w->id, w->block, w->block_data.data,
			    (u32)w->block_data.used);
	w->block_data.used = 0;
	put_le(head, w->block, 4);
	put_le(head + 4, w->at - w->block, 4);
	put_le(head + 8, w->last.used, 2);
	err = err ?: index_add(w, head, INDEX_HEAD, buffer_slice(&w->last));
	if (err)
		return err;
	w->block = w->at;
	w->crc = crc_begin(w->kv, w->id, w->at);
	return 0;
}

static void entry_head(const struct entry *e, u8 *head)
{
	put_le(head, e->key.bytes, 2);
	put_le(head + 2, e->value.bytes, 4);
	put_le(head + 6, e->seq << 8 | e->op, 8);
}

/* Note a key for the Bloom filter and the footer. */
static int take_key(struct table_writer *w, const struct entry *e)
{
	u32 hash = bloom_hash(e->key);
	int err = buffer_room(&w->hashes, 4) ?: buffer_set(&w->last, e->key);

	if (err)
		return err;
	memcpy(w->hashes.data + w->hashes.used, &hash, 4);
	w->hashes.used += 4;
	return 0;
}

static void count_entry(struct table_writer *w, const struct entry *e)
{
	w->count.entries++;
	w->count.tombstones += e->op == OP_DELETE;
	w->count.bytes += entry_bytes(e);
	w->count.max_key = max(w->count.max_key, e->key.bytes);
	w->count.seq = max(w->count.seq, e->seq);
}

/**
 * table_has_room() - do more entries fit into a table?
 * @w: the table
 * @entries: number of entries
 * @bytes: bytes of the entries
 * @max_key: length of their longest key
 *
 * Return: True if they fit.
 */
bool table_has_room(const struct table_writer *w, u32 entries, u64 bytes, u32 max_key)
{
	return table_fits(w->kv->head.band_bytes, w->count.entries + entries, w->count.bytes + bytes,
			  max(w->count.max_key, max_key));
}

/**
 * table_add() - add the next entry
 * @w: the table
 * @e: the entry
 * @full: result: the entry does not fit and was not added
 *
 * Return: 0 or -errno.
 */
int table_add(struct table_writer *w, const struct entry *e, bool *full)
{
	u8 head[ENTRY_HEAD];
	int err;

	*full = !table_has_room(w, 1, entry_bytes(e), e->key.bytes);
	if (*full)
		return 0;
	if (!w->count.entries) {
		w->crc = crc_begin(w->kv, w->id, 0);
		err = buffer_set(&w->min, e->key);
		if (err)
			return err;
	}
	entry_head(e, head);
	err = take_key(w, e) ?: put(w, head, sizeof(head)) ?: put(w, e->key.data, e->key.bytes);
	if (!err && e->value.bytes)
		err = put(w, e->value.data, e->value.bytes);
	if (err)
		return err;
	keep(w, head, sizeof(head));
	keep(w, e->key.data, e->key.bytes);
	keep(w, e->value.data, e->value.bytes);
	count_entry(w, e);
	return w->at - w->block >= TABLE_BLOCK ? end_block(w) : 0;
}

/**
 * table_note() - note the next write by key of a log that becomes a table
 * @w: begun by table_behind()
 * @e: the write; @e->place is its offset in the band
 *
 * Return: 0 or -ENOMEM.
 */
int table_note(struct table_writer *w, const struct entry *e)
{
	u8 head[UNSORTED_HEAD], bare[ENTRY_HEAD];
	u32 crc = crc_begin(w->kv, w->id, e->place);
	int err = w->count.entries ? 0 : buffer_set(&w->min, e->key);

	entry_head(e, bare);
	crc = crc32c(crc32c(crc, bare, sizeof(bare)), e->key.data, e->key.bytes);
	if (e->value.bytes)
		crc = crc32c(crc, e->value.data, e->value.bytes);
	put_le(head, e->place, 4);
	put_le(head + 4, entry_bytes(e), 4);
	put_le(head + 8, e->key.bytes, 2);
	put_le(head + INDEX_HEAD, crc, 4);
	err = err ?: take_key(w, e) ?: index_add(w, head, UNSORTED_HEAD, e->key);
	if (!err)
		count_entry(w, e);
	return err;
}

static int put_bloom(struct table_writer *w, u32 bytes)
{
	u8 *bits;
	u32 i, hash;

	w->bloom = cache_item_new(w->id, AT_BLOOM, bytes);
	if (!w->bloom)
		return kv_no_memory();
	bits = w->bloom->data;
	memset(bits, 0, bytes);
	for (i = 0; i < w->count.entries; i++) {
		memcpy(&hash, w->hashes.data + 4 * (size_t)i, 4);
		bloom_set(bits, bytes, hash);
	}
	w->crc = crc_begin(w->kv, w->id, w->at);
	return put(w, bits, bytes) ?: put_crc(w);
}

/* Whole blocks are counted, not entries: buckets differ by at most one block. */
static int put_histogram(struct table_writer *w, u32 data_bytes)
{
	struct histogram *h = calloc(1, sizeof(*h));
	u32 nr = 0, block, at, bytes;
	u64 share = DIV_ROUND_UP((u64)data_bytes, BUCKETS);
	u32 head = w->unsorted ? UNSORTED_HEAD : INDEX_HEAD;
	struct slice key = buffer_slice(&w->min);
	u64 begin = 0;
	int err;

	if (!h)
		return kv_no_memory();
	for (block = 0; block < w->blocks && nr < BUCKETS; block++) {
		at = (u32)get_le(w->place.data + 4 * (size_t)block, 4);
		bytes = (u32)get_le(w->index.data + at + 4, 4);
		if (begin >= nr * share) {
			h->bucket[nr].bytes = (u8)min(key.bytes, HISTOGRAM_KEY);
			memcpy(h->bucket[nr].key, key.data, h->bucket[nr].bytes);
			nr++;
		}
		begin += bytes;
		key = slice(w->index.data + at + head,
			    get_le(w->index.data + at + 8, 2));
	}
	h->magic = cpu_to_le64(TABLE_MAGIC);
	h->buckets = cpu_to_le32(nr);
	h->bytes = cpu_to_le64(data_bytes);
	h->crc = cpu_to_le32(histogram_crc(w->kv, w->id, h));
	err = put(w, h, sizeof(*h));
	free(h);
	return err;
}

static int put_footer(struct table_writer *w, const struct footer *foot)
{
	struct footer_block *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return kv_no_memory();
	f->magic = cpu_to_le64(TABLE_MAGIC);
	f->version = cpu_to_le32(FORMAT_VERSION);
	memcpy(f->uuid, w->kv->head.uuid, sizeof(f->uuid));
	f->id = cpu_to_le64(w->id);
	f->entries = cpu_to_le64(w->count.entries);
	f->tombstones = cpu_to_le64(w->count.tombstones);
	f->seq = cpu_to_le64(w->count.seq);
	f->data_bytes = cpu_to_le32(foot->data_bytes);
	f->index_bytes = cpu_to_le32(foot->index_bytes);
	f->bloom_bytes = cpu_to_le32(foot->bloom_bytes);
	f->blocks = cpu_to_le32(foot->blocks);
	f->min_bytes = cpu_to_le16((u16)w->min.used);
	f->max_bytes = cpu_to_le16((u16)w->last.used);
	memcpy(f->keys, w->min.data, w->min.used);
	memcpy(f->keys + w->min.used, w->last.data, w->last.used);
	f->crc = cpu_to_le32(footer_crc(f));
	err = put(w, f, sizeof(*f));
	free(f);
	return err;
}

static int put_rest(struct table_writer *w, struct footer *foot)
{
	int err = w->at > w->block ? end_block(w) : 0;

	*foot = (struct footer){
		.data_bytes = w->at,
		.index_bytes = (u32)(w->index.used + w->place.used),
		.bloom_bytes = (u32)bloom_bytes(w->count.entries),
		.blocks = w->blocks,
	};
	w->crc = crc_begin(w->kv, w->id, w->at);
	err = err ?: put(w, w->index.data, (u32)w->index.used) ?:
		put(w, w->place.data, (u32)w->place.used) ?: put_crc(w) ?:
		put_bloom(w, foot->bloom_bytes) ?:
		put_zeroes(w, round_up(w->at, BLOCK_BYTES) - w->at) ?:
		put_histogram(w, foot->data_bytes) ?: put_footer(w, foot);
	if (!err && w->used)
		err = send(w);
	err = err ?: wait_for(w, &w->io[0]) ?: wait_for(w, &w->io[1]) ?:
		band_fill_up(w->kv, w->band, w->at);
	w->filled = !err;
	return err;
}

static void release(struct table_writer *w)
{
	/* The disk may still use the buffers. */
	wait_for(w, &w->io[0]);
	wait_for(w, &w->io[1]);
	free(w->io[0].buf);
	free(w->io[1].buf);
	free(w->index.data);
	free(w->place.data);
	free(w->hashes.data);
	free(w->last.data);
	free(w->min.data);
	free(w->block_data.data);
	free(w->bloom);
	free(w);
}

/**
 * table_abandon() - give up a table; its band becomes free, unless it is that of a log
 * @w: the table, or NULL
 */
void table_abandon(struct table_writer *w)
{
	struct kv *kv;
	u32 band, at;
	bool unsorted;

	if (!w)
		return;
	kv = w->kv;
	cache_forget(kv->cache, w->id);
	band = w->band;
	at = w->filled ? kv->head.band_bytes : w->at - w->used;
	unsorted = w->unsorted;
	release(w);
	if (unsorted)
		band_fill_up(kv, band, at);
	else
		band_give_back(kv, band);
}

/**
 * table_finish() - write what follows the entries
 * @w: the table, with at least one entry; freed in any case
 * @level: level of the part
 * @age: age of the part
 * @part: result
 *
 * Nothing is durable before the next flush.
 *
 * Return: 0 or -errno.
 */
int table_finish(struct table_writer *w, u32 level, u64 age, struct part **part)
{
	struct table *t = calloc(1, sizeof(*t));
	struct footer foot;
	int err = t ? put_rest(w, &foot) : kv_no_memory();

	if (!err) {
		*t = (struct table){ .id = w->id, .band = w->band, .bytes = w->at,
				     .entries = w->count.entries, .tombstones = w->count.tombstones,
				     .unsorted = w->unsorted, .foot = foot, .footed = true };
		*part = part_new(t, level, age, buffer_slice(&w->min), buffer_slice(&w->last));
		err = *part ? 0 : kv_no_memory();
	}
	if (err) {
		free(t);
		table_abandon(w);
	} else {
		table_keep(w->kv, t, &w->index, &w->place, w->bloom);
		w->bloom = NULL;
		release(w);
	}
	return err;
}
