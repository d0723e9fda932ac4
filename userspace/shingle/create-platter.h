/* SPDX-License-Identifier: GPL-2.0 */
/* Creation of a medium. */
#ifndef SHINGLE_CREATE_PLATTER_H
#define SHINGLE_CREATE_PLATTER_H

#include "table.h"

/**
 * struct platter_args - the command line of 'shingle create platter'
 * @device: path of the device with the contents, or "none"
 * @name: name of the mapped device
 * @profile: name of the drive, or NULL for the default
 * @start: first byte used on @device, with a unit, or NULL for 0
 * @size: size of the medium with a unit, or NULL for the rest of @device
 * @table: features and keys
 * @dry_run: only print the dmsetup command
 */
struct platter_args {
	const char *device;
	const char *name;
	const char *profile;
	const char *start;
	const char *size;
	const struct table_args *table;
	bool dry_run;
};

void platter_help(void);
void platter_keys_help(void);
int platter_create(const struct platter_args *a);

#endif /* SHINGLE_CREATE_PLATTER_H */
