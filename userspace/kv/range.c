// SPDX-License-Identifier: GPL-2.0
/* Ranges of keys, without their end: deletion, compaction and estimates. */
#include "entry.h"
#include "table.h"

static int range_fits(size_t from_bytes, size_t to_bytes)
{
	return from_bytes <= KV_KEY_MAX && to_bytes <= KV_KEY_MAX ? 0 :
		kv_says(-EINVAL, "a key of %zu bytes: it must have %u at most",
			max(from_bytes, to_bytes), KV_KEY_MAX);
}

/*
 * Fill a batch with deletions of existing keys from @after on, which is included only if @first.
 * The last of them becomes @after.
 */
static int collect(struct kv *kv, const struct kv_snapshot *snap, struct buffer *after,
		   bool first, struct slice to, struct kv_batch *b)
{
	struct kv_iter *it;
	struct slice key;
	size_t bytes;
	int err = kv_iter_new(kv, snap, &it);

	if (err)
		return err;
	err = kv_iter_seek(it, after->data, after->used);
	for (; !err; err = kv_iter_next(it)) {
		key.data = kv_iter_key(it, &bytes);
		key.bytes = (u32)bytes;
		if (!first && !slice_cmp(key, buffer_slice(after)))
			continue;
		if (to.bytes && slice_cmp(key, to) >= 0)
			break;
		/* The rest goes into another batch. */
		if (b->buf.used + ENTRY_HEAD + key.bytes > kv->head.band_bytes / 4)
			break;
		err = kv_batch_delete(b, key.data, key.bytes);
		if (err)
			break;
	}
	if (!err || err == -ENOENT) {
		struct entry e;
		u32 at = 0;

		err = 0;
		while (at < b->buf.used &&
		       !entry_decode(b->buf.data + at, (u32)b->buf.used - at, &e))
			at += entry_bytes(&e);
		if (b->entries)
			err = buffer_set(after, e.key);
	}
	kv_iter_free(it);
	return err;
}

EXPORTED int kv_delete_range(struct kv *kv, const void *from, size_t from_bytes, const void *to,
			     size_t to_bytes, uint32_t flags)
{
	struct buffer after = { .data = NULL };
	struct kv_batch b = { .entries = 0 };
	struct kv_snapshot *snap;
	bool first = true;
	int err = store_ours(kv) ?: range_fits(from_bytes, to_bytes);

	if (err)
		return err;
	/*
	 * Use a snapshot, so that a writer that is always ahead cannot keep this at work for ever.
	 */
	snap = kv_snapshot_new(kv);
	err = snap ? buffer_set(&after, slice(from, from_bytes)) : kv_no_memory();
	/* Verify the flags even if there is nothing to delete. */
	err = err ?: kv_write(kv, &b, flags);
	while (!err) {
		kv_batch_clear(&b);
		err = collect(kv, snap, &after, first, slice(to, to_bytes), &b);
		if (err || !b.entries)
			break;
		/* One sync at the end makes all of them durable. */
		err = kv_write(kv, &b, 0);
		first = false;
	}
	if (!err && (flags & KV_SYNC))
		err = kv_sync(kv);
	kv_snapshot_free(kv, snap);
	free(after.data);
	free(b.buf.data);
	return err;
}

EXPORTED int kv_compact_range(struct kv *kv, const void *from, size_t from_bytes, const void *to,
			      size_t to_bytes)
{
	int err = range_fits(from_bytes, to_bytes) ?: kv_flush(kv);

	if (err)
		return err;
	begin_compacting(kv);
	err = compact_range(kv, slice(from, from_bytes), slice(to, to_bytes));
	end_compacting(kv);
	return err;
}

/* Bytes of a table in a range that contains only a part of it, by the index. */
static int part_bytes(struct kv *kv, struct part *p, struct slice from, struct slice to,
		      u64 *bytes)
{
	struct cache_item *index;
	u32 i, begin, end;
	int err = table_index(kv, p, &index);

	if (err)
		return err;
	begin = index_find(index, slice_cmp(from, p->min) > 0 ? from : p->min);
	end = to.bytes ? index_find(index, to) : index_blocks(index);
	for (i = begin; i < end && i < index_blocks(index); i++) {
		if (p->table->unsorted) {
			*bytes += index_at(index, i).bytes;
			continue;
		}
		/* Blocks follow each other. */
		*bytes += (end < index_blocks(index) ? index_at(index, end).offset :
			   p->table->foot.data_bytes) - index_at(index, begin).offset;
		break;
	}
	cache_put(kv->cache, index);
	return 0;
}

EXPORTED int kv_approximate_size(struct kv *kv, const void *from, size_t from_bytes,
				 const void *to, size_t to_bytes, uint64_t *bytes)
{
	struct slice begin = slice(from, from_bytes), end = slice(to, to_bytes);
	struct version *v;
	u64 sum = 0;
	u32 level, i;
	int err = store_ours(kv) ?: range_fits(from_bytes, to_bytes);

	if (err)
		return err;
	v = version_get(kv);
	for (level = 0; level < KV_LEVELS && !err; level++) {
		for (i = 0; i < v->level[level].nr && !err; i++) {
			struct part *p = v->level[level].part[i];

			if (slice_cmp(p->max, begin) < 0)
				continue;
			if (end.bytes && slice_cmp(p->min, end) >= 0)
				break;
			if (slice_cmp(p->min, begin) >= 0 &&
			    (!end.bytes || slice_cmp(p->max, end) < 0))
				sum += p->table->bytes;
			else
				err = part_bytes(kv, p, begin, end, &sum);
		}
	}
	version_put(kv, v);
	*bytes = err ? 0 : sum;
	return err;
}
