/* SPDX-License-Identifier: GPL-2.0 */
/* Block devices and files: opening without harm, reading, writing. */
#ifndef SHINGLE_DEVICE_H
#define SHINGLE_DEVICE_H

#include <sys/types.h>

#include "format/recover.h"
#include "tool.h"

/**
 * struct device - a device or a file that plays one
 * @path: as the user named it, NULL if there is none
 * @arg: what the argument is called, for sentences
 * @fd: open file, -1 if there is none
 * @blocks: size in blocks of 4 KiB
 * @is_block: a block device, not a file
 * @rdev: its number, if it is one
 * @bounce: aligned memory for direct I/O, NULL if not needed
 * @unread: why a read of it has failed, if not for the medium (ENODATA): what is there
 *	may be read the next time.  0 if none has
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
	DEVICE_LOOK,	/* read, whoever else uses it */
	DEVICE_READ,	/* read, and be alone */
	DEVICE_WRITE,	/* write, and be alone */
};

/**
 * struct devices - those of one dm-shingle device
 * @dev: by enum shingle_dev; @dev[i].path is NULL where there is none
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

/* What a device holds already, as the end of a sentence; false if nothing. */
bool device_holds(struct device *d, char *what, size_t size);
bool device_member_of(struct device *d, char *name, size_t size);
bool device_raid_type(const struct device *d, char *type, size_t size);
int device_wipe_signatures(struct device *d);
int device_forget_partitions(struct device *d);

#endif /* SHINGLE_DEVICE_H */
