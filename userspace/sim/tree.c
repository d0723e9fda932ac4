// SPDX-License-Identifier: GPL-2.0
/* Treaps, and sparse arrays on top of them, see sim/tree.h. */
#include <random.h>

#include "private.h"

/* Turn @node up over its parent. */
static void turn_up(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *p = node->parent, *over = p->parent;

	if (p->rb_left == node) {
		p->rb_left = node->rb_right;
		if (p->rb_left)
			p->rb_left->parent = p;
		node->rb_right = p;
	} else {
		p->rb_right = node->rb_left;
		if (p->rb_right)
			p->rb_right->parent = p;
		node->rb_left = p;
	}
	p->parent = node;
	node->parent = over;
	if (!over)
		root->rb_node = node;
	else if (over->rb_left == p)
		over->rb_left = node;
	else
		over->rb_right = node;
}

void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
	static u64 weights;

	/* The shape of a tree changes no result, so these numbers need not be the run's. */
	node->weight = mix64(++weights);
	while (node->parent && node->parent->weight < node->weight)
		turn_up(node, root);
}

void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *child;

	while (node->rb_left && node->rb_right)
		turn_up(node->rb_left->weight > node->rb_right->weight ? node->rb_left :
			node->rb_right, root);
	child = node->rb_left ?: node->rb_right;
	if (child)
		child->parent = node->parent;
	if (!node->parent)
		root->rb_node = child;
	else if (node->parent->rb_left == node)
		node->parent->rb_left = child;
	else
		node->parent->rb_right = child;
}

void rb_replace_node(struct rb_node *old, struct rb_node *node, struct rb_root *root)
{
	*node = *old;
	if (node->rb_left)
		node->rb_left->parent = node;
	if (node->rb_right)
		node->rb_right->parent = node;
	if (!node->parent)
		root->rb_node = node;
	else if (node->parent->rb_left == old)
		node->parent->rb_left = node;
	else
		node->parent->rb_right = node;
}

struct rb_node *rb_first(const struct rb_root *root)
{
	struct rb_node *node = root->rb_node;

	while (node && node->rb_left)
		node = node->rb_left;
	return node;
}

struct rb_node *rb_next(const struct rb_node *node)
{
	struct rb_node *n;

	if (node->rb_right) {
		n = node->rb_right;
		while (n->rb_left)
			n = n->rb_left;
		return n;
	}
	for (n = node->parent; n && n->rb_right == node; n = n->parent)
		node = n;
	return n;
}

/* ------------------------------------------------------------------------
 * Sparse arrays
 */

/**
 * struct cell - an entry of a sparse array
 * @node: in the tree, by index
 * @i: its index
 * @p: the value; NULL if it is only reserved
 * @marks: bit m is mark m
 */
struct cell {
	struct rb_node node;
	unsigned long i;
	void *p;
	u32 marks;
};

static struct cell *cell_from(const struct xarray *xa, unsigned long i)
{
	struct rb_node *node = xa->root.rb_node;
	struct cell *found = NULL;

	while (node) {
		struct cell *c = rb_entry(node, struct cell, node);

		if (c->i < i) {
			node = node->rb_right;
		} else {
			found = c;
			node = node->rb_left;
		}
	}
	return found;
}

static struct cell *cell_at(const struct xarray *xa, unsigned long i)
{
	struct cell *c = cell_from(xa, i);

	return c && c->i == i ? c : NULL;
}

static struct cell *make_cell(struct xarray *xa, unsigned long i, gfp_t gfp)
{
	struct rb_node **link = &xa->root.rb_node, *parent = NULL;
	struct cell *c = cell_at(xa, i);

	if (c)
		return c;
	c = sim_alloc(1, sizeof(*c), gfp);
	if (!c)
		return NULL;
	c->i = i;
	while (*link) {
		parent = *link;
		link = i < rb_entry(parent, struct cell, node)->i ? &parent->rb_left :
								    &parent->rb_right;
	}
	rb_link_node(&c->node, parent, link);
	rb_insert_color(&c->node, &xa->root);
	return c;
}

static void free_cell(struct xarray *xa, struct cell *c)
{
	rb_erase(&c->node, &xa->root);
	sim_free(c);
}

void *xa_load(const struct xarray *xa, unsigned long i)
{
	struct cell *c = cell_at(xa, i);

	return c ? c->p : NULL;
}

/* Marks stay, as in the kernel. */
void *xa_store(struct xarray *xa, unsigned long i, void *p, gfp_t gfp)
{
	struct cell *c = make_cell(xa, i, gfp);
	void *old;

	if (!c)
		sim_fail("a sparse array has no memory for an entry that was not reserved");
	old = c->p;
	c->p = p;
	if (!p)
		free_cell(xa, c);
	return old;
}

int xa_reserve(struct xarray *xa, unsigned long i, gfp_t gfp)
{
	return make_cell(xa, i, gfp) ? 0 : -ENOMEM;
}

void xa_release(struct xarray *xa, unsigned long i)
{
	struct cell *c = cell_at(xa, i);

	if (c && !c->p)
		free_cell(xa, c);
}

void *xa_erase(struct xarray *xa, unsigned long i)
{
	struct cell *c = cell_at(xa, i);
	void *p = c ? c->p : NULL;

	if (c)
		free_cell(xa, c);
	return p;
}

void xa_destroy(struct xarray *xa)
{
	struct cell *c;

	while ((c = cell_from(xa, 0)))
		free_cell(xa, c);
}

bool xa_get_mark(const struct xarray *xa, unsigned long i, xa_mark_t mark)
{
	struct cell *c = cell_at(xa, i);

	return c && c->marks & BIT(mark);
}

void xa_set_mark(struct xarray *xa, unsigned long i, xa_mark_t mark)
{
	struct cell *c = cell_at(xa, i);

	if (c && c->p)
		c->marks |= BIT(mark);
}

void xa_clear_mark(struct xarray *xa, unsigned long i, xa_mark_t mark)
{
	struct cell *c = cell_at(xa, i);

	if (c)
		c->marks &= ~BIT(mark);
}

void *xa_find(const struct xarray *xa, unsigned long *i, unsigned long max, xa_mark_t filter)
{
	struct cell *c = cell_from(xa, *i);
	struct rb_node *node = c ? &c->node : NULL;

	for (; node; node = rb_next(node)) {
		c = rb_entry(node, struct cell, node);
		if (c->i > max)
			break;
		if (c->p && (filter == XA_PRESENT || c->marks & BIT(filter))) {
			*i = c->i;
			return c->p;
		}
	}
	return NULL;
}

void *xa_find_after(const struct xarray *xa, unsigned long *i, unsigned long max,
		    xa_mark_t filter)
{
	unsigned long from = *i + 1;
	void *p;

	if (!from)
		return NULL;
	p = xa_find(xa, &from, max, filter);
	if (p)
		*i = from;
	return p;
}
