/* SPDX-License-Identifier: GPL-2.0 */
/* What was read of tables and found right, as long as there is room. */
#ifndef KV_CACHE_H
#define KV_CACHE_H

#include <pthread.h>
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
 * @refs: users, and the cache; changed atomically
 * @moved: what the shard's @clock was when it was last made the newest
 * @data: the bytes
 */
struct cache_item {
	struct cache_item *chain, *older, *newer, *beside, **behind;
	u64 table;
	u32 offset, bytes;
	u32 refs, moved;
	/* Structures are read from it. */
	u8 data[] __attribute__((__aligned__(8)));
};

/**
 * struct shard - the items of some hashes
 * @lock: of all that follows, and of the links of its items
 * @oldest: the next to go
 * @newest: the last to go
 * @items: how many
 * @clock: how often an item was made the newest
 * @bits: there are 2^@bits of @bucket, and of @table; at least one for each item, unless there
 *	was no memory
 * @bucket: by hash
 * @table: by hash of the table alone
 */
struct shard {
	pthread_mutex_t lock;
	struct cache_item *oldest, *newest;
	u32 items, clock, bits;
	struct cache_item **bucket, **table;
} __attribute__((__aligned__(64)));

#define SHARD_BITS	4U

/**
 * struct cache - all of it
 * @budget: bytes to stay below, but for what is in use
 * @bytes: now; changed atomically, by the lock of the shard
 * @shard_bits: there are 2^@shard_bits shards
 * @shard: see there
 *
 * Nobody holds the locks of two shards.
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
