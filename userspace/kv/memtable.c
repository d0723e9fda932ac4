// SPDX-License-Identifier: GPL-2.0
/* A skip list whose readers take no lock: what they can reach never changes. */
#include "error.h"
#include "memtable.h"

#define ARENA_BYTES	(256U << 10)

struct node {
	struct entry e;
	u32 height;
	struct node *next[];
};

struct arena {
	struct arena *older;
	size_t used, room;
	u64 mem[];
};

struct memtable *memtable_new(u64 number)
{
	struct memtable *m = calloc(1, sizeof(*m));

	if (m)
		*m = (struct memtable){ .refs = 1, .number = number, .rng = 1 };
	return m;
}

void memtable_get(struct memtable *m)
{
	__atomic_fetch_add(&m->refs, 1, __ATOMIC_RELAXED);
}

void memtable_put(struct memtable *m)
{
	struct arena *a;

	if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	while ((a = m->arena)) {
		m->arena = a->older;
		free(a);
	}
	free(m);
}

/* Each height has a fourth of the one below. */
static u32 height(u32 *rng)
{
	u32 h = 1;

	*rng = *rng * 1664525U + 1013904223U;
	while (h < MEMTABLE_HEIGHT && !(*rng >> (30 - 2 * h) & 3))
		h++;
	return h;
}

static size_t node_bytes(const struct entry *e, u32 h)
{
	return round_up(sizeof(struct node) + h * sizeof(struct node *) + e->key.bytes +
			e->value.bytes, sizeof(u64));
}

static void *arena_take(struct memtable *m, size_t bytes)
{
	void *p = (u8 *)m->arena->mem + m->arena->used;

	m->arena->used += bytes;
	return p;
}

/**
 * memtable_prepare() - memory for what memtable_add() will add next
 * @m: the memtable
 * @entries: as entry_encode() writes them; of our own making
 *
 * Returns 0 or -ENOMEM.
 */
int memtable_prepare(struct memtable *m, struct slice entries)
{
	u32 at = 0, rng = m->rng;
	size_t need = 0;
	struct arena *a;
	struct entry e;

	while (at < entries.bytes && !entry_decode(entries.data + at, entries.bytes - at, &e)) {
		need += node_bytes(&e, height(&rng));
		at += entry_bytes(&e);
	}
	if (m->arena && m->arena->room - m->arena->used >= need)
		return 0;
	a = malloc(sizeof(*a) + max_t(size_t, need, ARENA_BYTES));
	if (!a)
		return kv_no_memory();
	a->older = m->arena;
	a->used = 0;
	a->room = max_t(size_t, need, ARENA_BYTES);
	m->arena = a;
	return 0;
}

static struct node *load(struct node *const *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* The first node that is not before @e; @link, if wanted, gets what leads there. */
static struct node *find(const struct memtable *m, const struct entry *e, struct node ***link)
{
	struct node *const *next = m->head;
	struct node *n = NULL;
	u32 h = MEMTABLE_HEIGHT;

	while (h--) {
		while ((n = load(&next[h])) && entry_cmp(&n->e, e) < 0)
			next = n->next;
		if (link)
			link[h] = (struct node **)&next[h];
	}
	return n;
}

static void add(struct memtable *m, const struct entry *e, u32 h)
{
	struct node *n = arena_take(m, node_bytes(e, h)), **link[MEMTABLE_HEIGHT];
	u8 *data = (u8 *)&n->next[h];
	u32 i;

	n->e = *e;
	n->height = h;
	memcpy(data, e->key.data, e->key.bytes);
	n->e.key.data = data;
	if (e->value.bytes)
		memcpy(data + e->key.bytes, e->value.data, e->value.bytes);
	n->e.value.data = data + e->key.bytes;
	find(m, &n->e, link);
	for (i = 0; i < h; i++) {
		n->next[i] = *link[i];
		__atomic_store_n(link[i], n, __ATOMIC_RELEASE);
	}
	/* kv_stats() looks at it meanwhile. */
	__atomic_store_n(&m->bytes, m->bytes + entry_bytes(e), __ATOMIC_RELAXED);
	m->key_bytes += e->key.bytes;
	m->entries++;
	m->max_key = max(m->max_key, e->key.bytes);
}

/**
 * memtable_add() - entries that memtable_prepare() has made room for
 * @m: the memtable
 * @entries: the same
 * @seq: added to the number of each
 * @place: of the first in the band of its log
 */
void memtable_add(struct memtable *m, struct slice entries, u64 seq, u32 place)
{
	struct entry e;
	u32 at = 0;

	while (at < entries.bytes && !entry_decode(entries.data + at, entries.bytes - at, &e)) {
		e.place = place + at;
		at += entry_bytes(&e);
		e.seq += seq;
		add(m, &e, height(&m->rng));
	}
}

/**
 * memtable_find() - the version of a key
 * @m: the memtable
 * @key: see there
 * @seq: that no version may be newer than
 * @e: result
 *
 * Returns false if it has none.
 */
bool memtable_find(const struct memtable *m, struct slice key, u64 seq, struct entry *e)
{
	struct entry want = { .key = key, .seq = seq };
	struct node *n = find(m, &want, NULL);

	if (!n || slice_cmp(n->e.key, key))
		return false;
	*e = n->e;
	return true;
}

struct mem_cursor {
	struct cursor c;
	struct memtable *m;
	struct node *n;
};

static int settle(struct mem_cursor *mc)
{
	mc->c.valid = mc->n;
	if (mc->n)
		mc->c.at = mc->n->e;
	return 0;
}

static int mem_seek(struct cursor *c, struct slice key)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);
	struct entry want = { .key = key, .seq = U64_MAX };

	mc->n = find(mc->m, &want, NULL);
	return settle(mc);
}

static int mem_next(struct cursor *c)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);

	mc->n = load(&mc->n->next[0]);
	return settle(mc);
}

/* The last node before @e, or of all without one; NULL if there is none. */
static struct node *find_before(const struct memtable *m, const struct entry *e)
{
	struct node *const *next = m->head;
	struct node *n, *at = NULL;
	u32 h = MEMTABLE_HEIGHT;

	while (h--) {
		while ((n = load(&next[h])) && (!e || entry_cmp(&n->e, e) < 0)) {
			at = n;
			next = n->next;
		}
	}
	return at;
}

static int mem_seek_before(struct cursor *c, const struct slice *key)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);
	struct entry want = { .seq = U64_MAX };

	if (key)
		want.key = *key;
	mc->n = find_before(mc->m, key ? &want : NULL);
	return settle(mc);
}

static int mem_prev(struct cursor *c)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);

	mc->n = find_before(mc->m, &mc->n->e);
	return settle(mc);
}

static void mem_free(struct cursor *c)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);

	memtable_put(mc->m);
	free(mc);
}

static const struct cursor_ops mem_ops = {
	.seek = mem_seek,
	.next = mem_next,
	.seek_before = mem_seek_before,
	.prev = mem_prev,
	.free = mem_free,
};

/* NULL without memory. */
struct cursor *memtable_cursor(struct memtable *m)
{
	struct mem_cursor *mc = calloc(1, sizeof(*mc));

	if (!mc)
		return NULL;
	mc->c.ops = &mem_ops;
	mc->m = m;
	memtable_get(m);
	return &mc->c;
}
