// SPDX-License-Identifier: GPL-2.0
/*
 * Acknowledged blocks that are lost, and that no FLUSH has reported yet.
 *
 * A device counts them in shingle_device::losses.unreported, and its next FLUSH fails.  A suspend
 * puts the count into a table of this module, by the UUID in the superblock, because the device may
 * come back with another table or another name.  The next activation of that UUID takes the count
 * from there.  The table is in memory only; the mark needs_check in the superblock, which reports a
 * journal that could not be written, survives a boot.
 */
#include "base/device.h"
#include "base/loss.h"
#include "base/mode.h"

/* Maximum of devices in the table: a further one replaces the oldest entry. */
#define MAX_KEPT	64

/**
 * struct shingle_loss - the lost blocks of one device
 * @list: in the table
 * @uuid: UUID of its superblock
 * @blocks: number of lost blocks
 * @seq: the last transaction that the device had on the disk
 */
struct shingle_loss {
	struct list_head list;
	u8 uuid[SHINGLE_UUID_SIZE];
	u64 blocks;
	u64 seq;
};

static LIST_HEAD(kept);
static unsigned int nr_kept;
static DEFINE_MUTEX(kept_lock);

static void forget(struct shingle_loss *l)
{
	lockdep_assert_held(&kept_lock);
	list_del(&l->list);
	nr_kept--;
}

static struct shingle_loss *find(const u8 *uuid)
{
	struct shingle_loss *l;

	lockdep_assert_held(&kept_lock);
	list_for_each_entry(l, &kept, list) {
		if (!memcmp(l->uuid, uuid, sizeof(l->uuid)))
			return l;
	}
	return NULL;
}

static void drop_oldest(void)
{
	struct shingle_loss *l = list_first_entry(&kept, struct shingle_loss, list);

	DMWARN("%pUb: no FLUSH has reported %llu lost blocks, and none will", l->uuid, l->blocks);
	forget(l);
	kfree(l);
}

/**
 * shingle_loss_init() - allocate the entry that a suspend may need
 * @d: the device
 *
 * Context: constructor, may sleep.
 * Return: 0 or -ENOMEM.
 */
int shingle_loss_init(struct shingle_device *d)
{
	d->losses.memory = kzalloc(sizeof(*d->losses.memory), GFP_KERNEL);
	return d->losses.memory ? 0 : -ENOMEM;
}

/**
 * shingle_loss_free() - undo shingle_loss_init()
 * @d: the device
 *
 * An entry that a suspend has put into the table stays there.
 *
 * Context: any.
 */
void shingle_loss_free(struct shingle_device *d)
{
	kfree(d->losses.memory);
}

/**
 * shingle_loss_keep() - a device is suspended: log and store the number of blocks it could not save
 * @d: the device
 *
 * Context: postsuspend, after the last commit; may sleep, allocates nothing.
 */
void shingle_loss_keep(struct shingle_device *d)
{
	struct shingle_loss *l;
	u64 blocks;

	spin_lock_irq(&d->map_lock);
	blocks = shingle_unsaved(d);
	spin_unlock_irq(&d->map_lock);
	if (!blocks)
		return;
	DMERR("%s: %llu acknowledged blocks could not be made durable",
	      dm_table_device_name(d->ti->table), blocks);
	mutex_lock(&kept_lock);
	l = find(d->layout.uuid);
	if (!l && d->losses.memory) {
		if (nr_kept == MAX_KEPT)
			drop_oldest();
		l = d->losses.memory;
		d->losses.memory = NULL;
		memcpy(l->uuid, d->layout.uuid, sizeof(l->uuid));
		list_add_tail(&l->list, &kept);
		nr_kept++;
	}
	if (l) {
		l->blocks = blocks;
		l->seq = d->journal.durable_seq;
	}
	mutex_unlock(&kept_lock);
}

/**
 * shingle_loss_take() - a device is about to take I/O: let its next FLUSH report what was lost
 * @d: the device
 * @again: the device has kept its memory since the suspend, its count included
 *
 * Context: preresume, may sleep.
 */
void shingle_loss_take(struct shingle_device *d, bool again)
{
	struct shingle_loss *l;

	mutex_lock(&kept_lock);
	l = find(d->layout.uuid);
	if (l)
		forget(l);
	mutex_unlock(&kept_lock);
	if (!l)
		return;
	/*
	 * Otherwise the device was formatted again, or is an older copy: the blocks are not of this
	 * content.
	 */
	if (!again && d->journal.durable_seq >= l->seq) {
		DMWARN("%s: %llu acknowledged blocks are lost: the next FLUSH fails",
		       dm_table_device_name(d->ti->table), l->blocks);
		spin_lock_irq(&d->map_lock);
		d->losses.unreported += l->blocks;
		spin_unlock_irq(&d->map_lock);
	}
	if (d->losses.memory)
		kfree(l);
	else
		d->losses.memory = l;
}

/**
 * shingle_loss_forget() - the module is unloaded: empty its table
 *
 * Context: module exit, may sleep.
 */
void shingle_loss_forget(void)
{
	mutex_lock(&kept_lock);
	while (nr_kept)
		drop_oldest();
	mutex_unlock(&kept_lock);
}
