// SPDX-License-Identifier: GPL-2.0
/* Addresses of a large volume in 32 bits, see compact.h. */
#include "compact.h"

#define PART_SHIFT	20		/* bytes of a part that is touched or not */
#define SECTOR_SHIFT	9

/* Mark the parts that the requests touch. */
static unsigned long *touched(const struct input *in, u64 nr)
{
	u32 shift = PART_SHIFT - SECTOR_SHIFT;
	unsigned long *map = calloc(BITS_TO_LONGS(nr), sizeof(*map));
	u64 i, part, last;

	for (i = 0; map && i < in->nr; i++) {
		part = le64_to_cpu(in->request[i].sector) >> shift;
		last = (le64_to_cpu(in->request[i].sector) +
			le32_to_cpu(in->request[i].sectors) - 1) >> shift;
		for (; part <= last; part++)
			__set_bit(part, map);
	}
	return map;
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
	u32 shift = PART_SHIFT - unit_shift, max = 0;
	u64 nr = DIV_ROUND_UP(in->end, 1U << (PART_SHIFT - SECTOR_SHIFT)), part, end, units = 0;
	unsigned long *map;
	int err = 0;

	memset(c, 0, sizeof(*c));
	c->end = DIV_ROUND_UP(in->end, 1U << (unit_shift - SECTOR_SHIFT));
	if (c->end < U32_MAX && !always)
		return 0;
	map = touched(in, nr);
	if (!map)
		return -ENOMEM;
	for (part = find_first_bit(map, nr); ; part = find_next_bit(map, nr, end)) {
		if (c->nr == max) {
			struct piece *more;

			max = 2 * max + 64;
			more = realloc(c->piece, max * sizeof(*more));
			if (!more) {
				err = -ENOMEM;
				break;
			}
			c->piece = more;
		}
		c->piece[c->nr] = (struct piece){ part << shift, units };
		if (part == nr)
			break;
		c->nr++;
		end = find_next_zero_bit(map, nr, part);
		units += (end - part) << shift;
	}
	free(map);
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
