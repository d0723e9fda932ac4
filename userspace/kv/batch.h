/* SPDX-License-Identifier: GPL-2.0 */
/* Batches of writes that happen together: encoded entries, numbered from 0. */
#ifndef KV_BATCH_H
#define KV_BATCH_H

#include "entry.h"

/**
 * struct kv_batch - see kv_batch_new()
 * @buf: the encoded entries, see entry_encode()
 * @entries: number of entries
 * @puts: number of entries that are puts
 * @max_value: size of the largest value
 * @key_bytes: bytes of all keys
 * @user_bytes: bytes of all keys and values
 */
struct kv_batch {
	struct buffer buf;
	u32 entries, puts, max_value;
	u64 key_bytes, user_bytes;
};

int batch_add(struct kv_batch *b, u8 op, struct slice key, struct slice value);

#endif /* KV_BATCH_H */
