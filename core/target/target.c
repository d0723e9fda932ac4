// SPDX-License-Identifier: GPL-2.0
/* Constructor, suspend and resume of all targets. */
#include <linux/module.h>
#include <linux/sched/mm.h>

#include "base/device.h"
#include "base/loss.h"
#include "base/mode.h"
#include "base/shingle.h"
#include "base/wake.h"
#include "clean/clean.h"
#include "target/target.h"
#include "io/io.h"
#include "io/reads.h"
#include "log/log.h"
#include "medium/medium.h"

#define CREATE_TRACE_POINTS
#include "base/trace.h"

#define DEFAULT_COPY_BLOCKS	1024U

/* Devices in use by an active target, so that no two targets write to one of them. */
static LIST_HEAD(active_devices);
static DEFINE_MUTEX(active_lock);

/* ------------------------------------------------------------------------
 * Constructor
 */

/* End all work.  The end of each worker may have queued others, so cancel twice. */
static void end_works(struct shingle_device *d)
{
	int pass;

	/* A verify that was killed while the device was suspended may have left reads. */
	shingle_pager_stop(d);
	for (pass = 0; pass < 2; pass++) {
		cancel_delayed_work_sync(&d->log.commit_work);
		cancel_delayed_work_sync(&d->cleaner.idle_work);
		cancel_delayed_work_sync(&d->cleaner.work);
		cancel_delayed_work_sync(&d->wcache.work);
		cancel_work_sync(&d->worker.work);
		cancel_work_sync(&d->order.work);
		cancel_work_sync(&d->log.ckpt_work);
	}
	flush_work(&d->log.sb_work);
}

static void free_device(struct shingle_device *d)
{
	int i;

	/* Until then the workers may write to its devices. */
	end_works(d);
	mutex_lock(&active_lock);
	list_del_init(&d->phase.list);
	mutex_unlock(&active_lock);
	if (d->worker.wq)
		destroy_workqueue(d->worker.wq);
	if (d->cleaner.wq)
		destroy_workqueue(d->cleaner.wq);
	if (d->log.wq)
		destroy_workqueue(d->log.wq);
	if (d->order.wq)
		destroy_workqueue(d->order.wq);
	shingle_reads_exit(d);
	shingle_wcache_exit(d);
	shingle_loss_free(d);
	shingle_pager_exit(d);
	if (d->engine) {
		shingle_pages_destroy(d->engine);
		d->ops->destroy(d->engine);
	}
	shingle_journal_exit(d);
	kvfree(d->cleaner.copy_buf);
	kvfree(d->cleaner.copy_extents);
	kvfree(d->cleaner.copy_runs);
	kvfree(d->cleaner.step_rec);
	kvfree(d->log.meta_buf);
	bioset_exit(&d->disks.bios);
	free_percpu(d->cpu);
	if (!IS_ERR_OR_NULL(d->disks.io))
		dm_io_client_destroy(d->disks.io);
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (d->disks.dev[i])
			dm_put_device(d->ti, d->disks.dev[i]);
	}
	kvfree(d);
}

static int parse_devices(struct shingle_device *d, struct dm_arg_set *as)
{
	static const char *const device_is[SHINGLE_NR_DEVS] = {
		"its device is read-only: data", "its device is read-only: cache",
		"its device is read-only: metadata",
	};
	struct dm_target *ti = d->ti;
	bool ro_table = !shingle_table_writable(ti->table);
	const char *path;
	int i, err;

	d->disks.read_only = ro_table;
	if (ro_table)
		d->health.why = "its table is read-only";
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		path = dm_shift_arg(as);
		if (!path)
			return shingle_refuse(ti, -EINVAL,
					      "Too few arguments: name the %s device%s",
					      shingle_dev_names[i], i ? ", or - for none" : "");
		if (i != SHINGLE_DEV_DATA && !strcmp(path, "-"))
			continue;
		err = dm_get_device(ti, path, dm_table_get_mode(ti->table), &d->disks.dev[i]);
		if (err)
			return shingle_refuse(ti, err, "Cannot open the %s device %.100s%s",
					      shingle_dev_names[i], path,
					      ro_table ? "" : " for writing");
		/* Some kernels open a read-only device for writing. */
		if (bdev_read_only(d->disks.dev[i]->bdev)) {
			d->disks.read_only = true;
			/* The table may be read-only because of the device. */
			d->health.why = device_is[i];
		}
		if (bdev_logical_block_size(d->disks.dev[i]->bdev) > SHINGLE_BLOCK_SIZE)
			return shingle_refuse(ti, -EINVAL,
					      "The logical blocks of the %s device are larger than 4096 bytes",
					      shingle_dev_names[i]);
		d->disks.blocks[i] = bdev_nr_bytes(d->disks.dev[i]->bdev) >> SHINGLE_BLOCK_SHIFT;
	}
	return 0;
}

static int check_devices(struct shingle_device *d)
{
	const struct shingle_layout *l = &d->layout;
	struct dm_target *ti = d->ti;
	int i, j;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		bool has = d->disks.dev[i], wants = l->dev_blocks[i];

		if (has && !wants)
			return shingle_refuse(ti, -EINVAL, "No %s device belongs here: give -",
					      shingle_dev_names[i]);
		if (!has && wants)
			return shingle_refuse(ti, -EINVAL, "The %s device is missing",
					      shingle_dev_names[i]);
		if (has && d->disks.blocks[i] < l->dev_blocks[i])
			return shingle_refuse(ti, -EINVAL,
					      "The %s device has %llu blocks of 4096 bytes, fewer than the %llu at format time: restore its size",
					      shingle_dev_names[i], d->disks.blocks[i],
					      l->dev_blocks[i]);
		if (has && d->disks.blocks[i] > l->dev_blocks[i])
			DMINFO("%s: %s device: %llu blocks, %llu at format: the rest is not used",
			       dm_table_device_name(ti->table), shingle_dev_names[i],
			       d->disks.blocks[i], l->dev_blocks[i]);
		/* Use the size at format time: the second copies of the headers are at that end. */
		d->disks.blocks[i] = l->dev_blocks[i];
		for (j = 0; has && j < i; j++) {
			if (d->disks.dev[j] && d->disks.dev[j]->bdev == d->disks.dev[i]->bdev)
				return shingle_refuse(ti, -EINVAL,
						      "The %s device is the %s device, too",
						      shingle_dev_names[i], shingle_dev_names[j]);
		}
	}
	return 0;
}

static int load_layout(struct shingle_device *d)
{
	enum shingle_dev dev = d->disks.dev[SHINGLE_DEV_META] ? SHINGLE_DEV_META : SHINGLE_DEV_DATA;
	const struct shingle_reader r = { .read = shingle_reader_read, .ctx = d };
	struct dm_target *ti = d->ti;
	char member_why[SHINGLE_MEMBERS_WHY];
	const char *why;
	int err;

	err = shingle_load_sb(&r, dev, d->disks.blocks[dev], &d->layout, &why);
	if (err)
		return shingle_refuse(ti, err, "No usable superblock on the %s device: %s",
				      shingle_dev_names[dev], why);
	if (strcmp(d->layout.engine, d->ops->name))
		return shingle_refuse(ti, -EINVAL, "The device was formatted for target %s, not %s",
				      d->layout.engine, d->ops->name);
	if (d->disks.read_only)
		d->health.mode = SHINGLE_RO;
	err = check_devices(d);
	if (err)
		return err;
	err = shingle_check_members(d, member_why);
	if (err)
		return shingle_refuse(ti, err, "%s", member_why);
	if (ti->len != d->layout.logical_blocks << SHINGLE_SECTORS_SHIFT || ti->begin)
		return shingle_refuse(ti, -EINVAL,
				      "Wrong start or length: the table must say 0 %llu; resizing is not supported, another size needs 'shingle format'",
				      d->layout.logical_blocks << SHINGLE_SECTORS_SHIFT);
	err = d->ops->create(&d->engine, &d->layout, &why);
	if (err)
		return shingle_refuse(ti, err, "%s", why);
	d->engine->knows_life = SHINGLE_HAS_WRITE_HINTS;
	shingle_config_init(&d->config, d->engine);
	return 0;
}

static int alloc_buffers(struct shingle_device *d)
{
	struct shingle_cleaner *c = &d->cleaner;
	const char *why;
	int err, cpu;

	err = shingle_journal_init(d);
	if (err)
		return err;
	err = shingle_pages_give(d, d->engine, &why);
	if (err)
		return shingle_refuse(d->ti, err, "%s", why);
	err = shingle_pager_init(d);
	if (err)
		return err;
	c->copy_blocks = min(d->layout.band_blocks[SHINGLE_ROLE_DATA], DEFAULT_COPY_BLOCKS);
	c->copy_blocks = max(c->copy_blocks, d->engine->copy_blocks);
	c->copy_buf = shingle_zalloc_array(c->copy_blocks, SHINGLE_BLOCK_SIZE);
	c->copy_extents = shingle_zalloc_array(c->copy_blocks, sizeof(*c->copy_extents));
	c->copy_runs = shingle_zalloc_array(c->copy_blocks, sizeof(*c->copy_runs));
	c->step_rec_max = shingle_most_step_records(d->engine);
	if (c->step_rec_max > d->journal.room)
		return shingle_refuse(d->ti, -EINVAL,
				      "The journal has no room for a cleaning step's records");
	c->step_rec = shingle_zalloc_array(c->step_rec_max, sizeof(*c->step_rec));
	d->log.meta_buf = shingle_zalloc_array(SHINGLE_META_BATCH, SHINGLE_BLOCK_SIZE);
	d->worker.wq = alloc_workqueue("shingle-io", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	c->wq = alloc_workqueue("shingle-clean", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	d->log.wq = alloc_workqueue("shingle-ckpt", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	d->order.wq = alloc_workqueue("shingle-order", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	d->cpu = alloc_percpu(struct shingle_cpu);
	if (!d->cpu || !c->copy_buf || !c->copy_extents || !c->copy_runs || !c->step_rec ||
	    !d->log.meta_buf || !d->worker.wq || !c->wq || !d->log.wq || !d->order.wq)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		per_cpu_ptr(d->cpu, cpu)->last_io = jiffies;
	err = shingle_wcache_init(d) ?: shingle_loss_init(d) ?: shingle_reads_init(d);
	if (err)
		return err;
	return bioset_init(&d->disks.bios, BIO_POOL_SIZE, offsetof(struct shingle_piece, bio),
			   BIOSET_NEED_BVECS);
}

/*
 * The arguments are <data dev> <cache dev|-> <metadata dev|-> [<#features> <feature>... [<#keys>
 * <key> <value>...]].  The geometry is not in the table but in the superblock, which `shingle
 * format` has written.  The constructor writes nothing to the devices.
 */
static int construct(struct dm_target *ti, unsigned int argc, char **argv)
{
	const struct shingle_engine_ops *ops = container_of(ti->type, struct shingle_target,
							     type)->ops;
	struct dm_arg_set as = { .argc = argc, .argv = argv };
	struct shingle_device *d;
	int err = -ENOMEM;

	d = shingle_zalloc_array(1, sizeof(*d));
	if (!d) {
		ti->error = "Out of memory";
		return -ENOMEM;
	}
	d->ti = ti;
	d->ops = ops;
	d->phase.stopping = true;
	d->phase.suspended = true;
	INIT_LIST_HEAD(&d->phase.list);
	spin_lock_init(&d->map_lock);
	mutex_init(&d->phase.reset_lock);
	mutex_init(&d->log.commit_lock);
	mutex_init(&d->log.ckpt_lock);
	init_waitqueue_head(&d->wait);
	INIT_DELAYED_WORK(&d->log.commit_work, shingle_commit_work);
	INIT_WORK(&d->log.ckpt_work, shingle_checkpoint_work);
	INIT_WORK(&d->log.sb_work, shingle_superblock_work);
	shingle_order_init(d);
	shingle_io_init(d);
	shingle_clean_init(d);
	shingle_wcache_prepare(d);

	ti->error = "Out of memory";
	d->disks.io = dm_io_client_create();
	if (IS_ERR(d->disks.io)) {
		err = PTR_ERR(d->disks.io);
		goto bad;
	}
	if (WARN_ON_ONCE(max(ops->commit_records, ops->discard_records) + 1 > SHINGLE_MAX_EMIT ||
			 shingle_counters_nr(ops->counters) > SHINGLE_MAX_COUNTERS)) {
		err = -EINVAL;
		goto bad;
	}
	err = parse_devices(d, &as);
	if (!err)
		err = load_layout(d);
	if (!err)
		err = shingle_parse_options(d, &as);
	if (!err)
		err = shingle_finish_options(d);
	if (err)
		goto bad;
	d->gathers = d->engine->gather_blocks;
	ti->error = "Out of memory";
	err = alloc_buffers(d);
	if (err)
		goto bad;

	d->engine->in_use = true;
	ti->private = d;
	ti->per_io_data_size = sizeof(struct shingle_io);
	ti->flush_supported = true;
	ti->num_flush_bios = 1;
	ti->discards_supported = true;
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	return 0;
bad:
	free_device(d);
	return err;
}

static void destruct(struct dm_target *ti)
{
	free_device(ti->private);
}

/* ------------------------------------------------------------------------
 * Activation, suspend, resume
 */

/*
 * Another mapped device may use the same devices; but while a table is being replaced, the old and
 * the new one belong to the same mapped device.
 */
static int claim(struct shingle_device *d)
{
	struct mapped_device *md = dm_table_get_md(d->ti->table);
	struct shingle_device *o;
	int err = 0, i, j;

	mutex_lock(&active_lock);
	list_for_each_entry(o, &active_devices, phase.list) {
		if (dm_table_get_md(o->ti->table) == md)
			continue;
		for (i = 0; i < SHINGLE_NR_DEVS; i++) {
			for (j = 0; j < SHINGLE_NR_DEVS; j++) {
				if (d->disks.dev[i] && o->disks.dev[j] &&
				    d->disks.dev[i]->bdev == o->disks.dev[j]->bdev)
					err = -EBUSY;
			}
		}
		if (!err)
			continue;
		DMERR("%s: one of its devices is in use by %s; remove that first",
		      dm_table_device_name(d->ti->table), dm_table_device_name(o->ti->table));
		break;
	}
	if (!err && list_empty(&d->phase.list))
		list_add(&d->phase.list, &active_devices);
	mutex_unlock(&active_lock);
	return err;
}

/*
 * Reads the state from the disk at the first resume.  The constructor cannot, because the table
 * that this one replaces is still changing it then.
 */
static int preresume(struct dm_target *ti)
{
	struct shingle_device *d = ti->private;
	unsigned int noio;
	int err = claim(d);

	if (err)
		return err;
	if (d->phase.loaded) {
		shingle_loss_take(d, true);
		return 0;
	}
	/* The engine of a failed attempt is in an unknown state. */
	if (d->phase.load_failed) {
		DMERR("%s: activation failed before: load its table again",
		      dm_table_device_name(ti->table));
		return -EIO;
	}
	/*
	 * The table before this one is suspended: freeing memory by writing to this very device
	 * would be a deadlock.
	 */
	noio = memalloc_noio_save();
	err = shingle_load_state(d);
	memalloc_noio_restore(noio);
	spin_lock_irq(&d->map_lock);
	d->phase.loaded = !err;
	spin_unlock_irq(&d->map_lock);
	d->phase.load_failed = err;
	if (!err)
		shingle_loss_take(d, false);
	return err;
}

/* The device takes I/O from now on. */
static void resume(struct dm_target *ti)
{
	struct shingle_device *d = ti->private;

	shingle_set_disk_limits(ti, d->config.rotational);
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->phase.suspending, false);
	spin_unlock_irq(&d->map_lock);
	WRITE_ONCE(d->phase.stopping, false);
	WRITE_ONCE(d->phase.suspended, false);
	shingle_wake_cleaner(d);
	/* Blocks may be away from home since before. */
	shingle_arm_idle(d);
}

static void set_suspending(struct shingle_device *d, bool yes)
{
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->phase.suspending, yes);
	WRITE_ONCE(d->phase.presuspends, d->phase.presuspends + yes);
	spin_unlock_irq(&d->map_lock);
	wake_up_all(&d->wait);
}

/*
 * From now on dm holds I/O back until all messages have returned, so messages that may wait long
 * give up.  I/O in flight goes on.
 */
static void presuspend(struct dm_target *ti)
{
	set_suspending(ti->private, true);
}

/* The suspend was cancelled. */
static void presuspend_undo(struct dm_target *ti)
{
	set_suspending(ti->private, false);
}

/* Data that could not be committed by now are lost unless this table is resumed. */
static void end_of_log(struct shingle_device *d)
{
	const struct shingle_journal *j = &d->journal;
	bool lost;

	spin_lock_irq(&d->map_lock);
	lost = j->failed && (j->closed || j->txn[j->open].nr);
	spin_unlock_irq(&d->map_lock);
	if (lost)
		shingle_set_mode(d, SHINGLE_RO, true,
				 "it is suspended with data that could not be committed");
}

/*
 * No I/O is in flight any more.  Writes the content of the write cache and commits all that was
 * acknowledged.  Logs the number of blocks for which that fails; the next FLUSH then fails, even
 * with another table.  Interrupts a cleaning step between two pieces; it starts again after resume.
 */
static void postsuspend(struct dm_target *ti)
{
	struct shingle_device *d = ti->private;

	WRITE_ONCE(d->phase.suspended, true);
	/* While the cleaner can still make room. */
	shingle_wcache_stop(d);
	WRITE_ONCE(d->phase.stopping, true);
	wake_up_all(&d->wait);
	/* Wait for a reset in progress; the next one is refused. */
	mutex_lock(&d->phase.reset_lock);
	mutex_unlock(&d->phase.reset_lock);
	cancel_delayed_work_sync(&d->cleaner.idle_work);
	cancel_delayed_work_sync(&d->cleaner.work);
	/* The end of the cleaner may have queued any of these. */
	shingle_pager_stop(d);
	flush_work(&d->worker.work);
	shingle_reads_stop(d);
	cancel_delayed_work_sync(&d->log.commit_work);
	/* The last commit may have queued it. */
	cancel_delayed_work_sync(&d->cleaner.work);
	if (d->phase.loaded)
		shingle_commit(d, false);
	flush_work(&d->log.ckpt_work);
	end_of_log(d);
	flush_work(&d->log.sb_work);
	/* Errors of the last commit have queued another one. */
	cancel_delayed_work_sync(&d->log.commit_work);
	shingle_loss_keep(d);
}

/* ------------------------------------------------------------------------
 * Hibernation
 */

/**
 * shingle_visit_active() - call a function for each device in use by an active table
 * @fn: the function, may sleep
 *
 * A device stays in the list while it is visited.
 *
 * Context: may sleep.
 */
void shingle_visit_active(shingle_active_fn *fn)
{
	struct shingle_device *d;

	mutex_lock(&active_lock);
	list_for_each_entry(d, &active_devices, phase.list)
		fn(d);
	mutex_unlock(&active_lock);
}

static void set_held(struct shingle_device *d, bool held)
{
	lockdep_assert_held(&active_lock);
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->phase.held, held);
	spin_unlock_irq(&d->map_lock);
}

/**
 * shingle_hold() - from now on write only what the host waits for
 * @d: the device
 *
 * Writes and commits all that was acknowledged, and waits for the end of the step in progress.
 * Writes are still served, including cleaning for room: if this is the lower device of a stack, the
 * upper one writes until it is held, too.
 *
 * Context: may sleep, under active_lock.
 */
void shingle_hold(struct shingle_device *d)
{
	/* A suspended device is idle already. */
	if (!d->phase.loaded || READ_ONCE(d->phase.suspended) || d->phase.held)
		return;
	shingle_wcache_drain(d);
	set_held(d, true);
	cancel_delayed_work_sync(&d->cleaner.idle_work);
	flush_delayed_work(&d->cleaner.work);
	cancel_delayed_work_sync(&d->log.commit_work);
	shingle_commit(d, false);
	flush_work(&d->log.ckpt_work);
	flush_work(&d->log.sb_work);
}

/**
 * shingle_let_go() - undo shingle_hold()
 * @d: the device
 *
 * Context: may sleep, under active_lock.
 */
void shingle_let_go(struct shingle_device *d)
{
	if (!d->phase.held)
		return;
	set_held(d, false);
	if (READ_ONCE(d->phase.suspended))
		return;		/* Resume does the rest. */
	/* Writes that came meanwhile have set no timer. */
	mod_delayed_work(d->worker.wq, &d->log.commit_work, 0);
	shingle_wcache_look(d);
	shingle_wake_cleaner(d);
	shingle_arm_idle(d);
}

static int iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct shingle_device *d = ti->private;
	int i, r = 0;

	for (i = 0; !r && i < SHINGLE_NR_DEVS; i++) {
		if (d->disks.dev[i])
			r = fn(ti, d->disks.dev[i], 0,
			       d->disks.blocks[i] << SHINGLE_SECTORS_SHIFT, data);
	}
	return r;
}

/* The limits of a queue are 32-bit numbers of bytes. */
#define MAX_LIMIT_BLOCKS	(1U << (31 - SHINGLE_BLOCK_SHIFT))

/*
 * 1 MiB: the kernel reads ahead twice as much, about one and a half tracks.  Then a reader that
 * gets the drive back after others waits about as long for the head as for the data.  Without the
 * hint readers on older kernels would get 128 KiB.  With the size of a band, which means nothing to
 * a reader, they would get hundreds of milliseconds of data that they may not want.  It is a power
 * of two, since mkfs uses it as the width of a stripe.
 */
#define READ_BLOCKS		256U

/* The optimal size of I/O for an engine that gathers writes is its unit. */
static void io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct shingle_device *d = ti->private;
	u32 best = d->gathers ? d->engine->gather_blocks : READ_BLOCKS;
	bool aligned = true;
	int i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		aligned &= !d->disks.dev[i] ||
			   shingle_aligned(d->disks.dev[i]->bdev, SHINGLE_BLOCK_SIZE);
	shingle_limit_blocks(limits, SHINGLE_BLOCK_SIZE, aligned);
	limits->io_opt = min(best, MAX_LIMIT_BLOCKS) << SHINGLE_BLOCK_SHIFT;
	/* Not the band: smaller discards are useful, see trimlist.h. */
	shingle_limit_discards(limits, UINT_MAX & ~(SHINGLE_BLOCK_SECTORS - 1),
			       SHINGLE_BLOCK_SIZE);
	shingle_limit_write_zeroes(limits, UINT_MAX & ~(SHINGLE_BLOCK_SECTORS - 1));
	shingle_limit_disk(limits, d->config.rotational);
}

/* ------------------------------------------------------------------------
 * Registration
 */

/**
 * shingle_register() - register targets with dm, all or none
 * @targets: the targets
 * @nr: number of targets
 * @owner: their module
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int shingle_register(struct shingle_target *targets, u32 nr, struct module *owner)
{
	u32 i;
	int err;

	for (i = 0; i < nr; i++) {
		targets[i].type = (struct target_type){
			.name = targets[i].name,
			.version = { 1, 0, 0 },
			.module = owner,
			.ctr = construct,
			.dtr = destruct,
			.map = shingle_map,
			.end_io = shingle_end_io,
			.presuspend = presuspend,
			.presuspend_undo = presuspend_undo,
			.postsuspend = postsuspend,
			.preresume = preresume,
			.resume = resume,
			.status = shingle_status,
			.message = shingle_message,
			.iterate_devices = iterate_devices,
			.io_hints = io_hints,
		};
		err = dm_register_target(&targets[i].type);
		if (err) {
			shingle_unregister(targets, i);
			return err;
		}
	}
	return 0;
}
EXPORT_SYMBOL_GPL(shingle_register);

/**
 * shingle_unregister() - undo shingle_register()
 * @targets: the targets
 * @nr: number of targets
 *
 * Context: may sleep.
 */
void shingle_unregister(struct shingle_target *targets, u32 nr)
{
	while (nr--)
		dm_unregister_target(&targets[nr].type);
}
EXPORT_SYMBOL_GPL(shingle_unregister);

MODULE_AUTHOR("the dm-shingle project");
MODULE_DESCRIPTION("dm-shingle: what shingled and interlaced translation targets share");
MODULE_LICENSE("GPL");
MODULE_VERSION(SHINGLE_RELEASE);
