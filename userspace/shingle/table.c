// SPDX-License-Identifier: GPL-2.0
/* The table line of a device, and the options that go into it. */
#include <sys/sysmacros.h>
#include <uuid/uuid.h>

#include "dm.h"
#include "engine/keys.h"
#include "engine/settings.h"
#include "show.h"
#include "table.h"

/* Print the features and keys of one table of options. */
static void describe(const struct shingle_option *o)
{
	for (; o->name; o++) {
		char text[128];
		size_t used = (size_t)snprintf(text, sizeof(text), "%s%s", o->name,
					       o->kind == SHINGLE_OPTION_NUMBER ? "=N" :
					       o->kind == SHINGLE_OPTION_TEXT ? "=TEXT" : "");
		u32 i;

		for (i = 0; o->words && o->words[i] && used < sizeof(text); i++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 i ? "|" : "=", o->words[i]);
		print_option(text, o->help);
	}
}

/**
 * table_describe() - print the features and keys of one target, for --help
 * @name: name of the target
 * @options: its table of options
 */
void table_describe(const char *name, const struct shingle_option *options)
{
	printf("\nFeatures and keys of %s (--feature, --set):\n\n", name);
	describe(options);
}

/**
 * table_help() - print the features and keys of translation layers, for --help
 * @target: the only target, or NULL for all
 */
void table_help(const char *target)
{
	const struct engine_row *row;
	u32 i;

	printf("\nKeys of every translation layer (--set):\n\n");
	describe(shingle_keys);
	for (i = 0; (row = engine_by_index(i)); i++) {
		if (!target || !strcmp(target, row->ops->name))
			table_describe(row->ops->name, row->ops->options);
	}
}

/* For --help of a command that knows no target. */
void table_help_all(void)
{
	table_help(NULL);
}

static bool too_many(void)
{
	fail("at most %u features and %u settings can be given", TABLE_MAX_ARGS, TABLE_MAX_ARGS);
	return false;
}

/**
 * table_option() - add one of TABLE_OPTIONS to a table
 * @t: table to extend
 * @c: letter of the option
 * @value: value of the option
 *
 * Return: true, or false after printing an error.
 */
bool table_option(struct table_args *t, int c, const char *value)
{
	if (c == 'U') {
		t->no_udev = true;
		return true;
	}
	if (t->nr_features == TABLE_MAX_ARGS || t->nr_keys == TABLE_MAX_ARGS ||
	    t->nr_without == TABLE_MAX_ARGS)
		return too_many();
	if (!*value || strpbrk(value, " \t\n\\")) {
		fail("'%s' cannot be part of a table line: it is empty or contains blanks", value);
		return false;
	}
	if (c == 'F') {
		t->feature[t->nr_features++] = value;
		return true;
	}
	if (c == 'W') {
		t->without[t->nr_without++] = value;
		return true;
	}
	if (!strchr(value, '=') || *value == '=') {
		fail("'%s' has no value: write a setting as KEY=VALUE, or use --feature for a feature",
		     value);
		return false;
	}
	t->key[t->nr_keys++] = value;
	return true;
}

/**
 * table_find_preset() - find a preset by name
 * @name: its name
 *
 * Return: the preset, or NULL after printing the known names.
 */
const struct preset *table_find_preset(const char *name)
{
	const struct preset *p = preset_by_name(name);
	char names[256];

	if (!p)
		fail("--preset '%s' is not known: choose one of %s", name,
		     preset_names(names, sizeof(names)));
	return p;
}

static bool among(const char *name, size_t len, const char *const *list, u32 nr)
{
	u32 i;

	for (i = 0; i < nr && list[i]; i++) {
		if (!strncmp(list[i], name, len))
			return true;
	}
	return false;
}

/* Add those features and keys of two NULL-terminated lists that @t does not name yet. */
static bool take(struct table_args *t, const char *const *features, const char *const *keys)
{
	u32 nr_features = t->nr_features, nr_keys = t->nr_keys, i;

	for (i = 0; features[i]; i++) {
		size_t len = strlen(features[i]) + 1;

		if (among(features[i], len, t->feature, nr_features) ||
		    among(features[i], len, t->without, t->nr_without))
			continue;
		if (t->nr_features == TABLE_MAX_ARGS)
			return too_many();
		t->feature[t->nr_features++] = features[i];
	}
	for (i = 0; keys[i]; i++) {
		size_t len = (size_t)(strchr(keys[i], '=') - keys[i]) + 1;

		if (among(keys[i], len, t->key, nr_keys))
			continue;
		if (t->nr_keys == TABLE_MAX_ARGS)
			return too_many();
		t->key[t->nr_keys++] = keys[i];
	}
	return true;
}

/**
 * table_take_habits() - add the defaults of a preset and of the device
 * @t: table to extend; its own features and keys take precedence
 * @p: the preset, which takes precedence over @kept; or NULL
 * @kept: settings stored on the device, or NULL
 *
 * Return: true, or false after printing an error.
 */
bool table_take_habits(struct table_args *t, const struct preset *p, const char *kept)
{
	/* With its blank, a word has at least two bytes. */
	const char *features[SHINGLE_SETTINGS_BYTES / 2 + 2] = { NULL };
	const char *keys[SHINGLE_SETTINGS_BYTES / 2 + 2] = { NULL };
	u32 nr_features = 0, nr_keys = 0, i;
	char *word, *rest = t->kept;

	snprintf(t->kept, sizeof(t->kept), "%s", kept ?: "");
	while ((word = strsep(&rest, " "))) {
		if (strchr(word, '=') > word)
			keys[nr_keys++] = word;
		else if (*word)
			features[nr_features++] = word;
	}
	for (i = 0; i < t->nr_without; i++) {
		const char *name = t->without[i];
		size_t len = strlen(name) + 1;

		if ((p && among(name, len, p->features, TABLE_MAX_ARGS)) ||
		    among(name, len, features, nr_features))
			continue;
		if (p)
			fail("--no-feature %s: %s does not have this feature", name, p->name);
		else if (kept)
			fail("--no-feature %s: the device does not store this feature, and there is no --preset",
			     name);
		else
			fail("--no-feature %s omits a feature of a preset: it requires --preset",
			     name);
		return false;
	}
	return (!p || take(t, p->features, p->keys)) && take(t, features, keys);
}

/**
 * table_take_preset() - add the features and keys of a preset that @t does not name
 * @t: table to extend
 * @p: the preset, or NULL
 *
 * Return: true, or false after printing an error.
 */
bool table_take_preset(struct table_args *t, const struct preset *p)
{
	return table_take_habits(t, p, NULL);
}

/* True if no later element has the same name: the last value of a key is in force. */
static bool is_last(const char *const *list, u32 nr, u32 i)
{
	size_t len = strcspn(list[i], "=") + 1;

	return !among(list[i], len, list + i + 1, nr - i - 1);
}

/**
 * table_keep() - encode features and keys for storage on the device
 * @t: features and keys to store
 * @s: result
 *
 * Return: true, or false after printing an error.
 */
bool table_keep(const struct table_args *t, struct shingle_disk_settings *s)
{
	const char *why = "out of memory";
	char *words = NULL;
	size_t size;
	FILE *f = open_memstream(&words, &size);
	int err = f ? 0 : -ENOMEM;
	u32 i;

	for (i = 0; f && i < t->nr_features; i++) {
		if (is_last(t->feature, t->nr_features, i))
			fprintf(f, "%s%s", ftell(f) ? " " : "", t->feature[i]);
	}
	for (i = 0; f && i < t->nr_keys; i++) {
		if (is_last(t->key, t->nr_keys, i))
			fprintf(f, "%s%s", ftell(f) ? " " : "", t->key[i]);
	}
	if (f && fclose(f))
		err = -ENOMEM;
	err = err ?: shingle_settings_encode(words, s, &why);
	if (err)
		fail("the settings cannot be stored on the device: %s", why);
	free(words);
	return !err;
}

/**
 * table_warn() - print the risk that the features of a preset carry
 * @t: the table that was loaded
 * @p: the preset, or NULL
 */
void table_warn(const struct table_args *t, const struct preset *p)
{
	if (p && p->doc && among(p->features[0], strlen(p->features[0]) + 1, t->feature,
				 t->nr_features))
		fprintf(stderr, "shingle: %s: %s\n", p->name, p->doc);
}

/* Print the names of features, or of keys. */
static void list_options(const struct shingle_option *o, bool features)
{
	for (; o->name; o++) {
		if (shingle_is_feature(o) == features)
			fprintf(stderr, "  %s\n", o->name);
	}
}

static bool no_feature(const char *target, const struct shingle_option *options, const char *name)
{
	fail("%s has no feature '%s'; it has:", target, name);
	list_options(options, true);
	return false;
}

/* @common: keys of every translation layer, or NULL. */
static bool no_key(const char *target, const struct shingle_option *options,
		   const struct shingle_option *common, const char *name)
{
	fail("%s has no key '%s'; it has:", target, name);
	if (common)
		list_options(common, false);
	list_options(options, false);
	return false;
}

/* Find the option of a key, given as a name or as KEY=VALUE. */
static const struct shingle_option *find_key(const struct shingle_option *options,
					     const struct shingle_option *common, const char *key)
{
	const struct shingle_option *o = NULL;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(key, "="), key);
	if (common)
		o = shingle_option_find(common, name, false);
	return o ?: shingle_option_find(options, name, false);
}

/**
 * table_key() - find the option of a key
 * @row: the target
 * @key: its name, or KEY=VALUE
 *
 * Return: the option, or NULL if the target has no such key.
 */
const struct shingle_option *table_key(const struct engine_row *row, const char *key)
{
	return find_key(row->ops->options, shingle_keys, key);
}

/**
 * table_options_known() - check features, keys and values against the options of a target
 * @target: name of the target
 * @options: its options
 * @common: keys of every translation layer, or NULL
 * @t: table to check
 *
 * Return: true, or false after printing an error.
 */
bool table_options_known(const char *target, const struct shingle_option *options,
			 const struct shingle_option *common, const struct table_args *t)
{
	const struct shingle_option *o;
	const char *why = "";
	char name[64];
	u32 i, value;

	for (i = 0; i < t->nr_features; i++) {
		if (!shingle_option_find(options, t->feature[i], true))
			return no_feature(target, options, t->feature[i]);
	}
	for (i = 0; i < t->nr_keys; i++) {
		const char *text = strchr(t->key[i], '=') + 1;

		snprintf(name, sizeof(name), "%.*s", (int)(text - 1 - t->key[i]), t->key[i]);
		o = find_key(options, common, t->key[i]);
		if (!o)
			return no_key(target, options, common, name);
		if (o->kind != SHINGLE_OPTION_TEXT && shingle_option_parse(o, text, &value, &why)) {
			fail("%s", why);
			return false;
		}
	}
	return true;
}

/**
 * table_known() - check features, keys and values without the devices
 * @row: the target
 * @t: table to check
 *
 * table_checked() makes the checks that depend on the devices.
 *
 * Return: true, or false after printing an error.
 */
bool table_known(const struct engine_row *row, const struct table_args *t)
{
	return table_options_known(row->ops->name, row->ops->options, shingle_keys, t);
}

static bool key_checked(const struct image *img, const char *key, struct shingle_config *config)
{
	const char *value = strchr(key, '=') + 1, *why = "";
	char name[64];
	int err;

	snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - key), key);
	err = shingle_option_set(shingle_keys, config, false, name, value, &why);
	if (err == -ENOENT)
		err = shingle_set(img->engine, name, value, &why);
	if (err == -ENOENT) {
		no_key(img->row->ops->name, img->row->ops->options, shingle_keys, name);
	} else if (err < 0) {
		fail("%s", why);
	}
	return err >= 0;
}

/**
 * table_checked() - check that the target will accept the features and keys
 * @img: image with an engine
 * @t: table to check
 *
 * Checks in the order of the table line, as the kernel does.  Checks that depend on the
 * running kernel are left to it.
 *
 * Return: true, or false after printing an error.
 */
bool table_checked(const struct image *img, const struct table_args *t)
{
	struct shingle_config config = { 0 };
	const char *why = "";
	u32 i;

	img->engine->knows_life = true;
	shingle_config_init(&config, img->engine);
	for (i = 0; i < t->nr_features; i++) {
		if (!shingle_set(img->engine, t->feature[i], NULL, &why))
			continue;
		return no_feature(img->row->ops->name, img->row->ops->options, t->feature[i]);
	}
	for (i = 0; i < t->nr_keys; i++) {
		if (!key_checked(img, t->key[i], &config))
			return false;
	}
	if (!shingle_config_finish(&config, &why))
		return true;
	fail("%s", why);
	return false;
}

/**
 * table_needs_block() - check whether a device is a regular file
 * @d: the device, open
 *
 * Return: true after printing an error if it is, else false.
 */
bool table_needs_block(const struct device *d)
{
	if (!d->path || d->is_block)
		return false;
	fail("%s %s is a file, and device mapper needs block devices: 'losetup --find --show %s' makes a block device of it",
	     d->arg, d->path, d->path);
	return true;
}

/**
 * table_needs_blocks() - check whether one of the devices is a regular file
 * @img: image with open devices
 *
 * Return: true after printing an error if one is, else false.
 */
bool table_needs_blocks(const struct image *img)
{
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		if (table_needs_block(&img->ds.dev[i]))
			return true;
	}
	return false;
}

/*
 * Write a device into a table line: its path, or its number if the path has blanks.
 * @without: the word for an absent device.
 */
static void put_device(FILE *f, const struct device *d, const char *without)
{
	char *path = d->path && *d->path != '/' ? realpath(d->path, NULL) : NULL;
	const char *name = path ?: d->path;

	if (!d->path)
		fputs(without, f);
	else if (strpbrk(name, " \t\\") && d->is_block)
		fprintf(f, "%u:%u", major(d->rdev), minor(d->rdev));
	else
		fputs(name, f);
	free(path);
}

/* Path of device @major:@minor, to be freed; NULL if it cannot be found. */
static char *device_path(u32 major, u32 minor)
{
	char path[64], line[256], *name = NULL;
	FILE *f;

	/* Without udev there is no /dev/block. */
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", major, minor);
	f = fopen(path, "re");
	while (f && !name && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "DEVNAME=", 8) && asprintf(&name, "/dev/%s", line + 8) < 0)
			name = NULL;
	}
	if (f)
		fclose(f);
	return name;
}

/* Parse the number of a device in a table line. */
static bool device_number(const char *word, u32 *major, u32 *minor)
{
	int len = 0;

	return sscanf(word, "%u:%u%n", major, minor, &len) == 2 && !word[len];
}

/* Path of a device in a table line, to be freed; NULL if it cannot be found. */
static char *find_device(const char *word)
{
	u32 major, minor;

	return device_number(word, &major, &minor) ? device_path(major, minor) : strdup(word);
}

/**
 * table_device_name() - name of a device in a table line, for people
 * @word: the word of the line
 *
 * Return: the path, to be freed, with the name of a mapped device; @word if it cannot be found;
 * or NULL if memory is short.
 */
char *table_device_name(const char *word)
{
	struct dm_line line;
	u32 major, minor;
	char *name;

	if (!device_number(word, &major, &minor))
		return strdup(word);
	if (dm_device_at(makedev(major, minor), &line)) {
		if (asprintf(&name, "/dev/mapper/%s", line.name) < 0)
			name = NULL;
		dm_line_free(&line);
		return name;
	}
	return device_path(major, minor) ?: strdup(word);
}

/**
 * table_devices() - the devices in a table line
 * @params: the part of the line after the target's name; strsep() modifies it
 * @path: result, by enum shingle_dev, to be freed; NULL for an absent device
 *
 * Return: true, or false if a device cannot be found.
 */
bool table_devices(char *params, char *path[])
{
	bool ok = true;
	u32 i;

	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		char *word = strsep(&params, " ");

		path[i] = NULL;
		if (!word || !strcmp(word, "-"))
			continue;
		path[i] = find_device(word);
		ok &= path[i] != NULL;
	}
	return ok && path[SHINGLE_DEV_DATA];
}

/* Write features and keys into a table line. */
static void put_options(FILE *f, const struct table_args *t)
{
	u32 i;

	if (t->nr_features || t->nr_keys)
		fprintf(f, " %u", t->nr_features);
	for (i = 0; i < t->nr_features; i++)
		fprintf(f, " %s", t->feature[i]);
	if (t->nr_keys)
		fprintf(f, " %u", 2 * t->nr_keys);
	for (i = 0; i < t->nr_keys; i++) {
		const char *value = strchr(t->key[i], '=');

		fprintf(f, " %.*s %s", (int)(value - t->key[i]), t->key[i], value + 1);
	}
}

/**
 * table_params() - the part of a translation layer's table line after the target's name
 * @img: image with its layout
 * @t: features and keys
 *
 * Return: the text, to be freed, or NULL if memory is short.
 */
char *table_params(const struct image *img, const struct table_args *t)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	u32 i;

	if (!f)
		return NULL;
	for (i = 0; i < SHINGLE_NR_DEVS; i++) {
		fputs(i ? " " : "", f);
		put_device(f, &img->ds.dev[i], "-");
	}
	put_options(f, t);
	if (!fclose(f))
		return text;
	free(text);
	return NULL;
}

/**
 * table_platter_params() - the part of a platter's table line after the target's name
 * @d: device with the contents; without a path there is none
 * @start: first sector used on @d
 * @profile: the drive
 * @t: features and keys
 *
 * Return: the text, to be freed, or NULL if memory is short.
 */
char *table_platter_params(const struct device *d, u64 start, const char *profile,
			   const struct table_args *t)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	put_device(f, d, "none");
	fprintf(f, " %llu %s", start, profile);
	put_options(f, t);
	if (!fclose(f))
		return text;
	free(text);
	return NULL;
}

/* Print a word quoted for a shell, so that the printed line can be pasted into one. */
static void say_quoted(const char *word)
{
	if (strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.:=@_") ==
	    strlen(word)) {
		fputs(word, stdout);
		return;
	}
	putchar('\'');
	for (; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){ *word, '\0' }, stdout);
	putchar('\'');
}

/* Print the dmsetup command; the whole table is one word of it. */
static int say_dmsetup(const struct table_line *line)
{
	char *table;

	if (asprintf(&table, "0 %llu %s %s", line->sectors, line->target, line->params) < 0)
		return fail("out of memory");
	fputs("dmsetup create ", stdout);
	say_quoted(line->name);
	fputs(line->read_only ? " --readonly --table " : " --table ", stdout);
	say_quoted(table);
	putchar('\n');
	free(table);
	return EXIT_CLEAN;
}

/**
 * table_load() - create a device with a table
 * @line: the device and its table
 * @udev: wait for udev
 * @dry_run: only print the dmsetup command
 *
 * Return: an exit code.
 */
int table_load(const struct table_line *line, bool udev, bool dry_run)
{
	char *node = NULL;
	bool ok;

	if (dry_run)
		return say_dmsetup(line);
	ok = dm_device_create(line->name, line->uuid, line->target, line->sectors, line->params,
			      line->read_only, udev, &node);
	if (ok)
		say("%s is ready: %s, %s", node ?: line->name, line->target,
		    size_text(line->sectors << 9).s);
	free(node);
	return ok ? EXIT_CLEAN : EXIT_OPERATION;
}

/**
 * table_open() - load the table of a translation layer
 * @img: image with its layout; unless @dry_run, its devices are closed and its engine freed
 * @t: features and keys
 * @name: name of the mapped device
 * @dry_run: only print the dmsetup command
 *
 * Return: an exit code.
 */
int table_open(struct image *img, const struct table_args *t, const char *name, bool dry_run)
{
	char uuid[UUID_STR_LEN], dm_uuid[64];
	struct table_line line = {
		.name = name, .uuid = dm_uuid, .target = img->row->ops->name,
		.sectors = img->l.logical_blocks << SHINGLE_SECTORS_SHIFT,
		.params = table_params(img, t), .read_only = devices_read_only(&img->ds),
	};
	int ret;

	if (!line.params)
		return fail("out of memory");
	uuid_unparse_lower(img->l.uuid, uuid);
	snprintf(dm_uuid, sizeof(dm_uuid), "SHINGLE-%s", uuid);
	if (!dry_run) {
		/* The kernel opens the devices exclusively and allocates a map of its own. */
		devices_close(&img->ds);
		image_drop_engine(img);
	}
	ret = table_load(&line, !t->no_udev, dry_run);
	free(line.params);
	return ret;
}
