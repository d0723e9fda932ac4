/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A B+tree from logical addresses to indices of extents, for the other files of this directory.
 *
 * Its nodes are in an array that is allocated once.  Each node except the root is at least half
 * full, so the array has room for the largest number of extents whatever the order of changes.
 *
 * Each key of an inner node, except the first of the leftmost node of its level, is above all keys
 * of the subtree before it, and at most the least key of its own subtree.  The first key equals the
 * one in the parent, and a search does not look at it.
 */
#ifndef SHINGLE_EXTENTS_TREE_H
#define SHINGLE_EXTENTS_TREE_H

#include "extents/extents.h"

/* Keys in a node of 512 bytes, and the least number except in the root.  Tests define fewer. */
#ifndef NODE_KEYS
#define NODE_KEYS	62U
#endif
#define NODE_LEAST	(NODE_KEYS / 2)
/* Levels suffice for 2 * NODE_LEAST^7 extents. */
#define TREE_LEVELS	8U
#define NO_NODE		U32_MAX

/**
 * struct shingle_extents_node - a node of the tree
 * @n: number of its keys
 * @spare: not used
 * @prev: leaf before it, or NO_NODE; in leaves only
 * @next: leaf behind it, or NO_NODE; in leaves, and in free nodes the next free one
 * @spare2: not used
 * @key: logical addresses in ascending order
 * @val: for each key the index of the extent in a leaf, of the child in an inner node
 */
struct shingle_extents_node {
	u16 n;
	u16 spare;
	u32 prev;
	u32 next;
	u32 spare2;
	u32 key[NODE_KEYS];
	u32 val[NODE_KEYS];
};

/**
 * struct shingle_extents_tree - the tree
 * @node: nodes
 * @size: number of nodes in the array
 * @free: first free node, or NO_NODE
 * @fresh: nodes from here on have not been used yet
 * @root: root node
 * @height: number of levels, at least 1
 */
struct shingle_extents_tree {
	struct shingle_extents_node *node;
	u32 size;
	u32 free;
	u32 fresh;
	u32 root;
	u32 height;
};

/**
 * struct shingle_extents_spot - a position in the tree
 * @node: the leaf, and the node of each level above
 * @at: position in each of these nodes
 */
struct shingle_extents_spot {
	u32 node[TREE_LEVELS];
	u32 at[TREE_LEVELS];
};

struct shingle_extents_tree *shingle_extents_tree_new(u32 max);
void shingle_extents_tree_free(struct shingle_extents_tree *t);
int shingle_extents_tree_grow(struct shingle_extents_tree *t, u32 max);
void shingle_extents_tree_clear(struct shingle_extents_tree *t);
u64 shingle_extents_tree_bytes(const struct shingle_extents_tree *t);
void shingle_extents_tree_load(struct shingle_extents_tree *t,
			       const struct shingle_extents_entry *entry, u32 nr);

u32 shingle_extents_tree_upto(const struct shingle_extents_tree *t, u32 key, u32 *at);
void shingle_extents_tree_seek(const struct shingle_extents_tree *t, u32 key,
			       struct shingle_extents_spot *spot);
void shingle_extents_tree_insert(struct shingle_extents_tree *t,
				 const struct shingle_extents_spot *spot, u32 key, u32 val);
void shingle_extents_tree_remove(struct shingle_extents_tree *t,
				 const struct shingle_extents_spot *spot, u32 nr);
bool shingle_extents_tree_raise(struct shingle_extents_tree *t, struct shingle_extents_spot *spot,
				u32 key);

/* The last extent in a leaf that is not empty. */
static inline u32 shingle_extents_tree_last(const struct shingle_extents_tree *t, u32 leaf)
{
	return t->node[leaf].val[t->node[leaf].n - 1];
}

/* The extent before a position, or SHINGLE_EXTENTS_NONE. */
static inline u32 shingle_extents_tree_before(const struct shingle_extents_tree *t,
					      const struct shingle_extents_spot *spot)
{
	const struct shingle_extents_node *leaf = &t->node[spot->node[0]];

	if (spot->at[0])
		return leaf->val[spot->at[0] - 1];
	return leaf->prev == NO_NODE ? SHINGLE_EXTENTS_NONE :
				       shingle_extents_tree_last(t, leaf->prev);
}

/* The key at a position, which may be the first one of the next leaf; U32_MAX if none is there. */
static inline u32 shingle_extents_tree_key(const struct shingle_extents_tree *t,
					   const struct shingle_extents_spot *spot)
{
	const struct shingle_extents_node *leaf = &t->node[spot->node[0]];

	if (spot->at[0] < leaf->n)
		return leaf->key[spot->at[0]];
	return leaf->next == NO_NODE ? U32_MAX : t->node[leaf->next].key[0];
}

/*
 * Begin to load a node, so that a search waits for one cache line of it and not for one after
 * another.
 */
static inline void prefetch_node(const struct shingle_extents_node *node)
{
	const char *p = (const char *)node;
	u32 i;

	for (i = 0; i < sizeof(*node); i += 64)
		prefetch(p + i);
}

/* The number of keys among @n that are at most @key.  The compiler makes no branch of it. */
static inline u32 keys_upto(const u32 *keys, u32 n, u32 key)
{
	const u32 *base = keys;
	u32 half;

	if (!n)
		return 0;
	while (n > 1) {
		half = n / 2;
		base += half & -(u32)(base[half - 1] <= key);
		n -= half;
	}
	return base - keys + (*base <= key);
}

#endif /* SHINGLE_EXTENTS_TREE_H */
