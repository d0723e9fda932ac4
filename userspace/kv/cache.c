// SPDX-License-Identifier: GPL-2.0
/* A cache with one lock and one budget; what was used last stays longest. */
#include <pthread.h>

#include "cache.h"

#define BUCKETS_BITS	12U

/**
 * struct cache - all of it
 * @lock: of all
 * @budget: bytes to stay below, but for what is in use
 * @bytes: now
 * @oldest: the next to go
 * @newest: the last to go
 * @bucket: by hash
 * @tables: by hash of the table alone
 */
struct cache {
	pthread_mutex_t lock;
	u64 budget, bytes;
	struct cache_item *oldest, *newest;
	struct cache_item *bucket[1U << BUCKETS_BITS];
	struct cache_item *tables[1U << BUCKETS_BITS];
};

struct cache *cache_new(u64 bytes)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (c) {
		pthread_mutex_init(&c->lock, NULL);
		c->budget = bytes;
	}
	return c;
}

static struct cache_item **bucket(struct cache *c, u64 table, u32 offset)
{
	return &c->bucket[hash_64(table * 0x100000001b3ULL + offset, BUCKETS_BITS)];
}

static struct cache_item **of_table(struct cache *c, u64 table)
{
	return &c->tables[hash_64(table, BUCKETS_BITS)];
}

static u64 cost(const struct cache_item *item)
{
	return sizeof(*item) + item->bytes;
}

static void unlink_age(struct cache *c, struct cache_item *item)
{
	*(item->older ? &item->older->newer : &c->oldest) = item->newer;
	*(item->newer ? &item->newer->older : &c->newest) = item->older;
}

static void link_age(struct cache *c, struct cache_item *item)
{
	item->newer = NULL;
	item->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = item;
	c->newest = item;
}

static void link_oldest(struct cache *c, struct cache_item *item)
{
	item->older = NULL;
	item->newer = c->oldest;
	*(c->oldest ? &c->oldest->older : &c->newest) = item;
	c->oldest = item;
}

static void link_hash(struct cache *c, struct cache_item *item)
{
	struct cache_item **link = bucket(c, item->table, item->offset);

	item->chain = *link;
	*link = item;
	link = of_table(c, item->table);
	item->beside = *link;
	item->behind = link;
	if (*link)
		(*link)->behind = &item->beside;
	*link = item;
	c->bytes += cost(item);
}

static void unref(struct cache_item *item)
{
	if (!--item->refs)
		free(item);
}

static void drop(struct cache *c, struct cache_item *item)
{
	struct cache_item **link = bucket(c, item->table, item->offset);

	while (*link != item)
		link = &(*link)->chain;
	*link = item->chain;
	*item->behind = item->beside;
	if (item->beside)
		item->beside->behind = item->behind;
	unlink_age(c, item);
	c->bytes -= cost(item);
	unref(item);
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	while (c->oldest)
		drop(c, c->oldest);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* An item that is not in the cache yet; NULL without memory. */
struct cache_item *cache_item_new(u64 table, u32 offset, u32 bytes)
{
	struct cache_item *item = malloc(sizeof(*item) + bytes);

	if (item)
		*item = (struct cache_item){ .table = table, .offset = offset,
					     .bytes = bytes, .refs = 1 };
	return item;
}

static struct cache_item *find(struct cache *c, u64 table, u32 offset)
{
	struct cache_item *item = *bucket(c, table, offset);

	while (item && (item->table != table || item->offset != offset))
		item = item->chain;
	return item;
}

static struct cache_item *look(struct cache *c, u64 table, u32 offset)
{
	struct cache_item *item = find(c, table, offset);

	if (item) {
		item->refs++;
		unlink_age(c, item);
		link_age(c, item);
	}
	return item;
}

/* To be put again; NULL if it is not there. */
struct cache_item *cache_get(struct cache *c, u64 table, u32 offset)
{
	struct cache_item *item;

	pthread_mutex_lock(&c->lock);
	item = look(c, table, offset);
	pthread_mutex_unlock(&c->lock);
	return item;
}

/* The item, or the same one if another thread was first; to be put again. */
struct cache_item *cache_add(struct cache *c, struct cache_item *item)
{
	struct cache_item *there;

	pthread_mutex_lock(&c->lock);
	there = look(c, item->table, item->offset);
	if (there) {
		unref(item);
		item = there;
		goto out;
	}
	while (c->oldest && c->bytes + cost(item) > c->budget)
		drop(c, c->oldest);
	link_hash(c, item);
	link_age(c, item);
	item->refs++;
out:
	pthread_mutex_unlock(&c->lock);
	return item;
}

/* Would so much more fit in, and nothing have to go? */
bool cache_room(struct cache *c, u64 bytes)
{
	bool room;

	pthread_mutex_lock(&c->lock);
	room = c->bytes + bytes <= c->budget;
	pthread_mutex_unlock(&c->lock);
	return room;
}

/**
 * cache_offer() - what nobody has asked for yet, and somebody may
 * @c: the cache
 * @item: the item; gone for the caller
 *
 * It stays only if nothing has to go for it, and is the next to go until it is asked for.
 */
void cache_offer(struct cache *c, struct cache_item *item)
{
	pthread_mutex_lock(&c->lock);
	if (c->bytes + cost(item) > c->budget || find(c, item->table, item->offset)) {
		unref(item);
	} else {
		link_hash(c, item);
		link_oldest(c, item);
	}
	pthread_mutex_unlock(&c->lock);
}

/* What was kept of a table: nobody will ask for it, or is to read it anew. */
void cache_forget(struct cache *c, u64 table)
{
	struct cache_item *item, *beside;

	pthread_mutex_lock(&c->lock);
	for (item = *of_table(c, table); item; item = beside) {
		beside = item->beside;
		if (item->table == table)
			drop(c, item);
	}
	pthread_mutex_unlock(&c->lock);
}

void cache_put(struct cache *c, struct cache_item *item)
{
	if (!item)
		return;
	pthread_mutex_lock(&c->lock);
	unref(item);
	pthread_mutex_unlock(&c->lock);
}
