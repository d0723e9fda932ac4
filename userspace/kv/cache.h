/* SPDX-License-Identifier: GPL-2.0 */
/* Cache of pieces of tables that were read and verified, up to a budget. */
#ifndef KV_CACHE_H
#define KV_CACHE_H

#include <pthread.h>
#include <shim.h>

/**
 * struct cache_item - a piece of a table
 * @chain: next item with the same hash
 * @older: item that was used before this one
 * @newer: item that was used after this one
 * @beside: next item with the same hash of the table
 * @behind: the pointer to this item in that list
 * @table: id of the table
 * @offset: offset of the piece in the table
 * @bytes: size of the piece
 * @refs: number of users, the cache included; changed atomically
 * @moved: the shard's @clock when the item was last made the newest
 * @data: the bytes
 */
struct cache_item {
	struct cache_item *chain, *older, *newer, *beside, **behind;
	u64 table;
	u32 offset, bytes;
	u32 refs, moved;
	/* Structures are read from @data. */
	u8 data[] __attribute__((__aligned__(8)));
};

/**
 * struct shard - the items of a part of all hashes
 * @lock: guards all fields below, and the links of the items
 * @oldest: item that is dropped next
 * @newest: item that is dropped last
 * @items: number of items
 * @clock: number of times that an item was made the newest
 * @bits: @bucket and @table have 2^@bits elements each; at least one for each item, unless memory
 *	was lacking
 * @bucket: items by hash
 * @table: items by the hash of the table alone
 */
struct shard {
	pthread_mutex_t lock;
	struct cache_item *oldest, *newest;
	u32 items, clock, bits;
	struct cache_item **bucket, **table;
} __attribute__((__aligned__(64)));

#define SHARD_BITS	4U

/**
 * struct cache - the cache of a store
 * @budget: limit of @bytes; items in use may exceed it
 * @bytes: bytes in the cache; changed atomically under the lock of a shard
 * @shard_bits: there are 2^@shard_bits shards
 * @shard: the shards
 *
 * No thread holds the locks of two shards at the same time.
 */
struct cache {
	u64 budget, bytes;
	u32 shard_bits;
	struct shard shard[1U << SHARD_BITS];
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
