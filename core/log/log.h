/* SPDX-License-Identifier: GPL-2.0 */
/* The log: the journal, checkpoints, and what is read back from them. */
#ifndef SHINGLE_LOG_H
#define SHINGLE_LOG_H

#include "base/device.h"

/* journal.c */
int shingle_journal_init(struct shingle_device *d);
void shingle_journal_exit(struct shingle_device *d);
void shingle_journal_start(struct shingle_device *d, const struct shingle_recovery *rec);
bool shingle_journal_tight(const struct shingle_device *d);
bool shingle_journal_reserve(struct shingle_device *d, u32 records);
void shingle_journal_cancel(struct shingle_device *d, u32 records);
void shingle_journal_add(struct shingle_device *d, u32 reserved, const struct shingle_emit *emit);
int shingle_journal_remark(struct shingle_device *d, const struct shingle_recovery *rec);
int shingle_journal_make_room(struct shingle_device *d, u32 records);
int shingle_commit(struct shingle_device *d, bool for_checkpoint);
int shingle_flush(struct shingle_device *d);
void shingle_commit_work(struct work_struct *work);

/* checkpoint.c */
int shingle_checkpoint(struct shingle_device *d);
int shingle_checkpoint_reset(struct shingle_device *d, struct shingle_engine **fresh);
void shingle_checkpoint_work(struct work_struct *work);
void shingle_superblock_work(struct work_struct *work);

/* load.c */
#define SHINGLE_MEMBERS_WHY	(SHINGLE_MEMBER_WHY + 64)
int shingle_check_members(struct shingle_device *d, char *why);
int shingle_load_state(struct shingle_device *d);

#endif /* SHINGLE_LOG_H */
