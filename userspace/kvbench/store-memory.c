// SPDX-License-Identifier: GPL-2.0
/* A store in memory, for comparison: a skip list under one lock. */
#include <pthread.h>
#include <random.h>

#include "store.h"
#include "tool.h"

#define HEIGHT	20		/* one node in four is a level higher: 4^20 records */

/**
 * struct node - a record
 * @key: the key, stored behind @next
 * @key_bytes: its length
 * @value: the value
 * @value_bytes: its length
 * @next: the next node on each level of this node
 */
struct node {
	u8 *key;
	size_t key_bytes;
	void *value;
	size_t value_bytes;
	struct node *next[];
};

/**
 * struct memory - a store
 * @lock: guards everything
 * @rng: state of the random number generator for heights
 * @head: first node, of the largest height
 */
struct memory {
	pthread_rwlock_t lock;
	u64 rng;
	struct node *head;
};

static struct node *node_new(const void *key, size_t key_bytes, u32 height)
{
	size_t size = sizeof(struct node) + height * sizeof(struct node *);
	struct node *n = calloc(1, size + key_bytes);

	if (!n)
		return NULL;
	n->key = (u8 *)n + size;
	n->key_bytes = key_bytes;
	if (key_bytes)
		memcpy(n->key, key, key_bytes);
	return n;
}

static void node_free(struct node *n)
{
	free(n->value);
	free(n);
}

static int memory_open(void **store, const struct store_options *opt)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (m)
		m->head = node_new(NULL, 0, HEIGHT);
	if (!m || !m->head) {
		free(m);
		return fail("no memory");
	}
	pthread_rwlock_init(&m->lock, NULL);
	*store = m;
	return EXIT_CLEAN;
}

static int compare(const struct node *n, const void *key, size_t key_bytes)
{
	int c = memcmp(n->key, key, min(n->key_bytes, key_bytes));

	return c ? c : (n->key_bytes > key_bytes) - (n->key_bytes < key_bytes);
}

/*
 * Return: the first node with @key or a larger key.  @before, if not NULL, gets the last smaller
 * node of each level.
 */
static struct node *seek(const struct memory *m, const void *key, size_t key_bytes,
			 struct node **before)
{
	struct node *at = m->head;
	u32 level;

	for (level = HEIGHT; level--;) {
		while (at->next[level] && compare(at->next[level], key, key_bytes) < 0)
			at = at->next[level];
		if (before)
			before[level] = at;
	}
	return at->next[0];
}

static bool is_key(const struct node *n, const void *key, size_t key_bytes)
{
	return n && !compare(n, key, key_bytes);
}

static struct node *insert(struct memory *m, const void *key, size_t key_bytes,
			   struct node **before)
{
	u64 coins = random64(&m->rng);
	struct node *n;
	u32 height = 1, level;

	while (height < HEIGHT && !(coins & 3)) {
		coins >>= 2;
		height++;
	}
	n = node_new(key, key_bytes, height);
	for (level = 0; n && level < height; level++) {
		n->next[level] = before[level]->next[level];
		before[level]->next[level] = n;
	}
	return n;
}

static int memory_put(void *store, const void *key, size_t key_bytes, const void *value,
		      size_t value_bytes, bool sync)
{
	struct node *before[HEIGHT], *n;
	struct memory *m = store;
	void *copy = malloc(max_t(size_t, value_bytes, 1));

	if (!copy)
		return -ENOMEM;
	memcpy(copy, value, value_bytes);
	pthread_rwlock_wrlock(&m->lock);
	n = seek(m, key, key_bytes, before);
	if (!is_key(n, key, key_bytes))
		n = insert(m, key, key_bytes, before);
	if (n) {
		free(n->value);
		n->value = copy;
		n->value_bytes = value_bytes;
	}
	pthread_rwlock_unlock(&m->lock);
	if (n)
		return 0;
	free(copy);
	return -ENOMEM;
}

static int memory_get(void *store, const void *key, size_t key_bytes, void *value, size_t room,
		      size_t *value_bytes)
{
	struct memory *m = store;
	struct node *n;
	int err = -ENOENT;

	pthread_rwlock_rdlock(&m->lock);
	n = seek(m, key, key_bytes, NULL);
	if (is_key(n, key, key_bytes)) {
		*value_bytes = n->value_bytes;
		memcpy(value, n->value, min(room, n->value_bytes));
		err = 0;
	}
	pthread_rwlock_unlock(&m->lock);
	return err;
}

static int memory_del(void *store, const void *key, size_t key_bytes, bool sync)
{
	struct node *before[HEIGHT], *n;
	struct memory *m = store;
	u32 level;

	pthread_rwlock_wrlock(&m->lock);
	n = seek(m, key, key_bytes, before);
	if (is_key(n, key, key_bytes)) {
		for (level = 0; level < HEIGHT && before[level]->next[level] == n; level++)
			before[level]->next[level] = n->next[level];
		node_free(n);
	}
	pthread_rwlock_unlock(&m->lock);
	return 0;
}

static int memory_scan(void *store, const void *key, size_t key_bytes, u64 records, u64 *found)
{
	struct memory *m = store;
	struct node *n;

	*found = 0;
	pthread_rwlock_rdlock(&m->lock);
	for (n = seek(m, key, key_bytes, NULL); n && *found < records; n = n->next[0])
		++*found;
	pthread_rwlock_unlock(&m->lock);
	return 0;
}

static int memory_sync(void *store)
{
	return 0;
}

static void memory_report(void *store, struct json_object *j)
{
	struct memory *m = store;
	u64 records = 0, bytes = 0;
	struct node *n;

	for (n = m->head->next[0]; n; n = n->next[0]) {
		records++;
		bytes += n->key_bytes + n->value_bytes;
	}
	json_u64(j, "records", records);
	json_u64(j, "bytes", bytes);
}

static int memory_close(void *store)
{
	struct memory *m = store;
	struct node *n, *next;

	for (n = m->head; n; n = next) {
		next = n->next[0];
		node_free(n);
	}
	pthread_rwlock_destroy(&m->lock);
	free(m);
	return EXIT_CLEAN;
}

const struct store_ops store_memory = {
	.name = "memory",
	.open = memory_open,
	.put = memory_put,
	.get = memory_get,
	.del = memory_del,
	.scan = memory_scan,
	.sync = memory_sync,
	.report = memory_report,
	.close = memory_close,
};
