/* SPDX-License-Identifier: GPL-2.0 */
/* Writes that are in no table yet, in order: one thread adds, any number reads. */
#ifndef KV_MEMTABLE_H
#define KV_MEMTABLE_H

#include "entry.h"

#define MEMTABLE_HEIGHT	12U

/**
 * struct node - an entry of a skip list
 * @word: its sequence number and what the write did, as entry_encode() has them
 * @value_bytes: of the value, which follows the key
 * @place: see struct entry
 * @key_bytes: of the key
 * @key: see there
 *
 * Before it are pointers to the next node of each of its heights, that of the lowest last.
 */
struct node {
	u64 word;
	u32 value_bytes, place;
	u16 key_bytes;
	u8 key[];
};

static inline struct node **node_next(struct node *n, u32 h)
{
	return (struct node **)n - 1 - h;
}

/* Where memory of nodes comes from; it is given back as a whole. */
struct arena {
	struct arena *older;
	size_t used, room;
	u64 mem[];
};

/**
 * struct memtable - a skip list
 * @refs: the store and readers
 * @number: which logs are its own
 * @arena: memory of all nodes
 * @head: as the node before the first one: pointers to the first of each height, that of the
 *	lowest last
 * @memory: bytes of nodes, with all that they take; kv_stats() and writes look at it
 * @bytes: of entries
 * @key_bytes: of their keys
 * @entries: how many
 * @max_key: bytes of the longest key
 * @rng: of heights
 */
struct memtable {
	u32 refs;
	u64 number;
	struct arena *arena;
	struct node *head[MEMTABLE_HEIGHT];
	u64 memory, bytes, key_bytes;
	u32 entries, max_key;
	u64 rng;
};

/* Of heights, if it is not 0: tests want each run to be like the one before it. */
extern u64 memtable_seed;

struct memtable *memtable_new(u64 number);
void memtable_get(struct memtable *m);
void memtable_put(struct memtable *m);
int memtable_prepare(struct memtable *m, struct slice entries);
void memtable_add(struct memtable *m, struct slice entries, u64 seq, u32 place);
bool memtable_fits(const struct memtable *m, u64 memory, u64 entries, u64 bytes);
bool memtable_find(const struct memtable *m, struct slice key, u64 seq, struct entry *e);
struct cursor *memtable_cursor(struct memtable *m);

#endif /* KV_MEMTABLE_H */
