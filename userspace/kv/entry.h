/* SPDX-License-Identifier: GPL-2.0 */
/* Keys, versions of them, and what walks through versions in order. */
#ifndef KV_ENTRY_H
#define KV_ENTRY_H

#include <shim.h>

/**
 * struct slice - some bytes of somebody else's
 * @data: the first
 * @bytes: how many
 */
struct slice {
	const u8 *data;
	u32 bytes;
};

static inline struct slice slice(const void *data, size_t bytes)
{
	return (struct slice){ .data = data, .bytes = (u32)bytes };
}

/* kv-check counts comparisons of keys. */
#ifndef COUNT_COMPARISON
#define COUNT_COMPARISON() do { } while (0)
#endif

/* Keys are short: a call of memcmp() would take longer than the comparison. */
static inline int slice_cmp(struct slice a, struct slice b)
{
	u32 n = min(a.bytes, b.bytes), i;
	u64 x, y;

	COUNT_COMPARISON();
	for (i = 0; i + sizeof(x) <= n; i += sizeof(x)) {
		memcpy(&x, a.data + i, sizeof(x));
		memcpy(&y, b.data + i, sizeof(y));
		if (x != y)
			return be64toh(x) < be64toh(y) ? -1 : 1;
	}
	for (; i < n; i++) {
		if (a.data[i] != b.data[i])
			return a.data[i] < b.data[i] ? -1 : 1;
	}
	return (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* As bytes they need not be aligned. */
static inline void put_le(u8 *to, u64 v, u32 bytes)
{
	v = htole64(v);
	memcpy(to, &v, bytes);
}

static inline u64 get_le(const u8 *from, u32 bytes)
{
	u64 v = 0;

	memcpy(&v, from, bytes);
	return le64toh(v);
}

enum {
	OP_DELETE,
	OP_PUT,
	NR_OPS,
};

/**
 * struct entry - one version of a key
 * @key: see there
 * @value: empty for OP_DELETE
 * @seq: number of the write; no two are the same
 * @op: what the write did
 * @place: of one in a memtable, where in the band of its log; else 0
 */
struct entry {
	struct slice key, value;
	u64 seq;
	u8 op;
	u32 place;
};

/* Of one key, the newest version comes first. */
static inline int entry_cmp(const struct entry *a, const struct entry *b)
{
	return slice_cmp(a->key, b->key) ?: (a->seq < b->seq) - (a->seq > b->seq);
}

/* Of no entry: a cursor is just before the first entry that has the key or a later one. */
#define SEQ_BEFORE	U64_MAX

#define ENTRY_HEAD	14U	/* le16 key bytes, le32 value bytes, le64 seq and op */

static inline u32 entry_bytes(const struct entry *e)
{
	return ENTRY_HEAD + e->key.bytes + e->value.bytes;
}

u32 entry_encode(const struct entry *e, u8 *to);
int entry_decode(const u8 *from, u32 bytes, struct entry *e);

struct cursor;

/**
 * struct cursor_ops - a kind of cursor
 * @seek: go to the first entry whose key is not below one
 * @next: go to the next entry; only from one, to which @seek or @next has led
 * @seek_before: go to the last entry whose key is below one; with NULL, to the last of all
 * @prev: go to the entry before; only from one, to which @seek_before or @prev has led
 * @free: be done with it
 *
 * All but the last return 0, also when there is none: @valid says so; or -errno.
 */
struct cursor_ops {
	int (*seek)(struct cursor *c, struct slice key);
	int (*next)(struct cursor *c);
	int (*seek_before)(struct cursor *c, const struct slice *key);
	int (*prev)(struct cursor *c);
	void (*free)(struct cursor *c);
};

/**
 * struct cursor - walks through entries in order
 * @ops: its kind
 * @at: where it is; good until it moves
 * @valid: it is somewhere
 * @behind: @at is no entry: it is just behind the last one, which has this key, and @prev
 *	leads there
 * @level: of its table
 * @age: of it
 */
struct cursor {
	const struct cursor_ops *ops;
	struct entry at;
	bool valid, behind;
	u32 level;
	u64 age;
};

/**
 * struct merge - walks through what several cursors have, in one order
 * @cursor: they; freed with the merge
 * @heap: those that are somewhere, the least first, or, going back, the largest
 * @nr: how many cursors
 * @live: how many of them in @heap
 * @back: it goes from the last entry to the first
 * @between: called before a cursor reads what it begins with, as there may be many; or NULL
 * @ctx: for @between
 */
struct merge {
	struct cursor **cursor, **heap;
	u32 nr, live;
	bool back;
	int (*between)(void *ctx);
	void *ctx;
};

int merge_init(struct merge *m, u32 room);
void merge_add(struct merge *m, struct cursor *c);
int merge_seek(struct merge *m, struct slice key);
int merge_next(struct merge *m);
int merge_seek_before(struct merge *m, const struct slice *key);
int merge_prev(struct merge *m);
const struct entry *merge_at(const struct merge *m);
void merge_free(struct merge *m);

/**
 * struct buffer - bytes that grow
 * @data: they
 * @used: of them
 * @room: allocated
 * @borrowed: @data is somebody else's, and is left for memory of its own when it is too small
 */
struct buffer {
	u8 *data;
	size_t used, room;
	bool borrowed;
};

int buffer_room(struct buffer *b, size_t more);
int buffer_set(struct buffer *b, struct slice s);

static inline struct slice buffer_slice(const struct buffer *b)
{
	return slice(b->data, b->used);
}

#endif /* KV_ENTRY_H */
