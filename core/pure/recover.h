/* SPDX-License-Identifier: GPL-2.0 */
/* Reading a device's metadata back: superblock, checkpoint, journal. */
#ifndef SHINGLE_RECOVER_H
#define SHINGLE_RECOVER_H

#include "badlist.h"
#include "engine.h"
#include "pages.h"

/**
 * struct shingle_reader - how to read blocks
 * @read: read @n blocks at @block of @dev into @buf; 0; -ENODATA if the medium has
 *	lost one of them, which reading once more would not change; or another -errno.
 *	May sleep.
 * @read_each: the same for each block by itself: what @read would say of it goes to
 *	@errs.  Returns 0, or -errno if they could not be asked for.  Only recovery asks.
 * @ctx: handed to both
 */
struct shingle_reader {
	int (*read)(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf);
	int (*read_each)(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf, int *errs);
	void *ctx;
};

/**
 * struct shingle_recovery - what recovery found
 * @ckpt_seq: number of the checkpoint that was loaded
 * @ckpt_slot: its slot, 0 or 1
 * @ckpt_chunks: chunks of it and of those in front of it in its slot
 * @tail_seq: first transaction that must be kept for this checkpoint
 * @tail_pos: its place in the ring
 * @next_seq: number for the next transaction
 * @next_pos: its place in the ring
 * @prev_crc: checksum of the last journal block, for the chain
 * @used_blocks: ring blocks that the replayed transactions fill
 * @torn_end: the block after the last transaction was to be the next one, and
 *	is rotten: a transaction that a power cut tore (on a disk that tears
 *	blocks), or damage to the last one; or it may have been, and cannot be read
 * @torn_pos: its place in the ring
 * @unread_blocks: of the ring, where no head has been, or not for what it has done
 * @lost_reads: reads of blocks that the medium has lost, as dm-platter counts them in
 *	destroyed_reads: in a long read, and once more alone
 * @cut: the last transaction is not whole, for the medium has lost blocks of it where
 *	the head of its write has been: a power cut
 * @last_blocks: of the last replayed transaction, 0 if there was none
 * @unmarked: the block at @next_pos does not say that the last transaction was whole,
 *	or cannot be read: it must be written before anybody builds on either
 * @hole: sound transactions lie beyond the end, so that something is missing
 * @max_seq: highest transaction number seen anywhere in the ring
 * @transactions: replayed
 * @records: replayed
 * @pages_lost: pages of the map that were given up, see struct shingle_loaded
 * @bad_page: the page that could not be used, SHINGLE_NO_PAGE if none
 */
struct shingle_recovery {
	u64 ckpt_seq;
	u32 ckpt_slot;
	u64 ckpt_chunks;
	u64 tail_seq;
	u64 tail_pos;
	u64 next_seq;
	u64 next_pos;
	u32 prev_crc;
	u64 used_blocks;
	bool torn_end;
	u64 torn_pos;
	u64 unread_blocks;
	u64 lost_reads;
	bool cut;
	u32 last_blocks;
	bool unmarked;
	bool hole;
	u64 max_seq;
	u64 transactions;
	u64 records;
	u64 pages_lost;
	u32 bad_page;
};

/**
 * struct shingle_slot_scan - what a checkpoint slot holds
 * @nr: checkpoints, one behind the other, that are whole
 * @last: footer of the last of them, if there is one
 * @first_seq: number of the checkpoint that its first block is of, 0 if that is not sound
 * @end: the block of the slot behind them
 * @beyond_seq: number of the last checkpoint further on that was whole once, 0 if none
 * @beyond_journal_seq: first transaction to replay on that one
 * @torn: at @end is what is left of a block that belongs there
 * @unread: the block at @end cannot be read
 * @more: at @end or behind it are blocks of a checkpoint that was not finished
 * @lost_reads: as in struct shingle_recovery
 */
struct shingle_slot_scan {
	u64 nr;
	struct shingle_footer last;
	u64 first_seq;
	u64 end;
	u64 beyond_seq;
	u64 beyond_journal_seq;
	bool torn;
	bool unread;
	bool more;
	u64 lost_reads;
};

/**
 * struct shingle_loaded - where recovery puts what it reads
 * @ops: the engine's operations
 * @engine: the engine, fresh from create, with pages if its map has some
 * @bad: the list of unreadable blocks, empty
 * @give_up: a page that a record names and that cannot be used is given up, and so is the
 *	record: nobody can find what it speaks of
 * @lost_seq: the newest checkpoint that was ever whole, if the one to start from is older
 *	and the journal has all between; else 0
 */
struct shingle_loaded {
	const struct shingle_engine_ops *ops;
	struct shingle_engine *engine;
	struct shingle_badlist *bad;
	bool give_up;
	u64 lost_seq;
};

/* shingle_recover_slot()'s @slot: the newest one that has a sound footer. */
#define SHINGLE_SLOT_NEWEST	U32_MAX

u32 shingle_journal_seal(const struct shingle_layout *l, struct shingle_journal_block *b,
			 u32 records, u64 pos, u64 seq, u32 prev_crc);
void shingle_journal_seal_mark(const struct shingle_layout *l, struct shingle_journal_block *b,
			       u32 count, u64 pos, u64 seq, u32 prev_crc);
int shingle_load_sb(const struct shingle_reader *r, enum shingle_dev dev, u64 dev_blocks,
		    struct shingle_layout *l, const char **why);
int shingle_check_member(const struct shingle_reader *r, const struct shingle_layout *l,
			 enum shingle_dev dev, enum shingle_member_fault *copy, char *why);
int shingle_scan_slot(const struct shingle_reader *r, const struct shingle_layout *l, u32 slot,
		      struct shingle_slot_scan *s);
int shingle_fetch(const struct shingle_reader *r, const struct shingle_layout *l,
		  struct shingle_engine *e);
void shingle_fetch_run(const struct shingle_reader *r, const struct shingle_layout *l,
		       struct shingle_engine *e, u64 lblk, u32 n, struct shingle_run *run);
u32 shingle_fetch_verify(const struct shingle_reader *r, const struct shingle_layout *l,
			 struct shingle_engine *e, shingle_report_fn report, void *ctx);
int shingle_recover(const struct shingle_reader *r, const struct shingle_layout *l,
		    const struct shingle_loaded *to, struct shingle_recovery *rec,
		    const char **why);
int shingle_recover_slot(const struct shingle_reader *r, const struct shingle_layout *l,
			 const struct shingle_loaded *to, u32 slot, bool stop_at_hole,
			 struct shingle_recovery *rec, const char **why);

#endif /* SHINGLE_RECOVER_H */
