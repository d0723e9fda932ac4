/* SPDX-License-Identifier: GPL-2.0 */
/* Block devices and files: safe opening, reading, writing. */
#ifndef SHINGLE_DEVICE_H
#define SHINGLE_DEVICE_H

#include <sys/types.h>

#include "format/recover.h"
#include "tool.h"

/**
 * struct device - a block device, or a file used as one
 * @path: name given by the user, NULL if there is none
 * @arg: name of the argument, for messages
 * @fd: open file, -1 if there is none
 * @blocks: size in blocks of 4 KiB
 * @is_block: it is a block device, not a file
 * @rdev: device number if @is_block
 * @bounce: aligned memory for direct I/O, NULL if not needed
 * @unread: errno of a failed read that was no medium error (ENODATA) and may succeed later; 0
 *   if there was none
 */
struct device {
	const char *path;
	const char *arg;
	int fd;
	u64 blocks;
	bool is_block;
	dev_t rdev;
	void *bounce;
	int unread;
};

enum device_mode {
	DEVICE_LOOK,	/* read, shared with other users */
	DEVICE_READ,	/* read, exclusively */
	DEVICE_WRITE,	/* read and write, exclusively */
};

/**
 * struct devices - the devices of one dm-shingle device
 * @dev: by enum shingle_dev; @dev[i].path is NULL for an absent device
 * @progress: counts the blocks read, or NULL
 */
struct devices {
	struct device dev[SHINGLE_NR_DEVS];
	struct progress *progress;
};

bool device_open(struct device *d, const char *arg, const char *path, enum device_mode mode);
void device_close(struct device *d);
int device_read(struct device *d, u64 block, u32 n, void *buf);
int device_write(struct device *d, u64 block, u32 n, const void *buf);
int device_sync(struct device *d);

bool devices_open(struct devices *ds, const char *data, const char *cache, const char *meta,
		  enum device_mode mode);
void devices_close(struct devices *ds);
bool devices_read_only(const struct devices *ds);
struct shingle_reader devices_reader(struct devices *ds);
enum shingle_dev devices_meta(const struct devices *ds);

/* Detection of existing contents, see content.c. */
bool device_has_content(struct device *d, char *what, size_t size);
bool device_member_of(struct device *d, char *name, size_t size);
bool device_raid_type(const struct device *d, char *type, size_t size);
int device_wipe_signatures(struct device *d);
int device_forget_partitions(struct device *d);

#endif /* SHINGLE_DEVICE_H */
