/* SPDX-License-Identifier: GPL-2.0 */
/* Writes that happen together: entries as bytes, numbered from 0. */
#ifndef KV_BATCH_H
#define KV_BATCH_H

#include "entry.h"

/**
 * struct kv_batch - see kv_batch_new()
 * @buf: entry_encode() of each
 * @entries: how many
 * @puts: of them
 * @max_value: bytes of the largest value
 * @key_bytes: of all keys
 * @user_bytes: of keys and values
 */
struct kv_batch {
	struct buffer buf;
	u32 entries, puts, max_value;
	u64 key_bytes, user_bytes;
};

int batch_add(struct kv_batch *b, u8 op, struct slice key, struct slice value);

#endif /* KV_BATCH_H */
