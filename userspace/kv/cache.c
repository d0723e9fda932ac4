// SPDX-License-Identifier: GPL-2.0
/* An LRU cache with one budget for all items and a lock for each shard. */
#include "cache.h"

/* A smaller cache has one shard, so that the order of evictions is exact. */
#define SHARDS_FROM	(16ULL << 20)
#define FIRST_BITS	6U
#define MOST_BITS	28U

static u64 hash(u64 table, u32 offset)
{
	return (table * 0x100000001b3ULL + offset) * 0x61C8864680B583EBULL;
}

/* The first bits of a hash select the shard, the bits behind them the bucket. */
static struct shard *shard_of(struct cache *c, u64 hash)
{
	return &c->shard[hash >> (64 - SHARD_BITS) >> (SHARD_BITS - c->shard_bits)];
}

static struct cache_item **bucket(struct shard *s, u64 hash)
{
	return &s->bucket[hash << SHARD_BITS >> (64 - s->bits)];
}

static struct cache_item **of_table(struct shard *s, u64 table)
{
	return &s->table[hash_64(table, s->bits)];
}

/* Bytes that an item takes, with its share of the buckets. */
static u64 cost(const struct cache_item *item)
{
	return sizeof(*item) + 2 * sizeof(item) + item->bytes;
}

static u64 now_bytes(const struct cache *c)
{
	return __atomic_load_n(&c->bytes, __ATOMIC_RELAXED);
}

static void unlink_age(struct shard *s, struct cache_item *item)
{
	*(item->older ? &item->older->newer : &s->oldest) = item->newer;
	*(item->newer ? &item->newer->older : &s->newest) = item->older;
}

static void link_age(struct shard *s, struct cache_item *item)
{
	item->newer = NULL;
	item->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = item;
	s->newest = item;
	item->moved = s->clock++;
}

static void link_oldest(struct shard *s, struct cache_item *item)
{
	item->older = NULL;
	item->newer = s->oldest;
	*(s->oldest ? &s->oldest->older : &s->newest) = item;
	s->oldest = item;
}

static void link_hash(struct shard *s, struct cache_item *item)
{
	struct cache_item **link = bucket(s, hash(item->table, item->offset));

	item->chain = *link;
	*link = item;
	link = of_table(s, item->table);
	item->beside = *link;
	item->behind = link;
	if (*link)
		(*link)->behind = &item->beside;
	*link = item;
}

/* Double the number of buckets.  Without memory the chains just get longer. */
static void grow(struct shard *s)
{
	size_t nr = (size_t)2 << s->bits;
	struct cache_item **buckets = calloc(nr, sizeof(*buckets));
	struct cache_item **tables = calloc(nr, sizeof(*tables)), *item;

	if (!buckets || !tables) {
		free(buckets);
		free(tables);
		return;
	}
	free(s->bucket);
	free(s->table);
	s->bucket = buckets;
	s->table = tables;
	s->bits++;
	for (item = s->oldest; item; item = item->newer)
		link_hash(s, item);
}

/* Add an item to the hashes; it must be linked by age afterwards. */
static void add(struct cache *c, struct shard *s, struct cache_item *item)
{
	if (s->items >> s->bits && s->bits < MOST_BITS)
		grow(s);
	link_hash(s, item);
	s->items++;
	__atomic_fetch_add(&c->bytes, cost(item), __ATOMIC_RELAXED);
}

static void unref(struct cache_item *item)
{
	if (!__atomic_sub_fetch(&item->refs, 1, __ATOMIC_ACQ_REL))
		free(item);
}

static void drop(struct cache *c, struct shard *s, struct cache_item *item)
{
	struct cache_item **link = bucket(s, hash(item->table, item->offset));

	while (*link != item)
		link = &(*link)->chain;
	*link = item->chain;
	*item->behind = item->beside;
	if (item->beside)
		item->beside->behind = item->behind;
	unlink_age(s, item);
	s->items--;
	__atomic_fetch_sub(&c->bytes, cost(item), __ATOMIC_RELAXED);
	unref(item);
}

/* Return: NULL without memory. */
struct cache *cache_new(u64 bytes)
{
	struct cache *c = aligned_alloc(__alignof__(*c), sizeof(*c));
	bool all = c;
	u32 i;

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->budget = bytes;
	c->shard_bits = bytes < SHARDS_FROM ? 0 : SHARD_BITS;
	for (i = 0; i < 1U << c->shard_bits; i++) {
		struct shard *s = &c->shard[i];

		pthread_mutex_init(&s->lock, NULL);
		s->bits = FIRST_BITS;
		s->bucket = calloc(1U << FIRST_BITS, sizeof(*s->bucket));
		s->table = calloc(1U << FIRST_BITS, sizeof(*s->table));
		all = all && s->bucket && s->table;
	}
	if (all)
		return c;
	cache_free(c);
	return NULL;
}

void cache_free(struct cache *c)
{
	u32 i;

	if (!c)
		return;
	for (i = 0; i < 1U << c->shard_bits; i++) {
		struct shard *s = &c->shard[i];

		while (s->oldest)
			drop(c, s, s->oldest);
		free(s->bucket);
		free(s->table);
		pthread_mutex_destroy(&s->lock);
	}
	free(c);
}

/* Return: an item that is not in the cache yet; NULL without memory. */
struct cache_item *cache_item_new(u64 table, u32 offset, u32 bytes)
{
	struct cache_item *item = malloc(sizeof(*item) + bytes);

	if (item)
		*item = (struct cache_item){ .table = table, .offset = offset,
					     .bytes = bytes, .refs = 1 };
	return item;
}

static struct cache_item *find(struct shard *s, u64 hash, u64 table, u32 offset)
{
	struct cache_item *item = *bucket(s, hash);

	while (item && (item->table != table || item->offset != offset))
		item = item->chain;
	return item;
}

static struct cache_item *look(struct shard *s, u64 hash, u64 table, u32 offset)
{
	struct cache_item *item = find(s, hash, table, offset);

	if (!item)
		return NULL;
	__atomic_fetch_add(&item->refs, 1, __ATOMIC_RELAXED);
	/*
	 * An item among the newest fourth is not moved, so that its neighbours need not be touched.
	 */
	if (s->clock - item->moved > s->items / 4 && item->newer) {
		unlink_age(s, item);
		link_age(s, item);
	}
	return item;
}

/* Return: a reference to the item, for cache_put(); NULL if it is not in the cache. */
struct cache_item *cache_get(struct cache *c, u64 table, u32 offset)
{
	u64 h = hash(table, offset);
	struct shard *s = shard_of(c, h);
	struct cache_item *item;

	pthread_mutex_lock(&s->lock);
	item = look(s, h, table, offset);
	pthread_mutex_unlock(&s->lock);
	return item;
}

/*
 * Drop the oldest item of a shard if the cache is over its budget, unless that is @kept.  Return:
 * false if nothing was dropped.
 */
static bool drop_oldest(struct cache *c, struct shard *s, const struct cache_item *kept)
{
	if (now_bytes(c) <= c->budget || !s->oldest || s->oldest == kept)
		return false;
	drop(c, s, s->oldest);
	return true;
}

/* Drop items of all shards in turn, if a new item is too large for its own shard to make room. */
static void shrink(struct cache *c, const struct cache_item *kept)
{
	struct shard *s;
	bool dropped;
	u32 i;

	do {
		dropped = false;
		for (i = 0; i < 1U << c->shard_bits && now_bytes(c) > c->budget; i++) {
			s = &c->shard[i];
			pthread_mutex_lock(&s->lock);
			dropped |= drop_oldest(c, s, kept);
			pthread_mutex_unlock(&s->lock);
		}
	} while (dropped);
}

/*
 * Return: a reference to the item, or to the same piece if another thread has added it before; for
 * cache_put().
 */
struct cache_item *cache_add(struct cache *c, struct cache_item *item)
{
	u64 h = hash(item->table, item->offset);
	struct shard *s = shard_of(c, h);
	struct cache_item *there;
	u32 most = 8;

	pthread_mutex_lock(&s->lock);
	there = look(s, h, item->table, item->offset);
	if (there) {
		unref(item);
	} else {
		there = item;
		add(c, s, item);
		link_age(s, item);
		__atomic_fetch_add(&item->refs, 1, __ATOMIC_RELAXED);
		/* To make room for a block, items of this shard are enough. */
		while (most-- && drop_oldest(c, s, item))
			;
	}
	pthread_mutex_unlock(&s->lock);
	shrink(c, there);
	return there;
}

/* Do @bytes more fit in without dropping anything? */
bool cache_room(struct cache *c, u64 bytes)
{
	return now_bytes(c) + bytes <= c->budget;
}

/**
 * cache_offer() - add an item that was not requested, but may be
 * @c: the cache
 * @item: the item; the caller loses its reference
 *
 * The item is added only if nothing has to be dropped for it.  It is dropped first until it is
 * requested.
 */
void cache_offer(struct cache *c, struct cache_item *item)
{
	u64 h = hash(item->table, item->offset);
	struct shard *s = shard_of(c, h);

	pthread_mutex_lock(&s->lock);
	if (!cache_room(c, cost(item)) || find(s, h, item->table, item->offset)) {
		unref(item);
	} else {
		add(c, s, item);
		link_oldest(s, item);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Drop all items of a table, which is gone or must be read again from the disk. */
void cache_forget(struct cache *c, u64 table)
{
	struct cache_item *item, *beside;
	struct shard *s;
	u32 i;

	for (i = 0; i < 1U << c->shard_bits; i++) {
		s = &c->shard[i];
		pthread_mutex_lock(&s->lock);
		for (item = *of_table(s, table); item; item = beside) {
			beside = item->beside;
			if (item->table == table)
				drop(c, s, item);
		}
		pthread_mutex_unlock(&s->lock);
	}
}

void cache_put(struct cache *c, struct cache_item *item)
{
	if (item)
		unref(item);
}
