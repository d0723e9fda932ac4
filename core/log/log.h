/* SPDX-License-Identifier: GPL-2.0 */
/* The log: the journal, checkpoints, and recovery from them. */
#ifndef SHINGLE_LOG_H
#define SHINGLE_LOG_H

#include "base/device.h"

/* journal.c */
int shingle_journal_init(struct shingle_device *d);
void shingle_journal_exit(struct shingle_device *d);
void shingle_journal_start(struct shingle_device *d, const struct shingle_recovery *rec);
bool shingle_journal_tight(const struct shingle_device *d);
void shingle_journal_full(struct shingle_device *d);
void shingle_journal_cancel(struct shingle_device *d, u32 records);
void shingle_journal_add(struct shingle_device *d, u32 reserved, const struct shingle_emit *emit);
int shingle_journal_remark(struct shingle_device *d, const struct shingle_recovery *rec);
int shingle_journal_make_room(struct shingle_device *d, u32 records);
int shingle_commit(struct shingle_device *d, bool for_checkpoint);
int shingle_flush(struct shingle_device *d);
int shingle_write_last(struct shingle_device *d, u64 block, void *buf, bool alive);
void shingle_commit_work(struct work_struct *work);

/**
 * shingle_journal_reserve() - reserve room for records in the open transaction
 * @d: the device
 * @records: number of records
 *
 * If there is no room, a commit is queued, and the waiting bios are retried after it.  If the
 * transaction is empty and all its room is reserved by writes in flight, a commit would not help:
 * then the bios are retried when a write ends.
 *
 * Context: map lock.
 * Return: false if there is no room.
 */
static inline bool shingle_journal_reserve(struct shingle_device *d, u32 records)
{
	struct shingle_journal *j = &d->journal;

	lockdep_assert_held(&d->map_lock);
	if (unlikely(j->txn[j->open].nr + j->reserved + records > j->room)) {
		shingle_journal_full(d);
		return false;
	}
	j->reserved += records;
	return true;
}

/**
 * shingle_journal_acked() - records just added point to data that were acknowledged to the host
 * @d: the device
 * @blocks: number of blocks
 *
 * Context: map lock, in the critical section of shingle_journal_add().
 */
static inline void shingle_journal_acked(struct shingle_device *d, u32 blocks)
{
	lockdep_assert_held(&d->map_lock);
	d->journal.txn[d->journal.open].acked += blocks;
}

/* checkpoint.c */
void shingle_set_like(struct shingle_device *d, struct shingle_engine *fresh);
int shingle_checkpoint(struct shingle_device *d);
int shingle_checkpoint_reset(struct shingle_device *d, struct shingle_engine **fresh);
void shingle_checkpoint_work(struct work_struct *work);
void shingle_superblock_work(struct work_struct *work);
int shingle_keep_settings(struct shingle_device *d, const struct shingle_disk_settings *s);

/* pages.c */
int shingle_pager_init(struct shingle_device *d);
void shingle_pager_stop(struct shingle_device *d);
void shingle_pager_exit(struct shingle_device *d);
int shingle_pages_give(struct shingle_device *d, struct shingle_engine *e, const char **why);
int shingle_await_page(struct shingle_device *d);
int shingle_pages_write(struct shingle_device *d, struct shingle_engine *e, u64 seq);
void shingle_pages_checkpoint_done(struct shingle_device *d, struct shingle_engine *e, bool good);
void shingle_pages_look_again(struct shingle_device *d);
bool shingle_pages_want_checkpoint(const struct shingle_device *d);

/* load.c */
#define SHINGLE_MEMBERS_WHY	(SHINGLE_MEMBER_WHY + 64)
int shingle_check_members(struct shingle_device *d, char *why);
int shingle_load_state(struct shingle_device *d);

#endif /* SHINGLE_LOG_H */
