// SPDX-License-Identifier: GPL-2.0
/* Addresses of a large volume in 32 bits, see compact.h. */
#include "compact.h"

#define PART_SHIFT	20		/* bytes of a part that is touched or not */
#define SECTOR_SHIFT	9

/* Parts from @from up to @end, which is not among them. */
struct stretch {
	u64 from;
	u64 end;
};

/**
 * struct touched - the parts that requests touch
 * @stretch: stretches of parts; the first ones are sorted and apart from each other
 * @nr: their number
 * @max: room in @stretch
 */
struct touched {
	struct stretch *stretch;
	u64 nr;
	u64 max;
};

static int by_address(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

/* Sort the stretches, and unite those that meet. */
static void unite(struct touched *t)
{
	u64 i, out = 0;

	if (!t->nr)
		return;
	qsort(t->stretch, t->nr, sizeof(*t->stretch), by_address);
	for (i = 1; i < t->nr; i++) {
		if (t->stretch[i].from <= t->stretch[out].end)
			t->stretch[out].end = max(t->stretch[out].end, t->stretch[i].end);
		else
			t->stretch[++out] = t->stretch[i];
	}
	t->nr = out + 1;
}

static int add(struct touched *t, u64 from, u64 end)
{
	struct stretch *more;
	u64 max;

	if (t->nr && from >= t->stretch[t->nr - 1].from && end <= t->stretch[t->nr - 1].end)
		return 0;
	if (t->nr == t->max) {
		unite(t);
		/* Most of the room must be free again, or the next call would sort all of it. */
		if (t->nr >= t->max / 2) {
			max = 2 * t->max + 1024;
			more = realloc(t->stretch, max * sizeof(*more));
			if (!more)
				return -ENOMEM;
			t->stretch = more;
			t->max = max;
		}
	}
	t->stretch[t->nr++] = (struct stretch){ from, end };
	return 0;
}

/* Find the parts that the requests touch, in memory for them and not for the volume. */
static int touch(struct touched *t, const struct input *in)
{
	u32 shift = PART_SHIFT - SECTOR_SHIFT;
	u64 i, sector;
	int err = 0;

	for (i = 0; !err && i < in->nr; i++) {
		sector = le64_to_cpu(in->request[i].sector);
		err = add(t, sector >> shift,
			  ((sector + le32_to_cpu(in->request[i].sectors) - 1) >> shift) + 1);
	}
	unite(t);
	return err;
}

/**
 * compact_init() - find the pieces of a trace
 * @c: result
 * @in: the trace
 * @unit_shift: addresses are in units of 1 << @unit_shift bytes
 * @always: leave out the gaps of a volume that fits in 32 bits, too
 *
 * Return: 0 or -ENOMEM.
 */
int compact_init(struct compact *c, const struct input *in, u32 unit_shift, bool always)
{
	u32 shift = PART_SHIFT - unit_shift;
	struct touched t = { 0 };
	u64 i, units = 0;
	int err;

	memset(c, 0, sizeof(*c));
	c->end = DIV_ROUND_UP(in->end, 1U << (unit_shift - SECTOR_SHIFT));
	if (c->end < U32_MAX && !always)
		return 0;
	err = touch(&t, in);
	if (!err) {
		c->piece = calloc(t.nr + 1, sizeof(*c->piece));
		err = c->piece ? 0 : -ENOMEM;
	}
	for (i = 0; !err && i < t.nr; i++) {
		c->piece[c->nr++] = (struct piece){ t.stretch[i].from << shift, units };
		units += (t.stretch[i].end - t.stretch[i].from) << shift;
	}
	/* The last one ends the others. */
	if (c->nr)
		c->piece[c->nr] = (struct piece){ t.stretch[t.nr - 1].end << shift, units };
	free(t.stretch);
	c->units = units;
	if (err)
		compact_exit(c);
	else
		c->end = c->nr ? compact_of(c, c->end - 1) + 1 : 0;
	return err;
}

/**
 * compact_exit() - free the pieces
 * @c: the pieces
 */
void compact_exit(struct compact *c)
{
	free(c->piece);
	c->piece = NULL;
}

/**
 * compact_of() - compact address of an address
 * @c: the pieces
 * @address: an address that a request touches
 *
 * Return: the compact address.
 */
u64 compact_of(const struct compact *c, u64 address)
{
	u32 low = 0, high = c->nr, mid;

	if (!c->piece)
		return address;
	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (c->piece[mid].address <= address)
			low = mid;
		else
			high = mid;
	}
	return c->piece[low].compact + (address - c->piece[low].address);
}

/**
 * compact_address() - address of a compact address
 * @c: the pieces
 * @compact: a compact address below @c->end
 * @left: result: number of addresses from this one on without a gap
 *
 * Return: the address.
 */
u64 compact_address(const struct compact *c, u64 compact, u64 *left)
{
	u32 low = 0, high = c->nr, mid;

	*left = c->end - compact;
	if (!c->piece)
		return compact;
	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (c->piece[mid].compact <= compact)
			low = mid;
		else
			high = mid;
	}
	*left = min(*left, c->piece[low + 1].compact - compact);
	return c->piece[low].address + (compact - c->piece[low].compact);
}
