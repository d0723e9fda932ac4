/* SPDX-License-Identifier: GPL-2.0 */
/* Writes that are in no table yet, in order: one thread adds, any number reads. */
#ifndef KV_MEMTABLE_H
#define KV_MEMTABLE_H

#include "entry.h"

struct node;
struct arena;

#define MEMTABLE_HEIGHT	12U

/**
 * struct memtable - a skip list
 * @refs: the store and readers
 * @number: which logs are its own
 * @arena: memory of all nodes
 * @head: first of each height
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
	u64 bytes, key_bytes;
	u32 entries, max_key, rng;
};

struct memtable *memtable_new(u64 number);
void memtable_get(struct memtable *m);
void memtable_put(struct memtable *m);
int memtable_prepare(struct memtable *m, struct slice entries);
void memtable_add(struct memtable *m, struct slice entries, u64 seq, u32 place);
bool memtable_find(const struct memtable *m, struct slice key, u64 seq, struct entry *e);
struct cursor *memtable_cursor(struct memtable *m);

#endif /* KV_MEMTABLE_H */
