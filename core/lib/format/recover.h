/* SPDX-License-Identifier: GPL-2.0 */
/* Reading a device's metadata back: superblock, checkpoint, journal. */
#ifndef SHINGLE_RECOVER_H
#define SHINGLE_RECOVER_H

#include "engine/badlist.h"
#include "engine/engine.h"
#include "pages/pages.h"

/**
 * struct shingle_reader - reads blocks for recovery
 * @read: read @n blocks at @block of @dev into @buf.  Returns 0; -ENODATA if the medium has
 *	permanently lost one of them; or another -errno.  May sleep
 * @read_each: the same for each block separately: the result of each goes to @errs.  Returns
 *	0, or -errno if no read could be started.  Only recovery uses it
 * @ctx: argument of both
 */
struct shingle_reader {
	int (*read)(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf);
	int (*read_each)(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf, int *errs);
	void *ctx;
};

/**
 * struct shingle_recovery - results of recovery
 * @ckpt_seq: number of the checkpoint that was loaded
 * @ckpt_slot: its slot, 0 or 1
 * @ckpt_chunks: number of chunks (struct shingle_chunk) of that checkpoint and of those before it
 *	in its slot, on which it builds
 * @tail_seq: first transaction that must be kept for this checkpoint
 * @tail_pos: its place in the ring
 * @next_seq: number for the next transaction
 * @next_pos: its place in the ring
 * @prev_crc: checksum of the last journal block, for the chain
 * @used_blocks: ring blocks that the replayed transactions fill
 * @torn_end: the block after the last transaction belongs to the next one and is damaged:
 *	either a power cut tore the transaction (on a disk that tears blocks), or an existing
 *	transaction was damaged.  Also set if the block cannot be read and may belong to it
 * @torn_pos: its place in the ring
 * @unread_blocks: unreadable ring blocks that the head of a write cannot have destroyed
 * @lost_reads: reads of blocks that the medium has lost, as dm-platter counts them in
 *	destroyed_reads: in a long read, and once more alone
 * @cut: the last transaction is incomplete, because the medium has lost blocks that the head
 *	of its write covered: a power cut
 * @last_blocks: blocks of the last replayed transaction, 0 if there was none
 * @unmarked: the block at @next_pos does not confirm that the last transaction was complete,
 *	or cannot be read: it must be written before the device is used
 * @hole: sound transactions of this ring lie beyond the end that was found, so some are missing
 * @max_seq: highest transaction number in the ring
 * @transactions: number of replayed transactions
 * @records: number of replayed records
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
 * struct shingle_slot_scan - content of a checkpoint slot
 * @nr: number of consecutive complete checkpoints
 * @last: footer of the last of them, if there is one
 * @first_seq: number of the checkpoint in its first block, 0 if that block is not sound
 * @end: the block of the slot behind them
 * @beyond_seq: number of the last checkpoint further on that was once complete, 0 if none
 * @beyond_journal_seq: first transaction to replay on that checkpoint
 * @torn: the block at @end is the damaged rest of a block of this slot
 * @unread: the block at @end cannot be read
 * @more: at @end or behind it are blocks of an incomplete checkpoint
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
 * struct shingle_loaded - destination of what recovery reads
 * @ops: the engine's operations
 * @engine: the engine, fresh from create, with pages if its map is paged
 * @bad: the list of unreadable blocks, empty
 * @give_up: if a record needs a page that cannot be used, give up the page and the record:
 *	the blocks that it describes cannot be found any more
 * @lost_seq: the newest checkpoint that was ever complete, if the one to start from is older
 *	and the journal contains everything since; else 0
 */
struct shingle_loaded {
	const struct shingle_engine_ops *ops;
	struct shingle_engine *engine;
	struct shingle_badlist *bad;
	bool give_up;
	u64 lost_seq;
};

/* Value of @slot of shingle_recover_slot(): the newest slot with a sound footer. */
#define SHINGLE_SLOT_NEWEST	U32_MAX

u32 shingle_journal_seal(const struct shingle_layout *l, struct shingle_journal_block *b,
			 u32 records, u64 pos, u64 seq, u32 prev_crc);
void shingle_journal_seal_empty(const struct shingle_layout *l, struct shingle_journal_block *b,
				u64 pos);
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
