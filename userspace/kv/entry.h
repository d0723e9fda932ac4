/* SPDX-License-Identifier: GPL-2.0 */
/* Keys, versions of keys, and cursors over versions in order. */
#ifndef KV_ENTRY_H
#define KV_ENTRY_H

#include <shim.h>

/**
 * struct slice - a run of bytes owned by another object
 * @data: the first byte
 * @bytes: number of bytes
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

/* Keys are short: a call of memcmp() would take longer than this comparison. */
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

/* Copied as bytes, so @to need not be aligned. */
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
 * @key: the key
 * @value: empty for OP_DELETE
 * @seq: number of the write, unique in the store
 * @op: OP_PUT or OP_DELETE
 * @place: for an entry in a memtable, its offset in the band of its log; else 0
 */
struct entry {
	struct slice key, value;
	u64 seq;
	u8 op;
	u32 place;
};

/* The versions of one key are ordered from the newest to the oldest. */
static inline int entry_cmp(const struct entry *a, const struct entry *b)
{
	return slice_cmp(a->key, b->key) ?: (a->seq < b->seq) - (a->seq > b->seq);
}

/*
 * The sequence number of no entry: the cursor is just before the first entry with the key or a
 * larger one.
 */
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
 * @seek: go to the first entry with @key or a larger key
 * @next: go to the next entry; only after a @seek or @next that has found one
 * @seek_before: go to the last entry with a key below @key; if @key is NULL, to the last entry of
 *	all
 * @prev: go to the entry before; only after a @seek_before or @prev that has found one
 * @free: free the cursor
 *
 * All but @free return 0 or -errno.  They also return 0 if there is no such entry; then @valid is
 * false.
 */
struct cursor_ops {
	int (*seek)(struct cursor *c, struct slice key);
	int (*next)(struct cursor *c);
	int (*seek_before)(struct cursor *c, const struct slice *key);
	int (*prev)(struct cursor *c);
	void (*free)(struct cursor *c);
};

/**
 * struct cursor - a position in a sequence of entries
 * @ops: its operations
 * @at: the current entry; good until the cursor moves
 * @valid: the cursor is at an entry
 * @behind: @at is not an entry: the cursor is just behind the last entry, @at.key is the key of
 *	that entry, and @prev leads to it
 * @level: level of the table
 * @age: age of the table
 */
struct cursor {
	const struct cursor_ops *ops;
	struct entry at;
	bool valid, behind;
	u32 level;
	u64 age;
};

/**
 * struct merge - several cursors merged into one order
 * @cursor: the cursors; freed with the merge
 * @heap: the valid cursors, with the least entry first, or with the largest one if @back
 * @nr: number of @cursor
 * @live: number of @heap
 * @back: the merge goes from the last entry to the first
 * @between: called before a cursor reads its first entry, as there may be many cursors; or NULL
 * @ctx: argument of @between
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
 * struct buffer - a byte buffer that grows
 * @data: the bytes
 * @used: number of bytes used
 * @room: number of bytes allocated
 * @borrowed: @data belongs to the caller; if it is too small, the buffer allocates memory of its
 *	own
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

/* Batches of writes that happen together: encoded entries, numbered from 0. */

/**
 * struct kv_batch - see kv_batch_new()
 * @buf: the encoded entries, see entry_encode()
 * @entries: number of entries
 * @puts: number of entries that are puts
 * @max_value: size of the largest value
 * @key_bytes: bytes of all keys
 * @user_bytes: bytes of all keys and values
 */
struct kv_batch {
	struct buffer buf;
	u32 entries, puts, max_value;
	u64 key_bytes, user_bytes;
};

int batch_add(struct kv_batch *b, u8 op, struct slice key, struct slice value);

#endif /* KV_ENTRY_H */
