// SPDX-License-Identifier: GPL-2.0
/* Finds the checkpoints of a device and loads what they contain. */
#include "format/codec.h"
#include "format/scan.h"

/**
 * struct scan - a walk through a checkpoint slot
 * @l: layout
 * @s: results
 * @seq: number of the checkpoint that continues here, 0: not known yet
 * @first: first block of that checkpoint in the slot
 * @crc: checksum over its header crcs
 * @prev_crc: checksum of the footer in front of it
 * @foreign: number of consecutive blocks that belong neither to it nor to a later one
 * @broken: there was such a block; no checkpoint from there on is complete
 */
struct scan {
	const struct shingle_layout *l;
	struct shingle_slot_scan *s;
	u64 seq;
	u64 first;
	u32 crc;
	u32 prev_crc;
	u32 foreign;
	bool broken;
};

/* Does the checkpoint end here, with all of its chunks in front? */
static bool is_end(const struct scan *c, const struct shingle_footer *f, u64 i)
{
	return le64_to_cpu(f->first) == c->first && le64_to_cpu(f->nr_chunks) == i - c->first &&
	       le32_to_cpu(f->chunks_crc) == c->crc && le32_to_cpu(f->prev_crc) == c->prev_crc &&
	       le64_to_cpu(f->journal_pos) < c->l->journal.blocks &&
	       f->journal_seq && le64_to_cpu(f->journal_seq) <= SHINGLE_MAX_SEQ;
}

/* @buf, sound, is block @i of the slot: does it continue the sequence of blocks so far? */
static bool goes_on(struct scan *c, const void *buf, u64 i)
{
	const struct shingle_header *h = buf;
	const struct shingle_footer *f = buf;

	if (c->broken || (c->seq && le64_to_cpu(h->seq) != c->seq))
		return false;
	c->seq = le64_to_cpu(h->seq);
	if (!i)
		c->s->first_seq = c->seq;
	if (le32_to_cpu(h->magic) == SHINGLE_MAGIC_CHUNK) {
		c->crc = crc32c(c->crc, &h->crc, sizeof(h->crc));
		return true;
	}
	if (!is_end(c, f, i))
		return false;
	c->s->nr++;
	c->s->last = *f;
	c->s->end = i + 1;
	c->seq++;
	c->first = i + 1;
	c->crc = 0;
	c->prev_crc = le32_to_cpu(h->crc);
	return true;
}

static bool is_sound(const struct shingle_layout *l, const void *buf, u64 block)
{
	return !shingle_check_block(buf, SHINGLE_MAGIC_CHUNK, l->uuid, block) ||
	       !shingle_check_block(buf, SHINGLE_MAGIC_FOOTER, l->uuid, block);
}

/* A block of an earlier round, but not a block with only its number damaged. */
static bool is_leftover(const struct scan *c, struct shingle_header *h, u64 block)
{
	__le64 seq = h->seq;
	bool damaged;

	if (le64_to_cpu(seq) >= c->seq)
		return false;
	h->seq = cpu_to_le64(c->seq);
	damaged = is_sound(c->l, h, block);
	h->seq = seq;
	return !damaged;
}

/*
 * The checksum is wrong, but at least two of the three fields that identify a block are right: it
 * belonged to the slot, at this place.  A sound block of another place was copied by a head, or was
 * written to the wrong place.
 */
static bool was_here(const struct scan *c, void *buf, u64 block)
{
	struct shingle_header *h = buf;
	u32 magic = le32_to_cpu(h->magic);

	if (shingle_check_block(buf, magic, NULL, U64_MAX) == SHINGLE_BLOCK_OK)
		return c->l->head_tracks == 1 && !c->l->journal_gap_blocks &&
		       !memcmp(h->uuid, c->l->uuid, SHINGLE_UUID_SIZE);
	return (magic == SHINGLE_MAGIC_CHUNK || magic == SHINGLE_MAGIC_FOOTER) +
	       !memcmp(h->uuid, c->l->uuid, SHINGLE_UUID_SIZE) +
	       (le64_to_cpu(h->block) == block) >= 2 && !is_leftover(c, h, block);
}

/*
 * Behind the last complete checkpoint lie remains of earlier rounds of the slot, or of a checkpoint
 * that a power cut interrupted.  The footer of a later checkpoint, however, proves that the blocks
 * in front of it were complete, for it is written when they are on the medium.
 */
static void look_at(struct scan *c, void *buf, u64 block, u64 i)
{
	const struct shingle_header *h = buf;
	const struct shingle_footer *f = buf;
	bool sound = buf && is_sound(c->l, buf, block), later;

	if (sound && goes_on(c, buf, i))
		return;
	later = sound && (!c->seq || le64_to_cpu(h->seq) >= c->seq);
	if (!c->broken) {
		c->s->unread = !buf && i == c->s->end;
		c->s->more = i > c->s->end;
	}
	c->s->torn |= !c->broken && buf && !sound && was_here(c, buf, block);
	c->broken = true;
	c->s->more |= later;
	c->foreign = later ? 0 : c->foreign + 1;
	if (!later || le32_to_cpu(h->magic) != SHINGLE_MAGIC_FOOTER ||
	    le64_to_cpu(h->seq) < c->s->beyond_seq)
		return;
	c->s->beyond_seq = le64_to_cpu(h->seq);
	c->s->beyond_journal_seq = le64_to_cpu(f->journal_seq);
}

/**
 * shingle_scan_slot() - find the checkpoints of a slot
 * @r: reader
 * @l: layout
 * @slot: 0 or 1
 * @s: result
 *
 * Context: may sleep.
 * Return: 0; -ENOMEM; or a read error that does not prove a loss of the block.
 */
int shingle_scan_slot(const struct shingle_reader *r, const struct shingle_layout *l, u32 slot,
		      struct shingle_slot_scan *s)
{
	enum shingle_dev dev = shingle_meta_dev(l);
	u64 room = shingle_ckpt_room(l, slot), i;
	struct scan c = { .l = l, .s = s };
	u32 n, k;
	int err = 0;
	u8 *buf;

	memset(s, 0, sizeof(*s));
	buf = shingle_zalloc_array(SHINGLE_READ_BATCH, SHINGLE_BLOCK_SIZE);
	if (!buf)
		return -ENOMEM;
	for (i = 0; i < room && c.foreign < SHINGLE_READ_BATCH; i += n) {
		u64 block = shingle_ckpt_block(l, slot, i);

		n = min_t(u64, SHINGLE_READ_BATCH, room - i);
		n = min(n, shingle_ckpt_run(l, i));
		err = r->read(r->ctx, dev, block, n, buf);
		for (k = 0; k < n; k++) {
			u8 *one = buf + k * SHINGLE_BLOCK_SIZE;
			int lost = err ? r->read(r->ctx, dev, block + k, 1, one) : 0;

			if (lost && lost != -ENODATA) {
				err = lost;
				goto out;
			}
			if (lost)
				s->lost_reads += 2;
			look_at(&c, lost ? NULL : one, block + k, i + k);
		}
		err = 0;
		cond_resched();
	}
out:
	kvfree(buf);
	return err;
}

static int decode_chunk(const struct shingle_layout *l, const struct shingle_loaded *to,
			const struct shingle_chunk *c)
{
	u64 index = le64_to_cpu(c->index);
	u32 bytes = le32_to_cpu(c->bytes);

	if (!bytes)
		return 0;
	if (index == SHINGLE_CHUNK_CORE)
		return shingle_bad_decode(to->bad, c->payload, bytes);
	if (index > SHINGLE_CHUNK_CORE)
		return shingle_places_decode(to->engine->pages, index, c->payload, bytes);
	return shingle_pieces_decode(to->ops->state.pieces, l, to->engine, index, c->payload,
				     bytes);
}

/* Core has one piece with the unreadable blocks, and pieces with the places of pages. */
static u32 core_pieces(const struct shingle_engine *e)
{
	return 1 + (e->pages ? e->pages->places.nr_pieces : 0);
}

/* The piece that a chunk holds; the last @core pieces are core's.  @pieces: none. */
static u64 piece_of(const struct shingle_chunk *c, u64 pieces, u32 core)
{
	u64 index = le64_to_cpu(c->index);

	if (le32_to_cpu(c->bytes) > SHINGLE_CHUNK_BYTES)
		return pieces;
	if (index >= SHINGLE_CHUNK_CORE)
		return index - SHINGLE_CHUNK_CORE < core ?
		       pieces - core + (index - SHINGLE_CHUNK_CORE) : pieces;
	return index < pieces - core ? index : pieces;
}

/**
 * shingle_load_checkpoint() - load the state that the checkpoints of a slot contain
 * @r: reader
 * @l: layout
 * @slot: 0 or 1
 * @s: the slot's complete checkpoints, at least one
 * @to: destination
 * @buf: SHINGLE_READ_BATCH blocks for the reads
 * @chunks: result, number of chunks of all of them
 *
 * The first of two passes over the chunks finds the newest chunk of each piece, the second decodes
 * these.
 *
 * Context: may sleep.
 * Return: 0; -EUCLEAN if the chunks contradict the footer or the engine; -ENOMEM; or a read error.
 */
int shingle_load_checkpoint(const struct shingle_reader *r, const struct shingle_layout *l,
			    u32 slot, const struct shingle_slot_scan *s,
			    const struct shingle_loaded *to, u8 *buf, u64 *chunks)
{
	enum shingle_dev dev = shingle_meta_dev(l);
	u32 core = core_pieces(to->engine);
	u64 pieces = shingle_pieces_nr(to->ops->state.pieces, U32_MAX, l) + core, at;
	u32 pass, n, i, *newest;
	int err = 0;

	*chunks = 0;
	if (s->end > U32_MAX)
		return -EUCLEAN;
	newest = shingle_zalloc_array(pieces, sizeof(*newest));
	if (!newest)
		return -ENOMEM;
	for (pass = 0; pass < 2; pass++) {
		for (at = 0; at < s->end; at += n) {
			u64 block = shingle_ckpt_block(l, slot, at);

			n = min_t(u64, SHINGLE_READ_BATCH, s->end - at);
			n = min(n, shingle_ckpt_run(l, at));
			err = r->read(r->ctx, dev, block, n, buf);
			if (err)
				goto out;
			for (i = 0; i < n; i++) {
				const struct shingle_chunk *c;
				u64 piece;

				c = (void *)(buf + i * SHINGLE_BLOCK_SIZE);
				err = -EUCLEAN;
				if (!is_sound(l, c, block + i))
					goto out;
				err = 0;
				if (le32_to_cpu(c->h.magic) == SHINGLE_MAGIC_FOOTER)
					continue;
				piece = piece_of(c, pieces, core);
				err = -EUCLEAN;
				if (piece == pieces)
					goto out;
				err = 0;
				*chunks += !pass;
				if (!pass)
					newest[piece] = at + i;
				else if (newest[piece] == at + i)
					err = decode_chunk(l, to, c);
				if (err)
					goto out;
			}
			cond_resched();
		}
	}
out:
	kvfree(newest);
	return err;
}

/*
 * The number of the checkpoint at the beginning of a slot, 0 if unknown.
 * @lost: counts reads of lost blocks
 */
static int begins_with(const struct shingle_reader *r, const struct shingle_layout *l, u32 slot,
		       void *buf, u64 *seq, u64 *lost)
{
	u64 block = shingle_ckpt_block(l, slot, 0);
	const struct shingle_header *h = buf;
	int err = r->read(r->ctx, shingle_meta_dev(l), block, 1, buf);

	*seq = 0;
	if (!err && is_sound(l, buf, block))
		*seq = le64_to_cpu(h->seq);
	*lost += err == -ENODATA;
	return err == -ENODATA ? 0 : err;
}

/**
 * shingle_find_checkpoint() - find the newest checkpoint of a device
 * @r: reader
 * @l: layout
 * @buf: a block for reads
 * @slot: result, its slot
 * @s: result, content of the slot; @s->lost_reads counts the reads of both slots
 * @why: on error, a sentence tail
 *
 * Chooses the slot that was begun last, if its first checkpoint is complete; otherwise it was being
 * rewritten, and the other is used.  The other is also scanned if its first block is unreadable,
 * since it may be the newer one.
 *
 * Context: may sleep.
 * Return: 0; -EUCLEAN if there is none, or a newer one is damaged; -ENOMEM; or a read error.
 */
int shingle_find_checkpoint(const struct shingle_reader *r, const struct shingle_layout *l,
			    void *buf, u32 *slot, struct shingle_slot_scan *s, const char **why)
{
	u64 begin[2], newest = 0, beyond = 0, lost = 0;
	struct shingle_slot_scan *one;
	u32 i, k, first;
	int err;

	one = shingle_zalloc_array(1, sizeof(*one));
	*why = "out of memory";
	if (!one)
		return -ENOMEM;
	*why = "a checkpoint cannot be read";
	for (i = 0; i < 2; i++) {
		err = begins_with(r, l, i, buf, &begin[i], &lost);
		if (err)
			goto out;
	}
	first = begin[1] > begin[0];
	*slot = SHINGLE_SLOT_NEWEST;
	for (i = 0; i < 2; i++) {
		k = first ^ i;
		if (*slot != SHINGLE_SLOT_NEWEST && begin[k])
			continue;
		err = shingle_scan_slot(r, l, k, one);
		if (err)
			goto out;
		beyond = max(beyond, one->beyond_seq);
		lost += one->lost_reads;
		if (!one->nr || (*slot != SHINGLE_SLOT_NEWEST && one->first_seq < newest))
			continue;
		*slot = k;
		*s = *one;
		newest = le64_to_cpu(s->last.h.seq);
	}
	err = 0;
	s->lost_reads = lost;
	*why = "neither checkpoint is usable";
	if (*slot == SHINGLE_SLOT_NEWEST)
		err = -EUCLEAN;
	/*
	 * A footer is written last, so a sound footer of an incomplete checkpoint proves damage,
	 * not a power cut.  The journal of the older state may be gone, so only `shingle repair',
	 * on its user's request, goes back to it.
	 */
	if (beyond > newest) {
		*why = "newest checkpoint is damaged";
		err = -EUCLEAN;
	}
out:
	kvfree(one);
	return err;
}
