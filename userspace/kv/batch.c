// SPDX-License-Identifier: GPL-2.0
/* Batches of writes. */
#include "entry.h"
#include "store.h"

/**
 * batch_add() - add a write to a batch
 * @b: the batch
 * @op: OP_PUT or OP_DELETE
 * @key: the key
 * @value: the value
 *
 * Return: 0; or -errno with the message set, and the batch is unchanged.
 */
int batch_add(struct kv_batch *b, u8 op, struct slice key, struct slice value)
{
	struct entry e = { .key = key, .value = value, .seq = b->entries, .op = op };
	int err;

	err = buffer_room(&b->buf, entry_bytes(&e));
	if (err)
		return err;
	b->buf.used += entry_encode(&e, b->buf.data + b->buf.used);
	b->entries++;
	b->puts += op == OP_PUT;
	b->max_value = max(b->max_value, value.bytes);
	b->key_bytes += key.bytes;
	b->user_bytes += key.bytes + value.bytes;
	return 0;
}

static int key_fits(size_t bytes)
{
	if (bytes && bytes <= KV_KEY_MAX)
		return 0;
	return kv_says(-EINVAL, "a key of %zu bytes: it must have 1 to %u", bytes, KV_KEY_MAX);
}

EXPORTED struct kv_batch *kv_batch_new(void)
{
	return calloc(1, sizeof(struct kv_batch));
}

EXPORTED int kv_batch_put(struct kv_batch *batch, const void *key, size_t key_bytes,
			  const void *value, size_t value_bytes)
{
	int err = key_fits(key_bytes);

	if (!err && value_bytes > KV_BAND_MAX / 8)
		err = kv_says(-EINVAL, "a value of %zu bytes does not fit in a band",
			      value_bytes);
	return err ?: batch_add(batch, OP_PUT, slice(key, key_bytes),
				slice(value, value_bytes));
}

EXPORTED int kv_batch_delete(struct kv_batch *batch, const void *key, size_t key_bytes)
{
	return key_fits(key_bytes) ?: batch_add(batch, OP_DELETE, slice(key, key_bytes),
						slice(NULL, 0));
}

EXPORTED void kv_batch_clear(struct kv_batch *batch)
{
	batch->buf.used = 0;
	batch->entries = 0;
	batch->puts = 0;
	batch->max_value = 0;
	batch->key_bytes = 0;
	batch->user_bytes = 0;
}

EXPORTED void kv_batch_free(struct kv_batch *batch)
{
	if (batch)
		free(batch->buf.data);
	free(batch);
}
