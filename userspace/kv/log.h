/* SPDX-License-Identifier: GPL-2.0 */
/* Chunks of a log, for the two halves of it that write and read them. */
#ifndef KV_LOG_H
#define KV_LOG_H

#include "store.h"

#define HEAD	((u32)sizeof(struct chunk_head))

static inline u32 chunk_bytes(u32 with_head)
{
	return round_up(with_head, BLOCK_BYTES);
}

#endif /* KV_LOG_H */
