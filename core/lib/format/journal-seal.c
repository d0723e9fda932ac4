// SPDX-License-Identifier: GPL-2.0
/* Completes the blocks of a transaction for the journal. */
#include "format/codec.h"
#include "format/scan.h"

/**
 * shingle_journal_seal_empty() - complete a block in which no transaction was written yet
 * @l: layout
 * @b: the block
 * @pos: place of the block in the ring
 *
 * A sound block of an earlier transaction shows recovery that a newer one was never written there,
 * see proves_whole() in journal-scan.c.  This block, of transaction 0, shows it for the first
 * round of the ring.
 *
 * Context: any.
 */
void shingle_journal_seal_empty(const struct shingle_layout *l, struct shingle_journal_block *b,
				u64 pos)
{
	memset(b, 0, sizeof(*b));
	shingle_seal(b, SHINGLE_MAGIC_JOURNAL, l->uuid, l->journal.start + pos, 0);
}

/**
 * shingle_journal_seal_mark() - complete the mark behind a transaction
 * @l: layout
 * @b: the block
 * @count: blocks of the transaction
 * @pos: place of the block in the ring
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
 * shingle_journal_seal() - complete the blocks of a transaction
 * @l: layout
 * @b: the blocks with their records, and room for shingle_journal_mark() more
 * @records: number of records
 * @pos: place of the first block in the ring
 * @seq: number of the transaction
 * @prev_crc: checksum of the block before it
 *
 * Context: any.
 * Return: number of blocks of the transaction; the mark comes behind them.
 */
u32 shingle_journal_seal(const struct shingle_layout *l, struct shingle_journal_block *b,
			 u32 records, u64 pos, u64 seq, u32 prev_crc)
{
	u32 nr = DIV_ROUND_UP(records, SHINGLE_JOURNAL_RECORDS), i;

	for (i = 0; i < nr; i++, b++, pos = shingle_ring_next(l, pos)) {
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
