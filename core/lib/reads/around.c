// SPDX-License-Identifier: GPL-2.0
/* The regions that look-ahead-behind keeps, see around.h.  Pure code. */
#include "reads/around.h"

/**
 * shingle_around_init() - no region is kept
 * @a: the regions
 * @regions: their number, at most SHINGLE_AROUND_REGIONS
 * @units: size of the buffer of each
 *
 * Context: any.
 */
void shingle_around_init(struct shingle_around *a, u32 regions, u32 units)
{
	memset(a, 0, sizeof(*a));
	a->limit = min(regions, SHINGLE_AROUND_REGIONS);
	a->units = units;
}
EXPORT_SYMBOL_GPL(shingle_around_init);

/* No reader finds the region any more. */
static void forget(struct shingle_around_region *r)
{
	if (r->state == SHINGLE_AROUND_HERE && !r->held)
		r->state = SHINGLE_AROUND_EMPTY;
	else if (r->state != SHINGLE_AROUND_EMPTY)
		r->forgotten = true;
}

/**
 * shingle_around_hit() - is a fragment in a region?
 * @a: the regions
 * @place: its first unit
 * @n: number of units
 *
 * Context: the caller's lock.
 * Return: a region that contains all of it, held until shingle_around_put(); or SHINGLE_NO_REGION.
 */
u32 shingle_around_hit(struct shingle_around *a, u64 place, u32 n)
{
	u32 i;

	for (i = 0; i < a->limit; i++) {
		struct shingle_around_region *r = &a->region[i];

		if (r->state == SHINGLE_AROUND_HERE && !r->forgotten && r->place <= place &&
		    place + n <= r->place + r->n) {
			r->held++;
			a->count.hits++;
			return i;
		}
	}
	a->count.misses++;
	return SHINGLE_NO_REGION;
}
EXPORT_SYMBOL_GPL(shingle_around_hit);

/**
 * shingle_around_put() - a reader has read its fragment
 * @a: the regions
 * @region: from shingle_around_hit()
 *
 * Context: the caller's lock.
 */
void shingle_around_put(struct shingle_around *a, u32 region)
{
	struct shingle_around_region *r = &a->region[region];

	r->held--;
	if (!r->held && r->forgotten)
		r->state = SHINGLE_AROUND_EMPTY;
}
EXPORT_SYMBOL_GPL(shingle_around_put);

/**
 * shingle_around_fill() - a fragment is about to be read with what is around it
 * @a: the regions
 * @place: first unit
 * @n: number of units
 *
 * Context: the caller's lock.
 * Return: the region to read it into, until shingle_around_filled() or shingle_around_cancel();
 * SHINGLE_NO_REGION if it is too large, or all regions are being read: read the fragment alone.
 */
u32 shingle_around_fill(struct shingle_around *a, u64 place, u32 n)
{
	u32 i, best = SHINGLE_NO_REGION;

	for (i = 0; i < a->limit && n <= a->units; i++) {
		const struct shingle_around_region *r = &a->region[i];

		if (r->state == SHINGLE_AROUND_EMPTY) {
			best = i;
			break;
		}
		if (r->state == SHINGLE_AROUND_HERE && !r->held &&
		    (best == SHINGLE_NO_REGION || r->turn < a->region[best].turn))
			best = i;
	}
	if (best == SHINGLE_NO_REGION) {
		a->count.refused++;
		return best;
	}
	a->region[best].place = place;
	a->region[best].n = n;
	a->region[best].state = SHINGLE_AROUND_FILLING;
	a->region[best].forgotten = false;
	a->region[best].turn = ++a->turn;
	a->count.read_units += n;
	return best;
}
EXPORT_SYMBOL_GPL(shingle_around_fill);

/**
 * shingle_around_filled() - the data of a region are in its buffer
 * @a: the regions
 * @region: from shingle_around_fill()
 *
 * Context: the caller's lock.
 * Return: false if the region is not kept, because places of it were forgotten meanwhile.
 */
bool shingle_around_filled(struct shingle_around *a, u32 region)
{
	struct shingle_around_region *r = &a->region[region];

	if (r->forgotten) {
		shingle_around_cancel(a, region);
		return false;
	}
	r->state = SHINGLE_AROUND_HERE;
	return true;
}
EXPORT_SYMBOL_GPL(shingle_around_filled);

/**
 * shingle_around_cancel() - the read of a region has failed
 * @a: the regions
 * @region: from shingle_around_fill()
 *
 * Context: the caller's lock.
 */
void shingle_around_cancel(struct shingle_around *a, u32 region)
{
	a->region[region].state = SHINGLE_AROUND_EMPTY;
	a->count.cancelled++;
}
EXPORT_SYMBOL_GPL(shingle_around_cancel);

/**
 * shingle_around_forget() - places are about to be overwritten or released
 * @a: the regions
 * @place: the first
 * @n: number of units
 *
 * Context: the caller's lock.
 */
void shingle_around_forget(struct shingle_around *a, u64 place, u64 n)
{
	u32 i;

	for (i = 0; i < SHINGLE_AROUND_REGIONS; i++) {
		struct shingle_around_region *r = &a->region[i];

		if (r->place < place + n && place < r->place + r->n)
			forget(r);
	}
}
EXPORT_SYMBOL_GPL(shingle_around_forget);

/**
 * shingle_around_clear() - forget all regions
 * @a: the regions
 *
 * Context: the caller's lock.
 */
void shingle_around_clear(struct shingle_around *a)
{
	u32 i;

	for (i = 0; i < SHINGLE_AROUND_REGIONS; i++)
		forget(&a->region[i]);
}
EXPORT_SYMBOL_GPL(shingle_around_clear);

/**
 * shingle_around_limit() - use another number of regions
 * @a: the regions
 * @regions: the number, at most SHINGLE_AROUND_REGIONS; 0: none
 *
 * The owner has a buffer for each.
 *
 * Context: the caller's lock.
 */
void shingle_around_limit(struct shingle_around *a, u32 regions)
{
	u32 i;

	a->limit = min(regions, SHINGLE_AROUND_REGIONS);
	for (i = a->limit; i < SHINGLE_AROUND_REGIONS; i++)
		forget(&a->region[i]);
}
EXPORT_SYMBOL_GPL(shingle_around_limit);

/**
 * shingle_around_verify() - check the regions
 * @a: the regions
 * @report: called with a sentence for each contradiction
 * @ctx: for @report
 *
 * Context: the caller's lock.
 * Return: number of contradictions.
 */
u32 shingle_around_verify(const struct shingle_around *a,
			  void (*report)(void *ctx, const char *fmt, ...) __printf(2, 3),
			  void *ctx)
{
	u32 i, bad = 0;

	for (i = 0; i < SHINGLE_AROUND_REGIONS; i++) {
		const struct shingle_around_region *r = &a->region[i];
		const char *why = NULL;

		if (r->state == SHINGLE_AROUND_EMPTY)
			why = r->held ? "is empty and held" : NULL;
		else if (r->n > a->units)
			why = "is larger than its buffer";
		else if (r->turn > a->turn)
			why = "has a turn that was not given";
		else if (i >= a->limit && !r->forgotten)
			why = "is kept beyond the limit";
		else if (r->state == SHINGLE_AROUND_HERE && r->forgotten && !r->held)
			why = "is forgotten and not empty";
		if (why) {
			report(ctx, "region %u of look-ahead-behind %s", i, why);
			bad++;
		}
	}
	return bad;
}
EXPORT_SYMBOL_GPL(shingle_around_verify);
