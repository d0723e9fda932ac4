// SPDX-License-Identifier: GPL-2.0
/* Constructor, status, messages, suspend and resume: the same for every target. */
#include <linux/module.h>
#include <linux/sched/mm.h>

#include "device.h"
#include "shingle.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

#define DEFAULT_COPY_BLOCKS	1024U

/* Devices in use by an active target, so that no two write to one of them. */
static LIST_HEAD(active_devices);
static DEFINE_MUTEX(active_lock);

/*
 * A constructor's error sentence must outlive the constructor, and some of ours
 * hold numbers.  Failing constructors are rare and human: a few take turns.
 */
static int refuse(struct dm_target *ti, int err, const char *fmt, ...) __printf(3, 4);
static int refuse(struct dm_target *ti, int err, const char *fmt, ...)
{
	static char text[8][192];
	static atomic_t next;
	va_list args;

	ti->error = text[(unsigned int)atomic_inc_return(&next) % ARRAY_SIZE(text)];
	va_start(args, fmt);
	vsnprintf(ti->error, sizeof(text[0]), fmt, args);
	va_end(args);
	return err;
}

static const char *const dev_names[SHINGLE_NR_DEVS] = { "data", "cache", "metadata" };

/* ------------------------------------------------------------------------
 * Reading and writing for ourselves
 */

/* Pages that one of our reads goes to: what is on the stack for them is 1 KiB. */
#define READ_PAGES	64

/* Let a read go to @buf, or to as much of it as fits.  Returns the bytes. */
static unsigned int add_buffer(struct bio *bio, const void *buf, size_t bytes)
{
	unsigned int done = 0, part;

	for (; done < bytes; done += part) {
		const void *p = buf + done;
		struct page *page = is_vmalloc_addr(p) ? vmalloc_to_page(p) : virt_to_page(p);

		part = min_t(size_t, PAGE_SIZE - offset_in_page(p), bytes - done);
		if (bio_add_page(bio, page, part, offset_in_page(p)) != part)
			break;
	}
	return done;
}

/* By bios of our own: dm_io() says of every error that it is one, and no more. */
static int read_blocks(struct block_device *bdev, blk_opf_t opf, sector_t sector, u32 n, void *buf)
{
	size_t bytes = (size_t)n << SHINGLE_BLOCK_SHIFT, at;
	struct bio_vec pages[READ_PAGES];
	unsigned int part;
	struct bio bio;
	int err = 0;

	if (is_vmalloc_addr(buf))
		flush_kernel_vmap_range(buf, bytes);
	for (at = 0; !err && at < bytes; at += part) {
		bio_init(&bio, bdev, pages, ARRAY_SIZE(pages), opf);
		bio.bi_iter.bi_sector = sector + (at >> SECTOR_SHIFT);
		part = add_buffer(&bio, buf + at, bytes - at);
		err = submit_bio_wait(&bio);
		bio_uninit(&bio);
	}
	if (is_vmalloc_addr(buf))
		invalidate_kernel_vmap_range(buf, bytes);
	return err;
}

/**
 * shingle_rw() - read or write blocks and wait
 * @d: the device
 * @opf: REQ_OP_READ or REQ_OP_WRITE with flags
 * @dev: which of its devices
 * @block: first block there
 * @n: how many
 * @buf: vmalloc or kvmalloc memory
 *
 * Context: may sleep.  Returns 0; of a read, what became of it, -ENODATA if the
 * medium has lost one of the blocks; of a write, -EIO, or -EROFS if the table is
 * read-only.
 */
int shingle_rw(struct shingle_device *d, blk_opf_t opf, enum shingle_dev dev, u64 block, u32 n,
	       void *buf)
{
	struct dm_io_region where = {
		.bdev = d->dev[dev]->bdev,
		.sector = block << SHINGLE_SECTORS_SHIFT,
		.count = (sector_t)n << SHINGLE_SECTORS_SHIFT,
	};
	struct dm_io_request req = {
		.bi_opf = opf,
		.mem.type = is_vmalloc_addr(buf) ? DM_IO_VMA : DM_IO_KMEM,
		.mem.ptr.addr = buf,
		.client = d->io,
	};
	unsigned long bits = 0;

	if ((opf & REQ_OP_MASK) == REQ_OP_READ)
		return read_blocks(where.bdev, opf, where.sector, n, buf);
	/* The block layer would let it pass.  Whoever asks has not looked at the mode. */
	if (WARN_ON_ONCE(d->read_only && op_is_write(opf)))
		return -EROFS;
	return shingle_dm_io(&req, 1, &where, &bits) || bits ? -EIO : 0;
}

static int reader_read(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf)
{
	return shingle_rw(ctx, REQ_OP_READ, dev, block, n, buf);
}

/**
 * struct each_read - blocks that are read together, each by itself
 * @left: of them under way, plus one while more are sent
 * @done: when there is none
 * @bio: of each block, NULL if there was no memory for it
 */
struct each_read {
	atomic_t left;
	struct completion done;
	struct bio *bio[];
};

static void each_put(struct each_read *r)
{
	if (atomic_dec_and_test(&r->left))
		complete(&r->done);
}

static void each_endio(struct bio *bio)
{
	each_put(bio->bi_private);
}

static int reader_read_each(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf,
			    int *errs)
{
	size_t bytes = (size_t)n << SHINGLE_BLOCK_SHIFT;
	struct shingle_device *d = ctx;
	struct each_read *r;
	u32 i;

	r = kvzalloc(struct_size(r, bio, n), GFP_KERNEL);
	if (!r)
		return -ENOMEM;
	atomic_set(&r->left, 1);
	init_completion(&r->done);
	if (is_vmalloc_addr(buf))
		flush_kernel_vmap_range(buf, bytes);
	for (i = 0; i < n; i++) {
		/* On two pages perhaps.  All are held: nothing may wait for one of them. */
		struct bio *bio = bio_alloc(d->dev[dev]->bdev, 2, REQ_OP_READ,
					    GFP_NOWAIT | __GFP_NOWARN);

		r->bio[i] = bio;
		if (!bio)
			continue;
		bio->bi_iter.bi_sector = (block + i) << SHINGLE_SECTORS_SHIFT;
		bio->bi_private = r;
		bio->bi_end_io = each_endio;
		add_buffer(bio, buf + ((size_t)i << SHINGLE_BLOCK_SHIFT), SHINGLE_BLOCK_SIZE);
		atomic_inc(&r->left);
		submit_bio(bio);
	}
	each_put(r);
	wait_for_completion_io(&r->done);
	if (is_vmalloc_addr(buf))
		invalidate_kernel_vmap_range(buf, bytes);
	for (i = 0; i < n; i++) {
		if (r->bio[i]) {
			errs[i] = blk_status_to_errno(r->bio[i]->bi_status);
			bio_put(r->bio[i]);
		} else {
			errs[i] = reader_read(ctx, dev, block + i, 1,
					      buf + ((size_t)i << SHINGLE_BLOCK_SHIFT));
		}
	}
	kvfree(r);
	return 0;
}

/**
 * shingle_set_mode() - one step down the failure ladder
 * @d: the device
 * @mode: SHINGLE_RO when changes cannot be made durable any more, SHINGLE_FAIL
 *	when the map itself cannot be trusted; never goes up
 * @check: whether the metadata may be wrong, which the superblock then says
 * @why: for the log
 *
 * Context: process.  DESIGN 4.6.
 */
void shingle_set_mode(struct shingle_device *d, enum shingle_mode mode, bool check,
		      const char *why)
{
	static const char *const text[] = { "read-write", "read-only", "failed" };
	unsigned long flags;
	bool down;

	spin_lock_irqsave(&d->map_lock, flags);
	down = mode > d->mode;
	if (down)
		WRITE_ONCE(d->mode, mode);
	spin_unlock_irqrestore(&d->map_lock, flags);
	if (!down)
		return;
	DMERR("%s: now %s: %s%s", dm_table_device_name(d->ti->table), text[mode], why,
	      check ? "; run 'shingle check' when it is inactive" : "");
	if (check) {
		WRITE_ONCE(d->needs_check, true);
		if (!d->read_only)
			queue_work(d->ckpt_wq, &d->sb_work);
	}
	shingle_fail_waiting(d);
	dm_table_event(d->ti->table);
}

/* ------------------------------------------------------------------------
 * Constructor
 */

/* No work is under way or will be.  Each may have asked for others at its end. */
static void end_works(struct shingle_device *d)
{
	int pass;

	for (pass = 0; pass < 2; pass++) {
		cancel_delayed_work_sync(&d->commit_work);
		cancel_delayed_work_sync(&d->idle_work);
		cancel_delayed_work_sync(&d->clean_work);
		cancel_delayed_work_sync(&d->wcache.work);
		cancel_work_sync(&d->work);
		cancel_work_sync(&d->order_work);
		cancel_work_sync(&d->ckpt_work);
	}
	flush_work(&d->sb_work);
}

static void free_device(struct shingle_device *d)
{
	int i;

	/* Until then they may write to its devices. */
	end_works(d);
	mutex_lock(&active_lock);
	list_del_init(&d->list);
	mutex_unlock(&active_lock);
	if (d->wq)
		destroy_workqueue(d->wq);
	if (d->clean_wq)
		destroy_workqueue(d->clean_wq);
	if (d->ckpt_wq)
		destroy_workqueue(d->ckpt_wq);
	if (d->order_wq)
		destroy_workqueue(d->order_wq);
	shingle_wcache_exit(d);
	if (d->engine)
		d->ops->destroy(d->engine);
	shingle_journal_exit(d);
	kvfree(d->copy_buf);
	kvfree(d->copy_extents);
	kvfree(d->copy_runs);
	kvfree(d->step_rec);
	kvfree(d->meta_buf);
	bioset_exit(&d->bios);
	free_percpu(d->cpu);
	if (!IS_ERR_OR_NULL(d->io))
		dm_io_client_destroy(d->io);
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (d->dev[i])
			dm_put_device(d->ti, d->dev[i]);
	}
	kvfree(d);
}

static int parse_devices(struct shingle_device *d, struct dm_arg_set *as)
{
	struct dm_target *ti = d->ti;
	bool ro_table = !shingle_table_writable(ti->table);
	const char *path;
	int i, err;

	d->read_only = ro_table;
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		path = dm_shift_arg(as);
		if (!path)
			return refuse(ti, -EINVAL, "Too few arguments: name the %s device%s",
				      dev_names[i], i ? ", or - for none" : "");
		if (i != SHINGLE_DEV_DATA && !strcmp(path, "-"))
			continue;
		err = dm_get_device(ti, path, dm_table_get_mode(ti->table), &d->dev[i]);
		if (err)
			return refuse(ti, err, "Cannot open the %s device %.100s%s", dev_names[i],
				      path, ro_table ? "" : " for writing");
		/* Some kernels open what is read-only for writing, too. */
		d->read_only |= bdev_read_only(d->dev[i]->bdev);
		d->blocks[i] = bdev_nr_bytes(d->dev[i]->bdev) >> SHINGLE_BLOCK_SHIFT;
	}
	return 0;
}

static int check_devices(struct shingle_device *d)
{
	const struct shingle_layout *l = &d->layout;
	struct dm_target *ti = d->ti;
	int i, j;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		bool has = d->dev[i], wants = l->dev_blocks[i];

		if (has && !wants)
			return refuse(ti, -EINVAL, "No %s device belongs here: give -",
				      dev_names[i]);
		if (!has && wants)
			return refuse(ti, -EINVAL, "The %s device is missing", dev_names[i]);
		if (has && d->blocks[i] != l->dev_blocks[i])
			return refuse(ti, -EINVAL,
				      "The %s device has %llu blocks of 4096 bytes, not %llu as at format time: it cannot be resized, restore its size or format anew",
				      dev_names[i], d->blocks[i], l->dev_blocks[i]);
		for (j = 0; has && j < i; j++) {
			if (d->dev[j] && d->dev[j]->bdev == d->dev[i]->bdev)
				return refuse(ti, -EINVAL, "The %s device is the %s device, too",
					      dev_names[i], dev_names[j]);
		}
	}
	return 0;
}

#define MEMBERS_WHY	(SHINGLE_MEMBER_WHY + 64)

/* Devices without superblocks say themselves whose they are.  @why: a sentence. */
static int check_members(struct shingle_device *d, char *why)
{
	const struct shingle_reader r = { .read = reader_read, .ctx = d };
	char found[SHINGLE_MEMBER_WHY];
	int i, err;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (!d->dev[i] || i == shingle_meta_dev(&d->layout))
			continue;
		err = shingle_check_member(&r, &d->layout, i, NULL, found);
		if (err) {
			snprintf(why, MEMBERS_WHY,
				 "The %s device is not the one that was formatted: %s",
				 dev_names[i], found);
			return err;
		}
	}
	return 0;
}

static int load_layout(struct shingle_device *d)
{
	enum shingle_dev dev = d->dev[SHINGLE_DEV_META] ? SHINGLE_DEV_META : SHINGLE_DEV_DATA;
	const struct shingle_reader r = { .read = reader_read, .ctx = d };
	struct dm_target *ti = d->ti;
	char member_why[MEMBERS_WHY];
	const char *why;
	int err;

	err = shingle_load_sb(&r, dev, d->blocks[dev], &d->layout, &why);
	if (err)
		return refuse(ti, err, "No usable superblock on the %s device: %s",
			      dev_names[dev], why);
	if (strcmp(d->layout.engine, d->ops->name))
		return refuse(ti, -EINVAL, "The device was formatted for target %s, not %s",
			      d->layout.engine, d->ops->name);
	if (d->read_only)
		d->mode = SHINGLE_RO;
	err = check_devices(d);
	if (err)
		return err;
	err = check_members(d, member_why);
	if (err)
		return refuse(ti, err, "%s", member_why);
	if (ti->len != d->layout.logical_blocks << SHINGLE_SECTORS_SHIFT || ti->begin)
		return refuse(ti, -EINVAL,
			      "Wrong start or length: the table must say 0 %llu; resizing is not supported, another size needs 'shingle format'",
			      d->layout.logical_blocks << SHINGLE_SECTORS_SHIFT);
	err = d->ops->create(&d->engine, &d->layout, &why);
	if (err)
		return refuse(ti, err, "%s", why);
	d->engine->knows_life = SHINGLE_HAS_WRITE_HINTS;
	d->gathers = d->engine->gather_blocks;
	shingle_config_init(&d->config, d->engine);
	return 0;
}

/* By a message. */
static int switch_wcache(struct shingle_device *d, bool on, const char **why)
{
	int err = shingle_wcache_switch(d, on);

	/* A suspend has committed all there was, and where nothing is written nothing is. */
	if (!err && !on && !d->read_only && !READ_ONCE(d->suspended))
		err = shingle_commit(d, false);
	*why = err == -EAGAIN ?
		"The write cache is off, but a suspend came before all was written: ask again" :
		"The write cache is off, but what it held could not all be written";
	return err;
}

/* A key of core's has another value: by a message, what follows from it. */
static int key_changed(struct shingle_device *d, enum shingle_key key, u32 value, const char **why)
{
	switch (key) {
	case SHINGLE_KEY_IDLE_MS:
		/* It may wait for a timer set before; it knows for how long it still has to. */
		if (value && !READ_ONCE(d->stopping))
			mod_delayed_work(d->clean_wq, &d->idle_work, 0);
		return 0;
	case SHINGLE_KEY_WCACHE:
		return switch_wcache(d, value, why);
	case SHINGLE_KEY_DESTAGE_MS:
		shingle_wcache_look(d);
		return 0;
	default:
		return 0;
	}
}

static int set_key(struct shingle_device *d, const struct shingle_option *o, const char *text,
		   const char **why)
{
	bool in_use = d->ti->private, sooner = false;
	enum shingle_key key = o - shingle_keys;
	unsigned long flags;
	u32 value;
	int err;

	err = shingle_option_check(o, text, in_use, &value, why);
	if (err)
		return err;
	if (in_use && key == SHINGLE_KEY_WCACHE && !d->wcache.blocks) {
		*why = SHINGLE_NO_WCACHE;
		return value ? -EINVAL : 0;
	}
	spin_lock_irqsave(&d->map_lock, flags);
	/* Records may wait for a timer set before, or for none.  Too early does no harm. */
	if (in_use && key == SHINGLE_KEY_COMMIT_MS)
		sooner = value && (!d->config.commit_ms || value < d->config.commit_ms);
	if (o->set)
		o->set(&d->config, value, why);
	shingle_option_put(o, &d->config, value);
	if (sooner && d->journal.txn[d->journal.open].nr && !READ_ONCE(d->suspended))
		mod_delayed_work(d->wq, &d->commit_work, 0);
	spin_unlock_irqrestore(&d->map_lock, flags);
	return in_use ? key_changed(d, key, value, why) : 0;
}

/* A feature (@value is NULL) or a key; the engine's own or core's. */
static int set_option(struct shingle_device *d, const char *name, const char *value)
{
	const struct shingle_option *o = shingle_option_find(shingle_keys, name, !value);
	struct dm_target *ti = d->ti;
	const char *why = NULL;
	unsigned long flags;
	int err;

	if (o) {
		err = set_key(d, o, value, &why);
	} else {
		spin_lock_irqsave(&d->map_lock, flags);
		err = shingle_set(d->engine, name, value, &why);
		spin_unlock_irqrestore(&d->map_lock, flags);
	}
	if (err == -ENOENT)
		return refuse(ti, -EINVAL, "Unknown %s %.64s", value ? "key" : "feature", name);
	return err ? refuse(ti, err == -EAGAIN ? err : -EINVAL, "%s", why) : 0;
}

static int parse_options(struct shingle_device *d, struct dm_arg_set *as)
{
	static const struct dm_arg features[] = {
		{ 0, 16, "Number of feature arguments must be 0 to 16, and they must follow" },
	};
	static const struct dm_arg keys[] = {
		{ 0, 32, "Number of key arguments must be even, 0 to 32, and they must follow" },
	};
	struct dm_target *ti = d->ti;
	unsigned int n;
	int err;

	if (!as->argc)
		return 0;
	err = dm_read_arg_group(features, as, &n, &ti->error);
	for (; !err && n; n--)
		err = set_option(d, dm_shift_arg(as), NULL);
	if (err || !as->argc)
		return err;
	err = dm_read_arg_group(keys, as, &n, &ti->error);
	if (!err && n % 2) {
		ti->error = keys[0].error;
		return -EINVAL;
	}
	for (; !err && n; n -= 2) {
		const char *name = dm_shift_arg(as);

		err = set_option(d, name, dm_shift_arg(as));
	}
	if (!err && as->argc) {
		ti->error = "Too many arguments: something follows the key arguments";
		return -EINVAL;
	}
	return err;
}

static int settle_options(struct shingle_device *d)
{
	const char *why;

	if (shingle_config_settle(&d->config, &why))
		return refuse(d->ti, -EINVAL, "%s", why);
	d->wcache.blocks = d->config.wcache_blocks;
	d->wcache.on = d->config.wcache;
	return 0;
}

static int alloc_buffers(struct shingle_device *d)
{
	int err, cpu;

	err = shingle_journal_init(d);
	if (err)
		return err;
	d->copy_blocks = min(d->layout.band_blocks, DEFAULT_COPY_BLOCKS);
	d->copy_blocks = max(d->copy_blocks, d->engine->copy_blocks);
	d->copy_buf = shingle_zalloc_array(d->copy_blocks, SHINGLE_BLOCK_SIZE);
	d->copy_extents = shingle_zalloc_array(d->copy_blocks, sizeof(*d->copy_extents));
	d->copy_runs = shingle_zalloc_array(d->copy_blocks, sizeof(*d->copy_runs));
	d->step_rec_max = shingle_most_step_records(d->engine);
	if (d->step_rec_max > d->journal.room)
		return refuse(d->ti, -EINVAL,
			      "The journal has no room for a cleaning step's records");
	d->step_rec = shingle_zalloc_array(d->step_rec_max, sizeof(*d->step_rec));
	d->meta_buf = shingle_zalloc_array(SHINGLE_META_BATCH, SHINGLE_BLOCK_SIZE);
	d->wq = alloc_workqueue("shingle-io", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	d->clean_wq = alloc_workqueue("shingle-clean", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	d->ckpt_wq = alloc_workqueue("shingle-ckpt", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	d->order_wq = alloc_workqueue("shingle-order", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	d->cpu = alloc_percpu(struct shingle_cpu);
	if (!d->cpu || !d->copy_buf || !d->copy_extents || !d->copy_runs || !d->step_rec ||
	    !d->meta_buf || !d->wq || !d->clean_wq || !d->ckpt_wq || !d->order_wq)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		per_cpu_ptr(d->cpu, cpu)->last_io = jiffies;
	err = shingle_wcache_init(d);
	if (err)
		return err;
	return bioset_init(&d->bios, BIO_POOL_SIZE, offsetof(struct shingle_piece, bio),
			   BIOSET_NEED_BVECS);
}

/**
 * shingle_ctr() - construct a translation target
 * @ti: the target
 * @argc: number of arguments
 * @argv: ``<data dev> <cache dev|-> <metadata dev|->
 *	[<#features> <feature>... [<#keys> <key> <value>...]]``
 * @ops: the engine
 *
 * Geometry is not in the table: it is in the superblock, which `shingle format`
 * wrote.  Nothing is written here.
 *
 * Context: may sleep.  Returns 0 or -errno with a sentence in @ti->error.
 */
int shingle_ctr(struct dm_target *ti, unsigned int argc, char **argv,
		const struct shingle_engine_ops *ops)
{
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
	d->stopping = true;
	d->suspended = true;
	INIT_LIST_HEAD(&d->list);
	spin_lock_init(&d->map_lock);
	mutex_init(&d->reset_lock);
	mutex_init(&d->commit_lock);
	mutex_init(&d->ckpt_lock);
	init_waitqueue_head(&d->wait);
	INIT_DELAYED_WORK(&d->commit_work, shingle_commit_work);
	INIT_DELAYED_WORK(&d->clean_work, shingle_clean_work);
	INIT_DELAYED_WORK(&d->idle_work, shingle_idle_work);
	INIT_WORK(&d->ckpt_work, shingle_checkpoint_work);
	INIT_WORK(&d->sb_work, shingle_superblock_work);
	shingle_io_init(d);
	shingle_wcache_prepare(d);

	ti->error = "Out of memory";
	d->io = dm_io_client_create();
	if (IS_ERR(d->io)) {
		err = PTR_ERR(d->io);
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
		err = parse_options(d, &as);
	if (!err)
		err = settle_options(d);
	if (err)
		goto bad;
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
EXPORT_SYMBOL_GPL(shingle_ctr);

/**
 * shingle_dtr() - undo shingle_ctr()
 * @ti: the target
 *
 * Context: may sleep.
 */
void shingle_dtr(struct dm_target *ti)
{
	free_device(ti->private);
}
EXPORT_SYMBOL_GPL(shingle_dtr);

/* ------------------------------------------------------------------------
 * Activation, suspend, resume
 */

/*
 * The same devices may be in use by another mapped device; but while a table is
 * being replaced, the old and the new one belong to the same.
 */
static int claim(struct shingle_device *d)
{
	struct mapped_device *md = dm_table_get_md(d->ti->table);
	struct shingle_device *o;
	int err = 0, i, j;

	mutex_lock(&active_lock);
	list_for_each_entry(o, &active_devices, list) {
		if (dm_table_get_md(o->ti->table) == md)
			continue;
		for (i = 0; i < SHINGLE_NR_DEVS; i++) {
			for (j = 0; j < SHINGLE_NR_DEVS; j++) {
				if (d->dev[i] && o->dev[j] &&
				    d->dev[i]->bdev == o->dev[j]->bdev)
					err = -EBUSY;
			}
		}
		if (!err)
			continue;
		DMERR("%s: one of its devices is in use by %s; remove that first",
		      dm_table_device_name(d->ti->table), dm_table_device_name(o->ti->table));
		break;
	}
	if (!err && list_empty(&d->list))
		list_add(&d->list, &active_devices);
	mutex_unlock(&active_lock);
	return err;
}

static int load_state(struct shingle_device *d)
{
	const struct shingle_reader r = {
		.read = reader_read, .read_each = reader_read_each, .ctx = d,
	};
	const struct shingle_loaded to = { d->ops, d->engine, &d->bad };
	const char *name = dm_table_device_name(d->ti->table), *why;
	struct shingle_recovery rec;
	char member_why[MEMBERS_WHY];
	struct shingle_layout *l;
	int err, i;

	/*
	 * If there was no power cut a drive may still hold what was written last,
	 * and write it after what comes now: a bottom after the top beside it.
	 */
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		d->dirty[i] = d->dev[i];
	shingle_flush(d);

	/* The table may have been loaded while another one was still writing. */
	l = shingle_zalloc_array(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	err = shingle_load_sb(&r, shingle_meta_dev(&d->layout),
			      d->blocks[shingle_meta_dev(&d->layout)], l, &why);
	if (!err && memcmp(l->uuid, d->layout.uuid, sizeof(l->uuid))) {
		why = "it was formatted anew after the table was loaded";
		err = -EUCLEAN;
	}
	if (!err) {
		err = check_members(d, member_why);
		why = member_why;
	}
	if (!err) {
		d->layout.sb_seq = l->sb_seq;
		d->layout.flags = l->flags;
		err = shingle_recover(&r, &d->layout, &to, &rec, &why);
	}
	kvfree(l);
	if (err) {
		DMERR("%s: cannot activate: %s (%d); run 'shingle check'", name, why, err);
		return err;
	}

	shingle_journal_start(d, &rec);
	d->ckpt_seq = rec.ckpt_seq;
	d->ckpt_slot = rec.ckpt_slot;
	d->recovering = true;
	if (rec.cut)
		DMINFO("%s: transaction %llu is not whole: a power cut in the middle of its write",
		       name, rec.next_seq);
	if (rec.torn_end)
		DMWARN("%s: transaction %llu, the last one, is damaged and dropped: %s", name,
		       rec.next_seq, shingle_journal_mark(&d->layout) ? "it was never promised" :
		       "a power cut tore it, or what it promised is lost");
	if (rec.transactions)
		DMINFO("%s: replayed %llu transactions with %llu records", name, rec.transactions,
		       rec.records);
	if (d->layout.flags & SHINGLE_SB_NEEDS_CHECK) {
		d->needs_check = true;
		DMWARN("%s: read-only: it needs 'shingle check' and 'shingle repair' first", name);
		/* Only ever down: it may be lower already. */
		spin_lock_irq(&d->map_lock);
		if (d->mode < SHINGLE_RO)
			WRITE_ONCE(d->mode, SHINGLE_RO);
		spin_unlock_irq(&d->map_lock);
	}
	if (d->mode == SHINGLE_RW && rec.unmarked) {
		err = shingle_journal_remark(d, &rec);
		if (err) {
			shingle_set_mode(d, SHINGLE_RO, false, "the journal cannot be written");
			return 0;
		}
	}
	return d->mode == SHINGLE_RW && shingle_journal_tight(d) ? shingle_checkpoint(d) : 0;
}

/**
 * shingle_preresume() - about to take I/O
 * @ti: the target
 *
 * The first time the state is read from the disk; not by the constructor,
 * because the table that this one replaces was still changing it then.
 *
 * Context: may sleep.  Returns 0 or -errno, with the reason in the log.
 */
int shingle_preresume(struct dm_target *ti)
{
	struct shingle_device *d = ti->private;
	unsigned int noio;
	int err = claim(d);

	if (err || d->loaded)
		return err;
	/* What a failed attempt left in the engine is not a place to start from. */
	if (d->spoilt) {
		DMERR("%s: activation failed before: load its table again",
		      dm_table_device_name(ti->table));
		return -EIO;
	}
	/*
	 * The table before this one is suspended: to free memory by writing to this
	 * very device would be to wait for ourselves.
	 */
	noio = memalloc_noio_save();
	err = load_state(d);
	memalloc_noio_restore(noio);
	spin_lock_irq(&d->map_lock);
	d->loaded = !err;
	spin_unlock_irq(&d->map_lock);
	d->spoilt = err;
	return err;
}
EXPORT_SYMBOL_GPL(shingle_preresume);

/**
 * shingle_resume() - taking I/O from now on
 * @ti: the target
 *
 * Context: may sleep.
 */
void shingle_resume(struct dm_target *ti)
{
	struct shingle_device *d = ti->private;

	shingle_tell_disk(ti, d->config.rotational);
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->leaving, false);
	spin_unlock_irq(&d->map_lock);
	WRITE_ONCE(d->stopping, false);
	WRITE_ONCE(d->suspended, false);
	queue_delayed_work(d->clean_wq, &d->clean_work, 0);
	/* Blocks that are away from home since before. */
	shingle_arm_idle(d);
}
EXPORT_SYMBOL_GPL(shingle_resume);

static void set_leaving(struct shingle_device *d, bool yes)
{
	spin_lock_irq(&d->map_lock);
	WRITE_ONCE(d->leaving, yes);
	WRITE_ONCE(d->leavings, d->leavings + yes);
	spin_unlock_irq(&d->map_lock);
	wake_up_all(&d->wait);
}

/**
 * shingle_presuspend() - a suspend begins
 * @ti: the target
 *
 * From the next moment on dm holds I/O back until all messages have returned: those
 * that wait for what may take long give up.  I/O still goes on here.
 *
 * Context: may sleep, does not.
 */
void shingle_presuspend(struct dm_target *ti)
{
	set_leaving(ti->private, true);
}
EXPORT_SYMBOL_GPL(shingle_presuspend);

/**
 * shingle_presuspend_undo() - the suspend came to nothing
 * @ti: the target
 *
 * Context: may sleep, does not.
 */
void shingle_presuspend_undo(struct dm_target *ti)
{
	set_leaving(ti->private, false);
}
EXPORT_SYMBOL_GPL(shingle_presuspend_undo);

/**
 * shingle_postsuspend() - no I/O is under way any more
 * @ti: the target
 *
 * What the write cache holds is written.  A cleaning step in progress is given
 * up between two pieces; it starts again after resume.
 *
 * Context: may sleep.
 */
void shingle_postsuspend(struct dm_target *ti)
{
	struct shingle_device *d = ti->private;

	WRITE_ONCE(d->suspended, true);
	/* While there is still somebody to make room. */
	shingle_wcache_stop(d);
	WRITE_ONCE(d->stopping, true);
	wake_up_all(&d->wait);
	/* A reset under way comes to its end; the next one will see. */
	mutex_lock(&d->reset_lock);
	mutex_unlock(&d->reset_lock);
	cancel_delayed_work_sync(&d->idle_work);
	cancel_delayed_work_sync(&d->clean_work);
	flush_work(&d->work);
	cancel_delayed_work_sync(&d->commit_work);
	/* It may have been asked for by the last commit. */
	cancel_delayed_work_sync(&d->clean_work);
	if (d->loaded)
		shingle_commit(d, false);
	flush_work(&d->ckpt_work);
	flush_work(&d->sb_work);
}
EXPORT_SYMBOL_GPL(shingle_postsuspend);

/* ------------------------------------------------------------------------
 * Status and messages
 */

static const char *mode_name(const struct shingle_device *d)
{
	static const char *const name[] = { "rw", "ro", "fail" };

	return name[READ_ONCE(d->mode)];
}

static unsigned int emit_info(struct shingle_device *d, char *result, unsigned int maxlen)
{
	u64 cached, capacity, used, steps;
	unsigned int sz = 0;
	bool cleaning;

	spin_lock_irq(&d->map_lock);
	cached = d->loaded ? d->ops->cached_blocks(d->engine) : 0;
	capacity = d->engine->cache_blocks;
	used = d->journal.used;
	steps = d->n.steps;
	cleaning = d->mode == SHINGLE_RW &&
		   (d->cleaning || d->pressure || d->forced || d->idle || d->epoch_open);
	spin_unlock_irq(&d->map_lock);

	DMEMIT("%llu/%llu %llu/%llu %llu %s %s %s", cached, capacity, used,
	       shingle_journal_room(&d->layout), steps,
	       cleaning ? "cleaning" : "idle",
	       READ_ONCE(d->needs_check) ? "needs_check" : "-", mode_name(d));
	return sz;
}

/* How emit_options() says them: their number, as in a table line, or to be measured. */
enum emit_as { EMIT_COUNT, EMIT_TABLE, EMIT_IMA };

/* Features or @keys of @table, as far as they are not the default; adds their words to @n. */
static unsigned int emit_some(const struct shingle_option *table, const void *of, bool keys,
			      enum emit_as as, unsigned int *n, char *result,
			      unsigned int maxlen)
{
	const struct shingle_option *o;
	unsigned int sz = 0;
	char value[32];

	for (o = table; o->name; o++) {
		if (shingle_is_feature(o) == keys ||
		    !shingle_option_show(o, of, value, sizeof(value)))
			continue;
		*n += keys ? 2 : 1;
		if (as == EMIT_IMA)
			DMEMIT(",%s=%s", o->name, keys ? value : "y");
		else if (as == EMIT_TABLE && keys)
			DMEMIT(" %s %s", o->name, value);
		else if (as == EMIT_TABLE)
			DMEMIT(" %s", o->name);
	}
	return sz;
}

/* The engine's, then every target's own; or only how many words. */
static unsigned int emit_options(const struct shingle_device *d, bool keys, enum emit_as as,
				 char *result, unsigned int maxlen)
{
	unsigned int n = 0, sz;

	lockdep_assert_held(&d->map_lock);
	sz = emit_some(d->ops->options, d->engine, keys, as, &n, result, maxlen);
	sz += emit_some(shingle_keys, &d->config, keys, as, &n, result + sz, maxlen - sz);
	return as == EMIT_COUNT ? n : sz;
}

static unsigned int emit_table(struct shingle_device *d, char *result, unsigned int maxlen)
{
	unsigned int sz = 0, keys;
	int i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		DMEMIT("%s%s", i ? " " : "", d->dev[i] ? d->dev[i]->name : "-");
	/* One lock: a message may change them, and a reset puts another engine there. */
	spin_lock_irq(&d->map_lock);
	for (keys = 0; keys < 2; keys++) {
		DMEMIT(" %u", emit_options(d, keys, EMIT_COUNT, NULL, 0));
		sz += emit_options(d, keys, EMIT_TABLE, result + sz, maxlen - sz);
	}
	spin_unlock_irq(&d->map_lock);
	return sz;
}

static void emit_ima(struct shingle_device *d, char *result, unsigned int maxlen)
{
	unsigned int sz = 0, keys;
	int i;

	DMEMIT_TARGET_NAME_VERSION(d->ti->type);
	DMEMIT(",uuid=%pUb", d->layout.uuid);
	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		DMEMIT(",%s=%s", dev_names[i], d->dev[i] ? d->dev[i]->name : "-");
	spin_lock_irq(&d->map_lock);
	for (keys = 0; keys < 2; keys++)
		sz += emit_options(d, keys, EMIT_IMA, result + sz, maxlen - sz);
	spin_unlock_irq(&d->map_lock);
	DMEMIT(";");
}

/**
 * shingle_status() - see struct target_type
 * @ti: the target
 * @type: which status
 * @flags: unused
 * @result: where to
 * @maxlen: how much fits
 *
 * INFO is ``<cached>/<capacity blocks> <used>/<all journal blocks> <steps>
 * idle|cleaning needs_check|- rw|ro|fail``.
 *
 * Context: may sleep, does not.
 */
void shingle_status(struct dm_target *ti, status_type_t type, unsigned int flags,
		    char *result, unsigned int maxlen)
{
	struct shingle_device *d = ti->private;

	switch (type) {
	case STATUSTYPE_INFO:
		emit_info(d, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		emit_table(d, result, maxlen);
		break;
	case STATUSTYPE_IMA:
		emit_ima(d, result, maxlen);
		break;
	}
}
EXPORT_SYMBOL_GPL(shingle_status);

static int emit_stats(struct shingle_device *d, char *result, unsigned int maxlen)
{
	u64 step_us[SHINGLE_STEP_KINDS], own[SHINGLE_MAX_COUNTERS];
	const struct shingle_counter *c = d->ops->counters;
	struct shingle_gauges now;
	struct shingle_counters n;
	unsigned int sz = 0;
	u32 i;

	spin_lock_irq(&d->map_lock);
	n = d->n;
	shingle_add_counters(d, &n);
	memcpy(step_us, d->step_us, sizeof(step_us));
	for (i = 0; c[i].name; i++)
		own[i] = shingle_counter_get(&c[i], d->engine) + d->carried[i];
	now.cached_blocks = d->ops->cached_blocks(d->engine);
	now.map_bytes = d->ops->map_bytes(d->engine);
	now.bad_blocks = d->bad.nr;
	now.wcache_dirty_blocks = d->wcache.nr;
	spin_unlock_irq(&d->map_lock);

	DMEMIT("mode %s\n", mode_name(d));
#define X(name) DMEMIT(#name " %llu\n", now.name)
	SHINGLE_GAUGES(X, ;);
#undef X
#define X(name) DMEMIT(#name " %llu\n", n.name)
	SHINGLE_COUNTERS(X, ;);
#undef X
	for (i = 0; i < SHINGLE_STEP_KINDS && d->ops->step_kinds[i]; i++)
		DMEMIT("step_%s_us %llu\n", d->ops->step_kinds[i], step_us[i]);
	for (i = 0; c[i].name; i++)
		DMEMIT("%s %llu\n", c[i].name, own[i]);
	return 1;
}

static void clear_stats(struct shingle_device *d)
{
	spin_lock_irq(&d->map_lock);
	shingle_clear_counters(d);
	memset(d->carried, 0, sizeof(d->carried));
	memset(d->step_us, 0, sizeof(d->step_us));
	shingle_counters_clear(d->ops->counters, d->engine);
	spin_unlock_irq(&d->map_lock);
}

static void report_verify(void *ctx, const char *fmt, ...)
{
	struct shingle_device *d = ctx;
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	va_start(args, fmt);
	vaf.va = &args;
	DMERR_LIMIT("%s: %pV", dm_table_device_name(d->ti->table), &vaf);
	va_end(args);
}

/*
 * A suspend is on its way, and with I/O held back it waits for messages, or a removal,
 * which is suspended the next moment and waits for them then.  @since: of d->leavings,
 * when the message came.
 */
static bool must_hurry(const struct shingle_device *d, u32 since)
{
	return READ_ONCE(d->leavings) != since || fatal_signal_pending(current) ||
	       (READ_ONCE(d->leaving) && !READ_ONCE(d->suspended));
}

/*
 * Part by part while I/O goes on; a reset would put another engine in its place.
 * Returns -EAGAIN if it did not come to the end, -EINTR if it was killed.
 */
static int verify_parts(struct shingle_device *d, u32 *bad)
{
	u32 since = READ_ONCE(d->leavings);
	u64 cursor = 0;

	if (mutex_lock_killable(&d->reset_lock))
		return -EINTR;
	while (cursor != SHINGLE_NOWHERE && !must_hurry(d, since)) {
		spin_lock_irq(&d->map_lock);
		*bad += d->ops->verify(d->engine, &cursor, report_verify, d);
		spin_unlock_irq(&d->map_lock);
		cond_resched();
	}
	mutex_unlock(&d->reset_lock);
	if (cursor == SHINGLE_NOWHERE)
		return 0;
	return fatal_signal_pending(current) ? -EINTR : -EAGAIN;
}

static void say_interrupted(struct shingle_device *d, const char *what)
{
	DMERR("%s: %s interrupted: a suspend came before its end, ask again",
	      dm_table_device_name(d->ti->table), what);
}

static int verify(struct shingle_device *d)
{
	u32 bad = 0;
	int err = verify_parts(d, &bad);

	if (!bad && err == -EAGAIN)
		say_interrupted(d, "verify");
	if (!bad)
		return err;
	/* Nothing that it says can be believed any more. */
	shingle_set_mode(d, SHINGLE_FAIL, true, "the map contradicts itself");
	/* If it is suspended another table may be about to read what that writes. */
	flush_work(&d->sb_work);
	return -EUCLEAN;
}

/* 0, or why nothing can be changed on the disks now. */
static int no_change(const struct shingle_device *d, const char **why)
{
	lockdep_assert_held(&d->map_lock);
	if (!d->loaded || READ_ONCE(d->suspended) || d->leaving) {
		*why = "it is suspended or was never resumed";
		return -EAGAIN;
	}
	if (d->mode == SHINGLE_FAIL) {
		*why = "it has failed";
		return -EIO;
	}
	*why = d->read_only ? "its table or a device of it is read-only" : "it is read-only";
	return d->mode == SHINGLE_RO ? -EROFS : 0;
}

/**
 * shingle_may_change() - can a message change anything on the disks now?
 * @d: the device
 * @why: if not, a sentence tail
 *
 * While the device is suspended nobody would carry it out, or it would be written
 * beside the table that takes this one's place.
 *
 * Context: process.  Returns 0; -EAGAIN before the first resume, while suspended and
 * while a suspend is on its way; -EROFS; or -EIO.
 */
int shingle_may_change(struct shingle_device *d, const char **why)
{
	int err;

	spin_lock_irq(&d->map_lock);
	err = no_change(d, why);
	spin_unlock_irq(&d->map_lock);
	return err;
}

static bool all_clean(const struct shingle_device *d)
{
	lockdep_assert_held(&d->map_lock);
	return !d->forced && !d->recovering;
}

static bool forced_over(struct shingle_device *d)
{
	bool over;

	spin_lock_irq(&d->map_lock);
	over = all_clean(d) || d->stopping || d->leaving || d->mode != SHINGLE_RW;
	spin_unlock_irq(&d->map_lock);
	return over;
}

static int clean_all(struct shingle_device *d)
{
	int err, killed;

	err = shingle_wcache_drain(d);
	if (err && err != -EIO)		/* What was lost need not be cleaned. */
		return err;
	spin_lock_irq(&d->map_lock);
	d->forced_again |= d->forced;
	d->forced = true;
	d->cleans++;
	spin_unlock_irq(&d->map_lock);
	mod_delayed_work(d->clean_wq, &d->clean_work, 0);
	killed = wait_event_killable(d->wait, forced_over(d));
	spin_lock_irq(&d->map_lock);
	err = d->mode != SHINGLE_RW ? -EROFS : all_clean(d) ? 0 : -EAGAIN;
	/* Nobody waits for the rest.  The engine does not know: it is in the middle of it. */
	if (!--d->cleans) {
		d->forced_again |= d->forced;
		d->forced = false;
	}
	spin_unlock_irq(&d->map_lock);
	return killed ?: err;
}

/* Commit or checkpoint, what was acknowledged so far included. */
static int make_durable(struct shingle_device *d, bool checkpoint)
{
	int err = shingle_wcache_drain(d);

	if (err)
		return err;
	return checkpoint ? shingle_checkpoint(d) : shingle_commit(d, false);
}

/* ``clean``, ``commit`` or ``checkpoint``. */
static int write_all(struct shingle_device *d, const char *what)
{
	const char *name = dm_table_device_name(d->ti->table), *why;
	int err = shingle_may_change(d, &why);

	if (err) {
		DMERR("%s: %s refused: %s", name, what, why);
		return err;
	}
	if (!strcmp(what, "clean"))
		err = clean_all(d);
	else
		err = make_durable(d, !strcmp(what, "checkpoint"));
	if (err == -EAGAIN)
		say_interrupted(d, what);
	else if (err)
		DMERR("%s: %s failed (%d): not all could be written", name, what, err);
	return err;
}

/* A message of several words: -ENOENT if the engine knows none of that name. */
static int engine_message(struct shingle_device *d, unsigned int argc, char **argv,
			  const char **why)
{
	struct shingle_record rec[SHINGLE_MAX_EMIT];
	struct shingle_emit emit = { .rec = rec, .max = SHINGLE_MAX_EMIT };
	u32 records = d->ops->discard_records;
	u64 done = 0;
	int err;

	if (!d->ops->message)
		return -ENOENT;
again:
	emit.nr = 0;
	for (;;) {
		spin_lock_irq(&d->map_lock);
		err = no_change(d, why);
		if (!err && d->resetting) {
			*why = "it is being reset";
			err = -EAGAIN;
		}
		if (err) {
			spin_unlock_irq(&d->map_lock);
			return err;
		}
		if (shingle_journal_reserve(d, records))
			break;
		spin_unlock_irq(&d->map_lock);
		*why = "it cannot be done now";
		err = shingle_journal_make_room(d, records);
		if (err)
			return err;
	}
	emit.seq = d->journal.seq;
	err = d->ops->message(d->engine, argc, argv, &done, &emit, why);
	shingle_journal_add(d, records, &emit);
	spin_unlock_irq(&d->map_lock);
	if (err > 0) {
		cond_resched();
		goto again;
	}
	return err;
}

static bool is_loaded(struct shingle_device *d)
{
	bool yes;

	spin_lock_irq(&d->map_lock);
	yes = d->loaded;
	spin_unlock_irq(&d->map_lock);
	return yes;
}

/**
 * shingle_message() - see struct target_type
 * @ti: the target
 * @argc: number of words
 * @argv: ``stats``, ``stats_clear``, ``clean``, ``commit``, ``checkpoint``,
 *	``verify``, ``reset``, a key and its value, or what the engine knows
 * @result: where to
 * @maxlen: how much fits
 *
 * dm sends messages while the table is being activated, and a suspend waits for
 * them with all I/O held back.
 *
 * Context: may sleep.
 */
int shingle_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
		    unsigned int maxlen)
{
	struct shingle_device *d = ti->private;
	const char *name = dm_table_device_name(ti->table), *why = "it cannot be done now";
	int err;

	if (!is_loaded(d)) {
		DMERR("%s: %s refused: it is not active yet", name, argv[0]);
		return -EAGAIN;
	}
	if (argc == 1 && !strcmp(argv[0], "stats"))
		return emit_stats(d, result, maxlen);
	if (argc == 1 && !strcmp(argv[0], "stats_clear")) {
		clear_stats(d);
		return 0;
	}
	if (argc == 1 && !strcmp(argv[0], "verify"))
		return verify(d);
	if (argc == 1 && (!strcmp(argv[0], "clean") || !strcmp(argv[0], "commit") ||
			  !strcmp(argv[0], "checkpoint")))
		return write_all(d, argv[0]);
	if (argc == 1 && !strcmp(argv[0], "reset"))
		return shingle_reset(d);
	if (argc == 2) {
		err = set_option(d, argv[0], argv[1]);
		if (err)
			DMERR("%s: %s", name, ti->error);
		else	/* It may have made room for who waits. */
			shingle_kick(d);
		return err;
	}
	err = argc > 2 ? engine_message(d, argc, argv, &why) : -ENOENT;
	if (err && err != -ENOENT)
		DMERR("%s: %s refused: %s", name, argv[0], why);
	if (err != -ENOENT)
		return err;
	DMERR("%s: unknown message %s", name, argv[0]);
	return -EINVAL;
}
EXPORT_SYMBOL_GPL(shingle_message);

/**
 * shingle_iterate_devices() - see struct target_type
 * @ti: the target
 * @fn: called for each device
 * @data: handed to @fn
 *
 * Context: may sleep.
 */
int shingle_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct shingle_device *d = ti->private;
	int i, r = 0;

	for (i = 0; !r && i < SHINGLE_NR_DEVS; i++) {
		if (d->dev[i])
			r = fn(ti, d->dev[i], 0, d->blocks[i] << SHINGLE_SECTORS_SHIFT, data);
	}
	return r;
}
EXPORT_SYMBOL_GPL(shingle_iterate_devices);

/* Limits of a queue are bytes of 32 bits. */
#define MAX_LIMIT_BLOCKS	(1U << (31 - SHINGLE_BLOCK_SHIFT))

/*
 * 1 MiB: the kernel reads ahead twice as much, some one and a half tracks.  Then a
 * reader that comes back to the drive after others waits about as long for the head
 * as for the data.  With none a reader of older kernels gets 128 KiB; with the band,
 * which says nothing to a reader, it would get hundreds of milliseconds of data that
 * it may not want.  A power of two, since mkfs takes it for the width of a stripe.
 */
#define READ_BLOCKS		256U

/**
 * shingle_io_hints() - see struct target_type
 * @ti: the target
 * @limits: of the queue
 *
 * An engine that gathers writes wants them by its unit, and that is what is told.
 *
 * Context: may sleep.
 */
void shingle_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct shingle_device *d = ti->private;
	u32 best = d->gathers ? d->engine->gather_blocks : READ_BLOCKS;

	limits->logical_block_size = SHINGLE_BLOCK_SIZE;
	limits->physical_block_size = SHINGLE_BLOCK_SIZE;
	limits->io_min = SHINGLE_BLOCK_SIZE;
	limits->io_opt = min(best, MAX_LIMIT_BLOCKS) << SHINGLE_BLOCK_SHIFT;
	/* Not the band: pieces of one count, see trimlist.h. */
	shingle_limit_discards(limits, UINT_MAX & ~(SHINGLE_BLOCK_SECTORS - 1),
			       SHINGLE_BLOCK_SIZE);
	shingle_limit_write_zeroes(limits, UINT_MAX & ~(SHINGLE_BLOCK_SECTORS - 1));
	shingle_limit_disk(limits, d->config.rotational);
}
EXPORT_SYMBOL_GPL(shingle_io_hints);

MODULE_DESCRIPTION("dm-shingle: what shingled and interlaced translation targets share");
MODULE_LICENSE("GPL");
