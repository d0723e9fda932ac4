// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes the reader of the band table.  An input has the numbers of the head, and the entries.
 * Some bands of the disk really have tables and logs.
 */
#include "fuzz.h"

static void eat(struct input in)
{
	u64 generation = take(&in, 8), next_id = take(&in, 8), next_age = take(&in, 8);
	u64 seq = take(&in, 8);
	u32 entries = (u32)take(&in, 4);

	use_bands(generation, next_id, next_age, seq, entries, in.at, in.left);
	use_store();
}

static void begin(void)
{
	use_begin(true, KV_SOC);
}

const struct harness harness_bands = { .name = "bands", .begin = begin, .eat = eat };
