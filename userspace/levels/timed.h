/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A drive that keeps its time and nothing else: platter's mechanics without
 * platter.  Its cache and its look-ahead are off, as platter's are unless asked for.
 */
#ifndef LEVELS_TIMED_H
#define LEVELS_TIMED_H

#include <shim.h>

#include "mech.h"

/**
 * struct timed - the drive
 * @geo: of the profile, in full length
 * @mech: its moving parts
 * @bytes: its size
 * @now_ns: the only clock that there is
 */
struct timed {
	struct platter_geo geo;
	struct platter_mech mech;
	u64 bytes;
	u64 now_ns;
};

bool timed_init(struct timed *t, const char *profile, u32 flush_us);
u64 timed_serve(struct timed *t, u64 arrival_ns, bool writing, u64 offset, u32 bytes);

#endif /* LEVELS_TIMED_H */
