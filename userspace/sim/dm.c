// SPDX-License-Identifier: GPL-2.0
/* Device-mapper: tables, suspend and resume, the way of a bio through a target. */
#include "private.h"

#define MAX_TARGETS	8U
#define MAX_DEVS	4U

/**
 * struct dm_table - a table
 * @md: its device
 * @mode: for reading, or for writing, too
 * @nr: number of targets
 * @targets: the targets
 * @nr_devs: number of devices that its targets have opened
 * @devs: these devices
 * @sectors: its size
 * @bios: clones, with a struct dm_target_io and the data of a target in front of each
 */
struct dm_table {
	struct mapped_device *md;
	blk_mode_t mode;
	u32 nr;
	struct dm_target targets[MAX_TARGETS];
	u32 nr_devs;
	struct dm_dev devs[MAX_TARGETS * MAX_DEVS];
	u32 users[MAX_TARGETS * MAX_DEVS];
	sector_t sectors;
	struct bio_set bios;
};

/**
 * struct mapped_device - a mapped device
 * @name: its name, also the path of its bdev
 * @bdev: the device
 * @live: the table in use, or NULL
 * @next: the table of the next resume, or NULL
 * @suspended: it is suspended, or was never resumed
 * @blocked: new bios wait
 * @waiting: these bios
 * @work: submits them
 * @wq: runs @work
 * @in_flight: bios of the host that the targets have
 * @readers: calls of a target that began in each set, see sync_readers()
 * @set: the set that a new reader joins
 * @wait: threads that wait for @in_flight or @readers
 * @lock: one suspend, resume or removal at a time
 */
struct mapped_device {
	char name[DM_NAME_LEN];
	struct block_device bdev;
	struct dm_table *live;
	struct dm_table *next;
	bool suspended;
	bool blocked;
	struct bio_list waiting;
	struct work_struct work;
	struct workqueue_struct *wq;
	u32 in_flight;
	u32 readers[2];
	u8 set;
	wait_queue_head_t wait;
	struct mutex lock;
};

/**
 * struct dm_io - a bio of the host, or the first part of it
 * @md: its device
 * @orig: the bio
 * @left: clones in flight, and one until all are submitted
 * @status: the first error
 */
struct dm_io {
	struct mapped_device *md;
	struct bio *orig;
	u32 left;
	blk_status_t status;
};

/**
 * struct dm_target_io - a clone for a target
 * @io: the bio of which it is a part
 * @ti: the target
 * @len: its sectors, which dm_accept_partial_bio() changes; NULL once the target has remapped it
 * @clone: last member
 */
struct dm_target_io {
	struct dm_io *io;
	struct dm_target *ti;
	unsigned int *len;
	struct bio clone;
};

static struct list_head types = LIST_HEAD_INIT(types);
static struct block_device *bdevs[64];
static u32 disks;

/* ------------------------------------------------------------------------
 * Devices and targets by name
 */

static struct block_device *find_bdev(const char *path)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bdevs); i++) {
		if (bdevs[i] && !strcmp(bdevs[i]->name, path))
			return bdevs[i];
	}
	return NULL;
}

void sim_bdev_add(struct block_device *bdev)
{
	u32 i;

	bdev->disk = (struct gendisk){ .diskseq = ++disks, .major = 253, .first_minor = disks };
	bdev->bd_disk = &bdev->disk;
	for (i = 0; i < ARRAY_SIZE(bdevs); i++) {
		if (!bdevs[i]) {
			bdevs[i] = bdev;
			return;
		}
	}
	sim_fail("too many block devices");
}

void sim_bdev_remove(struct block_device *bdev)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bdevs); i++) {
		if (bdevs[i] == bdev)
			bdevs[i] = NULL;
	}
}

int dm_register_target(struct target_type *type)
{
	list_add_tail(&type->list, &types);
	return 0;
}

void dm_unregister_target(struct target_type *type)
{
	list_del(&type->list);
}

static struct target_type *find_type(const char *name)
{
	struct target_type *type;

	list_for_each_entry(type, &types, list) {
		if (!strcmp(type->name, name))
			return type;
	}
	return NULL;
}

static void take_bio(void *owner, struct bio *bio);

/* Mapped devices and registered targets were in memory; disks stay. */
void sim_dm_reboot(void)
{
	u32 i;

	INIT_LIST_HEAD(&types);
	for (i = 0; i < ARRAY_SIZE(bdevs); i++) {
		if (bdevs[i] && bdevs[i]->submit == take_bio)
			bdevs[i] = NULL;
	}
}

/* ------------------------------------------------------------------------
 * What targets call
 */

int dm_get_device(struct dm_target *ti, const char *path, blk_mode_t mode, struct dm_dev **dev)
{
	struct block_device *bdev = find_bdev(path);
	struct dm_table *t = ti->table;
	u32 i;

	if (!bdev)
		return -ENODEV;
	if (mode & BLK_OPEN_WRITE && bdev->read_only)
		return -EACCES;
	for (i = 0; i < t->nr_devs && t->devs[i].bdev != bdev; i++)
		;
	if (i == ARRAY_SIZE(t->devs))
		return -ENOMEM;
	if (i == t->nr_devs) {
		t->nr_devs++;
		t->devs[i].bdev = bdev;
		t->devs[i].mode = mode;
		t->users[i] = 0;
		scnprintf(t->devs[i].name, sizeof(t->devs[i].name), "%d:%d", bdev->disk.major,
			  bdev->disk.first_minor);
	}
	t->users[i]++;
	*dev = &t->devs[i];
	return 0;
}

void dm_put_device(struct dm_target *ti, struct dm_dev *dev)
{
	struct dm_table *t = ti->table;

	if (!t->users[dev - t->devs]--)
		sim_fail("a device is put more often than it was got");
}

blk_mode_t dm_table_get_mode(struct dm_table *t)
{
	return t->mode;
}

sector_t dm_table_get_size(struct dm_table *t)
{
	return t->sectors;
}

struct mapped_device *dm_table_get_md(struct dm_table *t)
{
	return t->md;
}

const char *dm_table_device_name(struct dm_table *t)
{
	return t->md->name;
}

void dm_table_event(struct dm_table *t)
{
}

struct gendisk *dm_disk(struct mapped_device *md)
{
	return &md->bdev.disk;
}

int dm_suspended(struct dm_target *ti)
{
	return ti->table->md->suspended;
}

const char *dm_shift_arg(struct dm_arg_set *as)
{
	if (!as->argc)
		return NULL;
	as->argc--;
	return *as->argv++;
}

int dm_read_arg(const struct dm_arg *arg, struct dm_arg_set *as, unsigned int *value,
		char **error)
{
	const char *word = dm_shift_arg(as);
	u32 v;

	if (!word || kstrtou32(word, 10, &v) || v < arg->min || v > arg->max) {
		*error = arg->error;
		return -EINVAL;
	}
	*value = v;
	return 0;
}

int dm_read_arg_group(const struct dm_arg *arg, struct dm_arg_set *as, unsigned int *argc,
		      char **error)
{
	int err = dm_read_arg(arg, as, argc, error);

	if (!err && *argc > as->argc) {
		*error = arg->error;
		return -EINVAL;
	}
	return err;
}

static struct dm_target_io *tio_of(struct bio *bio)
{
	return container_of(bio, struct dm_target_io, clone);
}

void *dm_per_bio_data(struct bio *bio, size_t size)
{
	return (char *)bio - offsetof(struct dm_target_io, clone) - round_up(size, 16);
}

void dm_accept_partial_bio(struct bio *bio, unsigned int sectors)
{
	struct dm_target_io *tio = tio_of(bio);

	if (!tio->len)
		sim_fail("dm_accept_partial_bio() after the target's map");
	if (sectors > bio_sectors(bio) || bio->bi_opf & REQ_PREFLUSH)
		sim_fail("dm_accept_partial_bio() with %u of %u sectors", sectors,
			 bio_sectors(bio));
	*tio->len -= bio_sectors(bio) - sectors;
	bio->bi_iter.bi_size = sectors << SECTOR_SHIFT;
}

/* ------------------------------------------------------------------------
 * The way of a bio
 */

/* The bio waits, for a resume or for the worker. */
static void keep_bio(struct mapped_device *md, struct bio *bio)
{
	bio_list_add(&md->waiting, bio);
	queue_work(md->wq, &md->work);
}

static void waiting_work(struct work_struct *work)
{
	struct mapped_device *md = container_of(work, struct mapped_device, work);
	struct bio *bio;

	while (!md->blocked && (bio = bio_list_pop(&md->waiting)))
		submit_bio_noacct(bio);
}

static void put_io(struct dm_io *io, blk_status_t status)
{
	struct mapped_device *md = io->md;
	struct bio *bio = io->orig;

	if (status && !io->status)
		io->status = status;
	if (--io->left)
		return;
	status = io->status;
	sim_free(io);
	md->in_flight--;
	wake_up_all(&md->wait);
	if (!status && bio->bi_opf & REQ_PREFLUSH && bio->bi_iter.bi_size) {
		/* The flush is over, the data follow. */
		bio->bi_opf &= ~REQ_PREFLUSH;
		keep_bio(md, bio);
		return;
	}
	if (status)
		bio->bi_status = status;
	bio_endio(bio);
}

static void clone_endio(struct bio *bio)
{
	struct dm_target_io *tio = tio_of(bio);
	blk_status_t status = bio->bi_status;
	struct dm_io *io = tio->io;

	if (tio->ti->type->end_io &&
	    tio->ti->type->end_io(tio->ti, bio, &status) == DM_ENDIO_INCOMPLETE)
		return;
	bio_put(bio);
	put_io(io, status);
}

static struct dm_target_io *new_clone(struct dm_io *io, struct dm_target *ti, unsigned int *len)
{
	struct bio *clone = bio_alloc_clone(&io->md->bdev, io->orig, GFP_NOIO, &ti->table->bios);
	struct dm_target_io *tio = tio_of(clone);

	tio->io = io;
	tio->ti = ti;
	tio->len = len;
	clone->bi_end_io = clone_endio;
	io->left++;
	return tio;
}

static void map_clone(struct dm_target_io *tio)
{
	struct bio *clone = &tio->clone;
	struct dm_io *io = tio->io;
	int r = tio->ti->type->map(tio->ti, clone);

	switch (r) {
	case DM_MAPIO_SUBMITTED:
		break;
	case DM_MAPIO_REMAPPED:
		tio->len = NULL;
		submit_bio_noacct(clone);
		break;
	case DM_MAPIO_KILL:
		bio_put(clone);
		put_io(io, BLK_STS_IOERR);
		break;
	default:
		sim_fail("a target's map returns %d", r);
	}
}

static struct dm_target *target_at(struct dm_table *t, sector_t sector)
{
	u32 i;

	for (i = 0; i < t->nr; i++) {
		if (sector - t->targets[i].begin < t->targets[i].len)
			return &t->targets[i];
	}
	return NULL;
}

static void map_flush(struct dm_io *io, struct dm_table *t)
{
	u32 i, k;

	for (i = 0; i < t->nr; i++) {
		for (k = 0; k < t->targets[i].num_flush_bios; k++) {
			unsigned int len = 0;
			struct dm_target_io *tio = new_clone(io, &t->targets[i], &len);

			tio->clone.bi_opf = REQ_OP_WRITE | REQ_PREFLUSH | REQ_SYNC;
			tio->clone.bi_iter.bi_size = 0;
			tio->clone.bi_iter.bi_sector = t->targets[i].begin;
			map_clone(tio);
		}
	}
}

/* Map the first part of a bio; the rest arrives as another bio. */
static void map_part(struct dm_io *io, struct dm_table *t)
{
	struct bio *bio = io->orig;
	unsigned int all = bio_sectors(bio), len;
	struct dm_target *ti = target_at(t, bio->bi_iter.bi_sector);
	struct dm_target_io *tio;

	if (!ti) {
		io->status = BLK_STS_IOERR;
		return;
	}
	if ((bio_op(bio) == REQ_OP_DISCARD && !ti->num_discard_bios) ||
	    (bio_op(bio) == REQ_OP_WRITE_ZEROES && !ti->num_write_zeroes_bios)) {
		io->status = BLK_STS_NOTSUPP;
		return;
	}
	len = min_t(u64, all, ti->begin + ti->len - bio->bi_iter.bi_sector);
	if (ti->max_io_len && bio_has_data(bio))
		len = min_t(u64, len, ti->max_io_len -
			    (bio->bi_iter.bi_sector - ti->begin) % ti->max_io_len);
	tio = new_clone(io, ti, &len);
	tio->clone.bi_iter.bi_size = len << SECTOR_SHIFT;
	map_clone(tio);
	if (len == all)
		return;
	bio_trim(bio, len, all - len);
	bio_inc_remaining(bio);
	submit_bio_noacct(bio);
}

static u8 read_begin(struct mapped_device *md)
{
	md->readers[md->set]++;
	return md->set;
}

static void read_end(struct mapped_device *md, u8 set)
{
	md->readers[set]--;
	wake_up_all(&md->wait);
}

/* Wait for the calls of targets that have begun. */
static void sync_readers(struct mapped_device *md)
{
	u8 old = md->set;

	md->set = !old;
	wait_event(md->wait, !md->readers[old]);
}

static void take_bio(void *owner, struct bio *bio)
{
	struct mapped_device *md = owner;
	u8 set = read_begin(md);
	struct dm_io *io;

	if (md->blocked || !md->live) {
		bio_list_add(&md->waiting, bio);
	} else {
		io = sim_alloc(1, sizeof(*io), GFP_NOIO);
		io->md = md;
		io->orig = bio;
		io->left = 1;
		md->in_flight++;
		if (bio->bi_opf & REQ_PREFLUSH)
			map_flush(io, md->live);
		else
			map_part(io, md->live);
		put_io(io, 0);
	}
	read_end(md, set);
}

/* ------------------------------------------------------------------------
 * Tables
 */

static void free_table(struct dm_table *t)
{
	u32 i;

	if (!t)
		return;
	for (i = 0; i < t->nr; i++) {
		if (t->targets[i].type->dtr)
			t->targets[i].type->dtr(&t->targets[i]);
	}
	for (i = 0; i < t->nr_devs; i++) {
		if (t->users[i])
			sim_fail("%s: a device was not put", t->md->name);
	}
	bioset_exit(&t->bios);
	sim_free(t);
}

static int stack_limits(struct dm_target *ti, struct dm_dev *dev, sector_t start, sector_t len,
			void *data)
{
	const struct queue_limits *below = &dev->bdev->limits;
	struct queue_limits *l = data;

	if (start + len > bdev_nr_sectors(dev->bdev))
		return -EINVAL;
	l->logical_block_size = max(l->logical_block_size, below->logical_block_size);
	l->physical_block_size = max(l->physical_block_size, below->physical_block_size);
	l->features |= below->features;
	return 0;
}

/* The most words of a message or of a target's arguments. */
#define MOST_WORDS	64U

/* Split a text at its blanks, in place; returns the number of words. */
static unsigned int split(char *text, char **words)
{
	unsigned int n = 0;
	char *next;

	for (next = strtok(text, " "); next && n < MOST_WORDS; next = strtok(NULL, " "))
		words[n++] = next;
	return n;
}

static int add_target(struct dm_table *t, const struct sim_line *line, char *why, size_t size)
{
	struct dm_target *ti = &t->targets[t->nr];
	char *words[MOST_WORDS], *text = kstrdup(line->params, GFP_KERNEL);
	int err;

	*ti = (struct dm_target){ .table = t, .begin = line->start, .len = line->len,
				  .error = "Unknown error" };
	ti->type = find_type(line->target);
	if (!ti->type) {
		scnprintf(why, size, "unknown target type %s", line->target);
		sim_free(text);
		return -EINVAL;
	}
	err = ti->type->ctr(ti, split(text, words), words);
	sim_free(text);
	if (err) {
		scnprintf(why, size, "%s (%d)", ti->error, err);
		return err;
	}
	t->nr++;
	t->sectors = max(t->sectors, line->start + line->len);
	return 0;
}

/* ``dmsetup load``. */
int sim_dm_load(struct mapped_device *md, const struct sim_line *lines, u32 nr, bool read_only,
		char *why, size_t size)
{
	struct dm_table *t = sim_alloc(1, sizeof(*t), GFP_KERNEL), *old;
	struct queue_limits limits = { .logical_block_size = SECTOR_SIZE,
				       .physical_block_size = SECTOR_SIZE };
	u32 i, pad = 0;
	int err = 0;

	t->md = md;
	t->mode = BLK_OPEN_READ | (read_only ? 0 : BLK_OPEN_WRITE);
	for (i = 0; !err && i < nr; i++)
		err = add_target(t, &lines[i], why, size);
	for (i = 0; !err && i < t->nr; i++) {
		struct dm_target *ti = &t->targets[i];

		pad = max(pad, (u32)round_up(ti->per_io_data_size, 16));
		if (ti->type->iterate_devices &&
		    ti->type->iterate_devices(ti, stack_limits, &limits)) {
			scnprintf(why, size, "a device is too small");
			err = -EINVAL;
		}
		if (!err && ti->type->io_hints)
			ti->type->io_hints(ti, &limits);
	}
	bioset_init(&t->bios, 16, pad + offsetof(struct dm_target_io, clone), BIOSET_NEED_BVECS);
	if (err) {
		free_table(t);
		return err;
	}
	md->bdev.limits = limits;
	old = md->next;
	md->next = t;
	free_table(old);
	return 0;
}

#define for_each_target(ti, t) \
	for (ti = (t)->targets; (t) && ti < (t)->targets + (t)->nr; ti++)

static void each_presuspend(struct dm_table *t)
{
	struct dm_target *ti;

	for_each_target(ti, t) {
		if (ti->type->presuspend)
			ti->type->presuspend(ti);
	}
}

static void each_postsuspend(struct dm_table *t)
{
	struct dm_target *ti;

	for_each_target(ti, t) {
		if (ti->type->postsuspend)
			ti->type->postsuspend(ti);
	}
}

static int suspend_locked(struct mapped_device *md)
{
	if (md->suspended)
		return -EINVAL;
	if (md->live)
		each_presuspend(md->live);
	md->blocked = true;
	sync_readers(md);
	flush_workqueue(md->wq);
	wait_event(md->wait, !md->in_flight);
	sync_readers(md);
	md->suspended = true;
	if (md->live)
		each_postsuspend(md->live);
	return 0;
}

/* ``dmsetup suspend``. */
int sim_dm_suspend(struct mapped_device *md)
{
	int err;

	mutex_lock(&md->lock);
	err = suspend_locked(md);
	mutex_unlock(&md->lock);
	return err;
}

static int resume_locked(struct mapped_device *md)
{
	struct dm_target *ti;
	int err;

	for_each_target(ti, md->live) {
		err = ti->type->preresume ? ti->type->preresume(ti) : 0;
		if (err)
			return err;
	}
	for_each_target(ti, md->live) {
		if (ti->type->resume)
			ti->type->resume(ti);
	}
	md->blocked = false;
	md->suspended = false;
	queue_work(md->wq, &md->work);
	return 0;
}

/* ``dmsetup resume``: with the table that was loaded, if there is one. */
int sim_dm_resume(struct mapped_device *md)
{
	struct dm_table *old = NULL;
	int err = 0;

	if (md->next) {
		mutex_lock(&md->lock);
		if (!md->suspended)
			suspend_locked(md);
		old = md->live;
		sync_readers(md);
		md->live = md->next;
		md->next = NULL;
		md->bdev.sectors = md->live->sectors;
		mutex_unlock(&md->lock);
	}
	mutex_lock(&md->lock);
	if (md->suspended)
		err = md->live ? resume_locked(md) : -EINVAL;
	mutex_unlock(&md->lock);
	if (old)
		free_table(old);
	return err;
}

/* ``dmsetup create --notable``. */
struct mapped_device *sim_dm_create(const char *name)
{
	struct mapped_device *md = sim_alloc(1, sizeof(*md), GFP_KERNEL);

	strscpy(md->name, name, sizeof(md->name));
	md->bdev.name = md->name;
	md->bdev.submit = take_bio;
	md->bdev.owner = md;
	md->suspended = true;
	md->blocked = true;
	init_waitqueue_head(&md->wait);
	mutex_init(&md->lock);
	INIT_WORK(&md->work, waiting_work);
	md->wq = alloc_workqueue("kdmflush", WQ_MEM_RECLAIM, 0);
	sim_bdev_add(&md->bdev);
	return md;
}

/* ``dmsetup remove``: the host has closed the device. */
int sim_dm_remove(struct mapped_device *md)
{
	if (md->in_flight || !bio_list_empty(&md->waiting))
		return -EBUSY;
	sim_bdev_remove(&md->bdev);
	mutex_lock(&md->lock);
	if (!md->suspended && md->live) {
		each_presuspend(md->live);
		md->suspended = true;
		each_postsuspend(md->live);
	}
	mutex_unlock(&md->lock);
	sync_readers(md);
	free_table(md->live);
	free_table(md->next);
	destroy_workqueue(md->wq);
	sim_free(md);
	return 0;
}

/* ``dmsetup message``; @answer: the answer, if it is not empty. */
int sim_dm_message(struct mapped_device *md, const char *text, char *answer, size_t size)
{
	char *words[MOST_WORDS], *copy = kstrdup(text, GFP_KERNEL);
	unsigned int n = split(copy, words);
	struct dm_target *ti;
	u8 set;
	int err = -EINVAL;

	answer[0] = '\0';
	set = read_begin(md);
	ti = md->live ? target_at(md->live, 0) : NULL;
	if (ti && n && ti->type->message)
		err = ti->type->message(ti, n, words, answer, size);
	read_end(md, set);
	sim_free(copy);
	return err;
}

struct block_device *sim_dm_bdev(struct mapped_device *md)
{
	return &md->bdev;
}

int register_pm_notifier(struct notifier_block *nb)
{
	return 0;
}

void unregister_pm_notifier(struct notifier_block *nb)
{
}
