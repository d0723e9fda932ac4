/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the files of recovery share.  Each file calls files below it only:
 *
 *	recover.c	 loads a state: the newest checkpoint, then the journal
 *	journal-scan.c	 the complete transactions of the journal, and what its end means
 *	replay.c	 what one record changes
 *	checkpoint-scan.c  the checkpoints of a device and their contents
 *	fetch.c		 pages of a map, read for an engine that lacks them
 *	journal-seal.c	 the blocks of a transaction, completed for the journal
 *	superblock.c	 the first and the last block of a device
 */
#ifndef SHINGLE_SCAN_H
#define SHINGLE_SCAN_H

#include "format/recover.h"

/* Blocks read at a time: long transfers without high-order allocations. */
#define SHINGLE_READ_BATCH	64

/* The place in the journal ring behind @pos. */
static inline u64 shingle_ring_next(const struct shingle_layout *l, u64 pos)
{
	return pos + 1 == l->journal.blocks ? 0 : pos + 1;
}

int shingle_find_checkpoint(const struct shingle_reader *r, const struct shingle_layout *l,
			    void *buf, u32 *slot, struct shingle_slot_scan *s, const char **why);
int shingle_load_checkpoint(const struct shingle_reader *r, const struct shingle_layout *l,
			    u32 slot, const struct shingle_slot_scan *s,
			    const struct shingle_loaded *to, u8 *buf, u64 *chunks);
int shingle_find_pages(const struct shingle_reader *r, const struct shingle_layout *l,
		       const struct shingle_loaded *to, struct shingle_recovery *rec);
int shingle_replay_record(const struct shingle_reader *r, const struct shingle_layout *l,
			  const struct shingle_loaded *to, const struct shingle_record *rec,
			  struct shingle_recovery *found);
int shingle_scan_journal(const struct shingle_reader *r, const struct shingle_layout *l,
			 const struct shingle_loaded *to, u8 *buf, bool accept_unread,
			 struct shingle_recovery *rec, const char **why);

#endif /* SHINGLE_SCAN_H */
