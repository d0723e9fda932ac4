/* SPDX-License-Identifier: GPL-2.0 */
/* Interface to device mapper. */
#ifndef SHINGLE_DM_H
#define SHINGLE_DM_H

#include <sys/types.h>

#include "tool.h"

/**
 * struct dm_line - the only target of a mapped device
 * @name: name of the device
 * @target: type of the target
 * @params: its table or status
 * @sectors: length of the device
 * @suspended: the device is suspended
 * @users: open count, mounts included
 */
struct dm_line {
	char name[128];
	char target[32];
	char *params;
	u64 sectors;
	bool suspended;
	u32 users;
};

void dm_begin(void);
bool dm_name_reserved(const char *name);
bool dm_name_valid(const char *name);
bool dm_device_is_open(const char *name, bool *open);
bool dm_device_possible(const char *name, const char *target);
bool dm_device_create(const char *name, const char *uuid, const char *target, u64 sectors,
		      const char *params, bool read_only, bool udev, char **node);
bool dm_device_remove(const char *name, bool udev);
u64 dm_device_unsaved(const char *name, bool udev);
bool dm_device_status(const char *name, struct dm_line *line);
bool dm_device_table(const char *name, struct dm_line *line);
bool dm_device_at(dev_t rdev, struct dm_line *line);
bool dm_line_idle(const struct dm_line *line);
void dm_line_free(struct dm_line *line);
char *dm_device_ask(const char *name, const char *message);
char *dm_device_message(const char *name, const char *message);
bool dm_for_each(int (*fn)(const char *name, void *ctx), void *ctx);

/* Messages in the kernel's log about a mapped device. */
#define KMSG_SENTENCE	512

int kmsg_mark(void);
bool kmsg_cause(int mark, u32 major, u32 minor, const char *target, char *why);
void kmsg_end(int mark);

#endif /* SHINGLE_DM_H */
