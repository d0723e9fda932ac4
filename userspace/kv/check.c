// SPDX-License-Identifier: GPL-2.0
/* kv_check(): reads and verifies the whole store, and relies on nothing that is cached. */
#include "table.h"

/**
 * struct checker - a running check
 * @kv: the store
 * @report: see kv_check()
 * @ctx: argument of @report
 * @findings: number of damages found
 * @unread: error of the first read that has failed twice; 0 if none has
 */
struct checker {
	struct kv *kv;
	void (*report)(void *ctx, const char *sentence);
	void *ctx;
	u64 findings;
	int unread;
};

/* Report a finding.  @err: -EUCLEAN for damage, the error of a read, or 0 for information only. */
static void found(void *ctx, const char *text, int err)
{
	struct checker *c = ctx;

	c->findings += err == -EUCLEAN;
	if (err != -EUCLEAN)
		c->unread = c->unread ?: err;
	c->report(c->ctx, text);
}

/* Walk through all entries of a part: verify order and Bloom filter, and count them. */
static int walk(struct checker *c, struct part *p, const struct cache_item *bloom, u64 *entries,
		u64 *tombstones)
{
	struct cursor *t = table_cursor(c->kv, p, WINDOW_BYTES / 4, &c->kv->stats.read_bytes,
					false);
	struct buffer key = { .data = NULL };
	u64 seq = 0;
	int err, order;

	if (!t)
		return kv_no_memory();
	err = t->ops->seek(t, slice(NULL, 0));
	if (!err)
		err = t->ops->next(t);
	for (; !err && t->valid; err = err ?: t->ops->next(t)) {
		order = *entries ? slice_cmp(buffer_slice(&key), t->at.key) : -1;
		if (order > 0 || (!order && t->at.seq >= seq))
			err = table_damaged(p->table, "keys are out of order");
		else if (slice_cmp(t->at.key, p->max) > 0)
			err = table_damaged(p->table, "a key is beyond the largest one");
		else if (!bloom_has(bloom->data, bloom->bytes, t->at.key))
			err = table_damaged(p->table, "the Bloom filter does not contain a key");
		else if (t->at.seq >= __atomic_load_n(&c->kv->next.seq, __ATOMIC_RELAXED))
			err = table_damaged(p->table, "a write has a later number than the store");
		else
			err = buffer_set(&key, t->at.key);
		seq = t->at.seq;
		++*entries;
		*tombstones += t->at.op == OP_DELETE;
	}
	if (!err && *entries && slice_cmp(buffer_slice(&key), p->max))
		err = table_damaged(p->table, "the largest key is missing");
	t->ops->free(t);
	free(key.data);
	return err;
}

/* Does the table have a key below @key? */
static bool begins_before(const struct histogram *h, struct slice key)
{
	return slice_cmp(slice(h->bucket[0].key, h->bucket[0].bytes), key) < 0;
}

static int check_part(struct checker *c, struct part *p)
{
	struct cache_item *bloom = NULL, *histogram = NULL, *index = NULL;
	u64 entries = 0, tombstones = 0;
	bool trimmed = true;
	int err;

	/* A cached copy may be right although the disk is not. */
	cache_forget(c->kv->cache, p->table->id);
	err = table_read_foot(c->kv, p) ?: table_bloom(c->kv, p, &bloom) ?:
		table_index(c->kv, p, &index) ?: table_histogram(c->kv, p, &histogram) ?:
		(p->table->unsorted ? log_verify(c->kv, p->table, p->table->foot.data_bytes) : 0) ?:
		walk(c, p, bloom, &entries, &tombstones);
	/*
	 * If the beginning of the table does not count, the number of entries that count is
	 * unknown.
	 */
	if (!err && entries < p->table->entries)
		trimmed = begins_before((struct histogram *)histogram->data, p->min);
	if (!err && (!trimmed || entries > p->table->entries ||
		     (entries == p->table->entries && tombstones != p->table->tombstones)))
		err = table_damaged(p->table, "%llu entries with %llu deletions, instead of %llu and %llu",
				    entries, tombstones, p->table->entries,
				    p->table->tombstones);
	cache_put(c->kv->cache, bloom);
	cache_put(c->kv->cache, index);
	cache_put(c->kv->cache, histogram);
	return err;
}

/* For each key, a reader must find newer versions before older ones. */
static int check_order(struct checker *c, const struct version *v)
{
	struct buffer key = { .data = NULL };
	struct merge m;
	u32 level = 0, i;
	u64 age = 0;
	int err = merge_init(&m, v->nr);

	for (level = 0; level < KV_LEVELS && !err; level++) {
		for (i = 0; i < v->level[level].nr && !err; i++) {
			struct part *p = v->level[level].part[i];
			struct cursor *t;

			if (__atomic_load_n(&p->table->damaged, __ATOMIC_RELAXED))
				continue;
			t = table_cursor(c->kv, p, WINDOW_BYTES / 4,
					 &c->kv->stats.read_bytes, false);
			if (t)
				merge_add(&m, t);
			err = t ? 0 : kv_no_memory();
		}
	}
	for (err = err ?: merge_seek(&m, slice(NULL, 0)); !err && merge_at(&m);
	     err = err ?: merge_next(&m)) {
		const struct cursor *t = m.heap[0];

		if (key.used && !slice_cmp(buffer_slice(&key), t->at.key) &&
		    (t->level < level || (t->level == level && t->age > age))) {
			found(c, "an older version of a key comes before a newer one", -EUCLEAN);
			break;
		}
		level = t->level;
		age = t->age;
		err = buffer_set(&key, t->at.key);
	}
	merge_free(&m);
	free(key.data);
	return err;
}

static int check_parts(struct checker *c, const struct version *v)
{
	u32 level, i;
	int err;

	for (level = 0; level < KV_LEVELS; level++) {
		for (i = 0; i < v->level[level].nr; i++) {
			err = check_part(c, v->level[level].part[i]);
			if (err && err != -ENOMEM && err != -EUCLEAN) {
				/* The disk may have been busy: try again. */
				found(c, kv_error(), 0);
				err = check_part(c, v->level[level].part[i]);
			}
			if (err == -ENOMEM)
				return err;
			if (err)
				found(c, kv_error(), err);
		}
	}
	return check_order(c, v);
}

EXPORTED int kv_check(struct kv *kv, void (*report)(void *ctx, const char *sentence), void *ctx)
{
	struct checker c = { .kv = kv, .report = report, .ctx = ctx };
	struct version *v;
	int err = store_ours(kv);

	if (err)
		return err;
	if (kv->recovery.err)
		found(&c, kv->recovery.text, kv->recovery.err);
	err = header_copies(kv, found, &c);
	if (err)
		return err;
	pthread_mutex_lock(&kv->committing);
	err = bandtable_copies(kv, found, &c);
	pthread_mutex_unlock(&kv->committing);
	if (err)
		return err;
	v = version_get(kv);
	err = check_parts(&c, v);
	version_put(kv, v);
	if (err == -ENOMEM)
		return err;
	/* A part that could not be read has been reported; the error here concerns the order. */
	if (err && (err == -EUCLEAN || !c.unread))
		found(&c, kv_error(), err);
	if (!c.findings && c.unread)
		return kv_says(c.unread, "%s could not be read completely: %s", kv->disk->name,
			       strerror(-c.unread));
	return c.findings ? -EUCLEAN : 0;
}
