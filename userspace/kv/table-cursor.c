// SPDX-License-Identifier: GPL-2.0
/* Cursors over tables: with reads that grow, and with read-ahead for merges. */
#include "table.h"

#define FIRST_WINDOW	(64U << 10)

/**
 * struct table_cursor - a cursor of a part
 * @c: the base
 * @kv: the store
 * @part: the part
 * @disk: disk of the table
 * @merging: read ahead, and release the part at its end
 * @cached: see table_cursor()
 * @window: most bytes of one read
 * @counter: counter of bytes read
 * @index: index of the table, while the cursor is in it
 * @nr: number of the block
 * @at: offset of the entry in the block
 * @block: contents of the block
 * @read: the piece of the band that was read last
 * @read_at: offset of @read in the band
 * @read_bytes: size of @read
 * @read_next: size of the next read
 * @back: the cursor walks back: a read ends with the block that is needed
 * @offset: walking back, offsets of the entries of @block, a u32 each
 * @entry: walking back, index of the current entry in @offset
 * @bound: walking back, key of the first entry of the block that was left
 * @bound_seq: number of that entry
 * @sought: @block is the first one since a seek
 * @ahead: the read of the piece behind @read
 * @room: size of the buffer @read
 * @ahead_room: size of the buffer of @ahead
 */
struct table_cursor {
	struct cursor c;
	struct kv *kv;
	struct part *part;
	struct kv_disk *disk;
	bool merging, cached, sought, back;
	u32 window;
	uint64_t *counter;
	struct cache_item *index;
	u32 nr, at;
	struct buffer block;
	u8 *read;
	u32 read_at, read_bytes, read_next;
	struct buffer offset, bound;
	u32 entry;
	u64 bound_seq;
	struct kv_io ahead;
	u32 room, ahead_room;
};

static void drop_ahead(struct table_cursor *t)
{
	/* An error does not matter: its data are not needed. */
	if (t->ahead.busy)
		t->disk->ops->end(t->disk, &t->ahead);
}

static void nowhere(struct table_cursor *t)
{
	t->c.valid = false;
	t->c.behind = false;
	cache_put(t->kv->cache, t->index);
	t->index = NULL;
	drop_ahead(t);
	free(t->read);
	free(t->ahead.buf);
	free(t->block.data);
	free(t->offset.data);
	free(t->bound.data);
	t->block = (struct buffer){ .data = NULL };
	t->offset = t->block;
	t->bound = t->block;
	t->read = NULL;
	t->ahead.buf = NULL;
	t->read_bytes = 0;
	t->room = 0;
	t->ahead_room = 0;
}

static int unread(struct table_cursor *t, u32 at, int err)
{
	return kv_says(err, "band %u (table %llu): byte %u cannot be read: %s",
		       t->part->table->band, t->part->table->id, at, strerror(-err));
}

static int have_room(u8 **buf, u32 *room, u32 size)
{
	if (*room >= size)
		return 0;
	free(*buf);
	*room = 0;
	*buf = aligned_alloc(BLOCK_BYTES, size);
	if (!*buf)
		return kv_no_memory();
	*room = size;
	return 0;
}

static void begin_ahead(struct table_cursor *t, u32 at)
{
	u32 end = round_up(t->part->table->foot.data_bytes, BLOCK_BYTES);
	u64 base = band_offset(t->kv, t->part->table->band);

	/* The next write of an unsorted table may be anywhere. */
	if (!t->merging || t->part->table->unsorted || at >= end)
		return;
	t->ahead.bytes = min(t->window, end - at);
	if (have_room((u8 **)&t->ahead.buf, &t->ahead_room, t->ahead.bytes))
		return;
	t->ahead.offset = base + at;
	/* If it fails, the read that waits for the data will report the error. */
	t->disk->ops->begin(t->disk, &t->ahead);
}

/* Read at least some bytes into @read, up to the end of the data. */
static int read_to(struct table_cursor *t, u32 offset, u32 bytes)
{
	u32 first = rounddown(offset, BLOCK_BYTES), end = round_up(offset + bytes, BLOCK_BYTES);
	u32 most = round_up(t->part->table->foot.data_bytes, BLOCK_BYTES), size;
	u64 base = band_offset(t->kv, t->part->table->band);
	int err;

	most = t->back ? end : most - first;
	if (t->read_bytes && first >= t->read_at && end <= t->read_at + t->read_bytes)
		return 0;
	if (t->ahead.busy) {
		err = t->disk->ops->end(t->disk, &t->ahead);
		if (err)
			return unread(t, (u32)(t->ahead.offset - base), err);
		count(t->counter, t->ahead.bytes);
		swap(t->read, *(u8 **)&t->ahead.buf);
		swap(t->room, t->ahead_room);
		t->read_at = (u32)(t->ahead.offset - base);
		t->read_bytes = t->ahead.bytes;
		if (first >= t->read_at && end <= t->read_at + t->read_bytes) {
			begin_ahead(t, t->read_at + t->read_bytes);
			return 0;
		}
	}
	size = t->part->table->unsorted ? end - first :
		min(max(end - first, t->read_next), most);
	if (t->back)
		first = end - size;
	t->read_next = min(2 * t->read_next, t->window);
	t->read_bytes = 0;
	err = have_room(&t->read, &t->room, size);
	if (err)
		return err;
	err = t->disk->ops->read(t->disk, base + first, t->read, size);
	if (err)
		return unread(t, first, err);
	count(t->counter, size);
	t->read_at = first;
	t->read_bytes = size;
	begin_ahead(t, first + size);
	return 0;
}

/*
 * Return: the block from the cache, reading it into the cache if there is room for it and what
 * follows; or NULL.
 */
static struct cache_item *cached_block(struct table_cursor *t, u32 offset)
{
	struct table *table = t->part->table;
	struct cache_item *item;

	if (!t->cached)
		return NULL;
	item = cache_get(t->kv->cache, table->id, offset);
	if (item || !table_read_by(t->kv, table, t->index, t->nr, t->sought ? 0 : t->read_next,
				   t->back))
		return item;
	t->read_next = min(2 * t->read_next, t->window);
	return cache_get(t->kv->cache, table->id, offset);
}

static int load_block(struct table_cursor *t)
{
	struct index_place p = index_at(t->index, t->nr);
	struct cache_item *item = cached_block(t, p.offset);
	const u8 *from;
	int err;

	t->at = 0;
	t->sought = false;
	if (item) {
		err = buffer_set(&t->block, slice(item->data, item->bytes));
		cache_put(t->kv->cache, item);
		return err;
	}
	err = read_to(t, p.offset, p.bytes + p.behind);
	if (err)
		return err;
	from = t->read + (p.offset - t->read_at);
	if (!place_right(t->kv, t->part->table, &p, from))
		return table_damaged(t->part->table, "wrong checksum of the block at byte %u",
				     p.offset);
	if (t->cached)
		table_offer(t->kv, t->part->table->id, p.offset, from, p.bytes);
	return buffer_set(&t->block, slice(from, p.bytes));
}

static int here(struct table_cursor *t)
{
	if (entry_decode(t->block.data + t->at, (u32)t->block.used - t->at, &t->c.at))
		return table_damaged(t->part->table, "no entry at byte %u",
				     index_at(t->index, t->nr).offset + t->at);
	t->c.valid = true;
	return 0;
}

/* At the end of a block: does the last entry have the key that the index says? */
static int block_ends(struct table_cursor *t)
{
	struct index_place p = index_at(t->index, t->nr);

	return slice_cmp(t->c.at.key, p.last) ? table_no_last_key(t->part->table, &p) : 0;
}

static int have_index(struct table_cursor *t)
{
	return t->index ? 0 : table_index(t->kv, t->part, &t->index);
}

static int go(struct table_cursor *t, struct slice key)
{
	struct index_place p;
	int err = have_index(t);

	t->back = false;
	if (err)
		return err;
	t->nr = index_find(t->index, key);
	if (t->nr == index_blocks(t->index))
		return table_damaged(t->part->table, "the index ends before the largest key");
	t->sought = true;
	err = load_block(t) ?: here(t);
	while (!err && slice_cmp(t->c.at.key, key) < 0) {
		t->at += entry_bytes(&t->c.at);
		p = index_at(t->index, t->nr);
		err = t->at < t->block.used ? here(t) : table_no_last_key(t->part->table, &p);
	}
	return err;
}

static int table_cursor_seek(struct cursor *c, struct slice key)
{
	struct table_cursor *t = container_of(c, struct table_cursor, c);
	int err;

	/* Only in tables that may have the key does the cursor hold resources. */
	if (slice_cmp(t->part->max, key) < 0) {
		nowhere(t);
		return 0;
	}
	t->read_next = t->merging ? t->window : min(FIRST_WINDOW, t->window);
	if (slice_cmp(key, t->part->min) <= 0) {
		nowhere(t);
		c->at = (struct entry){ .key = t->part->min, .seq = SEQ_BEFORE };
		c->valid = true;
		return 0;
	}
	err = go(t, key);
	if (err)
		nowhere(t);
	return err;
}

/*
 * Does the entry follow the one before it?  A merge of entries in a wrong order would drop the
 * newer of two versions, or write a table that ends before it begins.
 */
static int in_order(struct table_cursor *t, struct slice key, u64 seq)
{
	int order = slice_cmp(key, t->c.at.key);

	return order > 0 || (!order && t->c.at.seq >= seq) ?
		table_damaged(t->part->table, "keys are out of order") : 0;
}

static int table_cursor_next(struct cursor *c)
{
	struct table_cursor *t = container_of(c, struct table_cursor, c);
	struct slice key = c->at.key;
	u64 seq = c->at.seq;
	int err;

	if (c->at.seq == SEQ_BEFORE) {
		err = go(t, t->part->min);
	} else {
		t->at += entry_bytes(&c->at);
		if (t->at < t->block.used) {
			err = here(t) ?: in_order(t, key, seq);
		} else if (block_ends(t)) {
			err = -EUCLEAN;
		} else if (t->nr + 1 < index_blocks(t->index)) {
			/* The old block is replaced, but the index has its last key, too. */
			key = index_at(t->index, t->nr).last;
			t->nr++;
			err = load_block(t) ?: here(t) ?: in_order(t, key, seq);
		} else {
			nowhere(t);
			if (t->merging) {
				part_put(t->kv, t->part);
				t->part = NULL;
			}
			return 0;
		}
	}
	if (err)
		nowhere(t);
	return err;
}

/* Go to an entry of the block; all of its entries have been decoded. */
static int here_back(struct table_cursor *t, u32 entry)
{
	memcpy(&t->at, t->offset.data + entry * sizeof(t->at), sizeof(t->at));
	t->entry = entry;
	return here(t);
}

/* Load a block to walk back: decode all entries, and go behind the last one. */
static int load_block_back(struct table_cursor *t, u32 nr)
{
	struct slice key = { .data = NULL };
	u64 seq = 0;
	u32 n = 0;
	int err;

	t->nr = nr;
	t->offset.used = 0;
	err = load_block(t);
	for (; !err && t->at < t->block.used; t->at += entry_bytes(&t->c.at), n++) {
		err = here(t) ?: n ? in_order(t, key, seq) : 0;
		err = err ?: buffer_room(&t->offset, sizeof(t->at));
		if (err)
			break;
		memcpy(t->offset.data + t->offset.used, &t->at, sizeof(t->at));
		t->offset.used += sizeof(t->at);
		key = t->c.at.key;
		seq = t->c.at.seq;
	}
	t->entry = n;
	return err ?: block_ends(t);
}

/* Go to the entry before @entry, from an entry or from behind the last one. */
static int step_back(struct table_cursor *t)
{
	int err;

	/* Keys below the least key no longer count, and are not read. */
	if (!t->entry && (!t->nr || slice_cmp(index_at(t->index, t->nr - 1).last,
					      t->part->min) < 0)) {
		nowhere(t);
		return 0;
	}
	if (t->entry) {
		err = here_back(t, t->entry - 1);
	} else {
		/* The block is replaced, so its first key is copied. */
		err = here_back(t, 0) ?: buffer_set(&t->bound, t->c.at.key);
		t->bound_seq = t->c.at.seq;
		err = err ?: load_block_back(t, t->nr - 1) ?: here_back(t, t->entry - 1);
		if (!err && (slice_cmp(t->c.at.key, buffer_slice(&t->bound)) > 0 ||
			     (!slice_cmp(t->c.at.key, buffer_slice(&t->bound)) &&
			      t->c.at.seq <= t->bound_seq)))
			err = table_damaged(t->part->table, "keys are out of order");
	}
	if (!err && slice_cmp(t->c.at.key, t->part->min) < 0)
		nowhere(t);
	return err;
}

static int go_before(struct table_cursor *t, const struct slice *key)
{
	int err = have_index(t);
	u32 blocks;

	t->back = true;
	if (err)
		return err;
	blocks = index_blocks(t->index);
	t->nr = key ? index_find(t->index, *key) : blocks - 1;
	t->sought = true;
	if (t->nr == blocks)
		return table_damaged(t->part->table, "the index ends before the largest key");
	err = load_block_back(t, t->nr);
	/* Go behind the last entry with a key below @key. */
	while (!err && key && t->entry) {
		err = here_back(t, t->entry - 1);
		if (!err && slice_cmp(t->c.at.key, *key) < 0) {
			t->entry++;
			break;
		}
	}
	err = err ?: step_back(t);
	if (!err && !key && (!t->c.valid || slice_cmp(t->c.at.key, t->part->max)))
		err = table_damaged(t->part->table, "the largest key is missing");
	return err;
}

static int table_cursor_seek_before(struct cursor *c, const struct slice *key)
{
	struct table_cursor *t = container_of(c, struct table_cursor, c);
	int err;

	nowhere(t);
	if (key && slice_cmp(t->part->min, *key) >= 0)
		return 0;
	t->read_next = min(FIRST_WINDOW, t->window);
	if (!key || slice_cmp(t->part->max, *key) < 0) {
		/* With sequence number 0 the position is behind all versions of the key. */
		c->at = (struct entry){ .key = t->part->max };
		c->behind = true;
		c->valid = true;
		return 0;
	}
	err = go_before(t, key);
	if (err)
		nowhere(t);
	return err;
}

static int table_cursor_prev(struct cursor *c)
{
	struct table_cursor *t = container_of(c, struct table_cursor, c);
	int err;

	if (c->behind) {
		c->behind = false;
		err = go_before(t, NULL);
	} else {
		err = step_back(t);
	}
	if (err)
		nowhere(t);
	return err;
}

static void table_cursor_free(struct cursor *c)
{
	struct table_cursor *t = container_of(c, struct table_cursor, c);

	nowhere(t);
	part_put(t->kv, t->part);
	free(t);
}

static const struct cursor_ops table_cursor_ops = {
	.seek = table_cursor_seek,
	.next = table_cursor_next,
	.seek_before = table_cursor_seek_before,
	.prev = table_cursor_prev,
	.free = table_cursor_free,
};

struct cursor *table_cursor(struct kv *kv, struct part *p, u32 window, uint64_t *counter,
			    bool cached)
{
	struct table_cursor *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->c.ops = &table_cursor_ops;
	t->c.level = p->level;
	t->c.age = p->age;
	t->kv = kv;
	t->part = p;
	t->disk = band_disk(kv, p->table->band);
	t->window = window;
	t->cached = cached;
	t->counter = counter;
	t->merging = counter == &kv->stats.compact_read_bytes;
	__atomic_fetch_add(&p->refs, 1, __ATOMIC_RELAXED);
	return &t->c;
}
