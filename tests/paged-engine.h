/* SPDX-License-Identifier: GPL-2.0 */
/* A minimal engine with a map larger than RAM, for tests only. */
#ifndef PAGED_ENGINE_H
#define PAGED_ENGINE_H

#include "engine/engine.h"

/* Types of journal records. */
#define PAGED_MAP	0x0100	/* block @a is in slot @b of its region; it was in @c - 1 */
#define PAGED_DROP	0x0101	/* block @a reads as zeroes; it was in slot @c - 1 */
#define PAGED_OPEN	0x0102	/* region @a writes to band @b, from its first slot on */

extern const struct shingle_engine_ops paged_engine_ops;

#endif /* PAGED_ENGINE_H */
