// SPDX-License-Identifier: GPL-2.0
/* A cache with one budget and a lock for each shard; what was used last stays longest. */
#include "cache.h"

/* With less, what goes first is exact: there is one shard. */
#define SHARDS_FROM	(16ULL << 20)
#define FIRST_BITS	6U
#define MOST_BITS	28U

static u64 hash(u64 table, u32 offset)
{
	return (table * 0x100000001b3ULL + offset) * 0x61C8864680B583EBULL;
}

/* The shard has the first bits of a hash, and the bucket those behind. */
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

/* With its share in the buckets. */
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

/* Twice as many buckets; without memory chains get longer, and that is all. */
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

/* Before it is linked by age, as what is linked so is linked by hash. */
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

/* NULL without memory. */
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

/* An item that is not in the cache yet; NULL without memory. */
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
	/* What is among the newest fourth stays where it is: its neighbours are not looked at. */
	if (s->clock - item->moved > s->items / 4 && item->newer) {
		unlink_age(s, item);
		link_age(s, item);
	}
	return item;
}

/* To be put again; NULL if it is not there. */
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

/* Its oldest item goes, if there is too much and it is not @kept; false if it was not so. */
static bool drop_oldest(struct cache *c, struct shard *s, const struct cache_item *kept)
{
	if (now_bytes(c) <= c->budget || !s->oldest || s->oldest == kept)
		return false;
	drop(c, s, s->oldest);
	return true;
}

/* Items of all shards in turn, for one that was too large for those of its own. */
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

/* The item, or the same one if another thread was first; to be put again. */
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
		/* Of a block the shard's own are enough. */
		while (most-- && drop_oldest(c, s, item))
			;
	}
	pthread_mutex_unlock(&s->lock);
	shrink(c, there);
	return there;
}

/* Would so much more fit in, and nothing have to go? */
bool cache_room(struct cache *c, u64 bytes)
{
	return now_bytes(c) + bytes <= c->budget;
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

/* What was kept of a table: nobody will ask for it, or is to read it again. */
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
