// SPDX-License-Identifier: GPL-2.0
/* Consistent copies of a store that is in use. */
#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "entry.h"
#include "store.h"

/* Size of one batch. */
#define COPY_BYTES	(64U << 10)

static int stopped(struct kv *kv)
{
	bool stop;

	pthread_mutex_lock(&kv->lock);
	stop = kv->worker.stop;
	pthread_mutex_unlock(&kv->lock);
	return stop ? kv_says(-ECANCELED, "the store is being closed") : 0;
}

/**
 * struct copy - a running checkpoint
 * @kv: the store that is copied
 * @to: the copy
 * @snap: snapshot of @kv that is copied
 * @last: last key that was copied
 * @any: @last is valid
 * @batch: the next batch to write
 */
struct copy {
	struct kv *kv, *to;
	struct kv_snapshot *snap;
	struct buffer last;
	bool any;
	struct kv_batch batch;
};

/*
 * Copy keys behind @last, about a band of them.  A new iterator each time, so that bands of the
 * store are not held for longer.
 */
static int copy_some(struct copy *c, bool *more)
{
	const void *key, *value;
	size_t key_bytes, bytes;
	struct kv_iter *it;
	u64 done = 0;
	int err = stopped(c->kv) ?: kv_iter_new(c->kv, c->snap, &it);

	if (err)
		return err;
	err = kv_iter_seek(it, c->last.data, c->last.used);
	for (; !err && done < c->kv->head.band_bytes; err = err ?: kv_iter_next(it)) {
		key = kv_iter_key(it, &key_bytes);
		value = kv_iter_value(it, &bytes);
		if (c->any && !slice_cmp(slice(key, key_bytes), buffer_slice(&c->last)))
			continue;
		err = kv_batch_put(&c->batch, key, key_bytes, value, bytes) ?:
			buffer_set(&c->last, slice(key, key_bytes));
		c->any = true;
		done += key_bytes + bytes;
		if (!err && c->batch.buf.used >= min(COPY_BYTES, c->to->head.band_bytes / 16)) {
			err = kv_write(c->to, &c->batch, 0);
			kv_batch_clear(&c->batch);
		}
	}
	*more = !err;
	err = err == -ENOENT ? 0 : err;
	if (!err) {
		err = kv_write(c->to, &c->batch, 0);
		kv_batch_clear(&c->batch);
	}
	kv_iter_free(it);
	return err;
}

/**
 * checkpoint_to() - copy a store
 * @kv: the store
 * @disk: disk of the copy; closed in any case
 * @opt: see kv_checkpoint()
 * @uuid: UUID of the copy
 *
 * Return: 0 or -errno with the message set.
 */
int checkpoint_to(struct kv *kv, struct kv_disk *disk, const struct kv_format_options *opt,
		  const u8 *uuid)
{
	struct kv_format_options shape = { .size = sizeof(shape) };
	struct copy c = { .kv = kv };
	bool more = true;
	int err = take_sized(&shape, sizeof(shape), opt, opt ? opt->size : 0,
			     "kv_format_options");

	if (!err && kv->recovery.err)
		err = kv_says(kv->recovery.err, "%s has lost a part of its log: %s",
			      kv->disk->name, kv->recovery.text);
	if (err) {
		disk->ops->close(disk);
		return err;
	}
	shape.size = sizeof(shape);
	if (!opt)
		shape.organisation = kv->head.organisation;
	shape.band_bytes = shape.band_bytes ?: kv->head.band_bytes;
	c.snap = kv_snapshot_new(kv);
	if (!c.snap) {
		disk->ops->close(disk);
		return kv_no_memory();
	}
	err = store_begin(&c.to, disk, &shape, uuid);
	while (!err && more)
		err = copy_some(&c, &more);
	if (c.to && err)
		store_give_up(c.to);
	else if (c.to)
		err = store_finish(c.to);
	kv_snapshot_free(kv, c.snap);
	free(c.last.data);
	free(c.batch.buf.data);
	return err;
}

/* Find the name of the copy: @path, or a file in the directory @path.  A new file gets its size. */
static int make_file(const struct kv *kv, const struct kv_format_options *opt, const char *path,
		     char *file, size_t size, bool *made)
{
	u64 bytes = opt && opt->bytes ? opt->bytes : kv->head.device_bytes;
	char uuid[UUID_STR_LEN];
	struct stat st;
	int fd, n, err = 0;

	*made = false;
	uuid_unparse_lower(kv->head.uuid, uuid);
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		n = snprintf(file, size, "%s/%s.kv", path, uuid);
	else
		n = snprintf(file, size, "%s", path);
	if (n < 0 || (size_t)n >= size)
		return kv_says(-ENAMETOOLONG, "%s: the name is too long", path);
	if (!stat(file, &st) && !(S_ISREG(st.st_mode) && !st.st_size))
		return 0;
	fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	*made = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(file, O_RDWR | O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		err = kv_says(-errno, "%s cannot be created: %s", file, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (err && *made)
		unlink(file);
	return err;
}

/* Sync the directory of a file, which makes the name of a new file durable. */
static int sync_folder(const char *file)
{
	char *copy = strdup(file);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, err = 0;

	if (!copy)
		return kv_no_memory();
	if (fd < 0 || fsync(fd))
		err = kv_says(-errno, "the directory of %s: %s", file, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(copy);
	return err;
}

EXPORTED int kv_checkpoint(struct kv *kv, const char *path, const struct kv_format_options *opt)
{
	struct kv_format_options all = { .size = sizeof(all) };
	struct kv_disk *disk;
	char file[4096];
	uuid_t uuid;
	bool made;
	int err = store_ours(kv) ?:
		take_sized(&all, sizeof(all), opt, opt ? opt->size : 0, "kv_format_options") ?:
		make_file(kv, opt ? &all : NULL, path, file, sizeof(file), &made);

	if (err)
		return err;
	uuid_generate_random(uuid);
	err = disk_open(&disk, file, true);
	all.size = sizeof(all);
	err = err ?: checkpoint_to(kv, disk, opt ? &all : NULL, uuid);
	if (made)
		err = err ?: sync_folder(file);
	if (err && made)
		unlink(file);
	return err;
}
