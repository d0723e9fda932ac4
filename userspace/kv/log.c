// SPDX-License-Identifier: GPL-2.0
/*
 * The log: chunks of batches one behind the other, each written once.
 *
 * Writers add batches to the buffer @fill.  A full buffer becomes a chunk: it gets its place in the
 * band and goes to the end of @queue.  The log's thread writes the chunks in the order of the queue,
 * so a writer waits for the disk only if the queue is full.  A caller that needs chunks on the disk,
 * as a sync does, writes those that the thread has not written yet.  A store without threads writes
 * each chunk at once.
 */
#include <sched.h>
#include <unistd.h>

#include "entry.h"
#include "log.h"
#include "memtable.h"
#include "table.h"

/* How long a sync waits for memory to commit a band. */
#define PATIENCE_MS	1000U
#define RETRY_US	10000U
#define PREPARE_FIRST	(64U << 10)
#define PREPARE_MOST	(1U << 20)

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

int log_init(struct kv *kv)
{
	struct log *l = &kv->log;
	bool all;
	u32 i;

	l->fill = (struct log_buffer){ .room = kv->opt.log_buffer_bytes, .used = HEAD };
	l->fill.data = aligned_alloc(BLOCK_BYTES, l->fill.room);
	all = l->fill.data;
	for (i = 0; i < LOG_QUEUE; i++) {
		l->queue.chunk[i].buffer.room = kv->opt.log_buffer_bytes;
		l->queue.chunk[i].buffer.data = aligned_alloc(BLOCK_BYTES,
							      l->queue.chunk[i].buffer.room);
		all = all && l->queue.chunk[i].buffer.data;
	}
	return all ? 0 : kv_no_memory();
}

void log_destroy(struct kv *kv)
{
	u32 i;

	free(kv->log.fill.data);
	for (i = 0; i < LOG_QUEUE; i++)
		free(kv->log.queue.chunk[i].buffer.data);
}

static bool is_pending(struct log *l)
{
	bool pending;

	pthread_mutex_lock(&l->lock);
	pending = l->pending.begun != l->pending.entered;
	pthread_mutex_unlock(&l->lock);
	return pending;
}

/* Return: the band that enters the band table next, if one is pending; the caller holds @io. */
static struct log_pending *next_pending(struct log *l)
{
	return &l->pending.band[l->pending.entered % LOG_PENDING];
}

/* Return: the chunk that is written next, if there is one; the caller holds @io. */
static struct log_chunk *next_chunk(struct log *l)
{
	return &l->queue.chunk[l->queue.written % LOG_QUEUE];
}

static bool has_chunk(struct log *l)
{
	bool has;

	pthread_mutex_lock(&l->lock);
	has = l->queue.written != l->queue.added;
	pthread_mutex_unlock(&l->lock);
	return has;
}

/* Return: whether the next chunk belongs to a band with a smaller id; the caller holds @io. */
static bool chunk_before(struct log *l, u64 id)
{
	return has_chunk(l) && next_chunk(l)->band.id < id;
}

static int write_chunk(struct kv *kv, const struct log_chunk *c)
{
	u32 bytes = c->buffer.used - HEAD, size = chunk_bytes(c->buffer.used);
	struct chunk_head *h = (struct chunk_head *)c->buffer.data;
	int err;

	memset(c->buffer.data + c->buffer.used, 0, size - c->buffer.used);
	*h = (struct chunk_head){
		.magic = cpu_to_le64(LOG_MAGIC),
		.bytes = cpu_to_le32(bytes),
		.id = cpu_to_le64(c->band.id),
		.number = cpu_to_le64(c->number),
		.synced = cpu_to_le64(c->synced),
		.generation = cpu_to_le64(__atomic_load_n(&kv->bandtable.generation,
							  __ATOMIC_RELAXED)),
	};
	h->crc = cpu_to_le32(chunk_crc(kv, h, bytes));
	err = store_write(kv, band_disk(kv, c->band.band), band_offset(kv, c->band.band) + c->at,
			  h, size);
	count(&kv->stats.log_bytes, size);
	return err;
}

/* Give the memory of a large batch back. */
static void shrink(struct kv *kv, struct log_buffer *b)
{
	u8 *data;

	if (b->room <= kv->opt.log_buffer_bytes)
		return;
	data = aligned_alloc(BLOCK_BYTES, kv->opt.log_buffer_bytes);
	if (!data)
		return;
	free(b->data);
	*b = (struct log_buffer){ .data = data, .room = kv->opt.log_buffer_bytes };
}

/* The next chunk need not be written any more; the caller holds @io. */
static void done(struct kv *kv)
{
	struct log *l = &kv->log;

	shrink(kv, &next_chunk(l)->buffer);
	pthread_mutex_lock(&l->lock);
	l->queue.written++;
	pthread_mutex_unlock(&l->lock);
}

/* Write the next chunk, after its band was entered in the band table; the caller holds @io. */
static int write_entered(struct kv *kv)
{
	int err = write_chunk(kv, next_chunk(&kv->log));

	if (!err)
		done(kv);
	return err;
}

/*
 * Write what is left of the bands before, commit the next pending band, and seal the one before it.
 * The caller holds @io, and a band is pending.
 */
static int enter_band(struct kv *kv)
{
	struct log *l = &kv->log;
	struct log_pending *p = next_pending(l);
	/* The band is added as a log even if it will become a table later. */
	struct change c = { .log = &p->band, .seal = p->full.id ? &p->full : NULL };
	int err = 0;

	while (!err && chunk_before(l, p->band.id))
		err = write_entered(kv);
	if (err)
		return err;
	pthread_mutex_lock(&l->lock);
	c.durable = l->sync.synced >= p->before;
	pthread_mutex_unlock(&l->lock);
	if (!p->clean)
		band_discard(kv, p->band.band);
	p->clean = true;
	err = commit(kv, &c) ?: band_lead_in(kv, p->band.band);
	if (err)
		return err;
	pthread_mutex_lock(&l->lock);
	l->pending.entered++;
	/* The commit has flushed. */
	l->sync.synced = max(l->sync.synced, p->before);
	pthread_cond_broadcast(&l->sync.turn[0]);
	pthread_cond_broadcast(&l->sync.turn[1]);
	pthread_mutex_unlock(&l->lock);
	return 0;
}

/**
 * log_enter_bands() - commit the log bands that were begun
 * @kv: the store
 *
 * The first write to a band would commit it as well, but would have to wait for that.
 *
 * Return: 0 or -errno.
 */
int log_enter_bands(struct kv *kv)
{
	struct log *l = &kv->log;
	int err = 0;

	if (!is_pending(l))
		return 0;
	pthread_mutex_lock(&l->io);
	while (!err && is_pending(l))
		err = enter_band(kv);
	pthread_mutex_unlock(&l->io);
	return err;
}

/* Write the next chunk; the caller holds @io, and there is one. */
static int write_next(struct kv *kv)
{
	struct log *l = &kv->log;
	int err = 0;

	while (!err && is_pending(l) && next_pending(l)->band.id <= next_chunk(l)->band.id)
		err = enter_band(kv);
	return err ?: write_entered(kv);
}

/*
 * Make a chunk of the buffer, if it holds anything.  The caller holds @lock.  Return: False if the
 * queue is full.
 */
static bool queue_buffer(struct log *l)
{
	struct log_chunk *c = &l->queue.chunk[l->queue.added % LOG_QUEUE];

	if (l->fill.used == HEAD)
		return true;
	if (l->queue.added - l->queue.written == LOG_QUEUE)
		return false;
	swap(l->fill, c->buffer);
	l->fill.used = HEAD;
	c->band = l->open.band;
	c->at = l->open.at;
	c->number = l->open.chunk++;
	c->synced = l->open.chunk_synced;
	l->open.at += chunk_bytes(c->buffer.used);
	l->queue.added++;
	return true;
}

/*
 * Tell the disk about the next bytes of the band if syncs seem to follow each other, in pieces that
 * grow.  The caller holds @io, and there is a chunk to be written.
 */
static void prepare(struct kv *kv)
{
	struct log *l = &kv->log;
	const struct log_chunk *c = next_chunk(l);
	struct kv_disk *disk = band_disk(kv, c->band.band);
	u32 n = min(clamp(c->at, PREPARE_FIRST, PREPARE_MOST), kv->head.band_bytes - c->at);
	u32 bytes = chunk_bytes(c->buffer.used);

	if (l->open.prepared_id != c->band.id)
		l->open.prepared = 0;
	if (!disk->ops->prepare || streams(kv) || c->at + bytes <= l->open.prepared || bytes >= n)
		return;
	disk->ops->prepare(disk, band_offset(kv, c->band.band) + c->at, n);
	l->open.prepared_id = c->band.id;
	l->open.prepared = c->at + n;
}

/**
 * struct pushed - the state of the log at the moment of a push
 * @batches: number of batches ever added
 * @chunks: number of chunks of @band
 * @band: the band that was written then
 */
struct pushed {
	u64 batches, chunks;
	struct log_band band;
};

/*
 * Write all that has been added; the caller holds @io.  With @leads the caller flushes afterwards
 * for all threads that wait for these batches.
 */
static int push(struct kv *kv, bool leads, struct pushed *p)
{
	struct log *l = &kv->log;
	int err = 0;
	u64 last;

	pthread_mutex_lock(&l->lock);
	/* A flush of this band's disk alone would not make the previous band durable. */
	while (!err && ((leads && l->pending.begun != l->pending.entered) || !queue_buffer(l))) {
		pthread_mutex_unlock(&l->lock);
		err = leads && is_pending(l) ? enter_band(kv) : write_next(kv);
		pthread_mutex_lock(&l->lock);
	}
	if (leads && !err) {
		l->sync.covered = l->sync.batches;
		l->sync.included = l->sync.requested;
		l->sync.round++;
	}
	*p = (struct pushed){ .batches = l->sync.batches, .chunks = l->open.chunk,
			      .band = l->open.band };
	last = l->queue.added;
	pthread_mutex_unlock(&l->lock);
	if (leads && !err && l->queue.written < last)
		prepare(kv);
	while (!err && l->queue.written < last)
		err = write_next(kv);
	return err;
}

static int log_push(struct kv *kv)
{
	struct pushed p;
	int err;

	pthread_mutex_lock(&kv->log.io);
	err = push(kv, false, &p);
	pthread_mutex_unlock(&kv->log.io);
	return err;
}

/**
 * log_queue() - let the log's thread write the buffer
 * @kv: the store; the caller holds @writer
 *
 * Waits for the disk if the queue is full, or if the store has no threads.
 *
 * Return: 0 or -errno; the buffer is empty only after 0.
 */
int log_queue(struct kv *kv)
{
	struct log *l = &kv->log;
	bool queued;
	int err = 0;

	/* A log that becomes a table must be written when its memtable is frozen. */
	if (!kv->worker.running || kv->head.organisation == KV_BUFFERED)
		return log_push(kv);
	while (!err) {
		pthread_mutex_lock(&l->lock);
		queued = queue_buffer(l);
		pthread_cond_signal(&l->worker.work);
		pthread_mutex_unlock(&l->lock);
		if (queued)
			break;
		pthread_mutex_lock(&l->io);
		if (l->queue.added - l->queue.written == LOG_QUEUE)
			err = write_next(kv);
		pthread_mutex_unlock(&l->io);
	}
	return err;
}

/**
 * log_retire() - commit the tables of a memtable, and forget its log
 * @kv: the store
 * @c: the change, with the memtable's number
 *
 * Chunks of the memtable that are not written yet never will be, and its bands that are pending do
 * not enter the band table: the tables have the same writes.  The bands of the log are free then.
 *
 * Return: 0 or -errno.
 */
int log_retire(struct kv *kv, const struct change *c)
{
	struct log *l = &kv->log;
	int err;

	pthread_mutex_lock(&l->io);
	err = commit(kv, c);
	while (!err && has_chunk(l) && next_chunk(l)->band.memtable <= c->memtable)
		done(kv);
	pthread_mutex_lock(&l->lock);
	while (!err && l->pending.begun != l->pending.entered &&
	       next_pending(l)->band.memtable <= c->memtable) {
		band_give_back(kv, next_pending(l)->band.band);
		l->pending.entered++;
	}
	pthread_mutex_unlock(&l->lock);
	pthread_mutex_unlock(&l->io);
	return err;
}

/* The log's thread: writes chunks and commits bands, so that writers need not wait for the disk. */
void *log_thread(void *arg)
{
	struct kv *kv = arg;
	struct log *l = &kv->log;
	int err = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->worker.stop) {
		/*
		 * Without memory to commit a band the thread tries again.  A broken store stays
		 * broken, and its writers report it.
		 */
		if (err && store_broken(kv))
			pthread_cond_wait(&l->worker.work, &l->lock);
		else if (err)
			wait_us(&l->worker.work, &l->lock, RETRY_US);
		else if (l->pending.begun == l->pending.entered &&
			 l->queue.written == l->queue.added)
			pthread_cond_wait(&l->worker.work, &l->lock);
		pthread_mutex_unlock(&l->lock);
		pthread_mutex_lock(&l->io);
		err = has_chunk(l) ? write_next(kv) : is_pending(l) ? enter_band(kv) : 0;
		pthread_mutex_unlock(&l->io);
		pthread_mutex_lock(&l->lock);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* End log_thread(). */
void log_stop(struct kv *kv)
{
	pthread_mutex_lock(&kv->log.lock);
	kv->log.worker.stop = true;
	pthread_cond_signal(&kv->log.worker.work);
	pthread_mutex_unlock(&kv->log.lock);
	pthread_join(kv->log.worker.thread, NULL);
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
	struct log_band last = kv->log.open.band;
	struct change c = { .seal = &last };
	int err = log_enter_bands(kv);
	u32 i;

	if (err)
		return err;
	last.bytes = kv->log.open.at;
	for (i = 0; i < kv->bandtable.nr_logs && last.bytes; i++) {
		if (kv->bandtable.logs[i].id == last.id && !kv->bandtable.logs[i].bytes)
			return commit(kv, &c);
	}
	return 0;
}

/* Fill the band that is written, as nothing more goes to it; the caller holds @io. */
static int end_band(struct kv *kv)
{
	struct log *l = &kv->log;
	int err;

	if (!streams(kv) || !l->open.valid || l->open.at == l->open.end)
		return 0;
	err = band_fill_up(kv, l->open.band.band, l->open.at);
	pthread_mutex_lock(&l->lock);
	l->open.end = l->open.at;
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
	struct pushed p;
	int err;

	if (!streams(kv))
		return 0;
	pthread_mutex_lock(&kv->log.io);
	err = push(kv, false, &p) ?: end_band(kv);
	pthread_mutex_unlock(&kv->log.io);
	return err;
}

/* Bytes that are written behind the last chunk to make the log a table, if the batch is added. */
static u32 tail_bytes(const struct kv *kv, const struct kv_batch *b)
{
	const struct memtable *m = kv->current.mem;

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
	can = kv->head.organisation == KV_BUFFERED && l->open.valid &&
		l->pending.begun == l->pending.entered &&
		l->open.band.memtable == kv->current.mem->number &&
		l->open.end - l->open.at >= tail_bytes(kv, &none);
	if (can) {
		*unit = l->open.band;
		unit->bytes = l->open.at;
		l->open.valid = false;
	}
	pthread_mutex_unlock(&l->lock);
	return can;
}

/*
 * Writes are offloaded only while a merge runs.  With KV_STREAM no merge runs while others write.
 */
static bool offloads(const struct kv *kv)
{
	return kv->offload.disk && !streams(kv) &&
		__atomic_load_n(&kv->worker.merging, __ATOMIC_RELAXED);
}

static bool pending_full(struct log *l)
{
	bool full;

	pthread_mutex_lock(&l->lock);
	full = l->pending.begun - l->pending.entered == LOG_PENDING;
	pthread_mutex_unlock(&l->lock);
	return full;
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
	struct log_band b = { .memtable = kv->current.mem->number };
	struct log_pending *p;
	bool clean;
	int err = log_queue(kv) ?: log_end_band(kv);

	if (!err && pending_full(l)) {
		pthread_mutex_lock(&l->io);
		if (pending_full(l))
			err = enter_band(kv);
		pthread_mutex_unlock(&l->io);
	}
	if (err)
		return err;
	err = offloads(kv) ? band_take_spare(kv, reserve, &b.band, &clean) : -ENOSPC;
	if (err)
		err = band_take(kv, reserve, &b.band, &clean);
	if (err)
		return err;
	b.id = __atomic_fetch_add(&kv->next.id, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&l->lock);
	p = &l->pending.band[l->pending.begun++ % LOG_PENDING];
	*p = (struct log_pending){ .band = b, .full = l->open.band, .before = l->sync.batches,
				    .clean = clean };
	p->full.bytes = l->open.at;
	l->bands = l->open.valid && l->open.band.memtable == b.memtable ? l->bands + 1 : 1;
	l->open.band = b;
	l->open.valid = true;
	l->open.at = 0;
	l->open.end = kv->head.band_bytes;
	l->open.chunk = 0;
	l->open.chunk_synced = 0;
	pthread_cond_signal(&l->worker.work);
	pthread_mutex_unlock(&l->lock);
	return 0;
}

/**
 * log_room() - make room for a batch
 * @kv: the store; the caller holds @writer
 * @b: the batch
 * @reserve: see band_take()
 *
 * The buffer always fits into the band as one chunk.  This also holds if a sync of another thread
 * writes the buffer before the batch is added: then the batch becomes a chunk of its own, in
 * another buffer.
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
	ours = l->open.valid && l->open.band.memtable == kv->current.mem->number;
	/* Another buffer may have the initial size only. */
	fits = (l->fill.used + need <= l->fill.room && HEAD + need <= kv->opt.log_buffer_bytes) ||
	       l->fill.used == HEAD;
	pthread_mutex_unlock(&l->lock);
	if (!fits) {
		err = log_queue(kv);
		if (err)
			return err;
	}
	pthread_mutex_lock(&l->lock);
	size = l->fill.used == HEAD ? 0 : chunk_bytes(l->fill.used);
	fits = ours && size + chunk_bytes(HEAD + need) + tail <= l->open.end - l->open.at;
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
	 * The log's thread commits the band while writes go on.  Without the thread the write does
	 * so here, and not a sync.
	 */
	err = kv->worker.running ? 0 : log_enter_bands(kv);
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
	*place = l->open.at + l->fill.used;
	while (at < batch->buf.used &&
	       !entry_decode(batch->buf.data + at, (u32)(batch->buf.used - at), &e)) {
		at += entry_bytes(&e);
		e.seq += seq;
		l->fill.used += entry_encode(&e, l->fill.data + l->fill.used);
	}
	number = ++l->sync.batches;
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
		all = l->sync.requested - l->sync.answered >= l->sync.together ||
			now_us() - began >= l->sync.flush_us / 8;
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
	struct pushed p;
	u64 began;
	int err;

	gather(l);
	pthread_mutex_lock(&l->io);
	/* Batches in earlier bands are durable since this band was committed. */
	while ((err = push(kv, true, &p)) == -ENOMEM && tries--)
		usleep(1000);
	began = now_us();
	if (!err) {
		err = store_flush_disk(kv, band_disk(kv, p.band.band));
	} else if (!store_broken(kv)) {
		/* Readers see the writes already: they can no longer be refused. */
		store_break(kv, err, kv_error());
		err = store_broken(kv);
	}
	if (!err) {
		pthread_mutex_lock(&l->lock);
		l->sync.synced = max(l->sync.synced, p.batches);
		if (p.band.id == l->open.band.id)
			l->open.chunk_synced = p.chunks;
		l->sync.together = l->sync.requested - l->sync.answered;
		l->sync.answered = l->sync.included;
		l->sync.flush_us = now_us() - began;
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
	l->sync.requested += l->sync.synced < number;
	while (l->sync.synced < number && l->sync.leading && !store_broken(kv))
		pthread_cond_wait(&l->sync.turn[(l->sync.round + (number > l->sync.covered)) % 2],
				  &l->lock);
	if (l->sync.synced < number) {
		err = store_broken(kv);
		if (!err) {
			l->sync.leading = true;
			pthread_mutex_unlock(&l->lock);
			err = lead(kv);
			pthread_mutex_lock(&l->lock);
			l->sync.leading = false;
			pthread_cond_broadcast(&l->sync.turn[l->sync.round % 2]);
		}
		/*
		 * Wake the next leader; after an error wake all, as nothing will be flushed any
		 * more.
		 */
		(err ? pthread_cond_broadcast :
		 pthread_cond_signal)(&l->sync.turn[(l->sync.round + 1) % 2]);
	}
	pthread_mutex_unlock(&l->lock);
	return err;
}
