// SPDX-License-Identifier: GPL-2.0
/* The band table: says what each band holds.  A commit changes it as a whole or not at all. */
#include "store.h"

static u64 slot_offset(const struct kv *kv, u64 generation, u32 copy)
{
	return kv->head.slot_offset +
		(generation % 2 * COPIES + copy) * kv->head.slot_bytes;
}

/*
 * Return: the room for entries, in bytes, limited by a slot and by the 32 bits of the length field.
 */
u64 bandtable_room(const struct kv *kv)
{
	return min_t(u64, kv->head.slot_bytes, rounddown(U32_MAX, BLOCK_BYTES)) - BLOCK_BYTES;
}

/**
 * bands_crc() - the checksum of a band table's head
 * @kv: the store
 * @h: the head; the checksum field counts as 0 and is unchanged afterwards
 *
 * Return: The checksum.
 */
u32 bands_crc(const struct kv *kv, struct bands_head *h)
{
	__le32 was = h->crc;
	u32 crc = crc32c(~0U, kv->head.uuid, sizeof(kv->head.uuid));

	h->crc = 0;
	crc = crc32c(crc, h, sizeof(*h));
	h->crc = was;
	return crc;
}

static u8 *put_entry(u8 *to, struct bands_entry *e, struct slice min, struct slice max)
{
	e->min_bytes = cpu_to_le16((u16)min.bytes);
	e->max_bytes = cpu_to_le16((u16)max.bytes);
	memcpy(to, e, sizeof(*e));
	to += sizeof(*e);
	if (min.bytes)
		memcpy(to, min.data, min.bytes);
	to += min.bytes;
	if (max.bytes)
		memcpy(to, max.data, max.bytes);
	return to + max.bytes;
}

static u8 *put_logs(u8 *to, const struct log_band *logs, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		struct bands_entry e = {
			.band = cpu_to_le32(logs[i].band),
			.kind = KIND_LOG,
			.bytes = cpu_to_le32(logs[i].bytes),
			.id = cpu_to_le64(logs[i].id),
			.age = cpu_to_le64(logs[i].memtable),
		};

		to = put_entry(to, &e, slice(NULL, 0), slice(NULL, 0));
	}
	return to;
}

static u8 *put_parts(u8 *to, const struct version *v)
{
	u32 level, i;

	for (level = 0; level < KV_LEVELS; level++) {
		for (i = 0; i < v->level[level].nr; i++) {
			const struct part *p = v->level[level].part[i];
			struct bands_entry e = {
				.band = cpu_to_le32(p->table->band),
				.kind = p->table->unsorted ? KIND_UNSORTED : KIND_TABLE,
				.level = (u8)level,
				.bytes = cpu_to_le32(p->table->bytes),
				.id = cpu_to_le64(p->table->id),
				.age = cpu_to_le64(p->age),
				.entries = cpu_to_le64(p->table->entries),
				.tombstones = cpu_to_le64(p->table->tombstones),
			};

			to = put_entry(to, &e, p->min, p->max);
		}
	}
	return to;
}

static size_t body_bytes(const struct version *v, u32 nr_logs)
{
	size_t n = (size_t)nr_logs * sizeof(struct bands_entry);
	u32 level, i;

	for (level = 0; level < KV_LEVELS; level++) {
		for (i = 0; i < v->level[level].nr; i++)
			n += sizeof(struct bands_entry) + v->level[level].part[i]->min.bytes +
				v->level[level].part[i]->max.bytes;
	}
	return n;
}

/**
 * bandtable_write() - write one generation of the band table
 * @kv: the store
 * @v: the tables
 * @logs: the logs
 * @nr_logs: number of @logs
 * @generation: number of the generation; it overwrites the generation two before it
 * @both: also write the generation before it; a new store does so to overwrite old contents
 *
 * Return: 0 or -errno; nothing is flushed.
 */
int bandtable_write(struct kv *kv, const struct version *v, const struct log_band *logs,
		    u32 nr_logs, u64 generation, bool both)
{
	size_t body = body_bytes(v, nr_logs), size = BLOCK_BYTES + round_up(body, BLOCK_BYTES);
	struct bands_head *h;
	u32 copy, i;
	u8 *at;
	int err = 0;

	if (body > bandtable_room(kv))
		return kv_says(-ENOSPC, "the band table of %s is full", kv->disk->name);
	h = aligned_alloc(BLOCK_BYTES, size);
	if (!h)
		return kv_no_memory();
	memset(h, 0, size);
	at = put_logs((u8 *)(h + 1), logs, nr_logs);
	put_parts(at, v);
	h->magic = cpu_to_le64(BANDS_MAGIC);
	h->version = cpu_to_le32(FORMAT_VERSION);
	memcpy(h->uuid, kv->head.uuid, sizeof(h->uuid));
	h->next_id = cpu_to_le64(__atomic_load_n(&kv->next.id, __ATOMIC_RELAXED));
	h->next_age = cpu_to_le64(__atomic_load_n(&kv->next.age, __ATOMIC_RELAXED));
	h->seq = cpu_to_le64(__atomic_load_n(&kv->next.seq, __ATOMIC_RELAXED));
	/* The offload device that holds the bands behind the store's own. */
	memcpy(h->offload, kv->offload.head.own, sizeof(h->offload));
	h->entries = cpu_to_le32(v->nr + nr_logs);
	h->bytes = cpu_to_le32((u32)body);
	h->body_crc = cpu_to_le32(crc32c(~0U, h + 1, body));
	for (i = 0; i < (both ? 2U : 1U) && !err; i++) {
		h->generation = cpu_to_le64(generation - i);
		h->crc = cpu_to_le32(bands_crc(kv, h));
		for (copy = 0; copy < COPIES && !err; copy++) {
			err = store_write(kv, kv->disk, slot_offset(kv, generation - i, copy), h,
					  (u32)size);
			count(&kv->stats.table_bytes, size);
		}
	}
	free(h);
	kv->bandtable.copy_bytes = (u32)size;
	return err;
}

/* No number may wrap around. */
static bool numbers_end(u64 next_id, u64 next_age, u64 generation)
{
	return next_id > NUMBERS_END || next_age > NUMBERS_END || generation > NUMBERS_END;
}

static int read_some(struct kv *kv, u64 offset, void *to, u32 bytes)
{
	int err = kv->disk->ops->read(kv->disk, offset, to, bytes);

	return err ? kv_says(err, "%s: a copy of the band table, at byte %llu, cannot be read: %s",
			     kv->disk->name, offset, strerror(-err)) : 0;
}

/* Is this the head of some generation of this store? */
static bool is_head(const struct kv *kv, struct bands_head *h)
{
	return le64_to_cpu(h->magic) == BANDS_MAGIC && le32_to_cpu(h->version) == FORMAT_VERSION &&
		!memcmp(h->uuid, kv->head.uuid, sizeof(h->uuid)) &&
		le32_to_cpu(h->crc) == bands_crc(kv, h);
}

/* Read a copy, head and body.  Return: NULL if it is not whole, or after an error in @err. */
static struct bands_head *read_copy(struct kv *kv, u64 offset, int *err)
{
	struct bands_head *h = aligned_alloc(BLOCK_BYTES, sizeof(*h)), *all = NULL;
	size_t size;
	u32 body;

	if (!h) {
		*err = kv_no_memory();
		return NULL;
	}
	*err = read_some(kv, offset, h, sizeof(*h));
	if (*err || !is_head(kv, h))
		goto out;
	body = le32_to_cpu(h->bytes);
	size = BLOCK_BYTES + round_up((size_t)body, BLOCK_BYTES);
	if (body > bandtable_room(kv))
		goto out;
	all = aligned_alloc(BLOCK_BYTES, size);
	if (!all) {
		*err = kv_no_memory();
		goto out;
	}
	*err = read_some(kv, offset, all, (u32)size);
	if (*err || memcmp(h, all, sizeof(*h)) ||
	    crc32c(~0U, all + 1, body) != le32_to_cpu(h->body_crc)) {
		free(all);
		all = NULL;
	}
out:
	free(h);
	return all;
}

/* A band with a number behind the store's own: is it on the offload device that is open? */
static int spare_there(struct kv *kv, const struct bands_head *h, u32 band)
{
	static const u8 none[sizeof(h->offload)];

	if (!memcmp(h->offload, none, sizeof(none)))
		return -EUCLEAN;
	if (!kv->offload.disk)
		return kv_says(-ENXIO, "%s has writes on its offload device: give that device, too",
			       kv->disk->name);
	if (memcmp(h->offload, kv->offload.head.own, sizeof(kv->offload.head.own)))
		return kv_says(-ENXIO, "%s has writes on another offload device than %s",
			       kv->disk->name, kv->offload.disk->name);
	return band - kv->head.bands < kv->offload.head.bands ? 0 : -EUCLEAN;
}

static int take_entry(struct kv *kv, const struct bands_head *h, const u8 **at, const u8 *end,
		      struct part **part)
{
	u32 band, bytes, min_bytes, max_bytes;
	struct bands_entry e;
	struct slice min, max;
	struct table *t;
	int err;

	*part = NULL;
	if ((size_t)(end - *at) < sizeof(e))
		return -EUCLEAN;
	memcpy(&e, *at, sizeof(e));
	*at += sizeof(e);
	band = le32_to_cpu(e.band);
	bytes = le32_to_cpu(e.bytes);
	min_bytes = le16_to_cpu(e.min_bytes);
	max_bytes = le16_to_cpu(e.max_bytes);
	err = is_spare(kv, band) ? spare_there(kv, h, band) : 0;
	if (err)
		return err;
	if ((is_spare(kv, band) && e.kind == KIND_TABLE) || kv->bands.state[band] == BAND_USED ||
	    bytes > kv->head.band_bytes || bytes % BLOCK_BYTES ||
	    le64_to_cpu(e.id) >= kv->next.id || (size_t)(end - *at) < min_bytes + max_bytes)
		return -EUCLEAN;
	min = slice(*at, min_bytes);
	max = slice(*at + min_bytes, max_bytes);
	*at += min_bytes + max_bytes;
	kv->bands.state[band] = BAND_USED;
	--*bands_free(kv, band);
	if (e.kind == KIND_LOG) {
		if (kv->bandtable.nr_logs == MAX_LOG_BANDS || min_bytes || max_bytes)
			return -EUCLEAN;
		kv->bandtable.logs[kv->bandtable.nr_logs++] = (struct log_band){
			.band = band, .bytes = bytes, .id = le64_to_cpu(e.id),
			.memtable = le64_to_cpu(e.age),
		};
		return 0;
	}
	if ((e.kind != KIND_TABLE && e.kind != KIND_UNSORTED) ||
	    e.level >= levels_of(&kv->head) || bytes < 2 * BLOCK_BYTES ||
	    le64_to_cpu(e.entries) > bytes || !min_bytes || min_bytes > KV_KEY_MAX || !max_bytes ||
	    max_bytes > KV_KEY_MAX || slice_cmp(min, max) > 0 ||
	    le64_to_cpu(e.age) >= kv->next.age ||
	    (e.kind == KIND_UNSORTED && (kv->head.organisation != KV_BUFFERED || e.level)))
		return -EUCLEAN;
	t = calloc(1, sizeof(*t));
	if (!t)
		return kv_no_memory();
	*t = (struct table){ .id = le64_to_cpu(e.id), .band = band, .bytes = bytes,
			     .entries = le64_to_cpu(e.entries),
			     .tombstones = le64_to_cpu(e.tombstones),
			     .unsorted = e.kind == KIND_UNSORTED };
	*part = part_new(t, e.level, le64_to_cpu(e.age), min, max);
	if (*part)
		return 0;
	free(t);
	return kv_no_memory();
}

static int log_order(const void *a, const void *b)
{
	const struct log_band *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/*
 * Sort the logs in the order in which they were begun.  A memtable must not have a band that was
 * begun after a band of a newer memtable: when the newer one becomes a table, the logs of older
 * ones are dropped.
 */
static int order_logs(struct kv *kv)
{
	const struct log_band *b;
	u32 i;

	qsort(kv->bandtable.logs, kv->bandtable.nr_logs, sizeof(*kv->bandtable.logs), log_order);
	for (i = 0; i < kv->bandtable.nr_logs; i++) {
		b = &kv->bandtable.logs[i];
		if (!b->memtable || b->memtable > NUMBERS_END ||
		    (i && (b[-1].id == b->id || b[-1].memtable > b->memtable)))
			return -EUCLEAN;
	}
	return 0;
}

static int take_all(struct kv *kv, const struct bands_head *h)
{
	const u8 *at = (const u8 *)(h + 1), *end = at + le32_to_cpu(h->bytes);
	u32 nr = le32_to_cpu(h->entries), i, parts = 0;
	struct part **part;
	int err = 0;

	if (nr > le32_to_cpu(h->bytes) / sizeof(struct bands_entry) ||
	    le64_to_cpu(h->seq) > SEQ_END ||
	    numbers_end(le64_to_cpu(h->next_id), le64_to_cpu(h->next_age),
			le64_to_cpu(h->generation)))
		return -EUCLEAN;
	part = calloc(nr ?: 1, sizeof(*part));
	if (!part)
		return kv_no_memory();
	kv->bandtable.generation = le64_to_cpu(h->generation);
	kv->next.id = le64_to_cpu(h->next_id);
	kv->next.age = le64_to_cpu(h->next_age);
	kv->next.seq = le64_to_cpu(h->seq);
	for (i = 0; i < nr && !err; i++) {
		err = take_entry(kv, h, &at, end, &part[parts]);
		parts += !err && part[parts];
	}
	if (!err && at != end)
		err = -EUCLEAN;
	if (!err)
		err = order_logs(kv);
	if (!err) {
		kv->current.version = version_new(part, parts);
		err = kv->current.version ? 0 : kv_no_memory();
	}
	for (i = 0; i < parts; i++)
		part_put(kv, part[i]);
	free(part);
	return err;
}

/**
 * bandtable_read() - read the newest generation that is whole
 * @kv: the store; its version, logs and numbers are set
 *
 * Return: 0, or -errno with the message set.
 */
int bandtable_read(struct kv *kv)
{
	struct bands_head *best = NULL, *h;
	int err = 0, unread[SLOTS / COPIES] = { 0 };
	bool whole[SLOTS / COPIES] = { false };
	u32 i;

	for (i = 0; i < SLOTS && err != -ENOMEM; i++) {
		h = read_copy(kv, slot_offset(kv, i / COPIES, i % COPIES), &err);
		whole[i / COPIES] |= !!h;
		unread[i / COPIES] = err ?: unread[i / COPIES];
		if (h && (!best || le64_to_cpu(h->generation) > le64_to_cpu(best->generation)))
			swap(h, best);
		free(h);
	}
	/*
	 * A durable generation is in both of its copies.  If the other generation is not whole, a
	 * generation that cannot be read may be newer than the one that can.
	 */
	err = err == -ENOMEM ? err : 0;
	for (i = 0; i < SLOTS / COPIES && !err; i++)
		err = whole[i] ? 0 : unread[i];
	if (!err && !best)
		err = kv_says(-EUCLEAN, "%s: no copy of the band table is sound",
			      kv->disk->name);
	if (!err) {
		err = take_all(kv, best);
		if (err == -EUCLEAN)
			kv_says(err, "%s: the band table is inconsistent", kv->disk->name);
	}
	free(best);
	return err;
}

/*
 * A copy of the current generation is not whole: has its commit been interrupted?  Then the head,
 * which is one block, is that of this generation or of the one that it overwrites.  And nothing has
 * been written since: no chunk of a log names this generation.  In the blocks behind the head an
 * old block cannot be told from a damaged one.
 */
static bool interrupted(struct kv *kv, u32 copy, int *err)
{
	struct bands_head *h = aligned_alloc(BLOCK_BYTES, sizeof(*h));
	u64 g = kv->bandtable.generation;
	bool is = false;

	if (!h) {
		*err = kv_no_memory();
		return false;
	}
	*err = read_some(kv, slot_offset(kv, g, copy), h, sizeof(*h));
	if (!*err && is_head(kv, h))
		is = (kv->opt.flags & KV_READ_ONLY) && kv->recovery.generation < g &&
			(le64_to_cpu(h->generation) == g || le64_to_cpu(h->generation) + 2 == g);
	free(h);
	return is;
}

/**
 * bandtable_copies() - are both copies of the current generation whole?
 * @kv: the store
 * @report: called for a copy that is not whole: with -EUCLEAN, with the error of the read, or with
 *	0 if it is no damage; NULL: write the generation again instead
 * @ctx: for @report
 *
 * A power cut during a commit may leave a copy that is not whole.  Even two whole copies may not be
 * durable, if the program that wrote them was killed before the flush.  Until they are durable,
 * only bands that the generation before says are free are free.
 *
 * Return: 0 or -errno.
 */
int bandtable_copies(struct kv *kv, void (*report)(void *ctx, const char *text, int err),
		     void *ctx)
{
	bool whole[COPIES], any_bad = false, damaged;
	struct bands_head *h;
	char text[160];
	int err = 0;
	u32 i;

	for (i = 0; i < COPIES && err != -ENOMEM; i++) {
		h = read_copy(kv, slot_offset(kv, kv->bandtable.generation, i), &err);
		whole[i] = h && le64_to_cpu(h->generation) == kv->bandtable.generation;
		free(h);
		any_bad |= !whole[i];
		if (!report || whole[i])
			continue;
		damaged = err || !interrupted(kv, i, &err);
		if (err && err != -ENOMEM) {
			report(ctx, kv_error(), err);
		} else if (!err) {
			snprintf(text, sizeof(text), "band table: copy %u of %u is %s", i + 1, COPIES,
				 damaged ? "damaged" :
				 "as an interrupted commit leaves it; the next open for writing repairs it");
			report(ctx, text, damaged ? -EUCLEAN : 0);
		}
	}
	if (err == -ENOMEM || report)
		return err == -ENOMEM ? err : 0;
	err = 0;
	if (any_bad)
		err = bandtable_write(kv, kv->current.version, kv->bandtable.logs,
				      kv->bandtable.nr_logs, kv->bandtable.generation, false);
	return err ?: store_flush(kv);
}

static bool became_table(const struct change *c, const struct log_band *log)
{
	u32 i;

	for (i = 0; i < c->adds && c->add[i]->table->id != log->id; i++)
		;
	return i < c->adds;
}

/* Make the version that is now on the disk the current one; the caller holds the lock. */
static void install(struct kv *kv, const struct change *c, struct version *v,
		    const struct log_band *logs, u32 nr_logs)
{
	u32 i, j;

	for (i = 0; i < kv->bandtable.nr_logs; i++) {
		for (j = 0; j < nr_logs && logs[j].id != kv->bandtable.logs[i].id; j++)
			;
		/* A log that has become a table keeps its band and its id. */
		if (j == nr_logs && !became_table(c, &kv->bandtable.logs[i]))
			band_retire(kv, kv->bandtable.logs[i].band);
	}
	/*
	 * If the table of a removed part stays, it is added again as another part; that part holds
	 * a reference, and the table lives until that one goes.
	 */
	for (i = 0; i < c->removes; i++)
		c->remove[i]->table->dead = true;
	memcpy(kv->bandtable.logs, logs, nr_logs * sizeof(*logs));
	kv->bandtable.nr_logs = nr_logs;
	kv->current.version = v;
	__atomic_store_n(&kv->bandtable.generation, kv->bandtable.generation + 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&kv->changed);
}

/**
 * commit() - change the band table so that a power cut leaves the old or the new one
 * @kv: the store
 * @c: the change
 *
 * The contents of the new bands are made durable first, unless they are durable already.  After a
 * failed write or flush it is unknown which band table the disk has.  The store is broken then, and
 * the bands of neither band table are written again.
 *
 * Return: 0; -ENOMEM or -EOVERFLOW if nothing has changed; or another -errno if the store is
 * broken.
 */
int commit(struct kv *kv, const struct change *c)
{
	struct log_band logs[MAX_LOG_BANDS + 1];
	struct version *v, *old;
	u32 i, n = 0;
	int err;

	pthread_mutex_lock(&kv->committing);
	old = kv->current.version;
	for (i = 0; i < kv->bandtable.nr_logs; i++) {
		if (kv->bandtable.logs[i].memtable <= c->memtable)
			continue;
		logs[n] = kv->bandtable.logs[i];
		if (c->seal && c->seal->id == logs[n].id)
			logs[n].bytes = c->seal->bytes;
		n++;
	}
	if (c->log)
		logs[n++] = *c->log;
	WARN_ON(n > MAX_LOG_BANDS);
	v = version_changed(old, c->remove, c->removes, c->add, c->adds);
	err = v ? store_broken(kv) : kv_no_memory();
	/* A reader would reject such a band table, or take it for an older one. */
	if (!err && (numbers_end(__atomic_load_n(&kv->next.id, __ATOMIC_RELAXED),
				 __atomic_load_n(&kv->next.age, __ATOMIC_RELAXED),
				 kv->bandtable.generation + 1) ||
		     (c->log && c->log->memtable > NUMBERS_END)))
		err = kv_says(-EOVERFLOW, "%s has used all its sequence numbers", kv->disk->name);
	if (!err && !c->durable)
		err = store_flush(kv);
	if (!err)
		err = bandtable_write(kv, v, logs, n, kv->bandtable.generation + 1, false);
	if (!err)
		err = store_flush(kv);
	if (!err) {
		pthread_mutex_lock(&kv->lock);
		install(kv, c, v, logs, n);
		pthread_mutex_unlock(&kv->lock);
	}
	pthread_mutex_unlock(&kv->committing);
	version_put(kv, err ? v : old);
	return err;
}
