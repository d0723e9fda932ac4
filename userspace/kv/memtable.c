// SPDX-License-Identifier: GPL-2.0
/* A skip list.  Readers take no lock: nodes that they can reach never change. */
#include <random.h>
#include <sys/random.h>

#include "memtable.h"
#include "store.h"

#define ARENA_BYTES	(256U << 10)

u64 memtable_seed;

/*
 * The heights must not be predictable: keys chosen to match them would turn the skip list into a
 * plain list.
 */
static u64 seed(u64 number)
{
	u64 seed = memtable_seed;

	/* Early in a boot there may be no random bytes; then an address and the time are used. */
	if (!seed && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = mix64((uintptr_t)&seed ^ now_us());
	return mix64(seed ^ mix64(number));
}

struct memtable *memtable_new(u64 number)
{
	struct memtable *m = calloc(1, sizeof(*m));

	if (m)
		*m = (struct memtable){ .refs = 1, .number = number, .rng = seed(number) };
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

/* Each height has a fourth of the nodes of the one below. */
static u32 height(u64 *rng)
{
	u64 coins = random64(rng) | 1ULL << 2 * (MEMTABLE_HEIGHT - 1);

	return 1 + (u32)__builtin_ctzll(coins) / 2;
}

static size_t node_bytes(u64 data, u32 h)
{
	return round_up(h * sizeof(struct node *) + offsetof(struct node, key) + data, sizeof(u64));
}

static struct node *node_take(struct memtable *m, const struct entry *e, u32 h)
{
	size_t bytes = node_bytes((u64)e->key.bytes + e->value.bytes, h);
	u8 *p = (u8 *)m->arena->mem + m->arena->used;

	m->arena->used += bytes;
	__atomic_store_n(&m->memory, m->memory + bytes, __ATOMIC_RELAXED);
	return (struct node *)(p + h * sizeof(struct node *));
}

/**
 * memtable_fits() - is there room for a batch?
 * @m: the memtable
 * @memory: memory that the memtable may take
 * @entries: number of entries of the batch
 * @bytes: size of the entries, as entry_encode() writes them
 *
 * Heights are not known in advance.  On average a node has four thirds of a pointer; two are
 * counted.
 *
 * Return: True if there is room.
 */
bool memtable_fits(const struct memtable *m, u64 memory, u64 entries, u64 bytes)
{
	return m->memory + bytes + entries * (node_bytes(0, 2) - ENTRY_HEAD) <= memory;
}

/**
 * memtable_prepare() - allocate memory for the next memtable_add()
 * @m: the memtable
 * @entries: as entry_encode() writes them, from a trusted source
 *
 * Return: 0 or -ENOMEM.
 */
int memtable_prepare(struct memtable *m, struct slice entries)
{
	u64 rng = m->rng;
	u32 at = 0;
	size_t need = 0;
	struct arena *a;
	struct entry e;

	while (at < entries.bytes && !entry_decode(entries.data + at, entries.bytes - at, &e)) {
		need += node_bytes((u64)e.key.bytes + e.value.bytes, height(&rng));
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

static struct slice node_key(const struct node *n)
{
	return slice(n->key, n->key_bytes);
}

static struct entry node_entry(const struct node *n)
{
	return (struct entry){ .key = node_key(n), .seq = n->word >> 8, .op = (u8)n->word,
			       .value = slice(n->key + n->key_bytes, n->value_bytes),
			       .place = n->place };
}

/* The newest version of a key comes first, as with entry_cmp(). */
static bool before(const struct node *n, const struct entry *e)
{
	int c = slice_cmp(node_key(n), e->key);

	return c < 0 || (!c && n->word >> 8 > e->seq);
}

/* Return: the first node that is not before @e.  @link, if not NULL, gets the pointers to it. */
static struct node *find(const struct memtable *m, const struct entry *e, struct node ***link)
{
	/* The head as a node: only its pointers are used. */
	struct node *at = (struct node *)(m->head + MEMTABLE_HEIGHT), *n = NULL, *beyond = NULL;
	u32 h = MEMTABLE_HEIGHT;

	while (h--) {
		/* A node that is beyond at one height is beyond at the next one, too. */
		while ((n = load(node_next(at, h))) && n != beyond && before(n, e))
			at = n;
		beyond = n;
		if (link)
			link[h] = node_next(at, h);
	}
	return n;
}

static void add(struct memtable *m, const struct entry *e, u32 h)
{
	struct node *n = node_take(m, e, h), **link[MEMTABLE_HEIGHT];
	u32 i;

	n->word = e->seq << 8 | e->op;
	n->value_bytes = e->value.bytes;
	n->place = e->place;
	n->key_bytes = (u16)e->key.bytes;
	memcpy(n->key, e->key.data, e->key.bytes);
	if (e->value.bytes)
		memcpy(n->key + e->key.bytes, e->value.data, e->value.bytes);
	find(m, e, link);
	for (i = 0; i < h; i++) {
		*node_next(n, i) = *link[i];
		__atomic_store_n(link[i], n, __ATOMIC_RELEASE);
	}
	/* kv_stats() reads it without a lock. */
	__atomic_store_n(&m->bytes, m->bytes + entry_bytes(e), __ATOMIC_RELAXED);
	m->key_bytes += e->key.bytes;
	m->entries++;
	m->max_key = max(m->max_key, e->key.bytes);
}

/**
 * memtable_add() - add entries for which memtable_prepare() has allocated memory
 * @m: the memtable
 * @entries: the same entries
 * @seq: added to the number of each entry
 * @place: place of the first entry in the band of its log
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
 * memtable_find() - look up a version of a key
 * @m: the memtable
 * @key: the key
 * @seq: newest sequence number to look at
 * @e: result
 *
 * Return: False if there is none.
 */
bool memtable_find(const struct memtable *m, struct slice key, u64 seq, struct entry *e)
{
	struct entry want = { .key = key, .seq = seq };
	struct node *n = find(m, &want, NULL);

	if (!n || slice_cmp(node_key(n), key))
		return false;
	*e = node_entry(n);
	return true;
}

struct mem_cursor {
	struct cursor c;
	struct memtable *m;
	struct node *n;
};

static int set_entry(struct mem_cursor *mc)
{
	mc->c.valid = mc->n;
	if (mc->n)
		mc->c.at = node_entry(mc->n);
	return 0;
}

static int mem_seek(struct cursor *c, struct slice key)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);
	struct entry want = { .key = key, .seq = U64_MAX };

	mc->n = find(mc->m, &want, NULL);
	return set_entry(mc);
}

static int mem_next(struct cursor *c)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);

	mc->n = load(node_next(mc->n, 0));
	return set_entry(mc);
}

/* Return: the last node before @e, or the last of all if @e is NULL; NULL if there is none. */
static struct node *find_before(const struct memtable *m, const struct entry *e)
{
	struct node *head = (struct node *)(m->head + MEMTABLE_HEIGHT), *at = head, *n;
	u32 h = MEMTABLE_HEIGHT;

	while (h--) {
		while ((n = load(node_next(at, h))) && (!e || before(n, e)))
			at = n;
	}
	return at == head ? NULL : at;
}

static int mem_seek_before(struct cursor *c, const struct slice *key)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);
	struct entry want = { .seq = U64_MAX };

	if (key)
		want.key = *key;
	mc->n = find_before(mc->m, key ? &want : NULL);
	return set_entry(mc);
}

static int mem_prev(struct cursor *c)
{
	struct mem_cursor *mc = container_of(c, struct mem_cursor, c);

	mc->n = find_before(mc->m, &mc->c.at);
	return set_entry(mc);
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

/* Return: NULL without memory. */
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
