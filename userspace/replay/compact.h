/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Addresses of a large volume in 32 bits, or those that a finite disk contains: the MiB that a
 * trace touches, in their order, without the gaps between them.
 */
#ifndef REPLAY_COMPACT_H
#define REPLAY_COMPACT_H

#include "input.h"

/**
 * struct piece - addresses without a gap
 * @address: the first
 * @compact: its compact address
 */
struct piece {
	u64 address;
	u64 compact;
};

/**
 * struct compact - all pieces
 * @piece: the pieces by address; the last one is empty and ends the others.  NULL: addresses are
 *	compact
 * @nr: number of pieces, without the last one
 * @end: compact address behind the highest one
 * @units: size of all pieces, which are whole MiB
 */
struct compact {
	struct piece *piece;
	u32 nr;
	u64 end;
	u64 units;
};

int compact_init(struct compact *c, const struct input *in, u32 unit_shift, bool always);
void compact_exit(struct compact *c);
u64 compact_of(const struct compact *c, u64 address);
u64 compact_address(const struct compact *c, u64 compact, u64 *left);

#endif /* REPLAY_COMPACT_H */
