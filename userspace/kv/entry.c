// SPDX-License-Identifier: GPL-2.0
/* Encoding of entries, merges of cursors, and buffers. */
#include "error.h"
#include "store.h"

/**
 * entry_encode() - encode an entry as bytes
 * @e: the entry
 * @to: destination, with room for entry_bytes()
 *
 * Return: The number of bytes.
 */
u32 entry_encode(const struct entry *e, u8 *to)
{
	put_le(to, e->key.bytes, 2);
	put_le(to + 2, e->value.bytes, 4);
	put_le(to + 6, e->seq << 8 | e->op, 8);
	memcpy(to + ENTRY_HEAD, e->key.data, e->key.bytes);
	if (e->value.bytes)
		memcpy(to + ENTRY_HEAD + e->key.bytes, e->value.data, e->value.bytes);
	return entry_bytes(e);
}

/**
 * entry_decode() - decode an entry
 * @from: the bytes
 * @bytes: number of bytes
 * @e: result, which points into the bytes
 *
 * Return: 0, or -EUCLEAN if the bytes are no entry.
 */
int entry_decode(const u8 *from, u32 bytes, struct entry *e)
{
	u32 key, value;
	u64 word;

	if (bytes < ENTRY_HEAD)
		return -EUCLEAN;
	key = (u32)get_le(from, 2);
	value = (u32)get_le(from + 2, 4);
	word = get_le(from + 6, 8);
	if (!key || key > KV_KEY_MAX || key > bytes - ENTRY_HEAD ||
	    value > bytes - ENTRY_HEAD - key || (u8)word >= NR_OPS ||
	    ((u8)word == OP_DELETE && value))
		return -EUCLEAN;
	e->key = slice(from + ENTRY_HEAD, key);
	e->value = slice(from + ENTRY_HEAD + key, value);
	e->seq = word >> 8;
	e->op = (u8)word;
	e->place = 0;
	return 0;
}

int merge_init(struct merge *m, u32 room)
{
	*m = (struct merge){ .nr = 0 };
	m->cursor = calloc(room ?: 1, sizeof(*m->cursor));
	m->heap = calloc(room ?: 1, sizeof(*m->heap));
	if (m->cursor && m->heap)
		return 0;
	merge_free(m);
	return kv_no_memory();
}

void merge_add(struct merge *m, struct cursor *c)
{
	m->cursor[m->nr++] = c;
}

/*
 * Compare the entries of two cursors in the direction of the merge: below 0 if that of @a is first.
 */
static int order(const struct merge *m, u32 a, u32 b)
{
	int c = entry_cmp(&m->heap[a]->at, &m->heap[b]->at);

	return m->back ? -c : c;
}

static void sift_down(struct merge *m, u32 i)
{
	u32 child;

	for (; (child = 2 * i + 1) < m->live; i = child) {
		if (child + 1 < m->live && order(m, child + 1, child) < 0)
			child++;
		if (order(m, i, child) <= 0)
			break;
		swap(m->heap[i], m->heap[child]);
	}
}

/*
 * Make the first cursor of the heap real: a cursor that has only announced its first key must now
 * read its first entry.
 */
static int read_first(struct merge *m)
{
	struct cursor *c;
	int err;

	while (m->live && (m->back ? m->heap[0]->behind : m->heap[0]->at.seq == SEQ_BEFORE)) {
		c = m->heap[0];
		err = m->between ? m->between(m->ctx) : 0;
		if (!err)
			err = m->back ? c->ops->prev(c) : c->ops->next(c);
		if (err) {
			m->live = 0;
			return err;
		}
		if (!c->valid)
			m->heap[0] = m->heap[--m->live];
		sift_down(m, 0);
	}
	return 0;
}

static int seek(struct merge *m, const struct slice *key, bool back)
{
	struct cursor *c;
	u32 i;
	int err;

	m->live = 0;
	m->back = back;
	for (i = 0; i < m->nr; i++) {
		c = m->cursor[i];
		err = back ? c->ops->seek_before(c, key) : c->ops->seek(c, *key);
		if (err) {
			m->live = 0;
			return err;
		}
		if (m->cursor[i]->valid)
			m->heap[m->live++] = m->cursor[i];
	}
	for (i = m->live / 2; i--;)
		sift_down(m, i);
	return read_first(m);
}

int merge_seek(struct merge *m, struct slice key)
{
	return seek(m, &key, false);
}

/**
 * merge_seek_before() - go to the last entry with a key below @key, to walk back from there
 * @m: the merge
 * @key: the key; NULL for the last entry of all
 *
 * Going back, the oldest version of a key comes first.
 *
 * Return: 0 or -errno.
 */
int merge_seek_before(struct merge *m, const struct slice *key)
{
	return seek(m, key, true);
}

static int step(struct merge *m)
{
	struct cursor *c = m->heap[0];
	int err = m->back ? c->ops->prev(c) : c->ops->next(c);

	if (err) {
		m->live = 0;
		return err;
	}
	if (!m->heap[0]->valid)
		m->heap[0] = m->heap[--m->live];
	sift_down(m, 0);
	return read_first(m);
}

int merge_next(struct merge *m)
{
	return step(m);
}

int merge_prev(struct merge *m)
{
	return step(m);
}

/* Return: the current entry; NULL at the end. */
const struct entry *merge_at(const struct merge *m)
{
	return m->live ? &m->heap[0]->at : NULL;
}

void merge_free(struct merge *m)
{
	u32 i;

	for (i = 0; i < m->nr; i++)
		m->cursor[i]->ops->free(m->cursor[i]);
	free(m->cursor);
	free(m->heap);
	*m = (struct merge){ .nr = 0 };
}

/**
 * buffer_room() - make room in a buffer
 * @b: the buffer
 * @more: number of bytes that will be added
 *
 * Return: 0 or -ENOMEM.
 */
int buffer_room(struct buffer *b, size_t more)
{
	size_t room;
	u8 *data;

	if (b->room - b->used >= more)
		return 0;
	room = max(b->used + more, b->room + b->room / 2);
	data = realloc(b->borrowed ? NULL : b->data, room);
	if (!data)
		return kv_no_memory();
	if (b->borrowed && b->used)
		memcpy(data, b->data, b->used);
	b->borrowed = false;
	b->data = data;
	b->room = room;
	return 0;
}

int buffer_set(struct buffer *b, struct slice s)
{
	int err;

	b->used = 0;
	err = buffer_room(b, s.bytes);
	if (!err && s.bytes)
		memcpy(b->data, s.data, s.bytes);
	b->used = err ? 0 : s.bytes;
	return err;
}
