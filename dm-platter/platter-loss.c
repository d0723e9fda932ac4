// SPDX-License-Identifier: GPL-2.0
/*
 * Acknowledged blocks that are lost because the device below did not take them.
 *
 * A FLUSH reports them, by failing.  Until one has, p->unreported counts them.  When a
 * drive is suspended the count goes to a table of the module, because the drive may not
 * come back: its mapped device may get another table, or be removed.  The next drive to be
 * resumed takes it from there if it belongs to the same mapped device, or lies over a part
 * of the same place on the same disk.
 *
 * Disks are known by their sequence numbers, which no two have as long as the kernel runs;
 * device numbers are given again.
 *
 * Calls are made under p->lock, which is outside of losses_lock.
 */
#include <linux/blkdev.h>
#include <linux/lockdep.h>

#include "platter.h"

#define MAX_LOSSES	64

/**
 * struct loss - blocks of a suspended drive
 * @mapped: sequence number of the mapped device
 * @disk: of the disk below, or 0
 * @from: first sector there
 * @end: first sector behind
 * @blocks: how many are lost; 0 if this is free
 * @nr: the lower, the older
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
		.blocks = p->unreported,
	};
	if (!p->dev)
		return;
	loss->disk = p->dev->bdev->bd_disk->diskseq;
	loss->from = get_start_sect(p->dev->bdev) + p->start;
	loss->end = loss->from + p->ti->len;
}

static bool same_place(const struct loss *a, const struct loss *b)
{
	return a->mapped == b->mapped ||
	       (a->disk && a->disk == b->disk && a->from < b->end && b->from < a->end);
}

/**
 * platter_loss_add - the medium did not take what had been acknowledged
 * @p: the drive
 * @blocks: how many; may be 0
 *
 * Context: under p->lock.
 */
void platter_loss_add(struct platter *p, u32 blocks)
{
	lockdep_assert_held(&p->lock);
	if (!blocks)
		return;
	platter_count(p, PC_wcache_lost_blocks, blocks);
	WRITE_ONCE(p->unreported, p->unreported + blocks);
	platter_update_fast(p);
}

/**
 * platter_loss_report - a FLUSH is here
 * @p: the drive
 *
 * Context: under p->lock.
 * Return: true if it has to fail; the next one need not.
 */
bool platter_loss_report(struct platter *p)
{
	lockdep_assert_held(&p->lock);
	if (!p->unreported)
		return false;
	WRITE_ONCE(p->unreported, 0);
	platter_update_fast(p);
	return true;
}

/**
 * platter_loss_keep - let the next drive here know of what none has reported
 * @p: the drive; no request is under way
 *
 * p->unreported stays as it is, for status and messages.
 *
 * Context: under p->lock; sleeps.
 */
void platter_loss_keep(struct platter *p)
{
	struct loss *loss, *place = losses;

	lockdep_assert_held(&p->lock);
	if (!p->unreported || p->loss_kept)
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
	p->loss_kept = true;
}

/**
 * platter_loss_take - take over what no drive here has reported before
 * @p: the drive, about to be resumed
 *
 * Context: under p->lock; sleeps.
 */
void platter_loss_take(struct platter *p)
{
	u64 blocks = p->loss_kept ? 0 : p->unreported;
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
	p->loss_kept = false;
	WRITE_ONCE(p->unreported, blocks);
	platter_update_fast(p);
}
