// SPDX-License-Identifier: GPL-2.0
/* The log: chunks of batches one behind the other, each written once. */
#include <sched.h>
#include <unistd.h>

#include "batch.h"
#include "memtable.h"
#include "table.h"

/* How long a sync waits for memory to commit a band. */
#define PATIENCE_MS	1000U
#define PREPARE_FIRST	(64U << 10)
#define PREPARE_MOST	(1U << 20)
#define HEAD	((u32)sizeof(struct chunk_head))

/**
 * chunk_crc() - the checksum of a chunk of a log
 * @kv: the store
 * @h: the chunk; the checksum field counts as 0 and is unchanged afterwards
 * @bytes: size of its batches
 *
 * Return: The checksum.
 */
u32 chunk_crc(const struct kv *kv, struct chunk_head *h, u32 bytes)
{
	__le32 was = h->crc;
	u32 crc = crc32c(~0U, kv->head.uuid, sizeof(kv->head.uuid));

	h->crc = 0;
	crc = crc32c(crc, h, HEAD + bytes);
	h->crc = was;
	return crc;
}

static u32 chunk_bytes(u32 with_head)
{
	return round_up(with_head, BLOCK_BYTES);
}

int log_init(struct kv *kv)
{
	struct log *l = &kv->log;

	l->fill.room = kv->opt.log_buffer_bytes;
	l->spare.room = l->fill.room;
	l->fill.data = aligned_alloc(BLOCK_BYTES, l->fill.room);
	l->spare.data = aligned_alloc(BLOCK_BYTES, l->spare.room);
	l->fill.used = HEAD;
	l->spare.used = HEAD;
	return l->fill.data && l->spare.data ? 0 : kv_no_memory();
}

void log_destroy(struct kv *kv)
{
	free(kv->log.fill.data);
	free(kv->log.spare.data);
}

/* Commit the band that is written, and seal the one before it; the caller holds @io. */
static int enter_band(struct kv *kv)
{
	struct log *l = &kv->log;
	/* The band is added as a log even if it will become a table later. */
	struct change c = { .log = &l->band, .seal = l->full.id ? &l->full : NULL };
	int err;

	pthread_mutex_lock(&l->lock);
	c.durable = l->synced >= l->before;
	pthread_mutex_unlock(&l->lock);
	err = commit(kv, &c) ?: band_lead_in(kv, l->band.band);
	if (err)
		return err;
	pthread_mutex_lock(&l->lock);
	l->pending = false;
	/* The commit has flushed. */
	l->synced = max(l->synced, l->before);
	pthread_cond_broadcast(&l->turn[0]);
	pthread_cond_broadcast(&l->turn[1]);
	pthread_mutex_unlock(&l->lock);
	return 0;
}

static bool is_pending(struct log *l)
{
	bool pending;

	pthread_mutex_lock(&l->lock);
	pending = l->pending;
	pthread_mutex_unlock(&l->lock);
	return pending;
}

/**
 * log_enter_band() - commit the log band that was begun last, unless this has been done
 * @kv: the store
 *
 * The first write to the band would commit it as well, but would have to wait for that.
 *
 * Return: 0 or -errno.
 */
int log_enter_band(struct kv *kv)
{
	int err = 0;

	if (!is_pending(&kv->log))
		return 0;
	pthread_mutex_lock(&kv->log.io);
	if (is_pending(&kv->log))
		err = enter_band(kv);
	pthread_mutex_unlock(&kv->log.io);
	return err;
}

/*
 * Tell the disk about the next bytes of the band if syncs seem to follow each other, in pieces that
 * grow.  The caller holds @io.
 */
static void prepare(struct kv *kv, struct kv_disk *disk, u32 at, u32 bytes)
{
	struct log *l = &kv->log;
	u32 n = min(clamp(at, PREPARE_FIRST, PREPARE_MOST), l->end - at);

	if (!disk->ops->prepare || streams(kv) || at + bytes <= l->prepared || bytes >= n)
		return;
	disk->ops->prepare(disk, band_offset(kv, l->band.band) + at, n);
	l->prepared = at + n;
}

/*
 * Write the buffer; the caller holds @io.  @batches and @chunks: number of batches and chunks that
 * are written then.  With @leads the caller flushes afterwards for all threads that wait for these
 * batches.
 */
static int push(struct kv *kv, bool leads, u64 *batches, u64 *chunks)
{
	struct log *l = &kv->log;
	struct chunk_head *h;
	struct kv_disk *disk;
	u32 bytes, size, at;
	u64 offset;
	int err;

	*batches = 0;
	*chunks = 0;
	pthread_mutex_lock(&l->lock);
	size = l->pending ? l->fill.used : HEAD;
	pthread_mutex_unlock(&l->lock);
	/* A flush of this band's disk alone would not make the previous band durable. */
	err = size != HEAD || (leads && is_pending(l)) ? enter_band(kv) : 0;
	if (err)
		return err;
	pthread_mutex_lock(&l->lock);
	if (leads) {
		l->covered = l->batches;
		l->included = l->asked;
		l->round++;
	}
	*batches = l->batches;
	*chunks = l->chunk;
	if (l->fill.used == HEAD) {
		pthread_mutex_unlock(&l->lock);
		return 0;
	}
	swap(l->fill, l->spare);
	l->fill.used = HEAD;
	bytes = l->spare.used - HEAD;
	size = chunk_bytes(l->spare.used);
	disk = band_disk(kv, l->band.band);
	offset = band_offset(kv, l->band.band) + l->at;
	at = l->at;
	l->at += size;
	*chunks = ++l->chunk;
	pthread_mutex_unlock(&l->lock);

	if (leads)
		prepare(kv, disk, at, size);

	h = (struct chunk_head *)l->spare.data;
	memset(l->spare.data + l->spare.used, 0, size - l->spare.used);
	*h = (struct chunk_head){
		.magic = cpu_to_le64(LOG_MAGIC),
		.bytes = cpu_to_le32(bytes),
		.id = cpu_to_le64(l->band.id),
		.number = cpu_to_le64(*chunks - 1),
		.synced = cpu_to_le64(l->chunk_synced),
		.generation = cpu_to_le64(__atomic_load_n(&kv->generation, __ATOMIC_RELAXED)),
	};
	h->crc = cpu_to_le32(chunk_crc(kv, h, bytes));
	err = store_write(kv, disk, offset, h, size);
	count(&kv->stats.log_bytes, size);
	return err;
}

/**
 * log_push() - write the buffer, when nothing more goes to the log of this memtable
 * @kv: the store; the caller holds @writer
 *
 * Return: 0 or -errno.
 */
int log_push(struct kv *kv)
{
	u64 batches, chunks;
	int err;

	pthread_mutex_lock(&kv->log.io);
	err = push(kv, false, &batches, &chunks);
	pthread_mutex_unlock(&kv->log.io);
	return err;
}

/**
 * log_seal() - store the length of the last log band in the band table, before the store is closed
 * @kv: the store, which no other thread uses; its writes are synced
 *
 * From then on a chunk of the band that is not whole is damage: a power cut cannot have torn it.
 *
 * Return: 0 or -errno.
 */
int log_seal(struct kv *kv)
{
	struct log_band last = kv->log.band;
	struct change c = { .seal = &last };
	int err = log_enter_band(kv);
	u32 i;

	if (err)
		return err;
	last.bytes = kv->log.at;
	for (i = 0; i < kv->nr_logs && last.bytes; i++) {
		if (kv->logs[i].id == last.id && !kv->logs[i].bytes)
			return commit(kv, &c);
	}
	return 0;
}

/* Fill the band that is written, as nothing more goes to it; the caller holds @io. */
static int end_band(struct kv *kv)
{
	struct log *l = &kv->log;
	int err;

	if (!streams(kv) || !l->has_band || l->at == l->end)
		return 0;
	err = band_fill_up(kv, l->band.band, l->at);
	pthread_mutex_lock(&l->lock);
	l->end = l->at;
	pthread_mutex_unlock(&l->lock);
	return err;
}

/**
 * log_end_band() - KV_STREAM: end the log band, as another band will be written next
 * @kv: the store; the caller holds @writer, so no other thread relies on room in the band
 *
 * Return: 0 or -errno.
 */
int log_end_band(struct kv *kv)
{
	u64 batches, chunks;
	int err;

	if (!streams(kv))
		return 0;
	pthread_mutex_lock(&kv->log.io);
	err = push(kv, false, &batches, &chunks) ?: end_band(kv);
	pthread_mutex_unlock(&kv->log.io);
	return err;
}

/* Bytes that are written behind the last chunk to make the log a table, if the batch is added. */
static u32 tail_bytes(const struct kv *kv, const struct kv_batch *b)
{
	const struct memtable *m = kv->mem;

	return kv->head.organisation != KV_BUFFERED ? 0 :
		table_tail((u64)m->entries + b->entries, m->key_bytes + b->key_bytes);
}

/**
 * log_take_unit() - take the band of this memtable's log, if it can become a table as it is
 * @kv: the store; the caller holds @writer, and the buffer is empty
 * @unit: result; the log has no band afterwards
 *
 * Return: False if there is no band, or no room behind what was written; nothing is taken then.
 */
bool log_take_unit(struct kv *kv, struct log_band *unit)
{
	struct kv_batch none = { .entries = 0 };
	struct log *l = &kv->log;
	bool can;

	pthread_mutex_lock(&l->lock);
	can = kv->head.organisation == KV_BUFFERED && l->has_band && !l->pending &&
		l->band.memtable == kv->mem->number && l->end - l->at >= tail_bytes(kv, &none);
	if (can) {
		*unit = l->band;
		unit->bytes = l->at;
		l->has_band = false;
	}
	pthread_mutex_unlock(&l->lock);
	return can;
}

/*
 * Writes are offloaded only while a merge runs.  With KV_STREAM no merge runs while others write.
 */
static bool offloads(const struct kv *kv)
{
	return kv->offload && !streams(kv) && __atomic_load_n(&kv->merging, __ATOMIC_RELAXED);
}

/**
 * log_next_band() - begin a new log band
 * @kv: the store; the caller holds @writer
 * @reserve: see band_take()
 *
 * Everything that is added from now on goes to the new band.  It enters the band table at the
 * latest when something is to be written to it.
 *
 * Return: 0; -ENOSPC without a message; or another -errno.
 */
int log_next_band(struct kv *kv, u32 reserve)
{
	struct log *l = &kv->log;
	struct log_band b = { .memtable = kv->mem->number };
	u64 batches, chunks;
	int err;

	pthread_mutex_lock(&l->io);
	err = push(kv, false, &batches, &chunks) ?: end_band(kv);
	if (err)
		goto out;
	err = offloads(kv) ? band_take_spare(kv, reserve, &b.band) : -ENOSPC;
	if (err)
		err = band_take(kv, reserve, &b.band);
	if (err)
		goto out;
	b.id = __atomic_fetch_add(&kv->next_id, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&l->lock);
	l->full = l->band;
	l->full.bytes = l->at;
	l->before = batches;
	l->bands = l->has_band && l->band.memtable == b.memtable ? l->bands + 1 : 1;
	l->band = b;
	l->has_band = true;
	l->pending = true;
	l->at = 0;
	l->end = kv->head.band_bytes;
	l->prepared = 0;
	l->chunk = 0;
	l->chunk_synced = 0;
	pthread_mutex_unlock(&l->lock);
out:
	pthread_mutex_unlock(&l->io);
	return err;
}

/**
 * log_room() - make room for a batch
 * @kv: the store; the caller holds @writer
 * @b: the batch
 * @reserve: see band_take()
 *
 * The buffer always fits into the band as one chunk.  This also holds if a sync of another thread
 * writes the buffer before the batch is added: then the batch becomes a chunk of its own, in the
 * other buffer.
 *
 * Return: 0; -EAGAIN if this memtable has its most log bands; -ENOSPC without a message; or another
 * -errno.
 */
int log_room(struct kv *kv, const struct kv_batch *b, u32 reserve)
{
	u32 need = (u32)(sizeof(struct batch_head) + b->buf.used), room, size;
	u32 tail = tail_bytes(kv, b);
	struct log *l = &kv->log;
	bool ours, fits;
	u8 *data;
	int err;

	pthread_mutex_lock(&l->lock);
	ours = l->has_band && l->band.memtable == kv->mem->number;
	/* The other buffer may have the initial size only. */
	fits = (l->fill.used + need <= l->fill.room && HEAD + need <= kv->opt.log_buffer_bytes) ||
	       l->fill.used == HEAD;
	pthread_mutex_unlock(&l->lock);
	if (!fits) {
		err = log_push(kv);
		if (err)
			return err;
	}
	pthread_mutex_lock(&l->lock);
	size = l->fill.used == HEAD ? 0 : chunk_bytes(l->fill.used);
	fits = ours && size + chunk_bytes(HEAD + need) + tail <= l->end - l->at;
	pthread_mutex_unlock(&l->lock);
	if (!fits) {
		/* A log that becomes a table has one band. */
		if (ours && l->bands >= (kv->head.organisation == KV_BUFFERED ? 1 : LOG_BANDS))
			return -EAGAIN;
		err = log_next_band(kv, reserve);
		if (err)
			return err;
	}
	/*
	 * The background thread commits the band while writes go on.  Without the thread the write
	 * does so here, and not a sync.
	 */
	err = kv->has_thread ? 0 : log_enter_band(kv);
	if (err)
		return err;
	/* Only a batch that is larger than the buffer, which is empty then, needs more memory. */
	room = chunk_bytes(HEAD + need);
	pthread_mutex_lock(&l->lock);
	fits = room <= l->fill.room;
	pthread_mutex_unlock(&l->lock);
	if (fits)
		return 0;
	data = aligned_alloc(BLOCK_BYTES, room);
	if (!data)
		return kv_no_memory();
	pthread_mutex_lock(&l->lock);
	swap(l->fill.data, data);
	memcpy(l->fill.data, data, min(l->fill.used, room));
	l->fill.room = room;
	pthread_mutex_unlock(&l->lock);
	free(data);
	return 0;
}

/**
 * log_add() - add a batch for which log_room() has made room
 * @kv: the store; the caller holds @writer
 * @batch: the batch
 * @seq: number of its first write
 * @place: result: offset of its first write in the band
 *
 * Return: The number of the batch, for log_sync().
 */
u64 log_add(struct kv *kv, const struct kv_batch *batch, u64 seq, u32 *place)
{
	struct batch_head h = { .entries = cpu_to_le32(batch->entries),
				.bytes = cpu_to_le32((u32)batch->buf.used) };
	struct log *l = &kv->log;
	struct entry e;
	size_t at = 0;
	u64 number;

	pthread_mutex_lock(&l->lock);
	memcpy(l->fill.data + l->fill.used, &h, sizeof(h));
	l->fill.used += (u32)sizeof(h);
	*place = l->at + l->fill.used;
	while (at < batch->buf.used &&
	       !entry_decode(batch->buf.data + at, (u32)(batch->buf.used - at), &e)) {
		at += entry_bytes(&e);
		e.seq += seq;
		l->fill.used += entry_encode(&e, l->fill.data + l->fill.used);
	}
	number = ++l->batches;
	pthread_mutex_unlock(&l->lock);
	return number;
}

/*
 * The threads that the last flush served are likely to sync again at once.  If the next flush
 * includes them, it serves twice as many.  Waiting for them takes at most an eighth of the time of
 * the last flush.
 */
static void gather(struct log *l)
{
	u64 began = now_us();
	bool all;

	for (;;) {
		pthread_mutex_lock(&l->lock);
		all = l->asked - l->answered >= l->together ||
			now_us() - began >= l->flush_us / 8;
		pthread_mutex_unlock(&l->lock);
		if (all)
			return;
		sched_yield();
	}
}

/* Write and flush what all threads have added until now.  Only one thread does so at a time. */
static int lead(struct kv *kv)
{
	struct log *l = &kv->log;
	u32 tries = PATIENCE_MS;
	u64 batches, chunks, began;
	int err;

	gather(l);
	pthread_mutex_lock(&l->io);
	/* Batches in earlier bands are durable since this band was committed. */
	while ((err = push(kv, true, &batches, &chunks)) == -ENOMEM && tries--)
		usleep(1000);
	began = now_us();
	if (!err) {
		err = store_flush_disk(kv, band_disk(kv, l->band.band));
	} else if (!store_broken(kv)) {
		/* Readers see the writes already: they can no longer be refused. */
		store_break(kv, err, kv_error());
		err = store_broken(kv);
	}
	if (!err) {
		pthread_mutex_lock(&l->lock);
		l->synced = batches;
		l->chunk_synced = chunks;
		l->together = l->asked - l->answered;
		l->answered = l->included;
		l->flush_us = now_us() - began;
		pthread_mutex_unlock(&l->lock);
	}
	pthread_mutex_unlock(&l->io);
	return err;
}

/**
 * log_sync() - make batches durable
 * @kv: the store
 * @number: number of the last of the batches
 *
 * One thread, the leader, writes and flushes what all threads have added; the others wait.  Threads
 * that come during the flush share the next flush, and one of them leads it.  So a thread waits at
 * most for the rest of one flush and for one whole flush.
 *
 * Return: 0 or -errno.
 */
int log_sync(struct kv *kv, u64 number)
{
	struct log *l = &kv->log;
	int err = 0;

	pthread_mutex_lock(&l->lock);
	l->asked += l->synced < number;
	while (l->synced < number && l->leading && !store_broken(kv))
		pthread_cond_wait(&l->turn[(l->round + (number > l->covered)) % 2], &l->lock);
	if (l->synced < number) {
		err = store_broken(kv);
		if (!err) {
			l->leading = true;
			pthread_mutex_unlock(&l->lock);
			err = lead(kv);
			pthread_mutex_lock(&l->lock);
			l->leading = false;
			pthread_cond_broadcast(&l->turn[l->round % 2]);
		}
		/*
		 * Wake the next leader; after an error wake all, as nothing will be flushed any
		 * more.
		 */
		(err ? pthread_cond_broadcast : pthread_cond_signal)(&l->turn[(l->round + 1) % 2]);
	}
	pthread_mutex_unlock(&l->lock);
	return err;
}

/**
 * struct replay - a log band that is read back
 * @kv: the store
 * @b: the band
 * @end: end of the bytes that it may hold
 * @buf: the chunk
 * @room: size of @buf
 */
struct replay {
	struct kv *kv;
	const struct log_band *b;
	u32 end;
	u8 *buf;
	u32 room;
};

/* Return: 0 if @buf has a whole chunk of this log; -EUCLEAN if there is none; or another -errno. */
static int read_chunk(struct replay *r, u32 at)
{
	u64 offset = band_offset(r->kv, r->b->band) + at;
	struct kv_disk *d = band_disk(r->kv, r->b->band);
	struct chunk_head *h = (struct chunk_head *)r->buf;
	u32 bytes, size;
	u8 *larger;
	int err;

	err = d->ops->read(d, offset, r->buf, BLOCK_BYTES);
	if (err)
		return err;
	count(&r->kv->stats.read_bytes, BLOCK_BYTES);
	bytes = le32_to_cpu(h->bytes);
	if (le64_to_cpu(h->magic) != LOG_MAGIC || le64_to_cpu(h->id) != r->b->id ||
	    bytes > r->end - at || HEAD + bytes > r->end - at)
		return -EUCLEAN;
	size = chunk_bytes(HEAD + bytes);
	if (size > r->room) {
		larger = aligned_alloc(BLOCK_BYTES, size);
		if (!larger)
			return kv_no_memory();
		memcpy(larger, r->buf, BLOCK_BYTES);
		free(r->buf);
		r->buf = larger;
		r->room = size;
		h = (struct chunk_head *)r->buf;
	}
	if (size > BLOCK_BYTES) {
		err = d->ops->read(d, offset + BLOCK_BYTES, r->buf + BLOCK_BYTES,
				   size - BLOCK_BYTES);
		if (err)
			return err;
		count(&r->kv->stats.read_bytes, size - BLOCK_BYTES);
	}
	return chunk_crc(r->kv, h, bytes) == le32_to_cpu(h->crc) ? 0 : -EUCLEAN;
}

/*
 * Add the batches of a chunk to a memtable.  The checksum was right, but the contents are verified
 * all the same.
 */
static int take_chunk(struct replay *r, struct memtable *m, u64 *next_seq)
{
	struct chunk_head *h = (struct chunk_head *)r->buf;
	u32 at = HEAD, end = HEAD + le32_to_cpu(h->bytes), i, n, bytes, part;
	struct batch_head b;
	struct entry e;
	int err;

	while (at < end) {
		if (end - at < sizeof(b))
			return -EUCLEAN;
		memcpy(&b, r->buf + at, sizeof(b));
		at += (u32)sizeof(b);
		n = le32_to_cpu(b.entries);
		bytes = le32_to_cpu(b.bytes);
		if (bytes > end - at)
			return -EUCLEAN;
		for (i = 0, part = 0; i < n; i++, part += entry_bytes(&e)) {
			if (entry_decode(r->buf + at + part, bytes - part, &e) ||
			    e.seq < *next_seq || e.seq >= SEQ_END)
				return -EUCLEAN;
			*next_seq = e.seq + 1;
		}
		if (part != bytes)
			return -EUCLEAN;
		/* All of a batch or nothing: adding it needs no more memory. */
		err = memtable_prepare(m, slice(r->buf + at, bytes));
		if (err)
			return err;
		memtable_add(m, slice(r->buf + at, bytes), 0, 0);
		at += bytes;
	}
	return 0;
}

/*
 * Is there a chunk that was written after chunk @number had become durable?  A chunk that cannot be
 * read may be one: if no other chunk answers the question, the result is its error, and @unread_at.
 */
static int later(struct replay *r, u32 at, u64 number, bool *found, u32 *unread_at)
{
	struct chunk_head *h;
	int err, unread = 0;

	for (; at < r->end && !*found; at += BLOCK_BYTES) {
		err = read_chunk(r, at);
		h = (struct chunk_head *)r->buf;
		if (err == -ENOMEM)
			return err;
		if (!err)
			*found = le64_to_cpu(h->number) > number &&
				le64_to_cpu(h->synced) > number;
		if (err && err != -EUCLEAN && !unread) {
			unread = err;
			*unread_at = at;
		}
	}
	return *found ? 0 : unread;
}

static int chunk_unread(const struct log_band *b, u32 at, int err)
{
	return kv_says(err, "log band %u (log %llu): byte %u cannot be read: %s", b->band, b->id,
		       at, strerror(-err));
}

/**
 * log_replay() - read a log band back
 * @kv: the store
 * @b: the band; if it was sealed, it must be whole
 * @m: memtable that gets its writes
 * @next_seq: larger than all numbers read so far; updated.  Not that of the band table, which may
 *	have been committed later
 * @lost: result: -EUCLEAN, with the message set, if durable writes are missing; the error of a read
 *	if they may be missing; else 0.  The rest is not read
 *
 * Chunks were written in order, but those that were not flushed may have reached the disk in any
 * order.  So the log ends before the first chunk that is not whole.  That chunk was torn by a power
 * cut, unless a later chunk says that it was durable.
 *
 * Return: 0 or -errno.
 */
int log_replay(struct kv *kv, const struct log_band *b, struct memtable *m, u64 *next_seq,
	       int *lost)
{
	struct replay r = { .kv = kv, .b = b, .end = b->bytes ?: kv->head.band_bytes,
			    .room = BLOCK_BYTES };
	struct chunk_head *h;
	u64 number = 0;
	bool found = false, written = false;
	u32 at = 0, unread_at = 0;
	int err = 0;

	r.buf = aligned_alloc(BLOCK_BYTES, r.room);
	if (!r.buf)
		return kv_no_memory();
	while (at < r.end) {
		err = read_chunk(&r, at);
		h = (struct chunk_head *)r.buf;
		if (!err && le64_to_cpu(h->number) != number)
			err = -EUCLEAN;
		if (!err && le64_to_cpu(h->generation) > kv->generation) {
			*lost = kv_says(-EUCLEAN, "the band table is older than log band %u: its newest generation is damaged",
				b->band);
		}
		if (!err) {
			kv->logged = max(kv->logged, le64_to_cpu(h->generation));
			err = take_chunk(&r, m, next_seq);
			/* A whole chunk with wrong contents is not the result of a power cut. */
			written = err == -EUCLEAN;
		}
		if (err)
			break;
		at += chunk_bytes(HEAD + le32_to_cpu(h->bytes));
		number++;
	}
	if (err == -EUCLEAN && (b->bytes || written)) {
		*lost = kv_says(err, "log band %u (log %llu): damaged at byte %u", b->band, b->id,
				at);
		err = 0;
	} else if (err == -EUCLEAN) {
		err = later(&r, at + BLOCK_BYTES, number, &found, &unread_at);
		if (found)
			*lost = kv_says(-EUCLEAN, "log band %u (log %llu): damaged at byte %u, and a later chunk says that it was synced",
					b->band, b->id, at);
		at = unread_at;
	}
	/* The data may have been durable, and the disk may be able to read them next time. */
	if (err && err != -ENOMEM) {
		*lost = chunk_unread(b, at, err);
		err = 0;
	}
	free(r.buf);
	return err;
}

/* Report that no whole chunk was found from @from to before @to. */
static void given_up(struct kv *kv, const struct log_band *b, u32 from, u32 to, int err)
{
	char text[200];

	snprintf(text, sizeof(text), "log band %u (log %llu): bytes %u to %u are given up: %s",
		 b->band, b->id, from, to - 1,
		 err == -EUCLEAN ? "there is no sound chunk" : strerror(-err));
	kv->repair->report(kv->repair->ctx, text);
}

/**
 * log_salvage() - read all whole chunks of a damaged log band
 * @kv: the store, which is being repaired
 * @b: the band
 * @m: memtable that gets its writes
 * @next_seq: larger than all numbers read so far; updated
 *
 * Behind a chunk that is not whole, the next chunk may begin at any block.
 *
 * Return: 0 or -errno.
 */
int log_salvage(struct kv *kv, const struct log_band *b, struct memtable *m, u64 *next_seq)
{
	struct replay r = { .kv = kv, .b = b, .end = b->bytes ?: kv->head.band_bytes,
			    .room = BLOCK_BYTES };
	struct chunk_head *h;
	u64 number = 0;
	u32 at = 0, bad = 0;
	int err = 0, why = 0;

	r.buf = aligned_alloc(BLOCK_BYTES, r.room);
	if (!r.buf)
		return kv_no_memory();
	while (at < r.end) {
		err = read_chunk(&r, at);
		h = (struct chunk_head *)r.buf;
		/* An earlier chunk is a copy inside the value of another chunk. */
		if (!err && le64_to_cpu(h->number) < number)
			err = -EUCLEAN;
		if (!err)
			err = take_chunk(&r, m, next_seq);
		if (err && err != -EUCLEAN && (err == -ENOMEM || !kv->repair->unreadable))
			break;
		if (err) {
			bad = why ? bad : at;
			why = why && why != -EUCLEAN ? why : err;
			at += BLOCK_BYTES;
			continue;
		}
		if (why)
			given_up(kv, b, bad, at, why);
		why = 0;
		number = le64_to_cpu(h->number) + 1;
		at += chunk_bytes(HEAD + le32_to_cpu(h->bytes));
	}
	if (err && err != -EUCLEAN && (err == -ENOMEM || !kv->repair->unreadable)) {
		if (err != -ENOMEM)
			chunk_unread(b, at, err);
	} else {
		/* The end of a log that was not sealed is unknown. */
		if (why && (b->bytes || why != -EUCLEAN))
			given_up(kv, b, bad, r.end, why);
		err = 0;
	}
	free(r.buf);
	return err;
}

/**
 * log_verify() - verify the chunks of a log that has become a table
 * @kv: the store
 * @t: the table
 * @bytes: size of the log in its band
 *
 * Return: 0 if all chunks are whole; or -errno with the message set.
 */
int log_verify(struct kv *kv, struct table *t, u32 bytes)
{
	struct log_band b = { .band = t->band, .bytes = bytes, .id = t->id };
	struct replay r = { .kv = kv, .b = &b, .end = bytes, .room = BLOCK_BYTES };
	struct chunk_head *h;
	u64 number = 0;
	u32 at = 0;
	int err = 0;

	r.buf = aligned_alloc(BLOCK_BYTES, r.room);
	if (!r.buf)
		return kv_no_memory();
	while (at < r.end && !err) {
		err = read_chunk(&r, at);
		h = (struct chunk_head *)r.buf;
		if (!err && le64_to_cpu(h->number) != number)
			err = -EUCLEAN;
		if (!err)
			at += chunk_bytes(HEAD + le32_to_cpu(h->bytes));
		number++;
	}
	free(r.buf);
	if (err == -EUCLEAN)
		return table_damaged(t, "no sound chunk at byte %u", at);
	return !err || err == -ENOMEM ? err :
		kv_says(err, "band %u (table %llu): byte %u cannot be read: %s", t->band, t->id,
			at, strerror(-err));
}
