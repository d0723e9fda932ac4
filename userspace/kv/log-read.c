// SPDX-License-Identifier: GPL-2.0
/* Reading log bands back: when a store is opened, repaired or verified. */
#include "log.h"
#include "memtable.h"
#include "table.h"

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
		if (!err && le64_to_cpu(h->generation) > kv->bandtable.generation) {
			*lost = kv_says(-EUCLEAN, "the band table is older than log band %u: its newest generation is damaged",
				b->band);
		}
		if (!err) {
			kv->recovery.generation = max(kv->recovery.generation,
						      le64_to_cpu(h->generation));
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
	kv->recovery.repair->report(kv->recovery.repair->ctx, text);
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
		if (err && err != -EUCLEAN && (err == -ENOMEM || !kv->recovery.repair->unreadable))
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
	if (err && err != -EUCLEAN && (err == -ENOMEM || !kv->recovery.repair->unreadable)) {
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
