/* SPDX-License-Identifier: GPL-2.0 */
/* What was read of tables and found right, as long as there is room. */
#ifndef KV_CACHE_H
#define KV_CACHE_H

#include <shim.h>

/**
 * struct cache_item - some bytes of a table
 * @chain: next of the same hash
 * @older: used before it
 * @newer: used after it
 * @beside: next of the same table, or of another that has the same hash
 * @behind: what points to it there
 * @table: id of the table
 * @offset: where in it
 * @bytes: how many
 * @refs: users, and the cache
 * @data: the bytes
 */
struct cache_item {
	struct cache_item *chain, *older, *newer, *beside, **behind;
	u64 table;
	u32 offset, bytes;
	u32 refs;
	/* Structures are read from it. */
	u8 data[] __attribute__((__aligned__(8)));
};

struct cache *cache_new(u64 bytes);
void cache_free(struct cache *c);
struct cache_item *cache_item_new(u64 table, u32 offset, u32 bytes);
struct cache_item *cache_get(struct cache *c, u64 table, u32 offset);
struct cache_item *cache_add(struct cache *c, struct cache_item *item);
bool cache_room(struct cache *c, u64 bytes);
void cache_offer(struct cache *c, struct cache_item *item);
void cache_forget(struct cache *c, u64 table);
void cache_put(struct cache *c, struct cache_item *item);

#endif /* KV_CACHE_H */
