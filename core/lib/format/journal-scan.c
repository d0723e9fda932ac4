// SPDX-License-Identifier: GPL-2.0
/* Replays the complete transactions from a checkpoint on, and judges the end of the journal. */
#include "format/codec.h"
#include "format/scan.h"

/* A walk over the journal's ring. */
struct ring {
	const struct shingle_reader *r;
	const struct shingle_layout *l;
	u8 *buf;	/* SHINGLE_READ_BATCH blocks */
	u64 have;	/* ring position of buf[0] */
	u32 nr;		/* blocks in buf */
	int errs[SHINGLE_READ_BATCH];	/* read error of each block */
	u64 lost;	/* reads of blocks that the medium has lost */
	u64 edge;	/* ring position that no long read crosses */
	bool accept_unread;	/* treat unreadable blocks as lost; the caller accepts that */
};

static u64 ring_add(const struct shingle_layout *l, u64 pos, u64 n)
{
	return pos < l->journal.blocks - n ? pos + n : pos - (l->journal.blocks - n);
}

/*
 * On a shingled medium the wide head has destroyed the blocks beyond the last write.  There a
 * medium error is equivalent to a block of other content.  Any other error proves nothing about the
 * content.
 */
static bool is_destroyed(const struct ring *p, int err)
{
	return p->l->journal_gap_blocks && err == -ENODATA;
}

static bool is_accepted(const struct ring *p, int err)
{
	return p->accept_unread && (err == -EIO || err == -ENODATA);
}

/* Number of blocks from the journal's end on that a head may have covered. */
static u64 head_reach(const struct shingle_layout *l)
{
	return l->journal_gap_blocks ? shingle_txn_blocks(l) + l->journal_gap_blocks : 0;
}

static int read_ring(struct ring *p, u64 pos, u32 n)
{
	return p->r->read(p->r->ctx, shingle_meta_dev(p->l), p->l->journal.start + pos, n, p->buf);
}

/* If a long read fails, perhaps only one of its blocks is unreadable. */
static void fill_buf(struct ring *p, u64 pos)
{
	u32 n = min_t(u64, SHINGLE_READ_BATCH, p->l->journal.blocks - pos), i;
	int err;

	if (pos < p->edge)
		n = min_t(u64, n, p->edge - pos);
	p->have = pos;
	p->nr = n;
	err = read_ring(p, pos, n);
	if (err && n > 1) {
		err = p->r->read_each(p->r->ctx, shingle_meta_dev(p->l), p->l->journal.start + pos,
				      n, p->buf, p->errs);
		for (i = 0; !err && i < n; i++) {
			if (p->errs[i] == -ENODATA)
				p->lost += 2;
		}
		if (!err)
			return;
	}
	for (i = 0; i < n; i++)
		p->errs[i] = err;
	p->lost += err == -ENODATA;
}

/* The journal block at @pos, from a read-ahead buffer. */
static const struct shingle_journal_block *ring_block(struct ring *p, u64 pos, int *err)
{
	if (pos - p->have >= p->nr)
		fill_buf(p, pos);
	*err = p->errs[pos - p->have];
	return *err ? NULL : (void *)(p->buf + (pos - p->have) * SHINGLE_BLOCK_SIZE);
}

static bool belongs(const struct ring *p, const struct shingle_journal_block *b, u64 pos,
		    u64 seq, u32 index, u32 count, u32 prev_crc)
{
	return !shingle_check_block(b, SHINGLE_MAGIC_JOURNAL, p->l->uuid,
				    p->l->journal.start + pos) &&
	       le64_to_cpu(b->h.seq) == seq && le16_to_cpu(b->index) == index &&
	       (!index || le16_to_cpu(b->count) == count) &&
	       le32_to_cpu(b->prev_crc) == prev_crc &&
	       le32_to_cpu(b->nr_records) <= SHINGLE_JOURNAL_RECORDS;
}

/* Is a complete transaction there?  Sets @count and the checksum of its end. */
static int whole_transaction(struct ring *p, u64 pos, u64 seq, u32 *prev_crc, u32 *count)
{
	u32 index = 0, crc = *prev_crc;
	int err;

	do {
		const struct shingle_journal_block *b = ring_block(p, pos, &err);

		if (err)
			return is_destroyed(p, err) || is_accepted(p, err) ? 0 : err;
		if (!belongs(p, b, pos, seq, index, *count, crc))
			return 0;
		if (!index)
			*count = le16_to_cpu(b->count);
		if (!*count || *count > p->l->journal.blocks)
			return 0;
		crc = le32_to_cpu(b->h.crc);
		pos = shingle_ring_next(p->l, pos);
	} while (++index < *count);
	*prev_crc = crc;
	return 1;
}

/*
 * Did a block that is not sound belong to the next transaction?  One of the three fields that
 * identify it may be damaged.
 */
static bool was_next(const struct ring *p, const struct shingle_journal_block *b, u64 pos,
		     u64 seq, u32 prev_crc)
{
	u32 marks = (le64_to_cpu(b->h.block) == p->l->journal.start + pos) +
		    (le64_to_cpu(b->h.seq) == seq) + (le32_to_cpu(b->prev_crc) == prev_crc);

	return marks >= 2;
}

/**
 * struct beyond - what lies from the journal's end on
 * @index: index of the block of the next transaction that cannot be used, U32_MAX if none
 * @count: number of its blocks, if a readable one contains it
 * @odd: that block cannot be read although no head can have destroyed it
 * @changed: it can be read, but is not the expected block
 * @intact: it is @changed, and is a sound block of an earlier transaction: it was never
 *	overwritten
 * @whole: that transaction was once complete
 */
struct beyond {
	u32 index;
	u32 count;
	bool odd;
	bool changed;
	bool intact;
	bool whole;
};

static bool is_mark(const struct shingle_journal_block *b)
{
	return b->index == b->count;
}

/* Does the sound block behind the last transaction prove that this is complete? */
static bool marks_end(const struct shingle_recovery *rec, const struct shingle_journal_block *b)
{
	u64 seq = le64_to_cpu(b->h.seq);

	return seq >= rec->next_seq || (seq == rec->next_seq - 1 && is_mark(b));
}

/*
 * Was the next transaction, now incomplete, once complete?  On a shingled medium a head writes
 * upwards, and the mark comes last.  So the first block of a transaction is present if any other
 * block of it is, and all are present if the mark is.  An attempt that a power cut interrupted may
 * have left blocks with the same number, but the retry overwrote all of them up to the unreadable
 * one; only a mark proves that the blocks behind the first were written.  For a block that can be
 * read, too, only a mark proves it, by the number of blocks in front of it: a power cut may have
 * torn the first block.
 *
 * A layout may have gaps although its device is a plain disk.  Such a disk writes the blocks of a
 * transaction in any order, perhaps the mark first.  A sound block of an earlier transaction shows
 * that the new block was not written there: then the transaction was never complete, and core
 * acknowledged nothing of it.  Damage does not leave a sound block.
 */
static bool proves_whole(const struct beyond *end, const struct shingle_journal_block *b, u64 seq,
			 u64 at)
{
	if (end->index == U32_MAX || end->intact)
		return false;
	if (!end->index && !end->changed)
		return le64_to_cpu(b->h.seq) >= seq;
	return le64_to_cpu(b->h.seq) == seq && is_mark(b) && at == le16_to_cpu(b->count) &&
	       (!end->index || at == end->count);
}

/*
 * Replay has stopped at a block that is not the next one.  A journal ends like that, but a damaged
 * block in its middle looks the same.  A transaction is written only when the one before it is
 * durable.  So a sound block with a higher number proves damage, and continuing would silently lose
 * acknowledged data.
 */
static int look_beyond(struct ring *p, struct shingle_recovery *rec, struct beyond *end)
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
	for (i = 0; i < left; i++, pos = shingle_ring_next(p->l, pos)) {
		const struct shingle_journal_block *b = ring_block(p, pos, &err);
		enum shingle_block_fault fault;

		if (err) {
			bool head = is_destroyed(p, err) && i < reach;

			if (!head && !is_accepted(p, err))
				return err;
			rec->unread_blocks += !head;
			if (chained) {
				end->index = i;
				end->count = count;
				/* The block that a checkpoint records was readable then. */
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

		/* Is this still one of the first blocks of an incomplete transaction? */
		chained = belongs(p, b, pos, rec->next_seq, i, count, crc);
		if (chained) {
			count = le16_to_cpu(b->count);
			crc = le32_to_cpu(b->h.crc);
			continue;
		}
		if ((fault == SHINGLE_BLOCK_CORRUPT || fault == SHINGLE_BLOCK_FOREIGN) &&
		    was_next(p, b, pos, rec->next_seq, crc))
			rec->torn_end = true;
		rec->torn_pos = pos;
		end->index = i;
		end->count = count;
		end->changed = true;
		end->intact = !fault;
	}
	rec->hole = rec->max_seq > rec->next_seq;
	return 0;
}

/* Decide what the journal's end means.  @lost: accept any end. */
static int check_end(struct shingle_recovery *rec, const struct beyond *end, bool lost,
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

static const char *unread(const struct ring *p, int err)
{
	return is_destroyed(p, err) ? "journal has lost a block where no write head has been" :
				      "journal cannot be read";
}

static int replay_journal(struct ring *p, const struct shingle_loaded *to,
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
				err = shingle_replay_record(p->r, p->l, to, &b->records[i], rec);
				if (err) {
					*why = err == -ENOMEM ? "out of memory" :
					       rec->bad_page == SHINGLE_NO_PAGE ?
					       "journal holds a record that makes no sense" :
					       err == -EUCLEAN || err == -ENODATA ?
					       "a page of the map is damaged" :
					       "a page of the map cannot be read";
					return err;
				}
				rec->records++;
			}
			pos = shingle_ring_next(p->l, pos);
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
	/* The list that the checkpoint holds may be newer than the records before a hole. */
	if (to->bad->nr > SHINGLE_MAX_BAD) {
		*why = "journal holds more unreadable blocks than a device can have";
		return -EUCLEAN;
	}
	return check_end(rec, &end, p->accept_unread, why);
}

/**
 * shingle_scan_journal() - replay the journal, and judge its end
 * @r: reader
 * @l: layout
 * @to: the state of the checkpoint
 * @buf: SHINGLE_READ_BATCH blocks for the reads
 * @accept_unread: if the journal has a hole, or a block that cannot be read, accept what comes
 *	before it
 * @rec: @tail_seq, @tail_pos and @prev_crc say where to begin; the results are added
 * @why: on error, a sentence tail
 *
 * Context: may sleep.
 * Return: 0; -EUCLEAN or -ENODATA if the journal is damaged; -ENOMEM; or a read error.
 */
int shingle_scan_journal(const struct shingle_reader *r, const struct shingle_layout *l,
			 const struct shingle_loaded *to, u8 *buf, bool accept_unread,
			 struct shingle_recovery *rec, const char **why)
{
	struct ring p = { .r = r, .l = l, .buf = buf, .accept_unread = accept_unread };
	int err = replay_journal(&p, to, rec, why);

	rec->lost_reads += p.lost;
	return err;
}
