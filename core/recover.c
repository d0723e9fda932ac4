// SPDX-License-Identifier: GPL-2.0
/* Reading a device's metadata back: pure code but for the reader. */
#include "recover.h"
#include "codec.h"

/* Blocks read at a time: long transfers, yet no high-order allocation. */
#define READ_BATCH	64

/**
 * shingle_load_sb() - find the superblock
 * @r: how to read
 * @dev: device that should hold it
 * @dev_blocks: size of that device
 * @l: result
 * @why: on error, a sentence tail that says what was found
 *
 * The copies are at block 0 and at the last block; the newer sound one counts.
 *
 * Context: may sleep.  Returns 0; -ENODATA if neither copy is there; -EUCLEAN if
 * something is there but rotten; -EPROTONOSUPPORT; -ENOMEM; or the read error.
 */
int shingle_load_sb(const struct shingle_reader *r, enum shingle_dev dev, u64 dev_blocks,
		    struct shingle_layout *l, const char **why)
{
	struct shingle_layout *copy;
	struct shingle_sb *sb;
	bool found = false;
	int worst = -ENODATA;
	u32 i;

	*why = "device is too small for a superblock";
	if (dev_blocks < 2)
		return -ENODATA;

	sb = shingle_zalloc_array(1, sizeof(*sb));
	copy = shingle_zalloc_array(1, sizeof(*copy));
	if (!sb || !copy) {
		*why = "out of memory";
		worst = -ENOMEM;
		goto out;
	}

	for (i = 0; i < 2; i++) {
		u64 block = i ? dev_blocks - 1 : 0;
		const char *text = "cannot be read";
		int err = r->read(r->ctx, dev, block, 1, sb);

		/* Below it means that no superblock is there. */
		if (err == -ENODATA)
			err = -EIO;
		if (!err)
			err = shingle_layout_decode(sb, block, copy, &text);
		if (!err && (!found || copy->sb_seq > l->sb_seq)) {
			*l = *copy;
			found = true;
		} else if (err && (worst == -ENODATA || i == 0)) {
			/* A rotten copy says more than an absent one. */
			if (err != -ENODATA || worst == -ENODATA) {
				worst = err;
				*why = text;
			}
		}
	}
out:
	kvfree(copy);
	kvfree(sb);
	return found ? 0 : worst;
}

/* Neither a header nor what is left of one: somebody else's. */
static bool is_foreign(const void *buf)
{
	const u8 *byte = buf;
	const struct shingle_member *m = buf;
	char name[80];

	if (shingle_member_name(buf, name, sizeof(name)))
		return true;
	return le32_to_cpu(m->h.magic) != SHINGLE_MAGIC_MEMBER &&
	       (byte[0] || memcmp(byte, byte + 1, SHINGLE_BLOCK_SIZE - 1));
}

/**
 * shingle_check_member() - is this the device that was formatted with the others?
 * @r: how to read
 * @l: layout
 * @dev: the device to look at; one without superblocks
 * @copy: what its two copies are, for the first and the last block; or NULL
 * @why: on error, what was found and what was wanted, SHINGLE_MEMBER_WHY bytes
 *
 * One sound copy is enough, unless there is something else in the place of the other:
 * then somebody has used the device since.  On an emulated medium that keeps
 * nothing there is none, which the superblock says.
 *
 * Context: may sleep.  Returns 0; -EINVAL if it is a stranger; -EUCLEAN if neither
 * copy is sound, but one says that it was ours; -EIO if what may say so cannot be read;
 * -ENOMEM.
 */
int shingle_check_member(const struct shingle_reader *r, const struct shingle_layout *l,
			 enum shingle_dev dev, enum shingle_member_fault *copy, char *why)
{
	void *buf = shingle_zalloc_array(1, SHINGLE_BLOCK_SIZE);
	bool sound = l->flags & SHINGLE_SB_UNMARKED(dev), unmarked = sound;
	bool foreign = false, ours = false, unread = false;
	char text[SHINGLE_MEMBER_WHY];
	u32 i;

	snprintf(why, SHINGLE_MEMBER_WHY, "out of memory");
	if (!buf)
		return -ENOMEM;
	for (i = 0; i < 2; i++) {
		u64 block = i ? l->dev_blocks[dev] - 1 : 0;
		int err = r->read(r->ctx, dev, block, 1, buf);
		enum shingle_member_fault fault;
		bool other;

		fault = shingle_member_examine(l, dev, block, err ? NULL : buf, text);
		if (copy)
			copy[i] = unmarked ? SHINGLE_MEMBER_OK : fault;
		if (fault == SHINGLE_MEMBER_OK) {
			sound = true;
			continue;
		}
		other = fault == SHINGLE_MEMBER_STRANGER && is_foreign(buf);
		/* What is there is worth more than that something is not. */
		if (!foreign && (other || !ours))
			memcpy(why, text, sizeof(text));
		foreign |= other;
		ours |= fault == SHINGLE_MEMBER_DAMAGED && !err;
		unread |= err;
	}
	kvfree(buf);
	if (foreign)
		return -EINVAL;
	if (sound)
		return 0;
	return ours ? -EUCLEAN : unread ? -EIO : -EINVAL;
}

static int read_footer(const struct shingle_reader *r, const struct shingle_layout *l, u32 slot,
		       struct shingle_footer *f)
{
	enum shingle_dev dev = shingle_meta_dev(l);
	u64 room = shingle_ckpt_room(l, slot), block = shingle_ckpt_block(l, slot, room - 1);
	int err = r->read(r->ctx, dev, block, 1, f);

	if (err)
		return err;
	if (shingle_check_block(f, SHINGLE_MAGIC_FOOTER, l->uuid, block))
		return -EUCLEAN;
	if (le64_to_cpu(f->nr_chunks) >= room ||
	    le64_to_cpu(f->journal_pos) >= l->journal.blocks)
		return -EUCLEAN;
	return 0;
}

static int decode_chunk(const struct shingle_loaded *to, const struct shingle_chunk *c)
{
	u64 index = le64_to_cpu(c->index);
	u32 bytes = le32_to_cpu(c->bytes);

	if (bytes > SHINGLE_CHUNK_BYTES)
		return -EUCLEAN;
	if (index == SHINGLE_CHUNK_CORE)
		return shingle_bad_decode(to->bad, c->payload, bytes);
	if (index & SHINGLE_CHUNK_CORE)
		return -EUCLEAN;
	return to->ops->decode(to->engine, index, c->payload, bytes);
}

static int check_chunk(const struct shingle_chunk *c, const u8 *uuid, u64 block, __le64 seq,
		       u32 *crc)
{
	if (shingle_check_block(c, SHINGLE_MAGIC_CHUNK, uuid, block) || c->h.seq != seq)
		return -EUCLEAN;
	*crc = crc32c(*crc, &c->h.crc, sizeof(c->h.crc));
	return 0;
}

/*
 * Two passes: every chunk is checked before the first one reaches the engine,
 * so that a rotten checkpoint leaves the engine empty for the older one.
 */
static int load_checkpoint(const struct shingle_reader *r, const struct shingle_layout *l,
			   u32 slot, const struct shingle_footer *f,
			   const struct shingle_loaded *to, u8 *buf)
{
	enum shingle_dev dev = shingle_meta_dev(l);
	u64 nr = le64_to_cpu(f->nr_chunks), at;
	u32 crc = 0, pass, n, i;
	int err;

	for (pass = 0; pass < 2; pass++) {
		for (at = 0; at < nr; at += n) {
			u64 block = shingle_ckpt_block(l, slot, at);

			n = min_t(u64, READ_BATCH, nr - at);
			n = min(n, shingle_ckpt_run(l, at));
			err = r->read(r->ctx, dev, block, n, buf);
			if (err)
				return err;
			for (i = 0; i < n; i++) {
				const struct shingle_chunk *c;

				c = (void *)(buf + i * SHINGLE_BLOCK_SIZE);
				err = pass ? decode_chunk(to, c) :
					     check_chunk(c, l->uuid, block + i, f->h.seq, &crc);
				if (err)
					return err;
			}
		}
		if (!pass && crc != le32_to_cpu(f->chunks_crc))
			return -EUCLEAN;
	}
	return 0;
}

static int replay_record(const struct shingle_layout *l, const struct shingle_loaded *to,
			 const struct shingle_record *rec)
{
	u64 lblk = le64_to_cpu(rec->a);

	switch (le16_to_cpu(rec->type)) {
	case SHINGLE_REC_BAD:
		return lblk < l->logical_blocks && shingle_bad_replay(to->bad, lblk) ? 0 : -EUCLEAN;
	case SHINGLE_REC_GOOD:
		/* The length needs more bits than rec->n has: it is in b. */
		shingle_bad_remove(to->bad, lblk, le64_to_cpu(rec->b));
		return 0;
	}
	if (le16_to_cpu(rec->type) < SHINGLE_REC_ENGINE)
		return -EUCLEAN;
	return to->ops->replay(to->engine, rec);
}

struct replay {
	const struct shingle_reader *r;
	const struct shingle_layout *l;
	u8 *buf;	/* READ_BATCH blocks */
	u64 have;	/* ring position of buf[0] */
	u32 nr;		/* blocks in buf */
	int errs[READ_BATCH];	/* of each: why it could not be read */
	u64 edge;	/* ring position that no long read goes across */
	bool forgiving;	/* what cannot be read is lost, and the caller knows */
};

static u64 ring_next(const struct shingle_layout *l, u64 pos)
{
	return pos + 1 == l->journal.blocks ? 0 : pos + 1;
}

static u64 ring_add(const struct shingle_layout *l, u64 pos, u64 n)
{
	return pos < l->journal.blocks - n ? pos + n : pos - (l->journal.blocks - n);
}

/**
 * shingle_journal_seal_mark() - the block behind a transaction
 * @l: layout
 * @b: the block
 * @count: blocks of the transaction
 * @pos: place in the ring of the block
 * @seq: number of the transaction
 * @prev_crc: checksum of its last block
 *
 * Context: any.
 */
void shingle_journal_seal_mark(const struct shingle_layout *l, struct shingle_journal_block *b,
			       u32 count, u64 pos, u64 seq, u32 prev_crc)
{
	memset(b, 0, sizeof(*b));
	b->prev_crc = cpu_to_le32(prev_crc);
	b->index = cpu_to_le16(count);
	b->count = cpu_to_le16(count);
	shingle_seal(b, SHINGLE_MAGIC_JOURNAL, l->uuid, l->journal.start + pos, seq);
}

/**
 * shingle_journal_seal() - make a transaction of blocks that are full of records
 * @l: layout
 * @b: the blocks, and room for shingle_journal_mark() more
 * @records: in them
 * @pos: place in the ring of the first one
 * @seq: number of the transaction
 * @prev_crc: checksum of the block before it
 *
 * Context: any.  Returns how many blocks the transaction has; the mark comes behind
 * them.
 */
u32 shingle_journal_seal(const struct shingle_layout *l, struct shingle_journal_block *b,
			 u32 records, u64 pos, u64 seq, u32 prev_crc)
{
	u32 nr = DIV_ROUND_UP(records, SHINGLE_JOURNAL_RECORDS), i;

	for (i = 0; i < nr; i++, b++, pos = ring_next(l, pos)) {
		b->prev_crc = cpu_to_le32(prev_crc);
		b->index = cpu_to_le16(i);
		b->count = cpu_to_le16(nr);
		b->nr_records = cpu_to_le32(min(records - i * SHINGLE_JOURNAL_RECORDS,
						(u32)SHINGLE_JOURNAL_RECORDS));
		shingle_seal(b, SHINGLE_MAGIC_JOURNAL, l->uuid, l->journal.start + pos, seq);
		prev_crc = le32_to_cpu(b->h.crc);
	}
	if (shingle_journal_mark(l))
		shingle_journal_seal_mark(l, b, nr, pos, seq, prev_crc);
	return nr;
}

/*
 * On a shingled medium the blocks in front of the last write are what the wide
 * head left of them; a medium error there is as good as another block's content.
 * Any other error says nothing of what the block holds.
 */
static bool is_destroyed(const struct replay *p, int err)
{
	return p->l->journal_gap_blocks && err == -ENODATA;
}

static bool is_forgiven(const struct replay *p, int err)
{
	return p->forgiving && (err == -EIO || err == -ENODATA);
}

/* So many blocks from the journal's end on may have been under a head. */
static u64 head_reach(const struct shingle_layout *l)
{
	return l->journal_gap_blocks ? shingle_txn_blocks(l) + l->journal_gap_blocks : 0;
}

static int read_ring(struct replay *p, u64 pos, u32 n)
{
	return p->r->read(p->r->ctx, shingle_meta_dev(p->l), p->l->journal.start + pos, n, p->buf);
}

/* When a long read fails, perhaps one block of many is unreadable. */
static void fill_buf(struct replay *p, u64 pos)
{
	u32 n = min_t(u64, READ_BATCH, p->l->journal.blocks - pos), i;
	int err;

	if (pos < p->edge)
		n = min_t(u64, n, p->edge - pos);
	p->have = pos;
	p->nr = n;
	err = read_ring(p, pos, n);
	if (err && n > 1) {
		err = p->r->read_each(p->r->ctx, shingle_meta_dev(p->l), p->l->journal.start + pos,
				      n, p->buf, p->errs);
		if (!err)
			return;
	}
	for (i = 0; i < n; i++)
		p->errs[i] = err;
}

/* The journal block at @pos, from a read-ahead buffer. */
static const struct shingle_journal_block *ring_block(struct replay *p, u64 pos, int *err)
{
	if (pos - p->have >= p->nr)
		fill_buf(p, pos);
	*err = p->errs[pos - p->have];
	return *err ? NULL : (void *)(p->buf + (pos - p->have) * SHINGLE_BLOCK_SIZE);
}

static bool belongs(const struct replay *p, const struct shingle_journal_block *b, u64 pos,
		    u64 seq, u32 index, u32 count, u32 prev_crc)
{
	return !shingle_check_block(b, SHINGLE_MAGIC_JOURNAL, p->l->uuid,
				    p->l->journal.start + pos) &&
	       le64_to_cpu(b->h.seq) == seq && le16_to_cpu(b->index) == index &&
	       (!index || le16_to_cpu(b->count) == count) &&
	       le32_to_cpu(b->prev_crc) == prev_crc &&
	       le32_to_cpu(b->nr_records) <= SHINGLE_JOURNAL_RECORDS;
}

/* Is a whole transaction there?  Sets @count and the checksum of its end. */
static int whole_transaction(struct replay *p, u64 pos, u64 seq, u32 *prev_crc, u32 *count)
{
	u32 index = 0, crc = *prev_crc;
	int err;

	do {
		const struct shingle_journal_block *b = ring_block(p, pos, &err);

		if (err)
			return is_destroyed(p, err) || is_forgiven(p, err) ? 0 : err;
		if (!belongs(p, b, pos, seq, index, *count, crc))
			return 0;
		if (!index)
			*count = le16_to_cpu(b->count);
		if (!*count || *count > p->l->journal.blocks)
			return 0;
		crc = le32_to_cpu(b->h.crc);
		pos = ring_next(p->l, pos);
	} while (++index < *count);
	*prev_crc = crc;
	return 1;
}

/*
 * Was a block that is not sound meant to be the next one?  Of the marks that
 * say so one may be what was damaged.
 */
static bool was_next(const struct replay *p, const struct shingle_journal_block *b, u64 pos,
		     u64 seq, u32 prev_crc)
{
	u32 marks = (le64_to_cpu(b->h.block) == p->l->journal.start + pos) +
		    (le64_to_cpu(b->h.seq) == seq) + (le32_to_cpu(b->prev_crc) == prev_crc);

	return marks >= 2;
}

/**
 * struct beyond - what is found from the journal's end on
 * @index: of the block of the next transaction that cannot be read, U32_MAX if none
 * @count: of its blocks, if a readable one has told
 * @odd: that block is not where a head may have destroyed it
 * @changed: it can be read, but is not the one that was written
 * @whole: that transaction was whole once
 */
struct beyond {
	u32 index;
	u32 count;
	bool odd;
	bool changed;
	bool whole;
};

static bool is_mark(const struct shingle_journal_block *b)
{
	return b->index == b->count;
}

/* Is the last transaction known to be whole by what is behind it, which is sound? */
static bool marks_end(const struct shingle_recovery *rec, const struct shingle_journal_block *b)
{
	u64 seq = le64_to_cpu(b->h.seq);

	return seq >= rec->next_seq || (seq == rec->next_seq - 1 && is_mark(b));
}

/*
 * A head goes upwards, and the mark comes last.  So the first block of a
 * transaction is there when any other of it is, and all are when the mark is.
 * Blocks of an attempt that a power cut ended may bear the same number, but all of
 * them were overwritten up to the one that cannot be read: only a mark proves that
 * those behind the first were there.  And only a mark proves it of a block that can
 * be read, where it says how many are in front of it: the first may be one that the
 * disk has torn.
 */
static bool proves_whole(const struct beyond *end, const struct shingle_journal_block *b, u64 seq,
			 u64 at)
{
	if (end->index == U32_MAX)
		return false;
	if (!end->index && !end->changed)
		return le64_to_cpu(b->h.seq) >= seq;
	return le64_to_cpu(b->h.seq) == seq && is_mark(b) && at == le16_to_cpu(b->count) &&
	       (!end->index || at == end->count);
}

/*
 * Replay stopped at a block that is not the next one.  That is how a journal
 * ends, but also how a damaged block in its middle looks.  A transaction is
 * written only when the one before it is durable, so a sound block with a
 * higher number proves damage, and going on would silently lose what was
 * promised.
 */
static int look_beyond(struct replay *p, struct shingle_recovery *rec, struct beyond *end)
{
	u64 left = p->l->journal.blocks - rec->used_blocks, pos = rec->next_pos, i;
	u64 reach = min(head_reach(p->l), left);
	u32 crc = rec->prev_crc, count = 0;
	bool chained = true;
	int err;

	rec->unmarked = reach;
	p->edge = ring_add(p->l, pos, reach);
	if (reach && p->edge > p->have)
		p->nr = min_t(u64, p->nr, p->edge - p->have);
	for (i = 0; i < left; i++, pos = ring_next(p->l, pos)) {
		const struct shingle_journal_block *b = ring_block(p, pos, &err);
		enum shingle_block_fault fault;

		if (err) {
			bool head = is_destroyed(p, err) && i < reach;

			if (!head && !is_forgiven(p, err))
				return err;
			rec->unread_blocks += !head;
			if (chained) {
				end->index = i;
				end->count = count;
				/* What a checkpoint names was readable when it was taken. */
				end->odd = !head || (!i && !rec->transactions);
				rec->torn_pos = pos;
			}
			chained = false;
			continue;
		}
		fault = shingle_check_block(b, SHINGLE_MAGIC_JOURNAL, p->l->uuid,
					    p->l->journal.start + pos);
		if (!fault) {
			rec->max_seq = max(rec->max_seq, le64_to_cpu(b->h.seq));
			end->whole |= proves_whole(end, b, rec->next_seq, i);
		}
		if (!i && p->l->journal_gap_blocks)
			rec->unmarked = rec->transactions && (fault || !marks_end(rec, b));
		if (!chained)
			continue;

		/* Still on the first blocks of a transaction that is not whole? */
		chained = belongs(p, b, pos, rec->next_seq, i, count, crc);
		if (chained) {
			count = le16_to_cpu(b->count);
			crc = le32_to_cpu(b->h.crc);
			continue;
		}
		if ((fault == SHINGLE_BLOCK_ROTTEN || fault == SHINGLE_BLOCK_FOREIGN) &&
		    was_next(p, b, pos, rec->next_seq, crc))
			rec->torn_end = true;
		rec->torn_pos = pos;
		end->index = i;
		end->count = count;
		end->changed = true;
	}
	rec->hole = rec->max_seq > rec->next_seq;
	return 0;
}

/* What is to be said of the journal's end.  @lost: go on whatever it is. */
static int judge_end(struct shingle_recovery *rec, const struct beyond *end, bool lost,
		     const char **why)
{
	if (end->index != U32_MAX && !end->changed) {
		rec->torn_end = end->odd || end->whole;
		rec->cut = !rec->torn_end && !rec->hole;
	}
	rec->torn_end |= end->whole;
	if (rec->hole && !lost) {
		*why = "journal has a hole: a block in its middle is damaged";
		return -EUCLEAN;
	}
	if (end->whole && !lost) {
		*why = "journal's last transaction is damaged: a block of it is lost";
		return end->changed ? -EUCLEAN : -ENODATA;
	}
	if (end->odd && !lost) {
		*why = "journal has lost a block where no write head has been";
		return -ENODATA;
	}
	return 0;
}

static const char *unread(const struct replay *p, int err)
{
	return is_destroyed(p, err) ? "journal has lost a block where no write head has been" :
				      "journal cannot be read";
}

static int replay_journal(struct replay *p, const struct shingle_loaded *to, bool stop_at_hole,
			  struct shingle_recovery *rec, const char **why)
{
	u64 pos = rec->tail_pos, seq = rec->tail_seq, used = 0;
	struct beyond end = { .index = U32_MAX };
	u32 crc = rec->prev_crc;
	int err;

	for (;;) {
		u32 count = 0, index, i;
		int whole = whole_transaction(p, pos, seq, &crc, &count);

		if (whole < 0) {
			*why = unread(p, whole);
			return whole;
		}
		if (!whole || used + count > p->l->journal.blocks)
			break;
		for (index = 0; index < count; index++) {
			const struct shingle_journal_block *b = ring_block(p, pos, &err);

			if (err) {
				*why = unread(p, err);
				return err;
			}
			for (i = 0; i < le32_to_cpu(b->nr_records); i++) {
				err = replay_record(p->l, to, &b->records[i]);
				if (err) {
					*why = err == -ENOMEM ? "out of memory" :
					       "journal holds a record that makes no sense";
					return err;
				}
				rec->records++;
			}
			pos = ring_next(p->l, pos);
			cond_resched();
		}
		used += count;
		seq++;
		rec->last_blocks = count;
		rec->transactions++;
	}
	rec->next_pos = pos;
	rec->next_seq = seq;
	rec->prev_crc = crc;
	rec->used_blocks = used;
	rec->max_seq = seq - 1;
	err = look_beyond(p, rec, &end);
	if (err) {
		*why = unread(p, err);
		return err;
	}
	/* What comes before a hole may end where the checkpoint's list was not yet true. */
	if (to->bad->nr > SHINGLE_MAX_BAD) {
		*why = "journal holds more unreadable blocks than a device can have";
		return -EUCLEAN;
	}
	return judge_end(rec, &end, stop_at_hole, why);
}

/**
 * shingle_recover_slot() - load a state that a device had
 * @r: how to read
 * @l: the device's layout
 * @to: where to put what is found; the engine must be fresh from create
 * @slot: checkpoint to start from, or SHINGLE_SLOT_NEWEST
 * @stop_at_hole: when the journal has a hole, or a block that cannot be read, take
 *	what comes before it
 * @rec: result; on error, as far as it got
 * @why: on error, a sentence tail
 *
 * For tools that repair: the caller knows that the other slot, or what lies
 * behind the hole, is lost.
 *
 * Context: before I/O, may sleep.  Returns as shingle_recover().
 */
int shingle_recover_slot(const struct shingle_reader *r, const struct shingle_layout *l,
			 const struct shingle_loaded *to, u32 slot, bool stop_at_hole,
			 struct shingle_recovery *rec, const char **why)
{
	struct shingle_footer *f[2] = { NULL, NULL };
	int err = -ENOMEM, slot_err[2];
	struct replay p = { .r = r, .l = l, .forgiving = stop_at_hole };
	u32 i;
	u8 *buf;

	memset(rec, 0, sizeof(*rec));
	*why = "out of memory";
	buf = shingle_zalloc_array(READ_BATCH, SHINGLE_BLOCK_SIZE);
	for (i = 0; i < 2; i++)
		f[i] = shingle_zalloc_array(1, sizeof(*f[i]));
	if (!buf || !f[0] || !f[1])
		goto out;

	for (i = 0; i < 2; i++) {
		slot_err[i] = read_footer(r, l, i, f[i]);
		/*
		 * It may be the newest one, and be there again when the number that
		 * follows the other's is given to the next.
		 */
		err = slot_err[i];
		*why = "a checkpoint cannot be read";
		if (err && err != -EUCLEAN && err != -ENODATA && !stop_at_hole)
			goto out;
	}
	err = -EUCLEAN;
	*why = "neither checkpoint is usable";
	if (slot_err[0] && slot_err[1])
		goto out;
	if (slot == SHINGLE_SLOT_NEWEST)
		slot = slot_err[0] || (!slot_err[1] &&
				       le64_to_cpu(f[1]->h.seq) > le64_to_cpu(f[0]->h.seq));
	*why = "checkpoint has no sound footer";
	if (slot_err[slot])
		goto out;

	err = load_checkpoint(r, l, slot, f[slot], to, buf);
	if (err) {
		/*
		 * A checkpoint slot is only rewritten after the other one and
		 * the journal since were made good, and a footer is written
		 * last: a sound footer over rotten chunks is damage, not a
		 * power cut.  The older state may have lost its journal, so
		 * going back to it is for `shingle repair' and its user.
		 */
		*why = err == -EUCLEAN || err == -ENODATA ? "newest checkpoint is damaged" :
		       err == -ENOMEM ? "out of memory" : "newest checkpoint cannot be read";
		goto out;
	}

	rec->older = slot_err[!slot] != 0;
	rec->ckpt_slot = slot;
	rec->ckpt_seq = le64_to_cpu(f[slot]->h.seq);
	rec->ckpt_chunks = le64_to_cpu(f[slot]->nr_chunks);
	rec->tail_seq = le64_to_cpu(f[slot]->journal_seq);
	rec->tail_pos = le64_to_cpu(f[slot]->journal_pos);
	rec->prev_crc = le32_to_cpu(f[slot]->journal_prev_crc);

	p.buf = buf;
	err = replay_journal(&p, to, stop_at_hole, rec, why);
	if (!err)
		err = to->ops->ready(to->engine, why);
out:
	kvfree(f[0]);
	kvfree(f[1]);
	kvfree(buf);
	return err;
}

/**
 * shingle_recover() - load the state that a device had when it was last sound
 * @r: how to read
 * @l: the device's layout
 * @to: where to put what is found; the engine must be fresh from create
 * @rec: result
 * @why: on error, a sentence tail
 *
 * Loads the newest checkpoint and replays every whole transaction after it.
 * The work is bounded by a checkpoint slot plus the journal ring.
 *
 * Context: before I/O, may sleep.  Returns 0; -EUCLEAN if there is no usable
 * checkpoint or the metadata contradict themselves; -ENOMEM; or a read error.
 * DESIGN 4.5.
 */
int shingle_recover(const struct shingle_reader *r, const struct shingle_layout *l,
		    const struct shingle_loaded *to, struct shingle_recovery *rec,
		    const char **why)
{
	return shingle_recover_slot(r, l, to, SHINGLE_SLOT_NEWEST, false, rec, why);
}
