/* SPDX-License-Identifier: GPL-2.0 */
/* The table line of a device, and the options that go into it. */
#ifndef SHINGLE_TABLE_H
#define SHINGLE_TABLE_H

#include "image.h"
#include "presets.h"

#define TABLE_MAX_ARGS	16

/**
 * struct table_args - features and keys of a table
 * @nr_features: number of elements used in @feature
 * @feature: features
 * @nr_keys: number of elements used in @key
 * @key: keys, as "name=value"
 * @nr_without: number of elements used in @without
 * @without: features of the preset or the device to leave out
 * @no_udev: create the device node without udev
 * @kept: settings of the device, split into words; @feature and @key point into it
 */
struct table_args {
	u32 nr_features;
	const char *feature[TABLE_MAX_ARGS];
	u32 nr_keys;
	const char *key[TABLE_MAX_ARGS];
	u32 nr_without;
	const char *without[TABLE_MAX_ARGS];
	bool no_udev;
	char kept[SHINGLE_SETTINGS_BYTES + 1];
};

/* Options of commands that open a device. */
#define TABLE_OPTIONS					\
	{ "feature", required_argument, NULL, 'F' },	\
	{ "no-feature", required_argument, NULL, 'W' },	\
	{ "set", required_argument, NULL, 'S' },	\
	{ "no-udev", no_argument, NULL, 'U' }

#define TABLE_HELP \
	"  --feature F       switch on a feature of the target (may be repeated)\n" \
	"  --no-feature F    leave out a feature that it would have otherwise (may be repeated)\n" \
	"  --set KEY=VALUE   set a tunable of the target (may be repeated)\n"

#define TABLE_UDEV_HELP \
	"  --no-udev         make the device node without waiting for udev\n"

void table_help(void);
bool table_option(struct table_args *t, int c, const char *value);
const struct preset *table_find_preset(const char *name);
bool table_take_preset(struct table_args *t, const struct preset *p);
bool table_take_habits(struct table_args *t, const struct preset *p, const char *kept);
bool table_keep(const struct table_args *t, struct shingle_disk_settings *s);
void table_warn(const struct table_args *t, const struct preset *p);
const struct shingle_option *table_key(const struct engine_row *row, const char *key);
bool table_known(const struct engine_row *row, const struct table_args *t);
bool table_checked(const struct image *img, const struct table_args *t);
bool table_needs_blocks(const struct image *img);
char *table_params(const struct image *img, const struct table_args *t);
bool table_devices(char *params, char *path[]);
int table_open(struct image *img, const struct table_args *t, const char *name, bool dry_run);

#endif /* SHINGLE_TABLE_H */
