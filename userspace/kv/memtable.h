/* SPDX-License-Identifier: GPL-2.0 */
/* Writes that are not in a table yet, in order.  One thread adds, any number read. */
#ifndef KV_MEMTABLE_H
#define KV_MEMTABLE_H

#include "entry.h"

#define MEMTABLE_HEIGHT	12U

/**
 * struct node - an entry of a skip list
 * @word: sequence number and operation, encoded as in entry_encode()
 * @value_bytes: size of the value, which follows the key
 * @place: see struct entry
 * @key_bytes: size of the key
 * @key: the key
 *
 * In front of the node are the pointers to the next node of each height, the lowest one last.
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

/* Memory of nodes; freed as a whole. */
struct arena {
	struct arena *older;
	size_t used, room;
	u64 mem[];
};

/**
 * struct memtable - a skip list
 * @refs: number of users: the store and readers
 * @number: number of the memtable; the logs of its writes have it
 * @arena: memory of all nodes
 * @head: pointers to the first node of each height, the lowest one last, laid out as before a node
 * @memory: bytes taken by nodes, pointers included; read by kv_stats() and by writes
 * @bytes: bytes of entries
 * @key_bytes: bytes of their keys
 * @entries: number of entries
 * @max_key: bytes of the longest key
 * @rng: state of the random number generator for heights
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

/* Seed of the heights, if not 0: tests need runs that can be repeated. */
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
