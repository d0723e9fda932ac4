/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lifetime hints for an interlaced disk (target imr), for use by key-value stores.
 *
 *   struct shingle_imr disk;
 *
 *   fd = open("/dev/mapper/disk", O_RDWR | O_DIRECT);
 *   err = shingle_imr_open(&disk, fd);
 *   err = shingle_imr_level(&disk, offset, length, level);	before a file is written
 *   err = shingle_imr_relevel(&disk, offset, length, level);	when it changes its level
 *   err = shingle_imr_discard(&disk, offset, length);	when it is deleted
 *   shingle_imr_close(&disk);
 *
 * Needs only the kernel's headers, and permission to use device mapper (root).  Offsets and
 * lengths are in bytes.  Levels apply to whole tracks, so a store should begin each file on a
 * new track, see shingle_imr::track_bytes.
 *
 * See Documentation/dm-imr.rst.
 */
#ifndef SHINGLE_IMR_H
#define SHINGLE_IMR_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <linux/dm-ioctl.h>
#include <linux/fs.h>

#define SHINGLE_IMR_LEVELS	16
/* Maximum number of tracks in one message. */
#define SHINGLE_IMR_TRACKS	65536

/* Strict C without feature macros hides O_CLOEXEC; fcntl() sets the flag then. */
#ifdef O_CLOEXEC
#define SHINGLE_IMR_CLOEXEC	O_CLOEXEC
#else
#define SHINGLE_IMR_CLOEXEC	0
#endif

/**
 * struct shingle_imr - an interlaced disk
 * @fd: the caller's descriptor of the device
 * @control: descriptor of device mapper
 * @dev: number of the device, in device mapper's encoding
 * @track_bytes: length of a track, the unit of levels and discards
 * @tracks: number of tracks of the device
 * @messages: number of messages sent so far
 */
struct shingle_imr {
	int fd;
	int control;
	uint64_t dev;
	uint64_t track_bytes;
	uint64_t tracks;
	uint64_t messages;
};

/* A request to device mapper; the answer uses the same memory. */
struct shingle_imr_request {
	struct dm_ioctl head;
	union {
		struct dm_target_spec spec;
		char room[1024];
	} data;
};

static inline int shingle_imr_ask(const struct shingle_imr *d, unsigned long request,
				  struct shingle_imr_request *r)
{
	r->head.version[0] = DM_VERSION_MAJOR;
	r->head.data_size = sizeof(*r);
	r->head.data_start = offsetof(struct shingle_imr_request, data);
	r->head.dev = d->dev;
	return ioctl(d->control, request, r) ? -errno : 0;
}

/**
 * shingle_imr_close() - release the interface
 * @d: filled in by shingle_imr_open(), even if that failed
 *
 * The device stays open.
 */
static inline void shingle_imr_close(struct shingle_imr *d)
{
	if (d->control >= 0)
		close(d->control);
	d->control = -1;
}

/**
 * shingle_imr_open() - prepare to send hints to a device
 * @d: result
 * @fd: the device; it must stay open while @d is used
 *
 * Return: 0; -ENOTTY if the device has not the target imr; or the error of opening or using
 * device mapper, for example -EACCES or -EPERM without permission.
 */
static inline int shingle_imr_open(struct shingle_imr *d, int fd)
{
	struct shingle_imr_request r;
	unsigned long long bytes = 0;
	struct stat st;
	char path[96];
	FILE *f;
	int err;

	memset(d, 0, sizeof(*d));
	d->fd = fd;
	d->control = -1;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISBLK(st.st_mode))
		return -ENOTTY;
	d->dev = (minor(st.st_rdev) & 0xff) | major(st.st_rdev) << 8 |
		 (uint64_t)(minor(st.st_rdev) & ~0xffU) << 12;
	d->control = open("/dev/mapper/control", O_RDWR | SHINGLE_IMR_CLOEXEC);
	if (d->control < 0)
		return -errno;
	if (!SHINGLE_IMR_CLOEXEC && fcntl(d->control, F_SETFD, FD_CLOEXEC))
		return -errno;
	memset(&r, 0, sizeof(r));
	r.head.flags = DM_STATUS_TABLE_FLAG;
	err = shingle_imr_ask(d, DM_TABLE_STATUS, &r);
	if (err)
		return err == -ENXIO ? -ENOTTY : err;
	/* The table may be truncated, but its type comes first. */
	if (r.head.target_count != 1 || strcmp(r.data.spec.target_type, "imr"))
		return -ENOTTY;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/optimal_io_size",
		 major(st.st_rdev), minor(st.st_rdev));
	f = fopen(path, "re");
	if (!f)
		return -errno;
	err = fscanf(f, "%llu", &bytes) == 1 && bytes ? 0 : -EIO;
	fclose(f);
	d->track_bytes = bytes;
	d->tracks = bytes ? r.data.spec.length * 512 / bytes : 0;
	return err;
}

/* Send message @what for some tracks. */
static inline int shingle_imr_send(struct shingle_imr *d, const char *what, uint64_t first,
				   uint64_t n, unsigned int level)
{
	const size_t head = sizeof(struct dm_target_msg);
	struct shingle_imr_request r;
	int err;

	memset(&r, 0, sizeof(r));
	snprintf(r.data.room + head, sizeof(r.data.room) - head, "%s %llu %llu %u", what,
		 (unsigned long long)first, (unsigned long long)n, level);
	err = shingle_imr_ask(d, DM_TARGET_MSG, &r);
	d->messages += !err;
	return err;
}

/* Send message @what for all tracks that overlap a range. */
static inline int shingle_imr_say(struct shingle_imr *d, const char *what, uint64_t offset,
				  uint64_t length, unsigned int level)
{
	uint64_t first = offset / d->track_bytes, end, n;
	int err = 0;

	if (!length)
		return 0;
	end = (offset + length - 1) / d->track_bytes + 1;
	/* Check the whole range before the first message. */
	if (offset + length - 1 < offset || end > d->tracks)
		return -EINVAL;
	for (; first < end && !err; first += n) {
		n = end - first < SHINGLE_IMR_TRACKS ? end - first : SHINGLE_IMR_TRACKS;
		err = shingle_imr_send(d, what, first, n, level);
	}
	return err;
}

/**
 * shingle_imr_level() - set the level of data that are about to be written
 * @d: the device
 * @offset: in bytes; the old data there must be discarded already
 * @length: in bytes
 * @level: level of the tree, below SHINGLE_IMR_LEVELS; data of a larger level live longer
 *
 * A track that overlaps the range only in part is included as a whole.
 *
 * Return: 0; -EINVAL if the range or the level is invalid; or another -errno.
 */
static inline int shingle_imr_level(struct shingle_imr *d, uint64_t offset, uint64_t length,
				    unsigned int level)
{
	return shingle_imr_say(d, "level", offset, length, level);
}

/**
 * shingle_imr_relevel() - change the level of existing data
 * @d: the device
 * @offset: see shingle_imr_level()
 * @length: see shingle_imr_level()
 * @level: see shingle_imr_level()
 *
 * Return: as for shingle_imr_level().
 */
static inline int shingle_imr_relevel(struct shingle_imr *d, uint64_t offset, uint64_t length,
				      unsigned int level)
{
	return shingle_imr_say(d, "relevel", offset, length, level);
}

/**
 * shingle_imr_discard() - discard data that are no longer needed
 * @d: the device
 * @offset: in bytes
 * @length: in bytes
 *
 * Discards whole tracks with their levels; partial tracks at both ends are not changed.
 * Flush data that replace the discarded data first: after a power cut the discard may be in
 * force, while writes that preceded it without a flush are lost.
 *
 * Return: 0 or -errno.
 */
static inline int shingle_imr_discard(struct shingle_imr *d, uint64_t offset, uint64_t length)
{
	uint64_t first = (offset + d->track_bytes - 1) / d->track_bytes;
	uint64_t end = (offset + length) / d->track_bytes;
	uint64_t range[2] = { first * d->track_bytes, (end - first) * d->track_bytes };

	if (end <= first)
		return 0;
	return ioctl(d->fd, BLKDISCARD, range) ? -errno : 0;
}

#endif /* SHINGLE_IMR_H */
