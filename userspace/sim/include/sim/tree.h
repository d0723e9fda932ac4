/* SPDX-License-Identifier: GPL-2.0 */
/* Ordered trees and sparse arrays with the kernel's interface. */
#ifndef SIM_TREE_H
#define SIM_TREE_H

#include "base.h"

/**
 * struct rb_node - a node of a treap: the order of keys is the caller's
 * @rb_left: left child
 * @rb_right: right child
 * @parent: parent, NULL for the root
 * @weight: random number; a parent's is not lower than its children's
 */
struct rb_node {
	struct rb_node *rb_left;
	struct rb_node *rb_right;
	struct rb_node *parent;
	u32 weight;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

#define RB_ROOT			((struct rb_root){ NULL })
#define RB_ROOT_CACHED		((struct rb_root_cached){ { NULL } })
#define RB_EMPTY_ROOT(root)	(!(root)->rb_node)
#define rb_entry(p, type, member) container_of(p, type, member)
#define rb_entry_safe(p, type, member) ({					\
	__typeof__(p) node_ = (p);						\
	node_ ? rb_entry(node_, type, member) : NULL; })

static inline void rb_link_node(struct rb_node *node, struct rb_node *parent,
				struct rb_node **link)
{
	node->rb_left = NULL;
	node->rb_right = NULL;
	node->parent = parent;
	*link = node;
}

void rb_insert_color(struct rb_node *node, struct rb_root *root);
void rb_erase(struct rb_node *node, struct rb_root *root);
void rb_replace_node(struct rb_node *old, struct rb_node *node, struct rb_root *root);
struct rb_node *rb_first(const struct rb_root *root);
struct rb_node *rb_next(const struct rb_node *node);

/*
 * INTERVAL_TREE_DEFINE() - a tree of intervals, sorted by their starts
 *
 * The kernel's finds the intervals in a range in less time; this one walks all that begin before
 * the end of the range.
 */
#define INTERVAL_TREE_DEFINE(type, rb, number, subtree, START, LAST, scope, prefix)	\
scope inline void prefix##_insert(type *e, struct rb_root_cached *root)			\
{											\
	struct rb_node **link = &root->rb_root.rb_node, *parent = NULL;			\
											\
	while (*link) {									\
		parent = *link;								\
		link = START(e) < START(rb_entry(parent, type, rb)) ?			\
			&parent->rb_left : &parent->rb_right;				\
	}										\
	rb_link_node(&e->rb, parent, link);						\
	rb_insert_color(&e->rb, &root->rb_root);					\
}											\
scope inline void prefix##_remove(type *e, struct rb_root_cached *root)			\
{											\
	rb_erase(&e->rb, &root->rb_root);						\
}											\
static type *prefix##_from(struct rb_node *node, number first, number last)		\
{											\
	for (; node && START(rb_entry(node, type, rb)) <= last; node = rb_next(node)) {	\
		if (LAST(rb_entry(node, type, rb)) >= first)				\
			return rb_entry(node, type, rb);				\
	}										\
	return NULL;									\
}											\
scope inline type *prefix##_iter_first(struct rb_root_cached *root, number first, number last) \
{											\
	return prefix##_from(rb_first(&root->rb_root), first, last);			\
}											\
scope inline type *prefix##_iter_next(type *e, number first, number last)		\
{											\
	return prefix##_from(rb_next(&e->rb), first, last);				\
}											\
extern int shim_no_modules

/* ------------------------------------------------------------------------
 * Sparse arrays
 */

typedef unsigned int xa_mark_t;

#define XA_MARK_0		0U
#define XA_MARK_1		1U
#define XA_MARK_2		2U
#define XA_PRESENT		8U

struct xarray {
	struct rb_root root;
};

#define xa_init(xa)		((void)((xa)->root = RB_ROOT))
#define xa_err(p)		((void)(p), 0)
void *xa_load(const struct xarray *xa, unsigned long i);
void *xa_store(struct xarray *xa, unsigned long i, void *p, gfp_t gfp);
int xa_reserve(struct xarray *xa, unsigned long i, gfp_t gfp);
void xa_release(struct xarray *xa, unsigned long i);
void *xa_erase(struct xarray *xa, unsigned long i);
void xa_destroy(struct xarray *xa);
bool xa_get_mark(const struct xarray *xa, unsigned long i, xa_mark_t mark);
void xa_set_mark(struct xarray *xa, unsigned long i, xa_mark_t mark);
void xa_clear_mark(struct xarray *xa, unsigned long i, xa_mark_t mark);
void *xa_find(const struct xarray *xa, unsigned long *i, unsigned long max, xa_mark_t filter);
void *xa_find_after(const struct xarray *xa, unsigned long *i, unsigned long max,
		    xa_mark_t filter);

#define xa_for_each_filtered(xa, i, p, from, last, filter)			\
	for (i = (from), p = xa_find(xa, &i, last, filter); p;			\
	     p = xa_find_after(xa, &i, last, filter))
#define xa_for_each_range(xa, i, p, from, last)	\
	xa_for_each_filtered(xa, i, p, from, last, XA_PRESENT)
#define xa_for_each(xa, i, p)		xa_for_each_range(xa, i, p, 0, ULONG_MAX)
#define xa_for_each_marked(xa, i, p, mark)	\
	xa_for_each_filtered(xa, i, p, 0, ULONG_MAX, mark)

#endif /* SIM_TREE_H */
