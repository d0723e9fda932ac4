// SPDX-License-Identifier: GPL-2.0
/* Block devices and files: safe opening, reading, writing. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <loops.h>

#include "device.h"

/* Transfers are long because a disk may lose a revolution between two of them. */
#define BOUNCE_BLOCKS	256

/* Read the first line of a small file; false if there is none. */
static bool first_line(const char *path, char *line, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(line, (int)size, f);

	if (f)
		fclose(f);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

/* Describe the user of a busy block device: a dm or md device, or a mount point. */
static void name_user(dev_t rdev, char *who, size_t size)
{
	char path[128], line[1024];
	struct dirent *entry;
	FILE *mounts;
	DIR *dir;

	snprintf(who, size, "another program or the kernel has it open");
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/holders", major(rdev), minor(rdev));
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		char name[384], held[128];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "/sys/block/%s/dm/name", entry->d_name);
		if (!first_line(name, held, sizeof(held)))
			snprintf(held, sizeof(held), "%.100s", entry->d_name);
		snprintf(who, size, "it is part of the active device '%s'", held);
	}
	if (dir)
		closedir(dir);

	mounts = fopen("/proc/self/mountinfo", "re");
	while (mounts && fgets(line, sizeof(line), mounts)) {
		unsigned int ma, mi;
		char root[256], at[256];

		if (sscanf(line, "%*d %*d %u:%u %255s %255s", &ma, &mi, root, at) == 4 &&
		    makedev(ma, mi) == rdev)
			snprintf(who, size, "it is mounted at %s", at);
	}
	if (mounts)
		fclose(mounts);
}

static bool find_size(struct device *d, const struct stat *st)
{
	u64 bytes = (u64)st->st_size;
	unsigned int sector = 0;

	if (d->is_block && ioctl(d->fd, BLKGETSIZE64, &bytes)) {
		fail("the size of %s %s is unknown: %s", d->arg, d->path, strerror(errno));
		return false;
	}
	d->blocks = bytes >> SHINGLE_BLOCK_SHIFT;
	if (d->is_block && !ioctl(d->fd, BLKSSZGET, &sector) && sector > SHINGLE_BLOCK_SIZE) {
		fail("%s %s has logical blocks of %u bytes: at most %u are supported", d->arg,
		     d->path, sector, SHINGLE_BLOCK_SIZE);
		return false;
	}
	return true;
}

/* Refuse a host-managed zoned disk, which does not allow writes at any block. */
static bool can_be_used(const struct device *d)
{
	char path[64], zoned[32];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/zoned", major(d->rdev),
		 minor(d->rdev));
	if (first_line(path, zoned, sizeof(zoned)) && !strcmp(zoned, "host-managed")) {
		fail("%s %s is a host-managed zoned disk, which accepts only sequential writes: use another disk",
		     d->arg, d->path);
		return false;
	}
	return true;
}

/**
 * device_open() - open a device or file
 * @d: result
 * @arg: name of the argument
 * @path: path of the device
 * @mode: access mode
 *
 * Return: true, or false after printing an error.
 */
bool device_open(struct device *d, const char *arg, const char *path, enum device_mode mode)
{
	int flags = (mode == DEVICE_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC;
	char who[512], loop[64];
	struct stat st;

	memset(d, 0, sizeof(*d));
	d->arg = arg;
	d->path = path;
	d->fd = -1;

	if (stat(path, &st)) {
		fail("%s %s: %s", arg, path, strerror(errno));
		return false;
	}
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode)) {
		fail("%s %s is neither a block device nor a file", arg, path);
		return false;
	}
	d->is_block = S_ISBLK(st.st_mode);
	d->rdev = d->is_block ? st.st_rdev : 0;
	if (d->is_block && mode != DEVICE_LOOK)
		flags |= O_EXCL;
	if (!d->is_block && mode != DEVICE_LOOK && loop_over(&st, loop, sizeof(loop))) {
		fail("%s %s is in use by the loop device /dev/%s: use that device instead", arg,
		     path, loop);
		return false;
	}

	/* Use direct I/O: the target writes past the page cache of this device. */
	d->fd = open(path, flags | (d->is_block ? O_DIRECT : 0));
	if (d->fd < 0 && d->is_block && errno == EINVAL)
		d->fd = open(path, flags);
	if (d->fd < 0 && errno == EBUSY) {
		name_user(d->rdev, who, sizeof(who));
		fail("%s %s is in use: %s; remove or unmount that first", arg, path, who);
		return false;
	}
	if (d->fd < 0) {
		fail("%s %s cannot be opened: %s", arg, path, strerror(errno));
		return false;
	}
	if (d->is_block)
		d->bounce = aligned_alloc(SHINGLE_BLOCK_SIZE, BOUNCE_BLOCKS * SHINGLE_BLOCK_SIZE);
	if (!find_size(d, &st) || (d->is_block && !d->bounce) ||
	    (d->is_block && mode != DEVICE_LOOK && !can_be_used(d))) {
		device_close(d);
		return false;
	}
	return true;
}

void device_close(struct device *d)
{
	if (d->path && d->fd >= 0)
		close(d->fd);
	free(d->bounce);
	d->path = NULL;
	d->bounce = NULL;
	d->fd = -1;
}

static int transfer(struct device *d, bool writing, u64 block, u32 n, void *buf)
{
	size_t left = (size_t)n << SHINGLE_BLOCK_SHIFT;
	off_t at = (off_t)(block << SHINGLE_BLOCK_SHIFT);
	char *p = buf;

	if (block >= d->blocks || n > d->blocks - block)
		return -ENXIO;
	while (left) {
		size_t part = d->bounce ? min_t(size_t, left, BOUNCE_BLOCKS * SHINGLE_BLOCK_SIZE) :
					  left;
		void *m = d->bounce ? d->bounce : p;
		ssize_t got;

		if (writing && d->bounce)
			memcpy(m, p, part);
		got = writing ? pwrite(d->fd, m, part, at) : pread(d->fd, m, part, at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && !writing && errno != ENODATA)
			d->unread = errno;
		if (got <= 0)
			return got ? -errno : -EIO;
		if (!writing && d->bounce)
			memcpy(p, m, (size_t)got);
		p += got;
		at += got;
		left -= (size_t)got;
	}
	return 0;
}

int device_read(struct device *d, u64 block, u32 n, void *buf)
{
	return transfer(d, false, block, n, buf);
}

int device_write(struct device *d, u64 block, u32 n, const void *buf)
{
	return transfer(d, true, block, n, (void *)buf);
}

int device_sync(struct device *d)
{
	return fsync(d->fd) ? -errno : 0;
}

/**
 * device_forget_partitions() - make the kernel read the partition table again
 * @d: the device, open for writing and written
 *
 * Return: 0, also if the device cannot have partitions, or -1 with errno set.
 */
int device_forget_partitions(struct device *d)
{
	if (!d->is_block || !ioctl(d->fd, BLKRRPART))
		return 0;
	/* The device cannot have partitions, or is one itself. */
	return errno == EINVAL || errno == ENOTTY ? 0 : -1;
}

/**
 * devices_open() - open the devices of one dm-shingle device
 * @ds: result
 * @data: path of the data device
 * @cache: path of the cache device, or NULL
 * @meta: path of the metadata device, or NULL
 * @mode: access mode
 *
 * Return: true, or false after printing an error.
 */
bool devices_open(struct devices *ds, const char *data, const char *cache, const char *meta,
		  enum device_mode mode)
{
	static const char *const arg[] = { "DATA", "CACHE", "META" };
	const char *path[] = { data, cache, meta };
	struct stat st[SHINGLE_NR_DEVS];
	u32 i, j;

	memset(ds, 0, sizeof(*ds));
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		ds->dev[i].fd = -1;
		if (!path[i] || stat(path[i], &st[i]))
			continue;
		for (j = 0; j < i; j++) {
			if (!path[j] || stat(path[j], &st[j]) ||
			    (st[i].st_rdev ? st[i].st_rdev != st[j].st_rdev :
			     st[i].st_dev != st[j].st_dev || st[i].st_ino != st[j].st_ino))
				continue;
			fail("%s and %s are both %s: they must be different devices", arg[j], arg[i],
			     path[i]);
			return false;
		}
	}
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (path[i] && !device_open(&ds->dev[i], arg[i], path[i], mode)) {
			ds->dev[i].path = NULL;
			devices_close(ds);
			return false;
		}
	}
	return true;
}

void devices_close(struct devices *ds)
{
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++)
		device_close(&ds->dev[i]);
}

/**
 * devices_read_only() - check whether one of the devices is read-only
 * @ds: open devices
 *
 * Some kernels refuse to open such a device for writing, so the table must be read-only, too.
 *
 * Return: true if one is.
 */
bool devices_read_only(const struct devices *ds)
{
	int read_only;
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		const struct device *d = &ds->dev[i];

		if (d->path && d->is_block && !ioctl(d->fd, BLKROGET, &read_only) && read_only)
			return true;
	}
	return false;
}

enum shingle_dev devices_meta(const struct devices *ds)
{
	return ds->dev[SHINGLE_DEV_META].path ? SHINGLE_DEV_META : SHINGLE_DEV_DATA;
}

static int reader_read(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf)
{
	struct devices *ds = ctx;

	if (!ds->dev[dev].path)
		return -ENODEV;
	if (ds->progress)
		progress_add(ds->progress, n);
	return device_read(&ds->dev[dev], block, n, buf);
}

static int reader_read_each(void *ctx, enum shingle_dev dev, u64 block, u32 n, void *buf,
			    int *errs)
{
	u32 i;

	for (i = 0; i < n; i++)
		errs[i] = reader_read(ctx, dev, block + i, 1, (u8 *)buf + i * SHINGLE_BLOCK_SIZE);
	return 0;
}

struct shingle_reader devices_reader(struct devices *ds)
{
	return (struct shingle_reader){
		.read = reader_read, .read_each = reader_read_each, .ctx = ds,
	};
}
