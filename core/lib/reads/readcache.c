// SPDX-License-Identifier: GPL-2.0
/* Which units of the medium are in the read cache, see readcache.h.  Pure code. */
#include "engine/engine.h"
#include "reads/readcache.h"

#define NONE		SHINGLE_NO_CACHE_SLOT
#define GROUP_SHIFT	6
#define GROUP		(1U << GROUP_SHIFT)
/* Slots that the end of a fill looks at; with more newer ones, the order becomes approximate. */
#define NEWER_SLOTS	1024U

/* Neighbouring units have neighbouring buckets. */
static u32 bucket(const struct shingle_readcache *c, u64 place)
{
	u64 group = place >> GROUP_SHIFT;
	u32 hash = ((u32)group ^ (u32)(group >> 32)) * 0x9e3779b1U;

	return ((u32)(mul_u32_u32(hash, c->nr_buckets >> GROUP_SHIFT) >> 32) << GROUP_SHIFT) |
	       (place & (GROUP - 1));
}

/**
 * shingle_readcache_init() - make an empty cache
 * @c: the cache
 * @units: size, may be 0
 * @exact: by exact fragments
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_readcache_init(struct shingle_readcache *c, u32 units, bool exact)
{
	memset(c, 0, sizeof(*c));
	c->exact = exact;
	c->nr_slots = units;
	c->limit = units;
	c->free = NONE;
	c->newest = NONE;
	c->oldest = NONE;
	if (!units)
		return 0;
	if (units > INT_MAX / sizeof(*c->slot))
		return -ENOMEM;
	c->nr_buckets = DIV_ROUND_UP(units, GROUP) * GROUP;
	c->bucket = shingle_zalloc_array(c->nr_buckets, sizeof(*c->bucket));
	c->slot = shingle_zalloc_array(units, sizeof(*c->slot));
	if (c->bucket && c->slot) {
		memset(c->bucket, 0xff, c->nr_buckets * sizeof(*c->bucket));
		return 0;
	}
	shingle_readcache_exit(c);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(shingle_readcache_init);

/**
 * shingle_readcache_exit() - free the memory of a cache
 * @c: the cache, without fills; shingle_readcache_init() may have failed
 *
 * Context: may sleep.
 */
void shingle_readcache_exit(struct shingle_readcache *c)
{
	kvfree(c->bucket);
	kvfree(c->slot);
	memset(c, 0, sizeof(*c));
}
EXPORT_SYMBOL_GPL(shingle_readcache_exit);

/**
 * shingle_readcache_bytes() - memory of a cache, without its data
 * @c: the cache
 *
 * Context: any.
 * Return: number of bytes.
 */
u64 shingle_readcache_bytes(const struct shingle_readcache *c)
{
	return (u64)c->nr_buckets * sizeof(*c->bucket) + (u64)c->nr_slots * sizeof(*c->slot);
}
EXPORT_SYMBOL_GPL(shingle_readcache_bytes);

/* Find the slot of a unit; @back and @len: its fragment, 0 unless the cache is exact. */
static u32 find(const struct shingle_readcache *c, u64 place, u32 back, u32 len)
{
	u32 s = c->bucket[bucket(c, place)];

	while (s != NONE && (c->slot[s].place != place || c->slot[s].back != back ||
			     c->slot[s].len != len))
		s = c->slot[s].hash;
	return s;
}

/* Find the slot of unit @i of a fragment of @n units. */
static u32 find_part(const struct shingle_readcache *c, u64 place, u32 n, u32 i)
{
	return c->exact ? find(c, place + i, i, n) : find(c, place + i, 0, 0);
}

/* Link a slot in front of @older, which is NONE if it becomes the oldest one. */
static void link_slot(struct shingle_readcache *c, u32 s, u32 older, u32 turn)
{
	u32 newer = older == NONE ? c->oldest : c->slot[older].prev;

	c->slot[s].turn = turn;
	c->slot[s].prev = newer;
	c->slot[s].next = older;
	if (newer != NONE)
		c->slot[newer].next = s;
	else
		c->newest = s;
	if (older != NONE)
		c->slot[older].prev = s;
	else
		c->oldest = s;
}

/* Find the newest slot with a turn up to @turn.  Return: it, or NONE. */
static u32 slot_before(const struct shingle_readcache *c, u32 turn)
{
	u32 s = c->newest, i;

	for (i = 0; i < NEWER_SLOTS && s != NONE && (s32)(c->slot[s].turn - turn) > 0; i++)
		s = c->slot[s].next;
	return s;
}

static void unlink_slot(struct shingle_readcache *c, u32 s)
{
	struct shingle_readcache_slot *slot = &c->slot[s];

	if (slot->prev != NONE)
		c->slot[slot->prev].next = slot->next;
	else
		c->newest = slot->next;
	if (slot->next != NONE)
		c->slot[slot->next].prev = slot->prev;
	else
		c->oldest = slot->prev;
}

static void make_free(struct shingle_readcache *c, u32 s)
{
	c->slot[s].state = SHINGLE_CACHE_FREE;
	c->slot[s].next = c->free;
	c->free = s;
	c->used--;
}

/* A slot that is here can be found no more. */
static void drop(struct shingle_readcache *c, u32 s)
{
	struct shingle_readcache_slot *slot = &c->slot[s];
	u32 *at = &c->bucket[bucket(c, slot->place)];

	while (*at != s)
		at = &c->slot[*at].hash;
	*at = slot->hash;
	unlink_slot(c, s);
	c->here--;
	if (slot->held)
		slot->state = SHINGLE_CACHE_DROPPED;
	else
		make_free(c, s);
}

/* Drop a slot, and in an exact cache the rest of its fragment.  Return: number of slots. */
static u32 drop_fragment(struct shingle_readcache *c, u32 s)
{
	u64 place = c->slot[s].place - c->slot[s].back;
	u32 n = c->slot[s].len, i;

	if (!c->exact) {
		drop(c, s);
		return 1;
	}
	for (i = 0; i < n; i++)
		drop(c, find(c, place + i, i, n));
	return n;
}

/**
 * shingle_readcache_hit() - is a fragment in the cache?
 * @c: the cache
 * @place: its first unit
 * @n: number of units, at least 1
 * @slots: result: the slot of each unit, held until shingle_readcache_put(); NULL: none is held
 *
 * Its units become the most recently used ones.
 *
 * Context: the caller's lock.
 * Return: whether all of it is here.
 */
bool shingle_readcache_hit(struct shingle_readcache *c, u64 place, u32 n, u32 *slots)
{
	u32 i, s, turn;

	for (i = 0; i < n; i++) {
		s = n <= c->here ? find_part(c, place, n, i) : NONE;
		if (s == NONE) {
			c->count.misses++;
			return false;
		}
		if (slots)
			slots[i] = s;
	}
	turn = ++c->turn;
	for (i = 0; i < n; i++) {
		s = slots ? slots[i] : find_part(c, place, n, i);
		unlink_slot(c, s);
		link_slot(c, s, c->newest, turn);
		if (slots)
			c->slot[s].held++;
	}
	c->count.hits++;
	c->count.hit_units += n;
	return true;
}
EXPORT_SYMBOL_GPL(shingle_readcache_hit);

/**
 * shingle_readcache_put() - a reader has read its slots
 * @c: the cache
 * @slots: from shingle_readcache_hit()
 * @n: number of slots
 *
 * Context: the caller's lock.
 */
void shingle_readcache_put(struct shingle_readcache *c, const u32 *slots, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		struct shingle_readcache_slot *slot = &c->slot[slots[i]];

		slot->held--;
		if (!slot->held && slot->state == SHINGLE_CACHE_DROPPED)
			make_free(c, slots[i]);
	}
}
EXPORT_SYMBOL_GPL(shingle_readcache_put);

/* Take a slot, from the oldest unit if all are used.  Return: it, or NONE if all are held. */
static u32 take(struct shingle_readcache *c)
{
	u32 s;

	while (c->used >= c->limit) {
		if (c->oldest == NONE)
			return NONE;
		c->count.evicted_units += drop_fragment(c, c->oldest);
	}
	s = c->free;
	if (s != NONE)
		c->free = c->slot[s].next;
	else
		s = c->fresh++;
	c->used++;
	c->slot[s].state = SHINGLE_CACHE_FILLING;
	return s;
}

/* The slots of a fill are free again. */
static void give_back(struct shingle_readcache *c, struct shingle_readcache_fill *f)
{
	u32 s;

	for (; f->n; f->n--) {
		s = f->slot;
		f->slot = c->slot[s].next;
		make_free(c, s);
	}
}

/**
 * shingle_readcache_fill() - a fragment that is not in the cache is about to be read
 * @c: the cache
 * @f: result; the caller's until shingle_readcache_filled() or shingle_readcache_cancel()
 * @place: first unit of the fragment
 * @n: number of units, at least 1
 *
 * Evicts the units that have not been used for longest.  If the cache is smaller than the fragment,
 * its last units get slots; none do in an exact cache.  Slots that are held are in use, and so are
 * those of other fills.
 *
 * Context: the caller's lock.
 * Return: number of units that got slots; if 0, @f is not used.
 */
u32 shingle_readcache_fill(struct shingle_readcache *c, struct shingle_readcache_fill *f,
			   u64 place, u32 n)
{
	u32 want = min(n, c->limit), i, s;

	memset(f, 0, sizeof(*f));
	f->slot = NONE;
	if (!want)
		return 0;
	if (c->nr_fills >= SHINGLE_READCACHE_FILLS || (c->exact && want < n)) {
		c->count.refused++;
		return 0;
	}
	/* Parts that are here from other reads are read again, and are the newest then. */
	for (i = 0; i < n && c->here; i++) {
		s = find_part(c, place, n, i);
		if (s != NONE)
			drop_fragment(c, s);
	}
	while (f->n < want) {
		s = take(c);
		if (s == NONE)
			break;
		i = n - 1 - f->n++;
		c->slot[s].place = place + i;
		c->slot[s].back = c->exact ? i : 0;
		c->slot[s].len = c->exact ? n : 0;
		c->slot[s].next = f->slot;
		f->slot = s;
	}
	if (c->exact && f->n < n)
		give_back(c, f);
	if (!f->n) {
		c->count.refused++;
		return 0;
	}
	f->place = place + n - f->n;
	f->turn = ++c->turn;
	f->next = c->fills;
	if (c->fills)
		c->fills->prev = f;
	c->fills = f;
	c->nr_fills++;
	return f->n;
}
EXPORT_SYMBOL_GPL(shingle_readcache_fill);

static void end_fill(struct shingle_readcache *c, struct shingle_readcache_fill *f)
{
	if (f->prev)
		f->prev->next = f->next;
	else
		c->fills = f->next;
	if (f->next)
		f->next->prev = f->prev;
	c->nr_fills--;
}

/**
 * shingle_readcache_filled() - the data of a fill are in its slots
 * @c: the cache
 * @f: the fill; is ended
 *
 * The order of eviction is that in which fragments were looked up.  The order in which fills end
 * does not change it.
 *
 * Context: the caller's lock; looks at 1,024 slots beside those of the fill.
 * Return: false if it was cancelled.
 */
bool shingle_readcache_filled(struct shingle_readcache *c, struct shingle_readcache_fill *f)
{
	u32 s, next, other, older, i;

	if (f->cancelled) {
		shingle_readcache_cancel(c, f);
		return false;
	}
	end_fill(c, f);
	c->count.filled_units += f->n;
	/* Another fill of the same unit may have been faster. */
	for (s = f->slot, i = 0; i < f->n; s = c->slot[s].next, i++) {
		other = find(c, c->slot[s].place, c->slot[s].back, c->slot[s].len);
		if (other != NONE)
			drop(c, other);
	}
	older = slot_before(c, f->turn);
	for (s = f->slot; f->n; s = next, f->n--) {
		struct shingle_readcache_slot *slot = &c->slot[s];
		u32 *head = &c->bucket[bucket(c, slot->place)];

		next = slot->next;
		slot->state = SHINGLE_CACHE_HERE;
		slot->hash = *head;
		*head = s;
		link_slot(c, s, older, f->turn);
		older = s;
		c->here++;
	}
	return true;
}
EXPORT_SYMBOL_GPL(shingle_readcache_filled);

/**
 * shingle_readcache_cancel() - end a fill without data, because the read has failed
 * @c: the cache
 * @f: the fill
 *
 * Context: the caller's lock.
 */
void shingle_readcache_cancel(struct shingle_readcache *c, struct shingle_readcache_fill *f)
{
	end_fill(c, f);
	give_back(c, f);
	c->count.cancelled++;
}
EXPORT_SYMBOL_GPL(shingle_readcache_cancel);

/**
 * shingle_readcache_forget() - places are about to be overwritten or released
 * @c: the cache
 * @place: the first
 * @n: number of units, at least 1
 *
 * Fills that contain one of them are cancelled: shingle_readcache_filled() will return false.
 *
 * Context: the caller's lock; looks at SHINGLE_WALK units.
 * Return: number of units that are done, 1 to @n.
 */
u32 shingle_readcache_forget(struct shingle_readcache *c, u64 place, u32 n)
{
	struct shingle_readcache_fill *f;
	u32 done = c->here ? min(n, SHINGLE_WALK) : n, i, s, dropped = 0;

	for (i = 0; c->here && i < done && dropped < SHINGLE_WALK; i++) {
		s = c->bucket[bucket(c, place + i)];
		while (s != NONE) {
			if (c->slot[s].place != place + i) {
				s = c->slot[s].hash;
				continue;
			}
			/* The slots behind it in the bucket may be of the same fragment. */
			dropped += drop_fragment(c, s);
			s = c->bucket[bucket(c, place + i)];
		}
	}
	if (c->here)
		done = i;
	c->count.forgotten_units += dropped;
	for (f = c->fills; f; f = f->next)
		f->cancelled |= f->place < place + done && place < f->place + f->n;
	return done;
}
EXPORT_SYMBOL_GPL(shingle_readcache_forget);

/* Drop old units until @most are here.  Return: whether there are more. */
static bool shrink(struct shingle_readcache *c, u32 most)
{
	u32 dropped = 0;

	while (c->here > most && dropped < SHINGLE_WALK)
		dropped += drop_fragment(c, c->oldest);
	return c->here > most;
}

/**
 * shingle_readcache_clear() - forget everything
 * @c: the cache
 *
 * Context: the caller's lock; looks at SHINGLE_WALK units.
 * Return: whether there is more to forget: call it again.
 */
bool shingle_readcache_clear(struct shingle_readcache *c)
{
	struct shingle_readcache_fill *f;

	for (f = c->fills; f; f = f->next)
		f->cancelled = true;
	return shrink(c, 0);
}
EXPORT_SYMBOL_GPL(shingle_readcache_clear);

/**
 * shingle_readcache_limit() - use less than all slots, or all again
 * @c: the cache
 * @units: most slots to use, at most the size it was made with
 *
 * Context: the caller's lock; looks at SHINGLE_WALK units.
 * Return: whether units must still be evicted: call it again.
 */
bool shingle_readcache_limit(struct shingle_readcache *c, u32 units)
{
	c->limit = min(units, c->nr_slots);
	return shrink(c, c->limit);
}
EXPORT_SYMBOL_GPL(shingle_readcache_limit);

/**
 * shingle_readcache_verify() - check a part of the slots
 * @c: the cache
 * @cursor: 0 at first; SHINGLE_NO_CACHE_SLOT after the last part.  Changes may come between
 * @report: called with a sentence for each contradiction
 * @ctx: for @report
 *
 * Context: the caller's lock; looks at SHINGLE_WALK slots.
 * Return: number of contradictions.
 */
u32 shingle_readcache_verify(const struct shingle_readcache *c, u32 *cursor,
			     void (*report)(void *ctx, const char *fmt, ...) __printf(2, 3),
			     void *ctx)
{
	u32 begin = *cursor, end = min(c->fresh, begin + SHINGLE_WALK), used = 0, here = 0, bad = 0;
	u32 s;

	for (s = begin; s < end; s++) {
		const struct shingle_readcache_slot *slot = &c->slot[s];
		const char *why = NULL;

		used += slot->state != SHINGLE_CACHE_FREE;
		here += slot->state == SHINGLE_CACHE_HERE;
		if (slot->state != SHINGLE_CACHE_HERE) {
			if (slot->state == SHINGLE_CACHE_FREE && slot->held)
				why = "is free and held";
		} else if (find(c, slot->place, slot->back, slot->len) != s) {
			why = "cannot be found";
		} else if ((slot->prev == NONE ? c->newest : c->slot[slot->prev].next) != s ||
			   (slot->next == NONE ? c->oldest : c->slot[slot->next].prev) != s) {
			why = "is not in the list of those in use";
		} else if (c->exact && slot->back + 1 < slot->len &&
			   find(c, slot->place + 1, slot->back + 1, slot->len) == NONE) {
			why = "is without the rest of its fragment";
		}
		if (why) {
			report(ctx, "slot %u of the read cache %s", s, why);
			bad++;
		}
	}
	*cursor = end == c->fresh ? NONE : end;
	if (!begin && end == c->fresh && (used != c->used || here != c->here)) {
		report(ctx, "the read cache has %u used slots and %u units, it counts %u and %u",
		       used, here, c->used, c->here);
		bad++;
	}
	return bad;
}
EXPORT_SYMBOL_GPL(shingle_readcache_verify);
