// SPDX-License-Identifier: GPL-2.0
/*
 * Acknowledged blocks that are lost because the device below failed to write them.
 *
 * A FLUSH reports them by failing.  Until then p->loss.unreported counts them.  When a drive is
 * suspended the count moves to a table of the module, because the drive may not come back:
 * its mapped device may get another table, or be removed.  The next drive that is resumed
 * takes the count from there if it belongs to the same mapped device, or overlaps the same
 * range of the same disk.
 *
 * Disks are identified by their sequence numbers, which are unique while the kernel runs;
 * device numbers are reused.
 *
 * Calls are made under p->lock, which is taken before losses_lock.  After a call that changes
 * p->loss.unreported the caller calls platter_update_fast().
 */
#include <linux/blkdev.h>
#include <linux/lockdep.h>

#include "platter.h"

#define MAX_LOSSES	64

/**
 * struct loss - lost blocks of a suspended drive
 * @mapped: sequence number of the mapped device
 * @disk: sequence number of the disk below, or 0
 * @from: first sector on the disk
 * @end: one past the last sector
 * @blocks: number of lost blocks; 0 if the entry is free
 * @nr: sequence of the entries; the lowest is the oldest
 */
struct loss {
	u64 mapped;
	u64 disk;
	sector_t from;
	sector_t end;
	u64 blocks;
	u64 nr;
};

static DEFINE_MUTEX(losses_lock);
static struct loss losses[MAX_LOSSES];
static u64 last_nr;

static void describe(struct platter *p, struct loss *loss)
{
	*loss = (struct loss){
		.mapped = dm_disk(dm_table_get_md(p->ti->table))->diskseq,
		.blocks = p->loss.unreported,
	};
	if (!p->disk.dev)
		return;
	loss->disk = p->disk.dev->bdev->bd_disk->diskseq;
	loss->from = get_start_sect(p->disk.dev->bdev) + p->disk.start;
	loss->end = loss->from + p->ti->len;
}

static bool same_place(const struct loss *a, const struct loss *b)
{
	return a->mapped == b->mapped ||
	       (a->disk && a->disk == b->disk && a->from < b->end && b->from < a->end);
}

/**
 * platter_loss_add() - acknowledged blocks could not be written to the medium
 * @p: the drive
 * @blocks: number of blocks; may be 0
 *
 * Context: under p->lock.
 */
void platter_loss_add(struct platter *p, u32 blocks)
{
	lockdep_assert_held(&p->lock);
	if (!blocks)
		return;
	platter_count(p, PC_wcache_lost_blocks, blocks);
	WRITE_ONCE(p->loss.unreported, p->loss.unreported + blocks);
}

/**
 * platter_loss_report() - handle a FLUSH
 * @p: the drive
 *
 * Context: under p->lock.
 * Return: true if the FLUSH has to fail; the next one need not.
 */
bool platter_loss_report(struct platter *p)
{
	lockdep_assert_held(&p->lock);
	if (!p->loss.unreported)
		return false;
	WRITE_ONCE(p->loss.unreported, 0);
	return true;
}

/**
 * platter_loss_keep() - store losses that no FLUSH has reported for the next drive
 * @p: the drive; no request is in flight
 *
 * p->loss.unreported keeps its value, for status and messages.
 *
 * Context: under p->lock; sleeps.
 */
void platter_loss_keep(struct platter *p)
{
	struct loss *loss, *place = losses;

	lockdep_assert_held(&p->lock);
	if (!p->loss.unreported || p->loss.kept)
		return;
	mutex_lock(&losses_lock);
	for (loss = losses; loss < losses + MAX_LOSSES; loss++) {
		if (!loss->blocks) {
			place = loss;
			break;
		}
		if (loss->nr < place->nr)
			place = loss;
	}
	if (place->blocks)
		DMWARN("forgetting %llu lost blocks that no FLUSH has reported",
		       place->blocks);
	describe(p, place);
	place->nr = ++last_nr;
	mutex_unlock(&losses_lock);
	p->loss.kept = true;
}

/**
 * platter_loss_take() - take over losses that an earlier drive has not reported
 * @p: the drive, about to be resumed
 *
 * Context: under p->lock; sleeps.
 */
void platter_loss_take(struct platter *p)
{
	u64 blocks = p->loss.kept ? 0 : p->loss.unreported;
	struct loss self, *loss;

	lockdep_assert_held(&p->lock);
	describe(p, &self);
	mutex_lock(&losses_lock);
	for (loss = losses; loss < losses + MAX_LOSSES; loss++) {
		if (loss->blocks && same_place(loss, &self)) {
			blocks += loss->blocks;
			loss->blocks = 0;
		}
	}
	mutex_unlock(&losses_lock);
	p->loss.kept = false;
	WRITE_ONCE(p->loss.unreported, blocks);
}
