// SPDX-License-Identifier: GPL-2.0
/* A B+tree from logical addresses to indices of extents, see tree.h.  Pure code. */
#include "extents/extents.h"
#include "extents/tree.h"

/* Keys in a node after shingle_extents_tree_load(): changes split few nodes at first. */
#define NODE_LOADED	(NODE_KEYS * 3 / 4)

/* The number of nodes that suffice for @max keys in nodes that are half full. */
static u32 nodes_for(u32 max)
{
	u32 n = max, sum = TREE_LEVELS;

	do {
		n = n / NODE_LEAST + 1;
		sum += n;
	} while (n > 1);
	return sum;
}

/**
 * shingle_extents_tree_new() - make an empty tree
 * @max: most keys
 *
 * Context: may sleep.
 * Return: the tree, or NULL.
 */
struct shingle_extents_tree *shingle_extents_tree_new(u32 max)
{
	struct shingle_extents_tree *t = shingle_zalloc_array(1, sizeof(*t));

	BUILD_BUG_ON(NODE_KEYS == 62 && sizeof(struct shingle_extents_node) != 512);
	if (!t)
		return NULL;
	t->size = nodes_for(max);
	t->node = shingle_zalloc_array(t->size, sizeof(*t->node));
	if (!t->node) {
		kvfree(t);
		return NULL;
	}
	shingle_extents_tree_clear(t);
	return t;
}

/**
 * shingle_extents_tree_free() - free a tree
 * @t: the tree, or NULL
 *
 * Context: may sleep.
 */
void shingle_extents_tree_free(struct shingle_extents_tree *t)
{
	if (!t)
		return;
	kvfree(t->node);
	kvfree(t);
}

/**
 * shingle_extents_tree_grow() - make room for more keys
 * @t: the tree
 * @max: most keys from now on
 *
 * Context: recovery, may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_extents_tree_grow(struct shingle_extents_tree *t, u32 max)
{
	u32 size = nodes_for(max);
	struct shingle_extents_node *node;

	if (size <= t->size)
		return 0;
	node = shingle_zalloc_array(size, sizeof(*node));
	if (!node)
		return -ENOMEM;
	memcpy(node, t->node, (size_t)t->fresh * sizeof(*node));
	kvfree(t->node);
	t->node = node;
	t->size = size;
	return 0;
}

/**
 * shingle_extents_tree_clear() - remove all keys
 * @t: the tree
 *
 * Context: any.
 */
void shingle_extents_tree_clear(struct shingle_extents_tree *t)
{
	t->free = NO_NODE;
	t->fresh = 1;
	t->root = 0;
	t->height = 1;
	t->node[0].n = 0;
	t->node[0].prev = NO_NODE;
	t->node[0].next = NO_NODE;
}

/**
 * shingle_extents_tree_bytes() - the memory of a tree
 * @t: the tree
 *
 * Context: any.
 * Return: bytes.
 */
u64 shingle_extents_tree_bytes(const struct shingle_extents_tree *t)
{
	return sizeof(*t) + (u64)t->size * sizeof(*t->node);
}

/* ------------------------------------------------------------------------
 * Search
 */

/**
 * shingle_extents_tree_upto() - find the last key that is not above another
 * @t: the tree
 * @key: the other one
 * @at: result: number of keys in the leaf that are at most @key
 *
 * Context: any.
 * Return: the leaf.
 */
u32 shingle_extents_tree_upto(const struct shingle_extents_tree *t, u32 key, u32 *at)
{
	const struct shingle_extents_node *node = &t->node[t->root];
	u32 level, i = t->root;

	for (level = t->height; level > 1; level--) {
		i = node->val[keys_upto(node->key + 1, node->n - 1, key)];
		node = &t->node[i];
		prefetch_node(node);
	}
	*at = keys_upto(node->key, node->n, key);
	return i;
}

/**
 * shingle_extents_tree_seek() - find the position of a key
 * @t: the tree
 * @key: the key
 * @spot: result; its position in the leaf is that of the first key not below @key, where
 *	shingle_extents_tree_insert() may insert @key
 *
 * Context: any.
 */
void shingle_extents_tree_seek(const struct shingle_extents_tree *t, u32 key,
			       struct shingle_extents_spot *spot)
{
	const struct shingle_extents_node *node = &t->node[t->root];
	u32 level = t->height - 1, i = t->root;

	while (level) {
		spot->node[level] = i;
		spot->at[level] = keys_upto(node->key + 1, node->n - 1, key);
		i = node->val[spot->at[level]];
		node = &t->node[i];
		prefetch_node(node);
		level--;
	}
	spot->node[0] = i;
	spot->at[0] = key ? keys_upto(node->key, node->n, key - 1) : 0;
}

/* ------------------------------------------------------------------------
 * Changes
 */

static u32 take_node(struct shingle_extents_tree *t)
{
	u32 i = t->free;

	if (i == NO_NODE) {
		/* nodes_for() has counted them. */
		if (WARN_ON_ONCE(t->fresh == t->size))
			return t->size - 1;
		return t->fresh++;
	}
	t->free = t->node[i].next;
	return i;
}

static void put_node(struct shingle_extents_tree *t, u32 i)
{
	t->node[i].next = t->free;
	t->free = i;
}

/* Move @n keys.  The positions may overlap if both nodes are the same. */
static void move_keys(struct shingle_extents_node *to, u32 to_at,
		      const struct shingle_extents_node *from, u32 from_at, u32 n)
{
	memmove(&to->key[to_at], &from->key[from_at], n * sizeof(u32));
	memmove(&to->val[to_at], &from->val[from_at], n * sizeof(u32));
}

static void insert_at(struct shingle_extents_node *node, u32 at, u32 key, u32 val)
{
	move_keys(node, at + 1, node, at, node->n - at);
	node->key[at] = key;
	node->val[at] = val;
	node->n++;
}

/* Split a full node, and insert a key into one of the halves.  Returns the right one. */
static u32 split(struct shingle_extents_tree *t, u32 i, bool leaf, u32 at, u32 key, u32 val)
{
	struct shingle_extents_node *left = &t->node[i], *right;
	bool low = at <= NODE_LEAST;
	u32 other = take_node(t), keep = low ? NODE_LEAST : NODE_LEAST + 1;

	right = &t->node[other];
	right->n = left->n - keep;
	move_keys(right, 0, left, keep, right->n);
	left->n = keep;
	if (low)
		insert_at(left, at, key, val);
	else
		insert_at(right, at - keep, key, val);
	if (leaf) {
		right->prev = i;
		right->next = left->next;
		left->next = other;
		if (right->next != NO_NODE)
			t->node[right->next].prev = other;
	}
	return other;
}

/**
 * shingle_extents_tree_insert() - insert a key
 * @t: the tree
 * @spot: where shingle_extents_tree_seek() found its position; invalid afterwards
 * @key: the key, not in the tree yet
 * @val: index of its extent
 *
 * Context: any.
 */
void shingle_extents_tree_insert(struct shingle_extents_tree *t,
				 const struct shingle_extents_spot *spot, u32 key, u32 val)
{
	struct shingle_extents_node *root;
	u32 level, at = spot->at[0], i;

	for (level = 0; level < t->height; level++) {
		i = spot->node[level];
		if (t->node[i].n < NODE_KEYS) {
			insert_at(&t->node[i], at, key, val);
			return;
		}
		val = split(t, i, !level, at, key, val);
		key = t->node[val].key[0];
		if (level + 1 < t->height)
			at = spot->at[level + 1] + 1;
	}
	i = take_node(t);
	root = &t->node[i];
	root->n = 2;
	root->key[0] = 0;
	root->val[0] = t->root;
	root->key[1] = key;
	root->val[1] = val;
	t->root = i;
	t->height++;
}

/* Append the keys of the right node to the left one, and free the right node. */
static void join(struct shingle_extents_tree *t, u32 left, u32 right, bool leaf)
{
	struct shingle_extents_node *l = &t->node[left], *r = &t->node[right];

	move_keys(l, l->n, r, 0, r->n);
	l->n += r->n;
	if (leaf) {
		l->next = r->next;
		if (r->next != NO_NODE)
			t->node[r->next].prev = left;
	}
	put_node(t, right);
}

/* Give both nodes half of their keys, which are more than one node holds. */
static void even_out(struct shingle_extents_node *l, struct shingle_extents_node *r)
{
	u32 sum = l->n + r->n, half = sum / 2, n;

	if (l->n < half) {
		n = half - l->n;
		move_keys(l, l->n, r, 0, n);
		move_keys(r, 0, r, n, r->n - n);
	} else {
		n = l->n - half;
		move_keys(r, n, r, 0, r->n);
		move_keys(r, 0, l, half, n);
	}
	l->n = half;
	r->n = sum - half;
}

/* A node has too few keys: repair it with a sibling.  Returns whether a child has gone. */
static bool refill(struct shingle_extents_tree *t, u32 parent, u32 at, bool leaf)
{
	struct shingle_extents_node *p = &t->node[parent], *l, *r;

	/* From here on @at is the position of the right one of the two. */
	if (at + 1 < p->n)
		at++;
	l = &t->node[p->val[at - 1]];
	r = &t->node[p->val[at]];
	if (l->n + r->n > NODE_KEYS) {
		even_out(l, r);
		p->key[at] = r->key[0];
		return false;
	}
	join(t, p->val[at - 1], p->val[at], leaf);
	move_keys(p, at, p, at + 1, p->n - at - 1);
	p->n--;
	return true;
}

/**
 * shingle_extents_tree_remove() - remove keys that follow each other in a leaf
 * @t: the tree
 * @spot: position of the first, from shingle_extents_tree_seek(); invalid afterwards
 * @nr: number of keys, all in the leaf
 *
 * Context: any.
 */
void shingle_extents_tree_remove(struct shingle_extents_tree *t,
				 const struct shingle_extents_spot *spot, u32 nr)
{
	struct shingle_extents_node *node = &t->node[spot->node[0]];
	u32 at = spot->at[0], level;

	move_keys(node, at, node, at + nr, node->n - at - nr);
	node->n -= nr;
	for (level = 0; level + 1 < t->height; level++) {
		if (t->node[spot->node[level]].n >= NODE_LEAST ||
		    !refill(t, spot->node[level + 1], spot->at[level + 1], !level))
			return;
	}
	node = &t->node[t->root];
	if (t->height > 1 && node->n == 1) {
		u32 child = node->val[0];

		put_node(t, t->root);
		t->root = child;
		t->height--;
	}
}

/**
 * shingle_extents_tree_raise() - replace a key by a larger one that is not above the next one
 * @t: the tree
 * @spot: its position, in a leaf
 * @key: the larger one
 *
 * Context: any.
 * Return: whether @spot is valid still.
 */
bool shingle_extents_tree_raise(struct shingle_extents_tree *t, struct shingle_extents_spot *spot,
				u32 key)
{
	struct shingle_extents_node *leaf = &t->node[spot->node[0]];
	u32 val = leaf->val[spot->at[0]];

	/* The keys above the next leaf may be lower than its first one, and at most @key. */
	if (spot->at[0] + 1 < leaf->n || leaf->next == NO_NODE) {
		leaf->key[spot->at[0]] = key;
		return true;
	}
	shingle_extents_tree_remove(t, spot, 1);
	shingle_extents_tree_seek(t, key, spot);
	shingle_extents_tree_insert(t, spot, key, val);
	return false;
}

/* ------------------------------------------------------------------------
 * Recovery
 */

/* The number of nodes to which @nr keys are to be distributed evenly. */
static u32 spread(u32 nr)
{
	return max(min(DIV_ROUND_UP(nr, NODE_LOADED), nr / NODE_LEAST), 1U);
}

/* Append a level above the @nr nodes from @below on, or leaves if @entry is not NULL. */
static u32 load_level(struct shingle_extents_tree *t, const struct shingle_extents_entry *entry,
		      u32 below, u32 nr)
{
	u32 nodes = spread(nr), each = nr / nodes, more = nr % nodes, i, k, item = 0;

	for (i = 0; i < nodes; i++) {
		struct shingle_extents_node *node = &t->node[t->fresh];

		node->n = each + (i < more);
		node->prev = i ? t->fresh - 1 : NO_NODE;
		node->next = i + 1 < nodes ? t->fresh + 1 : NO_NODE;
		for (k = 0; k < node->n; k++, item++) {
			node->key[k] = entry ? entry[item].lunit : t->node[below + item].key[0];
			node->val[k] = below + item;
		}
		t->fresh++;
		cond_resched();
	}
	return nodes;
}

/**
 * shingle_extents_tree_load() - replace the content by extents that are in order
 * @t: the tree, with room for @nr keys
 * @entry: the extents, by ascending logical address
 * @nr: their number
 *
 * Context: recovery, may sleep.
 */
void shingle_extents_tree_load(struct shingle_extents_tree *t,
			       const struct shingle_extents_entry *entry, u32 nr)
{
	u32 below = 0;

	shingle_extents_tree_clear(t);
	if (!nr)
		return;
	t->fresh = 0;
	nr = load_level(t, entry, 0, nr);
	while (nr > 1) {
		u32 first = t->fresh;

		nr = load_level(t, NULL, below, nr);
		below = first;
		t->height++;
	}
	t->root = t->fresh - 1;
}
