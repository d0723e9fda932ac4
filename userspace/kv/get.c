// SPDX-License-Identifier: GPL-2.0
/* Reads of one key, or of keys in order, as of one moment. */
#include "memtable.h"
#include "table.h"

/**
 * view_take() - get the current state, or that of a snapshot
 * @kv: the store
 * @snap: the snapshot, or NULL
 * @view: result, for view_drop()
 */
void view_take(struct kv *kv, const struct kv_snapshot *snap, struct view *view)
{
	pthread_mutex_lock(&kv->lock);
	*view = kv->current;
	if (snap)
		view->seq = snap->seq;
	memtable_get(view->mem);
	if (view->frozen)
		memtable_get(view->frozen);
	__atomic_fetch_add(&view->version->refs, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&kv->lock);
}

void view_drop(struct kv *kv, struct view *view)
{
	memtable_put(view->mem);
	memtable_put(view->frozen);
	version_put(kv, view->version);
}

/* The newest table with the key has its newest version: see pick.c. */
static int find_in_tables(struct kv *kv, const struct version *v, struct slice key, u64 seq,
			  bool *found, u8 *op, struct buffer *value)
{
	struct part *p;
	u64 age;
	u32 level;
	int err;

	*found = false;
	for (level = 0; level < KV_LEVELS; level++) {
		for (age = U64_MAX; (p = version_older(v, level, key, age)); age = p->age) {
			err = table_find(kv, p, key, seq, found, op, value);
			/* A version that cannot be read may have been newer than those that can. */
			if (err || *found)
				return err;
		}
	}
	return 0;
}

static int get(struct kv *kv, const struct kv_snapshot *snap, const void *key, size_t key_bytes,
	       struct buffer *value)
{
	struct slice k = slice(key, key_bytes);
	struct entry e = { .op = OP_DELETE };
	struct view view;
	bool found;
	int err = 0;

	if (!key_bytes || key_bytes > KV_KEY_MAX)
		return kv_says(-EINVAL, "a key of %zu bytes: it must have 1 to %u", key_bytes,
			       KV_KEY_MAX);
	err = store_ours(kv);
	if (err)
		return err;
	count(&kv->stats.gets, 1);
	view_take(kv, snap, &view);
	found = memtable_find(view.mem, k, view.seq, &e) ||
		(view.frozen && memtable_find(view.frozen, k, view.seq, &e));
	if (found)
		err = buffer_set(value, e.value);
	else
		err = find_in_tables(kv, view.version, k, view.seq, &found, &e.op, value);
	view_drop(kv, &view);
	if (!err && (!found || e.op == OP_DELETE))
		err = kv_none("there is no such key");
	return err;
}

EXPORTED int kv_get(struct kv *kv, const struct kv_snapshot *snap, const void *key,
		    size_t key_bytes, void **value, size_t *value_bytes)
{
	struct buffer found_value = { .data = NULL };
	/* At least one byte, so that an empty value is not NULL. */
	int err = buffer_room(&found_value, 1) ?: get(kv, snap, key, key_bytes, &found_value);

	if (err) {
		free(found_value.data);
		return err;
	}
	*value = found_value.data;
	*value_bytes = found_value.used;
	return 0;
}

EXPORTED int kv_get_into(struct kv *kv, const struct kv_snapshot *snap, const void *key,
			 size_t key_bytes, void *value, size_t room, size_t *value_bytes)
{
	struct buffer found = { .data = value, .room = room, .borrowed = true };
	int err = get(kv, snap, key, key_bytes, &found);

	*value_bytes = err ? 0 : found.used;
	if (!found.borrowed)
		free(found.data);
	if (!err && !found.borrowed)
		err = kv_says(-ENOBUFS, "a value of %zu bytes does not fit in %zu", *value_bytes,
			      room);
	return err;
}

EXPORTED struct kv_snapshot *kv_snapshot_new(struct kv *kv)
{
	struct kv_snapshot *s;

	if (store_ours(kv))
		return NULL;
	s = malloc(sizeof(*s));
	if (!s) {
		kv_no_memory();
		return NULL;
	}
	pthread_mutex_lock(&kv->lock);
	s->seq = kv->current.seq;
	s->next = kv->snapshots.next;
	s->prev = &kv->snapshots;
	s->next->prev = s;
	s->prev->next = s;
	pthread_mutex_unlock(&kv->lock);
	return s;
}

EXPORTED void kv_snapshot_free(struct kv *kv, struct kv_snapshot *snap)
{
	if (!snap || store_ours(kv))
		return;
	pthread_mutex_lock(&kv->lock);
	snap->next->prev = snap->prev;
	snap->prev->next = snap->next;
	kv->bands.released++;
	pthread_mutex_unlock(&kv->lock);
	free(snap);
}

/**
 * struct kv_iter - see kv_iter_new()
 * @kv: the store
 * @view: the state that it shows
 * @merge: all tables and memtables
 * @key: key that was last found, or found deleted
 * @value: walking back, the value of @key, as the merge has passed it
 * @here: the iterator is at a key
 * @back: the iterator walks back, and the merge is at an entry before all versions of @key
 */
struct kv_iter {
	struct kv *kv;
	struct view view;
	struct merge merge;
	struct buffer key, value;
	bool here, back;
};

static int add_cursor(struct merge *m, struct cursor *c)
{
	if (!c)
		return kv_no_memory();
	merge_add(m, c);
	return 0;
}

EXPORTED int kv_iter_new(struct kv *kv, const struct kv_snapshot *snap, struct kv_iter **iter)
{
	struct kv_iter *it;
	u32 level, i, window;
	int err = store_ours(kv);

	if (err)
		return err;
	it = calloc(1, sizeof(*it));
	if (!it)
		return kv_no_memory();
	it->kv = kv;
	view_take(kv, snap, &it->view);
	/* All tables may be read in parallel, as in a merge. */
	window = clamp(READ_AHEAD / (it->view.version->nr ?: 1), WINDOW_BYTES / 4, WINDOW_BYTES);
	window = rounddown(window, BLOCK_BYTES);
	err = merge_init(&it->merge, it->view.version->nr + 2);
	if (!err)
		err = add_cursor(&it->merge, memtable_cursor(it->view.mem));
	if (!err && it->view.frozen)
		err = add_cursor(&it->merge, memtable_cursor(it->view.frozen));
	for (level = 0; level < KV_LEVELS; level++) {
		const struct level *l = &it->view.version->level[level];

		for (i = 0; i < l->nr && !err; i++)
			err = add_cursor(&it->merge,
					 table_cursor(kv, l->part[i], window,
						      &kv->stats.read_bytes, true));
	}
	if (err)
		kv_iter_free(it);
	else
		*iter = it;
	return err;
}

/* Go to the first key that has a value; with @past, to one behind the current key. */
static int find_value(struct kv_iter *it, bool past)
{
	const struct entry *e;
	int err = 0;

	it->here = false;
	for (; (e = merge_at(&it->merge)); err = merge_next(&it->merge)) {
		if (err)
			return err;
		if (e->seq > it->view.seq ||
		    (past && !slice_cmp(e->key, buffer_slice(&it->key))))
			continue;
		err = buffer_set(&it->key, e->key);
		if (err)
			return err;
		past = true;
		if (e->op == OP_PUT) {
			it->here = true;
			return 0;
		}
	}
	return err ?: kv_none("there is no further key");
}

/*
 * Walking back, where the oldest version of a key comes first: go to the last key with a value as
 * its newest version.
 */
static int find_value_back(struct kv_iter *it)
{
	const struct entry *e;
	bool any = false, put = false;
	int err = 0;

	it->here = false;
	for (; !err && (e = merge_at(&it->merge)); err = merge_prev(&it->merge)) {
		if (e->seq > it->view.seq)
			continue;
		if (!any || slice_cmp(e->key, buffer_slice(&it->key))) {
			if (put)
				break;
			err = buffer_set(&it->key, e->key);
			any = true;
		}
		put = e->op == OP_PUT;
		if (!err && put)
			err = buffer_set(&it->value, e->value);
		if (err)
			return err;
	}
	it->here = !err && put;
	return err ?: put ? 0 : kv_none("there is no further key");
}

/* Walk back from before @key, or from the end if it is NULL. */
static int seek_back(struct kv_iter *it, const struct slice *key)
{
	int err = store_ours(it->kv);

	it->here = false;
	it->back = true;
	err = err ?: merge_seek_before(&it->merge, key);
	return err ?: find_value_back(it);
}

static int key_short(size_t bytes)
{
	return bytes <= KV_KEY_MAX ? 0 :
		kv_says(-EINVAL, "a key of %zu bytes: it must have %u at most", bytes,
			KV_KEY_MAX);
}

EXPORTED int kv_iter_seek_last(struct kv_iter *iter)
{
	return seek_back(iter, NULL);
}

EXPORTED int kv_iter_seek_for_prev(struct kv_iter *iter, const void *key, size_t key_bytes)
{
	u8 behind[KV_KEY_MAX + 1];
	struct slice end = slice(behind, key_bytes + 1);

	iter->here = false;
	if (key_short(key_bytes))
		return -EINVAL;
	/* The key with a zero byte appended is the next larger byte string. */
	if (key_bytes)
		memcpy(behind, key, key_bytes);
	behind[key_bytes] = 0;
	return seek_back(iter, &end);
}

EXPORTED int kv_iter_prev(struct kv_iter *iter)
{
	struct slice key = buffer_slice(&iter->key);

	if (!iter->here)
		return kv_says(-EINVAL, "the iterator is not at a key");
	if (store_ours(iter->kv))
		return -EPERM;
	return iter->back ? find_value_back(iter) : seek_back(iter, &key);
}

EXPORTED int kv_iter_seek(struct kv_iter *iter, const void *key, size_t key_bytes)
{
	int err;

	iter->here = false;
	iter->back = false;
	if (key_short(key_bytes))
		return -EINVAL;
	err = store_ours(iter->kv) ?: merge_seek(&iter->merge, slice(key, key_bytes));
	return err ?: find_value(iter, false);
}

EXPORTED int kv_iter_next(struct kv_iter *iter)
{
	int err;

	if (!iter->here)
		return kv_says(-EINVAL, "the iterator is not at a key");
	if (store_ours(iter->kv))
		return -EPERM;
	iter->here = false;
	err = iter->back ? merge_seek(&iter->merge, buffer_slice(&iter->key)) :
		merge_next(&iter->merge);
	iter->back = false;
	return err ?: find_value(iter, true);
}

EXPORTED const void *kv_iter_key(const struct kv_iter *iter, size_t *bytes)
{
	if (!iter->here)
		return NULL;
	*bytes = iter->key.used;
	return iter->key.data;
}

EXPORTED const void *kv_iter_value(const struct kv_iter *iter, size_t *bytes)
{
	struct slice value;

	if (!iter->here)
		return NULL;
	value = iter->back ? buffer_slice(&iter->value) : merge_at(&iter->merge)->value;
	*bytes = value.bytes;
	return value.data ?: (const u8 *)"";
}

EXPORTED void kv_iter_free(struct kv_iter *iter)
{
	if (!iter || store_ours(iter->kv))
		return;
	merge_free(&iter->merge);
	view_drop(iter->kv, &iter->view);
	free(iter->key.data);
	free(iter->value.data);
	free(iter);
}
