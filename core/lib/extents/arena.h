/* SPDX-License-Identifier: GPL-2.0 */
/* The arena of an extent map, for the files of this directory. */
#ifndef SHINGLE_EXTENTS_ARENA_H
#define SHINGLE_EXTENTS_ARENA_H

#include "extents/extents.h"

void shingle_extents_free_from(struct shingle_extents *x, u32 from);

/* Does an extent that begins there continue @e, logically and in place, in the same segment? */
static inline bool shingle_extents_continue(const struct shingle_extents *x,
					    const struct shingle_extents_entry *e, u32 lunit,
					    u32 place)
{
	return e->lunit + e->n == lunit && e->place + e->n == place && place % x->segment_units;
}

#endif /* SHINGLE_EXTENTS_ARENA_H */
