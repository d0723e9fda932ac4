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

/**
 * struct table_line - a device to be created
 * @name: name of the mapped device
 * @uuid: its UUID, or NULL for none
 * @target: target type
 * @sectors: its length
 * @params: the part of the table line after the target type
 * @read_only: make the device read-only
 */
struct table_line {
	const char *name;
	const char *uuid;
	const char *target;
	u64 sectors;
	char *params;
	bool read_only;
};

/* Options of commands that open a device. */
#define TABLE_OPTIONS					\
	{ "feature", required_argument, NULL, 'F' },	\
	{ "no-feature", required_argument, NULL, 'W' },	\
	{ "set", required_argument, NULL, 'S' },	\
	{ "no-udev", no_argument, NULL, 'U' }

#define TABLE_HELP \
	"  --feature F       switch on a feature of the target (repeatable)\n" \
	"  --no-feature F    omit a feature of the preset or of the device (repeatable)\n" \
	"  --set KEY=VALUE   set a tunable of the target (repeatable)\n"

#define TABLE_UDEV_HELP \
	"  --no-udev         make the device node without waiting for udev\n"

void table_describe(const char *name, const struct shingle_option *options);
void table_help(const char *target);
void table_help_all(void);
bool table_option(struct table_args *t, int c, const char *value);
const struct preset *table_find_preset(const char *name);
bool table_take_preset(struct table_args *t, const struct preset *p);
bool table_take_habits(struct table_args *t, const struct preset *p, const char *kept);
bool table_keep(const struct table_args *t, struct shingle_disk_settings *s);
void table_warn(const struct table_args *t, const struct preset *p);
const struct shingle_option *table_key(const struct engine_row *row, const char *key);
bool table_options_known(const char *target, const struct shingle_option *options,
			 const struct shingle_option *common, const struct table_args *t);
bool table_known(const struct engine_row *row, const struct table_args *t);
bool table_checked(const struct image *img, const struct table_args *t);
bool table_needs_block(const struct device *d);
bool table_needs_blocks(const struct image *img);
char *table_params(const struct image *img, const struct table_args *t);
char *table_device_name(const char *word);
bool table_devices(char *params, char *path[]);
char *table_platter_params(const struct device *d, u64 start, const char *profile,
			   const struct table_args *t);
int table_load(const struct table_line *line, bool udev, bool dry_run);
int table_open(struct image *img, const struct table_args *t, const char *name, bool dry_run);

#endif /* SHINGLE_TABLE_H */
